"""Plans that move cells between the rows of a column, and the ranks of cells that they use."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import CannotRelease, OptionError, TableError
from sfumato.plan.claims.kept_statistics import MarginalsKept
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor
from sfumato.plan.plan import Claim, Outcome, Plan
from sfumato.plan.survey import Survey, count_blocks
from sfumato.table.groups import mix_bits
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema


def sort_rows(codes: NDArray[np.number], generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the rows in the order of their codes; rows with the same code are in random order."""
    shuffled = generator.permutation(len(codes))
    return np.asarray(shuffled[np.argsort(codes[shuffled], kind="stable")])


def rank_of(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of each row, from 0, given the rows in order."""
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def normal_scores(ranks: NDArray[np.number], rows: int) -> NDArray[np.float64]:
    """Return Φ⁻¹((rank + ½) / rows), the normal scores of ranks from 0 (TL 2.5)."""
    from scipy.special import ndtri

    return np.asarray(ndtri((ranks + 0.5) / max(rows, 1)))


def missing_cells(table: Table, name: str) -> NDArray[np.bool_]:
    """Return which cells of a column are missing."""
    column = table.arrow.column(name)
    return np.asarray(column.is_null(nan_is_null=True).to_numpy())


FEWEST_ROWS = 3  # two rows can only be exchanged with each other
BLOCK_ROWS = 100  # smallest average number of rows per block


def require_enough_rows(survey: Survey) -> None:
    """Raise if there are too few rows to exchange anything between them."""
    if survey.rows < FEWEST_ROWS:
        raise CannotRelease(f"The table must have at least {FEWEST_ROWS} rows.", found=f"{survey.rows}", fix="add rows")


@dataclass(frozen=True, kw_only=True, repr=False)
class RandomBlocks:
    """The number of blocks, and the source of randomness."""

    blocks: int
    randomness: Randomness


@dataclass(frozen=True, repr=False)
class RandomBlocksPlan(Plan):
    """A plan whose blocks, if the engine works in blocks, are random parts of the table."""

    setup: RandomBlocks

    @property
    def blocks(self) -> int:
        return self.setup.blocks

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        salt = self.setup.randomness.stream("blocks").integers(2**64, dtype=np.uint64)
        return (mix_bits(keys ^ salt) % np.uint64(self.blocks)).astype(np.int64)


@dataclass(frozen=True, kw_only=True, repr=False)
class Permutation(RandomBlocks):
    """The columns of a release, and those whose cells move."""

    names: tuple[str, ...]
    moving: tuple[str, ...]
    rows: int  # of the table

    @classmethod
    def of(cls, survey: Survey, schema: Schema, randomness: Randomness, *, staying: Sequence[str]) -> Permutation:
        """Check that the table can be released, and that some cells are left to move."""
        names = tuple(column.name for column in schema.columns)
        require_enough_rows(survey)
        absent = [name for name in staying if name not in names]
        if absent:
            raise OptionError(
                f"There is no column {', '.join(map(repr, absent))} to be released.",
                found=f"columns {', '.join(map(repr, names))}",
            )
        moving = tuple(name for name in names if name not in staying)
        if not moving:
            raise CannotRelease(
                "The cells of at least one column must move.", found="none", fix="name fewer columns that stay"
            )
        kinds = survey.sample.table.kinds
        text = [name for name in moving if kinds[name] is Kind.TEXT]
        if text:
            raise TableError(
                "Free text identifies people wherever it is moved.",
                found=f"free text in {', '.join(map(repr, text))}",
                fix="give it the role 'identifier', or remove it",
            )
        return cls(
            names=names,
            moving=moving,
            blocks=count_blocks(survey, least_rows=BLOCK_ROWS),
            rows=survey.rows,
            randomness=randomness,
        )


@dataclass(frozen=True, repr=False)
class PermutationPlan(RandomBlocksPlan):
    """Move cells within blocks."""

    setup: Permutation

    @abstractmethod
    def sources(self, block: Table, number: int) -> Mapping[str, NDArray[np.int64]]:
        """Return, for each moving column, the row of the block from which each row gets its cell: a permutation."""

    def read(self, block: Table) -> Table:
        """Return the columns that decide which cells move: those that are released."""
        return block.select(self.setup.names)

    def transform(self, block: Table, number: int) -> Outcome:
        chosen = block.select(self.setup.names)
        chosen.require_finite(name for name in self.setup.names if chosen.kinds[name].is_numeric)
        sources = self.sources(self.read(block), number)
        order = self.setup.randomness.stream(f"rows {number}").permutation(block.rows)
        columns = {
            name: chosen.arrow.column(name).take(pa.array(sources[name][order] if name in sources else order))
            for name in self.setup.names
        }
        return Outcome(Table(pa.table(columns), chosen.kinds), order)

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        return (RowsAccountedFor(), ColumnsAllowed(names=self.setup.names), MarginalsKept(columns=self.setup.names))
