"""Data shuffling: the values of each column in the order of a multivariate normal (Muralidhar and Sarathy 2006)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.methods.base import Method
from sfumato.methods.classical.moved_cells import MovedCells, MovedCellsPlan
from sfumato.methods.classical.shuffled_ranks import (
    RankedColumn,
    latent_scores,
    normal_correlations,
    possible_correlations,
    rank_correlations,
    ranked_columns,
)
from sfumato.params import Checked, option, require_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.survey.survey import Survey
    from sfumato.table.table import Table


ROUNDS = 12  # largest number of times that the correlations are adjusted
CLOSE = 0.001  # difference of rank correlations that needs no further round
NEGLIGIBLE = 1e-10  # an eigenvalue below this share of the largest is a rounding error


@dataclass(frozen=True, kw_only=True)
class Shuffle(Method):
    """Put the values of each column in the order of a multivariate normal with the rank correlations of the table.

    Every column keeps its values, each as often, and pairs of columns keep their rank correlations. Relations that rank
    correlations do not describe are lost. The order is drawn independently of the rows, so that a released row stands
    for nobody; with ``given``, only depending on these columns, which stay as they are. Missing cells move like a value
    of their own, and categories without an order are ordered by the other columns.

    Released cells are cells of the original, so that extreme values stay visible: the method promises no privacy.
    (Muralidhar and Sarathy.)

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> x = np.random.default_rng(0).normal(size=500)
    >>> people = {"x": x, "y": x + np.random.default_rng(1).normal(size=500)}
    >>> shuffled = sf.Shuffle().release(people, schema={"x": "quasi", "y": "quasi"}, seed=1)
    >>> bool(np.array_equal(np.sort(shuffled.table.numbers("x")), np.sort(x)))
    True
    >>> bool(np.corrcoef(shuffled.table.numbers("x"), shuffled.table.numbers("y"))[0, 1] > 0.6)
    True
    """

    name: ClassVar[str] = "shuffle"
    theory: ClassVar[str] = "shuffling"
    manifest_notes: ClassVar[Mapping[str, str]] = {"shuffled columns": "columns whose cells were put in another order"}

    given: tuple[str, ...] = option(
        Checked("list of column names", require_names),
        "Columns that stay as they are. The other columns keep their rank correlations with them.",
        default=(),
        reported=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "given", tuple(self.given))

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> ShufflePlan:
        """Make the plan; the normal columns are drawn when a block is transformed."""
        return ShufflePlan(MovedCells.of(survey, schema, randomness, staying=self.given))


@dataclass(frozen=True, repr=False)
class ShufflePlan(MovedCellsPlan):
    """Shuffle each block; ranks and their correlations are those among its rows."""

    def sources(self, block: Table, number: int) -> dict[str, NDArray[np.int64]]:
        generator = self.setup.randomness.stream(f"shuffle {number}")
        columns = dict(zip(block.names, ranked_columns(block, generator), strict=True))
        moving = [columns[name] for name in self.setup.moving]
        given = [columns[name] for name in block.names if name not in self.setup.moving]
        return dict(zip(self.setup.moving, shuffled(moving, given, generator), strict=True))

    @property
    def notes(self) -> Mapping[str, Any]:
        return {"shuffled columns": list(self.setup.moving)}


def shuffled(
    moving: list[RankedColumn], given: list[RankedColumn], generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return, for each moving column, the row from which each row gets its cell.

    The correlations of the normal columns are adjusted until the rank correlations of the result are those of the
    table; the result with the smallest mean difference is returned.
    """
    ranks = [rank for column in moving for rank in column.latent]
    fixed = [rank for column in given for rank in column.latent]
    wanted = rank_correlations(np.column_stack([*ranks, *fixed]))
    latent = _Latent.drawn(len(ranks), np.column_stack(fixed) if fixed else None, len(ranks[0]), generator)
    correlations = possible_correlations(normal_correlations(wanted))
    best, least = [], np.inf
    for _ in range(ROUNDS):
        sources = _sources(moving, latent.columns(correlations))
        after = [rank[source] for one, source in zip(moving, sources, strict=True) for rank in one.latent]
        difference = wanted - rank_correlations(np.column_stack([*after, *fixed]))
        error = float(np.abs(difference[: len(ranks)]).mean())
        if error < least:
            best, least = sources, error
        if np.abs(difference[: len(ranks)]).max() <= CLOSE:
            break
        difference[len(ranks) :, len(ranks) :] = 0.0  # given columns are as they are
        correlations = possible_correlations(np.clip(correlations + difference, -1.0, 1.0))
    return best


def _sources(moving: list[RankedColumn], latent: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    found, place = [], 0
    for column in moving:
        width = len(column.latent)
        found.append(column.sources([latent[:, place + part] for part in range(width)]))
        place += width
    return found


@dataclass(frozen=True, eq=False, repr=False)
class _Latent:
    """White columns, uncorrelated with each other and with the scores of the given columns as far as rows allow."""

    white: NDArray[np.float64]
    given: NDArray[np.float64]  # scores of the given latent columns; (rows, 0) without any

    @classmethod
    def drawn(
        cls, columns: int, fixed: NDArray[np.float64] | None, rows: int, generator: np.random.Generator
    ) -> _Latent:
        given = np.zeros((rows, 0)) if fixed is None else latent_scores(fixed)
        normal = generator.standard_normal((rows, columns))
        if rows <= columns + given.shape[1] + 1:
            return cls(normal, given)
        basis, _ = np.linalg.qr(np.column_stack([np.ones(rows), given]))
        normal -= basis @ (basis.T @ normal)
        left, _, right = np.linalg.svd(normal, full_matrices=False)
        return cls(np.sqrt(rows) * left @ right, given)

    def columns(self, correlations: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return normal columns with these correlations: the conditional mean by the given columns, plus a residual."""
        count = self.white.shape[1]
        own, across = correlations[:count, :count], correlations[count:, :count]
        mean: NDArray[np.float64] = np.zeros_like(self.white)
        if self.given.shape[1]:
            known = self.given.T @ self.given / len(self.given)
            slopes = np.linalg.lstsq(known, across, rcond=1e-8)[0]
            mean, own = self.given @ slopes, own - slopes.T @ known @ slopes
        values, vectors = np.linalg.eigh(own)
        values = np.where(values > NEGLIGIBLE * max(values.max(initial=0.0), 1e-300), values, 0.0)
        return np.asarray(mean + self.white @ (vectors * np.sqrt(values)).T)
