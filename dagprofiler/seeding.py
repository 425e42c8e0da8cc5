"""Random streams: every task of a seeded run has its own.

A task's stream follows from the run's seed and the task's name alone, so its
numbers do not depend on what ran before it, or where.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

__all__ = ["enter_stream", "generators_restored", "load_generators", "rng"]

#: The key of the current task's stream, and the stream's generator once somebody asked for it.
_key: ContextVar[int | None] = ContextVar("key", default=None)
_generator: ContextVar[np.random.Generator | None] = ContextVar("generator", default=None)


def rng() -> np.random.Generator:
    """Return the random generator of the task that is running.

    In a run with a seed it is the task's own stream: the same seed and the
    same task name give the same numbers, wherever and in whatever order tasks
    run. Without a seed, and outside a task, it is a new generator seeded by
    the operating system.

    Notes
    -----
    The stream belongs to the thread that runs the task. A task that starts
    threads passes them its generator, or generators spawned from it.

    Examples
    --------
    >>> import dagprofiler
    >>> dagprofiler.rng().integers(10) in range(10)
    True
    """
    from numpy.random import default_rng

    key = _key.get()
    if key is None:
        return default_rng()
    generator = _generator.get()
    if generator is None:
        generator = default_rng(key)
        _generator.set(generator)
    return generator


def load_generators() -> None:
    """Import what a seeded run needs: some 50 ms the first time, which are nobody's run time."""
    import hashlib  # noqa: F401

    import numpy.random  # noqa: F401


def enter_stream(seed: int, task: str) -> None:
    """Make the stream of `task` the current one, for :func:`rng` and the legacy generators.

    Notes
    -----
    The key is SHA-256 over seed and name, so that streams of different tasks
    are independent for all that matters and cost 20 microseconds to set up.
    """
    # hashlib costs 3 ms to import and only a seeded run needs it.
    from hashlib import sha256

    from numpy.random import seed as seed_numpy

    key = int.from_bytes(sha256(f"{seed}:{task}".encode("utf-8", "surrogatepass")).digest(), "big")
    _key.set(key)
    _generator.set(None)
    random.seed(key)
    seed_numpy(key & 0xFFFFFFFF)


@contextmanager
def generators_restored(seed: int | None) -> Iterator[None]:
    """Leave the caller's random generators as they were; do nothing without a seed."""
    if seed is None:
        yield
        return
    from numpy.random import get_state, set_state

    python_state = random.getstate()
    numpy_state = get_state(legacy=False)
    tokens = _key.set(None), _generator.set(None)
    try:
        yield
    finally:
        _key.reset(tokens[0])
        _generator.reset(tokens[1])
        random.setstate(python_state)
        set_state(numpy_state)
