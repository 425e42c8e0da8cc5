"""Hooks: observers of a run; Tracer, the hook that records functions inside tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from dagprofiler._util import Values
from dagprofiler._util.checks import integer, number
from dagprofiler.config import Config
from dagprofiler.errors import DeclarationError, TraceError, did_you_mean, short_repr

if TYPE_CHECKING:
    from dagprofiler.engine.log import RunLog, TaskRecord
    from dagprofiler.engine.setup import RunOptions
    from dagprofiler.profile import Profile
    from dagprofiler.task import Task


@dataclass(frozen=True, eq=False)
class RunInfo:
    """Description of a run that is about to start, passed to :meth:`Hook.run_started`.

    Attributes
    ----------
    tasks
        Task name to task.
    execution_order
        Task names in Kahn's order.
    config
        Parameters of the run.
    options
        The other arguments of :meth:`DAG.run <dagprofiler.DAG.run>`.
    inputs
        Inputs from outside the graph, by task and field, serialized.
    log
        The log of the run, updated while it runs; it numbers the tasks.
    """

    tasks: Mapping[str, Task]
    execution_order: Sequence[str]
    config: Config
    options: RunOptions
    inputs: Mapping[str, Values]
    log: RunLog


class Hook:
    """Observes a run; override the methods that you need.

    Hooks are called in the process that drives the run, outside every timed
    phase; their time counts as overhead (``hooks_ms``). A hook that raises
    ends the run as a failing task does. :meth:`close` is always called last.
    Public methods whose names begin with ``on_``, ``before_``, ``after_``,
    ``run_``, ``task_`` or ``round_`` must be methods of this class.

    Attributes
    ----------
    store
        Called in each worker, it returns the store of that worker, which writes the outputs of a
        task before the worker reports it, as in :class:`~dagprofiler.Journal`. None for no store.
    tracing
        What workers record inside tasks in addition to annotations, as in
        :class:`~dagprofiler.Tracer`; None for nothing.

    Examples
    --------
    >>> class Progress(Hook):
    ...     def task_finished(self, record):
    ...         print("done:", record.task)
    """

    store: Any = None
    tracing: Any = None

    def run_started(self, run: RunInfo) -> None:
        """Handle the start of the run: after validation, before the first task."""

    def task_started(self, task: str) -> None:
        """Handle the start of a task."""

    def task_finished(self, record: TaskRecord) -> None:
        """Handle the end of a task that succeeded."""

    def task_failed(self, record: TaskRecord) -> None:
        """Handle the end of a task that failed."""

    def round_finished(self, number: int) -> None:
        """Handle the end of a round; `number` counts from 0 and includes warm-up."""

    def run_finished(self, profile: Profile) -> None:
        """Handle the end of the run; `profile` may be partial."""

    def close(self) -> None:
        """Release resources; always called once, last."""


class Tracer(Hook):
    """Records the functions of modules inside the tasks of a run, without annotations.

    Functions and blocks annotated with ``@trace`` or ``span()`` are recorded in every run,
    unless tracing is switched off. With a Tracer they are always recorded.

    Parameters
    ----------
    functions
        Modules, or their names, whose functions are recorded; a package includes all its
        modules.
    floor_ms
        Shorter calls of these functions are not recorded, in milliseconds; at least 0.
    limit
        The number of spans of each thread of a task that a round keeps, the first ones;
        further spans are only counted.

    Raises
    ------
    TraceError
        If a module is not found or is not written in Python, or a number is out of range.

    Notes
    -----
    Uses ``sys.monitoring`` from Python 3.12 on, and ``sys.setprofile`` before, which costs
    every call of a task some tenths of a microsecond: compare such times between functions,
    not with runs without a Tracer.

    Examples
    --------
    >>> import textwrap
    >>> from dagprofiler import DAG, task
    >>> @task(outputs=["text"])
    ... def fill():
    ...     return {"text": textwrap.fill("some words")}
    >>> profile = DAG({"fill": fill}).run(hooks=[Tracer(functions=[textwrap], floor_ms=0)])
    >>> profile.sections["spans"]["labels"][-1]["name"].split(".")[-1]
    'fill'
    """

    def __init__(
        self,
        functions: Iterable[ModuleType | str] = (),
        *,
        floor_ms: float = 0.1,
        limit: int = 100_000,
    ) -> None:
        from dagprofiler.tracing.functions import Tracing, module_name

        limit = integer("limit", limit, 1, error=TraceError)
        floor_ms = number("floor_ms", floor_ms, zero=True, unit="milliseconds", error=TraceError)
        single = isinstance(functions, (str, ModuleType))
        recorded: Iterable[Any] = [functions] if single else functions
        modules = tuple([module_name(module) for module in recorded])
        self.tracing = Tracing(limit, modules, float(floor_ms))


def hooks_of(hooks: object) -> list[Hook]:
    """Return the argument of ``run(hooks=...)`` as a list, or raise a DeclarationError."""
    if isinstance(hooks, Hook) or not isinstance(hooks, Iterable):
        raise DeclarationError(
            f"hooks must be a list of hooks, got {short_repr(hooks)}; put it in a list"
        )
    listed = list(hooks)
    for hook in listed:
        if not isinstance(hook, Hook):
            raise DeclarationError(f"hooks: expected instances of Hook, got {short_repr(hook)}")
        check_methods(type(hook))
    return listed


#: Beginnings of names that look like those of a hook's methods.
_LIKE_HOOKS = ("on_", "before_", "after_", "run_", "task_", "round_")


def check_methods(kind: type[Hook]) -> None:
    """Raise a DeclarationError if a method is named like those of Hook, but is none of them.

    Names that override a method of another base class are allowed.
    """
    methods = [name for name in vars(Hook) if name.startswith(_LIKE_HOOKS)]
    others = [base for base in kind.__mro__ if not issubclass(base, Hook)]
    for name in dir(kind):
        if (
            name.startswith(_LIKE_HOOKS)
            and isinstance(getattr(kind, name), FunctionType)
            and not any(hasattr(base, name) for base in (Hook, *others))
        ):
            raise DeclarationError(
                f"hook {kind.__name__}: {name!r} is not a method of Hook and is never called"
                f"{did_you_mean(name, methods)} (methods: {', '.join(methods)}; begin the name "
                "of a helper with an underscore)"
            )
