from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dagprofiler.report.drawing import fold, layers_of


def split_and_merge(width):
    names = ["split", *(f"map_{i}" for i in range(width)), "merge"]
    edges = [(0, 1 + i) for i in range(width)] + [(1 + i, width + 1) for i in range(width)]
    return names, edges


def test_tasks_that_are_alike_are_one_group():
    names, edges = split_and_merge(1000)
    folding = fold(names, edges)
    assert folding.labels == ["split", "map_*", "merge"]
    assert list(map(len, folding.groups)) == [1, 1000, 1]
    assert {ends: len(of) for ends, of in folding.edges.items()} == {(0, 1): 1000, (1, 2): 1000}


def test_two_of_a_kind_are_no_group():
    folding = fold(["a1", "a2", "b"], [(0, 2), (1, 2)])
    assert folding.labels == ["a1", "a2", "b"]


def test_tasks_of_other_layers_are_other_groups():
    names = [f"step{i}" for i in range(9)]
    folding = fold(names, [(i, i + 3) for i in range(6)])
    assert folding.labels == ["step*"] * 3
    assert folding.groups == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_names_that_have_nothing_in_common_are_folded_by_layer():
    words = [chr(97 + i // 26 % 26) + chr(97 + i % 26) + "x" * (i // 676) for i in range(2000)]
    folding = fold(words, [(i, i + 1000) for i in range(1000)])
    assert folding.labels == ["level 0", "level 1"]


def test_a_long_chain_is_folded_into_stretches():
    count = 20_000
    folding = fold([f"t{i}" for i in range(count)], [(i, i + 1) for i in range(count - 1)])
    assert len(folding.groups) <= 25
    assert folding.labels[0] == "levels 0 to 833"
    assert sum(map(len, folding.groups)) == count


def test_tasks_without_edges_are_by_themselves():
    folding = fold([f"t{i}" for i in range(500)], [(0, 1)])
    assert sorted(map(len, folding.groups)) == [1, 1, 498]


def test_tasks_without_edges_whose_names_differ_are_one_group_if_they_are_too_many():
    words = ["".join(chr(97 + i // 26**k % 26) for k in range(3)) for i in range(700)]
    folding = fold(words, [(0, 1)])
    assert folding.labels == ["level 0", "level 1", "without edges"]
    assert list(map(len, folding.groups)) == [1, 1, 698]


@given(
    st.lists(st.sampled_from(["a1", "a2", "b1", "b2", "c"]), min_size=2, max_size=40),
    st.data(),
)
def test_every_task_is_in_one_group_and_groups_form_no_cycle(stems, data):
    names = [f"{stem}{i}" for i, stem in enumerate(stems)]
    numbers = st.integers(0, len(names) - 1)
    pairs = data.draw(st.lists(st.tuples(numbers, numbers)))
    edges = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
    folding = fold(names, edges)
    assert sorted(v for group in folding.groups for v in group) == list(range(len(names)))
    layers_of(len(folding.groups), list(folding.edges))
    inside = {v: g for g, group in enumerate(folding.groups) for v in group}
    between = {
        k: (inside[a], inside[b]) for k, (a, b) in enumerate(edges) if inside[a] != inside[b]
    }
    assert {k: ends for ends, of in folding.edges.items() for k in of} == between
