"""Sets of more names than allowed are released as any value, and every statement about them stays true."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.plan.claims.containment import AtMostNames, Containment
from sfumato.plan.plan import Evidence
from sfumato.release.read import verify_bundle
from sfumato.table.intervals import ANY, parse_set
from sfumato.table.table import Table

CITIES = [None, "Ulm", "Rom", "Bonn", "a|b", "(any)", "(missing)", "\\", "Ulm ", "Wien", "0", "1"]
ROLES = {"x": "quasi", "city": "quasi"}


@st.composite
def people(draw) -> Table:
    """Numbers and cities, among them some that are spelled as sets are."""
    cities = draw(st.lists(st.sampled_from(CITIES), min_size=1, max_size=8, unique=True))
    rows = draw(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(cities)), min_size=8, max_size=40))
    numbers, words = zip(*rows, strict=True)
    return Table.from_arrow(pa.table({"x": pa.array(numbers, pa.int64()), "city": pa.array(words, pa.string())}))


def quoted(city: str) -> str:
    return '"' + city.replace('"', '""') + '"'


def conditions(cities: list[str | None]) -> dict[str, list[bool]]:
    """Conditions in words, and the rows that meet them."""
    found = {"city = (missing)": [city is None for city in cities]}
    found["city != (missing)"] = [city is not None for city in cities]
    for name in {*cities, "nowhere"} - {None}:
        found[f"city = {quoted(name)}"] = [city == name for city in cities]
        found[f"city != {quoted(name)}"] = [city is not None and city != name for city in cities]
    return found


@settings(max_examples=80)
@given(people(), st.integers(2, 8), st.sampled_from([1, 2, 5]), st.booleans())
def test_the_truth_lies_in_every_estimate(table, k, most, with_manifest):
    numbers, cities = table.numbers("x"), table.arrow["city"].to_pylist()
    assume(not {*cities} <= {"0", "1", None})  # these are read as numbers
    release = sf.Boxes(k=k, l=1, set_names=most).release(table, schema=ROLES)
    read = release if with_manifest else sf.read_release(release.table)
    for condition, meets in conditions(cities).items():
        count = read.estimate(f"count({condition})")
        assert count.low <= sum(meets) <= count.high, condition
        assert count.low <= count.value <= count.high
        if any(meets):
            mean, truth = read.estimate(f"mean(x | {condition})"), float(numbers[meets].mean())
            assert mean.low - 1e-9 <= truth <= mean.high + 1e-9, condition
            assert not math.isnan(mean.value)


def shown(release: sf.Release) -> list[tuple]:
    """What each row shows, apart from the number of its box."""
    names = [name for name in ("x", "x_low", "x_high") if name in release.table.kinds]
    columns = (release.table.arrow[name].to_pylist() for name in (names[0], names[-1], "city"))
    return [(low, high, parse_set(cell)) for low, high, cell in zip(*columns, strict=True)]


@settings(max_examples=60)
@given(people(), st.integers(2, 8), st.sampled_from([1, 2, 5]))
def test_only_sets_above_the_limit_change(table, k, most):
    free, short = (sf.Boxes(k=k, l=1, set_names=limit).release(table, schema=ROLES, seed=1) for limit in (None, most))

    def cut(members):
        names = [one for one in members if one is not None]
        return members if len(names) <= most else (ANY, *[None] * (None in members))

    is_limited = len({*table.arrow["city"].to_pylist()} - {None}) > 2
    expected = [(low, high, cut(members) if is_limited else members) for low, high, members in shown(free)]
    assert sorted(shown(short), key=str) == sorted(expected, key=str)


class TestClaims:
    original = Table.from_arrow(pa.table({"c": ["a", "b", "(any)", None]}))

    def evidence(self, *cells: str | None) -> Evidence:
        return Evidence(Table.from_arrow(pa.table({"c": pa.array(cells, pa.string())})), self.original, np.arange(4))

    def test_any_value_contains_every_value_but_the_missing_one(self):
        claim = Containment(columns=("c",))
        assert claim.measure(self.evidence("(any)", "(any)", "(any)", None)).held
        assert claim.measure(self.evidence("(any)", "(any)", "\\(any)", "(any)|(missing)")).held
        assert not claim.measure(self.evidence("(any)", "(any)", "(any)", "(any)")).held
        assert not claim.measure(self.evidence("\\(any)", "(any)", "(any)", None)).held

    def test_a_set_of_too_many_names_is_found(self):
        claim = AtMostNames(most=1, columns=("c",))
        finding = claim.measure(self.evidence("(any)", "(any)", "b|(missing)", "(any)|(missing)"))
        assert finding.held
        assert finding.found == "at most 1; (any) in 'c' (3 rows)"
        broken = claim.measure(self.evidence("(any)", "a|b", "b", None))
        assert not broken.held
        assert broken.found == "more in 'c' (1 row)"


DRAW = np.random.default_rng(5)
CODES = {"x": DRAW.normal(size=400), "code": [f"c{number:03d}" for number in DRAW.integers(0, 300, 400)]}
CODE_ROLES = {"x": "quasi", "code": "quasi"}


class TestReleases:
    def test_many_codes_are_any_value_and_the_manifest_says_so(self, tmp_path):
        release = sf.Boxes(k=100).release(CODES, schema=CODE_ROLES)
        assert set(release.table.arrow["code"].to_pylist()) == {"(any)"}
        assert release.manifest.options["set_names"] == 50
        promise = next(finding for finding in release.manifest.findings if "names" in finding.claim)
        assert promise.claim.startswith("at most 50 names in each set of code; a set of more is (any)")
        assert promise.found == "at most 0; (any) in 'code' (400 rows)"
        checked = verify_bundle(release.write(tmp_path / "out"))
        assert checked.holds
        assert promise.claim in {finding.claim for finding in checked.recounted}
        again = sf.read_release(tmp_path / "out")
        assert (again.estimate("count(code = c001)").low, again.estimate("count(code = c001)").high) == (0, 400)
        assert again.estimate("count(code = (missing))").high == 0

    def test_a_limit_in_the_manifest_that_the_rows_exceed_is_noticed(self, tmp_path):
        folder = sf.Boxes(k=5).release(CODES, schema=CODE_ROLES).write(tmp_path / "out")
        text = (folder / "manifest.json").read_text()
        (folder / "manifest.json").write_text(text.replace('"most": 50', '"most": 2'))
        assert json.loads(text) != json.loads((folder / "manifest.json").read_text())
        broken = verify_bundle(folder).broken
        assert [finding.found.split(" (")[0] for finding in broken] == ["more in 'code'"]

    def test_a_column_of_few_names_has_no_promise(self):
        release = sf.Boxes(k=100).release(CODES | {"code": ["a", "b"] * 200}, schema=CODE_ROLES)
        assert not any("names" in finding.claim for finding in release.manifest.findings)
        assert set(release.table.arrow["code"].to_pylist()) <= {"a|b", "b|a", "a", "b"}

    def test_the_report_calls_it_of_little_use(self):
        from sfumato.report.usefulness import column_spreads

        assert column_spreads(sf.Boxes(k=100).release(CODES, schema=CODE_ROLES))["code"] == 1.0
        assert column_spreads(sf.Boxes(k=5).release(CODES, schema=CODE_ROLES))["code"] < 0.05

    @pytest.mark.parametrize("limit", [0, -1, 2.5, "many"])
    def test_a_limit_is_a_number_of_names(self, limit):
        with pytest.raises(sf.SfumatoError, match="set_names"):
            sf.Boxes(k=5, set_names=limit)
