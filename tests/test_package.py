import inspect
import re
import subprocess
import sys
import types
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest

import dagprofiler
from dagprofiler.task import Task as TaskFromItsModule

ROOT = Path(__file__).resolve().parent.parent

PUBLIC = {*(ROOT / "tests" / "data" / "public-names.txt").read_text().split()}


def python(code, *options):
    """Return what a fresh interpreter prints."""
    return subprocess.check_output([sys.executable, *options, "-c", code], text=True).strip()


def test_public_names_are_these_and_have_docstrings():
    assert set(dagprofiler.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(dagprofiler, name).__doc__, name
    assert files("dagprofiler").joinpath("py.typed").is_file()
    assert not hasattr(dagprofiler, "nothing")
    code = "from dagprofiler import *; print(*sorted(n for n in dir() if n != '__builtins__'))"
    names = set(python(code).split())
    assert names - {n for n in names if n.startswith("__")} == PUBLIC - {"__version__"}


def test_the_names_of_the_standard_are_where_it_puts_them():
    homes = {"config": "Config", "profile": "Profile", "decorators": "task"}
    homes = [*homes.items(), *(("metrics", f"{of}Metrics") for of in ("DAG", "Edge", "Task"))]
    for module, name in homes:
        found = getattr(import_module(f"dagprofiler.{module}"), name)
        assert found is getattr(dagprofiler, name)


def test_the_function_task_hides_only_the_name_of_its_module():
    assert inspect.isfunction(dagprofiler.task)
    assert isinstance(sys.modules["dagprofiler.task"], types.ModuleType)
    assert TaskFromItsModule is dagprofiler.Task
    code = "from dagprofiler.task import Task; import dagprofiler; print(dagprofiler.task)"
    assert python(code).startswith("<function task")
    code = "import dagprofiler.task; print(dagprofiler.task)"
    assert python(code).startswith("<function task")


def test_a_run_without_arrays_loads_no_other_package(tmp_path):
    code = f"""
import sys
import dagprofiler.schema, dagprofiler.serializers
from dagprofiler import DAG, Config, Profile, task

@task(inputs=[], outputs=["x"])
def one(cfg):
    return {{"x": cfg.N}}

path = {str(tmp_path / "profile.json")!r}
DAG({{"one": one}}, [], Config(N=5)).run().save(path)
assert Profile.load(path).config == {{"N": 5}}
heavy = "numpy jsonschema yaml msgpack cloudpickle pyarrow hypothesis statistics fractions"
print(sorted({{*heavy.split()}} & sys.modules.keys()))
"""
    assert python(code, "-W", "error") == "[]"


def test_every_module_imports_without_the_extras():
    code = """
import sys
from importlib import import_module
from pkgutil import walk_packages
hidden = "dask distributed celery ray networkx hamilton yaml msgpack cloudpickle pyarrow IPython"
hidden += " opentelemetry rich shtab pandas polars matplotlib"
sys.modules.update(dict.fromkeys(hidden.split()))
import dagprofiler
for module in walk_packages(dagprofiler.__path__, "dagprofiler."):
    try:
        if not module.name.endswith("__main__"):
            import_module(module.name)
    except dagprofiler.MissingExtraError as error:
        print(module.name, error.extra)
"""
    assert python(code) == "dagprofiler.executors.celery_worker celery"


def test_the_version_stands_in_one_place():
    sources = [ROOT / "pyproject.toml", *(ROOT / "dagprofiler").rglob("*.py")]
    assert len(sources) > 10
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", dagprofiler.__version__)
    holders = [path for path in sources if dagprofiler.__version__ in path.read_text("utf-8")]
    assert holders == [ROOT / "dagprofiler" / "_version.py"]
    assert holders[0].read_text("utf-8").count(dagprofiler.__version__) == 1


@pytest.mark.external
def test_mypy_strict_accepts_a_program_that_uses_the_public_api(tmp_path):
    pytest.importorskip("mypy")
    program = ROOT / "tests" / "data" / "typed_program.py"
    options = ["--strict", "--cache-dir", str(tmp_path / "cache"), "--config-file", ""]
    command = [sys.executable, "-m", "mypy", *options, str(program)]
    checked = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False)
    assert checked.stdout.strip() == "Success: no issues found in 1 source file"


STEPS = """
from dagprofiler import task

@task(outputs=["x"], config_deps=["n"])
def make(cfg):
    return {"x": [1] * cfg.n}

@task(inputs=["x"], outputs=["y"])
def total(x):
    return {"y": sum(x)}
"""

#: Hides in each process, also of the pool, what Windows lacks, before anything is imported.
WITHOUT_POSIX = """
import os, signal, sys
sys.modules.update(dict.fromkeys("fcntl grp pty pwd resource termios tty".split()))
for module, names in {
    os: "fork getloadavg killpg mkfifo posix_fallocate register_at_fork sched_getaffinity "
        "sched_setaffinity setsid statvfs sysconf wait4",
    signal: "SIGALRM SIGHUP SIGKILL pthread_kill pthread_sigmask setitimer",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from dagprofiler import DAG, Journal, Profile
from steps import make, total

if __name__ == "__main__":
    dag = DAG({"make": make, "total": total}, [("make", "total")], {"n": 3})
    dag.run(rounds=3, seed=1, meters="full", hooks=[Journal("journal")])
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        dag.run(rounds=3, executor=pool).save("p.json.gz")
    Profile.load("p.json.gz").report("report.html")
"""


def test_runs_pools_journals_and_reports_work_without_posix(tmp_path):
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "program.py").write_text(WITHOUT_POSIX)
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True)
    assert (tmp_path / "report.html").stat().st_size > 10_000
