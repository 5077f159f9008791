"""A file of a release without its manifest: what its cells do not show is not taken as certain."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf

ROWS = 40


def _written(folder: Path, labels: list[str], role: str) -> tuple[list[str], Path]:
    """Release a column of these categories, and return its cells and the folder."""
    numbers = np.random.default_rng(5)
    cells = [labels[place] for place in numbers.integers(0, len(labels), ROWS)]
    table = {"age": numbers.integers(20, 80, ROWS), "code": pa.array(cells), "empty": pa.nulls(ROWS, pa.float64())}
    roles = {"age": "quasi", "empty": "quasi", "code": {"role": role, "kind": "nominal"}}
    sf.Boxes(k=3, l=1).release(table, schema=sf.Schema.of(roles), seed=1).write(folder / role)
    return cells, folder / role


@pytest.mark.filterwarnings("ignore::sfumato.SfumatoWarning")
@pytest.mark.parametrize("role", ["quasi", "sensitive"])
@pytest.mark.parametrize(
    "labels", [["NA", "b"], ["null", "."], ["=1+1", "-x", "@a"], ["'=x", "=x"], ["a|b", "-c", "NA"]]
)
@pytest.mark.parametrize("file", ["released.csv", "released.parquet"])
def test_categories_like_marks_and_formulas_are_not_miscounted(
    tmp_path: Path, labels: list[str], role: str, file: str
) -> None:
    cells, folder = _written(tmp_path, labels, role)
    release = sf.read_release(folder / file)
    for label in labels:
        equal, other = release.estimate(f'count(code = "{label}")'), release.estimate(f'count(code != "{label}")')
        assert equal.low <= cells.count(label) <= equal.high
        assert other.low <= ROWS - cells.count(label) <= other.high
    missing = release.estimate("count(code = (missing))")
    assert missing.low == 0 <= missing.high
    if file.endswith("csv"):  # the control: a category without a second reading is counted as before
        assert missing.high == (
            sum(cell in ("NA", "null", ".") for cell in cells) if role == "sensitive" else missing.high
        )


def test_marks_written_by_other_programs_are_possibly_missing(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("box,age_low,age_high,sex,smokes\n1,20,30,f,0\n1,20,30,NA,1\n2,40,50,m,NA\n2,40,50,m,1\n")
    release = sf.read_release(file)
    missing = release.estimate("count(sex = (missing))")
    assert (missing.low, missing.high) == (0, 1)
    assert release.estimate("mean(smokes)").records == 3  # in a column of numbers, NA is missing


def test_intervals_without_any_value_are_read_from_a_text_file(tmp_path: Path) -> None:
    _, folder = _written(tmp_path, ["a", "b"], "quasi")
    release = sf.read_release(folder / "released.csv")
    counted = release.estimate("count(empty = (missing))")
    assert (counted.low, counted.high) == (ROWS, ROWS)


@pytest.mark.parametrize("words", ["mean(x | c != high)", "corr(x, y | c != high)", "regress(y ~ x | c != high)"])
def test_a_record_that_only_the_second_reading_counts_is_possible(words: str) -> None:
    rows = {"x_low": [1.0, 1.0], "x_high": [2.0, 2.0], "y": [1.0, 3.0], "c": ["(missing)|high"] * 2}
    estimate = sf.read_release(rows).estimate(words)
    first = estimate[0] if isinstance(estimate, sf.RegressionEstimate) else estimate
    assert (first.records, first.uncertain_records) == (0, 2)


def test_a_value_with_a_bar_is_counted_as_one_value_by_the_best_guess() -> None:
    estimate = sf.read_release({"c": ["asthma|COPD"] * 3 + ["flu"] * 2}).estimate('count(c = "asthma|COPD")')
    assert (estimate.value, estimate.low, estimate.high) == (3.0, 0, 3)
    assert "= 0, guaranteed" in str(
        sf.read_release({"c": ["asthma|COPD"] * 3}).estimate("count(c != COPD and c != asthma)")
    )


def test_one_statistic_alone_is_estimated_jointly() -> None:
    boxes = sf.read_release({"x_low": [1.0, 2.0, 6.0], "x_high": [3.0, 3.0, 8.0]})
    assert [one.name for one in boxes.estimate_jointly("mean(x)")] == ["mean(x)"]
