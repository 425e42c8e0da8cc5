"""Progress: a hook that shows how far a run is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from time import perf_counter
from typing import IO, TYPE_CHECKING, Any

from dagprofiler._document import ProfileData
from dagprofiler._document.table import default_times
from dagprofiler._util.text import printable
from dagprofiler.engine.hooks import Hook, RunInfo
from dagprofiler.engine.log import RunLog, TaskRecord
from dagprofiler.profile import Profile

if TYPE_CHECKING:
    from rich.live import Live

#: Seconds between two lines where nothing moves.
_PAUSE_S = 10.0

#: Width of the bar, in characters; share of the work from which the rest is estimated.
_BAR, _ENOUGH = 12, 0.05


class Progress(Hook):
    """Shows how far a run is, on one line.

    Tasks done of all, the round, elapsed and remaining time, which tasks run and for how long. On
    a terminal the line moves, if rich is installed, and what tasks print appears above it.
    Elsewhere, as in a log or a notebook, a line is printed every 10 s.

    Parameters
    ----------
    expected
        A profile of the DAG, by which the remaining time is estimated from the beginning; without
        one, all tasks count the same, and the rest is estimated when a twentieth is done.
    stream
        Where to write; by default standard error.
    label
        Word before the rest, to tell several runs apart.
    beside
        The progress of another run that takes turns with this one: both share its line.

    Notes
    -----
    A thread of rich draws four times a second, only on a terminal. A line that a task prints there
    takes 0.4 ms. Without this hook a run does nothing of this.

    Examples
    --------
    >>> from dagprofiler import DAG, task
    >>> @task(outputs=["x"])
    ... def source():
    ...     return {"x": 1}
    >>> profile = DAG({"source": source}).run(hooks=[Progress()])
    """

    def __init__(
        self,
        expected: ProfileData | None = None,
        *,
        stream: IO[str] | None = None,
        label: str = "",
        beside: Progress | None = None,
    ) -> None:
        times = {} if expected is None else default_times(expected)
        self._expected = {name: time.median_ms for name, time in times.items()}
        # A task that is not in the profile counts as a typical one.
        self._typical = sum(self._expected.values()) / len(times) if times else 1.0
        self._round_s = None if expected is None else expected.metrics.total_time_ms / 1e3
        self._label = f"{label}: " if label else ""
        self.line: Line = Line(stream or sys.stderr) if beside is None else beside.line
        self._log: RunLog
        #: The number of rounds, warm-up and the allocation round included; None if not known.
        self._rounds: int | None = None
        #: The round: its number from 1 on, how many tasks it has, their work, and what is done.
        self._round, self._seen, self._whole, self._worked = 0, 0, 0.0, 0.0
        #: The work of each task of the round that is still to be done.
        self._left: dict[str, float] = {}
        #: Each running task and when it began.
        self._running: dict[str, float] = {}
        self._began_s = 0.0
        #: Share of the whole run that earlier attempts had done.
        self._first: float | None = None

    def run_started(self, run: RunInfo) -> None:
        """Keep the log of the run, which says how far it is."""
        self._log, self._began_s = run.log, perf_counter()
        setup, conditions = run.log.setup, run.log.conditions
        if isinstance(conditions.n, int):
            self._rounds = conditions.n + (conditions.warmup or 0) + setup.allocation

    def task_started(self, task: str) -> None:
        """Count the task among those that run."""
        self._look()
        self._running[task] = perf_counter()
        self.line.draw(self)

    def task_finished(self, record: TaskRecord) -> None:
        """Count the task as done."""
        self._look()
        self._running.pop(record.task, None)
        self._worked += self._left.pop(record.task, 0.0)
        self.line.draw(self)

    task_failed = task_finished

    def run_finished(self, profile: Profile) -> None:
        """Remove the line, before anything else is printed."""
        self.close()

    def close(self) -> None:
        """Remove the line."""
        self.line.close()

    def _look(self) -> None:
        """Update to a new round, and to tasks that were added to the graph."""
        rounds, names = self._log.rounds, self._log.wiring.names
        if len(rounds) != self._round:
            self._round, self._seen, self._whole, self._worked = len(rounds), 0, 0.0, 0.0
            self._left, self._running = {}, {}
        for i in range(self._seen, len(names)):
            work = self._expected.get(names[i], self._typical)
            self._whole += work
            # A previous attempt at this run may have finished it.
            if rounds[-1].succeeded(i):
                self._worked += work
            else:
                self._left[names[i]] = work
        self._seen = len(names)
        if self._first is None:
            self._first = self._share() or 0.0

    def _share(self) -> float | None:
        """Return the share of the run that is done, 0 to 1; None if its end is not known."""
        if self._rounds is None:
            return None
        here = self._worked / self._whole if self._whole else 1.0
        return min(1.0, (self._round - 1 + here) / self._rounds)

    def _left_s(self, share: float | None, elapsed_s: float) -> float | None:
        """Return the estimated time to the end, in seconds; None if it is not known."""
        if share is None or self._rounds is None or self._first is None:
            return None
        if share - self._first > _ENOUGH:
            return elapsed_s * (1 - share) / (share - self._first)
        return None if self._round_s is None else self._round_s * self._rounds * (1 - share)

    def text(self) -> str:
        """Return what the line shows, the most important first."""
        share, now_s = self._share(), perf_counter()
        elapsed_s = now_s - self._began_s
        left_s = self._left_s(share, elapsed_s)
        bar = "" if share is None else f"[{('#' * int(_BAR * share)).ljust(_BAR, '.')}] "
        parts = [f"{bar}{self._label}{self._seen - len(self._left):,} of {self._seen:,} tasks"]
        if self._rounds != 1:
            parts.append(f"round {self._round}" + (f" of {self._rounds}" if self._rounds else ""))
        parts.append(_clock(elapsed_s) + ("" if left_s is None else f", {_clock(left_s)} left"))
        # A thread of rich reads what the run changes.
        running = list(self._running.items())
        if running:
            name, began_s = running[0]
            more = f" and {len(running) - 1} more" if len(running) > 1 else ""
            parts.append(f"{printable(name)} for {_clock(now_s - began_s)}{more}")
        return " | ".join(parts)


def _clock(seconds: float) -> str:
    """Return a duration in seconds, from a minute on as hours, minutes and seconds."""
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))


class Line:
    """The line of one run, or of several that take turns."""

    def __init__(self, stream: IO[str] | None) -> None:
        self._stream = stream
        self._progress: Progress | None = None
        self._live: Live | None = None
        self._printed_s = perf_counter()

    def draw(self, progress: Progress) -> None:
        """Show this run from now on."""
        begins, self._progress = self._progress is None, progress
        # A closed terminal must not end the run.
        with suppress(OSError, ValueError):
            if begins:
                self._live = _live_on(self._stream, self._text)
            if self._live is None and perf_counter() - self._printed_s >= _PAUSE_S:
                self._printed_s = perf_counter()
                print(progress.text(), file=self._stream, flush=True)

    def close(self) -> None:
        """Remove the line, until a run is shown again."""
        live, self._live, self._progress = self._live, None, None
        if live is not None:
            with suppress(OSError, ValueError):
                live.stop()

    def _text(self) -> str:
        progress = self._progress
        return "" if progress is None else progress.text()


def _live_on(stream: IO[str] | None, text: Callable[[], str]) -> Live | None:
    """Return a line at the end of a terminal; None if it is none, or rich is not installed."""
    if stream is None or not stream.isatty() or os.environ.get("TERM") == "dumb":
        return None
    try:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text
    except ImportError:
        return None

    def line() -> Text:
        return Text(text(), no_wrap=True, overflow="ellipsis", end="")

    streams: list[Any] = [sys.stdout, sys.stderr]
    # What goes to a file is not in the way of the line.
    stdout, stderr = (shown is not None and shown.isatty() for shown in streams)
    live = Live(
        console=Console(file=stream),
        get_renderable=line,
        transient=True,
        redirect_stdout=stdout,
        redirect_stderr=stderr,
    )
    live.start(refresh=True)
    return live
