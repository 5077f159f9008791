"""All minimal quasi-identifiers: the smallest sets of columns that single out a share α of people.

Adding a column only splits groups, so the share of unique people can only grow, and every superset of a
quasi-identifier is a quasi-identifier. It is enough to find the minimal ones: sets are visited after their subsets, and
supersets of a quasi-identifier are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sfumato.disclosure.column_sets import Node, number_of_sets, walk
from sfumato.disclosure.uniqueness import (
    By,
    SchemaLike,
    Uniqueness,
    describe,
    domain_for,
    domains,
    population_of,
    require_columns,
)
from sfumato.errors import OptionError
from sfumato.params import require_choice, require_int, require_probability
from sfumato.randomness import Randomness
from sfumato.table.frames import as_table
from sfumato.table.table import Coded

if TYPE_CHECKING:
    from numpy.typing import NDArray

Progress = Callable[[int, int], None]  # called with the number of sets visited and the largest possible number


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
        Number of sets that were examined; every other set contains a quasi-identifier that was found.
    """

    found: tuple[Uniqueness, ...]
    alpha: float
    by: By
    columns: tuple[str, ...]
    max_size: int
    visited: int

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


def quasi_identifiers(
    table: Any,
    population: float | None = None,
    alpha: float = 0.2,
    max_size: int | None = None,
    by: By = "rows",
    *,
    columns: Sequence[str] | None = None,
    sample: int | None = None,
    domain_sizes: Mapping[str, int] | None = None,
    schema: SchemaLike = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> QuasiIdentifiers:
    """Find all minimal sets of columns that identify at least a share ``alpha`` of people.

    Parameters
    ----------
    table : Table, path or data frame
        Anything that :func:`sfumato.read` accepts or returns, or a pandas, polars or Arrow table.
    population : float, optional
        Number of people among whom an intruder searches, at least the number of rows. Default: the rows of the table.
    alpha : float, default 0.2
        Smallest share of unique people at which a set counts as a quasi-identifier, between 0 and 1.
    max_size : int, optional
        Largest number of columns in a set, at least 1. Default: all columns.
    by : {"rows", "population"}, default "rows"
        "rows" counts the unique rows of the table. "population" uses the upper bound for ``population`` people
        (LT Theorems 1 and 2), so it finds the sets that *may* identify people.
    columns : sequence of str, optional
        Columns to search. Default: all columns of the table.
    sample : int, optional
        Number of random rows to examine instead of all rows; each is compared with the whole table. The shares are then
        estimates with a reported ``error``. Default: all rows.
    domain_sizes : mapping of str to int, optional
        Number of possible values of each named column, at least 1. For other columns: the number that the schema
        declares, or else the number of different values in the table.
    schema : Schema, mapping or path, optional
        Schema whose declared domains, orders and trees give domain sizes. Default: none.
    seed : int, optional
        Seed that makes ``sample`` repeatable. Default: random numbers from the operating system.
    progress : callable, optional
        Called after each set with the number of sets visited and the largest possible number. Default: none.

    Returns
    -------
    QuasiIdentifiers
        The minimal sets, smallest first, each as a :class:`Uniqueness`.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {
    ...     "age": [34, 34, 51, 51, 62, 62],
    ...     "sex": ["f", "m", "f", "f", "m", "m"],
    ...     "height": [160, 180, 170, 160, 170, 180],
    ... }
    >>> found = sf.quasi_identifiers(people, alpha=0.5)
    >>> [one.columns for one in found]
    [('age', 'height')]
    >>> found.reasons[0]
    'age, height together identify people at α = 0.5: 6 of 6 rows (100.0%) have a combination of values that no...'
    """
    by = cast(By, require_choice(by, name="by", choices=("rows", "population")))
    alpha = require_probability(alpha, name="alpha")
    question = _Question.of(
        table, columns, max_size, population=population, sizes=domain_sizes, schema=schema, sample=_Sample(sample, seed)
    )
    least_alone, least_domain = alpha * question.asked, domain_for(alpha, question.population)
    minimal, found, report = _MinimalSets(len(question.order)), [], _Reporter(question.sets, progress)

    def visit(node: Node) -> bool:
        report.one_more()
        identifies = node.alone >= least_alone if by == "rows" else question.domain(node) >= least_domain
        if identifies:
            minimal.add(node.members)
            found.append(question.describe(node))
        return not identifies

    question.walk(skip=minimal.covers, visit=visit)
    found.sort(key=lambda one: (len(one.columns), -one.share(by), one.columns))
    return QuasiIdentifiers(
        found=tuple(found),
        alpha=alpha,
        by=by,
        columns=question.names,
        max_size=question.max_size,
        visited=report.visited,
    )


def uniqueness_lattice(
    table: Any,
    population: float | None = None,
    max_size: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    domain_sizes: Mapping[str, int] | None = None,
    schema: SchemaLike = None,
    progress: Progress | None = None,
) -> tuple[Uniqueness, ...]:
    """Compute the exact uniqueness of every set of up to ``max_size`` columns, smallest sets first."""
    question = _Question.of(
        table, columns, max_size, population=population, sizes=domain_sizes, schema=schema, sample=_Sample()
    )
    found, report = [], _Reporter(question.sets, progress)

    def visit(node: Node) -> bool:
        report.one_more()
        found.append(question.describe(node))
        return True

    question.walk(skip=lambda members: False, visit=visit)
    position = {name: number for number, name in enumerate(question.names)}
    return tuple(sorted(found, key=lambda one: (len(one.columns), [position[name] for name in one.columns])))


@dataclass(frozen=True)
class _Sample:
    """How many random rows are examined; all rows if None."""

    size: int | None = None
    seed: int | None = None

    def mark(self, rows: int) -> NDArray[np.bool_]:
        if self.size is None:
            return np.ones(rows, dtype=bool)
        size = require_int(self.size, name="sample", at_least=1)
        if size > rows:
            raise OptionError("sample must be at most the number of rows.", found=f"sample {size:,}, {rows:,} rows")
        wanted = np.zeros(rows, dtype=bool)
        wanted[Randomness(self.seed).stream("sampled rows").choice(rows, size, replace=False, shuffle=False)] = True
        return wanted


@dataclass(frozen=True, repr=False)
class _Question:
    """The input of a walk over the sets of columns of one table."""

    names: tuple[str, ...]
    order: tuple[str, ...]  # by increasing number of values; the walk numbers columns in this order
    coded: Mapping[str, Coded]
    domain_sizes: Mapping[str, int]
    population: int
    max_size: int
    wanted: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        source: Any,
        columns: Sequence[str] | None,
        max_size: int | None,
        *,
        population: float | None,
        sizes: Mapping[str, int] | None,
        schema: SchemaLike,
        sample: _Sample,
    ) -> _Question:
        table = as_table(source)
        names = require_columns(table, table.names if columns is None else columns)
        most = len(names) if max_size is None else min(require_int(max_size, name="max_size", at_least=1), len(names))
        coded = {name: table.coded(name) for name in names}
        return cls(
            names=names,
            order=tuple(sorted(names, key=lambda name: coded[name].size)),
            coded=coded,
            domain_sizes=domains(table, names, sizes, schema),
            population=population_of(table, population),
            max_size=most,
            wanted=sample.mark(table.rows),
        )

    @property
    def asked(self) -> int:
        return int(self.wanted.sum())

    @property
    def sets(self) -> int:
        return number_of_sets(len(self.names), self.max_size)

    def walk(self, *, skip: Callable[[tuple[int, ...]], bool], visit: Callable[[Node], bool]) -> None:
        columns = [self.coded[name] for name in self.order]
        walk(columns, wanted=self.wanted, max_size=self.max_size, skip=skip, visit=visit)

    def domain(self, node: Node) -> int:
        return math.prod(self.domain_sizes[self.order[member]] for member in node.members)

    def describe(self, node: Node) -> Uniqueness:
        members = {self.order[member] for member in node.members}
        return describe(
            columns=tuple(name for name in self.names if name in members),
            rows=len(self.wanted),
            sizes=node.groups.sizes,
            asked=node.groups.asked,
            domain=self.domain(node),
            population=self.population,
        )


class _Reporter:
    """Counts the visited sets and reports the number to a callback."""

    def __init__(self, sets: int, progress: Progress | None) -> None:
        self.visited, self._sets, self._progress = 0, sets, progress

    def one_more(self) -> None:
        self.visited += 1
        if self._progress is not None:
            self._progress(self.visited, self._sets)


class _MinimalSets:
    """Sets of which none contains another, stored as bit masks."""

    def __init__(self, columns: int) -> None:
        self._with: list[list[int]] = [[] for _ in range(columns)]  # the sets that contain each column

    def add(self, members: tuple[int, ...]) -> None:
        for member in members:
            self._with[member].append(_bits(members))

    def covers(self, members: tuple[int, ...]) -> bool:
        """Return whether the set contains a stored set.

        Only stored sets with its newest member are checked: with any other, its parent would not have been visited.
        """
        bits = _bits(members)
        return any(bits & one == one for one in self._with[members[-1]])


def _bits(members: tuple[int, ...]) -> int:
    return sum(1 << member for member in members)
