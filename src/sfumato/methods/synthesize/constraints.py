"""Statistics of the user's own that synthetic rows keep: the nearest distribution to a model that has them (TL §2.3.5).

A statistic is written by *features* of a row, f(row), whose mean over the rows decides it:

    mean(y | c)            (y − m)·1_c                                   m the mean in the table
    var, cov, corr, slopes (x_i − m_i)·1_c and ((x_i − m_i)(x_j − m_j) − s_ij)·1_c
    share(a | c), count    (1_a − p)·1_c
    quantile(x, q | c)     (1_{x ≤ v} − q)·1_c                           v the quantile in the table

A distribution in which all features have mean 0 has the statistics of the table, exactly. Of all of them, that with the
least relative entropy to the model p₀ is

    p(row) ∝ p₀(row)·exp(Σ_j λ_j f_j(row)),

and λ minimises log E₀ exp(Σ λ_j f_j), which is convex (Csiszár, 1975). If p₀ has the largest entropy under its own
constraints, and these are among the features, p has the largest entropy under all of them. E₀ is the mean over many
drawn rows, and rows are drawn from p by choosing among these (sampling, importance, resampling: Rubin, 1988).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import CannotRelease
from sfumato.methods.synthesize.variables import Codes, Drawn, Numbers, Variable
from sfumato.statistics.combined import Combination, ShareMeeting
from sfumato.statistics.moments import Moments
from sfumato.statistics.point_rows import PointRows
from sfumato.statistics.tallies import Count, Quantile, Sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.conditions import Condition
    from sfumato.statistics.statistic import Statistic
    from sfumato.table.table import Table

    Array = NDArray[np.float64]

STEPS = 100  # of Newton's method
SMALL = 1e-9  # decrease of the objective at which it ends
SLACK = 0.1  # a feature may miss by about this share of its sampling error, so that λ stays finite
MISSED = 1.0  # sampling errors by which a feature of the user may miss


@dataclass(frozen=True, repr=False, eq=False)
class Feature:
    """Functions of a row that have mean 0 in the table, because of one statistic."""

    statistic: str
    columns: tuple[str, ...]  # that are read
    of: Callable[[PointRows], Array]  # (rows, functions)


def features_of(statistic: Statistic, table: Table, k: int) -> Iterator[Feature]:
    """Yield the features of a statistic; of groups, only those with at least k rows.

    Raise if fewer than k rows meet a condition, because the statistic would then tell about these few people.
    """
    rows = PointRows.of(table, statistic.columns, np.ones(table.rows))
    resolved = statistic.resolve(rows.cells)
    grouped = resolved is not statistic
    for part in resolved.parts():
        for single in _singles(part):
            met = rows.meets(single.where)
            if met.sum() >= k:
                yield _feature(single, rows, met, str(statistic))
            elif not grouped:
                raise CannotRelease(
                    f"At least k = {k} rows must meet the condition of a statistic that is kept.",
                    found=f"{int(met.sum())} rows for {statistic.__class__.__name__.lower()} of "
                    f"{', '.join(map(repr, statistic.columns))}",
                    fix="a wider condition, or a smaller k",
                )


def _singles(part: Statistic) -> Iterator[Statistic]:
    """Yield the statistics of which a difference or a ratio is made."""
    inner = part.unconditional
    if isinstance(inner, Combination):
        yield from _singles(inner.first)
        yield from _singles(inner.second)
    else:
        yield part


def _feature(part: Statistic, rows: PointRows, met: NDArray[np.bool_], name: str) -> Feature:
    inner, where = part.unconditional, part.where
    if isinstance(inner, Count):
        return _of_truth(name, part.columns, where.joined(inner.where), None, rows)
    if isinstance(inner, ShareMeeting):
        return _of_truth(name, part.columns, inner.condition, where, rows)
    if isinstance(inner, Quantile):
        return _of_quantile(name, inner, where, part.columns, rows, met)
    if isinstance(inner, Sum) or inner.is_characteristic:
        return _of_moments(name, inner, where, part.columns, rows, met)
    raise CannotRelease(
        "A statistic that is kept must be made of means, covariances, shares or quantiles.",
        found=name,
        fix="for example mean, var, cov, corr, regress, share, count, quantile or table, also by groups",
    )


def _of_truth(
    name: str, columns: tuple[str, ...], asked: Condition, among: Condition | None, rows: PointRows
) -> Feature:
    """Return the feature of the share of rows that meet a condition, among all rows or among some."""

    def read(these: PointRows) -> tuple[Array, Array]:
        inside = np.ones(len(these.places)) if among is None else these.meets(among).astype(np.float64)
        return these.meets(asked) * inside, inside

    truth, inside = read(rows)
    share = float(truth.sum() / max(inside.sum(), 1.0))

    def measure(these: PointRows) -> Array:
        own, within = read(these)
        return np.asarray(own - share * within)[:, None]

    return Feature(name, columns, measure)


def _of_quantile(
    name: str, inner: Quantile, where: Condition, columns: tuple[str, ...], rows: PointRows, met: NDArray[np.bool_]
) -> Feature:
    def read(these: PointRows) -> tuple[Array, NDArray[np.bool_]]:
        numbers = these.numbers(inner.columns)[:, 0]
        return numbers, these.meets(where) & ~np.isnan(numbers)

    numbers, known = read(rows)
    value = float(np.quantile(numbers[known], inner.share)) if known.any() else 0.0
    share = float((numbers[known] <= value).mean()) if known.any() else 0.0  # the share itself, without ties

    def measure(these: PointRows) -> Array:
        own, within = read(these)
        return np.asarray(np.where(within, (own <= value) - share, 0.0))[:, None]

    return Feature(name, columns, measure)


def _of_moments(
    name: str, inner: Statistic, where: Condition, columns: tuple[str, ...], rows: PointRows, met: NDArray[np.bool_]
) -> Feature:
    """Return the means, and the second moments that the statistic depends on, of the rows that are complete."""
    points = rows.numbers(inner.columns)
    used = met & ~np.isnan(points).any(axis=1)
    moments = Moments.of(points[used])
    scale = np.where(moments.sd > 0.0, moments.sd, 1.0)
    pairs = []
    if not isinstance(inner, Sum):
        slope = inner.gradient(moments).covariance
        places = range(len(slope))
        pairs = [(i, j) for i in places for j in places if i <= j and (slope[i, j] or (i == j and slope[i].any()))]

    def measure(these: PointRows) -> Array:
        own = (these.numbers(inner.columns) - moments.mean) / scale
        within = these.meets(where) & ~np.isnan(own).any(axis=1)
        second = [own[:, i] * own[:, j] - moments.covariance[i, j] / (scale[i] * scale[j]) for i, j in pairs]
        return np.where(within[:, None], np.column_stack([own, *second]), 0.0)

    return Feature(name, columns, measure)


def measure_features(features: Sequence[Feature], table: Table) -> list[Array]:
    """Return the functions of each feature, one row per row of the table."""
    columns = tuple(dict.fromkeys(name for one in features for name in one.columns))
    rows = PointRows.of(table, columns, np.ones(table.rows))
    return [one.of(rows) for one in features]


def own_moments(variables: Sequence[Variable], order: int) -> Callable[[Drawn], Array]:
    """Return a function of drawn rows: the features of a model of maximum entropy, with mean 0 in the table."""
    numbers = [place for place, one in enumerate(variables) if isinstance(one, Numbers)]
    codes = [place for place, one in enumerate(variables) if isinstance(one, Codes)]
    values = np.column_stack([np.empty((len(variables[0].values), 0)), *(variables[place].values for place in numbers)])
    mean, spread = values.mean(axis=0), np.cov(values, rowvar=False, bias=True).reshape(len(numbers), len(numbers))
    pairs = [(i, j) for i in range(len(numbers)) for j in range(i, len(numbers)) if order > 1 or i == j]
    shares = [np.bincount(variables[place].values, minlength=_size(variables[place])) for place in codes]

    def measure(drawn: Drawn) -> Array:
        own = np.column_stack([np.empty((len(drawn[0]), 0)), *(drawn[place] for place in numbers)]) - mean
        columns = [own, *((own[:, i] * own[:, j] - spread[i, j])[:, None] for i, j in pairs)]
        for place, count in zip(codes, shares, strict=True):
            common = np.argsort(-count, kind="stable")[1:MANY_CODES]
            columns.append((drawn[place][:, None] == common) - count[common] / count.sum())
        return np.column_stack(columns)

    return measure


MANY_CODES = 10  # codes of a variable whose shares are kept beside the user's statistics


def _size(variable: Variable) -> int:
    return variable.size if isinstance(variable, Codes) else 0


@dataclass(frozen=True, repr=False, eq=False)
class Tilt:
    """The weights of drawn rows under which features have mean 0."""

    weights: Array  # of each row, with sum 1
    gaps: Array  # of each feature: its mean with these weights, in standard deviations of the drawn rows

    @property
    def effective(self) -> float:
        """How many rows of equal weight would have the same variance."""
        return float(1.0 / (self.weights**2).sum())

    @classmethod
    def fit(cls, features: Array, rows: int) -> Tilt:
        """Minimise log mean exp(f·λ) + ½ Σ (τ λ)² by Newton's method; τ is SLACK sampling errors of ``rows`` rows.

        The second term keeps λ finite where drawn rows cannot have the wanted mean; a feature then misses by τ² λ.
        """
        scale = features.std(axis=0)
        varying = scale > 1e-12 * np.maximum(1.0, np.abs(features).max(axis=0, initial=0.0))
        f = features[:, varying] / scale[varying]
        slack = SLACK**2 / rows
        parameters = np.zeros(f.shape[1])
        weights, value = _weights(f, parameters, slack)
        for _ in range(STEPS):
            mean = weights @ f
            slope = mean + slack * parameters
            centred = f - mean
            curve = (centred * weights[:, None]).T @ centred + (slack + 1e-10) * np.eye(f.shape[1])
            step = np.linalg.solve(curve, slope)
            size, before = 1.0, value
            while size > 1e-6:
                tried, found = _weights(f, parameters - size * step, slack)
                if found <= value - 1e-4 * size * float(slope @ step):
                    parameters, weights, value = parameters - size * step, tried, found
                    break
                size /= 2.0
            if before - value <= SMALL:
                break
        gaps = np.zeros(features.shape[1])
        gaps[varying] = weights @ f
        gaps[~varying] = features[:, ~varying].mean(axis=0)
        return cls(weights, gaps)

    def choose(self, rows: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return chosen rows, each as often as its weight says up to one (systematic resampling), in random order."""
        ticks = (np.arange(rows) + generator.random()) / rows
        order = generator.permutation(len(self.weights))
        chosen = order[np.minimum(np.searchsorted(np.cumsum(self.weights[order]), ticks), len(order) - 1)]
        return np.asarray(generator.permutation(chosen))


def _weights(features: Array, parameters: Array, slack: float) -> tuple[Array, float]:
    """Return normalised weights and the value of the objective."""
    power = features @ parameters
    largest = float(power.max())
    raw = np.exp(power - largest)
    value = largest + float(np.log(raw.mean())) + 0.5 * slack * float(parameters @ parameters)
    return raw / raw.sum(), value


def require_met(tilt: Tilt, features: Sequence[str], rows: int) -> None:
    """Raise if a feature of the user misses by more than MISSED sampling errors; ``features`` are their statistics."""
    worst = int(np.argmax(np.abs(tilt.gaps[: len(features)]))) if features else 0
    if features and abs(tilt.gaps[worst]) * np.sqrt(rows) > MISSED:
        raise CannotRelease(
            "The model must be able to draw rows that have the statistics to keep.",
            found=f"{features[worst]} is missed by {abs(tilt.gaps[worst]):.2g} standard deviations",
            fix='another kind, such as "trees", or fewer statistics',
        )
