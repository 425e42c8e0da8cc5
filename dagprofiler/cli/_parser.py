"""What the command line takes: one argparse parser, which loads nothing else."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from dagprofiler.errors import DagProfilerError

if TYPE_CHECKING:
    from collections.abc import Sequence


_EXAMPLES = """\
examples:
  dagprofiler run pipeline.py:dag -o profile.json --report report.html
  dagprofiler run pipeline.py:build --config N=1000 --rounds auto --executor processes:4
  dagprofiler show profile.json --sort time --top 10
  dagprofiler compare base.json new.json --fail-if "slower > 5%"
  dagprofiler export profile.json -o profile.dot

exit codes: 0 done; 1 a --fail-if condition holds, or a file is not valid; 2 wrong
usage or bad input; 3 it cannot be compared; 4 a task failed; 130 Ctrl-C
"""

#: What a YAML file that names a target may say beside it.
RUN_FILE_KEYS = (
    "config",
    "seed",
    "rounds",
    "warmup",
    "precision",
    "max_time",
    "fresh_process",
    "busy_cores",
    "meters",
    "executor",
    "timeout",
    "on_error",
)


class CommandError(DagProfilerError):
    """A command cannot do what it was asked for; the message is all that a user sees of it.

    Attributes
    ----------
    exit_code
        Of the process: 2, unless it is said otherwise.
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
        raise CommandError(f"{message}; {self.prog} --help says what there is")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return what the arguments say; of `run` also ``argv``, which is where they come from.

    Raises
    ------
    CommandError
        If they are not what the command takes.
    """
    parser = build_parser()
    if not argv:
        parser.print_help(sys.stderr)
        raise CommandError("a command is missing")
    arguments = parser.parse_args(argv)
    arguments.argv = list(argv)
    return arguments


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    from dagprofiler import __version__

    parser = _Parser(
        prog="dagprofiler",
        description="Run DAGs of tasks, measure them, and look at what was measured.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dagprofiler {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}."
        )
        common = one.add_argument_group("for all commands")
        common.add_argument("--json", action="store_true", help="print JSON, not text")
        common.add_argument("--debug", action="store_true", help="show where an error comes from")
        return one

    _run(command("run", "run a DAG and measure it"))
    _resume(command("resume", "go on with a run that has a journal"))
    _show(command("show", "show a profile: where the time and the bytes go"))
    _compare(command("compare", "say what is slower or faster than in a base"))
    _report(command("report", "write a profile as an HTML page that works offline"))
    _export(command("export", "write a profile in another tool's format"))
    _import(command("import", "make a profile of another tool's file"))
    _validate(command("validate", "check that files are profiles"))
    completion = command("completion", "print what completes this command in a shell")
    completion.add_argument("shell", metavar="SHELL", help="bash, zsh, fish, ...")
    return parser


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="module:dag, file.py:dag, a function that builds one, a YAML file, or - for YAML "
        "on standard input",
    )
    _measuring(parser, parser.add_argument_group("rounds"), usual="1")
    parser.add_argument("--journal", metavar="DIR", help="write down what is done, to resume it")
    _trust(parser)
    parser.add_argument(
        "--on-error",
        choices=("stop", "finish"),
        help="whether tasks that do not depend on a failed one still run",
    )
    _where(parser)
    _results(parser)


def _measuring(
    group: argparse._ActionsContainer, rounds: argparse._ActionsContainer, usual: str
) -> None:
    """Add what says how often, with what, and what is measured."""
    group.add_argument(
        "-c",
        "--config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a parameter; repeatable, the type is that of the DAG's own value",
    )
    group.add_argument("--seed", type=int, metavar="N", help="seed of all random streams")
    group.add_argument(
        "--meters",
        metavar="NAMES",
        help="what is measured: default, full, or names with commas between them",
    )
    rounds.add_argument(
        "--rounds", type=_rounds, metavar="N", help=f"how often, or auto; by default {usual}"
    )
    rounds.add_argument("--warmup", type=int, metavar="N", help="rounds before those that count")
    rounds.add_argument(
        "--precision", type=float, metavar="SHARE", help="what auto is after; by default 0.05"
    )
    rounds.add_argument(
        "--max-time", type=float, metavar="S", help="auto ends then; by default after 30 s"
    )
    rounds.add_argument(
        "--fresh-process",
        action="store_true",
        help="each round in a new process: what compares with other profiles",
    )
    rounds.add_argument(
        "--busy-cores", type=int, metavar="N", help="other cores that are kept busy"
    )


def _where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--executor",
        metavar="WHERE",
        help="serial (the default), threads:4, processes:4, dask, dask:ADDRESS, ray, "
        "ray:ADDRESS, or file.py:executor",
    )
    parser.add_argument("--timeout", type=float, metavar="S", help="how long a task may take")


def _results(parser: argparse.ArgumentParser) -> None:
    results = parser.add_argument_group("results")
    results.add_argument("-o", "--output", metavar="FILE", help="write the profile; - for stdout")
    results.add_argument("--report", metavar="FILE", help="write the HTML report as well")
    results.add_argument(
        "--eta-from", metavar="PROFILE", help="an earlier profile, for when it will be done"
    )
    results.add_argument(
        "-q", "--quiet", action="store_true", help="neither progress nor a summary"
    )


def _resume(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("journal", metavar="DIR", help="what run --journal was given")
    parser.add_argument(
        "target",
        metavar="TARGET",
        nargs="?",
        help="as of run; by default what the journal's run was started with",
    )
    parser.add_argument(
        "-c", "--config", metavar="NAME=VALUE", action="append", help="as of run; as TARGET"
    )
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
        choices=("summary", "tasks", "edges", "path", "flags"),
        help="show this alone; repeatable",
    )
    parser.add_argument(
        "--sort",
        choices=("time", "in", "out", "weight", "name", "order"),
        default="time",
        help="how tasks are sorted: by time (the default), bytes in, bytes out, instructions, "
        "name, or execution order",
    )
    parser.add_argument(
        "--top", type=_rows, default=20, metavar="N", help="rows of each table; 0 for all"
    )


def _compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("base", metavar="BASE", help="what to compare with; - for standard input")
    parser.add_argument("new", metavar="NEW", nargs="+", help="what is compared with it")
    parser.add_argument(
        "--fail-if",
        metavar="CONDITION",
        action="append",
        default=[],
        help='exit with 1 if it holds: "slower", "slower > 5%%" for tasks, "larger > 5%%" for '
        "the bytes of edges",
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print tables as Markdown, for a pull request"
    )
    parser.add_argument(
        "--run",
        action="store_true",
        help="BASE and NEW are targets as of run, which are measured in turns, here and now",
    )
    runs = parser.add_argument_group("with --run")
    _measuring(runs, runs, usual="30")
    runs.add_argument(
        "--new-config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a parameter of NEW alone",
    )
    runs.add_argument(
        "-o", "--output", nargs=2, metavar=("BASE.json", "NEW.json"), help="write both profiles"
    )


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="a file, or - for standard input")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to; by default PROFILE with .html"
    )
    parser.add_argument("--base", metavar="PROFILE", help="another profile to compare with")
    parser.add_argument("--cost", metavar="SOURCE", help="of the critical path, as wall_time")
    parser.add_argument("--statistic", choices=("median", "mean", "min", "max"), default="median")


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="a file, or - for standard input")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="where to; - stdout")
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="chrome_trace, csv, dot, graphml, html, mermaid, node_link, saga, wfformat; by "
        "default what the ending of FILE says",
    )
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="of the format, repeatable: cost=wall_time, network=@network.json (a file's JSON)",
    )


def _import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="where to; - stdout")
    parser.add_argument(
        "--format", metavar="NAME", help="wfformat; by default what recognizes the file"
    )


def _validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", nargs="+", help="files, or - for stdin")


def _rounds(text: str) -> int | str:
    """Return a number of rounds, or ``"auto"``."""
    try:
        return "auto" if text == "auto" else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or auto, got {text!r}") from None


def _rows(text: str) -> int:
    """Return a number of rows; 0 is all of them."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of rows, or 0 for all, got {text!r}")
    return int(text)
