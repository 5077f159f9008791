"""Numbers as cells of a column: floats, whole numbers, dates or times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray


def number_column(numbers: NDArray[np.float64], kind: Kind, type: pa.DataType) -> pa.Array:
    """Return numbers as a column of this kind, dates in this type; NaN becomes missing.

    Unless the kind is continuous, the numbers must be whole.

    Examples
    --------
    >>> number_column(np.array([1.0, np.nan]), Kind.WHOLE, pa.int64()).to_pylist()
    [1, None]
    """
    empty = np.isnan(numbers)
    if kind is Kind.CONTINUOUS:
        return pa.array(numbers, mask=empty)
    whole = pa.array(np.where(empty, 0.0, numbers).astype(np.int64), mask=empty)
    if kind is Kind.WHOLE:
        return whole
    if pa.types.is_date(type):
        return whole.cast(pa.int32()).cast(pa.date32())
    return whole.cast(pa.timestamp("us", tz=type.tz))
