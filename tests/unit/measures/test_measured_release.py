"""MeasuredRelease: every form of release is read as points, and distances are those of the metric."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import TableError
from sfumato.measures.measured_release import MeasuredRelease
from sfumato.table.kinds import Kind
from sfumato.table.table import Table


def table(**columns) -> Table:
    return Table.from_arrow(pa.table(columns))


def test_a_copy_has_the_matrix_of_the_original(original):
    pair = MeasuredRelease(original=original, released=original)
    assert np.array_equal(pair.original_matrix, pair.released_matrix)


def test_boxes_stand_at_their_midpoints():
    pair = MeasuredRelease(original=table(x=[0.0, 10.0]), released=table(x_low=[0.0, 2.0], x_high=[4.0, 8.0]))
    assert pair.code.natural(pair.released_matrix)[:, 0] == pytest.approx([2.0, 5.0])


def test_sets_spread_over_their_members():
    original = table(c=["a", "b", "c", None])
    pair = MeasuredRelease(original=original, released=table(c=["a|b", "c|(missing)", "b", None]))
    assert pair.released_matrix.tolist() == [
        [0.0, 0.0, -1.0, -1.0],
        [-1.0, -1.0, 0.0, 0.0],
        [-1.0, 1.0, -1.0, -1.0],
        [-1.0, -1.0, -1.0, 1.0],
    ]


def test_any_value_spreads_over_all_categories():
    released = table(c=["(any)", "(any)|(missing)", "a", "a"])
    pair = MeasuredRelease(original=table(c=["a", "b", "c", None]), released=released)
    assert pair.released_matrix[0] == pytest.approx([-1 / 3, -1 / 3, -1 / 3, -1.0])
    assert pair.released_matrix[1].tolist() == [-0.5, -0.5, -0.5, -0.5]


def test_a_number_that_left_as_words_tells_no_place():
    pair = MeasuredRelease(original=table(x=[1.0, 3.0], y=[1.0, 2.0]), released=table(x=["1-3", "1-3"], y=[1.0, 2.0]))
    assert pair.released_matrix[:, 0].tolist() == [0.0, 0.0]


def test_columns_that_did_not_leave_and_free_text_are_left_out():
    original = Table.from_arrow(pa.table({"x": [1.0], "gone": [1.0], "note": ["a"]}), {"note": Kind.TEXT})
    assert MeasuredRelease(original=original, released=table(x=[1.0], note=["b"])).names == ("x",)


def test_tables_that_share_nothing_cannot_be_compared(original):
    with pytest.raises(TableError, match="columns in common"):
        MeasuredRelease(original=original, released=table(other=[1.0]))
    with pytest.raises(TableError, match="rows"):
        MeasuredRelease(original=original, released=Table.from_arrow(original.arrow.slice(0, 0)))
    with pytest.raises(TableError, match="no column"):
        MeasuredRelease(original=original, released=original, reference=table(height=[1.0]))


class TestMetrics:
    people = table(x=[0.0, 1.0, 4.0, 9.0], y=[1.0, 1.0, 0.0, 2.0], c=["a", "b", "a", "a"])

    def apart(self, metric, first, second):
        points = MeasuredRelease(original=self.people, released=self.people, logs="never", metric=metric).people
        return np.linalg.norm(points[first] - points[second])

    def test_standardised_is_the_root_mean_square_of_all_columns(self):
        x = np.std(self.people.numbers("x"))
        steps = [1.0 / x, 0.0, 2.0, 2.0]  # x, y and the two indicators
        assert self.apart("standardised", 0, 1) == pytest.approx(np.sqrt(np.mean(np.square(steps))))

    def test_mixed_counts_every_column_of_the_table_once(self):
        x = np.std(self.people.numbers("x"))
        assert self.apart("mixed", 0, 1) == pytest.approx(np.sqrt(((1.0 / x) ** 2 + 0.0 + 2.0) / 3))

    def test_mahalanobis_does_not_see_how_columns_are_mixed(self):
        draw = np.random.default_rng(0)
        plain = draw.normal(size=(50, 3))
        mixed = plain @ draw.normal(size=(3, 3))

        def distances(matrix):
            people = Table.from_arrow(pa.table({f"x{i}": matrix[:, i] for i in range(3)}))
            points = MeasuredRelease(original=people, released=people, logs="never", metric="mahalanobis").people
            return np.linalg.norm(points[0] - points[1:], axis=1)

        assert distances(plain) == pytest.approx(distances(mixed))
