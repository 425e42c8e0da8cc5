"""Cost models: which form is found, how far it carries, and what a prediction says of itself."""

import re
from math import log2

import numpy as np
import pytest
from plans import profile_of

from dagprofiler import DAG, Config, Profile, ValidationError, task
from dagprofiler.predict import fit, simulate

SIZES = [1000 * 2**k for k in range(6)]

SHAPES = {
    "constant": lambda n: 5.0,
    "linear": lambda n: 3 + 1e-3 * n,
    "n log n": lambda n: 1e-4 * n * log2(n),
    "square": lambda n: 0.5 + 1e-6 * n * n,
    "root": lambda n: 0.1 * n**0.5,
    "cube": lambda n: 1e-9 * n**3,
}


def runs_of(cost, sizes=SIZES, *, rounds=(1.0, 1.0, 1.0), wire=lambda n: 8 * n + 163):
    """Return profiles of a task and a sink, the first of which costs `cost(N)` milliseconds."""
    return [
        profile_of(
            {"work": cost(n), "sink": 1.0},
            [("work", "sink")],
            wire=int(wire(n)),
            rounds=rounds,
            config={"N": n, "mode": "fast"},
        )
        for n in sizes
    ]


def compute(profile, name="work"):
    return next(m.compute_time_ms for m in profile.metrics.task_metrics if m.task == name)


@pytest.mark.parametrize("shape", SHAPES)
def test_forms_without_noise_carry_sixteen_times_beyond(shape):
    models = fit(runs_of(SHAPES[shape]))
    n = 16 * SIZES[-1]
    predicted = models.predict({"N": n})
    assert compute(predicted) == pytest.approx(SHAPES[shape](n), rel=0.02)
    (edge,), weights = predicted.metrics.edge_metrics, predicted.metrics.edge_weights
    assert [edge.wire_bytes, edge.size_bits] == [8 * n + 163, *weights.values()]
    assert compute(predicted, "sink") == 1.0


def noisy(cost, sizes, share, chance):
    """Return profiles of a task whose times vary by this share of them."""
    return [
        profile_of(
            {"work": cost(n)},
            rounds=(1 + share * chance.standard_normal(5)).tolist(),
            config={"N": n},
        )
        for n in sizes
    ]


def test_forms_with_noise_carry_and_intervals_hold_the_truth():
    chance = np.random.default_rng(1)
    errors, held = {4: [], 16: []}, []
    for _ in range(5):
        for cost in SHAPES.values():
            models = fit(noisy(cost, SIZES, 0.05, chance))
            for times, found in errors.items():
                n = times * SIZES[-1]
                predicted = models.predict({"N": n})
                found.append(abs(compute(predicted) / cost(n) - 1))
                low, high = predicted.sections["prediction"]["intervals_ms"]["work"]
                held.append(low <= cost(n) <= high)
    assert np.median(errors[4]) < 0.02
    assert np.median(errors[16]) < 0.03
    assert np.quantile(errors[16], 0.9) < 0.12
    assert np.mean(held) > 0.85


@pytest.mark.parametrize(
    ("cost", "words", "at", "expected"),
    [
        (lambda n: min(50.0, n / 100), "saturates from", 64_000, 50),
        # A cache that is too small from 4000 on.
        (lambda n: n / 100 if n < 8000 else n / 40, "changes between 4000 and 8000", 64_000, 1600),
        (lambda n: [9, 2, 7, 1, 8, 3][SIZES.index(n)], "no form", 64_000, None),
        (lambda n: [0, 0, 0, 0, 0, 5][SIZES.index(n)], "no form", 64_000, None),
    ],
)
def test_changes_within_the_range_are_found_and_said(cost, words, at, expected):
    models = fit(runs_of(cost))
    predicted = models.predict({"N": at})
    assert words in str(models)
    assert any(words in reason for reason in predicted.sections["prediction"]["reasons"])
    if expected is not None:
        assert compute(predicted) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("ms", "doubt"),
    [
        ([1.0, 2.0, 4.0, 8.0], ""),
        ([1.0, 2.0, 4.0], "  not certain: only 3 values"),
        ([1.0, 2.2, 4.7, 9.9], "  not certain: 0.001114 N fits about as well"),
        ([1.3, 1.9, 5.1, 9.4], "  not certain: large error"),
    ],
)
def test_a_form_is_certain_if_no_simpler_one_fits_as_well(ms, doubt):
    runs = runs_of(dict(zip(SIZES, ms)).get, SIZES[: len(ms)], rounds=(0.85, 1.0, 1.15))
    models = fit(runs)
    shown = re.search(r"work +compute\(\) .* ms +[\d.]+%(.*)", str(models))
    assert shown[1] == doubt
    if "only 3 values" in doubt:
        reasons = models.predict({"N": 64_000}).sections["prediction"]["reasons"]
        assert any("work, compute()" in reason and "other forms" in reason for reason in reasons)


POINTS = [(n, 4) for n in SIZES[:4]] + [(1000, m) for m in (8, 16, 32)]


def two(cost, points):
    return [profile_of({"w": cost(n, m)}, config={"N": n, "M": m}) for n, m in points]


@pytest.mark.parametrize(
    "cost", [lambda n, m: 2 + 1e-3 * n * m, lambda n, m: 1e-2 * n + 5 * m, lambda n, m: 0.01 * n]
)
def test_two_parameters_need_no_full_grid(cost):
    models = fit(two(cost, [*POINTS, (8000, 32)]))
    predicted = models.predict({"N": 32_000, "M": 128})
    assert compute(predicted, "w") == pytest.approx(cost(32_000, 128), rel=0.03)
    assert not any("multiply" in r for r in predicted.sections["prediction"]["reasons"])


def tied(*configs):
    return [profile_of({"w": config["N"] / 10}, config=config) for config in configs]


def test_parameters_that_vary_together_are_one_axis():
    models = fit(tied(*({"N": n, "N_UE": 2 * n, "M": 7} for n in SIZES[:4])))
    assert "N from 1,000 to 8,000, N_UE from 2,000 to 16,000 (varies with N)" in str(models)
    predicted = models.predict({"N": 16_000, "N_UE": 32_000})
    assert compute(predicted, "w") == pytest.approx(1600, rel=0.02)
    assert predicted.sections["prediction"]["reasons"] == []
    with pytest.raises(ValidationError, match=r"'N_UE' and 'N' .* expected N_UE=32000 .*got 1000"):
        models.predict({"N": 16_000, "N_UE": 1000})
    with pytest.raises(ValidationError, match="value of 'N_UE'"):
        models.predict({"N": 16_000})
    # By no rule they are a doubt.
    seeded = fit(tied(*({"N": n, "seed": seed} for n, seed in zip(SIZES, [17, 3, 96, 41]))))
    predicted = seeded.predict({"N": 16_000, "seed": 5})
    assert compute(predicted, "w") == pytest.approx(1600, rel=0.02)
    assert any("seed varied with N" in r for r in predicted.sections["prediction"]["reasons"])


@pytest.mark.parametrize("level", [300, 1500, 10_000])
def test_a_cost_that_saturates_is_predicted_by_its_level(level):
    chance, sizes = np.random.default_rng(level), [64 * 2**k for k in range(11)]

    def cost(n):
        return 5e3 * (1 - np.exp(-n / level))

    predicted = fit(noisy(cost, sizes, 0.02, chance)).predict({"N": 4 * sizes[-1]})
    assert compute(predicted) == pytest.approx(5e3, rel=0.05)
    low, high = predicted.sections["prediction"]["intervals_ms"]["work"]
    assert low < 5e3 < high < 6e3
    assert "saturates" in predicted.sections["prediction"]["reasons"][0]


def test_bytes_that_fit_no_form_exactly_are_a_doubt():
    runs = runs_of(lambda n: 1.0, wire=lambda n: 8 * n * (1 + n // 1000 % 3 / 100))
    reasons = fit(runs).predict({"N": 64_000}).sections["prediction"]["reasons"]
    assert any("outputs of work" in reason and "not exact" in reason for reason in reasons)


def test_what_a_sparse_design_leaves_open_is_named():
    models = fit(two(lambda n, m: n * m, POINTS))
    assert "N=8000, M=32" in " ".join(models.reasons)
    assert f"not certain: {models.reasons[0]}" in str(models)
    with pytest.raises(ValidationError, match=r"'M' needs 3 values with N=1000, got 4, 8"):
        fit(two(lambda n, m: n * m, POINTS[:5]))


def moving(serialize_ms, sizes=SIZES):
    """Return runs whose outputs have N^2 bytes, and take `serialize_ms` of their MB."""
    runs = []
    for n in sizes:
        [run] = runs_of(lambda _: 1.0, [n], wire=lambda n: n * n)
        data = run.to_dict()
        data["execution_metrics"][0]["serialize_time_ms"] = serialize_ms(n * n / 1e6)
        runs.append(Profile.from_dict(data))
    return runs


@pytest.mark.parametrize(
    ("cost", "formula"),
    [
        (lambda mb: 2 + 0.5 * mb, "2 + 0.5 MB"),
        (lambda mb: 0.1 * mb + 0.9 * max(0, mb - 64), "-57.6 + 1 MB"),
    ],
)
def test_serializing_takes_a_time_for_each_byte(cost, formula):
    models = fit(moving(cost))
    predicted = models.predict({"N": 4 * SIZES[-1]})
    assert formula in str(models)
    expected = cost((4 * SIZES[-1]) ** 2 / 1e6)
    assert predicted.metrics.task_metrics[0].serialize_time_ms == pytest.approx(expected, rel=1e-3)
    low, high = predicted.sections["prediction"]["serialize_intervals_ms"]["work"]
    assert low < expected < high


def test_intervals_hold_what_large_values_may_take_more():
    # From 0.25 to 16 MB, and then 64 MB in fresh memory, where a byte takes five times as long.
    predicted = fit(moving(lambda mb: 0.1 * mb, [500, 1000, 2000, 4000])).predict({"N": 8000})
    low, high = predicted.sections["prediction"]["serialize_intervals_ms"]["work"]
    assert low < 6.4 < 0.5 * 64 < high < 64
    for ms, held in ((32.0, 2), (128.0, 1)):
        [real] = moving(lambda _, ms=ms: ms, [8000])
        assert real.compare(predicted)["in_intervals"] == {"tasks": held, "of": 2}


def test_values_that_outgrow_the_caches_widen_the_interval():
    predicted = fit(runs_of(SHAPES["linear"])).predict({"N": 16 * SIZES[-1]})
    low, high = predicted.sections["prediction"]["intervals_ms"]["work"]
    expected = SHAPES["linear"](16 * SIZES[-1])
    assert 0.9 * expected < low < expected < 1.5 * expected < high
    assert any("caches" in reason for reason in predicted.sections["prediction"]["reasons"])


@pytest.mark.parametrize("ms", [[0.9, 0.6, 0.7, 0.9, 1.2, 1.6], [0.2, 0.2, 0.2, 0.3, 0.3, 0.9]])
def test_times_that_the_clock_hardly_tells_apart_have_no_powers(ms):
    runs = runs_of(lambda n: ms[SIZES.index(n)] / 1e3)
    [model] = (m for m in fit(runs).models if (m.of, m.quantity) == ("work", "compute()"))
    assert "N" not in model.formula


def test_tasks_of_a_class_share_a_form_and_keep_their_ratios():
    measured = [profile_of({"m_1": n / 100, "m_2": n / 50, "s": 1}, config={"N": n}) for n in SIZES]
    models = fit(measured)
    predicted = models.predict({"N": 64_000})
    assert compute(predicted, "m_1") == pytest.approx(640, rel=0.02)
    assert compute(predicted, "m_2") == pytest.approx(1280, rel=0.02)
    assert [model.of for model in models.models if model.quantity == "compute()"] == ["m_*", "s"]


def test_what_a_run_that_failed_lacks_is_known_from_the_others():
    runs = runs_of(SHAPES["linear"])
    failed = runs[-1].to_dict()
    del failed["execution_metrics"][1], failed["samples"]["tasks"]["sink"]
    failed["run"] = {"state": "partial"}
    models = fit([*runs[:-1], Profile.from_dict(failed)])
    assert compute(models.predict({"N": 64_000}), "sink") == 1.0
    assert any("failed" in reason for reason in models.reasons)


def growing(n):
    maps = [f"map_{i:02}" for i in range(n // 1000)]
    edges = [("split", name) for name in maps]
    return profile_of({"split": 1, **dict.fromkeys(maps, 2)}, edges, config={"N": n})


def test_a_graph_is_that_of_equal_neighbours_or_refused():
    runs = [growing(n) for n in SIZES[:4]]
    with pytest.raises(ValidationError, match=r"N=20000 .*9 and 5 tasks.*measure"):
        fit(runs).predict({"N": 20_000})
    predicted = fit([*runs, growing(8500)]).predict({"N": 20_000})
    assert predicted.dag_structure["nodes"] == runs[-1].dag_structure["nodes"]
    assert "different graphs" in str(predicted.sections["prediction"]["reasons"])


def test_a_prediction_is_marked_and_simulated_with_an_interval():
    models = fit(runs_of(SHAPES["linear"]))
    words = ("N from 1,000 to 32,000", "3 + 0.001 N", "163 + 8 N", "0.0%")
    assert all(word in str(models) for word in words)
    assert "<table" in models._repr_html_()
    near, far = models.predict({"N": 40_000}), models.predict({"N": 400_000})
    assert Profile.loads(near.dumps()) == near
    assert str(near).startswith("PREDICTED, not measured")
    assert all(words in str(near) for words in ("1.25 times beyond", "+-"))
    assert f"not certain: {far.sections['prediction']['reasons'][0]}" in str(far)
    [entry] = {entry["reason"] for entry in near.compare(models.profiles[0])["task_times"].values()}
    assert "predicted" in entry
    told = {"kind": "cost_models", "reasons": [], "beyond": 1.25}
    assert near.sections["prediction"].items() >= told.items()
    assert models.predict({"N": SIZES[0] // 4}).sections["prediction"]["beyond"] == 4
    assert near.metrics.total_time_ms is None
    assert near.config == {"N": 40_000, "mode": "fast"}
    assert any("12.5 times" in reason for reason in far.sections["prediction"]["reasons"])
    found = simulate(far, workers=1)
    assert found.interval_ms[0] < found.makespan_ms < found.interval_ms[1]
    assert any("12.5 times" in reason for reason in found.reasons)
    with pytest.raises(ValidationError, match=r"400000.* predicted"):
        fit([*runs_of(SHAPES["linear"]), far])


def test_models_of_real_runs_have_estimates_and_instructions():
    @task(outputs=["x"], estimate_fn=lambda cfg: 10 * cfg.N)
    def source(cfg):
        return {"x": bytes(cfg.N)}

    @task(inputs=["x"], outputs=[])
    def sink(x):
        return {}

    config = Config(N=1, table=np.arange(3), unknown=float("nan"))
    dag = DAG({"source": source, "sink": sink}, [("source", "sink")], config)
    sizes = (1000, 2000, 4000, 16_000)
    *measured, real = (dag.with_config(config.copy(N=n)).run() for n in sizes)
    predicted = fit(measured).predict({"N": 16_000})
    assert predicted.metrics.node_weights == {"source": 160_000, "sink": 0}
    for got, expected in zip(predicted.metrics.task_metrics, real.metrics.task_metrics):
        assert (got.bytes_in, got.bytes_out) == (expected.bytes_in, expected.bytes_out)


@pytest.mark.parametrize(
    ("configs", "config", "words"),
    [
        ([{"N": 1}, {"N": 2}], None, ["3"]),
        ([{"N": 1}] * 3, None, ["numeric parameter"]),
        ([{"N": 1}, {"N": 2}, {"N": "many"}], None, ["'N'", "'many'"]),
        ([{"N": 0}, {"N": 2}, {"N": 3}], None, ["'N'", "0"]),
        ([{"N": 1}, {"N": 2}, {"N": 2}], None, ["'N'", "3 values", "1, 2"]),
        ([], {"M": 1}, ["'M'", "'N', 'mode'"]),
        ([], {}, ["'N'", str(SIZES[-1])]),
        ([], {"mode": "slow"}, ["'mode'", "'fast'", "'slow'"]),
    ],
)
def test_fit_and_predict_refuse_wrong_parameters(configs, config, words):
    runs = [profile_of({"a": 1}, config=config) for config in configs]
    with pytest.raises(ValidationError) as caught:
        fit(runs or runs_of(SHAPES["linear"])).predict(config)
    assert all(word in str(caught.value) for word in words)
