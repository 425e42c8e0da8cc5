"""The argument parser of the command line; it imports no other module of a command."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from dagprofiler.errors import DagProfilerError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


_EXAMPLES = """\
examples:
  dagprofiler run pipeline.py:dag -o profile.json --report report.html
  dagprofiler run pipeline.py:build --config N=1000 --rounds auto --executor processes:4
  dagprofiler show profile.json --sort time --top 10
  dagprofiler compare base.json new.json --fail-if "slower > 5%"
  dagprofiler simulate profile.json --workers 1..16 --faster map=2
  dagprofiler export profile.json -o profile.dot

exit codes: 0 done; 1 a --fail-if condition holds, or a file is not valid; 2 wrong
usage or bad input; 3 not comparable, no verdict; 4 a task failed; 130 Ctrl-C
"""

#: Sources of costs; the parser imports nothing that knows them.
_COSTS = ("time", "counted", "estimated", "reference_time", "cpu_time", "wall_time", "best")


#: Exit code of a command in which a task failed.
FAILED = 4


class CommandError(DagProfilerError):
    """A command failed; the message is all that the user sees.

    Attributes
    ----------
    exit_code
        Exit code of the process; 2 by default.
    """

    exit_code = 2

    def __init__(self, message: str, exit_code: int = 2) -> None:
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
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        known = _options_of(parser, arguments.command)
        hint = did_you_mean(unknown[0].partition("=")[0], known)
        command = f"{parser.prog} {arguments.command}"
        raise CommandError(f"unknown arguments: {' '.join(unknown)}{hint}; see {command} --help")
    return arguments


def _options_of(parser: argparse.ArgumentParser, command: str) -> list[str]:
    """Return the options of a command."""
    subparsers = next(
        action
        for action in parser._actions  # noqa: SLF001  (argparse has no public access)
        if isinstance(action.choices, dict)
    )
    return [*subparsers.choices[command]._option_string_actions]  # type: ignore[index]  # noqa: SLF001


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

    def command(name: str, text: str) -> argparse.ArgumentParser:
        subparser: argparse.ArgumentParser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}."
        )
        common = subparser.add_argument_group("for all commands")
        common.add_argument("--json", action="store_true", help="print JSON, not text")
        common.add_argument("--debug", action="store_true", help="show the traceback of an error")
        return subparser

    _run(command("run", "run a DAG and measure it"))
    _resume(command("resume", "resume a run that has a journal"))
    _show(command("show", "show where the time and the bytes of a profile go"))
    _compare(command("compare", "report which tasks are slower or faster than in a base"))
    _sweep(command("sweep", "measure a DAG in several configurations, in turns"))
    _fit(command("fit", "find how costs depend on parameters, from profiles of a sweep"))
    _predict(command("predict", "predict the profile of another configuration"))
    _simulate(command("simulate", "predict the makespan on other workers or along a schedule"))
    _report(command("report", "write a profile as an HTML page that works offline"))
    _export(command("export", "write a profile in another tool's format"))
    _import(command("import", "convert another tool's file to a profile"))
    _validate(command("validate", "check that files are valid profiles"))
    completion = command("completion", "print a completion script for a shell")
    completion.add_argument("shell", metavar="SHELL", help="bash, zsh, fish, ...")
    return parser


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="module:dag, file.py:dag, a function that builds one, or a YAML file",
    )
    _measuring(parser, parser.add_argument_group("rounds"), usual="1")
    parser.add_argument(
        "--journal", metavar="DIR", help="record finished tasks, so that the run can be resumed"
    )
    _trust(parser)
    parser.add_argument(
        "--on-error",
        choices=("stop", "finish"),
        help="after a failure, stop, or finish the tasks that do not depend on the failed one",
    )
    _where(parser)
    _schedule(parser)
    _results(parser)


def _repeatable(
    group: argparse._ActionsContainer, *flags: str, metavar: str = "NAME=VALUE", **options: Any
) -> None:
    """Add an option that may be given several times."""
    group.add_argument(*flags, metavar=metavar, action="append", **options)


def _measuring(
    group: argparse._ActionsContainer, rounds: argparse._ActionsContainer, usual: str
) -> None:
    """Add the options for parameters, rounds and meters."""
    text = "set a parameter; repeatable; the type is that of the DAG's own value"
    _repeatable(group, "-c", "--config", default=[], help=text)
    group.add_argument("--seed", type=int, metavar="N", help="seed of all random streams")
    group.add_argument(
        "--meters",
        metavar="NAMES",
        help="what to measure: default, full, or names separated by commas",
    )
    rounds.add_argument(
        "--rounds", type=_rounds, metavar="N", help=f"number of rounds, or auto; by default {usual}"
    )
    rounds.add_argument("--warmup", type=int, metavar="N", help="rounds before the measured ones")
    rounds.add_argument(
        "--precision",
        type=float,
        metavar="SHARE",
        help="precision at which auto stops; by default 0.05",
    )
    rounds.add_argument(
        "--max-time", type=float, metavar="S", help="time limit of auto; by default 30 s"
    )
    rounds.add_argument(
        "--fresh-process",
        action="store_true",
        help="each round in a new process, as comparing profiles requires",
    )
    rounds.add_argument(
        "--busy-cores", type=int, metavar="N", help="number of other cores to keep busy"
    )


def _executor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--executor",
        metavar="WHERE",
        help="serial (the default), threads:4, processes:4, dask, dask:ADDRESS, ray, "
        "ray:ADDRESS, or file.py:executor",
    )


def _schedule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--schedule",
        metavar="FILE",
        help='JSON file with {"node": ["task", ...]}: keep this assignment and order; each node '
        "is one worker",
    )


def _where(parser: argparse.ArgumentParser) -> None:
    _executor(parser)
    parser.add_argument("--timeout", type=float, metavar="S", help="time limit of a task")


def _results(parser: argparse.ArgumentParser) -> None:
    results = _files(parser)
    results.add_argument(
        "--eta-from",
        metavar="PROFILE",
        help="an earlier profile, from which to estimate the end time",
    )
    results.add_argument(
        "-q", "--quiet", action="store_true", help="print neither progress nor a summary"
    )


def _files(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    results = parser.add_argument_group("results")
    results.add_argument("-o", "--output", metavar="FILE", help="write the profile; - for stdout")
    results.add_argument("--report", metavar="FILE", help="write the HTML report as well")
    return results


def _resume(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("journal", metavar="DIR", help="the directory of run --journal")
    parser.add_argument(
        "target",
        metavar="TARGET",
        nargs="?",
        help="as for run; by default the target of the journal's run",
    )
    text = "as for run; by default those of the journal's run"
    _repeatable(parser, "-c", "--config", help=text)
    _trust(parser)
    _where(parser)
    _results(parser)


def _trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust-journal",
        action="store_true",
        help="allow a journal that other users own or can write to; code in it is executed",
    )


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="a file, or - for standard input")
    parser.add_argument(
        "--part",
        action="append",
        choices=("summary", "tasks", "edges", "path", "meters", "flags"),
        help="show only this part; repeatable",
    )
    parser.add_argument(
        "--sort",
        choices=("time", "in", "out", "weight", "name", "order"),
        default="time",
        help="sort tasks by time (the default), bytes in, bytes out, instructions (weight), "
        "name, or execution order",
    )
    _cost(parser)
    parser.add_argument(
        "--top", type=_rows, default=20, metavar="N", help="rows of each table; 0 for all"
    )


def _cost(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cost",
        choices=_COSTS,
        metavar="SOURCE",
        help=f"costs of the tasks: {', '.join(_COSTS)}; by default time: wall time, without "
        "run-queue delay where that was measured",
    )


def _compare(parser: argparse.ArgumentParser) -> None:
    text = "the profile to compare with; - for standard input"
    parser.add_argument("base", metavar="BASE", help=text)
    parser.add_argument("new", metavar="NEW", nargs="+", help="the profiles to compare with BASE")
    _repeatable(
        parser,
        "--fail-if",
        metavar="CONDITION",
        default=[],
        help='exit with code 1 if it holds: "slower", "slower > 5%%" for tasks, "larger > 5%%" for '
        "the bytes of edges",
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print tables as Markdown, for a pull request"
    )
    parser.add_argument(
        "--run",
        action="store_true",
        help="BASE and NEW are targets as for run; measure them now, with interleaved rounds",
    )
    runs = parser.add_argument_group("with --run")
    _measuring(runs, runs, usual="30")
    _repeatable(runs, "--new-config", default=[], help="set a parameter of NEW only")
    runs.add_argument(
        "-o", "--output", nargs=2, metavar=("BASE.json", "NEW.json"), help="write both profiles"
    )
    runs.add_argument("--report", metavar="FILE", help="write the HTML report of NEW against BASE")


def _sweep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="as for run")
    _repeatable(
        parser,
        "--over",
        metavar="NAME=VALUE,VALUE,...",
        required=True,
        help="a parameter and its values, three or more for fit; repeatable",
    )
    _measuring(parser, parser.add_argument_group("rounds"), usual="5")
    _executor(parser)
    parser.add_argument(
        "-o", "--output", metavar="DIR", required=True, help="where to write the profiles"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print no progress")


def _fit(parser: argparse.ArgumentParser) -> None:
    text = "files, or the directory of a sweep, with three configurations or more"
    parser.add_argument("profile", metavar="PROFILE", nargs="+", help=text)


def _predict(parser: argparse.ArgumentParser) -> None:
    _fit(parser)
    text = "a parameter of the configuration to predict; repeatable"
    _repeatable(parser, "-c", "--config", required=True, help=text)
    _files(parser)


def _simulate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="a file, or - for standard input")
    parser.add_argument(
        "--workers", type=_counts, metavar="N", help="number of workers, or several, as 1..16"
    )
    _repeatable(
        parser,
        "--faster",
        metavar="NAME=FACTOR",
        default=[],
        help="a task, or class of tasks without its numbers, that computes faster; repeatable",
    )
    _schedule(parser)
    _repeatable(
        parser,
        "--speed",
        metavar="NODE=FACTOR",
        default=[],
        help="a node, which is one worker, and its speed; the profile's is 1; repeatable",
    )
    parser.add_argument(
        "--bandwidth",
        type=float,
        metavar="BITS",
        help="of the links between the nodes of a schedule, in bits per ms; 1 Gbit/s is 1e6",
    )
    parser.add_argument(
        "--executor", metavar="WHERE", help="calibrate this executor first, and count what it adds"
    )
    _files(parser)


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="a file, or - for standard input")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the file to write; by default PROFILE with .html"
    )
    parser.add_argument("--base", metavar="PROFILE", help="another profile to compare with")
    _cost(parser)
    parser.add_argument("--statistic", choices=("median", "mean", "min", "max"), default="median")


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="a file, or - for standard input")
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="-", help="the file to write; - for stdout"
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="chrome_trace, csv, dot, graphml, html, mermaid, node_link, saga, wfformat; by "
        "default, by the suffix of FILE",
    )
    _cost(parser)
    _repeatable(
        parser,
        "--option",
        default=[],
        help="option of the format; repeatable: fill=0, network=@network.json (JSON file)",
    )


def _import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="-", help="the file to write; - for stdout"
    )
    parser.add_argument(
        "--format", metavar="NAME", help="wfformat; by default detected from the file"
    )


def _validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", nargs="+", help="files, or - for stdin")


def _rounds(text: str) -> int | str:
    """Return a number of rounds, or ``"auto"``."""
    if text == "auto":
        return text
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, or auto, got {text!r}")
    return int(text)


def _counts(text: str) -> list[int]:
    """Return numbers of workers: of one number or of a range, whose ends are included."""
    first, dots, last = text.partition("..")
    ends = (first, last if dots else first)
    if not all(end.isdecimal() and int(end) for end in ends) or int(ends[0]) > int(ends[1]):
        raise argparse.ArgumentTypeError(
            f"expected a number of at least 1, or a range like 1..16, got {text!r}"
        )
    return [*range(int(ends[0]), int(ends[1]) + 1)]


def _rows(text: str) -> int:
    """Return a number of rows; 0 means all."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of rows, or 0 for all, got {text!r}")
    return int(text)
