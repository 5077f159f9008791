"""All measures by name. A new measure is one new file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.release.assessment import Score

Need = Literal["reference", "origin", "boxes", "pairs"]

REASONS: dict[Need, str] = {
    "reference": "needs a reference: people of the same population who are not in the table",
    "origin": "needs the original row of each released row, which only release_and_assess knows",
    "boxes": "the release has no boxes",
    "pairs": "needs the released rows of the sampled people, which only release_and_assess knows",
}


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Where a measure is defined, and what it needs."""

    module: str  # imported on first use, so that listing the measures is fast
    function: str
    needs: Need | None = None
    tests: bool = False  # whether it has a test, which a release passes or fails
    in_samples: bool = False  # whether separate samples of original and release will do, as for means

    def __call__(self, subject: MeasuredRelease) -> Iterator[Score]:
        """Return the scores of a release."""
        measure: Callable[[MeasuredRelease], Iterator[Score]] = getattr(
            import_module(f"sfumato.measures.{self.module}"), self.function
        )
        return measure(subject)


MEASURES: dict[str, Measure] = {
    "copies": Measure(module="privacy.copies", function="copy_scores", tests=True, in_samples=True),
    "prediction": Measure(module="privacy.prediction", function="prediction_scores"),
    "reference": Measure(module="privacy.reference", function="reference_scores", tests=True),
    "boxes": Measure(module="privacy.boxes", function="box_scores", needs="boxes"),
    "linkage": Measure(module="privacy.linkage", function="linkage_scores", needs="origin"),
    "fellegi-sunter": Measure(
        module="privacy.attacks.fellegi_sunter", function="fellegi_sunter_scores", needs="origin"
    ),
    "suppression": Measure(module="privacy.attacks.suppression", function="suppression_scores", needs="origin"),
    "downcoding": Measure(module="privacy.attacks.downcoding", function="downcoding_scores", needs="origin"),
    "membership": Measure(
        module="privacy.attacks.membership", function="membership_scores", needs="reference", tests=True
    ),
    "inference": Measure(
        module="privacy.attacks.inference", function="inference_scores", needs="reference", tests=True
    ),
    "linkability": Measure(
        module="privacy.attacks.linkability", function="linkability_scores", needs="reference", tests=True
    ),
    "singling-out": Measure(
        module="privacy.attacks.singling_out", function="singling_out_scores", needs="reference", tests=True
    ),
    "noise-stripping": Measure(
        module="privacy.attacks.noise_stripping", function="noise_stripping_scores", needs="origin"
    ),
    "moments": Measure(module="utility.moments", function="moment_scores", in_samples=True),
    "marginals": Measure(module="utility.marginals", function="marginal_scores", in_samples=True),
    "losses": Measure(module="utility.losses", function="loss_scores"),
    "propensity": Measure(module="utility.propensity", function="propensity_scores", in_samples=True),
    "models": Measure(module="utility.model_comparison", function="model_scores", in_samples=True),
    "kernel-components": Measure(
        module="utility.kernel_components", function="component_scores", tests=True, in_samples=True
    ),
}
