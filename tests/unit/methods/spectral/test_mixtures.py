"""Columns with many zeros: zeros stay as common, numbers stay in range, and relations are kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp

from sfumato.engines.memory.engine import MemorySurvey
from sfumato.methods.components import clusters as auto
from sfumato.methods.spectral.histograms import SpectralHistogram
from sfumato.methods.spectral.pica import PartitionedIca
from sfumato.methods.spectral.svd_swap import SvdSwap
from sfumato.plan.claims.kept_statistics import MomentsKept
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.table import Table

ROWS = 4000
draw = np.random.default_rng(2)
SKILL = draw.normal(size=ROWS)
WORKS = draw.random(ROWS) < np.where(SKILL > 0.0, 0.35, 0.1)
TABLE = Table.from_arrow(
    pa.table(
        {
            "wage": np.where(WORKS, np.exp(10 + 0.5 * SKILL + 0.5 * draw.normal(size=ROWS)), 0.0).round(2),
            "profit": np.where(draw.random(ROWS) < 0.8, 0.0, draw.standard_t(3, ROWS) * 1e4 + 2e4).round(),
            "visits": np.where(draw.random(ROWS) < 0.7, 0, 1 + draw.poisson(6, ROWS)),
            "hours": pa.array(
                np.where(draw.random(ROWS) < 0.1, np.nan, np.where(WORKS, 40 + draw.normal(0, 5, ROWS), 0.0)),
                from_pandas=True,
            ),
            "skill": SKILL,
        }
    )
)
METHODS = [
    SvdSwap(),
    SvdSwap(repair=False),
    SvdSwap(marginals="restored", basis="robust"),
    PartitionedIca(cluster_size=200),
    PartitionedIca(cluster_size=200, marginals="restored", repair=True),
]
ids = [f"{number} {method.name}" for number, method in enumerate(METHODS)]


@pytest.fixture(scope="module", params=METHODS, ids=ids)
def evidence(request, released):
    return released(request.param, TABLE)


class TestEveryMethod:
    @pytest.mark.parametrize("name", ["wage", "profit", "visits", "hours"])
    def test_zeros_are_as_common_as_before(self, evidence, name):
        before, after = TABLE.numbers(name), evidence.released.numbers(name)
        assert (after == 0.0).mean() == pytest.approx((before == 0.0).mean(), abs=0.01)
        assert np.isnan(after).mean() == pytest.approx(np.isnan(before).mean(), abs=0.02)

    @pytest.mark.parametrize("name", ["wage", "visits", "hours"])
    def test_no_number_is_out_of_range(self, evidence, name):
        before, after = TABLE.numbers(name), evidence.released.numbers(name)
        assert np.nanmin(after) >= np.nanmin(before) and np.nanmax(after) <= np.nanmax(before)
        assert np.nanmin(after[after != 0.0]) >= np.nanmin(before[before != 0.0])

    def test_negative_numbers_are_as_rare_as_before(self, evidence):
        before, after = TABLE.numbers("profit"), evidence.released.numbers("profit")
        assert 0.0 < (before < 0.0).mean() < 0.03
        assert (after < 0.0).mean() == pytest.approx((before < 0.0).mean(), abs=0.03)

    def test_numbers_beside_the_zeros_have_their_distribution(self, evidence):
        before, after = TABLE.numbers("wage"), evidence.released.numbers("wage")
        assert ks_2samp(before[before > 0.0], after[after > 0.0], method="asymp").statistic < 0.12

    def test_who_has_a_number_and_how_large_it_is_depends_on_other_columns(self, evidence):
        def relations(table):
            wage, skill = table.numbers("wage"), table.numbers("skill")
            works = wage > 0.0
            return np.corrcoef(works, skill)[0, 1], np.corrcoef(np.log(wage[works]), skill[works])[0, 1]

        assert relations(evidence.released) == pytest.approx(relations(TABLE), abs=0.2)

    def test_nobodys_largest_number_is_released(self, evidence):
        for name in ("wage", "skill"):
            assert TABLE.numbers(name).max() not in evidence.released.numbers(name)


def test_moments_of_columns_with_zeros_are_kept(released):
    names = ["wage", "profit", "skill"]
    before, after = TABLE.matrix(names), released(SvdSwap(), TABLE).released.matrix(names)
    assert np.allclose(before.mean(axis=0), after.mean(axis=0), rtol=1e-9)
    assert np.allclose(np.corrcoef(before.T), np.corrcoef(after.T), atol=1e-9)


def plan(method, table, **options):
    columns = tuple(Column(name=name, role=Role.QUASI) for name in table.names)
    return method.plan(MemorySurvey(table, **options), Schema(columns), Randomness(1))


def claims(method, table, **options):
    return {type(claim): claim for claim in plan(method, table, **options).claims}


def test_moments_are_promised_only_where_they_can_be_kept_within_the_ranges():
    assert claims(SvdSwap(), TABLE)[MomentsKept].columns == ("wage", "profit", "skill")
    rare = Table.from_arrow(pa.table({"x": SKILL, "rare": np.where(np.arange(ROWS) < 30, SKILL, 0.0)}))
    assert claims(SvdSwap(), rare)[MomentsKept].columns == ("x",)
    wide = Table.from_arrow(pa.table({f"x{number}": draw.normal(size=60) for number in range(150)}))
    assert MomentsKept not in claims(SvdSwap(), wide)


def test_the_manifest_names_mixtures_and_histograms_have_none():
    assert plan(SvdSwap(), TABLE).notes["mixtures"] == ["wage", "profit", "visits", "hours"]
    assert plan(SpectralHistogram(), TABLE).notes["mixtures"] == []


class TestChoiceOfTheClusterSize:
    def test_says_why(self):
        notes = plan(PartitionedIca(cluster_size="auto"), TABLE).notes
        assert f"measured on {ROWS:,} people" in notes["choice of the cluster size"]
        assert "choice of the cluster size" not in plan(PartitionedIca(), TABLE).notes

    def test_says_why_the_whole_table_is_one_cluster(self, monkeypatch):
        monkeypatch.setattr(auto, "measures_below", lambda measured, reference: ("distance", "ambiguity"))
        found = plan(PartitionedIca(cluster_size="auto"), TABLE.take(np.arange(300)))
        assert (found.size, found.choice.whole, found.choice.largest_rejected) == (300, True, 141)
        assert found.choice.reason == (
            "no smaller size is private, so the whole table is one cluster: at 141 rows distance and ambiguity below "
            "the reference, measured on 300 people"
        )
