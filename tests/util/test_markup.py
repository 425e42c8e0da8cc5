from html.parser import HTMLParser

import pytest
from sample_profiles import large_profile, profile_of

from dagprofiler import DAG, Rounds, analyze, compare_runs, task

#: Without a collection of garbage before each, in a process that has a lot of it.
ROUNDS = Rounds(7, warmup=0, collect_garbage=None)


class Page(HTMLParser):
    """What is in a page: its elements, attributes and text; elements must be closed."""

    def __init__(self, markup):
        super().__init__()
        self.elements, self.attributes, self.words, self.open = [], [], "", []
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


@task(outputs=["x"], estimate_fn=lambda cfg: 1000)
def source(cfg):
    return {"x": list(range(cfg.get("n", 10)))}


@task(inputs=["x"], outputs=["y"])
def sink(x):
    return {"y": sum(x)}


def dag_of(names=("source", "sink"), **config):
    first, second = names
    return DAG({first: source, second: sink}, [(first, second)], config)


MAKERS = {
    "DAG": lambda dag, other: dag,
    "Drawing": lambda dag, other: dag.draw(),
    "Profile": lambda dag, other: dag.run(rounds=ROUNDS, meters="wall"),
    "ProfileComparison": lambda dag, other: dag.run(rounds=ROUNDS).compare(
        other.run(rounds=ROUNDS)
    ),
    "RunComparison": lambda dag, other: compare_runs(dag, other, rounds=ROUNDS),
    "Analysis": lambda dag, other: analyze(dag.run(), cost="wall_time"),
}


def shown(kind, names=("source", "sink")):
    """An object of a kind that shows itself."""
    return MAKERS[kind](dag_of(names), dag_of(names, n=100_000))


@pytest.fixture(scope="module")
def objects():
    return {kind: shown(kind) for kind in MAKERS}


@pytest.mark.parametrize("kind", MAKERS)
def test_notebooks_get_small_static_html(kind, objects):
    bundle = objects[kind]._repr_mimebundle_(include=None, exclude=None)
    markup = objects[kind]._repr_html_()
    assert {"text/plain": str(objects[kind]), "text/html": markup}.items() <= bundle.items()
    assert len(markup) < 20_000
    page = Page(markup)
    assert not {"script", "link", "img", "iframe", "object", "input"}.intersection(page.elements)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert not [name for name, _ in page.attributes if name in ("src", "href", "id")]
    assert "source" in page.words


@pytest.mark.parametrize("kind", ["DAG", "Profile", "RunComparison", "Analysis"])
def test_names_are_text_whatever_they_hold(kind):
    hostile = "<script>alert(1)</script>\"'&", "</style><b onclick=x>"
    markup = shown(kind, hostile)._repr_html_()
    page = Page(markup)
    assert "script" not in page.elements
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in page.words or kind in ("DAG", "Drawing")


def test_large_profiles_show_the_costliest_tasks():
    markup = large_profile(3000)._repr_html_()
    words = Page(markup).words
    assert len(markup) < 60_000
    for expected in ("3,000 tasks", "groups", "… and 2,980 more tasks", "t002999"):
        assert expected in words
    assert "t001500" not in words


def test_a_huge_one_shows_words_alone():
    names = [f"t{i}" for i in range(50_001)]
    assert "svg" not in Page(profile_of(names)._repr_html_()).elements
    page = Page(DAG(dict.fromkeys(names, source))._repr_html_())
    assert page.words.endswith("<DAG: 50,001 tasks, 0 edges>")
