"""Changes to a release whose privacy tests fail, from mild to strong, and a search for one that passes.

A change that passes is judged once more on people who were drawn anew, because the best of several tries passes by luck
more often than one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sfumato.comparison.attempts import HOLDOUT, Split, Trial, attempt, draw_split
from sfumato.methods.base import make_method
from sfumato.params import strength_of
from sfumato.schema.columns import Role
from sfumato.statistics.language import parse

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.release.assessment import Assessment
    from sfumato.report.distributions import BlamedColumn
    from sfumato.schema.schema import FittedTable, Schema

log = logging.getLogger("sfumato")
FEWEST_GROUPS = 4  # a k that leaves fewer groups says nothing about the table
DRAWN = "synthesize"  # the method whose rows stand for nobody
TABLE_K = 20  # rows of a bin in the tables of counts from which rows are drawn


@dataclass(frozen=True, kw_only=True)
class ImprovementStep:
    """One change that was tried, why, and what its privacy tests found on held-out people."""

    change: str
    reason: str
    tests: int  # privacy tests that were taken
    failed: tuple[str, ...]  # their names
    problem: str = ""  # why it could not be released at all; empty if it could

    @classmethod
    def of(cls, assessment: Assessment, **said: str) -> ImprovementStep:
        """Return what an assessment found."""
        tested = [score for score in assessment.scores if score.passed is not None and score.family == "privacy"]
        failed = tuple(score.name for score in tested if score.passed is False)
        return cls(**said, tests=len(tested), failed=failed)

    @property
    def passed(self) -> bool:
        """Whether it could be released, and no privacy test failed."""
        return not self.problem and self.tests > 0 and not self.failed

    def __str__(self) -> str:
        if self.problem:
            return f"{self.change}: not possible ({self.problem})"
        if self.passed:
            return f"{self.change}: all {self.tests} privacy tests passed"
        return f"{self.change}: {len(self.failed)} of {self.tests} privacy tests failed ({'; '.join(self.failed)})"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A release to try, and in which way it differs from the first one."""

    trial: Trial
    change: str
    reason: str = ""
    is_first: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class HeldOutTrials:
    """A table, and how candidates are tried on held-out people of it."""

    fitted: FittedTable
    holdout: float = HOLDOUT
    given: Mapping[str, Any] = field(default_factory=dict)  # further arguments of a release
    seed: int | None = None

    def judge(self, one: Change, part: str = "") -> ImprovementStep:
        """Release a part of the people, and test what is revealed of them; another ``part`` draws people anew."""
        said = {"change": one.change, "reason": one.reason}
        row = attempt(one.trial, replace(self._split(part), tests_only=True)).row
        if row.assessment is None:
            return ImprovementStep(**said, tests=0, failed=(), problem=row.reason)
        return ImprovementStep.of(row.assessment, **said)

    def _split(self, part: str) -> Split:
        return draw_split(self.fitted, self.holdout, part=part, seed=self.seed, **self.given)

    def assess(self, one: Change, part: str) -> Assessment | None:
        """Return all that is measured of a release in this way, of the ``part`` on which it passed."""
        return attempt(one.trial, self._split(part)).row.assessment


@dataclass(frozen=True, kw_only=True, repr=False)
class Found:
    """What was tried, and the candidate that passes; None if none does."""

    steps: tuple[ImprovementStep, ...]
    candidate: Change | None = None
    part: str = ""  # of the people, on which it passed
    ended_early: bool = False  # whether the time was over before all changes were tried

    @property
    def refusal(self) -> str:
        """The sentence that no release was found that passes, and why."""
        last = self.steps[-1]
        fewest = min((step for step in self.steps if not step.problem), key=lambda one: len(one.failed), default=last)
        why = f"the best, “{fewest.change}”, still fails {'; '.join(fewest.failed)}" if fewest.failed else str(last)
        when = " in the time that was given" if self.ended_early else ""
        return f"No change was found{when} with which this table passes its privacy tests: {why}."


def find_passing(
    trials: HeldOutTrials,
    start: Change,
    groups: Callable[[], Iterator[list[Change]]],
    *,
    told: ImprovementStep | None = None,
    seconds: float | None = None,
) -> Found:
    """Try groups of changes; within a group, a change that fails although it is the strongest rules out the others.

    ``told`` is what is already known about the start, which is then not tried.
    """
    ends = float("inf") if seconds is None else time.monotonic() + seconds
    steps: list[ImprovementStep] = []

    def passes(candidate: Change) -> str | None:
        """Return the part of the people on which a candidate passed; None if it failed."""
        step, part = trials.judge(candidate), ""
        if step.passed and not candidate.is_first:  # the best of several tries passes by luck more often than one
            part = f"again {len(steps)}"
            again = trials.judge(candidate, part)
            step = step if again.passed else replace(again, change=f"{step.change}, tested again")
        tell(step)
        return part if step.passed else None

    def tell(step: ImprovementStep) -> None:
        steps.append(step)
        log.info("%s", step)

    if told is not None:
        tell(told)
    elif (part := passes(start)) is not None:
        return Found(steps=tuple(steps), candidate=start, part=part)
    for group in groups() if time.monotonic() < ends else ():
        if time.monotonic() > ends:
            break
        if (part := passes(group[-1])) is None:
            continue
        for milder in group[:-1]:
            if time.monotonic() < ends and (better := passes(milder)) is not None:
                return Found(steps=tuple(steps), candidate=milder, part=better)
        strongest = next(place for place, step in enumerate(steps) if step.change == group[-1].change)
        steps.append(steps.pop(strongest))
        return Found(steps=tuple(steps), candidate=group[-1], part=part)
    return Found(steps=tuple(steps), ended_early=time.monotonic() >= ends)


def changes(start: Change, schema: Schema, blamed: Sequence[BlamedColumn], rows: int) -> Iterator[list[Change]]:
    """Yield groups of changes, each from the mildest to the strongest."""
    exposed = [one for one in blamed if one.role == Role.OTHER]
    names = tuple(one.name for one in exposed)
    if not names:
        yield from ([group] if (group := list(stronger(start, rows))) else [])
    else:
        listed = ", ".join(names)
        protected = replace(
            start,
            trial=replace(start.trial, roles=dict.fromkeys(names, Role.QUASI)),
            change=f"protect {listed} too",
            reason=f"{listed} were released exactly: with {names[0]}, {exposed[0].alone:,} rows looked like no other.",
            is_first=False,
        )
        yield [protected, *stronger(protected, rows)]
        if not any(columns & {*names} for columns in _kept_columns(start.trial.method, schema)):
            without = replace(
                start,
                trial=replace(start.trial, left_out=names),
                change=f"do not release {listed}",
                reason=f"Even protected, {listed} gave people away.",
                is_first=False,
            )
            yield [without, *stronger(without, rows)]
    if sensitive := tuple(one.name for one in blamed if one.role == Role.SENSITIVE):
        listed = ", ".join((*names, *sensitive))
        method: Any = start.trial.method
        diverse = {"l": None} if getattr(method, "l", None) else {}  # no column is left that has to be diverse
        all_protected = replace(
            start,
            trial=replace(
                start.trial,
                method=replace(method, **diverse),
                roles=dict.fromkeys((*names, *sensitive), Role.QUASI),
            ),
            change=f"protect {listed} too",
            reason=f"{', '.join(sensitive)} were released exactly, and gave people away to whoever knows them.",
            is_first=False,
        )
        yield [all_protected, *stronger(all_protected, rows)]
    yield from _drawn(start, schema, rows)


def _drawn(start: Change, schema: Schema, rows: int) -> Iterator[list[Change]]:
    """Yield candidates whose rows are drawn from a model, for all columns; a simpler one if they are drawn already."""
    method: Any = start.trial.method
    is_drawn = method.name == DRAWN
    exact = schema.names(Role.OTHER, Role.SENSITIVE)  # would be released as they are
    drawn = Change(
        trial=Trial(method=make_method(DRAWN), roles=dict.fromkeys(exact, Role.QUASI)),
        change=f"method {DRAWN}{'' if is_drawn else f' in place of {method.name}'}, for all columns",
        reason="Every released row is drawn from a model and stands for nobody. No size of groups is promised any "
        "more: only the tests speak for it.",
    )
    if not is_drawn:
        yield [drawn, *stronger(drawn, rows)]
    highest = min(method.order - 1, 2) if is_drawn and method.kind == "tables" else 2
    lowest = 2 if any(len(columns) > 1 for columns in _kept_columns(method, schema)) else 1  # a relation is to be kept
    orders = range(highest, lowest - 1, -1)
    yield from ([group] if (group := [_from_tables(drawn, order, rows) for order in orders]) else [])


def _from_tables(drawn: Change, order: int, rows: int) -> Change:
    """Return the candidate whose rows are drawn from counts of pairs of columns, or of each column by itself."""
    kept = "each column by itself, and no relation between columns" if order == 1 else "pairs of columns"
    method = make_method(DRAWN, kind="tables", order=order, k=min(TABLE_K, max(2, rows // 10)))
    return replace(
        drawn,
        trial=replace(drawn.trial, method=method),
        change=f"{drawn.change}, from counts of {'single columns' if order == 1 else 'pairs of columns'}",
        reason=f"{drawn.reason} The model keeps {kept}.",
    )


def stronger(one: Change, rows: int) -> Iterator[Change]:
    """Yield the candidate with stronger values of the option by which its method protects more or less."""
    method: Any = one.trial.method
    option = strength_of(type(method))
    if option is None:
        return
    values, now = list(option.declared.strengths), getattr(method, option.name)
    later = values[values.index(now) + 1 :] if now in values else [value for value in values if _is_more(value, now)]
    for value in later:
        if option.name == "k" and value * FEWEST_GROUPS > rows:
            return
        but = "" if one.is_first else f"{one.change}, and "
        yield Change(
            trial=replace(one.trial, method=replace(method, **{option.name: value})),
            change=f"{but}{option.name} = {value} in place of {now}",
            reason=f"{one.reason} A larger {option.name} protects more.".strip(),
        )


def _is_more(value: Any, now: Any) -> bool:
    return isinstance(value, int | float) and isinstance(now, int | float) and value > now


def _kept_columns(method: Method, schema: Schema) -> list[frozenset[str]]:
    """Return the columns of each statistic that is to be kept."""
    kept = getattr(method, "keep", None)
    statistics = kept if isinstance(kept, list | tuple) else ()  # that of pram is a probability
    every = [column.name for column in schema.columns]
    return [frozenset(parse(one, names=every).columns) for one in statistics]


def require_testable(fitted: FittedTable, holdout: float = HOLDOUT) -> None:
    """Raise unless there are enough people to release some of them and to hold out others."""
    draw_split(fitted, holdout)
