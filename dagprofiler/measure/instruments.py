"""Instruments: what is measured of a task beside the six readings of the clock.

A plain run has none. Several rounds, and whoever asks for meters, get a clock
around each field that is encoded or decoded, and the meters around
``compute()``; both cost time that a plain run does not pay.
"""

from __future__ import annotations

import gc
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from dagprofiler.measure.meters import ALLOCATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Union

    from dagprofiler.measure.meters import Selection
    from dagprofiler.tracing.runs import Tracing

    Codec = Callable[[Any], Any]
    Number = Union[int, float, None]


class Readings(NamedTuple):
    """What the instruments read of one task.

    Attributes
    ----------
    decode_s, encode_s
        How long each input took to decode, in the order of the work, and each
        output to encode, in seconds.
    meters
        What each meter read; None where it read nothing.
    digest
        A hash of the serialized outputs; None where none was asked for.
    reasons
        Why meters read nothing, by column, as far as is known now.
    meters_s, garbage_s
        What the meters themselves and collecting garbage cost, in seconds.
    stored
        Where the outputs were stored, as the store says it; None without one.
    store_s
        What that took, in seconds.
    """

    decode_s: list[float]
    encode_s: dict[str, float]
    meters: list[Number]
    digest: bytes | None
    reasons: Mapping[str, str]
    meters_s: float
    garbage_s: float
    stored: Any = None
    store_s: float = 0.0


class Instrumentation(NamedTuple):
    """Which instruments to open; travels to workers, where :meth:`open` opens them.

    Attributes
    ----------
    meters
        What runs around ``compute()``.
    collect_garbage
        Whether to collect garbage before each task, outside all clocks.
    hash_outputs
        Whether to hash what a task returned, as it was serialized.
    store
        Where to put it; something whose ``open()`` has ``begin()``, called before each
        task, ``put(encoded)``, which says where, and ``close()``. None for nowhere.
    tracing
        What to record inside of tasks beside what is annotated; a
        :class:`~dagprofiler.tracing.runs.Tracing`, None for nothing.
    """

    meters: Selection
    collect_garbage: bool = False
    hash_outputs: bool = False
    store: Any = None
    tracing: Tracing | None = None

    @property
    def columns(self) -> list[str]:
        """What the meters measure."""
        return self.meters.columns

    def open(self, *, alone: bool = True) -> Instruments:
        """Return the instruments of the thread that calls this.

        Parameters
        ----------
        alone
            Whether no other task runs in this process.
        """
        return Instruments(self, alone=alone)


#: Of the pass that counts allocations.
COUNT_ALLOCATIONS = Instrumentation(ALLOCATION)


class Instruments:
    """The open instruments of one worker, used by one task after the other."""

    def __init__(self, instrumentation: Instrumentation, *, alone: bool = True) -> None:
        self._store = instrumentation.store and instrumentation.store.open()
        self._tracing = instrumentation.tracing and instrumentation.tracing.open()
        self._meters = instrumentation.meters.open(alone=alone)
        self._metering = False
        self._hashes = instrumentation.hash_outputs
        self._garbage = _Garbage() if instrumentation.collect_garbage else None
        self._decode_s: list[float] = []
        self._encode_s: list[float] = []
        self._read: list[Number] = []
        self._garbage_s = self._meters_s = self._store_s = 0.0

    def begin(self, decoders: Iterable[Codec], encode: Codec) -> tuple[Iterator[Codec], Codec]:
        """Prepare for a task; return its codecs with a clock around each."""
        if self._store is not None:
            begun = perf_counter()
            self._store.begin()
            self._store_s = perf_counter() - begun
        self._garbage_s = self._garbage.collect() if self._garbage else 0.0
        self._decode_s, self._encode_s, self._read = [], [], []
        spent_s = self._decode_s
        return (_clocked(decode, spent_s) for decode in decoders), _clocked(encode, self._encode_s)

    def start(self) -> None:
        """Start tracing and the meters; what comes next is ``compute()``."""
        if self._tracing is not None:
            self._tracing.start()
        # Without any, what it costs to ask them would be on nobody's account.
        if self._meters.columns:
            self._metering = True
            self._meters.start()

    def stop(self, task: str) -> None:
        """Stop the meters and tracing, if they are running."""
        if self._metering:
            self._metering = False
            self._read = self._meters.stop(task)
        if self._tracing is not None:
            self._tracing.stop()

    def readings(self, encoded: Mapping[str, Any], why: str | None = None) -> Readings:
        """Return what was read of the task whose outputs are `encoded`.

        Where the meters did not run, `why` says why.
        """
        already_s, self._meters_s = self._meters_s, self._meters.cost_s
        stored = None
        if self._store is not None:
            begun = perf_counter()
            stored = self._store.put(encoded)
            self._store_s += perf_counter() - begun
        return Readings(
            self._decode_s,
            dict(zip(encoded, self._encode_s)),
            self._read,
            _digest(encoded) if self._hashes else None,
            self._meters.reasons if why is None else dict.fromkeys(self._meters.columns, why),
            self._meters_s - already_s,
            self._garbage_s,
            stored,
            self._store_s,
        )

    def rest(self) -> None:
        """Let go of frozen objects: what comes next in this process may be no task."""
        if self._garbage:
            self._garbage.close()

    def close(self) -> None:
        """Let go of what the meters hold open, and of frozen objects."""
        self.rest()
        if self._store is not None:
            self._store.close()
        self._meters.close()


def _clocked(codec: Codec, spent_s: list[float]) -> Codec:
    def clocked(value: Any) -> Any:
        begun = perf_counter()
        result = codec(value)
        spent_s.append(perf_counter() - begun)
        return result

    return clocked


def _digest(encoded: Mapping[str, Any]) -> bytes:
    from hashlib import blake2b

    digest = blake2b(digest_size=16)
    for field, data in sorted(encoded.items()):
        frames = [memoryview(frame) for frame in (data if isinstance(data, list) else [data])]
        # Lengths keep the end of one and the start of the next apart.
        digest.update(repr((field, [frame.nbytes for frame in frames])).encode())
        for frame in frames:
            digest.update(frame if frame.c_contiguous else frame.tobytes())
    return digest.digest()


def _frozen_at_start() -> int:
    """Return how many objects the interpreter keeps frozen without anybody's ``gc.freeze()``.

    CPython 3.12 moves what is immortal there; elsewhere there are none.
    """
    # PyPy has no such count. Whoever freezes freezes `sys.modules`, too.
    count = gc.get_freeze_count() if hasattr(gc, "freeze") else 0
    return count if count and any(alive is sys.modules for alive in gc.get_objects()) else 0


_FROZEN_AT_START = _frozen_at_start()


class _Garbage:
    """Collects what earlier tasks left, and keeps what is alive out of later collections.

    What survives is frozen, so that the collector does not walk through it
    while a task runs. Who has frozen objects already keeps them frozen: there
    nothing is frozen or thawed.
    """

    # Objects at the last freeze; of the process, since two runs may take turns.
    _frozen = _FROZEN_AT_START

    def __init__(self) -> None:
        # PyPy has neither.
        self._freezes = hasattr(gc, "freeze") and not self._others_freeze()

    def collect(self) -> float:
        """Return the seconds that it took."""
        begun = perf_counter()
        self._thaw()
        gc.collect()
        if self._freezes:
            # Ctrl-C may come before they are counted.
            _Garbage._frozen = sys.maxsize
            gc.freeze()
            _Garbage._frozen = gc.get_freeze_count()
        return perf_counter() - begun

    def _thaw(self) -> None:
        if self._freezes and self._others_freeze():
            # From here on it is theirs.
            self._freezes = False
        if self._freezes:
            gc.unfreeze()
        _Garbage._frozen = _FROZEN_AT_START

    @staticmethod
    def _others_freeze() -> bool:
        return gc.get_freeze_count() > _Garbage._frozen

    def close(self) -> None:
        self._thaw()
