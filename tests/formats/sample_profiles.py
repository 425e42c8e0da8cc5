"""Profiles to export: one for the golden files, and those with any names."""

import random
from pathlib import Path

from handmade import handmade
from hypothesis import strategies as st

from dagprofiler import EdgeMetrics, Profile, TaskMetrics, task
from dagprofiler._document.rounds import MOMENTS
from dagprofiler.formats import exporter

EXPORTS = Path(__file__).resolve().parent.parent / "data" / "exports"

#: What breaks out of its quoting somewhere, or means something to somebody.
HOSTILE = [
    *(" ", "  two blanks  ", "end", "subgraph", "style a: b#c;", "1. list", "# head"),
    *('"', '\\"', '"];x', "\\", "a\\", "\\N \\G \\l \\r \\T \\E \\H \\n", "\\u0000"),
    *("<b>bold</b>", "<<b>html</b>>", "&amp;&#65;&lt;", "%", "#quot;#35;", "]]>", "<!--", "'"),
    *("`code` $math$ $$x^2$$ ${x} %%{init: {}}%%", "https://example.org/?a=b&c=d", "|pipe|"),
    *('=HYPERLINK("x")', "+1", "a,b;c", "{a|b}", "é ü ß 中文 \U0001f600", "e\u0301", "NA", "007"),
    *("__proto__", "_em_ **strong** a_b a-b a.b", "x" * 300, "ab c" * 75),
]


@task(outputs=["x"], estimate_fn=lambda cfg: 100)
def source():
    return {"x": list(range(50))}


@task(inputs=["x"], outputs=["y"], estimate_fn=lambda cfg: 200)
def sink(x):
    return {"y": sum(x)}


def names(min_size=1, max_size=None):
    """Lists of distinct names of tasks."""
    special = st.text(st.sampled_from("\"\\<>&;#|[](){}=+-@$`%'_ aN1."), min_size=1)
    one = st.one_of(special, st.text(min_size=1).filter(str.isprintable))
    return st.lists(
        one.filter(lambda name: "->" not in name), min_size=min_size, max_size=max_size, unique=True
    )


def profile_of(tasks, weights=None):
    """A profile of tasks in a chain."""
    edges = [EdgeMetrics(*pair, [], 1) for pair in zip(tasks, tasks[1:])]
    weights = weights or {name: 1 + i for i, name in enumerate(tasks)}
    return handmade(tasks, edges, weights=weights, total_ms=None, timestamp="2026-01-02T03:04:05Z")


def golden_profile():
    """The profile of the golden files: two rounds, of which the second has a failed task."""
    return Profile.load(EXPORTS / "profile.json")


def golden(name):
    """The text of a golden file."""
    with open(EXPORTS / name, encoding="utf-8", newline="") as file:
        return file.read()


def rendered(form, profile, **options):
    """What an exporter makes of a profile."""
    return exporter(form).render(profile, **options).text


def large_profile(count):
    """A profile of tasks that depend on up to two others each."""
    pick = random.Random(0)
    tasks = [f"t{i:06d}" for i in range(count)]
    pairs = {(pick.randrange(max(0, i - 99), i), i) for i in range(1, count) for _ in range(2)}
    edges = [EdgeMetrics(tasks[i], tasks[j], ["x"], 10, 12) for i, j in sorted(pairs)]
    wall_ms = {name: 0.25 + i / 1e3 for i, name in enumerate(tasks)}
    source = {"node_weight": "estimated_instructions", "estimated_instructions": 5}
    timeline = {
        "workers": [{"host": "h", "pid": 1, "thread": 2}],
        "columns": ["task", "round", "worker", *MOMENTS],
        "records": [[n, 0, 0, i, *(i + k / 8 for k in range(6))] for i, n in enumerate(tasks)],
    }
    return handmade(
        tasks,
        edges,
        times=[TaskMetrics(name, ms, 0.01, 0.01, 20, 10) for name, ms in wall_ms.items()],
        weights=dict.fromkeys(tasks, 5),
        total_ms=None,
        timestamp="2026-01-02T03:04:05Z",
        sections={
            "weight_sources": {n: {**source, "wall_time_ms": ms} for n, ms in wall_ms.items()},
            "timeline": timeline,
            "run": {"state": "complete"},
        },
    )
