"""Serializers: how an output becomes bytes, and its size."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Protocol, Union, runtime_checkable

from dagprofiler._util.interpreter import imported
from dagprofiler.errors import DeclarationError, needs_extra, short_repr

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: What a serializer returns: bytes, or a list of buffers.
Frames = Union[bytes, list["Buffer"]]

#: The serialized value of one output, or what an executor has instead of it.
Handle = Any

#: One half of a serializer: value to frames, or frames to value.
Codec = Callable[[Any], Any]


class FrameList(list["Buffer"]):
    """The frames of one value, where a plain list could be a value itself."""

    def __reduce_ex__(self, protocol: Any) -> tuple[object, ...]:
        return FrameList, ([picklable(frame, protocol) for frame in self],)


def picklable(frame: Buffer, protocol: int) -> Buffer:
    """Return a frame in a form that pickle accepts; it refuses memoryviews."""
    if isinstance(frame, (bytes, bytearray)):
        return frame
    view = memoryview(frame)
    if protocol >= 5 and view.contiguous:
        return pickle.PickleBuffer(view)
    return view.tobytes()


@runtime_checkable
class Serializer(Protocol):
    """Turns values into frames and back.

    Attributes
    ----------
    name
        Its name in messages.
    """

    @property
    def name(self) -> str:
        """Its name in messages."""

    def dumps(self, obj: Any) -> Frames:
        """Return `obj` as bytes, or as a list of buffers that need not be copied."""

    def loads(self, frames: Any) -> Any:
        """Return the value that :meth:`dumps` turned into `frames`."""


class PickleSerializer:
    """Pickle with its highest protocol: the default."""

    name = "pickle"
    loads = staticmethod(pickle.loads)

    @staticmethod
    def dumps(obj: object) -> bytes:
        # A third faster than functools.partial with a keyword.
        return pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)


class OutOfBandPickle:
    """Pickle protocol 5 with out-of-band buffers: large values are not copied.

    Consumers get read-only views of the memory that the producer returned.
    A producer must therefore not change a value after it has returned it.
    Values whose buffers are not contiguous are copied, as by plain pickle.

    Notes
    -----
    PEP 574.
    """

    name = "pickle-oob"

    @staticmethod
    def dumps(obj: object) -> Frames:
        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(obj, protocol=5, buffer_callback=buffers.append)
        return [data, *(buffer.raw().toreadonly() for buffer in buffers)]

    @staticmethod
    def loads(frames: Sequence[Buffer]) -> Any:
        return pickle.loads(frames[0], buffers=frames[1:])


class _OfExtra:
    """Base class of serializers whose functions, of an extra, need not pickle."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), ()


class CloudpickleSerializer(_OfExtra):
    """cloudpickle: supports lambdas, closures, classes of ``__main__`` (extra ``cloudpickle``)."""

    name = "cloudpickle"

    def __init__(self) -> None:
        with needs_extra("CloudpickleSerializer", "cloudpickle"):
            import cloudpickle
        self.dumps = partial(cloudpickle.dumps, protocol=pickle.HIGHEST_PROTOCOL)

    @staticmethod
    def loads(frames: bytes) -> Any:
        return pickle.loads(frames)


class MsgpackSerializer(_OfExtra):
    """MessagePack: plain data that other languages can read (extra ``msgpack``).

    Notes
    -----
    MessagePack has one type of sequence: a tuple comes back as a list.
    """

    name = "msgpack"

    def __init__(self) -> None:
        with needs_extra("MsgpackSerializer", "msgpack"):
            import msgpack
        self.dumps = msgpack.packb
        self.loads = partial(msgpack.unpackb, strict_map_key=False)


class ArrowSerializer(_OfExtra):
    """Arrow IPC stream for tables: pyarrow, Polars and pandas (extra ``arrow``).

    A consumer gets the kind of table that the producer returned; its columns
    are read-only views of the received bytes where Arrow supports it.
    """

    name = "arrow"

    def __init__(self) -> None:
        with needs_extra("ArrowSerializer", "arrow"):
            import pyarrow
        self._arrow = pyarrow

    def dumps(self, obj: Any) -> Frames:
        arrow = self._arrow
        kind = _table_kind(obj)
        if kind == "pandas":
            table = arrow.Table.from_pandas(obj)
        elif kind == "polars":
            table = obj.to_arrow()
        elif isinstance(obj, arrow.Table):
            table = obj
        else:
            what = "a table of pyarrow, Polars or pandas"
            raise TypeError(f"expected {what}, got {type(obj).__name__}")
        sink = arrow.BufferOutputStream()
        with arrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write(table)
        return [kind.encode(), sink.getvalue()]

    def loads(self, frames: Sequence[Buffer]) -> Any:
        kind = bytes(frames[0])
        with self._arrow.ipc.open_stream(self._arrow.py_buffer(frames[1])) as reader:
            table = reader.read_all()
        if kind == b"pandas":
            return table.to_pandas()
        if kind == b"polars":
            import polars

            return polars.from_arrow(table)
        return table


def _table_kind(obj: object) -> str:
    """Return ``"pandas"`` or ``"polars"`` for their data frames, else an empty string."""
    for kind in ("pandas", "polars"):
        module = imported(kind)
        if module is not None and isinstance(obj, module.DataFrame):
            return kind
    return ""


def check_serializer(serializer: object, owner: str) -> None:
    """Raise a DeclarationError that names `owner` if `serializer` is not a serializer."""
    if isinstance(serializer, type) or not isinstance(serializer, Serializer):
        what = "an instance with name, dumps and loads"
        raise DeclarationError(f"{owner}: serializer must be {what}, got {short_repr(serializer)}")


def frames_bytes(frames: object) -> int:
    """Return the length in bytes of a serialized value.

    Raises
    ------
    TypeError
        If `frames` is neither bytes nor a list of buffers.

    Examples
    --------
    >>> frames_bytes(b"abc"), frames_bytes([b"abc", memoryview(b"de")])
    (3, 5)
    """
    if isinstance(frames, bytes):
        return len(frames)
    if isinstance(frames, list):
        return sum(memoryview(frame).nbytes for frame in frames)
    raise TypeError(f"expected bytes or a list of buffers, got {type(frames).__name__}")


#: Types whose payload is their pickled length: a fast path for most values.
PICKLED_LENGTH = frozenset({type(None), bool, int, float, complex, str, dict, list, tuple, set})


def payload_bytes(value: Any, wire_bytes: int) -> int:
    """Return the payload of `value` in bytes by the spec's counting rule.

    The rule (specification, section 6.3) holds for the default serializer: an
    array counts its ``nbytes``, bytes their length, and anything else, also an
    array of objects, its serialized length.

    Parameters
    ----------
    value
        An output of a task.
    wire_bytes
        Its serialized length, in bytes.

    Examples
    --------
    >>> payload_bytes(b"abc", 18), payload_bytes([1, 2], 20)
    (3, 20)
    """
    if isinstance(value, bytes):
        return len(value)
    if is_array(value) and not value.dtype.hasobject:
        return int(value.nbytes)
    return wire_bytes


def is_array(value: object) -> bool:
    """Tell whether `value` is a numpy array, without importing numpy."""
    numpy = imported("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)
