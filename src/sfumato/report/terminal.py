"""What the commands show: plain tables, made for reading."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from sfumato.report.summary import treatment
from sfumato.schema.schema import Role

if TYPE_CHECKING:
    from sfumato.disclosure.inspection import Inspection
    from sfumato.disclosure.quasi_identifiers import QuasiIdentifiers
    from sfumato.measures.assess import Assessment
    from sfumato.measures.privacy.prediction import Exposed
    from sfumato.methods.boxes.rules import RuleEffect
    from sfumato.methods.boxes.search import SearchTrace
    from sfumato.methods.claims import Finding
    from sfumato.release.manifest import Manifest
    from sfumato.statistics.estimate import Estimate

ROLE_STYLE = {
    Role.IDENTIFIER: "red",
    Role.QUASI: "yellow",
    Role.SENSITIVE: "magenta",
    Role.OTHER: "default",
    Role.WEIGHT: "default",
}


def inspection(found: Inspection) -> RenderableType:
    """Kinds, roles with reasons, missing and distinct values, and how far columns single people out."""
    grid = _grid("column", "kind", "role", ">missing", ">distinct", ">alone", "why")
    for column in found.columns:
        grid.add_row(
            Text(column.name, style="bold"),
            str(column.kind),
            Text(str(column.role), style=ROLE_STYLE[column.role]),
            f"{column.missing:,}",
            f"{column.distinct:,}",
            f"{column.unique_rows:,}",
            Text(column.reason, style="dim"),
        )
    together = (
        f"{len(found.quasi)} quasi-identifiers together: {found.unique_rows:,} of {found.rows:,} rows stand alone "
        f"({found.unique_share:.1%}), {found.groups:,} combinations, the rarest with {found.smallest_group:,} rows."
        if found.quasi
        else "No column is a quasi-identifier."
    )
    return Group(grid, Text(together))


def identifying(found: QuasiIdentifiers, *, at_most: int = 12) -> RenderableType:
    """The smallest sets of columns that identify people, with the reason in words; the first ``at_most`` of them."""
    if not found.found:
        return Text(f"\nNo set of up to {found.max_size} quasi-identifiers singles out {found.alpha:.0%} of people.")
    lines = [
        Text(f"\n{len(found)} smallest sets of up to {found.max_size} columns single out {found.alpha:.0%} of people:")
    ]
    lines += [Text(f"· {reason}") for reason in found.reasons[:at_most]]
    if len(found) > at_most:
        lines.append(Text(f"… and {len(found) - at_most:,} more (--json lists them)", style="dim"))
    return Group(*lines)


def findings(measured: Sequence[Finding]) -> RenderableType:
    """Promises and what was found on the released rows."""
    grid = _grid("", "promise", "found")
    for finding in measured:
        mark = Text("kept", style="green") if finding.held else Text("broken", style="bold red")
        grid.add_row(mark, Text(finding.claim), Text(finding.found))
    return grid


def treatments(manifest: Manifest) -> RenderableType:
    """What became of each column."""
    released = [column.name for column in manifest.released]
    grid = _grid("column", "kind", "role", "leaves as")
    for column in manifest.columns:
        role = Text(str(column.role), style=ROLE_STYLE[column.role])
        grid.add_row(
            column.name, str(column.kind), role, treatment(column.name, column.role, released, manifest.altered)
        )
    return grid


def estimates(estimated: Sequence[Estimate], truths: Mapping[str, float] | None = None) -> RenderableType:
    """Statistics with their intervals and, where it is known, the true value.

    The gap is the share of the guaranteed interval that is not known to be attained.
    """
    grid = _grid(
        "statistic", *([">true value"] if truths else []), ">value", ">guaranteed", ">gap", ">first order", ">rows"
    )
    for estimate in estimated:
        truth = [number(truths.get(estimate.name, math.nan))] if truths else []
        grid.add_row(
            Text(estimate.name, style="bold"),
            *truth,
            number(estimate.value),
            interval(estimate.low, estimate.high),
            f"{estimate.gap:.1%}",
            interval(estimate.linear_low, estimate.linear_high),
            f"{estimate.records:,}",
        )
    return grid


def weightings(estimated: Sequence[Estimate]) -> RenderableType:
    """What weighting the records did: less error, fewer records, another statistic."""
    grid = _grid("statistic", ">all records", ">weighted", ">shift", ">error of all", ">weighted", ">records weighted")
    for estimate in estimated:
        effect = estimate.weighting
        if effect is not None:
            grid.add_row(
                Text(estimate.name, style="bold"),
                *map(number, (effect.whole_value, effect.value, effect.shift, effect.whole_error, effect.error)),
                f"{effect.records:,.0f}",
            )
    told = (
        "Error: linear half-width plus sampling error, without the shift. Weighted records are not the whole table; "
        "the guaranteed interval is that of the whole table."
    )
    return Group(grid, Text(told, style="dim"))


def searches(traces: Sequence[SearchTrace]) -> RenderableType:
    """What a search gained, statistic by statistic where their exact widths were followed."""
    lines: list[RenderableType] = []
    for trace in traces:
        grid = _grid("search", ">width before", ">after", ">narrower by")
        for before, after in zip(trace.widths_before, trace.widths_after, strict=True):
            share = 1.0 - after.width / before.width if before.width > 0.0 else 0.0
            grid.add_row(Text(before.name, style="bold"), number(before.width), number(after.width), f"{share:.1%}")
        told = (
            f"{trace.rounds:,} rounds in {trace.seconds:.0f} s, ended by "
            f"{'its budget' if trace.stop == 'budget' else 'an interrupt'}: {trace.gain:.1%} narrower by importance"
        )
        lines += [grid] if trace.widths_before else []
        lines += [Text(told, style="dim")]
    return Group(*lines)


def rules(effects: Sequence[RuleEffect]) -> RenderableType:
    """What each expert rule did to the boxes of its column."""
    grid = _grid("rule", ">mean factor", ">records touched", ">width without rules", ">with", ">change")
    for effect in effects:
        grid.add_row(
            Text(effect.rule, style="bold"),
            f"{effect.mean_factor:.2f}",
            f"{effect.touched:.0%}",
            number(effect.width_without),
            number(effect.width_with),
            f"{effect.change:+.0%}",
        )
    return grid


def assessment(judged: Assessment) -> RenderableType:
    """What was measured of a release, line by line."""
    return Text(str(judged), no_wrap=True, overflow="ignore")


def exposed(people: Sequence[Exposed]) -> RenderableType:
    """The people to whom a release comes nearest, by their rows."""
    grid = _grid(">row of the original", ">to the release", ">to the others", ">ratio", ">ambiguity", ">uncertainty")
    for one in people:
        numbers = (one.distance, one.distance_to_others, one.ratio, one.ambiguity, one.uncertainty)
        grid.add_row(f"{one.row:,}", *map(number, numbers))
    return grid


def number(value: float) -> str:
    """Five figures; a dash for what is not defined."""
    return "–" if math.isnan(value) else f"{value:.5g}".replace("inf", "∞")


def interval(low: float, high: float) -> str:
    """Two ends."""
    return f"{number(low)} … {number(high)}"


def _grid(*headings: str) -> Grid:
    """A light table; a heading that starts with > stands over numbers."""
    grid = Grid(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        right = heading.startswith(">")
        grid.add_column(heading.removeprefix(">"), justify="right" if right else "left", overflow="fold")
    return grid
