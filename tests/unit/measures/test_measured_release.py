"""MeasuredRelease: every form of release is read as points, and distances are those of the metric."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.spatial.distance import cdist

import sfumato as sf
from sfumato.errors import TableError
from sfumato.measures import measured_release
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

    def test_probability_counts_how_many_people_are_between_and_how_seldom_people_differ(self):
        # x: ranks 1/8 and 3/8; y is equal; two random people differ in c with probability 1 − (9 + 1)/16
        squares = [12 * 0.25**2, 0.0, 2.0 / (1 - 10 / 16)]
        assert self.apart("probability", 0, 1) == pytest.approx(np.sqrt(np.mean(squares)))

    def test_probability_does_not_see_the_unit_of_a_number(self):
        draw = np.random.default_rng(0)
        x = draw.normal(size=(50, 2))
        rows = [{"x": x[:, 0], "y": x[:, 1]}, {"x": np.exp(x[:, 0]), "y": x[:, 1] ** 3}]
        found = []
        for one in rows:
            people = Table.from_arrow(pa.table(one))
            points = MeasuredRelease(original=people, released=people, logs="never", metric="probability").people
            found.append(np.linalg.norm(points[0] - points[1:], axis=1))
        assert found[0] == pytest.approx(found[1])

    def test_two_random_people_differ_equally_in_each_column(self):
        draw = np.random.default_rng(1)
        people = Table.from_arrow(
            pa.table({"x": draw.lognormal(size=400), "c": draw.choice(list("abc"), 400, p=[0.9, 0.08, 0.02])})
        )
        points = MeasuredRelease(original=people, released=people, metric="probability").people
        x, c = (((points[:, None, part] - points[None, :, part]) ** 2).sum(axis=2).mean() for part in ([0], [1, 2, 3]))
        assert x == pytest.approx(c, rel=0.01)

    def test_mahalanobis_does_not_see_how_columns_are_mixed(self):
        draw = np.random.default_rng(0)
        plain = draw.normal(size=(50, 3))
        mixed = plain @ draw.normal(size=(3, 3))

        def distances(matrix):
            people = Table.from_arrow(pa.table({f"x{i}": matrix[:, i] for i in range(3)}))
            points = MeasuredRelease(original=people, released=people, logs="never", metric="mahalanobis").people
            return np.linalg.norm(points[0] - points[1:], axis=1)

        assert distances(plain) == pytest.approx(distances(mixed))


class TestManyColumns:
    """Rows of more columns than rows are compared by their products, a few columns at a time."""

    @staticmethod
    def tables():
        draw = np.random.default_rng(7)
        columns = 150

        def people(rows):
            made = {f"g{place}": draw.integers(0, 3, rows) for place in range(columns)}
            made |= {f"x{place}": draw.normal(size=rows) for place in range(columns)}
            made |= {f"c{place}": draw.choice(["a", "b"], rows) for place in range(columns)}
            return Table.from_arrow(pa.table(made))

        return {"original": people(25), "released": people(20), "reference": people(15)}

    @pytest.mark.parametrize("metric", ["standardised", "mixed", "probability", "mahalanobis"])
    def test_distances_and_products_are_those_of_the_matrices(self, monkeypatch, metric):
        tables = self.tables()
        whole = MeasuredRelease(**tables, metric=metric)
        assert not whole.is_wide
        apart = cdist(whole.people, whole.rows), cdist(whole.people, whole.others)
        products = whole.original_matrix @ whole.released_matrix.T
        monkeypatch.setattr(measured_release, "WIDE_CELLS", 1000)
        monkeypatch.setattr(measured_release, "COLUMNS_AT_ONCE", 70)
        wide = MeasuredRelease(**tables, metric=metric)
        assert wide.is_wide and wide.people.shape[1] <= 60
        assert cdist(wide.people, wide.rows) == pytest.approx(apart[0])
        assert cdist(wide.people, wide.others) == pytest.approx(apart[1])
        assert wide.features[0] @ wide.features[1].T == pytest.approx(products)
        assert "original_matrix" not in vars(wide) and "released_matrix" not in vars(wide)

    def test_an_assessment_says_what_it_saw_of_the_columns(self, monkeypatch):
        tables = self.tables()
        chosen = ["prediction", "reference", "membership", "kernel-components", "moments"]
        whole = sf.assess(*tables.values(), measures=chosen, seed=1)
        monkeypatch.setattr(measured_release, "WIDE_CELLS", 1000)
        monkeypatch.setattr(measured_release, "NARROW", 25)
        some = sf.assess(*tables.values(), measures=chosen, seed=1)
        for one, other in zip(whole.scores, some.scores, strict=True):
            if "change in" in one.name:
                assert other.note.endswith("25 of 450 columns")
            else:
                assert other.value == pytest.approx(one.value, abs=1e-6)
