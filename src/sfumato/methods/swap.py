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
from sfumato.methods.permutation_plan import Permutation, PermutationPlan
from sfumato.methods.swap_rows import (
    between_blocks,
    between_near_ranks,
    between_subsets,
    clusters,
    households_between_blocks,
    random_subsets,
    within_groups,
)
from sfumato.params import Checked, Choice, Number, OrNone, Probability, Share, Whole, require_name, require_names
from sfumato.plan.claims.kept_statistics import CorrelationsKept, ExcessSums, SubsetMeansKept
from sfumato.plan.questions import FactsOf, MomentsOf
from sfumato.schema.columns import Role
from sfumato.table.encoder import Encoder
from sfumato.table.groups import column_hashes, group_labels, mix_bits
from sfumato.table.table import require_known

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.components.restore import Marginals
    from sfumato.plan.plan import Claim
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table

Kind = Literal["rank", "plain", "within-classes", "within-clusters", "between-subsets", "targeted"]
KINDS: tuple[Kind, ...] = ("rank", "plain", "within-classes", "within-clusters", "between-subsets", "targeted")
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

    With ``correlations``, no correlation of two numeric columns changes by more than that, and with ``subset_means`` no
    mean of a numeric column over any part of the rows, however it is chosen, that has at least ``subset`` of them: the
    window of "rank" is halved until it is so, and the release is held to it. With ``household``, "targeted" exchanges
    whole households.

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
        "subset means kept": "columns whose means over any large subset are nearly those of the original",
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
    subset_means: float | None = reported_option(
        OrNone(Number(above=0.0)),
        "Largest change of the mean of a numeric column without missing cells over any subset of the rows, for "
        'kind="rank". It is promised. None: no limit.',
        default=None,
        unit="standard deviations of the column",
    )
    subset: float = reported_option(
        Probability(),
        "Share of the rows that a subset has at least, for subset_means. It is a share: 0.1 means 10 % of the rows.",
        default=0.1,
        unit="share of the rows",
    )
    household: str | None = reported_option(
        OrNone(Checked("name of a column", require_name)),
        'Column that is equal for people who live together: for kind="targeted" they are exchanged as a whole, with a '
        "household of as many people. None: every row is exchanged by itself.",
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
        if self.basis != "columns" and (self.kind in ("within-classes", "targeted") or self.is_limited):
            raise OptionError(
                "Columns that stay as they are, and a limit of correlations or means, need the basis of the columns: a "
                "component mixes all columns.",
                found=f"kind={self.kind!r}, basis={self.basis!r}",
                fix='basis="columns", or another kind',
            )
        self._require_options_of_kind()

    @property
    def is_limited(self) -> bool:
        """Whether the change of a statistic is limited."""
        return self.correlations is not None or self.subset_means is not None

    def _require_options_of_kind(self) -> None:
        if self.share == 0.0:
            raise OptionError("share must be above 0.", found="0, which exchanges nothing")
        if self.is_limited and self.kind != "rank":
            raise OptionError(
                'correlations and subset_means must be given with kind="rank" only.', found=f"kind={self.kind!r}"
            )
        if self.household is not None and (self.kind != "targeted" or self.household in self.columns + self.classes):
            raise OptionError(
                'household must be given with kind="targeted" only, and be none of its columns and classes.',
                found=f"kind={self.kind!r}",
            )
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
            require_known(() if self.household is None else (self.household,), survey.sample.table.names)
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
        if self.is_limited:
            least = 1 if self.correlations is None else 2
            return LimitedSwapPlan(setup, self, *_scales(survey, setup.moving, least))
        return SwapPlan(setup, self)

    def source(
        self, codes: NDArray[np.number], groups: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.int64]:
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
    """Exchange some columns of rows or households that are alone, in a block, with their quasi-identifiers."""

    quasi: tuple[str, ...]

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        home = self.method.household
        if home is None:
            return super().route(rows, keys)
        salt = self.setup.randomness.stream("blocks").integers(2**64, dtype=np.uint64)  # a household stays together
        return (mix_bits(column_hashes(rows, home) ^ salt) % np.uint64(self.blocks)).astype(np.int64)

    def read(self, block: Table) -> Table:
        home = self.method.household
        return block.select(tuple(dict.fromkeys((*self.setup.names, *(() if home is None else (home,))))))

    def sources(self, block: Table, number: int) -> dict[str, NDArray[np.int64]]:
        generator, moving, method = self.setup.randomness.stream(f"swap {number}"), self.setup.moving, self.method
        people, places = group_labels(block, self.quasi), group_labels(block, moving)
        classes = group_labels(block, method.classes) if method.classes else np.zeros(block.rows, np.int64)
        if method.household is not None:
            homes = group_labels(block, (method.household,))
            source = households_between_blocks(homes, people, classes, places, method.share, generator)
        else:
            alone = np.bincount(people)[people] == 1
            source = between_blocks(alone, classes, places, method.share, generator)
        return dict.fromkeys(moving, source)


@dataclass(frozen=True, repr=False)
class LimitedSwapPlan(SwapPlan):
    """Exchange cells of near ranks, and nearer ones until correlations and means of subsets are kept.

    Columns keep their values in each block, so that the change of a correlation is the change of the sum of products,
    divided by the rows of the table and by two standard deviations. If each block stays within its share, so do all.
    """

    limited: tuple[str, ...]  # numeric columns without missing cells
    spreads: tuple[float, ...]  # their standard deviations in the table

    def draw(self, block: Table, generator: np.random.Generator) -> dict[str, NDArray[np.int64]]:
        before = block.matrix(self.limited)
        before = (before - before.mean(axis=0)) / np.array(self.spreads)
        method, excess = self.method, ""
        for _ in range(HALVINGS):
            sources = SwapPlan(self.setup, method).draw(block, generator)
            after = np.column_stack([before[sources[name], place] for place, name in enumerate(self.limited)])
            excess = self._excess(before, after)
            if not excess:
                return sources
            if method.window * block.rows < 2.0:
                break
            method = replace(method, window=method.window / 2.0)
        raise CannotRelease(
            "Correlations and means of subsets must change by at most their limits.",
            found=f"{excess} with a window of one rank",
            fix="a larger limit",
        )

    def _excess(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> str:
        """Return what changes by more than its limit; empty if nothing does."""
        if self.method.correlations is not None:
            change = float(np.abs(after.T @ after - before.T @ before).max(initial=0.0)) / len(before)
            if change > self.method.correlations:
                return f"a correlation by {change:.2g}"
        if self.method.subset_means is not None:
            claim = self._subset_means
            # the bounds of blocks add up at the same level, so that they agree on one
            levels = claim.levels if self.blocks == 1 else claim.levels[[len(claim.levels) // 2]]
            change = ExcessSums.of(after - before, levels).bound(self.method.subset)
            if change > self.method.subset_means:
                return f"the mean of a subset by {change:.2g} standard deviations"
        return ""

    @property
    def _subset_means(self) -> SubsetMeansKept:
        return SubsetMeansKept(
            columns=self.limited,
            spreads=self.spreads,
            change=self.method.subset_means or 0.0,
            share=self.method.subset,
        )

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        limit = self.method.correlations
        correlations = () if limit is None else (CorrelationsKept(columns=self.limited, change=limit),)
        means = () if self.method.subset_means is None else (self._subset_means,)
        return (*super().claims, *correlations, *means)

    @property
    def notes(self) -> Mapping[str, Any]:
        kept = {
            "columns with correlations kept": self.method.correlations,
            "subset means kept": self.method.subset_means,
        }
        return {**super().notes, **{name: list(self.limited) for name, limit in kept.items() if limit is not None}}


def _scales(survey: Survey, moving: tuple[str, ...], least: int) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the numeric columns without missing cells that vary, and their standard deviations."""
    kinds = survey.sample.table.kinds
    numbers = [name for name in moving if kinds[name].is_numeric]
    facts = survey.ask([FactsOf(name) for name in numbers])
    whole = tuple(name for name in numbers if not facts[FactsOf(name)].missing)
    if len(whole) < least:
        raise CannotRelease(
            "A limit of correlations needs two numeric columns without missing cells, one of means needs one.",
            found=f"{len(whole)}",
            fix="correlations=None, subset_means=None",
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
