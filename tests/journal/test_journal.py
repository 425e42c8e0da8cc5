import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from zlib import crc32

import journal_programs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journal_files import chained, copied, cut_after, parsed, records, rewrite, segment
from journal_tasks import last, ran, source, total, twice
from platforms import posix
from processes import limited_files, umask

from dagprofiler import DAG, Config, Hook, Journal, Profile, Rounds
from dagprofiler.errors import DagProfilerWarning, JournalError, RunError, ValidationError
from dagprofiler.journal._records import OutputStore, RecordFile
from dagprofiler.journal.past import _covered_s, _moment
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


def test_a_journal_that_is_complete_gives_the_profile_and_runs_nothing(tmp_path):
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    asked = {**ASKED, "rounds": Rounds(3, warmup=1, check_outputs=True), "meters": "full"}
    first = program().run(**asked, hooks=[Journal(tmp_path)])
    before = (tmp_path / "journal").read_bytes()
    profile = program().resume(tmp_path, executor=closed)
    assert profile.to_dict() == first.to_dict()
    assert plain(profile) == plain(first)
    assert (tmp_path / "journal").read_bytes() == before


OPENS = "import sys; from dagprofiler.journal._records import RecordFile; RecordFile(sys.argv[1])"


def test_a_journal_is_not_resumed_while_its_run_goes_on_and_one_that_is_removed_warns(tmp_path):
    def resume_it(task):
        with pytest.raises(JournalError, match="another run in"):
            program().resume(tmp_path)
        # The refused one leaves the lock to the one that holds it.
        if task == "last":
            command = [sys.executable, "-c", OPENS, tmp_path / "journal"]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            assert re.search("JournalError.*another process", done.stderr)

    hook, undisturbed = Hook(), plain(program().run(**ASKED))
    hook.task_started = resume_it
    assert plain(program().run(**ASKED, hooks=[Journal(tmp_path), hook])) == undisturbed
    # It is free again.
    assert plain(program().resume(tmp_path)) == undisturbed
    shutil.rmtree(tmp_path)
    hook.task_started = lambda task: task == "last" and shutil.rmtree(tmp_path)
    with pytest.warns(DagProfilerWarning, match="removed or replaced"):
        profile = program().run(**ASKED, hooks=[Journal(tmp_path), hook])
    assert plain(profile) == undisturbed


@pytest.mark.parametrize("count", [11, 27])
def test_a_run_of_several_rounds_goes_on_in_the_round_where_it_stopped(tmp_path, count):
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
def test_rounds_until_they_are_precise_go_on(tmp_path, late_ms, rounds, ended_by):
    auto = Rounds("auto", warmup=0, max_rounds=8, max_time_s=950, precision=1e-9)
    program().run(**ASKED, rounds=auto, hooks=[Journal(tmp_path)])
    kept = parsed(tmp_path)[: 1 + 5 * 6 + 2]
    kept[0]["timestamp"] = "2199-01-01T00:00:00.000000Z"
    for record in kept[1:]:
        record["at_ms"] += late_ms
        record["began_ms"] += 9e5
        record["times_ms"] = [ms + late_ms for ms in record.get("times_ms", ())]
    rewrite(tmp_path, kept)
    run = resume(tmp_path).sections["run"]
    assert (run["rounds"], run["ended_by"]) == (rounds, ended_by)
    assert run["resumed"][0]["gap_ms"] == 0
    assert ran == Counter([*TASKS] * (rounds - 6)) - Counter(["source", "twice"])


class Fails(twice):
    def compute(self, data, offset):
        raise ValueError("not yet")


def test_tasks_that_failed_run_again_and_what_was_to_be_done_on_errors_still_is(tmp_path):
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


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_another_executor_may_go_on(journal, pool):
    cut_after(journal, 1)
    with pool(2) as executor:
        profile = program().resume(journal, executor=executor)
    assert plain(profile) == plain(program().run(**ASKED))
    run = profile.sections["run"]
    assert (run["executor"], run["resumed"][0]["executor_before"]) == (pool.__name__, "serial")
    assert len(profile.sections["timeline"]["workers"]) >= 2
    assert Profile.loads(profile.dumps()) == profile


def test_the_timeline_is_on_one_clock_across_the_restart_and_times_add_up(journal):
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


def test_what_earlier_attempts_spent_and_lost_is_in_the_profile_of_the_next(tmp_path):
    asked = {**ASKED, "rounds": Rounds(2, warmup=0), "meters": "cpu"}
    program().run(**asked, hooks=[Journal(tmp_path)])
    header, *_, ended, _, last = kept = parsed(tmp_path)[:8]
    header["timestamp"] = "2020-01-01T00:00:00.000000Z"
    ended.update(total_s=50.0, waited_s=7.0, legacy_generators=False)
    ended["attempts"] = {"source": ["it died"]}
    last.update(total_s=60.0, costs_s=[1.0, 2.0, 3.0])
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
    away_s = (_moment(resumed["timestamp"]) - _moment(header["timestamp"])).total_seconds()
    assert resumed["gap_ms"] == pytest.approx(1e3 * away_s - resumed["at_ms"], rel=1e-6)


def test_time_in_which_several_tasks_ran_counts_once():
    assert _covered_s([(7.0, 8.0), (1.0, 4.0), (2.0, 3.0), (3.5, 5.0)]) == 5.0
    assert _covered_s([]) == 0.0


def test_an_empty_dag_can_be_resumed_beside_files_of_others(tmp_path):
    (tmp_path / "notes").write_text("mine")
    DAG({}).run(hooks=[Journal(tmp_path)])
    assert DAG({}).resume(tmp_path).outputs == {}
    assert (tmp_path / "notes").read_text() == "mine"


def test_a_plain_run_with_a_journal_has_no_samples_and_the_journal_takes_no_more(tmp_path):
    hook = Journal(tmp_path)
    sections = program().run(**ASKED, hooks=[hook]).sections
    assert "samples" not in sections
    overhead = sections["run"]["overhead"]
    assert set(overhead) == {"prepare_ms", "loop_ms", "hooks_ms", "journal_ms"}
    assert overhead["journal_ms"] > 0
    assert "journal_ms" not in program().run(**ASKED).sections["run"]["overhead"]
    whole = records(tmp_path)
    with pytest.raises(JournalError, match="it records no run"):
        hook.round_finished(0)
    assert records(tmp_path) == whole


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seed": 4}, "seed: 4, in the journal 3"),
        ({"inputs": {"twice": {"offset": 6}}}, "'offset' of task 'twice' differs"),
        ({"inputs": {}}, "'offset' of task 'twice' .* journal only"),
        ({"inputs": {"twice": {"offset": 5, "x": 1}}}, "'x' of task 'twice' is not"),
    ],
    ids=str,
)
def test_another_seed_or_input_is_refused(journal, change, says):
    with pytest.raises(JournalError, match=says):
        program().resume(journal, **change)
    assert not ran


def test_all_that_differs_is_said_at_once(journal):
    class Other(last):
        outputs = ["finished"]

    class Pickled(total):
        serializer = PickleSerializer()

    tasks = {"twice": twice, "total": Pickled, "last": Other, "more": source}
    other = DAG(tasks, [("more", "twice", ["data"])], Config(N=5, M=1))
    with pytest.raises(JournalError) as caught:
        other.resume(journal, seed=1)
    fed = [["parts", "source", "data"], ["parts", "twice", "twice"], ["label", "source", "label"]]
    from_source = [["data", "source", "data"]]
    assert caught.value.path == str(journal)
    assert caught.value.problems == [
        "the DAG lacks task 'source'",
        "the journal lacks task 'more'",
        "task 'last': outputs: ['finished'], in the journal ['done']",
        "task 'last': after: [], in the journal ['total']",
        "task 'total': serializer: 'pickle', in the journal 'msgpack'",
        f"task 'total': fed with: [], in the journal {fed}",
        "task 'total': after: [], in the journal ['source', 'twice']",
        f"task 'twice': fed with: [['data', 'more', 'data']], in the journal {from_source}",
        "task 'twice': after: ['more'], in the journal ['source']",
        "config: parameter 'N': 5, in the journal 4",
        "config: parameter 'M' is not in the journal",
        "seed: 1, in the journal 3",
    ]
    assert str(caught.value).startswith(f"journal {str(journal)!r}: 12 problems:\n  - the DAG")


STEP = "from dagprofiler import task\n@task(outputs=['x'])\ndef step():\n    return {'x': %d}\n"


def changed(text):
    """Return the task class that `text` makes of a module of its own."""
    import linecache

    name = f"<changed {hash(text)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    scope = {"__name__": "changed_tasks"}
    exec(compile(text, name, "exec"), scope)
    return scope["step"]


def test_source_that_changed_warns_and_is_in_the_profile(tmp_path):
    DAG({"step": changed(STEP % 1)}).run(hooks=[Journal(tmp_path)])
    cut_after(tmp_path, 1)
    with pytest.warns(DagProfilerWarning, match="source of 'step' has"):
        profile = DAG({"step": changed(STEP % 2)}).resume(tmp_path)
    assert profile.outputs == {"step": {"x": 1}}
    assert profile.sections["run"]["resumed"][0]["changed"] == ["step"]


def test_what_cannot_be_compared_is_said(tmp_path):
    scope = {"__name__": "nowhere"}
    exec(STEP % 1, scope)
    dag = DAG({"step": scope["step"]}, [], {"key": lambda: 0})
    dag.run(hooks=[Journal(tmp_path)])
    cut_after(tmp_path, 1)
    (resumed,) = dag.resume(tmp_path).sections["run"]["resumed"]
    assert resumed["not_compared"] == {
        "config.key": "TypeError: it could not be pickled",
        "sources.step": "its source is not known",
    }


def test_one_of_two_runs_that_begin_at_once_is_refused(tmp_path, monkeypatch):
    def create_late(store, create=OutputStore.create):
        create(store)
        monkeypatch.undo()
        program().run(**ASKED, hooks=[Journal(tmp_path)])

    monkeypatch.setattr(OutputStore, "create", create_late)
    with pytest.raises(RunError, match="holds a journal already"):
        program().run(**ASKED, hooks=[Journal(tmp_path)])
    ran.clear()
    program().resume(tmp_path)
    assert not ran


def test_a_file_of_the_journals_name_that_is_none_is_refused_and_left_alone(tmp_path):
    with pytest.raises(JournalError, match="no journal in this directory"):
        program().resume(tmp_path)
    (tmp_path / "journal").write_text("Dear diary")
    with pytest.raises(RunError, match="holds a journal already") as caught:
        program().run(**ASKED, hooks=[Journal(tmp_path)])
    assert isinstance(caught.value.__cause__, JournalError)
    with pytest.raises(JournalError, match="no header, or a damaged"):
        program().resume(tmp_path)
    assert (tmp_path / "journal").read_text() == "Dear diary"
    assert not ran


def test_two_journals_and_what_no_journal_can_hold_are_refused(tmp_path):
    hooks = [Journal(tmp_path / "a"), Journal(tmp_path / "b")]
    with pytest.raises(ValidationError, match="in one place, got 2"):
        program().run(**ASKED, hooks=hooks)
    with pytest.raises(ValidationError, match=r"fresh processes.*journal"):
        program().run(**ASKED, rounds=Rounds(2, fresh_process=True), hooks=hooks[:1])
    hits = SimpleNamespace(name="hits", unit="1", start=lambda: None, stop=lambda: 1)
    with pytest.raises(RunError, match="meters cannot be recorded"):
        program().run(**ASKED, meters=[hits], hooks=hooks[:1])
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"written: (FileExists|NotADirectory)Error"):
        program().run(**ASKED, hooks=[Journal(tmp_path / "file" / "below")])
    assert not ran


@pytest.mark.parametrize(
    ("pool", "replaced", "told"),
    [
        (None, False, "cannot write there: FileNotFoundError"),
        (ProcessPoolExecutor, False, "cannot write there: FileNotFoundError"),
        (None, True, "or holds another journal"),
    ],
)
def test_a_worker_that_does_not_reach_the_directory_is_an_error_before_the_first_task(
    tmp_path, pool, replaced, told
):
    def moves(run):
        directory.rename(f"{directory} elsewhere")
        if replaced:
            directory.mkdir()
            (directory / "another.key").touch()

    directory, hook = tmp_path / "journal", Hook()
    hook.run_started = moves
    with nullcontext() if pool is None else pool(1) as executor, pytest.raises(RunError) as caught:
        program().run(**ASKED, executor=executor, hooks=[Journal(directory), hook])
    error = caught.value.__cause__
    assert isinstance(error, JournalError)
    assert error.path == str(directory)
    assert re.search(f"worker .*{told}", str(error))
    assert not ran


def test_what_a_journal_makes_is_its_owners_alone(tmp_path):
    with umask(0):
        program().run(**ASKED, hooks=[Journal(tmp_path / "journal")])
        program().run(**ASKED, hooks=[Journal(tmp_path / "shared", trust=True)])
    modes = {
        name: {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / name).iterdir()}
        for name in ("journal", "shared")
    }
    assert modes == {"journal": {0o600}, "shared": {0o666}}
    assert stat.S_IMODE((tmp_path / "journal").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o720])
def test_a_directory_that_others_can_write_to_takes_no_journal_unless_it_is_trusted(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(RunError, match=f"other users can write .*{mode:04o}") as caught:
        program().run(**ASKED, hooks=[Journal(tmp_path)])
    assert isinstance(caught.value.__cause__, JournalError)
    assert not ran
    assert not list(tmp_path.iterdir())
    first = program().run(**ASKED, hooks=[Journal(tmp_path, trust=True)])
    assert plain(first) == plain(program().resume(tmp_path, trust=True))


@pytest.mark.parametrize("what", ["", "journal", "*.segment", "owner"])
def test_what_others_can_write_to_is_not_resumed_unless_it_is_trusted(journal, what, monkeypatch):
    path, why = journal, "other users can write"
    if what == "owner":
        owner = os.geteuid()
        why = rf"another user \(number {owner}\)"
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    else:
        path = next(journal.glob(what)) if what else journal
        path.chmod(0o777)
    with pytest.raises(JournalError, match=why) as caught:
        program().resume(journal)
    assert caught.value.path == str(path)
    assert program().resume(journal, trust=True).outputs


def test_a_segment_that_is_not_there_or_in_another_directory_is_an_error(journal):
    path, kept = segment(journal), parsed(journal)
    kept[4]["stored"]["segment"] = f"../{journal.name}/{path.name}"
    rewrite(journal, kept)
    with pytest.raises(JournalError, match="is not a file"):
        program().resume(journal)
    kept[4]["stored"]["segment"] = path.name
    rewrite(journal, kept)
    path.unlink()
    with pytest.raises(JournalError, match="cannot be read: FileNotFoundError") as caught:
        program().resume(journal)
    assert caught.value.path == str(path)


@posix
def test_what_there_is_no_room_for_is_an_error_that_can_be_gone_on_from(tmp_path):
    def fills(task):
        if task == "total":
            stack.enter_context(limited_files((directory / "journal").stat().st_size + 100))

    directory, large, hook = tmp_path / "outputs", program(n=10_000), Hook()
    hook.task_started = fills
    failed = "task 'source' failed: .*cannot be written: OSError"
    with limited_files(30_000), pytest.raises(RunError, match=failed):
        large.run(**ASKED, hooks=[Journal(directory)])
    ran.clear()
    assert plain(large.resume(directory)) == plain(large.run(**ASKED))
    assert ran == dict.fromkeys(TASKS, 2)
    directory = tmp_path / "records"
    failed = r"Journal\.task_finished failed: .*cannot be written"
    with ExitStack() as stack, pytest.raises(RunError, match=failed):
        program().run(**ASKED, hooks=[Journal(directory), hook])
    assert all(line.endswith(b"\n") for line in records(directory))
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


@pytest.mark.parametrize("whole", range(-1, 7))
@quickly
@given(st.data())
def test_what_is_finished_is_not_run_again_wherever_records_were_cut_off(
    made, tmp_path, whole, data
):
    directory = copied(made[0], tmp_path / "copy")
    ends = [*accumulate(map(len, records(directory))), None]
    torn_bytes = 0
    if whole < 0:
        os.truncate(directory / "journal", data.draw(st.integers(0, ends[0] - 1)))
        with pytest.raises(JournalError, match="it has no header"):
            program().resume(directory)
        return
    if ends[whole + 1]:
        torn_bytes = data.draw(st.integers(0, ends[whole + 1] - ends[whole] - 1))
        os.truncate(directory / "journal", ends[whole] + torn_bytes)
    profile = resume(directory)
    assert ran == Counter([*TASKS][whole:])
    assert plain(profile) == made[1]
    assert Profile.loads(profile.dumps()) == profile
    resumed = profile.sections["run"].get("resumed", [])
    assert [one["torn_bytes"] for one in resumed] == ([torn_bytes] if ends[whole + 1] else [])
    assert plain(resume(directory)) == made[1]
    assert not ran


@quickly
@given(st.data())
def test_segments_may_be_cut_off_anywhere(made, tmp_path, data):
    directory = copied(made[0], tmp_path / "copy")
    if data.draw(st.booleans()):
        cut_after(directory, data.draw(st.integers(0, 4)))
    path = segment(directory)
    os.truncate(path, data.draw(st.integers(0, path.stat().st_size)))
    assert plain(resume(directory)) == made[1]
    # What was made of outputs that are gone is made again as well.
    assert sorted(ran) == sorted([*TASKS][len(TASKS) - len(ran) :])
    assert plain(resume(directory)) == made[1]
    assert not ran


def flipped(path, data):
    """Flip a bit of a file; return its place."""
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    return position


@quickly
@given(st.data())
def test_a_bit_that_flips_in_the_records_is_noticed(made, tmp_path, data):
    directory = copied(made[0], tmp_path / "copy")
    begins = [0, *accumulate(map(len, records(directory)))]
    position = flipped(directory / "journal", data)
    if position < begins[-2]:
        with pytest.raises(JournalError) as caught:
            program().resume(directory)
        assert caught.value.offset == max(begin for begin in begins if begin <= position)
        assert caught.value.path == str(directory / "journal")
    else:
        # As if it had never been written, unless it says that another one was.
        with suppress(JournalError):
            assert plain(program().resume(directory)) == made[1]


@pytest.mark.parametrize(
    ("order", "line"),
    [
        *(("0123456".replace(missing, ""), int(missing)) for missing in "12345"),
        *(("0213456", 1), ("01123456", 2), ("01234566", 7)),
        # One of another journal.
        ("012a456", 3),
    ],
)
def test_lines_that_are_missing_or_in_another_order_are_noticed(journal, tmp_path, order, line):
    program().run(**ASKED, hooks=[Journal(tmp_path / "other")])
    known = dict(zip("0123456", records(journal)), a=records(tmp_path / "other")[3])
    lines = [known[k] for k in order]
    (journal / "journal").write_bytes(b"".join(lines))
    ran.clear()
    with pytest.raises(JournalError, match=rf"line {line + 1}: .*damaged or missing") as caught:
        program().resume(journal)
    where = str(journal / "journal"), sum(map(len, lines[:line]))
    assert (caught.value.path, caught.value.offset) == where
    assert not ran


def again(kept, **changes):
    """Repeat the round of a journal before the end of the run."""
    kept[6:6] = [{**record, "at_ms": 1e9, **changes} for record in kept[1:6]]
    kept[-1]["at_ms"] = 1e9


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda kept: kept.pop(4), r"line 5: .* 4 tasks, not 3"),
        (lambda kept: kept.insert(2, {**kept[1]}), "line 3: task 'source' has a record already"),
        (lambda kept: kept[1].update(task="nobody"), "line 2: there is no task 'nobody'"),
        (lambda kept: kept[2].update(at_ms=0), "line 3: it is older than"),
        (lambda kept: kept.append({**kept[6]}), "line 8: it is behind the end"),
        (lambda kept: kept[5].update(round=1), "line 6: round 1 is out of order"),
        (lambda kept: kept[5].update(attempts={"nobody": []}), "line 6: it has attempts at"),
        (lambda kept: again(kept, round=0), "line 7: round 0 is out of order"),
        (lambda kept: again(kept, round=1), "line 1: it has more rounds than the 1 "),
        (lambda kept: kept[0].update(timestamp="now"), "line 1: ValueError"),
        (lambda kept: kept[0]["rounds"].update(warmup=1), "line 6: the round is 'cold'"),
        (lambda kept: kept[1].update(digest="x"), "line 2: digest: ValueError"),
        (lambda kept: kept[1].update(bytes={}), r"'source': outputs .* \[\]"),
        (lambda kept: kept[1].update(encode_s={}), r"'source': outputs .* \[\]"),
        (lambda kept: kept[1]["stored"]["fields"].pop("data"), r"'source': outputs .* \['label"),
        (lambda kept: kept[2].update(decode_s={}), r"'twice': fed with \['data'\], .* \[\]"),
        (lambda kept: kept[2].update(after=[]), r"'twice': after \['source'\], .* \[\]"),
        (lambda kept: kept[1].update(spans={}), "line 2: spans: KeyError"),
    ],
)
def test_records_that_contradict_each_other_or_the_program_are_refused(journal, change, says):
    kept = parsed(journal)
    change(kept)
    rewrite(journal, kept)
    with pytest.raises(JournalError, match=says):
        program().resume(journal)
    assert not ran


@pytest.mark.parametrize(
    ("field", "instead", "says"),
    [
        ("kind", lambda *_: "warm_up", "'kind' is 'warm_up', .* 'cold'"),
        ("began_ms", lambda began_ms, _: began_ms + 1, "'began_ms' is "),
        ("columns", lambda columns, _: [f"{name}_ms" for name in columns], "'columns' is "),
        # Meters that count read no fractions.
        ("meters", lambda values, _: [0.5] * len(values), r"cannot be \[0\.5"),
        ("worker", lambda *_: None, "'worker' is None"),
        ("more", lambda *_: float("nan"), "NaN"),
        # As soon as its predecessor started.
        ("times_ms", lambda times, before: [before["times_ms"][0], *times[1:]], "run backwards"),
    ],
)
def test_records_that_contradict_those_before_them_are_refused(tmp_path, field, instead, says):
    program().run(**ASKED, meters="full", rounds=2, hooks=[Journal(tmp_path)])
    kept = parsed(tmp_path)
    kept[2][field] = instead(kept[2].get(field), kept[1])
    rewrite(tmp_path, kept)
    with pytest.raises(JournalError, match=f"line 3: .*{says}"):
        program().resume(tmp_path)


def test_what_a_resumed_run_writes_is_chained_to_what_was_there(journal):
    cut_after(journal, 2)
    program().resume(journal)
    assert records(journal) == chained(parsed(journal))
    assert len(records(journal)) == 1 + 2 + 1 + 2 + 1 + 1
    kept = parsed(journal)
    for field, value, says in (("dropped", ["nobody"], "KeyError"), ("timestamp", "now", "Value")):
        kept[3]["resumed"][field] = value
        rewrite(journal, kept)
        with pytest.raises(JournalError, match=f"line 4: {says}"):
            program().resume(journal)


@quickly
@given(st.data())
def test_a_bit_that_flips_in_a_segment_is_noticed_where_it_matters(made, tmp_path, data):
    directory = copied(made[0], tmp_path / "copy")
    path = segment(directory)
    position = flipped(path, data)
    spans = {
        field: (offset, offset + sum(map(abs, lengths)))
        for record in parsed(directory)
        for field, (offset, _, _, lengths) in record.get("stored", {"fields": {}})["fields"].items()
    }
    begin, end = spans["total"]
    if begin <= position < end:
        # Nobody asks for what the total's task made, whose consumers have finished.
        assert plain(program().resume(directory)) == made[1]
        return
    with pytest.raises(JournalError, match="its checksum is wrong") as caught:
        program().resume(directory)
    assert caught.value.path == str(path)
    assert caught.value.offset in {begin for begin, end in spans.values() if begin <= position}


def test_what_was_made_of_outputs_that_were_cut_off_is_forgotten_for_good(journal):
    path = segment(journal)
    os.truncate(path, 3)
    first = program().resume(journal)
    assert first.sections["run"]["resumed"][0]["dropped"] == [*TASKS]
    # The records of the first attempt, that it was gone on with, and one task.
    profile = resume(journal, 8)
    assert ran == {"twice": 1, "total": 1, "last": 1}
    assert plain(profile) == plain(first)
    assert profile.sections["run"]["resumed"][1]["dropped"] == []


@pytest.mark.parametrize("version", [1, 99])
def test_a_journal_of_another_format_is_refused(journal, version):
    header = {**json.loads(records(journal)[0][9:]), "format": version}
    # Before format 2 records had no numbers.
    del header["record"]
    text = json.dumps(header).encode()
    (journal / "journal").write_bytes(b"%08x %b\n" % (crc32(text), text))
    with pytest.raises(JournalError, match=rf"format is {version}, .* 2$"):
        program().resume(journal)


def finished(directory):
    """Return how often the journal says that each task has finished."""
    try:
        ledger = RecordFile(str(directory / "journal" / "journal"))
    except JournalError:
        return Counter()
    ledger.close()
    return Counter(record["task"] for record in ledger.records if "task" in record)


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
    [("serial", 1, 9), ("pool", 1, 9), ("serial", 3, 6), ("pool", 3, 6)],
)
def test_nothing_is_lost_to_30_kills_at_random_moments(tmp_path, executor, rounds, kills):
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
