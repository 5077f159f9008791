"""Moved to :mod:`sfumato.schema.recognition.roles`."""

# ruff: noqa: PLC0414

from sfumato.schema.recognition.roles import may_be_unknown as may_be_unknown  # moved
from sfumato.schema.recognition.roles import suggest as suggest  # moved
