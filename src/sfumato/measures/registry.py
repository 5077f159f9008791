"""All measures by name. A new measure is one new file and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
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


@dataclass(frozen=True)
class Measure:
    """Where a measure is defined, and what it needs."""

    module: str  # imported on first use, so that listing the measures is fast
    function: str
    _: KW_ONLY
    needs: Need | None = None
    tests: bool = False  # whether it has a test, which a release passes or fails
    in_samples: bool = False  # whether separate samples of original and release will do, as for means
    of_people: bool = False  # whether it looks at one row of each person; otherwise at all rows
    of_released_people: bool = False  # whether it needs one released row of each person, too
    by_products: bool = False  # whether products or distances of rows will do, so that no matrix of columns is needed
    by_knowledge: bool = False  # whether it is an attack by what is known of a person, which may be less precise

    def __call__(self, subject: MeasuredRelease) -> Iterator[Score]:
        """Return the scores of a release."""
        measure: Callable[[MeasuredRelease], Iterator[Score]] = getattr(
            import_module(f"sfumato.measures.{self.module}"), self.function
        )
        return measure(subject)


MEASURES: dict[str, Measure] = {
    "copies": Measure("privacy.copies", "copy_scores", tests=True, in_samples=True),
    "prediction": Measure("privacy.prediction", "prediction_scores", of_people=True, by_products=True),
    "reference": Measure(
        "privacy.reference",
        "reference_scores",
        tests=True,
        of_people=True,
        of_released_people=True,
        by_products=True,
    ),
    "boxes": Measure("privacy.boxes", "box_scores", needs="boxes"),
    "linkage": Measure(
        "privacy.linkage", "linkage_scores", needs="origin", of_people=True, by_products=True, by_knowledge=True
    ),
    "fellegi-sunter": Measure(
        "privacy.attacks.fellegi_sunter", "fellegi_sunter_scores", needs="origin", of_people=True, by_knowledge=True
    ),
    "suppression": Measure("privacy.attacks.suppression", "suppression_scores", needs="origin"),
    "downcoding": Measure("privacy.attacks.downcoding", "downcoding_scores", needs="origin"),
    "imputation": Measure("privacy.attacks.suppression", "imputation_scores", needs="origin"),
    "known-mechanism": Measure(
        "privacy.attacks.known_mechanism", "known_mechanism_scores", needs="origin", of_people=True
    ),
    "columnwise-groups": Measure(
        "privacy.attacks.columnwise_groups", "columnwise_scores", needs="origin", of_people=True
    ),
    "isolation": Measure(
        "privacy.attacks.isolation", "isolation_scores", needs="reference", tests=True, of_people=True
    ),
    "membership": Measure(
        "privacy.attacks.membership",
        "membership_scores",
        needs="reference",
        tests=True,
        of_people=True,
        by_products=True,
        by_knowledge=True,
    ),
    "inference": Measure(
        "privacy.attacks.anonymeter",
        "inference_scores",
        needs="reference",
        tests=True,
        of_people=True,
        by_knowledge=True,
    ),
    "linkability": Measure(
        "privacy.attacks.anonymeter",
        "linkability_scores",
        needs="reference",
        tests=True,
        of_people=True,
        by_knowledge=True,
    ),
    "singling-out": Measure(
        "privacy.attacks.anonymeter",
        "singling_out_scores",
        needs="reference",
        tests=True,
        of_people=True,
        by_knowledge=True,
    ),
    "noise-stripping": Measure("privacy.attacks.noise_stripping", "noise_stripping_scores", needs="origin"),
    "moments": Measure("utility.moments", "moment_scores", in_samples=True),
    "marginals": Measure("utility.moments", "marginal_scores", in_samples=True),
    "losses": Measure("utility.losses", "loss_scores"),
    "curves": Measure("utility.curves", "curve_scores"),
    "propensity": Measure("utility.model_comparison", "propensity_scores", in_samples=True),
    "models": Measure("utility.model_comparison", "model_scores", in_samples=True),
    "kernel-components": Measure(
        "utility.kernel_components", "component_scores", tests=True, in_samples=True, by_products=True
    ),
}
TESTS = tuple(name for name, measure in MEASURES.items() if measure.tests)  # what a release passes or fails
