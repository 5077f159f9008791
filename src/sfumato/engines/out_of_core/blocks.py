"""The released rows, part by part: each block becomes a Parquet file, in random order, and is read back to be verified.

The origin of each row stays in the workspace until the release is verified, and is removed with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.engines.base import PairedSample, no_row_error
from sfumato.engines.finish_rows import RandomNumbering, finish_rows
from sfumato.errors import GuaranteeNotMet
from sfumato.formats.arrow_files import write_parquet
from sfumato.formats.raw_files import write_whole
from sfumato.plan.plan import Evidence, Plan, Trace
from sfumato.randomness import Randomness
from sfumato.release.rows import StoredTable
from sfumato.release.target import part_name
from sfumato.table.groups import group_labels
from sfumato.table.kinds import Kind, order_categories
from sfumato.table.table import Table, replace_columns


class Blocks(Protocol):
    """The original rows, block by block."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """Number of rows of each block."""

    def read(self, number: int) -> Table:
        """Return the original rows of a block, in the same order each time."""


@dataclass(frozen=True, repr=False)
class ReleasedPart:
    """A block that was transformed and written."""

    block: int
    number: int  # of the file, at random
    rows: int
    trace: Trace
    kinds: Mapping[str, Kind]
    types: Mapping[str, pa.DataType]
    orders: Mapping[str, tuple[str, ...]]  # categories of ordered columns that occur in this part


@dataclass(frozen=True, repr=False)
class Parts:
    """All parts of a release, and the blocks that they come from."""

    blocks: Blocks
    folder: Path  # of the files that will leave
    origins: Path  # of the origins, which will not
    parts: Sequence[ReleasedPart]
    all_rows: int | None = None  # of the release, if the parts are not listed

    @property
    def rows(self) -> int:
        """Number of released rows."""
        return sum(part.rows for part in self.parts) if self.all_rows is None else self.all_rows

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Kinds of the released columns."""
        return self.parts[0].kinds

    def evidence(self, part: ReleasedPart) -> Evidence:
        """Return the rows of a part as they were written, with the original rows of its block."""
        released = self.released(part)
        return Evidence(released, self.blocks.read(part.block), np.load(self.origins / f"{part.number}.npy"))

    def released(self, part: ReleasedPart, names: Sequence[str] | None = None) -> Table:
        """Return the rows of a part as they were written; with ``names`` only these columns."""
        released = next(StoredTable([self.folder / part_name(part.number)], part.kinds, part.rows).parts(names))
        if released.rows != part.rows:
            raise GuaranteeNotMet(
                "A part of the release must be as it was written.",
                found=f"{released.rows:,} rows of {part.rows:,}",
                fix="release again",
            )
        return released

    @property
    def alone(self) -> Parts:
        """The same without the list of parts, for tasks that are told the part that they work on."""
        return replace(self, parts=(), all_rows=self.rows)

    def draw(
        self, part: ReleasedPart, size: int, together: Sequence[str], generator: np.random.Generator
    ) -> PairedSample:
        """Return the share of one part in a sample of about ``size`` random released rows of all parts.

        Every row has the same probability. Rows that are equal in the columns ``together`` are drawn as a group, so
        that people are seen among those with whom they share their released values; a group of more than a hundredth of
        ``size`` is thinned like the whole.
        """
        share, most = min(size / self.rows, 1.0), max(size // 100, 1)
        evidence = self.evidence(part)
        drawn = draw_groups(group_labels(evidence.released, together), share, most, generator)
        released = evidence.released.take(drawn.rows)
        original = evidence.original.take(evidence.origin[drawn.rows])
        return PairedSample(Evidence(released, original, np.arange(released.rows)), drawn.draws)


@dataclass(frozen=True, repr=False)
class DrawnRows:
    """Positions of rows that were drawn, in ascending order, and the number of independent draws."""

    rows: NDArray[np.int64]
    draws: int


def draw_groups(labels: NDArray[np.int64], share: float, most: int, generator: np.random.Generator) -> DrawnRows:
    """Draw a share of the groups as a whole; of groups with more than ``most`` rows, a share of the rows."""
    sizes = np.bincount(labels)
    unit = np.where(sizes <= most, np.arange(len(sizes)), -1)[labels]  # what is drawn: a group, or a row by itself
    unit[unit < 0] = len(sizes) + np.flatnonzero(unit < 0)
    names, inverse = np.unique(unit, return_inverse=True)
    wanted = np.zeros(len(names), dtype=bool)
    number = math.floor(share * len(names) + generator.random())  # no share of a small part is rounded away
    wanted[generator.choice(len(names), min(number, len(names)), replace=False, shuffle=False)] = True
    return DrawnRows(np.flatnonzero(wanted[inverse]), int(wanted.sum()))


@dataclass(frozen=True, repr=False)
class PartWriter:
    """Transforms blocks and writes them as parts.

    All secrets are drawn once, from the operating system, and each block has its own stream: a block that is written
    twice, in whatever process, has the same rows in the same order.
    """

    plan: Plan
    blocks: Blocks
    folder: Path
    origins: Path
    file_numbers: NDArray[np.int64]  # of each block, at random
    first_rows: NDArray[np.int64]  # number of rows in the blocks before each block
    numbering: RandomNumbering
    order: Randomness

    @classmethod
    def of(cls, plan: Plan, blocks: Blocks, workspace: Path) -> Self:
        """Return a writer into new folders of the workspace."""
        folder, origins = workspace / "parts", workspace / "origins"
        for made in (folder, origins):
            made.mkdir(mode=0o700)
        filled = np.flatnonzero(blocks.rows)
        numbers = np.zeros(len(blocks.rows), dtype=np.int64)
        numbers[filled] = np.random.default_rng().permutation(len(filled))
        before = np.cumsum(blocks.rows) - blocks.rows
        numbering = RandomNumbering(int(blocks.rows.sum()))
        return cls(plan, blocks, folder, origins, numbers, before, numbering, Randomness())

    @property
    def blocks_in_random_order(self) -> list[int]:
        """The blocks that have rows, in random order."""
        numbers: list[int] = np.random.default_rng().permutation(np.flatnonzero(self.blocks.rows)).tolist()
        return numbers

    def parts(self, written: Iterable[ReleasedPart | None]) -> tuple[Parts, EqualTypes]:
        """Return all parts, and how their types become equal; raise if no row is released."""
        parts = [part for part in written if part is not None]
        if not parts:
            raise no_row_error()
        return Parts(self.blocks, self.folder, self.origins, parts), self._equal_types(parts)

    def write(self, block: int) -> ReleasedPart | None:
        """Transform one block and write its rows; None if all of them are suppressed."""
        original = self.blocks.read(block)
        outcome = self.plan.transform(original, block)
        if not outcome.rows:
            return None
        order, renumber = self.order.stream(f"block {block}"), partial(self._random_numbers, block)
        evidence = finish_rows(
            Evidence(outcome.released, original, outcome.origin), self.plan.numbered, order, renumber
        )
        released, number = evidence.released, int(self.file_numbers[block])
        write_whole(self.folder / part_name(number), partial(write_parquet, released.arrow))
        write_whole(self.origins / f"{number}.npy", lambda file: np.save(file, evidence.origin))
        types = {one.name: one.type for one in released.arrow.schema}
        return ReleasedPart(block, number, released.rows, outcome.trace, released.kinds, types, _orders(released.arrow))

    def _random_numbers(self, block: int, name: str, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return random numbers for the groups of a block that no other block has."""
        return self.numbering.of(self.first_rows[block] + groups)

    def _equal_types(self, parts: Sequence[ReleasedPart]) -> EqualTypes:
        """Return the types of all parts, which no block can know beforehand.

        A column is text in all parts if it is in one of them. An ordered column has the categories of all parts.
        """
        texts = {name: part.kinds[name] for part in parts for name, kind in part.types.items() if pt.is_string(kind)}
        names = [name for name in parts[0].orders if name not in texts]
        used = {name: {word for part in parts for word in part.orders[name]} for name in names}
        orders: dict[str, tuple[str, ...]] = {}
        if any(set(part.orders[name]) != used[name] for part in parts for name in names):
            known = _orders(self.blocks.read(parts[0].block).arrow)
            orders = {name: tuple(filter(used[name].__contains__, known[name])) for name in names if name in known}
        return EqualTypes(self.folder, texts, orders)


@dataclass(frozen=True, repr=False)
class EqualTypes:
    """Columns that are text in all parts, and categories of ordered columns."""

    folder: Path
    texts: Mapping[str, Kind]
    orders: Mapping[str, tuple[str, ...]]

    def changes(self, part: ReleasedPart) -> dict[str, pa.DataType]:
        """Return the columns of a part that must be written again, with their types."""
        columns = {name: pa.string() for name in self.texts if not pt.is_string(part.types[name])}
        ordered = (name for name, words in self.orders.items() if part.orders[name] != words)
        return columns | {name: part.types[name] for name in ordered}

    def write_again(self, part: ReleasedPart) -> ReleasedPart:
        """Write a part again whose columns differ from those of other parts; a task that is repeated does no harm."""
        texts, orders, columns = self.texts, self.orders, self.changes(part)
        arrow = next(StoredTable([self.folder / part_name(part.number)], part.kinds, part.rows).parts()).arrow
        cells = {name: arrow.column(name).cast(pa.string()) for name in columns}
        cells |= {name: order_categories(cells[name], orders[name]) for name in columns if name in orders}
        arrow = replace_columns(arrow, cells)
        write_whole(self.folder / part_name(part.number), partial(write_parquet, arrow))
        kinds = {name: texts.get(name, kind) for name, kind in part.kinds.items()}
        return replace(part, kinds=kinds, types={**part.types, **columns}, orders={**part.orders, **orders})


def _orders(arrow: pa.Table) -> dict[str, tuple[str, ...]]:
    """Return the categories of ordered columns, which all chunks of a column share."""
    return {
        one.name: tuple(arrow.column(one.name).unify_dictionaries().chunk(0).dictionary.to_pylist())
        for one in arrow.schema
        if pt.is_dictionary(one.type) and one.type.ordered
    }
