"""The errors that dagprofiler raises.

Every class derives from :class:`DagProfilerError` and from the builtin that a
caller would expect, and every instance pickles, so that an error raised in a
worker process arrives complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, Union

#: Most characters of a quoted value, of an error's message, of a traceback.
_MAX_QUOTE = 300
_MAX_MESSAGE = 1000
_MAX_TRACEBACK = 20_000
_MAX_CAUSES = 10
#: Most frames of a traceback that a profile keeps.
_MAX_FRAMES = 20
#: The code of dagprofiler, whose frames say nothing about a task.
_OWN_CODE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
#: Tasks that a message names.
_MOST_NAMES = 20

#: One frame of a traceback: its file, line, function and text, by these names.
Frame = dict[str, Union[str, int]]

Item = TypeVar("Item")


class DagProfilerError(Exception):
    """Base class of every error raised by dagprofiler."""


class DagProfilerWarning(UserWarning):
    """A likely problem that does not stop the run."""


class DeclarationError(DagProfilerError, TypeError):
    """A task declares something that the DAG Task Standard does not allow."""


class GraphError(DagProfilerError, ValueError):
    """Tasks and edges do not form a usable graph."""


@dataclass(eq=False, repr=False)
class CycleError(GraphError):
    """The edges form a cycle, so no execution order exists.

    Attributes
    ----------
    cycle
        Task names in edge order; the first and the last are the same.
    """

    cycle: Sequence[str]

    def __str__(self) -> str:
        cycle = " -> ".join([repr(name) for name in self.cycle])
        return f"tasks form a cycle: {shorten(cycle, _MAX_MESSAGE)}"


#: Problems in the message of a :class:`ValidationError`.
SHOWN_PROBLEMS = 10


@dataclass(eq=False, repr=False)
class ValidationError(GraphError):
    """The graph cannot be run.

    Attributes
    ----------
    problems
        All problems found, one error each; the message holds the first ten.
    """

    problems: Sequence[DagProfilerError]

    def __str__(self) -> str:
        return _itemized(self.problems)


def _itemized(problems: Sequence[object]) -> str:
    """Return one problem as it is, several as a list of the first ten."""
    if len(problems) == 1:
        return str(problems[0])
    lines = "".join(f"\n  - {problem}" for problem in problems[:SHOWN_PROBLEMS])
    left = len(problems) - SHOWN_PROBLEMS
    more = f"\n  and {left:,} more" if left > 0 else ""
    return f"{len(problems):,} problems:{lines}{more}"


def refused(problem: str) -> ValidationError:
    """Return the error for a graph that has one problem, or a run."""
    return ValidationError([GraphError(problem)])


class OutputError(DagProfilerError, ValueError):
    """``compute()`` did not return its declared outputs."""


class SerializationError(DagProfilerError, TypeError):
    """A value could not be turned into bytes, or bytes into a value."""


class CostModelError(DagProfilerError, ValueError):
    """A cost model failed, or did not return an instruction count."""


class RunError(DagProfilerError, RuntimeError):
    """Tasks failed while the DAG ran.

    Attributes
    ----------
    task
        The task that failed first; None if a hook failed and no task did.
    failures
        All errors by task name; the key of a hook's error is
        ``"<class>.<method>"``. The first error is also ``__cause__``.
    profile
        The partial :class:`~dagprofiler.Profile` of the tasks that succeeded.
    profiles
        The same of each run that had begun, in :func:`~dagprofiler.sweep` and
        :func:`~dagprofiler.compare_runs`; in another run only `profile`.
    of
        Which of their runs failed, as ``"N=200"`` or ``"new"``; "" for another run.
    """

    def __init__(
        self, task: str | None, failures: Mapping[str, BaseException], profile: Any
    ) -> None:
        super().__init__(task, failures, profile)
        self.task = task
        self.failures = dict(failures)
        self.profile = profile
        self.profiles, self.of = [profile], ""

    def __reduce__(self) -> tuple[object, ...]:
        failures = {name: portable(error) for name, error in self.failures.items()}
        cause = next(iter(failures.values()), None)
        state = {"profiles": self.profiles, "of": self.of, "__cause__": cause}
        return type(self), (self.task, failures, self.profile), state

    def __str__(self) -> str:
        name, *others = self.failures
        if name == self.task:
            what = f"task {name!r}"
        else:
            what = name if name.startswith("rule ") else f"hook {name}"
        of = f"{self.of}: " if self.of else ""
        text = f"{of}{what} failed: {describe(self.failures[name])}"
        return f"{text} (so did {listed(others)})" if others else text


def portable(error: BaseException) -> BaseException:
    """Return a copy of `error` without its causes, or a substitute with its text; both pickle."""
    return _unpickled(_pickled(error), describe(error))


def _pickled(error: BaseException) -> bytes | None:
    """Return `error` pickled; None if it cannot be, or does not come back."""
    import pickle
    from io import BytesIO

    data = BytesIO()
    pickler = pickle.Pickler(data, pickle.HIGHEST_PROTOCOL)
    # Not as tblib does, which Dask installs: that loses what C code holds, such as an exit code.
    pickler.dispatch_table = {}
    # Its own __reduce__ may raise anything.
    with suppress(Exception):
        pickler.dump(error)
        pickle.loads(data.getvalue())
        return data.getvalue()
    return None


def _unpickled(data: bytes | None, text: str) -> BaseException:
    """Return an unpickled error, or a substitute with its text if it cannot be unpickled."""
    import pickle

    error: BaseException = DagProfilerError(text)
    # Its module may be missing here, or another version.
    with suppress(Exception):
        error = pickle.loads(data) if data else error
    return error


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, as many as an error from another process can have."""
    chain, link = [error], error.__cause__
    while link is not None and len(chain) <= _MAX_CAUSES:
        chain.append(link)
        link = link.__cause__
    return chain


class RemoteTraceback(Exception):  # noqa: N818  (not an error: the text of a traceback)
    """The traceback of an error from another process, as the last of its causes."""

    #: As :func:`frames_of` returned it there.
    frames: list[Frame]


class PackedError:
    """An error from another process, pickled with its causes and the text of its traceback.

    Parameters
    ----------
    error
        What was raised there.
    """

    def __init__(self, error: BaseException) -> None:
        from traceback import format_exception

        lines = format_exception(type(error), error, error.__traceback__)
        self._text = shorten("".join(lines), _MAX_TRACEBACK)
        self._frames = frames_of(error)
        self._chain = [(_pickled(link), describe(link)) for link in _chain(error)[:_MAX_CAUSES]]

    def unpacked(self) -> BaseException:
        """Return the error, linked to its causes."""
        causes = [_unpickled(*packed) for packed in self._chain]
        remote = RemoteTraceback(f'\n"""\n{self._text}"""')
        remote.frames = self._frames
        causes.append(remote)
        for error, cause in zip(causes, causes[1:]):
            error.__cause__ = cause
        return causes[0]


@dataclass(eq=False, repr=False)
class WorkerError(DagProfilerError, RuntimeError):
    """An executor lost a task: its worker died, or could not be reached.

    Attributes
    ----------
    task
        Name of the task.
    in_flight
        Names of the other tasks that were submitted then, first those of its own job: tasks
        of at most two jobs for each worker.
    reason
        The executor's message.
    """

    task: str
    in_flight: Sequence[str]
    reason: str

    def __str__(self) -> str:
        others = listed(self.in_flight, _MOST_NAMES)
        text = f"task {self.task!r} was lost by its executor: {self.reason}"
        return f"{text} (also in flight: {others})" if others else text


class TaskTimeoutError(DagProfilerError, TimeoutError):
    """A task took longer than its time limit, and was ended.

    Attributes
    ----------
    task
        Name of the task.
    limit_s
        Its limit, in seconds.
    took_s
        The time until it was ended, in seconds.
    """

    def __init__(self, task: str, limit_s: float, took_s: float) -> None:
        super().__init__(task, limit_s, took_s)
        self.task = task
        self.limit_s = limit_s
        self.took_s = took_s

    def __str__(self) -> str:
        return (
            f"task {self.task!r} was ended after {self.took_s:.3g} s: its time limit is "
            f"{self.limit_s:g} s"
        )


@dataclass(eq=False, repr=False)
class ProfileError(DagProfilerError, ValueError):
    """A document is not a valid profile.

    Attributes
    ----------
    message
        What is wrong.
    path
        Where: a JSON path such as ``$.edge_weights['a->b']``.
    """

    message: str
    path: str = "$"

    def __str__(self) -> str:
        # An error of the whole needs no path.
        return self.message if self.path == "$" else f"{self.path}: {self.message}"


@dataclass(eq=False, repr=False)
class JournalError(DagProfilerError, ValueError):
    """A journal cannot be written, or the run it records cannot be resumed.

    Attributes
    ----------
    path
        The directory or the file.
    problems
        What is wrong, one sentence each.
    """

    path: str
    problems: Sequence[str]

    def __str__(self) -> str:
        return f"journal {self.path!r}: {_itemized(self.problems)}"


@dataclass(eq=False, repr=False)
class WeightError(DagProfilerError, ValueError):
    """A profile lacks a task's weight from the requested source.

    Attributes
    ----------
    source
        The requested source.
    tasks
        Names of the tasks without a weight; empty if no single task is the reason.
    reason
        Why the weights are missing.
    """

    source: Any
    tasks: Sequence[str]
    reason: str

    def __str__(self) -> str:
        lacking = f"none for {listed(self.tasks)}: " if self.tasks else ""
        return f"weights from {short_repr(self.source)}: {lacking}{self.reason}"


class TraceError(DagProfilerError, ValueError):
    """An invalid request to tracing, or a file that is not a trace."""


class FormatError(DagProfilerError, ValueError):
    """A format is unknown, or a document is not in it."""


@dataclass(eq=False, repr=False)
class MissingExtraError(DagProfilerError, ImportError):
    """A feature needs a package that is not installed.

    Attributes
    ----------
    extra
        The extra that installs it: ``pip install "dagprofiler[<extra>]"``.
    """

    feature: str
    extra: str

    def __str__(self) -> str:
        return (
            f"{self.feature} needs a package that is not installed: "
            f'pip install "dagprofiler[{self.extra}]"'
        )


class explained:  # noqa: N801  (reads as a word of the language)
    """Turn what the code of a user or of another package raises into one of our errors.

    Parameters
    ----------
    kind
        Makes our error of its message; what was raised in the block is its cause.
    words
        What failed; the cause follows in the message.
    hint
        The end of the message.
    of
        What is turned into our error; other errors pass, as Ctrl-C does by default.

    Examples
    --------
    >>> with explained(GraphError, "no config"):
    ...     {}["n"]
    Traceback (most recent call last):
    dagprofiler.errors.GraphError: no config: KeyError: 'n'
    """

    def __init__(
        self,
        kind: Callable[[str], DagProfilerError],
        words: str,
        hint: str = "",
        *,
        of: type[Exception] | tuple[type[Exception], ...] = Exception,
    ) -> None:
        self._kind, self._words, self._hint, self._of = kind, words, hint, of

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, self._of):
            raise self._kind(f"{self._words}: {describe(error)}{self._hint}") from error


def needs_extra(feature: str, extra: str) -> explained:
    """Raise a MissingExtraError where what is imported in the block is not installed."""
    return explained(lambda _: MissingExtraError(feature, extra), feature, of=ImportError)


def describe(error: BaseException) -> str:
    """Return ``ClassName: message`` for `error`, on one line, a long one shortened.

    Examples
    --------
    >>> describe(ValueError("no such cell"))
    'ValueError: no such cell'
    """
    name = type(error).__name__
    text = " ".join(one_line(_shown(str, error), _MAX_MESSAGE).split())
    return f"{name}: {text}" if text else name


def frames_of(error: BaseException) -> list[Frame]:
    """Return where `error` was raised: the frames of its traceback, the outermost first.

    Returns
    -------
    list of dict
        ``file``, ``line`` (a number from 1), ``function`` and ``text`` (the line of code, "" if
        it cannot be read) of at most 20 frames outside of dagprofiler: the first and the last
        ones. For an error from another process, its frames there.
    """
    from traceback import extract_tb

    frames: list[Frame] = [
        {
            "file": frame.filename,
            "line": frame.lineno or 1,
            "function": frame.name,
            "text": shorten(frame.line or "", _MAX_QUOTE),
        }
        for frame in extract_tb(error.__traceback__)
        if not frame.filename.startswith(_OWN_CODE)
    ]
    for link in _chain(error):
        if not frames and isinstance(link, RemoteTraceback):
            frames = link.frames
    return frames if len(frames) <= _MAX_FRAMES else [frames[0], *frames[1 - _MAX_FRAMES :]]


def short_repr(value: object) -> str:
    """Return the repr of any value for a message: short, on one line, even if ``repr`` fails.

    Examples
    --------
    >>> len(short_repr("x" * 1_000_000))
    305
    >>> class Shy:
    ...     def __repr__(self):
    ...         raise ValueError
    >>> short_repr(Shy())
    '<Shy whose repr raises ValueError>'
    """
    return one_line(_shown(repr, value))


def _shown(show: Callable[[object], str], value: object) -> str:
    try:
        return show(value)
    except Exception as error:  # noqa: BLE001  (a failure is reported even if its message fails)
        how = f"{show.__name__} raises {type(error).__name__}"
        return f"<{type(value).__name__} whose {how}>"


def one_line(text: str, limit: int = _MAX_QUOTE) -> str:
    """Return `text` shortened, with escapes for what breaks a line or upsets a terminal."""
    text = shorten(text, limit)
    if text.isprintable():
        return text
    # Join the lines, then escape what is still not printable.
    text = " ".join(text.split())
    escaped = [c if c.isprintable() else c.encode("unicode_escape").decode() for c in text]
    return shorten("".join(escaped), limit)


def did_you_mean(word: object, known: Sequence[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest of `known`, or nothing.

    Examples
    --------
    >>> did_you_mean("dta", ["data", "labels"])
    "; did you mean 'data'?"
    """
    # difflib costs 3 ms to import and is needed only when something is wrong.
    from difflib import get_close_matches

    lower = {name.lower(): name for name in reversed(known)}
    # A long text takes long to compare.
    word = shorten(word) if isinstance(word, str) else short_repr(word)
    close = get_close_matches(word.lower(), lower, n=1)
    return f"; did you mean {lower[close[0]]!r}?" if close else ""


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number and the singular or plural of what it counts.

    Examples
    --------
    >>> counted(1, "task"), counted(2000, "task"), counted(2, "task has", "tasks have")
    ('1 task', '2,000 tasks', '2 tasks have')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def listed(names: Sequence[Item], most: int = 5, show: Callable[[Item], str] = repr) -> str:
    """Return the first names, and how many more there are.

    Examples
    --------
    >>> listed(["a", "b", "c"], 2)
    "'a', 'b' and 1 more"
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join([show(name) for name in names[:most]]) + more


def json_path(parts: Iterable[object]) -> str:
    """Return keys and indices as a JSON path, long keys shortened.

    Examples
    --------
    >>> json_path(["edge_weights", "a->b"]), json_path(["records", 3, "task"])
    ("$.edge_weights['a->b']", '$.records[3].task')
    """
    return "$" + "".join(
        f".{shorten(part)}"
        if isinstance(part, str) and part.isidentifier()
        else f"[{short_repr(part)}]"
        for part in parts
    )


def shorten(text: str, limit: int = _MAX_QUOTE) -> str:
    """Return `text`, its middle left out if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} ... {text[-half:]}"
