"""What the system says of this machine, this process and its threads."""

from __future__ import annotations

import os
import sys
from time import sleep

__all__ = ["boot", "hostname", "started_by_multiprocessing", "wait_for_end"]


def wait_for_end(thread: int) -> None:
    """Wait, a tenth of a second at most, until the system has no more of a thread that is done.

    At a fork, Python 3.12 and later count threads as the system does, and warn of more than one.
    """
    for _ in range(1000):
        if not os.path.exists(f"/proc/self/task/{thread}"):
            break
        sleep(0.0001)


def hostname() -> str:
    """Return the name of this machine."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import platform

    return platform.node() or "unknown"


def boot() -> str | None:
    """Return what tells this start of this machine from all others; None if unknown.

    Between processes that have it in common, the clock is the same.
    """
    try:
        # No codec that is yet to be imported: a signal's handler may come here amid the import.
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return None


def started_by_multiprocessing() -> bool:
    """Say whether this process is one of multiprocessing's."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None
