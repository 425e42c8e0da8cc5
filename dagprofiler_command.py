"""The script ``dagprofiler``, not in the package: Ctrl-C while that is imported is quiet, too."""

from __future__ import annotations

import sys

__all__ = ["entry"]


def entry() -> None:
    """Run the command of this process, and end it with the command's exit code."""
    try:
        from dagprofiler.cli import entry
    except KeyboardInterrupt:
        print("dagprofiler: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    entry()
