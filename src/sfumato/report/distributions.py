"""Distributions before and after a release, group sizes, and attacks as gauges: shares of people, no cell.

Names of categories are cells, so categories are numbered: by frequency, or in their order if they have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.plan.questions import GroupSizesOf
from sfumato.report.usefulness import group_question, report_questions, shown_rows
from sfumato.risk.safe_shares import (
    BINS,
    OTHERS,
    Bins,
    bins_of,
    category_names,
    least_people,
    per_day,
    round_shares,
    safe_shares,
    step_for,
)
from sfumato.schema.columns import Role
from sfumato.table.intervals import ANY, BOX, Intervals, is_interval, low_name, original_name, parse_set
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.assessment import Assessment, Score
    from sfumato.release.release import Release
    from sfumato.risk.safe_shares import SafeShares
    from sfumato.table.group_counts import GroupSizes
    from sfumato.table.table import Table


COUNTED_ROWS = 200_000  # released rows that are counted; of more, every n-th


@dataclass(frozen=True, kw_only=True, repr=False)
class Bin:
    """A bin or a category of a column, and the rounded shares of people in it."""

    label: str
    before: float | None  # None if the distribution of the original is not known or not shown
    after: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Distribution:
    """The distribution of a column before and after the release; shares are multiples of ``step``."""

    bins: tuple[Bin, ...]
    step: float
    largest: float  # share of any bin
    numbered: str = ""  # how categories are numbered: "by frequency" or "in their order"; empty for numbers

    @classmethod
    def of(
        cls, labels: tuple[str, ...], before: tuple[float, ...] | None, after: NDArray[np.float64], step: float
    ) -> Distribution:
        """Put labels and shares together, and round the shares after the release."""
        shown = round_shares(after, step)
        known = before or (None,) * len(labels)
        bins = tuple(Bin(label=a, before=b, after=c) for a, b, c in zip(labels, known, shown, strict=True))
        return cls(bins=bins, step=step, largest=max((*shown, *(before or ()), step)))

    @property
    def has_before(self) -> bool:
        """Whether it shows the original too."""
        return any(one.before is not None for one in self.bins)


def distributions(release: Release) -> dict[str, Distribution]:
    """Return the distributions of the released columns; those with nothing to show are left out."""
    least = least_people(release.manifest.options.get("k") if release.manifest else None)
    step = step_for(release.table.rows, least)
    if step is None:
        return {}
    before = {one.column: one for one in release.before}
    names = list(before) or [name for name in release.names if name != "box"][: 5 * BINS]
    rows = shown_rows(release, _columns(release, names), COUNTED_ROWS)  # they are in random order
    shapes = {name: _distribution(release, rows, name, before.get(name), least, step) for name in names}
    return {name: one for name, one in shapes.items() if one is not None}


def original_distributions(table: Table, least: int) -> dict[str, Distribution]:
    """Return the distributions of a table that is not released yet, in the form in which a report shows them."""
    shown = table.thinned(table.names, COUNTED_ROWS)
    shapes = {}
    for one in safe_shares(shown, shown.names, least):
        shape = Distribution.of(one.labels, None, np.array(one.shares), one.step)
        shapes[one.column] = shape if one.bins is not None else _number_categories(shape, table.kinds[one.column])
    return shapes


def _columns(release: Release, names: list[str]) -> list[str]:
    wanted, kinds = set(names), release.table.kinds
    return [n for n in kinds if (n in wanted or n.rpartition("_")[0] in wanted) and kinds[n] is not Kind.TEXT]


def _distribution(
    release: Release, rows: Table, name: str, before: SafeShares | None, least: int, step: float
) -> Distribution | None:
    if before is not None:
        step = max(step, before.step)
    if is_interval(name, rows.kinds) or (name in rows.kinds and rows.kinds[name].is_numeric):
        return _of_numbers(rows, name, before, least, step)
    if name not in rows.kinds:  # free text
        return None
    shape = _of_categories(release, rows, name, before, least, step)
    return None if shape is None else _number_categories(shape, rows.kinds[name])


def _number_categories(shape: Distribution, kind: Kind) -> Distribution:
    """Return the distribution with numbers in place of the names of categories; those of booleans are no secret."""
    if kind is Kind.BOOLEAN:
        return shape
    labels = (one.label if one.label == OTHERS else _ordinal(place) for place, one in enumerate(shape.bins, 1))
    numbered = "in their order" if kind is Kind.ORDERED else "by frequency"
    return replace(
        shape,
        numbered=numbered,
        bins=tuple(replace(one, label=label) for one, label in zip(shape.bins, labels, strict=True)),
    )


def _ordinal(number: int) -> str:
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number, 'th') }"


def _of_numbers(rows: Table, name: str, before: SafeShares | None, least: int, step: float) -> Distribution | None:
    ends, spelled = Intervals.of(rows, name), low_name(name) if is_interval(name, rows.kinds) else name
    known = np.isfinite(ends.low) & np.isfinite(ends.high)
    whole = rows.kinds[spelled] is Kind.WHOLE
    bins = before.bins if before else None
    if bins is None:
        bins = bins_of(np.sort(ends.midpoints[known]), least, whole=whole, per_day=per_day(rows, spelled))
    if bins is None or not known.any():
        return None
    high = ends.high[known] + (1.0 if whole else 0.0)  # whole numbers up to the end, the end included
    shares = _shares_in(bins, ends.low[known], high) * float(known.mean())
    return Distribution.of(bins.labels, before.shares if before else None, shares, step)


def _shares_in(bins: Bins, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of each bin if values are spread evenly over their intervals."""
    width = high - low
    below = [np.where(width > 0.0, (e - low) / np.where(width > 0.0, width, 1.0), low < e) for e in bins.edges]
    cumulative = [float(np.clip(one, 0.0, 1.0).mean()) for one in below]
    return np.diff([0.0, *cumulative, 1.0])


def _of_categories(
    release: Release, rows: Table, name: str, before: SafeShares | None, least: int, step: float
) -> Distribution | None:
    after = _category_shares(release, rows, name)
    if before is None:
        frequent = sorted((n for n in after if after[n] * rows.rows >= least), key=lambda n: -after[n])[:BINS]
        return _with_others(frequent, after, None, step) if frequent else None
    theirs = dict(zip(before.labels, before.shares, strict=True))
    shown = [label for label in before.labels if label in after and label != OTHERS]
    return _with_others(shown, after, theirs, step) if shown else _of_categories(release, rows, name, None, least, step)


def _with_others(
    shown: list[str], after: dict[str, float], before: dict[str, float] | None, step: float
) -> Distribution:
    """Return the shares of the shown categories, and of all others together if there are any."""
    others = sum(after.values()) - sum(after[label] for label in shown)
    theirs = sum(before.values()) - sum(before[label] for label in shown) if before else 0.0
    shares = [after[label] for label in shown]
    known = [before[label] for label in shown] if before else None
    labels = tuple(shown)
    if others > step / 2.0 or theirs > step / 2.0:
        labels, shares = (*shown, OTHERS), [*shares, others]
        known = None if known is None else [*known, *round_shares(np.array([theirs]), step)]
    return Distribution.of(labels, None if known is None else tuple(known), np.array(shares), step)


def _category_shares(release: Release, rows: Table, name: str) -> dict[str, float]:
    """Return the share of rows with each category; a set counts for each of its members equally."""
    coded = rows.coded(name)
    counts = np.bincount(coded.codes, minlength=coded.size) / rows.rows
    is_set = release.manifest is not None and name in release.manifest.sets
    totals: dict[str, float] = {}
    spread = 0.0  # of sets that stand for any value
    for value, share in zip(category_names(coded.values), counts.tolist(), strict=True):
        members = parse_set(value) if is_set and value is not None else (value,)
        if ANY in members:
            spread += share
            continue
        for member in members:
            if member is not None:
                totals[str(member)] = totals.get(str(member), 0.0) + share / len(members)
    total = sum(totals.values())
    return {label: share * (1.0 + spread / total) for label, share in totals.items()} if total else totals


@dataclass(frozen=True, kw_only=True)
class SizeClass:
    """Groups of about equal size."""

    smallest: int
    largest: int
    groups: int
    people: int


@dataclass(frozen=True, kw_only=True)
class ReleasedGroups:
    """Groups of rows that look alike in the columns that others may know."""

    columns: tuple[str, ...]
    rows: int
    groups: int
    smallest: int
    alone: int  # rows that look like no other row
    classes: tuple[SizeClass, ...]


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """A score from 0 to 1 with its reference: what is seen for people who never took part, or by guessing."""

    name: str
    question: str
    value: float
    low: float | None
    high: float | None
    reference: float
    reference_is: str
    passed: bool | None
    detail: str


STARTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 30, 50, 100, 200, 500, 1000, 10_000, 100_000)  # of classes of sizes
OUTSIDE, GUESS, CHANCE = "people who never took part", "guessing", "chance"

# score: question, reference (None: one of all rows), what the reference is
QUESTIONS: dict[str, tuple[str, float | None, str]] = {
    "copies, all columns": ("How many people have their row in the release, cell by cell?", 0.0, OUTSIDE),
    "copies, quasi-identifiers": (
        "How many people have their quasi-identifiers in the release as they are?",
        0.0,
        OUTSIDE,
    ),
    "copies, nearly equal": ("How many people have a row that nearly equals theirs in the release?", 0.0, OUTSIDE),
    "distance below the reference": ("How many people are nearer to the release than other people are?", 0.0, OUTSIDE),
    "ambiguity below the reference": (
        "For how many people is the nearest row a clearer match than for other people?",
        0.0,
        OUTSIDE,
    ),
    "uncertainty below the reference": (
        "For how many people do the nearest rows agree more than for other people?",
        0.0,
        OUTSIDE,
    ),
    "membership by nearest row": ("Can someone tell from near rows who is in the table?", 0.5, GUESS),
    "membership by density ratio": ("Can someone tell from the density of rows who is in the table?", 0.5, GUESS),
    "membership by nearest row, hardest to hide": ("Can near rows tell which unusual people took part?", 0.5, GUESS),
    "membership by density ratio, hardest to hide": ("Can density tell which unusual people took part?", 0.5, GUESS),
    "members detected by nearest row": ("How many people are certain to be in the table, by near rows?", 0.01, GUESS),
    "members detected by density ratio": ("How many people are certain to be in the table, by density?", 0.01, GUESS),
    "inference of a column": ("How much better are values inferred than those of other people?", 0.0, OUTSIDE),
    "inference of a column, largest": (
        "How much better are values inferred, in the column where it is most?",
        0.0,
        OUTSIDE,
    ),
    "linkability": ("How much better are two halves of a person joined than those of other people?", 0.0, OUTSIDE),
    "membership by wide kernel": ("Can someone tell from the rows far and near who is in the table?", 0.5, GUESS),
    "membership by equal rows": ("Can someone tell from equal rows who is in the table, or who is not?", 0.0, OUTSIDE),
    "membership by missing rows": ("Can someone tell from rows that are missing who is in the table?", 0.0, OUTSIDE),
    "singling out by one column": ("How many people does a single released cell describe?", 0.0, OUTSIDE),
    "singling out": ("How much better do descriptions fit exactly one person than for other people?", 0.0, OUTSIDE),
    "correct nearest matches": (
        "How many people does an intruder who knows all their values match to their row?",
        None,
        CHANCE,
    ),
    "isolation": ("How much more often does a released row point at one person than at other people?", 0.0, OUTSIDE),
    "correct matches by the known mechanism": (
        "How many people does an intruder who knows method and options match to their row?",
        None,
        CHANCE,
    ),
    "people re-identified from columnwise groups": (
        "How many people are left with one row, if the groups of all columns are intersected?",
        None,
        CHANCE,
    ),
    "correct Fellegi–Sunter links": ("How many people does record linkage match to their row?", None, CHANCE),
    "generalized cells undone": ("How many generalized cells can be narrowed down again?", 0.0, CHANCE),
    "suppressed cells reconstructed": ("How many suppressed cells can be reconstructed?", 0.0, CHANCE),
    "suppressed cells predicted": ("How many suppressed cells can be predicted from the rest of the row?", 0.0, CHANCE),
    "noise stripped by SVD": ("How much of the noise can be removed again?", 0.0, CHANCE),
}


def gauges(assessment: Assessment) -> tuple[Gauge, ...]:
    """Return the gauges of an assessment, failed tests first, then tests, then attacks without a test."""
    shown = [_gauge(score) for score in assessment.scores if score.name in QUESTIONS]
    order = {False: 0, True: 1, None: 2}
    return tuple(sorted(shown, key=lambda gauge: order[gauge.passed]))


def _gauge(score: Score) -> Gauge:
    question, reference, reference_is = QUESTIONS[score.name]
    return Gauge(
        name=score.name,
        question=question,
        value=score.value,
        low=score.low,
        high=score.high,
        reference=1.0 / max(score.rows, 1) if reference is None else reference,
        reference_is=reference_is,
        passed=score.passed,
        detail=score.note,
    )


def groups(release: Release) -> ReleasedGroups | None:
    """Count groups of released rows that are equal in the protected columns; None without protected columns."""
    manifest, grouped = release.manifest, group_question(release)
    if manifest is None or not grouped or not release.table.rows:
        return None
    sizes = release.answers(report_questions(release))[grouped]
    known, quasi = {column.name for column in manifest.columns}, frozenset(manifest.names(Role.QUASI))
    names = dict.fromkeys(original_name(name, release.table.kinds, known) for name in release.table.names)
    return ReleasedGroups(
        columns=tuple(name for name in names if name in quasi),
        rows=release.table.rows,
        groups=sizes.count,
        smallest=sizes.smallest,
        alone=sizes.unique_rows,
        classes=size_classes(sizes),
    )


@dataclass(frozen=True, kw_only=True)
class IntruderView:
    """What an intruder who knows some released columns of a person finds, counted on the released rows alone."""

    knows: str  # in words
    columns: tuple[str, ...]  # of the original
    groups: int
    smallest: int
    alone: int  # rows that look like no other row
    largest_risk: float  # 1 ÷ rows of the smallest group
    mean_risk: float  # groups ÷ rows
    _released: tuple[str, ...]  # columns of the release that are compared


@dataclass(frozen=True, kw_only=True)
class BlamedColumn:
    """A column that is not protected, and by which rows can be told apart that look alike in the protected ones."""

    name: str
    role: str
    alone: int  # rows that are alone if it is known besides the protected columns
    _released: tuple[str, ...]  # columns of the release that are compared


PROTECTED, EVERYTHING = "the protected columns", "everything that is released"
BLAMED_CELLS = 20_000_000  # cells of unprotected columns up to which each column is tried by itself


def intruder_views(release: Release) -> tuple[IntruderView, ...]:
    """Return what two intruders find: one knows the protected columns, the other everything that is released."""
    questions = view_questions(release)
    sizes = release.answers(questions.values())
    return tuple(_view(release, knows, one.columns, sizes[one]) for knows, one in questions.items())


def view_questions(release: Release) -> dict[str, GroupSizesOf]:
    """Return what is asked about the rows for each intruder, by what the intruder knows."""
    protected, others = _known_columns(release)
    grouped = group_question(release) if protected else None
    asked = {PROTECTED: grouped} if grouped else {}
    return asked | ({EVERYTHING: GroupSizesOf(tuple(sum(others.values(), protected)))} if others else {})


def blamed_columns(release: Release) -> tuple[BlamedColumn, ...]:
    """Return the unprotected columns by which rows stand alone, the worst first."""
    protected, others = _known_columns(release)
    if not protected or release.manifest is None or release.table.rows * len(others) > BLAMED_CELLS:
        return ()
    roles = {column.name: str(column.role) for column in release.manifest.columns}
    questions = [GroupSizesOf(tuple(one)) for one in (protected, *([*protected, *shown] for shown in others.values()))]
    before, *sizes = map(release.answers(questions).__getitem__, questions)
    blamed = [
        BlamedColumn(name=name, role=roles[name], alone=own.unique_rows, _released=(*protected, *others[name]))
        for name, own in zip(others, sizes, strict=True)
        if own.unique_rows > before.unique_rows
    ]
    return tuple(sorted(blamed, key=lambda one: -one.alone))


def _known_columns(release: Release) -> tuple[list[str], dict[str, list[str]]]:
    """Return the released columns of protected columns, and those of each other one.

    Pseudonyms and numbers of boxes are left out: nobody knows them of a person. Rows that were drawn from noisy
    measurements are those of nobody, however few look alike.
    """
    manifest = release.manifest
    if manifest is None or manifest.is_measured or not release.table.rows:
        return [], {}
    quasi, known = manifest.names(Role.QUASI), {column.name for column in manifest.columns}
    shown: dict[str, list[str]] = {}
    for name in release.table.names:
        shown.setdefault(original_name(name, release.table.kinds, known), []).append(name)
    protected = [name for column in quasi for name in shown.get(column, ())]
    left_out = {*quasi, *manifest.pseudonyms, *([] if BOX in known else [BOX])}
    return protected, {column: names for column, names in shown.items() if column not in left_out and column in known}


def _view(release: Release, knows: str, columns: Sequence[str], sizes: GroupSizes) -> IntruderView:
    known = {column.name for column in release.manifest.columns}  # type: ignore[union-attr]
    return IntruderView(
        knows=knows,
        columns=tuple(dict.fromkeys(original_name(name, release.table.kinds, known) for name in columns)),
        groups=sizes.count,
        smallest=sizes.smallest,
        alone=sizes.unique_rows,
        largest_risk=1.0 / sizes.smallest,
        mean_risk=sizes.count / release.table.rows,
        _released=tuple(columns),
    )


def size_classes(sizes: GroupSizes) -> tuple[SizeClass, ...]:
    """Return how many groups of about each size there are, and how many people are in them."""
    starts = np.array(STARTS)
    place = np.searchsorted(starts, sizes.sizes, side="right") - 1
    return tuple(
        SizeClass(
            smallest=int(starts[number]),
            largest=int(starts[number + 1]) - 1 if number + 1 < len(starts) else int(sizes.sizes.max()),
            groups=int(sizes.groups[place == number].sum()),
            people=int((sizes.sizes * sizes.groups)[place == number].sum()),
        )
        for number in np.unique(place).tolist()
    )
