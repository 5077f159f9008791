"""Check a schema against a table, and convert the table to the kinds that the schema declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import SchemaError
from sfumato.formats.type_inference import Spelling, infer_type
from sfumato.schema.columns import Column, Role
from sfumato.table.facts import ColumnFacts
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

LARGEST_TOTAL = 1e150  # of weights: statistics square it


def convert(columns: Iterable[Column], table: Table) -> Table:
    """Return the table with the declared kinds; stored types change only if a kind requires it."""
    arrow, kinds = table.arrow, dict(table.kinds)
    for column in columns:
        if column.name not in kinds:
            continue
        if column.kind is None:
            if (column.domain is not None or column.words) and _is_zero_or_one(arrow, kinds, column.name):
                kinds[column.name] = Kind.WHOLE  # what is declared about its numbers says that it has numbers
            continue
        position = arrow.column_names.index(column.name)
        arrow = arrow.set_column(position, column.name, _as_kind(arrow.column(position), column))
        kinds[column.name] = column.kind
    return Table(arrow, kinds)


def _is_zero_or_one(arrow: pa.Table, kinds: Mapping[str, Kind], name: str) -> bool:
    return kinds[name] is Kind.BOOLEAN and bool(pt.is_integer(arrow.column(name).type))


def _as_kind(cells: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    if column.kind is Kind.ORDERED and column.order:
        return _in_order(cells, column)
    if column.kind is Kind.ORDERED and _values_type(cells) == pa.string() and not getattr(cells.type, "ordered", False):
        raise SchemaError(
            f"Column {column.name!r} is ordered, so its order must be declared.", fix="order = [lowest, …, highest]"
        )
    if column.kind in (Kind.ORDERED, Kind.NOMINAL, Kind.TEXT):
        return cells
    numbers = _as_numbers(cells.cast(_values_type(cells)), column)
    if numbers is None:
        raise SchemaError(f"Column {column.name!r} cannot be read as {column.kind}.", found=f"type {cells.type}")
    return numbers


def _as_numbers(cells: pa.ChunkedArray, column: Column) -> pa.ChunkedArray | None:
    kind = cells.type
    if column.kind is Kind.DATE:
        if not pt.is_string(kind):
            return cells if pt.is_temporal(kind) else None
        moments = infer_type(cells, Spelling())
        return moments if pt.is_temporal(moments.type) else None
    if pt.is_temporal(kind):
        return None
    if column.kind is Kind.CONTINUOUS:
        return cells if pt.is_floating(kind) or pt.is_decimal(kind) else _cast(cells, pa.float64())
    if column.kind is Kind.WHOLE:
        return cells if pt.is_integer(kind) else _cast(cells, pa.int64())
    if pt.is_integer(kind) and not pc.all(pc.is_in(cells, value_set=pa.array([0, 1, None], kind))).as_py():
        return None
    return cells if pt.is_boolean(kind) else _cast(cells, pa.bool_())


def _cast(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return cells.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the error quotes the cell, so it is dropped here
        return None


def _values_type(cells: pa.ChunkedArray) -> pa.DataType:
    return cells.type.value_type if pt.is_dictionary(cells.type) else cells.type


def _in_order(cells: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    texts = cells.cast(_values_type(cells)).cast(pa.string())
    order = pa.array(column.order, pa.string())
    codes = pc.index_in(texts, value_set=order)
    outside = codes.null_count - texts.null_count
    if outside:
        raise SchemaError(
            f"The order of column {column.name!r} must contain every value of the column.",
            found=f"{outside:,} of {len(texts) - texts.null_count:,} cells with values that are not in the order",
            fix="add the missing values to the order",
        )
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(chunk, order, ordered=True) for chunk in codes.chunks],
        pa.dictionary(pa.int32(), pa.string(), ordered=True),
    )


def require_fit(columns: Sequence[Column], ask: Callable[[Sequence[str], bool], Mapping[str, ColumnFacts]]) -> None:
    """Raise unless every declared domain, fuzzy set and weight fits the cells.

    ``ask(names, count_distinct)`` returns facts about the cells of these columns.
    """
    weights = [column.name for column in columns if column.role is Role.WEIGHT]
    if len(weights) > 1:
        raise SchemaError("At most one column may have the role weight.", found=", ".join(map(repr, weights)))
    declared = [column for column in columns if column.domain is not None or column.words]
    facts = ask(list(dict.fromkeys([*(column.name for column in declared), *weights])), False)
    for column in declared:
        _require_numeric(column, facts[column.name])
        if column.domain is not None:
            _require_within(column, facts[column.name])
    for name in weights:
        _require_weights(name, facts[name])


def _require_numeric(column: Column, facts: ColumnFacts) -> None:
    if not facts.kind.is_numeric:
        declares = "a domain" if column.domain is not None else "words for its numbers"
        raise SchemaError(f"Column {column.name!r} has {declares}, so it must be numeric.", found=f"kind {facts.kind}")


def _require_within(column: Column, facts: ColumnFacts) -> None:
    assert column.domain is not None
    low, high = column.domain
    sides = [f"a smallest value below {low:g}"] if facts.low < low else []
    sides += [f"a largest value above {high:g}"] if facts.high > high else []
    if sides:
        raise SchemaError(
            f"The domain of column {column.name!r} must contain every number of the column.",
            found=" and ".join(sides),
            fix="widen the domain, or correct the cells",
        )


def _require_weights(name: str, facts: ColumnFacts) -> None:
    if facts.kind not in (Kind.CONTINUOUS, Kind.WHOLE, Kind.BOOLEAN):
        raise SchemaError(f"The weights in column {name!r} must be numbers.", found=f"kind {facts.kind}")
    wrong = [f"{facts.missing:,} missing"] if facts.missing else []
    wrong += [f"{facts.infinite:,} infinite"] if facts.infinite else []
    wrong += ["negative weights"] if facts.low < 0.0 else []
    wrong += ["weights whose total is too large"] if facts.high > LARGEST_TOTAL / max(1, facts.rows) else []
    if wrong:
        raise SchemaError(
            f"The weights in column {name!r} must be finite, not negative and not missing.",
            found=", ".join(wrong),
        )
