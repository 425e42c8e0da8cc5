import copy
import pickle
from collections.abc import Mapping

import numpy as np
import pytest

from dagprofiler import Config, DeclarationError


def test_a_config_is_an_ordered_mapping_with_attributes():
    cfg = Config(b=1, a=2)
    assert isinstance(cfg, Mapping)
    assert [*cfg.items()] == [*dict(**cfg).items()] == [("b", 1), ("a", 2)]
    assert (len(cfg), bool(Config())) == (2, False)
    array = np.arange(3)
    held = Config(array=array)
    assert held["array"] is held.copy().array is held.to_dict()["array"] is array
    assert held.copy(array=5, K=3) == Config(array=5, K=3)
    assert "a" in cfg
    assert "c" not in cfg
    assert repr(Config(N=1, name="x")) == "Config(N=1, name='x')"
    cfg = Config(**{"N": 1, "cell count": 2})
    assert hasattr(cfg, "N")
    assert not hasattr(cfg, "__array__")
    assert getattr(cfg, "M", 3) == 3
    assert {"N", "copy"} <= {*dir(cfg)}
    assert "cell count" not in dir(cfg)


def test_a_config_cannot_be_changed():
    cfg = Config(N=1)
    with pytest.raises(AttributeError, match=r"cannot set 'N'.*config\.copy\(N=\.\.\.\)"):
        cfg.N = 2
    for name in ("M", "_params"):
        with pytest.raises(AttributeError, match=f"^cannot set '{name}'"):
            setattr(cfg, name, {})
    with pytest.raises(AttributeError, match="cannot delete 'N'"):
        del cfg.N
    cfg.to_dict().update(N=2, M=3)
    _, (_, parameters) = cfg.__reduce__()
    parameters["N"] = 2
    assert cfg.to_dict() == {"N": 1}


@pytest.mark.parametrize(
    "name", ["get", "copy", "keys", "items", "to_dict", "_params", "self", "cell count"]
)
def test_a_key_that_is_no_attribute_is_reached_by_item(name):
    cfg = Config(**{name: 1, "N": 2})
    assert cfg[name] == 1
    assert cfg.get("N") == 2
    assert cfg.copy(**{name: 2, "N": 3}).to_dict() == {name: 2, "N": 3}
    assert pickle.loads(pickle.dumps(cfg)) == cfg


def test_equality_and_hash_look_at_names_and_values_not_at_order():
    assert Config(a=1, b=2) == Config(b=2, a=1)
    for other in (Config(a=2), Config(b=1), Config(a=1, b=None), 1):
        assert Config(a=1) != other
    assert Config(a=1) == {"a": 1}
    for other in ((1,), [1, 2]):
        assert Config(a=[1]) != Config(a=other)
    assert hash(Config(a=1, b="x")) == hash(Config(b="x", a=1))
    assert {Config(a=1): "one"}[Config(a=1)] == "one"
    assert len({Config(a=1), Config(a=1.0), Config(a=2)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Config(a=[1]))


@pytest.mark.parametrize(
    "make",
    [
        lambda last: np.array([1, 2, last]),
        lambda last: [np.array([1, last])],
        lambda last: (1, {"inner": np.array([[last]])}),
        lambda last: Config(deep=np.array([last])),
        np.zeros,
        lambda last: np.zeros(0 if last == 3 else (0, 1)),
        lambda last: np.zeros(2, dtype=float if last == 3 else [("a", float)]),
    ],
)
def test_configs_compare_arrays_by_their_elements(make):
    assert Config(a=make(3)) == Config(a=make(3))
    assert Config(a=make(3)) != Config(a=make(4))
    assert Config(a=make(4)) != Config(a=make(3))
    for other in (1, "1", None, [1], {}):
        assert Config(a=np.array([1])) != Config(a=other)
        assert Config(a=other) != Config(a=np.array([1]))


def test_values_with_an_equals_method_are_asked_by_it():
    class Frame:
        __hash__ = None

        def __init__(self, cells):
            self.cells = cells

        def __eq__(self, other):
            raise ValueError("no truth value")

        def equals(self, other):
            return self.cells == other.cells

    assert Config(a=Frame([1])) == Config(a=Frame([1]))
    assert Config(a=Frame([1])) != Config(a=Frame([2]))
    assert Config(a=Frame([1])) != Config(a=1)


class Radio(Config):
    @property
    def total(self):
        return self.N_UE * self.N_CELL


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_configs_and_subclasses_pickle(protocol):
    cfg = Config(N=1, cells=np.arange(3), inner=Config(M=2))
    loaded = pickle.loads(pickle.dumps(cfg, protocol))
    assert (loaded, type(loaded), loaded.inner.M) == (cfg, Config, 2)
    assert copy.deepcopy(cfg).cells is not cfg.cells
    radio = Radio(N_UE=2, N_CELL=3)
    for made in (pickle.loads(pickle.dumps(radio)), copy.deepcopy(radio), copy.copy(radio)):
        assert made.total == 6


def test_unknown_attributes_name_the_nearest():
    with pytest.raises(AttributeError, match=r"'N_EU' \(.*'N_UE', 'N_CELL'\); .*'N_UE'"):
        _ = Config(N_UE=1, N_CELL=2).N_EU
    with pytest.raises(AttributeError, match=r"'N' \(.*none\)"):
        _ = Config().N
    with pytest.raises(DeclarationError, match=r"\{'N': 3\}; .*Config\(N=3\)"):
        Config({"N": 3})
