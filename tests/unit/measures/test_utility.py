"""Moments, marginals and kernel components."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import OptionError
from sfumato.measures.measured_release import MeasuredRelease
from sfumato.measures.utility.kernel_components import Kernel, KernelComponents, compare_components, component_tests
from sfumato.measures.utility.moments import marginals, moment_changes
from sfumato.table.table import Table

DRAW = np.random.default_rng(0)
MATRIX = DRAW.normal(size=(500, 4)) @ DRAW.normal(size=(4, 4))


class TestMoments:
    def test_nothing_changed_is_nothing(self):
        found = moment_changes(MATRIX, MATRIX[::-1])
        assert max(found.mean, found.variance, found.correlation, found.rank_correlation) == pytest.approx(0, abs=1e-12)

    def test_changes_are_in_units_of_the_original(self):
        found = moment_changes(MATRIX, MATRIX + 0.5 * MATRIX.std(axis=0, ddof=1))
        assert found.mean == pytest.approx(0.5)
        assert found.variance == pytest.approx(0.0, abs=1e-12)
        assert moment_changes(MATRIX, MATRIX * np.sqrt(1.3)).variance == pytest.approx(0.3)

    def test_correlations_are_compared_pair_by_pair(self):
        first = DRAW.normal(size=400)
        related, unrelated = np.column_stack([first, first]), np.column_stack([first, DRAW.permutation(first)])
        found = moment_changes(related, unrelated)
        assert found.correlation == pytest.approx(1.0, abs=0.2)
        assert found.rank_correlation == pytest.approx(1.0, abs=0.2)

    def test_constant_columns_have_no_part(self):
        constant = np.column_stack([MATRIX, np.full(500, 3.0)])
        assert moment_changes(constant, constant).columns == 4
        assert moment_changes(np.ones((5, 2)), np.ones((5, 2))).mean == 0.0


def test_marginals_are_compared_column_by_column():
    original = Table.from_arrow(pa.table({"x": [1.0, 2.0, 3.0, 4.0], "c": ["a", "a", "b", "b"]}))
    released = Table.from_arrow(pa.table({"x": [1.0, 2.0, 9.0, 9.0], "c": ["a", "b", "b", "b"]}))
    pair = MeasuredRelease(original=original, released=released, logs="never")
    found = {one.column: one.change for one in marginals(pair, pair.released_matrix)}
    assert found == {"x": pytest.approx(0.5), "c": pytest.approx(0.25)}
    assert [one.change for one in marginals(pair, pair.original_matrix)] == [0.0, 0.0]


class TestKernelComponents:
    def slow(self, matrix, degree, count):
        """Principal components of all monomials up to the degree, written out."""
        from itertools import combinations_with_replacement

        from scipy.special import comb

        padded = np.column_stack([np.ones(len(matrix)), matrix])
        columns = []
        for powers in combinations_with_replacement(range(padded.shape[1]), degree):
            ways, left = 1.0, degree
            for column in set(powers):
                ways *= comb(left, powers.count(column))
                left -= powers.count(column)
            columns.append(np.sqrt(ways) * np.prod(padded[:, list(powers)], axis=1))
        features = np.array(columns).T
        centred = features - features.mean(axis=0)
        return np.linalg.svd(centred, full_matrices=False)[1][:count] ** 2 / len(matrix)

    @pytest.mark.parametrize("degree", [1, 2, 4])
    def test_are_those_of_all_products_of_columns(self, degree):
        found = KernelComponents.of(MATRIX[:200], generator=DRAW, kernel=Kernel(degree=degree), components=4)
        assert found.eigenvalues == pytest.approx(self.slow(MATRIX[:200], degree, 4), rel=1e-6)

    def test_projections_have_the_variance_of_the_component(self):
        found = KernelComponents.of(MATRIX, generator=DRAW, components=5)
        assert found.project(MATRIX).var(axis=0) == pytest.approx(found.eigenvalues, rel=1e-6)
        assert (np.diff(found.cumulative) > 0).all()
        assert found.cumulative[-1] <= 1.0

    def test_from_some_rows_are_near_those_from_all(self):
        matrix = np.random.default_rng(1).uniform(-1, 1, size=(1200, 3)) * [3, 2, 1]
        whole = KernelComponents.of(matrix, generator=np.random.default_rng(0), kernel=Kernel(degree=2), components=3)
        some = KernelComponents.of(
            matrix, generator=np.random.default_rng(0), kernel=Kernel(degree=2), components=3, exact_rows=400
        )
        assert len(some.rows) == 400
        assert some.eigenvalues == pytest.approx(whole.eigenvalues, rel=0.15)

    def test_differ_where_a_relation_of_high_order_is_lost(self):
        draw = np.random.default_rng(2)
        x, y = draw.normal(size=(2, 1000))
        odd = np.column_stack([x, y, np.sign(x * y) * np.abs(draw.normal(size=1000))])
        kept, lost = odd[draw.permutation(1000)], odd.copy()
        lost[:, 2] = draw.permutation(lost[:, 2])  # pairs stay unrelated, the three together were not
        components = KernelComponents.of(odd, generator=draw)
        assert not any(test.differs for test in component_tests(components, odd, kept, np.random.default_rng(0)))
        assert sum(test.differs for test in component_tests(components, odd, lost, np.random.default_rng(0))) > 2

    def test_there_are_no_more_than_rows(self):
        assert KernelComponents.of(MATRIX[:6], generator=DRAW).weights.shape[1] <= 5
        assert KernelComponents.of(np.ones((6, 2)), generator=DRAW).weights.shape[1] == 0

    def test_a_gaussian_sees_two_clumps_with_the_mean_and_the_variance_of_one(self):
        draw = np.random.default_rng(3)
        normal = draw.normal(size=1000)
        clumps = draw.choice([-1.0, 1.0], 1000) * 0.98 + 0.2 * draw.normal(size=1000)
        clumps = (clumps - clumps.mean()) / clumps.std() * normal.std() + normal.mean()
        tables = {"x": normal}, {"x": clumps}
        options = {"kernel": "gaussian", "width": 0.5, "components": 5, "seed": 1}
        control = compare_components(tables[0], {"x": draw.normal(size=1000)}, **options)
        assert max(test.p_value for test in compare_components(*tables, **options)) < 1e-3
        assert min(test.p_value for test in control) > 1e-3

    def test_the_gaussian_is_that_of_the_formula(self):
        x, y = MATRIX[:3], MATRIX[5:7]
        slow = [[np.exp(-np.mean((a - b) ** 2) / (2 * 0.7**2)) for b in y] for a in x]
        assert Kernel(name="gaussian", width=0.7)(x, y) == pytest.approx(np.array(slow))

    def test_the_exponential_is_that_of_the_formula_and_finite(self):
        x, y = MATRIX[:3], MATRIX[5:7]
        slow = [[np.exp(np.mean(a * b) / 0.7**2) for b in y] for a in x]
        assert Kernel(name="exponential", width=0.7)(x, y) == pytest.approx(np.array(slow))
        assert np.isfinite(Kernel(name="exponential")(1e6 * x, 1e6 * y)).all()

    def test_the_exponential_sees_a_product_of_three_columns(self):
        draw = np.random.default_rng(4)
        signs = draw.choice([-1.0, 1.0], size=(1000, 3))
        tied = np.column_stack([signs[:, :2], signs[:, 0] * signs[:, 1]]) + 0.1 * draw.normal(size=(1000, 3))
        tables = [
            dict(zip("xyz", matrix.T, strict=True)) for matrix in (tied, signs + 0.1 * draw.normal(size=(1000, 3)))
        ]
        options = {"kernel": "exponential", "width": 0.7, "components": 8, "seed": 1}
        assert min(test.p_value for test in compare_components(*tables, **options)) < 1e-6
        again = dict(zip("xyz", tied[draw.permutation(1000)].T, strict=True))
        assert min(test.p_value for test in compare_components(tables[0], again, **options)) > 1e-3  # control

    @pytest.mark.parametrize("option", [{"degree": 0}, {"components": 0}, {"width": 0.0}, {"kernel": "cubic"}])
    def test_options_are_checked(self, option):
        with pytest.raises(OptionError, match=next(iter(option))):
            compare_components({"x": MATRIX[:, 0]}, {"x": MATRIX[:, 0]}, **option)
