"""Inspection counts what tells people apart."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from rich.console import Console

from sfumato.engines.memory.engine import MemorySurvey
from sfumato.report.terminal import inspection
from sfumato.risk.inspection import inspect
from sfumato.schema.schema import Schema
from sfumato.table.table import Table

TABLE = Table.from_arrow(
    pa.table({"age": [30, 30, 31, None, None], "city": ["Ulm", "Ulm", "Rom", "Rom", "Rom"], "pay": [1.0, 2, 3, 4, 5]})
)


def looked_at(**roles: str):
    schema = Schema.for_table(TABLE, roles)
    return inspect(MemorySurvey(TABLE), schema)


def test_every_column_is_counted():
    age, city, pay = looked_at(age="quasi", city="quasi", pay="sensitive").columns
    assert (age.missing, age.distinct, age.unique_rows) == (2, 2, 1)
    assert (city.missing, city.distinct, city.unique_rows) == (0, 2, 0)
    assert (pay.missing, pay.distinct, pay.unique_rows) == (0, 5, 5)


def test_a_single_missing_value_stands_alone():
    table = Table.from_arrow(pa.table({"age": [1, 1, None]}))
    schema = Schema.for_table(table, {"age": "quasi"})
    assert inspect(MemorySurvey(table), schema).columns[0].unique_rows == 1


def test_quasi_identifiers_are_counted_together():
    found = looked_at(age="quasi", city="quasi", pay="sensitive")
    assert (found.quasi, found.groups, found.unique_rows, found.smallest_group) == (("age", "city"), 3, 1, 1)
    assert found.unique_share == pytest.approx(0.2)


def test_columns_without_time_are_listed_and_not_counted(monkeypatch):
    monkeypatch.setattr("sfumato.risk.inspection.CELLS_AT_A_TIME", 1)
    schema = Schema.for_table(TABLE, {"age": "quasi", "city": "quasi", "pay": "sensitive"})
    found = inspect(MemorySurvey(TABLE), schema, seconds=1e-9)
    assert [column.name for column in found.columns] == ["age", "city", "pay"]
    assert found.not_counted == ("city", "pay") and found.columns[0].distinct == 2
    assert found.groups is None and found.quasi == ("age", "city")
    assert "2 columns were not counted" in shown(found) and "not counted in time" in shown(found)


def test_with_time_enough_nothing_changes():
    schema = Schema.for_table(TABLE, {"age": "quasi", "city": "quasi", "pay": "sensitive"})
    assert inspect(MemorySurvey(TABLE), schema, seconds=1e6) == inspect(MemorySurvey(TABLE), schema)


def shown(found):
    console = Console(file=io.StringIO(), width=200)
    console.print(inspection(found))
    return console.file.getvalue()


def test_without_quasi_identifiers_all_rows_are_one_group():
    found = looked_at(age="other", city="other", pay="other")
    assert (found.groups, found.unique_rows, found.smallest_group) == (1, 0, 5)
