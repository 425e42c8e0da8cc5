"""FreshRounds: each round of a run in a new process.

A new interpreter is started for each round, as multiprocessing's "spawn" does
it, but by subprocess: multiprocessing would leave a process of its own behind.
The DAG goes there by a pipe; what was measured comes back in a file, so that
the standard streams stay the user's.
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
    from collections.abc import Callable, Mapping

    from dagprofiler.engine.log import RoundLog


_GUARD = (
    "a program that measures in new processes has to start under if __name__ == '__main__':, "
    "since each of them imports it"
)
#: What it runs. Ctrl-C reaches it too and ends it without a word, unless it is ignored:
#: the process that waits reports it.
_SERVE = """
import _signal as s, sys
s.getsignal(s.SIGINT) == s.SIG_IGN or s.signal(s.SIGINT, s.SIG_DFL)
sys.path[:] = {path!r}
from dagprofiler.engine.fresh import serve
serve()
"""


class Taken(NamedTuple):
    """A round that a process took.

    Attributes
    ----------
    round
        What was measured.
    worker
        Who ran it, in the form of the profile's ``timeline.workers``.
    outputs
        Task number to the outputs that are wanted.
    errors
        Task number to what it failed with.
    rule_failures
        Rule to what it failed with.
    """

    round: RoundLog
    worker: dict[str, Any]
    outputs: dict[int, Mapping[str, Any]]
    errors: dict[int, BaseException]
    rule_failures: dict[str, BaseException]


class RunsAlone(Protocol):
    """A run of one round, as :class:`~dagprofiler.engine.run.Run` is one."""

    def alone(self) -> Taken:
        """Take all rounds in a process of its own; return the last one."""


class FreshRounds:
    """Takes rounds in processes, each of which is new and ends with its round.

    Parameters
    ----------
    make_run
        Returns the run of one round; travels to the process by pickle.

    Raises
    ------
    SerializationError
        If the DAG cannot travel.
    """

    def __init__(self, make_run: Callable[[], RunsAlone]) -> None:
        from multiprocessing import get_start_method, set_start_method
        from multiprocessing.spawn import get_preparation_data

        if _preparing:
            # This is such a process, and the program has no guard: it would go on for ever.
            raise DagProfilerError(f"Rounds(fresh_process=True): {_GUARD}")
        # What lets the new process find the modules of this one, and its main program.
        chosen = get_start_method(allow_none=True)
        preparation = get_preparation_data("dagprofiler")
        if chosen is None:
            # It settles the start method by asking for it, which is for the program to do.
            set_start_method(None, force=True)
            del preparation["start_method"]
        preparation["authkey"] = bytes(preparation["authkey"])
        if not os.path.exists(preparation.get("init_main_from_path", "")):
            # A program that was read from a pipe; tasks from modules can travel all the same.
            preparation.pop("init_main_from_path", None)
        try:
            self._order = pickle.dumps(preparation) + pickle.dumps(make_run)
        except Exception as error:
            raise SerializationError(
                "Rounds(fresh_process=True): the DAG cannot travel to a new process: "
                f"{describe(error)}; define its tasks and its config in a module"
            ) from error

    def take(self) -> Taken:
        """Take a round in a new process, and see that process off.

        Raises
        ------
        DagProfilerError
            If it ended without an answer, or could not make the DAG.
        """
        import subprocess
        import tempfile

        if not sys.executable:
            raise DagProfilerError("Rounds(fresh_process=True): no path of this Python is known")
        with temporary(tempfile.gettempdir()) as file:
            # What is no string is none to Python either.
            folders = [entry for entry in sys.path if isinstance(entry, str)]
            # The flags that multiprocessing hands on, too.
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
        return Taken(*answer)

    def _converse(self, process: subprocess.Popen[bytes]) -> int:
        """Tell the process what to do, and wait until it is done."""
        stdin: IO[bytes] = process.stdin  # type: ignore[assignment]
        # A process that is gone already says so by its code. The pipe stays
        # open: the process ends when this one does.
        with suppress(BrokenPipeError):
            stdin.writelines(_frame(self._order))
            stdin.flush()
        return process.wait()


def _frame(content: bytes) -> list[bytes]:
    return [len(content).to_bytes(8, "big"), content]


def _framed(stream: IO[bytes]) -> bytes | None:
    """Return the content of a frame; None if its writer ended before the end of it."""
    length = int.from_bytes(stream.read(8), "big")
    content = stream.read(length)
    return content if content and len(content) == length else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, whatever it does."""
    if process.poll() is None:
        process.kill()
    process.wait()
    with suppress(OSError):
        process.stdin.close()  # type: ignore[union-attr]


#: Whether this process is one of those, and still imports the program.
_preparing = False


def serve() -> None:
    """Take the round that standard input describes; the answer goes to the file of argument 1."""
    path = sys.argv.pop(1)
    order = _take_over_stdin()
    try:
        written = _packed(_round_of(order))
    except BaseException as error:  # noqa: BLE001  (the process that waits raises it)
        written = pickle.dumps(portable(error), pickle.HIGHEST_PROTOCOL)
    with open(path, "r+b") as file:
        file.writelines(_frame(written))


def _packed(taken: tuple[Any, ...]) -> bytes:
    try:
        return pickle.dumps(taken, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise SerializationError(
            "Rounds(fresh_process=True): the outputs of the sinks, or of what is to be kept, "
            f"cannot travel back by pickle: {describe(error)}"
        ) from error


def _round_of(order: bytes) -> tuple[Any, ...]:
    """Take a round; return the fields of a :class:`Taken`."""
    global _preparing  # noqa: PLW0603  (it is about the process)
    from multiprocessing.spawn import prepare

    stream = io.BytesIO(order)
    preparation = pickle.load(stream)
    try:
        _preparing = True
        prepare(preparation)
        make_run = pickle.load(stream)
    except DagProfilerError:
        # What the program itself does wrong, above all starting without a guard.
        raise
    except BaseException as error:  # a program without a guard may leave by sys.exit()
        raise DagProfilerError(
            f"Rounds(fresh_process=True): the new process cannot make the DAG: {describe(error)}; "
            f"define its tasks in a module or a program file ({_GUARD})"
        ) from error
    finally:
        _preparing = False
    taken = make_run().alone()
    failures: tuple[dict[Any, BaseException], ...] = taken[3:]
    return (
        *taken[:3],
        *({what: portable(error) for what, error in failed.items()} for failed in failures),
    )


def _take_over_stdin() -> bytes:
    """Return what standard input says, and from then on end with it; tasks find it empty."""
    import threading

    stdin = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    order = _framed(stdin)
    if order is None:
        # The process that started this one is gone.
        os._exit(1)

    def end_with_parent() -> None:
        stdin.read(1)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    return order
