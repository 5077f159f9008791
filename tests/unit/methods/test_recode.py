"""Recoding: the best combination by brute force, the models on the released rows, and local recoding below it."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.memory.engine import Memory, MemorySurvey
from sfumato.errors import CannotRelease, OptionError, SfumatoError
from sfumato.randomness import Randomness
from sfumato.schema.schema import FittedTable
from sfumato.sources.frames import as_table

QUASI = {"a": "steps:2,4,8", "b": "steps:3,6"}
ROLES = {name: {"role": "quasi", "tree": tree} for name, tree in QUASI.items()} | {"s": "sensitive"}


def people(seed: int, rows: int = 60, values: int = 4) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": draw.integers(0, 8, rows),
            "b": draw.integers(0, 6, rows),
            "s": draw.choice(list("abcdefgh")[:values], rows, p=np.arange(values, 0, -1) / np.arange(values + 1).sum()),
        }
    )


def nodes(column: np.ndarray, tree: str) -> list[np.ndarray]:
    """The node of each value on each level, up to the root."""
    return [column, *(column // int(width) for width in tree.partition(":")[2].split(",")), np.zeros_like(column)]


def slow_models(groups: np.ndarray, sensitive: np.ndarray, kept: np.ndarray) -> dict[int, dict[str, float]]:
    """k, ℓ and t of each group by definition, t against the kept rows."""
    found = {}
    values = sorted(set(sensitive.tolist()))
    q = np.array([(sensitive[kept] == value).mean() for value in values])
    for group in set(groups.tolist()):
        own = sensitive[groups == group]
        counts = np.array([(own == value).sum() for value in values])
        p = counts / counts.sum()
        ranked = np.sort(counts)[::-1]
        found[group] = {
            "k": len(own),
            "distinct": int((counts > 0).sum()),
            "entropy": float(np.exp(-sum(x * np.log(x) for x in p if x > 0))),
            "recursive": float(ranked[0] / ranked[1:].sum()) if ranked[1:].sum() else np.inf,  # ℓ = 2
            "t": float(np.abs(p - q).sum() / 2),
        }
    return found


def holds(models: dict[str, float], k: int, options: dict) -> bool:
    kind, l = options.get("l_kind", "distinct"), options.get("l", 2)
    diverse = models[kind] < options.get("c", 3.0) if kind == "recursive" else models[kind] >= l - 1e-9
    return models["k"] >= k and (l < 2 or diverse)


def slow_best(frame: pd.DataFrame, k: int, suppress: float, options: dict) -> float:
    """The smallest granularity loss of all combinations of levels, by trying them all."""
    columns = [nodes(frame[name].to_numpy(), tree) for name, tree in QUASI.items()]
    sizes = [frame[name].nunique() for name in QUASI]
    most, best = sum(1 - 1 / size for size in sizes), np.inf
    for levels in itertools.product(*(range(len(column)) for column in columns)):
        chosen = [column[level] for column, level in zip(columns, levels, strict=True)]
        groups = np.unique(np.column_stack(chosen), axis=0, return_inverse=True)[1].ravel()
        every = np.ones(len(frame), dtype=bool)
        models = slow_models(groups, frame["s"].to_numpy(), every)
        kept = np.array([holds(models[group], k, options) for group in groups])
        if not kept.any() or (~kept).sum() > suppress * len(frame) + 1e-9:
            continue
        lost = 0.0
        for name, node, size in zip(QUASI, chosen, sizes, strict=True):
            covered = np.array([frame[name][node == one].nunique() for one in node])
            lost += np.where(kept, (covered - 1) / size, 1 - 1 / size).mean() / most
        best = min(best, lost)
    return best


@pytest.mark.parametrize(
    "options",
    [{"l": 1}, {"l": 2}, {"l": 2, "l_kind": "entropy"}, {"l": 2, "l_kind": "recursive", "c": 1.5}],
    ids=["k", "distinct", "entropy", "recursive"],
)
@pytest.mark.parametrize(("seed", "k", "suppress"), [(1, 3, 0.0), (2, 3, 0.1), (3, 5, 0.2), (4, 2, 0.05)])
def test_global_recoding_is_the_best_of_all_combinations(seed, k, suppress, options):
    frame = people(seed)
    release = sf.Recode(k=k, suppress=suppress, **options).release(frame, schema=ROLES)
    assert release.manifest.notes["loss"] == pytest.approx(slow_best(frame, k, suppress, options), abs=1e-6)
    assert release.manifest.notes["best of all combinations"]
    assert all(finding.held for finding in release.findings)


def slow_groups(release: sf.Release) -> np.ndarray:
    frame = release.to_pandas()
    return frame.groupby([name for name in frame if name != "s"], dropna=False).ngroup().to_numpy()


@pytest.mark.parametrize("kind", ["global", "local"])
@pytest.mark.parametrize(
    "options",
    [
        {"l": 3},
        {"l": 2, "l_kind": "entropy"},
        {"l": 2, "l_kind": "recursive", "c": 2.0},
        {"l": 1, "t": 0.3},
        {"l": 1, "average_risk": 0.1},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_released_rows_keep_the_models_by_definition(kind, options):
    frame = people(7, rows=200)
    release = sf.Recode(k=4, kind=kind, suppress=0.1, **options).release(frame, schema=ROLES)
    sensitive, groups = release.to_pandas()["s"].to_numpy(), slow_groups(release)
    models = slow_models(groups, sensitive, np.ones(len(groups), dtype=bool))
    assert all(holds(found, 4, options) for found in models.values())
    assert all(found["t"] <= options.get("t", 1.0) + 1e-9 for found in models.values())
    assert len(models) / len(groups) <= options.get("average_risk", 1.0)
    assert all(finding.held for finding in release.findings)


@pytest.mark.parametrize(
    "engine", [Memory(block_rows=150), Memory(block_rows=150, sample_rows=250)], ids=["", "sampled"]
)
@pytest.mark.parametrize(
    "options",
    [
        {"l": 1, "t": 0.2, "suppress": 0.0},
        {"l": 1, "t": 0.25, "suppress": 0.15},
        {"l": 1, "t": 0.25, "suppress": 0.15, "distance": "ordered"},
        {"l": 2, "l_kind": "entropy", "suppress": 0.1},
        {"l": 2, "l_kind": "recursive", "c": 2.0, "suppress": 0.1},
        {"l": 1, "average_risk": 0.1, "suppress": 0.1},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_blocks_keep_models_that_speak_of_the_whole_table(engine, options):
    """No block knows the distribution of the release, and hash routing gives each block another one."""
    frame, is_ordered = people(9, rows=600), options.get("distance") == "ordered"
    frame["s"] = frame["s"].rank(method="dense") if is_ordered else frame["s"]
    for seed in range(3):
        release = sf.Recode(k=4, **options).release(frame, schema=ROLES, seed=seed, engine=engine)
        sensitive, groups = release.to_pandas()["s"].to_numpy(), slow_groups(release)
        models = slow_models(groups, sensitive, np.ones(len(groups), dtype=bool))
        assert all(holds(found, 4, options) for found in models.values())
        if not is_ordered:  # its distance is recounted by the claim alone
            assert all(found["t"] <= options.get("t", 1.0) + 1e-9 for found in models.values())
        assert all(finding.held for finding in release.findings)
        assert len(groups) >= (1 - options["suppress"]) * 600


@pytest.mark.parametrize("suppress", [0.02, 0.05])
@pytest.mark.parametrize("t", [0.06, 0.2, 0.4])
def test_blocks_keep_closeness_although_all_rows_of_some_values_are_suppressed(t, suppress):
    """The order of the values that are left is shorter, so that distances in it are longer."""
    draw = np.random.default_rng(0)
    town = np.where(np.arange(3000) < 1500, "u", "v").astype(object)
    worth = np.where(town == "u", draw.integers(0, 7, 3000), draw.integers(3, 10, 3000))
    town[:40], worth[:40] = [f"village {one}" for one in range(40)], 100 + np.arange(40)
    method = sf.Recode(k=5, l=1, t=t, suppress=suppress)
    given = {"schema": {"town": "quasi", "worth": "sensitive"}, "seed": 1}
    release = method.release({"town": town, "worth": worth}, engine=Memory(block_rows=500), **given)
    assert all(finding.held for finding in release.findings)


def test_closeness_that_counts_people_needs_all_of_them():
    frame = people(9, rows=600).assign(who=lambda rows: np.arange(len(rows)) // 2)
    roles = {**ROLES, "who": "person"}
    with pytest.raises(CannotRelease, match="whole table"):
        sf.Recode(k=4, l=1, t=0.3).release(frame, schema=roles, engine=Memory(block_rows=150))


def test_an_average_risk_allows_groups_that_are_smaller_than_the_average():
    frame = people(7, rows=400)
    release = sf.Recode(k=4, l=1, kind="local", average_risk=0.05).release(frame, schema=ROLES, seed=1)
    sizes = np.bincount(slow_groups(release))
    assert len(sizes) / 400 <= 0.05
    assert 4 <= sizes.min() < 20  # 1 ÷ 0.05 rows in every group would be more than is promised
    assert release.findings[0].claim.startswith("4-anonymous")
    alike = sf.Recode(k=20, l=1, kind="local").release(frame, schema=ROLES, seed=1)
    assert lost(release, frame) < lost(alike, frame)


def lost(release: sf.Release, frame: pd.DataFrame) -> float:
    """The granularity loss, counted from the words of the steps."""
    found, total = release.to_pandas(), 0.0
    for name in QUASI:
        size = frame[name].nunique()
        for word in found[name].astype(str):
            low, _, high = word.partition("–")
            covered = (
                size
                if word == "*"
                else frame[name].between(int(low), int(high or low)).sum()
                and len(set(frame[name][frame[name].between(int(low), int(high or low))]))
            )
            total += (covered - 1) / size
        total += (len(frame) - len(found)) * (1 - 1 / size)
    return total / len(frame) / sum(1 - 1 / frame[name].nunique() for name in QUASI)


@pytest.mark.parametrize("seed", range(4))
def test_local_recoding_loses_less_and_suppresses_nothing(seed):
    frame = people(seed, rows=150)
    best = sf.Recode(k=4, l=1).release(frame, schema=ROLES)
    local = sf.Recode(k=4, l=1, kind="local").release(frame, schema=ROLES, seed=1)
    assert local.table.rows == 150
    assert lost(best, frame) == pytest.approx(best.manifest.notes["loss"], abs=1e-6)
    assert lost(local, frame) < lost(best, frame)
    assert np.bincount(slow_groups(local)).min() >= 4


@pytest.mark.parametrize("loss", ["entropy", "discernibility", "class-size"])
def test_other_losses_are_smallest_where_they_are_asked_for(loss):
    frame = people(11, rows=120)
    found = {}
    for asked in ("granularity", loss):
        release = sf.Recode(k=4, l=1, loss=asked).release(frame, schema=ROLES)
        sizes = np.bincount(slow_groups(release))
        left = 120 - release.table.rows
        found[asked] = {
            "discernibility": ((sizes**2).sum() + 120 * left) / 120**2,
            "class-size": 120 / len(sizes) / 4,
            "entropy": release.manifest.notes["loss"] if asked == "entropy" else np.inf,
        }[loss]
        if asked == loss != "entropy":
            assert release.manifest.notes["loss"] == pytest.approx(found[asked], abs=1e-6)
    assert found[loss] <= found["granularity"] + 1e-9


def test_t_by_order_and_by_tree_is_promised_and_recounted(tmp_path):
    frame = people(5, rows=200, values=4)
    tree = tmp_path / "tree.csv"
    tree.write_text("a;ab;*\nb;ab;*\nc;cd;*\nd;cd;*\n")
    by_tree = ROLES | {"s": {"role": "sensitive", "tree": str(tree)}}
    by_order = ROLES | {"s": {"role": "sensitive", "order": ["d", "b", "a", "c"]}}
    for schema, distance, kind in itertools.product((by_tree, by_order), ("tree", "ordered"), ("global", "local")):
        if (schema is by_tree) != (distance == "tree"):
            continue
        release = sf.Recode(k=3, l=1, t=0.15, distance=distance, kind=kind).release(frame, schema=schema)
        told = [finding for finding in release.findings if "close" in finding.claim]
        assert len(told) == 1
        assert told[0].held
        assert distance in told[0].claim


class TestPopulation:
    def test_k_is_counted_in_the_population(self):
        everyone = people(3, rows=2000)[["a", "b"]]
        frame = everyone.sample(40, random_state=1).reset_index(drop=True)
        schema = {name: ROLES[name] for name in QUASI}
        mapped = sf.Recode(k=5, population=everyone, suppress=0.0).release(frame, schema=schema)
        assert mapped.manifest.notes["levels"] == {"a": 0, "b": 0}, "every combination has 5 people"
        assert any("population table" in finding.claim and finding.held for finding in mapped.findings)
        plain = sf.Recode(k=5, suppress=0.0).release(frame, schema=schema)
        assert plain.manifest.notes["loss"] > 0.0

    def test_a_person_that_the_population_lacks_is_protected(self):
        everyone = pd.DataFrame({"a": [0] * 50 + [7] * 2, "b": [0] * 52})
        frame = pd.DataFrame({"a": [0] * 10 + [7], "b": [0] * 11})
        schema = {name: ROLES[name] for name in QUASI}
        release = sf.Recode(k=5, population=everyone, suppress=0.2).release(frame, schema=schema)
        assert release.table.rows == 10

    def test_the_method_shows_no_cell_of_it(self):
        assert "98765" not in repr(sf.Recode(k=2, population=pd.DataFrame({"a": [98765]})))

    def test_a_column_of_another_type_is_refused_without_a_cell(self):
        frame, other = people(1)[["a"]], pd.DataFrame({"a": ["secret"]})
        with pytest.raises(SfumatoError) as refused:
            sf.Recode(k=2, population=other).release(frame, schema={"a": ROLES["a"]})
        assert "secret" not in str(refused.value)


class TestRefusals:
    def test_diversity_that_the_table_does_not_have(self):
        for kind in ("global", "local"):
            with pytest.raises(CannotRelease):
                sf.Recode(k=2, l=9, kind=kind).release(people(1), schema=ROLES)

    def test_diversity_without_a_sensitive_column(self):
        with pytest.raises(OptionError, match="sensitive"):
            sf.Recode(k=2, l=2).release(people(1)[["a"]], schema={"a": "quasi"})

    def test_local_recoding_of_other_losses(self):
        with pytest.raises(OptionError, match="granularity"):
            sf.Recode(k=2, kind="local", loss="class-size")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([2, 3, 7]), st.sampled_from(["granularity", "entropy"]))
def test_local_recoding_covers_every_value(seed, k, loss):
    draw = np.random.default_rng(seed)
    rows = int(draw.integers(k, 40))
    frame = pd.DataFrame(
        {
            "number": np.where(draw.random(rows) < 0.2, np.nan, draw.normal(size=rows).round(1)),
            "word": draw.choice(["x", "y", None], rows),
            "step": draw.integers(0, 20, rows),
        }
    )
    schema = {"number": "quasi", "word": "quasi", "step": {"role": "quasi", "tree": "steps:5,10"}}
    release = sf.Recode(k=k, kind="local", loss=loss, search=1.0).release(frame, schema=schema, seed=seed)
    assert release.table.rows == rows
    assert all(finding.held for finding in release.findings)
    assert np.bincount(slow_groups(release)).min() >= k


@pytest.mark.parametrize("kind", ["global", "local"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_recoded_in_their_unit(kind, unit):
    times = pd.to_datetime(
        ["2017-07-19 06:35", "2017-07-20 18:13", "2017-07-24 09:43", "2017-07-23 12:56", "2017-07-19 13:12"]
    )
    frame = pd.DataFrame({"time": times.astype(f"datetime64[{unit}]"), "height": [60.0, 41.0, 47.0, 48.0, 46.0]})
    after = sf.Recode(k=5, kind=kind).release(frame, schema={"time": "quasi", "height": "quasi"}).to_pandas()
    assert (after["time_low"] <= times.min()).all()
    assert (after["time_low"] >= times.min() - pd.Timedelta("1D")).all()
    assert (after["time_high"] >= times.max()).all()
    assert (after["time_high"] <= times.max() + pd.Timedelta("1D")).all()


def test_a_local_plan_can_be_pickled_and_says_that_nodes_overlap():
    fitted = FittedTable.of(as_table(people(2)), ROLES)
    plan = sf.Recode(k=3, kind="local").plan(MemorySurvey(fitted.table), fitted.schema, Randomness(1))
    again = pickle.loads(pickle.dumps(plan))
    assert again.transform(fitted.table, 0).released.arrow.equals(plan.transform(fitted.table, 0).released.arrow)
    assert "2509.03350" in plan.notes["overlap"]


@pytest.mark.parametrize("loss", ["granularity", "entropy"])
@pytest.mark.parametrize("suppress", [0.0, 0.2])
def test_the_reported_loss_is_the_one_that_is_measured(loss, suppress, tmp_path):
    # suppressed rows lose everything in both; an entropy is a share of what suppressing all rows would lose
    letters = np.random.default_rng(3).choice(list("aaabbcdef"), (80, 2))
    frame = pd.DataFrame({"one": letters[:, 0], "two": letters[:, 1]})
    (tmp_path / "tree.csv").write_text("a;x;*\nb;x;*\nc;x;*\nd;y;*\ne;y;*\nf;y;*\n")
    schema = {name: {"role": "quasi", "tree": str(tmp_path / "tree.csv")} for name in frame}
    made = sf.release_and_assess(sf.Recode(k=4, loss=loss, suppress=suppress), frame, schema=schema)
    scores = {score.name: score.value for score in made.assessment.scores}
    measured = 1.0 - scores["granularity"] if loss == "granularity" else scores["entropy lost by recoding"]
    assert 0.0 < made.release.manifest.notes["loss"] == pytest.approx(measured, abs=2e-6)
