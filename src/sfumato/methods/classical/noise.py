"""Additive noise, the oldest masking method and a baseline for the others (TL §2.3.1, equations 2.2–2.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from sfumato.methods.matrix import MatrixMethod, MatrixPlan, MatrixSetup
from sfumato.params import Choice, Flag, Number, option

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.survey.survey import Survey

Kind = Literal["correlated", "uncorrelated"]
KINDS: tuple[Kind, ...] = ("correlated", "uncorrelated")


@dataclass(frozen=True, kw_only=True)
class Noise(MatrixMethod):
    """Add normal noise whose variance is ``level`` times the variance of the data.

    "correlated" noise has the covariance b·Σ (TL 2.4), "uncorrelated" noise only its diagonal (TL 2.3). With
    ``correct`` the noisy rows are shrunk towards the mean by Kim's formula, so that the mean and, for correlated noise,
    the covariance of the matrix equal those of the original in expectation. Each released row still comes from one
    original row. With more than a few columns most rows can be matched to their originals, even at high levels: the
    method promises no privacy.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"x": np.random.default_rng(0).normal(size=200)}
    >>> sf.Noise(level=0.2).release(people, schema={"x": "quasi"}).table.rows
    200
    """

    name: ClassVar[str] = "noise"
    in_blocks: ClassVar[str] = "scales and categories are decided from a sample"
    noted: ClassVar[Mapping[str, str]] = {
        **MatrixMethod.noted,
        "noise level": "variance of the noise, as a multiple of the variance of the data",
        "corrected": "whether mean and variance were corrected",
    }

    kind: Kind = option(
        Choice(KINDS),
        "Whether the noise of different columns has the same correlations as the data.",
        default="correlated",
        reported=True,
    )
    level: float = option(
        Number(above=0.0),
        "Variance of the noise (b), as a multiple of the variance of the data.",
        default=0.1,
        unit="variances of the data",
        reported=True,
    )
    correct: bool = option(
        Flag(),
        "Shrink the noisy values so that means and variances equal those of the data in expectation.",
        default=True,
        reported=True,
    )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> NoisePlan:
        """Make the plan; the noise is drawn when a block is transformed."""
        return NoisePlan(self.setup(survey, schema, randomness), self)


@dataclass(frozen=True, repr=False)
class NoisePlan(MatrixPlan):
    """Add noise to each block."""

    setup: MatrixSetup
    method: Noise

    def perturb(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        level, mean = self.method.level, matrix.mean(axis=0)
        centred = matrix - mean
        white = self.setup.randomness.stream(f"noise {number}").standard_normal(matrix.shape)
        if self.method.kind == "uncorrelated":
            noise = white * centred.std(axis=0)
        else:
            values, vectors = np.linalg.eigh(centred.T @ centred / len(matrix))
            noise = white @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        masked = matrix + np.sqrt(level) * noise
        # Kim: (x̃ + (d₁ − 1) μ) / d₁ with d₁ = √(1 + b)
        shrinkage = np.sqrt(1.0 + level) if self.method.correct else 1.0
        return np.asarray((masked + (shrinkage - 1.0) * mean) / shrinkage)

    @property
    def notes(self) -> Mapping[str, object]:
        return {**super().notes, "noise level": self.method.level, "corrected": self.method.correct}
