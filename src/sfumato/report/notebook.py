"""What a notebook shows of a table, a release and an assessment: shapes, promises and tests to fold out, and no cell.

A notebook is often passed on together with what it shows. So a table shows names, kinds, numbers of values in two
digits, and shares that are rounded as in a report; names of categories are cells and are numbered. A release shows what
its report may show. Pictures are drawn in SVG inside the output; no script and no request are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.report.contents import promises, verdict
from sfumato.report.distributions import (
    Distribution,
    blamed_columns,
    distributions,
    gauges,
    groups,
    original_distributions,
)
from sfumato.report.html import environment
from sfumato.risk.safe_shares import WITHOUT_K, round_shares, step_for
from sfumato.table.intervals import original_name
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.release.assessment import Assessment
    from sfumato.release.release import Release
    from sfumato.table.table import Table

MOST_COLUMNS = 60  # that are drawn; the others are listed
COUNTED_ROWS = 200_000  # rows whose values are counted; of more, every n-th


@dataclass(frozen=True, kw_only=True, repr=False)
class ShownColumn:
    """A column: its name and kind, rounded facts in words, and its distribution if it may be shown."""

    name: str
    kind: str
    facts: tuple[str, ...]
    distribution: Distribution | None = None


def show_table(table: Table) -> str:
    """Return a table that is not released as HTML: rounded shares and counts, and no cell."""
    names = table.names[:MOST_COLUMNS]
    shapes = original_distributions(table.select(names), WITHOUT_K)
    thin = table.thinned(names, COUNTED_ROWS)
    step = step_for(thin.rows, WITHOUT_K)
    columns = [
        ShownColumn(
            name=name,
            kind=str(table.kinds[name]),
            facts=tuple(_facts(thin, name, step)),
            distribution=shapes.get(name),
        )
        for name in names
    ]
    return render("table", table=table, columns=columns, others=table.names[MOST_COLUMNS:])


def _facts(table: Table, name: str, step: float | None) -> list[str]:
    """Return how many values a column has, in two digits, and the share of missing ones, rounded."""
    if step is None or table.kinds[name] is Kind.TEXT:  # so few rows that every count is about somebody
        return []
    coded = table.coded(name)
    counts = np.bincount(coded.codes, minlength=coded.size)
    missing = int(counts[: len(coded.values)][coded.values.is_null().to_numpy(zero_copy_only=False)].sum())
    values = coded.size - int(coded.values.null_count)
    told = [f"about {float(f'{values:.2g}'):,.0f} values" if values >= WITHOUT_K else "few values"]
    share = round_shares(np.array([missing / table.rows]), step)[0] if missing >= WITHOUT_K else 0.0
    return told + ([f"{share:.0%} missing"] if share else [])


def show_release(release: Release) -> str:
    """Return a release as HTML: its verdict, its promises, its distributions and its groups."""
    shapes = distributions(release)
    kinds = release.table.kinds
    known = None if release.manifest is None else {column.name for column in release.manifest.columns}
    made_from = {name: original_name(name, kinds, known) for name in kinds}
    columns = [
        ShownColumn(name=name, kind=str(kind), facts=() if made_from[name] == name else (f"of {made_from[name]}",))
        for name, kind in kinds.items()
    ]
    return render(
        "release",
        release=release,
        verdict=verdict(release, blamed_columns(release) if release.manifest else ()),
        promises=promises(release),
        columns=columns[: 2 * MOST_COLUMNS],
        shapes=list(shapes.items())[:MOST_COLUMNS],
        groups=groups(release),
    )


def show_assessment(assessment: Assessment) -> str:
    """Return an assessment as HTML: the verdict, questions in plain words with gauges, and all scores."""
    return render("assessment", assessment=assessment, gauges=gauges(assessment))


def render(macro: str, **context: Any) -> str:
    """Render one of the views of the template; ``macro`` names it."""
    return environment().get_template("notebook.html.j2").render(view=macro, **context).strip()
