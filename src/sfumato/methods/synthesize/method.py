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

    No released row belongs to a person. Rows are not filtered: a row that equals somebody's occurs by chance, about as
    often for people who took part as for people who did not, which :func:`sfumato.assess` tests. A model can still
    reveal people, above all those who are far from all others: the method promises no privacy. Assess the release.

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
        "Smallest number of rows in a leaf of a tree, in a bin of a table and in a cluster, which are often larger so "
        "that a model does not repeat its people. Larger values keep less detail. It is not a guarantee.",
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
        return self.draw(matrix, f"{number}, imputation 0")

    def draw(self, matrix: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        """Fit the model and draw as many rows, with the random numbers of this name.

        A drawn row that equals the row of a person is kept. If it were drawn again, the rows of the people of the
        table would be missing from the release, and their absence would tell who took part.
        """
        encoder, stream = self.setup.encoder, self.setup.randomness.stream
        filled = matrix  # a tree is fitted only to rows that have a number
        if self.method.kind != "trees":
            filled = impute(matrix, encoder, stream(f"imputation of {name}"))
        problem = Problem(
            variables_of(matrix, filled, encoder, self.setup.number_limits), self.method.k, self.method.order
        )
        if self.method.proper:
            problem = problem.resample(stream(f"parameters of {name}"))
        sample = MODELS[self.method.kind](problem, stream(f"model of {name}"))
        return matrix_of(sample(len(matrix), stream(f"rows of {name}")), problem.variables, encoder.width)

    def transform(self, block: Table, number: int) -> Outcome:
        matrix = self.setup.encoder.encode(block)
        names = [f"{number}, imputation {imputation}" for imputation in range(self.method.imputations)]
        made = [self._decode(self.draw(matrix, name)) for name in names]
        if self.method.imputations == 1:
            return self.outcome(made[0], number)
        return self._join(made, number)

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
        return (
            RowsAccountedFor(times=self.method.imputations),
            ColumnsAllowed(names=(*names, *numbers)),
            ValidCells(domains=self.setup.domains),
        )

    @property
    def notes(self) -> Mapping[str, object]:
        own = {"model": self.method.kind, "imputations": self.method.imputations, "proper": self.method.proper}
        return own | {name: note for name, note in super().notes.items() if name in Synthesize.manifest_notes}
