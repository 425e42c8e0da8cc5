"""What tests make by hand: documents and profiles that no run has made, tasks, texts."""

import io
import json

from dagprofiler import Config, DAGMetrics, Profile, RunError, task


@task(outputs=["x"])
def source():
    return {"x": 1}


@task(inputs=["x"], outputs=["y"])
def sink(x):
    return {"y": x}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def edge_bytes(profile):
    """Return sizes and fields of each edge."""
    return {
        (one.source, one.target): (one.size_bytes, one.wire_bytes, one.data_fields)
        for one in profile.metrics.edge_metrics
    }


def failure(dag, executor=None, **options):
    """Return the error of a run that has to fail."""
    try:
        dag.run(executor=executor, **options)
    except RunError as error:
        return error
    raise AssertionError("it did not fail")


def strict(text):
    """Parse JSON and nothing that only Python takes for JSON."""

    def refused(word):
        raise ValueError(word)

    return json.loads(text, parse_constant=refused)


def paths(value, above=()):
    """Yield the path of everything inside a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*above, key)
        if isinstance(item, (dict, list)):
            yield from paths(item, (*above, key))


def structure_of(names, edges=()):
    """Return the section of a DAG whose tasks are in order, and whose edges are pairs."""
    edges = [{"source": source, "target": target} for source, target in edges]
    return {"nodes": [*names], "edges": edges, "execution_order": [*names]}


def handmade(names, carried=(), *, edges=None, times=(), weights=None, total_ms=1.0, **options):
    """Return a profile of tasks, with metrics of its edges unless these are `edges`, pairs."""
    pairs = [(one.source, one.target) for one in carried] if edges is None else edges
    weights = dict.fromkeys(names, 0) if weights is None else weights
    bits = {f"{one.source}->{one.target}": one.size_bits for one in carried}
    metrics = DAGMetrics([*times], [*carried], weights, bits, total_ms)
    return Profile(options.pop("config", Config()), structure_of(names, pairs), metrics, **options)
