"""A planted value is in no error, traceback or repr, whatever goes wrong with the file or the frame that holds it."""

from __future__ import annotations

import gzip
import logging
import traceback
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import SfumatoError
from sfumato.schema.hierarchies import Tree
from sfumato.schema.schema import Schema
from sfumato.sources.files import read
from sfumato.sources.frames import as_table

CANARY = "Canary77"
ROW = f"1,{CANARY}\n"
PARQUET = pa.BufferOutputStream()
pq.write_table(pa.table({"a": [CANARY] * 50}), PARQUET)

BROKEN_FILES = {
    "unclosed quote": (f'a,b\n{ROW}3,"{CANARY}\n', {}),
    "quote closed elsewhere": (f'a,b\n1,"{CANARY}\n2,"x\n', {}),
    "too few cells": (f"a,b\n{ROW}{CANARY}\n", {}),
    "too many cells": (f"a,b\n{ROW}1,{CANARY},{CANARY}\n", {}),
    "only a header": (f"{CANARY}\n", {}),
    "wrong encoding": (f"a,b\n1,é{CANARY}\n", {"encoding": "ascii"}),
    "half a character": (f"a,b\n{ROW}".encode("utf-16")[:-1], {}),
    "zero bytes": (f"a,b\n{ROW}".encode() + bytes(20), {}),
    "broken gzip": (gzip.compress(f"a,b\n{ROW * 500}".encode())[:-9], {}),
    "broken parquet": (PARQUET.getvalue().to_pybytes()[:-20], {}),
    "broken arrow": (b"ARROW1\x00\x00" + CANARY.encode() * 20, {}),
    "not what the name says": (CANARY.encode() * 20, {"name": "t.parquet"}),
    "wrong separator": (f"a,b\n{ROW}", {"separator": CANARY}),
    "wrong decimal": (f"a,b\n{ROW}", {"decimal": CANARY[0]}),
}


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


@pytest.mark.parametrize("fault", BROKEN_FILES)
def test_no_cell_gets_out_of_a_broken_file(tmp_path, caplog, capfd, fault):
    content, options = BROKEN_FILES[fault]
    path = tmp_path / options.get("name", "people.csv")
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with caplog.at_level(logging.DEBUG), pytest.raises(SfumatoError) as refusal:
        read(path, **{key: value for key, value in options.items() if key != "name"})
    written = capfd.readouterr()
    assert CANARY not in shown(refusal.value) + caplog.text + written.out + written.err
    assert refusal.value.__context__ is None
    assert refusal.value.__cause__ is None


def test_no_cell_gets_out_of_files_that_do_not_fit_together(tmp_path):
    (tmp_path / "1.csv").write_text(f"a,b\n{ROW}")
    (tmp_path / "2.csv").write_text(f"a\n{CANARY}\n")
    with pytest.raises(SfumatoError) as refusal:
        read(tmp_path / "*.csv")
    assert CANARY not in shown(refusal.value)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": pd.Series([1, CANARY], dtype=object)}),
        pd.DataFrame({"a": pd.Series([{CANARY: 1}])}),
        pd.DataFrame({"a": pd.Series([CANARY.encode()])}),
        {"a": [CANARY], "b": [CANARY, CANARY]},
        {"a": CANARY},
        [CANARY],
    ],
)
def test_no_cell_gets_out_of_a_frame_that_is_refused(frame):
    with pytest.raises(SfumatoError) as refusal:
        as_table(frame)
    assert CANARY not in shown(refusal.value)


@pytest.mark.parametrize("kind", ["whole", "continuous", "date", "boolean", "ordered"])
def test_no_cell_gets_out_of_a_kind_that_does_not_fit(kind):
    with pytest.raises(SfumatoError) as refusal:
        Schema.for_table(as_table({"a": [CANARY, "x"]}), {"a": {"role": "quasi", "kind": kind}})
    assert CANARY not in shown(refusal.value)


@pytest.mark.parametrize(
    "content", [f"{CANARY};x\ny\n", f"{CANARY};x\n{CANARY};y\n", f"{CANARY};\ny;z\n", f'"{CANARY};x\n']
)
def test_no_value_gets_out_of_a_broken_tree(tmp_path: Path, content):
    (tmp_path / "tree.csv").write_text(content)
    with pytest.raises(SfumatoError) as refusal:
        Tree.read(tmp_path / "tree.csv")
    assert CANARY not in shown(refusal.value)
