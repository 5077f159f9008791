"""The evidence of a release: its figures equal independent counts, and each names how to recount it."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import OptionError, RequestError
from sfumato.release.assessment import Assessment, Score
from sfumato.report.contents import contents
from sfumato.report.distributions import blamed_columns, intruder_views

SCHEMA = {"age": "quasi", "town": "quasi", "weight": "other", "illness": "sensitive"}
LAW = ("recital 26", "singling out", "linkability", "inference", "expert determination", "safe harbor", "27559", "0070")


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": draw.integers(18, 90, 300),
            "town": draw.choice(["Ulm", "Bonn", "Zanzibar"], 300),
            "weight": draw.normal(70, 12, 300).round(2),
            "illness": draw.choice(["flu", "gout"], 300),
        }
    )


@pytest.fixture(scope="module")
def release(people):
    return sf.Boxes(k=5).release(people, schema=SCHEMA)


def test_intruders_are_counted_as_anybody_would(release):
    rows = release.to_arrow().to_pylist()
    protected = Counter((row["age_low"], row["age_high"], row["town"]) for row in rows)
    everything = Counter(tuple(value for name, value in row.items() if name != "box") for row in rows)
    first, second = intruder_views(release)
    for view, groups in ((first, protected), (second, everything)):
        assert (view.groups, view.smallest) == (len(groups), min(groups.values()))
        assert view.largest_risk == 1 / min(groups.values()) and view.mean_risk == len(groups) / len(rows)
        assert view.alone == sum(size == 1 for size in groups.values())
    with_weight = Counter((row["age_low"], row["age_high"], row["town"], row["weight"]) for row in rows)
    assert blamed_columns(release)[0].name == "weight"
    assert blamed_columns(release)[0].alone == sum(size == 1 for size in with_weight.values())


def test_nobody_is_blamed_if_all_is_protected(people):
    made = sf.Boxes(k=5).release(people[["age", "town"]], schema={"age": "quasi", "town": "quasi"})
    assert blamed_columns(made) == () and len(intruder_views(made)) == 1


class TestThePage:
    @pytest.fixture
    def shown(self, release) -> str:
        return release.evidence(recipient="University X", purpose="study Y").page

    def test_speaks_of_the_law_and_names_recounts(self, shown):
        assert all(word in shown for word in LAW) and "no legal advice" in shown
        assert shown.count("Recount:") >= 9

    def test_has_date_recipient_and_checksum(self, shown):
        assert "University X" in shown and "study Y" in shown
        assert re.search(r"20\d\d-\d\d-\d\d", shown) and re.search(r"[0-9a-f]{64}", shown)

    def test_holds_no_cell(self, shown):
        assert "Zanzibar" not in shown and "gout" not in shown

    def test_asks_nothing_in_part(self, shown):
        assert not re.search(r"and \d+ more", shown)

    def test_escapes_what_is_given(self, release):
        page = release.evidence(recipient="<script>x</script>", purpose="a & b", environment='"quoted"').page
        assert "<script>" not in page and "a &amp; b" in page

    def test_makes_no_outside_request(self, shown):
        assert "http" not in shown.replace("http-equiv", "")


@pytest.fixture(scope="module")
def pack(release):
    return release.evidence(recipient="University X", purpose="study Y")


@pytest.fixture(scope="module")
def counted(release, pack, tmp_path_factory) -> dict[str, tuple]:
    """What DuckDB gets from the queries that the document prints, by their marks."""
    folder = release.write(tmp_path_factory.mktemp("evidence") / "out")
    with duckdb.connect() as connection:
        connection.execute(f"SET file_search_path = '{folder}'")
        return {one.mark: connection.execute(one.sql).fetchone() for one in pack.recounts if one.sql}


class TestRecounts:
    """DuckDB alone gets the same figures, by the queries that the document prints."""

    def test_every_sentence_names_a_recount(self, pack):
        marks = {one.mark for one in pack.recounts}
        told = [sentence for finding in pack.findings for sentence in finding.found]
        assert len(told) > 12 and all(sentence.recount in marks for sentence in told)
        assert all(f'href="#{one.recount}"' in pack.page and f'id="{one.recount}"' in pack.page for one in told)

    def test_risks_are_those_that_duckdb_counts(self, release, pack, counted):
        views = intruder_views(release)
        for view, mark in zip(views, [one.mark for one in pack.recounts], strict=False):
            groups, smallest, alone, largest, mean = counted[mark]
            assert (groups, smallest, alone) == (view.groups, view.smallest, view.alone)
            assert float(largest) == pytest.approx(view.largest_risk) and mean == pytest.approx(view.mean_risk)
            risks = f"largest risk {float(largest):.4g}, mean risk {mean:.4g}."
            assert any(risks in one.text and one.recount == mark for one in pack.findings[0].found)
            singled = f"finds {alone:,} of {release.table.rows:,} rows"
            assert any(singled in one.text and one.recount == mark for one in pack.findings[1].found)
        assert len(counted) > len(views)

    def test_columns_to_blame_are_those_that_duckdb_counts(self, release, pack, counted):
        blamed = [one for one in pack.findings[0].found if one.text.startswith("With ")]
        assert blamed
        for sentence in blamed:
            assert f"{counted[sentence.recount][2]:,} rows look like no other" in sentence.text

    def test_the_threshold_of_the_medicines_agency(self, people):
        for k, words in ((12, "at most 0.09"), (11, "above 0.09")):
            made = sf.Boxes(k=k).release(people[["age", "town"]], schema={"age": "quasi", "town": "quasi"})
            found = made.evidence(recipient="x", purpose="y").findings[-2]
            smallest = intruder_views(made)[0].smallest
            expected = words if smallest == k else ("at most 0.09" if 1 / smallest <= 0.09 else "above 0.09")
            assert "0070" in found.source and found.found[0].text.endswith(f"{expected}.")

    def test_each_question_has_a_line_to_sign_and_the_page_is_made_for_paper(self, pack):
        assert pack.page.count("Date, signature") == len(pack.questions)
        assert "@media print" in pack.page and "@page" in pack.page


@pytest.mark.parametrize("given", [{"recipient": "", "purpose": "x"}, {"recipient": "x", "purpose": "  "}])
def test_a_recipient_and_a_purpose_are_needed(release, given):
    with pytest.raises(OptionError, match="Evidence needs a"):
        release.evidence(**given)


def test_rows_without_a_manifest_have_no_evidence():
    with pytest.raises(RequestError, match="manifest"):
        sf.read_release({"a_low": [1], "a_high": [2]}).evidence(recipient="x", purpose="y")


class TestTheCommand:
    def test_writes_the_checksum_of_the_file(self, release, tmp_path):
        folder = release.write(tmp_path / "out")
        target = tmp_path / "e.html"
        asked = ["--recipient", "X", "--purpose", "Y", "-o", str(target)]
        assert run(["evidence", str(folder), *asked]) == 0
        assert hashlib.sha256((folder / "released.parquet").read_bytes()).hexdigest() in target.read_text()

    def test_is_the_same_of_a_release_that_is_read_part_by_part(self, release, tmp_path, monkeypatch):
        folder, pages = release.write(tmp_path / "out"), []
        monkeypatch.setattr("sfumato.release.read.LEAST", 10_000)  # bytes of fewer rows than there are
        for memory in ([], ["--memory", "1"]):
            target = tmp_path / f"{len(memory)}.html"
            words = ["--recipient", "X", "--purpose", "Y", "-o", str(target), *memory]
            assert run(["evidence", str(folder), *words]) == 0
            pages.append(target.read_text())
        assert pages[0] == pages[1]

    def test_never_writes_into_a_release(self, release, tmp_path):
        folder = release.write(tmp_path / "out")
        asked = ["--recipient", "X", "--purpose", "Y", "-o", str(folder / "e.html")]
        assert run(["evidence", str(folder), *asked]) == 2

    def test_tells_what_the_assessment_found(self, release, tmp_path):
        score = Score(name="singling out", family="privacy", value=0.25, better="lower", rows=9, passed=False)
        told = Assessment(
            method="boxes", original_rows=9, released_rows=9, reference_rows=5, columns=3, scores=(score,), omitted=()
        )
        folder = replace(release, assessment=told).write(tmp_path / "out")
        assert run(["evidence", str(folder), "--recipient", "X", "--purpose", "Y", "-o", str(tmp_path / "e.html")]) == 0
        page = (tmp_path / "e.html").read_text()
        assert "the test failed" in page and "Why are the failed tests acceptable" in page

    def test_an_assessment_survives_json(self):
        score = Score(name="a", family="privacy", value=float("nan"), better="lower", rows=9)
        told = Assessment(
            method="boxes", original_rows=9, released_rows=9, reference_rows=5, columns=3, scores=(score,), omitted=()
        )
        again = Assessment.from_plain(json.loads(told.to_json()))
        assert again is not None and again.to_plain() == told.to_plain()
        assert Assessment.from_plain({"scores": [{"x": 1}]}) is None and Assessment.from_plain([]) is None


def test_the_report_names_the_columns_to_blame(release):
    from dataclasses import replace

    score = Score(name="singling out", family="privacy", value=0.25, better="lower", rows=9, passed=False)
    told = Assessment(
        method="boxes", original_rows=9, released_rows=9, reference_rows=5, columns=3, scores=(score,), omitted=()
    )
    said = " ".join(contents(replace(release, assessment=told)).verdict.sentences)
    assert "The columns to blame are weight" in said and "illness" not in said.partition("blame")[2]


class TestDifferentialPrivacy:
    """The evidence of noisy measurements says what is promised, in which unit, and what is public."""

    SCHEMA = {  # noqa: RUF012
        "age": {"role": "quasi", "domain": [0, 100]},
        "town": {"role": "quasi", "order": ["Ulm", "Bonn", "Zanzibar"]},
        "weight": "other",
        "illness": {"role": "sensitive", "order": ["flu", "gout"]},
    }

    @pytest.fixture(params=["boxes", "synthesis"])
    def method(self, request):
        if request.param == "boxes":
            return sf.PrivateBoxes(epsilon=1.0, delta=1e-5)
        return sf.PrivateSynthesis(epsilon=1.0, delta=1e-5, never=["age < 20 and illness = gout"])

    def test_it_says_the_loss_the_unit_and_what_is_public(self, people, method):
        release = method.release(people, schema=self.SCHEMA)
        pack = release.evidence(recipient="University X", purpose="study Y")
        first = pack.findings[0]
        assert "NIST" in first.source
        said = " ".join(one.text for one in first.found)
        assert "e^1, which is 2.72, except with probability 1e-05" in said
        assert "one row" in said and "declared" in said and "weight" in said
        assert f"{release.manifest.claims[0].parameters['rho']:.4g}" in said
        if isinstance(method, sf.PrivateSynthesis):
            assert "age < 20 and illness = gout" in said
        assert all("risk" not in one.text or "no risk" in one.text for law in pack.findings for one in law.found)
        assert any("one privacy budget" in question for question in pack.questions)
        assert "Two intruders" not in pack.page
        assert not any("Only they are protected" in question for question in pack.questions)

    def test_the_unit_is_a_person_if_a_column_tells(self, people, method):
        table = people.assign(who=np.arange(len(people)) // 2)
        release = replace(method, rows_per_person=2).release(table, schema=self.SCHEMA | {"who": "person"})
        said = " ".join(one.text for one in release.evidence(recipient="X", purpose="Y").findings[0].found)
        assert "one person with at most 2 rows" in said

    def test_it_speaks_german(self, people, method):
        page = method.release(people, schema=self.SCHEMA).evidence(recipient="X", purpose="Y", language="de").page
        for text in ("Die Einheit ist eine Zeile", "Öffentlich, weil sie erklärt sind", "aus einem Privatheitsbudget"):
            assert text in page
        for text in ("The unit is", "Public because", "Whether one row", "No released row"):
            assert text not in page

    def test_the_report_has_no_risk_of_rows(self, people, method):
        told = contents(method.release(people, schema=self.SCHEMA))
        assert told.intruders == () and told.blamed == ()
