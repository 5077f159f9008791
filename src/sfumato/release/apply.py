"""New rows in the cells of a release that exists: the promises are recounted on the old and the new rows together."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import CannotRelease, RequestError, SchemaError
from sfumato.plan.claims.containment import Containment
from sfumato.plan.plan import Evidence, format_count
from sfumato.release.bundle_check import check_rows, replace_findings
from sfumato.release.verify import require_held
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.plan.plan import Plan
    from sfumato.release.manifest import Manifest

WORKS = (
    "a release of recode (kind='global'), generalize, quantiles (ties='together'), top-bottom or boxes, in the process "
    "that made it"
)


def add_rows(released: Table, manifest: Manifest | None, plan: Plan | None, new_rows: Any) -> tuple[Table, Manifest]:
    """Return the rows of a release with new rows in the same cells, and what the manifest then says."""
    if manifest is None or plan is None:
        raise RequestError("Only a release that knows its cells can take new rows.", found="one without", fix=WORKS)
    if manifest.names(Role.PERSON):
        raise RequestError(
            "Promises about people cannot be recounted without the original.",
            found="a column that tells people apart",
            fix="a new release of all rows with the same ledger",
        )
    rows = _read_rows(new_rows, manifest)
    shown = plan.show_in_cells(rows, released)
    if shown is None:
        raise RequestError("The method must have cells that do not depend on the rows.", fix=WORKS)
    _require_inside(plan, Evidence(shown, rows, np.arange(rows.rows)))
    together = _mix(released, shown)
    checked = check_rows(manifest, together)
    require_held((*checked.recounted, *checked.by_rows))
    if any(finding.kind == "privacy" for finding in checked.not_recounted):
        raise CannotRelease(
            "Every promise of privacy must be recounted on old and new rows.",
            found="one that needs the original",
            fix="a new release of all rows",
        )
    rows_in = (manifest.rows_in or 0) + rows.rows
    return together, replace(replace_findings(manifest, checked), rows_in=rows_in, rows_out=together.rows)


def _require_inside(plan: Plan, new: Evidence) -> None:
    """Raise if a new value is not in its cell: a method shows a value beyond its outermost cells in the nearest one."""
    promised = [claim for claim in plan.claims if isinstance(claim, Containment)]
    outside = sum(sum(claim.tally(new).outside.values()) for claim in promised)
    if outside:
        raise CannotRelease(
            "Every new value must lie in a cell of the release.",
            found=f"{format_count(outside, 'value')} outside",
            fix="leave these rows out, or a new release of all rows",
        )


def roles_of(manifest: Manifest, names: Container[str]) -> Schema:
    """Return the roles and kinds that these columns had when the release was made."""
    return Schema(
        tuple(
            Column(name=column.name, role=column.role, kind=column.kind)
            for column in manifest.columns
            if column.name in names
        )
    )


def _read_rows(given: Any, manifest: Manifest) -> Table:
    table = as_table(given)
    needed = [column.name for column in manifest.columns if column.role is not Role.IDENTIFIER]
    absent = [name for name in needed if name not in table.kinds]
    if absent:
        raise SchemaError("New rows must have the columns of the release.", found=f"no {', '.join(map(repr, absent))}")
    return roles_of(manifest, needed).apply(table.select(needed))


def _mix(old: Table, new: Table) -> Table:
    """Return the rows of both in random order, so that nobody sees which are new."""
    cells = pa.concat_tables([old.arrow, new.arrow.select(old.names).cast(old.arrow.schema)]).unify_dictionaries()
    return Table(cells, old.kinds).take(np.random.default_rng().permutation(cells.num_rows))
