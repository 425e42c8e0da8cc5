"""Collections: spans that are kept in memory instead of the trace file.

The tasks of one thread share one collection, each until it ends. Packed spans are sent with the
task's record: a span takes 20 bytes, and names and arguments are in tables.
"""

from __future__ import annotations

from array import array
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.tracing._process import switch
from dagprofiler.tracing._recording import SPAN, Buffer, Label, Sink, state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Packed(NamedTuple):
    """Recorded spans in a form that is small and pickles.

    Attributes
    ----------
    labels
        Kind, name and category of each label.
    threads
        For each recording thread the system's number, its name, and whether it opened
        the collection.
    of_label, of_thread
        For each span the number of its label and of its thread.
    times
        For each span its start and its end, in seconds of ``perf_counter``.
    args
        Number of a span to its arguments; most have none.
    ids
        Number of an asynchronous span to its id.
    dropped
        How many spans exceeded the limit.
    """

    labels: tuple[tuple[str, str, str], ...]
    threads: tuple[tuple[int, str, bool], ...]
    of_label: array[int]
    of_thread: array[int]
    times: array[float]
    args: dict[int, dict[str, Any]]
    ids: dict[int, int | str]
    dropped: int

    def packed(self) -> Packed:
        """Return these spans, which are already packed."""
        return self

    def shifted(self, seconds: float) -> Packed:
        """Return the same spans, shifted by some seconds."""
        return self._replace(times=array("d", [moment + seconds for moment in self.times]))

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON values."""
        lists = {name: list(getattr(self, name)) for name in ("of_label", "of_thread", "times")}
        keyed = {name: list(getattr(self, name).items()) for name in ("args", "ids")}
        return {**self._asdict(), **lists, **keyed}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Packed:
        """Return the spans in a dict of :meth:`to_dict`."""
        return cls(
            tuple((kind, name, category) for kind, name, category in data["labels"]),
            tuple((number, name, own) for number, name, own in data["threads"]),
            array("I", data["of_label"]),
            array("I", data["of_thread"]),
            array("d", data["times"]),
            dict(data["args"]),
            dict(data["ids"]),
            data["dropped"],
        )

    def spans(self) -> Iterator[tuple[Label, int, float, float]]:
        """Yield label, number of the thread in `threads`, start and end of each span."""
        times = iter(self.times)
        columns = zip(self.of_label, self.of_thread, times, times)
        for i, (label, thread, start, end) in enumerate(columns):
            full = Label(*self.labels[label], self.args.get(i), self.ids.get(i))
            yield full, thread, start, end


class Few(NamedTuple):
    """A few spans of one thread in recorded form, which is cheaper than packing them.

    Attributes
    ----------
    thread
        Number and name of the thread.
    rows
        As a buffer has them.
    """

    thread: tuple[int, str]
    rows: list[Any]

    def packed(self) -> Packed:
        """Return them packed."""
        return _packed([(*self.thread, True)], [self.rows], 0)

    def __reduce__(self) -> tuple[Any, ...]:
        return Packed, tuple(self.packed())


class Collection:
    """Spans of one piece of work, such as a task.

    Parameters
    ----------
    limit
        How many spans of one thread are kept, the first ones; others are counted.
    thread
        The number by which Python knows the thread whose work it is; None for this one.

    Attributes
    ----------
    own
        Spans of this thread; None if there are none.
    others
        Spans of other threads.
    sink
        The sink of its spans.
    functions
        The collector that records functions into it, if there is one.

    Notes
    -----
    It gets the spans of the context in which it was opened, and of copies of that context
    (coroutines, ``asyncio.to_thread``), in any thread. Other threads that the work
    starts record into the trace of the process; for tasks see
    :mod:`dagprofiler.tracing.runs`.
    """

    def __init__(self, limit: int = 100_000, thread: int | None = None) -> None:
        self._limit = 3 * limit
        self._thread = get_ident() if thread is None else thread
        self._dropped = 0
        self.own: Buffer | None = None
        self.others: list[Buffer] = []
        self.sink = Sink(self)
        self.functions: Any = None

    def set_limit(self, limit: int) -> None:
        """Keep so many spans of each thread from now on."""
        self._limit = 3 * limit
        if self.own is not None:
            self.own.limit = self._limit

    def new_buffer(self) -> Buffer:
        """Return a buffer for the calling thread."""
        buffer = Buffer(self, self._limit)
        if get_ident() == self._thread:
            self.own = buffer
        else:
            self.others.append(buffer)
        return buffer

    def full(self, buffer: Buffer) -> None:
        """Drop what is beyond the limit."""
        self._dropped += (len(buffer) - self._limit) // 3
        del buffer[self._limit :]

    def share(self) -> Sink:
        """Return its sink for a thread that may outlive the work, whose end closes the sink."""
        if not self.others:
            self.others.append(Buffer(self, self._limit))
        return self.sink

    def packed(self) -> Packed:
        """Return what was recorded so far."""
        buffers = [buffer for buffer in (self.own, *self.others) if buffer]
        threads = [(*buffer.thread, buffer is self.own) for buffer in buffers]
        return _packed(threads, [buffer[:] for buffer in buffers], self._dropped)

    def take(self) -> Packed | Few | None:
        """Return and clear what was recorded so far, if anything."""
        own = self.own
        if own is not None and len(own) <= _FEW and not (self.others or self._dropped):
            # As it is called for every task that records something.
            few: Few = _new(Few, (own.thread, own[:]))
            own.clear()
            return few
        packed = self.packed()
        self._dropped = 0
        # Threads that outlive their task must not record into the next one.
        self.own, self.others, self.sink = None, [], Sink(self)
        return packed if packed.labels or packed.dropped else None


#: Length of a buffer up to which spans stay as they are.
_FEW = 3 * 32

#: A third of the time that calling the class takes.
_new = tuple.__new__


def _packed(
    threads: Sequence[tuple[int, str, bool]], buffers: Sequence[list[Any]], dropped: int
) -> Packed:
    """Return the packed spans of each thread."""
    labels: dict[tuple[str, str, str], int] = {}
    of_label, of_thread, times = array("I"), array("I"), array("d")
    args: dict[int, dict[str, Any]] = {}
    ids: dict[int, int | str] = {}
    for thread, buffer in enumerate(buffers):
        rows = iter(buffer)
        for label, start, end in zip(rows, rows, rows):
            if type(label) is str:
                key = (SPAN, label, "span")
            else:
                key = label[:3]
                if label.args:
                    args[len(of_label)] = dict(label.args)
                if label.id is not None:
                    ids[len(of_label)] = label.id
            of_label.append(labels.setdefault(key, len(labels)))
            of_thread.append(thread)
            times.extend((start, end))
    return Packed(tuple(labels), tuple(threads), of_label, of_thread, times, args, ids, dropped)


@contextmanager
def collecting(collection: Collection | None = None) -> Iterator[Collection]:
    """Record the spans of this context in a collection while the body runs.

    Also when tracing is off.

    Examples
    --------
    >>> from dagprofiler.tracing import span
    >>> with collecting() as collection:
    ...     with span("load"):
    ...         pass
    >>> [label.name for label, _, _, _ in collection.packed().spans()]
    ['load']
    """
    collection = Collection() if collection is None else collection
    token = state.sink.set(collection.sink)
    switch(+1)
    try:
        yield collection
    finally:
        switch(-1)
        state.sink.reset(token)
