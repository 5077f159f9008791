"""What recoding and suppression lose, from counts alone: the losses that a search over recodings minimises.

Recoding replaces a value by a node of a tree, which covers several values of the column's domain. A suppressed cell is
the root, which covers the whole domain. Counts of parts of a table add up, so every loss can be computed in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def discernibility(sizes: NDArray[np.int64], suppressed: int = 0) -> float:
    """Return Σ size² over the groups, plus rows × suppressed rows: the number of rows that each row resembles.

    Suppressed rows are not in ``sizes``, and each resembles all rows (Bayardo and Agrawal 2005, eq. 1). From rows (all
    different) to rows² (all equal).

    Examples
    --------
    >>> import numpy as np
    >>> discernibility(np.array([2, 3]), suppressed=1)
    19.0
    """
    as_floats = np.asarray(sizes, dtype=np.float64)  # squares of large groups do not fit into 64 bits
    return float((as_floats**2).sum() + suppressed * (as_floats.sum() + suppressed))


def average_class_size(sizes: NDArray[np.int64], k: int = 1, suppressed: int = 0) -> float:
    """Return rows / groups / k, at least 1 for a k-anonymous table (LeFevre et al. 2006, C_AVG).

    Suppressed rows form one more group.

    Examples
    --------
    >>> import numpy as np
    >>> average_class_size(np.array([2, 4]), k=2)
    1.5
    """
    return float((np.sum(sizes) + suppressed) / (len(sizes) + (suppressed > 0)) / k)


def mean_covered(covered: NDArray[np.int64], domain: int, rows: NDArray[np.int64] | None = None) -> float:
    """Return the mean share of the domain that the cells of a column cover, from 1/domain to 1.

    ``covered`` are the numbers of values below the nodes, and ``rows`` the number of rows of each; one if not given.
    """
    return float(np.average(covered, weights=rows)) / domain


def granularity_loss(shares: Sequence[float], domains: Sequence[float]) -> float:
    """Return the mean share of the domain that a cell covers beyond a single value, from 0 to 1 (Iyengar 2002).

    ``shares`` are the :func:`mean_covered` of the columns, and ``domains`` the numbers of their values. ARX reports
    1 − this loss as granularity. Columns whose domain is one value lose nothing.

    Examples
    --------
    >>> import numpy as np
    >>> ages = mean_covered(np.array([1, 1, 5]), domain=10)  # two ages as they are, one as a node of 5 ages
    >>> round(granularity_loss([ages], [10]), 3)
    0.148
    """
    least = float(np.mean([1.0 / domain for domain in domains]))
    return (float(np.mean(shares)) - least) / (1.0 - least) if least < 1.0 else 0.0


def precision_loss(levels: Sequence[float], heights: Sequence[int]) -> float:
    """Return the mean of level / height of the tree over the columns, from 0 to 1 (Sweeney 2002).

    ``levels`` are the mean levels of the cells of each column, and ``heights`` the levels of the roots.
    """
    return float(np.mean([level / height if height else 0.0 for level, height in zip(levels, heights, strict=True)]))


def non_uniform_entropy(
    value_rows: NDArray[np.int64], node_rows: NDArray[np.int64], rows: NDArray[np.int64] | None = None
) -> float:
    """Return −Σ log₂ P(value | node) over the cells of a column: the bits that recoding loses (Gionis and Tassa 2009).

    ``value_rows`` is how often the original value of a cell occurs in the original column, and ``node_rows`` how often
    all values below its node do; ``rows`` is the number of cells of each pair. From 0 (not recoded) to the value with
    all ``node_rows`` equal to the rows of the table (all suppressed), by which it may be divided.

    Examples
    --------
    >>> import numpy as np
    >>> non_uniform_entropy(np.array([3, 1]), np.array([4, 4]), rows=np.array([3, 1])) / 4  # entropy of ¾, ¼
    0.8112781244591328
    """
    bits = np.log2(np.asarray(node_rows) / np.asarray(value_rows))
    return float(bits.sum() if rows is None else bits @ np.asarray(rows, dtype=np.float64))
