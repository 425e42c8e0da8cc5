"""Task: the contract of the DAG Task Standard, and the measured pipeline of one task."""

from __future__ import annotations

import keyword
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from operator import attrgetter
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
    PICKLED_AS_COUNTED,
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
    "Contract",
    "ContractReader",
    "Record",
    "Task",
    "Work",
    "check_declarations",
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
        contract = Contract.of(self, Parameters.of(self.compute))
        work = Work(
            name=self.name,
            task=self,
            contract=contract._replace(gathers=[]),
            inputs=list(inputs),
            decoders=[
                contract.decode if isinstance(value, (bytes, FrameList)) else _unchanged
                for value in inputs.values()
            ],
            keep=True,
        )
        cfg = self.config if config is None else config
        record = Record(*perform(work, list(inputs.values()), cfg))
        if record.error is not None:
            raise record.error
        t0, t1, t2, t3, t4, t5 = record.times
        return {
            "outputs": {
                field: FrameList(frames) if type(frames) is list else frames
                for field, frames in record.frames.items()
            },
            "outputs_raw": record.outputs,
            "metrics": TaskMetrics(
                task=self.name,
                compute_time_ms=(t3 - t2) * 1e3,
                serialize_time_ms=(t5 - t4) * 1e3,
                deserialize_time_ms=(t1 - t0) * 1e3,
                bytes_in=self._count_bytes(inputs),
                bytes_out=sum(record.wire_bytes.values()),
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


class Contract(NamedTuple):
    """What a task declares, as far as wiring and running it go.

    Attributes
    ----------
    parameters
        What ``compute()`` takes.
    inputs, outputs
        Declared fields.
    gathers
        Inputs that arrive as a list.
    encode, decode
        How outputs become frames, and frames values again.
    counts_payload
        Whether sizes follow the spec's rule for the default serializer; else
        they are the length of what the serializer made.
    """

    parameters: Parameters
    inputs: list[str]
    outputs: list[str]
    gathers: list[str]
    encode: Codec
    decode: Codec
    counts_payload: bool

    @classmethod
    def of(
        cls, task: Task, parameters: Parameters, default: Serializer | None = None
    ) -> Contract:
        """Read the contract of `task`.

        Its own ``serialize`` and ``deserialize`` come first, then its
        ``serializer``, then `default`, then pickle.
        """
        serializer = task.serializer or default
        encode, decode = PickleSerializer.dumps, PickleSerializer.loads
        if task.serialize is not Task.serialize or task.deserialize is not Task.deserialize:
            encode, decode = task.serialize, task.deserialize
        elif serializer is not None:
            encode, decode = serializer.dumps, serializer.loads
        plain = encode is PickleSerializer.dumps
        return cls(parameters, task.inputs, task.outputs, task.gathers, encode, decode, plain)


class ContractReader:
    """Reads the contracts of tasks, and that of tasks which are alike only once.

    Parameters
    ----------
    default
        Serializer of tasks that choose none.
    """

    def __init__(self, default: Serializer | None) -> None:
        self._default = default
        self._of_class: dict[type[Task], tuple[Any, Any, Contract]] = {}
        self._parameters: dict[Any, Parameters] = {}

    def read(self, name: str, task: Task) -> Contract:
        """Return the contract of `task`, which stands under `name`.

        An instance that declares something else than the first of its class
        is checked, and gets a contract of its own.
        """
        known = self._of_class.get(type(task))
        if known is not None:
            declarations, first, contract = known
            try:
                if declarations(task) == first:
                    return contract
            except AttributeError:
                # An own compute() that is no method.
                pass
        check_declarations(task, f"task {name!r}")
        compute = task.compute
        function = getattr(compute, "__func__", compute)
        if function not in self._parameters:
            self._parameters[function] = Parameters.of(compute)
        contract = Contract.of(task, self._parameters[function], self._default)
        if known is None:
            method = "compute" if function is compute else "compute.__func__"
            declarations = attrgetter(*_DECLARATIONS, method)
            self._of_class[type(task)] = declarations, declarations(task), contract
        return contract


_DECLARATIONS = (
    "inputs",
    "outputs",
    "config_deps",
    "gathers",
    "serializer",
    "serialize",
    "deserialize",
)


class Work(NamedTuple):
    """All that :func:`perform` needs to know of one task.

    Attributes
    ----------
    name
        The task's name in the DAG.
    inputs, decoders
        The fields that are fed and, for each, its producer's decoder.
    keep
        Whether the outputs themselves are wanted back.
    """

    name: str
    task: Task
    contract: Contract
    inputs: Iterable[str]
    decoders: Iterable[Codec]
    keep: bool


class Record(NamedTuple):
    """What came of one task.

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
        What ``compute()`` returned, if it was wanted back.
    error
        Why it failed; None if it succeeded.
    """

    times: tuple[Any, ...]
    payload_bytes: dict[str, int]
    wire_bytes: dict[str, int]
    frames: dict[str, Any]
    outputs: Mapping[str, Any] | None
    error: Exception | None


def perform(
    work: tuple[Any, ...], frames: list[Any], config: Config | None, seed: int | None = None
) -> tuple[Any, ...]:
    """Run one task: decode its inputs, compute, check, encode its outputs.

    Parameters
    ----------
    work
        What to do: the fields of a :class:`Work`.
    frames
        The serialized inputs, in the order of ``work.inputs``. The list is
        emptied once they are decoded, so that their memory can go.
    config
        Parameters of the run.
    seed
        Seed of the run; None leaves all random generators alone.

    Returns
    -------
    tuple
        The fields of a :class:`Record`. A bare tuple, as `work` may be one,
        since making named ones takes a tenth of the time of a run of small
        tasks.
    """
    # The hot path of every run: no helper calls, and names bound once.
    name, task, contract, inputs, decoders, keep = work
    parameters, _, declared, gathers, encode, _, counts_payload = contract
    t0 = t1 = t2 = t3 = t4 = t5 = None
    field = data = outputs = None
    try:
        t0 = perf_counter()
        arguments: dict[str, Any] = {field: [] for field in gathers} if gathers else {}
        for field, decode, data in zip(inputs, decoders, frames):
            if field in gathers:
                arguments[field].append(decode(data))
            else:
                arguments[field] = decode(data)
        t1 = perf_counter()
        # Now nothing in here holds on to the serialized inputs.
        data = None
        frames.clear()
        if parameters.takes_cfg:
            arguments["cfg"] = config
        if seed is not None:
            enter_stream(seed, name)
        compute = task.compute
        t2 = perf_counter()
        outputs = compute(**arguments)
        t3 = perf_counter()
        del arguments
        if type(outputs) is not dict and not isinstance(outputs, Mapping):
            raise _no_mapping(name, declared, outputs)
        for field in declared:
            if field not in outputs:
                raise _missing_outputs(name, declared, outputs)
        encoded = {}
        t4 = perf_counter()
        for field, value in outputs.items():
            encoded[field] = encode(value)
        t5 = perf_counter()
        payload = wire = {}
        for field, data in encoded.items():
            wire[field] = len(data) if type(data) is bytes else _length(name, field, data)
            if counts_payload and type(outputs[field]) not in PICKLED_AS_COUNTED:
                if payload is wire:
                    payload = dict(wire)
                payload[field] = payload_bytes(outputs[field], wire[field])
            elif payload is not wire:
                payload[field] = wire[field]
    except Exception as error:  # noqa: BLE001  (whatever a user's code raises is its result)
        failure = error
        if t1 is None:
            failure = _wrapped(error, f"task {name!r}: input {field!r} cannot be decoded")
        elif t4 is not None and t5 is None:
            kind = type(outputs[field]).__name__  # type: ignore[index]
            where = f"task {name!r}: output {field!r} ({kind}) cannot be serialized"
            failure = _wrapped(error, where)
        return (t0, t1, t2, t3, t4, t5), {}, {}, {}, None, failure
    return (t0, t1, t2, t3, t4, t5), payload, wire, encoded, outputs if keep else None, None


def _wrapped(error: Exception, where: str) -> SerializationError:
    """Return a SerializationError that says where, with `error` as its cause."""
    wrapped = SerializationError(f"{where}: {describe(error)}")
    wrapped.__cause__ = error
    return wrapped.with_traceback(error.__traceback__)


def _length(name: str, field: str, frames: Any) -> int:
    try:
        return frames_bytes(frames)
    except TypeError as error:
        raise SerializationError(
            f"task {name!r}: serialize() of output {field!r} returned "
            f"{type(frames).__name__}, expected bytes or a list of buffers"
        ) from error


def _no_mapping(name: str, declared: list[str], outputs: Any) -> OutputError:
    return OutputError(
        f"task {name!r}: compute() returned {type(outputs).__name__}, expected a mapping "
        f"of its outputs ({_named('declared', declared)})"
    )


def _missing_outputs(
    name: str, declared: list[str], outputs: Mapping[str, Any]
) -> OutputError:
    missing = [field for field in declared if field not in outputs]
    return OutputError(
        f"task {name!r}: compute() returned no {', '.join(map(repr, missing))} "
        f"({_named('declared', declared)}; {_named('returned', outputs)})"
    )


def _named(what: str, fields: Iterable[str]) -> str:
    return f"{what}: {', '.join(map(repr, fields)) or 'none'}"


def _unchanged(value: Any) -> Any:
    return value
