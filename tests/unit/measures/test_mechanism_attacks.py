"""Attacks that know how a release was made: each breaks what it should break, and fails where it should."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.job import assess as job_assess
from sfumato.measures.assess import take_measures
from sfumato.measures.measured_release import MeasuredRelease
from sfumato.measures.privacy.attacks import isolation, known_mechanism
from sfumato.measures.privacy.attacks.columnwise_groups import rows_left
from sfumato.measures.privacy.attacks.known_mechanism import MODELS, PersonMatches, Setting
from sfumato.methods.swap_kernels import rank_partners
from sfumato.randomness import Randomness
from sfumato.table.table import Table

pytestmark = pytest.mark.filterwarnings("ignore:A seed is a secret")


def columns(matrix: np.ndarray) -> dict[str, np.ndarray]:
    return {f"x{place}": matrix[:, place] for place in range(matrix.shape[1])}


def correlated(rows: int, width: int = 4, seed: int = 0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return columns(0.9 * draw.normal(size=(rows, 1)) + 0.5 * draw.normal(size=(rows, width)))


def categories(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {
        f"c{place}": draw.choice(list("abcdefgh"), rows, p=[0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05])
        for place in range(6)
    }


def subject_of(method, table, seed=1, reference=None) -> MeasuredRelease:
    """What an assessment measures: original, release and the origin of its rows."""
    seen = []

    def take(subject, *, manifest, **others):
        seen.append(subject)
        return take_measures(subject, measures=["moments"], manifest=manifest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(job_assess, "take_measures", take)
        names = table.names if isinstance(table, Table) else table
        sf.release_and_assess(method, table, schema=dict.fromkeys(names, "quasi"), reference=reference, seed=seed)
    return seen[0]


def assessed(method, table, measure, reference=None):
    """Release with a known origin and take one measure."""
    subject = subject_of(method, table, reference=reference)
    return take_measures(subject, measures=[measure], manifest=subject.manifest).scores


class TestIsolation:
    @given(st.integers(0, 10**6), st.sampled_from([1.5, 3.0, 10.0]), st.sampled_from([2, 5]))
    @settings(max_examples=40, deadline=None)
    def test_it_counts_people_in_the_ball(self, seed, c, t):
        draw = np.random.default_rng(seed)
        people, guesses = draw.integers(0, 6, (30, 2)).astype(float), draw.integers(0, 6, (20, 2)).astype(float)
        distance = np.sqrt(((guesses[:, None] - people) ** 2).sum(axis=2))
        inside = (distance <= c * distance.min(axis=1, keepdims=True)).sum(axis=1)
        assert isolation.isolated_share(guesses, people, c=c, t=t) == pytest.approx((inside < t).mean())

    def score(self, people, released, others, seed=1):
        (score,) = sf.assess(people, released, others, measures=["isolation"], seed=seed).scores
        return score

    @pytest.mark.parametrize("seed", range(3))
    def test_people_with_little_noise_are_isolated_and_other_people_are_not(self, seed):
        draw = np.random.default_rng(seed)
        people, others, fresh = (columns(draw.normal(size=(600, 5))) for _ in range(3))
        noisy = {name: people[name] + 0.1 * draw.normal(size=600) for name in people}
        found = self.score(people, noisy, others)
        assert found.passed is False
        assert found.gain > 0.3
        control = self.score(people, fresh, others)
        assert control.passed is True
        assert control.gain == 0.0
        assert "times the distance to the nearest" in found.note

    def test_rates_are_those_of_all_guesses(self):
        draw = np.random.default_rng(4)
        people, others, released = (draw.normal(size=(300, 3)) for _ in range(3))
        labels = np.arange(600)[None, :] < 300
        everyone = np.concatenate([people, others])
        near = isolation.nearest(released, everyone, 48)
        counted = isolation._isolated(near.distance, near.index, labels)[0]
        for place, (c, t) in enumerate(isolation.ATTEMPTS):
            shares = [isolation.isolated_share(released, side, c=c, t=t) for side in (people, others)]
            assert counted[place] / 300 == pytest.approx(shares)

    def test_samples_of_other_people_seldom_fail(self):
        draw = np.random.default_rng(9)
        failed = 0
        for seed in range(12):
            people, others, fresh = (columns(np.exp(draw.normal(size=(120, 3)))) for _ in range(3))
            failed += self.score(people, fresh, others, seed).p_value <= 0.05
        assert failed <= 3


METHODS = [
    sf.Noise(level=0.5),
    sf.Noise(level=0.5, kind="uncorrelated"),
    sf.Noise(level=0.5, correct=False),
    sf.Noise(level=0.5, kind="normal-scores"),
    sf.Noise(level=0.5, kind="mixture"),
    sf.Swap(window=0.2),
    sf.Swap(window=0.2, share=0.5),
]
MATCHED = "correct matches by the known mechanism"
BELIEVED = "probability of the true row, mean"


def setting_of(method, table, seed=1) -> tuple[Setting, np.ndarray]:
    """A release as the intruder of a known mechanism sees it, and which row is whose."""
    subject = subject_of(method, table, seed)
    targets = np.arange(subject.original.rows)
    own = subject.origin[None, :] == targets[:, None]
    return Setting(subject, targets, subject.manifest.options, subject.manifest.notes), own


class TestKnownMechanism:
    @pytest.mark.parametrize("method", METHODS, ids=str)
    def test_it_is_not_weaker_than_the_nearest_row_where_its_model_is_right(self, method):
        hits = nearest = people = 0.0
        for seed in range(3):
            setting, own = setting_of(method, correlated(300, seed=seed), seed)
            logs = MODELS[method.name](setting)
            hits += PersonMatches.of(logs.given - logs.of_rows, own).hits.sum()
            nearest += known_mechanism._nearest_hits(setting.subject, setting.targets, own).sum()
            people += len(own)
        assert hits >= nearest - 2.0 * np.sqrt(people * 0.25) * 0.5
        assert hits > 20.0 * 3  # of one in 300 by chance: 3

    def test_correlated_noise_and_swapped_ranks_are_undone_far_better_than_by_distance(self):
        for method in (METHODS[0], METHODS[5]):
            setting, own = setting_of(method, correlated(400, 8))
            logs = MODELS[method.name](setting)
            nearest = known_mechanism._nearest_hits(setting.subject, setting.targets, own).mean()
            assert PersonMatches.of(logs.given - logs.of_rows, own).hits.mean() > 1.3 * nearest

    @pytest.mark.parametrize("method", [METHODS[0], METHODS[1], METHODS[2], METHODS[5]], ids=str)
    def test_its_probabilities_are_true_frequencies(self, method):
        """The mean of the largest posteriors is the share of correct matches, if the model is right."""
        setting, own = setting_of(method, correlated(500, seed=3))
        logs = MODELS[method.name](setting)
        ratio = logs.given - logs.of_rows
        weights = np.exp(ratio - ratio.max(axis=1, keepdims=True))
        claimed = (weights.max(axis=1) / weights.sum(axis=1)).mean()
        assert claimed == pytest.approx(PersonMatches.of(ratio, own).hits.mean(), abs=0.08)

    def test_changed_categories_by_hand(self):
        """keep = ½ and three values: the posterior of each row is p(y|x)/p(y), over all rows."""
        table = {"c": ["a"] * 5 + ["b"] * 3 + ["c"] * 2}
        setting, _ = setting_of(sf.Pram(keep=0.5), table)
        logs = MODELS["pram"](setting)
        shown = np.array(setting.subject.released.arrow.column("c").to_pylist())
        for person, value in enumerate(table["c"]):
            for row, cell in enumerate(shown):
                share = (shown == cell).mean()
                assert np.exp(logs.given[person, row]) == pytest.approx(0.5 * (value == cell) + 0.5 * share)
                assert np.exp(logs.of_rows[row]) == pytest.approx(share)

    def test_a_matrix_of_the_manifest_is_used(self):
        table = {"c": ["a"] * 60 + ["b"] * 60}
        matrix = {"c": {"a": {"a": 0.9, "b": 0.1}}}
        setting, _ = setting_of(sf.Pram(matrix=matrix), table, seed=5)
        logs = MODELS["pram"](setting)
        shown = np.array(setting.subject.released.arrow.column("c").to_pylist())
        assert np.exp(logs.given[0]) == pytest.approx(np.where(shown == "a", 0.9, 0.1))
        assert (logs.given[-1][shown == "a"] == known_mechanism.IMPOSSIBLE).all()  # b is always kept

    @given(st.lists(st.integers(0, 5), min_size=8, max_size=40), st.integers(1, 5))
    @settings(max_examples=40, deadline=None)
    def test_moved_ranks_are_summed_over_all_rows_with_a_value(self, values, window):
        rows = np.unique(values, return_inverse=True)[1]
        moves = np.random.default_rng(len(values)).dirichlet(np.ones(window + 1))
        moves[1:] /= 2.0
        ranked = np.sort(rows)
        logs = known_mechanism._moved("x", rows, rows, moves)
        for person in range(0, len(rows), 5):
            for row in range(0, len(rows), 3):
                ours, theirs = np.flatnonzero(ranked == rows[person]), np.flatnonzero(ranked == rows[row])
                steps = np.abs(ours[:, None] - theirs)
                chance = np.where(steps <= window, moves[np.minimum(steps, window)], 0.0).sum() / len(ours)
                assert np.exp(logs.given[person, row]) == pytest.approx(chance, abs=1e-6)

    def test_moves_are_those_of_the_procedure(self):
        moves = known_mechanism._moves(400, 40, 0.5, np.random.default_rng(0))
        assert moves[0] + 2.0 * moves[1:].sum() == pytest.approx(1.0)
        assert moves[0] == pytest.approx(0.5, abs=0.02)
        partner = rank_partners(np.random.default_rng(1).random(400), 40)
        assert np.abs(partner - np.arange(400)).max() == 40 == len(moves) - 1

    def test_scores_name_columns_chance_and_the_nearest_row(self):
        found = {one.name: one for one in assessed(METHODS[0], correlated(300), "known-mechanism")}
        assert found[MATCHED].gain == found[MATCHED].low > 0.05
        assert "x0, x1, x2, x3" in found[MATCHED].note
        assert "by the nearest row" in found[MATCHED].note
        assert 0.0 < found[BELIEVED].low < found[BELIEVED].value < found[BELIEVED].high < 1.0

    def test_it_finds_nobody_among_other_peoples_rows(self):
        setting, own = setting_of(METHODS[5], correlated(300))
        logs = MODELS["swap"](setting)
        wrong = np.random.default_rng(0).permutation(own)
        assert PersonMatches.of(logs.given - logs.of_rows, wrong).hits.mean() < 0.03
        assert PersonMatches.of(logs.given - logs.of_rows, wrong).belief.mean() < 0.03

    @pytest.mark.parametrize("method", [sf.Swap(kind="plain"), sf.Synthesize(), sf.Boxes(k=5)], ids=str)
    def test_methods_without_such_a_mechanism_have_no_score(self, method):
        assert not assessed(method, correlated(200), "known-mechanism")

    def test_categories_and_missing_cells_with_noise_are_compared(self):
        draw = np.random.default_rng(2)
        table = correlated(300) | categories(300)
        table["x0"] = np.where(draw.random(300) < 0.1, np.nan, table["x0"])
        table["whole"] = draw.integers(0, 50, 300)
        for kind in ("correlated", "uncorrelated", "normal-scores"):
            score, _ = assessed(sf.Noise(level=0.5, kind=kind), table, "known-mechanism")
            assert score.value > 0.3
            assert "and 6 more" in score.note


NAME = "people re-identified from columnwise groups"


class TestColumnwiseGroups:
    @given(
        st.lists(
            st.tuples(st.integers(0, 9), st.one_of(st.none(), st.floats(-3, 3, width=16))), min_size=8, max_size=40
        ),
        st.integers(2, 4),
        st.sampled_from(["each-column", "optimal-1d"]),
        st.sampled_from(["mean", "median"]),
    )
    @settings(max_examples=60, deadline=None)
    def test_the_own_row_is_always_left(self, cells, k, kind, values):
        table = Table.from_arrow(
            pa.table(
                {"a": pa.array([a for a, _ in cells], pa.int64()), "b": pa.array([b for _, b in cells], pa.float64())}
            )
        )
        method = sf.Microaggregate(k=k, kind=kind, values=values)
        subject = subject_of(method, table)
        names = tuple(name for name in table.names if table.kinds[name].is_numeric)
        own = subject.origin[None, :] == np.arange(table.rows)[:, None]
        found = rows_left(table, subject.released, names, own)
        assert found.with_own.all()

    @pytest.mark.parametrize("kind", ["each-column", "optimal-1d"])
    def test_columns_together_re_identify_and_one_column_does_not(self, kind):
        draw = np.random.default_rng(1)
        people, others = (columns(draw.normal(size=(500, 6))) for _ in range(2))
        (score,) = assessed(sf.Microaggregate(k=10, kind=kind), people, "columnwise-groups", others)
        assert score.value > 0.95
        assert score.gain == score.low
        assert "of people outside the table" in score.note
        (score,) = assessed(sf.Microaggregate(k=10, kind=kind), {"x0": people["x0"]}, "columnwise-groups")
        assert score.value == 0.0

    @pytest.mark.parametrize(
        "method", [sf.Microaggregate(k=5), sf.Microaggregate(k=5, kind="each-column", values="draw")], ids=str
    )
    def test_groups_of_rows_and_exchanged_values_have_no_score(self, method):
        assert not assessed(method, correlated(200), "columnwise-groups")


PREDICTED = "suppressed cells predicted"


class TestImputation:
    def assessed(self, related: bool, others=True):
        """Rows with a town and its region; the region of some rows is hidden."""
        draw = np.random.default_rng(3)

        def people(rows):
            town = draw.integers(0, 12, rows)
            region = np.array(list("nsew"))[town % 4 if related else draw.integers(0, 4, rows)]
            return {"town": [f"t{one}" for one in town], "region": region.tolist(), "age": draw.integers(20, 60, rows)}

        table, outside = people(600), people(600)
        shown = [None if lost else cell for cell, lost in zip(table["region"], draw.random(600) < 0.2, strict=True)]
        released = table | {"region": shown}
        found = sf.assess(
            table,
            released,
            outside if others else None,
            measures=["imputation"],
            origin=np.arange(600),
            seed=1,
        )
        return found.scores[0]

    def test_a_column_that_follows_from_others_is_predicted_without_being_a_disclosure_of_participants(self):
        alone, compared = self.assessed(True, others=False), self.assessed(True)
        assert alone.value > 0.95
        assert alone.gain > 0.8
        assert compared.gain == 0.0  # people who never took part are predicted as well
        assert "most frequent value" in alone.note and "people outside" in compared.note

    def test_a_column_that_depends_on_nothing_is_not_predicted(self):
        score = self.assessed(False)
        assert score.value < 0.4
        assert score.gain == 0.0

    def test_nothing_suppressed_gives_no_score(self):
        table = correlated(50)
        assert not sf.assess(table, table, measures=["imputation"], origin=np.arange(50), seed=1).scores

    def test_participants_are_disclosed_if_their_rows_tell_what_those_of_others_do_not(self):
        """A sensitive code that only the release reveals: people outside follow another rule."""
        draw = np.random.default_rng(5)
        town = draw.integers(0, 6, 500)
        table = {"town": [f"t{one}" for one in town], "ill": np.array(list("abc"))[town % 3].tolist()}
        outside = {"town": table["town"], "ill": np.array(list("abc"))[draw.integers(0, 3, 500)].tolist()}
        released = table | {"ill": [None if one % 5 == 0 else cell for one, cell in enumerate(table["ill"])]}
        found = sf.assess(table, released, outside, measures=["imputation"], origin=np.arange(500), seed=1).scores[0]
        assert found.gain > 0.8


def test_every_new_attack_is_part_of_an_assessment(original, reference):
    subject = MeasuredRelease(original=original, released=original, reference=reference, randomness=Randomness(1))
    assert subject.knows == {}
    table = original.select(["height", "weight", "income", "age"])
    names = {
        score.name
        for score in sf.release_and_assess(
            sf.Microaggregate(k=5, kind="each-column"),
            table,
            schema=dict.fromkeys(table.names, "quasi"),
            reference=reference,
            seed=1,
        ).assessment.scores
    }
    assert {"isolation", NAME} <= names
