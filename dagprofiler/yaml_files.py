"""DAGs written down as YAML."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dagprofiler.config import Config
from dagprofiler.errors import GraphError, MissingExtraError

if TYPE_CHECKING:
    import os

    from dagprofiler.task import Task

__all__ = ["read_dag"]


def read_dag(path: str | os.PathLike[str]) -> tuple[dict[str, type[Task]], list[Any], Config]:
    """Return tasks, edges and config of the DAG in a YAML file."""
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("DAG.from_yaml", "yaml") from error
    with open(path, encoding="utf-8") as file:
        try:
            document = yaml.safe_load(file)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise GraphError(f"{path}: not YAML: {error}") from error
    document = _typed(document, dict, f"{path}")
    config = _typed(document.get("config"), dict, f"{path}: config")
    for name in config:
        if not isinstance(name, str):
            raise GraphError(f"{path}: config: expected names, got {name!r}")
    tasks = _typed(document.get("tasks"), dict, f"{path}: tasks")
    edges = _typed(document.get("edges"), list, f"{path}: edges")
    return (
        {name: _task_class(spec, f"{path}: task {name!r}") for name, spec in tasks.items()},
        [_edge(edge, f"{path}: edge {number}") for number, edge in enumerate(edges, 1)],
        Config(**config),
    )


def _typed(value: Any, kind: type[Any], where: str) -> Any:
    """Return `value`, or an empty `kind` for nothing."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        word = "mapping" if kind is dict else "list"
        raise GraphError(f"{where}: expected a {word}, got {value!r}")
    return value


def _task_class(spec: Any, where: str) -> type[Task]:
    words = [spec.get("module"), spec.get("class")] if isinstance(spec, dict) else []
    if not words or not all(isinstance(word, str) and word for word in words):
        raise GraphError(f"{where}: expected 'module' and 'class', got {spec!r}")
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
        raise GraphError(f"{where}: expected 'source' and 'target', got {edge!r}")
    ends = (edge["source"], edge["target"])
    return (*ends, edge["data"]) if "data" in edge else ends
