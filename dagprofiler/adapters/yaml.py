"""read_dag(): what :meth:`DAG.from_yaml <dagprofiler.DAG.from_yaml>` makes a DAG of."""

from __future__ import annotations

import importlib
import os
from typing import IO, Any

from dagprofiler._util import JsonObject, PathLike
from dagprofiler.config import Config
from dagprofiler.errors import GraphError, needs_extra, short_repr
from dagprofiler.task import Task


def read_dag(path: PathLike | IO[Any]) -> tuple[dict[str, type[Task]], list[Any], Config]:
    """Return tasks, edges and config of the DAG in a YAML file or an open stream.

    Raises
    ------
    GraphError
        If the content is none, or a class cannot be imported.
    MissingExtraError
        If PyYAML is not installed.
    """
    if isinstance(path, (str, os.PathLike)):
        with open(path, encoding="utf-8") as file:
            return _read(file, str(path))
    return _read(path, getattr(path, "name", "the stream"))


def _read(file: IO[Any], path: str) -> tuple[dict[str, type[Task]], list[Any], Config]:
    document = _document(file, path)
    config = _typed(document.get("config"), dict, f"{path}: config")
    if not all(isinstance(name, str) for name in config):
        raise GraphError(f"{path}: config: expected names, got {short_repr([*config])}")
    tasks = _typed(document.get("tasks"), dict, f"{path}: tasks")
    edges = _typed(document.get("edges"), list, f"{path}: edges")
    return (
        {name: _task_class(spec, f"{path}: task {name!r}") for name, spec in tasks.items()},
        [_edge(edge, f"{path}: edge {number}") for number, edge in enumerate(edges, 1)],
        Config(**config),
    )


def _document(file: IO[Any], name: str) -> JsonObject:
    with needs_extra("DAG.from_yaml", "yaml"):
        import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]  # PyYAML may have no types
        """Refuses a mapping with two equal keys, of which PyYAML would drop the first."""

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            keys = set()
            for key, _ in node.value:
                if str(key.value) in keys:
                    problem = f"key {key.value!r} occurs twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                keys.add(str(key.value))
            return node

    try:
        document = yaml.load(file, Loader)  # noqa: S506  (it is a SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise GraphError(f"{name}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        what = "expected a mapping with tasks, edges and config"
        raise GraphError(f"{name}: {what}, got {short_repr(document)}")
    return document


def _typed(value: Any, kind: type[Any], where: str) -> Any:
    """Return `value`, or an empty `kind` for nothing."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        word = "mapping" if kind is dict else "list"
        raise GraphError(f"{where}: expected a {word}, got {short_repr(value)}")
    return value


def _entries(value: object, keys: tuple[str, str], where: str) -> list[Any]:
    """Return the values of two keys, which a mapping must have."""
    if not isinstance(value, dict) or not {*keys} <= value.keys():
        expected = " and ".join([repr(key) for key in keys])
        raise GraphError(f"{where}: expected {expected}, got {short_repr(value)}")
    return [value[key] for key in keys]


def _task_class(spec: object, where: str) -> type[Task]:
    module, name = _entries(spec, ("module", "class"), where)
    try:
        kind: type[Task] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        # As of a name that is no text, or empty, or a relative one.
        raise GraphError(f"{where}: {error}") from error
    return kind


def _edge(edge: Any, where: str) -> Any:
    if not isinstance(edge, dict):
        return edge
    ends = _entries(edge, ("source", "target"), where)
    return (*ends, edge["data"]) if "data" in edge else (*ends,)
