"""Traces as JSON, which has to be strict."""

from pathlib import Path

from handmade import strict

ROOT = Path(__file__).resolve().parents[2]


def read(path):
    return strict(Path(path).read_text("utf-8"))


def events_of(document):
    return [event for event in document["traceEvents"] if event["ph"] != "M"]
