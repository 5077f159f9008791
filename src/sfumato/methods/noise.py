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
from sfumato.methods.matrix import MatrixMethod, MatrixPlan, MatrixSetup, Ranges, impute
from sfumato.methods.noise_rows import (
    NoiseMixture,
    density_scales,
    loadings,
    mean_of,
    nearest_is_own,
    resample_rows,
    spread_of,
)
from sfumato.methods.options import SpectralBasis, basis_option, logs_option, reported_option
from sfumato.methods.permutation_plan import missing_cells, normal_scores, sort_rows
from sfumato.params import Choice, Flag, Number, Probability, Share, Whole
from sfumato.plan.claims.rows import ValidCells
from sfumato.schema.columns import Role
from sfumato.table.encoded_columns import Logs, number_limits
from sfumato.table.kinds import Kind as ColumnKind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.components.parts import PartsBasis
    from sfumato.plan.plan import Claim, Outcome
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema

    Array = NDArray[np.float64]

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


def noisy_components(scores: Array, noise: Array, shrinkage: float, generator: np.random.Generator) -> Array:
    """Return components at noisy normal scores, (Φ⁻¹(P(s)) + noise)/shrinkage, between values of the component."""
    from scipy.special import ndtr

    rows, ranks = len(scores), np.arange(len(scores))
    altered = np.empty_like(scores)
    for place, component in enumerate(scores.T):
        order = sort_rows(component, generator)
        normal: Array = np.empty(rows)
        normal[order] = normal_scores(ranks, rows)
        share = ndtr((normal + noise[:, place]) / shrinkage)
        altered[:, place] = np.interp(share * rows - 0.5, ranks, component[order])
    return altered


Kind = Literal["correlated", "uncorrelated", "normal-scores", "mixture", "density"]
KINDS: tuple[Kind, ...] = ("correlated", "uncorrelated", "normal-scores", "mixture", "density")


@dataclass(frozen=True, kw_only=True)
class Noise(MatrixMethod):
    """Add noise whose variance is ``level`` times the variance of the data.

    "correlated" noise has the covariance b·Σ (TL 2.4), "uncorrelated" noise only its diagonal (TL 2.3). With
    ``correct`` the noisy rows are shrunk towards the mean by Kim's formula, so that the mean and, for correlated noise,
    the covariance equal those of the original in expectation. "mixture" noise is correlated, and drawn from normals
    with means away from zero, so that few cells change little (TL 2.9). "normal-scores" adds correlated noise to the
    normal scores of the ranks, and returns to the values of the column: the distribution of each column is kept
    (TL 2.5–2.7). "density" noise is correlated, and larger for a row whose neighbours are far away: the noise of row i
    has the covariance b·s_i²·Σ, with s_i² = 1 on average.

    With a ``basis`` noise is added to white scores. Noise that is uncorrelated there is correlated in the columns, so
    that "correlated" and "uncorrelated" are then the same.

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
    block_effect: ClassVar[str] = (
        "scales and categories are decided from a sample; a basis and densities are those of a random block"
    )
    manifest_notes: ClassVar[Mapping[str, str]] = {
        **MatrixMethod.manifest_notes,
        "noise level": "variance of the noise, as a multiple of the variance of the data",
        "corrected": "whether mean and variance were corrected",
        "correlated": "whether the noise of different columns has the correlations of the data",
        "basis": "basis in which noise was added",
        "uneven": "whether rows in sparse regions got more noise than others",
        "recoverable": "columns whose moments can be recovered from the released ones",
        "limited": "columns whose numbers were clipped to a range after noise was added",
    }

    kind: Kind = reported_option(
        Choice(KINDS),
        'The noise: normal with the correlations of the data ("correlated") or without correlations ("uncorrelated"), '
        'correlated noise on the normal scores of the ranks ("normal-scores"), correlated noise from a mixture of '
        'normals ("mixture"), or correlated noise that is larger for rows in sparse regions ("density").',
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
    redraw: int = reported_option(
        Whole(at_least=0),
        "Times that the noise of a row is drawn again if no other released row is as near to its original as its own. "
        'Moments are then not recovered, because the covariance of the noise is not known. Not with kind="density", '
        'kind="normal-scores" or a basis.',
        default=0,
    )
    within: float = reported_option(
        Probability(),
        "For a mixture: variance within each of its normals. The smaller, the fewer cells change little.",
        default=0.25,
        unit="share of the variance of the noise",
    )
    neighbours: int = reported_option(
        Whole(at_least=1),
        'For kind="density": the distance to the nearest row of this number, such as the 5th, tells how isolated a '
        "row is.",
        default=5,
        unit="rows",
    )
    basis: SpectralBasis = basis_option(
        "Noise is added to the scores of the components, and projected back. In principal or independent components "
        "its covariance is that of the data, times the level; in clusters it is that of each cluster, and moments are "
        "not recovered."
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

        if self.redraw and (self.kind in ("density", "normal-scores") or self.basis != "columns"):
            raise OptionError(
                "redraw needs noise that is added to the columns, and does not depend on their rows.",
                found=f"kind={self.kind!r}, basis={self.basis!r}",
                fix='kind="correlated", "uncorrelated" or "mixture", and basis="columns"',
            )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> NoisePlan:
        """Make the plan; the noise is drawn when a block is transformed."""
        plan = ScoresPlan if self.kind == "normal-scores" and self.basis == "columns" else NoisePlan
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
        noisy = self.add_noise(known, number) if self.basis is None else self._add_to_scores(matrix, number)
        noisy[:, fixed] = matrix[:, fixed]  # a missing cell stays missing, and no other becomes it
        noisy = np.where(np.isnan(noisy), matrix, noisy)
        for again in range(self.method.redraw):
            found = np.flatnonzero(nearest_is_own(matrix, noisy))
            drawn = self.add_noise(known, number + (again + 1) * self.blocks)[found]
            drawn[:, fixed] = matrix[found][:, fixed]
            noisy[found] = np.where(np.isnan(drawn), matrix[found], drawn)
        return noisy

    @property
    def basis(self) -> PartsBasis | None:
        """The basis in whose scores noise is added, or None; scales by density are those of principal components."""
        chosen = self.method.basis
        if chosen == "columns":
            return "svd" if self.method.kind == "density" else None
        return chosen

    def _add_to_scores(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """Return the matrix with noise on its white scores; rows without a number get one drawn for the projection."""
        from sfumato.methods.components.parts import alter_parts

        assert self.basis is not None
        stream = self.setup.randomness.stream
        filled = impute(matrix, self.setup.encoder, stream(f"imputation {number}"))
        return alter_parts(filled, self.basis, stream(f"noise {number}"), self._alter_scores)

    def _alter_scores(self, scores: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Return white scores with noise; their mean is 0, so that Kim's correction is a division."""
        method = self.method
        noise = np.sqrt(method.level) * self._draw_white(len(scores), scores.shape[1], generator)
        if method.kind == "density":
            noise *= density_scales(scores, method.neighbours, generator)[:, None]
        if method.kind == "normal-scores":
            return noisy_components(scores, noise, self._shrinkage, generator)
        return np.asarray((scores + noise) / self._shrinkage)

    @property
    def _shrinkage(self) -> float:
        """Kim's d₁ = √(1 + b), or 1 without the correction."""
        return float(np.sqrt(1.0 + self.method.level)) if self.method.correct else 1.0

    def add_noise(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """Return the matrix with noise; NaN is missing and stays missing."""
        generator = self.setup.randomness.stream(f"noise {number}")
        noise = self._draw_noise(matrix, generator)
        masked = matrix + np.sqrt(self.method.level) * noise
        # Kim: (x̃ + (d₁ − 1) μ) / d₁
        return np.asarray((masked + (self._shrinkage - 1.0) * mean_of(matrix)) / self._shrinkage)

    def _draw_noise(self, matrix: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Return noise with the covariance of the columns, or only with their variances."""
        if self.method.kind != "uncorrelated":
            root = loadings(matrix)
            return self._draw_white(len(matrix), len(root), generator) @ root
        spread, noise = spread_of(matrix), np.zeros(matrix.shape)
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
        """Columns whose moments follow from the released ones: numbers to which noise was added as they are.

        In a basis, the covariance of the noise is that of all rows with drawn numbers for missing ones. So it is not
        known for the rows that have a number in a column with missing cells; and in clusters it is that within these.
        """
        if self.basis == "clusters" or self.method.kind == "normal-scores" or self.method.redraw:
            return ()
        kinds = ColumnKind.CONTINUOUS, ColumnKind.WHOLE
        return tuple(
            one.name
            for one in self.setup.encoder.numbers
            if not one.logged and one.kind in kinds and (self.basis is None or one.missing is None)
        )

    @property
    def notes(self) -> Mapping[str, object]:
        return {
            **super().notes,
            "noise level": self.method.level,
            "corrected": self.method.correct,
            "correlated": self.method.kind != "uncorrelated" or self.basis is not None,
            "basis": self.method.basis,
            "uneven": self.method.kind == "density",
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
