"""Claims against slow, obvious counts in plain Python, on the whole table and on two halves of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.generalize.population import Combinations, ProbabilisticAnonymity, RecodedCodes, expected_matches
from sfumato.plan.claims.containment import Containment
from sfumato.plan.claims.copies import FewRowsUnaltered
from sfumato.plan.claims.each_column import AtMostValues, EachColumnAnonymous
from sfumato.plan.claims.groups import Diversity, KAnonymity
from sfumato.plan.claims.rows import ValidCells
from sfumato.plan.plan import Evidence, format_count
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

NUMBER = st.one_of(st.none(), st.sampled_from([-0.0, 0.0, 0.5, 1.0, 2.0, 3.5]))
WORD = st.sampled_from(["a", "b", "", "\0", "a\0", "abcdefgh", "abcdefghi", None])
ROWS = st.lists(st.tuples(NUMBER, WORD, NUMBER), min_size=1, max_size=14)
KINDS = {"x": Kind.CONTINUOUS, "w": Kind.NOMINAL, "v": Kind.CONTINUOUS}


def table(rows) -> Table:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    types = (pa.float64(), pa.string(), pa.float64())
    cells = [pa.array(list(column), kind) for column, kind in zip(columns, types, strict=True)]
    return Table(pa.table(cells, names=list(KINDS)), KINDS)


def found_in_halves(claim, rows, cut):
    """The finding of the whole, which must also be that of two halves."""
    parts = [Evidence(table(part), table(part), np.arange(len(part))) for part in (rows, rows[:cut], rows[cut:])]
    finding = claim.measure(parts[0])
    assert claim.finding(claim.merge(claim.tally(parts[1]), claim.tally(parts[2]))) == finding
    return finding


@given(ROWS, st.integers(0, 14), st.integers(1, 4))
def test_k_anonymity_counts_equal_rows(rows, cut, k):
    sizes = Counter((x, w) for x, w, _ in rows)
    finding = found_in_halves(KAnonymity(k=k, columns=("x", "w")), rows, cut)
    assert finding.found == f"smallest group {min(sizes.values()):,}, {format_count(len(sizes), 'group')}"
    assert finding.held == (min(sizes.values()) >= k)


@given(ROWS, st.integers(0, 14), st.integers(1, 3), st.sampled_from([None, 0.5, 1.0, 1.5]))
def test_diversity_counts_the_largest_choice_of_different_values(rows, cut, l, epsilon):
    values = defaultdict(set)
    for _, w, v in rows:
        values[w].add(v)

    def different(of_group):
        present = sorted(value for value in of_group if value is not None)
        chosen = (size for size in range(len(present) + 1) for some in combinations(present, size) if apart(some))
        return max(chosen) + (None in of_group)

    def apart(some):
        return all(abs(one - other) >= (epsilon or 1e-9) for one, other in combinations(some, 2))

    poor = sum(different(of_group) < l for of_group in values.values())
    finding = found_in_halves(Diversity(l=l, columns=("w",), column="v", epsilon=epsilon), rows, cut)
    assert finding.held == (poor == 0)
    assert finding.found == f"{f'fewer in {poor}' if poor else 'all'} of {format_count(len(values), 'group')}"


@given(ROWS, ROWS, st.integers(0, 14))
def test_unaltered_rows_that_are_alone_are_counted_one_by_one(first, second, cut):
    rows = min(len(first), len(second))
    released, original = first[:rows], second[:rows]
    alone = sum(one == other and released.count(one) == 1 for one, other in zip(released, original, strict=True))
    claim = FewRowsUnaltered(columns=("x", "w", "v"), share=0.3)  # 9 of 10 cells of three are all of them
    cuts = [slice(None), slice(0, cut), slice(cut, None)]
    whole, *halves = [
        claim.tally(Evidence(table(released[part]), table(original[part]), np.arange(len(released[part]))))
        for part in cuts
        if part == slice(None) or released[part]
    ]
    finding = claim.finding(whole)
    assert finding.held == (alone <= 0.3 * rows)
    assert whole.alone == alone
    assert finding == claim.finding(halves[0] if len(halves) == 1 else claim.merge(*halves))


@given(ROWS, st.integers(0, 14), st.integers(1, 4))
def test_each_column_is_counted_by_itself(rows, cut, number):
    counts = [Counter(row[position] for row in rows) for position in range(2)]
    columns = {"x": ("x",), "w": ("w",)}
    rarest = [min(count.values()) for count in counts]
    anonymous = found_in_halves(EachColumnAnonymous(k=number, columns=columns), rows, cut)
    assert anonymous.held == (min(rarest) >= number)
    shown = [len(set(count) - {None}) for count in counts]
    assert found_in_halves(AtMostValues(most=number, columns=columns), rows, cut).held == (max(shown) <= number)


@given(ROWS, st.integers(0, 14), st.integers(1, 4), st.sampled_from([1, 3, 50]))
def test_probabilistic_anonymity_is_that_of_the_labels_of_all_rows(rows, cut, k, times):
    """The claim asks merged combinations; asking the labels row by row gives the same numbers."""
    labels = [{value: number for number, value in enumerate(dict.fromkeys(row[i] for row in rows))} for i in range(2)]
    columns = [
        RecodedCodes(np.array([labels[i][row[i]] for row in rows], dtype=np.int32), len(labels[i])) for i in range(2)
    ]
    population = times * len(rows)
    wanted = expected_matches(Combinations.of(columns, len(rows)), population, k)
    claim = ProbabilisticAnonymity(
        k=k, population=population, beta=0.25, most=6, any_distribution=False, columns={"x": ("x",), "w": ("w",)}
    )
    finding = found_in_halves(claim, rows, cut)
    combined = len(labels[0]) * len(labels[1])
    assert finding.found.startswith(f"{combined:,} combinations of at most 6; ")
    assert f" {wanted.share:.1%} of the rows" in finding.found
    assert finding.found.endswith(f" {wanted.smallest_group}")
    if abs(wanted.share_at_least - 0.75) > 1e-9:
        assert finding.held == (combined <= 6 and wanted.share_at_least >= 0.75)


BOXES = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 3)),  # the original
        st.one_of(st.none(), st.integers(0, 3)),
        st.one_of(st.none(), st.integers(0, 3)),
        st.integers(0, 2),  # what the box states
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=12,
)


@given(BOXES, st.integers(0, 12), st.booleans(), st.booleans())
def test_containment_judges_row_by_row(rows, cut, counts_missing, unknown):
    def seen(part):
        columns = list(zip(*part, strict=True)) if part else [()] * 5
        cells = dict(zip(("x", "x_low", "x_high", "x_missing", "box"), columns, strict=True))
        cells = {name: pa.array(list(column), pa.int64()) for name, column in cells.items()}
        original = Table(pa.table({"x": cells.pop("x")}), {"x": Kind.WHOLE})
        if not counts_missing:
            del cells["x_missing"]
        return Evidence(Table(pa.table(cells), dict.fromkeys(cells, Kind.WHOLE)), original, np.arange(len(part)))

    missing = Counter(box for x, *_, box in rows if x is None)
    outside = 0
    for x, low, high, stated, box in rows:
        inside = x is not None and low is not None and high is not None and low <= x <= high
        inside |= counts_missing and x is None
        inside |= unknown and low is None and high is None
        outside += not inside or (counts_missing and stated != missing[box])
    claim = Containment(columns=("x",), empty_is_unknown=unknown)
    finding = claim.measure(seen(rows))
    assert finding.held == (outside == 0)
    assert finding.found == (
        f"values outside in 'x' ({format_count(outside, 'row')})"
        if outside
        else f"{format_count(len(rows), 'row')} inside"
    )
    halves = [claim.tally(seen(part)) for part in (rows[cut:], rows[:cut])]
    assert claim.finding(claim.merge(*halves)) == finding


@given(ROWS, ROWS, st.sampled_from([{}, {"x": (0.0, 2.0)}, {"x": (-1.0, 9.0), "v": (0.0, 9.0)}]))
def test_valid_numbers_are_within_the_domain_or_the_numbers_of_the_original(before, after, domains):
    outside = []
    for position, name in ((0, "x"), (2, "v")):
        known = [row[position] for row in before if row[position] is not None]
        low, high = domains.get(name, (min(known, default=1), max(known, default=0)))
        made = [row[position] for row in after if row[position] is not None]
        if any(not low <= number <= high for number in made):
            outside.append(repr(name))
    unknown = {row[1] for row in after} - {row[1] for row in before}
    evidence = Evidence(table(after), table(before), np.zeros(len(after), dtype=np.int64))
    finding = ValidCells(domains=domains).measure(evidence)
    assert finding.held == (not outside and not unknown)
    assert (f"numbers out of range in {', '.join(sorted(outside))}" in finding.found) == bool(outside)
