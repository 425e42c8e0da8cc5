"""numpy's legacy generator in a seeded run: seeded when a task first draws from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy.random

#: numpy's type information lacks some of their attributes.
random: Any = numpy.random
_twister: Any = numpy.random.MT19937


def _words(key: bytes) -> list[int]:
    # With 32 bits alone, two of 10,000 tasks would get the same seed in 1 % of runs.
    return [int.from_bytes(key[i : i + 4], "big") for i in range(0, len(key), 4)]


class MT19937(numpy.random.MT19937):
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
        #: The key to seed it with; None once it is seeded.
        self._key: bytes | None = None
        #: Whether numpy may take the real lock, which is faster.
        self._seeded = True
        self._seeding = threading.Lock()
        self._real: Any = _twister.lock.__get__(self)

    def stream(self, key: bytes) -> None:
        """Become numpy's legacy generator, which draws from the stream of this key."""
        # One that has waited for a draw since the last call is ready.
        if self._key is None or random.get_bit_generator() is not self:
            # numpy takes the lock here, too.
            self._key, self._seeded = None, False
            random.set_bit_generator(self)
        self._key = key

    def is_seeded_by_a_draw(self) -> bool:
        """Tell whether numpy takes the lock before it draws, without which this cannot work."""
        self._seeded = False
        state = numpy.random.RandomState(self)
        self._key = bytes(32)
        state.random_sample()
        return self._seeded

    def _seed(self) -> None:
        # Some versions of numpy take the real lock to seed: this thread must not hold it yet.
        with self._seeding:
            if self._key is not None:
                self._legacy_seeding(_words(self._key))

    @property
    def lock(self) -> Any:  # type: ignore[override]
        """The lock that numpy holds while it draws."""
        return self._real if self._seeded else self

    def __enter__(self) -> None:
        self._seed()
        self._real.acquire()

    def __exit__(self, *_: object) -> None:
        self._real.release()

    def _legacy_seeding(self, seed: Any) -> None:
        """Be seeded, by the first draw or by ``np.random.seed()``."""
        super()._legacy_seeding(seed)
        self._key, self._seeded = None, True
        if random.get_bit_generator() is self:
            # So that numpy takes the real lock the next time.
            random.set_bit_generator(self)

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


@cache
def seeder() -> Callable[[bytes], None]:
    """Return a function that makes numpy's legacy generator draw from the stream of a key.

    It seeds at once where numpy, before 1.24, accepts no other bit generator, or draws without
    taking the lock, as no known version does.
    """
    generator = MT19937()
    works = hasattr(random, "set_bit_generator") and generator.is_seeded_by_a_draw()
    return generator.stream if works else at_once


def at_once(key: bytes) -> None:
    """Seed numpy's legacy generator with a key."""
    random.seed(_words(key))


def saved() -> Callable[[], None]:
    """Return a function that restores the present state of numpy's legacy generator."""
    state: Any = random.get_state(legacy=False)
    if not hasattr(random, "set_bit_generator"):
        return lambda: random.set_state(state)
    bits = random.get_bit_generator()

    def restore() -> None:
        random.set_bit_generator(bits)
        # A run inside a task has drawn from the same generator. With any other generator only
        # the second of a pair of normal numbers is lost.
        if isinstance(bits, MT19937) or state["has_gauss"]:
            random.set_state(state)

    return restore
