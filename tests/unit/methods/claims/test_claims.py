"""Claims are recounted from released cells; each is shown holding, and shown broken."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.plan.claims.containment import Containment
from sfumato.plan.claims.groups import Diversity, KAnonymity, values_apart, values_distinct
from sfumato.plan.claims.kept_statistics import WeightTotalsKept
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor
from sfumato.plan.plan import Evidence
from sfumato.table.table import Table


def table(**columns: list) -> Table:
    return Table.from_arrow(pa.table(columns))


def evidence(released: Table, original: Table | None = None, origin: list[int] | None = None) -> Evidence:
    rows = list(range(released.rows)) if origin is None else origin
    return Evidence(released, original or released, np.array(rows, dtype=np.int64))


class TestKAnonymity:
    def test_counts_groups_of_equal_cells(self):
        finding = KAnonymity(k=2, columns=("a", "b")).measure(evidence(table(a=[1, 1, 2, 2], b=["x", "x", "y", "y"])))
        assert finding.held
        assert finding.found == "smallest group 2, 2 groups"

    def test_sees_a_row_that_stands_alone(self):
        assert not KAnonymity(k=2, columns=("a",)).measure(evidence(table(a=[1, 1, 2]))).held

    def test_a_missing_value_is_a_value_of_its_own(self):
        released = table(a=[1, 1, None])
        assert not KAnonymity(k=2, columns=("a",)).measure(evidence(released)).held

    def test_is_not_fooled_by_the_labels_of_the_method(self):
        released = table(a=[1, 2, 3, 4], box=[0, 0, 1, 1])
        assert not KAnonymity(k=2, columns=("a",)).measure(evidence(released)).held

    def test_needs_all_rows_equal_when_no_column_is_named(self):
        assert KAnonymity(k=3, columns=()).measure(evidence(table(a=[1, 2, 3]))).held
        assert not KAnonymity(k=4, columns=()).measure(evidence(table(a=[1, 2, 3]))).held


class TestWeightTotalsKept:
    claim = WeightTotalsKept(weight="w", box="box")
    original = table(w=[1.0, 2.0, 10.0, 0.0, 7.0])

    def shown(self, *weights: float) -> Evidence:
        return evidence(table(w=list(weights), box=[0, 0, 1, 1]), self.original, [0, 1, 2, 3])

    def test_means_of_boxes_keep_the_totals_of_the_rows_that_are_released(self):
        finding = self.claim.measure(self.shown(1.5, 1.5, 5.0, 5.0))
        assert finding.held
        assert finding.found == "2 totals kept"

    def test_sees_weight_that_moved_to_another_box_though_the_table_keeps_its_total(self):
        finding = self.claim.measure(self.shown(2.0, 2.0, 4.5, 4.5))
        assert not finding.held
        assert finding.found == "2 totals changed"

    def test_sees_lost_and_missing_weights(self):
        assert not self.claim.measure(self.shown(1.5, 1.5, 5.0, 4.9)).held
        assert not self.claim.measure(self.shown(1.5, 1.5, 5.0, float("nan"))).held

    def test_boxes_without_weight_stay_without(self):
        nothing = evidence(table(w=[0.0, 0.0], box=[0, 0]), table(w=[0.0, 0.0]))
        assert self.claim.measure(nothing).held
        something = evidence(table(w=[1e-300, 0.0], box=[0, 0]), table(w=[0.0, 0.0]))
        assert not self.claim.measure(something).held


class TestDiversity:
    released = table(g=[0, 0, 0, 1, 1, 1], illness=["flu", "flu", "cold", "flu", "flu", "flu"])

    def test_counts_different_released_values_in_each_group(self):
        claim = Diversity(l=2, columns=("g",), column="illness")
        finding = claim.measure(evidence(self.released))
        assert not finding.held
        assert finding.found == "fewer in 1 of 2 groups"
        assert Diversity(l=1, columns=("g",), column="illness").measure(evidence(self.released)).held

    def test_follows_a_hidden_column_back_to_its_rows(self):
        released = table(g=[0, 0, 1, 1])
        original = table(income=[10, 20, 10, 20])
        claim = Diversity(l=2, columns=("g",), column="income", hidden=True)
        assert claim.measure(evidence(released, original, [0, 1, 2, 3])).held
        assert not claim.measure(evidence(released, original, [0, 2, 1, 3])).held

    def test_numbers_count_only_when_epsilon_apart(self):
        released = table(g=[0, 0, 0], income=[1.0, 1.4, 2.0])
        assert Diversity(l=2, columns=("g",), column="income", epsilon=1.0).measure(evidence(released)).held
        assert not Diversity(l=3, columns=("g",), column="income", epsilon=0.5).measure(evidence(released)).held
        assert Diversity(l=3, columns=("g",), column="income").measure(evidence(released)).held

    @given(
        rows=st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(-4, 4))), min_size=1, max_size=12),
        epsilon=st.sampled_from([0.5, 1.0, 2.0, 3.0]),
        at_most=st.integers(1, 4),
    )
    def test_values_apart_is_the_largest_choice_of_values(self, rows, epsilon, at_most):
        labels = np.unique([group for group, _ in rows], return_inverse=True)[1].astype(np.int64)
        numbers = np.array([np.nan if value is None else float(value) for _, value in rows])
        found = values_apart(labels, numbers, epsilon=epsilon, at_most=at_most)
        for label in range(labels.max() + 1):
            of_group = numbers[labels == label]
            missing = int(np.isnan(of_group).any())
            distinct = np.unique(of_group[~np.isnan(of_group)]).tolist()
            largest = max(
                size
                for size in range(len(distinct) + 1)
                for chosen in combinations(distinct, size)
                if all(abs(x - y) >= epsilon for x, y in combinations(chosen, 2))
            )
            assert found[label] == min(largest + missing, at_most)

    @given(rows=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c", None])), min_size=1))
    def test_values_distinct_counts_sets_of_values(self, rows):
        released = table(g=[group for group, _ in rows], v=pa.array([value for _, value in rows], pa.string()))
        labels = released.coded("g").codes.astype(np.int64)
        found = values_distinct(labels, released.coded("v"))
        expected = [len({value for group, value in rows if group == g}) for g in sorted({g for g, _ in rows})]
        assert found.tolist() == expected


class TestContainment:
    original = table(age=[30, 41, None], city=["Ulm", None, "Rom"], pay=[1.5, 2.5, None])
    released = table(
        age_low=[30, 30, 30],
        age_high=[41, 41, 41],
        age_missing=[1, 1, 1],
        city=["Rom|Ulm|(missing)"] * 3,
        pay=[1.5, 2.5, None],
        box=[0, 0, 0],
    )

    def test_holds_where_every_value_lies_in_its_box_or_set(self):
        assert Containment(columns=("age", "city", "pay")).measure(evidence(self.released, self.original)).held

    @pytest.mark.parametrize(
        ("column", "cells", "named"),
        [
            ("age_high", [40, 40, 40], "'age' (1 row)"),
            ("age_missing", [0, 0, 0], "'age' (3 rows)"),
            ("age_missing", [2, 2, 2], "'age' (3 rows)"),
            ("city", ["Rom|Ulm", "Rom|Ulm", "Rom|Ulm"], "'city' (1 row)"),
            ("city", ["Ulmen|(missing)", "(missing)", "Rom"], "'city' (1 row)"),
            ("pay", [1.5, 2.6, None], "'pay' (1 row)"),
            ("pay", [1.5, 2.5, 3.5], "'pay' (1 row)"),
        ],
    )
    def test_counts_the_values_outside(self, column, cells, named):
        arrow = self.released.arrow
        wrong = arrow.set_column(arrow.column_names.index(column), column, pa.array(cells))
        finding = Containment(columns=("age", "city", "pay")).measure(evidence(Table.from_arrow(wrong), self.original))
        assert not finding.held
        assert finding.found == f"values outside in {named}"

    def test_a_missing_number_needs_a_count_of_missing_ones(self):
        released = table(age_low=[30, 30], age_high=[41, 41])
        assert not Containment(columns=("age",)).measure(evidence(released, table(age=[30, None]))).held

    def test_a_released_word_may_cover_several_values(self):
        original, released = table(city=["Ulm", "Rom"]), table(city=["Europe", "Europe"])
        covers = {"city": {"Europe": frozenset({"Ulm", "Rom"})}}
        assert Containment(columns=("city",), covers=covers).measure(evidence(released, original)).held
        assert not Containment(columns=("city",)).measure(evidence(released, original)).held

    def test_a_value_that_holds_the_separator_is_still_found(self):
        original, released = table(city=["a|b", "c"]), table(city=["a\\|b|c", "a\\|b|c"])
        assert Containment(columns=("city",)).measure(evidence(released, original)).held
        split = table(city=["a|b|c", "a|b|c"])
        assert not Containment(columns=("city",)).measure(evidence(split, original)).held

    def test_yes_and_no_are_written_as_words(self):
        original, released = table(ill=[True, False, None]), table(ill=["false|true", "false", "(missing)"])
        assert Containment(columns=("ill",)).measure(evidence(released, original)).held

    def test_days_lie_between_days(self):
        days = pa.array([10, 20, 30], pa.int32()).cast(pa.date32())
        released = Table.from_arrow(pa.table({"born_low": days.take([0, 0, 0]), "born_high": days.take([2, 2, 1])}))
        finding = Containment(columns=("born",)).measure(evidence(released, Table.from_arrow(pa.table({"born": days}))))
        assert finding.found == "values outside in 'born' (1 row)"


class TestRowsAccountedFor:
    original = table(a=[1, 2, 3, 4])

    @pytest.mark.parametrize(
        ("rows", "origin", "share", "held"),
        [
            (4, [3, 1, 0, 2], 0.0, True),
            (3, [3, 1, 0], 0.25, True),
            (3, [3, 1, 0], 0.2, False),
            (4, [3, 1, 0, 0], 0.5, False),
            (4, [3, 1, 0], 0.5, False),
            (4, [3, 1, 0, 4], 0.0, False),
        ],
    )
    def test_every_row_leaves_once_or_is_counted_as_suppressed(self, rows, origin, share, held):
        released = table(b=list(range(rows)))
        claim = RowsAccountedFor(suppressed_at_most=share)
        assert claim.measure(evidence(released, self.original, origin)).held is held

    @pytest.mark.parametrize(
        ("origin", "held"),
        [
            ([3, 1, 0, 2, 0, 1, 2, 3], True),
            ([3, 1, 0, 2, 0, 1, 2, 2], False),
            ([3, 1, 0, 2, 0, 1, 2], False),
            ([3, 1, 0, 2], False),
        ],
    )
    def test_several_tables_contain_every_row_once_each(self, origin, held):
        released = table(b=list(range(len(origin))))
        assert RowsAccountedFor(times=2).measure(evidence(released, self.original, origin)).held is held


def test_a_column_that_was_not_allowed_is_named():
    finding = ColumnsAllowed(names=("a",)).measure(evidence(table(a=[1], b=[2])))
    assert not finding.held
    assert finding.found == "also b"
    assert ColumnsAllowed(names=("a", "b")).measure(evidence(table(a=[1], b=[2]))).held


def test_no_finding_quotes_a_cell():
    original = table(age=[771, 772], city=["CANARY", None])
    released = table(age_low=[773, 773], age_high=[774, 774], city=["CANARY", "CANARY"])
    seen = evidence(released, original)
    columns = ("age_low", "city")
    claims = [
        KAnonymity(k=3, columns=columns),
        Diversity(l=3, columns=columns, column="age", hidden=True, epsilon=0.5),
        Containment(columns=("age", "city")),
        RowsAccountedFor(),
    ]
    told = [claim.measure(seen) for claim in claims]
    assert [finding.held for finding in told] == [False, False, False, True]
    assert not any(cell in repr(told) for cell in ("CANARY", "771", "772", "773", "774"))
