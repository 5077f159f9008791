"""Assess releases of tables of any size: opens them with an engine, and computes nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.engines.registry import engine_for
from sfumato.errors import OptionError, names_memory_errors
from sfumato.measures.assess import ComparisonOptions, assessed, compared
from sfumato.measures.privacy.equal_rows import CellKeys
from sfumato.randomness import Randomness
from sfumato.release.release import Release
from sfumato.schema.columns import Role
from sfumato.table.frames import as_table
from sfumato.table.intervals import original_name
from sfumato.table.positions import chosen_within
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.engines.base import Engine, Session
    from sfumato.measures.assess import Assessment
    from sfumato.measures.measured_release import Metric
    from sfumato.release.manifest import Manifest
    from sfumato.schema.schema import Schema

SAMPLED = 20_000  # rows that are measured of a table that is not in memory


@names_memory_errors
def assess(
    original: Any,
    release: Any,
    reference: Any = None,
    *,
    measures: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    metric: Metric = "standardised",
    origin: NDArray[np.int64] | None = None,
    schema: Schema | None = None,
    seed: int | None = None,
    engine: str | Engine = "auto",
) -> Assessment:
    """Measure the privacy and the utility of a release.

    A table that does not fit into memory is measured on random samples of original and release; the result says of how
    many rows, and within which error. Copies, groups of equal rows and unique people are counted on all rows. Measures
    that compare people with their own released rows are omitted then; :func:`sfumato.release_and_assess` takes them.

    Parameters
    ----------
    original : Table, path, data frame or Database
        The table that was anonymized; it may be larger than memory.
    release : Release, Table, path or data frame
        The release of this table.
    reference : Table, path or data frame, optional
        A sample of the same population without any of the same people, such as a holdout
        (:func:`sfumato.split_holdout`). Attacks need it, and other measures are compared with it. Default: none.
    measures : sequence of str, optional
        Names of the measures to take: "copies", "prediction", "reference", "boxes", "linkage", "fellegi-sunter",
        "suppression", "downcoding", "noise-stripping", "membership", "inference", "linkability", "singling-out",
        "moments", "marginals", "losses", "propensity", "models" and "kernel-components". Default: all.
    columns : sequence of str, optional
        Columns that the intruder is assumed to know, which are also the columns that are compared. Default: all
        columns, the strongest intruder.
    metric : {"standardised", "mahalanobis", "mixed"}, default "standardised"
        Distance between rows: the root mean square difference of standardised columns; the same along principal
        components of variance 1; or one in which every column of the table has the same weight.
    origin : array of int, optional
        Position of the original row of each released row, −1 for none. A release does not contain it, so the measures
        "linkage", "fellegi-sunter", "suppression", "downcoding" and "noise-stripping" are omitted without it;
        :func:`sfumato.release_and_assess` provides it. Default: unknown.
    schema : Schema, optional
        The schema of the original. Its generalization trees are known to the intruder of "downcoding". Default: none.
    seed : int, optional
        Seed that makes the assessment repeatable, for tests. Default: random numbers from the operating system.
    engine : str or Engine, default "auto"
        Engine that reads the original, such as "memory" or "duckdb". "auto" takes memory if the table fits into it.

    Returns
    -------
    Assessment
        The scores, and the measures that were omitted.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> ages = np.random.default_rng(0).integers(18, 90, 400)
    >>> kept, holdout = sf.split_holdout({"age": ages, "income": 1000.0 + 40.0 * ages}, 0.5, seed=1)
    >>> release = sf.Boxes(k=5).release(kept, schema={"age": "quasi", "income": "quasi"}, seed=1)
    >>> assessment = sf.assess(kept, release, holdout, measures=["boxes", "moments"], seed=1)
    >>> assessment["people who fit a box, fewest"].value >= 5
    True
    >>> assessment["change in means"].value < 0.1
    True
    """
    chosen, options = engine_for(engine, original), ComparisonOptions(columns=columns, metric=metric, seed=seed)
    whole = release if isinstance(release, Release) else Release(as_table(release))
    if chosen.in_memory:
        subject = compared(original, whole, reference, options, origin=origin, schema=schema)
        return assessed(subject, measures=measures, manifest=whole.manifest)
    if origin is not None:
        raise OptionError("An origin needs the original in memory.", found=f"engine {chosen.name!r}")
    with chosen.session(None) as running:
        return _of_samples(running, original, whole, reference, measures, options)


def _of_samples(
    running: Session[Any, Any],
    original: Any,
    release: Release,
    reference: Any,
    measures: Sequence[str] | None,
    options: ComparisonOptions,
) -> Assessment:
    """Assess separate samples of the original and the release, and compare all rows."""
    randomness, manifest = Randomness(options.seed), release.manifest
    schema = None if manifest is None else {column.name: str(column.role) for column in manifest.columns}
    source = running.open(original, schema).with_all_columns
    people = running.survey(source, randomness).sample.table
    subject = compared(
        sampled(people, SAMPLED, randomness.stream("sampled people")),
        Release(sampled(release.table, SAMPLED, randomness.stream("sampled release")), manifest),
        reference_sample(reference, randomness),
        options,
    )
    counted = running.compare(source, release.table.parts(), CellKeys.of(subject))
    return assessed(subject, measures=measures, manifest=manifest, counted=counted)


def assessed_in_session(
    running: Session[Any, Any],
    source: Any,
    work: Any,
    manifest: Manifest,
    reference: Any,
    options: ComparisonOptions,
) -> Assessment:
    """Assess released rows while their origin is known: a sample of people with their rows, and counts of all rows."""
    randomness = Randomness(options.seed)
    quasi, released = manifest.names(Role.QUASI), work.released_kinds
    together = [name for name in released if original_name(name, released) in quasi]
    sample = running.sample(work, SAMPLED, together, randomness.stream("sampled people"))
    pairs = sample.pairs
    subject = compared(
        pairs.original,
        Release(pairs.released, manifest),
        reference_sample(reference, randomness),
        options,
        origin=pairs.origin,
    )
    counted = running.compare(source, work.released_table.parts(), CellKeys.of(subject))
    return assessed(subject, manifest=manifest, counted=counted, draws=sample.draws)


def reference_sample(reference: Any, randomness: Randomness) -> Table | None:
    """Return the reference, or a random sample of it if it is large."""
    return None if reference is None else sampled(as_table(reference), SAMPLED, randomness.stream("sampled reference"))


def sampled(table: Table, size: int, generator: np.random.Generator) -> Table:
    """Return ``size`` random rows of a table, which is read in parts, or all if there are fewer."""
    if table.rows <= size:
        return table.select(table.names)
    chosen = np.sort(generator.choice(table.rows, size, replace=False, shuffle=False))
    taken, start = [], 0
    for part in table.parts():
        here = chosen_within(chosen, start, part.rows)
        start += part.rows
        taken += [part.take(here).arrow] if here.size else []
    return Table(pa.concat_tables(taken).unify_dictionaries(), table.kinds)
