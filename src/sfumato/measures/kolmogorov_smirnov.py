"""The test of Kolmogorov and Smirnov between two samples: by chance, how often would they lie so far apart?"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def shift_p_value(
    ours: NDArray[np.float64],
    theirs: NDArray[np.float64],
    *,
    alternative: Literal["two-sided", "greater"] = "two-sided",
) -> float:
    """From 0 to 1. ``"greater"`` asks only whether the distribution function of ours lies above: ours are smaller.

    Exact for samples of up to 10,000, and by the limiting distribution beyond or where the exact sum breaks down.
    """
    from scipy.stats import ks_2samp

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="ks_2samp: Exact calculation unsuccessful", category=RuntimeWarning)
        return float(ks_2samp(ours, theirs, alternative=alternative).pvalue)
