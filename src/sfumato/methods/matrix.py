"""Methods that treat a table as one matrix: encode, perturb, clip the numbers to their limits, decode.

    columns → matrix → perturb → numbers in their original units → finalize → columns

The released columns have the names, kinds and types of the original. Columns of every role are perturbed, because an
unchanged column would reveal which original row each released row comes from.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sfumato.errors import CannotRelease
from sfumato.methods.base import Method, Outcome, Plan
from sfumato.methods.claims import ColumnsAllowed, RowsAccountedFor, ValidCells
from sfumato.params import Checked, Choice, option
from sfumato.survey.questions import DistinctIn, FactsOf
from sfumato.survey.survey import blocks_wanted
from sfumato.table.encoded_columns import Logs, class_probabilities, shares_of
from sfumato.table.encoder import Encoder, require_logs
from sfumato.table.hashing import mixed_bits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.methods.claims import Claim
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.survey.survey import Survey
    from sfumato.table.table import Table

Decoding = Literal["largest", "probability", "drawn"]
DECODINGS: tuple[Decoding, ...] = ("largest", "probability", "drawn")

CATEGORIES = 1000  # a column with more values than this holds names rather than categories
FEWEST_ROWS = 3  # two rows can only be exchanged with each other
BLOCK_ROWS = 100  # smallest average number of rows per block


@dataclass(frozen=True, kw_only=True)
class MatrixMethod(Method):
    """Options of all methods that work on the matrix."""

    noted: ClassVar[Mapping[str, str]] = {
        "logarithms": "columns that were log-transformed",
        "matrix columns": "number of columns of the matrix",
    }

    logs: Logs = option(
        Checked('"auto", "never" or a tuple of column names', lambda value, name: require_logs(value)),
        'Columns to log-transform before the method is applied: skewed columns of positive numbers ("auto"), none '
        '("never"), or the named columns.',
        default="auto",
        reported=True,
    )
    decoding: Decoding = option(
        Choice(DECODINGS),
        'How a category is chosen from its perturbed indicators: the "largest" indicator; or at random, with '
        'probabilities from the inverse logit of the indicators ("probability") or proportional to them ("drawn").',
        default="largest",
        reported=True,
    )

    def setup(
        self, survey: Survey, schema: Schema, randomness: Randomness, *, least_rows: int = BLOCK_ROWS
    ) -> MatrixSetup:
        """Return the setup that all plans of this kind share; blocks have at least ``least_rows`` rows on average."""
        names = [column.name for column in schema.columns]
        if survey.rows < FEWEST_ROWS:
            raise CannotRelease(
                f"The table must have at least {FEWEST_ROWS} rows.", found=f"{survey.rows}", fix="add rows"
            )
        if not names:
            raise CannotRelease("At least one column must remain to be released.", found="none")
        sample = survey.sample.table.select(names)
        numeric = [name for name in names if sample.kinds[name].is_numeric]
        others = [name for name in names if name not in numeric]
        answers = survey.ask(
            [
                *(FactsOf(name) for name in numeric),
                *(DistinctIn(name, at_most=CATEGORIES) for name in others),
            ]
        )
        encoder = Encoder.fit(
            sample,
            logs=self.logs,
            categories={
                name: answers[DistinctIn(name, at_most=CATEGORIES)].require_complete(name).values for name in others
            },
            facts={name: answers[FactsOf(name)] for name in numeric},
        )
        return MatrixSetup(
            encoder=encoder,
            schema=schema,
            randomness=randomness,
            blocks=blocks_wanted(survey, least_rows=least_rows),
            decoding=self.decoding,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class MatrixSetup:
    """How columns are encoded in the matrix, the limits of the numbers, and the source of randomness."""

    encoder: Encoder
    schema: Schema
    randomness: Randomness
    blocks: int
    decoding: Decoding

    @cached_property
    def low(self) -> NDArray[np.float64]:
        """Lowest number of each numeric column that may be released: that of its declared domain, or of the encoder."""
        return np.array([self._domain(number.name, (number.low, number.high))[0] for number in self.encoder.numbers])

    @cached_property
    def high(self) -> NDArray[np.float64]:
        """Highest number of each numeric column that may be released."""
        return np.array([self._domain(number.name, (number.low, number.high))[1] for number in self.encoder.numbers])

    def _domain(self, name: str, learnt: tuple[float, float]) -> tuple[float, float]:
        return self.schema[name].domain or learnt


@dataclass(frozen=True, repr=False)
class MatrixPlan(Plan):
    """A plan that perturbs the matrix. If the engine works in blocks, they are random parts of the table."""

    setup: MatrixSetup

    @abstractmethod
    def perturb(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """Return the perturbed matrix of one block; ``number`` is the number of the block."""

    def finalize(self, before: NDArray[np.float64], after: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        """Return the released numeric columns, in their units, from the original and the perturbed ones."""
        return np.clip(after, self.setup.low, self.setup.high)

    @property
    def blocks(self) -> int:
        return self.setup.blocks

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        salt = self.setup.randomness.stream("blocks").integers(2**64, dtype=np.uint64)
        return (mixed_bits(keys ^ salt) % np.uint64(self.blocks)).astype(np.int64)

    def transform(self, block: Table, number: int) -> Outcome:
        encoder, randomness = self.setup.encoder, self.setup.randomness
        before = encoder.encode(block)
        after = self.perturb(before, number)
        numbers = self.finalize(block.matrix([n.name for n in encoder.numbers]), encoder.natural(after), number)
        generator = None if self.setup.decoding == "largest" else randomness.stream(f"categories {number}")
        shares = class_probabilities if self.setup.decoding == "probability" else shares_of
        order = randomness.stream(f"rows {number}").permutation(block.rows)
        return Outcome(encoder.decode(after, numbers=numbers, generator=generator, shares=shares).take(order), order)

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        return (RowsAccountedFor(), ColumnsAllowed(names=self.setup.encoder.names), ValidCells())

    @property
    def notes(self) -> Mapping[str, object]:
        return {"logarithms": list(self.setup.encoder.logged), "matrix columns": self.setup.encoder.width}
