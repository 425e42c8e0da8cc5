"""Targets: the names of DAGs on a command line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from dagprofiler.cli._parser import CommandError
from dagprofiler.config import no_parameter
from dagprofiler.dag import DAG, parameters_of
from dagprofiler.errors import describe, did_you_mean, frames_of

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
    """Return a text as a value of the type of another value; `option` is where it was given.

    Raises
    ------
    CommandError
        If the text cannot be converted; the message names the type.

    Examples
    --------
    >>> as_like("N", "1e6", 1), as_like("rate", "2", 0.5), as_like("on", "no", True)
    (1000000, 2.0, False)
    """
    if like is None:
        return guessed(text)
    kind = type(like)
    if kind not in _READERS and (kind.__module__ != "numpy" or kind.__name__ == "ndarray"):
        raise CommandError(
            f"{option} {name}: a {kind.__name__!r} cannot be given as text; use a function that "
            "builds the DAG as target, and set its arguments"
        )
    what, read = _READERS.get(kind, (kind.__name__, kind))
    try:
        return read(text)
    except (ValueError, OverflowError, LookupError, TypeError) as error:
        raise CommandError(
            f"{option} {name}: expected {what} like {like!r}, got {text!r}"
        ) from error


def _truth(text: str) -> bool:
    words = dict.fromkeys(("true", "yes", "on", "1"), True)
    return {**words, **dict.fromkeys(("false", "no", "off", "0"), False)}[text.strip().lower()]


def _integer(text: str) -> int:
    """Return an integer, also if written as 1e6."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def _json(kind: type, text: str) -> Any:
    value = json.loads(text)
    if not isinstance(value, kind):
        raise TypeError(text)
    return value


#: Type of a parameter to what is expected, in words, and the function that reads it.
_READERS: dict[type, tuple[str, Callable[[str], Any]]] = {
    str: ("text", str),
    bool: ("true or false", _truth),
    int: ("an integer", _integer),
    float: ("a number", float),
    list: ("a JSON list", partial(_json, list)),
    tuple: ("a JSON list", lambda text: tuple(_json(list, text))),
    dict: ("a JSON object", partial(_json, dict)),
}


#: More of them cannot be meant.
_PROCESSES_PER_CORE = 100

_KINDS = ("serial", "threads", "processes", "dask", "ray")
_KNOWN = "serial, threads:4, processes:4, dask, dask:ADDRESS, ray, ray:ADDRESS, or file.py:executor"


@contextmanager
def executor_named(spec: str | None, nodes: Collection[str] = ()) -> Iterator[Any]:
    """Yield the executor for ``DAG.run(executor=...)``; a pool is shut down after the run.

    Parameters
    ----------
    nodes
        Those of a schedule: each gets a pool of one worker, or has one in a mapping by name.

    Raises
    ------
    CommandError
        If it is not the name of an executor.
    """
    kind, _, rest = (spec or ("processes" if nodes else "serial")).partition(":")
    if nodes and not Place.of(str(spec)).is_file:
        if rest or kind not in ("threads", "processes"):
            raise CommandError(
                "--executor: with --schedule each node has a worker of its own: expected "
                f"processes, threads, or file.py:pools with {{node: pool}}, got {spec!r}"
            )
        with ExitStack() as pools:
            yield {node: pools.enter_context(_ended(_pool(kind, 1))) for node in nodes}
    elif kind == "serial" and not rest:
        yield None
    elif kind in ("threads", "processes"):
        with _ended(_pool(kind, _workers(kind, rest))) as pool:
            yield pool
    elif kind == "dask":
        from dagprofiler.executors.dask import DaskExecutor

        yield DaskExecutor(rest or None)
    elif kind == "ray":
        from dagprofiler.executors.ray import RayExecutor

        yield RayExecutor(rest or None)
    else:
        hint = "" if Place.of(str(spec)).is_file else did_you_mean(kind, _KINDS)
        if hint:
            raise CommandError(f"--executor: expected {_KNOWN}; got {spec!r}{hint}")
        with _imported(str(spec)) as executor:
            yield executor


def _workers(kind: str, rest: str) -> int:
    cores = os.cpu_count() or 1
    most = _PROCESSES_PER_CORE * cores
    if not rest:
        return cores
    if not rest.isdecimal() or not int(rest):
        what = "a number of workers of at least 1"
    elif kind == "processes" and int(rest) > most:
        what = f"at most {most:,} processes, {_PROCESSES_PER_CORE} for each core"
    else:
        return int(rest)
    raise CommandError(f"--executor: expected {what}, got '{kind}:{rest}'")


@contextmanager
def _imported(spec: str) -> Iterator[Any]:
    """Yield an executor, or one for each node, by name; what a function makes is shut down."""
    from concurrent.futures import Executor

    from dagprofiler.executors.pools import executor_of

    if not Place.of(spec).name or spec.startswith("serial:"):
        raise CommandError(f"--executor: expected {_KNOWN}; got {spec!r}")
    found = find(spec)
    made = found() if callable(found) else found
    executors = [*made.values()] if isinstance(made, Mapping) else [made]
    for executor in executors:
        if executor_of(executor) is None:
            kind = type(executor).__name__
            raise CommandError(f"--executor {spec!r} is a {kind}, not an executor")
    with ExitStack() as pools:
        for executor in executors if made is not found else ():
            if isinstance(executor, Executor):
                pools.enter_context(_ended(executor))
        yield made


def _pool(kind: str, workers: int) -> Executor:
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

    if kind == "threads":
        return ThreadPoolExecutor(workers)
    try:
        return ProcessPoolExecutor(workers, initializer=_belong_to, initargs=(os.getpid(),))
    except OSError as error:
        where = " in /dev/shm" if sys.platform == "linux" else ""
        raise CommandError(
            f"--executor: processes need semaphores{where}: {error.strerror or error}"
        ) from error


@contextmanager
def _ended(pool: Any) -> Iterator[Any]:
    """Yield a pool, and shut it down after the run."""
    try:
        yield pool
    except BaseException:
        # Running tasks are no longer needed; those in processes can be ended.
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    pool.shutdown()


def _belong_to(driver: int) -> None:
    """End with the driver, and ignore what a terminal sends to all: the driver handles it."""
    import signal

    from dagprofiler.executors.worker import end_with

    for name in {"SIGINT", "SIGHUP"} & {*dir(signal)}:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    end_with(driver)


class Place(NamedTuple):
    """The place of a target: what to import, and a name in it.

    Attributes
    ----------
    where
        A module's name, or the path of a file.
    name
        An attribute, dotted if nested; "" for the only DAG in the module.
    """

    where: str
    name: str

    @classmethod
    def of(cls, target: str) -> Place:
        """Return the place that a target names."""
        where, colon, name = target.rpartition(":")
        if not colon or target.endswith(".py"):
            return cls(target, "")
        return cls(where, name)

    @property
    def is_file(self) -> bool:
        """Whether `where` is the path of a file, not the name of a module."""
        return self.where.endswith(".py") or os.path.basename(self.where) != self.where


def json_in(path: str, option: str) -> Any:
    """Return what a JSON file holds; `option` is where it was given."""
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file)
        except ValueError as error:
            raise CommandError(f"{option}: {path!r} is not JSON: {error}") from error


def schedule_in(path: str | None) -> dict[str, Any] | None:
    """Return the schedule in a JSON file, ``{node: [tasks]}``; None without a file."""
    if path is None:
        return None
    schedule = json_in(path, "--schedule")
    if not isinstance(schedule, dict) or not schedule:
        raise CommandError(f'--schedule: expected {{"node": ["task", ...]}} in {path!r}')
    return schedule


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
    given = assignments(config, "--config")
    if target.lower().endswith((".yaml", ".yml")):
        # Modules that the file names are searched in its folder.
        _search_in(os.path.dirname(os.path.abspath(target)))
        try:
            dag = DAG.from_yaml(target)
        except OSError as error:
            raise CommandError(f"target {target!r}: cannot be read: {error.strerror}") from error
    else:
        value = find(target)
        dag = value if isinstance(value, DAG) else _built(target, value, given)
    if given:
        dag = dag.with_config({name: _parameter(dag, name, text) for name, text in given.items()})
    dag.name = dag.name or os.path.basename(target)
    return dag


def find(target: str) -> Any:
    """Return the value that a target names, a DAG or not."""
    place = Place.of(target)
    if place.is_file:
        module = _import_file(os.path.abspath(place.where), target)
    else:
        _search_in(os.getcwd())
        module = _import(place.where, target)
    if not place.name:
        return _only_dag(target, module)
    try:
        return attrgetter(place.name)(module)
    except AttributeError:
        near = did_you_mean(place.name, _candidates(module))
        hint = f"{place.name!r}{near or _what_there_is(place.where, module)}"
        raise CommandError(f"target {target!r}: {place.where} has no {hint}") from None


def _search_in(folder: str) -> None:
    """Search modules in a folder first, as Python does for a program in it."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _import_file(path: str, target: str) -> ModuleType:
    """Import a file under its module name, so that its tasks can be pickled."""
    if not os.path.isfile(path):
        raise CommandError(f"target {target!r}: there is no file {path!r}")
    if not path.endswith(".py"):
        raise CommandError(f"target {target!r}: expected a .py or a .yaml file")
    folder, name = os.path.split(path[: -len(".py")])
    if "." in name:
        raise CommandError(
            f"target {target!r}: {name!r} is not a valid module name; rename the file"
        )
    # A file of a package is imported from the folder that holds the package.
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = package if name == "__init__" else f"{package}.{name}"
    _search_in(folder)
    module = _import(name, target)
    file = getattr(module, "__file__", None)
    if file is None or not os.path.samefile(file, path):
        raise CommandError(
            f"target {target!r}: there is another module {name!r}, {file or 'built in'}; "
            "rename the file"
        )
    return module


def _import(name: str, target: str) -> ModuleType:
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            missing = error.name
            if name == missing or name.startswith(f"{missing}."):
                raise CommandError(
                    f"target {target!r}: there is no module {missing!r}; give module:dag for an "
                    "importable module, or file.py:dag"
                ) from error
        if isinstance(error, (TypeError, ValueError)) and not name.strip("."):
            raise CommandError(f"target {target!r}: expected module:dag or file.py:dag") from error
        raise CommandError(
            f"target {target!r}: importing {name!r} failed: {describe(error)}{_at(error)}"
        ) from error


def _at(error: BaseException) -> str:
    """Return where the user's code raised an error, in words; a SyntaxError already says it."""
    frames = frames_of(error)
    if not frames or isinstance(error, SyntaxError):
        return ""
    return f" ({frames[-1]['file']}, line {frames[-1]['line']})"


def _only_dag(target: str, module: ModuleType) -> DAG:
    dags = _dags(module)
    different = {id(value): value for value in dags.values()}
    if len(different) == 1:
        return next(iter(different.values()))
    if dags:
        raise CommandError(
            f"target {target!r} holds several DAGs; give one of "
            f"{', '.join(f'{target}:{name}' for name in dags)}"
        )
    raise CommandError(f"target {target!r} holds no DAG{_what_there_is(target, module)}")


def _dags(module: ModuleType) -> dict[str, DAG]:
    return {name: value for name, value in vars(module).items() if isinstance(value, DAG)}


def _candidates(module: ModuleType) -> list[str]:
    """Return the names of a module's DAGs, then of its own functions."""
    return [*_dags(module)] + [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__
        and type(value).__name__ == "function"
        and not name.startswith("_")
    ]


def _what_there_is(where: str, module: ModuleType) -> str:
    """Return a hint with the DAGs of a module, or else its functions."""
    names = _candidates(module)[:5]
    if not names:
        return "; define one, as in dag = DAG(tasks, edges)"
    return f"; it has {', '.join(f'{where}:{name}' for name in names)}"


def _built(target: str, found: Any, given: dict[str, str]) -> DAG:
    """Return the DAG that a function builds, and remove its arguments from `given`."""
    if isinstance(found, type) or not callable(found):
        kind = f"the class {found.__name__}" if isinstance(found, type) else type(found).__name__
        raise CommandError(
            f"target {target!r} must be a DAG or a function that builds one, got {kind}"
        )
    arguments = _arguments(target, found, given)
    try:
        dag = found(**arguments)
    except (Exception, SystemExit) as error:
        raise CommandError(f"target {target!r} failed: {describe(error)}{_at(error)}") from error
    if not isinstance(dag, DAG):
        raise CommandError(f"target {target!r} returned {type(dag).__name__}, not a DAG")
    return dag


def _arguments(target: str, build: Callable[..., Any], given: dict[str, str]) -> dict[str, Any]:
    from inspect import Parameter, signature

    arguments = {}
    for name, parameter in signature(build).parameters.items():
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        default = parameter.default
        if name in given and parameter.kind is not Parameter.POSITIONAL_ONLY:
            text = given.pop(name)
            if default is Parameter.empty or default is None:
                arguments[name] = _annotated(name, text, parameter.annotation)
            else:
                arguments[name] = as_like(name, text, default)
        elif default is Parameter.empty:
            raise CommandError(f"target {target!r} takes {name!r}: give --config {name}=VALUE")
    return arguments


def _annotated(name: str, text: str, annotation: Any) -> Any:
    """Return a value of the annotated type if that is a plain one, else parsed as JSON."""
    zeros: Mapping[str, Any] = {"int": 0, "float": 0.0, "str": "", "bool": False}
    kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return as_like(name, text, zeros[kind]) if kind in zeros else guessed(text)


def swept(dag: DAG, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of parameters in texts like ``NAME=1,2,3``, typed as the DAG's own."""
    return {
        name: [_parameter(dag, name, value, "--over") for value in values.split(",")]
        for name, values in assignments(texts, "--over").items()
    }


def _parameter(dag: DAG, name: str, text: str, option: str = "--config") -> Any:
    """Return a value of a parameter, of the type of the value that it replaces."""
    if name in dag.config:
        return as_like(name, text, dag.config[name], option)
    names = parameters_of(dag)
    if name not in names:
        raise CommandError(f"{option}: there is {no_parameter(name, names)}")
    return guessed(text)
