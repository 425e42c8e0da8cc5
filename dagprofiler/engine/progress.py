"""Progress: a hook that shows how far a run is."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from shutil import get_terminal_size
from time import perf_counter
from typing import IO, Any

from dagprofiler._document import ProfileData
from dagprofiler._document.rounds import ALLOCATION, MEASURED
from dagprofiler._document.table import default_times
from dagprofiler._util.interpreter import imported
from dagprofiler._util.text import printable
from dagprofiler.engine.hooks import Hook, RunInfo
from dagprofiler.engine.log import RunLog, TaskRecord
from dagprofiler.profile import Profile

#: Seconds between two drawings, and between two lines where there is no terminal.
_REDRAW_S, _PLAIN_S = 0.25, 10.0

#: Width of the bar, in characters; share of the work from which the rest is estimated.
_BAR, _ENOUGH = 12, 0.05


class Progress(Hook):
    """Shows how far a run is, on one line of a terminal or as a bar in a notebook.

    Tasks done of all, the round, elapsed and remaining time, which tasks run and for how long.
    What tasks print appears above the line. Elsewhere, as in a log, there is a line every 10 s.

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
    A thread draws four times a second. In a terminal it used 0.18 ms of CPU time for each drawing
    (median, beside one task that computed). It runs only where there is a terminal or a notebook.
    Without this hook a run does nothing of this.

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
        self._typical = sum(self._expected.values()) / len(times) or 1.0 if times else 1.0
        total_ms = None if expected is None else expected.metrics.total_time_ms
        self._round_s = None if total_ms is None else total_ms / 1e3
        self._label = f"{label}: " if label else ""
        self.line: Line = _line_of(stream) if beside is None else beside.line
        self._log: RunLog | None = None
        #: The round that is under way, its number of tasks, and the work of all and of those done.
        self._round, self._seen, self._whole, self._worked = -1, 0, 0.0, 0.0
        self._done: set[str] = set()
        #: Each running task and when it began.
        self._running: dict[str, float] = {}
        self._began_s = perf_counter()
        #: Shares of the whole run that earlier attempts had done.
        self._first = 0.0

    def run_started(self, run: RunInfo) -> None:
        """Keep the log of the run, which says how far it is."""
        self._log, self._began_s = run.log, perf_counter()

    def task_started(self, task: str) -> None:
        """Count the task among those that run."""
        self._look()
        self._running[task] = perf_counter()
        self.line.draw(self)

    def task_finished(self, record: TaskRecord) -> None:
        """Count the task as done."""
        self._look()
        self._running.pop(record.task, None)
        self._finish(record.task)
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
        log: Any = self._log
        number, names = len(log.rounds) - 1, log.wiring.names
        is_first, is_new = self._round < 0, number != self._round
        if is_new:
            self._round, self._seen, self._whole, self._worked = number, 0, 0.0, 0.0
            self._done.clear()
            self._running.clear()
        if len(names) > self._seen:
            new, self._seen = names[self._seen :], len(names)
            self._whole += sum(self._expected.get(name, self._typical) for name in new)
        if is_new:
            # Those that a previous attempt at this run has finished.
            for name, ended_s in zip(names, log.rounds[-1].ends):
                if ended_s is not None:
                    self._finish(name)
        if is_first:
            self._first = self.share() or 0.0

    def _finish(self, task: str) -> None:
        if task not in self._done:
            self._done.add(task)
            self._worked += self._expected.get(task, self._typical)

    def share(self) -> float | None:
        """Return the share of the run that is done, 0 to 1; None if its end is not known."""
        if self._log is None:
            return 0.0
        conditions: Any = self._log.conditions
        if not isinstance(conditions.n, int):
            return None
        here = self._worked / self._whole if self._whole else 1.0
        rounds: int = conditions.n + (conditions.warmup or 0)
        return min(1.0, (max(self._round, 0) + here) / max(rounds, self._round + 1, 1))

    def _left_s(self, share: float | None, elapsed_s: float) -> float | None:
        """Return the estimated time to the end, in seconds; None if it is not known."""
        if share is None or self._log is None:
            return None
        here = share - self._first
        if here > _ENOUGH:
            return elapsed_s * (1 - share) / here
        if self._round_s is None:
            return None
        conditions: Any = self._log.conditions
        whole_s: float = self._round_s * (conditions.n + (conditions.warmup or 0))
        return whole_s * (1 - share)

    def parts(self) -> Iterator[str]:
        """Yield what is shown, the most important first."""
        elapsed_s, share = perf_counter() - self._began_s, self.share()
        yield f"{self._label}{len(self._done):,} of {self._seen:,} tasks"
        where = self._where()
        if where:
            yield where
        left_s = self._left_s(share, elapsed_s)
        left = "" if left_s is None else f", {clock(left_s)} left"
        yield f"{clock(elapsed_s)}{left}"
        running = list(self._running.items())
        if running:
            name, began_s = running[0]
            more = f" and {len(running) - 1} more" if len(running) > 1 else ""
            yield f"{printable(name)} for {clock(perf_counter() - began_s)}{more}"

    def _where(self) -> str:
        """Return the number of the round; nothing for the only one."""
        log: Any = self._log
        if log is None or not log.rounds:
            return ""
        kinds, conditions = [round_log.kind for round_log in log.rounds], log.conditions
        if kinds[-1] == ALLOCATION:
            return "counting allocations"
        if kinds[-1] != MEASURED:
            return f"warm-up {len(kinds)} of {conditions.warmup}"
        count = kinds.count(MEASURED)
        if not isinstance(conditions.n, int):
            return f"round {count}"
        return f"round {count} of {conditions.n}" if conditions.n > 1 else ""


def clock(seconds: float) -> str:
    """Return a duration as people read it.

    Examples
    --------
    >>> clock(3.21), clock(65), clock(7322)
    ('3.2 s', '1:05', '2:02:02')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def text(progress: Progress, width: int) -> str:
    """Return the line, which drops its bar and then its end to fit the width."""
    words, share = " | ".join(progress.parts()), progress.share()
    if share is None or len(words) + _BAR + 3 > width:
        return words[:width]
    return f"[{('#' * int(_BAR * share)).ljust(_BAR, '.')}] {words}"


class Line:
    """The line on which runs are shown that take turns; here one where nobody looks.

    It is written at most every `pause_s` seconds.
    """

    pause_s = _PLAIN_S

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self._progress: Progress | None = None
        self._drawn_s = perf_counter()
        self._lock = threading.RLock()

    def draw(self, progress: Progress | None = None) -> None:
        """Draw a run, by default the last one that was drawn, unless that was just now."""
        now_s = perf_counter()
        if progress is not None:
            if self._progress is None:
                self.begin()
            self._progress = progress
        if now_s - self._drawn_s >= self.pause_s:
            with self._lock:
                if self._progress is not None:
                    self._drawn_s = now_s
                    self.show(self._progress)

    def close(self) -> None:
        """Remove what is shown, until a run is drawn again."""
        with self._lock:
            if self._progress is not None:
                self._progress = None
                self.end()

    def begin(self) -> None:
        """Prepare to show."""

    def show(self, progress: Progress) -> None:
        """Show a run now."""
        with suppress(OSError, ValueError):
            print(text(progress, 1000), file=self.stream, flush=True)

    def end(self) -> None:
        """Remove what is shown."""


class _Moving(Line):
    """A line that a thread moves while a task runs."""

    pause_s = _REDRAW_S

    def begin(self) -> None:
        self._ended = threading.Event()
        self._drawn_s = 0.0
        threading.Thread(target=self._move, daemon=True, name="dagprofiler progress").start()

    def end(self) -> None:
        self._ended.set()

    def _move(self) -> None:
        ended = self._ended
        while not ended.wait(self.pause_s):
            self.draw()


class _Terminal(_Moving):
    """The last line of a terminal; what is printed meanwhile stands above it.

    Written without rich, in which printing a line above a live one takes 0.4 ms: a task would take
    so much longer for each line that it prints. Here that takes 0.002 ms.
    """

    def begin(self) -> None:
        self._length = 0
        self._streams = sys.stdout, sys.stderr
        # Only what a terminal shows is in the way of the line.
        sys.stdout, sys.stderr = (
            _Above(stream, self) if stream is not None and stream.isatty() else stream
            for stream in self._streams
        )
        super().begin()

    def show(self, progress: Progress) -> None:
        self.write(text(progress, get_terminal_size().columns - 1))

    def write(self, line: str) -> None:
        """Overwrite the line, by carriage returns, which every terminal supports."""
        erased = "\r" * (not line)
        # A closed terminal must not end the run.
        with suppress(OSError, ValueError):
            self.stream.write(f"\r{line.ljust(self._length)}{erased}")
            self.stream.flush()
        self._length = len(line)

    def above(self, stream: IO[str], words: str) -> int:
        """Write words of a task where the line is, which comes again below them."""
        with self._lock:
            if self._length:
                self.write("")
            written = stream.write(words)
            stream.flush()
            # An unfinished line is left alone.
            self._drawn_s = 0.0 if words.endswith("\n") else perf_counter() + 1
            return written

    def end(self) -> None:
        super().end()
        if self._length:
            self.write("")
        sys.stdout, sys.stderr = self._streams


class _Above:
    """A stream of a terminal that has a progress line below it."""

    def __init__(self, stream: Any, line: _Terminal) -> None:
        self._stream, self._line = stream, line

    def write(self, words: str) -> int:
        return self._line.above(self._stream, words) if words else 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Notebook(_Moving):
    """A bar below a cell of a notebook."""

    def begin(self) -> None:
        display: Any = sys.modules["IPython"].display

        self._html: Any = display.HTML
        self._shown: Any = display.display(self._html(""), display_id=True)
        super().begin()

    def show(self, progress: Progress) -> None:
        from dagprofiler._util.html import text as escaped

        share = progress.share()
        value = "" if share is None else f' value="{share:.4f}"'
        words = escaped(" | ".join(progress.parts()))
        self._shown.update(self._html(f"<progress{value}></progress> {words}"))

    def end(self) -> None:
        super().end()
        self._shown.update(self._html(""))


def _line_of(stream: IO[str] | None) -> Line:
    """Return the line for a stream, by default for what the program writes to."""
    if stream is None and _in_notebook():
        return _Notebook(sys.stderr)
    stream = stream or sys.stderr
    is_terminal = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    return _Terminal(stream) if is_terminal else Line(stream)


def _in_notebook() -> bool:
    module = imported("IPython")
    shell = None if module is None else module.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
