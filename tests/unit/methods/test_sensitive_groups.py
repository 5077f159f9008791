"""Every method that forms groups makes them diverse in the sensitive columns, or refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.methods.base import make_method

METHODS = {
    "mdav": [{}, {"kind": "tree"}, {"values": "range"}, {"kind": "single", "values": "median"}],
    "suppress": [{"search": 1.0}, {"kind": "random", "search": 1.0, "extra": 0.5}],
    "generalize": [{}, {"population": 20_000.0, "beta": 0.3}, {"budget": "exact"}],
    "recode": [{}],
    "boxes": [{}],
}
CASES = [(name, options) for name, several in METHODS.items() for options in several]
ROLES = {"age": "quasi", "town": "quasi", "ill": "sensitive"}


def people(rows: int = 240, seed: int = 0) -> pd.DataFrame:
    """A town whose people all have the same illness, which nobody else has."""
    draw = np.random.default_rng(seed)
    place = draw.integers(0, 4, rows)
    age = place * 20 + draw.integers(0, 3, rows)
    town = np.array(list("ABCD"))[place]
    return pd.DataFrame({"age": age, "town": town, "ill": np.where(place == 3, "HIV", "none")})


def fewest_values(release: sf.Release) -> int:
    """The smallest number of illnesses in a group of rows that are equal in everything else that is released."""
    shown = release.table.arrow.to_pandas()
    names = [name for name in shown if name not in ("ill", "box")]
    return int(shown.groupby(names, dropna=False).ill.nunique().min())


@pytest.mark.parametrize(("name", "options"), CASES)
def test_groups_are_diverse_by_default(name, options):
    release = make_method(name, k=5, **options).release(people(), schema=ROLES, seed=1)
    assert fewest_values(release) >= 2
    assert "at least 2 different values of 'ill' in each group" in release.manifest.guarantee


@pytest.mark.parametrize("name", [*METHODS, "quantiles", "optimal-groups"])
def test_without_the_requirement_groups_share_their_illness(name):
    """The control: the table is one in which the requirement matters."""
    release = make_method(name, k=5, l=1).release(people(), schema=ROLES, seed=1)
    assert fewest_values(release) == 1
    assert "different values" not in release.manifest.guarantee


@pytest.mark.parametrize(
    ("name", "options"),
    [("quantiles", {}), ("optimal-groups", {}), ("mdav", {"kind": "each-column"}), ("mdav", {"values": "draw"})],
)
def test_a_method_that_cannot_make_groups_diverse_refuses(name, options):
    with pytest.raises(sf.SfumatoError, match=r"l=1|l \(1: no requirement\)"):
        make_method(name, k=5, **options).release(people(), schema=ROLES)


def test_one_column_whose_groups_are_diverse_is_released():
    ages = {"age": np.arange(90) % 30, "ill": np.arange(90) % 9}
    release = sf.Quantiles(k=5).release(ages, schema={"age": "quasi", "ill": "sensitive"}, seed=1)
    assert fewest_values(release) >= 2


@pytest.mark.parametrize("name", METHODS)
def test_a_column_with_one_value_is_refused(name):
    with pytest.raises(sf.SfumatoError, match="'ill'"):
        make_method(name, k=5).release(people().assign(ill="none"), schema=ROLES)


@pytest.mark.parametrize("l", [2, 3, 4])
def test_joined_groups_have_values_of_every_sensitive_column(l):
    draw = np.random.default_rng(l)
    age = np.sort(draw.integers(0, 100, 300))
    frame = pd.DataFrame({"age": age, "ill": age // 20, "drug": np.where(draw.random(300) < 0.05, age, -1)})
    roles = {"age": "quasi", "ill": "sensitive", "drug": "sensitive"}
    shown = sf.Microaggregate(k=4, l=l).release(frame, schema=roles, seed=1).table.arrow.to_pandas()
    assert shown.groupby("age")[["ill", "drug"]].nunique().min().min() >= l
    assert shown.groupby("age").size().min() >= 4


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("name", ["mdav", "generalize"])
def test_engines_that_work_in_blocks_keep_the_promise(name, engine, tmp_path):
    people(1500).to_parquet(tmp_path / "people.parquet")
    source = tmp_path / "people.parquet"
    release = make_method(name, k=5).release(source, schema=ROLES, engine=engine, into=tmp_path / "out", seed=1)
    assert "at least 2 different values of 'ill'" in release.manifest.guarantee


def test_no_group_collects_the_others():
    """All groups of one half lack a value, and are nearest to the same few groups of the other half."""
    matrix = np.random.default_rng(0).random((4_000, 3))
    frame = pd.DataFrame(matrix, columns=list("xyz")).assign(ill=np.where(matrix[:, 0] < 0.5, "a", "b"))
    roles = dict.fromkeys("xyz", "quasi") | {"ill": "sensitive"}
    shown = sf.Microaggregate(k=5, kind="tree").release(frame, schema=roles, seed=1).table.arrow.to_pandas()
    sizes = shown.groupby(list("xyz")).size()
    assert len(sizes) > 300  # of at most 400 pairs of groups
    assert sizes.max() <= 30
