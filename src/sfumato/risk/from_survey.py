"""Uniqueness and quasi-identifiers of a table that is only seen through a survey, whatever its size.

Uniqueness is counted on all rows. The search for quasi-identifiers estimates shares from sketches of the combinations
of values, with a reported error, in one pass for each size of sets.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, groupby, islice
from typing import Any

import numpy as np

from sfumato.errors import OptionError, TableError
from sfumato.plan.questions import CombinationsOf, DistinctIn, GroupSizesOf
from sfumato.plan.sketches import CombinationSketch, CombinationSketches
from sfumato.plan.survey import Survey
from sfumato.randomness import Randomness
from sfumato.risk.anonymity_budget import require_population
from sfumato.risk.quasi_identifiers import QuasiIdentifiers, SetSearchOptions
from sfumato.risk.set_search import number_of_sets
from sfumato.risk.uniqueness import (
    By,
    Uniqueness,
    describe,
    domain_sizes_of,
    population_of,
    require_columns,
    stay_alone,
    unique_bound,
)
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table

# The search for quasi-identifiers in a table that is read in parts: one pass per set size, one sketch per set.
#
# The search goes from small to large sets and skips supersets of a quasi-identifier. Shares are estimates with a
# reported error, so a set whose share is closer to α than that error may be classified wrongly.


MOST_SETS = 20_000  # of one size, in a search without a time limit
SETS_AT_ONCE = 2_000  # sketches that are in memory at the same time
SURE = 2.58  # half-width of a 99 % interval, in standard errors


def sketched_quasi_identifiers(
    parts: Callable[[], Iterable[Any]],
    columns: Sequence[str],
    population: float | None = None,
    alpha: float = 0.2,
    max_size: int = 3,
    *,
    by: By = "rows",
    sketch: int = 4096,
) -> QuasiIdentifiers:
    """Find the minimal sets of columns that identify people, in a table that is read in parts.

    Parameters
    ----------
    parts
        Function that returns all parts of the table (tables, paths or data frames), e.g. the batches of a Parquet file.
        It is called once per set size.
    columns
        Columns to search.
    population
        Number of people an intruder may choose from. None (default): the rows of the table.
    alpha
        Share of people, between 0 and 1, that a set must identify. 0.2 by default.
    max_size
        Largest number of columns in a set, at least 1. 3 by default.
    by
        "rows" (default) counts rows that are unique in the table; "population" bounds the share of people who are
        unique in the population.
    sketch
        Number of combinations that are kept per set, at least 16. 4096 by default. More give a smaller error: about
        1/√sketch of the share.

    Returns
    -------
    QuasiIdentifiers
        The sets that were found, each with its estimated share and error.

    Examples
    --------
    >>> import sfumato as sf
    >>> parts = [{"id": [1, 2], "sex": ["f", "m"]}, {"id": [3, 4], "sex": ["f", "m"]}]
    >>> [one.columns for one in sf.sketched_quasi_identifiers(lambda: parts, ["id", "sex"])]
    [('id',)]
    """
    salt = secrets.token_bytes(16)
    options = SetSearchOptions(columns=columns, population=population, alpha=alpha, max_size=max_size, by=by)

    def sketch_sets(sets: Sequence[tuple[str, ...]]) -> Sequence[CombinationSketch]:
        sketches = CombinationSketches(sets, sketch, salt)
        for part in parts():
            sketches.update(as_table(part))
        return sketches.each

    return search_sketches(sketch_sets, options)


def search_sketches(
    sketch_sets: Callable[[Sequence[tuple[str, ...]]], Sequence[CombinationSketch]], options: SetSearchOptions
) -> QuasiIdentifiers:
    """Search the sets of the columns in the options; ``sketch_sets`` makes their sketches in one pass over the rows.

    Domain sizes are estimated from the sketches if they are not given. A search that is limited in time makes only
    passes that, at the pace so far, end in time.
    """
    return _Search(sketch_sets, options).run()


class _Search:
    """A search from small to large sets."""

    def __init__(
        self, sketch_sets: Callable[[Sequence[tuple[str, ...]]], Sequence[CombinationSketch]], options: SetSearchOptions
    ) -> None:
        self.sketch_sets, self.progress, self.alpha, self.by = sketch_sets, options.progress, options.alpha, options.by
        self.columns = tuple(options.columns or ())
        self.most = len(self.columns) if options.max_size is None else min(options.max_size, len(self.columns))
        self.people = None if options.population is None else require_population(options.population)
        self.sizes = dict(options.domain_sizes or {})
        self.found: list[Uniqueness] = []
        self.visited = 0
        self.covered = 0  # sets that were examined or contain one that was found, of the sizes that are complete
        self._start = time.perf_counter()
        self._deadline = self._start + options.limit
        self._open: list[tuple[str, ...]] = []  # sets of the last size that were examined and do not identify

    def run(self) -> QuasiIdentifiers:
        """Search one size after the other, as long as there is time."""
        size = 1
        while size <= self.most and self._search_size(size):
            size = size + 1 if self._open else self.most + 1  # every larger set contains one that was found
            self.covered = number_of_sets(len(self.columns), size - 1)
        spent = time.perf_counter() - self._start
        left = number_of_sets(len(self.columns), self.most) - max(self.covered, self.visited)
        self.found.sort(key=lambda one: (len(one.columns), -one.share(self.by), one.columns))
        return QuasiIdentifiers(
            found=tuple(self.found),
            alpha=self.alpha,
            by=self.by,
            columns=self.columns,
            max_size=self.most,
            visited=self.visited,
            covered_size=size - 1,
            sets_left=left,
            seconds=spent,
            seconds_left=spent / max(self.visited, 1) * left,
        )

    def _search_size(self, size: int) -> bool:
        """Search the sets of one size, in passes; return whether all of them were searched."""
        candidates = self._candidates(size, self._open)
        if math.isinf(self._deadline):
            candidates = iter(_require_few(list(islice(candidates, MOST_SETS + 1)), size))
        self._open = []
        while some := list(islice(candidates, SETS_AT_ONCE)):
            if not self._in_time(len(some)):
                return False
            for sketch in self.sketch_sets(some):
                self._judge(sketch)
        return True

    def _candidates(self, size: int, smaller: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
        """Yield the sets none of whose subsets identifies; ``smaller`` are such sets with one column less, in order."""
        if size == 1:
            yield from ((name,) for name in self.columns)
            return
        known = set(smaller)
        for _, group in groupby(smaller, key=lambda names: names[:-1]):
            for first, second in combinations(group, 2):
                names = (*first, second[-1])
                if all(subset in known for subset in combinations(names, size - 1)):
                    yield names

    def _in_time(self, sets: int) -> bool:
        now = time.perf_counter()
        pace = (now - self._start) / self.visited if self.visited else 0.0
        return now + pace * sets <= self._deadline

    def _judge(self, sketch: CombinationSketch) -> None:
        if not sketch.rows:
            raise TableError("The table must have rows, because uniqueness is a share of rows.", found="0 rows")
        self.visited += 1
        if self.progress is not None:
            self.progress(self.visited, number_of_sets(len(self.columns), self.most))
        known = all(name in self.sizes for name in sketch.columns)
        domain = math.prod(self.sizes[name] for name in sketch.columns) if known else None
        one = estimate_uniqueness(sketch, domain=domain, population=self.people)
        if len(sketch.columns) == 1:
            self.sizes.setdefault(sketch.columns[0], one.distinct)
        if one.identifies(self.alpha, self.by):
            self.found.append(one)
        else:
            self._open.append(sketch.columns)


def _require_few(sets: Sequence[tuple[str, ...]], size: int) -> Sequence[tuple[str, ...]]:
    if len(sets) > MOST_SETS:
        raise OptionError(
            f"There must be at most {MOST_SETS:,} sets of columns of one size.",
            found=f"more sets of {size}",
            fix="fewer columns, a smaller max_size, or a time limit",
        )
    return sets


def estimate_uniqueness(
    sketch: CombinationSketch, *, domain: int | None = None, population: int | None = None
) -> Uniqueness:
    """Estimate the uniqueness of the columns of a sketch; the domain defaults to the number of combinations."""
    if not sketch.rows:
        raise OptionError("A sketch must have seen rows.", found="0 rows")
    share, counts, rows = sketch.seen_share, sketch.counts, sketch.rows
    alone, distinct = int((counts == 1).sum()), round(len(counts) / share)
    people = rows if population is None else population
    size = max(1, distinct) if domain is None else domain
    unique = min(1.0, alone / share / rows)
    sizes, times = np.unique(counts, return_counts=True)  # there are few sizes and many combinations
    expected = [t * n / rows * stay_alone(n / rows, people) for n, t in zip(sizes, times, strict=True)]
    return Uniqueness(
        columns=sketch.columns,
        rows=rows,
        unique_rows=round(unique * rows),
        unique_fraction=unique,
        distinct=distinct,
        domain=size,
        population=people,
        bound=unique_bound(size, people),
        anonymity=max(1.0, people / size),
        expected_uniform=stay_alone(1.0 / size, people),
        expected_poisson=math.exp(-people / size),
        expected_observed=min(1.0, sum(expected) / share),
        error=0.0 if sketch.is_exact else SURE * math.sqrt(alone + 1.0) / share / rows,
    )


SKETCH = 4096  # combinations that are kept of each set of columns, by default


def uniqueness_from_survey(
    survey: Survey,
    schema: Schema | None,
    columns: Sequence[str],
    population: float | None = None,
    *,
    domain_sizes: Mapping[str, int] | None = None,
    count_error: float = 0.0,
) -> Uniqueness:
    """Count how many rows a set of columns makes unique, as :func:`sfumato.risk.uniqueness.uniqueness`."""
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
        count_error=count_error,
    )


def quasi_identifiers_from_survey(survey: Survey, schema: Schema | None, options: SetSearchOptions) -> QuasiIdentifiers:
    """Find the minimal sets of columns that identify people; each share has the error of its sketch.

    The ``sample`` of the options is the number of combinations that are kept of each set of columns.
    """
    columns, given = options.columns, options.domain_sizes
    names = require_columns(survey.kinds, survey.rows, tuple(survey.kinds) if columns is None else columns)
    people = population_of(survey.rows, options.population)
    salt = Randomness(options.seed).stream("sketched combinations").bytes(16)

    def sketch_sets(sets: Sequence[tuple[str, ...]]) -> Sequence[CombinationSketch]:
        question = CombinationsOf(tuple(sets), options.sample or SKETCH, salt)
        sketches: tuple[CombinationSketch, ...] = survey.ask([question])[question]
        return sketches

    needed = options.by == "population" or given or schema is not None
    sizes = _domains(survey, schema, names, given) if needed else None
    searched = replace(options, columns=names, population=people, domain_sizes=sizes)
    return search_sketches(sketch_sets, searched)


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
