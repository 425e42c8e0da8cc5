"""The command line: ``dagprofiler``, also ``python -m dagprofiler``.

The modules of a command are imported when it runs. Its function returns an exit code, or nothing
if that is 0.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from dagprofiler._util.files import occupy_standard_streams
from dagprofiler.cli._parser import BROKEN_PIPE, INTERRUPTED, parse
from dagprofiler.cli._signals import ENDING
from dagprofiler.errors import DagProfilerWarning

__all__ = ["entry", "main"]


def entry() -> None:
    """Run the command of this process, and end it with the command's exit code."""
    warnings.showwarning = _warning_line
    occupy_standard_streams()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        # Daemons may have closed it.
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))
    ENDING.install()
    code = main()
    code = ENDING.exit_code or code
    if ENDING.exit_code or code == INTERRUPTED:
        import signal
        import threading

        # Python removes handlers before it ends; another signal would decide the exit code.
        ENDING.leave_to(signal.SIG_IGN)
        if any(not thread.daemon for thread in threading.enumerate()[1:]):
            # Threads cannot be ended, and Python would wait for them.
            os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; docs/cli.md lists them.

    Parameters
    ----------
    argv
        The arguments, without the program's name; by default those of this process.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments = parse(words)
        from importlib import import_module

        module, name = import_module(arguments.module), arguments.command
        code: int = getattr(module, "import_" if name == "import" else name)(arguments) or 0
    except BrokenPipeError:
        # The reader of the pipe has closed it.
        code = BROKEN_PIPE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  (each is shown as one line)
        from dagprofiler.cli._output import error_line, exit_code_of, message_of

        if "--debug" in words:
            import traceback

            traceback.print_exc()
        error_line(message_of(error))
        code = exit_code_of(error)
    else:
        return code
    try:
        sys.stdout.flush()
    except OSError:
        # Python would write it again at exit, and report the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code


def _warning_line(
    message: Warning | str, category: type[Warning], *_: object, **__: object
) -> None:
    """Show a warning as one line, without the class for those of dagprofiler."""
    from dagprofiler.cli._output import error_line

    name = "" if issubclass(category, DagProfilerWarning) else f"{category.__name__}: "
    error_line(f"warning: {name}{message}")
