"""Where the table in a file begins: titles, comments and lines of headings may stand before it.

What is found is a suggestion for ``skip`` and ``header_rows``, which the owner of the file looks at.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from sfumato.errors import SfumatoError
from sfumato.formats.dialect import detect_dialect
from sfumato.formats.type_inference import is_value

LOOKED_AT = 200  # lines
MOST_TITLES = 30  # lines before a table
COMMENTS = ("#", "//", "%", "--")


@dataclass(frozen=True, kw_only=True)
class TableStart:
    """How many lines stand before a table, and how many lines of names it has; None if none were found."""

    skip: int = 0
    header_rows: int | None = None

    @property
    def has_titles(self) -> bool:
        """Whether lines of names were found, and others stand before or above them."""
        return self.header_rows is not None and self.skip + self.header_rows > 1

    def advice(self, otherwise: str | None, skipped: int = 0) -> str | None:
        """Return what to try: to leave out the titles, if there seem to be some; ``skipped`` lines are left out."""
        if not self.has_titles:
            return otherwise
        given = {"skip": self.skip + skipped, "header_rows": (self.header_rows or 1) - 1 and self.header_rows}
        wanted = {name: number for name, number in given.items() if number}
        options = " ".join(f"--{name.replace('_', '-')} {number}" for name, number in wanted.items())
        python = ", ".join(f"{name}={number}" for name, number in wanted.items())
        return f"{options}; in Python {python}; or {otherwise}"


def find_table_start(head: bytes) -> TableStart:
    """Return where the table in the first lines of a file, in UTF-8, seems to begin."""
    return suggest_start(_split(head.decode("utf-8", "replace").splitlines()[:LOOKED_AT]))


def _split(lines: Sequence[str]) -> list[list[str]]:
    """Split lines into cells as the second half of them is written: titles may have any signs."""
    body = "\n".join(lines[len(lines) // 2 :]).encode()
    try:
        dialect = detect_dialect(body or b"\n", None, file="the file")
    except SfumatoError:  # a quote that is not closed there
        return []
    records = []
    for line in lines:
        try:
            records.append(next(csv.reader([line], delimiter=dialect.separator, quotechar=dialect.quote or '"'), []))
        except csv.Error:
            return []
    return records


def suggest_start(records: Sequence[Sequence[str | None]]) -> TableStart:
    """Return where the table in these lines seems to begin.

    >>> suggest_start([["Ward 3"], ["Person", "", "Lab"], ["age", "sex", "alt"], ["3", "f", "1"], ["4", "m", "2"]])
    TableStart(skip=1, header_rows=2)
    >>> suggest_start([["# made", "by"], ["age", "sex"], ["3", "f"], ["4", "m"]])
    TableStart(skip=1, header_rows=1)
    >>> suggest_start([["of May", "by A.", ""], ["age", "sex", "alt"], ["3", "f", "1"], ["4", "m", "2"]])
    TableStart(skip=1, header_rows=1)
    """
    lines = [[str(cell or "").strip() for cell in record] for record in records[:LOOKED_AT]]
    widths = Counter(len(line) for line in lines[len(lines) // 2 :] if any(line))
    width = widths.most_common(1)[0][0] if widths else 0
    if width < 2:
        return TableStart()
    skip, last = 0, min(MOST_TITLES, len(lines) - 2)
    while skip < last and _is_before_table(lines[skip], width):
        skip += 1
    if skip == last:  # everything looks like a title
        return TableStart()
    names = next((n for n in range(skip, last) if _are_names(lines, n, skip)), None)
    if names is None or any(_filled(line) == width for line in lines[skip:names]):  # titles leave cells empty
        return TableStart(skip=skip)
    header_rows = 2 if names > skip and _are_headings(lines[names - 1]) else 1
    return TableStart(skip=names + 1 - header_rows, header_rows=header_rows)


def _is_before_table(record: Sequence[str], width: int) -> bool:
    """Whether a line is empty, a comment, or a title: another number of cells, or one cell only."""
    if not any(record) or record[0].startswith(COMMENTS):
        return True
    return len(record) != width or _filled(record) <= 1


def _are_headings(record: Sequence[str]) -> bool:
    """Whether a line has headings of several columns: no values, and empty cells between or before its texts."""
    last = max((place for place, cell in enumerate(record) if cell), default=0)
    return not all(record[:last]) and _filled(record) > 1 and not any(is_value(cell) for cell in record if cell)


def _are_names(records: Sequence[Sequence[str]], line: int, first: int) -> bool:
    """Whether a line has a name for each column: no values, none that recurs below, and values in some column below.

    Columns below different headings may have the same name.
    """
    record = records[line]
    has_headings = line > first and _are_headings(records[line - 1])
    above = accumulate(records[line - 1] if has_headings else [""] * len(record), _or_before)
    if len(set(zip(above, record, strict=False))) < len(record) or not all(record) or any(map(is_value, record)):
        return False
    body = [one for one in records[line + 1 :] if len(one) == len(record)]
    columns = list(zip(*body, strict=True)) if body else []
    recurs = any(name in column for name, column in zip(record, columns, strict=False))
    return not recurs and any(is_value(cell) for column in columns for cell in column)


def _or_before(heading: str, cell: str) -> str:
    """Return the heading of a cell: its own, or the one before it."""
    return cell or heading


def _filled(record: Sequence[str]) -> int:
    return sum(bool(cell) for cell in record)
