"""``python -m dagprofiler``: the command line."""

from __future__ import annotations

from dagprofiler.cli import entry

# Processes that multiprocessing spawns import this module under another name.
if __name__ == "__main__":
    entry()
