"""Released rows in files: what is read of them equals what a table in memory has."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import OptionError, ReadError
from sfumato.release import read
from sfumato.release.moments_in_parts import NOTE
from sfumato.release.read import verify_bundle
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


class TestAReleaseThatNeedsMoreThanTheMemory:
    """It stays in its file, and is read and counted part by part."""

    LITTLE = "1MB"

    @pytest.fixture
    def bundle(self, tmp_path, monkeypatch):
        draw = np.random.default_rng(0)
        people = {"age": draw.integers(20, 80, 2000), "income": draw.lognormal(10, 1, 2000), "sex": ["f", "m"] * 1000}
        roles = {"age": "quasi", "income": "quasi", "sex": "sensitive"}
        sf.Boxes(k=5, l=2).release(people, schema=roles, into=tmp_path / "out")
        monkeypatch.setattr(read, "CELL_BYTES", 10**5)  # a few hundred rows together
        return tmp_path / "out"

    def test_it_is_verified_and_read_in_parts(self, bundle, tmp_path):
        whole, limited = sf.read_release(bundle), sf.read_release(bundle, memory=self.LITTLE)
        assert isinstance(limited.table, StoredTable) and not isinstance(whole.table, StoredTable)
        parts = list(limited.table.parts())
        assert len(parts) > 5 and sum(part.rows for part in parts) == 2000
        assert (
            pa.concat_tables([part.arrow for part in parts])
            .unify_dictionaries()
            .equals(whole.table.arrow.unify_dictionaries())
        )
        checked, before = verify_bundle(bundle, memory=self.LITTLE), verify_bundle(bundle)
        assert checked.holds and checked.recounted == before.recounted
        found, exact = limited.estimate("mean(income)"), whole.estimate("mean(income)")
        assert NOTE in found.notes and found.low <= exact.low + 1e-6 and exact.high - 1e-6 <= found.high
        assert sf.read_release(bundle, memory="8GB", verify=False).table.rows == 2000

    def test_a_broken_promise_is_found(self, bundle):
        rows = pq.read_table(bundle / "released.parquet")
        alone = rows.slice(0, 1).set_column(0, rows.column_names[0], pa.array([19], rows.schema.field(0).type))
        pq.write_table(pa.concat_tables([alone, rows.slice(1)]), bundle / "released.parquet")
        checked = verify_bundle(bundle, memory=self.LITTLE)
        assert not checked.holds and checked.broken
        (bundle / "released.parquet").write_bytes(b"PAR1 secret 4711 PAR1")
        with pytest.raises(ReadError, match="broken") as error:
            sf.read_release(bundle, memory=self.LITTLE)
        assert "4711" not in str(error.value)

    def test_on_the_command_line(self, bundle, capsys):
        assert run(["verify", str(bundle), "--memory", self.LITTLE]) == 0
        assert run(["estimate", str(bundle), "mean(income)", "--memory", self.LITTLE]) == 0
        assert NOTE.partition(",")[0] in capsys.readouterr().out
        assert run(["verify", str(bundle), "--memory", "much"]) == 2
        with pytest.raises(OptionError, match="amount"):
            sf.read_release(bundle, memory="much")
