import html
import re

from hypothesis import example, given
from sample_profiles import HOSTILE, golden_profile, names, profile_of, rendered

from dagprofiler.formats import exporter
from dagprofiler.formats._graph import legible_names

NODE = re.compile(r'    t(\d+)\["([^"\n]*)<br/>[^<"]*"\]')


def labels(text):
    """The labels of the nodes, decoded as Mermaid and a browser do."""
    found = [NODE.fullmatch(line) for line in text.split("\n") if '["' in line]
    return [html.unescape(re.sub(r"#(\d+);", r"&#\1;", one[2])) for one in found]


@given(names(max_size=6))
@example(HOSTILE)
def test_names_come_back_or_are_mapped(tasks):
    text = rendered("mermaid", profile_of(tasks))
    assert list(map(plain, labels(text))) == list(map(plain, legible_names(tasks).values()))
    simple = rendered("mermaid", profile_of([f"t{i}" for i in range(len(tasks))]))
    assert text.count("\n") == simple.count("\n")


def plain(text):
    # html.unescape replaces references to what HTML forbids; browsers and Mermaid do not come
    # into it, as these characters are not what this is about.
    return re.sub("[\r\ufdd0-\ufdef]|[^\x00-\uffff]", "", text)


def test_in_a_label_there_is_nothing_that_means_something():
    for line in rendered("mermaid", profile_of(HOSTILE)).split("\n"):
        if '["' in line:
            inside = NODE.fullmatch(line)[2]
            assert not re.search(r"[^\w .#;-]", inside)
            assert not re.search("[\ufb02\xdf]", inside)
            assert not re.search(r"#(?!\d+;)", inside)


def test_simple_names_stay_legible_and_the_comment_is_one_line_and_no_directive():
    text = rendered("mermaid", profile_of(["load_data-2.1 é 中文"]))
    assert '["load_data-2.1 é 中文<br/>1 instructions"]' in text
    profile = golden_profile()
    profile.hostname = "x\n%%{init: {}}%%\u2028click t0 href\r"
    lines = rendered("mermaid", profile, cost="wall_time").split("\n")
    assert lines[1].startswith("    %% weights: wall_time in ms (wall time")
    assert not set("{}%\u2028\r") & set(lines[1].replace("%%", "", 1))
    assert lines[2].startswith("    t0[")
    losses = exporter("mermaid").render(golden_profile()).losses
    assert any("a picture" in loss for loss in losses)
