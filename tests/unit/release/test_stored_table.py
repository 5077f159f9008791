"""Released rows in files: what is read of them equals what a table in memory has."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from sfumato.release.rows import StoredTable
from sfumato.table.kinds import Kind
from sfumato.table.table import Table


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 12))
def test_every_nth_row_is_that_of_the_whole_table_however_the_files_are_cut(sizes, most):
    cells = pa.table({"x": np.arange(sum(sizes)), "y": np.arange(sum(sizes)) * 2.0})
    rows = Table(cells, {"x": Kind.WHOLE, "y": Kind.CONTINUOUS})
    with tempfile.TemporaryDirectory() as folder:
        start = 0
        for number, size in enumerate(sizes):
            pq.write_table(rows.arrow.slice(start, size), Path(folder) / f"{number}.parquet")
            start += size
        found = StoredTable.of(Path(folder), rows.kinds).thinned(["y", "x"], most)
    assert found.rows <= most
    assert found.arrow.equals(rows.thinned(["y", "x"], most).arrow)
