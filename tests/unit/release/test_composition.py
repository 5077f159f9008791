"""What several releases tell together, compared with all worlds that the released rows allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.plan.earlier_releases import ABSENT
from sfumato.release.composition import LinkedRows, count_candidates

Row = tuple[int, int, int]  # link, group, value
Person = dict[int, int]  # release → row


def worlds(releases: list[list[Row]], unique: set[int]) -> Iterator[list[Person]]:
    """Yield every way in which the rows can belong to people: one row of each release, all with the same link."""
    rows = [(release, row) for release, own in enumerate(releases) for row in range(len(own))]

    def extend(place: int, people: list[Person]) -> Iterator[list[Person]]:
        if place == len(rows):
            yield [dict(person) for person in people]
            return
        release, row = rows[place]
        link = releases[release][row][0]
        fitting = [p for p in people if release not in p and all(releases[t][r][0] == link for t, r in p.items())]
        for person in fitting:
            person[release] = row
            yield from extend(place + 1, people)
            del person[release]
        if link not in unique or not fitting:
            yield from extend(place + 1, [*people, {release: row}])

    return extend(0, [])


def brute_force(releases: list[list[Row]], possible: list[list[Person]], target: Person) -> tuple[int, bool]:
    """Return the most people who fit the target in a world, and whether a value is the same in all worlds."""
    most, seen = 0, {release: set() for release in target}
    for people in possible:
        groups = {release: releases[release][row][1] for release, row in target.items()}
        fitting = [p for p in people if all(t in p and releases[t][p[t]][1] == group for t, group in groups.items())]
        most = max(most, len(fitting))
        for release in target:
            seen[release] |= {releases[release][p[release]][2] for p in fitting}
    return most, any(len(values) == 1 for values in seen.values())


def link_rows(releases: list[list[Row]]) -> tuple[list[LinkedRows], set[int]]:
    links = {row[0] for own in releases for row in own}
    unique = {link for link in links if all(Counter(row[0] for row in own)[link] < 2 for own in releases)}
    person, made, next_person = {link: place for place, link in enumerate(sorted(unique))}, [], len(unique)
    for own in releases:
        people = []
        for link, _, _ in own:
            people.append(person[link] if link in unique else next_person)
            next_person += link not in unique
        cells = np.array(own, dtype=np.int64)
        ambiguous = np.array([link not in unique for link in cells[:, 0].tolist()])
        made.append(LinkedRows(np.array(people), cells[:, 0], ambiguous, cells[:, 1], cells[:, 2:]))
    return made, unique


def draw_release(draw: np.random.Generator, rows: int) -> list[Row]:
    links, others = draw.permutation(6)[:rows] // 2 * (1 + draw.integers(2)), draw.integers(0, 2, (rows, 2))
    return [(int(link), int(group), int(value)) for link, (group, value) in zip(links, others, strict=True)]


@pytest.mark.parametrize("seed", range(40))
def test_candidates_and_certain_values_are_those_of_all_worlds(seed: int) -> None:
    draw = np.random.default_rng(seed)
    count, size = ((2, 5), (3, 3))[seed % 2]
    releases = [draw_release(draw, size) for _ in range(count)]
    rows, unique = link_rows(releases)
    groups = np.full((max(int(one.person.max()) for one in rows) + 1, count), ABSENT, dtype=np.int64)
    for release, one in enumerate(rows):
        groups[one.person, release] = one.group
    found, possible = count_candidates(rows, groups), list(worlds(releases, unique))
    for person in range(len(groups)):
        target = {t: int(np.flatnonzero(one.person == person)[0]) for t, one in enumerate(rows) if person in one.person}
        assert (found.people[person], found.are_certain[person]) == brute_force(releases, possible, target)


def test_a_value_that_an_ambiguous_row_may_have_is_not_certain() -> None:
    """Two people cannot be told apart by their number; the others are linked."""
    numbers, values = [1.5, 2.5, 3.5, 9.5, 9.5, 4.5, 5.5, 6.5], ["a", "a", "a", "b", "b", "a", "b", "b"]
    made = []
    for order in ([1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]):
        table = pd.DataFrame({"x": order, "number": numbers, "s": values})
        roles = {"x": "quasi", "number": "other", "s": "sensitive"}
        made.append(sf.Boxes(k=3, l=2).release(table, schema=roles, seed=1))  # without a seed a cut may be undone
    found = sf.compose(made)
    assert found.revealed == 0
    assert found.fewest_candidates == 3
    assert found.linked == 6
