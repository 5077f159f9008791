"""What an analyst can read from a release: boxes, counts, weights, and what missing cells leave open."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import StatisticError, TableError
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.table.intervals import box_columns, original_names
from sfumato.table.table import Table


def table(**columns) -> Table:
    return Table.from_arrow(pa.table(columns))


def test_equal_boxes_are_one_group_with_a_count():
    released = table(x_low=[0.0, 1.0, 0.0], x_high=[2.0, 3.0, 2.0])
    read = CountedBoxes.of(released, ["x"])
    assert sorted(zip(read.low[:, 0], read.high[:, 0], read.count, strict=True)) == [(0.0, 2.0, 2), (1.0, 3.0, 1)]
    assert read.meeting(["x"]).records == 3


def test_an_exact_column_is_a_box_without_width():
    boxes = CountedBoxes.of(table(x=[1, 2, 2]), ["x"]).meeting(["x"])
    assert sorted(boxes.low[:, 0]) == [1.0, 2.0]
    assert np.array_equal(boxes.low, boxes.high)


def test_days_are_numbers():
    days = pa.array([0, 10], pa.int32()).cast(pa.date32())
    boxes = CountedBoxes.of(table(born_low=days, born_high=days), ["born"]).meeting(["born"])
    assert sorted(boxes.low[:, 0]) == [0.0, 10.0]


def test_missing_cells_of_a_box_are_left_out_by_their_count():
    released = table(x_low=[0.0] * 4 + [5.0], x_high=[2.0] * 4 + [6.0], x_missing=[3, 3, 3, 3, 0], box=[1, 1, 1, 1, 2])
    boxes = CountedBoxes.of(released, ["x"]).meeting(["x"])
    assert sorted(zip(boxes.low[:, 0], boxes.weight, strict=True)) == [(0.0, 1.0), (5.0, 1.0)]
    assert boxes.is_certain
    assert boxes.records == 2


def test_a_box_of_missing_cells_only_is_left_out():
    released = table(x_low=[None, None, 1.0], x_high=[None, None, 2.0], x_missing=[2, 2, 0], box=[1, 1, 2])
    boxes = CountedBoxes.of(released, ["x"]).meeting(["x"])
    assert boxes.records == 1
    assert boxes.low.tolist() == [[1.0]]


def test_boxes_that_look_alike_are_told_apart_by_their_label():
    released = table(x_low=[0.0] * 4, x_high=[2.0] * 4, x_missing=[1] * 4, box=[1, 1, 2, 2])
    assert CountedBoxes.of(released, ["x"]).meeting(["x"]).records == 2


class TestBoxesWithoutNumbers:
    ALIKE: ClassVar = {"x_low": [0.0] * 8, "x_high": [2.0] * 8, "x_missing": [1] * 8}

    def test_it_is_open_how_many_boxes_look_alike(self):
        boxes = CountedBoxes.of(table(**self.ALIKE), ["x"]).meeting(["x"])
        assert boxes.weight.tolist() == [4.0]  # eight rows may be four boxes of two, with one missing value each …
        assert (boxes.weight + boxes.extra).tolist() == [7.0]  # … or one box with one missing value

    def test_a_column_box_that_does_not_number_boxes_is_not_trusted(self):
        differing = self.ALIKE | {"x_low": [0.0] * 4 + [1.0] * 4, "box": [1, 2] * 4}
        boxes = CountedBoxes.of(table(**differing), ["x"]).meeting(["x"])
        assert boxes.weight.sum() == 4.0
        assert not boxes.is_certain

    def test_a_column_box_of_the_original_is_not_trusted(self):
        own = table(**self.ALIKE, box=[1, 1, 1, 1, 2, 2, 2, 2])
        assert not CountedBoxes.of(own, ["x"], numbered=False).meeting(["x"]).is_certain
        assert CountedBoxes.of(own, ["x"]).meeting(["x"]).records == 6

    def test_columns_that_are_known_to_be_sets_tell_boxes_apart(self):
        with_sets = table(**self.ALIKE, s=["a"] * 4 + ["b|c"] * 4)
        assert box_columns(with_sets.names, sets=["s"]) == ("x_low", "x_high", "x_missing", "s")
        boxes = CountedBoxes.of(with_sets, ["x"], sets=["s"]).meeting(["x"])
        assert (boxes.weight + boxes.extra).sum() == 6.0  # at least one missing value in each of two boxes


def test_two_columns_with_missing_cells_leave_open_how_many_are_complete():
    released = table(
        x_low=[0.0] * 4,
        x_high=[1.0] * 4,
        x_missing=[1] * 4,
        y_low=[0.0] * 4,
        y_high=[1.0] * 4,
        y_missing=[1] * 4,
        box=[1] * 4,
    )
    boxes = CountedBoxes.of(released, ["x", "y"]).meeting(["x", "y"])
    assert boxes.weight.tolist() == [2.0]  # the two missing cells may be in different rows …
    assert boxes.extra.tolist() == [1.0]  # … or in the same one
    assert not boxes.is_certain
    assert CountedBoxes.of(released, ["x"]).meeting(["x"]).is_certain


def test_a_missing_exact_cell_is_known_row_by_row():
    released = table(x=[1.0, None, 3.0], y=[1.0, 2.0, None])
    boxes = CountedBoxes.of(released, ["x", "y"]).meeting(["x", "y"])
    assert boxes.records == 1
    assert boxes.is_certain


def test_weights_are_summed_over_a_box():
    released = table(x_low=[0.0, 0.0, 5.0], x_high=[1.0, 1.0, 6.0], w=[1.0, 3.0, 2.0])
    boxes = CountedBoxes.of(released, ["x"], weight="w").meeting(["x"])
    assert sorted(boxes.weight) == [2.0, 4.0]
    assert dict(zip(boxes.weight, boxes.parts, strict=True)) == {
        4.0: 1,
        2.0: 1,
    }  # unequal weights cannot be dealt out


def test_equal_weights_can_be_dealt_out():
    released = table(x_low=[0.0, 0.0], x_high=[1.0, 1.0], w=[3.0, 3.0])
    boxes = CountedBoxes.of(released, ["x"], weight="w").meeting(["x"])
    assert boxes.parts.tolist() == [2]
    split = boxes.split_into_records(10)
    assert split.weight.tolist() == [3.0, 3.0]
    assert split.box.tolist() == [0, 0]
    assert boxes.split_into_records(1) is boxes


def test_it_is_open_which_weights_are_missing():
    released = table(x_low=[0.0] * 3, x_high=[1.0] * 3, x_missing=[1] * 3, w=[1.0, 2.0, 5.0])
    boxes = CountedBoxes.of(released, ["x"], weight="w").meeting(["x"])
    assert boxes.weight[0] <= 3.0  # the heaviest may be the missing one
    assert boxes.weight[0] + boxes.extra[0] >= 7.0  # or the lightest


def test_the_names_of_a_release_are_those_of_the_original():
    released = table(age_low=[1], age_high=[2], age_missing=[0], sex=["F"], box=[1], odd_low=[3])
    assert original_names(released.names) == ("age", "sex", "box", "odd_low")


def test_nothing_that_can_be_shown_holds_a_cell():
    read = CountedBoxes.make(["x"], [[123456.0]], [[654321.0]])
    assert "123456" not in repr(read)
    assert "123456" not in repr(read.meeting(["x"]))


@pytest.mark.parametrize(
    "columns",
    [
        {"x_low": [2.0], "x_high": [1.0]},
        {"x_low": [np.inf], "x_high": [np.inf]},
        {"x_low": [1.0], "x_high": [None]},
        {"x_low": [1.0], "x_high": [2.0], "x_missing": [2]},
    ],
)
def test_impossible_boxes_are_refused(columns):
    with pytest.raises(TableError):
        CountedBoxes.of(table(**columns), ["x"])


def test_unknown_columns_and_bad_weights_are_refused():
    with pytest.raises(StatisticError, match="'z'"):
        CountedBoxes.of(table(x_low=[1.0], x_high=[2.0]), ["z"])
    with pytest.raises(TableError, match="'w'"):
        CountedBoxes.of(table(x=[1.0], w=[-1.0]), ["x"], weight="w")
    with pytest.raises(StatisticError):
        CountedBoxes.make(["x"], [[0.0]], [[1.0]], count=[0])
    with pytest.raises(StatisticError):
        CountedBoxes.make(["x", "y"], [[0.0]], [[1.0]])
