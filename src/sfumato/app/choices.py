"""What a visitor has chosen, and the history that undo goes back in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.job.request import Reading
    from sfumato.schema.schema import Schema

LONGEST = 200  # choices that undo goes back to


@dataclass(frozen=True, kw_only=True)
class Source:
    """The table of a visitor: a file below the named folder, or an upload in the private folder."""

    path: str
    name: str  # as shown, and in the command
    reading: Reading
    is_demo: bool = False  # the file is written when it is first read
    below: str = ""  # the named folder, which the file must be in when it is read; empty for uploads
    attempt: int = 0  # how often it was read again: the file may have been changed


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Everything that a release needs besides the table: roles and trees, statistics, method and options."""

    schema: Schema  # what was chosen only; other columns have suggested roles
    population: int | None = None
    keep: tuple[str, ...] = ()
    method: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    formats: tuple[str, ...] = ("csv",)  # of the released rows, besides Parquet


@dataclass(frozen=True)
class Message:
    """A text of the catalogue, with what is put into its placeholders; it is translated when it is shown."""

    text: str
    values: Mapping[str, object] = field(default_factory=dict)


class History:
    """All choices of a visitor, one after the other."""

    def __init__(self, first: Choices, told: Callable[[], None] | None = None) -> None:
        self._steps: list[tuple[Message, Choices]] = [(Message(""), first)]
        self._place = 0
        self._told = told  # called after each change
        self.changes = 0  # so far: a page of another tab may show the choices before

    @property
    def now(self) -> Choices:
        """The current choices."""
        return self._steps[self._place][1]

    @property
    def to_undo(self) -> Message | None:
        """What undo would take back; None if there is nothing."""
        return self._steps[self._place][0] if self._place else None

    @property
    def to_redo(self) -> Message | None:
        """What redo would do again; None if there is nothing."""
        return self._steps[self._place + 1][0] if self._place + 1 < len(self._steps) else None

    def change(self, what: Message, **changed: Any) -> None:
        """Make a choice; what was undone before is forgotten. A choice that changes nothing is not remembered."""
        chosen = replace(self.now, **changed)
        if chosen != self.now:
            self._steps = [*self._steps[: self._place + 1], (what, chosen)][-LONGEST:]
            self._place = len(self._steps) - 1
            self._count()

    def undo(self) -> None:
        """Go back by one choice."""
        self._place = max(self._place - 1, 0)
        self._count()

    def redo(self) -> None:
        """Go forward by one choice."""
        self._place = min(self._place + 1, len(self._steps) - 1)
        self._count()

    def _count(self) -> None:
        self.changes += 1
        if self._told is not None:
            self._told()
