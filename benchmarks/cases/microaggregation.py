"""The variance that groups lose on the tables of the CASC project, and the time of 100,000 rows."""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import Case, Contender, Figure, Goal, Published, Run
from harness.data import data

KS = (3, 5, 10)
BEST = {"Census": {3: 4.74, 5: 7.40, 10: 11.52}, "EIA": {3: 0.349, 5: 0.731, 10: 1.934}}
NAMES = [f"{table} {k}" for table in BEST for k in KS]


def prepare(run: Run) -> None:
    import csv

    import numpy as np

    for name in BEST:
        with data("casc", f"{name.lower()}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        wanted = [
            column
            for column in rows[0]
            if name == "Census" or column == "UTILITYID" or column.endswith(("REVENUE", "SALES"))
        ]
        np.save(run.inputs / f"{name}.npy", np.array([[float(row[column]) for column in wanted] for row in rows]))


def sfumato(kind: str):
    """Return a run that groups both tables for each k."""

    def contender(run: Run) -> None:
        import numpy as np

        import sfumato as sf

        seconds = 2.0 if run.is_quick else 10.0
        options = {"search": seconds} if kind == "search" else {}
        for name in BEST:
            matrix = np.load(run.inputs / f"{name}.npy")
            table = {f"x{axis}": matrix[:, axis] for axis in range(matrix.shape[1])}
            roles = dict.fromkeys(table, "quasi")
            sf.Microaggregate(k=3, kind=kind, **(options and {"search": 0.2})).release(table, schema=roles)
            for k in KS:
                with run.clock():
                    release = sf.Microaggregate(k=k, kind=kind, **options).release(table, schema=roles, seed=run.seed)
                released = np.column_stack([release.table.numbers(axis) for axis in table])
                np.save(run.output / f"{name} {k}.npy", released)

    return contender


def bound(run: Run) -> None:
    with run.clock():
        pass


def recount(run: Run) -> Mapping[str, float]:
    import numpy as np

    from harness.recount import neighbour_bound, variance_lost

    found = {}
    for name in BEST:
        original = np.load(run.inputs / f"{name}.npy")
        for k in KS:
            file = run.output / f"{name} {k}.npy"
            if not file.exists():
                found[f"{name} {k}"] = neighbour_bound(original, k)
                continue
            released = np.load(file)
            smallest = np.unique(np.round(released, 6), axis=0, return_counts=True)[1].min()
            if smallest < k:
                raise RuntimeError(f"{name}: a group has {smallest} rows of at least {k}")
            found[f"{name} {k}"] = variance_lost(original, released)
    return found


CASE = Case(
    title="Microaggregation of Census and EIA",
    about="""
        The loss is 100 SSE ÷ SST on standardised columns, for groups of at least 3, 5 and 10 rows, of 1,080 × 13 and
        4,092 × 11 numbers of the CASC project. A search has 10 seconds for each table and k. The bound sums the
        distances to each row's nearest neighbours, which no grouping can avoid. Seconds are those of one release, the
        median of the six.
    """,
    contenders=(
        Contender(name="sfumato, search", run=sfumato("search")),
        Contender(name="sfumato, MDAV", run=sfumato("mdav")),
        Contender(name="sfumato, tree", run=sfumato("tree")),
        Contender(name="nearest neighbours, a bound", run=bound, is_limit=True),
    ),
    published=(
        Published(
            name="MDAV",
            figures=dict(zip(NAMES, (5.692, 9.088, 14.156, 0.483, 1.667, 3.840), strict=True)),
            source="MDAV of sdcMicro 5.8.1, as printed in the literature",
        ),
        Published(
            name="best known",
            figures=dict(zip(NAMES, [BEST[t][k] for t in BEST for k in KS], strict=True)),
            source="the least loss that is known to us, by long searches of our own",
        ),
    ),
    prepare=prepare,
    recount=recount,
    figures={name: Figure(title=f"{name.split()[0]}, k = {name.split()[1]}, %") for name in NAMES},
    goals=tuple(
        Goal(
            of="sfumato, search",
            figure=name,
            limit=1.005,
            to="best known",
            said="the goal allows 60 s, the case gives 10 s to each search so that the run stays short",
        )
        for name in NAMES
    ),
    seconds=600.0,
)
