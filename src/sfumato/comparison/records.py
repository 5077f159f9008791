"""The results of a comparison: one record per method and strength, and which of them no other one beats."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.measures.registry import MEASURES
from sfumato.release.assessment import Assessment, Omitted, Score
from sfumato.release.composition import FEWEST_CANDIDATES

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

RECOGNITION = ("distance below the reference", "ambiguity below the reference")
COMPONENTS = "shift of kernel components, largest"
WHOLE = 120  # characters of a guarantee that tables show as it is
LONGEST = 60  # characters of each part of a longer one
CORRELATIONS = "change in correlations"
KEPT = "error of "  # how the scores of kept statistics begin


@dataclass(frozen=True, kw_only=True)
class ComparedMethod:
    """One method at one strength: its risks and its utility, or the reason why it made no release.

    Attributes
    ----------
    method : str
        Registry name of the method.
    strength : str
        The option by which trials of the method differ, such as "k = 5"; empty for a method of one strength.
    options : mapping
        Options that differ from their defaults and may be shown.
    guarantee : str
        The privacy promise of the release, or "no guarantee".
    seconds : float
        Time that the release and its assessment took.
    assessment : Assessment or None
        All scores; None if no release was made.
    reason : str
        Why no release was made; empty otherwise.
    group_risk : float or None
        1 ÷ k, if the release promises groups of k; None otherwise.
    non_dominated : bool
        Whether no other record of the comparison has risks that are as low and a utility that is as high, and differs.
    """

    method: str
    strength: str
    options: Mapping[str, object]
    guarantee: str = ""
    seconds: float = 0.0
    assessment: Assessment | None = None
    reason: str = ""
    group_risk: float | None = None
    non_dominated: bool = False

    @property
    def name(self) -> str:
        """Method and strength, as text."""
        return f"{self.method}, {self.strength}" if self.strength else self.method

    @property
    def promise(self) -> str:
        """The guarantee, with at most the first few of many columns; the whole text is in ``guarantee``."""
        if len(self.guarantee) <= WHOLE:
            return self.guarantee
        return "; ".join(_shorten(part) for part in self.guarantee.split("; "))

    @property
    def passed(self) -> bool | None:
        """Whether no privacy test failed on the held-out people; None if no release was made, or none was tested."""
        return None if self.assessment is None else self.assessment.is_private

    @property
    def verdict(self) -> str:
        """The result of the privacy tests in a word."""
        return {True: "passes", False: "fails", None: "not tested"}[self.passed]

    @property
    def reference_risk(self) -> float | None:
        """How much better its own people are recognised in the release than in a sample of other people, from 0 to 1.

        The larger shift of distance and ambiguity below the reference (TL §3.1): the nearest row is nearer, or more
        clearly the nearest. Uncertainty does not count: rows of a group are equal, so it is 0 for the widest groups.
        """
        shifts = [score.value for score in self._scores if score.name in RECOGNITION]
        return max(shifts) if shifts and all(map(math.isfinite, shifts)) else None

    @property
    def attack_risk(self) -> float | None:
        """The gain of the worst attack over guessing, from 0 to 1, at the lower end of its 95 % interval."""
        worst = self.assessment.worst_attack if self.assessment else None
        return None if worst is None else worst.gain

    @property
    def largest_risk(self) -> float | None:
        """The largest of both measured risks and of 1 ÷ k, if groups of k are promised; None unless it was measured."""
        measured = [risk for risk in (self.reference_risk, self.attack_risk) if risk is not None]
        promised = [] if self.group_risk is None else [self.group_risk]
        return max([*measured, *promised]) if measured else None

    @property
    def loss(self) -> float | None:
        """The largest error of a kept statistic or, if none is kept, 1 − utility, from 0 to 1."""
        errors = [score.value for score in self._scores if score.name.startswith(KEPT)]
        if errors:
            return max(errors)
        return None if self.utility is None else 1.0 - self.utility

    @property
    def worst_attack(self) -> str:
        """Name of the attack with the largest gain; empty if none was made or none gains anything."""
        worst = self.assessment.worst_attack if self.assessment else None
        return worst.name if worst is not None and worst.gain else ""

    @property
    def utility(self) -> float | None:
        """1 − the largest shift of a kernel component (TL §3.2), from 0 to 1: 1 if all distributions are kept."""
        shift = next((score.value for score in self._scores if score.name == COMPONENTS), math.nan)
        return 1.0 - shift if math.isfinite(shift) else None

    @property
    def correlation_change(self) -> float | None:
        """Median absolute change in the correlations of columns."""
        change = next((score.value for score in self._scores if score.name == CORRELATIONS), math.nan)
        return change if math.isfinite(change) else None

    @property
    def fewest_candidates(self) -> int | None:
        """Least number of people who fit a person in this and all earlier releases; None without earlier ones."""
        fewest = next((score.value for score in self._scores if score.name == FEWEST_CANDIDATES), None)
        return None if fewest is None else int(fewest)

    @property
    def losses(self) -> tuple[float, float, float] | None:
        """Both risks and 1 − utility: lower is better; None unless all three are known."""
        reference, attack, utility = self.reference_risk, self.attack_risk, self.utility
        return None if reference is None or attack is None or utility is None else (reference, attack, 1.0 - utility)

    @property
    def _scores(self) -> tuple[Score, ...]:
        return self.assessment.scores if self.assessment else ()

    def to_plain(self) -> dict[str, object]:
        """Return the record as a dictionary that can be written as JSON."""
        return {
            "method": self.method,
            "strength": self.strength,
            "options": dict(self.options),
            "guarantee": self.guarantee,
            "passed": self.passed,
            "group_risk": self.group_risk,
            "reference_risk": self.reference_risk,
            "attack_risk": self.attack_risk,
            "worst_attack": self.worst_attack,
            "utility": self.utility,
            "fewest_candidates": self.fewest_candidates,
            "non_dominated": self.non_dominated,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "assessment": self.assessment and self.assessment.to_plain(),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> ComparedMethod:
        """Return the record that :meth:`to_plain` wrote."""
        fields = ("method", "strength", "options", "guarantee", "seconds", "reason", "group_risk")
        named = {name: plain[name] for name in fields}
        scores = plain["assessment"]
        return cls(**named, assessment=None if scores is None else _read_assessment(scores))


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Methods at several strengths, each assessed on the same split of one table; see :func:`sfumato.compare`.

    Attributes
    ----------
    rows : tuple of ComparedMethod
        One record per method and strength, in the order of the request.
    original_rows : int
        Rows that were released.
    reference_rows : int
        Rows of the holdout: people who never took part.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"x": np.random.default_rng(0).normal(size=200), "y": np.random.default_rng(1).normal(size=200)}
    >>> roles = {"x": "quasi", "y": "quasi"}
    >>> found = sf.compare(people, ["noise", "shuffle"], strengths=2, schema=roles, jobs=1)
    >>> [row.name for row in found.rows]
    ['noise, level = 0.05', 'noise, level = 1', 'shuffle']
    >>> 1 <= len(found.best) <= 3
    True
    >>> found.to_arrow().num_rows
    3
    """

    rows: tuple[ComparedMethod, ...]
    original_rows: int
    reference_rows: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _mark_best(self.rows))

    @property
    def best(self) -> tuple[ComparedMethod, ...]:
        """The non-dominated records, the most useful first."""
        chosen = [row for row in self.rows if row.non_dominated]
        return tuple(sorted(chosen, key=lambda row: row.losses[2] if row.losses else 1.0))

    @property
    def failed(self) -> tuple[ComparedMethod, ...]:
        """The records without a release, with their reasons."""
        return tuple(row for row in self.rows if row.reason)

    def to_plain(self) -> dict[str, object]:
        """Return the comparison as a dictionary that can be written as JSON."""
        sizes = {"original_rows": self.original_rows, "reference_rows": self.reference_rows}
        return sizes | {"rows": [row.to_plain() for row in self.rows]}

    def to_json(self) -> str:
        """Return the comparison as JSON text."""
        return json.dumps(self.to_plain(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def to_arrow(self) -> pa.Table:
        """Return one row per method and strength, without the single scores."""
        import pyarrow as pa

        plain = [{name: value for name, value in row.to_plain().items() if name != "assessment"} for row in self.rows]
        flags = ("passed", "non_dominated")
        texts = ("method", "strength", "guarantee", "worst_attack", "reason", "options")
        return pa.table(
            {
                name: pa.array(
                    [json.dumps(row[name]) if name == "options" else row[name] for row in plain],
                    pa.string() if name in texts else pa.bool_() if name in flags else pa.float64(),
                )
                for name in (plain[0] if plain else ())
            }
        )

    def __repr__(self) -> str:
        return f"Comparison({len(self.rows)} trials, {len(self.best)} non-dominated, {len(self.failed)} failed)"

    def __str__(self) -> str:
        head = f"{self.original_rows:,} rows released, {self.reference_rows:,} people who never took part"
        width = max((len(row.name) for row in self.rows), default=0)
        lines = [f"{'*' if row.non_dominated else ' '} {row.name:<{width}}  {_line(row)}" for row in self.rows]
        return "\n".join([head, "* non-dominated: no other is as private and as useful", *lines])

    def _repr_html_(self) -> str:
        """Show the maps of risk and utility and all trials in a notebook; no cells."""
        from sfumato.report.notebook import render

        risks = {"against people who never took part": "reference_risk", "by the worst attack": "attack_risk"}
        numbered = list(enumerate(self.rows, 1))
        maps = {
            title: [
                (number, row, row.utility, getattr(row, risk)) for number, row in numbered if row.losses is not None
            ]
            for title, risk in risks.items()
        }
        return render("comparison", comparison=self, numbered=numbered, maps=maps, cells=_cells)


def non_dominated(losses: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which rows of a matrix of losses are not dominated: no other is nowhere higher and somewhere lower."""
    nowhere_higher = (losses[:, None, :] <= losses[None, :, :]).all(axis=2)
    somewhere_lower = (losses[:, None, :] < losses[None, :, :]).any(axis=2)
    return np.asarray(~(nowhere_higher & somewhere_lower).any(axis=0))


def layers_of(losses: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return for each row by how many layers of non-dominated rows it is beaten."""
    layers = np.zeros(len(losses), dtype=np.int64)
    left = np.arange(len(losses))
    while left.size:
        left = left[~non_dominated(losses[left])]
        layers[left] += 1
    return layers


def _mark_best(rows: tuple[ComparedMethod, ...]) -> tuple[ComparedMethod, ...]:
    losses = [row.losses for row in rows]
    known = [place for place, loss in enumerate(losses) if loss is not None]
    marks = np.zeros(len(rows), dtype=bool)
    if known:
        marks[known] = non_dominated(np.array([losses[place] for place in known], dtype=np.float64))
    return tuple(replace(row, non_dominated=bool(mark)) for row, mark in zip(rows, marks, strict=True))


def _shorten(part: str) -> str:
    """Return the start of a part of a guarantee, up to the end of a column or, without any, of a word."""
    if len(part) <= LONGEST:
        return part
    columns, comma, _ = part[:LONGEST].rpartition(",")
    return f"{columns}, …" if comma else f"{part[:LONGEST].rpartition(' ')[0] or part[:LONGEST]} …"


def _read_assessment(plain: Mapping[str, Any]) -> Assessment:
    names = ("method", "original_rows", "released_rows", "reference_rows", "columns", "sampled_rows")
    return Assessment(
        **{name: plain[name] for name in names},
        scores=tuple(Score(**(one | {"value": _number(one["value"])})) for one in plain["scores"]),
        omitted=tuple(Omitted(**one, tests=MEASURES[one["name"]].tests) for one in plain["omitted"]),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def decimals(value: float | None) -> str:
    """Return a share with three digits, or a dash."""
    return "–" if value is None else f"{value:.3f}"


def _line(row: ComparedMethod) -> str:
    if row.reason:
        return f"no release: {row.reason}"
    risks = f"risk {decimals(row.reference_risk)}  worst attack {decimals(row.attack_risk)}"
    fits = "" if row.fewest_candidates is None else f"  {row.fewest_candidates} fit all releases"
    return f"{row.verdict:<6}  {risks}  utility {decimals(row.utility)}{fits}  {row.promise}"


def _cells(row: ComparedMethod) -> tuple[str, ...]:
    mark = "★" if row.non_dominated else ""
    numbers = (decimals(row.reference_risk), decimals(row.attack_risk), decimals(row.utility))
    tested = "" if row.reason else row.verdict
    return mark, row.name, tested, *numbers, f"no release: {row.reason}" if row.reason else row.promise
