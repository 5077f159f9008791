"""Warn about statistics that the release barely preserves, judged by the widths of their intervals."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import SfumatoError, StatisticError
from sfumato.plan.questions import GroupSizesOf, MissingIn, Question, SetsOf, SpreadOf
from sfumato.release.rows import is_large
from sfumato.schema.columns import Role
from sfumato.statistics.language import parse
from sfumato.statistics.moments import Moments
from sfumato.table.intervals import BOX, Intervals, interval_names, is_interval, original_name
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.plan.answers import ReleasedSets, ReleasedWidths
    from sfumato.release.release import Release
    from sfumato.statistics.estimate import Estimate
    from sfumato.statistics.statistic import Statistic


LITTLE_USE = 0.5  # share of the range of a column, or of −1 … 1, from which an interval is of little use
LARGE_GROUPS = 2.5  # times k: groups that are so large are due to something else than k


@dataclass(frozen=True, kw_only=True)
class Concern:
    """A column or a statistic that the release says little about."""

    about: str
    found: str


@dataclass(frozen=True, kw_only=True)
class Usefulness:
    """The statistics that a release barely preserves; none by default."""

    concerns: tuple[Concern, ...] = ()
    cause: str = ""  # the column or the option that costs most
    fix: str = ""  # what to try


NO_CONCERN = Usefulness()


def usefulness(release: Release, estimates: Sequence[Estimate]) -> Usefulness:
    """Find columns whose intervals are wider than half their range, and statistics about which little is known.

    If statistics were to be kept, only their columns count: the others were given up for them.
    """
    spreads, kept = column_spreads(release), _kept_columns(release)
    wide = {name: spread for name, spread in spreads.items() if spread > LITTLE_USE and (name in kept or not kept)}
    concerns = []
    for name, spread in wide.items():
        extent = "range of the column" if is_interval(name, release.table.kinds) else "categories"
        concerns.append(Concern(about=name, found=f"a released cell covers {spread:.0%} of the {extent} on average"))
    concerns += _statistics(release, estimates)
    if not concerns:
        return NO_CONCERN
    cause, fix = _cause(release, {name: spread for name, spread in spreads.items() if name not in {*wide, *kept}})
    return Usefulness(concerns=tuple(concerns), cause=cause, fix=fix)


def column_spreads(release: Release) -> dict[str, float]:
    """Return the mean share of its range, from 0 to 1, that a cell of each generalized column covers."""
    answers, questions = release.answers(report_questions(release)), report_questions(release)
    found = {one.column: _mean_width(answers[one]) for one in questions if isinstance(one, SpreadOf)}
    found |= {one.column: _left_open(answers[one]) for one in questions if isinstance(one, SetsOf)}
    return {name: found[name] for name in release.names if not math.isnan(found.get(name, math.nan))}


def _mean_width(ranges: ReleasedWidths) -> float:
    """Return the mean width of a range as a share of the whole; NaN without ranges, or if all of them are one point."""
    whole = ranges.high - ranges.low
    return ranges.widths / ranges.ranges / whole if ranges.ranges and whole > 0.0 else math.nan


def _left_open(sets: ReleasedSets) -> float:
    """Return the mean share of the values that a set leaves open; NaN if there is a single value."""
    open_share = sets.any_rows + sets.members / max(len(sets.values) - 1, 1)
    return open_share / sets.rows if sets.rows and (len(sets.values) > 1 or open_share) else math.nan


def report_questions(release: Release) -> list[Question[Any]]:
    """Return what a report asks about all released rows: widths of ranges, categories, and the sizes of groups."""
    kinds, grouped = release.table.kinds, group_question(release)
    categories = [name for name, kind in kinds.items() if kind in (Kind.NOMINAL, Kind.ORDERED)]
    return [
        *(SpreadOf(name) for name in release.names if is_interval(name, kinds)),
        *(SetsOf(name) for name in _sets(release)),
        *(question for name in categories for question in (GroupSizesOf((name,)), MissingIn(name))),
        *([grouped] if grouped else []),
    ]


def group_question(release: Release) -> GroupSizesOf | None:
    """Return what is asked about groups of rows that are equal in the protected columns; None without such columns."""
    if release.manifest is None:
        return None
    released, quasi = release.table.kinds, frozenset(release.manifest.names(Role.QUASI))
    known = frozenset(column.name for column in release.manifest.columns)
    columns = tuple(name for name in release.table.names if original_name(name, released, known) in quasi)
    return GroupSizesOf(columns, BOX if BOX in released and BOX not in known else None) if columns else None


def shown_rows(release: Release, names: Sequence[str], most: int) -> Table:
    """Return every n-th row of these columns, so that at most so many are left.

    Those of a large release are chosen once, among the rows that :func:`row_question` asks for.
    """
    question = row_question(release)
    rows = release.table if question is None else release.answers([question])[question]
    return rows.thinned(names, most)


@dataclass(frozen=True)
class EveryNth(Question[Table]):
    """Every ``step``-th row of each batch, in these columns: a sample, if the rows of a batch are in random order."""

    columns: tuple[str, ...]
    step: int

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    def of(self, batch: Table) -> tuple[Table, ...]:
        first = batch.rows * 2_654_435_761 % 2**32 % self.step  # as by chance, so that short batches count too
        return (batch.select(self.columns).take(np.arange(first, batch.rows, self.step)),)

    def merge(self, one: tuple[Table, ...], other: tuple[Table, ...]) -> tuple[Table, ...]:
        return one + other

    def finish(self, partial: tuple[Table, ...]) -> Table:
        rows = pa.concat_tables([part.arrow for part in partial]).unify_dictionaries()
        return Table(rows, partial[0].kinds)


def row_question(release: Release) -> EveryNth | None:
    """Return what is asked for some rows of a large release, of which spreads, distributions and pictures are made."""
    table = release.table
    if not is_large(table):
        return None
    names = tuple(name for name, kind in table.kinds.items() if kind is not Kind.TEXT)
    most = min(MOST_ROWS, SHOWN_CELLS // max(len(names), 1))
    return EveryNth(names, -(-table.rows // max(most, 1)))


def _kept_columns(release: Release) -> frozenset[str]:
    """Return the columns of the statistics that were to be kept."""
    columns: set[str] = set()
    for statistic in release.manifest.keep if release.manifest else ():
        with contextlib.suppress(StatisticError):  # of a column that was not released
            columns |= set(parse(statistic, names=release.names).columns)
    return frozenset(columns)


def _sets(release: Release) -> tuple[str, ...]:
    """Return the categorical columns that may have been released as sets."""
    manifest = release.manifest
    if manifest is None:
        return ()
    return tuple(
        column.name
        for column in manifest.columns
        if column.role is Role.QUASI
        and column.name not in (*manifest.unaltered, *manifest.altered)
        and not column.kind.is_numeric
        and column.name in release.names
        and not is_interval(column.name, release.table.kinds)
    )


def _statistics(release: Release, estimates: Sequence[Estimate]) -> Iterator[Concern]:
    # without a guarantee an interval has no end, which the report says elsewhere
    altered = bool(release.manifest and release.manifest.altered)
    for estimate in estimates:
        numbers = estimate.numbers  # dates as numbers
        width = numbers.high - numbers.low
        if math.isinf(width):
            if not altered:
                yield Concern(about=estimate.name, found="the guaranteed interval has no end")
        elif estimate.name.startswith("corr(") and width > 2.0 * LITTLE_USE:
            found = f"the guaranteed interval is {numbers.low:.2f} … {numbers.high:.2f}"
            yield Concern(about=estimate.name, found=found)


def _cause(release: Release, fine: dict[str, float]) -> tuple[str, str]:
    """Return what costs most, and what to try; ``fine`` are the spreads of columns that are of use but not kept."""
    manifest = release.manifest
    if manifest is None:
        return "", "more rows in a box of equal width, that is a release with a smaller k or fewer protected columns"
    k, protected = manifest.options.get("k"), len(manifest.names(Role.QUASI))
    groups = _groups(release)
    size = release.table.rows / groups if groups else 0.0
    if groups and isinstance(k, int):
        for claim in manifest.claims:
            values = claim.parameters or {}
            if claim.name == "Diversity" and size >= LARGE_GROUPS * k:
                l, column = values.get("l"), values.get("column")
                return (
                    f"l = {l} for {column!r}: groups have {size:.0f} rows on average, where k = {k} asks for {k}",
                    f"a smaller l, or another role for {column!r}",
                )
        if groups < 2**protected:
            return (
                f"k = {k} with {protected} protected columns: {groups:,} groups are too few to cut each column once",
                "a smaller k, or the role 'quasi' for fewer columns",
            )
    if not fine:
        return f"{protected} protected columns", "a smaller k, or the role 'quasi' for fewer columns"
    finest = min(fine, key=lambda name: fine[name])
    return (
        f"{finest!r}, which is released most finely and so takes most of the cuts, among {protected} protected columns",
        f"another role for {finest!r}, a smaller k, or `keep` with the statistics that you need",
    )


def _groups(release: Release) -> int:
    """Return the number of boxes; 0 if the release has none."""
    question = group_question(release)
    return release.answers([question])[question].count if question and question.numbered_by == BOX else 0


NARROW, USABLE, WIDE = 0.1, 0.25, 0.5  # half-width of an interval ÷ spread, up to which it is called so
TAIL = 0.05  # share of people trimmed at each end before measuring spread, because a few wide boxes are no spread
MOST_ROWS = 1_000_000  # released rows from which the spread is computed; of more, every n-th
SHOWN_CELLS = 10_000_000  # of the rows of a large release that spreads, distributions and pictures are made of


@dataclass(frozen=True, kw_only=True)
class Band:
    """Where an interval lies on an axis that shows the spread of the columns, from 0 (left end) to 1 (right end)."""

    low: float
    high: float
    value: float


@dataclass(frozen=True, kw_only=True, repr=False)
class ShownStatistic:
    """An estimate, and its width against the spread of its columns: a width of 1 says no more than the spread does."""

    estimate: Estimate
    spread: float | None  # natural scale of the statistic, e.g. the standard deviation of the column for its mean
    width: float | None  # half-width of the guaranteed interval ÷ spread
    band: Band | None

    @property
    def words(self) -> str:
        """How useful the interval is, in a few words."""
        if self.width is None:
            return "exact" if self.estimate.numbers.high == self.estimate.numbers.low else "nothing is guaranteed"
        return width_word(self.width)

    derived = ("words",)


def width_word(width: float) -> str:
    """Return how useful an interval is, from its half-width ÷ spread.

    >>> width_word(0.07), width_word(0.9)
    ('narrow', 'useless')
    """
    steps = ((NARROW, "narrow"), (USABLE, "usable"), (WIDE, "wide"))
    return next((word for limit, word in steps if width <= limit), "useless")


def measure_widths(release: Release, estimates: Sequence[Estimate]) -> tuple[ShownStatistic, ...]:
    """Return the estimates with their widths; the spread is that of the released rows."""
    scales = _scales(release, {estimate.name for estimate in estimates})
    return tuple(_place(estimate, scales.get(estimate.name)) for estimate in estimates)


def _place(estimate: Estimate, spread: float | None) -> ShownStatistic:
    numbers = estimate.numbers
    half = (numbers.high - numbers.low) / 2.0
    if spread is None or not (math.isfinite(half) and math.isfinite(spread) and spread > 0.0):
        return ShownStatistic(estimate=estimate, spread=spread, width=None, band=None)
    # places relative to the centre, because spreads below the precision of large numbers vanish in ends
    centre, reach = (0.0, 1.0) if estimate.name.startswith("corr(") else (numbers.low + half, spread)
    low, high, value = (
        min(max(0.5 + (end - centre) / (2.0 * reach), 0.0), 1.0) for end in (numbers.low, numbers.high, numbers.value)
    )
    return ShownStatistic(
        estimate=estimate, spread=spread, width=half / spread, band=Band(low=low, high=high, value=value)
    )


def _scales(release: Release, names: set[str]) -> dict[str, float]:
    """Return the natural scale of each statistic by name, from the midpoints of the released rows."""
    scales: dict[str, float] = {}
    for text in _texts(names):
        with contextlib.suppress(SfumatoError):
            statistic = parse(text, names=release.names)
            for part in statistic.parts() or (statistic,):
                scales[str(part)] = _scale(release, part)
    return scales


def _texts(names: set[str]) -> list[str]:
    """Return the statistics that these estimates belong to: the coefficients of a regression belong to one."""
    return list(dict.fromkeys(name.partition("): ")[0] + ")" if "): " in name else name for name in sorted(names)))


def _scale(release: Release, statistic: Statistic) -> float:
    columns, kinds = statistic.columns, release.table.kinds
    if not columns:  # a count of all rows
        return math.nan
    spelled = [part for name in columns for part in (interval_names(name) if is_interval(name, kinds) else (name,))]
    rows = shown_rows(release, spelled, MOST_ROWS)
    matrix = np.column_stack([Intervals.of(rows, name).midpoints for name in columns])
    complete = matrix[~np.isnan(matrix).any(axis=1)]
    if len(complete) < 2:
        return math.nan
    low, high = np.quantile(complete, [TAIL, 1.0 - TAIL], axis=0)
    return statistic.scale(Moments.of(np.clip(complete, low, high), names=columns))
