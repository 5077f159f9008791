"""Sequential trees: each variable given the ones before it, drawn from the leaf of a tree (Reiter, 2005; synthpop).

A tree of the original rows predicts the variable from the variables before it. A synthetic row falls into a leaf by
what was drawn for it so far, and its value is drawn from the rows of this leaf: a code as it is, a number between two
neighbouring ones. So the relations between all columns are kept, as far as leaves of k rows show them.

Which variables a tree uses, and as which numbers, is told in :mod:`.predictors`. Of a long table, a random part of
the rows decides where the tree is cut, because sorting all of them on every level would take more than proportional
time. Values are drawn from all rows of a leaf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.classical.synthesis.donors import Donors
from sfumato.methods.classical.synthesis.predictors import Levels, Predictor, matrix_of, most_related, own_values
from sfumato.methods.classical.synthesis.variables import Codes, Numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.classical.synthesis.variables import Drawn, Problem, Sampler, Variable


DECIDING = 30_000  # rows that decide where a tree is cut


def fit_trees(problem: Problem, generator: np.random.Generator) -> Sampler:
    """Return a sampler of the trees of the table."""
    bins = [Levels.of(variable) for variable in problem.variables]
    levels = [level(own_values(variable)) for level, variable in zip(bins, problem.variables, strict=True)]
    steps = [_step(problem, place, levels, generator) for place in range(len(problem.variables))]

    def draw(rows: int, generator: np.random.Generator) -> Drawn:
        drawn: Drawn = []
        before: Drawn = []  # the same as levels
        for step, level in zip(steps, bins, strict=True):
            drawn.append(step.draw(before, rows, generator))
            before.append(level(drawn[-1]))
        return drawn

    return draw


@dataclass(frozen=True, repr=False)
class Step:
    """The tree of one variable."""

    variable: Variable
    predictors: tuple[Predictor, ...]
    tree: Any  # None if there is nothing to predict from
    leaves: NDArray[np.int64]  # numbers of the leaves
    donors: Donors

    def draw(self, before: Drawn, rows: int, generator: np.random.Generator) -> NDArray[Any]:
        """Draw the variable for rows whose earlier variables have been drawn and are given as levels."""
        values = np.zeros(rows, dtype=self.donors.values.dtype)
        chosen: NDArray[np.int64] | slice = slice(None)
        if isinstance(self.variable, Numbers) and self.variable.state is not None:
            chosen = np.flatnonzero(before[self.variable.state] == 0)
        size = len(values[chosen])
        if not size or not self.donors.values.size:
            return values
        groups = np.zeros(size, dtype=np.int64)
        if self.tree is not None:
            groups = np.searchsorted(self.leaves, self.tree.apply(matrix_of(self.predictors, before)[chosen]))
        if isinstance(self.variable, Codes):
            values[chosen] = self.donors.codes(groups, generator)
        else:
            values[chosen] = self.donors.numbers(groups, generator.random(size))
        return values


def _step(problem: Problem, place: int, levels: Drawn, generator: np.random.Generator) -> Step:
    """Fit the tree of one variable to the rows that have it."""
    variable, k = problem.variables[place], problem.k
    rows = np.flatnonzero(variable.known) if isinstance(variable, Numbers) else np.arange(problem.rows)
    wanted, before = variable.values[rows], [one[rows] for one in levels[:place]]
    if not before or len(rows) < 2 * k or not _can_be_learnt(wanted, variable):
        return Step(variable, (), None, np.empty(0, np.int64), Donors.of(wanted, np.zeros(len(rows), np.int64), 1))
    predictors = most_related(problem.variables[:place], before, variable, wanted)
    tree = _tree(variable, k, int(generator.integers(2**31)))
    matrix = matrix_of(predictors, before)
    some = generator.permutation(len(rows))[:DECIDING] if len(rows) > DECIDING else slice(None)
    leaves, groups = np.unique(tree.fit(matrix[some], wanted[some]).apply(matrix), return_inverse=True)
    return Step(variable, predictors, tree, leaves, Donors.of(wanted, groups, len(leaves)))


def _can_be_learnt(wanted: NDArray[Any], variable: Variable) -> bool:
    """Whether there is more than one value and, of codes, at least two rows per code on average."""
    values = len(np.unique(wanted))
    return values > 1 and (isinstance(variable, Numbers) or 2 * values <= len(wanted))


def _tree(variable: Variable, k: int, seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    kind = DecisionTreeClassifier if isinstance(variable, Codes) else DecisionTreeRegressor
    return kind(min_samples_leaf=k, random_state=seed)
