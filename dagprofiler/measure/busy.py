"""Other cores kept busy while something is measured, as they are in a parallel run."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from dagprofiler.errors import DagProfilerError, GraphError, ValidationError, short_repr

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from subprocess import Popen


#: What a burner runs; its argument is the core to stay on, or "-" for any.
#:
#: It ends when its input ends, which the system closes whatever becomes of the process that
#: holds the other end; where a forked child holds that too, by having another parent.
#: Ctrl-C reaches all processes of a terminal: whether to stop is for the other one to decide.
_BURN = """
import _signal, _thread, os, sys
_signal.signal(_signal.SIGINT, _signal.SIG_IGN)
def end_with_input():
    os.read(0, 1)
    os._exit(0)
parent = os.getppid()
if sys.argv[1] != "-":
    os.sched_setaffinity(0, [int(sys.argv[1])])
_thread.start_new_thread(end_with_input, ())
os.write(1, b"burning\\n")
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""


#: Held while cores are kept busy: what is pinned is the process, which has but one affinity.
_alone = threading.Lock()


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keep some other cores busy while the body runs.

    Parameters
    ----------
    cores
        How many, from 0 (does nothing) to one less than this process may use.

    Raises
    ------
    ValidationError
        If `cores` is out of range.
    DagProfilerError
        If a burner could not be kept to its core, another body of this process
        keeps cores busy already, or it is not known where Python is.
    OSError
        If a burner could not be started or this process not be pinned.

    Notes
    -----
    Each core is kept busy by a process of its own that computes and touches
    next to no memory. On Linux it is pinned to that core, and all threads of
    this process are pinned to the remaining ones until the body ends, with all
    processes that they start; a process that outlives the body stays pinned.
    Elsewhere nothing is pinned, and the system places the processes. They all
    end with the body, however it ends, and with this process, even if it is
    killed.

    Examples
    --------
    >>> with busy(0):
    ...     sum(range(10))
    45
    """
    if not cores:
        yield
        return
    with ExitStack() as ends:
        if not _alone.acquire(blocking=False):
            raise DagProfilerError(
                f"busy_cores={short_repr(cores)}: another run of this process keeps cores "
                "busy, and the two "
                "would disturb each other"
            )
        ends.callback(_alone.release)
        usable = _usable_cores()
        _check(cores, len(usable))
        left, taken = usable[:-cores], usable[-cores:]
        # All are started before the first is waited for.
        burners = [ends.enter_context(_burner(core)) for core in taken]
        for burner in burners:
            _wait_until_burning(burner)
        if _can_pin():
            ends.enter_context(_pinned(left))
        yield


def _can_pin() -> bool:
    return hasattr(os, "sched_setaffinity") and os.path.isdir("/proc/self/task")


def _usable_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if _can_pin() else [*range(os.cpu_count() or 1)]


def _check(cores: int, usable: int) -> None:
    if cores < 0:
        problem = "expected a number of cores, at least 0"
    elif cores >= usable:
        # At least one core is usable, so that 0 never comes here.
        may_use = "1 core" if usable == 1 else f"{usable} cores"
        problem = f"this process may use {may_use}, and one must be left to measure on"
    else:
        return
    raise ValidationError([GraphError(f"busy_cores={short_repr(cores)}: {problem}")])


@contextmanager
def _burner(core: int) -> Iterator[Popen[bytes]]:
    from subprocess import PIPE, STDOUT, Popen

    if not sys.executable:
        raise DagProfilerError("busy_cores: no path of this Python is known")
    place = str(core) if _can_pin() else "-"
    command = [sys.executable, "-I", "-S", "-c", _BURN, place]
    with Popen(command, stdin=PIPE, stdout=PIPE, stderr=STDOUT) as burner:  # noqa: S603  (our own)
        try:
            yield burner
        finally:
            # A forked child may hold the input open, so that closing it would not do.
            burner.kill()


def _wait_until_burning(burner: Popen[bytes]) -> None:
    lines = iter(burner.stdout or ())
    said = next(lines, b"")
    if said != b"burning\n":
        *_, last = said, *lines
        why = last.decode(errors="replace").strip() or "the process ended without a word"
        raise DagProfilerError(f"busy_cores: no core can be kept busy: {why}")


@contextmanager
def _pinned(cores: Sequence[int]) -> Iterator[None]:
    """Keep every thread of this process to `cores` while the body runs."""
    own = os.sched_getaffinity(0)
    before: dict[int, set[int]] = {}
    try:
        for thread in _threads():
            with suppress(ProcessLookupError):  # it may end at any moment
                before[thread] = os.sched_getaffinity(thread)
                os.sched_setaffinity(thread, cores)
        yield
    finally:
        # Threads that the body started have inherited its cores.
        for thread in _threads():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, before.get(thread, own))


def _threads() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/task")]
