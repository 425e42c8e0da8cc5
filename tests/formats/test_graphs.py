import pytest
from hypothesis import given
from sample_profiles import HOSTILE, golden_profile, names, profile_of, rendered

from dagprofiler import DAG, Profile, RunError, WeightError, task
from dagprofiler.formats import exporter
from dagprofiler.formats._graph import costs_of, graph_of, legible, legible_names

GRAPHS = ["csv", "dot", "graphml", "mermaid", "node_link"]


@task(inputs=[], outputs=["x"], estimate_fn=lambda cfg: 100)
def source():
    return {"x": [1, 2, 3]}


@task(inputs=["x"], outputs=["y"])
def fails(x):
    raise ValueError(x)


@pytest.mark.parametrize("form", [*GRAPHS, "chrome_trace"])
def test_a_partial_run_can_be_exported(form):
    with pytest.raises(RunError) as caught:
        DAG({"a": source, "b": fails}, [("a", "b")]).run()
    assert "failed" in rendered(form, caught.value.profile)


@pytest.mark.parametrize("form", GRAPHS)
def test_a_profile_without_tasks_can_be_exported(form):
    assert rendered(form, profile_of([]))


@pytest.mark.parametrize("form", GRAPHS)
@pytest.mark.parametrize("options", [{"cost": "wall"}, {"statistic": "mode"}])
def test_what_no_weight_can_be_is_refused(form, options):
    with pytest.raises(WeightError, match="must be one of"):
        rendered(form, golden_profile(), **options)


@pytest.mark.parametrize("form", [*GRAPHS, "chrome_trace"])
def test_every_text_can_be_written_as_utf_8(form, tmp_path):
    profile = profile_of(HOSTILE)
    profile.sections["timeline"] = {
        "workers": [{"host": "\ud800"}],
        "columns": ["task", "round", "worker", "compute_start_ms", "compute_end_ms"],
        "records": [[name, 0, 0, i, i + 1] for i, name in enumerate(HOSTILE)],
    }
    profile.hostname = "\udfff\x00"
    profile.export(tmp_path / "file", form)
    assert (tmp_path / "file").read_text(encoding="utf-8")


def test_missing_weights_are_absent_or_filled_in_and_the_provenance_says_how_many():
    costs = costs_of(golden_profile(), "best", "median", None)
    assert costs.source == "estimated"
    assert set(costs.values) == {"load", 'the "join" <&>', "report"}
    assert costs.provenance.endswith("none for 1 of 4 tasks")
    costs = costs_of(golden_profile(), "estimated", "median", 3)
    assert costs.values["=sum"] == 3
    assert costs.provenance.endswith("none of it is measured; 3 given for 1 of 4 tasks")
    graph = graph_of(golden_profile(), "counted", "median", None)
    assert not any("weight" in values for values in graph.tasks.values())
    assert graph.costs.source is None
    assert "counted_instructions" in str(graph.costs)
    assert "node_weight_source" not in graph.attributes


def test_edges_have_the_weights_of_the_profile_and_only_what_is_known():
    document = profile_of(["a", "b"]).to_dict()
    document.pop("edge_metrics", None)
    document["metadata"].pop("schema_version", None)
    document["edge_weights"]["a->b"] = 11
    edge = graph_of(Profile.from_dict(document), None, "median", None).edges["a", "b"]
    assert edge["weight"] == 11
    edge = graph_of(profile_of(["a", "b"]), None, "median", None).edges["a", "b"]
    assert edge == {"weight": 8, "size_bytes": 1}


def test_losses_name_repeated_edges_sections_left_out_and_names_that_changed():
    document = profile_of(["a", "b"]).to_dict()
    document["metadata"].pop("schema_version", None)
    document["dag_structure"]["edges"] *= 2
    graph = graph_of(Profile.from_dict(document), None, "median", None)
    assert list(graph.edges) == [("a", "b")]
    assert any("more than once" in loss for loss in graph.losses)
    (loss,) = exporter("graphml").render(golden_profile()).losses
    left_out = loss.rpartition(": ")[2].split(", ")
    assert set(left_out) == {"configuration", "run", "weight_sources", "timeline"}
    profile = profile_of([chr(i) for i in range(1, 9)])
    (loss,) = [loss for loss in exporter("dot").render(profile).losses if "names with" in loss]
    assert "'\\x01' is '\\\\u0001'" in loss
    assert loss.endswith("and 3 more")
    profile = profile_of([chr(i) for i in range(1, 6)])
    (loss,) = [loss for loss in exporter("dot").render(profile).losses if "names with" in loss]
    assert loss.endswith("'\\x05' is '\\\\u0005'")


@given(names(max_size=6))
def test_legible_names_are_distinct_and_those_that_are_legible_stay(tasks):
    mapped = legible_names(tasks)
    assert list(mapped) == tasks
    assert len(set(mapped.values())) == len(tasks)
    for name, text in mapped.items():
        assert legible(text) == text
        assert legible(name) != name or text == name
