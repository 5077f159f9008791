"""Files of SPSS, Stata and SAS, read and written with pyreadstat.

Value labels become categories, codes that stand for missing values become missing, and the label of each column is
kept in the metadata of its Arrow field.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.formats.isolated import read_isolated, say_notes, with_notes
from sfumato.formats.raw_files import BinaryFormat
from sfumato.table.table import LABEL, pandas_frame

EXACT_WHOLE = 2.0**53  # whole numbers up to this are exact as floating-point numbers


def read_statistics_file(raw: bytes, file: str, binary: BinaryFormat, *, missing: Sequence[str]) -> pa.Table:
    """Read a file in a process of its own, and warn of labels that are not read."""
    binary.require_package()
    table = read_isolated(
        raw, read_statistics, file=file, what=binary.what, format=binary.suffixes[0][1:], missing=missing
    )
    say_notes(table, file)
    return table


def read_statistics(raw: bytes, format: str, *, missing: Sequence[str] = ()) -> pa.Table:
    """Read a "sav", "por", "dta", "sas7bdat" or "xpt" file; ``missing`` are texts or numbers that count as missing."""
    import pyreadstat

    readers = {
        "sav": pyreadstat.read_sav,
        "por": pyreadstat.read_por,
        "dta": pyreadstat.read_dta,
        "sas7bdat": pyreadstat.read_sas7bdat,
        "xpt": pyreadstat.read_xport,
    }
    cells, about = readers[format](io.BytesIO(raw), output_format="dict")  # user-missing codes become missing
    fields, columns, partly = [], [], []
    for name in about.column_names:
        column = _drop_codes(_plain(cells[name]), missing)
        labels = about.variable_value_labels.get(name, {})
        labels = {code: text for code, text in labels.items() if _occurs(code, column)}
        named = _label_codes(column, labels, ordered=about.variable_measure.get(name) == "ordinal") if labels else None
        if labels and named is None:
            partly.append(name)
        columns.append(column if named is None else named)
        label = about.column_names_to_labels.get(name)
        fields.append(pa.field(name, columns[-1].type, metadata={LABEL: label} if label else None))
    return with_notes(pa.table(columns, schema=pa.schema(fields)), _notes(partly))


def _notes(partly: list[str]) -> list[str]:
    if not partly:
        return []
    return [
        f"Columns in which only some values have a label are read without labels: {', '.join(map(repr, partly))}. If a "
        "label means a missing value, name its code with missing= (--missing)."
    ]


def _plain(cells: Any) -> pa.Array:
    """Return cells as Arrow: empty text is missing, and numbers are whole if all of them are."""
    column = pa.array(cells, from_pandas=True)
    if pt.is_string(column.type):
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    if pt.is_floating(column.type):
        numbers = column.drop_null().to_numpy()
        if ((numbers == np.rint(numbers)) & (np.abs(numbers) <= EXACT_WHOLE)).all() and numbers.size:
            return column.cast(pa.int64())
    return column


def _drop_codes(column: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Make cells missing that are one of these texts or numbers."""
    if not missing or not (pt.is_string(column.type) or pt.is_integer(column.type) or pt.is_floating(column.type)):
        return column
    marks = list(missing) if pt.is_string(column.type) else [number for text in missing for number in _number(text)]
    is_marked = pc.is_in(column if pt.is_string(column.type) else column.cast(pa.float64()), value_set=pa.array(marks))
    return pc.if_else(is_marked, pa.scalar(None, column.type), column) if marks else column


def _number(text: str) -> list[float]:
    try:
        return [float(text)]
    except ValueError:
        return []


def _occurs(code: Any, column: pa.Array) -> bool:
    """Whether a labelled code is in the column; labels of codes that nobody has are not part of the table."""
    if isinstance(code, str) != pt.is_string(column.type):
        return False
    cells = column if pt.is_string(column.type) else column.cast(pa.float64())
    return bool(pc.any(pc.equal(cells, pa.scalar(code, cells.type))).as_py())


def _label_codes(column: pa.Array, labels: Mapping[Any, str], *, ordered: bool) -> pa.Array | None:
    """Return the labels in place of the codes, in the order of the codes; None if a value has no label."""
    codes = sorted(labels)
    cells = column if pt.is_string(column.type) else column.cast(pa.float64())
    places = pc.index_in(cells, value_set=pa.array(codes, cells.type))
    if places.null_count > column.null_count:
        return None
    names = _distinct([str(labels[code]).strip() or str(code) for code in codes], codes)
    return pa.DictionaryArray.from_arrays(places, pa.array(names, pa.string()), ordered=ordered)


def _distinct(names: list[str], codes: list[Any]) -> list[str]:
    """Return the labels with their code if several codes share one, so that categories are not merged."""
    texts = [f"{code:g}" if isinstance(code, float | int) else code for code in codes]
    return [name if names.count(name) == 1 else f"{name} ({text})" for name, text in zip(names, texts, strict=True)]


def write_statistics(arrow: pa.Table, path: Path, labels: Mapping[str, str], codes: Mapping[str, Any]) -> None:
    """Write a table with labels of columns and of values in the format of the extension of ``path``."""
    import pyreadstat

    frame = pandas_frame(arrow)
    if path.suffix == ".sav":
        pyreadstat.write_sav(frame, path, column_labels=labels, variable_value_labels=codes)
    elif path.suffix == ".dta":
        pyreadstat.write_dta(frame, path, column_labels=labels, variable_value_labels=codes)
    else:
        pyreadstat.write_xport(frame, path, column_labels=labels, table_name="RELEASED")
