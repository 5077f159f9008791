"""Synthesis: every kind keeps to the contract, and keeps what it says that it keeps."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance import test_methods as conformance

import sfumato as sf
from sfumato.engines.memory.engine import Memory
from sfumato.errors import CannotRelease, OptionError, TableError
from sfumato.methods.synthesize.method import MODELS
from sfumato.methods.synthesize.ranks import correlation_root
from sfumato.methods.synthesize.tables import mutual_information
from sfumato.methods.synthesize.trees import correlation_ratios, first_axis
from sfumato.methods.synthesize.variables import Donors, average_neighbours
from sfumato.table.table import Table

KINDS = tuple(MODELS)
mixed, weighted = conformance.mixed, conformance.weighted


@pytest.fixture(params=KINDS)
def method(request):
    return sf.Synthesize(kind=request.param, k=4)


def unique_people(members: int) -> tuple[Table, Table]:
    """Members and as many outsiders of a population in which ages and categories depend on each other."""
    draw, rows = np.random.default_rng(5), 2 * members
    group = draw.integers(0, 6, rows)
    columns = {"age": 20 + 8 * group + draw.integers(0, 20, rows)}
    for name in "abcd":
        columns[name] = (group + draw.choice(6, rows, p=[0.6, 0.2, 0.1, 0.05, 0.03, 0.02])) % 8
    table = Table.from_arrow(pa.table({n: v if n == "age" else v.astype(str) for n, v in columns.items()}))
    return table.take(np.arange(members)), table.take(np.arange(members, rows))


def presence_gap(rows: set, members: Table, outsiders: Table) -> float:
    """How much more often rows of unique members occur than those of unique outsiders, in standard errors."""
    sides = [list(side.arrow.to_pandas().itertuples(index=False, name=None)) for side in (members, outsiders)]
    count = Counter(sides[0] + sides[1])
    found = [np.array([row in rows for row in side if count[row] == 1]) for side in sides]
    share = np.concatenate(found).mean()
    error = np.sqrt(share * (1.0 - share) * sum(1.0 / len(side) for side in found))
    return float((found[0].mean() - found[1].mean()) / error)


class TestReleases(conformance.TestReleases):
    """The conformance tests, for every kind."""


class TestOddTables(conformance.TestOddTables):
    """The same for tables that are hard to model."""


class TestCertainty(conformance.TestCertainty):
    """The same for estimates."""


class TestSamplingWeights(conformance.TestSamplingWeights):
    """The same for sampling weights."""


def people(rows: int = 1500, seed: int = 0) -> Table:
    """Numbers that depend on each other and on categories, zeros, and missing values that come together."""
    draw = np.random.default_rng(seed)
    sex, age = draw.choice(["f", "m"], rows), draw.integers(18, 90, rows)
    income = np.exp(8.0 + 0.02 * age + 0.3 * draw.normal(size=rows))
    gain = np.where(draw.random(rows) < 0.8, 0.0, draw.lognormal(8.0, 1.0, rows))
    job = np.where(
        draw.random(rows) < 0.9, np.where(age > 60, "retired", np.where(sex == "f", "nurse", "cook")), "none"
    )
    lost = draw.random(rows) < 0.2
    return Table.from_arrow(
        pa.table(
            {
                "age": age,
                "income": pa.array(np.where(lost, np.nan, income), from_pandas=True),
                "gain": pa.array(np.where(lost, np.nan, gain), from_pandas=True),
                "sex": sex,
                "job": job,
            }
        )
    )


ROLES = dict.fromkeys(people(2).names, "quasi")


def synthetic(table: Table, roles=None, seed: int = 1, **options) -> Table:
    return sf.Synthesize(**options).release(table, schema=roles or dict.fromkeys(table.names, "quasi"), seed=seed).table


def shares(table: Table, *names: str) -> dict[tuple, float]:
    rows = list(zip(*(table.arrow.column(name).to_pylist() for name in names), strict=True))
    return {value: rows.count(value) / len(rows) for value in set(rows)}


def distance(one: dict, other: dict) -> float:
    """Total variation."""
    return 0.5 * sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys())


@pytest.mark.parametrize("kind", KINDS)
class TestEveryKind:
    def test_columns_have_their_names_kinds_and_types(self, kind):
        table = people(300)
        made = synthetic(table, kind=kind)
        assert made.kinds == table.kinds
        assert made.arrow.schema.types == table.arrow.schema.types

    def test_distributions_are_about_those_of_the_original(self, kind):
        table = people()
        made = synthetic(table, kind=kind)
        assert distance(shares(table, "sex"), shares(made, "sex")) < 0.05
        assert distance(shares(table, "job"), shares(made, "job")) < 0.06
        for name in ("age", "income"):
            before, after = table.numbers(name), made.numbers(name)
            assert abs(np.nanmean(after) - np.nanmean(before)) < 0.12 * np.nanstd(before)
            assert 0.85 < np.nanstd(after) / np.nanstd(before) < 1.15

    def test_missing_values_come_as_a_pattern_and_zeros_stay_zeros(self, kind):
        table = people()
        made = synthetic(table, kind=kind)
        lost = np.isnan(made.numbers("income")), np.isnan(made.numbers("gain"))
        assert 0.15 < lost[0].mean() < 0.25
        chance = lost[0].mean() * lost[1].mean()  # 0.04 if columns lost their values independently
        assert (lost[0] & lost[1]).mean() > 3.0 * chance or kind == "tables"
        zeros = made.numbers("gain")[~lost[1]] == 0.0
        assert 0.7 < zeros.mean() < 0.9

    def test_no_end_of_a_released_range_is_one_persons_number(self, kind):
        draw = np.random.default_rng(3)
        numbers = np.append(draw.normal(size=400), [900.0, -900.0])
        made = synthetic(
            Table.from_arrow(pa.table({"x": numbers, "y": np.append(draw.normal(size=400), [0.1, 0.2])})), kind=kind
        )
        assert made.numbers("x").max() < 300.0
        assert made.numbers("x").min() > -300.0

    def test_the_promises_hold_in_blocks_from_a_sample(self, kind):
        engine = Memory(sample_rows=300, block_rows=400)
        release = sf.Synthesize(kind=kind).release(people(), schema=ROLES, seed=2, engine=engine)
        assert all(finding.held for finding in release.findings)
        assert release.table.rows == 1500

    def test_rows_of_unique_members_are_as_frequent_as_those_of_unique_outsiders(self, kind):
        members, outsiders = unique_people(members=4000)
        method = sf.Synthesize(kind=kind, order=2, imputations=3, proper=kind == "trees")
        release = method.release(members, schema=dict.fromkeys(members.names, "quasi"), seed=1)
        rows = set(release.table.select(members.names).arrow.to_pandas().itertuples(index=False, name=None))
        gap = presence_gap(rows, members, outsiders)
        assert abs(gap) < 4.0
        without = rows - set(members.arrow.to_pandas().itertuples(index=False, name=None))
        assert presence_gap(without, members, outsiders) < -4.0  # control: rows of members are filtered

    def test_several_tables_are_told_apart_by_a_column(self, kind):
        method, engine = sf.Synthesize(kind=kind, imputations=3, proper=True), Memory(block_rows=250)
        release = method.release(people(500), schema=ROLES, seed=1, engine=engine)
        assert release.table.rows == 1500
        assert release.manifest.suppressed == 0
        assert shares(release.table, "imputation") == {(number,): pytest.approx(1 / 3) for number in range(3)}
        assert np.isfinite(sf.combined_estimate(release, "mean(age)").standard_error)


class TestWhatIsKept:
    """Each kind keeps what it says, and a kind that does not say so does not."""

    @pytest.fixture
    def exclusive(self):
        """Two coins, and a number that depends on whether they agree: no pair of columns shows it."""
        draw = np.random.default_rng(7)
        coins = draw.integers(0, 2, (2, 2000))
        number = np.where(coins[0] == coins[1], 1.0, -1.0) + 0.1 * draw.normal(size=2000)
        return Table.from_arrow(pa.table({"a": coins[0].astype(str), "b": coins[1].astype(str), "x": number}))

    def gap(self, table: Table) -> float:
        agree = table.coded("a").codes == table.coded("b").codes
        return float(table.numbers("x")[agree].mean() - table.numbers("x")[~agree].mean())

    def test_trees_keep_relations_of_three_columns_and_copulas_do_not(self, exclusive):
        assert self.gap(synthetic(exclusive, kind="trees")) > 1.7
        assert abs(self.gap(synthetic(exclusive, kind="copula"))) < 0.3

    def test_trees_find_the_related_column_among_more_than_a_tree_uses(self):
        numbers = np.random.default_rng(8).normal(size=(2000, 40))
        columns = {f"v{place}": numbers[:, place] for place in range(40)}
        columns["bent"] = numbers[:, 5] ** 2 + 0.1 * numbers[:, 6]
        made = synthetic(Table.from_arrow(pa.table(columns)), kind="trees")
        squares = made.numbers("v5") ** 2
        assert np.corrcoef(squares, made.numbers("bent"))[0, 1] > 0.8
        assert abs(np.corrcoef(made.numbers("v7") ** 2, made.numbers("bent"))[0, 1]) < 0.1  # control

    def test_relations_are_seen_whatever_their_shape(self):
        draw = np.random.default_rng(9)
        numbers, noise = draw.normal(size=(2, 5000))
        by_value = np.argsort(np.argsort(numbers)) // 250
        by_size = np.argsort(np.argsort(np.abs(numbers))) // 250
        columns = np.column_stack([numbers, noise])
        assert correlation_ratios(columns, by_value)[0] > 0.95
        assert correlation_ratios(columns, by_size)[0] > 0.9
        assert correlation_ratios(columns, by_value)[1] < 0.02
        assert correlation_ratios(np.ones((len(numbers), 1)), by_value).tolist() == [0.0]

    def test_tables_keep_the_joint_distribution_of_as_many_columns_as_their_order(self):
        coins = np.random.default_rng(6).integers(0, 2, (2, 4000)).astype(bool)
        columns = {"a": coins[0].astype(str), "b": coins[1].astype(str), "both": (coins[0] & coins[1]).astype(str)}
        table = Table.from_arrow(pa.table(columns))
        before = shares(table, *table.names)
        assert distance(before, shares(synthetic(table, kind="tables", order=3), *table.names)) < 0.04
        assert distance(before, shares(synthetic(table, kind="tables", order=2), *table.names)) > 0.08

    def test_latin_hypercubes_have_the_quantiles_and_rank_correlations_of_the_table(self):
        from scipy.stats import spearmanr

        draw = np.random.default_rng(1)
        x = draw.gamma(2.0, size=1000)
        table = Table.from_arrow(pa.table({"x": x, "y": x**2 + draw.gamma(1.0, size=1000)}))
        made = synthetic(table, kind="latin-hypercube")
        quantiles = np.linspace(0.05, 0.95, 19)
        assert np.allclose(np.quantile(made.numbers("x"), quantiles), np.quantile(x, quantiles), rtol=0.01)
        before = spearmanr(x, table.numbers("y")).statistic
        assert abs(spearmanr(made.numbers("x"), made.numbers("y")).statistic - before) < 0.02

    @pytest.mark.parametrize(("order", "kept"), [(1, False), (2, True)])
    def test_maximum_entropy_keeps_moments_of_its_order(self, order, kept):
        draw = np.random.default_rng(2)
        x = draw.normal(size=(2000, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
        table = Table.from_arrow(
            pa.table({"x": x[:, 0], "y": x[:, 1], "c": np.where(x[:, 0] + draw.normal(size=2000) > 0, "high", "low")})
        )
        made = synthetic(table, kind="max-entropy", order=order)
        correlation = np.corrcoef(made.numbers("x"), made.numbers("y"))[0, 1]
        assert (abs(correlation - 0.8) < 0.05) == kept
        high = np.asarray(made.arrow.column("c").to_pylist()) == "high"
        by_category = made.numbers("x")[high].mean() - made.numbers("x")[~high].mean()
        assert (by_category > 0.9) == kept

    def test_maximum_entropy_keeps_the_variance_of_numbers_that_fill_their_range(self):
        """A normal distribution that is cut to the range would have a smaller variance than uniform numbers."""
        uniform = np.random.default_rng(4).random(3000)
        table = Table.from_arrow(pa.table({"x": uniform}))
        spread = synthetic(table, kind="max-entropy").numbers("x").std()
        assert abs(spread - 12.0**-0.5) < 0.02

    def test_pairs_of_categories_are_kept_by_tables_and_by_maximum_entropy(self):
        draw = np.random.default_rng(9)
        a = draw.integers(0, 4, 3000)
        b = np.where(draw.random(3000) < 0.6, a, draw.integers(0, 4, 3000))
        table = Table.from_arrow(pa.table({"a": a.astype(str), "b": b.astype(str)}))
        before = shares(table, "a", "b")
        for kind in ("tables", "max-entropy"):
            assert distance(before, shares(synthetic(table, kind=kind), "a", "b")) < 0.06
            assert distance(before, shares(synthetic(table, kind=kind, order=1), "a", "b")) > 0.2

    def test_clusters_keep_a_curve_that_maximum_entropy_loses(self):
        draw = np.random.default_rng(8)
        x = draw.uniform(-2.0, 2.0, 2000)
        table = Table.from_arrow(pa.table({"x": x, "y": x**2 + 0.1 * draw.normal(size=2000)}))

        def curve(made: Table) -> float:
            return float(np.corrcoef(made.numbers("x") ** 2, made.numbers("y"))[0, 1])

        assert curve(synthetic(table, kind="clusters")) > 0.95
        assert abs(curve(synthetic(table, kind="max-entropy"))) < 0.3


class TestRefusals:
    def test_moments_above_order_two(self):
        with pytest.raises(OptionError, match="order 1 or 2"):
            sf.Synthesize(kind="max-entropy", order=3)

    def test_a_column_called_imputation(self):
        table = pa.table({"imputation": np.arange(50.0), "x": np.arange(50.0)})
        with pytest.raises(CannotRelease, match="imputation"):
            synthetic(Table.from_arrow(table), imputations=2)
        assert "imputation" in synthetic(Table.from_arrow(table)).names


class TestDonors:
    @given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0.0, 1.0))
    def test_quantiles_lie_between_the_ends_and_follow_a_slow_twin(self, values, share):
        donors = Donors.of(np.array(values), np.zeros(len(values), np.int64), 1)
        found = donors.numbers(np.zeros(1, np.int64), np.array([share]))[0]
        assert found == pytest.approx(self.slow(sorted(values), share), rel=1e-9, abs=1e-9)
        assert min(values) <= found <= max(values)

    @staticmethod
    def slow(values: list[float], share: float) -> float:
        place, last = share * len(values) - 0.5, len(values) - 1
        place = -place if place < 0.0 else place
        place = 2.0 * last - place if place > last else place
        place = max(0.0, place)
        below = int(place)
        return values[below] + (place - below) * (values[min(below + 1, last)] - values[below])

    def test_groups_are_drawn_from_their_own_values(self):
        draw = np.random.default_rng(0)
        groups = draw.integers(0, 5, 500)
        donors = Donors.of(groups * 10.0 + draw.random(500), groups, 5)
        wanted = draw.integers(0, 5, 200)
        assert (donors.numbers(wanted, draw.random(200)) // 10 == wanted).all()
        assert (donors.codes(wanted, draw) // 10 == wanted).all()

    def test_drawn_numbers_have_the_mean_and_are_no_one_elses(self):
        values = np.random.default_rng(1).normal(size=2000)
        donors = Donors.of(values, np.zeros(2000, np.int64), 1)
        drawn = donors.numbers(np.zeros(50_000, np.int64), np.random.default_rng(2).random(50_000))
        assert abs(drawn.mean() - values.mean()) < 0.02
        assert not np.isin(drawn, values).any()


class TestNeighbours:
    @given(
        st.lists(st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6)), min_size=1, max_size=40),
        st.integers(2, 12),
    )
    def test_numbers_are_means_of_k_neighbours_in_the_same_order(self, numbers, k):
        values = np.array(numbers)
        averaged = average_neighbours(values, k)
        order = np.argsort(values, kind="stable")
        assert (np.diff(averaged[order]) >= -1e-9).all()
        assert averaged.min() >= values.min()
        assert averaged.max() <= values.max()
        windows = [np.sort(values)[first:][:k].mean() for first in range(max(1, len(values) - k + 1))]
        for number, found in zip(values, averaged, strict=True):
            shared = (values == number).sum() >= k
            assert found == number if shared else np.isclose(windows, found, rtol=1e-9, atol=1e-9).any()

    @pytest.mark.parametrize(("averaged", "leaks"), [(True, False), (False, True)])
    def test_a_drawn_number_is_that_of_a_member_no_more_often_than_of_an_outsider(self, averaged, leaks):
        draw, gaps = np.random.default_rng(4), []
        for _ in range(40):
            members, outsiders = draw.integers(0, 20_000, (2, 1000)).astype(float)
            numbers = average_neighbours(members, 20) if averaged else members
            donors = Donors.of(numbers, np.zeros(1000, np.int64), 1)
            drawn = donors.numbers(np.zeros(1000, np.int64), draw.random(1000)).round()
            gaps.append(np.isin(drawn, members).mean() - np.isin(drawn, outsiders).mean())
        assert (np.mean(gaps) > 4.0 * np.std(gaps) / np.sqrt(40)) == leaks


class TestPieces:
    def test_a_root_gives_the_nearest_correlations(self):
        wanted = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])  # no three columns can have these
        root = correlation_root(wanted)
        assert np.allclose(np.diag(root @ root.T), 1.0)
        possible = np.array([[1.0, 0.5], [0.5, 1.0]])
        assert np.allclose(correlation_root(possible) @ correlation_root(possible).T, possible)

    def test_the_first_axis_orders_rows_by_the_share_of_the_second_of_two_columns(self):
        table = np.array([[9.0, 1.0], [2.0, 8.0], [5.0, 5.0]])
        order = np.argsort(first_axis(table))
        assert order.tolist() in ([0, 2, 1], [1, 2, 0])

    def test_mutual_information_follows_its_definition_and_is_about_zero_by_chance(self):
        draw = np.random.default_rng(0)
        one, other = draw.integers(0, 3, 4000), draw.integers(0, 4, 4000)
        assert abs(mutual_information(one * 4 + other, one, other)) < 0.003
        assert mutual_information(one * 3 + one, one, one) == pytest.approx(np.log(3.0), abs=0.01)

    def test_a_plan_can_be_pickled_with_every_kind(self):
        for kind in KINDS:
            method = sf.Synthesize(kind=kind)
            assert pickle.loads(pickle.dumps(method)) == method


def test_a_mixture_has_rows_of_all_its_models():
    """The relation of two columns is one that tables of one column at a time do not know."""
    draw = np.random.default_rng(2)
    x = draw.normal(size=1500)
    people = {"x": x, "y": x + 0.1 * draw.normal(size=1500)}
    gaps = {
        kind: np.abs(np.subtract(*(made.table.numbers(name) for name in "xy")))
        for kind in ("trees", "tables", "mixture")
        if (made := sf.Synthesize(kind=kind, order=1).release(people, schema=dict.fromkeys(people, "quasi"), seed=1))
    }
    apart = {kind: float(np.mean(gap > 0.6)) for kind, gap in gaps.items()}
    assert apart["trees"] < 0.1 and apart["tables"] > 0.5
    assert apart["mixture"] == pytest.approx(apart["tables"] / 3.0, abs=0.1)


PARTLY = {"age": "quasi", "income": "quasi", "sex": "sensitive"}


def combinations(table: Table, *names: str) -> Counter:
    """How often each combination of values occurs."""
    return Counter(zip(*(table.arrow.column(name).to_pylist() for name in names), strict=True))


class TestPartialSynthesis:
    """Some columns or rows are drawn, and the others are those of the original."""

    @staticmethod
    def people(rows=800):
        draw = np.random.default_rng(8)
        age = np.minimum(20 + draw.geometric(0.05, rows), 95)
        income = np.where(draw.random(rows) < 0.1, np.nan, 900.0 + 50.0 * age + draw.normal(0, 90, rows))
        sex = draw.choice(["f", "m"], rows)
        return Table.from_arrow(pa.table({"age": age, "income": pa.array(income, from_pandas=True), "sex": sex}))

    @pytest.mark.parametrize("proper", [False, True])
    def test_columns_are_drawn_given_the_others(self, proper):
        people = self.people()
        release = sf.Synthesize(columns=("income",), proper=proper).release(people, schema=PARTLY, seed=1)
        both = (people, release.table)
        assert combinations(people, "age", "sex") == combinations(release.table, "age", "sex")
        age, income = release.table.numbers("age"), release.table.numbers("income")
        known = ~np.isnan(income)
        assert np.corrcoef(age[known], income[known])[0, 1] > 0.9
        pairs = [combinations(one, "age", "income") for one in both]
        assert sum((pairs[0] & pairs[1]).values()) < 0.3 * people.rows  # control: incomes are not those of the people
        assert release.manifest.notes["synthetic columns"] == ["income"]
        assert release.manifest.guarantee == "no guarantee"

    def test_only_rows_that_are_alone_are_drawn(self):
        people = self.people()
        release = sf.Synthesize(rows="unique").release(
            people, schema={**PARTLY, "income": "sensitive", "sex": "quasi"}, seed=1
        )
        alone = sum(count == 1 for count in combinations(people, "age", "sex").values())
        assert 0 < alone < people.rows // 2
        rows = [combinations(one, *people.names) for one in (people, release.table)]
        assert people.rows - alone <= sum((rows[0] & rows[1]).values()) < people.rows

    def test_several_tables_are_combined_by_the_rule_of_partially_synthetic_data(self):
        people = self.people()
        method = sf.Synthesize(columns=("income",), imputations=3, proper=True)
        release = method.release(people, schema=PARTLY, seed=1)
        assert release.table.rows == 3 * people.rows
        estimate = sf.combined_estimate(release, "mean(income)")
        assert estimate.rule == "partial"
        assert estimate.value == pytest.approx(np.nanmean(people.numbers("income")), rel=0.02)

    def test_only_trees_can_be_partial(self):
        with pytest.raises(OptionError, match="trees"):
            sf.Synthesize(kind="copula", columns=("income",))
        with pytest.raises(TableError, match="no column 'height'"):
            sf.Synthesize(columns=("height",)).release(self.people(), schema=PARTLY)

    def test_quasi_identifiers_that_all_stay_are_refused(self):
        with pytest.raises(CannotRelease, match="unaltered"):
            sf.Synthesize(columns=("sex",)).release(self.people(), schema=PARTLY)
