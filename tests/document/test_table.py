import pytest
from handmade import handmade, sink, source

from dagprofiler import DAG, EdgeMetrics, TaskMetrics
from dagprofiler._document.table import default_times, label_of, unit_of


def profile_of(*names, metadata=None, **sections):
    times = [TaskMetrics(name, 8.0 + i, 0.5, 0.25, 10, 20) for i, name in enumerate(names)]
    edges, weights = [EdgeMetrics("a", "b", ["x"], 5, 7)], {"a": 3, "b": 0}
    options = {"times": times, "weights": weights, "metadata": metadata, "sections": sections}
    profile = handmade("ba", edges, edges=["ab"], **options)
    profile.dag_structure["execution_order"] = ["a", "b"]
    profile.metrics.edge_weights["a->b"] = 41
    return profile


def measured(**columns):
    samples = {"rounds": ["warm_up", "measured", "measured", "allocation"], "tasks": {"a": columns}}
    return profile_of("a", "b", samples=samples)


def test_a_table_has_rows_and_columns_with_labels_and_units():
    profile = profile_of("a", "b")
    tasks = profile.tasks
    assert tasks["task"] == ["b", "a"]
    assert tasks["execution_order"] == [1, 0]
    assert tasks["time_ms"] == tasks["compute_time_ms"] == [9.0, 8.0]
    assert tasks["share"] == [9 / 17, 8 / 17]
    assert tasks.columns["time_ms"].unit == "ms"
    assert tasks.columns["node_weight"].unit == "instructions"
    assert [row["bytes_in"] for row in tasks] == [10, 10]
    assert len(tasks) == 2
    with pytest.raises(KeyError, match=r"'time_m'.*'time_ms'"):
        tasks["time_m"]
    (row,) = profile.edges
    ends = {"source": "a", "target": "b", "data_fields": ["x"]}
    assert row == {**ends, "size_bits": 41, "size_bytes": 5, "wire_bytes": 7}
    for key, label, unit in (
        ("time_ms", "time", "ms"),
        ("size_bits", "payload", "bits"),
        ("energy_J", "energy J", ""),
        ("counted_instructions", "counted instructions", "instructions"),
    ):
        assert (label_of(key), unit_of(key)) == (label, unit)


@pytest.mark.parametrize(
    "sources",
    [{"a": {"node_weight": "estimated_instructions"}, "b": {"node_weight": "default"}}, {}],
)
def test_unknown_values_in_tables_are_none(sources):
    run = {"state": "partial", "tasks": {"b": {"state": "failed"}}}
    profile = profile_of("a", run=run, weight_sources=sources)
    known = {"state": "succeeded", "time_ms": 8.0, "node_weight": 3, "bytes_out": 20}
    unknown = {**dict.fromkeys(known), "state": "failed"}
    assert [{name: row[name] for name in known} for row in profile.tasks] == [unknown, known]
    bare = profile_of()
    bare.metrics.edge_metrics = []
    assert bare.edges["data_fields"] == bare.edges["size_bits"] == [None]
    assert bare.tasks["state"] == [None, None]


def test_times_are_corrected_where_measured():
    samples = {"wall_ms": [99.0, 2.0, 4.0, None], "corrected_ms": [99.0, 1.0, None, None]}
    assert default_times(measured(**samples))["a"] == (1.0, None, None, "corrected_ms")
    del samples["corrected_ms"]
    times = default_times(measured(**samples))
    assert times["a"] == (3.0, None, None, "wall_ms")
    assert times["b"] == (9.0, None, None, "wall_ms")
    summary = {"median": 5.0, "low": 4.0, "high": 6.0, "n": 6}
    stated = profile_of("a", statistics={"tasks": {"a": {"corrected_ms": summary}}})
    assert default_times(stated) == {"a": (5.0, 4.0, 6.0, "corrected_ms")}
    assert stated["a"].interval_ms == (4.0, 6.0)
    assert stated["b"].interval_ms is stated["b"].time_ms is None


def test_metered_columns_are_medians_over_the_rounds_that_count():
    profile = measured(allocation_bytes=[None, None, None, 640], delay_ms=[9, 1, 2, None])
    assert profile.tasks["allocation_bytes"] == [None, 640]
    assert profile.tasks["delay_ms"] == [None, 1.5]
    assert profile["a"].samples == {"allocation_bytes": [640], "delay_ms": [1, 2]}


def test_one_task_has_its_timeline_and_spans_alone():
    profile = DAG({"a": source, "b": sink}, [("a", "b")]).run(rounds=2)
    profile.sections["spans"] = {
        "labels": [{"kind": "span", "name": "work", "category": "m"}],
        "threads": [{"worker": 0, "id": 5, "name": "MainThread", "own": True}],
        "columns": ["task", "round", "thread", "label", "start_ms", "end_ms", "id", "args"],
        "records": [["a", 2, 0, 0, 0.5, 0.75, None, None], ["b", 2, 0, 0, 1, 2, None, None]],
    }
    found = profile["a"]
    assert (found.name, found.state, len(found.samples["wall_ms"])) == ("a", "succeeded", 2)
    assert found.statistics["wall_ms"]["n"] == 2
    assert {row["task"] for row in found.timeline} == {"a"}
    assert [(s["name"], s["thread"], s["end_ms"]) for s in found.spans] == [
        ("work", "MainThread", 0.75)
    ]
    with pytest.raises(KeyError, match="'c'"):
        profile["c"]


def test_a_table_shows_its_first_rows_as_text_and_html():
    profile = profile_of("a", "b")
    head, *rows = str(profile.tasks).splitlines()
    assert head.split()[:2] == ["task", "execution"]
    assert "state" not in head
    assert rows[0].split()[:2] == ["b", "1"]
    assert "<td" in profile.edges._repr_html_()
    assert "2 rows" in repr(profile.tasks)
    many = {f"t{i}": source for i in range(50)}
    assert "10 more" in str(DAG(many, []).run().tasks)


def test_data_frames_are_tidy():
    pytest.importorskip("pandas")
    profile = DAG({"a": source, "b": sink}, [("a", "b")]).run(rounds=2)
    frames = profile.to_pandas()
    assert list(frames.tasks["task"]) == profile.tasks["task"]
    assert frames.tasks.attrs["units"]["time_ms"] == "ms"
    assert list(frames.edges["source"]) == ["a"]
    rounds = len(profile.sections["samples"]["rounds"])
    walls = frames.samples[frames.samples["quantity"] == "wall_ms"]
    assert len(walls) == 2 * rounds
    assert set(walls["kind"]) == {"cold", "warm_up", "measured"}
    assert list(walls[walls["task"] == "a"]["value"]) == list(
        profile.sections["samples"]["tasks"]["a"]["wall_ms"]
    )
    assert len(frames.timeline) == 2 * rounds
    assert frames.spans.empty


def test_absent_sections_are_empty_objects():
    bare = handmade("ab")
    assert (bare.run.state, bare.environment.cores) == (None, None)
    assert bare.timeline.rows() == bare.spans.rows() == bare.origins.rows() == []
    assert bare.samples.of("a", "wall_ms") == bare.samples.measured == []
    section = {"rounds": ["cold", "measured", "measured"], "tasks": {"a": {"cpu_ms": [9, None, 2]}}}
    timeline = {
        "workers": [],
        "columns": ["task", "round", "worker", "compute_end_ms"],
        "records": [["a", 0, 0, 1.5], ["a", 1, 0, None]],
    }
    profile = handmade("ab", sections={"samples": section, "timeline": timeline})
    assert (profile.samples.of("a", "cpu_ms"), profile.samples.measured) == ([2], [1, 2])
    rows = profile.timeline.rows()
    assert [(row.compute_end_ms, row.ready_ms) for row in rows] == [(1.5, None), (None, None)]
    assert profile.timeline.rows(round=1) == rows[1:]
