"""What the search beyond the greedy boxes promises: never worse, k and ℓ held, a subdivision unless said otherwise."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.same_rows import same_rows

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey, run
from sfumato.errors import OptionError
from sfumato.methods.boxes.partition import partition, problem_of
from sfumato.methods.boxes.search import CutMoves, neighbours, search
from sfumato.methods.boxes.search_branch_kernels import box_costs
from sfumato.methods.boxes.search_objective import ExactJudge, LinearJudge, linear_fitness
from sfumato.methods.search_budget import SearchBudget
from sfumato.randomness import Randomness
from sfumato.release.verify import verify
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table
from sfumato.table.groups import group_sizes

CONTRACTS = ("none", "allowed")


def correlated(rows, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=rows)
    return pd.DataFrame({"x": x, "y": 0.5 * x + np.sqrt(0.75) * random.normal(size=rows)})


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(3)
    rows = 400
    age = random.integers(18, 90, rows)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.exp(random.normal(10, 0.6, rows) + age / 80).round(-2),
            "bmi": np.where(random.random(rows) < 0.05, np.nan, random.normal(25, 4, rows)),
            "city": random.choice(["Ulm", "Rom", "Oslo", "Bern"], rows),
            "illness": random.choice(["flu", "gout", "none"], rows, p=[0.2, 0.1, 0.7]),
        }
    )


def width(release, statistic):
    estimate = release.estimate(statistic)
    return estimate.high - estimate.low


def cost_of_column(release, name):
    return float((release.table.numbers(f"{name}_high") - release.table.numbers(f"{name}_low")).mean())


class Cut:
    """A table, cut greedily, and what a search needs to go on."""

    def __init__(self, data, schema=None, **options):
        table = as_table(data)
        roles = Schema.for_table(table, schema)
        plan = sf.Boxes(**options).plan(MemorySurvey(roles.apply(table)), roles, Randomness(1))
        rows = roles.apply(table)
        self.plan, values, weights = plan, plan.axes.coordinates(rows), plan.sensitivities.of(rows)
        protected = plan.diversity.protect(rows, plan.axes)
        self.problem = problem_of(values, weights, plan.axes, k=plan.options.k, protected=protected)
        self.leaves = partition(
            values, weights, plan.axes, k=plan.options.k, protected=protected, median=False, note_cuts=True
        )

    def searched(self, overlap, rounds=3, judge=None, seed=1):
        generators = [np.random.default_rng([seed, island]) for island in range(3)]
        judge = judge or LinearJudge(self.problem, float(len(self.problem.values)))
        return search(
            self.leaves, self.problem, judge, overlap=overlap, budget=SearchBudget(rounds=rounds), generators=generators
        )

    def cost(self, leaves):
        return box_costs(self.problem, linear_fitness(self.problem.weights), leaves.order, leaves.starts).sum()

    def exact_judge(self):
        sampling = np.ones(len(self.problem.values))
        return ExactJudge.of(self.problem, self.plan.edges, self.plan.axes, self.plan.kept, sampling)


class TestEveryPartition:
    @settings(max_examples=15)
    @given(
        values=arrays(np.float64, (70, 2), elements=st.integers(0, 20).map(float)),
        k=st.integers(2, 6),
        overlap=st.sampled_from(CONTRACTS),
        seed=st.integers(0, 99),
    )
    def test_holds_all_rows_in_boxes_of_k_and_costs_no_more_than_the_start(self, values, k, overlap, seed):
        cut = Cut(pd.DataFrame(values, columns=["a", "b"]), k=k)
        found = cut.searched(overlap, seed=seed)
        assert sorted(found.boxes.order) == list(range(70))
        assert found.boxes.sizes.min() >= k
        assert cut.cost(found.boxes) <= cut.cost(cut.leaves) * (1 + 1e-6)
        assert found.trace.gain >= 0.0

    @settings(max_examples=15)
    @given(
        values=arrays(np.float64, (60, 2), elements=st.floats(0, 100, width=32), unique=True),
        seed=st.integers(0, 99),
    )
    def test_without_overlap_is_a_subdivision(self, values, seed):
        found = Cut(pd.DataFrame(values, columns=["a", "b"]), k=3).searched("none", seed=seed)
        boxes = np.split(values[found.boxes.order], found.boxes.starts[1:-1])
        for place, box in enumerate(boxes):
            for other in boxes[:place]:
                shared = np.minimum(box.max(axis=0), other.max(axis=0)) - np.maximum(box.min(axis=0), other.min(axis=0))
                assert shared.min() <= 0.0

    def test_with_overlap_allowed_may_overlap(self):
        cut = Cut(correlated(300), k=5, keep=["corr(x, y)"])
        leaves = cut.searched("allowed", rounds=20).boxes
        boxes = np.split(cut.problem.values[leaves.order], leaves.starts[1:-1])
        overlaps = [
            (np.minimum(a.max(axis=0), b.max(axis=0)) - np.maximum(a.min(axis=0), b.min(axis=0))).min() > 0.0
            for place, a in enumerate(boxes)
            for b in boxes[:place]
        ]
        assert any(overlaps), "the test of a subdivision could not fail"

    @pytest.mark.parametrize("overlap", CONTRACTS)
    @pytest.mark.parametrize("options", [{"k": 5, "l": 2}, {"k": 6, "l": 3, "keep": ["corr(age, income)"]}])
    def test_of_mixed_columns_with_missing_values_stays_diverse_and_verified(self, people, overlap, options):
        boxes = sf.Boxes(**options, search=SearchBudget(rounds=5), overlap=overlap)
        release = boxes.release(people, schema={"illness": "sensitive"}, seed=1)
        frame = release.table.to_pandas()
        assert frame.groupby("box").illness.nunique().min() >= options["l"]
        assert group_sizes(release.table, [name for name in release.table.names if name != "illness"]).min() >= 5
        assert release.diagnostics.searches[0].gain > 0.0


class TestGain:
    @pytest.mark.parametrize(("overlap", "least"), [("none", 0.03), ("allowed", 0.06)])
    @pytest.mark.parametrize("statistic", ["mean(x)", "corr(x, y)"])
    def test_the_exact_width_of_the_kept_statistic_falls(self, overlap, least, statistic):
        data = correlated(600)
        greedy = sf.Boxes(k=5, keep=[statistic]).release(data, seed=1)
        better = sf.Boxes(k=5, keep=[statistic], search=SearchBudget(rounds=25), overlap=overlap).release(data, seed=1)
        assert width(better, statistic) < (1.0 - least) * width(greedy, statistic)

    def test_columns_that_no_statistic_names_pay_nothing_for_it(self):
        data = correlated(600)
        greedy = sf.Boxes(k=5, keep=["mean(x)"]).release(data, seed=1)
        better = sf.Boxes(k=5, keep=["mean(x)"], search=SearchBudget(rounds=25), overlap="allowed").release(
            data, seed=1
        )
        assert cost_of_column(better, "y") <= cost_of_column(greedy, "y") * 1.02

    @pytest.mark.parametrize("keep", [["mean(x)"], ["var(y)", "corr(x, y)"], ["regress(y ~ x)"], None])
    @pytest.mark.parametrize("overlap", CONTRACTS)
    def test_the_trace_tells_what_was_gained(self, keep, overlap):
        release = sf.Boxes(k=5, keep=keep, search=SearchBudget(rounds=10), overlap=overlap).release(
            correlated(500), seed=1
        )
        (trace,) = release.diagnostics.searches
        assert (trace.rounds, trace.stop, trace.overlap) == (10, "budget", overlap)
        assert 0.0 < trace.after < trace.before
        assert len(trace.widths_after) == len(trace.widths_before)

    def test_sampling_weights_and_exact_columns_may_be_part_of_a_kept_statistic(self, people):
        data = people[["age", "income"]].assign(sampling=np.linspace(1, 3, len(people)))
        for roles in ({"sampling": "weight"}, {"sampling": "other", "income": "other"}):
            release = sf.Boxes(k=5, keep=["corr(age, income)"], search=SearchBudget(rounds=5)).release(
                data, schema=roles, seed=1
            )
            greedy = sf.Boxes(k=5, keep=["corr(age, income)"]).release(data, schema=roles, seed=1)
            assert width(release, "corr(age, income)") <= width(greedy, "corr(age, income)") * 1.001

    @pytest.mark.parametrize("overlap", CONTRACTS)
    def test_no_kept_statistic_pays_for_another(self, overlap):
        data, keep = correlated(600), ["mean(x)", "var(y)", "corr(x, y)"]
        importance = {"mean(x)": 20.0}  # alone, it would let the others grow
        greedy = sf.Boxes(k=5, keep=keep, importance=importance).release(data, seed=1)
        boxes = sf.Boxes(k=5, keep=keep, importance=importance, search=SearchBudget(rounds=40), overlap=overlap)
        better = boxes.release(data, seed=1)
        assert all(width(better, one) <= width(greedy, one) * (1 + 1e-6) for one in keep)
        assert width(better, "mean(x)") < 0.99 * width(greedy, "mean(x)")

    @pytest.mark.parametrize("overlap", CONTRACTS)
    @pytest.mark.parametrize(
        "data",
        [
            pd.concat([correlated(12)] * 7),
            correlated(60).assign(same=1.0),
            correlated(60).round(0),
            correlated(60).assign(x=np.where(np.arange(60) % 6 == 0, np.nan, 1.0)),
            *(correlated(rows) for rows in range(5, 11)),
        ],
        ids=["duplicates", "constant", "ties", "missing", *(f"{rows} rows" for rows in range(5, 11))],
    )
    def test_odd_tables_are_searched_and_verified(self, data, overlap):
        release = sf.Boxes(k=5, keep=["mean(y)"], search=SearchBudget(rounds=2), overlap=overlap).release(data, seed=1)
        greedy = sf.Boxes(k=5, keep=["mean(y)"]).release(data, seed=1)
        assert all(finding.held for finding in release.findings)
        assert release.table.rows == len(data)
        assert width(release, "mean(y)") <= width(greedy, "mean(y)") * (1 + 1e-6)

    def test_a_table_that_is_one_box_or_has_no_width_stays_as_it_is(self):
        for data in (correlated(6), pd.DataFrame({"a": np.ones(40), "b": np.ones(40)})):
            for overlap in CONTRACTS:
                release = sf.Boxes(k=5, search=SearchBudget(rounds=2), overlap=overlap).release(data, seed=1)
                assert release.diagnostics.searches[0].gain == 0.0


@pytest.mark.parametrize("overlap", CONTRACTS)
def test_a_kept_statistic_that_is_undefined_leaves_the_others_to_the_search(overlap):
    table = correlated(60).assign(z=0.0)
    options = {"k": 3, "overlap": overlap, "search": SearchBudget(rounds=2)}
    undefined = sf.Boxes(keep=["regress(y ~ z)", "sd(y)"], **options).release(table, seed=1)
    found = undefined.diagnostics.searches[0]
    assert found.after < found.before
    assert [one.name for one in found.widths_after] == ["sd(y)"]


def test_a_cost_that_is_no_number_leaves_boxes_as_they_are():
    cut = Cut(correlated(60), k=3)
    unknown = linear_fitness(np.full_like(cut.problem.weights, np.nan))
    moved = CutMoves(cut.problem).mutate(cut.leaves, unknown, 20, np.random.default_rng(1))
    assert moved.order.tolist() == cut.leaves.order.tolist()
    assert moved.starts.tolist() == cut.leaves.starts.tolist()


class TestExactJudge:
    @pytest.mark.parametrize("statistic", ["corr(x, y)", "cov(x, y)", "regress(y ~ x)"])
    def test_the_fitness_tells_how_the_exact_width_changes_and_the_linear_cost_does_not(self, statistic):
        cut = Cut(correlated(400), k=5, keep=[statistic], others=0.0)
        judge = cut.exact_judge()
        start, other = judge.measure(cut.leaves), cut.searched("allowed", rounds=5, judge=judge).boxes
        costs = [box_costs(cut.problem, start.fitness, one.order, one.starts).sum() for one in (cut.leaves, other)]
        true, followed = judge.measure(other).kept - start.kept, costs[1] - costs[0]
        assert followed == pytest.approx(true, rel=0.05)
        assert abs(cut.cost(other) - cut.cost(cut.leaves) - true) > 2.0 * abs(followed - true)

    def test_leads_to_narrower_intervals_where_the_linear_cost_leads_to_wider_ones(self):
        skewed = np.exp(correlated(400) * 1.5)
        cut = Cut(skewed, k=5, keep=["corr(x, y)"], others=0.0)
        judge = cut.exact_judge()
        start = judge.measure(cut.leaves).kept
        by_exact, by_linear = (
            judge.measure(cut.searched("allowed", rounds=5, judge=leader).boxes).kept for leader in (judge, None)
        )
        assert by_exact < 0.98 * start < start < by_linear

    def test_many_statistics_or_columns_with_missing_values_are_followed_by_linear_widths(self, people):
        assert Cut(people[["bmi", "age"]], k=5, keep=["corr(bmi, age)"]).exact_judge() is None
        assert Cut(people[["age", "income"]], k=5, keep=["mean(age)"] * 7).exact_judge() is None


class TestBudget:
    @pytest.mark.parametrize("overlap", CONTRACTS)
    def test_a_seed_and_a_number_of_rounds_give_the_same_boxes_again(self, overlap):
        data = correlated(120)
        boxes = sf.Boxes(k=5, keep=["corr(x, y)"], search=SearchBudget(rounds=3), overlap=overlap)
        first, again, other = (boxes.release(data, seed=seed).table.arrow for seed in (1, 1, 2))
        assert same_rows(first, again)
        assert not same_rows(first, other)

    @pytest.mark.parametrize("overlap", CONTRACTS)
    def test_an_interrupt_keeps_the_best_so_far(self, overlap):
        def interrupt(progress):
            if progress.rounds == 3:
                raise KeyboardInterrupt

        boxes = sf.Boxes(
            k=5, keep=["corr(x, y)"], search=SearchBudget(rounds=1000, progress=interrupt), overlap=overlap
        )
        (trace,) = boxes.release(correlated(300), seed=1).diagnostics.searches
        assert (trace.stop, trace.rounds) == ("interrupted", 3)
        assert trace.gain > 0.0

    @pytest.mark.parametrize("overlap", CONTRACTS)
    def test_an_interrupt_of_the_keyboard_while_kernels_run_keeps_the_best_so_far(self, overlap):
        def press_soon(progress):
            if progress.rounds == 6:
                threading.Thread(target=lambda: (time.sleep(0.01), os.kill(os.getpid(), signal.SIGINT))).start()

        usual = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            boxes = sf.Boxes(
                k=5, keep=["corr(x, y)"], search=SearchBudget(rounds=400, progress=press_soon), overlap=overlap
            )
            release = boxes.release(correlated(1000), seed=1)
        finally:
            signal.signal(signal.SIGINT, usual)
        (trace,) = release.diagnostics.searches
        assert trace.stop == "interrupted"
        assert 6 <= trace.rounds < 400
        assert trace.gain > 0.0
        assert all(finding.held for finding in release.findings)

    def test_seconds_end_a_search(self):
        (trace,) = (
            sf.Boxes(k=5, search=sf.SearchBudget(seconds=0.2)).release(correlated(200), seed=1).diagnostics.searches
        )
        assert trace.stop == "budget"
        assert 0.0 < trace.seconds < 60.0  # it ends early by as long as the last measurement takes
        assert trace.after <= trace.before  # on a busy machine not even one round may end in time

    @pytest.mark.parametrize("overlap", ["none", "allowed"])
    def test_a_category_and_a_column_of_few_values_that_is_mostly_missing_keep_to_the_time(self, overlap):
        draw = np.random.default_rng(0)
        gain = np.where(draw.random(300) < 0.9, np.nan, draw.integers(1, 10, 300))
        table = pd.DataFrame({"sex": draw.choice(["F", "M"], 300), "gain": gain})
        boxes = sf.Boxes(k=4, search=sf.SearchBudget(seconds=0.5), overlap=overlap)
        (trace,) = boxes.release(table, schema={"sex": "quasi", "gain": "quasi"}, seed=1).diagnostics.searches
        assert trace.seconds < 30.0, "without a bound on the work of one step it never ends"

    def test_progress_is_reported_after_each_round_to_a_callable_and_to_the_log(self, caplog):
        reported = []
        with caplog.at_level(logging.INFO, logger="sfumato"):
            sf.Boxes(k=5, keep=["mean(x)"], search=SearchBudget(rounds=4, progress=reported.append)).release(
                correlated(100), seed=1
            )
        assert [one.rounds for one in reported] == [1, 2, 3, 4]
        assert [one.share for one in reported] == [0.25, 0.5, 0.75, 1.0]
        assert all(0.0 <= one.gain < 1.0 for one in reported)
        assert any("search:" in line for line in caplog.messages)

    def test_a_bare_number_is_seconds_and_the_manifest_holds_the_budget(self):
        assert sf.Boxes(k=5, search=2).search == sf.SearchBudget(seconds=2)
        release = sf.Boxes(k=5, search=SearchBudget(rounds=2), overlap="allowed").release(correlated(60), seed=1)
        assert release.manifest.options["search"] == "2 rounds"
        assert str(sf.SearchBudget(seconds=60)) == "60 s"

    def test_blocks_share_the_time_and_are_searched_one_by_one(self, people):
        table = as_table(people[["age", "income"]])
        schema = Schema.for_table(table)
        for overlap in CONTRACTS:
            boxes = sf.Boxes(k=5, keep=["corr(age, income)"], search=SearchBudget(rounds=3), overlap=overlap)
            plan = boxes.plan(MemorySurvey(table, block_rows=100), schema, Randomness(1))
            outcome = run(plan, table)
            assert all(found.held for found in verify(plan.claims, [outcome.evidence]))
            assert len(outcome.trace.searches) == plan.blocks > 1
        assert sf.SearchBudget(seconds=60).split(4) == sf.SearchBudget(seconds=15)
        assert sf.SearchBudget(rounds=60).split(4) == sf.SearchBudget(rounds=60)


class TestWords:
    def test_a_release_whose_boxes_may_overlap_says_so_and_names_the_attack(self):
        data = correlated(60)
        for overlap, warned in (("none", False), ("allowed", True)):
            release = sf.Boxes(k=5, search=SearchBudget(rounds=1), overlap=overlap).release(data, seed=1)
            assert ("2509.03350" in release.findings[0].claim) is warned
            assert ("overlap" in release.manifest.notes) is warned
        assert "2509.03350" not in sf.Boxes(k=5).release(data, seed=1).findings[0].claim

    @pytest.mark.parametrize(
        "options",
        [
            {"overlap": "some"},
            {"search": 0},
            {"search": "long"},
            {"search": True},
            {"search": SearchBudget(rounds=2), "overlap": "allowed", "edges": "cells"},
        ],
    )
    def test_what_cannot_be_is_refused(self, options):
        with pytest.raises(OptionError):
            sf.Boxes(k=5, **options)

    @pytest.mark.parametrize(
        "budget", [{"rounds": 0}, {"rounds": 1.5}, {"rounds": True}, {"seconds": -1}, {"seconds": 0}, {"seconds": "1"}]
    )
    def test_a_budget_must_be_positive(self, budget):
        with pytest.raises(OptionError, match=f"^{next(iter(budget))} must be"):
            SearchBudget(**budget)

    def test_a_budget_is_seconds_or_rounds(self):
        with pytest.raises(OptionError, match=r"exactly one of seconds and rounds\. Found: neither"):
            SearchBudget()
        with pytest.raises(OptionError, match=r"exactly one of seconds and rounds\. Found: both"):
            SearchBudget(seconds=1, rounds=1)
        with pytest.raises(TypeError):
            SearchBudget(60)

    def test_cells_can_be_searched_without_overlap(self):
        table = sf.Boxes(k=5, edges="cells", search=SearchBudget(rounds=3)).release(correlated(200), seed=1).table
        low, high = (np.column_stack([table.numbers(f"{name}_{end}") for name in "xy"]) for end in ("low", "high"))
        boxes = np.unique(np.column_stack([low, high]), axis=0)
        area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1).sum()
        assert area == pytest.approx(np.prod(high.max(axis=0) - low.min(axis=0)))


@given(places=arrays(np.float64, (40, 2), elements=st.floats(0, 1), unique=True))
def test_neighbours_equal_a_search_of_all_pairs(places):
    found = neighbours(places, np.arange(40))
    distance = np.sqrt(((places[:, None] - places) ** 2).sum(axis=2))
    for row, near in enumerate(found):
        assert np.sort(distance[row, near]) == pytest.approx(np.sort(distance[row])[1 : len(near) + 1])


def test_neighbours_in_many_dimensions_are_near_and_nobody_is_left_out():
    places = np.random.default_rng(2).random((5000, 4))
    order = np.argsort(places[:, 0])
    found = neighbours(places, order)
    near = np.linalg.norm(places[found] - places[:, None], axis=2).mean()
    far = np.linalg.norm(places[::-1] - places, axis=1).mean()
    assert found.shape == (5000, 12)
    assert found.min() >= 0
    assert found.max() < 5000
    assert near < 0.4 * far
