"""What is spent, how columns become bins, and how rows are drawn."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import CannotRelease
from sfumato.methods.private_columns import CategoryDomain, NumberDomain
from sfumato.methods.private_synthesis import selection as selection_module
from sfumato.methods.private_synthesis.attributes import CategoryAttribute, GridAttribute, attribute_of
from sfumato.methods.private_synthesis.budget_spending import UNITS, Spending
from sfumato.methods.private_synthesis.drawing import draw_systematically
from sfumato.methods.private_synthesis.junction_tree import count_tree_cells
from sfumato.methods.private_synthesis.measured_columns import BLOCK, Leaves, bin_column, measure_column
from sfumato.methods.private_synthesis.selection import PairSelection
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

PLENTY = Fraction(10**9)  # a budget with next to no noise


def categories(*words):
    return CategoryAttribute(CategoryDomain(name="g", kind=Kind.NOMINAL, categories=words))


def numbers(low, high, kind=Kind.CONTINUOUS):
    return GridAttribute(NumberDomain(name="x", kind=kind, low=low, high=high))


def columns_of(sizes, rows, generator):
    """Columns with one bin for each code, and random codes."""
    made, codes = [], []
    for size in sizes:
        attribute = categories(*(f"v{place}" for place in range(size)))
        own = generator.integers(0, size, rows)
        leaves = Leaves(np.arange(size + 1), np.arange(size + 1), np.append(np.bincount(own, minlength=size), 0), 1.0)
        column = bin_column(attribute, leaves, 10)
        made.append(column)
        codes.append(column.bin_codes(own))
    return made, codes


class TestSpending:
    @given(st.lists(st.floats(1e-6, 0.2), min_size=1, max_size=8))
    def test_what_is_spent_is_the_sum_and_never_more_than_the_budget(self, costs):
        spending = Spending(Fraction(1))
        done = Fraction(0)
        for cost in costs:
            if done + Fraction(cost) > 1:
                with pytest.raises(CannotRelease):
                    spending.measure(np.zeros(3, dtype=np.int64), cost)
            else:
                spending.measure(np.zeros(3, dtype=np.int64), cost)
                done += Fraction(cost)
        assert spending.spent == done

    @pytest.mark.parametrize("kind", ["select_adaptively", "select_tree"])
    @pytest.mark.parametrize("columns", [1, 2, 5])
    def test_a_selection_spends_its_whole_budget_and_no_more(self, kind, columns):
        generator = np.random.default_rng(0)
        made, codes = columns_of([2, 3, 4, 5, 6][:columns], 500, generator)
        spending = Spending(Fraction(0.02))
        getattr(PairSelection(made, codes, {}, spending), kind)()
        assert spending.spent <= spending.rho
        assert columns == 1 or spending.spent >= spending.rho * Fraction(999, 1000)

    def test_noise_grows_with_the_rows_of_a_person(self):
        alone, ten = (Spending(Fraction(1), most).measure(np.zeros(2, dtype=np.int64), 0.5) for most in (1, 10))
        assert ten.sigma == pytest.approx(10.0 * alone.sigma)

    def test_a_score_moves_by_no_more_than_its_sensitivity(self, monkeypatch):
        seen = []
        monkeypatch.setattr(
            "sfumato.methods.private_synthesis.budget_spending.choose_exponentially",
            lambda scores, **given: seen.append((scores, given["sensitivity"])) or 0,
        )
        generator = np.random.default_rng(2)
        for _ in range(50):
            table = generator.integers(0, 20, (3, 4))
            neighbour = table.copy()
            neighbour[tuple(generator.integers(0, [3, 4]))] += 1
            expected = generator.gamma(2.0, 5.0, (3, 4))
            for counts in (table, neighbour):
                Spending(Fraction(1)).choose([counts, counts], [expected, expected], [3.3, 0.0], [1, 4], 0.01)
            (one, sensitivity), (other, _) = seen[-2:]
            assert sensitivity == 4 * UNITS
            assert (np.abs(one - other) <= np.array([UNITS, 4 * UNITS])).all()
            assert one.dtype == np.int64

    def test_a_table_that_the_model_misses_is_chosen(self):
        right, wrong = np.array([50, 50]), np.array([90, 10])
        expected = [np.array([50.0, 50.0])] * 2
        chosen = [Spending(Fraction(10)).choose([right, wrong], expected, [0.0, 0.0], [1, 1], 1.0) for _ in range(20)]
        assert chosen == [1] * 20

    def test_without_a_budget_the_choice_tells_nothing(self):
        right, wrong = np.array([50, 50]), np.array([10**6, 10])
        expected = [np.array([50.0, 50.0])] * 2
        chosen = [Spending(Fraction(1)).choose([right, wrong], expected, [0.0, 0.0], [1, 1], 1e-14) for _ in range(60)]
        assert 10 < sum(chosen) < 50


class TestColumns:
    @given(
        st.floats(-1e6, 1e6), st.floats(0.0, 1e6), st.sampled_from([Kind.CONTINUOUS, Kind.WHOLE]), st.integers(0, 2**32)
    )
    @settings(deadline=None)
    def test_a_drawn_number_has_the_code_that_it_was_drawn_from(self, low, width, kind, seed):
        domain = NumberDomain(name="x", kind=kind, low=np.floor(low), high=np.floor(low) + np.ceil(width))
        attribute, generator = GridAttribute(domain), np.random.default_rng(seed)
        codes = generator.integers(0, attribute.values + 1, 40)
        cells = attribute.decode(codes, codes, generator)
        again = attribute.encode(Table(pa.table({"x": cells}), {"x": kind}))
        assert np.abs(again - codes).max() <= (kind is Kind.CONTINUOUS)  # an end belongs to two cells
        present = np.array(cells.drop_null().to_pylist(), dtype=float)
        assert ((present >= domain.low) & (present <= domain.high)).all()

    def test_numbers_have_no_more_digits_than_their_cells_tell_apart(self):
        attribute = numbers(0.0, 100.0)
        codes = np.arange(attribute.values)
        drawn = np.array(attribute.decode(codes, codes, np.random.default_rng(0)).to_pylist())
        np.testing.assert_array_equal(drawn, np.round(drawn, 3))
        assert len(np.unique(drawn)) == attribute.values

    def test_whole_numbers_of_a_small_domain_are_codes_themselves(self):
        assert numbers(0, 99, Kind.WHOLE).values == 100

    def test_a_large_grid_is_counted_where_people_are(self):
        attribute = numbers(0.0, 1024.0)
        codes = np.full(5000, 7)
        leaves = measure_column(attribute, codes, Spending(Fraction(1)), 0.5)
        assert len(leaves.first) == 31 + BLOCK + 1  # one block is split, and missing values are a leaf
        assert leaves.counts[7] == pytest.approx(5000, abs=20)
        assert (leaves.widths.sum(), leaves.first[0], leaves.last[-1]) == (1025, 0, 1024)

    def test_numbers_are_merged_into_bins_of_about_equally_many_people(self):
        counts = np.append(np.full(100, 50.0), 0.0)
        column = bin_column(numbers(0, 99, Kind.WHOLE), Leaves(np.arange(101), np.arange(101), counts, 1.0), 10)
        assert column.size == 10
        assert (np.diff(column.bins[:-1]) >= 0).all()
        np.testing.assert_allclose(column.bin_counts, 500.0)

    def test_rare_categories_share_a_bin_and_are_drawn_by_their_shares(self):
        counts = np.array([500.0, 25.0, 400.0, 25.0, 25.0, 0.0])
        column = bin_column(categories(*"abcde"), Leaves(np.arange(6), np.arange(6), counts, 10.0), 10)
        assert column.bins.tolist() == [0, 2, 1, 2, 2, 2]
        np.testing.assert_allclose(column.shares, [1.0, 1 / 3, 1.0, 1 / 3, 1 / 3, 0.0])

    def test_missing_values_are_drawn_only_if_they_are_clearly_there(self):
        few, many = (
            bin_column(categories(*"ab"), Leaves(np.arange(3), np.arange(3), np.array([500.0, 400.0, one]), 10.0), 10)
            for one in (30.0, 50.0)
        )
        assert (few.size, few.shares[-1]) == (2, 0.0)
        assert (many.size, many.shares[-1]) == (3, 1.0)

    def test_too_many_categories_are_refused(self):
        domain = CategoryDomain(name="g", kind=Kind.NOMINAL, categories=tuple(map(str, range(2000))))
        with pytest.raises(CannotRelease, match="categories"):
            attribute_of(domain)


class TestSelection:
    def test_pairs_that_would_make_the_model_too_large_are_not_chosen(self, monkeypatch):
        monkeypatch.setattr(selection_module, "LARGEST_MODEL", 60)
        monkeypatch.setattr(selection_module, "SMALLEST_MODEL", 60)
        generator = np.random.default_rng(0)
        made, codes = columns_of([3, 4, 5, 5], 2000, generator)
        chosen = PairSelection(made, codes, {}, Spending(Fraction(1)))
        chosen.select_adaptively()
        assert count_tree_cells(chosen.sizes, [one.clique for one in chosen.measurements]) <= 60

    def test_without_any_pair_that_fits_the_columns_are_independent(self, monkeypatch):
        monkeypatch.setattr(selection_module, "LARGEST_MODEL", 5)
        monkeypatch.setattr(selection_module, "SMALLEST_MODEL", 5)
        made, codes = columns_of([3, 4], 2000, np.random.default_rng(0))
        chosen = PairSelection(made, codes, {}, Spending(Fraction(1)))
        fitted = chosen.select_adaptively()
        assert len(chosen.measurements) == 2
        np.testing.assert_allclose(
            fitted.counts((0, 1)), np.outer(fitted.counts((0,)), fitted.counts((1,))) / fitted.total, rtol=1e-6
        )

    def test_a_spanning_tree_connects_all_columns_by_the_strongest_pairs(self):
        generator = np.random.default_rng(3)
        made, codes = columns_of([4, 4, 4], 5000, generator)
        codes = [codes[0], codes[1], codes[0]]  # the third is a copy of the first
        made = [made[0], made[1], made[0]]
        chosen = PairSelection(made, codes, {}, Spending(PLENTY))
        chosen.select_tree()
        pairs = [one.clique for one in chosen.measurements if len(one.clique) == 2]
        assert len(pairs) == 2
        assert (0, 2) in pairs

    def test_kept_pairs_come_first(self):
        generator = np.random.default_rng(4)
        first = []
        for weights in ({}, {(0, 1): 4}):
            made, codes = columns_of([4, 4, 4], 4000, generator)
            related = np.where(generator.random(4000) < 0.3, codes[0], codes[1])
            stronger = np.where(generator.random(4000) < 0.6, codes[1], codes[2])
            chosen = PairSelection(made, [codes[0], related, stronger], weights, Spending(PLENTY))
            chosen._measure_next(chosen.pairs, 1.0)
            first.append(chosen.measurements[-1].clique)
        assert first == [(1, 2), (0, 1)]


class TestDrawing:
    @given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 5))
    def test_counts_are_within_one_row_of_their_expectation(self, seed, lines, cells):
        generator = np.random.default_rng(seed)
        shares = generator.dirichlet(np.full(cells, 0.5), lines)
        groups = generator.integers(0, lines, 300)
        drawn = draw_systematically(shares, groups, generator)
        for line in range(lines):
            own = drawn[groups == line]
            counts = np.bincount(own, minlength=cells)
            assert (np.abs(counts - len(own) * shares[line]) < 1.0 + 1e-6).all()

    def test_what_is_drawn_does_not_depend_on_the_order_of_rows(self):
        generator = np.random.default_rng(0)
        drawn = draw_systematically(np.full((1, 2), 0.5), np.zeros(10_000, dtype=np.int64), generator)
        assert abs(drawn[:5000].mean() - 0.5) < 0.05
