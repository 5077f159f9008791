"""Probabilities of categories, released beside the category."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.measures.measured_release import MeasuredRelease
from sfumato.plan.claims import ProbabilitiesAddUp
from sfumato.plan.plan import Evidence
from sfumato.sources.frames import as_table
from sfumato.table.table import Table

ROLES = {"x": "quasi", "town": "quasi"}


@pytest.fixture(scope="module")
def people() -> Table:
    draw = np.random.default_rng(8)
    town = draw.choice(["Bern", "Rom", "Ulm"], 400, p=[0.6, 0.3, 0.1]).tolist()
    town[:2], town[2:9] = ["Oslo", "Kiel"], [None] * 7
    return Table.from_arrow(pa.table({"x": draw.normal(size=400), "town": town}))


@pytest.fixture(scope="module")
def release(people):
    return sf.SvdSwap(decoding="distribution").release(people, schema=ROLES, seed=1)


def test_every_common_value_has_a_column_and_the_others_share_one(release):
    assert [name for name in release.table.names if "=" in name] == [
        "town=Bern",
        "town=Rom",
        "town=Ulm",
        "town=(missing)",
        "town=(other)",
    ]
    assert not any("Oslo" in name or "Kiel" in name for name in release.table.names)


def test_they_are_probabilities_of_which_the_released_category_has_the_largest(release):
    names = [name for name in release.table.names if "=" in name]
    shares = release.table.matrix(names)
    assert shares.min() >= 0.0
    assert shares.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert any("add up to 1" in finding.claim for finding in release.findings)
    chosen = release.table.arrow.column("town").to_pylist()
    likely = [["Bern", "Rom", "Ulm", None][place] for place in shares[:, :4].argmax(axis=1)]
    rare = np.isin(np.array(chosen, dtype=object), ["Oslo", "Kiel"])
    assert [one for one, hidden in zip(chosen, rare, strict=True) if not hidden] == [
        one for one, hidden in zip(likely, rare, strict=True) if not hidden
    ]


def test_their_means_are_the_shares_of_the_original(people, release):
    towns = people.arrow.column("town").to_pylist()
    for town in ("Bern", "Rom", "Ulm"):
        assert release.table.numbers(f"town={town}").mean() == pytest.approx(towns.count(town) / 400, abs=0.03)


def test_measures_see_what_an_intruder_reads(people, release):
    pair = MeasuredRelease(original=people, released=release.table)
    place = pair.code.columns("town")
    values = next(one for one in pair.code.categories if one.name == "town").values.to_pylist()
    bern, oslo = values.index("Bern"), values.index("Oslo")
    assert pair.released_matrix[:, place[bern]] == pytest.approx(2 * release.table.numbers("town=Bern") - 1)
    assert pair.released_matrix[:, place[oslo]] == pytest.approx(release.table.numbers("town=(other)") - 1)


def test_it_can_be_written_read_and_assessed(people, release, tmp_path):
    folder = release.write(tmp_path / "out")
    again = sf.read_release(folder)
    assert again.table.names == release.table.names
    assert sf.assess(people, again, measures=["prediction", "marginals"]).scores


def test_groups_are_equal_in_their_probabilities_too(people):
    release = sf.SpectralHistogram(k=4, decoding="distribution").release(people, schema=ROLES, seed=1)
    counts = release.to_pandas().value_counts(dropna=False)
    assert counts.min() >= 4
    assert any("town=Bern" in finding.claim for finding in release.findings if "4" in finding.claim)


def test_sums_that_are_wrong_are_found():
    table = as_table({"c=a": [0.5, 0.4], "c=b": [0.5, 0.5]})
    claim = ProbabilitiesAddUp(distributions=(("c=a", "c=b"),))
    wrong, right = (Evidence(one, one, np.arange(one.rows)) for one in (table, table.take(np.array([0]))))
    assert not claim.measure(wrong).held
    assert claim.measure(right).held
    assert not claim.finding(claim.merge(claim.tally(right), claim.tally(wrong))).held


def test_names_that_are_in_use_are_refused():
    people = {"town": ["Bern", "Rom"] * 20, "town=Rom": np.arange(40.0)}
    with pytest.raises(sf.SfumatoError, match="must not be in use"):
        sf.SvdSwap(decoding="distribution").release(people, schema=dict.fromkeys(people, "quasi"))
