"""saga: problem instances of the scheduling library SAGA (``anrg-saga`` 2).

A task takes cost / speed on a node, an edge size / bandwidth on a link; none of
these numbers has a unit there. What SAGA would accept now and fail on later is
refused here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import FormatError, MissingExtraError
from dagprofiler.exporters import Export
from dagprofiler.exporters.graphs import left_out, legible_names, listed_again, renamed
from dagprofiler.exporters.networks import finite_number, listed, network_of
from dagprofiler.graph import kahn_order
from dagprofiler.rendering import plain_number
from dagprofiler.samples import measured_of
from dagprofiler.weights import samples_behind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dagprofiler.profile import Profile
    from dagprofiler.weights import Weights

    Pair = tuple[str, str]

__all__ = ["EXPORTER", "network_of", "to_network", "to_task_graph"]

#: SAGA adds tasks of these names to graphs with several sources or sinks.
_RESERVED = ("__super_source__", "__super_sink__")

_ALONE = (
    "the file has no network, which no profile holds: it is SAGA's TaskGraph alone; network= makes "
    "it a ProblemInstance, which schedulers need"
)
_STOCHASTIC = (
    "the file has no network, which no profile holds: it is SAGA's StochasticTaskGraph alone, and "
    "a scheduler needs a StochasticNetwork beside it"
)

_BITS_IN = {"bits": 1, "bytes": 8}
_SIZES = {"spec": "size_bytes", "wire": "wire_bytes"}


class Saga:
    """Renders profiles as SAGA's ``ProblemInstance`` or its task graphs; needs no SAGA."""

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
        """Return a problem instance; without a network, which no profile holds, the graph alone.

        Parameters
        ----------
        cost, statistic, fill
            As :meth:`dagprofiler.Profile.weights`.
        size
            ``"spec"``: what edges carry by the standard's counting rule. ``"wire"``: as
            serialized.
        size_unit
            ``"bits"`` or ``"bytes"``.
        fill_size
            Size of the edges that have none, in `size_unit`, finite and at least 0; by default
            they are refused.
        stochastic
            Write the graph with the samples of costs and sizes, for ``StochasticTaskGraph``;
            where nothing was sampled, the one value there is.
        network
            As :func:`network_of`. Speeds are units of cost a unit of time, bandwidths units of
            size: for costs in ms and sizes in bits a node as fast as the one that was measured
            has speed 1, and a link of 1 Gbit/s has 1e6. SAGA has no file that holds a
            stochastic graph and a network.
        instance_name
            Of the problem instance.

        Raises
        ------
        WeightError
            If a task has no weight.
        FormatError
            If an argument is none of what it may be; if an edge has no size; if there are no
            tasks, or all cost 0, which no scheduler makes sense of; if a task has one of the
            names that SAGA gives to tasks of its own.
        CycleError
            If the edges form a cycle.

        Notes
        -----
        O(tasks x rounds + edges x rounds + nodes^2) time.
        """
        if network is not None and stochastic:
            raise FormatError(
                "SAGA has no file that holds a stochastic graph and a network; leave network out"
            )
        graph = _Graph(profile, cost, statistic, fill, size, size_unit, fill_size, stochastic)
        document: dict[str, Any] = graph.document
        if network is not None:
            if not isinstance(instance_name, str):
                raise FormatError(f"instance_name must be text, got {instance_name!r}")
            instance_name = next(iter(legible_names([instance_name]).values()))
            document = {
                "name": instance_name,
                "task_graph": document,
                "network": network_of(network),
            }
        text = json.dumps(document, allow_nan=False, default=plain_number)
        alone = () if network is not None else (_STOCHASTIC if stochastic else _ALONE,)
        return Export(text + "\n", (*graph.losses(), *alone))


EXPORTER = Saga()


def to_task_graph(
    profile: Profile,
    *,
    cost: str = "best",
    statistic: str = "median",
    fill: float | None = None,
    size: str = "spec",
    size_unit: str = "bits",
    fill_size: float | None = None,
    stochastic: bool = False,
) -> Any:
    """Return SAGA's ``TaskGraph``, or its ``StochasticTaskGraph`` (extra ``saga``).

    Options and errors are those of ``profile.export("x.saga.json")``, see
    :meth:`Saga.render`; it is the graph that such a file holds.

    Raises
    ------
    MissingExtraError
        If SAGA, which needs Python 3.12, is not installed.
    """
    graph = _Graph(profile, cost, statistic, fill, size, size_unit, fill_size, stochastic)
    try:
        if stochastic:
            from saga.stochastic import StochasticTaskGraph as Loaded
        else:
            from saga import TaskGraph as Loaded
    except ImportError as error:
        raise MissingExtraError("to_task_graph", "saga") from error
    return Loaded.model_validate(graph.document)


def to_network(network: Any) -> Any:
    """Return SAGA's ``Network`` of what :func:`network_of` takes (extra ``saga``).

    Raises
    ------
    MissingExtraError
        If SAGA, which needs Python 3.12, is not installed.
    """
    document = network_of(network)
    try:
        from saga import Network
    except ImportError as error:
        raise MissingExtraError("to_network", "saga") from error
    return Network.model_validate(document)


class _Graph:
    """The task graph of a profile as SAGA's JSON has it."""

    def __init__(
        self,
        profile: Profile,
        cost: str,
        statistic: str,
        fill: float | None,
        size: str,
        size_unit: str,
        fill_size: float | None,
        stochastic: bool,  # noqa: FBT001  (private, and called with all arguments)
    ) -> None:
        _check_choice("size", size, _SIZES)
        _check_choice("size_unit", size_unit, _BITS_IN)
        if fill_size is not None:
            fill_size = finite_number(fill_size, "fill_size")
        self._profile, self._size, self._size_unit = profile, size, size_unit
        self._stochastic = stochastic
        self._names = _names(profile.dag_structure["nodes"])
        self._weights: Weights = profile.weights(cost, statistic, fill=fill)
        self._without_size: list[Pair] = []
        pairs = _pairs(profile, self._names)
        costs, sizes = self._costs(), self._sizes(pairs, fill_size)
        self.document = {
            "tasks": [{"name": name, "cost": costs[key]} for key, name in self._names.items()],
            "dependencies": [
                {"source": self._names[a], "target": self._names[b], "size": sizes[a, b]}
                for a, b in pairs
            ],
        }

    def _costs(self) -> Mapping[str, Any]:
        values: Mapping[str, Any] = self._weights.values
        values = {
            name: finite_number(value, f"the cost of task {name!r}")
            for name, value in values.items()
        }
        if not any(values.values()):
            raise FormatError(
                f"all costs from {self._weights.source!r} are 0, which no scheduler makes sense "
                "of; give cost= another source"
            )
        if not self._stochastic:
            return values
        samples = samples_behind(self._profile, self._weights)
        return {
            name: {
                "samples": [finite_number(value, f"a cost of task {name!r}") for value in several]
            }
            for name, several in samples.items()
        }

    def _sizes(self, pairs: Sequence[Pair], fill_size: float | None) -> Mapping[Pair, Any]:
        known = dict(self._known_sizes())
        self._without_size = [pair for pair in pairs if pair not in known]
        if self._without_size and fill_size is None:
            what = "bytes on the wire" if self._size == "wire" else "size"
            raise FormatError(
                f"the profile holds no {what} of {listed(self._without_size)}; "
                f"give fill_size= a number of {self._size_unit}"
            )
        known.update({pair: [fill_size] for pair in self._without_size})
        for (source, target), several in known.items():
            what = f"the size of edge {source!r} -> {target!r}"
            known[source, target] = [finite_number(value, what) for value in several]
        if self._stochastic:
            return {pair: {"samples": several} for pair, several in known.items()}
        return {pair: several[0] for pair, several in known.items()}

    def _known_sizes(self) -> Iterator[tuple[Pair, list[Any]]]:
        """Yield edges with their samples of a stochastic graph, or else their one size."""
        section = self._profile.sections.get("samples") if self._stochastic else None
        kinds, rows = (section["rounds"], section["edges"]) if section else ((), {})
        bits, column = self._profile.metrics.edge_weights, _SIZES[self._size]
        per_unit = _BITS_IN[self._size_unit]
        for edge in self._profile.metrics.edge_metrics:
            key = f"{edge.source}->{edge.target}"
            sampled = measured_of(kinds, rows.get(key, {}).get(column, ()))
            if sampled:
                in_bits = [8 * value for value in sampled]
            elif self._size == "spec":
                # Other programs may write bits that make no whole bytes.
                in_bits = [bits.get(key, edge.size_bits)]
            elif edge.wire_bytes is not None:
                in_bits = [8 * edge.wire_bytes]
            else:
                continue
            yield (edge.source, edge.target), [_quotient(value, per_unit) for value in in_bits]

    def losses(self) -> Iterator[str]:
        """Yield what SAGA's form of the graph does not hold, a sentence each."""
        weights, profile = self._weights, self._profile
        yield (
            f"SAGA's numbers have no units: costs are {weights.unit} ({weights.source}: "
            f"{weights.provenance}), sizes {self._size_unit} ({self._size})"
        )
        if weights.filled:
            yield f"tasks cannot be marked as filled in: {listed(weights.filled)}"
        if self._without_size:
            yield f"edges cannot be marked as filled in: {listed(self._without_size)}"
        if profile.metrics.task_metrics:
            yield (
                "tasks have a cost and nothing else: no times of serializing and deserializing, "
                "no bytes in and out"
            )
        if any(edge.data_fields for edge in profile.metrics.edge_metrics):
            yield "edges have a size and nothing else: not the fields that travel"
        yield "where and when it ran, the seed and the execution order are left out"
        yield from left_out(profile, ())
        structure = profile.dag_structure
        yield from listed_again(len(structure["edges"]) - len(self.document["dependencies"]))
        yield from renamed(self._names)


def _names(nodes: Sequence[str]) -> dict[str, str]:
    if not nodes:
        raise FormatError("there are no tasks, and SAGA's schedulers need one")
    if len(set(nodes)) < len(nodes):
        raise FormatError("two tasks have one name, which SAGA would take for one task")
    for name in nodes:
        if not isinstance(name, str) or name in _RESERVED:
            reason = "SAGA has one of its own" if name in _RESERVED else "it must be text"
            raise FormatError(f"no task can be named {name!r} in SAGA: {reason}")
    return legible_names(nodes)


def _pairs(profile: Profile, known: Mapping[str, str]) -> list[Pair]:
    """Return the edges, each once, if they have an order and both ends."""
    structure = profile.dag_structure
    pairs = list(dict.fromkeys((e["source"], e["target"]) for e in structure["edges"]))
    for pair in pairs:
        for name in pair:
            if name not in known:
                raise FormatError(f"edge {pair[0]!r} -> {pair[1]!r}: there is no task {name!r}")
    order = structure["execution_order"]
    places = dict(zip(order, range(len(order))))
    if len(places) == len(known) and all(places[a] < places[b] for a, b in pairs):
        return pairs
    successors: dict[str, list[str]] = {}
    for source, target in pairs:
        successors.setdefault(source, []).append(target)
    kahn_order(list(known), successors)
    return pairs


def _check_choice(what: str, value: Any, known: Iterable[str]) -> None:
    if not isinstance(value, str) or value not in known:
        words = " or ".join(map(repr, known))
        raise FormatError(f"{what} must be {words}, got {value!r}")


def _quotient(value: Any, divisor: int) -> Any:
    """Return a whole number as long as it is one."""
    if divisor == 1:
        return value
    whole, rest = divmod(value, divisor)
    return value / divisor if rest else whole
