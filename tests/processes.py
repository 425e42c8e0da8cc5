"""Processes and open files, as Linux tells them, and limits of this process."""

import os
import re
import time
from contextlib import contextmanager, suppress


def processes():
    """Return state, parent and group of each process, by its number."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        # A process may have ended meanwhile.
        with suppress(OSError), open(f"/proc/{name}/stat", errors="replace") as file:
            state, parent, group = file.read().rpartition(")")[2].split()[:3]
            found[int(name)] = state, int(parent), int(group)
    return found


def children():
    """Return the processes that this one has started and not seen off."""
    return {pid for pid, (_, parent, _) in processes().items() if parent == os.getpid()}


def cpu_ticks(pid):
    """Return the CPU time of a process, in the kernel's ticks."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return int(stat.read().rpartition(")")[2].split()[11])


def alive_in(group):
    """Return the processes of a group that have not ended."""
    every = processes().items()
    return [pid for pid, (state, _, its) in every if its == group and state != "Z"]


def until(true, within_s=60):
    """Wait for what another process does."""
    give_up = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def limited_files(nbytes):
    """Let files grow to so many bytes, as a disk that is nearly full does."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def open_files_of_the_kernel():
    """Return those below /proc. What earlier tests left behind opens and closes others."""
    folder, found = "/proc/self/fd", []
    for fd in os.listdir(folder):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"{folder}/{fd}"))
    return sorted(path for path in found if re.fullmatch(r"/proc/.*/[a-z_]+", path))
