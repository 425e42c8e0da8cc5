import re

from hypothesis import example, given
from sample_profiles import HOSTILE, names, profile_of, rendered

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
