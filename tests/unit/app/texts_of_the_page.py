"""All texts that the page shows in the language of its visitor, found in the templates and in the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import sfumato.app
import sfumato.errors
from sfumato.app.pages.method import OF_ONE
from sfumato.app.pages.table import FUNCTIONS, MEANINGS, ROLE_NAMES
from sfumato.app.rendering import GLOSSARY, STEPS
from sfumato.app.texts import NAME
from sfumato.methods.base import METHODS, method_class
from sfumato.params import in_plain_words, options_of
from sfumato.report.reproduction import summary_of
from sfumato.schema.recognition.roles import LOOKS_KNOWN, LOOKS_SAMPLING, LOOKS_SENSITIVE
from sfumato.schema.suggested_hierarchies import TREE_KINDS
from sfumato.table.kinds import Kind

HOME = Path(sfumato.app.__file__).parent
STRING = r'"((?:[^"\\]|\\.)*)"'


def texts_of_the_page() -> set[str]:
    """Every text that must be in a catalogue."""
    found = {NAME, *GLOSSARY.values(), *MEANINGS.values(), *ROLE_NAMES.values(), *OF_ONE.values(), *TREE_KINDS}
    found |= {*FUNCTIONS.values()}
    found |= {name for _, name in STEPS} | {str(kind) for kind in Kind} | {LOOKS_KNOWN, LOOKS_SAMPLING, LOOKS_SENSITIVE}
    for file in HOME.glob("templates/*.j2"):
        text = file.read_text()
        found |= {literal(one) for one in re.findall(rf"\b_\({STRING}", text)}
        for name, shown in re.findall(rf"\bterm\({STRING}(?:, {STRING})?\)", text):
            found.add(literal(shown or name))
    for file in HOME.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Message":
                found |= {one.value for one in ast.walk(node.args[0]) if is_text(one)}
    return found - {""}


def texts_of_the_methods() -> set[str]:
    """What methods and options say about themselves, in the words of the page."""
    kinds = [method_class(name) for name in METHODS]
    declared = [one.declared for kind in kinds for one in options_of(kind)]
    texts = [*map(summary_of, kinds), *(one.meaning for one in declared)]
    return {in_plain_words(text) for text in [*texts, *(one.range.describe(one.unit) for one in declared)]}


ERRORS = {name for name, one in vars(sfumato.errors).items() if isinstance(one, type) and issubclass(one, Exception)}


def texts_of_errors(*places: str, told: str = "message") -> set[str]:
    """What the errors say that rooms, or files, of the package raise; what is filled in is a number or a word.

    ``told`` is the part of an error: its message, what was ``found``, or the ``fix``.
    """
    found: set[str] = set()
    for place in places:
        start = HOME.parent / place
        for file in start.rglob("*.py") if start.is_dir() else [start]:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                    given = {"message": node.args[0]} if node.args else {}
                    given |= {one.arg: one.value for one in node.keywords if one.arg}
                    found |= set(filled_in(given[told])) if told in given else set()
    return found - {"7"}


def filled_in(node: ast.expr) -> list[str]:
    """Return the texts that an expression may be, with 7 wherever something is filled in."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.IfExp):
        return [*filled_in(node.body), *filled_in(node.orelse)]
    if isinstance(node, ast.BinOp):
        return [left + right for left in filled_in(node.left) for right in filled_in(node.right)]
    if isinstance(node, ast.JoinedStr):
        texts = [""]
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            texts = [text + more for text in texts for more in filled_in(inner)]
        return texts
    return ["7"]


def literal(text: str) -> str:
    return str(ast.literal_eval(f'"{text}"'))


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(node.value)
