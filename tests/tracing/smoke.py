"""Programs like those of PerfFlowAspect's smoke tests, and one with many coroutines."""

SMOKE = """
from dagprofiler.tracing import critical_path
import time
@critical_path()
def bas():
    print("bas")
@critical_path(pointcut="around")
def bar():
    print("bar")
    bas()
@critical_path()
def foo(msg):
    print(msg)
    bar()
    return 0
if __name__ == "__main__":
    for i in range(4):
        foo("foo")
"""

PROCESSES = """
import multiprocessing
from dagprofiler.tracing import critical_path
@critical_path()
def work(i):
    return i
def three():
    for i in range(3):
        work(i)
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    processes = [context.Process(target=three) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
"""

THREADS = """
import threading
from dagprofiler.tracing import critical_path
@critical_path()
def bas(): pass
@critical_path()
def bar(): bas()
@critical_path()
def foo(): bar()
# All there at once: numbers of threads come back.
barrier = threading.Barrier(5)
def work():
    barrier.wait()
    foo()
    barrier.wait()
threads = [threading.Thread(target=work) for _ in range(5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""

ASYNC = """
import asyncio
from dagprofiler.tracing import critical_path
@critical_path(pointcut="around_async")
async def work(i):
    await asyncio.sleep(1.001)
async def main():
    await asyncio.gather(*map(work, range(5)))
asyncio.run(main())
"""

COROUTINES = """
import asyncio
from dagprofiler import span, trace
from dagprofiler.tracing import counter
@trace(name="parse")
def parse(i):
    return i
@trace(name="rows")
async def rows(i):
    for part in range(3):
        await asyncio.sleep(0)
        yield part
@trace(name="request")
async def request(i, ready):
    await ready.wait()
    with span("read", number=i):
        async for part in rows(i):
            counter("part", part)
    return parse(i)
async def main():
    ready = asyncio.Event()
    tasks = [asyncio.ensure_future(request(i, ready)) for i in range(1000)]
    await asyncio.sleep(0)
    ready.set()
    print(sum(await asyncio.gather(*tasks)))
asyncio.run(main())
"""
