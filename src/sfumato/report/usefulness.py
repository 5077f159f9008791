"""Warn about statistics that the release barely preserves, with the cause and what to try."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import StatisticError
from sfumato.schema.columns import Role
from sfumato.statistics.language import parse
from sfumato.table.intervals import ANY, BOX, Intervals, box_labels, is_interval, parse_set

if TYPE_CHECKING:
    from sfumato.release.manifest import Manifest
    from sfumato.release.release import Release
    from sfumato.statistics.estimate import Estimate

LITTLE_USE = 0.5  # share of the range of a column, or of −1 … 1, from which an interval is of little use
LARGE_GROUPS = 2.5  # times k: groups that are so large are due to something else than k


@dataclass(frozen=True, kw_only=True)
class Concern:
    """A column or a statistic that the release says little about."""

    about: str
    found: str


@dataclass(frozen=True, kw_only=True)
class Usefulness:
    """What a release is of little use for; nothing by default."""

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
    concerns = [
        Concern(about=name, found=f"a released cell covers {spread:.0%} of the {_extent(name, release)} on average")
        for name, spread in wide.items()
    ]
    concerns += _statistics(release, estimates)
    if not concerns:
        return NO_CONCERN
    cause, fix = _cause(release, {name: spread for name, spread in spreads.items() if name not in {*wide, *kept}})
    return Usefulness(concerns=tuple(concerns), cause=cause, fix=fix)


def column_spreads(release: Release) -> dict[str, float]:
    """Return the mean share of its range, from 0 to 1, that a cell of each generalized column covers."""
    table = release.table
    altered = release.manifest.altered if release.manifest else ()
    spreads = {}
    for name in release.names:
        if is_interval(name, table.kinds):
            ends = Intervals.of(table, name)
            width, known = ends.high - ends.low, ~(np.isnan(ends.low) | np.isnan(ends.high))
            whole = float(ends.high[known].max() - ends.low[known].min()) if known.any() else 0.0
            if whole > 0.0:
                spreads[name] = float(width[known].mean()) / whole
        elif name not in altered and name in _sets(release.manifest):
            coded = table.coded(name)
            sets = [frozenset(parse_set(None if text is None else str(text))) for text in coded.values.to_pylist()]
            values = len(frozenset().union(*sets))
            shares = np.array([1.0 if ANY in one else (len(one) - 1) / max(values - 1, 1) for one in sets])
            if values > 1 or shares.any():
                spreads[name] = float(shares[coded.codes].mean())
    return spreads


def _kept_columns(release: Release) -> frozenset[str]:
    """Return the columns of the statistics that were to be kept."""
    columns: set[str] = set()
    for statistic in release.manifest.keep if release.manifest else ():
        with contextlib.suppress(StatisticError):  # of a column that was not released
            columns |= set(parse(statistic, names=release.names).columns)
    return frozenset(columns)


def _extent(name: str, release: Release) -> str:
    return "range of the column" if is_interval(name, release.table.kinds) else "categories"


def _sets(manifest: Manifest | None) -> tuple[str, ...]:
    """Return the categorical columns that may have been released as sets."""
    if manifest is None:
        return ()
    return tuple(
        column.name
        for column in manifest.columns
        if column.role is Role.QUASI and column.name not in manifest.unaltered and not column.kind.is_numeric
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
    return int(box_labels(release.table).max(initial=-1)) + 1 if BOX in release.table.kinds else 0
