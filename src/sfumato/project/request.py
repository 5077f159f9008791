"""What a release is made of: input, roles, method, options and target, from the command line or from a project file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import OptionError
from sfumato.project.reading import Reading, schema_of

if TYPE_CHECKING:
    from sfumato.schema.columns import Column
    from sfumato.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Request:
    """A release as it was asked for; None stands for what was not given."""

    input: str | None = None
    target: str | None = None
    method: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    schema: str | None = None  # path of a schema file
    columns: Schema | None = None  # or the schema itself
    roles: Sequence[str] = ()  # COLUMN=ROLE
    reading: Reading | None = None
    table: str | None = None
    query: str | None = None
    into: str | None = None
    replace: bool | None = None
    assess: bool | None = None
    reference: str | None = None
    holdout: float | None = None
    require: Sequence[str] = ()
    engine: str | None = None
    master: str | None = None
    memory: str | None = None
    csv_formulas: str | None = None
    formats: Sequence[str] = ()  # of the released rows, besides Parquet
    pseudonyms: Sequence[str] = ()  # identifiers that are released as pseudonyms
    shift_dates: Sequence[str] = ()  # columns whose dates are shifted
    by: str | None = None  # column that tells people apart, for shift_dates
    days: int | None = None  # largest shift
    key: str | None = None  # file of the secret key

    def over(self, other: Request) -> Request:
        """Return this request with what only the other one gives; options are merged."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        given = {name: value for name, value in given.items() if value not in (None, (), [], {})}
        if self.schema is not None:
            other = replace(other, columns=None)
        return replace(other, **(given | {"options": {**other.options, **self.options}}))

    @property
    def judges(self) -> bool:
        """Whether the release is assessed."""
        return bool(self.assess or self.require or self.reference is not None or self.holdout is not None)

    @property
    def prepares(self) -> bool:
        """Whether pseudonyms or shifted dates are asked for here, not in the schema."""
        return bool(self.pseudonyms or self.shift_dates)

    def prepared(self, schema: Schema) -> Schema:
        """Return the schema of all columns with the pseudonyms and shifted dates that are asked for."""
        for one in (*self.pseudonyms, *self.shift_dates):
            _ = schema[one]  # raises if there is no such column
        if self.shift_dates and self.by is None:
            raise OptionError("--shift-dates needs the column that tells people apart.", fix="--by COLUMN")
        if (self.by is not None or self.days is not None) and not self.shift_dates:
            raise OptionError("--by and --days are for --shift-dates.", fix="--shift-dates COLUMNS")
        columns = [self._prepared(column) for column in schema.columns]
        return replace(schema, columns=tuple(columns))

    def _prepared(self, column: Column) -> Column:
        from sfumato.schema.columns import DAYS, DateShift, Role

        if column.name in self.pseudonyms:
            return replace(column, role=Role.IDENTIFIER, pseudonym=True, reason="")
        if column.name in self.shift_dates:
            return replace(column, shift=DateShift(by=self.by or "", days=self.days or DAYS))
        return column

    @property
    def roles_schema(self) -> Schema:
        """The schema, with the roles of the command line."""
        return schema_of(self.columns if self.schema is None else self.schema, self.roles)


def option_value(text: str) -> Any:
    """Return the value of an option of a method that was given as text: as JSON if possible, otherwise as it is.

    >>> option_value("0.5"), option_value("[1, 2]"), option_value("rank")
    (0.5, [1, 2], 'rank')
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
