"""A DAG of one task that feeds many, which feed one."""

from dagprofiler import DAG, task


@task(outputs=["rows", "labels"], estimate_fn=lambda cfg: 40)
def load():
    return {"rows": b"x" * 1000, "labels": [1]}


@task(inputs=["rows"], outputs=["part"], estimate_fn=lambda cfg: 10)
def part(rows):
    return {"part": len(rows)}


@task(inputs=["part"], outputs=["total"], gathers=["part"], estimate_fn=lambda cfg: 20)
def merge(part):
    return {"total": sum(part)}


@task(inputs=["rows"], outputs=["part"])
def fails(rows):
    raise ValueError("no luck")


def wide(width, *edges):
    parts = [f"part_{i}" for i in range(width)]
    joined = [edge for name in parts for edge in (("load", name), (name, "merge"))]
    return DAG({"load": load, **dict.fromkeys(parts, part), "merge": merge}, [*joined, *edges])
