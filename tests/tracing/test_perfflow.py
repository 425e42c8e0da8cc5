"""PerfFlowAspect's own smoke tests, as behaviour, and each of its defects."""

import asyncio
import inspect
from collections import Counter

import pytest
from smoke import SMOKE
from trace_files import events_of, read

from dagprofiler import TraceError
from dagprofiler.tracing import async_event, configure, critical_path, sync_event
from dagprofiler.tracing._perfflow import _finish


@pytest.mark.parametrize(
    ("options", "phases"),
    [("", {"X": 12}), ("log-event=Verbose", {"B": 12, "E": 12}), ("log-enable=False", {})],
)
def test_twelve_calls_are_twelve_slices(traced, options, phases):
    assert traced.run(SMOKE, options=options).split() == ["foo", "bar", "bas"] * 4
    events = [event for file in traced.files() for event in events_of(read(file))]
    assert Counter(e["ph"] for e in events) == phases
    assert Counter(e["name"] for e in events) == dict.fromkeys(
        ["foo", "bar", "bas"] if phases else [], 4 * len(phases)
    )
    # By their times they are nested.
    open_names = []
    for event in sorted(events, key=lambda e: e["ts"]):
        if event["ph"] == "B":
            open_names.append(event["name"])
        elif event["ph"] == "E":
            assert open_names.pop() == event["name"]


@pytest.mark.parametrize("pointcut", ["arround", "Before", None])
def test_a_mistyped_pointcut_is_an_error(pointcut):
    with pytest.raises(TraceError, match="pointcut must be 'around', 'before', "):
        critical_path(pointcut=pointcut)
    with pytest.raises(TraceError, match="'before' or 'after'"):
        sync_event(pointcut, "name", "category")
    with pytest.raises(TraceError, match="'before', 'instant' or 'after'"):
        async_event(pointcut, "name", "category")


def test_before_begins_and_after_ends_a_span_of_the_thread(traced):
    @critical_path(pointcut="before")
    def open_file():
        return 1

    @critical_path(pointcut="after")
    def close_file(error=None):
        if error:
            raise error
        return 2

    @critical_path()
    def read_file():
        return 3

    assert (open_file(), read_file(), close_file()) == (1, 3, 2)
    inside, around = traced.events("X")
    assert around["name"].endswith("open_file")
    assert around["ts"] <= inside["ts"]
    assert inside["ts"] + inside["dur"] <= around["ts"] + around["dur"]
    sync_event("before", "open", "m")
    with pytest.raises(OSError, match="no"):
        close_file(OSError("no"))
    assert traced.names("X")[2:] == ["open"]


@pytest.mark.parametrize(
    "pointcut", ["before", "before_async", "after", "after_async", "around_async"]
)
def test_marked_functions_keep_their_kind(traced, pointcut):
    @critical_path(pointcut=pointcut)
    async def coroutine(x):
        return x

    @critical_path(pointcut=pointcut)
    def generator(x):
        yield x

    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(generator)
    assert (asyncio.run(coroutine(1)), list(generator(2))) == (1, [2])
    _finish()
    assert len([e for e in traced.events() if e["ph"] in "bi"]) == 2


def test_sync_events_match_by_name_or_else_by_their_order(traced):
    for pointcut, name in [("before", "a"), ("before", "b"), ("after", "b"), ("after", "other")]:
        sync_event(pointcut, name, "m")
    assert traced.names("X") == ["b", "a"]


def test_an_end_without_a_begin_is_an_instant(traced):
    configure(enable=False)
    sync_event("before", "a", "m")
    async_event("before", "b", "m")
    configure(enable=True)
    sync_event("after", "a", "m")
    async_event("after", "b", "m")
    notes = [(e["ph"], e["name"], e["args"]) for e in traced.events()]
    assert notes == [(("i"), name, {"note": "no 'before' came"}) for name in "ab"]


def test_work_that_never_ends_is_marked_unfinished(traced):
    sync_event("before", "a", "m")
    async_event("before", "b", "m", scope="s")
    _finish()
    events = traced.events()
    assert ["".join((e["ph"], e["name"])) for e in events] == ["ba", "ea", "bb", "eb"]
    assert all(e["args"] == {"unfinished": True} for e in events if e["ph"] == "b")


def test_async_events_of_two_coroutines_do_not_collide(traced):
    @critical_path(pointcut="before_async", scope="s")
    async def begin():
        await asyncio.sleep(0)

    @critical_path(pointcut="after_async", scope="s")
    async def end():
        await asyncio.sleep(0)

    async def work(turns):
        await begin()
        for _ in range(turns):
            await asyncio.sleep(0)
        await end()

    async def main():
        # Who began first ends first: each end belongs to its own coroutine.
        await asyncio.gather(*(work(3 * i) for i in range(3)))

    asyncio.run(main())
    begins, ends = traced.events("b"), {e["id"]: e for e in traced.events("e")}
    assert len(begins) == len(ends) == 3
    order = sorted(begins, key=lambda e: e["ts"])
    times = [ends[e["id"]]["ts"] for e in order]
    assert times == sorted(times)
    assert {e["args"]["scope"] for e in begins} == {"s"}


def test_async_events_match_by_their_id(traced):
    events = [("before", "a", 1), ("before", "a", 2), ("instant", "half", 1)]
    for pointcut, name, number in [*events, *(("after", "a", number) for number in (1, 3, 2))]:
        async_event(pointcut, name, "m", id=number)
    (first, second), (moment,) = traced.events("b"), traced.events("n")
    assert first["ts"] < second["ts"]
    assert (moment["id"], moment["cat"], first["cat"]) == (first["id"], "m", "m")
    assert first["id"] != second["id"]
    assert traced.names("i") == ["a"]


def test_cpu_and_memory_are_counters(traced):
    configure(cpu_mem_usage=True)

    @critical_path()
    def nothing():
        return None

    # They come every 10 ms, whenever that is on a busy machine.
    for _ in range(1000):
        assert {nothing() for _ in range(1000)} == {None}
        counters = Counter(e["name"] for e in traced.events("C"))
        if counters["cpu_usage"]:
            break
    assert counters["cpu_usage"] >= 1
    percents = [e["args"]["percent"] for e in traced.events("C") if e["name"] == "cpu_usage"]
    assert all(0 <= percent < 10_000 for percent in percents)
    if "memory_usage" in counters:
        sizes = [e["args"]["kB"] for e in traced.events("C") if e["name"] == "memory_usage"]
        assert all(1000 < size < 1e9 for size in sizes)
