"""NormalForm: a cost as a constant plus a few terms of the parameters, and how one is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product
from math import exp, log, log2, prod
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dagprofiler._util import grouped

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Power(NamedTuple):
    """A factor of a term, ``x**exponent * log2(x)**log``, or ``1 - exp(-x / scale)``.

    Attributes
    ----------
    exponent, log
        Exponents of a parameter and of its logarithm.
    scale
        Value of the parameter where the factor has come to 63 % of its level; 0: it has none.
    """

    exponent: float = 0.0
    log: int = 0
    scale: float = 0.0

    def __call__(self, x: float) -> float:
        """Return the factor for a value of the parameter."""
        if self.scale:
            return 1.0 - exp(-x / self.scale)
        return float(x**self.exponent * (log2(x) ** self.log if self.log else 1.0))

    def formula(self, name: str) -> str:
        """Return the factor in words of mathematics."""
        if self.scale:
            return f"(1 - exp(-{name}/{self.scale:.4g}))"
        shown = {0.0: "", 1.0: name}.get(self.exponent, f"{name}^{self.exponent:.3g}")
        logarithm = {0: "", 1: f"log2({name})"}.get(self.log, f"log2({name})^{self.log}")
        return f"{shown} {logarithm}".strip()


#: One power for each parameter; all 1 in the constant term.
Term = tuple[Power, ...]

_NONE = Power()

#: Powers of a parameter that programs have, and what each costs when forms are chosen:
#: of two that explain the measurements as well, the one of smaller cost is more likely.
_POWERS: dict[Power, float] = {
    **{Power(i): 0.0 for i in (1, 2, 3)},
    **{Power(i, 1): 0.5 for i in (0, 1, 2)},
    Power(0.5): 0.5,
    Power(1.5): 0.5,
    Power(2.5): 1.0,
    **{Power(i): 1.5 for i in (1 / 4, 1 / 3, 2 / 3, 3 / 4, 5 / 4, 4 / 3, 5 / 3, 7 / 4)},
    **{Power(i, 1): 1.5 for i in (0.5, 1.5)},
    **{Power(i, 2): 1.5 for i in (0, 1, 2)},
}

#: Cost of a power with a level, and points that it needs; the ratio of the scales that are tried
#: for times, and for what is counted.
_SATURATING, _SATURATING_POINTS = 2.0, 4
_STEP, _FINE_STEP = 1.1, 1.02

#: Powers that add up in one cost, as of a loop after another; points that such a sum needs.
_ADDED, _ADDED_POINTS = (Power(1), Power(2), Power(3), Power(1, 1)), 5

#: Cost of a constant, which every task has: it is called, and its caches are cold.
_CONSTANT = 0.5

#: What a form's complexity counts against its misfit.
_PENALTY = 2.5

#: Relative error from which on no form is taken to hold for the whole range; with noise it may be
#: larger, up to the second number.
_TOLERATED, _MOST_TOLERATED = 0.05, 0.3

#: The same of what is counted.
_TOLERATED_SIZES = 0.005

#: Fewest points that tell more than a mean.
_FEWEST = 3

#: Least relative noise: sizes in bytes are not quite on a curve either.
_EXACT = 1e-4

#: Noise from which on a form must not be below 0 at small values.
_NOISY = 1e-3

#: Forms within this of the best one's information criterion count in an interval.
_PLAUSIBLE = 4.0

#: Forms whose cross-validated error is so many times the least one are not plausible.
_WORSE = 4.0

#: Share of the weight of the best form from which on another one is about as plausible.
_RIVAL = 0.3

#: Largest standard deviation of a cost's logarithm: an interval from a fiftieth to fifty times
#: says that nothing is known.
_MOST_DEVIATION = 2.0

#: Quantiles of a normal distribution, of equal probability.
_NORMAL = tuple(NormalDist().inv_cdf((i + 0.5) / 200) for i in range(200))


@dataclass(frozen=True)
class NormalForm:
    """A cost as a function of the parameters of a configuration.

    Attributes
    ----------
    terms
        For each term the power of each parameter.
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
        exponents = sum(power.exponent + power.log for term in self.terms for power in term)
        return sum(_cost_of(term) for term in self.terms), exponents

    def saturates(self) -> str:
        """Return where it saturates, in words; "" if it does not."""
        scales = [power.scale for term in self.terms for power in term if power.scale]
        return f"saturates from about {float(f'{3 * scales[0]:.2g}'):,g}" if scales else ""

    def formula(self, names: Sequence[str]) -> str:
        """Return the form in words of mathematics, as in ``0.5 + 2e-06 N log2(N)``."""
        parts = []
        for coefficient, term in zip(self.coefficients, self.terms):
            factors = [power.formula(name) for name, power in zip(names, term) if power != _NONE]
            parts.append(" ".join([f"{coefficient:.4g}", *factors]))
        return " + ".join(parts).replace("+ -", "- ") or "0"


def _value(term: Term, point: Sequence[float]) -> float:
    return prod(power(x) for power, x in zip(term, point))


@cache
def _cost_of(term: Term) -> float:
    """Return how complex a term is."""
    costs = (2.0 + _POWERS.get(power, _SATURATING) for power in term if power != _NONE)
    return 1.0 + (sum(costs) or _CONSTANT)


class Candidate(NamedTuple):
    """A form that may explain the points.

    Attributes
    ----------
    score
        Its information criterion: the less, the more plausible.
    form
        With its coefficients.
    error
        When each point is left out in turn: root of the mean square, relative to the values.
    covariance
        Of the coefficients, relative to the variance.
    variance
        Of a value, relative to it.
    """

    score: float
    form: NormalForm
    error: float
    covariance: NDArray[np.float64] | Sequence[Sequence[float]]
    variance: float


@dataclass(frozen=True)
class Fit:
    """A form chosen for measured points, and the others that are plausible.

    Attributes
    ----------
    regime
        What changes within the measured range, in words; "" if nothing does.
    candidates, weights
        The plausible forms, the chosen one first, and how plausible each is.
    points
        How many points they were fitted to.
    """

    regime: str
    candidates: tuple[Candidate, ...]
    weights: tuple[float, ...]
    points: int

    @property
    def form(self) -> NormalForm:
        """The chosen form, which is the most plausible one."""
        return self.candidates[0].form

    @property
    def error(self) -> float:
        """Cross-validated error of the chosen form, relative to the measured values."""
        return self.candidates[0].error

    def simplest(self) -> NormalForm:
        """Return the simplest of the forms about as plausible as the chosen one."""
        least, pairs = _RIVAL * self.weights[0], zip(self.candidates, self.weights)
        rivals = [candidate.form for candidate, weight in pairs if weight >= least]
        return min(rivals, key=lambda form: form.complexity)

    def interval(self, point: Sequence[float]) -> tuple[float, float]:
        """Return a 95 % interval of the cost at a point.

        Notes
        -----
        The quantiles of a mixture of the plausible forms' predictive distributions, which are
        log-normal, weighted by their information (Burnham and Anderson, 2002).
        """
        costs, weights = [], []
        for candidate, weight in zip(self.candidates, self.weights):
            middle = candidate.form(point)
            row = np.array([_value(term, point) for term in candidate.form.terms])
            of_form = float(row @ candidate.covariance @ row) / (middle**2 or 1.0)
            deviation = min(_MOST_DEVIATION, (candidate.variance * (1.0 + of_form)) ** 0.5)
            costs.append(middle * np.exp(deviation * np.array(_NORMAL)))
            weights.append(np.full(len(_NORMAL), weight))
        values, shares = np.concatenate(costs), np.concatenate(weights)
        order = np.argsort(values)
        below = np.cumsum(shares[order]) / shares.sum()
        low, high = values[order][np.searchsorted(below, [0.025, 0.975])]
        middle = self.form(point)
        return min(middle, float(low)), max(middle, float(high))


def fit_points(
    points: Sequence[Sequence[float]],
    values: Sequence[float],
    noise: float,
    powers: Sequence[Power] = (),
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
    powers
        Powers of the only parameter that a term may have; by default all that programs have.

    Notes
    -----
    Performance model normal form (Calotoiu et al., SC 2013) with one term and a constant, or two
    terms, fitted to relative errors; a term may saturate. The form with the least information
    criterion (Akaike, 1974) is chosen, in which complex powers cost more. Its variance is that
    of the noise, which is known, or what is left unexplained if that is more. Where no form
    holds for all sizes, the smallest ones are left out until one does.
    """
    if len({*values}) == 1 or len(points) < _FEWEST:
        form = NormalForm(((_NONE,) * len(points[0]),), (sum(values) / len(values),))
        return Fit("", (Candidate(0.0, form, 0.0, [[0.0]], noise**2),), (1.0,), len(points))
    whole = _Search(points, values, noise, powers).best()
    tolerated = max(noise, min(max(_TOLERATED, 2.5 * noise), _MOST_TOLERATED))
    if noise < _EXACT:
        tolerated = _TOLERATED_SIZES
    if len(points[0]) > 1 or whole.error <= tolerated:
        return whole
    order = sorted(range(len(points)), key=lambda k: points[k][0])
    xs, ys = [points[k] for k in order], [values[k] for k in order]
    for begin in range(1, len(xs) - _FEWEST + 1):
        tail = _Search(xs[begin:], ys[begin:], noise, powers, is_tail=True).best()
        if tail.error <= max(noise, whole.error / 4):
            last, first = xs[begin - 1][0], xs[begin][0]
            regime = f"changes between {last:g} and {first:g}"
            if tail.form.is_constant:
                regime = f"saturates from {first:,g}"
            return replace(tail, regime=tail.regime or regime)
    return replace(whole, regime=f"no form of few terms fits: {whole.error:.0%} off")


class _Search:
    """All forms for some points, each with its fit and its error when a point is left out."""

    def __init__(
        self,
        points: Sequence[Sequence[float]],
        values: Sequence[float],
        noise: float,
        powers: Sequence[Power] = (),
        *,
        is_tail: bool = False,
    ) -> None:
        self.allowed = powers
        self.points, self.noise = points, max(noise, _EXACT)
        # No logarithm is below 0 there. Of a tail smaller values follow another form.
        least = [min(column) for column in zip(*points)]
        self.small = least if is_tail else [max(min(x, 1.0), x / 4) for x in least]
        self.values = np.array([float(value) for value in values])
        # Relative errors; a value of 0 counts by the scale of the others.
        self.relative = 1.0 / np.maximum(self.values, 1e-3 * self.values.max())
        self.parameters = len(points[0])
        self.constant: Term = (_NONE,) * self.parameters
        self.columns: dict[Term, NDArray[np.float64]] = {}

    def column(self, term: Term) -> NDArray[np.float64]:
        """Return the values of a term at all points, relative to the measured ones."""
        if term not in self.columns:
            values = np.array([_value(term, point) for point in self.points])
            self.columns[term] = values * self.relative
        return self.columns[term]

    def best(self) -> Fit:
        """Return the form with the least information criterion, and those near it."""
        by_size = grouped((len(terms), terms) for terms in self.forms())
        found: list[Candidate] = []
        for size, forms in by_size.items():
            if size < len(self.values):
                found += self.fitted(forms)
        # Where a size has a time of 0, a form that ignores all others may look plausible.
        most = _WORSE * max(self.noise, min(candidate.error for candidate in found))
        found = [candidate for candidate in found if candidate.error <= most]
        found.sort(key=lambda candidate: candidate.score)
        kept = [one for one in found if one.score - found[0].score <= _PLAUSIBLE]
        # Forms that differ in where they saturate alone share the weight of one.
        shapes = [_shape(candidate.form) for candidate in kept]
        weights = [
            exp((kept[0].score - candidate.score) / 2) / shapes.count(shape)
            for candidate, shape in zip(kept, shapes)
        ]
        regime = kept[0].form.saturates()
        return Fit(regime, tuple(kept), tuple(weights), len(self.values))

    def fitted(self, forms: Sequence[tuple[Term, ...]]) -> Iterable[Candidate]:
        """Yield each form of one number of terms, if its coefficients make sense."""
        target, k = self.values * self.relative, len(self.values)
        design = np.array([[self.column(term) for term in terms] for terms in forms])
        design = design.transpose(0, 2, 1)
        scale = np.abs(design).max(axis=1, keepdims=True)
        scale[scale == 0] = 1.0
        design /= scale
        inverse = np.linalg.pinv(design)
        coefficients = inverse @ target
        residual = target - (design @ coefficients[..., None])[..., 0]
        leverage = np.einsum("hkp,hpk->hk", design, inverse)
        left_out = residual / np.maximum(1e-9, 1.0 - leverage)
        for h, terms in enumerate(forms):
            c = coefficients[h] / scale[h, 0]
            if any(c[p] <= 0 for p, term in enumerate(terms) if term != self.constant):
                continue
            form = NormalForm(terms, tuple(float(each) for each in c))
            if leverage[h].max() > 1 - 1e-9 or self.is_negative(form):
                continue
            rss = float((residual[h] ** 2).sum())
            cost = sum(_cost_of(term) for term in terms)
            half = inverse[h] / scale[h].T
            square = float((left_out[h] ** 2).mean())
            yield Candidate(
                k * log(rss / k + self.noise**2) + _PENALTY * cost,
                form,
                square**0.5,
                # The inverse of a normal matrix is the square of the design's.
                half @ half.T,
                max(square, self.noise**2),
            )

    def is_negative(self, form: NormalForm) -> bool:
        """Tell whether a noisy cost would be below 0 at a quarter of the smallest size.

        Where noise bends a line, a slow form with a large negative constant fits it best.
        """
        terms = zip(form.coefficients, form.terms)
        return self.noise > _NOISY and sum(c * _value(term, self.small) for c, term in terms) < 0

    def forms(self) -> list[tuple[Term, ...]]:
        """Return the sets of terms to try."""
        forms: list[tuple[Term, ...]] = [(self.constant,)]
        if self.parameters > 1:
            return forms + self.combined()
        for power in self.powers():
            forms += [((power,),), (self.constant, (power,))]
        if len(self.values) >= _ADDED_POINTS:
            allowed = [power for power in self.powers() if power in _ADDED]
            forms += [((a,), (b,)) for a, b in combinations(allowed, 2)]
        return forms

    def powers(self) -> list[Power]:
        """Return the powers of the only parameter to try."""
        if self.allowed:
            return [*self.allowed]
        xs = [point[0] for point in self.points]
        powers = [power for power in _POWERS if not power.log or min(xs) >= 2]
        if len(xs) >= _SATURATING_POINTS:
            least = min(xs) / 4
            step = _STEP if self.noise > _NOISY else _FINE_STEP
            count = int(log(max(xs) / least) / log(step))
            powers += [Power(scale=least * step**i) for i in range(count)]
        return powers

    def combined(self) -> list[tuple[Term, ...]]:
        """Return sets of terms of several parameters: sums and products of each one's best."""
        choices: list[list[Power]] = []
        for p in range(self.parameters):
            line = longest_line(self.points, p)
            values = [float(self.values[k]) for k in line]
            fit = _Search([[self.points[k][p]] for k in line], values, self.noise).best()
            powers = [term[0] for one in fit.candidates[:6] for term in one.form.terms]
            best = [*dict.fromkeys(power for power in powers if power != _NONE)][:4]
            choices.append([*best, _NONE])
        products = [term for term in product(*choices) if term != self.constant]
        forms: list[tuple[Term, ...]] = []
        for size in range(1, min(2, len(self.values) - 2) + 1):
            for terms in combinations(products, size):
                forms += [terms, (self.constant, *terms)]
        return forms


def _shape(form: NormalForm) -> tuple[Term, ...]:
    """Return the terms of a form without where they saturate."""
    return tuple(
        tuple(power._replace(scale=float(power.scale > 0)) for power in term) for term in form.terms
    )


def longest_line(points: Sequence[Sequence[float]], p: int) -> list[int]:
    """Return the points that differ in one parameter alone: of the largest such set."""
    lines: dict[tuple[float, ...], dict[float, int]] = {}
    for k, point in enumerate(points):
        rest = tuple(x for q, x in enumerate(point) if q != p)
        lines.setdefault(rest, {})[point[p]] = k
    return [*max(lines.values(), key=len).values()]
