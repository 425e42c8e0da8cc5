import pickle

import pytest

from dagprofiler import DeclarationError, Task
from dagprofiler.engine.contracts import ContractReader


class Step(Task):
    inputs = ["x"]
    outputs = ["y"]

    def compute(self, x, cfg):
        return {"y": x}


def read(*tasks):
    """Return the contracts of tasks, which stand under t0, t1, ..."""
    reader = ContractReader(None)
    return [reader.read(f"t{i}", task) for i, task in enumerate(tasks)]


def outputs_of(*tasks):
    return [list(contract.outputs) for contract in read(*tasks)]


def changed(task, **declarations):
    vars(task).update(declarations)
    return task


def test_an_instance_that_declares_something_else_has_a_contract_of_its_own():
    tasks = [Step(), changed(Step(), outputs=["z"]), Step()]
    for place in range(3):
        turned = tasks[place:] + tasks[:place]
        assert outputs_of(*turned) == [task.outputs for task in turned]


def test_instances_that_declare_nothing_share_a_contract_and_the_others_are_checked():
    first, second, third = read(Step(), Step("other"), changed(Step(), state=1))
    assert first is second is third
    with pytest.raises(DeclarationError, match="task 't1': outputs names 'z' twice"):
        read(Step(), changed(Step(), outputs=["z", "z"]))


class Named(Step):
    outputs = property(lambda self: [self.name])


class Odd(Step):
    def __getattribute__(self, name):
        return [self.name] if name == "outputs" else super().__getattribute__(name)


class Slotted(Step):
    __slots__ = ("outputs",)

    def __init__(self, name):
        super().__init__(name)
        self.outputs = [name]


@pytest.mark.parametrize("kind", [Named, Odd, Slotted])
def test_a_class_whose_instances_may_differ_is_asked_for_each(kind):
    assert outputs_of(kind("a"), kind("b"), kind("a")) == [["a"], ["b"], ["a"]]


def test_serializing_by_a_method_is_bound_to_each_instance():
    class Salted(Step):
        def serialize(self, data):
            return pickle.dumps((self.name, data))

        def deserialize(self, data):
            return pickle.loads(data)[1]

    salted = read(Salted("a"), Salted("b"))
    assert [pickle.loads(contract.encode(1)) for contract in salted] == [("a", 1), ("b", 1)]


def test_an_instance_with_a_compute_of_its_own_is_read_by_it():
    own = changed(Step(), compute=lambda q: {"y": q})
    contracts = read(Step(), own, Step())
    assert [contract.parameters.required for contract in contracts] == [{"x"}, {"q"}, {"x"}]
