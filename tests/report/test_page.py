import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from sample_profiles import HOSTILE

from dagprofiler.report import _SCRIPTS, block, page

BREAKING_OUT = [
    *("</script><script>alert(1)</script>", "<!--<script>", "-->", "]]>", "</SCRIPT >"),
    *("\u2028\u2029", "${policy} $$ $data", "&lt;/script&gt;", *HOSTILE),
]


class Elements(HTMLParser):
    """The elements of a page, with the text of those that hold no others."""

    def __init__(self, text):
        super().__init__()
        self.found, self.inside = [], False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.inside = True
        self.found.append((tag, dict(attrs), []))

    def handle_data(self, data):
        if self.inside:
            self.found[-1][2].append(data)

    def handle_endtag(self, tag):
        self.inside = False

    def of(self, tag):
        return [(attributes, "".join(text)) for name, attributes, text in self.found if name == tag]


EMPTY = Elements(page({}))


@pytest.mark.parametrize("text", BREAKING_OUT)
def test_no_text_ends_its_script_element(text):
    data = {"names": [text], text: text}
    made = Elements(page(data))
    ((_, found),) = [one for one in made.of("script") if one[0].get("id") == "data"]
    assert json.loads(found) == data
    assert [tag for tag, *_ in made.found] == [tag for tag, *_ in EMPTY.found]


def test_the_policy_lets_in_only_our_script_and_style():
    ((meta, _),) = [one for one in EMPTY.of("meta") if "http-equiv" in one[0]]
    policy = dict(part.split(" ", 1) for part in meta["content"].split("; "))
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    ((_, style),) = EMPTY.of("style")
    (_, (_, script)) = EMPTY.of("script")
    for kind, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[kind] == f"'sha256-{digest}'"


def test_the_page_points_nowhere_and_makes_no_markup_of_texts():
    for _, attributes, _ in EMPTY.found:
        assert not {"src", "srcset", "action"} & attributes.keys()
        assert attributes.get("href", "#").startswith("#")
    assert EMPTY.of("link") == []
    assert set(re.findall(r"https?://[^\s\"']+", page({}))) == {"http://www.w3.org/2000/svg"}
    words = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(")
    assert [word for word in words if word in page({})] == []


def test_the_page_holds_all_assets_and_json():
    folder = files("dagprofiler.report").joinpath("assets")
    names = {entry.name for entry in folder.iterdir()}
    assert names == {*_SCRIPTS, "report.css", "report.html"}
    text = page({})
    for name in names - {"report.html"}:
        assert folder.joinpath(name).read_text(encoding="utf-8") in text
    assert len(page({})) < 150_000
    with pytest.raises(ValueError, match="JSON"):
        block({"value": float("nan")})
