"""Times for a scheduler: an access log's slow pages, measured as in a parallel run.

    python measured_weights.py [PROFILE.json]

write -> parse -> by_page -> report, where report also takes the hosts from
parse -> by_host. Each round is taken in a new process while another core is
busy, as it would be where tasks run in parallel; the weights go with their
unit and where they come from. Then the question that such a profile can't
answer alone: is one of two parsers really faster, and is all else the same?
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter, defaultdict
from statistics import median
from typing import Any

from dagprofiler import DAG, Config, Rounds, compare_runs, rng, task

LINE = re.compile(r"(?P<host>\S+) GET (?P<page>\S+) (?P<ms>\d+)")

Request = tuple[str, str, int]


@task(outputs=["lines"], config_deps=["requests"])
def write(cfg: Config) -> dict[str, Any]:
    """Make a log: host, page and milliseconds of each request."""
    draw = rng()
    hosts = draw.integers(250, size=cfg.requests).tolist()
    pages = draw.zipf(1.5, cfg.requests).tolist()
    times_ms = draw.exponential(40, cfg.requests).astype(int).tolist()
    return {
        "lines": [
            f"10.0.0.{host} GET /page/{page % 100} {ms}"
            for host, page, ms in zip(hosts, pages, times_ms)
        ]
    }


@task(inputs=["lines"], outputs=["requests"], config_deps=["parser"])
def parse(lines: list[str], cfg: Config) -> dict[str, Any]:
    """Take the log apart, by a regular expression or by splitting at spaces."""
    requests: list[Request] = []
    if cfg.parser == "regex":
        for line in lines:
            found = LINE.fullmatch(line)
            if found:
                requests.append((found["host"], found["page"], int(found["ms"])))
    else:
        for line in lines:
            host, _, page, ms = line.split(" ")
            requests.append((host, page, int(ms)))
    return {"requests": requests}


@task(inputs=["requests"], outputs=["slow_pages"])
def by_page(requests: list[Request]) -> dict[str, Any]:
    """Name the five pages with the longest median time."""
    times_ms = defaultdict(list)
    for _, page, ms in requests:
        times_ms[page].append(ms)
    medians = sorted(((median(times), page) for page, times in times_ms.items()), reverse=True)
    return {"slow_pages": medians[:5]}


@task(inputs=["requests"], outputs=["busy_hosts"])
def by_host(requests: list[Request]) -> dict[str, Any]:
    """Name the five hosts that ask most."""
    return {"busy_hosts": Counter(host for host, _, _ in requests).most_common(5)}


@task(inputs=["slow_pages", "busy_hosts"], outputs=["report"])
def report(
    slow_pages: list[tuple[float, str]], busy_hosts: list[tuple[str, int]]
) -> dict[str, Any]:
    """Say both in one line each."""
    return {
        "report": [
            "slow: " + ", ".join(f"{page} ({ms:g} ms)" for ms, page in slow_pages),
            "busy: " + ", ".join(f"{host} ({count})" for host, count in busy_hosts),
        ]
    }


def build_dag(requests: int = 6_000, parser: str = "regex") -> DAG:
    """Return the analysis of a log of so many requests, by the parser ``regex`` or ``split``."""
    return DAG(
        tasks={
            "write": write,
            "parse": parse,
            "by_page": by_page,
            "by_host": by_host,
            "report": report,
        },
        edges=[
            ("write", "parse"),
            ("parse", "by_page"),
            ("parse", "by_host"),
            ("by_page", "report"),
            ("by_host", "report"),
        ],
        config=Config(requests=requests, parser=parser),
    )


def other_cores() -> int:
    """Return how many cores this process may use beside its own."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) - 1
    return (os.cpu_count() or 1) - 1


def main() -> None:
    """Measure, save and print the profile and its weights; then compare the parsers."""
    path = sys.argv[1] if len(sys.argv) > 1 else "measured_weights_profile.json"

    dag = build_dag()
    conditions = Rounds(6, fresh_process=True, busy_cores=min(1, other_cores()))
    profile = dag.run(seed=42, rounds=conditions)
    profile.save(path)
    print(profile)

    weights = profile.weights("reference_time")
    print(f"\nweights in {weights.unit} ({weights.provenance}):")
    for name, weight in weights.values.items():
        print(f"  {name:8} {weight:8.3f}")

    print("\nthe parser 'regex' (new) against 'split' (base):")
    print(compare_runs(build_dag(parser="split"), dag, rounds=12, seed=42))
    print(f"\nprofile: {path}")


# Each of the new processes imports this file: without the guard it would measure, too.
if __name__ == "__main__":
    main()
