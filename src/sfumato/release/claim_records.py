"""Claims as data in a manifest, so that whoever has the released rows can recount them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any

from sfumato.errors import ReadError
from sfumato.methods.claims import (
    AtMostNames,
    AtMostValues,
    Claim,
    ColumnsAllowed,
    Diversity,
    EachColumnAnonymous,
    EntropyDiversity,
    KAnonymity,
    Pseudonyms,
    RecursiveDiversity,
    RiskAtMost,
    SampledPrivacy,
    TCloseness,
)
from sfumato.release.plain_values import Plain, plain

# claims whose parameters are plain and show no cell → the module that defines them
RECORDED = {
    kind.__name__: kind.__module__
    for kind in (
        KAnonymity,
        Diversity,
        EachColumnAnonymous,
        AtMostValues,
        AtMostNames,
        EntropyDiversity,
        RecursiveDiversity,
        TCloseness,
        RiskAtMost,
        SampledPrivacy,
        ColumnsAllowed,
        Pseudonyms,
    )
} | {"ProbabilisticAnonymity": "sfumato.methods.probabilistic.population_anonymity"}


@dataclass(frozen=True, kw_only=True)
class ClaimRecord:
    """A claim as data: the name of its class, and its parameters if it is one of ``RECORDED``."""

    name: str
    parameters: Mapping[str, Plain] | None

    @classmethod
    def of(cls, claim: Claim[Any]) -> ClaimRecord:
        """Record a claim."""
        name = type(claim).__name__
        if name not in RECORDED or not is_dataclass(claim):
            return cls(name=name, parameters=None)
        return cls(name=name, parameters={one.name: plain(getattr(claim, one.name)) for one in fields(claim)})

    @property
    def is_recounted(self) -> bool:
        """Whether the promise is recounted by whoever reads the release: it is known, and the rows can show it."""
        try:
            claim = self.to_claim()
        except ReadError:  # a manifest that is read without being verified
            return False
        return claim is not None and not claim.needs_original

    def to_claim(self) -> Claim[Any] | None:
        """Return the claim, or None if its parameters are not recorded."""
        if self.name not in RECORDED:
            return None
        kind = getattr(import_module(RECORDED[self.name]), self.name)
        try:
            claim: Claim[Any] = kind(**{name: _frozen(value) for name, value in dict(self.parameters or {}).items()})
        except (TypeError, ValueError):
            pass
        else:
            return claim
        raise ReadError(
            "A promise in the manifest must have the parameters of its kind.",
            found=f"others for {self.name}",
            fix="get a new copy of the release",
        )


def _frozen(value: Any) -> Any:
    """Return the parameter of a claim from its record: tuples for lists, at all levels."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return {name: _frozen(item) for name, item in value.items()} if isinstance(value, dict) else value
