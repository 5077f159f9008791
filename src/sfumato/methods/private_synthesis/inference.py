"""Fit a graphical model to noisy marginals (private-PGM, McKenna, Sheldon & Miklau 2019).

Of all distributions p over the table, the model minimizes, with y_r the noisy counts of marginal r and s_r the standard
deviation of their noise,

    N Σ_x p(x) log p(x)  +  Σ_r Σ_cells (N p_r − y_r)² / (2 c s_r)

The minimum has the form p(x) ∝ exp(Σ_r θ_r(x_r)), and its parameters minimize the convex dual

    N log Z(θ) − Σ_r ⟨θ_r, y_r⟩ + Σ_r (c s_r / 2) ‖θ_r‖²

whose gradient is N p_r − y_r + c s_r θ_r: a cell may differ from its noisy count by θ · c standard deviations. It is
minimized by L-BFGS, each parameter in units of its own curvature. Small c follows the noise, large c flattens the
model. As c goes to 0, p becomes the least-squares solution with the largest entropy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.private_synthesis.graphical_model import Calibrated, GraphicalModel
from sfumato.methods.private_synthesis.junction_tree import Clique
from sfumato.methods.private_synthesis.minimization import minimize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.private_synthesis.structural_zeros import StructuralZero

    Array = NDArray[np.float64]

MOST_BY_NOISE = 60.0  # parameter that noise may need: a cell is missed by six standard deviations
MOST = 20.0  # parameter that the search finds in its rounds, once the slack has grown
FAR = 3.0  # times as far from a count as the parameters explain: the search was still on its way when its rounds ended
MOST_STEPS = 6  # each with ten times the slack, if people were counted where zeros allow nobody
SLACK = 0.1  # c: standard deviations of noise by which a cell may be missed for each unit of its parameter


@dataclass(frozen=True, repr=False)
class Measurement:
    """Noisy counts of a marginal, and the variance of the noise of each."""

    clique: Clique
    counts: Array
    variances: Array

    @property
    def total(self) -> float:
        """Noisy number of rows."""
        return float(self.counts.sum())

    @property
    def total_variance(self) -> float:
        """Variance of the noise of the total."""
        return float(self.variances.sum())


def estimate_total(measurements: Sequence[Measurement]) -> float:
    """Return the number of rows with the least variance that noisy marginals tell, at least 1."""
    weights = np.array([1.0 / one.total_variance for one in measurements])
    totals = np.array([one.total for one in measurements])
    return max(1.0, float(totals @ weights / weights.sum()))


def variance_of_total(measurements: Sequence[Measurement]) -> float:
    """Return the variance of the noise of the estimated number of rows."""
    return 1.0 / math.fsum(1.0 / one.total_variance for one in measurements)


def join_measurements(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return one measurement per marginal: repeated ones are averaged, each with the inverse of its variance."""
    joined: dict[Clique, Measurement] = {}
    for one in measurements:
        if (earlier := joined.get(one.clique)) is None:
            joined[one.clique] = one
            continue
        weight = earlier.variances / (earlier.variances + one.variances)
        counts = (1.0 - weight) * earlier.counts + weight * one.counts
        joined[one.clique] = Measurement(one.clique, counts, weight * one.variances)
    return list(joined.values())


@dataclass(frozen=True, repr=False)
class Fitted:
    """A fitted model, and the parameters from which the next fit may start."""

    calibrated: Calibrated
    parameters: Mapping[Clique, Array]
    total: float
    slack: float = SLACK

    @property
    def is_contradicted(self) -> bool:
        """Whether people were counted where zeros allow nobody, so that the model had to miss the counts."""
        return self.slack > SLACK

    def counts(self, clique: Clique) -> Array:
        """Return the expected counts of one or two attributes."""
        return self.total * self.calibrated.marginal(clique)


@dataclass(frozen=True, repr=False)
class Dual:
    """The dual problem as a function of one vector of scaled parameters."""

    model: GraphicalModel
    measurements: Sequence[Measurement]
    total: float
    slack: float

    @cached_property
    def counts(self) -> Array:
        """All noisy counts."""
        return np.concatenate([one.counts.ravel() for one in self.measurements])

    @cached_property
    def penalties(self) -> Array:
        """c s of each cell."""
        variances = np.concatenate([one.variances.ravel() for one in self.measurements])
        return np.asarray(self.slack * np.sqrt(variances), dtype=np.float64)

    @cached_property
    def scales(self) -> Array:
        """Unit of each parameter: the curvature of the dual is then about 1."""
        curvatures: Array = np.maximum(self.counts, 0.0) + self.penalties
        return 1.0 / np.sqrt(curvatures)

    def split(self, vector: Array) -> list[Array]:
        """Return the parameters of each marginal."""
        ends = np.cumsum([one.counts.size for one in self.measurements])[:-1]
        parts = np.split(vector * self.scales, ends)
        return [part.reshape(one.counts.shape) for part, one in zip(parts, self.measurements, strict=True)]

    def join(self, parameters: Sequence[Array]) -> Array:
        """Return the vector of these parameters."""
        return np.concatenate([one.ravel() for one in parameters]) / self.scales

    def expected(self, calibrated: Calibrated) -> Array:
        """Return the count of each cell that a model expects."""
        return np.asarray(self.total * np.concatenate([one.ravel() for one in calibrated.marginals]))

    def largest_miss(self, calibrated: Calibrated) -> float:
        """Return by how many standard deviations of noise a model misses a count, at most."""
        missed = np.abs(self.expected(calibrated) - self.counts)
        return float((missed / (self.penalties / self.slack)).max(initial=0.0))

    def value_and_gradient(self, vector: Array) -> tuple[float, Array]:
        """Return the dual, per person, and its gradient."""
        parameters = self.split(vector)
        calibrated = self.model.calibrate(parameters)
        natural, expected = vector * self.scales, self.expected(calibrated)
        value = (
            self.total * calibrated.log_partition
            - (natural * self.counts).sum()
            + 0.5 * (self.penalties * natural**2).sum()
        )
        gradient = (expected - self.counts + self.penalties * natural) * self.scales
        return float(value) / self.total, gradient / self.total


def _leave_out(measurement: Measurement, possible: NDArray[np.bool_]) -> Measurement:
    """Return a measurement without the cells that cannot occur; the others are scaled to the same total."""
    kept = np.where(possible, measurement.counts, 0.0)
    total = float(kept.sum())
    scale = measurement.total / total if total > 0.0 and measurement.total > 0.0 else 1.0
    return replace(measurement, counts=kept * scale)


def fit_model(
    sizes: Sequence[int],
    measurements: Sequence[Measurement],
    *,
    start: Mapping[Clique, Array] | None = None,
    rounds: int = 100,
    slack: float = SLACK,
    tolerance: float = 1e-9,
    zeros: Sequence[StructuralZero] = (),
) -> Fitted:
    """Fit the model, from the parameters of an earlier fit where it has the same marginals.

    Cells that ``zeros`` rule out have probability 0; what noise counted there is nobody.
    """
    joined = join_measurements(measurements)
    cliques = [one.clique for one in joined]
    total = estimate_total(measurements)
    model = GraphicalModel(sizes, cliques, zeros)
    if zeros:
        joined = [_leave_out(one, there) for one, there in zip(joined, model.possible, strict=True)]
    known = start or {}
    first = [known[one.clique] if one.clique in known else np.zeros(one.counts.shape) for one in joined]
    for step in range(MOST_STEPS if zeros else 1):
        dual = Dual(model, joined, total, slack * 10.0**step)
        found = minimize(dual.value_and_gradient, dual.join(first), rounds=rounds, tolerance=tolerance)
        parameters = dual.split(found.point)
        calibrated, most = model.calibrate(parameters), MOST if step else MOST_BY_NOISE
        largest = max(float(np.abs(one).max(initial=0.0)) for one in parameters)
        if largest <= most and dual.largest_miss(calibrated) <= FAR * dual.slack * most:
            break
        first = [np.zeros(one.counts.shape) for one in joined]
    return Fitted(calibrated, dict(zip(cliques, parameters, strict=True)), total, dual.slack)
