import errno
import os
from contextlib import suppress

import pytest
from platforms import posix
from trace_files import read

from dagprofiler.tracing._file import TraceFile


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


@pytest.mark.parametrize("room", range(300, 420, 7))
def test_a_disk_that_is_full_has_room_for_what_was_lost(file, monkeypatch, room):
    def write(descriptor, content):
        left = max(0, room - os.lseek(descriptor, 0, os.SEEK_CUR))
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        return system_write(descriptor, content[:left])

    system_write = os.write
    monkeypatch.setattr(os, "write", write)
    written = 0
    with suppress(OSError):
        for written in range(100):  # noqa: B007
            file.write([event("a")], closed=False)
    assert written < 99
    told = {"closed": True, "lost": 100, "why": "OSError: [Errno 28] No space left on device"}
    file.write((), **told)
    assert len(events(file)) == written
    assert read(file.path)["dagprofiler"] == told


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


@pytest.mark.parametrize("before", [0, 1])
def test_an_interrupted_write_leaves_nothing_behind_the_next(file, before):
    for i in range(before):
        file.write([event(i)], closed=False)
    file.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        file.write([event("long" * 1000)], closed=False)
    file.write([event("after")], closed=True)
    assert events(file)[before:] == ["after"]


CLOCK = {"zero_s": 100.0, "epoch_s": 5000.0, "boot": "here"}


@pytest.mark.parametrize(
    ("clock", "zero_s"),
    [
        ({"zero_s": 130.0, "epoch_s": 5031.0}, 100.0),
        ({"zero_s": 7.0, "epoch_s": 5030.0, "boot": "other"}, -23.0),
        ({"zero_s": 7.0, "epoch_s": 5030.0, "boot": None}, -23.0),
    ],
)
@pytest.mark.parametrize("before", [[], [event("a")]])
def test_a_closed_trace_is_continued_on_its_clock(tmp_path, clock, zero_s, before):
    first = TraceFile(str(tmp_path / "trace.pfw"), {"clock": CLOCK})
    first.write(before, closed=True)
    first.abandon()
    second = TraceFile(first.path, {"clock": {**CLOCK, **clock}})
    second.write([event("b")], closed=True)
    assert (second.path, second.zero_s) == (first.path, zero_s)
    second.abandon()
    assert events(first) == ["a"] * len(before) + ["b"]
    assert read(first.path)["otherData"] == {"clock": CLOCK}


@pytest.mark.parametrize("text", ["x" * 10_000, "[1]", '{"traceEvents": []}\n], {}', "not closed"])
def test_a_file_that_is_no_closed_trace_stays_as_it_is(tmp_path, caplog, text):
    path = tmp_path / "trace.pfw"
    if text == "not closed":
        first = TraceFile(str(path), {"clock": CLOCK})
        first.write([event("a")], closed=False)
        first.abandon()
    else:
        path.write_text(text)
    before = path.read_bytes()
    file = TraceFile(str(path), {"clock": CLOCK})
    file.write([event("b")], closed=True)
    file.abandon()
    assert path.read_bytes() == before
    assert file.path == str(tmp_path / f"trace.{os.getpid()}.pfw")
    assert events(file) == ["b"]
    assert file.path in caplog.text


@posix
@pytest.mark.parametrize("there", [False, True])
def test_a_link_that_leads_out_of_its_folder_is_not_followed_and_one_within_is(
    file, tmp_path, there
):
    (tmp_path / "a").mkdir()
    victim, target = tmp_path / "victim", tmp_path / "a" / "target.pfw"
    if there:
        victim.write_text("precious")
        target.touch()
    os.symlink(victim, file.path)
    with pytest.raises(OSError, match="out of its folder"):
        file.write([event("a")], closed=True)
    assert os.readlink(file.path) == str(victim)
    assert victim.exists() == there
    assert not there or victim.read_text() == "precious"
    os.unlink(file.path)
    os.symlink("target.pfw", file.path)
    file.write([event("a")], closed=True)
    assert os.path.islink(file.path)
    assert events(file) == ["a"]
    assert sorted(os.listdir(tmp_path / "a")) == ["target.pfw", "trace.pfw"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs links to descriptors")
def test_a_descriptor_is_such_a_link(tmp_path):
    with open(tmp_path / "victim", "w+b") as victim:
        with pytest.raises(OSError, match="out of its folder"):
            TraceFile(f"/proc/self/fd/{victim.fileno()}", {}).write([event("a")], closed=True)
        assert victim.read() == b""
