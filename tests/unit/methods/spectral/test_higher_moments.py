"""Moments above the second are restored within the ranges, and promised only where that leaves a choice."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.memory.engine import Memory
from sfumato.errors import CannotRelease, GuaranteeNotMet, OptionError
from sfumato.methods.spectral.higher_moments import with_higher_moments
from sfumato.methods.spectral.moments import with_moments
from sfumato.plan.claims.kept_statistics import HigherMomentsKept
from sfumato.plan.plan import Evidence
from sfumato.sources.frames import as_table
from sfumato.statistics.generalized_moments import Products, count_moments


def slow_moments(numbers, degree):
    """The mean of every product of powers, one by one."""
    powers = [one for one in product(range(degree + 1), repeat=numbers.shape[1]) if 0 < sum(one) <= degree]
    return {one: float(np.prod(numbers ** np.array(one), axis=1).mean()) for one in powers}


@given(st.integers(1, 4), st.integers(2, 4), st.integers(0, 1000))
def test_products_are_those_of_the_slow_twin(columns, degree, seed):
    numbers = np.random.default_rng(seed).normal(size=(30, columns))
    products = Products.up_to(degree, columns)
    found = {
        tuple(map(int, one)): total / 30
        for one, total in zip(products.exponents, products.sums(numbers)[0], strict=True)
    }
    assert found == pytest.approx(slow_moments(numbers, degree))
    assert len(found) == count_moments(columns, degree)


def test_derivatives_are_differences():
    numbers = np.random.default_rng(1).normal(size=(20, 3))
    products, step = Products.up_to(3, 3), np.array([0.0, 1e-6, 0.0])
    differences = (products.of(numbers + step) - products.of(numbers - step)) / 2e-6
    assert np.allclose(products.of(numbers, by=1), differences, atol=1e-7)


@given(st.integers(3, 4), st.integers(0, 2**32 - 1))
def test_moments_and_ranges_hold_together(degree, seed):
    draw = np.random.default_rng(seed)
    like = np.exp(draw.normal(size=(300, 3)) @ draw.normal(size=(3, 3)) * 0.3)
    low, high = like.min(axis=0), like.max(axis=0)
    start = with_moments(draw.permuted(like, axis=0), like, low, high).numbers
    found = with_higher_moments(start, like, low, high, degree)
    assert (found.numbers >= low).all() and (found.numbers <= high).all()
    if found.converged:
        scale = like.std(axis=0)
        wanted, kept = (slow_moments((one - like.mean(axis=0)) / scale, degree) for one in (like, found.numbers))
        assert kept == pytest.approx(wanted, rel=1e-6, abs=1e-7)


def bent(rows=1000):
    draw = np.random.default_rng(2)
    x = draw.normal(size=rows)
    return {"x": x, "y": x**2 + draw.normal(size=rows), "z": draw.lognormal(0.0, 0.5, rows)}


ROLES = dict.fromkeys("xyz", "quasi")


class TestSvdSwap:
    def test_a_bent_relation_is_kept_and_without_the_degree_it_is_not(self):
        table = bent()
        relation = np.corrcoef(table["x"] ** 2, table["y"])[0, 1]
        for degree, is_kept in ((2, False), (4, True)):
            release = sf.SvdSwap(degree=degree).release(table, schema=ROLES)
            x, y = (release.table.numbers(name) for name in "xy")
            assert (abs(np.corrcoef(x**2, y)[0, 1] - relation) < 1e-9) == is_kept
            assert any("degree 4 of x, y, z kept" in one.claim for one in release.findings) == is_kept
            assert not np.isin(x, table["x"]).any()

    def test_blocks_keep_the_moments_of_the_whole(self):
        table = bent(4000)
        release = sf.SvdSwap(degree=3).release(table, schema=ROLES, engine=Memory(block_rows=900, sample_rows=500))
        assert release.manifest is not None and release.manifest.noted_names("moments kept") == ("x", "y", "z")
        moments = [(one**3).mean() for one in (release.table.numbers("z"), table["z"])]
        assert moments[0] == pytest.approx(moments[1], rel=1e-9)

    @pytest.mark.parametrize(("rows", "degree"), [(30, 4), (1000, 40)])
    def test_a_table_that_its_moments_would_determine_is_refused(self, rows, degree):
        with pytest.raises(CannotRelease, match="ten cells per moment"):
            sf.SvdSwap(degree=degree).release(bent(rows), schema=ROLES)

    def test_columns_that_are_rounded_are_refused(self):
        with pytest.raises(CannotRelease, match="continuous columns"):
            sf.SvdSwap(degree=3).release({"x": list(range(100)), "y": list(range(100, 0, -1))}, schema={"x": "quasi"})

    def test_needs_the_repair(self):
        with pytest.raises(OptionError, match="repair"):
            sf.SvdSwap(degree=3, repair=False)

    def test_moments_that_cannot_be_reached_are_not_released(self):
        table = bent()
        table["z"] = np.where(
            np.arange(1000) < 4, 30.0 + np.arange(1000), table["z"]
        )  # beyond what a range of means holds
        with pytest.raises((GuaranteeNotMet, CannotRelease)):
            sf.SvdSwap(degree=6).release(table, schema=ROLES)


class TestTheClaim:
    @pytest.mark.parametrize(("moved", "holds"), [(0.0, True), (1e-3, False)])
    def test_counts_both_tables_and_merges(self, moved, holds):
        numbers = np.random.default_rng(3).normal(size=(200, 2))
        changed = numbers[::-1] * np.array([1.0, 1.0 + moved])
        claim = HigherMomentsKept(columns=("a", "b"), degree=3, centres=(0.1, 0.0), scales=(1.0, 2.0))

        def evidence(rows):
            tables = [as_table(dict(zip("ab", one[rows].T, strict=True))) for one in (numbers[::-1], changed)]
            return Evidence(*tables, np.arange(tables[0].rows))

        parts = [claim.tally(evidence(slice(0, 70))), claim.tally(evidence(slice(70, 200)))]
        assert claim.finding(claim.merge(*parts)).held == holds
        assert claim.finding(claim.tally(evidence(slice(0, 200)))).held == holds
