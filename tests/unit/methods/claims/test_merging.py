"""Any blocks of a release, tallied apart and merged in any order, give the finding of the whole table."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.boxes.plan import OverlappingAnonymity
from sfumato.methods.generalize.population import ProbabilisticAnonymity
from sfumato.methods.safe_harbor.method import NoIdentifierLeft, SafeHarbor
from sfumato.plan.claims.containment import AtMostNames, Containment
from sfumato.plan.claims.copies import FewRowsUnaltered
from sfumato.plan.claims.each_column import AtMostValues, EachColumnAnonymous
from sfumato.plan.claims.groups import Diversity, KAnonymity
from sfumato.plan.claims.kept_statistics import MarginalsKept, WeightTotalsKept
from sfumato.plan.claims.risk import HouseholdRisk, KMap, PopulationGroups, RiskAtMost, SampledPrivacy
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor, ValidCells
from sfumato.plan.claims.sensitive import DeclaredCloseness, EntropyDiversity, RecursiveDiversity, TCloseness
from sfumato.plan.plan import Claim, Evidence
from sfumato.table.group_counts import GroupCounts
from sfumato.table.groups import KeyedGroups
from sfumato.table.intervals import format_set
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

BOX = ("age_low", "age_high", "age_missing", "city", "box")
SHOWN = {"age": ("age_low", "age_high"), "city": ("city",)}
ALL = (*BOX, "illness", "debt_age")
PEOPLE = Table(pa.table({"city": ["a", "a", "a", "b", "a|b", None]}), {"city": Kind.NOMINAL})
OTHER_WORDS = ["a", "b", "a|b", "ab", "b|(missing)", "(any)", "(any)|(missing)", None]
CLAIMS: list[Claim[Any]] = [
    KAnonymity(k=2, columns=BOX),
    KAnonymity(k=2, columns=("city",)),
    KAnonymity(k=4, columns=()),
    OverlappingAnonymity(k=2, columns=BOX),
    Diversity(l=2, columns=BOX, column="illness"),
    Diversity(l=3, columns=("city",), column="debt_age"),
    Diversity(l=2, columns=("box",), column="debt_age", epsilon=1.0),
    Diversity(l=3, columns=("box",), column="age", epsilon=2.0, hidden=True),
    Diversity(l=2, columns=("box",), column="town", hidden=True),
    EachColumnAnonymous(k=3, columns=SHOWN),
    AtMostValues(most=1, columns=SHOWN),
    AtMostNames(most=0, columns=("city", "illness")),
    Containment(columns=("age", "city", "illness", "debt_age")),
    Containment(columns=("age", "city"), covers={"city": {"ab": frozenset({"a", "b"})}}, empty_is_unknown=True),
    RowsAccountedFor(),
    RowsAccountedFor(suppressed_at_most=0.3),
    ColumnsAllowed(names=ALL),
    ColumnsAllowed(names=BOX),
    ValidCells(),
    ValidCells(domains={"debt_age": (0.0, 2.0)}),
    ValidCells(unlimited=("debt_age",)),
    MarginalsKept(columns=("illness", "debt_age")),
    FewRowsUnaltered(columns=("illness", "debt_age"), share=0.2),
    WeightTotalsKept(weight="debt_age", box="box"),
    ProbabilisticAnonymity(k=3, population=100, beta=0.3, most=3, any_distribution=False, columns=SHOWN),
    ProbabilisticAnonymity(k=2, population=40, beta=0.5, most=50, any_distribution=True, columns=SHOWN),
    NoIdentifierLeft(policy=SafeHarbor(year=2020), columns=ALL),
    EntropyDiversity(l=1.5, columns=("box",), column="illness"),
    RecursiveDiversity(l=2, c=1.5, columns=("box",), column="illness"),
    TCloseness(t=0.3, columns=("box",), column="illness"),
    TCloseness(t=0.3, columns=("city",), column="debt_age", ordered=True),
    DeclaredCloseness(t=0.2, columns=("box",), column="illness", order=("c", "a", "b", *filter(None, OTHER_WORDS[2:]))),
    RiskAtMost(highest=0.5, average=0.4, columns=BOX),
    HouseholdRisk(columns=("city",), household="town"),
    HouseholdRisk(columns=BOX, household="town", person="debt_age"),
    SampledPrivacy(epsilon=1.0, delta=0.1, beta=0.5, k=2, columns=ALL),
    KMap(k=2, columns=("city",), population=PopulationGroups(GroupCounts.of(KeyedGroups.of(PEOPLE, ("city",))))),
]
ORIGINAL = dict.fromkeys(("age", "debt_age"), Kind.WHOLE) | dict.fromkeys(("city", "town", "illness"), Kind.NOMINAL)
RELEASED = dict.fromkeys(("age_low", "age_high", "age_missing", "box", "debt_age"), Kind.WHOLE)
RELEASED |= dict.fromkeys(("city", "illness"), Kind.NOMINAL)


def table(columns: dict[str, list], kinds: dict[str, Kind]) -> Table:
    types = {name: pa.int64() if kind is Kind.WHOLE else pa.string() for name, kind in kinds.items()}
    return Table(pa.table({name: pa.array(columns[name], types[name]) for name in kinds}), kinds)


def boxed(original: dict[str, list], origin: list[int], box: list[int]) -> dict[str, list]:
    """An honest release: the hull, the missing values and the categories of each box."""
    columns: dict[str, list] = {name: [] for name in RELEASED}
    for row, number in zip(origin, box, strict=True):
        members = [other for other, its in zip(origin, box, strict=True) if its == number]
        ages = [original["age"][member] for member in members]
        present = [age for age in ages if age is not None]
        columns["age_low"].append(min(present, default=None))
        columns["age_high"].append(max(present, default=None))
        columns["age_missing"].append(ages.count(None))
        cities = {original["city"][member] for member in members}
        columns["city"].append(format_set(sorted(cities, key=lambda city: (city is None, city))))
        columns["box"].append(number)
        for name in ("illness", "debt_age"):
            columns[name].append(original[name][row])
    return columns


@st.composite
def evidences(draw) -> Evidence:
    """Released rows of any truth: honest boxes, some of whose cells may be replaced by any others."""

    def cells(values, rows):
        return draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))

    rows = draw(st.integers(1, 10))
    ages, words = [None, 0, 1, 2, 4, 5], ["a", "b", "c", None]
    original = {"age": cells(ages, rows), "debt_age": cells([None, 0, 1, 2, 95], rows)}
    original |= {name: cells(words, rows) for name in ("city", "town", "illness")}
    origin = draw(st.permutations(range(rows)))[: draw(st.integers(1, rows))]
    if draw(st.booleans()):
        origin = [*origin, draw(st.sampled_from(origin))]  # one row twice
    columns = boxed(original, origin, cells([0, 1, 2], len(origin)))
    for name in draw(st.sets(st.sampled_from(sorted(RELEASED)))):
        other = OTHER_WORDS if RELEASED[name] is Kind.NOMINAL else [None, 0, 1, 2, 95]
        for position in draw(st.sets(st.integers(0, len(origin) - 1))):
            columns[name][position] = draw(st.sampled_from(other))
    if None in columns["box"]:
        columns["box"] = [0 if number is None else number for number in columns["box"]]
    return Evidence(table(columns, RELEASED), table(original, ORIGINAL), np.array(origin, dtype=np.int64))


def cut(whole: Evidence, part_of_row: list[int], parts: int) -> list[Evidence]:
    """Blocks of original rows, each with the released rows that stand for them."""
    part = np.array(part_of_row, dtype=np.int64)
    blocks = []
    for number in range(parts):
        rows = np.flatnonzero(part == number)
        released = np.flatnonzero(part[whole.origin] == number)
        place = np.searchsorted(rows, whole.origin[released])
        blocks.append(Evidence(whole.released.take(released), whole.original.take(rows), place.astype(np.int64)))
    return blocks


def merged(claim: Claim[Any], tallies: list[Any], choose) -> Any:
    """The tallies, sent to another process and merged two by two in an order that is drawn."""
    left = [pickle.loads(pickle.dumps(tally)) for tally in tallies]
    while len(left) > 1:
        one = left.pop(choose(len(left)))
        other = left.pop(choose(len(left)))
        left.append(claim.merge(one, other))
    return left[0]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: type(claim).__name__)
@given(data=st.data())
def test_blocks_give_the_finding_of_the_whole_table(claim, data):
    whole = data.draw(evidences())
    parts = data.draw(st.integers(1, 5))
    rows = whole.original.rows
    blocks = cut(whole, data.draw(st.lists(st.integers(0, parts - 1), min_size=rows, max_size=rows)), parts)
    tally = merged(claim, [claim.tally(block) for block in blocks], lambda size: data.draw(st.integers(0, size - 1)))
    assert claim.finding(tally) == claim.measure(whole)


def settled(claim: Claim[Any], tallies: list[Any], shares: int) -> Any:
    """The tallies as a cluster puts them together: shares, each merged and settled by itself, wherever that is."""
    gists = [claim.gist(tally) for tally in tallies]
    gist = None if gists[0] is None else reduce(lambda one, other: one.merge(other), gists)
    split = [claim.split(tally, shares) for tally in tallies]
    complete = [
        claim.settle(merged(claim, [parts[share] for parts in split], lambda size: 0), gist)
        for share in range(max(map(len, split)))
    ]
    return merged(claim, complete, lambda size: 0)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: type(claim).__name__)
@given(data=st.data())
def test_settled_shares_give_the_finding_of_the_whole_table(claim, data):
    whole = data.draw(evidences())
    parts, rows = data.draw(st.integers(1, 4)), whole.original.rows
    blocks = cut(whole, data.draw(st.lists(st.integers(0, parts - 1), min_size=rows, max_size=rows)), parts)
    tally = settled(claim, [claim.tally(block) for block in blocks], data.draw(st.integers(1, 5)))
    assert claim.finding(tally) == claim.measure(whole)


def wide_evidence(rows: int) -> Evidence:
    """Rows in boxes of two, so that the groups grow with the rows, with the values of a few people."""
    box = np.arange(rows) // 2
    age = [None if row % 7 == 0 else row % 50 for row in range(rows)]
    original = {"age": age, "debt_age": [row % 3 for row in range(rows)]}
    original |= {name: ["abc"[row % 3] for row in range(rows)] for name in ("city", "town", "illness")}
    columns: dict[str, list] = {name: [None] * rows for name in RELEASED}
    columns["box"], columns["illness"], columns["debt_age"] = box.tolist(), original["illness"], original["debt_age"]
    columns["city"] = [f"a|b|c|{number}" for number in box]
    columns["age_low"], columns["age_high"] = [0] * rows, [50] * rows
    columns["age_missing"] = [sum(age[row] is None for row in (2 * one, 2 * one + 1)) for one in box]
    return Evidence(table(columns, RELEASED), table(original, ORIGINAL), np.arange(rows))


# the finding of the first needs all combinations at once, which the population bounds; the others keep up to so many
# people or cells, and then a sample of them
GROWING = (ProbabilisticAnonymity, HouseholdRisk, NoIdentifierLeft)


@pytest.mark.parametrize("claim", [one for one in CLAIMS if not isinstance(one, GROWING)], ids=repr)
def test_what_is_left_of_a_share_does_not_grow_with_the_groups(claim):
    sizes = [
        len(pickle.dumps(settled(claim, [claim.tally(wide_evidence(rows))], 1), protocol=5)) for rows in (100, 4_000)
    ]
    assert sizes[1] <= 1.05 * sizes[0] + 64
    if isinstance(claim, KAnonymity) and "box" in claim.columns:  # the control: before, it grows
        assert len(pickle.dumps(claim.tally(wide_evidence(4_000)))) > 40_000


HALVES = {
    "age": [30, 30, 31, 31, None, 32],
    "city": ["a", "a", "b", "b", "c", None],
    "town": ["a", "b", "a", "b", "a", "b"],
    "illness": ["a", "b", "a", "b", "c", "c"],
    "debt_age": [1, 2, 1, 2, 95, 95],
}


@dataclass(frozen=True)
class Forgetful(Claim[Any]):
    """The same claim with a merge that forgets a block."""

    claim: Claim[Any]

    def tally(self, evidence):
        return self.claim.tally(evidence)

    def merge(self, one, other):
        return one

    def finding(self, tally):
        return self.claim.finding(tally)


def seen_halves() -> tuple[Evidence, list[Evidence]]:
    """Two blocks of which the second has all the faults, and the values that the first one lacks."""
    columns = boxed(HALVES, list(range(6)), [0, 0, 0, 0, 1, 1])
    columns["illness"] = ["a", "b", "c", "b", "c", "c"]  # c is no value of the first block's original
    columns["age_high"][5] = 31
    whole = Evidence(table(columns, RELEASED), table(HALVES, ORIGINAL), np.arange(6))
    blocks = cut(whole, [0, 0, 0, 0, 1, 1], 2)
    second = blocks[1]
    wider = Table(second.released.arrow.append_column("name", pa.array(["x", "y"])), RELEASED | {"name": Kind.NOMINAL})
    blocks[1] = Evidence(wider, second.original, np.array([0, 0]))
    return blocks[0], blocks[1:]


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim != KAnonymity(k=4, columns=())], ids=repr)
def test_a_merge_that_forgets_a_block_is_seen(claim):
    one, (other,) = seen_halves()
    tallies = [claim.tally(one), claim.tally(other)]
    honest = merged(claim, tallies, lambda size: 0)
    forgetful = merged(Forgetful(claim), tallies, lambda size: 0)
    assert claim.finding(honest) != claim.finding(forgetful)


def test_no_tally_shows_a_cell():
    one, _ = seen_halves()
    for claim in CLAIMS:
        shown = repr(claim.tally(one))
        assert shown.startswith("<sfumato.") and "object at" in shown


def test_a_column_that_numbers_people_is_recognised_though_no_block_could_say_so():
    """Fewer than 20 cells say nothing; 24 that are all different do."""
    codes = [f"code {number}" for number in range(24)]
    whole = Table.from_arrow(pa.table({"ref": pa.array(codes).dictionary_encode()}))
    claim = NoIdentifierLeft(policy=SafeHarbor(year=2020))
    blocks = cut(Evidence(whole, whole, np.arange(24)), [0] * 12 + [1] * 12, 2)
    assert all(claim.measure(block).held for block in blocks)
    together = claim.finding(claim.merge(*map(claim.tally, blocks)))
    assert not together.held and "code" not in together.found.replace("number or code", "")
    assert together == claim.measure(Evidence(whole, whole, np.arange(24)))


def test_very_many_cells_are_recognised_by_a_sample_of_them_however_they_are_cut(monkeypatch):
    monkeypatch.setattr("sfumato.methods.safe_harbor.method.MOST_CELLS", 200)
    rng = np.random.default_rng(2)
    columns = {
        "note": [f"{one}@x.org" for one in range(3_000)],
        "height": rng.normal(size=3_000),
        "day": np.arange(3_000).astype("datetime64[D]"),
    }
    whole = Table.from_arrow(pa.table(columns))
    claim = NoIdentifierLeft(policy=SafeHarbor(year=2020))
    blocks = cut(Evidence(whole, whole, np.arange(3_000)), rng.integers(0, 5, 3_000).tolist(), 5)
    tally = merged(claim, [claim.tally(block) for block in blocks], lambda size: 0)
    assert claim.finding(tally) == claim.measure(Evidence(whole, whole, np.arange(3_000)))
    assert "'note'" in claim.finding(tally).found
    assert all(len(kept.cells) <= 202 for kept in tally.cells.values())
    assert all(abs(kept.distinct - 3_000) < 600 for kept in tally.cells.values())
    assert tally.columns[1].numbers.max() == columns["height"].max()


def test_a_category_of_another_block_is_the_columns_own():
    one, other = (Table.from_arrow(pa.table({"city": [word]})) for word in ("a", "b"))
    blocks = [Evidence(one, other, np.zeros(1, dtype=np.int64)), Evidence(other, one, np.zeros(1, dtype=np.int64))]
    claim = ValidCells()
    assert not any(claim.measure(block).held for block in blocks)
    assert claim.finding(claim.merge(*map(claim.tally, blocks))).held
