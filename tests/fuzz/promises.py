"""What released rows promise, counted again from the rows themselves, without any code of the library.

Each check takes a `Case` and yields a sentence for everything that does not hold. Sentences name columns and counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.types as pt
from numpy.typing import NDArray

from tests.fuzz.case import PERTURBING, Case
from tests.fuzz.cells import is_number, numbers_of, texts_of
from tests.fuzz.columns import CANARY, NUMBER
from tests.fuzz.inside import originals_lie_inside

Broken = Iterator[str]
MANY = 13  # things of which an order that is right by chance is not seen in a lifetime: 1/13! is 10⁻¹⁰


def rows_are_accounted_for(case: Case) -> Broken:
    """No row is lost or added, and not more are suppressed than allowed."""
    method, rows, manifest = case.method, case.original.rows, case.release.manifest
    allowed = 0.0
    if method.name == "boxes":
        allowed = method.suppress
    if method.name == "generalize" and (method.population is None or method.within > 1 or _least_values(case) > 1):
        allowed = method.beta
    if method.name == "recode" and method.kind == "global":
        allowed = method.suppress
    if method.name == "private-sample":
        allowed = 1.0
    if not 0 <= rows - case.rows <= allowed * rows + 1e-9:
        yield f"{rows} rows in, {case.rows} out, share {allowed} allowed"
    told = None if method.name == "private-sample" else rows  # one person changes the number of rows with certainty
    if (manifest.rows_in, manifest.rows_out) != (told, case.rows):
        yield "the manifest counts other rows"


def columns_are_allowed(case: Case) -> Broken:
    """Only columns are released that are no identifiers, ends of quasi-identifiers and weights, or the box number."""
    allowed = {name for name, role in case.roles.items() if role != "identifier"}
    ends = {f"{name}_{part}" for name in case.named("quasi") for part in ("low", "high", "missing")}
    ends |= {f"{name}_{part}" for name in case.named("weight") for part in ("low", "high")}
    box = {"box"} if case.releases_boxes else set()
    for name in set(case.released) - allowed - ends - box:
        yield f"column {name!r} is released"
    for name, role in case.original.roles.items():
        if case.roles.get(name) != role:
            yield f"column {name!r} has another role"


def identifiers_stay(case: Case) -> Broken:
    """No cell of an identifier is released, and no planted cell is in what can be shown."""
    hidden = case.original.identifying
    for name, cells in case.released.items():
        if pt.is_string(cells.type) and not hidden.isdisjoint(cells.to_pylist()):
            yield f"cells of an identifier in {name!r}"
    manifest = case.release.manifest
    without_words = replace(manifest, nodes={})  # which lists values of tree columns that many people share, see below
    shown = [without_words.to_json(), repr(case.release), repr(case.release.table), repr(case.release.findings)]
    yield from traces(" ".join(shown))
    for name, words in manifest.nodes.items():
        cells = texts_of(case.original.cells[name])
        for value in words:
            if value != "(missing)" and cells.count(re.sub(r"\\(.)", r"\1", value)) < 5:
                yield f"a rare cell of {name!r} is listed"


def traces(text: str, *, words_only: bool = False) -> Broken:
    """Planted cells in a text."""
    for sign in (CANARY,) if words_only else (CANARY, str(int(NUMBER)), f"{int(NUMBER):,}"):
        if sign in text:
            yield f"a planted cell is shown: {sign}"


def groups_are_large(case: Case) -> Broken:
    """Rows share their released quasi-identifiers with as many others as the method promises."""
    method, quasi = case.method, [part for name in case.named("quasi") for part in case.shown(name)]
    least = {
        "boxes": lambda: method.k,
        "generalize": lambda: method.k if method.population is None else method.within,
        "recode": lambda: method.k,
        "suppress": lambda: method.k,
    }
    if method.name in least:
        yield from _small(case, quasi, max(least[method.name](), getattr(method, "within", 1)), "the quasi-identifiers")
    if method.name == "boxes":
        yield from _small(case, ["box"], method.k, "box")
        if len(set(case.groups(["box", *quasi]))) > len(set(case.groups(["box"]))):
            yield "rows of one box differ"
    if method.name == "mdav" and method.values != "draw":
        sets = [[name] for name in quasi] if method.is_columnwise else [quasi]
        for names in sets:
            yield from _small(case, names, method.k, ", ".join(names))
    if method.name == "spectral-rhs":
        yield from _small(case, list(case.released), method.k, "all columns")
    if method.name in ("quantiles", "optimal-groups"):
        for name in case.named("quasi"):
            if method.k is not None:
                yield from _small(case, case.shown(name), method.k, repr(name))
            else:
                values = set(zip(*(texts_of(case.released[part]) for part in case.shown(name)), strict=True))
                if len([value for value in values if any(part is not None for part in value)]) > method.buckets:
                    yield f"more values of {name!r} than buckets"


def _small(case: Case, names: list[str], k: int, what: str) -> Broken:
    sizes = np.bincount(case.groups(names)) if case.rows else np.zeros(0)
    if sizes.size and sizes.min() < k:
        yield f"a group of {sizes.min()} rows in {what}, promised {k}"


def values_are_diverse(case: Case) -> Broken:
    """Every group has l values of each sensitive column; without one, a box has l of each quasi-identifier."""
    method = case.method
    if not hasattr(method, "l") or (method.name == "curves" and method.kind != "group"):  # no groups: swapped scores
        return
    sensitive, l = case.named("sensitive"), _least_values(case)
    if method.name != "boxes":
        if getattr(method, "l_kind", "distinct") == "distinct" and l > 1:
            labels = case.groups([part for name in case.named("quasi") for part in case.shown(name)])
            for name in sensitive:
                yield from _poor(case, name, labels, _values(case, name), l)
        return
    labels = case.groups(["box"])
    for name in sensitive:
        yield from _poor(case, name, labels, _values(case, name), l)
    if not sensitive and case.origin is not None:
        for name in case.named("quasi"):
            yield from _poor(case, name, labels, _values(case, name)[case.origin], l)


def _least_values(case: Case) -> int:
    """How many values of a sensitive column a group must have."""
    given = getattr(case.method, "l", 1)
    return given if given is not None else 2 if case.named("sensitive") else 1


def _values(case: Case, name: str) -> NDArray[Any]:
    """The values of a column: of the release where it is released as it is, else of the original."""
    cells = case.released.get(name) if case.roles[name] == "sensitive" else case.original.cells[name]
    assert cells is not None
    if pt.is_integer(cells.type) and case.method.name != "boxes":  # whole numbers that floats would round
        return np.array(texts_of(cells), dtype=object)
    return numbers_of(cells) if is_number(cells.type) else np.array(texts_of(cells), dtype=object)


def _poor(case: Case, name: str, labels: NDArray[np.int64], values: NDArray[Any], l: int) -> Broken:
    epsilon = case.method.epsilon if case.method.name == "boxes" else None
    kind = next(column.kind for column in case.release.manifest.columns if column.name == name)
    apart = epsilon.get(name, 0.0) if isinstance(epsilon, dict) else epsilon or 0.0
    apart = 0.0 if str(kind) in ("boolean", "ordered", "nominal") else apart  # of categories written as numbers
    for label in set(labels.tolist()):
        if _different(values[labels == label], apart) < l:
            yield f"a group has fewer than {l} values of {name!r}"
            return


def _different(values: NDArray[Any], epsilon: float) -> int:
    """How many values are pairwise at least epsilon apart; a missing one counts once."""
    if values.dtype == object:
        return len(set(values.tolist()))
    present = np.unique(values[~np.isnan(values)])
    chosen: list[float] = []
    for value in present:
        if not chosen or value - chosen[-1] >= epsilon - 2.0**-50 * max(abs(value), abs(chosen[-1])):
            chosen.append(value)
    return len(chosen) + bool(np.isnan(values).any())


def passed_cells_are_the_same(case: Case) -> Broken:
    """Sensitive and other columns hold the same cells as before, as often, apart from suppressed rows."""
    if case.method.name in (*PERTURBING, "safe-harbor", "private-sample"):
        return
    for name in case.passed:
        before, after = Counter(texts_of(case.original.cells[name])), Counter(texts_of(case.released[name]))
        numeric = is_number(case.original.cells[name].type)
        if numeric:  # a frame may hold whole numbers as floats
            before, after = (Counter(map(str, numbers_of(c))) for c in (case.original.cells[name], case.released[name]))
        if (after - before).total() or (before - after).total() != case.original.rows - case.rows:
            yield f"cells of {name!r} were changed"


def marginals_are_kept(case: Case) -> Broken:
    """Swapped and shuffled columns hold the same cells as before, each as often."""
    if case.method.name not in ("shuffle", "swap") or getattr(case.method, "basis", "columns") != "columns":
        return
    for name in case.released:
        before, after = case.original.cells[name], case.released[name]
        both = numbers_of if is_number(before.type) and is_number(after.type) else texts_of
        if Counter(map(str, both(before))) != Counter(map(str, both(after))):
            yield f"values of {name!r} are other ones, or others as often"


def values_are_valid(case: Case) -> Broken:
    """Perturbed categories are the column's own, whole numbers are whole, and nothing is infinite."""
    if case.method.name not in PERTURBING:
        return
    if set(case.released) != {name for name, role in case.roles.items() if role != "identifier"}:
        yield "other columns than those of the original"
    for name, cells in case.released.items():
        original = case.original.cells[name]
        if not is_number(original.type) or not is_number(cells.type):
            if set(texts_of(cells)) - set(texts_of(original)):
                yield f"a value of {name!r} that no row had"
            continue
        numbers = numbers_of(cells)
        if np.isinf(numbers).any():
            yield f"an infinite number in {name!r}"
        whole = pt.is_integer(cells.type) or pt.is_date(cells.type)
        if whole and (numbers[~np.isnan(numbers)] % 1).any():
            yield f"a number of {name!r} is not whole"


def moments_are_kept(case: Case) -> Broken:
    """A repaired swap keeps means and covariances of the columns that the promise names."""
    if case.method.name != "svd-swap" or not case.method.repair:
        return
    names = [name for name in case.released if pt.is_float64(case.original.cells[name].type)]
    start = "means and covariances of "  # of some columns, where outliers leave no room for the moments of others
    claims = [finding.claim for finding in case.release.manifest.findings if finding.claim.startswith(start)]
    promised = {name for claim in claims for name in claim.removeprefix(start).rpartition(" kept to ")[0].split(", ")}
    names = [name for name in names if name in promised and _is_ordinary(case.numbers(name))]
    if not names:
        return
    before = np.column_stack([case.numbers(name) for name in names]).astype(np.longdouble)
    after = np.column_stack([numbers_of(case.released[name]) for name in names]).astype(np.longdouble)
    spread = before.std(axis=0)
    scale = np.where(spread > 1e-12 * np.abs(before.mean(axis=0)), spread, np.maximum(np.abs(before.mean(axis=0)), 1))
    means = np.abs(after.mean(axis=0) - before.mean(axis=0)) / scale
    centred = [(matrix - matrix.mean(axis=0)) / scale for matrix in (before, after)]
    products = [matrix.T @ matrix / len(matrix) for matrix in centred]
    if not max(means.max(), np.abs(products[0] - products[1]).max()) <= 1e-6:
        yield "means or covariances moved"


def _is_ordinary(numbers: NDArray[np.float64]) -> bool:
    """Whether squares of the numbers neither overflow nor vanish, and all of their digits count."""
    size = float(np.abs(numbers).max(initial=0.0))
    return size == 0.0 or 1e-9 < size < 1e9


def order_is_random(case: Case) -> Broken:
    """Neither the order of rows nor the numbers of boxes follow the original."""
    if case.origin is not None and case.rows >= MANY and (np.diff(case.origin) > 0).all():
        yield "rows are in their original order"
    if case.method.name != "boxes" or not case.intervals:
        return
    labels, low = numbers_of(case.released["box"]), numbers_of(case.released[f"{case.intervals[0]}_low"])
    _, first = np.unique(labels, return_index=True)
    ends = low[first]
    if len(np.unique(ends)) >= MANY and not np.isnan(ends).any():
        steps = np.diff(ends)
        if (steps >= 0).all() or (steps <= 0).all():
            yield "boxes are numbered in the order of a column"


CHECKS: dict[str, Callable[[Case], Broken]] = {
    check.__name__: check
    for check in (
        rows_are_accounted_for,
        columns_are_allowed,
        identifiers_stay,
        groups_are_large,
        values_are_diverse,
        originals_lie_inside,
        passed_cells_are_the_same,
        marginals_are_kept,
        values_are_valid,
        moments_are_kept,
        order_is_random,
    )
}


def broken_promises(case: Case) -> list[str]:
    """Everything that does not hold, each with the name of its check."""
    return [f"{name}: {fault}" for name, check in CHECKS.items() for fault in check(case)]
