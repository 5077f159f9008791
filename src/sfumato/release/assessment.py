"""The assessment of a release: its scores in one record that can be shown as a table or as JSON.

The record travels with a release. `sfumato.measures` takes the measures that it contains.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from sfumato.errors import RequestError
from sfumato.languages import ENGLISH, Sentences, sentences

Family = Literal["privacy", "utility"]
Better = Literal["higher", "lower"]


@dataclass(frozen=True, kw_only=True)
class Score:
    """A measured number with its interval, its direction and the number of rows used.

    Attributes
    ----------
    name : str
        Name of the score.
    family : {"privacy", "utility"}
        What it measures.
    value : float
        The measured number.
    better : {"higher", "lower"}
        Whether higher or lower values are better.
    rows : int
        Number of rows, or of what ``counted`` names, from which the value is computed.
    low, high : float or None
        Ends of the 95 % interval of the value; None if there is no interval. Intervals of an attack that is tested are
        wider: all of them hold together, so that the interval is above ``chance`` if and only if the test failed.
    p_value : float or None
        Probability of such a bad value by chance, for a sample without the people of the original: it is adjusted for
        the number of tests of the same measure. None if there is no test.
    passed : bool or None
        Result of the test: a release is private if it reveals no more about its people than a sample without them, and
        accurate if it differs no more from the original than such a sample. :func:`sfumato.assess` sets it, so that
        such a sample fails any of the tests with a probability of at most 5 %. None if there is no test.
    gain : float or None
        For attacks: the gain over guessing, from 0 to 1, at the lower end of its 95 % interval. None otherwise.
    chance : float or None
        For tests with an interval: the value by guessing, or 0 without a shift. None otherwise.
    note : str
        Unit, details and assumptions, as text.
    counted : {"rows", "people"}
        What ``rows`` counts: people if a column tells them apart and one row of each was drawn.
    """

    name: str
    family: Family
    value: float
    better: Better
    rows: int
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    passed: bool | None = None
    gain: float | None = None
    chance: float | None = None
    note: str = ""
    counted: Literal["rows", "people"] = "rows"

    def to_plain(self) -> dict[str, object]:
        """Return the score as a dictionary that can be written as JSON; numbers that are not finite become None."""
        return {name: _finite_or_none(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class Omitted:
    """A measure that could not be taken, with the reason."""

    name: str
    reason: str
    tests: bool = False  # whether it has a test, which a release passes or fails


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
    people : int
        People of the original, if a column tells them apart who have several rows; 0 if every row is another person.
    sampled_groups : int
        Number of groups that were drawn for the sample, independently of each other: people who are released alike are
        drawn together. The number of rows if rows were drawn one by one.
    knowledge : str
        Which columns intruders know less precisely than the table has them, and how; empty if none.

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
    people: int = 0
    knowledge: str = ""

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

    @property
    def knowledge_note(self) -> str:
        """How precisely intruders know the columns, as one sentence; empty if as the table has them."""
        return f"Attacks are those of intruders who know {self.knowledge}." if self.knowledge else ""

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
    def is_private(self) -> bool | None:
        """Whether no privacy test failed, so that it reveals no more about its people than a sample of others would.

        None if no privacy test was taken. Whatever tries releases (compare, recommend, improve, optimize) asks this.
        """
        tested = [score.passed for score in self.scores if score.passed is not None and score.family == "privacy"]
        return all(tested) if tested else None

    @property
    def verdict(self) -> str:
        """The result of all tests in one sentence, which names the tests that failed or those that passed."""
        tested = [score.name for score in self.scores if score.passed is not None]
        if not tested:
            return "NOT TESTED: none of the measures that were taken is a test"
        if self.failed:
            return f"FAILED {len(self.failed)} of {len(tested)} tests: {'; '.join(score.name for score in self.failed)}"
        missing = [one.name for one in self.omitted if one.tests]
        but = f" (not measured: {', '.join(missing)})" if missing else ""
        return f"PASSED {len(tested)} tests{but}: {'; '.join(tested)}"

    def to_plain(self) -> dict[str, object]:
        """Return all scores as a dictionary that can be written as JSON."""
        worst = self.worst_attack
        return {
            "verdict": self.verdict,
            "passed": self.passed,
            "method": self.method,
            "original_rows": self.original_rows,
            "people": self.people,
            "released_rows": self.released_rows,
            "reference_rows": self.reference_rows,
            "columns": self.columns,
            "knowledge": self.knowledge,
            "sampled_rows": self.sampled_rows,
            "sampled_groups": self.sampled_groups,
            "sampling_error": self.sampling_error,
            "worst_attack": None if worst is None else worst.name,
            "scores": [score.to_plain() for score in self.scores],
            "omitted": [{"name": one.name, "reason": one.reason} for one in self.omitted],
        }

    @classmethod
    def from_plain(cls, record: object) -> Assessment | None:
        """Return the assessment that :meth:`to_plain` wrote; None if it is something else."""
        if not isinstance(record, dict):
            return None
        counts = ("original_rows", "released_rows", "reference_rows", "columns", "sampled_rows", "sampled_groups")
        same = ("method", "people", "knowledge", *counts)
        try:
            scores = tuple(Score(**{**one, "value": _number(one["value"])}) for one in record["scores"])
            omitted = tuple(Omitted(**one) for one in record["omitted"])
            return cls(scores=scores, omitted=omitted, **{name: record[name] for name in same})
        except (TypeError, KeyError, ValueError):
            return None

    def to_json(self) -> str:
        """Return all scores as JSON text."""
        return json.dumps(self.to_plain(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        return self.text()

    def text(self, language: str = ENGLISH) -> str:
        """Return the verdict and all scores, one a line; ``language`` is "en" (default), "de" or "fr"."""
        known = sentences(language)
        reference = f"{self.reference_rows:,} reference rows" if self.reference_rows else "no reference"
        rows = (
            f"{self.people:,} people in {self.original_rows:,} rows" if self.people else f"{self.original_rows:,} rows"
        )
        head = f"{self.method}: {rows}, {self.released_rows:,} released, {reference}, {self.columns} columns compared"
        parts = [self.verdict, head, *([self.sample_note] if self.sample_note else [])]
        parts += [self.knowledge_note] if self.knowledge else []
        parts = list(map(known.tell, parts))
        for family in ("privacy", "utility"):
            scores = [score for score in self.scores if score.family == family]
            parts += ["", known.say(family).capitalize(), *_align_scores(scores, known)]
        if self.worst_attack is not None:
            gain = f"gain over guessing at least {self.worst_attack.gain:.3f} (95 % confidence)"
            parts += ["", known.tell(f"Worst attack: {self.worst_attack.name}, {gain}")]
        omitted = (known.tell(f"Not measured: {one.name} ({one.reason})") for one in self.omitted)
        return "\n".join([*parts, *(["", *omitted] if self.omitted else [])])

    def _repr_html_(self) -> str:
        """Show the verdict, what attacks find, and all scores in a notebook; no cells."""
        from sfumato.report.notebook import show_assessment

        return show_assessment(self)


def _align_scores(scores: Sequence[Score], known: Sentences) -> list[str]:
    """Return one line per score: name, value, interval, direction, rows and result, without the note."""
    cells = [_cells(score, known) for score in scores]
    name_width, direction_width, words = (max((len(row[place]) for row in cells), default=0) for place in (0, 3, 5))
    lines = (
        f"  {name:<{name_width}}  {value:>8}  {interval:<16}  {direction:<{direction_width}}  {rows:>7} "
        f"{counted:<{words}}  {result}"
        for name, value, interval, direction, rows, counted, result in cells
    )
    return [line.rstrip() for line in lines]


def _cells(score: Score, known: Sentences) -> tuple[str, ...]:
    """Return name, value, interval, direction, how many of what were counted, and result of a score as text."""
    interval = "" if score.low is None or score.high is None else f"[{score.low:.3f}, {score.high:.3f}]"
    result = {True: "passed", False: "FAILED", None: ""}[score.passed]
    value, ends, rows = map(known.numbers, (f"{score.value:.3f}", interval, f"{score.rows:,}"))
    name, better, counted, told = map(known.say, (score.name, f"{score.better} is better", score.counted, result))
    return name, value, ends, better, rows, counted, told


def _number(value: object) -> float:
    """Return a number that was written as JSON, which has none that are not finite."""
    return math.nan if value is None else float(value)  # type: ignore[arg-type]


def _finite_or_none(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
