"""Task: the contract of the DAG Task Standard, and the measured pipeline of one task."""

from __future__ import annotations

import keyword
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, SupportsFloat

from dagprofiler.errors import (
    CostModelError,
    DeclarationError,
    OutputError,
    SerializationError,
    describe,
)
from dagprofiler.metrics import TaskMetrics
from dagprofiler.seeding import enter_stream
from dagprofiler.serializers import (
    FrameList,
    PickleSerializer,
    Serializer,
    check_serializer,
    frames_bytes,
    is_array,
    payload_bytes,
)

if TYPE_CHECKING:
    from dagprofiler.config import Config

__all__ = [
    "Codec",
    "Parameters",
    "Record",
    "Task",
    "Work",
    "check_declarations",
    "codec",
    "estimate",
    "perform",
]

_MAX_INT = 2**63 - 1


class _ClassName:
    """Default of ``task.name``: also right for a subclass that never calls ``__init__``."""

    def __get__(self, task: Task | None, owner: type[Task]) -> str:
        return owner.__name__


class Task(ABC):
    """One node of a DAG: what it needs, what it produces, and how.

    Subclasses declare their fields as class attributes and implement
    :meth:`compute`; an instance may override its declarations before it
    enters a DAG.

    Parameters
    ----------
    name
        Name of this instance; the class name by default. In a DAG the task
        goes by the name that the DAG gives it.
    config
        Parameters for :meth:`run`. A DAG passes its own.

    Attributes
    ----------
    inputs
        Names of the fields that :meth:`compute` takes as keyword arguments.
    outputs
        Names of the fields that :meth:`compute` must return.
    config_deps
        Names of the parameters that the cost model depends on.
    gathers
        Inputs that may have any number of producers: each arrives as a list,
        one item an edge, in the order of the edges; empty without producers.
    serializer
        A :class:`~dagprofiler.serializers.Serializer` for this task's
        outputs; None for the DAG's.

    Notes
    -----
    State that an instance keeps (``self.x = ...``) stays from run to run and
    is shared by every DAG and name that the instance stands under. While a
    DAG runs it, ``self.config`` is the config of that DAG.

    Examples
    --------
    >>> class Scale(Task):
    ...     inputs = ["x"]
    ...     outputs = ["y"]
    ...
    ...     def compute(self, x, cfg):
    ...         return {"y": x * cfg.factor}
    >>> result = Scale().run({"x": Task.serialize(3)}, Config(factor=2))
    >>> result["outputs_raw"]
    {'y': 6}
    """

    inputs: list[str] = []  # noqa: RUF012  (the spec's own form; never changed in place)
    outputs: list[str] = []  # noqa: RUF012
    config_deps: list[str] = []  # noqa: RUF012
    gathers: list[str] = []  # noqa: RUF012
    serializer: Serializer | None = None
    config: Config | None = None
    name: str = _ClassName()  # type: ignore[assignment]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_declarations(cls, f"task class {cls.__name__!r}")

    def __init__(self, name: str | None = None, config: Config | None = None) -> None:
        self.name = name or type(self).__name__
        self.config = config

    @abstractmethod
    def compute(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """Turn inputs into outputs: what the task is for.

        Overrides take the declared inputs as keyword arguments, and ``cfg``,
        the :class:`Config`, if they want it: ``def compute(self, data, cfg)``.

        Returns
        -------
        mapping of str to object
            At least the declared outputs.
        """

    @staticmethod
    def estimate_instructions(cfg: Any) -> SupportsFloat | None:  # noqa: ARG004
        """Return how many instructions ``compute()`` takes under `cfg`.

        Override it to give the task a cost model. A result is rounded up to a
        whole number; None says that there is no model for this `cfg`. Not
        overridden, it returns the 0 of the profile format, which the
        profile's section ``weight_sources`` marks as a default.
        """
        return 0

    @staticmethod
    def serialize(data: Any) -> bytes:
        """Return `data` as bytes; override it together with :meth:`deserialize`."""
        return PickleSerializer.dumps(data)

    @staticmethod
    def deserialize(data: Any) -> Any:
        """Return the value that `data`, made by :meth:`serialize`, stands for."""
        return PickleSerializer.loads(data)

    def run(self, inputs: Mapping[str, Any], config: Config | None = None) -> dict[str, Any]:
        """Execute this task alone, measured.

        Parameters
        ----------
        inputs
            Field to its serialized value; what is not bytes is taken as a
            value that needs no decoding.
        config
            Parameters for this run; by default those given to the task.

        Returns
        -------
        dict
            ``outputs``: field to its serialized value; ``outputs_raw``: what
            ``compute()`` returned; ``metrics``: :class:`TaskMetrics`.

        Raises
        ------
        OutputError
            If ``compute()`` returns no mapping or lacks a declared output.
        SerializationError
            If a value cannot be encoded or decoded.
        """
        encode, decode = codec(self)
        record = perform(
            Work(
                name=self.name,
                task=self,
                compute=self.compute,
                inputs=list(inputs),
                decoders=[
                    decode if isinstance(value, (bytes, FrameList)) else _unchanged
                    for value in inputs.values()
                ],
                gathered=(),
                takes_cfg=Parameters.of(self.compute).takes_cfg,
                outputs=self.outputs,
                encode=encode,
                counts_payload=True,
                keep=True,
            ),
            list(inputs.values()),
            self.config if config is None else config,
        )
        if record.error is not None:
            raise record.error
        t = record.times
        return {
            "outputs": {
                field: FrameList(frames) if type(frames) is list else frames
                for field, frames in record.frames.items()
            },
            "outputs_raw": record.outputs,
            "metrics": TaskMetrics(
                task=self.name,
                compute_time_ms=(t[3] - t[2]) * 1000.0,
                serialize_time_ms=(t[5] - t[4]) * 1000.0,
                deserialize_time_ms=(t[1] - t[0]) * 1000.0,
                bytes_in=self._count_bytes(inputs),
                bytes_out=sum(wire for _, wire in record.sizes.values()),
            ),
        }

    @staticmethod
    def _count_bytes(data: Mapping[str, Any]) -> int:
        """Return the bytes of all values that are bytes or arrays (specification, 6.3)."""
        total = 0
        for value in data.values():
            if isinstance(value, (bytes, FrameList)):
                total += frames_bytes(value)
            elif is_array(value):
                total += value.nbytes
        return total


def check_declarations(task: Task | type[Task], owner: str) -> None:
    """Raise a DeclarationError if `task` declares what no keyword argument can carry.

    A property declares nothing until there is an instance, so on a class it
    is left alone.
    """
    for attribute in ("inputs", "outputs", "config_deps", "gathers"):
        names = getattr(task, attribute)
        if isinstance(task, type) and hasattr(names, "__get__"):
            continue
        if not isinstance(names, (list, tuple)):
            hint = f"; write [{names!r}]" if isinstance(names, str) else ""
            raise DeclarationError(
                f"{owner}: {attribute} must be a list of names, got {names!r}{hint}"
            )
        for name in names:
            if not isinstance(name, str):
                raise DeclarationError(f"{owner}: {attribute} holds {name!r}, expected a string")
            if names.count(name) > 1:
                raise DeclarationError(f"{owner}: {attribute} names {name!r} twice")
            if attribute == "config_deps":
                continue
            if not name.isidentifier() or keyword.iskeyword(name):
                raise DeclarationError(
                    f"{owner}: {attribute} holds {name!r}, which cannot be a keyword argument"
                )
            if name in ("cfg", "self"):
                raise DeclarationError(
                    f"{owner}: {attribute} holds {name!r}, which compute() keeps for itself"
                )
            if attribute == "gathers" and name not in task.inputs:
                raise DeclarationError(
                    f"{owner}: gathers holds {name!r}, which is not an input "
                    f"(inputs: {', '.join(map(repr, task.inputs)) or 'none'})"
                )
    if task.serializer is not None:
        check_serializer(task.serializer, owner)


#: One half of a serializer: value to frames, or frames to value.
Codec = Callable[[Any], Any]


def codec(task: Task, default: Serializer | None = None) -> tuple[Codec, Codec]:
    """Return how `task` encodes its outputs and how those are decoded.

    Its own ``serialize`` and ``deserialize`` come first, then its
    ``serializer``, then `default`, then pickle.
    """
    if task.serialize is not Task.serialize or task.deserialize is not Task.deserialize:
        return task.serialize, task.deserialize
    serializer = task.serializer or default
    if serializer is None:
        return PickleSerializer.dumps, PickleSerializer.loads
    return serializer.dumps, serializer.loads


class Parameters(NamedTuple):
    """Which keyword arguments a function takes.

    Attributes
    ----------
    required, optional
        Names that must and that may be given, ``cfg`` left out.
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
    def of(cls, function: Callable[..., Any]) -> Parameters:
        """Read the signature of `function`; positional-only parameters can't be given."""
        # inspect costs 8 ms to import, and what only declares tasks never needs it.
        from inspect import Parameter, signature

        required, optional, any_ = set(), set(), False
        for parameter in signature(function).parameters.values():
            if parameter.kind is Parameter.VAR_KEYWORD:
                any_ = True
            elif parameter.kind is Parameter.VAR_POSITIONAL:
                continue
            elif parameter.default is Parameter.empty:
                # A positional-only parameter has a name that no keyword can give.
                by_name = parameter.kind is not Parameter.POSITIONAL_ONLY
                required.add(parameter.name if by_name else f"{parameter.name}, /")
            elif parameter.kind is not Parameter.POSITIONAL_ONLY:
                optional.add(parameter.name)
        takes_cfg = any_ or "cfg" in required or "cfg" in optional
        return cls(frozenset(required - {"cfg"}), frozenset(optional - {"cfg"}), any_, takes_cfg)


def estimate(name: str, task: Task, config: Config) -> int | None:
    """Return the estimated instructions of `task` under `config`; None without a model.

    Raises
    ------
    CostModelError
        If the model fails, or returns anything but a finite number of at
        least 0 (None apart) that fits 64 bits.
    """
    if task.estimate_instructions is Task.estimate_instructions:
        return None
    where = f"task {name!r}: estimate_instructions"
    try:
        value: Any = task.estimate_instructions(config)
    except Exception as error:
        raise CostModelError(f"{where} failed: {describe(error)}") from error
    if value is None:
        return None
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError  # noqa: TRY301  (text that reads like a number is none)
        number = math.ceil(value)
    except (TypeError, ValueError, OverflowError):
        raise CostModelError(
            f"{where} returned {value!r}, expected a finite number or None"
        ) from None
    if not 0 <= number <= _MAX_INT:
        raise CostModelError(f"{where} returned {value!r}, expected 0 to 2**63 - 1")
    return int(number)


class Work(NamedTuple):
    """All that :func:`perform` needs to know of one task.

    Attributes
    ----------
    name
        The task's name in the DAG.
    compute
        ``task.compute``, or what stands in for it.
    inputs, decoders
        The fields that are fed and, for each, its producer's decoder.
    gathered
        Inputs that arrive as a list.
    takes_cfg
        Whether `compute` wants the config.
    outputs
        Declared outputs.
    encode
        Turns an output into frames.
    counts_payload
        Whether sizes follow the spec's rule for the default serializer; else
        they are the length of what the serializer made.
    keep
        Whether the outputs themselves are wanted back.
    """

    name: str
    task: Task
    compute: Callable[..., Any]
    inputs: list[str]
    decoders: list[Codec]
    gathered: tuple[str, ...] | list[str]
    takes_cfg: bool
    outputs: list[str]
    encode: Codec
    counts_payload: bool
    keep: bool


class Record(NamedTuple):
    """What came of one task.

    Attributes
    ----------
    times
        Readings of the clock in seconds: start and end of deserialization, of
        ``compute()`` and of serialization; None from where it failed.
    sizes
        Output to its payload and its serialized length, in bytes.
    frames
        Output to its serialized form.
    outputs
        What ``compute()`` returned, if it was wanted back.
    error
        Why it failed; None if it succeeded.
    """

    times: tuple[Any, ...]
    sizes: dict[str, tuple[int, int]]
    frames: dict[str, Any]
    outputs: Mapping[str, Any] | None
    error: Exception | None


def perform(
    work: Work, frames: list[Any], config: Config | None, seed: int | None = None
) -> Record:
    """Run one task: decode its inputs, compute, check, encode its outputs.

    Parameters
    ----------
    work
        What to do.
    frames
        The serialized inputs, in the order of ``work.inputs``. The list is
        emptied once they are decoded, so that their memory can go.
    config
        Parameters of the run.
    seed
        Seed of the run; None leaves all random generators alone.
    """
    t0 = t1 = t2 = t3 = t4 = None
    try:
        t0 = perf_counter()
        arguments = _decode(work, frames)
        t1 = perf_counter()
        frames.clear()
        if work.takes_cfg:
            arguments["cfg"] = config
        if seed is not None:
            enter_stream(seed, work.name)
        compute = work.compute
        t2 = perf_counter()
        outputs = compute(**arguments)
        t3 = perf_counter()
        del arguments
        if type(outputs) is not dict or not outputs.keys() >= set(work.outputs):
            _check_outputs(work, outputs)
        t4 = perf_counter()
        encoded = _encode(work, outputs)
        t5 = perf_counter()
        sizes = _sizes(work, outputs, encoded)
    except Exception as error:  # noqa: BLE001  (whatever a user's code raises is its result)
        return Record((t0, t1, t2, t3, t4, None), {}, {}, None, error)
    return Record((t0, t1, t2, t3, t4, t5), sizes, encoded, outputs if work.keep else None, None)


def _decode(work: Work, frames: list[Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = {field: [] for field in work.gathered}
    gathered = work.gathered
    for field, decode, data in zip(work.inputs, work.decoders, frames):
        try:
            value = decode(data)
        except Exception as error:
            raise SerializationError(
                f"task {work.name!r}: input {field!r} cannot be decoded: {describe(error)}"
            ) from error
        if field in gathered:
            arguments[field].append(value)
        else:
            arguments[field] = value
    return arguments


def _encode(work: Work, outputs: Mapping[str, Any]) -> dict[str, Any]:
    encode = work.encode
    encoded = {}
    for field, value in outputs.items():
        try:
            encoded[field] = encode(value)
        except Exception as error:
            raise SerializationError(
                f"task {work.name!r}: output {field!r} ({type(value).__name__}) "
                f"cannot be serialized: {describe(error)}"
            ) from error
    return encoded


def _sizes(
    work: Work, outputs: Mapping[str, Any], encoded: Mapping[str, Any]
) -> dict[str, tuple[int, int]]:
    sizes = {}
    for field, frames in encoded.items():
        try:
            wire = frames_bytes(frames)
        except TypeError as error:
            raise SerializationError(
                f"task {work.name!r}: serialize() of output {field!r} returned "
                f"{type(frames).__name__}, expected bytes or a list of buffers"
            ) from error
        payload = payload_bytes(outputs[field], wire) if work.counts_payload else wire
        sizes[field] = (payload, wire)
    return sizes


def _check_outputs(work: Work, outputs: Any) -> None:
    """Raise an OutputError unless `outputs` is a mapping with all declared fields."""
    where = f"task {work.name!r}: compute()"
    declared = ", ".join(map(repr, work.outputs)) or "none"
    if not isinstance(outputs, Mapping):
        raise OutputError(
            f"{where} returned {type(outputs).__name__}, expected a mapping of its "
            f"outputs (declared: {declared})"
        )
    missing = [field for field in work.outputs if field not in outputs]
    if missing:
        raise OutputError(
            f"{where} returned no {', '.join(map(repr, missing))} (declared: {declared}; "
            f"returned: {', '.join(map(repr, outputs)) or 'nothing'})"
        )


def _unchanged(value: Any) -> Any:
    return value
