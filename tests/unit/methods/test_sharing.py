"""The budget, shared over columns."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import OptionError
from sfumato.methods.generalize.quasi_recodings import real_shares, share_budget
from sfumato.methods.options import require_importance

tables = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10**6), min_size=1)
importances = st.fixed_dictionaries({}, optional={name: st.floats(0.01, 100.0) for name in "abcdef"})


@given(st.integers(1, 10**12), tables, importances)
def test_the_product_stays_within_the_budget_and_none_can_have_one_more(budget, sizes, importance):
    values = share_budget(budget, sizes, importance)
    assert math.prod(values.values()) <= budget
    assert all(1 <= values[name] <= size for name, size in sizes.items())
    for name, size in sizes.items():
        more = math.prod(values.values()) // values[name] * (values[name] + 1)
        assert values[name] == size or more > budget


@given(st.integers(1, 40), st.lists(st.integers(1, 7), min_size=1, max_size=3))
def test_equal_importance_loses_no_more_than_a_little_over_the_best_of_all_choices(budget, sizes):
    table = dict(zip("abc", sizes, strict=False))
    best = min(
        sum(1 / value for value in choice)
        for choice in product(*(range(1, size + 1) for size in sizes))
        if math.prod(choice) <= budget
    )
    assert sum(1 / value for value in share_budget(budget, table).values()) <= 1.35 * best


@given(st.floats(1.0, 1e9), tables)
def test_real_shares_use_the_budget_up(budget, sizes):
    shares = real_shares(budget, sizes, dict.fromkeys(sizes, 1.0))
    wanted = min(math.log(budget), sum(math.log(size) for size in sizes.values()))
    assert sum(math.log(share) for share in shares.values()) == pytest.approx(wanted, abs=1e-9)


def test_shares_are_proportional_to_importance_where_nothing_binds():
    shares = real_shares(1e6, {"a": 10**6, "b": 10**6}, {"a": 4.0, "b": 1.0})
    assert shares["a"] / shares["b"] == pytest.approx(4.0)
    assert shares["a"] * shares["b"] == pytest.approx(1e6)


@pytest.mark.parametrize("wrong", [{"a": 0.0}, {"a": -1}, {"a": "much"}, {"a": math.inf}, [1.0]])
def test_importance_must_be_positive_numbers_by_column(wrong):
    with pytest.raises(OptionError):
        require_importance(wrong)


@given(
    st.integers(1, 10**9),
    st.lists(st.tuples(st.integers(1, 10**4), st.sampled_from([0.1, 0.5, 1.0, 1.0, 3.0])), min_size=1, max_size=8),
)
def test_real_shares_are_those_of_a_bisection(budget, columns):
    sizes = {f"c{place}": size for place, (size, _) in enumerate(columns)}
    importance = {f"c{place}": weight for place, (_, weight) in enumerate(columns)}

    def shares(scale: float) -> dict[str, float]:
        return {name: min(float(size), max(1.0, importance[name] * scale)) for name, size in sizes.items()}

    low, high = 1e-6, 1e6
    for _ in range(200):
        middle = math.sqrt(low * high)
        used = math.prod(shares(middle).values())
        low, high = (middle, high) if used <= budget else (low, middle)
    assert real_shares(budget, sizes, importance) == pytest.approx(shares(low), rel=1e-6)
