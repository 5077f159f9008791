"""A random split of a table into rows to release and a holdout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sfumato.params import require_share
from sfumato.randomness import Randomness
from sfumato.table.frames import as_table

if TYPE_CHECKING:
    from sfumato.table.table import Table


class Holdout(NamedTuple):
    """The two parts of a table, each with its rows in their original order.

    Attributes
    ----------
    kept : Table
        The rows to release.
    other : Table
        The holdout, which must not be released.
    """

    kept: Table
    other: Table


def split_holdout(table: Any, share: float = 0.5, *, seed: int | None = None) -> Holdout:
    """Split off a random share of the rows as a holdout, before anything is anonymized.

    The holdout is a sample of the same population without the released people, so it can be used as the ``reference``
    of :func:`sfumato.assess`.

    Parameters
    ----------
    table : Table, path or data frame
        Anything that :func:`sfumato.read` accepts or returns, or a pandas, polars or Arrow table.
    share : float, default 0.5
        Share of the rows that go to the holdout, from 0 to 1.
    seed : int, optional
        Seed that makes the split repeatable, for tests. Default: random numbers from the operating system.

    Returns
    -------
    Holdout
        A named tuple of two tables: ``kept``, the rows to release, and ``other``, the holdout.

    Examples
    --------
    >>> import sfumato as sf
    >>> kept, other = sf.split_holdout({"age": range(100)}, 0.3)
    >>> kept.rows, other.rows
    (70, 30)
    """
    require_share(share, name="share")
    whole = as_table(table)
    order = Randomness(seed).stream("holdout").permutation(whole.rows)
    size = round(share * whole.rows)
    return Holdout(kept=whole.take(np.sort(order[size:])), other=whole.take(np.sort(order[:size])))
