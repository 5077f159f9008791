"""Statistics of a release of synthetic tables, combined into one, with standard errors that include the synthesis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.errors import OptionError, RequestError, StatisticError
from sfumato.params import require_choice
from sfumato.statistics.language import parse
from sfumato.statistics.moments import Moments, sampling_constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.release import Release
    from sfumato.statistics.statistic import Statistic


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


def combine(name: str, values: Sequence[float], variances: Sequence[float], rule: Rule) -> CombinedEstimate:
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
    reach = _quantile(degrees) * error
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


def _quantile(degrees: float) -> float:
    from scipy.stats import norm, t

    upper = (1.0 + CONFIDENCE) / 2.0
    return float(norm.ppf(upper) if math.isinf(degrees) else t.ppf(upper, max(degrees, 1.0)))


SYNTHESIS = "synthesize"  # name of the method
IMPUTATION = "imputation"  # column that numbers the synthetic tables


def combined_estimate(release: Release, statistic: str | Statistic, *, rule: Rule | None = None) -> CombinedEstimate:
    """Estimate one statistic of the population from the synthetic tables of a release.

    The statistic is computed in each synthetic table, with its sampling variance, and the results are combined. The
    error includes that of the original sample and that of the synthesis, but not that of a wrong model: nothing is
    guaranteed. Rows are not weighted.

    Parameters
    ----------
    release : Release
        A release by :class:`sfumato.Synthesize`.
    statistic : str or Statistic
        A mean, variance, sd, covariance, correlation or regression coefficient, such as ``"corr(age, income)"`` or
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
    several = int(str(manifest.notes.get("imputations", 1))) > 1
    chosen: Rule = rule or (("full" if manifest.notes.get("proper") else "partial") if several else "simple")
    points = release.table.matrix(wanted.columns)
    tables = _split_tables(release.table.numbers(IMPUTATION), points) if several else [points]
    values, variances = zip(*(_compute_with_variance(wanted, one) for one in tables), strict=True)
    return combine(str(wanted), values, variances, chosen)


def _split_tables(labels: NDArray[np.float64], points: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    return [points[labels == label] for label in np.unique(labels)]


def _compute_with_variance(statistic: Statistic, points: NDArray[np.float64]) -> tuple[float, float]:
    """Return the statistic of one table and its sampling variance A²/n, from the influence of each row."""
    moments = Moments.of(points)
    return statistic.value(moments), sampling_constant(statistic, points) ** 2 / max(1, moments.records)
