"""All minimal quasi-identifiers: the smallest sets of columns that single out a share α of people.

Adding a column only splits groups, so the share of unique people can only grow, and every superset of a
quasi-identifier is a quasi-identifier. It is enough to find the minimal ones: sets are visited after their subsets, and
supersets of a quasi-identifier are skipped. A search can be limited in time; it then says what it has covered.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import OptionError
from sfumato.params import require_choice, require_int, require_number, require_probability
from sfumato.randomness import Randomness
from sfumato.risk.knowledge import Precision, coarsen, known_sizes, say_knowledge
from sfumato.risk.set_search import (
    ColumnSet,
    Progress,
    SetSearch,
    compile_kernels,
    duration,
    short_number,
)
from sfumato.risk.uniqueness import (
    By,
    SchemaLike,
    Uniqueness,
    describe,
    domain_for,
    domains,
    population_of,
    require_columns,
)
from sfumato.sources.frames import as_table
from sfumato.table.coding import Coded
from sfumato.table.table import Table

CODING_SHARE = 0.7  # of the time limit; columns that cannot be read in it are left out


@dataclass(frozen=True, kw_only=True)
class QuasiIdentifiers:
    """The minimal α-quasi-identifiers of a table: the smallest sets first, and among those the most identifying first.

    Iterate over it, or index it, to get one :class:`Uniqueness` per set of columns.

    Attributes
    ----------
    found : tuple of Uniqueness
        The minimal quasi-identifiers.
    alpha : float
        The share of people from which on a set counts as a quasi-identifier.
    by : {"rows", "population"}
        What the share was counted in.
    columns : tuple of str
        The columns that were searched.
    max_size : int
        Largest number of columns in a set.
    visited : int
        Number of sets that were examined; every other covered set contains a quasi-identifier that was found.
    covered_size : int
        All sets of up to this many of ``columns`` are covered: examined, or they contain a quasi-identifier that was
        found.
    sets_left : int
        Number of sets of up to ``max_size`` columns that are not covered because the time was up; 0 if all are.
    left_out : tuple of str
        Columns that were not searched because the time was up.
    seconds : float
        Time that the search took.
    seconds_left : float
        Estimated time for the sets that are left, at the same pace and if none can be skipped.
    """

    found: tuple[Uniqueness, ...]
    alpha: float
    by: By
    columns: tuple[str, ...]
    max_size: int
    visited: int
    covered_size: int
    sets_left: int = 0
    left_out: tuple[str, ...] = ()
    seconds: float = 0.0
    seconds_left: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every set of up to ``max_size`` columns is covered, so that no quasi-identifier was missed."""
        return not self.sets_left and not self.left_out

    @property
    def coverage(self) -> str:
        """What was searched, as one sentence."""
        if self.complete:
            return f"All sets of up to {self.max_size} of {len(self.columns)} columns were searched."
        sizes = f"all sets of up to {self.covered_size}" if self.covered_size else f"{self.visited:,} sets"
        said = f"The search ended after {self.seconds:.0f} s: {sizes} of {len(self.columns):,} columns were searched"
        if self.sets_left:
            said += f"; {short_number(self.sets_left)} other sets are left ({duration(self.seconds_left)} at this pace)"
        if self.left_out:
            said += f"; {len(self.left_out):,} columns were left out"
        return f"{said}."

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Uniqueness]:
        return iter(self.found)

    def __getitem__(self, position: int) -> Uniqueness:
        return self.found[position]

    @property
    def reasons(self) -> tuple[str, ...]:
        """One sentence per quasi-identifier."""
        return tuple(one.reason(self.alpha, self.by) for one in self.found)

    @property
    def identifying_columns(self) -> tuple[str, ...]:
        """Columns that are part of at least one quasi-identifier, in the order of the table."""
        named = {name for one in self.found for name in one.columns}
        return tuple(name for name in self.columns if name in named)


@dataclass(frozen=True, kw_only=True)
class SetSearchOptions:
    """What is searched, and for how long, wherever the rows are; :func:`sfumato.quasi_identifiers` explains each."""

    population: float | None = None
    alpha: float = 0.2
    max_size: int | None = None
    by: By = "rows"
    columns: Sequence[str] | None = None
    sample: int | None = None
    domain_sizes: Mapping[str, int] | None = None
    knows: Mapping[str, Precision] | None = None
    seed: int | None = None
    seconds: float | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        require_choice(self.by, name="by", choices=("rows", "population"))
        require_probability(self.alpha, name="alpha")
        if self.max_size is not None:
            require_int(self.max_size, name="max_size", at_least=1)
        if self.seconds is not None:
            require_number(self.seconds, name="seconds", above=0.0)

    @property
    def limit(self) -> float:
        """The time limit in seconds, infinite without one."""
        return math.inf if self.seconds is None else self.seconds


def count_quasi_identifiers(table: Any, schema: SchemaLike, options: SetSearchOptions) -> QuasiIdentifiers:
    """Find the quasi-identifiers of a table in memory, by counting its rows."""
    source, alpha, by = as_table(table), options.alpha, options.by
    if options.seconds is not None:
        compile_kernels()
    start = time.perf_counter()
    question = _Question.of(source, schema, options, deadline=start + CODING_SHARE * options.limit)
    least_alone, least_domain = alpha * int(question.wanted.sum()), domain_for(alpha, question.population)
    identifying: list[Uniqueness] = []

    def judge(one: ColumnSet) -> bool:
        identifies = one.alone >= least_alone if by == "rows" else question.domain(one) >= least_domain
        if identifies:
            identifying.append(question.describe(one))
        return identifies

    searched = SetSearch(
        columns=question.coded,
        wanted=question.wanted,
        max_size=question.max_size,
        judge=judge,
        progress=options.progress,
        deadline=start + options.limit,
    ).run()
    identifying.sort(key=lambda one: (len(one.columns), -one.share(by), one.columns))
    return QuasiIdentifiers(
        found=tuple(identifying),
        alpha=alpha,
        by=by,
        columns=question.names,
        max_size=question.max_size,
        visited=searched.visited,
        covered_size=searched.covered_size,
        sets_left=searched.sets_left,
        left_out=question.left_out,
        seconds=time.perf_counter() - start,
        seconds_left=searched.seconds_left,
    )


@dataclass(frozen=True, repr=False)
class _Question:
    """The input of a walk over the sets of columns of one table."""

    names: tuple[str, ...]
    order: tuple[str, ...]  # by increasing number of values; the walk numbers columns in this order
    coded: tuple[Coded, ...]  # in this order
    domain_sizes: Mapping[str, int]
    population: int
    max_size: int
    wanted: NDArray[np.bool_]
    left_out: tuple[str, ...] = ()  # columns for which there was no time
    knows: Mapping[str, Precision] | None = None

    @classmethod
    def of(
        cls, table: Table, schema: SchemaLike, options: SetSearchOptions, *, deadline: float = math.inf
    ) -> _Question:
        asked = require_columns(table.names, table.rows, table.names if options.columns is None else options.columns)
        coded: dict[str, Coded] = {}
        known = coarsen(table, options.knows)
        for name in asked:
            if coded and time.perf_counter() > deadline:
                break
            coded[name] = known.coded(name)
        names, sizes = tuple(coded), {name: column.size for name, column in coded.items()}
        order = tuple(sorted(names, key=sizes.__getitem__))
        return cls(
            names=names,
            order=order,
            coded=tuple(coded[name] for name in order),
            domain_sizes=domains(
                table, names, known_sizes(known, options.knows) | dict(options.domain_sizes or {}), schema, sizes
            ),
            population=population_of(table.rows, options.population),
            max_size=min(len(asked) if options.max_size is None else options.max_size, len(names)),
            wanted=_sample_rows(table.rows, options),
            left_out=asked[len(names) :],
            knows=options.knows,
        )

    def domain(self, one: ColumnSet) -> int:
        return math.prod(self.domain_sizes[self.order[member]] for member in one.members)

    def describe(self, one: ColumnSet) -> Uniqueness:
        members = {self.order[member] for member in one.members}
        return describe(
            columns=tuple(name for name in self.names if name in members),
            rows=len(self.wanted),
            sizes=one.groups.sizes,
            asked=one.groups.asked,
            domain=self.domain(one),
            population=self.population,
            knowledge=say_knowledge(self.knows, members),
        )


def _sample_rows(rows: int, options: SetSearchOptions) -> NDArray[np.bool_]:
    """Return which rows are examined: a random sample of the size that the options say, or all."""
    if options.sample is None:
        return np.ones(rows, dtype=bool)
    size = require_int(options.sample, name="sample", at_least=1)
    if size > rows:
        raise OptionError("sample must be at most the number of rows.", found=f"sample {size:,}, {rows:,} rows")
    wanted = np.zeros(rows, dtype=bool)
    wanted[Randomness(options.seed).stream("sampled rows").choice(rows, size, replace=False, shuffle=False)] = True
    return wanted
