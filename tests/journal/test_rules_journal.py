"""A run of a graph that grows is gone on with where it was killed."""

import os

import pytest
from handmade import edge_bytes
from journal_files import cut_after, outputs_file
from journal_tasks import last, ran

from dagprofiler import DAG, Config, Journal, Rounds, rng, task
from dagprofiler.errors import JournalError, RunError
from dagprofiler.rules import Rule, after, all_succeeded, map_over, rule


@task(outputs=["files"])
def files(cfg):
    ran["files"] += 1
    return {"files": [f"{'x' * n}.txt" for n in range(cfg.n)]}


@task(outputs=["length", "lines"])
def process(file):
    ran["process"] += 1
    return {"length": len(file) + int(rng().integers(1000)), "lines": [file, file.upper()]}


@task(outputs=["seen"])
def look(line):
    ran["look"] += 1
    return {"seen": line[::-1]}


@task(outputs=["all"], gathers=["seen", "length"])
def merges(seen, length):
    ran["merge"] += 1
    return {"all": [*seen, *length]}


@rule(all_succeeded("look"), reads=["process"])
def merge(graph):
    lengths = [(one, ["length"]) for one in graph.tasks("process")]
    graph.add_task("merge", merges, after=[*graph.tasks("look"), *lengths])


@task(outputs=["limit"])
def decides(limit):
    ran["decides"] += 1
    return {"limit": limit}


@rule(after("merge"))
def branch(graph):
    name = "many" if len(graph["merge"].output("all")) > 3 else "few"
    graph.add_task(name, decides.bind(limit=3), [("merge", [])])


def program(rules=(merge, branch)):
    maps = [map_over("files", "files", process), map_over("process", "lines", look, into="line")]
    return DAG({"files": files}, config=Config(n=3), rules=[*maps, *rules])


ASKED = {"seed": 3, "keep": ["files", "merge", "look[1][0]"]}
TASKS = 1 + 3 + 6 + 1 + 1


@pytest.mark.parametrize("count", [0, 1, 4, 7, TASKS - 1, TASKS + 1])
def test_what_finished_is_not_run_again_and_the_graph_grows_on(journal, count):
    whole = program().run(**ASKED)
    ran.clear()
    cut_after(journal, count)
    profile = program().resume(journal)
    assert sum(ran.values()) == TASKS - min(count, TASKS)
    assert profile.outputs == whole.outputs
    assert edge_bytes(profile) == edge_bytes(whole)
    assert profile.dag_structure == whole.dag_structure
    assert profile.sections["run"]["state"] == "complete"
    # It goes on as well: what was done then is not done now.
    ran.clear()
    assert program().resume(journal).outputs == whole.outputs
    assert not ran


def test_rules_that_fired_did_so_when_they_did(tmp_path):
    before = program().run(**ASKED, hooks=[Journal(tmp_path)])
    again = program().resume(tmp_path)
    moments, resumed = (
        {one["rule"]: one["at_ms"] for one in profile.sections["origins"]["fired"]}
        for profile in (before, again)
    )
    # What has added rules alone is on nobody's record.
    del moments["map look"], resumed["map look"]
    assert resumed == pytest.approx(moments, abs=1e-3)
    timeline = again.sections["timeline"]
    for row in timeline["records"]:
        told = dict(zip(timeline["columns"], row))
        assert told["ready_ms"] <= told["deserialize_start_ms"]


def test_rounds_are_gone_on_with(tmp_path):
    whole = program().run(**ASKED, rounds=Rounds(3, warmup=1), hooks=[Journal(tmp_path)])
    # Of the third round some.
    cut_after(tmp_path, 2 * (TASKS + 1) + 5)
    ran.clear()
    profile = program().resume(tmp_path)
    assert sum(ran.values()) == 2 * TASKS - 5
    assert profile.outputs == whole.outputs
    assert profile.dag_structure == whole.dag_structure
    assert len(profile.sections["origins"]["fired"]) == len(whole.sections["origins"]["fired"])
    samples = profile.sections["samples"]
    for name, columns in whole.sections["samples"]["tasks"].items():
        assert samples["tasks"][name]["wall_ms"][:2] == pytest.approx(columns["wall_ms"][:2])


def test_lost_outputs_are_made_again(journal):
    whole = program().run(**ASKED)
    ran.clear()
    cut_after(journal, TASKS)
    path = outputs_file(journal)
    os.truncate(path, path.stat().st_size // 2)
    profile = program().resume(journal)
    assert 0 < sum(ran.values()) < TASKS
    assert profile.outputs == whole.outputs
    assert profile.sections["run"]["resumed"][0]["dropped"]


def test_a_journal_without_its_pickles_is_refused(journal):
    for path in journal.glob("*.pickle"):
        path.unlink()
    with pytest.raises(JournalError, match="cannot be read: FileNotFoundError"):
        program().resume(journal)


def test_a_rule_that_failed_is_asked_again(tmp_path):
    fails = Rule(after("merge"), lambda graph: graph["nobody"], "branch")
    with pytest.raises(RunError):
        program(rules=[merge, fails]).run(**ASKED, hooks=[Journal(tmp_path)])
    ran.clear()
    assert "many" in program().resume(tmp_path).outputs
    assert ran == {"decides": 1}


def test_rules_that_do_something_else_now_are_refused(journal):
    with pytest.raises(JournalError, match=r"rules: .*in the journal"):
        program(rules=[merge]).resume(journal)

    def elsewhere(graph):
        graph.add_task("merge", merges, after=graph.tasks("look"))

    def other(graph):
        graph.add_task("another", last, [(graph.tasks("look")[0], [])])

    def bound_anew(graph):
        graph.add_task("many", decides.bind(limit=4), [("merge", [])])

    never = Rule(lambda graph: False, lambda graph: None, "branch")
    looked = all_succeeded("look")
    for rules, says in (
        ([Rule(looked, elsewhere, "merge"), branch], "task 'merge': after"),
        ([Rule(looked, other, "merge"), never], "no rule .* finished before: 'm"),
        ([merge, Rule(after("merge"), bound_anew, "branch")], "bound.many.limit: 4.* 3"),
    ):
        with pytest.raises(JournalError, match=says):
            program(rules).resume(journal)
