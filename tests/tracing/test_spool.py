from __future__ import annotations

import pytest
from trace_files import read

from dagprofiler.tracing.spool import TraceFile


class Interrupted(TraceFile):
    """A file whose next write is interrupted when all is written, before that is noted."""

    interrupt = False

    def _put(self, place, content):
        super()._put(place, content)
        if self.interrupt:
            self.interrupt = False
            raise KeyboardInterrupt


@pytest.fixture
def file(tmp_path):
    file = Interrupted(str(tmp_path / "a" / "trace.pfw"), {"name": "größer"})
    yield file
    file.abandon()


def events(file):
    return [event["name"] for event in read(file.path)["traceEvents"]]


def event(name):
    return f'{{"name": "{name}"}}'


def test_a_file_is_whole_after_each_write(file):
    file.write([event("a"), event("b")], closed=False)
    assert events(file) == ["a", "b"]
    file.write((), closed=False, lost=1_000_000, why="of much that was")
    file.write((), closed=True)
    assert events(file) == ["a", "b"]
    file.write([event("c")], closed=False)
    assert events(file) == ["a", "b", "c"]
    assert read(file.path)["dagprofiler"] == {"closed": False}
    assert read(file.path)["otherData"] == {"name": "größer"}


def test_a_file_without_an_event_is_whole(file):
    file.write((), closed=True)
    assert events(file) == []


@pytest.mark.parametrize("before", [0, 1])
def test_an_interrupted_write_leaves_nothing_behind_the_next(file, before):
    for i in range(before):
        file.write([event(i)], closed=False)
    file.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        file.write([event("long" * 1000)], closed=False)
    file.write([event("after")], closed=True)
    assert events(file)[before:] == ["after"]


def test_a_file_that_is_there_is_replaced(file, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "trace.pfw").write_text("x" * 10_000)
    assert not file.is_open
    file.write([event("a")], closed=True)
    assert events(file) == ["a"]
