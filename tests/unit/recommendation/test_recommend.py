"""Recommendations: the method follows from roles, kinds, size and statistics, and the command does what it says."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import OptionError, SchemaError, StatisticError, TableError
from sfumato.formats.exports import write
from sfumato.recommendation.choice import Preferences, Situation, choose
from sfumato.recommendation.recommend import _k_for
from sfumato.recommendation.records import ExpectedWidth
from sfumato.schema.schema import Schema
from sfumato.statistics.language import parse
from sfumato.table.kinds import Kind

KINDS = {"age": Kind.WHOLE, "income": Kind.CONTINUOUS, "sex": Kind.NOMINAL, "ill": Kind.NOMINAL, "name": Kind.TEXT}


def chosen(roles, rows=1000, keep=(), **wanted):
    table = Situation(rows=rows, schema=Schema.of(roles), kinds=KINDS)
    return choose(table, Preferences(keep=tuple(map(parse, keep)), **wanted))


class TestChoice:
    def test_boxes_for_statistics_that_must_be_kept(self):
        found = chosen({"age": "quasi", "sex": "quasi", "ill": "sensitive"}, keep=["mean(age)"], population=10**6)
        assert (found.method, found.options) == ("boxes", {"k": 5, "l": 2, "keep": ["mean(age)"]})
        assert any("certain to contain" in reason for reason in found.reasons)

    def test_generalize_among_a_population(self):
        found = chosen({"age": "quasi", "sex": "quasi"}, population=10**6)
        assert (found.method, found.options) == ("generalize", {"k": 5, "population": 10**6})

    def test_recode_if_all_have_trees(self):
        trees = {"age": {"role": "quasi", "tree": "steps:5,10"}, "sex": {"role": "quasi", "tree": "prefix"}}
        assert chosen(trees).method == "recode"
        assert chosen(trees | {"sex": "quasi"}).method == "boxes"

    def test_the_optimum_of_a_single_number(self):
        assert chosen({"age": "quasi", "income": "other"}).method == "optimal-groups"
        assert chosen({"age": "quasi", "income": "sensitive"}).method == "boxes"
        assert chosen({"sex": "quasi"}).method == "boxes"

    def test_smaller_groups_in_a_small_table_unless_asked_for(self):
        roles = {"age": "quasi", "sex": "quasi"}
        assert chosen(roles, rows=49).options["k"] == 3
        assert chosen(roles, rows=50).options["k"] == 5
        assert chosen(roles, rows=49, k=7).options["k"] == 7

    def test_l_is_at_most_k(self):
        roles = {"age": "quasi", "sex": "quasi", "ill": "sensitive"}
        assert chosen(roles, k=2, l=4).options == {"k": 2, "l": 2}

    def test_too_many_columns_for_the_rows_are_said(self):
        roles = {"age": "quasi", "sex": "quasi"}
        assert not [reason for reason in chosen(roles, rows=20).reasons if "too few to cut" in reason]
        assert [reason for reason in chosen(roles, rows=9).reasons if "too few to cut" in reason]

    def test_reasons_name_all_roles(self):
        found = " ".join(chosen({"age": "quasi", "sex": "quasi", "ill": "sensitive", "name": "identifier"}).reasons)
        assert "2 quasi-identifiers are protected: age, sex." in found
        assert "1 identifier is removed: name." in found

    def test_nothing_to_protect_is_an_error(self):
        with pytest.raises(SchemaError):
            chosen({"age": "other"})
        with pytest.raises(TableError):
            chosen({"age": "quasi"}, rows=5)


def people(rows=300):
    numbers = np.random.default_rng(2)
    ages = numbers.integers(18, 90, rows)
    return {
        "age": ages,
        "income": 100.0 + 4.0 * ages + numbers.normal(0, 20, rows),
        "sex": numbers.choice(["f", "m"], rows).tolist(),
        "ill": numbers.choice(["flu", "cold", "none"], rows).tolist(),
    }


ROLES = {"age": "quasi", "income": "quasi", "sex": "quasi", "ill": "sensitive"}


class TestCost:
    def test_widths_are_those_of_the_release(self, monkeypatch):
        monkeypatch.setattr("sfumato.randomness.secrets.randbits", lambda _: 1)  # some boxes are joined at random
        found = sf.recommend(people(), ["corr(age, income)"], schema=ROLES, seconds=0)
        real = found.to_method().release(people(), schema=ROLES).estimate("corr(age, income)")
        assert found.cost.tried_rows == 300
        assert found.cost.widths[0].width == pytest.approx(real.high - real.low, rel=0.05)
        assert found.cost.seconds > 0.0

    def test_widths_of_a_large_table_are_foreseen_from_a_part(self, monkeypatch):
        from sfumato.recommendation import records as cost

        monkeypatch.setattr(cost, "TRIED", 1000)
        foreseen = sf.recommend(people(4000), ["mean(income)"], schema=ROLES, k=12, seconds=0).cost
        real = sf.Boxes(k=12, l=2, keep=["mean(income)"]).release(people(4000), schema=ROLES).estimate("mean(income)")
        assert foreseen.tried_rows == 1000
        assert foreseen.widths[0].width == pytest.approx(real.high - real.low, rel=0.5)

    def test_an_unknown_column_is_an_error(self):
        with pytest.raises(StatisticError):
            sf.recommend(people(), ["mean(salary)"], schema=ROLES)


class TestWhatAPersonDecides:
    def test_columns_that_outsiders_may_not_know_are_named_with_what_is_gained(self):
        table = {**people(), "creatinine": people()["income"][::-1] / 1000.0}
        found = sf.recommend(table, ["corr(age, income)"], seconds=0)
        assert found.unknown.columns == ("income", "ill", "creatinine")
        assert "--sensitive income,ill,creatinine" in found.unknown.command
        assert found.unknown.widths[0].width < found.cost.widths[0].width
        assert "You decide: if nobody outside can know income, ill, creatinine" in str(found)

    def test_a_date_is_never_offered_as_unknown(self):
        dates = np.arange(300).astype("datetime64[D]")
        table = {name: cells[:300] for name, cells in people().items()}
        found = sf.recommend({**table, "x": dates}, ["corr(age, income)"], seconds=0)
        assert "x" not in found.unknown.columns

    def test_nothing_is_asked_if_all_roles_were_given(self):
        assert sf.recommend(people(), schema=ROLES, seconds=0).unknown is None

    def test_widths_say_how_useful_they_are(self):
        assert str(ExpectedWidth(statistic="mean(x)", width=2.0, share=0.05)) == "mean(x): about 2 wide (narrow)"
        assert str(ExpectedWidth(statistic="mean(x)", width=2e-12, share=1e-13)) == "mean(x): exact"
        shown = ExpectedWidth(statistic="mean(d)", width=5386.2, share=0.9, unit="days")
        assert str(shown) == "mean(d): about 5,386 days wide (useless)"

    def test_codes_are_named(self):
        zips = [f"0{number:04d}" for number in range(1000, 1030)] * 10
        roles = {"age": "quasi", "zip": "quasi"}
        found = sf.recommend({"age": people()["age"], "zip": zips}, schema=roles, seconds=0)
        assert any('tree = "prefix"' in reason for reason in found.reasons)


def visits() -> dict[str, object]:
    """Two rows of each person, which are nearly equal."""
    twice = {name: np.repeat(np.asarray(cells)[:150], 2) for name, cells in people().items()}
    return twice | {"who": np.repeat(np.arange(150), 2), "income": twice["income"] + np.tile([0.0, 0.5], 150)}


def few_values() -> dict[str, object]:
    draw = np.random.default_rng(3)
    return {name: draw.choice(list("abc"), 200).tolist() for name in ("region", "trade", "status")}


TABLES = {
    "numbers": (people(), ROLES),
    "exact columns": (people(), ROLES | {"income": "other"}),
    "people with several rows": (visits(), ROLES | {"who": "person"}),
    "few values": (few_values(), dict.fromkeys(("region", "trade", "status"), "quasi")),
}


class TestWhatIsRecommendedPasses:
    @pytest.mark.parametrize("name", TABLES)
    def test_compare_comes_to_the_same_verdict(self, name):
        table, roles = TABLES[name]
        found = sf.recommend(table, schema=roles, seconds=0)
        compared = sf.compare(table, [found.to_method()], schema=roles, jobs=1).rows[0]
        assert compared.passed is found.passed
        failed = {score.name for score in compared.assessment.failed if score.family == "privacy"}
        assert failed == set(found.steps[0].failed)

    def test_what_is_changed_passes_in_compare_too(self):
        table, roles = TABLES["exact columns"]
        found = sf.recommend(table, schema=roles)
        assert not found.steps[0].passed  # exact incomes give everybody away
        if found.passed:
            compared = sf.compare(table, [found.to_method()], schema=roles | dict(found.roles), jobs=1)
            assert compared.rows[0].passed is True
        else:
            assert str(found).startswith("Nothing is recommended.\nNo change was found")

    def test_a_k_that_was_given_stays(self):
        table, roles = TABLES["exact columns"]
        found = sf.recommend(table, schema=roles, k=7)
        assert all("k = 7" in reason or "k =" not in reason for reason in found.reasons)
        assert found.options.get("k") == 7

    def test_a_population_that_was_given_stays(self):
        draw = np.random.default_rng(2)
        table = {"age": draw.integers(18, 90, 300), "sex": draw.choice(["f", "m"], 300)}
        found = sf.recommend(table, schema=dict.fromkeys(table, "quasi"), population=10**6)
        assert found.options["population"] == 10**6

    def test_too_few_rows_are_not_tested(self):
        found = sf.recommend({"age": list(range(30))}, schema={"age": "quasi"})
        assert found.passed is None and found.verdict.startswith("Not tested: At least 20 rows")


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(pa.table(people()), tmp_path / "people.csv")
    return "people.csv"


class TestCommand:
    def test_the_recommended_command_makes_the_release(self, file, capsys):
        words = ["--role", "ill=sensitive", "--quasi", "age,income,sex", "--keep", "corr(age, income)", "--json"]
        assert run(["recommend", file, *words, "--seconds", "0"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["method"] == "boxes"
        assert found["reasons"]
        assert found["cost"]["widths"][0]["statistic"] == "corr(age, income)"
        assert run(shlex.split(found["command"])[1:]) == 0
        assert json.loads((Path("out") / "manifest.json").read_text())["options"]["k"] == 5

    def test_method_auto_uses_it_and_keeps_what_was_given(self, file, capsys):
        words = ["--quasi", "age,income,sex", "--sensitive", "ill", "--keep", "mean(income)", "-k", "7"]
        assert run(["release", file, "-o", "out", "--method", "auto", *words, "--json"]) == 0
        shown = capsys.readouterr()
        assert "method boxes, " in shown.err
        options = json.loads(shown.out)["manifest"]["options"]
        assert (options["k"], options["keep"]) == (7, ["mean(income)"])

    def test_method_auto_takes_a_population(self, file, capsys):
        words = ["release", file, "-o", "out", "--method", "auto", "--quasi", "age,sex", "--population", "1000000"]
        assert run([*words, "--other", "*"]) == 0
        assert json.loads(Path("out/manifest.json").read_text())["options"]["population"] == 1_000_000
        capsys.readouterr()
        assert run([*words, "--other", "*", "--keep", "mean(age)"]) == 0
        assert "the population is not needed by boxes" in capsys.readouterr().err

    def test_a_person_can_read_it(self, file, capsys):
        assert run(["recommend", file, "--quasi", "age", "--other", "*", "--seconds", "0"]) == 0
        text = capsys.readouterr().out
        assert "\nsfumato release people.csv" in f"\n{text}"
        assert "optimal-groups" in text
        assert "Cost: about" in text


@pytest.mark.parametrize(("risk", "k"), [(0.09, 12), (0.1, 10), (1 / 3, 3), (0.2, 5), (0.9, 2)])
def test_k_is_the_smallest_that_an_accepted_risk_allows(risk, k):
    assert _k_for(risk, None) == k


@pytest.mark.parametrize("options", [{"risk": 0.0}, {"risk": 1.0}, {"risk": "low"}, {"risk": 0.1, "k": 5}])
def test_a_risk_is_a_probability_and_stands_instead_of_k(options):
    with pytest.raises(OptionError):
        sf.recommend({"age": list(range(300))}, schema={"age": "quasi"}, **options)
