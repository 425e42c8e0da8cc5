import warnings

import numpy as np
import pytest

from dagprofiler.measure.random import MT19937, generators_restored, seed_at_once

KEY = bytes(range(32))
WORDS = [int.from_bytes(KEY[i : i + 4], "big") for i in range(0, 32, 4)]

#: Functions of every kind that draws, and their arguments.
ARGUMENTS = {
    "random": (),
    "standard_normal": (),
    "gamma": (2,),
    "binomial": (10, 0.5),
    "dirichlet": ([1, 2],),
    "bytes": (8,),
    "randn": (5,),
    "choice": (10,),
    "randint": (10,),
}

when_drawn = pytest.mark.skipif(
    not hasattr(np.random, "set_bit_generator"), reason="this numpy has one bit generator"
)


@pytest.fixture(params=[pytest.param("drawn", marks=when_drawn), "at once"])
def stream(request):
    """What puts numpy's legacy generator into a stream, which it has left afterwards."""
    with generators_restored():
        yield MT19937().stream if request.param == "drawn" else seed_at_once


@pytest.mark.parametrize("name", ARGUMENTS)
def test_whatever_draws_first_draws_from_the_stream(stream, name):
    expected = getattr(np.random.RandomState(WORDS), name)(*ARGUMENTS[name])
    for _ in range(2):
        stream(KEY)
        assert np.array_equal(getattr(np.random, name)(*ARGUMENTS[name]), expected)


def test_a_look_at_the_state_may_come_first(stream):
    expected = np.random.RandomState(WORDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream(KEY)
        kind, words, *_ = np.random.get_state()
    assert (kind, words.tolist()) == ("MT19937", expected.get_state()[1].tolist())
    assert np.random.random() == expected.random_sample()


@pytest.mark.parametrize("drawn", [0, 1])
def test_a_task_may_seed_by_itself_and_set_a_state(stream, drawn):
    expected = np.random.RandomState(5)
    stream(KEY)
    np.random.random(drawn)
    np.random.seed(5)
    assert np.random.standard_normal() == expected.standard_normal()
    # A state has the second of a pair of normals.
    state = expected.get_state()
    stream(KEY)
    np.random.random(drawn)
    np.random.set_state(state)
    assert [*np.random.standard_normal(2)] == [*expected.standard_normal(2)]
    # No half of a pair is left to the next task.
    first, second = ((stream(KEY), np.random.standard_normal())[1] for _ in range(2))
    assert first == second
