"""Additive noise, the oldest masking method and a baseline for the others (TL §2.3.1, equations 2.2–2.11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import OptionError
from sfumato.methods.matrix import MatrixMethod, MatrixPlan, MatrixSetup, Ranges
from sfumato.methods.options import logs_option, reported_option
from sfumato.methods.permutation_plan import missing_cells, normal_scores, sort_rows
from sfumato.params import Choice, Flag, Number, Probability, Share
from sfumato.plan.claims.rows import ValidCells
from sfumato.schema.columns import Role
from sfumato.statistics.moments import pairwise_covariance
from sfumato.table.encoded_columns import Logs, number_limits
from sfumato.table.kinds import Kind as ColumnKind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.plan import Claim, Outcome
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema

# Rows of noise of mean 0 and a given covariance: normal, without rows near zero, or from a mixture of normals.

if TYPE_CHECKING:
    Array = NDArray[np.float64]

NEGLIGIBLE = 1e-12  # an eigenvalue below this share of the largest is a rounding error
MEANS = 3  # pairs of means ±m of a mixture
SMALLEST_MEAN = 0.5  # of the pairs, before they are scaled together; the largest is 1.5


def loadings(matrix: Array) -> Array:
    """Return L (rank, columns) with LᵀL = Σ, the covariance of the columns: white rows times L have this covariance.

    Of more columns than rows no matrix of all pairs is made: the rows themselves, divided by √rows, are such an L, with
    missing cells at the mean and each column scaled to its own variance.
    """
    if matrix.shape[1] > len(matrix):
        centred = np.nan_to_num(matrix - _mean(matrix))
        length = np.sqrt((centred**2).sum(axis=0))
        return np.asarray(centred * (_spread(matrix) / np.where(length > 0.0, length, 1.0)))
    values, vectors = np.linalg.eigh(pairwise_covariance(matrix))
    real = values > NEGLIGIBLE * max(values.max(initial=0.0), np.finfo(float).tiny)
    return np.asarray((vectors[:, real] * np.sqrt(values[real])).T)


def _mean(matrix: Array) -> Array:
    """Return the mean of each column; 0 if all of its cells are missing."""
    present = ~np.isnan(matrix)
    return np.asarray(np.where(present, matrix, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1))


def _spread(matrix: Array) -> Array:
    """Return the standard deviation of each column; 0 if all of its cells are missing."""
    return np.asarray(np.sqrt(_mean((matrix - _mean(matrix)) ** 2)))


def resample_rows(rows: int, columns: int, share: float, generator: np.random.Generator) -> Array:
    """Return white normal rows of which those nearest to zero, this share of all, were drawn again (TL §2.3.1).

    The direction of a row is uniform, and its squared length is chi-squared above the quantile ``share``. Drawing again
    until a row is long enough gives the same distribution. It is the same in all directions, so that division by one
    number, the root mean square length, makes the covariance the unit matrix again.
    """
    from scipy.special import chdtrc, chdtri

    normal = generator.standard_normal((rows, columns))
    if share == 0.0 or columns == 0:
        return normal
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    squared = chdtri(columns, (1.0 - share) * (1.0 - generator.random((rows, 1))))
    mean_square = chdtrc(columns + 2, chdtri(columns, 1.0 - share)) / (1.0 - share)
    return np.asarray(normal / np.where(length > 0.0, length, 1.0) * np.sqrt(squared / mean_square))


@dataclass(frozen=True, repr=False)
class NoiseMixture:
    """A mixture of normals of mean 0 and variance 1, with means away from zero (TL 2.10): Σ ωᵢ N(μᵢ, σ²), ωᵢ equal."""

    means: Array  # μᵢ
    within: float  # σ²: the variance of each normal

    @classmethod
    def draw(cls, within: float, generator: np.random.Generator) -> NoiseMixture:
        """Draw the means in pairs ±m and scale them so that the variance of the mixture is 1."""
        sizes = generator.uniform(SMALLEST_MEAN, 2.0 - SMALLEST_MEAN, MEANS)
        sizes *= np.sqrt((1.0 - within) / (sizes**2).mean())
        return cls(np.concatenate([-sizes, sizes]), within)

    def rows(self, rows: int, columns: int, generator: np.random.Generator) -> Array:
        """Return rows whose cells are independent draws from the mixture."""
        shape = (rows, columns)
        chosen = self.means[generator.integers(len(self.means), size=shape)]
        return np.asarray(chosen + np.sqrt(self.within) * generator.standard_normal(shape))


# Between cells and normal scores: ranks to scores (TL 2.5), and noisy scores back to values of the column (TL 2.7).


@dataclass(frozen=True, eq=False, repr=False)
class ColumnScores:
    """The normal scores of a column, and its rows with a value in the order of their values."""

    scores: NDArray[np.float64]  # NaN where the cell is missing
    order: NDArray[np.int64]


def scores_of(block: Table, name: str, generator: np.random.Generator) -> ColumnScores:
    """Return the normal scores of a column of any kind; equal cells are ranked at random."""
    order = sort_rows(block.coded(name).codes, generator)
    order = order[~missing_cells(block, name)[order]]
    scores: NDArray[np.float64] = np.full(block.rows, np.nan)
    scores[order] = normal_scores(np.arange(len(order)), len(order))
    return ColumnScores(scores, order)


def noisy_cells(
    block: Table, name: str, column: ColumnScores, noisy: NDArray[np.float64], ends: tuple[float, float] | None
) -> pa.ChunkedArray:
    """Return the cells at noisy scores: P⁻¹(Φ(score)).

    Numbers of a continuous column (``ends`` are the lowest and highest that may be released) are interpolated between
    neighbouring values; cells of other columns are cells of the column.
    """
    from scipy.special import ndtr

    cells, rows = block.arrow.column(name), len(column.order)
    share = ndtr(noisy[~np.isnan(column.scores)])
    present = np.flatnonzero(~np.isnan(column.scores))
    if ends is not None and pt.is_floating(cells.type) and rows:
        known = block.numbers(name)
        values = known.copy()
        values[present] = np.clip(np.interp(share * rows - 0.5, np.arange(rows), known[column.order]), *ends)
        return pa.chunked_array([pa.array(values, from_pandas=True).cast(cells.type, safe=False)])
    source = np.arange(block.rows)
    source[present] = column.order[np.minimum((share * rows).astype(np.int64), rows - 1)] if rows else present
    return cells.take(pa.array(source))


Kind = Literal["correlated", "uncorrelated", "normal-scores", "mixture"]
KINDS: tuple[Kind, ...] = ("correlated", "uncorrelated", "normal-scores", "mixture")


@dataclass(frozen=True, kw_only=True)
class Noise(MatrixMethod):
    """Add noise whose variance is ``level`` times the variance of the data.

    "correlated" noise has the covariance b·Σ (TL 2.4), "uncorrelated" noise only its diagonal (TL 2.3). With
    ``correct`` the noisy rows are shrunk towards the mean by Kim's formula, so that the mean and, for correlated noise,
    the covariance equal those of the original in expectation. "mixture" noise is correlated, and drawn from normals
    with means away from zero, so that few cells change little (TL 2.9). "normal-scores" adds correlated noise to the
    normal scores of the ranks, and returns to the values of the column: the distribution of each column is kept
    (TL 2.5–2.7).

    The manifest reports level, kind and correction, and ``release.estimate`` recovers means, variances, covariances,
    correlations and slopes of numeric columns from them, with a standard error. A missing cell stays missing.

    Each released row still comes from one original row. With more than a few columns most rows can be matched to their
    originals, even at high levels, and uncorrelated noise can be removed from correlated columns: the method promises
    no privacy.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"x": np.random.default_rng(0).normal(size=200)}
    >>> noisy = sf.Noise(level=0.2).release(people, schema={"x": "quasi"}, seed=1)
    >>> noisy.table.rows
    200
    >>> bool(abs(noisy.estimate("var(x)").value - people["x"].var()) < 0.3)
    True
    """

    name: ClassVar[str] = "noise"
    theory: ClassVar[str] = "noise"
    block_effect: ClassVar[str] = "scales and categories are decided from a sample"
    manifest_notes: ClassVar[Mapping[str, str]] = {
        **MatrixMethod.manifest_notes,
        "noise level": "variance of the noise, as a multiple of the variance of the data",
        "corrected": "whether mean and variance were corrected",
        "correlated": "whether the noise of different columns has the correlations of the data",
        "recoverable": "columns whose moments can be recovered from the released ones",
        "limited": "columns whose numbers were clipped to a range after noise was added",
    }

    kind: Kind = reported_option(
        Choice(KINDS),
        'The noise: normal with the correlations of the data ("correlated") or without correlations ("uncorrelated"), '
        'correlated noise on the normal scores of the ranks ("normal-scores"), or correlated noise from a mixture of '
        'normals ("mixture").',
        default="correlated",
    )
    level: float = reported_option(
        Number(above=0.0),
        "Variance of the noise (b), as a multiple of the variance of the data.",
        default=0.1,
        unit="variances of the data",
        strengths=(0.05, 0.1, 0.25, 0.5, 1.0),
    )
    correct: bool = reported_option(
        Flag(),
        "Shrink the noisy values so that means and variances equal those of the data in expectation.",
        default=True,
    )
    resample: float = reported_option(
        Share(below_one=True),
        "Share of the rows of noise, those nearest to zero, that are drawn again, so that no row stays nearly "
        "unchanged. The rest is scaled so that the covariance of the noise is the same. Not for mixtures.",
        default=0.0,
    )
    within: float = reported_option(
        Probability(),
        "For a mixture: variance within each of its normals. The smaller, the fewer cells change little.",
        default=0.25,
        unit="share of the variance of the noise",
    )
    clip: bool = reported_option(
        Flag(),
        "Clip numbers to the range of their column. Without it only declared domains, and the range of sampling "
        "weights, limit them. Clipping makes recovered variances too small.",
        default=False,
    )
    logs: Logs = logs_option(
        'Columns to log-transform before noise is added: none ("never"), skewed columns of positive numbers ("auto"), '
        "or the named columns. The noise then multiplies their numbers, and their moments are not recovered.",
        default="never",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind == "mixture" and self.resample > 0.0:
            raise OptionError(
                'resample must be 0 with kind="mixture": a mixture already keeps noise away from zero.',
                found=f"{self.resample:g}",
                fix='kind="correlated", or resample=0',
            )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> NoisePlan:
        """Make the plan; the noise is drawn when a block is transformed."""
        plan = ScoresPlan if self.kind == "normal-scores" else NoisePlan
        return plan(self.setup(survey, schema, randomness), self)


@dataclass(frozen=True, repr=False)
class NoisePlan(MatrixPlan):
    """Add noise to each block."""

    setup: MatrixSetup
    method: Noise

    def perturb(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        known, fixed = matrix.copy(), []
        for one in self.setup.encoder.numbers:
            if one.missing is not None:
                known[matrix[:, one.missing] > 0.0, one.position] = np.nan
                fixed.append(one.missing)
        noisy = self.add_noise(known, number)
        noisy[:, fixed] = matrix[:, fixed]  # a missing cell stays missing, and no other becomes it
        return np.where(np.isnan(noisy), matrix, noisy)

    def add_noise(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """Return the matrix with noise; NaN is missing and stays missing."""
        generator = self.setup.randomness.stream(f"noise {number}")
        noise = self._draw_noise(matrix, generator)
        # Kim: (x̃ + (d₁ − 1) μ) / d₁ with d₁ = √(1 + b)
        shrinkage = np.sqrt(1.0 + self.method.level) if self.method.correct else 1.0
        masked = matrix + np.sqrt(self.method.level) * noise
        return np.asarray((masked + (shrinkage - 1.0) * _mean(matrix)) / shrinkage)

    def _draw_noise(self, matrix: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Return noise with the covariance of the columns, or only with their variances."""
        if self.method.kind != "uncorrelated":
            root = loadings(matrix)
            return self._draw_white(len(matrix), len(root), generator) @ root
        spread, noise = _spread(matrix), np.zeros(matrix.shape)
        varied = spread > 0.0
        noise[:, varied] = self._draw_white(len(matrix), int(varied.sum()), generator) * spread[varied]
        return noise

    def _draw_white(self, rows: int, columns: int, generator: np.random.Generator) -> NDArray[np.float64]:
        if self.method.kind == "mixture":
            mixture = NoiseMixture.draw(self.method.within, self.setup.randomness.stream("means of the mixture"))
            return mixture.rows(rows, columns, generator)
        return resample_rows(rows, columns, self.method.resample, generator)

    def finalize(
        self, before: NDArray[np.float64], after: NDArray[np.float64], ranges: Ranges, number: int
    ) -> NDArray[np.float64]:
        free = [place for place, one in enumerate(self.setup.encoder.numbers) if one.name in self.free]
        low, high = ranges.low.copy(), ranges.high.copy()
        for place in free:
            low[..., place], high[..., place] = number_limits(self.setup.encoder.numbers[place].type)
        return Ranges(low, high).clip(after)

    @cached_property
    def free(self) -> tuple[str, ...]:
        """Columns of numbers without a range; a sampling weight always has one, because it must not be negative."""
        names = [number.name for number in self.setup.encoder.numbers]
        limited = {*self.setup.domains, *self.setup.schema.names(Role.WEIGHT)}
        return () if self.method.clip else tuple(name for name in names if name not in limited)

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        others = [claim for claim in super().claims if not isinstance(claim, ValidCells)]
        return (*others, ValidCells(domains=self.setup.domains, unlimited=self.free))

    @property
    def recoverable(self) -> tuple[str, ...]:
        """Columns whose moments follow from the released ones: numbers to which noise was added as they are."""
        kinds = ColumnKind.CONTINUOUS, ColumnKind.WHOLE
        return tuple(one.name for one in self.setup.encoder.numbers if not one.logged and one.kind in kinds)

    @property
    def notes(self) -> Mapping[str, object]:
        return {
            **super().notes,
            "noise level": self.method.level,
            "corrected": self.method.correct,
            "correlated": self.method.kind != "uncorrelated",
            "recoverable": list(self.recoverable),
            "limited": [number.name for number in self.setup.encoder.numbers if number.name not in self.free],
        }


@dataclass(frozen=True, repr=False)
class ScoresPlan(NoisePlan):
    """Add noise to the normal scores of each block; its ranks are those among the rows of the block."""

    def transform(self, block: Table, number: int) -> Outcome:
        names = self.setup.encoder.names
        generator = self.setup.randomness.stream(f"scores {number}")
        scores = [scores_of(block, name, generator) for name in names]
        noisy = self.add_noise(np.column_stack([one.scores for one in scores]), number)
        ends = {one.name: (one.low, one.high) for one in self.setup.encoder.numbers}
        cells = {
            name: noisy_cells(block, name, scores[place], noisy[:, place], ends.get(name))
            for place, name in enumerate(names)
        }
        return self.outcome(Table(pa.table(cells), block.select(names).kinds), number)

    @cached_property
    def free(self) -> tuple[str, ...]:
        return ()  # values are those of the column, or between them

    @property
    def recoverable(self) -> tuple[str, ...]:
        return ()
