import io
import re
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sample_profiles import HOSTILE, golden_profile, large_profile, names, profile_of
from wide_dag import fails, load, wide

from dagprofiler import DAG, Profile, RunError
from dagprofiler._util.html import Drawing
from dagprofiler.report import drawing as drawings
from dagprofiler.report.drawing import CRITICAL, Sketch, fold, layers_of

SVG = "{http://www.w3.org/2000/svg}"

ORDER = ("load", "merge", [])


def parsed(drawing):
    """The elements of a picture, by kind."""
    root = ET.fromstring(drawing.svg)
    return {kind: list(root.iter(f"{SVG}{kind}")) for kind in ("rect", "text", "title", "path")}


def titles(drawing):
    return [one.text for one in parsed(drawing)["title"]]


def words(drawing):
    return [one.text for one in parsed(drawing)["text"]]


def test_a_dag_draws_itself_and_a_large_one_in_groups():
    drawing = wide(2, ORDER).draw()
    assert isinstance(drawing, Drawing)
    assert repr(drawing) == "<Drawing: 4 tasks, 5 edges>"
    assert words(drawing) == [
        *("load", "rows, labels", "merge", "total"),
        *("part_0", "part", "part_1", "part"),
    ]
    assert {"load → part_0\nrows", "load → merge\norder only"} <= {*titles(drawing)}
    dag = wide(500, ORDER)
    drawing = dag.draw()
    assert drawing.caption == "502 tasks, 1,001 edges, in 3 groups"
    assert "part_* (500)" in words(drawing)
    assert "load → part_* (500)\n500 edges" in titles(drawing)
    assert dag.draw(nodes=502).caption == "502 tasks, 1,001 edges"
    assert len(parsed(wide(70).draw(nodes=100))["rect"]) == 72 + 1
    profile = dag.run()
    assert "part_* (500)\n5 k instructions" in titles(profile.draw(cost="estimated"))
    # The default are times.
    assert all(word.endswith(" ms") for word in words(profile.draw())[1::2])


@pytest.mark.parametrize("nodes", [1, 0, -3, 2.0, True, "all", None])
def test_a_picture_has_no_more_nodes_than_it_may(nodes):
    with pytest.raises(ValueError, match=r"nodes .* at least 2, got"):
        wide(2).draw(nodes=nodes)
    for most in (2, 3, 10, 26, 60):
        assert 0 < drawings.scene_of(LARGE, most).content.count("<rect") <= most


def test_a_picture_is_saved_as_svg_and_notebooks_get_three_forms(tmp_path):
    drawing = wide(2).draw()
    path, stream = str(tmp_path / "dag.svg"), io.StringIO()
    assert drawing.save(path) == path
    drawing.save(stream)
    assert Path(path).read_text(encoding="utf-8") == stream.getvalue() == drawing.svg
    bundle = drawing._repr_mimebundle_()
    assert (drawing._repr_svg_(), bundle["text/plain"]) == (drawing.svg, repr(drawing))
    assert 'fill="#ffffff"/>' in drawing.svg
    assert "currentColor" in bundle["text/html"]
    assert "#ffffff" not in bundle["text/html"]


def test_a_profile_draws_costs_bytes_and_the_critical_path():
    profile = wide(3, ORDER).run()
    drawing = profile.draw(cost="estimated")
    assert words(drawing)[:2] == ["load", "40 instructions"]
    assert [one.get("font-size") for one in parsed(drawing)["text"]][:2] == ["12", "10"]
    boxes = parsed(drawing)["rect"][1:]
    assert sum(box.get("stroke") == CRITICAL for box in boxes) == 3
    assert "load → part_0\nrows\n1 kB" in titles(drawing)
    shades = [float(box.get("fill-opacity")) for box in boxes]
    assert max(shades) == shades[0]
    assert Profile.loads(profile.dumps()).draw(cost="estimated").svg == drawing.svg


def test_what_did_not_succeed_is_dashed():
    with pytest.raises(RunError) as caught:
        DAG({"load": load, "fails": fails}, [("load", "fails")]).run()
    boxes = parsed(caught.value.profile.draw())["rect"][1:]
    assert [box.get("stroke-dasharray") for box in boxes] == [None, "4 3"]
    drawing = profile_of(["a", "b"]).draw()
    assert "a → b\n1 B" in titles(drawing)
    for drawing in (DAG({}).draw(), DAG({}).run().draw()):
        assert drawing.caption == "0 tasks, 0 edges"
        assert parsed(drawing)["rect"] != []


@given(names())
@example(HOSTILE)
def test_names_are_text_whatever_they_hold(tasks):
    root = ET.fromstring(profile_of(tasks).draw(nodes=100).svg.encode("utf-8"))
    kinds = {one.tag[len(SVG) :] for one in root.iter()}
    assert kinds <= {"svg", "g", "rect", "text", "title", "path"}


def test_boxes_do_not_overlap_and_all_is_within_the_picture():
    edges = [(i, i + 1) for i in range(6)] + [(0, 6), (0, 5), (1, 6), (0, 4)]
    long_edges = Sketch([str(i) for i in range(7)], edges)
    for sketch in (sketch_of(golden_profile()), long_edges):
        scene = drawings.scene_of(sketch, 60)
        found = parsed(SimpleNamespace(svg=drawings.svg_of(scene, opaque=False)))
        sides = ("x", "y", "width", "height")
        boxes = [[float(box.get(side)) for side in sides] for box in found["rect"]]
        assert len(boxes) == len(sketch.names)
        for x, y, width, height in boxes:
            assert 0 <= x <= x + width <= scene.width
            assert 0 <= y <= y + height <= scene.height
        for (x, y, width, height), (other_x, other_y, *_) in combinations(boxes, 2):
            assert abs(x - other_x) >= width or abs(y - other_y) >= height
        for line in found["path"][::2]:
            points = [float(number) for number in re.findall(r"-?[0-9.]+", line.get("d"))]
            assert all(0 <= x <= scene.width for x in points[::2])
            assert all(0 <= y <= scene.height for y in points[1::2])


def sketch_of(profile):
    names = profile.dag_structure["nodes"]
    numbers = {name: i for i, name in enumerate(names)}
    edges = profile.dag_structure["edges"]
    return Sketch(names, [(numbers[e["source"]], numbers[e["target"]]) for e in edges])


LARGE = sketch_of(large_profile(800))


def fan(width):
    names = ["split", *(f"map_{i}" for i in range(width)), "merge"]
    return names, [edge for i in range(1, width + 1) for edge in ((0, i), (i, width + 1))]


def spelled(count, size=3):
    """Names without numbers, which have nothing in common."""
    return ["".join(chr(97 + i // 26**k % 26) for k in range(size)) for i in range(count)]


@pytest.mark.parametrize(
    ("names", "edges", "labels", "sizes"),
    [
        # Tasks that are alike are one group, of which two of a kind are none.
        (*fan(1000), ["split", "map_*", "merge"], [1, 1000, 1]),
        (["a1", "a2", "b"], [(0, 2), (1, 2)], ["a1", "a2", "b"], [1, 1, 1]),
        # So are tasks of another layer, and those whose names have nothing in common by layer.
        ([f"x{i}" for i in range(9)], [(i, i + 3) for i in range(6)], ["x*"] * 3, [3, 3, 3]),
        (spelled(2000), [(i, i + 1000) for i in range(1000)], ["level 0", "level 1"], [1000] * 2),
        # Tasks without edges are by themselves: one group if their names differ.
        (spelled(700), [(0, 1)], ["level 0", "level 1", "without edges"], [1, 1, 698]),
        ([f"t{i}" for i in range(500)], [(0, 1)], ["t0", "t1", "t*"], [1, 1, 498]),
    ],
)
def test_large_graphs_are_folded_into_groups(names, edges, labels, sizes):
    folding = fold(names, edges)
    assert folding.labels == labels
    assert list(map(len, folding.tasks)) == sizes


def test_a_long_chain_is_folded_into_stretches():
    count = 20_000
    folding = fold([f"t{i}" for i in range(count)], [(i, i + 1) for i in range(count - 1)])
    assert len(folding.tasks) <= 25
    assert folding.labels[0] == "levels 0 to 833"


@given(st.lists(st.sampled_from(["a1", "a2", "b1", "b2", "c"]), min_size=2, max_size=40), st.data())
def test_every_task_is_in_one_group_and_groups_form_no_cycle(stems, data):
    names = [f"{stem}{i}" for i, stem in enumerate(stems)]
    numbers = st.integers(0, len(names) - 1)
    pairs = data.draw(st.lists(st.tuples(numbers, numbers)))
    edges = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
    folding = fold(names, edges)
    assert sorted(v for group in folding.tasks for v in group) == list(range(len(names)))
    layers_of(len(folding.tasks), folding.edges)
    inside = {v: g for g, group in enumerate(folding.tasks) for v in group}
    between = {
        k: (inside[a], inside[b]) for k, (a, b) in enumerate(edges) if inside[a] != inside[b]
    }
    assert {k: ends for ends, of in zip(folding.edges, folding.of) for k in of} == between
