"""Roles for all columns of a table, checks that they fit it, and conversion of the table to the declared kinds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import SchemaError
from sfumato.formats.type_inference import Spelling, infer_type
from sfumato.schema.columns import (
    Column,
    Role,
    columns_of,
    columns_text,
    expand_patterns,
    is_pattern,
    keep_identifier,
    matches,
    nearest,
    read_columns,
    role_by_name_or_pattern,
    write_columns,
)
from sfumato.schema.recognition.names import postal_codes
from sfumato.schema.recognition.roles import suggest
from sfumato.sources.frames import as_table
from sfumato.table.facts import ColumnFacts, facts_of
from sfumato.table.kinds import Kind, order_categories
from sfumato.table.table import Table, replace_columns

LARGEST_TOTAL = 1e150  # of weights: statistics square it


def convert(columns: Iterable[Column], table: Table) -> Table:
    """Return the table with the declared kinds; stored types change only if a kind requires it."""
    kinds, cells = dict(table.kinds), dict[str, pa.ChunkedArray]()
    for column in columns:
        if column.name not in kinds:
            continue
        if column.kind is None:
            is_zero_or_one = kinds[column.name] is Kind.BOOLEAN and pt.is_integer(table.arrow.column(column.name).type)
            if is_zero_or_one and (column.domain is not None or column.words):
                kinds[column.name] = Kind.WHOLE  # what is declared about its numbers says that it has numbers
            continue
        cells[column.name] = _as_kind(table.arrow.column(column.name), column)
        kinds[column.name] = column.kind
    return Table(replace_columns(table.arrow, cells), kinds)


def _as_kind(cells: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    if column.kind is Kind.ORDERED and column.order:
        return _in_order(cells, column)
    if column.kind is Kind.ORDERED and _values_type(cells) == pa.string() and not getattr(cells.type, "ordered", False):
        raise SchemaError(
            f"Column {column.name!r} is ordered, so its order must be declared.", fix="order = [lowest, …, highest]"
        )
    if column.kind in (Kind.ORDERED, Kind.NOMINAL, Kind.TEXT):
        return cells
    numbers = _as_numbers(cells.cast(_values_type(cells)), column)
    if numbers is None:
        raise SchemaError(f"Column {column.name!r} cannot be read as {column.kind}.", found=f"type {cells.type}")
    return numbers


def _as_numbers(cells: pa.ChunkedArray, column: Column) -> pa.ChunkedArray | None:
    kind = cells.type
    if column.kind is Kind.DATE:
        if not pt.is_string(kind):
            return cells if pt.is_temporal(kind) else None
        moments = infer_type(cells, Spelling())
        return moments if pt.is_temporal(moments.type) else None
    if pt.is_temporal(kind):
        return None
    if column.kind is Kind.CONTINUOUS:
        return cells if pt.is_floating(kind) or pt.is_decimal(kind) else _cast(cells, pa.float64())
    if column.kind is Kind.WHOLE:
        return cells if pt.is_integer(kind) else _cast(cells, pa.int64())
    if pt.is_integer(kind) and not pc.all(pc.is_in(cells, value_set=pa.array([0, 1, None], kind))).as_py():
        return None
    return cells if pt.is_boolean(kind) else _cast(cells, pa.bool_())


def _cast(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return cells.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the error quotes the cell, so it is dropped here
        return None


def _values_type(cells: pa.ChunkedArray) -> pa.DataType:
    return cells.type.value_type if pt.is_dictionary(cells.type) else cells.type


def _in_order(cells: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    texts = cells.cast(_values_type(cells)).cast(pa.string())
    ordered = order_categories(texts, column.order)
    outside = ordered.null_count - texts.null_count
    if outside:
        raise SchemaError(
            f"The order of column {column.name!r} must contain every value of the column.",
            found=f"{outside:,} of {len(texts) - texts.null_count:,} cells with values that are not in the order",
            fix="add the missing values to the order",
        )
    return ordered


def require_fit(columns: Sequence[Column], ask: Callable[[Sequence[str], bool], Mapping[str, ColumnFacts]]) -> None:
    """Raise unless every declared domain, fuzzy set and weight fits the cells, and every row has its person.

    ``ask(names, count_distinct)`` returns facts about the cells of these columns.
    """
    weights = [column.name for column in columns if column.role is Role.WEIGHT]
    if len(weights) > 1:
        raise SchemaError("At most one column may have the role weight.", found=", ".join(map(repr, weights)))
    declared = [column for column in columns if column.domain is not None or column.words]
    people = [column.name for column in columns if column.role is Role.PERSON]
    needed = list(dict.fromkeys([*(column.name for column in declared), *weights, *people]))
    facts = ask(needed, False) if needed else {}
    for column in declared:
        _require_numeric(column, facts[column.name])
        if column.domain is not None:
            _require_within(column, facts[column.name])
    for name in weights:
        _require_weights(name, facts[name])
    for name in people:
        _require_named(name, facts[name])


def _require_numeric(column: Column, facts: ColumnFacts) -> None:
    if not facts.kind.is_numeric:
        declares = "a domain" if column.domain is not None else "words for its numbers"
        raise SchemaError(f"Column {column.name!r} has {declares}, so it must be numeric.", found=f"kind {facts.kind}")


def _require_within(column: Column, facts: ColumnFacts) -> None:
    assert column.domain is not None
    low, high = column.domain
    sides = [f"a smallest value below {low:g}"] if facts.low < low else []
    sides += [f"a largest value above {high:g}"] if facts.high > high else []
    if sides:
        raise SchemaError(
            f"The domain of column {column.name!r} must contain every number of the column.",
            found=" and ".join(sides),
            fix="widen the domain, or correct the cells",
        )


def _require_named(name: str, facts: ColumnFacts) -> None:
    if facts.missing:
        raise SchemaError(
            f"Every row must have its person, in column {name!r}.",
            found=f"{facts.missing:,} of {facts.rows:,} rows without one",
            fix="remove these rows, or give each of them a value of its own",
        )


def _require_weights(name: str, facts: ColumnFacts) -> None:
    if facts.kind not in (Kind.CONTINUOUS, Kind.WHOLE, Kind.BOOLEAN):
        raise SchemaError(f"The weights in column {name!r} must be numbers.", found=f"kind {facts.kind}")
    wrong = [f"{facts.missing:,} missing"] if facts.missing else []
    wrong += [f"{facts.infinite:,} infinite"] if facts.infinite else []
    wrong += ["negative weights"] if facts.low < 0.0 else []
    wrong += ["weights whose total is too large"] if facts.high > LARGEST_TOTAL / max(1, facts.rows) else []
    if wrong:
        raise SchemaError(
            f"The weights in column {name!r} must be finite, not negative and not missing.", found=", ".join(wrong)
        )


# called with names of columns and whether to count distinct values; returns facts about the cells
AskFacts = Callable[[Sequence[str], bool], Mapping[str, ColumnFacts]]

FOREIGN = 2  # columns that are not in the table, if they are most of the schema: it belongs to another table


@dataclass(frozen=True)
class Schema:
    """The columns of a table with their roles.

    Functions that take a ``schema`` accept a Schema, a mapping of columns to roles, or the path of a TOML file. Use
    :meth:`for_table` to get a role for every column of a table. A name such as ``lab_*`` stands for all columns that
    match it and are not named themselves.

    Parameters
    ----------
    columns : tuple of Column
        The columns, each with a unique name. Roles are ``"identifier"`` (removed), ``"quasi"`` (quasi-identifier,
        protected), ``"sensitive"`` (kept; a method that forms groups gives each group at least ``l`` of its
        values), ``"person"`` (tells people apart who have several rows; removed, and every promise counts people),
        ``"household"`` (removed; its risk is told), ``"other"`` (kept) and ``"weight"`` (sampling weight, used by
        statistics and kept; :class:`Boxes` releases the mean and the range of each box).
    person : str, optional
        The column that tells people apart. By default the one with the role person. It stays known where that column
        itself is left out, so that a method can count people and still has no such column to release.

    Examples
    --------
    >>> import sfumato as sf
    >>> schema = sf.Schema.of({"age": "quasi", "income": "sensitive"})
    >>> schema.names("quasi")
    ('age',)
    >>> schema["income"].role
    <Role.SENSITIVE: 'sensitive'>
    """

    columns: tuple[Column, ...]
    person: str | None = None
    _by_name: Mapping[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        repeated = [name for name, times in Counter(column.name for column in self.columns).items() if times > 1]
        if repeated:
            raise SchemaError(
                "A schema must name each column once.", found=f"{', '.join(map(repr, repeated))} more than once"
            )
        object.__setattr__(self, "_by_name", {column.name: column for column in self.columns})
        people = self.names(Role.PERSON)
        if len(people) > 1:
            raise SchemaError("At most one column may have the role person.", found=", ".join(map(repr, people)))
        object.__setattr__(self, "person", people[0] if people else self.person)

    def __getitem__(self, name: str) -> Column:
        if name not in self._by_name:
            raise SchemaError(f"There is no column {name!r} in the schema.", found=nearest(name, self._by_name))
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def names(self, *roles: Role) -> tuple[str, ...]:
        """Return the names of the columns that have one of these roles, in order.

        Parameters
        ----------
        *roles : Role or str
            Roles, such as ``"quasi"`` or ``"sensitive"``.
        """
        return tuple(column.name for column in self.columns if column.role in roles)

    @classmethod
    def of(cls, given: Schema | Mapping[str, Any] | str | Path | None) -> Schema:
        """Return a schema from any of the forms that users can pass.

        Parameters
        ----------
        given : Schema, mapping, str, Path or None
            A Schema, a mapping of columns to roles (or to mappings with the entries of a schema file), or the path of a
            schema file. None gives an empty schema.

        Returns
        -------
        Schema
            The columns that ``given`` names, and no others.
        """
        if isinstance(given, Schema):
            return given
        return cls(read_columns(given) if isinstance(given, str | Path) else columns_of(given or {}))

    @classmethod
    def for_table(cls, table: Any, given: Schema | Mapping[str, Any] | str | Path | None = None) -> Schema:
        """Return a schema with a role for every column of a table, in the order of the table.

        Columns that ``given`` does not name get a suggestion: identifier if the column looks like one, else
        quasi-identifier.

        Parameters
        ----------
        table : Table, path or data frame
            The table.
        given : Schema, mapping, str or Path, optional
            A Schema, a mapping of columns to roles (or to mappings with the entries of a schema file), or the path of a
            schema file. By default all roles are suggested.

        Returns
        -------
        Schema
            One column per column of the table. ``reason`` of each suggested column explains its role.

        Examples
        --------
        >>> import sfumato as sf
        >>> people = {"age": [30, 40], "income": [1.0, 2.0]}
        >>> schema = sf.Schema.for_table(people, {"income": "sensitive"})
        >>> schema.names("sensitive")
        ('income',)
        >>> schema["age"].reason
        'its name is that of something others may know about a person'
        """
        return FittedTable.of(as_table(table), given).schema

    def completed(self, names: Sequence[str], ask: AskFacts) -> Schema:
        """Return the schema with a suggested role for every column that it does not name.

        Parameters
        ----------
        names : sequence of str
            Names of all columns of the table, in order.
        ask : callable
            ``ask(names, count_distinct)`` returns the :class:`ColumnFacts` of columns.
        """
        by_pattern = expand_patterns(self.columns, names)
        _require_all_in(self.columns, names)
        unnamed = [name for name in names if name not in self]
        suggested = suggest(unnamed, ask) if unnamed else {}
        columns = {name: keep_identifier(column, suggested[name]) for name, column in by_pattern.items()}
        columns = suggested | columns | {name: self[name] for name in names if name in self}
        columns |= {name: replace(columns[name], kind=Kind.NOMINAL) for name in postal_codes(columns.values(), ask)}
        return Schema(tuple(columns[name] for name in names))

    def require_fit(self, ask: AskFacts) -> None:
        """Raise a SchemaError unless declared domains, fuzzy sets and weights fit the cells.

        Parameters
        ----------
        ask : callable
            ``ask(names, count_distinct)`` returns the :class:`ColumnFacts` of columns.
        """
        require_fit(self.columns, ask)

    def apply(self, table: Table) -> Table:
        """Return the table with the kinds and orders that the schema declares.

        Parameters
        ----------
        table : Table
            The table to convert. Roles do not change it.
        """
        return convert(self.columns, table)

    def write(self, path: str | Path) -> None:
        """Write the schema as a TOML file.

        Parameters
        ----------
        path : str or Path
            The file to write. An existing file is replaced.
        """
        write_columns(self.columns, path)

    def to_toml(self, folder: str | Path = ".") -> str:
        """Return the text of a schema file.

        Parameters
        ----------
        folder : str or Path
            Folder of the file, to which paths of trees are relative. Default: the current folder.
        """
        return columns_text(self.columns, Path(folder))

    def with_roles(self, roles: Mapping[str, Role]) -> Schema:
        """Return the schema with these roles.

        Parameters
        ----------
        roles : mapping of str to Role
            New roles by column, or by a pattern such as ``lab_*``. Columns that are not in the schema are added.
        """
        new = {column.name: role_by_name_or_pattern(column.name, roles) for column in self.columns}
        changed = tuple(
            column if (role := new[column.name]) is None else replace(column, role=role, reason="")
            for column in self.columns
        )
        added = tuple(Column(name=name, role=role) for name, role in roles.items() if name not in self)
        return Schema(changed + added)

    def with_labels(self, labels: Mapping[str, str]) -> Schema:
        """Return the schema with labels for columns that have none.

        Parameters
        ----------
        labels : mapping of str to str
            What columns mean, in words.
        """
        return Schema(tuple(replace(one, label=one.label or labels.get(one.name, "")) for one in self.columns))

    @property
    def pseudonym_columns(self) -> tuple[str, ...]:
        """The identifiers that are released as pseudonyms."""
        return tuple(column.name for column in self.columns if column.pseudonym)

    @property
    def needs_preparation(self) -> bool:
        """Whether pseudonyms or shifted dates are asked for."""
        return any(column.pseudonym or column.shift is not None for column in self.columns)

    def without(self, role: Role) -> Schema:
        """Return the schema without the columns of one role.

        Parameters
        ----------
        role : Role
            The role of the columns to remove.
        """
        return Schema(tuple(column for column in self.columns if column.role is not role), self.person)


def _require_all_in(columns: Sequence[Column], names: Sequence[str]) -> None:
    """Raise unless the table has every column that the schema names."""
    known = set(names)
    unknown = [column.name for column in columns if column.name not in known]
    absent = [name for name in unknown if not (is_pattern(name) and _stands_for_some(name, names))]
    if len(absent) >= FOREIGN and 2 * len(absent) > len(columns):
        raise SchemaError(
            "The schema must be that of this table.",
            found=f"{len(absent)} of its {len(columns)} columns are not in the table, the first {absent[0]!r}",
            fix="`sfumato schema FILE > schema.toml` writes a schema of the table",
        )
    if absent:
        words = re.split(r"[\s;]+", absent[0].strip())
        near = get_close_matches(absent[0], list(names), n=1)
        fix = f"{near[0]!r}" if near else "`sfumato inspect FILE` lists the columns"
        raise SchemaError(
            f"Column {absent[0]!r} has a role but is not in the table.",
            found=nearest(absent[0], names),
            fix=f"commas between the names: {','.join(words)}" if set(words) <= set(names) else fix,
        )


def _stands_for_some(pattern: str, names: Sequence[str]) -> bool:
    return any(matches(pattern, name) for name in names)


@dataclass(frozen=True, repr=False)
class FittedTable:
    """A table converted to the kinds of its schema, and the schema with a role for every column."""

    table: Table
    schema: Schema

    @classmethod
    def of(cls, table: Table, given: Schema | Mapping[str, Any] | str | Path | None = None) -> FittedTable:
        """Complete and check a schema, and convert the table."""
        schema = Schema.of(given).completed(table.names, partial(facts_of, table)).with_labels(table.labels)
        applied = schema.apply(table)
        schema.require_fit(partial(facts_of, applied))
        return cls(applied, schema)
