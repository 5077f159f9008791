"""Sequential trees: each variable given the ones before it, drawn from the leaf of a tree (Reiter, 2005; synthpop).

A tree of the original rows predicts the variable from the variables before it. A synthetic row falls into a leaf by
what was drawn for it so far, and its value is drawn from the rows of this leaf: a code as it is, a number between two
neighbouring ones. So the relations between all columns are kept, as far as leaves of k rows show them.

Of a long table, a random part of
the rows decides where the tree is cut, because sorting all of them on every level would take more than proportional
time. Values are drawn from all rows of a leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.synthesize.variables import (
    Codes,
    Donors,
    Drawn,
    Numbers,
    Problem,
    Sampler,
    Variable,
    average_neighbours,
    effective_values,
    own_values,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What a tree of one variable is fitted to: earlier variables as numbers, the most related ones if there are many.
#
# A nominal predictor with many values makes trees slow or impossible. Its values are put in the order of the variable
# that is predicted, which is the best order for one cut of a number (Breiman et al., 1984). Numbers are put into bins
# of equally many rows, so that sorting them costs the same however many rows there are.
#
# With all earlier variables as predictors the work would grow with the square of the number of columns. A tree
# therefore uses at most MOST of them: those with the largest correlation ratio η², the share of their variance
# between groups of rows with similar values of the predicted variable. The distance from the mean counts too, so that
# a U shape is seen.

MOST = 15  # predictors of a tree
BINS = 1000  # of a number
GROUPS = 20  # of rows with similar values of the predicted variable
SAMPLE = 5_000  # rows, about, on which relations are measured
ROUNDS = 30  # of the iteration for the first axis of two nominal columns


@dataclass(frozen=True, repr=False)
class Levels:
    """A variable as whole numbers: its codes, or the bins of its numbers."""

    edges: NDArray[np.float64] | None  # between the bins of numbers; None for codes

    @classmethod
    def of(cls, variable: Variable) -> Levels:
        """Choose the bins."""
        return cls(_edges(own_values(variable), BINS) if isinstance(variable, Numbers) else None)

    def __call__(self, values: NDArray[Any]) -> NDArray[np.int64]:
        return values if self.edges is None else np.searchsorted(self.edges, values)


@dataclass(frozen=True, repr=False)
class Predictor:
    """An earlier variable as numbers: the scores of its codes, or the bins of its numbers as they are."""

    place: int  # of the variable
    scores: NDArray[np.float64] | None  # one per code; None for numbers

    def column(self, levels: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the numbers of rows with these levels."""
        return (levels if self.scores is None else self.scores[levels]).astype(np.float32)


def matrix_of(predictors: Sequence[Predictor], levels: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
    """Return the columns of the predictors for rows with these levels, one array per variable."""
    return np.column_stack([one.column(levels[one.place]) for one in predictors])


def choose_predictors(
    variables: Sequence[Variable], levels: Sequence[NDArray[np.int64]], target: Variable, wanted: NDArray[Any]
) -> tuple[Predictor, ...]:
    """Return the predictors of a variable: all earlier ones, or those that are most related to it."""
    predictors = [
        Predictor(place, _scores(one, levels[place], target, wanted) if isinstance(one, Codes) else None)
        for place, one in enumerate(variables)
    ]
    if len(predictors) <= MOST:
        return tuple(predictors)
    some = slice(None, None, max(1, len(wanted) // SAMPLE))
    groups = wanted[some]
    groups = groups if isinstance(target, Codes) else np.searchsorted(_edges(groups, GROUPS), groups)
    strength = correlation_ratios(matrix_of(predictors, [one[some] for one in levels]), groups)
    return tuple(predictors[place] for place in sorted(np.argsort(strength, kind="stable")[-MOST:].tolist()))


def correlation_ratios(columns: NDArray[Any], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return for each column the larger η² of its numbers and of their distances from the mean, between groups.

    It is from 0, for means that are equal in all groups, to 1, for numbers that are equal within each group.
    """
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    counts = np.diff(starts, append=len(groups))[:, None]
    centred = columns[order] - columns.mean(axis=0, dtype=np.float64)
    ratios = [_between(one, starts, counts) for one in (centred, np.abs(centred))]
    return np.maximum(*ratios)


def _between(columns: NDArray[np.float64], starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of the variance that is between groups of rows that follow each other."""
    centred = columns - columns.mean(axis=0)
    total = (centred**2).sum(axis=0)
    between = (np.add.reduceat(centred, starts, axis=0) ** 2 / counts).sum(axis=0)
    return np.asarray(np.divide(between, total, out=np.zeros(len(total)), where=total > 0.0))


def _edges(numbers: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return the edges between at most so many bins; a number that is equal to an edge is below it."""
    values = np.unique(numbers)
    if len(values) <= bins:
        return values[:-1]
    ordered = np.sort(numbers)
    return np.unique(ordered[np.arange(1, bins) * len(ordered) // bins])


def _scores(predictor: Codes, values: NDArray[Any], target: Variable, wanted: NDArray[Any]) -> NDArray[np.float64]:
    """Return a number for each code of a predictor, in the order of the variable that is predicted."""
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
    axis = by_row @ scores
    for _ in range(ROUNDS):
        axis = by_row @ scores
        axis -= (rows @ axis) / max(rows.sum(), 1.0)
        length = np.sqrt(rows @ axis**2)
        if length <= 1e-12 * np.sqrt(max(rows.sum(), 1.0)):
            break
        scores = by_column.T @ (axis / length)
    return np.asarray(axis)


PER_NUMBER = 3  # cells that a leaf of numbers counts for
DECIDING = 30_000  # rows that decide where a tree is cut


def fit_trees(problem: Problem, generator: np.random.Generator) -> Sampler:
    """Return a sampler of the trees of the table; variables that are kept have no tree."""
    bins = [Levels.of(variable) for variable in problem.variables]
    levels = [level(own_values(variable)) for level, variable in zip(bins, problem.variables, strict=True)]
    given = len(problem.kept)
    steps = [_step(problem, place, levels, generator) for place in range(given, len(problem.variables))]

    def draw(rows: int, generator: np.random.Generator) -> Drawn:
        drawn: Drawn = list(problem.kept)
        before: Drawn = [level(values) for level, values in zip(bins, drawn, strict=False)]  # the same as levels
        for step, level in zip(steps, bins[given:], strict=True):
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
        drawn = average_neighbours(variable.values[rows], k) if isinstance(variable, Numbers) else wanted
        return Step(variable, (), None, np.empty(0, np.int64), Donors.of(drawn, np.zeros(len(rows), np.int64), 1))
    predictors = choose_predictors(problem.variables[:place], before, variable, wanted)
    tree = _tree(variable, k, _most_leaves(wanted, variable, problem.cells), int(generator.integers(2**31)))
    matrix = matrix_of(predictors, before)
    some = generator.permutation(len(rows))[:DECIDING] if len(rows) > DECIDING else slice(None)
    leaves, groups = np.unique(tree.fit(matrix[some], wanted[some]).apply(matrix), return_inverse=True)
    return Step(variable, predictors, tree, leaves, Donors.of(wanted, groups, len(leaves)))


def _can_be_learnt(wanted: NDArray[Any], variable: Variable) -> bool:
    """Whether there is more than one value and, of codes, at least two rows per code on average."""
    values = len(np.unique(wanted))
    return values > 1 and (isinstance(variable, Numbers) or 2 * values <= len(wanted))


def _most_leaves(wanted: NDArray[Any], variable: Variable, cells: int) -> int:
    """Return how many leaves have so many cells, if every leaf has the values of the whole column."""
    return max(2, int(cells / (effective_values(wanted) if isinstance(variable, Codes) else PER_NUMBER)))


def _tree(variable: Variable, k: int, leaves: int, seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    kind = DecisionTreeClassifier if isinstance(variable, Codes) else DecisionTreeRegressor
    return kind(min_samples_leaf=k, max_leaf_nodes=leaves, random_state=seed)
