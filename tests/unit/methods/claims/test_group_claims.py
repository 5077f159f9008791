"""Claims about sensitive values and risk: by definition, in any blocks, and each with a release that breaks it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.plan.claims.risk import KMap, PopulationGroups, RiskAtMost, rows_for_risk
from sfumato.plan.claims.sensitive import DeclaredCloseness, EntropyDiversity, RecursiveDiversity, TCloseness
from sfumato.plan.plan import Evidence
from sfumato.release.manifest import ClaimRecord
from sfumato.schema.hierarchies import Tree
from sfumato.sources.frames import as_table
from sfumato.table.group_counts import GroupCounts
from sfumato.table.groups import KeyedGroups

TREE = Tree.of([("1", "low", "*"), ("2", "low", "*"), ("3", "high", "*"), ("4", "high", "*")])


def evidence(groups, values) -> Evidence:
    table = as_table({"q": list(groups), "s": list(values)})
    return Evidence(table, table, np.arange(table.rows))


def distance(p: np.ndarray, q: np.ndarray, kind: str) -> float:
    """The earth mover's distance by linear programming."""
    from scipy.optimize import linprog

    m = len(p)
    apart = {
        "equal": lambda i, j: float(i != j),
        "ordered": lambda i, j: abs(i - j) / (m - 1),
        "tree": lambda i, j: 0.0 if i == j else 0.5 if i // 2 == j // 2 else 1.0,
    }[kind]
    cost = [apart(i, j) for i in range(m) for j in range(m)]
    rows = [[float(i == at) for i in range(m) for j in range(m)] for at in range(m)]
    columns = [[float(j == at) for i in range(m) for j in range(m)] for at in range(m)]
    return float(linprog(cost, A_eq=[*rows, *columns], b_eq=[*p, *q]).fun)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=4, max_size=25), st.integers(1, 20))
def test_findings_are_those_of_the_definitions_in_one_block_and_in_two(rows, cut):
    rows = [*rows, (0, 1), (0, 2), (0, 3), (0, 4)]  # all values occur
    groups, values = (np.array([row[at] for row in rows]) for at in (0, 1))
    shares = {g: np.array([(values[groups == g] == v).mean() for v in (1, 2, 3, 4)]) for g in set(groups.tolist())}
    overall = np.array([(values == v).mean() for v in (1, 2, 3, 4)])
    entropy = min(np.exp(-sum(x * np.log(x) for x in p if x > 0)) for p in shares.values())
    ranked = [np.sort(p)[::-1] for p in shares.values()]
    ratio = max(p[0] / p[1:].sum() if p[1:].sum() > 0 else np.inf for p in ranked)
    t = {kind: max(distance(p, overall, kind) for p in shares.values()) for kind in ("equal", "ordered", "tree")}
    common = {"columns": ("q",), "column": "s"}
    claims = [
        (lambda slack: EntropyDiversity(l=entropy - slack, **common)),
        (lambda slack: RecursiveDiversity(l=2, c=(ratio + slack) if np.isfinite(ratio) else 1e9, **common)),
        (lambda slack: TCloseness(t=t["equal"] + slack, **common)),
        (lambda slack: TCloseness(t=t["ordered"] + slack, ordered=True, **common)),
        (lambda slack: DeclaredCloseness(t=t["tree"] + slack, tree=TREE, **common)),
        (lambda slack: DeclaredCloseness(t=t["ordered"] + slack, order=("1", "2", "3", "4"), **common)),
    ]
    cut = min(cut, len(rows) - 1)
    for make in claims:
        for slack in (1e-6, -1e-6):
            claim = make(slack)
            whole = claim.measure(evidence(groups, values))
            parts = [claim.tally(evidence(groups[part], values[part])) for part in (slice(0, cut), slice(cut, None))]
            merged = claim.finding(claim.merge(*parts))
            assert whole.held == merged.held
            limit_can_be_missed = not (isinstance(claim, RecursiveDiversity) and not np.isfinite(ratio))
            if limit_can_be_missed:
                assert whole.held == (slack > 0)
            else:
                assert not whole.held


class TestRisk:
    GROUPS = (*"aaaaa", *"bbbbb", *"cccccccccc")

    @pytest.mark.parametrize(
        ("limits", "held"),
        [
            ({"highest": 0.2}, True),  # a risk of 1/5 equals the limit, which is allowed
            ({"highest": 0.19}, False),
            ({"average": 0.15}, True),  # 3 groups of 20 rows
            ({"average": 0.149}, False),
            ({"highest": 0.2, "average": 0.1}, False),
        ],
    )
    def test_a_risk_equal_to_the_limit_is_allowed(self, limits, held):
        claim = RiskAtMost(columns=("q",), **limits)
        assert claim.measure(evidence(self.GROUPS, self.GROUPS)).held is held
        again = ClaimRecord.of(claim).to_claim()
        assert again == claim

    def test_a_limit_of_009_needs_twelve_rows(self):
        assert rows_for_risk(1 / 11) == 11
        assert rows_for_risk(0.09) == 12

    def test_k_map_counts_the_population(self):
        people = as_table({"q": ["a"] * 4 + ["b"] * 2 + ["z"] * 9})
        population = PopulationGroups(GroupCounts.of(KeyedGroups.of(people, ("q",))))
        for groups, k, held in (("aab", 2, True), ("aab", 3, False), ("aaa", 4, True), ("ay", 1, False)):
            claim = KMap(k=k, columns=("q",), population=population)
            assert claim.measure(evidence(groups, groups)).held is held
            parts = [claim.tally(evidence(groups[:1], groups[:1])), claim.tally(evidence(groups[1:], groups[1:]))]
            assert claim.finding(claim.merge(*parts)).held is held
