"""Statistics of columns with noise, recovered from what the manifest reports about the noise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.params import is_finite
from sfumato.statistics.noise_recovery import AdditiveNoise, recover
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.release.manifest import Manifest
    from sfumato.statistics.recovered_estimate import RecoveredEstimate
    from sfumato.statistics.statistic import Statistic
    from sfumato.table.table import Table


def recover_estimates(table: Table, manifest: Manifest, wanted: Statistic) -> tuple[RecoveredEstimate, ...] | None:
    """Return the estimates of a statistic, or None if the manifest does not report noise in all of its columns."""
    noise, notes = read_noise(manifest), manifest.notes
    known = set(_names(notes.get("recoverable"))) & set(manifest.altered)
    if noise is None or not wanted.is_characteristic or not set(wanted.columns) <= known:
        return None
    columns = table.select(wanted.columns)
    rounded = np.array([table.kinds[name] is Kind.WHOLE for name in wanted.columns])
    estimates = recover(wanted.parts(), columns.matrix(wanted.columns), noise, rounded)
    limited = [name for name in wanted.columns if name in _names(notes.get("limited"))]
    if not limited:
        return estimates
    note = f"numbers of {', '.join(limited)} were clipped to a range, so that the value is not exact on average"
    return tuple(replace(one, notes=(*one.notes, note)) for one in estimates)


def read_noise(manifest: Manifest) -> AdditiveNoise | None:
    """Return the noise that a manifest reports, or None if there is none."""
    level = manifest.notes.get("noise level")
    if isinstance(level, bool) or not isinstance(level, int | float) or not is_finite(level) or level <= 0.0:
        return None
    return AdditiveNoise(
        level=float(level),
        correlated=manifest.notes.get("correlated") is True,
        corrected=manifest.notes.get("corrected") is True,
    )


def _names(listed: object) -> tuple[str, ...]:
    return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()
