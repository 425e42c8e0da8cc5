from __future__ import annotations

import gc
import os
import pickle
import stat
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from dagprofiler.executors import parcels
from dagprofiler.executors.parcels import Parcel, Parcels
from dagprofiler.serializers import FrameList, OutOfBandPickle, PickleSerializer


@pytest.fixture
def folder():
    made = Parcels()
    yield made.folder
    made.close()


def test_one_value_of_bytes_arrives_as_a_view_for_pickle_and_as_bytes_for_others(folder):
    data = PickleSerializer.dumps(list(range(1000)))
    parcel = pickle.loads(pickle.dumps(Parcel.of(data, folder)))

    assert type(parcel.frames(pickle.loads)) is memoryview
    assert pickle.loads(parcel.frames(pickle.loads)) == list(range(1000))
    assert parcel.frames(len) == data


@pytest.mark.parametrize("protocol", [4, 5])
def test_a_list_of_frames_arrives_as_one(folder, protocol):
    value = {"a": np.arange(1000), "b": np.ones((3, 4)), "c": "text"}
    serializer = OutOfBandPickle()
    sent = Parcel.of(serializer.dumps(value), folder)
    parcel = pickle.loads(pickle.dumps(sent, protocol))
    frames = parcel.frames(serializer.loads)
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
def test_whatever_is_a_buffer_is_written_as_its_bytes(folder, frames):
    arrived = Parcel.of(frames, folder).frames(None)

    assert [bytes(frame) for frame in arrived] == [memoryview(frame).tobytes() for frame in frames]


def test_the_file_goes_with_the_last_reference_to_its_owner(folder):
    parcel = Parcel.of(b"data", folder)
    assert os.listdir(folder) == [os.path.basename(parcel.path)]
    parcel.own()
    also = [parcel]
    del parcel
    gc.collect()
    assert os.listdir(folder)

    also.clear()
    gc.collect()
    assert os.listdir(folder) == []


def test_what_was_read_stays_when_the_file_has_gone(folder):
    parcel = Parcel.of([b"abc", memoryview(b"defg")], folder)
    parcel.own()
    frames = parcel.frames(None)
    del parcel
    gc.collect()

    assert os.listdir(folder) == []
    assert [bytes(frame) for frame in frames] == [b"abc", b"defg"]


def test_who_only_uses_a_parcel_leaves_its_file(folder):
    sent = Parcel.of(b"data", folder)
    arrived = pickle.loads(pickle.dumps(sent))
    del sent, arrived
    gc.collect()

    assert len(os.listdir(folder)) == 1


def test_a_file_that_has_gone_already_is_no_error(folder):
    parcel = Parcel.of(b"data", folder)
    parcel.own()
    os.remove(parcel.path)
    del parcel
    gc.collect()


def test_a_file_that_could_not_be_written_is_not_left_behind(folder):
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            Parcel.of(bytes(100_000), folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)

    assert os.listdir(folder) == []


def test_the_folder_is_its_makers_alone_and_goes_with_all_that_is_in_it():
    made = Parcels()
    assert stat.S_IMODE(os.stat(made.folder).st_mode) == 0o700
    Parcel.of(b"data", made.folder)
    made.close()

    assert not os.path.exists(made.folder)
    made.close()


def killed(place):
    """Return the folder of a process that has been killed while it held values."""
    program = "\n".join(
        [
            "import os, signal, sys, tempfile",
            "from dagprofiler.executors import parcels",
            f"parcels._MEMORY = tempfile.tempdir = {str(place)!r}",
            "made = parcels.Parcels()",
            "parcels.Parcel.of(b'data', made.folder)",
            "print(made.folder, flush=True)",
            "os.kill(os.getpid(), signal.SIGKILL)",
        ]
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, check=False, text=True
    )
    return ended.stdout.strip()


@pytest.mark.skipif(sys.platform == "win32", reason="no locks on folders")
def test_what_a_killed_run_left_goes_and_what_is_in_use_or_young_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(parcels, "_MEMORY", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, young, in_use = killed(tmp_path), killed(tmp_path), Parcels()
    another = tmp_path / "another's"
    another.mkdir()
    for old in (left, in_use.folder, another):
        os.utime(old, (0, 0))

    new = Parcels()

    assert sorted(os.listdir(tmp_path)) == sorted(
        os.path.basename(one) for one in (young, in_use.folder, new.folder, another)
    )
    in_use.close()
    new.close()


@pytest.mark.skipif(sys.platform != "linux", reason="where files are memory")
def test_the_folder_is_in_memory_if_there_is_room(monkeypatch):
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm")
    monkeypatch.setattr(parcels, "_ROOM_BYTES", 1)
    roomy = Parcels()
    monkeypatch.setattr(parcels, "_ROOM_BYTES", 1 << 60)
    other = Parcels()

    assert roomy.folder.startswith("/dev/shm/")
    assert not other.folder.startswith("/dev/shm/")
    roomy.close()
    other.close()
