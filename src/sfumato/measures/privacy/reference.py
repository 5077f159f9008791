"""The standard for enough privacy: the release tells no more of its people than a sample without them (TL §3.1).

For each person and measure there is a number against the release and one against the reference. The release passes when
the first are not below the second by a one-sided Kolmogorov–Smirnov test: a *high* p-value is what is wanted, so the
number of rows is fixed beforehand, such that a shift that matters would be seen and a smaller one would not.

The reference is a sample of the same population with none of the same people: given, or a holdout that was split off
before anything was anonymized (:func:`sfumato.split_holdout`). Without one, the table itself serves, with each person
left out in turn: to that person it is a sample of the same population that does not hold them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.prediction import Prediction, downward_shift, measured
from sfumato.measures.confidence import shift_p_value
from sfumato.measures.privacy.neighbours import find
from sfumato.measures.privacy.prediction import NEIGHBOURS, people_of
from sfumato.measures.scores import Score

if TYPE_CHECKING:
    from sfumato.measures.measured_release import MeasuredRelease

SHIFTS = {"distance": 0.05, "ambiguity": 0.1, "uncertainty": 0.1}  # shifts that matter (TL §5.2.1)
PASSES = 0.01  # a p-value above it does not speak against the release


@dataclass(frozen=True, kw_only=True)
class ReferenceTest:
    """One measure of the release, held against the reference."""

    measure: str
    shift: float  # largest excess of the release's cumulative distribution over the reference's, from 0 to 1
    p_value: float  # of a shift as large where release and reference are alike
    rows: int  # people drawn for the test, the same number on each side
    power: float  # least probability that it sees a shift that matters

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the release."""
        return self.p_value > PASSES


def rows_planned(shift: float) -> int:
    """Rows a side by TL §5.2.1: (1.8/shift)², that is 1,296 for 5 % and 324 for 10 %."""
    return round((1.8 / shift) ** 2)


def power_of(rows: int, shift: float, level: float = 0.05) -> float:
    """Least probability that the test with ``rows`` people a side sees a downward shift, at a level of significance.

    A shift is seen at the latest where it is largest, and there the difference of two empirical distributions is normal
    with variance at most 1/(2 rows); the critical value is √(ln(1/level)/rows).
    """
    from scipy.special import ndtr

    critical = np.sqrt(np.log(1.0 / level) / rows)
    return float(ndtr((shift - critical) * np.sqrt(2.0 * rows)))


def rows_needed(shift: float, *, power: float = 0.8, level: float = 0.05) -> int:
    """Rows a side with which the test surely has this power: 2,163 for a shift of 5 %, more than TL plans."""
    from scipy.special import ndtri

    return int(np.ceil(((np.sqrt(np.log(1.0 / level)) + ndtri(power) / np.sqrt(2.0)) / shift) ** 2))


def held_against(
    release: Prediction, reference: Prediction, draw: np.random.Generator, *, rows: int | None = None
) -> tuple[ReferenceTest, ...]:
    """Test each measure with the planned number of people, or with ``rows`` of them; both are of the same people."""
    tests = []
    for name, shift in SHIFTS.items():
        ours, theirs = getattr(release, name), getattr(reference, name)
        size = min(rows_planned(shift) if rows is None else rows, len(ours))
        people = draw.choice(len(ours), size, replace=False)  # the same on both sides: only the rows differ
        tests.append(
            ReferenceTest(
                measure=name,
                shift=downward_shift(ours, theirs),
                p_value=shift_p_value(ours[people], theirs[people], alternative="greater"),
                rows=size,
                power=power_of(size, shift),
            )
        )
    return tuple(tests)


def reference_prediction(subject: MeasuredRelease) -> Prediction:
    """What the reference tells of the people that were looked for: the given one, or the table without the person."""
    if subject.others is None:
        return people_of(subject).others
    people = subject.people[people_of(subject).chosen]
    found = find(people, subject.others, min(NEIGHBOURS, len(subject.others)), subject.draw("reference"))
    return measured(found.neighbours, subject.others)


def reference_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """The shift below the reference for each measure, with the verdict of the test."""
    kind = "the table without the person" if subject.others is None else "the given reference"
    tests = held_against(people_of(subject).released, reference_prediction(subject), subject.draw("test"))
    people = len(people_of(subject).chosen)
    for test in tests:
        margin = _margin(people)
        yield Score(
            name=f"{test.measure} below the reference",
            family="privacy",
            value=test.shift,
            low=max(0.0, test.shift - margin),
            high=min(1.0, test.shift + margin),
            better="lower",
            rows=test.rows,
            passed=test.passed,
            note=f"p = {test.p_value:.3g} against {kind}; a shift of {SHIFTS[test.measure]:.0%} matters, "
            f"seen with power {test.power:.2f}",
        )


def _margin(rows: int) -> float:
    """Half of a 95 % band for the difference of two empirical distributions of so many rows each."""
    return float(np.sqrt(np.log(2.0 / 0.05) / rows))
