"""What writing and reading WfFormat share: versions, names that changed, units; and what fits."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Union

from dagprofiler.documents import text_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "METERED",
    "NESTED",
    "OLD_CPU_NAMES",
    "OLD_NAMES",
    "VERSIONS",
    "identifiers",
    "machine_of",
    "shifted",
]

Number = Union[int, float]

#: The versions that can be read; those from 1.4 on can be written.
VERSIONS = ("1.3", "1.4", "1.5", "1.6")

#: The versions that keep what was executed apart from what was specified.
NESTED = ("1.5", "1.6")

#: What entries of an executed task are called before 1.5, where that differs.
OLD_NAMES = {
    "coreCount": "cores",
    "energyInKWh": "energy",
    "avgPowerInW": "avgPower",
}

#: The same for a machine's ``cpu``.
OLD_CPU_NAMES = {"coreCount": "count", "speedInMHz": "speed"}

#: Attributes of executed tasks to the columns of samples that hold them.
METERED = {
    "readBytes": "read_bytes",
    "writtenBytes": "written_bytes",
    "memoryInBytes": "peak_memory_bytes",
}

#: Every version's pattern of identifiers, and every reader, takes these characters.
_NOT_IN_IDS = re.compile(r"[^0-9A-Za-z_.-]")


def shifted(number: Number, places: int) -> float:
    """Return ``number * 10**places``, rounded once.

    From milliseconds to seconds and back is the same number if it has 15 significant digits at
    most, as times of the clock have.

    Examples
    --------
    >>> 1.001 * 1e3, shifted(1.001, 3), shifted(1001.0, -3)
    (1000.9999999999999, 1001.0, 1.001)
    """
    return float(Decimal(repr(float(number))).scaleb(places))


def identifiers(names: Iterable[str], known: Mapping[str, Any]) -> dict[str, str]:
    """Return a distinct identifier for each name: what is `known`, or the name, made fit.

    Examples
    --------
    >>> identifiers(["a b", "a_b", "a?b", "c"], {"c": "ID1"})
    {'a b': 'a_b_2', 'a_b': 'a_b', 'a?b': 'a_b_3', 'c': 'ID1'}
    """
    wanted = {name: text_in(known, name) or name for name in names}
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name, identifier in wanted.items():
        if identifier and identifier not in taken and not _NOT_IN_IDS.search(identifier):
            found[name] = identifier
            taken.add(identifier)
    used: Counter[str] = Counter()
    for name, identifier in wanted.items():
        if name in found:
            continue
        base = candidate = _NOT_IN_IDS.sub("_", identifier) or "task"
        while candidate in taken:
            used[base] += 1
            candidate = f"{base}_{used[base] + 1}"
        found[name] = candidate
        taken.add(candidate)
    return {name: found[name] for name in wanted}


_SYSTEMS = {"Linux": "linux", "macOS": "macos", "Darwin": "macos", "Windows": "windows"}


def machine_of(host: str, sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine that a profile was measured on."""
    environment = sections.get("environment", {})
    system, _, release = environment.get("os", "").partition("-")
    machine: dict[str, Any] = {"nodeName": host}
    if system in _SYSTEMS:
        machine.update(system=_SYSTEMS[system], release=release or "unknown")
    if environment.get("machine"):
        machine["architecture"] = environment["machine"]
    if environment.get("memory_bytes"):
        machine["memoryInBytes"] = environment["memory_bytes"]
    cpu: dict[str, Any] = {}
    if environment.get("cores"):
        cpu["coreCount"] = environment["cores"]
    if environment.get("cpu_mhz"):
        cpu["speedInMHz"] = max(1, round(environment["cpu_mhz"]))
    machine["cpu"] = cpu
    return machine
