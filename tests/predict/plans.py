"""Profiles with given times, without a run."""

from statistics import median

from dagprofiler import Config, DAGMetrics, EdgeMetrics, Profile, TaskMetrics


def profile_of(
    times_ms, edges=(), *, wire=0, rounds=(), cpu=None, delay=None, sections=None, config=None
):
    """Return a profile of tasks with these times, whose edges carry `wire` bytes.

    With `rounds`, each a factor on the times, it has samples.
    """
    names, middle = [*times_ms], float(median(rounds or [1.0]))
    structure = {
        "nodes": names,
        "edges": [{"source": a, "target": b} for a, b in edges],
        "execution_order": names,
    }
    metrics = DAGMetrics(
        [TaskMetrics(name, ms * middle, 0.0, 0.0, 0, wire) for name, ms in times_ms.items()],
        [EdgeMetrics(a, b, ["x"], wire, wire) for a, b in edges],
        dict.fromkeys(names, 0),
        {f"{a}->{b}": 8 * wire for a, b in edges},
        None,
    )
    sections = {**(sections or {})}
    if rounds:
        columns = {"wall_ms": 1.0, "cpu_ms": cpu}
        tasks = {
            name: {
                column: [ms * factor * share for factor in rounds]
                for column, share in columns.items()
                if share is not None
            }
            for name, ms in times_ms.items()
        }
        for name, ms in times_ms.items() if delay is not None else ():
            tasks[name]["delay_ms"] = [ms * delay] * len(rounds)
        sections["samples"] = {"rounds": ["measured"] * len(rounds), "tasks": tasks}
    profile = Profile(
        Config(**config or {}), structure, metrics, hostname="here", sections=sections
    )
    return Profile.loads(profile.dumps())
