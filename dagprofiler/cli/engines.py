"""Executors as a command line names them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dagprofiler.cli.parsing import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["executor_named"]

_KNOWN = "serial, threads:4, processes:4, dask, dask:ADDRESS, ray, ray:ADDRESS, or file.py:executor"


@contextmanager
def executor_named(spec: str | None, folder: str = "") -> Iterator[Any]:
    """Yield what ``DAG.run(executor=...)`` takes; a pool is ended with the run.

    Raises
    ------
    CommandError
        If it is no executor's name.
    """
    kind, _, rest = (spec or "serial").partition(":")
    if kind == "serial" and not rest:
        yield None
    elif kind in ("threads", "processes"):
        with _pool(kind, _workers(spec, rest)) as pool:
            yield pool
    elif kind == "dask":
        from dagprofiler.executors.dask import DaskExecutor

        yield DaskExecutor(rest or None)
    elif kind == "ray":
        from dagprofiler.executors.ray import RayExecutor

        yield RayExecutor(rest or None)
    else:
        yield _found(str(spec), folder)


def _workers(spec: Any, rest: str) -> int:
    if not rest:
        return os.cpu_count() or 1
    if not rest.isdecimal() or not int(rest):
        raise CommandError(f"--executor: expected a number of workers of at least 1, got {spec!r}")
    return int(rest)


def _found(spec: str, folder: str) -> Any:
    """Return what stands under a name, or what a function of that name makes."""
    from dagprofiler.cli.targets import Place, find
    from dagprofiler.executors.pools import executor_of

    if not Place.of(spec).name or spec.startswith("serial:"):
        raise CommandError(f"--executor: expected {_KNOWN}; got {spec!r}")
    found = find(spec, folder)
    if callable(found):
        found = found()
    if executor_of(found) is None:
        raise CommandError(f"--executor {spec!r} is a {type(found).__name__}, no executor")
    return found


@contextmanager
def _pool(kind: str, workers: int) -> Iterator[Any]:
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

    pool: Any = (
        ThreadPoolExecutor(workers)
        if kind == "threads"
        else ProcessPoolExecutor(workers, initializer=_leave_interrupts_to_the_driver)
    )
    try:
        yield pool
    except BaseException:
        # What still runs is of no use any more; of processes it can be ended.
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    pool.shutdown()


def _leave_interrupts_to_the_driver() -> None:
    """Ignore Ctrl-C, which reaches all processes of a terminal."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
