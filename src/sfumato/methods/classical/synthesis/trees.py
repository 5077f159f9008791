"""Sequential trees: each variable given the ones before it, drawn from the leaf of a tree (Reiter, 2005; synthpop).

A tree of the original rows predicts the variable from the variables before it. A synthetic row falls into a leaf by
what was drawn for it so far, and its value is drawn from the rows of this leaf: a code as it is, a number between two
neighbouring ones. So the relations between all columns are kept, as far as leaves of k rows show them.

A nominal predictor with many values makes trees slow or impossible. Its values are put in the order of the variable
that is predicted, which is the best order for one cut of a number (Breiman et al., 1984).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.classical.synthesis.donors import Donors
from sfumato.methods.classical.synthesis.variables import Codes, Numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.classical.synthesis.variables import Drawn, Problem, Sampler, Variable

ROUNDS = 30  # of the iteration for the first axis of two nominal columns


def fit_trees(problem: Problem, generator: np.random.Generator) -> Sampler:
    """Return a sampler of the trees of the table."""
    steps = [_step(problem, place, generator) for place in range(len(problem.variables))]

    def draw(rows: int, generator: np.random.Generator) -> Drawn:
        drawn: Drawn = []
        for step in steps:
            drawn.append(step.draw(drawn, rows, generator))
        return drawn

    return draw


@dataclass(frozen=True, repr=False)
class Step:
    """The tree of one variable."""

    variable: Variable
    scores: tuple[NDArray[np.float64] | None, ...]  # of the codes of each predictor; None for numbers
    tree: Any  # None if there is nothing to predict from
    leaves: NDArray[np.int64]  # numbers of the leaves
    donors: Donors

    def draw(self, before: Drawn, rows: int, generator: np.random.Generator) -> NDArray[Any]:
        """Draw the variable for rows whose earlier variables have been drawn."""
        values = np.zeros(rows, dtype=self.donors.values.dtype)
        chosen = np.arange(rows)
        if isinstance(self.variable, Numbers) and self.variable.state is not None:
            chosen = np.flatnonzero(before[self.variable.state] == 0)
        if not chosen.size or not self.donors.values.size:
            return values
        groups = np.zeros(chosen.size, dtype=np.int64)
        if self.tree is not None:
            found = self.tree.apply(_predictors([one[chosen] for one in before], self.scores).astype(np.float32))
            groups = np.searchsorted(self.leaves, found)
        if isinstance(self.variable, Codes):
            values[chosen] = self.donors.codes(groups, generator)
        else:
            values[chosen] = self.donors.numbers(groups, generator.random(chosen.size))
        return values


def _step(problem: Problem, place: int, generator: np.random.Generator) -> Step:
    """Fit the tree of one variable to the rows that have it."""
    variable, k = problem.variables[place], problem.k
    rows = np.flatnonzero(variable.known) if isinstance(variable, Numbers) else np.arange(problem.rows)
    wanted, before = variable.values[rows], [_own(one)[rows] for one in problem.variables[:place]]
    if not before or len(rows) < 2 * k or not _can_be_learnt(wanted, variable):
        return Step(variable, (), None, np.empty(0, np.int64), Donors.of(wanted, np.zeros(len(rows), np.int64), 1))
    scores = tuple(
        _scores(one, values, variable, wanted) for one, values in zip(problem.variables[:place], before, strict=True)
    )
    tree = _tree(variable, k, int(generator.integers(2**31)))
    predictors = _predictors(before, scores).astype(np.float32)
    leaves, groups = np.unique(tree.fit(predictors, wanted).apply(predictors), return_inverse=True)
    return Step(variable, scores, tree, leaves, Donors.of(wanted, groups, len(leaves)))


def _can_be_learnt(wanted: NDArray[Any], variable: Variable) -> bool:
    """Whether there is more than one value and, of codes, at least two rows per code on average."""
    values = len(np.unique(wanted))
    return values > 1 and (isinstance(variable, Numbers) or 2 * values <= len(wanted))


def _tree(variable: Variable, k: int, seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    kind = DecisionTreeClassifier if isinstance(variable, Codes) else DecisionTreeRegressor
    return kind(min_samples_leaf=k, random_state=seed)


def _own(variable: Variable) -> NDArray[Any]:
    """Return the values of a predictor; a row without a number has 0, as it has where it is synthetic."""
    return np.where(variable.known, variable.values, 0.0) if isinstance(variable, Numbers) else variable.values


def _predictors(values: Drawn, scores: tuple[NDArray[np.float64] | None, ...]) -> NDArray[np.float64]:
    columns = [one if score is None else score[one] for one, score in zip(values, scores, strict=True)]
    return np.column_stack(columns)


def _scores(
    predictor: Variable, values: NDArray[Any], target: Variable, wanted: NDArray[Any]
) -> NDArray[np.float64] | None:
    """Return a number for each code of a predictor, in the order of the variable that is predicted."""
    if isinstance(predictor, Numbers):
        return None
    if predictor.ordered:
        return np.arange(predictor.size, dtype=np.float64)
    counts = np.maximum(np.bincount(values, minlength=predictor.size), 1)
    if isinstance(target, Numbers):
        return np.asarray(np.bincount(values, weights=wanted, minlength=predictor.size) / counts)
    pairs = np.bincount(values * target.size + wanted, minlength=predictor.size * target.size)
    return first_axis(pairs.reshape(predictor.size, target.size).astype(np.float64))


def first_axis(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores of the rows on the first axis of a correspondence analysis, by reciprocal averaging.

    If the table has two columns, their order is that of the shares in the second column.
    """
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    by_row, by_column = table / np.maximum(rows, 1.0)[:, None], table / np.maximum(columns, 1.0)
    scores = np.arange(len(columns), dtype=np.float64)  # a fixed start, so that the result does not depend on chance
    found = by_row @ scores
    for _ in range(ROUNDS):
        found = by_row @ scores
        found -= (rows @ found) / max(rows.sum(), 1.0)
        length = np.sqrt(rows @ found**2)
        if length <= 1e-12 * np.sqrt(max(rows.sum(), 1.0)):
            break
        scores = by_column.T @ (found / length)
    return np.asarray(found)
