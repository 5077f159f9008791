"""Partitioned ICA swapping: independent components, swapped within spectral clusters (TL §5.1, Figure 5-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from sfumato.errors import OptionError
from sfumato.methods.components.bases import independent
from sfumato.methods.components.clusters import Clustering, SizeChoice, side_by_side
from sfumato.methods.options import reported_option
from sfumato.methods.spectral.swap import ScoreSwap, ScoreSwapPlan, SwapMethod
from sfumato.params import Checked, Choice, Flag, Whole, require_int
from sfumato.table.groups import rows_by_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema


Pieces = Literal["clusters", "charts"]
PIECES: tuple[Pieces, ...] = ("clusters", "charts")


def _require_cluster_size(value: object, name: str) -> None:
    if value != "auto":
        require_int(value, name=name, at_least=2)


@dataclass(frozen=True, kw_only=True)
class PartitionedIca(SwapMethod):
    """Swap independent components within clusters of similar people: nonlinear relations are kept, too.

    Smaller clusters keep more of the structure and protect people less. With ``cluster_size="auto"`` they are as small
    as possible while prediction distance, ambiguity and uncertainty are not below those of people who are not in the
    table. Rows are not filtered. A row that equals somebody's occurs more often for people who took part than for
    others, the more so the smaller the clusters are, because clusters follow their people. The method promises no
    privacy: assess the release, with a holdout. (Lasko.)

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = dict(zip("xy", np.random.default_rng(0).normal(size=(2, 200))))
    >>> sf.PartitionedIca(cluster_size=100).release(people, schema={"x": "quasi", "y": "quasi"}).table.rows
    200
    """

    name: ClassVar[str] = "pica"
    theory: ClassVar[str] = "spectral"
    manifest_notes: ClassVar[Mapping[str, str]] = {
        **SwapMethod.manifest_notes,
        "cluster size": "average number of rows per cluster",
        "choice of the cluster size": "why this size was chosen",
        "floor": "smallest number of rows in a cluster",
        "pieces": "whether components were swapped in clusters or in charts that overlap",
    }

    cluster_size: int | Literal["auto"] = reported_option(
        Checked('whole number of rows, at least 2, or "auto"', _require_cluster_size),
        'Average number of rows in a cluster, or "auto" for the smallest size that is private.',
        default=200,
        strengths=(60, 100, 200, 400, 800),
    )
    floor: int = reported_option(
        Whole(at_least=2),
        "Smallest number of rows in a cluster. The smaller a cluster is, the more it reveals who is in the table.",
        default=50,
        unit="rows",
    )
    pieces: Pieces = reported_option(
        Choice(PIECES),
        'Whose components are swapped: those of the rows of a cluster ("clusters"), or those of the rows near one of '
        'many anchors ("charts"), where each row is near five, so that there are no borders.',
        default="clusters",
    )
    repair: bool = reported_option(
        Flag(), "Keep the mean and covariance of every cluster exactly, in the units of the matrix.", default=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cluster_size != "auto" and self.cluster_size < self.floor:
            raise OptionError(
                "cluster_size must be at least floor.",
                found=f"cluster_size {self.cluster_size}, floor {self.floor}",
                fix="a larger cluster_size; a smaller floor would reveal more about who is in the table",
            )

    @property
    def swap(self) -> ScoreSwap:
        """How the components are swapped: without a limit on correlations, as clusters have few rows per component."""
        tolerance = None if self.variant == "flip" else 1.0
        return ScoreSwap(variant=self.variant, repair=self.repair, tolerance=tolerance, winsorise=self.winsorise)

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> PicaPlan:
        """Choose the size of the clusters."""
        setup = self.setup(survey, schema, randomness)
        if self.cluster_size != "auto":
            return PicaPlan(setup, self, int(self.cluster_size))
        from sfumato.methods.components.clusters import smallest_private_size

        sample = survey.sample.table.select(setup.encoder.names)
        choice = smallest_private_size(lambda size: PicaPlan(setup, self, size), sample, setup, self.floor)
        return PicaPlan(setup, self, choice.size, choice)


@dataclass(frozen=True, repr=False)
class PicaPlan(ScoreSwapPlan):
    """Cluster each block and swap the independent components of every cluster."""

    method: PartitionedIca
    size: int
    choice: SizeChoice | None = None  # how the size was chosen; None if it was given

    def swap_components(
        self, matrix: NDArray[np.float64], filled: NDArray[np.float64], number: int
    ) -> NDArray[np.float64]:
        randomness = self.setup.randomness
        floor = min(self.method.floor, self.size)
        if self.method.pieces == "charts":
            from sfumato.methods.components.surface import swap_in_charts

            generator = randomness.stream(f"charts {number}")
            return swap_in_charts(matrix, filled, self.method.swap, generator, size=self.size, floor=floor)
        clustering = Clustering(size=self.size, floor=floor)
        # drawn numbers say nothing about the similarity of people
        labels = clustering(matrix, randomness.stream(f"clusters {number}"))
        clusters = rows_by_label(labels)
        generators = randomness.stream(f"swap {number}").spawn(len(clusters))
        changed = np.empty_like(matrix)

        def swap(cluster: int) -> None:
            rows = clusters[cluster]
            basis = independent(filled[rows], generators[cluster])
            changed[rows] = basis.matrix(self.method.swap(basis.scores, generators[cluster]))

        side_by_side(swap, range(len(clusters)))
        return changed

    @property
    def notes(self) -> Mapping[str, object]:
        chosen = {} if self.choice is None else {"choice of the cluster size": self.choice.reason}
        own = {"cluster size": self.size, "floor": self.method.floor, "pieces": self.method.pieces}
        return {**super().notes, **own, **chosen}
