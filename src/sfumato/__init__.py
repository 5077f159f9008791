"""Anonymize tables of people so that the statistics people will compute stay accurate, and prove both.

The public names, and nothing else. Each is imported when it is first used, so that ``import sfumato`` costs nothing.
Methods are found from their files; type checkers read all names in ``__init__.pyi``, which ``make generated`` writes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sfumato.version import __version__ as __version__

# name → the module that defines it; the classes of methods are not listed, because the registry finds them
NAMES = {
    "read": "sfumato.table.read",
    "Table": "sfumato.table.table",
    "Schema": "sfumato.schema.schema",
    "uniqueness": "sfumato.examination",
    "group_models": "sfumato.disclosure.group_models",
    "population_uniqueness": "sfumato.disclosure.population_uniqueness",
    "individual_risk": "sfumato.disclosure.individual_risk",
    "special_uniques": "sfumato.disclosure.special_uniques",
    "GroupModels": "sfumato.disclosure.group_model_records",
    "quasi_identifiers": "sfumato.examination",
    "sketched_quasi_identifiers": "sfumato.disclosure.sketched_search",
    "anonymity_budget": "sfumato.disclosure.anonymity_budget",
    "privacy_utility_curve": "sfumato.methods.probabilistic.curve",
    "SearchBudget": "sfumato.methods.search_budget",
    "assess": "sfumato.assessment",
    "Assessment": "sfumato.measures.assess",
    "split_holdout": "sfumato.measures.holdout",
    "release_and_assess": "sfumato.pipeline",
    "AssessedRelease": "sfumato.pipeline",
    "compare": "sfumato.comparison.compare",
    "Comparison": "sfumato.comparison.records",
    "recommend": "sfumato.recommendation.recommend",
    "Recommendation": "sfumato.recommendation.records",
    "Database": "sfumato.engines.database.database",
    "DuckDB": "sfumato.engines.duckdb.engine",
    "Spark": "sfumato.engines.spark.engine",
    "Release": "sfumato.release.release",
    "read_release": "sfumato.release.read",
    "combined_estimate": "sfumato.release.synthetic",
    "CombinedEstimate": "sfumato.statistics.combining",
    "EstimateBudget": "sfumato.statistics.bounds",
    "Estimate": "sfumato.statistics.estimate",
    "RegressionEstimate": "sfumato.statistics.estimate",
    "RecoveredEstimate": "sfumato.statistics.recovered_estimate",
    "Mean": "sfumato.statistics.moment_statistics",
    "Variance": "sfumato.statistics.moment_statistics",
    "Sd": "sfumato.statistics.moment_statistics",
    "Covariance": "sfumato.statistics.moment_statistics",
    "Correlation": "sfumato.statistics.moment_statistics",
    "Regression": "sfumato.statistics.regression",
    "SfumatoError": "sfumato.errors",
    "SfumatoWarning": "sfumato.errors",
}


def public_names() -> dict[str, str]:
    """All public names with the modules that define them: those above, and the methods."""
    from sfumato.methods.registry import METHODS

    return NAMES | {place.class_name: place.module for place in METHODS.values()}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return ["__version__", *public_names()]
    module = NAMES.get(name) or (None if name.startswith("_") else public_names().get(name))
    if module is None:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted(["__version__", *public_names()])
