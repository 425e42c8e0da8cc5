"""What tests do to the records of a journal."""

import json
import os
import shutil
from pathlib import Path
from zlib import crc32


def records(directory):
    """Return the lines that hold the header and the records."""
    with open(Path(directory, "journal"), "rb") as file:
        return file.read().splitlines(keepends=True)


def parsed(directory):
    """Return the header and the records."""
    return [json.loads(line[9:]) for line in records(directory)]


def cut_after(directory, count):
    """Leave the header and so many more records."""
    Path(directory, "journal").write_bytes(b"".join(records(directory)[: count + 1]))


def chained(kept, *, numbered=True):
    """Return the lines that hold records; `numbered` numbers them anew."""
    lines, checksum = [], 0
    for number, record in enumerate(kept):
        if numbered and isinstance(record, dict) and "record" in record:
            record["record"] = number
        text = json.dumps(record, separators=(",", ":")).encode()
        checksum = crc32(text, checksum)
        lines.append(b"%08x %b\n" % (checksum, text))
    return lines


def rewrite(directory, kept):
    """Replace the records by others, numbered and chained."""
    Path(directory, "journal").write_bytes(b"".join(chained(kept)))


def segment(directory):
    """Return the largest file of outputs."""
    return max(directory.glob("*.segment"), key=os.path.getsize)


def copied(directory, target):
    """Copy a journal, to a place where there may be one; return the place."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(directory, target)
    return target
