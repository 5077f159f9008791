"""For every table: what leaves is as anonymous as claimed, and every statistic lies in its interval."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.statistics.bounds.enclosure import EstimateBudget
from sfumato.statistics.moments import Moments
from sfumato.table.groups import group_labels, group_sizes
from sfumato.table.table import Table

ROUGH = EstimateBudget(gap=0.1)  # a wider interval is as certain, and found sooner

few = st.sampled_from([0.0, 1.0, 2.0, 2.5, -1e6, 1e6])
number_cells = st.one_of(st.none(), few, st.floats(-100, 100, width=32))
whole_cells = st.one_of(st.none(), st.integers(-3, 3), st.integers(-(10**9), 10**9))
word_cells = st.one_of(st.none(), st.sampled_from(["a", "b", "c|d", "\\", "(missing)", "é", ""]))


@st.composite
def tables(draw):
    """Ties, constants, missing cells, categories, no rows, one row."""
    rows = draw(st.one_of(st.integers(0, 12), st.integers(13, 60)))
    columns = {}
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["number", "whole", "word", "boolean", "day", "constant", "missing"]))
        cells, type_ = {
            "number": (number_cells, pa.float64()),
            "whole": (whole_cells, pa.int64()),
            "word": (word_cells, pa.string()),
            "boolean": (st.one_of(st.none(), st.booleans()), pa.bool_()),
            "day": (st.integers(0, 20000), pa.int32()),
            "constant": (st.just(7.0), pa.float64()),
            "missing": (st.none(), pa.float64()),
        }[kind]
        column = pa.array(draw(st.lists(cells, min_size=rows, max_size=rows)), type_)
        columns[f"c{number}"] = column.cast(pa.date32()) if kind == "day" else column
    return Table.from_arrow(pa.table(columns))


@st.composite
def choices(draw):
    k = draw(st.integers(2, 8))
    return {
        "k": k,
        "l": draw(st.integers(1, min(3, k))),
        "edges": draw(st.sampled_from(["hull", "cells"])),
        "snap": draw(st.sampled_from([None, 0.5, 10.0])),
        "suppress": draw(st.sampled_from([0.0, 0.3])),
        "cut": draw(st.sampled_from(["width", "median"])),
    }


@settings(max_examples=150)
@given(table=tables(), options=choices(), sensitive=st.booleans(), seed=st.integers(0, 100))
def test_what_leaves_is_k_anonymous_and_l_diverse_as_claimed_or_nothing_leaves(table, options, sensitive, seed):
    roles = dict.fromkeys(table.names, "quasi")
    if sensitive:
        roles[table.names[-1]] = "sensitive"
    try:
        release = sf.Boxes(**options).release(table, schema=roles, seed=seed)
    except SfumatoError:
        return
    quasi = [name for name in release.table.names if not (sensitive and name == table.names[-1])]
    labels = group_labels(release.table, quasi)
    assert group_sizes(release.table, quasi).min() >= options["k"]
    assert release.table.rows >= (1 - options["suppress"]) * table.rows
    if sensitive:
        codes = release.table.coded(table.names[-1]).codes
        for group in range(labels.max() + 1):
            assert len(set(codes[labels == group])) >= options["l"]


@settings(max_examples=60)
@given(table=tables(), options=choices())
def test_every_statistic_of_the_true_data_lies_in_its_guaranteed_interval(table, options):
    options["l"], options["suppress"] = 1, 0.0
    names = [name for name in table.names if table.kinds[name].is_numeric]
    if table.rows < options["k"] or not names:
        return
    release = sf.Boxes(**options).release(table, schema=dict.fromkeys(table.names, "quasi"), seed=0)
    wanted = [sf.Mean(names[0]), sf.Variance(names[0]), sf.Sd(names[0])]
    if len(names) > 1:
        pair = (names[0], names[1])
        wanted += [sf.Covariance(*pair), sf.Correlation(*pair), *sf.Regression(names[0], (names[1],)).parts()]
    for statistic in wanted:
        moments = Moments.of(table.matrix(statistic.columns))
        if not moments.records:
            continue
        truth = statistic.value(moments)
        estimate = release.estimate(statistic, budget=ROUGH).numbers  # dates as numbers
        if math.isnan(truth):
            continue
        slack = 1e-9 * (1.0 + abs(truth))
        assert estimate.low - slack <= truth <= estimate.high + slack, str(statistic)


def test_a_claim_that_is_broken_is_found():
    """The control: a release whose boxes hold too few rows does not pass the same verification."""
    from sfumato.plan.claims.groups import KAnonymity
    from sfumato.plan.plan import Evidence
    from sfumato.release.verify import verify

    table = Table.from_arrow(pa.table({"x_low": [0.0, 0.0, 1.0], "x_high": [1.0, 1.0, 2.0]}))
    with pytest.raises(sf.SfumatoError, match="smallest group 1"):
        verify((KAnonymity(k=2, columns=("x_low", "x_high")),), [Evidence(table, table, np.arange(3))])
