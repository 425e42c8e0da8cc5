from __future__ import annotations

import gc
import os
import pickle
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from threading import Event, Thread, Timer

import numpy as np
import pytest

from dagprofiler.executors import _shared_files
from dagprofiler.executors._shared_files import OwnedFiles, SharedFile, SharedFiles
from dagprofiler.serializers import FrameList, OutOfBandPickle, PickleSerializer


@pytest.fixture
def folder():
    made = SharedFiles()
    yield made.folder
    made.close()


def test_one_value_of_bytes_arrives_as_a_view_for_pickle_and_as_bytes_for_others(folder):
    data = PickleSerializer.dumps(list(range(1000)))
    shared = pickle.loads(pickle.dumps(SharedFile.of(data, folder)))
    assert type(shared.frames(pickle.loads)) is memoryview
    assert pickle.loads(shared.frames(pickle.loads)) == list(range(1000))
    assert shared.frames(len) == data


@pytest.mark.parametrize("protocol", [4, 5])
def test_a_list_of_frames_arrives_as_one(folder, protocol):
    value = {"a": np.arange(1000), "b": np.ones((3, 4)), "c": "text"}
    serializer = OutOfBandPickle()
    sent = SharedFile.of(serializer.dumps(value), folder)
    shared = pickle.loads(pickle.dumps(sent, protocol))
    frames = shared.frames(serializer.loads)
    arrived = serializer.loads(frames)
    assert type(frames) is FrameList
    assert type(frames[0]) is bytes
    assert all(type(frame) is memoryview and frame.readonly for frame in frames[1:])
    assert repr(arrived) == repr(value)
    assert not arrived["a"].flags.writeable


@pytest.mark.parametrize(
    "frames",
    [
        [b"ab", memoryview(b"cdef")[::2], bytearray(b"gh"), b""],
        [np.arange(6, dtype=np.int64).reshape(2, 3)],
    ],
)
def test_whatever_is_a_buffer_is_written_and_stays_when_the_file_has_gone(folder, frames):
    owned, shared = OwnedFiles(), SharedFile.of(frames, folder)
    owned.add(shared)
    arrived = shared.frames(None)
    del shared
    owned.tidy()
    assert os.listdir(folder) == []
    assert [bytes(frame) for frame in arrived] == [memoryview(frame).tobytes() for frame in frames]


def test_the_file_goes_when_there_is_no_reference_to_its_shared_file_left(folder):
    owned, shared = OwnedFiles(), SharedFile.of(b"data", folder)
    name = os.path.basename(shared.path)
    owned.add(shared)
    also = [shared]
    del shared
    owned.tidy()
    assert os.listdir(folder) == [name]
    also.clear()
    gc.collect()
    assert os.listdir(folder) == [name]
    owned.tidy()
    assert os.listdir(folder) == []


def test_no_python_runs_when_a_shared_file_goes_so_that_no_interrupt_is_lost_there(folder):
    owned, shared = OwnedFiles(), SharedFile.of(b"data", folder)
    owned.add(shared)
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame) if event == "call" else None)
    try:
        del shared
    finally:
        sys.setprofile(None)
    assert calls == []


def test_who_only_uses_a_shared_file_leaves_its_file(folder):
    sent = SharedFile.of(b"data", folder)
    arrived = pickle.loads(pickle.dumps(sent))
    del sent, arrived
    gc.collect()
    assert len(os.listdir(folder)) == 1


def test_a_file_that_could_not_be_written_is_not_left_behind(folder):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            SharedFile.of(bytes(100_000), folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert os.listdir(folder) == []


def test_the_folder_is_its_makers_alone_and_goes_with_all_that_is_in_it():
    made = SharedFiles()
    assert stat.S_IMODE(os.stat(made.folder).st_mode) == 0o700
    SharedFile.of(b"data", made.folder)
    made.close()
    assert not os.path.exists(made.folder)
    made.close()


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no folder is in memory here")
@pytest.mark.parametrize("room", [1, 1 << 60])
def test_the_folder_is_in_memory_if_there_is_room(monkeypatch, room):
    monkeypatch.setattr(_shared_files, "_ROOM_BYTES", room)
    made = SharedFiles()
    assert made.folder.startswith("/dev/shm/") is (room == 1)
    made.close()


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """Have a folder of the test's own stand for /dev/shm."""
    if not hasattr(os, "register_at_fork"):
        pytest.skip("no files in memory here")
    monkeypatch.setattr(_shared_files, "_MEMORY", str(tmp_path))
    monkeypatch.setattr(_shared_files, "_ROOM_BYTES", 1)
    return tmp_path


#: Makes a folder of shared files, and forks a child that outlives it.
_KILLED = """
import os, sys, time
from dagprofiler.executors import _shared_files
_shared_files._MEMORY, _shared_files._ROOM_BYTES = sys.argv[1], 1
made = _shared_files.SharedFiles()
_shared_files.SharedFile.of(b"data", made.folder)
if not os.fork():
    print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_what_a_killed_process_left_in_memory_is_removed_by_the_next_run(memory):
    command = [sys.executable, "-c", _KILLED, str(memory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as killed:
        child = int(killed.stdout.readline())
        killed.kill()
    try:
        (left,) = memory.iterdir()
        assert len(list(left.iterdir())) == 1
        made = SharedFiles()
        assert [str(path) for path in memory.iterdir()] == [made.folder]
        made.close()
    finally:
        os.kill(child, signal.SIGKILL)


def test_what_another_run_uses_is_left(memory):
    used = SharedFiles()
    another = memory / "another"
    another.mkdir()
    made = SharedFiles()
    assert {str(path) for path in memory.iterdir()} == {used.folder, str(another), made.folder}
    made.close()
    used.close()
    assert list(memory.iterdir()) == [another]


@pytest.fixture
def make_swept(memory, monkeypatch):
    """Make a folder that the sweep of another run comes to right after it is made."""

    def make_swept(sweep):
        swept, make = [], tempfile.mkdtemp

        def made_and_swept(**where):
            folder = make(**where)
            if not swept:
                swept.append(folder)
                sweep(folder)
            return folder

        monkeypatch.setattr(tempfile, "mkdtemp", made_and_swept)
        made = SharedFiles()
        assert _shared_files._locked(made.folder) is None
        made.close()

    return make_swept


def test_a_folder_that_a_sweep_holds_for_a_moment_is_locked_all_the_same(make_swept):
    import fcntl

    def hold(folder):
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        Timer(0.01, os.close, [lock]).start()

    make_swept(hold)


def test_a_folder_that_a_sweep_removed_before_it_was_locked_is_made_anew(make_swept):
    make_swept(os.rmdir)


def test_a_folder_that_a_sweep_removed_while_its_lock_was_waited_for_is_made_anew(
    make_swept, monkeypatch
):
    import fcntl

    lock = fcntl.flock

    def remove(folder):
        def flock(*args):
            if os.path.exists(folder):
                os.rmdir(folder)
            lock(*args)

        monkeypatch.setattr(fcntl, "flock", flock)

    make_swept(remove)


def test_workers_with_one_number_on_two_hosts_do_not_share_a_file(folder):
    ours, theirs = SharedFile.of(b"ours", folder), SharedFile.of(b"theirs", folder)
    assert str(os.getpid()) not in os.path.basename(ours.path).split("-")
    assert stat.S_IMODE(os.stat(ours.path).st_mode) == 0o600
    assert [bytes(one.frames(None)) for one in (ours, theirs)] == [b"ours", b"theirs"]


def test_nothing_is_left_of_the_folder_though_workers_still_write_there(memory):
    def write(folder, written, closed):
        with suppress(OSError):
            while not closed.is_set():
                SharedFile.of(b"data", folder)
                written.set()

    for _ in range(20):
        made, written, closed = SharedFiles(), Event(), Event()
        writer = Thread(target=write, args=(made.folder, written, closed))
        writer.start()
        written.wait()
        made.close()
        left = list(memory.iterdir())
        closed.set()
        writer.join()
        assert left == []
