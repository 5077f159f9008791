"""The promise that all methods of recoding share."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.methods.claims import Containment
from sfumato.methods.recodings.buckets import Buckets
from sfumato.methods.recodings.recoding import Recoding, ValueMap


def truth_of(recodings: Sequence[Recoding]) -> tuple[Containment, ...]:
    """Return the promise that released ranges and categories contain the original values; not for medians and means."""
    ranges = tuple(one.name for one in recodings if isinstance(one, Buckets) and one.shown == "range")
    covers = {one.name: one.covers for one in recodings if isinstance(one, ValueMap)}
    columns = (*ranges, *covers)  # a group may be released as missing, which says nothing about its values
    return (Containment(columns=columns, covers=covers, empty_is_unknown=True),) if columns else ()
