"""The words and patterns by which columns are recognised, read once from ``vocabulary.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, Literal


class Identifier(StrEnum):
    """The kinds of identifiers of the HIPAA safe harbor rule, with the letters of the rule."""

    NAME = "A names"
    PLACE = "B geographic units smaller than a state"
    DATE = "C dates, and ages over 89"
    PHONE = "D telephone numbers"
    FAX = "E fax numbers"
    EMAIL = "F e-mail addresses"
    SOCIAL_SECURITY = "G social security numbers"
    MEDICAL_RECORD = "H medical record numbers"
    HEALTH_PLAN = "I health plan numbers"
    ACCOUNT = "J account numbers"
    LICENCE = "K certificate and licence numbers"
    VEHICLE = "L vehicle identifiers and licence plates"
    DEVICE = "M device identifiers and serial numbers"
    URL = "N web addresses"
    IP = "O IP addresses"
    BIOMETRIC = "P biometric identifiers"
    PHOTO = "Q photographs of faces"
    OTHER = "R any other unique number or code"


@cache
def topics() -> Mapping[str, str]:
    """Return the alternatives of every topic, joined as one regular expression."""
    known: dict[str, str] = {}
    for section in ("roles", "safe_harbor", "tokens", "cells"):
        for topic, alternatives in _content()[section].items():
            known[topic] = _join(alternatives, known)
    return known


@cache
def identifier_patterns(
    section: Literal["removed", "doubtful", "whole_cells", "contained"],
) -> tuple[tuple[Identifier, str], ...]:
    """Return kinds of identifiers with a pattern of names or of cells, the most specific first."""
    return tuple((Identifier[entry["kind"].upper()], _join(entry["any"], topics())) for entry in _content()[section])


@cache
def words_of(*chosen: str) -> frozenset[str]:
    """Return the single words of topics that contain no patterns."""
    return frozenset(word for topic in chosen for word in topics()[topic].split("|"))


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("vocabulary.toml").read_text(encoding="utf-8"))


def _join(alternatives: str | list[str], known: Mapping[str, str]) -> str:
    """Join alternatives, and replace {topic} by the alternatives of that topic."""
    listed = alternatives.split() if isinstance(alternatives, str) else alternatives
    return re.sub(r"\{([a-z_]+)\}", lambda reference: known[reference[1]], "|".join(listed))
