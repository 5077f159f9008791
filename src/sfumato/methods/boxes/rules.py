"""What an expert knows in words, as factors of the sensitivities (XK §V).

    income matters most when age is young
    age matters little when income is high and bmi is low
    height matters not

A rule multiplies the weight a_i(x) of its column by the factor that its degree names, as far as its condition is true
of the record. Conditions that are to hold together are multiplied, and so are the factors of several rules.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import OptionError
from sfumato.methods.boxes.axes import SetAxis
from sfumato.methods.boxes.fuzzy_terms import MEANING, SHARES, Trapezoid, Words
from sfumato.methods.diagnostics import RuleEffect
from sfumato.schema.columns import nearest
from sfumato.survey.questions import Answers, DistinctIn, QuantilesOf, Question

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.axes import Axes, Axis
    from sfumato.methods.boxes.partition import Leaves
    from sfumato.table.kinds import Kind
    from sfumato.table.table import Table

DEGREES = {"most": 4.0, "more": 2.0, "little": 0.5, "least": 0.25, "not": 0.0}  # factor where the condition is true
FORM = f"COLUMN matters {'|'.join(DEGREES)} [when COLUMN is WORD [and COLUMN is WORD …]]"

NAME = r"(?:`(?P<quoted>[^`]+)`|(?P<plain>[^`\s](?:[^`]*?[^`\s])?))"
RULE = re.compile(rf"\s*{NAME}\s+matters\s+(?P<degree>\w+)(?:\s+when\s+(?P<when>.+?))?\s*\.?\s*", re.IGNORECASE)
CONDITION = re.compile(rf"\s*{NAME}\s+is\s+(?P<negated>not\s+)?(?P<word>.+?)\s*", re.IGNORECASE)
AND = re.compile(r"\s+and\s+(?=(?:[^`]*`[^`]*`)*[^`]*$)", re.IGNORECASE)  # not between backticks


@dataclass(frozen=True)
class Condition:
    """``column is word``, or ``column is not word``."""

    column: str
    word: str
    negated: bool


@dataclass(frozen=True)
class Rule:
    """A rule as it was read; whether a table has its columns and words is not yet known."""

    text: str
    column: str
    degree: str
    conditions: tuple[Condition, ...]

    @classmethod
    def read(cls, text: object) -> Rule:
        """A rule from its words; names with other words in them stand in backticks."""
        found = RULE.fullmatch(text) if isinstance(text, str) else None
        parts = AND.split(found["when"]) if found is not None and found["when"] else []
        conditions = [one for one in map(CONDITION.fullmatch, parts) if one is not None]
        if found is None or len(conditions) < len(parts):
            raise OptionError(
                f"A rule must read: {FORM}.", found=repr(text) if isinstance(text, str) else type(text).__name__
            )
        degree = found["degree"].lower()
        if degree not in DEGREES:
            raise OptionError(f"A column matters {', '.join(DEGREES)}.", found=_near(degree, DEGREES))
        return cls(
            found[0].strip(),
            found["quoted"] or found["plain"],
            degree,
            tuple(Condition(one["quoted"] or one["plain"], one["word"], bool(one["negated"])) for one in conditions),
        )


@dataclass(frozen=True, repr=False)
class BoundCondition:
    """A condition on a column that is there: a fuzzy set of its numbers, or one of its categories."""

    condition: Condition
    shape: Trapezoid | None

    def truth(self, rows: Table) -> NDArray[np.float64]:
        """How far it is true of each row, from 0 to 1; of a missing value neither it nor its contrary is."""
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
        """How far all conditions are true of each row, by their product."""
        truth = np.ones(rows.rows)
        for condition in self.conditions:
            truth *= condition.truth(rows)
        return truth

    def factors(self, truth: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the weight of the axis is multiplied by: from 1 where the rule is not true to its degree's factor."""
        return 1.0 + truth * (DEGREES[self.rule.degree] - 1.0)


@dataclass(frozen=True, repr=False)
class Rules:
    """All rules of a release, bound to its columns."""

    rules: tuple[BoundRule, ...]
    axes: int

    @staticmethod
    def questions(rules: Sequence[Rule], kinds: Mapping[str, Kind]) -> list[Question[Any]]:
        """What must be known of the columns that the conditions name."""
        for rule in rules:
            for condition in rule.conditions:
                _require_column(condition.column, kinds, rule, "a column of the table")
        names = dict.fromkeys(condition.column for rule in rules for condition in rule.conditions)
        return [QuantilesOf(name, SHARES) if kinds[name].is_numeric else DistinctIn(name) for name in names]

    @classmethod
    def of(
        cls, rules: Sequence[Rule], words: Words | None, axes: Axes, answers: Answers, kinds: Mapping[str, Kind]
    ) -> Rules:
        """Find the columns and words of the rules in the table; ``answers`` are those to :meth:`questions`."""
        place = {axis.name: number for number, axis in enumerate(axes.all)}
        bound = []
        for rule in rules:
            _require_column(rule.column, place, rule, "a quasi-identifier, which boxes are cut by")
            conditions = tuple(_bound(condition, words or {}, answers, kinds) for condition in rule.conditions)
            bound.append(BoundRule(rule, place[rule.column], conditions))
        return cls(tuple(bound), len(axes.all))

    def factors(self, rows: Table) -> NDArray[np.float32]:
        """What the weight of each axis (columns) of each row is multiplied by."""
        factors = np.ones((rows.rows, self.axes))
        for one in self.rules:
            factors[:, one.axis] *= one.factors(one.truth(rows))
        return factors.astype(np.float32)


def effects(
    rules: Rules, rows: Table, axes: Axes, values: NDArray[np.float64], without: Leaves, with_rules: Leaves
) -> tuple[RuleEffect, ...]:
    """What each rule did, by the boxes that the same rows get without any rule and with all of them."""
    told = []
    for one in rules.rules:
        truth = one.truth(rows)
        total = float(truth.sum())
        before, after = (
            float(truth @ _widths(leaves, values[:, one.axis], axes.all[one.axis])) / total if total > 0.0 else 0.0
            for leaves in (without, with_rules)
        )
        told.append(
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
    return tuple(told)


def _widths(leaves: Leaves, coordinate: NDArray[np.float64], axis: Axis) -> NDArray[np.float64]:
    """How wide the box of each record is along an axis."""
    inside = coordinate[leaves.order]
    box = np.repeat(np.arange(leaves.count), leaves.sizes)
    if isinstance(axis, SetAxis):
        members = np.unique(box * axis.size + inside.astype(np.int64)) // axis.size
        width = np.bincount(members, minlength=leaves.count) - 1.0
    else:
        first = leaves.starts[:-1]
        width = np.maximum.reduceat(inside, first) - np.minimum.reduceat(inside, first)
    widths = np.empty(len(coordinate))
    widths[leaves.order] = width[box]
    return widths


def _bound(condition: Condition, words: Words, answers: Answers, kinds: Mapping[str, Kind]) -> BoundCondition:
    name, word = condition.column, condition.word
    own = words.get(name, {})
    if word in own:
        if not kinds[name].is_numeric:
            raise OptionError(f"Words of one's own are sets of numbers, but {name!r} has none.")
        return BoundCondition(condition, Trapezoid.of(own[word], name=f"The word {word!r} of {name!r}"))
    if not kinds[name].is_numeric:
        known = pc.is_in(answers[DistinctIn(name)].values.cast(pa.string()), value_set=pa.array([word]))
        if not pc.any(known).as_py():
            raise OptionError(
                f"No record is {word!r} in {name!r}.",  # the word is the user's own; the values are not told
                found=f"{len(known):,} other values",
                fix="a value of the column, in its own spelling",
            )
        return BoundCondition(condition, None)
    meaning = MEANING.get(word.lower())
    if meaning is None:
        raise OptionError(
            f"{word!r} says nothing of the number {name!r}.",
            found=_near(word, [*own, *MEANING]),
            fix=f"one of {', '.join([*own, *MEANING])}, or words={{{name!r}: {{{word!r}: (from, full, full, to)}}}}",
        )
    return BoundCondition(condition, Trapezoid.between(answers[QuantilesOf(name, SHARES)], meaning))


def _require_column(name: str, names: Collection[str], rule: Rule, what: str) -> None:
    if name not in names:
        raise OptionError(
            f"The rule {rule.text!r} needs {name!r} to be {what}.",
            found=nearest(name, names),
            fix="correct the name; one with blanks and other words in it stands in backticks",
        )


def _near(word: str, words: Collection[str]) -> str:
    close = get_close_matches(word, list(words), n=1)
    return f"{word!r}, the nearest is {close[0]!r}" if close else repr(word)
