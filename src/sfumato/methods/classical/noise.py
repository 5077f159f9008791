"""Additive noise, the oldest mask and the benchmark for every other (TL §2.3.1, equations 2.2–2.4)."""

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
    """Add normal noise whose variance is a share ``level`` of the data's own.

    "correlated" noise has the covariance b·Σ (2.4), "uncorrelated" only its diagonal (2.3). With ``correct`` the masked
    rows are drawn towards the mean by Kim's formula, so that mean and (for correlated noise) covariance of the matrix
    are those of the original in expectation. Every row still has an original, and in more than a few columns most can
    be matched back, whatever the level: it promises no privacy.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"x": np.random.default_rng(0).normal(size=200)}
    >>> sf.Noise(level=0.2).release(people, schema={"x": "quasi"}).table.rows
    200
    """

    name: ClassVar[str] = "noise"
    noted: ClassVar[Mapping[str, str]] = {
        **MatrixMethod.noted,
        "noise level": "variance of the noise as a share of that of the data",
        "corrected": "whether mean and variance were given back",
    }

    kind: Kind = option(
        Choice(KINDS), "Whether the noise of different columns is correlated.", default="correlated", reported=True
    )
    level: float = option(
        Number(above=0.0),
        "Variance of the noise (b), as a multiple of the variance of the data.",
        default=0.1,
        unit="variances",
        reported=True,
    )
    correct: bool = option(Flag(), "Give back mean and variance.", default=True, reported=True)

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> NoisePlan:
        """Nothing is decided before the rows are seen."""
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
        drawn_in = np.sqrt(1.0 + level) if self.method.correct else 1.0
        return np.asarray((masked + (drawn_in - 1.0) * mean) / drawn_in)

    @property
    def notes(self) -> Mapping[str, object]:
        return {**super().notes, "noise level": self.method.level, "corrected": self.method.correct}
