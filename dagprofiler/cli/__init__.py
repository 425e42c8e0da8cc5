"""The command line: ``dagprofiler``, also ``python -m dagprofiler``.

What a command needs is imported when it is the one that was asked for.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

from dagprofiler.cli.parsing import CommandError, parse
from dagprofiler.errors import DagProfilerError, DagProfilerWarning, describe

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["entry", "main"]

#: The module and the function behind each command.
_COMMANDS = {
    "run": ("running", "run"),
    "resume": ("running", "resume"),
    "show": ("showing", "show"),
    "compare": ("comparing", "compare"),
    "report": ("converting", "report"),
    "export": ("converting", "export"),
    "import": ("converting", "import_"),
    "validate": ("converting", "validate"),
    "completion": ("converting", "completion"),
}

#: What a shell says of a program that ended by SIGINT, and by SIGPIPE.
INTERRUPTED, BROKEN_PIPE = 130, 141


def entry() -> None:
    """Run the command of this process, and end it with the command's exit code."""
    warnings.showwarning = _warning_line
    code = main()
    if code == INTERRUPTED:
        import threading

        if any(not thread.daemon for thread in threading.enumerate()[1:]):
            # Tasks in threads cannot be ended, and Python would wait for them.
            os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code, which docs/cli.md explains.

    Parameters
    ----------
    argv
        The arguments, without the program's name; by default those of this process.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in given
    try:
        arguments = parse(given)
        from importlib import import_module

        module, function = _COMMANDS[arguments.command]
        code: int = getattr(import_module(f"dagprofiler.cli.{module}"), function)(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        _say(debug, str(interrupt) or "interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever reads has enough.
        _let_go_of_stdout()
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  (whatever it is, a user sees a line)
        _say(debug, _message(error))
        _let_go_of_stdout()
        return getattr(error, "exit_code", CommandError.exit_code)
    return code


def _let_go_of_stdout() -> None:
    """Drop what standard output does not take: Python would say so again when it closes it."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _message(error: Exception) -> str:
    """Return in words what went wrong, and what to do."""
    if isinstance(error, DagProfilerError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        what = f": {error.filename!r}" if error.filename is not None else ""
        return f"{error.strerror[0].lower()}{error.strerror[1:]}{what}"
    return f"{describe(error)} (--debug shows where)"


def _warning_line(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Show a warning as one line; those of dagprofiler name no class."""
    from dagprofiler.cli.output import error_line

    name = "" if issubclass(category, DagProfilerWarning) else f"{category.__name__}: "
    error_line(f"warning: {name}{message}")


def _say(debug: bool, message: str) -> None:  # noqa: FBT001  (it comes from one place)
    from dagprofiler.cli.output import error_line

    if debug:
        import traceback

        traceback.print_exc()
    error_line(message)
