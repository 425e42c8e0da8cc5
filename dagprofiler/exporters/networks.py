"""Networks as SAGA's files have them: a full mesh with finite links."""

from __future__ import annotations

import json
from itertools import combinations
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import FormatError, did_you_mean, short_repr
from dagprofiler.exporters.graphs import legible_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Pair = tuple[str, str]

__all__ = ["finite_number", "listed", "network_of"]

#: Bandwidth within a node. SAGA's own is infinite, which its files cannot hold.
LOCAL = 1e18

_NETWORK = (
    "a network is {'speeds': {node: speed}, 'bandwidth': number or {(node, node): number}} "
    "or, as SAGA writes it, {'nodes': [{'name', 'speed'}], "
    "'edges': [{'source', 'target', 'speed'}]}"
)


def network_of(network: Any) -> dict[str, Any]:
    """Return a network as SAGA's JSON has it: a full mesh with finite links.

    Parameters
    ----------
    network
        ``{"speeds": {node: speed}, "bandwidth": ...}``, where the bandwidth is one number for
        all links, or one for each pair of nodes, ``{("a", "b"): 5}`` or ``{"a-b": 5}``. Or as
        SAGA writes it, ``{"nodes": [{"name": "a", "speed": 1}], "edges": [{"source": "a",
        "target": "b", "speed": 5}]}``; or SAGA's ``Network``. Links have no direction; those
        from a node to itself may be absent, infinite or null, and are 1e18 then.

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
        # They come out of sets.
        network["nodes"].sort(key=lambda node: node["name"])
    try:
        if "speeds" in network and not set(network) - {"speeds", "bandwidth"}:
            speeds = dict(network["speeds"])
            given = list(_given_links(network.get("bandwidth"), list(speeds)))
        elif set(network) == {"nodes", "edges"}:
            speeds = {node["name"]: node["speed"] for node in network["nodes"]}
            if len(speeds) < len(network["nodes"]):
                raise FormatError("two nodes of the network have one name")
            given = [((e["source"], e["target"]), e["speed"]) for e in network["edges"]]
        else:
            raise FormatError(f"{_NETWORK}; got {short_repr(network)}")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{_NETWORK}; got {short_repr(network)}") from error
    if not speeds:
        raise FormatError("the network has no nodes")
    for name in speeds:
        if not isinstance(name, str):
            raise FormatError(f"a node's name must be text, got {name!r}")
    shown = legible_names(list(speeds))
    return {
        "nodes": [
            {
                "name": shown[name],
                "speed": finite_number(speed, f"the speed of node {name!r}", zero=False),
            }
            for name, speed in speeds.items()
        ],
        "edges": [
            {"source": shown[a], "target": shown[b], "speed": bandwidth}
            for (a, b), bandwidth in _mesh(list(speeds), given).items()
        ],
    }


def _given_links(bandwidth: Any, nodes: Sequence[str]) -> Iterator[tuple[Pair, Any]]:
    if bandwidth is None:
        return
    if not hasattr(bandwidth, "items"):
        yield from ((pair, bandwidth) for pair in combinations(nodes, 2))
        return
    known = set(nodes)
    for key, value in bandwidth.items():
        pairs = _split(key, known) if isinstance(key, str) else [tuple(key)]
        if len(pairs) != 1 or len(pairs[0]) != 2:
            what = "could be several links; give a pair" if len(pairs) > 1 else "is no link"
            raise FormatError(f"bandwidth: {short_repr(key)} {what} (nodes: {listed(nodes)})")
        yield pairs[0], value


def _split(key: str, nodes: set[str]) -> list[Any]:
    """Return the pairs of nodes that ``"a-b"`` may stand for."""
    splits = ((key[:i], key[i + 1 :]) for i, letter in enumerate(key) if letter == "-")
    return [(a, b) for a, b in splits if a in nodes and b in nodes]


def _mesh(nodes: Sequence[str], given: Iterable[tuple[Pair, Any]]) -> dict[Pair, float]:
    """Return the bandwidth of every pair of nodes, each node with itself included."""
    known = set(nodes)
    mesh: dict[Pair, float] = {}
    for (source, target), value in given:
        for name in (source, target):
            if name not in known:
                hint = did_you_mean(name, nodes)
                raise FormatError(f"link {source!r} - {target!r}: there is no node {name!r}{hint}")
        if source == target and (value is None or value == float("inf")):
            continue
        what = f"the bandwidth of link {source!r} - {target!r}"
        bandwidth = finite_number(value, what, zero=False)
        # As SAGA itself writes them.
        pair = (source, target) if source <= target else (target, source)
        if mesh.setdefault(pair, bandwidth) != bandwidth:
            raise FormatError(
                f"{what} is given as {short_repr(mesh[pair])} and as {short_repr(bandwidth)}"
            )
    missing = [pair for pair in combinations(sorted(nodes), 2) if pair not in mesh]
    if missing:
        raise FormatError(f"the network has no bandwidth for {listed(missing)}")
    return {**{(name, name): LOCAL for name in nodes}, **mesh}


def finite_number(value: Any, what: str, *, zero: bool = True) -> float:
    """Return a finite number, at least or above 0, as a plain int or float."""
    try:
        valid = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
        number = int(value) if isinstance(value, Integral) else float(value)
    except (OverflowError, TypeError, ValueError):
        valid = False
    if not valid or number < 0 or (number == 0 and not zero):
        least = "of at least 0" if zero else "above 0"
        raise FormatError(f"{what} must be a finite number {least}, got {short_repr(value)}")
    return number


def listed(items: Sequence[Any]) -> str:
    """Return the first five names or pairs of names, and how many there are beside them."""
    shown = ", ".join(
        repr(item) if isinstance(item, str) else " - ".join(map(repr, item)) for item in items[:5]
    )
    return shown + (f" and {len(items) - 5} more" if len(items) > 5 else "")
