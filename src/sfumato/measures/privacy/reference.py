"""The privacy standard: the release reveals no more about its people than a sample without them (TL §3.1).

Each measure of each person is computed from the release and from the reference. The release passes if the first are not
below the second by a one-sided Kolmogorov–Smirnov test. Since a *high* p-value is wanted, the number of rows is fixed
beforehand, so that a shift that matters is detected and a smaller one is not.

The reference is a sample of the same population without any of the same people: a given table, or a holdout that was
split off before anything was anonymized (:func:`sfumato.split_holdout`). By default it is the table itself without the
person, which for that person is a sample of the same population.

In an assessment the p-values come from exchanges of released rows and rows of the reference
(`measures/confidence.py`): the same people are compared with both, so that the two sides depend on each other. Both
sides have the same number of rows. ``compare_with_reference`` is TL's test, for two samples that do not depend.

Rows that stand for groups are no sample of people. The k rows of a group are equal, so that the nearest ones agree by
construction, and in many columns the middle of a group is nearer to anybody than other people are. A release of groups
of outsiders would fail. So the groups stay, and people are exchanged: is the release nearer, clearer or less uncertain
for its people than it is for as many people of the reference? Equal rows count once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.neighbours import Neighbours
from sfumato.kernels.prediction import Prediction, downward_shift, measure_halves, measure_prediction, squared_distances
from sfumato.measures.confidence import (
    COSTLY_EXCHANGES,
    adjust_p_values,
    downward_shifts,
    exchanges,
    shift_p_value,
)
from sfumato.measures.privacy.prediction import NEIGHBOURS, find, people_of
from sfumato.release.assessment import Score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease

SHIFTS = {"distance": 0.05, "ambiguity": 0.1, "uncertainty": 0.1}  # shifts that matter (TL §5.2.1)
POOLED = 48  # nearest rows of each person that are kept: five of either half are among them, but for 1 in 10⁷
PASSES = 0.01  # p-value above which the release passes


@dataclass(frozen=True, kw_only=True)
class ReferenceTest:
    """The comparison of one measure of the release with the reference."""

    measure: str
    shift: float  # largest excess of the release's cumulative distribution over the reference's, from 0 to 1
    p_value: float  # probability of such a large shift if release and reference have the same distribution
    rows: int  # people drawn for the test, the same number on each side
    power: float  # smallest probability that it detects a shift that matters

    @property
    def passed(self) -> bool:
        """Whether the test does not reject the release."""
        return self.p_value > PASSES


def rows_planned(shift: float) -> int:
    """Return the rows per side according to TL §5.2.1: (1.8/shift)², which is 1,296 for 5 % and 324 for 10 %."""
    return round((1.8 / shift) ** 2)


def power_of(rows: int, shift: float, level: float = 0.05) -> float:
    """Return the smallest probability that the test with ``rows`` people per side detects a downward shift.

    The difference of the two empirical distributions at the point of the largest shift is normal with a variance of at
    most 1/(2 rows); the critical value is √(ln(1/level)/rows).
    """
    from scipy.special import ndtr

    critical = np.sqrt(np.log(1.0 / level) / rows)
    return float(ndtr((shift - critical) * np.sqrt(2.0 * rows)))


def rows_needed(shift: float, *, power: float = 0.8, level: float = 0.05) -> int:
    """Return the rows per side with which the test has this power: 2,163 for a shift of 5 %, more than in TL."""
    from scipy.special import ndtri

    return int(np.ceil(((np.sqrt(np.log(1.0 / level)) + ndtri(power) / np.sqrt(2.0)) / shift) ** 2))


def compare_with_reference(
    release: Prediction, reference: Prediction, generator: np.random.Generator, *, rows: int | None = None
) -> tuple[ReferenceTest, ...]:
    """Test each measure with the planned number of people, or with ``rows``; both arguments are for the same people."""
    tests = []
    for name, shift in SHIFTS.items():
        ours, theirs = getattr(release, name), getattr(reference, name)
        size = min(rows_planned(shift) if rows is None else rows, len(ours))
        people = generator.choice(len(ours), size, replace=False)  # the same people on both sides
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
    """Return the measures from the reference: from the given one, or from the table without the person."""
    if subject.others is None:
        return people_of(subject).others
    people = subject.people[people_of(subject).chosen]
    prediction = find(people, subject.others, min(NEIGHBOURS, len(subject.others)), subject.generator("reference"))
    return measure_prediction(prediction.neighbours, subject.others)


def reference_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the shift of each measure below the reference, with its p-value."""
    if subject.others is not None and subject.stands_for_groups:
        yield from _group_scores(subject)
        return
    kind = "the table without the person" if subject.others is None else "the given reference"
    measures = [name for name in SHIFTS if name != "uncertainty" or not subject.stands_for_groups]  # 0 in any group
    rows = min(len(subject.drawn_rows), len(subject.people if subject.others is None else subject.others))
    if rows < 2:
        return
    pool = Pool.of(subject, rows)
    shifts = pool.shifts(exchanges(rows, rows, subject.generator("exchanges"), COSTLY_EXCHANGES))
    people = int(pool.is_query(np.arange(2 * rows) < rows).sum())
    yield from _shift_scores(measures, shifts[:, : len(measures)], people, f"compared with {kind}, {rows:,} rows each")


def _group_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the shift of each measure for people of the original below that for people of the reference."""
    crowd = Crowd.of(subject)
    if min(crowd.inside, crowd.outside) < 2:
        return
    shifts = crowd.shifts(exchanges(crowd.inside, crowd.outside, subject.generator("exchanges"), COSTLY_EXCHANGES))
    compared = f"rows stand for groups: {crowd.inside:,} people compared with {crowd.outside:,} of the reference"
    yield from _shift_scores(list(SHIFTS), shifts, min(crowd.inside, crowd.outside), compared)


def _shift_scores(measures: Sequence[str], shifts: NDArray[np.float64], people: int, compared: str) -> Iterator[Score]:
    """Yield a score for each measure (column) from what was found (first row) and its exchanges."""
    margin = _margin(people)
    for measure, shift, p_value in zip(measures, shifts[0], adjust_p_values(shifts), strict=True):
        yield Score(
            name=f"{measure} below the reference",
            family="privacy",
            value=float(shift),
            low=max(0.0, float(shift) - margin),
            high=min(1.0, float(shift) + margin),
            better="lower",
            rows=people,
            p_value=float(p_value),
            chance=0.0,
            note=f"p = {p_value:.3g} {compared}; power at least {power_of(people, SHIFTS[measure]):.2f} to detect a "
            f"shift of {SHIFTS[measure]:.0%}",
        )


@dataclass(frozen=True, repr=False)
class Crowd:
    """People of the original and of the reference, and how well the groups of a release predict each of them."""

    measures: NDArray[np.float64]  # (people, measures): those of the original first
    inside: int
    outside: int

    @classmethod
    def of(cls, subject: MeasuredRelease) -> Crowd:
        """Draw people of both sides, and measure them by the different rows of the release."""
        generator, most = subject.generator("test"), rows_planned(min(SHIFTS.values()))
        assert subject.others is not None
        inside, outside = (_draw(side, most, generator) for side in (subject.people, subject.others))
        groups = np.unique(subject.rows, axis=0)
        near = find(np.concatenate([inside, outside]), groups, min(NEIGHBOURS, len(groups)), generator).neighbours
        found = measure_prediction(near, groups)
        return cls(np.column_stack([getattr(found, name) for name in SHIFTS]), len(inside), len(outside))

    def shifts(self, labels: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the downward shift of each measure (column) for each exchange of people (row)."""
        return np.column_stack([downward_shifts(labels, numbers) for numbers in self.measures.T])


@dataclass(frozen=True, repr=False)
class Pool:
    """Released rows and as many rows of the reference, and the nearest of them to some people.

    With a reference, the people are those of the original. Without one, original rows are both people and reference, so
    that in an exchange the people are the rows of the pool that are taken for original ones.
    """

    points: NDArray[np.float64]  # released rows first
    distance: NDArray[np.float64]  # (people, neighbours)
    index: NDArray[np.int64]
    own: NDArray[np.int64] | None  # row of the pool that each person is; None with a reference

    @classmethod
    def of(cls, subject: MeasuredRelease, rows: int) -> Pool:
        """Draw ``rows`` rows of each kind and the people, and find the nearest rows of each person."""
        generator = subject.generator("test")
        others = subject.people if subject.others is None else subject.others
        points = np.concatenate([_draw(side, rows, generator) for side in (subject.drawn_rows, others)])
        most = rows_planned(min(SHIFTS.values()))
        if subject.others is not None:
            near = nearest_in_random_order(_draw(subject.people, most, generator), points, POOLED, generator)
            return cls(points, near.distance, near.index, None)
        few = min(most, rows)
        own = np.concatenate([generator.permutation(rows)[:few], rows + generator.permutation(rows)[:few]])
        near = nearest_in_random_order(points[own], points, POOLED + 1, generator).without(own)
        return cls(points, near.distance, near.index, own)

    def is_query(self, released: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which people are compared if these rows of the pool are the released ones."""
        return np.ones(len(self.index), dtype=bool) if self.own is None else ~released[self.own]

    def shifts(self, labels: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the downward shift of each measure (column) for each exchange (row)."""
        shifts = np.zeros((len(labels), len(SHIFTS)))
        apart = squared_distances(self.points, self.index)
        least = 1e-24 * float(self.points.var(axis=0).sum())  # rounding among equal rows is no spread
        for place, released in enumerate(labels):
            asked = self.is_query(released)
            halves = measure_halves(self.distance[asked], self.index[asked], apart[asked], released, NEIGHBOURS)
            halves[:, :, 2][halves[:, :, 2] < least] = 0.0
            for column in range(len(SHIFTS) if len(halves) else 0):
                shifts[place, column] = downward_shift(halves[:, 0, column], halves[:, 1, column])
        return shifts


def nearest_in_random_order(
    queries: NDArray[np.float64], points: NDArray[np.float64], k: int, generator: np.random.Generator
) -> Neighbours:
    """Return the k nearest points of each query, in random order among those that are equally near.

    The search prefers the first of them, which are released rows: the test would reject any table with many equal rows.
    """
    order = generator.permutation(len(points))
    nearest = find(queries, points[order], min(k, len(points)), generator).neighbours
    return Neighbours(nearest.distance, np.where(nearest.index >= 0, order[nearest.index], -1))


def _draw(rows: NDArray[np.float64], most: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return ``most`` random rows, or all if there are fewer."""
    return rows if len(rows) <= most else rows[generator.choice(len(rows), most, replace=False)]


def _margin(rows: int) -> float:
    """Return the half-width of the 95 % band for the difference of two empirical distributions of ``rows`` rows."""
    return float(np.sqrt(np.log(2.0 / 0.05) / rows))
