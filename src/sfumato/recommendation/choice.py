"""Choose a method by rules: roles and kinds of the columns, the number of rows and wanted statistics, with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import SchemaError, TableError
from sfumato.recommendation.records import Alternative
from sfumato.schema.columns import Role

if TYPE_CHECKING:
    from sfumato.schema.schema import Schema
    from sfumato.statistics.statistic import Statistic
    from sfumato.table.kinds import Kind


USUAL_K, SMALL_K = 5, 3
SMALL = 50  # rows below which groups of 5 are too few to describe the table
L = 2
MOST_NAMED = 5  # columns that a sentence names


@dataclass(frozen=True, kw_only=True)
class Preferences:
    """What the user asks for; None leaves a choice open."""

    keep: tuple[Statistic, ...] = ()
    k: int | None = None
    l: int | None = None
    population: int | None = None
    risk: float | None = None  # accepted probability that the right one of k people is picked, from which k follows


@dataclass(frozen=True, kw_only=True)
class ChosenMethod:
    """A method with options and reasons."""

    method: str
    options: Mapping[str, Any]
    reasons: tuple[str, ...]
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A table as a recommendation sees it: its size, and the roles and kinds of its columns."""

    rows: int
    schema: Schema
    kinds: Mapping[str, Kind]
    codes: tuple[str, ...] = ()  # quasi-identifiers without a tree whose values are codes

    @property
    def quasi(self) -> tuple[str, ...]:
        """Quasi-identifiers."""
        return self.schema.names(Role.QUASI)

    @property
    def sensitive(self) -> tuple[str, ...]:
        """Sensitive columns."""
        return self.schema.names(Role.SENSITIVE)

    @property
    def numeric(self) -> tuple[str, ...]:
        """Quasi-identifiers that are numbers or dates."""
        return tuple(name for name in self.quasi if self.kinds[name].is_numeric)

    @property
    def all_have_trees(self) -> bool:
        """Whether every quasi-identifier declares a generalization tree."""
        return all(self.schema[name].tree for name in self.quasi)


def choose(table: Situation, wanted: Preferences) -> ChosenMethod:
    """Choose by the roles, the kinds, the number of rows and the wanted statistics."""
    _require_work(table)
    k = wanted.k or (USUAL_K if table.rows >= SMALL else SMALL_K)
    method, why = _method(table, wanted)
    options: dict[str, Any] = {"k": k}
    reasons = [*_about_roles(table), why, _about_k(k, table, wanted)]
    if table.sensitive:
        options["l"] = min(wanted.l or L, k)
        reasons.append(
            f"l = {options['l']}: a group has {options['l']} or more different values of {_join(table.sensitive)}, so "
            "that membership of a group does not give the value away."
        )
    if method == "generalize":
        options["population"] = wanted.population
    if method == "boxes" and wanted.keep:
        options["keep"] = [str(one) for one in wanted.keep]
        reasons += _about_kept(table, wanted)
    reasons += _about_width(table, wanted, k) if method == "boxes" else []
    reasons += _about_trees(table)
    return ChosenMethod(
        method=method, options=options, reasons=tuple(reasons), alternatives=_alternatives(table, method)
    )


def _require_work(table: Situation) -> None:
    if not table.quasi:
        raise SchemaError(
            "A recommendation needs at least one quasi-identifier; otherwise there is nothing to protect.",
            found="none",
            fix="give the role 'quasi' to columns that others may know",
        )
    if table.rows < 2 * SMALL_K:
        raise TableError(f"A recommendation needs at least {2 * SMALL_K} rows.", found=f"{table.rows} rows")


def _method(table: Situation, wanted: Preferences) -> tuple[str, str]:
    """Return the method, and why."""
    if wanted.keep:
        return "boxes", (
            "boxes: the partition is made for the statistics to keep, and each gets an interval that is certain to "
            "contain its true value."
        )
    if wanted.population is not None:
        return "generalize", (
            f"generalize: the people of the table are among {wanted.population:,} people, so that a row need not have "
            "k equals in the table, only in that population."
        )
    if table.all_have_trees:
        return "recode", (
            "recode: every protected column has a generalization tree, so values are replaced by nodes of these trees; "
            "the best combination of levels is found."
        )
    if len(table.quasi) == 1 and table.numeric and not table.sensitive:
        return "optimal-groups", (
            f"optimal-groups: only {table.quasi[0]!r} is protected and it is numeric, so the best groups of all are "
            "found exactly."
        )
    return "boxes", (
        "boxes: numbers are released as ranges and categories as sets, so that every statistic has an interval that is "
        "certain to contain its true value."
    )


def _about_roles(table: Situation) -> list[str]:
    removed = table.schema.names(Role.IDENTIFIER)
    parts = [f"{_count(table.quasi, 'quasi-identifier')} protected: {_join(table.quasi)}."]
    if table.sensitive:
        parts.append(f"{_count(table.sensitive, 'sensitive column')} released unaltered: {_join(table.sensitive)}.")
    if removed:
        parts.append(f"{_count(removed, 'identifier')} removed: {_join(removed)}.")
    return [" ".join(parts)]


def _about_k(k: int, table: Situation, wanted: Preferences) -> str:
    if wanted.risk is not None:
        return (
            f"k = {k}: the right one of {k} people who look alike is picked with probability 1/{k}, which is within "
            f"the accepted risk of {wanted.risk:g}."
        )
    if wanted.k:
        return f"k = {k}: as you asked."
    if k == SMALL_K:
        return f"k = {k}: with {table.rows:,} rows, groups of {USUAL_K} would be too few to describe the table."
    return (
        f"k = {k}: nobody can be told apart from {k - 1} others, the usual choice for known recipients; for open "
        "publication 10 to 20 is usual."
    )


def _about_kept(table: Situation, wanted: Preferences) -> list[str]:
    """Say which columns of the kept statistics cost accuracy, and which do not."""
    columns = tuple(dict.fromkeys(name for one in wanted.keep for name in one.columns))
    protected = tuple(name for name in columns if name in table.quasi)
    exact = tuple(name for name in columns if name not in protected)
    reasons = [f"keep: boxes are narrow in {_join(protected)}, and wider elsewhere."] if protected else []
    return reasons + ([f"{_join(exact)} released exactly, which costs no accuracy."] if exact else [])


def _about_width(table: Situation, wanted: Preferences, k: int) -> list[str]:
    """Warn if there are too few groups to cut every protected column once."""
    groups, cut = table.rows // k, len(table.quasi)
    if groups >= 2.0**cut:
        return []
    wide = "columns without a kept statistic" if wanted.keep else "all columns"
    named = (
        "" if wanted.keep else " Name the statistics that matter by --keep: boxes are then narrow where they need it."
    )
    return [
        f"{groups:,} groups of {k} rows are too few to cut each of {cut} protected columns once, so ranges of {wide} "
        f"are wide.{named} Columns that nobody outside can know need no protection: make them sensitive or other."
    ]


def _about_trees(table: Situation) -> list[str]:
    if not table.codes:
        return []
    return [
        f'{_join(table.codes)}: codes whose first characters tell the same more broadly. With tree = "prefix" in a '
        "schema file, which `sfumato schema` writes, similar codes stay together."
    ]


def _alternatives(table: Situation, method: str) -> tuple[Alternative, ...]:
    reasons = {
        "boxes": "ranges instead of single values, and intervals that are certain",
        "mdav": "one value per cell instead of a range, k-anonymous; intervals are not certain",
        "private-boxes": "a promise that holds whatever an intruder knows, by noise; intervals of a stated probability",
        "private-synthesis": "rows drawn from noisy counts, with the same promise; domains have to be declared",
        "svd-swap": "rows that look like the original, with its means and covariances, but no guarantee: assess them",
        "synthesize": "rows drawn from a model, but no guarantee: assess them",
    }
    if len(table.numeric) < 2:
        del reasons["svd-swap"]
    return tuple(Alternative(method=name, reason=reason) for name, reason in reasons.items() if name != method)


def _count(names: Sequence[str], what: str) -> str:
    return f"{len(names)} {what} is" if len(names) == 1 else f"{len(names)} {what}s are"


def _join(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join([*names[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])])
