"""The catalogues: every text of the page has a translation, placeholders agree, and terms are those of the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import Markup
from tests.unit.app.texts_of_the_page import HOME, texts_of_errors, texts_of_the_methods, texts_of_the_page

from sfumato.app.choices import Message
from sfumato.app.rendering import GLOSSARY, plain_advice
from sfumato.app.texts import NAME, Texts, choose_language, languages, read_catalogue
from sfumato.languages import sentences

CATALOGUES = sorted(HOME.glob("texts/*.po"))
DOCS = Path(__file__).parents[3] / "docs"
COMMAND_LINE_ONLY = {  # what no visitor of the page meets
    "7 must be texts of valid characters.",
    "7 needs 7.",
    "7: 7",
    "Port 7 cannot be used: 7.",
    "header must be True, False or None.",
    "header_rows needs a header.",
}
# None, --quasi, SearchBudget, set_names, kind="rank" and backquotes are words of programs; "None yet." is English
PROGRAM = re.compile(r"\bNone\b(?! yet)|--[a-z]|\b[A-Z][a-z]+[A-Z][a-z]|\b[a-z]+_[a-z]|\b\w+=\"|\bTrue\b|\bFalse\b|`")


def placeholders(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)\}", text))


def test_the_texts_are_found():
    found = texts_of_the_page()
    assert len(found) > 250
    assert {"Cancel", "quasi-identifier", "role {role} for {columns} columns", "no population"} <= found


@pytest.mark.parametrize("file", CATALOGUES, ids=lambda file: file.stem)
class TestCatalogue:
    def test_every_text_of_the_page_is_there(self, file):
        assert sorted(texts_of_the_page() - set(read_catalogue(file))) == []

    def test_every_method_and_option_is_explained(self, file):
        known = sentences(file.stem)
        assert sorted(text for text in texts_of_the_methods() if known._find(text) is None) == []

    def test_errors_that_visitors_meet_are_told(self, file):
        known = sentences(file.stem)
        wanted = texts_of_errors("app", "errors.py", "params.py", "recommendation", "formats", "table")
        assert len(wanted) > 80
        assert sorted(text for text in wanted - COMMAND_LINE_ONLY if known._find(text) is None) == []

    def test_advice_that_visitors_meet_is_told(self, file):
        """The advice as the page shows it: without code, clause by clause."""
        rooms = ("app", "errors.py", "formats", "table", "schema", "job/people.py", "sources/derived_columns.py")
        shown = {plain_advice(text) for text in texts_of_errors(*rooms, told="fix")}
        known, words = sentences(file.stem), re.compile(r"[a-z]{4,}")
        assert len(shown) > 40
        assert sorted(text for text in shown if words.search(text) and known.say(text) == text) == []

    def test_no_words_of_programs(self, file):
        told = [*read_catalogue(file).values(), *map(sentences(file.stem).say, texts_of_the_methods())]
        assert [text for text in told if PROGRAM.search(text)] == []

    def test_placeholders_agree(self, file):
        wrong = [text for text, other in read_catalogue(file).items() if placeholders(text) != placeholders(other)]
        assert wrong == []

    def test_no_text_is_left_that_nobody_shows(self, file):
        suggested = (HOME.parent / "schema" / "recognition" / "roles.py").read_text()
        known = texts_of_the_page()
        assert [text for text in read_catalogue(file) if text not in known and text not in suggested] == []


def test_english_has_no_words_of_programs():
    assert [text for text in texts_of_the_page() | texts_of_the_methods() if PROGRAM.search(text)] == []


def test_german_and_french_are_among_the_languages():
    assert list(languages()) == ["en", "de", "fr"]
    assert languages()["de"]("Cancel") == "Abbrechen" and languages()["fr"](NAME) == "Français"
    assert choose_language("de-AT,en;q=0.7") == "de" and choose_language("fr-CA, es") == "fr"
    assert choose_language("es, it") == "en"


class TestTexts:
    texts = Texts("de", {"{n} rows": "{n} Zeilen", "other": "sonstige", "role {role}": "Rolle {role}"})

    def test_numbers_are_separated_as_in_the_language(self):
        assert self.texts("{n} rows", n=12345) == "12.345 Zeilen"
        assert Texts("fr")("{n} rows", n=12345) == "12\u202f345 lignes"

    def test_shares_and_seconds_have_the_decimal_mark_of_the_language(self):
        assert Texts("fr")("{share} of {name}", share="1.5 %", name="1.5") == "1,5 % of 1.5"

    def test_what_other_rooms_say_is_in_their_table(self):
        assert Texts("de")("Smallest number of rows in a group.") == "Kleinste Zahl von Zeilen in einer Gruppe."
        assert Texts("fr").say("k = 1,000: as you asked.") == "k = 1\u202f000\u00a0: comme demandé."

    def test_an_unknown_text_is_english(self):
        assert self.texts("Nothing like that") == "Nothing like that"

    def test_remembered_texts_are_translated_when_they_are_shown(self):
        assert self.texts.message(Message("role {role}", {"role": Message("other")})) == "Rolle sonstige"

    def test_names_of_columns_are_not_translated(self):
        assert self.texts.message(Message("role {role}", {"role": "other"})) == "Rolle other"

    def test_a_value_that_is_no_markup_stays_text(self):
        shown = Texts("en")("{a} and {b}", a=Markup("<b>x</b>"), b="<i>")
        assert isinstance(shown, Markup)
        assert shown == "<b>x</b> and &lt;i&gt;"


def test_a_catalogue_in_the_format_of_gettext_is_read(tmp_path):
    file = tmp_path / "xx.po"
    file.write_text(
        '# a comment\nmsgid ""\nmsgstr ""\n"Language: xx\\n"\n\n#: here\nmsgid "a"\nmsgstr "b"\n\n'
        'msgid ""\n"long "\n"text"\nmsgstr "länger \\"ja\\""\n\nmsgid "open"\nmsgstr ""\n'
    )
    assert read_catalogue(file) == {"a": "b", "long text": 'länger "ja"'}


def test_terms_are_those_of_the_glossary():
    text = (DOCS / "glossary.md").read_text()
    assert [term for term in GLOSSARY if term not in text] == []
