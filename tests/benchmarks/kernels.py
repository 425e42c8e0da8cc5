"""Work of different kinds for tasks to do, and a load beside them."""

import json
import pickle
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import numpy as np
from harness import timed


def kernels(count):
    """Return functions that take the time of about `count` steps of a loop each, by name."""
    words = [str(i * 7919 % 10_007) for i in range(count // 2)]
    records = [
        {"id": i, "name": f"record {i}", "tags": ["a", "b"], "score": i / 7}
        for i in range(count // 200 + 1)
    ]
    # OpenBLAS multiplies small ones in the calling thread.
    small = np.full((64, 64), 0.5)

    return {
        "pure Python loop": lambda: spin(count),
        "building dicts": lambda: {word: i for i, word in enumerate(words)},
        "sorting": lambda: sorted(words),
        "string work": lambda: "-".join(word[::-1].upper() for word in words),
        "matmul, 64 x 64": lambda: small @ small,
        "allocating arrays": lambda: [np.ones(count // 2) for _ in range(10)],
        "json and pickle round trips": lambda: (
            json.loads(json.dumps(records)),
            pickle.loads(pickle.dumps(records)),
        ),
    }


def spin(steps):
    total = 0
    for i in range(steps):
        total += i * i % 7
    return total


def milliseconds(work, calls):
    """Return how long a call takes, at best of so many in a row."""
    return min(timed(repeated(calls, work)) for _ in range(20)) * 1e3 / calls


def repeated(count, work):
    def all_of_it():
        for _ in range(count):
            work()

    return all_of_it


#: Computes until its input ends; with a seed, in bursts as long as the pauses between them.
BURN = """
import os, random, sys, threading, time
def end_with_input():
    sys.stdin.buffer.read()
    os._exit(0)
threading.Thread(target=end_with_input, daemon=True).start()
bursts = random.Random(sys.argv[1]) if sys.argv[1] else None
print("burning", flush=True)
while True:
    end = time.perf_counter() + (bursts.expovariate(2) if bursts else 1)
    while time.perf_counter() < end:
        for _ in range(10_000):
            pass
    if bursts:
        time.sleep(bursts.expovariate(2))
"""


@contextmanager
def burners(count, seed=""):
    """Keep processes computing beside this one, wherever the system puts them.

    With a seed each of them comes and goes, half a second at a time in the mean.
    """
    with ExitStack() as ends:
        for number in range(count):
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", BURN, seed and f"{seed}, {number}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            ends.enter_context(process)
            ends.callback(process.kill)
            process.stdout.readline()
        yield
