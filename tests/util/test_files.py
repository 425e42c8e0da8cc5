import codecs
import io
import os
import re
import signal
import stat
import struct
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
from handmade import source
from platforms import posix
from processes import umask

from dagprofiler import DAG
from dagprofiler._util import files
from dagprofiler._util.files import check_writable, replacing, second_place, temporary, write
from dagprofiler._util.json import parse, read
from dagprofiler.cli import main
from dagprofiler.tracing import merge
from dagprofiler.tracing._file import TraceFile

linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="links to descriptors")

PROGRAM = """\
from dagprofiler import DAG, task
@task(outputs=["x"])
def source():
    return {"x": 1}
dag = DAG({"source": source})
"""


@pytest.fixture(scope="module")
def profile():
    return DAG({"source": source}).run()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory, profile):
    """Return a folder of what writers read."""
    folder = tmp_path_factory.mktemp("shelf")
    profile.save(folder / "profile.json")
    (folder / "of_files.py").write_text(PROGRAM, encoding="utf-8")
    trace(str(folder / "trace.pfw"))
    return folder


def trace(path):
    file = TraceFile(path, {})
    try:
        file.write(['{"ph": "i"}'], closed=True)
    finally:
        file.abandon()


def command(*arguments):
    if main([*map(str, arguments)]):
        raise AssertionError(arguments)


#: Whatever writes a file that a user names.
SAVERS = {
    "save": lambda path, profile, _: profile.save(path),
    "export": lambda path, profile, _: profile.export(path, "dot"),
    "report": lambda path, profile, _: profile.report(path),
    "draw": lambda path, profile, _: profile.draw().save(path),
    "merge": lambda path, _, shelf: merge(shelf / "trace.pfw", path),
}
COMMANDS = {
    name: lambda path, _, shelf, words=words: command(
        *(shelf / word if "." in word else word for word in words.split()), path
    )
    for name, words in {
        "run -o": "run of_files.py -q -o",
        "run --report": "run of_files.py -q --report",
        "report -o": "report profile.json -o",
        "export -o": "export profile.json --format dot -o",
    }.items()
}


def writers(*groups):
    """Have a test run with each writer, a function of a path."""
    named = {name: writer for group in groups for name, writer in group.items()}
    return pytest.mark.parametrize("writer", named.values(), ids=named.keys(), indirect=True)


@pytest.fixture
def writer(request, profile, shelf, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    return lambda path: request.param(path, profile, shelf)


def contents(folder):
    """Return the texts of the files in a folder, by their names."""
    return {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@writers(SAVERS, COMMANDS)
@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a place below /dev")
def test_a_file_below_dev_is_replaced_as_a_whole(writer):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "file")
        path.write_text("@ old @" * 10_000)
        writer(path)
        (text,) = contents(folder).values()
        assert "@ old @" not in text


@linux
@writers(SAVERS, COMMANDS)
@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("name", ["/proc/self/fd/{}", "/dev/fd/{}", "/proc/{}/fd/{}", "link"])
def test_what_is_behind_a_descriptor_is_written_on(writer, tmp_path, name, removed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = set() if removed else {"file"}
    with open("file", "w+b") as file:
        file.write(b"before ")
        file.flush()
        if removed:
            os.unlink("file")
        path = name.format(*[os.getpid()] * (name.count("{}") - 1), file.fileno())
        if name == "link":
            os.symlink(f"/dev/fd/{file.fileno()}", "link")
            before.add("link")
        writer(path)
        # What is written to the descriptor next comes after it.
        file.seek(0, io.SEEK_CUR)
        os.write(file.fileno(), b" after")
        file.seek(0)
        content = file.read()
    assert content.startswith(b"before ")
    assert content.endswith(b" after")
    assert len(content) > 50
    assert set(os.listdir(tmp_path)) == before


@linux
def test_a_descriptor_of_another_process_is_written_on_and_one_that_is_not_open_is_an_error(
    tmp_path,
):
    with open(tmp_path / "file", "wb") as file:
        command = [sys.executable, "-c", "input()"]
        other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=file)
    try:
        for text in "ab":
            write(f"/proc/{other.pid}/fd/1", [text])
    finally:
        other.communicate(b"\n")
    assert contents(tmp_path) == {"file": "ab"}
    number = os.dup(0)
    os.close(number)
    with pytest.raises(OSError, match="Bad file descriptor"):
        write(f"/dev/fd/{number}", ["x"])


@writers(SAVERS)
@pytest.mark.parametrize("name", ["file.json/", "file.json/.", "", ".", "nowhere/new"])
@pytest.mark.parametrize("there", [False, True])
def test_what_names_no_file_is_the_systems_error(writer, tmp_path, monkeypatch, name, there):
    monkeypatch.chdir(tmp_path)
    if there:
        Path("file.json").write_text("old")
    # "file.json/" names a folder, and there is none.
    of = NotADirectoryError if "file" in name else (IsADirectoryError, FileNotFoundError)
    with pytest.raises(of) as caught:
        writer(name)
    assert "new" not in name or caught.value.filename.endswith("new")
    assert contents(tmp_path) == dict.fromkeys(["file.json"] * there, "old")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@writers(SAVERS)
def test_an_error_in_writing_names_the_file(writer):
    with pytest.raises(OSError, match="/dev/full"):
        writer("/dev/full")


@writers(SAVERS)
def test_a_name_may_be_bytes_as_it_may_where_files_are_read(writer, tmp_path):
    writer(os.fsencode(tmp_path / "file"))
    assert write(os.fsencode(tmp_path / "file"), ["x"]) == str(tmp_path / "file")
    assert contents(tmp_path) == {"file": "x"}


@posix
@writers(SAVERS, COMMANDS)
def test_a_file_is_replaced_behind_links_and_keeps_its_mode_and_owner(writer, tmp_path):
    target, link, second = tmp_path / "data" / "file", tmp_path / "link", tmp_path / "second"
    target.parent.mkdir()
    target.write_text("@ old @" * 10_000)
    target.chmod(0o642)
    if os.geteuid() == 0:
        os.chown(target, 1234, 4321)
    before = target.stat()
    link.symlink_to(Path("data") / "file")
    second.symlink_to(link)
    with umask(0o077):
        writer(second)
    assert "@ old @" not in target.read_text(encoding="utf-8")
    assert (os.readlink(link), os.readlink(second)) == (os.path.join("data", "file"), str(link))
    assert target.stat()[:1] + target.stat()[4:6] == before[:1] + before[4:6]
    assert os.listdir(target.parent) == ["file"]


@posix
@writers(SAVERS, COMMANDS)
def test_what_a_killed_writer_left_is_swept_and_what_one_still_writes_stays(
    writer, tmp_path, left_name
):
    def pieces():
        yield "a"
        (tmp_path / left_name).write_text("half")
        writer(tmp_path / "second")
        yield "b"

    write(tmp_path / "first", pieces())
    assert (tmp_path / "first").read_text() == "ab"
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]


def access_list(mask):
    """Return a list that lets user 12345 read and write as far as the mask says, and no group."""
    rows = [(0x01, 6, -1), (0x02, 6, 12345), (0x04, 0, -1), (0x10, mask, -1), (0x20, 0, -1)]
    return b"".join([struct.pack("<I", 2), *(struct.pack("<HHi", *row) for row in rows)])


def granted(path, kind="access", mask=6, mode=0o666):
    """Make a file with an access control list, of its own or of its folder; return its path."""
    (path / "p.json").touch()
    (path / "p.json").chmod(mode)
    try:
        of = path if kind == "default" else path / "p.json"
        os.setxattr(of, f"system.posix_acl_{kind}", access_list(mask))
    except OSError as error:
        pytest.skip(f"this file system has no access control lists: {error}")
    return path / "p.json"


@linux
@pytest.mark.parametrize(("kind", "mask"), [("access", 6), ("access", 4), ("default", 6)])
def test_a_file_keeps_its_access_control_list_and_gets_none_of_its_folder(
    tmp_path, profile, kind, mask
):
    path = granted(tmp_path, kind, mask, mode=0o640)
    before = os.stat(path).st_mode, *map(partial(os.getxattr, path), os.listxattr(path))
    profile.save(path)
    after = os.stat(path).st_mode, *map(partial(os.getxattr, path), os.listxattr(path))
    assert after == before


@posix
@pytest.mark.parametrize(
    ("call", "mode", "kept"),
    [
        pytest.param("setxattr", 0o666, 0o600, marks=linux),
        *(("fchown", 0o664, 0o644), ("fchown", 0o640, 0o600), ("fchown", 0o604, 0o604)),
    ],
)
def test_the_group_gains_nothing_by_a_list_or_a_group_that_cannot_be_kept(
    tmp_path, monkeypatch, call, mode, kept
):
    def refuse(*_):
        raise PermissionError

    path = tmp_path / "p.json"
    if call == "setxattr":
        granted(tmp_path)
    else:
        path.touch()
        path.chmod(mode)
    monkeypatch.setattr(os, call, refuse)
    write(path, ["new"])
    assert mode_of(path) == kept


@posix
@pytest.mark.parametrize("old", [None, 0o600, 0o666])
def test_only_its_owner_can_open_a_file_until_it_is_whole(tmp_path, old):
    def pieces():
        yield "x" * 100_000
        modes.extend(mode_of(path) for path in tmp_path.iterdir() if path.name != "file")

    modes, path = [], tmp_path / "file"
    if old is not None:
        path.touch()
        path.chmod(old)
    with umask(0):
        write(path, pieces())
    assert modes == [0o600]


def unprivileged(function):
    """Call a function as a user who may not write everything; return the name of its error.

    That user may not be able to read the checkout, so the function has to import nothing.
    """
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            function()
            os.write(sender, b"none")
        except BaseException as error:  # noqa: BLE001  (the parent looks at it)
            os.write(sender, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(sender)
    os.waitpid(child, 0)
    with open(receiver, encoding="utf-8") as said:
        return said.read()


@posix
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("kind", ["file", "pipe", "folder"])
def test_a_file_that_its_user_could_not_open_for_writing_is_refused_before_there_is_content(kind):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, kind)
        check_writable(path)
        if kind != "folder":
            os.mkfifo(path) if kind == "pipe" else Path(path).touch()
        for _ in range(2):
            check_writable(path)
        os.chmod(folder, 0o555 if kind == "folder" else 0o777)
        if kind != "folder":
            os.chmod(path, 0o444)
        for call in (check_writable, partial(write, pieces=["new"])):
            said = unprivileged(lambda call=call: call(path))
            assert said.startswith("PermissionError")
            assert path in said
        os.chmod(folder, 0o700)
        assert os.listdir(folder) == [kind] * (kind != "folder")


@posix
@pytest.mark.parametrize("read", [False, True])
def test_what_is_no_regular_file_is_never_replaced(tmp_path, read):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if read else None
    with pytest.raises(OSError, match="pipe"), replacing(path):
        pass
    if reader is not None:
        os.close(reader)
    assert stat.S_ISFIFO(os.stat(path).st_mode)


def test_what_is_written_is_on_the_disk_before_it_takes_its_place(tmp_path, monkeypatch):
    def noted(name, function):
        monkeypatch.setattr(os, name, lambda *its: (calls.append(name), function(*its))[1])

    calls = []
    noted("fsync", os.fsync)
    noted("replace", os.replace)
    write(tmp_path / "file", ["x"])
    assert calls == ["fsync", "replace"]


@pytest.fixture(scope="module")
def left_name():
    """Return the name of what a process left that was killed while it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        code = (
            "import os, signal; from dagprofiler._util.files import write\n"
            "def pieces():\n"
            "    yield 'half'\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
            f"write({os.path.join(folder, 'file')!r}, pieces())\n"
        )
        done = subprocess.run([sys.executable, "-c", code], check=False)
        assert done.returncode == -signal.SIGKILL
        (name,) = os.listdir(folder)
    return name


@posix
@pytest.mark.parametrize("swept", [False, True])
def test_a_file_that_is_swept_before_it_is_locked_is_made_anew(tmp_path, monkeypatch, swept):
    def lock(descriptor):
        monkeypatch.undo()
        if not swept:
            # Another process has just locked it, to remove it.
            raise BlockingIOError
        files._sweep(tmp_path)
        files._lock(descriptor)

    monkeypatch.setattr(files, "_lock", lock)
    with temporary(str(tmp_path)) as file:
        assert os.path.exists(file.name)


@posix
def test_only_what_processes_of_this_user_and_host_left_is_swept(tmp_path, left_name):
    elsewhere = re.sub(r"\w{8}\.tmp$", "00000000.tmp", left_name)
    kept = {elsewhere, ".dagprofiler-x.tmp", f"my{left_name}", "outside"}
    link, pipe, folder, others = (left_name.replace("-", f"-{i}") for i in range(4))
    if os.geteuid() == 0:
        kept.add(others)
    for name in kept:
        (tmp_path / name).write_text("kept")
    if os.geteuid() == 0:
        os.chown(tmp_path / others, 1234, -1)
    (tmp_path / link).symlink_to("outside")
    os.mkfifo(tmp_path / pipe)
    (tmp_path / folder).mkdir()
    write(tmp_path / "file", ["x"])
    assert set(os.listdir(tmp_path)) == {*kept, link, pipe, folder, "file"}


@posix
@pytest.mark.parametrize("error", [ImportError, OSError])
def test_without_locks_files_are_written_and_nothing_is_swept(
    tmp_path, monkeypatch, error, left_name
):
    def lock(_):
        raise error

    monkeypatch.setattr(files, "_lock", lock)
    (tmp_path / left_name).write_text("half")
    write(tmp_path / "file", ["x"])
    assert contents(tmp_path) == {"file": "x", left_name: "half"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folder of a user, which is that of temporary files, too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def test_a_second_place_has_a_name_drawn_at_random_and_only_its_owner_opens_it(home):
    first, second = (second_place(lambda stream: stream.write(b"x")) for _ in range(2))
    assert first != second
    assert os.path.dirname(first) == str(home)
    assert Path(first).read_bytes() == b"x"
    if os.name == "posix":
        assert mode_of(first) == 0o600


def test_a_second_place_is_looked_for_until_there_is_room(home, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(home / "nowhere"))
    tried = []

    def save(stream):
        tried.append(stream)
        if not list(home.iterdir()):
            raise OSError("no room")
        stream.write(b"x")

    path = second_place(save)
    assert os.listdir(home) == [os.path.basename(path)]
    assert len(tried) == (2 if os.path.isdir("/dev/shm") else 1)


def test_a_new_file_holds_exactly_the_text_and_its_name_is_returned_however_long(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ("n" * 250 + ".json")
    try:
        path.touch()
        path.unlink()
    except OSError:
        pytest.skip("this file system takes no names of 255 characters")
    assert write(path, ["a\n", "b\n"]) == str(path)
    assert write(path.name, ["a\n", "c\n"]) == path.name
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"a\nc\n", [path.name])


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()])
def test_an_error_halfway_leaves_the_old_file_and_nothing_else(home, error):
    def fails():
        yield "half of the new"
        raise error

    path = home / "file.json"
    path.write_text("old")
    for save in (lambda: write(path, fails()), lambda: second_place(lambda _: [*fails()])):
        with pytest.raises(type(error)) as caught:
            save()
        assert caught.value is error
    assert contents(home) == {"file.json": "old"}


@posix
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0, 0o666)])
def test_a_new_file_has_the_permissions_that_the_umask_gives(tmp_path, mask, mode):
    with umask(mask):
        write(tmp_path / "file.json", ["x"])
    assert mode_of(tmp_path / "file.json") == mode


@posix
def test_a_symbolic_link_to_nothing_gets_its_target_unless_that_is_itself(tmp_path):
    link, loop = tmp_path / "link", tmp_path / "loop"
    link.symlink_to("later.json")
    write(link, ["new"])
    assert link.is_symlink()
    assert (tmp_path / "later.json").read_text() == "new"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links"):
        write(loop, ["new"])
    assert sorted(os.listdir(tmp_path)) == ["later.json", "link", "loop"]


def test_text_and_binary_streams_get_what_they_take(tmp_path):
    text, binary, encoded = io.StringIO("at its end: "), io.BytesIO(), io.BytesIO()
    text.seek(0, io.SEEK_END)
    assert write(text, ["a", "b"]) == write(binary, ["a", "b"]) == ""
    write(codecs.getwriter("utf-16-le")(encoded), ["a", "b"])
    assert (text.getvalue(), binary.getvalue()) == ("at its end: ab", b"ab")
    assert encoded.getvalue() == "ab".encode("utf-16-le")
    path = tmp_path / "file"
    for mode in ("w", "wb", "w+b"):
        with open(path, mode, **({} if "b" in mode else {"encoding": "ascii"})) as stream:
            assert write(stream, [mode]) == str(path)
            assert not stream.closed
        assert path.read_text() == mode
    with open(path, "wb", buffering=0) as raw:
        write(raw, ["raw"])
    assert path.read_text() == "raw"
    for kind in (tempfile.TemporaryFile, tempfile.SpooledTemporaryFile):
        for mode in ("w+", "w+b"):
            with kind(mode=mode) as stream:
                write(stream, ["{", "}"])
                stream.seek(0)
                assert parse(read(stream)) == {}


class Slow(io.RawIOBase):
    """A stream that takes a few bytes at a time while there is room, as an unbuffered pipe may."""

    def __init__(self, room):
        self.taken, self.room = b"", room

    def writable(self):
        return True

    def write(self, data):
        if self.room < 0:
            raise OSError("no room")
        part = bytes(memoryview(data)[:7])
        self.taken += part
        return len(part) if len(self.taken) <= self.room + 7 else None


@pytest.mark.parametrize(
    ("room", "error"), [(sys.maxsize, None), (-1, OSError), (10, BlockingIOError)]
)
def test_a_raw_stream_gets_everything_or_is_an_error_and_stays_open(room, error):
    stream, pieces = Slow(room), ["some text\n" * 3000, "é\n", "the end\n"]
    with nullcontext() if error is None else pytest.raises(error):
        write(stream, pieces)
    assert (stream.taken.decode() == "".join(pieces)) == (error is None)
    assert not stream.closed
