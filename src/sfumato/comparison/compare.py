"""Compare methods: split the table, try every method at every strength, and put the results together."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.comparison.attempt import Split
from sfumato.comparison.folder import REPORT, RESULT, ComparisonFolder, digest_of, require_folder
from sfumato.comparison.records import ComparedMethod, Comparison, decimals
from sfumato.comparison.trials import Trial, trials_of
from sfumato.comparison.workers import attempts
from sfumato.engines.machine import processors
from sfumato.errors import OptionError, names_memory_errors
from sfumato.job.job import Job
from sfumato.measures.holdout import split_holdout
from sfumato.params import require_int, require_probability
from sfumato.schema.schema import FittedTable, Schema

if TYPE_CHECKING:
    from sfumato.methods.base import Method

FEWEST = 20  # rows on each side of the split

log = logging.getLogger("sfumato.comparison")


@names_memory_errors
def compare(
    table: Any,
    methods: Sequence[str | Method] | None = None,
    *,
    strengths: int = 3,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    holdout: float = 0.5,
    into: str | Path | None = None,
    jobs: int | None = None,
    seed: int | None = None,
) -> Comparison:
    """Compare methods by the risk and the utility of their releases of one table.

    A random part of the people is held out and never released. Every method releases the same other part, at several
    strengths, and each release is assessed against the people who were held out. A method that makes no release is
    listed with its reason.

    Parameters
    ----------
    table : Table, path or data frame
        The original rows.
    methods : sequence of str or Method, optional
        Names of methods, each tried at several strengths, or methods such as ``sf.Noise(level=0.3)``, tried as they
        are. Default: all methods.
    strengths : int, default 3
        Number of strengths per method, at least 1: values of the option by which the method protects more or less,
        which each method declares. At most as many as it declares are used.
    schema : Schema, mapping or path, optional
        Roles of the columns; by default they are suggested.
    holdout : float, default 0.5
        Share of the rows, between 0 and 1, that is held out.
    into : path, optional
        Folder for ``comparison.json``, ``report.html`` with the map, and a file per finished trial: a comparison that
        was interrupted goes on there. None of these files contains a cell. Default: nothing is written.
    jobs : int, optional
        Number of processes. Default: one per processor.
    seed : int, optional
        Seed of releases and assessments, for tests. Default: random numbers from the operating system. The split does
        not need one: it is drawn at random from the content of the table, so that it is the same when a comparison
        goes on.

    Returns
    -------
    Comparison
        One record per method and strength; ``best`` are those that no other one beats.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> ages = np.random.default_rng(0).integers(18, 90, 300)
    >>> people = {"age": ages, "income": 1000.0 + 40.0 * ages + np.random.default_rng(1).normal(0, 300, 300)}
    >>> roles = {"age": "quasi", "income": "quasi"}
    >>> found = sf.compare(people, ["boxes", "noise"], strengths=1, schema=roles, jobs=1)
    >>> [(row.name, row.guarantee) for row in found.rows]
    [('boxes, k = 10', '10-anonymous in age, income'), ('noise, level = 0.25', 'no guarantee')]
    >>> found.original_rows, found.reference_rows
    (150, 150)
    """
    require_probability(holdout, name="holdout")
    jobs = processors() if jobs is None else require_int(jobs, name="jobs", at_least=1)
    trials = trials_of(methods, strengths)
    if into is not None:
        require_folder(into)
    fitted = Job.of(table, schema=schema, engine="memory").fitted
    shared = hashlib.sha256(f"{digest_of(fitted)} {holdout!r} {seed!r}".encode()).hexdigest()
    split = _split(fitted, holdout, shared, seed)
    folder = None if into is None else ComparisonFolder.prepare(into, shared)
    done = _finished(trials, folder)
    waiting = [trial for trial in trials if trial.identity not in done]
    for trial, tried in attempts(waiting, split, jobs):
        if folder is not None and tried.is_final:
            folder.keep(trial, tried.row)
        done[trial.identity] = tried.row
        log.info("%d of %d: %s", len(done), len(trials), _describe(tried.row))
    rows = tuple(done[trial.identity] for trial in trials)
    result = Comparison(rows=rows, original_rows=split.kept.table.rows, reference_rows=split.others.rows)
    if folder is not None:
        from sfumato.report.comparison_page import render

        folder.finish({RESULT: result.to_json(), REPORT: render(result)})
    return result


def _split(fitted: FittedTable, holdout: float, shared: str, seed: int | None) -> Split:
    kept, others = split_holdout(fitted.table, holdout, seed=int(shared, 16))
    if min(kept.rows, others.rows) < FEWEST:
        raise OptionError(
            f"A comparison needs at least {FEWEST} rows to release and {FEWEST} to hold out.",
            found=f"{kept.rows:,} and {others.rows:,}",
            fix="more rows, or another holdout",
        )
    return Split(FittedTable(kept, fitted.schema), others, seed)


def _finished(trials: Sequence[Trial], folder: ComparisonFolder | None) -> dict[str, ComparedMethod]:
    """Return the records of trials that a previous run finished."""
    rows = {} if folder is None else {trial.identity: folder.read(trial) for trial in trials}
    done = {identity: row for identity, row in rows.items() if row is not None}
    if done:
        log.info("%d of %d: found in the folder", len(done), len(trials))
    return done


def _describe(row: ComparedMethod) -> str:
    if row.reason:
        return f"{row.name}: no release: {row.reason}"
    risks = f"risk {decimals(row.reference_risk)}, worst attack {decimals(row.attack_risk)}"
    return f"{row.name}: {risks}, utility {decimals(row.utility)} ({row.seconds:.0f} s)"
