"""Local suppression: single cells are left empty until every row is equal to at least k − 1 others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from sfumato.methods.base import Method, require_rows
from sfumato.methods.options import (
    diversity_option,
    group_size_option,
    importance_of,
    importance_option,
    reported_option,
    search_option,
)
from sfumato.methods.partition import Routes, grow_routes, least_sampled, one_block
from sfumato.methods.recodings.group_rules import GroupRules, SensitiveColumn, make_rules
from sfumato.methods.recodings.groupings import Groupings
from sfumato.params import Choice, Share
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor, ValidCells
from sfumato.plan.plan import Claim, Outcome, Plan
from sfumato.plan.survey import is_whole
from sfumato.schema.columns import Role
from sfumato.table.groups import column_hashes, group_labels, rows_by_label
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema


# Suppress more cells than necessary, so that the reasons for a suppression cannot be guessed.
#
# If no cell is suppressed without need, a row without a value cannot have one that k rows show together with
# everything else that it shows: it would be equal to them. Two steps make this reasoning wrong. Each group with
# suppressed cells gets company: at least as many rows that need no suppression and show the same otherwise, if there
# are so many. And some groups lose one more column, whether they have suppressed cells or not. All groups that this
# leaves may be released: they keep at least k rows, and their diversity.


def suppress_more(
    codes: NDArray[np.int64],
    hidden: NDArray[np.bool_],
    rules: GroupRules,
    extra: float,
    generator: np.random.Generator,
    sensitive: Sequence[SensitiveColumn] = (),
) -> NDArray[np.bool_]:
    """Return which cells are suppressed, of those that had to be (``hidden``) and of more.

    ``codes`` are the cells, shape (rows, columns), as whole numbers from 0; ``extra`` is the probability that one more
    column of a group is suppressed. ``sensitive`` are the columns whose diversity the rules demand.
    """
    suppressed = hidden.copy()

    def may_stand(rows: NDArray[np.int64]) -> bool:
        diverse = all(len(np.unique(one.codes[rows])) >= one.rule.l for one in sensitive)
        return len(rows) >= rules.k and diverse

    _give_company(codes, suppressed, rules.k, may_stand, generator)
    _suppress_columns(codes, suppressed, rules.k, may_stand, extra, generator)
    return suppressed


def _groups(
    codes: NDArray[np.int64], hidden: NDArray[np.bool_], generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return the rows of each group of rows that look alike, in random order."""
    cells = pa.table({str(place): np.where(hidden[:, place], -1, codes[:, place]) for place in range(codes.shape[1])})
    labels = group_labels(Table.from_arrow(cells), tuple(cells.column_names))
    order = generator.permutation(len(labels))
    return [order[rows] for rows in rows_by_label(labels[order])]


def _give_company(
    codes: NDArray[np.int64],
    hidden: NDArray[np.bool_],
    k: int,
    may_stand: Callable[[NDArray[np.int64]], bool],
    generator: np.random.Generator,
) -> None:
    """Let as many rows that show more join each group with suppressed cells; those that are left are none or enough."""
    groups = _groups(codes, hidden, generator)
    for group, donors in _donors(codes, hidden, [rows[0] for rows in groups]):
        rows, missing = groups[group], len(groups[group])
        for donor in generator.permutation(donors) if missing >= k else ():
            given = groups[donor]
            few = len(given) if len(given) < 2 * k else min(missing, len(given) - k)
            few = few if may_stand(given[few:]) else len(given)
            groups[donor], rows, missing = given[few:], np.append(rows, given[:few]), missing - few
            hidden[given[:few]] = hidden[groups[group][0]]
            if missing <= 0:
                break
        groups[group] = rows


def _donors(
    codes: NDArray[np.int64], hidden: NDArray[np.bool_], first: list[np.int64]
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each group with suppressed cells, and the groups that show the same and more.

    ``first`` is a row of each group.
    """
    shown, cells = ~hidden[first], codes[first]
    for pattern in np.unique(shown[~shown.all(axis=1)], axis=0):
        takers = np.flatnonzero((shown == pattern).all(axis=1))
        givers = np.flatnonzero((shown >= pattern).all(axis=1) & (shown != pattern).any(axis=1))
        both = np.concatenate([takers, givers])
        labels = np.unique(cells[both][:, pattern], axis=0, return_inverse=True)[1].ravel()
        mine, theirs = labels[: len(takers)], labels[len(takers) :]
        order = np.argsort(theirs, kind="stable")
        starts, ends = (np.searchsorted(theirs[order], mine, side=side) for side in ("left", "right"))
        for group, start, end in zip(takers, starts, ends, strict=True):
            if end > start:
                yield int(group), givers[order[start:end]]


def _suppress_columns(
    codes: NDArray[np.int64],
    hidden: NDArray[np.bool_],
    k: int,
    may_stand: Callable[[NDArray[np.int64]], bool],
    extra: float,
    generator: np.random.Generator,
) -> None:
    """Suppress one more column in some groups, for all of their rows or for at least k of them.

    At least k rows, or none, stay as they were, so that both parts are groups that may be released.
    """
    for rows in _groups(codes, hidden, generator):
        shown = np.flatnonzero(~hidden[rows[0]])
        if generator.random() < extra and len(shown):
            few = len(rows) if len(rows) < 2 * k else int(generator.integers(k, len(rows) - k + 1))
            few = few if may_stand(rows[:few]) and may_stand(rows[few:]) else len(rows)
            hidden[rows[:few], generator.choice(shown)] = True


# A table that is released in blocks is cut so that few rows lose their company: rows that are equal but for one cell.


def _places(rows: Table, quasi: Sequence[str]) -> NDArray[np.float64]:
    """Return a number of each cell that is the same for equal cells; their order means nothing."""
    return np.column_stack([(column_hashes(rows, name) >> np.uint64(11)).astype(np.float64) for name in quasi])


def _grow_routes(survey: Survey, importance: Mapping[str, float], rules: GroupRules) -> Routes:
    """Cut a sample into blocks, in which values of important columns with few values stay together.

    Cells of such columns are suppressed least, so that rows which differ in them are seldom in one group.
    """
    sample, share = survey.sample.table, survey.sample.share
    most, least = max(survey.block_rows or survey.rows, 4 * rules.k) * share, least_sampled(rules.k, share)
    places, weights = _places(sample, list(importance)), np.array(list(importance.values()))
    sensitive = rules.columns_of(sample)

    def can_stand(rows: NDArray[np.int64]) -> bool:
        return len(rows) >= least and all(len(np.unique(one.codes[rows])) >= one.rule.l for one in sensitive)

    def cut(rows: NDArray[np.int64]) -> tuple[int, float] | None:
        counted = [np.unique(places[rows, axis], return_counts=True) for axis in range(len(weights))]
        for axis in np.argsort([len(values) / weight for (values, _), weight in zip(counted, weights, strict=True)]):
            values, counts = counted[axis]
            below = np.cumsum(counts)[:-1]
            if len(below):
                threshold = values[np.argmin(np.abs(below - len(rows) / 2.0))]
                is_below = places[rows, axis] <= threshold
                if can_stand(rows[is_below]) and can_stand(rows[~is_below]):
                    return int(axis), float(threshold)
        return None

    return grow_routes(places, most, cut, can_stand)


Kind = Literal["minimal", "random"]
KINDS: tuple[Kind, ...] = ("minimal", "random")


@dataclass(frozen=True, kw_only=True)
class Suppress(Method):
    """Leave single cells of quasi-identifiers empty until every row is equal to at least k − 1 others.

    A suppressed cell is a value of its own, like a missing one: it does not match every value, so the release is
    k-anonymous for whoever counts it. Cells of important columns are kept longer. kind="minimal" suppresses as few
    cells as the search finds; whoever knows this can rule out values that would not have been suppressed.
    kind="random" also suppresses cells of rows that did not need it: at least as many as of those that did, where there
    are so many, so that nothing follows from a suppression. This costs about twice as many cells.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"sex": ["f"] * 6 + ["m"] * 6, "city": ["Ulm"] * 5 + ["Rom"] + ["Oslo"] * 6}
    >>> release = sf.Suppress(k=3).release(people, schema={"sex": "quasi", "city": "quasi"})
    >>> release.table.arrow.column("city").null_count + release.table.arrow.column("sex").null_count
    3
    """

    name: ClassVar[str] = "suppress"
    theory: ClassVar[str] = "suppression"
    one_row_per_person: ClassVar[bool] = True
    block_effect: ClassVar[str] = (
        "rows are cut into blocks by columns with few values, and cells of each block are suppressed as in memory"
    )
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "suppression": "how cells were chosen",
        "importance": "of each column",
    }

    k: int = group_size_option(
        "Smallest number of rows that must be equal in the quasi-identifiers; a suppressed cell is a value."
    )
    kind: Kind = reported_option(
        Choice(KINDS),
        'Whether as few cells as possible are suppressed ("minimal"), or also some that need not be ("random").',
        default="minimal",
    )
    l: int | None = diversity_option()
    importance: Mapping[str, float] | None = importance_option("Relative cost of suppressing a cell of each column.")
    extra: float = reported_option(
        Share(),
        'With kind="random", the probability that one more column of a group is suppressed.',
        default=0.2,
        unit="groups",
    )
    search: float = search_option()

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> SuppressPlan:
        """Make the plan; the cells are chosen when it is run."""
        require_rows(survey.rows, self.k)
        quasi = schema.names(Role.QUASI)
        rules, importance = make_rules(survey, schema, k=self.k, l=self.l), importance_of(self.importance, quasi)
        return SuppressPlan(
            names=tuple(column.name for column in schema.columns),
            quasi=quasi,
            domains={column.name: column.domain for column in schema.columns if column.domain is not None},
            importance=importance,
            rules=rules,
            routes=one_block() if is_whole(survey) else _grow_routes(survey, importance, rules),
            method=self,
            randomness=randomness,
        )


@dataclass(frozen=True, repr=False)
class SuppressPlan(Plan):
    """Choose the cells of all rows, and leave them empty."""

    names: tuple[str, ...]
    quasi: tuple[str, ...]
    domains: Mapping[str, tuple[float, float]]
    importance: Mapping[str, float]
    rules: GroupRules
    routes: Routes
    method: Suppress
    randomness: Randomness

    @property
    def blocks(self) -> int:
        return self.routes.blocks

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the block of each row. Rows of two blocks may be equal in the end, which only adds to their groups."""
        return self.routes.of(_places(rows, self.quasi), keys)

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        return (
            *self.rules.claims(self.quasi),
            ValidCells(domains=self.domains),
            RowsAccountedFor(),
            ColumnsAllowed(names=self.names),
        )

    @property
    def notes(self) -> Mapping[str, Any]:
        return {"suppression": self.method.kind, "importance": dict(self.importance)}

    def transform(self, block: Table, number: int) -> Outcome:
        hidden = self._choose_cells(block, number) if self.quasi else np.zeros((block.rows, 0), dtype=bool)
        columns = {}
        for name in self.names:
            column = block.arrow.column(name)
            if name in self.quasi:
                mask = pa.array(hidden[:, self.quasi.index(name)])
                nothing = pa.scalar(None, column.type)
                column = pa.chunked_array([pa.compute.if_else(mask, nothing, column.combine_chunks())])
            columns[name] = column
        released = Table(pa.table(columns), {name: block.kinds[name] for name in self.names})
        return Outcome(released, np.arange(block.rows))

    def _choose_cells(self, block: Table, number: int) -> NDArray[np.bool_]:
        """Mark the cells that are suppressed; shape (rows, quasi-identifiers)."""
        from sfumato.methods.recodings.local_groups import local_groups

        coded = [block.coded(name) for name in self.quasi]
        weights = [self.importance[name] for name in self.quasi]
        values = [np.arange(column.size, dtype=np.int32) for column in coded]
        grouped = [
            Groupings(name, column.codes, (own, np.zeros_like(own)), weight=weight)
            for name, column, own, weight in zip(self.quasi, coded, values, weights, strict=True)
        ]
        costs = [[np.zeros(len(own)), np.full(len(own), weight)] for own, weight in zip(values, weights, strict=True)]
        sensitive, people = self.rules.sensitive_of(block), self.rules.people_of(block)
        generator, seconds = self.randomness.stream(f"suppress {number}"), self.method.search / self.blocks
        hidden = local_groups(grouped, costs, self.rules, sensitive, people, generator, seconds) > 0
        if self.method.kind == "minimal":
            return hidden
        codes = np.column_stack([column.codes for column in coded]).astype(np.int64)
        return suppress_more(codes, hidden, self.rules, self.method.extra, generator, self.rules.columns_of(block))
