"""Anonymize tables of people so that the statistics people will compute stay accurate, and prove both.

The public names, and nothing else. Each is imported when it is first used, so that ``import sfumato`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.version import __version__ as __version__

if TYPE_CHECKING:
    from sfumato.disclosure.anonymity_budget import anonymity_budget as anonymity_budget
    from sfumato.disclosure.quasi_identifiers import quasi_identifiers as quasi_identifiers
    from sfumato.disclosure.uniqueness import uniqueness as uniqueness
    from sfumato.errors import SfumatoError as SfumatoError
    from sfumato.measures.assess import Assessment as Assessment
    from sfumato.measures.assess import assess as assess
    from sfumato.measures.privacy.reference import set_aside as set_aside
    from sfumato.methods.boxes import Boxes as Boxes
    from sfumato.methods.boxes.search import Rounds as Rounds
    from sfumato.methods.boxes.search import Seconds as Seconds
    from sfumato.methods.classical.noise import Noise as Noise
    from sfumato.methods.probabilistic.curve import privacy_utility_curve as privacy_utility_curve
    from sfumato.methods.probabilistic.generalize import Generalize as Generalize
    from sfumato.methods.probabilistic.optimal_groups import OptimalGroups as OptimalGroups
    from sfumato.methods.probabilistic.quantiles import Quantiles as Quantiles
    from sfumato.methods.probabilistic.safe_harbor import SafeHarbor as SafeHarbor
    from sfumato.methods.spectral.histograms import RecursiveHistogram as RecursiveHistogram
    from sfumato.methods.spectral.histograms import SpectralHistogram as SpectralHistogram
    from sfumato.methods.spectral.pica import PartitionedIca as PartitionedIca
    from sfumato.methods.spectral.svd_swap import SvdSwap as SvdSwap
    from sfumato.pipeline import AssessedRelease as AssessedRelease
    from sfumato.pipeline import release_and_assess as release_and_assess
    from sfumato.release.read import read_release as read_release
    from sfumato.release.release import Release as Release
    from sfumato.schema.schema import Schema as Schema
    from sfumato.statistics.bounds import Budget as Budget
    from sfumato.statistics.estimate import Estimate as Estimate
    from sfumato.statistics.moment_statistics import Correlation as Correlation
    from sfumato.statistics.moment_statistics import Covariance as Covariance
    from sfumato.statistics.moment_statistics import Mean as Mean
    from sfumato.statistics.moment_statistics import Regression as Regression
    from sfumato.statistics.moment_statistics import Sd as Sd
    from sfumato.statistics.moment_statistics import Variance as Variance
    from sfumato.table.read import read as read
    from sfumato.table.table import Table as Table

# name → the module that defines it
NAMES = {
    "read": "sfumato.table.read",
    "Table": "sfumato.table.table",
    "Schema": "sfumato.schema.schema",
    "uniqueness": "sfumato.disclosure.uniqueness",
    "quasi_identifiers": "sfumato.disclosure.quasi_identifiers",
    "anonymity_budget": "sfumato.disclosure.anonymity_budget",
    "privacy_utility_curve": "sfumato.methods.probabilistic.curve",
    "Boxes": "sfumato.methods.boxes",
    "Seconds": "sfumato.methods.boxes.search",
    "Rounds": "sfumato.methods.boxes.search",
    "SafeHarbor": "sfumato.methods.probabilistic.safe_harbor",
    "Quantiles": "sfumato.methods.probabilistic.quantiles",
    "OptimalGroups": "sfumato.methods.probabilistic.optimal_groups",
    "Generalize": "sfumato.methods.probabilistic.generalize",
    "SvdSwap": "sfumato.methods.spectral.svd_swap",
    "RecursiveHistogram": "sfumato.methods.spectral.histograms",
    "SpectralHistogram": "sfumato.methods.spectral.histograms",
    "PartitionedIca": "sfumato.methods.spectral.pica",
    "Noise": "sfumato.methods.classical.noise",
    "assess": "sfumato.measures.assess",
    "Assessment": "sfumato.measures.assess",
    "set_aside": "sfumato.measures.privacy.reference",
    "release_and_assess": "sfumato.pipeline",
    "AssessedRelease": "sfumato.pipeline",
    "Release": "sfumato.release.release",
    "read_release": "sfumato.release.read",
    "Budget": "sfumato.statistics.bounds",
    "Estimate": "sfumato.statistics.estimate",
    "Mean": "sfumato.statistics.moment_statistics",
    "Variance": "sfumato.statistics.moment_statistics",
    "Sd": "sfumato.statistics.moment_statistics",
    "Covariance": "sfumato.statistics.moment_statistics",
    "Correlation": "sfumato.statistics.moment_statistics",
    "Regression": "sfumato.statistics.moment_statistics",
    "SfumatoError": "sfumato.errors",
}

__all__ = ["__version__", *NAMES]  # noqa: PLE0604 - names are words, listed once


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(NAMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
