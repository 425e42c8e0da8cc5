from __future__ import annotations

import random
import sys
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler.report import drawing
from dagprofiler.report.drawing import _ascending, lay_out, layers_of


@st.composite
def graphs(draw_from):
    count = draw_from(st.integers(0, 25))
    pairs = list(combinations(range(count), 2))
    edges = draw_from(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    numbers = draw_from(st.permutations(range(count)))
    return count, [(numbers[source], numbers[target]) for source, target in edges]


def random_graph(count, degree=2, reach=99):
    pick = random.Random(count)
    return sorted(
        {(pick.randrange(max(0, i - reach), i), i) for i in range(1, count) for _ in range(degree)}
    )


def crossings(laid_out, edges):
    """Count the crossings of all pairs of lines, one layer after the other."""
    found = 0
    pieces = {}
    for (source, target), bends in zip(edges, laid_out.bends):
        places = [laid_out.places[source], *bends, laid_out.places[target]]
        for i, ends in enumerate(zip(places, places[1:])):
            pieces.setdefault(laid_out.layers[source] + i, []).append(ends)
    for lines in pieces.values():
        found += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(lines, 2))
    return found


def calls_of(act):
    """Count the calls of functions, ours and builtins, while `act` runs."""
    count = 0

    def watch(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


@given(graphs())
def test_every_edge_leads_to_a_later_layer(graph):
    count, edges = graph
    layers = layers_of(count, edges)
    assert all(layers[source] < layers[target] for source, target in edges)
    assert all(layer >= 0 for layer in layers)


@given(graphs())
def test_nodes_of_a_layer_have_room(graph):
    count, edges = graph
    laid_out = lay_out(count, edges)
    for layer in set(laid_out.layers):
        places = sorted(laid_out.places[v] for v in range(count) if laid_out.layers[v] == layer)
        assert all(b - a >= 0.999 for a, b in zip(places, places[1:]))
    assert not laid_out.places or min(laid_out.places) >= 0.149


@given(graphs())
def test_every_edge_bends_once_in_each_layer_between_its_ends(graph):
    count, edges = graph
    laid_out = lay_out(count, edges)
    for (source, target), bends in zip(edges, laid_out.bends):
        assert len(bends) == laid_out.layers[target] - laid_out.layers[source] - 1


@given(graphs())
def test_crossings_are_counted_as_they_are_drawn(graph):
    count, edges = graph
    laid_out = lay_out(count, edges)
    assert crossings(laid_out, edges) == laid_out.crossings


def test_a_graph_that_needs_no_crossing_has_none():
    # A tree whose leaves are listed crosswise, and a grid of chains.
    assert lay_out(7, [(0, 1), (0, 2), (1, 5), (1, 4), (2, 6), (2, 3)]).crossings == 0
    chains = [(4 * i + j, 4 * i + j + 1) for i in range(50) for j in range(3)]
    random.Random(0).shuffle(chains)
    assert lay_out(200, chains).crossings == 0


def test_sorting_takes_crossings_away():
    edges = [(i, 10 + (i * 7) % 10) for i in range(10)]
    assert lay_out(20, edges).crossings == 0


def test_a_chain_is_straight():
    laid_out = lay_out(5, [(i, i + 1) for i in range(4)])
    assert laid_out.layers == [0, 1, 2, 3, 4]
    assert set(laid_out.places) == {0.5}


def test_a_long_edge_goes_around_the_tasks_between():
    laid_out = lay_out(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    (bends,) = (bends for bends in laid_out.bends if bends)
    assert all(abs(bend - laid_out.places[1]) >= 0.6 for bend in bends)


def test_what_nothing_leads_to_stands_beside_its_first_consumer():
    assert layers_of(4, [(0, 1), (1, 2), (3, 2)]) == [0, 1, 2, 1]


def test_nodes_without_edges_fill_a_square():
    laid_out = lay_out(100, [])
    assert max(laid_out.layers) == 9
    assert max(laid_out.places) == 9.5


def test_a_graph_without_nodes_is_drawn():
    assert lay_out(0, []) == ([], [], [], 0)


def test_a_cycle_is_refused():
    with pytest.raises(ValueError, match="2 nodes are on cycles"):
        lay_out(3, [(0, 1), (1, 2), (2, 1)])


def test_a_drawing_is_the_same_every_time():
    edges = random_graph(300)
    assert lay_out(300, edges) == lay_out(300, edges)


def test_bends_are_bounded_and_the_longest_edges_go_straight(monkeypatch):
    monkeypatch.setattr(drawing, "_BENDS", 40)
    chain = [(i, i + 1) for i in range(40)]
    laid_out = lay_out(41, [*chain, (0, 3), (0, 40), (1, 40)])
    assert list(map(len, laid_out.bends[-3:])) == [2, 0, 38]


def test_the_work_grows_with_the_size_and_no_faster():
    small, large = (
        calls_of(lambda n=n: lay_out(n, random_graph(n, reach=30))) / n for n in (500, 2000)
    )
    assert large < 1.5 * small
    # 2,000 tasks in well under a second: a call takes no more than a few tenths of a microsecond.
    assert large * 2000 < 2_000_000


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0.01, 10)), max_size=20))
def test_ascending_numbers_ascend_and_keep_the_mean(pairs):
    values, weights = [v for v, _ in pairs], [w for _, w in pairs]
    found = _ascending(values, weights)
    assert all(a <= b + 1e-9 for a, b in zip(found, found[1:]))
    before = sum(v * w for v, w in pairs)
    assert sum(v * w for v, w in zip(found, weights)) == pytest.approx(before, abs=1e-6)


def test_numbers_that_ascend_stay():
    assert _ascending([1.0, 2.0, 5.0], [1, 3, 1]) == pytest.approx([1.0, 2.0, 5.0])
