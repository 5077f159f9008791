"""What every method must do, unasked: each word of the registry is held to it."""

from __future__ import annotations

import warnings
from dataclasses import FrozenInstanceError, fields, is_dataclass

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import OptionError, SfumatoError
from sfumato.methods.base import METHODS, make_method, method_class
from sfumato.table.table import Table
from tests.conformance.control import CASES
from tests.same_rows import same_rows

ROWS = 120
# what a method cannot do without; k is asked for by those who have it
NEEDED = {"k": 4}
NOT_DIVERSE = ("optimal-groups", "quantiles", "curves")  # no groups of whole rows, or groups with one value of all


def options_of(word: str) -> dict[str, float]:
    needed = NEEDED | ({"l": 1} if word in NOT_DIVERSE else {})
    needed |= {"delta": 0.01} if word == "private-sample" else {}  # its groups of about 60 rows are never too small
    return {field.name: needed[field.name] for field in fields(method_class(word)) if field.name in needed}


@pytest.fixture(params=list(CASES))
def method(request):
    word, options = CASES[request.param]
    return make_method(word, **options_of(word), **options)


@pytest.fixture(scope="module")
def mixed() -> Table:
    """Numbers, whole numbers, categories, days, booleans and missing cells."""
    numbers = np.random.default_rng(12)
    income = numbers.lognormal(10, 1, ROWS)
    income[:3] = np.nan
    return Table.from_arrow(
        pa.table(
            {
                "name": [f"person {row}" for row in range(ROWS)],
                "age": numbers.integers(18, 90, ROWS),
                "income": pa.array(income, from_pandas=True),
                "city": pa.array(numbers.choice(["Ulm", "Rom", "Oslo", None], ROWS).tolist()),
                "born": pa.array(numbers.integers(0, 9000, ROWS).astype("int32")).cast(pa.date32()),
                "member": numbers.random(ROWS) < 0.5,
                "illness": numbers.choice(["flu", "cold", "none"], ROWS),
            }
        )
    )


@pytest.fixture(scope="module")
def weighted(mixed) -> Table:
    """The same people, each with a sampling weight that nobody else has."""
    weight = np.random.default_rng(3).permutation(ROWS) * 1000.0 + 0.5
    return Table.from_arrow(mixed.arrow.append_column("stands_for", pa.array(weight)))


ROLES = {
    "name": "identifier",
    "age": "quasi",
    "income": "quasi",
    "city": "quasi",
    "born": "quasi",
    "member": "quasi",
    "illness": "sensitive",
}


@pytest.mark.parametrize("word", sorted(METHODS))
class TestOptions:
    def test_are_frozen_and_given_by_name(self, word):
        kind = method_class(word)
        assert kind.name == word
        assert is_dataclass(kind)
        assert all(field.kw_only for field in fields(kind))
        made = make_method(word, **options_of(word))
        with pytest.raises(FrozenInstanceError):
            made.name = "another"

    def test_equal_options_make_equal_methods(self, word):
        assert make_method(word, **options_of(word)) == make_method(word, **options_of(word))

    def test_an_option_that_it_does_not_have_is_named(self, word):
        with pytest.raises(OptionError, match="'no_such_option'"):
            make_method(word, no_such_option=1)

    @pytest.mark.parametrize("k", [0, -3, 2.5, "two", None, True])
    def test_a_k_that_is_none_is_refused(self, word, k):
        if "k" not in options_of(word):
            pytest.skip("the method has no k")
        with pytest.raises(OptionError, match="k"):
            make_method(word, k=k)


class TestReleases:
    def test_a_mixed_table_is_released_and_every_promise_kept(self, method, mixed):
        release = method.release(mixed, schema=ROLES, seed=1)
        assert release.findings
        assert all(finding.held for finding in release.findings)
        counted = any("rows in" in finding.found for finding in release.findings)
        # a promise that covers every output forbids to tell the number of original rows
        assert counted != release.manifest.covers_every_output, "rows must be accounted for"

    def test_identifiers_never_leave(self, method, mixed):
        assert not [name for name in method.release(mixed, schema=ROLES).table.names if name.startswith("name")]

    def test_the_same_seed_gives_the_same_rows(self, method, mixed):
        first, again = (method.release(mixed, schema=ROLES, seed=7).table.arrow for _ in range(2))
        assert same_rows(first, again)

    def test_even_with_a_seed_their_order_is_that_of_no_one_who_knows_it(self, method, mixed):
        first, again = (method.release(mixed, schema=ROLES, seed=7).table.arrow for _ in range(2))
        assert not first.equals(again)

    def test_without_a_seed_the_order_differs(self, method, mixed):
        first, again = (method.release(mixed, schema=ROLES).table.arrow for _ in range(2))
        assert not first.equals(again)

    def test_the_order_of_rows_does_not_follow_the_original(self, method, mixed):
        illness = method.release(mixed, schema=ROLES, seed=3).table.arrow.column("illness").to_pylist()
        assert illness != mixed.arrow.column("illness").to_pylist()[: len(illness)]

    def test_the_original_is_not_changed(self, method, mixed):
        before = mixed.arrow.equals(pa.table(mixed.arrow.to_pydict(), schema=mixed.arrow.schema))
        method.release(mixed, schema=ROLES)
        assert before
        assert mixed.arrow.equals(pa.table(mixed.arrow.to_pydict(), schema=mixed.arrow.schema))

    def test_it_is_written_and_read_back(self, method, mixed, tmp_path):
        from sfumato.release.read import read_release

        release = method.release(mixed, schema=ROLES)
        folder = release.write(tmp_path / "out")
        assert read_release(folder).table.arrow.equals(release.table.arrow)
        assert (folder / "released.csv").read_text().count("\n") == release.table.rows + 1


def tells_age(release) -> bool:
    """Whether ages are released as numbers, or ranges, and not all of them are suppressed."""
    if "age" not in release.table.kinds:
        return True
    return release.table.kinds["age"].is_numeric and release.table.arrow.column("age").null_count < release.table.rows


class TestCertainty:
    def test_a_guaranteed_interval_holds_the_truth_or_is_infinite(self, method, mixed):
        """Of the people who leave: a method that alters cells may give a value, but nothing certain follows from it."""
        release = method.release(mixed, schema=ROLES, seed=1)
        if release.table.rows < mixed.rows:
            pytest.skip("the method left rows out, so the statistic is another one")
        truth = float(np.mean(mixed.numbers("age")))
        if "age" in release.names and tells_age(release):
            estimate = release.estimate("mean(age)")
            assert estimate.low <= truth <= estimate.high


class TestSamplingWeights:
    """What a method does to weights is measured, told in the manifest, and never makes a weighted interval wrong."""

    def test_the_rule_is_told_and_unique_weights_are_warned_of(self, method, weighted):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            release = method.release(weighted, schema=ROLES | {"stands_for": "weight"})
        rule, told = release.manifest.sampling_weights, [str(one.message) for one in caught]
        assert rule in ("exact", "box-mean", "altered", "not released")
        exact = [one for one in told if "released exactly, and 120 of 120 rows" in one]
        assert len(exact) == (rule == "exact")
        if rule == "box-mean":
            assert release.to_pandas().groupby("stands_for").size().min() >= NEEDED["k"]

    def test_a_weighted_interval_holds_the_truth_or_is_infinite(self, method, weighted):
        release = method.release(weighted, schema=ROLES | {"stands_for": "weight"})
        if release.table.rows == ROWS and "age" in release.names and tells_age(release):
            found = release.estimate("mean(age)")
            truth = np.average(weighted.numbers("age"), weights=weighted.numbers("stands_for"))
            assert release.weight is None or found.low <= truth <= found.high


BAD = {
    "no rows": pa.table({"age": pa.array([], pa.int64())}),
    "one row": pa.table({"age": [1]}),
    "infinite": pa.table({"age": [1.0, np.inf, 2.0, 3.0, 4.0, 5.0]}),
}
ODD = {
    "constant": pa.table({"age": [1.0] * 10, "city": ["Ulm"] * 10}),
    "all missing": pa.table({"age": pa.nulls(10, pa.float64()), "city": pa.nulls(10, pa.string())}),
    "nearly constant": pa.table({"age": [1.0] * 9 + [2.0]}),
    "two values": pa.table({"city": ["Ulm", "Rom"] * 5}),
    "more columns than rows": pa.table({f"x{i}": np.random.default_rng(i).normal(size=8) for i in range(12)}),
    "awkward names": pa.table({"a b": range(8), "x_low": range(8), "": range(8), "é|,": list("aabbccdd")}),
}


class TestOddTables:
    @pytest.mark.parametrize("name", sorted(BAD))
    def test_a_table_that_cannot_be_released_is_refused_clearly(self, method, name):
        with pytest.raises(SfumatoError):
            method.release(BAD[name], schema=dict.fromkeys(BAD[name].column_names, "quasi"))

    @pytest.mark.parametrize("name", sorted(ODD))
    def test_an_odd_table_is_released_as_promised_or_refused_clearly(self, method, name):
        table = ODD[name]
        try:
            release = method.release(table, schema=dict.fromkeys(table.column_names, "quasi"), seed=1)
        except SfumatoError as refused:
            assert str(refused)
        else:
            told = None if release.manifest.covers_every_output else table.num_rows
            assert release.manifest.rows_in == told
            assert all(finding.held for finding in release.findings)
