"""What tests do to the records of a journal."""

from __future__ import annotations

from pathlib import Path


def records(directory):
    """Return the lines that hold the header and the records."""
    with open(Path(directory, "journal"), "rb") as file:
        return file.read().splitlines(keepends=True)


def cut_after(directory, count):
    """Leave the header and so many more records."""
    Path(directory, "journal").write_bytes(b"".join(records(directory)[: count + 1]))
