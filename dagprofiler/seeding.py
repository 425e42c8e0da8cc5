"""Random streams: every task of a seeded run has its own.

A task's stream follows from the run's seed and the task's name alone, so its
numbers do not depend on what ran before it, or where.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

__all__ = ["Streams", "generators_restored", "leave_stream", "load_generators", "rng"]


class _Stream:
    """The stream of one task: its key, and its generator once somebody asked for it.

    One object, so that copies of the context, which coroutines run in, share it.
    """

    __slots__ = ("generator", "key")

    def __init__(self, key: int) -> None:
        self.key = key
        self.generator: np.random.Generator | None = None


_stream: ContextVar[_Stream | None] = ContextVar("stream", default=None)


def rng() -> np.random.Generator:
    """Return the random generator of the task that is running.

    In a run with a seed it is the task's own stream: the same seed and the
    same task name give the same numbers, wherever and in whatever order tasks
    run. Without a seed, and outside a task, it is a new generator seeded by
    the operating system.

    Notes
    -----
    Coroutines of the task share its generator. Threads that it starts do not:
    it passes them its generator, or generators spawned from it.

    Examples
    --------
    >>> import dagprofiler
    >>> dagprofiler.rng().integers(10) in range(10)
    True
    """
    from numpy.random import default_rng

    stream = _stream.get()
    if stream is None:
        return default_rng()
    if stream.generator is None:
        stream.generator = default_rng(stream.key)
    return stream.generator


def load_generators() -> None:
    """Import what a seeded run needs: some 50 ms the first time, which are nobody's run time."""
    import hashlib  # noqa: F401

    import numpy.random  # noqa: F401


class Streams(NamedTuple):
    """The streams of the tasks of a seeded run.

    Attributes
    ----------
    seed
        The seed of the run.
    legacy
        Whether a task gets the legacy generators of numpy and ``random``, too,
        which it can only where no other task runs in the same process.
    """

    seed: int
    legacy: bool = True

    def enter(self, task: str) -> None:
        """Make the stream of `task` the current one, until :func:`leave_stream`.

        Notes
        -----
        The key is SHA-256 over seed and name, so that streams of different tasks
        are independent for all that matters and cost 20 microseconds to set up.
        """
        # hashlib costs 3 ms to import and only a seeded run needs it.
        from hashlib import sha256

        digest = sha256(f"{self.seed}:{task}".encode("utf-8", "surrogatepass")).digest()
        key = int.from_bytes(digest, "big")
        _stream.set(_Stream(key))
        if self.legacy:
            from numpy.random import seed as seed_numpy

            random.seed(key)
            # All of the digest: 32 bits alone would make two of 10,000 tasks alike in 1 % of runs.
            seed_numpy([int.from_bytes(digest[i : i + 4], "big") for i in range(0, 32, 4)])


def leave_stream() -> None:
    """End the stream of the task that was entered last."""
    _stream.set(None)


@contextmanager
def generators_restored(seed: int | None) -> Iterator[None]:
    """Leave the caller's random generators as they were; a task's stream is none of a run's."""
    token = _stream.set(None)
    try:
        if seed is None:
            yield
            return
        from numpy.random import get_state, set_state

        python_state = random.getstate()
        numpy_state = get_state(legacy=False)
        try:
            yield
        finally:
            random.setstate(python_state)
            set_state(numpy_state)
    finally:
        _stream.reset(token)
