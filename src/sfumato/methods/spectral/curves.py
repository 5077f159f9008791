"""Histories as functional components, swapped between people or grouped (TL §6.3, time series)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.base import require_rows
from sfumato.methods.components.bases import principal
from sfumato.methods.matrix import MatrixMethod, MatrixPlan, MatrixSetup, impute
from sfumato.methods.options import diversity_option, group_size_option, logs_option, reported_option
from sfumato.methods.permutation_plan import BLOCK_ROWS
from sfumato.methods.spectral.functions import FUNCTIONS, CurveModel, FunctionsName, orthonormal_functions
from sfumato.methods.spectral.histories import TimedColumns, find_histories
from sfumato.methods.spectral.swap import ScoreSwap
from sfumato.params import Checked, Choice, Whole, require_names
from sfumato.plan.claims.groups import KAnonymity
from sfumato.schema.columns import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.plan.plan import Claim
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.table.encoded_columns import Logs, NumberEncoding

    Array = NDArray[np.float64]

Kind = Literal["group", "swap"]
KINDS: tuple[Kind, ...] = ("group", "swap")


@dataclass(frozen=True, kw_only=True)
class Curves(MatrixMethod):
    """Release the history of each person as a curve, shared by a group of people or made of swapped components.

    A history is the columns of one quantity at several times, such as ``pulse_0``, ``pulse_30``, ``pulse_60``; a table
    with one row per observation is brought into this form by :func:`sfumato.histories`. Each history is written by the
    coefficients of a few functions of time, which are estimated from the cells of all people, so that people may be
    seen at different times. Coefficients of all histories, and all other columns, are the columns of one matrix, and
    principal components of it (functional components) are treated like those of any table.

    "group" replaces every person by the mean of a group of at least k similar people, in all columns: every released
    row equals at least k − 1 others, which is promised. The rest of a history that the functions do not describe is
    lost, and so is the variation within groups. "swap" permutes each component between people; the rest is exchanged
    between people at each time. Means and covariances of the curves are approximately kept, and no privacy is promised:
    assess the release.

    Released histories have a value at every time, whether the person was seen or not.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> generator, days = np.random.default_rng(0), np.arange(12)
    >>> pulses = 60 + 9 * generator.normal(size=(200, 1)) + 3 * np.sin(days / 2) + generator.normal(size=(200, 12))
    >>> people = {f"pulse_{day}": pulses[:, day] for day in days}
    >>> release = sf.Curves(k=5, functions=6).release(people, schema=dict.fromkeys(people, "quasi"))
    >>> release.manifest.guarantee.split(" in ")[0]
    '5-anonymous'
    """

    name: ClassVar[str] = "curves"
    theory: ClassVar[str] = "histories"
    manifest_notes: ClassVar[Mapping[str, str]] = {
        **MatrixMethod.manifest_notes,
        "histories": "beginnings of the names of columns that were released as curves",
        "curves": "what was done with the curves of people",
    }

    kind: Kind = reported_option(
        Choice(KINDS),
        'What is released: the mean of a "group" of at least k people, or curves whose components were permuted '
        'between people ("swap").',
        default="group",
    )
    k: int = group_size_option(
        'Smallest number of people in a group, for kind="group".', at_least=2, unit="people", default=5
    )
    l: int | None = diversity_option(
        " A group shows one value of every column: with a sensitive column, groups are refused unless it is 1."
    )
    histories: tuple[str, ...] = reported_option(
        Checked("list of beginnings of column names", require_names),
        'Histories: the beginnings of the names of their columns, such as "pulse" for pulse_0, pulse_30 and pulse_60. '
        "Empty: all beginnings that at least four columns share.",
        default=(),
    )
    functions: int = reported_option(
        Whole(at_least=1),
        "Number of functions of time by which a history is written, at most as many as it has columns. Fewer make "
        "smoother curves.",
        default=8,
        unit="functions",
    )
    shape: FunctionsName = reported_option(
        Choice(FUNCTIONS),
        'Functions of time: smooth "splines" (cubic), or "wavelets" (Haar\'s), for histories with jumps.',
        default="splines",
    )
    logs: Logs = logs_option(
        'Columns to log-transform before the method is applied: none ("never"), skewed columns of positive numbers '
        '("auto"), or the named columns; of a history all or none.',
        default="never",
    )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> CurvesPlan:
        """Find the histories; curves are fitted when a block is transformed."""
        require_rows(survey.rows, self.k if self.kind == "group" else None)
        sensitive = schema.names(Role.SENSITIVE)
        if self.kind == "group" and sensitive and self.l != 1:
            raise CannotRelease(
                "A group of curves shows one value of every column, so it has no l values of a sensitive one.",
                found=f"sensitive {', '.join(map(repr, sensitive))}",
                fix="l=1, if one value per group may be shown; or another role",
            )
        setup = self.setup(survey, schema, randomness, least_rows=BLOCK_ROWS + 20 * self.k)
        found = find_histories([number.name for number in setup.encoder.numbers], self.histories)
        for history in found:
            logged = [name for name in history.columns if name in setup.encoder.logged]
            if len(logged) not in (0, len(history.columns)):
                raise OptionError(
                    f"All columns of the history {history.stem!r} must be log-transformed, or none.",
                    found=f"{len(logged)} of {len(history.columns)}",
                    fix='logs="never", or a list of all of them',
                )
        return CurvesPlan(setup, self, found)


@dataclass(frozen=True, repr=False)
class CurvesPlan(MatrixPlan):
    """Group or swap the curves of each block."""

    setup: MatrixSetup
    method: Curves
    histories: tuple[TimedColumns, ...]

    def perturb(self, matrix: Array, number: int) -> Array:
        generator = self.setup.randomness.stream(f"curves {number}")
        fitted = [self._fit(history, matrix, generator) for history in self.histories]
        others = self._other_columns()
        filled = impute(matrix, self._without_histories(), self.setup.randomness.stream(f"imputation {number}"))
        joined = np.column_stack([filled[:, others], *(one.coefficients for one in fitted)])
        altered = self._group(joined) if self.method.kind == "group" else self._swap(joined, generator)
        made = np.full(matrix.shape, -1.0)  # no released cell of a history is missing
        made[:, others] = altered.rows[:, : len(others)][altered.of]
        start = len(others)
        for one in fitted:
            end = start + one.coefficients.shape[1]
            cells = one.cells(altered.rows[:, start:end])[altered.of]
            self._write(made, one.history, cells if self.method.kind == "group" else cells + one.errors(generator))
            start = end
        return made

    def _fit(self, history: TimedColumns, matrix: Array, generator: np.random.Generator) -> FittedCurves:
        """Return the curves of a block, in the unit of the history."""
        cells = np.column_stack([_cells(self._number(name), matrix) for name in history.columns])
        times = np.array(history.times)
        functions = orthonormal_functions(times, self.method.shape, min(self.method.functions, len(times)))
        model = CurveModel.fit(cells, functions)
        found = model.coefficients(cells)
        chosen = found.mean if self.method.kind == "group" else found.draw(generator)
        scale = float(np.sqrt(chosen.var(axis=0).sum())) or 1.0
        return FittedCurves(history, functions, chosen / scale, scale, cells - chosen @ functions.T)

    def _group(self, matrix: Array) -> AlteredRows:
        """Return the means of groups of at least k rows that are near in their components."""
        from sfumato.kernels.neighbours import median_cells

        basis = principal(matrix)
        labels = median_cells(basis.scores * np.linalg.norm(basis.loadings, axis=1), self.method.k)
        sizes = np.bincount(labels)
        means = np.column_stack([np.bincount(labels, weights=column) / sizes for column in matrix.T])
        return AlteredRows(means, labels)

    def _swap(self, matrix: Array, generator: np.random.Generator) -> AlteredRows:
        basis = principal(matrix)
        return AlteredRows(basis.matrix(ScoreSwap()(basis.scores, generator)), np.arange(len(matrix)))

    def _number(self, name: str) -> NumberEncoding:
        return next(number for number in self.setup.encoder.numbers if number.name == name)

    @property
    def _timed(self) -> frozenset[str]:
        return frozenset(name for history in self.histories for name in history.columns)

    def _other_columns(self) -> NDArray[np.int64]:
        """Return the columns of the matrix that belong to no history."""
        encoder = self.setup.encoder
        own = [encoder.columns(name) for name in encoder.names if name not in self._timed]
        return np.concatenate([np.empty(0, dtype=np.int64), *own])

    def _without_histories(self) -> Any:
        encoder = self.setup.encoder
        return replace(encoder, numbers=tuple(one for one in encoder.numbers if one.name not in self._timed))

    def _write(self, matrix: Array, history: TimedColumns, cells: Array) -> None:
        for place, name in enumerate(history.columns):
            number = self._number(name)
            matrix[:, number.position] = (cells[:, place] - number.centre) / number.scale

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        if self.method.kind == "swap":
            return super().claims
        return (*super().claims, KAnonymity(k=self.method.k, columns=self.setup.encoder.names))

    @property
    def notes(self) -> Mapping[str, object]:
        done = "means of groups" if self.method.kind == "group" else "components swapped between people"
        return {**super().notes, "histories": [history.stem for history in self.histories], "curves": done}


@dataclass(frozen=True, repr=False)
class AlteredRows:
    """Altered rows of a matrix, and which of them each row gets: of a group it is one, computed once."""

    rows: Array
    of: NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class FittedCurves:
    """A history of the people of a block as coefficients, scaled so that their variances add up to 1."""

    history: TimedColumns
    functions: Array  # (times, coefficients)
    coefficients: Array  # (people, coefficients)
    scale: float
    rest: Array  # (people, times): what the functions do not describe, NaN where nothing was observed

    def cells(self, coefficients: Array) -> Array:
        """Return the values of curves at the times of the history."""
        return np.asarray((self.scale * coefficients) @ self.functions.T)

    def errors(self, generator: np.random.Generator) -> Array:
        """Return the rest of another random person at each time, each time by itself."""
        drawn = np.zeros(self.rest.shape)
        for place, column in enumerate(self.rest.T):
            known = column[~np.isnan(column)]
            if known.size == len(column):
                drawn[:, place] = generator.permutation(column)
            elif known.size:
                drawn[:, place] = generator.choice(known, len(column))
        return drawn


def _cells(number: NumberEncoding, matrix: Array) -> Array:
    """Return a column in its unit, or as logarithms, with NaN where it is missing."""
    values = matrix[:, number.position] * number.scale + number.centre
    return values if number.missing is None else np.where(matrix[:, number.missing] > 0.0, np.nan, values)
