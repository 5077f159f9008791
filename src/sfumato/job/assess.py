"""Assess releases of tables of any size: opens them with an engine, and computes nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import GuaranteeNotMet, OptionError, wrap_memory_errors
from sfumato.job.job import Job
from sfumato.measures.assess import ComparisonOptions, pair_release, take_measures
from sfumato.measures.privacy.copies import CellKeys
from sfumato.randomness import Randomness
from sfumato.release.release import Release
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table
from sfumato.table.intervals import original_name
from sfumato.table.table import Table, draw_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.engines.base import Engine, Session
    from sfumato.measures.measured_release import MeasuredRelease, Metric
    from sfumato.release.assessment import Assessment
    from sfumato.release.manifest import Manifest
    from sfumato.risk.knowledge import Precision

SAMPLED = 20_000  # rows that are measured of a table that is not in memory


@wrap_memory_errors
def assess(
    original: Any,
    release: Any,
    reference: Any = None,
    *,
    measures: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    metric: Metric = "standardised",
    knows: Mapping[str, Precision] | None = None,
    origin: NDArray[np.int64] | None = None,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    person: str | None = None,
    household: str | None = None,
    earlier: Sequence[Release | str | Path] = (),
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
        "suppression", "imputation", "downcoding", "known-mechanism", "columnwise-groups", "noise-stripping",
        "isolation", "membership", "inference", "linkability", "singling-out", "moments", "marginals", "losses",
        "propensity", "models" and "kernel-components". Default: all.
    columns : sequence of str, optional
        Columns that the intruder is assumed to know, which are also the columns that are compared. Default: all
        columns, the strongest intruder.
    metric : {"standardised", "mahalanobis", "mixed", "probability"}, default "standardised"
        Distance between rows: the root mean square difference of standardised columns; the same along principal
        components of variance 1; one in which every column of the table has the same weight; or one in which a
        difference counts by how probable it is between two people.
    knows : mapping of str to precision, optional
        How precisely intruders know some columns: a period such as "year" for dates, the width of the intervals that
        they can tell apart for numbers, and the number of leading characters or a mapping to coarser values for text;
        see :func:`sfumato.uniqueness`. It holds for the measures "linkage", "fellegi-sunter", "membership",
        "inference", "linkability" and "singling-out"; "known-mechanism" and "columnwise-groups" leave these columns
        out. Default: as the table has them.
    origin : array of int, optional
        Position of the original row of each released row, −1 for none. A release does not contain it, so the measures
        "linkage", "fellegi-sunter", "suppression", "imputation", "downcoding", "known-mechanism", "columnwise-groups"
        and "noise-stripping" are omitted without it; :func:`sfumato.release_and_assess` provides it. Default: unknown.
    schema : Schema, mapping or path, optional
        The schema of the original, or its file. Its generalization trees are known to the intruder of "downcoding".
        Default: none.
    person : str, optional
        Column of the original that tells people apart who have several rows. Copies, those who fit a box, and matches
        then count people; attacks know one random row of each, so that a person is one target; utility is that of all
        rows. Default: the column with the role person in ``schema``, or in the manifest of the release.
    household : str, optional
        Column of the original that is equal for people who live together: the risk of a person with her household is
        told beside that by herself, for releases with boxes. Default: the column with the role household.
    earlier : sequence of Release or path, optional
        Releases of the same people that were given away before, or their folders. The assessment then also says how
        many people fit a person in all of them, as :func:`sfumato.compose` does. Default: none.
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
    named = {name: role for name, role in ((person, Role.PERSON), (household, Role.HOUSEHOLD)) if name is not None}
    known = Schema.of(schema).with_roles(named) if named else None if schema is None else Schema.of(schema)
    job = Job.of(original, schema=known, engine=engine, seed=seed)
    options = ComparisonOptions(columns=columns, metric=metric, knows=knows, seed=seed)
    made = as_release(release)
    measured = measure_release(job, made, reference, options, measures=measures, origin=origin)
    return add_composition(measured.assessment, earlier, made)


def add_composition(assessment: Assessment, earlier: Sequence[Release | str | Path], release: Release) -> Assessment:
    """Return the assessment with what earlier releases and this one tell together."""
    if not earlier:
        return assessment
    from sfumato.release.composition import compose

    return replace(assessment, scores=(*assessment.scores, *compose([*earlier, release]).scores))


def as_release(given: Any) -> Release:
    """Return released rows as a release."""
    return given if isinstance(given, Release) else Release(as_table(given))


@dataclass(frozen=True, repr=False)
class MeasuredRows:
    """The rows that were measured, all of them or a sample, and what was found."""

    subject: MeasuredRelease
    assessment: Assessment


def measure_release(
    job: Job,
    release: Release,
    reference: Any,
    options: ComparisonOptions,
    *,
    measures: Sequence[str] | None = None,
    origin: NDArray[np.int64] | None = None,
) -> MeasuredRows:
    """Measure a release of the table of a job: all rows in memory, and separate samples of larger tables."""
    manifest = release.manifest
    if job.engine.in_memory:
        subject = pair_release(job.source, release, reference, options, origin=origin, schema=job.schema)
        return MeasuredRows(subject, take_measures(subject, measures=measures, manifest=manifest))
    if origin is not None:
        raise OptionError("An origin needs the original in memory.", found=f"engine {job.engine.name!r}")
    randomness = Randomness(options.seed)
    schema = None if manifest is None else Schema.of({one.name: str(one.role) for one in manifest.columns})
    with job.engine.session(None) as session:
        source = session.open(job.source, schema).with_all_columns
        people = session.survey(source, randomness).sample.table
        subject = pair_release(
            draw_rows(people, SAMPLED, randomness.stream("sampled people")),
            Release(draw_rows(release.table, SAMPLED, randomness.stream("sampled release")), manifest),
            _draw_reference(reference, randomness),
            options,
            schema=job.schema,
        )
        counted = session.compare(source, release.table, CellKeys.of(subject))
    return MeasuredRows(subject, take_measures(subject, measures=measures, manifest=manifest, counted=counted))


def assess_in_session(job: Job, session: Session[Any, Any], source: Any, work: Any, manifest: Manifest) -> Assessment:
    """Assess released rows while their origin is known, as the job asks for.

    All rows are measured in memory. Of a larger table, a sample of people with their rows is measured, and all rows are
    counted.
    """
    wishes, in_memory = job.assessment, job.engine.in_memory
    assert wishes is not None
    if wishes.found is not None:
        return wishes.found
    randomness = Randomness(wishes.options.seed)
    quasi, released = frozenset(manifest.names(Role.QUASI)), work.released.kinds
    known = frozenset(column.name for column in manifest.columns)
    together = [name for name in released if original_name(name, released, known) in quasi]
    sample = session.sample(work, SAMPLED, together, randomness.stream("sampled people"))
    subject = pair_release(
        job.source.table if in_memory else sample.pairs.original,
        Release(sample.pairs.released, manifest),
        wishes.reference if in_memory else _draw_reference(wishes.reference, randomness),
        wishes.options,
        origin=sample.pairs.origin,
        schema=job.source.schema if in_memory else None,
    )
    if in_memory:
        assessment = take_measures(subject, measures=wishes.measures, manifest=manifest)
    else:
        counted = session.compare(source, work.released, CellKeys.of(subject))
        sizes: Any = {"counted": counted, "draws": sample.draws}
        assessment = take_measures(subject, measures=wishes.measures, manifest=manifest, **sizes)
    assessment = add_composition(assessment, wishes.earlier, Release(work.released, manifest))
    if wishes.require:
        _require_passed(assessment)
    return assessment


def _require_passed(assessment: Assessment) -> None:
    if assessment.passed is not True:
        raise GuaranteeNotMet(
            "The assessment must pass, and nothing was written.",
            found=assessment.verdict,
            fix="a stronger method or option, or --assess without --require",
        )


def _draw_reference(reference: Any, randomness: Randomness) -> Table | None:
    """Return the reference, or a random sample of it if it is large."""
    return (
        None if reference is None else draw_rows(as_table(reference), SAMPLED, randomness.stream("sampled reference"))
    )
