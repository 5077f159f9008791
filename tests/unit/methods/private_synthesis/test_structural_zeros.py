"""Structural zeros: combinations that were declared impossible are in no released row, and the rest is kept."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.methods.private_columns import CategoryDomain, NumberDomain
from sfumato.methods.private_synthesis.attributes import attribute_of
from sfumato.methods.private_synthesis.graphical_model import GraphicalModel
from sfumato.methods.private_synthesis.inference import Measurement, fit_model
from sfumato.methods.private_synthesis.structural_zeros import (
    NeverMet,
    StructuralZero,
    class_codes,
    cuts_of,
    draw_possible,
    meeting_rows,
    read_conditions,
)
from sfumato.plan.plan import Evidence
from sfumato.sources.frames import as_table
from sfumato.table.kinds import Kind

MARITAL = CategoryDomain(name="marital", kind=Kind.NOMINAL, categories=("single", "married", "widowed"))
AGE = NumberDomain(name="age", kind=Kind.WHOLE, low=0.0, high=99.0)
INCOME = NumberDomain(name="income", kind=Kind.CONTINUOUS, low=0.0, high=1000.0)
DOMAINS = {"marital": MARITAL, "age": AGE, "income": INCOME}
SCHEMA = {
    "age": {"role": "quasi", "domain": [0, 99]},
    "income": {"role": "quasi", "domain": [0, 1000]},
    "marital": "quasi",
    "works": "quasi",
}
NEVER = ["age < 15 and marital != single", "works = false and income > 437.5", "age < 15 and works = true"]


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw = np.random.default_rng(2)
    age = draw.integers(0, 100, 5000)
    works = (age >= 15) & (draw.random(5000) < 0.6)
    marital = np.where((age >= 15) & (draw.random(5000) < 0.6), draw.choice(["married", "widowed"], 5000), "single")
    income = np.where(works, draw.uniform(300, 1000, 5000), draw.uniform(0, 437.5, 5000))
    return pd.DataFrame(
        {"age": age, "income": income, "marital": pd.Categorical(marital, MARITAL.categories), "works": works}
    )


def said(cells: pd.Series, value: object) -> pd.Series:
    """Where cells have a value; noise may leave a few without any."""
    return cells.eq(value).fillna(False).astype(bool)


def violations(frame: pd.DataFrame) -> int:
    """Count by hand, not with the language of conditions."""
    works, idle = said(frame.works, True), said(frame.works, False)
    young = frame.age < 15
    single = said(frame.marital, "single") | frame.marital.isna()
    return int(((young & ~single) | (idle & (frame.income > 437.5)) | (young & works)).sum())


@pytest.mark.parametrize("kind", ["aim", "mst"])
def test_no_released_row_is_impossible(people, kind):
    method = sf.PrivateSynthesis(epsilon=1.0, kind=kind, never=NEVER)
    release = method.release(people, schema=SCHEMA)
    assert violations(release.to_pandas(midpoints=True)) == 0
    assert any("no row meets" in finding.claim and finding.held for finding in release.findings)
    free = sf.PrivateSynthesis(epsilon=1.0, kind=kind).release(people, schema=SCHEMA)
    assert violations(free.to_pandas(midpoints=True)) > 0, "the control: noise alone makes such rows"


def test_people_who_are_said_to_be_impossible_are_not_drawn(people):
    """A declaration that is wrong costs accuracy, and nothing breaks."""
    never = ["age >= 50 and works = true"]
    with pytest.warns(sf.SfumatoWarning, match="says to be impossible"):
        release = sf.PrivateSynthesis(epsilon=4.0, never=never).release(people, schema=SCHEMA)
    frame = release.to_pandas(midpoints=True)
    assert not ((frame.age >= 50) & said(frame.works, True)).any()
    assert 0.1 < (frame.age >= 50).mean() < 0.5  # 0.29 of those who were not said to be impossible


def test_a_declaration_that_is_right_is_not_doubted(people):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for never in (None, NEVER, ["age < 15 and works = true"]):
            sf.PrivateSynthesis(epsilon=4.0, never=never).release(people, schema=SCHEMA)


def test_relations_are_kept_beside_zeros(people):
    frame = sf.PrivateSynthesis(epsilon=4.0, never=NEVER).release(people, schema=SCHEMA).to_pandas(midpoints=True)
    assert abs(frame.works.mean() - people.works.mean()) < 0.05
    assert abs((frame.marital == "single").mean() - (people.marital == "single").mean()) < 0.05


CONDITIONS = st.lists(
    st.sampled_from(
        [
            "age < 15 and marital = married",
            "age between 20 and 29 and not marital in (single, widowed)",
            "income = 0 and works = true",
            "income <= 100.25 or age = 50",
            "marital = widowed",
            "age >= 90 and income > 900 and works = true",
            "marital is missing and age != 7",
            "not (age > 3 and income >= 12.5)",
        ]
    ),
    max_size=3,
    unique=True,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(never=CONDITIONS, rows=st.integers(0, 60), seed=st.integers(0, 10**6))
def test_whatever_is_declared_is_in_no_row(never, rows, seed):
    draw = np.random.default_rng(seed)
    age = draw.integers(0, 100, rows)
    marital = pd.Categorical(draw.choice(MARITAL.categories, rows), MARITAL.categories)
    table = pd.DataFrame(
        {"age": age, "income": draw.uniform(0, 1000, rows), "marital": marital, "works": draw.random(rows) < 0.5}
    )
    release = sf.PrivateSynthesis(kind="mst", never=never).release(table, schema=SCHEMA)
    conditions = read_conditions(never, dict.fromkeys(SCHEMA))
    assert not meeting_rows(release.table, conditions).any()


class TestClasses:
    def test_numbers_are_parted_where_conditions_compare_them(self):
        conditions = read_conditions(["age < 15 and marital = married", "age = 50 or age > 60"], DOMAINS)
        assert cuts_of(AGE, conditions) == (15.0, 50.0, 51.0, 61.0)
        classes = class_codes(attribute_of(AGE, cuts_of(AGE, conditions)), conditions)
        assert len(classes) == 101
        assert [len(set(part)) for part in (classes[:15], classes[15:50], classes[51:61], classes[61:100])] == [1] * 4
        assert classes[49] == classes[51] != classes[50]

    def test_a_cell_of_a_fine_grid_never_holds_both_sides(self):
        conditions = read_conditions(["income <= 437.3 and age > 3"], DOMAINS)
        attribute = attribute_of(INCOME, cuts_of(INCOME, conditions))
        assert np.nextafter(437.3, np.inf) in attribute.ends
        classes = class_codes(attribute, conditions)
        inside = attribute.ends[: attribute.values] <= 437.3
        assert len(set(classes[:-1][inside])) == len(set(classes[:-1][~inside])) == 1

    @pytest.mark.parametrize("text", ["marital = maried", "marital < single", "age < old", "wage > 3", "age log 3"])
    def test_what_is_not_declared_is_refused(self, text):
        with pytest.raises(sf.SfumatoError):
            read_conditions([text], DOMAINS)


class TestModel:
    def test_cells_that_are_ruled_out_have_probability_zero(self):
        """Against the full joint table, computed by brute force."""
        draw = np.random.default_rng(0)
        zero = StructuralZero((0, 2), (draw.random((3, 5)) < 0.6).astype(float))
        marginals = [(0, 1), (1, 2)]
        parameters = [draw.normal(size=(3, 4)), draw.normal(size=(4, 5))]
        model = GraphicalModel([3, 4, 5], marginals, [zero]).calibrate(parameters)
        joint = np.exp(parameters[0][:, :, None] + parameters[1][None]) * zero.possible[:, None, :]
        joint /= joint.sum()
        np.testing.assert_allclose(model.marginal((0, 2)), joint.sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(model.marginals[0], joint.sum(axis=2), atol=1e-12)

    def test_counts_of_impossible_cells_do_not_bend_the_fit(self):
        counts = np.array([[400.0, 100.0], [300.0, 200.0]])
        zero = StructuralZero((0, 1), np.array([[1.0, 0.0], [1.0, 1.0]]))
        measured = Measurement((0, 1), counts, np.ones((2, 2)))
        fitted = fit_model([2, 2], [measured], zeros=[zero]).counts((0, 1))
        assert fitted[0, 1] == 0.0
        assert fitted[0, 0] / fitted[1, 0] == pytest.approx(4 / 3, rel=0.1)

    @pytest.mark.parametrize("is_true", [True, False])
    def test_counts_that_zeros_do_not_allow_are_noticed_whatever_the_noise(self, is_true):
        """Also where the search ends before its parameters are large; by their size alone 264 of 300 were missed."""
        for seed in range(100):
            draw = np.random.default_rng(seed)
            there = np.ones((20, 2))
            there[10:, 1] = 0.0
            pair = np.outer(5000.0 * draw.dirichlet(np.full(20, 5.0)), [0.5, 0.5]) * (there if is_true else 1.0)
            noise = draw.uniform(2.0, 10.0)
            measured = [
                Measurement(clique, counts + draw.normal(0.0, noise, counts.shape), np.full(counts.shape, noise**2))
                for clique, counts in (((0,), pair.sum(axis=1)), ((1,), pair.sum(axis=0)), ((0, 1), pair))
            ]
            zeros = [StructuralZero((0, 1), there)]
            first = fit_model([20, 2], measured[:2], zeros=zeros)
            fitted = fit_model([20, 2], measured, start=first.parameters, zeros=zeros, rounds=300)
            assert fitted.is_contradicted != is_true

    def test_conditions_that_rule_out_everything_are_refused(self, people):
        for never in (["age >= 0"], ["age < 50", "age >= 50"]):
            with pytest.raises(sf.SfumatoError, match="leave something"):
                sf.PrivateSynthesis(never=never).release(people, schema=SCHEMA)


def test_rows_that_meet_a_condition_are_drawn_again():
    draw = np.random.default_rng(1)
    condition = read_conditions(["age < 50"], {"age": AGE})
    made = draw_possible(lambda: as_table({"age": draw.integers(0, 100, 200)}), condition, draw)
    assert made.rows == 200
    assert made.numbers("age").min() >= 50
    with pytest.raises(sf.SfumatoError, match="leave something"):
        draw_possible(lambda: as_table({"age": [1, 2]}), condition, draw)


def test_the_claim_counts_rows():
    claim = NeverMet(never=("age < 15",))
    for ages, held in (([15, 20], True), ([14, 20, 3], False)):
        table = as_table({"age": ages})
        finding = claim.measure(Evidence(table, table, np.arange(table.rows)))
        assert finding.held == held
    assert "2 rows" in finding.found
