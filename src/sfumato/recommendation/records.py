"""A recommendation: a method with options, reasons, the command, and the cost that a release of some rows predicts."""

from __future__ import annotations

import csv
import datetime
import io
import logging
import math
import re
import shlex
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from itertools import chain
from typing import TYPE_CHECKING, Any

from sfumato.errors import OptionError, SfumatoError
from sfumato.languages import ENGLISH, sentences
from sfumato.machine import CELL, COPIES, OWN
from sfumato.methods.base import make_method
from sfumato.params import plain
from sfumato.randomness import Randomness
from sfumato.report.reproduction import option_words
from sfumato.report.summary import shown_estimates
from sfumato.report.usefulness import measure_widths, width_word
from sfumato.schema.columns import Role
from sfumato.schema.schema import FittedTable, Schema
from sfumato.statistics.estimate import ROUNDING
from sfumato.statistics.units import MICROSECONDS_PER_DAY
from sfumato.table.table import draw_rows

if TYPE_CHECKING:
    from sfumato.comparison.records import ComparedMethod
    from sfumato.methods.base import Method
    from sfumato.recommendation.changes import ImprovementStep
    from sfumato.release.release import Release
    from sfumato.table.table import Table


def told_part(rows: int) -> str:
    """Return the sentence that not all rows were searched."""
    return f"{rows:,} random rows of the table were searched, because it is not in memory."


AT_MOST = re.compile(r"at most (\d*\.?\d+)")


@dataclass(frozen=True, kw_only=True)
class RiskLimit:
    """What a release must hold: all its privacy tests, or a largest risk."""

    at_most: float | None = None  # None: all privacy tests must pass

    @classmethod
    def parse(cls, text: str) -> RiskLimit:
        """Read "passes" or "at most 0.09"."""
        found = AT_MOST.fullmatch(text.strip()) if isinstance(text, str) else None
        if text != "passes" and found is None:
            raise OptionError('risk must be "passes" or, for example, "at most 0.09".', found=f"{text!r}")
        limit = None if found is None else float(found[1])
        if limit is not None and not 0.0 < limit < 1.0:
            raise OptionError("A risk must be between 0 and 1.", found=f"{limit:g}")
        return cls(at_most=limit)

    def holds(self, row: ComparedMethod) -> bool:
        """Whether a release holds it, by what was found on held-out people."""
        if self.at_most is None:
            return row.passed is True
        risk = row.largest_risk
        return risk is not None and risk <= self.at_most

    def __str__(self) -> str:
        return "all privacy tests pass" if self.at_most is None else f"the risk is at most {self.at_most:g}"


@dataclass(frozen=True, kw_only=True)
class ExpectedWidth:
    """How wide the guaranteed interval of a statistic is expected to be, in the unit of the statistic."""

    statistic: str
    width: float
    share: float | None = None  # half of it ÷ the spread of the columns; None if that is not known
    unit: str = ""  # "days" for dates; otherwise that of the statistic

    def __str__(self) -> str:
        return f"{self.statistic}: {self.text}"

    @property
    def text(self) -> str:
        """The width in words: "exact", or "about 2.02 wide (narrow)"."""
        if self.is_exact:
            return "exact"
        word = "" if self.share is None else f" ({width_word(self.share)})"
        return f"about {self.wide}{f' {self.unit}' if self.unit else ''} wide{word}"

    @property
    def wide(self) -> str:
        """The width in three digits."""
        return f"{self.width:,.0f}" if self.width >= 1000.0 else f"{self.width:.3g}"

    @property
    def is_exact(self) -> bool:
        """Whether nothing but rounding is left of the interval."""
        return self.width == 0.0 or (self.share is not None and self.share < ROUNDING)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a release is expected to cost, from a release of some of the rows."""

    seconds: float
    memory: int  # bytes
    widths: tuple[ExpectedWidth, ...]
    tried_rows: int  # rows that were released to find out; 0 if that failed
    note: str  # how the numbers were found


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Another method, and what speaks for it."""

    method: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """Columns that may be unknown to outsiders, and what the release gains if they are: a person decides."""

    columns: tuple[str, ...]
    command: str
    widths: tuple[ExpectedWidth, ...]


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """A recommended method, as :func:`sfumato.recommend` returns it.

    Attributes
    ----------
    method : str
        Registry name of the method.
    options : mapping
        Its options.
    reasons : tuple of str
        Why this method and these options, in sentences.
    command : str
        The command that makes the release.
    cost : Cost
        Expected time, memory and widths of intervals.
    alternatives : tuple of Alternative
        Other methods, and what speaks for them.
    unknown : Unknown or None
        Protected columns that outsiders may not know, the command that makes them sensitive, and the widths then.
    passed : bool or None
        Whether the method passed its privacy tests on held-out people. False if nothing that was tried did: then
        nothing is recommended, and ``method`` is what was chosen first. None if there are too few rows to test.
    verdict : str
        What the tests found, in a sentence.
    steps : tuple of ImprovementStep
        What was tested, with the privacy tests that failed.
    roles : mapping of str to str
        Roles that columns need for it and that differ from those of the table.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42] * 10, "income": [10.0, 12.0, 11.0, 30.0, 31.0, 35.0] * 10}
    >>> roles = {"age": "quasi", "income": "quasi"}
    >>> found = sf.recommend(people, keep=["mean(income)"], schema=roles, seconds=0)
    >>> found.to_method().k
    5
    """

    method: str
    options: Mapping[str, Any]
    reasons: tuple[str, ...]
    command: str
    cost: Cost
    alternatives: tuple[Alternative, ...]
    unknown: Unknown | None = None
    passed: bool | None = None
    verdict: str = ""
    steps: tuple[ImprovementStep, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)

    def to_method(self) -> Method:
        """Return the method with its options; its ``release`` makes the release."""
        return make_method(self.method, **self.options)

    def to_plain(self) -> dict[str, object]:
        """Return the recommendation as a dictionary that can be written as JSON."""
        return {
            "method": self.method,
            "options": {name: plain(value) for name, value in self.options.items()},
            "reasons": list(self.reasons),
            "command": self.command,
            "passed": self.passed,
            "verdict": self.verdict,
            "roles": dict(self.roles),
            "steps": [str(step) for step in self.steps],
            "cost": {
                "seconds": self.cost.seconds,
                "memory": self.cost.memory,
                "widths": _plain_widths(self.cost.widths),
                "tried_rows": self.cost.tried_rows,
                "note": self.cost.note,
            },
            "alternatives": [{"method": one.method, "reason": one.reason} for one in self.alternatives],
            "unknown": self.unknown
            and {
                "columns": list(self.unknown.columns),
                "command": self.unknown.command,
                "widths": _plain_widths(self.unknown.widths),
            },
        }

    def __str__(self) -> str:
        return self.text()

    def text(self, language: str = ENGLISH) -> str:
        """Return the recommendation as lines; commands and names stay; ``language`` is "en" (default), "de" or "fr"."""
        tell = sentences(language).tell
        cost = f"about {self.cost.seconds:.1f} s and {self.cost.memory / 1e9:.1f} GB of memory ({self.cost.note})"
        widths = [f"  {one.statistic}: {tell(one.text)}" for one in self.cost.widths]
        others = [f"  {one.method}: {tell(one.reason)}" for one in self.alternatives]
        refused = [tell("Nothing is recommended."), tell(self.verdict), "", tell("What was chosen first:")]
        return "\n".join(
            [
                *(refused if self.passed is False else []),
                self.command,
                "",
                *(f"- {tell(reason)}" for reason in self.reasons),
                *([f"- {tell(self.verdict)}"] if self.verdict and self.passed is not False else []),
                "",
                tell(f"Cost: {cost}"),
                *([tell("Guaranteed intervals:"), *widths] if widths else []),
                *(self._if_unknown(tell) if self.unknown else []),
                *([tell("Or:"), *others] if others else []),
            ]
        )

    def _if_unknown(self, tell: Callable[[str], str] = str) -> list[str]:
        assert self.unknown is not None
        before = {one.statistic: one for one in self.cost.widths}
        decide = (
            f"You decide: if nobody outside can know {', '.join(self.unknown.columns)}, make them sensitive (untested: "
            "the tests assume an intruder who knows everything):"
        )
        widths = (
            one.text
            + (f", instead of {was.wide}" if (was := before.get(one.statistic)) and was.width > one.width else "")
            for one in self.unknown.widths
        )
        told = (f"  {one.statistic}: {tell(text)}" for one, text in zip(self.unknown.widths, widths, strict=True))
        return ["", tell(decide), f"  {self.unknown.command}", *told, ""]

    def _repr_html_(self) -> str:
        """Show the command, the reasons, the cost and the alternatives in a notebook; no cells."""
        told = (*self.reasons, *([self.verdict] if self.verdict else []))
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in told)
        reasons = f"<p><strong>Nothing is recommended.</strong></p>{reasons}" if self.passed is False else reasons
        widths = "".join(f"<tr><td>{escape(one.statistic)}</td><td>{one.text}</td></tr>" for one in self.cost.widths)
        expected = f"<table><tr><th>statistic</th><th>expected width</th></tr>{widths}</table>" if widths else ""
        expected += f"<pre>{escape(chr(10).join(self._if_unknown()).strip())}</pre>" if self.unknown else ""
        others = "".join(
            f"<tr><td>{escape(one.method)}</td><td>{escape(one.reason)}</td></tr>" for one in self.alternatives
        )
        or_else = f"<table><tr><th>or</th><th></th></tr>{others}</table>" if others else ""
        cost = f"About {self.cost.seconds:.1f} s and {self.cost.memory / 1e9:.1f} GB of memory ({self.cost.note})."
        return f"<div><pre>{escape(self.command)}</pre><ul>{reasons}</ul><p>{escape(cost)}</p>{expected}{or_else}</div>"


def _plain_widths(widths: Sequence[ExpectedWidth]) -> list[dict[str, object]]:
    return [{"statistic": one.statistic, "width": plain(one.width), "share": plain(one.share)} for one in widths]


def quoted_name(name: str) -> str:
    """Return the name of a column as a list on the command line holds it: in quotes if it has a comma or a quote."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([name])
    return text.getvalue()


def command_line(file: str, method: str, options: Mapping[str, Any], arguments: Sequence[str]) -> str:
    """Return the command that releases a file with these options; ``arguments`` say how it is read and which roles."""
    words = ["sfumato", "release", file, *arguments, "-o", "out", "--method", method]
    return shlex.join(chain(words, *option_words(options)))


# What a release will cost, found by a release of some of the rows.
#
# Groups of k of n rows cover as much of a table as groups of k m / n of m sampled rows. The widths of intervals grow
# as (k / n)^(1/d) with d protected columns, which corrects for the rounding of k m / n; time grows as n log n.


TRIED, WARM = 4000, 200  # rows of the trial, and of a first one that compiles kernels
LEAST_K = 2


def expected_cost(method: str, options: Mapping[str, Any], sample: Table, schema: Schema, rows: int) -> Cost:
    """Release a random part of a sample of the table, and scale what it takes to all rows."""
    memory = OWN + rows * len(schema.columns) * CELL * COPIES
    tried = draw_rows(sample, TRIED, Randomness().stream("cost"))
    asked: int = options.get("k") or 0  # 0 for a method without groups
    k = max(LEAST_K, round(asked * tried.rows / rows)) if asked else 0
    smaller = dict(options) | ({"k": k} if k else {}) | ({"l": min(options["l"], k)} if k and options.get("l") else {})
    try:
        try_release(method, smaller, draw_rows(tried, WARM, Randomness().stream("warm")), schema)
        start = time.perf_counter()
        release = try_release(method, smaller, tried, schema)
        seconds = time.perf_counter() - start
    except SfumatoError as error:
        if tried.rows == rows:
            raise
        note = f"widths and time are not known: {error.message}"
        return Cost(seconds=math.nan, memory=memory, widths=(), tried_rows=0, note=note)
    growth = rows * math.log(rows + 1.0) / (tried.rows * math.log(tried.rows + 1.0))
    scale = (asked / rows * tried.rows / k) ** (1.0 / max(len(schema.names(Role.QUASI)), 1)) if k else 1.0
    whole = tried.rows == rows
    note = "from a release of all rows" if whole else f"from a release of {tried.rows:,} rows"
    return Cost(
        seconds=round(seconds * growth, 3),
        memory=memory,
        widths=_widths(release, scale),
        tried_rows=tried.rows,
        note=note,
    )


def try_release(method: str, options: Mapping[str, Any], table: Table, schema: Schema) -> Release:
    """Release some rows only to find out about them."""
    with hidden_steps(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_method(method, **options).release(FittedTable(table, schema), engine="memory", rows_not_people=True)


@contextmanager
def hidden_steps() -> Iterator[None]:
    """Hide the steps of trials: they are not the release that was asked for."""
    log = logging.getLogger("sfumato")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(level)


def _widths(release: Release, scale: float) -> tuple[ExpectedWidth, ...]:
    """Return the widths of the intervals of kept statistics, or else of means."""
    widths = []
    for one in measure_widths(release, shown_estimates(release)):
        estimate, share = one.estimate, None if one.width is None else one.width * scale
        width = (estimate.numbers.high - estimate.numbers.low) * scale
        if not math.isfinite(width):
            continue
        if isinstance(estimate.high, datetime.datetime):  # whose numbers are microseconds
            width /= MICROSECONDS_PER_DAY
        unit = "days" if estimate.unit == "date" else ""
        widths.append(ExpectedWidth(statistic=estimate.name, width=width, share=share, unit=unit))
    return tuple(widths)
