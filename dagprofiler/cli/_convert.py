"""The commands that read files: ``show``, ``report``, ``export``, ``import``, ``validate``."""

from __future__ import annotations

import argparse
import os
import sys

from dagprofiler._util import JsonObject
from dagprofiler._util.checks import choice, integer
from dagprofiler._util.files import COMPRESSED
from dagprofiler.analysis.summary import PARTS, figures
from dagprofiler.cli import _output
from dagprofiler.cli._parser import NEGATIVE, CommandError, build_parser
from dagprofiler.cli._targets import assignments, guessed, json_in
from dagprofiler.errors import FormatError, ProfileError, needs_extra
from dagprofiler.formats import exporter_names, import_profile, importer_names

#: Metavars of arguments that are files.
_FILES = {"FILE", "PROFILE", "TARGET", "BASE", "NEW", "DIR", "('BASE.json', 'NEW.json')"}


def show(arguments: argparse.Namespace) -> None:
    """Print what a profile says."""
    profile = _output.load_profile(arguments.profile)
    top = 0 if arguments.json else integer("--top", arguments.top)
    shown = figures(profile, arguments.sort, arguments.cost, top)
    parts = arguments.part or PARTS
    if arguments.json:
        # The columns of meters are in the tasks.
        _output.print_json({part: shown[part] for part in PARTS if part in parts and part in shown})
    else:
        _output.print_text(_output.text(shown, parts, top))


def report(arguments: argparse.Namespace) -> None:
    """Write a profile as an HTML page."""
    # By default beside the profile, without its endings.
    path = "report" if arguments.profile == "-" else arguments.profile.removesuffix(COMPRESSED)
    output = arguments.output or f"{os.path.splitext(path)[0]}.html"
    _output.check_outputs(output, read=[arguments.profile, arguments.base])
    profile = _output.load_profile(arguments.profile)
    base = None if arguments.base is None else _output.load_profile(arguments.base)
    with _output.writing_to(output) as place:
        losses = profile.report(place, base, cost=arguments.cost, statistic=arguments.statistic)
    _print_written(arguments, output, losses)


def export(arguments: argparse.Namespace) -> None:
    """Write a profile in another tool's format."""
    from dagprofiler._util.plugins import EXPORTERS, check_options, format_of, load

    output = arguments.output
    _output.check_outputs(output, read=[arguments.profile])
    if output == "-" and arguments.json:
        raise CommandError("export: --json prints what was written; give -o FILE as well")
    if output == "-" and arguments.format is None:
        raise CommandError("export: give --format, or -o FILE with the extension of a format")
    try:
        name = arguments.format or format_of(output)
    except FormatError as error:
        raise CommandError(str(error).replace("format=", "--format")) from error
    # A value that begins with @ names a JSON file.
    options = {
        option: json_in(value[1:], "--option") if value.startswith("@") else guessed(value)
        for option, value in assignments(arguments.option, "--option").items()
    }
    if arguments.cost is not None:
        options["cost"] = arguments.cost
    check_options(name, load(EXPORTERS, name), options)
    profile = _output.load_profile(arguments.profile)
    with _output.writing_to(output) as place:
        losses = profile.export(place, name, **options)
    _print_written(arguments, output, losses)


def _print_written(arguments: argparse.Namespace, output: str, losses: tuple[str, ...]) -> None:
    """Print the file that was written, and what was left out."""
    if output == "-" or not arguments.json:
        _output.note_left_out(losses)
    if output != "-":
        document = {"written": output, "left_out": list(losses)}
        _output.print_result(arguments, document, f"written: {output}")


def import_(arguments: argparse.Namespace) -> None:
    """Convert another tool's file to a profile."""
    _output.check_outputs(arguments.output, read=[arguments.file])
    source = sys.stdin.buffer if arguments.file == "-" else arguments.file
    try:
        profile = import_profile(source, arguments.format)
    except (FormatError, ProfileError) as error:
        words = f"{_output.source_name(arguments.file)}: {error}"
        raise CommandError(words.replace("format=", "--format")) from error
    with _output.writing_to(arguments.output) as place:
        profile.save(place)
    _print_written(arguments, arguments.output, ())


def validate(arguments: argparse.Namespace) -> int:
    """Check for each file whether it is a valid profile."""
    results: list[JsonObject] = []
    lines = []
    for path in arguments.profile:
        try:
            profile = _output.load_profile(path)
        except CommandError as error:
            results.append({"file": path, "valid": False, "problem": str(error)})
            lines.append(str(error))
        else:
            version = profile.metadata.get("dagprofiler_version")
            results.append({"file": path, "valid": True, "dagprofiler_version": version})
            lines.append(f"{_output.source_name(path)}: a valid profile")
    _output.print_result(arguments, results, "\n".join(lines))
    return 0 if all(result["valid"] for result in results) else NEGATIVE


def completion(arguments: argparse.Namespace) -> None:
    """Print a completion script for a shell."""
    with needs_extra("shell completion", "cli"):
        import shtab
    choice("completion: SHELL", arguments.shell, shtab.SUPPORTED_SHELLS, error=CommandError)
    parser = build_parser()
    _mark(parser, shtab.FILE, [])
    script = shtab.complete(parser, shell=arguments.shell)
    _output.print_result(arguments, {"shell": arguments.shell, "script": script}, script)


def _mark(parser: argparse.ArgumentParser, file: object, formats: list[str]) -> None:
    """Mark what is completed to files and to formats."""
    names = {"export": exporter_names, "import": importer_names}
    for action in parser._actions:  # noqa: SLF001  (argparse has no public access)
        if isinstance(action.choices, dict):
            for command, subparser in action.choices.items():
                _mark(subparser, file, names[command]() if command in names else [])
        elif action.dest == "format":
            action.choices = formats
        elif str(action.metavar) in _FILES:
            action.complete = file  # type: ignore[attr-defined]
