"""What an intruder knows of a column: often less than the table holds (LT §5.1).

A neighbour knows that somebody is born in 1954, not the day. Columns are made as coarse as this knowledge before rows
are compared, so that risks are those of this intruder. Whoever knows more has a higher risk.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import OptionError
from sfumato.table.intervals import Member, format_set, interval_names, is_interval, parse_set
from sfumato.table.kinds import Kind
from sfumato.table.table import Table, replace_columns, require_known

Precision = Literal["day", "week", "month", "quarter", "year", "decade"] | float | Mapping[str, str]
PERIODS = ("day", "week", "month", "quarter", "year", "decade")


def coarsen(table: Table, knows: Mapping[str, Precision] | None) -> Table:
    """Return the table with the named columns as coarse as an intruder knows them.

    ``knows`` gives, for each column: a period such as "year" (dates), the width of the intervals that can be told apart
    (numbers), the number of leading characters (text), or a mapping of values to coarser ones (text; a value that is
    not in it is known as it is). A missing cell stays missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = Table.from_arrow(pa.table({"age": [31, 38, 44], "zip": ["80331", "80799", "10115"]}))
    >>> known = coarsen(people, {"age": 10, "zip": 2})
    >>> known.to_arrow().to_pydict()
    {'age': [3.0, 3.0, 4.0], 'zip': ['80', '80', '10']}
    """
    require_knowledge(knows)
    if not knows:
        return table
    require_known(knows, table.names)
    cells = {}
    for name, precision in knows.items():
        coded = table.coded(name)
        cells[name] = _coarsen_values(coded.values, table.kinds[name], precision, name).take(pa.array(coded.codes))
    kept = {name: kind for name, kind in table.kinds.items() if name not in knows}
    return Table.from_arrow(replace_columns(table.to_arrow(), cells), kept)


def require_knowledge(knows: object) -> None:
    """Raise unless this says for some columns what an intruder knows of each."""
    if knows is not None and not isinstance(knows, Mapping):
        raise OptionError(
            "What an intruder knows must be a mapping of columns to precisions.",
            found=type(knows).__name__,
            fix='{"birth_date": "year"}',
        )


def coarsen_released(released: Table, knows: Mapping[str, Precision], kinds: Mapping[str, Kind]) -> Table:
    """Return released rows in the units in which an intruder knows some columns, so that both can be compared.

    ``kinds`` are those of the original. Both ends of an interval and each member of a set are made coarser. A number
    that was released as a word stays as it is. The original itself is a release in which nothing was changed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = Table.from_arrow(pa.table({"age_low": [31, 38], "age_high": [44, 52], "zip": ["80331|80799", "10115"]}))
    >>> known = coarsen_released(rows, {"age": 10, "zip": 2}, {"age": Kind.WHOLE, "zip": Kind.NOMINAL})
    >>> known.to_arrow().to_pydict()
    {'age_low': [3.0, 3.0], 'age_high': [4.0, 5.0], 'zip': ['80', '10']}
    """
    cells, shown = dict[str, pa.Array](), dict(released.kinds)
    for name, precision in knows.items():
        for column in interval_names(name) if is_interval(name, shown) else (name,):
            if column not in shown or (kinds[name].is_numeric and not shown[column].is_numeric):
                continue
            coded = released.coded(column)
            values = _coarsen_cells(coded.values, kinds[name], precision, name)
            shown[column] = _kind_of(values)
            cells[column] = values.take(pa.array(coded.codes))
    return Table.from_arrow(replace_columns(released.to_arrow(), cells), shown)


def _coarsen_cells(values: pa.Array, kind: Kind, precision: Precision, name: str) -> pa.Array:
    """Return cells, which may be sets of categories, as coarse as they are known."""
    if kind.is_numeric:
        return _coarsen_values(values, kind, precision, name)
    sets = [parse_set(cell) for cell in values.cast(pa.string()).to_pylist()]
    members = list(dict.fromkeys(one for members in sets for one in members if isinstance(one, str)))
    coarser = _coarsen_values(pa.array(members, pa.string()), kind, precision, name).to_pylist()
    known: dict[Member, Member] = dict(zip(members, coarser, strict=True))
    return pa.array([format_set(dict.fromkeys(known.get(one, one) for one in cell)) for cell in sets], pa.string())


def _kind_of(values: pa.Array) -> Kind:
    if pa.types.is_temporal(values.type):
        return Kind.DATE
    return Kind.NOMINAL if pa.types.is_string(values.type) else Kind.CONTINUOUS


def say_knowledge(knows: Mapping[str, Precision] | None, columns: Collection[str]) -> str:
    """Return which of the columns the intruder knows less precisely, and how, as a part of a sentence."""
    return ", ".join(f"{name} {_say(precision)}" for name, precision in (knows or {}).items() if name in columns)


def _say(precision: Precision) -> str:
    if isinstance(precision, Mapping):
        return "by coarser values"
    return f"by the {precision}" if isinstance(precision, str) else f"to {float(precision):g}"


def known_sizes(known: Table, knows: Mapping[str, Precision] | None) -> dict[str, int]:
    """Return the number of values that the intruder tells apart in each column of which she knows less."""
    return {name: known.coded(name).size for name in knows or ()}


def _coarsen_values(values: pa.Array, kind: Kind, precision: Precision, name: str) -> pa.Array:
    if kind is Kind.DATE:
        return _floor_dates(values, precision, name)
    if kind.is_numeric or pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        width = _require_size(precision, name, "the width of the intervals that the intruder can tell apart, above 0")
        numbers = values.cast(pa.float64(), safe=False)
        return pc.floor(pc.divide(numbers, width))
    text = values.cast(pa.string())
    if isinstance(precision, Mapping):
        return pa.array([precision.get(one, one) for one in text.to_pylist()], pa.string())
    size = _require_size(precision, name, "the number of leading characters, or a mapping of values to coarser ones")
    if size != int(size):
        raise _wrong(name, "a whole number of leading characters", precision)
    return pc.utf8_slice_codeunits(text, 0, int(size))


def _floor_dates(values: pa.Array, precision: Precision, name: str) -> pa.Array:
    if precision not in PERIODS:
        raise _wrong(name, f"one of {', '.join(PERIODS)}", precision)
    years = pc.year(values)
    if precision == "decade":
        return pc.divide(years, pa.scalar(10, years.type))
    return years if precision == "year" else pc.floor_temporal(values, unit=precision)


def _require_size(precision: Precision, name: str, wanted: str) -> float:
    if isinstance(precision, bool) or not isinstance(precision, Real) or not 0.0 < float(precision) < np.inf:
        raise _wrong(name, wanted, precision)
    return float(precision)


def _wrong(name: str, wanted: str, precision: Any) -> OptionError:
    found = "a mapping" if isinstance(precision, Mapping) else repr(precision)
    return OptionError(f"What an intruder knows of the column {name!r} must be {wanted}.", found=found)
