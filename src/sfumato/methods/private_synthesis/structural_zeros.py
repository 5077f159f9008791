"""Structural zeros: combinations of values that cannot occur, such as ``age < 15 and marital = married``.

They are declared, and so they are public: they tell nothing about the people. The codes of a column are parted by the
comparisons that the conditions make with it, so that all codes of a bin meet the same ones. A combination of bins that
meets a condition gets probability 0 in the model, and no row is drawn from it. Whatever was drawn is checked once more
as it will be read: a row that meets a condition is drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.private_columns import CategoryDomain, NumberDomain
from sfumato.methods.private_synthesis.junction_tree import count_tree_cells
from sfumato.plan.plan import FAULT, Claim, Evidence, Finding, format_count
from sfumato.statistics.conditions import Condition, Derived, Predicate
from sfumato.statistics.language import parse
from sfumato.table.kinds import Kind, number_column
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.private_columns import Domain
    from sfumato.methods.private_synthesis.attributes import Attribute
    from sfumato.methods.private_synthesis.junction_tree import Clique
    from sfumato.methods.private_synthesis.measured_columns import MeasuredColumn
    from sfumato.statistics.point_rows import PointRows

    Truth = NDArray[np.bool_]

MOST_CELLS = 200_000  # of the cliques that structural zeros ask for; conditions beyond it are held by drawing again
MOST_DRAWS = 20  # of rows that meet a condition, before others are repeated in their place


def read_conditions(never: Sequence[str], domains: Mapping[str, Domain | None]) -> tuple[Condition, ...]:
    """Read conditions in the language of statistics; raise if one names what is not declared."""
    found = []
    for text in never:
        condition = parse(f"count({text})", names=tuple(domains)).where
        for predicate in condition.leaves():
            _require_declared(predicate, domains[predicate.column])
        found.append(condition)
    return tuple(found)


def _require_declared(predicate: Predicate, domain: Domain | None) -> None:
    if isinstance(predicate.column, Derived):
        raise OptionError("A condition of never compares columns with values.", found=str(predicate))
    if domain is not None:
        _meets(Condition((predicate,)), predicate.column, _show(domain, np.zeros(0)))  # raises if it cannot be compared
    known = isinstance(domain, CategoryDomain) and domain.kind is not Kind.BOOLEAN
    if known and predicate.value is not None and predicate.value not in domain.categories:  # type: ignore[union-attr]
        raise OptionError(
            f"A condition of never must name a declared category of {predicate.column!r}.",
            found=f"{predicate}, which is none",
            fix="the category as it is declared",
        )


def cuts_of(domain: NumberDomain, conditions: Sequence[Condition]) -> tuple[float, ...]:
    """Return where the numbers of a column are parted by what conditions compare them with."""
    rows = _rows(domain.name, _show(domain, np.array([domain.low])))
    column = rows.cells.numbers(domain.name)
    cuts: set[float] = set()
    for predicate in _predicates(domain.name, conditions):
        for low, high in column.values_meeting(predicate).ends:
            cuts |= {low, np.nextafter(high, np.inf)}
    if domain.kind is not Kind.CONTINUOUS:
        cuts = {float(np.ceil(cut)) for cut in cuts}
    return tuple(sorted(cut for cut in cuts if domain.low < cut <= domain.high))


def class_codes(attribute: Attribute, conditions: Sequence[Condition]) -> NDArray[np.int64]:
    """Return the class of each code, the missing one last: codes of a class meet the same comparisons."""
    truths = [_truth_of_codes(attribute, predicate) for predicate in _predicates(attribute.domain.name, conditions)]
    if not truths:
        return np.zeros(attribute.values + 1, dtype=np.int64)
    classes: NDArray[np.int64] = np.unique(np.column_stack(truths), axis=0, return_inverse=True)[1].ravel()
    return classes


def _predicates(name: str, conditions: Sequence[Condition]) -> list[Predicate]:
    return [one for condition in conditions for one in condition.leaves() if one.column == name]


def _truth_of_codes(attribute: Attribute, predicate: Predicate) -> Truth:
    """Return which codes of an attribute meet a comparison; the first number of a cell stands for all of them."""
    places = getattr(attribute, "ends", np.zeros(0))[: attribute.values]
    return _meets(Condition((predicate,)), predicate.column, _show(attribute.domain, places))


def _show(domain: Domain, numbers: NDArray[np.float64]) -> Table:
    """Return a table of one column with these numbers, or with all categories; the last cell is missing."""
    cells: pa.Array
    if isinstance(domain, NumberDomain):
        cells = number_column(np.append(numbers, np.nan), domain.kind, pa.date32())
    elif domain.kind is Kind.BOOLEAN:
        cells = pa.array([False, True, None])
    else:
        cells = pa.array([*domain.categories, None], pa.string())
    return Table(pa.table({domain.name: cells}), {domain.name: domain.kind})


def _rows(name: str, table: Table) -> PointRows:
    from sfumato.statistics.point_rows import PointRows

    return PointRows.of(table, [name], np.ones(table.rows))


def _meets(condition: Condition, name: str, table: Table) -> Truth:
    return _rows(name, table).meets(condition)


def meeting_rows(table: Table, conditions: Sequence[Condition]) -> Truth:
    """Return which rows meet one of the conditions."""
    from sfumato.statistics.point_rows import PointRows

    met = np.zeros(table.rows, dtype=bool)
    for condition in conditions:
        met |= PointRows.of(table, condition.columns, np.ones(table.rows)).meets(condition)
    return met


@dataclass(frozen=True, repr=False)
class StructuralZero:
    """The combinations of bins of some attributes that a condition rules out."""

    clique: Clique
    possible: NDArray[np.float64]  # 0 or 1


def find_zeros(columns: Sequence[MeasuredColumn], conditions: Sequence[Condition]) -> tuple[StructuralZero, ...]:
    """Return the structural zeros of the model; raise if nothing is left."""
    places = {column.attribute.domain.name: place for place, column in enumerate(columns)}
    sizes = [column.size for column in columns]
    zeros: list[StructuralZero] = []
    for condition in conditions:
        clique = tuple(sorted(places[name] for name in condition.columns))
        if count_tree_cells(sizes, [*(one.clique for one in zeros), clique]) > MOST_CELLS:
            continue
        truth = _combine(condition, columns, places, clique)
        possible = np.asarray(1.0 - np.broadcast_to(truth, [sizes[one] for one in clique]), dtype=np.float64)
        zeros.append(StructuralZero(clique, possible))
    if any(not one.possible.any() for one in zeros):
        raise OptionError("What never occurs must leave something that can.", found="a condition that always holds")
    return tuple(zeros)


def _combine(
    part: Condition | Predicate, columns: Sequence[MeasuredColumn], places: Mapping[str, int], clique: Clique
) -> Truth:
    """Return which combinations of bins meet a condition, with length 1 where it does not depend on an attribute."""
    if isinstance(part, Predicate):
        column = columns[places[part.column]]
        truth = _truth_of_codes(column.attribute, part)
        in_bins = np.zeros(column.size, dtype=bool)
        in_bins[column.bins[column.drawn_leaves]] = truth[column.leaves.first[column.drawn_leaves]]
        return in_bins.reshape([-1 if one == places[part.column] else 1 for one in clique])
    parts = [_combine(one, columns, places, clique) for one in part.predicates]
    combined: Truth = reduce(np.logical_or if part.either else np.logical_and, parts)
    return combined


def draw_possible(draw: Callable[[], Table], conditions: Sequence[Condition], generator: np.random.Generator) -> Table:
    """Return drawn rows, those that meet a condition replaced by rows that were drawn again."""
    table = draw()
    wrong = np.flatnonzero(meeting_rows(table, conditions)) if conditions else np.zeros(0, dtype=np.int64)
    for _ in range(MOST_DRAWS):
        if not len(wrong):
            return table
        other = draw()
        right = np.flatnonzero(~meeting_rows(other, conditions))[: len(wrong)]
        kept = np.setdiff1d(np.arange(table.rows), wrong[: len(right)])
        both = pa.concat_tables([table.arrow.take(pa.array(kept)), other.arrow.take(pa.array(right))])
        table = Table(both.combine_chunks(), table.kinds)
        wrong = np.flatnonzero(meeting_rows(table, conditions))
    if len(wrong) == table.rows:
        raise CannotRelease(
            "What never occurs must leave something that can.",
            found="no such row among those drawn",
            fix="fewer conditions",
        )
    right = np.setdiff1d(np.arange(table.rows), wrong)
    return table.take(np.sort(np.append(right, generator.choice(right, len(wrong)))))


@dataclass(frozen=True, repr=False)
class RowsMeeting:
    """How many released rows meet a condition."""

    rows: int

    def merge(self, other: RowsMeeting) -> RowsMeeting:
        """Put two sets of blocks together."""
        return RowsMeeting(self.rows + other.rows)


@dataclass(frozen=True, kw_only=True)
class NeverMet(Claim[RowsMeeting]):
    """No released row meets any of the conditions that were declared impossible."""

    never: tuple[str, ...]

    def tally(self, evidence: Evidence) -> RowsMeeting:
        released = evidence.released
        conditions = [parse(f"count({text})", names=tuple(released.names)).where for text in self.never]
        return RowsMeeting(int(meeting_rows(released, conditions).sum()))

    def finding(self, tally: RowsMeeting) -> Finding:
        return self.report(
            claim=f"no row meets {' or '.join(f'({text})' for text in self.never)}",
            held=tally.rows == 0,
            found=f"{format_count(tally.rows, 'row')} that does" if tally.rows else "none that does",
            fix=FAULT,
        )
