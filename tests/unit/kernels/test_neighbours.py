"""Nearest neighbours: against all distances, sorted."""

from __future__ import annotations

from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

from sfumato.kernels.neighbours import MANY, SHARE, _scan_work, nearest, nearest_without_each
from sfumato.kernels.prediction import downward_shift, prediction, prediction_from_others


def slow_nearest(queries, points, k):
    apart = np.sqrt(((queries[:, None, :] - points[None, :, :]) ** 2).sum(axis=2))
    index = np.argsort(apart, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(apart, index, axis=1), index


def clouds(rows):
    return arrays(np.float64, st.tuples(rows, st.just(5)), elements=st.floats(-100, 100, width=32))


@given(clouds(st.integers(1, 30)), clouds(st.integers(1, 700)), st.integers(1, 4))
def test_distances_match_the_slow_twin(queries, points, k):
    k = min(k, len(points))
    found = nearest(queries, points, k)
    distance, _ = slow_nearest(queries, points, k)
    assert np.allclose(found.distance, distance, rtol=1e-12, atol=1e-12)
    assert (found.distance >= 0).all()
    direct = np.sqrt(((queries[:, None, :] - points[found.index]) ** 2).sum(axis=2))
    assert np.allclose(found.distance, direct, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", [1, 3, 4, 7, 30])
@pytest.mark.parametrize("shape", ["round", "long", "far out", "one far out"])
def test_indices_match_the_slow_twin_in_every_shape_of_cloud(width, shape):
    draw = np.random.default_rng(width)
    points, queries = draw.normal(size=(1500, width)), draw.normal(size=(90, width))
    if shape == "long":
        turn = draw.normal(size=(width, width)) * np.geomspace(100, 0.01, width)
        points, queries = points @ turn, queries @ turn
    if shape == "far out":
        points, queries = points + 1e5, queries + 1e5
    if shape == "one far out":
        points[7] = 1e7
    found = nearest(queries, points, 6)
    distance, index = slow_nearest(queries, points, 6)
    assert np.allclose(found.distance, distance, rtol=1e-9)
    assert np.array_equal(found.index, index)


@pytest.mark.parametrize("shape", ["round", "equal", "far out", "few values"])
def test_points_in_very_many_columns_have_the_same_neighbours(shape):
    draw = np.random.default_rng(5)
    points, queries = draw.normal(size=(300, MANY + 1)), draw.normal(size=(70, MANY + 1))
    if shape == "equal":
        points, queries = points[np.arange(300) % 40], points[:70]
    if shape == "far out":
        points, queries = points + 1e6, queries + 1e6
    if shape == "few values":
        points, queries = np.sign(points), np.sign(queries)
    for k in (1, 9, 300, 310):
        found = nearest(queries, points, k)
        distance, index = slow_nearest(queries, points, min(k, 300))
        assert np.allclose(found.distance[:, :300], distance, rtol=1e-9)
        assert np.array_equal(found.index[:, :300], index)
        assert (found.index[:, 300:] == -1).all() and np.isinf(found.distance[:, 300:]).all()


def test_of_equal_points_the_first_comes_first():
    points = np.zeros((1000, 2))
    assert nearest(np.zeros((3, 2)), points, 4).index.tolist() == [[0, 1, 2, 3]] * 3


@pytest.mark.parametrize("values", [2, 6], ids=["many copies", "many cells"])
@pytest.mark.parametrize("k", [1, 9, 60])
def test_of_equally_near_points_the_first_come_first_in_all_cells(values, k):
    draw = np.random.default_rng(k)
    points, queries = (draw.integers(0, values, (rows, 4)).astype(float) for rows in (3000, 70))
    found = nearest(queries, points, k)
    distance, index = slow_nearest(queries, points, k)
    assert np.array_equal(found.distance, distance)
    assert np.array_equal(found.index, index)


@given(data=st.data(), widths=st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_leaving_out_each_group_matches_a_search_without_it(data, widths):
    group = np.repeat(np.arange(len(widths)), widths)
    cells = arrays(np.float64, st.tuples(st.integers(1, 40), st.just(len(group))), elements=st.integers(-3, 3))
    queries, points = data.draw(cells), data.draw(cells)  # small integers: sums are exact, and many are equal
    found = nearest_without_each(queries, points, group)
    for number in range(len(widths) + 1):
        others = group != number
        assert np.array_equal(found[:, number], slow_nearest(queries[:, others], points[:, others], 1)[1][:, 0])


def test_leaving_out_a_group_of_many_among_many_points_matches_a_search_without_it():
    draw = np.random.default_rng(3)
    points, queries, group = draw.normal(size=(800, 60)), draw.normal(size=(90, 60)), np.arange(60) // 2
    points[400:] = points[:400]
    found = nearest_without_each(queries, points, group)
    assert found.max() < 400  # of equal points the first
    for number in range(31):
        others = group != number
        assert np.array_equal(found[:, number], slow_nearest(queries[:, others], points[:, others], 1)[1][:, 0])


def test_the_cells_left_out_do_not_decide_between_equally_near_points():
    generator = np.random.default_rng(0)
    same, apart = generator.normal(size=(1, 9)), np.concatenate([np.geomspace(9.0, 1.0, 300), np.zeros(1)])
    points = np.column_stack([np.repeat(same, len(apart), axis=0), apart])
    found = nearest_without_each(np.zeros((1, 10)), points, np.arange(10))
    assert found[0, 9] == 0 and found[0, 10] == len(apart) - 1


def test_queries_too_far_out_for_single_precision_have_neighbours():
    points = np.random.default_rng(0).normal(size=(1000, 3))
    assert (nearest(np.full((2, 3), 1e30), points, 2).index >= 0).all()


def test_what_is_not_there_is_infinitely_far():
    found = nearest(np.zeros((1, 2)), np.ones((2, 2)), 3)
    assert found.index.tolist() == [[0, 1, -1]]
    assert np.isinf(found.distance[0, 2])
    assert np.isinf(nearest(np.zeros((1, 2)), np.ones((0, 2)), 1).distance).all()


def test_a_point_can_be_left_out_of_its_own_neighbours():
    points = np.array([[0.0], [1.0], [3.0]])
    found = nearest(points, points, 3).without(np.arange(3))
    assert found.index.tolist() == [[1, 2], [0, 2], [1, 0]]
    assert found.distance.tolist() == [[1.0, 3.0], [1.0, 2.0], [2.0, 3.0]]


def test_copies_that_crowd_a_point_out_leave_their_distances():
    points = np.zeros((5, 1))
    assert nearest(points, points, 3).without(np.arange(5)).distance.tolist() == [[0.0, 0.0]] * 5


class TestPrediction:
    def test_a_copy_is_at_no_distance_and_unambiguous(self):
        people = np.random.default_rng(0).normal(size=(50, 4))
        found = prediction(people, people, 5)
        assert (found.distance == 0).all()
        assert (found.ambiguity == 0).all()
        assert np.array_equal(found.nearest, np.arange(50))

    def test_a_tie_is_fully_ambiguous_even_at_no_distance(self):
        assert prediction(np.zeros((1, 2)), np.zeros((5, 2)), 5).ambiguity.tolist() == [1.0]
        assert prediction(np.ones((1, 2)), np.zeros((5, 2)), 5).ambiguity.tolist() == [1.0]

    def test_uncertainty_is_the_variance_of_the_nearest(self):
        rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [90.0, 90.0]])
        found = prediction(np.zeros((1, 2)), rows, 3)
        assert found.uncertainty[0] == pytest.approx(rows[:3].var(axis=0, ddof=1).sum())

    def test_from_others_is_that_of_a_table_without_the_person(self):
        people = np.random.default_rng(1).normal(size=(40, 3))
        found = prediction_from_others(people, 5)
        for person in (0, 17, 39):
            alone = prediction(people[[person]], np.delete(people, person, axis=0), 5)
            for name in ("distance", "ambiguity", "uncertainty"):
                assert getattr(found, name)[person] == pytest.approx(getattr(alone, name)[0])

    def test_one_person_alone_cannot_be_predicted(self):
        assert np.isinf(prediction_from_others(np.zeros((1, 2)), 5).distance).all()


@given(
    st.lists(st.floats(-9, 9), min_size=1, max_size=30),
    st.lists(st.floats(-9, 9), min_size=1, max_size=30),
)
def test_downward_shift_is_the_largest_excess_of_the_distribution(numbers, reference):
    slow = max(
        sum(x <= at for x in numbers) / len(numbers) - sum(x <= at for x in reference) / len(reference)
        for at in numbers + reference
    )
    assert downward_shift(np.array(numbers), np.array(reference)) == pytest.approx(max(0.0, slow))


def test_few_rows_of_many_columns_are_compared_by_compiled_code():
    """As Python, 200 rows of 3,000 columns took two minutes: the estimate of the work did not count columns."""
    points = np.random.default_rng(1).normal(size=(200, 3000))
    arguments = (np.arange(SHARE), points, points, SimpleNamespace(values=points))
    seconds = 1e-6 * _scan_work(*arguments, None, None, None, None)
    assert seconds > 64 * 200 * 3000 * 2e-7  # a step of Python takes longer than this
    narrow = points[:, :5]
    assert 1e-6 * _scan_work(arguments[0], narrow, narrow, SimpleNamespace(values=narrow)) < 0.01 * seconds
