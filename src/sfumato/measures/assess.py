"""Take all measures that apply to a release, and split off the holdout that some of them need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sfumato.errors import OptionError, warn
from sfumato.measures.confidence import Interval
from sfumato.measures.measured_release import METRICS, MeasuredRelease, Metric
from sfumato.measures.privacy.copies import counted_copy_scores
from sfumato.measures.registry import MEASURES, REASONS, Measure, Need
from sfumato.params import require_choice, require_share
from sfumato.randomness import Randomness
from sfumato.release.assessment import Assessment, Family, Omitted, Score
from sfumato.release.release import Release
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema
from sfumato.schema.suggested_hierarchies import tree_for
from sfumato.sources.frames import as_table
from sfumato.table.groups import row_keys
from sfumato.table.intervals import BOX, is_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.answers import ComparedRows
    from sfumato.release.manifest import Manifest
    from sfumato.risk.knowledge import Precision
    from sfumato.schema.hierarchies import Tree
    from sfumato.table.table import Table


COUNTED = "copies"  # the measure that is counted on all rows
# Probability that a sample of other people fails any test of an assessment: below the 5 % that are stated, so that the
# share of 200 such samples that fail is seldom above 5 % by chance either
LEVEL = 0.03
SHARES: dict[Family, float] = {"privacy": 0.75, "utility": 0.25}  # of the level; measures of a family share it equally


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """How rows are compared, wherever they are; :func:`sfumato.assess` explains each option."""

    columns: Sequence[str] | None = None
    metric: Metric = "standardised"
    seed: int | None = None
    knows: Mapping[str, Precision] | None = None

    def __post_init__(self) -> None:
        require_choice(self.metric, name="metric", choices=METRICS)
        if self.knows is not None:
            from sfumato.risk.knowledge import require_knowledge

            require_knowledge(self.knows)


def pair_release(
    original: Any,
    release: Any,
    reference: Any,
    options: ComparisonOptions,
    *,
    origin: NDArray[np.int64] | None = None,
    schema: Schema | None = None,
) -> MeasuredRelease:
    """Return the rows in the form that single measures and their pictures use."""
    manifest = release.manifest if isinstance(release, Release) else None
    table = _with_released_kinds(original, manifest)
    released, origin = _in_order(
        _without_pseudonyms(release) if isinstance(release, Release) else as_table(release), origin
    )
    return MeasuredRelease(
        original=table,
        released=released,
        reference=None if reference is None else _with_released_kinds(reference, manifest),
        origin=origin,
        columns=None if options.columns is None else tuple(options.columns),
        quasi=manifest.names(Role.QUASI) if manifest else None,
        unaltered=manifest.unaltered if manifest else (),
        manifest=manifest,
        knows=dict(options.knows or {}),
        person=_column_of(Role.PERSON, schema, manifest, table),
        household=_column_of(Role.HOUSEHOLD, schema, manifest, table),
        metric=options.metric,
        trees=_trees(schema, table),
        randomness=Randomness(options.seed),
    )


def take_measures(
    subject: MeasuredRelease,
    *,
    measures: Sequence[str] | None = None,
    manifest: Manifest | None,
    counted: ComparedRows | None = None,
    draws: int | None = None,
) -> Assessment:
    """Take the measures of a release, and list those that could not be taken.

    If the subject is a sample, ``counted`` is what was counted on all rows, and ``draws`` the number of independent
    draws if it is not the number of rows. Without an origin, original and release
    were sampled separately, and measures of single people are omitted.
    """
    taken: dict[str, tuple[Score, ...]] = {}
    omitted = []
    for name in _require_known(MEASURES if measures is None else measures):
        missing = _missing_need(subject, MEASURES[name], separate=counted is not None and subject.origin is None)
        if missing is not None:
            omitted.append(Omitted(name=name, reason=REASONS[missing], tests=MEASURES[name].tests))
        elif name == COUNTED and counted is not None:
            taken[name] = tuple(counted_copy_scores(subject, counted))
        else:
            taken[name] = _take(subject, MEASURES[name])
    return Assessment(
        method=manifest.method if manifest else "unknown method",
        original_rows=subject.original.rows if counted is None else counted.original_rows,
        released_rows=subject.released.rows if counted is None else counted.released_rows,
        reference_rows=0 if subject.reference is None else subject.reference.rows,
        columns=len(subject.names),
        scores=_judge_tests(taken.values()),
        omitted=tuple(omitted),
        people=_number_of_people(subject, counted),
        knowledge=_say_knowledge(subject),
        sampled_rows=0 if counted is None else subject.original.rows,
        sampled_groups=0 if counted is None else subject.original.rows if draws is None else draws,
    )


def _take(subject: MeasuredRelease, measure: Measure) -> tuple[Score, ...]:
    """Take a measure; attacks by what is known of people see columns as precisely as intruders know them."""
    if not (subject.knows and measure.by_knowledge):
        return _count_people(subject, measure)
    told = f"; intruders know {_say_knowledge(subject)}"
    return tuple(replace(score, note=score.note + told) for score in _count_people(subject.as_known, measure))


def _say_knowledge(subject: MeasuredRelease) -> str:
    """Return which compared columns intruders know less precisely, and how; empty if none."""
    if not subject.knows:
        return ""
    from sfumato.risk.knowledge import say_knowledge

    return say_knowledge(subject.knows, subject.names)


def _count_people(subject: MeasuredRelease, measure: Measure) -> tuple[Score, ...]:
    """Take a measure; if a column tells people apart, one about people looks at one row of each.

    In a table of very many columns, a measure that needs the matrix looks at some of them.
    """
    seen, told = subject, ""
    if subject.is_wide and not measure.by_products:
        seen, told = subject.narrow, f"; {len(subject.narrow.names):,} of {len(subject.names):,} columns"
    if seen.owners is None or not measure.of_people:
        return tuple(replace(score, note=score.note + told) for score in measure(seen))
    return tuple(replace(score, counted="people", note=score.note + told) for score in measure(seen.one_row_each))


def _number_of_people(subject: MeasuredRelease, counted: ComparedRows | None) -> int:
    """Return the number of people of the original; 0 if no column tells them apart."""
    if subject.owners is None:
        return 0
    return int(subject.owners.max()) + 1 if counted is None else counted.people


def _judge_tests(measures: Iterable[tuple[Score, ...]]) -> tuple[Score, ...]:
    """Give every test its result; each measure has its share of the level (Bonferroni's inequality)."""
    taken = list(measures)
    families = [scores[0].family for scores in taken if any(score.p_value is not None for score in scores)]
    whole = sum(SHARES[family] for family in set(families))
    level = {family: LEVEL * SHARES[family] / whole / families.count(family) for family in set(families)}
    return tuple(
        score if score.p_value is None else _judge(score, level[score.family]) for scores in taken for score in scores
    )


def _judge(score: Score, level: float) -> Score:
    """Give a test its result, and an attack the interval that agrees with it."""
    assert score.p_value is not None
    judged = replace(score, passed=score.p_value > level)
    if score.chance is None or score.low is None or score.high is None:
        return judged
    ends = Interval(score.value, score.low, score.high).agree(score.chance, score.p_value, level)
    gain = None if score.gain is None else max(0.0, (ends.low - score.chance) / (1.0 - score.chance))
    return replace(judged, value=ends.value, low=ends.low, high=ends.high, gain=gain)


def _require_known(names: Iterable[str]) -> tuple[str, ...]:
    for name in names:
        if name not in MEASURES:
            raise OptionError(f"There is no measure {name!r}.", found=f"measures {', '.join(MEASURES)}")
    return tuple(names)


def _missing_need(subject: MeasuredRelease, measure: Measure, *, separate: bool) -> Need | None:
    """Return what a measure lacks, or None."""
    if separate and not measure.in_samples:
        return "pairs"
    if measure.of_released_people and subject.owners is not None:
        drawn = subject.one_row_each.drawn
        return "pairs" if drawn is None or not drawn.size else None
    return measure.needs if measure.needs is not None and not _is_available(subject, measure.needs) else None


def _is_available(subject: MeasuredRelease, need: Need) -> bool:
    if need == "reference":
        return subject.reference is not None
    if need == "origin":
        return subject.origin is not None
    return any(is_interval(name, subject.released.kinds) for name in subject.names)


def _in_order(released: Table, origin: NDArray[np.int64] | None) -> tuple[Table, NDArray[np.int64] | None]:
    """Return released rows ordered by their cells: an assessment must not depend on their order, which is random.

    So are the numbers of boxes, which are therefore left out.
    """
    names = [name for name in released.names if name != BOX]
    if not names or (origin is not None and np.shape(origin) != (released.rows,)):
        return released, origin
    keys = row_keys(released.select(names))
    order = np.lexsort((*([] if origin is None else [origin]), keys[:, 1], keys[:, 0]))
    return released.take(order), None if origin is None else np.asarray(origin)[order]


def _without_pseudonyms(release: Release) -> Table:
    """Return the released rows without pseudonyms, which are no values of the original."""
    pseudonyms = release.manifest.pseudonyms if release.manifest else ()
    if not pseudonyms:
        return release.table
    return release.table.select([name for name in release.table.names if name not in pseudonyms])


def _with_released_kinds(source: Any, manifest: Manifest | None) -> Table:
    """Return a table in which columns have the roles and kinds that they had when the release was made."""
    table = as_table(source)
    if manifest is None:
        return table
    from sfumato.release.apply import roles_of

    return roles_of(manifest, table.kinds).apply(table)


def _column_of(role: Role, schema: Schema | None, manifest: Manifest | None, table: Table) -> str | None:
    """Return the column with this role: the one that is given, otherwise that of the release, if the table has it."""
    given = () if schema is None else schema.names(role)
    if given:
        table.require(given)
        return given[0]
    told = manifest.names(role) if manifest else ()
    absent = [name for name in told if name not in table.kinds]
    if absent:
        warn(f"The original has no column {absent[0]!r}, which was the {role} of the release: rows are counted.")
    return told[0] if told and not absent else None


def _trees(schema: Schema | None, table: Table) -> dict[str, Tree]:
    """Return the generalization trees of the columns of a table that declare one."""
    declared = [column for column in schema.columns if column.tree and column.name in table.kinds] if schema else []
    trees = {column.name: tree_for(column, table.coded(column.name).values) for column in declared}
    return {name: tree for name, tree in trees.items() if tree is not None}


class Holdout(NamedTuple):
    """The two parts of a table, each with its rows in their original order.

    Attributes
    ----------
    kept : Table
        The rows to release.
    other : Table
        The holdout, which must not be released.
    """

    kept: Table
    other: Table


def split_holdout(table: Any, share: float = 0.5, *, seed: int | None = None, person: str | None = None) -> Holdout:
    """Split off a random share of the rows as a holdout, before anything is anonymized.

    The holdout is a sample of the same population without the released people, so it can be used as the ``reference``
    of :func:`sfumato.assess`.

    Parameters
    ----------
    table : Table, path or data frame
        Anything that :func:`sfumato.read` accepts or returns, or a pandas, polars or Arrow table.
    share : float, default 0.5
        Share of the rows that go to the holdout, from 0 to 1.
    seed : int, optional
        Seed that makes the split repeatable, for tests. Default: random numbers from the operating system.
    person : str, optional
        Column that tells people apart who have several rows: all rows of a person are on the same side, and ``share``
        is that of the people. Default: every row is another person.

    Returns
    -------
    Holdout
        A named tuple of two tables: ``kept``, the rows to release, and ``other``, the holdout.

    Examples
    --------
    >>> import sfumato as sf
    >>> kept, other = sf.split_holdout({"age": range(100)}, 0.3)
    >>> kept.rows, other.rows
    (70, 30)
    """
    require_share(share, name="share")
    whole = as_table(table)
    codes = np.arange(whole.rows) if person is None else whole.coded(person).codes
    people = int(codes.max(initial=-1)) + 1
    order = Randomness(seed).stream("holdout").permutation(people)
    is_other = np.zeros(people, dtype=bool)
    is_other[order[: round(share * people)]] = True
    return Holdout(kept=whole.take(np.flatnonzero(~is_other[codes])), other=whole.take(np.flatnonzero(is_other[codes])))
