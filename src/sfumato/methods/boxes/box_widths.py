"""The widths of boxes along all axes, with and without trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.methods.boxes.axes import Axes


def box_widths(axes: Axes, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the widths of boxes from their lowest and highest coordinates, one column per axis.

    The width along an axis with a tree is that of the covering node.
    """
    from sfumato.kernels.covering import covering_widths, trees_of

    widths, trees = high - low, trees_of([axis.steps for axis in axes.all])
    for position, axis in enumerate(axes.all):
        if axis.steps is not None:
            widths[:, position] = covering_widths(trees, position, low[:, position], high[:, position])
    return widths
