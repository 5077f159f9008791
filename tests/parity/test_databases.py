"""Tables of databases as source and destination: the same release as from memory, all of it or nothing."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import OptionError, ReadError, RequestError
from sfumato.release.read import _with_manifest
from tests.parity.servers import postgres
from tests.same_rows import same_rows

ROLES = {"id": "identifier", "age": "quasi", "income": "quasi", "town": "quasi", "seen": "other"}
ROWS = 2000


@pytest.fixture(scope="module")
def server():
    with postgres() as url:
        yield url


def run_sql(url: str, *statements: str) -> pa.Table | None:
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetch_arrow_table() if statements[-1].lstrip().lower().startswith("select") else None


def people() -> dict[str, object]:
    rng = np.random.default_rng(0)
    return {
        "id": np.arange(ROWS),
        "age": rng.integers(18, 90, ROWS),
        "income": rng.lognormal(10, 1, ROWS).round(2),
        "town": rng.choice(["Arles", "Brig", "Cham"], ROWS),
    }


@pytest.fixture
def accounts(server):
    run_sql(
        server,
        "DROP TABLE IF EXISTS accounts, released, old",
        "CREATE TABLE accounts (id bigint, age smallint, income numeric(12,2), town varchar, seen date)",
        f"""INSERT INTO accounts SELECT i, 18 + (i * 7919) % 72, ((i * 104729) % 100000)::numeric / 7,
            (array['Arles','Brig','Cham'])[1 + i % 3], date '2020-01-01' + i % 700 FROM generate_series(1, {ROWS}) i""",
        "COMMENT ON COLUMN accounts.age IS 'years at admission'",
    )
    return sf.Database(server, table="accounts")


class TestPostgres:
    def test_table_to_table_is_the_release_from_memory(self, server, accounts):
        released = sf.Database(server, table="released")
        for engine in ("memory", sf.DuckDB(memory="1GB")):
            run_sql(server, "DROP TABLE IF EXISTS released")
            made = sf.Boxes(k=5).release(accounts, schema=ROLES, into=released, seed=1, engine=engine)
            expected = sf.Boxes(k=5).release(accounts.read(), schema=ROLES, seed=1)
            assert same_rows(made.table.arrow, expected.table.arrow)
            there = sf.read_release(released)
            assert there.manifest == made.manifest
            assert there.estimate("mean(income)").low == made.estimate("mean(income)").low

    def test_types_and_comments_are_kept(self, server, accounts):
        sf.Boxes(k=5).release(accounts, schema=ROLES, into=sf.Database(server, table="released"))
        found = run_sql(
            server,
            """SELECT attname::text AS name, format_type(atttypid, atttypmod) AS type,
                col_description(attrelid, attnum) AS comment
                FROM pg_attribute WHERE attrelid = 'released'::regclass AND attnum > 0""",
        ).to_pylist()
        types = {one["name"]: one["type"] for one in found}
        assert types["age_low"] == types["age_high"] == "smallint"
        assert types["income_low"] == "double precision"
        assert types["town"] == "character varying"
        assert types["seen"] == "date"
        assert {one["name"]: one["comment"] for one in found}["age_low"] == "years at admission"
        assert "id" not in types

    def test_a_query_is_one_snapshot(self, server, accounts):
        source = sf.Database(server, query="SELECT age, income FROM accounts WHERE town = 'Arles';")
        batches = source.batches()
        first = next(batches)
        run_sql(server, "DELETE FROM accounts")
        rows = first.num_rows + sum(batch.num_rows for batch in batches)
        assert rows == sum(1 for i in range(1, ROWS + 1) if i % 3 == 0)

    def test_an_existing_table_is_kept_unless_it_may_be_replaced(self, server, accounts):
        run_sql(server, "CREATE TABLE old AS SELECT 1 AS x")
        with pytest.raises(RequestError, match="must not exist"):
            sf.Boxes(k=5).release(accounts, schema=ROLES, into=sf.Database(server, table="old"))
        assert run_sql(server, "SELECT x FROM old").num_rows == 1
        sf.Boxes(k=5).release(accounts, schema=ROLES, into=sf.Database(server, table="old", replace=True))
        assert run_sql(server, "SELECT age_low FROM old").num_rows == ROWS

    def test_a_killed_client_leaves_the_old_table(self, server, accounts):
        run_sql(server, "CREATE TABLE old AS SELECT 1 AS x")
        code = f"""
            import sfumato as sf
            from sfumato.sources import postgres

            def slow(batches, schema, stored=postgres._cast_batches):
                import time
                yield from stored(batches, schema)
                print("writing", flush=True)
                time.sleep(60)

            postgres._cast_batches = slow
            sf.Boxes(k=5).release(sf.Database({server!r}, table="accounts"), schema={ROLES!r},
                into=sf.Database({server!r}, table="old", replace=True))
        """
        client = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, env=os.environ
        )
        assert client.stdout.readline() == b"writing\n"
        client.send_signal(signal.SIGKILL)
        client.wait()
        client.stdout.close()
        deadline = time.monotonic() + 10.0  # the server notices the end of the connection
        query = "SELECT count(*) AS tables FROM information_schema.tables WHERE table_schema = 'public'"
        while run_sql(server, query).column("tables")[0].as_py() > 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert run_sql(server, query).column("tables")[0].as_py() == 2
        assert run_sql(server, "SELECT x FROM old").num_rows == 1

    def test_errors_show_no_cell_and_no_password(self, server, accounts):
        with pytest.raises(RequestError, match="no such table"):
            sf.Database(server, table="nowhere").read()
        with pytest.raises(ReadError, match="no connection") as error:
            sf.Database("postgresql://me:secret@127.0.0.1:1/none", table="t").read()
        assert "secret" not in str(error.value)
        assert "secret" not in repr(sf.Database("postgresql://me:secret@127.0.0.1:1/none", table="t"))
        with pytest.raises(RequestError) as error:
            sf.Database(server, query="SELECT 'canary'::int AS x").read()
        assert "canary" not in str(error.value)
        assert error.value.__context__ is None

    @pytest.mark.parametrize("engine", ["memory", "duckdb"])
    @pytest.mark.parametrize(
        ("cell", "found"),
        [
            ("'canary'::int", "does not have the type"),
            ("1 / (i - i)", "divides by zero"),
            ("nextval('numbers')::int", "would change the database"),
            ("CASE WHEN pg_terminate_backend(pg_backend_pid()) THEN 1 ELSE 0 END", "ended the connection"),
        ],
    )
    def test_an_error_after_many_rows_is_named_and_shows_no_cell(self, server, engine, cell, found):
        run_sql(server, "CREATE SEQUENCE IF NOT EXISTS numbers")
        if "canary" in cell:  # not a constant, which the server would find at once
            cell = "(CASE WHEN i = 150000 THEN 'canary' ELSE '1' END)::int"
        query = f"SELECT CASE WHEN i = 150000 THEN {cell} ELSE i END AS x FROM generate_series(1, 200000) AS i"
        with pytest.raises((RequestError, ReadError), match=found) as error:
            sf.Boxes(k=5).release(sf.Database(server, query=query), schema={"x": "quasi"}, engine=engine)
        assert "canary" not in str(error.value)
        assert error.value.__context__ is None

    def test_counting_the_rows_of_a_source_changes_nothing(self, server):
        function = "CREATE OR REPLACE FUNCTION note(i int) RETURNS int LANGUAGE plpgsql AS"
        run_sql(server, "CREATE TABLE IF NOT EXISTS noted (i int)")
        run_sql(server, f"{function} $$ BEGIN INSERT INTO noted VALUES (i); RETURN i; END $$")
        with pytest.raises(RequestError, match="would change the database"):
            sf.Database(server, query="SELECT note(7) AS x").memory_needed()
        assert run_sql(server, "SELECT i FROM noted").num_rows == 0

    @pytest.mark.parametrize(
        ("given", "found"),
        [
            ("GRANT SELECT ON precious TO PUBLIC", "rights of other roles"),
            ("GRANT SELECT (age) ON precious TO PUBLIC", "rights of other roles"),
            ("ALTER TABLE precious ENABLE ROW LEVEL SECURITY", "row security"),
            ("CREATE POLICY grown ON precious USING (age > 7)", "row security"),
            ("CREATE INDEX ON precious (age)", "indexes"),
            ("ALTER TABLE precious ADD CHECK (age > 0)", "constraints"),
            ("CREATE RULE quiet AS ON DELETE TO precious DO INSTEAD NOTHING", "triggers or rules"),
            ("", ""),
        ],
    )
    def test_what_a_new_table_would_not_have_is_not_dropped(self, server, given, found):
        run_sql(server, "DROP TABLE IF EXISTS precious", "CREATE TABLE precious (age int)", *([given] if given else []))
        target = sf.Database(server, table="precious", replace=True)
        if not found:
            sf.Boxes(k=2).release({"age": [1, 2, 30, 31]}, schema={"age": "quasi"}, into=target)
            assert target.read().rows == 4
            return
        released = sf.Boxes(k=2).release({"age": [1, 2]}, schema={"age": "quasi"})
        for work in (target.require_free, partial(target.write, released)):
            with pytest.raises(RequestError, match=found):
                work()
        assert run_sql(server, "SELECT age FROM precious").column_names == ["age"]

    def test_a_view_is_not_replaced(self, server, accounts):
        run_sql(server, "DROP VIEW IF EXISTS adults", "CREATE VIEW adults AS SELECT 18 AS age")
        with pytest.raises(RequestError, match="a view"):
            sf.Database(server, table="adults", replace=True).require_free()
        run_sql(server, "DROP VIEW adults")

    def test_permission_denied_is_said(self, server, accounts):
        run_sql(
            server,
            "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'nobody') THEN "
            "CREATE ROLE nobody LOGIN; END IF; END $$",
        )
        with pytest.raises(RequestError, match="permission denied"):
            sf.Database(server.replace("postgres@", "nobody@"), table="accounts").read()

    def test_unusual_types_are_read(self, server):
        query = """SELECT 1.50::numeric(10,2) AS price, 7::numeric(9,0) AS number, 'ab'::char(5) AS code,
            '{1,2}'::int[] AS list, '2020-01-01 10:00+02'::timestamptz AS at, '5 min'::interval AS gap"""
        row = sf.Database(server, query=query).read().arrow.to_pylist()[0]
        assert row["price"] == 1.5
        assert row["number"] == 7
        assert row["code"] == "ab"
        assert row["list"] == "{1,2}"
        assert row["gap"] == "00:05:00"

    @pytest.mark.parametrize("length", [60, 63])
    def test_names_that_the_server_would_cut_off_are_refused(self, server, length):
        """``…_low`` would become ``…_lo``, which nobody could read as an interval."""
        name = "x" * length
        target = sf.Database(server, table="cut_off")
        with pytest.raises(RequestError, match="63 bytes"):
            sf.Boxes(k=5).release({name: np.arange(50)}, schema={name: "quasi"}, into=target)
        with pytest.raises(RequestError, match="63 bytes"):
            sf.Noise().release({"a": np.arange(50)}, schema={"a": "quasi"}, into=sf.Database(server, table="t" * 64))
        assert run_sql(server, "SELECT to_regclass('cut_off')::text AS t").column("t").to_pylist() == [None]

    def test_what_is_written_has_the_digits_that_were_verified(self, server):
        run_sql(
            server,
            "DROP TABLE IF EXISTS short, means",
            "CREATE TABLE short AS SELECT (i / 7.0)::real AS r FROM generate_series(1, 50) i",
        )
        source, target = sf.Database(server, table="short"), sf.Database(server, table="means")
        release = sf.Microaggregate(k=3, kind="tree").release(source, schema={"r": "quasi"}, into=target)
        assert sorted(target.read().numbers("r")) == sorted(release.table.numbers("r"))

    def test_a_query_may_end_with_a_comment(self, server, accounts):
        assert sf.Database(server, query="SELECT age FROM accounts -- all").read().rows == ROWS

    @pytest.mark.parametrize(
        ("table", "cells", "found"),
        [("no_schema.t", ["a", "b"], "no such schema"), ("nul", ["a\0b", "b"], "NUL"), ("seen", ["a", "b"], "a view")],
    )
    def test_what_cannot_be_written_is_named(self, server, accounts, table, cells, found):
        run_sql(server, "CREATE OR REPLACE VIEW seen AS SELECT 1 AS one")
        target = sf.Database(server, table=table, replace=True)
        with pytest.raises(RequestError, match=found):
            sf.Boxes(k=2).release({"c": cells * 9}, schema={"c": "quasi"}, into=target)

    def test_the_command_line(self, server, accounts, capsys):
        roles = [text for name, role in ROLES.items() for text in ("--role", f"{name}={role}")]
        command = ["release", server, "--table", "accounts", "-o", server, "--into", "released", "--k", "5", *roles]
        assert run(command) == 0
        assert run_sql(server, "SELECT age_low FROM released").num_rows == ROWS
        assert run(command) == 2
        assert "must not exist" in capsys.readouterr().err
        assert run([*command, "--replace", "--engine", "duckdb", "--memory", "1GB", "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["table"] == "released"
        assert "folder" not in shown

    def test_a_password_on_the_command_line_is_refused(self, capsys):
        url = "postgresql://me:secret@localhost/x"
        assert run(["release", url, "--table", "t", "-o", "out", "--k", "5"]) == 2
        shown = capsys.readouterr()
        assert "password" in shown.err
        assert "secret" not in shown.out + shown.err


@pytest.fixture(params=["sqlite", "duckdb"])
def file_url(request, tmp_path):
    """Return the URL of a database in a file with a table of people."""
    path = tmp_path / f"clinic.{request.param}"
    table = pa.table(people())
    if request.param == "duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.register("rows", table)
            connection.execute("CREATE TABLE people AS SELECT * FROM rows")
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE people (id INTEGER, age INTEGER, income REAL, town TEXT)")
            cells = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
            connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", cells)
        connection.close()
    return f"{request.param}:///{path}"


FILE_ROLES = {name: role for name, role in ROLES.items() if name != "seen"}


class TestFiles:
    @pytest.mark.parametrize("place", ["main", "study"])
    def test_a_table_in_a_schema(self, file_url, place):
        kind, _, path = file_url.partition(":///")
        source, target = sf.Database(file_url, table="main.people"), sf.Database(file_url, table=f"{place}.released")
        if place == "study":
            if kind == "sqlite":
                with pytest.raises(RequestError, match="no schema but main"):
                    target.require_free()
                return
            with duckdb.connect(path) as connection:
                connection.execute("CREATE SCHEMA study")
        made = sf.Boxes(k=5).release(source, schema=FILE_ROLES, into=target)
        assert sf.read_release(target).manifest == made.manifest
        assert sf.Database(file_url, query=f"SELECT * FROM {place}.released").read().rows == ROWS
        assert sf.Database(file_url, table="released")._driver.exists("released") is (place == "main")
        with pytest.raises(RequestError, match="must not exist"):
            target.require_free()
        sf.Boxes(k=7).release(source, schema=FILE_ROLES, into=replace(target, replace=True))
        assert target.read().rows == ROWS

    @pytest.mark.parametrize(
        ("statement", "found"),
        [("CREATE VIEW old AS SELECT age FROM people", "a view"), ("CREATE INDEX ages ON old (age)", "indexes")],
    )
    def test_what_a_new_table_would_not_have_is_not_dropped(self, file_url, statement, found):
        kind, _, path = file_url.partition(":///")
        connection = sqlite3.connect(path) if kind == "sqlite" else duckdb.connect(path)
        if found == "indexes":
            connection.execute("CREATE TABLE old AS SELECT age FROM people")
        connection.execute(statement)
        connection.close()
        target = sf.Database(file_url, table="old")
        with pytest.raises(RequestError, match="must not exist"):
            target.require_free()
        with pytest.raises(RequestError, match=found):
            replace(target, replace=True).require_free()
        assert target.read().rows == ROWS

    def test_an_error_after_many_rows_is_not_one_of_the_disk(self, file_url):
        cells = "CASE WHEN i = 150000 THEN 'canary' ELSE i::VARCHAR END"
        numbers = f"SELECT ({cells})::INT AS x FROM range(200000) AS rows(i)"
        query = numbers if file_url.startswith("duckdb") else "SELECT nothing FROM people"
        for engine in ("memory", "duckdb"):
            with pytest.raises((RequestError, ReadError), match=r"query|table") as error:
                sf.Boxes(k=5).release(sf.Database(file_url, query=query), schema={"x": "quasi"}, engine=engine)
            assert "canary" not in str(error.value)
            assert "free space" not in str(error.value)

    def test_table_to_table(self, file_url):
        source, target = sf.Database(file_url, table="people"), sf.Database(file_url, table="released")
        made = sf.Boxes(k=5).release(source, schema=FILE_ROLES, into=target, seed=1)
        expected = sf.Boxes(k=5).release(people(), schema=FILE_ROLES, seed=1)
        assert same_rows(made.table.arrow, expected.table.arrow)
        assert sf.read_release(target).manifest == made.manifest
        with pytest.raises(RequestError, match="must not exist"):
            target.require_free()

    def test_an_error_leaves_the_old_table(self, file_url, monkeypatch):
        source = sf.Database(file_url, table="people")
        target = sf.Database(file_url, table="people", replace=True)

        released = sf.Boxes(k=5).release(source, schema=FILE_ROLES)
        rows = released.table
        monkeypatch.setattr(type(rows), "parts", lambda self: _one_then(iter([rows]), full_disk))
        with pytest.raises(RequestError, match="No space left"):
            target.write(released)
        monkeypatch.undo()
        assert source.read().rows == ROWS

    def test_a_killed_writer_leaves_the_old_table(self, file_url):
        code = """
            import os, signal, sys
            import sfumato as sf

            released = sf.Boxes(k=5).release({"x": [float(one % 7) for one in range(60)]}, schema={"x": "quasi"})
            rows = released.table

            def parts(self):
                yield rows
                os.kill(os.getpid(), signal.SIGKILL)

            type(rows).parts = parts
            sf.Database(sys.argv[1], table="people", replace=True).write(released)
        """
        killed = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), file_url], check=False)
        assert killed.returncode == -signal.SIGKILL
        source = sf.Database(file_url, table="people")
        assert source.read().rows == ROWS
        sf.Boxes(k=5).release(source, schema=FILE_ROLES, into=sf.Database(file_url, table="people", replace=True))
        assert source.read().rows == ROWS
        with pytest.raises(RequestError):  # nothing of the killed writer is a table
            sf.Database(file_url, query="SELECT x_low FROM people").read()

    @pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
    def test_an_error_makes_no_new_database(self, kind, tmp_path, monkeypatch):
        target = sf.Database(f"{kind}:///{tmp_path / 'new.db'}", table="released")
        released = sf.Boxes(k=5).release(people(), schema=FILE_ROLES)
        rows = released.table
        monkeypatch.setattr(type(rows), "parts", lambda self: _one_then(iter([rows]), full_disk))
        with pytest.raises(RequestError, match="No space left"):
            target.write(released)
        monkeypatch.undo()
        assert not list(tmp_path.iterdir())
        target.write(released)
        assert target.read().rows == ROWS
        assert [path.name for path in tmp_path.iterdir()] == ["new.db"]

    @pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
    def test_of_two_runs_that_make_a_database_the_second_is_refused(self, kind, tmp_path, monkeypatch):
        target = sf.Database(f"{kind}:///{tmp_path / 'new.db'}", table="released")
        other = sf.Database(f"{kind}:///{tmp_path / 'new.db'}", table="other")
        released = sf.Boxes(k=5).release(people(), schema=FILE_ROLES)
        rows, parts = released.table, type(released.table).parts

        def meanwhile(self):
            monkeypatch.setattr(type(rows), "parts", parts)
            yield rows
            other.write(released)

        monkeypatch.setattr(type(rows), "parts", meanwhile)
        with pytest.raises(RequestError, match="another process"):
            target.write(released)
        assert other.read().rows == ROWS
        assert [path.name for path in tmp_path.iterdir()] == ["new.db"]

    @pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
    def test_a_folder_that_does_not_exist_is_said(self, kind, tmp_path):
        released = sf.Boxes(k=5).release(people(), schema=FILE_ROLES)
        with pytest.raises(RequestError, match="No such file"):
            sf.Database(f"{kind}:///{tmp_path / 'none' / 'new.db'}", table="released").write(released)

    def test_a_manifest_that_was_changed_is_noticed(self, file_url):
        source, target = sf.Database(file_url, table="people"), sf.Database(file_url, table="released")
        sf.Boxes(k=5).release(source, schema=FILE_ROLES, into=target)
        text = target.manifest_text()
        changed = text.replace('"rows_in": 2000', '"rows_in": 2001')
        assert changed != text
        with pytest.raises(sf.SfumatoError, match="manifest changed"):
            _with_manifest(target.read(), changed, verify=True)

    def test_a_file_that_does_not_exist_is_not_made(self, tmp_path):
        for kind in ("sqlite", "duckdb"):
            with pytest.raises(ReadError, match="no file"):
                sf.Database(f"{kind}:///{tmp_path / 'none.db'}", table="t").read()
        assert not list(tmp_path.iterdir())

    def test_a_file_that_is_no_database(self, tmp_path):
        (tmp_path / "no.db").write_text("nothing of the kind")
        for kind in ("sqlite", "duckdb"):
            with pytest.raises(ReadError):
                sf.Database(f"{kind}:///{tmp_path / 'no.db'}", table="t").read()


def full_disk():
    raise OSError(28, "No space left on device")


def _one_then(parts, fail):
    yield from parts
    fail()


class TestOptions:
    @pytest.mark.parametrize("url", ["", "oracle://x/y", "table.csv", None])
    def test_other_urls_are_refused(self, url):
        with pytest.raises(OptionError, match="URL"):
            sf.Database(url, table="t")

    @pytest.mark.parametrize("given", [{}, {"table": "t", "query": "SELECT 1"}])
    def test_a_table_or_a_query(self, given):
        with pytest.raises(OptionError, match="table or a query"):
            sf.Database("sqlite:///x.db", **given)
