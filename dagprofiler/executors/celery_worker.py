"""The module that Celery's workers import: a Celery task that runs jobs, and a roll call.

``Celery(..., include=["dagprofiler.executors.celery_worker"])`` makes them import it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from dagprofiler._util import JsonObject
from dagprofiler.errors import needs_extra
from dagprofiler.executors.celery import JOB, ROLL_CALL, as_text, from_text

with needs_extra("dagprofiler.executors.celery_worker", "celery"):
    from celery import shared_task
    from celery.worker.control import inspect_command
    from celery.worker.state import requests


@shared_task(name=JOB, ignore_result=False)  # type: ignore[untyped-decorator,unused-ignore]
def run_job(text: str) -> str:
    """Run a job; return its result."""
    job, frames = from_text(text)
    return as_text(job(frames))


@inspect_command(name=ROLL_CALL)  # type: ignore[untyped-decorator,unused-ignore]
def roll_call(state: Any, jobs: Sequence[str] = (), folder: str = "") -> JsonObject:
    """Return a description of this worker.

    Parameters
    ----------
    state
        State of the worker, from Celery.
    jobs
        Ids of Celery tasks to look for.
    folder
        A folder to look for, which the worker may share.

    Returns
    -------
    dict
        ``pid`` of its main process; its ``pool`` and the number of ``processes``
        (or threads) in it; the ``queues`` that it takes jobs from; which of the
        ``jobs`` it has; whether it ``reaches`` the folder.
    """
    pool = state.consumer.pool
    return {
        "pid": os.getpid(),
        "pool": type(pool).__module__.rpartition(".")[2],
        "processes": pool.num_processes,
        "queues": [queue.name for queue in state.consumer.task_consumer.queues],
        "jobs": [job for job in jobs if job in requests],
        # Its name is random: a folder of this name is the same folder.
        "reaches": os.access(folder, os.W_OK | os.X_OK),
    }
