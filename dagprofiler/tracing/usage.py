"""Usage: how much processor time and memory the process takes, as counters in the trace."""

from __future__ import annotations

import os
from contextlib import suppress
from time import process_time
from typing import Any

from dagprofiler.tracing.recording import COUNTER, Label

__all__ = ["Usage"]

#: Seconds between samples: processor time is counted in steps of up to 10 ms.
_SHORTEST_S = 0.01


class Usage:
    """Samples processor time and resident memory.

    Parameters
    ----------
    now
        Reading of the clock, from which on usage counts.
    """

    def __init__(self, now: float) -> None:
        self._last = now
        self._cpu_s = process_time()

    def rows(self, now: float) -> tuple[Any, ...]:
        """Return samples as they are recorded; nothing if the last ones are too fresh.

        ``cpu_usage`` is in percent of one processor, from the last sample to this one;
        ``memory_usage`` is what is resident, in kB of 1000 bytes. Where the system does not
        tell, there is none.
        """
        since = now - self._last
        if since < _SHORTEST_S:
            return ()
        cpu_s = process_time()
        percent = round(100 * (cpu_s - self._cpu_s) / since, 1)
        cpu = Label(COUNTER, "cpu_usage", "usage", {"percent": percent})
        rows: tuple[Any, ...] = (cpu, self._last, self._last)
        with suppress(OSError), open("/proc/self/statm", "rb") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            memory = Label(COUNTER, "memory_usage", "usage", {"kB": resident / 1000})
            rows += (memory, now, now)
        self._last, self._cpu_s = now, cpu_s
        return rows
