"""Statistics of a release of synthetic tables, combined into one, with standard errors that include the synthesis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato.errors import OptionError, RequestError, StatisticError
from sfumato.params import require_choice
from sfumato.statistics.estimate import RecoveredEstimate
from sfumato.statistics.language import parse
from sfumato.statistics.model_fit import Model
from sfumato.statistics.point_rows import PointRows, corrected_coefficient, evaluate, fit_rows

if TYPE_CHECKING:
    from sfumato.release.manifest import Manifest
    from sfumato.release.rows import ReleasedFrames
    from sfumato.statistics.estimate_records import FittedCoefficient
    from sfumato.statistics.statistic import Statistic
    from sfumato.table.table import Table


Rule = Literal["partial", "full", "simple"]
RULES: tuple[Rule, ...] = ("partial", "full", "simple")
CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class CombinedEstimate:
    """One statistic from several synthetic tables. It is an estimate, and nothing is guaranteed.

    With q_i the statistic of table i and u_i its sampling variance, q̄ and ū their means and b the variance of the q_i,
    the variance of q̄ is (m tables, each as large as the original):

    ==========  ====================  ====================================================================
    rule        variance              holds for
    ==========  ====================  ====================================================================
    "partial"   ū + b/m               models with fitted parameters (Reiter, 2003); needs m ≥ 2
    "full"      (1 + 1/m) b − ū       parameters drawn for each table (Raghunathan et al., 2003); m ≥ 2
    "simple"    (1 + 1/m) ū           fitted parameters and all cells drawn (Raab et al., 2018); also m = 1
    ==========  ====================  ====================================================================

    Attributes
    ----------
    name : str
        The statistic, such as ``"mean(age)"``.
    value : float
        Mean of the statistic over the synthetic tables.
    standard_error : float
        Standard error of ``value`` about the statistic of the population.
    low, high : float
        95 % confidence interval of the statistic of the population, if the model is right.
    within : float
        Mean of the sampling variances of the tables (ū).
    between : float
        Variance of the statistic between the tables (b); NaN for a single table.
    degrees : float
        Degrees of freedom of the t distribution that gives the interval; infinite for the normal distribution.
    imputations : int
        Number of synthetic tables (m).
    rule : {"partial", "full", "simple"}
        Rule by which the variances were combined.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"x": np.random.default_rng(0).normal(size=400)}
    >>> release = sf.Synthesize(kind="copula").release(people, schema={"x": "quasi"}, seed=1)
    >>> found = sf.combined_estimate(release, "sd(x)")
    >>> bool(found.low < 1.0 < found.high), found.imputations
    (True, 1)
    """

    name: str
    value: float
    standard_error: float
    low: float
    high: float
    within: float
    between: float
    degrees: float
    imputations: int
    rule: Rule


def combine(
    name: str, values: Sequence[float], variances: Sequence[float], rule: Rule, confidence: float = CONFIDENCE
) -> CombinedEstimate:
    """Combine one value and one sampling variance per synthetic table.

    >>> estimate = combine("mean(x)", [1.0, 1.2, 1.4], [0.04, 0.04, 0.04], "partial")
    >>> round(estimate.value, 3), round(estimate.standard_error, 3)
    (1.2, 0.231)
    """
    require_choice(rule, name="rule", choices=RULES)
    count = len(values)
    if count < 2 and rule != "simple":
        raise OptionError(
            f'The rule "{rule}" needs at least two synthetic tables.',
            found=f"{count}",
            fix='a release with more imputations, or rule="simple"',
        )
    value, within = float(np.mean(values)), float(np.mean(variances))
    between = float(np.var(values, ddof=1)) if count > 1 else math.nan
    variance, degrees = _variance(rule, within, between, count)
    error = math.sqrt(variance)
    reach = _quantile(degrees, confidence) * error
    return CombinedEstimate(
        name=name,
        value=value,
        standard_error=error,
        low=value - reach,
        high=value + reach,
        within=within,
        between=between,
        degrees=degrees,
        imputations=count,
        rule=rule,
    )


def _variance(rule: Rule, within: float, between: float, count: int) -> tuple[float, float]:
    """Return the variance of the combined estimate and its degrees of freedom."""
    if rule == "simple":
        return (1.0 + 1.0 / count) * within, math.inf
    if between == 0.0:
        return within, math.inf
    if rule == "partial":
        return within + between / count, (count - 1) * (1.0 + count * within / between) ** 2
    variance = (1.0 + 1.0 / count) * between - within
    if variance <= 0.0:  # by chance; ū is on the safe side (Reiter, 2002)
        return within, math.inf
    return variance, (count - 1) * (1.0 - count * within / ((count + 1) * between)) ** 2


def _quantile(degrees: float, confidence: float) -> float:
    from scipy.stats import norm, t

    upper = (1.0 + confidence) / 2.0
    return float(norm.ppf(upper) if math.isinf(degrees) else t.ppf(upper, max(degrees, 1.0)))


SYNTHESIS = "synthesize"  # name of the method
IMPUTATION = "imputation"  # column that numbers the synthetic tables


def combined_estimate(
    release: ReleasedFrames, statistic: str | Statistic, *, rule: Rule | None = None
) -> CombinedEstimate:
    """Estimate one statistic of the population from the synthetic tables of a release.

    The statistic is computed in each synthetic table, with its sampling variance, and the results are combined. The
    error includes that of the original sample and that of the synthesis, but not that of a wrong model: nothing is
    guaranteed. Rows are not weighted.

    Parameters
    ----------
    release : Release
        A release by :class:`sfumato.Synthesize`.
    statistic : str or Statistic
        A mean, sum, count, share, variance, sd, covariance, correlation, regression coefficient, odds ratio or relative
        risk, with or without a condition, or a difference or ratio of two of them, such as ``"corr(age, income)"`` or
        ``"regress(income ~ age): age"``.
    rule : {"partial", "full", "simple"}, optional
        Rule by which variances are combined: see :class:`sfumato.CombinedEstimate`. Default: the one that fits the
        release, which is "full" if it is proper, "partial" if it contains several tables, and otherwise "simple".

    Returns
    -------
    CombinedEstimate
        Value, standard error and 95 % confidence interval.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"x": np.random.default_rng(0).normal(size=400)}
    >>> method = sf.Synthesize(kind="copula", imputations=5)
    >>> release = method.release(people, schema={"x": "quasi"}, seed=1)
    >>> found = sf.combined_estimate(release, "mean(x)")
    >>> found.rule, found.imputations, bool(found.low < 0.0 < found.high)
    ('partial', 5, True)
    """
    manifest = release.manifest
    if manifest is None or manifest.method != SYNTHESIS:
        raise RequestError(
            "Only a release of synthetic tables can be combined.",
            found="no manifest" if manifest is None else f"a release by {manifest.method!r}",
            fix="use release.estimate",
        )
    wanted = parse(statistic, names=release.names)
    if len(wanted.parts()) > 1:
        raise StatisticError(
            "Only one number can be combined.",
            found=f"{len(wanted.parts())} coefficients",
            fix='name one, such as "regress(y ~ x): x"',
        )
    chosen = rule or _rule_of(manifest)
    found = _evaluate_all(wanted, _split(release.table, manifest, wanted))
    if found is None:
        raise StatisticError(f"The sampling error of {wanted} is not known.", fix=KNOWN_ERRORS)
    return combine(str(wanted), *found, chosen)


KNOWN_ERRORS = (
    "a mean, sum, count, share, variance, covariance, correlation, regression coefficient, odds ratio or relative "
    "risk, or a difference or ratio of two"
)


def _rule_of(manifest: Manifest) -> Rule:
    """Return the rule that fits a release.

    All cells are drawn, by models whose parameters are fitted once (Reiter's rule holds for them, too: Raab et al.) or,
    if the release is proper, drawn for each table (Raghunathan, Reiter and Rubin). If only some columns or rows are
    drawn, Reiter's rule holds in both cases.
    """
    if int(str(manifest.notes.get("imputations", 1))) < 2:
        return "simple"
    return "full" if manifest.notes.get("proper") and not manifest.notes.get("synthetic columns") else "partial"


def _split(table: Table, manifest: Manifest, wanted: Statistic) -> list[PointRows]:
    """Return the rows of each synthetic table."""
    numbers: Any = np.zeros(table.rows)
    if int(str(manifest.notes.get("imputations", 1))) > 1:
        numbers = table.numbers(IMPUTATION)
    places = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
    return [PointRows.of(table.take(own), wanted.columns, np.ones(len(own))) for own in places]


def _evaluate_all(part: Statistic, tables: Sequence[PointRows]) -> tuple[list[float], list[float]] | None:
    """Return the statistic of each table and its sampling variance, from the influence of each row."""
    found = [evaluate(part, one) for one in tables]
    values = [one.value for one in found if one is not None]
    return (
        (values, [float(one.influence @ one.influence) for one in found if one is not None])
        if len(values) == len(tables)
        else None
    )


def combine_tables(
    table: Table, manifest: Manifest, wanted: Statistic, confidence: float | None
) -> tuple[RecoveredEstimate, ...] | tuple[FittedCoefficient, ...] | None:
    """Return the estimates of the parts of a statistic, or of the coefficients of a model, from all tables."""
    tables, rule = _split(table, manifest, wanted), _rule_of(manifest)
    records = sum(len(one.weight) for one in tables)
    if isinstance(wanted, Model):
        fits = [fit_rows(wanted, one) for one in tables]
        values = np.array([one.values for one in fits])
        variances = np.array([(one.influence**2).sum(axis=0) for one in fits])
        note = f"an estimate, no guarantee: synthetic tables, combined by the rule {rule!r}"
        made = [
            combine(name, own.tolist(), spread.tolist(), rule, wanted.confidence)
            for name, own, spread in zip(wanted.terms, values.T, variances.T, strict=True)
        ]
        return tuple(
            corrected_coefficient(one.name, wanted, one.value, one.standard_error, records, (note,), _reach(one))
            for one in made
        )
    estimates = []
    for part in wanted.parts():
        found = _evaluate_all(part, tables)
        if found is None:
            return None
        one = combine(str(part), *found, rule, confidence or CONFIDENCE)
        estimates.append(_recovered(one, confidence, records))
    return tuple(estimates)


def _reach(one: CombinedEstimate) -> float:
    """Return the number of standard errors from the value to the ends of the interval."""
    return (one.high - one.value) / one.standard_error if one.standard_error > 0.0 else 0.0


def _recovered(one: CombinedEstimate, confidence: float | None, records: int) -> RecoveredEstimate:
    return RecoveredEstimate(
        name=one.name,
        value=one.value,
        standard_error=one.standard_error,
        released=one.value,
        records=records,
        of="population",
        notes=(f"{one.imputations} synthetic tables, combined by the rule {one.rule!r}",),
        confidence=confidence,
        confidence_low=one.low if confidence else math.nan,
        confidence_high=one.high if confidence else math.nan,
        error_of="the sample and the synthesis, if the model is right",
    )
