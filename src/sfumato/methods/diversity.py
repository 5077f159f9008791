"""How many values of a sensitive column each group needs: the default of ℓ, and whether it can be afforded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import CannotRelease
from sfumato.plan.questions import Answers, Distinct, DistinctIn
from sfumato.schema.columns import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table

DEFAULT_L = 2  # default ℓ if there is a sensitive column
AFFORDABLE = 0.5  # the default ℓ must allow at least this share of the groups that k alone allows
MOST_FREQUENT = 1000  # most frequent values of a sensitive column that are counted for this check


def default_questions(l: int | None, schema: Schema) -> list[DistinctIn]:
    """Return the survey questions about the sensitive columns that are needed if ℓ is not given."""
    return [DistinctIn(name, MOST_FREQUENT) for name in schema.names(Role.SENSITIVE)] if l is None else []


def choose_l(l: int | None, k: int, rows: int, schema: Schema, answers: Answers) -> int:
    """Return ℓ as given or, by default, 2 if there is a sensitive column and 1 otherwise.

    Raise if the default would cost too much: every group then needs a record without the most common value of a
    sensitive column, so there cannot be more groups than such records.
    """
    if l is not None:
        return l
    for asked in default_questions(l, schema):
        _require_affordable(asked.column, answers[asked], rows, k)
    return DEFAULT_L if schema.names(Role.SENSITIVE) else 1


def require_enough_values(l: int, schema: Schema, table: Table) -> None:
    """Raise if a sensitive column of the whole table has fewer than ℓ values; a missing one is a value."""
    for name in schema.names(Role.SENSITIVE):
        values = table.coded(name).size
        if values < l:
            raise CannotRelease(
                f"l = {l} needs at least {l} different values of {name!r}.",
                found=f"{values}",
                fix=f"--l {max(values, 1)}, or another role for {name!r}",
            )


def _require_affordable(name: str, distinct: Distinct, rows: int, k: int) -> None:
    uncommon = rows - int(distinct.counts.max(initial=0))
    wanted = rows // k
    if uncommon >= AFFORDABLE * wanted:
        return
    alone, two, more = _shares_by_values(distinct.counts, rows, k)
    raise CannotRelease(
        f"With l = {DEFAULT_L}, the default for a sensitive column, every group must have two values of {name!r}. This "
        "would make groups very large.",
        found=f"at most {uncommon:,} groups instead of about {wanted:,}, because only {uncommon:,} of {rows:,} rows "
        f"differ from its most common value; without l, about {alone:.0%} of the people would be in a group with 1 "
        f"value, {two:.0%} with 2 and {more:.0%} with more",
        fix=f"l=1 (--l 1), which does not protect {name!r} within a group, or another role for {name!r}",
    )


def _shares_by_values(counts: NDArray[np.int64], rows: int, k: int) -> tuple[float, float, float]:
    """Estimate the shares of people in groups of k random records with 1, 2 and more different values."""
    rest = rows - int(counts.sum())  # rows whose values are too rare to be listed
    shares = np.append(counts, rest) / rows
    drawn = np.random.default_rng(0).multinomial(k, shares / shares.sum(), 4096)
    values = (drawn > 0).sum(axis=1)
    return float((values == 1).mean()), float((values == 2).mean()), float((values > 2).mean())
