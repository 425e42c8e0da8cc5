"""Sweeps over configurations, and the calibration of an engine."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_all_start_methods, get_context
from time import process_time

import numpy as np
import pytest

from dagprofiler import DAG, Rounds, RunError, ValidationError, calibrate_engine, sweep, task
from dagprofiler.executors.pools import PoolExecutor
from dagprofiler.experiments import calibration
from dagprofiler.predict import Engine, fit, simulate

SEEN = []


@task(outputs=["x"])
def note(cfg):
    SEEN.append(cfg.N)
    return {"x": bytes(cfg.N * cfg.M)}


DAG_OF_ONE = DAG({"note": note}, [], {"N": 1, "M": 1, "mode": "fast"})


def test_rounds_of_all_configurations_take_turns():
    SEEN.clear()
    profiles = sweep(DAG_OF_ONE, {"N": iter([1, 2, 3])}, rounds=2, meters=iter(["cpu"]))
    assert SEEN[:6] == [1, 2, 3, 3, 2, 1]
    assert [profile.config.N for profile in profiles] == [1, 2, 3]
    assert all(profile.sections["run"]["rounds"] == 2 for profile in profiles)
    assert all("cpu_ms" in profile.sections["samples"]["tasks"]["note"] for profile in profiles)
    with ThreadPoolExecutor(2) as pool:
        profiles = sweep(DAG_OF_ONE, {"N": [1, 2]}, rounds=1, executor=pool)
    assert {run.sections["run"]["executor"] for run in profiles} == {"ThreadPoolExecutor"}


def test_a_sweep_that_ends_early_keeps_all_profiles():
    SEEN.clear()

    @task(outputs=["x"])
    def breaks(cfg):
        SEEN.append(cfg.N)
        return {"x": 1 // (7 - len(SEEN))}

    with pytest.raises(RunError) as caught:
        # Two values, one text.
        sweep(DAG({"t": breaks}, [], {"N": 1}), {"N": [1, "1"]}, rounds=Rounds(6, warmup=0))
    assert [profile.config.N for profile in caught.value.profiles] == [1, "1"]
    assert caught.value.of == "N=1"


def test_a_sparse_sweep_is_enough_to_fit():
    rows = [np.arange(2), np.arange(2)]
    dag = DAG_OF_ONE.with_config(DAG_OF_ONE.config.copy(rows=rows[0]))
    profiles = sweep(dag, {"N": [100, 200, 400], "M": [1, 2, 4], "rows": rows}, rounds=1)
    points = [(profile.config.N, profile.config.M) for profile in profiles]
    assert points == [(100, 1), (200, 1), (400, 1), (100, 2), (100, 4), (400, 4)]
    predicted = fit(profiles).predict({"N": 1600, "M": 8})
    assert predicted.metrics.task_metrics[0].bytes_out == pytest.approx(12_800, rel=0.02)


LARGEST = [0]


@task(outputs=[])
def slower_alone(cfg):
    LARGEST.append(cfg.N)
    until = process_time() + 0.01 * (1 + cfg.N * (max(LARGEST) <= cfg.N))
    while process_time() < until:
        pass
    return {}


def processes_of(profiles):
    return [{worker["pid"] for worker in run.timeline.workers} for run in profiles]


def test_sweep_uses_processes_where_times_depend_on_order(caplog):
    dag = DAG({"slower_alone": slower_alone}, [], {"N": 1})
    over = {"N": [1, 2, 3]}
    first, second, third = processes_of(sweep(dag, over, rounds=2))
    assert len({os.getpid()} | first | second | third) == 4
    assert "tasks took 0." in caplog.text
    assert processes_of(sweep(dag, over, rounds=1, processes=False)) == [{os.getpid()}] * 3


UNGUARDED = """
import multiprocessing
from dagprofiler import DAG, sweep, task

multiprocessing.set_start_method("spawn", force=True)
make = task(outputs=["x"])(lambda cfg: {"x": cfg.N})
runs = sweep(DAG({"make": make}, [], {"N": 1}), {"N": [1, 2, 3]}, rounds=1)
print(len(runs), "profiles")
"""


def test_a_program_without_a_guard_sweeps_once_where_it_spawns(start):
    assert start(UNGUARDED).communicate(timeout=120)[0] == "3 profiles\n"


@pytest.mark.parametrize(
    ("over", "options", "words"),
    [
        ({"n": [1]}, {}, ["'n'", "'N'"]),
        ({"N": []}, {}, ["'N'"]),
        ({"mode": "slow"}, {}, ["'mode'", "'slow'"]),
        ({"N": [1, 2]}, {"executor": PoolExecutor(ThreadPoolExecutor(1))}, ["executor"]),
    ],
)
def test_sweep_refuses_wrong_parameters(over, options, words):
    with pytest.raises(ValidationError) as caught:
        sweep(DAG_OF_ONE, over, **options)
    assert all(word in str(caught.value) for word in words)


@pytest.fixture(scope="module")
def engine_of_two(quick):
    """The engine of a pool of two processes."""
    with ProcessPoolExecutor(2, get_context(get_all_start_methods()[0])) as pool:
        return calibrate_engine(pool)


@pytest.mark.parametrize("pinned", [False, True])
def test_calibrate_engine_measures_an_executor(quick, pinned):
    cores, pin = calibration.usable_cores(), getattr(os, "sched_setaffinity", None)
    one, other = (ThreadPoolExecutor(1, "", pin, (0, {cores[k]})) for k in (0, -1))
    with one, other, ThreadPoolExecutor(2) as two:
        engine = calibrate_engine({"a": one, "b": other} if pinned else two)
    assert engine.overhead.cores == len({cores[0], cores[-1]} if pinned and pin else cores)
    known = engine.executor, engine.workers, engine.shares_memory
    assert known == ("ThreadPoolExecutor", 2, True)
    assert (engine.overhead.contention[0], len(engine.overhead.contention)) == (
        1,
        min(2, engine.overhead.cores),
    )
    assert Engine.from_dict(engine.to_dict()) == engine
    profile = DAG_OF_ONE.run()
    profile.sections["engine"] = engine.to_dict()
    assert simulate(profile).makespan_ms >= profile.metrics.task_metrics[0].compute_time_ms
    assert "2 workers" in str(engine)


def test_calibration_starts_all_workers_first(engine_of_two):
    engine = engine_of_two
    assert (engine.workers, len(engine.overhead.contention)) == (2, min(2, engine.overhead.cores))
    found = simulate(DAG_OF_ONE.run(), workers=3, engine=engine)
    assert any("3 workers, the engine was calibrated with 2" in one for one in found.reasons)
    with pytest.raises(ValidationError, match="serial"):
        calibrate_engine(None)


@pytest.mark.skipif(sys.platform != "linux", reason="the settings are read on Linux")
def test_rounds_on_another_allocator_do_not_scale_a_prediction(engine_of_two, monkeypatch):
    engine = replace(engine_of_two, workers=1)
    monkeypatch.setenv("MALLOC_ARENA_MAX", "7")
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        profile = DAG_OF_ONE.run(executor=pool, rounds=3)
    (worker,) = profile.timeline.workers
    assert worker["allocator_settings"]["MALLOC_ARENA_MAX"] == "7"
    profile.metrics.total_time_ms = 1e6
    found = simulate(profile, engine=engine)
    assert found.makespan_ms < 1e5
    assert any("'MALLOC_ARENA_MAX': '7'" in reason for reason in found.reasons)
