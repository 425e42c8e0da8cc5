from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import numpy as np

from dagprofiler import DAG, machine
from dagprofiler.machine import environment, hostname


def test_the_environment_tells_the_interpreter_the_system_and_the_machine():
    told = environment()
    assert list(told) == ["python", "implementation", "os", "machine", "cpu", "cores", "versions"]
    assert told["python"] == platform.python_version()
    assert told["implementation"] == platform.python_implementation()
    assert told["os"] == platform.platform()
    assert told["machine"] == platform.machine()
    assert told["cores"] == os.cpu_count()
    assert told["cpu"] is None or isinstance(told["cpu"], str)
    assert json.loads(json.dumps(told)) == told


def test_a_package_that_is_loaded_has_its_version():
    assert environment()["versions"] == {"numpy": np.__version__}


def test_a_package_that_is_not_loaded_has_none_and_is_not_loaded_for_that():
    code = (
        "import sys; from dagprofiler.machine import environment; "
        "print(environment()['versions'], 'numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "{'numpy': None} False"


def test_what_a_caller_changes_stays_with_the_caller():
    environment()["python"] = "1.0"
    environment()["versions"]["numpy"] = "1.0"
    assert environment()["python"] == platform.python_version()
    assert environment()["versions"]["numpy"] == np.__version__


def test_the_processor_is_read_from_what_linux_says(tmp_path, monkeypatch):
    def told(text):
        path = tmp_path / "cpuinfo"
        path.write_text(text)
        monkeypatch.setattr(machine, "open", lambda _, **how: path.open(**how), raising=False)
        return machine._cpu_model()

    assert told("processor\t: 0\nmodel name\t: EPYC 9000: fast\nmodel name\t: Z\n") == (
        "EPYC 9000: fast"
    )
    assert told("model name\t:\n") is None
    assert told("processor\t: 0\nBogoMIPS\t: 50.00\n") is None


def test_where_linux_says_nothing_the_platform_is_asked(monkeypatch):
    def nowhere(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(machine, "open", nowhere, raising=False)
    monkeypatch.setattr(platform, "processor", lambda: "Z80")
    assert machine._cpu_model() == "Z80"
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert machine._cpu_model() is None


def test_the_hostname_is_that_of_the_system():
    assert hostname()
    assert hostname() == platform.node()


def test_the_hostname_is_known_where_there_is_no_uname(monkeypatch):
    monkeypatch.delattr(os, "uname", raising=False)
    assert hostname() == platform.node()


def test_a_run_notes_the_hostname_and_the_environment():
    document = DAG({}).run().to_dict()
    assert document["environment"] == environment()
    assert document["metadata"]["hostname"] == hostname()
    assert document["timeline"]["workers"][0]["host"] == hostname()
