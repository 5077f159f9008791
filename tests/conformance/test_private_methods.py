"""What every method must do whose release is nothing but noise: no seed, no refusal that a cell decides, no leak."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.errors import OptionError, SchemaError
from sfumato.methods import discrete_noise
from sfumato.methods.base import make_method, method_class
from sfumato.methods.private_columns import read_as_declared
from sfumato.randomness import Randomness
from sfumato.release.privacy_budget import PrivacyBudget
from sfumato.release.read import verify_bundle
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table
from tests.conformance.control import PRIVATE

ROWS, MANY = 737, 11_273
ROLES = {
    "age": {"role": "quasi", "domain": [0, 100]},
    "city": {"role": "quasi", "order": ["Oslo", "Rom", "Ulm"]},
    "member": "sensitive",
}


@pytest.fixture(params=PRIVATE)
def method(request):
    return make_method(request.param)


def people(rows: int = ROWS) -> pd.DataFrame:
    draw = np.random.default_rng(4)
    city = draw.choice(["Oslo", "Rom", "Ulm"], rows)
    return pd.DataFrame({"age": draw.uniform(0, 100, rows), "city": city, "member": draw.random(rows) < 0.3})


def test_a_seed_is_refused(method):
    with pytest.raises(OptionError, match="seed"):
        method.release(people(), schema=ROLES, seed=1)


def test_no_generator_with_a_seed_makes_two_releases_equal(method):
    found = []
    for _ in range(2):
        np.random.seed(0)
        found.append(method.release(people(), schema=ROLES).manifest.notes)
    assert found[0] != found[1]


def test_every_column_needs_a_role_and_a_declared_type(method, tmp_path):
    with pytest.raises(SchemaError, match="'member'"):
        method.release(people(), schema={name: ROLES[name] for name in ("age", "city")})
    people().to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(SchemaError, match="read off the cells"):
        method.release(tmp_path / "people.csv", schema=ROLES)
    declared = ROLES | {"member": {"role": "sensitive", "order": ["False", "True"]}}
    assert method.release(tmp_path / "people.csv", schema=declared).table.rows > 0


ODD = {
    "nobody": people(0),
    "one person": people(1),
    "constant": pd.DataFrame({"age": [7.0] * 60, "city": ["Rom"] * 60, "member": [True] * 60}),
    "missing": pd.DataFrame({"age": [np.nan] * 60, "city": [None] * 60, "member": [True] * 60}),
    "outside": pd.DataFrame(
        {"age": [np.inf, -np.inf, 1e300, -5.0], "city": ["Bern", "", "Rom", "X"], "member": [True] * 4}
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_nothing_is_refused_that_a_cell_decides(method, name):
    release = method.release(ODD[name], schema=ROLES)
    assert all(finding.held for finding in release.findings)
    assert release.table.rows >= 1


def test_a_value_outside_its_domain_counts_as_its_end(method):
    table = read_as_declared(as_table({"age": [-5.0, 50.0, 1e9]}), Schema.of({"age": ROLES["age"]})).table
    assert table.numbers("age").tolist() == [0.0, 50.0, 100.0]


def test_the_bundle_has_no_count_of_the_original_and_no_cell(method, tmp_path, monkeypatch):
    """Under noise that is always seven standard deviations, the true count cannot occur by chance."""
    monkeypatch.setattr(
        discrete_noise, "draw_discrete_gaussian", lambda sigma, size, **_: np.full(size, int(7 * sigma), dtype=np.int64)
    )
    table = people(MANY)
    table.loc[5, "age"] = 98765.4321
    table.loc[6, "city"] = "Timbuktu"
    release = method.release(table, schema=ROLES, into=tmp_path / "out")
    manifest = release.manifest
    assert (manifest.rows_in, manifest.people_in, manifest.repeated, manifest.unaltered) == (None, None, (), ())
    assert not manifest.revealing
    assert not manifest.nodes
    for file in (tmp_path / "out").iterdir():
        content = file.read_bytes()
        assert b"98765" not in content, file.name
        assert b"Timbuktu" not in content, file.name
        if file.suffix != ".parquet":
            assert str(MANY).encode() not in content.replace(b",", b""), file.name


def test_a_bundle_is_verified_and_says_what_cannot_be_recounted(method, tmp_path):
    method.release(people(), schema=ROLES, into=tmp_path / "out")
    checked = verify_bundle(tmp_path / "out")
    assert checked.holds
    assert any("cannot show" in finding.found for finding in checked.recounted)
    assert "differentially private" in sf.read_release(tmp_path / "out").manifest.guarantee


def test_the_type_of_a_removed_column_is_not_told(method):
    """One identifier with a letter would otherwise make all of them text."""
    kinds = set()
    for last in (7, "A7"):
        table = people().assign(number=[str(one) if isinstance(last, str) else one for one in (*range(ROWS - 1), last)])
        release = method.release(table, schema={**ROLES, "number": "identifier"})
        kinds |= {column.kind for column in release.manifest.columns if column.name == "number"}
    assert len(kinds) == 1


def test_the_unit_is_the_person_with_limited_rows(method):
    table = people()
    table["who"] = np.arange(ROWS) // 3
    kind = type(method)
    release = kind(rows_per_person=2).release(table, schema=ROLES | {"who": "person"})
    assert "one person with at most 2 rows" in release.manifest.guarantee
    assert "who" not in release.table.names
    assert release.manifest.people_in is None


def test_a_plan_is_measured_once_and_has_declared_notes(method):
    fitted = read_as_declared(as_table(people()), Schema.of(ROLES))
    plan = method.plan(MemorySurvey(fitted.table), fitted.schema, Randomness())
    again = pickle.loads(pickle.dumps(plan))
    first, second = plan.transform(fitted.table, 0), again.transform(fitted.table.take(np.arange(3)), 0)
    assert first.released.arrow.equals(second.released.arrow), "rows are not looked at after the measurements"
    assert (first.origin < 0).all()
    assert set(plan.notes) <= set(method_class(method.name).manifest_notes)


def test_a_release_is_paid_for_before_a_row_is_seen(method, tmp_path):
    budget = PrivacyBudget(tmp_path / "budget.toml", epsilon=1.5, delta=1e-5)
    made = 0
    for _ in range(10):
        try:
            method.release(people(50), schema=ROLES, budget=budget)
        except sf.SfumatoError as refusal:
            assert "spent" in str(refusal)
            break
        made += 1
    assert 1 <= made < 10
    assert budget.releases == made


def test_sensitivity_of_a_scale_is_a_fraction():
    assert discrete_noise.gaussian_scale(squared_sensitivity=4, rho=2.0) == Fraction(1)
