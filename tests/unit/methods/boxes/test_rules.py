"""Expert rules: from words to factors, and what they do to boxes."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey, run
from sfumato.errors import OptionError
from sfumato.methods.boxes.axes import Axes
from sfumato.methods.boxes.rules import DEGREES, MEANINGS, SHARES, Rule, Rules, Trapezoid
from sfumato.randomness import Randomness
from sfumato.release.verify import verify
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table

finite = st.floats(-100, 100)


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(3)
    rows = 1500
    age = random.integers(18, 90, rows)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.exp(random.normal(10, 0.6, rows) + age / 80),
            "body mass": np.where(random.random(rows) < 0.1, np.nan, random.normal(25, 4, rows)),
            "city": random.choice(["Ulm", "Rom", "Oslo", None], rows),
            "born": pd.Timestamp("2000-01-01") - pd.to_timedelta(age * 365, "D"),
        }
    )


def bound(data, *rules, words=None):
    table = as_table(data)
    schema = Schema.for_table(table)
    read = [Rule.read(rule) for rule in rules]
    answers = MemorySurvey(table).ask([*Axes.questions(schema, table.kinds), *Rules.questions(read, table.kinds)])
    return Rules.of(read, words, Axes.of(answers, table, schema), answers, table.kinds), table


def factors_of(data, column, *rules, words=None):
    found, table = bound(data, *rules, words=words)
    schema = Schema.for_table(table)
    axes = Axes.of(MemorySurvey(table).ask(Axes.questions(schema, table.kinds)), table, schema)
    return found.factors(table)[:, list(axes.names).index(column)]


class TestGrammar:
    @pytest.mark.parametrize(
        ("text", "column", "degree", "conditions"),
        [
            ("income matters most", "income", "most", []),
            ("income matters most when age is young", "income", "most", [("age", "young", False)]),
            ("  Income  MATTERS Little  When a IS not High.", "Income", "little", [("a", "High", True)]),
            ("a matters not when b is low and c is high", "a", "not", [("b", "low", False), ("c", "high", False)]),
            ("body mass matters least when city is New York", "body mass", "least", [("city", "New York", False)]),
            ("`a matters` matters more when `b is and c` is old", "a matters", "more", [("b is and c", "old", False)]),
        ],
    )  # fmt: skip
    def test_a_rule_is_read_from_its_words(self, text, column, degree, conditions):
        rule = Rule.read(text)
        assert (rule.column, rule.degree) == (column, degree)
        assert [(one.column, one.word, one.negated) for one in rule.conditions] == conditions

    @pytest.mark.parametrize(
        "text", ["", "income", "income matter most", "income matters most when", "income matters most when age young",
                 "income matters most if age is young", "matters most", 5, None],
    )  # fmt: skip
    def test_other_words_are_refused_with_the_form_of_a_rule(self, text):
        with pytest.raises(OptionError, match=r"COLUMN matters|matters most, more"):
            sf.Boxes(k=5, rules=[text])

    def test_the_nearest_degree_column_or_word_is_named(self, people):
        for rule, near in (
            ("income matters mostly", "'most'"),
            ("incone matters most", "'income'"),
            ("income matters most when aeg is young", "'age'"),
            ("income matters most when age is yuong", "'young'"),
        ):
            with pytest.raises(OptionError, match=near):
                sf.Boxes(k=5, rules=[rule]).release(people)

    def test_no_error_tells_a_category(self, people):
        with pytest.raises(OptionError) as caught:
            sf.Boxes(k=5, rules=["income matters most when city is Osl"]).release(people)
        assert not {"Ulm", "Rom", "Oslo"} & set(str(caught.value).replace("'", " ").replace(".", " ").split())

    def test_only_what_boxes_are_cut_by_can_matter(self, people):
        with pytest.raises(OptionError, match="quasi-identifier"):
            sf.Boxes(k=5, rules=["income matters most"]).release(people, schema={"income": "sensitive"})

    def test_but_any_column_can_be_a_condition(self, people):
        boxes = sf.Boxes(k=5, rules=["age matters most when income is high"])
        assert boxes.release(people, schema={"income": "sensitive"}, seed=1).diagnostics.rules[0].change < 0.0

    def test_a_single_text_is_no_list(self):
        with pytest.raises(OptionError, match="brackets"):
            sf.Boxes(k=5, rules="income matters most")


class TestWords:
    @given(
        corners=st.lists(finite, min_size=4, max_size=4, unique=True).map(sorted),
        numbers=arrays(np.float64, 20, elements=finite),
    )
    def test_a_trapezoid_equals_straight_lines_between_its_corners(self, corners, numbers):
        twin = np.interp(numbers, corners, [0.0, 1.0, 1.0, 0.0])
        assert Trapezoid.of(corners, name="it").membership(numbers) == pytest.approx(twin, abs=1e-9)

    @given(column=arrays(np.float64, 60, elements=st.integers(0, 5).map(float) | finite))
    def test_every_degree_is_from_0_to_1_and_the_three_words_share_a_number_between_them(self, column):
        quantiles = np.quantile(column, SHARES)
        degrees = np.array([Trapezoid.between(quantiles, word).membership(column) for word in MEANINGS])
        assert ((degrees >= 0.0) & (degrees <= 1.0)).all()
        assert (degrees.max(axis=0) >= 0.5 - 1e-9).all()
        if len(set(quantiles)) == 3:
            assert degrees.sum(axis=0) == pytest.approx(1.0)

    def test_a_column_of_zeros_with_few_others_has_low_zeros_and_high_others(self):
        quantiles = np.zeros(3)
        numbers = np.array([0.0, 3.0])
        assert Trapezoid.between(quantiles, "low").membership(numbers).tolist() == [1.0, 0.0]
        assert Trapezoid.between(quantiles, "high").membership(numbers).tolist() == [0.0, 1.0]

    def test_a_side_may_lie_at_infinity(self):
        shape = Trapezoid.of((-math.inf, -math.inf, 20.0, 30.0), name="it")
        assert shape.membership(np.array([-1e9, 20.0, 25.0, 31.0])).tolist() == [1.0, 1.0, 0.5, 0.0]

    @pytest.mark.parametrize(
        "words",
        [
            {"age": {"young": (1, 2)}},
            {"age": {"young": (3, 2, 1)}},
            {"age": {"young": (1, 2, math.nan)}},
            {"age": {"young": (-math.inf, 2, 3)}},
            {"age": {"young": "low"}},
            {"age": (1, 2, 3)},
            ["age"],
        ],
    )
    def test_corners_that_are_no_shape_are_refused(self, words):
        with pytest.raises(OptionError):
            sf.Boxes(k=5, words=words)

    def test_a_triangle_has_three_corners(self):
        assert Trapezoid.of((1, 2, 3), name="it") == Trapezoid(1.0, 2.0, 2.0, 3.0)


class TestFactors:
    def test_the_degree_says_the_factor_where_the_condition_is_wholly_true(self, people):
        for degree, factor in DEGREES.items():
            assert factors_of(people, "income", f"income matters {degree}") == pytest.approx(factor)

    def test_a_rule_holds_as_far_as_its_condition(self, people):
        found = factors_of(people, "income", "income matters most when age is young")
        low, median, _ = np.quantile(people.age, SHARES)
        twin = 1.0 + 3.0 * np.interp(people.age, [low, median], [1.0, 0.0])
        assert found == pytest.approx(twin.to_numpy() if hasattr(twin, "to_numpy") else twin, rel=1e-6)

    def test_conditions_and_rules_are_multiplied(self, people):
        young = factors_of(people, "income", "income matters more when age is young") - 1.0
        heavy = factors_of(people, "income", "income matters more when body mass is high") - 1.0
        both = factors_of(people, "income", "income matters more when age is young and body mass is high") - 1.0
        two = factors_of(
            people, "income", "income matters more when age is young", "income matters more when body mass is high"
        )
        assert both == pytest.approx(young * heavy, abs=1e-6)
        assert two == pytest.approx((1.0 + young) * (1.0 + heavy), rel=1e-6)

    def test_not_turns_a_condition_round_and_a_missing_value_is_neither(self, people):
        high, other = (
            factors_of(people, "age", f"age matters more when body mass is {word}") - 1.0
            for word in ("high", "not high")
        )
        missing = people["body mass"].isna().to_numpy()
        assert (high[missing] == 0.0).all()
        assert (other[missing] == 0.0).all()
        assert (high + other)[~missing] == pytest.approx(1.0)

    def test_a_category_is_meant_by_its_own_word(self, people):
        found = factors_of(people, "age", "age matters most when city is Rom")
        assert ((found == 4.0) == (people.city == "Rom").to_numpy()).all()

    def test_days_are_early_or_late(self, people):
        found = factors_of(people, "income", "income matters most when born is late")
        assert found[np.argmax(people.born)] == 4.0
        assert found[np.argmin(people.born)] == 1.0

    def test_words_of_the_schema_go_before_the_quantiles_and_after_those_of_the_options(self, people):
        rule, schema = (
            ["income matters most when age is young"],
            {"age": {"role": "quasi", "words": {"young": (0, 0, 25)}}},
        )
        by_schema = sf.Boxes(k=5, rules=rule).release(people, schema=schema, seed=1).diagnostics.rules[0]
        by_options = sf.Boxes(k=5, rules=rule, words={"age": {"young": (0, 0, 60)}}).release(
            people, schema=schema, seed=1
        )
        assert by_schema.touched == pytest.approx((people.age < 25).mean())
        assert by_options.diagnostics.rules[0].touched == pytest.approx((people.age < 60).mean())

    def test_words_of_one_s_own_go_before_the_quantiles(self, people):
        words = {"age": {"young": (0, 0, 30, 30), "Methuselah": (85, 86, 87, 200)}}
        found = factors_of(people, "income", "income matters most when age is young", words=words)
        assert ((found == 4.0) == (people.age <= 30).to_numpy()).all()
        old = factors_of(people, "income", "income matters most when age is Methuselah", words=words)
        assert (old > 1.0).any()

    def test_blocks_get_the_factors_that_the_whole_table_has(self, people):
        found, table = bound(people, "income matters most when age is young", "age matters least when city is Ulm")
        parts = [found.factors(table.take(np.arange(first, first + 500))) for first in (0, 500, 1000)]
        assert (np.concatenate(parts) == found.factors(table)).all()


class TestEffects:
    def test_the_table_says_what_each_rule_did(self, people):
        data = people[["age", "income"]]
        rules = ["income matters most when age is young", "age matters least when income is high"]
        first, second = sf.Boxes(k=5, rules=rules).release(data, seed=1).diagnostics.rules
        assert first.rule == rules[0]
        assert 1.0 < first.mean_factor < 4.0
        assert 0.25 < second.mean_factor < 1.0
        assert 0.4 < first.touched < 0.6
        assert first.width_with < 0.9 * first.width_without
        assert second.width_with > 1.1 * second.width_without
        assert "narrower in income" in str(first)
        assert "wider in age" in str(second)

    def test_categories_can_matter_too(self, people):
        boxes = sf.Boxes(k=5, rules=["city matters most"])
        (effect,) = boxes.release(people, seed=1).diagnostics.rules
        assert effect.width_with <= effect.width_without

    def test_rules_work_with_a_search_with_blocks_and_with_missing_values(self, people):
        from sfumato.methods.search_budget import SearchBudget

        rules = ["income matters most when age is young", "body mass matters most when city is Rom"]
        for overlap in ("none", "allowed"):
            boxes = sf.Boxes(k=5, rules=rules, search=SearchBudget(rounds=2), overlap=overlap)
            diagnostics = boxes.release(people, seed=1).diagnostics
            assert diagnostics.searches[0].gain > 0.0
            assert len(diagnostics.rules) == 2
        table = as_table(people)
        plan = sf.Boxes(k=5, rules=rules).plan(
            MemorySurvey(table, block_rows=300), Schema.for_table(table), Randomness(1)
        )
        outcome = run(plan, table)
        assert plan.blocks > 1
        assert len(outcome.trace.rules) == 2
        assert all(found.held for found in verify(plan.claims, [outcome.evidence]))
