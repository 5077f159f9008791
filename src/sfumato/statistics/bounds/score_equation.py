"""All coefficients that a generalized linear model can have while its values stay in their boxes.

The coefficients β(x) solve U(β; x) = Σ w z (y − μ(zᵀβ)) = 0, and they are unique, because the likelihood is
log-concave. A box B of coefficients around those of the midpoints holds β(x) for every choice x if no choice has a root
on the surface of B: from choice to choice β(x) moves continuously, and a choice without a finite or unique root would
put one on the surface too. A point β is no root if v·U(β; x) < 0 for all x and some v; the terms of the records are
bounded one by one. On a facet with the outward normal c two directions v are tried: J⁻¹c, for which
v·(−U) ≈ v·(−U(β₀; x)) + c·(β − β₀) near β₀, and β − β₀, along which the likelihood falls far from β₀.

A facet is divided into cells until all of them are proven. Within a cell the records' terms differ from those of its
centre by Σ w (v·z) μ'(ξ) zᵀδ, which nearly cancels for v = J⁻¹c, as c·δ = 0 on the facet. Wide boxes are divided into
pieces, and the worst piece of each record counts.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.enclosure import EPS, Deadline

Array = NDArray[np.float64]
GROWTH = 1.3  # of a facet's distance when it could not be proven
MOST_ROUNDS = 40
FINEST_STEPS = 7  # of the search for the nearest facet that can be proven
DEEPEST = 6  # how often a side of a cell is halved
MOST_CELLS = (32, 4_000)  # of a facet that are open at once, at first and in a second attempt
AT_ONCE = 2_000_000  # pieces × cells that are examined at once
WIDEST_PIECE = 0.2  # half-width of a piece, in standard deviations
MOST_PIECES = 200_000


class Family:
    """A family with its canonical link: μ, its first two derivatives, and their limits over intervals of η."""

    name = "gaussian"

    def mean(self, eta: Array) -> Array:
        """Return μ(η)."""
        return eta

    def slope(self, eta: Array) -> Array:
        """Return μ'(η)."""
        return np.ones_like(eta)

    def slopes(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return the smallest and the largest μ' between two η."""
        return np.ones_like(low), np.ones_like(high)

    def largest_curvature(self, low: Array, high: Array) -> Array:
        """Return an upper bound of |μ''| between two η."""
        return np.zeros_like(low)


class Binomial(Family):
    """Logistic regression."""

    name = "binomial"

    def mean(self, eta: Array) -> Array:
        return 0.5 + 0.5 * np.tanh(0.5 * eta)

    def slope(self, eta: Array) -> Array:
        mean = self.mean(eta)
        return mean * (1.0 - mean)

    def slopes(self, low: Array, high: Array) -> tuple[Array, Array]:
        ends = self.slope(low), self.slope(high)
        return np.minimum(*ends), np.where((low <= 0.0) & (high >= 0.0), 0.25, np.maximum(*ends))

    def largest_curvature(self, low: Array, high: Array) -> Array:
        nearest = np.clip(0.0, low, high)
        return np.minimum(self.slope(nearest), 0.0962251)  # |μ''| = μ'|1 − 2μ| ≤ √3/18


class Poisson(Family):
    """Regression of counts with the logarithmic link."""

    name = "poisson"

    def mean(self, eta: Array) -> Array:
        return np.exp(np.minimum(eta, 700.0))

    def slope(self, eta: Array) -> Array:
        return self.mean(eta)

    def slopes(self, low: Array, high: Array) -> tuple[Array, Array]:
        return self.mean(low), self.mean(high)

    def largest_curvature(self, low: Array, high: Array) -> Array:
        return self.mean(high)


FAMILIES = {family.name: family for family in (Family(), Binomial(), Poisson())}


@dataclass(frozen=True, eq=False, repr=False)
class LikelihoodBoxes(ABC):
    """Records of a model with a log-concave likelihood: boxes of its design, and limits of the weights of the records.

    Columns of the design are scaled.
    """

    middle: Array  # (G, p)
    half: Array  # (G, p)
    offset: Array  # (G,)
    weight: Array
    extra: Array
    likely: Array

    @abstractmethod
    def likelihood(self, beta: Array) -> float:
        """Return the logarithm of the likelihood at the midpoints, up to a constant."""

    @abstractmethod
    def residuals(self, beta: Array) -> Array:
        """Return the share of each record in U at the midpoints, before its weight; (G, p)."""

    @abstractmethod
    def information(self, beta: Array) -> Array:
        """Return J(β), the negative derivative of U, at the midpoints."""

    @abstractmethod
    def rounding(self, beta: Array) -> Array:
        """Return distances that exceed the rounding errors of the sums: what is left where all boxes are points."""

    @abstractmethod
    def divided(self) -> Self:
        """Return the records with wide boxes divided into pieces; weights stay those of the records."""

    @abstractmethod
    def least_terms(self, betas: Array, aims: Array) -> Array:
        """Return a lower bound of −aim·U(β; x) over all choices x, for each β."""

    @abstractmethod
    def least_in_cells(self, betas: Array, facet: Facet, aims: Array, extent: Array) -> tuple[Array, Array]:
        """Return the same, and a lower bound over all choices and all coefficients of each cell around β."""

    def fit(self) -> Array | None:
        """Return the coefficients at the midpoints, by Newton's method with halved steps; None if there are none."""
        beta = np.zeros(self.middle.shape[1])
        gain = self.likelihood(beta)
        for _ in range(100):
            information = self.information(beta)
            if not np.isfinite(information).all() or np.linalg.cond(information) > 1e14:
                return None
            step = np.linalg.solve(information, self.likely @ self.residuals(beta))
            for _ in range(40):
                found = self.likelihood(beta + step)
                if found >= gain - 1e-12 * abs(gain):
                    break
                step = step / 2.0
            beta, gain = beta + step, found
            if np.abs(step).max() <= 1e-13 * (1.0 + np.abs(beta).max()):
                break
        return beta if np.abs(beta).max() < 1e6 else None


def divide_boxes(middle: Array, half: Array) -> tuple[Array, Array, NDArray[np.int64]]:
    """Return the centres and half-widths of the pieces of wide boxes, and the box of each piece, in order."""
    owner = np.arange(len(middle))
    widest = WIDEST_PIECE
    while np.prod(np.maximum(np.ceil(half / widest), 1.0), axis=1).sum() > max(MOST_PIECES, 1.5 * len(middle)):
        widest *= 1.5
    for column in range(middle.shape[1]):
        count = np.maximum(np.ceil(half[:, column] / widest), 1.0).astype(np.int64)
        place = np.repeat(np.arange(len(count)), count)
        step = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
        part = half[place, column] / count[place]
        start = middle[place, column] - half[place, column]
        middle, half, owner = middle[place], half[place], owner[place]
        middle[:, column], half[:, column] = (
            start + (2 * step + 1) * part,
            part * (1.0 + 4.0 * EPS) + 4.0 * EPS * np.abs(start) * (part > 0.0),
        )
    return middle, half, owner


@dataclass(frozen=True, eq=False, repr=False)
class DesignBoxes(LikelihoodBoxes):
    """Records of a generalized linear model: boxes of the design and of the response."""

    response: Array  # (G,), midpoints
    response_half: Array
    family: Family
    starts: NDArray[np.int64] | None = None  # the first piece of each record, if boxes are divided

    def divided(self) -> DesignBoxes:
        middle, half, owner = divide_boxes(self.middle, self.half)
        starts = np.searchsorted(owner, np.arange(len(self.middle)))
        repeated = {name: getattr(self, name)[owner] for name in ("response", "response_half", "offset")}
        return replace(self, middle=middle, half=half, starts=starts, **repeated)

    def lowest(self, terms: Array) -> Array:
        """Return the total of the smallest terms of each record, counting those that may not count if that is less."""
        own = terms if self.starts is None else np.minimum.reduceat(terms, self.starts, axis=0)
        return np.asarray(self.weight @ own + self.extra @ np.minimum(own, 0.0))

    def residuals(self, beta: Array) -> Array:
        eta = self.middle @ beta + self.offset
        return self.middle * (self.response - self.family.mean(eta))[:, None]

    def information(self, beta: Array) -> Array:
        slope = self.likely * self.family.slope(self.middle @ beta + self.offset)
        return np.asarray(self.middle.T @ (slope[:, None] * self.middle))

    def likelihood(self, beta: Array) -> float:
        eta = self.middle @ beta + self.offset
        if self.family.name == "gaussian":
            potential = 0.5 * eta * eta
        else:
            potential = np.logaddexp(0.0, eta) if self.family.name == "binomial" else self.family.mean(eta)
        return float(self.likely @ (self.response * eta - potential))

    def rounding(self, beta: Array) -> Array:
        inverse = np.linalg.inv(self.information(beta))
        residual = self.family.mean(self.middle @ beta + self.offset) - self.response
        terms = (self.weight + self.extra) @ np.abs((self.middle @ inverse) * residual[:, None])
        return 1e-9 * np.sqrt(np.maximum(np.diag(inverse), 0.0)) + 64.0 * len(residual) * EPS * np.asarray(terms)

    def least_terms(self, betas: Array, aims: Array) -> Array:
        """Return a lower bound of Σ w (aim·z)(μ(zᵀβ) − y) over all choices, for each β; Taylor's formula per piece."""
        family, half, edge = self.family, self.half, self.response_half[:, None]
        s, ds = self.middle @ aims.T, half @ np.abs(aims).T  # (pieces, cells)
        eta = self.middle @ betas.T + self.offset[:, None]
        deta = half @ np.abs(betas).T
        slope, residual = family.slope(eta), family.mean(eta) - self.response[:, None]
        first = np.abs(s) * edge
        for k in np.flatnonzero(half.any(axis=0)):
            first += np.abs(aims[:, k] * residual + s * betas[:, k] * slope) * half[:, [k]]
        bend = family.largest_curvature(eta - deta, eta + deta)
        second = slope * ds * deta + 0.5 * (np.abs(s) + ds) * bend * deta * deta + ds * edge
        term = s * residual
        size = np.abs(term) + first + second
        return self.lowest(term - first - second) + 8.0 * len(self.weight) * EPS * self.lowest(-size)

    def least_in_cells(self, betas: Array, facet: Facet, aims: Array, extent: Array) -> tuple[Array, Array]:
        least = self.least_terms(betas, aims)
        return least, least - self._largest_change(betas, facet, aims, extent)

    def _largest_change(self, betas: Array, facet: Facet, aims: Array, extent: Array) -> Array:
        """Return an upper bound of |Σ w (aim·z) μ'(ξ) zᵀδ| over all choices and all δ of each cell."""
        half, family = self.half, self.family
        s, ds = self.middle @ aims.T, half @ np.abs(aims).T
        free, normal = list(facet.free), facet.normal
        ratio = normal[free] / normal[facet.tied]
        moved = np.abs(self.middle[:, free]) + half[:, free]
        tied = np.abs(self.middle[:, facet.tied]) + half[:, facet.tied]
        eta = self.middle @ betas.T + self.offset[:, None]
        reach = half @ np.abs(betas).T + moved @ extent.T + tied[:, None] * (extent @ np.abs(ratio))
        low, high = family.slopes(eta - reach, eta + reach)
        total = np.zeros(len(betas))
        for column, share in enumerate(ratio):
            k = free[column]
            q = (self.middle[:, k] - share * self.middle[:, facet.tied])[:, None]
            dq = (half[:, k] + abs(share) * half[:, facet.tied])[:, None]
            corners = [(s + i * ds) * (q + j * dq) for i in (-1.0, 1.0) for j in (-1.0, 1.0)]
            least, most = np.minimum.reduce(corners), np.maximum.reduce(corners)
            bottom = self.lowest(np.where(least < 0.0, least * high, least * low))
            top = -self.lowest(-np.where(most > 0.0, most * high, most * low))
            total += np.maximum(np.abs(bottom), np.abs(top)) * extent[:, column]
        return total * (1.0 + 1e-9)


@dataclass(frozen=True, eq=False, repr=False)
class Facet:
    """The coefficients β₀ + δ with normal·δ = side·distance, and all other δ_k between −low_k and high_k."""

    normal: Array
    side: float
    distance: float
    free: tuple[int, ...]
    tied: int  # the coefficient that follows from the others

    def points(self, centres: Array) -> Array:
        """Return δ for values of the free coefficients; shape (cells, p)."""
        delta = np.zeros((len(centres), len(self.normal)))
        delta[:, list(self.free)] = centres
        rest = self.side * self.distance - centres @ self.normal[list(self.free)]
        delta[:, self.tied] = rest / self.normal[self.tied]
        return delta


def enclose_coefficients(
    boxes: LikelihoodBoxes, beta: Array, extra: Array, deadline: Deadline
) -> tuple[tuple[Array, Array] | None, list[tuple[float, float]]]:
    """Return how far each coefficient can be below and above β, and the same for ``extra`` normals; None if unknown."""
    proof = _Proof(boxes.divided(), beta, boxes.information(beta), boxes.rounding(beta), deadline)
    size, nothing = len(beta), [(-math.inf, math.inf)] * len(extra)
    near = np.array([[proof.first_order(side * np.eye(size)[k]) for k in range(size)] for side in (-1.0, 1.0)])
    attempts = (_surround(proof, near, most) for most in MOST_CELLS if np.isfinite(near).all())
    reach = next((found for found in attempts if found is not None), None)
    if reach is None:
        return None, nothing
    for end, k in itertools.product(range(2), range(size)):
        reach[end, k] = proof.approach(np.eye(size)[k], end, near[end, k], reach[end, k], reach)
    ends = []
    for normal in extra:
        widest = [float(np.where(normal > 0.0, reach[end], reach[1 - end]) @ np.abs(normal)) for end in range(2)]
        nearest = [
            proof.approach(normal, end, proof.first_order((-1.0, 1.0)[end] * normal), widest[end], reach)
            for end in range(2)
        ]
        ends.append((-nearest[0], nearest[1]))
    return (reach[0], reach[1]), ends


def _surround(proof: _Proof, near: Array, most_cells: int) -> Array | None:
    """Move facets outward until all of them are proven; None if they moved too far. Rows: below and above β."""
    reach, axes = near.copy(), np.eye(near.shape[1])
    for _ in range(MOST_ROUNDS):
        failed = [
            (end, k)
            for end, k in itertools.product(range(2), range(len(axes)))
            if not proof.holds(axes[k], end, reach, most_cells=most_cells)
        ]
        if not failed:
            return reach
        for end, k in failed:
            reach[end, k] *= GROWTH
        if proof.deadline.is_over or (reach > 200.0 * (near + near.max())).any():
            return None
    return None


@dataclass(frozen=True, eq=False, repr=False)
class _Proof:
    """Proofs that no choice has its root on a facet."""

    boxes: LikelihoodBoxes
    beta: Array
    information: Array
    rounding: Array
    deadline: Deadline

    def first_order(self, normal: Array) -> float:
        """Return about how far the coefficients can move along a normal: the largest aim·U(β₀; x)."""
        aim = np.asarray(np.linalg.solve(self.information, normal), dtype=np.float64)
        least = float(self.boxes.least_terms(self.beta[None, :], aim[None, :])[0])
        return 1.01 * max(-least, 0.0) + float(self.rounding @ np.abs(normal))

    def approach(self, normal: Array, end: int, near: float, far: float, reach: Array) -> float:
        """Return the nearest distance that can be proven, from one that may be too near to one that is proven."""
        if near >= far:
            return far
        if self.holds(normal, end, reach, near):
            return near
        for _ in range(FINEST_STEPS):
            if self.deadline.is_over or far <= 1.05 * near:
                break
            middle = math.sqrt(near * far)
            near, far = (near, middle) if self.holds(normal, end, reach, middle) else (middle, far)
        return far

    def holds(
        self, normal: Array, end: int, reach: Array, distance: float | None = None, most_cells: int = MOST_CELLS[-1]
    ) -> bool:
        """Return whether no choice has its root on a facet: at a distance, or where ``reach`` ends."""
        tied = int(np.argmax(np.abs(normal)))
        free = tuple(k for k in range(len(normal)) if k != tied)
        side = (-1.0, 1.0)[end]
        facet = Facet(normal, side, float(reach[end, tied]) if distance is None else distance, free, tied)
        aim = side * np.asarray(np.linalg.solve(self.information, normal), dtype=np.float64)
        low, high = reach
        centres, halves = ((high - low) / 2.0)[None, list(free)], ((high + low) / 2.0)[None, list(free)]
        for _ in range(DEEPEST * max(len(free), 1) + 1):
            left = self._open_cells(facet, aim, centres, halves, reach)
            if left is None:
                return False
            centres, halves = left
            if not len(centres):
                return True
            if self.deadline.is_over or not free or 2 * len(centres) > most_cells:
                return False
            centres, halves = _halve(centres, halves)
        return False

    def _open_cells(
        self, facet: Facet, aim: Array, centres: Array, halves: Array, reach: Array
    ) -> tuple[Array, Array] | None:
        """Return the cells that are not proven yet; None if one of them has no direction even at its centre."""
        delta, free = facet.points(centres), list(facet.free)
        spread = halves @ np.abs(facet.normal[free]) / abs(facet.normal[facet.tied])
        inside = (delta[:, facet.tied] + spread >= -reach[0, facet.tied] * (1 + 1e-9)) & (
            delta[:, facet.tied] - spread <= reach[1, facet.tied] * (1 + 1e-9)
        )
        centres, halves, delta = centres[inside], halves[inside], delta[inside]
        still = np.ones(len(centres), dtype=bool)
        hopeless = np.ones(len(centres), dtype=bool)
        step = max(1, AT_ONCE // max(len(self.boxes.middle), 1))
        for directions in (np.broadcast_to(aim, delta.shape), delta):
            rows = np.flatnonzero(still)
            for first in range(0, len(rows), step):
                part = rows[first : first + step]
                at, aims = self.beta + delta[part], directions[part]
                centre, cell = self.boxes.least_in_cells(at, facet, aims, halves[part])
                hopeless[part] &= ~(centre > 0.0)
                still[part] = ~(cell > 0.0)
        return None if (hopeless & still).any() else (centres[still], halves[still])


def _halve(centres: Array, halves: Array) -> tuple[Array, Array]:
    """Divide each cell across its longest side."""
    rows, longest = np.arange(len(centres)), np.argmax(halves, axis=1)
    smaller = halves.copy()
    smaller[rows, longest] /= 2.0
    step = np.zeros_like(halves)
    step[rows, longest] = smaller[rows, longest]
    return np.concatenate([centres - step, centres + step]), np.concatenate([smaller, smaller])
