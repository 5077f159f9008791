"""Latent normal columns for data shuffling, and the correlations with which ranks keep theirs.

Each column of a table is a latent normal column: the rows in its order get the values of the column in their order. A
column with missing cells has a second latent column, whose highest rows have the missing cells. Rank correlations of
normal columns with correlation ρ are (6/π)·asin(ρ/2), which gives the first correlations. Ties, missing cells and
chance make the result a little different, so that the correlations are then changed by the difference, a few times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.classical.ranks import missing_cells, rank_of, sorted_rows
from sfumato.statistics.pairwise import pairwise_covariance
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.table.table import Table

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
        order = sorted_rows(codes, generator)
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


def ranked_columns(block: Table, generator: np.random.Generator) -> list[RankedColumn]:
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
    for name in nominal:
        codes = _by_means(coded[name].codes, _first_component(ranks)) if ranks else coded[name].codes
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
    found = root @ root.T
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def latent_scores(ranks: Array) -> Array:
    """Return the normal scores of mean ranks, standardised; missing ones are 0."""
    from scipy.special import ndtri

    scores = np.nan_to_num(ndtri(np.clip(ranks, 1e-6, 1.0 - 1e-6)), nan=0.0)
    scores -= scores.mean(axis=0)
    spread = scores.std(axis=0)
    return np.asarray(scores / np.where(spread > 0.0, spread, 1.0))


def _first_component(ranks: Sequence[Array]) -> Array:
    scores = latent_scores(np.column_stack(ranks))
    _, vectors = np.linalg.eigh(scores.T @ scores)
    return np.asarray(scores @ vectors[:, -1])


def _by_means(codes: NDArray[np.integer], values: Array) -> Rows:
    """Return codes in the order of the mean value of their rows."""
    counts = np.bincount(codes)
    means = np.bincount(codes, weights=values) / np.maximum(counts, 1)
    return np.asarray(rank_of(np.argsort(means, kind="stable"))[codes])
