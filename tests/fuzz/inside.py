"""Every original record lies inside what was released for it.

Where a tracer tells which row a released one was made from, each row is held against its own. Where not, there must be
a way to pair all released rows with different original records so that every record lies inside its row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from tests.fuzz.case import RECODING, Case
from tests.fuzz.cells import POOL, holds, is_number, node_covers, numbers_of, run_covers, texts_of

LARGEST_PAIRING = 400  # rows; larger tables are not paired, because each pair is a cell of a matrix


def originals_lie_inside(case: Case) -> Iterator[str]:
    """Every original value lies in its interval or set, and boxes count their missing values rightly."""
    if not case.releases_boxes and case.method.name not in RECODING:
        return
    if case.origin is not None:
        own = case.origin[None, :]
        for name in _truthful(case):
            if not _fits(case, name, own).all():
                yield f"values outside in {name!r}"
        yield from _wrong_counts(case)
    elif case.rows <= LARGEST_PAIRING:
        yield from _unpaired(case)


def _truthful(case: Case) -> list[str]:
    """Columns of which a release says where the values lie: not those released as means, medians or labels."""
    if case.releases_boxes:
        return [*case.intervals, *case.words]
    categories = [name for name in case.words if not is_number(case.original.cells[name].type) or _tree(case, name)]
    return [*case.intervals, *categories]


def _tree(case: Case, name: str) -> object:
    return case.original.entries(name).get("tree")


def _fits(case: Case, name: str, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether original row rows[i, r] lies inside released row r in this column."""
    if name in case.intervals:
        return _fits_interval(case, name, case.numbers(name)[rows])
    values, shown = np.array(case.texts(name), dtype=object), texts_of(case.released[name])
    judged: dict[tuple[str | None, str | None], bool] = {}
    known = frozenset(values.tolist())
    found = np.empty(rows.shape if rows.shape[0] > 1 else (1, case.rows), dtype=bool)
    for column, word in enumerate(shown):
        for line in range(found.shape[0]):
            value = values[rows[line, column]]
            if (word, value) not in judged:
                judged[word, value] = _stands_for(case, name, word, value, known)
            found[line, column] = judged[word, value]
    return found


def _fits_interval(case: Case, name: str, values: NDArray[np.float64]) -> NDArray[np.bool_]:
    low, high = (numbers_of(case.released[f"{name}_{end}"])[None, :] for end in ("low", "high"))
    inside: NDArray[np.bool_] = (low <= values) & (values <= high)
    if f"{name}_missing" in case.released:
        inside |= np.isnan(values) & (numbers_of(case.released[f"{name}_missing"])[None, :] > 0)
    if case.method.name in RECODING:
        inside |= np.isnan(low) & np.isnan(high)  # no ends: nothing is said
    return inside


def _stands_for(case: Case, name: str, word: str | None, value: str | None, known: frozenset[str | None]) -> bool:
    tree = _tree(case, name)
    if case.method.name == "mdav":
        return holds(word, value)
    if case.method.name == "boxes":
        if word is not None and value is not None and case.method.categories == "tree" and tree:
            return node_covers(word, value, tree)
        return holds(word, value) or (bool(tree) and case.method.categories == "tree" and word == "*")
    if word is None or word == value:
        return True  # a few values may be released as missing: nothing is said
    if (POOL.fullmatch(word) and word not in known) or (word == "*" and case.method.name == "recode"):
        return True
    if value is None:
        return False
    return bool(tree and node_covers(word, value, tree)) or run_covers(word, value, _order(case, name))


def _order(case: Case, name: str) -> list[str]:
    """The categories of an ordered column, lowest first."""
    cells = case.original.cells[name]
    if order := case.original.entries(name).get("order"):
        return list(order)
    if hasattr(cells, "dictionary"):
        return [text for text in texts_of(cells.dictionary) if text is not None]
    by_text = dict(
        zip(case.texts(name), case.numbers(name) if is_number(cells.type) else case.texts(name), strict=True)
    )
    return sorted((text for text in by_text if text is not None), key=lambda text: by_text[text])


def _wrong_counts(case: Case) -> Iterator[str]:
    """Boxes that miscount their rows without a value."""
    assert case.origin is not None
    if not case.releases_boxes:
        return
    labels = case.groups(["box"])
    for name in case.intervals:
        is_missing = np.isnan(case.numbers(name)[case.origin])
        if f"{name}_missing" not in case.released:
            if is_missing.any():
                yield f"missing values of {name!r} are not counted"
            continue
        stated = numbers_of(case.released[f"{name}_missing"])
        if (np.bincount(labels, is_missing)[labels] != stated).any():
            yield f"a box counts the missing values of {name!r} wrongly"


def _unpaired(case: Case) -> Iterator[str]:
    """Released rows that cannot all be paired with different original records."""
    originals = np.repeat(np.arange(case.original.rows)[:, None], case.rows, axis=1)
    fits = np.ones((case.original.rows, case.rows), dtype=bool)
    for name in _truthful(case):
        fits &= _fits(case, name, originals)
    for name in case.passed:
        before, after = np.array(_exact(case.original.cells[name])), np.array(_exact(case.released[name]))
        fits &= before[:, None] == after[None, :]
    pairs = maximum_bipartite_matching(csr_matrix(fits.T), perm_type="column")
    if case.rows and (pairs < 0).any():
        yield f"{int((pairs < 0).sum())} released rows stand for no record of the original"


def _exact(cells: pa.Array | pa.ChunkedArray) -> list[str]:
    """Cells as text; a column without any value has no type in some forms of a table, so missing is one text."""
    if not is_number(cells.type):
        return [str(cell) for cell in texts_of(cells)]
    return ["None" if np.isnan(cell) else str(cell) for cell in numbers_of(cells)]
