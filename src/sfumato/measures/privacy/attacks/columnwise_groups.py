"""Stripping of columns that were microaggregated one by one: which rows fit a person in every column (TL §2.3.4).

If the numbers of one column are put in groups of neighbouring ranks, and each is released as the mean of its group, a
number between two released means belongs to one of these two groups: groups of neighbours do not overlap. So a person
whose numbers are known fits one or two groups of each column, and each group has about k rows. The rows that fit her in
all columns are the intersection of these groups. Each column alone hides her among k people; few columns together do
not. The conclusion is certain, not likely: her row is always among those that are left. If only one is left, she is
re-identified.

A reference tells how often one row is left for somebody who is not in the table, so how far an intruder can trust it
who does not know that the person took part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.measures.confidence import share
from sfumato.table.encoded_columns import finite_numbers
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.release.assessment import Score
    from sfumato.table.table import Table

KINDS = ("each-column", "optimal-1d")  # of microaggregation that groups each column by itself
CENTRES = ("mean", "median")  # values of a group that lie inside it
TARGETS = 1000  # people who are attacked, and outsiders
PAIRS = 10**7  # pairs of a person and a row that are compared on each side
FEWEST = 40


@dataclass(frozen=True, repr=False)
class RowsLeft:
    """The rows that fit each person in all columns."""

    number: NDArray[np.int64]
    with_own: NDArray[np.bool_]  # whether her own row is among them


def fitting_rows(values: NDArray[np.float64], means: NDArray[np.float64], rounded: float = 0.0) -> NDArray[np.bool_]:
    """Return which rows (columns) may have these values (rows), if numbers were grouped by rank and shown as means.

    ``rounded`` is by how much a shown mean may differ from that of its group. Missing values (NaN) are the lowest rank:
    they may be in one group with the lowest numbers.

    Examples
    --------
    >>> fitting_rows(np.array([2.5]), np.array([1.0, 2.0, 2.0, 3.0, 4.0])).tolist()
    [[False, True, True, True, False]]
    """
    groups = np.unique(means[~np.isnan(means)])
    first = np.searchsorted(groups, values - rounded, side="left") - 1
    last = np.searchsorted(groups, values + rounded, side="right")
    missing = np.isnan(values)
    first[missing], last[missing] = -1, 0
    group = np.where(np.isnan(means), -1, np.searchsorted(groups, means))
    return np.asarray((first[:, None] <= group) & (group <= last[:, None]))


def rows_left(people: Table, released: Table, names: tuple[str, ...], own: NDArray[np.bool_] | None = None) -> RowsLeft:
    """Intersect the rows that fit each person over these columns; ``own`` are the rows (columns) of each person."""
    fits = np.ones((people.rows, released.rows), dtype=bool)
    for name in names:
        values, means = finite_numbers(people, name), finite_numbers(released, name)
        scale = float(np.nanmax(np.abs(means), initial=1.0))
        fits &= fitting_rows(values, means, 0.5 if people.kinds[name] is Kind.DATE else 1e-12 * scale)
    mine = np.zeros(people.rows, dtype=bool) if own is None else np.asarray((fits & own).any(axis=1))
    return RowsLeft(fits.sum(axis=1), mine)


def columnwise_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the share of people of whom only one row is left, which is their own; nothing for groups of whole rows."""
    manifest = subject.manifest
    if subject.origin is None or manifest is None or manifest.method != "mdav":
        return
    names = tuple(n for n in _aggregated(subject, manifest.notes.get("aggregated")) if n not in subject.knows)
    if manifest.options.get("kind") not in KINDS or manifest.options.get("values") not in CENTRES or not names:
        return
    generator, rows = subject.generator("columnwise groups"), subject.released.rows
    most = int(np.clip(PAIRS // rows, FEWEST, TARGETS))
    present = np.flatnonzero(np.isin(np.arange(subject.original.rows), subject.origin))
    targets = generator.permutation(present)[:most]
    own = subject.origin[None, :] == targets[:, None]
    found = rows_left(subject.original.take(targets), subject.released, names, own)
    alone = (found.number == 1) & found.with_own
    note = (
        f"share of people of whom one row is left in the groups of {len(names)} columns ({', '.join(names[:5])}"
        f"{', …' if len(names) > 5 else ''}), which is their own; {np.median(found.number):.3g} rows are left in the "
        f"median; {1.0 / rows:.2g} by chance{_outsiders(subject, names, generator, most)}"
    )
    rate = share(int(alone.sum()), len(alone))
    yield rate.score("people re-identified from columnwise groups", rows=len(alone), note=note, gain=rate.low)


def _aggregated(subject: MeasuredRelease, aggregated: object) -> tuple[str, ...]:
    """Return the columns of numbers that were grouped."""
    known, shown = subject.original.kinds, subject.released.kinds
    grouped = aggregated if isinstance(aggregated, (list, tuple)) else ()
    return tuple(n for n in subject.names if n in grouped and known[n].is_numeric and n in shown)


def _outsiders(subject: MeasuredRelease, names: tuple[str, ...], generator: np.random.Generator, most: int) -> str:
    """Return how often one row is left for people who are not in the table, as a part of a sentence."""
    if subject.reference is None:
        return ""
    others = subject.reference.take(generator.permutation(subject.reference.rows)[:most])
    left = rows_left(others, subject.released, names).number
    return f"; one row, which is not theirs, is left of {(left == 1).mean():.1%} of people outside the table"
