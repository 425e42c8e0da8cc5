"""Options of the trace of a process, and what ``PERFFLOW_OPTIONS`` says of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from dagprofiler._util.checks import boolean, choice, integer, number
from dagprofiler.errors import TraceError, did_you_mean, short_repr

_PARTS = ("name", "instance-path", "hostname", "pid")

_EVENTS = ("compact", "verbose")
_BOOLEANS = {"true": True, "false": False}


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
        parts, known = self.filename_include, ", ".join(map(repr, _PARTS))
        if not isinstance(parts, tuple) or any(part not in _PARTS for part in parts):
            raise TraceError(f"filename_include={short_repr(parts)}: expected some of {known}")
        choice("events", self.events, _EVENTS, error=TraceError)
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
        if self.filename is not None:
            tells_pid = False
            stem, ending = os.path.splitext(self.filename)
        else:
            tells_pid = "pid" in self.filename_include
            known = {"name": self.name, "hostname": hostname, "pid": str(pid)}
            parts = [
                f"{{{_instance_path()}}}" if part == "instance-path" else known[part]
                for part in self.filename_include
            ]
            stem, ending = ".".join(["perfflow", *parts]), ".pfw"
        if child and not tells_pid:
            stem = f"{stem}.{pid}"
        return os.path.abspath(os.path.join(self.directory, stem + ending))


def from_environment(text: str | None) -> tuple[Options, list[str]]:
    """Return the options in the text of ``PERFFLOW_OPTIONS``, and its problems.

    Problems are not raised: the user of a program may be unable to change it.

    Examples
    --------
    >>> options, problems = from_environment("name=solver:log-enable=no")
    >>> options.name, problems
    ('solver', ["log-enable='no': expected true or false"])
    """
    given: dict[str, Any] = {}
    problems = []
    for item in filter(None, (text or "").split(":")):
        key, equals, value = item.partition("=")
        if not equals or "=" in value:
            problems.append(f"{short_repr(item)}: expected option=value")
        elif key == "name":
            given["name"] = value
        elif key == "log-dir":
            given["directory"] = value
        elif key == "log-filename-include":
            parts = list(filter(None, value.split(",")))
            unknown = [part for part in parts if part not in _PARTS]
            given["filename_include"] = tuple(part for part in parts if part in _PARTS)
            problems += [f"log-filename-include: {part!r} is not known" for part in unknown]
        elif key in _CHOICES:
            option, choices = _CHOICES[key]
            word = value.lower()
            if word not in choices:
                problems.append(f"{key}={short_repr(value)}: expected {' or '.join(choices)}")
            elif option:
                given[option] = _BOOLEANS.get(word, word)
            elif (key, word) == ("caliper-enable", "true"):
                problems.append(f"{key}={value}: there is no Caliper here")
        else:
            problems.append(f"option {short_repr(key)} is not known{did_you_mean(key, _KEYS)}")
    return Options(**given), problems


#: Option to the field that it sets, and its values; those of other versions set none.
_CHOICES = {
    "log-enable": ("enable", [*_BOOLEANS]),
    "cpu-mem-usage": ("cpu_mem_usage", [*_BOOLEANS]),
    "log-event": ("events", _EVENTS),
    "log-format": ("", ("array", "object")),
    "caliper-enable": ("", [*_BOOLEANS]),
}
_KEYS = ["name", "log-dir", "log-filename-include", *_CHOICES]


def _instance_path() -> str:
    """Return what tells apart the components of a workflow, as PerfFlowAspect does.

    Each process appends its own part to that of the process which started it.
    """
    global _own_part  # noqa: PLW0603  (once a process)
    if _own_part is None:
        above = os.environ.get("PERFFLOW_INSTANCE_PATH")
        own = os.environ.get("FLUX_JOB_ID") or _job_hash()
        _own_part = own if above is None else f"{above}.{own}"
        os.environ["PERFFLOW_INSTANCE_PATH"] = _own_part
    return _own_part


_own_part: str | None = None


def _job_hash() -> str:
    from hashlib import sha1
    from urllib.parse import urlparse

    get = os.environ.get
    job = "1"
    if get("FLUX_URI"):
        job = os.path.dirname(urlparse(get("FLUX_URI", "")).path)
    if get("SLURM_JOB_ID") and get("SLURM_STEP_ID"):
        job = f"{get('SLURM_JOB_ID')}.{get('SLURM_STEP_ID')}"
    elif get("LSB_JOBID") and get("LS_JOBPID"):
        job = f"{get('LSB_JOBID')}.{get('LS_JOBPID')}"
    return sha1(job.encode(), usedforsecurity=False).hexdigest()[:8]
