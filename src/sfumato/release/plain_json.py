"""Records as JSON, for programs that read the output of the commands."""

from __future__ import annotations

import datetime
import json
from dataclasses import fields, is_dataclass
from typing import Any

from sfumato.params import plain


def to_json(record: Any) -> str:
    """Return a record, or several, as JSON text; numbers that are not finite become null."""
    return json.dumps(as_plain(record), indent=2, ensure_ascii=False, allow_nan=False)


def as_plain(record: Any) -> Any:
    """Convert dataclasses, at all levels, to mappings of their fields; names that start with _ are left out.

    Dates become text in ISO format.

    A class may list further properties to report in ``derived``.
    """
    if is_dataclass(record) and not isinstance(record, type):
        values = {field.name: getattr(record, field.name) for field in fields(record) if not field.name.startswith("_")}
        values |= {name: getattr(record, name) for name in getattr(record, "derived", ())}
        return {name: as_plain(value) for name, value in values.items()}
    if isinstance(record, dict):
        return {str(name): as_plain(value) for name, value in record.items()}
    if isinstance(record, datetime.date):
        return record.isoformat()
    if isinstance(record, tuple | list):
        return [as_plain(value) for value in record]
    return plain(record)
