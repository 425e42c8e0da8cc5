"""Random streams: every task of a seeded run has its own.

A task's stream depends only on the run's seed and the task's name, not on
which tasks ran before it, or where. Only seeded runs and :func:`rng` import this module.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import numpy as np

from dagprofiler._util.interpreter import current_stream

#: numpy's type information lacks some of their attributes.
_numpy_random: Any = np.random
_twister: Any = np.random.MT19937


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
    stream = current_stream.get()
    if stream is None:
        return np.random.default_rng()
    if stream[1] is None:
        stream[1] = np.random.default_rng(int.from_bytes(stream[0], "big"))
    generator: np.random.Generator = stream[1]
    return generator


class MT19937(np.random.MT19937):
    """A Mersenne Twister that is seeded at the first draw, or when its state is read.

    Notes
    -----
    Seeding takes 8 us, and most tasks never draw from it. All of numpy's functions that draw
    take the lock of their bit generator first. Until this generator is seeded, its lock is the
    generator itself: to take it seeds the generator, and then takes the real lock. The class has
    the name of its base, since numpy writes that name into the state.
    """

    def __init__(self) -> None:
        super().__init__(0)
        #: The key to seed it with; empty until it is known, None once the generator is seeded.
        self._key: bytes | None = None
        self._real: Any = _twister.lock.__get__(self)
        self._seeding = threading.Lock()

    def stream(self, key: bytes) -> None:
        """Become numpy's legacy generator, which draws from the stream of this key."""
        # One that has waited for a draw since the last call is ready.
        if self._key is None or _numpy_random.get_bit_generator() is not self:
            # numpy takes the lock here, too.
            self._key = b""
            _numpy_random.set_bit_generator(self)
        self._key = key

    def is_seeded_by_a_draw(self) -> bool:
        """Tell whether numpy takes the lock before it draws, without which this cannot work."""
        self._key = bytes(32)
        np.random.RandomState(self).random_sample()
        return self._key is None

    def _seed(self) -> None:
        # Of several threads that draw at once, one seeds it. Some versions of numpy take the real
        # lock to seed: this thread must not hold it yet.
        with self._seeding:
            if self._key:
                self._legacy_seeding(_words(self._key))

    @property
    def lock(self) -> Any:  # type: ignore[override]
        """The lock that numpy holds while it draws: the real one, which is faster, once seeded."""
        return self._real if self._key is None else self

    def __enter__(self) -> None:
        self._seed()
        self._real.acquire()

    def __exit__(self, *_: object) -> None:
        self._real.release()

    def _legacy_seeding(self, seed: Any) -> None:
        """Be seeded, by the first draw or by ``np.random.seed()``."""
        super()._legacy_seeding(seed)
        self._key = None
        if _numpy_random.get_bit_generator() is self:
            # So that numpy takes the real lock the next time.
            _numpy_random.set_bit_generator(self)

    @property
    def state(self) -> Any:
        """Its state, by ``np.random.get_state()`` and ``set_state()``."""
        self._seed()
        return _twister.state.__get__(self)

    @state.setter
    def state(self, value: Any) -> None:
        _twister.state.__set__(self, value)
        # It does not call set_bit_generator(): that would lose the second of a pair of normal
        # numbers, which set_state() has set by now.
        self._key = None

    def __reduce__(self) -> Any:
        """Pickle as numpy's own: models and distributions of SciPy hold the legacy generator."""
        plain = _twister(0)
        plain.state = self.state
        return plain.__reduce__()


def _words(key: bytes) -> list[int]:
    # With 32 bits alone, two of 10,000 tasks would get the same seed in 1 % of runs.
    return [int.from_bytes(key[i : i + 4], "big") for i in range(0, len(key), 4)]


_legacy = MT19937()
#: numpy before 1.24 accepts no other bit generator; no known version draws without the lock.
_SEEDS_WHEN_DRAWN = hasattr(np.random, "set_bit_generator") and _legacy.is_seeded_by_a_draw()


def seed_at_once(key: bytes) -> None:
    """Seed numpy's legacy generator with a key."""
    np.random.seed(_words(key))


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
        #: The hash of what all keys begin with: a copy takes half as long as a new one.
        self._begun = sha256(f"{seed}:".encode())
        #: Seeds numpy's generator with a key; None to seed no legacy generator.
        self._seed_numpy: Callable[[bytes], None] | None = None
        if legacy:
            self._seed_numpy = _legacy.stream if _SEEDS_WHEN_DRAWN else seed_at_once
        #: ``random.seed`` for an integer without the type checks: a fifth faster.
        self._twister: Any = random._inst  # noqa: SLF001
        self._seed = super(random.Random, self._twister).seed

    def enter(self, task: str) -> None:
        """Make the stream of `task` the current one, until another one, or None, is set.

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


@contextmanager
def generators_restored() -> Iterator[None]:
    """Restore the legacy generators after the body, in which a :class:`Streams` seeds them."""
    python_state, numpy_state = random.getstate(), _numpy_random.get_state(legacy=False)
    bits = _numpy_random.get_bit_generator() if _SEEDS_WHEN_DRAWN else None
    try:
        yield
    finally:
        random.setstate(python_state)
        if bits is not None:
            _numpy_random.set_bit_generator(bits)
        # Others than these have not been drawn from, but have lost the second of two normals.
        if not bits or isinstance(bits, MT19937) or numpy_state["has_gauss"]:
            _numpy_random.set_state(numpy_state)
