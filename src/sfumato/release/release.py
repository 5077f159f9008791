"""A release: rows that were verified, and what may be concluded from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import RequestError
from sfumato.methods.diagnostics import Diagnostics, Optimality
from sfumato.params import require_choice
from sfumato.release.bundle import write
from sfumato.schema.columns import Role
from sfumato.statistics.bounds import EstimateBudget, estimate
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.language import parse
from sfumato.statistics.wide_boxes import WIDE_BOXES, reweight, reweighted
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
    diagnostics: Diagnostics = field(default=Diagnostics(), kw_only=True)  # known where it was made only

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The promises of the release, as they were measured on its rows."""
        return self.manifest.findings if self.manifest else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that statistics may name: ``x`` for ``x_low`` and ``x_high``, else the column itself."""
        return original_names(self.table.names)

    def estimate(
        self, statistic: str | Statistic, *, wide_boxes: str = "keep", budget: EstimateBudget | None = None
    ) -> Estimate | tuple[Estimate, ...]:
        """Estimate one statistic of the original table from the released rows.

        A regression gives a tuple, the intercept first; every other statistic gives one Estimate. Columns that are
        released unchanged count as boxes without width, and a column with the role of a sampling weight gives the rows
        their weights. Where a method has altered a column (by noise, a swap, a recoding), nothing is guaranteed: the
        interval is infinite.

        ``statistic``
            A text such as ``"corr(age, income)"``, or a statistic such as ``sf.Mean("age")``.
        ``wide_boxes``
            What to do with records in wide boxes. ``"keep"`` (the default) counts them like all others, ``"dismiss"``
            leaves them out, and ``"fuzzy"`` gives them less weight, so that uncertainty plus sampling error is as small
            as possible. The last two shift the statistic: ``Estimate.reweighting`` says by how much, and the guaranteed
            interval stays that of all records. This has nothing to do with sampling weights, which always count.
        ``budget``
            An :class:`sfumato.EstimateBudget`. A smaller one gives a wider interval, which is still guaranteed.

        Example: ``release.estimate("mean(age)", budget=sf.EstimateBudget(seconds=1))``.
        """
        wanted = parse(statistic, names=self.names)
        estimates = self.estimates(wanted, wide_boxes=wide_boxes, budget=budget)
        return estimates if len(estimates) > 1 else estimates[0]

    def estimates(
        self, statistic: str | Statistic, *, wide_boxes: str = "keep", budget: EstimateBudget | None = None
    ) -> tuple[Estimate, ...]:
        """The same, always as a tuple: one Estimate per number of the statistic."""
        require_choice(wide_boxes, name="wide_boxes", choices=WIDE_BOXES)
        wanted = parse(statistic, names=self.names)
        altered = set(wanted.columns) & set(self.manifest.altered if self.manifest else ())
        intervals = CountedBoxes.of(self.table, wanted.columns, weight=self.weight)
        reweighs = wide_boxes != "keep"
        effects = [reweight(part, intervals, wide_boxes).effect for part in wanted.parts()] if reweighs else []
        estimates = estimate(wanted, intervals, EstimateBudget(gap=1.0) if altered else budget)
        if effects:
            estimates = tuple(map(reweighted, estimates, effects))
        return tuple(map(_uncertain, estimates)) if altered else estimates

    @property
    def weight(self) -> str | None:
        """The column of sampling weights, or None."""
        weights = self.manifest.names(Role.WEIGHT) if self.manifest else ()
        return weights[0] if weights else None

    def optimality(self) -> Optimality:
        """How near the boxes come to the narrowest that theory allows; see :class:`Optimality`.

        It is known where the release is made and is not released with it.
        """
        if self.diagnostics.optimality is None:
            raise RequestError(
                "How near a release is to the optimum is known only where it was made, by a method with such a theory.",
                found="a release that was read" if self.manifest is None else f"a release by {self.manifest.method!r}",
                fix="ask the object that `Boxes(...).release(table)` returned",
            )
        return self.diagnostics.optimality

    def write(
        self, folder: str | Path, *, report: str | None = None, beside: Mapping[str, bytes] | None = None
    ) -> Path:
        """Write released.parquet, released.csv, manifest.json and report.html into ``folder``, all or nothing.

        Parameters
        ----------
        folder
            Where to write. It must be absent, empty or an older release, which is then replaced as a whole.
        report
            The HTML page, where it was rendered already. By default it is rendered here.
        beside
            Pictures to write with it: file name to content. None by default.

        Returns
        -------
        Path
            The folder.
        """
        if self.manifest is None:
            raise RequestError(
                "Only a release with a manifest can be written.", fix="write what a method's release returned"
            )
        if report is None:
            from sfumato.report.html import render  # made a storey above: one of the two doors upward

            report = render(self)
        return write(self.table, self.manifest, report.encode(), folder, beside=beside)

    def __repr__(self) -> str:
        shape = f"{self.table.rows:,} rows × {len(self.table.names)} columns"
        if self.manifest is None:
            return f"Release({shape}, without a manifest)"
        return f"Release({shape}, {self.manifest.method}; {self.manifest.guarantee})"


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
