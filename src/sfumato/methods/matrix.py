"""Methods that see a table as one matrix: encode, change, hold the numbers in their limits, decode.

    columns → matrix → change → numbers in their own units → settle → columns

What such a method releases has the columns, kinds and types of the original. All columns take part, whatever their
role, because a column that stayed in its place would tell where each row came from.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.errors import CannotRelease, TableError
from sfumato.methods.base import Method, Outcome, Plan
from sfumato.methods.claims import ColumnsAllowed, Finding, RowsAccountedFor
from sfumato.params import require_choice
from sfumato.table.encoded_columns import Logs, class_probabilities, shares_of
from sfumato.table.encoder import Encoder, require_logs
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.methods.claims import Claim, Evidence
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.survey.survey import Survey
    from sfumato.table.table import Table

Decoding = Literal["largest", "probability", "drawn"]
DECODINGS: tuple[Decoding, ...] = ("largest", "probability", "drawn")

CATEGORIES = 1000  # more categories than this are names rather than categories
FEWEST_ROWS = 3  # two rows can only be exchanged for each other


@dataclass(frozen=True, kw_only=True)
class MatrixMethod(Method):
    """Options of every method that works on the matrix."""

    logs: Logs = "auto"  # take logarithms of positive skewed columns, of none ("never"), or of those named
    # a category is that of the largest indicator, or drawn: by TL's class probabilities, or in the indicators' shares
    decoding: Decoding = "largest"

    def __post_init__(self) -> None:
        require_logs(self.logs)
        require_choice(self.decoding, name="decoding", choices=DECODINGS)

    def ground(self, survey: Survey, schema: Schema, randomness: Randomness) -> MatrixSetup:
        """What every plan of this kind starts from."""
        names = [column.name for column in schema.columns]
        if survey.rows < FEWEST_ROWS:
            raise CannotRelease(f"At least {FEWEST_ROWS} rows are needed.", found=f"{survey.rows}", fix="add rows")
        if not names:
            raise CannotRelease("At least one column must be left to release.", found="none")
        sample = survey.sample(names)
        partial = sample.rows < survey.rows
        code = Encoder.fit(
            sample,
            logs=self.logs,
            categories={name: survey.distinct(name).values for name in names if not sample.kinds[name].is_numeric}
            if partial
            else None,
            with_missing=[name for name in names if sample.kinds[name].is_numeric and _some_missing(survey, name)]
            if partial
            else (),
        )
        _require_categories(code)
        blocks = 1 if survey.block_rows is None else -(-survey.rows // survey.block_rows)
        return MatrixSetup(code=code, schema=schema, randomness=randomness, blocks=blocks, decoding=self.decoding)


@dataclass(frozen=True, kw_only=True, repr=False)
class MatrixSetup:
    """How the columns stand in the matrix, the limits of the numbers, and where the randomness comes from."""

    code: Encoder
    schema: Schema
    randomness: Randomness
    blocks: int
    decoding: Decoding

    @cached_property
    def low(self) -> NDArray[np.float64]:
        """Lowest number of each numeric column that may leave: its declared domain, or the mean of the few lowest."""
        return np.array([self._domain(number.name, (number.low, number.high))[0] for number in self.code.numbers])

    @cached_property
    def high(self) -> NDArray[np.float64]:
        """Highest number of each numeric column that may leave."""
        return np.array([self._domain(number.name, (number.low, number.high))[1] for number in self.code.numbers])

    def _domain(self, name: str, learnt: tuple[float, float]) -> tuple[float, float]:
        return self.schema[name].domain or learnt


@dataclass(frozen=True, repr=False)
class MatrixPlan(Plan):
    """A plan that changes the matrix. Blocks, where an engine wants them, are random parts of the table."""

    ground: MatrixSetup

    @abstractmethod
    def change(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """The changed matrix of one block; ``number`` is the block's."""

    def settle(self, before: NDArray[np.float64], after: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """The numeric columns that leave, in their own units, from those that came and those that were changed."""
        return np.clip(after, self.ground.low, self.ground.high)

    @property
    def blocks(self) -> int:
        return self.ground.blocks

    def route(self, rows: Table) -> NDArray[np.int64]:
        return self.ground.randomness.stream("blocks").integers(self.blocks, size=rows.rows)

    def transform(self, block: Table, number: int) -> Outcome:
        code, randomness = self.ground.code, self.ground.randomness
        before = code.encode(block)
        after = self.change(before, number)
        numbers = self.settle(block.matrix([n.name for n in code.numbers]), code.natural(after), number)
        draw = None if self.ground.decoding == "largest" else randomness.stream(f"categories {number}")
        shares = class_probabilities if self.ground.decoding == "probability" else shares_of
        order = randomness.stream(f"rows {number}").permutation(block.rows)
        return Outcome(code.decode(after, numbers=numbers, draw=draw, shares=shares).take(order), order)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (RowsAccountedFor(), ColumnsAllowed(names=self.ground.code.names), ValidCells())

    @property
    def notes(self) -> Mapping[str, object]:
        return {"logarithms": list(self.ground.code.logged), "matrix columns": self.ground.code.width}


@dataclass(frozen=True, kw_only=True)
class ValidCells:
    """Every released category is one of the original's, and every whole number is whole."""

    def measure(self, evidence: Evidence) -> Finding:
        """Hold the distinct released values against those of the original."""
        foreign = [name for name in evidence.released.names if self._foreign(name, evidence)]
        return Finding(
            claim="every category is one of the column's own, and whole numbers are whole",
            held=not foreign,
            found=f"other values in {', '.join(map(repr, foreign))}" if foreign else "valid values only",
            fix="report this: the method has a fault",
        )

    @staticmethod
    def _foreign(name: str, evidence: Evidence) -> bool:
        released, original = evidence.released, evidence.original
        if original.kinds[name] is Kind.WHOLE:
            numbers = released.numbers(name)
            present = numbers[~np.isnan(numbers)]
            return bool((present != np.rint(present)).any())
        if original.kinds[name].is_numeric:
            return False
        known = set(original.coded(name).values.to_pylist())
        return not known.issuperset(released.coded(name).values.to_pylist())


def _some_missing(survey: Survey, name: str) -> bool:
    return survey.moments([name]).records < survey.rows


def _require_categories(code: Encoder) -> None:
    names = [category.name for category in code.categories if len(category.values) > CATEGORIES]
    if names:
        raise TableError(
            f"A column of categories must have at most {CATEGORIES:,} of them to become indicators.",
            found=f"more in {', '.join(map(repr, names))}",
            fix="give such a column the role 'identifier', recode it, or read it as numbers",
        )
