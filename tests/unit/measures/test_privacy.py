"""Prediction, the reference, linkage and boxes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp

from sfumato.errors import OptionError
from sfumato.kernels.neighbours import nearest
from sfumato.kernels.prediction import Prediction
from sfumato.measures.measured_release import MeasuredRelease
from sfumato.measures.privacy import prediction
from sfumato.measures.privacy import prediction as neighbours
from sfumato.measures.privacy.boxes import originals_in_boxes
from sfumato.measures.privacy.linkage import assign_rows, match_rows
from sfumato.measures.privacy.prediction import (
    find,
    find_in_cells,
    most_exposed,
    people_of,
    predict,
    uncertainty_by_column,
)
from sfumato.measures.privacy.reference import compare_with_reference, power_of, rows_needed, rows_planned
from sfumato.randomness import Randomness
from sfumato.table.table import Table


class TestPredict:
    def test_a_copy_is_at_no_distance(self, original):
        found = predict(original, original)
        assert found.distance.max() == 0.0
        assert found.ambiguity.max() == 0.0

    def test_takes_frames_any_k_and_any_metric(self, original, independent):
        for metric in ("standardised", "mahalanobis", "mixed", "probability"):
            found = predict(original.to_pandas(), independent.to_polars(), k=7, metric=metric)
            assert found.distance.shape == (400,)
            assert found.distance.min() > 0.0
            assert ((found.ambiguity > 0) & (found.ambiguity <= 1)).all()

    def test_more_neighbours_are_less_ambiguous_and_more_uncertain(self, original, independent):
        few, many = (predict(original, independent, k=k) for k in (2, 20))
        assert np.array_equal(few.distance, many.distance)
        assert (many.ambiguity <= few.ambiguity).all()
        assert many.uncertainty.mean() > few.uncertainty.mean()

    def test_the_uncertainty_is_the_mean_of_that_of_the_columns(self, original, independent):
        """Weighted by the columns of the matrix that each column of the table has."""
        pair = MeasuredRelease(original=original, released=independent)
        found = uncertainty_by_column(original, independent, k=6)
        widths = {name: float(len(pair.code.columns(name))) for name in found.names}
        assert found.weighted(widths) == pytest.approx(predict(original, independent, k=6).uncertainty)
        assert found.weighted() == pytest.approx(found.variance.mean(axis=1))

    def test_a_column_that_is_released_as_one_value_is_certain(self, original, independent):
        name = next(n for n in original.names if original.kinds[n].is_numeric)
        arrow = independent.arrow
        same = pa.array([arrow.column(name)[0].as_py()] * independent.rows, arrow.column(name).type)
        one = Table(arrow.set_column(arrow.column_names.index(name), name, same), independent.kinds)
        found = uncertainty_by_column(original, one)
        assert found.variance[:, found.names.index(name)].max() == 0.0
        assert np.delete(found.variance, found.names.index(name), axis=1).max() > 0.0

    def test_importance_is_checked(self, original):
        found = uncertainty_by_column(original, original)
        for wrong in ({"unheard of": 1.0}, {found.names[0]: -1.0}, dict.fromkeys(found.names, 0.0)):
            with pytest.raises(OptionError, match="importance"):
                found.weighted(wrong)

    def test_options_are_checked(self, original):
        with pytest.raises(OptionError, match="metric"):
            predict(original, original, metric="taxi")
        with pytest.raises(OptionError, match="k"):
            predict(original, original, k=0)

    def test_of_a_large_table_some_people_are_looked_for(self, original, independent, monkeypatch):
        monkeypatch.setattr(prediction, "PEOPLE", 50)
        found = people_of(MeasuredRelease(original=original, released=independent))
        assert len(np.unique(found.chosen)) == 50
        whole = predict(original, independent)
        assert found.released.distance == pytest.approx(whole.distance[found.chosen])


class TestNeighboursInCells:
    draw = np.random.default_rng(0)
    points = draw.normal(size=(6000, 4)) @ draw.normal(size=(4, 10))
    queries = points[:500] + 0.1 * draw.normal(size=(500, 10))

    def test_most_are_found_and_the_recall_is_measured(self, monkeypatch):
        monkeypatch.setattr(neighbours, "CELL_ROWS", 60)
        found = find_in_cells(self.queries, self.points, 5, np.random.default_rng(1))
        true = nearest(self.queries, self.points, 5)
        hit = np.mean([np.isin(t, f).mean() for t, f in zip(true.index, found.neighbours.index, strict=True)])
        assert hit > 0.9
        assert found.recall == pytest.approx(hit, abs=0.03)
        assert (found.neighbours.distance >= true.distance - 1e-12).all()

    def test_fewer_cells_find_less_and_say_so(self, monkeypatch):
        monkeypatch.setattr(neighbours, "CELL_ROWS", 30)
        monkeypatch.setattr(neighbours, "PROBED", 1)
        assert find_in_cells(self.queries, self.points, 5, np.random.default_rng(1)).recall < 0.9

    def test_are_used_only_where_an_exact_search_is_too_much(self, monkeypatch):
        assert find(self.queries, self.points, 5, np.random.default_rng(1)).recall == 1.0
        monkeypatch.setattr(neighbours, "EXACT_PAIRS", 10)
        monkeypatch.setattr(neighbours, "CELL_ROWS", 30)
        monkeypatch.setattr(neighbours, "PROBED", 1)
        assert find(self.queries, self.points, 5, np.random.default_rng(1)).recall < 1.0


class TestReference:
    def test_rows_are_those_of_the_thesis(self):
        assert (rows_planned(0.05), rows_planned(0.1)) == (1296, 324)

    @pytest.mark.parametrize("shift", [0.05, 0.1, 0.2])
    def test_rows_needed_have_the_power_asked_for(self, shift):
        rows = rows_needed(shift)
        assert power_of(rows, shift) >= 0.8 > power_of(rows - 1, shift) - 1e-3
        draw = np.random.default_rng(0)
        seen = 0
        for _ in range(200):
            numbers, reference = draw.random(rows), draw.random(rows)
            # mixture in which a share ``shift`` of the numbers has moved below all others
            numbers = np.where(draw.random(rows) < shift, 0.0, numbers)
            seen += ks_2samp(numbers, reference, alternative="greater").pvalue < 0.05
        assert seen / 200 > 0.75

    def test_a_lower_distribution_fails_and_an_equal_one_passes(self):
        draw = np.random.default_rng(1)

        def measured(low):
            numbers = [draw.random(2000) - low for _ in range(3)]
            return Prediction(*numbers, np.zeros(2000, dtype=np.int64))

        assert all(
            test.passed for test in compare_with_reference(measured(0.0), measured(0.0), np.random.default_rng(0))
        )
        assert all(
            test.passed for test in compare_with_reference(measured(-0.3), measured(0.0), np.random.default_rng(0))
        )
        assert not any(
            test.passed for test in compare_with_reference(measured(0.3), measured(0.0), np.random.default_rng(0))
        )

    def test_without_a_reference_the_rest_of_the_table_stands_in(self, original, reference):
        """To each person the others are a sample without them: both references give the same distributions."""
        pair = MeasuredRelease(original=original, released=original, reference=reference, randomness=Randomness(1))
        from sfumato.measures.privacy.reference import reference_prediction

        given, others = reference_prediction(pair), people_of(pair).others
        for name in ("distance", "ambiguity", "uncertainty"):
            assert ks_2samp(getattr(given, name), getattr(others, name)).pvalue > 1e-3
            assert ks_2samp(getattr(people_of(pair).released, name), getattr(others, name)).pvalue < 0.05  # control


class TestLinkage:
    def test_a_copy_is_matched_throughout(self, original):
        found = people_of(MeasuredRelease(original=original, released=original))
        assert match_rows(found.released, found.chosen, np.arange(400)).rate.value == 1.0

    def test_a_shuffled_copy_is_matched_by_its_origin(self, original):
        order = np.random.default_rng(0).permutation(400)
        found = people_of(MeasuredRelease(original=original, released=original.take(order)))
        assert match_rows(found.released, found.chosen, order).rate.value == 1.0
        assert match_rows(found.released, found.chosen, np.arange(400)).rate.value < 0.05  # control: another origin

    def test_right_matches_that_stand_out_are_told(self):
        near, far = np.full(50, 0.1), np.full(50, 0.9)
        found = Prediction(np.concatenate([near, far]), np.ones(100), np.arange(100.0), np.arange(100))
        origin = np.concatenate([np.arange(50), np.arange(50, 100)[::-1]])
        linkage = match_rows(found, np.arange(100), origin)
        assert linkage.rate.value == 0.5
        assert linkage.by_distance.value == 1.0
        assert linkage.by_ambiguity.value == 0.5
        assert linkage.by_uncertainty.value == 1.0  # the other end serves as well

    def test_a_model_of_all_three_tells_what_no_measure_tells_alone(self):
        draw = np.random.default_rng(2)
        distance, ambiguity = draw.uniform(-1, 1, (2, 1000))
        correct = distance * ambiguity > 0.2  # neither tells anything without the other
        found = Prediction(distance, ambiguity, draw.uniform(size=1000), np.arange(1000))
        origin = np.where(correct, np.arange(1000), (np.arange(1000) + 1) % 1000)
        linkage = match_rows(found, np.arange(1000), origin)
        assert max(linkage.by_distance.value, linkage.by_ambiguity.value, linkage.by_uncertainty.value) < 0.6
        assert linkage.by_all.value > 0.9

    def test_the_model_learns_nothing_where_nothing_is_to_learn(self):
        draw = np.random.default_rng(3)
        found = Prediction(*draw.uniform(size=(3, 600)), np.arange(600))
        origin = np.where(draw.random(600) < 0.1, np.arange(600), (np.arange(600) + 1) % 600)
        assert match_rows(found, np.arange(600), origin).by_all.low < 0.5  # it is judged by people it has not seen

    def test_people_who_were_suppressed_do_not_count(self):
        found = Prediction(np.zeros(3), np.ones(3), np.ones(3), np.array([0, 1, 1]))
        assert match_rows(found, np.arange(3), np.array([0, 1])).rate.value == 1.0

    def test_one_to_one_matches_are_the_cheapest(self):
        people, rows = np.array([[0.0], [1.0], [5.0]]), np.array([[5.1], [0.9], [0.2]])
        assert assign_rows(people, rows).tolist() == [2, 1, 0]
        assert assign_rows(people, rows[:2]).tolist().count(-1) == 1


class TestBoxes:
    original = Table.from_arrow(pa.table({"x": [1.0, 2.0, 5.0, None], "c": ["a", "b", "a", None]}))

    def fitting(self, low, high, cell):
        released = Table.from_arrow(pa.table({"x_low": [low], "x_high": [high], "c": [cell]}))
        return originals_in_boxes(self.original, released, np.array([0])).in_box[0]

    def test_people_inside_are_counted(self):
        assert self.fitting(0.0, 3.0, "a|b") == 2
        assert self.fitting(0.0, 3.0, "a") == 1
        assert self.fitting(0.0, 9.0, "a|b|(missing)") == 4
        assert self.fitting(6.0, 9.0, "a|b") == 0

    def test_a_word_that_is_no_value_may_cover_any(self):
        assert self.fitting(0.0, 3.0, "*") == 3  # the missing number fits every box

    def test_any_value_covers_all_but_the_missing_one(self):
        assert self.fitting(0.0, 9.0, "(any)") == self.fitting(0.0, 9.0, "a|b")
        assert self.fitting(0.0, 9.0, "(any)|(missing)") == self.fitting(0.0, 9.0, "a|b|(missing)")


class TestMostExposed:
    def test_those_whose_own_row_left_come_first(self):
        rows = np.random.default_rng(0).normal(size=(60, 3))
        released = np.random.default_rng(1).normal(size=(60, 3))
        released[:2] = rows[[17, 41]] + 1e-6  # two people leave nearly as they are
        subject = MeasuredRelease(original=_table(rows), released=_table(released))
        found = most_exposed(people_of(subject), 5)
        assert {one.row for one in found[:2]} == {17, 41}
        assert found[1].ratio < 0.01 < found[2].ratio
        assert [one.ratio for one in found] == sorted(one.ratio for one in found)

    def test_there_are_as_many_as_people_at_most_and_one_at_least(self):
        rows = np.random.default_rng(0).normal(size=(6, 2))
        found = people_of(MeasuredRelease(original=_table(rows), released=_table(rows)))
        assert len(most_exposed(found, 100)) == 6
        with pytest.raises(OptionError, match="count"):
            most_exposed(found, 0)


def _table(rows):
    return Table.from_arrow(pa.table({f"x{place}": column for place, column in enumerate(rows.T)}))
