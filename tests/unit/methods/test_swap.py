"""Swapping: every column keeps its values, rows are exchanged where the kind says, and nothing else."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.memory.engine import Memory, MemorySurvey
from sfumato.errors import CannotRelease, OptionError, TableError
from sfumato.methods.swap import KINDS, Swap
from sfumato.methods.swap_rows import (
    between_near_ranks,
    between_subsets,
    clusters,
    households_between_blocks,
    random_subsets,
    within_groups,
)
from sfumato.plan.claims.kept_statistics import CorrelationsKept, ExcessSums, MarginalsKept, SubsetMeansKept
from sfumato.plan.plan import Evidence
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.encoder import Encoder
from sfumato.table.table import Table

METHODS = [
    *(Swap(kind=kind, window=0.4) for kind in KINDS if kind not in ("within-classes", "targeted")),
    Swap(kind="rank", window=0.4, share=0.5),
    Swap(kind="targeted", columns=("city",), classes=("sex",)),
]
METHODS += [Swap(kind="within-classes", classes=("sex",)), sf.Shuffle(), sf.Shuffle(given=("sex",))]


def transformed(method, table):
    schema = Schema(tuple(Column(name=name, role=Role.QUASI) for name in table.names))
    return method.plan(MemorySurvey(table), schema, Randomness(3)).transform(table, 0)


@st.composite
def tables(draw):
    rows = draw(st.integers(3, 40))
    column = lambda values: st.lists(st.none() | values, min_size=rows, max_size=rows)  # noqa: E731
    return Table.from_arrow(
        pa.table(
            {
                "x": pa.array(draw(column(st.floats(-1e9, 1e9))), pa.float64()),
                "n": pa.array(draw(column(st.integers(-3, 3))), pa.int64()),
                "city": pa.array(draw(column(st.sampled_from(["a", "b", "c", "d"]))), pa.string()),
                "sex": pa.array(draw(column(st.sampled_from(["f", "m"]))), pa.string()),
                "day": pa.array(draw(column(st.integers(0, 9999))), pa.int32()).cast(pa.date32()),
                "member": pa.array(draw(column(st.booleans())), pa.bool_()),
            }
        )
    )


@pytest.mark.parametrize("method", METHODS, ids=lambda one: f"{one.name} {getattr(one, 'kind', one)}")
@settings(max_examples=25, deadline=None)
@given(table=tables())
def test_marginals_are_exact_for_every_table(method, table):
    outcome = transformed(method, table)
    for name in table.names:
        before, after = (sorted(map(str, one.arrow.column(name).to_pylist())) for one in (table, outcome.released))
        assert before == after, name
    assert sorted(outcome.origin.tolist()) == list(range(table.rows))
    for name in (*getattr(method, "classes", ()), *getattr(method, "given", ())):
        assert outcome.released.arrow.column(name).equals(table.take(outcome.origin).arrow.column(name)), "it stays"
    assert MarginalsKept(columns=table.names).measure(Evidence(table, outcome.released, outcome.origin)).held


def test_other_marginals_are_found_out():
    """Control of the claim: one changed value, or two values in other numbers, are seen in one block and in many."""
    table = Table.from_arrow(pa.table({"x": [1.0, 2.0, 2.0, None], "c": ["a", "a", "b", None]}))
    for wrong in ({"x": [1.0, 1.0, 2.0, None]}, {"c": ["a", "b", "b", None]}, {"x": [1.0, 2.0, 2.0, 0.0]}):
        other = Table(pa.table(table.arrow.to_pydict() | wrong, schema=table.arrow.schema), table.kinds)
        claim = MarginalsKept(columns=table.names)
        assert not claim.measure(Evidence(table, other, np.arange(4))).held
        halves = [claim.tally(Evidence(table.take(rows), other.take(rows), np.arange(2))) for rows in ([0, 1], [2, 3])]
        assert not claim.finding(claim.merge(*halves)).held


class TestExchanges:
    @given(st.integers(1, 60), st.integers(1, 5), st.sampled_from([1.0, 0.5]), st.integers(0, 10**6))
    def test_within_groups_no_row_keeps_its_own_cell(self, rows, groups, share, seed):
        draw = np.random.default_rng(seed)
        labels = draw.integers(0, groups, rows)
        source = within_groups(labels, share, draw)
        assert sorted(source.tolist()) == list(range(rows))
        assert np.array_equal(labels[source], labels)
        if share == 1.0:
            sizes = np.bincount(labels)[labels]
            assert np.array_equal(source == np.arange(rows), sizes == 1)

    @given(st.integers(3, 80), st.integers(1, 10), st.sampled_from([1.0, 0.3]), st.integers(0, 10**6))
    def test_ranks_move_no_farther_than_the_window(self, rows, window, share, seed):
        draw = np.random.default_rng(seed)
        values = draw.permutation(rows)  # each value is its rank
        source = between_near_ranks(values, window, share, draw)
        assert np.abs(values[source] - values).max() <= window
        assert sorted(source.tolist()) == list(range(rows))

    def test_a_share_of_the_rows_takes_part(self):
        draw = np.random.default_rng(1)
        values = draw.permutation(20_000)
        for source in (between_near_ranks(values, 500, 0.3, draw), within_groups(np.zeros(20_000, int), 0.3, draw)):
            assert (source != np.arange(20_000)).mean() == pytest.approx(0.3, abs=0.02)

    @given(st.integers(4, 60), st.integers(2, 4), st.integers(0, 10**6))
    def test_subsets_of_the_same_size_exchange_equal_ranks(self, rows, count, seed):
        draw = np.random.default_rng(seed)
        labels = random_subsets(rows, count, draw)
        assert len(set(np.bincount(labels[labels >= 0]).tolist())) == 1
        assert (labels < 0).sum() == rows % count
        values = draw.permutation(rows)
        source = between_subsets(values, labels, draw)
        assert sorted(source.tolist()) == list(range(rows))
        if rows % count == 0:
            for label in range(count):
                own = np.flatnonzero(labels == label)
                assert (labels[source[own]] == (label + 1) % count).all()
                assert np.array_equal(np.argsort(values[own]), np.argsort(values[source[own]])), "ranks are kept"


@pytest.fixture(scope="module")
def people():
    draw = np.random.default_rng(0)
    sex = draw.integers(0, 2, 4000)
    x = draw.normal(size=4000) + 2.0 * sex
    return pd.DataFrame({"sex": np.where(sex > 0, "f", "m"), "x": x, "y": 0.8 * x + 0.6 * draw.normal(size=4000)})


class TestRelations:
    def released(self, people, **options):
        return sf.Swap(**options).release(people, schema=dict.fromkeys(people, "quasi"), seed=1).to_pandas()

    def test_a_plain_swap_keeps_none(self, people):
        assert abs(self.released(people, kind="plain")[["x", "y"]].corr().iloc[0, 1]) < 0.06

    def test_classes_keep_relations_with_one_other_column(self, people):
        swapped = self.released(people, kind="within-classes", classes=("sex",))
        for column in ("x", "y"):
            before, after = (one.groupby("sex")[column].mean() for one in (people, swapped))
            assert after.to_numpy() == pytest.approx(before.to_numpy())
        within = swapped[swapped.sex == "f"][["x", "y"]].corr().iloc[0, 1]
        assert abs(within) < 0.1, "those of two other columns are lost"

    @pytest.mark.parametrize("kind", ["rank", "within-clusters", "between-subsets"])
    def test_similar_cells_keep_correlations(self, people, kind):
        swapped = self.released(people, kind=kind, window=0.05)
        assert swapped[["x", "y"]].corr().iloc[0, 1] == pytest.approx(people[["x", "y"]].corr().iloc[0, 1], abs=0.05)

    def test_a_window_is_a_share_and_not_a_percentage(self, people):
        shift = []
        for window in (0.02, 0.2):
            table = Table.from_arrow(pa.table({"x": people.x.to_numpy()}))
            outcome = transformed(Swap(window=window), table)
            ranks = np.argsort(np.argsort(people.x.to_numpy()))
            moved = np.searchsorted(np.sort(people.x.to_numpy()), outcome.released.numbers("x")) - ranks[outcome.origin]
            assert np.abs(moved).max() <= window * len(people)
            shift.append(np.abs(moved).mean())
        assert shift[1] > 5.0 * shift[0]

    def test_clusters_have_the_asked_size(self, people):
        table = Table.from_arrow(pa.Table.from_pandas(people))
        labels = clusters(Encoder.fit(table).encode(table), 7)
        sizes = np.bincount(labels)
        assert sizes.min() >= 7
        assert sizes.max() < 14


class TestRefusals:
    @pytest.mark.parametrize(
        "options",
        [
            {"window": 0.0},
            {"window": 10.0},
            {"share": 0.0},
            {"classes": ("sex",)},
            {"kind": "within-classes"},
            {"kind": "within-classes", "classes": "sex"},
            {"kind": "odd"},
        ],
        ids=str,
    )
    def test_options_that_exchange_nothing_or_mean_something_else(self, options):
        with pytest.raises(OptionError):
            Swap(**options)

    def test_a_window_without_a_rank(self):
        with pytest.raises(CannotRelease, match="window"):
            sf.Swap(window=0.01).release({"x": range(50)}, schema={"x": "quasi"})

    def test_classes_in_which_everybody_is_alone(self):
        people = {"id": range(50), "x": range(50)}
        with pytest.raises(CannotRelease, match="unaltered"):
            sf.Swap(kind="within-classes", classes=("id",)).release(people, schema={"id": "quasi", "x": "quasi"})

    def test_all_columns_given_an_unknown_one_and_free_text(self):
        people = {"x": range(200), "text": [f"word {row}" for row in range(200)]}
        with pytest.raises(CannotRelease, match="must move"):
            sf.Shuffle(given=("x",)).release({"x": range(50)}, schema={"x": "quasi"})
        with pytest.raises(OptionError, match="'z'"):
            sf.Shuffle(given=("z",)).release({"x": range(50)}, schema={"x": "quasi"})
        with pytest.raises(TableError, match="text"):
            sf.Swap().release(people, schema={"x": "quasi", "text": {"role": "quasi", "kind": "text"}})


class TestTargeted:
    """Only people who are alone are moved, each with somebody of the same class."""

    @staticmethod
    def people(rows=600):
        draw = np.random.default_rng(2)
        return Table.from_arrow(
            pa.table(
                {
                    "block": draw.choice(["a", "b", "c", "d"], rows),
                    "size": draw.integers(1, 4, rows),
                    "age": draw.integers(20, 80, rows),
                    "income": draw.normal(size=rows),
                }
            )
        )

    def moved(self, **options):
        people = self.people()
        schema = Schema.for_table(people, {"block": "quasi", "size": "quasi", "age": "quasi", "income": "sensitive"})
        method = Swap(kind="targeted", columns=("block",), classes=("size",), **options)
        outcome = method.plan(MemorySurvey(people), schema, Randomness(3)).transform(people, 0)
        before = people.to_pandas()
        after = outcome.released.to_pandas().set_index(outcome.origin).sort_index()
        alone = before.groupby(["block", "size", "age"])["age"].transform("size") == 1
        return before, after, alone.to_numpy(), (before["block"] != after["block"]).to_numpy()

    def test_nearly_all_who_are_alone_get_another_block(self):
        before, after, alone, moved = self.moved()
        assert 100 < alone.sum() < 500
        assert moved[alone].mean() > 0.95
        assert moved[~alone].mean() < moved[alone].mean()  # partners need not be alone
        assert before.drop(columns="block").equals(after.drop(columns="block"))

    def test_counts_of_blocks_and_classes_are_kept(self):
        before, after, _, _ = self.moved()
        counts = [one.groupby(["block", "size"]).size() for one in (before, after)]
        assert counts[0].equals(counts[1])
        with_age = [one.groupby(["block", "age"]).size() for one in (before, after)]
        assert not with_age[0].equals(with_age[1])  # control: other counts change

    def test_a_share_takes_part(self):
        few, all_of_them = (self.moved(share=share)[3].sum() for share in (0.2, 1.0))
        assert 0 < few < 0.5 * all_of_them

    def test_columns_belong_to_this_kind(self):
        for options in (
            {"columns": ("x",)},
            {"kind": "targeted"},
            {"kind": "targeted", "columns": ("x",), "basis": "svd"},
        ):
            with pytest.raises(OptionError):
                Swap(**options)


class TestCorrelations:
    """The largest change of a correlation is within the limit, in one block and in many."""

    @staticmethod
    def numbers(rows=400):
        draw = np.random.default_rng(4)
        common = draw.normal(size=rows)
        columns = {name: common + draw.normal(scale=0.5, size=rows) for name in "xyz"}
        return pa.table({**columns, "city": draw.choice(["a", "b"], rows)})

    @staticmethod
    def change(table, release):
        before, after = (np.corrcoef([one.numbers(name) for name in "xyz"]) for one in (table, release.table))
        return np.abs(before - after).max()

    @pytest.mark.parametrize("engine", [Memory(), Memory(block_rows=200, sample_rows=150)])
    def test_is_within_the_limit(self, engine):
        table = self.numbers()
        schema = dict.fromkeys(table.column_names, "quasi")
        free, held = (
            Swap(window=0.5, correlations=limit).release(table, schema=schema, seed=1, engine=engine)
            for limit in (None, 0.02)
        )
        table = Table.from_arrow(table)
        assert self.change(table, held) <= 0.02 < self.change(table, free)  # the last one is the control
        (promise,) = [one for one in held.findings if "correlations" in one.claim]
        assert promise.held
        assert held.manifest.notes["columns with correlations kept"] == ["x", "y", "z"]

    def test_the_claim_sees_a_larger_change(self):
        table = Table.from_arrow(self.numbers())
        draw = np.random.default_rng(7)
        shuffled = {name: draw.permutation(table.numbers(name)) for name in "xyz"}
        evidence = Evidence(Table.from_arrow(pa.table(shuffled)), table, np.arange(table.rows))
        claim = CorrelationsKept(columns=("x", "y", "z"), change=0.1)
        assert not claim.finding(claim.tally(evidence)).held
        same = Evidence(table, table, np.arange(table.rows))
        assert claim.finding(claim.tally(same)).held

    def test_a_limit_that_cannot_be_kept_is_refused(self):
        with pytest.raises(CannotRelease, match="at most"):
            Swap(correlations=1e-9).release(self.numbers(), schema=dict.fromkeys(("x", "y", "z", "city"), "quasi"))
        with pytest.raises(CannotRelease, match="two numeric"):
            Swap(correlations=0.1).release(self.numbers().select(["x", "city"]), schema={"x": "quasi", "city": "quasi"})
        with pytest.raises(OptionError):
            Swap(kind="plain", correlations=0.1)


class TestSubsetMeans:
    """The change of the mean of any subset is within the limit, in one block and in many."""

    @staticmethod
    def numbers(rows=400):
        draw = np.random.default_rng(4)
        return pa.table(
            {"x": draw.normal(size=rows), "y": draw.lognormal(size=rows), "c": draw.choice(["a", "b"], rows)}
        )

    @staticmethod
    def worst(changes, share):
        """The mean of the largest changes: no other subset of this size, or larger, has a larger mean."""
        count = int(np.ceil(share * len(changes)))
        return max(np.sort(side)[-count:].mean() for side in (changes, -changes))

    def test_a_bound_is_that_of_the_worst_subset(self):
        draw = np.random.default_rng(1)
        changes = draw.normal(size=(8, 1))
        every = [
            abs(changes[list(chosen), 0].mean())
            for size in range(4, 9)
            for chosen in itertools.combinations(range(8), size)
        ]
        assert self.worst(changes[:, 0], 0.5) == pytest.approx(max(every))
        fine = np.linspace(0.0, 3.0, 30_001)
        assert ExcessSums.of(changes, fine).bound(0.5) == pytest.approx(max(every), abs=1e-3)
        coarse = ExcessSums.of(changes, np.linspace(0.0, 3.0, 4)).bound(0.5)
        assert coarse >= max(every) - 1e-12  # few levels bound it as well, less tightly

    @pytest.mark.parametrize("engine", [Memory(), Memory(block_rows=200, sample_rows=150)])
    def test_is_within_the_limit(self, engine):
        table = self.numbers()
        schema = dict.fromkeys(table.column_names, "quasi")
        held, free = (
            Swap(window=0.4, subset_means=limit, subset=0.2).release(table, schema=schema, engine=engine)
            for limit in (0.3, None)
        )
        finding = next(one for one in held.findings if "over any 0.2" in one.claim)
        assert finding.held
        assert not [one for one in free.findings if "over any" in one.claim]

    def test_changes_of_the_released_rows_are_what_was_promised(self):
        table = Table.from_arrow(self.numbers())
        outcome = transformed(Swap(window=0.4, subset_means=0.3, subset=0.2), table)
        other = transformed(Swap(window=0.4), table)
        for name in ("x", "y"):
            scale = table.numbers(name).std()
            moved, free = (
                (one.released.numbers(name) - table.numbers(name)[one.origin]) / scale for one in (outcome, other)
            )
            assert np.abs(moved).max() > 0.0
            assert self.worst(moved, 0.2) <= 0.3 + 1e-12
        assert self.worst(free, 0.2) > 0.3  # the control

    def test_a_release_that_breaks_it_is_found(self):
        table = Table.from_arrow(self.numbers())
        claim = SubsetMeansKept(columns=("x",), spreads=(1.0,), change=0.3, share=0.2)
        reversed_rows = Evidence(original=table, released=table.take(np.arange(400)[::-1]), origin=np.arange(400))
        assert not claim.finding(claim.tally(reversed_rows)).held
        halves = [
            Evidence(original=part, released=part, origin=np.arange(200))
            for part in (table.take(np.arange(200)), table.take(np.arange(200, 400)))
        ]
        merged = claim.merge(*(claim.tally(one) for one in halves))
        assert claim.finding(merged).held and merged.rows == 400

    def test_limits_need_ranks_and_columns(self):
        with pytest.raises(OptionError, match="rank"):
            Swap(kind="plain", subset_means=0.1)
        with pytest.raises(CannotRelease, match="needs one"):
            Swap(subset_means=0.1).release({"c": ["a", "b"] * 9}, schema={"c": "quasi"})
        with pytest.raises(CannotRelease, match="mean of a subset"):
            Swap(subset_means=1e-9, window=0.5).release({"x": np.arange(30.0)}, schema={"x": "quasi"})


class TestHouseholds:
    @staticmethod
    def people():
        draw = np.random.default_rng(2)
        homes = np.repeat(np.arange(150), draw.integers(1, 5, 150))
        return pd.DataFrame(
            {
                "home": homes,
                "town": np.array(["u", "v", "w"])[draw.integers(3, size=150)][homes],
                "sex": draw.choice(["f", "m"], len(homes)),
                "age": draw.integers(0, 90, len(homes)),
            }
        )

    def test_whole_households_move_and_counts_with_classes_stay(self):
        people = self.people()
        table = Table.from_arrow(pa.Table.from_pandas(people))
        method = Swap(kind="targeted", columns=("town",), classes=("sex",), household="home")
        schema = Schema(tuple(Column(name=name, role=Role.QUASI) for name in ("town", "sex", "age")))
        outcome = method.plan(MemorySurvey(table), schema, Randomness(3)).transform(table, 0)
        moved = outcome.released.arrow.to_pandas().assign(home=people["home"].to_numpy()[outcome.origin])
        assert "home" not in outcome.released.names
        assert (moved.groupby("home")["town"].nunique() == 1).all()  # nobody left home
        counts = people.groupby(["town", "sex"]).size()
        assert moved.groupby(["town", "sex"]).size().equals(counts)
        before = people.drop_duplicates("home").set_index("home")["town"]
        after = moved.drop_duplicates("home").set_index("home")["town"]
        share = (before.sort_index() != after.sort_index()).mean()
        assert share > 0.3
        rows = Swap(kind="targeted", columns=("town",), classes=("sex",))
        apart = rows.plan(MemorySurvey(table), schema, Randomness(3)).transform(table, 0)
        split = apart.released.arrow.to_pandas().assign(home=people["home"].to_numpy()[apart.origin])
        assert (split.groupby("home")["town"].nunique() > 1).any()  # the control: rows by themselves

    def test_partners_have_as_many_people_of_each_class(self):
        draw = np.random.default_rng(5)
        homes = np.repeat(np.arange(60), draw.integers(1, 4, 60))
        classes, people = draw.integers(2, size=len(homes)), np.arange(len(homes))
        places = draw.integers(3, size=60)[homes]
        source = households_between_blocks(homes, people, classes, places, 1.0, draw)
        assert sorted(source) == list(range(len(homes)))
        assert (classes[source] == classes).all()
        for home in range(60):
            assert len(set(homes[source[homes == home]])) == 1

    def test_a_release_in_blocks_keeps_households_together(self):
        table = pa.Table.from_pandas(self.people())
        roles = {"home": "household", "town": "quasi", "sex": "quasi", "age": "quasi"}
        method = Swap(kind="targeted", columns=("town",), classes=("sex",), household="home")
        release = method.release(table, schema=roles, engine=Memory(block_rows=120, sample_rows=100))
        assert release.table.rows == table.num_rows and "home" not in release.table.names
        with pytest.raises(OptionError, match="targeted"):
            Swap(household="home")
