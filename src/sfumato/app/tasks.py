"""What the worker of a visitor can do: open a table, examine it, measure its risks, recommend, and suggest trees.

A task is a frozen record, so that the same question asked again has the same answer and is not asked twice. Each one
calls the functions that the command line calls, and returns records that hold no cell. Only the first rows, values to
be put in order, and trees do, because the visitor looks at them and edits them; they are shown and kept nowhere.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.app.choices import Source
from sfumato.errors import ReadError, SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.formats.first_lines import FirstLines
    from sfumato.recommendation.records import Recommendation
    from sfumato.report.distributions import Distribution, SizeClass
    from sfumato.risk.inspection import Inspection
    from sfumato.risk.population import PopulationUniqueness
    from sfumato.risk.quasi_identifiers import QuasiIdentifiers
    from sfumato.schema.hierarchies import Tree
    from sfumato.schema.schema import FittedTable, Schema
    from sfumato.table.table import Table

INSPECTION_SECONDS, SEARCH_SECONDS = 20.0, 8.0
ALPHA = 0.05  # share of people that a set of columns must single out to be listed
LARGEST_SET = 4  # columns
SHOWN_ROWS, LONGEST_CELL = 8, 60  # rows of the preview, and characters of a cell
MOST_ORDERED = 200  # values of a column that can be put in order


class TableCache:
    """The table that the worker holds, as it was read and as it fits the last schema."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self.report = report  # takes the share of a search that is done
        self._table: tuple[Source, Table] | None = None
        self._fitted: tuple[Source, Schema, FittedTable] | None = None

    def table(self, source: Source) -> Table:
        """Return the table of a source; it is read once."""
        if self._table is None or self._table[0] != source:
            self._table = self._fitted = None  # the memory is needed
            self._table = source, _read(source)
        return self._table[1]

    def fit(self, source: Source, schema: Schema) -> FittedTable:
        """Return the table with a role for every column."""
        from sfumato.schema.schema import FittedTable

        if self._fitted is None or self._fitted[:2] != (source, schema):
            table, self._fitted = self.table(source), None
            there = replace(schema, columns=tuple(one for one in schema.columns if one.name in table.kinds))
            self._fitted = source, schema, FittedTable.of(table, there)  # a table that is read again may lack columns
        return self._fitted[2]


def _read(source: Source) -> Table:
    from sfumato.job.job import Job
    from sfumato.job.request import file_source

    job = Job.of(file_source(_place(source), source.reading))
    if not job.engine.in_memory:
        raise ReadError(
            "The page works on tables that fit into the memory.",
            found="a larger one",
            fix="the command line, which takes tables of any size: sfumato release FILE -o DIR",
        )
    table: Table = job.source.read()
    return table


def _place(source: Source) -> str:
    """Return the path of the file; that of the demo is written first, and one that leads elsewhere is refused."""
    if source.is_demo and not Path(source.path).exists():
        from sfumato.formats.exports import write
        from sfumato.job.demo_table import diabetes_patients

        write(diabetes_patients().arrow, source.path)
    if source.below and not Path(source.path).resolve().is_relative_to(source.below):
        raise ReadError(
            "The path must lead to a file below the folder that the command names.",
            found="a link to another place, which has replaced the file",
            fix="choose another file",
        )
    return source.path


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """A question about the table of a source, or something to do with it."""

    source: Source

    @abstractmethod
    def perform(self, held: TableCache) -> Any:
        """Do it."""


@dataclass(frozen=True, kw_only=True)
class LookAtFile(Task):
    """Return the first lines of the file as they are, its sheets, and where the table probably begins."""

    def perform(self, held: TableCache) -> FirstLines:
        from sfumato.formats.first_lines import read_first_lines

        reading = self.source.reading
        return read_first_lines(Path(_place(self.source)), sheet=reading.sheet, encoding=reading.encoding)


@dataclass(frozen=True, kw_only=True, repr=False)
class FirstRows:
    """The first rows of a table as text, with the kinds of its columns. It holds cells."""

    rows: int
    kinds: Mapping[str, str]
    cells: tuple[tuple[str, ...], ...]  # by row


@dataclass(frozen=True, kw_only=True)
class ShowFirstRows(Task):
    """Return the first rows of the table, for the eyes of the visitor."""

    def perform(self, held: TableCache) -> FirstRows:
        from sfumato.formats.text import as_text

        table = held.table(self.source)
        head = table.arrow.slice(0, SHOWN_ROWS)
        columns = [as_text(head.column(name)).to_pylist() for name in table.names]
        rows = zip(*columns, strict=True)
        cells = tuple(tuple("" if cell is None else str(cell)[:LONGEST_CELL] for cell in row) for row in rows)
        return FirstRows(rows=table.rows, kinds={name: str(table.kinds[name]) for name in table.names}, cells=cells)


@dataclass(frozen=True, kw_only=True)
class ShowValues(Task):
    """Return the different values of a column of categories, in their order; None if they are too many."""

    schema: Schema
    column: str

    def perform(self, held: TableCache) -> tuple[str, ...] | None:
        import pyarrow as pa

        from sfumato.formats.text import as_text

        values = held.fit(self.source, self.schema).table.coded(self.column).values.drop_null()
        if len(values) > MOST_ORDERED:
            return None
        return tuple(map(str, as_text(pa.chunked_array([values])).to_pylist()))


@dataclass(frozen=True, kw_only=True)
class TableOverview:
    """The columns of a table: kinds, roles, counts and rounded distributions."""

    inspection: Inspection
    schema: Schema  # with a role for every column
    distributions: Mapping[str, Distribution]


@dataclass(frozen=True, kw_only=True)
class Examine(Task):
    """Look at every column."""

    schema: Schema

    def perform(self, held: TableCache) -> TableOverview:
        from sfumato.engines.memory.engine import MemorySurvey
        from sfumato.report.distributions import original_distributions
        from sfumato.risk.inspection import inspect
        from sfumato.risk.safe_shares import WITHOUT_K

        fitted = held.fit(self.source, self.schema)
        return TableOverview(
            inspection=inspect(MemorySurvey(fitted.table), fitted.schema, seconds=INSPECTION_SECONDS),
            schema=fitted.schema,
            distributions=original_distributions(fitted.table, WITHOUT_K),
        )


@dataclass(frozen=True, kw_only=True)
class SensitiveRisk:
    """What the groups give away about a sensitive column."""

    column: str
    l: int  # fewest different values in a group
    t: float  # largest distance of the distribution in a group from that in the table
    disclosed_rows: int  # rows in groups that all have the same value


@dataclass(frozen=True, kw_only=True)
class Risks:
    """Re-identification risk of the original table: by which columns, and against which population."""

    rows: int
    k: int  # the smallest group that is equal in all quasi-identifiers
    groups: int
    classes: tuple[SizeClass, ...]  # of these groups
    sensitive: tuple[SensitiveRisk, ...]
    sets: QuasiIdentifiers
    population: PopulationUniqueness | None


@dataclass(frozen=True, kw_only=True)
class MeasureRisks(Task):
    """Measure the risks of the table before anything is released."""

    schema: Schema
    population: int | None

    def perform(self, held: TableCache) -> Risks:
        import numpy as np

        from sfumato.report.distributions import size_classes
        from sfumato.risk.group_models import group_models
        from sfumato.risk.population import population_uniqueness
        from sfumato.risk.quasi_identifiers import SetSearchOptions, count_quasi_identifiers
        from sfumato.schema.columns import Role
        from sfumato.table.group_counts import GroupSizes

        fitted = held.fit(self.source, self.schema)
        quasi, sensitive = fitted.schema.names(Role.QUASI), fitted.schema.names(Role.SENSITIVE)
        if not quasi:
            raise SchemaError("Risks need at least one quasi-identifier.", found="none", fix="give columns this role")
        people = None
        if self.population is not None:
            people = population_uniqueness(fitted.table, quasi, self.population)
        options = SetSearchOptions(
            columns=quasi,
            population=self.population,
            alpha=ALPHA,
            max_size=min(LARGEST_SET, len(quasi)),
            by="rows" if self.population is None else "population",
            seconds=SEARCH_SECONDS,
        )
        models = group_models(fitted.table, quasi, sensitive, schema=fitted.schema)
        return Risks(
            rows=models.rows,
            k=models.k,
            groups=models.groups,
            classes=size_classes(GroupSizes.of(np.bincount(models.labels))),
            sensitive=tuple(
                SensitiveRisk(column=one.column, l=one.distinct_l, t=one.t, disclosed_rows=one.disclosed_rows)
                for one in models.columns
            ),
            sets=count_quasi_identifiers(fitted.table, fitted.schema, options),
            population=people,
        )


@dataclass(frozen=True, kw_only=True)
class Recommend(Task):
    """Recommend a method."""

    schema: Schema
    keep: tuple[str, ...]
    population: int | None

    def perform(self, held: TableCache) -> Recommendation:
        from sfumato.recommendation.recommend import recommend

        fitted = held.fit(self.source, self.schema)
        return recommend(
            fitted.table,
            self.keep,
            schema=fitted.schema,
            population=self.population,
            file=self.source.name,
            seconds=0.0,  # the first choice is tested; what to change is offered when the whole table was attacked
        )


@dataclass(frozen=True, kw_only=True)
class ShownTree:
    """A generalization tree of a column, to draw and to edit. It holds values of the column."""

    column: str
    way: str  # how it was suggested; empty if it is the one that was chosen
    lines: tuple[tuple[str, ...], ...]  # value, level 1, …, root
    gap: str = ""  # how many values are not in the tree, so that methods will refuse it

    @property
    def text(self) -> str:
        """The tree as a file."""
        from sfumato.schema.hierarchies import Tree

        out = io.StringIO()
        Tree.of(self.lines).write(out)
        return out.getvalue()


@dataclass(frozen=True, kw_only=True)
class ShowTree(Task):
    """Return the tree of a column: the one that the schema names, or a suggested one."""

    schema: Schema
    column: str
    way: str = ""  # empty: that of the schema, or else the usual one
    levels: tuple[float, ...] = ()

    def perform(self, held: TableCache) -> ShownTree:
        from sfumato.engines.memory.engine import MemorySurvey
        from sfumato.job.inspect import InspectedTable
        from sfumato.schema.suggested_hierarchies import build_tree, tree_for

        fitted = held.fit(self.source, self.schema)
        chosen = fitted.schema[self.column]
        if chosen.tree and not self.way:
            tree = tree_for(chosen, fitted.table.coded(self.column).values)
            assert tree is not None
            gap = _gap(tree, fitted.table.coded(self.column).values, self.column)
            return ShownTree(column=self.column, way="", lines=tuple(tree.lines), gap=gap)
        values = InspectedTable(MemorySurvey(fitted.table), fitted.schema).values_of(self.column)
        way = self.way or values.usual_kind
        tree = build_tree(values, way, self.levels)
        return ShownTree(column=self.column, way=way, lines=tuple(tree.lines))


def _gap(tree: Tree, values: pa.Array, column: str) -> str:
    """Return how many values of the column are not in a tree; empty if all of them are."""
    try:
        tree.positions(values, column=column)
    except SchemaError as error:
        return error.found or ""
    return ""
