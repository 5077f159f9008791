"""The share of people that a set of columns singles out: counted in the table, and bounded for a population.

Counted: F1, the share of rows whose combination of values is unique in the table. Bounded: among n people whose values
are drawn from D combinations, the expected share of unique people is at most D/(e·n) for D ≤ n and e^(−n/D) for D ≥ n,
for any distribution of the combinations (LT Theorems 1 and 2; the minus sign is missing in print). D is the product of
the columns' domain sizes (LT Definition 3). For dependent columns D is too large, but the bound still holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import OptionError, TableError
from sfumato.params import require_int, require_probability
from sfumato.risk.anonymity_budget import population_ends, require_population
from sfumato.risk.knowledge import Precision, coarsen, known_sizes, say_knowledge
from sfumato.schema.columns import Column
from sfumato.schema.schema import Schema
from sfumato.schema.suggested_hierarchies import tree_for
from sfumato.sources.frames import as_table
from sfumato.table.groups import first_rows, group_labels, group_sizes, refine
from sfumato.table.kinds import Kind
from sfumato.table.table import Table, require_known

By = Literal["rows", "population"]
SchemaLike = Schema | Mapping[str, Any] | str | Path | None  # what Method.release accepts as a schema

CONFIDENCE = 0.99  # of the reported sampling error


@dataclass(frozen=True, kw_only=True)
class Uniqueness:
    """How far one set of columns identifies people. A row is unique if no other row has its combination of values.

    Attributes
    ----------
    columns : tuple of str
        The columns, in the order given.
    rows : int
        Rows of the table.
    unique_rows : int
        Number of unique rows (S of LT Figure 3).
    unique_fraction : float
        ``unique_rows / rows``, from 0 to 1 (F1).
    distinct : int
        Number of different combinations in the table.
    domain : int
        Number of possible combinations: the product of the domain sizes (D).
    population : int
        Number of people that the bound refers to (n): the given population, or the rows of the table.
    bound : float
        Largest expected share of unique people in the population, from 0 to 1 (F2). It holds for every distribution
        over ``domain`` combinations.
    anonymity : float
        Average number of people per combination, n/D, at least 1.
    expected_uniform : float
        Expected share of unique people if all combinations are equally likely: (1 − 1/D)^(n−1).
    expected_poisson : float
        Its Poisson limit, e^(−n/D).
    expected_observed : float
        Expected share of unique people if combinations are as frequent in the population as in the table:
        Σ p(1−p)^(n−1).
    error : float
        Half-width of the 99 % confidence interval of ``unique_fraction``; 0 if every row was counted.
    knowledge : str
        Which columns the intruder knows less precisely than the table has them, and how; empty if none.
    count_error : float
        Share by which the number of people may be wrong, and of rows that may have wrong values.
    """

    columns: tuple[str, ...]
    rows: int
    unique_rows: int
    unique_fraction: float
    distinct: int
    domain: int
    population: int
    bound: float
    anonymity: float
    expected_uniform: float
    expected_poisson: float
    expected_observed: float
    error: float = 0.0
    knowledge: str = ""
    count_error: float = 0.0

    @property
    def bound_interval(self) -> tuple[float, float]:
        """The bound if there are more and if there are fewer people than were counted, by ``count_error``."""
        fewest, most = population_ends(self.population, self.count_error, at_least=self.rows)
        return unique_bound(self.domain, most), unique_bound(self.domain, fewest)

    @property
    def unique_interval(self) -> tuple[float, float]:
        """The share of unique rows if a share of the rows has wrong values.

        A row that leaves its group may leave one other alone, and may join one that was alone: each wrong row changes
        the number of unique rows by at most 2.
        """
        wrong = 2.0 * self.count_error + self.error
        return max(0.0, self.unique_fraction - wrong), min(1.0, self.unique_fraction + wrong)

    def largest_share(self, probability: float = 0.99) -> float:
        """Return the share of unique people in the population that is not exceeded with this probability.

        The bound is that of an expectation. If one of n people has other values, the number of unique people changes by
        at most 2, so that it is n·√(2 ln(1/δ)/n) above its expectation with a probability of at most δ (McDiarmid,
        1989), for every distribution of the combinations.
        """
        require_probability(probability, name="probability")
        fewest, _ = population_ends(self.population, self.count_error, at_least=self.rows)
        return min(1.0, self.bound_interval[1] + math.sqrt(-2.0 * math.log1p(-probability) / max(1, fewest)))

    def share(self, by: By) -> float:
        """Return the share that is compared with α: ``unique_fraction`` (by rows) or ``bound`` (by population).

        If counts may be wrong, it is the largest share that is possible by population.
        """
        return self.unique_fraction if by == "rows" else self.bound_interval[1]

    def identifies(self, alpha: float, by: By = "rows") -> bool:
        """Return whether the columns are an α-quasi-identifier (LT Definition 2) or, by population, may be one."""
        return self.share(by) >= alpha

    def reason(self, alpha: float, by: By = "rows") -> str:
        """Return the verdict for α as one sentence."""
        verdict = self._verdict(self.identifies(alpha, by), by)
        if by == "rows":
            about = "about " if self.error else ""
            figure = (
                f"{about}{self.unique_rows:,} of {self.rows:,} rows ({self.unique_fraction:.1%}) have a combination "
                f"of values that no other row has"
            )
        else:
            figure = (
                f"there are {self.domain:,} possible combinations for {self.population:,} people, so at most "
                f"{self.share(by):.1%} of the people are expected to be unique"
            )
            figure += f", as the counts may be wrong by {self.count_error:.1%}" if self.count_error else ""
        to_whom = f" to an intruder who knows {self.knowledge}" if self.knowledge else ""
        return f"{', '.join(self.columns)} {verdict} people at α = {alpha:g}{to_whom}: {figure}."

    def _verdict(self, identifies: bool, by: By) -> str:
        if by == "population":
            return "may identify" if identifies else "cannot be expected to identify"
        if len(self.columns) > 1:
            return "together identify" if identifies else "together do not identify"
        return "identifies" if identifies else "does not identify"


def uniqueness(
    table: Any,
    columns: Sequence[str],
    population: float | None = None,
    *,
    domain_sizes: Mapping[str, int] | None = None,
    schema: SchemaLike = None,
    knows: Mapping[str, Precision] | None = None,
    count_error: float = 0.0,
) -> Uniqueness:
    """Compute the uniqueness of a table in memory; see :func:`sfumato.uniqueness`."""
    table = as_table(table)
    columns = require_columns(table.names, table.rows, columns)
    known = coarsen(table, knows)
    sizes = group_sizes(known, columns)
    domain_sizes = known_sizes(known, knows) | dict(domain_sizes or {})
    return describe(
        columns=columns,
        rows=table.rows,
        sizes=sizes,
        asked=sizes,
        domain=math.prod(domains(table, columns, domain_sizes, schema).values()),
        population=population_of(table.rows, population),
        knowledge=say_knowledge(knows, columns),
        count_error=count_error,
    )


def describe(
    *,
    columns: tuple[str, ...],
    rows: int,
    sizes: NDArray[np.int64],
    asked: NDArray[np.int64],
    domain: int,
    population: int,
    knowledge: str = "",
    count_error: float = 0.0,
) -> Uniqueness:
    """Make the record of a set of columns from the sizes of its groups and the number of sampled rows in each group."""
    population_ends(population, count_error, at_least=1)  # raises if it is no share
    total = int(asked.sum())
    alone = int(asked[sizes == 1].sum())
    return Uniqueness(
        columns=columns,
        rows=rows,
        unique_rows=round(alone / total * rows),
        unique_fraction=alone / total,
        distinct=round(float((asked / sizes).sum()) / total * rows),
        domain=domain,
        population=population,
        bound=unique_bound(domain, population),
        anonymity=max(1.0, population / domain),
        expected_uniform=stay_alone(1 / domain, population),  # integers of any length can be divided
        expected_poisson=math.exp(-population / domain),
        expected_observed=_expected_alone(sizes, asked, rows, population),
        error=sampling_error(total) if total < rows else 0.0,
        knowledge=knowledge,
        count_error=count_error,
    )


def sampling_error(asked: int) -> float:
    """Return the half-width of the 99 % interval of a share estimated from ``asked`` random rows (Hoeffding)."""
    return math.sqrt(math.log(2.0 / (1.0 - CONFIDENCE)) / (2.0 * asked))


def _expected_alone(sizes: NDArray[np.int64], asked: NDArray[np.int64], rows: int, population: int) -> float:
    """Return Σ p(1−p)^(n−1) over the table's groups, which is the mean of (1−p)^(n−1) over its rows."""
    counts = np.bincount(sizes, weights=asked)
    different_sizes = np.flatnonzero(counts)  # there are few sizes and many groups
    alone = [stay_alone(size / rows, population) for size in different_sizes]
    return float(np.average(alone, weights=counts[different_sizes]))


def stay_alone(p: float, population: int) -> float:
    """Return (1−p)^(n−1), the probability that none of the n − 1 other people has a value of probability p."""
    return math.exp((population - 1) * math.log1p(-p)) if p < 1.0 else float(population == 1)


def unique_bound(domain: float, population: float) -> float:
    """Return the largest expected share of unique people over all distributions on ``domain`` values (LT Figure 1)."""
    return domain / population / math.e if domain <= population else math.exp(-population / domain)


def domain_for(alpha: float, population: float) -> float:
    """Return the smallest D whose bound reaches α: n/ln(1/α) for α ≥ 1/e (LT Theorem 3), else α·e·n."""
    return population / math.log(1.0 / alpha) if alpha >= 1.0 / math.e else alpha * math.e * population


def require_columns(known: Collection[str], rows: int, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names as a tuple; raise unless each is a known column, none is repeated, and there are rows."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or len(set(names)) < len(names):
        raise OptionError("columns must name at least one column, each once.", found=f"{len(names)} names")
    require_known(names, known)
    if rows == 0:
        raise TableError("The table must have rows, because uniqueness is a share of rows.", found="0 rows")
    return names


def population_of(rows: int, population: float | None) -> int:
    """Return the given population, which must include the people of the table, or by default the number of rows."""
    if population is None:
        return rows
    people = require_population(population)
    if people < rows:
        raise OptionError(
            "The population must include the people of the table.",
            found=f"population {people:,}, {rows:,} rows",
            fix="a population of at least the number of rows, or None to use the table itself",
        )
    return people


def domains(
    table: Table,
    columns: Sequence[str],
    given: Mapping[str, int] | None,
    schema: SchemaLike,
    counted: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Return the domain size of each column: as given, else as the schema declares it, else counted in the table.

    ``counted`` are the numbers of values of columns that are known already.
    """
    sizes_in_table = counted or {}
    is_complete = isinstance(schema, Schema) and all(name in schema for name in columns)
    known = schema if schema is None or is_complete else Schema.for_table(table, schema)
    return domain_sizes_of(
        columns,
        given,
        known if isinstance(known, Schema) else None,
        table.kinds,
        values=lambda name: table.coded(name).values,
        counted=lambda name: sizes_in_table.get(name) or table.coded(name).size,
    )


def domain_sizes_of(
    columns: Sequence[str],
    given: Mapping[str, int] | None,
    schema: Schema | None,
    kinds: Mapping[str, Kind],
    *,
    values: Callable[[str], pa.Array],
    counted: Callable[[str], int],
) -> dict[str, int]:
    """Return domain sizes as :func:`domains`; ``values`` and ``counted`` are asked where needed."""
    sizes = {}
    for name in columns:
        size = (given or {}).get(name)
        if size is None and schema is not None:
            size = _declared_size(schema[name], kinds[name], values)
        sizes[name] = require_int(counted(name) if size is None else size, name=f"domain size of {name!r}", at_least=1)
    return sizes


def _declared_size(column: Column, kind: Kind, values: Callable[[str], pa.Array]) -> int | None:
    """Return the number of ordered categories, leaves of a tree, or integers in a range that the schema declares."""
    if column.order:
        return len(column.order)
    tree = tree_for(column, values(column.name)) if column.tree else None
    if tree is not None:
        return tree.size
    if column.domain is not None and (column.kind or kind) is Kind.WHOLE:
        low, high = column.domain
        return int(high - low) + 1
    return None


# Frequencies of rows if a missing value may be any value, as sdcMicro counts them.
#
# Two rows match if they agree in every column in which both have a value. Matching is not transitive, so there are no
# groups: each row has a frequency of its own. A table that is k-anonymous in this sense need not be so if a missing
# value is a value of its own.


def matching_totals(
    table: Table, names: Sequence[str], weights: Sequence[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """Return, for each row and each array of weights, the sum of the weights of the rows that match it.

    Rows that lack values in the same columns are compared with those that lack values in the same other columns, on the
    columns in which both have values: the work grows with the square of the number of such patterns.
    """
    labels = group_labels(table, names)
    different = table.select(names).take(first_rows(labels))
    totals = [np.bincount(labels, weights=one) for one in weights]
    coded = [different.coded(name) for name in names]
    missing = np.column_stack([one.values.is_null().to_numpy(zero_copy_only=False)[one.codes] for one in coded])
    patterns, pattern = np.unique(missing, axis=0, return_inverse=True)
    members = [np.flatnonzero(pattern.ravel() == place) for place in range(len(patterns))]
    matched = [np.zeros(different.rows) for _ in weights]
    for one, ours in zip(patterns, members, strict=True):
        for other, theirs in zip(patterns, members, strict=True):
            both = np.concatenate([ours, theirs])
            alike = np.zeros(len(both), dtype=np.int64)
            for place in np.flatnonzero(~one & ~other):
                alike = refine(alike, coded[place].codes[both], coded[place].size)
            mine, yours = alike[: len(ours)], alike[len(ours) :]
            for sums, total in zip(matched, totals, strict=True):
                counted = np.bincount(yours, weights=total[theirs], minlength=int(alike.max()) + 1)
                sums[ours] += counted[mine]
    return [sums[labels] for sums in matched]
