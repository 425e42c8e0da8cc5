from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagprofiler import DAG, Config, DeclarationError, Task
from dagprofiler.config import same_value


def test_a_config_is_a_mapping_in_the_order_given():
    cfg = Config(b=1, a=2)
    assert isinstance(cfg, Mapping)
    assert list(cfg) == ["b", "a"]
    assert dict(**cfg) == {"b": 1, "a": 2}
    assert len(cfg) == 2
    assert list(cfg.items()) == [("b", 1), ("a", 2)]
    assert "a" in cfg
    assert "c" not in cfg
    assert not Config()


def test_an_attribute_cannot_be_set():
    cfg = Config(N=1)
    with pytest.raises(AttributeError, match=r"cannot set 'N'.*config\.copy\(N=\.\.\.\)"):
        cfg.N = 2
    with pytest.raises(AttributeError, match=r"^cannot set 'M'"):
        cfg.M = 2
    with pytest.raises(AttributeError, match=r"^cannot set '_params'"):
        cfg._params = {}
    assert cfg.to_dict() == {"N": 1}


def test_an_attribute_cannot_be_deleted():
    cfg = Config(N=1)
    with pytest.raises(AttributeError, match="cannot delete 'N'"):
        del cfg.N
    assert cfg.N == 1


def test_to_dict_is_a_copy():
    cfg = Config(N=1)
    cfg.to_dict()["N"] = 2
    cfg.to_dict()["M"] = 3
    assert cfg == Config(N=1)


def test_values_are_handed_out_as_they_are():
    cells = [1, 2]
    array = np.arange(3)
    cfg = Config(cells=cells, array=array)
    assert cfg.cells is cells
    assert cfg["array"] is array
    assert cfg.to_dict()["cells"] is cells
    assert cfg.copy().array is array


def test_copy_applies_overrides_and_leaves_the_original():
    cfg = Config(N=1, M=2)
    assert cfg.copy(N=5, K=3) == Config(N=5, M=2, K=3)
    assert cfg == Config(N=1, M=2)
    assert cfg.copy() == cfg


def test_an_unknown_attribute_says_which_parameters_there_are():
    with pytest.raises(AttributeError, match=r"'N_EU' \(.*'N_UE', 'N_CELL'\); .*'N_UE'"):
        _ = Config(N_UE=1, N_CELL=2).N_EU


def test_an_unknown_attribute_of_an_empty_config_says_that_there_are_none():
    with pytest.raises(AttributeError, match=r"'N' \(.*none\)"):
        _ = Config().N


def test_hasattr_and_getattr_work_as_on_any_object():
    cfg = Config(N=1)
    assert hasattr(cfg, "N")
    assert not hasattr(cfg, "M")
    assert getattr(cfg, "M", 3) == 3
    assert not hasattr(cfg, "__array__")


@pytest.mark.parametrize("name", ["get", "copy", "keys", "items", "to_dict", "_params"])
def test_a_key_named_like_a_method_is_reached_by_item(name):
    cfg = Config(**{name: 1, "N": 2})
    assert cfg[name] == 1
    assert cfg.get("N") == 2
    assert cfg.copy(N=3).to_dict() == {name: 1, "N": 3}
    assert pickle.loads(pickle.dumps(cfg)) == cfg


def test_a_parameter_may_be_named_self():
    assert Config(self=1).copy(self=2)["self"] == 2


def test_names_that_are_no_identifiers_are_reached_by_item():
    assert Config(**{"cell count": 1})["cell count"] == 1
    assert "cell count" not in dir(Config(**{"cell count": 1}))


def test_parameters_show_up_in_dir():
    assert {"N", "copy"} <= set(dir(Config(N=1)))


def test_repr_reads_like_the_call_that_made_it():
    cfg = Config(N=1, name="x")
    assert repr(cfg) == "Config(N=1, name='x')"
    assert eval(repr(cfg)) == cfg


def test_equality_looks_at_names_and_values_not_at_order():
    assert Config(a=1, b=2) == Config(b=2, a=1)
    assert Config(a=1) != Config(a=2)
    assert Config(a=1) != Config(b=1)
    assert Config(a=1) != Config(a=1, b=None)
    assert Config(a=1) != 1
    assert Config(a=1) == {"a": 1}


@pytest.mark.parametrize(
    "make",
    [
        lambda last: np.array([1, 2, last]),
        lambda last: [np.array([1, last])],
        lambda last: (1, {"inner": np.array([[last]])}),
        lambda last: Config(deep=np.array([last])),
        lambda last: np.array(["a", str(last)]),
    ],
)
def test_arrays_inside_are_compared_by_their_elements(make):
    assert Config(a=make(3)) == Config(a=make(3))
    assert Config(a=make(3)) != Config(a=make(4))


def test_an_array_of_arrays_is_compared_by_its_elements():
    def ragged(last):
        array = np.empty(2, dtype=object)
        array[0], array[1] = np.arange(2), np.array([1, 2, last])
        return array

    assert Config(a=ragged(3)) == Config(a=ragged(3))
    assert Config(a=ragged(3)) != Config(a=ragged(4))


def test_arrays_of_other_shapes_are_not_equal():
    assert Config(a=np.zeros(3)) != Config(a=np.zeros(4))
    assert Config(a=np.zeros(3)) != Config(a=np.zeros((1, 3)))
    assert Config(a=np.zeros(0)) != Config(a=np.zeros((0, 1)))


@pytest.mark.parametrize("other", [1, 1.0, "1", None, [1], (1,), [1, 2], {}, [[]]])
@pytest.mark.parametrize("array", [np.array([1]), np.array([1, 2]), np.array(1), np.array([])])
def test_an_array_equals_nothing_but_an_array_whichever_side_it_stands_on(array, other):
    assert Config(a=array) != Config(a=other)
    assert Config(a=other) != Config(a=array)


def test_lists_and_tuples_are_different_values():
    assert Config(a=[1]) != Config(a=(1,))
    assert Config(a=[1]) != Config(a=[1, 2])


def test_values_with_an_equals_method_are_asked_by_it():
    class Frame:
        def __init__(self, cells):
            self.cells = cells

        def __eq__(self, other):
            raise ValueError("no truth value")

        __hash__ = None

        def equals(self, other):
            return self.cells == other.cells

    assert Config(a=Frame([1])) == Config(a=Frame([1]))
    assert Config(a=Frame([1])) != Config(a=Frame([2]))
    assert Config(a=Frame([1])) != Config(a=1)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2)
        | st.tuples(inner)
    ),
    max_leaves=4,
)


@given(values, values)
def test_same_value_is_equality_where_python_has_one(left, right):
    assert same_value(left, right) == (left == right)
    assert same_value(left, copy.deepcopy(left))


@given(st.dictionaries(st.text(min_size=1, max_size=3), values, max_size=4))
def test_configs_of_equal_parameters_are_equal_and_survive_copying(parameters):
    cfg = Config(**parameters)
    assert cfg == Config(**copy.deepcopy(parameters))
    assert cfg.to_dict() == parameters
    assert pickle.loads(pickle.dumps(cfg)) == cfg
    assert copy.deepcopy(cfg) == cfg


def test_a_config_is_hashable_when_its_values_are():
    assert hash(Config(a=1, b="x")) == hash(Config(b="x", a=1))
    assert {Config(a=1): "one"}[Config(a=1)] == "one"
    assert len({Config(a=1), Config(a=1.0), Config(a=2)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Config(a=[1]))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_config_pickles_with_every_protocol(protocol):
    cfg = Config(N=1, cells=np.arange(3), inner=Config(M=2))
    loaded = pickle.loads(pickle.dumps(cfg, protocol))
    assert loaded == cfg
    assert type(loaded) is Config
    assert loaded.inner.M == 2


def test_copy_copy_and_deepcopy_make_equal_configs():
    cfg = Config(cells=[1, [2]])
    assert copy.copy(cfg) == cfg
    deep = copy.deepcopy(cfg)
    assert deep == cfg
    assert deep.cells is not cfg.cells
    assert deep.cells[1] is not cfg.cells[1]


class Radio(Config):
    @property
    def total(self):
        return self.N_UE * self.N_CELL


def test_a_subclass_stays_what_it_is_when_pickled_and_copied():
    radio = Radio(N_UE=2, N_CELL=3)
    assert pickle.loads(pickle.dumps(radio)).total == 6
    assert copy.deepcopy(radio).total == 6
    assert copy.copy(radio).total == 6


def test_tasks_see_the_config_object_of_the_dag():
    seen = []

    class Look(Task):
        def compute(self, cfg):
            seen.append(cfg)
            return {}

    cfg = Config(N=1)
    dag = DAG({"look": Look()}, [], cfg)
    dag.run()
    assert seen == [cfg]
    assert seen[0] is cfg
    assert dag.config is cfg
    assert dag.tasks["look"].config is cfg


@pytest.mark.external
def test_data_frames_are_comparable_parameters():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1, 2]})
    assert Config(a=frame) == Config(a=frame.copy())
    assert Config(a=frame) != Config(a=frame + 1)
    assert Config(a=frame) != Config(a=1)
    assert Config(a=1) != Config(a=frame)


def test_a_config_cannot_be_made_twice():
    cfg = Config(N=1)
    with pytest.raises(AttributeError, match="never changes"):
        cfg.__init__(N=2)
    assert cfg == Config(N=1)


def test_what_pickling_hands_out_is_a_copy():
    cfg = Config(N=1)
    _, (_, parameters) = cfg.__reduce__()
    parameters["N"] = 2
    assert cfg.N == 1


def test_a_mapping_by_position_is_refused_with_the_way_to_write_it():
    with pytest.raises(DeclarationError, match=r"\{'N': 3\}; .*Config\(N=3\)"):
        Config({"N": 3})


def test_structured_and_plain_arrays_are_different():
    structured = np.zeros(2, dtype=[("a", float)])
    assert not same_value(structured, np.zeros(2))
    assert not same_value(np.zeros(2), structured)
    assert same_value(structured, structured.copy())
