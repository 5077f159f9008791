"""Losses, propensity and models: hand-worked numbers, and releases that are known to be good and bad."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.measures.measured_release import MeasuredRelease
from sfumato.measures.utility.losses import absolute_error, eigenvalue_loss, loss_scores, squared_error_share
from sfumato.measures.utility.model_comparison import (
    Coefficients,
    interval_overlap,
    model_scores,
    propensity,
    propensity_scores,
    regression,
)
from sfumato.methods.recodings.losses import (
    average_class_size,
    discernibility,
    granularity_loss,
    mean_covered,
    non_uniform_entropy,
    precision_loss,
)
from sfumato.randomness import Randomness
from sfumato.sources.frames import as_table
from sfumato.table.table import Table

matrices = arrays(np.float64, (6, 3), elements=st.integers(-9, 9).map(float))


def scores_of(scores, original, released, origin=None) -> dict[str, float]:
    tables = {"original": as_table(original), "released": as_table(released)}
    subject = MeasuredRelease(**tables, origin=origin, logs="never", randomness=Randomness(1))
    return {score.name: score.value for score in scores(subject)}


class TestRecodingLosses:
    @given(st.lists(st.integers(1, 20), min_size=1, max_size=10), st.integers(0, 5))
    def test_discernibility_counts_the_rows_that_each_row_resembles(self, sizes, suppressed):
        rows = sum(sizes) + suppressed
        slow = sum(size for size in sizes for _ in range(size)) + suppressed * rows
        assert discernibility(np.array(sizes), suppressed) == slow

    def test_average_class_size_is_one_where_all_groups_have_k_rows(self):
        assert average_class_size(np.array([5, 5, 5]), k=5) == 1.0
        assert average_class_size(np.array([2]), suppressed=4) == 3.0

    def test_granularity_is_that_of_arx(self):
        # two columns of 4 and 2 values: one cell as it is, one suppressed, in each
        shares = [mean_covered(np.array([1, 4]), 4), mean_covered(np.array([1, 2]), 2)]
        assert shares == [0.625, 0.75]
        assert granularity_loss(shares, [4, 2]) == pytest.approx((0.6875 - 0.375) / (1 - 0.375))
        assert granularity_loss([0.25, 0.5], [4, 2]) == 0.0
        assert granularity_loss([1.0, 1.0], [4, 2]) == 1.0
        assert granularity_loss([1.0], [1]) == 0.0

    def test_precision_is_the_mean_level(self):
        assert precision_loss([1.0, 0.0, 0.0], [2, 4, 0]) == pytest.approx(0.5 / 3)

    def test_non_uniform_entropy_is_the_entropy_within_nodes(self):
        # values a, b, c with 4, 4, 8 rows; a and b become one node: one bit for each of 8 rows
        assert non_uniform_entropy(np.array([4, 4, 8]), np.array([8, 8, 8]), np.array([4, 4, 8])) == 8.0
        assert non_uniform_entropy(np.array([4, 8]), np.array([4, 8])) == 0.0


class TestErrors:
    @given(matrices, matrices)
    def test_are_those_of_their_definitions(self, before, after):
        sse, sst = ((after - before) ** 2).sum(axis=0), ((before - before.mean(axis=0)) ** 2).sum(axis=0)
        varying = sst > 0
        slow = (sse[varying] / sst[varying]).mean() if varying.any() else 0.0
        assert squared_error_share(before, after) == pytest.approx(slow)
        spread = before.std(axis=0, ddof=1)[varying]
        gaps = np.abs(after - before)[:, varying] / np.sqrt(2) / spread
        assert absolute_error(before, after) == pytest.approx(gaps.mean() if varying.any() else 0.0)

    def test_means_lose_everything_and_copies_nothing(self):
        before = np.random.default_rng(0).normal(size=(40, 3))
        means = np.tile(before.mean(axis=0), (40, 1))
        assert squared_error_share(before, means) == pytest.approx(1.0)
        assert eigenvalue_loss(before, means) == pytest.approx(1.0)
        assert (squared_error_share(before, before), eigenvalue_loss(before, before)) == (0.0, 0.0)
        assert eigenvalue_loss(np.ones((3, 2)), before[:3, :2]) == 0.0  # constant columns have no share

    def test_rows_without_a_number_have_no_part(self):
        before, after = np.array([[1.0], [3.0], [5.0], [np.nan]]), np.array([[2.0], [2.0], [np.nan], [1.0]])
        assert squared_error_share(before, after) == pytest.approx(2 / 2)
        assert absolute_error(before, after) == pytest.approx(1 / (np.sqrt(2) * 2))
        assert squared_error_share(np.full((2, 1), np.nan), np.ones((2, 1))) == 0.0

    def test_a_column_that_is_the_total_of_others_does_no_harm(self):
        # other tools divide by eigenvalues that are almost 0 here
        rng = np.random.default_rng(0)
        two = rng.normal(size=(200, 2))
        table = np.column_stack([two, two.sum(axis=1)])
        assert eigenvalue_loss(table, table + 0.1 * rng.normal(size=table.shape)) < 0.1


class TestLossScores:
    def test_rows_that_are_not_released_lose_everything(self):
        original = {"age": [20.0, 30.0, 40.0, 60.0], "city": ["a", "b", "a", "c"]}
        released = {"age": [20.0, 30.0], "city": ["a", "b"]}
        found = scores_of(loss_scores, original, released, origin=np.array([0, 1]))
        assert found["granularity"] == pytest.approx(0.5)
        # age: 2 bits of each of 2 rows, of 4; city: 1 and 2 bits are lost, of 1, 2, 1 and 2
        assert found["entropy lost by recoding"] == pytest.approx((4 + 3) / (8 + 6))

    def test_a_missing_number_of_a_row_that_is_not_released_is_no_loss(self):
        original, released = {"age": [20.0, 30.0, None, 30.0]}, {"age": [20.0, 30.0]}
        found = scores_of(loss_scores, original, released, origin=np.array([0, 1]))
        own = np.log2([3 / 1, 3 / 2, 3 / 2])
        assert found["entropy lost by recoding"] == pytest.approx(own[2] / own.sum())

    def test_of_boxes_and_sets_by_hand(self):
        original = {"age": [20, 30, 40, 60], "city": ["a", "b", "a", "c"]}
        released = {
            "age_low": [20, 20, 40, 40],
            "age_high": [30, 30, 60, 60],
            "city": ["a|b", "a|b", "a|c", "a|c"],
            "box": [1, 1, 2, 2],
        }
        found = scores_of(loss_scores, original, released, origin=np.arange(4))
        assert found["rows per group, mean"] == 2.0
        assert found["rows that a row resembles, mean"] == 2.0
        shares = (0.25 + 0.25 + 0.5 + 0.5) / 4, 2 / 3  # of the range of ages, of three cities
        least = (0 + 1 / 3) / 2
        assert found["granularity"] == pytest.approx(1 - (np.mean(shares) - least) / (1 - least))
        bits = 4 * 1.0 + 2 * np.log2(3 / 2) + 2 * np.log2(3 / 1)  # ages: two of two each; cities: a of 3, b and c of 3
        most = 4 * 2.0 + 2 * np.log2(4 / 2) + 2 * np.log2(4 / 1)
        assert found["entropy lost by recoding"] == pytest.approx(bits / most)
        means = np.array([25, 25, 50, 50])
        ages = np.array([20, 30, 40, 60])
        slow = ((means - ages) ** 2).sum() / ((ages - ages.mean()) ** 2).sum()
        assert found["squared error (SSE/SST)"] == pytest.approx(slow)

    def test_without_origins_rows_are_not_compared(self, original):
        found = scores_of(loss_scores, original, original)
        assert found["granularity"] == 1.0
        assert found["change in eigenvalues"] == 0.0
        assert not {"squared error (SSE/SST)", "entropy lost by recoding"} & set(found)

    def test_suppressed_cells_and_rows_count_fully(self):
        original = {"a": ["x", "y", "z", "z"]}
        assert scores_of(loss_scores, original, {"a": pa.array(["*", None, "*"])})["granularity"] == 0.0
        found = scores_of(loss_scores, original, {"a": ["x", "z", "z"]})
        assert found["rows that a row resembles, mean"] == pytest.approx((1 + 4 + 4) / 4)

    def test_labels_of_a_tree_are_known_by_the_rows_that_have_them(self):
        original = {"a": ["x", "y", "z", "z"]}
        released = {"a": ["x or y", "x or y", "z", "z"]}
        assert "granularity" not in scores_of(loss_scores, original, released)
        found = scores_of(loss_scores, original, released, origin=np.arange(4))
        assert found["granularity"] == pytest.approx(1 - (0.5 - 1 / 3) / (1 - 1 / 3))
        assert found["entropy lost by recoding"] == pytest.approx(2 / (2 * 2 + 2 * 1))

    def test_missing_numbers_are_values_if_the_original_has_them(self):
        numbers = pa.array([1.0, 2.0, None, 4.0])
        assert scores_of(loss_scores, {"n": numbers}, {"n": numbers})["granularity"] == 1.0
        assert scores_of(loss_scores, {"n": [1.0, 2.0, 3.0, 4.0]}, {"n": numbers})["granularity"] == 0.75


class TestPropensity:
    def test_a_sample_of_the_same_population_cannot_be_told_apart(self):
        rng = np.random.default_rng(1)
        found = [propensity(rng.normal(size=(500, 4)), rng.normal(size=(500, 4))) for _ in range(30)]
        assert np.mean([one.separated for one in found]) == pytest.approx(found[0].by_chance, rel=0.25)
        assert found[0].by_chance == pytest.approx(8 / 1000)

    def test_moved_and_widened_rows_can(self):
        rng = np.random.default_rng(1)
        before = rng.normal(size=(500, 4))
        assert propensity(before, before + 5.0).separated > 0.95
        assert propensity(before, 2.0 * rng.normal(size=(500, 4))).separated > 0.2

    def test_a_copy_is_like_the_original_and_a_constant_tells_nothing(self, original, reference):
        assert scores_of(propensity_scores, original, original) == {
            "propensity (0: like the original)": pytest.approx(0.0, abs=1e-9)
        }
        assert propensity(np.ones((5, 1)), np.ones((5, 1))).separated == 0.0
        subject = MeasuredRelease(original=original, released=original, reference=reference)
        assert "the reference has" in next(iter(propensity_scores(subject))).note


class TestModels:
    def test_coefficients_are_those_of_least_squares(self):
        rng = np.random.default_rng(2)
        x = rng.normal(size=(300, 2))
        y = x @ [2.0, -1.0] + 3.0 + rng.normal(size=300)
        found = regression(x, y)
        design = np.column_stack([np.ones(300), x])
        values, left, *_ = np.linalg.lstsq(design, y, rcond=None)
        assert found.values == pytest.approx(values[1:])
        errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * left / 297)
        assert found.errors == pytest.approx(errors[1:])

    def test_overlaps_by_hand(self):
        one, error = np.array([0.0]), np.array([1 / 1.959964])  # the interval −1 … 1
        base = Coefficients(values=one, errors=error)
        assert interval_overlap(base, base) == pytest.approx(1.0)
        assert interval_overlap(base, Coefficients(values=one + 1, errors=error)) == pytest.approx(0.5)
        assert interval_overlap(base, Coefficients(values=one + 5, errors=error)) == 0.0
        assert interval_overlap(base, Coefficients(values=one, errors=2 * error)) == pytest.approx(0.75)

    def test_shuffled_columns_lose_what_models_need(self, original, independent):
        rng = np.random.default_rng(3)
        shuffled = Table.from_arrow(
            pa.table(
                {name: original.arrow.column(name).take(rng.permutation(original.rows)) for name in original.names}
            )
        )
        copy, other, bad = (scores_of(model_scores, original, one) for one in (original, independent, shuffled))
        overlap, accuracy = "overlap of regression intervals, mean", "accuracy of classifiers"
        assert copy[overlap] == pytest.approx(1.0)
        assert bad[overlap] < 0.6 < other[overlap]
        assert bad[accuracy] < other[accuracy] - 0.1
        assert copy[accuracy] == pytest.approx(other[accuracy], abs=0.15)

    def test_a_table_of_one_column_has_no_models(self):
        assert scores_of(model_scores, {"n": [1.0, 2.0]}, {"n": [1.0, 2.0]}) == {}
        assert scores_of(model_scores, {"c": ["a", "b"]}, {"c": ["a", "b"]}) == {}
