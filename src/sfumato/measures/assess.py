"""Judge a release: every measure that can be taken, in one record that reads as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import OptionError, RequestError
from sfumato.measures.measured_release import METRICS, MeasuredRelease, Metric
from sfumato.measures.registry import MEASURES, REASONS, Need
from sfumato.measures.scores import Omitted, Score
from sfumato.params import require_choice
from sfumato.randomness import Randomness
from sfumato.release.release import Release
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.frames import as_table
from sfumato.table.intervals import is_interval, original_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.release.manifest import Manifest
    from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What was measured of a release, and what could not be."""

    method: str  # the registry's word, or "unknown"
    original_rows: int
    released_rows: int
    reference_rows: int  # 0 without a reference
    columns: int  # columns that were compared
    scores: tuple[Score, ...]
    omitted: tuple[Omitted, ...]

    def __getitem__(self, name: str) -> Score:
        """The score called ``name``."""
        for score in self.scores:
            if score.name == name:
                return score
        raise RequestError(
            f"There is no score {name!r}.", found=f"scores {', '.join(repr(score.name) for score in self.scores)}"
        )

    @property
    def worst_attack(self) -> Score | None:
        """The attack that surely gains most over blind guessing; None where none was made."""
        return max((s for s in self.scores if s.gain is not None), key=lambda s: s.gain or 0.0, default=None)

    @property
    def failed(self) -> tuple[Score, ...]:
        """The scores whose verdict is against the release."""
        return tuple(score for score in self.scores if score.passed is False)

    def to_plain(self) -> dict[str, object]:
        """All scores as JSON knows them."""
        worst = self.worst_attack
        return {
            "method": self.method,
            "original_rows": self.original_rows,
            "released_rows": self.released_rows,
            "reference_rows": self.reference_rows,
            "columns": self.columns,
            "worst_attack": None if worst is None else worst.name,
            "scores": [score.to_plain() for score in self.scores],
            "omitted": [{"name": one.name, "reason": one.reason} for one in self.omitted],
        }

    def to_json(self) -> str:
        """All scores as JSON text."""
        return json.dumps(self.to_plain(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        reference = f", {self.reference_rows:,} rows of reference" if self.reference_rows else ", no reference"
        head = (
            f"{self.method}: {self.original_rows:,} rows, {self.released_rows:,} released{reference}, "
            f"{self.columns} columns compared"
        )
        parts = [head]
        for family in ("privacy", "utility"):
            parts += ["", family.capitalize(), *_aligned([s for s in self.scores if s.family == family])]
        if self.worst_attack is not None:
            parts += ["", f"Worst attack: {self.worst_attack.name}, a sure gain of {self.worst_attack.gain:.3f} of 1"]
        parts += ["", *(f"Not measured: {one.name} ({one.reason})" for one in self.omitted)] if self.omitted else []
        return "\n".join(parts)


def assess(
    original: Any,
    release: Any,
    reference: Any = None,
    *,
    measures: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    metric: Metric = "standardised",
    origin: NDArray[np.int64] | None = None,
    seed: int | None = None,
) -> Assessment:
    """Measure what a release gives away of the original's people and what it keeps of their relations.

    ``reference`` is a sample of the same population with none of the same people; attacks need it, and other measures
    are held against it. ``columns`` are those that the intruder is taken to know and that are compared (all, by
    default: the worst intruder there is). ``origin`` gives the original row that each released row stands for; no
    release holds it, so :func:`sfumato.pipeline.release_and_assess` counts right matches where a release is made.
    ``measures`` names those to take (all, by default) and ``seed`` is for tests.
    """
    manifest = release.manifest if isinstance(release, Release) else None
    return assessed(
        compared(original, release, reference, columns=columns, metric=metric, origin=origin, seed=seed),
        measures=measures,
        method=manifest.method if manifest else "unknown method",
    )


def compared(
    original: Any,
    release: Any,
    reference: Any = None,
    *,
    columns: Sequence[str] | None = None,
    metric: Metric = "standardised",
    origin: NDArray[np.int64] | None = None,
    seed: int | None = None,
) -> MeasuredRelease:
    """What :func:`assess` measures, in the form that single measures and their pictures start from."""
    require_choice(metric, name="metric", choices=METRICS)
    manifest = release.manifest if isinstance(release, Release) else None
    return MeasuredRelease(
        original=_as_released(original, manifest),
        released=release.table if isinstance(release, Release) else as_table(release),
        reference=None if reference is None else _as_released(reference, manifest),
        origin=origin,
        columns=None if columns is None else tuple(columns),
        quasi=manifest.names(Role.QUASI) if manifest else None,
        metric=metric,
        randomness=Randomness(seed),
    )


def assessed(subject: MeasuredRelease, *, measures: Sequence[str] | None = None, method: str) -> Assessment:
    """Take the measures of a subject, and say which could not be taken."""
    scores, omitted = [], []
    for word in _known(MEASURES if measures is None else measures):
        need = MEASURES[word].needs
        if need is not None and not _there(subject, need):
            omitted.append(Omitted(name=word, reason=REASONS[need]))
        else:
            scores += list(MEASURES[word](subject))
    return Assessment(
        method=method,
        original_rows=subject.original.rows,
        released_rows=subject.released.rows,
        reference_rows=0 if subject.reference is None else subject.reference.rows,
        columns=len(subject.names),
        scores=tuple(scores),
        omitted=tuple(omitted),
    )


def _known(words: Iterable[str]) -> tuple[str, ...]:
    for word in words:
        if word not in MEASURES:
            raise OptionError(f"There is no measure {word!r}.", found=f"measures {', '.join(MEASURES)}")
    return tuple(words)


def _there(subject: MeasuredRelease, need: Need) -> bool:
    if need == "reference":
        return subject.reference is not None
    if need == "origin":
        return subject.origin is not None
    return any(is_interval(name, subject.released.kinds) for name in original_names(subject.released.names))


def _as_released(source: Any, manifest: Manifest | None) -> Table:
    """A table with its columns taken for what they were taken for when the release was made."""
    table = as_table(source)
    if manifest is None:
        return table
    columns = tuple(
        Column(name=column.name, role=column.role, kind=column.kind)
        for column in manifest.columns
        if column.name in table.kinds
    )
    return Schema(columns).apply(table)


def _aligned(scores: Sequence[Score]) -> list[str]:
    """One line a score: name, value, interval, direction, verdict and rows; notes are in the scores themselves."""
    lines = []
    width = max((len(score.name) for score in scores), default=0)
    for score in scores:
        interval = "" if score.low is None or score.high is None else f"[{score.low:.3f}, {score.high:.3f}]"
        verdict = {True: "passed", False: "FAILED", None: ""}[score.passed]
        lines.append(
            f"  {score.name:<{width}}  {score.value:>8.3f}  {interval:<16}  {score.better:<6} is better  "
            f"{score.rows:>7,} rows  {verdict}".rstrip()
        )
    return lines
