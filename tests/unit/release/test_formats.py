"""A release in the formats of other programs, and its codebook."""

from __future__ import annotations

import csv
import io
import shutil

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import MissingExtra, OptionError, SfumatoWarning
from sfumato.release.read import verify_bundle

for package in ("pyreadstat", "pandas", "xlsxwriter", "python_calamine"):
    pytest.importorskip(package, reason="sfumato[excel,stats] is not installed")

PLANTED = "PLANTED7731"
ROLES = {
    "age": {"role": "quasi", "label": "Age in years"},
    "first visit": "other",
    "town": {"role": "other", "kind": "nominal"},
    "sex": "quasi",
    "name": "identifier",
}


@pytest.fixture(scope="module")
def release() -> sf.Release:
    draw = np.random.default_rng(1)
    columns = {
        "age": draw.integers(18, 90, 120),
        "first visit": draw.integers(2000, 2020, 120),
        "town": ["Ulm", "Bonn"] * 59 + [PLANTED, "Ulm"],
        "sex": draw.choice(["f", "m"], 120),
        "name": [f"person {number}" for number in range(120)],
    }
    return sf.Boxes(k=5).release(pa.table(columns), schema=ROLES)


class TestFormats:
    def test_each_is_written_verified_and_read_back(self, release, tmp_path):
        with pytest.warns(SfumatoWarning, match=r"released\.dta.*'first visit' is called 'first_visit'"):
            folder = release.write(tmp_path / "out", formats=["sav", "dta", "xpt", "xlsx"])
        assert (folder / "released.csv").exists()
        checked = verify_bundle(folder)
        assert checked.holds
        assert {"released.sav", "released.dta", "released.xpt", "released.xlsx"} <= {one.name for one in checked.files}
        expected = release.table.arrow.column("town").cast(pa.string()).to_pylist()
        for suffix in ("sav", "dta", "xpt", "xlsx"):
            again = sf.read_release(shutil.copy(folder / f"released.{suffix}", tmp_path))  # without its manifest
            assert again.table.arrow.column("town").cast(pa.string()).to_pylist() == expected
            assert again.estimate("mean(age)").low == release.estimate("mean(age)").low
            if suffix != "xlsx":
                label = again.table.labels["age_low"]
                assert label == "Age in years: lower end of the range that contains the value"
                named = next(name for name in again.table.names if name.startswith("first"))
                assert named == "first visit" or again.table.labels[named] == "first visit"

    def test_parquet_alone_leaves_the_text_out(self, release, tmp_path):
        folder = release.write(tmp_path / "out", formats="parquet")
        assert not (folder / "released.csv").exists()

    def test_a_changed_file_is_noticed(self, release, tmp_path):
        folder = release.write(tmp_path / "out", formats=["sav"])
        (folder / "released.sav").write_bytes((folder / "released.sav").read_bytes() + b"\0")
        assert not verify_bundle(folder).holds

    def test_an_older_bundle_in_other_formats_is_replaced_as_a_whole(self, release, tmp_path):
        release.write(tmp_path / "out", formats=["sav", "csv"])
        folder = release.write(tmp_path / "out")
        assert not (folder / "released.sav").exists()

    def test_an_unknown_format_is_refused_before_anything_is_written(self, release, tmp_path):
        with pytest.raises(OptionError, match="'csv', 'parquet', 'sav', 'dta', 'xpt', 'xlsx'"):
            release.write(tmp_path / "out", formats="doc")
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("wrong", [[[]], [None], [1], [{}]])
    def test_a_format_that_is_no_word_is_refused(self, release, tmp_path, wrong):
        with pytest.raises(OptionError, match="A format of the released rows"):
            release.write(tmp_path / "out", formats=wrong)

    def test_a_missing_package_is_named(self, release, tmp_path, monkeypatch):
        monkeypatch.setattr("sfumato.formats.raw_files.find_spec", lambda name: None)
        with pytest.raises(MissingExtra, match=r"sfumato\[stats\]"):
            release.write(tmp_path / "out", formats="sav")
        assert not (tmp_path / "out").exists()

    def test_no_format_holds_an_identifier(self, release, tmp_path):
        folder = release.write(tmp_path / "out", formats=["sav", "dta", "xpt", "csv"])
        assert not [path.name for path in folder.iterdir() if b"person 1" in path.read_bytes()]


class TestCodebook:
    def read(self, release: sf.Release, formats: tuple[str, ...] = ()) -> dict[str, dict[str, str]]:
        text = release.report_files(formats=formats)["codebook.csv"].decode()
        return {row["column"] or row["made from"]: row for row in csv.DictReader(io.StringIO(text))}

    def test_says_what_each_column_means_and_what_was_done(self, release):
        lines = self.read(release)
        assert lines["age_low"]["label"] == "Age in years: lower end of the range that contains the value"
        assert (lines["age_high"]["made from"], lines["age_high"]["role"]) == ("age", "quasi")
        assert lines["box"]["what was done"] == "added by the method"
        assert lines["name"] == lines["name"] | {"column": "", "what was done": "removed", "categories": ""}

    def test_counts_categories_and_names_none(self, release):
        lines = self.read(release)
        assert lines["town"]["categories"] == str(len(release.to_arrow().column("town").drop_null().unique()))
        assert lines["age_low"]["categories"] == ""
        assert not any(town in str(lines) for town in ("Bonn", "Ulm", PLANTED))

    def test_tells_names_that_a_format_had_to_change(self, release):
        assert self.read(release, ("dta",))["first visit"]["name in dta"] == "first_visit"
        assert "name in xlsx" not in self.read(release, ("xlsx",))["age_low"]
