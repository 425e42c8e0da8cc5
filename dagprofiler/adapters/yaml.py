"""read_dag(): what :meth:`DAG.from_yaml <dagprofiler.DAG.from_yaml>` makes a DAG of."""

from __future__ import annotations

import importlib
import os
from typing import IO, Any

from dagprofiler.config import Config
from dagprofiler.errors import GraphError, needs_extra, short_repr
from dagprofiler.task import Task


def read_dag(
    path: str | os.PathLike[str] | IO[Any],
) -> tuple[dict[str, type[Task]], list[Any], Config]:
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


def _read(file: IO[Any], path: Any) -> tuple[dict[str, type[Task]], list[Any], Config]:
    document = _mapping(file, path)
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


def _mapping(file: IO[Any], name: str) -> dict[str, Any]:
    with needs_extra("DAG.from_yaml", "yaml"):
        import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]  # PyYAML may have no types
        """Refuses a mapping with two equal keys, of which PyYAML would drop the first."""

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            keys = set()
            for key, _ in node.value:
                if isinstance(key.value, str) and key.value in keys:
                    problem = f"key {short_repr(key.value)} occurs twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                keys.add(str(key.value))
            return node

    try:
        document = yaml.load(file, Loader)  # noqa: S506  (it is a SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise GraphError(f"{name}: not YAML: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise GraphError(f"{name}: lists and mappings are too deep in each other") from None
    if document is None:
        raise GraphError(f"{name}: expected a mapping with tasks, edges and config, got nothing")
    mapping: dict[str, Any] = _typed(document, dict, name)
    return mapping


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
        kind: type[Task] = getattr(importlib.import_module(spec["module"]), spec["class"])
    except (ImportError, AttributeError, TypeError) as error:
        # TypeError: a relative module name without a package to resolve it in.
        raise GraphError(f"{where}: {error}") from error
    return kind


def _edge(edge: Any, where: str) -> Any:
    if not isinstance(edge, dict):
        return edge
    if not {"source", "target"} <= edge.keys():
        raise GraphError(f"{where}: expected 'source' and 'target', got {short_repr(edge)}")
    ends = (edge["source"], edge["target"])
    return (*ends, edge["data"]) if "data" in edge else ends
