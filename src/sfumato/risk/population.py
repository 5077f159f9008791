"""How many people of a population are unique, estimated from a sample of it.

The estimators use only the sizes of the groups of equal rows in the sample: u groups, s₁ of them with one row, s₂ with
two, …; n rows of a population of N people, of whom S₁ are unique. The sample is assumed to be a simple random one.
No estimator is good everywhere; the rule of Dankar et al. (2012) chooses one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.risk.anonymity_budget import population_ends
from sfumato.risk.knowledge import Precision, coarsen
from sfumato.risk.uniqueness import population_of, require_columns
from sfumato.sources.frames import as_table
from sfumato.table.group_counts import GroupSizes
from sfumato.table.groups import group_sizes

Estimator = Literal["pitman", "zayatz", "snb"]

PITMAN_BOUNDS = ((-20.0, 20.0), (-12.0, 20.0))  # of ln(θ + α) and ln(α/(1 − α)); beyond them sums are rounded
SMALL_FRACTION = 0.1  # sampling fraction up to which Pitman's model is used (Dankar et al. 2012)


@dataclass(frozen=True, kw_only=True)
class PopulationUniqueness:
    """How many people are unique in a population, returned by :func:`sfumato.population_uniqueness`.

    Attributes
    ----------
    columns : tuple of str
        The columns in which people may be unique.
    rows : int
        Rows of the table, which is the sample (n).
    population : int
        People of the population (N).
    unique_rows : int
        Rows that are unique in the sample (s₁).
    estimator : {"pitman", "zayatz", "snb"}
        The estimator that was chosen: Pitman's for samples of at most 10 % of the population, otherwise the smaller of
        Zayatz' and the slide negative binomial (SNB) one (Dankar et al. 2012), if that has a solution.
    unique_people : float
        Estimated number of unique people in the population, by this estimator.
    pitman, zayatz, snb : float
        Estimates of all three; that of SNB is NaN if the model has no solution.
    count_error : float
        Share by which the population may be wrong.
    unique_interval : tuple of float
        Smallest and largest ``unique_people`` by this estimator, if the population is so much smaller or larger. It
        allows for this error only, not for that of the model.
    """

    columns: tuple[str, ...]
    rows: int
    population: int
    unique_rows: int
    estimator: Estimator
    unique_people: float
    pitman: float
    zayatz: float
    snb: float
    count_error: float = 0.0
    unique_interval: tuple[float, float] = (math.nan, math.nan)

    @property
    def sampling_fraction(self) -> float:
        """Share of the population that is in the sample."""
        return self.rows / self.population

    @property
    def unique_share(self) -> float:
        """Estimated share of the population that is unique, from 0 to 1."""
        return self.unique_people / self.population

    @property
    def correct_share(self) -> float:
        """Estimated probability that a row that is unique in the sample is unique in the population, from 0 to 1.

        It is the share of correct matches if an intruder links every unique row to the person with its values.
        """
        return min(1.0, self.unique_people * self.sampling_fraction / self.unique_rows) if self.unique_rows else 0.0


def population_uniqueness(
    table: Any,
    columns: Sequence[str],
    population: float,
    *,
    knows: Mapping[str, Precision] | None = None,
    count_error: float = 0.0,
) -> PopulationUniqueness:
    """Estimate how many people of a population are unique in some columns, from a simple random sample of it.

    These are estimates under models, without a guarantee; :func:`sfumato.uniqueness` gives a bound.

    Parameters
    ----------
    table : Table, path or data frame
        The sample, one row per person.
    columns : sequence of str
        The quasi-identifiers. A missing value is a value of its own.
    population : float
        Number of people in the population, at least the rows of the table.
    knows : mapping of str to precision, optional
        How precisely the intruder knows some columns; see :func:`sfumato.uniqueness`. Default: as the table has them.
    count_error : float, default 0.0
        Share, from 0 to below 1, by which this number may be wrong.

    Returns
    -------
    PopulationUniqueness
        The estimate of the chosen estimator, and those of all three.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> rng = np.random.default_rng(1)
    >>> people = {"age": rng.poisson(40, 20_000), "town": rng.geometric(0.02, 20_000)}
    >>> sample = {name: values[:1000] for name, values in people.items()}
    >>> sf.uniqueness(people, ["age", "town"]).unique_rows
    1707
    >>> estimate = sf.population_uniqueness(sample, ["age", "town"], population=20_000)
    >>> estimate.unique_rows, estimate.estimator, round(estimate.unique_people)
    (681, 'pitman', 1989)
    """
    table = coarsen(as_table(table), knows)
    names = require_columns(table.kinds, table.rows, columns)
    people = population_of(table.rows, population)
    classes = GroupSizes.of(group_sizes(table, names))
    estimates = {name: estimate(classes, people) for name, estimate in ESTIMATORS.items()}
    smaller: Estimator = "snb" if estimates["snb"] < estimates["zayatz"] else "zayatz"  # NaN is not smaller
    estimator: Estimator = "pitman" if table.rows / people <= SMALL_FRACTION else smaller
    found = estimates[estimator]
    ends = population_ends(people, count_error, at_least=table.rows)
    others = [ESTIMATORS[estimator](classes, end) for end in ends if end != people]
    return PopulationUniqueness(
        count_error=count_error,
        unique_interval=(min([found, *others]), max([found, *others])),
        columns=names,
        rows=table.rows,
        population=people,
        unique_rows=classes.unique_rows,
        estimator=estimator,
        unique_people=estimates[estimator],
        **estimates,
    )


def zayatz_uniques(classes: GroupSizes, population: int) -> float:
    """Return s₁ · P(F = 1 | f = 1) · N/n (Zayatz 1991; Dankar et al. 2012, appendix A).

    A group of one row comes from a group of j people with a probability proportional to p_j · h(1; j), where p_j is the
    share of the groups in the sample that have size j, and h(1; j) the hypergeometric probability that just one of j
    people is sampled.
    """
    from scipy.special import gammaln

    n, alone = int(classes.sizes @ classes.groups), classes.unique_rows
    if not alone:
        return 0.0
    rest = population - classes.sizes - n + 1
    possible = classes.sizes[rest >= 0].astype(np.float64)
    logs = np.log(possible) + gammaln(population - possible + 1) - gammaln(population - possible - n + 2)
    drawn = classes.groups[rest >= 0] * np.exp(logs - logs[0])
    return float(alone * drawn[0] / drawn.sum() * population / n)


def pitman_uniques(classes: GroupSizes, population: int) -> float:
    """Return the expected number of uniques under Pitman's model of group sizes (Hoshino 2001).

    θ and α maximise the likelihood of the sample; then E[S₁] = N · Γ(θ+1) Γ(θ+α+N−1) / (Γ(θ+α) Γ(θ+N)), which is about
    Γ(θ+1)/Γ(θ+α) · N^α.
    """
    from scipy.optimize import minimize
    from scipy.special import gammaln

    n, u = int(classes.sizes @ classes.groups), classes.count
    if not classes.unique_rows:
        return 0.0
    if u == n:
        return float(population)  # the likelihood increases towards α = 1, where everybody is unique

    def unlikelihood(place: NDArray[np.float64]) -> float:
        theta, alpha = _pitman_parameters(place)
        if theta < 1e5 * alpha:
            grown = (u - 1) * math.log(alpha) + gammaln(theta / alpha + u) - gammaln(theta / alpha + 1)
        else:  # the difference of two large numbers would be rounded
            grown = np.log(theta + alpha * np.arange(1, u)).sum()
        filled = classes.groups @ (gammaln(classes.sizes - alpha) - gammaln(1 - alpha))
        return float(gammaln(theta + n) - gammaln(theta + 1) - grown - filled)

    start = [math.log(u), 0.0]
    fitted = minimize(unlikelihood, start, method="Nelder-Mead", bounds=PITMAN_BOUNDS, options={"maxiter": 2000})
    theta, alpha = _pitman_parameters(fitted.x)
    logs = gammaln(theta + 1) - gammaln(theta + alpha) + gammaln(theta + alpha + population - 1)
    return float(population * math.exp(logs - gammaln(theta + population)))


def _pitman_parameters(place: NDArray[np.float64]) -> tuple[float, float]:
    """Return θ > −α and 0 < α < 1 of a place in the plane."""
    alpha = 1.0 / (1.0 + math.exp(-place[1]))
    return math.exp(place[0]) - alpha, alpha


def snb_uniques(classes: GroupSizes, population: int) -> float:
    """Return the number of uniques under the slide negative binomial model (Chen and Keller-McNulty 1998).

    Each of K groups of the population has 1 + X people, where X is negative binomial with parameters a and b. The three
    parameters reproduce the people of the population, N = K (1 + a (1 − b)/b), and the expected numbers of groups and
    of groups of one row in the sample, with G(s) = E[s^X] = (b / (1 − (1 − b) s))^a at s = 1 − n/N:
    u = K (1 − s G(s)) and s₁ = K (n/N) (G(s) + s G′(s)). Then S₁ = K b^a.
    """
    from scipy.optimize import least_squares
    from scipy.special import expit

    n, u, alone = int(classes.sizes @ classes.groups), classes.count, classes.unique_rows
    fraction = n / population
    if not alone:
        return 0.0
    if n in (population, u):  # nothing to estimate: everybody is known, or everybody is unique
        return float(alone if n == population else population)

    def parts(place: NDArray[np.float64]) -> tuple[float, float, float]:
        a, b = math.exp(place[0]), float(expit(place[1]))
        groups = population / (1.0 + a * (1.0 - b) / b)
        step = 1.0 - (1.0 - b) * (1.0 - fraction)
        empty = math.exp(a * (math.log(b) - math.log(step)))  # G(s)
        one = empty * (1.0 + (1.0 - fraction) * a * (1.0 - b) / step)
        return groups * (1.0 - (1.0 - fraction) * empty), groups * fraction * one, groups * b**a

    def errors(place: NDArray[np.float64]) -> NDArray[np.float64]:
        groups, single, _ = parts(place)
        return np.array([groups / u - 1.0, single / alone - 1.0])

    starts = [np.array([x, y]) for x in (-4.0, -1.0, 1.0) for y in (-6.0, -3.0, 0.0)]
    fitted = min(
        (least_squares(errors, start, bounds=([-40.0, -40.0], [12.0, 30.0])) for start in starts),
        key=lambda one: float(one.cost),
    )
    return parts(fitted.x)[2] if fitted.cost < 1e-8 else math.nan


ESTIMATORS: dict[Estimator, Callable[[GroupSizes, int], float]] = {
    "pitman": pitman_uniques,
    "zayatz": zayatz_uniques,
    "snb": snb_uniques,
}
