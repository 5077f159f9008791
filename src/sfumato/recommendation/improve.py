"""Improve a release whose privacy tests fail: try one change after the other on held-out people, and release the first
that passes.

A change that passes is judged once more on people who were drawn anew, because the best of several tries passes by luck
more often than one. What is released is then made from all rows, in the same way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import CannotRelease, OptionError, RequestError, SfumatoError, wrap_memory_errors
from sfumato.job.assess import assess
from sfumato.job.release import release as make_release
from sfumato.measures.assess import split_holdout
from sfumato.measures.registry import MEASURES
from sfumato.methods.base import make_method, method_class
from sfumato.params import options_of, plain, require_share, strength_of
from sfumato.release.read import read_assessed
from sfumato.release.release import Release
from sfumato.report.distributions import blamed_columns
from sfumato.schema.columns import Role
from sfumato.schema.schema import FittedTable, Schema
from sfumato.sources.frames import as_table

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.release.assessment import Assessment
    from sfumato.release.manifest import Manifest
    from sfumato.table.table import Table

log = logging.getLogger("sfumato")
PRIVACY_TESTS = tuple(
    name for name, one in MEASURES.items() if one.tests and one.module.startswith("privacy.")
)  # measures of privacy that a release passes or fails
FEWEST_GROUPS = 4  # a k that leaves fewer groups says nothing about the table
HOLDOUT = 0.3
AS_RELEASED = "as it was released"
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


@dataclass(frozen=True, kw_only=True, repr=False)
class Improvement:
    """What was tried to improve a release, and the release that passes, as :func:`sfumato.improve` returns it.

    Attributes
    ----------
    steps : tuple of ImprovementStep
        Each change with its reason and what was found, the release as it was first.
    release : Release or None
        The release of all rows with the change that passed, or None if no change did.
    verdict : str
        What was found, in one sentence.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.Improvement(steps=(), release=None).release is None
    True
    """

    steps: tuple[ImprovementStep, ...]
    release: Release | None

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        last = self.steps[-1]
        if self.release is not None and len(self.steps) == 1:
            return "Nothing has to be changed: the release passes its privacy tests on held-out people."
        if self.release is not None:
            return f"Found after {len(self.steps) - 1} changes: {last.change}. {last.reason}"
        fewest = min((step for step in self.steps if not step.problem), key=lambda one: len(one.failed), default=last)
        why = f"the best, “{fewest.change}”, still fails {'; '.join(fewest.failed)}" if fewest.failed else str(last)
        return f"No change was found with which this table passes its privacy tests: {why}."

    def __str__(self) -> str:
        return "\n".join([*(f"{number}. {step}" for number, step in enumerate(self.steps)), self.verdict])

    def __repr__(self) -> str:
        return f"Improvement({len(self.steps)} steps; {self.verdict})"


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A method and roles to try; columns that are left out are no part of the table."""

    method: Method
    schema: Schema
    change: str
    reason: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class _Trials:
    """The table, and how candidates are tried on it."""

    table: Table
    holdout: float
    given: Mapping[str, Any]  # further arguments of a release
    seed: int | None = None
    tried: list[int] = field(default_factory=list)

    def judge(self, one: _Candidate) -> tuple[ImprovementStep, Assessment | None]:
        """Release a part of the people, and test what is revealed of them against those who are held out."""
        said = {"change": one.change, "reason": one.reason}
        self.tried.append(1)
        try:
            rows = self._rows(one)
            seed = None if self.seed is None else self.seed + len(self.tried)
            kept, others = split_holdout(rows, self.holdout, seed=seed, person=one.schema.person)
            made = make_release(one.method, kept, schema=one.schema, seed=self.seed, **self.given)
            found = assess(kept, made, others, measures=PRIVACY_TESTS, schema=one.schema, seed=self.seed)
        except (OptionError, CannotRelease, RequestError) as error:
            return ImprovementStep(**said, tests=0, failed=(), problem=error.message), None
        tested = [score for score in found.scores if score.passed is not None and score.family == "privacy"]
        failed = tuple(score.name for score in tested if score.passed is False)
        return ImprovementStep(**said, tests=len(tested), failed=failed), found

    def release(self, one: _Candidate, assessment: Assessment | None) -> Release:
        """Release all people in this way."""
        made = make_release(one.method, self._rows(one), schema=one.schema, seed=self.seed, **self.given)
        return replace(made, assessment=assessment)

    def _rows(self, one: _Candidate) -> Table:
        return self.table.select([name for name in self.table.names if name not in one.left_out])


@wrap_memory_errors
def improve(
    release: Release | str | Path,
    table: Any,
    *,
    method: Method | None = None,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    holdout: float = HOLDOUT,
    seconds: float | None = None,
    key: str | Path | None = None,
    rows_not_people: bool = False,
    seed: int | None = None,
) -> Improvement:
    """Find a change with which a release passes its privacy tests, and release the table with it.

    Changes are tried in this order: protect the columns to blame too, with stronger options of the method (a larger k);
    leave these columns out; draw rows from a model. Where the strongest option fails, milder ones are not tried; where
    it passes, the mildest that passes is taken. Each change is released from a part of the rows and tested against the
    others; one that passes is tested again on people who were drawn anew, and then made from all rows.

    Parameters
    ----------
    release : Release or path
        The release to improve, or its folder; its manifest tells the method, options and roles.
    table : Table, path or data frame
        The original that it was made from.
    method : Method, optional
        The method with its options, if it has some that a manifest does not show. Default: that of the manifest.
    schema : Schema, mapping or path, optional
        Roles, orders and trees of the columns. Default: the roles in the manifest.
    holdout : float, default 0.3
        Share of the rows that each trial does not release but tests against, from 0 to 1.
    seconds : float, optional
        Time after which no further change is tried. Default: no limit.
    key : str or Path, optional
        File with the secret key of pseudonyms and shifted dates.
    rows_not_people : bool, default False
        Whether to count rows although people have several of them.
    seed : int, optional
        Makes the trials repeatable, for tests; it is a secret. Default: random numbers from the operating system.

    Returns
    -------
    Improvement
        The ``steps`` that were tried and the ``release``, None if no change passed; ``verdict`` says which and why.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> draw = np.random.default_rng(0)
    >>> people = {"age": draw.integers(20, 80, 200), "weight": draw.normal(70, 12, 200)}
    >>> release = sf.Boxes(k=5).release(people, schema={"age": "quasi", "weight": "other"})
    >>> found = sf.improve(release, people, seconds=1)
    >>> found.steps[0].change
    'as it was released'
    """
    require_share(holdout, name="holdout")
    made = release if isinstance(release, Release) else read_assessed(release)
    manifest = made.manifest
    _require_improvable(manifest)
    assert manifest is not None
    known = Schema(tuple(one.to_column() for one in manifest.columns)) if schema is None else Schema.of(schema)
    fitted = FittedTable.of(as_table(table), known)
    given = {"key": key, "rows_not_people": rows_not_people or bool(manifest.repeated)}
    trials = _Trials(table=fitted.table, holdout=holdout, given=given, seed=seed)
    start = _Candidate(method=method or _method_of(manifest), schema=fitted.schema, change=AS_RELEASED, reason="")
    return _search(trials, start, made, seconds)


def _search(trials: _Trials, start: _Candidate, made: Release, seconds: float | None) -> Improvement:
    """Try groups of changes; within a group, a change that fails although it is the strongest rules out the others."""
    ends = float("inf") if seconds is None else time.monotonic() + seconds
    steps: list[ImprovementStep] = []

    def passes(candidate: _Candidate) -> Assessment | None:
        step, found = trials.judge(candidate)
        if step.passed:  # the best of several tries passes by luck more often than one
            again, found = trials.judge(candidate)
            step = step if again.passed else replace(again, change=f"{step.change}, tested again")
        steps.append(step)
        log.info("%s", step)
        return found if step.passed else None

    told = _told_step(made)
    if told is not None:
        steps.append(told)
        log.info("%s", told)
    elif found := passes(start):
        return Improvement(steps=tuple(steps), release=trials.release(start, found))
    for group in _changes(start, made, trials.table.rows):
        if time.monotonic() > ends:
            break
        found = passes(group[-1])
        if found is None:
            continue
        for milder in group[:-1]:
            if time.monotonic() < ends and (better := passes(milder)) is not None:
                return Improvement(steps=tuple(steps), release=trials.release(milder, better))
        steps.append(steps.pop(-len(group)))
        return Improvement(steps=tuple(steps), release=trials.release(group[-1], found))
    return Improvement(steps=tuple(steps), release=None)


def _told_step(made: Release) -> ImprovementStep | None:
    """Return what the assessment of the release found; None if it has none, or if no privacy test failed."""
    scores = [one for one in made.assessment.scores if one.family == "privacy"] if made.assessment else []
    tested = [score for score in scores if score.passed is not None]
    failed = tuple(score.name for score in tested if score.passed is False)
    if not failed:
        return None
    return ImprovementStep(change=AS_RELEASED, reason="As its report says.", tests=len(tested), failed=failed)


def _changes(start: _Candidate, made: Release, rows: int) -> Iterator[list[_Candidate]]:
    """Yield groups of changes, each from the mildest to the strongest."""
    blamed = [one for one in blamed_columns(made) if one.role == Role.OTHER]
    names = tuple(one.name for one in blamed)
    if not names:
        yield from ([group] if (group := list(_stronger(start, rows))) else [])
    else:
        listed = ", ".join(names)
        protected = replace(
            start,
            schema=start.schema.with_roles(dict.fromkeys(names, Role.QUASI)),
            change=f"protect {listed} too",
            reason=f"{listed} were released exactly: with {names[0]}, {blamed[0].alone:,} rows looked like no other.",
        )
        yield [protected, *_stronger(protected, rows)]
        if not _are_kept(names, start.method):
            columns = tuple(column for column in start.schema.columns if column.name not in names)
            without = replace(
                start,
                schema=replace(start.schema, columns=columns),
                left_out=names,
                change=f"do not release {listed}",
                reason=f"Even protected, {listed} gave people away.",
            )
            yield [without, *_stronger(without, rows)]
    exact = start.schema.names(Role.OTHER, Role.SENSITIVE)  # would be released as they are
    if start.method.name != DRAWN:
        drawn = replace(
            start,
            method=make_method(DRAWN),
            schema=start.schema.with_roles(dict.fromkeys(exact, Role.QUASI)),
            change=f"method {DRAWN} in place of {start.method.name}, for all columns",
            reason="Every released row is drawn from a model and stands for nobody. No size of groups is promised any "
            "more: only the tests speak for it.",
        )
        yield [drawn, *_stronger(drawn, rows)]
        yield [_from_tables(drawn, order, rows) for order in (2, 1)]


def _from_tables(drawn: _Candidate, order: int, rows: int) -> _Candidate:
    """Return the candidate whose rows are drawn from counts of pairs of columns, or of each column by itself."""
    kept = "each column by itself, and no relation between columns" if order == 1 else "pairs of columns"
    return replace(
        drawn,
        method=make_method(DRAWN, kind="tables", order=order, k=min(TABLE_K, max(2, rows // 10))),
        change=f"{drawn.change}, from counts of {'single columns' if order == 1 else 'pairs of columns'}",
        reason=f"{drawn.reason} The model keeps {kept}.",
    )


def _stronger(one: _Candidate, rows: int) -> Iterator[_Candidate]:
    """Yield the candidate with stronger values of the option by which its method protects more or less."""
    option = strength_of(type(one.method))
    if option is None:
        return
    values, now = list(option.declared.strengths), getattr(one.method, option.name)
    later = values[values.index(now) + 1 :] if now in values else [value for value in values if _is_more(value, now)]
    for value in later:
        if option.name == "k" and value * FEWEST_GROUPS > rows:
            return
        stronger: Any = one.method
        but = "" if one.change == AS_RELEASED else f"{one.change}, and "
        yield replace(
            one,
            method=replace(stronger, **{option.name: value}),
            change=f"{but}{option.name} = {value} in place of {now}",
            reason=f"{one.reason} A larger {option.name} protects more.".strip(),
        )


def _is_more(value: Any, now: Any) -> bool:
    return isinstance(value, int | float) and isinstance(now, int | float) and value > now


def _are_kept(names: tuple[str, ...], method: Method) -> bool:
    """Whether a statistic that is to be kept needs one of these columns."""
    kept = getattr(method, "keep", None) or ()
    return any(name in str(one) for one in ([kept] if isinstance(kept, str) else kept) for name in names)


def _require_improvable(manifest: Manifest | None) -> None:
    if manifest is None:
        raise RequestError("Only a release with a manifest can be improved.", fix="the folder of a release")
    if manifest.covers_every_output:
        raise RequestError(
            "A differentially private release cannot be improved by tests.",
            found="a promise that covers every output, also the result of such a search",
            fix="a smaller epsilon, chosen without looking at the table",
        )


def _method_of(manifest: Manifest) -> Method:
    """Return the method with the options that the manifest shows; the others have their defaults."""
    defaults = {one.name: plain(one.default) for one in options_of(method_class(manifest.method))}
    given = {name: value for name, value in manifest.options.items() if value != defaults.get(name)}
    try:
        return make_method(manifest.method, **given)
    except SfumatoError as error:
        reason = error.message
    raise OptionError(
        "The options of the release must be in its manifest.",
        found=reason,
        fix="in Python method=…; on the command line keep the project file DIR.toml next to the folder",
    )
