"""Prediction distance, ambiguity and uncertainty of every person in the original (TL §3.1).

The intruder is assumed to know the whole original and to search for each of its people in the release. How close is the
nearest row, how clearly is it the nearest, and how much do the nearest rows differ?
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.kernels.prediction import Prediction, measured
from sfumato.measures.confidence import quantile
from sfumato.measures.measured_release import METRICS, MeasuredRelease, Metric
from sfumato.measures.privacy.neighbours import find
from sfumato.measures.scores import Score
from sfumato.params import require_choice, require_int
from sfumato.table.frames import as_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEIGHBOURS = 5  # the k of TL §4.2.1
PEOPLE = 10_000  # in larger tables this many random people are searched for
WORST = 0.01  # share of the people who are least protected

MEANINGS = {
    "distance": "root mean square difference to the nearest released row, in standard deviations",
    "ambiguity": f"distance to the nearest released row ÷ distance to the {NEIGHBOURS}th nearest",
    "uncertainty": f"mean variance of a column over the {NEIGHBOURS} nearest released rows",
}


@dataclass(frozen=True, repr=False)
class People:
    """The people who were searched for, with the results."""

    chosen: NDArray[np.int64]  # rows of the original
    released: Prediction  # from the release
    others: Prediction  # from the rest of the original, a sample without the person
    recall: float  # share of the true nearest rows that were found


def predict(
    original: Any, released: Any, *, k: int = NEIGHBOURS, metric: Metric = "standardised", seed: int | None = None
) -> Prediction:
    """Compute the three measures of every original row from the released rows (tables, paths or data frames)."""
    from sfumato.randomness import Randomness

    require_int(k, name="k", at_least=1)
    require_choice(metric, name="metric", choices=METRICS)
    pair = MeasuredRelease(
        original=as_table(original), released=as_table(released), metric=metric, randomness=Randomness(seed)
    )
    found = find(pair.people, pair.rows, min(k, len(pair.rows)), pair.generator("prediction"))
    return measured(found.neighbours, pair.rows)


def people_of(subject: MeasuredRelease) -> People:
    """Return the results of the search for the people of the original, which is done once."""
    return subject.once(search_people)


def search_people(subject: MeasuredRelease, k: int = NEIGHBOURS) -> People:
    """Search for people of the original in the release, and in the original without themselves."""
    generator = subject.generator("prediction")
    total = len(subject.people)
    chosen = np.arange(total) if total <= PEOPLE else np.sort(generator.choice(total, PEOPLE, replace=False))
    people = subject.people[chosen]
    near = find(people, subject.rows, min(k, len(subject.rows)), generator)
    around = find(people, subject.people, min(k + 1, total), generator)
    return People(
        chosen,
        measured(near.neighbours, subject.rows),
        measured(around.neighbours.without(chosen), subject.people),
        min(near.recall, around.recall),
    )


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """A person of the original, and how close the release comes compared with the other people."""

    derived: ClassVar[tuple[str, ...]] = ("ratio",)  # reported with the fields

    row: int  # of the original, from 0
    distance: float  # to the nearest released row
    distance_to_others: float  # to the nearest other person of the original
    ambiguity: float
    uncertainty: float

    @property
    def ratio(self) -> float:
        """Distance to the release ÷ distance to the others; below 1 the release reveals more than the others do."""
        return self.distance / self.distance_to_others if self.distance_to_others > 0.0 else 1.0


def most_exposed(people: People, count: int = 10) -> tuple[Exposed, ...]:
    """Return the people to whom the release comes closest, relative to the distance to their nearest other person.

    For the custodian only: that a row is exposed is itself information about a person.
    """
    require_int(count, name="count", at_least=1)
    near, around = people.released.distance, people.others.distance
    ratio = np.divide(near, around, where=around > 0.0, out=np.ones_like(near))
    return tuple(
        Exposed(
            row=int(people.chosen[place]),
            distance=float(near[place]),
            distance_to_others=float(around[place]),
            ambiguity=float(people.released.ambiguity[place]),
            uncertainty=float(people.released.uncertainty[place]),
        )
        for place in np.argsort(ratio, kind="stable")[:count]
    )


def prediction_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the median and the worst 1 % of each measure."""
    people = people_of(subject)
    recall = "" if people.recall == 1.0 else f"; nearest rows found with recall {people.recall:.3f}"
    for name, meaning in MEANINGS.items():
        numbers = getattr(people.released, name)
        typical = float(np.median(getattr(people.others, name)))
        for label, at in (("median", 0.5), ("worst 1 %", WORST)):
            found = quantile(numbers, at)
            yield Score(
                name=f"prediction {name}, {label}",
                family="privacy",
                value=found.value,
                low=found.low,
                high=found.high,
                better="higher",
                rows=len(numbers),
                note=f"{meaning}; median {typical:.3g} from the table without the person{recall}",
            )
