from __future__ import annotations

import io
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given

from dagprofiler import DAG, Profile, RunError, WeightError, task
from dagprofiler._util.html import Drawing
from dagprofiler.report.drawing import CRITICAL, Sketch, darkness, draw, scene_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "formats"))
from sample_profiles import HOSTILE, golden_profile, large_profile, names, profile_of

SVG = "{http://www.w3.org/2000/svg}"


@task(outputs=["rows", "labels"], estimate_fn=lambda cfg: 40)
def load():
    return {"rows": b"x" * 1000, "labels": [1]}


@task(inputs=["rows"], outputs=["part"], estimate_fn=lambda cfg: 10)
def part(rows):
    return {"part": len(rows)}


@task(inputs=["part"], outputs=["total"], gathers=["part"], estimate_fn=lambda cfg: 20)
def merge(part):
    return {"total": sum(part)}


def wide(width):
    """A DAG of one task that feeds many, which feed one; and an edge that only orders."""
    parts = [f"part_{i}" for i in range(width)]
    edges = [edge for name in parts for edge in (("load", name), (name, "merge"))]
    tasks = {"load": load, **dict.fromkeys(parts, part), "merge": merge}
    return DAG(tasks, [*edges, ("load", "merge", [])])


def parsed(drawing):
    """The elements of a picture, by kind."""
    root = ET.fromstring(drawing.svg)
    return {kind: list(root.iter(f"{SVG}{kind}")) for kind in ("rect", "text", "title", "path")}


def titles(drawing):
    return [one.text for one in parsed(drawing)["title"]]


def test_a_dag_draws_itself_before_it_has_run():
    drawing = wide(2).draw()
    assert isinstance(drawing, Drawing)
    assert repr(drawing) == "<Drawing: 4 tasks, 5 edges>"
    words = [one.text for one in parsed(drawing)["text"]]
    assert words == ["load", "rows, labels", "merge", "total", "part_0", "part", "part_1", "part"]
    assert {"load → part_0\nrows", "load → merge\norder only"} <= {*titles(drawing)}


def test_a_large_dag_is_folded_and_says_so():
    drawing = wide(500).draw()
    assert drawing.caption == "502 tasks, 1,001 edges, in 3 groups"
    assert "part_* (500)" in [one.text for one in parsed(drawing)["text"]]
    assert "load → part_* (500)\n500 edges" in titles(drawing)


def test_as_many_nodes_are_drawn_as_one_asks_for():
    assert wide(500).draw(nodes=502).caption == "502 tasks, 1,001 edges"
    assert len(parsed(wide(70).draw(nodes=100))["rect"]) == 72 + 1


@pytest.mark.parametrize("nodes", [2, 3, 10, 26, 60])
def test_a_picture_has_no_more_nodes_than_it_may(nodes):
    profile = large_profile(800)
    structure = profile.dag_structure
    numbers = {name: i for i, name in enumerate(structure["nodes"])}
    edges = [(numbers[e["source"]], numbers[e["target"]]) for e in structure["edges"]]
    assert 0 < len(scene_of(Sketch(structure["nodes"], edges), nodes).boxes) <= nodes


@pytest.mark.parametrize("nodes", [1, 0, -3, 2.0, True, "all", None])
def test_a_number_of_nodes_that_cannot_be_is_refused(nodes):
    with pytest.raises(ValueError, match=r"nodes .* at least 2, got"):
        wide(2).draw(nodes=nodes)


def test_a_picture_is_saved_as_svg(tmp_path):
    drawing = wide(2).draw()
    path = str(tmp_path / "dag.svg")
    assert drawing.save(path) == path
    assert Path(path).read_text(encoding="utf-8") == drawing.svg
    stream = io.StringIO()
    drawing.save(stream)
    assert stream.getvalue() == drawing.svg


def test_notebooks_are_given_a_picture_on_their_own_paper_in_three_forms():
    drawing = wide(2).draw()
    bundle = drawing._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "image/svg+xml"}
    assert bundle["text/plain"] == repr(drawing)
    assert 'fill="#ffffff"/>' in drawing.svg
    assert "currentColor" in bundle["text/html"]
    assert "#ffffff" not in bundle["text/html"]


def test_a_profile_draws_costs_bytes_and_the_critical_path():
    drawing = wide(3).run().draw(cost="estimated")
    words = [one.text for one in parsed(drawing)["text"]]
    assert words[:2] == ["load", "40 instructions"]
    critical = [one for one in parsed(drawing)["rect"] if one.get("stroke") == CRITICAL]
    assert len(critical) == 3
    assert "load → part_0\nrows\n1 kB" in titles(drawing)
    shades = [float(one.get("fill-opacity")) for one in parsed(drawing)["rect"][1:]]
    assert max(shades) == shades[0]


def test_a_profile_draws_times_by_default_and_groups_cost_what_their_tasks_do():
    profile = wide(500).run()
    assert "part_* (500)\n5 k instructions" in titles(profile.draw(cost="estimated"))
    words = [one.text for one in parsed(profile.draw())["text"]]
    assert all(word.endswith(" ms") for word in words[1::2])


def test_a_cost_that_is_not_known_is_refused():
    with pytest.raises(WeightError, match="'cycles'"):
        wide(2).run().draw(cost="cycles")


def test_tasks_that_did_not_succeed_are_dashed():
    @task(inputs=["rows"], outputs=["part"])
    def fails(rows):
        raise ValueError("no luck")

    with pytest.raises(RunError) as caught:
        DAG({"load": load, "fails": fails}, [("load", "fails")]).run()
    boxes = parsed(caught.value.profile.draw())["rect"][1:]
    assert [box.get("stroke-dasharray") for box in boxes] == [None, "4 3"]


def test_a_profile_of_0_1_0_is_drawn_without_saying_what_edges_carry():
    drawing = profile_of(["a", "b"]).draw()
    assert "a → b\n1 B" in titles(drawing)


def test_a_dag_without_tasks_is_a_small_picture():
    assert DAG({}).draw().caption == "0 tasks, 0 edges"
    assert parsed(DAG({}).draw())["rect"] != []
    assert DAG({}).run().draw().caption == "0 tasks, 0 edges"


@given(names())
@example(HOSTILE)
def test_names_are_text_whatever_they_hold(tasks):
    root = ET.fromstring(profile_of(tasks).draw(nodes=100).svg.encode("utf-8"))
    kinds = {one.tag[len(SVG) :] for one in root.iter()}
    assert kinds <= {"svg", "g", "rect", "text", "title", "path"}


def test_boxes_do_not_overlap_and_all_is_within_the_picture():
    scene = scene_of(sketch_like(golden_profile()), 60)
    for box in scene.boxes:
        assert 0 <= box.x <= box.x + box.width <= scene.width
        assert 0 <= box.y <= box.y + box.height <= scene.height
    for a in scene.boxes:
        for b in scene.boxes:
            apart = a.x + a.width <= b.x or b.x + b.width <= a.x
            assert a is b or apart or a.y + a.height <= b.y or b.y + b.height <= a.y
    for wire in scene.wires:
        assert all(0 <= x <= scene.width and 0 <= y <= scene.height for x, y in wire.points)
        assert len(wire.points) % 3 == 1


def sketch_like(profile):
    names = profile.dag_structure["nodes"]
    numbers = {name: i for i, name in enumerate(names)}
    edges = profile.dag_structure["edges"]
    return Sketch(names, [(numbers[e["source"]], numbers[e["target"]]) for e in edges])


def test_a_line_that_runs_below_the_lowest_box_is_within_the_picture():
    edges = [(i, i + 1) for i in range(6)] + [(0, 6), (0, 5), (1, 6), (0, 4)]
    scene = scene_of(Sketch([str(i) for i in range(7)], edges), 60)
    assert all(0 <= y <= scene.height for wire in scene.wires for _, y in wire.points)


def test_long_texts_are_cut_and_whole_where_the_pointer_rests():
    drawing = draw(Sketch(["x" * 80], []), 60)
    assert len(parsed(drawing)["text"][0].text) == 22
    assert titles(drawing) == ["x" * 80]


def test_a_drawing_is_the_same_of_a_profile_that_was_loaded():
    profile = wide(4).run()
    assert Profile.loads(profile.dumps()).draw().svg == profile.draw().svg


def test_a_box_is_the_darker_the_more_its_task_costs_and_its_text_stays_legible():
    shades = [darkness(part / 10) for part in range(11)]
    assert shades == sorted(set(shades))
    assert 0 < shades[0] < shades[-1] <= 0.5
