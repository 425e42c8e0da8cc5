"""Collections: spans that are kept for who asked for them, and go where that is.

A task that runs under :func:`collecting` has its spans in a collection of its own. Packed,
they travel with its record: a span takes 20 bytes, and names and arguments are in tables.
"""

from __future__ import annotations

from array import array
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.tracing.process import switch
from dagprofiler.tracing.recording import SPAN, Buffer, Label, Sink, state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Collection", "Packed", "collecting"]


class Packed(NamedTuple):
    """Recorded spans in a form that is small and pickles.

    Attributes
    ----------
    labels
        Kind, name and category of each label there is.
    threads
        Of each thread that recorded its number, as the system counts them, its name, and
        whether it is the one that opened the collection.
    of_label, of_thread
        For each span the number of its label and of its thread.
    times
        For each span its start and its end, in seconds of ``perf_counter``.
    args
        Number of a span to the values that stand beside it; most have none.
    ids
        Number of a span to its id, of asynchronous ones.
    dropped
        How many spans came when there was no more room.
    """

    labels: tuple[tuple[str, str, str], ...]
    threads: tuple[tuple[int, str, bool], ...]
    of_label: array[int]
    of_thread: array[int]
    times: array[float]
    args: dict[int, dict[str, Any]]
    ids: dict[int, int | str]
    dropped: int

    def shifted(self, seconds: float) -> Packed:
        """Return the same spans, so much later."""
        return self._replace(times=array("d", [moment + seconds for moment in self.times]))

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON holds them."""
        lists = {name: list(getattr(self, name)) for name in ("of_label", "of_thread", "times")}
        keyed = {name: list(getattr(self, name).items()) for name in ("args", "ids")}
        return {**self._asdict(), **lists, **keyed}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Packed:
        """Return what :meth:`to_dict` made a dict of."""
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


class Collection:
    """Spans of one piece of work, such as a task.

    Parameters
    ----------
    limit
        How many spans of one thread are kept, the first ones; others are counted.

    Notes
    -----
    It takes what is recorded in the context in which it was opened, and in copies of that
    (coroutines, ``asyncio.to_thread``), in whatever thread. Other threads that the work
    starts record into the trace of the process or, where that is a task, see
    :mod:`dagprofiler.tracing.ofruns`.
    """

    def __init__(self, limit: int = 100_000) -> None:
        self._limit = 3 * limit
        self._buffers: list[Buffer] = []
        self._dropped = 0
        self.sink = Sink(self)
        #: What records functions into it, if anything does.
        self.functions: Any = None

    def new_buffer(self) -> Buffer:
        """Return a buffer for the calling thread."""
        buffer = Buffer(self, self._limit)
        self._buffers.append(buffer)
        return buffer

    def full(self, buffer: Buffer) -> None:
        """Drop what is beyond the limit."""
        self._dropped += (len(buffer) - self._limit) // 3
        del buffer[self._limit :]

    def packed(self) -> Packed:
        """Return what was recorded so far."""
        labels: dict[tuple[str, str, str], int] = {}
        of_label, of_thread, times = array("I"), array("I"), array("d")
        args: dict[int, dict[str, Any]] = {}
        ids: dict[int, int | str] = {}
        buffers = [buffer for buffer in list(self._buffers) if buffer]
        for thread, buffer in enumerate(buffers):
            rows = iter(buffer[:])
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
        own = self._buffers[0]
        threads = tuple((*buffer.thread, buffer is own) for buffer in buffers)
        return Packed(tuple(labels), threads, of_label, of_thread, times, args, ids, self._dropped)


@contextmanager
def collecting(collection: Collection | None = None) -> Iterator[Collection]:
    """Have spans of this context recorded in a collection while the body runs.

    Also where tracing is off.

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
