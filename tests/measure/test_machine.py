import json
import os
import platform
import shutil
import subprocess
import sys

import numpy as np
import pytest

from dagprofiler import DAG
from dagprofiler.engine.log import environment
from dagprofiler.measure import machine
from dagprofiler.measure.machine import ask_git, command_line
from dagprofiler.schema import inlined_schema, quick_valid


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is nobody else to ask")
def test_a_run_learns_of_its_machine_without_process_or_numpy():
    code = """if True:
        import os, sys
        from dagprofiler import DAG
        from dagprofiler.engine.log import environment
        os.environ["MALLOC_TRIM_THRESHOLD_"] = "65536"
        told = environment(thorough=True)
        print(told["allocator_settings"], told["blas_threads"], told["versions"]["numpy"])
        print("numpy" in sys.modules)
        events = []
        sys.addaudithook(lambda event, _: events.append(event))
        DAG({}).run(rounds=2)
        print({"subprocess.Popen", "os.fork", "os.posix_spawn"}.intersection(events))
        import numpy
        print(environment(thorough=True)["blas_threads"])
    """
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    told = subprocess.check_output([sys.executable, "-c", code], env=env, text=True)
    *lines, threads = told.splitlines()
    # Settings of the allocator are those at the start.
    assert lines == ["{'MALLOC_ARENA_MAX': '2'} None None", "False", "set()"]
    # Not every build of numpy has OpenBLAS.
    assert threads in ("1", "None")


def test_the_environment_tells_interpreter_system_and_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = environment()
    told.pop("command", None)
    assert " ".join(told) == (
        "python implementation os machine cpu cpu_mhz memory_bytes cores cores_usable "
        "thread_settings allocator_settings versions"
    )
    expected = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "os": f"{platform.system()}-{platform.release()}-{platform.machine()}",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": {"numpy": np.__version__},
    }
    assert expected.items() <= json.loads(json.dumps(told)).items()
    assert told["cpu"] is None or isinstance(told["cpu"], str)
    if sys.platform == "linux":
        with open("/proc/meminfo", encoding="utf-8") as lines:
            assert told["memory_bytes"] == int(next(lines).split()[1]) * 1024
    # What a caller changes stays with the caller.
    told["versions"]["numpy"] = told["python"] = "1.0"
    assert expected.items() <= environment().items()


def test_what_takes_time_to_find_is_told_on_request():
    thorough = environment(thorough=True)
    assert set(thorough) - set(environment()) == {"cores_quota", "blas_threads"}
    assert thorough["versions"]["pytest"] == pytest.__version__
    document = DAG({}).run().to_dict()
    assert environment().items() <= document["environment"].items()
    host = document["timeline"]["workers"][0]["host"]
    assert document["metadata"]["hostname"] == host == platform.node() != ""
    assert json.loads(json.dumps(thorough)) == thorough
    described = inlined_schema()["properties"]["environment"]
    assert quick_valid(thorough, described)
    assert set(thorough) <= set(described["properties"])


def test_cores_and_settings_of_threads_are_told_as_they_are_set(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert environment()["cores_usable"] == 1
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert environment()["cores_usable"] is None
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    settings = environment()["thread_settings"]
    assert " ".join(settings) == (
        "OPENBLAS_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_THREAD_TIMEOUT"
    )
    assert (settings["OMP_NUM_THREADS"], settings["MKL_NUM_THREADS"]) == ("4,2", None)


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Return a dict of the files that seem to exist: path to text."""
    texts = {}

    def opened(path, **how):
        if path not in texts:
            raise FileNotFoundError(path)
        (tmp_path / "file").write_text(texts[path])
        return (tmp_path / "file").open(**how)

    monkeypatch.setattr(machine, "open", opened, raising=False)
    return texts


def told_anew():
    return machine.machine.__wrapped__()


def test_the_processor_is_what_linux_or_the_platform_says(files, monkeypatch):
    for name in ("Z80", ""):
        monkeypatch.setattr(platform, "processor", lambda name=name: name)
        assert told_anew()["cpu"] == (name or None)

    def told(text):
        files["/proc/cpuinfo"] = text
        environment = told_anew()
        return environment["cpu"], environment["cpu_mhz"]

    first = "processor\t: 0\nmodel name\t: EPYC 9000: fast\ncpu MHz\t\t: 2599.998\n\n"
    assert told(first + "model name\t: Z\ncpu MHz\t: 1\n") == ("EPYC 9000: fast", 2599.998)
    for text in ("model name\t:\n", "processor\t: 0\n", "cpu MHz\t: unknown\n"):
        assert told(text) == (None, None)
    # The highest frequency comes before the one of the moment.
    files["/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"] = "3500000\n"
    assert told("cpu MHz\t: 800.000\n") == (None, 3500.0)


VERSION_1 = {"cpu/cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(
    ("groups", "limits", "quota"),
    [
        ("", {}, None),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),
        # The tightest of those around it counts.
        ("0::/a/b", {"a/b/cpu.max": "max 1", "a/cpu.max": "5 10", "cpu.max": "40 10"}, 0.5),
        # Version 1, in a container and without a quota.
        (
            "4:memory:/a\n1:cpu,cpuacct:/docker/1f\n0::/",
            {**VERSION_1, "cpu/cpu.cfs_quota_us": "200000", "a/cpu.max": "1 100000"},
            2.0,
        ),
        ("1:cpu:/", {**VERSION_1, "cpu/cpu.cfs_quota_us": "-1"}, None),
    ],
)
def test_the_tightest_quota_of_the_control_groups_counts(files, groups, limits, quota):
    files.update({f"/sys/fs/cgroup/{name}": f"{text}\n" for name, text in limits.items()})
    if groups:
        files["/proc/self/cgroup"] = f"{groups}\n"
    assert machine.cores_quota.__wrapped__() == quota


def repository(folder, how):
    """Make a git repository with one commit; return its hash."""

    def git(*words):
        own = ["-c", "user.name=x", "-c", "user.email=x@y.z"]
        command = ["git", "-C", str(folder), *own, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    (folder / "code.py").write_text("1", encoding="utf-8")
    git("add", ".")
    git("commit", "--quiet", "--message=first")
    if how == "packed":
        git("pack-refs", "--all")
    elif how == "detached":
        git("checkout", "--quiet", "--detach")
    return git("rev-parse", "HEAD")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("how", ["loose", "packed", "detached"])
def test_the_commit_is_that_of_the_current_directory(tmp_path, monkeypatch, how):
    commit = repository(tmp_path, how)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert environment()["git"] == {"commit": commit}
    (tmp_path / "not tracked").touch()
    ask_git()
    assert environment()["git"] == {"commit": commit, "clean": True}
    (tmp_path / "code.py").write_text("2", encoding="utf-8")
    ask_git()
    profile = DAG({}).run()
    assert profile.sections["environment"]["git"] == {"commit": commit, "clean": False}
    assert f"commit {commit[:10]} with changes" in str(profile)


def test_a_commit_is_unknown_without_a_repository_or_git(tmp_path, monkeypatch):
    (tmp_path / "broken" / ".git").mkdir(parents=True)
    for folder, path in ((tmp_path, os.environ["PATH"]), (tmp_path / "broken", "")):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PATH", path)
        ask_git()
        assert "git" not in environment()


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/usr/bin/dagprofiler", "run", "a b.py"], "dagprofiler run 'a b.py'"),
        (["/x/dagprofiler/__main__.py", "run"], "python -m dagprofiler run"),
        (["some/program.py", "-n", "3"], "some/program.py -n 3"),
        (["/x/ipykernel_launcher.py", "-f", "key"], None),
        (["-c"], None),
    ],
)
def test_the_command_line_is_that_of_the_program(monkeypatch, argv, expected):
    monkeypatch.setattr(sys, "argv", argv)
    assert command_line.__wrapped__() == expected
