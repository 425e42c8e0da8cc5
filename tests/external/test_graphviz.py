"""Graphviz reads what is exported as DOT, and draws of each name what it is."""

import json
import re
import subprocess
import xml.etree.ElementTree as ET

import pytest
from hypothesis import HealthCheck, example, given, settings
from sample_profiles import HOSTILE, golden_profile, names, profile_of, rendered

pytestmark = pytest.mark.external

SVG = "{http://www.w3.org/2000/svg}"


#: What a label holds escaped.
ESCAPE = re.compile(r"\\([\\n\"])|&amp;")


def unescaped(found):
    return {"n": "\n", None: "&"}.get(found[1], found[1])


def drawn(dot, text, form):
    done = subprocess.run([dot, f"-T{form}"], input=text.encode(), capture_output=True, check=True)
    assert not done.stderr, done.stderr
    return done.stdout.decode()


def lines_of(group):
    return [text.text or "" for text in group.iter(f"{SVG}text")]


def expected_lines(name):
    return [*name.replace("\t", " ").replace("\r", "\n").split("\n"), "1 instructions"]


def shown(lines):
    """What is left of lines in a picture: blanks at most single, lines at least a mark."""
    return [line for line in (" ".join(one.split()) for one in lines) if line]


def test_the_golden_profile_is_drawn(dot):
    svg = ET.fromstring(drawn(dot, rendered("dot", golden_profile()), "svg"))
    groups = {g.get("class"): [] for g in svg.iter(f"{SVG}g")}
    for group in svg.iter(f"{SVG}g"):
        groups[group.get("class")].append(lines_of(group))
    assert ["=sum", "-", "failed"] in groups["node"]
    assert ['the "join" <&>', "1,234 ms"] in groups["node"]
    assert sorted(groups["edge"]) == [["-"], ["0 B"], ["80 B"], ["800 kB"]]


@settings(
    max_examples=settings.default.max_examples // 4,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(tasks=names(max_size=8))
@example(tasks=HOSTILE)
def test_any_names_are_drawn_as_they_are(dot, tasks):
    text = rendered("dot", profile_of(tasks, dict.fromkeys(tasks, 1)))
    graph = json.loads(drawn(dot, text, "dot_json"), strict=False)
    nodes = graph.get("objects", ())
    assert [node["name"] for node in nodes] == [f"t{i}" for i in range(len(tasks))]
    labels = [ESCAPE.sub(unescaped, node["label"]) for node in nodes]
    assert labels == ["\n".join(expected_lines(name)) for name in tasks]
    assert [(e["tail"], e["head"]) for e in graph.get("edges", ())] == [
        (i, i + 1) for i in range(len(tasks) - 1)
    ]
    svg = ET.fromstring(drawn(dot, text, "svg"))
    groups = [g for g in svg.iter(f"{SVG}g") if g.get("class") == "node"]
    found = [shown(lines_of(group)) for group in groups]
    assert sorted(found) == sorted(shown(expected_lines(name)) for name in tasks)
