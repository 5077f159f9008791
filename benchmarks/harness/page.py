"""The page docs/benchmarks.md and the table of README.md, written from the history alone."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.case import Case, Figure, Goal, all_cases
from harness.history import BUSY, HISTORY, latest, median_of, read
from harness.measure import REPETITIONS

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "benchmarks.md"
README = REPOSITORY / "README.md"
BEGIN, END = "<!-- compared: written by make bench -->", "<!-- compared: end -->"
Record = Mapping[str, Any]

HEAD = """
    Written by `make bench` from what it measured (`benchmarks/history.jsonl`); do not edit by hand. Each run is a fresh
    process, and every rival has an environment of its own. Contenders take turns, three times, and the median is shown;
    ± is the largest difference between the runs. What takes longer than a minute is run once. Quality is counted
    again, from what was released, by code that uses none of the tools (`benchmarks/harness/recount.py`). The last
    column of each table divides by the first row: above 1 is more than ours.
"""
ADDING = """
    To add a case, add one file to `benchmarks/cases`. `make bench QUICK=1` takes at most five minutes, `make bench` at
    most forty, and `make bench-check` fails if a figure of ours is more than a fifth worse than before on the same
    machine. Longer studies, each with a page of its own, are in `benchmarks/studies` (`make bench-studies`).
"""


def page(history: Path = HISTORY) -> str:
    """Return the page of all cases that were measured."""
    newest, cases = latest(read(history)), all_cases()
    known = {name: case for name, case in cases.items() if name in newest}
    parts = [
        "# Compared in one run",
        "",
        *_lines(HEAD),
        "",
        *_lines(ADDING),
        "",
        "## Goals",
        "",
        *_goals(cases, newest),
    ]
    for name, case in known.items():
        parts += ["", f"## {case.title}", "", *_lines(case.about), "", *_lines(_measured_on([newest[name]])), ""]
        parts += _case(case, newest[name]["contenders"])
    return "\n".join(parts) + "\n"


def readme(text: str, history: Path = HISTORY) -> str:
    """Return the text of README.md with its comparison as the history says."""
    start, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    return f"{start}{BEGIN}\n{compared(history)}{END}{after}"


# A row of README.md: what is compared, the case, ours, the others, the figures. The first figure is quality, if any.
COMPARED = (
    ("Adult, 8 quasi-identifiers, k = 5", "adult_groups", "sfumato", ("anonypy", "anjana, 5 % suppressed"), "loss"),
    (
        "Adult with trees, k = 5, granularity (ours releases sets of values, ARX nodes)",
        "adult_trees",
        "sfumato, sets",
        ("ARX 3.9.2, local recoding, its best setting",),
        "granularity",
    ),
    ("a kept correlation, width", "kept_statistics", "sfumato", ("strict Mondrian",), "width"),
    (
        "k, ℓ, t of 325,610 × 8",
        "group_measures",
        "sfumato, nine measures",
        ("pycanon, k alone", "DuckDB, group-by"),
        "",
    ),
    ("Census, groups of 5, variance lost", "microaggregation", "sfumato, search", ("MDAV",), "Census 5"),
    ("1,000,000 numbers, groups of 10", "one_dimension", "sfumato", ("microagg1d",), "loss"),
    (
        "NIST, ten columns, k-marginal",
        "nist_ten_columns",
        "sfumato, private synthesis, ε = 1",
        ("AIM with ε = 1", "MST with ε = 1", "Gaussian copula"),
        "marginals",
    ),
)


def compared(history: Path = HISTORY) -> str:
    """Return the comparison of README.md: ours, others, and how many times our seconds they take."""
    newest, cases = latest(line for line in read(history) if not line["quick"]), all_cases()
    rows = []
    for title, name, ours, others, figure in COMPARED:
        if name not in newest:
            continue
        records = _with_published(cases[name], newest[name]["contenders"])
        cells = [_summary(cases[name], records, one, figure) for one in (ours, *others)]
        published = {one.name: " (published)" for one in cases[name].published}
        told = [f"{one}{published.get(one, '')}: {cell}" for one, cell in zip(others, cells[1:], strict=True)]
        rows.append((title, f"**{cells[0]}**", "; ".join(told)))
    if not rows:
        return "No full run has been measured yet.\n"
    said = _measured_on([newest[name] for _, name, *_ in COMPARED if name in newest])
    table = _table(("", "Sfumato", "others"), rows)
    return "\n".join([*table, "", *_lines(said), ""])


def _summary(case: Case, records: Sequence[Record], name: str, figure: str) -> str:
    """Return quality and processor seconds of a contender, or that there are none."""
    parts = []
    for one in [figure, "processor"] if figure else ["processor"]:
        value = median_of(records, name, one)
        if value is not None:
            unit = " s" if one == "processor" else ""
            parts.append(f"{value:{case.all_figures[one].form}}{unit}")
    return " in ".join(parts) or "–"


def _measured_on(lines: Sequence[Record]) -> str:
    """Say when and on what some cases were measured, and with which versions."""
    told: dict[str, dict[str, None]] = {}
    for line in lines:
        one = line["machine"]
        busy = f", while other programs ran (load {line['load']})" if line["load"] > BUSY else ""
        kind = "A quick run with fewer rows, measured" if line["quick"] else "Measured"
        hardware = f"{one['cores']} cores of {one['processor']} ({one['architecture']}), {one['memory']} GB"
        versions = told.setdefault(f"{kind} {line['date'].split()[0]} on {hardware}{busy}", {})
        versions |= dict.fromkeys([f"sfumato {line['sfumato']}", f"Python {line['python']}"])
        versions |= dict.fromkeys(f"{c['texts']['package']} {c['texts']['version']}" for c in _rivals(line))
    return " ".join(f"{where}: {', '.join(versions)}." for where, versions in told.items())


def _rivals(line: Record) -> list[Record]:
    return [one for one in line["contenders"] if one.get("texts", {}).get("version")]


def _with_published(case: Case, contenders: Sequence[Record]) -> list[Record]:
    """Return the measured and the published rows."""
    told = [
        {"name": one.name, "figures": {n: {"median": v, "spread": 0.0} for n, v in one.figures.items()}}
        for one in case.published
    ]
    return [*contenders, *told]


def _case(case: Case, contenders: Sequence[Record]) -> list[str]:
    """Return the table of a case, its published rows last, and what failed."""
    records = _with_published(case, contenders)
    shown = {
        name: figure
        for name, figure in case.all_figures.items()
        if any(median_of(records, one["name"], name) is not None for one in records)
    }
    rows = [
        (_named(one), *(_cell(one, name, figure) for name, figure in shown.items()), _ratios(case, records, one, shown))
        for one in records
        if one.get("figures")
    ]
    lines = _table(("", *(figure.title for figure in shown.values()), "÷ first row"), rows)
    sources = dict.fromkeys(one.source for one in case.published)
    notes = [f"- {'; '.join(p.name for p in case.published if p.source == one)}: {one}" for one in sources]
    notes += [f"- {one['name']}: {one['failure']}" for one in contenders if one.get("failure")]
    notes += [f"- {one['name']}: {one['texts']['said']}" for one in contenders if one.get("texts", {}).get("said")]
    return [*lines, *(["", *notes] if notes else [])]


def _named(record: Record) -> str:
    """Return the name of a contender, and how often it was run if not as often as the others."""
    runs = record.get("runs", REPETITIONS)
    return record["name"] if runs >= REPETITIONS else f"{record['name']} ({runs} run{'s' if runs > 1 else ''})"


def _cell(record: Record, name: str, figure: Figure) -> str:
    """Return a figure with its spread."""
    found = record["figures"].get(name)
    if found is None:
        return "–"
    median, spread = (format(found[one], figure.form) for one in ("median", "spread"))
    return f"{median} ± {spread}" if found["spread"] > 0.01 * abs(found["median"]) else median


def _ratios(case: Case, records: Sequence[Record], one: Record, shown: Mapping[str, Figure]) -> str:
    """Return each figure divided by that of the first row."""
    base, told = records[0], []
    for name, figure in shown.items():
        value, first = median_of([one], one["name"], name), median_of([base], base["name"], name)
        if figure.is_higher_better is not None and value is not None and first:
            told.append(f"{figure.title} {value / first:.3g}")
    return ", ".join(told) if one is not base else ""


def _goals(cases: Mapping[str, Case], newest: Mapping[str, Record]) -> list[str]:
    """Return the table of all goals: what was measured, divided by the goal, and what is said where it is missed."""
    rows = []
    for name, case in cases.items():
        for goal in case.goals:
            is_judged = name in newest and not newest[name]["quick"]  # a quick run has fewer rows than the goal
            rows.append(_goal(case, goal, newest[name]["contenders"] if is_judged else []))
    return _table(("goal", "measured", "÷ goal", "", "where it is missed: why, and what was tried"), rows)


def _goal(case: Case, goal: Goal, contenders: Sequence[Record]) -> tuple[str, ...]:
    figure, records = case.all_figures[goal.figure], _with_published(case, contenders)
    value = median_of(records, goal.of, goal.figure)
    base = 1.0 if goal.to is None else median_of(records, goal.to, goal.figure)
    least = "at least" if goal.is_at_least else "at most"
    of = f" times that of {goal.to}" if goal.to else ""
    told = f"{case.title}: {figure.title} of {goal.of} {least} {goal.limit:g}{of}"
    if value is None or not base:
        return told, "not measured yet", "–", "", ""
    ratio = value / (goal.limit * base)
    is_met = ratio >= 1.0 if goal.is_at_least else ratio <= 1.0
    return told, format(value, figure.form), f"{ratio:.3g}", "met" if is_met else "missed", "" if is_met else goal.said


def _lines(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (headings, ["---"] * len(headings), *rows)]


def write() -> None:
    """Write the page and the comparison of README.md."""
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
