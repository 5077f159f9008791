"""What the law asks about a release, and what was found: every sentence names how it is counted again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.plan.claims.concentrated_privacy import MeasuredPrivacy
from sfumato.release.manifest import ClaimRecord
from sfumato.release.target import NUMBERS
from sfumato.report.summary import percent
from sfumato.schema.columns import Role

if TYPE_CHECKING:
    from sfumato.release.assessment import Score
    from sfumato.release.manifest import Manifest
    from sfumato.report.contents import Contents

EMA_THRESHOLD = 0.09  # largest risk of a person, European Medicines Agency, Policy 0070
PROMISED, VERIFIED, STATED, ATTACKED = "promises", "verify", "manifest", "attacks"  # keys of recounts
SINGLING_OUT = ("singling out", "singling out by one column", "isolation", "copies, all columns")
LINKABILITY = ("linkability", "correct nearest matches", "correct matches by the known mechanism")
INFERENCE = ("inference of a column", "inference of a column, largest")
ABOUT_VALUES = ("Diversity", "EntropyDiversity", "RecursiveDiversity", "TCloseness", "DeclaredCloseness")
NOBODY = "No released row is that of a person: rows are made of noisy counts, so no risk of a row is counted."
LEARNED = "What holds for everybody like a person can be learned, whether or not the person took part."
NO_VALUES = "No promise is made about the values of sensitive columns in a group."
NOT_TRIED = "No attack of this kind was tried: assess the release, or say why not."


@dataclass(frozen=True, kw_only=True)
class CountedSentence:
    """A sentence about the release, and the mark of its recount."""

    text: str
    recount: str


@dataclass(frozen=True, kw_only=True)
class LegalFinding:
    """What a text of the law asks, and what was found."""

    source: str  # the law or standard, with its place
    asks: str
    found: tuple[CountedSentence, ...]
    open: str  # what a person must still judge; empty if nothing


@dataclass(frozen=True)
class LegalFindings:
    """What was found, for each text of the law; ``marks`` are those of the recounts."""

    report: Contents
    manifest: Manifest
    marks: Mapping[str, str]

    def all(self) -> Iterator[LegalFinding]:
        """Yield the findings in the order of the document."""
        yield from self._differential_privacy()
        yield self._recital_26()
        yield from self._three_criteria()
        yield from self._hipaa()
        yield self._framework()
        yield self._ema()
        yield self._pseudonyms()

    def _say(self, text: str, key: str) -> CountedSentence:
        return CountedSentence(text=text, recount=self.marks[key])

    @property
    def _nobody(self) -> CountedSentence:
        return self._say(NOBODY, STATED)

    def _risks(self) -> Iterator[CountedSentence]:
        if self.manifest.is_measured:
            yield self._nobody
            return
        for view in self.report.intruders:
            yield self._say(
                f"An intruder who knows {view.knows} ({', '.join(view.columns)}): largest risk "
                f"{view.largest_risk:.4g}, mean risk {view.mean_risk:.4g}.",
                view.knows,
            )

    def _promises(self, before: str = "") -> CountedSentence:
        held = [one.claim for one in self.report.promises if one.kind == "privacy" and one.held]
        told = f"promised and recounted: {'; '.join(held)}." if held else "no privacy is promised."
        return self._say(f"{before}{told}" if before else told, VERIFIED)

    def _differential_privacy(self) -> Iterator[LegalFinding]:
        """Say what a release by noisy measurements promises, in which unit, and what it takes for public."""
        claims = map(ClaimRecord.to_claim, self.manifest.claims)
        promise = next((one for one in claims if isinstance(one, MeasuredPrivacy)), None)
        if promise is not None:
            yield LegalFinding(
                source="NIST SP 800-226, guidelines for evaluating differential privacy guarantees",
                asks="Say the privacy loss, the unit that is protected, what is public, and what all releases about "
                "the same people cost together.",
                found=tuple(self._say(text, VERIFIED) for text in _say_proof(promise, self.manifest)),
                open="That the noise was drawn so cannot be seen in the rows: who made the release answers for it.",
            )

    def _recital_26(self) -> LegalFinding:
        blamed = (
            self._say(
                f"With {one.name}, which is not protected, {one.alone:,} rows look like no other.", blame_key(one.name)
            )
            for one in self.report.blamed
        )
        return LegalFinding(
            source="GDPR, recital 26",
            asks="Data are anonymous if no person is identifiable by any means reasonably likely to be used, by the "
            "controller or by others, considering cost, time and technology.",
            found=(*self._risks(), *blamed, self._say(_say_tests(self.report), ATTACKED)),
            open="Which means are reasonably likely for this recipient is a judgement; it is asked for below.",
        )

    def _three_criteria(self) -> Iterator[LegalFinding]:
        opinion = "Article 29 Working Party, Opinion 05/2014 (WP216)"
        rows = self.report.rows_out
        alone = tuple(
            self._say(
                f"An intruder who knows {view.knows} finds {view.alone:,} of {rows:,} rows that look like no other.",
                view.knows,
            )
            for view in self.report.intruders
        ) or (self._nobody,)
        links = (
            f"Pseudonyms in {', '.join(self.manifest.pseudonyms)} link the rows of a person."
            if self.manifest.pseudonyms
            else "No pseudonym and no identifier is released."
        )
        records = zip(self.manifest.claims, self.manifest.findings, strict=False)
        values = [f"{one.claim}: {one.found}." for record, one in records if record.name in ABOUT_VALUES]
        nothing = self._say(LEARNED if self.manifest.is_measured else NO_VALUES, STATED)
        found = {
            "singling out": ("Is it still possible to single out an individual?", SINGLING_OUT, alone),
            "linkability": (
                "Is it still possible to link records relating to an individual?",
                LINKABILITY,
                (self._say(links, STATED),),
            ),
            "inference": (
                "Can information be inferred concerning an individual?",
                INFERENCE,
                tuple(self._say(text, PROMISED) for text in values) or (nothing,),
            ),
        }
        for criterion, (question, names, sentences) in found.items():
            tested = tuple(self._say(text, ATTACKED) for text in _say_scores(self.report, names))
            yield LegalFinding(
                source=f"{opinion}: {criterion}",
                asks=question,
                found=(*sentences, *tested),
                open="" if tested or self.manifest.is_measured else NOT_TRIED,
            )

    def _hipaa(self) -> Iterator[LegalFinding]:
        yield LegalFinding(
            source="HIPAA, 45 CFR §164.514(b)(1): expert determination",
            asks="A person with appropriate knowledge determines that the risk is very small that the information "
            "could be used, alone or with other reasonably available information, to identify an individual, and "
            "documents it.",
            found=(*self._risks(), self._promises()),
            open="Whether this risk is very small is the expert’s determination, to be signed below.",
        )
        method = self.manifest.method
        by_safe_harbor = method == "safe-harbor"
        yield LegalFinding(
            source="HIPAA, 45 CFR §164.514(b)(2): safe harbor",
            asks="The 18 kinds of identifiers are removed, and the covered entity has no actual knowledge that the "
            "rest could identify an individual.",
            found=(
                self._say(
                    "The release was made by the method safe-harbor, which removes or coarsens the 18 kinds."
                    if by_safe_harbor
                    else f"The release was made by the method {method}, which does not claim safe harbor.",
                    STATED,
                ),
            ),
            open="Is there actual knowledge that somebody could be identified?" if by_safe_harbor else "",
        )

    def _framework(self) -> LegalFinding:
        exact = len(self.manifest.unaltered)
        data = (
            f"Data: {len(self.manifest.names(Role.QUASI))} columns are protected, {exact} are released exactly as in "
            "the original."
        )
        return LegalFinding(
            source="ISO/IEC 27559:2022, de-identification framework",
            asks="Assess the context (who receives the data, where, under which controls), assess the data, mitigate "
            "what remains, and govern the use afterwards.",
            found=(
                self._say(data, STATED),
                *self._risks(),
                self._promises(f"Mitigation: method {self.manifest.method}; "),
            ),
            open="The context and the governance are the recipient’s and yours: they are asked for below.",
        )

    def _ema(self) -> LegalFinding:
        limit = f"{EMA_THRESHOLD:g}"
        return LegalFinding(
            source="European Medicines Agency, Policy 0070, guidance on anonymisation",
            asks=f"Where risk is measured, the largest risk of re-identification is to be at most {limit}, which "
            "groups of 12 reach.",
            found=tuple(
                self._say(
                    f"An intruder who knows {view.knows}: largest risk {view.largest_risk:.4g}, "
                    f"{'at most' if view.largest_risk <= EMA_THRESHOLD else 'above'} {limit}.",
                    view.knows,
                )
                for view in self.report.intruders
            )
            or (self._nobody,),
            open="Whether noise is an answer to a guidance that counts groups is to be judged."
            if self.manifest.is_measured
            else "Which of the two intruders is the one to measure against depends on what is public about patients.",
        )

    def _pseudonyms(self) -> LegalFinding:
        names = ", ".join(self.manifest.pseudonyms)
        told = (
            f"{names} holds pseudonyms by a secret key. The rows stay personal data for whoever can attribute them."
            if names
            else "No column holds pseudonyms."
        )
        return LegalFinding(
            source="EDPB, Guidelines 01/2025 on pseudonymisation",
            asks="Define the pseudonymisation domain, keep the additional information apart and secured, and prevent "
            "attribution within the domain; pseudonymised data are personal data.",
            found=(self._say(told, STATED),),
            open="Who is in the pseudonymisation domain, and who keeps the key?" if names else "",
        )


def blame_key(name: str) -> str:
    return f"blamed {name}"


def _say_proof(promise: MeasuredPrivacy, manifest: Manifest) -> Iterator[str]:
    most = promise.rows_per_person
    found: Any = manifest.notes.get("found") or ()
    never: Any = manifest.options.get("never") or ()
    yield (
        f"Whether one {'row' if most is None else 'person'} is in the table changes the probability of any release by "
        f"a factor of at most e^{promise.epsilon:g}, which is {math.exp(promise.epsilon):.3g}, except with probability "
        f"{promise.delta:g}."
    )
    if most is None:
        yield "The unit is one row: a person who has several rows is protected less."
    else:
        yield (
            f"The unit is one person with at most {most:,} rows: other rows of a person were left out at random before "
            "anything was counted."
        )
    yield (
        "Public because they are declared: the names, types, domains and categories of columns, and the options of the "
        "method."
    )
    if found:
        yield f"Found by noisy counts, because it was not declared: the values of {', '.join(found)}."
    if never:
        yield f"Declared impossible, and so public: {'; '.join(map(str, never))}."
    yield (
        f"The release cost {promise.rho:.4g} in zero-concentrated differential privacy, which was paid before a row "
        "was counted; releases about the same people add up."
    )


def _say_tests(report: Contents) -> str:
    if report.assessment is None:
        return "Attacks were not tried, or nothing about them may be published."
    return f"Attacks, as {NUMBERS} lists them: {report.assessment.verdict}."


def _say_scores(report: Contents, names: Sequence[str]) -> Iterator[str]:
    scores: Sequence[Score] = report.assessment.scores if report.assessment else ()
    for score in scores:
        if score.name in names:
            ends = (
                ""
                if score.low is None or score.high is None
                else f", 95 % interval {score.low:.3f} to {score.high:.3f}"
            )
            passed = {True: "; the test passed", False: "; the test failed", None: ""}[score.passed]
            yield f"Attack “{score.name}”: {percent(score.value)}{ends}{passed}."
