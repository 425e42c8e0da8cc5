"""The commands that run a DAG: ``run`` and ``resume``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

from dagprofiler._document.rounds import Rounds
from dagprofiler._util import JsonObject, Values
from dagprofiler._util.files import COMPRESSED, replaced
from dagprofiler.analysis.summary import failure_block, figures
from dagprofiler.cli import _output
from dagprofiler.cli._parser import CommandError
from dagprofiler.cli._signals import ENDING
from dagprofiler.cli._targets import executor_named, load_dag, schedule_in
from dagprofiler.dag import DAG
from dagprofiler.engine.hooks import Hook
from dagprofiler.engine.progress import Progress
from dagprofiler.errors import counted
from dagprofiler.journal import Journal, holds_journal
from dagprofiler.profile import Profile

#: Returns the file of each complete profile, for a command that takes several.
Files = Callable[[Sequence[Profile]], Iterable[str]]


def run(arguments: argparse.Namespace) -> None:
    """Run a DAG, write its profile, and print a summary."""
    read = [arguments.target, arguments.target.rpartition(":")[0]]
    _output.check_outputs(arguments.output, arguments.report, read=read)
    schedule = schedule_in(arguments.schedule)
    if schedule and arguments.journal is not None:
        raise CommandError("--schedule: a run that is resumed from a journal does not follow one")
    options = {**run_options(arguments, 1), "on_error": arguments.on_error, "schedule": schedule}
    hooks = [*_journal(arguments.journal), *_progress(arguments)]
    _measure(arguments, partial(DAG.run, **options, hooks=hooks), schedule or ())


def resume(arguments: argparse.Namespace) -> None:
    """Resume a run that has a journal."""
    _output.check_outputs(arguments.output, arguments.report)
    take = partial(DAG.resume, path=arguments.journal, hooks=_progress(arguments))
    _measure(arguments, take)


def _measure(
    arguments: argparse.Namespace, take: Callable[..., Profile], nodes: Collection[str] = ()
) -> None:
    """Take a profile of the target's DAG, write it, and print a summary."""
    with measuring(arguments):
        dag = load_dag(arguments.target, arguments.config)
        with executor_named(arguments.executor, nodes) as executor:
            profile = take(dag, executor=executor, timeout=arguments.timeout)
    deliver(profile, arguments, quiet=arguments.quiet)


def _journal(directory: str | None) -> list[Hook]:
    """Return the hook that writes a journal; none without ``--journal``."""
    if directory is None:
        return []
    if not directory:
        raise CommandError("--journal: expected a directory, got ''")
    if holds_journal(directory):
        how = f"dagprofiler resume {directory} TARGET resumes it; or give another directory"
        raise CommandError(f"--journal: {directory!r} already holds the journal of a run: {how}")
    return [Journal(directory)]


def run_options(arguments: argparse.Namespace, usual: int) -> Values:
    """Return seed, meters and rounds as ``DAG.run`` takes them; `usual` is the number of rounds."""
    conditions = {
        "n": arguments.rounds or usual,
        "warmup": arguments.warmup,
        "precision": arguments.precision,
        "max_time_s": arguments.max_time,
        "fresh_process": arguments.fresh_process or None,
        "busy_cores": arguments.busy_cores,
    }
    rounds = Rounds(**{name: value for name, value in conditions.items() if value is not None})
    return {"seed": arguments.seed, "meters": arguments.meters, "rounds": rounds}


def _progress(arguments: argparse.Namespace) -> list[Hook]:
    """Return the hook that shows progress; none with ``--quiet``."""
    expected = None if arguments.eta_from is None else _output.load_profile(arguments.eta_from)
    return [] if arguments.quiet else [Progress(expected)]


@contextmanager
def measuring(arguments: argparse.Namespace, files: Files | None = None) -> Iterator[None]:
    """Save what was measured if a run fails or is interrupted; ``--json`` prints the failure.

    What tasks print goes to standard error if standard output is for JSON.
    """
    for_json = arguments.json or arguments.output == "-"
    try:
        with _output.stdout_apart() if for_json else nullcontext(), ENDING.during("measuring"):
            yield
    except KeyboardInterrupt as interrupt:
        where, _ = _save(arguments, files, interrupt)
        raise KeyboardInterrupt(f"{_output.message_of(interrupt)}{where}") from interrupt
    except BaseException as error:
        profile = getattr(error, "profile", None)
        if not isinstance(profile, Profile):
            raise
        message, of = _output.message_of(error), getattr(error, "of", "")
        problem = message if message.startswith(of) else f"{of}: {message}"
        where, results = _save(arguments, files, error)
        if arguments.json:
            _output.print_json({"error": problem, **results})
        # The message is that of the first failure.
        first = next(iter(getattr(error, "failures", ())), "")
        entry = profile.run.tasks.get(first)
        place = () if entry is None else failure_block("", entry).notes
        words = "\n".join([f"{problem}{where}", *place])
        raise CommandError(words, _output.exit_code_of(error)) from error


def _save(
    arguments: argparse.Namespace, files: Files | None, error: BaseException
) -> tuple[str, JsonObject]:
    """Save what was measured before an error; return where it is, in words and for JSON."""
    profile: Profile | None = getattr(error, "profile", None)
    profiles = getattr(error, "profiles", [] if profile is None else [profile])
    outputs = [arguments.output] if files is None else files(profiles)
    paths, places = [], []
    for part, output in zip(profiles, outputs):
        if part.metrics.task_metrics:
            path, place = _save_partial(part, output)
            paths += [path] if path else []
            places.append(f"{counted(part.run.rounds or 0, 'complete round')} {place}")
    for of, rounds in getattr(error, "unfinished", {}).items():
        places.append(f"{counted(rounds, 'complete round')} of {of} lost")
    nothing = "; what was measured is lost" if ENDING.gave_up else "; nothing was measured yet"
    message = f"; measured: {', '.join(places)}" if places else nothing
    if files is not None:
        return message, {"written": paths}
    written = {"profile": paths[0]} if paths else {}
    if arguments.report is not None and profile is not None:
        with suppress(OSError, KeyboardInterrupt), ENDING.during("saving"):
            profile.report(arguments.report)
            written["report"] = arguments.report
            message += f", its report in {arguments.report}"
    if arguments.journal is not None and holds_journal(arguments.journal):
        message += f"; dagprofiler resume {arguments.journal} TARGET resumes it"
    shown = figures(profile) if arguments.json and profile is not None else {}
    return message, {"written": written, **shown}


def _save_partial(profile: Profile, output: str | None) -> tuple[str | None, str]:
    """Save the profile of a run that failed; return its file, if it has one, and this in words.

    A partial one gets a file of its own, so that it does not replace a complete profile.
    """
    path = "profile.partial.json"
    try:
        if output not in (None, "-") and replaced(output) is not None:
            path = output
            if profile.run.is_partial:
                path = "{}.partial{}".format(*os.path.splitext(output.removesuffix(COMPRESSED)))
        with ENDING.during("saving"):
            profile.save(path)
    except OSError:
        return _output.rescue(profile)
    except KeyboardInterrupt:
        return None, f"lost: {path} was not written"
    return path, f"in {path}"


def write_results(profile: Profile, arguments: argparse.Namespace) -> dict[str, str]:
    """Write the profile and the report to their files; return what was written where."""
    written = {}
    if arguments.output is not None:
        _output.write(profile.save, arguments.output, [profile])
        written["profile"] = arguments.output
    if arguments.report is not None:
        unsaved = [] if written else [profile]
        _output.note_left_out(_output.write(profile.report, arguments.report, unsaved))
        written["report"] = arguments.report
    return written


#: How many tasks a run prints.
_TASKS = 10


def deliver(profile: Profile, arguments: argparse.Namespace, *, quiet: bool = False) -> None:
    """Write the profile and the report, and print a summary."""
    written = write_results(profile, arguments)
    if arguments.output == "-" or (quiet and not arguments.json):
        return
    shown = figures(profile, top=0 if arguments.json else _TASKS)
    if arguments.json:
        _output.print_json({"written": written, **shown})
        return
    lines = [_output.text(shown, ("summary", "makespan", "tasks", "path"), _TASKS), ""]
    lines += [f"{what}: {path}" for what, path in written.items()]
    if "profile" not in written:
        lines.append("the profile was not saved: use -o profile.json")
    _output.print_text("\n".join(lines))
