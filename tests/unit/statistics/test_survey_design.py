"""Strata and clusters: named in a schema, and used for the sampling errors of estimates and models."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import sfumato as sf
from sfumato.errors import SchemaError
from sfumato.release.manifest import Manifest
from sfumato.schema.columns import Design
from sfumato.schema.schema import Schema
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.joined_confidence import _error_in_survey
from sfumato.statistics.language import parse
from sfumato.statistics.survey_design import SurveyDesign

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.SfumatoWarning")

# 12 clusters in 4 strata; numbers of clusters repeat in each stratum, as they do in NHANES
RANDOM = np.random.default_rng(3)
ROWS = 96
PLACE = RANDOM.integers(0, 12, ROWS)
SURVEY = {
    "zip": RANDOM.integers(0, 6, ROWS),
    "y": (RANDOM.normal(size=12)[PLACE] + RANDOM.normal(5.0, 1.0, ROWS)).round(2),
    "z": (RANDOM.normal(size=12)[PLACE] + RANDOM.normal(9.0, 1.0, ROWS)).round(2),
    "g": RANDOM.choice(["a", "b"], ROWS),
    "d": RANDOM.integers(0, 2, ROWS),
    "region": np.array(list("nesw"))[PLACE // 3],
    "village": PLACE % 3,
    "w": RANDOM.uniform(1.0, 4.0, ROWS).round(2),
}
ROLES = {"zip": "quasi", "y": "other", "z": "other", "g": "other", "d": "other"}
DESIGNS = {
    "strata": ("stratum", None),
    "clusters": (None, "cluster"),
    "strata and clusters": ("stratum", "cluster"),
}


def schema_of(design, *, weighted=False):
    stratum, cluster = DESIGNS[design]
    schema = ROLES | {"region": {"role": "other", "design": stratum}, "village": {"role": "other", "design": cluster}}
    schema = {
        name: one if isinstance(one, str) else {k: v for k, v in one.items() if v} for name, one in schema.items()
    }
    return schema | {"w": "weight" if weighted else "other"}


def textbook_error(totals_of_rows, design, counts=None):
    """Return the standard error of Lohr's formula, by loops, and its degrees of freedom: of the rows that count."""
    stratum, cluster = DESIGNS[design]
    strata = SURVEY["region"] if stratum else np.zeros(ROWS)
    units = SURVEY["village"] if cluster else np.arange(ROWS)
    variance, freedom = 0.0, 0
    for h in np.unique(strata):
        inside = strata == h
        totals = [totals_of_rows[inside & (units == c)].sum() for c in np.unique(units[inside])]
        n = len(totals)
        variance += n / (n - 1) * sum((one - np.mean(totals)) ** 2 for one in totals)
        domain = inside if counts is None else inside & counts
        freedom += len(np.unique(units[domain])) - domain.any()
    return np.sqrt(variance), freedom


def mean_influence(values, weight):
    return weight * (values - weight @ values / weight.sum()) / weight.sum()


def influences_of(words, w):
    """Return the influence of each row times its weight, from the definitions."""
    y, z, a = SURVEY["y"], SURVEY["z"], SURVEY["g"] == "a"
    my, mz = w @ y / w.sum(), w @ z / w.sum()
    vy, vz = w @ (y - my) ** 2 / w.sum(), w @ (z - mz) ** 2 / w.sum()
    slope = w @ ((y - my) * (z - mz)) / w.sum() / vy
    r, u, v = slope * np.sqrt(vy / vz), (y - my) / np.sqrt(vy), (z - mz) / np.sqrt(vz)
    return {
        "mean(y)": mean_influence(y, w),
        "mean(y | g = a)": np.where(a, mean_influence(y, w * a), 0.0),
        "sum(y)": w * y,
        "sum(y | g = a)": w * y * a,
        "count(g = a)": w * a,
        "share(g = a)": mean_influence(a.astype(float), w),
        "share(y > 5 | g = a)": np.where(a, mean_influence((y > 5).astype(float), w * a), 0.0),
        "difference(mean(y | g = a), mean(y | g = b))": mean_influence(y, w * a) * a - mean_influence(y, w * ~a) * ~a,
        "ratio(mean(y), mean(z))": (mean_influence(y, w) - my / mz * mean_influence(z, w)) / mz,
        "sd(y)": w * ((y - my) ** 2 - vy) / w.sum() / (2.0 * np.sqrt(vy)),
        "corr(y, z)": w * (u * v - r * (u**2 + v**2) / 2.0) / w.sum(),
        "regress(z ~ y): y": w * (y - my) * (z - mz - slope * (y - my)) / vy / w.sum(),
    }[words]


STATISTICS = [
    "mean(y)",
    "mean(y | g = a)",
    "sum(y)",
    "sum(y | g = a)",
    "count(g = a)",
    "share(g = a)",
    "share(y > 5 | g = a)",
    "difference(mean(y | g = a), mean(y | g = b))",
    "ratio(mean(y), mean(z))",
    "sd(y)",
    "corr(y, z)",
    "regress(z ~ y): y",
]


class TestSchema:
    def test_a_column_is_a_stratum_or_cluster_in_files_and_manifests(self, tmp_path):
        schema = Schema.of(schema_of("strata and clusters"))
        assert (schema["region"].design, schema["village"].design) == (Design.STRATUM, Design.CLUSTER)
        schema.write(tmp_path / "schema.toml")
        assert 'design = "cluster"' in (tmp_path / "schema.toml").read_text()
        assert Schema.of(tmp_path / "schema.toml") == schema
        release = sf.Boxes(k=3).release(SURVEY, schema=tmp_path / "schema.toml")
        again = Manifest.from_json(release.manifest.to_json())
        assert again.design(Design.STRATUM) == ("region",)
        assert again.columns == release.manifest.columns
        assert again.columns[-2].to_column().design is Design.CLUSTER

    def test_another_design_is_refused(self):
        with pytest.raises(SchemaError, match="The design of column 'a' must be one of stratum, cluster"):
            Schema.of({"a": {"role": "other", "design": "psu"}})
        record = sf.Boxes(k=3).release(SURVEY, schema=schema_of("strata")).manifest.to_json()
        with pytest.raises(sf.SfumatoError, match="manifest"):
            Manifest.from_json(record.replace('"stratum"', '"something"'))

    def test_the_role_decides_what_is_released(self):
        hidden = schema_of("strata") | {"village": {"role": "identifier", "design": "cluster"}}
        release = sf.Boxes(k=3).release(SURVEY, schema=hidden, rows_not_people=True)
        assert "village" not in release.table.names
        coarse = schema_of("strata") | {"region": {"role": "quasi", "design": "stratum"}}
        assert (
            sf.Boxes(k=30).release(SURVEY, schema=coarse).table.to_pandas().region.str.contains("|", regex=False).any()
        )


class TestPoints:
    """Where boxes are points, errors are those of the textbook."""

    @pytest.mark.parametrize("design", DESIGNS)
    @pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
    @pytest.mark.parametrize("words", STATISTICS)
    def test_errors_are_those_of_the_textbook(self, words, weighted, design):
        method = sf.Recode(k=2) if weighted else sf.Boxes(k=3)
        release = method.release(SURVEY, schema=schema_of(design, weighted=weighted))
        found = release.estimate(words, confidence=0.95, confidence_by="union")
        weight = SURVEY["w"] if weighted else np.ones(ROWS)
        domain = SURVEY["g"] == "a" if "|" in words and "difference" not in words else None
        error, freedom = textbook_error(influences_of(words, weight), design, domain)
        reach = error * stats.t.ppf(0.975, freedom)
        assert found.confidence_high - found.high == pytest.approx(reach, rel=1e-6)
        assert found.low - found.confidence_low == pytest.approx(reach, rel=1e-6)
        assert "follows the design" in found.notes[0]

    @pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
    @pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
    @pytest.mark.parametrize("design", DESIGNS)
    def test_standard_errors_of_models_are_those_of_the_textbook(self, design, weighted, family):
        method = sf.Recode(k=2) if weighted else sf.Boxes(k=3)
        release = method.release(SURVEY, schema=schema_of(design, weighted=weighted))
        fit = release.fit("d ~ y", family=family)
        x, w = np.column_stack([np.ones(ROWS), SURVEY["y"]]), SURVEY["w"] if weighted else np.ones(ROWS)
        eta = x @ [fit["intercept"].value, fit["y"].value]
        mean = {"gaussian": eta, "binomial": 1.0 / (1.0 + np.exp(-eta)), "poisson": np.exp(eta)}[family]
        slope = {"gaussian": np.ones(ROWS), "binomial": mean * (1.0 - mean), "poisson": mean}[family]
        inverse = np.linalg.inv((x.T * (w * slope)) @ x)
        rows = (x * (w * (SURVEY["d"] - mean))[:, None]) @ inverse
        for place, name in enumerate(("intercept", "y")):
            error, freedom = textbook_error(rows[:, place], design)
            assert fit[name].standard_error == pytest.approx(error, rel=1e-6)
            reach = error * stats.t.ppf(0.975, freedom)
            assert fit[name].confidence_high - fit[name].high == pytest.approx(reach, rel=1e-6)
        assert "follows the design" in fit.summary()

    def test_cox_models_use_the_design(self):
        table = SURVEY | {"time": RANDOM.exponential(10.0, ROWS).round(1) + 0.1}
        errors = []
        for design in ("strata", "clusters"):
            release = sf.Boxes(k=3).release(table, schema=schema_of(design) | {"time": "other"})
            fit = release.fit("survival(time, d) ~ y", family="cox")
            errors.append(fit["y"].standard_error)
            assert "follows the design" in fit.summary()
        assert errors[0] != errors[1]

    def test_weights_without_a_design_are_linearized(self):
        schema = ROLES | {"region": "other", "village": "other", "w": "weight"}
        found = sf.Recode(k=2).release(SURVEY, schema=schema).estimate("mean(y)", confidence=0.95)
        rows = influences_of("mean(y)", SURVEY["w"])
        error = np.sqrt(ROWS / (ROWS - 1) * (rows**2).sum())
        assert found.confidence_high - found.high == pytest.approx(error * stats.t.ppf(0.975, ROWS - 1), rel=1e-6)
        assert found.notes == ()


class TestBoxes:
    @pytest.mark.parametrize("clusters", [["c"], []], ids=["clusters", "rows"])
    @pytest.mark.parametrize("words", ["mean(x)", "sum(x)", "share(x > 0)", "mean(x | y > 0)"])
    def test_the_largest_error_is_near_that_of_all_corners(self, words, clusters):
        """On small tables with narrow boxes, no corner has an error that is much larger than the one taken."""
        for seed in range(6):
            random = np.random.default_rng(seed)
            x, half = random.normal(size=8), random.uniform(0.0, 0.3, 8)
            y = np.array([1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0])
            c = np.array([0, 0, 1, 1, 2, 2, 3, 3])
            ends = {"x_low": x - half, "x_high": x + half, "y_low": y, "y_high": y, "c": c, "s": c // 2}
            table = CountedBoxes.of(sf.read_release(ends).table, ["x", "y", "c", "s"])
            found = _error_in_survey(parse(words), SurveyDesign.of(table, ["s"], clusters))
            largest = max(
                corner_error(words, np.where(bits, x + half, x - half), y, c if clusters else np.arange(8), c // 2)
                for bits in itertools.product((False, True), repeat=8)
            )
            assert 0.93 * largest <= found.size <= largest * (1.0 + 1e-9)

    def test_quantiles_take_the_error_of_a_share(self):
        release = sf.Boxes(k=3).release(SURVEY, schema=schema_of("strata and clusters"))
        found = release.estimate("median(y)", confidence=0.95)
        y = np.sort(SURVEY["y"])
        error, freedom = textbook_error(((SURVEY["y"] <= y[ROWS // 2 - 1]) - 0.5) / ROWS, "strata and clusters")
        reach = error * stats.t.ppf(0.975, freedom)
        assert found.confidence_low == y[int(np.ceil((0.5 - reach) * ROWS)) - 1]
        assert found.confidence_high == y[int(np.ceil((0.5 + reach) * ROWS)) - 1]

    def test_the_largest_possible_weights_are_taken_where_only_totals_are_known(self):
        schema = schema_of("clusters", weighted=True)
        pooled = sf.Boxes(k=8).release(SURVEY, schema=schema).estimate("mean(y)", confidence=0.95)
        error, freedom = textbook_error(influences_of("mean(y)", SURVEY["w"]), "clusters")
        factor = stats.t.ppf(0.95, freedom)  # the least that an Imbens-Manski interval adds
        assert pooled.confidence_high - pooled.high >= 0.95 * factor * error

    def test_missing_numbers_are_outside_the_domain(self):
        y = SURVEY["y"].copy()
        y[:10] = np.nan
        release = sf.Boxes(k=3).release(SURVEY | {"y": y}, schema=schema_of("strata and clusters"))
        found = release.estimate("mean(y)", confidence=0.95, confidence_by="union")
        rows = np.where(np.isnan(y), 0.0, np.nan_to_num(y - np.nanmean(y))) / 86
        error, freedom = textbook_error(rows, "strata and clusters")
        assert found.confidence_high - found.high == pytest.approx(error * stats.t.ppf(0.975, freedom), rel=1e-6)


def corner_error(words, x, y, units, strata):
    """Return the error of one completion, by loops."""
    if words == "mean(x)":
        rows = (x - x.mean()) / 8
    elif words == "sum(x)":
        rows = x
    elif words == "share(x > 0)":
        rows = ((x > 0) - np.mean(x > 0)) / 8
    else:
        inside = y > 0
        rows = np.where(inside, x - x[inside].mean(), 0.0) / inside.sum()
    variance = 0.0
    for h in np.unique(strata):
        totals = np.array([rows[(strata == h) & (units == c)].sum() for c in np.unique(units[strata == h])])
        variance += len(totals) / (len(totals) - 1) * ((totals - totals.mean()) ** 2).sum()
    return np.sqrt(variance)


class TestNotes:
    def test_a_stratum_with_one_cluster_is_centred_at_the_mean_of_all(self):
        table = SURVEY | {"village": np.where(SURVEY["region"] == "n", 0, SURVEY["village"])}
        release = sf.Boxes(k=3).release(table, schema=schema_of("strata and clusters"))
        found = release.estimate("sum(y)", confidence=0.95, confidence_by="union")
        keys = sorted(set(zip(table["region"], table["village"], strict=True)))
        totals = {key: table["y"][(table["region"] == key[0]) & (table["village"] == key[1])].sum() for key in keys}
        grand, variance = np.mean(list(totals.values())), 0.0
        for h in "nesw":
            own = [total for key, total in totals.items() if key[0] == h]
            own_variance = len(own) / max(len(own) - 1, 1) * sum((one - np.mean(own)) ** 2 for one in own)
            variance += (own[0] - grand) ** 2 if len(own) == 1 else own_variance
        reach = np.sqrt(variance) * stats.t.ppf(0.975, len(keys) - 4)
        assert found.confidence_high - found.high == pytest.approx(reach, rel=1e-6)
        assert found.notes[1] == "1 stratum has one cluster, whose deviation from the mean of all clusters was taken"

    def test_records_of_one_cluster_have_no_joined_interval(self):
        release = sf.Boxes(k=3).release(SURVEY, schema=schema_of("clusters"))
        found = release.estimate("mean(y | village = 1)", confidence=0.95)
        assert np.isnan(found.confidence_low)
        assert "no joined interval" in found.notes[0]

    @pytest.mark.parametrize("role", ["identifier", "quasi"])
    def test_a_design_that_is_not_released_exactly_is_not_used(self, role):
        schema = schema_of("strata") | {"village": {"role": role, "design": "cluster"}}
        release = sf.Boxes(k=3).release(SURVEY, schema=schema, rows_not_people=True)
        plain = sf.Boxes(k=3).release(SURVEY, schema=ROLES | {"region": "other", "village": "other", "w": "other"})
        found, other = (one.estimate("mean(y)", confidence=0.95) for one in (release, plain))
        assert "the design of the survey was not used, because village" in found.notes[0]
        assert found.confidence_high == pytest.approx(other.confidence_high)
        assert "not used" in release.fit("y ~ z").summary()
        assert release.estimate("mean(y)").notes == ()

    def test_corrected_estimates_do_not_use_it_and_say_so(self):
        release = sf.Noise(level=0.5).release(SURVEY, schema=schema_of("clusters"), seed=1)
        assert "not used" in release.estimate("mean(y)", confidence=0.95).notes[-1]
        assert not release.estimate("mean(y)").notes

    def test_pseudonyms_of_people_tell_repeated_rows(self, tmp_path):
        people = SURVEY | {"village": np.repeat(np.arange(ROWS // 2), 2)}
        schema = schema_of("strata") | {
            "village": {"role": "person", "pseudonym": True, "facts": 1, "design": "cluster"},
            "region": "other",
        }
        release = sf.Boxes(k=3).release(people, schema=schema, key=tmp_path / "key")
        assert "clusters by village" in release.estimate("mean(y)", confidence=0.95).notes[0]

    def test_models_as_statistics_take_the_confidence(self):
        release = sf.Boxes(k=3).release(SURVEY, schema=schema_of("clusters"))
        wide, narrow = (release.estimate("logistic(d ~ y)", confidence=one)["y"] for one in (0.99, 0.8))
        assert wide.confidence_high > narrow.confidence_high > narrow.high
        assert narrow.confidence == 0.8


def test_intervals_with_the_design_hold_the_parameter_and_those_without_do_not():
    """20 clusters of 10 alike people in four strata: the control takes them as 200 people drawn one by one."""
    surveys, held, control = 150, 0, 0
    schema = {
        "x": "quasi",
        "c": {"role": "other", "design": "cluster"},
        "s": {"role": "other", "design": "stratum"},
    }
    for seed in range(surveys):
        random = np.random.default_rng(seed)
        cluster = np.repeat(np.arange(20), 10)
        x = (random.normal(50.0, 5.0, 20)[cluster] + random.normal(0.0, 5.0, 200)).round(2)
        release = sf.Boxes(k=2).release({"x": x, "c": cluster, "s": cluster // 5}, schema=schema, seed=seed)
        plain = replace(release.manifest, columns=tuple(replace(c, design=None) for c in release.manifest.columns))
        for one, by_design in ((release, True), (replace(release, manifest=plain), False)):
            found = one.estimate("mean(x)", confidence=0.95)
            inside = found.confidence_low <= 50.0 <= found.confidence_high
            held, control = held + inside * by_design, control + inside * (not by_design)
    assert stats.binom.cdf(held, surveys, 0.95) > 0.01, held
    assert control < 0.75 * surveys, control
