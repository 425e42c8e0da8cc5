import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_runner import command

from dagprofiler.cli import main

PIPELINE = '''\
"""A small DAG, as users write one."""

import os, time

from dagprofiler import DAG, Config, task
from dagprofiler.rules import map_over

@task(outputs=["numbers"], config_deps=["N"])
def read(cfg):
    return {"numbers": list(range(cfg.N))}

@task(inputs=["numbers"], outputs=["total"])
def add(numbers):
    return {"total": sum(numbers)}

@task(inputs=["total"], outputs=["answer"], config_deps=["factor", "extra"])
def show(total, cfg):
    return {"answer": total * cfg.factor}

def build(n: int = 100, factor=2.0):
    tasks = {"read": read, "add": add, "show": show}
    config = Config(N=n, factor=factor, names=["a"], on=True, label="x", model=object())
    return DAG(tasks, [("read", "add"), ("add", "show")], config)

def adding():
    return DAG({"read": read, "add": add}, [("read", "add")], {"N": 3})

def needs(size):
    return build(size)

def broken():
    raise ValueError("no such cell")

def not_one():
    return 3

@task(inputs=["numbers"], outputs=["total"])
def fails(numbers):
    if len(numbers) < 9 and not os.path.exists("go"):
        raise ValueError("no such cell")
    return {"total": 0}

def failing():
    return DAG({"read": read, "fails": fails}, [("read", "fails")], {"N": 3})

@task(inputs=["numbers"], outputs=["total"])
def waits(numbers):
    time.sleep(60)

def waiting():
    tasks = {"read": read, "waits": waits, "add": add}
    return DAG(tasks, [("read", "waits"), ("read", "add")], {"N": 3})

def unlike():
    longer = task(outputs=["numbers"])(lambda seen=[]: {"numbers": seen.append([]) or seen})
    return DAG({"read": longer}, [], {"N": 3}, rules=[map_over("read", "numbers", add)])

dag = build()

if __name__ == "__main__":
    raise SystemExit("the guard was not kept")
'''


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """Return a folder with a pipeline, and profiles of it that tests read."""
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "pipeline_of_tests.py").write_text(PIPELINE, encoding="utf-8")
    target = "pipeline_of_tests.py:dag"
    profile = folder / "profile.json"
    done = command("run", target, "--rounds", "7", "--seed", "1", "-o", profile, cwd=folder)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(folder=folder, target=target, profile=str(profile), first=done)


@pytest.fixture
def cli(shelf, monkeypatch, capsys):
    """Return a function that runs a command here, in the folder of the shelf."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(shelf.folder)

    def run(*arguments, code=0):
        given = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert given == code, captured
        return SimpleNamespace(out=captured.out, err=captured.err)

    yield run
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(shelf.folder.parent)):
            del sys.modules[name]


@pytest.fixture
def refused(cli):
    """Return a function that runs a command which is refused; it returns its one line."""

    def run(*arguments, code=2):
        # Below it may be the place of a failure.
        lines = cli(*arguments, code=code).err.splitlines()
        lines = [line for line in lines if not line.startswith("  ")]
        assert len(lines) == 1, lines
        assert lines[0].startswith("dagprofiler: ")
        return lines[0][len("dagprofiler: ") :]

    return run


@pytest.fixture
def folder(shelf):
    """Return a new folder beside the shelf's files."""
    with tempfile.TemporaryDirectory(dir=shelf.folder) as path:
        yield path


@pytest.fixture
def written(folder):
    """Return a function that writes a file into the folder, and returns its path."""

    def write(name, text):
        path = Path(folder, name)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write
