"""numpy's legacy generator in a seeded run: seeded when a task first draws from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy.random
from numpy.random import MT19937, RandomState

#: numpy's own type information leaves out some of what these have.
random: Any = numpy.random
_twister: Any = MT19937


def _words(key: bytes) -> list[int]:
    # All of the key: 32 bits alone would make two of 10,000 tasks alike in 1 % of runs.
    return [int.from_bytes(key[i : i + 4], "big") for i in range(0, len(key), 4)]


class WhenDrawn(MT19937):
    """A Mersenne Twister that is seeded at the first draw, or when its state is read.

    Notes
    -----
    Seeding takes 8 us, and most tasks never draw from it. All of numpy's functions that draw
    hold the lock of their bit generator. Until it is seeded, the lock of this one is
    itself, which seeds it before it takes the real lock.
    """

    def __init__(self) -> None:
        super().__init__(0)
        #: The key to seed it with; None once it is seeded.
        self._key: bytes | None = None
        self._seeded = True
        self._first = threading.Lock()
        self._real: Any = _twister.lock.__get__(self)

    def stream(self, key: bytes) -> None:
        """Become numpy's legacy generator, which draws from the stream of this key."""
        # An unused one is ready.
        if self._key is None or random.get_bit_generator() is not self:
            # numpy takes the lock here, too.
            self._key, self._seeded = None, False
            random.set_bit_generator(self)
        self._key = key

    def _seed(self) -> None:
        """Seed it, unless it is seeded; from then on it behaves like any other."""
        with self._first:
            key = self._key
            if key is not None:
                super()._legacy_seeding(_words(key))
                self._settle()

    def _settle(self) -> None:
        self._key, self._seeded = None, True
        if random.get_bit_generator() is self:
            # So that numpy takes the real lock the next time.
            random.set_bit_generator(self)

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
        """Be seeded by ``np.random.seed()``."""
        super()._legacy_seeding(seed)
        self._settle()

    @property
    def state(self) -> Any:
        """Its state, by ``np.random.get_state()`` and ``set_state()``."""
        self._seed()
        return {**_twister.state.__get__(self), "bit_generator": "MT19937"}

    @state.setter
    def state(self, value: Any) -> None:
        _twister.state.__set__(self, {**value, "bit_generator": type(self).__name__})
        self._settle()

    def random_raw(self, *args: Any, **kwargs: Any) -> Any:
        """Return numbers as they are drawn."""
        self._seed()
        return super().random_raw(*args, **kwargs)

    def jumped(self, jumps: int = 1) -> MT19937:
        """Return a generator that is `jumps` jumps ahead."""
        return self._plain().jumped(jumps)

    def __reduce__(self) -> Any:
        return self._plain().__reduce__()

    def _plain(self) -> MT19937:
        plain = MT19937(0)
        plain.state = self.state
        return plain


class AtOnce:
    """The same for numpy before 1.24, which accepts no other bit generator."""

    @staticmethod
    def stream(key: bytes) -> None:
        """Have numpy's legacy generator draw from the stream of this key."""
        random.seed(_words(key))


#: Unused generators. None is ever freed: another thread may still draw from one of a run.
_free: list[WhenDrawn | AtOnce] = []


def generator() -> WhenDrawn | AtOnce:
    """Return an object that seeds numpy's legacy generator for one task after the other."""
    try:
        unused: WhenDrawn | AtOnce = _free.pop()
    except IndexError:
        unused = WhenDrawn() if _seeds_when_drawn() else AtOnce()
    return unused


def give_back(used: WhenDrawn | AtOnce) -> None:
    """Keep a generator for reuse, when its stream is no longer used."""
    _free.append(used)


@cache
def _seeds_when_drawn() -> bool:
    """Tell whether this numpy takes the lock of a bit generator, as all known versions do."""
    if not hasattr(random, "set_bit_generator"):
        return False
    seeded = []
    for use in (RandomState.random_sample, lambda state: state.seed(5), RandomState.get_state):
        tried = WhenDrawn()
        tried._seeded = False  # noqa: SLF001  (one module)
        state = RandomState(tried)
        tried._key = bytes(32)  # noqa: SLF001
        use(state)
        seeded.append(tried._seeded)  # noqa: SLF001
    return all(seeded)


def saved() -> Callable[[], None]:
    """Return a function that restores the current state of numpy's legacy generator."""
    state: Any = random.get_state(legacy=False)
    if not _seeds_when_drawn():
        return lambda: random.set_state(state)
    own = random.get_bit_generator()

    def restore() -> None:
        # Its state is unchanged, except what belongs to the functions.
        random.set_bit_generator(own)
        if state["has_gauss"]:
            gauss = {key: state[key] for key in ("has_gauss", "gauss")}
            random.set_state({**own.state, **gauss})

    return restore
