"""Copies: released rows that are equal, or nearly equal, to the row of a person who is unique in the original.

Rows can be equal by chance, above all if there are few categories. How often is seen from rows that are no copies:
people of the reference who equal a unique person of the original or, without a reference, pairs of equal people in the
original. If there is none, the columns tell: the probability that two people agree in the finest column, times the
share of nearest pairs of people in the original that agree in each other column. This makes a single copy of continuous
numbers inexplicable. Only counts are reported; nobody is named.

With a reference, the rows of people who took part must also not be rarer than those of others: a method that removes
copies reveals its people by what is missing (:mod:`sfumato.measures.privacy.attacks.absence`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.measures.measured_release import ColumnCodes, cells_of, exact_numbers
from sfumato.measures.privacy.attacks.absence import equal_row_scores
from sfumato.measures.privacy.prediction import NearestRows, find, people_of
from sfumato.release.assessment import Better, Score
from sfumato.table.encoded_columns import finite_numbers
from sfumato.table.groups import refine, row_keys
from sfumato.table.intervals import interval_names, is_interval
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.plan.answers import ComparedRows
    from sfumato.table.kinds import Kind


EITHER_SIDE = 2  # tests of equal and of missing rows, which need a reference
LANES = ((0, "a"), (1, "b"))  # the two halves of a key


@dataclass(frozen=True, repr=False)
class RowMatches:
    """Labels of rows: two rows of any of the tables have the same label if they are equal in the chosen columns."""

    original: NDArray[np.int64]
    released: NDArray[np.int64]
    reference: NDArray[np.int64]  # empty without a reference
    labels: int
    owners: NDArray[np.int64]  # the person of each original row, as numbers from 0

    @classmethod
    def of(cls, cells: Sequence[ColumnCodes], subject: MeasuredRelease) -> RowMatches:
        """Label the rows of all tables by these columns."""
        rows = _sizes(subject)
        labels = np.zeros(sum(rows), dtype=np.int64)
        for column in cells:
            labels = refine(labels, column.codes, column.size)
        first, second, third = np.split(labels, np.cumsum(rows)[:-1])
        owners = np.arange(rows[0]) if subject.owners is None else subject.owners
        return cls(first, second, third, int(labels.max(initial=-1)) + 1, owners)

    @cached_property
    def people(self) -> NDArray[np.int64]:
        """How many people have each label in the original, in one of their rows or in several."""
        pairs = np.unique(np.column_stack([self.original, self.owners]), axis=0)
        return self.counts(pairs[:, 0])

    def count_people(self, rows: NDArray[np.bool_]) -> int:
        """Return how many people have one of these original rows."""
        return len(np.unique(self.owners[rows]))

    def counts(self, side: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many rows of a table have each label."""
        return np.bincount(side, minlength=self.labels).astype(np.int64)


@dataclass(frozen=True, repr=False)
class CellKeys:
    """Keys of rows that are equal where cells are equal, whatever types the tables use (see :class:`ColumnCodes`)."""

    names: tuple[str, ...]  # of the columns that are compared
    known: tuple[str, ...]  # those of them that others know
    shown: tuple[str, ...]  # released columns that these are released as
    kinds: Mapping[str, Kind]  # of the original
    person: str | None = None  # column of the original that tells people apart

    @classmethod
    def of(cls, subject: MeasuredRelease) -> CellKeys:
        """Return the keys for rows like those of a sample."""
        known = tuple(name for name in subject.names if subject.quasi is None or name in subject.quasi) or subject.names
        kinds = subject.released.kinds
        shown = [face for name in known if is_interval(name, kinds) for face in interval_names(name) if face in kinds]
        shown += [name for name in known if name in kinds]
        return cls(subject.names, known, tuple(shown), subject.original.kinds, subject.person)

    def key_original(self, rows: Table) -> pa.Table:
        """Return the keys of original rows."""
        cells = self._cells(rows)
        people = {} if self.person is None else {"person": rows.select([self.person])}
        return _make_keys(known=cells.select(self.known), whole=cells, **people)

    def key_released(self, rows: Table) -> pa.Table:
        """Return the keys of released rows."""
        cells = self._cells(rows)
        return _make_keys(known=cells.select(self.known), whole=cells, shown=rows.select(self.shown))

    def _cells(self, table: Table) -> Table:
        """Return the compared columns with the same types for all tables."""
        columns = {}
        for name in self.names:
            if self.kinds[name].is_numeric:
                columns[name] = pa.array(exact_numbers(table, name), from_pandas=True)
            else:
                columns[name] = table.arrow.column(name).cast(pa.string())
        return Table(pa.table(columns), {name: self.kinds[name] for name in self.names})


def _make_keys(**tables: Table) -> pa.Table:
    keys = {name: row_keys(table) for name, table in tables.items()}
    return pa.table({f"{name}_{lane}": key[:, place] for name, key in keys.items() for place, lane in LANES})


# A released row is nearly equal if its distance is one of these shares of the distance to the nearest other person:
# the first finds many copies with little noise, the last a single one that was rounded.
NEAR = (1e-2, 1e-4, 1e-6)
DECIMALS = range(-6, 11)  # powers of ten to which a column may be rounded


@dataclass(frozen=True, kw_only=True)
class Copies:
    """Unique people of the original whose row was released, and what chance gives."""

    copied: int  # unique people of the original with an equal released row
    released_rows: int  # released rows that equal a row of any person
    unique: int  # people of the original who are unique
    expected: float  # unique people who would be copied by chance
    p_value: float  # probability of as many copies by chance


def count_copies(
    equal: RowMatches, unique: NDArray[np.bool_], expected: float, *, reference: int, original: int
) -> Copies:
    """Count the copies of unique people; ``expected`` is what the columns tell (see above)."""
    in_original, in_release = equal.people, equal.counts(equal.released)
    single = unique & (in_original[equal.original] == 1)
    copied = equal.count_people(single & (in_release[equal.original] > 0))
    seen, tried = 0, 0.0
    if reference:
        seen = equal.count_people(single & (equal.counts(equal.reference)[equal.original] > 0))
        tried = float(reference)
    if 2 * reference < original:  # a small reference says little: pairs in the original count too
        seen, tried = seen + int((in_original == 2).sum()), tried + original / 2.0
    rows = len(equal.released)
    return Copies(
        copied=copied,
        released_rows=int((in_original[equal.released] > 0).sum()),
        unique=equal.count_people(single),
        expected=expected_copies(expected, seen, rows / max(tried, 1.0)),
        p_value=chance_of(copied, expected, seen, rows / max(tried, 1.0)),
    )


def expected_copies(by_columns: float, seen: int, ratio: float) -> float:
    """Return the expected number of equal rows; ``ratio`` is that of released rows to rows that are no copies."""
    return seen * ratio if seen else min(by_columns, ratio)


def chance_of(copied: int, by_columns: float, seen: int, ratio: float) -> float:
    """Return the probability of at least ``copied`` equal rows by chance.

    By chance, equal rows fall on the release and on the rows that are no copies in proportion to their numbers
    (``ratio``). If none of the latter is equal (``seen``), the expected number that the columns tell decides as well.
    """
    from scipy.stats import binom, poisson

    if not copied:
        return 1.0
    by_count = float(binom.sf(copied - 1, copied + seen, ratio / (1.0 + ratio)))
    return by_count if seen else min(by_count, float(poisson.sf(copied - 1, by_columns)))


def copy_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the copies in all columns, in the quasi-identifiers if they are some of the columns, and nearly equal rows.

    A row that other people share in the quasi-identifiers is hidden among them, and does not count as unique.
    """
    cells = subject.once(cells_of)
    quasi = tuple(name for name in subject.names if subject.quasi is None or name in subject.quasi)
    known = [column for column in cells if column.name in quasi]
    rows, whole, partly = _sizes(subject), RowMatches.of(cells, subject), RowMatches.of(known, subject)
    unique = partly.people[partly.original] == 1
    matches: list[tuple[str, RowMatches, Sequence[ColumnCodes]]] = [("copies, all columns", whole, cells)]
    matches += [("copies, quasi-identifiers", partly, known)] if 0 < len(known) < len(cells) else []
    boxed = any(is_interval(name, subject.released.kinds) for name in subject.names)
    near = subject.original.rows > 1 and not boxed
    tests = len(matches) + near + (EITHER_SIDE if rows[2] else 0)
    for name, equal, columns in matches:
        expected = float(unique.sum()) * rows[1] * equal_by_chance(subject, [column.name for column in columns])
        copies = count_copies(equal, unique, expected, reference=rows[2], original=rows[0])
        yield _score(name, copies, rows[1], tests)
    if near:
        yield _near_score(subject.one_row_each, tests)
    yield from equal_row_scores(subject.one_row_each, tests)


def _sizes(subject: MeasuredRelease) -> tuple[int, int, int]:
    """Return the rows of original, release and reference."""
    return subject.original.rows, subject.released.rows, 0 if subject.reference is None else subject.reference.rows


def counted_copy_scores(subject: MeasuredRelease, counted: ComparedRows) -> Iterator[Score]:
    """Yield the copies, groups and unique people that were counted on all rows; chance is judged from a sample.

    Rows that are nearly equal are looked for in the sample, if it has the released rows of its people.
    """
    cells = subject.once(cells_of)
    known = [column for column in cells if subject.quasi is None or column.name in subject.quasi]
    matches = [("copies, all columns", counted.whole, cells)]
    matches += [("copies, quasi-identifiers", counted.known, tuple(known))] if 0 < len(known) < len(cells) else []
    boxed = any(is_interval(name, subject.released.kinds) for name in subject.names)
    near = subject.original.rows > 1 and not boxed and subject.origin is not None
    tests, rows = len(matches) + near + (0 if subject.reference is None else EITHER_SIDE), counted.released_rows
    for name, equal, columns in matches:
        by_columns = float(counted.known.unique) * rows * equal_by_chance(subject, [one.name for one in columns])
        ratio = 2.0 * rows / counted.original_rows
        copies = Copies(
            copied=equal.copied,
            released_rows=equal.equal,
            unique=equal.unique,
            expected=expected_copies(by_columns, equal.pairs, ratio),
            p_value=chance_of(equal.copied, by_columns, equal.pairs, ratio),
        )
        yield _score(name, copies, rows, tests)
    if near:
        yield _near_score(subject.one_row_each, tests)
    yield from equal_row_scores(subject.one_row_each, tests)
    yield from _group_scores(counted)


def _group_scores(counted: ComparedRows) -> Iterator[Score]:
    rows, groups = counted.released_rows, counted.groups
    counts: list[tuple[str, float, Better, int, str]] = [
        ("smallest group", float(groups.smallest), "higher", rows, f"rows, of {groups.count:,} groups of equal rows"),
        ("unique released rows", groups.unique_rows / rows, "lower", rows, "share of the released rows"),
        (
            "unique people in the original",
            counted.known.unique / counted.people,
            "lower",
            counted.people,
            "share of the people whom the quasi-identifiers single out before the release",
        ),
    ]
    for name, value, better, of_rows, note in counts:
        told_apart = name.startswith("unique people") and counted.people < counted.original_rows
        yield Score(
            name=name,
            family="privacy",
            value=value,
            better=better,
            rows=of_rows,
            counted="people" if told_apart else "rows",
            note=f"{note}; all rows counted",
        )


def equal_by_chance(given: MeasuredRelease, names: Sequence[str]) -> float:
    """Return the probability that two people are equal in these columns.

    It is that of the column with the rarest agreement, times the share of nearest pairs that agree in each other
    column. Pairs that are near agree more often than others, which allows for columns that depend on each other.
    """
    subject = given.one_row_each
    people, total = people_of(subject), subject.original.rows
    columns = [column for column in subject.once(cells_of) if column.name in names]
    if total < 2:
        return 1.0
    rates, shares = [], []
    for column in columns:
        codes = column.codes[:total]
        count = np.bincount(codes).astype(np.float64)
        ties = float((count * (count - 1.0)).sum() / (total * (total - 1.0)))
        rates.append(max(ties, _agreement(subject, column.name)))
        agree = int((codes[people.chosen] == codes[people.others.nearest]).sum())
        shares.append((agree + 1.0) / (len(people.chosen) + 2.0))
    finest = int(np.argmin(rates))
    return float(rates[finest] * np.prod(np.delete(shares, finest)))


def _agreement(subject: MeasuredRelease, name: str) -> float:
    """Return how often two people agree in a column because its numbers are rounded; 0 if they are not."""
    total = subject.original.rows
    if not subject.original.kinds[name].is_numeric:
        return 2.0 / (total * (total - 1.0))  # a category could occur twice, even if none does
    numbers = finite_numbers(subject.original, name)
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return 1.0
    spread = float(np.subtract(*np.quantile(numbers, [0.75, 0.25])))
    for power in DECIMALS:
        scaled = numbers * 10.0**power
        if np.abs(scaled).max() > 1e14:
            return 0.0
        if np.allclose(scaled, np.rint(scaled), rtol=1e-13, atol=1e-9):
            return 1.0 / max(1.0, spread * 10.0**power)
    return 0.0


def _near_score(subject: MeasuredRelease, tests: int) -> Score:
    """Count people to whom one released row is nearly equal, compared with the other people or with the reference."""
    people, equal = people_of(subject), RowMatches.of(subject.once(cells_of), subject)
    single = equal.counts(equal.released) == 1
    row = people.released.nearest
    alone = single[equal.released[row]] & (equal.released[row] != equal.original[people.chosen])
    if subject.others is None:
        around = find(subject.people[people.chosen], subject.people, min(3, len(subject.people)), _generator(subject))
        distance = around.neighbours.without(people.chosen).distance
        other, apart, tried = distance[:, 0], distance[:, -1], float(len(subject.people))
    else:
        near = find(subject.people[people.chosen], subject.others, 1, _generator(subject)).neighbours
        other, apart, tried = near.distance[:, 0], people.others.distance, float(len(subject.others))
    ratio, dimension = subject.released.rows / tried, _dimension(people)
    shares = []
    for share in NEAR:
        copied = int((alone & _is_near(people.released.distance, people.others.distance, share)).sum())
        seen = int(_is_near(other, apart, share).sum())
        expected = len(people.chosen) * subject.released.rows / subject.original.rows * share ** (dimension / 2.0)
        copies = Copies(
            copied=copied,
            released_rows=copied,
            unique=len(people.chosen),
            expected=expected_copies(expected, seen, ratio),
            p_value=min(1.0, len(NEAR) * chance_of(copied, expected, seen, ratio)),
        )
        shares.append((copies, share))
    copies, share = min(shares, key=lambda one: one[0].p_value)  # the first of equal ones: it counts most
    note = f"released row closer than {share:.0%} " if share >= 0.01 else f"released row closer than {share:g} "
    note += "of the distance to the nearest other person, and not equal; "
    return _score("copies, nearly equal", copies, subject.released.rows, tests, note)


def _is_near(distance: NDArray[np.float64], others: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
    return np.asarray((distance > 0.0) & (distance <= share * others) & np.isfinite(others))


def _dimension(people: NearestRows) -> float:
    """Return in how many dimensions people spread: the distance to the nearest shrinks with that root of their number.

    Distances to the nearest and to the fifth neighbour have the ratio (1/5)^(1/d) on average of the logarithm.
    """
    ratio = people.others.ambiguity[(people.others.ambiguity > 0.0) & (people.others.ambiguity < 1.0)]
    if not ratio.size:
        return 0.0
    steps = 1.0 + 1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0  # mean of the logarithm of 5th ÷ nearest, in one dimension
    return steps / max(1e-3, float(-np.log(ratio).mean()))


def _generator(subject: MeasuredRelease) -> np.random.Generator:
    return subject.generator("copies")


def _score(name: str, copies: Copies, rows: int, tests: int, note: str = "") -> Score:
    return Score(
        name=name,
        family="privacy",
        value=float(copies.copied),
        better="lower",
        rows=rows,
        p_value=min(1.0, tests * copies.p_value),
        note=f"{note}people whose row was released, of {copies.unique:,} unique ones; {copies.expected:.2g} expected "
        f"by chance; {copies.released_rows:,} of {rows:,} released rows equal the row of a person",
    )
