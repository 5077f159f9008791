"""Synthesis: released rows are drawn from a model of the table, and none comes from one person (TL §2.3.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.base import Method
from sfumato.methods.matrix import MatrixPlan, MatrixSetup, impute, matrix_setup
from sfumato.methods.options import group_size_option, logs_option, reported_option
from sfumato.methods.permutation_plan import BLOCK_ROWS
from sfumato.methods.synthesize.clusters import fit_clusters
from sfumato.methods.synthesize.max_entropy import fit_max_entropy
from sfumato.methods.synthesize.ranks import fit_copula, fit_latin_hypercube
from sfumato.methods.synthesize.tables import fit_tables
from sfumato.methods.synthesize.trees import fit_trees
from sfumato.methods.synthesize.variables import Problem, Sampler, matrix_of, variables_of
from sfumato.params import Choice, Flag, Whole
from sfumato.plan.claims.copies import NoUniqueRowCopied, find_copies
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor, ValidCells
from sfumato.plan.plan import Claim, Outcome
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.table.encoded_columns import Logs

Model = Literal["trees", "copula", "latin-hypercube", "tables", "clusters", "max-entropy"]
MODELS: dict[Model, Callable[[Problem, np.random.Generator], Sampler]] = {
    "trees": fit_trees,
    "copula": fit_copula,
    "latin-hypercube": fit_latin_hypercube,
    "tables": fit_tables,
    "clusters": fit_clusters,
    "max-entropy": fit_max_entropy,
}
BY_RANKS = ("copula", "latin-hypercube")
IMPUTATION = "imputation"  # name of the column that numbers the synthetic tables of a release
ATTEMPTS = 20  # times that rows which copy somebody are drawn again
SPARE_ROWS = 500  # rows that are drawn at least to replace them
ALIKE = 15  # attempts in which a row is replaced only by one with the same missing values
LARGEST_ORDER = 2  # of the moments of maximum entropy


@dataclass(frozen=True, kw_only=True)
class Synthesize(Method):
    """Release rows that are drawn from a model of the table, as many as the table has.

    ============================ ===========================================================================
    ``kind``                     what is kept
    ============================ ===========================================================================
    "trees"                      relations between all columns: a column given all before it (CART)
    "copula", "latin-hypercube"  the distribution of each column, and the rank correlations of pairs
    "tables"                     the joint distribution of ``order`` columns at a time, numbers in bins
    "clusters"                   mean and covariance of groups of ``k`` similar rows (condensation)
    "max-entropy"                means and covariances, and nothing else
    ============================ ===========================================================================

    No released row belongs to a person, and none equals the row of somebody who is unique. A model can still reveal
    people, above all those who are far from all others: the method promises no privacy. Assess the release.

    With several ``imputations`` the release contains that many synthetic tables, told apart by the column
    ``imputation``. :func:`sfumato.combined_estimate` computes a statistic from them, with an error that includes the
    error of the synthesis.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> age = np.random.default_rng(0).integers(18, 90, 500)
    >>> people = {"age": age, "income": 1000.0 + 40.0 * age, "sex": np.where(age % 2, "f", "m")}
    >>> release = sf.Synthesize(kind="trees").release(people, schema=dict.fromkeys(people, "quasi"), seed=1)
    >>> release.table.rows, release.manifest.guarantee
    (500, 'no guarantee')
    >>> bool(abs(release.table.numbers("age").mean() - age.mean()) < 3.0)
    True
    """

    name: ClassVar[str] = "synthesize"
    theory: ClassVar[str] = "synthesis"
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "model": "model from which the rows were drawn",
        "logarithms": "columns that were log-transformed",
        "mixtures": "columns that were treated as a number and values that many rows share",
        "imputations": "number of synthetic tables",
        "proper": "whether each synthetic table has parameters of its own",
    }

    kind: Model = reported_option(Choice(tuple(MODELS)), "Model from which the rows are drawn.", default="trees")
    k: int = group_size_option(
        "Smallest number of rows in a leaf of a tree, in a bin of a table and in a cluster. Larger values hide people "
        "better and keep less detail. It is not a guarantee.",
        at_least=2,
        default=5,
    )
    order: int = reported_option(
        Whole(at_least=1),
        'Number of columns that are considered together, by "tables" and by "max-entropy" (1 or 2).',
        default=2,
        unit="columns",
    )
    imputations: int = reported_option(
        Whole(at_least=1),
        "Number of synthetic tables in the release. Several show how much statistics vary because of the synthesis.",
        default=1,
        unit="tables",
    )
    proper: bool = reported_option(
        Flag(),
        "Fit each synthetic table to rows drawn with replacement, so that statistics also vary because the model is "
        "estimated (proper multiple imputation).",
        default=False,
    )
    logs: Logs = logs_option()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind == "max-entropy" and self.order > LARGEST_ORDER:
            raise OptionError(
                f"Maximum entropy keeps moments of order 1 or {LARGEST_ORDER}.",
                found=f"order {self.order}",
                fix=f'order={LARGEST_ORDER}, or kind="tables"',
            )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> SynthesisPlan:
        """Make the plan; the model is fitted to each block when it is transformed."""
        if self.imputations > 1 and any(column.name == IMPUTATION for column in schema.columns):
            raise CannotRelease(
                f"No column may be called {IMPUTATION!r}: this column of the release numbers the synthetic tables.",
                found=f"a column {IMPUTATION!r}",
                fix="rename it",
            )
        least_rows = BLOCK_ROWS + 20 * self.k
        atoms = self.kind not in BY_RANKS  # ranks have ties, and quantiles repeat the values that many rows share
        setup = matrix_setup(survey, schema, randomness, logs=self.logs, atoms=atoms, least_rows=least_rows)
        return SynthesisPlan(setup, self)


@dataclass(frozen=True, repr=False)
class SynthesisPlan(MatrixPlan):
    """Fit the model to each block and draw as many rows as the block has."""

    setup: MatrixSetup
    method: Synthesize

    def perturb(self, matrix: NDArray[np.float64], number: int) -> NDArray[np.float64]:
        return self.draw(self.sampler(matrix, number, 0), len(matrix), f"rows of {number}, imputation 0")

    def sampler(self, matrix: NDArray[np.float64], number: int, imputation: int) -> Callable[..., NDArray[np.float64]]:
        """Fit the model; return a function of a number of rows and a generator that draws a matrix."""
        encoder, name = self.setup.encoder, f"{number}, imputation {imputation}"
        filled = matrix  # a tree is fitted only to rows that have a number
        if self.method.kind != "trees":
            filled = impute(matrix, encoder, self.setup.randomness.stream(f"imputation of {name}"))
        problem = Problem(
            variables_of(matrix, filled, encoder, self.setup.number_limits), self.method.k, self.method.order
        )
        if self.method.proper:
            problem = problem.resample(self.setup.randomness.stream(f"parameters of {name}"))
        sample = MODELS[self.method.kind](problem, self.setup.randomness.stream(f"model of {name}"))
        return lambda rows, generator: matrix_of(sample(rows, generator), problem.variables, encoder.width)

    def draw(self, sampler: Callable[..., NDArray[np.float64]], rows: int, name: str) -> NDArray[np.float64]:
        """Draw a matrix with the random numbers of this name."""
        return sampler(rows, self.setup.randomness.stream(name))

    def transform(self, block: Table, number: int) -> Outcome:
        matrix = self.setup.encoder.encode(block)
        made = [self._table(block, matrix, number, imputation) for imputation in range(self.method.imputations)]
        if self.method.imputations == 1:
            return self.outcome(made[0], number)
        return self._join(made, number)

    def _table(self, block: Table, matrix: NDArray[np.float64], number: int, imputation: int) -> Table:
        """Return one synthetic table, in which rows that copy somebody have been drawn again."""
        sampler, name = self.sampler(matrix, number, imputation), f"{number}, imputation {imputation}"
        made = self._decode(self.draw(sampler, block.rows, f"rows of {name}"))
        for attempt in range(ATTEMPTS):
            copies = find_copies(made, block)
            if not copies.size:
                break
            rows = min(block.rows, SPARE_ROWS + 10 * copies.size)
            again = self._decode(self.draw(sampler, rows, f"rows of {name}, attempt {attempt}"))
            others = np.setdiff1d(np.arange(again.rows), find_copies(again, block))
            made = _replace_rows(made, copies, again, others, alike=attempt < ALIKE)
        return made

    def _decode(self, matrix: NDArray[np.float64]) -> Table:
        numbers = self.setup.ranges(matrix).clip(self.setup.encoder.natural(matrix))
        return self.setup.encoder.decode(matrix, numbers=numbers)

    def _join(self, made: list[Table], number: int) -> Outcome:
        """Return all synthetic tables as one, with a column that numbers them."""
        generator, rows = self.setup.randomness.stream(f"rows {number}"), made[0].rows
        order = np.concatenate([place * rows + generator.permutation(rows) for place in range(len(made))])
        labels = pa.array(np.repeat(np.arange(len(made)), rows))
        arrow = pa.concat_tables([one.arrow for one in made]).append_column(IMPUTATION, labels)
        table = Table(arrow, {**made[0].kinds, IMPUTATION: Kind.WHOLE}).take(order)
        return Outcome(table, order % rows)

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        names = self.setup.encoder.names
        numbers = (IMPUTATION,) if self.method.imputations > 1 else ()
        # blocks do not know the unique rows of other blocks, which were not used to make their rows
        no_copies = (NoUniqueRowCopied(columns=names),) if self.blocks == 1 else ()
        return (
            RowsAccountedFor(times=self.method.imputations),
            ColumnsAllowed(names=(*names, *numbers)),
            ValidCells(domains=self.setup.domains),
            *no_copies,
        )

    @property
    def notes(self) -> Mapping[str, object]:
        own = {"model": self.method.kind, "imputations": self.method.imputations, "proper": self.method.proper}
        return own | {name: note for name, note in super().notes.items() if name in Synthesize.manifest_notes}


def _replace_rows(
    table: Table, rows: NDArray[np.int64], again: Table, others: NDArray[np.int64], *, alike: bool
) -> Table:
    """Return the table with rows of another draw in the place of these rows, as far as there are any.

    With ``alike``, only a row with the same missing values takes the place of a row. A row with many of them is more
    often the row of somebody, and replacing it by any other row would leave too few missing values.
    """
    before = _missing_cells(table)[rows] if alike else np.zeros((rows.size, 1), bool)
    after = _missing_cells(again)[others] if alike else np.zeros((others.size, 1), bool)
    labels = np.unique(np.concatenate([before, after]), axis=0, return_inverse=True)[1].ravel()
    chosen = np.arange(table.rows)
    for label in np.unique(labels[: rows.size]):
        place, alike_rows = rows[labels[: rows.size] == label], others[labels[rows.size :] == label]
        if alike_rows.size:
            chosen[place] = table.rows + np.resize(alike_rows, place.size)
    both = pa.concat_tables([table.arrow, again.arrow]).unify_dictionaries()
    return Table(both.take(pa.array(chosen)), table.kinds)


def _missing_cells(table: Table) -> NDArray[np.bool_]:
    return np.column_stack([column.is_null().to_numpy() for column in table.arrow.columns])
