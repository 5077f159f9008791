"""A file of a release without its manifest: what its cells do not show is not taken as certain."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
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


METHODS = {
    "noise": sf.Noise(),
    "microaggregate": sf.Microaggregate(k=3),
    "shuffle": sf.Shuffle(),
    "swap": sf.Swap(),
    "pram": sf.Pram(),
    "suppress": sf.Suppress(k=3),
    "generalize": sf.Generalize(k=3),
    "tree": sf.Boxes(k=5, categories="tree"),
}
WORDS = ('count(zip = "10115")', "mean(x)", "corr(x, y)", 'mean(x | zip = "80331")', "count(x >= 50)")


def _people() -> pd.DataFrame:
    numbers = np.random.default_rng(0)
    x = np.round(numbers.normal(50, 10, 120), -1)
    zips = numbers.choice(["10115", "10117", "10243", "20095", "80331"], 120, p=[0.3, 0.3, 0.2, 0.15, 0.05])
    return pd.DataFrame({"x": x, "y": np.round(0.3 * x + numbers.normal(size=120), -1), "zip": zips})


@pytest.mark.filterwarnings("ignore::sfumato.SfumatoWarning")
@pytest.mark.parametrize("name", METHODS)
def test_a_bare_file_guarantees_only_what_its_release_guarantees(tmp_path: Path, name: str) -> None:
    people, folder = _people(), tmp_path / "out"
    roles = {"x": "quasi", "y": "quasi", "zip": {"role": "quasi", "kind": "nominal", "tree": "prefix"}}
    METHODS[name].release(people, schema=sf.Schema.of(roles), seed=1).write(folder)
    copies = [shutil.copy(folder / f"released.{end}", tmp_path / f"renamed.{end}") for end in ("csv", "parquet")]
    frame = pd.read_csv(folder / "released.csv", dtype={"zip": str})
    whole = sf.read_release(folder)
    for source in (folder / "released.csv", folder / "released.parquet", *copies, frame):
        bare = sf.read_release(source)
        for words in WORDS:
            one, truth = bare.estimate(words), _true(words, people)
            if isinstance(one, sf.Estimate):
                assert one.of != "original" or one.low - 1e-9 <= truth <= one.high + 1e-9, words
                same = whole.estimate(words)
                assert bare.manifest is None or (one.low, one.high) == (same.low, same.high)  # type: ignore[union-attr]
                assert bare.manifest or np.isinf(one.low) or "zip" not in words


def _true(words: str, people: pd.DataFrame) -> float:
    return float(
        {
            WORDS[0]: (people.zip == "10115").sum(),
            WORDS[1]: people.x.mean(),
            WORDS[2]: people.x.corr(people.y),
            WORDS[3]: people.x[people.zip == "80331"].mean(),
            WORDS[4]: (people.x >= 50).sum(),
        }[words]
    )


def test_without_a_manifest_the_reason_is_given_and_ranges_still_count(tmp_path: Path) -> None:
    release = sf.read_release({"x_low": [1.0, 2.0], "x_high": [3.0, 3.0], "y": [1.0, 5.0]})
    one = release.estimate("mean(y)")
    assert (one.value, one.low, one.high) == (3.0, -np.inf, np.inf)
    assert "not known whether y was altered" in " ".join(one.notes)
    assert release.estimate("mean(x)").low == pytest.approx(1.5)


def test_the_manifest_in_a_file_is_that_of_its_cells(tmp_path: Path) -> None:
    sf.Boxes(k=5).release(_people(), schema={"x": "quasi", "y": "other", "zip": "other"}).write(tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "released.parquet")
    changed = rows.set_column(rows.column_names.index("y"), "y", pc.multiply(rows.column("y"), 2.0))
    for table, known in ((rows, True), (changed, False), (rows.slice(3), False)):
        pq.write_table(table, tmp_path / "again.parquet")
        release = sf.read_release(tmp_path / "again.parquet")
        assert (release.manifest is not None) is known
        assert bool(np.isfinite(release.estimate("mean(y)").low)) is known


def test_a_manifest_of_another_release_is_not_used(tmp_path: Path) -> None:
    for name, method in (("one", sf.Boxes(k=5)), ("other", sf.Noise())):
        method.release(_people(), schema={"x": "quasi", "y": "quasi", "zip": "other"}).write(tmp_path / name)
    shutil.copy(tmp_path / "other" / "released.csv", tmp_path / "one" / "released.csv")
    assert np.isinf(sf.read_release(tmp_path / "one" / "released.csv").estimate("mean(x)").low)


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
    assert estimate.value == 3.0
    assert sf.read_release({"c": ["asthma|COPD"] * 3}).estimate("count(c != COPD and c != asthma)").value < 1e-6


def test_one_statistic_alone_is_estimated_jointly() -> None:
    boxes = sf.read_release({"x_low": [1.0, 2.0, 6.0], "x_high": [3.0, 3.0, 8.0]})
    assert [one.name for one in boxes.estimate_jointly("mean(x)")] == ["mean(x)"]
