"""Task: the base class of the DAG Task Standard."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Callable, SupportsFloat

from dagprofiler._util import Values
from dagprofiler.config import Config
from dagprofiler.errors import DeclarationError, describe, did_you_mean, listed, short_repr
from dagprofiler.graph.edges import field_problem
from dagprofiler.measure.pipeline import Contract, Parameters, Record, perform, signature_of
from dagprofiler.metrics import TaskMetrics
from dagprofiler.serializers import (
    Codec,
    FrameList,
    PickleSerializer,
    Serializer,
    check_serializer,
    frames_bytes,
    is_array,
)

if TYPE_CHECKING:
    from inspect import Signature


#: The function of a task.
_Compute = Callable[..., Values]

#: What a task declares in lists of names, and all that is checked.
_LISTS = ("inputs", "outputs", "config_deps", "gathers")
_DECLARED = (*_LISTS, "tags", "adds", "serializer")


class _ClassName:
    """Default of ``task.name``: also right for a subclass that never calls ``__init__``."""

    def __get__(self, task: Task | None, owner: type[Task]) -> str:
        return owner.__name__


class _OfInstance:
    """A method that a class calls on an instance which it makes of itself."""

    def __init__(self, method: Callable[..., Task]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, task: Task | None, owner: type[Task]) -> Callable[..., Task]:
        method = self._method
        if task is not None:
            return MethodType(method, task)

        @wraps(method)
        def of_new(*args: object, **kwargs: object) -> Task:
            return method(instance_of(owner, f"{method.__name__}()"), *args, **kwargs)

        return of_new


class _Bound:
    """``compute()`` of a task some of whose arguments are given.

    Parameters
    ----------
    task
        The task; in it, this replaces the method of its class.
    own
        The ``compute()`` that the instance had instead of that method, if any.
    """

    def __init__(self, task: Task, own: _Compute | None) -> None:
        self._task = task
        self.own = own

    @property
    def _compute(self) -> _Compute:
        if self.own is not None:
            return self.own
        from inspect import getattr_static

        # Looked up each time, since a function of a class made by @task does not pickle.
        kind = type(self._task)
        compute: _Compute = getattr_static(kind, "compute").__get__(self._task, kind)
        return compute

    @property
    def __signature__(self) -> Signature:
        signature = signature_of(self._compute)
        left = [p for name, p in signature.parameters.items() if name not in self._task.bound]
        return signature.replace(parameters=left)

    def __call__(self, **inputs: object) -> Values:
        return self._compute(**self._task.bound, **inputs)


class Task(ABC):
    """One node of a DAG: its inputs, its outputs and its computation.

    Subclasses declare their fields as class attributes and implement
    :meth:`compute`; an instance may override its declarations before it
    enters a DAG.

    Parameters
    ----------
    name
        Name of this instance; the class name by default. In a DAG the task
        has the name that the DAG gives it.
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
        They need not be repeated in `inputs`.
    serializer
        A :class:`~dagprofiler.serializers.Serializer` for this task's
        outputs; None for the DAG's.
    tags
        Words that rules select tasks by.
    adds
        Tags of the tasks that its ``grow()`` may add.
    timeout
        The longest time that the task may take, in seconds, above 0; None for that of the run.
    bound
        Arguments of ``compute()`` that :meth:`bind` has given, by name.

    Notes
    -----
    A task with a method ``grow(graph)`` adds tasks that depend on it: after it
    has succeeded, ``grow`` is called as the body of a :class:`~dagprofiler.Rule`
    that waits for this task and reads its outputs, in the process that drives
    the run. ``graph.this`` is the task in the graph.

    State that an instance keeps (``self.x = ...``) stays from run to run and
    is shared by all DAGs and names of the instance. While a
    DAG runs it, ``self.config`` is the config of that DAG.

    Examples
    --------
    >>> from dagprofiler import Config
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

    # The spec's own form; never changed in place.
    inputs: list[str] = []
    outputs: list[str] = []
    config_deps: list[str] = []
    gathers: list[str] = []
    serializer: Serializer | None = None
    tags: Sequence[str] = ()
    adds: Sequence[str] = ()
    timeout: float | None = None
    bound: Values = {}
    config: Config | None = None
    name: str = _ClassName()  # type: ignore[assignment]

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        check_declarations(cls, f"task class {cls.__name__!r}")

    def __init__(self, name: str | None = None, config: Config | None = None) -> None:
        if name is not None and not isinstance(name, str):
            where = f"task class {type(self).__name__!r}"
            hint = "the computation itself is called by compute()"
            raise DeclarationError(
                f"{where}: name must be a string, got {short_repr(name)}; {hint}"
            )
        self.name = name or type(self).__name__
        self.config = config

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @abstractmethod
    def compute(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """Compute the outputs from the inputs.

        Overrides take the declared inputs as keyword arguments and,
        optionally, ``cfg``, the :class:`Config`: ``def compute(self, data, cfg)``.

        Returns
        -------
        mapping of str to object
            At least the declared outputs.
        """

    @_OfInstance
    def bind(self, **arguments: Any) -> Task:
        """Return a copy of this task, some of whose arguments are given.

        A class makes an instance first: ``Scale.bind(factor=2)``.

        Parameters
        ----------
        **arguments
            Arguments of :meth:`compute`, which are no inputs of the copy. They travel with the
            task and over no edge; a journal compares them when a run is resumed, and the
            profile shows them.

        Raises
        ------
        DeclarationError
            If :meth:`compute` does not take one.

        Examples
        --------
        >>> from dagprofiler import task
        >>> @task(outputs=["y"])
        ... def scale(x, factor):
        ...     return {"y": factor * x}
        >>> double = scale.bind(factor=2)
        >>> double.inputs, double.compute(x=4)
        (['x'], {'y': 8})
        """
        parameters = Parameters.of(self.compute)
        known = sorted({*parameters.required, *parameters.optional, *self.bound})
        for name in arguments:
            if (name not in known and not parameters.any) or name == "cfg":
                raise DeclarationError(
                    f"task {self.name!r}: bind(): compute() does not take {name!r} as an input "
                    f"(it takes: {listed(known) or 'nothing'})"
                    f"{did_you_mean(name, known)}"
                )
        task = copy.copy(self)
        task.bound = {**self.bound, **arguments}
        for attribute in ("inputs", "gathers"):
            fields = [name for name in getattr(self, attribute) if name not in arguments]
            setattr(task, attribute, fields)
        own = vars(self).get("compute")
        vars(task)["compute"] = _Bound(task, own.own if isinstance(own, _Bound) else own)
        return task

    @staticmethod
    def estimate_instructions(cfg: Any) -> SupportsFloat | None:  # noqa: ARG004
        """Return how many instructions ``compute()`` takes under `cfg`.

        Override it to give the task a cost model. The result is rounded up to a
        whole number; None means that there is no model for this `cfg`. The
        base method returns the 0 of the profile format, which the
        profile's section ``weight_sources`` tells from an estimate.
        """
        return 0

    @staticmethod
    def serialize(data: Any) -> bytes:
        """Return `data` as bytes; override it together with :meth:`deserialize`."""
        return PickleSerializer.dumps(data)

    @staticmethod
    def deserialize(data: Any) -> Any:
        """Return the value that :meth:`serialize` turned into `data`."""
        return PickleSerializer.loads(data)

    def run(self, inputs: Mapping[str, Any], config: Config | None = None) -> dict[str, Any]:
        """Execute this task alone, measured.

        Parameters
        ----------
        inputs
            Field to its serialized value; a value that is not bytes is passed
            without decoding.
        config
            Parameters for this run; by default those of the task.

        Returns
        -------
        dict
            ``outputs``: field to its serialized value; ``outputs_raw``: the
            result of ``compute()``; ``metrics``: :class:`TaskMetrics`.

        Raises
        ------
        OutputError
            If ``compute()`` returns no mapping or lacks a declared output.
        SerializationError
            If a value cannot be encoded or decoded.
        """
        # A gathered input is passed as one list; without one it is empty, as in a DAG.
        empty: dict[str, list[object]] = {name: [] for name in self.gathers if name not in inputs}
        contract = contract_of(self, Parameters.of(self.compute))
        alone = replace(contract, gathers=(), overrides_run=False)
        values = [*inputs.values(), *empty.values()]
        decoders = [
            contract.decode if isinstance(value, (bytes, FrameList)) else _unchanged
            for value in values
        ]
        work = self.name, self, alone, [*inputs, *empty], decoders, True
        # The task's own config replaces an empty one, as in version 0.1.0.
        cfg = config or (config if self.config is None else self.config)
        record = Record(*perform(work, values, cfg))
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
    def _count_bytes(data: Values) -> int:
        """Return the bytes of all values that are bytes or arrays (specification, 6.3)."""
        total = 0
        for value in data.values():
            if isinstance(value, (bytes, FrameList)):
                total += frames_bytes(value)
            elif is_array(value):
                total += value.nbytes
        return total


def grows(kind: type[Task]) -> bool:
    """Tell whether tasks of a class add further tasks."""
    return hasattr(kind, "grow")


def check_tags(words: object, where: str) -> tuple[str, ...]:
    """Return tags as a tuple, or raise a DeclarationError unless they are words."""
    if words == ():
        return ()
    return _checked(words, where, (list, tuple, set, frozenset))


def _checked(
    words: object, where: str, kinds: tuple[type[Collection[str]], ...] = (list, tuple)
) -> tuple[str, ...]:
    if not isinstance(words, kinds):
        hint = f"; write [{short_repr(words)}]" if isinstance(words, str) else ""
        raise DeclarationError(f"{where} must be a list of names, got {short_repr(words)}{hint}")
    for word in words:
        if not isinstance(word, str) or not word:
            raise DeclarationError(f"{where} holds {short_repr(word)}, expected a non-empty string")
    return tuple(words)


def check_declarations(task: Task | type[Task], owner: str) -> None:
    """Raise a DeclarationError if a declaration of `task` is invalid.

    A property has no value until there is an instance, so on a class it is
    not checked.
    """
    is_class, declared = isinstance(task, type), set[str]()
    for attribute in _DECLARED:
        value = getattr(task, attribute)
        # What Task itself declares needs no check.
        if value is getattr(Task, attribute) or (is_class and hasattr(value, "__get__")):
            continue
        declared.add(attribute)
        where = f"{owner}: {attribute}"
        if attribute == "serializer":
            check_serializer(value, owner)
        elif attribute in _LISTS:
            _check_fields(value, where, any_text=attribute == "config_deps")
        else:
            check_tags(value, where)
    if "gathers" in declared and ("inputs" in declared or task.inputs is Task.inputs):
        # A gathered field need not be repeated among the inputs.
        missing = [name for name in task.gathers if name not in task.inputs]
        if missing and not is_class and isinstance(getattr(type(task), "inputs", None), property):
            raise DeclarationError(f"{owner}: gathers holds {missing[0]!r}, which is not an input")
        if missing:
            task.inputs = [*task.inputs, *missing]


def _check_fields(names: object, where: str, *, any_text: bool) -> None:
    seen: set[str] = set()
    for name in _checked(names, where):
        if name in seen:
            raise DeclarationError(f"{where} names {short_repr(name)} twice")
        seen.add(name)
        problem = None if any_text else field_problem(name)
        if problem is not None:
            raise DeclarationError(f"{where} holds {short_repr(name)}, which {problem}")


def instance_of(kind: type[Task], where: str, **arguments: Any) -> Task:
    """Return an instance of a task class, or raise a DeclarationError that names `where`."""
    try:
        return kind(**arguments)
    except TypeError as error:
        raise DeclarationError(
            f"{where}: cannot make an instance of {kind.__name__!r}: {describe(error)}"
        ) from error


def contract_of(task: Task, parameters: Parameters, default: Serializer | None = None) -> Contract:
    """Return the contract of `task`, whose ``compute()`` takes `parameters`.

    Its own ``serialize`` and ``deserialize`` come first, then its
    ``serializer``, then `default`, then pickle.
    """
    encode: Codec = PickleSerializer.dumps
    decode: Codec = PickleSerializer.loads
    name = PickleSerializer.name
    # An overridden run() encodes and decodes itself, without the DAG's serializer.
    overrides_run = getattr(task.run, "__func__", None) is not Task.run
    serializer = task.serializer
    if serializer is None and not overrides_run:
        serializer = default
    if task.serialize is not Task.serialize or task.deserialize is not Task.deserialize:
        encode, decode, name = task.serialize, task.deserialize, "the task's own"
    elif serializer is not None:
        encode, decode, name = serializer.dumps, serializer.loads, serializer.name

    # Copies: later changes of the lists have no effect here.
    fields = tuple(task.inputs), tuple(task.outputs), tuple(task.gathers)
    counts = encode is PickleSerializer.dumps
    return Contract(parameters, *fields, encode, decode, name, counts, overrides_run, task.bound)


def _unchanged(value: object) -> object:
    return value
