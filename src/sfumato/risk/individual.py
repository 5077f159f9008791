"""The risk of each row: linkage from sampling weights (Benedetti and Franconi 1998), and special uniques (SUDA).

An intruder knows that a person of the population has certain values, and f rows of the sample have them. The number of
people of the population with them, F, is not known. Its estimate is the sum of the weights of the f rows, so that
p = f / ΣW is the share of them that was sampled. Given f, F is negative binomial, and the risk of each row is
E[1/F | f] = p ∫₀¹ u^(f−1) / (p + (1 − p) u) du.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import OptionError
from sfumato.params import require_int, require_probability
from sfumato.plan.claims.risk import share_risks
from sfumato.risk.anonymity_budget import population_ends
from sfumato.risk.group_models import sampling_weights
from sfumato.risk.knowledge import Precision, coarsen
from sfumato.risk.uniqueness import population_of, require_columns
from sfumato.sources.frames import as_table
from sfumato.table.coding import Coded
from sfumato.table.groups import group_labels, refine
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
    expected_interval : tuple of float
        ``expected`` if there are more and if there are fewer people with the values of each row than were counted, by
        the share that may be wrong.
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
    expected_interval: tuple[float, float] = (0.0, 0.0)

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
    knows: Mapping[str, Precision] | None = None,
    count_error: float = 0.0,
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
    knows : mapping of str to precision, optional
        How precisely the intruder knows some columns; see :func:`sfumato.uniqueness`. Default: as the table has them.
    count_error : float, default 0.0
        Share, from 0 to below 1, by which the weights or the population may be wrong.

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
    labels = group_labels(coarsen(table, knows), names)
    frequencies = np.bincount(labels)
    people = np.maximum(np.bincount(labels, weights=_weights(table, weight, population)), frequencies)
    risks = linkage_risk(frequencies, people)[labels]
    shared = None if household is None else _household_risks(table, household, risks)
    population_ends(1, count_error, at_least=1)  # raises if it is no share
    ends = (np.maximum(people * (1.0 + sign * count_error), frequencies) for sign in (1.0, -1.0))
    fewer, more = (float((linkage_risk(frequencies, one) * frequencies).sum()) for one in ends)
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
        expected_interval=(fewer, more),
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
    return share_risks(homes, risks)


# Special uniques: rows that few columns already single out (SUDA; Elliot, Manning and Ford 2002).
#
# A set of columns is a minimal sample unique (MSU) of a row if the row is unique in these columns, and not unique in
# any smaller set of them. Rows with many and small MSUs are more likely to be unique in the population, too, and
# therefore at a higher risk. A row that is unique in some columns is unique in more columns, so only rows that are
# unique in all columns have MSUs, and a row that is unique in a set needs not be looked at in larger sets.


MOST_SETS = 20_000  # column sets that are looked at


@dataclass(frozen=True, kw_only=True, eq=False)
class SpecialUniques:
    """Which rows are singled out by few columns, returned by :func:`sfumato.special_uniques`.

    Attributes
    ----------
    columns : tuple of str
        The quasi-identifiers.
    rows : int
        Rows of the table.
    unique_rows : int
        Rows that are unique in all columns together.
    sets_by_size : tuple of int
        Number of minimal sample uniques of 1, 2, … columns, over all rows.
    contributions : mapping of str to float
        For each column, the share of the total score that is due to minimal sample uniques with this column.
    sampling_fraction : float
        Share of the population that is in the table, which ``dis_scores`` assume.
    scores : array of float, shape (rows,)
        SUDA score of each row: the sum of (m − s)! over its minimal sample uniques, where s is their size and m the
        number of columns; 0 for a row that is not unique. Not shown by ``repr``, like the following one.
    dis_scores : array of float, shape (rows,)
        DIS-SUDA score of each row: the probability that a match with this row is correct, from 0 to 1.
    """

    columns: tuple[str, ...]
    rows: int
    unique_rows: int
    sets_by_size: tuple[int, ...]
    contributions: Mapping[str, float]
    sampling_fraction: float
    scores: NDArray[np.float64] = field(repr=False)
    dis_scores: NDArray[np.float64] = field(repr=False)


def special_uniques(
    table: Any,
    columns: Sequence[str],
    *,
    max_size: int | None = None,
    sampling_fraction: float = 0.01,
    knows: Mapping[str, Precision] | None = None,
) -> SpecialUniques:
    """Score rows by how few columns single them out (SUDA), as sdcMicro's ``suda2`` does.

    Parameters
    ----------
    table : Table, path or data frame
        The table, a sample of a population.
    columns : sequence of str
        The quasi-identifiers. A missing value is a value of its own.
    max_size : int, optional
        Largest number of columns in a minimal sample unique. Default: all columns, up to 14 of them.
    sampling_fraction : float, default 0.01
        Share of the population that is in the table, between 0 and 1, for the DIS-SUDA scores.
    knows : mapping of str to precision, optional
        How precisely the intruder knows some columns; see :func:`sfumato.uniqueness`. Default: as the table has them.

    Returns
    -------
    SpecialUniques
        The scores of all rows, and which columns contribute to them.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"sex": ["f", "f", "m", "m"], "age": [30, 30, 30, 90], "town": ["a", "a", "a", "b"]}
    >>> uniques = sf.special_uniques(people, ["sex", "age", "town"])
    >>> uniques.scores.tolist()  # the last row: age alone and town alone; the third: sex and age, sex and town
    [0.0, 0.0, 2.0, 4.0]
    >>> uniques.sets_by_size
    (2, 2, 0)
    """
    table = coarsen(as_table(table), knows)
    names = require_columns(table.kinds, table.rows, columns)
    m = len(names)
    largest = m if max_size is None else min(m, require_int(max_size, name="max_size", at_least=1))
    fraction = require_probability(sampling_fraction, name="sampling_fraction")
    _require_few_sets(m, largest)
    sizes = np.bincount(labels := group_labels(table, names))
    scores, by_column, by_size = np.zeros(table.rows), np.zeros(m), [0] * largest
    is_unique = sizes[labels] == 1
    for members, row in _minimal_uniques([table.coded(name) for name in names], is_unique, largest):
        worth = float(math.factorial(m - len(members)))
        scores[row] += worth
        by_size[len(members) - 1] += len(row)
        by_column[list(members)] += worth * len(row)
    total = float(scores.sum())
    return SpecialUniques(
        columns=names,
        rows=table.rows,
        unique_rows=int(is_unique.sum()),
        sets_by_size=tuple(by_size),
        contributions={name: float(by_column[place] / total) if total else 0.0 for place, name in enumerate(names)},
        sampling_fraction=fraction,
        scores=scores,
        dis_scores=dis_suda(scores, m, int((sizes == 1).sum()), 2 * int((sizes == 2).sum()), fraction),
    )


def dis_suda(
    scores: NDArray[np.float64], columns: int, uniques: int, paired: int, fraction: float
) -> NDArray[np.float64]:
    """Return the DIS-SUDA scores of rows with these SUDA scores (Elliot and Manning 2003, as computed by sdcMicro).

    An intruder's match with a unique row is correct with probability D = U f / (U f + P (1 − f)) on average, given U
    unique rows, P rows that are equal to just one other, and the sampling fraction f (Skinner and Elliot 2002). It is
    distributed over the rows by their scores x: 1 / (1 + (U/D − U) / (x^q Σ x^−q)), with q = 1 + (8 − columns)/20.

    Examples
    --------
    >>> import numpy as np
    >>> dis_suda(np.array([0.0, 2.0, 2.0]), columns=8, uniques=2, paired=2, fraction=0.5).tolist()  # D = ½
    [0.0, 0.5, 0.5]
    """
    scores_of_rows = np.zeros(len(scores))
    scored = scores > 0.0
    if not scored.any():
        return scores_of_rows
    power = scores[scored] ** (1.0 + (8 - columns) / 20.0)
    correct = uniques * fraction / (uniques * fraction + paired * (1.0 - fraction))
    scores_of_rows[scored] = 1.0 / (1.0 + (uniques / correct - uniques) / (power * (1.0 / power).sum()))
    return scores_of_rows


def _minimal_uniques(
    coded: Sequence[Coded], is_unique: NDArray[np.bool_], largest: int
) -> Iterator[tuple[tuple[int, ...], NDArray[np.int64]]]:
    """Yield sets of columns and the rows of which they are minimal sample uniques; each set after its subsets.

    The rows that are still in question are kept with each set: those whose group contains a row that is unique in all
    columns, and that are not unique in the set itself.
    """
    everything = np.arange(len(is_unique))
    alive: dict[tuple[int, ...], tuple[NDArray[np.int64], NDArray[np.int64]]] = {
        (): (everything, np.zeros(len(everything), dtype=np.int64))
    }
    alone: dict[tuple[int, ...], NDArray[np.bool_]] = {(): np.zeros(len(is_unique), dtype=bool)}
    for size in range(1, largest + 1):
        before, lonely = alive, alone
        alive, alone = {}, {}
        for parent, (rows, labels) in before.items():
            for column in range(parent[-1] + 1 if parent else 0, len(coded)):
                members = (*parent, column)
                known = [members[:place] + members[place + 1 :] for place in range(size)]
                if any(one not in lonely for one in known):
                    continue  # a subset singles out all candidates already
                refined = refine(labels, coded[column].codes[rows], coded[column].size)
                counts = np.bincount(refined)
                single = rows[counts[refined] == 1]
                single = single[is_unique[single]]
                earlier = np.logical_or.reduce([lonely[one] for one in known])
                new = single[~earlier[single]]
                if len(new):
                    yield members, new
                earlier[single] = True
                if size < largest and (earlier < is_unique).any():
                    asked = np.bincount(refined, weights=is_unique[rows]) > 0
                    kept = (counts[refined] > 1) & asked[refined]
                    alive[members], alone[members] = (rows[kept], refined[kept]), earlier


def _require_few_sets(columns: int, largest: int) -> None:
    sets = sum(math.comb(columns, size) for size in range(1, largest + 1))
    if sets > MOST_SETS:
        raise OptionError(
            f"At most {MOST_SETS:,} sets of columns can be searched.",
            found=f"{sets:,} sets of up to {largest} of {columns} columns",
            fix="a smaller max_size, or fewer columns",
        )
