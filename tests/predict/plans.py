"""Profiles with given times, without a run."""

from statistics import median

from handmade import handmade

from dagprofiler import Config, EdgeMetrics, Profile, TaskMetrics


def profile_of(
    times_ms,
    edges=(),
    *,
    wire=0,
    rounds=(),
    cpu=None,
    delay=None,
    total_ms=None,
    sections=None,
    config=None,
):
    """Return a profile of tasks with these times, whose edges carry `wire` bytes.

    With `rounds`, each a factor on the times, it has samples.
    """
    sections = {**(sections or {})}
    if rounds:
        tasks = {name: {"wall_ms": [ms * one for one in rounds]} for name, ms in times_ms.items()}
        sections["samples"] = {"rounds": ["measured"] * len(rounds), "tasks": tasks}
        for name, columns in tasks.items():
            if cpu is not None:
                columns["cpu_ms"] = [ms * cpu for ms in columns["wall_ms"]]
            if delay is not None:
                columns["delay_ms"] = [times_ms[name] * delay] * len(rounds)
    middle = float(median(rounds or [1.0]))
    profile = handmade(
        [*times_ms],
        [EdgeMetrics(*edge, ["x"], wire, wire) for edge in edges],
        times=[TaskMetrics(name, ms * middle, 0.0, 0.0, 0, wire) for name, ms in times_ms.items()],
        total_ms=total_ms,
        config=Config(**config or {}),
        hostname="here",
        sections=sections,
    )
    return Profile.loads(profile.dumps())
