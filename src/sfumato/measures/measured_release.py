"""An original, its release and a reference, in the form that all measures read.

All three are encoded as matrices by an encoder that is fitted to the original (`table/encoder.py`). Boxes are encoded
at their midpoints, and a set of categories spreads its +1 evenly over its members, which is the best guess of an
intruder without other information.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import OptionError, TableError
from sfumato.kernels.eigenvectors import principal_axes
from sfumato.randomness import Randomness
from sfumato.schema.pseudonyms import distinct_people
from sfumato.table.encoded_columns import OTHER, CategoryEncoding, Logs, finite_numbers, probability_name
from sfumato.table.encoder import Encoder
from sfumato.table.groups import group_labels
from sfumato.table.intervals import ANY, Intervals, is_interval, is_member, original_names, parse_set
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.manifest import Manifest
    from sfumato.risk.knowledge import Precision
    from sfumato.schema.hierarchies import Tree

Result = TypeVar("Result")
Metric = Literal["standardised", "mahalanobis", "mixed", "probability"]
METRICS: tuple[Metric, ...] = ("standardised", "mahalanobis", "mixed", "probability")

WIDE_CELLS = 20_000_000  # of all matrices (160 MB), from which rows of more columns than rows are compared by products
NARROW = 500  # columns of a wide table that a measure looks at if it needs their cells
COLUMNS_AT_ONCE = 1000  # columns of wide tables whose matrices are in memory
CATEGORIES = 100  # in a column with more categories, only the most common ones count in distances


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MeasuredRelease:
    """The input of every measure. Free text and columns that are not in the release are left out of all tables."""

    original: Table
    released: Table
    reference: Table | None = None  # people of the same population who are not in the original
    origin: NDArray[np.int64] | None = None  # original row of each released row, −1 for none
    columns: tuple[str, ...] | None = None  # columns that the intruder knows and that are compared; None: all
    quasi: tuple[str, ...] | None = None  # quasi-identifiers of the release; None: all released columns
    unaltered: tuple[str, ...] = ()  # columns that were released as they are
    manifest: Manifest | None = None  # how the release was made, which an intruder can read
    knows: Mapping[str, Precision] = field(default_factory=dict)  # columns that intruders know less precisely
    person: str | None = None  # column of the original that tells people apart; None: every row is another person
    household: str | None = None  # column of the original that is equal for people who live together
    drawn: NDArray[np.int64] | None = None  # released rows that come from the rows of the original; None: all
    logs: Logs = "auto"
    metric: Metric = "standardised"
    trees: Mapping[str, Tree] = field(default_factory=dict)  # generalization trees that the intruder knows, by column
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
                "The original and the release must have columns in common.",
                found=f"columns {', '.join(map(repr, self.released.names))} in the release",
                fix="give the original of this release",
            )
        if self.reference is not None:
            self.reference.require(self.names)
        if self.origin is not None:
            _require_rows(self.origin, self.original.rows, self.released.rows)
        self.original.require([name for name in (self.person, self.household, *self.knows) if name is not None])

    @cached_property
    def owners(self) -> NDArray[np.int64] | None:
        """The person of each original row, as numbers from 0; None if every row is another person."""
        return None if self.person is None else _owners(self.original, self.person)

    @cached_property
    def one_row_each(self) -> MeasuredRelease:
        """The same with one random row of each person: what an intruder knows of her; rows of a person are no evidence
        for each other. The release stays whole, and its rows have the origin of their person."""
        if self.owners is None or self.person is None:
            return self
        first = _draw_one_each(self.owners, self.generator("one row of each person"))
        reference = self.reference
        if reference is not None and self.person in reference.kinds:
            others = _owners(reference, self.person)
            reference = reference.take(_draw_one_each(others, self.generator("one row of each other person")))
        origin, drawn = self.origin, None
        if origin is not None:
            origin, drawn = np.where(origin < 0, -1, self.owners[origin]), np.flatnonzero(np.isin(origin, first))
        own: dict[str, Any] = {"origin": origin, "drawn": drawn, "reference": reference}
        return replace(self, original=self.original.take(first), person=None, columns=self.names, **own)

    @cached_property
    def as_known(self) -> MeasuredRelease:
        """The same in the units in which intruders know the columns: people, and released rows to compare them with."""
        if not self.knows:
            return self
        from sfumato.risk.knowledge import coarsen_released

        kinds = self.original.kinds
        known = {name: one for name, one in self.knows.items() if name in self.names}
        return replace(
            self,
            original=coarsen_released(self.original, known, kinds),
            released=coarsen_released(self.released, known, kinds),
            reference=None if self.reference is None else coarsen_released(self.reference, known, kinds),
            columns=self.names,
            knows={},
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that are compared."""
        shown = set(original_names(self.released.names, self.original.names))
        asked = self.original.names if self.columns is None else self.columns
        self.original.require(asked)
        hidden = (self.person, self.household)
        return tuple(n for n in asked if n in shown and n not in hidden and self.original.kinds[n] is not Kind.TEXT)

    @cached_property
    def stands_for_groups(self) -> bool:
        """Whether released rows stand for groups: for ranges, or each equals another in the protected columns."""
        protected = self.names if self.quasi is None else self.quasi
        kinds = self.released.kinds
        if any(is_interval(name, kinds) for name in protected):
            return True
        shown = [name for name in protected if name in kinds]
        return bool(shown) and int(np.bincount(group_labels(self.released, shown)).min()) > 1

    @cached_property
    def code(self) -> Encoder:
        """The encoder of the columns, fitted to the original."""
        return Encoder.fit(self.original.select(self.names), logs=self.logs, categories_at_most=CATEGORIES)

    @cached_property
    def original_matrix(self) -> NDArray[np.float64]:
        """The original as a matrix."""
        return self.code.encode(self.original)

    @cached_property
    def released_matrix(self) -> NDArray[np.float64]:
        """The release as a matrix, with boxes at their midpoints."""
        return _encode_released(self.code, self.released)

    @cached_property
    def reference_matrix(self) -> NDArray[np.float64] | None:
        """The reference as a matrix, or None."""
        return None if self.reference is None else self.code.encode(self.reference)

    @cached_property
    def axes(self) -> NDArray[np.float64]:
        """The transformation of matrix rows to points whose Euclidean distance is the metric."""
        return metric_axes(self.metric, self.code, self.original_matrix)

    def points(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows of a matrix as points of the metric."""
        known = as_shares(self.code, self.original_matrix, matrix) if self.metric == "probability" else matrix
        return np.asarray(known * self.axes if self.axes.ndim == 1 else known @ self.axes)

    @cached_property
    def people(self) -> NDArray[np.float64]:
        """The original rows as points."""
        return self._wide_points[0] if self.is_wide else self.points(self.original_matrix)

    @cached_property
    def rows(self) -> NDArray[np.float64]:
        """The released rows as points."""
        return self._wide_points[1] if self.is_wide else self.points(self.released_matrix)

    @property
    def drawn_rows(self) -> NDArray[np.float64]:
        """The released rows that come from the rows of the original, as points: one of each person if one was drawn."""
        return self.rows if self.drawn is None else self.rows[self.drawn]

    @cached_property
    def others(self) -> NDArray[np.float64] | None:
        """The reference rows as points, or None."""
        if self.reference is not None and self.is_wide:
            return self._wide_points[2]
        return None if self.reference_matrix is None else self.points(self.reference_matrix)

    @cached_property
    def is_wide(self) -> bool:
        """Whether rows are compared by their products, because their matrices would have too many columns."""
        rows = sum(table.rows for table in (self.original, self.released, self.reference) if table is not None)
        return self.code.width > rows and self.code.width * rows > WIDE_CELLS

    @cached_property
    def narrow(self) -> MeasuredRelease:
        """The same with some columns, spread over all."""
        places = np.unique(np.linspace(0, len(self.names) - 1, NARROW).astype(np.int64))
        return replace(self, columns=tuple(self.names[place] for place in places))

    @cached_property
    def features(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The rows of original and release in coordinates with the products of the rows of their matrices."""
        if not self.is_wide:
            return self.original_matrix, self.released_matrix
        return self._products[0], self._products[1]

    @cached_property
    def _wide_points(self) -> tuple[NDArray[np.float64], ...]:
        """The points of original, release and reference, without their matrices."""
        sides = self._with_products(weighted=True) if self.metric in ("mixed", "probability") else self._products
        if self.metric == "standardised":
            return tuple(side / np.sqrt(self.code.width) for side in sides)
        return tuple(side @ principal_metric(sides[0]) for side in sides) if self.metric == "mahalanobis" else sides

    @cached_property
    def _products(self) -> tuple[NDArray[np.float64], ...]:
        return self._with_products(weighted=False)

    def _with_products(self, *, weighted: bool) -> tuple[NDArray[np.float64], ...]:
        """Return coordinates of the rows of all tables with the products of their matrices, a few columns at a time.

        The products G of all rows are G = LLᵀ, so the rows of L have these products, and fewer coordinates than there
        are rows. With ``weighted``, columns count as in the metric.
        """
        from scipy.linalg.blas import dsyrk
        from scipy.linalg.lapack import dpstrf

        tables = [self.original, self.released] + ([] if self.reference is None else [self.reference])
        rows, names = sum(table.rows for table in tables), self.code.names
        products = np.zeros((rows, rows), order="F")  # the lower half of them
        for start in range(0, len(names), COLUMNS_AT_ONCE):
            code = self.code.part(names[start : start + COLUMNS_AT_ONCE])
            before = code.encode(self.original)
            sides = [before, _encode_released(code, self.released), *(code.encode(other) for other in tables[2:])]
            if weighted:
                known = [as_shares(code, before, side) for side in sides] if self.metric == "probability" else sides
                axes = metric_axes(self.metric, code, before) * np.sqrt(len(code.names) / len(names))
                sides = [side * axes for side in known]
            matrix = np.concatenate(sides).T
            products = dsyrk(1.0, matrix, beta=1.0, c=products, trans=1, lower=1, overwrite_c=1)
        factor, order, rank, _ = dpstrf(products, lower=1, overwrite_a=1)
        points = np.empty((len(factor), rank))
        points[order - 1] = np.tril(factor)[:, :rank]
        return tuple(np.split(points, np.cumsum([table.rows for table in tables])[:-1]))

    def once(self, compute: Callable[[MeasuredRelease], Result]) -> Result:
        """Return the result of ``compute``, which is computed once and shared by several measures."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        result: Result = self._computed[compute]
        return result

    def generator(self, name: str) -> np.random.Generator:
        """Return the random generator of one measure."""
        return self.randomness.stream(name)


def as_shares(code: Encoder, like: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a matrix in which each number is the share of the rows of ``like`` with a lower one, ties half."""
    shares = matrix.copy()
    for number in code.numbers:
        order = np.sort(like[:, number.position])
        below, not_above = (np.searchsorted(order, matrix[:, number.position], side) for side in ("left", "right"))
        shares[:, number.position] = (below + not_above) / (2.0 * len(order))
    return shares


def principal_metric(like: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the principal axes of rows, each scaled so that they have the variance 1 ÷ their number along it."""
    axes = principal_axes(like - like.mean(axis=0))
    values = axes.values / len(like)
    real = values > 1e-9 * max(values.max(initial=0.0), np.finfo(float).tiny)
    if not real.any():
        return np.zeros((like.shape[1], 1))  # all people are equal
    return np.asarray(axes.vectors[:, real] / np.sqrt(values[real] * max(1, int(real.sum()))))


def metric_axes(metric: Metric, code: Encoder, like: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of the matrix columns, or a matrix of axes, that turn Euclidean distance into the metric.

    ``"standardised"`` is TL (3.1): the root mean square difference over all columns of the matrix. ``"mahalanobis"`` is
    the same along the principal components, each scaled to variance 1. ``"mixed"`` gives every column of the table the
    same weight: a different category counts as much as a number that differs by √2 standard deviations, the root mean
    square difference between two random people. ``"probability"`` counts differences by how probable they are: numbers
    differ by the share of the people who are between them, and a different category counts the more, the more seldom
    two random people differ in that column (TL §6.3). Two random people differ equally in each column on average.
    """
    if metric == "mahalanobis":
        return principal_metric(like)
    if metric == "probability":
        weights = np.ones(code.width)
        for number in code.numbers:
            weights[number.position] = np.sqrt(12.0)  # shares from 0 to 1, times this, have variance 1
        for category in code.categories:
            shares = (like[:, category.columns] > 0.0).mean(axis=0)
            differing = max(1.0 - float((shares**2).sum()), 1.0 / max(1, len(like)))
            weights[category.columns] = 0.5 / np.sqrt(differing)
        return np.asarray(weights / np.sqrt(max(1, len(code.names))))
    if metric == "mixed":
        weights = np.ones(code.width)
        for category in code.categories:
            weights[category.columns] = 0.5
        return np.asarray(weights / np.sqrt(max(1, len(code.names))))
    return np.full(code.width, 1.0 / np.sqrt(max(1, code.width)))


def _owners(table: Table, person: str) -> NDArray[np.int64]:
    """Return the person of each row, as numbers from 0."""
    codes = distinct_people(table.arrow.column(person)).codes
    missing = int((codes < 0).sum())
    if missing:
        raise TableError(
            f"Every row must be that of a person in {person!r}.",
            found=f"{missing:,} rows without one",
            fix="fill in or leave out these rows",
        )
    return codes


def _draw_one_each(owners: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Return a random row of each person, in the order of people."""
    order = generator.permutation(len(owners))
    return np.asarray(order[np.unique(owners[order], return_index=True)[1]])


def _require_rows(origin: NDArray[np.int64], people: int, rows: int) -> None:
    """Raise unless ``origin`` is a row of the original, or −1, for every released row."""
    given = np.asarray(origin)
    if given.shape != (rows,) or not np.issubdtype(given.dtype, np.integer):
        raise OptionError(
            "origin must be an array with one integer for each released row.",
            found=f"an array of {given.dtype} with shape {given.shape} for {rows:,} rows",
        )
    foreign = int(((given < -1) | (given >= people)).sum())
    if foreign:
        raise OptionError(
            f"origin must contain rows of the original, from 0 to {people - 1:,}, or −1 for none.",
            found=f"{foreign:,} other numbers",
        )


def _encode_released(code: Encoder, released: Table) -> NDArray[np.float64]:
    """Return the columns of a release as a matrix, with boxes at their midpoints and sets spread over their members."""
    matrix = np.empty((released.rows, code.width))
    for number in code.numbers:
        number.encode(matrix, midpoints(released, number.name))
    for category in code.categories:
        category.encode(matrix, released)
        _spread_sets(matrix, category, released)
        _read_probabilities(matrix, category, released)
    return matrix


def _read_probabilities(matrix: NDArray[np.float64], category: CategoryEncoding, released: Table) -> None:
    """Set the indicators of a category whose probabilities p were released to 2p − 1; an intruder reads them, too."""
    names = [probability_name(category.name, value) for value in category.values.to_pylist()]
    hidden = [place for place, name in enumerate(names) if name not in released.kinds]
    if len(hidden) == len(names):
        return
    other = probability_name(category.name, OTHER)
    rest = released.numbers(other) if other in released.kinds else np.zeros(released.rows)
    for place, name in enumerate(names):
        own = rest / len(hidden) if place in hidden else released.numbers(name)
        matrix[:, category.start + place] = 2.0 * own - 1.0


def midpoints(released: Table, name: str) -> NDArray[np.float64]:
    """Return a released numeric column as numbers: the midpoints of its intervals, or the column itself."""
    if is_interval(name, released.kinds):
        return Intervals.of(released, name).midpoints
    if released.kinds[name].is_numeric:
        return finite_numbers(released, name)
    numbers: NDArray[np.float64] = np.full(released.rows, np.nan)  # numbers that were released as text are unknown
    return numbers


def _spread_sets(matrix: NDArray[np.float64], category: CategoryEncoding, released: Table) -> None:
    """Set the indicators of rows whose cell is a set of categories ("a|b") to 2p − 1 with p = 1/members."""
    coded = released.coded(category.name)
    if not pa.types.is_string(coded.values.type) and not pa.types.is_large_string(coded.values.type):
        return
    places = {value: place for place, value in enumerate(pc.cast(category.values, pa.string()).to_pylist())}
    indicators, sets = np.full((coded.size, len(places)), -1.0), np.zeros(coded.size, dtype=bool)
    for number, cell in enumerate(coded.values.to_pylist()):
        if cell not in places:
            shown = parse_set(cell)
            shown = tuple(value for value in places if is_member(value, shown)) if ANY in shown else shown
            members = [places[value] for value in shown if value in places]
            indicators[number, members] = 2.0 / max(1, len(members)) - 1.0
            sets[number] = True
    rows = np.flatnonzero(sets[coded.codes])
    matrix[rows, category.columns] = indicators[coded.codes[rows]]


# The cells of all three tables as codes, so that rows can be compared.

NO_VALUE = np.inf  # a released cell that is not one number, so that it equals no original cell


@dataclass(frozen=True, repr=False)
class ColumnCodes:
    """One column of all three tables, one below the other, as codes that are equal where the cells are equal."""

    name: str
    codes: NDArray[np.int32]
    size: int


def cells_of(subject: MeasuredRelease) -> tuple[ColumnCodes, ...]:
    """Return the compared columns as codes, in the order of ``subject.names``."""
    return tuple(_encode(subject, name) for name in subject.names)


def _encode(subject: MeasuredRelease, name: str) -> ColumnCodes:
    tables = [subject.original, subject.released] + ([] if subject.reference is None else [subject.reference])
    if subject.original.kinds[name].is_numeric:
        cells = np.concatenate([exact_numbers(table, name) for table in tables])
        values, codes = np.unique(cells, return_inverse=True)  # NaN is one value
        return ColumnCodes(name, codes.astype(np.int32), len(values))
    places: dict[str | None, int] = {}
    parts = []
    for table in tables:
        coded = table.coded(name)
        texts = pc.cast(coded.values, pa.string()).to_pylist()
        parts.append(np.array([places.setdefault(text, len(places)) for text in texts], dtype=np.int32)[coded.codes])
    return ColumnCodes(name, np.concatenate(parts), len(places))


def exact_numbers(table: Table, name: str) -> NDArray[np.float64]:
    """Return the numbers of a column; an interval is a number only if its ends are equal and no value is missing."""
    if is_interval(name, table.kinds):
        ends = Intervals.of(table, name)
        is_single = (ends.low == ends.high) & (True if ends.missing is None else ends.missing == 0)
        return np.where(is_single, ends.low, NO_VALUE)
    if table.kinds[name].is_numeric:
        return finite_numbers(table, name)
    return np.full(table.rows, NO_VALUE)
