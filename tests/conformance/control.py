"""Methods that break the contract, to show that the conformance tests can fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.methods.base import METHODS, Method, method_class
from sfumato.methods.matrix import MatrixMethod, MatrixPlan
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor
from sfumato.plan.plan import Outcome, Plan

IN_BASES = ("boxes", "mdav", "noise", "swap")  # methods that also work in a spectral basis
# every word of the registry as it is, and what another basis or kind makes of it; methods whose release is nothing but
# noise have a contract of their own (test_private_methods.py)
PRIVATE = [word for word in sorted(METHODS) if method_class(word).is_private]
CASES: dict[str, tuple[str, dict[str, object]]] = {word: (word, {}) for word in sorted(METHODS) if word not in PRIVATE}
CASES |= {f"{word} {basis}": (word, {"basis": basis}) for word in IN_BASES for basis in ("svd", "clusters")}
CASES |= {"swap ica": ("swap", {"basis": "ica"}), "noise density": ("noise", {"kind": "density"})}
CASES |= {
    "svd-swap forest": ("svd-swap", {"variant": "forest"}),
    "pica forest": ("pica", {"variant": "forest"}),
    "pica charts": ("pica", {"pieces": "charts"}),
    "svd-swap kernel": ("svd-swap", {"basis": "kernel"}),
    "svd-swap distribution": ("svd-swap", {"decoding": "distribution"}),
    "svd-swap branches": ("svd-swap", {"trees": "branches"}),
    "swap correlations": ("swap", {"correlations": 0.5}),
    "swap subset means": ("swap", {"subset_means": 0.5}),
    "synthesize unique rows": ("synthesize", {"rows": "unique"}),
    "synthesize keep": ("synthesize", {"kind": "max-entropy", "keep": ["mean(age)", "mean(age) by city"]}),
    "curves swap": ("curves", {"kind": "swap"}),
    "noise redraw": ("noise", {"redraw": 2}),
    "boxes diverse": ("boxes", {"diverse": "all"}),
    "recode close": ("recode", {"t": 0.3, "suppress": 0.1}),
}


@dataclass(frozen=True, kw_only=True)
class SwapNothing(MatrixMethod):
    """A swap with a window of 0: every value stays where it was."""

    name: ClassVar[str] = "swap-nothing"

    def plan(self, survey, schema, randomness):
        return SwapNothingPlan(self.setup(survey, schema, randomness))


@dataclass(frozen=True, repr=False)
class SwapNothingPlan(MatrixPlan):
    """Change nothing, and put numbers back as they were."""

    def perturb(self, matrix, number):
        return matrix

    def finalize(self, before, after, ranges, number):
        return before


@dataclass(frozen=True, kw_only=True)
class RouteByChance(Method):
    """A plan whose routes are another at each call, and which holds a list of what happened."""

    name: ClassVar[str] = "route-by-chance"

    def plan(self, survey, schema, randomness):
        return RouteByChancePlan(tuple(column.name for column in schema.columns))


@dataclass(frozen=True)
class RouteByChancePlan(Plan):
    """Random blocks, drawn anew each time."""

    names: tuple[str, ...]

    @property
    def claims(self):
        return (RowsAccountedFor(), ColumnsAllowed(names=self.names))

    @property
    def blocks(self):
        return 4

    def route(self, rows, keys):
        return np.random.default_rng().integers(4, size=rows.rows)

    def transform(self, block, number):
        return Outcome(block, np.arange(block.rows))
