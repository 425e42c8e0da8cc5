"""The commands that run a DAG: ``run`` and ``resume``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

from dagprofiler._document.rounds import Rounds
from dagprofiler._util import JsonObject
from dagprofiler._util.files import COMPRESSED, replaced
from dagprofiler._util.text import Block, render
from dagprofiler.analysis.summary import failure_block, figures
from dagprofiler.cli import _output
from dagprofiler.cli._parser import CommandError
from dagprofiler.cli._signals import ENDING
from dagprofiler.cli._targets import executor_named, load_dag, schedule_in
from dagprofiler.engine.hooks import Hook
from dagprofiler.engine.progress import Progress
from dagprofiler.errors import counted
from dagprofiler.journal import Journal, holds_journal
from dagprofiler.profile import Profile

#: Saves what was measured before an error; returns where it is, for the message and for JSON.
Saving = Callable[[BaseException], tuple[str, JsonObject]]


def run(arguments: argparse.Namespace) -> int:
    """Run a DAG, write its profile, and print a summary."""
    read = [arguments.target, arguments.target.rpartition(":")[0]]
    _output.check_outputs(arguments.output, arguments.report, read=read)
    schedule = schedule_in(arguments.schedule)
    if schedule and arguments.journal is not None:
        raise CommandError("--schedule: a run that is resumed from a journal does not follow one")
    rounds = conditions(arguments, 1)
    hooks = [*_journal(arguments.journal), *_progress(arguments)]
    with measuring(arguments, partial(_save_run, arguments)):
        dag = load_dag(arguments.target, arguments.config)
        with executor_named(arguments.executor, nodes=schedule or ()) as executor:
            profile = dag.run(
                arguments.seed,
                rounds=rounds,
                meters=meters(arguments),
                executor=executor,
                timeout=arguments.timeout,
                on_error=arguments.on_error or "stop",
                hooks=hooks,
                schedule=schedule,
            )
    deliver(profile, arguments, quiet=arguments.quiet)
    return 0


def resume(arguments: argparse.Namespace) -> int:
    """Resume a run that has a journal."""
    _output.check_outputs(arguments.output, arguments.report)
    hooks = _progress(arguments)
    with measuring(arguments, partial(_save_run, arguments)):
        dag = load_dag(arguments.target, arguments.config)
        with executor_named(arguments.executor) as executor:
            profile = dag.resume(
                arguments.journal, executor=executor, timeout=arguments.timeout, hooks=hooks
            )
    deliver(profile, arguments, quiet=arguments.quiet)
    return 0


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


def conditions(arguments: argparse.Namespace, default: int) -> Rounds:
    """Return the requested rounds; `default` is their number."""
    options = {
        "n": arguments.rounds or default,
        "warmup": arguments.warmup,
        "precision": arguments.precision,
        "max_time_s": arguments.max_time,
        "fresh_process": arguments.fresh_process or None,
        "busy_cores": arguments.busy_cores,
    }
    return Rounds(**{name: value for name, value in options.items() if value is not None})


def meters(arguments: argparse.Namespace) -> str | list[str] | None:
    """Return the requested meters, as ``DAG.run`` takes them."""
    if arguments.meters is None:
        return None
    names = [name.strip() for name in arguments.meters.split(",")]
    return names[0] if len(names) == 1 else names


def _progress(arguments: argparse.Namespace) -> list[Hook]:
    """Return the hook that shows progress; none with ``--quiet``."""
    expected = None if arguments.eta_from is None else _output.load_profile(arguments.eta_from)
    return [] if arguments.quiet else [Progress(expected)]


@contextmanager
def measuring(arguments: argparse.Namespace, save: Saving) -> Iterator[None]:
    """Save what was measured if a run fails or is interrupted; ``--json`` prints the failure.

    What tasks print goes to standard error if standard output is for JSON.
    """
    for_json = arguments.json or arguments.output == "-"
    try:
        with _output.stdout_apart() if for_json else nullcontext(), ENDING.measuring():
            yield
    except KeyboardInterrupt as interrupt:
        where, _ = save(interrupt)
        interrupt.args = (f"{str(interrupt) or 'interrupted'}{where}",)
        raise
    except BaseException as error:
        profile = getattr(error, "profile", None)
        if not isinstance(profile, Profile):
            raise
        message, of = _output.message_of(error), getattr(error, "of", "")
        problem = message if message.startswith(of) else f"{of}: {message}"
        where, results = save(error)
        if arguments.json:
            _output.print_json({"error": problem, **results})
        # The message is that of the first failure.
        first = next(iter(getattr(error, "failures", ())), "")
        entry = profile.run.tasks.get(first)
        place = () if entry is None else failure_block("", entry).notes
        words = render([Block(f"{problem}{where}", notes=place)])
        raise CommandError(words, _output.exit_code_of(error)) from error


def save_each(
    named: Callable[[Sequence[Profile]], Iterable[tuple[Profile, str | None]]],
    error: BaseException,
) -> tuple[str, JsonObject]:
    """Save the partial profiles of runs that an error ended; see :data:`Saving`.

    `named` returns each with the file that the complete profile would have.
    """
    written, parts = [], []
    single = getattr(error, "profile", None)
    profiles = getattr(error, "profiles", [] if single is None else [single])
    for profile, output in named(profiles):
        if profile.metrics.task_metrics:
            path, words = _save_partial(profile, output)
            written += [path] if path else []
            parts.append(f"{counted(profile.run.rounds or 0, 'complete round')} {words}")
    for of, rounds in getattr(error, "unfinished", {}).items():
        parts.append(f"{counted(rounds, 'complete round')} of {of} lost")
    nothing = "; what was measured is lost" if ENDING.gave_up else "; nothing was measured yet"
    message = f"; measured: {', '.join(parts)}" if parts else nothing
    return message, {"written": written}


def _save_run(arguments: argparse.Namespace, error: BaseException) -> tuple[str, JsonObject]:
    """Save a partial profile and its report; see :data:`Saving`."""
    message, results = save_each(lambda runs: [(run, arguments.output) for run in runs], error)
    written = {"profile": results["written"][0]} if results["written"] else {}
    profile: Profile | None = getattr(error, "profile", None)
    if arguments.report is not None and profile is not None:
        with suppress(OSError, KeyboardInterrupt), ENDING.saving():
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
        with ENDING.saving():
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
