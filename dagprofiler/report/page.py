"""The page: data, style and script in one file of HTML that asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from dagprofiler.rendering import plain_number

__all__ = ["page"]

#: The script's files, in the order in which they stand in the page.
_SCRIPTS = (
    "base.js",
    "table.js",
    "overview.js",
    "comparison.js",
    "graph.js",
    "panel.js",
    "timeline.js",
    "samples.js",
    "lists.js",
    "main.js",
)

#: In JSON these can stand only inside of a string, where an escape means the same. Without them
#: no text can end the element that it stands in, or begin another.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def page(data: dict[str, Any]) -> str:
    """Return the page that shows `data`, which is the same text for the same data.

    Notes
    -----
    All that comes from a profile is in one block of JSON in ASCII, which no browser executes, and
    the script makes text nodes of it. The Content-Security-Policy lets this script and this style
    in by their hashes, and nothing else from anywhere.
    """
    template, style, script = _assets()
    return template.substitute(
        policy=(
            f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
            "base-uri 'none'; form-action 'none'"
        ),
        style=style,
        script=script,
        data=block(data),
    )


def block(data: dict[str, Any]) -> str:
    r"""Return `data` as JSON that can stand in a script element.

    Examples
    --------
    >>> block({"</script>": 1})
    '{"\\u003c/script\\u003e":1}'
    """
    text = json.dumps(
        data, ensure_ascii=True, allow_nan=False, default=plain_number, separators=(",", ":")
    )
    return text.translate(_ESCAPES)


@cache
def _assets() -> tuple[Template, str, str]:
    folder = files("dagprofiler.report").joinpath("assets")

    def text(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8")

    scripts = "".join(map(text, _SCRIPTS))
    return Template(text("report.html")), text("report.css"), f'"use strict";\n{scripts}'


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
