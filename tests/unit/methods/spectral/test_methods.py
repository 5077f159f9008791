"""The four spectral methods: what each keeps, what each hides, and what each refuses."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.engines.memory.engine import MemorySurvey
from sfumato.errors import CannotRelease, GuaranteeNotMet, OptionError, SfumatoWarning, TableError
from sfumato.job.assess import assess
from sfumato.kernels.prediction import prediction
from sfumato.methods.matrix import Ranges
from sfumato.methods.spectral.histograms import RecursiveHistogram, SpectralHistogram
from sfumato.methods.spectral.pica import PartitionedIca
from sfumato.methods.spectral.svd_swap import SvdSwap
from sfumato.plan.survey import Sample
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.encoder import Encoder
from sfumato.table.groups import group_sizes
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

METHODS = [
    SvdSwap(),
    SvdSwap(repair=False),
    SvdSwap(basis="robust", winsorise=0.01),
    SvdSwap(variant="orthogonal"),
    SvdSwap(variant="flip", marginals="restored"),
    SvdSwap(decoding="drawn"),
    SvdSwap(repair=False, decoding="probability"),
    PartitionedIca(cluster_size=100),
    PartitionedIca(cluster_size=100, repair=True, marginals="restored"),
    PartitionedIca(cluster_size=100, variant="orthogonal", winsorise=0.02),
    SpectralHistogram(k=5),
    RecursiveHistogram(k=5),
]
ids = [str(number) + " " + method.name for number, method in enumerate(METHODS)]

draw = np.random.default_rng(1)
ODD = {
    "three rows": pa.table({"x": [1.0, 2.0, 4.0], "c": ["a", "b", "a"]}),
    "more columns than rows": pa.table({f"x{i}": draw.normal(size=7) for i in range(20)}),
    "constant": pa.table({"x": [3.0] * 9, "n": [4] * 9, "c": ["a"] * 9}),
    "collinear": pa.table({"x": np.arange(60.0), "y": 2 * np.arange(60.0) + 1, "z": 5 - np.arange(60.0)}),
    "all categorical": pa.table({n: draw.choice(list("abc"), 90) for n in "uvw"}),
    "one rare person": pa.table({"x": draw.normal(size=80), "hiv": ["negative"] * 79 + ["positive"]}),
    "all missing": pa.table({"x": pa.nulls(12, pa.float64()), "c": pa.nulls(12, pa.string()), "n": [*range(6)] * 2}),
    "half missing": pa.table({"x": pa.array([1.0, None] * 40), "y": pa.array([None, 2] * 40)}),
    "one column": pa.table({"x": draw.normal(size=50)}),
    "heavy tails": pa.table({f"x{i}": draw.standard_cauchy(200) for i in range(3)}),
    "days": pa.table(
        {
            "born": pa.array([None, *draw.integers(0, 20_000, 79).tolist()], pa.int32()).cast(pa.date32()),
            "seen": pa.array(draw.integers(0, 2**50, 80)).cast(pa.timestamp("us")),
            "x": draw.normal(size=80),
        }
    ),
    "copies": pa.table({"x": [1.0, 2.0] * 50, "c": ["a", "b"] * 50}),
}


@pytest.mark.parametrize("method", METHODS, ids=ids)
class TestEveryMethod:
    def test_releases_the_same_columns_types_and_kinds(self, method, people, released):
        found = released(method, people).released
        assert found.names == people.names
        assert found.kinds == people.kinds
        assert found.arrow.schema.types == people.arrow.schema.types
        assert found.rows == people.rows

    def test_releases_valid_cells_only(self, method, people, released):
        found = released(method, people).released
        for name in ("city", "smokes"):
            assert set(found.arrow.column(name).to_pylist()) <= set(people.arrow.column(name).to_pylist())
        assert found.numbers("age").min() >= people.numbers("age").min()
        assert found.numbers("age").max() <= people.numbers("age").max()
        assert np.isfinite(found.numbers("income")).all()

    def test_rows_stand_in_no_order_of_the_original(self, method, people, released):
        evidence = released(method, people)
        assert abs(np.corrcoef(evidence.origin, np.arange(people.rows))[0, 1]) < 0.2
        assert sorted(evidence.origin) == list(range(people.rows))

    def test_the_same_seed_gives_the_same_release_and_another_another(self, method, people, released):
        first, again, other = (released(method, people, seed).released.arrow for seed in (4, 4, 5))
        assert first.equals(again)
        assert not first.equals(other)

    def test_a_declared_domain_is_kept(self, method, people, released):
        if method.repair if hasattr(method, "repair") else False:
            pytest.skip("moments that are promised cannot be kept in a domain that is narrower than the data")
        found = released(method, people, height=(155.0, 165.0)).released
        assert 155.0 <= found.numbers("height").min() <= found.numbers("height").max() <= 165.0

    def test_blocks_give_a_whole_release(self, method, people, released):
        assert released(method, people, block_rows=250).released.rows == people.rows

    @pytest.mark.parametrize("name", ODD)
    def test_odd_tables_are_released_as_promised(self, method, name, released):
        table = Table.from_arrow(ODD[name])
        if getattr(method, "k", 0) > table.rows:
            with pytest.raises(CannotRelease, match="smaller k"):
                released(method, table)
        else:
            assert released(method, table).released.rows == table.rows

    def test_too_few_rows_free_text_and_too_many_categories_are_refused(self, method, released):
        with pytest.raises(CannotRelease):
            released(method, Table.from_arrow(pa.table({"x": [1.0, 2.0]})))
        with pytest.raises(TableError, match="'note'"):
            released(method, Table.from_arrow(pa.table({"note": list("abcdef")}), {"note": Kind.TEXT}))
        names = Table.from_arrow(pa.table({"who": [f"person {i}" for i in range(1500)]}))
        with pytest.raises(TableError, match="'who'") as refused:
            released(method, names)
        assert "person" not in str(refused.value)
        with pytest.raises(TableError, match="infinite"):
            released(method, Table.from_arrow(pa.table({"x": [1.0, np.inf, 2.0, 3.0, 4.0, 5.0]})))


def relative_errors(evidence, names):
    before, after = evidence.original.matrix(names), evidence.released.matrix(names)
    spread = before.std(axis=0)
    return (
        np.abs(after.mean(axis=0) - before.mean(axis=0)) / spread,
        np.abs(np.cov(after.T) - np.cov(before.T)) / np.outer(spread, spread),
    )


class TestSvdSwap:
    @pytest.mark.parametrize("options", [{}, {"basis": "robust"}, {"marginals": "restored"}, {"variant": "orthogonal"}])
    def test_the_repair_keeps_means_and_covariances(self, options, people, released):
        mean, covariance = relative_errors(released(SvdSwap(**options), people), ["height", "weight", "income"])
        assert max(mean.max(), covariance.max()) < 1e-9

    def test_without_the_repair_they_are_kept_as_a_sample_would(self, people, released):
        mean, covariance = relative_errors(released(SvdSwap(repair=False), people), ["height", "weight"])
        assert 1e-6 < max(mean.max(), covariance.max()) < 0.2

    def test_the_plain_swap_keeps_correlations_better_than_the_draw_falls(self, people, released):
        def errors(tolerance):
            plain = SvdSwap(repair=False, tolerance=tolerance, logs="never")
            numbers = people.select(["height", "weight", "age"])
            return [relative_errors(released(plain, numbers, seed), numbers.names)[1].max() for seed in range(5)]

        assert np.mean(errors(None)) < 0.5 * np.mean(errors(1.0))

    def test_restored_marginals_are_nearer_than_free_ones(self, people, released):
        from scipy.stats import ks_2samp

        free, restored = (
            ks_2samp(released(SvdSwap(marginals=word), people).released.numbers("income"), people.numbers("income"))
            for word in ("free", "restored")
        )
        assert restored.statistic < free.statistic

    @pytest.mark.parametrize("method", [SvdSwap, PartitionedIca])
    def test_restored_marginals_give_categories_and_missing_numbers_their_shares(self, method, people, released):
        def counts(table):
            return {
                "Oslo": table.arrow.column("city").to_pylist().count("Oslo"),
                "smokes": sum(table.arrow.column("smokes").to_pylist()),
                "savings": table.arrow.column("savings").null_count,
            }

        assert counts(released(method(marginals="restored"), people).released) == counts(people)
        assert counts(released(method(marginals="free"), people).released) != counts(people)  # control

    @pytest.mark.parametrize("option", [{"basis": "ica"}, {"marginals": "kept"}, {"decoding": "guess"}, {"logs": 3}])
    def test_options_are_checked(self, option):
        with pytest.raises(OptionError, match=next(iter(option))):
            SvdSwap(**option)


def test_a_table_of_rank_one_hides_nobody_and_the_assessment_says_so(released):
    x = np.random.default_rng(3).normal(size=300)
    table = Table.from_arrow(pa.table({"x": x, "y": 2 * x + 1}))
    other = Table.from_arrow(pa.table({"x": x, "y": np.random.default_rng(4).normal(size=300)}))
    verdicts = [
        assess(one, released(SvdSwap(), one).released, measures=["reference"], seed=1)["distance below the reference"]
        for one in (table, other)
    ]
    assert [verdict.passed for verdict in verdicts] == [False, True]  # control: a second component hides


class TestPartitionedIca:
    def test_keeps_a_relation_that_is_not_linear(self, released):
        draw = np.random.default_rng(8)
        x = draw.normal(size=600)
        bent = Table.from_arrow(pa.table({"x": x, "y": x**2 + draw.normal(0, 0.3, 600), "z": draw.normal(size=600)}))

        def bend(table):
            return np.corrcoef(table.numbers("x") ** 2, table.numbers("y"))[0, 1]

        assert bend(bent) > 0.95
        assert bend(released(PartitionedIca(cluster_size=60), bent).released) > 0.8
        assert bend(released(SvdSwap(), bent).released) < 0.6  # control: what is not linear is lost

    def test_no_cluster_is_smaller_than_the_floor(self):
        with pytest.raises(OptionError, match="floor"):
            PartitionedIca(cluster_size=20)
        assert PartitionedIca(cluster_size=20, floor=10).cluster_size == 20

    @pytest.mark.parametrize("size", [1, "small", None, 2.5, True])
    def test_a_size_that_is_none_is_refused(self, size):
        with pytest.raises(OptionError, match="cluster_size"):
            PartitionedIca(cluster_size=size)

    def test_auto_takes_the_smallest_clusters_that_hide_everybody(self, people, released):
        from sfumato.kernels.prediction import downward_shift, prediction_from_others

        code = Encoder.fit(people)
        points = code.encode(people) / np.sqrt(code.width)
        others = prediction_from_others(points, 5)

        def shift(evidence):
            return downward_shift(
                prediction(points, code.encode(evidence.released) / np.sqrt(code.width), 5).distance, others.distance
            )

        chosen = released(PartitionedIca(cluster_size="auto", floor=10), people)
        small = released(PartitionedIca(cluster_size=10, floor=10), people)
        assert shift(chosen) < 0.04
        assert shift(small) > 0.1  # control: clusters of ten do not hide


class TestHistograms:
    def test_spectral_groups_leave_as_equal_rows(self, people, released):
        for k in (2, 5, 30):
            assert group_sizes(released(SpectralHistogram(k=k), people).released, people.names).min() >= k

    def test_plain_groups_fall_to_single_rows(self, people, released):
        assert group_sizes(released(RecursiveHistogram(k=5), people).released, people.names).min() == 1

    def test_a_release_of_unaltered_rows_is_told_and_refused_where_asked(self):
        numbers = np.random.default_rng(7)
        wide = {f"x{column}": numbers.normal(size=500) for column in range(20)}
        narrow = {name: wide[name] for name in ("x0", "x1")}
        with pytest.raises(GuaranteeNotMet, match="alone, with 90% of the cells") as refused:
            RecursiveHistogram(k=5, unaltered=0.05).release(wide)
        assert "spectral-rhs" in str(refused.value)
        share = int(re.search(r"(\d+)% of 500 rows", str(refused.value))[1])
        alone = np.bincount(RecursiveHistogram(k=5).groups(np.column_stack(list(wide.values())))) == 1
        assert share == pytest.approx(100.0 * alone.sum() / 500, abs=2)
        with pytest.warns(SfumatoWarning, match=rf"leaves {alone.mean():.0%} of the rows alone .* nothing hides"):
            assert RecursiveHistogram(k=5).release(wide).table.rows == 500
        # controls: in few columns cells are shared, and the spectral groups are never single rows
        found = RecursiveHistogram(k=10).release(narrow).findings
        assert any("0% of 500 rows" in one.found for one in found)
        assert SpectralHistogram(k=5).release(wide).table.rows == 500

    def test_plain_groups_are_split_at_all_medians_at_once(self):
        grid = np.array([[x, y] for x in (0.0, 1.0) for y in (0.0, 1.0) for _ in range(3)])
        labels = RecursiveHistogram(k=2).groups(grid + 1e-3 * np.arange(12)[:, None])
        assert sorted(np.bincount(labels)) == [3, 3, 3, 3]

    def test_means_stay_and_variances_shrink(self, people, released):
        evidence = released(SpectralHistogram(k=5, logs="never"), people)
        before, after = people.numbers("height"), evidence.released.numbers("height")
        assert after.mean() == pytest.approx(before.mean(), abs=0.05)
        assert after.var() < before.var()

    def test_more_rows_than_there_are_cannot_be_grouped(self, people, released):
        with pytest.raises(CannotRelease, match="smaller k"):
            released(SpectralHistogram(k=601), people)


class HalfSurvey(MemorySurvey):
    """A survey that shows half of the rows, as an engine with a large table would."""

    @property
    def sample(self):
        return Sample(self.table.take(np.arange(self.rows // 2)), self.rows)


def test_what_the_sample_did_not_show_is_released_all_the_same():
    table = Table.from_arrow(
        pa.table({"x": pa.array([1.0, 2.0, 3.0] * 20 + [None, 4.0, 9.0] * 20), "c": ["a"] * 60 + ["a", "b", None] * 20})
    )
    schema = Schema(tuple(Column(name=name, role=Role.QUASI) for name in table.names))
    found = SvdSwap(repair=False).plan(HalfSurvey(table), schema, Randomness(1)).transform(table, 0).released
    assert set(found.arrow.column("c").to_pylist()) == {"a", "b", None}
    assert found.arrow.column("x").null_count > 0


class TestFolding:
    @given(
        numbers=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
        low=st.sampled_from([-np.inf, -3.0, 0.0]),
        width=st.sampled_from([0.0, 1.0, 50.0, np.inf]),
    )
    def test_numbers_are_inside_and_those_inside_stay(self, numbers, low, width):
        cells = np.array(numbers)[:, None]
        ranges = Ranges(np.array([low]), np.array([low + width if np.isfinite(low) else width]))
        folded = ranges.fold(cells)
        assert ((folded >= ranges.low) & (folded <= ranges.high)).all()
        inside = (cells >= ranges.low) & (cells <= ranges.high)
        assert (folded[inside] == cells[inside]).all()

    def test_rows_beyond_an_end_do_not_become_equal(self):
        ranges = Ranges(np.array([0.0]), np.array([10.0]))
        assert ranges.fold(np.array([[11.0], [12.5], [-1.0], [99.0]])).ravel().tolist() == [9.0, 7.5, 1.0, 5.0]
