"""Generalization trees, from files and built in."""

from __future__ import annotations

from datetime import date, datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.engines.memory.engine import MemorySurvey
from sfumato.errors import InputError, OptionError, SchemaError
from sfumato.job.inspect import InspectedTable
from sfumato.schema.columns import Column, Role
from sfumato.schema.hierarchies import Tree
from sfumato.schema.schema import Schema
from sfumato.schema.suggested_hierarchies import (
    build_tree,
    calendar_tree,
    prefix_tree,
    step_tree,
    tree_for,
)
from sfumato.sources.files import read
from sfumato.sources.frames import as_table

LINES = [
    ("Rome", "Italy", "Europe"),
    ("Oslo", "Norway", "Europe"),
    ("Milan", "Italy", "Europe"),
    ("Lima", "Peru", "America"),
]


@st.composite
def random_trees(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """Lines of a tree with three levels below the root, in any order."""
    parents = draw(st.lists(st.integers(0, 2), min_size=1, max_size=4))
    nodes = draw(st.lists(st.integers(0, len(parents) - 1), min_size=1, max_size=9))
    lines = [(f"v{value}", f"n{node}", f"p{parents[node]}", "*") for value, node in enumerate(nodes)]
    return draw(st.permutations(lines))


def slow_cover(lines: list[tuple[str, ...]], values: set[str]) -> tuple[int, str, int]:
    """The first level at which all the values have the same node, that node, and how many values it holds."""
    chosen = [line for line in lines if line[0] in values]
    for level in range(len(lines[0])):
        names = {line[level] for line in chosen}
        if len(names) == 1:
            name = names.pop()
            return level, name, sum(line[level] == name for line in lines)
    raise AssertionError


@given(random_trees(), st.data())
def test_the_covering_node_is_the_lowest_common_one(lines, data):
    tree = Tree.of(lines)
    values = data.draw(st.sets(st.sampled_from([line[0] for line in lines]), min_size=1))
    node = tree.cover(np.array([tree.leaves.index(value) for value in values]))
    assert (node.level, node.name, node.leaves) == slow_cover(lines, values)


@given(random_trees())
def test_leaves_stand_in_an_order_in_which_subtrees_are_contiguous(lines):
    tree = Tree.of(lines)
    assert sorted(tree.leaves) == sorted(line[0] for line in lines)
    for level in range(tree.levels):
        nodes = [tree.level(level)[value] for value in tree.leaves]
        changes = sum(left != right for left, right in pairwise(nodes))
        assert changes + 1 == len(set(nodes)) == len(tree.names[level])


@given(random_trees())
def test_levels_and_ancestors_are_those_of_the_lines(lines):
    tree = Tree.of(lines)
    for line in lines:
        assert tree.ancestors(line[0]) == line[1:]
        assert tuple(tree.level(level)[line[0]] for level in range(tree.levels)) == line


@given(random_trees())
def test_many_ranges_are_covered_at_once(lines):
    tree = Tree.of(lines)
    low, high = map(np.array, zip(*[(i, j) for i in range(tree.size) for j in range(i, tree.size)], strict=True))
    found = tree.covering(low, high)
    for place in range(len(low)):
        node = tree.cover([low[place], high[place]])
        assert (node.level, node.leaves) == (found.levels[place], found.leaves[place])
        assert tree.names[node.level][found.nodes[place]] == node.name


def test_a_root_is_added_where_there_is_none():
    tree = Tree.of(LINES)
    assert tree.levels == 4
    assert tree.ancestors("Rome") == ("Italy", "Europe", "*")
    assert tree.leaves == ("Rome", "Milan", "Oslo", "Lima")
    assert repr(tree) == "Tree(4 values, 4 levels)"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([*LINES, ("Bern",)], "every level"),
        ([], "every level"),
        ([*LINES, ("Rome", "Peru", "America")], "1 nodes of level 0 with several"),
        ([*LINES, ("Bern", "Italy", "America")], "1 nodes of level 1 with several"),
        ([*LINES, ("Bern", "", "Europe")], "1 empty cells"),
    ],
)
def test_what_is_no_tree_is_refused(lines, words):
    with pytest.raises(SchemaError, match=words) as refusal:
        Tree.of(lines)
    assert "Bern" not in str(refusal.value)


def test_a_line_that_stands_twice_counts_once():
    assert Tree.of([*LINES, LINES[0]]).size == 4


@pytest.mark.parametrize("content", ["", "a;b\nc\n", 'a;"b\n'])
def test_a_file_that_is_no_tree_is_refused(tmp_path, content):
    (tmp_path / "tree.csv").write_text(content)
    with pytest.raises((InputError, SchemaError)):
        Tree.read(tmp_path / "tree.csv")


def test_values_that_the_tree_lacks_are_counted_and_not_shown():
    tree = Tree.of(LINES)
    assert tree.positions(pa.array(["Oslo", None, "Rome"]), column="city").tolist() == [2, -1, 0]
    with pytest.raises(SchemaError, match=r"'city'.*1 of 2 values") as refusal:
        tree.positions(pa.array(["Canary77", "Rome", None]), column="city")
    assert "Canary77" not in str(refusal.value)


def test_published_trees_fit_their_table(data_folder):
    table = read(data_folder / "arx" / "adult.csv")
    for name in table.names:
        tree = Tree.read(data_folder / "arx" / f"adult_hierarchy_{name}.csv")
        places = tree.positions(table.coded(name).values, column=name)
        assert len(set(places.tolist())) == table.coded(name).size
    ages = Tree.read(data_folder / "arx" / "adult_hierarchy_age.csv")
    assert ages.ancestors("3") == ("0-4", "0-9", "0-19", "*")
    assert ages.cover([ages.leaves.index("1"), ages.leaves.index("7")]).name == "0-9"


@given(st.lists(st.integers(-500, 500), min_size=1, unique=True))
def test_steps_of_whole_numbers_begin_at_multiples(numbers):
    tree = step_tree(pa.array(numbers), (5, 10, 50))
    for number in numbers:
        five, ten, fifty, root = tree.ancestors(str(number))
        assert root == "*"
        for width, name in ((5, five), (10, ten), (50, fifty)):
            low = number // width * width
            assert name == f"{low}–{low + width - 1}"
    assert [int(leaf) for leaf in tree.leaves] == sorted(numbers)


@given(st.lists(st.floats(-100, 100).map(lambda number: round(number, 2)), min_size=1, unique=True))
def test_steps_of_fractions_nest(numbers):
    tree = step_tree(pa.array(sorted({number + 0.0 for number in numbers})), (0.1, 0.5, 10))
    assert tree.levels == 5


@pytest.mark.parametrize("widths", [(), (0,), (-5,), (10, 5), (10, 15), (5, 5)])
def test_steps_that_do_not_nest_are_refused(widths):
    with pytest.raises(SchemaError, match="multiple of the one before"):
        step_tree(pa.array([1, 2]), widths)


def test_the_calendar_of_a_day():
    tree = calendar_tree(pa.array([date(2021, 5, 17), date(1969, 12, 31)]))
    assert tree.ancestors("2021-05-17") == ("2021-05", "2021 Q2", "2021 H1", "2021", "2020s", "*")
    assert tree.ancestors("1969-12-31") == ("1969-12", "1969 Q4", "1969 H2", "1969", "1960s", "*")
    assert tree.leaves == ("1969-12-31", "2021-05-17")


def test_the_calendar_of_a_moment_begins_with_its_day():
    values = pa.array([datetime(2021, 5, 17, 3), datetime(2021, 5, 17, 4)])
    tree = calendar_tree(values)
    assert tree.cover([0, 1]).name == "2021-05-17"
    assert tree.positions(values, column="m").tolist() == [0, 1]


def test_prefixes_of_postal_codes():
    tree = prefix_tree(pa.array(["02139", "02141", "10001"]))
    assert tree.ancestors("02139") == ("0213*", "021*", "02*", "0*", "*")
    assert tree.cover([0, 1]).name == "021*"


def test_postal_codes_that_lost_their_zeros_get_them_back():
    tree = prefix_tree(pa.array([2139, 10001]))
    assert tree.ancestors("2139")[0] == "0213*"


@pytest.mark.parametrize(("make", "values"), [(calendar_tree, [1]), (lambda values: step_tree(values, (5,)), ["x"])])
def test_a_tree_of_the_wrong_type_is_refused(make, values):
    with pytest.raises(SchemaError, match=r"is for|are for"):
        make(pa.array(values))


def test_a_column_says_its_tree(tmp_path):
    (tmp_path / "t.csv").write_text("Rome;Italy\nOslo;Norway\n")

    def found(tree: str | None, values: list[object]) -> Tree | None:
        return tree_for(Column(name="x", role=Role.QUASI, tree=tree), pa.array(values))

    assert found(None, ["Rome"]) is None
    assert found(str(tmp_path / "t.csv"), ["Rome"]).ancestors("Rome") == ("Italy", "*")
    assert found("steps:5,10", [1, 7, None]).ancestors("7") == ("5–9", "0–9", "*")
    assert found("calendar", [date(2020, 1, 1), None]).size == 1
    assert found("prefix", ["AB1", None]).ancestors("AB1") == ("AB*", "A*", "*")
    with pytest.raises(SchemaError, match="must be numbers"):
        found("steps:five", [1])


def values_of(table):
    return InspectedTable(MemorySurvey(table), Schema(())).values_of("x")


def test_steps_refuse_infinite_numbers():
    table = as_table({"x": [1.0, float("inf"), 3.0]})
    with pytest.raises(OptionError, match="must be finite"):
        build_tree(values_of(table), "steps", [5.0])


class TestUsualWays:
    @pytest.mark.parametrize(
        ("values", "way"),
        [
            ([f"{part}{number}" for part in ("010", "041", "101") for number in range(10, 20)], "prefix"),
            ([f"E{number}.{part}" for number in range(10, 20) for part in range(3)], "prefix"),
            (["Ulm", "Rom", "Bad Ort"] * 10, "frequencies"),
            ([1.5, 2.5] * 15, "steps"),
            ([date(2020, 1, day) for day in range(1, 31)], "calendar"),
        ],
    )
    def test_codes_have_prefixes(self, values, way):
        table = as_table({"x": values})
        assert values_of(table).usual_kind == way

    def test_an_outlier_does_not_decide_on_the_widths(self):
        usual = np.random.default_rng(1).normal(50.0, 10.0, 1000)
        trees = [build_tree(values_of(as_table({"x": numbers})), "steps") for numbers in (usual, np.append(usual, 1e5))]
        assert len(trees[1].names[1]) == len(trees[0].names[1]) + 1  # the step of the outlier
