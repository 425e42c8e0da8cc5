"""NormalForm: a cost as a sum of few terms c * n**i * log2(n)**j, and how one is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product
from math import exp, inf, log, log2, prod
from typing import Any

#: A factor of a term: the exponents of one parameter and of its logarithm.
Power = tuple[float, int]
#: One power for each parameter; all zero in the constant term.
Term = tuple[Power, ...]

#: Exponents of a parameter that programs have, and what each costs when forms are chosen:
#: of two that explain the measurements as well, the one of smaller cost is more likely.
_POWERS: dict[Power, float] = {
    **{(float(i), 0): 0.0 for i in (1, 2, 3)},
    **{(float(i), 1): 0.5 for i in (0, 1, 2)},
    (0.5, 0): 0.5,
    (1.5, 0): 0.5,
    (2.5, 0): 1.0,
    **{(i, 0): 1.5 for i in (1 / 4, 1 / 3, 2 / 3, 3 / 4, 5 / 4, 4 / 3, 5 / 3, 7 / 4)},
    **{(i, 1): 1.5 for i in (0.5, 1.5)},
    **{(float(i), 2): 1.5 for i in (0, 1, 2)},
}

_NONE: Power = (0.0, 0)

#: Relative error from which on no form is taken to hold for the whole range; with noise it may be
#: larger, up to the second number.
TOLERATED, _MOST_TOLERATED = 0.1, 0.3

#: Fewest points that tell more than a mean.
_FEWEST = 3

#: Costs up to this count as 0, since inverses of less overflow.
_LEAST = 1e-30

#: Relative noise of what is counted and not timed.
_EXACT = 1e-9

#: Forms within this of the best one's information criterion count in an interval.
_PLAUSIBLE = 6.0

#: Forms whose cross-validated error is so many times the least one are not plausible.
_WORSE = 4.0

#: Share of the weight of the best form from which on another one is about as plausible.
_RIVAL = 0.3


@dataclass(frozen=True)
class NormalForm:
    """A cost as a function of the parameters of a configuration.

    Attributes
    ----------
    terms
        For each term the exponents of each parameter and of its logarithm.
    coefficients
        Of each term; those of terms with a parameter are at least 0.
    """

    terms: tuple[Term, ...]
    coefficients: tuple[float, ...]

    def __call__(self, point: Sequence[float]) -> float:
        """Return the cost for the values of the parameters; at least 0."""
        terms = zip(self.coefficients, self.terms)
        return max(0.0, sum(c * _value(term, point) for c, term in terms))

    @property
    def is_constant(self) -> bool:
        """Whether it does not depend on the parameters."""
        return all(power == _NONE for term in self.terms for power in term)

    @property
    def complexity(self) -> tuple[float, float]:
        """How complex its terms are, then the sum of their exponents."""
        exponents = sum(i + j for term in self.terms for i, j in term)
        return sum(map(_cost_of_term, self.terms)), exponents

    def formula(self, names: Sequence[str], constant: str = "") -> str:
        """Return the form in words of mathematics, as in ``0.5 + 2e-06 N log2(N)``.

        The constant has the unit `constant`.
        """
        parts = []
        for coefficient, term in zip(self.coefficients, self.terms):
            factors = [_factor(name, power) for name, power in zip(names, term) if power != _NONE]
            parts.append(" ".join([f"{coefficient:.4g}", *(factors or [constant])]).strip())
        return " + ".join(parts).replace("+ -", "- ") or "0"


def _value(term: Term, point: Sequence[float]) -> float:
    factors: Iterable[float] = (
        x**i * (log2(x) ** j if j else 1.0) for (i, j), x in zip(term, point)
    )
    return prod(factors)


def _factor(name: str, power: Power) -> str:
    i, j = power
    shown = {0.0: "", 1.0: name}.get(i, f"{name}^{i:.3g}")
    logarithm = {0: "", 1: f"log2({name})"}.get(j, f"log2({name})^{j}")
    return f"{shown} {logarithm}".strip()


@dataclass(frozen=True)
class Fit:
    """A form chosen for measured points, and the others that are plausible.

    Attributes
    ----------
    error
        Cross-validated error of the chosen form: root of the mean square, relative to the
        measured values.
    regime
        What changes within the measured range, in words; "" if nothing does.
    weights, forms
        The plausible forms, the chosen one first, and how plausible each is; the weights sum to 1.
    spreads
        Of each plausible form the inverse of its normal matrix, its variance and its degrees
        of freedom.
    """

    error: float
    regime: str
    weights: tuple[float, ...]
    forms: tuple[NormalForm, ...]
    spreads: tuple[tuple[Any, float, int], ...]

    @property
    def form(self) -> NormalForm:
        """The chosen form, which is the most plausible one."""
        return self.forms[0]

    def _about_as_plausible(self) -> list[NormalForm]:
        least = _RIVAL * self.weights[0]
        return [form for form, weight in zip(self.forms, self.weights) if weight >= least]

    def simplest(self) -> NormalForm:
        """Return the simplest of the forms about as plausible as the chosen one."""
        return min(self._about_as_plausible(), key=lambda form: form.complexity)

    def rivals(self, point: Sequence[float]) -> tuple[float, float]:
        """Return the least and the most of the forms about as plausible as the chosen one."""
        costs = [form(point) for form in self._about_as_plausible()]
        return min(costs), max(costs)

    def interval(self, point: Sequence[float]) -> tuple[float, float]:
        """Return a 95 % interval of the cost at a point.

        Notes
        -----
        The quantiles of a mixture of the plausible forms' predictive distributions (Student's
        t), weighted by their information (Burnham and Anderson, 2002).
        """
        import numpy

        chance = numpy.random.default_rng(0)
        drawn: list[float] = []
        for weight, form, (inverse, variance, free) in zip(self.weights, self.forms, self.spreads):
            count = round(2000 * weight)
            if count:
                row = numpy.array([_value(term, point) for term in form.terms])
                middle = float(row @ numpy.array(form.coefficients))
                deviation = (variance * (float(row @ inverse @ row) + middle**2)) ** 0.5
                drawn += list(middle + deviation * chance.standard_t(free, count))
        middle = self.form(point)
        low, high = numpy.quantile(drawn, [0.025, 0.975])
        return max(0.0, min(middle, float(low))), max(middle, float(high))


def fit_points(
    points: Sequence[Sequence[float]], values: Sequence[float], noise: float, *, line: bool = False
) -> Fit:
    """Return the form that explains values at points best, by its information criterion.

    Parameters
    ----------
    points
        The parameters' values of each measurement, above 0; at least three of each parameter
        that varies, with the others fixed.
    values
        What was measured there, at least 0.
    noise
        Relative uncertainty of each value, as known from repeated measurements.
    line
        Whether the form is a line over the first parameter, which may get steeper once, where
        one of the others begins to be above 0.

    Notes
    -----
    Performance model normal form (Calotoiu et al., SC 2013) with up to two terms and a
    constant, fitted to relative errors. The form with the least information criterion (Akaike,
    1974) is chosen, in which complex powers cost more. Its variance is that of the noise, which
    is known, plus what is left unexplained: few points alone tell it badly.
    """
    values = [value if value > _LEAST else 0.0 for value in values]
    if len({*values}) == 1 or len(points) < _FEWEST:
        return _constant(len(points[0]), sum(values) / len(values), noise)
    whole = _Search(points, values, noise, line=line).best()
    if len(points[0]) == 1:
        return _with_regimes(points, values, noise, whole)
    return whole


def _constant(parameters: int, value: float, noise: float, regime: str = "") -> Fit:
    import numpy

    form = NormalForm(((_NONE,) * parameters,), (value,))
    spread = numpy.zeros((1, 1)), noise**2, 30
    return Fit(0.0, regime, (1.0,), (form,), (spread,))


def _with_regimes(
    points: Sequence[Sequence[float]], values: Sequence[float], noise: float, whole: Fit
) -> Fit:
    """Return the fit of the largest sizes alone where they follow another form."""
    order = sorted(range(len(points)), key=lambda k: points[k][0])
    xs, ys = [points[k] for k in order], [values[k] for k in order]
    tolerated = max(noise, min(max(TOLERATED, 2.5 * noise), _MOST_TOLERATED))
    level = [y for y in ys if abs(y - ys[-1]) <= max(0.01, 2 * noise) * ys[-1]]
    flat = len(level) if ys[-len(level) :] == level else 0
    # Of what is disturbed two sizes may be alike by chance.
    if (
        (3 if noise else 2) <= flat < len(ys)
        and ys[-flat - 1] < 0.9 * ys[-1]
        and _rises(xs, ys, flat)
    ):
        where = f"saturates from {xs[-flat][0]:g}"
        return _constant(1, sum(level) / flat, max(noise, 0.02), where)
    if whole.error <= tolerated:
        return whole
    for begin in range(1, len(xs) - 3):
        tail = _Search(xs[begin:], ys[begin:], noise).best()
        if tail.error <= max(noise, whole.error / 4):
            return replace(tail, regime=_between(xs, begin))
    for begin in range(3, len(xs) - 1):
        head = _Search(xs[:begin], ys[:begin], noise).best()
        factors = [y / (head.form(x) or inf) for x, y in zip(xs[begin:], ys[begin:])]
        middle = sum(factors) / len(factors)
        if middle and head.error <= tolerated and max(factors) - min(factors) <= tolerated * middle:
            return _scaled(head, middle, _between(xs, begin))
    return replace(whole, regime=f"no form of few terms fits: {whole.error:.0%} off")


def _between(xs: Sequence[Sequence[float]], begin: int) -> str:
    return f"changes between {xs[begin - 1][0]:g} and {xs[begin][0]:g}"


def _scaled(fit: Fit, by: float, regime: str) -> Fit:
    """Return a fit whose form costs more by a factor, as beyond a cache."""

    def times(form: NormalForm) -> NormalForm:
        return NormalForm(form.terms, tuple(c * by for c in form.coefficients))

    spreads = tuple((inverse * by**2, variance, free) for inverse, variance, free in fit.spreads)
    forms = tuple(map(times, fit.forms))
    return replace(fit, regime=regime, forms=forms, spreads=spreads)


def _rises(xs: Sequence[Sequence[float]], ys: Sequence[float], flat: int) -> bool:
    """Tell whether values rise before they are flat as steeply as a saturating one does."""
    rise = len(ys) - flat
    before = log2(ys[rise] / ys[0]) / log2(xs[rise][0] / xs[0][0]) if ys[0] > 0 else inf
    return before > 0.25


class _Search:
    """All forms for some points, each with its fit and its error when a point is left out."""

    def __init__(
        self,
        points: Sequence[Sequence[float]],
        values: Sequence[float],
        noise: float,
        *,
        line: bool = False,
    ) -> None:
        import numpy

        self.numpy = numpy
        self.points, self.noise, self.line = points, max(noise, _EXACT), line
        # No logarithm is below 0 there.
        self.small = [max(min(x, 1.0), x / 4) for x in map(min, zip(*points))]
        self.values = numpy.array([float(value) for value in values])
        # Relative errors; a value of 0 counts by the scale of the others.
        scale = self.values.max() or 1.0
        self.relative = 1.0 / numpy.maximum(self.values, 1e-3 * scale)
        self.parameters = len(points[0])
        self.constant: Term = (_NONE,) * self.parameters
        self.columns: dict[Term, Any] = {}

    def column(self, term: Term) -> Any:
        if term not in self.columns:
            values = self.numpy.array([_value(term, point) for point in self.points])
            self.columns[term] = values * self.relative
        return self.columns[term]

    def best(self) -> Fit:
        numpy = self.numpy
        #: Of each form: its score, terms, coefficients, spread and error.
        found: list[tuple[float, tuple[Term, ...], Any, Any, float]] = []
        by_size: dict[int, list[tuple[Term, ...]]] = {}
        for terms in self.forms():
            by_size.setdefault(len(terms), []).append(terms)
        target = self.values * self.relative
        k = len(target)
        for size, several in by_size.items():
            if size >= k:
                continue
            design = numpy.array([[self.column(term) for term in terms] for terms in several])
            design = design.transpose(0, 2, 1)
            scale = numpy.abs(design).max(axis=1, keepdims=True)
            scale[scale == 0] = 1.0
            inverse = numpy.linalg.pinv(design / scale)
            coefficients = inverse @ target
            residual = target - ((design / scale) @ coefficients[..., None])[..., 0]
            leverage = numpy.einsum("hkp,hpk->hk", design / scale, inverse)
            left_out = residual / numpy.maximum(1e-9, 1.0 - leverage)
            squares = left_out**2
            for h, terms in enumerate(several):
                c = coefficients[h] / scale[h, 0]
                if any(c[p] <= 0 for p, term in enumerate(terms) if term != self.constant):
                    continue
                if leverage[h].max() > 1 - 1e-9 or self.negative(terms, c):
                    continue
                rss = float((residual[h] ** 2).sum())
                cost = sum(map(_cost_of_term, terms))
                score = k * log(rss / k + self.noise**2) + 2 * (size + cost)
                spread = inverse[h] / scale[h].T, max(rss / (k - size), self.noise**2), k - size
                found.append((score, terms, c, spread, float(squares[h].mean()) ** 0.5))
        # Where a size has a time of 0, a form that ignores all others may look plausible.
        most = _WORSE * max(self.noise, min(entry[4] for entry in found))
        found = sorted((entry for entry in found if entry[4] <= most), key=lambda entry: entry[0])
        kept = [entry for entry in found[:60] if entry[0] - found[0][0] <= _PLAUSIBLE]
        raw = [exp((found[0][0] - entry[0]) / 2) for entry in kept]
        # The inverse of a normal matrix is the square of the design's.
        spreads = tuple((half @ half.T, *others) for _, _, _, (half, *others), _ in kept)
        forms = tuple(NormalForm(terms, tuple(map(float, c))) for _, terms, c, _, _ in kept)
        weights = tuple(weight / sum(raw) for weight in raw)
        return Fit(kept[0][4], "", weights, forms, spreads)

    def negative(self, terms: Sequence[Term], coefficients: Sequence[float]) -> bool:
        """Tell whether a noisy cost would be below 0 at a quarter of the smallest size.

        Where noise bends a line, a slow form with a large negative constant fits it best.
        """
        whole = sum(c * _value(term, self.small) for c, term in zip(coefficients, terms))
        return self.noise > _EXACT and whole < 0

    def forms(self) -> list[tuple[Term, ...]]:
        """Return the sets of terms to try."""
        several: list[tuple[Term, ...]]
        if self.line:
            everyone = range(self.parameters)
            line, *steeper = (
                tuple((1.0, 0) if q == p else _NONE for q in everyone) for p in everyone
            )
            several = [(self.constant,), (line,), (self.constant, line)]
            return several + [(*terms, term) for term in steeper for terms in several]
        if self.parameters == 1:
            terms = [(power,) for power in self.powers(0)]
            several = [(self.constant,), *((term,) for term in terms)]
            several += [(self.constant, term) for term in terms]
            if len(self.values) >= 5:
                cheap = [term for term in terms if _POWERS[term[0]] <= 0.5]
                pairs = [pair for pair in combinations(terms, 2) if {*pair} & {*cheap}]
                several += pairs
                if len(self.values) >= 6:
                    several += [(self.constant, *pair) for pair in pairs]
            return several
        return self.combined()

    def powers(self, p: int) -> list[Power]:
        least = min(point[p] for point in self.points)
        return [power for power in _POWERS if not power[1] or least >= 2]

    def combined(self) -> list[tuple[Term, ...]]:
        """Return sets of terms of several parameters: sums and products of each one's best."""
        best: list[list[Power]] = []
        for p in range(self.parameters):
            line = longest_line(self.points, p)
            values = [float(self.values[k]) for k in line]
            fit = _Search([[self.points[k][p]] for k in line], values, self.noise).best()
            powers = [term[0] for form in fit.forms[:6] for term in form.terms]
            best.append([*dict.fromkeys(power for power in powers if power != _NONE)][:4])
        several: list[tuple[Term, ...]] = [(self.constant,)]
        choices = [[*powers, _NONE] for powers in best]
        products = [term for term in product(*choices) if term != self.constant]
        limit = min(3, len(self.values) - 2)
        for size in range(1, limit + 1):
            for terms in combinations(products, size):
                several += [terms, (self.constant, *terms)]
            if len(several) > 20_000:
                break
        return several


@cache
def _cost_of_term(term: Term) -> float:
    """Return how complex a term is."""
    return sum(2.0 + _POWERS[power] for power in term if power != _NONE) or 1.0


def longest_line(points: Sequence[Sequence[float]], p: int) -> list[int]:
    """Return the points that differ in one parameter alone: of the largest such set."""
    lines: dict[tuple[float, ...], dict[float, int]] = {}
    for k, point in enumerate(points):
        rest = tuple(x for q, x in enumerate(point) if q != p)
        lines.setdefault(rest, {})[point[p]] = k
    return [*max(lines.values(), key=len).values()]
