"""Keeps other cores busy during a measurement, as in a parallel run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from dagprofiler.errors import DagProfilerError, counted, refused

if TYPE_CHECKING:
    from subprocess import Popen


#: Whether threads and processes can be pinned to cores.
_PINS = sys.platform == "linux"

#: What a burner runs; its argument is the core to stay on, where that can be said.
#: It ends when its input ends; the system closes that when the measuring process ends.
#: Ctrl-C reaches all processes of a terminal: the measuring process decides whether to stop.
_BURN = """
import _signal, _thread, os, sys
_signal.signal(_signal.SIGINT, _signal.SIG_IGN)
if sys.platform == "linux":
    os.sched_setaffinity(0, [int(sys.argv[1])])
def burn():
    while True:
        pass
_thread.start_new_thread(burn, ())
os.write(1, b"burning\\n")
os.read(0, 1)
os._exit(0)
"""


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keep some other cores busy while the body runs.

    Parameters
    ----------
    cores
        How many, from 1 to one less than this process may use.

    Raises
    ------
    ValidationError
        If `cores` is out of range.
    DagProfilerError
        If a burner cannot be pinned to its core; it says why on the standard error.
    OSError
        If a burner cannot be started or this process cannot be pinned.

    Notes
    -----
    Each core is kept busy by a separate process that computes and uses
    next to no memory. On Linux it is pinned to that core, and all threads of
    this process are pinned to the remaining cores until the body ends, with all
    processes that they start; afterwards all threads may use all cores, but a process that
    outlives the body stays pinned.
    Elsewhere nothing is pinned, and the system places the processes. They
    always end with the body, and with this process, even if it is killed.
    """
    usable = usable_cores()
    if cores >= len(usable):
        raise refused(
            f"busy_cores={cores}: this process may use {counted(len(usable), 'core')}, and one "
            "must be left to measure on"
        )
    burners: dict[int, Popen[bytes]] = {}
    with ExitStack() as ends:
        # Start all before waiting for the first.
        for core in usable[-cores:]:
            burners[core] = ends.enter_context(_started_burner(core))
            # Its input does not end it as long as a forked child keeps that open.
            ends.callback(burners[core].kill)
        for core, burner in burners.items():
            if burner.stdout is None or burner.stdout.readline() != b"burning\n":
                raise DagProfilerError(f"busy_cores: core {core} cannot be kept busy")
        if _PINS:
            ends.callback(_pin, usable)
            _pin(usable[:-cores])
        yield


def usable_cores() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if _PINS else [*range(os.cpu_count() or 1)]


def _started_burner(core: int) -> Popen[bytes]:
    from subprocess import PIPE, Popen

    command = [sys.executable, "-I", "-S", "-c", _BURN, str(core)]
    return Popen(command, stdin=PIPE, stdout=PIPE)  # noqa: S603  (our own)


def _pin(cores: Sequence[int]) -> None:
    """Keep every thread of this process to `cores`."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it may end at any moment
            os.sched_setaffinity(int(thread), cores)
