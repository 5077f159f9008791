"""One trial: the table of a seed, a method with options of the same seed, and a verdict on what came out."""

from __future__ import annotations

import csv
import re
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import sfumato as sf
from sfumato.release.read import read_release, verify_bundle
from sfumato.report.html import Report
from tests.fuzz.case import Case
from tests.fuzz.options import build, made_method
from tests.fuzz.promises import broken_promises, traces
from tests.fuzz.tables import Original, original
from tests.fuzz.truths import Question, composed_question, other_text, questions, slope_question

HELD, REFUSED, BROKEN, FOREIGN, WARNED = "held", "refused", "broken", "foreign", "warned"
GOOD = (HELD, REFUSED)
FAULT = "the method has a fault"  # the library's own words for a promise that its recount found broken
FITS, OTHERS = 0.2, 0.6  # share of the releases to which a regression is fitted, and of which a test or table is asked
BUNDLES, REPORTS, CHANGED = 0.1, 0.01, 0.03  # share of the releases that are written, with a report, and changed


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one seed."""

    seed: int
    method: str
    verdict: str  # one of HELD, REFUSED, BROKEN, FOREIGN, WARNED
    detail: str = ""  # what is wrong, or why it was refused
    seconds: float = 0.0  # of the processor


def trial(seed: int) -> Outcome:
    """Try one seed."""
    started = time.process_time()
    numbers = np.random.default_rng([77, seed])
    table = original(seed)
    name, options = made_method(numbers, table)
    with warnings.catch_warnings(record=True) as caught, tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("always")
        verdict, detail = judged(table, name, options, numbers, Path(folder))
    if verdict in GOOD:
        verdict, detail = _with_warnings(verdict, detail, caught)
    return Outcome(seed=seed, method=name, verdict=verdict, detail=detail, seconds=time.process_time() - started)


def judged(
    table: Original, name: str, options: dict[str, Any], numbers: np.random.Generator, folder: Path
) -> tuple[str, str]:
    """Release the table and judge the rows, the intervals and sometimes the bundle."""
    try:
        method = build(name, options)
        given = {"schema": table.schema(folder), "seed": table.seed, "rows_not_people": True}
        release = method.release(table.frame(), **given)
    except sf.SfumatoError as refused:
        return _refusal(refused)
    except Exception as error:
        return FOREIGN, _last_lines(error)
    try:
        faults = faults_of(Case(table, method, release), numbers, folder)
    except Exception as error:  # what was released must be readable, so an error of the library is none the better
        return FOREIGN, _last_lines(error)
    return (BROKEN, "; ".join(faults)) if faults else (HELD, "")


def _last_lines(error: Exception) -> str:
    return "".join(traceback.format_exception(error)[-4:])


def faults_of(case: Case, numbers: np.random.Generator, folder: Path) -> list[str]:
    """All that is wrong with a release."""
    faults = broken_promises(case)
    for question in questions(numbers, case.original, 3):
        faults += interval_faults(case, question)
    more = np.random.default_rng([78, case.original.seed])  # numbers of their own, so that older seeds stay the same
    composed = composed_question(more, case.original)
    faults += [] if composed is None else interval_faults(case, composed)
    slope = slope_question(more, case.original) if more.random() < FITS else None
    faults += [] if slope is None else interval_faults(case, slope)
    text = other_text(more, case.original) if more.random() < OTHERS else None
    faults += [] if text is None else refusal_faults(case, text)
    if numbers.random() < BUNDLES:
        faults += bundle_faults(case, folder, with_report=bool(numbers.random() < REPORTS / BUNDLES))
        if numbers.random() < CHANGED / BUNDLES:
            faults += unnoticed_changes(folder / "out")
    return faults


def interval_faults(case: Case, question: Question) -> list[str]:
    """Whether the guaranteed interval of a statistic holds its true value, and what is said to be attained."""
    if any(name not in case.release.names for name in question.columns):
        return []
    try:
        estimate = ask(case, question)
    except sf.SfumatoError as refused:
        return [f"{question.text}: {trace}" for trace in traces(str(refused)) if not list(traces(question.text))]
    if estimate is None:
        return []
    manifest = case.release.manifest
    with_ranges = {name for name in manifest.altered if f"{name}_low" in case.released}  # sampling weights of boxes
    if set(question.columns) & (set(manifest.altered) - set(manifest.nodes) - with_ranges):
        if estimate.low == -np.inf and estimate.high == np.inf:
            return []
        if not any(note.startswith("certain") for note in estimate.notes):  # it must say what the method kept
            return [f"{question.text}: an altered column is certain"]
    counted = _counted_rows(case, estimate)
    if counted is None:
        return []
    weights = np.ones(case.original.rows) if estimate.weighted_by is None else case.numbers(estimate.weighted_by)
    with np.errstate(all="ignore"):
        truth = question.truth(counted, weights.astype(np.longdouble))
    if not np.isfinite(truth):
        return []
    allowed = 1e-12 * abs(truth) + 1e-300
    inner = (estimate.inner_low, estimate.inner_high) if isinstance(estimate, sf.Estimate) else ()
    attained = [end for end in inner if np.isfinite(end)]
    slack = 1e-9 * max(map(abs, (estimate.low, estimate.high, *attained)))
    if attained and not estimate.low - slack <= min(attained) <= max(attained) <= estimate.high + slack:
        return [f"{question.text} is said to attain {attained}, guaranteed {estimate.low!r} … {estimate.high!r}"]
    if estimate.low - allowed <= truth <= estimate.high + allowed:
        return []
    return [f"{question.text} is {truth!r}, guaranteed {estimate.low!r} … {estimate.high!r} ({estimate.of})"]


def refusal_faults(case: Case, text: str) -> list[str]:
    """Whether a statistic is computed, or refused without a cell."""
    try:
        case.release.estimate(text, confidence=0.9, budget=sf.EstimateBudget(seconds=0.05))
    except sf.SfumatoError as refused:
        return [f"{text}: {trace}" for trace in traces(str(refused)) if not list(traces(text))]
    return []


def ask(case: Case, question: Question) -> Any:
    """The estimate of a statistic or, for a formula, of its slope."""
    asked: dict[str, Any] = {"unweighted": not question.weighted, "budget": sf.EstimateBudget(seconds=0.05)}
    if "~" in question.text:
        fit = case.release.fit(question.text, **asked)
        return fit.coefficients[1] if len(fit) == 2 else None  # whole numbers may be codes, with a term for each
    return case.release.estimate(question.text, confidence=question.confidence, **asked).numbers


def _counted_rows(case: Case, estimate: Any) -> NDArray[np.bool_] | None:
    """The original rows that an estimate speaks of; None where the release does not tell which were suppressed."""
    if estimate.of == "original" or case.rows == case.original.rows:
        return np.ones(case.original.rows, dtype=bool)
    return None if case.origin is None else np.isin(np.arange(case.original.rows), case.origin)


def bundle_faults(case: Case, folder: Path, *, with_report: bool) -> list[str]:
    """Whether a written release reads back, is verified, and shows no planted cell."""
    written = case.release.write(
        folder / "out", **({} if with_report else {"report": Report(page="<p>none</p>", numbers="{}")})
    )
    faults = []
    rows = case.release.table.arrow
    if not read_release(written).table.arrow.cast(rows.schema).equals(rows):  # Parquet has no whole seconds
        faults.append("bundle: other rows are read back")
    if not verify_bundle(written).holds:
        faults.append("bundle: it does not verify")
    for name in (
        "report.html",
        "report.json",
        "codebook.csv",
        "README.txt",
        "promises.sql",
    ):  # of the manifest see ``promises.py``
        faults += [f"{name}: {trace}" for trace in traces((written / name).read_text(), words_only=True)]
    text = (written / "released.csv").read_text()
    if any(cell in text for cell in case.original.identifying):
        faults.append("released.csv: a cell of an identifier")
    lines = list(csv.reader(text.splitlines(keepends=True)))
    if len(lines) != case.rows + 1 and len(case.released) > 1:
        faults.append("released.csv: another number of lines")
    return faults


def unnoticed_changes(folder: Path) -> list[str]:
    """Change a cell of a written release; the change must be noticed."""
    rows = pq.read_table(folder / "released.parquet")
    changed = pa.concat_tables([rows.slice(1), rows.slice(rows.num_rows - 1)])  # one row less, another one twice
    if changed.equals(rows):
        return []
    pq.write_table(changed, folder / "released.parquet")
    try:
        return ["bundle: a changed row is not noticed"] if verify_bundle(folder).holds else []
    except sf.SfumatoError:
        return []


def _refusal(error: sf.SfumatoError) -> tuple[str, str]:
    shown = "".join(traceback.format_exception(error)) + repr(vars(error))
    if list(traces(shown)):
        return BROKEN, f"an error quotes a cell: {type(error).__name__}: {error}"
    if FAULT in str(error):
        return BROKEN, f"{type(error).__name__}: {error}"
    return REFUSED, f"{type(error).__name__}: {re.sub(r'[0-9][0-9,.]*', '#', str(error))}"


def _with_warnings(verdict: str, detail: str, caught: list[warnings.WarningMessage]) -> tuple[str, str]:
    for warning in caught:
        if not issubclass(warning.category, sf.SfumatoWarning):
            place = f"{Path(warning.filename).name}:{warning.lineno}"
            return WARNED, f"{warning.category.__name__} at {place}: {warning.message}"
        if list(traces(str(warning.message))):
            return BROKEN, "a warning quotes a cell"
    return verdict, detail
