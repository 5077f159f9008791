"""Released rows as frames: ends or midpoints, dates as dates, orders and booleans kept, also from disk."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import OptionError
from sfumato.methods.base import METHODS, make_method, method_class

LEVELS = ["low", "middle", "high"]
ROLES = {"age": "quasi", "born": "quasi", "level": "other", "city": "quasi", "member": "other"}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw, rows = np.random.default_rng(4), 80
    return pd.DataFrame(
        {
            "age": draw.integers(18, 90, rows),
            "born": [dt.date(1950, 1, 1) + dt.timedelta(days=int(days)) for days in draw.integers(0, 9000, rows)],
            "level": pd.Categorical(draw.choice(LEVELS, rows), categories=LEVELS, ordered=True),
            "city": pd.Categorical(draw.choice(["Ulm", "Rom"], rows)),
            "member": draw.random(rows) < 0.5,
        }
    )


@pytest.fixture(scope="module")
def release(people) -> sf.Release:
    return sf.Boxes(k=5).release(people, schema=ROLES)


class TestIntervals:
    def test_ends_are_the_default(self, release):
        assert release.to_arrow().equals(release.table.arrow)
        assert release.to_arrow(ends=True).equals(release.table.arrow)

    def test_midpoints_stand_in_place_of_the_ends_under_the_name_of_the_column(self, release):
        names = release.to_arrow(midpoints=True).column_names
        assert names == ["age", "born", "city", "box", "level", "member"]
        frame, ends = release.to_pandas(midpoints=True), release.to_pandas()
        assert (frame["age"] == (ends["age_low"] + ends["age_high"]) / 2).all()

    def test_both_may_be_asked_for_but_not_neither(self, release):
        assert release.to_arrow(midpoints=True, ends=True).column_names[:3] == ["age", "age_low", "age_high"]
        with pytest.raises(OptionError, match="midpoints, ends or both"):
            release.to_arrow(ends=False)
        with pytest.raises(OptionError, match="midpoints"):
            release.to_pandas(midpoints="yes")

    def test_columns_of_the_original_that_only_look_like_ends_are_columns(self, tmp_path):
        """Blood pressures, for instance: they are no interval, and what is altered is not guaranteed."""
        numbers = np.random.default_rng(2).normal(size=(2, 60))
        roles = {"pressure_low": "quasi", "pressure_high": "quasi"}
        release = sf.Noise().release(dict(zip(roles, numbers, strict=True)), schema=roles)
        assert release.names == ("pressure_low", "pressure_high")
        assert release.to_arrow(midpoints=True).column_names == [*roles]
        release.write(tmp_path / "out")
        with pytest.raises(sf.SfumatoError, match="pressure"):
            sf.read_release(tmp_path / "out").estimate("mean(pressure)")

    def test_the_middle_of_dates_is_a_date_between_them(self, release):
        frame = release.to_arrow(midpoints=True, ends=True)
        assert frame.schema.field("born").type == pa.date32()
        for low, middle, high in zip(
            *(frame[name].to_pylist() for name in ("born_low", "born", "born_high")), strict=True
        ):
            assert low <= middle <= high

    def test_the_middle_of_times_keeps_its_zone_and_a_box_without_values_has_none(self):
        zone = pa.timestamp("us", tz="Europe/Berlin")
        ends = pa.array([0, None, 10], pa.int64()).cast(zone)
        boxes = sf.read_release(pa.table({"t_low": ends, "t_high": ends, "t_missing": [0, 1, 0]}))
        frame = boxes.to_arrow(midpoints=True)
        assert frame.schema.field("t").type == zone
        assert frame["t"].to_pylist() == ends.to_pylist()
        assert "t_missing" in frame.column_names

    def test_a_column_that_has_the_name_already_is_not_covered(self):
        boxes = sf.read_release({"x": [1.0], "x_low": [1.0], "x_high": [2.0]})
        assert boxes.to_pandas(midpoints=True).to_dict("list") == {"x": [1.0], "x_low": [1.0], "x_high": [2.0]}

    def test_polars_gives_the_same(self, release):
        frame = release.to_polars(midpoints=True)
        assert frame["born"].dtype == pl.Date
        assert frame["level"].dtype == pl.Enum(LEVELS)
        assert frame["age"].to_list() == release.to_pandas(midpoints=True)["age"].tolist()


class TestKinds:
    @pytest.mark.parametrize("name", sorted(METHODS))
    def test_ordered_categories_stay_ordered_and_booleans_boolean_also_from_disk(self, people, name, tmp_path):
        options = {"k": 4} if "k" in method_class(name).__dataclass_fields__ else {}
        if name == "private-sample":
            options["delta"] = 0.01  # a smaller one would suppress all of these few rows
        release = make_method(name, **options).release(people, schema=ROLES)
        if method_class(name).is_private:
            return  # its cells are sets of categories, in noisy boxes
        for read in (release, sf.read_release(release.write(tmp_path / "out"))):
            frame = read.to_pandas()
            if name == "private-sample":  # generalizes every column to nodes
                assert set(frame["level"]) == {"*"}
            elif "level" in frame:
                assert frame["level"].cat.ordered
                assert [level for level in LEVELS if level in set(frame["level"])] == list(
                    frame["level"].cat.categories
                )
            if "member" in frame:
                assert frame["member"].dtype == bool
            if name == "private-sample":
                assert set(frame["city"]) == {"*"}
            elif "city" in frame:
                assert set(frame["city"].astype(str)) <= {"Ulm", "Rom", "Ulm|Rom", "Rom|Ulm", "nan"}, "labels are kept"

    def test_a_quasi_identifier_that_was_not_merged_keeps_its_order(self, people):
        roles = {"level": "quasi", "member": "quasi", **dict.fromkeys(["age", "born", "city"], "identifier")}
        frame = sf.Boxes(k=2).release(people, schema=roles).to_pandas()
        assert list(frame["level"].cat.categories) == LEVELS
        assert frame["member"].dtype == bool

    def test_sets_stay_text(self, people):
        roles = {"level": "quasi", "age": "quasi", **dict.fromkeys(["born", "city", "member"], "identifier")}
        release = sf.Boxes(k=30).release(people, schema=roles)
        assert any("|" in cell for cell in release.to_arrow()["level"].to_pylist())


class TestNotebooks:
    def test_a_table_shows_names_and_kinds_and_no_cell(self):
        table = sf.Table.from_arrow(pa.table({"<b>": ["CANARY", "x"], "age": [987654, 2]}))
        shown = table._repr_html_()
        assert "&lt;b&gt;" in shown
        assert "2 rows × 2 columns" in shown
        assert "whole" in shown
        assert "CANARY" not in shown
        assert "987654" not in shown

    def test_a_release_shows_its_promises_and_columns(self, release):
        shown = release._repr_html_()
        assert "5-anonymous in age, born, city" in shown
        assert "<td>age_low</td><td>whole</td>" in shown
        assert "Ulm" not in shown
