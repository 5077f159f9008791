"""The method PrivateBoxes: boxes, counts and moments with noise, (ε, δ)-differentially private."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.methods.discrete_noise import NoisyNumbers, largest_noise
from sfumato.methods.options import reported_option
from sfumato.methods.private_boxes.axes import BinnedColumn, Histogram
from sfumato.methods.private_boxes.cells import PrivateCells, cut_cells
from sfumato.methods.private_boxes.moment_sums import MomentSet, MomentSums, moment_sets
from sfumato.methods.private_columns import (
    Domain,
    NumberDomain,
    domains_of,
    find_domains,
    limit_rows,
    split_budget,
)
from sfumato.methods.private_method import FOUND, PrivateMethod
from sfumato.params import Checked, OrNone, require_list
from sfumato.plan.claims.concentrated_privacy import MeasuredPrivacy
from sfumato.plan.claims.rows import ColumnsAllowed
from sfumato.plan.plan import Claim, Outcome, Plan
from sfumato.schema.columns import Role
from sfumato.statistics.language import parse
from sfumato.table.intervals import BOX, require_free_names
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.statistics.statistic import Statistic

ERROR = 0.05  # probability with which the bound of an error may not hold
KEPT, SINGLE, COLUMNS, CELLS, ALL_ROWS = 10.0, 1.5, 2.0, 1.5, 0.5  # weights of the measurements in the budget


@dataclass(frozen=True, kw_only=True)
class PrivateBoxes(PrivateMethod):
    """Release noisy counts of boxes, and noisy sums for the kept statistics: (ε, δ)-differential privacy.

    Everything that is released is computed from whole numbers with discrete Gaussian noise: the moments of the kept
    statistics, over all rows; counts of bins of each column; and counts of boxes, which are cut where noisy counts show
    enough rows. Rows are released as boxes, as many as the noisy counts tell: no row is that of a person. Estimates
    have intervals that hold with a stated probability, by the noise and by the width of the boxes.

    The domain of each column of numbers should be declared, such as ``{"role": "quasi", "domain": [0, 100]}``; numbers
    outside are moved to its ends. Without it, powers of two are found with a tenth of the budget. Categories are those
    of a pandas Categorical or of a declared ``order``; without them, common ones are found. They must not have been
    taken from the table. Noise comes from the operating system: there is no seed.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"age": np.random.default_rng(0).normal(50.0, 15.0, 5000).clip(0, 100)}
    >>> schema = {"age": {"role": "quasi", "domain": [0, 100]}}
    >>> release = sf.PrivateBoxes(epsilon=1.0, keep=["mean(age)"]).release(people, schema=schema)
    >>> found = release.estimate("mean(age)")
    >>> bool(found.high - found.low < 2.0), found.probability
    (True, 0.95)
    >>> print(release.manifest.guarantee)
    (1, 1e-06)-differentially private for one row
    """

    name: ClassVar[str] = "private-boxes"
    theory: ClassVar[str] = "private-boxes"
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "moments": "noisy sums of the numbers, and of their products, with the standard deviation of the noise",
        "histograms": "noisy counts of the bins of each column, missing values last",
        "cells": "noisy counts of the boxes, as ranges of bins",
        "errors": "for each column, and for all of them: how many rows its noisy counts miss in all, at most, with "
        "probability 0.95",
        "found": "columns whose ends or categories were found privately, because they were not declared",
    }

    keep: Sequence[str | Statistic] | None = reported_option(
        OrNone(Checked("list of statistics", require_list)),
        'Statistics to keep accurate, such as ["mean(age)", "corr(age, income)", "regress(income ~ age)"]: functions '
        "of moments. They get most of the budget. None: means and variances of all columns of numbers.",
        default=None,
    )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> PrivateBoxesPlan:
        """Measure everything that will be released; nothing after this sees a row."""
        columns = schema.without(Role.PERSON)
        names = [column.name for column in columns.columns]
        require_free_names(names, names)
        kept = [parse(text, names=tuple(names)) for text in self.keep or ()]
        promise = self.promise(survey.sample.table, schema)
        most = self.rows_per_person
        table = limit_rows(survey.sample.table, schema.person, most, randomness.stream("rows of people"))
        declared = domains_of(table, columns)
        absent = [name for name, domain in declared.items() if domain is None]
        finding, rest = split_budget(promise.rho, [FOUND if absent else 0.0, 1.0 - FOUND if absent else 1.0])
        domains = find_domains(declared, table, rho=finding, chance=promise.chance, rows_per_person=most)
        return _measure(self, promise, domains, kept, table, rest, tuple(absent))


def _measure(
    method: PrivateBoxes,
    promise: MeasuredPrivacy,
    domains: Mapping[str, Domain],
    kept: Sequence[Statistic],
    table: Table,
    rho: float,
    found: tuple[str, ...],
) -> PrivateBoxesPlan:
    """Spend the budget on moments, columns and cells."""
    aimed = moment_sets(kept, domains)
    numbers = [name for name, domain in domains.items() if isinstance(domain, NumberDomain)]
    single = [MomentSet(columns=(name,), order=2) for name in numbers]
    single = [one for one in single if one not in aimed]
    asked = [*aimed, *single, MomentSet(columns=(), order=1)]
    total = sum(one.sums for one in aimed) or 1
    weights = [KEPT * one.sums / total for one in aimed] + [SINGLE / max(len(single), 1)] * len(single) + [ALL_ROWS]
    weights += [COLUMNS / len(domains)] * len(domains) + [CELLS]
    shares = split_budget(rho, weights)
    most = method.rows_per_person
    moments = tuple(
        MomentSums.measure(one, domains, table, rho=share, rows_per_person=most)
        for one, share in zip(asked, shares, strict=False)
    )
    histograms = tuple(
        Histogram.measure(BinnedColumn.of(domain), table, rho=share, rows_per_person=most)
        for domain, share in zip(domains.values(), shares[len(asked) :], strict=False)
    )
    uses = [1.0 + any(name in one.columns for one in aimed) for name in domains]
    rows = max(0.0, moments[-1].noisy.numbers[0] / moments[-1].grid)
    cells = cut_cells(table, histograms, uses, rows, rho=shares[-1], rows_per_person=most)
    return PrivateBoxesPlan(promise, moments, histograms, cells, found)


def _bound_error(columns: list[str], noisy: NoisyNumbers) -> dict[str, Any]:
    """Tell how many rows noisy counts miss in all, at most."""
    noise = largest_noise(np.full(len(noisy.numbers), noisy.sigma), ERROR)
    return {"columns": columns, "rows": math.ceil(noise), "measured": True}


@dataclass(frozen=True, eq=False, repr=False)
class PrivateBoxesPlan(Plan):
    """Show the measurements, and as many rows of each box as its noisy count tells."""

    promise: MeasuredPrivacy
    moments: tuple[MomentSums, ...]
    histograms: tuple[Histogram, ...]
    cells: PrivateCells
    found: tuple[str, ...]

    @property
    def needs_whole_table(self) -> bool:
        return True

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        columns = tuple(self._table().names)
        return (replace(self.promise, columns=columns), ColumnsAllowed(names=columns))

    def transform(self, block: Table, number: int) -> Outcome:
        """Return rows that were made from noisy counts; the block is not looked at."""
        table = self._table()
        return Outcome(table, np.full(table.rows, -1, dtype=np.int64))

    def _table(self) -> Table:
        cells, columns, kinds = self.cells, {}, {}
        box = np.repeat(np.arange(len(cells.rows)), cells.rows)
        for axis, low, high in zip(cells.axes, cells.low.T, cells.high.T, strict=True):
            for name, (values, kind) in axis.show(low, high).items():
                columns[name], kinds[name] = values.take(pa.array(box)), kind
        return Table(pa.table({**columns, BOX: pa.array(box)}), {**kinds, BOX: Kind.WHOLE})

    @property
    def notes(self) -> Mapping[str, Any]:
        cells = self.cells
        return {
            "moments": [one.note for one in self.moments],
            "histograms": {one.axis.name: one.note for one in self.histograms},
            "cells": cells.note,
            "errors": [_bound_error([one.axis.name], one.noisy) for one in self.histograms]
            + [_bound_error([one.axis.name for one in self.histograms], NoisyNumbers(cells.counts, cells.sigma))],
            "found": list(self.found),
        }
