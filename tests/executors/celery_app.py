"""The Celery app of the tests: ``celery -A celery_app worker``."""

import os

from celery import Celery


def app_of(port, *, backend=None, include=("dagprofiler.executors.celery_worker",)):
    return Celery(
        "tests",
        broker=f"redis://127.0.0.1:{port}/0",
        backend=f"redis://127.0.0.1:{port}/1" if backend is None else backend,
        include=list(include),
        broker_connection_retry_on_startup=False,
    )


app = app_of(
    os.environ.get("CELERY_TEST_PORT", "0"),
    backend=os.environ.get("CELERY_TEST_BACKEND"),
    include=os.environ.get("CELERY_TEST_INCLUDE", "dagprofiler.executors.celery_worker").split(),
)
