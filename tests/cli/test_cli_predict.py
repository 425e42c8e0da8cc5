"""The commands that predict: sweep, fit, predict, simulate, and runs along a schedule."""

import json
from pathlib import Path

import pytest

from dagprofiler import Profile

PLAN = {"edge": ["read", "show"], "cloud": ["add"]}


def test_a_sweep_is_fitted_predicted_and_simulated(cli, shelf, folder):
    over = ["--over", "N=100,200,400,1e3", "--over", "factor=1,2,3", "--rounds", "3", "-q"]
    said = cli("sweep", shelf.target, *over, "-o", f"{folder}/runs").out
    assert f"{folder}/runs/N=1000,factor=1.0.json" in said
    assert len([*Path(folder, "runs").iterdir()]) == 7
    largest = f"{folder}/runs/N=1000,factor=1.0.json"
    Profile.load(largest).save(f"{largest}.gz")
    Path(largest).unlink()
    # Of a sweep that ended early.
    Profile.load(f"{largest}.gz").save(f"{folder}/runs/N=7,factor=1.0.partial.json")
    fitted = cli("fit", f"{folder}/runs")
    assert "N from 100 to 1,000" in fitted.out
    guess, found = f"{folder}/guess.json", f"{folder}/simulated.json"
    at = ["-c", "N=3e3", "-c", "factor=2"]
    predicted = cli("predict", f"{folder}/runs", *at, "-o", guess).out
    assert "PREDICTED" in predicted
    assert "total time unknown (use simulate)" in " ".join(predicted.split())
    assert "N=3000, factor=2.0" in predicted
    assert Profile.load(guess).config["N"] == 3000
    options = ["--workers", "1..2,3", "-o", found, "--report", f"{folder}/page.html"]
    said = cli("simulate", guess, *options).out
    assert "3 workers" in said
    assert "not certain: no engine: " in said
    assert "; give --executor, which calibrates one, or --engine\n" in said
    assert said.splitlines()[-2:] == [f"profile: {found}", f"report: {folder}/page.html"]
    simulated = Profile.load(found)
    assert simulated.name == shelf.target
    curve = simulated.sections["prediction"]["curve"]
    assert [point["workers"] for point in curve] == [1, 2, 3]


def test_a_schedule_is_simulated_and_kept_for_real(cli, shelf, folder, quick):
    plan, planned, real = (f"{folder}/{name}.json" for name in ("plan", "planned", "real"))
    Path(plan).write_text(json.dumps(PLAN), encoding="utf-8")
    nodes = ["--speed", "edge=1", "--speed", "cloud=2", "--bandwidth", "1e3"]
    faster = ["--faster", "add=2", "--executor", "threads"]
    said = cli("simulate", shelf.profile, "--schedule", plan, *nodes, *faster, "-o", planned).out
    assert "with add=2: " in said
    assert "\nengine: ThreadPoolExecutor on " in said
    assert "engine: ThreadPoolExecutor on " in cli("show", planned).out
    assert "no engine" not in cli("simulate", shelf.profile, "--engine", planned).out
    code = "from concurrent.futures import ThreadPoolExecutor as P\n"
    own = Path(folder, "own.py")
    own.write_text(f"{code}pools = lambda: {{'edge': P(1), 'cloud': P(1)}}\n", encoding="utf-8")
    cli("run", shelf.target, "--schedule", plan, "--executor", f"{own}:pools", "-q", "-o", real)
    profiles = Profile.load(planned), Profile.load(real)
    assert [profile.sections["schedule"] for profile in profiles] == [PLAN, PLAN]
    assert profiles[0].sections["engine"]["shares_memory"]
    compared = cli("compare", planned, real).out
    assert "predicted ms" in compared
    del profiles[1].sections["timeline"]
    profiles[1].save(real)
    compared += cli("compare", planned, real, code=3).out
    assert "predicted: it has no samples" in " ".join(compared.split())
    assert "for a verdict" not in compared


@pytest.mark.parametrize(
    ("command", "of"),
    [
        ("sweep {target} --over N=9,3 -q -o {folder}", "N=3"),
        ("compare --run {target} {target} -c N=9 --new-config N=3 -o {folder}/N=9.json b", "new"),
    ],
)
def test_if_a_task_fails_what_other_runs_measured_is_saved(cli, folder, command, of):
    words = command.format(target="pipeline_of_tests.py:failing", folder=folder).split()
    done = cli(*words, "--rounds", "1", "--json", code=4)
    # Its only round was done, so it is whole.
    shown, saved = json.loads(done.out), f"{folder}/N=9.json"
    assert shown["error"] == f"{of}: task 'fails' failed: ValueError: no such cell"
    how = f"1 complete round in {saved}, 0 complete rounds in {shown['written'][1]}"
    assert done.err.startswith(f"dagprofiler: {shown['error']}; measured: {how}\n")
    assert Profile.load(saved).metrics.task_metrics[1].task == "fails"
