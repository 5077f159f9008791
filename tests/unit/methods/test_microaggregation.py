"""Microaggregation: groups, what is released for them, and what is promised."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.memory.engine import Memory
from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.base import make_method, method_class
from sfumato.methods.microaggregate import grouping
from sfumato.methods.microaggregate.clustering import (
    _draw_clusters,
    _two_extremes,
    fuzzy_groups,
    in_cells,
    pair_groups,
    spanning_tree_groups,
    ward_groups,
)
from sfumato.methods.microaggregate.grouping import (
    RowGrouping,
    group_means,
    group_medians,
    line_groups,
    row_groups,
    squared_error,
)
from sfumato.methods.microaggregate.method import KINDS
from sfumato.methods.recodings.group_rules import SensitiveColumn, SensitiveRule
from sfumato.sources.frames import as_table

pytestmark = pytest.mark.filterwarnings("ignore:A seed is a secret")
JOINT = [kind for kind in KINDS if kind not in ("each-column", "optimal-1d")]
ROUNDS = sf.SearchBudget(rounds=1)


def people(rows: int = 120) -> pd.DataFrame:
    numbers = np.random.default_rng(4)
    income = numbers.lognormal(10, 1, rows)
    income[numbers.random(rows) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "age": numbers.integers(18, 90, rows),
            "income": income,
            "city": numbers.choice(["Ulm", "Rom", "Oslo", None], rows),
            "born": pd.Timestamp("2000-01-01") + pd.to_timedelta(numbers.integers(0, 9000, rows), unit="D"),
            "illness": numbers.choice(["flu", "cold"], rows),
        }
    )


ROLES = {"age": "quasi", "income": "quasi", "city": "quasi", "born": "quasi", "illness": "sensitive"}
QUASI = [name for name, role in ROLES.items() if role == "quasi"]


def smallest(frame: pd.DataFrame, names: list[str]) -> int:
    return int(frame.groupby(names, dropna=False).size().min())


def options(kind: str) -> dict[str, object]:
    return {"search": ROUNDS} if kind == "search" else {}


class TestPromises:
    @pytest.mark.parametrize("values", ["mean", "median", "range"])
    @pytest.mark.parametrize("kind", JOINT)
    def test_rows_share_their_released_values_with_k_others(self, kind, values):
        release = sf.Microaggregate(k=4, kind=kind, values=values, **options(kind)).release(
            people(), schema=ROLES, seed=1
        )
        released = release.table.to_pandas()
        shown = [name for name in released if name not in ("illness", "box")]
        assert smallest(released, shown) >= 4
        assert release.manifest.guarantee.startswith("4-anonymous in age, income, city, born")

    @pytest.mark.parametrize("kind", ["each-column", "optimal-1d"])
    def test_columns_alone_are_anonymous_and_nothing_more_is_promised(self, kind):
        release = sf.Microaggregate(k=4, l=1, kind=kind).release(people(), schema=ROLES, seed=1)
        released = release.table.to_pandas()
        assert min(smallest(released, [name]) for name in QUASI) >= 4
        assert smallest(released, QUASI) < 4
        assert release.manifest.guarantee.endswith("each column by itself")

    def test_draws_promise_nothing_and_keep_every_column(self):
        release = sf.Microaggregate(k=4, l=1, values="draw").release(people(), schema=ROLES, seed=1)
        assert release.manifest.guarantee == "no guarantee"
        before = as_table(people())
        for name in QUASI:
            cells = (table.arrow.column(name).to_pylist() for table in (before, release.table))
            assert len({tuple(sorted(map(str, column))) for column in cells}) == 1

    def test_one_column_alone_is_anonymous_whatever_the_kind(self):
        release = sf.Microaggregate(k=3, kind="optimal-1d").release({"x": [1, 2, 3, 9, 9, 10]}, schema={"x": "quasi"})
        assert release.manifest.guarantee == "3-anonymous in x"
        assert sorted(release.table.numbers("x").tolist()) == pytest.approx([2.0] * 3 + [28 / 3] * 3)

    def test_ranges_hold_every_value_and_so_do_estimates(self):
        release = sf.Microaggregate(k=4, values="range").release(people(), schema=ROLES, seed=1)
        estimate = release.estimate("mean(age)")
        assert estimate.low <= people()["age"].mean() <= estimate.high
        assert np.isfinite(estimate.high)
        assert {"age_low", "age_high", "income_missing", "box"} <= set(release.table.names)

    def test_means_are_kept(self):
        ages = sf.Microaggregate(k=4).release(people(), schema=ROLES, seed=1).table.numbers("age")
        assert ages.mean() == pytest.approx(people()["age"].mean())

    @pytest.mark.parametrize("kind", JOINT)
    def test_blocks_of_neighbours_keep_the_promise(self, kind):
        engine = Memory(sample_rows=300, block_rows=200)
        release = sf.Microaggregate(k=3, kind=kind, **options(kind)).release(
            people(600), schema=ROLES, seed=1, engine=engine
        )
        assert smallest(release.table.to_pandas(), QUASI) >= 3

    def test_a_block_with_one_sensitive_value_is_refused_however_many_groups_it_has(self):
        rule = SensitiveRule(column="illness", l=2, l_kind="distinct", c=1.0, t=None, distance="equal")
        ill = SensitiveColumn(rule=rule, codes=np.zeros(12, np.int32), values=pa.array(["flu", "cold"]))
        with pytest.raises(CannotRelease, match="fewer values of 'illness' in a block"):
            row_groups(np.arange(12.0)[:, None], 3, "mdav", np.random.default_rng(0), sensitive=[ill])


class TestOptions:
    def test_the_name_of_the_class_is_accepted_for_that_of_the_registry(self):
        assert method_class("microaggregate") is method_class("mdav") is method_class("Microaggregate")
        assert make_method("mdav", k=3).kind == "mdav"

    @pytest.mark.parametrize("wrong", [{"search": 1}, {"values": "range"}])
    def test_columns_alone_have_neither_ranges_nor_a_search(self, wrong):
        with pytest.raises(OptionError, match="whole rows"):
            sf.Microaggregate(k=3, kind="each-column", **wrong)

    def test_a_search_has_a_time_limit_of_its_own(self):
        assert sf.Microaggregate(k=3, kind="search").search == sf.SearchBudget(seconds=10)
        assert sf.Microaggregate(k=3, kind="tree", search=2).search == sf.SearchBudget(seconds=2)
        assert sf.Microaggregate(k=3).search is None

    def test_fewer_than_k_rows_are_refused(self):
        with pytest.raises(CannotRelease, match="k = 3"):
            sf.Microaggregate(k=3).release({"x": [1, 2]}, schema={"x": "quasi"})

    def test_names_of_ranges_must_be_free(self):
        table = {"x": [1.0, 2.0, 3.0], "box": [1, 2, 3]}
        with pytest.raises(OptionError, match="'box'"):
            sf.Microaggregate(k=3, values="range").release(table, schema={"x": "quasi", "box": "other"})

    @pytest.mark.parametrize("role", ["quasi", "other"])
    def test_a_column_called_box_is_refused_beside_the_numbers_of_boxes(self, role):
        frame = pd.DataFrame({"box": np.arange(20.0), "x": np.arange(20.0)})
        with pytest.raises(sf.SfumatoError, match="'box' already in the table"):
            sf.Microaggregate(k=5, values="range").release(frame, schema={"box": role, "x": "quasi"})


class TestSearch:
    def test_it_is_reported_and_better_than_its_start(self):
        method = sf.Microaggregate(k=4, kind="search", search=sf.SearchBudget(rounds=4))
        (trace,) = method.release(people(), schema=ROLES, seed=1).diagnostics.searches
        assert trace.rounds == 4
        assert trace.after < trace.before

    @pytest.mark.parametrize("few", [0, 10_000])
    def test_it_starts_from_the_better_groups(self, monkeypatch, few):
        """MDAV is tried in a small table only; the tree always, because it takes hardly any time."""
        monkeypatch.setattr(grouping, "FEW", few)
        points, generator = np.random.default_rng(2).normal(size=(1500, 4)), np.random.default_rng(1)
        found = row_groups(points, 5, "search", generator, budget=sf.SearchBudget(rounds=1)).trace.searches[0].before
        each = {
            k: grouping.squared_error(points, grouping.GROUPINGS[k](points, 5, generator)) for k in ("mdav", "tree")
        }
        assert found == pytest.approx(min(each.values()) if few else each["tree"])

    def test_an_interrupt_ends_it_and_keeps_the_best(self):
        def press(progress):
            raise KeyboardInterrupt

        method = sf.Microaggregate(k=4, search=sf.SearchBudget(rounds=1000, progress=press))
        release = method.release(people(), schema=ROLES, seed=1)
        (trace,) = release.diagnostics.searches
        assert (trace.stop, trace.rounds) == ("interrupted", 1)
        assert smallest(release.table.to_pandas(), QUASI) >= 4

    def test_a_large_table_has_neighbours_in_cells(self, monkeypatch):
        from sfumato.methods.microaggregate import grouping as search

        monkeypatch.setattr(search, "FEW", 100)
        monkeypatch.setattr(search, "CELL", 128)
        points = np.random.default_rng(1).normal(size=(600, 3))
        found = row_groups(points, 3, "mdav", np.random.default_rng(1), budget=sf.SearchBudget(rounds=2))
        assert np.bincount(found.groups.labels).min() >= 3
        assert found.trace.searches[0].gain > 0.02


class TestDefectsOfOthers:
    """What other programs get wrong (``-999`` taken for missing, wrong means beside missing cells)."""

    def test_no_number_means_missing(self):
        release = sf.Microaggregate(k=3).release({"x": [-999.0, -998.0, -997.0]}, schema={"x": "quasi"})
        assert release.table.numbers("x").tolist() == [-998.0] * 3

    def test_missing_cells_do_not_count_in_a_mean(self):
        release = sf.Microaggregate(k=3).release({"x": [4.0, 5.0, None]}, schema={"x": "quasi"})
        assert release.table.numbers("x").tolist() == [4.5] * 3

    def test_mostly_missing_cells_are_released_as_missing(self):
        release = sf.Microaggregate(k=3).release({"x": [4.0, None, None], "y": [1, 2, 3]}, schema={"x": "quasi"})
        assert np.isnan(release.table.numbers("x")).all()

    def test_a_row_with_a_missing_cell_is_not_alone(self):
        table = {"x": [1.0, 1.0, 1.0, 1.0, 1.0, None]}
        assert len(set(map(str, sf.Microaggregate(k=3).release(table, schema={"x": "quasi"}).table.numbers("x")))) <= 2


class TestValues:
    @given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.1, 0.3, 7.0, np.nan])), min_size=1, max_size=30))
    def test_means_and_medians_are_those_of_pandas(self, cells):
        labels = np.unique([label for label, _ in cells], return_inverse=True)[1]
        numbers = np.array([number for _, number in cells])
        leaves = RowGrouping(labels).runs
        by_group = pd.Series(numbers).groupby(labels)
        enough = by_group.count() * 2 >= by_group.size()
        assert np.allclose(group_means(numbers, leaves), by_group.mean().where(enough), equal_nan=True)
        assert np.allclose(group_medians(numbers, leaves), by_group.median().where(enough), equal_nan=True)

    def test_the_most_frequent_category_is_released(self):
        table = {"c": ["a", "a", "b", "b", "b", "c"], "x": [1, 1, 1, 9, 9, 9]}
        release = sf.Microaggregate(k=3).release(table, schema={"c": "quasi", "x": "quasi"})
        assert sorted(release.table.arrow.column("c").to_pylist()) == ["a"] * 3 + ["b"] * 3


class TestGroupings:
    @settings(max_examples=30)
    @given(st.integers(0, 1000), st.integers(2, 40), st.integers(2, 6), st.sampled_from([*JOINT]))
    def test_groups_have_at_least_k_rows(self, seed, rows, k, kind):
        if rows < k:
            return
        points = np.random.default_rng(seed).integers(0, 4, (rows, 2)).astype(float)
        found = row_groups(points, k, kind, np.random.default_rng(1), budget=ROUNDS if kind == "search" else None)
        assert np.bincount(found.groups.labels).min() >= k

    def test_optimal_groups_lose_less_than_groups_of_k(self):
        values = np.random.default_rng(1).lognormal(size=200)
        losses = [
            squared_error(values[:, None], line_groups(values, 5, kind)) for kind in ("optimal-1d", "each-column")
        ]
        assert losses[0] < losses[1]
        assert np.bincount(line_groups(values, 7, "each-column")).min() >= 7

    def test_a_projection_loses_more_than_neighbours(self):
        points = np.random.default_rng(1).normal(size=(500, 4))
        loss = {
            kind: squared_error(points, row_groups(points, 5, kind, np.random.default_rng(1)).groups.labels)
            for kind in ("mdav", "vmdav", "projection", "single", "fuzzy")
        }
        assert max(loss["mdav"], loss["vmdav"], loss["fuzzy"]) < min(loss["projection"], loss["single"])

    def test_fuzzy_clusters_that_are_apart_stay_apart(self):
        points = np.repeat([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]], 5, axis=0)
        points += np.random.default_rng(1).normal(size=points.shape)
        labels = fuzzy_groups(points, 5, np.random.default_rng(2))
        assert squared_error(points, labels) < 100.0

    def test_a_drawn_cluster_is_that_of_the_memberships(self):
        shares = np.tile([0.7, 0.0, 0.3], (20_000, 1))
        drawn = np.bincount(_draw_clusters(shares, np.random.default_rng(1)), minlength=3) / len(shares)
        assert drawn[1] == 0.0 and abs(drawn[0] - 0.7) < 0.02
        assert _draw_clusters(np.zeros((3, 2)), np.random.default_rng(1)).tolist() == [0, 0, 0]

    def test_drawn_clusters_lose_more_and_have_as_many_rows(self):
        points = np.random.default_rng(1).normal(size=(400, 3))
        fuzzy, drawn = (fuzzy_groups(points, 5, np.random.default_rng(2), drawn=one) for one in (False, True))
        assert squared_error(points, drawn) > squared_error(points, fuzzy)
        assert np.bincount(drawn).min() >= 5


class TestGraphs:
    """Groups by a spanning tree and by Ward's method."""

    @pytest.mark.parametrize("grouping", [spanning_tree_groups, ward_groups])
    def test_clumps_are_found(self, grouping):
        draw = np.random.default_rng(3)
        clump = draw.permutation(np.repeat(np.arange(6), [5, 6, 7, 5, 6, 9]))
        points = 100.0 * np.column_stack([np.cos(clump), np.sin(clump)]) + draw.normal(size=(len(clump), 2))
        labels = grouping(points, 5)
        assert len(np.unique(np.column_stack([clump, labels]), axis=0)) == 6 == labels.max() + 1

    @pytest.mark.parametrize("grouping", [spanning_tree_groups, pair_groups, ward_groups])
    @pytest.mark.parametrize("rows", [8, 37, 700])
    def test_groups_have_k_to_2k_rows(self, grouping, rows, monkeypatch):
        monkeypatch.setattr("sfumato.methods.microaggregate.clustering.ALL_PAIRS", 300)
        points = np.random.default_rng(4).normal(size=(rows, 3)).round(1)  # some rows are equal
        sizes = np.bincount(in_cells(grouping, points, 4))
        assert sizes.min() >= 4 and sizes.max() < 8 and sizes.sum() == rows

    def test_pairs_are_nearly_those_of_the_best_matching(self):
        """The slow twin tries all matchings of ten rows."""

        def best(rows):
            if not rows:
                return 0.0
            first, *others = rows
            return min(
                error(points, np.array([first, one])) + best([row for row in others if row != one]) for one in others
            )

        for seed in range(5):
            points = np.random.default_rng(seed).normal(size=(10, 2))
            labels = pair_groups(points, 2)
            assert np.bincount(labels).tolist() == [2] * 5
            found = sum(error(points, np.flatnonzero(labels == one)) for one in range(5))
            assert best(list(range(10))) - 1e-9 <= found <= 1.3 * best(list(range(10)))

    def test_a_triangular_mesh_gives_the_groups_of_the_spanning_tree(self):
        """TL §2.3.4: the longest edges of a mesh are removed, unless that leaves a group of fewer than k rows.

        The slow twin does it with the Delaunay mesh. The shortest tree is a part of this mesh, and an edge that is no
        part of the tree never connects two groups when its turn comes.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components
        from scipy.spatial import Delaunay

        points = np.random.default_rng(8).normal(size=(60, 2))
        edges = np.unique(
            np.sort(Delaunay(points).simplices[:, [[0, 1], [0, 2], [1, 2]]].reshape(-1, 2), axis=1), axis=0
        )
        length = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
        kept = np.ones(len(edges), dtype=bool)

        def parts():
            one, other = edges[kept].T
            return connected_components(coo_array((np.ones(len(one)), (one, other)), shape=(60, 60)), directed=False)[1]

        for edge in np.argsort(-length):
            kept[edge] = False
            kept[edge] = np.bincount(parts()).min() < 4
        mesh, tree = parts(), spanning_tree_groups(points, 4)
        assert len(np.unique(np.column_stack([mesh, tree]), axis=0)) == mesh.max() + 1 == tree.max() + 1

    def test_ward_joins_what_adds_least(self):
        """The slow twin tries all pairs in every step."""
        points = np.random.default_rng(5).normal(size=(40, 2))
        fast = ward_groups(points, 3)
        groups = [np.flatnonzero(ward_start == one) for ward_start in [_two_extremes(points, 3)] for one in range(36)]
        while min(map(len, groups)) < 3:
            pairs = [
                (error(points, np.concatenate([a, b])) - error(points, a) - error(points, b), i, j)
                for i, a in enumerate(groups)
                for j, b in enumerate(groups[:i])
                if min(len(a), len(b)) < 3
            ]
            _, i, j = min(pairs)
            groups = [one for place, one in enumerate(groups) if place not in (i, j)] + [
                np.concatenate([groups[i], groups[j]])
            ]
        slow = np.empty(40, dtype=np.int64)
        for place, rows in enumerate(groups):
            slow[rows] = place
        assert len(np.unique(np.column_stack([slow, fast]), axis=0)) == fast.max() + 1 == len(groups)


def error(points, rows):
    return ((points[rows] - points[rows].mean(axis=0)) ** 2).sum()
