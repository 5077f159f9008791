"""Split a table at random into rows to release and a holdout: people who never took part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sfumato.params import require_share
from sfumato.randomness import Randomness
from sfumato.table.frames import as_table

if TYPE_CHECKING:
    from sfumato.table.table import Table


class Holdout(NamedTuple):
    """A table in two parts, each with its rows in their original order."""

    kept: Table  # to be released
    other: Table  # the holdout, which is never released


def split_holdout(table: Any, share: float = 0.5, *, seed: int | None = None) -> Holdout:
    """Split off a random share of the rows as a holdout, before anything is anonymized.

    The holdout is a sample of the same population that holds none of the released people, so it can serve as the
    ``reference`` of :func:`sfumato.assess`.

    ``table``
        Anything that :func:`sfumato.read` returns, or a pandas, polars or Arrow table.
    ``share``
        Share of the rows that go to the holdout, from 0 to 1.
    ``seed``
        For tests; by default the split is different each time.

    Example: ``kept, other = sf.split_holdout(table, 0.5)``.
    """
    require_share(share, name="share")
    whole = as_table(table)
    order = Randomness(seed).stream("holdout").permutation(whole.rows)
    size = round(share * whole.rows)
    return Holdout(kept=whole.take(np.sort(order[size:])), other=whole.take(np.sort(order[:size])))
