"""What people who do not program meet when something is wrong: their language, their decimal mark, and a way on."""

from __future__ import annotations

import json
import re
import time
from html import unescape

import pytest
from tests.unit.app.served import Person

PEOPLE = "id;age;weight;ward;born\n" + "".join(
    f"{n // 2};{20 + n % 50};{60 + n % 30},5;{'abc'[n % 3]};19{40 + n % 50}-03-1{n % 9}\n" for n in range(120)
)


def shown(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.partition("<main")[2].replace("<wbr>", ""))).split())


@pytest.fixture
def german(person) -> Person:
    person.upload(PEOPLE.encode(), "ward.csv")
    person.post("/language", {"language": "de"})
    return person


class TestNumbers:
    def test_options_are_written_with_the_decimal_mark_and_flags_as_yes_and_no(self, german):
        page = german.get("/method?name=noise").text
        assert 'name="option-level" value="0,' in page
        assert ">ja<" in page and not re.search(r">(true|false|True|False)<", page)

    def test_options_are_read_with_the_decimal_mark(self, german):
        page = german.post("/method", {"method": "noise", "option-level": "0,25"})
        assert page.status == 200, shown(page.text)
        assert "level = 0,25" in shown(page.text)

    def test_the_first_rows_show_them_as_the_language_writes_them(self, german):
        page = german.get("/open/preview").text
        assert ">60,5<" in page and "60.5" not in page


class TestErrors:
    def test_a_type_is_said_in_words(self, german):
        page = german.post("/method", {"method": "boxes", "option-k": "zwei"})
        assert page.status == 400
        assert "ein Text" in shown(page.text) and not re.search(r"\bstr\b", shown(page.text))

    def test_the_mean_of_a_category_is_refused_where_it_is_typed(self, german):
        page = german.post("/statistics", {"action": "text", "text": "mean(ward)"})
        assert page.status == 400
        assert "müssen Zahlen sein" in shown(page.text) and "eine Spalte von Zahlen" in shown(page.text)
        assert german.post("/statistics", {"action": "text", "text": 'count(ward = "a")'}).status == 200

    def test_an_identifier_that_repeats_names_the_role_that_helps(self, german):
        german.post("/columns", {"role": "identifier", "column": "0"})
        german.post("/method", {"method": "boxes", "option-k": "3"})
        page = shown(german.post("/run", {}).text)
        assert "Jede Zeile muss eine andere Person sein" in page
        assert "die Rolle „Person“ für 'id'" in page and "--" not in page


class TestWaysOn:
    def test_an_age_needs_no_day(self, german):
        page = german.post("/columns/derived", {"column": "4", "function": "years", "name": "years old"})
        assert page.status == 200
        assert "years old" in shown(page.text)

    @pytest.mark.parametrize("path", ["/records", "/lattice?k=3"])
    def test_another_language_keeps_the_place(self, german, path):
        referer = f"{german.server.origin}{german.server.root}{path}"
        answer = german.server.call(
            "POST", "/language", b"language=fr", Cookie=german.cookie, Origin=german.server.origin, Referer=referer
        )
        assert answer.headers["location"].endswith(path)

    def test_the_map_of_columns_leads_to_a_column_and_its_role(self, german):
        page = german.get("/records").text
        link = re.search(r'<th scope="row"><a href="[^"]*(/column\?column=\d+)">weight', page)
        column = german.get(link[1]).text
        assert "weight" in shown(column)
        german.post("/columns", {"column": link[1].rpartition("=")[2], "role": "sensitive"})
        assert 'value="sensitive"' in column and "von Ihnen gewählt" in german.get("/columns").text


def test_errors_about_a_file_name_it_as_its_owner_does(person):
    page = shown(person.upload(b"Titel;;;;\n" + PEOPLE.encode(), "Größe (neu).csv").text)
    assert "Größe (neu).csv" in page and "neu.csv" not in page.replace("(neu).csv", "")


def test_a_pair_of_columns_is_explained(german):
    page = german.get("/records").text
    link = re.search(r'href="[^"]*(/column\?column=\d+&amp;known=\d+)"', page)
    told = shown(german.get(unescape(link[1])).text)
    assert "dessen, was es über" in told and "Die Rolle von" in told


def test_whoever_chooses_a_method_does_not_wait_for_advice(german):
    started = time.monotonic()
    german.post("/method", {"method": "boxes", "option-k": "3"}, follow=False)
    assert time.monotonic() - started < 5


def test_progress_is_told_in_the_language(german):
    german.post("/method", {"method": "boxes", "option-k": "3"})
    started = german.post("/run", {"rows_not_people": "1"}, follow=False)
    page = german.server.call("GET", started.headers["location"], Cookie=german.cookie).text
    job = re.search(r'data-job="(\w+)"', page)[1]
    while not (now := json.loads(german.server.call("GET", f"/jobs/{job}", Cookie=german.cookie).text))["over"]:
        time.sleep(0.05)
    assert any("werden geprüft" in line for line in now["said"])
    assert [line for line in now["said"] if re.search(r"\b(rows|verifying|planning|transforming)\b", line)] == []
