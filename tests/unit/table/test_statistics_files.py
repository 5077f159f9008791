"""Files of SPSS, Stata and SAS: labels, missing codes, damaged files, and what is written comes back."""

from __future__ import annotations

import datetime
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MissingExtra, OptionError, ReadError, SfumatoError, SfumatoWarning
from sfumato.formats.exports import EXPORTS, export, file_names
from sfumato.formats.statistics_files import read_statistics
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

pyreadstat = pytest.importorskip("pyreadstat", reason="sfumato[stats] is not installed")
pandas = pytest.importorskip("pandas", reason="sfumato[stats] is not installed")

PLANTED = "PLANTED7731"
READERS = {".sav": "sav", ".dta": "dta", ".xpt": "xpt"}
DAYS = st.dates(datetime.date(1901, 1, 1), datetime.date(2200, 1, 1))
WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=12)


def people() -> pandas.DataFrame:
    return pandas.DataFrame(
        {
            "age": [34.0, 51.0, 99.0, 95.0],
            "sex": [1.0, 2.0, 1.0, 2.0],
            "school": [1.0, 3.0, 2.0, 1.0],
            "visits": [1.0, 2.0, 3.0, 98.0],
            "town": ["Ulm", "zz", PLANTED, ""],
            "seen": [datetime.date(2020, 1, 1), None, datetime.date(1900, 1, 1), datetime.date(1999, 5, 5)],
        }
    )


@pytest.fixture
def spss(tmp_path) -> Path:
    path = tmp_path / "people.sav"
    pyreadstat.write_sav(
        people(),
        path,
        column_labels={"age": "Age in years"},
        variable_value_labels={
            "age": {99: "refused"},
            "sex": {1: "male", 2: "female", 3: "other"},
            "school": {1: "low", 2: "middle", 3: "middle"},
            "visits": {98: "do not know"},
        },
        missing_ranges={"age": [{"lo": 90, "hi": 99}], "town": ["zz"]},
        variable_measure={"school": "ordinal"},
    )
    return path


class TestReading:
    def test_labels_become_categories_and_codes_of_missing_values_missing(self, spss):
        with pytest.warns(SfumatoWarning, match="'visits'"):
            table = sf.read(spss)
        read = table.arrow.to_pydict()
        assert read["age"] == [34, 51, None, None], "a range of missing codes"
        assert read["town"] == ["Ulm", None, PLANTED, None]
        assert read["sex"] == ["male", "female", "male", "female"]
        assert read["school"] == ["low", "middle (3)", "middle (2)", "low"], "equal labels keep two categories apart"
        assert table.kinds["sex"] is Kind.NOMINAL
        assert table.kinds["school"] is Kind.ORDERED
        assert table.coded("school").values.to_pylist() == ["low", "middle (2)", "middle (3)"]
        assert read["seen"][2] == datetime.date(1900, 1, 1)
        assert table.labels == {"age": "Age in years"}

    def test_labels_are_kept_in_the_schema_and_its_file(self, spss, tmp_path):
        schema = sf.Schema.for_table(spss, {"age": "quasi"})
        assert schema["age"].label == "Age in years"
        schema.write(tmp_path / "schema.toml")
        assert sf.Schema.of(tmp_path / "schema.toml")["age"].label == "Age in years"

    def test_a_code_can_be_declared_missing(self, spss):
        with warnings.catch_warnings():
            warnings.simplefilter("error", SfumatoWarning)
            table = sf.read(spss, missing="98")
        assert table.arrow.column("visits").to_pylist() == [1, 2, 3, None]

    def test_special_missing_values_of_stata_are_missing(self, tmp_path):
        frame = people()
        frame["age"] = pandas.Series([34, "a", 51, "z"], dtype=object)
        pyreadstat.write_dta(
            frame,
            tmp_path / "people.dta",
            variable_value_labels={"sex": {1: "male", 2: "female"}},
            missing_user_values={"age": ["a", "z"]},
        )
        table = sf.read(tmp_path / "people.dta")
        assert table.arrow.column("age").to_pylist() == [34, None, 51, None]
        assert table.arrow.column("sex").to_pylist() == ["male", "female", "male", "female"]

    @pytest.mark.parametrize("name", ["p.zsav", "p.por", "p.xpt"])
    def test_other_formats_are_recognised_by_their_content(self, name, tmp_path):
        writers = {
            "p.zsav": lambda path: pyreadstat.write_sav(people(), path, compress=True),
            "p.por": lambda path: pyreadstat.write_por(people(), path),
            "p.xpt": lambda path: pyreadstat.write_xport(people(), path),
        }
        writers[name](tmp_path / name)
        renamed = (tmp_path / name).rename(tmp_path / "unnamed")
        table = sf.read(renamed)
        assert [one.lower() for one in table.names] == list(people().columns)
        assert table.arrow.column(0).to_pylist() == [34, 51, 99, 95]

    def test_a_header_cannot_be_given(self, spss):
        with pytest.raises(OptionError, match="names of its columns"):
            sf.read(spss, header=False)

    def test_without_the_package_the_extra_is_named(self, spss, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyreadstat", None)
        monkeypatch.setattr("sfumato.formats.raw_files.find_spec", lambda name: None)
        with pytest.raises(MissingExtra, match=r"sfumato\[stats\]"):
            sf.read(spss)


class TestDamagedFiles:
    @pytest.mark.parametrize("suffix", [".sav", ".zsav", ".por", ".dta", ".xpt"])
    def test_a_damaged_file_is_an_error_or_a_table_and_quotes_nothing(self, suffix, tmp_path):
        path = tmp_path / f"people{suffix}"
        writers = {".por": pyreadstat.write_por, ".dta": pyreadstat.write_dta, ".xpt": pyreadstat.write_xport}
        writers.get(suffix, pyreadstat.write_sav)(people(), path, **({"compress": True} if suffix == ".zsav" else {}))
        whole, rng, refused = path.read_bytes(), random.Random(suffix), 0
        for trial in range(4):
            damaged = bytearray(whole if trial else whole[: len(whole) // 2])
            for _ in range(5 * trial):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            path.write_bytes(damaged)
            try:
                sf.read(path)
            except SfumatoError as error:
                refused += 1
                assert PLANTED not in str(error)
                assert error.__context__ is None
        assert refused

    @pytest.mark.parametrize("suffix", [".sav", ".dta", ".sas7bdat", ".xpt", ".por"])
    def test_text_with_such_a_name_is_refused(self, suffix, tmp_path):
        path = tmp_path / f"people{suffix}"
        path.write_text(f"a,b\n1,{PLANTED}\n")
        with pytest.raises(ReadError, match="not a valid"):
            sf.read(path)

    def test_a_broken_sas_file_is_an_error(self, tmp_path):
        path = tmp_path / "people.sas7bdat"
        path.write_bytes(bytes(12) + bytes.fromhex("c2ea8160b31411cfbd92080009c7318c181f1011") + b"\xff" * 4000)
        with pytest.raises(ReadError, match="broken SAS"):
            sf.read(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("exports")


class TestRoundTrip:
    @given(
        whole=st.lists(st.none() | st.integers(-(2**40), 2**40), min_size=3, max_size=3),
        numbers=st.lists(st.none() | st.floats(-1e9, 1e9, width=32), min_size=3, max_size=3),
        words=st.lists(st.none() | WORDS, min_size=3, max_size=3),
        days=st.lists(st.none() | DAYS, min_size=3, max_size=3),
    )
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @pytest.mark.parametrize("suffix", [".sav", ".dta", ".xpt"])
    def test_what_is_written_is_read(self, suffix, folder, whole, numbers, words, days):
        given = {
            "whole": pa.array(whole, pa.int64()),
            "number": pa.array(numbers, pa.float64()),
            "word": pa.array(words, pa.string()),
            "day": pa.array(days, pa.date32()),
        }
        kinds = {"whole": Kind.WHOLE, "number": Kind.CONTINUOUS, "word": Kind.NOMINAL, "day": Kind.DATE}
        path = folder / f"table{suffix}"
        export(Table(pa.table(given), kinds), path, {"whole": "A whole number"})
        read = read_statistics(path.read_bytes(), READERS[suffix])
        assert read.field("whole").metadata == {b"sfumato label": b"A whole number"}
        for name in ("whole", "word", "day"):
            assert read.column(name).to_pylist() == given[name].to_pylist()
        tolerance = 1e-14 if suffix == ".xpt" else 0.0  # SAS has 56 bits, but fewer at the end of an exponent
        back = np.array(read.column("number").cast(pa.float64()).to_pylist(), dtype=float)
        assert np.allclose(back, np.array(numbers, dtype=float), rtol=tolerance, atol=0.0, equal_nan=True)

    @pytest.mark.parametrize("suffix", [".sav", ".dta"])
    def test_an_order_and_labels_are_value_labels(self, suffix, tmp_path):
        cells = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 1]), ["low", "middle", "high"], ordered=True)
        export(Table(pa.table({"school": cells}), {"school": Kind.ORDERED}), tmp_path / f"t{suffix}", {})
        read, about = (pyreadstat.read_sav if suffix == ".sav" else pyreadstat.read_dta)(tmp_path / f"t{suffix}")
        assert about.variable_value_labels == {"school": {1: "low", 2: "middle", 3: "high"}}
        assert read["school"].tolist()[:2] == [3, 1]


class TestWhatAFormatCannotHold:
    def noted(self, cells: pa.Array, kind: Kind, path: Path) -> str:
        return " ".join(export(Table(pa.table({"x": cells}), {"x": kind}), path, {}).notes)

    def test_is_said(self, tmp_path):
        early = pa.array([datetime.date(1500, 1, 1)])
        assert "no dates before 1582" in self.noted(early, Kind.DATE, tmp_path / "t.sav")
        assert "too many digits" in self.noted(pa.array([2**60 + 1]), Kind.WHOLE, tmp_path / "t.dta")
        assert "infinite" in self.noted(pa.array([np.inf, 1.0]), Kind.CONTINUOUS, tmp_path / "t.sav")
        zoned = pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("us", tz="Europe/Berlin"))
        assert "UTC" in self.noted(zoned, Kind.DATE, tmp_path / "t.sav")
        many = pa.array([f"town {number}" for number in range(400)])
        assert "without value labels" in self.noted(many, Kind.NOMINAL, tmp_path / "t.sav")
        assert not self.noted(pa.array([1, 2]), Kind.WHOLE, tmp_path / "t.sav")

    def test_empty_text_and_spaces_at_the_end_are_said(self, tmp_path):
        empty, spaces = pa.array(["", None, "a"]), pa.array(["a ", "a", "b"])
        for suffix in (".dta", ".xpt"):
            assert "is missing where a text is empty" in self.noted(empty, Kind.TEXT, tmp_path / f"t{suffix}")
        assert "no spaces at the end of texts" in self.noted(spaces, Kind.TEXT, tmp_path / "t.xpt")
        assert "no spaces at the end of labels" in self.noted(spaces, Kind.NOMINAL, tmp_path / "t.sav")
        assert not self.noted(spaces, Kind.NOMINAL, tmp_path / "t.dta")
        assert not self.noted(pa.array(["a", None]), Kind.TEXT, tmp_path / "t.sav")

    def test_text_that_is_too_long_is_refused(self, tmp_path):
        with pytest.raises(OptionError, match="2,045 bytes"):
            self.noted(pa.array(["x" * 3000]), Kind.TEXT, tmp_path / "t.dta")

    @given(st.lists(st.text(min_size=1, max_size=70), unique=True, max_size=12))
    @pytest.mark.parametrize("suffix", [".sav", ".dta", ".xpt"])
    def test_names_are_plain_short_and_different(self, suffix, names):
        found = file_names(names, EXPORTS[suffix])
        assert len({new.lower() for new in found.values()}) == len(names)
        assert all(len(new.encode()) <= EXPORTS[suffix].name_bytes for new in found.values())
        assert all(new[0].isalpha() and new.replace("_", "a").isalnum() for new in found.values())

    def test_long_names_of_ranges_keep_their_ends(self):
        long = "systolic_blood_pressure_at_first_visit"
        found = file_names([f"{long}_low", f"{long}_high"], EXPORTS[".dta"])
        low, high = found.values()
        assert (low.removesuffix("_low"), len(low) < 32) == (high.removesuffix("_high"), True)
