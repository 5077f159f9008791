"""What every document shows of a release: which statistics, and which two columns as a picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sfumato.errors import StatisticError
from sfumato.schema.schema import Role
from sfumato.statistics.bounds import Budget
from sfumato.statistics.language import parse
from sfumato.statistics.moment_statistics import Mean
from sfumato.table.intervals import high_name, is_interval, low_name

if TYPE_CHECKING:
    from sfumato.release.release import Release
    from sfumato.statistics.estimate import Estimate
    from sfumato.statistics.statistic import Statistic

# what was computed for a release that is still there: a report and the terminal show the same
_SHOWN: WeakKeyDictionary[Release, tuple[Estimate, ...]] = WeakKeyDictionary()

MOST_MEANS = 12  # columns whose means are shown when no statistic was to be kept


def boxed_columns(release: Release) -> tuple[str, ...]:
    """The columns that leave as intervals."""
    return tuple(name for name in release.names if is_interval(name, release.table.kinds))


def shown_statistics(release: Release) -> tuple[str | Statistic, ...]:
    """The statistics that were to stay accurate, or else the means of the columns that leave as intervals."""
    if release.manifest and release.manifest.keep:
        return release.manifest.keep
    return tuple(Mean(name) for name in boxed_columns(release)[:MOST_MEANS])


def shown_estimates(release: Release) -> tuple[Estimate, ...]:
    """Their estimates, within a second each and computed once; a statistic that cannot be asked again is left out."""
    if release not in _SHOWN:
        _SHOWN[release] = tuple(estimate for words in shown_statistics(release) for estimate in _ask(words, release))
    return _SHOWN[release]


def pictured_columns(release: Release) -> tuple[str, str] | None:
    """Two columns that leave as intervals: those of a kept statistic if there is one, or else the first two."""
    boxed = boxed_columns(release)
    wanted = (column for words in shown_statistics(release) for column in _columns(words, release))
    chosen = tuple(dict.fromkeys([column for column in wanted if column in boxed] + list(boxed)))[:2]
    return (chosen[0], chosen[1]) if len(chosen) == 2 else None


def treatment(name: str, role: Role, released: Iterable[str], altered: Iterable[str] = ()) -> str:
    """What became of a column of the original, in words; ``altered`` names those whose cells hold something else."""
    names = set(released)
    if role is Role.IDENTIFIER:
        return "removed"
    if is_interval(name, names):
        return f"{low_name(name)} – {high_name(name)}"
    if name not in names:
        return "left out"
    if name in set(altered):
        return "altered"
    return "generalized" if role is Role.QUASI else "as it is"


def _ask(words: str | Statistic, release: Release) -> tuple[Estimate, ...]:
    try:
        return release.estimates(words, budget=Budget(seconds=1.0))
    except StatisticError:
        return ()


def _columns(words: str | Statistic, release: Release) -> tuple[str, ...]:
    try:
        return parse(words, names=release.names).columns
    except StatisticError:
        return ()
