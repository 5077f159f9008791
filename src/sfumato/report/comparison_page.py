"""The page of a comparison: the risk–utility maps and a table of all methods, in one file that loads no other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.report.html import environment
from sfumato.report.number_texts import decimals
from sfumato.report.risk_utility_map import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, colours_of, drawn

if TYPE_CHECKING:
    from sfumato.comparison.records import ComparedMethod, Comparison

MOST_NAMED = 6  # methods that the first sentence names


def render(comparison: Comparison) -> str:
    """Render the page; it shows scores, options and names of methods, and no cell."""
    made = environment()
    made.filters.update(share=partial(decimals, unknown="not measured"))
    return made.get_template("comparison.html.j2").render(**map_context(comparison))


def map_context(comparison: Comparison, numbers: Sequence[int] | None = None) -> dict[str, Any]:
    """Return what the template of the maps shows; ``numbers`` of the trials, if they are not 1, 2, 3, …"""
    rows = comparison.rows
    return {
        "comparison": comparison,
        "verdict": verdict(comparison),
        "maps": (
            (
                "Risk against people who never took part",
                "How much better people are recognised in the release than among other people: 0 means no better. "
                f"About {chance(comparison):.2f} is seen by chance.",
                drawn(rows, lambda row: row.reference_risk, numbers),
            ),
            (
                "Risk by the worst attack",
                "How much the best of all attacks gains over guessing, with 95 % confidence: 0 means nothing.",
                drawn(rows, lambda row: row.attack_risk, numbers),
            ),
        ),
        "numbered": list(zip(numbers or range(1, len(rows) + 1), rows, strict=True)),
        "colours": colours_of(rows),
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "top": TOP,
        "bottom": HEIGHT - BOTTOM,
    }


def chance(comparison: Comparison) -> float:
    """Return the mean risk against others of a release that is a sample of others: a one-sided shift by chance.

    The mean of the one-sided Kolmogorov–Smirnov statistic of two samples of n rows is about √(π/8) √(2/n).
    """
    rows = min(comparison.original_rows, comparison.reference_rows)
    return math.sqrt(math.pi / 8.0) * math.sqrt(2.0 / max(rows, 1))


def verdict(comparison: Comparison) -> str:
    """Return the result in a sentence: which methods are not beaten, and which of them promise privacy."""
    best = comparison.best
    if not best:
        return "No method could be placed on the map."
    promising = [row for row in best if row.guarantee and row.guarantee != "no guarantee"]
    tested = [row for row in best if row.assessment is not None and row.assessment.passed]
    parts = [f"{len(best)} of {len(comparison.rows)} trials are not beaten by another one: {_named(best)}."]
    parts.append(
        f"Of these, {_named(promising)} promise{'s' if len(promising) == 1 else ''} privacy."
        if promising
        else "None of these promises privacy."
    )
    parts.append(
        f"{_named(tested)} passed all tests of the assessment." if tested else "None of these passed all tests."
    )
    return " ".join(parts)


def _named(rows: tuple[ComparedMethod, ...] | list[ComparedMethod]) -> str:
    names = [f"{row.method} ({row.strength})" if row.strength else row.method for row in rows]
    more = len(names) - MOST_NAMED
    shown = names if more <= 1 else [*names[:MOST_NAMED], f"{more} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
