"""Tasks with something to see inside, in a module so that they travel to other processes."""

import asyncio
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

from dagprofiler import DAG, Config, Task, span, task, trace
from dagprofiler.tracing import counter, instant


@trace
def count_to(n):
    return sum(range(n))


@task(outputs=["text"])
def load():
    with span("read", files=2):
        counter("depth", depth=1)
        count_to(1000)
    instant("loaded")
    return {"text": "some words " * 100}


@task(outputs=["lines"])
def fill(text):
    with span("fill"):
        return {"lines": textwrap.wrap(text)}


class Wait(Task):
    inputs = ["lines"]
    outputs = ["n"]
    config_deps = ["coroutines"]

    @staticmethod
    @trace
    async def one():
        await asyncio.sleep(0.001)

    def compute(self, lines, cfg):
        async def main():
            await asyncio.gather(*(self.one() for _ in range(cfg.coroutines)))

        asyncio.run(main())
        return {"n": len(lines)}


@task(outputs=[])
def pools(lines):
    """Have threads of its own do the work."""
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(count_to, range(4))) == [0, 0, 1, 3]
        pool.submit(textwrap.fill, "some words").result()
    return {}


@task(outputs=[])
def fails(lines):
    with span("before it failed"):
        count_to(10)
    with span("fails"):
        raise ValueError("no")


@task(outputs=[])
def nests_ill(lines):
    """Close spans in the wrong order, and twice."""
    first, second = span("first"), span("second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    second.__exit__(None, None, None)
    return {}


class Counts(Task):
    """Has counters and spans whose values are called what events call theirs."""

    inputs = ["lines"]

    def compute(self, lines):
        for i in range(3):
            counter("progress", task=i, round=i, critical_path=i)
            counter("one", i)
        thread = threading.Thread(target=self.beside)
        thread.start()
        thread.join()
        return {}

    @staticmethod
    def beside():
        with span("in a thread", task="mine", round="of golf"):
            pass


class Named(Task):
    """Has spans of any names."""

    inputs = ["lines"]

    def __init__(self, names):
        super().__init__()
        self.names = names

    def compute(self, lines):
        for name in self.names:
            with span(name, value=name):
                counter(name, 1)
        return {}


def chain(coroutines=3, **more):
    tasks = {"load": load, "fill": fill, "wait": Wait, **more}
    edges = [("load", "fill"), ("fill", "wait"), *(("fill", name) for name in more)]
    return DAG(tasks, edges, Config(coroutines=coroutines))
