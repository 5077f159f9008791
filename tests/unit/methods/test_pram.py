"""Post-randomisation: an invariant matrix keeps expected counts, a given one is followed, and zero means never."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.errors import OptionError

SHARES = {"a": 0.6, "b": 0.3, "c": 0.1}
ROWS = 40_000


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw = np.random.default_rng(4)
    return pd.DataFrame({"x": draw.choice(list(SHARES), ROWS, p=list(SHARES.values())), "row": np.arange(ROWS)})


ROLES = {"x": "quasi", "row": "other"}


def released(people: pd.DataFrame, **options) -> pd.DataFrame:
    found = sf.Pram(**options).release(people, schema=ROLES, seed=9)
    assert all(finding.held for finding in found.findings)
    return found.to_pandas().sort_values("row").reset_index(drop=True)


def chi_square(before: pd.Series, after: pd.Series, keep: float) -> float:
    """Squared difference of the counts ÷ the variance that independent draws of the changed cells give."""
    total = 0.0
    for value, share in before.value_counts(normalize=True).items():
        variance = ROWS * (1 - keep**2) * share * (1 - share)
        total += (int((after == value).sum()) - int((before == value).sum())) ** 2 / variance
    return total


def test_the_invariant_matrix_keeps_the_counts_in_expectation(people):
    keep = 0.7
    after = released(people, keep=keep)["x"]
    assert chi_square(people["x"], after, keep) < 16.0  # p ≈ 1e-3 with 2 degrees of freedom, after rounding up
    uniform = {one: {other: keep * (one == other) + (1 - keep) / 3 for other in SHARES} for one in SHARES}
    control = released(people, matrix={"x": uniform})["x"]
    assert chi_square(people["x"], control, keep) > 100.0, "a matrix that is not invariant would be seen"


def test_cells_are_kept_with_the_probability_that_is_told(people):
    release = sf.Pram(keep=0.7).release(people, schema=ROLES, seed=2)
    told = release.manifest.notes["probability of keeping"]["x"]
    assert told == pytest.approx(0.7 + 0.3 * people["x"].value_counts(normalize=True).min(), abs=1e-6)
    after = release.to_pandas().sort_values("row")["x"].to_numpy()
    for value, share in people["x"].value_counts(normalize=True).items():
        same = (after[people["x"] == value] == value).mean()
        wanted = 0.7 + 0.3 * share
        assert abs(same - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / (ROWS * share))


def test_a_given_matrix_is_followed_and_zero_never_happens(people):
    matrix = {"a": {"a": 0.5, "b": 0.5, "c": 0.0}, "b": {"b": 1.0}}
    after = released(people, matrix={"x": matrix})["x"]
    assert set(after[people["x"] == "a"]) == {"a", "b"}
    assert set(after[people["x"] == "b"]) == {"b"}
    assert set(after[people["x"] == "c"]) == {"c"}, "a value that is not named is kept"
    assert abs((after[people["x"] == "a"] == "b").mean() - 0.5) < 5 * 0.5 / np.sqrt(0.6 * ROWS)


def test_missing_cells_stay_missing_and_kinds_stay():
    frame = pd.DataFrame({"x": ["a", None, "b", "a"] * 25, "flag": [True, False] * 50})
    release = sf.Pram(keep=0.0).release(frame, schema={"x": "quasi", "flag": "quasi"}, seed=1)
    assert release.table.arrow.column("x").null_count == 25
    assert release.table.kinds["flag"] == "boolean"


@pytest.mark.parametrize(
    "matrix", [{"x": {"a": {"a": 0.5}}}, {"x": {"a": {"a": 1.5, "b": -0.5}}}, {"x": {"a": 1.0}}, {"x": 3}, ["x"]]
)
def test_a_matrix_that_is_none_is_refused(matrix):
    with pytest.raises(OptionError):
        sf.Pram(matrix=matrix)


def test_a_value_that_the_column_does_not_have_is_refused_without_being_quoted(people):
    with pytest.raises(OptionError) as refused:
        sf.Pram(matrix={"x": {"a": {"secret": 1.0}}}).release(people, schema=ROLES)
    assert "secret" not in str(refused.value)


def test_numbers_alone_are_refused():
    with pytest.raises(sf.SfumatoError, match="categorical"):
        sf.Pram().release({"age": [1.5, 2.5, 3.5]}, schema={"age": "quasi"})
