"""What every document shows of a release: which statistics, and which two columns as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import StatisticError
from sfumato.schema.columns import Role
from sfumato.statistics.bounds import EstimateBudget
from sfumato.statistics.language import parse
from sfumato.statistics.moment_statistics import Mean
from sfumato.table.intervals import high_name, is_interval, low_name

if TYPE_CHECKING:
    from sfumato.release.manifest import ColumnRecord, Manifest
    from sfumato.release.release import Release
    from sfumato.statistics.estimate import Estimate
    from sfumato.statistics.statistic import Statistic

MOST_MEANS = 12  # columns whose means are shown when no statistic was to be kept


@dataclass(frozen=True, repr=False)
class Summary:
    """What is computed of a release for all that show it: report, terminal and JSON."""

    estimates: tuple[Estimate, ...]  # of the kept statistics, or else of means
    pictured: tuple[str, str] | None  # two columns released as intervals


def summarize(release: Release) -> Summary:
    """Estimate what every document shows, within a second per statistic."""
    return Summary(shown_estimates(release), pictured_columns(release))


def boxed_columns(release: Release) -> tuple[str, ...]:
    """The columns that are released as intervals."""
    return tuple(name for name in release.names if is_interval(name, release.table.kinds))


def shown_statistics(release: Release) -> tuple[str | Statistic, ...]:
    """The statistics that were to stay accurate, or else the means of the columns that are released as intervals."""
    if release.manifest and release.manifest.keep:
        return release.manifest.keep
    return tuple(Mean(name) for name in boxed_columns(release)[:MOST_MEANS])


def shown_estimates(release: Release) -> tuple[Estimate, ...]:
    """Their estimates, within a second each; a statistic that cannot be estimated from the release is left out."""
    return tuple(estimate for words in shown_statistics(release) for estimate in _ask(words, release))


def pictured_columns(release: Release) -> tuple[str, str] | None:
    """Two columns that are released as intervals: those of a kept statistic if there is one, or else the first two."""
    boxed = boxed_columns(release)
    wanted = (column for words in shown_statistics(release) for column in _columns(words, release))
    chosen = tuple(dict.fromkeys([column for column in wanted if column in boxed] + list(boxed)))[:2]
    return (chosen[0], chosen[1]) if len(chosen) == 2 else None


def treatment(column: ColumnRecord, manifest: Manifest) -> str:
    """How a column of the original is released, in words."""
    released = [one.name for one in manifest.released]
    if column.role is Role.IDENTIFIER:
        return "removed"
    if is_interval(column.name, released):
        return f"{low_name(column.name)} – {high_name(column.name)}"
    if column.name not in released:
        return "left out"
    if column.name in manifest.altered:
        return "altered"
    if column.role is Role.QUASI and column.name not in manifest.unaltered:
        return "generalized"
    return "as it is"


def _ask(words: str | Statistic, release: Release) -> tuple[Estimate, ...]:
    try:
        return release.estimates(words, budget=EstimateBudget(seconds=1.0))
    except StatisticError:
        return ()


def _columns(words: str | Statistic, release: Release) -> tuple[str, ...]:
    try:
        return parse(words, names=release.names).columns
    except StatisticError:
        return ()
