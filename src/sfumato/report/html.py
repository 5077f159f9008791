"""The HTML report of a release: one self-contained page that loads no other file, and its JSON twin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from sfumato.report.contents import Contents, contents
from sfumato.report.number_texts import number, percent, quantity_text
from sfumato.report.picture import HEIGHT, WIDTH
from sfumato.report.plain_json import as_plain, to_json

if TYPE_CHECKING:
    from sfumato.release.release import Release
    from sfumato.report.summary import Summary

LONGEST = 26  # letters of a part of a name that fit into a narrow table
SEAM = re.compile(
    r"(?<=[_/;:=~+|])(?=\w)|(?<=\w\()(?=\w)|(?<=[.,])(?=[^\W\d])|(?<=[a-zäöü])(?=[A-Z])"
)  # where a long name may continue on the next line


@dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """The report of a release as a page, and all its numbers as JSON text."""

    page: str
    numbers: str

    @classmethod
    def of(cls, release: Release, summary: Summary | None = None) -> Report:
        """Compute and render the report; ``summary`` if it has been computed already."""
        return cls.showing(contents(release, summary))

    @classmethod
    def showing(cls, shown: Contents) -> Report:
        """Render contents that were computed already."""
        return cls(page=_page(shown), numbers=to_json(_numbers(shown)) + "\n")


def environment(*others: jinja2.BaseLoader, **options: Any) -> jinja2.Environment:
    """Return the templates, and those of other loaders, with the filters that all pages share."""
    loader = jinja2.ChoiceLoader([*others, jinja2.PackageLoader("sfumato.report")])
    templates = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, **options)
    templates.filters.update(
        count=lambda value: f"{value:,}",
        number=number,
        percent=percent,
        place=lambda share, size=100: f"{size * share:.2f}".rstrip("0").rstrip("."),
        quantity=quantity_text,
        add_line_breaks=add_line_breaks,
        code=code,
    )
    return templates


def add_line_breaks(text: object) -> Markup:
    """Return text that may continue on the next line after _ and similar signs, so that no word is broken inside.

    >>> str(add_line_breaks("blood_pressure")), str(add_line_breaks("a<b"))
    ('blood_<wbr>pressure', 'a&lt;b')
    """
    parts = [escape(part) for part in SEAM.split(str(text))]
    wrapped = [Markup('<span class="long">{}</span>').format(part) if _is_long(part) else part for part in parts]
    return Markup("<wbr>").join(wrapped)


def code(text: object) -> Markup:
    """Return text with add_line_breaks in which words between backquotes are code.

    >>> str(code("run `sfumato verify`"))
    'run <code>sfumato verify</code>'
    """
    pieces = str(text).split("`")
    whole = len(pieces) % 2 == 1
    marked = (
        Markup("<code>{}</code>").format(add_line_breaks(p)) if whole and i % 2 else add_line_breaks(p)
        for i, p in enumerate(pieces)
    )
    return Markup("").join(marked) if whole else add_line_breaks(text)


def _is_long(part: object) -> bool:
    return max(map(len, str(part).split() or [""])) > LONGEST


def _page(shown: Contents) -> str:
    return (
        environment()
        .get_template("release.html.j2")
        .render(report=shown, picture=shown._picture, width=WIDTH, height=HEIGHT)
    )


def _numbers(shown: Contents) -> dict[str, Any]:
    assessment = None if shown.assessment is None else shown.assessment.to_plain()
    return {**as_plain(shown), "assessment": assessment}
