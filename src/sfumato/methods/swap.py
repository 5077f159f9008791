"""Data swapping: cells are exchanged between rows, column by column (TL §2.3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.base import Method
from sfumato.methods.components.parts import ComponentsPlan, alter_parts
from sfumato.methods.matrix import matrix_setup
from sfumato.methods.options import SpectralBasis, basis_option, reported_option
from sfumato.methods.permutation_plan import Permutation, PermutationPlan, sort_rows
from sfumato.params import Checked, Choice, Number, OrNone, Probability, Share, Whole, require_names
from sfumato.plan.claims.kept_statistics import CorrelationsKept
from sfumato.plan.questions import FactsOf, MomentsOf
from sfumato.schema.columns import Role
from sfumato.table.encoder import Encoder
from sfumato.table.groups import group_labels, rows_by_label
from sfumato.table.table import require_known

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.components.restore import Marginals
    from sfumato.plan.plan import Claim
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table

# Permutations of the rows of one column: within groups, between near ranks, and between subsets of equal ranks.

if TYPE_CHECKING:
    Rows = NDArray[np.int64]


def within_groups(groups: Rows, share: float, generator: np.random.Generator) -> Rows:
    """Return the row from which each row gets its cell: another row of the same group, if one takes part.

    A random ``share`` of the rows takes part. Those of a group are put in random order, and each gets the cell of the
    next one, so that none keeps its own.
    """
    source = np.arange(len(groups))
    taking = np.flatnonzero(generator.random(len(groups)) < share) if share < 1.0 else source.copy()
    if not taking.size:
        return source
    order = taking[sort_rows(groups[taking], generator)]
    label = groups[order]
    first = np.flatnonzero(np.diff(label, prepend=label[0] - 1))
    last = np.append(first[1:], len(order)) - 1
    following = np.roll(order, -1)
    following[last] = order[first]
    source[order] = following
    return source


def between_near_ranks(codes: NDArray[np.number], window: int, share: float, generator: np.random.Generator) -> Rows:
    """Return the row from which each row gets its cell: one whose rank is at most ``window`` away (Moore 1996).

    Of the pairs of ranks, a random ``share`` exchanges cells.
    """
    from sfumato.methods.swap_kernels import rank_partners

    source, rank = np.arange(len(codes)), np.arange(len(codes))
    order = sort_rows(codes, generator)
    partner = rank_partners(generator.random(len(codes)), window)
    taking = (generator.random(len(codes)) < share)[np.minimum(rank, partner)]
    source[order] = order[np.where(taking, partner, rank)]
    return source


def between_blocks(
    alone: NDArray[np.bool_], classes: Rows, places: Rows, share: float, generator: np.random.Generator
) -> Rows:
    """Return the row from which each row gets its place: a random ``share`` of the rows that are ``alone`` takes part.

    Each of them exchanges places with a random row of the same class that has another place, and that has not exchanged
    its own. If none of PARTNERS random rows is one, it keeps its place.
    """
    source = np.arange(len(classes))
    order = generator.permutation(len(classes))
    members = {label: order[rows] for label, rows in enumerate(rows_by_label(classes[order]))}
    free = np.ones(len(classes), dtype=bool)
    for row in order[alone[order] & (generator.random(len(order)) < share)]:
        if not free[row]:
            continue
        others = members[int(classes[row])]
        others = others[generator.integers(others.size, size=PARTNERS)]
        others = others[free[others] & (places[others] != places[row])]
        if others.size:
            other = others[0]
            source[[row, other]] = other, row
            free[[row, other]] = False
    return source


def random_subsets(rows: int, subsets: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return a random subset of each row, all of the same size; up to ``subsets`` − 1 rows are in none (−1)."""
    size = rows // subsets
    labels = np.full(rows, -1)
    labels[generator.permutation(rows)[: size * subsets]] = np.repeat(np.arange(subsets), size)
    return labels


def between_subsets(codes: NDArray[np.number], subsets: Rows, generator: np.random.Generator) -> Rows:
    """Return the row from which each row gets its cell: the one of the same rank in the next subset.

    (Carlson and Salabasis 2002.) A row that is in no subset exchanges its cell with the row of the next higher rank.
    """
    source = np.arange(len(codes))
    order = sort_rows(codes, generator)
    ranked = [order[subsets[order] == label] for label in range(int(subsets.max()) + 1)]
    for label, rows in enumerate(ranked):
        source[rows] = ranked[(label + 1) % len(ranked)]
    places = np.flatnonzero(subsets[order] < 0)
    for place in places:
        one, other = order[place], order[place + 1 if place + 1 < len(order) else place - 1]
        source[one], source[other] = source[other], source[one]
    return source


Kind = Literal["rank", "plain", "within-classes", "within-clusters", "between-subsets", "targeted"]
KINDS: tuple[Kind, ...] = ("rank", "plain", "within-classes", "within-clusters", "between-subsets", "targeted")
PARTNERS = 50  # rows that are tried as the partner of a row that is alone
HALVINGS = 20  # of the window, until correlations are kept


@dataclass(frozen=True, kw_only=True)
class Swap(Method):
    """Exchange the cells of each column between rows: every column keeps its values, each as often.

    "plain" exchanges cells between any rows, which keeps no relation between columns. "within-classes" exchanges them
    between rows that are equal in the columns ``classes``, which stay as they are: relations of these with one other
    column are kept. "rank" exchanges cells whose ranks differ by at most ``window`` (Moore). "within-clusters"
    exchanges them within clusters of similar rows. "between-subsets" divides the rows at random and gives every row the
    value of the same rank in another subset (Carlson and Salabasis). "targeted" exchanges only the columns ``columns``,
    all of a row together, and only of rows that are alone with their quasi-identifiers, each with a row that is equal
    in the columns ``classes``: the counts of ``columns`` together with ``classes`` are kept. (United States censuses of
    1990 and 2000, where ``columns`` is the block in which a household lives.)

    With ``correlations``, no correlation of two numeric columns changes by more than that: the window of "rank" is
    halved until it is so, and the release is held to it.

    With a ``basis`` the scores of each component are exchanged in this way, and projected back: relations between
    columns are kept better, and released numbers are no longer those of the column. "within-classes" has no such form.

    Missing cells move like other cells; in ranks they come last, and categories are in the order of their values. Each
    column is swapped independently. Released cells are cells of the original, so that extreme values stay visible, and
    with several columns the swaps that keep relations hardly hide anybody: the method promises no privacy.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42], "income": [10, 12, 11, 30, 31, 35]}
    >>> swapped = sf.Swap(kind="rank", window=0.4).release(people, schema={"age": "quasi", "income": "quasi"}, seed=1)
    >>> sorted(swapped.table.numbers("age").tolist())
    [20.0, 21.0, 22.0, 40.0, 41.0, 42.0]
    """

    name: ClassVar[str] = "swap"
    theory: ClassVar[str] = "swapping"
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "swapped columns": "columns whose cells were exchanged between rows",
        "columns with correlations kept": "columns whose correlations are nearly those of the original",
        "ranks in a window": "largest number of ranks between two cells that are exchanged",
        "basis": "basis whose components were exchanged; values of columns are then not kept",
        "logarithms": "columns that were log-transformed",
        "matrix columns": "number of columns of the matrix",
        "mixtures": "columns that were treated as a number and values that many rows share",
    }

    kind: Kind = reported_option(
        Choice(KINDS),
        'Between which rows cells are exchanged: near ranks ("rank"), any ("plain"), equal ones in the columns '
        '``classes`` ("within-classes"), similar ones ("within-clusters"), or those of the same rank in another random '
        'subset ("between-subsets"); or only rows that are alone with their quasi-identifiers ("targeted").',
        default="rank",
    )
    window: float = reported_option(
        Probability(),
        'Largest difference of ranks, for kind="rank". It is a share: 0.1 means 10 % of the rows.',
        default=0.1,
        unit="share of the rows",
        strengths=(0.02, 0.05, 0.1, 0.2, 0.4),
    )
    share: float = reported_option(
        Share(),
        'Share of the rows, chosen at random for each column, that take part; above 0. Not for kind="between-subsets".',
        default=1.0,
    )
    classes: tuple[str, ...] = reported_option(
        Checked("list of column names", require_names),
        'Columns that stay as they are, for kind="within-classes", or in which rows that exchange are equal, for '
        'kind="targeted".',
        default=(),
    )
    columns: tuple[str, ...] = reported_option(
        Checked("list of column names", require_names),
        'Columns whose cells are exchanged, all of a row together, for kind="targeted"; the others stay as they are.',
        default=(),
    )
    correlations: float | None = reported_option(
        OrNone(Number(above=0.0)),
        'Largest change of the correlation of two numeric columns without missing cells, for kind="rank". It is '
        "promised. None: no limit.",
        default=None,
    )
    size: int = reported_option(
        Whole(at_least=2),
        'Smallest number of rows in a cluster, for kind="within-clusters"; clusters have fewer than twice as many.',
        default=10,
        unit="rows",
    )
    subsets: int = reported_option(
        Whole(at_least=2), 'Number of random subsets, for kind="between-subsets".', default=2, unit="subsets"
    )

    basis: SpectralBasis = basis_option(
        "The scores of each component are exchanged, with all columns encoded as one matrix, and projected back. In "
        "clusters they are exchanged within each of these, and a window is a share of its rows."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "classes", tuple(self.classes))
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.basis != "columns" and (self.kind in ("within-classes", "targeted") or self.correlations is not None):
            raise OptionError(
                "Columns that stay as they are, and a limit of correlations, need the basis of the columns: a "
                "component mixes all columns.",
                found=f"kind={self.kind!r}, basis={self.basis!r}",
                fix='basis="columns", or another kind',
            )
        self._require_options_of_kind()

    def _require_options_of_kind(self) -> None:
        if self.share == 0.0:
            raise OptionError("share must be above 0.", found="0, which exchanges nothing")
        if self.correlations is not None and self.kind != "rank":
            raise OptionError('correlations must be given with kind="rank" only.', found=f"kind={self.kind!r}")
        if bool(self.columns) != (self.kind == "targeted") or set(self.columns) & set(self.classes):
            raise OptionError(
                'columns must be given with kind="targeted", and only then; none of them may be one of the classes.',
                found=f"kind={self.kind!r}, {len(self.columns)} columns",
                fix='for example kind="targeted", columns=("zip",), classes=("household_size",)',
            )
        if self.kind != "targeted" and bool(self.classes) != (self.kind == "within-classes"):
            raise OptionError(
                'classes must be given with kind="within-classes", and only then.',
                found=f"kind={self.kind!r} {'with' if self.classes else 'without'} classes",
                fix='for example kind="within-classes", classes=("sex",)',
            )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> SwapPlan | ComponentSwapPlan:
        """Make the plan; the exchanges are drawn when a block is transformed."""
        staying, quasi = self.classes, tuple(schema.names(Role.QUASI))
        if self.kind == "targeted":
            names = tuple(column.name for column in schema.columns)
            require_known((*self.columns, *self.classes), names)
            staying = tuple(name for name in names if name not in self.columns)
            quasi = quasi or names
        setup = Permutation.of(survey, schema, randomness, staying=staying)
        least = {"rank": 1.0 / self.window, "between-subsets": float(self.subsets)}.get(self.kind, 0.0)
        if setup.rows / setup.blocks < least:
            raise CannotRelease(
                "The window must hold at least one rank."
                if self.kind == "rank"
                else "Every subset must have at least one row.",
                found=f"{setup.rows:,} rows in {setup.blocks:,} blocks",
                fix="a larger window" if self.kind == "rank" else "fewer subsets",
            )
        if self.basis != "columns":
            return ComponentSwapPlan(matrix_setup(survey, schema, randomness, atoms=True), self, setup.rows)
        if self.kind == "targeted":
            return TargetedSwapPlan(setup, self, quasi)
        if self.correlations is not None:
            return CorrelationSwapPlan(setup, self, *_scales(survey, setup.moving))
        return SwapPlan(setup, self)

    def source(self, codes: NDArray[np.number], groups: NDArray[np.int64], generator: np.random.Generator) -> Rows:
        """Return the row from which each row gets its cell in a column, or its score in a component."""
        if self.kind == "rank":
            return between_near_ranks(codes, max(1, int(self.window * len(codes))), self.share, generator)
        if self.kind == "between-subsets":
            return between_subsets(codes, groups, generator)
        return within_groups(groups, self.share, generator)

    def subsets_of(self, rows: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the random subset of each row; all rows are together if the kind has no subsets."""
        if self.kind == "between-subsets":
            return random_subsets(rows, min(self.subsets, rows), generator)
        return np.zeros(rows, dtype=np.int64)

    def ranks_in_window(self, rows: int) -> dict[str, int]:
        """Return the note about the window, if there is one."""
        return {"ranks in a window": max(1, int(self.window * rows))} if self.kind == "rank" else {}


@dataclass(frozen=True, repr=False)
class SwapPlan(PermutationPlan):
    """Exchange cells within each block; ranks and classes are those among the rows of the block."""

    method: Swap

    def sources(self, block: Table, number: int) -> dict[str, NDArray[np.int64]]:
        return self.draw(block, self.setup.randomness.stream(f"swap {number}"))

    def draw(self, block: Table, generator: np.random.Generator) -> dict[str, NDArray[np.int64]]:
        """Return the row from which each row gets its cell, for each column that moves."""
        groups = self._groups(block, generator)
        return {name: self.method.source(block.coded(name).codes, groups, generator) for name in self.setup.moving}

    def _groups(self, block: Table, generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the class, cluster or subset of each row."""
        if self.method.kind == "within-classes":
            return group_labels(block, self.method.classes)
        if self.method.kind == "within-clusters":
            return clusters(Encoder.fit(block).encode(block), self.method.size)
        return self.method.subsets_of(block.rows, generator)

    @property
    def notes(self) -> Mapping[str, Any]:
        swapped = {"swapped columns": list(self.setup.moving)}
        return {**swapped, **self.method.ranks_in_window(self.setup.rows), "basis": "columns"}


@dataclass(frozen=True, repr=False)
class TargetedSwapPlan(SwapPlan):
    """Exchange some columns of rows that are alone, in a block, with their quasi-identifiers."""

    quasi: tuple[str, ...]

    def draw(self, block: Table, generator: np.random.Generator) -> dict[str, NDArray[np.int64]]:
        people, moving = group_labels(block, self.quasi), self.setup.moving
        classes = group_labels(block, self.method.classes) if self.method.classes else np.zeros(block.rows, np.int64)
        alone = np.bincount(people)[people] == 1
        source = between_blocks(alone, classes, group_labels(block, moving), self.method.share, generator)
        return dict.fromkeys(moving, source)


@dataclass(frozen=True, repr=False)
class CorrelationSwapPlan(SwapPlan):
    """Exchange cells of near ranks, and nearer ones until correlations are kept.

    Columns keep their values in each block, so that the change of a correlation is the change of the sum of products,
    divided by the rows of the table and by two standard deviations. If each block stays within its share, so do all.
    """

    limited: tuple[str, ...]  # numeric columns without missing cells
    spreads: tuple[float, ...]  # their standard deviations in the table

    def draw(self, block: Table, generator: np.random.Generator) -> dict[str, NDArray[np.int64]]:
        before = block.matrix(self.limited)
        before = (before - before.mean(axis=0)) / np.array(self.spreads)
        limit, method, change = self.method.correlations or 0.0, self.method, np.inf
        for _ in range(HALVINGS):
            sources = SwapPlan(self.setup, method).draw(block, generator)
            after = np.column_stack([before[sources[name], place] for place, name in enumerate(self.limited)])
            change = float(np.abs(after.T @ after - before.T @ before).max(initial=0.0)) / block.rows
            if change <= limit:
                return sources
            if method.window * block.rows < 2.0:
                break
            method = replace(method, window=method.window / 2.0)
        raise CannotRelease(
            f"Correlations must change by at most {limit:g}.",
            found=f"{change:.2g} with a window of one rank",
            fix="a larger limit",
        )

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        return (*super().claims, CorrelationsKept(columns=self.limited, change=self.method.correlations or 0.0))

    @property
    def notes(self) -> Mapping[str, Any]:
        return {**super().notes, "columns with correlations kept": list(self.limited)}


def _scales(survey: Survey, moving: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the numeric columns without missing cells that vary, and their standard deviations."""
    kinds = survey.sample.table.kinds
    numbers = [name for name in moving if kinds[name].is_numeric]
    facts = survey.ask([FactsOf(name) for name in numbers])
    whole = tuple(name for name in numbers if not facts[FactsOf(name)].missing)
    if len(whole) < 2:
        raise CannotRelease(
            "A correlation needs two numeric columns without missing cells.",
            found=f"{len(whole)}",
            fix="correlations=None",
        )
    spreads = survey.ask([MomentsOf(whole)])[MomentsOf(whole)].sd
    return whole, tuple(float(one) if one > 0.0 else 1.0 for one in spreads)


@dataclass(frozen=True, repr=False)
class ComponentSwapPlan(ComponentsPlan):
    """Exchange the scores of components within each block, each part of which has a basis of its own."""

    method: Swap
    rows: int  # of the table

    @property
    def marginals(self) -> Marginals:
        return "free"

    def swap_components(
        self, matrix: NDArray[np.float64], filled: NDArray[np.float64], number: int
    ) -> NDArray[np.float64]:
        assert self.method.basis != "columns"
        return alter_parts(filled, self.method.basis, self.setup.randomness.stream(f"swap {number}"), self._exchange)

    def _exchange(self, scores: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Return scores that were exchanged between rows, each component by itself."""
        if self.method.kind == "within-clusters":
            groups = clusters(scores, self.method.size)
        else:
            groups = self.method.subsets_of(len(scores), generator)
        return np.column_stack([score[self.method.source(score, groups, generator)] for score in scores.T])

    @property
    def notes(self) -> Mapping[str, Any]:
        # not "swapped columns", whose values are kept; in a cluster the window is that of its rows
        window = {} if self.method.basis == "clusters" else self.method.ranks_in_window(self.rows)
        return {**super().notes, **window, "basis": self.method.basis}


def clusters(matrix: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Return the cluster of each row: cells of ``size`` to 2·size − 1 rows, cut along principal components.

    A cell is halved along the component with the largest range.
    """
    from sfumato.kernels.eigenvectors import principal_axes
    from sfumato.kernels.neighbours import median_cells

    centred = matrix - matrix.mean(axis=0)
    return median_cells(centred @ principal_axes(centred).vectors, size)
