"""Promises that a method makes, each of which is recounted on the released rows, in one block or in many."""

from __future__ import annotations

from sfumato.methods.claims.base import Claim, ClaimKind, Evidence, Finding
from sfumato.methods.claims.contents import Containment
from sfumato.methods.claims.copies import NoUniqueRowCopied
from sfumato.methods.claims.groups import (
    AtMostValues,
    Diversity,
    EachColumnAnonymous,
    KAnonymity,
    values_apart,
    values_distinct,
)
from sfumato.methods.claims.marginals import MarginalsKept
from sfumato.methods.claims.moments import MomentsKept
from sfumato.methods.claims.pseudonyms import DatesShifted, Pseudonyms
from sfumato.methods.claims.risk import KMap, PopulationGroups, RiskAtMost, rows_for_risk
from sfumato.methods.claims.rows import ColumnsAllowed, RowsAccountedFor, ValidCells
from sfumato.methods.claims.sampling import SampledPrivacy
from sfumato.methods.claims.sensitive import DeclaredCloseness, EntropyDiversity, RecursiveDiversity, TCloseness
from sfumato.methods.claims.sets import AtMostNames
from sfumato.methods.claims.unaltered import FewRowsUnaltered
from sfumato.methods.claims.weights import WeightTotalsKept

__all__ = [
    "AtMostNames",
    "AtMostValues",
    "Claim",
    "ClaimKind",
    "ColumnsAllowed",
    "Containment",
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
    "NoUniqueRowCopied",
    "PopulationGroups",
    "Pseudonyms",
    "RecursiveDiversity",
    "RiskAtMost",
    "RowsAccountedFor",
    "SampledPrivacy",
    "TCloseness",
    "ValidCells",
    "WeightTotalsKept",
    "rows_for_risk",
    "values_apart",
    "values_distinct",
]
