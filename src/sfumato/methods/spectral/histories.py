"""Which columns of a table are the history of one quantity, and a table of histories from one row per observation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import OptionError, TableError
from sfumato.table.groups import group_labels
from sfumato.table.table import Table, require_known

if TYPE_CHECKING:
    from numpy.typing import NDArray

NUMBERED = re.compile(r"(?P<stem>.+)_(?P<time>\d+(?:\.\d+)?)")
FEWEST_TIMES = 4  # columns that are taken for a history without being asked


@dataclass(frozen=True)
class TimedColumns:
    """The columns of one quantity in the order of their times."""

    stem: str
    columns: tuple[str, ...]
    times: tuple[float, ...]


def find_histories(names: Iterable[str], stems: Sequence[str] = ()) -> tuple[TimedColumns, ...]:
    """Return the histories among columns: names with the same beginning, an underscore and a number, the time.

    ``stems`` are the beginnings that are wanted. Without them, each that four or more columns share is one.

    Examples
    --------
    >>> find_histories(["sex", "pulse_2", "pulse_1"], ["pulse"])[0].columns
    ('pulse_1', 'pulse_2')
    """
    found: dict[str, list[tuple[float, str]]] = {}
    for name in names:
        match = NUMBERED.fullmatch(name)
        if match:
            found.setdefault(match["stem"], []).append((float(match["time"]), name))
    absent = [stem for stem in stems if len(found.get(stem, [])) < 2]
    if absent:
        raise OptionError(
            "A history must have at least two columns, whose names end with an underscore and a number.",
            found=f"no such columns of {', '.join(map(repr, absent))}",
            fix="columns such as 'pulse_0', 'pulse_30' and histories=('pulse',); sf.histories makes them",
        )
    chosen = stems or [stem for stem, columns in found.items() if len(columns) >= FEWEST_TIMES]
    return tuple(_history(stem, sorted(found[stem])) for stem in chosen)


def _history(stem: str, timed: list[tuple[float, str]]) -> TimedColumns:
    times = tuple(time for time, _ in timed)
    if len(set(times)) < len(times):
        raise OptionError(
            f"The columns of the history {stem!r} must have different times.",
            found="two names that end with the same number",
        )
    return TimedColumns(stem, tuple(name for _, name in timed), times)


def histories(table: Any, *, person: str, time: str, values: Sequence[str], times: Sequence[float] | int = 20) -> Table:
    """Return a table with one row per person from one with a row per observation.

    Each of ``values`` becomes one column per time, such as ``pulse_30``. An observation belongs to the nearest time;
    several of a person have their mean, and none is a missing cell. All other columns must be the same in all rows of
    a person.

    Parameters
    ----------
    table
        The observations: a frame, a table, or a mapping of columns.
    person
        The column that tells people apart. It stays, and is given the role "identifier" in a release.
    time
        The column of times: numbers, not below 0.
    values
        The columns that were observed: numbers.
    times
        The times of the new columns, or how many there are, equally spaced from the first observation to the last.

    Examples
    --------
    >>> import sfumato as sf
    >>> seen = {"id": [1, 1, 2], "sex": ["f", "f", "m"], "day": [0.0, 2.0, 1.0], "pulse": [60.0, 70.0, 80.0]}
    >>> people = sf.histories(seen, person="id", time="day", values=["pulse"], times=[0, 1, 2])
    >>> people.names
    ('id', 'sex', 'pulse_0', 'pulse_1', 'pulse_2')
    >>> people.numbers("pulse_2").tolist()
    [70.0, nan]
    """
    from sfumato.sources.frames import as_table

    rows = as_table(table)
    require_known((person, time, *values), rows.names)
    when = rows.numbers(time)
    if np.isnan(when).any() or (when < 0.0).any() or not values:
        raise TableError(
            "Every observation must have a time that is not below 0, and at least one column of values is needed.",
            found=f"{int((~(when >= 0.0)).sum()):,} other times, {len(values)} columns",
        )
    grid = _grid(when, times)
    people = group_labels(rows, (person,))
    first = np.unique(people, return_index=True)[1]
    place = np.abs(when[:, None] - grid).argmin(axis=1)
    columns = _constants(rows, people, first, [name for name in rows.names if name not in (time, *values)])
    for name in values:
        cells = _cell_means(rows.numbers(name), people, place, (len(first), len(grid)))
        columns |= {f"{name}_{one:g}": pa.array(cells[:, at], from_pandas=True) for at, one in enumerate(grid)}
    return Table.from_arrow(pa.table(columns))


def _grid(when: NDArray[np.float64], times: Sequence[float] | int) -> NDArray[np.float64]:
    if isinstance(times, int):
        grid = np.linspace(when.min(initial=0.0), when.max(initial=0.0), max(times, 1))
        # four digits of the span are written in the names of the columns
        grid = np.unique(np.round(grid, max(0, 4 - int(np.ceil(np.log10(max(float(np.ptp(grid)), 1e-9)))))))
    else:
        grid = np.unique(np.asarray(times, dtype=np.float64))
    if not len(grid) or len({f"{one:g}" for one in grid}) < len(grid) or (grid < 0.0).any():
        raise OptionError("times must be different numbers that are not below 0.", found=f"{len(grid)} times")
    return grid


def _constants(
    rows: Table, people: NDArray[np.int64], first: NDArray[np.int64], names: Sequence[str]
) -> dict[str, pa.ChunkedArray]:
    """Return columns with one cell per person; raise if a person has several."""
    varying = [name for name in names if (rows.coded(name).codes != rows.coded(name).codes[first][people]).any()]
    if varying:
        raise TableError(
            "Columns that are no values must be the same in all rows of a person.",
            found=f"several cells of one person in {', '.join(map(repr, varying))}",
            fix="name them among the values, or leave them out",
        )
    return {name: rows.arrow.column(name).take(pa.array(first)) for name in names}


def _cell_means(
    numbers: NDArray[np.float64], people: NDArray[np.int64], place: NDArray[np.int64], shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Return the mean of the numbers of each person at each time; NaN if there is none."""
    known = ~np.isnan(numbers)
    cell = people[known] * shape[1] + place[known]
    count = np.bincount(cell, minlength=shape[0] * shape[1])
    total = np.bincount(cell, weights=numbers[known], minlength=shape[0] * shape[1])
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(shape))
