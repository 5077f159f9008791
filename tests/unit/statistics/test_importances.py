"""How often statistics were asked for: what is understood in SQL and in logs, and what is not counted, and why."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import OptionError, ReadError
from sfumato.statistics import sql_queries
from sfumato.statistics.importances import importances
from sfumato.statistics.language import parse


def asked(*queries: str, **options) -> dict[str, int]:
    found = importances(queries, **options)
    assert found.unread == {}
    return dict(found.counts)


def reasons(*queries: str, **options) -> dict[str, int]:
    return dict(importances(queries, **options).unread)


@pytest.mark.parametrize(
    ("sql", "statistic"),
    [
        ("avg(x)", "mean(x)"),
        ("MEAN(x)", "mean(x)"),
        ("avg(t.x)", "mean(x)"),
        ("avg(x::double)", "mean(x)"),
        ('avg("net income")', "mean(net income)"),
        ("sum(x)", "sum(x)"),
        ("count(*)", "count()"),
        ("count(x)", "count(x != (missing))"),
        ("var_pop(x)", "var(x)"),
        ("variance(x)", "var(x, unbiased)"),
        ("stddev(x)", "sd(x, unbiased)"),
        ("stddev_pop(x)", "sd(x)"),
        ("corr(y, x)", "corr(x, y)"),
        ("corr(x, y)", "corr(x, y)"),
        ("covar_pop(y, x)", "cov(x, y)"),
        ("covar_samp(x, y)", "cov(x, y, unbiased)"),
        ("regr_slope(y, x)", "regress(y ~ x): x"),
        ("regr_intercept(y, x)", "regress(y ~ x): intercept"),
        ("median(x)", "median(x)"),
        ("min(x)", "min(x)"),
        ("quantile_cont(x, 0.9)", "quantile(x, 0.9)"),
        ("percentile_cont(0.9) WITHIN GROUP (ORDER BY x)", "quantile(x, 0.9)"),
        ("round(100 * avg(x), 1) AS m", "mean(x)"),
    ],
)
def test_an_aggregate_is_a_statistic(sql, statistic):
    counted = asked(f"SELECT {sql} FROM t")
    assert list(counted) == [str(parse(statistic))]


def test_arithmetic_asks_for_its_parts():
    assert asked("SELECT sum(x) / count(*) FROM t") == {"sum(x)": 1, "count()": 1}


def test_a_statistic_counts_once_per_query_and_the_most_frequent_comes_first():
    counted = asked("SELECT avg(b), avg(b) + 1 FROM t", "SELECT avg(a), avg(b) FROM t", "mean(b)")
    assert list(counted.items()) == [("mean(b)", 3), ("mean(a)", 1)]


@pytest.mark.parametrize("groups", ["sex", "2", "s", "ALL"])
def test_groups_may_be_given_by_name_position_or_alias(groups):
    assert asked(f"SELECT avg(x), sex AS s FROM t GROUP BY {groups}") == {"mean(x) by sex": 1}


@pytest.mark.parametrize(
    ("sql", "statistic"),
    [
        ("avg(x) FROM t WHERE a = 'u' AND b >= 65", "mean(x | a = u and b >= 65)"),
        ("avg(x) FILTER (WHERE a <> 'u') FROM t WHERE b < 3", "mean(x | b < 3 and a != u)"),
        ("avg(x) FROM t WHERE 65 <= b", "mean(x | b >= 65)"),
        (
            "avg(x) FROM t WHERE a IN ('u', 'v') OR NOT b BETWEEN 1 AND 2.5",
            "mean(x | (a = u or a = v) or (b < 1 or b > 2.5))",
        ),
        ("avg(x) FROM t WHERE a IS NOT NULL", "mean(x | a != (missing))"),
        ("avg(x) FROM t WHERE a NOT IN ('u')", "mean(x | a != u)"),
        ("avg(x) FROM t WHERE d > DATE '2020-01-31'", "mean(x | d > 2020-01-31)"),
        ("count(*) FROM t WHERE a = 'u'", "count(a = u)"),
        ("sum(CASE WHEN a = 'u' THEN 1 ELSE 0 END) FROM t", "count(a = u)"),
        ("count(CASE WHEN a = 'u' THEN 1 END) FROM t", "count(a = u)"),
        ("avg(CASE WHEN a = 'u' THEN 1 ELSE 0 END) FROM t", "share(a = u)"),
        ("avg(CASE WHEN a = 'u' THEN x END) FROM t", "mean(x | a = u)"),
    ],
)
def test_conditions_are_kept_if_they_are_wanted(sql, statistic):
    counted = asked(f"SELECT {sql}", conditions=True)
    assert list(counted) == [statistic]
    assert str(parse(statistic)) == str(parse(next(iter(counted))))


class TestValuesInQueriesAreNotRepeated:
    """A query may name a person, and the manifest publishes what is kept."""

    queries = (
        "SELECT avg(x) FROM t WHERE name = 'Canary'",
        "SELECT avg(CASE WHEN name = 'Canary' THEN 1 ELSE 0 END) FROM t",
        "mean(x | name = Canary) by sex",
        "count(name = Canary)",
        "difference(mean(x | name = Canary), mean(x))",
        "SELECT Canary(",
        "Canary",
    )

    def test_by_default_no_value_is_in_the_result(self):
        found = importances(self.queries)
        assert "Canary" not in repr(found) + str(found) + repr(found.keep)
        assert found.counts == {"mean(x)": 1, "mean(x) by sex": 1}
        assert found.conditions_left_out == 2
        assert sum(found.unread.values()) == 5

    def test_the_check_can_fail(self):
        assert "Canary" in repr(importances(self.queries, conditions=True))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT x FROM t", sql_queries.NO_STATISTIC),
        ("SELECT 1", sql_queries.NO_STATISTIC),
        ("SELECT avg(x FROM t", sql_queries.NOT_SQL),
        ("SELECT avg(x) FROM t WHERE a = 'never ends", sql_queries.NOT_SQL),
        ("SELECT avg(x) FROM t JOIN u USING (id)", sql_queries.SEVERAL_TABLES),
        ("SELECT avg(x) FROM (SELECT DISTINCT x FROM t)", sql_queries.SEVERAL_TABLES),
        ("SELECT avg(x) FROM (SELECT x FROM t LIMIT 9)", sql_queries.SEVERAL_TABLES),
        ("SELECT avg(x) FROM (SELECT avg(x) AS x FROM t GROUP BY g)", sql_queries.SEVERAL_TABLES),
        ("SELECT avg(x) FROM (SELECT unnest(l) AS x FROM t)", sql_queries.SEVERAL_TABLES),
        ("SELECT avg(x) FROM (SELECT 2 * x AS x FROM t)", sql_queries.EXPRESSION),
        (
            "WITH RECURSIVE q AS (SELECT x FROM t UNION ALL SELECT x FROM q) SELECT avg(x) FROM q",
            sql_queries.SEVERAL_TABLES,
        ),
        ("SELECT avg(x) FROM t INTERSECT SELECT avg(y) FROM t", sql_queries.SEVERAL_TABLES),
        ("SELECT (SELECT max(x) FROM t) FROM t", sql_queries.SEVERAL_TABLES),
        ("SELECT avg(x + 1) FROM t", sql_queries.EXPRESSION),
        ("SELECT avg(x::integer) FROM t", sql_queries.EXPRESSION),
        ("SELECT count(DISTINCT x) FROM t", sql_queries.DISTINCT),
        ("SELECT avg(x) OVER () FROM t", sql_queries.WINDOW),
        ("SELECT avg(x) FROM t GROUP BY year(d)", sql_queries.GROUPS),
        ("SELECT avg(x), lower(a) AS a2 FROM t GROUP BY a2", sql_queries.GROUPS),
        ("SELECT avg(x) FROM t GROUP BY ROLLUP (a, b)", sql_queries.GROUPS),
        ("SELECT mode(x) FROM t", "the function mode"),
        ("median of x", "not understood as a statistic"),
    ],
)
def test_what_is_not_exactly_a_statistic_is_counted_by_its_reason(query, reason):
    assert reasons(query) == {reason: 1}


@pytest.mark.parametrize(
    ("sql", "statistic"),
    [
        ("SELECT avg(z) FROM (SELECT x AS z FROM t ORDER BY 1) AS s", "mean(x)"),
        ("WITH q AS (SELECT * FROM t WHERE a = 'u') SELECT avg(x) FROM q WHERE b < 3", "mean(x | a = u and b < 3)"),
        ("WITH q AS (SELECT x AS y, a FROM t), r AS (SELECT y AS z FROM q) SELECT avg(z) FROM r", "mean(x)"),
        ("SELECT avg(y) AS m, s FROM (SELECT x AS y, sex AS s FROM t) GROUP BY s", "mean(x) by sex"),
        ("SELECT `a b`, avg(`net pay`) FROM `p.d.t` # MySQL\n GROUP BY 1", "mean(net pay) by a b"),
        ("SELECT TOP (10) avg([net pay]) FROM dbo.[t] WITH (NOLOCK)\nGO", "mean(net pay)"),
        (
            "SELECT avg(x)::float FROM t WHERE a = :a AND b > @b AND c = %s AND d = %(d)s OR e = ?",
            "mean(x)",
        ),
        ("SELECT avg(x) FROM t WHERE a = $q$avg(y); it's$q$", "mean(x)"),
    ],
)
def test_other_dialects_and_subqueries_that_only_choose_are_understood(sql, statistic):
    assert list(asked(sql, conditions="|" in statistic)) == [str(parse(statistic))]


def test_each_query_of_a_union_is_counted():
    assert asked("SELECT avg(x) FROM t UNION ALL SELECT avg(y) FROM t") == {"mean(x)": 1, "mean(y)": 1}


def test_a_parameter_is_no_condition_that_could_be_kept():
    assert reasons("SELECT avg(x) FROM t WHERE a = @a", conditions=True) == {sql_queries.CONDITION: 1}


def test_logs_of_servers_are_read(tmp_path):
    path = tmp_path / "postgresql.log"
    path.write_text(
        "2026-01-01 12:00:00 UTC [1] LOG:  statement: SELECT avg(x)\n\tFROM t\n"
        "2026-01-01 12:00:01 UTC [1] LOG:  execute <unnamed>: select avg(x) from t where a = $1\n"
        "2026-01-01T12:00:02.0Z\t   12 Query\tSELECT avg(y) FROM t\n"
    )
    assert importances(path).counts == {"mean(x)": 2, "mean(y)": 1}


def test_a_condition_that_is_not_understood_matters_only_if_conditions_are_wanted():
    query = "SELECT avg(x) FROM t WHERE lower(a) = 'u'"
    assert asked(query) == {"mean(x)": 1}
    assert reasons(query, conditions=True) == {sql_queries.CONDITION: 1}


def test_queries_of_other_tables_and_columns_are_not_counted():
    queries = ["SELECT avg(AGE) FROM main.People", "SELECT avg(age) FROM visits", "SELECT avg(cost) FROM people"]
    found = importances(queries, table="people", columns=["Age", "sex"])
    assert found.counts == {"mean(Age)": 1}
    assert found.unread == {sql_queries.OTHER_TABLE: 1, sql_queries.OTHER_COLUMN: 1}


class TestFiles:
    def test_statements_of_a_file_end_with_semicolons_and_a_broken_one_spoils_no_other(self, tmp_path):
        path = tmp_path / "queries.SQL"
        path.write_text(
            "-- avg(z); a comment\nSELECT avg(x)\nFROM t WHERE a = 'it''s; so' /* ; */;\nSELEC y;\n"
            'INSERT INTO t VALUES (1);\nselect sum("odd;name") from t',
            encoding="utf-8",
        )
        found = importances(path)
        assert found.counts == {"mean(x)": 1, "sum(odd;name)": 1}
        assert found.unread == {sql_queries.NOT_SQL: 1, sql_queries.NOT_SELECT: 1}
        assert found.queries == 4

    def test_a_log_has_one_statistic_or_query_per_line(self, tmp_path):
        path = tmp_path / "asked.log"
        path.write_text("mean(x)\n\n# a comment\nselect avg(x) from t\ncorr(b, a)\n", encoding="utf-8")
        assert importances(str(path)).counts == {"mean(x)": 2, "corr(b, a)": 1}

    def test_a_file_that_is_not_there_is_an_error_that_does_not_repeat_its_name(self, tmp_path):
        with pytest.raises(ReadError, match="path of a text file") as error:
            importances(tmp_path / "absent.sql")
        assert error.value.__cause__ is None

    def test_other_things_than_texts_are_refused(self):
        with pytest.raises(OptionError, match="texts"):
            importances([3])


class TestWhatBoxesCanKeep:
    log = (
        *["mean(age)"] * 3,
        "SELECT corr(age, income), count(*), median(age) FROM t",
        "SELECT sex, avg(income), count(*) FROM t GROUP BY sex",
        "logistic(died ~ age)",
        "ttest(age ~ sex)",
    )

    def test_importances_are_shares_of_what_can_be_kept(self):
        found = importances(self.log)
        others = ["corr(age, income)", "count() by sex", "logistic(died ~ age)", "mean(income) by sex"]
        assert found.keep == ["mean(age)", *others]
        assert found.importance["mean(age)"] == pytest.approx(3 / 7)
        assert sum(found.importance.values()) == pytest.approx(1.0)

    def test_boxes_take_them_and_keep_what_is_asked_most_more_accurate(self):
        generator = np.random.default_rng(0)
        age, income = generator.normal(50, 10, (2, 600))
        people = {"age": age, "income": income}
        widths = []
        for log in (["mean(age)"] * 20 + ["mean(income)"], ["mean(income)"] * 20 + ["mean(age)"]):
            found = importances(log)
            boxes = sf.Boxes(k=5, keep=found.keep, importance=found.importance)
            estimate = boxes.release(people, schema=dict.fromkeys(people, "quasi"), seed=1).estimate("mean(age)")
            widths.append(estimate.high - estimate.low)
        assert widths[0] < 0.5 * widths[1]

    def test_nothing_that_can_be_kept(self):
        found = importances(["median(age)", "count()"])
        assert found.keep == []
        assert found.importance == {}


def test_the_result_is_a_record():
    found = importances(["mean(a)", "x"])
    assert pickle.loads(pickle.dumps(found)) == found
    frame = found.to_pandas()
    assert frame.to_dict("records") == [{"statistic": "mean(a)", "queries": 1, "importance": 1.0}]
    with pytest.raises(AttributeError):
        found.queries = 3


def test_trees_of_the_first_version_of_duckdb_are_understood(monkeypatch):
    """Arguments were called children, and constants had a type; a decimal was a whole number with a scale."""
    column = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": ["age"]}
    decimal = {"id": "DECIMAL", "type_info": {"type": "DECIMAL_TYPE_INFO", "width": 3, "scale": 1}}
    number = {"class": "CONSTANT", "value": {"type": decimal, "is_null": False, "value": 655}}
    cast = {"class": "CAST", "cast_type": {"id": "DOUBLE", "type_info": None}, "child": column}
    node = {
        "type": "SELECT_NODE",
        "cte_map": {"map": []},
        "select_list": [{"class": "FUNCTION", "function_name": "avg", "children": [cast], "filter": None, "alias": ""}],
        "from_table": {"type": "BASE_TABLE", "table_name": "t"},
        "where_clause": {"class": "COMPARISON", "type": "COMPARE_LESSTHAN", "left": column, "right": number},
        "group_expressions": [],
        "group_sets": [],
        "aggregate_handling": "STANDARD_HANDLING",
    }
    monkeypatch.setattr(sql_queries.SqlParser, "parse", lambda self, sql: [node])
    assert asked("SELECT …", conditions=True) == {"mean(age | age < 65.5)": 1}
