"""Mask a wide table from PostgreSQL to PostgreSQL: 250,000 rows × 261 columns, the bank of Lodha and Thomas.

    python benchmarks/studies/database_table.py [--url postgresql://me@host/database] [--rows 250000] [--keep]

Without ``--url`` a server is started for the time of the run, as in the tests, if PostgreSQL is installed. The table
has an identifier, 200 columns of random doubles and 60 of small integers, all of them quasi-identifiers. ``--keep``
puts the figures into ``scale_figures.json``; ``scale_page.py`` writes the page.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import scale_page
import sfumato as sf

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.parity.servers import postgres, postgres_programs

DOUBLES, INTEGERS = 200, 60
METHODS = {"quantiles": sf.Quantiles(k=50), "generalize": sf.Generalize(k=5, population=10**7, beta=0.1)}
TABLE, RELEASED = "sfumato_bank", "sfumato_bank_released"


def execute(url: str, *statements: str) -> None:
    """Send statements to the server."""
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def make_rows(url: str, rows: int) -> None:
    """Make the table on the server."""
    columns = [f"(random() * 1000)::float8 AS v{number}" for number in range(DOUBLES)]
    columns += [f"(random() * 50)::int AS w{number}" for number in range(INTEGERS)]
    made = f"CREATE TABLE {TABLE} AS SELECT i AS id, {', '.join(columns)} FROM generate_series(1, {rows}) i"
    execute(url, f"DROP TABLE IF EXISTS {TABLE}, {RELEASED}", made)


def masked(url: str, method: sf.Generalize | sf.Quantiles) -> dict[str, Any]:
    """Release the table into another one; return what it cost."""
    roles = {"id": "identifier"} | {f"v{number}": "quasi" for number in range(DOUBLES)}
    roles |= {f"w{number}": "quasi" for number in range(INTEGERS)}
    start, used = time.perf_counter(), _processor()
    target = sf.Database(url, table=RELEASED, replace=True)
    method.release(sf.Database(url, table=TABLE), schema=roles, into=target)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"wall": time.perf_counter() - start, "processor": _processor() - used, "memory": peak}


def _processor() -> float:
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def main() -> None:
    """Measure the methods one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url")
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--only", default=",".join(METHODS))
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.url and postgres_programs() is None:
        print("not measured: PostgreSQL is not installed (apt-get install postgresql), and --url is not given")
        return
    runs = []
    with contextlib.nullcontext(options.url) if options.url else postgres() as url:
        make_rows(url, options.rows)
        for name in options.only.split(","):
            found = masked(url, METHODS[name])
            runs.append({"method": name, **found})
            print(f"{name}: {found['wall']:.0f} s, {found['processor']:.0f} s of processor", flush=True)
            print(f"    {found['memory'] / 1e9:.2f} GB at most, on {scale_page.machine()}", flush=True)
            if options.keep:
                scale_page.keep("database", {"rows": options.rows, "columns": 1 + DOUBLES + INTEGERS, "runs": runs})
        execute(url, f"DROP TABLE {TABLE}, {RELEASED}")


if __name__ == "__main__":
    main()
