"""Data shuffling: the values of each column in the order of a multivariate normal (Muralidhar and Sarathy 2006)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.kernels.eigenvectors import principal_axes
from sfumato.methods.base import Method
from sfumato.methods.options import reported_option
from sfumato.methods.permutation_plan import Permutation, PermutationPlan, missing_cells, rank_of, sort_rows
from sfumato.params import Checked, require_names
from sfumato.statistics.moments import pairwise_covariance
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table

# Latent normal columns for data shuffling, and the correlations with which ranks keep theirs.
#
# Each column of a table is a latent normal column: the rows in its order get the values of the column in their order.
# A column with missing cells has a second latent column, whose highest rows have the missing cells. Rank correlations
# of normal columns with correlation ρ are (6/π)·asin(ρ/2), which gives the first correlations. Ties, missing cells
# and chance make the result a little different, so that the correlations are then changed by the difference, a few
# times.

if TYPE_CHECKING:
    Array = NDArray[np.float64]
    Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class RankedColumn:
    """One column by the order of its cells."""

    order: Rows  # rows with a value, in the order of their values
    missing: Rows  # rows without one
    ranks: Array  # mean rank of the rows with the same value, from 0 to 1; NaN if missing

    @classmethod
    def of(cls, codes: NDArray[np.integer], missing: NDArray[np.bool_], generator: np.random.Generator) -> RankedColumn:
        """Rank the cells by their codes."""
        order = sort_rows(codes, generator)
        order = order[~missing[order]]
        _, inverse, counts = np.unique(codes[order], return_inverse=True, return_counts=True)
        middle = (np.cumsum(counts) - (counts + 1) / 2.0)[inverse]
        ranks: Array = np.full(len(codes), np.nan)
        ranks[order] = (middle + 0.5) / max(len(order), 1)
        return cls(order, np.flatnonzero(missing), ranks)

    @property
    def has_missing(self) -> bool:
        """Whether there is a second latent column, for the missing cells."""
        return bool(self.missing.size and self.order.size)

    @property
    def latent(self) -> list[Array]:
        """The mean ranks of the latent columns: of the values and, if some are missing, of the missing cells."""
        if not self.has_missing:
            return [np.nan_to_num(self.ranks, nan=0.5)]
        is_missing = np.isnan(self.ranks)
        return [self.ranks, np.where(is_missing, 1.0, 0.0)]

    def sources(self, latent: Sequence[Array]) -> Rows:
        """Return the row from which each row gets its cell, given its latent columns."""
        source = np.empty(len(self.ranks), dtype=np.int64)
        if not self.has_missing:
            everything = np.concatenate([self.order, self.missing])
            source[np.argsort(latent[0], kind="stable")] = everything
            return source
        by_missing = np.argsort(latent[1], kind="stable")
        with_value, without = np.split(by_missing, [len(self.order)])
        source[without] = self.missing
        source[with_value[np.argsort(latent[0][with_value], kind="stable")]] = self.order
        return source


def rank_columns(block: Table, generator: np.random.Generator) -> list[RankedColumn]:
    """Rank every column; categories without an order are ordered by the other columns.

    Their order is that of their means on the first principal component of the ranks of the ordered columns, so that
    rank correlations with these are large. A missing category counts as one more category.
    """
    coded = {name: block.coded(name) for name in block.names}
    nominal = [name for name in block.names if block.kinds[name] is Kind.NOMINAL and coded[name].size > 2]
    nothing = np.zeros(block.rows, dtype=bool)
    columns = {
        name: RankedColumn.of(coded[name].codes, missing_cells(block, name), generator)
        for name in block.names
        if name not in nominal
    }
    ranks = [one.ranks for one in columns.values()]
    component = _first_component(ranks) if ranks and nominal else None
    for name in nominal:
        codes = coded[name].codes if component is None else _by_means(coded[name].codes, component)
        columns[name] = RankedColumn.of(codes, nothing, generator)
    return [columns[name] for name in block.names]


def rank_correlations(latent: Array) -> Array:
    """Return the correlations of mean ranks, over the rows that have both; 0 for a constant column."""
    covariance = pairwise_covariance(latent)
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.where(spread > 0.0, spread, 1.0)
    correlations = np.clip(covariance / np.outer(scale, scale), -1.0, 1.0)
    np.fill_diagonal(correlations, 1.0)
    return np.asarray(correlations)


def normal_correlations(rank_correlations: Array) -> Array:
    """Return the correlations of normal columns with these rank correlations: 2 sin(π r / 6)."""
    return np.asarray(2.0 * np.sin(np.pi * rank_correlations / 6.0))


def possible_correlations(wanted: Array) -> Array:
    """Return the correlation matrix next to a symmetric one: without negative eigenvalues, and 1 on the diagonal."""
    values, vectors = np.linalg.eigh((wanted + wanted.T) / 2.0)
    if values.min(initial=1.0) >= 0.0:
        return wanted
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    length = np.linalg.norm(root, axis=1)
    root /= np.where(length > 0.0, length, 1.0)[:, None]
    correlations = root @ root.T
    np.fill_diagonal(correlations, 1.0)
    return np.asarray(correlations)


def latent_scores(ranks: Array) -> Array:
    """Return the normal scores of mean ranks, standardised; missing ones are 0."""
    from scipy.special import ndtri

    scores = np.nan_to_num(ndtri(np.clip(ranks, 1e-6, 1.0 - 1e-6)), nan=0.0)
    scores -= scores.mean(axis=0)
    spread = scores.std(axis=0)
    return np.asarray(scores / np.where(spread > 0.0, spread, 1.0))


def _first_component(ranks: Sequence[Array]) -> Array:
    scores = latent_scores(np.column_stack(ranks))
    return np.asarray(scores @ principal_axes(scores).vectors[:, 0])


def _by_means(codes: NDArray[np.integer], values: Array) -> Rows:
    """Return codes in the order of the mean value of their rows."""
    counts = np.bincount(codes)
    means = np.bincount(codes, weights=values) / np.maximum(counts, 1)
    return np.asarray(rank_of(np.argsort(means, kind="stable"))[codes])


ROUNDS = 12  # largest number of times that the correlations are adjusted
CLOSE = 0.001  # difference of rank correlations that needs no further round
NEGLIGIBLE = 1e-10  # an eigenvalue below this share of the largest is a rounding error


@dataclass(frozen=True, kw_only=True)
class Shuffle(Method):
    """Put the values of each column in the order of a multivariate normal with the rank correlations of the table.

    Every column keeps its values, each as often, and pairs of columns keep their rank correlations. Relations that rank
    correlations do not describe are lost. The order is drawn independently of the rows, so that a released row stands
    for nobody; with ``given``, only depending on these columns, which stay as they are. Missing cells move like a value
    of their own, and categories without an order are ordered by the other columns.

    Released cells are cells of the original, so that extreme values stay visible: the method promises no privacy.
    (Muralidhar and Sarathy.)

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> x = np.random.default_rng(0).normal(size=500)
    >>> people = {"x": x, "y": x + np.random.default_rng(1).normal(size=500)}
    >>> shuffled = sf.Shuffle().release(people, schema={"x": "quasi", "y": "quasi"}, seed=1)
    >>> bool(np.array_equal(np.sort(shuffled.table.numbers("x")), np.sort(x)))
    True
    >>> bool(np.corrcoef(shuffled.table.numbers("x"), shuffled.table.numbers("y"))[0, 1] > 0.6)
    True
    """

    name: ClassVar[str] = "shuffle"
    theory: ClassVar[str] = "shuffling"
    manifest_notes: ClassVar[Mapping[str, str]] = {"shuffled columns": "columns whose cells were put in another order"}

    given: tuple[str, ...] = reported_option(
        Checked("list of column names", require_names),
        "Columns that stay as they are. The other columns keep their rank correlations with them.",
        default=(),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "given", tuple(self.given))

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> ShufflePlan:
        """Make the plan; the normal columns are drawn when a block is transformed."""
        return ShufflePlan(Permutation.of(survey, schema, randomness, staying=self.given))


@dataclass(frozen=True, repr=False)
class ShufflePlan(PermutationPlan):
    """Shuffle each block; ranks and their correlations are those among its rows."""

    def sources(self, block: Table, number: int) -> dict[str, NDArray[np.int64]]:
        generator = self.setup.randomness.stream(f"shuffle {number}")
        columns = dict(zip(block.names, rank_columns(block, generator), strict=True))
        moving = [columns[name] for name in self.setup.moving]
        given = [columns[name] for name in block.names if name not in self.setup.moving]
        return dict(zip(self.setup.moving, shuffle_columns(moving, given, generator), strict=True))

    @property
    def notes(self) -> Mapping[str, Any]:
        return {"shuffled columns": list(self.setup.moving)}


def shuffle_columns(
    moving: list[RankedColumn], given: list[RankedColumn], generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return, for each moving column, the row from which each row gets its cell.

    The correlations of the normal columns are adjusted until the rank correlations of the result are those of the
    table; the result with the smallest mean difference is returned. Of columns that outnumber the rows, the normal
    columns have the correlations of the scores of the ranks, without adjustment.
    """
    ranks = [rank for column in moving for rank in column.latent]
    fixed = [rank for column in given for rank in column.latent]
    if len(ranks) + len(fixed) > len(ranks[0]):
        return _sources(moving, _draw_like(np.column_stack(ranks), fixed, generator))
    wanted = rank_correlations(np.column_stack([*ranks, *fixed]))
    latent = _Latent.draw(len(ranks), np.column_stack(fixed) if fixed else None, len(ranks[0]), generator)
    correlations = possible_correlations(normal_correlations(wanted))
    best, least = [], np.inf
    for _ in range(ROUNDS):
        sources = _sources(moving, latent.columns(correlations))
        after = [rank[source] for one, source in zip(moving, sources, strict=True) for rank in one.latent]
        difference = wanted - rank_correlations(np.column_stack([*after, *fixed]))
        error = float(np.abs(difference[: len(ranks)]).mean())
        if error < least:
            best, least = sources, error
        if np.abs(difference[: len(ranks)]).max() <= CLOSE:
            break
        difference[len(ranks) :, len(ranks) :] = 0.0  # given columns are as they are
        correlations = possible_correlations(np.clip(correlations + difference, -1.0, 1.0))
    return best


def _draw_like(ranks: Array, fixed: list[Array], generator: np.random.Generator) -> Array:
    """Return normal columns with the correlations of the scores of these ranks and of the given ones.

    Each drawn row is a random sum of the rows, so that no product of columns by columns is needed. The mean by the
    given columns is that of a ridge regression, because as many of them as there are rows would explain everything.
    """
    scores, rows = latent_scores(ranks), len(ranks)
    mean = np.zeros_like(scores)
    if fixed:
        given = latent_scores(np.column_stack(fixed))
        products = given @ given.T
        mean = products @ np.linalg.solve(products + rows * np.eye(rows), scores)
    return np.asarray(mean + generator.standard_normal((rows, rows)) @ (scores - mean) / np.sqrt(rows))


def _sources(moving: list[RankedColumn], latent: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    sources, place = [], 0
    for column in moving:
        width = len(column.latent)
        sources.append(column.sources([latent[:, place + part] for part in range(width)]))
        place += width
    return sources


@dataclass(frozen=True, eq=False, repr=False)
class _Latent:
    """White columns, uncorrelated with each other and with the scores of the given columns as far as rows allow."""

    white: NDArray[np.float64]
    given: NDArray[np.float64]  # scores of the given latent columns; (rows, 0) without any

    @classmethod
    def draw(
        cls, columns: int, fixed: NDArray[np.float64] | None, rows: int, generator: np.random.Generator
    ) -> _Latent:
        given = np.zeros((rows, 0)) if fixed is None else latent_scores(fixed)
        normal = generator.standard_normal((rows, columns))
        if rows <= columns + given.shape[1] + 1:
            return cls(normal, given)
        basis, _ = np.linalg.qr(np.column_stack([np.ones(rows), given]))
        normal -= basis @ (basis.T @ normal)
        left, _, right = np.linalg.svd(normal, full_matrices=False)
        return cls(np.sqrt(rows) * left @ right, given)

    def columns(self, correlations: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return normal columns with these correlations: the conditional mean by the given columns, plus a residual."""
        count = self.white.shape[1]
        own, across = correlations[:count, :count], correlations[count:, :count]
        mean: NDArray[np.float64] = np.zeros_like(self.white)
        if self.given.shape[1]:
            known = self.given.T @ self.given / len(self.given)
            slopes = np.linalg.lstsq(known, across, rcond=1e-8)[0]
            mean, own = self.given @ slopes, own - slopes.T @ known @ slopes
        values, vectors = np.linalg.eigh(own)
        values = np.where(values > NEGLIGIBLE * max(values.max(initial=0.0), 1e-300), values, 0.0)
        return np.asarray(mean + self.white @ (vectors * np.sqrt(values)).T)
