"""Restoration of what a swap loses in single columns: distributions and shares.

The moments of the columns are restored in :mod:`sfumato.methods.spectral.moments`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.table.encoded_columns import NumberEncoding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.encoder import Encoder

Marginals = Literal["free", "restored"]
MARGINALS: tuple[Marginals, ...] = ("free", "restored")

COMMON = 5  # smallest number of people in a category whose share is restored
SHARE_ROUNDS = 50


def with_distribution(
    numbers: NDArray[np.float64], like: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return numbers with the same ranks whose values follow the distribution of ``like``.

    A value is interpolated between two neighbouring values of ``like``, so that few of them are released unchanged.
    Correlations of heavy-tailed columns become less accurate.
    """
    if not like.size:
        return numbers
    known = np.sort(like)
    rank = np.empty(len(numbers))
    rank[np.argsort(numbers, kind="stable")] = np.arange(len(numbers))
    share = (rank + generator.uniform(size=len(numbers))) / len(numbers)
    position = np.abs(share * known.size - 0.5)  # it turns back at the ends, which would be released unchanged
    position = np.minimum(position, 2.0 * (known.size - 1) - position)
    return np.interp(position, np.arange(known.size), known)


def with_marginals(
    numbers: NDArray[np.float64],
    like: NDArray[np.float64],
    generator: np.random.Generator,
    *,
    is_atom: NDArray[np.bool_] | None = None,
    codes: Iterable[NumberEncoding] = (),
    only_mixtures: bool = False,
) -> NDArray[np.float64]:
    """Return numbers with the distributions of the columns of ``like``, or only those of columns with atoms.

    Rows that are an atom (``is_atom``, with the encodings ``codes`` of the columns) stay one.
    """
    restored = numbers.copy()
    atoms = [code.atoms for code in codes] or [()] * numbers.shape[1]
    for column, shared in enumerate(atoms):
        if only_mixtures and not shared:
            continue
        known = like[~np.isnan(like[:, column]) & ~np.isin(like[:, column], shared), column]
        rows = ~is_atom[:, column] if is_atom is not None else np.ones(len(numbers), dtype=bool)
        restored[rows, column] = with_distribution(numbers[rows, column], known, generator)
    return restored


def with_shares(
    changed: NDArray[np.float64], like: NDArray[np.float64], code: Encoder, *, only_mixtures: bool = False
) -> NDArray[np.float64]:
    """Return a matrix in which categories, atoms and missing numbers are as common as in ``like``.

    Each indicator is shifted by the same amount in all rows, so the rows nearest to a category get it. Categories of
    fewer than five people are left as they are, so that their number is not disclosed. With ``only_mixtures``, only the
    indicators of columns with atoms are shifted.
    """
    shared = changed.copy()
    for category in () if only_mixtures else code.categories:
        place = category.columns
        shared[:, place] += _offsets(category.scores(changed), (like[:, place] > 0.0).sum(axis=0))
    for number in code.numbers:
        if number.atoms or (number.width > 1 and not only_mixtures):
            place = number.indicators
            counts = (like[:, place] > 0.0).sum(axis=0)
            states = np.column_stack([changed[:, place], np.zeros(len(changed))])  # the last state: a number
            offsets = _offsets(states, np.append(counts, len(like) - counts.sum()))
            shared[:, place] += offsets[:-1] - offsets[-1]
    return shared


def _offsets(scores: NDArray[np.float64], wanted: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what to add to each column so that it is the largest in the wanted number of rows, column by column."""
    offsets = np.zeros(scores.shape[1])
    common = np.flatnonzero((wanted >= COMMON) & (wanted < len(scores)))
    for _ in range(SHARE_ROUNDS):
        if np.array_equal(
            np.bincount((scores + offsets).argmax(axis=1), minlength=len(wanted))[common], wanted[common]
        ):
            break
        for column in common:
            rivals = np.delete(scores + offsets, column, axis=1).max(axis=1)
            behind = np.sort(rivals - scores[:, column])
            offsets[column] = (behind[wanted[column] - 1] + behind[wanted[column]]) / 2.0
    return offsets
