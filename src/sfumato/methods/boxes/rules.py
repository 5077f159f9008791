"""Expert rules in words, which multiply the sensitivities by factors (XK §V), and the fuzzy sets of their words.

    income matters most when age is young
    age matters little when income is high and bmi is low
    height matters not

A rule multiplies the weight a_i(x) of its column by the factor of its degree, to the extent that its condition is
true for the record. The truths of joined conditions are multiplied, and so are the factors of several rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import OptionError
from sfumato.methods.boxes.axes import Axes, Axis, SetAxis
from sfumato.plan.plan import RuleEffect
from sfumato.plan.questions import Answers, OccursIn, QuantilesOf, Question
from sfumato.schema.columns import corners_of, has_whole_sides, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.partition import BoxPartition
    from sfumato.table.kinds import Kind
    from sfumato.table.table import Table

# Words as fuzzy sets of numbers (Zadeh): how *young*, *high* or *late* a value is, from 0 to 1.
#
# By default low, middle and high are placed between the quantiles of the column and overlap so that the memberships
# of every number sum to 1.

LOW, MIDDLE, HIGH = "low", "middle", "high"
MEANINGS = {
    LOW: (LOW, "small", "young", "early", "few"),
    MIDDLE: (MIDDLE, "medium", "average"),
    HIGH: (HIGH, "large", "old", "late", "many"),
}
MEANING = {word: meaning for meaning, words in MEANINGS.items() for word in words}
SHARES = (0.2, 0.5, 0.8)  # quantiles up to which "low" is 1, at which "middle" is 1, and from which "high" is 1

Words = Mapping[str, Mapping[str, Sequence[float]]]  # column → word → corners


@dataclass(frozen=True)
class Trapezoid:
    """A fuzzy set of numbers: 0 up to ``foot``, 1 from ``top`` to ``end``, 0 from ``toe`` on, linear in between."""

    foot: float
    top: float
    end: float
    toe: float

    @classmethod
    def of(cls, corners: Sequence[float], *, name: str) -> Trapezoid:
        """Make the set from three corners (triangle) or four corners (trapezoid); an outer side may be at infinity."""
        sides = corners_of(corners)
        if sides is None:
            raise OptionError(f"{name} must be three or four numbers, each at least as large as the one before.")
        if not has_whole_sides(sides):
            raise OptionError(f"{name} must have both corners of a side at infinity, or neither.")
        return cls(*sides)

    @classmethod
    def between(cls, quantiles: NDArray[np.float64], meaning: str) -> Trapezoid:
        """Make the set for low, middle or high from the quantiles at SHARES."""
        low, median, high = map(float, quantiles)
        if meaning == LOW:
            return cls(-math.inf, -math.inf, low, median)
        if meaning == MIDDLE and low == median:  # a value that many records share is low, not low and middle at once
            centre = (median + high) / 2.0 if high > median else math.inf
            return cls(centre if math.isinf(centre) else median, centre, centre, max(centre, high))
        if meaning == MIDDLE:
            return cls(low, median, median, high)
        return cls(median, max(high, np.nextafter(median, math.inf)), math.inf, math.inf)  # the median is never high

    def membership(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the membership of each number, from 0 to 1; 0 for a missing number."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            rise = np.where(numbers >= self.top, 1.0, (numbers - self.foot) / (self.top - self.foot))
            fall = np.where(numbers <= self.end, 1.0, (self.toe - numbers) / (self.toe - self.end))
        return np.asarray(np.nan_to_num(np.clip(np.minimum(rise, fall), 0.0, 1.0)))


def require_words(words: object) -> None:
    """Raise unless ``words`` maps columns to words, and words to the corners of triangles or trapezoids."""
    if not isinstance(words, Mapping) or not all(isinstance(sets, Mapping) for sets in words.values()):
        raise OptionError(
            "words must map columns to words, and words to corners.", fix="words={'age': {'young': (18, 18, 25, 35)}}"
        )
    for column, sets in words.items():
        for word, corners in sets.items():
            if isinstance(corners, str) or not isinstance(corners, Sequence):
                raise OptionError(f"The word {word!r} of {column!r} must be three or four numbers.")
            Trapezoid.of(corners, name=f"The word {word!r} of {column!r}")


DEGREES = {"most": 4.0, "more": 2.0, "little": 0.5, "least": 0.25, "not": 0.0}  # factor where the condition is true
FORM = f"COLUMN matters {'|'.join(DEGREES)} [when COLUMN is WORD [and COLUMN is WORD …]]"

NAME = r"(?:`(?P<quoted>[^`]+)`|(?P<plain>[^`\s](?:[^`]*?[^`\s])?))"
RULE = re.compile(rf"\s*{NAME}\s+matters\s+(?P<degree>\w+)(?:\s+when\s+(?P<when>.+?))?\s*\.?\s*", re.IGNORECASE)
CONDITION = re.compile(rf"\s*{NAME}\s+is\s+(?P<negated>not\s+)?(?P<word>.+?)\s*", re.IGNORECASE)
AND = re.compile(r"\s+and\s+(?=(?:[^`]*`[^`]*`)*[^`]*$)", re.IGNORECASE)  # not between backticks


@dataclass(frozen=True)
class RuleCondition:
    """``column is word``, or ``column is not word``."""

    column: str
    word: str
    negated: bool


@dataclass(frozen=True)
class Rule:
    """A parsed rule; its columns and words are not yet checked against a table."""

    text: str
    column: str
    degree: str
    conditions: tuple[RuleCondition, ...]

    @classmethod
    def read(cls, text: object) -> Rule:
        """Parse a rule; column names that contain keywords or blanks must be in backticks."""
        parsed = RULE.fullmatch(text) if isinstance(text, str) else None
        parts = AND.split(parsed["when"]) if parsed is not None and parsed["when"] else []
        conditions = [one for one in map(CONDITION.fullmatch, parts) if one is not None]
        if parsed is None or len(conditions) < len(parts):
            raise OptionError(
                f"A rule must have the form: {FORM}.",
                found=repr(text) if isinstance(text, str) else type(text).__name__,
            )
        degree = parsed["degree"].lower()
        if degree not in DEGREES:
            raise OptionError(
                f"The degree of a rule must be one of {', '.join(DEGREES)}.", found=_near(degree, DEGREES)
            )
        return cls(
            parsed[0].strip(),
            parsed["quoted"] or parsed["plain"],
            degree,
            tuple(
                RuleCondition(one["quoted"] or one["plain"], one["word"], bool(one["negated"])) for one in conditions
            ),
        )


@dataclass(frozen=True, repr=False)
class BoundCondition:
    """A condition on a column of the table: a fuzzy set of its numbers, or one of its categories."""

    condition: RuleCondition
    shape: Trapezoid | None

    def truth(self, rows: Table) -> NDArray[np.float64]:
        """Return the truth of the condition for each row, from 0 to 1; 0 for a missing value, also if negated."""
        name = self.condition.column
        if self.shape is not None:
            numbers = rows.numbers(name)
            truth, known = self.shape.membership(numbers), ~np.isnan(numbers)
        else:
            coded = rows.coded(name)
            same = pc.fill_null(pc.equal(coded.values.cast(pa.string()), self.condition.word), False)
            truth = same.to_numpy(zero_copy_only=False).astype(np.float64)[coded.codes]
            known = coded.values.is_valid().to_numpy(zero_copy_only=False)[coded.codes]
        return np.where(known, 1.0 - truth if self.condition.negated else truth, 0.0)


@dataclass(frozen=True, repr=False)
class BoundRule:
    """A rule for an axis of the boxes."""

    rule: Rule
    axis: int
    conditions: tuple[BoundCondition, ...]

    def truth(self, rows: Table) -> NDArray[np.float64]:
        """Return the truth of all conditions together for each row: their product."""
        truth = np.ones(rows.rows)
        for condition in self.conditions:
            truth *= condition.truth(rows)
        return truth

    def factors(self, truth: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the factors of the axis's weight: from 1 (rule not true) to the factor of its degree (fully true)."""
        return 1.0 + truth * (DEGREES[self.rule.degree] - 1.0)


@dataclass(frozen=True, repr=False)
class Rules:
    """All rules of a release, bound to its columns."""

    rules: tuple[BoundRule, ...]
    axes: int

    @staticmethod
    def questions(rules: Sequence[Rule], kinds: Mapping[str, Kind]) -> list[Question[Any]]:
        """Return the survey questions about the columns that the conditions name."""
        for rule in rules:
            for condition in rule.conditions:
                _require_column(condition.column, kinds, rule, "a column of the table")
        named = [condition for rule in rules for condition in rule.conditions]
        numeric = dict.fromkeys(one.column for one in named if kinds[one.column].is_numeric)
        words = (OccursIn(one.column, one.word) for one in named if one.column not in numeric)
        return [*(QuantilesOf(name, SHARES) for name in numeric), *words]

    @classmethod
    def of(
        cls, rules: Sequence[Rule], words: Words | None, axes: Axes, answers: Answers, kinds: Mapping[str, Kind]
    ) -> Rules:
        """Bind the rules to the columns and words of the table; ``answers`` are the answers to :meth:`questions`."""
        place = {axis.name: number for number, axis in enumerate(axes.all)}
        bound = []
        for rule in rules:
            _require_column(rule.column, place, rule, "a quasi-identifier, which boxes are cut by")
            conditions = tuple(_bind(condition, words or {}, answers, kinds) for condition in rule.conditions)
            bound.append(BoundRule(rule, place[rule.column], conditions))
        return cls(tuple(bound), len(axes.all))

    def require_true(self, rows: Table) -> None:
        """Raise unless every rule is true of at least one row, to some degree: any other rule has no effect."""
        for one in self.rules:
            if not one.truth(rows).any():
                raise OptionError(
                    f"The rule {one.rule.text!r} must be true of at least one record.",
                    found="none",
                    fix="other words, or corners of words that lie inside the range of the column",
                )

    def factors(self, rows: Table) -> NDArray[np.float32]:
        """Return the factor of the weight of each axis (columns) for each row."""
        factors = np.ones((rows.rows, self.axes))
        for one in self.rules:
            factors[:, one.axis] *= one.factors(one.truth(rows))
        return factors.astype(np.float32)


def effects(
    rules: Rules, rows: Table, axes: Axes, values: NDArray[np.float64], without: BoxPartition, with_rules: BoxPartition
) -> tuple[RuleEffect, ...]:
    """Compute the effect of each rule from the boxes that the same rows get without rules and with all rules."""
    each = []
    for one in rules.rules:
        truth = one.truth(rows)
        total = float(truth.sum())
        before, after = (
            float(truth @ _widths(boxes, values[:, one.axis], axes.all[one.axis])) / total if total > 0.0 else 0.0
            for boxes in (without, with_rules)
        )
        each.append(
            RuleEffect(
                rule=one.rule.text,
                column=one.rule.column,
                records=rows.rows,
                truth=total,
                mean_factor=float(one.factors(truth).mean()),
                touched=float((truth > 0.0).mean()),
                width_without=before,
                width_with=after,
            )
        )
    return tuple(each)


def _widths(boxes: BoxPartition, coordinate: NDArray[np.float64], axis: Axis) -> NDArray[np.float64]:
    """Return the width of each record's box along an axis."""
    inside = coordinate[boxes.order]
    box = boxes.numbers
    first = boxes.starts[:-1]
    if axis.steps is not None:
        from sfumato.methods.boxes.tally_kernels import covering_widths, trees_of

        ends = np.minimum.reduceat(inside, first), np.maximum.reduceat(inside, first)
        width = covering_widths(trees_of([axis.steps]), 0, *ends)
    elif isinstance(axis, SetAxis):
        members = np.unique(box * axis.size + inside.astype(np.int64)) // axis.size
        width = np.bincount(members, minlength=boxes.count) - 1.0
    else:
        width = np.maximum.reduceat(inside, first) - np.minimum.reduceat(inside, first)
    widths = np.empty(len(coordinate))
    widths[boxes.order] = width[box]
    return widths


def _bind(condition: RuleCondition, words: Words, answers: Answers, kinds: Mapping[str, Kind]) -> BoundCondition:
    name, word = condition.column, condition.word
    own = words.get(name, {})
    if word in own:
        if not kinds[name].is_numeric:
            raise OptionError(
                f"The word {word!r} is defined by numbers, so {name!r} must be numeric.", found="a categorical column"
            )
        return BoundCondition(condition, Trapezoid.of(own[word], name=f"The word {word!r} of {name!r}"))
    if not kinds[name].is_numeric:
        if not answers[OccursIn(name, word)]:
            raise OptionError(
                f"{word!r} must be a value of {name!r}.",  # the word comes from the user; other values are not quoted
                found="only other values",
                fix="a value of the column, in the same spelling",
            )
        return BoundCondition(condition, None)
    meaning = MEANING.get(word.lower())
    if meaning is None:
        raise OptionError(
            f"{word!r} must be a known word for the numeric column {name!r}.",
            found=_near(word, [*own, *MEANING]),
            fix=f"one of {', '.join([*own, *MEANING])}, or words={{{name!r}: {{{word!r}: (from, full, full, to)}}}}",
        )
    return BoundCondition(condition, Trapezoid.between(answers[QuantilesOf(name, SHARES)], meaning))


def _require_column(name: str, names: Collection[str], rule: Rule, what: str) -> None:
    if name not in names:
        raise OptionError(
            f"The rule {rule.text!r} needs {name!r} to be {what}.",
            found=nearest(name, names),
            fix="correct the name; put a name that contains blanks or keywords in backticks",
        )


def _near(word: str, words: Collection[str]) -> str:
    close = get_close_matches(word, list(words), n=1)
    return f"{word!r}, the nearest is {close[0]!r}" if close else repr(word)
