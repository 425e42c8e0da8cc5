from __future__ import annotations

import pickle
import sys
import weakref
import zlib
from collections import Counter
from typing import Any

import numpy as np
import pytest
from handmade import failure
from hypothesis import example, given
from hypothesis import strategies as st
from steps import Calls, Notes, Timed, always, spent_ms

from dagprofiler import DAG, Profile, RunError, Task, ValidationError

# A brute-force reference in plain dicts, and random programs for it.

FIELDS = "pqrst"
NAMES = st.text("ab-> é.", min_size=1, max_size=3).filter(lambda name: "->" not in name)


class Node(Task):
    """Makes values of many kinds, all of which follow from what it received."""

    def __init__(self, name, before, outputs, inputs, gathers):
        super().__init__(name)
        self.before = before
        self.outputs, self.inputs, self.gathers = outputs, inputs, gathers

    def compute(self, cfg, **fields):
        if self.before is not None:
            self.before(self.name)
        return produce(self.outputs, fields)


def dag_of(nodes, edges, before=None, **options):
    """Return the DAG of a program; it calls `before` with the name of each task that computes."""
    return DAG({name: Node(name, before, *node) for name, node in nodes.items()}, edges, **options)


def produce(outputs, fields):
    """Return values of many kinds, which depend on all of `fields`."""
    digest = zlib.crc32(repr(sorted(fields.items())).encode())
    kinds = (
        lambda n: str(n).encode() * (n % 4),
        lambda n: np.full(n % 5, n),
        lambda n: np.array([n, str(n)], dtype=object),
        lambda n: [n, {"n": n / 7}],
        lambda n: f"{n}" * (n % 3),
        lambda n: n,
    )
    return {
        field: kinds[(digest + 3 * place) % len(kinds)](digest + place)
        for place, field in enumerate(outputs)
    }


def some_of(items):
    return st.lists(st.sampled_from(items), unique=True) if items else st.just([])


@st.composite
def programs(draw):
    """Return {name: (outputs, inputs, gathers)} and edges without a cycle, in any order."""
    names = draw(st.lists(NAMES, unique=True, max_size=7))
    nodes = {}
    for name in names:
        inputs = draw(some_of(FIELDS))
        nodes[name] = (draw(some_of(FIELDS)), inputs, draw(some_of(inputs)))
    edges = []
    for place, target in enumerate(names):
        for source in draw(some_of(names[:place])):
            outputs = draw(st.permutations(nodes[source][0]))
            renamed = {field: draw(st.sampled_from(FIELDS)) for field in outputs}
            cut = draw(st.integers(0, len(outputs)))
            first, second = outputs[:cut], outputs[cut:]
            forms = [[(source, target, *fields)] for fields in ([], [[]], [first], [renamed])]
            if first and second:
                rest = {field: renamed[field] for field in second}
                forms.append([(source, target, first), (source, target, rest)])
            edges += draw(st.sampled_from(forms))
    order = draw(st.permutations(sorted(names)))
    return {name: nodes[name] for name in order}, draw(st.permutations(edges))


class Reference:
    """What must come of a program, found the slow way."""

    def __init__(self, nodes, edges, failing=(), on_error="finish", outside=()):
        self.routes, self.outside = [], outside
        for source, target, *fields in edges:
            (outputs, *_), (_, inputs, _) = nodes[source], nodes[target]
            if not fields:
                pairs = [(f, f) for f in sorted(outputs) if f in inputs]
                pairs = pairs or [(f, f) for f in sorted(outputs)]
            elif isinstance(fields[0], dict):
                pairs = list(fields[0].items())
            else:
                pairs = [(f, f) for f in fields[0]]
            self.routes += [(source, output, target, field) for output, field in pairs]
        self.before = {name: {s for s, t, *_ in edges if t == name} for name in nodes}
        self.order = []
        while len(self.order) < len(nodes):
            done = set(self.order)
            self.order.append(
                min(name for name in nodes if name not in done and self.before[name] <= done)
            )
        self.ambiguous = {
            (target, field)
            for (target, field), n in Counter((t, f) for _, _, t, f in self.routes).items()
            if n > 1 and field not in nodes[target][2]
        }
        self.values, self.states = {}, {}
        for name in self.order:
            if not all(self.states[b] == "succeeded" for b in self.before[name]):
                bad = {self.states[b] for b in self.before[name]}
                self.states[name] = "skipped" if bad & {"failed", "skipped"} else "cancelled"
            elif on_error == "stop" and "failed" in self.states.values():
                self.states[name] = "cancelled"
            elif name in failing:
                self.states[name] = "failed"
            else:
                self.states[name] = "succeeded"
                self.values[name] = self._execute(name, *nodes[name])

    def _execute(self, name, outputs, inputs, gathers):
        fields: dict[str, Any] = {field: [] for field in gathers}
        fields.update({"outside": 1} if name in self.outside else {})
        for source, output, target, field in self.routes:
            if target == name and field in gathers:
                fields[field].append(self.values[source][output])
            elif target == name:
                fields[field] = self.values[source][output]
        return produce(outputs, fields)

    def carried(self, source, target):
        return [output for s, output, t, _ in self.routes if (s, t) == (source, target)]


def payload(value):
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.nbytes
    return wire(value)


def wire(value):
    return len(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


@given(programs())
def test_random_dags_do_as_a_brute_force_router_does(program):
    nodes, edges = program
    dag, expected = dag_of(*program), Reference(*program)
    assert dag.execution_order == expected.order
    if expected.ambiguous:
        with pytest.raises(ValidationError) as caught:
            dag.run()
        words = [str(problem).split(" has ")[0] for problem in caught.value.problems]
        assert sorted(words) == sorted(f"task {t!r}: input {f!r}" for t, f in expected.ambiguous)
        return
    profile = dag.run(keep=nodes)
    assert list(profile.outputs) == expected.order
    assert repr(profile.outputs) == repr(expected.values)
    assert profile.final_outputs is [{}, *profile.outputs.values()][-1] or not nodes
    measured = profile.metrics.edge_metrics
    # Edges come by source, sources in the order in which edges name them, as in 0.1.0.
    pairs, sources = dict.fromkeys((s, t) for s, t, *_ in edges), [s for s, *_ in edges]
    by_source = sorted(pairs, key=lambda edge: sources.index(edge[0]))
    assert [*dag.edge_fields] == [(e.source, e.target) for e in measured] == by_source
    assert [(e["source"], e["target"]) for e in profile.dag_structure["edges"]] == by_source
    assert [*profile.metrics.edge_weights] == [f"{s}->{t}" for s, t in by_source]
    for edge in measured:
        assert edge.data_fields == expected.carried(edge.source, edge.target)
        values = {field: expected.values[edge.source][field] for field in edge.data_fields}
        assert edge.field_bytes == {
            field: {"size_bytes": payload(value), "wire_bytes": wire(value)}
            for field, value in values.items()
        }
        assert edge.size_bytes == sum(map(payload, values.values()))
        assert edge.wire_bytes == sum(map(wire, values.values()))
        assert profile.metrics.edge_weights[f"{edge.source}->{edge.target}"] == edge.size_bits
    assert [one.task for one in profile.metrics.task_metrics] == expected.order
    for one in profile.metrics.task_metrics:
        arriving = [(s, o) for s, o, t, _ in expected.routes if t == one.task]
        assert one.bytes_in == sum(wire(expected.values[s][o]) for s, o in arriving)
        assert one.bytes_out == sum(map(wire, expected.values[one.task].values()))
    assert_that_it_survives_its_document(profile)


class Frame(bytearray):
    """Serialized data that can be counted while it lives."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other


class Counting:
    """A serializer that knows which frames are alive, and how often it was called."""

    name = "counting"

    def __init__(self):
        self.alive = weakref.WeakSet()
        self.dumped = self.loaded = 0

    def dumps(self, obj):
        self.dumped += 1
        frame = Frame(pickle.dumps(obj))
        self.alive.add(frame)
        return [frame]

    def loads(self, frames):
        self.loaded += 1
        return pickle.loads(frames[0])

    def values(self):
        return sorted(repr(pickle.loads(frame)) for frame in self.alive)


def step(*outputs):
    """Return a task whose outputs are their names."""
    return Calls(always(**dict(zip(outputs, outputs))), outputs)


#: If b fails, c and d are skipped: what a has made is for e alone.
BRANCHES = {name: (["p", "q"], [], []) for name in "abcde"}
TO_SKIP = [("a", "c", ["p"]), ("b", "c", []), ("c", "d", []), ("a", "d", ["q"]), ("a", "e", ["q"])]
PLACES = st.sets(st.integers(0, 6))


@given(programs(), PLACES, PLACES, st.sampled_from(["stop", "finish"]))
@example((BRANCHES, TO_SKIP), {1}, {2}, "stop")
@example((BRANCHES, TO_SKIP), {1}, {2}, "finish")
def test_random_failures_leave_states_and_bytes_as_brute_force(program, fail, given, on_error):
    nodes, edges = program
    failing, outside = (
        [name for place, name in enumerate(sorted(nodes)) if place in places]
        for places in (fail, given)
    )
    expected = Reference(nodes, edges, failing, on_error, outside)
    if expected.ambiguous:
        return
    serializer, alive = Counting(), {}

    def before(name):
        alive[name] = serializer.values()
        if name in failing:
            raise ValueError(name)

    dag = dag_of(nodes, edges, before, serializer=serializer)
    asked = {"keep": nodes, "on_error": on_error}
    asked["inputs"] = {name: {"outside": 1} for name in outside}
    failed = [name for name in expected.order if expected.states[name] == "failed"]
    if failed:
        # While the error is alive its traceback refers to the run's frames.
        error = failure(dag, **asked)
        assert list(error.failures) == failed
        assert error.task == failed[0]
        assert error.__cause__ is error.failures[failed[0]]
        profile = error.profile
        states = {name: s for name, s in expected.states.items() if s != "succeeded"}
        recorded = profile.to_dict()["run"]["tasks"]
        assert {name: task["state"] for name, task in recorded.items()} == states
    else:
        profile = dag.run(**asked)
    assert [*alive] == [n for n in expected.order if expected.states[n] in ("succeeded", "failed")]
    assert repr(profile.outputs) == repr(expected.values)
    assert [one.task for one in profile.metrics.task_metrics] == list(expected.values)
    assert_that_it_survives_its_document(profile)
    # Exactly the bytes that somebody still needs are alive.
    assert not serializer.alive
    for place, name in enumerate(expected.order):
        if name in alive:
            done, to_come = expected.order[:place], expected.order[place + 1 :]
            known = Reference(nodes, edges, {*failing}.intersection(done)).states
            needed = {
                (s, o)
                for s, o, t, _ in expected.routes
                if s in expected.values.keys() & done and t in to_come and known[t] != "skipped"
            }
            values = [expected.values[s][o] for s, o in needed]
            values += [1 for other in outside if other in to_come or other not in alive]
            assert alive[name] == sorted(map(repr, values))
    outputs = sum(len(nodes[name][0]) for name in expected.values)
    assert serializer.dumped == outputs + len(outside)
    inputs = [target for *_, target, _ in expected.routes] + outside
    assert serializer.loaded == sum(target in alive for target in inputs)


def test_consumers_do_not_share_values():
    appends = Calls(lambda _, x: x.append(1) or {"y": x}, "y", "x")
    tasks = {"a": Calls(lambda _: {"x": [0]}), "b": appends, "c": appends}
    profile = DAG(tasks, [("a", "b"), ("a", "c")]).run(keep=["a"])
    assert profile.outputs == {"a": {"x": [0]}, "b": {"y": [0, 1]}, "c": {"y": [0, 1]}}


class Marked:
    """A serializer whose bytes, and whose values after decoding, say that it was used."""

    def __init__(self, name):
        self.name = name

    def dumps(self, obj):
        return pickle.dumps((self.name, obj))

    def loads(self, frames):
        name, obj = pickle.loads(frames)
        assert name == self.name
        return f"{obj} by {name}"


class Own(Calls):
    serialize = staticmethod(Marked("own").dumps)
    deserialize = staticmethod(Marked("own").loads)


def altered(task, **attributes):
    vars(task).update(attributes)
    return task


def sees(**attributes):
    return altered(Calls(lambda _, **fields: {"seen": fields}, ["seen"]), **attributes)


def gives(value, kind=Calls, **attributes):
    return altered(kind(always(x=value)), **attributes)


@pytest.mark.parametrize("serializer", [None, Marked("dag")])
def test_the_producer_decides_on_the_format(serializer):
    consumer = {"serializer": Marked("consumer"), "deserialize": Marked("consumer").loads}
    tasks = {
        "p": gives("p"),
        "q": gives("q", serializer=Marked("task")),
        "r": gives("r", Own),
        "s": gives("s", Own, serializer=Marked("task")),
        "t": gives("t", serialize=Own.serialize, deserialize=Own.deserialize),
    }
    edges = [(name, "z", {"x": name}) for name in tasks]
    dag = DAG({**tasks, "z": sees(**consumer)}, edges, serializer=serializer)
    profile = dag.run()
    assert profile.final_outputs["seen"] == {
        "p": "p by dag" if serializer else "p",
        "q": "q by task",
        **{name: f"{name} by own" for name in "rst"},
    }
    weighed = {one.source: (one.size_bytes, one.wire_bytes) for one in profile.metrics.edge_metrics}
    assert weighed["r"] == (len(Own.serialize("r")),) * 2


def test_run_inputs_use_the_format_of_their_task():
    profile = DAG({"b": sees(serializer=Marked("consumer"))}).run(inputs={"b": {"x": "v"}})
    assert profile.final_outputs == {"seen": {"x": "v by consumer"}}
    assert profile.metrics.task_metrics[0].bytes_in == len(Marked("consumer").dumps("v"))


@pytest.mark.parametrize("on_error", ["stop", "finish"])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no such\n  cell"), "ValueError: no such cell"),
        (StopIteration("end"), "StopIteration: end"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (SystemExit(3), "SystemExit: 3"),
    ],
    ids=repr,
)
def test_errors_carry_a_partial_profile(on_error, error, words):
    def fails(_, **fields):
        raise error

    tasks = {**{name: step(name) for name in "Aacde"}, "b": Calls(fails)}
    dag = DAG(tasks, [("a", "b"), ("b", "c"), ("c", "d")])
    notes = Notes()
    with pytest.raises((RunError, type(error))) as caught:
        dag.run(on_error=on_error, hooks=[notes])
    assert notes.calls[-1] == ("close",)
    profile = caught.value.profile
    assert Profile.loads(profile.dumps()) == profile
    run = profile.to_dict()["run"]
    assert run["state"] == "partial"
    run["tasks"]["b"].pop("traceback", None)
    goes_on = on_error == "finish" and isinstance(error, Exception)
    skipped = {"state": "skipped"}
    states = {"b": {"state": "failed", "error": words}, "c": skipped, "d": skipped}
    assert run["tasks"] == {**states, **({} if goes_on else {"e": {"state": "cancelled"}})}
    assert [one.task for one in profile.metrics.task_metrics] == [*"Aa", *("e" if goes_on else "")]
    # Those of the last task alone.
    assert profile.final_outputs == ({"e": "e"} if goes_on else {})
    assert profile.outputs == {"A": {"A": "A"}, **({"e": {"e": "e"}} if goes_on else {})}
    assert list(profile.metrics.edge_weights) == ["a->b"]
    if isinstance(error, Exception):
        run_error = caught.value
        assert isinstance(run_error, RuntimeError)
        assert str(run_error) == run["reason"] == f"task 'b' failed: {words}"
        assert (run_error.task, run_error.failures) == ("b", {"b": error})
        assert run_error.__cause__ is error
    else:
        assert caught.value is error
        assert run["reason"].startswith(f"interrupted by {type(error).__name__}")


def assert_that_it_survives_its_document(profile):
    again = Profile.loads(profile.dumps())
    assert again == profile
    assert again.metrics == profile.metrics
    assert again.sections == profile.sections
    assert again.dag_structure == profile.dag_structure
    assert again.dumps() == profile.dumps()


@pytest.mark.parametrize(
    ("phase", "error", "took_ms"),
    [
        ("function", ValueError("no"), [0, 0, 0, 7000, None, None]),
        ("function", KeyboardInterrupt(), [0, 0, 0, 7000, None, None]),
        ("serialize", ValueError("no"), [0, 0, 0, 2000, 2000, 9000]),
        ("deserialize", ValueError("no"), [0, 7000, None, None, None, None]),
    ],
)
def test_an_error_ends_its_phase_and_its_time_is_kept(clock, phase, error, took_ms):
    def fails(_):
        clock.passes(7)
        raise error

    tasks = {"a": Timed(clock), "b": Timed(clock, inputs=["x"], outputs=[])}
    setattr(tasks["a"], phase, fails)
    with pytest.raises((RunError, KeyboardInterrupt)) as caught:
        DAG(tasks, [("a", "b")]).run()
    document = caught.value.profile.to_dict()
    *_, row = document["timeline"]["records"]
    assert [None if t is None else t - row[4] for t in row[4:]] == took_ms
    assert document["run"]["overhead"]["loop_ms"] == 0.0
    assert spent_ms(document) == document["total_time_ms"]


def test_loading_what_seeds_need_is_no_time_of_a_run(clock, monkeypatch):
    generators = "dagprofiler.measure.random"

    class Finder:
        def find_spec(self, name, *_):
            clock.passes(5 * (name == generators))

    monkeypatch.delitem(sys.modules, generators, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    assert DAG({"a": step("p")}).run(seed=1).metrics.total_time_ms == 0
    assert clock.now == 1005


def test_inputs_come_by_source_as_in_0_1_0():
    received = Calls(lambda _, **fields: {"order": list(fields)}, ["order"], "pq")
    tasks = {"a": step("p"), "b": step("q"), "x": step(), "z": received}
    dag = DAG(tasks, [("a", "x", []), ("b", "z"), ("a", "z")])
    assert dag.run().final_outputs == {"order": ["p", "q"]}
    assert list(dag.reverse_edges["z"]) == ["a", "b"]
