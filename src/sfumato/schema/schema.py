"""Roles for all columns of a table, and the table converted to the kinds that are declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.errors import SchemaError
from sfumato.schema.columns import Column, Role, nearest
from sfumato.schema.conversion import converted, require_fit
from sfumato.schema.files import columns_of, read_columns, write_columns
from sfumato.schema.suggest import suggest
from sfumato.table.facts import ColumnFacts, facts_of
from sfumato.table.frames import as_table
from sfumato.table.table import Table

# names of columns and whether distinct values are to be counted → what the cells are like
AskFacts = Callable[[Sequence[str], bool], Mapping[str, ColumnFacts]]


@dataclass(frozen=True)
class Schema:
    """The columns of a table with their roles."""

    columns: tuple[Column, ...]
    _by_name: Mapping[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        repeated = [name for name, times in Counter(column.name for column in self.columns).items() if times > 1]
        if repeated:
            raise SchemaError("A schema names each column once.", found=f"{', '.join(map(repr, repeated))} again")
        object.__setattr__(self, "_by_name", {column.name: column for column in self.columns})

    def __getitem__(self, name: str) -> Column:
        if name not in self._by_name:
            raise SchemaError(f"There is no column {name!r} in the schema.", found=nearest(name, self._by_name))
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def names(self, *roles: Role) -> tuple[str, ...]:
        """Names of the columns that have one of these roles, in order."""
        return tuple(column.name for column in self.columns if column.role in roles)

    @classmethod
    def of(cls, given: Schema | Mapping[str, Any] | str | Path | None) -> Schema:
        """A schema as users give it: a Schema, a mapping of column to role or to a schema entry, or a path."""
        if isinstance(given, Schema):
            return given
        return cls(read_columns(given) if isinstance(given, str | Path) else columns_of(given or {}))

    @classmethod
    def for_table(cls, table: Any, given: Schema | Mapping[str, Any] | str | Path | None = None) -> Schema:
        """A role for every column of the table, in its order.

        ``table`` is a Table, a path or any data frame. ``given`` is a schema, a mapping of column to role (or to what
        a schema file says of it), or the path of such a file. Columns that it does not name get a suggestion; see
        :func:`sfumato.schema.suggest.suggest`.

        Examples
        --------
        >>> import sfumato as sf
        >>> people = {"age": [30, 40], "income": [1.0, 2.0]}
        >>> sf.Schema.for_table(people, {"income": "sensitive"}).names("sensitive")
        ('income',)
        """
        return FittedTable.of(as_table(table), given).schema

    def completed(self, names: Sequence[str], ask: AskFacts) -> Schema:
        """The schema of a table with these columns: what is not named gets a suggestion from what ``ask`` answers."""
        for column in self.columns:
            if column.name not in names:
                raise SchemaError(
                    f"Column {column.name!r} is in the schema and not in the table.",
                    found=nearest(column.name, names),
                    fix="correct the name in the schema",
                )
        suggested = suggest([name for name in names if name not in self], ask)
        return Schema(tuple(self[name] if name in self else suggested[name] for name in names))

    def require_fit(self, ask: AskFacts) -> None:
        """Raise unless declared domains, words and weights fit the cells, as ``ask`` describes them."""
        require_fit(self.columns, ask)

    def apply(self, table: Table) -> Table:
        """The table with the kinds and orders that the schema declares; roles change nothing here."""
        return converted(self.columns, table)

    def write(self, path: str | Path) -> None:
        """Write the schema as a TOML file."""
        write_columns(self.columns, path)

    def with_roles(self, roles: Mapping[str, Role]) -> Schema:
        """The same schema with these roles; columns that it did not name are added."""
        changed = tuple(
            replace(column, role=roles.get(column.name, column.role), reason="") if column.name in roles else column
            for column in self.columns
        )
        added = tuple(Column(name=name, role=role) for name, role in roles.items() if name not in self)
        return Schema(changed + added)

    def without(self, role: Role) -> Schema:
        """The columns that have another role."""
        return Schema(tuple(column for column in self.columns if column.role is not role))


@dataclass(frozen=True, repr=False)
class FittedTable:
    """A table converted to the kinds of its schema, and the schema, with a role for every column."""

    table: Table
    schema: Schema

    @classmethod
    def of(cls, table: Table, given: Schema | Mapping[str, Any] | str | Path | None = None) -> FittedTable:
        """Resolve and check a schema, and convert the table: once, whatever is done with both afterwards."""
        schema = Schema.of(given).completed(table.names, partial(facts_of, table))
        applied = schema.apply(table)
        schema.require_fit(partial(facts_of, applied))
        return cls(applied, schema)
