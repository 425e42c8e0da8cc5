from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runner import command

from dagprofiler import DAG, Profile, RunError, span, task
from dagprofiler._util.text import fitted
from dagprofiler.analysis.summary import PARTS, figures
from dagprofiler.cli._output import text


def test_show_prints_every_part_in_80_columns(shelf):
    done = command("show", shelf.profile, cwd=shelf.folder, code=0)
    blocks = done.stdout.split("\n\n")
    assert blocks[0].startswith(f"{shelf.target}, 3 tasks, 2 edges, ")
    assert blocks[1].startswith("task  time ms")
    assert blocks[2].startswith("edge ")
    assert blocks[3].startswith("critical path: ")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_parts_are_shown_alone(cli, shelf):
    out = cli("show", shelf.profile, "--part", "edges").out
    assert [line.split()[0] for line in out.splitlines()] == ["edge", "read", "add"]


def test_a_name_that_is_too_long_loses_its_middle():
    assert fitted("abcdefghij", 9) == "abc...hij"
    assert fitted("abc", 9) == "abc"


def test_costs_are_of_the_source_that_was_asked_for(cli, shelf, refused):
    shown = cli("show", shelf.profile, "--cost", "cpu_time").out
    assert "task  cpu_time ms" in shown
    found = json.loads(cli("show", shelf.profile, "--cost", "cpu_time", "--json").out)
    assert found["summary"]["cost"] == "cpu_time"
    assert found["path"]["work"] == pytest.approx(sum(task["cost"] for task in found["tasks"]))
    assert "none for" in refused("show", shelf.profile, "--cost", "counted")


def test_work_critical_path_and_the_table_are_of_the_same_times():
    found = figures(DAG({"a": hostile, "b": hostile}, [("a", "b", [])]).run(rounds=6))
    times = {task["task"]: task["time_ms"] for task in found["tasks"]}
    assert {task["task"]: task["cost"] for task in found["tasks"]} == times
    assert found["path"]["tasks"] == ["a", "b"]
    assert found["path"]["span"] == found["path"]["work"] == pytest.approx(sum(times.values()))


def test_tasks_are_sorted_as_asked_and_the_rest_is_counted(cli, shelf):
    def first(*options):
        lines = cli("show", shelf.profile, "--part", "tasks", *options).out.splitlines()
        return [line.split()[0] for line in lines[1:]]

    assert first("--sort", "name") == ["add", "read", "show"]
    assert first("--sort", "order") == ["read", "add", "show"]
    assert first("--sort", "in")[0] == "add"
    assert first("--sort", "out") == ["read", "show", "add"]
    assert first("--sort", "order", "--top", "1") == ["read", "..."]


def test_json_has_the_same_figures(cli, shelf):
    found = json.loads(cli("show", shelf.profile, "--json").out)
    assert list(found) == [part for part in PARTS if part != "meters"]
    assert {task["task"] for task in found["tasks"]} == {"read", "add", "show"}
    assert found["path"]["tasks"] == ["read", "add", "show"]


def test_a_profile_comes_from_standard_input(shelf):
    text_of_it = Path(shelf.profile).read_text(encoding="utf-8")
    done = command("show", "-", "--part", "summary", cwd=shelf.folder, code=0, input=text_of_it)
    assert done.stdout.startswith(f"{shelf.target}, 3 tasks")


@task(outputs=["x"], estimate_fn=lambda cfg: 1200)
def hostile():
    return {"x": b"0" * 12_345_678}


def test_names_cannot_upset_a_terminal_and_numbers_have_units():
    profile = DAG({"a\x1b[31m\nb": hostile}).run()
    shown = text(figures(profile), parts=PARTS, top=0)
    assert "a\\x1b[31m\\nb" in shown
    assert "\x1b" not in shown
    assert "12.35 MB" in shown
    assert "1,200" in shown


def test_what_a_profile_does_not_say_is_not_shown_as_0():
    one = DAG({"only": hostile}).run()
    document = one.to_dict()
    for section in ("run", "weight_sources", "timeline", "environment", "edge_metrics"):
        document.pop(section, None)
    document["execution_metrics"] = []
    del document["total_time_ms"]
    found = figures(Profile.from_dict(document))
    assert found["summary"]["total_time_ms"] is None
    assert found["tasks"][0]["time_ms"] is None
    assert "-" in text(found, parts=("tasks",), top=0)


def test_a_profile_without_tasks_can_be_shown():
    assert text(figures(DAG({}).run())).startswith("0 tasks, 0 edges")


@task(outputs=["x"])
def fails():
    raise ValueError("no such cell")


def test_a_partial_profile_says_why():
    with pytest.raises(RunError) as caught:
        DAG({"fails": fails}).run()
    shown = text(figures(caught.value.profile), parts=PARTS, top=0)
    assert "PARTIAL: task 'fails' failed: ValueError: no such cell" in shown
    assert "no critical path: " in shown


def test_flags_are_explained_with_their_tasks():
    profile = DAG(dict.fromkeys("abc", hostile)).run(rounds=2)
    profile.sections["statistics"]["flags"] = {"a": ["short"], "b": ["short"], "c": ["waits"]}
    shown = text(figures(profile), ("summary", "flags"))
    head = shown.split("\n\n")[0]
    assert "\nshort: a, b\n" in head
    assert "\nwaits: c\n" in head
    assert "\nshort: The median is under 0.1 ms" in shown


@task(outputs=["x"])
def traced():
    with span("outer"):
        for _ in range(3):
            with span("in\x1bner"):
                pass
    return {"x": 1}


def test_a_run_that_was_traced_shows_the_spans_on_its_critical_path():
    found = figures(DAG({"traced": traced}).run())
    lines = text(found, parts=("path",), top=1).split("\n\n")[1].splitlines()
    assert [span["calls"] for span in found["path"]["spans"]["spans"]] in ([1, 3], [3, 1])
    head = "critical path by span in calls total ms self ms of the path"
    assert " ".join(lines[0].split()) == head
    assert lines[2] == "... and 2 more spans; --top 0 shows all"
    assert "in\\x1bner" in text(found, parts=("path",))
    assert "(in no span)" in text(found, parts=("path",))


def test_a_long_critical_path_is_shown_by_its_ends():
    names = [f"t{i}" for i in range(30)]
    dag = DAG(dict.fromkeys(names, hostile), [(a, b, []) for a, b in zip(names, names[1:])])
    shown = " ".join(text(figures(dag.run()), parts=("path",)).split())
    assert "t0 -> t1 -> t2 -> t3 -> t4 -> t5 -> ... 19 more ... -> t25 -> " in shown
