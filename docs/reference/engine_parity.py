"""How a method's release in blocks compares with one in memory, seen by releasing a small table in both ways."""

from __future__ import annotations

import warnings
from enum import Enum

import numpy as np
import pyarrow as pa

from sfumato.engines.memory.engine import Memory
from sfumato.errors import CannotRelease, SfumatoWarning
from sfumato.methods.base import Method, make_method, method_class
from sfumato.params import options_of

ROWS, PART, K = 1500, 500, 20


class Parity(Enum):
    """What becomes of a release if the table does not fit into one block."""

    EXACT = "exactly", "the same rows as in memory"
    APPROXIMATE = "approximately", "decided from a random sample of the rows, or done block by block"
    REFUSED = "no", "refused, because the method needs the whole table"

    @property
    def word(self) -> str:
        """The entry in the table."""
        return self.value[0]

    @property
    def reason(self) -> str:
        """What the table says if the method says nothing."""
        return self.value[1]


def parity(name: str) -> Parity:
    """Release a table whole and in blocks that are planned from a sample, and compare the rows."""
    options = {one.name: K for one in options_of(method_class(name)) if one.name == "k"}
    method = make_method(name, **options)
    if method.needs_whole_table:
        return Parity.REFUSED
    try:
        parts = _released(method, Memory(block_rows=PART, sample_rows=PART))
    except CannotRelease:
        return Parity.REFUSED
    is_same = not method.block_effect and parts == _released(method, Memory())  # on this table it may be by chance
    return Parity.EXACT if is_same else Parity.APPROXIMATE


def _released(method: Method, engine: Memory) -> list[str]:
    """Return the released rows without the numbers of groups, which are random."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        released = method.release(
            _people(), schema=dict.fromkeys(_people().column_names, "quasi"), seed=1, engine=engine
        )
    arrow = released.table.arrow
    return sorted(map(repr, arrow.drop_columns([name for name in arrow.column_names if name == "box"]).to_pylist()))


def _people() -> pa.Table:
    numbers = np.random.default_rng(1)
    return pa.table(
        {
            "age": numbers.integers(18, 90, ROWS),
            "income": numbers.lognormal(10, 1, ROWS),
            "town": numbers.choice(["Arles", "Brig", "Cham"], ROWS),
        }
    )
