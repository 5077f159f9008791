"""Tests and measures of association: the interval of the statistic, and the p-values of all completions.

Each test is bounded by parts whose intervals are known: means and variances of groups, counts of cells, or ranks. The
p-value is monotone in the statistic for given degrees of freedom, which lie between known limits too.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.association import KendallPairs, UncertainTable, UStatistic, chi_square, rank_ends
from sfumato.statistics.bounds.enclosure import Deadline
from sfumato.statistics.combined import Difference, Ratio, ShareMeeting, is_value
from sfumato.statistics.conditions import ALWAYS, Condition, Predicate, quote
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate
from sfumato.statistics.estimate_records import TestEstimate
from sfumato.statistics.moment_statistics import Correlation, Mean, Variance
from sfumato.statistics.statistic import ConditionalStatistic, Statistic, compute_in_groups
from sfumato.statistics.tallies import Count
from sfumato.statistics.weighted_boxes import Unseen

Ends = tuple[float, float]
MOST_TABLES = 3_000  # tables of which Fisher's p-values are computed
UNWEIGHTED_P = "p-values do not take the design of a weighted survey into account"


@dataclass(frozen=True)
class TestFinding:
    """What a test found: value and interval, and the same for p."""

    value: float
    ends: Ends
    p_value: float = math.nan
    p_ends: Ends = (0.0, 1.0)


@dataclass(frozen=True)
class Test(Statistic):
    """A test or measure of two columns."""

    __test__ = False  # not a test of pytest
    is_characteristic = False
    parts_share_records = False
    word = ""
    sign = ", "

    first: str
    second: str
    condition: Condition = ALWAYS

    def __post_init__(self) -> None:
        if self.first == self.second:
            raise StatisticError(f"{self} must name two different columns.")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.first, self.second, *self.condition.columns)))

    def covers(self, unseen: Unseen) -> bool:
        return False

    def given(self, condition: Condition) -> Statistic:
        return replace(self, condition=self.condition.joined(condition))

    @abstractmethod
    def examine(self, table: CountedBoxes, deadline: Deadline) -> TestFinding:
        """Compute the value, its interval and the p-values."""

    def estimate_in(self, table: CountedBoxes, deadline: Deadline) -> Estimate:
        plain = replace(table, calendars={}, unseen=None)
        rows = plain.rows_meeting(plain.clauses([], self._complete))
        found = compute_in_groups(self, lambda: self.examine(plain, deadline))
        value, p_value = float(found.value), float(found.p_value)
        slack = 1e-10 * (1.0 + abs(value)) if math.isfinite(value) else 0.0
        return TestEstimate(
            name=str(self),
            value=value,
            low=max(_least(found.ends[0] - slack, value), 0.0 if found.ends[0] >= 0.0 else -math.inf),
            high=-_least(-found.ends[1] - slack, -value),
            inner_low=value,
            inner_high=value,
            linear_low=math.nan,
            linear_high=math.nan,
            records=int(rows.least.sum()),
            uncertain_records=int(rows.most.sum() - rows.least.sum()),
            weighted_by=table.weighted_by,
            ended_early=deadline.ended_early,
            notes=(UNWEIGHTED_P,) if table.weighted_by else (),
            p_value=p_value,
            p_low=max(_least(found.p_ends[0] * (1.0 - 1e-9), p_value), 0.0),
            p_high=min(-_least(-found.p_ends[1] * (1.0 + 1e-9), -p_value), 1.0),
        )

    @property
    def _complete(self) -> Condition:
        """The condition that a record has both values."""
        return self.condition.joined(*(Condition((Predicate(name, "!=", None),)) for name in (self.first, self.second)))

    def __str__(self) -> str:
        where = f" | {self.condition}" if self.condition.predicates else ""
        return f"{self.word}({quote(self.first)}{self.sign}{quote(self.second)}{where})"


def _least(one: float, other: float) -> float:
    return one if math.isnan(other) else min(one, other)


def _magnitudes(ends: Ends) -> Ends:
    """Return the smallest and the largest magnitude in an interval."""
    return max(ends[0], -ends[1], 0.0), max(abs(ends[0]), abs(ends[1]))


@dataclass(frozen=True)
class _Group:
    """A group: its records, and the size, mean and variance (divided by n) of a column in it."""

    where: Condition
    count: Estimate
    mean: Estimate
    spread: Estimate

    @property
    def size(self) -> Ends:
        return float(self.count.low), float(self.count.high)

    @property
    def squared_error(self) -> tuple[float, float, float]:
        """s²/n = σ²/(n − 1): its limits and its likely value."""
        least, most = self.size
        likely = float(self.count.value)
        guess = float(self.spread.value) / (likely - 1.0) if likely > 1.0 else math.nan
        if least <= 1.0:
            return 0.0, math.inf, guess
        return max(self.spread.low, 0.0) / (most - 1.0), self.spread.high / (least - 1.0), guess


class GroupTest(Test):
    """A test of a numeric column in the groups of another."""

    sign = " ~ "

    def levels(self, table: CountedBoxes) -> list[Condition]:
        """Return the conditions of the groups that may have records."""
        conditions = [self.condition.joined(is_value((self.second,), (one,))) for one in table.levels(self.second)]
        complete = [one.joined(Condition((Predicate(self.first, "!=", None),))) for one in conditions]
        met = [table.rows_meeting(table.clauses([], one)).most.sum() for one in complete]
        return [one for one, rows in zip(conditions, met, strict=True) if rows > 0.0]

    def two_levels(self, table: CountedBoxes) -> list[Condition]:
        """Return the conditions of two groups."""
        levels = self.levels(table)
        if len(levels) != 2:
            raise StatisticError(f"{self} needs two groups.", found=f"{len(levels)}", fix="anova(y ~ g) for more")
        return levels

    def groups(self, table: CountedBoxes, levels: Sequence[Condition], deadline: Deadline) -> list[_Group]:
        """Return size, mean and variance of each group."""
        found = []
        for where in levels:
            mean, spread = (
                ConditionalStatistic(one, where).estimate_in(table, deadline)
                for one in (Mean(self.first), Variance(self.first))
            )
            counted = Count(where.joined(Condition((Predicate(self.first, "!=", None),))))
            found.append(_Group(where, counted.estimate_in(table, deadline), mean, spread))
        return found


class WelchTest(GroupTest):
    """Welch's t test of the means of two groups: the second group minus the first."""

    word = "ttest"

    def examine(self, table: CountedBoxes, deadline: Deadline) -> TestFinding:
        groups = self.groups(table, self.two_levels(table), deadline)
        means = [ConditionalStatistic(Mean(self.first), group.where) for group in groups]
        difference = Difference(means[1], means[0]).estimate_in(table, deadline)
        errors, sizes = [group.squared_error for group in groups], [group.size for group in groups]
        low, high, error = (math.sqrt(sum(one[end] for one in errors)) for end in range(3))
        ends = -_quotient(-difference.low, low, high), _quotient(difference.high, low, high)
        value = float(difference.value) / error if error > 0.0 else math.nan
        nearest, farthest = _magnitudes(ends)
        fewest, most = _welch_freedom(errors, sizes)
        likely = [float(group.count.value) - 1.0 for group in groups]
        freedom = (
            error**4 / sum(one[2] ** 2 / n for one, n in zip(errors, likely, strict=True)) if error > 0.0 else math.nan
        )
        p_ends = 2.0 * float(stats.t.sf(farthest, most)), 2.0 * float(stats.t.sf(nearest, fewest))
        return TestFinding(value, ends, 2.0 * float(stats.t.sf(abs(value), freedom)), p_ends)


def _quotient(number: float, least: float, most: float) -> float:
    """Return the largest quotient with a divisor between two limits that are not negative."""
    divisor = least if number > 0.0 else most
    return number / divisor if divisor > 0.0 else math.inf if number > 0.0 else 0.0


def _welch_freedom(errors: Sequence[tuple[float, float, float]], sizes: Sequence[Ends]) -> Ends:
    """Return limits of 1 / (q²/(m − 1) + (1 − q)²/(n − 1)) over the possible shares q of the first squared error."""
    fewest, most = max(min(one[0] for one in sizes) - 1.0, 1e-9), max(sum(one[1] for one in sizes) - 2.0, 1e-9)
    (a, big_a, _), (b, big_b, _) = errors
    if min(one[0] for one in sizes) <= 1.0 or a + big_b <= 0.0 or big_a + b <= 0.0 or math.isinf(big_a + big_b):
        return fewest, most
    shares = a / (a + big_b), big_a / (big_a + b)

    def inverse(share: float, end: int) -> float:
        return share**2 / (sizes[0][end] - 1.0) + (1.0 - share) ** 2 / (sizes[1][end] - 1.0)

    turning = (sizes[0][1] - 1.0) / (sizes[0][1] + sizes[1][1] - 2.0)
    best = inverse(min(max(turning, shares[0]), shares[1]), 1)
    worst = max(inverse(share, 0) for share in shares)
    return max(fewest, (1.0 - 1e-12) / worst), min(most, (1.0 + 1e-12) / best)


class Anova(GroupTest):
    """The F test that the means of all groups are equal."""

    word = "anova"

    def examine(self, table: CountedBoxes, deadline: Deadline) -> TestFinding:
        groups = self.groups(table, self.levels(table), deadline)
        between = len(groups) - 1
        if between < 1:
            raise StatisticError(f"{self} needs at least two groups.", found=f"{len(groups)}")
        present = self.condition.joined(Condition((Predicate(self.second, "!=", None),)))
        whole = ConditionalStatistic(Mean(self.first), present).estimate_in(table, deadline)
        explained, within = np.zeros(3), np.zeros(3)
        for group in groups:
            gap = _magnitudes((group.mean.low - whole.high, group.mean.high - whole.low))
            sizes = np.array([*group.size, float(group.count.value)])
            explained += sizes * np.square([*gap, float(group.mean.value) - float(whole.value)])
            within += sizes * [max(group.spread.low, 0.0), group.spread.high, float(group.spread.value)]
        rest = np.maximum([sum(group.size[end] for group in groups) - between - 1.0 for end in range(2)], 1e-9)
        total = sum(float(group.count.value) for group in groups) - between - 1.0
        ends = (
            _quotient(explained[0] * rest[0] / between, within[1], within[1]),
            _quotient(explained[1] * rest[1] / between, within[0], within[0]),
        )
        value = explained[2] / between / (within[2] / total) if within[2] > 0.0 and total > 0.0 else math.nan
        p_ends = (
            min(float(stats.f.sf(ends[1], between, one)) for one in rest),
            max(float(stats.f.sf(ends[0], between, one)) for one in rest),
        )
        return TestFinding(value, ends, float(stats.f.sf(value, between, total)), p_ends)


class MannWhitney(GroupTest):
    """The Mann–Whitney U test: how often a value of the second group exceeds one of the first, ties half."""

    word = "mannwhitney"

    def examine(self, table: CountedBoxes, deadline: Deadline) -> TestFinding:
        sides = [table.meeting([self.first], where) for where in self.two_levels(table)]
        found = UStatistic.of(sides[1], sides[0])
        p_ends = 2.0 * float(stats.norm.sf(found.z_ends[1])), 2.0 * float(stats.norm.sf(found.z_ends[0]))
        return TestFinding(found.value, found.ends, found.p_value, (p_ends[0], min(p_ends[1], 1.0)))


class CorrelationTest(Test):
    """A test of a correlation by Student's t."""

    def judge(self, found: Estimate, records: Ends) -> TestFinding:
        """Return the finding for an interval of a correlation."""
        nearest, farthest = _magnitudes((found.low, found.high))
        p_ends = _p_of_correlation(farthest, records[1]), _p_of_correlation(nearest, records[0])
        value = float(found.value)
        return TestFinding(value, (found.low, found.high), _p_of_correlation(abs(value), sum(records) / 2.0), p_ends)


def _p_of_correlation(r: float, records: float) -> float:
    if records < 3 or math.isnan(r):
        return 1.0
    return 0.0 if r >= 1.0 else 2.0 * float(stats.t.sf(r * math.sqrt((records - 2) / (1.0 - r * r)), records - 2))


class Spearman(CorrelationTest):
    """Spearman's rank correlation of two numeric columns; ties have the mean of their ranks."""

    word = "spearman"

    def examine(self, table: CountedBoxes, deadline: Deadline) -> TestFinding:
        boxes = table.meeting([self.first, self.second], self.condition)
        if not boxes.is_certain:
            is_constant = (boxes.midpoints == boxes.midpoints[:1]).all(axis=0).any()
            value = math.nan if is_constant else float(stats.spearmanr(*boxes.midpoints.T).statistic)
            return TestFinding(value, (-1.0, 1.0))
        ends = [rank_ends(boxes.low[:, k], boxes.high[:, k], boxes.weight) for k in range(2)]
        low, high = (np.column_stack([one[end] for one in ends]) for end in range(2))
        ranks = CountedBoxes.make(("a", "b"), low, high, count=boxes.parts, weight=boxes.weight)
        middle = [rank_ends(one, one, boxes.weight)[0] for one in boxes.midpoints.T]
        points = np.column_stack(middle)
        exact = CountedBoxes.make(("a", "b"), points, points, count=boxes.parts, weight=boxes.weight)
        found = Correlation("a", "b").estimate_in(ranks, deadline)
        value = Correlation("a", "b").estimate_in(exact, deadline).value
        return self.judge(replace(found, value=value), (boxes.records, boxes.records))


class Kendall(Test):
    """Kendall's rank correlation τ-b of two numeric columns."""

    word = "kendall"

    def examine(self, table: CountedBoxes, deadline: Deadline) -> TestFinding:
        boxes = table.meeting([self.first, self.second], self.condition)
        copies = np.repeat(boxes.midpoints, np.maximum(np.rint(boxes.likely_weight), 0.0).astype(int), axis=0)
        if len(copies) < 2:
            return TestFinding(math.nan, (-1.0, 1.0), math.nan)
        middle = stats.kendalltau(*copies.T)
        if not boxes.is_certain:
            return TestFinding(float(middle.statistic), (-1.0, 1.0), float(middle.pvalue))
        pairs, total = KendallPairs.of(boxes), float(boxes.weight.sum())
        if (boxes.low == boxes.high).all():
            return TestFinding(float(middle.statistic), pairs.ends, float(middle.pvalue), (float(middle.pvalue),) * 2)
        nearest, _ = _magnitudes((2.0 * pairs.concordant - pairs.pairs, pairs.pairs - 2.0 * pairs.discordant))
        error = math.sqrt(total * (total - 1.0) * (2.0 * total + 5.0) / 18.0)  # the largest: without ties
        return TestFinding(
            float(middle.statistic),
            pairs.ends,
            float(middle.pvalue),
            (0.0, 2.0 * float(stats.norm.sf(nearest / error))),
        )


class RSquared(CorrelationTest):
    """The share of the variance of the first column that a linear regression on the second explains."""

    word = "rsquared"
    sign = " ~ "

    def examine(self, table: CountedBoxes, deadline: Deadline) -> TestFinding:
        inner = (
            Correlation(self.second, self.first).given(self.condition)
            if self.condition.predicates
            else Correlation(self.second, self.first)
        )
        found = inner.estimate_in(table, deadline)
        judged = self.judge(found, (found.records, found.records + found.uncertain_records))
        nearest, farthest = _magnitudes(judged.ends)
        return replace(judged, value=judged.value**2, ends=(nearest**2, farthest**2))


class TableTest(Test):
    """A test or measure of the table of two columns."""

    def table(self, table: CountedBoxes) -> UncertainTable:
        """Return the counts of all combinations."""
        sides = [[is_value((name,), (level,)) for level in table.levels(name)] for name in (self.first, self.second)]
        if min(map(len, sides)) < 2:
            raise StatisticError(f"{self} needs at least two values in each column.")
        return UncertainTable.of(table, sides, self.condition)

    def two_by_two(self, table: CountedBoxes) -> UncertainTable:
        """Return the counts of two columns with two values each."""
        counted = self.table(table)
        if counted.shape != (2, 2):
            raise StatisticError(
                f"{self} needs two columns with two values each.", found=" × ".join(map(str, counted.shape))
            )
        return counted


def _chi_square(counted: UncertainTable) -> TestFinding:
    """Return the finding of Pearson's χ² without a correction."""
    likely = counted.likely.reshape(counted.shape)
    freedom = (counted.shape[0] - 1) * (counted.shape[1] - 1)
    value = chi_square(likely)
    ends = (value, value) if counted.is_certain else counted.bound(likely)
    p_ends = float(stats.chi2.sf(ends[1], freedom)), float(stats.chi2.sf(ends[0], freedom))
    return TestFinding(value, ends, float(stats.chi2.sf(value, freedom)), p_ends)


class ChiSquare(TableTest):
    """Pearson's χ² test of independence, without a correction for continuity."""

    word = "chi2"

    def examine(self, table: CountedBoxes, deadline: Deadline) -> TestFinding:
        return _chi_square(self.table(table))


class OddsRatio(TableTest):
    """The odds ratio of two columns with two values each, ad / (bc); p is that of χ²."""

    word = "oddsratio"

    def examine(self, table: CountedBoxes, deadline: Deadline) -> TestFinding:
        counted = self.two_by_two(table)
        a, b, c, d = counted.likely
        return replace(_chi_square(counted), value=a * d / (b * c) if b * c else math.inf, ends=counted.odds_ratio())


class RelativeRisk(TableTest):
    """The share with the second value of the second column, for the second value of the first over the first."""

    word = "relativerisk"

    def examine(self, table: CountedBoxes, deadline: Deadline) -> TestFinding:
        counted = self.two_by_two(table)
        low, high = (is_value((self.first,), (level,)) for level in table.levels(self.first))
        outcome = ShareMeeting(is_value((self.second,), (table.levels(self.second)[1],)))
        known = self._complete
        found = Ratio(outcome.given(high.joined(known)), outcome.given(low.joined(known))).estimate_in(table, deadline)
        return replace(_chi_square(counted), value=found.value, ends=(found.low, found.high))


class Fisher(TableTest):
    """Fisher's exact test of a table of two by two; its value is the odds ratio."""

    word = "fisher"

    def examine(self, table: CountedBoxes, deadline: Deadline) -> TestFinding:
        counted = self.two_by_two(table)
        a, b, c, d = np.rint(counted.likely)
        p = float(stats.fisher_exact([[a, b], [c, d]]).pvalue)
        tables = counted.whole_tables(MOST_TABLES)
        found = [float(stats.fisher_exact(one).pvalue) for one in tables] if tables else [0.0, 1.0]
        value = a * d / (b * c) if b * c else math.inf
        return TestFinding(value, counted.odds_ratio(), p, (min(found), max(found)))


TESTS: dict[str, type[Test]] = {
    **dict.fromkeys(("ttest", "welch"), WelchTest),
    "anova": Anova,
    **dict.fromkeys(("mannwhitney", "wilcoxon"), MannWhitney),
    "spearman": Spearman,
    "kendall": Kendall,
    **dict.fromkeys(("rsquared", "r2"), RSquared),
    **dict.fromkeys(("chi2", "chisquare"), ChiSquare),
    **dict.fromkeys(("oddsratio", "odds_ratio"), OddsRatio),
    **dict.fromkeys(("relativerisk", "relative_risk", "riskratio"), RelativeRisk),
    "fisher": Fisher,
}
