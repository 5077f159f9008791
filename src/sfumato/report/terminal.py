"""What the commands show: plain tables, made for reading."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from sfumato.params import options_of
from sfumato.report.summary import treatment
from sfumato.schema.columns import Role

if TYPE_CHECKING:
    from sfumato.disclosure.inspection import Inspection
    from sfumato.disclosure.quasi_identifiers import QuasiIdentifiers
    from sfumato.measures.assess import Assessment
    from sfumato.measures.privacy.prediction import Exposed
    from sfumato.methods.base import Method
    from sfumato.methods.claims import Finding
    from sfumato.methods.diagnostics import RuleEffect, SearchTrace
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


def methods(classes: Sequence[type[Method]]) -> RenderableType:
    """All methods, one line per method."""
    grid = _grid("method", "class", "what it does")
    for kind in classes:
        grid.add_row(Text(kind.name, style="bold"), kind.__name__, (kind.__doc__ or "").partition("\n\n")[0])
    return grid


def method(kind: type[Method]) -> RenderableType:
    """One method with all its options."""
    grid = _grid("option", "value", "meaning")
    for one in options_of(kind):
        grid.add_row(Text(one.name, style="bold"), one.range_and_default, one.declared.meaning)
    summary = (kind.__doc__ or "").partition("\nParameters\n")[0].strip()
    return Group(Text(f"{kind.name} ({kind.__name__})\n\n{summary}\n"), grid)


def findings(measured: Sequence[Finding]) -> RenderableType:
    """Promises and what was found on the released rows; what is promised about privacy comes first."""
    grid = _grid("", "about", "promise", "found")
    if not any(finding.kind == "privacy" for finding in measured):
        grid.add_row(Text("none", style="bold red"), "privacy", "no guarantee", "assess the release before it is used")
    for finding in sorted(measured, key=lambda one: one.kind != "privacy"):
        mark = Text("kept", style="green") if finding.held else Text("broken", style="bold red")
        grid.add_row(mark, finding.kind, Text(finding.claim), Text(finding.found))
    return grid


def treatments(manifest: Manifest) -> RenderableType:
    """How each column is released."""
    grid = _grid("column", "kind", "role", "released as")
    for column in manifest.columns:
        role = Text(str(column.role), style=ROLE_STYLE[column.role])
        grid.add_row(column.name, str(column.kind), role, treatment(column, manifest))
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


def reweightings(estimated: Sequence[Estimate]) -> RenderableType:
    """What reweighting the records did: less error, fewer records, a shifted statistic."""
    grid = _grid("statistic", ">all records", ">reweighted", ">shift", ">error of all", ">reweighted", ">records used")
    for estimate in estimated:
        effect = estimate.reweighting
        if effect is not None:
            grid.add_row(
                Text(estimate.name, style="bold"),
                *map(number, (effect.whole_value, effect.value, effect.shift, effect.whole_error, effect.error)),
                f"{effect.records:,.0f}",
            )
    note = (
        "Error: linear half-width plus sampling error, without the shift. Reweighted records are not the whole table; "
        "the guaranteed interval is that of the whole table."
    )
    return Group(grid, Text(note, style="dim"))


def searches(traces: Sequence[SearchTrace]) -> RenderableType:
    """What a search gained, statistic by statistic where their exact widths were followed."""
    lines: list[RenderableType] = []
    for trace in traces:
        grid = _grid("search", ">width before", ">after", ">narrower by")
        for before, after in zip(trace.widths_before, trace.widths_after, strict=True):
            share = 1.0 - after.width / before.width if before.width > 0.0 else 0.0
            grid.add_row(Text(before.name, style="bold"), number(before.width), number(after.width), f"{share:.1%}")
        note = (
            f"{trace.rounds:,} rounds in {trace.seconds:.0f} s, ended by "
            f"{'its budget' if trace.stop == 'budget' else 'an interrupt'}: {trace.gain:.1%} narrower by importance"
        )
        lines += [grid] if trace.widths_before else []
        lines += [Text(note, style="dim")]
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
