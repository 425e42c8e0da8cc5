"""Facts about this machine and this program; most of them are found once in a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache

from dagprofiler._util import JsonObject
from dagprofiler._util.interpreter import HOSTNAME, imported
from dagprofiler._util.text import printable
from dagprofiler.errors import shorten

#: Most characters of a command line.
_LONGEST_COMMAND = 1000
#: How long git may take.
_PATIENCE_S = 2

#: The names that OpenBLAS gives one function; numpy's wheels hold it under the first.
_OPENBLAS_THREADS = (
    "scipy_openblas_get_num_threads64_",
    "scipy_openblas_get_num_threads",
    "openblas_get_num_threads64_",
    "openblas_get_num_threads",
)


@cache
def clock_domain() -> str:
    """Return a name that is equal for two processes if they share ``perf_counter()``.

    The clock counts from a start of the host; on Linux a container can have
    another start (time_namespaces(7)).
    """
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/time")
    boot = _text("/proc/sys/kernel/random/boot_id").strip()
    return f"{HOSTNAME} {boot} {namespace}"


@lru_cache(maxsize=1)
def versions(modules: frozenset[str]) -> dict[str, str]:
    """Return the versions of the packages among the loaded `modules`, by name."""
    versions = {}
    for name in sorted(modules):
        try:
            # getattr() would import a module that is loaded lazily.
            attributes = object.__getattribute__(sys.modules.get(name), "__dict__")
        except AttributeError:
            continue
        version, file = attributes.get("__version__"), attributes.get("__file__")
        # Modules of Python itself have versions too, which mean nothing.
        if "." not in name and isinstance(version, str) and "-packages" in str(file):
            versions[name] = printable(version)
    return versions


@cache
def command_line() -> str | None:
    """Return the command line of this program; None without one, as in a notebook."""
    import shlex

    program, *arguments = sys.argv or [""]
    folder, name = os.path.split(program)
    if name in ("", "-c", "ipykernel_launcher.py"):
        return None
    if name == "__main__.py":
        name = f"python -m {os.path.basename(folder)}"
    elif name.endswith(".py"):
        name = shlex.quote(program)
    command = " ".join([name, *[shlex.quote(argument) for argument in arguments]])
    return shorten(printable(command), _LONGEST_COMMAND)


@cache
def repository(folder: str) -> JsonObject:
    """Return the commit that a folder's git repository has checked out, as of the first call.

    Reading files took 0.06 ms, ``git status`` 10 ms (medians). Besides, a process that starts
    while a pool forks may wait for ever.
    """
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, below = os.path.split(folder)
        if not below:
            return {}
    place = os.path.join(folder, ".git")
    # A worktree and a submodule have a file there, which names the directory.
    place = os.path.join(folder, _text(place).strip().partition("gitdir: ")[2] or ".git")
    common = os.path.join(place, _text(os.path.join(place, "commondir")).strip())
    commit = _text(os.path.join(place, "HEAD")).strip()
    if commit.startswith("ref: "):
        reference = commit[len("ref: ") :]
        packed = _text(os.path.join(common, "packed-refs")).splitlines()
        commit = _text(os.path.join(common, reference)).strip() or next(
            (line.split()[0] for line in packed if line.endswith(f" {reference}")), ""
        )
    return {"commit": commit} if commit.isalnum() else {}


def ask_git() -> None:
    """Add to :func:`repository` of the current directory whether its tracked files are unchanged.

    Without git, or if it fails, this adds nothing.
    """
    import subprocess

    words = ["git", "--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]
    with suppress(OSError, subprocess.SubprocessError):
        checkout = repository(os.getcwd())
        if checkout:
            changed = subprocess.run(  # noqa: S603  (its words are constants)
                words, capture_output=True, check=True, timeout=_PATIENCE_S
            )
            checkout["clean"] = not changed.stdout.strip()


@cache
def machine() -> JsonObject:
    """Return a description of the machine; unknown values are null."""
    import platform

    processor = _processor()
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        # platform.platform() starts a process, whose pipe a pool that forks at the same moment
        # would keep open.
        "os": f"{platform.system()}-{platform.release()}-{platform.machine()}",
        "machine": platform.machine(),
        # On Linux platform.processor() knows no more, but starts a process.
        "cpu": (processor.get("model name") if processor else platform.processor()) or None,
        "cpu_mhz": _cpu_mhz(processor),
        "memory_bytes": _memory_bytes(),
        "cores": os.cpu_count(),
    }


@cache
def allocator_settings() -> tuple[tuple[str, str], ...]:
    """Return the environment variables that set the C library's allocator, and their texts.

    With a small ``MALLOC_TRIM_THRESHOLD_``, which Dask's nannies set, arrays cost several times
    as much: their memory is given back and mapped anew each time. The C library reads these
    variables when a program starts, so what a program sets for itself has no effect.
    """
    started_with = dict(
        pair.partition("=")[::2] for pair in _text("/proc/self/environ").split("\0")
    )
    # Only Linux has that file.
    settings = started_with if len(started_with) > 1 else os.environ
    return tuple(pair for pair in settings.items() if pair[0].startswith("MALLOC_"))


def _text(path: str) -> str:
    """Return the text of a file; empty if it cannot be read."""
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


def _processor() -> dict[str, str]:
    """Return Linux's description of the first processor."""
    first, _, _ = _text("/proc/cpuinfo").partition("\n\n")
    fields = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in fields}


def _cpu_mhz(processor: dict[str, str]) -> float | None:
    """Return the highest frequency, or the only known one."""
    try:
        highest_khz = _text("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
        mhz = int(highest_khz) / 1000 if highest_khz else float(processor["cpu MHz"])
    except (KeyError, ValueError):
        return None
    return mhz if 0 < mhz < float("inf") else None


def _memory_bytes() -> int | None:
    # Windows has no sysconf, and not every system has these names.
    with suppress(AttributeError, OSError, ValueError):
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return memory_bytes if memory_bytes > 0 else None
    return None


@cache
def cores_quota() -> float | None:
    """Return how many cores' time the tightest of this process's control groups grants."""
    quotas = [_quota(folder) for folder in _control_groups()]
    return min((quota for quota in quotas if quota is not None), default=None)


def _control_groups() -> Iterator[str]:
    """Yield the folders of the control groups that limit the processor of this process.

    Inside a container the kernel's path may be that of the host, while the mount begins
    at the container's own group: so a folder may not exist, and the parents up to the root
    are yielded as well.
    """
    for line in _text("/proc/self/cgroup").splitlines():
        _, _, group = line.partition(":")
        controllers, _, path = group.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = "/sys/fs/cgroup/cpu" if controllers else "/sys/fs/cgroup"
        while path.strip("/"):
            yield root + path
            path = path.rpartition("/")[0]
        yield root


def _quota(folder: str) -> float | None:
    """Return the quota of one control group in cores; None if it has none."""
    # Version 2 has both numbers in one file, version 1 each in its own.
    limit = _text(f"{folder}/cpu.max") or " ".join(
        _text(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period")
    )
    try:
        quota_us, period_us = [int(number) for number in limit.split()]
    except ValueError:
        return None
    # Version 1 says -1 where version 2 says "max".
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def blas_threads() -> int | None:
    """Return how many threads numpy's OpenBLAS uses; None without numpy, or if that hides it."""
    core = imported("numpy._core._multiarray_umath") or imported(
        "numpy.core._multiarray_umath"  # its name before numpy 2
    )
    try:
        import ctypes

        # The linker looks a name up in the libraries of numpy's extension, too: this asks the
        # very OpenBLAS that numpy uses.
        linked = ctypes.CDLL(core.__file__)
    except (AttributeError, ImportError, OSError, TypeError):
        return None
    for name in _OPENBLAS_THREADS:
        if hasattr(linked, name):
            return int(getattr(linked, name)())
    return None
