import json

import pytest
from traced_programs import chain

from dagprofiler._util.text import fitted
from dagprofiler.analysis.summary import PARTS, figures
from dagprofiler.cli._output import text


def test_show_prints_all_parts_or_some_in_80_columns(cli, shelf):
    done = cli("show", shelf.profile)
    heads = ("where ", "task  time ms", "edge ", "critical path: ")
    parts = done.out.split("\n\n")
    assert parts[0].startswith(f"{shelf.target}, 3 tasks, 2 edges, ")
    assert all(any(part.startswith(head) for part in parts) for head in heads)
    assert max(map(len, done.out.splitlines())) <= 80
    assert "configuration: N=100, factor=2.0, names=['a'], on=True, label='x', " in " ".join(
        done.out.split()
    )
    out = cli("show", shelf.profile, "--part", "edges").out
    assert [line.split()[0] for line in out.splitlines()] == ["edge", "read", "add"]
    assert (fitted("abcdefghij", 9), fitted("abc", 9)) == ("abc...hij", "abc")


def test_costs_are_of_the_source_asked_for(cli, shelf, refused):
    shown = cli("show", shelf.profile, "--cost", "cpu_time").out
    assert "task  cpu_time ms" in shown
    found = json.loads(cli("show", shelf.profile, "--cost", "cpu_time", "--json").out)
    assert list(found) == [part for part in PARTS if part != "meters"]
    assert found["summary"]["cost"] == "cpu_time"
    assert found["summary"]["config"]["names"] == ["a"]
    assert found["path"]["work"] == pytest.approx(sum(task["cost"] for task in found["tasks"]))
    assert "none for" in refused("show", shelf.profile, "--cost", "counted")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["name"], ["add", "read", "show"]),
        (["order"], ["read", "add", "show"]),
        (["in", "--top", "1"], ["add", "..."]),
    ],
)
def test_tasks_are_sorted_as_asked_and_the_rest_is_counted(cli, shelf, options, expected):
    out = cli("show", shelf.profile, "--part", "tasks", "--sort", *options).out
    assert [line.split()[0] for line in out.splitlines()[1:]] == expected


def test_a_traced_run_shows_the_spans_on_its_path():
    found = figures(chain().run())
    calls = {one["name"]: one["calls"] for one in found["path"]["spans"]["spans"]}
    assert calls == {"read": 1, "count_to": 1, "fill": 1, "Wait.one": 3}
    lines = text(found, parts=("path",), top=1).split("\n\n")[1].splitlines()
    head = "critical path by span in calls total ms self ms of the path"
    assert " ".join(lines[0].split()) == head
    assert lines[2] == "... and 4 more spans; --top 0 shows all"
    assert "(in no span)" in text(found, parts=("path",))
