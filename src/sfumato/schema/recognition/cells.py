"""What a column is recognised by as an identifier: the words of its name, and its distinct cells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.schema.columns import Role
from sfumato.schema.recognition.names import divide_words, mentions, topics, without_harmless_phrases, words_of
from sfumato.schema.recognition.roles import suggest
from sfumato.table.facts import facts_of
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

FEW = 12  # a text column about the kind or the status of something has at most this many values
SHOWN_AGE = 90  # ages of this and more are released as this


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnCells:
    """What a column is recognised by."""

    name: str
    kind: Kind
    rows: int
    cells: pa.Array  # distinct values, without the missing one
    unique: str = ""  # why the column alone identifies people; empty if it does not

    @cached_property
    def is_number(self) -> bool:
        kind = self.cells.type
        return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))

    @cached_property
    def texts(self) -> pa.Array:
        """The cells as text; whole numbers without a decimal point."""
        return as_texts(self.cells)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The cells of a numeric column as floats."""
        return np.asarray(self.cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))

    @cached_property
    def whole(self) -> bool:
        """Whether the cells are whole numbers, however they are stored."""
        return self.is_number and bool((self.numbers == np.floor(self.numbers)).all())

    @cached_property
    def words(self) -> str:
        """The words of the name, without phrases that identify nobody."""
        return without_harmless_phrases(divide_words(self.name))

    def is_called(self, *chosen: str) -> bool:
        """Return whether the name mentions one of the topics of the vocabulary."""
        return mentions(self.words, *chosen)

    def share_of(self, topic: str) -> float:
        """Return the share of the cells that have the form of a topic of the vocabulary."""
        return self.share(topics()[topic])

    def share(self, pattern: str) -> float:
        """Return the share of the cells that match a pattern."""
        return float(pc.mean(pc.match_substring_regex(self.texts, pattern)).as_py())

    def within(self, low: float, high: float) -> bool:
        """Return whether the cells are whole numbers from low to high."""
        return self.whole and bool(self.numbers.min() >= low and self.numbers.max() <= high)

    @property
    def are_years(self) -> bool:
        return self.within(1850, 2150) or (not self.is_number and self.share(r"^(18[5-9]|19|20|21)\d{1,2}$") == 1.0)

    @property
    def is_yes_or_no(self) -> bool:
        """Whether the column can only say yes or no: a column "phone" then says whether there is a phone."""
        if self.kind is Kind.BOOLEAN or pt.is_boolean(self.cells.type):
            return True
        answers = words_of("yes_or_no")
        return len(self.cells) <= 2 and answers.issuperset(text.strip().lower() for text in self.texts.to_pylist())

    @property
    def has_few(self) -> bool:
        """Whether a few values recur, as categories do."""
        return len(self.cells) <= FEW and len(self.cells) <= self.rows / 5

    @property
    def is_category(self) -> bool:
        """Whether the column tells the type or the status of something, in a few words."""
        return self.has_few and not self.is_number and self.is_called("kinds")

    @property
    def is_measure(self) -> bool:
        """Whether the column counts or measures something, such as the number of addresses."""
        return self.is_number and self.is_called("measures")

    @property
    def ends_in_number(self) -> bool:
        """Whether the name ends as those of numbers do, such as lab_no: then it does not measure."""
        return re.search(rf"_({topics()['number']})$", self.words) is not None


def cells_of(table: Table) -> tuple[ColumnCells, ...]:
    """Return what the columns of a table in memory are recognised by."""
    roles = suggest(table.names, partial(facts_of, table))
    return tuple(
        ColumnCells(
            name=name,
            kind=table.kinds[name],
            rows=table.rows,
            cells=table.coded(name).values.drop_null(),
            unique=roles[name].reason if roles[name].role is Role.IDENTIFIER else "",
        )
        for name in table.names
    )


def as_texts(cells: pa.Array) -> pa.Array:
    """Return cells as text; whole numbers that are stored as floats have no decimal point."""
    if pt.is_floating(cells.type) and bool(pc.all(pc.equal(cells, pc.floor(cells))).as_py()):
        return cells.cast(pa.int64(), safe=False).cast(pa.string())
    return cells.cast(pa.string())


def zip_codes(cells: pa.Array) -> pa.Array:
    """Return cells as text, with the leading zeros restored where ZIP codes were read as numbers."""
    codes = as_texts(cells)
    if pt.is_string(cells.type):
        return codes
    digits = int(pc.max(pc.utf8_length(codes)).as_py() or 0)
    return pc.utf8_lpad(codes, 3 if digits <= 3 else 5 if digits <= 5 else 9, padding="0")


def read_ages(texts: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Read ages or age groups from text: lower and upper end (NaN if there is none), and whether the group is open."""
    parts = pc.extract_regex(texts, topics()["age_or_group"])
    low, high = (
        pc.if_else(pc.equal(part, ""), None, part).cast(pa.float64()).to_numpy(zero_copy_only=False)
        for part in (pc.struct_field(parts, "low"), pc.struct_field(parts, "high"))
    )
    is_open = pc.match_substring_regex(texts, topics()["open_age"]).to_numpy(zero_copy_only=False).astype(bool)
    return low, high, is_open & np.isnan(high)


def reveals_ninety(
    low: NDArray[np.float64], high: NDArray[np.float64], is_open: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which ages or groups tell more about an age over 89 than that it is over 89."""
    alone = np.isnan(high)
    return np.where(alone, low > SHOWN_AGE, high >= SHOWN_AGE) & ~(is_open & (low <= SHOWN_AGE))
