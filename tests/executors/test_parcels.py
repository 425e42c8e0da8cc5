import os
import signal
import stat
import subprocess
import sys

import pytest
from platforms import posix

from dagprofiler.executors import _shared_files
from dagprofiler.executors._shared_files import SharedFile, SharedFiles


def test_folder_and_files_are_their_makers_alone_and_go_together():
    made = SharedFiles()
    assert stat.S_IMODE(os.stat(made.folder).st_mode) == 0o700
    ours, theirs = SharedFile.of(b"ours", made.folder), SharedFile.of(b"theirs", made.folder)
    # Workers on two hosts may have one number: it is in no name.
    assert str(os.getpid()) not in os.path.basename(ours.path).split("-")
    assert stat.S_IMODE(os.stat(ours.path).st_mode) == 0o600
    assert [bytes(one.frames(None)) for one in (ours, theirs)] == [b"ours", b"theirs"]
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


@posix
def test_the_next_run_removes_what_a_killed_process_left(tmp_path, monkeypatch):
    # It stands for /dev/shm.
    memory = tmp_path
    monkeypatch.setattr(_shared_files, "_MEMORY", str(memory))
    monkeypatch.setattr(_shared_files, "_ROOM_BYTES", 1)
    command = [sys.executable, "-c", _KILLED, str(memory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as killed:
        child = int(killed.stdout.readline())
        killed.kill()
    try:
        (left,) = memory.iterdir()
        assert len(list(left.iterdir())) == 1
        # What others use is left.
        (another := memory / "another").mkdir()
        used, made = SharedFiles(), SharedFiles()
        assert {str(path) for path in memory.iterdir()} == {used.folder, str(another), made.folder}
        used.close()
        made.close()
        assert list(memory.iterdir()) == [another]
    finally:
        os.kill(child, signal.SIGKILL)
