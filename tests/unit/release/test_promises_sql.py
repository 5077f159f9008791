"""promises.sql: DuckDB alone counts what ``sfumato verify`` counts, and sees a promise that is broken."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.plan.claims.concentrated_privacy import MeasuredPrivacy
from sfumato.plan.claims.containment import AtMostNames
from sfumato.plan.claims.each_column import AtMostValues, EachColumnAnonymous
from sfumato.plan.claims.groups import Diversity, KAnonymity
from sfumato.plan.claims.risk import RiskAtMost, SampledPrivacy
from sfumato.plan.claims.rows import ColumnsAllowed, Pseudonyms, SharedHistory
from sfumato.plan.claims.sensitive import EntropyDiversity, RecursiveDiversity, TCloseness
from sfumato.plan.plan import Claim, Evidence
from sfumato.plan.recount_sql import ReleasedRows, literal, write_promises
from sfumato.release.manifest import RECORDED, ClaimRecord
from sfumato.release.read import verify_bundle
from sfumato.table.intervals import format_set
from sfumato.table.table import Table

GROUP = ("age_low", "age_high", "sets")
ALL = (*GROUP, "it's", "value", "day", "when", "yes", "p")
SHOWN = {"age": ("age_low", "age_high"), "it's": ("it's",)}
CLAIMS: list[Claim[Any]] = [
    *(KAnonymity(k=k, columns=columns) for k in (1, 2, 4) for columns in ((), GROUP, ("it's", "day"))),
    *(Diversity(l=l, columns=GROUP, column=column) for l in (1, 2, 3) for column in ("it's", "value", "day", "yes")),
    *(Diversity(l=l, columns=GROUP[:2], column="value", epsilon=e) for l in (2, 3, 5) for e in (0.1, 1.0, 2.5)),
    *(Diversity(l=l, columns=(), column="day", epsilon=7.0) for l in (3, 30)),
    *(Diversity(l=l, columns=(), column="when", epsilon=3.6e9) for l in (3, 30)),
    *(EachColumnAnonymous(k=k, columns=SHOWN) for k in (1, 3, 6)),
    *(AtMostValues(most=most, columns=SHOWN) for most in (1, 3, 40)),
    *(AtMostNames(most=most, columns=("sets",)) for most in (0, 1, 2, 3)),
    *(EntropyDiversity(l=l, columns=GROUP[:2], column="it's") for l in (1.0, 1.9, 2.5)),
    *(RecursiveDiversity(l=l, c=c, columns=GROUP[:2], column="value") for l in (1, 2, 3) for c in (0.9, 1.5, 8.0)),
    *(TCloseness(t=t, columns=GROUP[:2], column=one) for t in (0.1, 0.4, 1.0) for one in ("it's", "value")),
    *(TCloseness(t=t, columns=GROUP[:2], column=c, ordered=True) for t in (0.1, 0.4) for c in ("it's", "value", "day")),
    *(RiskAtMost(highest=h, average=a, columns=GROUP) for h, a in ((0.2, None), (None, 0.5), (1.0, 1.0), (0.5, 0.25))),
    *(SampledPrivacy(epsilon=1.0, delta=1e-2, beta=0.6, k=k, columns=GROUP) for k in (1, 30)),
    SampledPrivacy(epsilon=1.0, delta=0.99, beta=0.6, k=1, columns=ALL),
    *(ColumnsAllowed(names=names) for names in (GROUP, ALL)),
    *(MeasuredPrivacy(epsilon=1.0, delta=d, rho=0.03, columns=ALL) for d in (1e-9, 1e-3)),
    MeasuredPrivacy(epsilon=1.0, delta=1e-3, rho=0.03, columns=GROUP),
    *(Pseudonyms(column=column, one_row_each=once) for column in ("p", "it's") for once in (True, False)),
    *(SharedHistory(k=k, columns=("it's",), column="p", facts=f) for k in (1, 2, 4) for f in (None, 1, 2, 3)),
]


def run_queries(text: str, folder: Path) -> list[tuple[str, str, str, bool]]:
    """Split the text as a reader without a parser would, and run each statement in the folder of the release."""
    statements = [one for one in re.sub(r"--.*", "", text).split(";") if one.strip()]
    with duckdb.connect() as database:
        database.execute(f"SET file_search_path = '{folder}'")
        return [row for one in statements for row in database.execute(one).fetchall()]


def table_of(seed: int) -> Table:
    """Few values, so that promises hold and break; missing cells, separators in categories, repeated people."""
    draw = np.random.default_rng(seed)
    rows = int(draw.integers(1, 60))
    low = draw.integers(0, 3, rows).astype(float)
    words = np.array(["a", "b|c", "d\\", "(any)", None], dtype=object)
    sets = [format_set(draw.permutation(words)[: draw.integers(1, 5)].tolist()) for _ in range(4)]
    days = np.datetime64("2020-01-01") + draw.integers(0, 90, rows)
    names = ["".join(draw.choice(list("abcxyz234567"), 16)) for _ in range(rows // 2 + 1)]
    return Table.from_arrow(
        pa.table(
            {
                "age_low": pa.array(np.where(draw.random(rows) < 0.1, np.nan, low), from_pandas=True),
                "age_high": pa.array(low + 0.5),
                "sets": pa.array(draw.choice(np.array(sets, dtype=object), rows).tolist(), pa.string()),
                "it's": pa.array(draw.choice(words, rows).tolist(), pa.string()),
                "value": pa.array(np.where(draw.random(rows) < 0.1, np.nan, draw.integers(-3, 9, rows) / 10.0)),
                "day": pa.array(days),
                "when": pa.array(days.astype("datetime64[us]") + draw.integers(0, 10**10, rows)),
                "yes": pa.array(draw.random(rows) < 0.5),
                "p": pa.array(draw.choice(names, rows).tolist(), pa.string()),
            }
        )
    )


@pytest.mark.parametrize("seed", range(6))
def test_every_claim_is_counted_alike_whether_it_holds_or_not(seed, tmp_path):
    table = table_of(seed)
    pq.write_table(table.arrow, tmp_path / "released.parquet")
    findings = [one.measure(Evidence(table, table.select([]), np.arange(table.rows))) for one in CLAIMS]
    rows = ReleasedRows(path="released.parquet", kinds=table.kinds)
    found = run_queries(write_promises(list(zip(findings, CLAIMS, strict=True)), rows), tmp_path)
    assert len(found) == len(CLAIMS)
    for claim, finding, (promise, required, counted, holds) in zip(CLAIMS, findings, found, strict=True):
        assert (promise, holds) == (finding.claim, finding.held), claim
        assert required
        if not (
            isinstance(claim, ColumnsAllowed | MeasuredPrivacy) and not holds
        ):  # findings name the column of both ends once
            assert counted == finding.found, claim


def test_claims_of_both_kinds_are_tried():
    """The control of the test above: some claims hold and some do not, of each kind that is recounted."""
    held: dict[str, set[bool]] = {}
    for seed in range(6):
        table = table_of(seed)
        for one in CLAIMS:
            finding = one.measure(Evidence(table, table.select([]), np.arange(table.rows)))
            held.setdefault(type(one).__name__, set()).add(finding.held)
    assert {name: values for name, values in held.items() if len(values) < 2} == {}
    assert set(held) == set(RECORDED) - {"ProbabilisticAnonymity"}


def test_every_recorded_claim_says_its_sql():
    for name, module in RECORDED.items():
        kind = getattr(__import__(module, fromlist=[name]), name)
        assert kind.recount_in_sql is not Claim.recount_in_sql, name


def test_a_claim_of_another_package_needs_no_sql(tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class FewRows(ColumnsAllowed):
        recount_in_sql = Claim.recount_in_sql

    table = table_of(0)
    pq.write_table(table.arrow, tmp_path / "released.parquet")
    claim = FewRows(names=ALL)
    finding = claim.measure(Evidence(table, table.select([]), np.arange(table.rows)))
    text = write_promises([(finding, claim)], ReleasedRows(path="released.parquet", kinds=table.kinds))
    assert "sfumato verify computes it" in text
    assert run_queries(text, tmp_path) == []


@pytest.fixture
def patients() -> pd.DataFrame:
    draw = np.random.default_rng(4)
    rows = 400
    return pd.DataFrame(
        {
            "patient": [f"P{number}" for number in draw.integers(0, 250, rows)],
            "stay": [f"S{number}" for number in range(rows)],
            "age": draw.integers(18, 90, rows),
            "admitted": np.datetime64("2021-01-01") + draw.integers(0, 300, rows),
            "town": draw.choice(["Ulm", "Bonn", "Jena", "Köln"], rows),
            "weight": np.round(draw.uniform(0.5, 2.0, rows), 2),
            "illness": draw.choice(["flu", "gout", "ache"], rows),
        }
    )


ROLES = {"age": "quasi", "town": "quasi", "admitted": "quasi", "illness": "sensitive", "weight": "other"}
PEOPLE = {**ROLES, "patient": "person", "stay": "identifier"}
ROWS = {**ROLES, "stay": "identifier"}


@pytest.mark.parametrize(
    ("method", "schema"),
    [
        (sf.Boxes(k=5, l=2), ROWS),
        (sf.Boxes(k=5, l=2), PEOPLE),
        (sf.Boxes(k=4), {**ROWS, "weight": "weight"}),
        (sf.Recode(k=3, t=0.6), ROWS),
        (sf.Microaggregate(k=4), ROWS),
        (sf.Quantiles(k=5), ROWS | dict.fromkeys(["town", "illness"], "other")),
        (sf.OptimalGroups(k=5), ROWS | dict.fromkeys(["town", "illness"], "other")),
        (sf.PrivateSample(epsilon=1.0, delta=0.01), {**dict.fromkeys(ROWS, "identifier"), "town": "quasi"}),
        (sf.Synthesize(), ROWS),
        (sf.Generalize(k=5, population=100_000), ROWS),
    ],
    ids=lambda one: getattr(type(one), "name", ""),
)
def test_a_bundle_is_recounted_without_the_package(method, schema, patients, tmp_path):
    folder = method.release(patients[list(schema)], schema=schema, seed=1).write(tmp_path / "out")
    checked = verify_bundle(folder)
    assert checked.holds and {file.name for file in checked.files if file.recounted} >= {"promises.sql", "README.txt"}
    found = run_queries((folder / "promises.sql").read_text(), folder)
    recounted = [finding for finding in (*checked.recounted, *checked.by_rows) if "% of the rows" not in finding.claim]
    assert sorted((counted, holds) for _, _, counted, holds in found) == sorted((one.found, True) for one in recounted)


def test_parts_of_an_engine_are_read_together(patients, tmp_path):
    patients[list(ROWS)].to_parquet(tmp_path / "t.parquet")
    sf.Boxes(k=5).release(tmp_path / "t.parquet", schema=ROWS, engine="duckdb", into=tmp_path / "out")
    assert (tmp_path / "out" / "released.parquet").is_dir()
    found = run_queries((tmp_path / "out" / "promises.sql").read_text(), tmp_path / "out")
    assert [one.found for one in verify_bundle(tmp_path / "out").recounted] == [row[2] for row in found]


@pytest.mark.parametrize(
    "name",
    ["a;b", "a -- b", 'say "x"', "it's", "Größe ß", "x\ny", "", "filename", "members", "c1", "Age", "/* a */", "$$"],
)
def test_odd_names_of_columns(name, tmp_path):
    draw = np.random.default_rng(1)
    table = {"age": draw.integers(0, 60, 200), name: draw.choice(["u", "v"], 200), "s": draw.choice(["x", "y"], 200)}
    schema = {"age": "quasi", name: "quasi", "s": "sensitive"}
    folder = sf.Boxes(k=5).release(table, schema=schema).write(tmp_path / "out")
    found = run_queries((folder / "promises.sql").read_text(), folder)
    assert found and all(holds for *_, holds in found)
    assert verify_bundle(folder).holds


def test_a_planted_row_is_seen(patients, tmp_path):
    folder = sf.Boxes(k=5, l=2).release(patients[list(ROWS)], schema=ROWS).write(tmp_path / "out")
    file = folder / "released.parquet"
    rows = pq.read_table(file).to_pylist()
    rows[0]["age_low"] = 7
    rows[0] |= {"name": "Ann"}
    pq.write_table(pa.Table.from_pylist(rows), file)
    found = run_queries((folder / "promises.sql").read_text(), folder)
    assert [holds for *_, holds in found] == [False, False, False]
    assert "smallest group 1" in found[0][2] and "also name" in found[2][2]


def test_an_edited_query_is_a_fault(patients, tmp_path):
    folder = sf.Boxes(k=5).release(patients[list(ROWS)], schema=ROWS).write(tmp_path / "out")
    queries = folder / "promises.sql"
    queries.write_text(queries.read_text().replace(">= 5", ">= 1"))
    assert not verify_bundle(folder).holds


def test_no_sign_ends_a_statement():
    for text in ("a;b", "--", "a---b;", "\n;--\0", "'; DROP", "\u2028"):
        sql = literal(text)
        assert ";" not in sql and "--" not in sql and sql.isprintable()
        assert duckdb.sql(f"SELECT {sql}").fetchall() == [(text.replace("\0", "\N{REPLACEMENT CHARACTER}"),)]


def test_a_promise_that_cannot_be_recounted_is_named():
    record = ClaimRecord(name="Containment", parameters=None)
    assert record.to_claim() is None
    finding = KAnonymity(k=2, columns=()).report(claim="ranges; all", held=True, found="")
    text = write_promises([(finding, None)], ReleasedRows(path="released.parquet", kinds={}))
    assert "Not recounted here" in text and "ranges, all" in text


@pytest.mark.parametrize("facts", [None, 1, 2])
def test_linked_tables_are_recounted_over_their_join(facts, tmp_path):
    draw = np.random.default_rng(0)
    people = pd.DataFrame({"id": np.arange(120), "age": draw.integers(20, 80, 120)})
    visits = pd.DataFrame({"id": np.repeat(np.arange(120), 2), "year": draw.integers(2010, 2016, 240)})
    tables = sf.LinkedTables({"people": people, "visits": visits}, person="id", facts=facts)
    schema = {"people": {"age": "quasi"}, "visits": {"year": "quasi"}}
    release = sf.Boxes(k=4).release(tables, schema=schema, seed=1)
    folder = release.write(tmp_path / "out")
    text = (folder / "promises.sql").read_text()
    (told,) = run_queries(text, folder)
    assert told[0] == release.findings[0].claim and told[2] == release.findings[0].found and told[3] is True
    for name, column in (("people", "age_low"), ("visits", "year_low")):
        place = folder / name / "released.parquet"
        whole = pq.read_table(place)
        cells = [-1, *whole.column(column).to_pylist()[1:]]  # the first row is like no other
        changed = whole.set_column(whole.column_names.index(column), column, pa.array(cells, whole[column].type))
        pq.write_table(changed, place)
        assert run_queries(text, folder)[0][3] is False, name
        pq.write_table(whole, place)
    (folder / "promises.sql").write_text(text.replace(">= 4", ">= 2"))
    assert "promises.sql" in str(verify_bundle(folder).faults)
