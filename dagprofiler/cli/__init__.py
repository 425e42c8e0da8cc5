"""The command line: ``dagprofiler``, also ``python -m dagprofiler``.

The modules of a command are imported when it runs.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

from dagprofiler.cli._parser import FAILED, CommandError, parse
from dagprofiler.errors import DagProfilerWarning, RunError

__all__ = ["entry", "main"]

#: The module of each command; in it the command is a function.
_COMMANDS = {
    **dict.fromkeys(("run", "resume"), "_run"),
    **dict.fromkeys(("show", "report", "export", "import", "validate", "completion"), "_convert"),
    **dict.fromkeys(("sweep", "fit", "predict", "simulate"), "_predict"),
    "compare": "_compare",
}

#: Exit codes, by shell convention, after SIGINT, SIGPIPE and SIGTERM.
INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; it ends a command as Ctrl-C does."""


def entry() -> None:
    """Run the command of this process, and end it with the command's exit code."""
    warnings.showwarning = _warning_line
    _raise_at_sigterm()
    code = main()
    if code == TERMINATED:
        import signal

        # Python removes handlers before it ends; a second SIGTERM would decide the exit code.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if code in (INTERRUPTED, TERMINATED):
        import threading

        if any(not thread.daemon for thread in threading.enumerate()[1:]):
            # Threads cannot be ended, and Python would wait for them.
            os._exit(code)
    sys.exit(code)


def _raise_at_sigterm() -> None:
    """Make SIGTERM raise :class:`Terminated`, unless it is ignored."""
    import signal

    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def end(*_: Any) -> None:
        # Some senders, such as timeout(1), send it twice; saving must not be interrupted.
        signal.signal(signal.SIGTERM, lambda *_: None)
        raise Terminated("terminated")

    signal.signal(signal.SIGTERM, end)
    if hasattr(os, "register_at_fork"):
        # A forked worker has nothing to save.
        default = partial(signal.signal, signal.SIGTERM, signal.SIG_DFL)
        os.register_at_fork(after_in_child=default)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; docs/cli.md lists them.

    Parameters
    ----------
    argv
        The arguments, without the program's name; by default those of this process.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        arguments = parse(words)
        from importlib import import_module

        name = arguments.command
        module = import_module(f"dagprofiler.cli.{_COMMANDS[name]}")
        code: int = getattr(module, "import_" if name == "import" else name)(arguments)
    except KeyboardInterrupt as interrupt:
        _say(debug, str(interrupt) or "interrupted")
        return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has closed it.
        _discard_stdout()
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  (every error is shown as one line)
        from dagprofiler.cli._output import message_of

        _say(debug, message_of(error))
        _discard_stdout()
        failed = isinstance(error, RunError) and error.task is not None
        return FAILED if failed else getattr(error, "exit_code", CommandError.exit_code)
    return code


def _discard_stdout() -> None:
    """Discard unwritten output, for which Python would report an error again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _warning_line(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Show a warning as one line, without the class for those of dagprofiler."""
    from dagprofiler.cli._output import error_line

    name = "" if issubclass(category, DagProfilerWarning) else f"{category.__name__}: "
    error_line(f"warning: {name}{message}")


def _say(debug: bool, message: str) -> None:  # noqa: FBT001  (one caller)
    from dagprofiler.cli._output import error_line

    if debug:
        import traceback

        traceback.print_exc()
    error_line(message)
