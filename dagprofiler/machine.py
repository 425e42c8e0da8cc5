"""The machine that measures, in the words of the profile's section ``environment``."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

__all__ = ["environment", "hostname"]


def hostname() -> str:
    """Return the name of this machine."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    # Costs 3 ms to import, which only Windows has to pay.
    import platform

    return platform.node()


def environment() -> dict[str, Any]:
    """Return what is known of the machine and of the versions in use.

    What is unknown is null. A package has a version only once it is loaded,
    since what is not loaded took no part in the run.
    """
    numpy = sys.modules.get("numpy")
    return {**_machine(), "versions": {"numpy": None if numpy is None else numpy.__version__}}


@cache
def _machine() -> dict[str, Any]:
    import platform

    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "os": platform.platform(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
    }


def _cpu_model() -> str | None:
    """Return the processor's name; None where the system tells none."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip() or None
    except OSError:
        import platform

        return platform.processor() or None
    return None
