"""The cost of a partition, from the first-order widths of its boxes or from the exact widths of the kept statistics.

The exact width cannot be computed for every change, but it can be tracked: near the two choices of values at which
its ends are attained, it is a sum over boxes of the largest values of quadratic forms (XK §V). The forms are
recomputed for every partition that is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.boxes.partition import cell_bounds
from sfumato.plan.plan import Width
from sfumato.statistics.bounds.enclosure import Enclosure, EstimateBudget
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.moments import Moments, sensitivities
from sfumato.statistics.statistic import Statistic, enclose

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.axes import Axes
    from sfumato.methods.boxes.edges import Edges
    from sfumato.methods.boxes.partition_kernels import PartitionProblem
    from sfumato.methods.boxes.search_branch_kernels import Fitness
    from sfumato.methods.boxes.sensitivities import Kept
    from sfumato.methods.partition import BoxPartition

STATISTICS = 6  # with more kept statistics than this, first-order widths are used
RECORDS = 200_000  # with more records than this, too
LEAST_SCALE, MOST_SCALE = 0.05, 4.0
LEEWAY = 1.01  # columns that no kept statistic uses may cost this × their cost at the start
TOO_WIDE = 1.03  # a partition in which something is wider than this × its width at the start is abandoned
MOST_PULL = 4.0
SPARE = 0.95  # a kept statistic that is wider than this × its width at the start gets a larger weight
FIRMNESS = 2.0  # exponent of that increase; much larger values make the widths oscillate
ACCURACY = EstimateBudget(seconds=5.0)  # for a measured width: the same as for an estimate from a release


def total_cost(problem: PartitionProblem, fitness: Fitness, boxes: BoxPartition) -> float:
    """Return the cost of all boxes: of the hulls of their records or, if the problem has faces, of the cells."""
    from sfumato.methods.boxes.cut_kernels import whole_space
    from sfumato.methods.boxes.search_branch_kernels import cell_costs

    bounds = cell_bounds(problem, boxes, whole_space(problem.faces))
    return float(cell_costs(problem, fitness, boxes.order, boxes.starts, bounds).sum())


@dataclass(frozen=True, kw_only=True, repr=False)
class Measured:
    """A measured partition. Costs are Σ_C (p_C / Δ0_C) · width of C, times the sum of all sampling weights.

    A search should make the kept statistics narrower, but not at the expense of the other columns or of another kept
    statistic; narrower other columns do not count as an improvement. What has become too wide gets a larger weight in
    the fitness of the next rounds.
    """

    kept: float  # cost of the kept statistics
    others: float  # cost of the columns that no kept statistic uses
    allowed: float  # cost of these columns at the start
    scale: float  # factor of their weights in the fitness, chosen so that their cost stays close to ``allowed``
    widths: tuple[Width, ...]
    at_start: tuple[Width, ...]
    pulls: tuple[float, ...]  # factor of the share of each kept statistic in the fitness, at least 1
    fitness: Fitness  # to be minimised from here on

    @property
    def cost(self) -> float:
        """The total cost, by which partitions are compared."""
        return self.kept + max(self.others, self.allowed)

    @property
    def is_nowhere_wider(self) -> bool:
        """Whether no tracked statistic is wider than at the start, and the other columns cost hardly more."""
        return self._widest <= 1.0 and self.others <= LEEWAY * self.allowed

    @property
    def is_too_wide(self) -> bool:
        """Whether something has become so much wider that the search should return to the best partition."""
        return max(self._widest, self.others / self.allowed if self.allowed > 0.0 else 0.0) > TOO_WIDE

    @property
    def _widest(self) -> float:
        """The largest width of a tracked statistic, relative to its width at the start."""
        pairs = zip(self.widths, self.at_start, strict=True)
        return max((now.width / then.width for now, then in pairs if then.width > 0.0), default=0.0)

    def is_better_than(self, other: Measured) -> bool:
        """Return whether it costs less, with kept statistics that cost no more, and nothing wider than at the start."""
        return self.cost < other.cost and self.kept <= other.kept and self.is_nowhere_wider


@dataclass(frozen=True, repr=False)
class LinearJudge:
    """Measures the weighted sum of widths."""

    problem: PartitionProblem
    weight: float  # sum of all sampling weights; costs divided by it are widths

    def measure(self, boxes: BoxPartition, earlier: Measured | None = None) -> Measured:
        """Return the cost of a partition and the fitness near it."""
        fitness = linear_fitness(self.problem.weights)
        cost = total_cost(self.problem, fitness, boxes)
        return Measured(
            kept=cost, others=0.0, allowed=0.0, scale=1.0, widths=(), at_start=(), pulls=(), fitness=fitness
        )


@dataclass(frozen=True, repr=False)
class Tracked:
    """A kept statistic whose exact width is tracked; its columns are numeric axes without missing values."""

    statistic: Statistic
    share: float  # p_C / Δ0_C
    axes: tuple[int, ...]
    is_linear: bool  # whether its width is linear in the widths of the boxes, as for a mean
    slopes: NDArray[np.float64]  # |g_E| for each of its axes: the weights, if it is linear


@dataclass(frozen=True, repr=False)
class ExactJudge:
    """Measures the exact widths of the kept statistics and the first-order widths of everything else."""

    problem: PartitionProblem
    edges: Edges
    axes: Axes
    tracked: tuple[Tracked, ...]
    sampling: NDArray[np.float64]
    named: NDArray[np.float32]  # weights of the kept statistics, without the tracked statistics that are not linear
    unnamed: NDArray[np.float32]  # weights of the other columns

    @classmethod
    def of(
        cls, problem: PartitionProblem, edges: Edges, axes: Axes, kept: Sequence[Kept], sampling: NDArray[np.float64]
    ) -> ExactJudge | None:
        """Return a judge of these statistics; None if their exact widths cannot be tracked."""
        if len(kept) > STATISTICS or len(problem.values) > RECORDS:
            return None
        tracked = tuple(one for one in (_track(one, problem, axes, sampling) for one in kept) if one is not None)
        if not tracked:
            return None
        used = {name for one in kept for name in one.statistic.columns}
        is_named = np.array([axis.name in used for axis in axes.all])
        linear = problem.weights.astype(np.float64)
        for one in tracked:
            if not one.is_linear:
                points = problem.values[:, one.axes]
                slopes = sensitivities(one.statistic, Moments.of(points, sampling), points)
                linear[:, one.axes] -= one.share * sampling[:, None] * slopes
        linear[linear < 1e-6 * problem.weights] = 0.0  # rounding errors
        named, unnamed = (np.where(chosen, linear, 0.0).astype(np.float32) for chosen in (is_named, ~is_named))
        return cls(problem, edges, axes, tracked, sampling, named, unnamed)

    @property
    def weight(self) -> float:
        """The sum of all sampling weights; costs divided by it are widths."""
        return float(self.sampling.sum())

    def measure(self, boxes: BoxPartition, earlier: Measured | None = None) -> Measured:
        """Return the cost of a partition and the fitness near it; ``earlier`` is the previous measurement."""
        enclosures = self._enclosures(boxes)
        widths = tuple(
            Width(name=str(one.statistic), width=_width(found))
            for one, found in zip(self.tracked, enclosures, strict=True)
        )
        curved = sum(
            one.share * self.weight * found.width
            for one, found in zip(self.tracked, widths, strict=True)
            if not one.is_linear
        )
        others = total_cost(self.problem, linear_fitness(self.unnamed), boxes)
        allowed, at_start, scale, pulls = others, widths, 1.0, (1.0,) * len(widths)
        if earlier is not None:
            allowed, at_start = earlier.allowed, earlier.at_start
            pulls = tuple(map(_pull, earlier.pulls, widths, at_start))
            if allowed > 0.0:
                scale = float(np.clip(earlier.scale * (others / allowed) ** 2, LEAST_SCALE, MOST_SCALE))
        return Measured(
            kept=curved + total_cost(self.problem, linear_fitness(self.named), boxes),
            others=others,
            allowed=allowed,
            scale=scale,
            widths=widths,
            at_start=at_start,
            pulls=pulls,
            fitness=self._fitness(enclosures, scale, pulls),
        )

    def _enclosures(self, boxes: BoxPartition) -> list[Enclosure]:
        numbers = self.axes.numbers
        faces = self.edges.faces(boxes, self.problem.values[:, : len(numbers)], numbers, self.problem.people)
        weight = np.add.reduceat(self.sampling[boxes.order], boxes.starts[:-1])
        enclosures = []
        for one in self.tracked:
            columns = one.statistic.columns
            ends = faces.low[:, one.axes], faces.high[:, one.axes]
            intervals = CountedBoxes.make(columns, *ends, count=boxes.sizes, weight=weight)
            enclosures.append(enclose(one.statistic, intervals, ACCURACY))
        return enclosures

    def _fitness(self, enclosures: Sequence[Enclosure], scale: float, pulls: Sequence[float]) -> Fitness:
        from sfumato.methods.boxes.search_branch_kernels import Fitness

        columns, forms = [], []
        weights = self.named + np.float32(scale) * self.unnamed
        for one, enclosure, pull in zip(self.tracked, enclosures, pulls, strict=True):
            if one.is_linear:
                weights[:, one.axes] += ((pull - 1.0) * one.share * self.sampling[:, None] * one.slopes).astype(
                    np.float32
                )
                continue
            for witness, sign in ((enclosure.highest, 1.0), (enclosure.lowest, -1.0)):
                slope = [] if witness is None else _form(one.statistic, witness.moments, sign * pull * one.share)
                if slope and np.isfinite(slope).all():  # there is none where the witness has a constant column
                    columns.append((one.axes[0], one.axes[-1]))
                    forms.append(slope)
        rows = np.array(forms).reshape(-1, 8)
        pairs = np.array(columns, dtype=np.int64).reshape(-1, 2)
        offset = np.zeros(len(self.sampling))
        for pair, form in zip(pairs, rows, strict=True):
            x, y = (self.problem.values[:, pair] - form[:2]).T
            offset += form[2] + form[3] * x + form[4] * y + form[5] * x * x + form[6] * x * y + form[7] * y * y
        return Fitness(weights, self.sampling, self.sampling * offset, pairs, rows)


Judge = LinearJudge | ExactJudge


def judge_of(
    problem: PartitionProblem, edges: Edges, axes: Axes, kept: Sequence[Kept], sampling: NDArray[np.float64] | None
) -> Judge:
    """Return a judge of exact widths if the kept statistics allow it, else of first-order widths.

    ``sampling`` are the sampling weights.
    """
    weight = np.ones(len(problem.values)) if sampling is None else np.nan_to_num(sampling)
    return ExactJudge.of(problem, edges, axes, kept, weight) or LinearJudge(problem, float(weight.sum()))


def _track(one: Kept, problem: PartitionProblem, axes: Axes, sampling: NDArray[np.float64]) -> Tracked | None:
    """Return the statistic; None unless it has a value and one or two numeric columns, without tree or missing cell."""
    place = {axis.name: number for number, axis in enumerate(axes.numbers) if not (axis.has_missing or axis.nodes)}
    names = one.statistic.columns
    if not one.statistic.is_characteristic or len(names) > 2 or any(name not in place for name in names):
        return None
    chosen = tuple(place[name] for name in names)
    moments = Moments.of(problem.values[:, chosen], sampling)
    wanted = one.wanted_accuracy(moments)
    if not (math.isfinite(wanted) and wanted > 0.0 and math.isfinite(one.statistic.value(moments))):
        return None  # undefined, such as a regression on a constant column
    gradient = one.statistic.gradient(moments)
    is_linear = not gradient.covariance.any()
    return Tracked(one.statistic, one.importance / wanted, chosen, is_linear, np.abs(gradient.mean))


def linear_fitness(weights: NDArray[np.float32]) -> Fitness:
    """Return the fitness that is the weighted sum of widths."""
    from sfumato.methods.boxes.search_branch_kernels import Fitness

    nothing = np.zeros(len(weights))
    return Fitness(weights, nothing, nothing, np.zeros((0, 2), dtype=np.int64), np.zeros((0, 8)))


def _form(statistic: Statistic, moments: Moments, factor: float) -> list[float]:
    """Return the influence function at these moments, times a factor, as the coefficients of a quadratic form.

    The form is g_E·(x − E) + (x − E)ᵀG(x − E).
    """
    gradient = statistic.gradient(moments)
    mean, slope, bend = moments.mean, factor * gradient.mean, factor * gradient.covariance
    if len(mean) == 1:
        return [mean[0], mean[0], 0.0, slope[0], 0.0, bend[0, 0], 0.0, 0.0]
    return [mean[0], mean[1], 0.0, slope[0], slope[1], bend[0, 0], 2.0 * bend[0, 1], bend[1, 1]]


def _pull(earlier: float, now: Width, then: Width) -> float:
    """Return the factor of a kept statistic in the fitness, from its width now and at the start."""
    if then.width <= 0.0:
        return 1.0
    return float(np.clip(earlier * (now.width / (SPARE * then.width)) ** FIRMNESS, 1.0, MOST_PULL))


def _width(enclosure: Enclosure) -> float:
    """Return the guaranteed width, or the attained width if there is no guarantee."""
    width = enclosure.high - enclosure.low
    return width if math.isfinite(width) else enclosure.inner_high - enclosure.inner_low
