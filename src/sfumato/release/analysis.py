"""Statistics of a release, with what its manifest knows: weights, sets, suppressed and altered rows."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import OptionError, StatisticError
from sfumato.params import Probability, require_choice
from sfumato.release.manifest import ALTERED, BOX_MEAN, EXACT, NOT_RELEASED
from sfumato.release.moments_in_parts import Ask
from sfumato.release.rows import ask_rows, is_large
from sfumato.release.tallies_in_parts import StatisticInParts, in_parts
from sfumato.schema.columns import Design, Role
from sfumato.statistics.bounds.enclosure import EstimateBudget
from sfumato.statistics.conditions import base_columns, quote
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import ORIGINAL, RELEASED_ROWS
from sfumato.statistics.language import parse
from sfumato.statistics.statistic import estimate, start_deadlines
from sfumato.statistics.tallies import Count, Sum
from sfumato.statistics.units import Calendar
from sfumato.statistics.weighted_boxes import Unseen
from sfumato.statistics.wide_boxes import (
    OBJECTIVES,
    WIDE_BOXES,
    Given,
    apply_effect,
    parse_statistics,
    reweight,
    reweight_jointly,
)
from sfumato.table.groups import labels_of
from sfumato.table.intervals import BOX, interval_names, is_interval, missing_name
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.release.manifest import Manifest
    from sfumato.statistics.bounds.enclosure import Deadline
    from sfumato.statistics.estimate import Estimate, RecoveredEstimate, Reweighting
    from sfumato.statistics.statistic import Statistic
    from sfumato.statistics.survey_design import SurveyDesign


WITHOUT_MANIFEST = (
    "read without a manifest: sampling weights, if there are any, are not used, and suppressed rows are not known"
)

# Numbers that are too large or too small for floats make an interval infinite, or a value NaN; no warning is needed
EXTREME: dict[str, Any] = {"over": "ignore", "invalid": "ignore", "divide": "ignore"}

METHOD_ALTERED = "nothing is guaranteed, because the method altered a column"
THAT_CAN = (
    "a release by boxes, quantiles, recode, generalize, or mdav with values=range gives intervals; one by noise, pram "
    "or synthesize gives corrected estimates of means, shares, moments and models"
)
NOT_MEASURED = (
    "no interval: the noisy measurements do not bound this statistic; they do if it is in keep when the release is "
    "made, or if all its columns were counted together"
)
NOT_KNOWN = "nothing is guaranteed, because without a manifest it is not known whether {} was altered"

NOT_CORRECTED = "the design of the survey was not used: the correction takes rows as drawn one by one"
NO_ROWS = Table(pa.table({}), {})
POOLED = (
    "only the total and the range of the weights of each box are known, which makes intervals of columns that are "
    "released as they are wider"
)


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """How statistics are estimated from the rows and the manifest of a release."""

    table: Table
    manifest: Manifest | None
    from_text: bool = False  # whether the rows are those of a text file alone, where NA may be a category
    wide_boxes: str = "keep"
    objective: str = "normalised"
    unweighted: bool = False
    domain: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    budget: EstimateBudget | None = None
    confidence: float | None = None  # of intervals that also hold the parameter of the population
    confidence_by: str = "imbens-manski"
    value: str = "midpoints"  # what the value is computed from
    probability: float = 0.95  # of intervals from noisy measurements
    ask: Ask | None = None  # answers questions about the released rows; the table itself is asked by default

    def __post_init__(self) -> None:
        if self.confidence is not None:
            Probability().check(self.confidence, "confidence")
        Probability().check(self.probability, "probability")
        require_choice(self.confidence_by, name="confidence_by", choices=("imbens-manski", "union"))
        require_choice(self.value, name="value", choices=("midpoints", "likelihood"))
        if self.value != "midpoints" and self.wide_boxes != "keep":
            raise OptionError("Only values at the midpoints can be reweighted.", fix='wide_boxes="keep"')
        require_choice(self.wide_boxes, name="wide_boxes", choices=WIDE_BOXES)
        require_choice(self.objective, name="objective", choices=OBJECTIVES)

    def estimates(self, wanted: Statistic) -> tuple[Estimate, ...] | tuple[RecoveredEstimate, ...]:
        """Return one estimate per part of the statistic: recovered, if its columns have noise of known variance."""
        with np.errstate(**EXTREME):
            return self.recovered(wanted) or self.bounded(wanted)

    def recovered(self, wanted: Statistic) -> tuple[Any, ...] | None:
        """Return estimates without a guarantee, or None if no theory corrects what the method did."""
        if self.manifest is None or self.wide_boxes != "keep":
            return None
        if self.manifest.is_measured and not wanted.has_errors:
            from sfumato.release.noisy_cells import estimate_privately

            return estimate_privately(self.manifest, wanted, self.probability)
        if not set(base_columns(wanted.columns)) & set(self.manifest.altered):
            return None
        from sfumato.release.corrected import correct

        found = correct(self.table, self.manifest, wanted, self.confidence, self._weight)
        if found is None or not self._design or not (wanted.has_errors or self.confidence is not None):
            return found
        return tuple(replace(one, notes=(*one.notes, NOT_CORRECTED)) for one in found)

    def fitted(self, wanted: Statistic) -> tuple[Any, ...]:
        """Return the coefficients of a model; it is refused if the method altered a column and nothing corrects it."""
        with np.errstate(**EXTREME):
            found = self.recovered(wanted)
            if found is not None:
                return found
            found = self.bounded(wanted)
        if self.manifest is not None and any(
            said in note for one in found for note in one.notes for said in (THAT_CAN, NOT_MEASURED)
        ):
            raise StatisticError(
                f"{wanted} cannot be fitted: the method {self.manifest.method!r} altered a column, and nothing "
                "corrects this model for it.",
                fix=THAT_CAN,
            )
        return found

    def bounded(self, wanted: Statistic) -> tuple[Estimate, ...]:
        """Return one estimate with a guaranteed interval per part of the statistic."""
        if self._weight is not None and self._weight in wanted.columns:
            return self._of_weights(wanted)
        if summed := self.in_parts(wanted):
            return summed
        intervals = self._count_boxes(wanted.columns)
        wanted = wanted.resolve(intervals)
        if self.confidence is not None:
            wanted = wanted.at_confidence(self.confidence)
        if self.wide_boxes == "keep":
            return self._finish(wanted, self._join(wanted, intervals), intervals)
        parts = wanted.parts()
        deadlines = self._start_halves([wanted], len(parts))
        effects = [
            reweight(part, intervals, self.wide_boxes, objective=self.objective, deadline=deadline).effect
            for part, deadline in zip(parts, deadlines, strict=True)
        ]
        return self._estimate_reweighted(wanted, intervals, effects)

    def by_parts(self, wanted: Statistic) -> StatisticInParts | None:
        """Return how the statistic is computed from parts, if the table is large and stored and its parts tell it."""
        plain = self._weight is None and self.wide_boxes == "keep" and self.value == "midpoints" and not self.domain
        exact = self.confidence is not None or (self.budget is not None and self.budget.gap is not None)
        if not is_large(self.table) or not plain or exact:
            return None
        unseen = self._unseen({})
        if self._reason_for_no_interval(wanted) or (unseen is not None and wanted.covers(unseen)):
            return None
        of_rows = partial(_estimate_rows, replace(self, table=NO_ROWS, ask=None))
        limited = getattr(self.table, "most_rows", None) is not None
        hurried = self.budget is not None and self.budget.seconds is not None
        return in_parts(wanted, self.table, of_rows, sketched=limited or hurried)

    def in_parts(self, wanted: Statistic) -> tuple[Estimate, ...]:
        """Return the estimate from the parts of a large table, if they tell it; else ()."""
        parts = self.by_parts(wanted)
        found = None if parts is None else parts.estimate(self.ask or partial(ask_rows, self.table))
        return () if found is None else self._finish(wanted, (found,))

    def _join(self, wanted: Statistic, intervals: CountedBoxes) -> tuple[Estimate, ...]:
        """Estimate, and join the uncertainty of the boxes and that of sampling if it is asked for."""
        estimates = estimate(wanted, intervals, self._budget(wanted))
        if self.value == "likelihood" and not wanted.has_errors:
            estimates = self._by_likelihood(wanted, intervals, estimates)
        if self.confidence is None and not wanted.has_errors:
            return estimates
        survey, notes = self._survey(wanted)
        if wanted.has_errors or self.confidence is None:
            joined = estimates if survey is None else wanted.with_survey(estimates, survey)
        else:
            from sfumato.statistics.joined_confidence import join_confidence

            given = self.confidence, self.confidence_by, survey
            parts = zip(wanted.parts(), estimates, strict=True)
            joined = tuple(join_confidence(part, intervals, one, *given) for part, one in parts)
        return tuple(replace(one, notes=(*one.notes, *notes)) for one in joined)

    @property
    def _design(self) -> tuple[str, ...]:
        """The columns of the original that tell the strata and clusters of a survey."""
        return tuple(column.name for column in self.manifest.columns if column.design) if self.manifest else ()

    def _survey(self, wanted: Statistic) -> tuple[SurveyDesign | None, tuple[str, ...]]:
        """Return the design of the survey, and a note if its columns are not released as they are.

        Rows with sampling weights and no design are a survey without strata and clusters; models know these themselves.
        """
        if self.manifest is None or not (self._design or (self._weight and not wanted.has_errors)):
            return None, ()
        from sfumato.statistics.survey_design import NOT_USED, SurveyDesign

        known = (*self.manifest.unaltered, *self.manifest.pseudonyms)
        unknown = [name for name in self._design if name not in known or name not in self.table.kinds]
        notes = (NOT_USED.format(" and ".join(map(quote, unknown))),) if unknown else ()
        if unknown and (self._weight is None or wanted.has_errors):
            return None, notes
        parts = ((), ()) if unknown else map(self.manifest.design, (Design.STRATUM, Design.CLUSTER))
        exact = [self._weight] if self._weight and self.manifest.sampling_weights == EXACT else []
        table = self._count_boxes(tuple(dict.fromkeys((*wanted.columns, *(() if unknown else self._design), *exact))))
        return SurveyDesign.of(table, *parts), notes

    def _by_likelihood(
        self, wanted: Statistic, intervals: CountedBoxes, estimates: Sequence[Estimate]
    ) -> tuple[Estimate, ...]:
        """Take the values of a likely distribution, where a statistic has one column in boxes."""
        from sfumato.statistics.likelihood_value import BoxedColumn, replace_value

        found, manifest, table = [], self.manifest, self.table
        for part, one in zip(wanted.parts(), estimates, strict=True):
            name, column = part.columns[0] if len(part.columns) == 1 else "", None
            is_open = missing_name(name) in table.kinds and (part.where.predicates or not part.box_columns)
            if is_interval(name, table.kinds) and manifest and manifest.edges and BOX in table.kinds and not is_open:
                hulls = manifest.edges == "hull" and manifest.options.get("snap") is None
                usable = _numbers_boxes(manifest) and name not in (*manifest.altered, *intervals.calendars)
                if usable and intervals.weighted_by is None:
                    labels = labels_of([table.coded(BOX)], table.rows)
                    column = BoxedColumn.of(table, name, labels, hulls=hulls, whole=name in intervals.whole)
            found.append(replace_value(part, one, intervals, column))
        return tuple(found)

    def _of_weights(self, wanted: Statistic) -> tuple[Estimate, ...]:
        """Return the estimates of a statistic of the weights themselves, which they do not weight.

        Their sum is the weighted count, of which also means of boxes guarantee the interval.
        """
        inner = wanted.unconditional
        if isinstance(inner, Sum) and inner.column == self._weight and self._weight not in wanted.where.columns:
            estimates = self.bounded(Count(wanted.where))
            return tuple(replace(one, name=str(wanted), unit="", weighted_by=None) for one in estimates)
        return replace(self, unweighted=True).bounded(wanted)

    def joint_estimates(
        self, statistics: Sequence[Statistic], importance: Given, accuracy: Given
    ) -> list[tuple[Estimate, ...]]:
        """Return the estimates of each statistic, all with the same weights."""
        wanted = parse_statistics(statistics, importance, accuracy)
        intervals = self._count_boxes(tuple(dict.fromkeys(name for one in statistics for name in one.columns)))
        count = sum(len(one.parts()) for one in statistics)
        deadlines = self._start_halves(statistics, count)
        effects = reweight_jointly(wanted, intervals, self.wide_boxes, self.objective, deadlines)
        return [
            self._estimate_reweighted(one, intervals, list(own)) for one, own in zip(statistics, effects, strict=True)
        ]

    def _estimate_reweighted(
        self, wanted: Statistic, intervals: CountedBoxes, effects: Sequence[Reweighting]
    ) -> tuple[Estimate, ...]:
        """Estimate from all records, in the units of the table, and add the effect of the weights."""
        plain = replace(intervals, calendars={})
        whole = estimate(wanted, plain, self._half_budget(wanted))
        estimates = []
        for part, one, effect in zip(wanted.parts(), whole, effects, strict=True):
            inner = part.unconditional
            unit = inner.unit(intervals.calendars)
            own = unit.express(apply_effect(one, effect, inner))
            estimates.append(replace(own, reweighting=unit.express_effect(effect)))
        return self._finish(wanted, tuple(estimates), intervals)

    def _start_halves(self, statistics: Sequence[Statistic], parts: int) -> Iterator[Deadline]:
        """Return deadlines with half of the time: the other half is for the estimate from all records."""
        return start_deadlines(statistics, None, self._half_budget(statistics[0]), parts)

    def _half_budget(self, wanted: Statistic) -> EstimateBudget:
        budget = self._budget(wanted) or EstimateBudget()
        return replace(budget, seconds=None if budget.seconds is None else budget.seconds / 2.0)

    def _budget(self, wanted: Statistic) -> EstimateBudget | None:
        return EstimateBudget(gap=1.0) if self._reason_for_no_interval(wanted) else self.budget

    def _reason_for_no_interval(self, wanted: Statistic) -> str:
        """Return why the cells of the statistic's columns guarantee nothing; "" if they do."""
        if self.manifest is None:
            points = [name for name in base_columns(wanted.columns) if not is_interval(name, self.table.kinds)]
            return NOT_KNOWN.format(", ".join(points)) if points else ""
        weights_altered = self._weight is not None and self.manifest.sampling_weights == ALTERED
        altered = set(self.manifest.altered) - set(self.manifest.nodes)
        return METHOD_ALTERED if weights_altered or set(base_columns(wanted.columns)) & altered else ""

    @property
    def _weight(self) -> str | None:
        return None if self.unweighted else weight_column(self.manifest)

    def _count_boxes(self, columns: Sequence[str]) -> CountedBoxes:
        manifest, weight = self.manifest, self._weight
        table, released_weight = self.table, weight_column(manifest)
        if released_weight in columns and manifest is not None and manifest.sampling_weights == BOX_MEAN:
            ends = interval_names(str(released_weight))  # the mean of a box says more about its weights than its range
            table = table.select([name for name in table.names if name not in ends])
        intervals = CountedBoxes.of(
            table,
            base_columns(columns),
            weight=weight,
            pooled=weight is not None and manifest is not None and manifest.sampling_weights == BOX_MEAN,
            sets=None if manifest is None else manifest.sets,
            nodes=None if manifest is None else manifest.nodes,
            numbered=manifest is None or _numbers_boxes(manifest),
            from_text=self.from_text,
            known=None if manifest is None else {column.name for column in manifest.columns},
        )
        intervals = replace(intervals, unseen=self._unseen(intervals.calendars))
        if tuple(columns) == base_columns(columns):
            return intervals
        from sfumato.statistics.derived_columns import add_derived

        return add_derived(intervals, columns)

    def _unseen(self, calendars: Mapping[str, Calendar]) -> Unseen | None:
        """Return the suppressed rows, and the domains of their values; None if there are none, or with weights."""
        manifest = self.manifest
        domains = {column.name: column.domain for column in manifest.columns if column.domain} if manifest else {}
        domains |= {name: _parse_domain(name, self.domain[name], calendars) for name in self.domain}
        suppressed = manifest.suppressed if manifest else 0
        return Unseen(suppressed, domains) if suppressed and self._weight is None else None

    def resolve(self, wanted: Statistic) -> Statistic:
        """Return the statistic with what it takes from the table, such as the groups that there are."""
        return wanted if wanted.parts_share_records else wanted.resolve(self._count_boxes(wanted.columns))

    def _finish(
        self, wanted: Statistic, estimates: Sequence[Estimate], intervals: CountedBoxes | None = None
    ) -> tuple[Estimate, ...]:
        """Say whose statistic the estimates are, and withdraw the intervals of altered columns."""
        of, notes = RELEASED_ROWS, [] if self.manifest else [WITHOUT_MANIFEST]
        suppressed = self.manifest.suppressed if self.manifest else 0
        if self.manifest:
            unseen = intervals.unseen if intervals else None
            covered = suppressed == 0 or (unseen is not None and wanted.covers(unseen))
            of = ORIGINAL if covered else RELEASED_ROWS
            left_out = "rows that were left out" if suppressed is None else f"{suppressed:,} suppressed rows"
            notes += [] if covered else [f"{left_out} are not covered"]
        if intervals and intervals.pools is not None and intervals.pools.merge_groups:
            notes += [POOLED]
        reason = self._reason_for_no_interval(wanted)
        if reason:
            estimates = self._withdraw(wanted, estimates, reason)
        return tuple(replace(one, of=of, notes=(*one.notes, *notes)) for one in estimates)

    def _withdraw(self, wanted: Statistic, estimates: Sequence[Estimate], reason: str) -> tuple[Estimate, ...]:
        """Withdraw the intervals of altered columns, unless the method kept what the statistic needs."""
        notes = (reason,)
        kept: tuple[Estimate | None, ...] = (None,) * len(estimates)
        if self.manifest is not None:
            from sfumato.release.corrected import keep_certain

            notes = (NOT_MEASURED,) if self.manifest.is_measured else (f"{reason}; {THAT_CAN}",)
            if self._weight is None:
                kept = keep_certain(wanted, estimates, self.table, self.manifest)
        return tuple(
            certain or replace(one.withdrawn, notes=(*one.notes, *notes))
            for one, certain in zip(estimates, kept, strict=True)
        )


def _estimate_rows(analysis: Analysis, wanted: Statistic, rows: Table) -> Estimate:
    """Return the estimate of a part of the rows."""
    with np.errstate(**EXTREME):
        return estimate(wanted, replace(analysis, table=rows)._count_boxes(wanted.columns))[0]


def weight_column(manifest: Manifest | None) -> str | None:
    """Return the name of the released column of sampling weights, or None."""
    return None if manifest is None or manifest.sampling_weights in (None, NOT_RELEASED) else manifest.weight


def by_text(given: Given) -> Given:
    """Return numbers per statistic with each statistic in its standard form, so that spelling does not matter."""
    return {str(parse(name)): number for name, number in given.items()} if isinstance(given, Mapping) else given


def _numbers_boxes(manifest: Manifest) -> bool:
    """Return whether a released column ``box`` was made by the method, and is no column of the original."""
    return not any(column.name == BOX and column.role is not Role.IDENTIFIER for column in manifest.columns)


def _parse_domain(name: str, domain: Any, calendars: Mapping[str, Calendar]) -> tuple[float, float]:
    """Return the ends of a domain as numbers in the unit of the table."""
    ends = tuple(domain) if isinstance(domain, list | tuple) else ()
    numbers = [_number(end, calendars.get(name)) for end in ends]
    if len(numbers) != 2 or not all(math.isfinite(number) for number in numbers) or numbers[0] > numbers[1]:
        kind = "dates" if name in calendars else "finite numbers"
        raise OptionError(f"The domain of column {name!r} must be two {kind}, the lower first.")
    return numbers[0], numbers[1]


def _number(end: Any, calendar: Calendar | None) -> float:
    """Return the end of a domain as a number, or NaN if it is none."""
    try:
        if calendar is not None:
            return calendar.number(end.isoformat() if isinstance(end, datetime.date) else str(end))
        return math.nan if isinstance(end, bool) else float(end)
    except (TypeError, ValueError):
        return math.nan
