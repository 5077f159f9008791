"""The assessment of a release: all measures that apply, in one record that can be shown as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import OptionError, RequestError
from sfumato.measures.measured_release import METRICS, MeasuredRelease, Metric
from sfumato.measures.registry import MEASURES, REASONS, Need
from sfumato.measures.scores import Family, Omitted, Score
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

LEVEL = 0.05  # probability that a sample of other people fails any test of an assessment
SHARES: dict[Family, float] = {"privacy": 0.75, "utility": 0.25}  # of the level; measures of a family share it equally


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """The scores of a release, returned by :func:`sfumato.assess`.

    ``str(assessment)`` is a table of all scores, after the verdict; ``assessment[name]`` is one score. A sample of
    other people of the same population fails with a probability of at most 5 %, over all tests together.

    Attributes
    ----------
    method : str
        Name of the method that made the release, or "unknown method".
    original_rows : int
        Rows of the original.
    released_rows : int
        Rows of the release.
    reference_rows : int
        Rows of the reference; 0 without a reference.
    columns : int
        Number of columns that were compared.
    scores : tuple of Score
        In the order of the measures. Each has a name, a value, a direction (``better``), the number of
        rows used and, where they exist, a 95 % interval, a verdict (``passed``) and the gain of an attack.
    omitted : tuple of Omitted
        Measures that could not be taken, with the reasons.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42], "income": [10.0, 12.0, 11.0, 30.0, 31.0, 35.0]}
    >>> release = sf.Boxes(k=3).release(people, schema={"age": "quasi", "income": "quasi"})
    >>> assessment = sf.assess(people, release, measures=["boxes", "linkage"])
    >>> assessment["people who fit a box, fewest"].value
    3.0
    >>> [omitted.name for omitted in assessment.omitted]
    ['linkage']
    """

    method: str
    original_rows: int
    released_rows: int
    reference_rows: int
    columns: int
    scores: tuple[Score, ...]
    omitted: tuple[Omitted, ...]

    def __getitem__(self, name: str) -> Score:
        """Return the score with this name."""
        for score in self.scores:
            if score.name == name:
                return score
        raise RequestError(
            f"There is no score {name!r}.", found=f"scores {', '.join(repr(score.name) for score in self.scores)}"
        )

    @property
    def worst_attack(self) -> Score | None:
        """The attack with the largest gain over guessing (95 % confidence); None without attacks."""
        return max((s for s in self.scores if s.gain is not None), key=lambda s: s.gain or 0.0, default=None)

    @property
    def failed(self) -> tuple[Score, ...]:
        """The scores whose test failed."""
        return tuple(score for score in self.scores if score.passed is False)

    @property
    def passed(self) -> bool | None:
        """Whether no test failed; None if there was no test."""
        tested = [score.passed for score in self.scores if score.passed is not None]
        return all(tested) if tested else None

    @property
    def verdict(self) -> str:
        """The result of all tests in one sentence, which names the tests that failed or those that passed."""
        tested = [score.name for score in self.scores if score.passed is not None]
        if not tested:
            return "NOT TESTED: none of the measures that were taken is a test"
        if self.failed:
            return f"FAILED {len(self.failed)} of {len(tested)} tests: {'; '.join(score.name for score in self.failed)}"
        missing = [one.name for one in self.omitted if MEASURES[one.name].tests]
        lacking = f" (not measured: {', '.join(missing)})" if missing else ""
        return f"PASSED {len(tested)} tests{lacking}: {'; '.join(tested)}"

    def to_plain(self) -> dict[str, object]:
        """Return all scores as a dictionary that can be written as JSON."""
        worst = self.worst_attack
        return {
            "verdict": self.verdict,
            "passed": self.passed,
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
        """Return all scores as JSON text."""
        return json.dumps(self.to_plain(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        reference = f"{self.reference_rows:,} reference rows" if self.reference_rows else "no reference"
        head = (
            f"{self.method}: {self.original_rows:,} rows, {self.released_rows:,} released, {reference}, "
            f"{self.columns} columns compared"
        )
        parts = [self.verdict, head]
        for family in ("privacy", "utility"):
            parts += ["", family.capitalize(), *_aligned([s for s in self.scores if s.family == family])]
        if self.worst_attack is not None:
            gain = f"gain over guessing at least {self.worst_attack.gain:.3f} (95 % confidence)"
            parts += ["", f"Worst attack: {self.worst_attack.name}, {gain}"]
        parts += ["", *(f"Not measured: {one.name} ({one.reason})" for one in self.omitted)] if self.omitted else []
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        """Return the verdict and the scores as HTML, for notebooks."""
        from html import escape

        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (score.family, *_cells(score))) + "</tr>"
            for score in self.scores
        )
        heads = "".join(
            f"<th>{head}</th>" for head in ("", "score", "value", "95 % interval", "better", "rows", "test")
        )
        omitted = "".join(f"<br>Not measured: {escape(one.name)} ({escape(one.reason)})" for one in self.omitted)
        return f"<p><strong>{escape(self.verdict)}</strong>{omitted}</p><table><tr>{heads}</tr>{rows}</table>"


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
    """Measure the privacy and the utility of a release.

    Parameters
    ----------
    original : Table, path or data frame
        The table that was anonymized.
    release : Release, Table, path or data frame
        The release of this table.
    reference : Table, path or data frame, optional
        A sample of the same population without any of the same people, such as a holdout
        (:func:`sfumato.split_holdout`). Attacks need it, and other measures are compared with it. Default: none.
    measures : sequence of str, optional
        Names of the measures to take: "copies", "prediction", "reference", "boxes", "linkage", "membership",
        "inference", "linkability", "singling-out", "moments", "marginals", "losses", "propensity", "models" and
        "kernel-components". Default: all.
    columns : sequence of str, optional
        Columns that the intruder is assumed to know, which are also the columns that are compared. Default: all
        columns, the strongest intruder.
    metric : {"standardised", "mahalanobis", "mixed"}, default "standardised"
        Distance between rows: the root mean square difference of standardised columns; the same along principal
        components of variance 1; or one in which every column of the table has the same weight.
    origin : array of int, optional
        Position of the original row of each released row, −1 for none. A release does not contain it, so the measure
        "linkage" is omitted without it; :func:`sfumato.release_and_assess` provides it. Default: unknown.
    seed : int, optional
        Seed that makes the assessment repeatable, for tests. Default: random numbers from the operating system.

    Returns
    -------
    Assessment
        The scores, and the measures that were omitted.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> ages = np.random.default_rng(0).integers(18, 90, 400)
    >>> kept, holdout = sf.split_holdout({"age": ages, "income": 1000.0 + 40.0 * ages}, 0.5, seed=1)
    >>> release = sf.Boxes(k=5).release(kept, schema={"age": "quasi", "income": "quasi"}, seed=1)
    >>> assessment = sf.assess(kept, release, holdout, measures=["boxes", "moments"], seed=1)
    >>> assessment["people who fit a box, fewest"].value >= 5
    True
    >>> assessment["change in means"].value < 0.1
    True
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
    """Return the input of :func:`assess` in the form that single measures and their pictures use."""
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
    """Take the measures of a release, and list those that could not be taken."""
    taken: dict[str, tuple[Score, ...]] = {}
    omitted = []
    for name in _known(MEASURES if measures is None else measures):
        need = MEASURES[name].needs
        if need is not None and not _is_available(subject, need):
            omitted.append(Omitted(name=name, reason=REASONS[need]))
        else:
            taken[name] = tuple(MEASURES[name](subject))
    return Assessment(
        method=method,
        original_rows=subject.original.rows,
        released_rows=subject.released.rows,
        reference_rows=0 if subject.reference is None else subject.reference.rows,
        columns=len(subject.names),
        scores=_judged(taken.values()),
        omitted=tuple(omitted),
    )


def _judged(measures: Iterable[tuple[Score, ...]]) -> tuple[Score, ...]:
    """Give every test its result; each measure has its share of the level (Bonferroni's inequality)."""
    taken = list(measures)
    families = [scores[0].family for scores in taken if any(score.p_value is not None for score in scores)]
    whole = sum(SHARES[family] for family in set(families))
    level = {family: LEVEL * SHARES[family] / whole / families.count(family) for family in set(families)}
    return tuple(
        score if score.p_value is None else replace(score, passed=score.p_value > level[score.family])
        for scores in taken
        for score in scores
    )


def _known(names: Iterable[str]) -> tuple[str, ...]:
    for name in names:
        if name not in MEASURES:
            raise OptionError(f"There is no measure {name!r}.", found=f"measures {', '.join(MEASURES)}")
    return tuple(names)


def _is_available(subject: MeasuredRelease, need: Need) -> bool:
    if need == "reference":
        return subject.reference is not None
    if need == "origin":
        return subject.origin is not None
    return any(is_interval(name, subject.released.kinds) for name in original_names(subject.released.names))


def _as_released(source: Any, manifest: Manifest | None) -> Table:
    """Return a table in which columns have the roles and kinds that they had when the release was made."""
    table = as_table(source)
    if manifest is None:
        return table
    columns = tuple(
        Column(name=column.name, role=column.role, kind=column.kind)
        for column in manifest.columns
        if column.name in table.kinds
    )
    return Schema(columns).apply(table)


def _cells(score: Score) -> tuple[str, ...]:
    """Return name, value, interval, direction, rows and result of a score as text."""
    interval = "" if score.low is None or score.high is None else f"[{score.low:.3f}, {score.high:.3f}]"
    result = {True: "passed", False: "FAILED", None: ""}[score.passed]
    return score.name, f"{score.value:.3f}", interval, score.better, f"{score.rows:,}", result


def _aligned(scores: Sequence[Score]) -> list[str]:
    """Return one line per score: name, value, interval, direction, rows and result, without the note."""
    width = max((len(score.name) for score in scores), default=0)
    return [
        f"  {name:<{width}}  {value:>8}  {interval:<16}  {better:<6} is better  {rows:>7} rows  {result}".rstrip()
        for name, value, interval, better, rows, result in map(_cells, scores)
    ]
