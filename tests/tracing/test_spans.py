"""Spans, instants and counters, and functions that are traced."""

import asyncio
import contextlib
import functools
import inspect
import pickle
import threading
import time

import cloudpickle
import numpy as np
import pytest

from dagprofiler import TraceError, span, trace
from dagprofiler.tracing import async_span, configure, counter, critical_path, instant


def test_span_has_its_name_its_arguments_and_its_time_in_us(traced):
    begin = time.perf_counter()
    with span("load", path="data.csv", rows=3) as load:
        time.sleep(0.002)
        load.args["bytes"] = 2**40
    took_s = time.perf_counter() - begin
    (event,) = traced.events("X")
    assert (event["name"], event["cat"]) == ("load", "span")
    assert event["args"] == {"path": "data.csv", "rows": 3, "bytes": 2**40}
    assert 2000 <= event["dur"] <= took_s * 1e6


NAMES = [(3, "3"), *((name, name) for name in ("", 'quote " \\ \n \x00 é \U0001f600', "\ud800"))]


def test_names_are_taken_by_their_text(traced):
    for name, _ in NAMES:
        with span(name), span(name, x=1):
            pass
        instant(name)
        counter(name, 1)
    assert traced.names() == [shown for _, shown in NAMES for _ in range(4)]


def test_arguments_without_a_json_form_become_text(traced):
    values = [1]
    odd = {"nan": float("nan"), "big": 2**80, "array": np.arange(3), "values": values}
    with span("a", **odd):
        pass
    values.append(2)
    shown = {"nan": "nan", "big": str(2**80), "array": [0, 1, 2], "values": [1]}
    assert traced.events("X")[0]["args"] == shown


def test_spans_in_an_event_loop_are_asynchronous(traced):
    async def work(i):
        with span("work", i=i):
            await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*map(work, range(3)))
        with span("with", x=1) as one:
            one.args["y"] = 2

    asyncio.run(main())
    with span("outside"):
        pass
    begins = traced.events("b")
    assert [e["name"] for e in begins] == ["work"] * 3 + ["with"]
    assert len({e["id"] for e in begins}) == 4
    assert begins[-1]["args"] == {"x": 1, "y": 2}
    assert traced.names("X") == ["outside"]


def test_async_spans_can_end_in_another_thread(traced):
    one, two = (async_span("request", n=n).begin() for n in (1, 2))
    thread = threading.Thread(target=one.end)
    thread.start()
    thread.join()
    two.end(ValueError("late"))
    two.end()
    with async_span("third"):
        pass
    begins = {e["id"]: e.get("args") for e in traced.events("b")}
    assert sorted(begins) == sorted(e["id"] for e in traced.events("e"))
    late = {"n": 2, "error": "ValueError: late"}
    assert sorted(map(str, begins.values())) == sorted(map(str, ({"n": 1}, late, None)))


def test_instants_and_counters_are_events_of_their_own(traced):
    instant("cache miss", key="a")
    counter("queue", 3)
    counter("workers", busy=2, idle=np.int64(6))
    shown = [(event["ph"], event["args"]) for event in traced.events()]
    assert shown == [("i", {"key": "a"}), ("C", {"value": 3}), ("C", {"busy": 2, "idle": 6})]
    for value in (float("inf"), "text", None, True):
        counter("queue", value)
    notes = [(event["ph"], event["name"]) for event in traced.events()[3:]]
    assert notes == [("i", "counter without a number")] * 4


def test_only_what_ends_while_tracing_is_on_is_recorded(traced):
    configure(enable=False)
    with span("a"):
        instant("b")
        counter("c", 1)
    with span("begun"):
        configure(enable=True)
    assert traced.names() == ["begun"]


# Functions


@trace
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@trace
async def wait(a: int) -> int:
    """Wait."""
    await asyncio.sleep(0)
    return a


@trace
def numbers(n: int):
    """Count."""
    received = yield from range(n)
    return received


@trace
async def ticks(n: int):
    """Count, and wait."""
    for i in range(n):
        await asyncio.sleep(0)
        yield i


async def all_of(generator):
    return [i async for i in generator]


#: Of each function how its kind is told, a call, and what that returns.
KINDS = {
    add: (inspect.isfunction, lambda: add(3), 4),
    wait: (inspect.iscoroutinefunction, lambda: asyncio.run(wait(3)), 3),
    numbers: (inspect.isgeneratorfunction, lambda: list(numbers(2)), [0, 1]),
    ticks: (inspect.isasyncgenfunction, lambda: asyncio.run(all_of(ticks(2))), [0, 1]),
}


@pytest.mark.parametrize("function", KINDS, ids=lambda f: f.__name__)
def test_traced_functions_keep_kind_signature_and_result(function, traced):
    is_kind, call, returned = KINDS[function]
    assert is_kind(function)
    assert function.__doc__
    assert function.__module__ == __name__
    assert next(iter(inspect.signature(function).parameters)) in {"a", "n"}
    assert pickle.loads(pickle.dumps(function)) is function
    configure(enable=False)
    assert call() == returned
    assert traced.files() == traced.events() == []
    configure(enable=True)
    assert call() == returned
    assert set(traced.names()) == {function.__name__}


def test_traced_functions_travel_by_value(traced):
    scope = {"__name__": "__main__", "trace": trace}
    exec("@trace\ndef twice(x):\n    return 2 * x\n", scope)
    exec("@trace\ndef up_to(x):\n    yield from range(x)\n", scope)
    twice, up_to = (cloudpickle.loads(cloudpickle.dumps(scope[n])) for n in ("twice", "up_to"))
    assert twice is not scope["twice"]
    assert (twice(4), list(up_to(2))) == (8, [0, 1])
    assert sorted(set(traced.names())) == ["twice", "up_to"]


class Account:
    @critical_path
    def deposit(self, amount):
        return amount

    @trace
    @classmethod
    def opened(cls):
        return cls()

    @classmethod
    @trace
    def opened_too(cls):
        return cls()

    @critical_path
    @staticmethod
    def currency():
        return "EUR"


def test_methods_of_every_kind_are_traced(traced):
    assert Account.opened().deposit(5) == 5
    assert Account.opened_too().currency() == "EUR"
    assert trace(functools.partial(max, 3))(2) == 3
    names = "opened deposit opened_too currency"
    assert traced.names("X") == [*(f"Account.{name}" for name in names.split()), "partial"]


def test_an_exception_ends_its_spans_and_passes_through(traced):
    @trace
    def outer():
        with contextlib.suppress(KeyError):
            inner(KeyError("no such\nthing"))
        add(1)

    @trace
    def inner(error):
        raise error

    outer()
    with pytest.raises(SystemExit):
        inner(SystemExit(3))
    with pytest.raises(OSError, match="no file"), span("load", by=0):
        raise OSError("no file")
    failed, after, around, left, block = traced.events()
    assert block["args"] == {"by": 0, "error": "OSError: no file"}
    assert left["args"] == {"error": "SystemExit: 3"}
    assert failed["args"] == {"error": "KeyError: 'no such\\nthing'"}
    # What comes after does not lie in a span that never ended.
    assert failed["ts"] + failed["dur"] <= after["ts"]
    assert "args" not in around


def test_a_generators_span_lasts_until_it_is_closed(traced):
    generator = numbers(2)
    assert traced.events() == []
    next(generator)
    add(1)
    assert list(generator) == [1]
    inside, begin, end = traced.events()
    assert begin["ts"] <= inside["ts"] <= inside["ts"] + inside["dur"] <= end["ts"]
    assert (begin["ph"], end["ph"], begin["id"]) == ("b", "e", end["id"])
    generator = numbers(5)
    next(generator)
    generator.close()
    assert [event.get("args") for event in traced.events("b")] == [None, None]


def test_async_generators_get_what_is_sent_and_thrown(traced):
    @trace
    async def echo():
        got = None
        while got != "enough":
            try:
                got = yield got
            except ValueError as error:
                got = error

    async def main():
        generator, failing, left = echo(), echo(), echo()
        assert await generator.asend(None) is None
        assert await generator.asend(1) == 1
        problem = ValueError("no")
        assert await generator.athrow(problem) is problem
        with pytest.raises(StopAsyncIteration):
            await generator.asend("enough")
        await failing.asend(None)
        with pytest.raises(asyncio.CancelledError):
            await failing.athrow(asyncio.CancelledError())
        await left.asend(None)
        await left.aclose()

    asyncio.run(main())
    args = [event.get("args") for event in traced.events("b")]
    assert args == [None, {"error": "CancelledError"}, None]


@pytest.mark.parametrize("what", [int, Account, 3, "name"])
def test_only_functions_can_be_traced(what):
    name = getattr(what, "__name__", what)
    for decorate in (trace, trace(), critical_path()):
        with pytest.raises(TraceError, match=rf"@\w+ of .*{name}.*: expected a function"):
            decorate(what)
