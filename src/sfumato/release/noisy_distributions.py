"""Distributions and higher moments of columns from released numbers with normal noise (TL §2.3.1).

x* = x + r is a released number without its shrinkage, r normal with the known variance R. Three things are recovered:

- the distribution of x, as shares f_j of a grid of points s_j, by the EM algorithm (Agrawal and Aggarwal, 2001)

      f_j ← f_j Σ_i φ(x*_i − s_j) / Σ_l f_l φ(x*_i − s_l) / n,

  which increases the likelihood at each step. Its limit is a few spikes; it ends when further steps gain too little;
- a table to grow trees on: each number is replaced by the quantile, of the recovered distribution of its class, at its
  rank in this class (Agrawal and Srikant, 2000, "ByClass");
- central moments of any order, from E x*^m = Σ_i C(m, i) E x^(m−i) E r^i, with their variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.errors import OptionError, RequestError
from sfumato.params import is_finite
from sfumato.release.noisy_columns import NoisyColumns, read_noise
from sfumato.statistics.point_rows import Correction
from sfumato.table.groups import rows_by_label
from sfumato.table.kinds import Kind
from sfumato.table.table import Table, require_known

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.manifest import Manifest
    from sfumato.release.rows import ReleasedFrames
    from sfumato.statistics.estimate import RecoveredEstimate

    Array = NDArray[np.float64]

NORMAL = ("correlated", "uncorrelated")  # kinds of noise that are normal, and the same for all rows
POINTS = 120  # of the grid
CELLS = 240  # in which released numbers are counted
ROUNDS = 3000
GAIN = 0.01
DRAWS = 25  # samples of the released rows, from which standard errors follow
LARGEST_ORDER = 6  # of a moment; its variance needs moments of twice this order
FEWEST_ROWS = 20
NOTE = "an estimate, no guarantee: the error is that of rows drawn again, with the sampling error of the original"


@dataclass(frozen=True, kw_only=True, eq=False)
class RecoveredDistribution:
    """The distribution of a column of the original, recovered from numbers with noise.

    Nothing is guaranteed. Details that are narrower than the noise are smoothed away.

    Attributes
    ----------
    column : str
        The column.
    points : array
        Equally spaced numbers, in the unit of the column.
    shares : array
        The share of the rows at each of them; their sum is 1.
    rounds : int
        Rounds of the EM algorithm.
    records : int
        Rows that have a number.
    draws : array
        Shares from samples of the released rows, one row each.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> ages = np.random.default_rng(0).normal(50, 10, 1000)
    >>> noisy = sf.Noise(level=0.3).release({"age": ages}, schema={"age": "quasi"}, seed=1)
    >>> found = sf.recover_distribution(noisy, "age")
    >>> found.column, round(float(found.shares.sum()), 6)
    ('age', 1.0)
    """

    column: str
    points: Array
    shares: Array
    rounds: int
    records: int
    draws: Array

    def share(self, low: float = -math.inf, high: float = math.inf) -> RecoveredEstimate:
        """Estimate the share of the rows whose number is from low to high.

        A point stands for all numbers that are nearer to it than to others, of which a part may lie inside.
        """
        inside = self._overlap(low, high)
        share = float(self.shares @ inside)
        return self._estimate(f"share({low:g} to {high:g} in {self.column})", share, self.draws @ inside)

    def quantile(self, share: float) -> RecoveredEstimate:
        """Estimate the number below which a share of the rows lies, such as 0.5 for the median."""
        if not is_finite(share) or not 0.0 < share < 1.0:
            raise OptionError("share must be above 0 and below 1.", found=f"{share}")
        draws = np.array([float(replace(self, shares=one).quantiles(share)) for one in self.draws])
        return self._estimate(f"quantile({self.column}, {share:g})", float(self.quantiles(share)), draws)

    def quantiles(self, shares: Array | float) -> Array:
        """Return the numbers below which these shares of the rows lie."""
        return np.asarray(np.interp(shares, np.concatenate([[0.0], np.cumsum(self.shares)]), self._edges))

    @property
    def _edges(self) -> Array:
        half = (self.points[1] - self.points[0]) / 2.0 if len(self.points) > 1 else 0.0
        return np.append(self.points - half, self.points[-1] + half)

    def _overlap(self, low: float, high: float) -> Array:
        edges = self._edges
        width = np.maximum(np.diff(edges), np.finfo(float).tiny)
        return np.clip((np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)) / width, 0.0, 1.0)

    def _estimate(self, name: str, value: float, draws: Array) -> RecoveredEstimate:
        variance = float(np.var(draws, ddof=1)) if len(draws) > 1 else math.nan
        found = Correction(value=float(value), by_method=variance, total=variance, records=self.records)
        return found.estimate(name, None, (NOTE,))


def recover_distribution(release: ReleasedFrames, column: str, *, seed: int | None = None) -> RecoveredDistribution:
    """Recover the distribution of a column of the original from a release with normal noise.

    Parameters
    ----------
    release : Release
        A release by :class:`sfumato.Noise`, of kind "correlated" or "uncorrelated", without ``resample``.
    column : str
        A column of numbers whose moments the manifest lists as recoverable.
    seed : int, optional
        For the draws from which standard errors follow.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> generator = np.random.default_rng(0)
    >>> heights = np.concatenate([generator.normal(150, 4, 2000), generator.normal(180, 4, 2000)])
    >>> noisy = sf.Noise(level=0.3).release({"height": heights}, schema={"height": "quasi"}, seed=1)
    >>> found = sf.recover_distribution(noisy, "height")
    >>> between = ((heights > 160) & (heights < 170)).mean()
    >>> bool(abs(found.share(160, 170).value - between) < 0.04)
    True
    >>> released = noisy.table.numbers("height")
    >>> bool(((released > 160) & (released < 170)).mean() - between > 0.1)
    True
    """
    noisy = _noisy_column(release, column)
    return _recover(column, noisy.numbers, noisy.variance, np.random.default_rng(seed), draws=DRAWS)


def recover_table(release: ReleasedFrames, *, by: str | None = None) -> Table:
    """Return the released rows with numbers that have the recovered distribution of their column, to grow trees on.

    Parameters
    ----------
    release : Release
        As for :func:`sfumato.recover_distribution`.
    by : str, optional
        A column of classes, such as the one that a tree predicts: distributions are recovered in each class. Classes
        with fewer than 20 rows have that of all rows.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> generator = np.random.default_rng(0)
    >>> ill = generator.random(3000) < 0.5
    >>> people = {"x": np.where(ill, 1.0, -1.0) + generator.uniform(-1, 1, 3000), "ill": ill}
    >>> roles = {"x": "quasi", "ill": "sensitive"}
    >>> noisy = sf.Noise(level=0.2, kind="uncorrelated").release(people, schema=roles, seed=1)
    >>> recovered = sf.recover_table(noisy, by="ill")
    >>> recovered.names, recovered.rows
    (('x', 'ill'), 3000)
    """
    manifest = _require_normal(release)
    table = release.table
    labels = np.zeros(table.rows, dtype=np.int64)
    if by is not None:
        require_known((by,), table.names)
        labels = np.asarray(table.coded(by).codes, dtype=np.int64)
    recoverable = [name for name in manifest.noted_names("recoverable") if name in table.names and name != by]
    columns = {name: table.arrow.column(name) for name in table.names}
    columns |= {name: _recovered_cells(release, name, labels) for name in recoverable}
    return Table(pa.table(columns), {**table.kinds, **dict.fromkeys(recoverable, Kind.CONTINUOUS)})


def _recovered_cells(release: ReleasedFrames, name: str, labels: NDArray[np.int64]) -> pa.ChunkedArray:
    """Return the quantile of the recovered distribution of its class at the rank of each number."""
    noisy, generator = _noisy_column(release, name), np.random.default_rng(0)
    cells = np.full(len(labels), np.nan)
    whole = _recover(name, noisy.numbers, noisy.variance, generator, draws=0)
    known = np.flatnonzero(~np.isnan(noisy.numbers))
    for rows in rows_by_label(labels[known]):
        own = known[rows]
        found = whole
        if len(own) >= FEWEST_ROWS and len(own) < len(known):
            found = _recover(name, noisy.numbers[own], noisy.variance, generator, draws=0)
        rank = np.empty(len(own))
        rank[np.argsort(noisy.numbers[own], kind="stable")] = (np.arange(len(own)) + 0.5) / max(len(own), 1)
        cells[own] = found.quantiles(rank)
    return pa.chunked_array([pa.array(cells, from_pandas=True)])


def recover_moment(
    release: ReleasedFrames, column: str, order: int, *, confidence: float | None = None
) -> RecoveredEstimate:
    """Recover a central moment E (x − E x)^order of a column of the original from a release with normal noise.

    Its standard error is large: it grows with the moments of twice this order.

    Parameters
    ----------
    release : Release
        As for :func:`sfumato.recover_distribution`.
    column : str
        A column of numbers whose moments the manifest lists as recoverable.
    order : int
        From 2 to 6: 3 for the skewness, 4 for the kurtosis.
    confidence : float, optional
        Also compute a confidence interval of the moment of the population.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> incomes = np.random.default_rng(0).exponential(size=5000)
    >>> noisy = sf.Noise(level=0.5).release({"income": incomes}, schema={"income": "quasi"}, seed=1)
    >>> found = sf.recover_moment(noisy, "income", 3)
    >>> bool(abs(found.value - ((incomes - incomes.mean()) ** 3).mean()) < 3 * found.standard_error)
    True
    """
    if isinstance(order, bool) or not isinstance(order, int) or not 2 <= order <= LARGEST_ORDER:
        raise OptionError(f"order must be a whole number from 2 to {LARGEST_ORDER}.", found=f"{order}")
    noisy = _noisy_column(release, column)
    numbers = noisy.numbers[~np.isnan(noisy.numbers)]
    unit = float(numbers.std()) or 1.0
    found = moment_without_noise((numbers - numbers.mean()) / unit, noisy.variance / unit**2, noisy.share, order)
    plain = noisy.released[~np.isnan(noisy.released)]
    return Correction(
        value=found.value * unit**order,
        by_method=found.by_method * unit ** (2 * order),
        total=found.total * unit ** (2 * order),
        released=float(((plain - plain.mean()) ** order).mean()),
        records=len(numbers),
    ).estimate(f"moment({column}, {order})", confidence, ("an estimate, no guarantee: corrected for normal noise",))


def moment_without_noise(stars: Array, variance: float, share: float, order: int) -> Correction:
    """Recover a central moment from numbers with normal noise of this variance, a ``share`` of that of the numbers.

    The estimate is a function g of the central moments m_2, …, m_order of x*, of which R = share·m_2 is a part. Given
    the original, rows x* are independent, and their number i changes g by h(x*_i)/n with a polynomial h. So the noise
    causes the variance (E h(x*)² − E H(x)²)/n with H(x) = E h(x + r), and the sample that of the moment itself; both
    need moments of x of twice the order, which are recovered in the same way.
    """
    raw = np.array([(stars**power).mean() for power in range(2 * order + 1)])
    clean = _clean_moments(raw, variance)
    slopes = _slopes(raw[: order + 1], share, order)
    change = np.zeros(order + 1)
    for power in range(2, order + 1):
        change[power] += slopes[power]
        change[1] -= power * raw[power - 1] * slopes[power]
    smooth = _after_noise(change, variance)
    noise = max(_mean_square(change, raw) - _mean_square(smooth, clean), 0.0) / len(stars)
    own = np.zeros(order + 1)
    own[order], own[1] = 1.0, own[1] - order * clean[order - 1]
    sampled = max(_mean_square(own, clean) - _mean(own, clean) ** 2, 0.0) / len(stars)
    return Correction(value=float(clean[order]), by_method=noise, total=sampled + noise, records=len(stars))


def _clean_moments(raw: Array, variance: float) -> Array:
    """Return the moments of x from those of x + r, with numbers of mean 0."""
    clean = raw.copy()
    for order in range(2, len(raw)):
        for power in range(2, order + 1, 2):
            clean[order] -= math.comb(order, power) * clean[order - power] * _normal_moment(power, variance)
    return clean


def _normal_moment(power: int, variance: float) -> float:
    """Return E r^power of normal noise."""
    return 0.0 if power % 2 else variance ** (power // 2) * math.prod(range(1, power, 2))


def _slopes(raw: Array, share: float, order: int) -> Array:
    """Return the derivatives of the recovered moment by the moments of x*, with R = share·m_2, by differences."""
    slopes = np.zeros(order + 1)
    for power in range(2, order + 1):
        step = 1e-5 * max(1.0, abs(float(raw[power])))
        sides = []
        for sign in (1.0, -1.0):
            moved = raw.copy()
            moved[power] += sign * step
            sides.append(float(_clean_moments(moved, share * moved[2])[order]))
        slopes[power] = (sides[0] - sides[1]) / (2.0 * step)
    return slopes


def _after_noise(polynomial: Array, variance: float) -> Array:
    """Return the polynomial E h(x + r) of x."""
    smooth = np.zeros(len(polynomial))
    for power, factor in enumerate(polynomial):
        for part in range(power + 1):
            smooth[power - part] += factor * math.comb(power, part) * _normal_moment(part, variance)
    return smooth


def _mean(polynomial: Array, moments: Array) -> float:
    return float(polynomial @ moments[: len(polynomial)])


def _mean_square(polynomial: Array, moments: Array) -> float:
    """Return E h² of a polynomial h of a number with these moments."""
    squared = np.convolve(polynomial, polynomial)
    return float(squared @ moments[: len(squared)])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NoisyColumn:
    """Released numbers without their shrinkage, and the variance of their noise."""

    released: Array
    numbers: Array  # x*, NaN where missing
    variance: float  # R, with that of rounding
    share: float  # of the variance of x* that is noise


def _noisy_column(release: ReleasedFrames, column: str) -> NoisyColumn:
    manifest = _require_normal(release)
    noise = read_noise(manifest)
    require_known((column,), release.table.names)
    if noise is None or column not in manifest.noted_names("recoverable"):
        raise RequestError(
            "The column must have normal noise that was added to its numbers as they are.",
            found=f"recoverable columns: {', '.join(map(repr, manifest.noted_names('recoverable'))) or 'none'}",
        )
    released = release.table.numbers(column)
    if (~np.isnan(released)).sum() < FEWEST_ROWS:
        raise RequestError(f"At least {FEWEST_ROWS} rows must have a number.", found="fewer")
    rounded = np.array([release.table.kinds[column] is Kind.WHOLE])
    found = NoisyColumns.of(released[:, None], noise, rounded, np.ones(1, dtype=bool))
    share = float(found.share[0, 0])
    return NoisyColumn(released=released, numbers=found.stars[:, 0], variance=float(found.noise[0, 0]), share=share)


def _require_normal(release: ReleasedFrames) -> Manifest:
    manifest = release.manifest
    kind = None if manifest is None else manifest.options.get("kind")
    if manifest is None or manifest.method != "noise" or kind not in NORMAL or manifest.options.get("resample"):
        raise RequestError(
            "The release must have normal noise that is the same for all rows.",
            found="another release" if manifest is None or manifest.method != "noise" else "other noise",
            fix='a release by sf.Noise(kind="correlated") or kind="uncorrelated", without resample',
        )
    return manifest


def _recover(
    column: str, numbers: Array, variance: float, generator: np.random.Generator, *, draws: int
) -> RecoveredDistribution:
    """Recover a distribution, and that of samples of the rows."""
    known = numbers[~np.isnan(numbers)]
    low, high = float(known.min()), float(known.max())
    points = np.linspace(low, high, POINTS) if high > low else np.array([low])
    counts, edges = np.histogram(known, bins=CELLS if high > low else 1)
    chances = _chances(edges, points, math.sqrt(variance))
    found = deconvolve(counts.astype(np.float64), chances)
    samples = [
        deconvolve(generator.multinomial(len(known), counts / len(known)).astype(np.float64), chances).shares
        for _ in range(draws)
    ]
    return RecoveredDistribution(
        column=column,
        points=points,
        shares=found.shares,
        rounds=found.rounds,
        records=len(known),
        draws=np.array(samples).reshape(-1, len(points)),
    )


def _chances(edges: Array, points: Array, deviation: float) -> Array:
    """Return the probability of each cell (rows) for a number at each point (columns)."""
    from scipy.special import ndtr

    if deviation <= 0.0:
        return np.ones((len(edges) - 1, len(points)))
    outer = edges.copy()
    outer[0], outer[-1] = -math.inf, math.inf
    return np.asarray(np.diff(ndtr((outer[:, None] - points) / deviation), axis=0))


@dataclass(frozen=True, repr=False, eq=False)
class Deconvolved:
    """Shares of points, and the rounds after which they were found."""

    shares: Array
    rounds: int


def deconvolve(counts: Array, chances: Array) -> Deconvolved:
    """Return the shares of points from counts of cells, by the EM algorithm.

    It ends when a round increases the logarithm of the likelihood by less than GAIN. Further rounds would fit what is
    chance: a hundred of them are worth less than one parameter.
    """
    total = counts.sum()
    shares = np.full(chances.shape[1], 1.0 / chances.shape[1])
    expected, before, rounds = chances @ shares, -math.inf, 0
    while rounds < ROUNDS:
        rounds += 1
        ratio = np.divide(counts, expected, out=np.zeros_like(counts), where=expected > 0.0)
        shares = shares * (chances.T @ ratio) / total
        expected = chances @ shares
        seen = (counts > 0.0) & (expected > 0.0)
        likelihood = float(counts[seen] @ np.log(expected[seen]))
        if likelihood - before < GAIN:
            break
        before = likelihood
    return Deconvolved(shares / shares.sum(), rounds)
