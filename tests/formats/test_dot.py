from __future__ import annotations

import re

from hypothesis import example, given
from sample_profiles import HOSTILE, golden_profile, names, profile_of, rendered

#: One quoted string of the language, or a character outside of any.
TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([^"])', re.DOTALL)


def outside(text):
    """What stands outside of quotes; every string is one token there."""
    found = TOKEN.sub(lambda m: "S" if m[1] is not None else m[0], text)
    assert '"' not in found
    return found


@given(names(max_size=6))
@example(HOSTILE)
def test_no_name_breaks_out_of_its_quotes(tasks):
    plain = profile_of([f"t{i}" for i in range(len(tasks))])
    assert outside(rendered("dot", profile_of(tasks))) == outside(rendered("dot", plain))


def test_escapes_and_entities_in_names_mean_nothing():
    text = rendered("dot", profile_of(["\\N\n&lt;"]))
    assert 'label="\\\\N\\n&amp;lt;\\n1 instructions"' in text


def test_the_text_says_where_the_weights_come_from():
    text = " ".join(rendered("dot", golden_profile(), cost="wall_time").replace("\\n", " ").split())
    assert "weights: wall_time in ms (wall time, median of 2 measured rounds" in text
    assert "no weights:" in rendered("dot", golden_profile(), cost="counted")


def test_the_dearest_task_is_darkest_and_the_largest_edge_widest():
    text = rendered("dot", profile_of(["a", "b"], {"a": 1, "b": 1000}))
    assert 'fillcolor="#f7fbff", penwidth="1"' in text
    assert 'fillcolor="#6baed6", penwidth="3"' in text
    assert 'label="8 bit", penwidth="5"' in text
