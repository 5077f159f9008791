"""The catalogues: every text of the page has a translation, placeholders agree, and terms are those of the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import Markup
from tests.unit.app.texts_of_the_page import HOME, texts_of_the_methods, texts_of_the_page

from sfumato.app.choices import Message
from sfumato.app.rendering import GLOSSARY
from sfumato.app.texts import Texts, choose_language, languages, read_catalogue

CATALOGUES = sorted(HOME.glob("texts/*.po"))
DOCS = Path(__file__).parents[3] / "docs"


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

    def test_most_methods_and_options_are_explained(self, file):
        wanted = texts_of_the_methods()
        assert len(wanted & set(read_catalogue(file))) > 0.8 * len(wanted)

    def test_placeholders_agree(self, file):
        wrong = [text for text, other in read_catalogue(file).items() if placeholders(text) != placeholders(other)]
        assert wrong == []

    def test_no_text_is_left_that_nobody_shows(self, file):
        suggested = (HOME.parent / "schema" / "recognition" / "roles.py").read_text()
        known = texts_of_the_page() | texts_of_the_methods()
        unused = [text for text in read_catalogue(file) if text not in known and text not in suggested]
        assert len(unused) <= 10, unused  # explanations of options may have changed meanwhile


def test_german_is_among_the_languages():
    assert list(languages()) == ["en", "de"]
    assert languages()["de"]("Cancel") == "Abbrechen"
    assert choose_language("de-AT,en;q=0.7") == "de"
    assert choose_language("fr, es") == "en"


class TestTexts:
    texts = Texts("de", {"{n} rows": "{n} Zeilen", "other": "sonstige", "role {role}": "Rolle {role}"})

    def test_numbers_are_separated_as_in_the_language(self):
        assert self.texts("{n} rows", n=12345) == "12.345 Zeilen"

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
