"""The assessment of a release: all measures that apply, in one record that can be shown as a table or as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import OptionError, RequestError
from sfumato.measures.measured_release import METRICS, MeasuredRelease, Metric
from sfumato.measures.privacy.copies import counted_copy_scores
from sfumato.measures.registry import MEASURES, REASONS, Measure, Need
from sfumato.measures.scores import Family, Omitted, Score
from sfumato.params import require_choice
from sfumato.randomness import Randomness
from sfumato.release.release import Release
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.schema.trees import tree_for
from sfumato.table.frames import as_table
from sfumato.table.intervals import is_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.release.manifest import Manifest
    from sfumato.schema.hierarchy import Tree
    from sfumato.survey.equal_rows import ComparedRows
    from sfumato.table.table import Table

COUNTED = "copies"  # the measure that is counted on all rows
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
    sampled_rows : int
        Size of the random sample that was measured, if the table is not in memory; copies, groups and unique people are
        counted on all rows. 0 if all rows were measured.
    sampled_groups : int
        Number of groups that were drawn for the sample, independently of each other: people who are released alike are
        drawn together. The number of rows if rows were drawn one by one.

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
    sampled_rows: int = 0
    sampled_groups: int = 0

    @property
    def sampling_error(self) -> float:
        """Half-width of the 99 % interval of a share that was measured on the sample (Hoeffding); 0 without one."""
        return math.sqrt(math.log(2.0 / 0.01) / (2.0 * self.sampled_groups)) if self.sampled_groups else 0.0

    @property
    def sample_note(self) -> str:
        """Which scores are of a random sample, its size and its error, as one sentence; empty without a sample."""
        if not self.sampled_rows:
            return ""
        note = (
            f"Measured on a random sample of {self.sampled_rows:,} rows: shares are within ±{self.sampling_error:.3f} "
            "(99 % confidence). Copies, groups and unique people are counted on all rows."
        )
        if self.sampled_rows < self.released_rows:
            note += " Distances and matches are those among the sampled rows; among all rows, matches are rarer."
        return note

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
            "sampled_rows": self.sampled_rows,
            "sampled_groups": self.sampled_groups,
            "sampling_error": self.sampling_error,
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
        parts = [self.verdict, head, *([self.sample_note] if self.sample_note else [])]
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
        sampled = f"<br>{escape(self.sample_note)}" if self.sample_note else ""
        return f"<p><strong>{escape(self.verdict)}</strong>{sampled}{omitted}</p><table><tr>{heads}</tr>{rows}</table>"


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """How rows are compared, wherever they are; :func:`sfumato.assess` explains each option."""

    columns: Sequence[str] | None = None
    metric: Metric = "standardised"
    seed: int | None = None

    def __post_init__(self) -> None:
        require_choice(self.metric, name="metric", choices=METRICS)


def compared(
    original: Any,
    release: Any,
    reference: Any,
    options: ComparisonOptions,
    *,
    origin: NDArray[np.int64] | None = None,
    schema: Schema | None = None,
) -> MeasuredRelease:
    """Return the rows in the form that single measures and their pictures use."""
    manifest = release.manifest if isinstance(release, Release) else None
    table = _as_released(original, manifest)
    return MeasuredRelease(
        original=table,
        released=_without_pseudonyms(release) if isinstance(release, Release) else as_table(release),
        reference=None if reference is None else _as_released(reference, manifest),
        origin=origin,
        columns=None if options.columns is None else tuple(options.columns),
        quasi=manifest.names(Role.QUASI) if manifest else None,
        metric=options.metric,
        trees=_trees(schema, table),
        randomness=Randomness(options.seed),
    )


def assessed(
    subject: MeasuredRelease,
    *,
    measures: Sequence[str] | None = None,
    manifest: Manifest | None,
    counted: ComparedRows | None = None,
    draws: int | None = None,
) -> Assessment:
    """Take the measures of a release, and list those that could not be taken.

    If the subject is a sample, ``counted`` is what was counted on all rows, and ``draws`` the number of independent
    draws if it is not the number of rows. Without an origin, original and release
    were sampled separately, and measures of single people are omitted.
    """
    taken: dict[str, tuple[Score, ...]] = {}
    omitted = []
    for name in _known(MEASURES if measures is None else measures):
        lacking = _lacking(subject, MEASURES[name], separate=counted is not None and subject.origin is None)
        if lacking is not None:
            omitted.append(Omitted(name=name, reason=REASONS[lacking]))
        elif name == COUNTED and counted is not None:
            taken[name] = tuple(counted_copy_scores(subject, counted))
        else:
            taken[name] = tuple(MEASURES[name](subject))
    return Assessment(
        method=manifest.method if manifest else "unknown method",
        original_rows=subject.original.rows if counted is None else counted.original_rows,
        released_rows=subject.released.rows if counted is None else counted.released_rows,
        reference_rows=0 if subject.reference is None else subject.reference.rows,
        columns=len(subject.names),
        scores=_judged(taken.values()),
        omitted=tuple(omitted),
        sampled_rows=0 if counted is None else subject.original.rows,
        sampled_groups=0 if counted is None else subject.original.rows if draws is None else draws,
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


def _lacking(subject: MeasuredRelease, measure: Measure, *, separate: bool) -> Need | None:
    """Return what a measure lacks, or None."""
    if separate and not measure.in_samples:
        return "pairs"
    return measure.needs if measure.needs is not None and not _is_available(subject, measure.needs) else None


def _is_available(subject: MeasuredRelease, need: Need) -> bool:
    if need == "reference":
        return subject.reference is not None
    if need == "origin":
        return subject.origin is not None
    return any(is_interval(name, subject.released.kinds) for name in subject.names)


def _without_pseudonyms(release: Release) -> Table:
    """Return the released rows without pseudonyms, which are no values of the original."""
    made = release.manifest.pseudonyms if release.manifest else ()
    return release.table.select([name for name in release.table.names if name not in made]) if made else release.table


def _as_released(source: Any, manifest: Manifest | None) -> Table:
    """Return a table in which columns have the roles and kinds that they had when the release was made."""
    table = as_table(source)
    if manifest is None:
        return table
    return roles_of(manifest, table.kinds).apply(table)


def roles_of(manifest: Manifest, names: Container[str]) -> Schema:
    """Return the roles and kinds that these columns had when the release was made."""
    return Schema(
        tuple(
            Column(name=column.name, role=column.role, kind=column.kind)
            for column in manifest.columns
            if column.name in names
        )
    )


def _trees(schema: Schema | None, table: Table) -> dict[str, Tree]:
    """Return the generalization trees of the columns of a table that declare one."""
    declared = [column for column in schema.columns if column.tree and column.name in table.kinds] if schema else []
    found = {column.name: tree_for(column, table.coded(column.name).values) for column in declared}
    return {name: tree for name, tree in found.items() if tree is not None}


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
