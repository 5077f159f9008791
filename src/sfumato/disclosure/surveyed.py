"""Uniqueness and quasi-identifiers of a table that is only seen through a survey, whatever its size.

Uniqueness is counted on all rows. The search for quasi-identifiers estimates shares from sketches of the combinations
of values, with a reported error, in one pass for each size of sets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.disclosure.sketched_search import search_sketches
from sfumato.disclosure.uniqueness import Uniqueness, describe, domain_sizes_of, population_of, require_columns
from sfumato.randomness import Randomness
from sfumato.survey.questions import CombinationsOf, DistinctIn, GroupSizesOf

if TYPE_CHECKING:
    from sfumato.disclosure.quasi_identifiers import QuasiIdentifiers, SetSearchOptions
    from sfumato.schema.schema import Schema
    from sfumato.survey.combination_sketches import CombinationSketch
    from sfumato.survey.survey import Survey

SKETCH = 4096  # combinations that are kept of each set of columns, by default


def surveyed_uniqueness(
    survey: Survey,
    schema: Schema | None,
    columns: Sequence[str],
    population: float | None = None,
    *,
    domain_sizes: Mapping[str, int] | None = None,
) -> Uniqueness:
    """Count how many rows a set of columns makes unique, as :func:`sfumato.disclosure.uniqueness.uniqueness`."""
    names = require_columns(survey.kinds, survey.rows, columns)
    together = GroupSizesOf(names)
    sizes = survey.ask([together])[together]
    return describe(
        columns=names,
        rows=survey.rows,
        sizes=sizes.sizes,
        asked=sizes.sizes * sizes.groups,
        domain=math.prod(_domains(survey, schema, names, domain_sizes).values()),
        population=population_of(survey.rows, population),
    )


def surveyed_quasi_identifiers(
    survey: Survey,
    schema: Schema | None,
    options: SetSearchOptions,
) -> QuasiIdentifiers:
    """Find the minimal sets of columns that identify people; each share has the error of its sketch.

    The ``sample`` of the options is the number of combinations that are kept of each set of columns.
    """
    columns, given = options.columns, options.domain_sizes
    names = require_columns(survey.kinds, survey.rows, tuple(survey.kinds) if columns is None else columns)
    people = population_of(survey.rows, options.population)
    salt = Randomness(options.seed).stream("sketched combinations").bytes(16)

    def sketched(sets: Sequence[tuple[str, ...]]) -> Sequence[CombinationSketch]:
        question = CombinationsOf(tuple(sets), options.sample or SKETCH, salt)
        sketches: tuple[CombinationSketch, ...] = survey.ask([question])[question]
        return sketches

    needed = options.by == "population" or given or schema is not None
    sizes = _domains(survey, schema, names, given) if needed else None
    searched = replace(options, columns=names, population=people, domain_sizes=sizes)
    return search_sketches(sketched, searched)


def _domains(
    survey: Survey, schema: Schema | None, names: Sequence[str], given: Mapping[str, int] | None
) -> dict[str, int]:
    counts = {name: GroupSizesOf((name,)) for name in names if name not in (given or {})}
    answers = survey.ask(counts.values())
    return domain_sizes_of(
        names,
        given,
        schema,
        survey.kinds,
        values=lambda name: survey.ask([DistinctIn(name)])[DistinctIn(name)].values,
        counted=lambda name: answers[counts[name]].count,
    )
