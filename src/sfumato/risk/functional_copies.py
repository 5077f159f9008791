"""Columns that tell another column: monotone and smooth functions, tables of few values, and sums of a few columns.

A column that is released as it is must not tell one that is protected: log(income) tells income, a code tells its
label, and parts tell their total. A function that people would not have by chance is looked for on some rows:

- few values: rows with the same value of one column have the same value of the other. A nearly unique column would
  determine every other one by chance, so it does not count.
- monotone: sorted by one column, the rows are sorted by the other, too. Text that is written numbers or dates counts
  as these.
- ranges: sorted by one column, rows with the same value of the other are together, as with income groups.
- parts of dates: the month or the day of the week of one column tells the other.
- smooth: sorted by one column, neighbouring rows have nearly the same number in the other, as with (x − 50)² or sin x.
- linear: one column is a linear combination of a few others, found by orthogonal matching pursuit. As many columns as
  rows would be combinations of each other by chance, so that these are not looked at. Products and ratios are linear
  combinations of logarithms. What is left may be as large as the digits to which the column is rounded.

In a table of very many columns, only those are found that have different values in the same rows as a protected one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import TableError, warn
from sfumato.formats.type_inference import Spelling, infer_type
from sfumato.schema.columns import Role
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.schema.schema import Schema

ROWS = 20_000  # rows in which functions are looked for, at most
FEWEST_ROWS = 30
ROWS_PER_VALUE = 3.0  # fewer rows per value than this: nearly unique
EVIDENCE = 25.0  # −log of the probability with which a function must be rarer by chance than this
AGREEING = 0.99  # agreement beyond chance from which values are those of a function
FIRST_ROWS = 200  # rows in which most pairs are found not to be monotone
SMOOTH = 8  # ranks between nearly all neighbours, up to which a column is a smooth function
SMOOTH_ROWS = 500  # rows and different numbers from which neighbours are near enough to show it
MOST_PAIRS = 20_000  # pairs of columns that are compared one by one
MOST_COMBINED = 1_000  # columns among which linear combinations are looked for
NAMED = 8  # columns that a warning names
MOST_TERMS = 6  # columns of a linear combination
NEARLY_LINEAR = 1e-6  # share of the variance that a combination leaves, above which it is none
EXACT = 1e-7  # relative error of a linear combination that is one
NEARLY_ALL = 0.98  # share of the rows in which it must be
ROUNDED = 0.55  # error of a rounded combination, in units of the last digit
MOST_ROUNDED = 0.003  # share of the variance that rounding may leave
UNBOUNDED = 1e9  # error, in standard deviations, whose square is still a number; a larger one says nothing either
BLURRED = 2  # times that the rows of a value may be apart in the order of a column of which it is a range


def find_copies(table: Table, exact: Sequence[str], protected: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns among ``exact`` that tell protected ones, or are told by them, with these.

    ``table`` may be a random sample; no more than 20,000 of its rows are looked at.
    """
    told: dict[str, dict[str, None]] = {name: {} for name in exact}
    if not exact or not protected:
        return {}
    order = np.random.default_rng(0).permutation(table.rows)[:ROWS]  # neighbours in a file are alike, whatever they say
    rows = table.select(list(dict.fromkeys([*exact, *protected]))).take(order)
    columns = {name: _Cells(rows, name) for name in dict.fromkeys([*exact, *protected])}
    for name, other in _functions(columns, exact, protected):
        told[name][other] = None
    for names in _linear_relations(columns, exact, protected):
        for name in (name for name in names if name in told):
            told[name] |= dict.fromkeys(other for other in names if other in protected and other != name)
    return {name: tuple(others) for name, others in told.items() if others}


def _functions(columns: dict[str, _Cells], exact: Sequence[str], protected: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the exact columns that are functions of protected ones, or the other way round, with these."""
    if len(exact) * len(protected) <= MOST_PAIRS:
        pairs = ((name, other) for name in exact for other in protected)
        yield from ((name, other) for name, other in pairs if _is_function(columns[name], columns[other]))
        return
    alike: dict[bytes, list[str]] = {}
    for other in protected:
        for division in columns[other].divisions:
            alike.setdefault(division, []).append(other)
    for name in exact:
        if columns[name].entropy * len(columns[name].codes) >= EVIDENCE:
            divisions = columns[name].divisions
            yield from ((name, other) for one in divisions for other in alike.get(one, ()) if other != name)


def find_exact_copies(schema: Schema, sample: Table, unaltered: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Warn of columns that are released as they are and tell a protected or sensitive one; return both."""
    quasi, sensitive = schema.names(Role.QUASI), schema.names(Role.SENSITIVE)
    exact = {role: [name for name in schema.names(role) if name in unaltered] for role in Role}
    copies = find_copies(sample, [*exact[Role.OTHER], *exact[Role.WEIGHT]], (*quasi, *sensitive))
    copies |= find_copies(sample, exact[Role.SENSITIVE], [name for name in quasi if name not in unaltered])
    if copies:
        told = [f"{name!r} ({_name_some(map(repr, others))})" for name, others in copies.items()]
        warn(
            f"Columns that are released as they are determine protected or sensitive columns, or are determined by "
            f"them: {_name_some(told)}. Whoever reads the one knows more about the other than the method intends. Give "
            "them the same role, or remove them."
        )
    return copies


def _name_some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - NAMED:,} more" if len(listed) > NAMED else ""
    return f"{', '.join(listed[:NAMED])}{more}"


@dataclass(frozen=True, eq=False, repr=False)
class _Cells:
    """A column of some rows: as codes, and as numbers if it is numeric."""

    table: Table
    name: str

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        return self.table.coded(self.name).codes

    @cached_property
    def divisions(self) -> tuple[bytes, ...]:
        """What columns that are functions of each other have in common: the rows of each value, or their order.

        Nearly all rows of a nearly unique column have values of their own, so that only its order says something.
        """
        divisions = []
        if self.repeats.any():
            _, first, codes = np.unique(self.codes, return_index=True, return_inverse=True)
            divisions.append(np.argsort(np.argsort(first))[codes])
        if self.numbers is not None:
            ranks = np.unique(self.numbers, return_inverse=True)[1]
            divisions.append(ranks if 2 * ranks[0] < ranks.max() else ranks.max() - ranks)
        return tuple(hashlib.blake2b(one.astype(np.int32).tobytes(), digest_size=16).digest() for one in divisions)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The rows, sorted by their codes."""
        return np.argsort(self.codes, kind="stable")

    @cached_property
    def sorted(self) -> NDArray[np.int64]:
        """The rows with a value, sorted by their numbers if they have any."""
        order = self.order if self.numbers is None else np.argsort(self.numbers, kind="stable")
        return order[~self.missing[order]]

    @cached_property
    def repeats(self) -> NDArray[np.bool_]:
        """Whether a sorted row has the code of the row before it; empty if nearly all codes are different."""
        same = np.diff(self.codes[self.order]) == 0
        is_unique = len(self.codes) < ROWS_PER_VALUE * (len(same) + 1 - int(same.sum()))
        return np.asarray(same & (not is_unique))

    @cached_property
    def coincidence(self) -> float:
        """Probability that two random rows have the same code."""
        shares = np.bincount(self.codes) / max(1, len(self.codes))
        return float((shares**2).sum())

    @cached_property
    def entropy(self) -> float:
        """Entropy of the codes of a row, in nats."""
        shares = np.bincount(self.codes) / max(1, len(self.codes))
        return float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Which rows have no value."""
        coded = self.table.coded(self.name)
        return np.asarray((coded.codes == coded.size - 1) & bool(coded.values.null_count))

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The numbers of a column, also those that are written as text, with a unit or without; None if it has none."""
        try:
            if self.table.kinds[self.name].is_numeric:
                return self.table.numbers(self.name)
            coded = self.table.coded(self.name)
            return _read_numbers(coded.values)[coded.codes] if pt.is_string(coded.values.type) else None
        except TableError:  # text, and moments that floats would round
            return None

    @cached_property
    def parts(self) -> tuple[_Cells, ...]:
        """The month, the day of the month and the day of the week, if these are dates."""
        cells = self.table.arrow[self.name]
        if not pt.is_temporal(cells.type) or not (pt.is_date(cells.type) or pt.is_timestamp(cells.type)):
            return ()
        named = {"month": pc.month(cells), "day": pc.day(cells), "day_of_week": pc.day_of_week(cells)}
        table = Table.from_arrow(pa.table(named))
        return tuple(_Cells(table, name) for name in named)

    def is_range_in(self, other: _Cells) -> bool:
        """Return whether rows with the same value are together if they are sorted by the other column, beyond chance.

        There are fewer ways to arrange the values in so few runs than to arrange them at all.
        """
        codes = self.codes[other.sorted]
        if self.missing.any():
            codes = codes[~self.missing[other.sorted]]
        runs, rows = 1 + int(np.count_nonzero(codes[1:] != codes[:-1])), len(codes)
        counts = np.bincount(codes) if runs <= BLURRED * self.table.coded(self.name).size else np.zeros(0)
        counts = counts[counts > 0]
        values = len(counts)
        if not 2 <= values <= runs <= BLURRED * values:
            return False
        ways = math.lgamma(rows + 1) - sum(map(math.lgamma, counts + 1.0))
        few = math.lgamma(rows) - math.lgamma(runs) - math.lgamma(rows - runs + 1) + runs * math.log(values)
        return ways - few >= EVIDENCE

    @cached_property
    def ascending(self) -> NDArray[np.int64] | None:
        """The rows with a number, sorted by it; None if they have few numbers."""
        if self.numbers is None:
            return None
        order = np.argsort(self.numbers, kind="stable")[: int(np.isfinite(self.numbers).sum())]
        different = int((np.diff(self.numbers[order]) > 0).sum()) + 1
        return order if different >= SMOOTH_ROWS else None

    def is_smooth_in(self, other: _Cells) -> bool:
        """Return whether rows that are neighbours by the other column have nearly the same number in this one."""
        if self.ascending is None or other.ascending is None or self.numbers is None:
            return False
        values = self.numbers[other.ascending]
        values = values[np.isfinite(values)]
        if len(values) < SMOOTH_ROWS:
            return False
        ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")  # so that outliers do not hide it
        return bool(np.quantile(np.abs(np.diff(ranks)), 0.9) <= SMOOTH)

    def determines(self, other: _Cells) -> bool:
        """Return whether rows with the same value have the same value of the other column, beyond chance."""
        unknown = (self.missing | other.missing)[self.order]
        pairs, chance = self.repeats & ~(unknown[1:] | unknown[:-1]), other.coincidence
        if chance >= 1.0 or -np.log(chance) * int(pairs.sum()) < EVIDENCE:
            return False
        agree = float((np.diff(other.codes[self.order]) == 0)[pairs].mean())
        return agree - chance >= AGREEING * (1.0 - chance)


def _read_numbers(texts: pa.Array) -> NDArray[np.float64]:
    if not pc.any(pc.match_substring_regex(texts, r"\d")).as_py():
        return np.full(len(texts), np.nan)
    bare = pc.replace_substring_regex(texts, r"^[^\d.+-]+|\D+$", "")
    return Table.from_arrow(pa.table({"read": infer_type(pa.chunked_array([bare]), Spelling())})).numbers("read")


def _is_function(one: _Cells, other: _Cells) -> bool:
    if one.determines(other) or other.determines(one) or one.is_range_in(other) or other.is_range_in(one):
        return True
    if any(part.determines(other) for part in one.parts) or any(part.determines(one) for part in other.parts):
        return True
    if one.numbers is None or other.numbers is None:
        return False
    return _is_monotone(one, other) or one.is_smooth_in(other) or other.is_smooth_in(one)


def _is_monotone(one: _Cells, other: _Cells) -> bool:
    """Return whether two numeric columns sort the rows alike, or in opposite directions; ties may be anywhere."""
    if min(one.entropy, other.entropy) * len(one.codes) < EVIDENCE:
        return False
    assert one.numbers is not None
    assert other.numbers is not None
    known = ~(np.isnan(one.numbers) | np.isnan(other.numbers))
    x, y = one.numbers[known], other.numbers[known]
    if min(len(np.unique(x)), len(np.unique(y))) < 2:
        return False
    return any(_sorts(x[:FIRST_ROWS], z[:FIRST_ROWS]) and _sorts(x, z) for z in (y, -y))


def _sorts(x: NDArray[np.float64], y: NDArray[np.float64]) -> bool:
    """Return whether y never falls where x rises, and one of them has one value wherever the other has."""
    order = np.lexsort((y, x))
    rises, falls = np.diff(x[order]) > 0, np.diff(y[order])
    return bool((falls >= 0).all()) and bool((falls[~rises] == 0).all() or rises[falls == 0].sum() == 0)


def _linear_relations(
    columns: dict[str, _Cells], exact: Sequence[str], protected: Sequence[str]
) -> Iterable[tuple[str, ...]]:
    """Yield sets of columns of which one is a linear combination or a product of others: of all, and of the exact."""
    known = {name: cells.numbers for name, cells in columns.items() if cells.numbers is not None}
    numeric = [name for name, numbers in known.items() if _mostly_known(numbers)]
    if not 2 <= len(numeric) <= MOST_COMBINED:
        return
    matrix = np.column_stack([known[name] for name in numeric])
    matrix = matrix[~np.isnan(matrix).any(axis=1)]
    if len(matrix) < max(FEWEST_ROWS, len(numeric)):
        return
    largest = np.abs(matrix).max(axis=0)
    scale = np.where(largest > 0.0, largest, 1.0)
    digits = _quotients(np.array([_last_digit(column) for column in matrix.T]), scale)
    matrix = matrix / scale  # so that squares do not overflow
    yield from _combinations(numeric, matrix, np.broadcast_to(digits, matrix.shape), exact)
    positive = np.flatnonzero((matrix > 0.0).all(axis=0))
    names, factors = [numeric[place] for place in positive], matrix[:, positive]
    yield from _combinations(names, np.log(factors), _quotients(digits[positive], factors), exact)


def _combinations(
    numeric: list[str], matrix: NDArray[np.float64], digits: NDArray[np.float64], exact: Sequence[str]
) -> Iterable[tuple[str, ...]]:
    """Yield sets of columns of which one is a linear combination of the others; digits are the units of the cells."""
    matrix = matrix - matrix.mean(axis=0)
    varied = np.flatnonzero((spread := np.sqrt((matrix**2).mean(axis=0))) > 0.0)
    names, matrix = [numeric[place] for place in varied], matrix[:, varied] / spread[varied]
    errors = _quotients(ROUNDED * digits[:, varied], spread[varied])
    products = matrix.T @ matrix / len(matrix)
    is_exact = np.isin(names, list(exact))
    for place, name in enumerate(names):
        others = [int(other) for other in np.flatnonzero(is_exact | is_exact[place]) if other != place]
        rounded = float(np.square(np.minimum(errors[:, place], UNBOUNDED)).mean()) / 3.0  # of a uniform error
        error, rounded = (errors[:, place], rounded) if rounded < MOST_ROUNDED else (EXACT, 0.0)
        for terms in _linear_terms(products, place, others, max(rounded, NEARLY_LINEAR)):
            weights = np.linalg.lstsq(matrix[:, terms], matrix[:, place], rcond=None)[0]
            if _is_exact(matrix[:, place], matrix[:, terms] @ weights, len(terms), error):
                yield (name, *(names[term] for term, weight in zip(terms, weights, strict=True) if abs(weight) > EXACT))
                break


def _last_digit(numbers: NDArray[np.float64]) -> float:
    """Return the power of ten, 1 or less, of which all numbers are multiples; 0 if they have many digits."""
    fractions = np.modf(numbers)[0]  # of numbers as large as 1e308, too
    multiples = ((10.0**-digits, fractions * 10.0**digits) for digits in range(7))
    return next((unit for unit, counts in multiples if bool((np.abs(counts - np.rint(counts)) < 1e-6).all())), 0.0)


def _quotients(units: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return units in terms of sizes; infinity where no floating-point number is large enough."""
    with np.errstate(over="ignore"):
        return np.asarray(units / sizes)


def _mostly_known(numbers: NDArray[np.float64]) -> bool:
    return bool(np.isnan(numbers).mean() < 0.1) and bool(np.isfinite(numbers[~np.isnan(numbers)]).all())


def _linear_terms(products: NDArray[np.float64], target: int, known: Sequence[int], left: float) -> Iterator[list[int]]:
    """Yield columns of which the target may be a linear combination; none if there is no short one.

    ``products`` are the correlations of all columns, ``left`` the share of the variance that may be left.
    """
    terms: list[int] = []
    weights: NDArray[np.floating] = np.zeros(0)
    while len(terms) < min(MOST_TERMS, len(known)):
        fits = np.abs(products[known, target] - products[np.ix_(known, terms)] @ weights)
        fits[[known.index(term) for term in terms]] = -1.0
        terms.append(known[int(np.argmax(fits))])
        weights = np.linalg.lstsq(products[np.ix_(terms, terms)], products[terms, target], rcond=None)[0]
        if 1.0 - weights @ products[terms, target] < left:
            yield [*terms]


def _is_exact(
    target: NDArray[np.float64], combined: NDArray[np.float64], terms: int, error: float | NDArray[np.float64]
) -> bool:
    """Return whether nearly all rows are a linear combination; those with the most frequent value do not count."""
    values, counts = np.unique(target, return_counts=True)
    uncommon = target != values[np.argmax(counts)]
    if int(uncommon.sum()) < FEWEST_ROWS or len(values) < terms + 3:
        return False
    is_near = np.abs(target - combined) <= np.maximum(error, EXACT * (1.0 + np.abs(target)))
    return bool(is_near[uncommon].mean() >= NEARLY_ALL)
