"""Look at tables of any size: opens them with an engine, and computes nothing itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.engines.memory.engine import MemorySurvey
from sfumato.errors import OptionError, wrap_memory_errors
from sfumato.job.assess import SAMPLED
from sfumato.job.job import Job
from sfumato.job.people import tell_households
from sfumato.plan.claims.groups import KAnonymity
from sfumato.plan.plan import Evidence
from sfumato.plan.questions import DistinctIn
from sfumato.randomness import Randomness
from sfumato.risk import uniqueness as counts
from sfumato.risk.from_survey import quasi_identifiers_from_survey, uniqueness_from_survey
from sfumato.risk.knowledge import Precision, coarsen
from sfumato.risk.quasi_identifiers import SetSearchOptions, count_quasi_identifiers
from sfumato.schema.columns import Role, nearest
from sfumato.schema.schema import FittedTable
from sfumato.schema.suggested_hierarchies import CountedValues
from sfumato.table.groups import first_rows, group_labels
from sfumato.table.table import draw_rows

if TYPE_CHECKING:
    from sfumato.engines.base import Engine
    from sfumato.plan.plan import Finding
    from sfumato.plan.survey import Survey
    from sfumato.risk.quasi_identifiers import QuasiIdentifiers
    from sfumato.risk.set_search import Progress
    from sfumato.risk.uniqueness import By, SchemaLike, Uniqueness
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table


SAME = 0  # seed of the sample of an inspection, which is never released: the same rows each time


@dataclass(frozen=True, repr=False)
class InspectedTable:
    """A table that was opened: a survey of all its columns, the schema that fits it, and its rows if in memory."""

    survey: Survey
    schema: Schema
    table: Table | None = None

    def fitted(self, most: int) -> FittedTable:
        """Return at most so many rows of the table with their roles, the same random ones each time."""
        rows = self.survey.sample.table if self.table is None else self.table
        return FittedTable(draw_rows(rows, most, Randomness(rows.rows).stream("tested")), self.schema)

    @property
    def part(self) -> FittedTable:
        """The rows that methods are tried on: all that are in memory, or random ones of a larger table."""
        return self.fitted(SAMPLED if self.table is None else self.table.rows)

    def values_of(self, column: str) -> CountedValues:
        """Return the different values of a column of the whole table."""
        if column not in self.survey.kinds:
            raise OptionError(f"There is no column {column!r} in the table.", found=nearest(column, self.survey.kinds))
        question = DistinctIn(column)
        counted = self.survey.ask([question])[question]
        known = counted.values.is_valid()
        rows = counted.counts[known.to_numpy(zero_copy_only=False)]
        return CountedValues(column, self.survey.kinds[column], counted.values.filter(known), rows, self.survey.rows)

    def household_risk(self) -> Finding | None:
        """Return the risk of households by all quasi-identifiers, if a column has that role and the table is here."""
        quasi = self.schema.names(Role.QUASI)
        if self.table is None or not quasi or not self.schema.names(Role.HOUSEHOLD):
            return None
        told = tell_households([KAnonymity(k=1, columns=quasi)], self.schema)
        return told[0].measure(Evidence(self.table, self.table, np.arange(self.table.rows)))

    def quasi_identifiers(self, options: SetSearchOptions) -> QuasiIdentifiers:
        """Search the quasi-identifiers, by exact counts in memory and by sketches elsewhere."""
        if self.table is not None:
            return count_quasi_identifiers(self.table, self.schema, options)
        _require_whole_knowledge(options.knows)
        return quasi_identifiers_from_survey(self.survey, self.schema if options.by == "population" else None, options)


@contextmanager
def open_for_inspection(job: Job) -> Iterator[InspectedTable]:
    """Open the table of a job with its engine; what the engine needs meanwhile is removed at the end."""
    if job.engine.in_memory:
        fitted = job.fitted
        yield InspectedTable(MemorySurvey(fitted.table), fitted.schema, fitted.table)
        return
    with job.engine.session(None) as session:
        source = session.open(job.source, job.schema)
        survey = session.survey(source.with_all_columns, Randomness(SAME))
        yield InspectedTable(survey, source.schema)


@wrap_memory_errors
def uniqueness(
    table: Any,
    columns: Sequence[str],
    population: float | None = None,
    *,
    domain_sizes: Mapping[str, int] | None = None,
    schema: SchemaLike = None,
    knows: Mapping[str, Precision] | None = None,
    count_error: float = 0.0,
    engine: str | Engine = "auto",
) -> Uniqueness:
    """Compute how many rows a set of columns makes unique, and bound the share of unique people in a population.

    A missing value counts as a value. All rows are counted, whatever the size of the table. In memory, a schema with
    the role person makes one row of each different combination of a person, so that people are counted.

    Parameters
    ----------
    table : Table, path, data frame or Database
        Anything that a release accepts, also larger than memory: a pattern such as ``"part-*.parquet"``, or a table of
        a :class:`sfumato.Database`.
    columns : sequence of str
        Names of the columns, at least one, each once.
    population : float, optional
        Number of people among whom an intruder searches, at least the number of rows. Default: the rows of the table.
    domain_sizes : mapping of str to int, optional
        Number of possible values of each named column, at least 1. For other columns: the number that the schema
        declares, or else the number of different values in the table.
    schema : Schema, mapping or path, optional
        Schema whose declared domains, orders and trees give domain sizes. Default: none.
    knows : mapping of str to precision, optional
        How precisely the intruder knows some columns, if less than the table has them: a period ("day", "week",
        "month", "quarter", "year", "decade") for dates, the width of the intervals that she tells apart for numbers,
        the number of leading characters or a mapping of values to coarser ones for text. The table must be in memory.
        Default: she knows every column as it is.
    count_error : float, default 0.0
        Share, from 0 to below 1, by which the counts may be wrong (LT §2): of the number of people, and of the rows
        with a wrong value. ``bound_interval`` and ``unique_interval`` of the result tell what follows.
    engine : str or Engine, default "auto"
        Engine that reads the table, such as "memory" or "duckdb". "auto" takes memory if the table fits into it.

    Returns
    -------
    Uniqueness
        Counts, shares and bounds; ``reason(alpha)`` puts the verdict into a sentence.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 34, 51, 51, 62, 62], "sex": ["f", "m", "f", "f", "m", "m"]}
    >>> found = sf.uniqueness(people, ["age", "sex"])
    >>> found.unique_rows, found.rows
    (2, 6)
    >>> found.reason(alpha=0.2)
    'age, sex together identify people at α = 0.2: 2 of 6 rows (33.3%) have a combination of values that no other...'

    The same columns in a population of 1,000 people and with 100 possible ages:

    >>> found = sf.uniqueness(people, ["age", "sex"], population=1000, domain_sizes={"age": 100})
    >>> found.domain, round(found.bound, 3)
    (200, 0.074)

    The census may be wrong by 5 %:

    >>> found = sf.uniqueness(people, ["age"], population=1000, domain_sizes={"age": 100}, count_error=0.05)
    >>> tuple(round(end, 4) for end in found.bound_interval)
    (0.035, 0.0387)

    An intruder who cannot tell the ages apart:

    >>> sf.uniqueness(people, ["age", "sex"], knows={"age": 100}).unique_rows
    0
    """
    job = Job.of(table, schema=schema, engine=engine)
    if job.engine.in_memory:
        table = _one_row_per_person(job, columns, knows) if job.schema and job.schema.person else job.source
        return counts.uniqueness(
            table,
            columns,
            population,
            domain_sizes=domain_sizes,
            schema=job.schema,
            knows=knows,
            count_error=count_error,
        )
    _require_whole_knowledge(knows)
    with open_for_inspection(job) as opened:
        declared = None if job.schema is None else opened.schema
        return uniqueness_from_survey(
            opened.survey, declared, columns, population, domain_sizes=domain_sizes, count_error=count_error
        )


def _one_row_per_person(job: Job, columns: Sequence[str], knows: Mapping[str, Precision] | None) -> Table:
    """Return the rows without those in which the intruder knows the same values of a person again."""
    fitted = job.fitted
    fitted.table.require(columns)
    assert fitted.schema.person is not None
    known = coarsen(fitted.table, knows)
    return fitted.table.take(np.sort(first_rows(group_labels(known, (*columns, fitted.schema.person)))))


def _require_whole_knowledge(knows: Mapping[str, Precision] | None) -> None:
    if knows:
        raise OptionError(
            "Columns that an intruder knows less precisely are counted in memory only.",
            found="a table that is not in memory",
            fix="a sample of it, or a table in which these columns are coarser",
        )


@wrap_memory_errors
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
    knows: Mapping[str, Precision] | None = None,
    seed: int | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
    engine: str | Engine = "auto",
) -> QuasiIdentifiers:
    """Find all minimal sets of columns that identify at least a share ``alpha`` of people.

    Parameters
    ----------
    table : Table, path, data frame or Database
        Anything that a release accepts, also larger than memory: a pattern such as ``"part-*.parquet"``, or a table of
        a :class:`sfumato.Database`.
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
        estimates with a reported ``error``. Default: all rows. In a table that is not in memory: number of random
        combinations of values that are kept of each set of columns, 4,096 by default; the error of a share is about
        2.6 times the share divided by the square root of that number.
    domain_sizes : mapping of str to int, optional
        Number of possible values of each named column, at least 1. For other columns: the number that the schema
        declares, or else the number of different values in the table.
    schema : Schema, mapping or path, optional
        Schema whose declared domains, orders and trees give domain sizes. Default: none.
    knows : mapping of str to precision, optional
        How precisely the intruder knows some columns; see :func:`uniqueness`. Default: as the table has them.
    seed : int, optional
        Seed that makes ``sample`` repeatable. Default: random numbers from the operating system.
    seconds : float, optional
        Time limit in seconds, above 0. Small sets are searched first, and the result says what was covered and how long
        the rest would take. Reading the table and compiling kernels do not count. Default: search everything.
    progress : callable, optional
        Called after each set with the number of sets visited and the largest possible number. Default: none. The
        estimated time that is left is logged every five seconds (logger "sfumato").
    engine : str or Engine, default "auto"
        Engine that reads the table, such as "memory" or "duckdb". "auto" takes memory if the table fits into it.

    Returns
    -------
    QuasiIdentifiers
        The minimal sets, smallest first, each as a :class:`Uniqueness`; ``complete`` and ``coverage`` say whether all
        sets were searched.

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
    options = SetSearchOptions(
        population=population,
        alpha=alpha,
        max_size=max_size,
        by=by,
        columns=columns,
        sample=sample,
        domain_sizes=domain_sizes,
        knows=knows,
        seed=seed,
        seconds=seconds,
        progress=progress,
    )
    job = Job.of(table, schema=schema, engine=engine)
    if job.engine.in_memory:
        return count_quasi_identifiers(job.source, job.schema, options)
    _require_whole_knowledge(knows)
    with open_for_inspection(job) as opened:
        return quasi_identifiers_from_survey(opened.survey, None if job.schema is None else opened.schema, options)
