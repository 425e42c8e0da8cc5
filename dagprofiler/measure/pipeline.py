"""The measured pipeline of one task: decode, compute, check, encode."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from time import perf_counter
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Protocol

from dagprofiler._util import Values
from dagprofiler._util.interpreter import (
    Collection,
    TaskSpans,
    TaskThread,
    current_stream,
    here,
    owner,
)
from dagprofiler.config import Config
from dagprofiler.errors import OutputError, SerializationError, describe, listed
from dagprofiler.serializers import PICKLED_LENGTH, Codec, FrameList, frames_bytes, payload_bytes

if TYPE_CHECKING:
    from inspect import Signature

    from dagprofiler.measure.instruments import Instruments, Readings
    from dagprofiler.measure.random import Streams

#: Start and end of deserialization, of ``compute()`` and of serialization, in seconds; None after
#: a failure.
Times = tuple[Any, ...]
#: Numbers of bytes, by the name of an output.
Sizes = dict[str, int]


def signature_of(function: Callable[..., object], *, follow_wrapped: bool = True) -> Signature:
    """Return the signature of `function`, whether or not its annotations can be evaluated."""
    # inspect costs 8 ms to import, and what only declares tasks never needs it.
    from inspect import signature

    options: dict[str, Any] = {}
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        options["annotation_format"] = Format.FORWARDREF
    return signature(function, follow_wrapped=follow_wrapped, **options)


class Parameters(NamedTuple):
    """Which keyword arguments a function takes.

    Attributes
    ----------
    required, optional
        Names of required and of optional arguments, without ``cfg``.
    any
        Whether it takes every name (``**kwargs``).
    takes_cfg
        Whether it takes ``cfg``.
    """

    required: frozenset[str]
    optional: frozenset[str]
    any: bool
    takes_cfg: bool

    @classmethod
    def of(cls, function: Callable[..., object]) -> Parameters:
        """Read the signature of `function`."""
        parameters = signature_of(function, follow_wrapped=False).parameters.values()
        any_ = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        required: set[str] = set()
        optional: set[str] = set()
        for parameter in parameters:
            # A positional-only parameter has a name that no keyword can give.
            by_position = parameter.kind is parameter.POSITIONAL_ONLY
            name = f"{parameter.name}, /" if by_position else parameter.name
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                (required if parameter.default is parameter.empty else optional).add(name)
        takes_cfg = any_ or "cfg" in required or "cfg" in optional
        if any_ and hasattr(function, "__wrapped__"):
            # A wrapper that takes everything hands cfg on to what may not take it.
            takes_cfg = cls.of(function.__wrapped__).takes_cfg
        return cls(frozenset(required - {"cfg"}), frozenset(optional - {"cfg"}), any_, takes_cfg)


@dataclass(eq=False)
class Contract:
    """What a task declares, as needed to wire and run it; tasks that are alike share one.

    Attributes
    ----------
    parameters
        The parameters of ``compute()``.
    inputs, outputs
        Declared fields.
    gathers
        Inputs that arrive as a list.
    encode, decode
        Converts an output to frames, and frames to a value.
    serializer
        Name of the serializer.
    counts_payload
        Whether sizes follow the spec's rule for the default serializer; else
        they are the length of the serialized value.
    overrides_run
        Whether the class overrides ``run()``, as programs for version 0.1.0
        may do.
    bound
        Arguments of ``compute()`` that the task itself holds.
    """

    parameters: Parameters
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    gathers: tuple[str, ...]
    encode: Codec
    decode: Codec
    serializer: str
    counts_payload: bool
    overrides_run: bool
    bound: Values


class Computes(Protocol):
    """A task, as the pipeline knows it; :class:`~dagprofiler.Task` says more."""

    name: str
    config: Config | None
    timeout: float | None
    bound: Values

    def compute(self, *args: Any, **kwargs: Any) -> Values:
        """Turn inputs into outputs."""

    def run(self, inputs: Values, config: Config | None = None) -> Values:
        """Execute this task alone, measured."""


class Record(NamedTuple):
    """The result of one task.

    Attributes
    ----------
    times
        Six readings of the clock, in seconds: start and end of deserialization,
        of ``compute()`` and of serialization; None from where it failed.
    payload_bytes, wire_bytes
        Output to its payload by the spec's rule, and to its serialized length.
    frames
        Output to its serialized form.
    outputs
        What ``compute()`` returned, if that is to be returned.
    error
        Why it failed; None if it succeeded.
    readings
        The instruments' readings; None without instruments, or if it failed.
    spans
        The spans recorded inside ``compute()``; None if there are none.
    """

    times: Times
    payload_bytes: Sizes
    wire_bytes: Sizes
    frames: dict[str, Any]
    outputs: Values | None
    error: BaseException | None
    readings: Readings | None
    spans: TaskSpans | None


#: What :func:`perform` needs to know of one task: its name in the DAG, the task and its contract,
#: its input fields and for each the decoder of its producer, and whether to return the outputs
#: themselves. A bare tuple, since making a named one takes a tenth of the time of a small task.
Work = tuple[str, Computes, Contract, Sequence[str], Sequence[Codec], bool]
#: The fields of a :class:`Record`, for the same reason.
RecordFields = tuple[
    Times,
    Sizes,
    Sizes,
    dict[str, Any],
    Any,
    "BaseException | None",
    "Readings | None",
    "TaskSpans | None",
]


def perform(  # noqa: C901, PLR0912, PLR0915  (the hot path of every run calls no helpers)
    work: Work,
    frames: list[Any],
    config: Config | None,
    streams: Streams | None = None,
    instruments: Instruments | None = None,
    *,
    beside: bool = False,
) -> RecordFields:
    """Run one task: decode its inputs, compute, check, encode its outputs.

    Parameters
    ----------
    work
        The task, its contract and its input fields.
    frames
        The serialized inputs, in the order of these fields. The list is
        cleared once they are decoded, which frees their memory.
    config
        Parameters of the run.
    streams
        Random streams of the run; None leaves all random generators alone.
    instruments
        What to measure in addition to the phases.
    beside
        Whether other tasks may run in this process. Spans then belong to the task in whose
        context they are recorded, and not to the task of the thread.

    Returns
    -------
    tuple
        The fields of a :class:`Record`.
    """
    name, task, contract, inputs, decoders, keep = work
    declared, encode = contract.outputs, contract.encode
    t0 = t1 = t2 = t3 = t4 = t5 = readings = spans = token = None
    field = data = outputs = None
    try:
        if contract.overrides_run:
            if streams is not None:
                streams.enter(name)
            if instruments is not None:
                instruments.begin(decoders, encode)
            t0 = t1 = t2 = perf_counter()
            record = _perform_by_run(work, frames, config)
            if streams is not None:
                current_stream.set(None)
            if instruments is not None:
                why = f"task {name!r} is run by its own run(), of which parts cannot be metered"
                readings = instruments.readings(record[3], declared, why)
            return (*record[:6], readings, None)
        if instruments is not None:
            decoders, encode = instruments.begin(decoders, encode)
        t0 = perf_counter()
        arguments: dict[str, Any] = {}
        if contract.gathers:
            gathers = contract.gathers
            arguments.update((field, []) for field in gathers)
            for field, decode, data in zip(inputs, decoders, frames):
                if field in gathers:
                    arguments[field].append(decode(data))
                else:
                    arguments[field] = decode(data)
        else:
            place = 0
            for field in inputs:
                arguments[field] = decoders[place](frames[place])
                place += 1  # noqa: SIM113  (enumerate() and zip() take longer than one input)
        t1 = perf_counter()
        # Now nothing in here holds on to the serialized inputs.
        data = None
        frames.clear()
        if contract.parameters.takes_cfg:
            arguments["cfg"] = config
        if streams is not None:
            streams.enter(name)
        compute = task.compute
        thread = here.thread or TaskThread()
        outer, collection = thread.task, thread.spare
        if beside or outer is not None:
            collection = Collection()
            token = owner.set(collection)
        thread.task = collection
        try:
            if instruments is not None:
                instruments.start()
            t2 = perf_counter()
            outputs = compute(**arguments)
            t3 = perf_counter()
            if instruments is not None:
                instruments.stop(name)
        finally:
            thread.task = outer
            if token is not None:
                owner.reset(token)
                collection.ended = True
            if collection.threads:
                spans = collection.take()
        if streams is not None:
            current_stream.set(None)
        del arguments
        returned = outputs
        if type(outputs) is not dict:
            if not isinstance(outputs, Mapping):
                raise _wrong_outputs(name, declared, outputs)
            # A copy, since reading a mapping again may give other values.
            outputs = dict(outputs)
        for field in declared:
            if field not in outputs:
                raise _wrong_outputs(name, declared, outputs)
        encoded = {}
        t4 = perf_counter()
        for field in outputs:
            encoded[field] = encode(outputs[field])
        t5 = perf_counter()
        # One dict for both, unless the payload of a value differs from its length.
        wire: dict[str, int] = {}
        payload, counts_payload = wire, contract.counts_payload
        for field in outputs:
            data = encoded[field]
            wire[field] = len(data) if type(data) is bytes else _length(name, field, data)
            if counts_payload and type(outputs[field]) not in PICKLED_LENGTH:
                payload = {}
        if payload is not wire:
            payload = _payload(outputs, wire)
        if instruments is not None:
            readings = instruments.readings(encoded, declared)
    except BaseException as error:  # noqa: BLE001  (whatever a user's code raises is its result)
        # The traceback of the failure must not keep the inputs alive.
        arguments = {}  # noqa: F841
        if streams is not None:
            current_stream.set(None)
        times, failure = _failure(work, (t0, t1, t2, t3, t4, t5), field, outputs, error)
        if instruments is not None:
            instruments.stop(name)
        return times, {}, {}, {}, None, failure, None, spans
    kept = returned if keep else None
    return (t0, t1, t2, t3, t4, t5), payload, wire, encoded, kept, None, readings, spans


def _failure(
    work: Work, times: Times, field: str | None, outputs: Any, error: BaseException
) -> tuple[Times, BaseException]:
    """Return the times of a failed task, whose last phase ends now, and the error to report."""
    t0, t1, t2, t3, t4, t5 = times
    where = f"task {work[0]!r}:"
    if t0 is not None and t1 is None:
        t1 = perf_counter()
        error = unserialized(error, f"{where} input {field!r} cannot be decoded")
    elif t2 is not None and t3 is None:
        t3 = perf_counter()
    elif t4 is not None and t5 is None:
        t5 = perf_counter()
        kind = type(outputs[field]).__name__
        error = unserialized(error, f"{where} output {field!r} ({kind}) cannot be serialized")
    return (t0, t1, t2, t3, t4, t5), error


def _perform_by_run(work: Work, frames: list[Any], config: Config | None) -> RecordFields:
    """Run a task that overrides :meth:`Task.run`, through its override.

    It gets its inputs in its own format, as :meth:`Task.run` takes them. Its
    phases have the times that it reports, one directly after the other.
    """
    name, task, contract, fields, decoders, keep = work
    inputs: dict[str, Any] = {field: [] for field in contract.gathers}
    for field, decode, data in zip(fields, decoders, frames):
        if field in contract.gathers:
            inputs[field].append(decode(data))
        else:
            encoded = data if decode == contract.decode else contract.encode(decode(data))
            inputs[field] = FrameList(encoded) if type(encoded) is list else encoded
    frames.clear()
    begun = perf_counter()
    result = task.run(inputs, config)
    took = perf_counter() - begun
    outputs, metrics = result["outputs_raw"], result["metrics"]
    serialized = result.get("outputs", {})
    for field in contract.outputs:
        if field not in outputs:
            raise _wrong_outputs(name, contract.outputs, outputs)
    wire_frames = {
        field: serialized[field] if field in serialized else contract.encode(value)
        for field, value in outputs.items()
    }
    reported_ms = (metrics.deserialize_time_ms, metrics.compute_time_ms, metrics.serialize_time_ms)
    ends = [begun + min(total_ms / 1e3, took) for total_ms in accumulate(reported_ms)]
    wire = {field: _length(name, field, data) for field, data in wire_frames.items()}
    payload = _payload(outputs, wire) if contract.counts_payload else wire
    times = (begun, ends[0], ends[0], ends[1], ends[1], ends[2])
    return times, payload, wire, wire_frames, outputs if keep else None, None, None, None


def encoded_size(contract: Contract, value: object, frames: object) -> tuple[int, int]:
    """Return the payload and the serialized length of a value that a task's serializer encoded."""
    length = len(frames) if type(frames) is bytes else frames_bytes(frames)
    counted = contract.counts_payload and type(value) not in PICKLED_LENGTH
    return payload_bytes(value, length) if counted else length, length


def _payload(outputs: Values, wire: Mapping[str, int]) -> dict[str, int]:
    """Return the payload of each output by the spec's rule."""
    return {field: payload_bytes(outputs[field], length) for field, length in wire.items()}


def unserialized(error: BaseException, what: str, hint: str = "") -> BaseException:
    """Return a SerializationError that says what failed, caused by `error`; Ctrl-C is unchanged."""
    if not isinstance(error, Exception):
        return error
    wrapped = SerializationError(f"{what}: {describe(error)}{hint}")
    wrapped.__cause__ = error
    return wrapped.with_traceback(error.__traceback__)


def _length(name: str, field: str, frames: object) -> int:
    try:
        return frames_bytes(frames)
    except TypeError as error:
        raise SerializationError(
            f"task {name!r}: serialize() of output {field!r} returned "
            f"{type(frames).__name__}, expected bytes or a list of buffers"
        ) from error


def _wrong_outputs(name: str, declared: Sequence[str], outputs: object) -> OutputError:
    """Return the error for outputs that are no mapping, or lack declared ones."""
    expected = f"declared: {listed(declared) or 'none'}"
    if not isinstance(outputs, Mapping):
        got = f"{type(outputs).__name__}, expected a mapping of its outputs ({expected})"
    else:
        missing = [field for field in declared if field not in outputs]
        got = f"no {listed(missing)} ({expected}; returned: {listed(list(outputs)) or 'none'})"
    return OutputError(f"task {name!r}: compute() returned {got}")
