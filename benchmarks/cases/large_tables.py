"""Large tables from beginning to end: releases, an assessment and the search for quasi-identifiers, against limits."""

from __future__ import annotations

from harness.case import Case, Contender, Goal, Published, Run
from harness.data import data

IHIS = 1_200_000  # rows and nine columns in the shape of the Integrated Health Interview Series
DOMAINS = {
    "year": 13,
    "quarter": 4,
    "region": 4,
    "size": 20,
    "age": 86,
    "marital": 10,
    "sex": 2,
    "race": 16,
    "school": 25,
}


def prepare(run: Run) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, generator = IHIS // (50 if run.is_quick else 1), np.random.default_rng(5)
    columns = {
        name: np.minimum(generator.geometric(min(3.0 / size, 0.6), rows) - 1, size - 1).astype(np.int16)
        for name, size in DOMAINS.items()
    }
    pq.write_table(pa.table(columns), run.inputs / "ihis.parquet")
    people = pq.read_table(data("acs_pums", "acs_income_2018.parquet"))
    few, most = (2_000, 9_000) if run.is_quick else (100_000, 455_316)
    extra = {f"n{i}": np.round(generator.normal(size=people.num_rows) * 10).astype(np.int16) for i in range(8)}
    wide = pa.table({name: people.column(name) for name in people.column_names} | extra)
    pq.write_table(wide.slice(0, few), run.inputs / "people.parquet")
    pq.write_table(wide.slice(few, few), run.inputs / "others.parquet")
    pq.write_table(wide.slice(0, most), run.inputs / "inspected.parquet")


def ihis(run: Run) -> None:
    import pyarrow.parquet as pq

    import sfumato as sf

    table = pq.read_table(run.inputs / "ihis.parquet")
    roles = dict.fromkeys(DOMAINS, "quasi")
    sf.Boxes(k=5).release(table.slice(0, 50_000), schema=roles, seed=1)  # loads the kernels
    with run.clock():
        sf.Boxes(k=5).release(table, schema=roles, seed=1)


def cps(run: Run) -> None:
    import pyarrow.parquet as pq

    import sfumato as sf

    table = pq.read_table(data("cps", "cps_tax_units.parquet"))
    table = table.slice(0, 5000) if run.is_quick else table
    roles = {name: "identifier" if name == "RECID" else "quasi" for name in table.column_names}
    sf.Boxes(k=5).release(table.slice(0, 20_000), schema=roles, seed=1)
    with run.clock():
        sf.Boxes(k=5).release(table, schema=roles, seed=1)


def assess(run: Run) -> None:
    import pyarrow.parquet as pq

    import sfumato as sf

    table, others = (pq.read_table(run.inputs / f"{name}.parquet") for name in ("people", "others"))
    roles = dict.fromkeys(table.column_names, "quasi")
    release = sf.Boxes(k=5).release(table, schema=roles, seed=1)
    with run.clock():
        sf.assess(table, release, reference=others, seed=1)


def inspect(run: Run) -> None:
    import pyarrow.parquet as pq

    import sfumato as sf

    table = pq.read_table(run.inputs / "inspected.parquet")
    with run.clock():
        sf.quasi_identifiers(table, population=3e8, alpha=0.2)


CASE = Case(
    title="Large tables from beginning to end",
    about="""
        Boxes with k = 5 of 1,200,000 invented rows in the shape of a health survey (IHIS, nine columns) and of the
        280,005 tax units of the CPS (67 quasi-identifiers); the assessment of boxes of 100,000 people with 19 columns
        (11 of the American Community Survey, 8 of noise) beside as many others; and the search for quasi-identifiers of
        all sizes among 455,316 such people.
    """,
    contenders=(
        Contender(name="boxes, 1.2 million × 9", run=ihis),
        Contender(name="boxes, 280,005 × 68", run=cps),
        Contender(name="assess, 100,000 × 19", run=assess),
        Contender(name="quasi-identifiers, 455,316 × 19", run=inspect),
    ),
    published=(
        Published(
            name="ARX 3.9.2, local recoding, 1.2 million × 9",
            figures={"processor": 807.0, "memory": 5300.0},
            source="1 % per pass, 1,185,424 rows of the same shape, two cores of Neoverse-N1",
        ),
        Published(
            name="ARX 3.9.2, optimal global recoding, 1.2 million × 9",
            figures={"processor": 261.0, "memory": 2100.0},
            source="the same rows",
        ),
    ),
    prepare=prepare,
    goals=(
        Goal(
            of="boxes, 1.2 million × 9",
            figure="processor",
            limit=5.0,
            said="two thirds choose cuts, a tenth moves rows, the rest is spread over reading, moments and the recount."
            " Tried: see the boxes of a million records; columns are taken side by side",
        ),
        Goal(
            of="boxes, 280,005 × 68",
            figure="processor",
            limit=8.0,
            said="half of it chooses cuts, a quarter computes the moments of 63 columns one by one. Tried: see the "
            "boxes of a million records",
        ),
        Goal(
            of="assess, 100,000 × 19",
            figure="wall",
            limit=15.0,
            said="16 measures in turn, most of them on one core: nearest neighbours take a third, isolation "
            "a quarter. Tried: columns that were not changed are looked for once, boxes are counted on all cores, and "
            "neighbours without counting references (6 %, not kept); measures side by side would share one filter of "
            "warnings, which is not safe",
        ),
        Goal(
            of="quasi-identifiers, 455,316 × 19",
            figure="wall",
            limit=60.0,
            said="half of it splits rows into groups, on all cores, and waits for memory",
        ),
    ),
    is_in_quick=False,
    seconds=240.0,
)
