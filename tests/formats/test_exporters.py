import io
import json
from contextlib import nullcontext
from pathlib import Path

import numpy
import pytest
from handmade import handmade
from sample_profiles import golden, golden_profile, rendered, sink, source

from dagprofiler import DAG, EdgeMetrics, Profile, TaskMetrics, import_profile, simulate
from dagprofiler.errors import DagProfilerWarning, FormatError, ProfileError, WeightError
from dagprofiler.formats import exporter, exporter_names


@pytest.fixture(scope="module")
def profile():
    return DAG({"first": source, "second": sink}, [("first", "second")]).run(seed=1)


# Profile.export


@pytest.mark.parametrize("name", exporter_names())
def test_each_format_is_chosen_by_its_ending_and_lists_losses(profile, name, tmp_path):
    found = exporter(name)
    path = tmp_path / f"out{found.extension}"
    losses = profile.export(path)
    expected = found.render(profile)
    assert path.read_bytes().decode() == expected.text
    assert losses == expected.losses
    assert all(isinstance(loss, str) and loss for loss in losses)
    # A profile that is saved under such a name is not lost.
    with nullcontext() if path.suffix == ".json" else pytest.warns(DagProfilerWarning, match="out"):
        profile.save(path)
    assert Profile.load(path) == profile
    # A profile that was loaded gives the same.
    assert found.render(Profile.loads(profile.dumps())) == expected
    guess = found.render(simulate(profile, workers=2).profile)
    assert name == "html" or "predicted, not measured" in guess.losses[0]
    # SAGA's files and tables of figures have no place for it.
    assert name in ("saga", "csv") or "not measured" in guess.text


@pytest.mark.parametrize("name", ["chrome_trace", "csv", "dot", "graphml", "mermaid", "node_link"])
def test_the_golden_files_are_what_is_written(name):
    assert rendered(name, golden_profile()) == golden(f"profile{exporter(name).extension}")
    if name == "csv":
        assert rendered(name, golden_profile(), table="edges") == golden("profile-edges.csv")


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("x.unknown", {}, r"x\.unknown'"),
        ("x.mermad", {}, r"give format=, .*\.dot \(dot\).*; did you mean 'mermaid'"),
        ("x.dot", {"format": "dott"}, "'dott' among the exporters .*'dot'"),
        ("x.csv", {"tabel": 1}, "'tabel'; options: table, cost"),
        ("x.saga.json", {"fill_size": -1}, "fill_size .*-1"),
        ("x.wfformat.json", {"version": "1.3"}, "version .*'1.3'"),
        ("x.wfformat.json", {"size": "bytes"}, "size .*'bytes'"),
        ("x.wfformat.json", {"fill": -1}, "fill"),
        *(
            (f"x{ending}", {"cost": "wall"}, "'wall'")
            for ending in (".csv", ".dot", ".graphml", ".mmd", ".node_link.json", ".saga.json")
        ),
    ],
)
def test_an_invalid_option_is_named_and_writes_nothing(profile, tmp_path, path, options, message):
    (tmp_path / path).write_text("old")
    with pytest.raises((FormatError, WeightError), match=message):
        profile.export(tmp_path / path, **options)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_named_format_counts_for_more_than_an_ending(profile, tmp_path):
    text, raw, path = io.StringIO(), io.BytesIO(), tmp_path / "x.saga.json"
    profile.export(text, "saga")
    profile.export(raw, format="saga")
    with open(path, "w", encoding="utf-8") as file:
        profile.export(file)
    expected = exporter("saga").render(profile).text
    assert [raw.getvalue().decode(), text.getvalue(), path.read_text()] == [expected] * 3
    with pytest.raises(FormatError, match=r"^a stream without a name .*give"):
        profile.export(io.StringIO())
    path = tmp_path / "x.dot"
    profile.export(path, "saga")
    assert "tasks" in json.loads(path.read_text())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in exporter_names() if name not in ("chrome_trace", "html")),
        ("csv", {"table": "edges"}),
        ("saga", {"stochastic": True}),
    ],
)
def test_numbers_of_numpy_are_written_as_plain_ones(name, options):
    single, double, whole = numpy.float32(0.5), numpy.float64(1.5), numpy.int64(16)
    tasks = [TaskMetrics(name, double, single, double, whole, whole) for name in "ab"]
    edges = [EdgeMetrics("a", "b", ["x"], whole, whole)]
    weights = {"a": whole, "b": whole}
    by_hand = handmade("ab", edges, times=tasks, weights=weights, total_ms=double)
    text = exporter(name).render(by_hand, **options).text
    assert text == exporter(name).render(Profile.loads(by_hand.dumps()), **options).text


# Importing


def test_a_file_is_imported_in_the_format_that_fits(profile, tmp_path):
    path = tmp_path / "x.json"
    profile.export(path, "wfformat")
    imported = import_profile(path)
    assert set(imported.dag_structure["nodes"]) == {"first", "second"}
    with open(path, encoding="utf-8") as file:
        assert import_profile(file) == imported
    with open(path, "rb") as file:
        assert import_profile(file, "wfformat") == imported
    text = path.read_text()
    loads = (Profile.load, path), (Profile.loads, text), (Profile.from_dict, json.loads(text))
    for load, given in loads:
        with pytest.raises(ProfileError, match=r"not a profile but wfformat, .*import_profile\(\)"):
            load(given)
    for name in ("readme-sample.json", "standard-sample.json"):
        path = Path(__file__).parent.parent / "data" / name
        assert import_profile(path) == Profile.load(path)


def test_a_file_that_nobody_recognizes_is_named(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"what": "else"}')
    with pytest.raises(FormatError, match=r"x\.json' .*; give format=.*wfforma"):
        import_profile(path)
    with pytest.raises(FormatError, match=r"^the stream "):
        import_profile(io.StringIO("{}"))
    with pytest.raises(FormatError, match=r"'wformat' .*'wfformat'"):
        import_profile(io.StringIO("{}"), "wformat")
    path.write_text("digraph {}")
    with pytest.raises(ProfileError, match=r"^not JSON: .*x\.json"):
        import_profile(path)
    text = '{"metadata": {"timestamp": 5}, "dag_structure": {}, "node_weights": {}}'
    with pytest.raises(ProfileError):
        import_profile(io.StringIO(text))
