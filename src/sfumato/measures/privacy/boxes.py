"""How many people of the original fit each released box: the ambiguity for an intruder who knows the original."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.measures.confidence import quantile, share
from sfumato.measures.privacy.box_kernels import FittingPeople, inside_counts
from sfumato.plan.claims.risk import share_risks
from sfumato.release.assessment import Score
from sfumato.table.groups import group_labels
from sfumato.table.intervals import ANY, Intervals, interval_names, is_interval, is_member, parse_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.table.table import Table

ATTACK = "an attack by linear programming can narrow down overlapping boxes, arXiv 2509.03350"
BOXES = 5000  # if there are more boxes, this many random ones are examined


def originals_in_boxes(
    original: Table, released: Table, rows: NDArray[np.int64], owners: NDArray[np.int64] | None = None
) -> FittingPeople:
    """Count, for each of these released rows, the people with an original row that is in its box in all columns.

    ``owners`` is the person of each original row; None: every row is another person. A missing number fits every box,
    because the release does not say whose number is missing.
    """
    numeric = [name for name in original.names if is_interval(name, released.kinds)]
    sets = [n for n in original.names if n in released.kinds and not original.kinds[n].is_numeric]
    ends = [Intervals.of(released, name) for name in numeric]
    low, high = (
        np.column_stack([side[rows] for side in sides] or [np.empty((len(rows), 0))])
        for sides in ([one.low for one in ends], [one.high for one in ends])
    )
    fits = [_members(original, released, name) for name in sets]
    people = np.column_stack([original.coded(name).codes for name in sets] or [np.empty((original.rows, 0), np.int32)])
    cells = np.column_stack([released.coded(name).codes[rows] for name in sets] or [np.empty((len(rows), 0), np.int32)])
    width = max((table.shape[0] for table in fits), default=1), max((table.shape[1] for table in fits), default=1)
    allowed = np.zeros((len(fits), *width), dtype=bool)
    for place, table in enumerate(fits):
        allowed[place, : table.shape[0], : table.shape[1]] = table
    return inside_counts(
        numbers=original.matrix(numeric),
        categories=people,
        low=low,
        high=high,
        cells=cells,
        allowed=allowed,
        owners=np.arange(original.rows) if owners is None else owners,
    )


def box_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the smallest and the median number of people who fit a box, and the share of boxes that outsiders also fit.

    If boxes are a subdivision, only the people of a box fit it. If boxes overlap, or if people with equal values are in
    different boxes, outsiders fit too. This looks safer and may be less safe, because overlapping boxes constrain each
    other.
    """
    protected = subject.names if subject.quasi is None else subject.quasi
    released, original = subject.released, subject.original.select(protected)
    if not any(is_interval(name, released.kinds) for name in original.names):
        return
    labels = group_labels(released, _faces(original, released))
    _, first, size = np.unique(labels, return_index=True, return_counts=True)
    chosen = np.arange(len(first))
    if len(first) > BOXES:
        chosen = subject.generator("boxes").choice(chosen, BOXES, replace=False)
    people = originals_in_boxes(original, released, first[chosen], subject.owners)
    counts = people.in_box.astype(np.float64)
    typical = quantile(counts, 0.5)
    whose = "original rows" if subject.owners is None else "people with an original row"
    note = f"{whose} inside the box in all {len(protected)} columns"
    yield Score(
        name="people who fit a box, fewest",
        family="privacy",
        value=float(counts.min()),
        better="higher",
        rows=len(counts),
        note=note,
    )
    yield typical.score("people who fit a box, median", rows=len(counts), note=note, better="higher")
    rows = people if subject.owners is None else originals_in_boxes(original, released, first[chosen])
    mixed = rows.in_box > size[chosen]
    note = (
        f"boxes overlap, or equal records are in different boxes; {ATTACK}" if mixed.any() else "boxes do not overlap"
    )
    yield share(int(mixed.sum()), len(mixed)).score("boxes that outsiders also fit", rows=len(counts), note=note)
    yield from _household_scores(subject, people)


def _household_scores(subject: MeasuredRelease, people: FittingPeople) -> Iterator[Score]:
    """Yield the mean risk of a person, 1 ÷ those who fit her smallest box, by herself and with her household."""
    fits = people.fewest > 0
    if subject.household is None or not fits.any():
        return
    alone = np.divide(1.0, people.fewest, where=fits, out=np.zeros(len(fits)))
    coded = subject.one_row_each.original.coded(subject.household)
    known = subject.one_row_each.original.arrow.column(subject.household).is_valid().to_numpy()
    homes = np.where(known, coded.codes, len(coded.values) + np.arange(len(known)))  # without a household she is alone
    for name, risks in (("by herself", alone), ("with her household", share_risks(homes, alone))):
        yield Score(
            name=f"risk of a person {name}, mean",
            family="privacy",
            value=float(risks[fits].mean()),
            better="lower",
            rows=int(fits.sum()),
            counted="people",
            note="1 ÷ the people who fit her smallest box; whoever is linked is linked with her household",
        )


def _faces(original: Table, released: Table) -> list[str]:
    """Return the released columns that define a box."""
    boxed = [name for name in original.names if is_interval(name, released.kinds)]
    faces = [face for name in boxed for face in interval_names(name)]
    return faces + [name for name in original.names if name in released.kinds]


def _members(original: Table, released: Table, name: str) -> NDArray[np.bool_]:
    """Return which original values (columns) fit which released cells (rows); an unknown label may cover any value."""
    values = pc.cast(original.coded(name).values, pa.string()).to_pylist()
    cells = [parse_set(cell) for cell in pc.cast(released.coded(name).values, pa.string()).to_pylist()]
    known = {*values, ANY}
    return np.array(
        [[not known.issuperset(cell) or is_member(value, cell) for value in values] for cell in cells], dtype=bool
    )
