"""The commands that run a DAG: ``run`` and ``resume``."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dagprofiler.cli.engines import executor_named
from dagprofiler.cli.output import (
    check_outputs,
    keep,
    load_profile,
    note,
    placed,
    print_json,
    print_text,
    reason_of,
    source_name,
    stdout_apart,
)
from dagprofiler.cli.parsing import CommandError, parse
from dagprofiler.cli.progress import progress
from dagprofiler.cli.targets import Place, load_dag, run_file
from dagprofiler.errors import RunError, short_repr
from dagprofiler.files import replaced, replacing, write
from dagprofiler.hooks import Hook
from dagprofiler.journal import Journal
from dagprofiler.quickcheck import surely_satisfies
from dagprofiler.rounds import Rounds

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    from dagprofiler.hooks import RunInfo
    from dagprofiler.profile import Profile

__all__ = ["conditions", "meters", "resume", "run"]

#: File beside a journal: what its run was started with.
_STARTED = "command.json"

#: What is in it, as the quick check is told.
_FIELDS: dict[str, Any] = {
    **{name: {"type": ["string", "null"]} for name in ("target", "executor", "output", "report")},
    "folder": {"type": "string"},
    "config": {"type": "array", "items": {"type": "string"}},
    "timeout": {"type": ["number", "null"]},
}

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
    target = arguments.target
    check_outputs(arguments.output, arguments.report, read=[target, Place.of(target).where])
    expected = _expected(arguments)
    rounds = conditions(arguments, Rounds(1))
    hooks = [*_journal(arguments), *progress(expected, quiet=arguments.quiet)]
    with stdout_apart(_prints_json(arguments)):
        dag = load_dag(arguments.target, arguments.config)

        def measured(**options: Any) -> Profile:
            return dag.run(
                arguments.seed,
                rounds=rounds,
                meters=meters(arguments),
                on_error=arguments.on_error or "stop",
                hooks=hooks,
                **options,
            )

        profile = _profile_of(measured, arguments)
    _deliver(profile, arguments)
    return 0


def resume(arguments: argparse.Namespace) -> int:
    """Go on with a run; what is not said anew is as it was when it began."""
    folder = ""
    if arguments.target is None:
        started = _started(arguments.journal, trust=arguments.trust_journal)
        folder = started.pop("folder")
        for key, value in started.items():
            if getattr(arguments, key) is None:
                setattr(arguments, key, value)
    check_outputs(arguments.output, arguments.report)
    hooks = progress(_expected(arguments), quiet=arguments.quiet)
    with stdout_apart(_prints_json(arguments)):
        dag = load_dag(arguments.target, arguments.config or [], folder)
        profile = _profile_of(
            lambda **options: dag.resume(
                arguments.journal, hooks=hooks, trust=arguments.trust_journal, **options
            ),
            arguments,
            folder,
        )
    _deliver(profile, arguments)
    return 0


def _journal(arguments: argparse.Namespace) -> list[Hook]:
    """Return the hooks that make a run one that can be resumed; none if it need not be."""
    directory = arguments.journal
    if directory is None:
        return []
    if not directory:
        raise CommandError("--journal: expected a directory, got ''")
    if os.path.exists(os.path.join(directory, _STARTED)):
        raise CommandError(
            f"--journal: {directory!r} holds the journal of a run: dagprofiler resume "
            f"{directory} goes on with it; or give another directory"
        )
    journal = Journal(directory, trust=arguments.trust_journal)
    return [journal, _Started(directory, arguments)]


class _Started(Hook):
    """Writes down what a run was started with, so that it can be resumed by its journal alone."""

    def __init__(self, directory: str, arguments: argparse.Namespace) -> None:
        self._path = os.path.join(os.path.abspath(directory), _STARTED)
        self._trust = arguments.trust_journal
        outputs = (arguments.output, arguments.report)
        output, report = (path and os.path.abspath(path) for path in outputs)
        self._document = {
            # What came from standard input is gone.
            "target": None if arguments.target == "-" else arguments.target,
            "folder": os.getcwd(),
            "config": arguments.config,
            "executor": arguments.executor,
            "timeout": arguments.timeout,
            "output": "-" if arguments.output == "-" else output,
            "report": report,
        }

    def run_started(self, run: RunInfo) -> None:  # noqa: ARG002  (as a hook has it)
        """Write it, where the journal is."""
        write(self._path, [json.dumps(self._document, indent=2), "\n"])
        if not self._trust:
            # Whatever the umask says: resume imports what it names.
            os.chmod(self._path, 0o600)


def _started(directory: str, *, trust: bool) -> dict[str, Any]:
    """Return what a run was started with."""
    path, store = os.path.join(directory, _STARTED), Journal(directory, trust=trust).store
    # What it names is imported.
    with suppress(OSError):
        store.check()
        store.check(_STARTED)
    try:
        with open(path, encoding="utf-8") as file:
            document: dict[str, Any] = json.load(file)
    except OSError as error:
        problem = f"resume: {path!r} cannot be read: {error.strerror}"
        hint = "give the directory of run --journal, and TARGET if no command has started the run"
        raise CommandError(f"{problem}; {hint}") from error
    except ValueError as error:
        raise CommandError(f"resume: {path!r} is not JSON: {error}; give TARGET as well") from error
    shape = {"type": "object", "properties": _FIELDS, "required": [*_FIELDS]}
    if not surely_satisfies(document, shape) or len(document) > len(_FIELDS):
        raise CommandError(f"resume: {path!r} is not what run --journal wrote; give TARGET as well")
    if document["target"] is None:
        raise CommandError("resume: the DAG came from standard input; give TARGET as well")
    return document


def _with_run_file(arguments: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments with what a YAML file says beside its target; theirs come first."""
    document = run_file(arguments.target)
    if document is None:
        return arguments
    try:
        return parse(["run", *_options(document), *arguments.argv[1:]])
    except CommandError as error:
        raise CommandError(f"{source_name(arguments.target)}: {error}") from error


def _options(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a YAML file says as the command line would; its parameters go with its target."""
    for key, value in document.items():
        if key in ("target", "config") or value is None:
            continue
        option = f"--{key.replace('_', '-')}"
        if key == "fresh_process":
            if not isinstance(value, bool):
                raise CommandError(f"{key}: expected true or false, got {short_repr(value)}")
            yield from [option] * value
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


def _profile_of(
    measured: Callable[..., Profile], arguments: argparse.Namespace, folder: str = ""
) -> Profile:
    """Return the profile of a run; of one that does not end well, save what there is."""
    try:
        with executor_named(arguments.executor, folder) as executor:
            return measured(executor=executor, timeout=arguments.timeout)
    except RunError as error:
        code = CommandError.exit_code if error.task is None else _FAILED
        left = _left(error.profile, arguments)
        raise CommandError(f"{error}{left}; --debug shows where it failed", code) from error
    except KeyboardInterrupt as interrupt:
        left = _left(getattr(interrupt, "profile", None), arguments)
        interrupt.args = (f"{str(interrupt) or 'interrupted'}{left}",)
        raise


def _left(profile: Profile | None, arguments: argparse.Namespace) -> str:
    """Save what was measured until the run ended early; return in words what is left of it."""
    if profile is None or not profile.metrics.task_metrics:
        words = "; nothing was measured yet"
    else:
        words = f"; what was measured until then is {_saved(profile, arguments.output)}"
    journal = arguments.journal
    if journal is not None and os.path.exists(os.path.join(journal, _STARTED)):
        words += f"; dagprofiler resume {journal} goes on with it"
    return words


def _saved(profile: Profile, output: str | None) -> str:
    """Save a part of a profile; return in words where.

    It is a file of its own, so that no complete profile is replaced by a part of one.
    """
    path = "profile.partial.json"
    try:
        if output not in (None, "-") and replaced(output) is not None:
            path = "{}.partial{}".format(*os.path.splitext(output))
        # Nobody gave it this name, so that a link may not say what is replaced.
        with replacing(path) as file:
            profile.save(file)
    except OSError:
        return placed(profile)
    return f"in {path}"


def _deliver(profile: Profile, arguments: argparse.Namespace) -> None:
    """Write the profile and the report, and say so."""
    written = {}
    if arguments.output is not None:
        keep([(profile, arguments.output)])
        written["profile"] = arguments.output
    if arguments.report is not None:
        try:
            losses = profile.report(arguments.report)
        except Exception as error:
            place = "where -o says" if written else placed(profile)
            raise CommandError(
                f"report {arguments.report!r}: cannot be written: {reason_of(error)}; the profile "
                f"is {place}"
            ) from error
        for loss in losses:
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
