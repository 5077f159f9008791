"""The role person: what is refused, what is told, and what pseudonyms that link rows add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import CannotRelease, GuaranteeNotMet, SchemaError
from sfumato.release.bundle_check import check_bundle
from sfumato.release.read import read_release

SCHEMA: dict[str, Any] = {"who": "person", "x": "quasi", "s": "sensitive"}


def stays(people: int = 40, rows: int = 3) -> dict[str, Any]:
    """People with a few rows each; x is that of the person, so her rows are in one group."""
    who = np.repeat(np.arange(people), rows)
    return {
        "who": [f"name {one}" for one in who],
        "x": who // 10 * 1.0,
        "s": np.array(["a", "b"])[np.arange(len(who)) % 2],
    }


def test_people_are_told_wherever_rows_are(tmp_path: Path) -> None:
    release = sf.Boxes(k=5).release(stays(), schema=SCHEMA, into=tmp_path / "out")
    assert release.manifest is not None
    assert (release.manifest.people_in, release.manifest.rows_in) == (40, 120)
    assert "40 people in 120 rows" in (tmp_path / "out" / "report.html").read_text()
    assert "counted in people" in release.manifest.guarantee
    assert sf.group_models(stays(), ["x"], ["s"], schema=SCHEMA).k == 10


def test_a_bundle_recounts_rows_and_states_people(tmp_path: Path) -> None:
    release = sf.Boxes(k=5).release(stays(), schema=SCHEMA, into=tmp_path / "out")
    assert release.manifest is not None
    checked = check_bundle(tmp_path / "out", read_release(tmp_path / "out").manifest, release.table)
    assert checked.holds
    assert checked.by_rows[0].claim == "5-anonymous in x"
    assert "counted in people" in checked.not_recounted[0].claim


def test_too_few_people_are_refused() -> None:
    with pytest.raises(CannotRelease, match="at least k = 5 people"):
        sf.Boxes(k=5).release(stays(people=4, rows=9), schema=SCHEMA)


def test_a_row_without_its_person_is_refused() -> None:
    table = stays()
    table["who"][3] = None
    with pytest.raises(SchemaError, match="Every row must have its person"):
        sf.Boxes(k=5).release(table, schema=SCHEMA)


def test_repeated_identifiers_are_advised_to_be_people() -> None:
    with pytest.raises(CannotRelease, match="--person who"):
        sf.Boxes(k=5).release(stays(), schema={**SCHEMA, "who": "identifier"})


def test_a_promise_that_counts_rows_is_refused() -> None:
    with pytest.raises(CannotRelease, match="must count people"):
        sf.Generalize(k=5, beta=0.1, population=1e6).release(stays(), schema=SCHEMA)


def test_two_columns_of_people_are_refused() -> None:
    with pytest.raises(SchemaError, match="At most one column"):
        sf.Schema.of({"a": "person", "b": "person"})


@pytest.mark.parametrize(("facts", "is_kept"), [(None, False), (2, False), (1, True)])
def test_linked_rows_are_counted_together(facts: int | None, is_kept: bool, tmp_path: Path) -> None:
    """Everybody has one row in each of two cells of their own pair: each cell is that of ten people, most pairs not."""
    who = np.arange(40)
    table = {"who": [f"n{one}" for one in np.tile(who, 2)], "x": np.append(who % 4, 10 + who // 10).astype(float)}
    person = {"role": "person", "pseudonym": True} | ({} if facts is None else {"facts": facts})
    asked: dict[str, Any] = {"schema": {"who": person, "x": "quasi"}, "key": tmp_path / "key"}
    if not is_kept:
        with pytest.raises(GuaranteeNotMet, match="linked by pseudonyms"):
            sf.Boxes(k=10).release(table, **asked)
        return
    release = sf.Boxes(k=10).release(table, **asked)
    assert release.manifest is not None
    assert "any 1 row of a person" in release.manifest.guarantee
    assert "who" in release.to_arrow().column_names


def test_a_holdout_keeps_the_rows_of_a_person_together() -> None:
    kept, other = sf.split_holdout(stays(), 0.5, person="who")
    assert not set(kept.arrow.column("who").to_pylist()) & set(other.arrow.column("who").to_pylist())
    assert (kept.rows, other.rows) == (60, 60)
