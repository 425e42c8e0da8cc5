"""saga: problem instances of the scheduling library SAGA (``anrg-saga`` 2).

A task takes cost / speed on a node, an edge size / bandwidth on a link; these
numbers have no units in SAGA. Files that SAGA would accept and fail on later
raise an error here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from dagprofiler._document.table import edges_of
from dagprofiler._util.checks import choice, number
from dagprofiler._util.json import plain_number
from dagprofiler.analysis.weights import samples_behind, weights_of
from dagprofiler.errors import FormatError, did_you_mean, listed, needs_extra, short_repr
from dagprofiler.formats import Export
from dagprofiler.formats._graph import left_out, predicted
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


def network_of(network: Any) -> dict[str, Any]:
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
        if set(network) <= {"speeds", "bandwidth"}:
            speeds, links = dict(network["speeds"]), _links(network)
        elif set(network) == {"nodes", "edges"}:
            speeds = {node["name"]: node["speed"] for node in network["nodes"]}
            links = [((e["source"], e["target"]), e["speed"]) for e in network["edges"]]
        else:
            raise KeyError
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{_NETWORK}; got {short_repr(network)}") from error
    if not speeds:
        raise FormatError("the network has no nodes")
    nodes = [
        {"name": name, "speed": number(f"the speed of node {name!r}", speed, error=FormatError)}
        for name, speed in speeds.items()
    ]
    edges = [
        {"source": source, "target": target, "speed": bandwidth}
        for (source, target), bandwidth in _mesh(list(speeds), links).items()
    ]
    return {"nodes": nodes, "edges": edges}


def _links(network: Mapping[str, Any]) -> list[tuple[Pair, Any]]:
    """Return pairs of nodes, each with its bandwidth."""
    bandwidth = network.get("bandwidth")
    if isinstance(bandwidth, Mapping):
        return [((source, target), value) for (source, target), value in bandwidth.items()]
    pairs = combinations(network["speeds"], 2) if bandwidth is not None else ()
    return [(pair, bandwidth) for pair in pairs]


def _mesh(nodes: Sequence[str], links: Iterable[tuple[Pair, Any]]) -> dict[Pair, float]:
    """Return the bandwidth of every pair of nodes, including each node with itself."""
    mesh: dict[Pair, float] = {}
    for (source, target), value in links:
        for name in (source, target):
            if name not in nodes:
                hint = did_you_mean(name, nodes)
                raise FormatError(f"link {source!r} - {target!r}: there is no node {name!r}{hint}")
        if source == target and value in (None, float("inf")):
            continue
        what = f"the bandwidth of link {source!r} - {target!r}"
        bandwidth = number(what, value, error=FormatError)
        # The order in which SAGA writes them.
        pair = (source, target) if source <= target else (target, source)
        if mesh.setdefault(pair, bandwidth) != bandwidth:
            raise FormatError(f"{what} is given as {mesh[pair]} and as {bandwidth}")
    missing = [pair for pair in combinations(sorted(nodes), 2) if pair not in mesh]
    if missing:
        raise FormatError(f"the network has no bandwidth for {listed(missing, show=_link)}")
    return {**{(name, name): LOCAL for name in nodes}, **mesh}


#: SAGA adds tasks of these names to graphs with several sources or sinks.
_RESERVED = ("__super_source__", "__super_sink__")

_ALONE = (
    "the profile holds no network, so the file is only SAGA's TaskGraph; with network= it is a "
    "ProblemInstance, which schedulers need"
)
_STOCHASTIC = (
    "the profile holds no network, so the file is only SAGA's StochasticTaskGraph; a scheduler "
    "needs a StochasticNetwork too"
)

_BITS_IN = {"bits": 1, "bytes": 8}
_SIZES = {"spec": "size_bytes", "wire": "wire_bytes"}


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
        size_unit: str = "bits",
        fill_size: float | None = None,
        stochastic: bool = False,
        network: Any = None,
        instance_name: str = "profile",
    ) -> Export:
        """Return a problem instance, or without `network` the task graph.

        Parameters
        ----------
        cost, statistic, fill
            As for :meth:`dagprofiler.Profile.weights`.
        size
            ``"spec"``: payload by the standard's counting rule. ``"wire"``: as
            serialized.
        size_unit
            ``"bits"`` or ``"bytes"``.
        fill_size
            Size of edges without one, in `size_unit`, finite and at least 0; by default such
            edges raise an error.
        stochastic
            Write the samples of costs and sizes, for ``StochasticTaskGraph``; without
            samples, the single value.
        network
            As for :func:`network_of`. Speeds are in units of cost per unit of time, bandwidths
            in units of size per unit of time: for costs in ms and sizes in bits, a node as fast
            as the measured one has speed 1, and a link of 1 Gbit/s has 1e6. SAGA has no file
            format for a stochastic graph with a network.
        instance_name
            Name of the problem instance.

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
            raise FormatError(
                "SAGA has no file format for a stochastic graph with a network; leave network out"
            )
        graph = _TaskGraph(profile, cost, statistic, fill, size, size_unit, fill_size, stochastic)
        document: dict[str, Any] = graph.document
        if network is not None:
            parts = {"task_graph": document, "network": network_of(network)}
            document = {"name": str(instance_name), **parts}
        text = json.dumps(document, allow_nan=False, default=plain_number)
        alone = () if network is not None else (_STOCHASTIC if stochastic else _ALONE,)
        return Export(text + "\n", (*graph.losses(), *alone))


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
    graph = _TaskGraph(profile, **options)
    kind = "stochastic:StochasticTaskGraph" if graph.stochastic else "TaskGraph"
    return _loaded("to_task_graph", kind, graph.document)


def to_network(network: Any) -> Any:
    """Return a network as SAGA's ``Network`` (extra ``saga``); see :func:`network_of`.

    Raises
    ------
    MissingExtraError
        If SAGA, which needs Python 3.12, is not installed.
    """
    return _loaded("to_network", "Network", network_of(network))


def _loaded(what: str, kind: str, document: dict[str, Any]) -> Any:
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


@dataclass
class _TaskGraph:
    """The task graph of a profile in SAGA's JSON format."""

    profile: Profile
    cost: str = "best"
    statistic: str = "median"
    fill: float | None = None
    size: str = "spec"
    size_unit: str = "bits"
    fill_size: float | None = None
    stochastic: bool = False

    def __post_init__(self) -> None:
        choice("size", self.size, [*_SIZES], error=FormatError)
        choice("size_unit", self.size_unit, [*_BITS_IN], error=FormatError)
        if self.fill_size is not None:
            self.fill_size = number("fill_size", self.fill_size, zero=True, error=FormatError)
        names = self.profile.dag_structure["nodes"]
        pairs = edges_of(self.profile)
        if not names:
            raise FormatError("there are no tasks; SAGA's schedulers need at least one")
        for name in _RESERVED:
            if name in names:
                raise FormatError(f"no task can be named {name!r}: SAGA reserves this name")
        # Schedulers would never end.
        kahn_order(names, pairs)
        self._weights = weights_of(self.profile, self.cost, self.statistic, fill=self.fill)
        costs, sizes = self._costs(), self._sizes(pairs)
        self.document = {
            "tasks": [{"name": name, "cost": self._written(costs[name])} for name in names],
            "dependencies": [
                {"source": source, "target": target, "size": self._written(sizes[source, target])}
                for source, target in pairs
            ],
        }

    def _written(self, samples: Sequence[Any]) -> Any:
        """Return the samples of a task or an edge as SAGA has them, or its one value."""
        return {"samples": list(samples)} if self.stochastic else samples[0]

    def _costs(self) -> Mapping[str, Sequence[Any]]:
        weights = self._weights
        if not any(weights.values.values()):
            raise FormatError(
                f"all costs from {weights.source!r} are 0, which schedulers cannot handle; "
                "give cost= another source"
            )
        if self.stochastic:
            return samples_behind(self.profile, weights)
        return {name: [value] for name, value in weights.values.items()}

    def _sizes(self, pairs: Sequence[Pair]) -> Mapping[Pair, Sequence[Any]]:
        sizes = dict(self._known_sizes())
        self._without_size = [pair for pair in pairs if pair not in sizes]
        if self._without_size and self.fill_size is None:
            what = "bytes on the wire" if self.size == "wire" else "size"
            raise FormatError(
                f"the profile holds no {what} of {listed(self._without_size, show=_link)}; "
                f"give fill_size= a number of {self.size_unit}"
            )
        sizes.update({pair: [self.fill_size] for pair in self._without_size})
        return sizes

    def _known_sizes(self) -> Iterator[tuple[Pair, list[Any]]]:
        """Yield edges with their samples for a stochastic graph, else with their single size."""
        bits, column = self.profile.metrics.edge_weights, _SIZES[self.size]
        per_unit = _BITS_IN[self.size_unit]
        for edge in self.profile.metrics.edge_metrics:
            key = f"{edge.source}->{edge.target}"
            samples = self.profile.samples.of_edge(key, column) if self.stochastic else []
            in_bits = [8 * size for size in samples]
            if not in_bits and self.size == "spec":
                # Other programs may write bits that are not whole bytes.
                in_bits = [bits.get(key, edge.size_bits)]
            elif not in_bits and edge.wire_bytes is not None:
                in_bits = [8 * edge.wire_bytes]
            if in_bits:
                yield (edge.source, edge.target), [_quotient(value, per_unit) for value in in_bits]

    def losses(self) -> Iterator[str]:
        """Yield what SAGA's format does not hold, a sentence each."""
        weights, profile = self._weights, self.profile
        yield from predicted(profile)
        yield (
            f"SAGA's numbers have no units: costs are {weights.unit} ({weights.source}: "
            f"{weights.provenance}), sizes {self.size_unit} ({self.size})"
        )
        if weights.filled or self._without_size:
            yield "what fill= and fill_size= stand for cannot be marked"
        yield (
            "tasks have only a cost and edges a size: other times and sizes, data fields, host, "
            "timestamp, seed and execution order are left out"
        )
        yield from left_out(profile, ())


def _link(pair: Pair) -> str:
    return " - ".join(map(repr, pair))


def _quotient(value: Any, divisor: int) -> Any:
    """Return a quotient, as an integer if it is whole."""
    if divisor == 1:
        return value
    whole, rest = divmod(value, divisor)
    return value / divisor if rest else whole
