"""From a table to a verified release: wiring, no mathematics."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engines.registry import engine_for
from sfumato.errors import CannotRelease, OptionError, SchemaError, TableError
from sfumato.randomness import Randomness
from sfumato.release.manifest import Manifest
from sfumato.schema.columns import Role
from sfumato.schema.schema import FittedTable, Schema
from sfumato.survey.survey import Survey, is_whole
from sfumato.table.frames import as_table
from sfumato.table.intervals import original_name

if TYPE_CHECKING:
    from sfumato.engines.base import Engine, Verified, Work
    from sfumato.measures.assess import Assessment
    from sfumato.measures.measured_release import Metric
    from sfumato.methods.base import Method, Plan
    from sfumato.release.release import Release

log = logging.getLogger("sfumato")


def release(
    method: Method,
    table: Any,
    *,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    seed: int | None = None,
    engine: str | Engine[Any, Any] = "auto",
    into: Any = None,
) -> Release:
    """Anonymize ``table`` by ``method`` and verify the result; see :meth:`sfumato.methods.base.Method.release`."""
    return _released(method, table, schema, seed, engine_for(engine), into).release


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
    holdout: float | None = None,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    columns: Sequence[str] | None = None,
    metric: Metric = "standardised",
    seed: int | None = None,
) -> AssessedRelease:
    """Anonymize a table and assess the release at once, correct matches included: see :func:`sfumato.assess`.

    Only here is it known which original row each released row comes from, and it stays here: what is returned are
    rates. The ``reference`` is given, or a random share ``holdout`` of the rows becomes it and is not released.
    """
    from sfumato.measures.assess import assess
    from sfumato.measures.holdout import split_holdout

    fitted = table if isinstance(table, FittedTable) else FittedTable.of(as_table(table), schema)
    if holdout is not None:
        if reference is not None:
            raise OptionError("Give a reference or a holdout, not both.", found="reference and holdout")
        kept, reference = split_holdout(fitted.table, holdout, seed=seed)
        fitted = FittedTable(kept, fitted.schema)
    made = _released(method, fitted, None, seed, engine_for("memory"), None)
    origin = made.work.evidence.origin
    judged = assess(fitted.table, made.release, reference, columns=columns, metric=metric, origin=origin, seed=seed)
    return AssessedRelease(made.release, judged)


@dataclass(frozen=True, repr=False)
class _Released:
    """A verified release and the rows of its engine, which know where each came from and stay in this file."""

    release: Release
    work: Any


def _released(
    method: Method,
    table: Any,
    schema: Schema | Mapping[str, Any] | str | Path | None,
    seed: int | None,
    engine: Engine[Any, Any],
    into: Any,
) -> _Released:
    randomness = Randomness(seed)
    source = engine.open(table, schema)
    protected = source.schema.without(Role.IDENTIFIER)
    _require_workable(source.rows, protected)
    survey = engine.survey(source, randomness)
    _require_whole(method, survey, engine)
    log.info("%d rows, %d columns: planning by %s", source.rows, len(protected.columns), method.name)
    plan = method.plan(survey, protected, randomness)
    _require_whole(plan, survey, engine)
    log.info("transforming in %d block(s)", plan.blocks)
    work = engine.shuffle(engine.run(plan, source), plan, randomness)
    log.info("verifying %d released rows", work.released_rows)
    verified = engine.verify(plan.claims, work)
    _require_protected(plan, protected, work, verified)
    manifest = Manifest.of(
        method=method,
        schema=source.schema,
        kinds=source.kinds,
        released=work.released_kinds,
        rows_in=source.rows,
        rows_out=work.released_rows,
        findings=verified.findings,
        altered=verified.altered,
        unaltered=verified.unaltered,
        notes=plan.notes,
    )
    return _Released(engine.write(work, manifest, engine.diagnose(plan, work), into), work)


def _require_workable(rows: int, schema: Schema) -> None:
    if not rows:
        raise TableError("A table must have rows to be released.", found="none")
    if not schema.names(Role.QUASI):
        raise SchemaError(
            "At least one column must be a quasi-identifier, or there is nothing to protect.",
            found=", ".join(f"{column.name!r} {column.role}" for column in schema.columns) or "no column left",
            fix="give the role 'quasi' to what others may know of a person",
        )


def _require_whole(what: Method | Plan, survey: Survey, engine: Engine[Any, Any]) -> None:
    """Say before any work that a method needs all rows at once and the engine has them in parts."""
    if what.needs_whole_table and not is_whole(survey):
        raise CannotRelease(
            "This method needs the whole table in memory at once.",
            found=f"engine {engine.name!r}, {survey.rows:,} rows in parts",
            fix="engine='memory' with enough memory, or a method that works in blocks",
        )


def _require_protected(plan: Plan, schema: Schema, work: Work, verified: Verified) -> None:
    """Refuse a release whose quasi-identifiers are all as they were, unless a promise over groups covers them."""
    released = work.released_kinds
    covered = {original_name(name, released) for claim in plan.claims for name in claim.protects}
    quasi = schema.names(Role.QUASI)
    bare = [name for name in quasi if name in verified.unaltered and name not in covered]
    safe = [name for name in quasi if name not in released or name in verified.altered or name in covered]
    if bare and not safe:
        raise CannotRelease(
            "Quasi-identifiers must not be released as they are without a promise that hides people in groups.",
            found=f"unaltered {', '.join(map(repr, bare))}",
            fix="a method or an option that alters them or promises groups of k rows",
        )
