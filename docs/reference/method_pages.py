"""The reference pages of methods and measures, written from their declarations and docstrings."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

from sfumato.measures.registry import MEASURES, REASONS, Measure
from sfumato.methods.base import BUILT_IN, method_class
from sfumato.params import options_of

WRITTEN = "Written by `make generated` from the code; do not edit by hand."
TESTED = "<!-- not run: tests/docs/test_examples.py runs the examples of all docstrings -->"

# the page of docs/theory that says what a measure claims, from which source; a method names its own
MEASURE_THEORY = {
    "fellegi-sunter": "attacks.md",
    "suppression": "attacks.md",
    "downcoding": "attacks.md",
    "linkage": "attacks.md",
    "imputation": "attacks.md",
    "known-mechanism": "attacks.md",
    "columnwise-groups": "attacks.md",
    "isolation": "attacks.md",
    "noise-stripping": "noise.md",
    "losses": "losses.md",
    "curves": "histories.md",
    "propensity": "losses.md",
    "models": "losses.md",
} | dict.fromkeys(
    (
        *("copies", "prediction", "reference", "boxes", "membership", "inference", "linkability", "singling-out"),
        *("moments", "marginals", "kernel-components"),
    ),
    "measures.md",
)


def markdown(text: str) -> str:
    """Return a docstring as Markdown: roles and double backticks become code."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def methods_page() -> str:
    """Return the page with all methods in one table."""
    lines = ["# Methods and their options", "", WRITTEN]
    lines += ["Terms are defined in the [glossary](../glossary.md). Which method runs on which engine is on the page"]
    lines += [
        "[methods and engines](engines.md).",
        "",
        "| method | name | what it does | theory |",
        "|---|---|---|---|",
    ]
    for name in BUILT_IN:
        kind = method_class(name)
        summary = markdown(inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
        theory = f"[theory](../theory/{kind.theory}.md)"
        lines.append(f"| [`{kind.__name__}`](methods/{name}.md) | `{name}` | {summary} | {theory} |")
    return "\n".join([*lines, "", *_navigation("methods")]) + "\n"


def method_page(name: str) -> str:
    """Return the page of one method: what it does, all its options, and an example."""
    kind = method_class(name)
    text = inspect.getdoc(kind) or ""
    before, _, examples = text.partition("\nExamples\n")
    summary = markdown(before.partition("\nParameters\n")[0]).strip()
    theory = f"[Theory and sources](../../theory/{kind.theory}.md), [all methods](../methods.md)."
    lines = [f"# {kind.__name__}", "", f"On the command line: `--method {name}`. {theory}", "", summary, ""]
    lines += ["## Options", "", "| option | value | meaning |", "|---|---|---|"]
    for one in options_of(kind):
        lines.append(f"| `{one.name}` | {one.range_and_default} | {one.declared.meaning} |")
    lines += ["", "## Example", "", TESTED, "```python", *examples.splitlines()[1:], "```", "", WRITTEN]
    return "\n".join(lines) + "\n"


def measures_page() -> str:
    """Return the page with all measures in one table."""
    lines = ["# Measures", "", WRITTEN]
    lines += [
        "`sf.assess` and `sf.release_and_assess` take all measures that are possible, or those of `measures=[…]`.",
        "",
    ]
    lines += ["| measure | of | needs | has a test |", "|---|---|---|---|"]
    for name, measure in MEASURES.items():
        family = measure.module.partition(".")[0]
        needs = REASONS[measure.needs].removeprefix("needs ") if measure.needs else "nothing else"
        lines.append(f"| [`{name}`](measures/{name}.md) | {family} | {needs} | {'yes' if measure.tests else 'no'} |")
    return "\n".join([*lines, "", *_navigation("measures")]) + "\n"


def measure_page(name: str) -> str:
    """Return the page of one measure: what it measures, and what it needs."""
    measure = MEASURES[name]
    needs = f"It {REASONS[measure.needs]}." if measure.needs and measure.needs != "boxes" else ""
    if measure.needs == "boxes":
        needs = "It needs a release with boxes."
    test = "It has a test, which a release passes or fails." if measure.tests else "It has no test."
    theory = f"[Theory and sources](../../theory/{MEASURE_THEORY[name]}), [all measures](../measures.md)."
    lines = [f"# {name}", "", f'A measure of {measure.module.partition(".")[0]}: `measures=["{name}"]`. {theory}', ""]
    lines += [markdown(_explanation(measure)), "", f"{needs} {test}".strip()]
    lines += ["", f"Code: `sfumato.measures.{measure.module}.{measure.function}`.", "", WRITTEN]
    return "\n".join(lines) + "\n"


def _explanation(measure: Measure) -> str:
    """Return the docstring of the measure's module or, where several measures share one, of its function."""
    module = import_module(f"sfumato.measures.{measure.module}")
    is_alone = sum(other.module == measure.module for other in MEASURES.values()) == 1
    return inspect.getdoc(module if is_alone else getattr(module, measure.function)) or ""


def _navigation(folder: str) -> list[str]:
    return ["```{toctree}", ":hidden:", ":glob:", "", f"{folder}/*", "```"]
