"""Output of commands: text, JSON, colours, files."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from shutil import get_terminal_size
from typing import IO, Any, TypeVar

from dagprofiler._util import JsonObject
from dagprofiler._util.files import check_writable, second_place
from dagprofiler._util.text import printable, render
from dagprofiler.analysis.summary import PARTS, blocks
from dagprofiler.cli._parser import BROKEN_PIPE, FAILED, INTERRUPTED, UNUSABLE, CommandError
from dagprofiler.cli._signals import ENDING
from dagprofiler.errors import DagProfilerError, ProfileError, RunError, describe
from dagprofiler.profile import Profile

Result = TypeVar("Result")

#: Patterns of text to their colours.
_STYLES = {
    r"(?m)\bslower\b|\bfailed\b|\bPARTIAL\b|^dagprofiler: (?!warning)": "bold red",
    r"\bfaster\b": "bold green",
    r"(?m)\binconclusive\b|^dagprofiler: warning": "yellow",
    r"(?m)^(task|edge|critical path by span) .*$": "bold",
}


def error_line(message: str) -> None:
    """Print an error, or the lines of several, to standard error."""
    text = "\n".join(printable(line) for line in f"dagprofiler: {message}".splitlines())
    with suppress(OSError, ValueError):
        print_text(text, sys.stderr)


def note(message: str) -> None:
    """Print a note to standard error."""
    print_text(printable(message), sys.stderr)


def print_text(text: str, stream: IO[str] | None = None) -> None:
    """Print text, in colours on a terminal if rich is installed."""
    stream = stream or sys.stdout
    if stream.isatty() and "NO_COLOR" not in os.environ:
        try:
            from rich.console import Console
            from rich.text import Text
        except ImportError:
            pass
        else:
            painted = Text(text)
            for pattern, style in _STYLES.items():
                painted.highlight_regex(pattern, style)
            Console(file=stream, soft_wrap=True, highlight=False).print(painted)
            return
    # The encoding may lack characters of names.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    with writing_to("standard output"):
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def print_json(value: object) -> None:
    """Print a value as JSON."""
    print_text(json.dumps(value, indent=2, allow_nan=False))


def print_result(arguments: argparse.Namespace, value: object, text: str) -> None:
    """Print what a command found: a value with ``--json``, else text."""
    if arguments.json:
        print_json(value)
    else:
        print_text(text)


def width() -> int:
    """Return the width of the terminal, or of a file that is easy to read."""
    return max(40, get_terminal_size().columns) if sys.stdout.isatty() else 80


def text(shown: JsonObject, parts: Sequence[str] = PARTS, top: int = 0) -> str:
    """Return figures of a profile as text; `top` rows of each table, or all for 0."""
    return render(blocks(shown, parts), top, width(), "; --top 0 shows all")


def source_name(path: str) -> str:
    """Return a path as messages name it."""
    return "standard input" if path == "-" else path


@contextmanager
def writing_to(path: str) -> Iterator[str | IO[bytes]]:
    """Yield where to write for a path, ``-`` for standard output; name it in an error."""
    try:
        yield sys.stdout.buffer if path == "-" else path
        sys.stdout.flush()
    except OSError as error:
        error.filename = error.filename or ("standard output" if path == "-" else path)
        raise


def load_profile(path: str) -> Profile:
    """Return the profile in a file, or on standard input for ``-``.

    Raises
    ------
    OSError
        If it cannot be read.
    CommandError
        If it is not a profile.
    """
    if re.search(r"\.py(:\w*)?$", path):
        raise CommandError(f"{path} is a program: dagprofiler run and compare --run measure it")
    try:
        return Profile.load(sys.stdin.buffer if path == "-" else path)
    except ProfileError as error:
        # The file is named in front.
        words = str(error).replace(f" (in {path!r})", "")
        raise CommandError(f"{source_name(path)}: {words}") from error


def check_outputs(*paths: str | None, read: Sequence[str | None] = ()) -> None:
    """Raise a CommandError unless all these files can be written; ignore None and ``-``.

    Parameters
    ----------
    read
        Files that the command reads, so it must not replace them, or None.
    """
    files = [path for path in paths if path is not None and path != "-"]
    problems = {os.path.realpath(other): "is also an input" for other in read if other is not None}
    for path in files:
        target = os.path.realpath(path)
        if target in problems:
            raise CommandError(f"output {path!r} {problems[target]}; give another file")
        problems[target] = "is given twice"
        try:
            check_writable(path)
        except OSError as error:
            raise CommandError(f"output {path!r}: cannot be written: {error.strerror}") from error


def note_left_out(losses: Sequence[str]) -> None:
    """Print on one line what a file could not hold."""
    if losses:
        note("; ".join(losses))


def write(writer: Callable[[Any], Result], path: str, unsaved: Sequence[Profile] = ()) -> Result:
    """Write a file, and return what `writer` returns.

    Raises
    ------
    CommandError
        If it cannot be written; `unsaved` profiles are then in temporary files, which it names.
    """
    name = "standard output" if path == "-" else repr(path)
    try:
        with ENDING.during("saving"), writing_to(path) as target:
            return writer(target)
    except KeyboardInterrupt as interrupt:
        lost = "; its profile is lost" if unsaved else ""
        raise CommandError(f"output {name}: was not written{lost}") from interrupt
    except Exception as error:
        places = [f"the profile is {rescue(profile)[1]}" for profile in unsaved]
        problem = f"output {name}: cannot be written: {reason_of(error)}"
        exit_code = BROKEN_PIPE if isinstance(error, BrokenPipeError) else UNUSABLE
        raise CommandError("; ".join([problem, *places]), exit_code) from error


def save_all(measured: Iterable[tuple[Profile, str]]) -> None:
    """Save profiles to their files, also if one of these cannot be written.

    Raises
    ------
    CommandError
        If a profile could not be saved to its file; the message says where it is.
    """
    problems = []
    for profile, path in measured:
        try:
            write(profile.save, path, [profile])
        except CommandError as error:
            problems.append(str(error))
    if problems:
        raise CommandError("; ".join(problems))


def message_of(error: BaseException) -> str:
    """Return the message for an error, with the fix if known."""
    if isinstance(error, (DagProfilerError, KeyboardInterrupt)):
        return str(error) or "interrupted"
    if isinstance(error, OSError) and error.strerror:
        what = f": {error.filename!r}" if error.filename is not None else ""
        return f"{error.strerror[0].lower()}{error.strerror[1:]}{what}"
    return f"{describe(error)} (--debug shows where)"


def exit_code_of(error: BaseException) -> int:
    """Return the exit code for an error: of a task or a rule that failed, one of its own."""
    if isinstance(error, CommandError):
        return error.exit_code
    if isinstance(error, RunError):
        rule_failed = any(name.startswith("rule ") for name in error.failures)
        return FAILED if error.task is not None or rule_failed else UNUSABLE
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else UNUSABLE


def reason_of(error: Exception) -> str:
    """Return the reason of a failed write."""
    return getattr(error, "strerror", None) or describe(error)


def rescue(profile: Profile) -> tuple[str | None, str]:
    """Save a profile elsewhere, if its file cannot be written; return where, also in words."""
    try:
        with ENDING.during("saving"):
            path = second_place(profile.save)
    except OSError as error:
        return None, f"lost: it cannot be saved to any file ({reason_of(error)})"
    return path, f"in {path}"


@contextmanager
def stdout_apart() -> Iterator[None]:
    """Redirect what tasks print to standard error, so that standard output is only JSON."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
