"""Pages as text: templates, in which every value is escaped, the visitor's language, and terms that are explained."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from sfumato.app.texts import NAME, Texts, languages
from sfumato.errors import printable
from sfumato.languages import translate_english_parts, translate_page
from sfumato.params import in_plain_words
from sfumato.report.html import add_line_breaks, code, read_stylesheet
from sfumato.report.html import environment as report_environment
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato.app.visitors import Visitor


# Terms that the page explains where they stand, in one or two plain sentences; docs/glossary.md has all of them.


GLOSSARY = {
    "role": "How a column is treated: removed, protected, or released as it is.",
    "identifier": "A column that names a person, such as a name or a number of a person. It is removed.",
    "quasi-identifier": "A column that others may know, and that alone or with other columns may single out a person. "
    "It is protected.",
    "sensitive column": "A column with what an intruder wants to learn. It is released, and the method can see to it "
    "that people who look alike do not all have the same value.",
    "other column": "A column that needs no protection. It is released as it is.",
    "sampling weight": "The number of people that a row stands for. Statistics use it.",
    "kind": "What the values of a column are: continuous or whole numbers, dates, ordered or unordered categories, "
    "text, or yes and no.",
    "generalization tree": "Broader and broader groups of the values of a column, up to “any value”: a town, its "
    "county, its country.",
    "population": "The people among whom an intruder searches, those in the table included.",
    "intruder": "Somebody who tries to learn something about a person from the release.",
    "group": "Rows that are equal in all quasi-identifiers: people whom an intruder cannot tell apart.",
    "k-anonymity": "Every row looks exactly like at least k − 1 others in the columns that others may know.",
    "ℓ-diversity": "Every group has at least ℓ different values of a sensitive column.",
    "t-closeness": "In every group the sensitive values are spread almost as in the whole table; t is the largest "
    "difference.",
    "box": "The ranges that a group of people shares: everybody in it gets the same lower and upper ends.",
    "guaranteed interval": "Numbers between which the true value of the original is certain to lie.",
    "promise": "A statement that must hold for a release. It is counted again on the released rows, and a release "
    "that breaks one is not written.",
    "no guarantee": "The method alters the table and promises nothing about privacy. What it reveals can only be "
    "measured.",
    "bundle": "The release as it is given away: the rows, what is promised about them, the report, and checksums.",
    "manifest": "The file that tells how a release was made and what it promises. It contains no cell.",
    "seed": "A number that makes a release repeatable, for tests. It is a secret: who knows it can undo random steps.",
    "holdout": "People who are kept out of a release, to see what attacks find about people who never took part.",
    "risk": "How much better people are recognised in a release than people who never took part.",
    "utility": "How well the distributions of the original are kept: 1 is the same.",
}


ADDRESS = re.compile(
    r'\b(href|action|src)="/'
)  # of a page of ours: quotes of a text are escaped, so it is none of these
STEPS = (  # path of the first page of each step, and its name in the catalogue
    ("/open", "Table"),
    ("/columns", "Columns"),
    ("/risks", "Risks"),
    ("/statistics", "Statistics"),
    ("/method", "Method"),
    ("/run", "Release"),
    ("/runs", "Compare"),
)

BELONGING = {"/column": "/columns", "/tree": "/columns", "/records": "/risks", "/lattice": "/method"}  # to other steps


@cache
def environment() -> jinja2.Environment:
    """Return the templates of the page and of the report; control characters are shown escaped everywhere."""
    templates = report_environment(jinja2.PackageLoader("sfumato.app"), finalize=_escape_controls)
    templates.filters["add_line_breaks"] = lambda text: add_line_breaks(printable(str(text)))
    templates.filters["code"] = lambda text: code(printable(str(text)))
    templates.filters.update(option=_option_text, plain=say_plainly, advice=plain_advice, translated=_translated)
    templates.globals.update(steps=STEPS, version=__version__)
    return templates


CODE = re.compile(  # words of programmers, and lines of schema files
    r"--\w|\bin Python\b|\w=\S|\bsfumato \w|\w\(\)|\bNone\b|\bpip\b|\w\[|^\w+ = |= [\[{\"']"
)
INSIDE = re.compile(r" \([^()]*\)")  # how programmers write an advice
COMMAND = re.compile(r";? `?sfumato \w+ [^.`]*`?(?= finds|\.|$)(?: finds out what is enough)?")  # with what it does


def say_plainly(text: str) -> str:
    """Return a text of the library without words that only programmers know.

    >>> say_plainly("whole number of values, at least 1, or None")
    'whole number of values, at least 1, or empty'
    """
    return in_plain_words(COMMAND.sub("", str(text)))


def plain_advice(fix: str | None) -> str:
    """Return the parts of an advice that are no code; empty if there is none.

    >>> plain_advice("--no-header or --header; in Python header=False; or give the names of the columns")
    'give the names of the columns'
    >>> plain_advice("the role person for 'id' (--person id), so that promises count people")
    "the role person for 'id', so that promises count people"
    """
    without = INSIDE.sub(lambda one: "" if CODE.search(one.group()) else one.group(), fix or "")
    if not CODE.search(without):
        return without
    parts = [part.strip().removeprefix("or ") for part in re.split(r";|, or ", without)]
    return "; ".join(part for part in parts if part and not CODE.search(part))


def _option_text(value: Any) -> str:
    """Return the value of an option as people write it."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_option_text(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_option_text, value))
    return "–" if value is None else {True: "✓", False: "✗"}[value] if isinstance(value, bool) else str(value)


@jinja2.pass_context
def _translated(context: jinja2.runtime.Context, page: str) -> Markup:
    """Return a part of a report in the language of the visitor; its template has escaped every value."""
    return Markup(translate_page(str(page), context["visitor"].language))


def _escape_controls(value: Any) -> Any:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(template: str, visitor: Visitor, path: str, **context: Any) -> str:
    """Render a page for a visitor."""
    texts = languages()[visitor.language]
    page = (
        environment()
        .get_template(template)
        .render(
            _=texts,
            count_of=texts.count,
            term=_terms(texts),
            visitor=visitor,
            same_table=Markup('<input type="hidden" name="table" value="{}">').format(visitor.opened),
            path=path,
            step=next((start for start, _ in reversed(STEPS) if BELONGING.get(path, path).startswith(start)), ""),
            language_names={code: one(NAME) for code, one in languages().items()},
            **context,
        )
    )
    return ADDRESS.sub(rf'\1="{visitor.root}/', translate_english_parts(page, visitor.language))


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
    return "\n".join(read_stylesheet(name) for name in ("look.css", "maps.css"))
