"""Make a verified release from a table: calls the engine and the method in order, and computes nothing itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import CannotRelease, OptionError, SchemaError, TableError, warn, wrap_memory_errors
from sfumato.job.assess import assess_in_session
from sfumato.job.job import AssessmentWishes, Job, read_earlier
from sfumato.job.people import (
    count_people,
    find_repeated,
    prepare_source,
    promise_history,
    promise_to_people,
    require_enough_people,
    require_no_person,
    require_one_row_each,
    require_people,
    require_unlinked,
    tell_households,
)
from sfumato.measures.assess import ComparisonOptions
from sfumato.methods.search_budget import SearchBudget
from sfumato.plan.claims.containment import words_of_common_values
from sfumato.plan.questions import GroupSizesOf
from sfumato.plan.survey import Survey, is_whole
from sfumato.randomness import Randomness
from sfumato.release.manifest import Manifest
from sfumato.risk.functional_copies import find_exact_copies
from sfumato.risk.safe_shares import SafeShares, least_people, safe_shares
from sfumato.schema.columns import Role
from sfumato.schema.schema import FittedTable, Schema
from sfumato.sources.frames import as_table
from sfumato.table.intervals import original_name, original_names

if TYPE_CHECKING:
    from sfumato.engines.base import Engine, Session, Verified, Work
    from sfumato.measures.measured_release import Metric
    from sfumato.methods.base import Method
    from sfumato.methods.search_budget import SearchProgress
    from sfumato.plan.claims.sequence import SharedReleases
    from sfumato.plan.plan import Plan
    from sfumato.release.assessment import Assessment
    from sfumato.release.ledger import Ledger
    from sfumato.release.release import Release
    from sfumato.risk.knowledge import Precision


log = logging.getLogger("sfumato")
MOST_NAMED = 20  # columns that an error names
MOST_LISTED = 60  # columns whose suggested roles a warning lists
SHOWN_COLUMNS, SHOWN_ROWS = 40, 200_000  # columns whose distributions the report shows, and people that they count


@wrap_memory_errors
def release(method: Method, table: Any, **given: Any) -> Release:
    """Anonymize ``table`` with ``method`` and verify the result; see :meth:`sfumato.methods.base.Method.release`."""
    release_linked = getattr(type(table), "release_with", None)
    if release_linked is not None:  # several tables at once
        linked: Release = release_linked(table, method, **given)
        return linked
    return make_release(Job.of(table, method=method, **given))


@dataclass(frozen=True, repr=False)
class AssessedRelease:
    """A release with its assessment, as :func:`sfumato.release_and_assess` returns it.

    Attributes
    ----------
    release : Release
        The verified release; its report, when it is written, contains the assessment. The report of a differentially
        private release does not: its promise holds only if nothing else about the original is published.
    assessment : Assessment
        Privacy and utility of the release, including correct matches.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"x": np.random.default_rng(0).normal(size=200), "y": np.random.default_rng(1).normal(size=200)}
    >>> made = sf.release_and_assess(sf.Noise(level=0.01), people, schema={"x": "quasi", "y": "quasi"}, seed=1)
    >>> made.release.manifest.guarantee
    'no guarantee'
    >>> made.assessment.released_rows
    200
    """

    release: Release
    assessment: Assessment

    def _repr_html_(self) -> str:
        """Show the release and its assessment in a notebook; no cells."""
        return f"<div>{self.release._repr_html_()}{self.assessment._repr_html_()}</div>"


@wrap_memory_errors
def release_and_assess(
    method: Method,
    table: Any,
    reference: Any = None,
    *,
    holdout: float | None = None,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    columns: Sequence[str] | None = None,
    metric: Metric = "standardised",
    knows: Mapping[str, Precision] | None = None,
    seed: int | None = None,
    engine: str | Engine = "auto",
    into: Any = None,
    require: bool = False,
    earlier: Sequence[Release | str | Path] = (),
    key: str | Path | None = None,
    rows_not_people: bool = False,
) -> AssessedRelease:
    """Anonymize a table and assess the release in one step, including correct matches.

    Correct matches can only be counted here: this is the only place that knows which original row each released row
    comes from. The result contains rates only. A table that does not fit into memory is measured on a random sample of
    people with their released rows; copies, groups and unique people are counted on all rows.

    Parameters
    ----------
    method : Method
        An anonymization method such as ``sf.Boxes(k=5)``.
    table : Table, path, data frame or LinkedTables
        The original rows. Linked tables are attacked by joining them, before and after the release, and by nothing
        else: without ``reference``, ``holdout``, ``columns``, ``knows`` and ``earlier``.
    reference : Table, path or data frame, optional
        People of the same population who are not in the table. Attacks are compared with them.
    holdout : float, optional
        Share of the rows, from 0 to 1, that is split off at random, not released, and used as the reference. Give
        either ``reference`` or ``holdout``. By default there is neither, and attacks are not measured.
    schema : Schema, mapping or path, optional
        Roles of the columns; by default they are suggested.
    columns : sequence of str, optional
        Columns that the intruder is assumed to know. By default all columns.
    metric : {"standardised", "mahalanobis", "mixed", "probability"}, default "standardised"
        Distance between rows.
    knows : mapping of str to precision, optional
        How precisely intruders know some columns; see :func:`sfumato.assess`. Default: as the table has them.
    seed : int, optional
        Makes the released rows and the scores repeatable, for tests; it is a secret. The order of the rows stays
        random. By default all random numbers come from the operating system.
    engine : str or Engine, default "auto"
        Engine that does the work, such as "memory" or "duckdb". "auto" chooses one that fits the table.
    into : path, optional
        Folder to write the release to. Default: nothing is written.
    require : bool, default False
        Whether to write nothing and to raise an error unless the assessment passes.
    earlier : sequence of Release or path, optional
        Releases of the same people that were given away before, or their folders. The assessment, and the report of
        the release, then also say how many people fit a person in all of them; see :func:`sfumato.compose`. Default:
        none.
    key : str or Path, optional
        File with the secret key of pseudonyms and shifted dates; see :meth:`Boxes.release`.
    rows_not_people : bool, default False
        Whether to count rows although people have several of them; see :meth:`Boxes.release`.

    Returns
    -------
    AssessedRelease
        The ``release`` and its ``assessment``; see :func:`sfumato.assess`.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"x": np.random.default_rng(0).normal(size=300), "y": np.random.default_rng(1).normal(size=300)}
    >>> made = sf.release_and_assess(
    ...     sf.SvdSwap(), people, holdout=0.5, schema={"x": "quasi", "y": "quasi"}, seed=1
    ... )
    >>> made.release.table.rows, made.assessment.reference_rows
    (150, 150)
    """
    if hasattr(type(table), "release_with"):
        unused = {
            "reference": reference,
            "holdout": holdout,
            "columns": columns,
            "knows": knows or None,
            "earlier": earlier or None,
        }
        given: dict[str, Any] = {"schema": schema, "engine": engine, "into": into, "key": key, "seed": seed}
        return _assess_linked(method, table, [name for name, one in unused.items() if one is not None], given)
    wishes = AssessmentWishes(
        reference=None if reference is None else as_table(reference),
        holdout=holdout,
        options=ComparisonOptions(columns=columns, metric=metric, knows=knows, seed=seed),
        require=require,
        earlier=read_earlier(earlier),
    )
    wanted: dict[str, Any] = {
        "method": method,
        "assessment": wishes,
        "key": key,
        "seed": seed,
        "rows_not_people": rows_not_people,
    }
    release = make_release(Job.of(table, schema=schema, engine=engine, into=into, **wanted))
    assert release.assessment is not None
    return AssessedRelease(release, release.assessment)


def _assess_linked(method: Method, tables: Any, unused: Sequence[str], given: Mapping[str, Any]) -> AssessedRelease:
    """Release linked tables, and attack them by joining them."""
    if unused:
        raise OptionError("Linked tables are assessed by joining them.", found=", ".join(unused), fix="leave this out")
    made = tables.release_with(method, assess=True, **given)
    return AssessedRelease(made, made.assessment)


def make_release(job: Job) -> Release:
    """Make, verify and write the release of a job; if the job asks for it, the release has its assessment."""
    job.require_private_possible()
    randomness = Randomness(job.seed)
    if job.seed is not None:
        warn("A seed is a secret: whoever knows it can undo the random steps of the release.")
    job.require_no_holdout()
    job.engine.require_target(job.destination)
    roles_are_known = isinstance(job.source, FittedTable)
    if job.destination is not None:
        job = replace(job, destination=job.destination.following(job.source))
    given, job = job.schema, job.read().hold_out()
    job.require_ledger_possible()
    with job.engine.session(job.destination) as session, _open_ledger(job) as ledger:
        opened = session.open(job.source, job.schema)
        if not roles_are_known:
            warn_of_suggestions(opened.schema, given)
        return _make_in_session(job, session, opened, randomness, ledger)


def _open_ledger(job: Job) -> AbstractContextManager[Ledger | None]:
    """Open the ledger of the job; None if it has none."""
    if job.ledger is None:
        return nullcontext()
    from sfumato.release.ledger import Ledger

    return Ledger.open(job.ledger)


def _make_in_session(
    job: Job, session: Session[Any, Any], opened: Any, randomness: Randomness, ledger: Ledger | None
) -> Release:
    method = job.method
    assert method is not None
    source, prepared = prepare_source(method, opened, job.key, session.replace_table)
    protected = source.schema.without(Role.IDENTIFIER).without(Role.PERSON).without(Role.HOUSEHOLD)
    _require_workable(source.rows, source.schema, method)
    people = None if method.is_private else count_people(session, source, randomness)
    require_enough_people(method, people)
    repeated = find_repeated(session, source, randomness) if people is None and not method.is_private else {}
    if not job.rows_not_people:
        require_people(repeated)
    if method.is_private:
        job.pay(source.fitted.table, protected)
    survey = session.survey(source, randomness)
    _require_whole(method, survey, session)
    size = f"{source.rows:,} rows, " if people is None else f"{people:,} people in {source.rows:,} rows, "
    told = "" if method.is_private else size  # how many they are is private, too
    log.info("%s%d columns: planning with %s", told, len(protected.columns), method.name)
    plan = (job.make_plan or method.plan)(survey, protected, randomness)
    _require_whole(plan, survey, session)
    shared: tuple[SharedReleases, ...] = ()
    if ledger is not None:
        require_unlinked(prepared)
        suppress = getattr(method, "suppress", 0.0)
        plan, promised = ledger.bind(plan, source.fitted.table, source.schema.person, suppress)
        shared = (promised,)
    log.info("transforming %s", "1 block" if plan.blocks == 1 else f"{plan.blocks} blocks")
    history = promise_history(plan.claims, opened.schema)
    if not history:
        require_one_row_each(prepared, plan.claims)
    households = tell_households(plan.claims, source.schema)
    claims = (*promise_to_people(plan.claims, protected.person), *history, *prepared.claims, *shared, *households)
    work = session.run(plan, source)
    log.info("verifying %s released rows", f"{work.released.rows:,}")
    if protected.person not in prepared.pseudonyms:
        require_no_person(work, protected.person)
    verified = session.verify(claims, work)
    _require_protected(plan, protected, work, verified)
    _warn_of_exact_weights(protected, survey, verified)
    exact = (*verified.unaltered, *verified.constant)
    prepared.require_kept(exact)
    manifest = Manifest.of(
        method=method,
        schema=opened.schema,
        kinds=opened.kinds,
        released=work.released.kinds,
        rows_in=source.rows,
        rows_out=work.released.rows,
        findings=verified.findings,
        claims=claims,
        altered=tuple(dict.fromkeys((*verified.altered, *prepared.shifted_columns))),
        unaltered=tuple(name for name in exact if name not in (*prepared.pseudonyms, *prepared.shifted_columns)),
        notes=plan.notes,
        repeated=tuple(repeated),
        people_in=people,
        revealing=find_exact_copies(protected, survey.sample.table, verified.unaltered),
        nodes={}  # how many people share a value is not counted
        if people is not None or method.is_private
        else words_of_common_values(plan, survey, verified.altered, least_people(getattr(method, "k", None))),
    )
    assessment = None if job.assessment is None else assess_in_session(job, session, source, work, manifest)
    before = _before(plan, survey, manifest, randomness)
    diagnostics = session.diagnose(plan, work)
    with nullcontext() if ledger is None else ledger.adding(shared[0], work.evidence, job.destination):
        made = session.write(work, manifest, diagnostics, job.destination, assessment=assessment, before=before)
        return replace(made, _plan=plan).knowing(made)


def report_search(method: Method, report: Callable[[SearchProgress], None]) -> Method:
    """Return the method with a search that reports its progress; the method itself if it has no search in time."""
    budget = getattr(method, "search", None)
    if not isinstance(budget, SearchBudget):
        return method
    searching: Any = method  # it has a search, as the budget shows
    reporting: Method = replace(searching, search=replace(budget, progress=report))
    return reporting


def _before(plan: Plan, survey: Survey, manifest: Manifest, randomness: Randomness) -> tuple[SafeShares, ...]:
    """Return distributions of the original that the report may show; none if a promise covers every output."""
    if any(claim.covers_every_output for claim in plan.claims):
        return ()
    sample = survey.sample.table
    if sample.rows > SHOWN_ROWS:
        sample = sample.take(randomness.stream("rows for the report").choice(sample.rows, SHOWN_ROWS, replace=False))
    shown = original_names([one.name for one in manifest.released], sample.kinds)
    known = [name for name in shown if name in sample.kinds]
    return safe_shares(sample, known[:SHOWN_COLUMNS], least_people(manifest.options.get("k")))


def warn_of_suggestions(schema: Schema, given: Schema | None) -> None:
    """Warn of columns that are removed without having been asked for, and of all roles if none was given."""
    suggested = [column for column in schema.columns if column.reason]
    removed = [f"{column.name!r} ({column.reason})" for column in suggested if column.role is Role.IDENTIFIER]
    kept = [f"{column.name!r} {column.role}" for column in suggested if column.role is not Role.IDENTIFIER]
    parts = [f"Not released, because they look like identifiers: {', '.join(removed)}."] if removed else []
    if kept and given is None:
        more = f" and {len(kept) - MOST_LISTED:,} more, see `sfumato inspect`" if len(kept) > MOST_LISTED else ""
        parts.append(f"Roles were suggested: {', '.join(kept[:MOST_LISTED])}{more}.")
    if parts:
        warn(f"{' '.join(parts)} To choose the roles yourself, give schema= (--role or --schema on the command line).")


def _warn_of_exact_weights(schema: Schema, survey: Survey, verified: Verified) -> None:
    """Warn of sampling weights that are released as they are, and tell how many of them are unique."""
    weight = next(iter(schema.names(Role.WEIGHT)), None)
    if weight is not None and weight in verified.unaltered:
        question = GroupSizesOf((weight,))
        unique = survey.ask([question])[question].unique_rows
        warn(
            f"The sampling weights in {weight!r} are released exactly, and {unique:,} of {survey.rows:,} rows have a "
            "weight that no other row has: whoever knows it finds the person. The method boxes can release the mean "
            "weight of each box instead (sampling_weights='box-mean')."
        )


def _require_workable(rows: int, schema: Schema, method: Method) -> None:
    if not rows and not method.is_private:  # where it is private, nobody learns that there is nobody
        raise TableError("A table must have rows to be released.", found="no rows")
    if not schema.names(Role.QUASI):
        columns = schema.columns
        found = ", ".join(f"{column.name!r} {column.role}" for column in columns[:MOST_NAMED])
        more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
        alone = len(columns) == 1 and bool(columns[0].reason)  # one column that nobody declared: split wrongly
        raise SchemaError(
            "At least one column must be a quasi-identifier; otherwise there is nothing to protect.",
            found=f"{found}{more}" or "no columns",
            fix="check the separator: the table has one column"
            if alone
            else "--quasi NAME, or the role 'quasi' in a schema, for columns that others may know",
        )


def _require_whole(what: Method | Plan, survey: Survey, engine: Session[Any, Any]) -> None:
    """Raise before any work if the method needs all rows at once but the engine has them in parts."""
    if what.needs_whole_table and not is_whole(survey):
        raise CannotRelease(
            "This method needs the whole table in memory at once.",
            found=f"engine {engine.name!r}, {survey.rows:,} rows in parts",
            fix="the engine 'memory' on a machine with enough memory, or a method that works in blocks",
        )


def _require_protected(plan: Plan, schema: Schema, work: Work, verified: Verified) -> None:
    """Raise if all quasi-identifiers are released unaltered and no promise about groups covers any of them."""
    released = work.released.kinds
    known, quasi = frozenset(column.name for column in schema.columns), schema.names(Role.QUASI)
    protected = {name for claim in plan.claims for name in claim.protects}
    covered = {original_name(name, released, known) for name in protected}
    unaltered, altered = set(verified.unaltered), set(verified.altered)
    exposed = [name for name in quasi if name in unaltered and name not in covered]
    safe = [name for name in quasi if name not in released or name in altered or name in covered]
    if exposed and not safe:
        raise CannotRelease(
            "Quasi-identifiers must not be released unaltered without a promise that hides people in groups.",
            found=f"unaltered {', '.join(map(repr, exposed))}",
            fix="a method or an option that alters them or promises groups of k rows",
        )
