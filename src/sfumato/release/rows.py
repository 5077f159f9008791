"""Released rows in their files, read and grouped part by part, and released rows as data frames."""

from __future__ import annotations

import contextlib
import re
import sys
import weakref
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import OptionError, ReadError, items_without_cause
from sfumato.formats.isolated import invalid_cells
from sfumato.machine import processors
from sfumato.params import Flag
from sfumato.plan.questions import Answers, PartialAnswers
from sfumato.table.intervals import BOX, Intervals, high_name, interval_names, is_interval, low_name
from sfumato.table.kinds import invalid_columns
from sfumato.table.table import CountedRows, Table, pandas_frame, polars_frame

if TYPE_CHECKING:
    from sfumato.plan.questions import Question
    from sfumato.release.manifest import Manifest
    from sfumato.table.kinds import Kind

T = TypeVar("T")
MANY_ROWS = 20_000_000  # stored rows from which statistics are computed in parts
MOST_TOGETHER = 1_000_000  # rows of a file that are read together where memory is limited


class StoredTable(Table):
    """A table in Parquet files, the parts of a release.

    Names, kinds and the number of rows are known at once. ``arrow`` and everything that needs all rows read all files,
    and keep them; :meth:`parts` and :meth:`counted` read one file at a time.
    """

    def __init__(
        self, files: Sequence[Path], kinds: Mapping[str, Kind], rows: int, most_rows: int | None = None
    ) -> None:
        vars(self).update(files=tuple(files), kinds=dict(kinds), labels={}, _rows=rows, most_rows=most_rows)

    files: tuple[Path, ...]
    most_rows: int | None  # that are read together; None: those of a file

    @classmethod
    def of(cls, place: Path, kinds: Mapping[str, Kind], most_rows: int | None = None) -> StoredTable:
        """Return the table in all Parquet files of a folder, or in one file."""
        files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
        if not all(file.is_file() for file in files):  # a pipe or a device would be read without an end
            raise ReadError("The parts of a release must be files.", fix="get a new copy from its source")
        return cls(files, kinds, sum(rows_in(file) for file in files), most_rows)

    def owning(self, remove: Callable[[], None]) -> StoredTable:
        """Return this table, whose files are removed when it is forgotten, or at the end of the process."""
        object.__setattr__(self, "_removal", weakref.finalize(self, remove))
        return self

    def outlive(self) -> None:
        """Keep files that the table owns until the process ends: something else reads them, too."""
        if "_removal" in self.__dict__ and self not in _READ_ELSEWHERE:
            _READ_ELSEWHERE.append(self)

    @cached_property
    def arrow(self) -> pa.Table:
        """All rows; they are read when they are first asked for."""
        return pa.concat_tables([part.arrow for part in self.parts()]).unify_dictionaries()

    @property
    def rows(self) -> int:
        return int(self._rows)  # type: ignore[attr-defined]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.kinds)

    def parts(self, names: Sequence[str] | None = None) -> Iterator[Table]:
        for file in self.files:
            yield from _read_parts(file, self.names if names is None else names, self.kinds, self.most_rows)

    def select(self, names: Sequence[str]) -> Table:
        self.require(names)
        if "arrow" in self.__dict__:
            return super().select(names)
        kinds = {name: self.kinds[name] for name in names}
        parts = [part.arrow for part in self.parts(names)]
        return Table(pa.concat_tables(parts).unify_dictionaries(), kinds)

    def thinned(self, names: Sequence[str], most: int) -> Table:
        self.require(names)
        step = max(1, -(-self.rows // most))
        before = np.cumsum([0, *map(rows_in, self.files[:-1])]).tolist()  # rows of the files before each

        def thin(file: Path, rows: int) -> pa.Table:
            part = next(_read_parts(file, names, self.kinds, None))
            return part.arrow.take(pa.array(np.arange(-rows % step, part.rows, step)))

        with ThreadPoolExecutor(processors()) as pool:
            kept = list(pool.map(thin, self.files, before))
        return Table(pa.concat_tables(kept).unify_dictionaries(), {name: self.kinds[name] for name in names})

    def take(self, positions: Any) -> Table:
        return Table(self.arrow, self.kinds).take(positions)

    def numbers(self, name: str) -> Any:
        return self.select([name]).numbers(name)

    def coded(self, name: str) -> Any:
        return self.select([name]).coded(name)

    def counted(self, names: Sequence[str]) -> CountedRows:
        """Group each part by these columns, and then the groups of all parts."""
        self.require(names)
        groups = [CountedRows.of(part, names) for part in self.parts(names)]
        return CountedRows.merge(groups, names)


def is_large(table: Table) -> bool:
    """Return whether a table is stored in files and has too many rows for what needs all its groups in memory."""
    return isinstance(table, StoredTable) and table.rows > (table.most_rows or MANY_ROWS)


_READ_ELSEWHERE: list[StoredTable] = []  # tables whose files frames of Spark read, which cannot hold on to them


def rows_in(file: Path) -> int:
    """Return the number of rows of a Parquet file; raise a ReadError if it is broken."""
    import pyarrow.parquet as pq

    rows = None
    with contextlib.suppress(pa.ArrowException, OSError):
        rows = pq.read_metadata(file).num_rows
    if rows is None:
        raise ReadError(f"{file.name} is a broken Parquet file.", fix="get a new copy from its source")
    return int(rows)


def _read_parts(file: Path, names: Sequence[str], kinds: Mapping[str, Kind], most_rows: int | None) -> Iterator[Table]:
    """Yield the rows of a file, at most so many together; raise a ReadError if it is broken or has other columns."""
    import pyarrow.parquet as pq

    def tables() -> Iterator[pa.Table]:
        if most_rows is None:
            yield pq.read_table(file, columns=list(names), partitioning=None)
            return
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(min(most_rows, MOST_TOGETHER), columns=list(names), use_threads=False):
                yield pa.Table.from_batches([batch])

    broken = ReadError(f"{file.name} is a broken Parquet file, or has other columns.", fix="get a new copy")
    for arrow in items_without_cause(tables(), (pa.ArrowException, OSError, ValueError), lambda _: broken):
        if arrow.column_names != list(names):
            raise broken
        if wrong := invalid_columns(arrow):
            raise invalid_cells(wrong, file=file.name)
        plain = Table.from_arrow(arrow, {name: kinds[name] for name in names})
        yield Table(plain.arrow, {name: kinds[name] for name in names})


Ask = Callable[[Sequence["Question[Any]"]], Mapping["Question[Any]", Any]]


def ask_rows(table: Table, questions: Sequence[Question[Any]]) -> Mapping[Question[Any], Any]:
    """Answer questions about released rows in one pass, one part after the other."""
    partials = PartialAnswers(questions)
    if not isinstance(table, StoredTable):
        return partials.add(table.parts(partials.reads)).finish()
    from sfumato.release.verify import AskedOfRelease, PartTallies, count_in_shares

    counted = (PartTallies(tuple(one.of(part) for one in questions)) for part in table.parts(partials.reads))
    told = count_in_shares([AskedOfRelease(one) for one in questions], counted, table.rows)
    return {question: question.finish(own[0]) for question, own in zip(questions, told.of_claims, strict=True)}


@dataclass(frozen=True, kw_only=True)
class MarginalError:
    """How many rows the released counts of the bins of some columns miss in all, at most.

    Attributes
    ----------
    columns : tuple of str
        One column or two; all columns for the cells of private boxes.
    rows : int
        Bound of Σ |count in the original − released count|, in rows. A row in a wrong bin counts twice.
    is_measured : bool
        Whether these counts were measured. If not, the bound follows from what was measured in their place.
    probability : float
        Probability with which the bound holds.
    """

    columns: tuple[str, ...]
    rows: int
    is_measured: bool
    probability: float = 0.95


class ReleasedFrames:
    """Ways to get the rows of a release as data frames, and answers about them."""

    table: Table
    manifest: Manifest | None
    _ask: Ask | None

    @cached_property
    def _known(self) -> dict[Any, Any]:
        return {}

    def answers(self, questions: Iterable[Question[Any]]) -> Answers:
        """Answer questions about the released rows; each is answered once, all that are new in one pass."""
        new = [one for one in dict.fromkeys(questions) if one not in self._known]
        if new:
            self._known.update((self._ask or partial(ask_rows, self.table))(new))
        return Answers(self._known)

    def once(self, compute: Callable[[Self], T]) -> T:
        """Return what a function of the released rows returns, which is computed when it is first asked for."""
        if compute not in self._known:
            self._known[compute] = compute(self)
        return self._known[compute]  # type: ignore[no-any-return]

    def knowing(self, other: ReleasedFrames) -> Self:
        """Return this release with what is known of another object with the same rows."""
        self._known.update(other._known)
        return self

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The column names that statistics can use."""

    @property
    def marginal_errors(self) -> tuple[MarginalError, ...]:
        """How far the counts of columns, and of pairs of them, may be from those of the original.

        Only differentially private releases tell it; it is empty for others. Each bound holds with its probability over
        the noise, and also covers the model that rows were drawn from.

        Examples
        --------
        >>> import numpy as np, sfumato as sf
        >>> people = {"age": np.random.default_rng(0).normal(50.0, 15.0, 5000).clip(0, 100)}
        >>> schema = {"age": {"role": "quasi", "domain": [0, 100]}}
        >>> release = sf.PrivateSynthesis(epsilon=1.0).release(people, schema=schema)
        >>> release.marginal_errors[0].columns, release.marginal_errors[0].probability
        (('age',), 0.95)
        """
        notes: Any = () if self.manifest is None else self.manifest.notes.get("errors") or ()
        return tuple(
            MarginalError(columns=tuple(one["columns"]), rows=int(one["rows"]), is_measured=bool(one["measured"]))
            for one in notes
        )

    def to_arrow(self, *, midpoints: bool = False, ends: bool | None = None) -> pa.Table:
        """Return the released rows as an Arrow table.

        Parameters
        ----------
        midpoints : bool, default False
            Whether a column ``x`` that was released as an interval gets a column ``x`` with the midpoints, in place of
            ``x_low`` and ``x_high``. Midpoints of dates are dates. Statistics of midpoints are not those of the
            original; :meth:`estimate` says how far off they may be.
        ends : bool, optional
            Whether to return ``x_low`` and ``x_high``. By default the opposite of ``midpoints``; with True for both,
            there are three columns.

        Returns
        -------
        pyarrow.Table
            One row per released row. Ordered categories stay ordered, and booleans boolean.

        Examples
        --------
        >>> import sfumato as sf
        >>> boxes = sf.read_release({"age_low": [20, 40], "age_high": [30, 51], "sex": ["f", "m"]})
        >>> boxes.to_arrow().column_names
        ['age_low', 'age_high', 'sex']
        >>> boxes.to_arrow(midpoints=True).to_pydict()
        {'age': [25.0, 45.5], 'sex': ['f', 'm']}
        """
        return released_columns(self.table, self.names, midpoints=midpoints, ends=ends)

    def to_pandas(self, *, midpoints: bool = False, ends: bool | None = None) -> Any:
        """Return the released rows as a pandas data frame; for parameters see :meth:`to_arrow`.

        Whole numbers and booleans with missing cells get nullable types.

        Examples
        --------
        >>> import sfumato as sf
        >>> boxes = sf.read_release({"age_low": [20, 40], "age_high": [30, 51]})
        >>> boxes.to_pandas(midpoints=True)["age"].mean()
        np.float64(35.25)
        """
        return pandas_frame(self.to_arrow(midpoints=midpoints, ends=ends))

    def to_polars(self, *, midpoints: bool = False, ends: bool | None = None) -> Any:
        """Return the released rows as a polars data frame; for parameters see :meth:`to_arrow`.

        Ordered categories become an Enum.

        Examples
        --------
        >>> import sfumato as sf
        >>> boxes = sf.read_release({"age_low": [20, 40], "age_high": [30, 51]})
        >>> boxes.to_polars(midpoints=True)["age"].to_list()
        [25.0, 45.5]
        """
        return polars_frame(self.to_arrow(midpoints=midpoints, ends=ends))

    def to_spark(self, session: Any = None) -> Any:
        """Return the released rows as a frame of Spark; rows in files are read by the executors, not by the driver.

        Intervals are the columns ``x_low`` and ``x_high``, and ordered categories are text.

        Parameters
        ----------
        session : pyspark.sql.SparkSession, optional
            The session of the frame. Default: the active one.

        Returns
        -------
        pyspark.sql.DataFrame
            One row per released row. If a release that was made without ``into`` keeps its rows in temporary files,
            these stay until the process ends.

        Examples
        --------
        >>> import sfumato as sf
        >>> boxes = sf.read_release({"age_low": [20, 40], "age_high": [30, 51]})
        >>> boxes.to_spark(session).count()  # doctest: +SKIP
        2
        """
        sql = sys.modules.get("pyspark.sql")  # if there is a session, its library has been imported
        session = session or (sql.SparkSession.getActiveSession() if sql else None)
        if session is None:
            raise OptionError("A frame of Spark needs a session.", found="no active one", fix="to_spark(session)")
        if isinstance(self.table, StoredTable):
            self.table.outlive()
            return session.read.parquet(*(file_url(file) for file in self.table.files))
        columns = [
            column.cast(column.type.value_type) if pt.is_dictionary(column.type) else column
            for column in self.table.arrow.columns
        ]
        return session.createDataFrame(pa.table(columns, names=list(self.table.names)))

    def to_features(self) -> Any:
        """Return numeric features for machine learning, one row per released row, as a pandas data frame.

        An interval of ``x`` becomes its midpoint ``x`` and its width ``x_width``; a category one column ``x=value`` per
        value, with the share of the value among those that the row may have. Missing values are NaN.

        Examples
        --------
        >>> import sfumato as sf
        >>> sf.read_release({"age_low": [20, 40], "age_high": [30, 51]}).to_features().to_dict("list")
        {'age': [25.0, 45.5], 'age_width': [10.0, 11.0]}
        """
        known = {BOX} if self.manifest is None else {column.name for column in self.manifest.columns}
        names = [name for name in self.names if name != BOX or name in known]
        return feature_frame(self.table, names, self.manifest.sets if self.manifest else None)

    def _repr_html_(self) -> str:
        """Show verdict, promises, distributions and columns in a notebook; no cells."""
        from sfumato.report.notebook import show_release

        return show_release(self)  # type: ignore[arg-type]  # a Release, the only one with these frames

    def __repr__(self) -> str:
        origin = f"{self.manifest.method}; {self.manifest.guarantee}" if self.manifest else "without a manifest"
        return f"Release({self.table.rows:,} rows × {len(self.table.names)} columns, {origin})"


GLOB = re.compile(r"([\\{}\[\]*?])")  # characters that Spark takes for a pattern


def file_url(file: Path) -> str:
    """Return the path of a local file for Spark, which would take some characters for a pattern."""
    return "file://" + GLOB.sub(r"\\\1", str(file.absolute()))


def feature_frame(released: Table, names: Sequence[str], sets: Collection[str] | None) -> Any:
    """Return midpoints, widths, and shares of the members of sets, as numbers."""
    import pandas as pd

    from sfumato.statistics.released_columns import read_members

    columns: dict[str, Any] = {}
    for name in names:
        if is_interval(name, released.kinds):
            ends = Intervals.of(released, name)
            columns |= {name: ends.midpoints, f"{name}_width": ends.high - ends.low}
        elif released.kinds[name].is_numeric:
            columns[name] = released.numbers(name)
        else:
            coded, members = read_members(released, name, sets)
            shown = sorted({one for each in members for one in each if isinstance(one, str)})
            for value in shown:
                shares = np.array([sum(one == value for one in each) / len(each) for each in members])
                columns[f"{name}={value}"] = shares[coded.codes]
    return pd.DataFrame(columns)


def released_columns(
    released: Table, names: Sequence[str], *, midpoints: bool = False, ends: bool | None = None
) -> pa.Table:
    """Return the released columns, each interval as its two ends, as its midpoint ``x``, or as both.

    ``names`` are the columns of the original that the release shows.
    ``ends`` is the opposite of ``midpoints`` by default. All other columns are as they were released,
    also an ``x`` beside its ends, such as a sampling weight.
    """
    with_ends = not midpoints if ends is None else ends
    for name, value in (("midpoints", midpoints), ("ends", with_ends)):
        Flag().check(value, name)
    if not (midpoints or with_ends):
        raise OptionError("Intervals need midpoints, ends or both.", found="neither", fix="midpoints=True")
    if not midpoints:
        return released.arrow
    boxed = [name for name in names if is_interval(name, released.kinds)]
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    first = {low_name(name): name for name in boxed}
    hidden = {end for name in boxed for end in interval_names(name)} if not with_ends else set()
    for name in released.names:
        if name in first:
            columns[first[name]] = _midpoints(released, first[name])
        if name not in hidden:
            columns[name] = released.arrow.column(name)
    return pa.table(columns)


def _midpoints(released: Table, name: str) -> pa.Array:
    """Return the centres of intervals: numbers, or dates and times of the type of the ends; missing without an end."""
    middle = Intervals.of(released, name).midpoints
    kind = released.arrow.schema.field(high_name(name)).type
    is_missing = np.isnan(middle)
    if not (pt.is_date(kind) or pt.is_timestamp(kind)):
        return pa.array(middle, mask=is_missing)
    whole = pa.array(np.floor(np.where(is_missing, 0.0, middle)).astype(np.int64), mask=is_missing)
    if pt.is_date(kind):
        return whole.cast(pa.int32()).cast(pa.date32())
    return whole.cast(pa.timestamp("us", tz=kind.tz))
