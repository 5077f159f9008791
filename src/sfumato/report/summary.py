"""What all reports of a release share: statistics, findings, pictured columns, and numbers as text."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import StatisticError
from sfumato.release.analysis import Analysis
from sfumato.release.manifest import BOX_MEAN
from sfumato.release.rows import is_large
from sfumato.report.distributions import view_questions
from sfumato.report.usefulness import NO_CONCERN, Usefulness, report_questions, row_question, usefulness
from sfumato.schema.columns import Role
from sfumato.statistics.bounds.enclosure import EstimateBudget
from sfumato.statistics.estimate import COUNT, DAYS, SQUARE_DAYS, Estimate, RecoveredEstimate, quantity
from sfumato.statistics.language import parse
from sfumato.statistics.moment_statistics import Mean, Sd
from sfumato.table.intervals import high_name, is_interval, low_name

if TYPE_CHECKING:
    from sfumato.plan.plan import Finding
    from sfumato.release.manifest import ColumnRecord, Manifest
    from sfumato.release.release import Release
    from sfumato.statistics.statistic import Statistic


BUDGET = EstimateBudget(seconds=1.0)  # of each statistic
MOST_MEANS = 12  # columns whose means are shown if no statistic is kept
NOT_COUNTED = "no guarantee here: the released rows alone do not show it"  # shown with a stated privacy promise
NOT_PROMISED = "assess the release before it is used"  # shown with "no guarantee"


@dataclass(frozen=True, repr=False)
class Summary:
    """What report, terminal and JSON show of a release."""

    estimates: tuple[Estimate, ...]  # of the kept statistics, otherwise of means
    pictured: tuple[str, str] | None  # two columns released as intervals
    usefulness: Usefulness = NO_CONCERN  # what the release is of little use for
    recovered: tuple[RecoveredEstimate, ...] = ()  # means and spreads of columns with noise, without a guarantee


def summarize(release: Release) -> Summary:
    """Return the estimates, each computed within a second, and the pictured columns; they are computed once.

    Of very many rows, even the groups fill the memory: only statistics that are computed in parts are shown then.
    """
    return release.once(_summarize)


def _summarize(release: Release) -> Summary:
    ask_all(release)
    estimates = shown_estimates(release)
    useful = usefulness(release, estimates)
    return Summary(estimates, pictured_columns(release), useful, recovered_estimates(release))


def ask_all(release: Release) -> None:
    """Ask all that a report of a large release shows about its rows at once, so that they are read once."""
    if not is_large(release.table):
        return
    statistics = [parse(one, names=release.names) for one in shown_statistics(release) if _columns(one, release)]
    parts = [one for one in map(_analysis(release).by_parts, statistics) if one is not None]
    first = [question for one in parts for question in one.questions]
    rows = row_question(release)
    release.answers([*report_questions(release), *view_questions(release).values(), *([rows] if rows else []), *first])


def boxed_columns(release: Release) -> tuple[str, ...]:
    """Return the columns that are released as intervals."""
    return tuple(name for name in release.names if is_interval(name, release.table.kinds))


def shown_statistics(release: Release) -> tuple[str | Statistic, ...]:
    """Return the kept statistics, or the means of the columns that are released as intervals if there are none."""
    if release.manifest and release.manifest.keep:
        return release.manifest.keep
    return tuple(Mean(name) for name in boxed_columns(release)[:MOST_MEANS])


def shown_estimates(release: Release) -> tuple[Estimate, ...]:
    """Estimate the shown statistics, within a second each; those that the release does not allow are left out."""
    estimates = [estimate for statistic in shown_statistics(release) for estimate in _estimate(statistic, release)]
    return tuple(estimate for estimate in estimates if isinstance(estimate, Estimate))


def recovered_estimates(release: Release) -> tuple[RecoveredEstimate, ...]:
    """Estimate the means and standard deviations of columns with noise of a known variance."""
    noisy = release.manifest.notes.get("recoverable") if release.manifest else None
    names = [name for name in noisy if name in release.names] if isinstance(noisy, list) else []
    wanted = [statistic for name in names[:MOST_MEANS] for statistic in (Mean(name), Sd(name))]
    estimates = [one for statistic in wanted for one in _estimate(statistic, release)]
    return tuple(one for one in estimates if isinstance(one, RecoveredEstimate))


def pictured_columns(release: Release) -> tuple[str, str] | None:
    """Choose two columns that are released as intervals: those of a kept statistic if possible, otherwise the first."""
    boxed = boxed_columns(release)
    wanted = (column for statistic in shown_statistics(release) for column in _columns(statistic, release))
    chosen = tuple(dict.fromkeys([column for column in wanted if column in boxed] + list(boxed)))[:2]
    return (chosen[0], chosen[1]) if len(chosen) == 2 else None


def privacy_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with privacy claims first, otherwise in their order."""
    return sorted(findings, key=lambda finding: finding.kind != "privacy")


def treatment(column: ColumnRecord, manifest: Manifest) -> str:
    """Describe how a column of the original is released."""
    released = [one.name for one in manifest.released]
    if column.shift is not None:
        then = treatment(replace(column, shift=None), manifest)
        shifted = f"dates shifted by up to {column.shift.days} days"
        return shifted if then == "altered" else f"{shifted}; {then}"
    if column.pseudonym:
        return "replaced by pseudonyms"
    if column.role is Role.IDENTIFIER:
        return "removed"
    if column.role is Role.PERSON:
        return "removed; people are counted by it"
    if column.role is Role.HOUSEHOLD:
        return "removed; household risk is told"
    if column.role is Role.WEIGHT and manifest.sampling_weights == BOX_MEAN:
        return "mean and range of each box"
    if is_interval(column.name, released):
        return f"{low_name(column.name)} – {high_name(column.name)}"
    if column.name not in released:
        return "not released"
    if column.name in manifest.altered:
        return "altered"
    if column.role is Role.QUASI and column.name not in manifest.unaltered:
        return "generalized"
    return "unaltered"


def _estimate(statistic: str | Statistic, release: Release) -> tuple[Estimate | RecoveredEstimate, ...]:
    """Estimate a statistic within a second; nothing if the release does not allow it, or only with all its groups."""
    try:
        if is_large(release.table):
            return _analysis(release).in_parts(parse(statistic, names=release.names))
        return tuple(release.estimates(statistic, budget=BUDGET))
    except StatisticError:
        return ()


def _analysis(release: Release) -> Analysis:
    return Analysis(table=release.table, manifest=release.manifest, budget=BUDGET, ask=release.answers)


def _columns(statistic: str | Statistic, release: Release) -> tuple[str, ...]:
    try:
        return parse(statistic, names=release.names).columns
    except StatisticError:
        return ()


# Numbers as text, in reports and on pages; those of an estimate are in `statistics/estimate.py`.


def number(value: float, digits: int = 6) -> str:
    """Return a number with some digits, or "not defined".

    >>> number(-1.5), number(float("inf")), number(float("nan"))
    ('−1.5', '∞', 'not defined')
    """
    if math.isnan(value):
        return "not defined"
    return f"{value + 0.0:.{digits}g}".replace("inf", "∞").replace("-", "−")


def quantity_text(value: Any, unit: str) -> str:
    """Return a date or a count as text, and any other number with five digits."""
    if isinstance(value, datetime.date) or (unit == COUNT and math.isfinite(value)):
        return quantity(value, unit)
    return number(value, 5) + (f" {unit}" if unit in (DAYS, SQUARE_DAYS) else "")


def decimals(value: float | None, unknown: str = "–") -> str:
    """Return a share with three digits, or the text for one that is not known."""
    return unknown if value is None else f"{value:.3f}"


def amount(size: float) -> str:
    """Return a number of bytes as text.

    >>> amount(2.5e9), amount(3_000_000)
    ('2.5 GB', '3 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def percent(share: float, step: float = 0.0) -> str:
    """Return a share as a percentage: whole if it is rounded to whole ones, otherwise with two digits.

    >>> percent(0.12, 0.02), percent(0.0, 0.02), percent(0.0123), percent(0.5)
    ('12 %', '0 %', '1.2 %', '50 %')
    """
    if step:
        return f"{100 * share:.0f} %"
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:.0f} %"
