"""fit(): cost models of the tasks and edges of a DAG over the parameters of its config."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from math import hypot, log2, sqrt
from statistics import stdev
from typing import Any

from dagprofiler._document.table import edges_of, entries_of_tasks
from dagprofiler._util import JsonObject, grouped
from dagprofiler._util.checks import instance, number, plain_number
from dagprofiler._util.html import ShownInBlocks
from dagprofiler._util.text import Block, class_of, doubts, printable, some
from dagprofiler.analysis.compare import same_parameter
from dagprofiler.config import Config, no_parameter
from dagprofiler.errors import counted, refused, short_repr
from dagprofiler.metrics import DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.predict._normal_form import Fit, Power, fit_points, longest_line
from dagprofiler.predict._simulate import INTERVALS, bytes_on, graph_of, predicted, sources_of
from dagprofiler.profile import Profile
from dagprofiler.stats import median

#: Fewest values of a parameter, and fewest that tell its form.
_LEAST, _ENOUGH = 3, 4

#: Least uncertainty of a time, relative to it: machines differ by that from minute to minute.
_DRIFT = 0.03

#: From this ratio to the largest measured value on a prediction is not trusted.
_FAR = 4.0

#: Ratio of the ends of an interval from which on a prediction is doubtful.
_APART = 1.5

#: Share of all times from which on a doubtful model makes a prediction doubtful.
_WEIGHTY = 0.05

#: What reading the clock and touching memory first add to a time, in ms: no less is a trend.
_CLOCK_MS = 1e-3

#: Error of a model from which on it is doubtful, and from which on it says nothing.
_LARGE, _UNKNOWN = 0.1, 0.3

#: Error of a model of bytes from which on they are not known exactly beyond the measured sizes.
_INEXACT = 2e-3

#: Error of a relation between two parameters up to which it is kept.
_RELATED = 0.01

#: From this size on the C library may take the memory of a value anew, in bytes, or use what was
#: freed, which depends on what ran before; and what touching fresh memory costs at most, in ms for
#: each byte: 256 pages a MB, of 2 us. At least so much of a time is none of that.
_MAPPED_BYTES, _TOUCH_MS, _UNTOUCHED = 2**17, 0.6e-6, 0.15

#: Size of values that the caches of a core hold, in bytes; by which part a task may take longer for
#: each doubling beyond that; and how many times longer serializing may take.
_CACHED_BYTES, _UNCACHED, _OBJECTS_UNCACHED = 1e6, 0.25, 3.0

#: Quantities of tasks: their unit, and columns of samples or fields, the first of which is used.
_TASK = {
    "inputs": ("bytes", ("bytes_in",)),
    "deserializing": ("ms", ("deserialize_ms", "deserialize_time_ms")),
    "compute()": ("ms", ("corrected_ms", "wall_ms", "compute_time_ms")),
    "CPU time": ("ms", ("cpu_ms",)),
    "counted": ("instructions", ("instructions",)),
    "estimated": ("instructions", ("estimated_instructions",)),
    "outputs": ("bytes", ("bytes_out",)),
    "serializing": ("ms", ("serialize_ms", "serialize_time_ms")),
}

#: Times that are a matter of bytes, and of which.
_BYTES = {"deserializing": "inputs", "serializing": "outputs"}


@dataclass(frozen=True)
class CostModel:
    """What one quantity of a class of tasks, or of edges, costs over the configuration.

    Times of serializing and deserializing are modelled over the MB (1e6 bytes) of the outputs and
    inputs, and these over the parameters.

    Attributes
    ----------
    of
        The class: a task's name, or an edge's key, with ``*`` for numbers.
    quantity
        As in ``compute()`` or ``bytes``.
    unit
        Its unit.
    formula
        The model, with the names of the parameters, or with MB.
    error
        Cross-validated error relative to the measured values.
    regime
        What changes within the measured range; "" if nothing does.
    doubt
        Why the form is not certain: its error is large, it rests on few values, or a simpler one
        is about as plausible; "" if it is certain.
    """

    of: str
    quantity: str
    unit: str
    formula: str
    error: float
    regime: str
    doubt: str
    _fit: Fit = field(repr=False, compare=False)
    #: Name to its cost relative to the class.
    _ratios: Mapping[str, float] = field(repr=False, compare=False)
    #: The model of the bytes, where this one is over MB.
    _bytes: CostModel | None = field(repr=False, compare=False)

    @property
    def is_constant(self) -> bool:
        """Whether the cost does not depend on the parameters, as far as is known."""
        return self._fit.form.is_constant and not (self.regime or self.doubt)

    def at(self, point: Sequence[float], name: str = "") -> float:
        """Return the cost of one task or edge of the class; by default the mean of them."""
        return self._fit.form(self._over(point, name)) * self._ratios.get(name, 1.0)

    def interval(self, point: Sequence[float], name: str = "") -> tuple[float, float]:
        """Return both ends of the 95 % interval of the cost of one task or edge."""
        low, high = self._fit.interval(self._over(point, name))
        ratio = self._ratios.get(name, 1.0)
        return low * ratio, high * ratio

    def _over(self, point: Sequence[float], name: str) -> Sequence[float]:
        return point if self._bytes is None else (self._bytes.at(point, name) / 1e6,)


class _Values:
    """What was measured of the members of a class in each profile."""

    def __init__(self, of: str, quantity: str, unit: str, sizes: _Values | None) -> None:
        self.of, self.quantity, self.unit = of, quantity, unit
        #: The bytes of which this is the time.
        self.sizes = sizes
        #: Medians by profile and name.
        self.typical: dict[int, dict[str, float]] = defaultdict(dict)
        self.noises: list[float] = []

    def note(self, profile: int, name: str, samples: Sequence[float]) -> None:
        middle = median(samples)
        self.typical[profile][name] = middle
        if len(samples) > 2 and middle > 0:
            # The standard error of a median: that of a mean times sqrt(pi / 2).
            self.noises.append(1.25 * stdev(samples) / middle / len(samples) ** 0.5)

    @property
    def is_of_nothing(self) -> bool:
        """Whether it is a size that is always 0, or what that takes."""
        rows = (self.sizes or self).typical.values()
        has_size = self.sizes is not None or self.unit == "bytes"
        return has_size and not any(any(row.values()) for row in rows)

    def model(
        self, points: Sequence[Sequence[float]], names: Sequence[str], bytes_of: CostModel | None
    ) -> CostModel | None:
        if len(self.typical) < _LEAST:
            return None
        means = {k: _mean(row) for k, row in self.typical.items()}
        over = {k: tuple(points[k]) for k in means}
        powers: tuple[Power, ...] = ()
        if self.sizes is not None:
            over = {k: (_mean(self.sizes.typical[k]) / 1e6,) for k in means}
            names, powers = ["MB"], (Power(1),)
        of_point = grouped((over[k], mean) for k, mean in means.items())
        at = sorted(of_point)
        values = [median(of_point[point]) for point in at]
        fit = fit_points(at, values, self.noise(values), powers)
        return CostModel(
            self.of,
            self.quantity,
            self.unit,
            fit.form.formula(names),
            fit.error,
            fit.regime,
            _doubt(fit, names),
            fit,
            self.ratios(means, fit),
            bytes_of,
        )

    def ratios(self, means: Mapping[int, float], fit: Fit) -> dict[str, float]:
        """Return the cost of each member relative to the class, or to what its bytes cost."""
        ratios: dict[str, list[float]] = defaultdict(list)
        for k, mean in means.items():
            for name, value in self.typical[k].items():
                expected = mean
                if self.sizes is not None:
                    expected = fit.form((self.sizes.typical[k][name] / 1e6,))
                if expected:
                    ratios[name].append(value / expected)
        return {name: median(of_name) for name, of_name in ratios.items()}

    def noise(self, values: Sequence[float]) -> float:
        """Return the relative uncertainty of each value: of times, as what is counted has none."""
        if self.unit != "ms":
            return 0.0
        clock = _CLOCK_MS / max(_CLOCK_MS, sum(values) / len(values))
        # Where a machine is slow at times, few profiles have rounds of both speeds.
        squares = [noise**2 for noise in self.noises] or [0.0]
        return hypot(max(_DRIFT, sqrt(sum(squares) / len(squares))), clock)


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values)


def _doubt(fit: Fit, names: Sequence[str]) -> str:
    """Return why the form of a fit is not certain."""
    simplest = fit.simplest()
    if simplest.terms != fit.form.terms:
        return f"not certain: {simplest.formula(names)} fits about as well"
    if fit.error > _LARGE and not (fit.regime or fit.form.is_constant):
        return "not certain: large error"
    if fit.points < _ENOUGH and not fit.form.is_constant:
        return f"not certain: only {fit.points} values"
    return ""


@dataclass(frozen=True)
class CostModels(ShownInBlocks):
    """Models of a DAG's costs over the parameters of its config; :func:`fit` makes them.

    ``print`` and notebooks show each model as a formula, with its unit and error.

    Attributes
    ----------
    parameters
        The numeric parameters that differ between the profiles, with their measured values in
        increasing order.
    models
        One for each quantity of each class of tasks and edges.
    profiles
        The measured profiles.
    reasons
        What the profiles leave open, a sentence each.
    tied
        Parameters that are a function of another one in all profiles, and which; the two count
        as one, and formulas have the other one.
    """

    parameters: dict[str, tuple[float, ...]]
    models: tuple[CostModel, ...]
    profiles: tuple[Profile, ...] = field(repr=False, compare=False)
    reasons: tuple[str, ...] = ()
    tied: Mapping[str, str] = field(default_factory=dict)

    def blocks(self) -> list[Block]:
        """Return what is shown: the parameters, and the models that are not constant."""
        left = (0, 1, 2, 3, 5)
        return [
            Block(self._ranges()),
            Block(rows=self._rows(), left=left, what="models", notes=self._notes()),
        ]

    def _notes(self) -> list[str]:
        constant = sum(model.is_constant for model in self.models)
        words = counted(constant, "quantity is constant", "quantities are constant")
        reasons = doubts(self.reasons)
        return [words, *reasons] if constant else reasons

    def _ranges(self) -> str:
        return ", ".join(
            f"{printable(name)} from {values[0]:,g} to {values[-1]:,g}"
            + (f" (varies with {printable(self.tied[name])})" if name in self.tied else "")
            for name, values in self.parameters.items()
        )

    def _rows(self) -> list[Sequence[str]]:
        rows: list[Sequence[str]] = [("of", "quantity", "model", "unit", "error", "")]
        for model in self.models:
            if not model.is_constant:
                remark = "; ".join(text for text in (model.regime, model.doubt) if text)
                of, formula = printable(model.of), printable(model.formula)
                error = f"{model.error:.1%}"
                rows.append((of, model.quantity, formula, model.unit, error, printable(remark)))
        return rows

    def predict(self, config: Config | Mapping[str, Any]) -> Profile:
        """Return the profile that a run with another configuration would have.

        Parameters
        ----------
        config
            Values of the parameters; those that did not vary may be left out.

        Returns
        -------
        Profile
            Marked by its section ``prediction``, with the reasons why it may not be trusted. It
            has no total time: :func:`~dagprofiler.simulate` tells it.

        Raises
        ------
        ValidationError
            If a parameter is unknown, lacks a value, is not a number above 0 where the models
            need one, or differs although it did not vary; if two that varied together do not
            keep their relation; or if the graph of this configuration is not known, as the
            graphs of the profiles next to it differ.
        """
        base = self.profiles[-1]
        instance("predict: config", config, Mapping, "{parameter: value}")
        whole = {**base.config, **config}
        for name in config:
            if name not in base.config:
                raise refused(f"predict: there is {no_parameter(name, base.config)}")
            if name not in self.parameters and not same_parameter(whole[name], base.config[name]):
                raise refused(
                    f"predict: {name!r} was {base.config[name]!r} in all profiles, so its "
                    f"effect is not known; got {whole[name]!r}"
                )
        for name, values in self.parameters.items():
            if name not in config:
                measured = f"{values[0]!r} to {values[-1]!r}"
                raise refused(f"predict: expected a value of {name!r}, which was {measured}")
        at = {name: float(number(f"predict: {name!r}", whole[name])) for name in self.parameters}
        doubts = [self._check_relation(name, leader, at) for name, leader in self.tied.items()]
        point = [value for name, value in at.items() if name not in self.tied]
        return _Prediction(self, Config(**whole), point, doubts).profile()

    def _check_relation(self, name: str, leader: str, at: Mapping[str, float]) -> str:
        """Refuse values of two parameters that varied together, but otherwise than these do.

        Returns why that cannot be told; "" if it can.
        """
        pairs = {float(run.config[leader]): float(run.config[name]) for run in self.profiles}
        relation = fit_points([(x,) for x in pairs], [*pairs.values()], 0.0)
        if relation.error > _RELATED:
            return (
                f"{name} varied with {leader} by no simple rule: what each of them does is not "
                "known"
            )
        expected = relation.form([at[leader]])
        if abs(at[name] - expected) > _RELATED * expected:
            raise refused(
                f"predict: {name!r} and {leader!r} varied together in all profiles; expected "
                f"{name}={expected:g} with {leader}={at[leader]:g}, got {at[name]:g}"
            )
        return ""


def fit(profiles: Iterable[Profile]) -> CostModels:
    """Return models of what tasks and edges cost over the parameters of the config.

    Parameters
    ----------
    profiles
        Of one DAG in at least three configurations, best with several rounds each and taken
        in turns, as :func:`dagprofiler.experiments.sweep` does. Of several parameters each
        needs three values with the others fixed; not all combinations are needed. Parameters
        that vary together count as one.

    Returns
    -------
    CostModels
        For each class of tasks (names that differ in their numbers alone) the times of its
        phases and its instructions; for each class of edges its bytes.

    Raises
    ------
    ValidationError
        If there are fewer than three values of each parameter that varies; the message names
        the configurations that are missing. Or if a profile is predicted.

    Notes
    -----
    Models are a constant and a term :math:`c n^i log_2(n)^j` or :math:`c (1 - exp(-n / s))`, or
    two terms (:func:`dagprofiler.predict._normal_form.fit_points`), fitted to the medians.

    Examples
    --------
    >>> from dagprofiler import DAG, task
    >>> @task(outputs=["x"])
    ... def source(cfg):
    ...     return {"x": bytes(cfg.N)}
    >>> @task(outputs=[])
    ... def sink(x):
    ...     return {}
    >>> dag = DAG({"source": source, "sink": sink}, [("source", "sink")], {"N": 1})
    >>> runs = [dag.with_config({"N": n}).run() for n in (1000, 2000, 4000)]
    >>> fit(runs).predict({"N": 8000}).metrics.edge_weights["source->sink"] // 8
    8000
    """
    runs: tuple[Profile, ...] = tuple(profiles)
    for run in runs:
        instance("fit: each profile", run, Profile, "a Profile")
        if "prediction" in run.sections:
            raise refused(f"fit: the profile with {run.config!r} is predicted, not measured")
    if len(runs) < _LEAST:
        raise refused(f"fit: at least {_LEAST} configurations are needed, got {len(runs)}")
    varied = _varied(runs)
    tied = _tied(varied)
    names = [name for name in varied if name not in tied]
    points = [[varied[name][k] for name in names] for k in range(len(runs))]
    reasons = _check_design(names, points)
    order = sorted(range(len(runs)), key=lambda k: points[k])
    runs, points = tuple(runs[k] for k in order), [points[k] for k in order]
    models: dict[tuple[str, str], CostModel] = {}
    for values in _collected(runs):
        bytes_of = models.get((values.of, _BYTES.get(values.quantity, "")))
        model = values.model(points, names, bytes_of)
        if model is not None:
            models[values.of, values.quantity] = model
    return CostModels(
        {name: tuple(sorted({*values})) for name, values in varied.items()},
        tuple(models.values()),
        runs,
        (*reasons, *_left_open(runs)),
        tied,
    )


def _left_open(runs: Sequence[Profile]) -> Iterator[str]:
    """Yield why models of these profiles may not be trusted."""
    if len({_graph_of(run) for run in runs}) > 1:
        yield "the profiles have different graphs: that of the nearest configuration is used"
    hosts = {run.hostname for run in runs}
    if len(hosts) > 1:
        yield f"the profiles were taken on {len(hosts)} hosts"
    partial = [run for run in runs if run.run.is_partial]
    if any(len(run.metrics.task_metrics) < len(run.dag_structure["nodes"]) for run in partial):
        yield "tasks of some profiles failed or did not run, so their costs are not known"
    if any(run.run.rounds == 0 for run in partial):
        yield "some profiles have no complete round: their times are of the warm-up"


def _graph_of(run: Profile) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    return frozenset(run.dag_structure["nodes"]), frozenset(edges_of(run))


def _varied(runs: Sequence[Profile]) -> dict[str, list[float]]:
    """Return the numeric parameters that differ, and their value in each profile."""
    varied: dict[str, list[float]] = {}
    for name in runs[0].config:
        values = [run.config.get(name) for run in runs]
        if all(same_parameter(value, values[0]) for value in values):
            continue
        numbers = [plain_number(value) for value in values]
        if any(number is None or number <= 0 for number in numbers):
            raise refused(
                f"fit: parameter {name!r} differs and has values that are no numbers above 0: "
                f"{', '.join(short_repr(value) for value in values[:5])}"
            )
        varied[name] = [float(number) for number in numbers if number is not None]
    if not varied:
        raise refused("fit: no numeric parameter of the config differs between the profiles")
    return varied


def _tied(varied: Mapping[str, Sequence[float]]) -> dict[str, str]:
    """Return the parameters that are a function of another one in all profiles, and of which."""
    tied: dict[str, str] = {}
    leaders: list[str] = []
    for name in sorted(varied, key=lambda name: -len({*varied[name]})):
        for leader in leaders:
            pairs = {*zip(varied[leader], varied[name])}
            if len(pairs) == len({*varied[leader]}):
                tied[name] = leader
                break
        else:
            leaders.append(name)
    return tied


def _check_design(names: Sequence[str], points: Sequence[Sequence[float]]) -> list[str]:
    """Refuse designs that cannot tell the parameters apart; return what they leave open."""
    for p, name in enumerate(names):
        line = longest_line(points, p)
        if len(line) < _LEAST:
            fixed = {other: points[line[0]][q] for q, other in enumerate(names) if q != p}
            at = ", ".join(f"{other}={value:g}" for other, value in fixed.items())
            have = ", ".join(f"{points[k][p]:g}" for k in line)
            raise refused(
                f"fit: {name!r} needs {_LEAST} values{f' with {at}' if at else ''}, got {have}"
            )
    least, most = ([of(values) for values in zip(*points)] for of in (min, max))
    open_pairs = []
    for q, p in combinations(range(len(names)), 2):
        if not any(point[p] != least[p] and point[q] != least[q] for point in points):
            far = [(most if r in (p, q) else least)[r] for r in range(len(names))]
            at = ", ".join(f"{name}={value:g}" for name, value in zip(names, far))
            open_pairs.append(
                f"whether {names[q]} and {names[p]} add or multiply is not known; measure {at}"
            )
    return open_pairs


def _collected(runs: Sequence[Profile]) -> list[_Values]:
    """Return what was measured of each class of tasks and edges."""
    collected: dict[tuple[str, str], _Values] = {}
    for k, run in enumerate(runs):
        for name, quantity, unit, samples in chain(_of_tasks(run), _of_edges(run)):
            kind = class_of(name)
            if (kind, quantity) not in collected:
                sizes = collected.get((kind, _BYTES.get(quantity, "")))
                collected[kind, quantity] = _Values(kind, quantity, unit, sizes)
            collected[kind, quantity].note(k, name, samples)
    return [values for values in collected.values() if not values.is_of_nothing]


def _of_tasks(run: Profile) -> Iterator[tuple[str, str, str, Sequence[float]]]:
    """Yield name, quantity, unit and samples of each quantity of each task."""
    samples, sources = run.samples, run.sections.get("weight_sources", {})
    for name, entry in entries_of_tasks(run).items():
        fields = {**entry.to_dict(), **sources.get(name, {})}
        for quantity, (unit, columns) in _TASK.items():
            for column in columns:
                values = samples.of(name, column) or [fields.get(column)]
                if values != [None]:
                    yield name, quantity, unit, values
                    break


def _of_edges(run: Profile) -> Iterator[tuple[str, str, str, Sequence[float]]]:
    """Yield the same of each edge."""
    for edge in run.metrics.edge_metrics:
        name = f"{edge.source}->{edge.target}"
        yield name, "payload", "bytes", [edge.size_bytes]
        if edge.wire_bytes is not None:
            yield name, "on the wire", "bytes", [edge.wire_bytes]


def _bytes_of(task: TaskMetrics, quantity: str) -> int:
    """Return the bytes that a phase of a task has to do with."""
    sizes = {"deserializing": task.bytes_in, "serializing": task.bytes_out}
    return sizes.get(quantity, max(task.bytes_in, task.bytes_out))


class _Prediction:
    """The profile of one configuration that was not measured."""

    def __init__(
        self, models: CostModels, config: Config, point: Sequence[float], doubts: Sequence[str]
    ) -> None:
        self.models, self.config, self.point = models, config, point
        self.axes = {
            name: values for name, values in models.parameters.items() if name not in models.tied
        }
        self.by_quantity = {(model.of, model.quantity): model for model in models.models}
        # The nearest configuration, by ratios: its figures stand where there is no model.
        self.nearest = sorted(models.profiles, key=self._distance)
        self.base = self.nearest[0]
        # A dictionary, as each counts once.
        self.doubts = dict.fromkeys(doubt for doubt in doubts if doubt)

    def _distance(self, run: Profile) -> float:
        values = zip(self.axes, self.point)
        return sum(abs(log2(value) - log2(run.config[name])) for name, value in values)

    def model(self, name: str, quantity: str) -> CostModel | None:
        return self.by_quantity.get((class_of(name), quantity))

    def cost(self, name: str, quantity: str, fallback: float) -> float:
        model = self.model(name, quantity)
        return fallback if model is None else model.at(self.point, name)

    def check_graph(self) -> None:
        """Refuse a point between configurations with different graphs."""
        neighbours = self.nearest[:2] if self._distance(self.base) else self.nearest[:1]
        if len({_graph_of(run) for run in neighbours}) > 1:
            at = ", ".join(f"{name}={value:g}" for name, value in zip(self.axes, self.point))
            counts = " and ".join(str(len(run.dag_structure["nodes"])) for run in neighbours)
            raise refused(
                f"predict: the graph with {at} is not known, as those of the nearest profiles "
                f"differ ({counts} tasks); measure a configuration with this graph"
            )

    def profile(self) -> Profile:
        self.check_graph()
        edge_metrics = self.edges()
        bytes_in: Counter[str] = Counter()
        for edge in edge_metrics:
            bytes_in[edge.target] += bytes_on(edge)
        entries = self.entries()
        metrics, sources = [], {}
        intervals: dict[str, dict[str, list[float]]] = {key: {} for key in INTERVALS.values()}
        graph = graph_of(self.base)
        order = [graph.names[i] for i in graph.order]
        for name in order:
            entry = entries.get(name) or entries.get(class_of(name))
            if entry is None:
                raise refused(f"predict: task {name!r} has no time in any profile")
            task = self.task(name, entry, bytes_in[name])
            metrics.append(task)
            sources[name] = self.sources(name)
            for quantity, key in INTERVALS.items():
                ends = self.interval(name, quantity, entry, task)
                if ends is not None:
                    intervals[key][name] = ends
        ran_on = self.base.run.executor
        executor = {} if ran_on is None else {"executor": ran_on}
        sections = {
            "run": {"state": "complete", **executor},
            "weight_sources": sources,
            "prediction": self.section(intervals),
        }
        structure = {**self.base.dag_structure, "execution_order": order}
        weights = {
            name: of_task["estimated_instructions"] or 0 for name, of_task in sources.items()
        }
        edge_weights = {f"{edge.source}->{edge.target}": edge.size_bits for edge in edge_metrics}
        unknown: Any = None  # the total time, which depends on the workers
        whole = DAGMetrics(metrics, edge_metrics, weights, edge_weights, unknown)
        return predicted(self.base, self.config, structure, whole, sections)

    def section(self, intervals: JsonObject) -> JsonObject:
        """Return the section ``prediction``."""
        return {
            "kind": "cost_models",
            "sources": sources_of(self.models.profiles),
            "beyond": round(self.beyond(), 6),
            "models": {
                f"{model.of}: {model.quantity}, {model.unit}": model.formula
                for model in self.models.models
            },
            **intervals,
            "reasons": [*self.reasons(), *self.doubts],
        }

    def entries(self) -> dict[str, TaskMetrics]:
        """Return the figures of each task, and of one of each class, in the nearest profile.

        A run that failed lacks tasks.
        """
        entries: dict[str, TaskMetrics] = {}
        for run in reversed(self.nearest):
            entries.update(entries_of_tasks(run))
        return {**{class_of(name): entry for name, entry in entries.items()}, **entries}

    def task(self, name: str, entry: TaskMetrics, bytes_in: int) -> TaskMetrics:
        compute_ms = self.cost(name, "compute()", entry.compute_time_ms)
        write_ms = self.cost(name, "serializing", entry.serialize_time_ms or 0.0)
        read_ms = self.cost(name, "deserializing", entry.deserialize_time_ms or 0.0)
        bytes_out = round(self.cost(name, "outputs", entry.bytes_out))
        compute_ms, write_ms, read_ms = round(compute_ms, 6), round(write_ms, 6), round(read_ms, 6)
        return TaskMetrics(name, compute_ms, write_ms, read_ms, bytes_in, bytes_out)

    def interval(
        self, name: str, quantity: str, before: TaskMetrics, task: TaskMetrics
    ) -> list[float] | None:
        """Return the 95 % interval of a time of a task; None without a model."""
        model = self.model(name, quantity)
        if model is None:
            if quantity == "compute()":
                self.doubts[f"{class_of(name)}: too few profiles have it for a model"] = None
            return None
        low, high = model.interval(self.point, name)
        size, known = (_bytes_of(one, quantity) for one in (task, before))
        if known <= _CACHED_BYTES < size:
            times = 1 + _UNCACHED * log2(size / _CACHED_BYTES)
            if quantity in _BYTES:
                # What are many objects takes ten times its bytes.
                times = min(_OBJECTS_UNCACHED, size / _CACHED_BYTES)
            high *= times
            what = f"{class_of(name)}, {quantity}"
            self.doubts[f"{what}: its values outgrow a core's caches; measure larger ones"] = None
        if quantity in _BYTES and size >= _MAPPED_BYTES:
            low = max(_UNTOUCHED * low, low - _TOUCH_MS * size)
            high += _TOUCH_MS * size
        return [round(low, 6), round(high, 6)]

    def sources(self, name: str) -> JsonObject:
        estimate = self.model(name, "estimated")
        sources: JsonObject = {"node_weight": "default", "estimated_instructions": None}
        if estimate is not None:
            sources["node_weight"] = "estimated_instructions"
            sources["estimated_instructions"] = round(estimate.at(self.point, name))
        if self.model(name, "CPU time"):
            sources["cpu_time_ms"] = round(self.cost(name, "CPU time", 0.0), 6)
        if self.model(name, "counted"):
            sources["counted_instructions"] = round(self.cost(name, "counted", 0.0))
        return sources

    def edges(self) -> list[EdgeMetrics]:
        measured = {
            class_of(f"{edge.source}->{edge.target}"): edge
            for edge in self.base.metrics.edge_metrics
        }
        metrics = []
        for source, target in edges_of(self.base):
            key = f"{source}->{target}"
            before = measured.get(class_of(key), EdgeMetrics(source, target, [], 0))
            size, wire = round(self.cost(key, "payload", before.size_bytes)), before.wire_bytes
            if wire is not None:
                wire = round(self.cost(key, "on the wire", wire))
            metrics.append(EdgeMetrics(source, target, before.data_fields, size, wire))
        return metrics

    def beyond(self) -> float:
        """Return how far the point is from the measured ones: at most 1 within their range."""
        values = zip(self.point, self.axes.values())
        return max(max(x / measured[-1], measured[0] / x) for x, measured in values)

    def reasons(self) -> Iterator[str]:
        for (name, measured), x in zip(self.axes.items(), self.point):
            if x > _FAR * measured[-1]:
                yield f"{name}={x:g} is {x / measured[-1]:.3g} times the largest measured value"
            if x < measured[0] / _FAR:
                yield f"{name}={x:g} is {measured[0] / x:.3g} times below the least measured value"
        yield from self.models.reasons
        times = [model for model in self.models.models if model.quantity in INTERVALS]
        least = _WEIGHTY * sum(model.at(self.point) for model in times)
        for model in times:
            # At the upper end of its interval: a form that hardly fits may be near 0.
            low, high = model.interval(self.point)
            what, matters = f"{model.of}, {model.quantity}", high >= least
            if model.regime and (matters or model.error > _UNKNOWN):
                yield f"{what}: {model.regime}"
            if matters and high > _APART * low:
                yield (
                    f"{what}: {model.formula} and other forms that fit give {low:.3g} to "
                    f"{high:.3g} {model.unit}; measure more values, or larger ones"
                )
        yield from self.inexact()

    def inexact(self) -> Iterator[str]:
        """Yield which sizes are not known exactly beyond the measured ones."""
        outputs = [model for model in self.models.models if model.quantity == "outputs"]
        off = {model.of: model.error for model in outputs if model.error > _INEXACT}
        if off and self.beyond() > 1:
            yield (
                f"the outputs of {some([*off], 5)} have sizes up to {max(off.values()):.1%} off "
                "their forms, so those beyond the measured ones are not exact; measure larger ones"
            )
