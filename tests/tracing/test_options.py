from __future__ import annotations

import os

import pytest

from dagprofiler import TraceError
from dagprofiler.tracing import Options, configure
from dagprofiler.tracing._process import from_environment


def name_of(options, **process):
    process = {"hostname": "h", "pid": 7, "child": False, **process}
    return os.path.basename(options.path(process.pop("hostname"), process.pop("pid"), **process))


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (None, {}),
        ("", {}),
        ("name=solver", {"name": "solver"}),
        ("log-dir=/tmp/traces", {"directory": "/tmp/traces"}),
        ("log-enable=False", {"enable": False}),
        ("log-enable=true:cpu-mem-usage=TRUE", {"enable": True, "cpu_mem_usage": True}),
        ("log-event=Verbose", {"events": "verbose"}),
        ("log-event=compact:log-format=object", {"events": "compact"}),
        ("log-format=Array:caliper-enable=False", {}),
        (
            "log-filename-include=hostname,pid,name",
            {"filename_include": ("hostname", "pid", "name")},
        ),
        ("name=a::log-dir=b:", {"name": "a", "directory": "b"}),
    ],
)
def test_options_are_read_as_perfflowaspect_reads_them(text, given):
    assert from_environment(text) == (Options(**given), [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("log-enable=no", "log-enable='no': expected true or false"),
        ("log-event=chatty", "log-event='chatty': expected compact or verbose"),
        ("log-enabel=False", "option 'log-enabel' is not known; did you mean 'log-enable'?"),
        ("log-format=csv", "log-format='csv': expected array or object"),
        (
            "caliper-enable=True",
            "caliper-enable=True: there is no Caliper here; spans are recorded without it",
        ),
        ("caliper-enable=on", "caliper-enable='on': expected true or false"),
        ("hello", "'hello': expected option=value"),
        ("a=b=c", "'a=b=c': expected option=value"),
        ("log-filename-include=host", "log-filename-include: 'host' is not known"),
    ],
)
def test_what_is_wrong_is_said_and_passed_over(text, problem):
    options, problems = from_environment(f"name=a:{text}")
    assert problems == [problem]
    assert options.name == "a"
    assert options.enable


def test_files_go_where_the_environment_says_whatever_else_is_wrong_in_it(traced):
    program = "from dagprofiler import span\nwith span('a'): pass\nprint('done')\n"
    options = "log-enable=Maybe:log-dir=deep/below:name=solver:log-filename-include=name"
    assert traced.run(program, options=options, check=False) == "done\n"
    (file,) = traced.files()
    assert file.relative_to(traced.folder).as_posix() == "deep/below/perfflow.solver.pfw"


def test_components_of_a_workflow_are_told_apart_by_where_they_were_started(traced):
    inner = "from dagprofiler import span; span('a').__enter__().__exit__(None, None, None)"
    program = f"import subprocess, sys\n{inner}\nsubprocess.run([sys.executable, '-c', {inner!r}])"
    traced.run(program, options="log-filename-include=instance-path")
    outer, within = sorted((file.name for file in traced.files()), key=len)
    path = outer[len("perfflow.{") : -len("}.pfw")]
    assert within.startswith(f"perfflow.{{{path}.")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "perfflow.h.7.pfw"),
        ({"filename_include": ()}, "perfflow.pfw"),
        ({"filename_include": ("name", "pid"), "name": "a"}, "perfflow.a.7.pfw"),
        ({"filename": "trace.json"}, "trace.json"),
    ],
)
def test_names_of_files(options, name):
    assert name_of(Options(**options)) == name


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "perfflow.h.7.pfw"),
        ({"filename_include": ("hostname",)}, "perfflow.h.7.pfw"),
        ({"filename": "trace.json"}, "trace.7.json"),
    ],
)
def test_a_child_tells_its_number_in_any_case(options, name):
    assert name_of(Options(**options), child=True) == name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"enable": 1}, "enable must be True or False, got 1"),
        ({"cpu_mem_usage": "yes"}, "cpu_mem_usage .* 'yes'"),
        ({"events": "verbos"}, "'compact' or 'verbose', got 'verbos'"),
        ({"events": None}, "events .* None"),
        ({"limit": 0}, "limit .* at least 1, got 0"),
        ({"limit": 1.5}, r"limit .* 1\.5"),
        ({"interval_s": 0}, "interval_s .* seconds above 0, got 0"),
        ({"interval_s": float("nan")}, "interval_s .* nan"),
        ({"filename_include": "pid"}, "filename_include='pid'"),
        ({"filename_include": ["host"]}, "filename_include="),
        ({"filename": "a/"}, "expected a file's name"),
        ({"filename": 3}, "filename=3"),
        ({"name": 3}, "name=3: expected text"),
        ({"directroy": "a"}, "'directroy' .*'directory'"),
        ({"directory": 3}, "directory=3: expected a path"),
        ({"filename_include": 3}, "filename_include=3"),
    ],
)
def test_options_that_make_no_sense_are_refused(traced, options, message):
    before = configure(limit=77, filename_include=["pid"])
    assert (before.limit, before.filename_include) == (77, ("pid",))
    with pytest.raises(TraceError, match=message):
        configure(**options)
    assert configure() == before
