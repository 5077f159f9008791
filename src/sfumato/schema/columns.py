"""The schema of a column: its role and what is declared about its values; patterns of names; and schema files."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from sfumato.errors import ReadError, SchemaError
from sfumato.formats.raw_files import read_bytes, write_whole
from sfumato.params import is_finite
from sfumato.table.kinds import Kind

# Fuzzy sets over the numbers of a column: words, each with the corners of a trapezoid.


Corners = tuple[float, float, float, float]


def corners_of(given: Sequence[Any]) -> Corners | None:
    """Return the four corners of a trapezoid from three (a triangle) or four ascending numbers; None if invalid."""
    if len(given) not in (3, 4) or not all(
        isinstance(number, int | float) and not isinstance(number, bool) for number in given
    ):
        return None
    if not all(is_finite(number) for number in given if isinstance(number, int)):  # too large for a float
        return None
    foot, top, end, toe = (float(number) for number in (*given[:2], *given[-2:]))
    return (foot, top, end, toe) if foot <= top <= end <= toe else None  # false for NaN


def has_whole_sides(corners: Corners) -> bool:
    """Return whether both corners of each side are infinite, or neither: no line descends from infinity."""
    foot, top, end, toe = map(math.isfinite, corners)
    return foot == top and end == toe


def check_words(words: Any, column: str) -> dict[str, Corners]:
    """Return the words of a column with four corners each, or raise if they are invalid."""
    if not isinstance(words, Mapping):
        raise SchemaError(f"The words of column {column!r} must be a table that maps each word to its corners.")
    checked = {}
    for word, given in words.items():
        name = f"The word {word!r} of column {column!r}"
        corners = corners_of(given) if isinstance(given, list | tuple) else None
        if corners is None:
            raise SchemaError(f"{name} must be three or four numbers in ascending order.")
        if not has_whole_sides(corners):
            raise SchemaError(f"{name} must have either both corners of a side at infinity or neither.")
        checked[str(word)] = corners
    return checked


class Role(StrEnum):
    """The role of a column, which determines how it is protected."""

    IDENTIFIER = "identifier"  # identifies a person; removed
    QUASI = "quasi"  # quasi-identifier, which may be known from other sources; protected
    SENSITIVE = "sensitive"  # what an intruder wants to learn; kept; methods that form groups make them diverse in it
    PERSON = "person"  # tells people apart, who may have several rows; not released, and every promise counts them
    HOUSEHOLD = "household"  # equal for people who live together; not released, and household risk is told
    OTHER = "other"  # none of these; kept
    WEIGHT = "weight"  # sampling weight; used by statistics, and released by the rule of the method


class Design(StrEnum):
    """What a column tells about how a survey was drawn; the role of the column decides whether it is released."""

    STRATUM = "stratum"  # clusters, or people, were drawn from each stratum apart
    CLUSTER = "cluster"  # primary sampling unit: its people were drawn together


NAMING = (Role.IDENTIFIER, Role.PERSON)  # roles that name people: removed, or released as a pseudonym
Member = TypeVar("Member", Role, Kind, Design)
MOST_PARTS = 500  # of a key in a file
DAYS, MOST_DAYS = 180, 36_500  # default and largest shift of dates


@dataclass(frozen=True, kw_only=True)
class DateShift:
    """How dates are shifted: all dates of one person by the same random number of days."""

    by: str  # column that tells people apart
    days: int = DAYS  # largest shift, to either side

    @classmethod
    def of(cls, given: Any, column: str) -> DateShift:
        """Return a checked shift from a shift, or from a mapping with ``by`` and ``days``."""
        fields: Any = {"by": given.by, "days": given.days} if isinstance(given, DateShift) else given
        if (
            not isinstance(fields, Mapping)
            or not set(fields) <= {"by", "days"}
            or not isinstance(fields.get("by"), str)
        ):
            raise SchemaError(
                f"The shift of column {column!r} must name the column that tells people apart.",
                fix='shift = {by = "patient_id", days = 180}',
            )
        days = fields.get("days", DAYS)
        if not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= MOST_DAYS:
            raise SchemaError(f"The dates of column {column!r} can be shifted by 1 to {MOST_DAYS:,} days.")
        return cls(by=fields["by"], days=days)


@dataclass(frozen=True, kw_only=True)
class Column:
    """The schema of one column."""

    name: str
    role: Role
    kind: Kind | None = None  # None means the kind in the table
    reason: str = ""  # why this role was suggested; empty if the user declared it
    order: tuple[str, ...] = field(default=(), repr=False)  # categories of an ordered column, lowest first
    domain: tuple[float, float] | None = None  # declared range of a numeric column, in the unit of Table.numbers
    tree: str | None = None  # "calendar", "prefix", "steps:…", or path of a generalization tree
    words: Mapping[str, Corners] = field(default_factory=dict, repr=False, hash=False)  # fuzzy sets over the numbers
    label: str = ""  # what the column means, in words, for the codebook
    pseudonym: bool = False  # whether an identifier is released as a keyed pseudonym instead of being removed
    facts: int | None = None  # of a person with a pseudonym: rows that an intruder may know; None: all of them
    shift: DateShift | None = None  # by whom and how far dates are shifted before the release
    design: Design | None = None  # stratum or cluster of a survey, for standard errors; several of a kind are crossed

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # text is converted to Role and Kind, so that both can be passed
        set_field(self, "role", _member(Role, self.role, what="role", column=self.name))
        if self.kind is not None:
            set_field(self, "kind", _member(Kind, self.kind, what="kind", column=self.name))
        set_field(self, "order", _check_order(self.order, self.name))
        if self.order:
            if self.kind not in (None, Kind.ORDERED):
                raise SchemaError(
                    f"Column {self.name!r} has an order, so its kind must be ordered.", found=f"kind {self.kind}"
                )
            set_field(self, "kind", Kind.ORDERED)
        if self.domain is not None:
            set_field(self, "domain", _check_domain(self.domain, self.name))
        set_field(self, "words", check_words(self.words, self.name))
        if not isinstance(self.label, str):
            raise SchemaError(f"The label of column {self.name!r} must be a text.", found=type(self.label).__name__)
        if not isinstance(self.pseudonym, bool) or (self.pseudonym and self.role not in NAMING):
            raise SchemaError(
                f"Only an identifier or a person can be released as a pseudonym, and {self.name!r} must say so by true "
                "or false.",
                found=f"role {self.role}",
                fix='role = "identifier" and pseudonym = true',
            )
        if self.facts is not None and (type(self.facts) is not int or self.facts < 1 or not self.links_rows):
            raise SchemaError(
                f"The facts of column {self.name!r} must be a whole number from 1, for a person with a pseudonym.",
                fix='role = "person", pseudonym = true and facts = 2',
            )
        if self.shift is not None:
            set_field(self, "shift", DateShift.of(self.shift, self.name))
        if self.design is not None:
            set_field(self, "design", _member(Design, self.design, what="design", column=self.name))

    @property
    def links_rows(self) -> bool:
        """Whether released pseudonyms link all rows of a person."""
        return self.pseudonym and self.role is Role.PERSON


def nearest(name: str, names: Collection[str]) -> str:
    """Describe the known names for an error message: how many there are, and the one closest to ``name``."""
    close = get_close_matches(name, list(names), n=1)
    return f"{len(names)} names, the nearest {close[0]!r}" if close else f"{len(names)} names, none similar"


def _member(members: type[Member], value: Any, *, what: str, column: str) -> Member:
    if value not in list(members):
        raise SchemaError(
            f"The {what} of column {column!r} must be one of {', '.join(members)}.",
            found=repr(value) if isinstance(value, str) else type(value).__name__,
        )
    return members(value)


def _check_order(order: Any, name: str) -> tuple[str, ...]:
    if not isinstance(order, list | tuple) or not all(isinstance(value, str) for value in order):
        raise SchemaError(f"The order of column {name!r} must be a list of strings, lowest first.")
    if len(set(order)) < len(order):
        raise SchemaError(f"The order of column {name!r} must contain each value once.")
    return tuple(order)


def _check_domain(domain: Any, name: str) -> tuple[float, float]:
    ends = tuple(domain) if isinstance(domain, list | tuple) else ()
    numbers = len(ends) == 2 and all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
    if not numbers or not all(is_finite(end) for end in ends) or ends[0] > ends[1]:
        raise SchemaError(f"The domain of column {name!r} must be two finite numbers, the lower first.")
    return float(ends[0]), float(ends[1])


# Names of columns with wildcards: ``lab_*`` stands for all columns that begin with ``lab_``, ``x?`` for x1, x2, ….
#
# A column that is named exactly has the role that its name is given. A pattern stands for the other columns that
# match it; the first of several patterns counts. A pattern does not release a column that looks like an identifier.


def is_pattern(name: str) -> bool:
    """Return whether a name contains a wildcard."""
    return "*" in name or "?" in name


def matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern: ``*`` stands for any characters, ``?`` for one.

    >>> matches("lab_*", "lab_alt"), matches("lab_?", "lab_alt")
    (True, False)
    """
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, name, re.DOTALL) is not None


def expand_patterns(columns: Sequence[Column], names: Sequence[str]) -> dict[str, Column]:
    """Return the columns of a table that patterns stand for, by name; patterns that match nothing are left out."""
    exact = {column.name for column in columns} & set(names)
    patterns = [column for column in columns if column.name not in exact and is_pattern(column.name)]
    first = {name: next((one for one in patterns if matches(one.name, name)), None) for name in names}
    return {name: replace(one, name=name) for name, one in first.items() if one is not None and name not in exact}


def role_by_name_or_pattern(name: str, roles: Mapping[str, Role]) -> Role | None:
    """Return the role of a column in a mapping that may contain patterns; None if nothing fits."""
    fitting = (role for pattern, role in roles.items() if is_pattern(pattern) and matches(pattern, name))
    return roles[name] if name in roles else next(fitting, None)


def keep_identifier(column: Column, suggested: Column) -> Column:
    """Return the column of a pattern, but as an identifier if it looks like one."""
    if suggested.role is not Role.IDENTIFIER or column.role in NAMING:
        return column
    return replace(suggested, reason=f"{suggested.reason}; a pattern does not release it, only its full name does")


# Read and write schema files: TOML with one table, or only a role, per column.
#
# Paths of trees are relative to the folder of the file. An example::
#
#     [columns]
#     income = "sensitive"
#
#     [columns.age]
#     role = "quasi"
#     domain = [0, 120]
#     tree = "steps:5,10,50"
#
#     [columns.education]
#     role = "quasi"
#     order = ["primary", "secondary", "tertiary"]
#     tree = "trees/education.csv"
#
#     [columns.age.words]
#     young = [-inf, -inf, 25, 35]
#
#     [columns.patient_id]
#     role = "identifier"
#     pseudonym = true
#     label = "Number of the record"
#
#     [columns.admitted]
#     role = "quasi"
#     shift = {by = "patient_id", days = 180}
#
#     [columns.village]
#     role = "other"
#     design = "cluster"


KEYS = ("role", "kind", "order", "domain", "tree", "words", "label", "pseudonym", "facts", "shift", "design")
PSEUDONYM = "pseudonym"  # in place of a role: an identifier that is released as a pseudonym
BUILT_IN = re.compile(r"(calendar|prefix)$|steps:")  # trees that are not read from a file
HEAD = """\
# Roles: identifier (removed), quasi (protected), sensitive (kept; a method that forms groups gives each group at least
# l of its values), person (removed; people with several rows are told apart by it, and every promise counts people),
# household (removed; the risk of people who live together is told), other (kept), weight (kept, used by statistics).
"""


def read_columns(path: str | Path) -> tuple[Column, ...]:
    """Read the columns of a TOML file; paths of trees are relative to its folder."""
    file_path = Path(path).expanduser()
    content = toml_content(file_path)
    unknown = [key for key in content if key != "columns"]
    if unknown or not isinstance(content.get("columns"), dict):
        raise SchemaError(
            f"{file_path.name} must have a table [columns] and no other entry.",
            found=", ".join(map(repr, unknown)) or "no table [columns]",
        )
    return columns_of(content["columns"], folder=file_path.parent)


def columns_of(columns: Mapping[str, Any], *, folder: Path | None = None) -> tuple[Column, ...]:
    """Return columns from a mapping of column to role, or to a mapping with the entries of a schema file."""
    if not isinstance(columns, Mapping):
        raise SchemaError(
            "A schema must be a Schema, a mapping of columns to roles, or the path of a schema file.",
            found=type(columns).__name__,
        )
    return tuple(_column(name, entry, folder) for name, entry in columns.items())


def write_columns(columns: Iterable[Column], path: str | Path) -> None:
    """Write columns as TOML, completely or not at all.

    Reasons become comments, and paths of trees become relative to the folder of the file.
    """
    file_path = Path(path).expanduser()
    text = columns_text(columns, file_path.parent)
    write_whole(file_path, lambda file: file.write(text.encode("utf-8")))


def columns_text(columns: Iterable[Column], folder: Path) -> str:
    """Return columns as the text of a TOML file in this folder."""
    return HEAD + "".join(_entry(column, folder) for column in columns)


def toml_content(file_path: Path, *, what: str = "schema file") -> dict[str, Any]:
    """Return the content of a TOML file; errors quote nothing of it."""
    where, refused = "", None
    try:
        text = read_bytes(file_path).decode("utf-8")
        if not _has_long_keys(text):
            return tomllib.loads(text)
        where = f"a key of more than {MOST_PARTS} parts"
    except ReadError as error:
        refused = error
    except UnicodeDecodeError:
        where = "text that is not UTF-8"
    except tomllib.TOMLDecodeError as error:
        place = str(error).rpartition("(")[2].strip(")")  # "at line 3, column 5", without the text at that place
        where = f"a syntax error {place}"
    except (ValueError, RecursionError):
        where = "a number with too many digits, or values nested too deeply"
    if refused is not None:
        raise SchemaError(f"The {what} cannot be read.", found=refused.message.rstrip("."), fix=refused.fix)
    fix = "`sfumato schema FILE > schema.toml` writes one" if what == "schema file" else None
    raise SchemaError(f"{file_path.name} must be TOML.", found=where, fix=fix)


def _has_long_keys(text: str) -> bool:
    """Whether a key has very many parts, a.b.c.…: the time to read it grows with their square."""
    keys = (part for line in text.splitlines() for part in (line.split("=")[:-1] if "=" in line else [line]))
    return any(part.count(".") >= MOST_PARTS for part in keys)


def _column(name: str, entry: Any, folder: Path | None) -> Column:
    if isinstance(entry, Column):
        return replace(entry, name=name)
    if entry == PSEUDONYM:
        return Column(name=name, role=Role.IDENTIFIER, pseudonym=True)
    if isinstance(entry, str):
        return Column(name=name, role=Role(entry) if entry in list(Role) else entry)  # type: ignore[arg-type]
    if not isinstance(entry, Mapping):
        raise SchemaError(f"The entry of column {name!r} must be a role or a table.", found=type(entry).__name__)
    for key in entry:
        if key not in KEYS:
            raise SchemaError(f"Column {name!r} has an unknown entry {key!r}.", found=nearest(key, KEYS))
    if "role" not in entry:
        raise SchemaError(f"Column {name!r} must have a role.", fix=f"role = one of {', '.join(Role)}")
    tree = entry.get("tree")
    if tree is not None and not isinstance(tree, str | Path):
        raise SchemaError(f"The tree of column {name!r} must be the path of a file.", found=type(tree).__name__)
    return Column(
        name=name,
        role=entry["role"],
        kind=entry.get("kind"),
        order=entry.get("order", ()),
        domain=entry.get("domain"),
        tree=None if tree is None else str(tree if folder is None or BUILT_IN.match(str(tree)) else folder / tree),
        words=entry.get("words", {}),
        label=entry.get("label", ""),
        pseudonym=entry.get("pseudonym", False),
        facts=entry.get("facts"),
        shift=entry.get("shift"),
        design=entry.get("design"),
    )


def _entry(column: Column, folder: Path) -> str:
    reason = re.sub(r"[^ -~\u00a0-\ud7ff]+", " ", column.reason)  # a comment must stay on one line
    comment = f"  # {reason}" if reason else ""
    lines = [f"[columns.{toml_key(column.name)}]", f"role = {toml_text(column.role)}{comment}"]
    if column.kind is not None:
        lines.append(f"kind = {toml_text(column.kind)}")
    if column.order:
        lines.append(f"order = [{', '.join(map(toml_text, column.order))}]")
    if column.domain is not None:
        lines.append(f"domain = [{column.domain[0]!r}, {column.domain[1]!r}]")
    if column.tree is not None:
        tree = column.tree if BUILT_IN.match(column.tree) else os.path.relpath(column.tree, folder)
        lines.append(f"tree = {toml_text(tree)}")
    if column.label:
        lines.append(f"label = {toml_text(column.label)}")
    if column.pseudonym:
        lines.append("pseudonym = true")
    if column.facts is not None:
        lines.append(f"facts = {column.facts}")
    if column.shift is not None:
        lines.append(f"shift = {{by = {toml_text(column.shift.by)}, days = {column.shift.days}}}")
    if column.design is not None:
        lines.append(f"design = {toml_text(column.design)}")
    if column.words:
        lines += ["", f"[columns.{toml_key(column.name)}.words]"]
        lines += [f"{toml_key(word)} = [{', '.join(map(repr, corners))}]" for word, corners in column.words.items()]
    return "\n" + "\n".join(lines) + "\n"


def toml_key(name: str) -> str:
    """Format a key of a TOML file, with quotes if it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_text(name)


def toml_text(text: str) -> str:
    """Format a TOML basic string, with quotes, backslashes and control characters escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda sign: f"\\u{ord(sign[0]):04x}", escaped) + '"'
