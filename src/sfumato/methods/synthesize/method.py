"""Synthesis: released rows are drawn from a model of the table, and none comes from one person (TL §2.3.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from sfumato.methods.synthesize.variables import Drawn, Problem, Sampler, matrix_of, own_values, variables_of
from sfumato.params import Checked, Choice, Flag, OrNone, Whole, require_list, require_names
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor, ValidCells
from sfumato.plan.plan import Claim, Outcome
from sfumato.schema.columns import Role
from sfumato.table.groups import group_labels
from sfumato.table.kinds import Kind
from sfumato.table.table import Table, require_known

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.statistics.statistic import Statistic
    from sfumato.table.encoded_columns import Logs

Rows = Literal["all", "unique"]
ROWS: tuple[Rows, ...] = ("all", "unique")
Model = Literal["trees", "copula", "latin-hypercube", "tables", "clusters", "max-entropy", "mixture"]
MIXED: tuple[Model, ...] = ("trees", "tables", "clusters")  # models of a mixture


def fit_mixture(problem: Problem, generator: np.random.Generator) -> Sampler:
    """Return a sampler that draws each row from one of several models, which is chosen at random."""
    samplers = [MODELS[kind](problem, generator) for kind in MIXED]

    def draw(rows: int, generator: np.random.Generator) -> Drawn:
        model = generator.integers(len(samplers), size=rows)
        made = [np.zeros(rows, dtype=variable.values.dtype) for variable in problem.variables]
        for place, sampler in enumerate(samplers):
            own = np.flatnonzero(model == place)
            for values, drawn in zip(made, sampler(len(own), generator) if own.size else (), strict=False):
                values[own] = drawn
        return list(made)

    return draw


MODELS: dict[Model, Callable[[Problem, np.random.Generator], Sampler]] = {
    "trees": fit_trees,
    "copula": fit_copula,
    "latin-hypercube": fit_latin_hypercube,
    "tables": fit_tables,
    "clusters": fit_clusters,
    "max-entropy": fit_max_entropy,
    "mixture": fit_mixture,
}
BY_RANKS = ("copula", "latin-hypercube")
IMPUTATION = "imputation"  # name of the column that numbers the synthetic tables of a release
LARGEST_ORDER = 2  # of the moments of maximum entropy
DRAWN, FEWEST_DRAWN = 10, 5000  # rows that are drawn for each that is released, and the fewest, if statistics are kept
ENOUGH = 2.0  # effective rows among them for each that is released: with fewer, more are drawn
MOST_DRAWS = 5  # times that more are drawn


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
    "mixture"                    each row by one of "trees", "tables" and "clusters", chosen at random
    ============================ ===========================================================================

    No released row belongs to a person. Rows are not filtered: a row that equals somebody's occurs by chance, about as
    often for people who took part as for people who did not, which :func:`sfumato.assess` tests. A model can still
    reveal people, above all those who are far from all others: the method promises no privacy. Assess the release.

    With ``keep``, drawn rows are chosen so that these statistics are those of the table. With "max-entropy" the rows
    come from the distribution with the largest entropy that has them, beside means and covariances; with another kind
    from the one nearest to its model.

    With ``columns``, only these are drawn, given the others, which stay as they are (partially synthetic data); with
    ``rows="unique"``, only in rows that are alone with their quasi-identifiers. Then each released row belongs to a
    person, and whoever knows the other columns of a person finds it: this protects the drawn columns only.

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
        "statistics kept": "statistics that the rows have, up to their sampling error",
        "synthetic columns": "columns whose cells were drawn; the others are those of the original",
        "synthetic rows": "rows whose cells were drawn; the others are those of the original",
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
    keep: Sequence[str | Statistic] | None = reported_option(
        OrNone(Checked("list of statistics", require_list)),
        'Statistics that the rows keep up to their sampling error, such as ["mean(income | age > 65)", '
        '"median(income)"]: means, variances, correlations, slopes, shares, counts and quantiles, under conditions or '
        "by groups. Rows are chosen among many drawn ones so that the model changes as little as possible. At least k "
        "rows must meet a condition. None: only what the model keeps.",
        default=None,
    )
    columns: tuple[str, ...] = reported_option(
        Checked("list of column names", require_names),
        'Columns that are drawn; the others stay as they are. Only for kind="trees". Empty: all columns.',
        default=(),
    )
    rows: Rows = reported_option(
        Choice(ROWS),
        'Rows that are drawn: "all", or only the "unique" ones, which are alone with their values of the '
        'quasi-identifiers, or in their block of a large table. Only for kind="trees".',
        default="all",
    )
    logs: Logs = logs_option()

    @property
    def is_partial(self) -> bool:
        """Whether some cells stay as they are."""
        return bool(self.columns) or self.rows != "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "keep", None if self.keep is None else tuple(self.keep))
        if self.keep and self.is_partial:
            raise OptionError(
                "Statistics are kept by whole synthetic rows.",
                found="keep with columns or rows",
                fix='keep=None, or columns=() and rows="all"',
            )
        if self.is_partial and self.kind != "trees":
            raise OptionError(
                "Columns are drawn given others, and rows beside others, by trees only.",
                found=f"kind={self.kind!r} with columns or rows",
                fix='kind="trees"',
            )
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
        if self.keep:
            from sfumato.statistics.language import parse

            statistics = tuple(parse(one, names=setup.encoder.names) for one in self.keep)
            return KeepingSynthesisPlan(setup, self, statistics)
        if not self.is_partial:
            return SynthesisPlan(setup, self)
        require_known(self.columns, setup.encoder.names)
        quasi = tuple(schema.names(Role.QUASI))
        return PartialSynthesisPlan(setup, self, self.columns or setup.encoder.names, quasi)


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
        problem = self.problem(matrix, filled)
        if self.method.proper:
            problem = problem.resample(stream(f"parameters of {name}"))
        sample = MODELS[self.method.kind](problem, stream(f"model of {name}"))
        return self.rows_of(sample, problem, matrix, stream(f"rows of {name}"))

    def rows_of(
        self, sample: Sampler, problem: Problem, matrix: NDArray[np.float64], generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return as many drawn rows as the matrix has."""
        return matrix_of(sample(len(matrix), generator), problem.variables, self.setup.encoder.width)

    def problem(self, matrix: NDArray[np.float64], filled: NDArray[np.float64]) -> Problem:
        """Return what the model is fitted to: all columns, none of which is kept."""
        variables = variables_of(matrix, filled, self.setup.encoder, self.setup.number_limits)
        return Problem(variables, self.method.k, self.method.order)

    def transform(self, block: Table, number: int) -> Outcome:
        matrix = self.setup.encoder.encode(block)
        names = [f"{number}, imputation {imputation}" for imputation in range(self.method.imputations)]
        made = [self.beside_original(self._decode(self.draw(matrix, name)), block) for name in names]
        if self.method.imputations == 1:
            return self.outcome(made[0], number)
        return self._join(made, number)

    def beside_original(self, drawn: Table, block: Table) -> Table:
        """Return the rows that are released: those that were drawn."""
        return drawn

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


@dataclass(frozen=True, repr=False)
class KeepingSynthesisPlan(SynthesisPlan):
    """Choose among many drawn rows those that have the statistics of the block."""

    statistics: tuple[Statistic, ...]

    def rows_of(
        self, sample: Sampler, problem: Problem, matrix: NDArray[np.float64], generator: np.random.Generator
    ) -> NDArray[np.float64]:
        from sfumato.methods.synthesize.constraints import Tilt, features_of, measure_features, own_moments, require_met

        original, k, rows = self.setup.encoder.decode(matrix), self.method.k, len(matrix)
        wanted = [one for statistic in self.statistics for one in features_of(statistic, original, k)]
        own = own_moments(problem.variables, problem.order) if self.method.kind == "max-entropy" else None
        made, features, names = [], [], []
        for _ in range(MOST_DRAWS):
            drawn = sample(max(FEWEST_DRAWN, DRAWN * rows), generator)
            made.append(matrix_of(drawn, problem.variables, self.setup.encoder.width))
            measured = measure_features(wanted, self._decode(made[-1]))
            names = [one.statistic for one, values in zip(wanted, measured, strict=True) for _ in values.T]
            features.append(np.column_stack([*measured, *([own(drawn)] if own else [])]))
            tilt = Tilt.fit(np.concatenate(features), rows)
            if tilt.effective >= ENOUGH * rows:
                break
        require_met(tilt, names, rows)
        return np.concatenate(made)[tilt.choose(rows, generator)]

    @property
    def notes(self) -> Mapping[str, object]:
        return {**super().notes, "statistics kept": [str(one) for one in self.statistics]}


@dataclass(frozen=True, repr=False)
class PartialSynthesisPlan(SynthesisPlan):
    """Draw some columns given the others, and release the others as they are."""

    drawn: tuple[str, ...]
    quasi: tuple[str, ...]

    def problem(self, matrix: NDArray[np.float64], filled: NDArray[np.float64]) -> Problem:
        encoder = self.setup.encoder
        kept = tuple(name for name in encoder.names if name not in self.drawn)
        first = replace(encoder, names=kept)  # with their values, columns that are drawn can be predicted
        given = variables_of(matrix, filled, first, self.setup.number_limits)
        ordered = replace(encoder, names=(*kept, *(name for name in encoder.names if name in self.drawn)))
        variables = variables_of(matrix, filled, ordered, self.setup.number_limits)
        return Problem(variables, self.method.k, self.method.order, kept=tuple(own_values(one) for one in given))

    def beside_original(self, drawn: Table, block: Table) -> Table:
        """Return the original, with drawn cells in the columns and rows that were asked for."""
        replaced = np.ones(block.rows, dtype=bool)
        if self.method.rows == "unique":
            labels = group_labels(block, self.quasi)
            replaced = np.bincount(labels)[labels] == 1
        source = pa.array(np.arange(block.rows) + np.where(replaced, block.rows, 0))
        columns = {}
        for name in drawn.names:
            own = block.arrow.column(name)
            if name in self.drawn:
                made = drawn.arrow.column(name).cast(own.type)
                columns[name] = pa.chunked_array([*own.chunks, *made.chunks], own.type).take(source)
            else:
                columns[name] = own
        return Table(pa.table(columns), drawn.kinds)

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        # a cell of the original may be outside a domain that was declared for what is released
        every = self.method.rows == "all"
        domains = {name: ends for name, ends in self.setup.domains.items() if every and name in self.drawn}
        return (*(claim for claim in super().claims if not isinstance(claim, ValidCells)), ValidCells(domains=domains))

    @property
    def notes(self) -> Mapping[str, object]:
        return {**super().notes, "synthetic columns": list(self.drawn), "synthetic rows": self.method.rows}
