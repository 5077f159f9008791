"""Methods that treat a table as one matrix: encode, perturb, clip the numbers to their ranges, decode.

    columns → matrix → perturb → numbers in their original units → finalize → columns

The released columns have the names, kinds and types of the original. Columns of every role are perturbed, because an
unchanged column would reveal which original row each released row comes from.

Numbers stay within a range: the declared domain, or what was detected. The detected range ends at the mean of the
five lowest and of the five highest numbers, because a released end of a range that is one person's number would
disclose it. A number that dominates this mean is left out of it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from sfumato.errors import CannotRelease
from sfumato.kernels.eigenvectors import leading_eigenpairs
from sfumato.methods.base import Method
from sfumato.methods.options import logs_option, reported_option
from sfumato.methods.permutation_plan import BLOCK_ROWS, RandomBlocks, RandomBlocksPlan, require_enough_rows
from sfumato.params import Choice
from sfumato.plan.claims.kept_statistics import ProbabilitiesAddUp
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor, ValidCells
from sfumato.plan.plan import Claim, Outcome
from sfumato.plan.questions import DistinctIn, FactsOf
from sfumato.plan.survey import Survey, count_blocks
from sfumato.table.encoded_columns import (
    NUMBER,
    OTHER,
    Logs,
    NumberEncoding,
    class_probabilities,
    probability_name,
    shares_of,
)
from sfumato.table.encoder import Encoder
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema

Decoding = Literal["largest", "probability", "drawn", "distribution"]
DECODINGS: tuple[Decoding, ...] = ("largest", "probability", "drawn", "distribution")

Trees = Literal["ignored", "branches"]
TREES: tuple[Trees, ...] = ("ignored", "branches")

SHOWN = 5  # smallest number of rows of a value whose name is released as that of a column of probabilities
CATEGORIES = 1000  # a column with more values than this holds names rather than categories


@dataclass(frozen=True, kw_only=True)
class MatrixMethod(Method):
    """Options of all methods that work on the matrix."""

    block_effect: ClassVar[str] = (
        "scales and categories are decided from a sample; rows are perturbed within random blocks"
    )
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "logarithms": "columns that were log-transformed",
        "matrix columns": "number of columns of the matrix",
        "mixtures": "columns that were treated as a number and values that many rows share",
    }
    splits_mixtures: ClassVar[bool] = False  # whether values that many rows share are encoded by indicators

    logs: Logs = logs_option()
    decoding: Decoding = reported_option(
        Choice(DECODINGS),
        'How a category is chosen from its perturbed indicators: the "largest" indicator; or at random, with '
        'probabilities from the inverse logit of the indicators ("probability") or proportional to them ("drawn"). '
        'With "distribution" the largest is chosen, and the probability of each value is released beside it, in '
        'columns such as "city=Ulm"; values of fewer than five rows are together in "city=(other)".',
        default="largest",
    )

    trees: Trees = reported_option(
        Choice(TREES),
        'Whether the branches of a column with a tree have indicators beside those of its values ("branches"), so that '
        "values of the same branch are similar and a category falls to the nearest branch and value, or every value "
        'stands by itself ("ignored").',
        default="ignored",
    )

    def setup(
        self, survey: Survey, schema: Schema, randomness: Randomness, *, least_rows: int = BLOCK_ROWS
    ) -> MatrixSetup:
        """Return the setup that all plans of this kind share; blocks have at least ``least_rows`` rows on average."""
        return matrix_setup(
            survey,
            schema,
            randomness,
            logs=self.logs,
            decoding=self.decoding,
            atoms=self.splits_mixtures,
            trees=self.trees,
            least_rows=least_rows,
        )


@dataclass(frozen=True, repr=False)
class Ranges:
    """The lowest and highest number that may be released: one per numeric column, or one per cell.

    In a column with atoms each row has its own range. That of an atom is the atom.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    is_atom: NDArray[np.bool_] | None = None  # (rows, columns); None if no column has atoms

    def clip(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest numbers within the ranges."""
        return np.clip(numbers, self.low, self.high)

    def fold(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers within the ranges: those beyond an end are mirrored at it, at most to the middle.

        So rows that went too far do not all have the end itself, which would make some of them equal.
        """
        with np.errstate(invalid="ignore"):
            middle = (self.low + self.high) / 2.0
        below, above = np.fmin(2.0 * self.low - numbers, middle), np.fmax(2.0 * self.high - numbers, middle)
        return self.clip(np.where(numbers > self.high, above, np.where(numbers < self.low, below, numbers)))

    def of(self, columns: list[int]) -> Ranges:
        """Return the ranges of these columns."""
        return Ranges(self.low[..., columns], self.high[..., columns])


@dataclass(frozen=True, kw_only=True, repr=False)
class MatrixSetup(RandomBlocks):
    """How columns are encoded in the matrix, and the ranges of the numbers."""

    encoder: Encoder
    schema: Schema
    decoding: Decoding
    shown: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # places of values whose probability is released

    @cached_property
    def distributions(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of released probabilities, by column: those of the shown values, and that of all others."""
        return {
            category.name: tuple(
                probability_name(category.name, category.values[place].as_py()) for place in self.shown[category.name]
            )
            + (
                (probability_name(category.name, OTHER),)
                if len(self.shown[category.name]) < len(category.values)
                else ()
            )
            for category in self.encoder.categories
            if category.name in self.shown
        }

    def with_distributions(self, released: Table, matrix: NDArray[np.float64]) -> Table:
        """Return the released rows with the probabilities of the values that the indicators of a matrix stand for."""
        columns, kinds = dict(zip(released.names, released.arrow.columns, strict=True)), dict(released.kinds)
        for category in self.encoder.categories:
            names = self.distributions.get(category.name, ())
            shares = shares_of(matrix[:, category.columns])
            shown = shares[:, list(self.shown.get(category.name, ()))]
            for place, name in enumerate(names):
                own = shown[:, place] if place < shown.shape[1] else 1.0 - shown.sum(axis=1)
                columns[name], kinds[name] = pa.chunked_array([np.clip(own, 0.0, 1.0)]), Kind.CONTINUOUS
        return Table(pa.table(columns), kinds)

    @cached_property
    def domains(self) -> Mapping[str, tuple[float, float]]:
        """The declared domains of the numeric columns that have one."""
        declared = {number.name: self.schema[number.name].domain for number in self.encoder.numbers}
        return {name: domain for name, domain in declared.items() if domain is not None}

    @cached_property
    def number_limits(self) -> NDArray[np.float64]:
        """The lowest and the highest number of each numeric column that is no atom, one row per column."""
        return np.array([self._range(number) for number in self.encoder.numbers]).reshape(-1, 2)

    def ranges(self, matrix: NDArray[np.float64]) -> Ranges:
        """Return the ranges of the numbers that this matrix represents."""
        numbers = self.encoder.numbers
        low, high = self.number_limits.T
        if not any(number.atoms for number in numbers):
            return Ranges(low, high)
        shape = (len(matrix), len(numbers))
        low, high, is_atom = (
            np.broadcast_to(low, shape).copy(),
            np.broadcast_to(high, shape).copy(),
            np.zeros(shape, bool),
        )
        for place, number in enumerate(numbers):
            if number.atoms:
                states = number.states(matrix)
                rows = (states >= 0) & (states < len(number.atoms))
                is_atom[:, place] = rows
                low[rows, place] = high[rows, place] = np.array(number.atoms)[states[rows]]
        return Ranges(low, high, is_atom)

    def _range(self, number: NumberEncoding) -> tuple[float, float]:
        """Return the declared domain, or what was detected; beside atoms a number must not become an atom."""
        detected = number.low, number.high
        return detected if number.atoms else self.domains.get(number.name, detected)


def matrix_setup(
    survey: Survey,
    schema: Schema,
    randomness: Randomness,
    *,
    logs: Logs = "auto",
    decoding: Decoding = "largest",
    atoms: bool = False,
    trees: Trees = "ignored",
    least_rows: int = BLOCK_ROWS,
) -> MatrixSetup:
    """Return the setup of a plan that encodes all columns; blocks have at least ``least_rows`` rows on average.

    With ``atoms``, values that many rows of a numeric column share are encoded by indicators; with ``trees``, so are
    the branches of the trees that columns declare.
    """
    names = [column.name for column in schema.columns]
    require_enough_rows(survey)
    if not names:
        raise CannotRelease("At least one column must remain to be released.", found="none")
    sample = survey.sample.table.select(names)
    numeric = [name for name in names if sample.kinds[name].is_numeric]
    others = [name for name in names if not sample.kinds[name].is_numeric]
    answers = survey.ask(
        [*(FactsOf(name) for name in numeric), *(DistinctIn(name, at_most=CATEGORIES) for name in others)]
    )
    distinct = {name: answers[DistinctIn(name, at_most=CATEGORIES)].require_complete(name) for name in others}
    values = {name: one.values for name, one in distinct.items()}
    encoder = Encoder.fit(
        sample,
        logs=logs,
        categories=values,
        facts={name: answers[FactsOf(name)] for name in numeric},
        atoms=atoms,
        branches=_branches(schema, values) if trees == "branches" else None,
    )
    shown = {name: tuple(np.flatnonzero(one.counts >= SHOWN).tolist()) for name, one in distinct.items()}
    setup = MatrixSetup(
        encoder=encoder,
        schema=schema,
        randomness=randomness,
        blocks=count_blocks(survey, least_rows=least_rows),
        decoding=decoding,
        shown=shown if decoding == "distribution" else {},
    )
    _require_free(setup)
    return setup


def _require_free(setup: MatrixSetup) -> None:
    """Raise if a column has the name of one that would hold probabilities."""
    used = set(setup.encoder.names)
    taken = sum(name in used for names in setup.distributions.values() for name in names)
    if taken:
        raise CannotRelease(
            'The names of columns of probabilities, such as "city=Ulm", must not be in use.',
            found=f"{taken} in the table",
            fix="rename these columns, or use another decoding",
        )


def _branches(schema: Schema, values: Mapping[str, pa.Array]) -> dict[str, NDArray[np.bool_]]:
    """Return the branches of each column with a tree: for each node, which values are below it.

    Nodes above one value only, and above all values, tell nothing. A missing value is in no branch.
    """
    from sfumato.schema.suggested_hierarchies import tree_for

    found = {}
    for name, own in values.items():
        tree = tree_for(schema[name], own)
        if tree is None:
            continue
        leaf = tree.positions(own, column=name)
        levels = [
            (leaf >= begin) & (leaf < end) for starts in tree.starts[1:] for begin, end in pairwise(starts.tolist())
        ]
        known = int((leaf >= 0).sum())
        telling = [branch for branch in levels if 1 < int(branch.sum()) < known]
        if telling:
            found[name] = np.unique(np.array(telling), axis=0)
    return found


@dataclass(frozen=True, repr=False)
class MatrixPlan(RandomBlocksPlan):
    """A plan that perturbs the matrix."""

    setup: MatrixSetup

    @abstractmethod
    def perturb(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """Return the perturbed matrix of one block; ``number`` is the number of the block."""

    def finalize(
        self, before: NDArray[np.float64], after: NDArray[np.float64], ranges: Ranges, number: int
    ) -> NDArray[np.float64]:
        """Return the released numeric columns, in their units, from the original and the perturbed ones."""
        return ranges.clip(after)

    def transform(self, block: Table, number: int) -> Outcome:
        after = self.perturb(self.setup.encoder.encode(block), number)
        numbers = self.finalize(
            self.numbers(block), self.setup.encoder.natural(after), self.setup.ranges(after), number
        )
        return self.outcome(self.decode_block(after, numbers, number), number)

    def numbers(self, block: Table) -> NDArray[np.float64]:
        """Return the numeric columns of a block, in their units."""
        return block.matrix([number.name for number in self.setup.encoder.numbers])

    def decode_block(self, matrix: NDArray[np.float64], numbers: NDArray[np.float64], number: int) -> Table:
        """Return the table that the matrix and these numbers represent."""
        is_drawn = self.setup.decoding in ("probability", "drawn")
        generator = self.setup.randomness.stream(f"categories {number}") if is_drawn else None
        shares = class_probabilities if self.setup.decoding == "probability" else shares_of
        released = self.setup.encoder.decode(matrix, numbers=numbers, generator=generator, shares=shares)
        return self.setup.with_distributions(released, matrix) if self.setup.shown else released

    def outcome(self, released: Table, number: int) -> Outcome:
        """Return the released rows in random order."""
        order = self.setup.randomness.stream(f"rows {number}").permutation(released.rows)
        return Outcome(released.take(order), order)

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        given = tuple(self.setup.distributions.values())
        allowed = (*self.setup.encoder.names, *(name for names in given for name in names))
        always = RowsAccountedFor(), ColumnsAllowed(names=allowed), ValidCells(domains=self.setup.domains)
        return (*always, ProbabilitiesAddUp(distributions=given)) if given else always

    @property
    def notes(self) -> Mapping[str, object]:
        encoder = self.setup.encoder
        mixtures = [number.name for number in encoder.numbers if number.atoms]
        return {"logarithms": list(encoder.logged), "matrix columns": encoder.width, "mixtures": mixtures}


# Numbers for the rows of a matrix that have none: the atoms and missing values of numeric columns.
#
# The encoder gives these rows the mean. A method that mixes rows would spread the means over rows that do have a
# number, and so shrink its variance and its correlations. Drawn numbers make the column one distribution, and its
# relations to the other columns are those of the rows that have a number. The indicators still tell which rows have
# one.


FITTED_ROWS = 5000  # rows to which a regression is fitted
FEWEST_FITTED_ROWS = 2  # a regression needs this many rows; without them the mean stays
MANY = 200  # columns of a matrix from which leading components predict a number instead of all other columns
PREDICTORS = 50  # most leading components from which numbers are drawn for rows that have none
ROWS_PER_PREDICTOR = 10  # with fewer, a regression would follow chance, and its ridge would leave little of it


def impute(
    matrix: NDArray[np.float64],
    encoder: Encoder,
    generator: np.random.Generator,
    predictors: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the matrix with a drawn number in each row that has none; the matrix itself if all rows have one.

    A number is the prediction of a ridge regression on the other columns plus the residual of a random row (stochastic
    regression imputation). Columns are filled one after the other, and later ones use the numbers drawn before. If
    ``predictors`` are given, one row for each row of the matrix, they take the place of the other columns; in a matrix
    of very many columns these are its leading components, because a regression on all columns for each takes long.
    """
    numbers = [number for number in encoder.numbers if number.width > 1]
    if not numbers:
        return matrix
    if predictors is None and matrix.shape[1] > MANY:
        predictors = _leading_scores(matrix, generator)
    filled = matrix.copy()
    for number in numbers:
        known = number.states(matrix) == NUMBER
        if FEWEST_FITTED_ROWS <= known.sum() < len(matrix):
            own = np.arange(number.position, number.position + number.width)
            others = np.delete(filled, own, axis=1) if predictors is None else predictors
            filled[~known, number.position] = _draw(others, filled[:, number.position], known, generator)
    return filled


def count_predictors(rows: int) -> int:
    """Return from how many leading components the numbers of this many rows are drawn."""
    return max(1, min(PREDICTORS, rows // ROWS_PER_PREDICTOR))


def _leading_scores(matrix: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    """Return the white scores of the leading components, by the axes of at most FITTED_ROWS rows."""
    rows = matrix if len(matrix) <= FITTED_ROWS else generator.choice(matrix, FITTED_ROWS, replace=False)
    centred = rows - rows.mean(axis=0)
    is_wide = centred.shape[1] > len(centred)
    products = centred @ centred.T if is_wide else centred.T @ centred
    vectors = leading_eigenpairs(products, count_predictors(len(rows)), generator).vectors
    scores = (matrix - rows.mean(axis=0)) @ (centred.T @ vectors if is_wide else vectors)
    spread = scores.std(axis=0)
    return np.asarray(scores / np.where(spread > 0.0, spread, 1.0))


def _draw(
    others: NDArray[np.float64],
    numbers: NDArray[np.float64],
    known: NDArray[np.bool_],
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    """Return a number for each row that has none, predicted from the other columns."""
    rows = np.flatnonzero(known)
    rows = rows if len(rows) <= FITTED_ROWS else generator.choice(rows, FITTED_ROWS, replace=False)
    centre, wanted = others[rows].mean(axis=0), numbers[rows]
    fitted = others[rows] - centre
    # a ridge of one row per column: with few rows, predictions are near the mean
    slopes = _ridge(fitted, wanted - wanted.mean(), float(len(centre)))
    residuals = wanted - wanted.mean() - fitted @ slopes
    drawn = wanted.mean() + (others[~known] - centre) @ slopes
    return np.asarray(drawn + generator.choice(residuals, len(drawn)))


def _ridge(columns: NDArray[np.float64], wanted: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """Return the slopes of a ridge regression, by products of the smaller of rows and columns."""
    rows, width = columns.shape
    if width > rows:
        return np.asarray(columns.T @ np.linalg.solve(columns @ columns.T + ridge * np.eye(rows), wanted))
    return np.asarray(np.linalg.solve(columns.T @ columns + ridge * np.eye(width), columns.T @ wanted))
