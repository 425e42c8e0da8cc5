"""The one way in which signals end a command: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Literal

#: Signals to what is said of the command that they end.
_WORDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "hung up"}

#: How long further signals change nothing, in seconds: make, uv and timeout(1) send a second one.
_ONE_REQUEST_S = 1.0

#: What a signal would interrupt.
Phase = Literal["none", "measuring", "saving"]

_STOPPING = "dagprofiler: stopping; saving what was measured, Ctrl-C again to give up"


class Ending:
    """Ends a command in order at the first signal, and at once at a later one.

    Attributes
    ----------
    exit_code
        That of the command by shell convention, once a signal has come; 0 before.
    gave_up
        Whether a later signal has ended the saving.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        self.gave_up = False
        self._first_s = 0.0
        self._phase: Phase = "none"
        self._numbers: list[int] = []

    def install(self) -> None:
        """Handle the signals of this process that are not ignored, as with nohup."""
        for name in _WORDS:
            number = getattr(signal, name, None)
            if number and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, self._arrived)
                self._numbers.append(number)
        if hasattr(os, "register_at_fork"):
            # A forked worker has nothing to save.
            os.register_at_fork(after_in_child=partial(self.leave_to, signal.SIG_DFL))

    def leave_to(self, handler: signal.Handlers) -> None:
        """Let something else handle the signals from now on."""
        for number in self._numbers:
            signal.signal(number, handler)

    def _arrived(self, number: int, _: object) -> None:
        now_s, is_first = monotonic(), not self.exit_code
        if is_first:
            self.exit_code, self._first_s = 128 + number, now_s
            if self._phase != "none":
                _say_at_once(_STOPPING)
            if self._phase == "saving":
                return
        elif now_s - self._first_s < _ONE_REQUEST_S:
            return
        self.gave_up = not is_first
        raise KeyboardInterrupt(_WORDS[signal.Signals(number).name])

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """Say at the first signal that what was measured will be saved.

        Where the block saves it, the first signal lets it go on; a later one ends it, and those
        that follow.
        """
        if phase == "saving" and self.gave_up:
            raise KeyboardInterrupt
        before, self._phase = self._phase, phase
        try:
            yield
        finally:
            self._phase = before


def _say_at_once(words: str) -> None:
    """Write a line to standard error, which a stream may not do inside a handler."""
    with suppress(OSError):
        if os.isatty(2):
            # Over the line that shows progress, and the ^C.
            words = f"\r{words.ljust(os.get_terminal_size(2).columns - 1)}"
        os.write(2, f"{words}\n".encode())


#: That of this process; it does nothing until :meth:`Ending.install`.
ENDING = Ending()
