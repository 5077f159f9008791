"""Moved to :mod:`sfumato.schema.recognition.cells`."""

# ruff: noqa: PLC0414

from sfumato.schema.recognition.cells import SHOWN_AGE as SHOWN_AGE  # moved
from sfumato.schema.recognition.cells import ColumnCells as ColumnCells  # moved
from sfumato.schema.recognition.cells import ages as ages  # moved
from sfumato.schema.recognition.cells import as_texts as as_texts  # moved
from sfumato.schema.recognition.cells import cells_of as cells_of  # moved
from sfumato.schema.recognition.cells import reveals_ninety as reveals_ninety  # moved
from sfumato.schema.recognition.cells import zip_codes as zip_codes  # moved
