"""Promises that a method makes, each of which is recounted on the released rows, in one block or in many."""

from __future__ import annotations

from sfumato.plan.claims.containment import AtMostNames, Containment
from sfumato.plan.claims.copies import FewRowsUnaltered
from sfumato.plan.claims.each_column import AtMostValues, EachColumnAnonymous
from sfumato.plan.claims.groups import Diversity, KAnonymity, values_apart, values_distinct
from sfumato.plan.claims.kept_statistics import (
    CorrelationsKept,
    MarginalsKept,
    MomentsKept,
    ProbabilitiesAddUp,
    SubsetMeansKept,
    WeightTotalsKept,
)
from sfumato.plan.claims.risk import KMap, PopulationGroups, RiskAtMost, SampledPrivacy, rows_for_risk
from sfumato.plan.claims.rows import ColumnsAllowed, DatesShifted, Pseudonyms, RowsAccountedFor, ValidCells
from sfumato.plan.claims.sensitive import DeclaredCloseness, EntropyDiversity, RecursiveDiversity, TCloseness
from sfumato.plan.plan import Claim, ClaimKind, Evidence, Finding

__all__ = [
    "AtMostNames",
    "AtMostValues",
    "Claim",
    "ClaimKind",
    "ColumnsAllowed",
    "Containment",
    "CorrelationsKept",
    "DatesShifted",
    "DeclaredCloseness",
    "Diversity",
    "EachColumnAnonymous",
    "EntropyDiversity",
    "Evidence",
    "FewRowsUnaltered",
    "Finding",
    "KAnonymity",
    "KMap",
    "MarginalsKept",
    "MomentsKept",
    "PopulationGroups",
    "ProbabilitiesAddUp",
    "Pseudonyms",
    "RecursiveDiversity",
    "RiskAtMost",
    "RowsAccountedFor",
    "SampledPrivacy",
    "SubsetMeansKept",
    "TCloseness",
    "ValidCells",
    "WeightTotalsKept",
    "rows_for_risk",
    "values_apart",
    "values_distinct",
]
