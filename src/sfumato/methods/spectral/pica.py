"""Partitioned ICA swapping: independent components, swapped within spectral clusters (TL §5.1, Figure 5-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from sfumato.errors import OptionError
from sfumato.methods.matrix import MatrixMethod, MatrixPlan, MatrixSetup
from sfumato.methods.spectral.bases import independent
from sfumato.methods.spectral.clusters import Clustering, side_by_side
from sfumato.methods.spectral.restore import MARGINALS, Marginals, with_marginals, with_shares
from sfumato.methods.spectral.swap import Swap, Variant
from sfumato.params import require_choice, require_int

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.survey.survey import Survey


@dataclass(frozen=True, kw_only=True)
class PartitionedIca(MatrixMethod):
    """Swap independent components within clusters of similar people: relations of any form stay, rows are nobody's.

    Smaller clusters keep more of the structure and hide people less: with ``cluster_size="auto"`` they are as small as
    they can be while prediction distance, ambiguity and uncertainty stay those of people who are not in the table.
    Clusters under about 50 rows tell who was in the table; ``floor`` keeps them from that.
    """

    name: ClassVar[str] = "pica"

    cluster_size: int | Literal["auto"] = 200  # rows a cluster should have on average
    floor: int = 50  # rows a cluster must have
    repair: bool = False  # keep mean and covariance of every cluster exactly, in the matrix
    variant: Variant = "permute"  # "flip": random signs; "orthogonal": random directions
    winsorise: float = 0.0  # share of each tail of the components drawn in before the swap
    marginals: Marginals = "free"  # "restored": bring back each column's own distribution

    def __post_init__(self) -> None:
        MatrixMethod.__post_init__(self)
        require_int(self.floor, name="floor", at_least=2)
        require_choice(self.marginals, name="marginals", choices=MARGINALS)
        if self.cluster_size != "auto":
            require_int(self.cluster_size, name="cluster_size", at_least=2)
            if self.cluster_size < self.floor:
                raise OptionError(
                    "cluster_size must not be below floor.",
                    found=f"{self.cluster_size} and {self.floor}",
                    fix="a larger cluster_size; a smaller floor lets an intruder tell who was in the table",
                )
        _ = self.swap  # checks its own options

    @property
    def swap(self) -> Swap:
        """How the components are swapped: as the draw falls, because clusters have few rows a component."""
        drawn = None if self.variant == "flip" else 1.0
        return Swap(variant=self.variant, repair=self.repair, tolerance=drawn, winsorise=self.winsorise)

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> PicaPlan:
        """Decide the size of the clusters."""
        ground = self.ground(survey, schema, randomness)
        if self.cluster_size != "auto":
            return PicaPlan(ground, self, int(self.cluster_size))
        from sfumato.methods.spectral.auto import smallest_private_size

        sample = survey.sample(ground.code.names)
        size = smallest_private_size(lambda size: PicaPlan(ground, self, size), sample, ground, self.floor)
        return PicaPlan(ground, self, size)


@dataclass(frozen=True, repr=False)
class PicaPlan(MatrixPlan):
    """Cluster each block and swap the independent components of every cluster."""

    ground: MatrixSetup
    method: PartitionedIca
    size: int

    def change(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        randomness = self.ground.randomness
        clustering = Clustering(size=self.size, floor=min(self.method.floor, self.size))
        labels = clustering(matrix, randomness.stream(f"clusters {number}"))
        order = np.argsort(labels, kind="stable")
        clusters = np.split(order, np.cumsum(np.bincount(labels))[:-1])
        draws = randomness.stream(f"swap {number}").spawn(len(clusters))
        changed = np.empty_like(matrix)

        def swap(cluster: int) -> None:
            rows = clusters[cluster]
            basis = independent(matrix[rows], draws[cluster])
            changed[rows] = basis.matrix(self.method.swap(basis.scores, draws[cluster]))

        side_by_side(swap, range(len(clusters)))
        restored = self.method.marginals == "restored" and self.ground.decoding == "largest"
        return with_shares(changed, matrix, self.ground.code) if restored else changed

    def settle(self, before: NDArray[np.float64], after: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        if self.method.marginals == "restored":
            after = with_marginals(after, before, self.ground.randomness.stream(f"marginals {number}"))
        return super().settle(before, after, number)

    @property
    def notes(self) -> Mapping[str, object]:
        return {**super().notes, "cluster size": self.size, "floor": self.method.floor}
