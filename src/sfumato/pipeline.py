"""The way of the data, from a table to a verified release: wiring, no mathematics."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.engines.memory import MemorySurvey, run
from sfumato.errors import CannotRelease, OptionError, SchemaError, TableError
from sfumato.methods.claims import Evidence
from sfumato.randomness import Randomness
from sfumato.release.manifest import Manifest
from sfumato.release.release import Release
from sfumato.release.verify import altered_columns, verify
from sfumato.schema.schema import Role, Schema
from sfumato.table.frames import as_table
from sfumato.table.groups import group_labels
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.assess import Assessment
    from sfumato.measures.measured_release import Metric
    from sfumato.methods.base import Method, Outcome

log = logging.getLogger("sfumato")


def release(
    method: Method,
    table: Any,
    *,
    schema: Schema | Mapping[str, str] | str | Path | None = None,
    seed: int | None = None,
) -> Release:
    """Anonymize ``table`` by ``method`` and verify what leaves; see :meth:`sfumato.methods.base.Method.release`."""
    return _traced(method, as_table(table), schema, seed).release


@dataclass(frozen=True, repr=False)
class AssessedRelease:
    """A release, and what was measured of it where it was made."""

    release: Release
    assessment: Assessment


def release_and_assess(
    method: Method,
    table: Any,
    reference: Any = None,
    *,
    hold_out: float | None = None,
    schema: Schema | Mapping[str, str] | str | Path | None = None,
    columns: Sequence[str] | None = None,
    metric: Metric = "standardised",
    seed: int | None = None,
) -> AssessedRelease:
    """Anonymize a table and judge the release at once, right matches included: see :func:`sfumato.measures.assess`.

    Only here is it known whose row is whose, and it stays here: what comes back are rates. The ``reference`` is given,
    or a random share ``hold_out`` of the rows is set aside for it and not released.
    """
    from sfumato.measures.assess import assess
    from sfumato.measures.privacy.reference import set_aside

    whole = as_table(table)
    if hold_out is not None:
        if reference is not None:
            raise OptionError("A reference is given or set aside, not both.", found="reference and hold_out")
        parts = set_aside(whole, hold_out, seed=seed)
        whole, reference = parts.kept, parts.reference
    made = _traced(method, whole, schema, seed)
    judged = assess(whole, made.release, reference, columns=columns, metric=metric, origin=made.origin, seed=seed)
    return AssessedRelease(made.release, judged)


@dataclass(frozen=True, repr=False)
class _Traced:
    """A verified release and the row of the table that each of its rows stands for, which stays in this file."""

    release: Release
    origin: NDArray[np.int64]


def _traced(
    method: Method, whole: Table, schema: Schema | Mapping[str, str] | str | Path | None, seed: int | None
) -> _Traced:
    randomness = Randomness(seed)
    roles = Schema.for_table(whole, schema)
    original, protected = _without_identifiers(roles.apply(whole), roles)
    _require_workable(original, protected)
    log.info("%d rows, %d columns: planning by %s", original.rows, len(original.names), method.name)
    plan = method.plan(MemorySurvey(original), protected, randomness)
    log.info("transforming in %d block(s)", plan.blocks)
    evidence = _shuffled(run(plan, original), original, randomness)
    log.info("verifying %d released rows", evidence.released.rows)
    findings = verify(plan.claims, evidence)
    manifest = Manifest.of(
        method=method,
        schema=roles,
        original=whole,
        released=evidence.released,
        findings=findings,
        notes=plan.notes,
        altered=altered_columns(evidence),
    )
    return _Traced(Release(evidence.released, manifest, _limit=plan.limit(evidence)), evidence.origin)


def _without_identifiers(table: Table, schema: Schema) -> tuple[Table, Schema]:
    """What a method may see: columns that name people end here."""
    columns = tuple(column for column in schema.columns if column.role is not Role.IDENTIFIER)
    return table.select([column.name for column in columns]), Schema(columns)


def _require_workable(table: Table, schema: Schema) -> None:
    if not table.rows:
        raise TableError("A table must have rows to be released.", found="none")
    if not schema.names(Role.QUASI):
        raise SchemaError(
            "At least one column must be a quasi-identifier, or there is nothing to protect.",
            found=", ".join(f"{column.name!r} {column.role}" for column in schema.columns) or "no column left",
            fix="give the role 'quasi' to what others may know of a person",
        )
    table.require_finite(table.names)


def _shuffled(outcome: Outcome, original: Table, randomness: Randomness) -> Evidence:
    """Rows in random order and boxes with random numbers: neither tells where a row stood."""
    if not outcome.rows:
        raise CannotRelease("No row could be released.", fix="a smaller k, or fewer protected columns")
    order = randomness.stream("order").permutation(outcome.rows)
    ordered, kinds, origin = outcome.released.arrow, outcome.released.kinds, outcome.origin[order]
    del outcome
    columns: dict[str, pa.ChunkedArray] = {}
    while ordered.num_columns:  # one by one, so that no more than one column stands twice in memory
        columns[ordered.column_names[0]] = ordered.column(0).take(pa.array(order))
        ordered = ordered.remove_column(0)
    released = _cells_only(Table(pa.table(columns), kinds))
    if "box" in released.kinds:
        released = _renumbered(released, randomness)
    return Evidence(released, original, origin)


def _renumbered(released: Table, randomness: Randomness) -> Table:
    labels = released.arrow.column("box").to_numpy()
    if labels.max() >= 2 * released.rows:  # counted apart in each block
        labels = group_labels(released, ["box"])
    used = np.bincount(labels) > 0
    numbers = np.zeros(used.size, dtype=np.int64)
    numbers[used] = randomness.stream("box numbers").permutation(int(used.sum()))
    column = pa.array(numbers[labels])
    return Table(released.arrow.set_column(released.names.index("box"), "box", column), released.kinds)


def _cells_only(released: Table) -> Table:
    """The cells without metadata, and dictionaries without values that do not occur: those are of suppressed rows."""
    columns = {
        field.name: _tight_dictionary(released, field) if pt.is_dictionary(field.type) else column
        for field, column in zip(released.arrow.schema, released.arrow.columns, strict=True)
    }
    return Table(pa.table(columns), released.kinds)


def _tight_dictionary(released: Table, field: pa.Field) -> pa.DictionaryArray:
    coded = released.coded(field.name)
    values = coded.values.drop_null()
    codes = pa.array(coded.codes, mask=coded.codes == len(values))
    return pa.DictionaryArray.from_arrays(codes, values, ordered=field.type.ordered)
