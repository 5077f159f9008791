"""Noise, Microaggregate, Swap and Boxes in a spectral basis: project, alter, project back, and what stays promised."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.errors import OptionError, RequestError
from sfumato.methods.components.parts import CLUSTER_FLOOR, alter_parts, parts_of
from sfumato.plan.claims.kept_statistics import MarginalsKept
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.table import Table

BASES = ("svd", "ica", "clusters")
COVARIANCE = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.2], [0.3, 0.2, 1.0]])


def normal_rows(rows, seed=0):
    return np.random.default_rng(seed).multivariate_normal(np.zeros(3), COVARIANCE, rows)


def table_of(rows):
    return Table.from_arrow(pa.table({f"x{place}": column for place, column in enumerate(rows.T)}))


def schema_of(table):
    return Schema(tuple(Column(name=name, role=Role.QUASI) for name in table.names))


def plan_of(method, table, seed=3):
    return method.plan(MemorySurvey(table), schema_of(table), Randomness(seed))


def masked(method, rows, seed=3):
    """Return the released and the original rows, in the same order."""
    table = table_of(rows)
    outcome = plan_of(method, table, seed).transform(table, 0)
    return outcome.released.matrix(table.names), rows[outcome.origin]


ODD = {
    "one column": lambda draw: draw.normal(size=(40, 1)),
    "constant": lambda draw: np.ones((40, 3)),
    "collinear": lambda draw: draw.normal(size=(40, 2)) @ draw.normal(size=(2, 5)),
    "more columns than rows": lambda draw: draw.normal(size=(12, 50)),
    "clusters smaller than the dimension": lambda draw: draw.normal(size=(300, 160)),
    "equal rows": lambda draw: np.repeat(draw.normal(size=(2, 3)), 20, axis=0),
    "three rows": lambda draw: draw.normal(size=(3, 2)),
}


class TestParts:
    @pytest.mark.parametrize("basis", BASES)
    @pytest.mark.parametrize("odd", sorted(ODD))
    def test_every_row_is_in_one_part_with_white_scores_and_the_way_back(self, basis, odd):
        matrix = ODD[odd](np.random.default_rng(1))
        parts = parts_of(matrix, basis, np.random.default_rng(2))
        assert sorted(np.concatenate([part.rows for part in parts])) == list(range(len(matrix)))
        for part in parts:
            scores = part.basis.scores
            assert part.basis.matrix(scores) == pytest.approx(matrix[part.rows], abs=1e-8)
            assert scores.T @ scores / len(scores) == pytest.approx(np.eye(part.basis.rank), abs=1e-6)
        same = alter_parts(matrix, basis, np.random.default_rng(2), lambda scores, generator: scores)
        assert same == pytest.approx(matrix, abs=1e-8)

    def test_clusters_have_their_own_centres_and_enough_rows(self):
        rows = np.concatenate([normal_rows(200, 1), normal_rows(200, 2) + 40.0])
        parts = parts_of(rows, "clusters", np.random.default_rng(0))
        assert len(parts) > 1
        assert min(len(part.rows) for part in parts) >= CLUSTER_FLOOR
        assert all((part.rows < 200).all() or (part.rows >= 200).all() for part in parts)
        large = parts_of(rows, "clusters", np.random.default_rng(0), least=150)
        assert min(len(part.rows) for part in large) >= 150

    @pytest.mark.parametrize("basis", BASES)
    @pytest.mark.parametrize("odd", sorted(ODD))
    @pytest.mark.parametrize(
        "method", [sf.Noise, sf.Swap, sf.Microaggregate, sf.Boxes], ids=lambda method: method.__name__
    )
    def test_odd_tables_are_released_as_promised(self, basis, odd, method):
        table = table_of(ODD[odd](np.random.default_rng(1)))
        options = {"k": 3} if method in (sf.Microaggregate, sf.Boxes) else {"window": 0.4} if method is sf.Swap else {}
        made = method(basis=basis, **options)
        if odd == "constant" and method in (sf.Noise, sf.Swap):
            plan_of(made, table).transform(table, 0)  # released unaltered, and refused for that
            return
        release = made.release(table, schema=schema_of(table), seed=1)
        assert all(finding.held for finding in release.findings)
        assert release.table.rows == table.rows


class TestNoise:
    @pytest.mark.parametrize("basis", ["svd", "ica"])
    @pytest.mark.parametrize("kind", ["correlated", "uncorrelated", "mixture", "density"])
    def test_noise_on_white_scores_has_the_covariance_of_the_data(self, basis, kind):
        after, before = masked(sf.Noise(kind=kind, basis=basis, level=0.5, correct=False), normal_rows(20_000))
        assert np.cov((after - before).T) == pytest.approx(0.5 * np.cov(before.T), abs=0.03)

    def test_control_uncorrelated_noise_in_the_columns_has_not(self):
        after, before = masked(sf.Noise(kind="uncorrelated", level=0.5, correct=False), normal_rows(20_000))
        assert np.cov((after - before).T)[0, 1] == pytest.approx(0.0, abs=0.03)

    def test_in_clusters_noise_is_as_wide_as_the_cluster(self):
        rows = np.concatenate([normal_rows(1000, 1), normal_rows(1000, 2) + 40.0])
        near, before = masked(sf.Noise(basis="clusters", level=0.5), rows)
        assert (near - before).std(axis=0).max() < 1.0
        assert near.var(axis=0) == pytest.approx(before.var(axis=0), rel=0.05)  # by Kim's correction in each cluster
        far, before = masked(sf.Noise(basis="svd", level=0.5), rows)  # control
        assert (far - before).std(axis=0).min() > 5.0

    @pytest.mark.parametrize("basis", BASES)
    def test_normal_scores_keep_the_distribution_of_each_component(self, basis):
        rows = np.random.default_rng(5).exponential(size=(4000, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
        after, before = masked(sf.Noise(kind="normal-scores", basis=basis, level=0.5), rows)
        assert np.cov(after.T) == pytest.approx(np.cov(before.T), rel=0.1)
        assert np.abs(after - before).mean() > 0.1

    @settings(max_examples=10, deadline=None)
    @given(st.sampled_from(BASES), st.sampled_from(["correlated", "normal-scores", "density"]), st.integers(0, 10**6))
    def test_missing_cells_stay_missing_and_no_other_becomes_one(self, basis, kind, seed):
        draw = np.random.default_rng(seed)
        rows = draw.normal(size=(80, 2))
        rows[draw.random((80, 2)) < 0.3] = np.nan
        rows[0] = 0.0, 1.0
        table = Table.from_arrow(
            pa.table({f"x{place}": pa.array(column, from_pandas=True) for place, column in enumerate(rows.T)})
        )
        outcome = plan_of(sf.Noise(kind=kind, basis=basis), table).transform(table, 0)
        assert (np.isnan(outcome.released.matrix(table.names)) == np.isnan(rows[outcome.origin])).all()

    def test_recovered_moments_are_those_whose_noise_is_known(self):
        draw = np.random.default_rng(0)
        holes = draw.normal(size=300)
        holes[:50] = np.nan
        table = Table.from_arrow(pa.table({"whole": draw.normal(size=300), "holes": pa.array(holes, from_pandas=True)}))
        told = {basis: plan_of(sf.Noise(basis=basis), table).notes for basis in ("columns", *BASES)}
        assert told["columns"]["recoverable"] == ["whole", "holes"]
        assert told["svd"]["recoverable"] == told["ica"]["recoverable"] == ["whole"]
        assert told["clusters"]["recoverable"] == []
        assert plan_of(sf.Noise(kind="uncorrelated", basis="svd"), table).notes["correlated"]
        release = sf.Noise(basis="clusters").release(table, schema=schema_of(table), seed=1)
        assert np.isinf(release.estimate("var(whole)").high)


def recovered(method, rows, statistic, times):
    """Return estimates and their standard errors over draws of the noise."""
    table = table_of(rows)
    found = [method.release(table, schema=schema_of(table), seed=seed).estimate(statistic) for seed in range(times)]
    return np.array([one.value for one in found]), np.array([one.standard_error for one in found])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("options", "statistic"),
    [
        ({"basis": "svd"}, "cov(x0, x1)"),
        ({"basis": "ica", "kind": "mixture"}, "var(x1)"),
        ({"kind": "density"}, "cov(x0, x1)"),
        ({"kind": "density"}, "var(x0)"),
        ({"kind": "density", "correct": False}, "mean(x0)"),
    ],
    ids=str,
)
def test_moments_are_recovered_on_average_with_their_standard_error(options, statistic):
    rows = normal_rows(400) * np.random.default_rng(9).gamma(1.0, size=(400, 1))  # heavy tails: distances differ
    truth = {"cov(x0, x1)": np.cov(rows.T, bias=True)[0, 1], "var(x0)": rows[:, 0].var(), "var(x1)": rows[:, 1].var()}
    truth["mean(x0)"] = rows[:, 0].mean()
    values, errors = recovered(sf.Noise(level=0.5, **options), rows, statistic, 60)
    assert abs(values.mean() - truth[statistic]) < 3.5 * values.std() / np.sqrt(60)
    if options.get("kind") == "density":
        assert errors.mean() > 0.85 * values.std(), "an upper bound"
    else:
        assert errors.mean() == pytest.approx(values.std(), rel=0.3)


class TestDensity:
    def scales(self, rows, **options):
        from sfumato.methods.noise_rows import density_scales

        return density_scales(rows, options.get("neighbours", 5), np.random.default_rng(0))

    def test_sparse_rows_have_more_noise_and_the_mean_square_is_one(self):
        rows = np.concatenate([normal_rows(950), 30.0 + 0.01 * normal_rows(50)])
        scale = self.scales(rows)
        assert (scale**2).mean() == pytest.approx(1.0)
        far = np.linalg.norm(rows[:950], axis=1) > 3.0
        assert np.median(scale[:950][far]) > 1.8 * np.median(scale[:950])
        assert scale[950:].max() < np.median(scale[:950]), "a distant crowd is dense"
        assert scale.max() / scale.min() <= 16.0

    @pytest.mark.parametrize("columns", [2, 20])
    def test_as_by_all_distances(self, columns):
        rows = np.random.default_rng(1).normal(size=(200, columns))
        apart = np.sort(np.linalg.norm(rows[:, None] - rows, axis=2), axis=1)[:, 3]
        slow = np.clip(apart / np.median(apart), 0.25, 4.0)
        assert self.scales(rows, neighbours=3) == pytest.approx(slow / np.sqrt((slow**2).mean()))

    def test_of_many_rows_a_part_tells_the_density(self):
        rows = normal_rows(12_000)
        scale = self.scales(rows)
        inner, outer = np.linalg.norm(rows, axis=1) < 0.7, np.linalg.norm(rows, axis=1) > 3.0
        assert np.median(scale[outer]) > 2.5 * np.median(scale[inner])

    def test_equal_rows_have_even_noise(self):
        assert self.scales(np.zeros((30, 2))) == pytest.approx(np.ones(30))

    def test_variances_of_a_part_of_the_rows_are_not_recovered_but_means_are(self):
        from sfumato.release.noisy_columns import AdditiveNoise, NoisyColumns, _read_noisy
        from sfumato.statistics.language import parse
        from sfumato.statistics.point_rows import PointRows

        draw = np.random.default_rng(1)
        table = Table.from_arrow(pa.table({"x": draw.normal(size=50), "sex": draw.choice(["f", "m"], 50)}))
        found = {}
        for uneven in (False, True):
            noise = AdditiveNoise(level=0.1, correlated=True, corrected=True, uneven=uneven)
            for text in ("mean(x | sex = f)", "var(x | sex = f)", "var(x)"):
                wanted = parse(text, names=table.names)
                rows = PointRows.of(table, wanted.columns, np.ones(50))
                columns = NoisyColumns.of(rows.numbers(["x"]), noise, np.array([False]), np.array([True]))
                found[uneven, text] = _read_noisy(wanted, columns, rows, ["x"], {"x"}) is not None
        assert [text for (uneven, text), told in found.items() if not told] == ["var(x | sex = f)"]
        assert found[False, "var(x | sex = f)"]


class TestMicroaggregate:
    @settings(max_examples=10, deadline=None)
    @given(st.integers(0, 10**6))
    def test_groups_do_not_depend_on_the_units_or_the_mixture_of_the_columns(self, seed):
        draw = np.random.default_rng(seed)
        rows, mixed = draw.normal(size=(60, 3)), np.triu(draw.normal(size=(3, 3)), 1) + np.diag([1.0, 5.0, 0.2])
        own, other = (plan_of(sf.Microaggregate(k=4, basis="svd"), table_of(one)) for one in (rows, rows @ mixed))
        labels = [
            plan._group_rows(table_of(one), 0).groups.labels for plan, one in ((own, rows), (other, rows @ mixed))
        ]
        together = [label[:, None] == label for label in labels]
        assert (together[0] == together[1]).all()

    def test_control_groups_of_columns_do(self):
        rows = np.random.default_rng(0).normal(size=(60, 3))
        mixed = rows @ np.array([[1.0, 4.0, 0.0], [0.0, 1.0, 0.0], [0.0, 4.0, 1.0]])
        labels = [
            plan_of(sf.Microaggregate(k=4), table_of(one))._group_rows(table_of(one), 0).groups.labels
            for one in (rows, mixed)
        ]
        together = [label[:, None] == label for label in labels]
        assert (together[0] != together[1]).any()

    @pytest.mark.parametrize("basis", BASES)
    @pytest.mark.parametrize("values", ["mean", "median", "range"])
    def test_groups_have_k_rows_and_the_values_of_their_columns(self, basis, values):
        table = table_of(normal_rows(500))
        release = sf.Microaggregate(k=7, basis=basis, values=values).release(table, schema=schema_of(table), seed=1)
        assert release.manifest.guarantee.startswith("7-anonymous")
        assert release.to_pandas().groupby(list(release.table.names)).size().min() >= 7
        if values == "mean":
            assert release.table.numbers("x0").mean() == pytest.approx(table.numbers("x0").mean(), abs=1e-12)
            assert "means kept" in release.manifest.notes

    def test_clusters_and_a_sensitive_column(self):
        draw = np.random.default_rng(2)
        rows = np.concatenate([normal_rows(300, 1), normal_rows(300, 2) + 40.0])
        people = {"x": rows[:, 0], "y": rows[:, 1], "illness": np.where(np.arange(600) < 300, "flu", "none")}
        people["illness"][draw.choice(600, 60, replace=False)] = "cold"
        release = sf.Microaggregate(k=4, l=2, basis="clusters").release(
            people, schema={"x": "quasi", "y": "quasi", "illness": "sensitive"}, seed=1
        )
        assert all(finding.held for finding in release.findings)
        assert "2 different values" in release.manifest.guarantee

    @pytest.mark.parametrize("kind", ["each-column", "optimal-1d", "projection"])
    def test_what_has_no_distances_of_rows_is_refused(self, kind):
        with pytest.raises(OptionError, match="basis"):
            sf.Microaggregate(k=3, kind=kind, basis="svd")


class TestSwap:
    @pytest.mark.parametrize("basis", BASES)
    def test_relations_are_kept_and_no_value_of_a_column_is_promised(self, basis):
        table = table_of(normal_rows(2000))
        method = sf.Swap(kind="plain", basis=basis)
        release = method.release(table, schema=schema_of(table), seed=1)
        rows = release.table.matrix(table.names)
        assert np.corrcoef(rows.T) == pytest.approx(np.corrcoef(table.matrix(table.names).T), abs=0.06)
        assert not np.isin(rows[:, 0], table.numbers("x0")).any()
        assert not [one for one in plan_of(method, table).claims if isinstance(one, MarginalsKept)]
        assert "swapped columns" not in release.manifest.notes
        assert np.isinf(release.estimate("mean(x0)").high)

    def test_control_in_the_columns_relations_are_lost_and_values_are_kept(self):
        table = table_of(normal_rows(2000))
        release = sf.Swap(kind="plain").release(table, schema=schema_of(table), seed=1)
        rows = release.table.matrix(table.names)
        assert abs(np.corrcoef(rows.T)[0, 1]) < 0.1
        assert np.sort(rows[:, 0]) == pytest.approx(np.sort(table.numbers("x0")))

    @pytest.mark.parametrize("kind", ["rank", "plain", "within-clusters", "between-subsets"])
    def test_each_component_keeps_its_scores(self, kind):
        table = table_of(normal_rows(300))
        plan = plan_of(sf.Swap(kind=kind, basis="svd"), table)
        scores = parts_of(table.matrix(table.names), "svd", np.random.default_rng(0))[0].basis.scores
        exchanged = plan._exchange(scores, np.random.default_rng(1))
        assert np.sort(exchanged, axis=0) == pytest.approx(np.sort(scores, axis=0))
        if kind == "rank":
            ranks = [np.argsort(np.argsort(one, axis=0), axis=0) for one in (scores, exchanged)]
            assert 0 < np.abs(ranks[0] - ranks[1]).max() <= 30
        assert (exchanged != scores).any(axis=1).mean() > 0.9

    def test_a_class_that_stays_is_no_component(self):
        with pytest.raises(OptionError, match="basis of the columns"):
            sf.Swap(kind="within-classes", classes=("x0",), basis="svd")


class TestBoxes:
    @pytest.mark.parametrize("basis", BASES)
    @pytest.mark.parametrize("cut", ["width", "median"])
    def test_boxes_hold_k_records_and_certain_intervals_the_truth(self, basis, cut):
        table = table_of(normal_rows(600))
        release = sf.Boxes(k=5, basis=basis, cut=cut).release(table, schema=schema_of(table), seed=1)
        assert release.to_pandas().groupby("box").size().min() >= 5
        assert all(finding.held for finding in release.findings)
        for text, truth in {
            "mean(x0)": table.numbers("x0").mean(),
            "corr(x0, x1)": np.corrcoef(table.numbers("x0"), table.numbers("x1"))[0, 1],
        }.items():
            found = release.estimate(text)
            assert found.low <= truth <= found.high
            assert found.high - found.low < 1.5

    def test_that_hulls_may_overlap_is_said(self):
        table = table_of(normal_rows(400))
        release = sf.Boxes(k=5, basis="svd").release(table, schema=schema_of(table), seed=1)
        assert "may overlap" in release.manifest.guarantee
        assert "components" in release.manifest.notes["overlap"]
        frame = release.to_pandas().groupby("box").first()
        overlaps = sum(
            all(one[f"x{c}_low"] < other[f"x{c}_high"] and other[f"x{c}_low"] < one[f"x{c}_high"] for c in range(3))
            for place, one in frame.iterrows()
            for other in (frame.loc[box] for box in frame.index if box < place)
        )
        assert overlaps > 0, "the warning is needed"

    def test_the_weight_of_a_component_bounds_the_cost_in_the_columns(self):
        from sfumato.methods.boxes import oblique

        table = table_of(normal_rows(200) * np.array([1.0, 50.0, 0.01]))
        plan = plan_of(sf.Boxes(k=5, basis="svd"), table)
        values, weights = plan.axes.coordinates(table), plan.sensitivities.of(table)
        seen = {}

        def cut(rows, axes, places, cost):
            seen["bound"] = (cost.mean(axis=0) * np.ptp(places, axis=0)).sum()
            return oblique.BoxPartition(np.arange(len(rows)), np.array([0, len(rows)]), np.empty((0, 4)))

        oblique.cut_in_basis(
            plan.axes, values, weights, "svd", np.random.default_rng(0), least=10, is_enough=lambda rows: True, cut=cut
        )
        cost = (weights.mean(axis=0) * np.ptp(values, axis=0)).sum()
        assert cost <= seen["bound"] <= 3.0 * cost

    @pytest.mark.parametrize("basis", BASES)
    def test_categories_missing_cells_and_sensitive_columns(self, basis):
        draw = np.random.default_rng(4)
        rows = normal_rows(500)
        rows[draw.random((500, 3)) < 0.1] = np.nan
        people = {f"x{c}": pa.array(rows[:, c], from_pandas=True) for c in range(3)}
        people |= {"city": draw.choice(["a", "b", "c"], 500), "ill": draw.choice(["yes", "no"], 500, p=[0.1, 0.9])}
        roles = dict.fromkeys(["x0", "x1", "x2", "city"], "quasi") | {"ill": "sensitive"}
        release = sf.Boxes(k=4, l=2, basis=basis).release(pa.table(people), schema=roles, seed=1)
        assert all(finding.held for finding in release.findings)
        assert release.to_pandas().groupby("box").ill.nunique().min() >= 2

    @pytest.mark.parametrize("basis", BASES)
    def test_diverse_quasi_identifiers_and_people_with_several_rows(self, basis):
        rows = np.round(normal_rows(400))
        people = {"x": rows[:, 0], "y": rows[:, 1], "who": [f"p{row // 2}" for row in range(400)]}
        release = sf.Boxes(k=4, l=2, basis=basis).release(
            people, schema={"x": "quasi", "y": "quasi", "who": "person"}, seed=1
        )
        assert all(finding.held for finding in release.findings)

    def test_clusters_that_lack_values_are_joined(self):
        rows = np.concatenate([normal_rows(300, 1), normal_rows(300, 2) + 40.0, normal_rows(300, 3) + 90.0])
        ill = np.array(["no"] * 600 + ["yes", "no"] * 150)
        people = {"x": rows[:, 0], "y": rows[:, 1], "ill": ill}
        roles = {"x": "quasi", "y": "quasi", "ill": "sensitive"}
        release = sf.Boxes(k=4, l=2, basis="clusters").release(people, schema=roles, seed=1)
        assert release.to_pandas().groupby("box").ill.nunique().min() == 2

    @pytest.mark.parametrize("options", [{"edges": "cells"}, {"categories": "tree"}, {"search": 1.0}], ids=str)
    def test_what_places_cuts_at_values_of_columns_is_refused(self, options):
        with pytest.raises(OptionError, match="components have none"):
            sf.Boxes(k=3, basis="svd", **options)

    def test_new_rows_have_no_known_box(self):
        table = table_of(normal_rows(100))
        release = sf.Boxes(k=5, basis="svd").release(table, schema=schema_of(table), seed=1)
        with pytest.raises(RequestError, match="cells"):
            release.apply(table)


@pytest.mark.parametrize("method", [sf.Noise, sf.Swap, sf.Microaggregate, sf.Boxes], ids=lambda one: one.__name__)
def test_a_seed_gives_the_same_rows_in_every_basis(method):
    table = table_of(normal_rows(500))
    for basis in BASES:
        options = {"k": 4} if method in (sf.Microaggregate, sf.Boxes) else {}
        first, again = (
            np.sort(
                method(basis=basis, **options)
                .release(table, schema=schema_of(table), seed=8)
                .to_pandas(midpoints=True)[["x0", "x1", "x2"]]
                .to_numpy(),
                axis=0,
            )
            for _ in range(2)
        )
        assert np.array_equal(first, again)
