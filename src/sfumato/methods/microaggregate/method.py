"""The method Microaggregate: its options, its plan, and the space in which rows are compared (TL §2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from sfumato.errors import OptionError
from sfumato.methods.base import Method, require_rows
from sfumato.methods.microaggregate.grouping import (
    COLUMNWISE,
    GROUPINGS,
    RowGrouping,
    SearchedGrouping,
    column_groups,
    draw_cells,
    join_until_diverse,
    ranges,
    representatives,
    row_groups,
)
from sfumato.methods.options import (
    SpectralBasis,
    basis_option,
    budget_option,
    diversity_option,
    group_size_option,
    reported_option,
)
from sfumato.methods.partition import Routes, grow_routes, least_sampled, one_block
from sfumato.methods.recodings.group_rules import GroupRules, make_rules
from sfumato.methods.search_budget import SearchBudget
from sfumato.params import Choice
from sfumato.plan.claims.containment import Containment
from sfumato.plan.claims.each_column import EachColumnAnonymous
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor
from sfumato.plan.plan import Claim, Outcome, Plan, Trace
from sfumato.plan.questions import DistinctIn, FactsOf
from sfumato.schema.columns import Role
from sfumato.table.encoder import Encoder
from sfumato.table.intervals import BOX, interval_names, require_free_names
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema

# The space in which rows are compared: the encoded quasi-identifiers, and routes of rows to blocks of neighbours.

CATEGORIES = 1000  # a column with more values than this holds names rather than categories


@dataclass(frozen=True, repr=False)
class Space:
    """An encoder, the weight of each column of its matrix, and the routes."""

    encoder: Encoder
    weights: NDArray[np.float64]
    routes: Routes

    @classmethod
    def fit(cls, survey: Survey, names: Sequence[str], rules: GroupRules) -> Space:
        """Fit the space to a survey; blocks have enough sampled rows for k, and the diversity that the rules demand."""
        sample = survey.sample.table.select(names)
        numbers = [name for name in names if sample.kinds[name].is_numeric]
        others = [name for name in names if name not in numbers]
        distinct = {name: DistinctIn(name, at_most=CATEGORIES) for name in others}
        answers = survey.ask([*(FactsOf(name) for name in numbers), *distinct.values()])
        encoder = Encoder.fit(
            sample,
            logs="never",
            categories={name: answers[one].require_complete(name).values for name, one in distinct.items()},
            facts={name: answers[FactsOf(name)] for name in numbers},
        )
        matrix = encoder.encode(sample)
        weights = _weights(encoder, matrix)
        if survey.block_rows is None or survey.block_rows >= survey.rows:
            return cls(encoder, weights, one_block())
        places, share = matrix * weights, survey.sample.share
        most, least = max(survey.block_rows, 4 * rules.k) * share, least_sampled(rules.k, share)
        sensitive = rules.columns_of(survey.sample.table)

        def cut(rows: NDArray[np.int64]) -> tuple[int, float] | None:
            return _cut(places[rows], least, [(one.codes[rows], one.rule.l) for one in sensitive])

        def can_stand(rows: NDArray[np.int64]) -> bool:
            return len(rows) >= least and all(len(np.unique(one.codes[rows])) >= one.rule.l for one in sensitive)

        return cls(encoder, weights, grow_routes(places, most, cut, can_stand))

    def matrix(self, rows: Table) -> NDArray[np.float64]:
        """Return the coordinates of each row."""
        matrix = self.encoder.encode(rows.select(self.encoder.names))
        matrix *= self.weights
        return matrix

    def blocks_of(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the block of each row."""
        return np.zeros(rows.rows, np.int64) if self.routes.blocks == 1 else self.routes.of(self.matrix(rows), keys)


def _weights(encoder: Encoder, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a weight for each column of the matrix, by which the indicators of a category have variance 1 in total.

    Numbers have variance 1 already. The indicator of a missing number keeps its values, −1 and +1.
    """
    weights = np.ones(encoder.width)
    for category in encoder.categories:
        variance = float(matrix[:, category.columns].var(axis=0).sum())
        weights[category.columns] = 1.0 / np.sqrt(variance) if variance > 0.0 else 1.0
    return weights


def _cut(
    places: NDArray[np.float64], least: int, sensitive: Sequence[tuple[NDArray[np.int32], int]]
) -> tuple[int, float] | None:
    """Return the cut near the median of the axis with the largest variance that leaves ``least`` rows on both sides.

    Both sides also keep the number of different codes that is given with each sensitive column.
    """
    variances = places.var(axis=0)
    for axis in np.argsort(-variances, kind="stable"):
        if variances[axis] <= 0.0:
            return None
        ordered = np.sort(places[:, axis])
        ends = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1
        ends = ends[(ends >= least) & (len(ordered) - ends >= least)]
        if len(ends):
            middle = ends[np.argmin(np.abs(ends - len(ordered) // 2))]
            below = places[:, axis] <= ordered[middle - 1]
            if all(len(np.unique(codes[side])) >= l for codes, l in sensitive for side in (below, ~below)):
                return int(axis), float(ordered[middle - 1])
    return None


Values = Literal["mean", "median", "draw", "range"]
VALUES: tuple[Values, ...] = ("mean", "median", "draw", "range")
KINDS = (*GROUPINGS, "search", *COLUMNWISE)
SECONDS = 10.0  # time limit of kind="search" if none is given
GROUPS_PER_BLOCK = 1 << 32  # so that the numbers of groups are unique over all blocks


@dataclass(frozen=True, kw_only=True)
class Microaggregate(Method):
    """Form groups of at least k similar rows, and release the quasi-identifiers of each row as those of its group.

    Numbers are standardised, and categories are encoded by indicators, so that all columns count equally. A group is
    released with its mean, and with its most frequent category; a value that is missing in more than half of its rows
    is released as missing. All other columns are released as they are. With one group per row the release is
    k-anonymous, and groups with fewer than ``l`` values of a sensitive column are joined with the nearest ones that
    have another value. With ``kind="each-column"`` or ``"optimal-1d"`` each column is k-anonymous only by itself, and
    ``values="draw"`` promises nothing: both need l = 1 if there is a sensitive column.

    With ``basis="svd"`` or ``"ica"`` the distance of two rows is Mahalanobis's: that in scores without correlation, so
    that columns that tell the same count once. What is promised is counted on the released rows as before.

    The registry name of the method is "mdav", for every kind.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42], "income": [10.0, 12.0, 11.0, 30.0, 31.0, 35.0]}
    >>> release = sf.Microaggregate(k=3).release(people, schema={"age": "quasi", "income": "quasi"})
    >>> sorted(release.table.numbers("age").tolist())
    [21.0, 21.0, 21.0, 41.0, 41.0, 41.0]
    >>> release.manifest.guarantee
    '3-anonymous in age, income'
    """

    name: ClassVar[str] = "mdav"
    theory: ClassVar[str] = "microaggregation"
    one_row_per_person: ClassVar[bool] = True
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "aggregated": "columns that are released with the values of groups",
        "groups": "what a group is made of: whole rows, or the values of one column",
        "basis": "basis in which rows were compared",
        "means kept": "columns of numbers without missing cells, whose groups have their means",
    }

    k: int = group_size_option("Smallest number of rows in a group.", at_least=2)
    l: int | None = diversity_option()
    kind: str = reported_option(
        Choice(KINDS),
        'How groups are formed. "mdav": k rows around the outermost rows, in quadratic time; "vmdav": the same with k '
        'to 2k − 1 rows; "tree": like "mdav" with neighbours from the nearest cells of a tree, in almost linear time; '
        '"search": improved by a search; "single": along the one column that loses least; "projection": along the '
        'first principal component; "fuzzy": by fuzzy c-means; "fuzzy-drawn": the same, but each row joins a cluster '
        'that is drawn by its memberships; "spanning-tree": parts of the shortest tree that connects all rows; '
        '"pairs": rows matched in pairs, then pairs in pairs; "ward": small groups are joined where that adds the '
        'least squared error. "each-column" (k neighbouring values) and "optimal-1d" (the least squared error) group '
        "each column by itself.",
        default="mdav",
    )
    values: Values = reported_option(
        Choice(VALUES),
        'What is released for a group: the "mean" or the "median" of numbers and the most frequent category; the '
        '"range" of numbers (two columns) and the set of categories; or "draw": the values of its rows, exchanged at '
        "random in each column.",
        default="mean",
    )
    search: SearchBudget | float | None = budget_option(
        "Time limit of a search that starts from the groups of this kind and exchanges rows between neighbouring "
        f'groups. None: {SECONDS:g} s for kind="search", otherwise no search.'
    )

    basis: SpectralBasis = basis_option(
        "Rows are compared by the scores of the components, each with variance 1, and groups are released with the "
        "values of their columns as before. In clusters no group crosses a cluster. Not for the kinds that group each "
        'column by itself, nor for "projection".'
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.basis != "columns" and (self.is_columnwise or self.kind == "projection"):
            raise OptionError(
                "A basis of components needs groups of whole rows by their distances.",
                found=f"basis={self.basis!r}, kind={self.kind!r}",
                fix='basis="columns", or another kind',
            )
        given = SECONDS if self.search is None and self.kind == "search" else self.search
        object.__setattr__(self, "search", None if given is None else SearchBudget.of(given))
        if self.is_columnwise and (self.search is not None or self.values == "range"):
            raise OptionError(
                "A search and ranges need groups of whole rows.",
                found=f"kind={self.kind!r}",
                fix="another kind; or the method optimal-groups, which releases ranges of each column",
            )

    @property
    def is_columnwise(self) -> bool:
        """Whether each column is grouped by itself."""
        return self.kind in COLUMNWISE

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> MicroaggregationPlan:
        """Fit the space in which rows are compared; groups are formed when a block is transformed."""
        require_rows(survey.rows, self.k)
        quasi = schema.names(Role.QUASI)
        rules = make_rules(survey, schema, k=self.k, l=self.l)
        if rules.sensitive and (self.is_columnwise or self.values == "draw"):
            raise OptionError(
                "Sensitive columns can be protected only in groups of whole rows that share their released values.",
                found=f"kind={self.kind!r}, values={self.values!r}, l = {rules.sensitive[0].l}",
                fix="another kind and values, or l=1 (--l 1), which does not protect sensitive columns",
            )
        plan = MicroaggregationPlan(
            options=self,
            rules=rules,
            space=Space.fit(survey, quasi, rules),
            passed=tuple(column.name for column in schema.columns if column.name not in quasi),
            randomness=randomness,
        )
        if self.values == "range":
            numbers = [number.name for number in plan.space.encoder.numbers]
            require_free_names(numbers, [column.name for column in schema.columns])
        return plan


@dataclass(frozen=True, repr=False)
class MicroaggregationPlan(Plan):
    """Group the rows of each block."""

    options: Microaggregate
    rules: GroupRules
    space: Space
    passed: tuple[str, ...]  # columns that are released as they are
    randomness: Randomness

    @property
    def blocks(self) -> int:
        return self.space.routes.blocks

    @property
    def bytes_per_row(self) -> int:
        return 24 * self.space.encoder.width

    @property
    def numbered(self) -> tuple[str, ...]:
        return (BOX,) if self._shows_ranges else ()

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self.space.blocks_of(rows, keys)

    @property
    def shown(self) -> tuple[str, ...]:
        """The released columns of the quasi-identifiers, equal in all rows of a group of whole rows."""
        if not self._shows_ranges:
            return self.space.encoder.names
        numbers = {number.name: number.missing is not None for number in self.space.encoder.numbers}
        parts = [
            interval_names(name, counts_missing=numbers[name]) if name in numbers else (name,)
            for name in self.space.encoder.names
        ]
        return (*(part for names in parts for part in names), BOX)

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        names = self.space.encoder.names
        contents = (Containment(columns=names),) if self._shows_ranges else ()
        rows = RowsAccountedFor(), ColumnsAllowed(names=(*self.shown, *self.passed))
        return (*self._privacy, *contents, *rows)

    @property
    def _privacy(self) -> tuple[Claim[Any], ...]:
        names = self.space.encoder.names
        if self.options.values == "draw":
            return ()
        if self.options.is_columnwise and len(names) > 1:
            return (EachColumnAnonymous(k=self.options.k, columns={name: (name,) for name in names}),)
        return self.rules.claims(self.shown)

    @property
    def notes(self) -> Mapping[str, object]:
        groups = "the values of one column" if self.options.is_columnwise else "whole rows"
        means = [one.name for one in self.space.encoder.numbers if one.missing is None and one.kind is not Kind.DATE]
        kept = means if self.options.values == "mean" else []
        names, basis = list(self.space.encoder.names), self.options.basis
        return {"aggregated": names, "groups": groups, "basis": basis, "means kept": kept}

    def transform(self, block: Table, number: int) -> Outcome:
        columns, kinds = {}, {}
        made, trace = self._make_columns(block, number)
        for name, column in made.items():
            columns[name], kinds[name] = column, self._kind(name, block)
        for name in self.passed:
            columns[name], kinds[name] = block.arrow.column(name), block.kinds[name]
        return Outcome(Table(pa.table(columns), kinds), np.arange(block.rows), trace)

    def _make_columns(self, block: Table, number: int) -> tuple[dict[str, pa.ChunkedArray | pa.Array], Trace]:
        """Return the released columns of the quasi-identifiers."""
        options, names, stream = self.options, self.space.encoder.names, self.randomness.stream
        if options.is_columnwise:
            people = self.rules.people_of(block)
            groups = {name: column_groups(block, name, options.k, options.kind, people) for name in names}
            trace = Trace()
        else:
            searched = self._group_rows(block, number)
            groups, trace = dict.fromkeys(names, searched.groups), searched.trace
        if options.values == "range":
            shared = groups[names[0]]
            made = ranges(block, shared, self.space.encoder)
            return made | {BOX: pa.array(number * GROUPS_PER_BLOCK + shared.labels)}, trace
        if options.values == "draw":
            return {
                name: draw_cells(block, name, groups[name], stream(f"draw {name} {number}")) for name in names
            }, trace
        is_median = options.values == "median"
        return {name: representatives(block, name, groups[name], median=is_median) for name in names}, trace

    def _group_rows(self, block: Table, number: int) -> SearchedGrouping:
        """Group whole rows, each part of the basis by itself; then groups that lack diversity are joined."""
        options, sensitive, matrix = self.options, self.rules.columns_of(block), self.space.matrix(block)
        budget = options.search.split(self.blocks) if isinstance(options.search, SearchBudget) else None
        generator = self.randomness.stream(f"groups {number}")
        if options.basis == "columns":
            return row_groups(matrix, options.k, options.kind, generator, sensitive=sensitive, budget=budget)
        from sfumato.methods.components.parts import parts_of

        parts = parts_of(matrix, options.basis, self.randomness.stream(f"basis {number}"), least=2 * options.k)
        labels, trace = np.zeros(block.rows, dtype=np.int64), Trace()
        share = None if budget is None else budget.split(len(parts))
        for part in parts:
            scores = part.basis.scores if part.basis.rank else np.zeros((len(part.rows), 1))  # of equal rows
            grouped = row_groups(scores, options.k, options.kind, generator, budget=share)
            labels[part.rows] = grouped.groups.labels + labels.max() + 1
            trace = Trace(searches=trace.searches + grouped.trace.searches)
        if sensitive:
            one = len(parts) == 1 and parts[0].basis.rank > 0
            labels = join_until_diverse(parts[0].basis.scores if one else matrix, labels, sensitive)
        return SearchedGrouping(RowGrouping(np.unique(labels, return_inverse=True)[1]), trace)

    def _kind(self, name: str, block: Table) -> Kind:
        """Return the kind of a released column: means of whole numbers have fractions."""
        if name not in block.kinds or self._shows_ranges:
            return self._kind_of_part(name, block)
        kind = block.kinds[name]
        return Kind.CONTINUOUS if kind is Kind.WHOLE and self.options.values != "draw" else kind

    def _kind_of_part(self, name: str, block: Table) -> Kind:
        """Return the kind of an end of a range, of a count, or of a set."""
        for original in self.space.encoder.numbers:
            if name in interval_names(original.name):
                return block.kinds[original.name]
        return Kind.NOMINAL if name in self.space.encoder.names else Kind.WHOLE

    @property
    def _shows_ranges(self) -> bool:
        return self.options.values == "range"
