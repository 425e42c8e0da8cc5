"""Word counts over the Python standard library's own source files, in a graph that grows.

    python word_counts.py [PROFILE.json]

One task finds the packages, one for each of them counts the words of its sources, one for
each first letter merges the counts, and one adds all of them up. How many packages and
letters there are is known only once the program runs.
"""

# ruff: noqa: D102, D103

from __future__ import annotations

import re
import sys
import sysconfig
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagprofiler import DAG, Task, map_over, reduce, rule, task
from dagprofiler.rules import all_succeeded

if TYPE_CHECKING:
    from dagprofiler.rules import GraphEditor

WORD = re.compile(r"[a-z]{2,}")


@task(outputs=["packages"])
def find_packages(cfg: Any) -> dict[str, Any]:
    """Find the packages, which are folders with an ``__init__.py``."""
    found = Path(cfg.folder).glob("*/__init__.py")
    return {"packages": sorted(str(file.parent) for file in found)[: cfg.max_packages]}


@task(inputs=["package"], outputs=["counts"])
def count_words(package: str) -> dict[str, Any]:
    """Count the words of a package's sources, in lower case, by first letter."""
    counts: dict[str, Counter[str]] = {}
    for file in sorted(Path(package).glob("*.py")):
        for word in WORD.findall(file.read_text(encoding="utf-8", errors="replace").lower()):
            counts.setdefault(word[0], Counter())[word] += 1
    return {"counts": counts}


class MergeLetter(Task):
    """Adds up what all packages have of one letter."""

    inputs = ["counts"]
    gathers = ["counts"]
    outputs = ["words", "letter"]

    def __init__(self, letter: str) -> None:
        super().__init__()
        self.letter = letter

    def compute(self, counts: list[dict[str, Counter[str]]]) -> dict[str, Any]:
        merged = sum((some.get(self.letter, Counter()) for some in counts), Counter())
        return {"words": sum(merged.values()), "letter": (self.letter, merged.most_common(1)[0])}


@task(inputs=["words", "letter"], gathers=["words", "letter"], outputs=["total", "most"])
def add_up(words: list[int], letter: list[Any]) -> dict[str, Any]:
    return {"total": sum(words), "most": dict(letter)}


@rule(all_succeeded("count"), adds=["letter"])
def merge_letters(graph: GraphEditor) -> None:
    """Add one merge for each letter that a word begins with."""
    counted = graph.tasks("count")
    letters = set().union(*(words.output("counts") for words in counted))
    for letter in sorted(letters):
        graph.add_task(f"letter {letter}", MergeLetter(letter), after=counted, tags=["letter"])


def build_dag(folder: str | None = None, max_packages: int = 12) -> DAG:
    """Return the DAG, which begins with one task."""
    return DAG(
        {"find_packages": find_packages},
        config={"folder": folder or sysconfig.get_path("stdlib"), "max_packages": max_packages},
        rules=[
            map_over("find_packages", "packages", count_words, name="count"),
            merge_letters,
            reduce("letter", add_up),
        ],
        name="word counts",
    )


def main() -> None:
    """Run it, save the profile, and print the profile and the most frequent words."""
    path = sys.argv[1] if len(sys.argv) > 1 else "word_counts_profile.json"

    profile = build_dag().run()
    profile.save(path)

    print(profile)
    most = profile.final_outputs["most"]
    for letter, (word, number) in sorted(most.items()):
        print(f"{letter}: {word}, {number} times")
    print(f"\nprofile: {path}")


if __name__ == "__main__":
    main()
