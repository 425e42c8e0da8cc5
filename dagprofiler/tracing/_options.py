"""Options of the trace of a process, and how ``PERFFLOW_OPTIONS`` sets them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Callable

from dagprofiler._util.checks import boolean, choice, integer, number
from dagprofiler.errors import TraceError, did_you_mean, listed, short_repr

_PARTS = ("name", "instance-path", "hostname", "pid")


@dataclass(frozen=True)
class Options:
    """How the trace of a process is written.

    Attributes
    ----------
    enable
        Whether anything is recorded.
    directory
        Where files are written; created if missing.
    name
        Name of this part of a workflow.
    filename_include
        Parts of a file's name between ``perfflow`` and ``.pfw``: any of ``"name"``,
        ``"instance-path"``, ``"hostname"`` and ``"pid"``.
    filename
        A custom file name instead.
    cpu_mem_usage
        Whether CPU usage and memory are sampled when spans end.
    events
        ``"compact"``: one event for each span; ``"verbose"``: one for its start, one for its end.
    limit
        How many spans a thread holds before it writes them; at least 1.
    interval_s
        How long after a write the next span that ends is written with all before it, in
        seconds; above 0.
    """

    enable: bool = True
    directory: str = "."
    name: str = "generic"
    filename_include: tuple[str, ...] = ("hostname", "pid")
    filename: str | None = None
    cpu_mem_usage: bool = False
    events: str = "compact"
    limit: int = 10_000
    interval_s: float = 0.25

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TraceError(f"name={short_repr(self.name)}: expected text")
        parts = tuple(self.filename_include)
        object.__setattr__(self, "filename_include", parts)
        if not {*parts} <= {*_PARTS}:
            raise TraceError(f"filename_include={parts}: expected some of {listed(_PARTS)}")
        choice("events", self.events, ("compact", "verbose"), error=TraceError)
        boolean("enable", self.enable, error=TraceError)
        boolean("cpu_mem_usage", self.cpu_mem_usage, error=TraceError)
        integer("limit", self.limit, 1, error=TraceError)
        number("interval_s", self.interval_s, unit="seconds", error=TraceError)
        name = self.filename
        if name is not None and not (isinstance(name, str) and os.path.basename(name)):
            raise TraceError(f"filename={short_repr(name)}: expected a file's name")

    def path(self, hostname: str, pid: int, *, child: bool) -> str:
        """Return the path of a process's file.

        If the file's name does not contain the process id, a child process adds it, since
        parent and child may both write.
        """
        parts = {"name": self.name, "hostname": hostname, "pid": str(pid)}
        if "instance-path" in self.filename_include:
            parts["instance-path"] = f"{{{_instance_path()}}}"
        included = [parts[part] for part in self.filename_include]
        file = self.filename or ".".join(["perfflow", *included, "pfw"])
        if child and (self.filename or "pid" not in self.filename_include):
            stem, ending = os.path.splitext(file)
            file = f"{stem}.{pid}{ending}"
        return os.path.abspath(os.path.join(self.directory, file))


def from_environment(text: str | None) -> tuple[Options, list[str]]:
    """Return the options in the text of ``PERFFLOW_OPTIONS``, and its problems.

    Problems are not raised: the user of a program may be unable to change it.

    Examples
    --------
    >>> options, problems = from_environment("name=solver:log-enable=no")
    >>> options.name, problems
    ('solver', ["log-enable=no: enable must be True or False, got 'no'"])
    """
    options, problems = Options(), []
    for item in filter(None, (text or "").split(":")):
        key, _, value = item.partition("=")
        if key in _READERS:
            field, read = _READERS[key]
            try:
                options = replace(options, **{field: read(value)})
            except TraceError as error:
                problems.append(f"{item}: {error}")
        elif key not in _OF_OTHERS:
            known = [*_READERS, *_OF_OTHERS]
            problems.append(f"option {short_repr(key)} is not known{did_you_mean(key, known)}")
        elif item.lower() == "caliper-enable=true":
            problems.append(f"{item}: there is no Caliper here")
    return options, problems


def _boolean(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


#: Option to the field that it sets, and what reads its value.
_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "name": ("name", str),
    "log-dir": ("directory", str),
    "log-filename-include": ("filename_include", _words),
    "log-enable": ("enable", _boolean),
    "cpu-mem-usage": ("cpu_mem_usage", _boolean),
    "log-event": ("events", str.lower),
}

#: Options of PerfFlowAspect that change nothing here.
_OF_OTHERS = ("log-format", "caliper-enable")


@lru_cache(maxsize=1)
def _instance_path() -> str:
    """Return what tells apart the components of a workflow, as PerfFlowAspect does.

    Each process appends its own part to that of the process which started it.
    """
    part = ".".join(os.environ[name] for name in _JOBS if name in os.environ) or "1"
    above = os.environ.get("PERFFLOW_INSTANCE_PATH")
    path = os.environ["PERFFLOW_INSTANCE_PATH"] = part if above is None else f"{above}.{part}"
    return path


#: Variables with the numbers of a job and of its step, of Flux, Slurm and LSF.
_JOBS = ("FLUX_JOB_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "LSB_JOBID", "LS_JOBPID")
