import io
import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from sample_profiles import HOSTILE, golden_profile, large_profile, profile_of

from dagprofiler import DAG, Config, Profile, map_over, reduce, simulate, task, tracing
from dagprofiler.errors import RunError, WeightError
from dagprofiler.report import EXPORTER
from dagprofiler.report import data as series
from dagprofiler.stats import FLAGS


@task(outputs=["rows"], estimate_fn=lambda cfg: 100)
def read(cfg):
    return {"rows": list(range(cfg.n))}


@task(inputs=["rows"], outputs=["total"])
def add(rows):
    return {"total": sum(rows)}


def small(n=100, **tasks):
    edges = [("read", "add"), *(("add", name) for name in tasks)]
    return DAG({"read": read, "add": add, **tasks}, edges, Config(n=n))


def data_of(profile, **options):
    """What the page is told."""
    text = EXPORTER.render(profile, **options).text
    return json.loads(re.search(r'type="application/json">(.*?)</script>', text)[1])


@pytest.fixture(scope="module")
def profile():
    return small().run(seed=1, rounds=7, meters="default")


@pytest.fixture(scope="module")
def found(profile):
    return data_of(profile)


def figures(part):
    return {one["key"]: one for one in part["figures"]}


def test_a_report_is_written_to_a_path_or_a_stream(profile, tmp_path):
    assert profile.report(tmp_path / "page.htm") == ()
    loaded = Profile.loads(profile.dumps())
    profile.export(tmp_path / "a.html", base=loaded)
    loaded.report(tmp_path / "b.html", profile)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    stream = io.StringIO()
    loaded.report(stream)
    assert stream.getvalue() == (tmp_path / "page.htm").read_text(encoding="utf-8")
    assert stream.getvalue().startswith("<!doctype html>")


@pytest.mark.parametrize("names", [[], ["a"], HOSTILE])
def test_the_smallest_and_the_strangest_profiles_have_reports(names):
    found = data_of(profile_of(names))
    assert found["names"] == names
    assert len(found["pictures"][0]["layout"]["layers"]) == len(names)
    assert not {"timeline", "samples", "growth"} & found.keys()
    assert found["pictures"][0]["kind"] == "tasks"


def test_headline_has_makespan_path_and_parallelism(profile, found):
    summary = found["summary"]
    assert summary["total_ms"] == profile.metrics.total_time_ms
    assert (summary["total"]["n"], summary["unit"], summary["parallelism"]) == (7, "ms", 1)
    assert summary["work"] == summary["span"] <= summary["with_edges"]
    assert found["tasks"]["path"] == [0, 1]
    assert summary["bytes"] == profile.metrics.edge_metrics[0].size_bytes
    assert {one["name"] for one in summary["bottlenecks"]} == {"read", "add", "read->add"}


def test_tasks_edges_and_their_samples_have_figures_in_columns(profile, found):
    columns = figures(found["tasks"])
    times = [entry.compute_time_ms for entry in profile.metrics.task_metrics]
    compute = columns["compute_time_ms"]
    assert (compute["unit"], compute["values"]) == ("ms", times)
    assert columns["estimated_instructions"]["values"] == [100, None]
    assert columns["bytes_out"]["unit"] == "bytes"
    assert columns["cpu_time_ms"]["label"] == "CPU time"
    edges = found["edges"]
    assert (edges["source"], edges["target"], edges["fields"]) == ([0], [1], ["rows"])
    assert {"size_bytes", "wire_bytes", "serialize_ms"} <= figures(edges).keys()
    samples, section = found["samples"], profile.sections["samples"]
    assert samples["rounds"] == section["rounds"]
    first = samples["columns"][0]
    assert first["rows"][1] == section["tasks"]["add"][first["key"]]
    summary = profile.sections["statistics"]["tasks"]["add"][first["key"]]
    assert samples["statistics"][1] == summary


def test_the_rest_is_as_the_sections_of_the_profile_have_it(profile, found):
    timeline, section = found["timeline"], profile.sections["timeline"]
    assert list(timeline["columns"]) == section["columns"]
    assert len(timeline["columns"]["task"]) == len(section["records"])
    assert dict(timeline["rounds"])[timeline["first"]] == "measured"
    raised = {(one["flag"], name) for one in found["flags"] for name in one["tasks"]}
    flags = profile.sections["statistics"]["flags"]
    assert raised == {(flag, name) for name in flags for flag in flags[name]}
    assert all(one["meaning"] == FLAGS[one["flag"]] for one in found["flags"])
    assert found["profile"]["run"] == profile.sections["run"]
    cfg = {"model": complex(1, 2), "on": True, "list": [1, "</script>"]}
    values = data_of(DAG({"read": read}, [], Config(n=3, **cfg)).run())["profile"]["configuration"]
    assert values == {**cfg, "n": 3, "model": "(1+2j)"}


def test_a_partial_run_says_what_failed():
    @task(outputs=[])
    def fail(total):
        raise ValueError("no <b>luck</b>")

    with pytest.raises(RunError) as caught:
        small(fail=fail).run()
    found = data_of(caught.value.profile)
    assert found["profile"]["run"]["state"] == "partial"
    failed = found["profile"]["run"]["tasks"]["fail"]
    assert (failed["state"], failed["error"]) == ("failed", "ValueError: no <b>luck</b>")
    assert failed["traceback"][-1]["text"] == 'raise ValueError("no <b>luck</b>")'
    # What ran has a time; what did not counts as 0.
    assert found["summary"]["filled"] == 1
    assert figures(found["tasks"])["compute_time_ms"]["values"][2] is None


def test_costs_are_wall_times_or_those_asked_for(profile, found):
    assert (found["summary"]["unit"], found["summary"]["with_communication"]) == ("ms", True)
    reference = data_of(profile, cost="reference_time", statistic="min")["summary"]
    assert reference["unit"] == "reference ms"
    assert data_of(golden_profile())["summary"]["with_communication"] is False
    without = data_of(profile_of(["a"], {"a": 0}))
    assert "it has no wall_time_ms" in without["summary"]["why_not"]
    assert "cost" not in without["tasks"]
    with pytest.raises(WeightError):
        EXPORTER.render(profile_of(["a"]), cost="counted")


def test_a_base_gives_verdicts_and_what_differs(profile):
    other = small(50).run(seed=1, rounds=7, meters="default")
    found = data_of(profile, base=other)["comparison"]
    compared = profile.compare(other)
    assert found["headline"] == compared.headline()
    assert found["total"]["verdict"] == compared["total_time"]["verdict"] == "inconclusive"
    assert [row["task"] for row in found["tasks"]] == [0, 1]
    for row, entry in zip(found["tasks"], compared["task_times"].values()):
        assert {key: row[key] for key in ("base_ms", "new_ms", "ratio")}.items() <= entry.items()
        assert found["reasons"][row["reason"]] == entry["reason"]
    assert found["base"]["profile"]["configuration"] == {"n": 50}
    assert found["base"]["summary"]["total_ms"] == other.metrics.total_time_ms
    weights = [run.metrics.edge_weights["read->add"] for run in (profile, other)]
    assert found["bits"] == [["read->add", *weights]]
    found = data_of(profile, base=profile_of(["read", "gone"]))["comparison"]
    assert (found["added"], found["removed"], found["tasks"]) == (["add"], ["gone"], [])


def test_a_prediction_stands_beside_the_real_run():
    plan = {"edge": ["read"], "cloud": ["add"]}
    with ThreadPoolExecutor(1) as edge, ThreadPoolExecutor(1) as cloud:
        real = small().run(executor={"edge": edge, "cloud": cloud}, schedule=plan, rounds=3)
    predicted = simulate(real, schedule=plan).profile
    error = real.compare(predicted)["prediction"]
    for subject, base in [(real, predicted), (predicted, real)]:
        found = data_of(subject, base=base)["comparison"]["prediction"]
        assert found["error"] == error["error"]
        parts = error["parts"].values()
        assert [part["error"] for part in found["parts"]] == [part["error"] for part in parts]
        assert [side for side, _ in found["sides"]] == ["predicted", "real"]
        for _, timeline in found["sides"]:
            assert sorted(timeline["workers"]) == ["node cloud", "node edge"]
            assert {*timeline["columns"]["task"]} == {0, 1}
    assert data_of(real, base=real)["comparison"]["prediction"] is None


def test_a_simulation_has_a_curve_over_workers(profile, found):
    assert found["profile"]["prediction"] == {}
    simulation = simulate(profile, workers=range(1, 4))
    prediction = data_of(simulation.profile)["profile"]["prediction"]
    assert [point["workers"] for point in prediction["curve"]] == [1, 2, 3]
    assert prediction["gains"] == pytest.approx(simulation.gains, abs=1e-6)
    assert prediction["reasons"] == [*simulation.reasons]
    # Bounds end where more workers are of no use.
    wide = profile_of([f"t{i}" for i in range(2000)], {f"t{i}": 1 for i in range(2000)})
    wide.dag_structure["edges"] = []
    assert [row[0] for row in data_of(wide)["summary"]["bounds"]] == [2**k for k in range(10)]
    assert [row[0] for row in found["summary"]["bounds"]] == [1]


def test_a_large_dag_is_shown_in_groups_first():
    groups, tasks = data_of(large_profile(2000))["pictures"]
    assert (groups["kind"], tasks["kind"]) == ("groups", "tasks")
    assert len(tasks["tasks"]) == sum(map(len, groups["tasks"])) == 2000
    assert len(groups["tasks"]) < 50
    huge = EXPORTER.render(large_profile(5000))
    assert any("groups of them" in loss for loss in huge.losses)


def test_too_many_rounds_and_samples_are_left_out(profile, monkeypatch):
    monkeypatch.setattr(series, "_RECORDS", 5)
    assert "rounds" in EXPORTER.render(profile).losses[0]
    timeline = data_of(profile)["timeline"]
    shown = {number for number, _ in timeline["rounds"]}
    assert shown == set(timeline["columns"]["round"])
    assert timeline["first"] in shown
    assert len(shown) + timeline["left_out"] == len(profile.sections["samples"]["rounds"])
    monkeypatch.undo()
    monkeypatch.setattr(series, "_SAMPLES", 1)
    assert EXPORTER.render(profile).losses[0].startswith("too many for a page: samples of ")
    assert [column["key"] for column in data_of(profile)["samples"]["columns"]] == ["corrected_ms"]


def test_spans_come_with_their_tasks(monkeypatch):
    @task(outputs=["rows"])
    def load():
        with tracing.span("outer"), tracing.span("inner"):
            return {"rows": [1]}

    run = DAG({"load": load, "add": add}, [("load", "add")]).run()
    spans = data_of(run)["spans"]
    names = [spans["labels"][label]["name"] for *_, label, _, _ in spans["records"]]
    assert sorted(names) == ["inner", "outer"]
    assert all(task == 0 and start <= end for task, *_, start, end in spans["records"])
    inner, outer = sorted(spans["critical"]["spans"], key=lambda span: span["name"])
    assert (inner["tasks"], inner["calls"]) == (outer["tasks"], outer["calls"]) == (["load"], 1)
    assert outer["self_ms"] == pytest.approx(outer["total_ms"] - inner["total_ms"])
    run.sections["spans"]["records"] *= 4
    monkeypatch.setattr(series, "_RECORDS", 5)
    assert "3 spans" in EXPORTER.render(run).losses[0]


def test_how_a_graph_grew_is_told_step_by_step():
    look = task(outputs=["row"])(lambda row: {"row": row})(name="look")
    merge = task(outputs=["rows"], gathers=["row"])(lambda row: {"rows": row})(name="merge")
    rules = [map_over("read", "rows", look), reduce("look", merge)]
    profile = DAG({"read": read}, config=Config(n=3), rules=rules).run()
    growth, kinds = data_of(profile)["growth"], data_of(profile)["kinds"]
    assert growth["steps"] == profile.sections["origins"]["fired"]
    assert growth["step_of_task"] == [0, 1, 1, 1, 2]
    assert {*kinds["labels"]} == {"read", "map look", "reduce merge"}
