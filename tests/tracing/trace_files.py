"""Traces as JSON, which has to be strict."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def read(path):
    """Return a trace, which has to be strict JSON."""

    def refused(word):
        raise ValueError(word)

    return json.loads(Path(path).read_text("utf-8"), parse_constant=refused)


def events_of(document):
    return [event for event in document["traceEvents"] if event["ph"] != "M"]
