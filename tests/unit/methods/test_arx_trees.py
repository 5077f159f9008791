"""Published generalization trees at work: ARX's nine for its Adult table."""

from __future__ import annotations

from collections import Counter

import pytest

import sfumato as sf

COLUMNS = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation")


@pytest.fixture(scope="module")
def schema(data_folder):
    trees = {name: data_folder / "arx" / f"adult_hierarchy_{name}.csv" for name in COLUMNS}
    return {name: {"role": "quasi", "tree": str(tree)} for name, tree in trees.items()} | {"salary-class": "sensitive"}


@pytest.fixture(scope="module")
def table(data_folder):
    return sf.read(data_folder / "arx" / "adult.csv")


def shown(release):
    return Counter(zip(*(release.table.arrow.column(name).to_pylist() for name in COLUMNS), strict=True))


def test_a_table_that_is_its_own_population_leaves_k_anonymous_in_nodes_of_its_trees(table, schema):
    release = sf.Generalize(k=5, beta=0.05).release(table, schema=schema, seed=1)
    assert min(shown(release).values()) >= 5
    assert release.table.rows >= 0.95 * table.rows
    assert any("tree" in note["how"] for note in release.manifest.notes["columns"].values())


def test_every_column_by_itself_is_cut_as_low_as_k_allows(table, schema):
    release = sf.Quantiles(k=50, l=1).release(table, schema=schema, seed=1)
    for name in COLUMNS:
        assert min(Counter(release.table.arrow.column(name).to_pylist()).values()) >= 50
    assert len(set(release.table.arrow.column("age").to_pylist())) > 50  # only the rare ages are joined
    assert len(set(release.table.arrow.column("native-country").to_pylist())) < 41


def test_domain_sizes_come_from_the_trees(table, schema):
    assert sf.uniqueness(table, ["education", "sex"], schema=schema).domain == 16 * 2
