"""Prediction distance, ambiguity and uncertainty of every person in the original (TL §3.1).

The intruder is assumed to know the whole original and to search for each of its people in the release. How close is the
nearest row, how clearly is it the nearest, and how much do the nearest rows differ?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import OptionError
from sfumato.kernels.neighbours import Neighbours, nearest
from sfumato.kernels.prediction import BLOCK, Prediction, measure_prediction
from sfumato.measures.confidence import quantile
from sfumato.measures.measured_release import METRICS, MeasuredRelease, Metric
from sfumato.params import require_choice, require_int, require_number
from sfumato.release.assessment import Score
from sfumato.sources.frames import as_table
from sfumato.table.groups import rows_by_label

if TYPE_CHECKING:
    from numpy.typing import NDArray


EXACT_PAIRS = 2 * 10**10  # largest number of pairs for an exact search: some minutes on two processors
CELL_ROWS = 1000  # average number of points per cell
PROBED = 24  # cells that are searched for each query
LEARNT_ROWS = 50_000  # points to which the cells are fitted
CHECKED = 200  # queries whose neighbours are also found exactly, to measure the recall


@dataclass(frozen=True, repr=False)
class FoundNeighbours:
    """Neighbours, and the share of the true neighbours that were found (1 if the search was exact)."""

    neighbours: Neighbours
    recall: float


def find(
    queries: NDArray[np.float64], points: NDArray[np.float64], k: int, generator: np.random.Generator
) -> FoundNeighbours:
    """Return the ``k`` nearest points of each query, exactly if that is not too much work."""
    if len(queries) * len(points) <= EXACT_PAIRS:
        return FoundNeighbours(nearest(queries, points, k), 1.0)
    return find_in_cells(queries, points, k, generator)


def find_in_cells(
    queries: NDArray[np.float64], points: NDArray[np.float64], k: int, generator: np.random.Generator
) -> FoundNeighbours:
    """Search only the cells nearest to the query's cell; cells are given by k-means centres.

    The queries of one cell have the same candidates, so each cell needs one exact search among few points.
    """
    centres = _centres(points, generator)
    members = rows_by_label(nearest(points, centres, 1).index[:, 0], len(centres))
    asking_in = rows_by_label(nearest(queries, centres, 1).index[:, 0], len(centres))
    probed = nearest(centres, centres, min(PROBED, len(centres))).index
    distance, index = np.full((len(queries), k), np.inf), np.full((len(queries), k), -1, dtype=np.int64)
    for cell, asking in enumerate(asking_in):
        if asking.size:
            candidates = np.concatenate([members[other] for other in probed[cell]])
            part = nearest(queries[asking], points[candidates], k)
            distance[asking] = part.distance
            index[asking] = np.where(part.index >= 0, candidates[part.index], -1)
    return FoundNeighbours(Neighbours(distance, index), _recall(queries, points, index, generator))


def _centres(points: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    from sklearn.cluster import MiniBatchKMeans

    cells = max(2, len(points) // CELL_ROWS)
    learnt = points if len(points) <= LEARNT_ROWS else points[generator.choice(len(points), LEARNT_ROWS, replace=False)]
    model = MiniBatchKMeans(cells, batch_size=4096, n_init=1, max_iter=20, random_state=int(generator.integers(2**31)))
    return np.asarray(model.fit(learnt).cluster_centers_)


def _recall(
    queries: NDArray[np.float64], points: NDArray[np.float64], index: NDArray[np.int64], generator: np.random.Generator
) -> float:
    """Return the share of the true neighbours of a few random queries that were found."""
    checked = generator.choice(len(queries), min(CHECKED, len(queries)), replace=False)
    true = nearest(queries[checked], points, index.shape[1]).index
    return float((true[:, :, None] == index[checked][:, None, :]).any(axis=2).mean())


NEIGHBOURS = 5  # the k of TL §4.2.1
PEOPLE = 10_000  # in larger tables this many random people are searched for
ROUNDING = 1e-24  # variance that equal numbers may have by rounding errors
WORST = 0.01  # share of the people who are least protected

MEANINGS = {
    "distance": "root mean square difference to the nearest released row, in standard deviations",
    "ambiguity": f"distance to the nearest released row ÷ distance to the {NEIGHBOURS}th nearest",
    "uncertainty": f"mean variance of a column over the {NEIGHBOURS} nearest released rows",
}


@dataclass(frozen=True, repr=False)
class NearestRows:
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
    prediction = find(pair.people, pair.rows, min(k, len(pair.rows)), pair.generator("prediction"))
    return measure_prediction(prediction.neighbours, pair.rows)


@dataclass(frozen=True, repr=False)
class ColumnUncertainty:
    """The uncertainty of each person in each column: a set of uncertainties, once for each column (TL §3.1)."""

    names: tuple[str, ...]  # of the columns
    variance: NDArray[np.float64]  # (people, columns): of the k nearest released rows, in variances of the original

    def weighted(self, importance: Mapping[str, float] | None = None) -> NDArray[np.float64]:
        """Return the mean over the columns, weighted by their importance: 1 for columns that are not named."""
        given = dict(importance or {})
        unknown = sorted(set(given) - set(self.names))
        if unknown:
            raise OptionError(
                "Only columns that were compared have an importance.", found=", ".join(map(repr, unknown))
            )
        for name, number in given.items():
            require_number(number, name=f"the importance of {name!r}", at_least=0.0)
        weights = np.array([given.get(name, 1.0) for name in self.names])
        if not weights.sum() > 0.0:
            raise OptionError("At least one column must have an importance above 0.", found="none")
        return np.asarray(self.variance @ (weights / weights.sum()))


def uncertainty_by_column(
    original: Any, released: Any, *, k: int = NEIGHBOURS, metric: Metric = "standardised", seed: int | None = None
) -> ColumnUncertainty:
    """Compute how much the k released rows nearest to each original row differ in each column (TL §3.1, §4.2.1).

    Numbers are standardised; a category is the mean of its indicators, −1 and +1. See :func:`predict` for the tables.

    Examples
    --------
    >>> from sfumato.measures.privacy.prediction import uncertainty_by_column
    >>> people = {"age": [20.0, 21.0, 40.0, 41.0], "zip": [1.0, 1.0, 2.0, 2.0]}
    >>> found = uncertainty_by_column(people, people, k=2)
    >>> found.names, found.variance[:, 1].tolist()
    (('age', 'zip'), [0.0, 0.0, 0.0, 0.0])
    >>> bool((found.weighted({"zip": 0.0}) == found.variance[:, 0]).all())
    True
    """
    from sfumato.randomness import Randomness

    require_int(k, name="k", at_least=1)
    require_choice(metric, name="metric", choices=METRICS)
    pair = MeasuredRelease(
        original=as_table(original), released=as_table(released), metric=metric, randomness=Randomness(seed)
    )
    index = find(pair.people, pair.rows, min(k, len(pair.rows)), pair.generator("prediction")).neighbours.index
    columns = [pair.code.columns(name) for name in pair.code.names]
    variance = np.zeros((len(index), len(columns)))
    for start in range(0, len(index) if index.shape[1] > 1 else 0, BLOCK):
        variances = pair.released_matrix[index[start : start + BLOCK]].var(axis=1, ddof=1)
        variance[start : start + BLOCK] = np.column_stack([variances[:, own].mean(axis=1) for own in columns])
    variance[variance < ROUNDING] = 0.0
    return ColumnUncertainty(tuple(pair.code.names), variance)


def people_of(subject: MeasuredRelease) -> NearestRows:
    """Return the results of the search for the people of the original, which is done once."""
    return subject.once(search_people)


def search_people(subject: MeasuredRelease, k: int = NEIGHBOURS) -> NearestRows:
    """Search for people of the original in the release, and in the original without themselves."""
    generator = subject.generator("prediction")
    total = len(subject.people)
    chosen = np.arange(total) if total <= PEOPLE else np.sort(generator.choice(total, PEOPLE, replace=False))
    people = subject.people[chosen]
    near = find(people, subject.rows, min(k, len(subject.rows)), generator)
    around = find(people, subject.people, min(k + 1, total), generator)
    return NearestRows(
        chosen,
        measure_prediction(near.neighbours, subject.rows),
        measure_prediction(around.neighbours.without(chosen), subject.people),
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


def most_exposed(people: NearestRows, count: int = 10) -> tuple[Exposed, ...]:
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
            level = quantile(numbers, at)
            note = f"{meaning}; median {typical:.3g} from the table without the person{recall}"
            yield level.score(f"prediction {name}, {label}", rows=len(numbers), note=note, better="higher")
