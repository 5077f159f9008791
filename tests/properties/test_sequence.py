"""Over all releases of a ledger, everybody keeps k candidates with l values.

The twin keeps a set of people for each person and takes from it, release after release, whoever is not in her group.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import CannotRelease, OptionError, ReadError, SchemaError, TableError
from sfumato.plan.claims.sequence import GroupsOfPeople, GroupsOfRows
from sfumato.plan.earlier_releases import ABSENT, EarlierReleases, find_candidates
from sfumato.table.groups import KeyedGroups

ROLES = {"who": "person", "x": "quasi", "y": "quasi", "s": "sensitive", "row": "other"}
PEOPLE = 120


def people(count: int, seed: int = 0) -> dict[str, Any]:
    """The first people of a population; each has the same cells whenever she is in a table."""
    draw = np.random.default_rng(seed)
    every = {
        "who": np.array([f"person {one}" for one in range(PEOPLE)]),
        "x": draw.integers(0, 50, PEOPLE).astype(float),
        "y": draw.lognormal(3.0, 1.0, PEOPLE).round(1),
        "s": draw.choice(["u", "v", "w", "z"], PEOPLE),
        "row": draw.permutation(PEOPLE) + 0.5,
    }
    return {name: cells[:count] for name, cells in every.items()}


def members(release: sf.Release, table: dict[str, Any]) -> list[set[str]]:
    """Return the people of each released group, straight from the released cells."""
    cells, by_row = release.to_arrow().to_pydict(), dict(zip(table["row"], table["who"], strict=True))
    shown = [name for name in cells if name not in ("row", "s")]
    groups = defaultdict(set)
    for place, row in enumerate(cells["row"]):
        groups[tuple(str(cells[name][place]) for name in shown)].add(str(by_row[row]))
    return list(groups.values())


def left_over(releases: list[list[set[str]]]) -> dict[str, set[str]]:
    """Return who is left of the candidates of each person, one release after the other."""
    left: dict[str, set[str]] = {}
    for groups in releases:
        for group in groups:
            for person in group:
                left[person] = left.get(person, group) & group
    return left


def release(table: dict[str, Any], folder: Path, name: str, **options: Any) -> sf.Release:
    with warnings.catch_warnings(action="ignore"):
        method = sf.Boxes(**{"k": 4, **options})
        return method.release(table, schema=ROLES, ledger=folder / "ward.ledger", into=folder / name, seed=1)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 5), st.integers(1, 8))
def test_candidates_are_those_of_the_twin(seed, count, releases, groups):
    draw = np.random.default_rng(seed)
    table = draw.integers(0, groups, (count, releases))
    table[draw.random(table.shape) < 0.3] = ABSENT
    values = draw.integers(0, 3, (count, 2))
    found = find_candidates(table, values)
    for person, history in enumerate(table):
        fits = [
            other
            for other, theirs in enumerate(table)
            if (theirs[history != ABSENT] == history[history != ABSENT]).all()
        ]
        assert found.people[person] == len(fits)
        assert found.values[person].tolist() == [len(set(values[fits, column])) for column in range(2)]


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32 - 1), st.lists(st.tuples(st.integers(0, 25), st.sampled_from([3, 4, 6])), max_size=3))
def test_people_who_are_added_leave_everybody_with_k_candidates(tmp_path_factory, seed, later):
    folder, count, seen, least = tmp_path_factory.mktemp("ward"), 40, [], {}
    for year, (added, k) in enumerate([(0, 4), *later]):
        count += added
        table = people(count, seed)
        seen.append(members(release(table, folder, f"year {year}", k=k), table))
        least |= {str(person): min(least.get(str(person), k), k) for person in table["who"]}
    values = dict(zip(table["who"], table["s"], strict=True))
    for person, candidates in left_over(seen).items():
        assert len(candidates) >= least[person]
        assert len({values[one] for one in candidates}) >= 2


def test_a_smaller_k_than_was_promised_before_is_warned_of(tmp_path):
    table, kept = people(PEOPLE), {"schema": ROLES, "ledger": tmp_path / "ward.ledger", "seed": 1}
    release(table, tmp_path, "first", k=6)
    with pytest.warns(sf.SfumatoWarning, match="promised more than 4 people to 120"):
        sf.Boxes(k=4).release(table, into=tmp_path / "second", **kept)
    with warnings.catch_warnings(record=True, action="always") as said:  # control: the same k as before
        sf.Boxes(k=4).release(table, into=tmp_path / "third", **kept)
    assert not any("promised more" in str(one.message) for one in said)


def test_releases_that_know_nothing_of_each_other_leave_people_alone():
    """Control: the same without a ledger."""
    with warnings.catch_warnings(action="ignore"):
        table = people(PEOPLE)
        made = [sf.Boxes(k=k).release(table, schema=ROLES, seed=1) for k in (4, 6)]
    left = left_over([members(one, table) for one in made])
    assert min(map(len, left.values())) < 4
    measured = sf.compose(made)
    assert measured.fewest_candidates == min(map(len, left.values()))
    assert measured.below == sum(len(candidates) < 4 for candidates in left.values())
    assert measured.linked == PEOPLE
    assert not measured.held


def test_boxes_of_units_are_about_as_narrow_as_fresh_ones(tmp_path):
    draw = np.random.default_rng(3)
    table = {
        "who": np.arange(1200).astype(str),
        "x": draw.random(1200),
        "y": draw.random(1200),
        "s": draw.choice(["u", "v", "w", "z"], 1200),
        "row": draw.permutation(1200) + 0.5,
    }
    seen = []
    for year, (count, k) in enumerate([(1000, 4), (1100, 8), (1200, 4)]):
        some = {name: cells[:count] for name, cells in table.items()}
        made = release(some, tmp_path, f"year {year}", k=k).to_pandas()
        fresh = sf.Boxes(k=k).release(some, schema=ROLES, seed=1).to_pandas()
        ratios = [
            (made[f"{name}_high"] - made[f"{name}_low"]).mean() / (fresh[f"{name}_high"] - fresh[f"{name}_low"]).mean()
            for name in ("x", "y")
        ]
        seen.append(np.mean(ratios))
    assert np.median(seen) < 1.2
    assert max(seen) < 1.4


def held_back(groups, values, seed):
    """Return the histories of the people who are held back, with k = 3 and l = 2."""
    none = np.zeros(len(groups), dtype=bool)
    table = EarlierReleases(
        person="who",
        people=np.arange(len(none), dtype=np.uint64),
        groups=groups,
        needed=np.full(len(none), 3),
        values=values[:, None],
        k=3,
        l=2,
        are_held_back=none,
        are_repeated=False,
    )
    held = table.hold_back(seed.to_bytes(16, "little")).are_held_back
    return {tuple(one) for one in groups[held].tolist()}


def test_neither_the_order_of_rows_nor_the_numbers_of_boxes_tell_who_is_new(tmp_path):
    made = []
    for year, count in enumerate((90, PEOPLE)):
        with warnings.catch_warnings(action="ignore"):  # without a seed, as in earnest
            given = {"schema": ROLES, "ledger": tmp_path / "ward.ledger", "into": tmp_path / str(year)}
            made.append(sf.Boxes(k=4).release(people(count), **given).to_pandas())
    new = ~made[1].row.isin(made[0].row)

    def surprise(order):
        """How far the mean place of new people is from that of all, in standard errors."""
        places = np.argsort(np.argsort(order, kind="stable"))
        return abs(places[new].mean() - places.mean()) / (PEOPLE * np.sqrt((1 - new.mean()) / (12.0 * new.sum())))

    assert surprise(np.arange(PEOPLE)) < 4.0
    assert surprise(np.where(new, 1, 0)) > 6.0  # the control: new people come last
    both = made[0].merge(made[1], on="row")
    assert abs(np.corrcoef(both.box_x, both.box_y)[0, 1]) < 0.8


class TestPeopleWhoLeave:
    def test_the_rest_of_their_groups_is_refused_and_nothing_is_written(self, tmp_path):
        release(people(PEOPLE), tmp_path, "first")
        before = (tmp_path / "ward.ledger").read_bytes()
        fewer = {name: cells[5:] for name, cells in people(PEOPLE).items()}
        with pytest.raises(CannotRelease, match="only with fewer"):
            release(fewer, tmp_path, "second")
        assert not (tmp_path / "second").exists()
        assert (tmp_path / "ward.ledger").read_bytes() == before

    def test_or_held_back_within_the_share_that_may_be_suppressed(self, tmp_path):
        first = members(release(people(PEOPLE), tmp_path, "first"), people(PEOPLE))
        fewer = {name: cells[2:] for name, cells in people(PEOPLE).items()}
        second = members(release(fewer, tmp_path, "second", suppress=0.4), people(PEOPLE))
        assert min(map(len, left_over([first, second]).values())) >= 4

    def test_slack_lets_people_leave(self, tmp_path):
        first = members(release(people(PEOPLE), tmp_path, "first", slack=2), people(PEOPLE))
        assert min(map(len, first)) >= 6
        fewer = {name: cells[2:] for name, cells in people(PEOPLE).items()}
        second = members(release(fewer, tmp_path, "second"), people(PEOPLE))
        assert min(map(len, left_over([first, second]).values())) >= 4

    @pytest.mark.parametrize("seed", range(3))
    def test_they_may_leave_if_only_values_are_kept(self, tmp_path, seed):
        whole = people(PEOPLE, seed)
        values = dict(zip(whole["who"], whole["s"], strict=True))
        fewer = {name: cells[12:] for name, cells in whole.items()}
        first = members(release(whole, tmp_path, "first", l=2, sequence="values"), whole)
        second = release(fewer, tmp_path, "second", l=2, sequence="values", suppress=0.1)
        here = members(second, whole)
        left = left_over([first, here])
        stay = {person: left[person] for person in set().union(*here)}
        assert min(map(len, here)) >= 4
        assert min(map(len, stay.values())) < 4  # the control: those who fit both releases are fewer than k
        assert min(len({values[one] for one in fits}) for fits in stay.values()) >= 2
        assert any("2 people and 2 values of s fit" in finding.claim for finding in second.findings)

    @given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.integers(0, 3))
    def test_missing_rows_do_not_tell_whose_values_became_equal(self, seed, alike, few):
        """Ten groups of four: some have one value left, some have lost two people; as many others go with the first."""
        groups = np.repeat(np.arange(10), 4)
        values = np.tile(np.arange(4), 10)
        values[groups < alike] = 0
        stays = ~((groups >= 10 - few) & (np.arange(40) % 4 < 2))
        held = held_back(groups[stays, None], values[stays], seed)
        assert held >= {(one,) for one in (*range(alike), *range(10 - few, 10))}
        assert len(held) == min(2 * alike, 10 - few) + few

    def test_a_pair_of_missing_sets_does_not_tell_which_has_equal_values(self):
        """26 groups of four and 4 of nine: small ones go with a large one as often as the large one with each of them.

        For each pair, one of which lacks values, the other must be as likely to be its decoy as the other way round.
        """
        sizes = np.where(np.arange(30) < 4, 9, 4)
        groups, tries = np.repeat(np.arange(30), sizes), 400

        def count_others(alike, are_large):
            values = np.where(groups == alike, 0, np.arange(len(groups)) % 4)
            held = [held_back(groups[:, None], values, seed) for seed in range(tries)]
            assert all(len(one) == 2 for one in held)
            return sum((group < 4) is are_large for one in held for (group,) in one if group != alike)

        def is_symmetric(small, large):
            return abs(small / 26 - large / 4) < 5.0

        assert is_symmetric(count_others(0, False), count_others(29, True))
        assert not is_symmetric(tries, 0)  # the control: a rule that always takes small ones

    def test_a_second_release_does_not_tell_them_apart(self):
        """The set whose values are equal, and its decoy, are missing again while others return."""
        groups = np.column_stack([np.repeat(np.arange(20), 4), np.repeat(np.arange(20), 4)])
        values = np.where(groups[:, 0] == 3, 0, np.arange(80) % 4)
        for seed in range(30):
            first = {one for (one,) in held_back(groups[:, :1], values, seed)}
            later = np.where(np.isin(groups, list(first)), ABSENT, groups)
            later[:, 0] = groups[:, 0]
            returned = groups[:, 0] == max(set(range(20)) - first)  # people who were away in the last release
            later[returned, 1] = ABSENT
            again = {one[0] for one in held_back(later, values, seed)}
            assert 3 in first & again
            assert len(first) == len(again) == 2
            assert first == again or again == {3, max(set(range(20)) - first)}

    def test_values_are_kept_over_releases_only_where_each_has_several(self, tmp_path):
        with pytest.raises(OptionError, match="at least two in every group"):
            release(people(PEOPLE), tmp_path, "first", l=1, sequence="values")
        assert not list(tmp_path.iterdir())

    def test_the_refusal_says_what_would_help(self, tmp_path):
        release(people(PEOPLE), tmp_path, "first")
        fewer = {name: cells[1:] for name, cells in people(PEOPLE).items()}
        with pytest.raises(CannotRelease, match=r"suppress=0\.\d+ for boxes.*promise k=3"):
            release(fewer, tmp_path, "second")
        release(fewer, tmp_path, "second", k=3)


class TestSeveralRowsOfAPerson:
    def visits(self, count: int) -> dict[str, Any]:
        """Everybody has one to three rows with different cells."""
        table, draw = people(count), np.random.default_rng(4)
        rows = np.repeat(np.arange(PEOPLE), draw.integers(1, 4, PEOPLE))
        rows = rows[rows < count]
        moved = draw.integers(-3, 4, len(rows))
        return {name: cells[rows] for name, cells in table.items()} | {
            "x": table["x"][rows] + moved,
            "row": np.arange(len(rows)) + 0.5,
        }

    def test_candidates_share_the_groups_of_all_rows(self, tmp_path):
        seen = []
        for year, (count, k) in enumerate([(90, 4), (100, 4), (PEOPLE, 6)]):
            table = self.visits(count)
            seen.append(members(release(table, tmp_path, f"year {year}", k=k), table))
        assert min(map(len, left_over(seen).values())) >= 4

    def test_rows_in_several_groups_count_together(self):
        """A twin of two people who share one group, but not the other: neither is a candidate of the other."""
        keys = KeyedGroups.of_keys(np.array([[1], [2], [1], [3], [1], [2]], dtype=np.uint64))
        who, nothing = np.array([7, 7, 8, 8, 9, 9], dtype=np.uint64), np.zeros((6, 0), dtype=np.uint64)
        told = GroupsOfPeople.of(GroupsOfRows(who, keys, nothing), 2)
        assert told.groups[0] == told.groups[2] != told.groups[1]

    @pytest.mark.parametrize("seed", range(6))
    def test_rows_with_different_values_are_released(self, tmp_path, seed):
        """Two people who have two values between them have one each, whichever value of theirs is the rarest."""
        table = self.visits(PEOPLE)
        table["s"] = np.random.default_rng(seed).choice(["u", "v", "w"], len(table["s"]), p=[0.6, 0.3, 0.1])
        assert release(table, tmp_path, "out").table.rows == len(table["s"])

    @given(st.integers(0, 2**32 - 1), st.integers(1, 12))
    def test_two_values_of_two_people_are_those_of_the_twin(self, seed, rows):
        draw = np.random.default_rng(seed)
        who, value = draw.integers(0, 4, rows), draw.integers(0, 3, rows)
        keys = KeyedGroups.of_keys(np.zeros((rows, 1), dtype=np.uint64))
        told = GroupsOfPeople.of(GroupsOfRows(who.astype(np.uint64), keys, value[:, None].astype(np.uint64)), 2)
        found = find_candidates(told.groups[:, None], told.values).values.min() >= 2
        pairs = list(zip(who, value, strict=True))
        assert found == any(one != other and s != t for one, s in pairs for other, t in pairs)


class TestWhatSeveralReleasesTell:
    def test_new_people_are_exposed_to_an_intruder_who_knows_that_they_are_new(self, tmp_path):
        """The twin subtracts the values of last year's rows; control: the same people twice, of whom nobody is new."""
        made = [release(people(count), tmp_path, f"year {count}") for count in (90, 100)]
        old, values = set(people(90)["row"]), dict(zip(people(PEOPLE)["row"], people(PEOPLE)["s"], strict=True))
        boxes = defaultdict(list)
        for row, box in zip(*(made[1].to_arrow().column(name).to_pylist() for name in ("row", "box")), strict=True):
            if row not in old:
                boxes[box].append(values[row])
        alone = sum(len(new) for new in boxes.values() if len(set(new)) == 1)
        assert sf.compose(made).subtracted == alone > 0
        assert sf.compose([made[0], made[0]]).subtracted == 0

    def test_an_assessment_says_it(self, tmp_path):
        table = people(PEOPLE)
        with warnings.catch_warnings(action="ignore"):
            made = [sf.Boxes(k=k).release(table, schema=ROLES, seed=1) for k in (4, 6)]
            made[0].write(tmp_path / "first")
            found = sf.assess(table, made[1], earlier=[tmp_path / "first"], measures=["copies"], seed=1)
            same = sf.assess(table, made[1], earlier=[made[1]], measures=["copies"], seed=1)
        fewest = found["people who fit all releases, fewest"]
        assert fewest.value == sf.compose(made).fewest_candidates < 4
        assert fewest.passed is False
        assert same["people who fit all releases, fewest"].passed is True


class TestWhileReleasing:
    """Releases that were given away before are part of the assessment, the report and the decision to write."""

    @pytest.fixture
    def first(self, tmp_path):
        return sf.Boxes(k=4).release(people(PEOPLE), schema=ROLES, seed=1).write(tmp_path / "first")

    @pytest.mark.parametrize("engine", ["memory", "duckdb"])
    def test_the_report_says_who_fits_all_of_them(self, tmp_path, first, engine):
        made = sf.release_and_assess(
            sf.Boxes(k=6), people(PEOPLE), schema=ROLES, earlier=[first], into=tmp_path / "second", engine=engine
        )
        fewest = made.assessment["people who fit all releases, fewest"]
        assert fewest.value < 4
        assert fewest.passed is False
        assert "people who fit all releases" in (tmp_path / "second" / "report.html").read_text()

    def test_nothing_is_written_where_the_assessment_is_required(self, tmp_path, first):
        with pytest.raises(sf.SfumatoError, match="people who fit all releases"):
            sf.release_and_assess(
                sf.Boxes(k=6), people(PEOPLE), schema=ROLES, earlier=[first], into=tmp_path / "second", require=True
            )
        assert not (tmp_path / "second").exists()

    def test_a_comparison_counts_them_for_methods_that_make_groups(self, tmp_path, first):
        def compare(folder, **options):
            methods = [sf.Boxes(k=6), "noise"]
            wanted = {"strengths": 1, "schema": ROLES, "jobs": 1, "seed": 1} | options
            found = sf.compare(people(PEOPLE), methods, into=tmp_path / folder, **wanted)
            return [row.fewest_candidates for row in found.rows], (tmp_path / folder / "report.html").read_text()

        (boxes, noise), page = compare("map", earlier=[first])
        assert boxes < 4
        assert noise is None
        assert "Fit all releases" in page
        alone, page = compare("alone")
        assert alone == [None, None]
        assert "Fit all releases" not in page

    def test_a_changed_bundle_is_refused_before_any_work(self, tmp_path, first):
        rows = first / "released.csv"
        rows.write_text(rows.read_text().replace("1", "2", 1))
        with pytest.raises(ReadError, match="as they were written"):
            sf.release_and_assess(
                sf.Boxes(k=6), people(PEOPLE), schema=ROLES, earlier=[first], into=tmp_path / "second"
            )
        assert not (tmp_path / "second").exists()


def test_a_method_that_cuts_units_is_refused(tmp_path):
    release(people(PEOPLE), tmp_path, "first")
    with warnings.catch_warnings(action="ignore"), pytest.raises(sf.SfumatoError, match="boxes"):
        sf.Recode(k=4, kind="local").release(
            people(PEOPLE), schema=ROLES, ledger=tmp_path / "ward.ledger", into=tmp_path / "second", seed=1
        )
    assert not (tmp_path / "second").exists()


class TestTheFile:
    def test_only_its_owner_reads_it_and_it_names_nobody(self, tmp_path):
        release(people(PEOPLE), tmp_path, "first")
        for file in (tmp_path / "ward.ledger", tmp_path / "ward.ledger.key"):
            assert file.stat().st_mode & 0o077 == 0
            assert b"person " not in file.read_bytes()

    def test_a_release_that_fails_leaves_no_ledger(self, tmp_path):
        with pytest.raises(sf.SfumatoError):
            release(people(3), tmp_path, "first")
        assert list(tmp_path.iterdir()) == []

    def test_a_run_that_was_killed_before_the_bundle_was_there_does_not_count(self, tmp_path, monkeypatch):
        release(people(100), tmp_path, "first")
        before = (tmp_path / "ward.ledger").read_bytes()
        monkeypatch.setattr("sfumato.release.ledger.Path.unlink", lambda *_, **__: None)  # a killed run removes nothing
        with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patched:
            patched.setattr("sfumato.release.release.Release.write", _raise_interrupt)
            release(people(PEOPLE), tmp_path, "second")
        monkeypatch.undo()
        assert (tmp_path / "ward.ledger.next").exists()
        assert (tmp_path / "ward.ledger").read_bytes() == before
        release(people(PEOPLE), tmp_path, "second")
        assert not (tmp_path / "ward.ledger.next").exists()

    @pytest.mark.parametrize("damage", ["bytes", "mode", "key"])
    def test_a_damaged_or_readable_one_is_refused(self, tmp_path, damage):
        release(people(100), tmp_path, "first")
        file = tmp_path / "ward.ledger"
        if damage == "bytes":
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
        elif damage == "mode":
            file.chmod(0o644)
        else:
            (tmp_path / "ward.ledger.key").unlink()
        with pytest.raises(ReadError):
            release(people(PEOPLE), tmp_path, "second")
        assert not (tmp_path / "second").exists()

    def test_that_of_other_people_is_refused(self, tmp_path):
        release(people(100), tmp_path, "first")
        others = people(100) | {"who": np.array([f"somebody {one}" for one in range(100)])}
        with pytest.raises(CannotRelease, match="none of them"):
            release(others, tmp_path, "second")

    def test_rows_without_a_person_are_refused(self, tmp_path):
        table = people(100)
        named = [None if place == 1 else one for place, one in enumerate(table["who"].tolist())]
        with pytest.raises((TableError, SchemaError)):
            release(table | {"who": named}, tmp_path, "first")
        assert list(tmp_path.iterdir()) == []

    def test_it_needs_a_folder_and_the_memory(self, tmp_path):
        with pytest.raises(OptionError, match="written in one step"):
            sf.Boxes(k=4).release(people(50), schema=ROLES, ledger=tmp_path / "ward.ledger")


def _raise_interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt
