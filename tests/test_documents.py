from __future__ import annotations

import codecs
import enum
import gc
import gzip
import io
import json
import math
import os
import re
import stat
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dagprofiler import Config, ProfileError
from dagprofiler.documents import (
    collector_paused,
    jsonable,
    parse,
    read,
    utc_now,
    write,
)

posix = pytest.mark.skipif(os.name != "posix", reason="permissions, links and pipes of POSIX")


class Colour(enum.IntEnum):
    RED = 3


class Dictable:
    def to_dict(self):
        return {"scale": np.float64(0.5), "steps": (1, 2)}


class Stubborn:
    def __str__(self):
        raise RuntimeError("I have no text")


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def pieces_then(error):
    yield "half of the new"
    raise error


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_the_time_is_utc_with_a_z_and_microseconds():
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", utc_now())


def test_the_collector_is_paused_and_runs_again_after_an_error():
    def fail_while_paused():
        with collector_paused():
            raise KeyError(gc.isenabled())

    assert gc.isenabled()
    with pytest.raises(KeyError, match="False"):
        fail_while_paused()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_collector_stays_paused_until_the_outermost_pause_ends():
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


# What JSON can hold


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (-(2**63), -(2**63)),
        (2**63 - 1, 2**63 - 1),
        (0.5, 0.5),
        ("text", "text"),
        ("\ud800", "\ud800"),
        ([1, [2.5, None]], [1, [2.5, None]]),
        ((1, (2,)), [1, [2]]),
        ({"a": {"b": (1,)}}, {"a": {"b": [1]}}),
        (Config(a=1), {"a": 1}),
        (Colour.RED, 3),
        (np.int32(7), 7),
        (np.uint64(7), 7),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.bool_(1), True),
        (np.str_("n"), "n"),
        (np.arange(3), [0, 1, 2]),
        (np.array(3), 3),
        (np.eye(2), [[1.0, 0.0], [0.0, 1.0]]),
        (np.zeros((0, 2)), []),
        ([np.arange(2), np.int8(1)], [[0, 1], 1]),
        (Dictable(), {"scale": 0.5, "steps": [1, 2]}),
    ],
    ids=repr,
)
def test_what_json_can_hold_is_stored_as_json(value, expected):
    values, as_text = jsonable({"parameter": value})
    assert as_text == []
    assert values == {"parameter": expected}
    assert type(values["parameter"]) is type(expected) or isinstance(value, np.str_)
    assert json.loads(json.dumps(values, allow_nan=False)) == values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (np.float32("nan"), "nan"),
        (np.array([1.0, np.nan]), "[ 1. nan]"),
        ([1, math.inf], "[1, inf]"),
        ({"a": math.nan}, "{'a': nan}"),
        (2**63, "9223372036854775808"),
        (-(2**63) - 1, "-9223372036854775809"),
        ([2**64], "[18446744073709551616]"),
        (complex(1, 2), "(1+2j)"),
        (b"raw", "b'raw'"),
        ({1: 2}, "{1: 2}"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (frozenset([1]), "frozenset({1})"),
        (range(3), "range(0, 3)"),
        (np.datetime64("2026-02-12"), "2026-02-12"),
        (Path("here"), "here"),
        (int, "<class 'int'>"),
    ],
    ids=repr,
)
def test_what_json_cannot_hold_is_stored_as_text_and_listed(value, text):
    assert jsonable({"n": 1, "parameter": value}) == ({"n": 1, "parameter": text}, ["parameter"])


def test_a_list_that_contains_itself_is_stored_as_text():
    endless = []
    endless.append(endless)
    assert jsonable({"endless": endless}) == ({"endless": "[[...]]"}, ["endless"])


def test_a_class_that_has_to_dict_is_stored_as_text():
    values, as_text = jsonable({"kind": Dictable})
    assert values == {"kind": str(Dictable)}
    assert as_text == ["kind"]


@pytest.mark.parametrize(
    "value", [10**5000, [10**5000], Stubborn(), [Stubborn()]], ids=["int", "ints", "str", "strs"]
)
def test_a_value_whose_text_cannot_be_had_is_still_stored_as_some_text(value):
    values, as_text = jsonable({"odd": value, "n": 1})
    assert as_text == ["odd"]
    assert values["n"] == 1
    assert values["odd"]
    assert isinstance(values["odd"], str)


def test_values_are_copied_so_that_documents_share_nothing_with_the_config():
    inner = [1]
    values, _ = jsonable({"inner": {"list": inner}})
    inner.append(2)
    assert values == {"inner": {"list": [1]}}


@pytest.mark.parametrize(
    "text", ["", "  ", "{", "[1,]", '{"a": }', "nul", "\x00", "{}x", b"\xff{}"]
)
def test_what_is_no_json_is_refused_with_the_reason(text):
    with pytest.raises(ProfileError, match=r"^\$: not JSON: ") as caught:
        parse(text)
    assert isinstance(caught.value.__cause__, ValueError)


def test_json_that_is_nested_too_deep_is_refused():
    with pytest.raises(ProfileError, match="nested too deep"):
        parse("[" * 1_000_000)
    with pytest.raises(ProfileError, match="nested too deep"):
        parse('{"a":' * 1_000_000)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_bytes_may_be_in_any_encoding_that_json_knows(encoding):
    assert parse('{"é": 1}'.encode(encoding)) == {"é": 1}


# Reading


def test_a_file_is_read_by_name_path_or_stream(tmp_path):
    path = tmp_path / "file.json"
    path.write_bytes(b"{}\r\n")
    assert parse(read(str(path))) == parse(read(path)) == {}
    with open(path, "rb") as binary, open(path, encoding="utf-8") as text:
        assert parse(read(binary)) == parse(read(text)) == {}
    assert parse(read(io.StringIO("[1]"))) == parse(read(io.BytesIO(b"[1]"))) == [1]


def test_a_text_stream_that_cannot_decode_is_no_json():
    with pytest.raises(ProfileError, match=r"^\$: not JSON: 'utf-8' codec can't decode byte 0xff"):
        parse(read(io.TextIOWrapper(io.BytesIO(b'{"a": "\xff"}'), encoding="utf-8")))


def test_a_missing_file_and_a_folder_are_the_systems_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nowhere.json")
    with pytest.raises(OSError, match=re.escape(tmp_path.name)):
        read(tmp_path)


# Writing


def test_a_new_file_holds_exactly_the_text_and_its_name_is_returned(tmp_path):
    path = tmp_path / "new.json"
    assert write(path, ["a\n", "b\n"]) == str(path)
    assert write(str(path), ["a\n", "c\n"]) == str(path)
    assert path.read_bytes() == b"a\nc\n"
    assert os.listdir(tmp_path) == ["new.json"]


def test_a_relative_name_is_written_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert write("here.json", ["x"]) == "here.json"
    assert (tmp_path / "here.json").read_text() == "x"


@pytest.mark.parametrize("error", [ValueError("halfway"), KeyboardInterrupt(), MemoryError()])
def test_an_error_halfway_leaves_the_old_file_and_nothing_beside_it(tmp_path, error):
    path = tmp_path / "file.json"
    path.write_text("old")
    with pytest.raises(type(error)) as caught:
        write(path, pieces_then(error))
    assert caught.value is error
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.json"]


def test_an_error_halfway_leaves_no_file_where_there_was_none(tmp_path):
    with pytest.raises(ValueError, match="halfway"):
        write(tmp_path / "file.json", pieces_then(ValueError("halfway")))
    assert os.listdir(tmp_path) == []


@posix
def test_a_disk_that_refuses_the_new_file_leaves_the_old_one(tmp_path):
    import resource

    path = tmp_path / "file.json"
    path.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            write(path, ["x" * 900] * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.json"]


@posix
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0, 0o666)])
def test_a_new_file_has_the_permissions_that_the_umask_gives(tmp_path, mask, mode):
    with umask(mask):
        write(tmp_path / "file.json", ["x"])
    assert mode_of(tmp_path / "file.json") == mode


@posix
@pytest.mark.parametrize("mode", [0o600, 0o604, 0o660, 0o777])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "file.json"
    path.write_text("old")
    path.chmod(mode)
    with umask(0o077):
        write(path, ["new"])
    assert path.read_text() == "new"
    assert mode_of(path) == mode


@posix
def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "data").mkdir()
    target, link, second = tmp_path / "data" / "file.json", tmp_path / "link", tmp_path / "second"
    target.write_text("old")
    link.symlink_to(Path("data") / "file.json")
    second.symlink_to(link)
    assert write(second, ["new"]) == str(second)
    assert target.read_text() == "new"
    assert os.readlink(link) == os.path.join("data", "file.json")
    assert os.readlink(second) == str(link)
    assert os.listdir(tmp_path / "data") == ["file.json"]


@posix
def test_a_symbolic_link_to_nothing_gets_its_target(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("later.json")
    write(link, ["new"])
    assert link.is_symlink()
    assert (tmp_path / "later.json").read_text() == "new"


@posix
def test_a_symbolic_link_to_itself_is_the_systems_error(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(OSError, match="symbolic links"):
        write(link, ["new"])
    assert os.listdir(tmp_path) == ["link"]


def test_a_name_as_long_as_the_system_takes_can_be_written(tmp_path):
    path = tmp_path / ("n" * 250 + ".json")
    try:
        path.write_text("old")
    except OSError:
        pytest.skip("this file system takes no names of 255 characters")
    write(path, ["new"])
    assert path.read_text() == "new"


@pytest.mark.parametrize("name", ["with space.json", "é.json", ".hidden", "%s{}.json"])
def test_a_name_may_hold_what_the_system_allows(tmp_path, name):
    write(tmp_path / name, ["x"])
    assert os.listdir(tmp_path) == [name]


def test_a_folder_or_a_missing_folder_is_the_systems_error(tmp_path):
    with pytest.raises(OSError, match=re.escape(tmp_path.name)):
        write(tmp_path, ["x"])
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "nowhere" / "file.json", ["x"])
    assert os.listdir(tmp_path) == []


@posix
def test_a_device_is_written_to_and_not_replaced():
    assert write("/dev/null", ["x"]) == "/dev/null"
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_device_that_is_full_is_the_systems_error():
    with pytest.raises(OSError, match="No space left"):
        write("/dev/full", ["x"])


@posix
def test_a_pipe_is_written_to_and_read_from_and_not_replaced(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    received = []
    reader = threading.Thread(target=lambda: received.append(parse(read(fifo))), daemon=True)
    reader.start()
    write(fifo, ["[1", "2]"])
    reader.join(30)
    assert received == [[12]]
    assert stat.S_ISFIFO(os.stat(fifo).st_mode)


def test_text_and_binary_streams_get_what_they_take(tmp_path):
    text, binary = io.StringIO(), io.BytesIO()
    assert write(text, ["a", "b"]) == write(binary, ["a", "b"]) == ""
    assert text.getvalue() == "ab"
    assert binary.getvalue() == b"ab"
    path = tmp_path / "file"
    for mode in ("w", "wb", "w+b"):
        with open(path, mode, **({} if "b" in mode else {"encoding": "ascii"})) as stream:
            assert write(stream, [mode]) == str(path)
            assert not stream.closed
        assert path.read_text() == mode
    with open(path, "wb", buffering=0) as raw:
        write(raw, ["raw"])
    assert path.read_text() == "raw"


def test_a_stream_is_written_to_where_it_stands():
    stream = io.StringIO("before")
    stream.seek(0, io.SEEK_END)
    write(stream, ["+after"])
    assert stream.getvalue() == "before+after"


@pytest.mark.parametrize("mode", ["wt", "wb"])
def test_a_compressed_stream_is_a_stream(tmp_path, mode):
    path = tmp_path / "file.gz"
    with gzip.open(path, mode) as stream:
        write(stream, ["a", "b"])
    with gzip.open(path) as stream:
        assert read(stream) == b"ab"


@pytest.mark.parametrize("mode", ["w+", "w+b"])
@pytest.mark.parametrize("kind", [tempfile.TemporaryFile, tempfile.SpooledTemporaryFile])
def test_a_temporary_file_is_a_stream(kind, mode):
    with kind(mode=mode) as stream:
        write(stream, ["{", "}"])
        stream.seek(0)
        assert parse(read(stream)) == {}


def test_a_stream_that_encodes_by_itself_gets_text():
    raw = io.BytesIO()
    write(codecs.getwriter("utf-16-le")(raw), ["a", "b"])
    assert raw.getvalue() == "ab".encode("utf-16-le")


def test_a_stream_that_encodes_into_a_file_gets_text(tmp_path):
    with open(tmp_path / "file", "wb") as raw:
        write(codecs.getwriter("utf-16-le")(raw), ["a", "b"])
    assert (tmp_path / "file").read_bytes() == "ab".encode("utf-16-le")


class Slow(io.RawIOBase):
    """A stream that takes a few bytes at a time, as an unbuffered pipe may."""

    def __init__(self):
        self.taken = b""

    def writable(self):
        return True

    def write(self, data):
        part = bytes(memoryview(data)[:7])
        self.taken += part
        return len(part)


def test_a_raw_stream_gets_everything_and_stays_open():
    stream = Slow()
    pieces = ["some text\n" * 3000, "é\n", "the end\n"]
    write(stream, pieces)
    assert stream.taken.decode() == "".join(pieces)
    assert not stream.closed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.datetime64("2026-11-20T23:59:32.123456789"), "2026-11-20T23:59:32.123456789"),
        (np.datetime64("2026-11-20"), "2026-11-20"),
        (np.timedelta64(5, "ns"), "5 nanoseconds"),
    ],
)
def test_times_of_numpy_are_text_and_listed(value, text):
    assert jsonable({"t": value}) == ({"t": text}, ["t"])
    (inside,) = jsonable({"t": [value]})[0].values()
    assert isinstance(inside, str)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '{"b": [{"x": {"a": 1, "c": 2, "a" : 3}}]}'])
def test_a_key_that_stands_twice_in_one_object_is_refused(text):
    with pytest.raises(ProfileError, match="key 'a' stands twice in one object"):
        parse(text)
    assert parse('[{"a": 1}, {"a": {"a": 2}}]') == [{"a": 1}, {"a": {"a": 2}}]
