import asyncio
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256

import numpy as np
import pytest

from dagprofiler import DAG, Hook, RunError, Task, ValidationError, rng, task
from dagprofiler._util.interpreter import current_stream
from dagprofiler.measure.random import Streams, generators_restored


class Draw(Task):
    """Draws from every generator that a task may use."""

    outputs = ["numbers"]

    def compute(self):
        legacy = np.random.rand(3).tolist(), [random.random() for _ in range(3)]
        return {"numbers": (rng().random(3).tolist(), *legacy)}


def drawn(dag, seed):
    """Return what each task of `dag` drew."""
    outputs = dag.run(seed=seed, keep=list(dag.tasks)).outputs
    return {name: fields["numbers"] for name, fields in outputs.items()}


def states():
    numpy_state = np.random.get_state(legacy=False)
    key = numpy_state["state"].pop("key").tolist()
    return random.getstate(), numpy_state, key


def independent(*names):
    return DAG({name: Draw() for name in names})


def test_numbers_follow_from_the_seed_and_the_task():
    dag = independent("a", "b", "ü", "a:b", "日本", "task with spaces")
    numbers = drawn(dag, 42)
    random.seed(1)
    np.random.seed(1)
    assert drawn(dag, 42) == numbers
    others = [numbers[name] for name in dag.tasks if name != "a"]
    for other in (*others, drawn(independent("a"), 43)["a"]):
        assert all(one != its for one, its in zip(numbers["a"], other))
    # Of the keys of these two, 32 bits are equal.
    alike = drawn(independent("t62186", "t80106"), 0)
    assert alike["t62186"][1] != alike["t80106"][1]


def test_numbers_depend_on_nothing_else_that_runs():
    alone = drawn(independent("b"), 42)["b"]
    tasks = {name: Draw() for name in "abc"}
    first = DAG(tasks, [("b", "a", []), ("b", "c", [])])
    last = DAG(tasks, [("a", "b", []), ("c", "b", [])])
    assert first.execution_order[0] == last.execution_order[-1] == "b"
    assert drawn(first, 42) == drawn(last, 42)
    assert drawn(first, 42)["b"] == alone


def test_streams_do_not_change_from_version_to_version():
    key = sha256(b"42:collect").digest()
    with generators_restored():
        random.gauss(0, 1)
        Streams(42).enter("collect")
        assert random.getstate() == random.Random(int.from_bytes(key, "big")).getstate()
        assert random.random() == 0.036498918352116494
        assert np.random.random() == 0.060930740316672005
        assert rng().random() == 0.9370887669058587
        current_stream.set(None)


@pytest.mark.parametrize("seed", [0, 2**63 - 1, np.uint8(5)])
def test_seeds_are_integers_of_any_kind(seed):
    assert drawn(independent("a"), seed) == drawn(independent("a"), int(seed))
    recorded = independent("a").run(seed=seed).seed
    assert (recorded, type(recorded)) == (seed, int)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True, "42"])
def test_an_invalid_seed_is_refused(seed):
    with pytest.raises(ValidationError, match=f"^seed .*{seed!r}"):
        independent("a").run(seed=seed)


@pytest.mark.parametrize(
    ("error", "raised"), [(ValueError("boom"), RunError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_a_run_that_fails_leaves_the_callers_generators(error, raised):
    class DrawAndRaise(Draw):
        def compute(self):
            super().compute()
            raise error

    # One of a pair of normals is used, and the other is kept.
    random.gauss(0, 1)
    np.random.standard_normal()
    before = states()
    with pytest.raises(raised):
        DAG({"a": DrawAndRaise}).run(seed=42)
    assert states() == before


def test_a_run_without_a_seed_leaves_the_generators():
    random.seed(7)
    np.random.seed(7)
    numbers = drawn(independent("a"), None)["a"][1:]
    after = states()
    random.seed(7)
    np.random.seed(7)
    assert numbers == (np.random.rand(3).tolist(), [random.random() for _ in range(3)])
    assert states() == after


def test_a_task_that_runs_a_dag_goes_on_in_its_own_stream():
    def draws(dag):
        first = rng().random(), np.random.randn(), random.random()
        inner = dag and drawn(dag, 5)
        return first, inner, (rng().random(), np.random.randn(), random.random())

    first, inner, second = draw_through(lambda: draws(independent("a")))
    assert (first, None, second) == draw_through(lambda: draws(None))
    assert inner == drawn(independent("a"), 5)


def test_runs_in_several_threads_have_streams_of_their_own():
    def run(_):
        return draw_through(lambda: rng().random(5).tolist())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [run(None)] * 4


def draw_through(way):
    draws = task(outputs=["numbers"])(lambda: {"numbers": way()})
    return DAG({"a": draws}).run(seed=5).final_outputs["numbers"]


async def draw():
    return rng().random()


async def draw_in_a_thread():
    return await asyncio.to_thread(lambda: rng().random())


@pytest.mark.parametrize("first", [draw, draw_in_a_thread])
def test_coroutines_of_a_task_share_its_generator(first):
    async def side_by_side():
        return await asyncio.gather(draw(), draw(), draw_in_a_thread())

    def by_coroutines():
        numbers = [asyncio.run(first()), asyncio.run(draw()), rng().random()]
        return numbers + asyncio.run(side_by_side())

    numbers = draw_through(by_coroutines)
    assert len(set(numbers)) == 6
    assert sorted(numbers) == sorted(draw_through(lambda: rng().random(6).tolist()))


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_of_a_seeded_run_have_no_stream(fails):
    generators, hook = [], Hook()
    hook.run_started = hook.task_started = lambda _: generators.extend([rng(), rng()])
    hook.task_finished = hook.task_failed = hook.run_finished = hook.task_started
    ends = task(outputs=["x"])(lambda: {"x": 1 / 0 if fails else rng().random()})
    with suppress(RunError):
        DAG(dict.fromkeys("ab", ends)).run(seed=1, hooks=[hook], on_error="finish")
    assert len({id(generator) for generator in generators}) == len(generators) == 12


@task(outputs=["numbers"])
def in_threads():
    together = threading.Barrier(4)

    def draws(_):
        together.wait()
        return np.random.random_sample(3).tolist()

    with ThreadPoolExecutor(4) as pool:
        return {"numbers": [number for some in pool.map(draws, range(4)) for number in some]}


def test_threads_of_a_task_draw_each_number_once():
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for seed in range(40):
            numbers = DAG({"draw": in_threads}).run(seed=seed).final_outputs["numbers"]
            assert len({*numbers}) == len(numbers)
    finally:
        sys.setswitchinterval(interval_s)
