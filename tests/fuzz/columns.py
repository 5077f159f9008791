"""Columns of every kind that a table of people may hold, made at random. Most are ordinary, some are nasty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

# planted in cells: no message, manifest, report or repr may hold it
CANARY = "Zq7"
NUMBER = 771177.25

TREES = ("tree", "prefix tree", "calendar tree", "steps tree")
PLAIN_WORDS = ("red", "green", "blue", "grey", "pink", "teal", "gold")
ODD_WORDS = (
    *("", " ", "(missing)", "other", "any other", "all others", "a|b", "a", "b", "\\", "a\\|b", "NA", "nan", "*"),
    *("=1+1", "+4", "-x", "@sum", "'=x", "\t", "line\nbreak", 'quo"te', "comma,", "1–3", "true", "0", "é", "日本"),
    *("🙂", "\u202e", "\x1b[31m", "a" * 3000),
)


@dataclass(frozen=True)
class MadeColumn:
    """The cells of a column, and what a schema would have to say about them."""

    kind: str
    cells: pa.Array
    entry: dict[str, Any] = field(default_factory=dict)  # order, kind, domain, tree (lines of a tree file as tuples)


Maker = Callable[[np.random.Generator, int], MadeColumn]


def made_column(numbers: np.random.Generator, rows: int) -> MadeColumn:
    """Make a column of a random kind, sometimes with missing cells."""
    kind = str(numbers.choice(list(MAKERS), p=SHARES))
    made = MAKERS[kind](numbers, rows)
    missing = float(numbers.choice([0.0, 0.05, 0.3, 0.9, 1.0], p=[0.72, 0.12, 0.1, 0.05, 0.01]))
    if not missing:
        return MadeColumn(kind, made.cells, made.entry)
    gone = pa.array(numbers.random(rows) < missing, pa.bool_())
    cells = pa.compute.if_else(gone, pa.scalar(None, made.cells.type), made.cells)
    return MadeColumn(kind, cells, made.entry)


def weights(numbers: np.random.Generator, rows: int) -> MadeColumn:
    """Make sampling weights: equal, whole, real, or some of them zero."""
    kind = numbers.integers(4)
    if kind == 0:
        cells = np.full(rows, 2.0)
    elif kind == 1:
        cells = numbers.integers(1, 9, rows).astype(float)
    else:
        cells = numbers.lognormal(3.0, 1.0, rows) * (numbers.random(rows) < (0.9 if kind == 2 else 1.0))
    return MadeColumn("weights", pa.array(cells))


def _integers(numbers: np.random.Generator, rows: int) -> MadeColumn:
    width = int(numbers.choice([1, 2, 4, 12, 90, 100_000]))
    start = int(numbers.choice([0, 0, 18, -40, 1950]))
    type_ = [pa.int64(), pa.int32(), pa.int8() if width <= 90 and start <= 18 else pa.int16()][int(numbers.integers(3))]
    if width > 90 or start > 100:
        type_ = pa.int64()
    return MadeColumn("", pa.array(numbers.integers(start, start + width, rows), type_))


def _domain_integers(numbers: np.random.Generator, rows: int) -> MadeColumn:
    cells = numbers.integers(18, 95, rows)
    domain = [0, 120] if numbers.random() < 0.8 else [20, 60]  # the second does not always contain the cells
    return MadeColumn("", pa.array(cells), {"domain": domain})


def _floats(numbers: np.random.Generator, rows: int) -> MadeColumn:
    cells = numbers.normal(50.0, 12.0, rows)
    if numbers.random() < 0.5:
        cells = np.round(cells, int(numbers.integers(0, 3)))
    return MadeColumn("", pa.array(cells, pa.float32() if numbers.random() < 0.15 else pa.float64()))


def _heavy_floats(numbers: np.random.Generator, rows: int) -> MadeColumn:
    cells = numbers.lognormal(8.0, 2.0, rows) if numbers.random() < 0.5 else numbers.standard_cauchy(rows) * 1e3
    if rows and numbers.random() < 0.5:
        cells[numbers.integers(rows)] = NUMBER
    return MadeColumn("", pa.array(cells))


def _zero_inflated(numbers: np.random.Generator, rows: int) -> MadeColumn:
    return MadeColumn("", pa.array(np.where(numbers.random(rows) < 0.8, 0.0, numbers.lognormal(6.0, 1.0, rows))))


def _extreme_floats(numbers: np.random.Generator, rows: int) -> MadeColumn:
    choice = numbers.integers(5)
    if choice == 0:
        cells = numbers.normal(size=rows) * 1e300
    elif choice == 1:
        cells = numbers.normal(size=rows) * 1e-300
    elif choice == 2:
        cells = 1e15 + numbers.integers(0, 9, rows)  # all digits are before the point
    elif choice == 3:
        cells = 10.0 ** numbers.uniform(-200, 200, rows)
    else:
        cells = np.where(numbers.random(rows) < 0.5, -0.0, 0.0)
    return MadeColumn("", pa.array(np.asarray(cells, dtype=float)))


def _infinite(numbers: np.random.Generator, rows: int) -> MadeColumn:
    cells = numbers.normal(size=rows)
    cells[numbers.random(rows) < 0.1] = numbers.choice([np.inf, -np.inf])
    return MadeColumn("", pa.array(cells))


def _not_a_number(numbers: np.random.Generator, rows: int) -> MadeColumn:
    cells = numbers.normal(size=rows)
    cells[numbers.random(rows) < numbers.choice([0.1, 1.0], p=[0.9, 0.1])] = np.nan
    return MadeColumn("", pa.array(cells, from_pandas=False))


def _huge_integers(numbers: np.random.Generator, rows: int) -> MadeColumn:
    start = int(numbers.choice([2**53 - 4, 2**53 + 1, 2**62, -(2**53) - 5]))
    return MadeColumn("", pa.array(start + numbers.integers(0, 9, rows)))


def _zero_one(numbers: np.random.Generator, rows: int) -> MadeColumn:
    return MadeColumn("", pa.array((numbers.random(rows) < numbers.choice([0.03, 0.5])).astype(int)))


def _booleans(numbers: np.random.Generator, rows: int) -> MadeColumn:
    return MadeColumn("", pa.array(numbers.random(rows) < numbers.choice([0.03, 0.5]), pa.bool_()))


def _dates(numbers: np.random.Generator, rows: int) -> MadeColumn:
    low, high = [(-20_000, 20_000), (18_000, 18_030), (-719_000, 2_900_000)][int(numbers.integers(3))]
    type_ = pa.date64() if numbers.random() < 0.1 else pa.date32()
    return MadeColumn("", pa.array(numbers.integers(low, high, rows), pa.int32()).cast(pa.date32()).cast(type_))


def _timestamps(numbers: np.random.Generator, rows: int) -> MadeColumn:
    moments = pa.array(numbers.integers(1_500_000_000, 1_500_000_000 + 10 ** int(numbers.integers(2, 9)), rows))
    unit, zone = str(numbers.choice(["s", "ms", "us", "ns"])), [None, None, "UTC", "Europe/Berlin"][numbers.integers(4)]
    factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    fraction = numbers.integers(0, factor, rows) if numbers.random() < 0.3 else np.zeros(rows, int)
    return MadeColumn("", pa.array(np.asarray(moments) * factor + fraction).cast(pa.timestamp(unit, zone)))


def _times(numbers: np.random.Generator, rows: int) -> MadeColumn:
    return MadeColumn("", pa.array(numbers.integers(0, 86_400, rows), pa.int32()).cast(pa.time32("s")))


def _decimals(numbers: np.random.Generator, rows: int) -> MadeColumn:
    digits = 10 if numbers.random() < 0.8 else 30
    cells = [Decimal(int(cell)).scaleb(-2) for cell in numbers.integers(-(10**6), 10**6, rows)]
    if digits == 30 and cells:
        cells[0] = Decimal("12345678901234567890.12")
    return MadeColumn("", pa.array(cells, pa.decimal128(digits, 2)))


def _words(numbers: np.random.Generator, words: list[str], rows: int) -> list[str]:
    if not words:
        return []
    shares = numbers.dirichlet(np.full(len(words), 0.7))
    return [words[place] for place in numbers.choice(len(words), rows, p=shares)]


def _categories(numbers: np.random.Generator, rows: int) -> MadeColumn:
    words = [CANARY + word for word in PLAIN_WORDS[: int(numbers.integers(1, 8))]]
    cells = pa.array(_words(numbers, words, rows), pa.string())
    return MadeColumn("", cells.dictionary_encode() if numbers.random() < 0.2 else cells)


def _odd_categories(numbers: np.random.Generator, rows: int) -> MadeColumn:
    words = [str(word) for word in numbers.choice(ODD_WORDS, int(numbers.integers(1, 10)), replace=False)]
    if numbers.random() < 0.1:
        words += ["other", "any other", "all others", "(missing)"]
    cells = pa.array(_words(numbers, words, rows), pa.large_string() if numbers.random() < 0.2 else pa.string())
    return MadeColumn("", cells.dictionary_encode() if numbers.random() < 0.2 else cells)


def _many_categories(numbers: np.random.Generator, rows: int) -> MadeColumn:
    distinct = max(1, rows) if numbers.random() < 0.5 else 40
    return MadeColumn("", pa.array([f"{CANARY}{cell}" for cell in numbers.integers(0, distinct, rows)], pa.string()))


def _codes(numbers: np.random.Generator, rows: int) -> MadeColumn:
    return MadeColumn("", pa.array(numbers.integers(1, 5, rows)), {"kind": str(numbers.choice(["nominal", "ordered"]))})


def _ordered(numbers: np.random.Generator, rows: int) -> MadeColumn:
    order = list(PLAIN_WORDS[: int(numbers.integers(1, 8))])
    cells = pa.array(_words(numbers, order, rows), pa.string())
    if numbers.random() < 0.5:
        return MadeColumn("", cells, {"order": order if numbers.random() < 0.9 else order[1:]})
    codes = pa.array([order.index(cell.as_py()) for cell in cells], pa.int32())
    return MadeColumn("", pa.DictionaryArray.from_arrays(codes, pa.array(order, pa.string()), ordered=True))


def _tree(numbers: np.random.Generator, rows: int) -> MadeColumn:
    lines = [(CANARY + word, f"{CANARY}group {place // 3}", "*") for place, word in enumerate(PLAIN_WORDS)]
    known = lines if numbers.random() < 0.95 else lines[1:]
    words = [line[0] for line in lines]
    return MadeColumn("", pa.array(_words(numbers, words, rows), pa.string()), {"tree": tuple(known)})


def _prefix_tree(numbers: np.random.Generator, rows: int) -> MadeColumn:
    codes = numbers.integers(10_000, 10_000 + int(numbers.choice([30, 3_000])), rows)
    cells = pa.array(codes) if numbers.random() < 0.3 else pa.array([str(code) for code in codes], pa.string())
    return MadeColumn("", cells, {"tree": "prefix"})


def _calendar_tree(numbers: np.random.Generator, rows: int) -> MadeColumn:
    return MadeColumn("", _dates(numbers, rows).cells, {"tree": "calendar"})


def _steps_tree(numbers: np.random.Generator, rows: int) -> MadeColumn:
    cells = pa.array(numbers.integers(-5, 99, rows)) if numbers.random() < 0.7 else pa.array(numbers.normal(size=rows))
    return MadeColumn("", cells, {"tree": str(numbers.choice(["steps:5,10,50", "steps:0.5,1", "steps:3"]))})


def _constant(numbers: np.random.Generator, rows: int) -> MadeColumn:
    value = [7, 7.5, "x", True, None][int(numbers.integers(5))]
    return MadeColumn("", pa.array([value] * rows))


def _all_missing(numbers: np.random.Generator, rows: int) -> MadeColumn:
    kind = [pa.null(), pa.float64(), pa.string(), pa.int64(), pa.date32(), pa.bool_()][int(numbers.integers(6))]
    return MadeColumn("", pa.nulls(rows, kind))


def _unsupported(numbers: np.random.Generator, rows: int) -> MadeColumn:
    choice = numbers.integers(4)
    if choice == 0:
        return MadeColumn("", pa.array([[CANARY]] * rows, pa.list_(pa.string())))
    if choice == 1:
        return MadeColumn("", pa.array([CANARY.encode()] * rows, pa.binary()))
    if choice == 2:
        return MadeColumn("", pa.array(numbers.integers(0, 99, rows)).cast(pa.duration("s")))
    return MadeColumn("", pa.array([{CANARY: 1}] * rows, pa.struct([(CANARY, pa.int64())])))


# kind → how to make it, and how often
KINDS: dict[str, tuple[Maker, float]] = {
    "integers": (_integers, 14),
    "integers with a domain": (_domain_integers, 5),
    "floats": (_floats, 12),
    "heavy floats": (_heavy_floats, 8),
    "zero-inflated": (_zero_inflated, 4),
    "extreme floats": (_extreme_floats, 2),
    "infinite": (_infinite, 1),
    "not a number": (_not_a_number, 2),
    "huge integers": (_huge_integers, 0.7),
    "zero or one": (_zero_one, 4),
    "booleans": (_booleans, 4),
    "dates": (_dates, 6),
    "timestamps": (_timestamps, 4),
    "times": (_times, 1),
    "decimals": (_decimals, 2),
    "categories": (_categories, 12),
    "odd categories": (_odd_categories, 6),
    "many categories": (_many_categories, 3),
    "codes": (_codes, 2),
    "ordered": (_ordered, 4),
    "tree": (_tree, 3),
    "prefix tree": (_prefix_tree, 2),
    "calendar tree": (_calendar_tree, 2),
    "steps tree": (_steps_tree, 2),
    "constant": (_constant, 2),
    "all missing": (_all_missing, 1),
    "unsupported": (_unsupported, 0.3),
}
MAKERS = {kind: maker for kind, (maker, _) in KINDS.items()}
SHARES = np.array([share for _, share in KINDS.values()]) / sum(share for _, share in KINDS.values())
