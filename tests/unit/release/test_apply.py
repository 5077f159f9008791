"""New rows in the cells of a release: the same cells, and promises that are recounted on old and new rows."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import CannotRelease, GuaranteeNotMet, RequestError, SchemaError

ROLES = {"age": "quasi", "sex": "quasi", "ill": "sensitive"}
METHODS = [
    sf.Boxes(k=4, edges="cells"),
    sf.Recode(k=4, suppress=0.1),
    sf.Generalize(k=4),
]


def people(seed: int, count: int = 200) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {
        "age": draw.choice([20.0, 30.0, 40.0, 50.0], count),
        "sex": draw.choice(["f", "m"], count),
        "ill": draw.choice(["u", "v", "w"], count),
    }


def make(method: sf.Method, table: dict[str, np.ndarray]) -> sf.Release:
    with warnings.catch_warnings(action="ignore"):
        return method.release(table, schema=ROLES, seed=1)


def shown(release: sf.Release) -> Counter:
    table = release.to_arrow()
    names = [name for name in table.column_names if name not in ("ill", "box")]
    return Counter(zip(*(map(str, table.column(name).to_pylist()) for name in names), strict=True))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_new_rows_are_in_the_same_cells(method):
    made, new = make(method, people(1)), {name: cells[:60] for name, cells in people(1).items()}
    together = made.apply(new)
    assert together.table.rows == made.table.rows + 60
    assert set(shown(together)) <= set(shown(made))
    assert not shown(made) - shown(together)
    assert together.manifest.rows_out == together.table.rows
    assert all(finding.held for finding in together.findings)


def test_cells_of_numbers_beyond_limits():
    made = make(sf.TopBottom(top=0.4, bottom=0.1), people(1))
    high = float(np.max(made.table.numbers("age")))
    assert np.max(made.apply(people(2) | {"age": np.full(200, 99.0)}).table.numbers("age")) == high


def test_a_promise_that_breaks_is_refused():
    """A new row in a cell of its own is alone there; control: the same row where others are."""
    table = people(1) | {"age": np.repeat([20.0, 30.0], 100)}
    made = make(sf.Boxes(k=4), table)
    alone = {"age": [25.0], "sex": ["f"], "ill": ["u"]}
    with pytest.raises((GuaranteeNotMet, CannotRelease)):
        made.apply(alone)
    assert made.apply(alone | {"age": [30.0]}).table.rows == 201


def test_what_has_no_fixed_cells_is_refused(tmp_path):
    made = make(sf.Microaggregate(k=4), people(1))
    with pytest.raises(RequestError, match="recode"):
        made.apply(people(2))
    make(METHODS[0], people(1)).write(tmp_path / "out")
    with pytest.raises(RequestError, match="process"):
        sf.read_release(tmp_path / "out").apply(people(2))
    with pytest.raises(SchemaError, match="no 'ill'"):
        make(METHODS[0], people(1)).apply({"age": [30.0], "sex": ["f"]})


def test_quantiles_with_fixed_cuts_take_new_rows():
    table = {"age": np.repeat([20.0, 30.0, 40.0, 50.0], 20)}
    made = sf.Quantiles(k=5, ties="together").release(table, schema={"age": "quasi"})
    assert made.apply({"age": [20.0, 50.0]}).table.rows == 82
    with pytest.raises(sf.SfumatoError, match="cells"):
        sf.Quantiles(k=5).release(table, schema={"age": "quasi"}).apply({"age": [20.0]})


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize("age", [19.0, 8_765.0, np.nan])
def test_a_value_beyond_all_cells_is_refused_and_not_shown_in_the_nearest_one(method, age):
    """Estimates guarantee that values lie in their cells, for new rows as well."""
    new = {name: cells[:60].copy() for name, cells in people(1).items()}
    new["age"][0] = age
    with pytest.raises(
        (CannotRelease, GuaranteeNotMet), match=r"cell of the release|box of the release|promises"
    ) as error:
        make(method, people(1)).apply(new)
    assert "8765" not in str(error.value)
