"""Statistics of the original, computed by NumPy in extended precision, to hold guaranteed intervals against."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.types as pt
from numpy.typing import NDArray

from tests.fuzz.cells import is_number, numbers_of, texts_of
from tests.fuzz.options import quoted
from tests.fuzz.tables import TRACER, Original

Long = NDArray[np.longdouble]
Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Question:
    """A statistic in words, and its true value for some rows of the original, counted with weights."""

    text: str
    truth: Callable[[Rows, Long], float]  # NaN where it is not defined
    columns: tuple[str, ...]
    weighted: bool = True  # whether the truth may be computed with sampling weights
    meets: Rows | None = None  # of a count: the rows that meet its condition
    missing: Rows | None = None  # of a count: the rows whose cell is missing
    confidence: float | None = None  # asked for as well


def questions(numbers: np.random.Generator, original: Original, wanted: int) -> list[Question]:
    """Some statistics of the table, at random."""
    numeric, words = _columns(original)
    found = [_question(numbers, original, numeric, words) for _ in range(wanted)]
    return [question for question in found if question is not None]


def _columns(original: Original) -> tuple[list[str], list[str]]:
    """The columns of numbers, and those of words, that may be asked about."""
    released = [name for name in original.cells if original.roles.get(name) != "identifier" and name != TRACER]
    numeric = [name for name in released if is_number(original.cells[name].type)]
    numeric = [name for name in numeric if "kind" not in original.entries(name)]  # codes are no numbers
    words = [name for name in released if not is_number(original.cells[name].type) and not _is_nested(original, name)]
    return numeric, words


def _question(
    numbers: np.random.Generator, original: Original, numeric: list[str], words: list[str]
) -> Question | None:
    kind = numbers.random()
    if kind < 0.04 and len(numeric) > 1:
        return _of_two(numbers, original, numeric)
    if words and kind < 0.3:
        return _count_of_word(numbers, original, words)
    if not numeric:
        return None
    name = str(numbers.choice(np.array(numeric, dtype=object)))
    if kind < 0.45:
        return _count_of_numbers(numbers, original, name)
    if kind < 0.55 and words:
        word = _count_of_word(numbers, original, words)
        return None if word is None else _of_one(numbers, original, name, given=word)
    return _of_one(numbers, original, name)


def _of_one(numbers: np.random.Generator, original: Original, name: str, given: Question | None = None) -> Question:
    """A mean, sum, spread or quantile, perhaps of the rows that meet a condition."""
    cells, type_ = numbers_of(original.cells[name]).astype(np.longdouble), original.cells[name].type
    statistics: dict[str, Callable[[Long, Long], float]] = {"mean({})": _mean, "median({})": _quantile(0.5)}
    statistics["quantile({}, 0.25)"] = _quantile(0.25)
    if not (pt.is_timestamp(type_) or pt.is_date(type_)):
        statistics |= {"sum({})": _sum, "var({})": _variance, "sd({})": lambda x, w: math.sqrt(_variance(x, w))}
    form = str(numbers.choice(list(statistics)))
    condition = "" if given is None else " | " + given.text[len("count(") : -1]
    if given is not None and "quantile" in form:
        form = "mean({})"
    meets = None if given is None else given.meets
    compute = statistics[form]

    def truth(rows: Rows, weights: Long) -> float:
        used = rows & ~np.isnan(cells) & (True if meets is None else meets)
        return compute(cells[used], weights[used]) if used.any() else math.nan

    columns = (name,) if given is None else (name, *given.columns)
    return Question(form.format(quoted(name) + condition), truth, columns, weighted=form in ("mean({})", "sum({})"))


def composed_question(numbers: np.random.Generator, original: Original) -> Question | None:
    """A statistic that is made of others, or of two conditions."""
    numeric, words = _columns(original)
    conditions = [
        one
        for _ in range(2)
        for one in [
            _count_of_word(numbers, original, words)
            if words and (not numeric or numbers.random() < 0.5)
            else _count_of_numbers(numbers, original, str(numbers.choice(np.array(numeric, dtype=object))))
            if numeric
            else None
        ]
        if one is not None
    ]
    kind = str(numbers.choice(["or", "and", "not", "difference", "ratio", "min", "max", "iqr"]))
    name = str(numbers.choice(np.array(numeric, dtype=object))) if numeric else None
    if len(conditions) < 2 or name is None:
        return None
    if kind in ("or", "and", "not"):
        found: Question | None = _of_conditions(numbers, kind, *conditions)
    elif pt.is_timestamp(original.cells[name].type) or pt.is_date(original.cells[name].type):
        return None
    elif kind in ("difference", "ratio"):
        found = _of_groups(original, kind, name, *conditions)
    else:
        found = _of_ends(original, kind, name)
    return None if found is None else replace(found, confidence=0.9 if numbers.random() < 0.5 else None)


def _of_conditions(numbers: np.random.Generator, kind: str, one: Question, other: Question) -> Question | None:
    """A count or share of the rows that meet two conditions, one of them, or not one. Names stand before operators."""
    first, second = (question.text[len("count(") : -1] for question in (one, other))
    if one.meets is None or other.meets is None or one.missing is None:
        return None
    is_of_missing = first.endswith("= (missing)")
    meets = {
        "or": one.meets | other.meets,
        "and": one.meets & other.meets,
        "not": ~one.meets if is_of_missing else ~one.meets & ~one.missing,
    }[kind]
    text = f"not {first}" if kind == "not" else f"{first} {kind} {second}"
    columns = one.columns if kind == "not" else (*one.columns, *other.columns)

    def count(rows: Rows, weights: Long) -> float:
        return float(weights[rows & meets].sum())

    def share(rows: Rows, weights: Long) -> float:
        total = weights[rows].sum()
        return float(weights[rows & meets].sum() / total) if total > 0 else math.nan

    is_share = numbers.random() < 0.5
    return Question(f"{'share' if is_share else 'count'}({text})", share if is_share else count, columns)


def _of_groups(original: Original, kind: str, name: str, one: Question, other: Question) -> Question | None:
    """The difference or ratio of the means of two groups."""
    cells = numbers_of(original.cells[name]).astype(np.longdouble)
    inside = (one.meets, other.meets)
    means = [f"mean({quoted(name)} | {question.text[len('count(') : -1]})" for question in (one, other)]

    def truth(rows: Rows, weights: Long) -> float:
        used = [rows & ~np.isnan(cells) & meets for meets in inside if meets is not None]
        first, second = (_mean(cells[group], weights[group]) if group.any() else math.nan for group in used)
        if kind == "difference":
            return first - second
        return first / second if second else math.nan

    return Question(f"{kind}({means[0]}, {means[1]})", truth, (name, *one.columns, *other.columns))


def _of_ends(original: Original, kind: str, name: str) -> Question:
    """The smallest or largest number, or the distance of the quartiles."""
    cells = numbers_of(original.cells[name]).astype(np.longdouble)
    compute: dict[str, Callable[[Long, Long], float]] = {
        "min": lambda x, w: float(x.min()),
        "max": lambda x, w: float(x.max()),
        "iqr": lambda x, w: _quantile(0.75)(x, w) - _quantile(0.25)(x, w),
    }

    def truth(rows: Rows, weights: Long) -> float:
        used = rows & ~np.isnan(cells)
        return compute[kind](cells[used], weights[used]) if used.any() else math.nan

    return Question(f"{kind}({quoted(name)})", truth, (name,), weighted=False)


def other_text(numbers: np.random.Generator, original: Original) -> str | None:
    """A test, a table or a statistic by groups, whose answer is not judged: it must be given or refused clearly."""
    numeric, words = _columns(original)
    if len(numeric) < 2 or len(words) < 2:
        return None
    x, y = (quoted(str(name)) for name in numbers.choice(np.array(numeric, dtype=object), 2, replace=False))
    a, b = (quoted(str(name)) for name in numbers.choice(np.array(words, dtype=object), 2, replace=False))
    of_words = [f"table({a}, {b})", f"chi2({a}, {b})", f"oddsratio({a}, {b})", f"relativerisk({a}, {b})"]
    of_both = [f"mean({x}) by {a}", f"ttest({x} ~ {a})", f"anova({x} ~ {a})", f"mannwhitney({x} ~ {a})"]
    of_numbers = [f"spearman({x}, {y})", f"kendall({x}, {y})", f"rsquared({y} ~ {x})", f"mean({x} * {y})"]
    return str(numbers.choice([*of_words, *of_both, *of_numbers]))


def slope_question(numbers: np.random.Generator, original: Original) -> Question | None:
    """The slope of a regression on one column, for ``fit``; the text is the formula."""
    numeric = [
        name
        for name in _columns(original)[0]
        if not (pt.is_timestamp(original.cells[name].type) or pt.is_date(original.cells[name].type))
    ]
    if len(numeric) < 2:
        return None
    y, x = (str(name) for name in numbers.choice(np.array(numeric, dtype=object), 2, replace=False))
    first, second = (numbers_of(original.cells[name]).astype(np.longdouble) for name in (x, y))

    def truth(rows: Rows, weights: Long) -> float:
        used = rows & ~np.isnan(first) & ~np.isnan(second)
        if not used.any():
            return math.nan
        a, b, w = _centred(first[used], weights[used]), _centred(second[used], weights[used]), weights[used]
        square = (w * a * a).sum()
        return float((w * a * b).sum() / square) if square > 0 else math.nan

    return Question(f"{quoted(y)} ~ {quoted(x)}", truth, (x, y), weighted=False)


def _of_two(numbers: np.random.Generator, original: Original, numeric: list[str]) -> Question | None:
    x, y = (str(name) for name in numbers.choice(np.array(numeric, dtype=object), 2, replace=False))
    if any(pt.is_timestamp(original.cells[name].type) or pt.is_date(original.cells[name].type) for name in (x, y)):
        return None
    first, second = (numbers_of(original.cells[name]).astype(np.longdouble) for name in (x, y))
    form = str(numbers.choice(["cov", "corr"]))

    def truth(rows: Rows, weights: Long) -> float:
        used = rows & ~np.isnan(first) & ~np.isnan(second)
        if not used.any():
            return math.nan
        a, b, w = first[used], second[used], weights[used]
        a, b = _centred(a, w), _centred(b, w)
        covariance = (w * a * b).sum() / w.sum()
        spread = np.sqrt((w * a * a).sum()) * np.sqrt((w * b * b).sum()) / w.sum()
        if form == "corr" and not spread > 0:
            return math.nan
        return float(covariance if form == "cov" else covariance / spread)

    return Question(f"{form}({quoted(x)}, {quoted(y)})", truth, (x, y), weighted=False)


def _count(name: str, condition: str, meets: Rows, missing: Rows) -> Question:
    def truth(rows: Rows, weights: Long) -> float:
        return float(weights[rows & meets].sum())

    return Question(f"count({quoted(name)} {condition})", truth, (name,), meets=meets, missing=missing)


def _count_of_word(numbers: np.random.Generator, original: Original, words: list[str]) -> Question | None:
    name = str(numbers.choice(np.array(words, dtype=object)))
    texts = np.array(texts_of(original.cells[name]), dtype=object)
    is_missing = np.array([text is None for text in texts], dtype=bool)
    present = [text for text in texts if text is not None]
    if not present or pt.is_boolean(original.cells[name].type) or numbers.random() < 0.15:
        return _count(name, "= (missing)", is_missing, is_missing)
    word = str(numbers.choice(np.array(present, dtype=object)))
    if numbers.random() < 0.25:
        return _count(name, f"!= {_text(word)}", (texts != word) & ~is_missing, is_missing)
    return _count(name, f"= {_text(word)}", texts == word, is_missing)


def _count_of_numbers(numbers: np.random.Generator, original: Original, name: str) -> Question | None:
    cells, type_ = numbers_of(original.cells[name]), original.cells[name].type
    finite = cells[np.isfinite(cells)]
    if not finite.size or pt.is_timestamp(type_) or pt.is_date(type_) or numbers.random() < 0.1:
        return _count(name, "= (missing)", np.isnan(cells), np.isnan(cells))
    limit = float(numbers.choice(finite)) + float(numbers.choice([0.0, 0.0, 0.5]))
    operator = str(numbers.choice(["<", "<=", ">", ">=", "=", "!="]))
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal}
    meets = cells != limit if operator == "!=" else compare[operator](cells, limit)
    written = f"{limit:.0f}" if limit.is_integer() and abs(limit) < 1e15 else repr(limit)  # 0 and 1 are also words
    return _count(name, f"{operator} {written}", meets & ~np.isnan(cells), np.isnan(cells))


def _text(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _is_nested(original: Original, name: str) -> bool:
    type_ = original.cells[name].type
    return bool(pt.is_nested(type_) or pt.is_binary(type_) or pt.is_duration(type_) or pt.is_time(type_))


def _mean(x: Long, w: Long) -> float:
    return float((x * w).sum() / w.sum()) if w.sum() > 0 else math.nan


def _sum(x: Long, w: Long) -> float:
    return float((x * w).sum())


def _centred(x: Long, w: Long) -> Long:
    """The distances from the mean; numbers near each other are subtracted first, which is exact."""
    away = x - x[0]
    return away - (away * w).sum() / w.sum()


def _variance(x: Long, w: Long) -> float:
    if not w.sum() > 0:
        return math.nan
    away = _centred(x, w)
    return float((w * away**2).sum() / w.sum())


def _quantile(share: float) -> Callable[[Long, Long], float]:
    """The mean of the smallest value with at least, and with more than, this share of the rows up to it."""

    def quantile(x: Long, w: Long) -> float:
        ordered = np.sort(x)
        ranks = np.arange(1, len(x) + 1)
        least = ordered[ranks >= share * len(x)][0]
        more = ordered[ranks > share * len(x)]
        return float((least + (more[0] if more.size else least)) / 2)

    return quantile
