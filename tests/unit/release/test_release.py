"""A release from the table to the analyst, by a small method of the tests' own."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.same_rows import same_rows

import sfumato as sf
from sfumato.errors import (
    CannotRelease,
    GuaranteeNotMet,
    OptionError,
    ReadError,
    RequestError,
    SchemaError,
    StatisticError,
    TableError,
)
from sfumato.release.manifest import FORMAT, Manifest
from sfumato.release.read import verify_bundle
from sfumato.table.table import Table


class TestWhatIsReleased:
    def test_identifiers_are_removed_and_the_roles_are_reported(self, released):
        assert released.table.names == ("age_low", "age_high", "box", "income", "illness")
        assert [column.role for column in released.manifest.columns] == ["identifier", "quasi", "sensitive", "other"]

    def test_every_promise_was_measured(self, released):
        assert [finding.held for finding in released.findings] == [True, True, True]
        assert released.findings[0].claim == "5-anonymous in age"
        assert "60 rows in, 60 out, 0 suppressed" in released.findings[2].found

    def test_a_broken_promise_raises(self, ranks, people, roles):
        with pytest.raises(GuaranteeNotMet, match=r"6-anonymous in age.*smallest group"):
            ranks(k=5, promised=6).release(people, schema=roles)

    def test_rows_are_in_random_order(self, ranks, people, roles):
        first, again = (ranks(k=5).release(people, schema=roles).table.to_pandas() for _ in range(2))
        assert not first["income"].equals(again["income"])
        assert sorted(first["income"]) == sorted(again["income"]) == sorted(people.to_pandas()["income"])
        assert np.corrcoef(first["box"], first["age_low"])[0, 1] < 0.9  # the method numbers boxes by age

    def test_a_seed_repeats_the_rows_but_neither_their_order_nor_the_numbers_of_boxes(self, ranks, people, roles):
        first, again = (ranks(k=5).release(people, schema=roles, seed=1).table for _ in range(2))
        assert same_rows(first.arrow, again.arrow)
        assert first.numbers("income").tolist() != again.numbers("income").tolist()
        boxes = [dict(zip(table.numbers("income"), table.numbers("box"), strict=True)) for table in (first, again)]
        assert boxes[0] != boxes[1]

    def test_a_seed_is_said_to_be_a_secret(self, ranks, people, roles):
        with pytest.warns(sf.SfumatoWarning, match="A seed is a secret") as caught:
            ranks(k=5).release(people, schema=roles, seed=1)
        assert [warning.filename for warning in caught] == [__file__], "it points to the line of the user"

    def test_boxes_of_different_blocks_stay_apart(self, ranks, people, roles):
        table = ranks(k=5, blocks=3).release(people, schema=roles).table.to_pandas()
        assert table.groupby("box").size().tolist() == [5] * 12
        assert (table.groupby("box")[["age_low", "age_high"]].nunique() == 1).all().all()

    def test_what_is_suppressed_leaves_no_trace(self, ranks, roles):
        rows = 20
        people = Table.from_arrow(
            pa.table(
                {
                    "name": ["x"] * rows,
                    "age": list(range(rows)),
                    "income": [1.0] * rows,
                    "illness": pa.array(["CANARY"] + ["flu"] * (rows - 1)).dictionary_encode(),
                }
            ).replace_schema_metadata({"origin": "CANARY"})
        )
        released = ranks(k=2, suppress=0.05).release(people, schema=roles)
        assert released.table.rows == 19
        assert released.table.arrow.column("illness").chunk(0).dictionary.to_pylist() == ["flu"]
        assert not released.table.arrow.schema.metadata


class TestWhatIsRefused:
    def test_no_rows(self, ranks):
        with pytest.raises(TableError, match="must have rows"):
            ranks().release(pa.table({"age": pa.array([], pa.float64())}))

    def test_no_quasi_identifier(self, ranks, people):
        with pytest.raises(SchemaError, match="At least one column must be a quasi-identifier"):
            ranks().release(people, schema=dict.fromkeys(people.names, "other"))

    def test_infinite_numbers(self, ranks):
        with pytest.raises(TableError, match="finite"):
            ranks().release(pa.table({"age": [1.0, np.inf, 3.0]}), schema={"age": "quasi"})

    def test_a_release_without_rows(self, ranks):
        with pytest.raises(CannotRelease, match="At least one row"):
            ranks(suppress=1.0).release(pa.table({"age": [1.0, 2.0, 3.0]}), schema={"age": "quasi"})

    def test_a_seed_that_is_no_whole_number(self, ranks, people):
        with pytest.raises(OptionError, match="seed"):
            ranks().release(people, seed=0.5)


class TestManifest:
    def test_goes_to_json_and_back(self, released):
        assert Manifest.from_json(released.manifest.to_json()) == released.manifest

    def test_shows_reported_options_and_no_others(self, released):
        assert released.manifest.options == {"k": 5, "suppress": 0.0, "keep": ["mean(age)"]}
        assert "CANARY" not in released.manifest.to_json(), "a note that was not declared"
        assert "774411" not in released.manifest.to_json()
        assert "777" not in released.manifest.to_json()

    def test_shows_counts_and_kept_statistics(self, released):
        written = json.loads(released.manifest.to_json())
        assert (written["rows_in"], written["rows_out"], written["suppressed"]) == (60, 60, 0)
        assert written["keep"] == ["mean(age)"]
        assert written["notes"] == {"groups of": 5}
        assert written["released"][0] == {"name": "age_low", "kind": "continuous"}

    def test_statistics_given_as_objects_are_written_as_text(self, ranks, people, roles):
        released = ranks(k=5, keep=(sf.Mean("age"),)).release(people, schema=roles)
        assert released.manifest.keep == ("mean(age)",)
        assert released.manifest.options["keep"] == ["mean(age)"]

    @pytest.mark.parametrize("text", ["", "CANARY", "[]", "{}", '{"format": 1, "columns": ["CANARY"]}'])
    def test_other_text_is_refused_and_not_quoted(self, text):
        with pytest.raises(ReadError) as refused:
            Manifest.from_json(text)
        assert "CANARY" not in str(refused.value)
        assert refused.value.__context__ is None

    def test_a_newer_format_is_named(self):
        with pytest.raises(ReadError, match=f"format {FORMAT + 1}"):
            Manifest.from_json(json.dumps({"format": FORMAT + 1}))


class TestEstimates:
    def test_the_truth_lies_in_the_interval(self, released, people):
        estimate = released.estimate("mean(age)")
        assert estimate.low <= people.numbers("age").mean() <= estimate.high
        assert estimate.high > estimate.low

    def test_columns_that_are_released_unaltered_are_exact(self, released, people):
        estimate = released.estimate(sf.Mean("income"))
        assert estimate.value == pytest.approx(people.numbers("income").mean())
        assert estimate.high - estimate.low == pytest.approx(0.0, abs=1e-6 * estimate.value)

    def test_a_regression_gives_one_estimate_per_coefficient(self, released):
        estimates = released.estimate("regress(income ~ age)")
        assert [estimate.name for estimate in estimates] == [
            "regress(income ~ age): intercept",
            "regress(income ~ age): age",
        ]

    def test_an_unknown_column_is_named(self, released):
        with pytest.raises(StatisticError, match="agee"):
            released.estimate("mean(agee)")

    def test_weights_are_used_where_a_column_has_that_role(self, ranks, people):
        roles = {"name": "identifier", "age": "quasi", "income": "weight", "illness": "other"}
        released = ranks(k=5).release(people, schema=roles)
        ages, weights = people.numbers("age"), people.numbers("income")
        estimate = released.estimate("mean(age)")
        assert estimate.low <= np.average(ages, weights=weights) <= estimate.high
        assert estimate.value != pytest.approx(ranks(k=5).release(people, schema=roles).table.numbers("age_low").mean())

    def test_the_optimality_of_a_release_that_has_none_is_refused(self, released):
        with pytest.raises(RequestError, match="known only in the process that made it"):
            released.optimality()


class TestWhoseStatisticItIs:
    """Weights, suppressed rows and missing manifests are named beside each estimate."""

    def test_an_estimate_names_its_weights_and_can_do_without(self, ranks, people):
        roles = {"name": "identifier", "age": "quasi", "income": "weight", "illness": "other"}
        released = ranks(k=5).release(people, schema=roles)
        weighted, unweighted = released.estimate("mean(age)"), released.estimate("mean(age)", unweighted=True)
        assert (weighted.weighted_by, unweighted.weighted_by) == ("income", None)
        assert "weighted by income" in str(weighted)
        assert "unweighted" in str(unweighted)
        assert unweighted.low <= people.numbers("age").mean() <= unweighted.high
        assert released.estimate("count()", unweighted=True).value == 60

    def test_a_file_read_without_its_manifest_says_that_weights_are_not_used(self, ranks, people, tmp_path):
        roles = {"name": "identifier", "age": "quasi", "income": "weight", "illness": "other"}
        folder = ranks(k=5).release(people, schema=roles).write(tmp_path / "out")
        file = shutil.copy(folder / "released.csv", tmp_path / "alone.csv")
        alone = sf.read_release(file).estimate("mean(age)")
        assert alone.weighted_by is None
        assert alone.of == "released rows"
        assert any("weights" in note for note in alone.notes)
        assert sf.read_release(folder).estimate("mean(age)").notes == ()

    def test_without_suppression_it_is_the_original(self, released):
        assert released.estimate("mean(age)").of == "original"
        assert released.estimate("mean(age)").notes == ()

    def test_with_suppression_a_mean_is_that_of_the_released_rows(self, ranks, people, roles):
        estimate = ranks(k=5, suppress=0.1).release(people, schema=roles).estimate("mean(age)")
        assert estimate.of == "released rows"
        assert estimate.notes == ("6 suppressed rows are not covered",)
        assert "of the released rows" in str(estimate)

    def test_with_suppression_counts_and_quantiles_cover_the_original(self, ranks, people, roles):
        released, ages = ranks(k=5, suppress=0.1).release(people, schema=roles), people.numbers("age")
        for words, true in (
            ("count()", 60),
            (f"count(age <= {np.median(ages)})", (ages <= np.median(ages)).sum()),
            ("median(age)", np.median(ages)),
        ):
            estimate = released.estimate(words)
            assert estimate.of == "original"
            assert estimate.low <= true <= estimate.high
        assert released.estimate("count()").low == released.estimate("count()").high == 60
        assert released.estimate("quantile(age, 0.01)").low == -np.inf

    def test_a_known_domain_covers_the_suppressed_rows(self, ranks, people, roles):
        released, ages = ranks(k=5, suppress=0.1).release(people, schema=roles), people.numbers("age")
        domain = {"age": (ages.min(), ages.max())}
        for words, true in (("mean(age)", ages.mean()), ("sd(age)", ages.std()), ("sum(age)", ages.sum())):
            estimate = released.estimate(words, domain=domain)
            assert estimate.of == "original"
            assert estimate.low <= true <= estimate.high
            assert np.isfinite(estimate.high)
        assert released.estimate("mean(age)").low > ages.mean()  # the lowest ages were suppressed
        assert released.estimate("mean(income)", domain=domain).of == "released rows"

    def test_a_domain_that_the_custodian_declared_covers_them_too(self, ranks, people, roles, tmp_path):
        ages = people.numbers("age")
        declared = roles | {"age": {"role": "quasi", "domain": [0, 200]}}
        folder = ranks(k=5, suppress=0.1).release(people, schema=declared).write(tmp_path / "out")
        estimate = sf.read_release(folder).estimate("mean(age)")
        assert estimate.of == "original"
        assert estimate.low <= ages.mean() <= estimate.high
        narrower = sf.read_release(folder).estimate("mean(age)", domain={"age": (0, 100)})
        assert narrower.high < estimate.high

    @pytest.mark.parametrize("domain", [{"age": (1, 0)}, {"age": (0, np.inf)}, {"age": 3}, {"age": ("a", "b")}])
    def test_a_domain_must_be_two_numbers(self, released, domain):
        with pytest.raises(OptionError, match="domain of column 'age' must be two finite numbers"):
            released.estimate("mean(age)", domain=domain)

    def test_a_domain_of_an_unknown_column_is_refused(self, released):
        with pytest.raises(StatisticError, match="agee"):
            released.estimate("mean(age)", domain={"agee": (0, 1)})

    def test_weights_of_suppressed_rows_are_not_known(self, ranks, people):
        roles = {"name": "identifier", "age": "quasi", "income": "weight", "illness": "other"}
        released = ranks(k=5, suppress=0.1).release(people, schema=roles)
        assert released.estimate("count()").of == "released rows"
        assert released.estimate("count()", unweighted=True).of == "original"


class TestCellsThatLookLikeSets:
    VALUES = np.random.default_rng(0).choice(["asthma", "COPD", "asthma|COPD"], 60)

    @pytest.mark.parametrize(
        ("words", "count"),
        [
            ('count(diag = "asthma|COPD")', (VALUES == "asthma|COPD").sum()),
            ("count(diag != asthma)", (VALUES != "asthma").sum()),
            ("count(diag = asthma)", (VALUES == "asthma").sum()),
        ],
    )
    def test_only_columns_that_the_manifest_calls_sets_are_parsed(self, words, count, tmp_path):
        people = pd.DataFrame({"age": np.arange(60), "diag": self.VALUES})
        released = sf.Boxes(k=5, l=1).release(people, schema={"age": "quasi", "diag": "sensitive"}, seed=1)
        assert released.manifest.sets == ()
        exact = sf.read_release(released.write(tmp_path / "out")).estimate(words)
        assert exact.low == exact.high == count
        bare = sf.read_release(released.table.to_pandas()).estimate(words)
        assert bare.low <= count <= bare.high

    def test_a_generalized_column_is_a_set_whatever_its_values_look_like(self):
        people = pd.DataFrame({"age": np.arange(60) % 3, "diag": self.VALUES})
        released = sf.Boxes(k=7, l=1).release(people, schema={"age": "quasi", "diag": "quasi"}, seed=1)
        assert released.manifest.sets == ("diag",)
        for bare in (released, sf.read_release(released.table.to_pandas())):
            for value in ("asthma", "COPD", "asthma|COPD"):
                one = bare.estimate(f"count(diag = '{value}')")
                assert one.low <= list(self.VALUES).count(value) <= one.high


def test_rows_without_numbered_boxes_are_not_falsely_certain():
    x = np.r_[np.full(40, 1.0), np.full(40, 2.0)]
    x[[*range(0, 40, 4), 41, 42, 43]] = np.nan
    people = pd.DataFrame({"x": x, "c": np.tile(["p", "q"], 40)})
    released = sf.Boxes(k=5, l=1).release(people, schema={"x": "quasi", "c": "quasi"}, seed=1)
    bare = sf.read_release(released.table.to_pandas().drop(columns="box"))
    for words, true in (("mean(x)", np.nanmean(x)), ("count(x = (missing))", np.isnan(x).sum())):
        one = bare.estimate(words)
        assert one.low - 1e-12 <= true <= one.high + 1e-12


class TestReading:
    def test_a_folder_gives_the_same_release_back(self, released, tmp_path):
        released.write(tmp_path / "out")
        read = sf.read_release(tmp_path / "out")
        assert read.manifest == released.manifest
        assert read.table.arrow.equals(released.table.arrow)
        assert read.table.kinds == released.table.kinds
        assert read.estimate("mean(age)") == released.estimate("mean(age)")

    def test_a_plain_frame_needs_neither_manifest_nor_schema(self):
        frame = pd.DataFrame({"x_low": [1.0, 3.0], "x_high": [2.0, 5.0]}, index=[7, 7])
        estimate = sf.read_release(frame).estimate("mean(x)")
        assert (estimate.low, estimate.high) == pytest.approx((2.0, 3.5))
        assert estimate.records == 2

    def test_a_plain_file_too(self, tmp_path):
        (tmp_path / "boxes.csv").write_text("x_low,x_high\n1,2\n3,5\n")
        assert sf.read_release(tmp_path / "boxes.csv").estimate("mean(x)").value == pytest.approx(2.75)

    def test_a_frame_without_a_manifest_cannot_be_written(self, tmp_path):
        with pytest.raises(RequestError, match="manifest"):
            sf.read_release(pd.DataFrame({"x_low": [1.0], "x_high": [2.0]})).write(tmp_path / "out")

    def test_a_folder_without_a_release_is_refused(self, tmp_path):
        with pytest.raises(ReadError, match="must contain a release"):
            sf.read_release(tmp_path)

    def test_the_error_tells_a_file_a_folder_and_nothing_apart(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "rows.csv").write_text("a\n1\n")
        for place, words in ((".", tmp_path.name), ("rows.csv", "a file, not a folder"), ("out", "there is no folder")):
            with pytest.raises(ReadError, match=words):
                verify_bundle(place)

    def test_rows_that_are_not_those_of_the_manifest_are_refused(self, released, ranks, people, roles, tmp_path):
        folder = released.write(tmp_path / "out")
        other = ranks(k=5, suppress=0.1).release(people, schema=roles).write(tmp_path / "other")
        (other / "released.parquet").replace(folder / "released.parquet")
        with pytest.raises(ReadError, match="54 rows"):
            sf.read_release(folder)

    def test_an_empty_frame_is_refused(self):
        with pytest.raises(TableError, match="rows"):
            sf.read_release(pd.DataFrame({"x_low": [], "x_high": []}))


def test_the_repr_shows_shape_method_and_promises(released):
    assert repr(released) == "Release(60 rows × 5 columns, ranks; 5-anonymous in age)"
    noisy = sf.Noise().release({"x": np.arange(50.0)}, schema={"x": "quasi"})
    assert repr(noisy) == "Release(50 rows × 1 columns, noise; no guarantee)"
    assert repr(sf.Release(released.table)) == "Release(60 rows × 5 columns, without a manifest)"


class TestAlteredColumns:
    def test_nothing_certain_follows_from_weights_that_were_altered(self):
        people = {"x": ["a", "b"] * 10, "y": np.arange(20.0), "w": np.linspace(1.0, 9.0, 20)}
        noisy = sf.Noise(level=0.5).release(people, schema={"x": "quasi", "y": "quasi", "w": "weight"}, seed=1)
        assert noisy.estimate("count()").low == -np.inf
        assert noisy.estimate("count()", unweighted=True).low == 20

    def test_nothing_certain_follows_from_ranges_that_are_left_empty(self):
        """A few values are released as missing, so that missing ones do not stand out: they are not missing."""
        people = {"x": [1.0, 2.0, *[None] * 10], "y": [*range(12)]}
        release = sf.Quantiles(k=3, represent="range").release(people, schema={"x": "quasi", "y": "quasi"})
        assert release.table.arrow.column("x_low").null_count == 12
        assert release.manifest.altered == ("x",)
        assert release.estimate("count(x <= 2)").high == np.inf
        assert release.estimate("mean(y)").low <= 5.5 <= release.estimate("mean(y)").high < np.inf

    def test_nothing_certain_follows_from_a_column_that_was_altered(self):
        people = pd.DataFrame(np.random.default_rng(1).normal(size=(300, 3)), columns=["x", "y", "z"])
        noisy = sf.Noise().release(people, seed=1)
        assert set(noisy.manifest.altered) == {"x", "y", "z"}
        assert noisy.estimate("mean(x)").low == -np.inf
        boxed = sf.Boxes(k=5).release(people, schema={"z": "other"}, seed=1)
        assert boxed.manifest.altered == ()
        assert boxed.estimate("mean(z)").low == pytest.approx(people.z.mean())

    def test_the_manifest_keeps_their_names(self, tmp_path):
        people = pd.DataFrame(np.random.default_rng(1).normal(size=(60, 2)), columns=["x", "y"])
        folder = sf.SvdSwap().release(people, seed=1).write(tmp_path / "out")
        assert sf.read_release(folder).estimate("median(x)").high == np.inf


class TestWarnings:
    """Python says what the command line says: what was suggested, and what was removed."""

    def test_a_column_that_was_removed_without_having_been_asked_for_is_named(self, ranks, people):
        with pytest.warns(sf.SfumatoWarning, match="look like identifiers: 'name'") as caught:
            ranks(k=5).release(people, schema={"age": "quasi", "income": "other", "illness": "other"})
        assert len(caught) == 1
        assert "Roles were suggested" not in str(caught[0].message), "those of the other columns were given"

    def test_without_a_schema_all_roles_are_named_once(self, ranks, people):
        with pytest.warns(sf.SfumatoWarning, match="'age' quasi, 'income'") as caught:
            ranks(k=5).release(people)
        assert len(caught) == 1

    def test_with_all_roles_there_is_nothing_to_say(self, ranks, people, roles, recwarn):
        ranks(k=5).release(people, schema=roles)
        assert not recwarn.list

    def test_a_release_that_is_assessed_says_it_once_too(self, people):
        with pytest.warns(sf.SfumatoWarning, match="look like identifiers") as caught:
            sf.release_and_assess(sf.Noise(), people)
        assert len(caught) == 1


def test_low_memory_is_an_error_of_ours(ranks, people, roles, monkeypatch):
    def exhausted(*_):
        raise pa.ArrowMemoryError("malloc of size 1 failed")

    monkeypatch.setattr("sfumato.engines.memory.engine.finish_rows", exhausted)
    with pytest.raises(sf.SfumatoError, match="enough memory") as raised:
        ranks(k=5).release(people, schema=roles)
    assert raised.value.exit_code == 3
    assert raised.value.__context__ is None
