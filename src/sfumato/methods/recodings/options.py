"""Options that several methods of recoding have."""

from __future__ import annotations

from typing import Any

from sfumato.methods.recodings.quasi_columns import require_importance
from sfumato.params import Checked, Number, OrNone, option

SECONDS = 60.0


def importance_option(effect: str) -> Any:
    """Declare the option ``importance``; ``effect`` says what it changes."""
    return option(
        OrNone(Checked("number above 0 for each named column", lambda value, name: require_importance(value))),
        f"{effect} 1 for columns that are not named; None: 1 for all.",
        default=None,
        reported=True,
    )


def search_option() -> Any:
    """Declare the option ``search``, the time limit of a search."""
    return option(
        Number(above=0.0),
        "Longest time of the search. A search that ends earlier gives the same result every time.",
        default=SECONDS,
        unit="seconds",
        reported=True,
    )
