from pathlib import Path

import pytest
from handmade import handmade
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler import CycleError, EdgeMetrics, TaskMetrics, ValidationError, WeightError
from dagprofiler.analysis.critical_path import analyze

#: The worked example of the documentation: wall times in ms, payloads in bytes.
COSTS = {"read": 2.0, "clean": 3.0, "count": 5.0, "rank": 4.0, "write": 1.0}
BYTES = {
    ("read", "clean"): 1000,
    ("read", "count"): 1000,
    ("clean", "rank"): 500,
    ("count", "write"): 250,
    ("rank", "write"): 125,
}
#: Of 1 Mbit/s: 8 ms for a kilobyte.
LINK = 1e6

CALIBRATION = {"score": 2.0, "parts": {"python": 2.0}, "spread": 0.01, "kernel_version": 1}


def profile_of(costs, sizes=None, *, fields=("x",), wire=None, estimated=None, **sections):
    """A profile of one round: wall times by task, payloads in bytes by edge."""
    sizes = sizes or {}
    edges = [
        EdgeMetrics(*pair, list(fields), size, None if wire is None else wire[pair])
        for pair, size in sizes.items()
        if size is not None
    ]
    estimated = estimated or {}
    weights = {name: estimated.get(name, 0) for name in costs}
    sections["weight_sources"] = {
        name: {
            "node_weight": "estimated_instructions" if name in estimated else "default",
            "estimated_instructions": estimated.get(name),
            "wall_time_ms": cost,
        }
        for name, cost in costs.items()
    }
    times = [TaskMetrics(n, ms, 0.0, 0.0, 0, 0) for n, ms in costs.items() if ms is not None]
    sections.setdefault("run", {"state": "complete", "rounds": 1})
    made = {"edges": sizes, "times": times, "weights": weights, "hostname": "lab-7"}
    profile = handmade(costs, edges, **made, sections=sections)
    profile.dag_structure["execution_order"] = []
    return profile


def example(**options):
    return profile_of(COSTS, BYTES, **options)


def with_samples(profile, serialize_ms, deserialize_ms, keys=None):
    """Give edges times in a warm-up and two measured rounds; the tasks' stay as they are."""
    keys = list(profile.metrics.edge_weights) if keys is None else keys
    columns = {"serialize_ms": serialize_ms, "deserialize_ms": deserialize_ms}
    times_ms = profile.weights("wall_time").values
    profile.sections["samples"] = {
        "rounds": ["warm_up", "measured", "measured"],
        "total_ms": [1.0, 1.0, 1.0],
        "tasks": {name: {"wall_ms": [ms] * 3} for name, ms in times_ms.items()},
        "edges": {key: dict(columns) for key in keys},
    }
    return profile


def test_figures_are_those_of_a_hand_calculation():
    found = analyze(example(), cost="wall_time", bandwidth_bits_per_s=LINK)
    paths = found.with_communication
    assert found.communication == {"->".join(pair): size / 125 for pair, size in BYTES.items()}
    assert paths.span == 23.0
    assert paths.earliest_start == {"read": 0, "clean": 10, "count": 10, "rank": 17, "write": 22}
    assert paths.slack == {"read": 0, "clean": 0, "count": 5, "rank": 0, "write": 0}
    # HEFT's upward ranks.
    assert paths.bottom_level == {"read": 23, "clean": 13, "count": 8, "rank": 6, "write": 1}
    plain = analyze(example(), cost="wall_time")
    assert found.without_communication == plain.without_communication
    assert (found.work, found.span, found.average_parallelism) == (15.0, 10.0, 1.5)
    assert found.levels == {"read": 0, "clean": 1, "count": 1, "rank": 2, "write": 3}
    assert found.widths == (1, 2, 1, 1)
    # 23 ms on 5 edges to 15 ms in 5 tasks.
    assert found.ccr == pytest.approx(23 / 15)
    assert [found.makespan_lower_bound(k) for k in (1, 2)] == [15.0, 10.0]
    assert [found.makespan_upper_bound(k) for k in (1, 2, 5)] == [15.0, 12.5, 11.0]
    assert [found.speedup_bound(k) for k in (1, 2, 100)] == [1.0, 1.5, 1.5]
    for workers in (0, -1, 1.5, True, "2", None):
        with pytest.raises(ValueError, match="workers must be an integer of at least 1, got"):
            plain.speedup_bound(workers)
    assert plain.with_communication is None
    assert plain.communication_note.startswith("unknown: give bandwidth_bits_per_s, or take a run")
    twice = example()
    twice.dag_structure["edges"] *= 2
    assert analyze(twice, cost="wall_time") == plain


def test_text_is_the_golden_one_and_of_a_large_graph_it_is_cut():
    text = str(analyze(example(), cost="wall_time", bandwidth_bits_per_s=LINK))
    assert f"{text}\n" == (Path(__file__).parent.parent / "data" / "analysis.txt").read_text()
    names = [f"t{i:03d}" for i in range(50)]
    profile = profile_of(dict.fromkeys(names, 1.0), dict.fromkeys(zip(names, names[1:]), 1))
    text = str(analyze(profile, cost="wall_time"))
    assert "t004 -> t005 -> ... 39 more ... -> t045 -> t046 ->" in text
    assert text.endswith("... and 10 more tasks")


@st.composite
def graphs(draw, costs):
    """Random DAGs: cost by task, cost by edge; names in no order."""
    count = draw(st.integers(1, 7))
    names = draw(st.permutations([f"n{i}" for i in range(count)]))
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    listed = draw(st.permutations(names))
    return {name: draw(costs) for name in listed}, {pair: draw(costs) for pair in chosen}


def all_paths(tasks, edges):
    """All paths from entries to exits, by recursion."""

    def onward(path):
        below = [b for a, b in edges if a == path[-1]]
        return [found for name in below for found in onward([*path, name])] or [path]

    entries = set(tasks).difference(b for _, b in edges)
    return [found for name in entries for found in onward([name])]


def length(path, tasks, edges):
    return sum(tasks[name] for name in path) + sum(edges[pair] for pair in zip(path, path[1:]))


def longest(tasks, edges):
    return max(length(path, tasks, edges) for path in all_paths(tasks, edges))


def analysis_of(tasks, edges):
    """With whole numbers as ms and as bytes, of which a link takes one in a ms."""
    profile = profile_of({n: float(c) for n, c in tasks.items()}, edges)
    return analyze(profile, cost="wall_time", bandwidth_bits_per_s=8000)


@given(graphs(st.integers(0, 4)))
def test_paths_and_gains_are_those_that_brute_force_finds(graph):
    tasks, edges = graph
    found = analysis_of(tasks, edges)
    free = dict.fromkeys(edges, 0)
    for paths, times in ((found.without_communication, free), (found.with_communication, edges)):
        every, route = all_paths(tasks, times), paths.critical_path
        span = longest(tasks, times)
        assert paths.span == span
        assert list(route) == min(p for p in every if length(p, tasks, times) == span)
        for name in tasks:
            through = [p for p in every if name in p]
            after = max(length(p[p.index(name) :], tasks, times) for p in through)
            slack = span - max(length(p, tasks, times) for p in through)
            assert paths.bottom_level[name] == after
            assert paths.latest_start[name] == span - after
            assert paths.slack[name] == slack
            assert paths.earliest_start[name] == span - after - slack
        # A gain is what the span loses when something is free.
        gains = {name: span - longest({**tasks, name: 0}, times) for name in tasks}
        for pair in times:
            gains["->".join(pair)] = span - longest(tasks, {**times, pair: 0})
        costly = [name for name in route if tasks[name]]
        costly += ["->".join(pair) for pair in zip(route, route[1:]) if times[pair]]
        named = {one.name: one.gain for one in paths.bottlenecks}
        assert named == {name: gains[name] for name in named}
        assert len(named) == min(10, len(costly))
        assert {*named} <= {*costly}
        assert not any(gain for name, gain in gains.items() if name not in costly)
        order = [(-one.gain, -one.cost) for one in paths.bottlenecks]
        assert order == sorted(order)


@given(graphs(st.integers(0, 100)))
def test_paths_of_decimal_times_tie_as_those_of_whole_numbers(graph):
    # 0.1 + 0.2 is not 0.3 in floats.
    tasks, edges = graph
    whole = analysis_of(tasks, edges)
    profile = profile_of({name: cost / 10 for name, cost in tasks.items()}, edges)
    tenths = analyze(profile, cost="wall_time", bandwidth_bits_per_s=80000)
    paths, expected = tenths.with_communication, whole.with_communication
    assert paths.critical_path == expected.critical_path
    for name, slack in expected.slack.items():
        assert paths.slack[name] == pytest.approx(slack / 10)
        assert (paths.slack[name] == 0) == (slack == 0)
    gains = {item.name: item.gain for item in tenths.bottlenecks}
    assert gains == pytest.approx({item.name: item.gain / 10 for item in whole.bottlenecks})


def test_without_costs_there_is_no_parallelism():
    for names in ("dcba", ""):
        found = analyze(profile_of(dict.fromkeys(names, 0.0)), cost="wall_time")
        assert (found.work, found.span, found.bottlenecks) == (0, 0, ())
        assert (found.average_parallelism, found.speedup_bound(2), found.ccr) == (None, None, None)
        assert "speed-up" not in str(found)
    assert "0 tasks in 0 levels of up to 0" in str(found)


def test_a_long_chain_needs_no_recursion_and_a_cycle_is_named():
    names = [str(i) for i in range(20_000)]
    pairs = dict.fromkeys(zip(names, names[1:]), 1)
    found = analyze(profile_of(dict.fromkeys(names, 0.5), pairs), cost="wall_time")
    assert found.span == 10_000
    assert found.without_communication.critical_path == tuple(names)
    profile = profile_of({"a": 1.0, "b": 1.0}, {("a", "b"): 1, ("b", "a"): 1})
    with pytest.raises(CycleError, match="'a' -> 'b' -> 'a'"):
        analyze(profile, cost="wall_time")


ESTIMATED = {"read": 10, "clean": 30, "count": 5, "rank": 20, "write": 5}


def test_instructions_stay_whole_or_become_times():
    found = analyze(example(estimated=ESTIMATED), cost="best")
    assert (found.weights.source, found.weights.unit) == ("estimated", "instructions")
    assert (found.work, found.span) == (70, 65)
    assert type(found.work) is type(found.bottlenecks[0].gain) is int
    assert (found.communication, found.with_communication, found.ccr) == (None, None, None)
    assert "for costs in instructions give instructions_per_s too" in str(found)
    assert "span with communication" not in str(found)
    assert "communication / computation             -\n" in str(found)
    speeds = {"instructions_per_s": 10_000, "bandwidth_bits_per_s": LINK}
    found = analyze(example(estimated=ESTIMATED), cost="estimated", **speeds)
    assert found.weights.unit == "ms"
    assert found.weights.values == {"read": 1, "clean": 3, "count": 0.5, "rank": 2, "write": 0.5}
    assert found.weights.provenance.endswith("; at 10,000 instructions a second")
    assert found.with_communication.span == 6.5 + 13
    # Measured times of edges do not go with instructions.
    profile = with_samples(example(estimated=ESTIMATED), [9, 1, 1], [9, 1, 1])
    found = analyze(profile, cost="estimated", instructions_per_s=1e6)
    assert found.communication is None


def test_edges_cost_what_was_measured():
    profile = with_samples(example(), [99.0, 1.0, 3.0], [99.0, 0.25, 0.75])
    found = analyze(profile, cost="wall_time")
    # Rounds of 1.25 and 3.75 ms; warm-up does not count.
    assert set(found.communication.values()) == {2.5}
    assert found.communication_note == "measured serialize + deserialize"
    assert set(analyze(profile, cost="wall_time", statistic="max").communication.values()) == {3.75}
    found = analyze(profile, cost="wall_time", bandwidth_bits_per_s=LINK)
    assert found.communication["read->clean"] == 10.5
    assert found.communication_note == (
        "measured serialize + deserialize + spec bits / 1,000,000 a second"
    )
    profile = with_samples(example(), [9.0, 1.0, 1.0], [9.0, 0.5, 0.5])
    profile.sections["environment"] = {"calibration": CALIBRATION}
    found = analyze(profile, cost="reference_time")
    assert found.weights.unit == "reference ms"
    assert (found.work, set(found.communication.values())) == (30.0, {3.0})
    assert found.communication_note == "measured serialize + deserialize x calibration score"


def test_edges_without_times_count_as_nothing_and_are_named():
    profile = with_samples(example(), [1.0] * 3, [1.0] * 3, keys=["read->clean"])
    unknown = {"serialize_ms": [1.0] * 3, "deserialize_ms": [None] * 3}
    profile.sections["samples"]["edges"]["read->count"] = unknown
    found = analyze(profile, cost="wall_time")
    assert found.communication["read->clean"] == 2.0
    assert found.communication["read->count"] == 0
    assert found.unknown_edges == ("read->count", "clean->rank", "count->write", "rank->write")
    assert "unknown, counted as 0, on 4 edges: read->count, clean->rank" in str(found)
    found = analyze(profile, cost="wall_time", bandwidth_bits_per_s=LINK)
    assert found.unknown_edges == ()


def test_sizes_on_the_wire_are_taken_where_known():
    profile = example(wire={pair: 2 * size for pair, size in BYTES.items()})
    options = {"cost": "wall_time", "bandwidth_bits_per_s": LINK, "size": "wire"}
    assert analyze(profile, **options).communication["read->clean"] == 16.0
    found = analyze(example(), **options)
    assert found.communication is None
    assert found.communication_note == "unknown: the profile has no wire sizes of its edges"
    found = analyze(profile_of(COSTS, dict.fromkeys(BYTES, 0), fields=()), cost="wall_time")
    assert (found.ccr, found.communication_note) == (0, "none, since no edge carries anything")
    found = analyze(profile_of({"a": 1.0, "b": 1.0}, {("a", "b"): 0}), cost="wall_time")
    assert found.communication is None  # an empty field takes time


def test_tasks_without_weights_are_named_or_filled():
    profile = profile_of({**COSTS, "rank": None}, {**BYTES, ("rank", "write"): None})
    with pytest.raises(WeightError, match="none for 'rank'") as caught:
        analyze(profile, cost="wall_time")
    assert caught.value.tasks == ["rank"]
    found = analyze(profile, cost="wall_time", fill=7, bandwidth_bits_per_s=LINK)
    assert found.span == 13.0
    assert found.unknown_edges == ("rank->write",)
    assert "given, not measured, for 1 task: rank\n" in str(found)
    assert "unknown, counted as 0, on 1 edge: rank->write\n" in str(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "bits"}, "size .*'spec' or 'wire', got 'bits'"),
        ({"cost": "wall"}, "source must be 'best'"),
        ({"statistic": "mode"}, "statistic must be 'median'"),
        ({"fill": -1}, "fill must be a finite number"),
        ({"bandwidth_bits_per_s": 0}, "bandwidth_bits_per_s .* above 0, got 0"),
        ({"instructions_per_s": float("nan")}, "instructions_per_s must be"),
        ({"instructions_per_s": 1e9}, "instructions, .* are ms"),
        ({"cost": "estimated", "bandwidth_bits_per_s": 1e9}, "cannot be added to instructions"),
    ],
)
def test_what_is_out_of_range_or_of_no_use_is_refused(options, message):
    profile = example(estimated=ESTIMATED)
    with pytest.raises(WeightError, match=message):
        analyze(profile, **{"cost": "wall_time", **options})


@pytest.mark.parametrize("ask", [analyze, example().compare])
def test_what_is_no_profile_is_refused(ask):
    with pytest.raises(ValidationError, match="must be a Profile, got 'file'"):
        ask("file")
