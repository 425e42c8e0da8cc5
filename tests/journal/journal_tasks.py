"""The tasks of the tests of journals: in a short file, since each resume reads all of it."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dagprofiler import task
from dagprofiler.serializers import MsgpackSerializer, OutOfBandPickle

#: How often each task has run in this process.
ran: Counter[str] = Counter()


@task(outputs=["data", "label"])
def source(cfg):
    ran["source"] += 1
    return {"data": np.arange(cfg.N), "label": "source", "extra": [1, 2]}


@task(outputs=["twice"], serializer=OutOfBandPickle())
def twice(data, offset):
    ran["twice"] += 1
    return {"twice": 2 * data + offset}


@task(outputs=["total"], gathers=["parts"], serializer=MsgpackSerializer())
def total(parts, label):
    ran["total"] += 1
    return {"total": [label, int(sum(part.sum() for part in parts))]}


@task(outputs=["done"])
def last():
    ran["last"] += 1
    return {"done": True}
