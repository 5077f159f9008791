"""The probability that each row is linked to the right person, from sampling weights (Benedetti and Franconi 1998).

An intruder knows that a person of the population has certain values, and f rows of the sample have them. The number of
people of the population with them, F, is not known. Its estimate is the sum of the weights of the f rows, so that
p = f / ΣW is the share of them that was sampled. Given f, F is negative binomial, and the risk of each row is
E[1/F | f] = p ∫₀¹ u^(f−1) / (p + (1 − p) u) du.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.disclosure.group_models import sampling_weights
from sfumato.disclosure.uniqueness import population_of, require_columns
from sfumato.errors import OptionError
from sfumato.table.frames import as_table
from sfumato.table.groups import group_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table

TERMS = 64  # of the series, which converges like 2^−terms or faster
LARGE = 48  # frequency from which the series converges so fast for every p


@dataclass(frozen=True, kw_only=True, eq=False)
class IndividualRisk:
    """The re-identification risk of every row, returned by :func:`sfumato.individual_risk`.

    Attributes
    ----------
    columns : tuple of str
        The quasi-identifiers that an intruder knows.
    rows : int
        Rows of the table.
    expected : float
        Expected number of rows that are linked to the right person: the sum of the risks.
    largest : float
        Largest risk of a row, from 0 to 1.
    household_expected : float or None
        Expected number of rows in households of which at least one member is linked; None without households.
    frequencies : array of int, shape (rows,)
        Number of rows with the same values. Not shown by ``repr``, like the following ones.
    population_frequencies : array of float, shape (rows,)
        Estimated number of people of the population with these values.
    risks : array of float, shape (rows,)
        Risk of each row, from 0 to 1.
    household_risks : array of float, shape (rows,), or None
        Risk that at least one member of the row's household is linked.
    """

    columns: tuple[str, ...]
    rows: int
    expected: float
    largest: float
    household_expected: float | None
    frequencies: NDArray[np.int64] = field(repr=False)
    population_frequencies: NDArray[np.float64] = field(repr=False)
    risks: NDArray[np.float64] = field(repr=False)
    household_risks: NDArray[np.float64] | None = field(repr=False)

    @property
    def global_risk(self) -> float:
        """Mean risk of the rows, from 0 to 1."""
        return self.expected / self.rows

    @property
    def household_global_risk(self) -> float | None:
        """Mean household risk of the rows, from 0 to 1; None without households."""
        return None if self.household_expected is None else self.household_expected / self.rows

    def rows_above(self, threshold: float) -> int:
        """Return the number of rows whose risk is above the threshold.

        Parameters
        ----------
        threshold : float
            A probability. A row whose risk equals it is not counted.
        """
        return int((self.risks > threshold).sum())


def individual_risk(
    table: Any,
    columns: Sequence[str],
    weight: str | None = None,
    *,
    population: float | None = None,
    household: str | None = None,
) -> IndividualRisk:
    """Estimate the probability that an intruder who knows some columns links each row to the right person.

    Parameters
    ----------
    table : Table, path or data frame
        The table, a sample of a population.
    columns : sequence of str
        The quasi-identifiers that the intruder knows. A missing value is a value of its own.
    weight : str, optional
        Column of sampling weights: the number of people of the population for whom the row stands. Default: none.
    population : float, optional
        Number of people in the population, if all rows have the same weight. Default: without weights the table is the
        population, and the risk of a row is 1/frequency.
    household : str, optional
        Column that is equal for the members of a household: as soon as one of them is linked, all are. Default: none.

    Returns
    -------
    IndividualRisk
        The risk of each row and of the table.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [30, 30, 51], "town": ["a", "a", "b"], "weight": [60.0, 50.0, 17.0]}
    >>> risk = sf.individual_risk(people, ["age", "town"], "weight")
    >>> risk.risks.round(6).tolist()
    [0.017144, 0.017144, 0.177076]
    >>> round(risk.expected, 4), round(risk.global_risk, 4)
    (0.2114, 0.0705)
    """
    table = as_table(table)
    names = require_columns(table.kinds, table.rows, columns)
    labels = group_labels(table, names)
    frequencies = np.bincount(labels)
    people = np.maximum(np.bincount(labels, weights=_weights(table, weight, population)), frequencies)
    risks = linkage_risk(frequencies, people)[labels]
    shared = None if household is None else _household_risks(table, household, risks)
    return IndividualRisk(
        columns=names,
        rows=table.rows,
        expected=float(risks.sum()),
        largest=float(risks.max()),
        household_expected=None if shared is None else float(shared.sum()),
        frequencies=frequencies[labels],
        population_frequencies=people[labels],
        risks=risks,
        household_risks=shared,
    )


def linkage_risk(frequencies: NDArray[np.int64], people: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return E[1/F | f] for frequencies f in the sample and their estimates ΣW ≥ f in the population.

    For f = 1 it is p ln(1/p) / (1 − p), and r(f + 1) = p/(1 − p) · (1/f − r(f)), which does not amplify rounding errors
    for p ≤ ½. For larger p or f the series p Σₘ (1 − p)^m B(f, m + 1) converges fast. It is 1/f for p = 1.

    Examples
    --------
    >>> import numpy as np
    >>> linkage_risk(np.array([1, 2, 5]), np.array([17.0, 110.0, 5.0])).round(6).tolist()
    [0.177076, 0.017144, 0.2]
    """
    f, p = np.asarray(frequencies, dtype=np.float64), frequencies / people
    risks, by_series = np.empty(len(p)), (p > 0.5) | (f > LARGE)
    risks[by_series] = _series(f[by_series], p[by_series])
    rest = np.flatnonzero(~by_series)
    share = p[rest]
    risk = -share * np.log(share) / (1.0 - share)
    for size in range(1, LARGE + 1):
        here = f[rest] == size
        risks[rest[here]] = risk[here]
        risk = share / (1.0 - share) * (1.0 / size - risk)
    return risks


def _series(f: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    term, total = p / f, np.zeros(len(p))  # B(f, 1) = 1/f
    for m in range(1, TERMS + 1):
        total += term
        term = term * (1.0 - p) * m / (f + m)
    return total


def _weights(table: Table, weight: str | None, population: float | None) -> NDArray[np.float64]:
    if weight is not None and population is not None:
        raise OptionError("Give either a column of weights or a population.", found="both", fix="leave out one of them")
    if weight is not None:
        return sampling_weights(table, weight)
    return np.full(table.rows, population_of(table.rows, population) / table.rows)


def _household_risks(table: Table, household: str, risks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 − Π (1 − risk) over the members of each row's household; a missing household is the row alone."""
    coded = table.coded(household)
    missing = coded.values.is_null().to_numpy(zero_copy_only=False)[coded.codes]
    homes = np.where(missing, coded.size + np.arange(table.rows), coded.codes)
    with np.errstate(divide="ignore"):
        logs = np.log1p(-risks)
    together: NDArray[np.float64] = -np.expm1(np.bincount(homes, weights=logs)[homes])
    return together
