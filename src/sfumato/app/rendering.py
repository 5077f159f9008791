"""Pages as text: templates, in which every value is escaped, with the texts of the visitor's language."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from sfumato.app.glossary import GLOSSARY
from sfumato.app.texts import NAME, Texts, languages
from sfumato.errors import printable
from sfumato.report.html import add_line_breaks, code
from sfumato.report.html import environment as report_environment
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato.app.visitors import Visitor

STEPS = (  # path of the first page of each step, and its name in the catalogue
    ("/open", "Table"),
    ("/columns", "Columns"),
    ("/risks", "Risks"),
    ("/statistics", "Statistics"),
    ("/method", "Method"),
    ("/run", "Release"),
    ("/runs", "Compare"),
)


@cache
def environment() -> jinja2.Environment:
    """Return the templates of the page and of the report; control characters are shown escaped everywhere."""
    templates = report_environment(jinja2.PackageLoader("sfumato.app"), finalize=_escape_controls)
    templates.filters["add_line_breaks"] = lambda text: add_line_breaks(printable(str(text)))
    templates.filters["code"] = lambda text: code(printable(str(text)))
    templates.globals.update(steps=STEPS, version=__version__)
    return templates


def _escape_controls(value: Any) -> Any:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(template: str, visitor: Visitor, path: str, **context: Any) -> str:
    """Render a page for a visitor."""
    texts = languages()[visitor.language]
    return (
        environment()
        .get_template(template)
        .render(
            _=texts,
            count_of=texts.count,
            term=_terms(texts),
            visitor=visitor,
            same_table=Markup('<input type="hidden" name="table" value="{}">').format(visitor.opened),
            path=path,
            step=next((start for start, _ in reversed(STEPS) if path.startswith(start)), ""),
            language_names={code: one(NAME) for code, one in languages().items()},
            **context,
        )
    )


def _terms(texts: Texts) -> Any:
    """Return a function that shows a term of the glossary, with its meaning one hover, or one tab key, away."""

    def term(name: str, shown: str | None = None) -> Markup:
        meaning = texts(GLOSSARY[name])
        text = texts(shown or name)
        frame = '<span class="term" tabindex="0">{}<span class="meaning" role="tooltip">{}</span></span>'
        return Markup(frame).format(text, meaning)

    return term


@cache
def stylesheet() -> str:
    """Return the style of the reports, which the page shares."""
    templates = environment()
    return "\n".join(templates.get_template(name).render() for name in ("look.css.j2", "release.css.j2", "maps.css.j2"))
