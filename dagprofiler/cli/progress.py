"""Progress: a line on the terminal that says how far a run is."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import datetime, timedelta
from shutil import get_terminal_size
from time import perf_counter
from typing import IO, TYPE_CHECKING

from dagprofiler.cli.output import fitted
from dagprofiler.hooks import Hook
from dagprofiler.quantities import printable
from dagprofiler.sources import times_of_tasks

if TYPE_CHECKING:
    from dagprofiler.hooks import RunInfo
    from dagprofiler.profile import Profile
    from dagprofiler.records import RunLog, TaskRecord

__all__ = ["Progress", "progress"]

#: Drawing may take this share of the time so far, and so many seconds besides.
_SHARE, _ALLOWANCE_S = 0.05, 0.1

#: Characters of the bar.
_BAR = 12


def progress(expected: Profile | None, *, quiet: bool) -> list[Hook]:
    """Return the hook that draws progress, as a list; an empty one where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        return []
    return [Progress(expected, sys.stderr)]


class Progress(Hook):
    """Draws a line: tasks done, rounds, when it will be done, and what runs.

    It is drawn when a task starts or ends, by no thread of its own, which would take time
    from what is measured. So it has the time at which the run will be done, and no countdown.
    It is plain text: the bars of rich take a hundred times as long, more than many tasks do.

    Parameters
    ----------
    expected
        A profile that says how long it takes; without one that is known after the first round.
    stream
        A terminal.
    """

    def __init__(self, expected: Profile | None, stream: IO[str]) -> None:
        self._stream, self._length = stream, 0
        self._known = {} if expected is None else times_of_tasks(expected)
        # A task that the profile does not know counts as a typical one.
        self._typical = sum(self._known.values()) / len(self._known) if self._known else 1.0
        #: Tasks that there are in this round.
        self._weights: dict[str, float] = {}
        total_ms = None if expected is None else expected.metrics.total_time_ms
        self._round_s: float | None = None if total_ms is None else total_ms / 1e3
        self._log: RunLog
        self._rounds: int | None = None
        self._whole = self._left = 0.0
        #: The first round of this attempt, and the one that is under way.
        self._first = self._round = -1
        self._done: set[str] = set()
        self._running: dict[str, None] = {}
        self._began_s = perf_counter()
        self._drawing_s = 0.0

    def run_started(self, run: RunInfo) -> None:
        """Take what there is to do."""
        self._log = run.log
        rounds = run.asked["rounds"]
        self._rounds = None if rounds.n == "auto" else rounds.n + (rounds.warmup or 0)

    def task_started(self, task: str) -> None:
        """Draw what runs."""
        self._look()
        self._running[task] = None
        self._draw()

    def task_finished(self, record: TaskRecord) -> None:
        """Count it."""
        self._look()
        self._running.pop(record.task, None)
        self._finish(record.task)
        self._draw()

    task_failed = task_finished

    def run_finished(self, profile: Profile) -> None:  # noqa: ARG002  (as a hook has it)
        """Remove the line, so that what is said of the run begins there."""
        self.close()

    def close(self) -> None:
        """Remove the line."""
        if self._length:
            self._write("")

    def _look(self) -> None:
        """Take what has come to do: a new round, or tasks by which the graph has grown."""
        number = len(self._log.rounds) - 1
        if number != self._round:
            self._begin_round(number)
        for name in self._log.wiring.names[len(self._weights) :]:
            self._take(name)

    def _take(self, task: str) -> None:
        self._weights[task] = weight = self._known.get(task, self._typical)
        self._whole += weight
        self._left += weight

    def _begin_round(self, number: int) -> None:
        """Begin a round with what an attempt before has done of it."""
        log, now_s = self._log, perf_counter()
        if self._first < 0:
            self._first, self._began_s = number, now_s
        elif number > self._first:
            self._round_s = (now_s - self._began_s) / (number - self._first)
        self._round, self._whole, self._left = number, 0.0, 0.0
        self._done.clear()
        self._weights.clear()
        for name in log.wiring.names:
            self._take(name)
        for name, ended_s in zip(log.wiring.names, log.rounds[-1].times[5::6]):
            if ended_s is not None:
                self._finish(name)

    def _finish(self, task: str) -> None:
        if task not in self._done:
            self._done.add(task)
            self._left -= self._weights[task]

    def _draw(self) -> None:
        now_s = perf_counter()
        is_last = len(self._done) == len(self._weights)
        if self._drawing_s > _ALLOWANCE_S + _SHARE * (now_s - self._began_s) and not is_last:
            return
        self._write(fitted(self.text(), get_terminal_size().columns - 1))
        self._drawing_s += perf_counter() - now_s

    def _write(self, text: str) -> None:
        """Write over the line, by carriage returns, which every terminal knows."""
        # A terminal that is closed is no reason to end a run.
        with suppress(OSError, ValueError):
            self._stream.write(f"\r{text.ljust(self._length)}" + "\r" * (not text))
            self._stream.flush()
        self._length = len(text)

    def text(self) -> str:
        """Return the line."""
        done = 1 - self._left / self._whole if self._whole > 0 else 1.0
        if self._rounds is not None:
            done = (self._round + done) / self._rounds
        bar = ("#" * int(_BAR * min(1.0, done))).ljust(_BAR, ".")
        parts = [f"[{bar}] {len(self._done):,} of {len(self._weights):,} tasks"]
        if self._rounds != 1:
            of_how_many = "" if self._rounds is None else f" of {self._rounds}"
            parts.append(f"round {self._round + 1}{of_how_many}")
        end = self._end()
        if end is not None:
            parts.append(f"done at {end:%H:%M:%S}")
        if self._running:
            names = [printable(name) for name in list(self._running)[:3]]
            more = f" and {len(self._running) - 3} more" if len(self._running) > 3 else ""
            parts.append(f"running {', '.join(names)}{more}")
        return " | ".join(parts)

    def _end(self) -> datetime | None:
        """Return when the run will be done; None where nothing tells."""
        if self._round_s is None or self._rounds is None or self._whole <= 0:
            return None
        to_go = self._rounds - self._round - 1 + max(0.0, self._left / self._whole)
        # What a terminal shows is in the time of its place.
        return datetime.now().astimezone() + timedelta(seconds=self._round_s * max(0.0, to_go))
