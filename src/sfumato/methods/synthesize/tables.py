"""Conditional tables: counts of a few columns at a time, used as probabilities (TL §2.3.5, "summary tables").

Numbers are divided into bins of at least k rows. Each column is drawn given up to ``order`` − 1 columns before it,
from the rows of the original that agree in them. With order 2 the pairs form the tree that carries the most mutual
information (Chow and Liu, 1968); with order 1 all columns are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synthesize.variables import Codes, Donors, Drawn, Numbers, Problem, Sampler, average_neighbours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BINS = 12  # largest number of bins of a numeric column
RARE = 4  # times as many cells are allowed as in a tree, because most of those of a table are rare


@dataclass(frozen=True, repr=False)
class CodedField:
    """One column of the table as codes: categories, or states followed by the bins of the numbers."""

    codes: NDArray[np.int64]
    size: int
    state: int | None  # position of its variable of codes
    number: int | None  # position of its variable of numbers
    states: int  # number of codes that are states: the bins follow
    donors: Donors | None  # the numbers of each bin

    def write(self, codes: NDArray[np.int64], drawn: Drawn, generator: np.random.Generator) -> None:
        """Write drawn codes into the variables of the column."""
        has_number = codes >= self.states
        if self.state is not None:
            drawn[self.state] = np.where(has_number, 0, codes) if self.number is not None else codes
        if self.number is not None and self.donors is not None:
            values = np.zeros(len(codes))
            groups = codes[has_number] - self.states
            values[has_number] = self.donors.numbers(groups, generator.random(len(groups)))
            drawn[self.number] = values


@dataclass(frozen=True, repr=False)
class ConditionalTable:
    """A field and the fields on which it depends: a table, and shorter tables for combinations that it lacks."""

    field: int
    parents: tuple[int, ...]
    tables: tuple[tuple[NDArray[np.int64], Donors], ...]  # keys and codes: of all parents, all but the last, …, none


def fit_tables(problem: Problem, generator: np.random.Generator) -> Sampler:
    """Return a sampler of the conditional tables of the table."""
    fields = fields_of(problem)
    steps = [
        ConditionalTable(field, parents, _tables(fields, field, parents))
        for field, parents in network(fields, problem.order, problem.k, problem.cells)
    ]

    def draw(rows: int, generator: np.random.Generator) -> Drawn:
        codes: dict[int, NDArray[np.int64]] = {}
        drawn: Drawn = [np.empty(0)] * len(problem.variables)
        for step in steps:
            codes[step.field] = _draw_field(step, fields, codes, rows, generator)
            fields[step.field].write(codes[step.field], drawn, generator)
        return drawn

    return draw


def fields_of(problem: Problem) -> list[CodedField]:
    """Join the variables of each column into one field."""
    fields = []
    for place, variable in enumerate(problem.variables):
        if isinstance(variable, Numbers):
            state = None if variable.state is None else problem.variables[variable.state]
            fields.append(_bin_numbers(variable, place, state if isinstance(state, Codes) else None, problem.k))
        elif not _is_state(problem, place):
            fields.append(CodedField(variable.values, variable.size, place, None, 0, None))
    return fields


def _is_state(problem: Problem, place: int) -> bool:
    following = problem.variables[place + 1] if place + 1 < len(problem.variables) else None
    return isinstance(following, Numbers) and following.state == place


def _bin_numbers(variable: Numbers, place: int, state: Codes | None, k: int) -> CodedField:
    known = variable.values[variable.known]
    states = 0 if state is None else state.size
    bins = max(1, min(BINS, known.size // k))
    edges = np.unique(np.quantile(known, np.arange(1, bins) / bins)) if known.size else np.empty(0)
    edges = edges[edges > known.min()] if known.size else edges  # no bin below the lowest number
    bin_of = np.searchsorted(edges, known, side="right")
    codes = np.zeros(len(variable.values), np.int64) if state is None else state.values.copy()
    codes[variable.known] = states + bin_of
    size = states + len(edges) + 1
    donors = Donors.of(average_neighbours(known, k), bin_of, len(edges) + 1)
    return CodedField(codes, size, variable.state, place, states, donors)


def network(fields: Sequence[CodedField], order: int, k: int, cells: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return the fields in the order in which they are drawn, each with its parents, the most informative first."""
    count = len(fields)
    information = np.zeros((count, count))
    for one in range(count):
        for other in range(one):
            joint = fields[one].codes * fields[other].size + fields[other].codes
            shared = mutual_information(joint, fields[one].codes, fields[other].codes)
            information[one, other] = information[other, one] = shared
    placed = [int(information.sum(axis=1).argmax())]
    steps = [(placed[0], tuple[int, ...]())]
    while len(placed) < count:
        left = [field for field in range(count) if field not in placed]
        best = information[np.ix_(left, placed)]
        field = left[int(best.max(axis=1).argmax())]
        steps.append((field, _parents(fields, field, placed, information, order, k, cells)))
        placed.append(field)
    return steps


def _parents(
    fields: Sequence[CodedField],
    field: int,
    placed: Sequence[int],
    information: NDArray[np.float64],
    order: int,
    k: int,
    cells: int,
) -> tuple[int, ...]:
    """Choose up to ``order`` − 1 parents; their combinations must have k rows on average, and few cells."""
    chosen: list[int] = []
    key = np.zeros(len(fields[field].codes), np.int64)
    for parent in sorted(placed, key=lambda one: -information[field, one]):
        if len(chosen) == order - 1 or information[field, parent] <= 0.0:
            break
        joined = np.unique(key * fields[parent].size + fields[parent].codes, return_inverse=True)[1]
        filled = len(np.unique(joined * fields[field].size + fields[field].codes))
        if not chosen or ((joined.max() + 1) * k <= len(joined) and filled <= RARE * cells):
            chosen.append(parent)
            key = joined
    return tuple(chosen)


def mutual_information(joint: NDArray[np.int64], one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """Return the mutual information of two codes, less what as many codes have by chance (Miller and Madow)."""
    sizes = [np.unique(codes, return_counts=True)[1] for codes in (one, other, joint)]
    entropy = [-(counts / len(joint) @ np.log(counts / len(joint))) for counts in sizes]
    by_chance = (len(sizes[0]) - 1) * (len(sizes[1]) - 1) / (2.0 * len(joint))
    return float(entropy[0] + entropy[1] - entropy[2] - by_chance)


def _tables(
    fields: Sequence[CodedField], field: int, parents: tuple[int, ...]
) -> tuple[tuple[NDArray[np.int64], Donors], ...]:
    tables = []
    for length in range(len(parents), -1, -1):
        key = _key(fields, parents[:length], [fields[parent].codes for parent in parents], len(fields[field].codes))
        values, groups = np.unique(key, return_inverse=True)
        tables.append((values, Donors.of(fields[field].codes, groups, len(values))))
    return tuple(tables)


def _key(
    fields: Sequence[CodedField], parents: tuple[int, ...], codes: Sequence[NDArray[np.int64]], rows: int
) -> NDArray[np.int64]:
    key = np.zeros(rows, np.int64)
    for parent, own in zip(parents, codes, strict=False):
        key = key * fields[parent].size + own
    return key


def _draw_field(
    step: ConditionalTable,
    fields: Sequence[CodedField],
    codes: dict[int, NDArray[np.int64]],
    rows: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw a field given its parents; a combination that is not in the table is looked up in a shorter one."""
    codes_drawn, open_rows = np.zeros(rows, np.int64), np.arange(rows)
    for length, (values, donors) in zip(range(len(step.parents), -1, -1), step.tables, strict=True):
        own = [codes[parent][open_rows] for parent in step.parents]
        key = _key(fields, step.parents[:length], own, len(open_rows))
        place = np.minimum(np.searchsorted(values, key), len(values) - 1)
        known = values[place] == key
        codes_drawn[open_rows[known]] = donors.codes(place[known], generator)
        open_rows = open_rows[~known]
    return codes_drawn
