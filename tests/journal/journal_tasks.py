"""The tasks of the tests of journals: in a short file, since each resume reads all of it."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dagprofiler import Task
from dagprofiler.serializers import MsgpackSerializer, OutOfBandPickle

#: How often each task has run in this process.
ran: Counter[str] = Counter()


class Source(Task):
    outputs = ["data", "label"]

    def compute(self, cfg):
        ran["source"] += 1
        return {"data": np.arange(cfg.N), "label": "source", "extra": [1, 2]}


class Twice(Task):
    inputs = ["data", "offset"]
    outputs = ["twice"]
    serializer = OutOfBandPickle()

    def compute(self, data, offset):
        ran["twice"] += 1
        return {"twice": 2 * data + offset}


class Total(Task):
    inputs = ["parts", "label"]
    gathers = ["parts"]
    outputs = ["total"]
    serializer = MsgpackSerializer()

    def compute(self, parts, label):
        ran["total"] += 1
        return {"total": [label, int(sum(part.sum() for part in parts))]}


class Last(Task):
    outputs = ["done"]

    def compute(self):
        ran["last"] += 1
        return {"done": True}
