"""The commands ``sweep``, ``fit``, ``predict`` and ``simulate``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from dagprofiler._util.json import jsonable
from dagprofiler._util.text import aligned, number, quantity, shortened
from dagprofiler.cli import _output, _targets
from dagprofiler.cli._parser import CommandError
from dagprofiler.cli._run import deliver, measuring, run_options, write_results
from dagprofiler.errors import ValidationError, counted
from dagprofiler.profile import Profile

if TYPE_CHECKING:
    from dagprofiler.predict import CostModels, Engine


#: The command that takes the profiles which a model lacks.
_TAKES_THE_OTHERS = "dagprofiler sweep TARGET --over NAME=VALUE,VALUE,VALUE -o DIR takes the others"

#: How a command line gives an engine.
_ENGINE = "give --executor, which calibrates one, or --engine"


def sweep(arguments: argparse.Namespace) -> None:
    """Measure a DAG in several configurations, and write a profile of each."""
    from dagprofiler.experiments import sweep as measure

    folder = arguments.output
    if folder.lower().endswith((".json", ".gz")):
        raise CommandError(f"-o {folder}: expected a directory, for one profile each")
    os.makedirs(folder, exist_ok=True)
    _output.check_outputs(os.path.join(folder, "profile.json"))
    options = run_options(arguments, 5)

    def path_of(profile: Profile) -> str:
        name = ",".join(f"{key}={profile.config[key]}" for key in over)
        return os.path.join(folder, f"{quote(name, safe=',=+')}.json")

    with measuring(arguments, lambda profiles: [path_of(profile) for profile in profiles]):
        dag = _targets.load_dag(arguments.target, arguments.config)
        over = _targets.swept(dag, arguments.over)
        with _targets.executor_named(arguments.executor) as executor:
            profiles = measure(
                dag,
                over,
                **options,
                executor=executor,
                processes=False if arguments.one_process else None,
                progress=not arguments.quiet,
            )
    _output.save_all((profile, path_of(profile)) for profile in profiles)
    documents, rows = [], [[*over, "total ms", "profile"]]
    for profile in profiles:
        path, total_ms = path_of(profile), profile.metrics.total_time_ms
        values, _ = jsonable({name: profile.config[name] for name in over})
        documents.append({"config": values, "total_time_ms": total_ms, "written": path})
        rows.append([*(str(value) for value in values.values()), number(total_ms), path])
    table = "\n".join(aligned(rows, left=(len(over) + 1,)))
    _output.print_result(arguments, {"profiles": documents}, table)


def fit(arguments: argparse.Namespace) -> None:
    """Print how the costs in profiles depend on the parameters."""
    models = _models("fit", arguments.profile)
    fields = ("of", "quantity", "unit", "formula", "error", "regime", "doubt")
    document = {
        "parameters": {name: [*values] for name, values in models.parameters.items()},
        "models": [{name: getattr(m, name) for name in fields} for m in models.models],
        "reasons": [*models.reasons],
    }
    _output.print_result(arguments, document, str(models))


def _models(command: str, paths: Sequence[str]) -> CostModels:
    """Return the cost models of profiles, or of those in directories."""
    from dagprofiler.predict import fit as models_of

    files: list[str] = []
    for path in paths:
        names = [path]
        if os.path.isdir(path):
            # Partial ones are of an earlier sweep that ended early.
            whole = [
                file for file in Path(path).glob("*.json*") if ".partial.json" not in file.name
            ]
            names = sorted(str(file) for file in whole)
        if not names:
            raise CommandError(f"{path}: there is no complete profile (*.json) in this directory")
        files += names
    try:
        return models_of(map(_output.load_profile, files))
    except ValidationError as error:
        why = str(error).removeprefix("fit: ")
        raise CommandError(f"{command}: {why}; {_TAKES_THE_OTHERS}") from error


def predict(arguments: argparse.Namespace) -> None:
    """Write the profile that another configuration would have, and print a summary."""
    _output.check_outputs(arguments.output, arguments.report, read=arguments.profile)
    models = _models("predict", arguments.profile)
    last = models.profiles[-1].config
    config = {
        name: _targets.as_like(name, text, last.get(name))
        for name, text in _targets.assignments(arguments.config, "--config").items()
    }
    deliver(models.predict(config), arguments)


def simulate(arguments: argparse.Namespace) -> None:
    """Print the makespan that a profile's DAG would have, and write the predicted profile."""
    from dagprofiler.predict import CALIBRATE
    from dagprofiler.predict import simulate as simulated

    read = [arguments.profile, arguments.engine]
    _output.check_outputs(arguments.output, arguments.report, read=read)
    schedule = _targets.schedule_in(arguments.schedule)
    profile, engine = _output.load_profile(arguments.profile), _engine(arguments, schedule)
    simulated_with = partial(
        simulated,
        profile,
        engine=engine,
        cores=arguments.cores,
        schedule=schedule,
        speeds=_factors(arguments.speed, "--speed") or None,
        bandwidth=arguments.bandwidth,
    )
    faster = _factors(arguments.faster, "--faster")
    simulation = simulated_with(workers=arguments.workers, faster=faster)
    written = write_results(simulation.profile, arguments)
    if arguments.output == "-":
        return
    document = {
        "written": written,
        **simulation.figures(),
        "utilisation": simulation.utilisation,
        "gains": simulation.gains,
        "reasons": [reason.replace(CALIBRATE, _ENGINE) for reason in simulation.reasons],
    }
    lines = [str(simulation).replace(CALIBRATE, _ENGINE)]
    if arguments.executor is not None:
        lines.append(f"engine: {engine}")
    if faster and not arguments.json:
        workers = len(simulation.utilisation)
        before_ms = simulated_with(workers=arguments.workers and workers).makespan_ms
        shorter = 1 - simulation.makespan_ms / before_ms if before_ms else 0.0
        lines.append(
            f"with {', '.join(arguments.faster)}: {shortened(shorter)} than "
            f"{quantity(before_ms, 'ms')} without, on {counted(workers, 'worker')}"
        )
    lines += [f"{what}: {path}" for what, path in written.items()]
    _output.print_result(arguments, document, "\n".join(lines))


def _engine(arguments: argparse.Namespace, schedule: Collection[str] | None) -> Engine | None:
    """Return the engine of an executor, which is calibrated, or of a profile."""
    from dagprofiler.experiments import calibrate_engine
    from dagprofiler.predict import Engine

    if arguments.executor is not None:
        with _targets.executor_named(arguments.executor, schedule or ()) as executor:
            return calibrate_engine(executor)
    if arguments.engine is None:
        return None
    sections = _output.load_profile(arguments.engine).sections
    if "engine" not in sections:
        how = "simulate --executor writes one"
        raise CommandError(f"--engine {arguments.engine}: it has no section engine; {how}")
    return Engine.from_dict(sections["engine"])


def _factors(texts: Sequence[str], option: str) -> dict[str, float]:
    """Return the numbers in texts like ``NAME=2``."""
    return {
        name: _targets.as_like(name, text, 1.0, option)
        for name, text in _targets.assignments(texts, option).items()
    }
