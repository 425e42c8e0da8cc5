"""What tests do to the files of a journal."""

import json
import shutil
from pathlib import Path


def lines(directory):
    """Return the lines of a journal."""
    return Path(directory, "journal.jsonl").read_bytes().splitlines(keepends=True)


def parsed(directory):
    """Return the lines of a journal as objects."""
    return [json.loads(line) for line in lines(directory)]


def rewrite(directory, kept):
    """Replace the lines of a journal."""
    text = "".join(json.dumps(line) + "\n" for line in kept)
    Path(directory, "journal.jsonl").write_text(text)


def cut_after(directory, count):
    """Leave the header and so many more lines; those of a round's beginning do not count."""
    header, *others = parsed(directory)
    kept = [header]
    for line in others:
        count -= "kind" not in line
        if count < 0:
            break
        kept.append(line)
    rewrite(directory, kept)


def outputs_file(directory):
    """Return the file to which the worker of the first task wrote."""
    lines = [line for line in parsed(directory) if "task" in line]
    return directory / lines[0]["readings"]["stored"][0]


def copied(directory, target):
    """Copy a journal, to a place where there may be one; return the place."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(directory, target)
    return target
