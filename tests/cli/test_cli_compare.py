import json
from pathlib import Path

import pytest
from cli_runner import command
from handmade import handmade

from dagprofiler import Config, EdgeMetrics, Profile

TEN = [10.0 + i / 100 for i in range(10)]


@pytest.fixture
def write(cli, folder):
    """Return a function that writes a profile with samples of its tasks; it returns its path."""

    def written(name, config=None, edge_bytes=100, fresh=True, busy_cores=0, **factors):
        tasks = {task: {"wall_ms": [f * time for time in TEN]} for task, f in factors.items()}
        edges = [EdgeMetrics(*[*tasks][:2], ["x"], edge_bytes)] if edge_bytes else []
        rounds = {"rounds": ["measured"] * 10, "total_ms": [20.0] * 10}
        conditions = {"fresh_process": fresh, "busy_cores": busy_cores}
        sections = {
            "samples": {**rounds, "tasks": tasks, "edges": {}},
            "run": {"state": "complete", "rounds": 10, "conditions": conditions},
            "environment": {"cpu": "some cpu", "machine": "x86_64"},
        }
        known = {"config": Config(**(config or {})), "total_ms": 20.0, "hostname": "lab-7"}
        return handmade(tasks, edges, **known, sections=sections).save(Path(folder, name))

    return written


@pytest.fixture
def base(write):
    return write("base.json", a=1.0, b=1.0)


def test_compare_prints_verdicts_also_as_markdown(cli, write, base):
    new = write("new.json", {"N": 3}, a=1.2, b=0.8)
    found = json.loads(cli("compare", base, new, "--json").out)["comparisons"][0]
    assert (found["base"], found["new"]) == (base, new)
    verdicts = {name: entry["verdict"] for name, entry in found["task_times"].items()}
    assert verdicts == {"a": "slower", "b": "faster"}
    shown = cli("compare", base, new).out
    headline = found["headline"]
    assert headline.startswith("no significant difference in all (20 ms -> 20 ms a round); 1 of 2")
    assert "".join(shown.split()).startswith("".join(f"{new} against {base}: {headline}".split()))
    assert "1.200  1.20 to 1.20  slower" in shown
    assert shown.index(" base ms ") < shown.index(" new ms ")
    assert "N  None  3" in shown
    files = [write(name, edge_bytes=0, **{"a|<b>*x*@me": 1.0}) for name in ("f.json", "s.json")]
    out = cli("compare", *files, "--markdown").out
    assert "| a\\|\\<b\\>\\*x\\*\\@me | " in out
    assert "|---|---:|---:|---:|---:|---|" in out


@pytest.mark.parametrize(
    ("factor", "condition", "code"),
    [
        (1.2, "slower", 1),
        (1.2, "slower > 5%", 1),
        (1.2, "slower>30 %", 0),
        (1.2, "slower > 20%", 0),
        (1.01, "slower", 0),
        (0.8, "slower", 0),
    ],
)
def test_fail_if_asks_for_the_whole_interval_beyond_the_share(
    cli, write, base, factor, condition, code
):
    done = cli("compare", base, write("n.json", a=factor, b=1), "--fail-if", condition, code=code)
    assert ("failed: " in done.out) == bool(code)


@pytest.fixture
def noisy(write):
    """Return the path of a profile whose task `a` varies by half of its time."""
    path = Path(write("noisy.json", a=1.0, b=1.0))
    document = json.loads(path.read_text(encoding="utf-8"))
    document["samples"]["tasks"]["a"]["wall_ms"] = [9, 14, 9, 14, 9, 14, 9, 14, 14, 9.0]
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def test_a_slowdown_that_noise_may_hide_fails_only_if_strict(cli, base, noisy):
    slower = ["compare", base, noisy, "--fail-if", "slower > 5%"]
    told = "a slowdown of up to 39 % of a could have been missed; about 465 rounds would show 5 %"
    assert told in " ".join(cli(*slower).out.split())
    cli(*slower, "--strict", code=3)
    assert json.loads(cli(*slower, "--json").out)["comparisons"][0]["missed"] == told
    assert "missed" not in cli("compare", base, noisy, "--fail-if", "slower > 80%", "--strict").out
    # One that was sought among the faster ones would have been seen.
    assert "missed" not in cli("compare", noisy, base, "--fail-if", "slower > 12%", "--strict").out
    # Twenty times of 10 ms are not a share of a whole of 20 ms.
    cli(*slower, "--strict", "--least-share", "0.99")


def test_the_whole_and_large_tasks_make_compare_fail(cli, write, base):
    new = write("new.json", a=1.3, b=1.0)
    document = json.loads(Path(new).read_text(encoding="utf-8"))
    document["samples"]["total_ms"] = [1.2 * time for time in document["samples"]["total_ms"]]
    Path(new).write_text(json.dumps(document), encoding="utf-8")
    options = ["compare", base, new, "--fail-if", "slower > 5%"]
    out = cli(*options, code=1).out
    assert "failed: slower > 5%: the whole (+20.0%), a (+30.0%)" in out
    out = cli(*options, "--least-share", "1", code=1).out
    assert "failed: slower > 5%: the whole (+20.0%)\n" in out


def test_of_bytes_alone_no_verdict_on_times_is_asked(cli, write, base):
    single = write("single.json", fresh=False, a=1.0, b=1.0)
    cli("compare", base, single, "--fail-if", "larger")
    cli("compare", base, single, "--fail-if", "larger", "--fail-if", "slower", code=3)


def test_fail_if_larger_looks_at_the_bytes_of_edges(cli, write, base):
    new = write("new.json", edge_bytes=110, a=1.0, b=1.0)
    assert "a->b   100  110     +10.0 %" in cli("compare", base, new).out
    cli("compare", base, new, "--fail-if", "larger > 10%")
    out = cli("compare", base, new, "--fail-if", "larger > 5%", code=1).out
    assert "failed: larger > 5%: a->b (+10.0%)" in out
    empty = write("empty.json", edge_bytes=0, a=1.0, b=1.0)
    out = cli("compare", empty, base, "--fail-if", "larger > 900%", code=1).out
    assert "failed: larger > 900%: a->b (0 -> 100 bytes)" in out
    cli("compare", base, empty, "--fail-if", "larger")
    cli("compare", empty, empty, "--fail-if", "larger")


def test_what_cannot_be_compared_has_exit_code_3(cli, write, base, noisy):
    out = cli("compare", base, write("new.json", fresh=False, a=2.0, b=2.0), code=3).out
    assert "inconclusive [1]" in out
    assert "--fresh-process" in out
    assert "compare --run BASE NEW" in " ".join(out.split())
    assert "run(rounds=" not in out
    out = cli("compare", noisy, write("other.json", busy_cores=1, a=1.0, b=1.0), code=3).out
    assert "busy_cores is 1 now, 0 in the base" in " ".join(out.split())
    assert "--fresh-process" not in out
    assert "for a verdict" not in out


def test_tasks_of_one_side_are_named(cli, refused, write, base):
    out = cli("compare", base, write("new.json", a=1.0, c=1.0)).out
    out = " ".join(out.split())
    assert "base.json, so not compared: b" in out
    assert "new.json, so not compared: c" in out
    line = refused("compare", base, write("other.json", c=1.0, d=1.0), code=3)
    assert "have no task in common" in line


def test_several_profiles_are_compared_with_one_base(cli, write, base, folder, shelf):
    good, bad = write("good.json", a=1.0, b=1.0), write("bad.json", a=1.5, b=1.0)
    out = cli("compare", base, good, bad, "--fail-if", "slower", code=1).out
    assert out.split().count("against") == 2
    new = write("new.json", a=1.2, b=1.0)
    text = Path(base).read_text(encoding="utf-8")
    options = ["--fail-if", "slower > 5%"]
    done = command("compare", "-", new, *options, cwd=shelf.folder, input=text, code=1)
    assert "failed: slower > 5%: a (+20.0%)" in done.stdout


def test_two_targets_are_measured_in_turns(cli, folder):
    target = "pipeline_of_tests:build"
    # So much that no other program can hide it.
    options = ["--rounds", "8", "--warmup", "0", "--config", "N=1000", "--new-config", "N=2e5"]
    outputs = [f"{folder}/base.json", f"{folder}/new.json"]
    options += ["-o", *outputs, "--json", "--report", f"{folder}/page.html"]
    (one,) = json.loads(cli("compare", "--run", target, target, *options).out)["comparisons"]
    assert one["config_diff"].pop("N") == {"self": 200_000, "other": 1000}
    assert "<object object at" in one["config_diff"]["model"]["self"]
    assert one["task_times"]["add"]["verdict"] == "slower"
    assert Profile.load(outputs[1]).config.N == 200_000
    # The page has the verdicts of rounds in turns, which two profiles would not have.
    page = Path(folder, "page.html").read_text(encoding="utf-8")
    assert '"verdict":"slower","reason":null' in page
    # All say the same words.
    assert json.dumps(one["headline"].replace(">", "\\u003e"))[1:-1].replace("\\\\", "\\") in page
