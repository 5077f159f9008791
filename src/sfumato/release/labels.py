"""What the released columns mean, in words: labels for codebooks and for files of statistics packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.table.intervals import BOX, high_name, low_name, missing_name, original_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.release.manifest import Manifest


def released_labels(manifest: Manifest, released: Sequence[str]) -> dict[str, str]:
    """Return the labels of the released columns that have one; the ends of ranges say what they are."""
    known = {column.name: column.label for column in manifest.columns}
    labels = {name: _label(name, released, known, manifest.shifted) for name in released}
    return {name: label for name, label in labels.items() if label}


def _label(name: str, released: Sequence[str], known: dict[str, str], shifted: Sequence[str]) -> str:
    if name in known:
        return known[name]
    base = original_name(name, released, known)
    meaning = known.get(base) or base
    what = "shifted date" if base in shifted else "value"
    if name == low_name(base):
        return f"{meaning}: lower end of the range that contains the {what}"
    if name == high_name(base):
        return f"{meaning}: upper end of the range that contains the {what}"
    if name == missing_name(base):
        return f"{meaning}: number of rows of the box without a value"
    return "number of the box: its rows share all ranges" if name == BOX else ""
