"""FreshRounds: each round of a run in a new process.

A new interpreter starts for each round, as with multiprocessing's "spawn", but
by subprocess: multiprocessing would leave a process of its own behind. The DAG
is sent by a pipe, and the results return in a file, so that the standard
streams remain the user's.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from dagprofiler._util.files import temporary
from dagprofiler.errors import DagProfilerError, SerializationError, describe, portable

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from dagprofiler.engine.log import Results, RoundLog


_GUARD = (
    "a program that measures in new processes has to start under if __name__ == '__main__':, "
    "since each of them imports it"
)
#: The program of the new process. Ctrl-C reaches it too and ends it without a message,
#: unless it is ignored: the waiting process reports it.
_SERVE = """
import _signal as s, sys
s.getsignal(s.SIGINT) == s.SIG_IGN or s.signal(s.SIGINT, s.SIG_DFL)
sys.path[:] = {path!r}
from dagprofiler.engine.fresh import serve
serve()
"""


class Taken(NamedTuple):
    """The results of a round that another process ran.

    Attributes
    ----------
    log
        The log of the round.
    worker
        The process, in the form of the profile's ``timeline.workers``.
    results
        The outputs that are returned, and the errors.
    """

    log: RoundLog
    worker: dict[str, Any]
    results: Results


class RunsAlone(Protocol):
    """A run of one round, such as :class:`~dagprofiler.engine.run.Run`."""

    def alone(self) -> Taken:
        """Run the only round of a process of its own."""


class FreshRounds:
    """Runs each round in a new process, which ends with its round.

    Parameters
    ----------
    make_run
        Returns the run of one round; sent to the process by pickle.

    Raises
    ------
    SerializationError
        If the DAG cannot be pickled.
    """

    def __init__(self, make_run: Callable[[], RunsAlone]) -> None:
        from multiprocessing import get_start_method, set_start_method
        from multiprocessing.spawn import get_preparation_data

        if _preparing:
            # This is such a process, and the program has no guard: it would recurse without end.
            raise DagProfilerError(f"Rounds(fresh_process=True): {_GUARD}")
        # Lets the new process find the modules of this one, and its main program.
        chosen = get_start_method(allow_none=True)
        preparation = get_preparation_data("dagprofiler")
        if chosen is None:
            # The call above sets the start method, which only the program should do.
            set_start_method(None, force=True)
            del preparation["start_method"]
        preparation["authkey"] = bytes(preparation["authkey"])
        if not os.path.exists(preparation.get("init_main_from_path", "")):
            # A program that was read from a pipe; tasks from modules can still be pickled.
            preparation.pop("init_main_from_path", None)
        try:
            self._order = pickle.dumps(preparation) + pickle.dumps(make_run)
        except Exception as error:
            raise SerializationError(
                "Rounds(fresh_process=True): the DAG cannot travel to a new process: "
                f"{describe(error)}; define its tasks and its config in a module"
            ) from error

    def take(self) -> Taken:
        """Run a round in a new process, and end that process.

        Raises
        ------
        DagProfilerError
            If the process ended without a result, or could not create the DAG.
        """
        import subprocess
        import tempfile

        if not sys.executable:
            raise DagProfilerError("Rounds(fresh_process=True): no path of this Python is known")
        with temporary(tempfile.gettempdir()) as file:
            # Python ignores entries that are not strings, too.
            folders = [entry for entry in sys.path if isinstance(entry, str)]
            # The flags that multiprocessing passes on, too.
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
            process = subprocess.Popen(  # noqa: S603  (this interpreter, and code of this module)
                [sys.executable, *flags, "-c", _SERVE.format(path=folders), file.name],
                stdin=subprocess.PIPE,
            )
            try:
                code = self._converse(process)
            finally:
                _end(process)
            written = _framed(file)
        if written is None:
            raise DagProfilerError(
                f"Rounds(fresh_process=True): the new process ended with code {code} before "
                "its round did: a task ended it, or the system, as it does when memory is short"
            )
        answer = pickle.loads(written)
        if isinstance(answer, BaseException):
            raise answer
        taken: Taken = answer
        return taken

    def _converse(self, process: subprocess.Popen[bytes]) -> int:
        """Send the process its round, and wait for its end."""
        stdin: IO[bytes] = process.stdin  # type: ignore[assignment]
        # If the process has ended already, its exit code tells why. The pipe stays
        # open: the process ends when this one does.
        with suppress(BrokenPipeError):
            stdin.writelines(_frame(self._order))
            stdin.flush()
        return process.wait()


def _frame(content: bytes) -> list[bytes]:
    return [len(content).to_bytes(8, "big"), content]


def _framed(stream: IO[bytes]) -> bytes | None:
    """Return the content of a frame; None if it is incomplete."""
    length = int.from_bytes(stream.read(8), "big")
    content = stream.read(length)
    return content if content and len(content) == length else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that still runs, and wait for its end."""
    if process.poll() is None:
        process.kill()
    process.wait()
    with suppress(OSError):
        process.stdin.close()  # type: ignore[union-attr]


#: Whether this process runs a fresh round and still imports the program.
_preparing = False


def serve() -> None:
    """Run the round that standard input describes; write the result to the file of argument 1."""
    path = sys.argv.pop(1)
    order = _read_stdin()
    try:
        written = _packed(_round_of(order))
    except BaseException as error:  # noqa: BLE001  (the waiting process raises it)
        written = pickle.dumps(portable(error), pickle.HIGHEST_PROTOCOL)
    with open(path, "r+b") as file:
        file.writelines(_frame(written))


def _packed(taken: Taken) -> bytes:
    try:
        return pickle.dumps(taken, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise SerializationError(
            "Rounds(fresh_process=True): the outputs of the sinks, or of what is to be kept, "
            f"cannot travel back by pickle: {describe(error)}"
        ) from error


def _round_of(order: bytes) -> Taken:
    """Run a round."""
    global _preparing  # noqa: PLW0603  (it is about the process)
    from multiprocessing.spawn import prepare

    stream = io.BytesIO(order)
    preparation = pickle.load(stream)
    try:
        _preparing = True
        prepare(preparation)
        make_run = pickle.load(stream)
    except DagProfilerError:
        # An error of the program itself, most often the missing guard.
        raise
    except BaseException as error:  # a program without a guard may leave by sys.exit()
        raise DagProfilerError(
            f"Rounds(fresh_process=True): the new process cannot make the DAG: {describe(error)}; "
            f"define its tasks in a module or a program file ({_GUARD})"
        ) from error
    finally:
        _preparing = False
    taken: Taken = make_run().alone()
    failures: Any
    for failures in (taken.results.errors, taken.results.rule_failures):
        failures.update({what: portable(error) for what, error in failures.items()})
    return taken


def _read_stdin() -> bytes:
    """Return the content of standard input, and end when it closes; it is empty for tasks."""
    import threading

    stdin = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    order = _framed(stdin)
    if order is None:
        # The parent process has ended.
        os._exit(1)

    def end_with_parent() -> None:
        stdin.read(1)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    return order
