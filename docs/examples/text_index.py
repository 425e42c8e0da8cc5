"""A text index over the Python standard library's own source files.

    python text_index.py [PROFILE.json]

read -> tokenize -> count -> tfidf -> rank, where rank also takes the paths
straight from read. The documents are the sources of the interpreter that runs
this file; the answer is the files that fit a query best.
"""

# ruff: noqa: D102

from __future__ import annotations

import re
import sys
import sysconfig
from collections import Counter
from math import log, log2, sqrt
from pathlib import Path
from tokenize import open as open_source
from typing import Any

from dagprofiler import DAG, Config, Task, task

#: Packages of the standard library that are read beside its top-level modules.
PACKAGES = ("asyncio", "concurrent", "email", "http", "json", "logging", "multiprocessing", "xml")

#: A word of a text, or one part of an identifier: "parseHTTPHeader" has three,
#: "HTTP_header2" has two. Digits and underscores only separate.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

#: What the cost models assume, as measured on CPython 3.11: a mean source file.
CHARACTERS_PER_FILE = 22_000
WORDS_PER_FILE = 2_600


def words(text: str) -> list[str]:
    """Return the words of `text` in lower case, in order; single letters are left out.

    Examples
    --------
    >>> words("class JSONDecoder: raw_decode(self, s)")
    ['class', 'json', 'decoder', 'raw', 'decode', 'self']
    """
    return [word.lower() for word in WORD.findall(text) if len(word) > 1]


def source_files(folder: Path, max_files: int) -> list[Path]:
    """Return the first `max_files` sources below `folder`, sorted by their paths."""
    files = [*folder.glob("*.py")]
    for package in PACKAGES:
        files += (folder / package).rglob("*.py")
    return sorted(files, key=lambda file: file.relative_to(folder).as_posix())[:max_files]


def read_source(file: Path) -> str:
    """Return the text of `file`, decoded as its own coding cookie says.

    Bytes that are no text in that encoding become replacement characters.
    """
    try:
        with open_source(file) as stream:
            return stream.read()
    except (SyntaxError, UnicodeDecodeError):
        return file.read_text(encoding="utf-8", errors="replace")


class Read(Task):
    """Read the sources: one text and one path, relative to the library, a document."""

    inputs = []
    outputs = ["texts", "paths"]
    config_deps = ["max_files"]

    def compute(self, cfg: Config) -> dict[str, Any]:
        folder = Path(sysconfig.get_paths()["stdlib"])
        files = source_files(folder, cfg.max_files)
        if not files:
            raise FileNotFoundError(f"no Python sources in {str(folder)!r}")
        return {
            "texts": [read_source(file) for file in files],
            "paths": [file.relative_to(folder).as_posix() for file in files],
        }

    @staticmethod
    def estimate_instructions(cfg: Config) -> int:
        return cfg.max_files * CHARACTERS_PER_FILE


class Tokenize(Task):
    """Split every text into words: the regular expression looks at each character."""

    inputs = ["texts"]
    outputs = ["tokens"]
    config_deps = ["max_files"]

    def compute(self, texts: list[str]) -> dict[str, Any]:
        return {"tokens": [words(text) for text in texts]}

    @staticmethod
    def estimate_instructions(cfg: Config) -> int:
        return cfg.max_files * CHARACTERS_PER_FILE * 10


class Count(Task):
    """Count each document's words, and the documents that each word occurs in."""

    inputs = ["tokens"]
    outputs = ["counts", "document_frequency"]
    config_deps = ["max_files"]

    def compute(self, tokens: list[list[str]]) -> dict[str, Any]:
        counts = [dict(Counter(document)) for document in tokens]
        document_frequency = Counter(word for document in counts for word in document)
        return {"counts": counts, "document_frequency": dict(document_frequency)}

    @staticmethod
    def estimate_instructions(cfg: Config) -> int:
        return cfg.max_files * WORDS_PER_FILE * 50


@task(inputs=["counts", "document_frequency"], outputs=["weights"])
def tfidf(counts: list[dict[str, int]], document_frequency: dict[str, int]) -> dict[str, Any]:
    """Weigh the words of each document; every document becomes a vector of length 1.

    A word t that occurs tf times in a document d, and in df of all N documents,
    weighs (1 + log tf) * log(N / df), divided by the length of d's vector: the
    scheme "ltc" of Manning, Raghavan and Schütze, Introduction to Information
    Retrieval, Cambridge University Press 2008, section 6.4. The second factor is
    the inverse document frequency of Spärck Jones, J. Documentation 28(1), 1972.

    The task has no cost model: its work is the number of distinct words, which
    nobody knows before they are counted.
    """
    n = len(counts)
    idf = {word: log(n / df) for word, df in document_frequency.items()}
    weights = []
    for document in counts:
        vector = {word: (1 + log(tf)) * idf[word] for word, tf in document.items()}
        # A word of every document weighs 0; a vector of such words alone stays 0.
        length = sqrt(sum(weight * weight for weight in vector.values())) or 1.0
        weights.append({word: weight / length for word, weight in vector.items()})
    return {"weights": weights}


class Rank(Task):
    """Rank the documents by the cosine of the angle between them and the query.

    The words of the query all weigh the same; only documents that share a word
    of some weight with it are ranked, ties in the order of their paths.
    """

    inputs = ["weights", "paths"]
    outputs = ["ranking"]
    config_deps = ["max_files", "query"]

    def compute(
        self, weights: list[dict[str, float]], paths: list[str], cfg: Config
    ) -> dict[str, Any]:
        query = sorted(set(words(cfg.query)))
        scores = [
            sum(vector.get(word, 0.0) for word in query) / sqrt(len(query) or 1)
            for vector in weights
        ]
        found = [(path, score) for path, score in zip(paths, scores) if score > 0]
        found.sort(key=lambda hit: (-hit[1], hit[0]))
        return {"ranking": found[: cfg.top]}

    @staticmethod
    def estimate_instructions(cfg: Config) -> float:
        # A look-up for each word of the query in each document, then the sort.
        n = cfg.max_files
        return n * len(words(cfg.query)) * 50 + n * log2(n + 1) * 10


def build_dag(max_files: int = 300, query: str = "decode a json string", top: int = 10) -> DAG:
    """Return the pipeline.

    Parameters
    ----------
    max_files
        How many source files to read at most, from the first in the sorted order.
    query
        The words to look for.
    top
        How many files to name at most.
    """
    return DAG(
        tasks={
            "read": Read(),
            "tokenize": Tokenize(),
            "count": Count(),
            "tfidf": tfidf(),
            "rank": Rank(),
        },
        edges=[
            ("read", "tokenize"),
            ("tokenize", "count"),
            ("count", "tfidf"),
            ("tfidf", "rank"),
            ("read", "rank"),
        ],
        config=Config(max_files=max_files, query=query, top=top),
        name="text index",
    )


def main() -> None:
    """Run the pipeline, save its profile, and print the profile and the ranking."""
    path = sys.argv[1] if len(sys.argv) > 1 else "text_index_profile.json"

    dag = build_dag()
    profile = dag.run()
    profile.save(path)

    print(profile)
    print(f"\nfiles that fit {dag.config.query!r} best:")
    for file, score in profile.final_outputs["ranking"]:
        print(f"  {score:.3f}  {file}")
    print(f"\nprofile: {path}")


if __name__ == "__main__":
    main()
