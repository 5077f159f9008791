"""What a release is made of: input, roles, method, options and target, from the command line or from a project file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from sfumato.project.reading import Reading, schema_of

if TYPE_CHECKING:
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
    def roles_schema(self) -> Schema:
        """The schema, with the roles of the command line."""
        return schema_of(self.columns if self.schema is None else self.schema, self.roles)
