"""Generalize promises for the table that the user has: a random sample of the population, cut at its own quantiles.

In thirteen universes of 200,000 people a sample is released, and the share of its rows that match at least k people is
counted in the universe itself. The promise is made with 95 % confidence, so it may be broken in one release of twenty:
the number of broken promises must lie inside its binomial limits. The control is the estimate that takes the sample's
shares as the population's, which breaks the promise plainly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from sfumato.engines.memory.engine import MemorySurvey
from sfumato.methods.generalize import population as population_matches
from sfumato.methods.generalize import quasi_recodings
from sfumato.methods.generalize.joint_search import least_lossy
from sfumato.methods.generalize.method import Generalize
from sfumato.methods.recodings.buckets import Buckets
from sfumato.methods.recodings.group_rules import GroupRules
from sfumato.randomness import Randomness
from sfumato.schema.schema import Schema
from sfumato.table.table import Table

PEOPLE = 200_000
ALLOWED = 0.05  # share of releases in which the promise may be broken


def independent(draw):
    return [draw.random(PEOPLE) for _ in range(3)]


def correlated(draw):
    common = draw.normal(size=PEOPLE)
    return [draw.normal(size=PEOPLE) + 0.6 * common for _ in range(3)]


def nearly_equal(draw):
    common = draw.normal(size=PEOPLE)
    return [0.3 * draw.normal(size=PEOPLE) + common for _ in range(3)]


def clustered(draw):
    centres = 4.0 * draw.normal(size=(12, 3))
    return list((centres[draw.integers(0, 12, PEOPLE)] + draw.normal(size=(PEOPLE, 3))).T)


def heavy_tailed(draw):
    return [draw.pareto(1.1, PEOPLE) for _ in range(3)]


def functional(draw):
    x = draw.random(PEOPLE)
    return [x, np.sin(6.0 * x) + 0.05 * draw.normal(size=PEOPLE), draw.random(PEOPLE)]


def zipf(draw):
    return [np.minimum(draw.zipf(1.5, PEOPLE), 200).astype(str) for _ in range(4)]


def with_binary_columns(draw):
    return [draw.normal(size=PEOPLE), draw.normal(size=PEOPLE), draw.random(PEOPLE) < 0.3, draw.random(PEOPLE) < 0.5]


def five_columns(draw):
    common = draw.normal(size=PEOPLE)
    return [draw.normal(size=PEOPLE) + 0.5 * common for _ in range(5)]


def whole_numbers(draw):
    age = draw.integers(0, 90, PEOPLE)
    return [age, age // 10 * 3 + draw.integers(0, 2, PEOPLE), draw.integers(0, 50, PEOPLE)]


def with_trees(draw):
    """Codes that mostly follow from a hidden class, with trees: here the search chooses by the joint counts."""
    hidden = draw.integers(0, 6, PEOPLE)
    sizes = (64, 16, 16, 8, 4, 2, 2)
    return [np.where(draw.random(PEOPLE) < 0.85, hidden * size // 6, draw.integers(0, size, PEOPLE)) for size in sizes]


def skewed_with_trees(draw):
    """Columns like those of a census: frequent values, rare ones, and columns that follow from each other."""
    age = np.minimum(draw.gamma(3.0, 13.0, PEOPLE).astype(int), 90)
    job = np.minimum(age // 10 + draw.geometric(0.7, PEOPLE) - 1, 13)
    place, sector = np.minimum(draw.zipf(2.5, PEOPLE), 40), np.minimum(draw.geometric(0.6, PEOPLE), 8)
    return [age, job, place, sector, sector * 2 + (draw.random(PEOPLE) < 0.1), draw.integers(0, 2, PEOPLE)]


def mostly_agreeing(draw):
    """Two columns that agree in most rows, and are independent in the others: few large cells, and many thin ones."""
    first = draw.integers(0, 60, PEOPLE).astype(float)
    return [first, np.where(draw.random(PEOPLE) < 0.86, first, draw.integers(0, 60, PEOPLE))]


STEPS = {"role": "quasi", "tree": "steps:2,4,8,16,32,64"}
ROLES = {
    with_trees: {f"c{place}": STEPS for place in range(7)},
    skewed_with_trees: {f"c{place}": STEPS for place in range(6)},
}

UNIVERSES = [
    with_trees,
    skewed_with_trees,
    independent,
    correlated,
    nearly_equal,
    clustered,
    heavy_tailed,
    functional,
    zipf,
    with_binary_columns,
    five_columns,
    whole_numbers,
    mostly_agreeing,
]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was stated of a release, and what is true."""

    stated: float
    true: float


def drawn(universe, seed: int, rows: int):
    """A universe, the positions of a sample of it, and the sample."""
    draw = np.random.default_rng(seed)
    people = pa.table({f"c{place}": pa.array(cells) for place, cells in enumerate(universe(draw))})
    chosen = draw.choice(PEOPLE, rows, replace=False)
    return people, chosen, Table.from_arrow(people.take(pa.array(chosen)))


def planned(universe, table: Table, seed: int, **options):
    schema = Schema.for_table(table, dict.fromkeys(table.names, "quasi") | ROLES.get(universe, {}))
    return Generalize(population=PEOPLE, **options).plan(MemorySurvey(table), schema, Randomness(seed))


def granularity(universe, seed: int, *, budget: str) -> float:
    _, _, table = drawn(universe, seed, 5_000)
    return planned(universe, table, seed, k=50, beta=0.05, budget=budget).notes["granularity"]


def tried(universe, seed: int, *, rows: int, k: int, beta: float) -> Outcome:
    people, chosen, table = drawn(universe, seed, rows)
    plan = planned(universe, table, seed, k=k, beta=beta)
    shown = {recoding.name: recoding for recoding in plan.recodings}
    cell = np.zeros(PEOPLE, dtype=np.int64)
    for name in table.names:
        codes = codes_of(shown.get(name), people.column(name), table.kinds[name])
        cell = np.unique(cell * (int(codes.max()) + 2) + codes, return_inverse=True)[1]
    true = float((np.bincount(cell)[cell[chosen]] >= k).mean())
    return Outcome(stated=plan.notes["share of rows that match k people, at least"], true=true)


def codes_of(recoding, cells: pa.ChunkedArray, kind) -> np.ndarray:
    """What would be shown for each person of the universe; somebody whose value the sample lacks matches nobody."""
    if recoding is None:
        return np.asarray(cells.combine_chunks().dictionary_encode().indices)
    if isinstance(recoding, Buckets):
        return recoding.codes(Table(pa.table({recoding.name: cells}), {recoding.name: kind}))
    shown = dict(zip(recoding.distinct.values.to_pylist(), recoding.cells.to_pylist(), strict=True))
    words = {word: number for number, word in enumerate(dict.fromkeys(shown.values()), start=1)}
    coded = cells.combine_chunks().dictionary_encode()
    codes = np.array([words[shown[value]] if value in shown else 0 for value in coded.dictionary.to_pylist()])
    return codes[np.asarray(coded.indices)]


def promise_is_kept(outcomes: list[Outcome], beta: float) -> bool:
    broken = sum(outcome.true < 1.0 - beta for outcome in outcomes)
    return broken <= binom.ppf(0.999, len(outcomes), ALLOWED)


def all_outcomes(seeds: int, rows: int, k: int, beta: float) -> list[Outcome]:
    return [tried(universe, seed, rows=rows, k=k, beta=beta) for universe in UNIVERSES for seed in range(seeds)]


def check(outcomes: list[Outcome], beta: float) -> None:
    assert promise_is_kept(outcomes, beta)
    above = sum(outcome.stated > outcome.true for outcome in outcomes)
    assert above <= binom.ppf(0.999, len(outcomes), ALLOWED), "what is stated must not be above the truth"


def test_the_promise_holds_for_samples_cut_at_their_own_quantiles():
    check(all_outcomes(2, rows=1_000, k=20, beta=0.1), 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "k", "beta"), [(1_000, 20, 0.1), (5_000, 50, 0.05)])
def test_the_promise_holds_in_twenty_samples_of_each_universe(rows, k, beta):
    check(all_outcomes(20, rows=rows, k=k, beta=beta), beta)


def test_taking_the_samples_shares_as_the_populations_breaks_the_promise(monkeypatch):
    """The control: no sampling error of the shares, and the largest A that is not refuted."""

    def plug_in(self, k):
        tried_weights, likelihood = self._weights
        return self.share(float(tried_weights[likelihood >= likelihood.max() - 2.0][-1]), k)

    monkeypatch.setattr(population_matches._CellModel, "lower_limit", plug_in)
    monkeypatch.setattr(population_matches._Mixture, "probabilities", lambda self, k: np.ones(len(self.counts)))
    exact = population_matches._CellModel.of
    monkeypatch.setattr(
        population_matches._CellModel,
        "of",
        classmethod(lambda cls, *given: without_error(exact(*given))),
    )
    outcomes = [tried(independent, seed, rows=1_000, k=20, beta=0.1) for seed in range(6)]
    assert not promise_is_kept(outcomes, 0.1)
    assert all(outcome.stated > outcome.true for outcome in outcomes)


def test_the_promise_holds_where_rows_are_of_two_kinds():
    check([tried(mostly_agreeing, seed, rows=3_000, k=80, beta=0.1) for seed in range(3)], 0.1)


def test_one_prior_for_both_kinds_breaks_the_promise(monkeypatch):
    """The control: thin cells are judged by a prior that is wide enough for the large ones."""
    model = population_matches._CellModel
    monkeypatch.setattr(model, "lower_limit", model._gamma_limit)
    monkeypatch.setattr(population_matches._Mixture, "probabilities", lambda self, k: np.ones(len(self.counts)))
    outcomes = [tried(mostly_agreeing, seed, rows=3_000, k=80, beta=0.1) for seed in range(3)]
    assert not promise_is_kept(outcomes, 0.1)


def test_choosing_by_the_samples_joint_counts_alone_breaks_the_promise(monkeypatch):
    """The control of the search: the best recoding if the joint counts of the sample are taken for the population's."""

    def unproven(columns, population, passes):
        return least_lossy(columns, GroupRules(k=2), 0.1)  # the least that the counts can tell: a second row

    monkeypatch.setattr(quasi_recodings, "refine_by_tests", unproven)
    monkeypatch.setattr(quasi_recodings.BudgetedColumns, "_are_enough", lambda *_: True)
    chosen = [
        tried(universe, seed, rows=1_000, k=600, beta=0.1)
        for universe in (with_trees, skewed_with_trees)
        for seed in range(3)
    ]
    assert not promise_is_kept(chosen, 0.1)


def test_the_search_uses_the_joint_counts_of_a_sample():
    """What the test above would not see: a search that is never used keeps every promise."""
    joint, paper = (granularity(skewed_with_trees, 0, budget=budget) for budget in ("joint", "exact"))
    assert joint > paper + 0.05


def without_error(model):
    object.__setattr__(model, "relative_variance", np.zeros(len(model.counts)))
    return model
