import os

import pytest

from dagprofiler import TraceError
from dagprofiler.tracing import Options, configure
from dagprofiler.tracing._perfflow import from_environment


@pytest.mark.parametrize(
    ("text", "given", "problem"),
    [
        ("", {}, None),
        ("name=solver", {"name": "solver"}, None),
        ("log-dir=/tmp/traces", {"directory": "/tmp/traces"}, None),
        ("log-enable=False", {"enable": False}, None),
        ("log-enable=true:cpu-mem-usage=TRUE", {"enable": True, "cpu_mem_usage": True}, None),
        ("log-event=Verbose", {"events": "verbose"}, None),
        ("log-format=Array:caliper-enable=False", {}, None),
        ("log-filename-include=pid,name", {"filename_include": ["pid", "name"]}, None),
        # Mistakes are reported and ignored.
        ("log-enable=no:name=a", {"name": "a"}, "log-enable=no: enable must be True or False"),
        ("log-event=chatty", {}, "log-event=chatty: events must be 'compact' or 'verbose'"),
        ("log-enabel=False", {}, "got 'log-enabel'; did you mean 'log-enable'?"),
        ("log-filename-include=host", {}, "filename_include must be 'name',"),
    ],
)
def test_options_read_as_perfflowaspect_reads_them(text, given, problem):
    options, problems = from_environment(text)
    assert options == Options(**given)
    assert len(problems) == (problem is not None)
    assert (problem or "") in "".join(problems)


def test_a_mistake_in_the_environment_changes_nothing_else(traced):
    options = "log-enable=Maybe:log-dir=deep/below:name=solver:log-filename-include=name"
    traced.run("from dagprofiler import span\nwith span('a'): pass", options=options, check=False)
    names = [file.relative_to(traced.folder).as_posix() for file in traced.files()]
    assert names == ["deep/below/perfflow.solver.pfw"]


def test_instance_paths_tell_apart_components_of_a_workflow(traced):
    inner = "from dagprofiler import span; span('a').__enter__().__exit__(None, None, None)"
    program = f"import subprocess, sys\n{inner}\nsubprocess.run([sys.executable, '-c', {inner!r}])"
    traced.run(program, options="log-filename-include=instance-path")
    outer, within = sorted((file.name for file in traced.files()), key=len)
    path = outer[len("perfflow.{") : -len("}.pfw")]
    assert within.startswith(f"perfflow.{{{path}.")


@pytest.mark.parametrize(
    ("options", "name", "of_child"),
    [
        ({}, "perfflow.h.7.pfw", "perfflow.h.7.pfw"),
        ({"filename_include": ()}, "perfflow.pfw", "perfflow.7.pfw"),
        ({"filename_include": ("hostname",)}, "perfflow.h.pfw", "perfflow.h.7.pfw"),
        ({"filename_include": ("name", "pid"), "name": "a"}, *["perfflow.a.7.pfw"] * 2),
        ({"filename": "trace.json"}, "trace.json", "trace.7.json"),
    ],
)
def test_file_names_have_what_was_requested(options, name, of_child):
    for child in (False, True):
        path = Options(**options).path("h", 7, child=child)
        assert os.path.basename(path) == (of_child if child else name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"enable": 1}, "enable .* got 1"),
        ({"events": "verbos"}, "events .*'verbos'"),
        ({"limit": 0}, "limit .* 0"),
        ({"interval_s": 0}, "interval_s .* 0"),
        ({"filename_include": ["host"]}, "filename_include .* got 'host'"),
        ({"directroy": "a"}, "got 'directroy'; did you mean 'directory'"),
    ],
)
def test_configure_names_the_invalid_option(traced, options, message):
    before = configure(limit=77, filename_include=["pid"])
    assert (before.limit, before.filename_include) == (77, ["pid"])
    with pytest.raises(TraceError, match=message):
        configure(**options)
    assert configure() == before
