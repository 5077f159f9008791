"""The statistics that an SQL query asks for: ``SELECT avg(x) FROM t WHERE … GROUP BY g``.

DuckDB parses a query to a tree of expressions; nothing is executed. What other dialects write differently is put into
its own first. Subqueries and common table expressions that only choose columns and rows of one table are merged with
the query. A query, or a part of it, that is not exactly a statistic of the language is not counted, with a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato.statistics.combined import GroupedStatistic, ShareMeeting, under
from sfumato.statistics.conditions import Condition, Predicate
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.regression import Regression
from sfumato.statistics.tallies import Count, Quantile, Sum

if TYPE_CHECKING:
    from sfumato.statistics.statistic import Statistic

    Node = dict[str, Any]

NOT_SQL = "not understood as SQL"
NOT_SELECT = "not a SELECT statement"
NO_STATISTIC = "a query without a statistic"
SEVERAL_TABLES = "a join, or a subquery that does more than choose columns and rows"
OTHER_TABLE = "a query of another table"
OTHER_COLUMN = "a column that the table does not have"
EXPRESSION = "an expression inside a statistic"
DISTINCT = "DISTINCT inside a statistic"
GROUPS = "groups that are no columns"
WINDOW = "a window function"
CONDITION = "a condition that is no comparison of a column with a value"


class NotCounted(Exception):
    """A query, or a part of it, is not counted. The reason quotes nothing of it."""

    @property
    def reason(self) -> str:
        """Why it is not counted."""
        return str(self.args[0])


@dataclass(frozen=True)
class Requests:
    """What one query asks for."""

    statistics: tuple[Statistic, ...] = ()
    unread: tuple[str, ...] = ()  # a reason for each part that is not counted
    left_out: int = 0  # statistics that are returned without their condition


@dataclass(frozen=True)
class SqlReader:
    """Reads queries of a table."""

    table: str | None  # None: any single table
    columns: tuple[str, ...] | None  # None: names are taken as they are written
    conditions: bool  # whether statistics have the conditions of WHERE and FILTER

    def read(self, sql: str) -> Requests:
        """Return the statistics of the queries in a text; raise NotCounted if there is none."""
        nodes = [arm for node in self._parser.parse(sql) for arm in _arms(node, {})]
        parts = [self._read_select(node) for node in nodes]
        return Requests(
            tuple(one for part in parts for one in part.statistics),
            tuple(reason for part in parts for reason in part.unread),
            sum(part.left_out for part in parts),
        )

    @cached_property
    def _parser(self) -> SqlParser:
        return SqlParser()

    @cached_property
    def _in_any_case(self) -> dict[str, str]:
        return {name.lower(): name for name in self.columns or ()}

    def _read_select(self, node: Node) -> Requests:
        self._require_one_table(node)
        groups, where = self._groups(node), node.get("where_clause")
        found: list[Statistic] = []
        unread: list[str] = []
        left_out = 0
        for call in self._parser.aggregates_in(node.get("select_list") or ()):
            conditions = [one for one in (where, call.get("filter")) if one]
            try:
                statistic = self._statistic(call)
                for one in conditions if self.conditions else ():
                    statistic = under(statistic, self._condition(one))
            except NotCounted as problem:
                unread.append(problem.reason)
                continue
            left_out += bool(conditions and not self.conditions)
            found.append(GroupedStatistic(statistic, groups) if groups else statistic)
        if not found and not unread:
            raise NotCounted(NO_STATISTIC)
        return Requests(tuple(found), tuple(unread), left_out)

    def _require_one_table(self, node: Node) -> None:
        source = node.get("from_table") or {}
        if source.get("type") != "BASE_TABLE":
            raise NotCounted(NO_STATISTIC if source.get("type") == "EMPTY" else SEVERAL_TABLES)
        if self.table is not None and str(source.get("table_name")).lower() != self.table.lower():
            raise NotCounted(OTHER_TABLE)

    def _groups(self, node: Node) -> tuple[str, ...]:
        """Return the columns of GROUP BY, by name, position or alias, or all that are no statistics (GROUP BY ALL)."""
        selected = node.get("select_list") or []
        expressions = node.get("group_expressions") or []
        if node.get("aggregate_handling") == "FORCE_AGGREGATES":
            expressions = [one for one in selected if not any(self._parser.aggregates_in([one]))]
        elif len(node.get("group_sets") or [0]) > 1:
            raise NotCounted(GROUPS)
        named = [_selected(one, selected) for one in expressions]
        if any(one.get("class") != "COLUMN_REF" for one in named):
            raise NotCounted(GROUPS)
        return tuple(dict.fromkeys(map(self._column, named)))

    def _statistic(self, call: Node) -> Statistic:
        """Return the statistic of a call of an aggregate function."""
        if call["class"] != "FUNCTION":
            raise NotCounted(WINDOW if call["class"] == "WINDOW" else SEVERAL_TABLES)
        name, arguments = call["function_name"].lower(), _arguments(call)
        if call.get("distinct"):
            raise NotCounted(DISTINCT)
        if name == "count_star" or (name == "count" and not arguments):
            return Count()
        if arguments and arguments[0].get("class") == "CASE":
            return self._counted_case(name, arguments)
        if name == "count" and len(arguments) == 1:
            return Count(Condition((Predicate(self._column(arguments[0]), "!=", None),)))
        if name in OF_ONE and len(arguments) == 1:
            return OF_ONE[name](self._column(arguments[0]))
        if name in OF_TWO and len(arguments) == 2:
            first, second = map(self._column, arguments)
            if first == second:
                raise NotCounted(EXPRESSION)
            return OF_TWO[name](first, second)
        if name in QUANTILES:
            return self._quantile(call, arguments)
        raise NotCounted(f"the function {name}")

    def _quantile(self, call: Node, arguments: Sequence[Node]) -> Statistic:
        """Return a quantile: ``quantile_cont(x, 0.9)``, or ``percentile_cont(0.9) WITHIN GROUP (ORDER BY x)``."""
        orders = (call.get("order_bys") or {}).get("orders") or []
        column = orders[0]["expression"] if len(arguments) == 1 and orders else arguments[0]
        share = _constant(arguments[-1]) if arguments[-1].get("class") == "CONSTANT" else None
        if share is None or (orders and "DESC" in str(orders[0].get("type"))):
            raise NotCounted(EXPRESSION)
        return Quantile(self._column(column), float(share))

    def _counted_case(self, name: str, arguments: Sequence[Node]) -> Statistic:
        """Return what a call counts: rows, a share of the rows, or the statistic of some rows."""
        checks, otherwise = arguments[0].get("case_checks") or [], _constant(arguments[0].get("else_expr") or {})
        if len(checks) != 1 or len(arguments) != 1:
            raise NotCounted(EXPRESSION)
        then = checks[0]["then_expr"]
        if then.get("class") == "CONSTANT":
            value = _constant(then)
            is_count = name == "count" and value is not None and otherwise is None
            if is_count or (name == "sum" and value == "1" and otherwise in (None, "0")):
                return Count(self._condition(checks[0]["when_expr"]))
            if name in ("avg", "mean") and value == "1" and otherwise == "0":
                return ShareMeeting(self._condition(checks[0]["when_expr"]))
        elif name in OF_ONE and otherwise is None:
            return under(OF_ONE[name](self._column(then)), self._condition(checks[0]["when_expr"]))
        raise NotCounted(EXPRESSION)

    def _column(self, node: Node) -> str:
        """Return the name of a column, perhaps made a floating-point number; nothing else is a column."""
        if node.get("class") == "CAST" and _cast_type(node) in FLOATS:
            node = node["child"]
        if node.get("class") != "COLUMN_REF":
            raise NotCounted(EXPRESSION)
        name = str(node["column_names"][-1])
        if self.columns is None or name in self.columns:
            return name
        if name.lower() not in self._in_any_case:
            raise NotCounted(OTHER_COLUMN)
        return self._in_any_case[name.lower()]

    def _condition(self, node: Node) -> Condition:
        """Return a condition on columns."""
        kind, children = str(node.get("type")), node.get("children") or []
        if kind in ("CONJUNCTION_AND", "CONJUNCTION_OR"):
            return Condition(tuple(map(self._condition, children)), either=kind == "CONJUNCTION_OR")
        if kind == "OPERATOR_NOT":
            return self._condition(children[0]).negated
        if kind in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            return self._compare(children[0], "=" if kind == "OPERATOR_IS_NULL" else "!=", None)
        if kind in ("COMPARE_IN", "COMPARE_NOT_IN"):
            either = Condition(tuple(self._compare(children[0], "=", one) for one in children[1:]), either=True)
            return either if kind == "COMPARE_IN" else either.negated
        if kind == "COMPARE_BETWEEN":
            ends = ((">=", node["lower"]), ("<=", node["upper"]))
            return Condition(tuple(self._compare(node["input"], sign, end) for sign, end in ends))
        if kind not in COMPARISONS:
            raise NotCounted(CONDITION)
        left, right = node["left"], node["right"]
        if left.get("class") == "COLUMN_REF":
            return self._compare(left, COMPARISONS[kind], right)
        return self._compare(right, FLIPPED.get(COMPARISONS[kind], COMPARISONS[kind]), left)

    def _compare(self, column: Node, sign: str, value: Node | None) -> Condition:
        text = None if value is None else _constant(value)
        if column.get("class") != "COLUMN_REF" or (value is not None and text is None):
            raise NotCounted(CONDITION)
        return Condition((Predicate(self._column(column), sign, text),))


def _pair(kind: Callable[[str, str], Statistic]) -> Callable[[str, str], Statistic]:
    """Return a statistic of two columns whose order does not matter: in alphabetical order, it is counted once."""
    return lambda first, second: kind(*sorted((first, second)))


OF_ONE: dict[str, Callable[[str], Statistic]] = {
    **dict.fromkeys(("avg", "mean"), Mean),
    "sum": Sum,
    "median": lambda column: Quantile(column, 0.5),
    "min": lambda column: Quantile(column, 0.0),
    "max": lambda column: Quantile(column, 1.0),
    **dict.fromkeys(("var_pop", "varp"), Variance),
    **dict.fromkeys(("stddev_pop", "stdevp"), Sd),
    **dict.fromkeys(("var_samp", "variance", "var"), lambda column: Variance(column, unbiased=True)),
    **dict.fromkeys(("stddev_samp", "stddev", "stdev"), lambda column: Sd(column, unbiased=True)),
}
OF_TWO: dict[str, Callable[[str, str], Statistic]] = {
    "corr": _pair(Correlation),
    "covar_pop": _pair(Covariance),
    "covar_samp": _pair(lambda first, second: Covariance(first, second, unbiased=True)),
    "regr_slope": lambda response, regressor: Regression(response, (regressor,)).parts()[1],
    "regr_intercept": lambda response, regressor: Regression(response, (regressor,)).parts()[0],
}
QUANTILES = ("quantile_cont", "percentile_cont")
COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "!=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
FLOATS = ("double", "float", "real", "float4", "float8")


# Subqueries that only choose columns and rows.


def _arms(node: Node, named: dict[str, Node]) -> Iterator[Node]:
    """Yield the query, or those of a union, merged with the common table expressions and subqueries they read from."""
    entries = (node.get("cte_map") or {}).get("map") or ()
    named = named | {one["key"].lower(): one["value"]["query"]["node"] for one in entries}
    if node.get("type") == "SET_OPERATION_NODE" and node.get("setop_type") == "UNION":
        for arm in node.get("children") or (node["left"], node["right"]):
            yield from _arms(arm, named)
    elif node.get("type") == "SELECT_NODE":
        yield _merge(node, named)
    else:
        raise NotCounted(SEVERAL_TABLES)


def _merge(node: Node, named: dict[str, Node]) -> Node:
    """Return a query, merged with the one that it reads from."""
    source = node.get("from_table") or {}
    name = str(source.get("table_name")).lower()
    if source.get("type") == "SUBQUERY":
        inner = source["subquery"]["node"]
    elif source.get("type") == "BASE_TABLE" and name in named:
        inner, named = named[name], {other: tree for other, tree in named.items() if other != name}
    else:
        return node
    arms = list(_arms(inner, named))
    if len(arms) > 1 or source.get("column_name_alias") or not _only_chooses(arms[0]):
        raise NotCounted(SEVERAL_TABLES)
    chosen = {_name_of(one): one for one in arms[0]["select_list"] if one["class"] != "STAR"}
    outer = {key: _with_columns(node.get(key), chosen) for key in ("select_list", "group_expressions", "where_clause")}
    wheres = [one for one in (arms[0].get("where_clause"), outer["where_clause"]) if one]
    outer["where_clause"] = {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "children": wheres} if wheres else None
    return node | outer | {"from_table": arms[0]["from_table"]}


def _only_chooses(node: Node) -> bool:
    """Return whether a query only picks, renames and computes columns, and picks rows by a condition."""
    if any(node.get(part) for part in ("group_expressions", "having", "qualify", "sample")):
        return False
    orders = all(one.get("type") == "ORDER_MODIFIER" for one in node.get("modifiers") or ())
    return orders and node.get("aggregate_handling") != "FORCE_AGGREGATES" and _is_rowwise(node["select_list"])


def _is_rowwise(part: Any) -> bool:
    """Return whether expressions call no function, which may need several rows or make some, and change no star."""
    if isinstance(part, dict):
        kind = part.get("class")
        calls = (kind == "FUNCTION" and not part.get("is_operator")) or kind in ("WINDOW", "SUBQUERY")
        changes = kind == "STAR" and any(value for key, value in part.items() if key.endswith("_list") or key == "expr")
        return not calls and not changes and all(map(_is_rowwise, part.values()))
    return all(map(_is_rowwise, part)) if isinstance(part, list) else True


def _name_of(selected: Node) -> str:
    """Return the name that a selected expression has outside."""
    return str(selected.get("alias") or (selected.get("column_names") or [""])[-1]).lower()


def _with_columns(part: Any, chosen: dict[str, Node]) -> Any:
    """Return expressions with what the columns stand for in the query that they are read from."""
    if isinstance(part, list):
        return [_with_columns(one, chosen) for one in part]
    if not isinstance(part, dict):
        return part
    if part.get("class") == "COLUMN_REF" and (inner := chosen.get(part["column_names"][-1].lower())):
        return inner | {"alias": part.get("alias", "")}
    return {key: _with_columns(value, chosen) for key, value in part.items()}


# What other dialects write differently.

PIECE = re.compile(
    r"""(?P<kept>'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<comment>--[^\n]*|/\*.*?\*/|(?<!\S)\#(?=[\s#])[^\n]*)
    |`(?P<name>[^`]+)`|(?<![\w\])"`])\[(?P<bracketed>[^\W\d][\w .$@-]*)\]
    |(?P<value>(?<![:\w]):[^\W\d]\w*|(?<!\w)@\w+|%(?:\(\w+\))?s\b|\$\{[^{}'"]*\}|\{\{[^{}'"]*\}\})
    |(?P<first>\bSELECT\s+(?:DISTINCT\s+)?)TOP\s*(?:\(\s*\d+\s*\)|\d+\b)
    |(?P<hint>\bWITH\s*\(\s*(?:NOLOCK|READUNCOMMITTED)\s*\))
    |(?P<end>;|^[^\S\n]*GO[^\S\n]*$)
    |\w+|\s+|.""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE | re.MULTILINE,
)


def split_statements(text: str) -> Iterator[str]:
    """Yield the statements of a text in DuckDB's dialect and without comments, so that a broken one spoils no other.

    Names in backticks (MySQL, BigQuery) or square brackets (SQL Server) are quoted, and parameters are values.

    Examples
    --------
    >>> list(split_statements("SELECT TOP 5 avg([net pay]) FROM t WHERE a = @a -- why\\nGO"))
    ['SELECT  avg("net pay") FROM t WHERE a = NULL']
    """
    parts: list[str] = []
    for piece in PIECE.finditer(text + "\n;"):
        name = piece["name"] or piece["bracketed"]
        if piece["end"]:
            statement, parts = "".join(parts).strip(), []
            if statement:
                yield statement
        elif name:
            parts.append('"' + name.replace('"', '""') + '"')
        elif piece["value"]:
            parts.append("NULL")
        elif not piece["comment"] and not piece["hint"]:
            parts.append(piece["first"] or piece[0])


# The tree of a query, as DuckDB writes it: versions 1 and 2 differ in arguments, constants and casts.


class SqlParser:
    """DuckDB as a parser: it knows which functions are aggregates, and executes no query."""

    def __init__(self) -> None:
        import duckdb

        self._errors = duckdb.Error
        self._connection = duckdb.connect()
        names = self._connection.execute(
            "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type = 'aggregate'"
        ).fetchall()
        self.aggregates = frozenset(name for (name,) in names) | {"count_star"} | set(OF_ONE) | set(OF_TWO)

    def parse(self, sql: str) -> list[Node]:
        """Return the trees of the queries in a text."""
        tree: Node = {"error": True}
        try:
            answer = self._connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
            tree = json.loads(answer[0]) if answer else tree
        except (self._errors, ValueError, RecursionError):
            pass
        if tree.get("error") or not tree["statements"]:
            raise NotCounted(NOT_SELECT if tree.get("error_type") == "not implemented" else NOT_SQL)
        return [statement["node"] for statement in tree["statements"]]

    def aggregates_in(self, expressions: Iterable[Any]) -> Iterator[Node]:
        """Yield the outermost calls of aggregate functions, of windows and of subqueries in expressions."""
        for one in expressions:
            if isinstance(one, list):
                yield from self.aggregates_in(one)
            elif isinstance(one, dict):
                kind, name = one.get("class"), str(one.get("function_name")).lower()
                is_call = kind == "FUNCTION" and not one.get("is_operator") and name in self.aggregates
                if is_call or kind in ("WINDOW", "SUBQUERY"):
                    yield one
                else:
                    yield from self.aggregates_in(one.values())


def _selected(expression: Node, selected: Sequence[Node]) -> Node:
    """Return the expression of SELECT that one of GROUP BY stands for, by its position or its alias."""
    if expression.get("class") == "CONSTANT":
        place = _constant(expression) or ""
        return selected[int(place) - 1] if place.isdigit() and 0 < int(place) <= len(selected) else expression
    names = expression.get("column_names") or []
    return next((one for one in selected if len(names) == 1 and one.get("alias") == names[0]), expression)


def _arguments(call: Node) -> list[Node]:
    return [one.get("expression", one) for one in call.get("arguments") or call.get("children") or ()]


def _constant(node: Node) -> str | None:
    """Return the text of a constant, also of one that is made a date; None for NULL and everything else."""
    if node.get("class") == "CAST":
        return _constant(node["child"])
    literal, value = node.get("literal"), node.get("value")
    if literal is not None:
        return None if literal.get("kind") == "NULL_LITERAL" else str(literal.get("text", ""))
    if not isinstance(value, dict) or value.get("is_null"):
        return None
    details = value["type"].get("type_info") or {}
    if value["type"].get("id") == "DECIMAL":
        return str(Decimal(value["value"]).scaleb(-int(details.get("scale") or 0)))
    return str(value["value"])


def _cast_type(node: Node) -> str:
    written = (node.get("type_expr") or {}).get("type_name") or (node.get("cast_type") or {}).get("id") or ""
    return str(written).lower()
