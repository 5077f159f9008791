"""Options that several methods have, each declared once; a method says what it changes there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any, Literal

from sfumato.errors import OptionError
from sfumato.methods.search_budget import require_search
from sfumato.params import GROUP_SIZES, Checked, Choice, Number, OrNone, Range, Whole, option, require_number
from sfumato.table.encoder import require_logs

SECONDS = 60.0  # enough for exact recodings of about ten columns


def reported_option(
    range: Range, meaning: str, *, default: Any = MISSING, unit: str = "", strengths: tuple[Any, ...] = ()
) -> Any:
    """Declare an option whose value the manifest may report, because it says nothing about the original data."""
    return option(range, meaning, default=default, unit=unit, reported=True, strengths=strengths)


def group_size_option(meaning: str, *, at_least: int = 1, unit: str = "rows", default: Any = MISSING) -> Any:
    """Declare the option ``k``, by which a method protects more or less."""
    return reported_option(Whole(at_least=at_least), meaning, default=default, unit=unit, strengths=GROUP_SIZES)


def diversity_option(more: str = "") -> Any:
    """Declare the option ``l``, the diversity of sensitive columns; ``more`` says what else it does in a method."""
    return reported_option(
        OrNone(Whole(at_least=1)),
        "Smallest number of different values of each sensitive column in a group of rows that are equal in the "
        f"quasi-identifiers.{more} None: 2 if there is a sensitive column, else 1. 1: no requirement.",
        default=None,
        unit="values",
    )


def logs_option(meaning: str = "", default: str = "auto") -> Any:
    """Declare the option ``logs``, the columns that are log-transformed."""
    meaning = meaning or (
        'Columns to log-transform before the method is applied: skewed columns of positive numbers ("auto"), none '
        '("never"), or the named columns.'
    )
    range = Checked('"auto", "never" or a tuple of column names', lambda value, name: require_logs(value))
    return reported_option(range, meaning, default=default)


SpectralBasis = Literal["columns", "svd", "ica", "clusters"]
SPECTRAL_BASES: tuple[SpectralBasis, ...] = ("columns", "svd", "ica", "clusters")


def basis_option(effect: str) -> Any:
    """Declare the option ``basis``, in which a method works; ``effect`` says what it then does."""
    return reported_option(
        Choice(SPECTRAL_BASES),
        f'Basis in which the method works: the "columns" themselves; principal components ("svd") or independent '
        f'components ("ica") of all rows; or the independent components of each of the "clusters" of about 200 '
        f"similar rows. {effect}",
        default="columns",
    )


def budget_option(meaning: str) -> Any:
    """Declare the option ``search`` of a method that can be improved by a search."""
    range = OrNone(Checked("SearchBudget, or a number above 0", require_search))
    return reported_option(range, meaning, default=None, unit="seconds")


def search_option() -> Any:
    """Declare the option ``search`` of a method that is a search: its time limit."""
    return reported_option(
        Number(above=0.0),
        "Longest time of the search. A search that ends earlier gives the same result every time.",
        default=SECONDS,
        unit="seconds",
    )


def importance_option(effect: str) -> Any:
    """Declare the option ``importance``; ``effect`` says what it changes."""
    return reported_option(
        OrNone(Checked("number above 0 for each named column", lambda value, name: require_importance(value))),
        f"{effect} 1 for columns that are not named; None: 1 for all.",
        default=None,
    )


def require_importance(importance: Mapping[str, float] | None) -> None:
    """Raise unless ``importance`` maps columns to positive numbers, or is None."""
    if importance is None:
        return
    if not isinstance(importance, Mapping):
        raise OptionError(
            "importance must map columns to numbers.",
            found=type(importance).__name__,
            fix="""importance={"age": 2}, on the command line --option 'importance={"age": 2}'""",
        )
    for name, number in importance.items():
        require_number(number, name=f"the importance of {name!r}", above=0.0)


def importance_of(importance: Mapping[str, float] | None, names: tuple[str, ...]) -> dict[str, float]:
    """Return the importance of each quasi-identifier, 1 if it is not named; raise if another column is named."""
    unknown = [name for name in importance or {} if name not in names]
    if unknown:
        raise OptionError(
            "Only quasi-identifiers can have an importance.",
            found=f"importance of {', '.join(map(repr, unknown))}",
            fix=f"give the importance of {', '.join(map(repr, names))} only",
        )
    return {name: (importance or {}).get(name, 1.0) for name in names}
