"""Promises are recounted block by block, with one block in memory, and a broken one raises."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import GuaranteeNotMet
from sfumato.plan.claims.groups import KAnonymity
from sfumato.plan.claims.rows import RowsAccountedFor
from sfumato.plan.plan import Evidence, format_count
from sfumato.release.manifest import Manifest
from sfumato.release.verify import Recount, verify
from sfumato.table.table import Table

PAIRS = KAnonymity(k=2, columns=("a",))


def block(*cells: int) -> Evidence:
    table = Table.from_arrow(pa.table({"a": list(cells)}))
    return Evidence(table, table, np.arange(table.rows))


def test_groups_may_be_spread_over_blocks():
    findings = verify([PAIRS, RowsAccountedFor()], iter([block(1, 2), block(2, 3), block(3, 1)]))
    assert [finding.found for finding in findings] == ["smallest group 2, 3 groups", "6 rows in, 6 out, 0 suppressed"]
    assert [finding.kind for finding in findings] == ["privacy", "integrity"]


def test_a_promise_that_no_block_keeps_alone_may_be_kept_together():
    with pytest.raises(GuaranteeNotMet, match="2-anonymous in a"):
        verify([PAIRS], [block(1, 2)])


def test_a_promise_that_one_block_breaks_is_broken():
    with pytest.raises(GuaranteeNotMet, match="smallest group 1") as raised:
        verify([RowsAccountedFor(), PAIRS], [block(1, 1), block(2, 2, 7), block(3, 3)])
    assert "7" not in str(raised.value)


def test_nothing_is_not_verified():
    with pytest.raises(GuaranteeNotMet, match="no block"):
        verify([PAIRS], [])


def test_a_block_is_gone_before_the_next_is_made():
    alive: list[weakref.ref[Table]] = []

    def blocks():
        for number in range(5):
            one = block(number, number)
            alive.append(weakref.ref(one.released))
            yield one
            del one
            gc.collect()
            assert not any(table() for table in alive)

    verify([PAIRS], blocks())


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 8, 31])
def test_no_tally_is_merged_more_often_than_the_logarithm_of_the_blocks(blocks):
    depth: dict[int, int] = {}

    class Counting(KAnonymity):
        def merge(self, one, other):
            total = super().merge(one, other)
            depth[id(total)] = 1 + max(depth.pop(id(one), 0), depth.pop(id(other), 0))
            kept.append(total)
            return total

    kept: list[object] = []
    recount = Recount(Counting(k=2, columns=("a",)))
    for number in range(blocks):
        recount.add(block(number, number))
    assert recount.finding().found == f"smallest group 2, {format_count(blocks, 'group')}"
    assert max(depth.values(), default=0) <= np.ceil(np.log2(blocks)) + 1


def test_a_manifest_carries_the_kinds_of_findings(released):
    read = Manifest.from_json(released.manifest.to_json())
    assert read.findings == released.findings
    assert {finding.kind for finding in read.findings} == {"privacy", "integrity"}
