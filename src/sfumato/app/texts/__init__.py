"""The texts of the page: English in the code, other languages in catalogues.

A catalogue is a file ``LANGUAGE.po`` in this folder, in the format of gettext, such as ``de.po``. To add a language,
copy ``de.po``, translate each ``msgstr``, and give the name of the language in ``msgid "English"``: nothing else needs
to be registered. Texts in braces such as ``{rows}`` are placeholders and must stay. What other rooms say, such as the
meaning of an option, is looked up in ``sfumato.languages``. A text without a translation is shown in English.
`tests/unit/app/test_texts.py` says which texts are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from markupsafe import Markup, escape

from sfumato.app.choices import Message
from sfumato.languages import ENGLISH, read_catalogue, sentences

NAME = "English"  # the text whose translation is the name of the language
AMOUNTS = ("seconds", "memory", "width", "share", "correct")  # placeholders whose texts are numbers, and no names


@dataclass(frozen=True)
class Texts:
    """The texts in one language."""

    language: str
    catalogue: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __call__(self, text: str, **values: object) -> str:
        """Return a text in this language, with values in its placeholders; whole numbers get separators."""
        translation = self.catalogue.get(text) or self.say(text)
        if not values:
            return translation
        shown = {name: self._shown(name, value) for name, value in values.items()}
        if any(isinstance(value, Markup) for value in shown.values()):
            return escape(translation).format(**shown)  # all other values are escaped
        return translation.format(**shown)

    def message(self, one: Message) -> str:
        """Return a remembered text in this language; texts of the catalogue in its placeholders are translated too."""
        values = {
            name: self.message(value) if isinstance(value, Message) else value for name, value in one.values.items()
        }
        return self(one.text, **values)

    def say(self, text: str) -> str:
        """Return what another room says, such as the meaning of an option or a reason, in this language."""
        if self.language == ENGLISH:
            return text
        known = sentences(self.language)
        return known.numbers(known.say(str(text)))

    def number(self, text: str) -> str:
        """Return a number that is a text with the decimal mark of this language.

        >>> Texts("en").number("0.5"), Texts("de").number("0.5")
        ('0.5', '0,5')
        """
        return sentences(self.language).numbers(text)

    def count(self, number: int) -> str:
        """Return a whole number with separators of thousands.

        >>> Texts("en").count(665800), Texts("de").count(665800)
        ('665,800', '665.800')
        """
        return sentences(self.language).numbers(f"{number:,}")

    def _shown(self, name: str, value: object) -> object:
        if isinstance(value, int):
            return self.count(value)
        is_amount = name in AMOUNTS and isinstance(value, str) and not isinstance(value, Markup)
        return sentences(self.language).numbers(str(value)) if is_amount else value


@cache
def languages() -> dict[str, Texts]:
    """Return the texts in all languages, by code."""
    files = sorted(Path(__file__).parent.glob("*.po"))
    return {ENGLISH: Texts(ENGLISH)} | {file.stem: Texts(file.stem, read_catalogue(file)) for file in files}


def choose_language(accepted: str) -> str:
    """Return the first known language of an Accept-Language header.

    >>> choose_language("es-ES, de;q=0.8, en;q=0.5"), choose_language("")
    ('de', 'en')
    """
    wanted = (part.partition(";")[0].strip()[:2].lower() for part in accepted.split(","))
    return next((code for code in wanted if code in languages()), ENGLISH)
