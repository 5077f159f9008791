"""The texts of the page: English in the code, other languages in catalogues.

A catalogue is a file ``LANGUAGE.po`` in this folder, in the format of gettext, such as ``de.po``. To add a language,
copy ``de.po``, translate each ``msgstr``, and give the name of the language in ``msgid "English"``: nothing else needs
to be registered. Texts in braces such as ``{rows}`` are placeholders and must stay. A text without a translation is
shown in English. `tests/unit/app/test_texts.py` says which texts are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from markupsafe import Markup, escape

from sfumato.app.choices import Message
from sfumato.languages import read_catalogue, sentences

ENGLISH = "en"
NAME = "English"  # the text whose translation is the name of the language
SEPARATORS = {"de": "."}  # of thousands; a comma in other languages


@dataclass(frozen=True)
class Texts:
    """The texts in one language."""

    language: str
    catalogue: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __call__(self, text: str, **values: object) -> str:
        """Return a text in this language, with values in its placeholders; whole numbers get separators."""
        translation = self.catalogue.get(text) or text
        if not values:
            return translation
        shown = {name: self.count(value) if isinstance(value, int) else value for name, value in values.items()}
        if any(isinstance(value, Markup) for value in shown.values()):
            return escape(translation).format(**shown)  # all other values are escaped
        return translation.format(**shown)

    def say(self, text: str) -> str:
        """Return a sentence of the library in this language, where the table of its sentences knows it."""
        return text if self.language == ENGLISH else sentences(self.language).say(str(text))

    def message(self, one: Message) -> str:
        """Return a remembered text in this language; texts of the catalogue in its placeholders are translated too."""
        values = {
            name: self.message(value) if isinstance(value, Message) else value for name, value in one.values.items()
        }
        return self(one.text, **values)

    def count(self, number: int) -> str:
        """Return a whole number with separators of thousands.

        >>> Texts("en").count(665800), Texts("de").count(665800)
        ('665,800', '665.800')
        """
        return f"{number:,}".replace(",", SEPARATORS.get(self.language, ","))


@cache
def languages() -> dict[str, Texts]:
    """Return the texts in all languages, by code."""
    files = sorted(Path(__file__).parent.glob("*.po"))
    return {ENGLISH: Texts(ENGLISH)} | {file.stem: Texts(file.stem, read_catalogue(file)) for file in files}


def choose_language(accepted: str) -> str:
    """Return the first known language of an Accept-Language header.

    >>> preferred("fr-FR, de;q=0.8, en;q=0.5"), preferred("")
    ('de', 'en')
    """
    wanted = (part.partition(";")[0].strip()[:2].lower() for part in accepted.split(","))
    return next((code for code in wanted if code in languages()), ENGLISH)
