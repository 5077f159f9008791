"""Statistics of a release that contains synthetic tables, with standard errors that include the synthesis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import RequestError, StatisticError
from sfumato.statistics.combining import CombinedEstimate, Rule, combine
from sfumato.statistics.influence import sampling_constant
from sfumato.statistics.language import parse
from sfumato.statistics.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.release import Release
    from sfumato.statistics.statistic import Statistic

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
