"""The report of a release as one self-contained HTML page, its JSON twin, and the codebook of its columns."""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup, escape

from sfumato.formats.exports import EXPORTS, file_names
from sfumato.languages import ENGLISH, translate_page
from sfumato.params import plain
from sfumato.plan.questions import GroupSizesOf, MissingIn
from sfumato.release.bundle import released_labels
from sfumato.report.contents import contents
from sfumato.report.picture import HEIGHT, WIDTH
from sfumato.report.summary import number, percent, quantity_text, treatment
from sfumato.report.usefulness import report_questions
from sfumato.table.intervals import original_name, original_names
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.release.linked import LinkedRelease
    from sfumato.release.release import Release


def to_json(record: Any) -> str:
    """Return a record, or several, as JSON text; numbers that are not finite become null."""
    return json.dumps(as_plain(record), indent=2, ensure_ascii=False, allow_nan=False)


def as_plain(record: Any) -> Any:
    """Convert dataclasses, at all levels, to mappings of their fields; names that start with _ are left out.

    Dates become text in ISO format.

    A class may list further properties to report in ``derived``.
    """
    if is_dataclass(record) and not isinstance(record, type):
        values = {field.name: getattr(record, field.name) for field in fields(record) if not field.name.startswith("_")}
        values |= {name: getattr(record, name) for name in getattr(record, "derived", ())}
        return {name: as_plain(value) for name, value in values.items()}
    if isinstance(record, dict):
        return {str(name): as_plain(value) for name, value in record.items()}
    if isinstance(record, datetime.date):
        return record.isoformat()
    if isinstance(record, tuple | list):
        return [as_plain(value) for value in record]
    return plain(record)


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
    def of(cls, release: Release, language: str = ENGLISH) -> Report:
        """Compute and render the report."""
        shown = contents(release)
        template = environment().get_template("release.html.j2")
        page = template.render(report=shown, picture=shown._picture, width=WIDTH, height=HEIGHT)
        assessment = None if shown.assessment is None else shown.assessment.to_plain()
        page = page if language == ENGLISH else translate_page(page, language)
        return cls(page=page, numbers=to_json({**as_plain(shown), "assessment": assessment}) + "\n")

    @classmethod
    def of_linked(cls, release: LinkedRelease) -> Report:
        """Render the report about all linked tables together; each table has one of its own."""
        from sfumato.measures.privacy.attacks.joining import joining_attack

        joining, told = joining_attack(release), release.assessment
        template = environment().get_template("linked.html.j2")
        numbers = {"manifest": release.manifest, "joining": joining}
        assessed = None if told is None else told.to_plain()
        return cls(
            page=template.render(release=release, joining=joining),
            numbers=to_json({**as_plain(numbers), "assessment": assessed}) + "\n",
        )


@cache  # templates take longer to compile than a report to render
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
        stylesheet=read_stylesheet,
    )
    return templates


def read_stylesheet(name: str) -> Markup:
    """Return the rules of a file of the templates' folder."""
    return Markup((Path(__file__).with_name("templates") / name).read_text("utf-8"))  # no cell, and no user's text


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


HEADER = ("column", "label", "kind", "made from", "role", "what was done", "categories")


def codebook(release: Release, formats: Sequence[str] = ()) -> str:
    """Return the codebook as the text of a CSV file, one line for each column of the release.

    Categories are counted in tables that fit into memory. A column whose name a format cannot hold has its name in that
    format in a further column.
    """
    manifest = release.manifest
    assert manifest is not None
    names = [column.name for column in manifest.released]
    labels, records = released_labels(manifest, names), {column.name: column for column in manifest.columns}
    renamed = {
        f"name in {format}": file_names(names, EXPORTS[f".{format}"]) for format in formats if f".{format}" in EXPORTS
    }
    renamed = {title: new for title, new in renamed.items() if any(name != new[name] for name in names)}
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow([*HEADER, *renamed])
    for column in manifest.released:
        base = original_name(column.name, names, records)
        record = records.get(base)
        done = (record.role, treatment(record, manifest)) if record else ("", "added by the method")
        cells = [column.name, labels.get(column.name, ""), column.kind, base if record else "", *done]
        cells += [_categories(release, column.name), *(new[column.name] for new in renamed.values())]
        out.writerow([_safe(str(cell)) for cell in cells])
    shown = set(original_names(names, records))
    for record in manifest.columns:
        if record.name not in shown:
            cells = ["", record.label, record.kind, record.name, record.role, treatment(record, manifest)]
            out.writerow([_safe(str(cell)) for cell in cells] + [""] * (1 + len(renamed)))
    return text.getvalue()


def _safe(text: str) -> str:
    """Return text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _categories(release: Release, name: str) -> str:
    """Return the number of categories of a released column; their names are cells, which only the release holds."""
    table = release.table
    if not isinstance(table, Table) or table.kinds[name] not in (Kind.NOMINAL, Kind.ORDERED):
        return ""
    answers = release.answers(report_questions(release))
    return str(answers[GroupSizesOf((name,))].count - bool(answers[MissingIn(name)]))
