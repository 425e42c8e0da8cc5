"""Targets: the names of DAGs and of executors on a command line, and values of parameters."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from inspect import isfunction, signature
from numbers import Integral, Number
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dagprofiler.cli._parser import WHERE, CommandError
from dagprofiler.config import no_parameter
from dagprofiler.dag import DAG, parameters_of
from dagprofiler.engine.setup import as_schedule
from dagprofiler.errors import ValidationError, describe, did_you_mean, frames_of
from dagprofiler.measure.machine import ask_git

if TYPE_CHECKING:
    from concurrent.futures import Executor


def assignments(texts: Sequence[str], option: str) -> dict[str, str]:
    """Return the names and values in texts like ``NAME=VALUE``.

    A parameter may be set again; anything else that is given twice is refused.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise CommandError(f"{option}: expected NAME=VALUE, got {text!r}")
        if name in values and option != "--config":
            raise CommandError(f"{option}: {name!r} is given twice")
        values[name] = value
    return values


def guessed(text: str) -> Any:
    """Return a text parsed as JSON, or the text if it is not JSON.

    Examples
    --------
    >>> guessed("3"), guessed("[1, 2]"), guessed("fast")
    (3, [1, 2], 'fast')
    """
    try:
        return json.loads(text)
    except ValueError:
        return text


def as_like(name: str, text: str, like: Any, option: str = "--config") -> Any:
    """Return a text as a value of the type of another value, or as :func:`guessed` for None.

    `option` is where it was given.

    Raises
    ------
    CommandError
        If the text is not a value of this type.

    Examples
    --------
    >>> as_like("N", "1e6", 1), as_like("rate", "2", 0.5), as_like("on", "False", True)
    (1000000, 2.0, False)
    """
    kind = type(like)
    if kind is str:
        return text
    value = guessed(text.lower() if kind is bool else text)
    if like is None or type(value) is kind:
        return value
    if kind is tuple and isinstance(value, list):
        return tuple(value)
    is_number = isinstance(like, Number) and kind is not bool and type(value) in (int, float)
    if is_number and (float(value).is_integer() or not isinstance(like, Integral)):
        return kind(value)
    expected = f"a value of type {kind.__name__!r}, as JSON"
    raise CommandError(f"{option} {name}: expected {expected}, got {text!r}")


#: More workers for each core cannot be meant, and starting them would take the machine down.
_MOST_PER_CORE = 100

_KINDS = ("serial", "threads", "processes", "dask", "ray")


@contextmanager
def executor_named(spec: str | None, nodes: Collection[str] = ()) -> Iterator[object]:
    """Yield the executor for ``DAG.run(executor=...)``; pools made for it end with the block.

    Parameters
    ----------
    nodes
        Nodes of a schedule: each gets a pool of one worker, unless `spec` names a mapping of them.

    Raises
    ------
    CommandError
        If it is not the name of an executor.
    """
    from concurrent.futures import Executor

    executor, is_made = _executor(spec or ("processes" if nodes else "serial"), nodes)
    parts = executor.values() if isinstance(executor, Mapping) else [executor]
    pools = [part for part in parts if is_made and isinstance(part, Executor)]
    try:
        yield executor
        for pool in pools:
            pool.shutdown()
    except BaseException:
        # Running tasks are no longer needed; those in processes can be ended.
        for pool in pools:
            processes = list((getattr(pool, "_processes", None) or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
        raise


def _executor(spec: str, nodes: Collection[str]) -> tuple[object, bool]:
    """Return the executor, or one for each node, and whether it was made here."""
    kind, _, rest = spec.partition(":")
    if spec == "serial":
        return None, False
    if kind in ("threads", "processes"):
        if nodes and not rest:
            return {node: _pool(kind, 1) for node in nodes}, True
        cores = os.cpu_count() or 1
        workers, most = rest or str(cores), _MOST_PER_CORE * cores
        if not workers.isdecimal() or not 1 <= int(workers) <= most:
            raise CommandError(f"--executor: expected 1 to {most:,} workers, got {spec!r}")
        return _pool(kind, int(workers)), True
    if kind in ("dask", "ray"):
        module = import_module(f"dagprofiler.executors.{kind}")
        return getattr(module, f"{kind.title()}Executor")(rest or None), True
    where, name = _split(spec)
    hint = "" if _is_file(where) else did_you_mean(where, _KINDS)
    if hint or not name:
        raise CommandError(f"--executor: expected serial, {WHERE}; got {spec!r}{hint}")
    value = find(spec)
    executor = value() if callable(value) else value
    if executor is None:
        raise CommandError(f"--executor: {spec!r} is None; a function must return the executor")
    return executor, callable(value)


def _pool(kind: str, workers: int) -> Executor:
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

    if kind == "threads":
        return ThreadPoolExecutor(workers)
    return ProcessPoolExecutor(workers, initializer=_end_with, initargs=(os.getpid(),))


def _end_with(driver: int) -> None:
    """End with the driver, and ignore what a terminal sends to all: the driver handles it."""
    import signal

    from dagprofiler.executors.worker import end_with

    for name in {"SIGINT", "SIGHUP"} & {*dir(signal)}:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    end_with(driver)


def json_in(path: str, option: str) -> Any:
    """Return what a JSON file holds; `option` is where it was given."""
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except ValueError as error:
            raise CommandError(f"{option}: {path!r} is not JSON: {error}") from error


def schedule_in(path: str | None) -> dict[str, list[str]] | None:
    """Return the schedule in a JSON file, ``{node: [tasks]}``; None without a file."""
    if path is None:
        return None
    schedule = json_in(path, "--schedule")
    try:
        return as_schedule(schedule)
    except ValidationError as error:
        raise CommandError(f"--schedule {path}: {error}") from error


def load_dag(target: str, config: Sequence[str]) -> DAG:
    """Return the DAG that a target names, with the parameters ``NAME=VALUE``.

    Parameters
    ----------
    target
        ``module:name``, ``file.py:name``, or the path of a YAML file that holds a DAG.
    config
        Parameters of the DAG, and arguments of a function that builds it.

    Raises
    ------
    CommandError
        If there is no such DAG or parameter.
    """
    texts = assignments(config, "--config")
    if target.lower().endswith((".yaml", ".yml")):
        # Modules that the file names are searched in its folder.
        _search_in(os.path.dirname(os.path.abspath(target)))
        dag = DAG.from_yaml(target)
    else:
        value = find(target)
        dag = value if isinstance(value, DAG) else _built(target, value, texts)
    if texts:
        dag = dag.with_config({name: _parameter(dag, name, text) for name, text in texts.items()})
    dag.name = dag.name or os.path.basename(target)
    # A profile says whether it is of committed code.
    ask_git()
    return dag


def find(target: str) -> Any:
    """Return what a target names, a DAG or not; of a module alone its only DAG."""
    where, name = _split(target)
    if where.endswith((".json", ".json.gz")) and os.path.isfile(where):
        raise CommandError(f"{where!r} is no program; dagprofiler show and report take profiles")
    module = _import_file(where, target) if _is_file(where) else _import(where, target)
    if name:
        try:
            return attrgetter(name)(module)
        except AttributeError:
            hint = did_you_mean(name, _names_in(module)) or _choice_of(where, module)
            raise CommandError(f"target {target!r}: {where} has no {name!r}{hint}") from None
    dags = {id(value): value for value in vars(module).values() if isinstance(value, DAG)}
    if len(dags) != 1:
        problem = "holds several DAGs" if dags else "holds no DAG"
        raise CommandError(f"target {target!r} {problem}{_choice_of(where, module)}")
    return next(iter(dags.values()))


def _split(target: str) -> tuple[str, str]:
    """Return the module or file of a target, and a name in it, or "" for the only DAG."""
    where, colon, name = target.rpartition(":")
    return (where, name) if colon and not target.endswith(".py") else (target, "")


def _is_file(where: str) -> bool:
    return where.endswith(".py") or os.path.basename(where) != where


def _search_in(folder: str) -> None:
    """Search modules in a folder first, as Python does for a program in it."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _import_file(path: str, target: str) -> ModuleType:
    """Import a file under its module name, so that its tasks can be pickled."""
    path = os.path.abspath(path)
    if not os.path.isfile(path) or not path.endswith(".py"):
        raise CommandError(f"target {target!r}: there is no file {path!r} of Python or YAML")
    folder, name = os.path.split(path[: -len(".py")])
    if "." in name:
        raise CommandError(f"target {target!r}: {name!r} names no module; rename the file")
    # A file of a package is imported from the folder that holds the package.
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = package if name == "__init__" else f"{package}.{name}"
    module = _import(name, target, folder)
    file = getattr(module, "__file__", None) or "built in"
    if not os.path.exists(file) or not os.path.samefile(file, path):
        words = f"there is another module {name!r}, {file}; rename the file"
        raise CommandError(f"target {target!r}: {words}")
    return module


def _import(name: str, target: str, folder: str | None = None) -> ModuleType:
    """Import a module that is in this folder, by default the current one, or installed."""
    if not name.strip("."):
        raise CommandError(f"target {target!r}: expected module:dag or file.py:dag")
    _search_in(folder or os.getcwd())
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{name}.".startswith(f"{missing}."):
            words = f"there is no module {missing!r}; give one that is installed, or file.py:dag"
        else:
            words = f"importing {name!r} failed: {describe(error)}{_at(error)}"
        raise CommandError(f"target {target!r}: {words}") from error


def _at(error: BaseException) -> str:
    """Return where the user's code raised an error, in words; a SyntaxError already says it."""
    frames = frames_of(error)
    if not frames or isinstance(error, SyntaxError):
        return ""
    return f" ({frames[-1]['file']}, line {frames[-1]['line']})"


def _names_in(module: ModuleType) -> list[str]:
    """Return the names of a module's DAGs, then of its own public functions."""
    functions = [
        name
        for name, value in vars(module).items()
        if isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    return [name for name, value in vars(module).items() if isinstance(value, DAG)] + functions


def _choice_of(where: str, module: ModuleType) -> str:
    """Return what a target in a module can be, in words."""
    targets = [f"{where}:{name}" for name in _names_in(module)[:5]]
    if targets:
        return f"; give one of {', '.join(targets)}"
    return "; define one: dag = DAG(tasks), outside of if __name__ == '__main__':"


def _built(target: str, build: object, texts: dict[str, str]) -> DAG:
    """Return the DAG that a function builds, and remove its arguments from `texts`."""
    if isinstance(build, type) or not callable(build):
        kind = "class" if isinstance(build, type) else type(build).__name__
        raise CommandError(f"target {target!r} is a {kind}, not a DAG or a function that makes one")
    arguments: dict[str, object] = {}
    for name, parameter in signature(build).parameters.items():
        if name in texts:
            default = None if parameter.default is parameter.empty else parameter.default
            arguments[name] = as_like(name, texts.pop(name), default)
    try:
        signature(build).bind(**arguments)
    except TypeError as error:
        raise CommandError(f"target {target!r}: {error}: give --config NAME=VALUE") from None
    try:
        dag = build(**arguments)
    except (Exception, SystemExit) as error:
        raise CommandError(f"target {target!r} failed: {describe(error)}{_at(error)}") from error
    if not isinstance(dag, DAG):
        raise CommandError(f"target {target!r} returned {type(dag).__name__}, not a DAG")
    return dag


def swept(dag: DAG, texts: Sequence[str]) -> dict[str, list[object]]:
    """Return the values of parameters in texts like ``NAME=1,2,3``, typed as the DAG's own."""
    return {
        name: [_parameter(dag, name, value, "--over") for value in values.split(",")]
        for name, values in assignments(texts, "--over").items()
    }


def _parameter(dag: DAG, name: str, text: str, option: str = "--config") -> object:
    """Return a value of a parameter, of the type of the value that it replaces."""
    if name not in dag.config and name not in parameters_of(dag):
        raise CommandError(f"{option}: there is {no_parameter(name, parameters_of(dag))}")
    return as_like(name, text, dag.config.get(name), option)
