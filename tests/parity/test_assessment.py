"""Assessments of tables that are not in memory: counts of all rows are exact, and a sample measures the rest."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.engines.out_of_core.blocks import draw_groups
from sfumato.errors import GuaranteeNotMet, OptionError
from sfumato.job import assess as assessment

ROWS = 6000
ROLES = {"age": "quasi", "income": "quasi", "town": "quasi", "ill": "other"}
SMALL = sf.DuckDB(memory="1GB", block_rows=2000)


def people(seed: int = 0, rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    return pa.table(
        {
            "age": pa.array(age, mask=rng.random(rows) < 0.01),
            "income": (age * 500 + rng.lognormal(9, 1, rows)).round(2),
            "town": rng.choice(["Arles", "Brig", "Cham"], rows),
            "ill": rng.random(rows) < 0.3,
        }
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in")
    for number in range(3):
        pq.write_table(people().slice(number * 2000, 2000), folder / f"part{number}.parquet")
    return str(folder / "*.parquet")


@pytest.fixture(scope="module")
def copied():
    """Return a release in which 40 people are copied and the others are noise, and people who are in it."""
    rows = people(1)
    noise = np.random.default_rng(2).normal(0, 500, ROWS)
    noise[:40] = 0.0
    return rows.set_column(1, "income", pa.array(rows.column("income").to_numpy() + noise))


def values(judged, *names):
    return {name: (judged[name].value, judged[name].rows) for name in names}


COUNTED = ("copies, all columns",)


def test_copies_are_counted_as_in_memory(copied):
    judged = sf.assess(people(1), copied, measures=["copies"], engine=SMALL, seed=1)
    wanted = sf.assess(people(1), copied, measures=["copies"], seed=1)
    assert values(judged, *COUNTED) == values(wanted, *COUNTED)
    assert judged["copies, all columns"].value == 40
    assert judged["copies, all columns"].passed is False


def test_a_box_release_has_no_copies_and_its_groups_are_counted(source, tmp_path):
    released = sf.Boxes(k=5).release(source, schema=ROLES, engine=SMALL, into=tmp_path / "out")
    judged = sf.assess(source, sf.read_release(tmp_path / "out"), engine=SMALL, seed=1)
    wanted = sf.assess(people(), released.table.select(released.table.names), measures=["copies"], seed=1)
    assert values(judged, *COUNTED) == values(wanted, *COUNTED)
    faces = [name for name in released.table.names if name.startswith(("age_", "income_", "town"))]
    sizes = released.table.arrow.group_by(faces).aggregate([([], "count_all")]).column("count_all").to_pylist()
    assert judged["smallest group"].value == min(sizes) >= 5
    assert judged["unique released rows"].value == 0.0
    assert (
        judged["unique people in the original"].value
        == sf.uniqueness(people(), ["age", "income", "town"]).unique_fraction
    )
    assert judged.released_rows == judged.original_rows == ROWS
    assert {one.name for one in judged.omitted} >= {"prediction", "membership"}


def test_a_sample_is_stated_with_its_error(source, monkeypatch):
    monkeypatch.setattr(assessment, "SAMPLED", 1500)
    release = sf.Noise(level=0.05).release(source, schema=ROLES, engine="memory")
    judged = sf.assess(source, release, engine=SMALL, seed=1)
    whole = sf.assess(people(), release, measures=["moments", "marginals"], seed=1)
    assert judged.sampled_rows == 1500
    assert judged.sampling_error == pytest.approx(0.042, abs=0.001)
    assert "random sample of 1,500 rows" in str(judged)
    assert judged.to_plain()["sampled_rows"] == 1500
    assert judged["change in means"].value == pytest.approx(whole["change in means"].value, abs=0.1)


def test_people_are_sampled_with_their_own_rows(source, tmp_path, monkeypatch):
    monkeypatch.setattr(assessment, "SAMPLED", 1000)
    weak, strong = (
        sf.release_and_assess(
            sf.Noise(level=level),
            source,
            people(9, 1000),
            schema=ROLES,
            engine=SMALL,
            into=tmp_path / str(level),
            seed=1,
        )
        for level in (1e-6, 2.0)
    )
    linked = [one.assessment["correct nearest matches"].value for one in (weak, strong)]
    assert linked[0] > 0.9
    assert linked[1] < 0.2
    assert weak.assessment.sampled_rows == weak.assessment.sampled_groups == pytest.approx(1000, abs=3)
    assert weak.assessment.passed is False
    assert sf.read_release(tmp_path / "2.0").table.rows == ROWS


def rows_in(report: str) -> dict[str, str]:
    """Return the number of rows that a report shows for each score."""
    cells = r'<th scope="row"[^>]*>([^<]*)</th>(?:(?!</tr>).)*?data-label="Rows"[^>]*><span>([\d,]+)</span>'
    scores = report.partition("Utility scores of the assessment")[2]  # after the estimates, which have rows too
    return dict(re.findall(cells, scores, re.DOTALL))


def test_the_report_has_the_assessment_with_its_sample_and_its_counts(source, tmp_path, monkeypatch):
    monkeypatch.setattr(assessment, "SAMPLED", 1500)
    others = people(9, 1000)
    made = sf.release_and_assess(sf.Boxes(k=5), source, others, schema=ROLES, engine=SMALL, into=tmp_path, seed=1)
    report = html.unescape((tmp_path / "report.html").read_text()).replace("<wbr>", "")
    assert made.release.assessment is made.assessment
    assert f"{made.assessment.verdict}." in report
    judged = made.assessment
    assert judged.sampled_rows == pytest.approx(1500, abs=150)
    sampled = f"{judged.sampled_rows:,}"
    assert (
        f"random sample of {sampled} rows: shares are within ±{judged.sampling_error:.3f} (99 % confidence)" in report
    )
    assert "6,000 released rows were compared with 6,000 original rows" in " ".join(report.split())
    shown = rows_in(report)
    assert set(shown) == {score.name for score in made.assessment.scores}
    assert shown["copies, all columns"] == shown["smallest group"] == shown["unique released rows"] == "6,000"
    assert shown["correct nearest matches"] == sampled
    assert sf.read_release(tmp_path).table.rows == ROWS  # checksums hold


def test_people_are_sampled_with_those_who_are_released_alike(source, tmp_path, monkeypatch):
    monkeypatch.setattr(assessment, "SAMPLED", 1000)
    judged = sf.release_and_assess(sf.Boxes(k=5), source, schema=ROLES, engine=SMALL, into=tmp_path, seed=1).assessment
    assert judged["people who fit a box, fewest"].value >= 5  # 1 if rows were drawn one by one
    assert judged["correct nearest matches"].value < 0.5
    assert judged.sampled_groups < judged.sampled_rows / 4.9
    assert judged.sampling_error == pytest.approx((np.log(200) / (2 * judged.sampled_groups)) ** 0.5)
    assert "among all rows, matches are rarer" in str(judged)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_rows_of_all_groups_are_drawn_with_the_same_probability(share):
    labels = np.repeat(np.arange(1400), [1] * 1000 + [5] * 399 + [2000])
    times = np.zeros(len(labels))
    for seed in range(40):
        drawn = draw_groups(labels, share, 100, np.random.default_rng(seed))
        times[drawn.rows] += 1
        whole = np.bincount(labels[drawn.rows], minlength=1400)[1000:1399]
        assert set(whole) <= {0, 5}  # groups are drawn as a whole
        assert abs(drawn.draws - share * (1000 + 399 + 2000)) < 1.0  # a part of a draw is drawn with its probability
    for rows in (slice(0, 1000), slice(1000, 2995), slice(2995, None)):  # alone, in groups, in the large group
        assert times[rows].mean() / 40 == pytest.approx(share, rel=0.08)


def test_small_parts_are_drawn_as_often_as_large_ones():
    """Parts are drawn apart from each other, so that a share of a row is neither lost nor rounded up to one."""
    draws = [draw_groups(np.arange(3), 0.1, 100, np.random.default_rng(seed)).draws for seed in range(2000)]
    assert np.mean(draws) == pytest.approx(0.3, abs=0.04)  # 4 standard errors; 0 or 1 if it was rounded


def test_a_report_without_an_assessment_or_without_a_sample_says_nothing_of_it(source, tmp_path):
    sf.Boxes(k=5).release(source, schema=ROLES, engine=SMALL, into=tmp_path / "plain")
    assert "Assessment" not in (tmp_path / "plain" / "report.html").read_text()
    sf.release_and_assess(sf.Boxes(k=5), people(rows=200), schema=ROLES, engine="memory", into=tmp_path / "whole")
    whole = (tmp_path / "whole" / "report.html").read_text()
    assert "Assessment" in whole
    assert "no other people" in whole
    assert "random sample" not in whole


def test_a_required_assessment_is_made_before_anything_is_written(source, tmp_path):
    with pytest.raises(GuaranteeNotMet, match="nothing was written"):
        sf.release_and_assess(
            sf.Noise(level=1e-9), source, schema=ROLES, engine=SMALL, into=tmp_path / "out", require=True
        )
    assert not list(tmp_path.iterdir())


def test_what_needs_memory_is_refused(source, copied, tmp_path):
    with pytest.raises(OptionError, match="holdout"):
        sf.release_and_assess(sf.Noise(level=1.0), source, holdout=0.5, schema=ROLES, engine=SMALL)
    with pytest.raises(OptionError, match="origin"):
        sf.assess(source, copied, origin=np.zeros(ROWS, np.int64), engine=SMALL)


def test_the_commands(source, tmp_path, capsys):
    out = str(tmp_path / "out")
    roles = [f"--role={name}={role}" for name, role in ROLES.items()]
    assert run(["release", source, "-o", out, "--k", "5", *roles, "--engine", "duckdb", "--assess", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["assessment"]
    assert shown["original_rows"] == shown["sampled_rows"] == ROWS
    assert run(["assess", source, out, "--engine", "duckdb", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["released_rows"] == ROWS
    assert run(["assess", source, out, "--engine", "duckdb", "--worst", "3"]) == 2
