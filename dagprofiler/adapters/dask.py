"""Graphs of Dask: collections and delayed values as tasks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

from dagprofiler._util import JsonObject
from dagprofiler._util.text import distinct, printable
from dagprofiler.adapters import Converted, Observed, OwnRun, profile_of
from dagprofiler.adapters.functions import GatherTask, name_of_result
from dagprofiler.errors import (
    DagProfilerError,
    DeclarationError,
    GraphError,
    describe,
    explained,
    needs_extra,
    short_repr,
)
from dagprofiler.profile import Profile
from dagprofiler.task import Task

#: A key of a graph: text, or a tuple of a name and places in an array.
Key = Hashable

#: A node of a graph, as Dask computes it.
Node = Any

#: The nodes of a graph by their keys.
Graph = Mapping[Key, Node]

#: What Dask's graphs cannot give.
_UNKNOWN = {
    "data_fields": "Dask's keys have one value each and name no fields: all are called 'value'",
    "estimated_instructions": "Dask's graphs have no cost models",
}

#: Classes of nodes, or of their functions, whose results are not in their values.
_SHUFFLES = {"P2PBarrierTask", "maybe_buffered_partd"}

_TASKS = 'dask.config.set({"dataframe.shuffle.method": "tasks", "array.rechunk.method": "tasks"})'

#: Packages whose iterators only compute their items when asked for; others may be more.
_LAZY = {"builtins", "itertools", "dask", "toolz", "cytoolz"}


def _put_together(
    parts: Sequence[tuple[Any, Any, Any]], repack: Callable[..., Any], values: Mapping[Key, Any]
) -> Any:
    """Return the collections' results, as ``compute()`` of Dask does.

    Parameters
    ----------
    parts
        For each collection its keys, nested, and the function and arguments that finish it.
    repack
        Returns the object that held the collections, given their results.
    values
        The values of all keys.
    """
    done = [finish(_nested(keys, values), *arguments) for keys, finish, arguments in parts]
    return repack(done)[0]


def _nested(keys: list[Any] | Key, values: Mapping[Key, Any]) -> Any:
    return [_nested(key, values) for key in keys] if isinstance(keys, list) else values[keys]


def from_dask(collection: Any, *, optimize: bool) -> Converted:
    """Return a task for each key of a Dask graph, and one for the result.

    The parameters are those of :meth:`dagprofiler.DAG.from_dask`.
    """
    with needs_extra("DAG.from_dask", "dask"):
        import dask
        from dask.base import unpack_collections
        from dask.core import flatten
    collections, repack = unpack_collections(collection)
    if not collections:
        what = f"expected a Dask collection, got {short_repr(collection)}"
        raise GraphError(f"from_dask(): {what}")
    # Of Dask's ways to shuffle it is the one whose values travel over edges.
    shuffling = dask.config.set({"dataframe.shuffle.method": "tasks"})
    with explained(GraphError, "from_dask(): Dask makes no graph"), shuffling:
        if optimize:
            collections = _optimized(collections)
        graph: dict[Key, Node] = {}
        for item in collections:
            graph.update(item.__dask_graph__())
        parts = [(item.__dask_keys__(), *item.__dask_postcompute__()) for item in collections]
    wanted = list(dict.fromkeys(flatten([keys for keys, *_ in parts])))
    with explained(DagProfilerError, "DAG.from_dask needs Dask 2024.12 or newer", of=ImportError):
        from dask._task_spec import convert_legacy_graph
    result = partial(_put_together, parts, repack)
    return _converted(convert_legacy_graph(graph), wanted, result)


def _optimized(collections: Sequence[Any]) -> list[Any]:
    """Return collections as Dask would compute them."""
    import dask
    from dask.delayed import Delayed

    fuses = dask.config.get("optimization.fuse.delayed", False)
    done: dict[int, Any] = {}
    for i, collection in enumerate(collections):
        # Of delayed values Dask only leaves out what nothing needs, in quadratic time.
        if isinstance(collection, Delayed) and not fuses:
            done[i] = collection
        # Dataframes optimize themselves; dask.optimize() does not know all of theirs.
        elif hasattr(type(collection), "optimize"):
            done[i] = collection.optimize()
    others = iter(dask.optimize(*[c for i, c in enumerate(collections) if i not in done]))
    return [done[i] if i in done else next(others) for i in range(len(collections))]


def _converted(nodes: Graph, wanted: Sequence[Key], result: Callable[..., Any]) -> Converted:
    """Return the tasks and edges of the keys that are wanted, and of those they need."""
    needs, literals = _reached(nodes, wanted)
    names = names_of(needs)
    # No key is equal to it.
    names[result], needs[result] = name_of_result({*names.values()}), [*wanted]
    tasks: dict[str, Task] = {}
    edges: list[Any] = []
    for key, name in names.items():
        compute = result if key is result else partial(_computed, nodes[key])
        task = GatherTask(compute, name, needs[key], literals)
        tasks[name] = task
        sources = [names[_behind(needed, nodes)] for needed in task.arriving]
        edges += [(source, name, {"value": "values"}) for source in sources]
    return Converted(tasks, edges, _UNKNOWN)


def _behind(key: Key, nodes: Graph) -> Key:
    """Return the key that an alias stands for."""
    from dask._task_spec import Alias

    while type(nodes.get(key)) is Alias and nodes[key].target != key:
        key = nodes[key].target
    return key


def _reached(nodes: Graph, wanted: Sequence[Key]) -> tuple[dict[Key, list[Key]], dict[Key, Any]]:
    """Return each key that has to be computed to those it needs, and the values of the others.

    A key comes after those it needs.
    """
    from dask._task_spec import DataNode

    needs: dict[Key, list[Key]] = {}
    literals: dict[Key, Any] = {}
    elsewhere: dict[Key, Key] = {}
    finished: dict[Key, list[Key]] = {}
    left = [*reversed(wanted)]
    while left:
        needed = left.pop()
        key = _behind(needed, nodes)
        if key in needs:
            finished.setdefault(key, needs[key])
        elif key not in nodes:
            elsewhere[needed] = key
        elif type(node := nodes[key]) is DataNode:
            literals[needed] = node.value
        elif _shuffles(node):
            raise GraphError(f"from_dask(): {key!r} shuffles outside of the graph: use {_TASKS}")
        else:
            needs[key] = _needed(node)
            left += [key, *reversed(needs[key])]
    if elsewhere:
        values = _fetched({*elsewhere.values()})
        literals.update((needed, values[key]) for needed, key in elsewhere.items())
    return finished, literals


def _shuffles(node: Node) -> bool:
    """Tell whether the data of a node, or of a node fused into it, is on no edge."""
    function = getattr(node, "func", None)
    # Of a partial, the function; some of these are classes.
    function = getattr(function, "func", function)
    names = {type(item).__name__ for item in (node, function)}
    if names & _SHUFFLES or str(getattr(function, "__module__", "")).startswith("partd."):
        return True
    fused = [item for item in getattr(node, "args", ()) if type(item) is dict]
    return any(_shuffles(inner) for parts in fused for inner in parts.values())


def _computed(node: Node, values: Mapping[Key, Any]) -> Any:
    """Return the value of a key; an iterator, as bags have, computes its items here and now.

    It would compute them in each key that needs them, and many cannot be serialized.
    """
    value = node(values)
    is_lazy = type(value).__module__.partition(".")[0] in _LAZY
    return [*value] if is_lazy and isinstance(value, Iterator) else value


def _fetched(keys: set[Key]) -> dict[Key, Any]:
    """Return the values of keys that a graph lacks, since the current client's cluster has them."""
    words = "from_dask(): the graph needs keys that the current client of Dask does not give"
    with explained(GraphError, words):
        from distributed import Future, default_client

        client = default_client()
        if unknown := keys - client.futures.keys():
            raise KeyError(*unknown)
        return dict(client.gather({key: Future(key, client) for key in keys}))


def _needed(node: Node) -> list[Key]:
    """Return the keys that a node needs, in the order of its arguments.

    The set that Dask has of them is in another order in each process.
    """
    from dask._task_spec import Alias, GraphNode, TaskRef

    in_order: dict[Key, None] = {}
    left = [node]
    while left:
        item = left.pop()
        if isinstance(item, TaskRef):
            in_order[item.key] = None
        elif isinstance(item, Alias):
            in_order[item.target] = None
        elif isinstance(item, GraphNode):
            left += reversed((*getattr(item, "args", ()), *getattr(item, "kwargs", {}).values()))
        elif type(item) is dict:
            # The parts of a fused node.
            left += reversed(item.values())
    needed = node.dependencies
    others = sorted(needed - in_order.keys(), key=str)
    return [key for key in (*in_order, *others) if key in needed]


def names_of(keys: Iterable[Key]) -> dict[Key, str]:
    """Return a name for each key: without its hash, with its place in the array.

    Keys of several layers with one name are numbered from the second on.

    Examples
    --------
    >>> list(names_of([("sum-1234567890abcdef1234567890abcdef", 0, 1), "load"]).values())
    ['sum (0, 1)', 'load']
    """
    from dask.utils import key_split

    names: dict[Key, str] = {}
    for key in keys:
        name = str(key_split(key)) or "key"
        if isinstance(key, tuple) and len(key) > 1:
            name += f" ({', '.join(str(place) for place in key[1:])})"
        names[key] = printable(name).replace("->", "-")
    return dict(zip(names, distinct(names.values(), "{} #{}")))


@contextmanager
def profile_dask(client: Any) -> Iterator[Recording]:
    """Record what a cluster of Dask computes in a block.

    Parameters
    ----------
    client
        A ``distributed.Client``. The scheduler's environment needs dagprofiler too.

    Yields
    ------
    Recording
        Its `profile` is available after the block.

    Raises
    ------
    DeclarationError
        If `client` is something else, asynchronous, or closed.
    MissingExtraError
        If distributed is not installed.

    Notes
    -----
    A plug-in of the scheduler writes down every transition of a key; nothing is added to the
    workers. Keys that nobody has waited for at the end of the block are in the profile as
    cancelled.
    """
    with needs_extra("profile_dask", "dask"):
        from distributed import Client
    if not isinstance(client, Client) or client.asynchronous or client.status != "running":
        what = "a connected distributed.Client, not asynchronous"
        raise DeclarationError(f"profile_dask(): expected {what}, got {short_repr(client)}")
    recording = Recording()
    name = f"dagprofiler-{uuid4()}"
    client.run_on_scheduler(_begin, name)
    try:
        yield recording
    finally:
        try:
            seen = client.run_on_scheduler(_end, name)
        except Exception as error:  # noqa: BLE001  (what the block raises is of more interest)
            why = describe(error) if client.status == "running" else "its client was closed"
            recording.unavailable = f"the recording of profile_dask() is lost: {why}"
        else:
            recording.unavailable = "nothing was computed in the block of profile_dask()"
            if seen["keys"]:
                recording.recorded = _profile(**seen)


def _begin(name: str, *, dask_scheduler: Any) -> None:
    """Add the plug-in to the scheduler, in whose process this runs."""
    from distributed import SchedulerPlugin
    from distributed.metrics import time

    class Transitions(SchedulerPlugin):  # type: ignore[misc]
        """Keeps what the transitions of keys tell."""

        def __init__(self) -> None:
            self.keys: dict[Key, JsonObject] = {}
            self.workers: dict[str, JsonObject] = {}

        def transition(self, key: Key, start: str, finish: str, *_: Any, **details: Any) -> None:
            state = dask_scheduler.tasks.get(key)
            entry = self.keys.get(key)
            if start == "released" and finish == "waiting" and state is not None:
                entry = self.keys.setdefault(key, {"at": time(), "computed": 0})
                entry["needs"] = [needed.key for needed in state.dependencies]
            if entry is None:
                return
            if start == "waiting":
                entry["ready"] = time()
            actions = [span["action"] for span in details.get("startstops") or ()]
            if finish == "memory" and "compute" in actions:
                entry["computed"] += 1
                if entry["computed"] > 1:
                    # What has run since may have needed the first.
                    return
                entry.update((name, details[name]) for name in ("worker", "startstops"))
                entry.update(thread=details.get("thread") or 0, nbytes=details.get("nbytes"))
                worker = dask_scheduler.workers.get(details["worker"])
                if worker is not None:
                    self.workers[details["worker"]] = {
                        "host": worker.host,
                        "pid": worker.pid,
                        # Dask has corrected the times by it: it differs within a machine, too.
                        "clock_ahead_ms": round(-worker.time_delay * 1e3, 6),
                    }
            if finish == "erred":
                is_blamed = state is not None and state.exception_blame is state
                entry["error"] = state.exception_text if is_blamed else None

    dask_scheduler.add_plugin(Transitions(), name=name)


def _end(name: str, *, dask_scheduler: Any) -> JsonObject:
    """Remove the plug-in, and return what it has seen."""
    from dask import __version__

    seen = dask_scheduler.plugins[name]
    dask_scheduler.remove_plugin(name)
    return {"keys": seen.keys, "workers": seen.workers, "version": __version__}


class Recording:
    """What a cluster of Dask computed in the block of :func:`profile_dask`."""

    def __init__(self) -> None:
        self.recorded: Profile | None = None
        self.unavailable = "the profile is available after the block of profile_dask()"

    @property
    def profile(self) -> Profile:
        """The profile of all keys that were computed in the block.

        Times are those of Dask's workers on the scheduler's clock, sizes what Dask estimates
        values to take in memory. The section ``dask`` has the key of each task, the transfers
        between workers that it waited for, and how often it was computed if more than once.

        Raises
        ------
        DagProfilerError
            In the block, and if nothing was computed in it or the cluster was lost.
        """
        if self.recorded is None:
            raise DagProfilerError(self.unavailable)
        return self.recorded


#: What a recording lacks, beside what Dask's graphs lack.
_NOT_RECORDED = {
    **_UNKNOWN,
    "size_bytes": "sizes are Dask's estimates of values in memory (sizeof)",
    "wire_bytes": "the scheduler does not know how many bytes a value is serialized to",
    "serialize_ms": "the scheduler does not know it",
    "deserialize_ms": "the scheduler knows of transfers only: section 'dask'",
}


def _profile(keys: dict[Key, JsonObject], workers: JsonObject, version: str) -> Profile:
    """Return the profile of what the scheduler saw.

    Parameters
    ----------
    keys
        Key to what is known of it, in the order in which they came to the scheduler.
    workers
        Address to host and process of the workers.
    version
        Of Dask.
    """
    names = names_of(keys)
    entries = {names[key]: entry for key, entry in keys.items()}
    began_s = min(entry["at"] for entry in entries.values())
    done = {name: entry for name, entry in entries.items() if entry["computed"]}
    numbers: dict[tuple[str, int], int] = {}
    observed = {}
    transfers = []
    for name, entry in done.items():
        computed = [span for span in entry["startstops"] if span["action"] == "compute"][-1]
        start_s, end_s = computed["start"], computed["stop"]
        number = numbers.setdefault((entry["worker"], entry["thread"]), len(numbers))
        # The scheduler's clock and that of a worker agree only so far.
        ready_s = min(entry.get("ready", start_s), start_s)
        observed[name] = Observed(number, ready_s, start_s, end_s, entry["nbytes"])
        for span in entry["startstops"]:
            if span["action"] == "transfer":
                moments = [round((span[end] - began_s) * 1e3, 6) for end in ("start", "stop")]
                transfers.append([name, entry["worker"], span["source"], *moments])
    pairs = [(source, target) for target, entry in keys.items() for source in entry["needs"]]
    unknown = dict(_NOT_RECORDED)
    if before := {source for source, _ in pairs if source not in keys}:
        unknown["dag_structure"] = f"left out, since computed before: {len(before):,} keys"
    columns = ["task", "worker", "source", "start_ms", "end_ms"]
    section: JsonObject = {
        "version": version,
        "keys": {name: str(key) for key, name in names.items()},
        "transfers": {"columns": columns, "records": transfers},
    }
    repeated = {name: entry["computed"] for name, entry in done.items() if entry["computed"] > 1}
    if repeated:
        section["computed"] = repeated
    run = OwnRun(
        executor="dask",
        began_s=began_s,
        epoch_s=began_s,
        fields=dict.fromkeys(entries, "value"),
        edges=[(names[source], names[target]) for source, target in pairs if source in keys],
        done=observed,
        states={name: _state_of(entry) for name, entry in entries.items() if name not in done},
        workers=[
            {"host": address, "pid": 0, **workers.get(address, {}), "thread": thread}
            for address, thread in numbers
        ],
        unknown=unknown,
        sections={"dask": section},
    )
    return profile_of(run)


def _state_of(entry: JsonObject) -> JsonObject:
    """Return the state of a key that was not computed."""
    if entry.get("error") is not None:
        return {"state": "failed", "error": entry["error"]}
    return {"state": "skipped" if "error" in entry else "cancelled"}
