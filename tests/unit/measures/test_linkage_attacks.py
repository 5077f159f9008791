"""Attacks that use how a release was made: each breaks a method that it should break, and fails where it should."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.measures.measured_release import MeasuredRelease
from sfumato.measures.privacy import linkage
from sfumato.measures.privacy.attacks import fellegi_sunter
from sfumato.measures.privacy.attacks.downcoding import downcode, minimal_parts
from sfumato.measures.privacy.attacks.fellegi_sunter import (
    LEVELS,
    Thresholds,
    fellegi_sunter_scores,
    learn_weights,
    link_people,
)
from sfumato.measures.privacy.attacks.suppression import reconstruct, suppression_scores
from sfumato.measures.privacy.intruders import intruders
from sfumato.randomness import Randomness
from sfumato.schema.hierarchies import Tree
from sfumato.table.groups import group_labels
from sfumato.table.table import Table


def subject(original: Table, released: Table, origin, **options) -> MeasuredRelease:
    return MeasuredRelease(
        original=original, released=released, origin=np.asarray(origin), randomness=Randomness(1), **options
    )


def patients(rows: int = 600) -> Table:
    draw = np.random.default_rng(1)
    columns = {f"x{number}": draw.normal(size=rows) for number in range(4)}
    return Table.from_arrow(pa.table(columns | {"city": draw.choice(list("abcdefgh"), rows)}))


class TestFellegiSunter:
    def rate(self, released: Table, original: Table | None = None) -> float:
        original = original or patients()
        (score,) = fellegi_sunter_scores(subject(original, released, np.arange(original.rows)))
        return score.value

    def test_little_noise_is_undone_and_synthetic_rows_are_not_linked(self):
        original, draw = patients(), np.random.default_rng(2)
        noisy = {name: original.numbers(name) + 0.1 * draw.normal(size=600) for name in original.names[:4]}
        noisy = Table.from_arrow(pa.table(noisy | {"city": original.arrow.column("city")}))
        assert self.rate(noisy) > 0.8
        made = sf.Synthesize(kind="copula").release(original, schema=dict.fromkeys(original.names, "quasi"), seed=1)
        assert self.rate(made.table) < 0.02

    def test_columns_that_tell_nothing_do_not_hide_those_that_do(self):
        """Two columns are nearly unchanged and two are permuted: a distance over all columns is led astray."""
        original, draw = patients(), np.random.default_rng(3)
        columns = {name: original.numbers(name) + 0.02 * draw.normal(size=600) for name in original.names[:2]}
        columns |= {name: draw.permutation(original.numbers(name)) for name in original.names[2:4]}
        released = Table.from_arrow(pa.table(columns | {"city": draw.permutation(original.arrow.column("city"))}))
        linked = self.rate(released)
        found = subject(original, released, np.arange(600))
        nearest = next(score for score in linkage.linkage_scores(found) if score.name == "correct nearest matches")
        assert linked > 0.5
        assert linked > 2.0 * nearest.value

    def test_a_round_of_learning_is_that_of_the_book(self, monkeypatch):
        monkeypatch.setattr(fellegi_sunter, "ROUNDS", 1)
        draw = np.random.default_rng(5)
        levels, counts, rate = draw.integers(0, LEVELS, (40, 3)), draw.integers(1, 9, 40).astype(float), 0.1

        def shares(weights):
            tally = np.full((3, LEVELS), 0.01)
            for pattern, weight in zip(levels, weights, strict=True):
                for column, level in enumerate(pattern):
                    tally[column, level] += weight
            return tally / tally.sum(axis=1, keepdims=True)

        other, start = shares(counts), np.array(fellegi_sunter.STARTED)
        beliefs = []
        for pattern in levels:
            likelihood = np.prod([start[level] / other[column, level] for column, level in enumerate(pattern)])
            beliefs.append(rate * likelihood / (rate * likelihood + 1.0 - rate))
        found = learn_weights(levels, counts, rate)
        np.testing.assert_allclose(found.other, other)
        np.testing.assert_allclose(found.true, shares(counts * np.array(beliefs)))

    def test_probabilities_are_learnt_from_patterns_alone(self):
        draw = np.random.default_rng(4)
        true = np.array([[0.85, 0.1, 0.02, 0.01, 0.01, 0.01], [0.6, 0.2, 0.05, 0.05, 0.05, 0.05]] * 3)
        other = np.array([[0.02, 0.08, 0.1, 0.1, 0.1, 0.6], [0.1, 0.1, 0.1, 0.1, 0.1, 0.5]] * 3)
        is_true = draw.random(100_000) < 0.01
        levels = np.column_stack(
            [
                np.where(is_true, draw.choice(LEVELS, 100_000, p=one), draw.choice(LEVELS, 100_000, p=none))
                for one, none in zip(true, other, strict=True)
            ]
        )
        patterns, counts = np.unique(levels, axis=0, return_counts=True)
        found = learn_weights(patterns, counts.astype(float), 0.01)
        assert np.abs(found.true - true).max() < 0.08
        assert (found.logs[:, 0] > 1.0).all()
        assert (found.logs[:, -1] < 0.0).all()

    def test_one_of_equal_rows_counts_as_a_guess(self):
        rows = Table.from_arrow(pa.table({"x": [1.0] * 10}))
        assert self.rate(rows, rows) == pytest.approx(0.1)


class TestThresholds:
    """Two thresholds: matches, no matches, and pairs for review (Fellegi and Sunter, 1969)."""

    def test_they_are_those_of_trying_every_pattern(self):
        draw = np.random.default_rng(2)
        weights, counts, rate = draw.normal(0.0, 4.0, 40), draw.integers(1, 500, 40).astype(float), 0.01
        belief = 1.0 / (1.0 + np.exp(-(np.log(rate / (1.0 - rate)) + weights)))
        found = Thresholds.of(weights, counts, rate, false=0.1, missed=0.2)

        def wrong(least):
            return (counts * (1.0 - belief))[weights >= least].sum() / (rate * counts.sum())

        def missed(least):
            return (counts * belief)[weights < least].sum() / (counts * belief).sum()

        assert found.match == min((one for one in weights if wrong(one) <= 0.1), default=np.inf)
        assert found.review == min(found.match, max(one for one in weights if missed(one) <= 0.2))

    def test_a_small_change_is_matched_and_a_large_one_is_for_review(self):
        draw = np.random.default_rng(3)
        columns = {f"x{place}": draw.normal(size=300) for place in range(5)}
        original = Table.from_arrow(pa.table(columns))

        def links(noise):
            changed = {name: values + noise * draw.normal(size=300) for name, values in columns.items()}
            pair = subject(original, Table.from_arrow(pa.table(changed)), np.arange(300))
            return max(
                (link_people(pair, one, np.arange(100)) for one in fellegi_sunter.intruders(pair)),
                key=lambda found: found.hits,
            )

        near, far = links(0.01), links(1.0)
        assert near.matched > 90 and near.matched_correctly >= 0.97 * near.matched
        assert far.matched < 50 and far.reviewed > 30
        assert far.review_rows > 1.0 and 0 < far.found_in_review <= far.reviewed


class TestOneToOne:
    def test_a_large_table_is_matched_in_part_and_says_so(self):
        draw = np.random.default_rng(0)
        original = Table.from_arrow(pa.table({"x": draw.normal(size=5000), "y": draw.normal(size=5000)}))
        order = draw.permutation(5000)
        found = subject(original, original.take(order), order)
        score = next(one for one in linkage.linkage_scores(found) if one.name == "correct one-to-one matches")
        assert score.value == 1.0
        assert score.rows == 2000
        assert "2,000 random people" in score.note
        wrong = subject(original, original.take(order), draw.permutation(order))
        assert linkage._assigned_score(wrong, wrong.origin, next(intruders(wrong))).value < 0.01


def minimal_suppression(table: Table, k: int, column: str) -> Table:
    """Hide one column of the rows that have fewer than k equals, and of no other row."""
    sizes = np.bincount(group_labels(table, table.names))[group_labels(table, table.names)]
    return hidden(table, column, sizes < k)


def hidden(table: Table, column: str, rows) -> Table:
    place = table.names.index(column)
    cells = [None if lost else cell for cell, lost in zip(table.arrow.column(column).to_pylist(), rows, strict=True)]
    return Table(table.arrow.set_column(place, column, pa.array(cells)), table.kinds)


class TestSuppression:
    def test_the_example_of_the_thesis(self):
        """90 rows show Male, 10 show nothing: all of these are Female."""
        original = Table.from_arrow(pa.table({"sex": ["Male"] * 90 + ["Female"] * 10}))
        released = hidden(original, "sex", [False] * 90 + [True] * 10)
        found = reconstruct(original, released, np.arange(100), ("sex",))
        assert (found.suppressed, found.guessed, found.correct) == (10, 10, 10)

    @pytest.fixture
    def table(self):
        """Each town has two illnesses, and in each town one of them is rare."""
        draw = np.random.default_rng(5)
        town = draw.integers(0, 20, 2000)
        ill = np.where(draw.random(2000) < 0.01, 1 - town % 2, town % 2)
        return Table.from_arrow(pa.table({"town": [f"t{one}" for one in town], "ill": np.array(["flu", "gout"])[ill]}))

    def test_planted_values_of_a_minimal_suppression_are_found(self, table):
        released = minimal_suppression(table, 5, "ill")
        (score,) = suppression_scores(subject(table, released, np.arange(2000)))
        assert score.rows >= 10
        assert score.value == 1.0
        assert score.gain > 0.7

    def test_they_are_not_found_among_cells_that_were_suppressed_at_random(self, table):
        draw = np.random.default_rng(6)
        needed = np.array([cell is None for cell in minimal_suppression(table, 5, "ill").arrow["ill"].to_pylist()])
        released = hidden(table, "ill", needed | (draw.random(2000) < 0.2))
        (score,) = suppression_scores(subject(table, released, np.arange(2000)))
        assert score.value < 0.05
        assert score.gain == 0.0

    def test_cells_that_were_missing_before_are_not_suppressed(self):
        original = Table.from_arrow(pa.table({"sex": ["f"] * 9 + [None]}))
        assert reconstruct(original, original, np.arange(10), ("sex",)).suppressed == 0
        assert not list(suppression_scores(subject(original, original, np.arange(10))))


TREE = Tree.of([("a1", "a", "*"), ("a2", "a", "*"), ("b1", "b", "*"), ("b2", "b", "*"), ("b3", "b", "*")])


class TestDowncoding:
    @pytest.mark.parametrize(
        ("word", "parts"),
        [
            ("a1", []),
            ("a", [{"a1"}, {"a2"}]),
            ("*", [{"a1", "a2"}, {"b1", "b2", "b3"}]),
            ("b", []),  # three children: nobody knows which two have records
            ("b1|b3", [{"b1"}, {"b3"}]),
            (None, []),
        ],
    )
    def test_what_follows_from_a_minimal_word(self, word, parts):
        found = minimal_parts(word, frozenset(TREE.leaves), TREE)
        assert list(found) == [frozenset(part) for part in parts]

    def assessed(self, **options):
        draw = np.random.default_rng(1)
        table = {
            "x": draw.normal(size=400),
            "y": draw.normal(size=400),
            "zip": [f"{one:02d}" for one in draw.integers(0, 64, 400)],
        }
        schema = sf.Schema.for_table(
            Table.from_arrow(pa.table(table)),
            {"x": "quasi", "y": "quasi", "zip": {"role": "quasi", "tree": "prefix"}},
        )
        return sf.release_and_assess(sf.Boxes(k=5, **options), table, schema=schema, seed=1).assessment

    def score(self, **options):
        return self.assessed(**options)["generalized cells undone"]

    def test_ranges_that_are_shrunk_to_their_records_are_undone_at_both_ends(self):
        score = self.score()
        assert score.value > 0.3  # two of five to nine records of a box
        assert score.gain > 0.25

    def test_minimal_nodes_of_a_tree_give_something_and_faces_between_records_less(self):
        tree, cells = self.score(categories="tree"), self.score(categories="tree", edges="cells")
        assert tree.value > 0.2
        assert cells.value < 0.3 * tree.value
        assert cells.gain == 0.0

    def test_lowest_nodes_with_two_children_have_records_below_both(self, tmp_path):
        """Only categories, each with a tree of three levels of two: what is undone comes from the nodes."""
        lines = [f"{leaf};{leaf // 2}-2;{leaf // 4}-4;*" for leaf in range(8)]
        (tmp_path / "tree.csv").write_text("\n".join(lines), encoding="utf-8")
        draw = np.random.default_rng(2)
        table = {name: draw.integers(0, 8, 300).astype(str) for name in "abc"}
        role = {"role": "quasi", "tree": str(tmp_path / "tree.csv")}
        schema = sf.Schema.for_table(Table.from_arrow(pa.table(table)), dict.fromkeys("abc", role))
        made = sf.release_and_assess(sf.Boxes(k=5, categories="tree"), table, schema=schema, seed=1)
        score = made.assessment["generalized cells undone"]
        assert score.value > 0.2
        assert score.gain > 0.15

    def test_hulls_by_hand(self):
        original = Table.from_arrow(pa.table({"x": [1.0, 2.0, 4.0, 8.0]}))
        labels = pa.array([0, 0, 1, 1])
        hull = Table.from_arrow(
            pa.table({"x_low": [1.0, 1.0, 4.0, 4.0], "x_high": [2.0, 2.0, 8.0, 8.0], "box": labels})
        )
        found = downcode(original, hull, np.arange(4), ("x",), {})
        assert (found.cells, found.statements, found.true) == (4, 4, 4)
        cell = Table.from_arrow(
            pa.table({"x_low": [0.0, 0.0, 3.0, 3.0], "x_high": [3.0, 3.0, 8.0, 8.0], "box": labels})
        )
        found = downcode(original, cell, np.arange(4), ("x",), {})
        assert (found.cells, found.statements, found.true) == (4, 4, 1)

    def test_numbers_that_were_recoded_by_a_tree_are_attacked_as_words(self):
        tree = Tree.of([("1", "1–2", "*"), ("2", "1–2", "*"), ("3", "3–4", "*"), ("4", "3–4", "*")])
        original = Table.from_arrow(pa.table({"x": [1, 2, 3, 3]}))
        released = Table.from_arrow(pa.table({"x": ["1–2", "1–2", "3–4", "3–4"]}))
        found = downcode(original, released, np.arange(4), ("x",), {"x": tree})
        assert (found.cells, found.statements, found.true) == (4, 4, 3)

    def test_a_recoding_of_the_whole_column_is_not_minimal(self):
        draw = np.random.default_rng(3)
        values = np.array(["a1", "a2"])[(draw.random(40) < 0.02).astype(int)]
        group = np.repeat([f"g{one}" for one in range(20)], 2)
        original = Table.from_arrow(pa.table({"q": values, "g": group}))
        released = Table.from_arrow(pa.table({"q": ["a"] * 40, "g": group}))
        found = downcode(original, released, np.arange(40), ("q", "g"), {"q": TREE})
        assert found.cells == 40
        assert found.true <= 0.6 * found.statements
