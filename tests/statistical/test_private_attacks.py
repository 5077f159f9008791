"""Three attacks that succeed on k-anonymous boxes fail on differentially private releases of the same people.

Downcoding says that somebody is at each end of a range. Composition intersects what several releases leave possible for
a person. Membership says that a person took part because the release is near. Each is run on people who took part and,
where that is the question, on others of the same population: what is right for these as often tells nothing.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sfumato as sf

PEOPLE, VALUES = 600, 12
SCHEMA = {
    "x": {"role": "quasi", "domain": [0, 100]},
    "y": {"role": "quasi", "domain": [0, 100]},
    "illness": {"role": "sensitive", "order": [f"v{place:02}" for place in range(VALUES)]},
}


def draw_people(seed: int) -> pd.DataFrame:
    """Draw people whose illness has nothing to do with what else is known of them."""
    draw = np.random.default_rng(seed)
    x = np.clip(draw.normal(50, 18, PEOPLE), 0, 100)
    y = np.clip(0.7 * x + draw.normal(15, 8, PEOPLE), 0, 100)
    return pd.DataFrame({"x": x, "y": y, "illness": draw.choice(SCHEMA["illness"]["order"], PEOPLE)})


@pytest.fixture(scope="module")
def members() -> pd.DataFrame:
    return draw_people(1)


@pytest.fixture(scope="module")
def outsiders() -> pd.DataFrame:
    return draw_people(2)


PRIVATE = {"private-boxes": sf.PrivateBoxes(epsilon=1.0), "private-synthesis": sf.PrivateSynthesis(epsilon=1.0)}


def ranges(release) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of x and y of each released row; a row of exact cells is a range of width 0."""
    frame = release.to_pandas()
    names = [(f"{name}_low", f"{name}_high") if f"{name}_low" in frame else (name, name) for name in "xy"]
    return tuple(frame[[pair[end] for pair in names]].to_numpy(dtype=float) for end in (0, 1))


def share_of_true_ends(release, people: pd.DataFrame) -> float:
    """Return how often somebody in the box really has the number at an end of a range: downcoding.

    The ends of a declared domain are left out: everybody knows them.
    """
    low, high = ranges(release)
    boxes = np.unique(np.hstack([low, high]), axis=0)
    points = people[["x", "y"]].to_numpy()
    right = said = 0
    for box in boxes:
        inside = points[((points >= box[:2]) & (points <= box[2:])).all(axis=1)]
        for column in range(2):
            ends = [end for end in {box[column], box[2 + column]} if 0.0 < end < 100.0]
            said += len(ends)
            right += sum(bool((inside[:, column] == end).any()) for end in ends)
    return right / max(said, 1)


def possible_values(release, people: pd.DataFrame) -> list[set[str]]:
    """Return the values that a release leaves possible for each of these people; all if nobody is near."""
    low, high = ranges(release)
    shown = [
        {value for value in cell.split("|") if value.startswith("v")}
        for cell in release.to_pandas()["illness"].astype(str)
    ]
    found = []
    for person in people[["x", "y"]].to_numpy():
        near = np.flatnonzero(((low <= person) & (person <= high)).all(axis=1))
        if (low == high).all():  # exact rows: the five nearest stand for a group of five
            near = np.argsort(np.abs(low - person).max(axis=1))[:5]
        values = set().union(*(shown[place] for place in near))
        found.append(values or set(SCHEMA["illness"]["order"]))
    return found


def composed(releases, people: pd.DataFrame, most: int = 300) -> tuple[float, float]:
    """Return for how many people one value is left by all releases, and how often it is the true one."""
    people = people.head(most)
    left = [set.intersection(*sets) for sets in zip(*(possible_values(one, people) for one in releases), strict=True)]
    said = sum(len(values) == 1 for values in left)
    right = sum(values == {illness} for values, illness in zip(left, people.illness, strict=True))
    return said / most, right / max(said, 1)


def area(release, members: pd.DataFrame, outsiders: pd.DataFrame) -> float:
    """Return how often a member is nearer to the release than somebody else: 0.5 is chance."""
    low, high = ranges(release)

    def distance(people: pd.DataFrame) -> np.ndarray:
        points = people[["x", "y"]].to_numpy()[:, None, :]
        return np.maximum(np.maximum(low - points, points - high), 0.0).max(axis=2).min(axis=1)

    near, far = distance(members), distance(outsiders)
    return float((near[:, None] < far).mean() + 0.5 * (near[:, None] == far).mean())


def test_downcoding_fails(members):
    assert share_of_true_ends(sf.Boxes(k=5).release(members, schema=SCHEMA, seed=1), members) > 0.95, "the control"
    for name, method in PRIVATE.items():
        assert share_of_true_ends(method.release(members, schema=SCHEMA), members) < 0.02, name


def test_composition_fails(members, outsiders):
    """Three releases that were cut for other statistics: of plain boxes the intersection often tells the illness."""
    kept = (["mean(x)"], ["mean(y)"], ["corr(x, y)"])
    control = [sf.Boxes(k=5, l=1, keep=keep).release(members, schema=SCHEMA, seed=1) for keep in kept]
    said, right = composed(control, members)
    assert said > 0.2 and right > 0.95, "the control"
    for name, kind in (("private-boxes", sf.PrivateBoxes), ("private-synthesis", sf.PrivateSynthesis)):
        releases = [kind(epsilon=1.0, keep=keep).release(members, schema=SCHEMA) for keep in kept]
        said, right = composed(releases, members)
        others, by_chance = composed(releases, outsiders)
        members_right, outsiders_right = said * right, others * by_chance
        spread = 4.0 * np.sqrt(2.0 * 0.25 / 300)
        assert abs(members_right - outsiders_right) < spread, name
        assert members_right < 3.0 / VALUES, name


def test_membership_is_near_chance(members, outsiders):
    assert area(sf.Boxes(k=5).release(members, schema=SCHEMA, seed=1), members, outsiders) > 0.6, "the control"
    for name, method in PRIVATE.items():
        found = [area(method.release(members, schema=SCHEMA), members, outsiders) for _ in range(3)]
        assert abs(np.median(found) - 0.5) < 0.07, name  # four standard errors of an area from 600 and 600 people


if __name__ == "__main__":  # the figures of the theory page
    ours, others = draw_people(1), draw_people(2)
    for label, make in (
        ("boxes", lambda keep: sf.Boxes(k=5, l=1, keep=keep).release(ours, schema=SCHEMA)),
        ("private-boxes", lambda keep: sf.PrivateBoxes(epsilon=1.0, keep=keep).release(ours, schema=SCHEMA)),
        ("private-synthesis", lambda keep: sf.PrivateSynthesis(epsilon=1.0, keep=keep).release(ours, schema=SCHEMA)),
    ):
        three = [make(keep) for keep in (["mean(x)"], ["mean(y)"], ["corr(x, y)"])]
        print(
            label,
            share_of_true_ends(three[0], ours),
            composed(three, ours),
            composed(three, others),
            area(three[0], ours, others),
        )
