"""Graphs that grow while they run: the examples that Adage describes.

    python growing_graphs.py

Files are processed as they are found; PDFs are merged when no more can come; one of two
branches is taken; a recursion unrolls; producers add what a merge waits for.
"""

# ruff: noqa: D103

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagprofiler import DAG, Rule, map_over, reduce, rule, task
from dagprofiler.rules import after, complete, when_output

if TYPE_CHECKING:
    from dagprofiler.rules import GraphEditor

# A list of files, one task for each, and a merge.


@task(outputs=["files"])
def download(cfg: Any) -> dict[str, Any]:
    return {"files": [f"file {number}" for number in range(cfg.files)]}


@task(inputs=["file"], outputs=["words"])
def process(file: str) -> dict[str, Any]:
    return {"words": file.split()}


@task(gathers=["words"], outputs=["text"])
def merge(words: list[list[str]]) -> dict[str, Any]:
    return {"text": " ".join(word for some in words for word in some)}


def files(count: int = 3) -> DAG:
    """Return a DAG of one task, that gets as many as there are files, and a merge."""
    return DAG(
        {"download": download},
        config={"files": count},
        rules=[map_over("download", "files", process), reduce("process", merge)],
    )


# PDFs, made here and there, merged when no more of them can come.


@task(outputs=["page"])
def title() -> dict[str, Any]:
    return {"page": "title"}


@task(inputs=["chapter"], outputs=["page"])
def typeset(chapter: str) -> dict[str, Any]:
    return {"page": f"page on {chapter}"}


@task(outputs=["chapters"])
def outline() -> dict[str, Any]:
    return {"chapters": ["rules", "graphs"]}


@task(gathers=["page"], outputs=["book"])
def bind(page: list[str]) -> dict[str, Any]:
    return {"book": page}


def book() -> DAG:
    """Return a DAG in which two rules make PDFs, and a third knows neither of them."""

    @rule(after("outline"), adds=["pdf"])
    def typeset_chapters(graph: GraphEditor) -> None:
        graph.map("outline", "chapters", typeset, "chapter", tags=["pdf"])

    @rule(after("outline"), adds=["pdf"])
    def add_title(graph: GraphEditor) -> None:
        graph.add_task("a title", title, tags=["pdf"])

    return DAG({"outline": outline}, rules=[reduce("pdf", bind), typeset_chapters, add_title])


# If and else.


@task(outputs=["quality"])
def check(cfg: Any) -> dict[str, Any]:
    return {"quality": cfg.quality}


@task(outputs=["done"])
def publish(quality: float) -> dict[str, Any]:
    return {"done": f"published with {quality}"}


@task(outputs=["done"])
def repair(quality: float) -> dict[str, Any]:
    return {"done": f"repaired, as {quality} is too little"}


def branches(quality: float) -> DAG:
    """Return a DAG that gets one of two tasks."""

    @rule(when_output("check", "quality", lambda value: value >= 0.5))
    def good(graph: GraphEditor) -> None:
        graph.add_task("publish", publish, after="check")

    @rule(when_output("check", "quality", lambda value: value < 0.5))
    def bad(graph: GraphEditor) -> None:
        graph.add_task("repair", repair, after="check")

    return DAG({"check": check}, config={"quality": quality}, rules=[good, bad])


# A recursion.


@task(outputs=["n"])
def start(cfg: Any) -> dict[str, Any]:
    return {"n": cfg.n}


@task(outputs=["n"])
def collatz(n: int) -> dict[str, Any]:
    return {"n": 3 * n + 1 if n % 2 else n // 2}


def unroll(last: str, number: int) -> Rule:
    """Return a rule that adds a step behind the last one, and itself behind that, down to 1."""

    def body(graph: GraphEditor) -> None:
        if graph[last].output("n") != 1:
            step = graph.add_task(f"step {number}", collatz, after=last)
            graph.add_rule(unroll(step, number + 1))

    return Rule(after(last), body, name="unroll")


def recursion(n: int = 6) -> DAG:
    """Return a DAG of one task, that gets one for each step of Collatz's sequence."""
    return DAG({"start": start}, config={"n": n}, rules=[unroll("start", 1)])


# A late merge.


@task(outputs=["count"])
def two() -> dict[str, Any]:
    return {"count": 2}


@task(outputs=["count"])
def one() -> dict[str, Any]:
    return {"count": 1}


@task(outputs=["count"])
def made(count: int) -> dict[str, Any]:
    return {"count": 10 * count}


@task(gathers=["count"], outputs=["total"])
def total(count: list[int]) -> dict[str, Any]:
    return {"total": sum(count)}


def late_merge() -> DAG:
    """Return a DAG of producers, of which each adds as many tasks as it says."""

    def produce(name: str) -> Rule:
        def body(graph: GraphEditor) -> None:
            for number in range(graph[name].output("count")):
                graph.add_task(f"{name}[{number}]", made, after=name, tags=["made"])

        return Rule(after(name), body, name=f"produce {name}", adds=["made"])

    @rule(complete("made"), reads=["fixed"])
    def merge_all(graph: GraphEditor) -> None:
        graph.add_task("merge", total, after=["fixed", *graph.tasks("made")])

    return DAG(
        {"one": one, "two": two, "fixed": one},
        rules=[merge_all, produce("one"), produce("two")],
    )


def main() -> None:
    """Run all of them."""
    for dag in (files(), book(), branches(0.7), branches(0.3), recursion(), late_merge()):
        profile = dag.run()
        print(*profile.dag_structure["nodes"], sep=", ")
        print(profile.final_outputs)
        fired = [entry["rule"] for entry in profile.sections["origins"]["fired"]]
        print(f"rules that fired: {', '.join(fired)}\n")


if __name__ == "__main__":
    main()
