"""Claims as data in a manifest, so that whoever has the released rows can recount them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.errors import ReadError
from sfumato.release.plain_values import Plain, plain

if TYPE_CHECKING:
    from sfumato.methods.claims import Claim

# claims whose parameters are plain and show no cell → the module that defines them
RECORDED = {
    "KAnonymity": "sfumato.methods.claims",
    "Diversity": "sfumato.methods.claims",
    "EachColumnAnonymous": "sfumato.methods.claims",
    "AtMostValues": "sfumato.methods.claims",
    "AtMostNames": "sfumato.methods.claims",
    "EntropyDiversity": "sfumato.methods.claims",
    "RecursiveDiversity": "sfumato.methods.claims",
    "TCloseness": "sfumato.methods.claims",
    "RiskAtMost": "sfumato.methods.claims",
    "SampledPrivacy": "sfumato.methods.claims",
    "ColumnsAllowed": "sfumato.methods.claims",
    "Pseudonyms": "sfumato.methods.claims",
    "ProbabilisticAnonymity": "sfumato.methods.probabilistic.population_anonymity",
}


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
            claim = self.rebuilt()
        except ReadError:  # a manifest that is read without being verified
            return False
        return claim is not None and not claim.needs_original

    def rebuilt(self) -> Claim[Any] | None:
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
