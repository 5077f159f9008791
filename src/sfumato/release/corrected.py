"""Estimates from altered columns: corrected where theory tells how, and what of them is certain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.combined import Combination
from sfumato.statistics.conditions import base_columns
from sfumato.statistics.estimate_records import FittedCoefficient
from sfumato.statistics.model_fit import Model
from sfumato.statistics.moment_statistics import Mean, Sd, Variance
from sfumato.statistics.moments import Moments
from sfumato.statistics.regression import Regression
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.tallies import Sum

if TYPE_CHECKING:
    from sfumato.release.manifest import Manifest
    from sfumato.statistics.estimate import Estimate, RecoveredEstimate
    from sfumato.table.table import Table


def correct(
    table: Table, manifest: Manifest, wanted: Statistic, confidence: float | None, weight: str | None
) -> tuple[RecoveredEstimate, ...] | tuple[FittedCoefficient, ...] | None:
    """Return corrected estimates of the parts of a statistic, or None if no theory gives them.

    ``weight`` is the column of sampling weights that the released rows have, if it is used.
    """
    altered = set(base_columns(wanted.columns)) & set(manifest.altered)
    noisy = manifest.notes.get("noise level") is not None
    if not altered or (weight in manifest.altered and weight is not None):
        return None
    if noisy and weight is None:
        from sfumato.release.noisy_columns import correct_noise

        return correct_noise(table, manifest, wanted, confidence)
    if manifest.method == "pram":
        from sfumato.release.changed_categories import correct_changes

        return correct_changes(table, manifest, wanted, confidence, weight)
    if manifest.method == "synthesize" and weight is None:
        from sfumato.release.synthetic import combine_tables

        return combine_tables(table, manifest, wanted, confidence)
    return None


# What is certain of altered columns: methods that exchange cells keep the values of each column, others its moments.

TOLERANCE = 4e-9  # of a kept mean in standard deviations, and of a kept covariance in products of them
ROUNDING = 4.0 * np.finfo(float).eps  # error of a mean of rounded numbers, relative to the largest
KEPT = "certain although the method altered {}: it kept {}"


def keep_certain(
    wanted: Statistic, estimates: Sequence[Estimate], table: Table, manifest: Manifest
) -> tuple[Estimate | None, ...]:
    """Return each estimate with the interval that the manifest makes certain; None if it makes nothing certain."""
    parts: Sequence[Statistic] = wanted.parts()
    if isinstance(wanted, Model):
        parts = _coefficients(wanted)
        if not set(wanted.columns) <= set(manifest.noted_names("moments kept")) or len(parts) != len(estimates):
            return (None,) * len(estimates)
    return tuple(_keep(part, one, table, manifest) for part, one in zip(parts, estimates, strict=True))


def _coefficients(model: Model) -> Sequence[Statistic]:
    """Return the coefficients as functions of moments; empty if the model is no plain linear regression."""
    names = [column[0][0].column for column in model.design[1:] if len(column) == 1 and column[0][1] is None]
    plain = model.family == "gaussian" and model.intercept and not model.weights and not model.offset
    if not plain or len(names) != len(model.design) - 1 or len({model.response, *names}) != len(names) + 1:
        return ()
    return Regression(model.response, tuple(names)).parts() if names else (Mean(model.response),)


def _keep(part: Statistic, one: Estimate, table: Table, manifest: Manifest) -> Estimate | None:
    columns = set(base_columns(part.columns))
    named = ", ".join(sorted(columns))
    exchanged = {*manifest.noted_names("swapped columns"), *manifest.noted_names("shuffled columns")}
    if _is_of_single_columns(part, exchanged, set(manifest.unaltered)):
        return replace(one, notes=(*one.notes, KEPT.format(named, "the values of each column")))
    function, factor = (Mean(part.column), float(one.records)) if isinstance(part, Sum) else (part, 1.0)
    if not function.is_characteristic or not set(function.columns) or not isinstance(one.value, float):
        return None
    moments = set(function.columns) <= set(manifest.noted_names("moments kept"))
    if not moments and not set(function.columns) <= set(manifest.noted_names("means kept")):
        return None
    error = factor * _error(function, one, table)
    if moments:
        known = isinstance(function, Mean) or isinstance(one, FittedCoefficient)  # whose errors follow from moments
        return _widen(one, error, KEPT.format(named, "means and covariances"), joined=known)
    if isinstance(function, Mean):
        return _widen(one, error, KEPT.format(named, "means"), joined=False)
    if not isinstance(function, Variance | Sd):
        return None
    note = f"certain only that it is not smaller, because {named} has the means of groups"
    least = max(_widen(one, error, note, joined=False).low, 0.0)
    return replace(one.withdrawn, low=least, notes=(*one.notes, note))


def _is_of_single_columns(part: Statistic, exchanged: set[str], unaltered: set[str]) -> bool:
    """Return whether a statistic is computed from single columns whose values are those of the original."""
    if isinstance(part, Combination):
        return all(_is_of_single_columns(one, exchanged, unaltered) for one in (part.first, part.second))
    columns = set(base_columns(part.columns))
    return columns <= unaltered or (len(columns) == 1 and columns <= exchanged)


def _error(function: Statistic, one: Estimate, table: Table) -> float:
    """Return how far a statistic can be from that of the original if its moments were kept up to rounding.

    The larger numbers are, the more of their spread is lost by rounding them.
    """
    numbers = table.matrix(function.columns)
    moments = Moments.of(numbers)
    unit = moments.sd + ROUNDING / TOLERANCE * np.nanmax(np.abs(numbers), axis=0, initial=0.0)
    gradient = function.gradient(moments)
    scale = float(np.abs(gradient.mean) @ unit + unit @ np.abs(gradient.covariance) @ unit)
    return TOLERANCE * (scale if scale > 0.0 else max(abs(float(one.value)), 1.0))


def _widen(one: Estimate, error: float, note: str, *, joined: bool) -> Estimate:
    """Return the estimate with this error as its interval, and without a joined one unless its error is known."""
    ends = {"confidence_low": one.confidence_low - error, "confidence_high": one.confidence_high + error}
    if not joined:
        ends = {"confidence_low": math.nan, "confidence_high": math.nan}
    by = one.confidence_by if joined else ""
    low, high = float(one.value) - error, float(one.value) + error
    return replace(one, low=low, high=high, confidence_by=by, notes=(*one.notes, note), **ends)
