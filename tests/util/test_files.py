import os
import signal
import stat
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
from handmade import source
from platforms import posix
from processes import umask

from dagprofiler import DAG
from dagprofiler._util.files import second_place, write


def contents(folder):
    """Return the texts of the files in a folder, by their names."""
    return {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


#: Whatever writes a file that a user names.
WRITERS = {
    "save": lambda profile, path: profile.save(path),
    "export": lambda profile, path: profile.export(path, "dot"),
    "report": lambda profile, path: profile.report(path),
    "draw": lambda profile, path: profile.draw().save(path),
}


@pytest.fixture(params=WRITERS)
def writer(request):
    return partial(WRITERS[request.param], DAG({"source": source}).run())


@posix
def test_a_file_is_replaced_behind_links_and_keeps_its_mode(writer, tmp_path):
    target, link, second = tmp_path / "data" / "file", tmp_path / "link", tmp_path / "second"
    target.parent.mkdir()
    target.write_text("@ old @" * 10_000)
    target.chmod(0o642)
    link.symlink_to(Path("data") / "file")
    second.symlink_to(link)
    with umask(0o077):
        writer(second)
    assert "@ old @" not in target.read_text(encoding="utf-8")
    assert (os.readlink(link), os.readlink(second)) == (os.path.join("data", "file"), str(link))
    assert mode_of(target) == 0o642
    assert os.listdir(target.parent) == ["file"]
    (tmp_path / "new").symlink_to(Path("data") / "later")
    with umask(0o027):
        writer(tmp_path / "new")
    assert mode_of(target.parent / "later") == 0o640


@pytest.mark.parametrize("name", ["file.json/", "", ".", "nowhere/new"])
def test_writers_raise_the_systems_error(writer, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("file.json").write_text("old")
    with pytest.raises((NotADirectoryError, IsADirectoryError, FileNotFoundError)) as caught:
        writer(name)
    assert caught.value.filename == name
    assert contents(tmp_path) == {"file.json": "old"}


@posix
def test_a_pipe_is_written_to(writer, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as reader:
        writer(path)
        assert len(reader.stdout.read()) > 100
    assert stat.S_ISFIFO(os.stat(path).st_mode)


def test_files_are_synced_before_they_are_replaced(tmp_path, monkeypatch):
    def noted(name, function):
        monkeypatch.setattr(os, name, lambda *its: (calls.append(name), function(*its))[1])

    calls = []
    noted("fsync", os.fsync)
    noted("replace", os.replace)
    write(tmp_path / "file", ["x"])
    assert calls == ["fsync", "replace"]


@posix
def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    code = (
        "import os, signal; from dagprofiler._util.files import write\n"
        "def pieces():\n"
        "    yield 'half'\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"write({str(path)!r}, pieces())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()])
def test_an_error_halfway_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    def fails():
        yield "half of the new"
        raise error

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "file.json"
    path.write_text("old")
    for save in (lambda: write(path, fails()), lambda: second_place(lambda _: [*fails()])):
        with pytest.raises(type(error)) as caught:
            save()
        assert caught.value is error
    assert contents(tmp_path) == {"file.json": "old"}


def test_write_returns_the_name_of_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ("n" * 250 + ".json")
    assert write(path, ["a\n", "b\n"]) == str(path)
    assert write(path.name, ["a\n", "c\n"]) == path.name
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"a\nc\n", [path.name])
    assert write(os.fsencode(path), ["x"]) == str(path)
