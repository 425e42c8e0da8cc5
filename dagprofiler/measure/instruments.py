"""Instruments: what is measured of a task in addition to the six readings of the clock.

A plain run has none. A run with several rounds or with meters has a clock
around each field that is encoded or decoded, and the meters around
``compute()``; a plain run does not pay their cost.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler._util import Values
from dagprofiler.measure.machine import versions
from dagprofiler.measure.meters import ALLOCATION, MeterSet, Selection
from dagprofiler.serializers import Codec

if TYPE_CHECKING:
    from dagprofiler._util.interpreter import Collection
    from dagprofiler.tracing.functions import Tracing


class Readings(NamedTuple):
    """The instruments' readings of one task.

    Attributes
    ----------
    decode_s, encode_s
        Time to decode each input, in the order of the work, and to encode each declared output,
        in seconds; None if it was not timed.
    meters
        The value of each meter; None if it has none.
    digest
        A hash of the serialized outputs, as hexadecimal digits; None if not requested.
    reasons
        Why meters have no value, by column, as known so far.
    meters_s, garbage_s
        The cost of the meters and of collecting garbage, in seconds.
    stored
        The store's location of the outputs; None without a store.
    store_s
        How long storing took, in seconds.
    versions
        The versions of the packages that the process has loaded, by name; None if it has loaded
        no module since the task before.
    """

    decode_s: Sequence[float]
    encode_s: Sequence[float | None]
    meters: Sequence[float | None]
    digest: str | None
    reasons: Mapping[str, str]
    meters_s: float
    garbage_s: float
    stored: Any = None
    store_s: float = 0.0
    versions: Mapping[str, str] | None = None


class Instrumentation(NamedTuple):
    """Which instruments to open; sent to workers, where :meth:`open` opens them.

    Attributes
    ----------
    meters
        The meters around ``compute()``.
    collect_garbage
        Whether to collect garbage before each task, outside all clocks.
    hash_outputs
        Whether to hash the serialized outputs of a task.
    store
        Where to store them: called in the worker, it returns an object with ``begin()``, called
        before each task, and ``put(encoded)``, which returns the location. None for no store.
    tracing
        What to record inside of tasks in addition to annotations; a
        :class:`~dagprofiler.tracing.functions.Tracing`, None for nothing.
    """

    meters: Selection
    collect_garbage: bool = False
    hash_outputs: bool = False
    store: Any = None
    tracing: Tracing | None = None

    def open(self, *, alone: bool = True) -> Instruments:
        """Return the instruments of the calling thread.

        Parameters
        ----------
        alone
            Whether no other task runs in this process.
        """
        return Instruments(self, alone=alone)


#: Instruments of the pass that counts allocations.
COUNT_ALLOCATIONS = Instrumentation(ALLOCATION)


class Instruments:
    """The open instruments of one worker, used by one task after the other."""

    def __init__(self, instrumentation: Instrumentation, *, alone: bool = True) -> None:
        self._store = instrumentation.store and instrumentation.store()
        self._tracing = instrumentation.tracing
        #: What is traced of the task that runs.
        self._traced: Collection | None = None
        self._meters = MeterSet(instrumentation.meters, alone=alone)
        self._instrumentation = instrumentation
        self._decode_s: list[float] = []
        self._encode_s: list[float] = []
        self._read: list[float | None] = []
        self._modules = 0
        self._garbage_s = self._store_s = 0.0

    def begin(self, decoders: Iterable[Codec], encode: Codec) -> tuple[list[Codec], Codec]:
        """Prepare for a task; return its codecs with a clock around each."""
        if self._store is not None:
            begun = perf_counter()
            self._store.begin()
            self._store_s = perf_counter() - begun
        self._garbage_s = _collect_garbage() if self._instrumentation.collect_garbage else 0.0
        self._meters.cost_s = 0.0
        self._decode_s, self._encode_s, self._read = [], [], []
        clocked = [_clocked(decode, self._decode_s) for decode in decoders]
        return clocked, _clocked(encode, self._encode_s)

    def start(self) -> None:
        """Start tracing and the meters; called just before ``compute()``."""
        if self._tracing is not None:
            self._traced = self._tracing.start()
        # Without meters, the cost of the call would count nowhere.
        if self._meters.columns:
            self._meters.start()

    def stop(self, task: str) -> None:
        """Stop the meters and tracing, if they are running."""
        if self._meters.running:
            self._read = self._meters.stop(task)
        if self._tracing is not None and self._traced is not None:
            self._tracing.stop(self._traced)
            self._traced = None

    def readings(
        self, encoded: Values, declared: Sequence[str], why: str | None = None
    ) -> Readings:
        """Return the readings of the task with the outputs `encoded`, some of them `declared`.

        `why` is the reason if the meters did not run.
        """
        encode_s = dict(zip(encoded, self._encode_s))
        stored = None
        if self._store is not None:
            begun = perf_counter()
            stored = self._store.put(encoded)
            self._store_s += perf_counter() - begun
        before, self._modules = self._modules, len(sys.modules)
        return Readings(
            tuple(self._decode_s),
            tuple([encode_s.get(field) for field in declared]),
            tuple(self._read),
            _digest(encoded) if self._instrumentation.hash_outputs else None,
            self._meters.reasons if why is None else dict.fromkeys(self._meters.columns, why),
            self._meters.cost_s,
            self._garbage_s,
            stored,
            self._store_s,
            None if before == self._modules else versions(frozenset(sys.modules)),
        )

    def rest(self) -> None:
        """Unfreeze objects before this process runs other code than tasks."""
        if self._instrumentation.collect_garbage:
            gc.unfreeze()

    def close(self) -> None:
        """Close the meters, and unfreeze objects."""
        self.rest()
        self._meters.close()


def _clocked(codec: Codec, spent_s: list[float]) -> Codec:
    def clocked(value: object) -> object:
        begun = perf_counter()
        result = codec(value)
        spent_s.append(perf_counter() - begun)
        return result

    return clocked


def _digest(encoded: Values) -> str:
    from hashlib import blake2b

    digest = blake2b(digest_size=16)
    for field, data in sorted(encoded.items()):
        frames = [memoryview(frame) for frame in (data if isinstance(data, list) else [data])]
        # Lengths separate the end of one frame from the start of the next.
        digest.update(repr((field, [frame.nbytes for frame in frames])).encode())
        for frame in frames:
            digest.update(frame if frame.c_contiguous else frame.tobytes())
    return digest.hexdigest()


def _collect_garbage() -> float:
    """Collect the garbage of earlier tasks; return the seconds that it took.

    Surviving objects are frozen, so that the collector does not traverse them while a task runs.
    """
    begun = perf_counter()
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    return perf_counter() - begun
