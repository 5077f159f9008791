"""Post-randomisation: categories change at random, with known probabilities (Gouweleeuw et al. 1998)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.base import Method
from sfumato.methods.options import reported_option
from sfumato.methods.recodings.quasi_columns import MOST_VALUES
from sfumato.params import Checked, OrNone, Share, option, require_share
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor, ValidCells
from sfumato.plan.plan import Claim, Outcome, RowwisePlan
from sfumato.plan.questions import DistinctIn
from sfumato.plan.survey import Survey, count_blocks
from sfumato.schema.columns import Role
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema

Matrix = Mapping[str, Mapping[str, float]]  # from a value to the probabilities of the values that it may become


@dataclass(frozen=True, kw_only=True)
class Pram(Method):
    """Change categories at random: each cell is kept with probability ``keep``, or else drawn anew from its column.

    This matrix is invariant: the expected number of rows of every category stays the same, and no category is kept with
    a smaller probability than ``keep``. A ``matrix`` of your own can be given for some columns; a change with
    probability 0 never happens. Missing cells stay missing. Numbers and dates are released as they are. The method
    promises no privacy.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"city": ["Ulm"] * 60 + ["Rom"] * 40}
    >>> release = sf.Pram(keep=0.5).release(people, schema={"city": "quasi"}, seed=1)
    >>> release.manifest.guarantee
    'no guarantee'
    """

    name: ClassVar[str] = "pram"
    theory: ClassVar[str] = "post-randomisation"
    one_row_per_person: ClassVar[bool] = True
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "probability of keeping": "smallest probability that a cell is released as it is, by column",
        "matrix": "whether the matrix of a column is invariant or given",
        "transitions": "the matrices that were given: value → value → probability",
    }

    keep: float = reported_option(
        Share(below_one=True),
        "Probability that a cell is kept. Otherwise it is drawn from the distribution of its column, and may come out "
        "the same.",
        default=0.8,
        unit="probability",
        strengths=(0.95, 0.9, 0.8, 0.6, 0.4),
    )
    matrix: Mapping[str, Matrix] | None = option(
        OrNone(
            Checked("for each named column: value → value → probability", lambda value, name: _require_matrix(value))
        ),
        "Transition probabilities of some columns. Those of a value add up to 1; values that are not named are kept. "
        "The manifest publishes it, so that analysts can correct for it: each value that it names is known to occur. "
        "None: the invariant matrix for all columns.",
        default=None,
    )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> PramPlan:
        """Make the transition matrix of every categorical quasi-identifier."""
        kinds = survey.sample.table.kinds
        names = tuple(name for name in schema.names(Role.QUASI) if not kinds[name].is_numeric)
        unknown = [name for name in self.matrix or {} if name not in names]
        if unknown:
            raise OptionError(
                "Only categorical quasi-identifiers have a matrix.",
                found=f"a matrix of {', '.join(map(repr, unknown))}",
            )
        if not names or survey.rows < 2:
            raise CannotRelease(
                "Post-randomisation needs 2 rows and a categorical quasi-identifier.",
                found=f"{survey.rows:,} rows, {len(names)} categorical quasi-identifiers",
            )
        answers = survey.ask([DistinctIn(name, MOST_VALUES) for name in names])
        changes = []
        for name in names:
            distinct = answers[DistinctIn(name, MOST_VALUES)].require_complete(name)
            present = distinct.values.is_valid().to_numpy(zero_copy_only=False)
            values, counts = distinct.values.drop_null(), distinct.counts[present].astype(np.float64)
            given = (self.matrix or {}).get(name)
            changes.append(
                Transitions(name, values, counts / max(counts.sum(), 1.0), self.keep, _read_matrix(name, values, given))
            )
        return PramPlan(
            names=tuple(column.name for column in schema.columns),
            changes=tuple(changes),
            matrix=self.matrix,
            parts=count_blocks(survey),
            randomness=randomness,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Transitions:
    """The transition probabilities of one column."""

    name: str
    values: pa.Array
    shares: NDArray[np.float64]  # of the values
    keep: float
    given: tuple[NDArray[np.int64], NDArray[np.float64]] | None  # for each value: targets, and cumulated probabilities

    def apply(self, column: pa.ChunkedArray, generator: np.random.Generator) -> pa.Array:
        """Return the column with every cell changed at random; a missing cell stays missing."""
        plain = column.combine_chunks()
        texts = plain.cast(self.values.type) if plain.type != self.values.type else plain
        place = pc.fill_null(pc.index_in(texts, value_set=self.values), -1).to_numpy().astype(np.int64)
        first, second = generator.random((2, len(place)))
        if self.given is None:
            drawn = np.minimum(np.searchsorted(np.cumsum(self.shares), second, side="right"), len(self.values) - 1)
            changed = np.where(first < self.keep, place, drawn)
        else:
            targets, upto = self.given
            changed = targets[place, (second[:, None] >= upto[place]).sum(axis=1)]
        changed = np.where(place < 0, -1, changed)
        cells = self.values.take(pa.array(changed, mask=changed < 0))
        return cells.cast(plain.type) if cells.type != plain.type else cells

    @property
    def smallest(self) -> float:
        """Smallest probability that a cell is released as it is."""
        if self.given is None:
            return float(self.keep + (1.0 - self.keep) * self.shares.min(initial=1.0))
        targets, upto = self.given
        own = targets == np.arange(len(targets))[:, None]
        return float((np.diff(upto, prepend=0.0, axis=1) * own).sum(axis=1).min(initial=1.0))


@dataclass(frozen=True, kw_only=True, repr=False)
class PramPlan(RowwisePlan):
    """Change the categories of each block."""

    names: tuple[str, ...]
    changes: tuple[Transitions, ...]
    matrix: Mapping[str, Matrix] | None  # as it was given
    parts: int
    randomness: Randomness

    def transform(self, block: Table, number: int) -> Outcome:
        columns = {name: block.arrow.column(name) for name in self.names}
        for change in self.changes:
            generator = self.randomness.stream(f"pram {change.name} {number}")
            columns[change.name] = pa.chunked_array([change.apply(columns[change.name], generator)])
        released = Table(pa.table(columns), {name: block.kinds[name] for name in self.names})
        return Outcome(released, np.arange(block.rows))

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        return (ValidCells(), RowsAccountedFor(), ColumnsAllowed(names=self.names))

    @property
    def notes(self) -> Mapping[str, Any]:
        return {
            "probability of keeping": {change.name: round(change.smallest, 6) for change in self.changes},
            "matrix": {change.name: "invariant" if change.given is None else "given" for change in self.changes},
            "transitions": dict(self.matrix or {}),
        }


def _read_matrix(
    name: str, values: pa.Array, matrix: Matrix | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
    """Return the targets and cumulated probabilities of each value; a value that is not named is kept."""
    if matrix is None:
        return None
    place = {text: at for at, text in enumerate(values.cast(pa.string()).to_pylist())}
    unknown = sum(one not in place for row in matrix.values() for one in row) + sum(one not in place for one in matrix)
    if unknown:
        raise OptionError(
            f"The matrix of column {name!r} must name values of the column.", found=f"{unknown} names that are not"
        )
    most = max((len(row) for row in matrix.values()), default=1)
    targets = np.repeat(np.arange(len(place))[:, None], most, axis=1)
    upto = np.ones((len(place), most))
    for value, row in matrix.items():
        likely = {one: share for one, share in row.items() if share > 0.0}
        targets[place[value]] = place[next(iter(likely))]
        targets[place[value], : len(likely)] = [place[one] for one in likely]
        upto[place[value], : len(likely)] = np.cumsum(list(likely.values()))
        upto[place[value], len(likely) - 1 :] = 1.0 + 1e-9
    return targets, np.where(upto >= 1.0, 1.0 + 1e-9, upto)


def _require_matrix(matrix: Any) -> None:
    if not isinstance(matrix, Mapping):
        raise OptionError("matrix must map columns to matrices.", found=type(matrix).__name__)
    for name, rows in matrix.items():
        for row in rows.values() if isinstance(rows, Mapping) else [None]:
            if not isinstance(row, Mapping) or not row:
                raise OptionError(
                    f"The matrix of {name!r} must map each value to the probabilities of values.",
                    found=type(row).__name__,
                    fix='{"city": {"Ulm": {"Ulm": 0.9, "Rom": 0.1}}}',
                )
            total = sum(require_share(share, name=f"a probability of {name!r}") for share in row.values())
            if abs(total - 1.0) > 1e-9:
                raise OptionError(f"The probabilities of a value of {name!r} must add up to 1.", found=f"{total:g}")
