"""Linkability: whether two halves of a person's columns lead to the same released row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.neighbours import nearest
from sfumato.measures.permutation import excess
from sfumato.measures.privacy.attacks.risk import AttackRisk

if TYPE_CHECKING:
    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.release.assessment import Score

LINKED_PEOPLE = 2000  # people attacked on each side
PAIRS = 2 * 10**9  # largest number of distances computed


def linkability_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the risk of being linked; nothing without a reference or with a single column.

    The columns are split at random into two halves. An attack succeeds if both halves have the same nearest row.
    """
    if subject.others is None or subject.reference_matrix is None or len(subject.names) < 2:
        return
    generator = subject.generator("linkability")
    names = generator.permutation(list(subject.names))
    first = np.concatenate([subject.code.columns(name) for name in names[: len(names) // 2]])
    second = np.setdiff1d(np.arange(subject.code.width), first)
    targets = max(50, min(LINKED_PEOPLE, PAIRS // (4 * len(subject.rows))))
    inside = subject.original_matrix[generator.permutation(len(subject.original_matrix))[:targets]]
    outside = subject.reference_matrix[generator.permutation(len(subject.reference_matrix))[:targets]]
    people, released = np.concatenate([inside, outside]), subject.released_matrix
    ends = [nearest(people[:, half], released[:, half], 1).index[:, 0] for half in (first, second)]
    linked = np.asarray(ends[0] == ends[1])
    within, without = linked[: len(inside)], linked[len(inside) :]
    risk = AttackRisk.of(int(within.sum()), len(within), int(without.sum()), len(without))
    note = "both halves of the columns have the same nearest row"
    yield risk.score("linkability", note, excess(within, without, generator))
