"""The commands that run a DAG: ``run`` and ``resume``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from dagprofiler.cli.engines import executor_named
from dagprofiler.cli.output import (
    check_outputs,
    load_profile,
    note,
    print_json,
    print_text,
    stdout_apart,
)
from dagprofiler.cli.parsing import CommandError, parse
from dagprofiler.cli.progress import progress_on
from dagprofiler.cli.targets import load_dag, run_file
from dagprofiler.errors import RunError
from dagprofiler.rounds import Rounds

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    from dagprofiler.profile import Profile

__all__ = ["conditions", "meters", "run"]

#: Exit code of a run in which a task failed.
_FAILED = 4

#: Fields of Rounds that the command line has, and the words that it has for them.
_CONDITIONS = {
    "warmup": "warmup",
    "precision": "precision",
    "max_time_s": "max_time",
    "busy_cores": "busy_cores",
}


def run(arguments: argparse.Namespace) -> int:
    """Run a DAG, write its profile, and show what it says in short."""
    arguments = _with_run_file(arguments)
    check_outputs(arguments.output, arguments.report)
    expected = _expected(arguments)
    rounds = conditions(arguments, Rounds(1))
    with stdout_apart(_prints_json(arguments)):
        dag = load_dag(arguments.target, arguments.config)

        def measured(**options: Any) -> Profile:
            return dag.run(
                arguments.seed,
                rounds=rounds,
                meters=meters(arguments),
                on_error=arguments.on_error or "stop",
                **options,
            )

        profile = _profile_of(
            measured, arguments, progress_on(rounds, expected, quiet=_is_quiet(arguments))
        )
    _deliver(profile, arguments)
    return 0


def _with_run_file(arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments with what a YAML file says beside its target; theirs come first."""
    document = run_file(arguments.target)
    if document is None:
        return arguments
    try:
        return parse(["run", *_options(document), *_after_command(arguments.argv)])
    except CommandError as error:
        raise CommandError(f"{arguments.target}: {error}") from error


def _after_command(argv: list[str]) -> list[str]:
    place = argv.index("run")
    return argv[:place] + argv[place + 1 :]


def _options(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a YAML file says as the command line would; its parameters go with its target."""
    for key, value in document.items():
        if key in ("target", "config") or value is None or value is False:
            continue
        option = f"--{key.replace('_', '-')}"
        if value is True:
            yield option
        else:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{option}={text}"


def conditions(arguments: argparse.Namespace, default: Rounds) -> Rounds:
    """Return the rounds that were asked for."""
    given = {
        field: value
        for field, word in _CONDITIONS.items()
        if (value := getattr(arguments, word)) is not None
    }
    if arguments.rounds is None and not given and not arguments.fresh_process:
        return default
    number = default.n if arguments.rounds is None else arguments.rounds
    return Rounds(number, fresh_process=arguments.fresh_process, **given)


def meters(arguments: argparse.Namespace) -> Any:
    """Return the meters that were asked for, as ``DAG.run`` takes them."""
    if arguments.meters is None:
        return None
    names = [name.strip() for name in arguments.meters.split(",")]
    return names[0] if len(names) == 1 else names


def _expected(arguments: argparse.Namespace) -> Profile | None:
    return None if arguments.eta_from is None else load_profile(arguments.eta_from)


def _prints_json(arguments: argparse.Namespace) -> bool:
    return bool(arguments.json or arguments.output == "-")


def _is_quiet(arguments: argparse.Namespace) -> bool:
    return bool(arguments.quiet)


def _profile_of(
    measured: Callable[..., Profile], arguments: argparse.Namespace, hooks: list[Any]
) -> Profile:
    """Return the profile of a run; of one that does not end well, save what there is."""
    try:
        with executor_named(arguments.executor) as executor:
            return measured(executor=executor, timeout=arguments.timeout, hooks=hooks)
    except RunError as error:
        raise CommandError(f"{error}{_saved(error.profile, arguments)}", _FAILED) from error
    except KeyboardInterrupt as interrupt:
        profile = getattr(interrupt, "profile", None)
        what = "" if profile is None else _saved(profile, arguments)
        raise KeyboardInterrupt(f"interrupted{what}") from interrupt


def _saved(profile: Profile, arguments: argparse.Namespace) -> str:
    """Save what was measured until the run ended early; return where, in words.

    It is a file of its own, so that no complete profile is replaced by a part of one.
    """
    import tempfile

    name, ending = os.path.splitext(arguments.output or "")
    path = f"{name}.partial{ending}" if name not in ("", "-") else "profile.partial.json"
    try:
        profile.save(path)
    except OSError:
        path = os.path.join(tempfile.gettempdir(), os.path.basename(path))
        profile.save(path)
    return f"; what was measured until then is in {path}"


def _deliver(profile: Profile, arguments: argparse.Namespace) -> None:
    """Write the profile and the report, and say so."""
    written = {}
    if arguments.output == "-":
        profile.save(sys.stdout)
    elif arguments.output is not None:
        written["profile"] = profile.save(arguments.output)
    if arguments.report is not None:
        for loss in profile.report(arguments.report):
            note(f"report: {loss}")
        written["report"] = arguments.report
    if arguments.output == "-" or (arguments.quiet and not arguments.json):
        return
    from dagprofiler.cli.showing import figures, text

    found = figures(profile)
    if arguments.json:
        print_json({"written": written, **found})
        return
    lines = [text(found, parts=("summary", "tasks", "path"), top=10), ""]
    lines += [f"{what}: {path}" for what, path in written.items()]
    if not written:
        lines.append("nothing was written: -o profile.json keeps the profile")
    print_text("\n".join(lines))
