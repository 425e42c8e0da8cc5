"""Meters: the opened meters of one worker, started and stopped with each task."""

from __future__ import annotations

from copy import deepcopy
from math import isfinite
from operator import index
from time import perf_counter
from typing import TYPE_CHECKING, Any, Callable

from dagprofiler.errors import describe, short_repr
from dagprofiler.kernelfiles import KernelFiles, Unavailable
from dagprofiler.probes import BUILT_IN

if TYPE_CHECKING:
    from dagprofiler.meters import Meter, Selection

__all__ = ["Meters", "plain_number"]

#: How often nothing is measured, to know what the meters count of themselves.
_TRIALS = 5

#: Built-in meters of what is a thread's own; all others are about its process.
_OF_THREAD = frozenset({"delay", "cpu"})
_BESIDE_OTHERS = "the task ran in a thread beside others of its process, whose part it would hold"

#: Integers of a profile fit 64 bits.
_INTEGERS = 2**63


class Meters:
    """The opened meters of one worker: of the thread that makes this object.

    Parameters
    ----------
    selection
        What to measure.
    proc
        Where the kernel's files on processes are.
    alone
        Whether no other task runs in this process. If not, only what is about
        this thread is measured, and by users' meters.

    Attributes
    ----------
    columns
        The names of what :meth:`stop` returns.
    reasons
        Column to the first reason why it holds a null; columns without one are
        absent. A reason that concerns one task alone names it.
    cost_s
        What :meth:`start` and :meth:`stop` took so far, in seconds.

    Notes
    -----
    Files under ``/proc/thread-self`` are those of the thread that opened them.
    All but ``delay``, ``cpu`` and what a user's meter does is about the whole
    process.
    """

    def __init__(self, selection: Selection, proc: str = "/proc", *, alone: bool = True) -> None:
        self.columns = selection.columns
        self.reasons: dict[str, str] = {}
        self.cost_s = 0.0
        self._idle_counts: dict[int, float | int | None] = {}
        self._files = KernelFiles(proc)
        self._closers: list[Callable[[], None]] = [self._files.close]
        self._failed: dict[int, str] = {}
        self._nulls: list[float | int | None] = [None] * len(self.columns)
        self._alone = alone
        try:
            self._open(selection)
        except BaseException:
            # Ctrl-C, say: nothing stays open.
            self.close()
            raise

    def _open(self, selection: Selection) -> None:
        # Position of the column and meter, from the inside out.
        opened: list[tuple[int, Any]] = []
        for position, name in enumerate(selection.names):
            try:
                if not (self._alone or name in _OF_THREAD):
                    raise Unavailable(_BESIDE_OTHERS)
                meter = BUILT_IN[name].open(self._files)
                if hasattr(meter, "close"):
                    self._closers.append(meter.close)
                # A file that can be opened can still refuse to be read.
                meter.start()
                meter.stop()
                opened.append((position, meter))
            except Unavailable as reason:
                self.reasons[self.columns[position]] = str(reason)
            except Exception as error:  # noqa: BLE001  (nothing that is measured fails a run)
                self.reasons[self.columns[position]] = f"cannot be read: {describe(error)}"
        self._use(opened)
        self._idle_counts = self._counts_of_nothing()
        for position, (_, meter) in enumerate(selection.own, start=len(selection.names)):
            try:
                opened.append((position, meter if self._alone else deepcopy(meter)))
            except Exception as error:  # noqa: BLE001  (whatever its own __deepcopy__ raises)
                self.reasons[self.columns[position]] = (
                    f"its meter cannot be copied for another thread: {describe(error)}"
                )
        self._use(opened)
        self.cost_s = 0.0

    def _use(self, opened: list[tuple[int, Any]]) -> None:
        """Take these meters, given from the inside out."""
        self._starts = [(position, meter.start) for position, meter in reversed(opened)]
        self._stops = [(position, meter.stop, meter) for position, meter in opened]

    def _counts_of_nothing(self) -> dict[int, float | int | None]:
        """Return what meters count of the meters inside of them, where no task runs.

        Python code is tens of thousands of instructions, and always the same ones.
        None if that cannot be had: then no count can be either.
        """
        if "instructions" not in self.columns:
            return {}
        position, trials = self.columns.index("instructions"), []
        for _ in range(_TRIALS):
            self.start()
            trials.append(self.stop("")[position])
        counts = [count for count in trials if count is not None]
        if counts:
            # A trial that failed makes no null.
            self.reasons.pop(self.columns[position], None)
        return {position: min(counts, default=None)}

    def start(self) -> None:
        """Start all meters, from the outside in."""
        begun = perf_counter()
        for position, start in self._starts:
            try:
                start()
            except Exception as error:  # noqa: BLE001  (a user's meter may raise anything)
                self._failed[position] = _failure("start", error)
        self.cost_s += perf_counter() - begun

    def stop(self, task: str) -> list[float | int | None]:
        """Stop all meters, from the inside out, and return their values, one a column.

        Parameters
        ----------
        task
            Name of the task that ran since :meth:`start`.
        """
        begun = perf_counter()
        values = self._nulls.copy()
        for position, stop, meter in self._stops:
            if position in self._failed:
                continue
            try:
                value = stop()
                if type(value) is not float or not isfinite(value):
                    value = self._checked(position, value, meter)
                values[position] = value
            except Exception as error:  # noqa: BLE001  (a user's meter may raise anything)
                self._failed[position] = _failure("stop", error)
        for position, idle in self._idle_counts.items():
            counted = values[position]
            if counted is not None and idle is not None and counted > idle:
                values[position] = counted - idle
            elif counted is not None:
                values[position] = None
                self.reasons.setdefault(
                    self.columns[position],
                    "the counter was not reliable: it counted less than the meters alone take",
                )
        if self._failed:
            for position, what in self._failed.items():
                self.reasons.setdefault(self.columns[position], f"task {task!r}: {what}")
            self._failed.clear()
        self.cost_s += perf_counter() - begun
        return values

    def _checked(self, position: int, value: Any, meter: Meter) -> float | int | None:
        """Return what a meter returned if it is a number for a profile, as a plain one, or None."""
        if type(value) is int and -_INTEGERS <= value < _INTEGERS:
            return value
        if value is None:
            reason = getattr(meter, "reason", None) or "its meter returned None and no reason"
            self.reasons.setdefault(self.columns[position], str(reason))
            return None
        number = plain_number(value)
        if number is None:
            self._failed[position] = (
                f"stop() returned {short_repr(value)}, "
                f"expected None or a finite number (an integer of at most 64 bits)"
            )
        return number

    def close(self) -> None:
        """Close what is open; values can no more be had."""
        while self._closers:
            # Forgotten when it is done, since Ctrl-C may come first and this be called again.
            self._closers[-1]()
            self._closers.pop()


def _failure(method: str, error: Exception) -> str:
    return str(error) if isinstance(error, Unavailable) else f"{method}() raised {describe(error)}"


def plain_number(value: Any) -> float | int | None:
    """Return a finite number of numpy or another library as a plain one; None if it is none."""
    from numbers import Real

    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number:
        return None
    try:
        integer = int(index(value))
    except TypeError:
        number = float(value)
        return number if isfinite(number) else None
    return integer if -_INTEGERS <= integer < _INTEGERS else None
