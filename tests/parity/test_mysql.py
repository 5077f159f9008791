"""Tables of MariaDB as source and destination: the same release as from memory, all of it or nothing."""

from __future__ import annotations

import datetime
import signal
import subprocess
import sys

import pytest

import sfumato as sf
from sfumato.errors import OptionError, ReadError, RequestError
from sfumato.release.read import read_release
from sfumato.sources import mysql
from tests.parity.servers import mariadb
from tests.same_rows import same_rows

ROLES = {"id": "identifier", "age": "quasi", "income": "quasi", "town": "quasi", "seen": "other", "at": "other"}
ROWS = 600
CELL = "Theresa"


def run_sql(url: str, *statements: str, database: bool = True) -> list[tuple]:
    import pymysql

    from sfumato.sources.mysql import _connection

    given = _connection(url)
    if not database:
        given.pop("database")
    with pymysql.connect(**given, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("pymysql", reason="PyMySQL is not installed: pip install 'sfumato[mysql]'")
    with mariadb() as url:
        run_sql(url, "CREATE DATABASE test_rows", database=False)
        yield url


@pytest.fixture
def accounts(server):
    towns = ", ".join(["'Arles'", "'Brig'", f"'{CELL}'"])
    run_sql(
        server,
        "DROP TABLE IF EXISTS accounts, released, released_manifest",
        "CREATE TABLE accounts (id bigint, age smallint COMMENT 'years at admission', income decimal(12,2), "
        "town varchar(20), seen date, at timestamp NULL)",
        f"INSERT INTO accounts SELECT seq, 18 + (seq * 7919) % 72, ((seq * 104729) % 100000) / 7, "
        f"elt(1 + seq % 3, {towns}), date '2020-01-01' + interval seq % 700 day, "
        f"timestamp '2021-03-28 01:30:00' + interval seq hour FROM seq_1_to_{ROWS}",
        "UPDATE accounts SET income = NULL WHERE id % 50 = 0",
    )
    return sf.Database(server, table="accounts")


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_table_to_table_is_the_release_from_memory(engine, server, accounts):
    released = sf.Database(server, table="released")
    made = sf.Boxes(k=5, l=1).release(accounts, schema=ROLES, into=released, seed=1, engine=engine)
    expected = sf.Boxes(k=5, l=1).release(accounts.read(), schema=ROLES, seed=1)
    assert same_rows(made.table.arrow, expected.table.arrow)
    there = read_release(released)
    assert there.manifest == made.manifest and there.table.rows == ROWS
    assert there.estimate("mean(income)").low == pytest.approx(made.estimate("mean(income)").low)
    types = dict(
        run_sql(server, "SELECT column_name, column_type FROM information_schema.columns WHERE table_name = 'released'")
    )
    assert "id" not in types and types["age_low"].startswith("smallint") and types["seen"] == "date"
    notes = dict(
        run_sql(
            server, "SELECT column_name, column_comment FROM information_schema.columns WHERE table_name = 'released'"
        )
    )
    assert notes["age_low"] == "years at admission"
    assert [one for (one,) in run_sql(server, "SHOW TABLES") if one.startswith("sfumato_")] == []


def test_types_are_read_as_they_are(server, accounts):
    table = accounts.read()
    assert table.rows == ROWS and table.arrow.column("income").null_count == ROWS // 50
    assert str(table.arrow.schema.field("at").type) == "timestamp[us, tz=UTC]"
    first = table.arrow.sort_by("id").slice(0, 1).to_pylist()[0]
    assert first["seen"] == datetime.date(2020, 1, 2) and first["at"].hour == 2
    assert first["income"] == pytest.approx(104729 % 100000 / 7, abs=0.01)


def test_a_source_is_one_snapshot_and_only_read(server, accounts, monkeypatch):
    monkeypatch.setattr("sfumato.sources.mysql.BATCH_ROWS", 100)
    batches = sf.Database(server, query="SELECT age, income FROM accounts;").batches()
    first = next(batches)
    run_sql(server, "DELETE FROM accounts")
    assert first.num_rows + sum(batch.num_rows for batch in batches) == ROWS


def test_an_existing_table_is_kept_unless_it_may_be_replaced(server, accounts):
    target = sf.Database(server, table="released")
    sf.Boxes(k=5, l=1).release(accounts, schema=ROLES, into=target)
    with pytest.raises(RequestError, match="must not exist"):
        sf.Boxes(k=5, l=1).release(accounts, schema=ROLES, into=target)
    again = sf.Database(server, table="released", replace=True)
    made = sf.Boxes(k=50, l=1).release(accounts, schema=ROLES, into=again)
    assert read_release(target).manifest == made.manifest
    run_sql(server, "CREATE INDEX ages ON released (age_low)")
    with pytest.raises(RequestError, match="indexes"):
        sf.Boxes(k=5, l=1).release(accounts, schema=ROLES, into=again)
    assert run_sql(server, "SELECT count(*) FROM released") == [(ROWS,)]


def test_a_write_that_fails_leaves_nothing(server, accounts, monkeypatch):
    def fail(connection, full, new):
        raise RequestError("The server could not do this.", found="a test")

    monkeypatch.setattr("sfumato.sources.mysql._put_in_place", fail)
    with pytest.raises(RequestError, match="a test"):
        sf.Boxes(k=5, l=1).release(accounts, schema=ROLES, into=sf.Database(server, table="released"))
    assert [one for (one,) in run_sql(server, "SHOW TABLES")] == ["accounts"]


KILLED = """
import os, signal, sys
import sfumato as sf
from sfumato.sources import mysql

url, when, step = sys.argv[1:]
original = getattr(mysql, step)

def die(*given):
    if when == "after":
        original(*given)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(mysql, step, die)
rows = {"x": [float(one % 7) for one in range(60)]}
sf.Boxes(k=5).release(rows, schema={"x": "quasi"}, into=sf.Database(url, table="released", replace=True))
"""


@pytest.mark.parametrize(
    ("when", "step", "rows"),
    [
        ("before", "_cells", ROWS),  # while rows are written
        ("before", "_put_in_place", ROWS),
        ("after", "_put_in_place", 60),  # the new table is in place, and the old one is not yet dropped
    ],
)
def test_a_killed_writer_leaves_one_release_and_the_next_one_removes_its_tables(when, step, rows, server, accounts):
    def waiting() -> list[str]:
        return [one for (one,) in run_sql(server, "SHOW TABLES") if one.startswith("sfumato_")]

    target = sf.Database(server, table="released")
    sf.Boxes(k=5, l=1).release(accounts, schema=ROLES, into=target)
    killed = subprocess.run([sys.executable, "-W", "ignore", "-c", KILLED, server, when, step], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert read_release(target).table.rows == rows
    assert waiting()
    sf.Boxes(k=5, l=1).release(accounts, schema=ROLES, into=sf.Database(server, table="another"))
    run_sql(server, "DROP TABLE another, another_manifest")
    assert waiting() == []


def test_tables_of_a_writer_that_is_at_work_are_left(server, accounts, monkeypatch):
    released = sf.Boxes(k=5, l=1).release(accounts, schema=ROLES)
    rename = mysql._put_in_place

    def meanwhile(*given):
        monkeypatch.setattr(mysql, "_put_in_place", rename)
        sf.Database(server, table="another").write(released)
        rename(*given)

    monkeypatch.setattr(mysql, "_put_in_place", meanwhile)
    sf.Database(server, table="released").write(released)
    run_sql(server, "DROP TABLE another, another_manifest")
    assert read_release(sf.Database(server, table="released")).table.rows == ROWS


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM nothing", "no such table"),
        (f"SELECT {CELL} FROM accounts", "not valid"),
        ("SELEC 1", "not valid"),
        ("SELECT age, age FROM accounts", "twice"),
        ("SELECT CAST(town AS SIGNED) + (SELECT 1 UNION SELECT 2) FROM accounts", "error"),
    ],
)
def test_errors_quote_no_cell(query, said, server, accounts):
    with pytest.raises((ReadError, RequestError), match=said) as refusal:
        sf.Database(server, query=query).read()
    assert CELL not in str(refusal.value) and refusal.value.__cause__ is None


def test_no_connection_and_other_servers():
    pytest.importorskip("pymysql", reason="PyMySQL is not installed: pip install 'sfumato[mysql]'")
    with pytest.raises((ReadError, RequestError), match="no connection"):
        sf.Database("mysql://nobody@127.0.0.1:1/x", table="y").read()
    for url in ("mssql://host/x", "oracle://host/x"):
        with pytest.raises(OptionError, match="Spark"):
            sf.Database(url, table="y")


def test_what_memory_is_needed_is_counted_by_the_server(accounts):
    assert accounts.memory_needed() == 150 * ROWS * 6


def test_odd_columns_are_read(server):
    run_sql(
        server,
        "DROP TABLE IF EXISTS odd",
        "CREATE TABLE odd (n bigint unsigned, d decimal(30,5), b bit(3), t time, j json, e enum('x', 'y'), f bool, "
        "w blob)",
        "INSERT INTO odd VALUES (18446744073709551615, 1.5, b'101', '10:00:00', '{\"a\": 1}', 'x', true, x'ff00')",
        "INSERT INTO odd VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    rows = sf.Database(server, table="odd").read().arrow.to_pydict()
    assert rows["n"] == [2**64 - 1, None]
    assert rows["d"] == [1.5, None]
    assert all(column[1] is None for column in rows.values())
