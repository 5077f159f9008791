"""The faces of cells: what they disclose, what they cover, and what they cost."""

from __future__ import annotations

import hashlib
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

import sfumato as sf


def released(data, **options):
    """The boxes of all columns as quasi-identifiers, one row per record."""
    schema = dict.fromkeys(data.columns, "quasi")
    return sf.Boxes(**options).release(data, schema=schema, seed=1).table.to_pandas()


def faces_of(boxes, name):
    return set(boxes[f"{name}_low"].dropna()) | set(boxes[f"{name}_high"].dropna())


def mean_widths(boxes, names):
    return np.array([(boxes[f"{name}_high"] - boxes[f"{name}_low"]).mean() for name in names])


@st.composite
def numbers(draw):
    """Columns with rare and common values, close neighbours and missing cells; whole numbers in the last one."""
    rows = draw(st.integers(6, 40))
    few = st.sampled_from([0.0, 1.0, 2.5, 1000.0])
    cells = st.one_of(few, st.floats(-10, 10), st.just(np.nextafter(1.0, 2.0)))
    whole = st.one_of(st.integers(0, 4), st.integers(-100, 100))
    columns = {f"c{number}": draw(st.lists(cells, min_size=rows, max_size=rows)) for number in range(2)}
    data = pd.DataFrame(columns, dtype=float)
    data.loc[draw(st.lists(st.integers(0, rows - 1), max_size=3)), "c1"] = np.nan
    data["whole"] = np.array(draw(st.lists(whole, min_size=rows, max_size=rows)), dtype=np.int64)
    return data[draw(st.sampled_from([["c0"], ["c0", "c1"], ["c0", "whole"], ["c0", "c1", "whole"]]))]


class TestDisclosure:
    @settings(max_examples=60)
    @given(data=numbers(), k=st.integers(2, 5), cut=st.sampled_from(["width", "median"]))
    def test_no_face_of_a_continuous_column_is_a_value_that_fewer_than_k_records_share(self, data, k, cut):
        boxes = released(data, k=k, edges="cells", cut=cut)
        for name in set(data) & {"c0", "c1"}:
            counts = data[name].value_counts()
            assert not faces_of(boxes, name) & set(counts.index[counts < k])

    def test_hulls_do_disclose_them(self):
        data = pd.DataFrame({"x": np.random.default_rng(1).normal(size=100)})
        assert faces_of(released(data, k=5), "x") <= set(data.x)  # the control

    def test_a_declared_domain_may_be_the_value_of_a_record(self):
        data = pd.DataFrame({"x": np.arange(20.0)})
        assert {0.0, 19.0} <= faces_of(released(data, k=5, edges="cells", domain={"x": (0, 19)}), "x")

    def test_outer_faces_are_round_numbers_beyond_the_extremes(self):
        income = pd.DataFrame({"income": [*map(float, range(9)), 1000.0]})
        assert released(income, k=5, edges="cells").income_high.max() == 1100.0
        ages = released(pd.DataFrame({"age": range(20, 30)}), k=5, edges="cells")
        assert sorted(faces_of(ages, "age")) == [10, 24, 25, 30]

    @pytest.mark.parametrize("most", [0.0, 5e-324, 1.0, 2e9, -2e9, 1e150, -1e150])
    @pytest.mark.parametrize("others", [[], [1.0, 2.0, 3.0], [-1e150, 1e150]])
    def test_numbers_of_any_size_lie_within_finite_faces(self, most, others):
        values = np.array([most, most, *others])  # those of fewer than k records
        boxes = released(pd.DataFrame({"x": np.append(values, [np.nan] * 9)}), k=5, edges="cells")
        assert np.isfinite(boxes[["x_low", "x_high"]].dropna()).all(axis=None)
        assert boxes.x_low.min() < values.min() and values.max() < boxes.x_high.max()

    def test_extremes_that_k_records_share_may_be_faces(self):
        boxes = released(pd.DataFrame({"hours": [0] * 6 + [*range(1, 80)] + [99] * 6}), k=5, edges="cells")
        assert (boxes.hours_low.min(), boxes.hours_high.max()) == (0, 99)


class TestSubdivision:
    @settings(max_examples=60)
    @given(data=numbers(), k=st.integers(2, 5))
    def test_cells_cover_the_space_and_leave_out_only_gaps_between_common_values(self, data, k):
        boxes = released(data, k=k, edges="cells").drop_duplicates("box")
        axes = []
        for name in data:
            counts = data[name].value_counts().sort_index()
            values = counts.index.to_numpy(dtype=float)
            places = list(values)
            for low, high, both in zip(values[:-1], values[1:], (counts >= k).to_numpy()[:-1], strict=True):
                if name == "whole":
                    places += [np.floor((low + high) / 2)] if not (both and counts[high] >= k) else []
                elif not (both and counts[high] >= k):
                    places += [low + share * (high - low) for share in (0.1, 0.5, 0.9)]
            axes.append(np.random.default_rng(0).permutation(places)[:12])
        points = np.array(list(product(*axes)))
        inside = np.ones((len(points), len(boxes)), dtype=bool)
        for name, places in zip(data, points.T, strict=True):
            low, high = (boxes[f"{name}_{end}"].to_numpy(dtype=float, na_value=np.nan) for end in ("low", "high"))
            inside &= (low <= places[:, None]) & (places[:, None] <= high)
            if f"{name}_missing" in boxes:
                inside |= np.isnan(low)  # the space of missing numbers is another one
        assert inside.any(axis=1).all()

    def test_cells_without_ties_do_not_overlap(self):
        data = pd.DataFrame(np.random.default_rng(2).normal(size=(300, 2)), columns=["x", "y"])
        boxes = released(data, k=5, edges="cells").drop_duplicates("box")
        low, high = (boxes[[f"x_{end}", f"y_{end}"]].to_numpy() for end in ("low", "high"))
        shared = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)
        overlaps = (shared > 0.0).all(axis=2)
        assert overlaps.sum() == len(boxes)  # each with itself
        outer = high.max(axis=0) - low.min(axis=0)
        assert np.prod(high - low, axis=1).sum() == pytest.approx(np.prod(outer))

    def test_whole_numbers_are_divided_into_sets_of_consecutive_numbers(self):
        boxes = released(pd.DataFrame({"age": [*range(20, 25), *range(25, 30), *range(41, 46)]}), k=5, edges="cells")
        ends = boxes[["age_low", "age_high"]].drop_duplicates().sort_values("age_low").to_numpy().tolist()
        assert ends[0] == [10, 24] and ends[1][0] == 25 and ends[2][1] == 50
        assert ends[1][1] + 1 == ends[2][0] and 30 <= ends[1][1] <= 39  # neither end is one of the values 29 and 41


def shares(data, faces):
    """Where each face lies between the two values beside it: 0 at the lower, 1 at the higher one."""
    values = np.sort(data)
    inner = np.array([face for face in faces if values[0] < face < values[-1]])
    right = np.searchsorted(values, inner)
    return (inner - values[right - 1]) / (values[right] - values[right - 1])


class TestDrawnFaces:
    @pytest.mark.parametrize("method", [sf.Boxes(k=5, edges="cells"), sf.Generalize(k=5), sf.Recode(k=5, suppress=0.0)])
    def test_are_anywhere_between_two_values(self, method):
        data = pd.DataFrame({"x": np.random.default_rng(0).normal(size=1000)})
        release = method.release(data, schema={"x": "quasi"}, seed=2).table.to_pandas()
        drawn = shares(data.x, faces_of(release, "x"))
        assert len(drawn) > 10
        assert not np.isclose(drawn, 0.5, atol=1e-6).any()
        assert kstest(drawn, "uniform").pvalue > 1e-3
        assert kstest(np.full(len(drawn), 0.5), "uniform").pvalue < 1e-3  # control: midpoints would be seen

    def test_of_whole_numbers_lie_apart_from_both_values(self):
        data = pd.DataFrame({"x": np.arange(0, 4000, 10)})
        inner = {face for face in faces_of(released(data, k=5, edges="cells"), "x") if 0 < face < 3990}
        assert len(inner) > 50 and not inner & set(data.x)
        assert len({face % 10 for face in inner}) > 5  # control: half-way there would be two

    def test_are_new_in_each_release_and_the_same_on_each_engine(self):
        data = pd.DataFrame({"x": np.random.default_rng(0).normal(size=200), "y": np.arange(200.0)})
        ask = {"schema": {"x": "quasi", "y": "quasi"}}
        method = sf.Boxes(k=5, edges="cells")
        first, second, stored = (
            faces_of(method.release(data, **ask, **how).to_pandas(), "x")
            for how in ({"seed": 1}, {"seed": 2}, {"seed": 1, "engine": "duckdb"})
        )
        assert first == stored
        assert not {face for face in first & second if abs(face) < 2.0}


class TestCost:
    @given(
        st.lists(st.sampled_from([17.5, 22.0, 27.0, 32.0, 42.0]), min_size=1, max_size=5, unique=True), st.booleans()
    )
    def test_boxes_of_common_values_of_one_column_are_as_narrow_as_hulls(self, values, whole):
        data = pd.DataFrame({"age": np.repeat(values, 7) * (2 if whole else 1)})
        data = data.astype(int) if whole else data
        hull, cells = (released(data, k=5, edges=edges) for edges in ("hull", "cells"))
        columns = ["age_low", "age_high"]
        assert sorted(map(tuple, hull[columns].to_numpy())) == sorted(map(tuple, cells[columns].to_numpy()))

    def test_tied_columns_cost_little_more_than_hulls(self):
        """As in surveys: a few ages, years and grades. With faces half-way between values it was 40 times as much."""
        random = np.random.default_rng(1)
        answers = {"age": [17.5, 22.0, 27.0, 32.0, 37.0, 42.0], "years": [0.5, 2.5, 6.0, 9.0, 13.0, 16.5, 23.0]}
        data = pd.DataFrame({name: random.choice(values, 4000) for name, values in answers.items()})
        data["children"], data["grade"] = random.integers(0, 6, 4000), random.integers(1, 5, 4000)
        hull, cells = (mean_widths(released(data, k=5, edges=edges), data) for edges in ("hull", "cells"))
        assert cells.sum() <= 1.3 * hull.sum()

    def test_a_box_of_one_value_costs_nothing_beside_an_empty_range(self):
        gain = np.concatenate([np.zeros(900), 100.0 + np.arange(100.0)])
        boxes = released(pd.DataFrame({"gain": gain}), k=5, edges="cells")
        assert ((boxes.gain_low == 0.0) & (boxes.gain_high == 0.0)).sum() >= 890

    def test_cuts_look_at_the_widths_of_cells(self):
        """Of columns that depend on each other, hulls need cuts in one; cells need them in all."""
        random = np.random.default_rng(3)
        x = random.normal(size=2000)
        data = pd.DataFrame({"x": x, "y": x + 0.1 * random.normal(size=2000), "z": x + 0.1 * random.normal(size=2000)})
        hull, cells = (mean_widths(released(data, k=5, edges=edges), data) for edges in ("hull", "cells"))
        assert (cells / hull < 6.0).all()  # with cuts that look at the records only, it is 9 to 15

    def test_a_search_does_not_widen_cells(self):
        random = np.random.default_rng(4)
        data = pd.DataFrame({"x": np.exp(random.normal(size=400)), "y": random.integers(0, 9, 400)})
        data["z"] = data.x + 0.1 * random.normal(size=400)
        budget = sf.SearchBudget(rounds=4)
        greedy, searched = (released(data, k=5, edges="cells", search=search) for search in (None, budget))
        spread = data.std().to_numpy()
        assert (mean_widths(searched, data) / spread).sum() <= 1.02 * (mean_widths(greedy, data) / spread).sum()


@pytest.mark.parametrize(
    ("options", "digest"),
    [
        ({"k": 5}, "8fd801168ac096ba"),
        ({"k": 5, "keep": ["mean(a)", "corr(a, c)"], "others": 0.0}, "1265ead46a135aad"),
        ({"k": 4, "cut": "median"}, "fae195bbdb54a110"),
    ],
)
def test_hulls_are_what_they_were_before_cells_had_faces_of_their_own(options, digest):
    random = np.random.default_rng(5)
    data = pd.DataFrame({"a": random.integers(0, 90, 500), "b": random.integers(0, 6, 500)})
    data["c"] = random.integers(-1000, 1000, 500) / 8.0
    boxes = released(data, **options).drop(columns="box")
    text = boxes.sort_index(axis=1).sort_values(sorted(boxes)).to_csv(index=False)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest
