"""Anonymize tables of people so that the statistics people will compute stay accurate, and prove both.

``sfumato.__all__`` is the public face, and what is not in it may change. Each name is imported when it is first used,
so that ``import sfumato`` costs nothing. ``make generated`` writes the names for type checkers (``__init__.pyi``) and
for the reference (``docs/reference/api.rst``).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sfumato.version import __version__ as __version__

# The public face: what is not named here, and is no method, is private. Each heading of the reference, with its names
# and the modules that define them; the classes of methods are those of the registry.
FACE: dict[str, dict[str, str]] = {
    "Read tables": {
        "read": "sfumato.sources.files",
        "Table": "sfumato.table.table",
        "Schema": "sfumato.schema.schema",
        "LinkedTables": "sfumato.job.linked",
        "Database": "sfumato.sources.database",
        "histories": "sfumato.methods.spectral.histories",
    },
    "Risk of a table as it is": {
        "uniqueness": "sfumato.job.inspect",
        "quasi_identifiers": "sfumato.job.inspect",
        "sketched_quasi_identifiers": "sfumato.risk.from_survey",
        "anonymity_budget": "sfumato.risk.anonymity_budget",
        "privacy_utility_curve": "sfumato.methods.quantiles",
        "group_models": "sfumato.risk.group_models",
        "GroupModels": "sfumato.risk.group_models",
        "population_uniqueness": "sfumato.risk.population",
        "individual_risk": "sfumato.risk.individual",
        "special_uniques": "sfumato.risk.individual",
    },
    "Methods": {},
    "Releases and statistics": {
        "Release": "sfumato.release.release",
        "read_release": "sfumato.release.read",
        "EvidencePack": "sfumato.report.evidence",
        "LinkedRelease": "sfumato.release.linked",
        "Estimate": "sfumato.statistics.estimate",
        "RegressionEstimate": "sfumato.statistics.estimate_records",
        "GroupedEstimate": "sfumato.statistics.estimate_records",
        "TableEstimate": "sfumato.statistics.estimate_records",
        "TestEstimate": "sfumato.statistics.estimate_records",
        "Fit": "sfumato.statistics.model_fit",
        "FittedCoefficient": "sfumato.statistics.estimate_records",
        "RecoveredEstimate": "sfumato.statistics.estimate",
        "CombinedEstimate": "sfumato.release.synthetic",
        "combined_estimate": "sfumato.release.synthetic",
        "recover_distribution": "sfumato.release.noisy_distributions",
        "recover_moment": "sfumato.release.noisy_distributions",
        "recover_table": "sfumato.release.noisy_distributions",
        "RecoveredDistribution": "sfumato.release.noisy_distributions",
        "EstimateBudget": "sfumato.statistics.bounds.enclosure",
        "Mean": "sfumato.statistics.moment_statistics",
        "Variance": "sfumato.statistics.moment_statistics",
        "Sd": "sfumato.statistics.moment_statistics",
        "Covariance": "sfumato.statistics.moment_statistics",
        "Correlation": "sfumato.statistics.moment_statistics",
        "Regression": "sfumato.statistics.regression",
        "Custom": "sfumato.statistics.custom",
        "importances": "sfumato.statistics.importances",
        "Importances": "sfumato.statistics.importances",
    },
    "Assess, compare, recommend": {
        "assess": "sfumato.job.assess",
        "Assessment": "sfumato.release.assessment",
        "release_and_assess": "sfumato.job.release",
        "compose": "sfumato.release.composition",
        "Composition": "sfumato.release.composition",
        "joining_attack": "sfumato.measures.privacy.attacks.joining",
        "JoiningRisk": "sfumato.measures.privacy.attacks.joining",
        "AssessedRelease": "sfumato.job.release",
        "split_holdout": "sfumato.measures.assess",
        "compare": "sfumato.comparison.compare",
        "Comparison": "sfumato.comparison.records",
        "recommend": "sfumato.recommendation.recommend",
        "improve": "sfumato.recommendation.improve",
        "Improvement": "sfumato.recommendation.improve",
        "Recommendation": "sfumato.recommendation.records",
    },
    "Engines and budgets": {
        "DuckDB": "sfumato.engines.duckdb.engine",
        "Spark": "sfumato.engines.spark.engine",
        "SearchBudget": "sfumato.methods.search_budget",
        "PrivacyBudget": "sfumato.release.privacy_budget",
    },
    "Errors": {
        "SfumatoError": "sfumato.errors",
        "SfumatoWarning": "sfumato.errors",
    },
}


def headings() -> dict[str, dict[str, str]]:
    """Return the headings of the reference, with the public names below each and the modules that define them."""
    from sfumato.methods.base import BUILT_IN

    return FACE | {"Methods": {place.class_name: place.module for place in BUILT_IN.values()}}


def public_names() -> dict[str, str]:
    """Return all public names with the modules that define them."""
    return {name: module for names in headings().values() for name, module in names.items()}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return ["__version__", *public_names()]
    module = next((names[name] for names in FACE.values() if name in names), None)
    if module is None and not name.startswith("_"):
        module = public_names().get(name)
    if module is None:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted(["__version__", *public_names()])
