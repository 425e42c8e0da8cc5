"""Measure what it costs to run tasks on Dask.

``python tests/benchmarks/bench_executors_dask.py [--quick] [--only ROW]``
"""

from contextlib import contextmanager

from harness import NONE, in_turns, over, print_rows, run_where_installed, spread, times, us

if __name__ == "__main__":
    run_where_installed("numpy", "jsonschema", "distributed")

import bench_executors as small
from distributed import Client, LocalCluster
from relay import Relay

from dagprofiler import DAG, DaskExecutor


@contextmanager
def cluster():
    """Start worker processes that know what tasks need."""
    with (
        LocalCluster(
            n_workers=small.WORKERS, threads_per_worker=1, dashboard_address=":0"
        ) as local,
        Client(local) as client,
    ):
        DAG({f"t{i}": small.Spin(500_000) for i in range(4 * small.WORKERS)}).run(
            executor=DaskExecutor(client)
        )
        yield client


def through_the_driver(*, quick):
    """Count what passes between the driver and the cluster, by a relay between them.

    As many arrays as there are workers, and a task that needs them all: at least one goes from
    worker to worker.
    """
    nbytes = (10 if quick else 100) * 1_000_000
    names = [f"a{i}" for i in range(small.WORKERS)]
    counted, took = {}, {}
    with cluster() as client:
        for size in (8, nbytes):
            dag = DAG(
                {**{name: small.Array(size) for name in names}, "add": small.Sum},
                [(name, "add") for name in names],
            )
            with Relay(client.scheduler.address) as relay:
                profile = dag.run(executor=DaskExecutor(relay.address))
            counted[size] = relay.bytes
            took[size] = profile.metrics.total_time_ms
            count = len(profile.sections["timeline"]["workers"])
    where = f"{small.WORKERS} edges of {nbytes / 1e6:g} MB to one task, {count} workers"
    yield (
        f"{where}: bytes between the driver and the cluster",
        "1 MB",
        f"{counted[nbytes]:,}; {counted[8]:,} with edges of 8 bytes",
    )
    yield "… the whole run, with edges of 8 bytes", NONE, f"{took[nbytes]:.0f} and {took[8]:.0f} ms"


def submitting(*, quick):
    """Time tasks that do nothing, against Dask's own futures on the same workers."""
    count = 1_000 if quick else 10_000
    dag = DAG({f"t{i:05}": small.Nothing for i in range(count)})
    with cluster() as client:
        executor = DaskExecutor(client)
        bare, ours, mapped = in_turns(
            3,
            lambda: client.gather(one_by_one(client, count)),
            lambda: dag.run(executor=executor),
            lambda: client.gather(client.map(lambda _: None, range(count), pure=False)),
        )
    for what, theirs in (("submit()", bare), ("map(), one message", mapped)):
        yield (
            f"{count:,} no-op tasks, {small.WORKERS} workers, against Dask's own futures by {what}",
            NONE,
            f"{times(over(ours, theirs))}; {us(theirs, count)} and {us(ours, count)} us a task",
        )


def pairs(*, quick):
    """Time pairs of tasks that do nothing, each with an edge, against Dask's own futures."""
    count = 100 if quick else 250
    dag = small.pairs_of(count, small.Nothing, small.Takes)

    def theirs():
        first = one_by_one(client, count)
        client.gather([client.submit(takes, future, pure=False) for future in first])

    with cluster() as client:
        executor = DaskExecutor(client)
        dag.run(executor=executor)
        bare, ours = in_turns(3 if quick else 9, theirs, lambda: dag.run(executor=executor))
    work = f"{2 * count} no-op tasks and {count} edges, {small.WORKERS} workers"
    yield f"{work}, against Dask's own futures", "0.8 x", times(over(ours, bare))


def takes(x):
    return x


def one_by_one(client, count):
    return [client.submit(small.nothing, pure=False) for _ in range(count)]


def speedup(*, quick):
    """Time eight independent tasks, and Dask's own futures, against a serial run."""
    dag, steps, work = small.independent(quick=quick)
    with cluster() as client:
        executor = DaskExecutor(client)
        serial, ours, theirs = in_turns(
            3 if quick else 7,
            dag.run,
            lambda: dag.run(executor=executor),
            lambda: client.gather(
                [client.submit(small.spin, steps, pure=False) for _ in dag.tasks]
            ),
        )
    yield f"{work}: speed-up over a serial run", "1.9", spread(over(serial, ours))
    yield "… Dask's own futures", NONE, spread(over(serial, theirs))


ROWS = {"bytes": through_the_driver, "submit": submitting, "pairs": pairs, "speedup": speedup}


if __name__ == "__main__":
    print_rows(__doc__, ROWS)
