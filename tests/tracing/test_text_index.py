"""Tracing sees inside a program that works on real input: the index of the standard library."""

from __future__ import annotations

import importlib.util
from collections import Counter

import pytest
from trace_files import ROOT

from dagprofiler import Profile, Tracer, analyze, span, trace

FILES = 12


@pytest.fixture
def index():
    path = ROOT / "docs" / "examples" / "text_index.py"
    spec = importlib.util.spec_from_file_location("text_index_of_a_path", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def seen(profile):
    section = profile.sections["spans"]
    return Counter((row[0], section["labels"][row[3]]["name"]) for row in section["records"])


def test_its_functions_are_seen_without_annotations(index):
    profile = index.build_dag(FILES).run(hooks=[Tracer(functions=[index], floor_ms=0)])
    found = Counter()
    for (task, name), number in seen(profile).items():
        found[task, name.split(".")[-1]] += number
    assert found["read", "read_source"] == FILES
    assert found["tokenize", "words"] == FILES
    assert found["rank", "words"] == 1
    assert all(found[task, "compute"] == 1 for task in ("read", "tokenize", "count", "rank"))
    assert found["tfidf", "tfidf"] == 1
    assert Profile.loads(profile.dumps()) == profile


def test_where_its_time_goes_is_told_by_spans(index, monkeypatch, tmp_path):
    whole = index.Tokenize.compute

    def compute(self, texts):
        with span("all words", texts=len(texts)):
            return whole(self, texts)

    monkeypatch.setattr(index, "words", trace(index.words))
    monkeypatch.setattr(index, "read_source", trace(index.read_source))
    monkeypatch.setattr(index.Tokenize, "compute", compute)
    plain = index.build_dag(FILES).run()
    profile = index.build_dag(FILES).run(rounds=2)

    rounds = len(profile.sections["samples"]["rounds"])
    once = {
        ("read", "read_source"): FILES,
        ("tokenize", "words"): FILES,
        ("tokenize", "all words"): 1,
        ("rank", "words"): 1,
    }
    assert seen(profile) == {which: n * rounds for which, n in once.items()}
    assert profile.final_outputs == plain.final_outputs
    found = {one.name: one for one in analyze(profile, cost="wall_time").critical_spans.spans}
    assert found["words"].tasks == ("tokenize", "rank")
    assert found["words"].calls == FILES + 1
    assert found["all words"].total_ms >= found["all words"].self_ms
    profile.export(tmp_path / "index.trace.json")
