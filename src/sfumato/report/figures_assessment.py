"""The pictures of an assessment: privacy against the reference, and the leading kernel components in pairs.

They are drawn from the original's people, so they stay with whoever may see the original.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.report.figures_measures import components, distributions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sfumato.measures.measured_release import MeasuredRelease


@dataclass(frozen=True, repr=False)
class Pictures:
    """What can be drawn of a release and its original."""

    privacy: Figure
    components: Figure | None  # None where the original has nothing that varies


def pictures(subject: MeasuredRelease, *, word: str = "release") -> Pictures:
    """Measure what the pictures show and draw them; the release is called by its ``word``."""
    from sfumato.measures.privacy.reference import reference_prediction
    from sfumato.measures.utility.kernel_components import KernelComponents, component_tests

    draw = subject.draw("kernel components")
    kernel = KernelComponents.of(subject.original_matrix, draw=draw)
    tests = component_tests(kernel, subject.original_matrix, subject.released_matrix, draw)
    before, after = kernel.project(subject.original_matrix), kernel.project(subject.released_matrix)
    return Pictures(
        privacy=distributions({word: subject.found.released}, reference_prediction(subject)),
        components=components(before, after, tests, word=word) if tests else None,
    )
