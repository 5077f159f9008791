"""Damaged binary files: whatever their bytes are, they give a table or an error of ours, and the process lives on."""

from __future__ import annotations

import traceback

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from sfumato.errors import ReadError, SfumatoError, TableError
from sfumato.sources.files import read
from sfumato.sources.frames import as_table

CANARY = b"Canary77\xff"


def people(rows: int = 400) -> pa.Table:
    draw = np.random.default_rng(0)
    columns = {"age": draw.integers(18, 90, rows), "income": draw.normal(size=rows)}
    words = pa.array(draw.choice(["x", "yy", "zzz"], rows))
    return pa.table({**columns, "word": words, "group": words.dictionary_encode()})


def damaged(raw: bytes, draw: np.random.Generator) -> bytes:
    changed = bytearray(raw)
    for place in draw.integers(8, len(raw), int(draw.integers(1, 30))):
        changed[place] = int(draw.integers(0, 256))
    return bytes(changed)


def not_utf8() -> pa.Table:
    """A table with a text cell that is not UTF-8, as other tools may write it."""
    good = pa.array(["Canary77_", "fine"])
    buffers = good.buffers()
    wrong = pa.StringArray.from_buffers(2, buffers[1], pa.py_buffer(CANARY + b"fine"))
    return pa.table({"age": [1, 2], "word": wrong})


def everything_shown(error: BaseException) -> str:
    held = [error, error.__cause__, error.__context__]
    return "".join("".join(traceback.format_exception(one)) + repr(one) + repr(vars(one)) for one in held if one)


def test_feather_files_of_version_1_are_refused(tmp_path):
    path = tmp_path / "t.feather"
    path.write_bytes(b"FEA1" + bytes(40) + b"FEA1")
    with pytest.raises(ReadError, match="Feather file of version 1"):
        read(path)


@pytest.mark.parametrize("kind", ["feather", "stream"])
def test_a_reader_that_crashes_is_an_error(tmp_path, kind):
    path, draw = tmp_path / "t.arrow", np.random.default_rng(5)
    if kind == "feather":
        feather.write_feather(people(), str(path))
    else:
        with pa.ipc.new_stream(path, people().schema) as stream:
            stream.write_table(people())
    raw = path.read_bytes()
    for _ in range(20):
        path.write_bytes(damaged(raw, draw))
        try:
            assert read(path).rows
        except SfumatoError as error:
            assert error.exit_code == 3


def test_an_undamaged_file_keeps_types_and_dictionaries(tmp_path):
    feather.write_feather(people(), str(tmp_path / "t.feather"))
    assert read(tmp_path / "t.feather").arrow.equals(as_table(people()).arrow)


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.arrow"])
def test_text_that_is_not_utf8_is_refused_by_column_and_shows_no_cell(tmp_path, name):
    path = tmp_path / name
    if name == "t.parquet":
        pq.write_table(not_utf8(), path)
    elif name == "t.feather":
        feather.write_feather(not_utf8(), str(path))
    else:
        with pa.ipc.new_stream(path, not_utf8().schema) as stream:
            stream.write_table(not_utf8())
    with pytest.raises(ReadError, match=r"UTF-8.*'word'") as refusal:
        read(path)
    assert "Canary77" not in everything_shown(refusal.value)


def test_a_frame_with_text_that_is_not_utf8_is_refused():
    with pytest.raises(TableError, match=r"UTF-8.*'word'") as refusal:
        as_table(not_utf8())
    assert "Canary77" not in everything_shown(refusal.value)
