"""DAGs written down as YAML."""

from __future__ import annotations

import importlib
import os
from typing import IO, TYPE_CHECKING, Any

from dagprofiler.config import Config
from dagprofiler.errors import GraphError, MissingExtraError, short_repr

if TYPE_CHECKING:
    from dagprofiler.task import Task

__all__ = ["read_dag", "read_mapping"]


def read_dag(
    path: str | os.PathLike[str] | IO[Any],
) -> tuple[dict[str, type[Task]], list[Any], Config]:
    """Return tasks, edges and config of the DAG in a YAML file or an open stream."""
    document, path = read_mapping(path), _name(path)
    config = _typed(document.get("config"), dict, f"{path}: config")
    for name in config:
        if not isinstance(name, str):
            raise GraphError(f"{path}: config: expected names, got {short_repr(name)}")
    tasks = _typed(document.get("tasks"), dict, f"{path}: tasks")
    edges = _typed(document.get("edges"), list, f"{path}: edges")
    return (
        {name: _task_class(spec, f"{path}: task {name!r}") for name, spec in tasks.items()},
        [_edge(edge, f"{path}: edge {number}") for number, edge in enumerate(edges, 1)],
        Config(**config),
    )


def read_mapping(path: str | os.PathLike[str] | IO[Any]) -> dict[str, Any]:
    """Return the mapping in a YAML file or an open stream.

    Raises
    ------
    GraphError
        If it is none.
    MissingExtraError
        If PyYAML is not installed.
    """
    if isinstance(path, (str, os.PathLike)):
        with open(path, encoding="utf-8") as file:
            return _mapping(file, str(path))
    return _mapping(path, _name(path))


def _mapping(file: IO[Any], name: str) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("DAG.from_yaml", "yaml") from error
    try:
        document = yaml.safe_load(file)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise GraphError(f"{name}: not YAML: {' '.join(str(error).split())}") from error
    mapping: dict[str, Any] = _typed(document, dict, name)
    return mapping


def _name(path: Any) -> Any:
    """Return the path of a file, or the name of a stream."""
    return path if isinstance(path, (str, os.PathLike)) else getattr(path, "name", "the stream")


def _typed(value: Any, kind: type[Any], where: str) -> Any:
    """Return `value`, or an empty `kind` for nothing."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        word = "mapping" if kind is dict else "list"
        raise GraphError(f"{where}: expected a {word}, got {short_repr(value)}")
    return value


def _task_class(spec: Any, where: str) -> type[Task]:
    words = [spec.get("module"), spec.get("class")] if isinstance(spec, dict) else []
    if not words or not all(isinstance(word, str) and word for word in words):
        raise GraphError(f"{where}: expected 'module' and 'class', got {short_repr(spec)}")
    try:
        found: type[Task] = getattr(importlib.import_module(spec["module"]), spec["class"])
    except (ImportError, AttributeError, TypeError) as error:
        # TypeError: a relative name, and there is nothing that it could be relative to.
        raise GraphError(f"{where}: {error}") from error
    return found


def _edge(edge: Any, where: str) -> Any:
    if not isinstance(edge, dict):
        return edge
    if not {"source", "target"} <= edge.keys():
        raise GraphError(f"{where}: expected 'source' and 'target', got {short_repr(edge)}")
    ends = (edge["source"], edge["target"])
    return (*ends, edge["data"]) if "data" in edge else ends
