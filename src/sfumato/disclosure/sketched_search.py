"""The search for quasi-identifiers in a table that is read in parts: one pass per set size, one sketch per set.

The search goes from small to large sets and skips supersets of a quasi-identifier. Shares are estimates with a reported
error, so a set whose share is closer to α than that error may be classified wrongly.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any, cast

from sfumato.disclosure.anonymity_budget import require_population
from sfumato.disclosure.combination_sketch import CombinationSketch
from sfumato.disclosure.quasi_identifiers import QuasiIdentifiers
from sfumato.disclosure.uniqueness import By, Uniqueness
from sfumato.errors import OptionError, TableError
from sfumato.params import require_choice, require_int, require_probability
from sfumato.table.frames import as_table
from sfumato.table.hashing import column_hashes, combination_hashes

MOST_SETS = 20_000  # sketches that are in memory at the same time


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
    alpha = require_probability(alpha, name="alpha")
    by = cast(By, require_choice(by, name="by", choices=("rows", "population")))
    most = min(require_int(max_size, name="max_size", at_least=1), len(columns))
    people = None if population is None else require_population(population)
    salt = secrets.token_bytes(16)
    found: list[Uniqueness] = []
    sizes: dict[str, int] = {}
    visited = 0
    for level in range(1, most + 1):
        identifying = [set(one.columns) for one in found]
        sets = [names for names in combinations(columns, level) if not any(one <= set(names) for one in identifying)]
        if not sets:
            break
        for seen in _sketched(parts, sets, sketch, salt):
            visited += 1
            domain = math.prod(sizes[name] for name in seen.columns) if level > 1 else None
            one = seen.uniqueness(domain=domain, population=people)
            if level == 1:
                sizes[one.columns[0]] = one.distinct
            if one.identifies(alpha, by):
                found.append(one)
    found.sort(key=lambda one: (len(one.columns), -one.share(by), one.columns))
    return QuasiIdentifiers(
        found=tuple(found),
        alpha=alpha,
        by=by,
        columns=tuple(columns),
        max_size=most,
        visited=visited,
        covered_size=most,
    )


def _sketched(
    parts: Callable[[], Iterable[Any]], sets: Sequence[tuple[str, ...]], size: int, salt: bytes
) -> list[CombinationSketch]:
    """Make one sketch per set in one pass over the parts."""
    if len(sets) > MOST_SETS:
        raise OptionError(
            f"There must be at most {MOST_SETS:,} sets of columns of one size.",
            found=f"{len(sets):,}",
            fix="fewer columns, or a smaller max_size",
        )
    sketches = [CombinationSketch(names, size=size, salt=salt) for names in sets]
    used = sorted({name for names in sets for name in names})
    for part in parts():
        table = as_table(part)
        hashes = {name: column_hashes(table, name, salt) for name in used}
        for sketch in sketches:
            sketch.update(table, combination_hashes([hashes[name] for name in sketch.columns]))
    if not sketches[0].rows:
        raise TableError("The table must have rows, because uniqueness is a share of rows.", found="0 rows")
    return sketches
