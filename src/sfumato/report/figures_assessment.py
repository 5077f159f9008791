"""The pictures of an assessment: privacy against the reference, and the leading kernel components in pairs.

They are drawn from the original's people, so they stay with whoever may see the original.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.report.figures_measures import components, distributions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sfumato.measures.comparison import Comparison


@dataclass(frozen=True, repr=False)
class Pictures:
    """What can be drawn of a release and its original."""

    privacy: Figure
    components: Figure | None  # None where the original has nothing that varies


def pictures(comparison: Comparison, *, word: str = "release") -> Pictures:
    """Measure what the pictures show and draw them; the release is called by its ``word``."""
    from sfumato.measures.privacy.reference import reference_prediction
    from sfumato.measures.utility.kernel_components import KernelComponents, component_tests

    draw = comparison.draw("kernel components")
    kernel = KernelComponents.of(comparison.original_matrix, draw=draw)
    tests = component_tests(kernel, comparison.original_matrix, comparison.released_matrix, draw)
    before, after = kernel.project(comparison.original_matrix), kernel.project(comparison.released_matrix)
    return Pictures(
        privacy=distributions({word: comparison.found.released}, reference_prediction(comparison)),
        components=components(before, after, tests, word=word) if tests else None,
    )
