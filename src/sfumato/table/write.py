"""Write an Arrow table as a text file, a Parquet file or an Arrow file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from sfumato.errors import OptionError
from sfumato.formats.arrow_files import write_arrow, write_parquet
from sfumato.params import require_choice
from sfumato.table.files import is_unfinished as is_unfinished  # moved
from sfumato.table.files import write_whole as write_whole  # moved
from sfumato.table.table import pandas_frame as pandas_frame  # moved
from sfumato.table.table import polars_frame as polars_frame  # moved
from sfumato.table.text import write_text

FORMULAS = ("keep", "escape")


def write(arrow: pa.Table, path: str | Path, *, formulas: str = "escape") -> None:
    """Write an Arrow table in the format of the file extension: .csv, .tsv, .parquet, .arrow or .feather.

    In text files a missing cell is empty, so it is read back as missing. An empty string is read back as missing too.
    Spreadsheets take text that begins with = + - @ for a formula: "escape" puts an apostrophe before such text and such
    column names in text files, "keep" writes them unchanged. Numbers and other formats are always exact.
    """
    require_choice(formulas, name="formulas", choices=FORMULAS)
    target = Path(path).expanduser()
    writers: dict[str, Callable[[pa.Table, BinaryIO], None]] = {
        ".csv": lambda arrow, file: write_text(arrow, file, ",", formulas),
        ".tsv": lambda arrow, file: write_text(arrow, file, "\t", formulas),
        ".parquet": write_parquet,
        ".arrow": write_arrow,
        ".feather": write_arrow,
    }
    writer = writers.get(target.suffix.lower())
    if writer is None:
        known = ", ".join(writers)
        raise OptionError(f"The file must have one of the extensions {known}.", found=repr(target.suffix))
    write_whole(target, lambda file: writer(arrow, file))
