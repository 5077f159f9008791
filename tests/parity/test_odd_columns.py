"""Tables as they come, released by DuckDB as by memory: names that SQL confuses, NaN, paths with wildcards."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf

ROWS = 300
# the search of joint counts (budget "joint") works on the sample alone, whatever the engine
METHODS = [sf.Boxes(k=5), sf.Generalize(k=5, population=1e6, budget="exact"), sf.Recode(k=5)]


def _released(method, path: Path, engine: str) -> list[str]:
    names = pq.read_schema(path).names
    release = method.release(path, schema=dict.fromkeys(names, "quasi"), engine=engine, seed=1)
    frame = release.to_pandas().drop(columns="box", errors="ignore")
    return sorted(map(repr, frame.itertuples(index=False, name=None)))


def _numbers(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(18, 90, ROWS)


@pytest.fixture
def sexes() -> list[str]:
    return ["f" if odd else "m" for odd in _numbers(9) % 2]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
class TestColumns:
    @pytest.mark.parametrize(
        "names",
        [("Age", "age"), ("", "AGE"), ("number", "rows"), ("value", "size"), ('a"b', "x" * 80), ("a.b", "a\nb")],
    )
    def test_any_names(self, method, names, sexes, tmp_path):
        path = tmp_path / "rows.parquet"
        pq.write_table(pa.table([pa.array(sexes), _numbers(1), _numbers(2)], names=[*names, "other"]), path)
        assert _released(method, path, "duckdb") == _released(method, path, "memory")

    @pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
    def test_not_a_number_is_missing(self, method, kind, tmp_path):
        """Files that pandas did not write have NaN, and the extremes in their footers omit it."""
        path, numbers = tmp_path / "rows.parquet", _numbers(1).astype(float)
        numbers[::6] = np.nan
        cells = pa.array(numbers, from_pandas=False).cast(kind)
        assert not cells.null_count
        pq.write_table(pa.table({"income": cells, "age": _numbers(2)}), path)
        assert _released(method, path, "duckdb") == _released(method, path, "memory")


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("s", "UTC")])
def test_timestamps_in_other_units_and_zones_become_years(kind, tmp_path):
    """The values that DuckDB counts must be found again among the cells of the file."""
    path = tmp_path / "rows.parquet"
    moments = pa.array((_numbers(1) - 50) * 10_000_000 * 10**6, pa.timestamp("us")).cast(kind)
    pq.write_table(pa.table({"admitted": moments, "size": _numbers(2)}), path)
    found = [_released(sf.SafeHarbor(year=2026), path, engine) for engine in ("duckdb", "memory")]
    assert found[0] == found[1]


@pytest.mark.parametrize("place", ["year=2020", "part[1]", "all*"])
def test_a_path_is_neither_a_pattern_nor_a_column(place, tmp_path):
    folder = tmp_path / place
    folder.mkdir()
    pq.write_table(pa.table({"year": _numbers(1), "age": _numbers(2)}), folder / "rows.parquet")
    found = [_released(METHODS[1], folder / "rows.parquet", engine) for engine in ("duckdb", "memory")]
    assert found[0] == found[1]
    sf.Boxes(k=5).release(folder / "rows.parquet", engine="duckdb", into=folder / "out")
    assert sf.read_release(folder / "out").table.rows == ROWS


def test_a_release_in_parts_can_be_estimated_after_all_rows_were_read(tmp_path):
    sf.Boxes(k=5).release({"age": _numbers(1)}, schema={"age": "quasi"}, engine="duckdb", into=tmp_path / "out")
    release = sf.read_release(tmp_path / "out")
    expected = release.estimate("mean(age)")
    assert len(release.to_pandas()) == ROWS
    assert release.table.select(["age_low"]).rows == ROWS
    assert release.estimate("mean(age)") == expected


class TestStreamedText:
    """Text files that count as larger than memory are read as others are, with the same warnings."""

    @staticmethod
    def _both(pattern, monkeypatch):
        from sfumato.engines.duckdb import source

        with warnings.catch_warnings(record=True) as in_memory:
            warnings.simplefilter("always", sf.SfumatoWarning)
            expected = sf.read(pattern)
        monkeypatch.setattr(source, "EXPANSION", 10**9)
        with warnings.catch_warnings(record=True) as streamed, sf.DuckDB(memory="1GB").session(None) as running:
            warnings.simplefilter("always", sf.SfumatoWarning)
            opened = running.open(str(pattern), None)
            found = pa.concat_tables([batch.arrow for _, batch in opened.stored.tables(500)])
        assert found.combine_chunks().equals(expected.arrow.combine_chunks())
        assert [str(one.message) for one in streamed] == [str(one.message) for one in in_memory]
        return [str(one.message) for one in streamed]

    def test_codes_spellings_and_stray_words_are_warned_of(self, tmp_path, monkeypatch):
        lines = [f"{20 + number % 50},{'fFmM'[number % 4]},{number / 8}" for number in range(400)]
        lines += ["-99,f,1.5"] * 3 + ["30,m,about 7"]
        (tmp_path / "in.csv").write_text("age,sex,dose\n" + "\n".join(lines) + "\n")
        told = self._both(tmp_path / "in.csv", monkeypatch)
        assert len(told) == 3
        assert "'dose' (1 of 404)" in told[0] and "'sex' (4 values, 2 if" in told[1] and "'age' (3 cells)" in told[2]

    def test_parts_may_have_different_separators_and_encodings(self, tmp_path, monkeypatch):
        (tmp_path / "in0.csv").write_text("name,size\n" + "".join(f"Ä{number % 9},{number}\n" for number in range(50)))
        (tmp_path / "in1.csv").write_bytes(
            ("name;size\n" + "".join(f"Ä{number % 9};{number}\n" for number in range(50))).encode("cp1252")
        )
        assert self._both(tmp_path / "in*.csv", monkeypatch) == []
