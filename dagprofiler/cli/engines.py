"""Executors as a command line names them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dagprofiler.cli.parsing import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

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
        with _ended(_pool(kind, _workers(spec, rest))) as pool:
            yield pool
    elif kind == "dask":
        from dagprofiler.executors.dask import DaskExecutor

        yield DaskExecutor(rest or None)
    elif kind == "ray":
        from dagprofiler.executors.ray import RayExecutor

        yield RayExecutor(rest or None)
    else:
        with _found(str(spec), folder) as found:
            yield found


def _workers(spec: Any, rest: str) -> int:
    if not rest:
        return os.cpu_count() or 1
    if not rest.isdecimal() or not int(rest):
        raise CommandError(f"--executor: expected a number of workers of at least 1, got {spec!r}")
    return int(rest)


@contextmanager
def _found(spec: str, folder: str) -> Iterator[Any]:
    """Yield what stands under a name, or what a function of that name makes and a run ends."""
    from concurrent.futures import Executor

    from dagprofiler.cli.targets import Place, find
    from dagprofiler.executors.pools import executor_of

    if not Place.of(spec).name or spec.startswith("serial:"):
        raise CommandError(f"--executor: expected {_KNOWN}; got {spec!r}")
    found = find(spec, folder)
    made = found() if callable(found) else found
    if executor_of(made) is None:
        raise CommandError(f"--executor {spec!r} is a {type(made).__name__}, no executor")
    if made is found or not isinstance(made, Executor):
        yield made
    else:
        with _ended(made) as pool:
            yield pool


def _pool(kind: str, workers: int) -> Executor:
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

    if kind == "threads":
        return ThreadPoolExecutor(workers)
    return ProcessPoolExecutor(workers, initializer=_belong_to, initargs=(os.getpid(),))


@contextmanager
def _ended(pool: Any) -> Iterator[Any]:
    """Yield a pool, which ends with the run."""
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


def _belong_to(driver: int) -> None:
    """End with the driver, and leave Ctrl-C to it, which reaches all processes of a terminal."""
    import signal

    from dagprofiler.executors.jobs import end_with

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(driver)
