"""An original, its release and a reference, brought to one form that every measure can read.

All three become matrices by the code that the original gives (`table/encoder.py`). A release of boxes stands at the
midpoints of its boxes, and a set of categories spreads its +1 evenly over the members, which is what an intruder who
holds nothing else would do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import OptionError, TableError
from sfumato.randomness import Randomness
from sfumato.table.encoded_columns import CategoryEncoding, Logs, finite
from sfumato.table.encoder import Encoder
from sfumato.table.intervals import Intervals, is_interval, original_names, parse_set
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


Result = TypeVar("Result")
Metric = Literal["standardised", "mahalanobis", "mixed"]
METRICS: tuple[Metric, ...] = ("standardised", "mahalanobis", "mixed")

CATEGORIES = 100  # of a column with more categories only the most common count in distances


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MeasuredRelease:
    """What every measure looks at. Columns that the release lacks, and free text, are left out of all three."""

    original: Table
    released: Table
    reference: Table | None = None  # people of the same population who are not in the original
    origin: NDArray[np.int64] | None = None  # the original row that each released row stands for, −1 for nobody's
    columns: tuple[str, ...] | None = None  # what the intruder is taken to know, and what is compared; None: all
    quasi: tuple[str, ...] | None = None  # the columns whose boxes the release promises; None: all that leave
    logs: Logs = "auto"
    metric: Metric = "standardised"
    randomness: Randomness = field(default_factory=Randomness)
    _computed: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not self.original.rows or not self.released.rows:
            raise TableError(
                "Both the original and the release must have rows.",
                found=f"{self.original.rows} and {self.released.rows}",
            )
        if not self.names:
            raise TableError(
                "The original and the release must share columns.",
                found=f"columns {', '.join(map(repr, self.released.names))} in the release",
                fix="assess a release of this very table",
            )
        if self.reference is not None:
            self.reference.require(self.names)
        if self.origin is not None:
            _require_rows(self.origin, self.original.rows, self.released.rows)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that are compared."""
        shown = set(original_names(self.released.names))
        asked = self.original.names if self.columns is None else self.columns
        self.original.require(asked)
        return tuple(n for n in asked if n in shown and self.original.kinds[n] is not Kind.TEXT)

    @cached_property
    def code(self) -> Encoder:
        """How columns stand in the matrices: learnt from the original."""
        return Encoder.fit(self.original.select(self.names), logs=self.logs, categories_at_most=CATEGORIES)

    @cached_property
    def original_matrix(self) -> NDArray[np.float64]:
        """The original as a matrix."""
        return self.code.encode(self.original)

    @cached_property
    def released_matrix(self) -> NDArray[np.float64]:
        """The release as a matrix, boxes at their midpoints."""
        matrix = np.empty((self.released.rows, self.code.width))
        for number in self.code.numbers:
            number.encode(matrix, midpoints(self.released, number.name))
        for category in self.code.categories:
            category.encode(matrix, self.released)
            _spread_sets(matrix, category, self.released)
        return matrix

    @cached_property
    def reference_matrix(self) -> NDArray[np.float64] | None:
        """The reference as a matrix, or None."""
        return None if self.reference is None else self.code.encode(self.reference)

    @cached_property
    def axes(self) -> NDArray[np.float64]:
        """What turns a row of a matrix into a point whose Euclidean distances are those of the metric."""
        return metric_axes(self.metric, self.code, self.original_matrix)

    def points(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows of a matrix as points of the metric."""
        return np.asarray(matrix * self.axes if self.axes.ndim == 1 else matrix @ self.axes)

    @cached_property
    def people(self) -> NDArray[np.float64]:
        """The original rows as points."""
        return self.points(self.original_matrix)

    @cached_property
    def rows(self) -> NDArray[np.float64]:
        """The released rows as points."""
        return self.points(self.released_matrix)

    @cached_property
    def others(self) -> NDArray[np.float64] | None:
        """The reference rows as points, or None."""
        return None if self.reference_matrix is None else self.points(self.reference_matrix)

    def once(self, compute: Callable[[MeasuredRelease], Result]) -> Result:
        """What ``compute`` makes of this, computed when it is first asked for: several measures start from it."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        found: Result = self._computed[compute]
        return found

    def draw(self, name: str) -> np.random.Generator:
        """The stream of random numbers of one measure."""
        return self.randomness.stream(name)


def metric_axes(metric: Metric, code: Encoder, like: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of the columns of the matrix (or axes to turn it to) that make Euclidean distance the metric.

    ``"standardised"`` is TL (3.1): the root mean square of the differences of all columns of the matrix.
    ``"mahalanobis"`` takes them along the principal components, each with variance one. ``"mixed"`` counts every column
    of the table once: a category that differs weighs as much as a number that differs by √2 standard deviations, which
    is what two people drawn at random differ by.
    """
    if metric == "mahalanobis":
        values, vectors = np.linalg.eigh(np.cov(like, rowvar=False, bias=True).reshape(code.width, code.width))
        real = values > 1e-9 * max(values.max(initial=0.0), np.finfo(float).tiny)
        if not real.any():
            return np.zeros(code.width)  # all people are alike
        return np.asarray(vectors[:, real] / np.sqrt(values[real] * max(1, int(real.sum()))))
    if metric == "mixed":
        weights = np.ones(code.width)
        for category in code.categories:
            weights[category.columns] = 0.5
        return np.asarray(weights / np.sqrt(max(1, len(code.names))))
    return np.full(code.width, 1.0 / np.sqrt(max(1, code.width)))


def _require_rows(origin: NDArray[np.int64], people: int, rows: int) -> None:
    """Raise unless ``origin`` names a row of the original, or −1, for every released row."""
    given = np.asarray(origin)
    if given.shape != (rows,) or not np.issubdtype(given.dtype, np.integer):
        raise OptionError(
            "origin must give a whole number for each released row.",
            found=f"an array of {given.dtype} with shape {given.shape} for {rows:,} rows",
        )
    foreign = int(((given < -1) | (given >= people)).sum())
    if foreign:
        raise OptionError(
            f"origin must name rows of the original, from 0 to {people - 1:,}, or −1 for nobody's.",
            found=f"{foreign:,} others",
        )


def midpoints(released: Table, name: str) -> NDArray[np.float64]:
    """A released numeric column as numbers: the midpoint of its interval, or the column itself."""
    if is_interval(name, released.kinds):
        return Intervals.of(released, name).midpoints
    if released.kinds[name].is_numeric:
        return finite(released, name)
    numbers: NDArray[np.float64] = np.full(released.rows, np.nan)  # a number that left as words tells no place
    return numbers


def _spread_sets(matrix: NDArray[np.float64], category: CategoryEncoding, released: Table) -> None:
    """Give rows whose cell is a set of categories ("a|b") the indicators 2p − 1 with p = 1/members."""
    coded = released.coded(category.name)
    if not pa.types.is_string(coded.values.type) and not pa.types.is_large_string(coded.values.type):
        return
    places = {value: place for place, value in enumerate(pc.cast(category.values, pa.string()).to_pylist())}
    indicators, sets = np.full((coded.size, len(places)), -1.0), np.zeros(coded.size, dtype=bool)
    for number, cell in enumerate(coded.values.to_pylist()):
        if cell not in places:
            members = [places[word] for word in parse_set(cell) if word in places]
            indicators[number, members] = 2.0 / max(1, len(members)) - 1.0
            sets[number] = True
    rows = np.flatnonzero(sets[coded.codes])
    matrix[rows, category.columns] = indicators[coded.codes[rows]]
