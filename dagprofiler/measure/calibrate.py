"""Calibration: a score of this machine's speed, to compare profiles of different machines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from math import inf, prod

from dagprofiler._document import Calibration
from dagprofiler._util.interpreter import asked_for
from dagprofiler._util.json import utc_text
from dagprofiler.stats import median

#: Scores are comparable only within one version: it changes with the kernels and times below.
KERNEL_VERSION = 1

#: CPU time of each kernel on the reference machine, in milliseconds.
#:
#: The reference has the round figures nearest to an AMD EPYC virtual processor at 2.6 GHz with
#: CPython 3.11 and numpy 2: pure Python at 10 million loop steps a second, matrix products at
#: 42 GFLOP/s on one core, copies at 42 GB/s (each byte counted once).
REFERENCE_MS = {"python": 3.0, "matrix": 2.5, "memory": 3.0}

#: Repeats of all kernels in turns. The interval from the second smallest to the second largest
#: of nine values covers their median with 96 % confidence.
_REPEATS = 9

#: The latest calibration of this process, after its moment by the monotonic clock; else empty.
_latest: list[tuple[float, Calibration]] = []


def calibrate(*, again: bool = False) -> Calibration:
    """Return the speed of this machine, relative to the reference machine.

    Parameters
    ----------
    again
        Whether to measure again if this process already has a calibration.

    Returns
    -------
    Calibration
        The earlier calibration of this process, unless `again` is set.

    Notes
    -----
    Takes about 0.1 s, 5 MiB of memory while it runs, and loads numpy. All
    kernels run in turns, once unmeasured and then nine times. A part is the
    reference time divided by the median time; the spread is the
    order-statistic interval of the scores of the nine rounds, so it does not
    cover the variation between processes or over minutes.

    Times are CPU times of the calling thread, so waiting for a processor that
    other programs use does not count; contention for shared caches and memory,
    and a processor that slows down under load, do count. The matrices have 64
    rows, which OpenBLAS always multiplies in the calling thread.

    The score includes the interpreter, since tasks run in it too: a newer
    Python raises it, a debugger or a coverage tool lowers it.

    Examples
    --------
    >>> calibration = calibrate()
    >>> calibration is calibrate(), list(calibration.parts)
    (True, ['python', 'matrix', 'memory'])
    """
    calibration = calibration_of_process(again=again)
    asked_for[:] = [calibration]
    return calibration


def calibration_of_process(*, again: bool = False, oldest_s: float = inf) -> Calibration:
    """Return the calibration of this process, without marking it as requested by the program.

    Parameters
    ----------
    again
        Whether to measure in any case.
    oldest_s
        The age from which on to measure again, in seconds: a machine's speed changes.
    """
    if again or not _latest or time.monotonic() - _latest[0][0] >= oldest_s:
        works = kernels()
        rounds = [{name: _time_ms(works[name]) for name in works} for _ in range(_REPEATS + 1)]
        # The first round finds caches and page tables empty.
        _latest[:] = [(time.monotonic(), _judged(rounds[1:]))]
    return _latest[0][1]


def _judged(rounds: list[dict[str, float]]) -> Calibration:
    """Return the calibration for the time of each kernel in each round, in milliseconds."""
    speeds = [{name: REFERENCE_MS[name] / ms for name, ms in times.items()} for times in rounds]
    parts = {name: median([speed[name] for speed in speeds]) for name in REFERENCE_MS}
    score = _geometric_mean(parts)
    scores = sorted(_geometric_mean(speed) for speed in speeds)
    return Calibration(
        score=score,
        parts=parts,
        spread=(scores[-2] - scores[1]) / 2 / score,
        kernel_version=KERNEL_VERSION,
        taken_at=utc_text(),
    )


def _geometric_mean(parts: Mapping[str, float]) -> float:
    return float(prod(parts.values()) ** (1 / len(parts)))


#: The clock of kernels: CPU time of the thread, which Windows counts in steps of 16 ms only.
kernel_clock_ns = time.perf_counter_ns if sys.platform == "win32" else time.thread_time_ns


def _time_ms(work: Callable[[], object]) -> float:
    start_ns = kernel_clock_ns()
    work()
    return (kernel_clock_ns() - start_ns) / 1e6


def kernels() -> dict[str, Callable[[], object]]:
    """Return the kernels by name: each a function that does a fixed amount of work."""
    import numpy

    # Small enough for a core's own cache, and for OpenBLAS to stay in the calling thread.
    matrices = numpy.full((8, 64, 64), 0.5)
    products = numpy.empty_like(matrices)
    # Beyond a core's own cache on most machines. Larger ones measure the neighbours: copies
    # of 32 MiB differed by 15 to 70 % between processes, those of 2 MiB by 3 %.
    source = numpy.ones(2**18)
    copy = numpy.ones_like(source)

    def multiply() -> None:
        for _ in range(25):
            numpy.matmul(matrices, matrices[0], out=products)

    def move() -> None:
        for _ in range(60):
            numpy.copyto(copy, source)

    return {"python": partial(interpret, 30_000), "matrix": multiply, "memory": move}


def interpret(steps: int) -> int:
    """Run typical interpreted code: arithmetic, dictionaries, short strings, calls."""
    seen: dict[int, int] = {}
    total = 0
    for i in range(steps):
        seen[i & 255] = total
        total += len(str(i)) + i % 7
    return total
