"""Check what is exported with SAGA itself; run by ``test_saga_schedules.py`` in its interpreter.

    python check_saga.py FOLDER

Runs every example of the documentation, which leaves its profile in FOLDER, exports it, and
loads and schedules it as users of SAGA would.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from handmade import handmade
from saga import Network, TaskGraph, schedulers
from saga.schedulers import HeftScheduler, SMTScheduler
from saga.schedulers.data import ProblemInstance
from saga.schedulers.stochastic import EstimateStochasticScheduler
from saga.stochastic import StochasticNetwork, StochasticTaskGraph

from dagprofiler import DAG, EdgeMetrics, Profile, Rounds, task
from dagprofiler.formats.saga import to_network, to_task_graph

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"
#: The programs there that write the profile of a DAG that is known before it runs.
PROGRAMS = ["measured_weights", "quickstart", "slice_scheduler", "text_index"]

SCHEDULERS = [
    getattr(schedulers, f"{name}Scheduler")
    for name in ["Heft", "Cpop", "PEFT", "MinMin", "MaxMin", "MCT", "Sufferage", "Duplex", "Hbmct"]
]

TWO = {"speeds": {"slow": 1, "fast": 2}, "bandwidth": 1e6}

#: Surrogates, quotes, line breaks and the longest: what a name can be.
NAMES = ['a "b"\'', "Grüße $x", "中", "x" * 300, '"}],"<&>']


def profile_of(costs, sizes):
    """Return a profile of tasks with costs and edges with sizes in bytes, as loaded from a file."""
    edges = [EdgeMetrics(a, b, [], size) for (a, b), size in sizes.items()]
    return Profile.loads(handmade(costs, edges, weights=costs, hostname="lab-7").dumps())


def load(profile, folder, **options):
    """Export and load as SAGA loads."""
    path = folder / "instance.saga.json"
    profile.export(path, **options)
    return ProblemInstance.model_validate_json(path.read_text())


def placed(schedule):
    return {one.name: one for tasks in schedule.mapping.values() for one in tasks}


def check_schedules(instance):
    """All schedulers place every task, none before what it depends on."""
    graph = instance.task_graph
    for scheduler in SCHEDULERS:
        schedule = scheduler().schedule(instance.network, graph)
        tasks = placed(schedule)
        assert set(tasks) == {one.name for one in graph.tasks}, scheduler
        for edge in graph.dependencies:
            assert tasks[edge.target].start >= tasks[edge.source].end - 1e-9, scheduler
        assert schedule.makespan > 0, scheduler


def check_examples(folder):
    for name in PROGRAMS:
        example = EXAMPLES / f"{name}.py"
        path = folder / f"{name}.json"
        command = [sys.executable, str(example), str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        profile = Profile.load(path)
        instance = load(profile, folder, cost="wall_time", network=TWO)
        costs = {one.name: one.cost for one in instance.task_graph.tasks}
        assert costs == profile.weights("wall_time").values
        sizes = {f"{e.source}->{e.target}": e.size for e in instance.task_graph.dependencies}
        assert sizes == profile.metrics.edge_weights
        assert ProblemInstance.model_validate_json(instance.model_dump_json()) == instance
        check_schedules(instance)
        live = to_task_graph(profile, cost="wall_time")
        assert type(live) is TaskGraph
        assert live == instance.task_graph


def makespan(scheduler, instance):
    return scheduler().schedule(instance.network, instance.task_graph).makespan


def check_by_hand(folder):
    """Makespans of cases so small that there is nothing to choose, or HEFT's choice is plain."""
    slow_link = {**TWO, "bandwidth": {("fast", "slow"): 1}}
    chain = profile_of({"a": 4, "b": 6, "c": 2}, {("a", "b"): 1000, ("b", "c"): 1000})
    twins, faster = ({"speeds": {"x": 1, "y": 1}, "bandwidth": rate} for rate in (16, 128))
    # 80 bits at 16 a unit take 5: both of b and c stay where a is. At 128 they take less than c
    # has to wait there.
    fork = profile_of({"a": 3, "b": 4, "c": 4}, {("a", "b"): 10, ("a", "c"): 10})
    # On the fast node a ends at 2 and b at 6; on the slow one c runs from 2 to 6; then d.
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    diamond = profile_of({"a": 4, "b": 8, "c": 4, "d": 2}, dict.fromkeys(edges, 0))
    instance = load(chain, folder, network=slow_link)
    for scheduler in SCHEDULERS:
        found = makespan(scheduler, instance)
        assert abs(found - (4 + 6 + 2) / 2) < 1e-9, (scheduler, found)
    # It searches to within a tolerance, and fails on infinite self-loops.
    assert 6 <= makespan(SMTScheduler, instance) < 6.01
    for profile, expected, options in (
        (fork, 3 + 4 + 4, {"network": twins}),
        (fork, 3 + 10 / 16 + 4, {"network": faster}),
        (diamond, 2 + 4 + 1, {"network": TWO}),
    ):
        found = makespan(HeftScheduler, load(profile, folder, **options))
        assert abs(found - expected) < 1e-9, (expected, found)


def check_graphs_of_any_shape(folder):
    """Several sources and sinks, names of all kinds, a network of one node."""
    edges = dict.fromkeys(pairwise(NAMES[:4]), 5)
    forest = profile_of({name: i + 1 for i, name in enumerate(NAMES)}, edges)
    for network in (TWO, {"speeds": {"only": 2}}):
        check_schedules(load(forest, folder, network=network))
    names = {one.name for one in load(forest, folder, network=TWO).task_graph.tasks}
    assert names == {*NAMES}


def check_networks(folder):
    ours = to_network(TWO)
    assert type(ours) is Network
    saved = Network.create([("slow", 1), ("fast", 2)], [("slow", "fast", 1e6)])
    assert to_network(saved) == ours, "its infinite self-loops become finite"
    assert to_network(ours) == ours


def check_stochastic(folder):
    source = task(outputs=["x"])(lambda: {"x": sum(range(1000))})
    sink = task(inputs=["x"], outputs=["y"])(lambda x: {"y": sum(range(x % 5000))})
    dag = DAG({"source": source, "sink": sink}, [("source", "sink")])
    profile = dag.run(rounds=Rounds(5, warmup=1))
    path = folder / "stochastic.saga.json"
    profile.export(path, cost="wall_time", stochastic=True)
    graph = StochasticTaskGraph.model_validate_json(path.read_text())
    measured = profile.sections["samples"]["tasks"]
    for one in graph.tasks:
        assert one.cost.samples == measured[one.name]["wall_ms"][-5:]
    (edge,) = graph.dependencies
    assert edge.size.samples == [profile.metrics.edge_weights["source->sink"]] * 5
    live = to_task_graph(profile, cost="wall_time", stochastic=True)
    assert type(live) is StochasticTaskGraph
    assert {one.name: one.cost.samples for one in live.tasks} == {
        one.name: one.cost.samples for one in graph.tasks
    }
    network = StochasticNetwork.create([("x", 1.0), ("y", 2.0)], [("x", "y", 1e6)])
    scheduler = EstimateStochasticScheduler(HeftScheduler(), lambda variable: variable.mean())
    scheduler.schedule(network, live)
    _, means = scheduler.determinized_graphs(network, live)
    expected = profile.weights("wall_time", "mean").values
    for one in means.tasks:
        assert abs(one.cost - expected[one.name]) < 1e-9


def main() -> None:
    """Run all checks; the first that fails ends it."""
    folder = Path(sys.argv[1])
    checks = check_examples, check_by_hand, check_graphs_of_any_shape, check_networks
    for check in (*checks, check_stochastic):
        check(folder)
        print(check.__name__, "ok")  # noqa: T201  (says how far it came)


if __name__ == "__main__":
    main()
