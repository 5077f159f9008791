"""Charts of a bent surface, kernel components, and the way back by the nearest tangent."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.methods.components import surface
from sfumato.methods.components.surface import Charts, Tangent, kernel_components, swap_in_charts, swap_on_surface
from sfumato.methods.spectral.pica import PartitionedIca
from sfumato.methods.spectral.svd_swap import SvdSwap
from sfumato.methods.spectral.swap import ScoreSwap, freely

FREE = ScoreSwap(repair=False, tolerance=1.0)


def bow(rows=600, seed=0):
    """A bent line in the plane, and a column that does not belong to it."""
    draw = np.random.default_rng(seed)
    along = draw.uniform(-1, 1, rows)
    return np.column_stack([along, along**2 + draw.normal(0, 0.05, rows), draw.normal(0, 0.3, rows)])


def off_the_bow(matrix):
    return float(np.median(np.abs(matrix[:, 1] - matrix[:, 0] ** 2)))


class TestCharts:
    def test_every_row_counts_the_same(self):
        points = bow()
        charts = Charts.of(points, 100, 20, np.random.default_rng(1))
        counted = np.bincount(np.concatenate(charts.members), minlength=len(points))
        assert (counted == surface.OVERLAP).all()
        assert min(map(len, charts.members)) >= 20
        assert 60 < np.mean([len(one) for one in charts.members]) < 200

    def test_a_row_belongs_to_the_nearest_anchors(self):
        points = bow(200)
        charts = Charts.of(points, 50, 5, np.random.default_rng(1))
        slow = np.argsort(((points[:, None] - charts.anchors) ** 2).sum(axis=2), axis=1)[:, : surface.OVERLAP]
        assert np.array_equal(np.sort(charts.charts, axis=1), np.sort(slow, axis=1))
        drawn = charts.drawn_rows(np.random.default_rng(2))
        assert sorted(np.concatenate(drawn)) == list(range(200))  # each row is made once, in one of its charts
        assert all(set(one) <= set(own) for one, own in zip(drawn, charts.members, strict=True))

    @pytest.mark.parametrize("rows", [1, 2, 7])
    def test_few_rows_are_one_chart(self, rows):
        charts = Charts.of(bow(rows), 100, 50, np.random.default_rng(1))
        assert [len(one) for one in charts.members] == [rows]


class TestTangent:
    def test_of_a_plane_is_the_plane(self):
        draw = np.random.default_rng(3)
        scores, slopes = draw.normal(size=(80, 2)), draw.normal(size=(2, 5))
        tangent = Tangent.at(scores, 3.0 + scores @ slopes)
        inside = scores * 0.5
        assert tangent.rows(inside) == pytest.approx(3.0 + inside @ slopes, abs=1e-4)
        assert tangent.rows(scores + 100.0) == pytest.approx(
            3.0 + scores.max(axis=0) @ slopes * np.ones((80, 1)), abs=1e-4
        )

    def test_of_equal_rows_is_their_place(self):
        tangent = Tangent.at(np.ones((5, 2)), np.full((5, 3), 7.0))
        assert tangent.rows(np.array([[4.0, -4.0]])) == pytest.approx(np.full((1, 3), 7.0))


class TestKernelComponents:
    def test_they_are_those_of_the_centred_kernel(self):
        points = bow(150)
        scores = kernel_components(points, np.random.default_rng(0))
        squared = ((points[:, None] - points) ** 2).sum(axis=2)
        kernel = np.exp(-squared / (2 * np.median(squared[np.triu_indices(150, 1)])))
        centre = np.eye(150) - 1 / 150
        vectors = np.linalg.eigh(centre @ kernel @ centre)[1][:, ::-1][:, : scores.shape[1]]
        assert np.abs((vectors * scores).sum(axis=0)) == pytest.approx(np.linalg.norm(scores, axis=0), rel=1e-6)
        assert scores.mean(axis=0) == pytest.approx(0.0, abs=1e-9)
        assert scores.std(axis=0) == pytest.approx(1.0)

    def test_landmarks_span_those_of_a_large_table(self, monkeypatch):
        points = bow(900)
        whole = kernel_components(points, np.random.default_rng(0))
        monkeypatch.setattr(surface, "LANDMARKS", 300)
        some = kernel_components(points, np.random.default_rng(0))
        assert abs(np.corrcoef(whole[:, 0], some[:, 0])[0, 1]) > 0.99

    def test_equal_rows_have_none(self):
        assert kernel_components(np.ones((30, 2)), np.random.default_rng(0)).shape == (30, 0)
        assert swap_on_surface(np.ones((30, 2)), FREE, FREE, np.random.default_rng(0)) == pytest.approx(1.0)


def test_both_ways_stay_near_the_surface_and_move_the_rows():
    points = bow()
    charts = swap_in_charts(points, points, FREE, np.random.default_rng(1), size=60, floor=20)
    kernel = swap_on_surface(points, FREE, FREE, np.random.default_rng(1))
    centre, spread = points.mean(axis=0), np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    plain = centre + FREE(spread[0], np.random.default_rng(1)) * spread[1] @ spread[2]
    assert off_the_bow(charts) < 0.3 * off_the_bow(plain)  # the last one is the control: it leaves the bow
    assert off_the_bow(kernel) < 0.6 * off_the_bow(plain)
    assert np.abs(kernel - points).mean() > 0.2
    assert np.abs(charts.mean(axis=0) - points.mean(axis=0)).max() < 0.1


def test_freely_has_no_limit_and_keeps_the_rest():
    assert freely(ScoreSwap(variant="forest", winsorise=0.1)) == ScoreSwap(
        variant="forest", winsorise=0.1, repair=False, tolerance=1.0
    )
    assert freely(ScoreSwap(variant="flip")).tolerance is None


@pytest.mark.parametrize(
    "method",
    [
        PartitionedIca(pieces="charts", cluster_size=100),
        SvdSwap(basis="kernel"),
        SvdSwap(basis="kernel", variant="forest", repair=False),
        SvdSwap(basis="kernel", variant="flip"),
    ],
    ids=str,
)
def test_a_mixed_table_is_released(method, people, released):
    evidence = released(method, people)
    assert evidence.released.rows == people.rows
    assert not evidence.released.arrow.equals(people.arrow)
