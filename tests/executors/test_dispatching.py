"""What is between the run loop and an executor, seen from executors of all kinds."""

import gc
import pickle
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from threading import Barrier
from time import perf_counter

import programs
import pytest
from conformance import Here, done, failure

from dagprofiler import DAG, Executor, Rounds, task
from dagprofiler.engine import run as engine_run
from dagprofiler.errors import SerializationError, WorkerError
from dagprofiler.executors.jobs import announce, withdraw, without_phases
from dagprofiler.serializers import FrameList


@pytest.fixture(autouse=True)
def _alone(batches_of):
    batches_of(1)


def raises(error):
    """Return a function that raises an error, whatever it is called with."""

    def fails(*_):
        raise error

    return fails


def independent(*names):
    return DAG({name: programs.Act("nothing") for name in names})


def test_a_worker_gets_the_session_once_a_round():
    executor = Here()
    executor.capacity = 1
    independent("a", "b", "c").run(executor=executor)
    assert executor.calls == ["open", "a", "b", "c", "close"]
    independent("a", "b").run(executor=executor, rounds=Rounds(2, warmup=0))
    # Before the second round the worker is known, and is prepared.
    assert executor.calls[5:] == ["open", "a", "b", "a", "a", "b", "close"]


def test_no_round_waits_for_a_known_worker_to_collect_garbage(monkeypatch):
    collected = []

    def note(phase, info):
        collected.append(phase == "start" and info["generation"] == 2)

    monkeypatch.setattr(engine_run, "perf_counter", lambda: 1e3 * sum(collected) + perf_counter())
    gc.callbacks.append(note)
    try:
        profile = independent("a", "b").run(executor=Here(), rounds=Rounds(3, warmup=0))
    finally:
        gc.callbacks.remove(note)
    first, *others = profile.sections["samples"]["total_ms"]
    assert first >= 1e6 > max(others)
    assert sum(collected) >= 6  # of the driver and of the worker, before each round


class Keeps(Here):
    """Outputs stay with it; what it hands out are tickets."""

    def __init__(self):
        super().__init__()
        self.kept = {}
        self.fetched = []

    def put(self, frames):
        ticket = f"ticket {len(self.kept)}"
        self.kept[ticket] = frames
        return ticket

    def fetch(self, handle):
        self.fetched.append(handle)
        return self.kept[handle]

    def answer(self, job, handles):
        answer = super().answer(job, [self.kept[handle] for handle in handles])
        if answer is None:
            return None
        worker, record, attempts = answer
        times, payload, wire, frames, *rest = record
        handles = {field: self.put(data) for field, data in frames.items()}
        return worker, (times, payload, wire, handles, *rest), attempts


def test_outputs_can_stay_where_they_are_and_only_those_that_are_wanted_are_fetched():
    dag, asked = programs.program(), {"seed": 5, "inputs": programs.OUTSIDE}
    executor = Keeps()
    profile = dag.run(**asked, executor=executor)
    assert repr(profile.outputs) == repr(dag.run(**asked).outputs)
    assert len(executor.fetched) == 1
    # Lists of buffers, from outside too, are told from lists that are values.
    values = [frames for frames in executor.kept.values() if not isinstance(frames, bytes)]
    assert len(values) == len(programs.PARTS) * 2
    assert {type(frames) for frames in values} == {FrameList}
    # What nobody needs is not kept at all.
    executor, edges = Keeps(), [("draw", "length", {"points": "data"})]
    DAG({"draw": programs.Draw, "length": programs.length}, edges, {"N": 5}).run(executor=executor)
    assert len(executor.kept) == 2


def loses(error):
    """Return an executor that loses the job of the task `bad`."""

    def answer(job, handles):
        return raises(error)() if job.name == "bad" else Here().answer(job, handles)

    return Here(answer=answer)


def test_a_task_that_was_lost_is_named_with_the_reason_and_others_go_on():
    error = failure(programs.failing("nothing"), loses(ConnectionError("gone")), on_error="finish")
    lost = error.failures["bad"]
    assert isinstance(lost, WorkerError)
    assert (lost.task, lost.in_flight, lost.reason) == ("bad", ["beside"], "ConnectionError: gone")
    assert isinstance(lost.__cause__, ConnectionError)
    assert done(error.profile) == {"beside", "other"}
    assert str(pickle.loads(pickle.dumps(lost))) == str(lost)
    # An executor can say itself what it lost.
    own = loses(WorkerError("bad", ["x"], "the host is down"))
    said = str(failure(programs.failing("nothing"), own).__cause__)
    assert said.endswith("the host is down (also in flight: 'x')")
    fetches_none = Here(fetch=raises(ConnectionError("gone")))
    said = str(failure(independent("a"), fetches_none).__cause__)
    assert said == "task 'a' was lost by its executor: ConnectionError: gone"


def test_an_executor_that_says_that_it_is_broken_gets_nothing_any_more():
    executor = loses(BrokenExecutor("all gone"))
    error = failure(independent("bad", "c", "d", "e"), executor, on_error="finish")
    assert executor.calls == ["open", "bad", "c", "c", "close"]
    assert error.failures.keys() == {"bad"}
    states = error.profile.sections["run"]["tasks"]
    assert states["d"] == states["e"] == {"state": "cancelled"}


def finished(result):
    future = Future()
    future.set_result(result)
    return future


@pytest.mark.parametrize("shares_memory", [False, True])
@pytest.mark.parametrize(
    ("submit", "words"),
    [
        (lambda *_: None, "has no attribute 'add_done_callback'"),
        (lambda *_: finished(None), "its future holds None, not what the job returned"),
        (lambda *_: finished("done"), "its future holds 'done', not what the job returned"),
    ],
)
def test_an_executor_that_does_not_hand_on_what_jobs_return_is_told_so(
    submit, words, shares_memory
):
    executor = Here(submit=submit, shares_memory=shares_memory)
    error = failure(independent("a", "b"), executor)
    assert isinstance(error.__cause__, WorkerError)
    assert words in str(error)
    assert executor.calls == ["open", "close"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("where", ["submit", "check"])
def test_an_executor_that_takes_no_job_or_gives_up_gets_no_other(where):
    class Ends(Here):
        def submit(self, job, handles):
            self.calls.append(job.name)
            return Future() if where == "check" else self.check()

        def check(self):
            raise ConnectionError("gone")

    executor = Ends()
    error = failure(independent("a", "b", "c"), executor, on_error="finish")
    assert "'a' was lost by its executor: ConnectionError: gone" in str(error.failures["a"])
    # As many as it was said to take at once.
    assert executor.calls == ["open", "a", "b", "close"]
    assert {lost.reason for lost in error.failures.values()} == {"ConnectionError: gone"}
    assert error.failures.keys() == {"a", "b"}
    assert error.profile.sections["run"]["tasks"]["c"] == {"state": "cancelled"}


def test_earlier_attempts_are_recorded_by_round():
    class Retries(Here):
        def answer(self, job, handles):
            answer = super().answer(job, handles)
            return answer and (*answer[:2], ("it died", "it died again"))

    profile = independent("a").run(executor=Retries(), rounds=Rounds(2, warmup=0))
    assert profile.sections["run"]["attempts"]["a"] == [
        {"round": i, "error": what} for i in (0, 1) for what in ("it died", "it died again")
    ]


def test_a_job_that_no_worker_is_known_for_has_none():
    answer = None, without_phases(ValueError("not here")), ()
    error = failure(independent("a"), Here(answer=lambda *_: answer))
    assert repr(error.__cause__) == "ValueError('not here')"
    assert error.profile.sections["timeline"]["workers"] == []


class Closes(programs.Act):
    """What it makes cannot be opened by the process that drives the run."""

    @staticmethod
    def serialize(data):
        return b"value"

    @staticmethod
    def deserialize(data):
        raise ValueError("no key")


def test_an_output_that_cannot_be_decoded_here_is_named():
    error = failure(DAG({"a": Closes("nothing")}), Here())
    assert isinstance(error.__cause__, SerializationError)
    assert str(error.__cause__) == (
        "task 'a': output 'x' cannot be decoded here: ValueError: no key"
    )


def test_an_executor_that_cannot_be_opened_is_closed():
    executor = Here(open=raises(ConnectionError("nobody there")))
    with pytest.raises(ConnectionError, match="nobody there"):
        independent("a").run(executor=executor)
    assert executor.calls == ["close"]


def test_an_executor_without_workers_is_no_run_that_did_nothing():
    executor = Here()
    executor.capacity = 0
    error = failure(DAG({"bad": programs.last, "b": programs.last}, [("bad", "b", [])]), executor)
    assert str(error.__cause__) == (
        "task 'bad' was lost by its executor: there is no worker to take it"
    )
    assert [*error.failures] == ["bad"]


def test_a_run_that_is_over_needs_no_workers_any_more():
    class Leaves(Here):
        capacity = property(lambda self: 3 - len(self.calls))

    dag = DAG({"a": programs.last, "b": programs.last}, [("a", "b", [])])
    assert dag.run(executor=Leaves()).final_outputs == {"done": True}


@pytest.mark.usefixtures("impatient")
def test_late_results_of_jobs_that_were_given_up_change_nothing():
    late = Future()

    def check():
        late.set_result(None)
        raise ConnectionError("all workers are gone")

    executor = Here(submit=lambda *_: late, check=check)
    assert [*failure(independent("a"), executor).failures] == ["a"]


@pytest.mark.usefixtures("impatient")
def test_after_ctrl_c_what_has_not_begun_is_cancelled():
    futures = [Future(), Future()]
    left = iter(futures)
    executor = Here(submit=lambda *_: next(left), check=raises(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt) as caught:
        independent("a", "b").run(executor=executor)
    assert caught.value.profile.sections["run"]["state"] == "partial"
    assert executor.calls == ["open", "close"]
    assert [future.cancelled() for future in futures] == [True, True]


class Growing(Executor):
    """Takes one task at first, and more when it has got one."""

    name = "growing"
    shares_memory = True
    capacity = 1

    def open(self):
        self._pool = ThreadPoolExecutor(3)

    def submit(self, job, handles):
        future = self._pool.submit(job, handles)
        if self.capacity == 1:
            self.capacity = 3
            self.capacity_changed()
        return future

    def close(self):
        self._pool.shutdown()


def test_an_executor_that_grows_gets_more_at_once_and_tasks_wait_for_their_inputs():
    barrier = Barrier(3)
    meets = task(outputs=["x"])(lambda: {"x": barrier.wait(timeout=30) >= 0})
    tasks = {**dict.fromkeys("abc", meets), "d": programs.passes}
    profile = DAG(tasks, [("c", "d")]).run(executor=Growing())
    assert profile.outputs == {"a": {"x": True}, "b": {"x": True}, "d": {"y": True}}
    # Outside of a run nobody asks for the capacity.
    Growing().capacity_changed()


class Telling(Here):
    """Tells its worker, which is this process, what a round's jobs share."""

    def __init__(self):
        super().__init__()
        self.keys = []

    def announce(self, key, session):
        self.keys.append(key)
        announce(key, session)

    def close(self):
        for key in self.keys:
            withdraw(key)


def test_what_is_announced_need_not_be_sent_with_a_job():
    executor = Telling()
    dag = DAG({"a": programs.Act("nothing"), "b": programs.passes}, [("a", "b")])
    dag.run(executor=executor, rounds=2)
    assert len(executor.keys) == len(set(executor.keys)) > 1
    first, *others = [["a", "b"]] + [["a", "a", "b"]] * (len(executor.keys) - 1)
    assert executor.calls[1:] == sum(others, first)
