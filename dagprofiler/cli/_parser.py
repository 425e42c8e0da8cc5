"""The argument parser of the command line; it imports no other module of a command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NoReturn

from dagprofiler._util.files import FOREIGN
from dagprofiler.errors import DagProfilerError, did_you_mean

_EXAMPLES = """\
examples:
  dagprofiler run pipeline.py:dag -o profile.json --report report.html
  dagprofiler run pipeline.py:build --config N=1000 --rounds auto --executor processes:4
  dagprofiler show profile.json --sort time --top 10
  dagprofiler compare --run base.py:dag new.py:dag --fail-if "slower > 5%"
  dagprofiler simulate profile.json --workers 1..16 --faster map=2
  dagprofiler export profile.json -o profile.dot

exit codes: 0 done; 1 a --fail-if condition holds, or a file is not valid; 2 wrong
usage or bad input; 3 nothing could be judged; 4 a task or rule failed; 130 Ctrl-C
"""

#: Sources of costs; the parser imports nothing that knows them.
_COSTS = ("time", "counted", "estimated", "reference_time", "cpu_time", "wall_time", "best")

#: Exit codes, as docs/cli.md lists them; the last two by shell convention, of SIGINT and SIGPIPE.
NEGATIVE, UNUSABLE, UNDECIDED, FAILED, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 4, 130, 141


class CommandError(DagProfilerError):
    """A command failed; the message is all that the user sees.

    Attributes
    ----------
    exit_code
        Exit code of the process.
    """

    def __init__(self, message: str, exit_code: int = UNUSABLE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message}; see {self.prog} --help")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments.

    Raises
    ------
    CommandError
        If the command does not accept them.
    """
    parser = build_parser()
    if not argv:
        parser.print_help(sys.stderr)
        raise CommandError("a command is missing")
    if not argv[0].startswith("-") and argv[0] not in _COMMANDS:
        hint = did_you_mean(argv[0], [*_COMMANDS]) or f"; give one of {', '.join(_COMMANDS)}"
        raise CommandError(f"there is no command {argv[0]!r}{hint}")
    if argv[0].startswith("-") and _COMMANDS.keys() & argv and argv[0] not in _ALONE:
        raise CommandError(f"options follow the command: give {argv[0]} after it")
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        hint = did_you_mean(unknown[0].partition("=")[0], arguments.options)
        command = f"{parser.prog} {arguments.command}"
        raise CommandError(f"unknown arguments: {' '.join(unknown)}{hint}; see {command} --help")
    return arguments


#: Options that need no command.
_ALONE = ("-h", "--help", "--version")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    from dagprofiler import __version__

    parser = _Parser(
        prog="dagprofiler",
        description="Run DAGs of tasks, measure them, and show, compare and convert the profiles.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dagprofiler {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    for name, (module, text, add_arguments) in _COMMANDS.items():
        description = f"{text[0].upper()}{text[1:]}."
        command = commands.add_parser(name, help=text, description=description)
        common = command.add_argument_group("for all commands")
        _add(common, "--json", "print JSON, not text")
        _add(common, "--debug", "show the traceback of an error")
        add_arguments(command)
        # argparse has no public list of a parser's options.
        options = [*command._option_string_actions]  # noqa: SLF001
        command.set_defaults(module=f"dagprofiler.cli._{module}", options=options)
    return parser


def _add(group: argparse._ActionsContainer, words: str, text: str, **options: Any) -> None:
    """Add an argument, or an option, by the words with which the help shows it.

    ``"TARGET"`` and ``"journal DIR"`` are arguments, the second with a name of its own;
    ``"-o --output FILE"`` is an option, ``"--json"`` one without a value unless `options` say more.
    """
    *names, last = words.split()
    if not last.startswith("-"):
        options["metavar"] = last
    else:
        names.append(last)
        options = options or {"action": "store_true"}
    group.add_argument(*names or [last.lower()], help=text, **options)


#: Of an option that may be given several times.
_MANY: dict[str, Any] = {"action": "append", "default": []}

#: What the help says of an argument or option of several commands.
_ONE_PROFILE = "a file, or - for standard input"
_ONE_FILE = "the file to write; - for stdout"
_SEVERAL = "files, or the directory of a sweep, with three configurations or more"
_PARAMETER = "set a parameter; repeatable; the type is that of the DAG's own value"
_SCHEDULE = 'JSON file with {"node": ["task", ...]}: a worker for each node, which keeps this order'
_COST = f"costs of the tasks, by default time: {', '.join(_COSTS)}"
_TARGET = "module:dag, file.py:dag, a function that builds one, or a YAML file"
WHERE = "threads:4, processes:4, dask, dask:ADDRESS, ray, ray:ADDRESS, or file.py:executor"


def _run(parser: argparse.ArgumentParser) -> None:
    _add(parser, "TARGET", _TARGET)
    _measuring(parser, parser.add_argument_group("rounds"), usual="1")
    _add(parser, "--journal DIR", "record finished tasks, so that the run can be resumed")
    text = "after a failure: stop, or finish what does not depend on it"
    _add(parser, "--on-error", text, choices=("stop", "finish"), default="stop")
    _add(parser, "--schedule FILE", _SCHEDULE)
    _execution(parser)


def _measuring(
    group: argparse._ActionsContainer, rounds: argparse._ActionsContainer, usual: str
) -> None:
    """Add the options for parameters, rounds and meters."""
    _add(group, "-c --config NAME=VALUE", _PARAMETER, **_MANY)
    _add(group, "--seed N", "seed of all random streams", type=int)
    text = "what to measure: default, full, or names separated by commas"
    _add(group, "--meters NAMES", text, type=_meters)
    _add(rounds, "--rounds N", f"number of rounds, or auto; by default {usual}", type=_rounds)
    _add(rounds, "--warmup N", "rounds before the measured ones", type=int)
    _add(rounds, "--precision SHARE", "precision at which auto stops, else 0.05", type=float)
    _add(rounds, "--max-time S", "time limit of auto; by default 30 s", type=float)
    _add(rounds, "--fresh-process", "each round in a new process, as comparing profiles requires")
    _add(rounds, "--busy-cores N", "number of other cores to keep busy", type=int)


def _execution(parser: argparse.ArgumentParser) -> None:
    """Add the options that run and resume have in common."""
    _add(parser, "--executor WHERE", f"serial (the default), {WHERE}")
    _add(parser, "--timeout S", "time limit of a task", type=float)
    results = _files(parser)
    _add(results, "--eta-from PROFILE", "estimate the end time from an earlier profile")
    _add(results, "-q --quiet", "print neither progress nor a summary")


def _files(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    results = parser.add_argument_group("results")
    _add(results, "-o --output FILE", "write the profile; - for stdout", type=_profile_file)
    _add(results, "--report FILE", "write the HTML report as well", type=_page_file)
    return results


def _resume(parser: argparse.ArgumentParser) -> None:
    _add(parser, "journal DIR", "the directory of run --journal")
    _add(parser, "TARGET", "as for run")
    _add(parser, "-c --config NAME=VALUE", _PARAMETER, **_MANY)
    _execution(parser)


def _show(parser: argparse.ArgumentParser) -> None:
    _add(parser, "PROFILE", _ONE_PROFILE)
    parts = ("summary", "makespan", "tasks", "edges", "path", "meters", "flags")
    _add(parser, "--part", "show only this part; repeatable", action="append", choices=parts)
    keys = ("time", "in", "out", "weight", "name", "order")
    text = "sort tasks by time (the default), bytes in or out, instructions, name or order of runs"
    _add(parser, "--sort", text, choices=keys, default="time")
    _add(parser, "--cost SOURCE", _COST, choices=_COSTS)
    _add(parser, "--top N", "rows of each table; 0 for all", type=int, default=20)


def _compare(parser: argparse.ArgumentParser) -> None:
    _add(parser, "BASE", "the profile to compare with; - for standard input")
    _add(parser, "NEW", "the profiles to compare with BASE", nargs="+")
    text = 'exit with code 1 if it holds: "slower > 5%%", or "larger > 5%%" for bytes of edges'
    _add(parser, "--fail-if CONDITION", text, **_MANY)
    text = "share of the whole below which a task or an edge is left out; by default 0.01"
    _add(parser, "--least-share SHARE", text, type=_share, default=0.01)
    _add(parser, "--strict", "also exit with code 3 if a slowdown might have been missed")
    _add(parser, "--markdown", "print tables as Markdown, for a pull request")
    _add(parser, "--run", "BASE and NEW are targets as for run; measure them now, in turns")
    runs = parser.add_argument_group("with --run")
    _measuring(runs, runs, usual="30")
    _add(runs, "--new-config NAME=VALUE", "set a parameter of NEW only", **_MANY)
    files = ("BASE.json", "NEW.json")
    text = "write both profiles"
    _add(runs, "-o --output", text, nargs=2, metavar=files, type=_profile_file)
    _add(runs, "--report FILE", "write the HTML report of NEW against BASE", type=_page_file)


def _sweep(parser: argparse.ArgumentParser) -> None:
    _add(parser, "TARGET", "as for run")
    text = "a parameter and its values, three or more for fit; once for each parameter"
    _add(parser, "--over NAME=VALUE,VALUE,...", text, action="append", required=True)
    _measuring(parser, parser.add_argument_group("rounds"), usual="5")
    _add(parser, "--executor WHERE", f"serial (the default), {WHERE}")
    _add(
        parser, "--one-process", "all configurations in one process, even where that changes times"
    )
    _add(parser, "-o --output DIR", "where to write the profiles", required=True)
    _add(parser, "-q --quiet", "print no progress")


def _fit(parser: argparse.ArgumentParser) -> None:
    _add(parser, "PROFILE", _SEVERAL, nargs="+")


def _predict(parser: argparse.ArgumentParser) -> None:
    _fit(parser)
    text = "a parameter of the configuration to predict; repeatable"
    _add(parser, "-c --config NAME=VALUE", text, action="append", required=True)
    _files(parser)


def _simulate(parser: argparse.ArgumentParser) -> None:
    _add(parser, "PROFILE", _ONE_PROFILE)
    _add(parser, "--workers N", "number of workers, or several, as 1..16 or 1,2,4", type=_counts)
    text = "a task, or class of tasks without its numbers, that computes faster; repeatable"
    _add(parser, "--faster NAME=FACTOR", text, **_MANY)
    _add(parser, "--schedule FILE", _SCHEDULE)
    _add(parser, "--cores N", "cores that the workers share, else those measured", type=int)
    text = "a node, which is one worker, and its speed; the profile's is 1; repeatable"
    _add(parser, "--speed NODE=FACTOR", text, **_MANY)
    text = "of the links between the nodes of a schedule, in bits per ms; 1 Gbit/s is 1e6"
    _add(parser, "--bandwidth BITS", text, type=float)
    engine = parser.add_mutually_exclusive_group()
    text = f"calibrate this executor first, and count what it adds: serial, {WHERE}"
    _add(engine, "--executor WHERE", text)
    _add(
        engine, "--engine PROFILE", "take the engine that was calibrated for this simulated profile"
    )
    _files(parser)


def _report(parser: argparse.ArgumentParser) -> None:
    _add(parser, "PROFILE", _ONE_PROFILE)
    _add(parser, "-o --output FILE", "the file to write; by default PROFILE with .html")
    _add(parser, "--base PROFILE", "another profile to compare with")
    _add(parser, "--cost SOURCE", _COST, choices=_COSTS)
    text = "statistic of the samples; by default median"
    _add(parser, "--statistic", text, choices=("median", "mean", "min", "max"), default="median")


def _export(parser: argparse.ArgumentParser) -> None:
    _add(parser, "PROFILE", _ONE_PROFILE)
    _add(parser, "-o --output FILE", _ONE_FILE, default="-")
    text = "chrome_trace, csv, dot, graphml, html, mermaid, node_link, saga, wfformat"
    _add(parser, "--format NAME", f"{text}; by default that of FILE's suffix")
    _add(parser, "--cost SOURCE", _COST, choices=_COSTS)
    text = "option of the format; repeatable: fill=0, network=@network.json (JSON file)"
    _add(parser, "--option NAME=VALUE", text, **_MANY)


def _import(parser: argparse.ArgumentParser) -> None:
    _add(parser, "FILE", _ONE_PROFILE)
    _add(parser, "-o --output FILE", _ONE_FILE, default="-")
    _add(parser, "--format NAME", "wfformat; by default detected from the file")


def _validate(parser: argparse.ArgumentParser) -> None:
    _add(parser, "PROFILE", "files, or - for stdin", nargs="+")


def _completion(parser: argparse.ArgumentParser) -> None:
    _add(parser, "SHELL", "bash, zsh, fish, ...")


#: Command to the module of its function, its help, and the function that adds its arguments.
_COMMANDS: dict[str, tuple[str, str, Callable[[argparse.ArgumentParser], None]]] = {
    "run": ("run", "run a DAG and measure it", _run),
    "resume": ("run", "resume a run that has a journal", _resume),
    "show": ("convert", "show where the time and the bytes of a profile go", _show),
    "compare": ("compare", "report which tasks are slower or faster than in a base", _compare),
    "sweep": ("predict", "measure a DAG in several configurations, in turns", _sweep),
    "fit": ("predict", "find how costs depend on parameters, from profiles of a sweep", _fit),
    "predict": ("predict", "predict the profile of another configuration", _predict),
    "simulate": ("predict", "predict the makespan on other workers or along a schedule", _simulate),
    "report": ("convert", "write a profile as an HTML page that works offline", _report),
    "export": ("convert", "write a profile in another tool's format", _export),
    "import": ("convert", "convert another tool's file to a profile", _import),
    "validate": ("convert", "check that files are valid profiles", _validate),
    "completion": ("convert", "print a completion script for a shell", _completion),
}


def _counts(text: str) -> Iterable[int]:
    """Return numbers of workers: of numbers, and of ranges whose ends are included."""
    counts = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        ends = (first, last if dots else first)
        if not all(end.isdecimal() for end in ends) or not 1 <= int(ends[0]) <= int(ends[1]):
            known = "numbers of at least 1, as 4 or 1,2,4 or 1..16"
            raise argparse.ArgumentTypeError(f"expected {known}, got {text!r}")
        counts.append(range(int(ends[0]), int(ends[1]) + 1))
    return chain(*counts)


def _rounds(text: str) -> int | str:
    """Return a number of rounds, or ``"auto"``."""
    if text != "auto" and not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, or auto, got {text!r}")
    return text if text == "auto" else int(text)


def _meters(text: str) -> str | list[str]:
    """Return the name of one meter or of a set of them, or the names of several."""
    names = [name.strip() for name in text.split(",")]
    return names if len(names) > 1 else names[0]


def _page_file(path: str) -> str:
    """Return the name of a file for a page."""
    if path == "-":
        raise argparse.ArgumentTypeError("the page needs a file: standard output has the summary")
    return path


def _profile_file(path: str) -> str:
    """Return the name of a file for a profile."""
    if path.lower().endswith(FOREIGN):
        how = "--report writes the page, and dagprofiler export other formats"
        raise argparse.ArgumentTypeError(f"a profile is JSON, got {path!r}; {how}")
    return path


def _share(text: str) -> float:
    """Return a share of the whole, from 0 to 1."""
    with suppress(ValueError):
        if 0 <= float(text) <= 1:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a share from 0 to 1, as 0.01, got {text!r}")
