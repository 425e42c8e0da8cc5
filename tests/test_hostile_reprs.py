"""Whatever is given where something else is expected, the message is short and there."""

import io
import json
from functools import partial
from types import SimpleNamespace

import pytest
from handmade import sink, source
from hostile import NoClass, Raising, ReprRaised, Unnamed

from dagprofiler import DAG, Config, DagProfilerError, Profile, Rounds, RunError, Task, task
from dagprofiler.analysis.critical_path import analyze
from dagprofiler.analysis.weights import Weights, weights_of
from dagprofiler.decorators import dag as make_dag
from dagprofiler.engine.hooks import Tracer
from dagprofiler.errors import WeightError, describe, did_you_mean, json_path, short_repr
from dagprofiler.executors.pools import PoolExecutor
from dagprofiler.experiments import compare_runs
from dagprofiler.formats import exporter_names, import_profile
from dagprofiler.journal import Journal
from dagprofiler.measure.calibrate import Calibration, calibrate
from dagprofiler.rules import Rule, Rules, map_over, reduce, rule
from dagprofiler.tracing import span, trace

MOST, LONG = 2000, "x" * 10**6


class Huge:
    def __repr__(self):
        return "x" * 100_000


class Rude:
    """Breaks the line, colours the terminal, and cannot be encoded."""

    def __repr__(self):
        return "a\nb\x1b[31m\ud800"


class OfAHostileClass(metaclass=Unnamed):
    __repr__ = object.__repr__


HOSTILE = [Raising, Huge, Rude, OfAHostileClass]


def small(config=None):
    return DAG({"a": source(), "b": sink()}, [("a", "b")], config)


PROFILE = small().run()
DOCUMENT = PROFILE.to_dict()


def declared(**declaration):
    return type("Declared", (Task,), {"compute": lambda self: {}, "outputs": [], **declaration})


def giving(value):
    return DAG({"a": task(outputs=["x"])(lambda: value)()}).run()


def costing(value):
    return DAG({"a": task(outputs=["x"], estimate_fn=lambda cfg: value)(lambda: {"x": 1})()}).run()


def failing(value):
    def fails():
        raise ValueError(value, value)

    return DAG({"a": task(outputs=["x"])(fails)()}).run()


def serialized(value):
    made = source()
    made.serializer = SimpleNamespace(
        name="own", dumps=lambda _: value, loads=lambda frames: frames
    )
    return DAG({"a": made}).run()


class Meter:
    name, unit, reason, reading = "own", "J", None, 1

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def start(self):
        pass

    def stop(self):
        return self.reading


def metered(**attributes):
    small().run(meters=[Meter(**attributes)], rounds=2).dumps()


def linked(fields):
    return DAG({"a": source(), "b": sink()}, [("a", "b", fields)])


def traced(**options):
    return trace(**options)(lambda: None)


def by_rule(**arguments):
    def grows(graph):
        return arguments.get("answer", True)

    def body(draft):
        if "task" in arguments:
            draft.add(arguments["task"], source())
        if "edge" in arguments:
            draft.add("c", source(), after=arguments["edge"])
        return arguments.get("returned")

    made = Rule(grows, body, "grows", adds=["c"])
    return DAG({"a": source()}, rules=[made]).run()


def profile_with(*path):
    def load(value):
        document = json.loads(json.dumps(DOCUMENT))
        place = document
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
        return Profile.from_dict(document)

    return load


def keywords(call, *names):
    function = getattr(call, "func", call)
    return {
        f"{function.__qualname__}({name}=)": lambda value, name=name: call(**{name: value})
        for name in names
    }


#: Those of any exporter; the others refuse them by name.
OPTIONS = (
    *("cost", "statistic", "rate", "fill", "size", "network", "bandwidth", "table", "edges"),
    *("instance_name", "version", "base", "missing", "unknown"),
)

#: Each takes one value.
PLAIN = (
    *(DAG, DAG.from_yaml, Config, giving, costing, failing, serialized, task, rule, Rules),
    *(Journal, analyze, calibrate, import_profile, trace, linked),
    *(Profile.load, Profile.loads, Profile.from_dict),
    *(PROFILE.save, PROFILE.export, PROFILE.compare),
)
CALLS = {
    **{call.__qualname__: call for call in PLAIN},
    **keywords(small().run, "seed", "inputs", "rounds", "meters", "executor", "priorities"),
    **keywords(small().run, "timeout", "hooks", "keep", "on_error"),
    **keywords(Rounds, "n", "warmup", "max_rounds", "max_time_s", "precision"),
    **keywords(Rounds, "collect_garbage", "fresh_process", "busy_cores", "check_outputs"),
    **keywords(partial(Rule, lambda _: True, lambda _: None), "name", "adds", "reads"),
    **keywords(partial(Rules, []), "strict", "max_tasks", "max_depth"),
    **keywords(PROFILE.weights, "source", "statistic", "rate", "fill"),
    **keywords(partial(analyze, PROFILE), "cost", "statistic", "rate", "size"),
    **keywords(partial(analyze, PROFILE), "bandwidth_bits_per_s", "workers"),
    **keywords(Tracer, "functions", "floor_ms", "limit"),
    **keywords(declared, "inputs", "outputs", "config_deps", "gathers", "serializer"),
    **keywords(task, "inputs", "outputs", "config_deps", "estimate_fn"),
    **keywords(PROFILE.draw, "nodes", "cost", "statistic"),
    **keywords(PROFILE.report, "path", "base", "cost", "statistic"),
    **keywords(by_rule, "answer", "returned", "task", "edge"),
    **keywords(partial(DAG, {"a": source()}), "edges", "config", "rules"),
    **keywords(metered, "name", "unit", "reading", "reason"),
    **keywords(partial(map_over, source="a", field="x", task=source()), "source", "field", "task"),
    **keywords(partial(compare_runs, base=small(), new=small()), "base", "new"),
    **keywords(traced, "name", "category"),
    **{
        f"export({form}, {option}=)": lambda value, form=form, option=option: PROFILE.export(
            io.StringIO(), form, **{option: value}
        )
        for form in exporter_names()
        for option in OPTIONS
    },
    "DAG(a task)": lambda value: DAG({"a": value}),
    "DAG(a name)": lambda value: DAG({value: source()}),
    "a long name of no task": lambda _: DAG({LONG: 3}),
    "a long name of a task without its input": lambda _: DAG({LONG: sink()}).run(),
    "a long name of a task that fails": lambda _: DAG({LONG: task(outputs=["x"])(len)()}).run(),
    "DAG(an edge)": lambda value: DAG({"a": source()}, [value]),
    "DAG(an end)": lambda value: DAG({"a": source()}, [("a", value)]),
    "DAG(a field)": lambda value: linked([value]),
    "DAG(a map)": lambda value: linked({"x": value}),
    "DAG(a rule)": lambda value: DAG({"a": source()}, rules=[value]),
    "DAG.resume()": lambda value: small().resume(value),
    "dag.tasks": lambda value: small().tasks.update(a=value) or small().run(),
    "Config(value)": lambda value: small(Config(value=value)).run().dumps() and None,
    "Config.attribute": lambda value: getattr(Config(a=value), "b"),  # noqa: B009
    "run(inputs of a task)": lambda value: small().run(inputs={"a": value}),
    "run(inputs of an unknown task)": lambda value: small().run(inputs={value: {}}),
    "run(input)": lambda value: DAG({"b": sink()}).run(inputs={"b": {"x": value}}).dumps() and None,
    "run(an unknown input)": lambda value: small().run(inputs={"a": {value: 1}}),
    "run(a hook)": lambda value: small().run(hooks=[value]),
    "run(a meter)": lambda value: small().run(meters=[value]),
    "run(a kept task)": lambda value: small().run(keep=[value]),
    "run(a priority)": lambda value: small().run(priorities={"a": value, "b": 1}),
    "an output": lambda value: giving({"x": value}),
    "outputs' names": lambda value: giving({"x": 1, value: 1}),
    "Task(name)": lambda value: source(name=value),
    "config_deps": lambda value: declared(config_deps=[value]),
    "an input's name": lambda value: declared(inputs=[value]),
    "dag(a task)": lambda value: make_dag([value]),
    "Rule(when)": lambda value: Rule(value, lambda draft: None),
    "Rule(then)": lambda value: Rule(lambda graph: True, value),
    "reduce(task)": lambda value: reduce("a", value),
    "PoolExecutor()": lambda value: small().run(executor=PoolExecutor(value)),
    "Calibration": lambda value: Calibration.from_dict({"score": value}),
    "import_profile(format)": lambda value: import_profile(io.StringIO("{}"), value),
    "Profile.export(format)": lambda value: PROFILE.export(io.StringIO(), value),
    "a section": profile_with("own"),
    "a weight": profile_with("node_weights", "a"),
    "a weight's name": lambda value: Profile.from_dict({**DOCUMENT, "node_weights": {value: 1}}),
    "a timestamp": profile_with("metadata", "timestamp"),
    "a parameter": profile_with("configuration", "own"),
    "weights_of": lambda value: weights_of(PROFILE, value),
    "WeightError": lambda value: str(WeightError(value, [], "")),
    "Weights": lambda value: Weights({}, value, "", "", "").unit,
    "span": lambda value: span(value).__enter__(),
    "describe": lambda value: describe(ValueError(value)),
    "did_you_mean": lambda value: did_you_mean(value, ["a"]),
    "json_path": lambda value: json_path([value]),
}


def check_call(call, value):
    """Look at what a call returns or raises; which error it is, is for other tests."""
    try:
        made = call(value)
    except Exception as error:  # noqa: BLE001
        made = error
    assert type(made) is not ReprRaised
    texts = [str(made)] if isinstance(made, (str, Exception)) else []
    if isinstance(made, RunError):
        saved = made.profile.dumps()
        assert len(saved) < 20_000
        assert Profile.loads(saved) == made.profile
        run = made.profile.sections["run"]
        texts += [run["reason"], *(entry.get("error", "") for entry in run["tasks"].values())]
    for text in texts:
        assert len(text) <= MOST, text[:200]
        text.encode()
        assert "\x1b" not in text


@pytest.mark.parametrize("name", CALLS)
def test_a_value_whose_repr_is_hostile_is_refused_in_short(name):
    for hostile in HOSTILE:
        check_call(CALLS[name], hostile())


class NoHash:
    def __hash__(self):
        raise RuntimeError("no hash")


LOOKS = {"DAG", "linked", *(n for n in CALLS if n.startswith(("DAG(", "DAG.run(", "run(a kept")))}


@pytest.mark.parametrize("name", sorted(LOOKS - {"DAG(a name)", "DAG.run(priorities=)"}))
def test_an_argument_that_raises_when_it_is_looked_at_is_refused(name):
    for hostile in (NoClass(), NoHash()):
        with pytest.raises(DagProfilerError):
            CALLS[name](hostile)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("it's", '"it\'s"'),
        (Rude(), r"a b\x1b[31m\ud800"),
        (Raising(), "<Raising whose repr raises ReprRaised>"),
        (type("No", (), {"__repr__": lambda self: 3})(), "<No whose repr raises TypeError>"),
        ("two  blanks\n", r"'two  blanks\n'"),
    ],
)
def test_a_short_repr_is_the_repr_on_one_line(value, text):
    assert short_repr(value) == text


def test_a_short_repr_keeps_both_ends_and_interrupts_are_no_part_of_a_message():
    text = short_repr(["first", *range(100_000), "last"])
    assert text.startswith("['first', 0, 1")
    assert text.endswith("99999, 'last']")
    assert len(text) < 310
    assert len(short_repr("\ud800" * 1000)) < 310

    class Interrupted:
        def __repr__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        short_repr(Interrupted())
