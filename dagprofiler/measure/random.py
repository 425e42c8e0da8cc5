"""Random streams: every task of a seeded run has its own.

A task's stream depends only on the run's seed and the task's name, not on
which tasks ran before it, or where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


#: The stream of the running task: its key, and its generator once it is requested.
#: One list, so that copies of the context, which coroutines run in, share the generator.
current_stream: ContextVar[list[Any] | None] = ContextVar("stream", default=None)


def rng() -> np.random.Generator:
    """Return the random generator of the running task.

    In a run with a seed it is the task's own stream: the same seed and the
    same task name give the same numbers, independent of the executor and of the
    order of tasks. Without a seed, and outside a task, it is a new generator
    seeded by the operating system.

    Notes
    -----
    Coroutines of the task share its generator. Threads that it starts do not:
    pass them the generator, or generators spawned from it.

    Examples
    --------
    >>> import dagprofiler
    >>> dagprofiler.rng().integers(10) in range(10)
    True
    """
    from numpy.random import default_rng

    stream = current_stream.get()
    if stream is None:
        return default_rng()
    if stream[1] is None:
        stream[1] = default_rng(int.from_bytes(stream[0], "big"))
    generator: np.random.Generator = stream[1]
    return generator


def load_generators() -> None:
    """Import what a seeded run needs: some 50 ms the first time, outside of the run's time."""
    for module in ("hashlib", "random", "dagprofiler.measure._legacy"):
        import_module(module)


class Streams:
    """The streams of the tasks of a seeded run.

    Parameters
    ----------
    seed
        The seed of the run.
    legacy
        Whether to seed the legacy generators of numpy and ``random``, too, which
        is possible only if no other task runs in the same process, and inside of
        :func:`generators_restored`.
    """

    def __init__(self, seed: int, *, legacy: bool = True) -> None:
        # Their import takes 4 ms, and only a seeded run needs them.
        import random
        from hashlib import sha256

        #: The hash of what all keys begin with: a copy takes half as long as a new one.
        self._begun = sha256(f"{seed}:".encode())
        #: Seeds numpy's generator with a key; None to seed no legacy generator.
        self._seed_numpy: Callable[[bytes], None] | None = None
        if legacy:
            from dagprofiler.measure._legacy import seeder

            self._seed_numpy = seeder()
        #: ``random.seed`` for an integer without the type checks: a fifth faster.
        self._twister: Any = random._inst  # noqa: SLF001
        self._seed = super(random.Random, self._twister).seed

    def enter(self, task: str) -> None:
        """Make the stream of `task` the current one, until :func:`leave_stream`.

        Notes
        -----
        The key is SHA-256 over seed and name, so that streams of different tasks
        are independent in practice. ``random.seed`` takes most of the time. It cannot wait
        until the task draws, as numpy's generators do: programs hold bound methods of it.
        """
        whole = self._begun.copy()
        whole.update(task.encode("utf-8", "surrogatepass"))
        key = whole.digest()
        current_stream.set([key, None])
        if self._seed_numpy is not None:
            self._seed(int.from_bytes(key, "big"))
            self._twister.gauss_next = None
            self._seed_numpy(key)


def leave_stream() -> None:
    """End the stream of the task that was entered last."""
    current_stream.set(None)


@contextmanager
def generators_restored() -> Iterator[None]:
    """Restore the legacy generators after the body, in which a :class:`Streams` seeds them."""
    import random

    from dagprofiler.measure._legacy import saved

    python_state, restore_numpy = random.getstate(), saved()
    try:
        yield
    finally:
        random.setstate(python_state)
        restore_numpy()
