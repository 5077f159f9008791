"""A release: rows that were verified, and what may be concluded from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import RequestError
from sfumato.params import require_choice
from sfumato.schema.schema import Role
from sfumato.statistics.bounds import Budget, estimate
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.language import parse
from sfumato.statistics.wide_boxes import KINDS, reweigh, weighted
from sfumato.table.intervals import original_names

if TYPE_CHECKING:
    from sfumato.methods.claims import Finding
    from sfumato.release.manifest import Manifest
    from sfumato.statistics.estimate import Estimate
    from sfumato.statistics.statistic import Statistic
    from sfumato.table.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """The released table with its manifest. Made by a method's ``release`` or by :func:`sfumato.read_release`.

    A bare data frame with ``x_low`` and ``x_high`` columns has no manifest; its statistics can be estimated as well.
    """

    table: Table  # rows in random order
    manifest: Manifest | None = None
    _limit: Any = field(default=None, kw_only=True)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The promises of the release, as they were measured on its rows."""
        return self.manifest.findings if self.manifest else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that statistics may name: ``x`` for ``x_low`` and ``x_high``, else the column itself."""
        return original_names(self.table.names)

    def estimate(
        self, statistic: str | Statistic, *, weighting: str = "none", budget: Budget | None = None
    ) -> Estimate | tuple[Estimate, ...]:
        """What the boxes say of one statistic, e.g. ``"corr(age, income)"``.

        A regression gives a tuple, the intercept first; every other statistic gives one Estimate. Columns that leave as
        they are count as boxes without width, and a column with the role of a sampling weight weighs the rows. Where a
        method has altered a column (by noise, a swap, a recoding), nothing is certain: the interval is infinite. A
        ``budget`` of time or accuracy may end early with a wider interval, which is as certain.

        ``weighting="dismiss"`` leaves records in wide boxes out and ``"fuzzy"`` weighs them down, such that uncertainty
        and sampling error together are least. That shifts the statistic; ``Estimate.weighting`` says by how much, and
        the guaranteed interval stays that of all records.
        """
        wanted = parse(statistic, names=self.names)
        estimates = self.estimates(wanted, weighting=weighting, budget=budget)
        return estimates if len(estimates) > 1 else estimates[0]

    def estimates(
        self, statistic: str | Statistic, *, weighting: str = "none", budget: Budget | None = None
    ) -> tuple[Estimate, ...]:
        """The same, always as a tuple: one Estimate for each number of the statistic."""
        require_choice(weighting, name="weighting", choices=KINDS)
        wanted = parse(statistic, names=self.names)
        altered = set(wanted.columns) & set(self.manifest.altered if self.manifest else ())
        intervals = CountedBoxes.of(self.table, wanted.columns, weight=self.weight)
        effects = [reweigh(part, intervals, weighting).effect for part in wanted.parts()] if weighting != "none" else []
        estimates = estimate(wanted, intervals, Budget(gap=1.0) if altered else budget)
        if effects:
            estimates = tuple(map(weighted, estimates, effects))
        return tuple(map(_uncertain, estimates)) if altered else estimates

    @property
    def weight(self) -> str | None:
        """The column of sampling weights, or None."""
        weights = self.manifest.names(Role.WEIGHT) if self.manifest else ()
        return weights[0] if weights else None

    def limit(self) -> Any:
        """How near the release comes to what theory allows: the method's own record of aggregates.

        It is known where the release is made and does not leave with it.
        """
        if self._limit is None:
            raise RequestError(
                "The theoretical limit is known only where the release was made, by a method that has one.",
                found="a release that was read" if self.manifest is None else f"a release by {self.manifest.method!r}",
                fix="ask the object that `Boxes(...).release(table)` returned",
            )
        return self._limit

    def write(self, folder: str | Path) -> Path:
        """Write released.parquet, released.csv, manifest.json and report.html into ``folder``, all or nothing."""
        from sfumato.release.bundle import write

        return write(self, folder)

    def __repr__(self) -> str:
        shape = f"{self.table.rows:,} rows × {len(self.table.names)} columns"
        if self.manifest is None:
            return f"Release({shape}, without a manifest)"
        promises = "; ".join(finding.claim for finding in self.findings)
        return f"Release({shape}, {self.manifest.method}; {promises or 'no promise'})"


def _uncertain(estimate: Estimate) -> Estimate:
    """The value alone: cells that were altered bound nothing."""
    return replace(
        estimate,
        low=-math.inf,
        high=math.inf,
        inner_low=math.nan,
        inner_high=math.nan,
        linear_low=math.nan,
        linear_high=math.nan,
    )
