from __future__ import annotations

import math
import pickle
from fractions import Fraction
from types import ModuleType

import pytest

from dagprofiler import DAG, Config, DeclarationError, GraphError, Journal, JournalError, task


def numbers(cfg):
    return list(range(cfg.N))


def total(numbers: list) -> int:
    return sum(numbers)


def mean(total: float, numbers, digits=1):
    return round(total / len(numbers), digits)


def test_a_parameter_gets_the_result_of_the_function_of_its_name():
    dag = DAG.from_functions([mean, total, numbers], Config(N=4))
    assert dag.edge_fields == {
        ("total", "mean"): ["total"],
        ("numbers", "mean"): ["numbers"],
        ("numbers", "total"): ["numbers"],
    }
    profile = dag.run(keep=["total"])
    assert profile.final_outputs == {"mean": 1.5}
    assert profile.outputs["total"] == {"total": 6}


def test_of_a_module_its_own_public_functions_are_taken():
    module = ModuleType("steps")
    source = """
from json import dumps
def one(): return _helper()
def two(one, more=1): return one + more
def _helper(): return 1
_kept = two
"""
    exec(source, vars(module))
    assert DAG.from_functions(module).run().final_outputs == {"two": 2}


def test_inputs_of_functions_are_bound(tmp_path):
    dag = DAG.from_functions([mean, total], inputs={"numbers": [1, 2, 5], "digits": 0})
    assert dag.tasks["mean"].bound == {"numbers": [1, 2, 5], "digits": 0}
    assert pickle.loads(pickle.dumps(dag)).run().final_outputs == {"mean": 3.0}
    profile = dag.run()
    assert profile.final_outputs == {"mean": 3.0}
    assert profile.sections["run"]["bound"]["mean"] == {"numbers": "[1, 2, 5]", "digits": "0"}
    profile.report(tmp_path / "page.html")
    assert '"digits":"0"' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_options_of_a_function_get_nothing():
    def spread(total, low=2, *, by=1, **options):
        return total, low, by, options

    dag = DAG.from_functions([total, spread], inputs={"numbers": [3], "by": 4})
    assert dag.run().outputs == {"spread": {"spread": (3, 2, 4, {})}}


def spread(*numbers):
    return numbers


async def later():
    return 1


def back(forth):
    return forth


def forth(back):
    return back


@pytest.mark.parametrize(
    ("functions", "inputs", "error", "words"),
    [
        ([mean, total], {}, GraphError, ["mean()", "test_functions.py", "'numbers'"]),
        ([mean, total, numbers], {"numbrs": 1}, GraphError, ["'numbrs'", "'numbers'"]),
        ([total, numbers], {"total": 1}, GraphError, ["'total'", "test_functions.py", "inputs"]),
        ([total, eval("lambda: 1"), eval("lambda: 2")], {}, GraphError, ["'<lambda>'", "<string>"]),
        ([spread], {"numbers": 1}, DeclarationError, ["spread()", "*numbers"]),
        ([later], {}, DeclarationError, ["later()", "returns"]),
        ([back, forth], {}, GraphError, ["'back' -> 'forth' -> 'back'"]),
        ([math.sqrt], {"x": 9}, DeclarationError, ["sqrt()", "(x, /)"]),
        ([total], ["numbers"], DeclarationError, ["['numbers']"]),
        ([task(outputs=["x"])(total)], {}, DeclarationError, ["total"]),
        ([total, 3], {}, DeclarationError, ["got 3"]),
        (ModuleType("empty"), {}, DeclarationError, ["'empty'"]),
    ],
)
def test_from_functions_names_the_culprits(functions, inputs, error, words):
    with pytest.raises(error) as caught:
        DAG.from_functions(functions, inputs=inputs)
    assert not [word for word in words if word not in str(caught.value)]


def test_a_journal_compares_bound_values(tmp_path):
    # Equal values may be pickled in other ways.
    half = Fraction(1, 2)
    values = [half, half], [Fraction(1, 2), Fraction(1, 2)], [half, 1]
    dag, again, changed = (DAG.from_functions([mean, total], inputs={"numbers": v}) for v in values)
    means = dag.run(hooks=[Journal(tmp_path)]).final_outputs
    assert again.resume(tmp_path).final_outputs == means
    with pytest.raises(JournalError, match=r"bound\.mean\.numbers: "):
        changed.resume(tmp_path)
