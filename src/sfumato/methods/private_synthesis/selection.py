"""Choose and measure pairs of columns: adaptively (AIM) or as a spanning tree (MST).

AIM (McKenna, Mullins, Sheldon & Miklau 2022): in each round the pair r with the best score

    w_r (‖M_r(people) − M_r(model)‖₁ − √(2/π) σ n_r),   n_r the number of cells of r,

is chosen by the exponential mechanism among those that keep the junction tree small, and measured with noise of the
standard deviation σ; the model is fitted again. If a round moves the model less than its noise, σ is halved and ε of
the choice doubled. MST (McKenna, Miklau & Sheldon 2021): a maximum spanning tree of the pairs by their distance from
independence is chosen edge by edge, and its edges are measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.discrete_noise import largest_noise
from sfumato.methods.private_columns import split_budget
from sfumato.methods.private_synthesis.budget_spending import UNITS, choice_epsilon
from sfumato.methods.private_synthesis.inference import Fitted, Measurement, fit_model
from sfumato.methods.private_synthesis.junction_tree import Clique, count_tree_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.private_synthesis.budget_spending import Spending
    from sfumato.methods.private_synthesis.measured_columns import MeasuredColumn
    from sfumato.methods.private_synthesis.structural_zeros import StructuralZero

LARGEST_MODEL = 500_000  # cells of all cliques: it decides time and memory
SMALLEST_MODEL = 20_000  # cells that the first rounds may already use
ROUNDS_PER_COLUMN, MOST_ROUNDS = 6, 60  # of the first, noisiest plan of AIM
MOST_CANDIDATES = 60  # pairs that a round of AIM looks at; of more, a random part, and pairs with a weight
CHOICE_SHARE = 0.1  # share of a round's budget that is spent on the choice
LEAST_SHARE = 1e-6  # of the budget that is worth another round
FIT_ROUNDS = 30  # of the fit after each measurement; it starts from the last one
LAST_ROUNDS = 300
ERROR = 0.05  # probability with which a bound of the error of a marginal may not hold
ABSOLUTE = math.sqrt(2.0 / math.pi)  # mean absolute value of standard normal noise


@dataclass(repr=False)
class PairSelection:
    """The people as bins of columns, the measurements so far and the model fitted to them."""

    columns: Sequence[MeasuredColumn]  # by ascending number of bins
    codes: Sequence[NDArray[np.int64]]  # bin of each row, for each column
    weights: Mapping[Clique, int]  # of pairs; 1 if a pair is not named
    spending: Spending
    zeros: Sequence[StructuralZero] = ()  # combinations of bins that cannot occur
    generator: np.random.Generator = field(default_factory=np.random.default_rng)  # which pairs a round looks at

    def __post_init__(self) -> None:
        self.sizes = [column.size for column in self.columns]
        self.pairs: list[Clique] = list(combinations(range(len(self.columns)), 2))
        self.measurements = [
            Measurement((place,), column.bin_counts, column.bin_variances) for place, column in enumerate(self.columns)
        ]
        self.counts = {pair: self._count(pair) for pair in self.pairs}
        self.fitted = self._fit(None)
        self.is_fixed = False  # whether noise did not decide how often a pair was measured
        self.rounds = 0  # of AIM so far
        self.distances: dict[Clique, tuple[NDArray[np.float64], float]] = {}  # expected counts, and how far they are

    def _count(self, pair: Clique) -> NDArray[np.int64]:
        first, second = pair
        shape = self.sizes[first], self.sizes[second]
        cells = self.codes[first] * shape[1] + self.codes[second]
        return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)

    def _fit(self, start: Fitted | None, rounds: int = FIT_ROUNDS) -> Fitted:
        known = start.parameters if start else None
        return fit_model(self.sizes, self.measurements, start=known, rounds=rounds, zeros=self.zeros)

    def select_adaptively(self) -> Fitted:
        """Measure pairs by AIM until the budget is spent, and fit the last model thoroughly."""
        if not self.pairs:
            return self._fit(self.fitted, LAST_ROUNDS)
        whole = self.spending.left
        planned = whole / min(ROUNDS_PER_COLUMN * len(self.columns), 2 * len(self.pairs), MOST_ROUNDS)
        while (left := self.spending.left) > LEAST_SHARE * whole:
            planned = left if left < 2.0 * planned else planned
            pairs = self._affordable(max(SMALLEST_MODEL, LARGEST_MODEL * (1.0 - (left - planned) / whole)))
            if not pairs:
                break
            if self._measure_next(pairs, planned):
                planned *= 4.0
        return self._fit(self.fitted, LAST_ROUNDS)

    def _measure_next(self, pairs: Sequence[Clique], rho: float) -> bool:
        """Choose and measure one of these pairs; return whether the model moved less than its noise."""
        for_choice, for_counts = split_budget(rho, [CHOICE_SHARE, 1.0 - CHOICE_SHARE])
        sigma = self.spending.rows_per_person * math.sqrt(0.5 / for_counts)
        expected = [self.fitted.counts(pair) for pair in pairs]
        allowances = [ABSOLUTE * sigma * one.size for one in expected]
        place = self._choose(pairs, expected, allowances, for_choice)
        pair, before = pairs[place], expected[place]
        self.measure(pair, for_counts)
        self._bound_unchosen(pairs, expected, allowances, place, for_choice)
        self.fitted = self._fit(self.fitted)
        return bool(np.abs(self.fitted.counts(pair) - before).sum() <= allowances[place])

    def _bound_unchosen(
        self,
        pairs: Sequence[Clique],
        expected: Sequence[NDArray[np.float64]],
        allowances: Sequence[float],
        chosen: int,
        rho: float,
    ) -> None:
        """Bound how far the people are from what the model expected of each pair that could have been chosen.

        The chosen pair is as far as its noisy counts tell. The exponential mechanism chose a score that is less than
        the best by (2 · sensitivity ÷ ε) · ln(pairs ÷ error) at most (McSherry and Talwar 2007). The rounds share the
        error as 1 ÷ t(t + 1), so that any of them may be the last for a pair.
        """
        self.rounds += 1
        error = ERROR / (2.0 * self.rounds * (self.rounds + 1))
        epsilon = float(choice_epsilon(rho))
        weights = [self.weights.get(pair, 1) for pair in pairs]
        answer = self.measurements[-1]
        far = float(np.abs(answer.counts - expected[chosen]).sum())
        far += largest_noise(np.sqrt(answer.variances).ravel(), error)
        worse = math.inf
        if epsilon > 0.0:
            sensitivity = max(weights) * self.spending.rows_per_person
            worse = 2.0 * sensitivity / epsilon * math.log(len(pairs) / error)
        best = weights[chosen] * (far - allowances[chosen]) + worse
        for pair, own, allowed, weight in zip(pairs, expected, allowances, weights, strict=True):
            rounding = (own.size + expected[chosen].size + 2) / UNITS
            self.distances[pair] = (own, max(0.0, allowed + best / weight) + rounding)

    def _choose(
        self,
        pairs: Sequence[Clique],
        expected: Sequence[NDArray[np.float64]],
        allowances: Sequence[float],
        rho: float,
    ) -> int:
        weights = [self.weights.get(pair, 1) for pair in pairs]
        return self.spending.choose([self.counts[pair] for pair in pairs], expected, allowances, weights, rho)

    def _affordable(self, limit: float) -> list[Clique]:
        """Return pairs with which the junction tree has at most so many cells; those of its cliques always.

        Which pairs are looked at does not depend on the people.
        """
        measured = {one.clique for one in self.measurements} | {one.clique for one in self.zeros}
        tree, pairs = self.fitted.calibrated.tree, self.pairs
        if len(pairs) > MOST_CANDIDATES:
            drawn = self.generator.choice(len(pairs), MOST_CANDIDATES, replace=False)
            pairs = sorted({*(pairs[place] for place in drawn), *self.weights})
        return [
            pair
            for pair in pairs
            if tree.holder(pair, self.sizes) is not None or count_tree_cells(self.sizes, [*measured, pair]) <= limit
        ]

    def measure(self, pair: Clique, rho: float) -> None:
        """Measure a pair with the budget ρ."""
        answer = self.spending.measure(self.counts[pair].ravel(), rho)
        counts = answer.numbers.reshape(self.counts[pair].shape).astype(np.float64)
        self.measurements.append(Measurement(pair, counts, np.full(counts.shape, answer.sigma**2)))

    def select_tree(self) -> Fitted:
        """Measure a maximum spanning tree of pairs (MST): half of the budget for its choice, half for its counts."""
        self.is_fixed, edges = True, len(self.columns) - 1
        if not edges:
            return self._fit(self.fitted, LAST_ROUNDS)
        expected = {pair: self.fitted.counts(pair) for pair in self.pairs}
        group = list(range(len(self.columns)))  # of columns that the tree already connects
        chosen = []
        share = self.spending.left / (2.0 * edges)
        for _ in range(edges):
            open_pairs = [pair for pair in self.pairs if group[pair[0]] != group[pair[1]]]
            allowed = [0.0] * len(open_pairs)
            pair = open_pairs[self._choose(open_pairs, [expected[one] for one in open_pairs], allowed, share)]
            chosen.append(pair)
            group = [group[pair[0]] if one == group[pair[1]] else one for one in group]
        for done, pair in enumerate(chosen):
            self.measure(pair, self.spending.left / (edges - done))
        return self._fit(self.fitted, LAST_ROUNDS)
