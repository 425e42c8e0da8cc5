"""The processes that there are, as Linux tells it."""

import os
from contextlib import suppress


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
