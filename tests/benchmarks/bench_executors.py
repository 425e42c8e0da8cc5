"""Measure what it costs to run tasks in processes, on Dask and on Ray.

``python tests/benchmarks/bench_executors.py [--quick] [--only ROW]``
"""

import os
import socket
import struct
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from statistics import median

from harness import either, in_turns, print_rows, run_where_installed, spread, times, us

if __name__ == "__main__":
    run_where_installed("executors", "cloudpickle", "distributed", "ray")

import distributed
import numpy as np
import ray
from kernels import milliseconds, spin
from ray.cluster_utils import Cluster
from relay import Relay

from dagprofiler import DAG, DaskExecutor, RayExecutor, Rounds, task
from dagprofiler.executors import jobs
from dagprofiler.executors.ray import _path_for_workers

WORKERS = 2
#: Where Linux has the count of received bytes in a connection's TCP_INFO; those sent and
#: acknowledged stand before it.
TCP_INFO_ACKED = 120


# -- what runs -----------------------------------------------------------------------------


@task(outputs=["x"])
def no_op():
    return {"x": None}


@task(outputs=["y"])
def takes(x):
    return {"y": x}


@task(outputs=["x"])
def spinning(steps):
    return {"x": spin(steps)}


@task(outputs=["data"])
def array(nbytes):
    return {"data": np.ones(nbytes // 8)}


@task(outputs=["sum"], gathers=["data"])
def add(data):
    return {"sum": sum(float(one[::512].sum()) for one in data)}


def nothing(_=None):
    return None


def steps_for(seconds):
    """Return how many steps of spin() take so long on this machine when it is idle."""
    return round(seconds * 1e3 * 200_000 / milliseconds(lambda: spin(200_000), 1))


def no_ops(count):
    return DAG({f"t{i:05}": no_op for i in range(count)})


def pairs_of(count, first, second):
    """Return a DAG of `count` edges, each between two tasks of its own."""
    names = [(f"a{i:03}", f"b{i:03}") for i in range(count)]
    return DAG({name: t for pair in names for name, t in zip(pair, (first, second))}, names)


# -- where it runs: two workers, which have started and know what tasks need ---------------


def warm(executor):
    DAG({f"t{i}": spinning.bind(steps=500_000) for i in range(4 * WORKERS)}).run(executor=executor)
    return executor


@contextmanager
def warm_pool():
    with ProcessPoolExecutor(WORKERS) as pool:
        yield warm(pool)


@contextmanager
def dask():
    settings = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        yield client, warm(DaskExecutor(client))


@contextmanager
def ray_cluster(address="local", **options):
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    with _path_for_workers():
        ray.init(address, **quiet, **options)
    yield
    ray.shutdown()


@contextmanager
def ray_nodes():
    """Start a cluster of a node that drives the run and has no processors, and two with one."""
    with _path_for_workers():
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        for _ in range(WORKERS):
            cluster.add_node(num_cpus=1)
    with ray_cluster(cluster.address):
        yield RayExecutor(options={"scheduling_strategy": "SPREAD"})
    cluster.shutdown()


# -- the rows ------------------------------------------------------------------------------


def speedup():
    """Time eight independent tasks on two workers, against a serial run."""
    seconds = either(0.2, 0.05)
    steps = steps_for(seconds)
    dag = DAG({f"t{i}": spinning.bind(steps=steps) for i in range(8)})
    work = f"8 independent tasks of {seconds * 1e3:.0f} ms pure Python, {WORKERS} "
    with warm_pool() as pool:
        serial, ours = in_turns(7, dag.run, lambda: dag.run(executor=pool))
    yield f"{work}processes: speed-up over a serial run", "1.9 x", times(serial, ours)
    with dask() as (client, executor):
        serial, ours, theirs = in_turns(
            7,
            dag.run,
            lambda: dag.run(executor=executor),
            lambda: client.gather([client.submit(spin, steps, pure=False) for _ in range(8)]),
        )
    yield f"{work}Dask workers: speed-up over a serial run", "1.9 x", times(serial, ours)
    yield "… Dask's own futures", "-", times(serial, theirs)


def against(count, executor, theirs):
    """Time tasks that do nothing, against what engines take for as many functions.

    `theirs` is what is called there, and a goal, by the words for it.
    """
    dag = no_ops(count)
    dag.run(executor=executor)
    works = [work for work, _ in theirs.values()]
    ours, *took = in_turns(9, lambda: dag.run(executor=executor), *works)
    for (what, (_, goal)), bare in zip(theirs.items(), took):
        figures = f"{times(ours, bare)}; {us(bare, count)} and {us(ours, count)} us a task"
        yield f"{count:,} no-op tasks, {WORKERS} workers, against {what}", goal, figures


def submit():
    """Time tasks that do nothing on each engine."""
    count = either(10_000, 1_000)
    with warm_pool() as pool:
        bare = {"bare submit() of processes": (lambda: submit_all(pool, count), "0.7 x")}
        yield from against(count, pool, bare)
    with dask() as (client, executor):

        def by_submit():
            client.gather([client.submit(nothing, pure=False) for _ in range(count)])

        def by_map():
            client.gather(client.map(nothing, range(count), pure=False))

        own = "Dask's own futures by"
        bare = {f"{own} submit()": (by_submit, "-"), f"{own} map(), one message": (by_map, "-")}
        yield from against(count, executor, bare)
        yield from dask_pairs(client, executor)
    count = either(2_000, 500)
    with ray_cluster(num_cpus=WORKERS):
        remote = ray.remote(nothing)
        own = lambda: ray.get([remote.remote() for _ in range(count)])  # noqa: E731
        yield from against(count, RayExecutor(), {"Ray's own, all at once": (own, "1.2 x")})


def submit_all(pool, count):
    for future in [pool.submit(nothing) for _ in range(count)]:
        future.result()


def dask_pairs(client, executor):
    """Time pairs of tasks that do nothing, each with an edge, against Dask's own futures."""
    count = either(250, 100)
    dag = pairs_of(count, no_op, takes)
    dag.run(executor=executor)

    def theirs():
        first = [client.submit(nothing, pure=False) for _ in range(count)]
        client.gather([client.submit(nothing, future, pure=False) for future in first])

    bare, ours = in_turns(9, theirs, lambda: dag.run(executor=executor))
    work = f"{2 * count} no-op tasks and {count} edges, {WORKERS} workers"
    yield f"{work}, against Dask's own futures", "0.8 x", times(ours, bare)


def fidelity():
    """Compare times recorded beside another worker with serial ones beside a busy core."""
    seconds = (0.002, 0.005, 0.01, 0.02)
    dag = DAG({f"t{i}": spinning.bind(steps=steps_for(seconds[i % 4])) for i in range(16)})
    n = either(9, 3)
    beside, alone = [], []
    with warm_pool() as pool:
        for _ in range(3):
            beside += compute_ms(dag.run(rounds=Rounds(n, warmup=1), executor=pool))
            alone += compute_ms(dag.run(rounds=Rounds(n, warmup=1, busy_cores=WORKERS - 1)))
    work = f"compute times of 16 tasks under {WORKERS} workers, against serial with a busy core"
    yield work, "within 10 %", times(beside, alone)


def compute_ms(profile):
    by_name = sorted(profile.metrics.task_metrics, key=lambda entry: entry.task)
    return [entry.compute_time_ms for entry in by_name]


def large():
    """Time a large value on its way between two processes: in a file, and through the pipe."""
    for nbytes in (32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 10 << 20, 100 << 20):
        pairs = 2 if nbytes > 50 << 20 else 10
        dag = pairs_of(pairs, array.bind(nbytes=nbytes), add)
        files, pipe = (between(dag, limit) for limit in (1, 1 << 62))
        files_ms, pipe_ms = (median(took) / pairs * 1e3 for took in (files, pipe))
        edges = f"{pairs} edges of {nbytes / 2**20:g} MB between processes"
        figures = f"{times(files, pipe)}; {files_ms:.2f} against {pipe_ms:.2f} ms an edge"
        goal = "less" if nbytes >= jobs.SHARED_FILE_BYTES else "-"
        yield f"{edges}: in files against the pipe", goal, figures


def between(dag, limit):
    """Return how long runs take whose values of so many bytes and more go through files."""
    before, jobs.SHARED_FILE_BYTES = jobs.SHARED_FILE_BYTES, limit
    try:
        # Processes are forked with it.
        with warm_pool() as pool:
            dag.run(executor=pool)
            (took,) = in_turns(7, lambda: dag.run(executor=pool))
            return took
    finally:
        jobs.SHARED_FILE_BYTES = before


def dask_bytes():
    """Count what passes between the driver and the cluster, by a relay between them.

    As many arrays as there are workers, and a task that needs them all: at least one goes from
    worker to worker.
    """
    nbytes = either(10**8, 10**7)
    counted, took_ms = {}, {}
    with dask() as (client, _):
        for size in (8, nbytes):
            with Relay(client.scheduler.address) as relay:
                profile = arrays(size).run(executor=DaskExecutor(relay.address))
            counted[size], took_ms[size] = relay.bytes, profile.metrics.total_time_ms
    count = len(profile.sections["timeline"]["workers"])
    work = f"{WORKERS} edges of {nbytes / 1e6:g} MB to one task, {count} workers: bytes between"
    figures = f"{counted[nbytes]:,}; {counted[8]:,} with edges of 8 bytes"
    yield f"{work} the driver and Dask's cluster", "1 MB", figures
    figures = f"{took_ms[nbytes]:.0f} and {took_ms[8]:.0f} ms"
    yield "… the whole run, with edges of 8 bytes", "-", figures


def arrays(nbytes):
    """Return a DAG of as many arrays as there are workers, and a task that takes them all."""
    names = [f"a{i}" for i in range(WORKERS)]
    tasks = {**dict.fromkeys(names, array.bind(nbytes=nbytes)), "add": add}
    return DAG(tasks, [(name, "add") for name in names])


def ray_bytes():
    """Count what a large edge between two nodes moves through the process that drives the run."""
    nbytes = either(10**8, 10**7)
    dag, small = arrays(nbytes), arrays(800)
    with ray_nodes() as executor:
        for _ in range(3):
            small.run(executor=executor)
        moved, across = [], 0
        for _ in range(5):
            before = driver_bytes()
            profile = dag.run(executor=executor)
            moved.append([(b - a) / 1e3 for a, b in zip(before, driver_bytes())])
            rows = profile.sections["timeline"]["records"]
            across += len({worker for name, _, worker, *_ in rows if name != "add"})
    passed, mapped = (spread(kilobytes, "{:.0f}") + " kB" for kilobytes in zip(*moved))
    edges = f"edges of {nbytes / 1e6:.0f} MB from {across / 5:g} nodes to a task on one of them"
    yield f"{edges}: through the connections of Ray's driver", "under 1 MB", passed
    yield "… and of the object store mapped by it", "-", mapped


def driver_bytes():
    """Return what this process has sent and received by TCP, and what it maps of the store."""
    passed = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
        with suppress(OSError), socket.socket(fileno=os.dup(int(name))) as connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                passed += sum(struct.unpack_from("QQ", told, TCP_INFO_ACKED))
    with open("/proc/self/status") as status:
        mapped = next(int(line.split()[1]) for line in status if line.startswith("RssShmem"))
    return passed, mapped * 1024


if __name__ == "__main__":
    using = [f"distributed {distributed.__version__}", f"Ray {ray.__version__}"]
    print_rows(__doc__, [speedup, submit, fidelity, large, dask_bytes, ray_bytes], using=using)
