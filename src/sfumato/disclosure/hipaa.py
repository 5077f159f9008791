"""Moved to :mod:`sfumato.schema.recognition.hipaa`."""

# ruff: noqa: PLC0414

from sfumato.schema.recognition.hipaa import Action as Action  # moved
from sfumato.schema.recognition.hipaa import IdentifierFinding as IdentifierFinding  # moved
from sfumato.schema.recognition.hipaa import Limits as Limits  # moved
from sfumato.schema.recognition.hipaa import find_identifiers as find_identifiers  # moved
from sfumato.schema.recognition.vocabulary import Identifier as Identifier  # moved
