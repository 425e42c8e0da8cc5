import json
import linecache
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import journal_programs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journal_files import copied, cut_after, lines, outputs_file, parsed, rewrite
from journal_tasks import last, ran, source, total, twice
from platforms import posix
from processes import limited_files

from dagprofiler import DAG, Config, Hook, Journal, Profile, Rounds
from dagprofiler.errors import DagProfilerWarning, JournalError, RunError, ValidationError
from dagprofiler.journal import LineFile
from dagprofiler.serializers import PickleSerializer

HERE = Path(__file__).resolve().parent

EDGES = [
    ("source", "twice", ["data"]),
    ("source", "total", {"data": "parts"}),
    ("twice", "total", {"twice": "parts"}),
    ("source", "total", ["label"]),
    ("total", "last", []),
]
TASKS = {"source": source, "twice": twice, "total": total, "last": last}
ASKED = {"seed": 3, "inputs": {"twice": {"offset": 5}}, "keep": ["source", "twice"]}

FRESH = Rounds(2, fresh_process=True)
HITS = SimpleNamespace(name="hits", unit="1", start=lambda: None, stop=lambda: 1)


def program(n=4, tasks=TASKS, edges=EDGES):
    return DAG(tasks, edges, Config(N=n))


def plain(profile):
    """Return what does not depend on times."""
    metrics = profile.metrics
    sizes = metrics.edge_weights, [one.bytes_out for one in metrics.task_metrics]
    return profile.seed, sizes, repr(profile.outputs), repr(profile.final_outputs)


def resume(directory, count=None):
    """Resume a journal, of which so many records are left; `ran` then has what that ran."""
    if count is not None:
        cut_after(directory, count)
    ran.clear()
    return program().resume(directory)


def test_resuming_a_complete_journal_runs_nothing(tmp_path):
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    asked = {**ASKED, "rounds": Rounds(3, warmup=1, check_outputs=True), "meters": "full"}
    first = program().run(**asked, hooks=[Journal(tmp_path)])
    before = lines(tmp_path)
    profile = program().resume(tmp_path, executor=closed)
    assert profile.to_dict() == first.to_dict()
    assert plain(profile) == plain(first)
    assert lines(tmp_path) == before


OPENS = "import sys; from dagprofiler import Journal; Journal(sys.argv[1]).reopen()"


def test_a_journal_is_not_resumed_while_its_run_goes_on(tmp_path):
    def resume_it(task):
        with pytest.raises(JournalError, match="another run in"):
            program().resume(tmp_path)
        # The refused one leaves the lock to the one that holds it.
        if task == "last":
            command = [sys.executable, "-c", OPENS, tmp_path]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            assert re.search("JournalError.*another process", done.stderr)

    hook, undisturbed = Hook(), plain(program().run(**ASKED))
    hook.task_started = resume_it
    assert plain(program().run(**ASKED, hooks=[Journal(tmp_path), hook])) == undisturbed
    # It is free again.
    assert plain(program().resume(tmp_path)) == undisturbed


@pytest.mark.parametrize("count", [11, 27])
def test_resume_continues_in_the_unfinished_round(tmp_path, count):
    asked = {**ASKED, "rounds": Rounds(4, warmup=1), "meters": ["cpu", "allocation"]}
    first = program().run(**asked, hooks=[Journal(tmp_path)])
    profile = resume(tmp_path, count)
    samples, before = profile.sections["samples"], first.sections["samples"]
    assert samples["rounds"] == before["rounds"]
    # Each round has a record of its end; the last one counts allocations.
    number, tasks = divmod(count, 5)
    assert ran == Counter([*TASKS] * (6 - number)) - Counter([*TASKS][:tasks])
    for i, (name, columns) in enumerate((name, before["tasks"][name]) for name in TASKS):
        for column, values in columns.items():
            kept = number + (i < tasks) - 5 * (column == "allocation_bytes")
            assert samples["tasks"][name][column][: max(0, kept)] == values[: max(0, kept)]
            assert len(samples["tasks"][name][column]) == len(values)
    resumed = profile.sections["run"]["resumed"][0]
    assert (resumed["round"], resumed["tasks"]) == (number, tasks)


@pytest.mark.parametrize(
    ("late_ms", "rounds", "ended_by"), [(9e5, 8, "max_rounds"), (19e5, 7, "max_time_s")]
)
def test_resume_counts_the_time_of_earlier_rounds(tmp_path, late_ms, rounds, ended_by):
    auto = Rounds("auto", warmup=0, max_rounds=8, max_time_s=950, precision=1e-9)
    program().run(**ASKED, rounds=auto, hooks=[Journal(tmp_path)])
    cut_after(tmp_path, 5 * 6 + 2)
    # As if the rounds had begun after 900 s and the journal ended at `late_ms`.
    kept = parsed(tmp_path)
    for line in kept[1:]:
        line["at_ms"] += late_ms
        if "kind" in line:
            line["began_ms"] += 9e5
        if "task" in line:
            line["times_ms"] = [ms + late_ms for ms in line["times_ms"]]
    rewrite(tmp_path, kept)
    run = resume(tmp_path).sections["run"]
    assert (run["rounds"], run["ended_by"]) == (rounds, ended_by)
    assert ran == Counter([*TASKS] * (rounds - 6)) - Counter(["source", "twice"])


class Fails(twice):
    def compute(self, data, offset):
        raise ValueError("not yet")


def test_failed_tasks_run_again(tmp_path):
    tasks = {**TASKS, "twice": Fails, "zz": last}
    with pytest.raises(RunError):
        program(tasks=tasks).run(**ASKED, on_error="finish", hooks=[Journal(tmp_path)])
    cut_after(tmp_path, 1)
    ran.clear()
    with pytest.raises(RunError) as caught:
        program(tasks=tasks).resume(tmp_path)
    assert list(caught.value.failures) == ["twice"]
    assert ran == {"last": 1}
    # What changed has no results that are taken over, so that there is nothing to warn of.
    ran.clear()
    whole = program(tasks={**TASKS, "zz": last})
    profile = whole.resume(tmp_path)
    assert ran == {"twice": 1, "total": 1, "last": 1}
    assert profile.sections["run"]["resumed"][-1]["changed"] == ["twice"]
    assert plain(profile) == plain(whole.run(**ASKED))


def test_a_run_can_be_resumed_again_and_again(journal):
    undisturbed = program().run(**ASKED)
    for count in range(5):
        # Each time one more task survives, with the record before it of the attempt that ran it.
        profile = resume(journal, 2 * count)
        assert sum(ran.values()) == 4 - count
    assert [one["tasks"] for one in profile.sections["run"]["resumed"]] == [0, 1, 2, 3, 4]
    assert plain(profile) == plain(undisturbed)


def test_resumed_timelines_are_on_one_clock(journal):
    profile = resume(journal, 2)
    timeline, metrics, run = profile.sections["timeline"], profile.metrics, profile.sections["run"]
    rows = [dict(zip(timeline["columns"], row)) for row in timeline["records"]]
    assert [row["task"] for row in rows] == [*TASKS]
    moments = [row[column] for row in rows for column in timeline["columns"][4:]]
    assert moments == sorted(moments)
    (resumed,) = run["resumed"]
    assert rows[1]["serialize_end_ms"] <= resumed["at_ms"] <= rows[2]["deserialize_start_ms"]
    assert resumed["gap_ms"] > 0
    assert metrics.total_time_ms >= moments[-1]
    spent = sum(
        one.deserialize_time_ms + one.compute_time_ms + one.serialize_time_ms
        for one in metrics.task_metrics
    )
    assert spent + sum(run["overhead"].values()) == pytest.approx(metrics.total_time_ms, abs=1e-3)


def test_resumed_profiles_hold_what_attempts_spent(tmp_path):
    asked = {**ASKED, "rounds": Rounds(2, warmup=0), "meters": "cpu"}
    program().run(**asked, hooks=[Journal(tmp_path)])
    cut_after(tmp_path, 7)
    header, *_, ended, _, _, last = kept = parsed(tmp_path)
    header["timestamp"] = "2020-01-01T00:00:00.000000Z"
    ended["ended"].update(total_s=50.0, waited_s=7.0, legacy_generators=False)
    ended["ended"]["attempts"] = {"source": ["it died"]}
    last["total_s"] = 60.0
    last["readings"].update(meters_s=1.0, garbage_s=2.0, store_s=3.0)
    rewrite(tmp_path, kept)
    sections = program().resume(tmp_path).sections
    run, (first_ms, second_ms) = sections["run"], sections["samples"]["total_ms"]
    assert first_ms == 50_000
    assert second_ms > 60_000
    for spent_ms, name in ((1000, "meters"), (2000, "garbage"), (3000, "journal")):
        assert run["overhead"][f"{name}_ms"] >= spent_ms
    assert run["attempts"] == {"source": [{"round": 0, "error": "it died"}]}
    assert run["legacy_generators"] is False
    (resumed,) = run["resumed"]
    # Years.
    assert resumed["gap_ms"] > 1e11


def test_all_that_differs_is_said_at_once(journal):
    class Other(last):
        outputs = ["finished"]

    class Pickled(total):
        serializer = PickleSerializer()

    tasks = {"twice": twice, "total": Pickled, "last": Other, "more": source}
    other = DAG(tasks, [("more", "twice", ["data"])], Config(N=5, M=1))
    with pytest.raises(JournalError) as caught:
        other.resume(journal, seed=1, inputs={"twice": {"x": 1}})
    assert caught.value.path == str(journal)
    first, *_ = problems = caught.value.problems
    assert first == "task 'last': outputs: ['finished'], in the journal ['done']"
    assert [problem.partition(",")[0].partition(": [")[0] for problem in problems[1:]] == [
        *("task 'last': after", "task 'source' is in the journal only"),
        *("task 'total': serializer: 'pickle'", "task 'total': fed with", "task 'total': after"),
        *("task 'twice': fed with", "task 'twice': after", "seed: 1"),
        *("inputs: twice: offset is in the journal only", "inputs: twice: x is not in the journal"),
        "config.N: 5",
        *("task 'more' is not in the journal", "config.M is not in the journal"),
    ]


STEP = "from dagprofiler import task\n@task(outputs=['x'])\ndef step():\n    return {'x': %d}\n"


def changed(text):
    """Return the task class that `text` makes of a module of its own."""
    name = f"<changed {hash(text)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    scope = {"__name__": "changed_tasks"}
    exec(compile(text, name, "exec"), scope)
    return scope["step"]


def test_resume_tells_changed_source_and_what_it_cannot_compare(tmp_path):
    DAG({"step": changed(STEP % 1)}, [], {"key": lambda: 0}).run(hooks=[Journal(tmp_path)])
    cut_after(tmp_path, 1)
    with pytest.warns(DagProfilerWarning, match="source of 'step' has"):
        profile = DAG({"step": changed(STEP % 2)}, [], {"key": lambda: 0}).resume(tmp_path)
    assert profile.outputs == {"step": {"x": 1}}
    (resumed,) = profile.sections["run"]["resumed"]
    assert resumed["changed"] == ["step"]
    assert resumed["not_compared"] == {"config.key": "it could not be pickled"}


def test_a_source_that_has_changed_on_disk_ends_no_run(tmp_path):
    step = changed(STEP % 3)
    name = vars(step)["__wrapped__"].__code__.co_filename
    linecache.cache[name] = 9, None, ["\n", "@task(\n"], name
    profile = DAG({"step": step}).run(hooks=[Journal(tmp_path)])
    assert profile.outputs == {"step": {"x": 3}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no journal in this directory"),
        ("Dear diary", "ended before it began"),
        ("Dear diary\n", "damaged.*JSONDecodeError: .*; run it again, in another directory$"),
        ('{"format": 99}\n', "format is 99, this version reads 6"),
    ],
)
def test_what_is_no_journal_is_refused_and_left_alone(tmp_path, content, says):
    path = tmp_path / "journal.jsonl"
    if content is not None:
        path.write_text(content)
        with pytest.raises(RunError, match="journal") as caught:
            program().run(**ASKED, hooks=[Journal(tmp_path)])
        assert isinstance(caught.value.__cause__, JournalError)
    with pytest.raises(JournalError, match=says):
        program().resume(tmp_path)
    assert content is None or path.read_text() == content
    assert not ran


@pytest.mark.parametrize(
    ("asked", "journals", "error", "says"),
    [
        ({}, ["journal"], RunError, "holds a journal already"),
        ({}, ["a", "b"], ValidationError, "in one place, got 2"),
        ({"rounds": FRESH}, ["a"], ValidationError, "fresh processes.*journal"),
        ({"meters": [HITS]}, ["a"], RunError, "meters cannot be recorded"),
        ({}, ["journal/journal.jsonl/below"], RunError, "written: (FileExists|NotADirectory)Error"),
    ],
)
def test_what_a_journal_cannot_record_is_refused(journal, asked, journals, error, says):
    before = lines(journal)
    hooks = [Journal(journal.parent / name) for name in journals]
    with pytest.raises(error, match=says):
        program().run(**ASKED, **asked, hooks=hooks)
    assert lines(journal) == before
    assert not ran


@pytest.mark.parametrize("pool", [None, ProcessPoolExecutor])
def test_workers_without_the_directory_are_an_error(tmp_path, pool):
    directory, hook = tmp_path / "journal", Hook()
    hook.run_started = lambda run: directory.rename(tmp_path / "elsewhere")
    with nullcontext() if pool is None else pool(1) as executor, pytest.raises(RunError) as caught:
        program().run(**ASKED, executor=executor, hooks=[Journal(directory), hook])
    error = caught.value.__cause__
    assert isinstance(error, JournalError)
    assert error.path == str(directory)
    assert re.search("worker .*cannot write there: there is no journal", str(error))
    assert not ran


@posix
def test_a_journal_on_a_full_disk_can_be_resumed(tmp_path):
    def fills(task):
        if task == "total":
            stack.enter_context(limited_files((directory / "journal.jsonl").stat().st_size + 100))

    directory, large, hook = tmp_path / "outputs", program(n=10_000), Hook()
    hook.task_started = fills
    failed = "task 'source' failed: .*cannot write there: OSError"
    with limited_files(30_000), pytest.raises(RunError, match=failed):
        large.run(**ASKED, hooks=[Journal(directory)])
    ran.clear()
    assert plain(large.resume(directory)) == plain(large.run(**ASKED))
    assert ran == dict.fromkeys(TASKS, 2)
    directory = tmp_path / "records"
    failed = r"Journal\.task_finished failed: .*cannot be written"
    with ExitStack() as stack, pytest.raises(RunError, match=failed) as caught:
        program().run(**ASKED, hooks=[Journal(directory), hook])
    measured = [metrics.task for metrics in caught.value.profile.metrics.task_metrics]
    assert measured == ["source", "twice", "total"]
    profile = resume(directory)
    assert ran == {"total": 1, "last": 1}
    assert plain(profile) == plain(program().run(**ASKED))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A journal that is complete, made once, and what is plain of its run."""
    directory = tmp_path_factory.mktemp("made") / "journal"
    return directory, plain(program().run(**ASKED, hooks=[Journal(directory)]))


quickly = settings(
    max_examples=settings.default.max_examples // 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("whole", [-1, 0, 1, 2, 5, 7])
@quickly
@given(st.data())
def test_finished_tasks_do_not_run_again_after_any_cut(made, tmp_path, whole, data):
    directory = copied(made[0], tmp_path / "copy")
    ends = [*accumulate(map(len, lines(directory))), None]
    torn_bytes = 0
    if whole < 0:
        os.truncate(directory / "journal.jsonl", data.draw(st.integers(0, ends[0] - 1)))
        with pytest.raises(JournalError, match=r"ended before it began|there is no journal"):
            program().resume(directory)
        return
    if ends[whole + 1]:
        torn_bytes = data.draw(st.integers(0, ends[whole + 1] - ends[whole] - 1))
        os.truncate(directory / "journal.jsonl", ends[whole] + torn_bytes)
    profile = resume(directory)
    # The line behind the header says that the round began.
    assert ran == Counter([*TASKS][max(0, whole - 1) :])
    assert plain(profile) == made[1]
    assert Profile.loads(profile.dumps()) == profile
    resumed = profile.sections["run"].get("resumed", [])
    assert [one["torn_bytes"] for one in resumed] == ([torn_bytes] if ends[whole + 1] else [])
    assert plain(resume(directory)) == made[1]
    assert not ran


@quickly
@given(st.data())
def test_files_of_outputs_may_be_cut_off_anywhere(made, tmp_path, data):
    directory = copied(made[0], tmp_path / "copy")
    if data.draw(st.booleans()):
        cut_after(directory, data.draw(st.integers(1, 4)))
    path = outputs_file(directory)
    os.truncate(path, data.draw(st.integers(0, path.stat().st_size)))
    assert plain(resume(directory)) == made[1]
    # What was made of outputs that are gone is made again as well.
    assert sorted(ran) == sorted([*TASKS][len(TASKS) - len(ran) :])
    assert plain(resume(directory)) == made[1]
    assert not ran


def finished(directory):
    """Return how often the journal says that each task has finished."""
    path = directory / "journal" / "journal.jsonl"
    if not path.exists():
        return Counter()
    file = LineFile(str(path))
    file.close()
    return Counter(line["task"] for line in map(json.loads, file.lines) if "task" in line)


def marks(directory):
    path = directory / "marks"
    return Counter(path.read_text().split() if path.exists() else ())


def attempt(directory, executor, rounds, kill_after_s):
    """Run the program, and kill it and all its workers after so long; tell whether it was."""
    program = HERE / "journal_programs.py"
    process = subprocess.Popen(
        [sys.executable, program, directory, executor, str(rounds)],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline() == b"ready\n"
        try:
            assert process.wait(kill_after_s) == 0
        except subprocess.TimeoutExpired:
            return True
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


@posix
@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "rounds", "kills"),
    [("serial", 1, 6), ("pool", 1, 6), ("pool", 3, 4), ("dask", 2, 4)],
)
def test_nothing_is_lost_to_kills_at_random_moments(tmp_path, executor, rounds, kills):
    if executor == "dask":
        pytest.importorskip("distributed")
    dag = journal_programs.grid(os.devnull)
    expected = repr(dag.run(7).outputs)
    everything = Counter(dict.fromkeys(dag.tasks, rounds))
    chance, killed, number, took_s = random.Random(kills), 0, 0, None
    # Counted are kills of runs of which something is in the journal, and not all.
    while killed < kills:
        number += 1
        directory = tmp_path / str(number)
        directory.mkdir()
        going = True
        while going:
            done, before = finished(directory), marks(directory)
            # The first run is left alone, and tells how long one takes.
            undisturbed = took_s is None or killed == kills
            limit_s = 60 if undisturbed else chance.uniform(0, took_s)
            going = attempt(directory, executor, rounds, limit_s)
            took_s = took_s or float((directory / "took_s").read_text())
            now = finished(directory)
            assert not done - now
            killed += going and bool(now) and now != everything
            for task, count in (marks(directory) - before).items():
                assert count <= rounds - done[task], f"{task} was finished, and ran again"
        assert (directory / "outputs").read_text() == expected
        assert now == everything
        profile = Profile.load(directory / "profile.json")
        assert profile.sections["run"]["rounds"] == rounds
        assert len(profile.sections["timeline"]["records"]) == rounds * len(dag.tasks)
