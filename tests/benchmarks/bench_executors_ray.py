"""Measure what it costs to run tasks on Ray, and what passes through the driver.

``python tests/benchmarks/bench_executors_ray.py [--quick] [--only ROW]``
"""

import os
import socket
import struct
from contextlib import contextmanager, suppress
from queue import SimpleQueue

from harness import NONE, in_turns, over, print_rows, run_where_installed, spread, times, us

if __name__ == "__main__":
    run_where_installed("numpy", "jsonschema", "cloudpickle", "ray")

import ray
from bench_executors import Array, Nothing, Sum

from dagprofiler import DAG, RayExecutor
from dagprofiler.executors.ray import _path_for_workers

CPUS = 2
#: Where Linux has the count of received bytes in a connection's TCP_INFO; those sent and
#: acknowledged stand before it.
TCP_INFO_ACKED = 120


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


def through_the_driver(*, quick):
    """Count what a large edge between two nodes moves through the process that drives the run."""
    from ray.cluster_utils import Cluster

    nbytes = 10**7 if quick else 10**8
    dag, small = (
        DAG({"a": Array(size), "b": Array(size), "c": Sum}, [("a", "c"), ("b", "c")])
        for size in (nbytes, 800)
    )
    with _path_for_workers():
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        for _ in range(CPUS):
            cluster.add_node(num_cpus=1)
    try:
        connect(cluster.address)
        executor = RayExecutor(options={"scheduling_strategy": "SPREAD"})
        for _ in range(3):
            small.run(executor=executor)
        moved, across = [], 0
        while len(moved) < 5:
            before = driver_bytes()
            profile = dag.run(executor=executor)
            moved.append([after - b for after, b in zip(driver_bytes(), before)])
            rows = profile.sections["timeline"]["records"]
            across += len({worker for name, _, worker, *_ in rows if name != "c"})
        edges = f"edges of {nbytes / 1e6:.0f} MB from {across / 5:g} nodes to a task on one of them"
        yield (
            f"{edges}: through the driver's connections",
            "under 1 MB",
            f"{spread([one[0] / 1e3 for one in moved], '{:.0f}')} kB",
        )
        yield (
            "… and of the object store mapped by it",
            NONE,
            f"{spread([one[1] / 1e3 for one in moved], '{:.0f}')} kB",
        )
    finally:
        ray.shutdown()
        cluster.shutdown()


def connect(address):
    ray.init(
        address,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        **({"num_cpus": CPUS} if address == "local" else {}),
    )


@contextmanager
def local_cluster():
    """Start a cluster of this machine, whose workers find what this process finds."""
    with _path_for_workers():
        connect("local")
    yield
    ray.shutdown()


@ray.remote
def nothing():
    return None


def submitting(*, quick):
    """Time tasks that do nothing, against Ray's own."""
    count = 500 if quick else 2_000
    dag, executor = DAG({f"t{i:05}": Nothing for i in range(count)}), RayExecutor()

    def at_once():
        ray.get([nothing.remote() for _ in range(count)])

    with local_cluster():
        at_once()
        dag.run(executor=executor)
        all_s, few_s, ours_s = in_turns(
            3 if quick else 7,
            at_once,
            lambda: few_at_once(count),
            lambda: dag.run(executor=executor),
        )
    what = f"{count:,} no-op tasks, {CPUS} workers, against Ray's own,"
    yield f"{what} with as many under way ({2 * CPUS})", NONE, times(over(ours_s, few_s))
    yield f"{what} all at once", "1.2 x", times(over(ours_s, all_s))
    each = ", ".join(us(took, count) for took in (all_s, few_s, ours_s))
    yield "… a task: Ray's all at once, as many, and ours", NONE, f"{each} us"


def few_at_once(count):
    """Run Ray's own tasks as the run loop does, with no more under way than it has."""
    done = SimpleQueue()
    under_way = 0
    for _ in range(count):
        nothing.remote().future().add_done_callback(done.put)
        under_way += 1
        if under_way == 2 * CPUS:
            done.get()
            under_way -= 1
    for _ in range(under_way):
        done.get()


def limits(*, quick):
    """Time what a time limit costs a task."""
    count = 300 if quick else 1_000
    dag, executor = DAG({f"t{i:05}": Nothing for i in range(count)}), RayExecutor()
    with local_cluster():
        dag.run(executor=executor, timeout=60)
        plain, limited = in_turns(
            3 if quick else 7,
            lambda: dag.run(executor=executor),
            lambda: dag.run(executor=executor, timeout=60),
        )
    yield (
        f"{count:,} no-op tasks with a time limit, against none",
        NONE,
        times(over(limited, plain)),
    )


ROWS = {"bytes": through_the_driver, "submit": submitting, "limit": limits}


if __name__ == "__main__":
    print_rows(__doc__, ROWS, using=[f"Ray {ray.__version__}"])
