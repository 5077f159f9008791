"""k, ℓ, t and their relatives of a table as it is, relative to grouping the same rows by a database."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.case import Case, Contender, Figure, Goal, Run
from harness.data import adult, write_rows

QUASI = ["age", "education", "marital_status", "occupation", "race", "sex", "hours", "country"]
NUMBERS = ["age", "hours"]
TIMES = 5


def prepare(run: Run) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = adult([*QUASI, "salary"]) * (1 if run.is_quick else 10)
    columns = dict(zip([*QUASI, "salary"], zip(*rows, strict=True), strict=True))
    table = {name: [int(v) for v in values] if name in NUMBERS else values for name, values in columns.items()}
    pq.write_table(pa.table(table), run.inputs / "adult.parquet")
    write_rows(run.inputs / "adult.csv", list(columns), rows)  # for pandas without Arrow


def _keep(run: Run, groups: int, smallest: int) -> None:
    run.note(groups=float(groups), smallest=float(smallest))


def sfumato(sensitive: list[str]):
    """Return a run that measures the groups, and the sensitive columns in them."""

    def contender(run: Run) -> None:
        import pyarrow.parquet as pq

        import sfumato as sf

        table = pq.read_table(run.inputs / "adult.parquet")
        sf.group_models(table, QUASI, sensitive)
        for _ in range(TIMES):
            with run.clock():
                models = sf.group_models(table, QUASI, sensitive)
        _keep(run, models.groups, models.k)

    return contender


def duckdb(run: Run) -> None:
    import duckdb as package
    import pyarrow.parquet as pq

    table = pq.read_table(run.inputs / "adult.parquet")
    connection = package.connect()
    connection.register("adult", table)
    groups = f"SELECT count(*) AS size FROM adult GROUP BY {', '.join(QUASI)}"
    for _ in range(TIMES):
        with run.clock():
            found = connection.execute(f"SELECT count(*), min(size) FROM ({groups})").fetchone()
    _keep(run, *found)


def polars(run: Run) -> None:
    import polars as package

    table = package.read_parquet(run.inputs / "adult.parquet")
    for _ in range(TIMES):
        with run.clock():
            found = table.group_by(QUASI).len()
    _keep(run, len(found), found["len"].min())


def pycanon(is_all: bool):
    """Return a run of pycanon: k alone, or ℓ and t as well."""

    def contender(run: Run) -> None:
        from pycanon import anonymity

        frame = _pandas(run.inputs / "adult.csv")
        with run.clock():
            k = anonymity.k_anonymity(frame, QUASI)
            if is_all:
                anonymity.l_diversity(frame, QUASI, ["salary"])
                anonymity.t_closeness(frame, QUASI, ["salary"])
        run.note(smallest=float(k))

    return contender


def _pandas(path: Path):
    import pandas as pd

    return pd.read_csv(path, keep_default_na=False)


def recount(run: Run) -> Mapping[str, float]:
    from collections import Counter

    import pyarrow.parquet as pq

    columns = pq.read_table(run.inputs / "adult.parquet").select(QUASI).to_pydict()
    sizes = Counter(zip(*columns.values(), strict=True))
    import json

    found = json.loads((run.output / "figures.json").read_text())
    right = {"groups": len(sizes), "smallest": min(sizes.values())}
    return {"wrong": float(sum(found.get(name, value) != value for name, value in right.items()))}


CASE = Case(
    title="Group measures of 325,610 × 8",
    about="""
        Ten copies of Adult's eight quasi-identifiers: 24,564 groups. DuckDB and polars count the same groups and no
        more, as the limit. `sf.group_models` returns k, three kinds of ℓ, α, t, two of β and δ; pycanon computes k, or
        k, ℓ and t. *Wrong* counts answers that differ from a count with the standard library.
    """,
    contenders=(
        Contender(name="sfumato, nine measures", run=sfumato(["salary"])),
        Contender(name="sfumato, k alone", run=sfumato([])),
        Contender(name="DuckDB, group-by", run=duckdb, is_limit=True),
        Contender(name="polars, group-by", run=polars, rival="polars", is_limit=True),
        Contender(name="pycanon, k alone", run=pycanon(is_all=False), rival="pycanon"),
        Contender(name="pycanon, k, ℓ, t", run=pycanon(is_all=True), rival="pycanon"),
    ),
    prepare=prepare,
    recount=recount,
    figures={"wrong": Figure(title="wrong", form=".0f", is_higher_better=None)},
    goals=(
        Goal(of="sfumato, k alone", figure="processor", limit=1.5, to="DuckDB, group-by"),
        Goal(of="sfumato, nine measures", figure="processor", limit=1.5, to="DuckDB, group-by"),
    ),
)
