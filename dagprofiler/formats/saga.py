"""saga: problem instances of the scheduling library SAGA (``anrg-saga`` 2).

A task takes cost / speed on a node, an edge size / bandwidth on a link; these
numbers have no units in SAGA. Files that SAGA would accept and fail on later
raise an error here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import inf
from typing import Any

from dagprofiler._document.table import edges_of
from dagprofiler._util import JsonObject
from dagprofiler._util.checks import number
from dagprofiler._util.json import to_json
from dagprofiler.analysis.weights import Number, Weights, samples_behind, weights_of
from dagprofiler.errors import FormatError, listed, needs_extra, short_repr
from dagprofiler.formats import Export
from dagprofiler.formats._graph import edge_bits, left_out, predicted
from dagprofiler.graph.wiring import kahn_order
from dagprofiler.profile import Profile

Pair = tuple[str, str]

#: Bandwidth within a node. SAGA's own is infinite, which its files cannot hold.
LOCAL = 1e18

_NETWORK = (
    "a network is {'speeds': {node: speed}, 'bandwidth': number or {(node, node): number}} "
    "or, as SAGA writes it, {'nodes': [{'name', 'speed'}], "
    "'edges': [{'source', 'target', 'speed'}]}"
)


def network_of(network: Any) -> JsonObject:
    """Return a network in SAGA's JSON format: a full mesh with finite links.

    Parameters
    ----------
    network
        ``{"speeds": {node: speed}, "bandwidth": ...}``, where the bandwidth is one number for
        all links, or one for each pair of nodes, ``{("a", "b"): 5}``. Or as SAGA writes it,
        ``{"nodes": [{"name": "a", "speed": 1}], "edges": [{"source": "a", "target": "b",
        "speed": 5}]}``; or SAGA's ``Network``. Links have no direction; those from a node to
        itself may be absent, infinite or null, which becomes 1e18.

    Raises
    ------
    FormatError
        If it is none of these, a link is missing, or a number is not finite and above 0.

    Examples
    --------
    >>> network_of({"speeds": {"a": 1}})["edges"]
    [{'source': 'a', 'target': 'a', 'speed': 1e+18}]
    """
    if hasattr(network, "model_dump_json"):
        network = json.loads(network.model_dump_json())
        # SAGA keeps them in sets, without order.
        network["nodes"].sort(key=lambda node: node["name"])
    try:
        if "nodes" in network:
            speeds = {node["name"]: node["speed"] for node in network["nodes"]}
            links = {(e["source"], e["target"]): e["speed"] for e in network["edges"]}
        else:
            speeds, links = dict(network["speeds"]), network.get("bandwidth", {})
            if not isinstance(links, Mapping):
                links = dict.fromkeys(combinations(speeds, 2), links)
        ends = [(source, target, value) for (source, target), value in links.items()]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{_NETWORK}; got {short_repr(network)}") from error
    if not speeds:
        raise FormatError("the network has no nodes")
    nodes = [
        {"name": name, "speed": number(f"the speed of node {name!r}", speed, error=FormatError)}
        for name, speed in speeds.items()
    ]
    mesh = _mesh(list(speeds), ends)
    edges = [{"source": a, "target": b, "speed": bandwidth} for (a, b), bandwidth in mesh.items()]
    return {"nodes": nodes, "edges": edges}


def _mesh(nodes: Sequence[str], links: Sequence[tuple[str, str, Any]]) -> dict[Pair, float]:
    """Return the bandwidth of every pair of nodes, including each node with itself."""
    mesh: dict[Pair, float] = {(name, name): LOCAL for name in nodes}
    known = set(nodes)
    for source, target, value in links:
        what = f"the bandwidth of link {source!r} - {target!r}"
        if not {source, target} <= known:
            raise FormatError(f"{what}: one of them is no node of the network")
        if source == target and value in (None, inf):
            continue
        bandwidth = number(what, value, error=FormatError)
        # The order in which SAGA writes them.
        pair = (source, target) if source <= target else (target, source)
        if source != target and mesh.get(pair, bandwidth) != bandwidth:
            raise FormatError(f"{what} is given as {mesh[pair]} and as {bandwidth}")
        mesh[pair] = bandwidth
    missing = [pair for pair in combinations(sorted(nodes), 2) if pair not in mesh]
    if missing:
        raise FormatError(f"the network has no bandwidth for {listed(missing, show=_link)}")
    return mesh


#: SAGA adds tasks of these names to graphs with several sources or sinks.
_RESERVED = {"__super_source__", "__super_sink__"}

_LOST = (
    "tasks have only a cost and edges a size: other times and sizes, data fields, host, timestamp, "
    "seed and execution order are left out, and what fill= and fill_size= stand for is not marked; "
    "without network= the file is only a task graph, and schedulers need a ProblemInstance"
)


class Saga:
    """Renders profiles as SAGA's ``ProblemInstance`` or task graphs, without SAGA installed."""

    name, extension = "saga", ".saga.json"

    def render(
        self,
        profile: Profile,
        *,
        cost: str = "best",
        statistic: str = "median",
        fill: float | None = None,
        size: str = "spec",
        fill_size: float | None = None,
        stochastic: bool = False,
        network: Any = None,
    ) -> Export:
        """Return a problem instance, or without `network` the task graph.

        Parameters
        ----------
        cost, statistic, fill
            As for :meth:`dagprofiler.Profile.weights`.
        size
            ``"spec"``: payload by the standard's counting rule. ``"wire"``: as
            serialized.
        fill_size
            Size in bits of edges without one, finite and at least 0; by default such edges raise
            an error.
        stochastic
            Write the samples of costs and sizes, for ``StochasticTaskGraph``; without
            samples, the single value.
        network
            As for :func:`network_of`. Speeds are in units of cost per unit of time, bandwidths
            in units of size per unit of time: for costs in ms and sizes in bits, a node as fast
            as the measured one has speed 1, and a link of 1 Gbit/s has 1e6. SAGA has no file
            format for a stochastic graph with a network.

        Raises
        ------
        WeightError
            If a task has no weight.
        FormatError
            If an argument is invalid; if an edge has no size; if there are no tasks, or all
            cost 0, which schedulers cannot handle; if a task has a name that SAGA reserves.
        CycleError
            If the edges form a cycle.

        Notes
        -----
        O(tasks x rounds + edges x rounds + nodes^2) time.
        """
        if network is not None and stochastic:
            raise FormatError("SAGA has no file format for a stochastic graph with a network")
        names, pairs = profile.dag_structure["nodes"], edges_of(profile)
        if not names:
            raise FormatError("there are no tasks; SAGA's schedulers need at least one")
        for name in _RESERVED & {*names}:
            raise FormatError(f"no task can be named {name!r}: SAGA reserves this name")
        # Schedulers would never end.
        kahn_order(names, pairs)
        weights = weights_of(profile, cost, statistic, fill=fill)
        sizes = _sizes(profile, size, fill_size, stochastic=stochastic)
        costs = _costs(profile, weights, stochastic=stochastic)

        def written(samples: Sequence[Number]) -> JsonObject | Number:
            return {"samples": samples} if stochastic else samples[0]

        document: JsonObject = {
            "tasks": [{"name": name, "cost": written(costs[name])} for name in names],
            "dependencies": [
                {"source": source, "target": target, "size": written(sizes[source, target])}
                for source, target in pairs
            ],
        }
        cost = f"{weights.unit} ({weights.source}: {weights.provenance})"
        units = f"SAGA's numbers have no units: costs are {cost}, sizes bits ({size})"
        if network is not None:
            network = network_of(network)
            name = profile.name or "profile"
            document = {"name": name, "task_graph": document, "network": network}
        losses = *predicted(profile), units, _LOST, *left_out(profile, ())
        return Export(to_json(document) + "\n", losses)


def _costs(profile: Profile, weights: Weights, *, stochastic: bool) -> dict[str, list[Number]]:
    """Return the cost of each task, for a stochastic graph the samples of it."""
    if not any(weights.values.values()):
        raise FormatError(f"all costs from {weights.source!r} are 0: give cost= another source")
    if stochastic:
        return samples_behind(profile, weights)
    return {name: [value] for name, value in weights.values.items()}


def _sizes(
    profile: Profile, size: str, fill: float | None, *, stochastic: bool
) -> dict[Pair, list[Number]]:
    """Return the size of each edge in bits, for a stochastic graph the samples of it."""
    bits, column = edge_bits(profile, size), "wire_bytes" if size == "wire" else "size_bytes"
    if fill is not None:
        fill = number("fill_size", fill, zero=True, error=FormatError)
    sizes: dict[Pair, list[Number]] = {}
    missing = []
    for pair in edges_of(profile):
        samples = profile.samples.of_edge("->".join(pair), column) if stochastic else ()
        if samples:
            sizes[pair] = [8 * value for value in samples]
        elif pair in bits:
            sizes[pair] = [bits[pair]]
        elif fill is not None:
            sizes[pair] = [fill]
        else:
            missing.append(pair)
    if missing:
        edges = listed(missing, show=_link)
        raise FormatError(f"no {size} size of {edges}: give fill_size= a number of bits")
    return sizes


EXPORTER = Saga()


def to_task_graph(profile: Profile, **options: Any) -> Any:
    """Return SAGA's ``TaskGraph``, or its ``StochasticTaskGraph`` (extra ``saga``).

    Options, errors and result are those of ``profile.export("x.saga.json")`` without a network;
    see :meth:`Saga.render`.

    Raises
    ------
    MissingExtraError
        If SAGA, which needs Python 3.12, is not installed.
    """
    kind = "stochastic:StochasticTaskGraph" if options.get("stochastic") else "TaskGraph"
    return _loaded("to_task_graph", kind, json.loads(EXPORTER.render(profile, **options).text))


def to_network(network: Any) -> Any:
    """Return a network as SAGA's ``Network`` (extra ``saga``); see :func:`network_of`.

    Raises
    ------
    MissingExtraError
        If SAGA, which needs Python 3.12, is not installed.
    """
    return _loaded("to_network", "Network", network_of(network))


def _loaded(what: str, kind: str, document: JsonObject) -> Any:
    from pkgutil import resolve_name

    with needs_extra(what, "saga"):
        return resolve_name(f"saga.{kind}").model_validate(document)


def from_saga(schedule: Any) -> dict[str, list[str]]:
    """Return a schedule of SAGA as ``DAG.run`` and :func:`~dagprofiler.simulate` take it.

    Parameters
    ----------
    schedule
        SAGA's ``Schedule``, or its ``mapping`` of nodes to scheduled tasks.

    Returns
    -------
    dict
        Node to its tasks in the order of their start, without the source and the sink that
        SAGA adds to graphs with several of them.

    Raises
    ------
    FormatError
        If it is no schedule.

    Notes
    -----
    The run and the simulation refuse names that the DAG does not have.

    Examples
    --------
    >>> from types import SimpleNamespace as Scheduled
    >>> tasks = [Scheduled(name="b", start=2.0), Scheduled(name="a", start=0.0)]
    >>> from_saga({"edge": tasks, "cloud": [Scheduled(name="__super_sink__", start=3.0)]})
    {'edge': ['a', 'b'], 'cloud': []}
    """
    mapping = getattr(schedule, "mapping", schedule)
    try:
        orders = {n: sorted(tasks, key=lambda task: task.start) for n, tasks in mapping.items()}
        return {
            str(node): [task.name for task in order if task.name not in _RESERVED]
            for node, order in orders.items()
        }
    except (AttributeError, TypeError) as error:
        raise FormatError(f"expected a Schedule of SAGA, got {short_repr(schedule)}") from error


def _link(pair: Pair) -> str:
    return " - ".join(map(repr, pair))
