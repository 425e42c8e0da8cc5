"""What a dozen small programs measure on a clock that ticks 1 ms at each reading.

``python golden_programs.py FOLDER`` writes what each program's profile holds, its exports and its
text, one file a program. Times are readings of the clock: they count how often it was read.
"""

import inspect
import io
import itertools
import json
import os
import platform
import random
import re
import sys
import tempfile
import time

_TICKS = itertools.count()


def _tick():
    return next(_TICKS) / 1000


time.perf_counter = _tick
time.process_time = time.thread_time = lambda: 0.0
platform.node = lambda: "-"
if hasattr(os, "uname"):
    _system, _, *_others = os.uname()
    os.uname = lambda: os.uname_result((_system, "-", *_others))

import numpy as np  # noqa: E402

import dagprofiler  # noqa: E402
from dagprofiler import DAG, Config, Journal, Task, Tracer, analyze, import_profile, rng, span, task  # noqa: E402
from dagprofiler.errors import RunError  # noqa: E402
from dagprofiler.rules import map_over, reduce  # noqa: E402

#: Differ from machine to machine, and from run to run.
_MASKED = {
    *("environment", "timestamp", "hostname", "dagprofiler_version", "workers", "host", "pid"),
    *("file", "id", "line", "thread", "gap_ms", "process_cpu_ms", "cpu_ms", "delay_ms"),
    *("corrected_ms", "reference_time_ms"),
}
_FORMATS = ("csv", "dot", "graphml", "mermaid", "node_link", "saga", "chrome_trace")
_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.]*(Z|[+]00:00)?|(?<=, Python )3[.][\d.]+"
    r"|(?<=  )/[^\n]+[.]py, line \d+|(?<=, pid )\d+|(?<=: \"thread )\d+"
)


@task(outputs=["x"], config_deps=["n"], estimate_fn=lambda cfg: 10 * cfg.n)
def source(cfg):
    return {"x": list(range(cfg.n))}


@task(inputs=["x"], outputs=["y"], estimate_fn=lambda cfg: 20)
def double(x):
    return {"y": [2 * v for v in x]}


@task(inputs=["x"], outputs=["z"])
def square(x):
    return {"z": [v * v for v in x]}


@task(inputs=["y", "z"], outputs=["total"])
def add(y, z):
    return {"total": sum(y) + sum(z)}


@task(inputs=["y"], outputs=["all"], gathers=["y"])
def gather(y):
    return {"all": y}


@task(inputs=["x"], outputs=["y"])
def fails(x):
    raise ValueError("no such cell")


@task(outputs=["x"])
def draws():
    return {"x": [random.getrandbits(8), int(np.random.randint(256)), int(rng().integers(256))]}


@task(inputs=["x"], outputs=["y"])
def traced(x):
    with span("inside", size=len(x)):
        return {"y": x}


@task(inputs=["x"], outputs=["parts"])
def split(x):
    return {"parts": x}


@task(inputs=["part"], outputs=["y"])
def work(part):
    return {"y": part + 1}


class Halve(Task):
    inputs = ["n"]
    outputs = ["n"]

    def compute(self, n=12):
        return {"n": n // 2}

    def grow(self, graph):
        if graph.this.output("n") > 1:
            graph.add_task(f"{graph.this.name}'", Halve, after=graph.this)


_DIAMOND = {"source": source, "double": double, "square": square, "add": add}
_EDGES = [("source", "double"), ("source", "square"), ("double", "add"), ("square", "add")]


def _diamond(**options):
    return DAG(_DIAMOND, _EDGES, Config(n=4), **options)


def static():
    return _diamond().run()


def gathered():
    edges = [("source", "a"), ("source", "b"), ("a", "all"), ("b", "all")]
    return DAG({"source": source, "a": double, "b": double, "all": gather}, edges, {"n": 2}).run()


def explicit_fields():
    edges = [("source", "double", {"x": "x"}), ("double", "last", ["y"])]
    return DAG({"source": source, "double": double, "last": gather}, edges, {"n": 3}).run()


def failing():
    tasks = {**_DIAMOND, "double": fails}
    try:
        DAG(tasks, _EDGES, {"n": 3}).run()
    except RunError as error:
        return error.profile
    raise AssertionError("it did not fail")


def seeded():
    return DAG({"a": draws, "b": draws}).run(seed=7, keep=["a", "b"])


def rounds():
    return _diamond().run(rounds=3, meters=[])


def grown():
    tasks = {"source": source, "split": split}
    rules = [map_over("split", "parts", work, into="part"), reduce("work", gather, name="all")]
    return DAG(tasks, [("source", "split")], {"n": 3}, rules=rules).run()


def grown_by_tasks():
    return DAG({"half": Halve}).run()


def resumed():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "journal")
        _diamond().run(hooks=[Journal(path)])
        return _diamond().resume(path)


def spans():
    tasks = {"source": source, "traced": traced}
    return DAG(tasks, [("source", "traced")], {"n": 2}).run(hooks=[Tracer()])


def imported():
    data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "wfformat")
    return import_profile(os.path.join(data, "v15.json"))


PROGRAMS = [
    *(static, gathered, explicit_fields, failing, seeded, rounds),
    *(grown, grown_by_tasks, resumed, spans, imported),
]


def masked(value):
    """Return a document without what differs from machine to machine."""
    if isinstance(value, dict):
        return {k: "-" if k in _MASKED else masked(v) for k, v in value.items()}
    return [masked(v) for v in value] if isinstance(value, list) else value


def told(profile):
    """Return all that is to be seen of a profile, as text."""
    document = masked(json.loads(profile.dumps()))
    pieces = [json.dumps(document, indent=1)]
    pieces += [f"outputs: {profile.outputs!r}, final: {profile.final_outputs!r}", str(profile)]
    pieces += [str(analyze(profile, cost="estimated", fill=1))]
    for name in _FORMATS:
        if name == "chrome_trace" and "timeline" not in profile.sections:
            continue
        stream = io.StringIO()
        options = {"cost": "estimated", "fill": 1} if name != "chrome_trace" else {}
        if name == "saga":
            options["fill_size"] = 8
        profile.export(stream, name, **options)
        pieces += [f"--- {name}", stream.getvalue()]
    return _STAMP.sub("-", "\n".join(pieces) + "\n")


def signatures():
    """Return the signature of every public function, class and method."""
    lines = []
    for name in dagprofiler.__all__:
        value = getattr(dagprofiler, name)
        if not callable(value):
            continue
        lines.append(_signature(name, value))
        if isinstance(value, type) and not issubclass(value, Exception):
            # What a profile has as data is in a base class.
            bases = [base for base in value.__mro__ if base.__name__ == "ProfileData"]
            members = {name: part for kind in (*bases, value) for name, part in vars(kind).items()}
            for method, function in sorted(members.items()):
                if not method.startswith("_") and callable(getattr(value, method)):
                    lines.append("    " + _signature(method, getattr(value, method)))
                elif not method.startswith("_") and isinstance(function, property):
                    lines.append(f"    {method}")
    return "\n".join(lines) + "\n"


def _signature(name, value):
    try:
        return f"{name}{inspect.signature(value)}"
    except ValueError:
        return name


def main(folder):
    with open(os.path.join(folder, "signatures.txt"), "w", encoding="utf-8") as file:
        file.write(signatures())
    for program in PROGRAMS:
        with open(os.path.join(folder, f"{program.__name__}.txt"), "w", encoding="utf-8") as file:
            file.write(told(program()))


if __name__ == "__main__":
    main(sys.argv[1])
