"""numpy's legacy generator in a seeded run: seeded when a task first draws from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy.random

#: numpy's own type information leaves out some of what these have.
random: Any = numpy.random
_twister: Any = numpy.random.MT19937


def _words(key: bytes) -> list[int]:
    # All of the key: 32 bits alone would make two of 10,000 tasks alike in 1 % of runs.
    return [int.from_bytes(key[i : i + 4], "big") for i in range(0, len(key), 4)]


class MT19937(numpy.random.MT19937):
    """A Mersenne Twister that is seeded at the first draw, or when its state is read.

    Notes
    -----
    Seeding takes 8 us, and most tasks never draw from it. All of numpy's functions that draw
    hold the lock of their bit generator. Until it is seeded, the lock of this one is
    itself, which seeds it and then takes the real lock. numpy writes the name of the class into
    its state, so it has that of its base.
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
        # An unused one is ready.
        if self._key is None or random.get_bit_generator() is not self:
            # numpy takes the lock here, too.
            self._key, self._seeded = None, False
            random.set_bit_generator(self)
        self._key = key

    def is_seeded_by_a_draw(self) -> bool:
        """Tell whether numpy takes the lock before it draws, so that this one works."""
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
        # Nothing more: to become numpy's again would lose the second of a pair of normal numbers,
        # which set_state() has set by now.
        self._key = None

    def __reduce__(self) -> Any:
        """Pickle as numpy's own: models and distributions of SciPy hold the legacy generator."""
        plain = _twister(0)
        plain.state = self.state
        return plain.__reduce__()


@cache
def seeder() -> Callable[[bytes], None]:
    """Return what makes numpy's legacy generator draw from the stream of a key.

    numpy before 1.24 accepts no other bit generator, and is seeded at once. So is a version
    that does not take the lock before it draws, as all known ones do.
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
        # A run inside a task has drawn from the same one. Of another one, what belongs
        # to the functions is lost: the second of a pair of normal numbers.
        if isinstance(bits, MT19937) or state["has_gauss"]:
            random.set_state(state)

    return restore
