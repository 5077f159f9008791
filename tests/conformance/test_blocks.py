"""Every method, as an engine would run it that knows the table through a sample and holds it in blocks.

(whole sample, partial sample) × (one block, many blocks) × (one batch, one-row batches)
"""

from __future__ import annotations

import itertools
import pickle
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.memory.engine import Memory, MemorySurvey, run
from sfumato.errors import CannotRelease
from sfumato.methods.base import Method, make_method, method_class
from sfumato.randomness import Randomness
from sfumato.schema.schema import Schema
from sfumato.table.table import Table
from tests.conformance.control import CASES, RouteByChance, SwapNothing

ROWS, SAMPLE, BLOCK = 2000, 400, 500
ROLES = {"age": "quasi", "income": "quasi", "city": "quasi", "born": "quasi", "illness": "sensitive", "box": "other"}


def options_of(name: str) -> dict[str, object]:
    """Options that methods cannot do without, or that make the test say more."""
    wanted = {"k": 4, "l": 1 if name in ("optimal-groups", "quantiles", "curves") else 2}
    if name == "boxes":
        wanted |= {"keep": ["mean(income)"]}
    return {f.name: wanted[f.name] for f in fields(method_class(name)) if f.name in wanted}


def made(case: str) -> Method:
    name, options = CASES[case]
    return make_method(name, **options_of(name), **options)


@pytest.fixture(scope="module")
def people() -> Table:
    """Numbers with missing cells, rare categories that a sample does not hold, days, and a column called ``box``."""
    draw = np.random.default_rng(3)
    income = draw.lognormal(10, 1, ROWS)
    income[draw.random(ROWS) < 0.05] = np.nan
    city = draw.choice([f"city {number}" for number in range(40)], ROWS, p=np.arange(40, 0, -1) / 820).tolist()
    city[7], city[19] = "alone", None
    return Table.from_arrow(
        pa.table(
            {
                "age": draw.integers(18, 90, ROWS),
                "income": pa.array(income, from_pandas=True),
                "city": city,
                "born": pa.array(draw.integers(0, 9000, ROWS).astype("int32")).cast(pa.date32()),
                "illness": draw.choice(["flu", "cold", "none"], ROWS),
                "box": draw.integers(0, 9, ROWS) * 10,
            }
        )
    )


def table_for(name: str, people: Table) -> Table:
    """Boxes make a column ``box`` of their own, and so refuse a table that has one."""
    return people.select([column for column in people.names if column != "box" or name != "boxes"])


def roles_of(table: Table) -> dict[str, str]:
    return {name: ROLES[name] for name in table.names}


# a basis is found in a block, after its batches were put together
EVERY_WAY = [
    (case, *ways)
    for case, *ways in itertools.product(CASES, (None, SAMPLE), (None, BLOCK), (None, 1))
    if ways[2] is None or not CASES[case][1]
]


@pytest.mark.parametrize(("case", "sample_rows", "block_rows", "batch_rows"), EVERY_WAY)
def test_promises_hold_whatever_the_engine_knows_at_once(people, case, sample_rows, block_rows, batch_rows):
    name = CASES[case][0]
    table, method = table_for(name, people), made(case)
    engine = Memory(sample_rows=sample_rows, block_rows=block_rows, batch_rows=batch_rows)
    if method.needs_whole_table and (sample_rows or block_rows):
        with pytest.raises(CannotRelease, match="whole table"):
            method.release(table, schema=roles_of(table), seed=5, engine=engine)
        return
    release = method.release(table, schema=roles_of(table), seed=5, engine=engine)
    assert all(finding.held for finding in release.findings)
    assert release.manifest.covers_every_output or release.manifest.rows_out + release.manifest.suppressed == ROWS
    mixing = ("boxes", "curves", "svd-swap", "pica", "rhs", "spectral-rhs", "noise", "private-sample", "synthesize")
    if name not in mixing and not case.startswith("swap "):  # components mix all columns
        released = sorted(release.table.numbers("box").tolist())
        assert set(released) <= set(table.numbers("box").tolist()), "a user's own column called box stays as it is"


@pytest.mark.parametrize("case", list(CASES))
class TestPlans:
    def plan(self, people, case, **options):
        table, method = table_for(CASES[case][0], people), made(case)
        survey = MemorySurvey(table, randomness=Randomness(2), **({} if method.needs_whole_table else options))
        return table, method.plan(survey, Schema.for_table(table, roles_of(table)), Randomness(2))

    def test_a_plan_split_into_blocks_has_blocks_of_about_the_wanted_size(self, people, case):
        table, plan = self.plan(people, case, block_rows=BLOCK, sample_rows=SAMPLE)
        if plan.needs_whole_table or made(case).needs_whole_table:
            pytest.skip("it needs the whole table")
        if case == "private-sample":
            pytest.skip("without trees no column tells anything, so all rows are one group")
        sizes = np.bincount(plan.route(table, np.arange(ROWS, dtype=np.uint64)), minlength=plan.blocks)
        assert plan.blocks > 1
        assert sizes.max() < 0.6 * ROWS, "rows must not all be in one block"

    def test_a_route_depends_on_the_row_alone(self, people, case):
        table, plan = self.plan(people, case, block_rows=BLOCK, sample_rows=SAMPLE)
        routed_alone(plan, table)

    def test_a_pickled_plan_does_the_same(self, people, case):
        table, plan = self.plan(people, case, block_rows=BLOCK)
        again = pickle.loads(pickle.dumps(plan))
        first, second = run(plan, table), run(again, table)
        assert first.evidence.released.arrow.equals(second.evidence.released.arrow)
        assert np.array_equal(first.evidence.origin, second.evidence.origin)

    def test_a_block_transformed_twice_gives_the_same_rows(self, people, case):
        table, plan = self.plan(people, case)
        first, again = plan.transform(table, 0), plan.transform(table, 0)
        assert first.released.arrow.equals(again.released.arrow)

    def test_notes_are_declared_by_the_method(self, people, case):
        _, plan = self.plan(people, case)
        assert set(plan.notes) <= set(method_class(CASES[case][0]).manifest_notes)


def routed_alone(plan, table: Table) -> None:
    """Rows routed one by one go where they go when they are routed together."""
    keys = np.arange(table.rows, dtype=np.uint64)
    together = plan.route(table, keys)
    some = range(0, table.rows, 40)
    alone = [int(plan.route(table.take(np.array([row])), keys[[row]])[0]) for row in some]
    assert alone == [int(together[row]) for row in some]


class TestControls:
    """The conformance tests can fail: a method that breaks the contract does not pass."""

    def test_a_swap_that_changes_nothing_is_refused(self, people):
        with pytest.raises(CannotRelease, match="must not be released unaltered"):
            SwapNothing().release(people, schema=ROLES, seed=1)

    def test_a_route_by_chance_is_seen(self, people):
        plan = RouteByChance().plan(None, Schema.for_table(people, ROLES), Randomness(1))
        with pytest.raises(AssertionError):
            routed_alone(plan, people)


@pytest.mark.parametrize("name", ["boxes", "mdav"])
def test_a_block_of_equal_rows_is_divided_by_the_keys_of_rows(name):
    """No cut makes it smaller, however many rows are equal; the pieces have about the wanted size."""
    draw = np.random.default_rng(1)
    equal = np.arange(ROWS) < 0.9 * ROWS
    table = Table.from_arrow(
        pa.table({"x": np.where(equal, 1.0, draw.normal(size=ROWS)), "s": draw.choice(["a", "b", "c"], ROWS)})
    )
    roles = Schema.of({"x": "quasi", "s": "sensitive"})
    method, engine = make_method(name, k=4, l=2), Memory(sample_rows=SAMPLE, block_rows=200)
    opened = engine.open(table, roles)
    plan = method.plan(engine.survey(opened, Randomness(3)), opened.schema, Randomness(3))
    keys = draw.integers(0, 2**63, ROWS).astype(np.uint64)
    sizes = np.bincount(plan.route(table, keys), minlength=plan.blocks)
    assert plan.blocks >= 8 and sizes.max() < 450  # the control: 1,800 equal rows
    some = np.flatnonzero(plan.route(table, keys) == sizes.argmax())
    assert np.array_equal(plan.route(table.take(some), keys[some]), np.full(len(some), sizes.argmax()))
    assert all(one.held for one in method.release(table, schema=roles, seed=5, engine=engine).findings)
