"""Progress: a line on the terminal that says how far a run is."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import datetime, timedelta
from shutil import get_terminal_size
from time import perf_counter
from typing import IO, TYPE_CHECKING, Any, Protocol

from dagprofiler.cli.output import fitted
from dagprofiler.hooks import Hook
from dagprofiler.summary import printable

if TYPE_CHECKING:
    from dagprofiler.hooks import RunInfo
    from dagprofiler.profile import Profile
    from dagprofiler.records import TaskRecord
    from dagprofiler.rounds import Rounds

__all__ = ["Progress"]

#: The line is not drawn more often than that.
_EVERY_S = 0.1


class _Line(Protocol):
    """Where the line is drawn."""

    def draw(self, done: float, text: str) -> None:
        """Draw it; `done` is a share of the run, from 0 to 1."""

    def clear(self) -> None:
        """Leave nothing of it behind."""


class Progress(Hook):
    """Draws a line: tasks done, rounds, what runs, and when it will be done.

    It is drawn when a task starts or ends, by no thread of its own, which would take time
    from what is measured. So it has the time at which the run will be done, and no countdown.

    Parameters
    ----------
    rounds
        What the run was asked for.
    expected
        A profile that says how long it takes; without one that is known after the first round.
    stream
        A terminal.
    """

    def __init__(self, rounds: Rounds, expected: Profile | None, stream: IO[str]) -> None:
        self._rounds = rounds
        self._line = _line(stream)
        self._weights = {} if expected is None else _weights(expected)
        total_ms = None if expected is None else expected.metrics.total_time_ms
        self._round_s: float | None = None if total_ms is None else total_ms / 1e3
        self._tasks = 0
        self._whole = self._left = 0.0
        self._round = 0
        self._done: set[str] = set()
        self._running: dict[str, None] = {}
        self._began_s = self._drawn_s = 0.0

    def run_started(self, run: RunInfo) -> None:
        """Take the number of tasks."""
        self._tasks = len(run.execution_order)
        weights = self._weights
        # A task that the profile does not know counts as a typical one.
        typical = sum(weights.values()) / len(weights) if weights else 1.0
        self._weights = {name: weights.get(name, typical) for name in run.execution_order}
        self._whole = self._left = sum(self._weights.values())
        self._began_s = perf_counter()

    def task_started(self, task: str) -> None:
        """Draw what runs."""
        self._running[task] = None
        self._draw()

    def task_finished(self, record: TaskRecord) -> None:
        """Count it."""
        self._running.pop(record.task, None)
        if record.round != self._round:
            self._next_round(record.round)
        if record.task not in self._done:
            self._done.add(record.task)
            self._left -= self._weights[record.task]
        self._draw()

    task_failed = task_finished

    def _next_round(self, number: int) -> None:
        self._round = number
        self._round_s = (perf_counter() - self._began_s) / number if number else self._round_s
        self._done.clear()
        self._left = self._whole

    def run_finished(self, profile: Profile) -> None:  # noqa: ARG002  (as a hook has it)
        """Remove the line, so that what is said of the run begins there."""
        self.close()

    def close(self) -> None:
        """Remove the line."""
        with suppress(OSError, ValueError):
            self._line.clear()

    def _draw(self) -> None:
        now_s = perf_counter()
        if now_s - self._drawn_s < _EVERY_S and len(self._done) < self._tasks:
            return
        self._drawn_s = now_s
        done = 1 - self._left / self._whole if self._whole > 0 else 1.0
        rounds = self._all_rounds()
        # A terminal that is closed is no reason to end a run.
        with suppress(OSError, ValueError):
            self._line.draw(done if rounds is None else (self._round + done) / rounds, self.text())

    def _all_rounds(self) -> int | None:
        rounds = self._rounds
        return None if isinstance(rounds.n, str) else rounds.n + (rounds.warmup or 0)

    def text(self) -> str:
        """Return the line."""
        rounds = self._all_rounds()
        parts = [f"{len(self._done):,} of {self._tasks:,} tasks"]
        if rounds != 1:
            parts.append(f"round {self._round + 1}{'' if rounds is None else f' of {rounds}'}")
        if self._running:
            names = [printable(name) for name in list(self._running)[:3]]
            more = f" and {len(self._running) - 3} more" if len(self._running) > 3 else ""
            parts.append(f"running {', '.join(names)}{more}")
        if self._round_s is not None and self._whole > 0 and rounds is not None:
            to_go = rounds - self._round - 1 + max(0.0, self._left / self._whole)
            end = datetime.now() + timedelta(seconds=self._round_s * to_go)  # noqa: DTZ005  (a wall clock's time is local)
            parts.append(f"done at {end:%H:%M:%S}")
        return " | ".join(parts)


def _weights(profile: Profile) -> dict[str, float]:
    """Return how long each task took, in milliseconds."""
    return {
        one.task: sum(
            ms or 0.0
            for ms in (one.compute_time_ms, one.serialize_time_ms, one.deserialize_time_ms)
        )
        for one in profile.metrics.task_metrics
    }


class _Plain:
    """A line by carriage returns, which every terminal knows."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._length = 0

    def draw(self, done: float, text: str) -> None:
        """Write over what was there."""
        shown = fitted(f"{done:4.0%} | {text}", get_terminal_size().columns - 1)
        self._stream.write(f"\r{shown.ljust(self._length)}")
        self._stream.flush()
        self._length = len(shown)

    def clear(self) -> None:
        """Write blanks over it."""
        if self._length:
            self._stream.write(f"\r{' ' * self._length}\r")
            self._stream.flush()
            self._length = 0


class _Bar:
    """A bar by rich, which draws when it is told to and has no thread."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._task: Any = None

    def draw(self, done: float, text: str) -> None:
        """Draw bar and text."""
        if self._task is None:
            self._task = self._progress.add_task("", total=1.0)
            self._progress.start()
        self._progress.update(self._task, completed=done, description=text, refresh=True)

    def clear(self) -> None:
        """Remove it, and show the cursor again."""
        if self._task is not None:
            self._task = None
            self._progress.stop()


def _line(stream: IO[str]) -> _Line:
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return _Plain(stream)
    from rich.table import Column

    text = progress.TextColumn(
        "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")
    )
    return _Bar(
        progress.Progress(
            progress.BarColumn(12),
            progress.TaskProgressColumn(),
            text,
            console=Console(file=stream),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
    )


def progress_on(rounds: Rounds, expected: Profile | None, *, quiet: bool) -> list[Hook]:
    """Return the hook that draws progress, as a list; an empty one where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        return []
    return [Progress(rounds, expected, sys.stderr)]
