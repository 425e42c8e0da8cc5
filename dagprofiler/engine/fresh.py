"""FreshRounds: each round of a run in a new process.

The process is one of multiprocessing's "spawn", which imports the modules of this one and its main
program. The DAG and the results travel by a pipe, so that the standard streams remain the user's.
Python's resource tracker, which starts with the first such process, ends with this one.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from dagprofiler.errors import DagProfilerError, SerializationError, explained, portable
from dagprofiler.executors.worker import at_interrupt, end_process, end_with, received, spawned

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from dagprofiler.engine.log import RoundResult

_WHERE = "Rounds(fresh_process=True)"
_HINT = (
    "define its tasks in a module or a program file, and start under if __name__ == '__main__':, "
    "since each new process imports the program"
)


class FreshRounds:
    """Runs each round in a new process, which ends with its round.

    Parameters
    ----------
    run_once
        Runs a round and returns what it leaves behind; sent to the process by pickle.

    Raises
    ------
    SerializationError
        If the DAG cannot be pickled.
    """

    def __init__(self, run_once: Callable[[], RoundResult]) -> None:
        words = f"{_WHERE}: the DAG cannot travel to a new process"
        hint = "; define its tasks and its config in a module"
        with explained(SerializationError, words, hint):
            self._request = pickle.dumps(run_once)

    def run(self) -> RoundResult:
        """Run a round in a new process, and end that process.

        Raises
        ------
        DagProfilerError
            If the process ended without a result, or could not create the DAG.
        """
        process, connection = spawned(_serve, self._request)
        why = f"and cannot make the DAG; {_HINT}"
        try:
            # Its first message: it has imported the program.
            received(process, connection)
            why = "before its round did: a task ended it, or the system for lack of memory"
            answer: RoundResult | BaseException = pickle.loads(received(process, connection))
            process.join()
        except (EOFError, OSError) as error:
            process.join()
            ended = f"the new process ended with code {process.exitcode}"
            raise DagProfilerError(f"{_WHERE}: {ended} {why}") from error
        finally:
            end_process(process, connection)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def _serve(connection: Connection, parent: int, request: bytes) -> None:
    """Run the round of `request`, with nothing on standard input."""
    from multiprocessing import current_process

    end_with(parent)
    # Ctrl-C reaches this process too, and ends it without a message: the driver reports it.
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    at_interrupt(signal.SIG_IGN if ignored else signal.SIG_DFL)
    # Tasks may start processes, which daemons may not.
    current_process().daemon = False
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    connection.send_bytes(b"")
    try:
        answer = _answer(request)
    except BaseException as error:  # noqa: BLE001  (the waiting process raises it)
        answer = pickle.dumps(portable(error), pickle.HIGHEST_PROTOCOL)
    connection.send_bytes(answer)


def _answer(request: bytes) -> bytes:
    """Run the round of `request`; return its result, pickled."""
    words = f"{_WHERE}: the new process cannot make the DAG"
    with explained(DagProfilerError, words, f"; {_HINT}"):
        run_once: Callable[[], RoundResult] = pickle.loads(request)
    result = run_once()
    errors, rule_failures = result.results.errors, result.results.rule_failures
    errors.update({task: portable(error) for task, error in errors.items()})
    rule_failures.update({rule: portable(error) for rule, error in rule_failures.items()})
    outputs = "the outputs of the sinks, or of what is to be kept,"
    with explained(SerializationError, f"{_WHERE}: {outputs} cannot travel back by pickle"):
        return pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
