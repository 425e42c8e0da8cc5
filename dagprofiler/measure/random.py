"""Random streams: every task of a seeded run has its own.

A task's stream depends only on the run's seed and the task's name, not on
which tasks ran before it, or where.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar

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
    import hashlib  # noqa: F401

    import dagprofiler.measure._legacy  # noqa: F401


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
        # Its import takes 3 ms, and only a seeded run needs it.
        from hashlib import sha256

        #: The hash of what all keys begin with: a copy takes half as long as a new one.
        self._begun = sha256(f"{seed}:".encode())
        self._legacy = legacy
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
        if self._legacy:
            generators = _generators.get()
            if generators.numpy is None:
                generators.save()
            self._seed(int.from_bytes(key, "big"))
            self._twister.gauss_next = None
            generators.numpy.stream(key)


def leave_stream() -> None:
    """End the stream of the task that was entered last."""
    current_stream.set(None)


class _Generators:
    """The legacy generators of this process, while a run seeds them.

    Parameters
    ----------
    inner
        Whether the run is inside a task of another run, which continues its own stream.
    """

    #: Held while one of several concurrent runs begins or ends seeding.
    _lock = threading.Lock()
    #: Those runs; the first one saves the states for all, and the last one restores them.
    _beside: ClassVar[set[_Generators]] = set()
    _restore_all: ClassVar[list[Callable[[], None]]] = []

    def __init__(self, *, inner: bool) -> None:
        #: Seeds numpy's generator for a task; None before the first one.
        self.numpy: Any = None
        self._inner = inner
        self._restore: Callable[[], None]

    def save(self) -> None:
        """Save their states and prepare to seed them."""
        from dagprofiler.measure._legacy import generator

        if self._inner:
            self._restore = _saved()
        else:
            with self._lock:
                if not self._beside:
                    self._restore_all[:] = [_saved()]
                self._beside.add(self)
        self.numpy = generator()

    def restore(self) -> None:
        """Restore the saved states, if any."""
        from dagprofiler.measure._legacy import give_back

        if self._inner:
            if self.numpy is not None:
                self._restore()
        else:
            with self._lock:
                if self._beside == {self}:
                    self._restore_all[0]()
                self._beside.discard(self)
        if self.numpy is not None:
            give_back(self.numpy)


def _saved() -> Callable[[], None]:
    """Return a function that restores the current states of both legacy generators."""
    from dagprofiler.measure._legacy import saved

    python_state, restore_numpy = random.getstate(), saved()

    def restore() -> None:
        try:
            random.setstate(python_state)
        finally:
            restore_numpy()

    return restore


_generators: ContextVar[_Generators] = ContextVar("generators")


def _begin_anew() -> None:
    """Forget, in a process that was forked, the runs that go on in its parent's threads."""
    _Generators._lock = threading.Lock()  # noqa: SLF001  (one module)
    _Generators._beside.intersection_update([_generators.get(None)])  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@contextmanager
def generators_restored() -> Iterator[None]:
    """Restore the legacy generators after the body, in which a :class:`Streams` seeds them."""
    generators = _Generators(inner=_generators.get(None) is not None)
    outer = _generators.set(generators)
    try:
        yield
    finally:
        _generators.reset(outer)
        generators.restore()
