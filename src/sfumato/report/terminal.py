"""Terminal output of the commands, as plain tables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from sfumato.params import options_of
from sfumato.release.manifest import NO_GUARANTEE
from sfumato.report.summary import NOT_COUNTED, NOT_PROMISED, privacy_first, treatment
from sfumato.schema.columns import Role
from sfumato.statistics.estimate import interval, quantity

if TYPE_CHECKING:
    from sfumato.measures.privacy.prediction import Exposed
    from sfumato.methods.base import Method
    from sfumato.plan.plan import Finding, RuleEffect, SearchTrace
    from sfumato.release.assessment import Assessment
    from sfumato.release.bundle_check import BundleCheck
    from sfumato.release.manifest import Manifest
    from sfumato.report.usefulness import Usefulness
    from sfumato.risk.group_models import GroupModels
    from sfumato.risk.inspection import Inspection
    from sfumato.risk.population import PopulationUniqueness
    from sfumato.risk.quasi_identifiers import QuasiIdentifiers
    from sfumato.statistics.estimate import Estimate, RecoveredEstimate

ROLE_STYLE = {
    Role.IDENTIFIER: "red",
    Role.PERSON: "red",
    Role.HOUSEHOLD: "red",
    Role.QUASI: "yellow",
    Role.SENSITIVE: "magenta",
    Role.OTHER: "default",
    Role.WEIGHT: "default",
}

MOST_COLUMNS = 200  # more are hard to read and slow to print


def inspection(table: Inspection, *, at_most: int = MOST_COLUMNS) -> RenderableType:
    """Show kinds, roles with reasons, missing, distinct and unique values, and how many rows are unique in all.

    Only the first ``at_most`` columns are shown.
    """
    grid = _grid("column", "kind", "role", ">missing", ">distinct", ">unique", "reason for the role")
    for column in table.columns[:at_most]:
        grid.add_row(
            Text(column.name, style="bold"),
            str(column.kind),
            Text(str(column.role), style=ROLE_STYLE[column.role]),
            *(
                "–" if count is None else f"{count:,}"
                for count in (column.missing, column.distinct, column.unique_rows)
            ),
            Text(column.reason, style="dim"),
        )
    lines = [Text(f"… and {len(table.columns) - at_most:,} more columns (--json lists them)", style="dim")]
    lines = lines if len(table.columns) > at_most else []
    if table.not_counted:
        lines.append(Text(f"{len(table.not_counted):,} columns were not counted because the time was up (--seconds)."))
    return Group(grid, *lines, Text(_together(table)))


def _together(table: Inspection) -> str:
    if not table.quasi:
        return "No column is a quasi-identifier."
    if table.unique_rows is None:
        return f"{len(table.quasi):,} quasi-identifiers; how many rows they make unique was not counted in time."
    if table.people is not None:
        share = (table.unique_people or 0) / max(table.people, 1)
        return (
            f"{table.people:,} people in {table.rows:,} rows. {len(table.quasi)} quasi-identifiers together: "
            f"{table.unique_people:,} of {table.people:,} people ({share:.1%}) have a combination that nobody else "
            f"has; {table.groups:,} combinations."
        )
    return (
        f"{len(table.quasi)} quasi-identifiers together: {table.unique_rows:,} of {table.rows:,} rows are unique "
        f"({table.unique_share:.1%}); {table.groups:,} combinations, smallest group {table.smallest_group:,}."
    )


def identifying(sets: QuasiIdentifiers, *, at_most: int = 12) -> RenderableType:
    """Show the first ``at_most`` minimal sets of columns that identify people, with reasons, and what was searched."""
    size = sets.max_size if sets.complete else max(sets.covered_size, *(len(one.columns) for one in sets), 0)
    if sets.found:
        count = "1 minimal set" if len(sets) == 1 else f"{len(sets):,} minimal sets"
        columns = "1 column singles" if size == 1 else f"{size} columns single"
        head = f"\n{count} of up to {columns} out {sets.alpha:.0%} of people:"
    elif sets.complete:
        head = f"\nNo set of up to {size} quasi-identifiers singles out {sets.alpha:.0%} of people."
    else:
        head = f"\nNo set that was searched singles out {sets.alpha:.0%} of people."
    shown = [sets[position].reason(sets.alpha, sets.by) for position in range(min(at_most, len(sets)))]
    lines = [Text(head), *(Text(f"· {reason}") for reason in shown)]
    if len(sets) > at_most:
        lines.append(Text(f"… and {len(sets) - at_most:,} more (--json lists them)", style="dim"))
    if not sets.complete:
        lines.append(Text(f"{sets.coverage} --seconds gives more time; --max-size limits the size of the sets."))
    return Group(*lines)


def group_models(risks: GroupModels, people: PopulationUniqueness | None = None) -> RenderableType:
    """Show which privacy models a table satisfies, and how many people of a population are unique."""
    people_text = "" if risks.people is None else f" counted in people, {risks.people:,} people with"
    k = (
        f"k-anonymous up to k = {risks.k:,}{people_text or ':'} {risks.rows:,} rows in {risks.groups:,} groups, "
        f"{len(risks.quasi)} columns"
    )
    below = ", ".join(f"{risks.rows_failing(k=size):,} below {size}" for size in (2, 5, 10))
    lines: list[RenderableType] = [Text(k, style="bold"), Text(f"Rows in groups {below}.")]
    if people is not None:
        share = f"{people.unique_share:.2%} of {people.population:,} people"
        lines.append(
            Text(f"About {people.unique_people:,.0f} people are unique, {share} (estimator: {people.estimator}).")
        )
    if not risks.columns:
        return Group(*lines, Text("No sensitive column: --sensitive names those that an intruder wants to learn."))
    grid = _grid(
        "sensitive", ">values", ">ℓ", ">entropy ℓ", ">c, ℓ = 2", ">t", "distance", ">α", ">β", ">δ", ">disclosed rows"
    )
    for one in risks.columns:
        numbers = (one.entropy_l, one.recursive_cl.get(2, math.inf), one.t, one.alpha, one.beta, one.delta)
        entropy, c, t, alpha, beta, delta = (f"{number:.3g}" for number in numbers)
        alike = f"{one.disclosed_rows:,}"
        name = Text(one.column, style="bold")
        grid.add_row(
            name, f"{one.values:,}", str(one.distinct_l), entropy, c, t, one.distance, alpha, beta, delta, alike
        )
    l = f"distinct ℓ-diverse up to ℓ = {risks.distinct_l}, entropy ℓ-diverse up to ℓ = {risks.entropy_l:.3g}, "
    return Group(*lines, Text(f"{l}t-close from t = {risks.t:.3g} on", style="bold"), grid)


def methods(classes: Sequence[type[Method]]) -> RenderableType:
    """Show all methods, one line per method."""
    grid = _grid("method", "class", "what it does")
    for kind in classes:
        summary = (kind.__doc__ or "").partition("\n\n")[0]
        grid.add_row(Text(kind.name, style="bold"), kind.__name__, Text(_without_markup(summary)))
    return grid


def method(kind: type[Method]) -> RenderableType:
    """Show one method with all its options."""
    grid = _grid("option", "value", "meaning")
    for one in options_of(kind):
        grid.add_row(Text(one.name, style="bold"), one.range_and_default, one.declared.meaning)
    summary = (kind.__doc__ or "").partition("\nParameters\n")[0].strip()
    return Group(Text(f"{kind.name} ({kind.__name__})\n\n{_without_markup(summary)}\n"), grid)


def findings(measured: Sequence[Finding]) -> RenderableType:
    """Show the promises and what was found on the released rows, privacy first."""
    grid = _grid("", "kind", "promise", "found")
    if not any(finding.kind == "privacy" for finding in measured):
        warning = Text(NO_GUARANTEE, style="bold red")
        grid.add_row(Text("none", style="bold red"), "privacy", warning, Text(NOT_PROMISED))
    for finding in privacy_first(measured):
        mark = Text("kept", style="green") if finding.held else Text("broken", style="bold red")
        grid.add_row(mark, finding.kind, Text(finding.claim), Text(finding.found))
    return grid


AS_LISTED = (
    "as listed: the file has the checksum in manifest.json, which whoever changed both could have written; what it "
    "says was not recounted. Rely on the rows and on the recounted promises."
)


def bundle(checked: BundleCheck) -> RenderableType:
    """Show the files of a bundle and its promises: recounted, or verified when the release was made."""
    files = _grid("", "file")
    for file in checked.files:
        is_listed = file.state == "unchanged"
        shown = "as listed" if is_listed and not file.recounted else file.state
        files.add_row(
            Text(shown, style=("green" if file.recounted else "dim") if is_listed else "bold red"), Text(file.name)
        )
    promises = _grid("", "kind", "promise", "found")
    for finding in privacy_first(checked.recounted):
        mark = Text("recounted", style="green") if finding.held else Text("broken", style="bold red")
        promises.add_row(mark, finding.kind, Text(finding.claim), Text(finding.found))
    for finding in checked.by_rows:
        mark = Text("recounted", style="green" if finding.held else "bold red")
        claim = Text(f"{finding.claim}, in rows: people are not told apart here")
        promises.add_row(mark, finding.kind, claim, Text(finding.found))
    for finding in privacy_first(checked.not_recounted):
        private = finding.kind == "privacy"
        found = Text(NOT_COUNTED if private else "verified when the release was made; not recounted here")
        mark = Text("stated", style="bold red" if private else "dim")
        promises.add_row(mark, finding.kind, Text(finding.claim), found)
    others = [] if all(file.recounted for file in checked.files) else [Text(""), Text(AS_LISTED, style="dim")]
    return Group(files, Text(""), promises, *others, *(Text(fault, style="bold red") for fault in checked.faults))


def treatments(manifest: Manifest) -> RenderableType:
    """Show how each column is released."""
    grid = _grid("column", "kind", "role", "released as")
    for column in manifest.columns:
        role = Text(str(column.role), style=ROLE_STYLE[column.role])
        grid.add_row(column.name, str(column.kind), role, treatment(column, manifest))
    return grid


def estimates(estimated: Sequence[Estimate], truths: Mapping[str, float] | None = None) -> RenderableType:
    """Show statistics with their intervals and, if known, their true values, and below what they refer to.

    The gap is the share of the guaranteed interval that is not known to be attained.
    """
    grid = _grid(
        "statistic",
        *([">true value"] if truths else []),
        ">value",
        f">{' / '.join(dict.fromkeys(one.held for one in estimated))}",
        ">gap",
        ">first order",
        ">rows",
        "of",
    )
    for estimate in estimated:
        truth = [quantity(truths.get(estimate.name, math.nan), estimate.unit)] if truths else []
        grid.add_row(
            Text(estimate.name, style="bold"),
            *truth,
            quantity(estimate.value, estimate.unit),
            interval(estimate.low, estimate.high, estimate.unit),
            f"{estimate.gap:.1%}" + (" (ended early)" if estimate.ended_early else ""),
            interval(estimate.linear_low, estimate.linear_high, estimate.unit),
            estimate.records_text,
            estimate.of,
        )
    return Group(grid, *(Text(line, style="dim") for line in _remarks(estimated)))


def recovered_estimates(estimated: Sequence[RecoveredEstimate]) -> RenderableType:
    """Show statistics that were recovered from altered columns, with their standard errors and their notes."""
    asked = [f">{one.confidence:.0%} confidence" for one in estimated[:1] if one.confidence is not None]
    grid = _grid("statistic", ">recovered value", ">standard error", *asked, ">as released", ">rows", "guarantee")
    for one in estimated:
        grid.add_row(
            Text(one.name, style="bold"),
            *map(quantity, (one.value, one.standard_error)),
            *(interval(one.confidence_low, one.confidence_high) for _ in asked),
            quantity(one.released),
            one.records_text,
            Text("none: an estimate", style="yellow"),
        )
    notes = dict.fromkeys(f"{one.name}: {note}." for one in estimated for note in one.notes)
    causes = " or ".join(dict.fromkeys(one.error_of for one in estimated))
    lines = [f"The standard error is that of {causes}. Nothing is guaranteed.", *notes]
    return Group(grid, *(Text(line, style="dim") for line in lines))


def _remarks(estimated: Sequence[Estimate]) -> list[str]:
    """Say by what the estimates are weighted, which of them ended early, and their notes, each once."""
    weightings = list(dict.fromkeys(estimate.weighting for estimate in estimated))
    lines = [f"{weightings[0].capitalize()}."] if len(weightings) == 1 else []
    if len(weightings) > 1:
        lines = [f"{estimate.name}: {estimate.weighting}." for estimate in estimated]
    early = [estimate.name for estimate in estimated if estimate.ended_early]
    if early:
        lines.append(f"Ended early, more time (--seconds) may narrow the interval: {', '.join(early)}.")
    lines += [line for estimate in estimated for line in estimate.remarks]
    for note in dict.fromkeys(note for estimate in estimated for note in estimate.notes):
        names = [estimate.name for estimate in estimated if note in estimate.notes]
        which = "" if len(names) == len(estimated) else f"{', '.join(names)}: "
        lines.append(f"{which}{note}.")
    return lines


def usefulness(useful: Usefulness, *, at_most: int = 12) -> RenderableType:
    """Show the statistics that the release barely preserves, what costs most, and what to try."""
    lines = [Text("Of little use:", style="bold yellow")]
    lines += [Text(f"· {concern.about}: {concern.found}") for concern in useful.concerns[:at_most]]
    if len(useful.concerns) > at_most:
        lines.append(Text(f"… and {len(useful.concerns) - at_most:,} more (the report lists them)", style="dim"))
    lines += [Text(f"costs most: {useful.cause}")] if useful.cause else []
    lines += [Text(f"try: {useful.fix}")] if useful.fix else []
    return Group(*lines)


def reweightings(estimated: Sequence[Estimate]) -> RenderableType:
    """Show what reweighting the records did: errors, fewer records, a shifted statistic."""
    values, errors = (
        (">value, all", ">value, reweighted", ">guaranteed", ">shift"),
        (">error, all", ">error, reweighted"),
    )
    grid = _grid("statistic", *values, *errors, ">records used")
    for estimate in estimated:
        effect = estimate.reweighting
        if effect is not None:
            grid.add_row(
                Text(estimate.name, style="bold"),
                *map(quantity, (effect.whole_value, effect.value)),
                interval(effect.low, effect.high),
                *map(quantity, (effect.shift, effect.whole_error, effect.error)),
                f"{effect.records:,.0f}",
            )
    note = (
        "Error: first-order half-width plus sampling error, without the shift. Guaranteed here: the statistic of the "
        "records with these weights. The guaranteed interval above is that of all records."
    )
    return Group(grid, Text(note, style="dim"))


def searches(traces: Sequence[SearchTrace]) -> RenderableType:
    """Show what a search gained, per statistic if exact widths were followed."""
    lines: list[RenderableType] = []
    for trace in traces:
        grid = _grid("search", ">width before", ">after", ">narrower by")
        for before, after in zip(trace.widths_before, trace.widths_after, strict=True):
            share = 1.0 - after.width / before.width if before.width > 0.0 else 0.0
            grid.add_row(Text(before.name, style="bold"), quantity(before.width), quantity(after.width), f"{share:.1%}")
        note = (
            f"{trace.rounds:,} rounds in {trace.seconds:.0f} s, ended by "
            f"{'its budget' if trace.stop == 'budget' else 'an interrupt'}; {trace.cost} {trace.gain:.1%} smaller"
        )
        lines += [grid] if trace.widths_before else []
        lines += [Text(note, style="dim")]
    return Group(*lines)


def rules(effects: Sequence[RuleEffect]) -> RenderableType:
    """Show what each expert rule did to the boxes of its column."""
    grid = _grid("rule", ">mean factor", ">records affected", ">width without rules", ">with rules", ">change")
    for effect in effects:
        grid.add_row(
            Text(effect.rule, style="bold"),
            f"{effect.mean_factor:.2f}",
            f"{effect.touched:.0%}",
            quantity(effect.width_without),
            quantity(effect.width_with),
            f"{effect.change:+.0%}",
        )
    return grid


def assessment(judged: Assessment) -> RenderableType:
    """Show all scores of an assessment."""
    return Text(str(judged), no_wrap=True, overflow="ignore")


def exposed_rows(people: Sequence[Exposed]) -> RenderableType:
    """Show the rows of the original that the release comes closest to."""
    distances = (">distance to release", ">to other people", ">ratio")
    grid = _grid(">row of the original", *distances, ">ambiguity", ">uncertainty")
    for one in people:
        numbers = (one.distance, one.distance_to_others, one.ratio, one.ambiguity, one.uncertainty)
        grid.add_row(f"{one.row:,}", *map(quantity, numbers))
    return grid


def _without_markup(docstring: str) -> str:
    """Return a docstring without its markup: ``name`` and :class:`name` become name."""
    return re.sub(r":\w+:`~?([^`]+)`", r"\1", docstring).replace("``", "")


def _grid(*headings: str) -> Grid:
    """Return a table without lines; columns whose heading starts with > are aligned to the right."""
    grid = Grid(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        right = heading.startswith(">")
        grid.add_column(heading.removeprefix(">"), justify="right" if right else "left", overflow="fold")
    return grid
