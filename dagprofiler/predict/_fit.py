"""fit(): cost models of the tasks and edges of a DAG over the parameters of its config."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, combinations, islice, product
from math import exp, hypot, inf, log, log2
from statistics import NormalDist
from typing import Any

from dagprofiler._document.rounds import measured_of
from dagprofiler._document.table import entries_of_tasks
from dagprofiler._util.checks import number, plain_number
from dagprofiler._util.html import Shown, paragraph, table, view
from dagprofiler._util.text import BYTES, aligned, class_of, printable, quantity
from dagprofiler.analysis.compare import same_parameter
from dagprofiler.config import Config, no_parameter
from dagprofiler.errors import counted, is_a, refused, short_repr
from dagprofiler.graph.wiring import kahn_order
from dagprofiler.metrics import DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.predict._normal_form import TOLERATED, Fit, fit_points, longest_line
from dagprofiler.predict._simulate import HUGE, INTERVALS, sources_of
from dagprofiler.profile import Profile
from dagprofiler.stats import median

#: Fewest values of a parameter.
_LEAST = 3

#: Least uncertainty of a time, relative to it: machines differ by that from minute to minute.
_DRIFT = 0.03

#: Most tasks, and most edges, of a graph that grows.
_MOST = 1_000_000

#: From this ratio to the largest measured value on a prediction is not trusted.
_FAR = 4.0

#: Ratio of the costs by forms about as plausible from which on a prediction is doubtful.
_APART = 1.3

#: Share of all times from which on a doubtful model makes a prediction doubtful.
_WEIGHTY = 0.05

#: What reading the clock and touching memory first add to a time, in ms: no less is a trend.
_CLOCK_MS = 1e-3

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

    Times of serializing and deserializing are modelled over the bytes of the outputs and inputs,
    and these over the parameters.

    Attributes
    ----------
    of
        The class: a task's name, or an edge's key, with ``*`` for numbers.
    quantity
        As in ``compute()``, ``bytes`` or ``tasks``.
    unit
        Its unit.
    formula
        The model, with the names of the parameters, or in ms/MB.
    error
        Cross-validated error relative to the measured values.
    regime
        What changes within the measured range; "" if nothing does.
    doubt
        Why the form is not certain: its error is large, or a simpler one is about as plausible;
        "" if it is certain.
    megabytes
        The MB (1e6 bytes) measured, in increasing order, where the model is over bytes; else empty.
    """

    of: str
    quantity: str
    unit: str
    formula: str
    error: float
    regime: str
    doubt: str
    megabytes: tuple[float, ...]
    _fit: Fit = field(repr=False, compare=False)
    #: Name to its cost relative to the class.
    _ratios: Mapping[str, float] = field(repr=False, compare=False)
    #: What the fitted values, the lowest of each size, are multiplied by to give typical ones.
    _level: float = field(repr=False, compare=False)
    #: The model of the bytes, where this one is over bytes.
    _bytes: CostModel | None = field(repr=False, compare=False)
    #: How far off sizes are from what smaller ones predict: a logarithm for each doubling.
    _unforeseen: float = field(repr=False, compare=False)

    @property
    def is_constant(self) -> bool:
        """Whether the cost does not depend on the parameters, as far as is known."""
        return self._fit.form.is_constant and not (self.regime or self.doubt)

    def at(self, point: Sequence[float], name: str = "") -> float:
        """Return the cost of one task or edge of the class; by default the mean of them."""
        cost = self._fit.form(self._over(point, name))
        return cost * self._level * self._ratios.get(name, 1.0)

    def _over(self, point: Sequence[float], name: str = "") -> Sequence[float]:
        bytes_of = self._bytes
        return _in_mb(bytes_of.at(point, name), self.megabytes) if bytes_of else point

    def rivals(self, point: Sequence[float]) -> tuple[float, float]:
        """Return the least and the most cost by the forms that are about as plausible."""
        low, high = self._fit.rivals(self._over(point))
        return low * self._level, high * self._level

    def spread(self, point: Sequence[float], name: str = "") -> tuple[float, float]:
        """Return both ends of the 95 % interval, relative to the cost."""
        point = self._over(point, name)
        middle = self._fit.form(point)
        low, high = self._fit.interval(point)
        doublings = log2(max(1.0, point[0] / self.megabytes[-1])) if self._unforeseen else 0.0
        apart = exp(min(log(HUGE) / 2, 1.96 * self._unforeseen * doublings))
        return (low / middle / apart, high / middle * apart) if middle else (1.0, 1.0)


class _Values:
    """What was measured of the members of a class in each profile."""

    def __init__(self, of: str, words: str, unit: str, sizes: _Values | None) -> None:
        self.of, self.words, self.unit = of, words, unit
        #: The bytes of which this is the time.
        self.sizes = sizes
        #: By profile and name.
        self.typical: dict[int, dict[str, float]] = defaultdict(dict)
        self.low: dict[int, dict[str, float]] = defaultdict(dict)
        self.noises: list[float] = []
        #: How far the typical sample is above the lowest by the second lowest, relative to it.
        self.gaps: list[float] = []

    def note(self, profile: int, name: str, samples: Sequence[float]) -> None:
        middle, low = median(samples), min(samples)
        self.typical[profile][name] = middle
        self.low[profile][name] = low
        if len(samples) > 2 and middle > 0:
            self.gaps.append((sorted(samples)[1] / low - 1) * _of_gap(len(samples)) if low else inf)
            off = median([abs(value - middle) for value in samples])
            self.noises.append(1.48 * off / middle / len(samples) ** 0.5 * 1.25)

    def model(
        self, points: Sequence[Sequence[float]], names: Sequence[str], bytes_of: CostModel | None
    ) -> CostModel | None:
        present = [*self.typical]
        if len(present) < _LEAST:
            return None
        sizes = {} if self.sizes is None else {k: self.sizes.typical[k] for k in present}
        used = self.low if self.unit == "ms" and not sizes else self.typical
        means = {k: _mean(used[k]) for k in present}
        levels = [_mean(self.typical[k]) / mean for k, mean in means.items() if mean]
        level = median(levels) if levels else 1.0
        if self.unit == "ms" and self.gaps:
            # What only adds time, as other programs do, moves medians more than lowest samples.
            level = min(level, 1.0 + median(self.gaps))
        megabytes = tuple(sorted({_mean(of) / 1e6 for of in sizes.values()}))
        at = [_in_mb(_mean(sizes[k]), megabytes) if sizes else tuple(points[k]) for k in present]
        if sizes:
            names = ["ms/MB", *(f"ms/MB beyond {size:.3g} MB" for size in megabytes[1:-1])]
        merged = dict(sorted(_merged(at, [*means.values()]).items()))
        noise = self.noise([*means.values()])
        fit = fit_points([*merged], [*merged.values()], noise, line=bool(sizes))
        ratios: dict[str, list[float]] = {}
        for k, mean in means.items():
            for name, value in used[k].items():
                expected = fit.form(_in_mb(sizes[k][name], megabytes)) if sizes else mean
                if expected:
                    ratios.setdefault(name, []).append(value / expected)
        return CostModel(
            self.of,
            self.words,
            self.unit,
            fit.form.formula(names, self.unit if sizes else ""),
            fit.error,
            fit.regime,
            _doubt(fit, names, self.unit if sizes else ""),
            megabytes,
            fit,
            {name: median(several) for name, several in ratios.items()},
            level,
            bytes_of,
            _unforeseen(merged, noise) if sizes else 0.0,
        )

    def noise(self, means: Sequence[float]) -> float:
        """Return the relative uncertainty of each mean: of times, as what is counted has none."""
        if self.unit != "ms":
            return 0.0
        clock = _CLOCK_MS / max(_CLOCK_MS, sum(means) / len(means))
        return hypot(max(_DRIFT, median(self.noises) if self.noises else 0.0), clock)


def _doubt(fit: Fit, names: Sequence[str], unit: str) -> str:
    """Return why the form of a fit is not certain."""
    simplest = fit.simplest()
    if simplest.terms != fit.form.terms:
        return f"not certain: {simplest.formula(names, unit)} fits about as well"
    is_far_off = fit.error > TOLERATED and not (fit.regime or fit.form.is_constant)
    return "not certain: large error" if is_far_off else ""


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values)


def _in_mb(size: float, megabytes: Sequence[float]) -> tuple[float, ...]:
    """Return bytes as MB, and the MB beyond each of those measured but the least and the most."""
    return size / 1e6, *(max(0.0, size / 1e6 - least) for least in megabytes[1:-1])


def _unforeseen(times: Mapping[tuple[float, ...], float], noise: float) -> float:
    """Return how far off sizes are from what smaller ones predict: a logarithm a doubling."""
    points, values = [*times], [*times.values()]
    off, doublings = [], [1e-9]
    for k in range(_LEAST, len(points)):
        guess = fit_points(points[:k], values[:k], noise, line=True).form(points[k])
        if guess and values[k]:
            off.append(log(values[k] / guess))
            doublings.append(log2(points[k][0] / points[k - 1][0]))
    return hypot(*off) / hypot(*doublings)


@cache
def _of_gap(count: int) -> float:
    """Return how far the middle of a normal distribution is above the lowest of some samples.

    In gaps between the lowest two (expected values by Blom, 1958). Their median over several
    sizes is log(2) of their mean, as gaps have an exponential distribution (Renyi, 1953).
    """
    low, second = (NormalDist().inv_cdf((k - 0.375) / (count + 0.25)) for k in (1, 2))
    return -low / (second - low) / log(2)


def _merged(
    points: Sequence[tuple[float, ...]], values: Sequence[float]
) -> dict[tuple[float, ...], float]:
    """Return one value for each point: of several profiles of one configuration the median."""
    several: dict[tuple[float, ...], list[float]] = {}
    for point, value in zip(points, values):
        several.setdefault(point, []).append(value)
    return {point: median(found) for point, found in several.items()}


@dataclass(frozen=True)
class CostModels(Shown):
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
    """

    parameters: dict[str, tuple[float, ...]]
    models: tuple[CostModel, ...]
    profiles: tuple[Profile, ...] = field(repr=False, compare=False)
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = aligned(self._rows(), left=(0, 1, 2, 3, 5))
        return "\n".join([self._ranges(), *rows, *self._notes()])

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        shown = table(head, rows, left=(0, 1, 2, 3, 5))
        return view(paragraph(self._ranges()), shown, *map(paragraph, self._notes()))

    def _notes(self) -> list[str]:
        constant = sum(model.is_constant for model in self.models)
        words = counted(constant, "quantity is constant", "quantities are constant")
        reasons = [f"not certain: {printable(reason)}" for reason in self.reasons]
        return [words, *reasons] if constant else reasons

    def _ranges(self) -> str:
        return ", ".join(
            f"{printable(name)} from {values[0]:,g} to {values[-1]:,g}"
            for name, values in self.parameters.items()
        )

    def _rows(self) -> list[Sequence[str]]:
        rows: list[Sequence[str]] = [("of", "quantity", "model", "unit", "error", "")]
        for model in self.models:
            if model.is_constant:
                continue
            of, formula, error = printable(model.of), printable(model.formula), f"{model.error:.1%}"
            remarks = [model.regime, model.doubt]
            if model.megabytes:
                low, *_, high = (quantity(1e6 * size, BYTES) for size in model.megabytes * 2)
                remarks[0] = f"{_BYTES[model.quantity]} from {low} to {high}"
            remark = "; ".join(filter(None, remarks))
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
            need one, or differs although it did not vary.
        """
        base = self.profiles[-1]
        if not is_a(config, Mapping):
            raise refused(f"predict: config must be {{parameter: value}}, got {short_repr(config)}")
        given = {**base.config, **config}
        for name in config:
            if name not in base.config:
                raise refused(f"predict: there is {no_parameter(name, base.config)}")
            if name not in self.parameters and not same_parameter(given[name], base.config[name]):
                raise refused(
                    f"predict: {name!r} was {base.config[name]!r} in all profiles, so its "
                    f"effect is not known; got {given[name]!r}"
                )
        for name, values in self.parameters.items():
            if name not in config:
                measured = f"{values[0]!r} to {values[-1]!r}"
                raise refused(f"predict: expected a value of {name!r}, which was {measured}")
        point = [float(number(f"predict: {name!r}", given[name])) for name in self.parameters]
        try:
            return _Prediction(self, Config(**given), point).profile()
        except OverflowError as error:
            at = ", ".join(f"{name}={x:g}" for name, x in zip(self.parameters, point))
            raise refused(f"predict: {at}: a cost would exceed 2**63 - 1") from error


def fit(profiles: Iterable[Profile]) -> CostModels:
    """Return models of what tasks and edges cost over the parameters of the config.

    Parameters
    ----------
    profiles
        Of one DAG in at least three configurations, best with several rounds each and taken
        in turns, as :func:`dagprofiler.experiments.sweep` does. Of several parameters each
        needs three values with the others fixed; not all combinations are needed.

    Returns
    -------
    CostModels
        For each class of tasks (names that differ in their numbers alone) the times of its
        phases and its instructions; for each class of edges its bytes; and the number of
        tasks of classes that grow.

    Raises
    ------
    ValidationError
        If there are fewer than three values of each parameter that varies; the message names
        the configurations that are missing. Or if a profile is predicted.

    Notes
    -----
    Models are sums of few terms :math:`c n^i log_2(n)^j`
    (:func:`dagprofiler.predict._normal_form.fit_points`). Times are fitted to the lowest
    sample of each size, which noise disturbs least, and scaled to typical ones: to medians, but
    no further than symmetric noise with the gap between the lowest two samples goes.

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
    given: Any = profiles
    runs: tuple[Profile, ...] = tuple(given) if is_a(given, Iterable) else (given,)
    for run in runs:
        if not is_a(run, Profile):
            raise refused(f"fit: expected profiles, got {short_repr(run)}")
        if "prediction" in run.sections:
            raise refused(f"fit: the profile with {run.config!r} is predicted, not measured")
    if len(runs) < _LEAST:
        raise refused(f"fit: at least {_LEAST} configurations are needed, got {len(runs)}")
    parameters = _varied(runs)
    names = [*parameters]
    points = [[float(run.config[name]) for name in names] for run in runs]
    reasons = _check_design(names, points)
    order = sorted(range(len(runs)), key=lambda k: points[k])
    runs, points = tuple(runs[k] for k in order), [points[k] for k in order]
    models: dict[tuple[str, str], CostModel] = {}
    for values in _collected(runs):
        bytes_of = models.get((values.of, _BYTES.get(values.words, "")))
        if (model := values.model(points, names, bytes_of)) is not None:
            models[values.of, values.words] = model
    graphs = [run.dag_structure for run in runs]
    edges = {frozenset((e["source"], e["target"]) for e in graph["edges"]) for graph in graphs}
    if len(edges) > 1 or len({frozenset(graph["nodes"]) for graph in graphs}) > 1:
        reasons.append("the profiles have different graphs: that of the prediction is extended")
    hosts = {run.hostname for run in runs}
    if len(hosts) > 1:
        reasons.append(f"the profiles were taken on {len(hosts)} hosts")
    partial = [run for run in runs if run.sections.get("run", {}).get("state") == "partial"]
    if any(len(run.metrics.task_metrics) < len(run.dag_structure["nodes"]) for run in partial):
        reasons.append("tasks of some profiles failed or did not run, so their costs are not known")
    if any(run.sections["run"].get("rounds") == 0 for run in partial):
        reasons.append("some profiles have no complete round: their times are of the warm-up")
    return CostModels(parameters, (*models.values(),), runs, tuple(reasons))


def _varied(runs: Sequence[Profile]) -> dict[str, tuple[float, ...]]:
    """Return the numeric parameters that differ, and their values."""
    found = {}
    for name in runs[0].config:
        values = [run.config.get(name) for run in runs]
        if all(same_parameter(value, values[0]) for value in values):
            continue
        numbers = [plain_number(value) for value in values]
        if any(number is None or not 1 / HUGE <= number <= HUGE for number in numbers):
            raise refused(
                f"fit: parameter {name!r} differs and has values that are no numbers from "
                f"{1 / HUGE:g} to {HUGE:g}: {', '.join(map(short_repr, values[:5]))}"
            )
        found[name] = tuple(sorted({float(number) for number in numbers if number is not None}))
    if not found:
        raise refused("fit: no numeric parameter of the config differs between the profiles")
    return found


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


def _collected(runs: Sequence[Profile]) -> Iterator[_Values]:
    """Yield what was measured of each class of tasks and edges."""
    values: dict[tuple[str, str], _Values] = {}
    for k, run in enumerate(runs):
        for name, words, unit, samples in chain(_of_tasks(run), _of_edges(run)):
            kind = class_of(name)
            if (kind, words) not in values:
                sizes = values.get((kind, _BYTES.get(words, "")))
                values[kind, words] = _Values(kind, words, unit, sizes)
            values[kind, words].note(k, name, samples)
    for each in values.values():
        of = each.sizes or each
        counts = {value for known in of.typical.values() for value in known.values()}
        # How many tasks a class has is a model only where it grows; no bytes take no time.
        if len(counts) > 1 or not (of.unit == "tasks" or (of.unit == "bytes" and counts == {0})):
            yield each


def _of_tasks(run: Profile) -> Iterator[tuple[str, str, str, Sequence[Any]]]:
    """Yield name, words, unit and samples of each quantity of each task."""
    section = run.sections.get("samples", {"rounds": (), "tasks": {}})
    sources = run.sections.get("weight_sources", {})
    for name, entry in entries_of_tasks(run).items():
        known = {**entry.to_dict(), **sources.get(name, {})}
        taken = {field: [value] for field, value in known.items() if value is not None}
        for column, values in section["tasks"].get(name, {}).items():
            taken[column] = measured_of(section["rounds"], values)
        for words, (unit, wanted) in _TASK.items():
            samples = next(filter(None, map(taken.get, wanted)), None)
            if samples is not None:
                yield name, words, unit, samples
    for kind, count in Counter(map(class_of, run.dag_structure["nodes"])).items():
        yield kind, "number", "tasks", [count]


def _of_edges(run: Profile) -> Iterator[tuple[str, str, str, Sequence[Any]]]:
    """Yield the same of each edge."""
    for edge in run.metrics.edge_metrics:
        name = f"{edge.source}->{edge.target}"
        yield name, "payload", "bytes", [edge.size_bytes]
        if edge.wire_bytes is not None:
            yield name, "on the wire", "bytes", [edge.wire_bytes]


class _Prediction:
    """The profile of one configuration that was not measured."""

    def __init__(self, models: CostModels, config: Config, point: Sequence[float]) -> None:
        self.models, self.config, self.point = models, config, point
        self.known = {(model.of, model.quantity): model for model in models.models}
        # The nearest configuration, by ratios: its figures stand where no model is known.
        self.base = min(models.profiles, key=self._distance)
        self.lacking: dict[str, None] = {}

    def _distance(self, run: Profile) -> float:
        return sum(
            abs(log2(value) - log2(run.config[name]))
            for name, value in zip(self.models.parameters, self.point)
        )

    def cost(self, name: str, quantity: str, fallback: float) -> float:
        model = self.known.get((class_of(name), quantity))
        return fallback if model is None else model.at(self.point, name)

    def profile(self) -> Profile:
        nodes, edges = self.graph()
        entries: dict[str, TaskMetrics] = {}
        # The nearest configuration counts; a run that failed lacks tasks.
        for run in sorted(self.models.profiles, key=self._distance):
            entries = {**entries_of_tasks(run), **entries}
        by_class = {class_of(name): entry for name, entry in entries.items()}
        edge_metrics, edge_weights = self.edges(edges)
        bytes_in = dict.fromkeys(nodes, 0)
        for edge in edge_metrics:
            bytes_in[edge.target] += edge.size_bytes if edge.wire_bytes is None else edge.wire_bytes
        metrics, weights, sources = [], {}, {}
        intervals: dict[str, dict[str, list[float]]] = {key: {} for key in INTERVALS.values()}
        order = kahn_order(nodes, edges)
        for name in order:
            entry = entries.get(name) or by_class.get(class_of(name))
            if entry is None:
                raise refused(f"predict: task {name!r} has no time in any profile")
            measured = entry.compute_time_ms, entry.serialize_time_ms, entry.deserialize_time_ms
            compute_ms, serialize_ms, deserialize_ms = times = [
                round(self.cost(name, phase, ms or 0.0), 6)
                for phase, ms in zip(INTERVALS, measured)
            ]
            metrics.append(
                TaskMetrics(
                    name,
                    compute_ms,
                    serialize_ms,
                    deserialize_ms,
                    _whole(bytes_in[name]),
                    _whole(self.cost(name, "outputs", entry.bytes_out)),
                )
            )
            estimated = self.known.get((class_of(name), "estimated"))
            weights[name] = 0 if estimated is None else _whole(estimated.at(self.point, name))
            sources[name] = self.sources(name, None if estimated is None else weights[name])
            for (phase, key), ms in zip(INTERVALS.items(), times):
                model = self.known.get((class_of(name), phase))
                if model is not None:
                    ends = model.spread(self.point, name)
                    intervals[key][name] = [round(ms * end, 6) for end in ends]
            if name not in intervals["intervals_ms"]:
                self.lacking[f"{class_of(name)}: too few profiles have it for a model"] = None
        own, kept = self.base.sections.get("run", {}), ("environment", "engine")
        executor = {"executor": own["executor"]} if "executor" in own else {}
        unknown: Any = None  # the total time, which depends on the workers
        return Profile(
            self.config,
            {
                "nodes": nodes,
                "edges": [{"source": source, "target": target} for source, target in edges],
                "execution_order": order,
            },
            DAGMetrics(metrics, edge_metrics, weights, edge_weights, unknown),
            seed=self.base.seed,
            hostname=self.base.hostname,
            metadata={} if self.base.name is None else {"name": self.base.name},
            sections={
                "run": {"state": "complete", **executor},
                "weight_sources": sources,
                "prediction": {
                    "kind": "cost_models",
                    "sources": sources_of(self.models.profiles),
                    "beyond": round(self.beyond(), 6),
                    "models": {
                        f"{model.of}: {model.quantity}, {model.unit}": model.formula
                        for model in self.models.models
                    },
                    **intervals,
                    "reasons": [*self.reasons(), *self.lacking],
                },
                **{n: self.base.sections[n] for n in kept if n in self.base.sections},
            },
        )

    def sources(self, name: str, estimated: int | None) -> dict[str, Any]:
        found: dict[str, Any] = {
            "node_weight": "default" if estimated is None else "estimated_instructions",
            "estimated_instructions": estimated,
        }
        kind = class_of(name)
        if (kind, "CPU time") in self.known:
            found["cpu_time_ms"] = round(self.cost(name, "CPU time", 0.0), 6)
        if (kind, "counted") in self.known:
            found["counted_instructions"] = _whole(self.cost(name, "counted", 0.0))
        return found

    def edges(self, edges: Sequence[tuple[str, str]]) -> tuple[list[EdgeMetrics], dict[str, int]]:
        fields = {
            class_of(f"{edge.source}->{edge.target}"): edge
            for edge in self.base.metrics.edge_metrics
        }
        metrics, weights = [], {}
        for source, target in edges:
            key = f"{source}->{target}"
            known = fields.get(class_of(key))
            size = _whole(self.cost(key, "payload", 0.0 if known is None else known.size_bytes), 8)
            wire = None
            if known is not None and known.wire_bytes is not None:
                wire = _whole(self.cost(key, "on the wire", known.wire_bytes))
            names = [] if known is None else known.data_fields
            metrics.append(EdgeMetrics(source, target, names, size, wire))
            weights[key] = 8 * size
        return metrics, weights

    def beyond(self) -> float:
        """Return how far the point is from the measured ones: at most 1 within their range."""
        values = zip(self.point, self.models.parameters.values())
        return max(max(x / known[-1], known[0] / x) for x, known in values)

    def reasons(self) -> Iterator[str]:
        for (name, known), x in zip(self.models.parameters.items(), self.point):
            if x > _FAR * known[-1]:
                yield f"{name}={x:g} is {x / known[-1]:.3g} times the largest measured value"
            if x < known[0] / _FAR:
                yield f"{name}={x:g} is {known[0] / x:.3g} times below the least measured value"
        yield from self.models.reasons
        times = {model: model.at(self.point) for model in self.models.models if model.unit == "ms"}
        least = _WEIGHTY * sum(times.values())
        for model in self.models.models:
            # At the upper end of its interval: a form that does not fit may be near 0.
            if times.get(model, least) * model.spread(self.point)[1] < least:
                continue
            what = f"{model.of}, {model.quantity}"
            if model.regime:
                yield f"{what}: {model.regime}"
            low, high = model.rivals(self.point)
            if high > _APART * low:
                yield (
                    f"{what}: forms about as plausible as {model.formula} give {low:.3g} to "
                    f"{high:.3g} {model.unit}; measure more values, or larger ones"
                )

    def graph(self) -> tuple[list[str], list[tuple[str, str]]]:
        """Return the tasks and edges: those measured, with more or fewer of a class that grows."""
        structure = self.base.dag_structure
        nodes = [*structure["nodes"]]
        edges = [(edge["source"], edge["target"]) for edge in structure["edges"]]
        counts = {
            model.of: max(0, round(model.at(self.point, model.of)))
            for model in self.models.models
            if model.unit == "tasks"
        }
        members: dict[str, list[str]] = {}
        for name in nodes:
            members.setdefault(class_of(name), []).append(name)
        if all(len(members.get(kind, ())) == count for kind, count in counts.items()):
            return nodes, edges
        total = sum(counts.get(kind, len(several)) for kind, several in members.items())
        if total > _MOST:
            raise refused(f"predict: the graph would have {total:,} tasks; at most {_MOST:,} fit")
        for several in members.values():
            several.sort(key=_numbers)
        grown = {
            kind: _renamed(kind, several, counts.get(kind, len(several)))
            for kind, several in members.items()
        }
        pairs: dict[tuple[str, str], set[tuple[int, int]]] = {}
        place = {name: i for several in members.values() for i, name in enumerate(several)}
        for source, target in edges:
            kinds = class_of(source), class_of(target)
            pairs.setdefault(kinds, set()).add((place[source], place[target]))
        found = []
        for (a, b), known in pairs.items():
            sizes = len(members[a]), len(members[b])
            found += [
                (grown[a][i], grown[b][j])
                for i, j in islice(
                    _continued(a, b, known, sizes, (len(grown[a]), len(grown[b]))), _MOST + 1
                )
            ]
            if len(found) > _MOST:
                raise refused(f"predict: the graph would have over {_MOST:,} edges")
        return [name for several in grown.values() for name in several], found


def _numbers(name: str) -> tuple[list[int], str]:
    return [int(digits) for digits in re.findall(r"[0-9]+", name)], name


def _whole(value: float, factor: int = 1) -> int:
    """Return an integer that a profile can hold `factor` times, or raise an OverflowError."""
    if factor * value >= 2**63:
        raise OverflowError
    return round(value)


def _renamed(kind: str, members: Sequence[str], count: int) -> list[str]:
    """Return the names of `count` members of a class."""
    if count <= len(members):
        return [*members[:count]]
    if kind.count("*") != 1:
        raise refused(f"predict: the names of {count} tasks {kind!r} are not known")
    first = re.findall(r"[0-9]+", members[0])[0]
    # Numbers may have leading zeros.
    return [kind.replace("*", str(int(first) + i).zfill(len(first))) for i in range(count)]


def _continued(
    a: str, b: str, known: set[tuple[int, int]], sizes: tuple[int, int], grown: tuple[int, int]
) -> Iterable[tuple[int, int]]:
    """Return the edges between two classes that have grown, by the pattern of those known."""
    patterns: list[Callable[[int, int], Iterable[tuple[int, int]]]] = [
        lambda m, n: product(range(m), range(n)),
        lambda m, n: ((i, i) for i in range(min(m, n))),
        lambda m, n: ((i, i + 1) for i in range(min(m, n - 1))),
    ]
    for pattern in patterns:
        if known == {*pattern(*sizes)}:
            return pattern(*grown)
    raise refused(
        f"predict: how the edges from {a!r} to {b!r} continue for more tasks is not known; "
        "predict a configuration whose graph was measured"
    )
