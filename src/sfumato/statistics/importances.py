"""How often each statistic was asked for, counted in SQL queries or in a log of statistics (XF §IV).

"Based on the previous experience, we know how many times users were looking for values of different statistical
characteristics": these shares p_C are the importances of the kept statistics. DuckDB parses a query to a tree of
expressions and executes nothing. What is not understood is counted by its reason, and never guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.errors import OptionError, ReadError, StatisticError
from sfumato.statistics.combined import Combination, GroupedStatistic, ShareMeeting
from sfumato.statistics.conditions import ALWAYS, Predicate
from sfumato.statistics.language import parse
from sfumato.statistics.sql_queries import NotCounted, Requests, SqlReader, split_statements
from sfumato.statistics.statistic import ConditionalStatistic, Statistic
from sfumato.statistics.tallies import Count, Sum

NOT_A_STATISTIC = "not understood as a statistic"
LEFT_OUT = "a count, share or comparison by conditions, which are left out"


@dataclass(frozen=True, kw_only=True)
class Importances:
    """How often each statistic was asked for.

    Attributes
    ----------
    counts : mapping of str to int
        Number of queries that asked for each statistic, the most frequent first.
    queries : int
        Number of queries, or lines of a log, that were read.
    unread : mapping of str to int
        What was not counted: reasons, and how many queries or parts of queries each concerns. It quotes no query.
    conditions_left_out : int
        Number of statistics that were counted without their condition.

    Examples
    --------
    >>> import sfumato as sf
    >>> asked = sf.importances(["mean(age)", "mean(age)", "corr(age, income)", "median(age)"])
    >>> asked.keep
    ['mean(age)', 'corr(age, income)']
    >>> round(asked.importance["mean(age)"], 3)
    0.667
    """

    counts: Mapping[str, int]
    queries: int
    unread: Mapping[str, int]
    conditions_left_out: int = 0

    @property
    def keep(self) -> list[str]:
        """The statistics for which boxes can be cut, for the option ``keep`` of ``Boxes``.

        Quantiles, tests and survival are left out, because it is not known how a record changes them, and so is the
        number of all rows, which every release tells.
        """
        return [text for text in self.counts if _can_be_kept(parse(text))]

    @property
    def importance(self) -> dict[str, float]:
        """The share of each statistic of ``keep`` in all requests for them, p_C, for the option ``importance``."""
        kept = self.keep
        total = sum(self.counts[text] for text in kept)
        return {text: self.counts[text] / total for text in kept}

    def to_pandas(self) -> Any:
        """Return a pandas data frame with one row per statistic: its text, its count and its importance."""
        import pandas as pd

        shares = self.importance
        rows = [(text, times, shares.get(text, 0.0)) for text, times in self.counts.items()]
        return pd.DataFrame(rows, columns=["statistic", "queries", "importance"])

    def __str__(self) -> str:
        lines = [f"{times:>8,}  {text}" for text, times in self.counts.items()]
        head = f"{len(self.counts):,} statistics in {self.queries:,} queries"
        if self.conditions_left_out:
            head += f"; conditions left out: {self.conditions_left_out:,}"
        left = [f"{times:>8,}  not counted: {reason}" for reason, times in self.unread.items()]
        return "\n".join([head, *lines, *left])


def importances(
    queries: str | Path | Iterable[str],
    *,
    table: str | None = None,
    columns: Sequence[str] | None = None,
    conditions: bool = False,
) -> Importances:
    """Count how often each statistic was asked for, to keep what people use.

    In SQL these are understood: avg, sum, count, var, stddev (of a sample, as in DuckDB and PostgreSQL, and
    ``_pop``), covar, corr, regr_slope, regr_intercept, median, quantile_cont, min and max of a column; ``FILTER``,
    ``CASE WHEN … THEN 1 ELSE 0 END``, ``WHERE`` and ``GROUP BY`` columns. Arithmetic around them is looked through:
    ``sum(x) / count(*)`` asks for a sum and a count. Subqueries and common table expressions that only choose columns
    and rows are looked through, and so are unions. Everything else, such as a join, is counted in ``unread`` by its
    reason. A statistic counts once per query. No query is executed. Quoted names, comments and parameters may be those
    of PostgreSQL, MySQL, SQL Server or BigQuery.

    Parameters
    ----------
    queries : str, path or iterable of str
        A file with SQL statements that end with ``;`` (name ends with ``.sql``); any other text file, a log with one
        statistic such as ``mean(age)`` or one query per line, also that of a PostgreSQL or MySQL server; or such
        lines. Empty lines and lines that begin with ``#`` or ``--`` are skipped.
    table : str, optional
        Name of the table: queries of other tables are not counted. Default: queries of any single table.
    columns : sequence of str, optional
        Names of the columns of the table. SQL names match them in any case, and statistics of other columns are not
        counted. Default: names are taken as they are written.
    conditions : bool, default False
        Keep the conditions of ``WHERE``, ``FILTER`` and ``|``. They quote values, perhaps those of a person that
        somebody looked for, and the manifest publishes the kept statistics: look at the result before you use it.
        By default a statistic is counted without its condition.

    Returns
    -------
    Importances
        The counts, with ``keep`` and ``importance`` for ``Boxes``.

    Examples
    --------
    >>> import sfumato as sf
    >>> log = ["SELECT avg(age), corr(age, income) FROM people", "SELECT avg(age) FROM people WHERE sex = 'f'"]
    >>> asked = sf.importances([*log, "mean(age)", "SELECT name FROM people"])
    >>> print(asked)
    2 statistics in 4 queries; conditions left out: 1
           3  mean(age)
           1  corr(age, income)
           1  not counted: a query without a statistic
    >>> asked.importance
    {'mean(age)': 0.75, 'corr(age, income)': 0.25}
    >>> boxes = sf.Boxes(k=5, keep=asked.keep, importance=asked.importance)
    """
    reader = SqlReader(table, None if columns is None else tuple(columns), conditions)
    counts: Counter[str] = Counter()
    unread: Counter[str] = Counter()
    read, left_out = 0, 0
    for text, is_sql in _read(queries):
        found = _requests(text, reader, is_sql=is_sql)
        counts.update({str(one) for one in found.statistics})
        unread.update(found.unread)
        read, left_out = read + 1, left_out + found.left_out
    return Importances(
        counts=dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))),
        queries=read,
        unread=dict(sorted(unread.items(), key=lambda one: (-one[1], one[0]))),
        conditions_left_out=left_out,
    )


def _can_be_kept(statistic: Statistic) -> bool:
    """Return whether it is known how a record changes a statistic, so that boxes can be cut for it."""
    from sfumato.statistics.hypothesis_tests import OddsRatio, RelativeRisk
    from sfumato.statistics.model_fit import Model

    if isinstance(statistic, GroupedStatistic):
        inner = statistic.statistic
        return not inner.terms and (isinstance(inner, Count) or _can_be_kept(inner))
    inner = statistic.unconditional
    if isinstance(inner, Combination):
        return _can_be_kept(inner.first) and _can_be_kept(inner.second)
    if isinstance(inner, Count):
        return bool(inner.columns)
    return inner.is_characteristic or isinstance(inner, Sum | ShareMeeting | Model | OddsRatio | RelativeRisk)


# Texts: statements of a file, and lines of a log.


LOGGED = re.compile(r"\b(?:statement:|execute [^:]*:|Query\b)\s*(?=\(*\s*(?:select|with)\b)", re.IGNORECASE)  # servers
IS_SQL = re.compile(r"\s*\(*\s*(select|with)\b", re.IGNORECASE)


def _read(queries: str | Path | Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each query or line, and whether it is SQL."""
    if not isinstance(queries, str | Path):
        for line in queries:
            if not isinstance(line, str):
                raise OptionError("Queries must be texts.", found=type(line).__name__)
            yield from _read_line(line)
        return
    try:
        text = Path(queries).read_text(encoding="utf-8-sig", errors="replace")
    except (OSError, ValueError):
        text = None
    if text is None:
        raise ReadError("Queries must be the path of a text file that can be read, or a list of texts.")
    if Path(queries).suffix.lower() == ".sql":
        for statement in split_statements(text):
            yield statement, True
        return
    for line in text.replace("\n\t", " ").splitlines():  # PostgreSQL writes further lines of a query with a tab
        yield from _read_line(line)


def _read_line(line: str) -> Iterator[tuple[str, bool]]:
    logged = LOGGED.search(line)
    query = line[logged.end() :] if logged else line
    if IS_SQL.match(query):
        for statement in split_statements(query):
            yield statement, True
    elif line.strip() and not line.lstrip().startswith(("#", "--")):
        yield line, False


def _requests(text: str, reader: SqlReader, *, is_sql: bool) -> Requests:
    """Return the statistics of a query or of a line, without their conditions unless these are wanted."""
    try:
        found = reader.read(text) if is_sql else Requests((_read_statistic(text, reader.columns),))
    except NotCounted as problem:
        return Requests(unread=(problem.reason,))
    if reader.conditions:
        return found
    kept, unread, left_out = [], list(found.unread), found.left_out
    for one in found.statistics:
        try:
            bare = _drop_conditions(one)
        except NotCounted as problem:
            unread.append(problem.reason)
            continue
        kept.append(bare)
        left_out += bare != one
    return Requests(tuple(kept), tuple(unread), left_out)


def _read_statistic(line: str, columns: Sequence[str] | None) -> Statistic:
    try:
        return parse(line, columns)
    except StatisticError:
        raise NotCounted(NOT_A_STATISTIC) from None


def _drop_conditions(statistic: Statistic) -> Statistic:
    """Return a statistic of all records; raise if it is nothing without the values that its conditions name."""
    if isinstance(statistic, GroupedStatistic):
        return replace(statistic, statistic=_drop_conditions(statistic.statistic))
    inner = statistic.unconditional if isinstance(statistic, ConditionalStatistic) else statistic
    if any(one.value is not None for one in _predicates(inner)):
        raise NotCounted(LEFT_OUT)
    return inner if any(one.value is not None for one in _predicates(statistic)) else statistic


def _predicates(statistic: Statistic) -> Iterator[Predicate]:
    """Yield the comparisons with values that a statistic contains."""
    yield from getattr(statistic, "condition", ALWAYS).leaves()
    for part in (getattr(statistic, name, None) for name in ("statistic", "first", "second")):
        if isinstance(part, Statistic):
            yield from _predicates(part)
