"""Privacy models of a table: against slow twins, hand-worked tables and the defects of other tools."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from sfumato.errors import OptionError, SchemaError, SfumatoError, TableError
from sfumato.plan.claims import sensitive_groups as closeness
from sfumato.plan.claims import sensitive_groups as diversity
from sfumato.plan.claims.sensitive_groups import KeyedCounts, SensitiveCounts
from sfumato.risk.group_models import group_models
from sfumato.schema.hierarchies import Tree
from sfumato.sources.frames import as_table
from sfumato.table.groups import KeyedGroups

TREE = Tree.of([("a", "ab", "abc", "*"), ("b", "ab", "abc", "*"), ("c", "c", "abc", "*"), ("d", "d", "d", "*")])
FRANCDAT = {
    "key1": [1, 1, 1, 3, 4, 4, 6, 1],
    "key2": [2, 2, 2, 3, 3, 3, 2, 2],
    "key3": [5, 1, 1, 1, 1, 1, 1, 5],
    "key4": [1, 1, 1, 5, 4, 1, 5, 1],
    "num3": [4, 22, 8, 91, 13, 14, 1, 5],
    "w": [18.0, 45.5, 39.0, 17.0, 541.0, 8.0, 5.0, 92.0],
}

pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40)


def counted(rows: list[tuple[int, int]]) -> tuple[SensitiveCounts, list[Counter], Counter]:
    """Counts of (group, value) rows, and the same as counters of each group and of the table."""
    groups = sorted({group for group, _ in rows})
    labels = np.array([groups.index(group) for group, _ in rows])
    counts = SensitiveCounts.of(labels, np.array([value for _, value in rows]), 4)
    each = [Counter(value for one, value in rows if one == group) for group in groups]
    return counts, each, Counter(value for _, value in rows)


def shares(counter: Counter) -> np.ndarray:
    return np.array([counter[value] for value in range(4)]) / counter.total()


def earth_movers(p: np.ndarray, q: np.ndarray, cost: np.ndarray) -> float:
    """The least cost of moving p to q, as a linear programme: the slow twin of all distances."""
    size = len(p)
    moved = np.zeros((2 * size, size * size))
    for i in range(size):
        moved[i, i * size : (i + 1) * size] = 1.0
        moved[size + i, i::size] = 1.0
    return float(linprog(cost.ravel(), A_eq=moved, b_eq=np.concatenate([p, q])).fun)


def tree_cost() -> np.ndarray:
    def level(one: str, other: str) -> int:
        ways = zip([one, *TREE.ancestors(one)], [other, *TREE.ancestors(other)], strict=True)
        return next(height for height, (a, b) in enumerate(ways) if a == b)

    return np.array([[level(one, other) / 3 for other in "abcd"] for one in "abcd"])


@given(pairs)
def test_diversity_is_that_of_counting_by_hand(rows):
    counts, each, _ = counted(rows)
    assert counts.sizes.tolist() == [group.total() for group in each]
    assert diversity.distinct_values(counts).tolist() == [len(group) for group in each]
    entropies = [-sum(n / g.total() * math.log(n / g.total()) for n in g.values()) for g in each]
    np.testing.assert_allclose(diversity.effective_values(counts), np.exp(entropies))
    np.testing.assert_allclose(diversity.largest_share(counts), [max(g.values()) / g.total() for g in each])
    for l in (1, 2, 3):
        slow = []
        for group in each:
            r = sorted(group.values(), reverse=True)
            slow.append(r[0] / sum(r[l - 1 :]) if len(r) >= l else math.inf)
        np.testing.assert_allclose(diversity.recursive_c(counts, l), slow)
        fewest = min(map(len, each))
        assert l == 1 or (l in diversity.recursive_profile(counts)) == (l <= fewest)
        if 1 < l <= fewest:
            assert diversity.recursive_profile(counts)[l] == pytest.approx(max(slow))


@given(pairs)
def test_distances_are_the_least_costs_of_moving_shares(rows):
    counts, each, table = counted(rows)
    q, occurring = shares(table), sorted(table)
    equal = 1.0 - np.eye(4)
    np.testing.assert_allclose(
        closeness.equal_distances(counts), [earth_movers(shares(g), q, equal) for g in each], atol=1e-9
    )
    np.testing.assert_allclose(
        closeness.tree_distances(counts, np.arange(4), TREE),
        [earth_movers(shares(g), q, tree_cost()) for g in each],
        atol=1e-9,
    )
    ranks = np.arange(len(occurring)) / max(1, len(occurring) - 1)
    line = np.abs(ranks[:, None] - ranks[None, :])
    slow = [earth_movers(shares(g)[occurring], q[occurring], line) for g in each]
    np.testing.assert_allclose(closeness.ordered_distances(counts), slow, atol=1e-9)


@given(pairs)
def test_likeness_and_delta_are_those_of_their_definitions(rows):
    counts, each, table = counted(rows)
    q = shares(table)
    for place, group in enumerate(each):
        p = shares(group)
        gains = [(p[v] - q[v]) / q[v] for v in group]
        assert closeness.basic_beta(counts)[place] == pytest.approx(max(0.0, *gains))
        fits = all(gain <= -math.log(q[v]) + 1e-9 for gain, v in zip(gains, group, strict=True))
        assert closeness.enhanced_beta(counts)[place] == pytest.approx(max(0.0, *gains) if fits else math.inf)
        slow = max(abs(math.log(p[v] / q[v])) for v in group)
        assert closeness.disclosure_delta(counts)[place] == pytest.approx(slow)


def test_a_missing_value_is_below_the_root_only():
    counts = SensitiveCounts.of(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]), 2)
    far = closeness.tree_distances(counts, np.array([0, -1]), TREE)
    near = closeness.tree_distances(counts, np.array([0, 1]), TREE)
    assert far.tolist() == pytest.approx([0.5, 0.5])
    assert near.tolist() == pytest.approx([0.5 / 3, 0.5 / 3])


@given(pairs, st.integers(0, 40))
def test_counts_of_parts_merge_to_those_of_the_whole(rows, cut):
    names = ["low", None, "high", "mid"]
    table = as_table({"group": [g for g, _ in rows], "value": pa.array([names[v] for _, v in rows], pa.string())})
    whole = KeyedCounts.of(KeyedGroups.of(table, ["group"]), table.coded("value"))
    parts = [table.take(np.arange(len(rows))[part]) for part in (slice(cut), slice(cut, None))]
    one, other = (KeyedCounts.of(KeyedGroups.of(p, ["group"]), p.coded("value")) for p in parts)
    merged = one.merge(other)
    order = ("low", "mid", "high")
    for function in (diversity.effective_values, closeness.ordered_distances):
        found = [sorted(function(counts.in_order(order)).round(12)) for counts in (whole, merged)]
        assert found[0] == found[1]


def test_francdat_has_the_published_frequencies():
    found = group_models(FRANCDAT, ["key1", "key2", "key3", "key4"], ["num3"], weight="w")
    assert found.k == 1
    assert found.frequencies.tolist() == [2, 2, 2, 1, 1, 1, 1, 2]
    assert found.weighted_frequencies.tolist() == [110, 84.5, 84.5, 17, 541, 8, 5, 110]
    assert found["num3"].distance == "ordered"
    assert found.unique_rows == 4 == found.rows_failing(k=2) == found.rows_failing(l=2)


def test_a_lone_row_with_a_missing_value_is_alone():
    frame = pd.DataFrame({"a": [1, 1, 1, 1, 1, np.nan], "s": list("xyxyxy")})
    assert group_models(frame, ["a"], ["s"]).k == 1


cells = st.one_of(st.none(), st.integers(0, 2))
sparse = st.integers(1, 30).flatmap(
    lambda rows: st.fixed_dictionaries({name: st.lists(cells, min_size=rows, max_size=rows) for name in "abc"})
)


@given(sparse)
def test_a_missing_value_that_may_be_any_matches_wherever_both_have_values(columns):
    rows = list(zip(*columns.values(), strict=True))
    weights = [1.0 + place for place in range(len(rows))]
    found = group_models({**columns, "w": weights}, list("abc"), weight="w", missing="any")
    match = [[all(x is None or y is None or x == y for x, y in zip(a, b, strict=True)) for b in rows] for a in rows]
    assert found.frequencies.tolist() == [sum(one) for one in match]
    slow = [sum(w for w, matches in zip(weights, one, strict=True) if matches) for one in match]
    assert found.weighted_frequencies == pytest.approx(slow)
    assert found.k == min(map(sum, match))
    assert found.rows_failing(k=3) == sum(sum(one) < 3 for one in match)
    assert found.k >= group_models(columns, list("abc")).k


def test_the_index_of_a_frame_does_not_matter():
    frame = pd.DataFrame({"q": [1, 1, 2, 2], "s": ["a", "b", "a", "b"]}, index=[7, 3, 9, 1])
    found = group_models(frame.sample(frac=1.0, random_state=0), ["q"], ["s"])
    assert (found.distinct_l, found.t) == (2, 0.0)


def test_entropy_of_three_equal_values_is_three():
    found = group_models({"q": [1, 1, 1], "s": ["a", "b", "c"]}, ["q"], ["s"])
    assert found.entropy_l == pytest.approx(3.0)
    assert found.recursive_cl == pytest.approx({2: 0.5, 3: 1.0})


def test_several_sensitive_columns_are_judged_by_the_worst():
    table = {"q": [1, 1, 1, 2, 2, 2], "s": list("abcabc"), "t": list("aabaab")}
    found = group_models(table, ["q"], ["s", "t"])
    assert (found.distinct_l, found["s"].distinct_l, found.recursive_cl) == (2, 3, {2: 2.0})


def test_the_distance_of_a_tree_needs_a_tree(tmp_path):
    path = tmp_path / "tree.csv"
    path.write_text("a;ab;*\nb;ab;*\nc;c;*\n")
    table = {"q": [1, 1, 2, 2], "s": ["a", "a", "b", "b"]}
    schema = {"s": {"role": "sensitive", "tree": str(path)}, "q": "quasi"}
    assert group_models(table, ["q"], ["s"], distance="tree", schema=schema).t == pytest.approx(0.25)
    assert group_models(table, ["q"], ["s"], distance={"s": "equal"}).t == pytest.approx(0.5)
    with pytest.raises(SchemaError, match="must declare a tree"):
        group_models(table, ["q"], ["s"], distance="tree")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"quasi": []}, OptionError),
        ({"quasi": ["q", "q"]}, OptionError),
        ({"quasi": ["none"]}, TableError),
        ({"sensitive": ["q"]}, OptionError),
        ({"sensitive": ["none"]}, TableError),
        ({"sensitive": ["s"], "distance": "far"}, OptionError),
        ({"sensitive": ["s"], "distance": {"q": "equal"}}, OptionError),
        ({"sensitive": ["s"], "missing": "any"}, OptionError),
        ({"missing": "none"}, OptionError),
        ({"weight": "s"}, TableError),
        ({"weight": "w"}, TableError),
    ],
)
def test_wrong_requests_are_refused_without_a_cell(options, error):
    table = {"q": [1, 2], "s": ["secret", "b"], "w": [1.0, -5.5]}
    with pytest.raises(error) as caught:
        group_models(table, **{"quasi": ["q"], **options})
    assert "secret" not in str(caught.value)
    assert "5.5" not in str(caught.value)


def test_an_empty_table_is_refused():
    with pytest.raises(SfumatoError, match="must have rows"):
        group_models({"q": []}, ["q"])


def test_neither_weights_nor_labels_are_shown():
    assert "array" not in repr(group_models(FRANCDAT, ["key1"], ["num3"], weight="w"))


def test_adult_has_the_values_that_others_measured(data_folder):
    adult = pd.read_csv(data_folder / "adult" / "adult.data", header=None, skipinitialspace=True)
    adult.columns = [f"c{place}" for place in range(15)]
    found = group_models(adult, [f"c{place}" for place in (0, 3, 5, 6, 8, 9, 12, 13)], ["c14"])
    assert (found.groups, found.unique_rows, found.distinct_l) == (24_564, 20_889, 1)
    assert found.t == pytest.approx(0.759, abs=5e-4)
    assert found.delta == pytest.approx(2.12, abs=5e-3)
