import argparse
import asyncio
import contextlib
import functools
import inspect
import pickle
import types
from typing import NamedTuple

import cloudpickle
import pytest

from dagprofiler import TraceError, span, trace
from dagprofiler.tracing import configure, critical_path


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


def test_a_call_is_a_span_with_the_names_of_function_and_module_or_with_others(traced):
    assert add(1, b=2) == 3
    named = trace(name="the sum", category="arithmetic")(add.__wrapped__)
    assert named(1, 2) == 3
    first, second = traced.events()
    assert (first["ph"], first["name"], first["cat"]) == ("X", "add", __name__)
    assert (second["name"], second["cat"]) == ("the sum", "arithmetic")


@pytest.mark.parametrize("function", KINDS, ids=lambda f: f.__name__)
def test_what_is_traced_keeps_its_kind_its_signature_its_name_and_its_result(function, traced):
    is_kind, call, returned = KINDS[function]
    assert is_kind(function)
    assert function.__doc__
    assert function.__module__ == __name__
    for follow in (True, False):
        signature = inspect.signature(function, follow_wrapped=follow)
        assert next(iter(signature.parameters)) in {"a", "n"}
    assert pickle.loads(pickle.dumps(function)) is function
    configure(enable=False)
    assert call() == returned
    assert traced.files() == traced.events() == []
    configure(enable=True)
    assert call() == returned
    assert set(traced.names()) == {function.__name__}


def test_what_is_traced_travels_by_value_too(traced):
    scope = {"__name__": "__main__", "trace": trace}
    exec("@trace\ndef twice(x):\n    return 2 * x\n", scope)
    exec("@trace\nasync def later(x):\n    return 3 * x\n", scope)
    exec("@trace\ndef up_to(x):\n    yield from range(x)\n", scope)
    twice, later, up_to = (
        cloudpickle.loads(cloudpickle.dumps(scope[name])) for name in ("twice", "later", "up_to")
    )
    assert twice is not scope["twice"]
    assert (twice(4), asyncio.run(later(4)), list(up_to(2))) == (8, 12, [0, 1])
    assert sorted(set(traced.names())) == ["later", "twice", "up_to"]


class Account:
    def __init__(self, balance):
        self.balance = balance

    @critical_path
    def deposit(self, amount):
        self.balance += amount
        return self.balance

    @trace
    @classmethod
    def opened(cls):
        return cls(0)

    @classmethod
    @trace
    def opened_too(cls):
        return cls(1)

    @critical_path
    @staticmethod
    def currency():
        return "EUR"


def test_methods_of_every_kind_are_traced(traced):
    assert Account.opened().deposit(5) == 5
    assert Account(2).opened_too().balance == 1
    assert Account.currency() == "EUR"
    names = "opened deposit opened_too currency"
    assert traced.names("X") == [f"Account.{name}" for name in names.split()]


def test_an_exception_ends_the_span_is_noted_and_passes_through(traced):
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
    failed, after, around, left = traced.events()
    assert left["args"] == {"error": "SystemExit: 3"}
    assert failed["args"] == {"error": "KeyError: 'no such\\nthing'"}
    # What comes after does not lie in a span that never ended.
    assert failed["ts"] + failed["dur"] <= after["ts"]
    assert "args" not in around


def test_a_generators_span_lasts_from_the_first_value_until_it_is_exhausted_or_closed(traced):
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


def test_a_coroutines_span_lasts_until_it_returns(traced):
    @trace
    async def slow():
        for _ in range(10):
            await asyncio.sleep(0)
        return 2

    async def main():
        return await asyncio.gather(slow(), wait(1))

    assert asyncio.run(main()) == [2, 1]
    # One began before the other, and ended after it: they have ids of their own.
    events = sorted(traced.events(), key=lambda e: e["ts"])
    names = [event["name"].rpartition(".")[2] for event in events]
    assert names == ["slow", "wait", "wait", "slow"]
    first, second, *others = (event["id"] for event in events)
    assert others == [second, first] != [first, second]


def test_a_generator_that_can_be_awaited_still_can(traced):
    @trace
    @types.coroutine
    def old_style():
        yield from asyncio.sleep(0).__await__()
        return 7

    async def main():
        return await old_style()

    assert asyncio.run(main()) == 7
    assert inspect.isgeneratorfunction(old_style)
    assert traced.names() == [old_style.__qualname__] * 2


def test_objects_that_are_called_are_traced_until_they_return(traced):
    class Wait:
        async def __call__(self):
            await asyncio.sleep(0)
            with span("inside"):
                return 3

    assert trace(functools.partial(max, 3))(2) == 3
    assert trace(len)([1]) == 1
    wait_object = trace(Wait())
    assert inspect.iscoroutinefunction(wait_object)
    assert asyncio.run(wait_object()) == 3
    assert traced.names("X") == ["partial", "len"]
    assert [name.rpartition(".")[2] for name in traced.names("b")] == ["inside", "Wait"]


def test_an_asynchronous_generator_gets_what_is_sent_and_thrown_and_closes_what_it_wraps(traced):
    closed = []

    @trace
    async def echo():
        got = None
        try:
            while got != "enough":
                try:
                    got = yield got
                except ValueError as error:
                    got = error
        finally:
            await asyncio.sleep(0)
            closed.append(True)

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
    assert closed == [True] * 3
    args = [event.get("args") for event in traced.events("b")]
    assert args == [None, {"error": "CancelledError"}, None]


def test_context_managers_last_until_they_are_left_and_keep_their_kind(traced):
    thrown = []

    @trace
    @contextlib.contextmanager
    def outside(x=0):
        """Manage."""
        try:
            yield x
        except KeyError as error:
            thrown.append(error)
            raise

    @contextlib.contextmanager
    @trace
    def inside(x):
        yield x

    with outside(1) as one:
        add(1)
    with inside(2) as two:
        add(1)
    assert (one, two) == (1, 2)
    first, around, second, begin, end = traced.events()
    assert around["ts"] <= first["ts"] <= first["ts"] + first["dur"] <= around["ts"] + around["dur"]
    assert begin["ts"] <= second["ts"] <= second["ts"] + second["dur"] <= end["ts"]
    assert outside.__doc__ == "Manage."
    assert outside()(add)(1) == 2
    with pytest.raises(KeyError), outside():
        raise KeyError("k")
    assert len(thrown) == 1
    assert traced.events()[-1]["args"] == {"error": "KeyError: 'k'"}


def test_context_managers_of_coroutines_stand_apart_and_last_until_they_are_left(traced):
    @trace
    @contextlib.asynccontextmanager
    async def manager(x):
        await asyncio.sleep(0)
        yield x

    @trace
    @contextlib.contextmanager
    def opened():
        yield

    async def main():
        with opened():
            async with manager(3) as x:
                assert await wait(x) == 3

    asyncio.run(main())
    waited, managed, around = traced.events("b")
    names = [event["name"].rpartition(".")[2] for event in (waited, managed, around)]
    assert names == ["wait", "manager", "opened"]
    assert around["ts"] < managed["ts"] < waited["ts"]
    assert len({waited["id"], managed["id"], around["id"]}) == 3


def test_what_cannot_be_called_or_changed_is_refused_where_it_stands():
    for what in (int, 3, "name"):
        with pytest.raises(TraceError, match=f"@trace of .*{what}"):
            trace(what)


class Pair(NamedTuple):
    a: int


@pytest.mark.parametrize(
    ("bases", "given", "wrong"),
    [((Pair,), (3,), ()), ((argparse.Namespace,), (), (3,)), ((), (), (3,))],
)
def test_a_class_stays_a_class_and_each_instance_has_a_span(traced, bases, given, wrong):
    kind = critical_path()(type("Kind", bases, {}))
    assert isinstance(kind, type)
    assert type(kind(*given)) is kind
    with pytest.raises(TypeError):
        kind(*wrong)
    assert traced.names("X")[:1] == ["Kind"]
