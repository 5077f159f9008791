"""How many people a set of columns singles out: counted in the table, and bounded for a whole population.

Counted: F1, the share of rows that are alone with their combination of values. Bounded: among n people whose values are
drawn from D combinations, the expected share of people who are alone is at most D/(e·n) for D ≤ n and e^(−n/D) for
D ≥ n, whatever the probabilities of the combinations (LT Theorems 1 and 2; the minus sign is lost in print). D is the
product of the columns' domain sizes (LT Definition 3): too large for columns that depend on each other, and the bound
stays a bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato.disclosure.anonymity_budget import require_population
from sfumato.errors import OptionError, TableError
from sfumato.params import require_int
from sfumato.schema.columns import Column
from sfumato.schema.schema import Schema
from sfumato.schema.trees import tree_for
from sfumato.table.frames import as_table
from sfumato.table.groups import group_sizes
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

By = Literal["rows", "population"]
SchemaLike = Schema | Mapping[str, Any] | str | Path | None  # as a method's release takes it

CONFIDENCE = 0.99  # of a stated sampling error


@dataclass(frozen=True, kw_only=True)
class Uniqueness:
    """What one set of columns reveals of who is who. Shares are from 0 to 1."""

    columns: tuple[str, ...]
    rows: int
    unique_rows: int  # S of LT Figure 3: rows that are alone with their combination
    unique_fraction: float  # F1: unique_rows / rows
    distinct: int  # combinations that stand in the table
    domain: int  # D: combinations that could stand there, the product of the domain sizes
    population: int  # n: people whom the bound speaks of; the rows themselves unless a population was given
    bound: float  # F2: no distribution over D combinations makes a larger share of n people expectedly alone
    anonymity: float  # n / D: people who share a combination on average, at least 1
    expected_uniform: float  # share expected alone if all D combinations are equally likely: (1 − 1/D)^(n−1)
    expected_poisson: float  # the same in Poisson's limit: e^(−n/D)
    expected_observed: float  # share expected alone if the table's own shares p hold in the population: Σ p(1−p)^(n−1)
    error: float = 0.0  # half-width of a 99 % interval of unique_fraction; 0 when every row was counted

    def share(self, by: By) -> float:
        """The share that is held against α: counted in the rows, or bounded for the population."""
        return self.unique_fraction if by == "rows" else self.bound

    def identifies(self, alpha: float, by: By = "rows") -> bool:
        """Whether the columns are an α-quasi-identifier (LT Definition 2); by population: whether they can be one."""
        return self.share(by) >= alpha

    def reason(self, alpha: float, by: By = "rows") -> str:
        """The verdict for α in one sentence."""
        verdict = self._verdict(self.identifies(alpha, by), by)
        if by == "rows":
            about = "about " if self.error else ""
            figure = (
                f"{about}{self.unique_rows:,} of {self.rows:,} rows ({self.unique_fraction:.1%}) are the only ones "
                f"with their combination"
            )
        else:
            figure = (
                f"{self.domain:,} combinations are possible for {self.population:,} people, so at most "
                f"{self.bound:.1%} of them are expected to be the only ones with theirs"
            )
        return f"{', '.join(self.columns)} {verdict} people at α = {alpha:g}: {figure}."

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
) -> Uniqueness:
    """Count and bound the uniqueness of a set of columns.

    ``population`` is the number of people an intruder may choose from (the rows themselves when None). The domain size
    of a column is the one given, else the one the schema declares, else the number of values in the table; a missing
    value is a value of its own.
    """
    table = as_table(table)
    columns = require_columns(table, columns)
    sizes = group_sizes(table, columns)
    return describe(
        columns=columns,
        rows=table.rows,
        sizes=sizes,
        asked=sizes,
        domain=math.prod(domains(table, columns, domain_sizes, schema).values()),
        population=population_of(table, population),
    )


def describe(
    *,
    columns: tuple[str, ...],
    rows: int,
    sizes: NDArray[np.int64],
    asked: NDArray[np.int64],
    domain: int,
    population: int,
) -> Uniqueness:
    """The record of a set of columns, from the sizes of groups and the number of rows in each that were asked about."""
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
        expected_uniform=stay_alone(1 / domain, population),  # whole numbers divide at any length
        expected_poisson=math.exp(-population / domain),
        expected_observed=_expected_alone(sizes, asked, rows, population),
        error=sampling_error(total) if total < rows else 0.0,
    )


def sampling_error(asked: int) -> float:
    """Half-width of the 99 % interval of a share that was found among ``asked`` random rows (Hoeffding)."""
    return math.sqrt(math.log(2.0 / (1.0 - CONFIDENCE)) / (2.0 * asked))


def _expected_alone(sizes: NDArray[np.int64], asked: NDArray[np.int64], rows: int, population: int) -> float:
    """Σ p(1−p)^(n−1) over the table's groups, that is the mean of (1−p)^(n−1) over its rows."""
    counts = np.bincount(sizes, weights=asked)
    kinds = np.flatnonzero(counts)  # few sizes, many groups
    alone = [stay_alone(size / rows, population) for size in kinds]
    return float(np.average(alone, weights=counts[kinds]))


def stay_alone(p: float, population: int) -> float:
    """(1−p)^(n−1): nobody else of n people takes a value of probability p."""
    return math.exp((population - 1) * math.log1p(-p)) if p < 1.0 else float(population == 1)


def unique_bound(domain: float, population: float) -> float:
    """Largest expected share of people alone, over all distributions on ``domain`` combinations (LT Figure 1)."""
    return domain / population / math.e if domain <= population else math.exp(-population / domain)


def domain_for(alpha: float, population: float) -> float:
    """Least D whose bound reaches α: n/ln(1/α) for α ≥ 1/e (LT Theorem 3), α·e·n below."""
    return population / math.log(1.0 / alpha) if alpha >= 1.0 / math.e else alpha * math.e * population


def require_columns(table: Table, columns: Sequence[str]) -> tuple[str, ...]:
    """Names that stand in a table with rows, at least one, each once."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or len(set(names)) < len(names):
        raise OptionError("columns must name at least one column, each once.", found=f"{len(names)} names")
    table.require(names)
    if table.rows == 0:
        raise TableError("Uniqueness is a share of rows, so the table must have some.", found="0 rows")
    return names


def population_of(table: Table, population: float | None) -> int:
    """The population given, which holds the people of the table; without one, those people themselves."""
    if population is None:
        return table.rows
    people = require_population(population)
    if people < table.rows:
        raise OptionError(
            "The population must hold the people of the table.",
            found=f"population {people:,}, {table.rows:,} rows",
            fix="give a population at least as large, or None for the table itself",
        )
    return people


def domains(
    table: Table, columns: Sequence[str], given: Mapping[str, int] | None, schema: SchemaLike
) -> dict[str, int]:
    """Domain size of each column: given, else declared in the schema, else counted."""
    known = None if schema is None else Schema.for_table(table, schema)
    sizes = {}
    for name in columns:
        size = (given or {}).get(name)
        if size is None and known is not None:
            size = _declared_size(table, known[name])
        sizes[name] = require_int(
            table.coded(name).size if size is None else size, name=f"domain size of {name!r}", at_least=1
        )
    return sizes


def _declared_size(table: Table, column: Column) -> int | None:
    """Categories in order, leaves of a tree, or whole numbers in a range, as the schema declares them."""
    if column.order:
        return len(column.order)
    tree = tree_for(column, table.coded(column.name).values)
    if tree is not None:
        return tree.size
    if column.domain is not None and (column.kind or table.kinds[column.name]) is Kind.WHOLE:
        low, high = column.domain
        return int(high - low) + 1
    return None
