"""Graphs of Dask and recordings of its clusters, against what Dask itself computes."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from platforms import of_engine

from dagprofiler import DAG, DagProfilerError, DeclarationError, GraphError, Profile

if os.environ.get("DAGPROFILER_EXTERNAL") != "required":
    pytest.importorskip("distributed")
    pytest.importorskip("dask.array")
    pytest.importorskip("dask.dataframe")
import dask
import dask.array
import dask.bag
import dask.dataframe
import distributed
import pandas

from dagprofiler.adapters.dask import profile_dask

pytestmark = of_engine


def inc(x):
    return x + 1


def add(x, y):
    return x + y


def fails():
    raise ZeroDivisionError("on purpose")


def doubled(x):
    return 2 * x


def odd(x):
    return x % 2


def array():
    return dask.array.from_array(np.arange(60.0).reshape(6, 10), chunks=(2, 5))


def frame():
    data = {"k": np.arange(40) % 7, "v": np.arange(40.0) / 3}
    return dask.dataframe.from_pandas(pandas.DataFrame(data), npartitions=4)


def numbers(partitions):
    return dask.bag.from_sequence(range(20), npartitions=partitions)


def by_hand():
    # https://docs.dask.org/en/stable/delayed.html
    return dask.delayed(sum)(
        [dask.delayed(add)(dask.delayed(inc)(x), dask.delayed(doubled)(x)) for x in range(1, 6)]
    )


#: What Dask's own tutorials compute: arrays, bags, dataframes, delayed values, and several.
COLLECTIONS = {
    "mean": lambda: (array() + array()[::-1]).mean(axis=0),
    "transposed": lambda: array().T @ array(),
    "svd": lambda: dask.array.linalg.svd(array().rechunk((2, 10))),
    "bag": lambda: numbers(3).map(doubled).sum(),
    "bag of lambdas": lambda: numbers(3).map(lambda x: 2 * x).accumulate(add),
    "bag of groups": lambda: numbers(3).groupby(lambda x: x % 2, shuffle="tasks").map(len),
    "joined bags": lambda: numbers(2).join(numbers(1), odd, odd).count(),
    "frequencies": lambda: dask.bag.from_sequence("abracadabra", npartitions=3).frequencies(),
    "filter": lambda: dask.bag.from_sequence(range(9), npartitions=2).filter(odd),
    "groupby": lambda: frame().groupby("k").mean().v,
    "rows": lambda: frame().query("v > 3"),
    "describe": lambda: frame().v.std() + 1,
    "shuffled": lambda: frame().groupby("k").v.median() - 1,
    "delayed": by_hand,
    "dict": lambda: {"a": dask.delayed(inc)(1), "b": [array().sum(), 3]},
}


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", COLLECTIONS)
def test_results_are_those_of_dask(name, optimize):
    collection = COLLECTIONS[name]()
    # By default a client that another test has open would shuffle between its workers.
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        [expected] = dask.compute(collection, scheduler="sync")
    dag = DAG.from_dask(collection, optimize=optimize)
    result = dag.run().final_outputs["value"]
    if isinstance(expected, (pandas.Series, pandas.DataFrame)):
        assert result.equals(expected)
    elif isinstance(expected, (np.ndarray, tuple)):
        assert all(map(np.array_equal, result, expected))
    else:
        assert result == expected


def test_tasks_have_the_names_that_dask_shows():
    dag = DAG.from_dask((array() + 1).sum(), optimize=False)
    kinds = {name.partition(" (")[0] for name in dag.tasks}
    # The blocks of the array itself are data.
    assert kinds == {"add", "sum", "sum-partial", "sum-aggregate", "result"}
    assert "add (0, 1)" in dag.tasks
    assert len(DAG.from_dask((array() + 1).sum()).tasks) < len(dag.tasks)
    for held in (3, "text", [], {"a": np.arange(3)}):
        with pytest.raises(GraphError, match="expected a Dask collection"):
            DAG.from_dask(held)
    assert list(DAG.from_dask(by_hand()).tasks)[:4] == ["inc", "doubled", "add", "inc #2"]


def test_dask_graphs_run_in_rounds_and_processes():
    profile = DAG.from_dask(by_hand()).run(rounds=3)
    assert "name no fields" in profile.sections["environment"]["not_measured"]["data_fields"]
    assert Profile.loads(profile.dumps()) == profile
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        assert DAG.from_dask(by_hand()).run(executor=executor).final_outputs == {"value": 50}


@pytest.mark.parametrize(
    "shuffled",
    [
        lambda: frame().shuffle("k", shuffle_method="disk"),
        lambda: frame().shuffle("k", shuffle_method="p2p"),
        lambda: array().rechunk((6, 1), method="p2p"),
        lambda: numbers(4).groupby(odd, shuffle="disk"),
        lambda: numbers(1).groupby(odd, shuffle="disk"),
    ],
)
def test_a_shuffle_whose_data_is_on_no_edge_is_refused(shuffled):
    with pytest.raises(GraphError, match=r'".*shuffle.method": "tasks"'):
        DAG.from_dask(shuffled())


# -- a cluster's own run ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(2, **options) as cluster, distributed.Client(cluster) as client:
        yield client


def test_a_recording_has_the_keys_their_times_sizes_and_workers(client):
    with profile_dask(client) as recording:
        total = (array() + array().rechunk((3, 5))).sum().compute()
    assert total == 2 * np.arange(60).sum()
    profile = recording.profile
    assert Profile.loads(profile.dumps()) == profile
    assert profile.sections["run"]["state"] == "complete"
    names = profile.dag_structure["nodes"]
    assert len(profile.metrics.task_metrics) == len(names)
    assert any(name.startswith("sum") for name in names)
    timeline = profile.sections["timeline"]
    assert all(0 < w["pid"] != os.getpid() for w in timeline["workers"])
    assert {record[2] for record in timeline["records"]} <= {0, 1}
    moments = [moment for record in timeline["records"] for moment in record[3:]]
    assert min(moments) >= 0
    assert max(profile.metrics.edge_weights.values()) >= 8 * 60
    assert set(profile.sections["dask"]["keys"]) == set(names)


def test_a_recording_has_the_transfers_that_tasks_waited_for(client):
    one, other = client.scheduler_info(n_workers=-1)["workers"]
    with profile_dask(client) as recording:
        far = client.submit(inc, 1, workers=[one], key="far")
        client.submit(inc, far, workers=[other], key="near").result()
    section = recording.profile.sections["dask"]["transfers"]
    [record] = section["records"]
    found = dict(zip(section["columns"], record))
    assert [found[name] for name in ("task", "worker", "source")] == ["near", other, one]


def test_a_recording_of_a_failure_is_partial(client):
    with profile_dask(client) as recording, pytest.raises(ZeroDivisionError):
        dask.delayed(inc)(dask.delayed(fails)()).compute()
    profile = recording.profile
    run = profile.sections["run"]
    states = {name: entry["state"] for name, entry in run["tasks"].items()}
    assert (run["state"], states) == ("partial", {"fails": "failed", "inc": "skipped"})
    assert "on purpose" in run["tasks"]["fails"]["error"]
    assert Profile.loads(profile.dumps()) == profile


def test_a_recording_lists_keys_it_lacks(client):
    held = client.submit(inc, 1, key="before")
    held.result()
    with profile_dask(client) as recording:
        for _ in range(2):
            client.submit(add, held, 1, key="again").result()
    profile = recording.profile
    assert profile.dag_structure["nodes"] == ["again"]
    assert "1 key" in profile.sections["environment"]["not_measured"]["dag_structure"]


def test_what_a_cluster_holds_is_data(client):
    held = array().persist()
    dag = DAG.from_dask([held.sum(), dask.delayed(inc)(client.submit(inc, 1))])
    assert dag.run().final_outputs == {"value": [1770.0, 3]}
    with pytest.raises(GraphError, match="on purpose"):
        DAG.from_dask(dask.delayed(inc)(dask.delayed(fails)().persist()))


def test_a_recording_needs_a_connected_client(client):
    second = distributed.Client(client.cluster, set_as_default=False)
    recorded = profile_dask(second)
    recording = recorded.__enter__()
    second.close()
    # An exception of the block goes on.
    assert not recorded.__exit__(None, None, None)
    with pytest.raises(DagProfilerError, match="client was closed"):
        _ = recording.profile
    for given, words in ((second, "connected"), ("a client", "'a client'")):
        with pytest.raises(DeclarationError, match=words), profile_dask(given):
            pass
    with profile_dask(client) as recording, pytest.raises(DagProfilerError, match="after"):
        _ = recording.profile
    with pytest.raises(DagProfilerError, match="nothing"):
        _ = recording.profile
