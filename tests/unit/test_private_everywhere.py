"""Comparison, recommendation, report and command line know the methods with a proof."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.cli.commands import run

SCHEMA = {
    "age": {"role": "quasi", "domain": [0, 100]},
    "income": {"role": "quasi", "domain": [0, 10_000]},
    "town": {"role": "quasi", "order": ["Bonn", "Ulm"]},
}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw = np.random.default_rng(7)
    age = draw.uniform(18, 90, 150)
    return pd.DataFrame(
        {"age": age, "income": 50.0 * age + draw.uniform(0, 2000, 150), "town": draw.choice(["Bonn", "Ulm"], 150)}
    )


def test_they_are_compared_with_others(people):
    methods = [sf.Boxes(k=5), sf.PrivateBoxes(epsilon=1.0), sf.PrivateSynthesis(epsilon=1.0, kind="mst")]
    compared = sf.compare(people, methods=methods, schema=SCHEMA, seed=1, jobs=1)
    rows = {row.method: row for row in compared.rows}
    assert set(rows) == {"boxes", "private-boxes", "private-synthesis"}
    assert all(not row.reason for row in rows.values()), [row.reason for row in rows.values()]
    assert "differentially private" in rows["private-boxes"].guarantee
    assert rows["private-synthesis"].assessment is not None


def test_they_are_among_the_alternatives(people):
    found = sf.recommend(people, schema=SCHEMA)
    assert {"private-boxes", "private-synthesis"} <= {one.method for one in found.alternatives}


def test_the_report_tells_the_largest_errors(people):
    release = sf.PrivateSynthesis(epsilon=1.0, kind="mst").release(people, schema=SCHEMA)
    from sfumato.report.contents import contents

    notes = dict(contents(release).notes)
    assert "age" in notes["errors"]
    assert {one.columns for one in release.marginal_errors} == {
        ("age",),
        ("income",),
        ("town",),
        *{tuple(pair) for pair in _pairs(release)},
    }


def _pairs(release):
    return [one.columns for one in release.marginal_errors if len(one.columns) == 2]


def test_the_command_line_takes_what_never_occurs(people, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    people.to_parquet(tmp_path / "people.parquet")
    lines = [
        f'[columns.{name}]\nrole = "quasi"\n'
        + (f"domain = {json.dumps(own['domain'])}\n" if "domain" in own else f"order = {json.dumps(own['order'])}\n")
        for name, own in SCHEMA.items()
    ]
    (tmp_path / "schema.toml").write_text("\n".join(lines))
    never = json.dumps(["age < 40 and town = Ulm"])
    arguments = ["release", "people.parquet", "-o", "out", "--method", "private-synthesis", "--schema", "schema.toml"]
    assert run([*arguments, "--option", f"never={never}"]) == 0, capsys.readouterr().err
    frame = sf.read_release(tmp_path / "out").to_pandas()
    assert not ((frame.age < 40) & (frame.town == "Ulm")).any()
    assert (frame.age < 40).any()
