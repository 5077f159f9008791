"""A whole verified release of a million records, relative to sorting them and to copying them in memory."""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import Case, Contender, Figure, Goal, Run

K = 5
WIDE = 10
CUTTING = (
    "six tenths of the time choose cuts, looking several cuts ahead. Tried: inner loops that count no references to "
    "arrays (halved the cuts, kept), products instead of logarithms in the estimates, and fewer divisions (no gain). "
    "Left: to sort each axis of a cell once for all cuts ahead"
)


def prepare(run: Run) -> None:
    import numpy as np

    rows = 50_000 if run.is_quick else 1_000_000
    mixed = np.linalg.cholesky(np.full((WIDE, WIDE), 0.5) + 0.5 * np.eye(WIDE)).T
    np.save(run.inputs / "records.npy", np.random.default_rng(7).standard_normal((rows, WIDE)) @ mixed)


def boxes(axes: int):
    """Return a run that releases so many columns."""

    def contender(run: Run) -> None:
        import numpy as np
        import pyarrow as pa

        import sfumato as sf

        records = np.load(run.inputs / "records.npy")
        table = pa.table({f"x{axis}": records[:, axis] for axis in range(axes)})
        method = sf.Boxes(k=K, keep=["corr(x0, x1)"])
        method.release(table.slice(0, 50_000), seed=1)  # loads the kernels
        with run.clock():
            release = method.release(table, seed=1)
        np.save(run.output / "box.npy", release.table.arrow.column("box").to_numpy())

    return contender


def polars_sort(run: Run) -> None:
    import polars as package

    table = package.DataFrame(_records(run), schema=[f"x{axis}" for axis in range(WIDE)])
    for _ in range(3):
        with run.clock():
            table.select(package.col(f"x{axis}").sort() for axis in range(4))


def copy(run: Run) -> None:
    import numpy as np

    records = np.ascontiguousarray(np.load(run.inputs / "records.npy")[:, :4])
    target = np.empty_like(records)
    for _ in range(9):
        with run.clock():
            np.copyto(target, records)


def _records(run: Run):
    import numpy as np

    return np.load(run.inputs / "records.npy")


def recount(run: Run) -> Mapping[str, float]:
    import numpy as np

    file = run.output / "box.npy"
    return {"smallest": float(np.unique(np.load(file), return_counts=True)[1].min())} if file.exists() else {}


CASE = Case(
    title="Boxes of a million records",
    about="""
        Gaussian records with 2, 4 and 10 columns, one correlation kept, k = 5: a whole release in memory, verified.
        Limits of the machine: polars sorts each of four columns, and NumPy copies the four columns once.
    """,
    contenders=(
        Contender(name="sfumato, 4 columns", run=boxes(4)),
        Contender(name="sfumato, 2 columns", run=boxes(2)),
        Contender(name="sfumato, 10 columns", run=boxes(10)),
        Contender(name="polars, sort of 4 columns", run=polars_sort, rival="polars", is_limit=True),
        Contender(name="NumPy, copy of 4 columns", run=copy, is_limit=True),
    ),
    prepare=prepare,
    recount=recount,
    figures={"smallest": Figure(title="smallest group", form=".0f", is_higher_better=None)},
    goals=(
        Goal(of="sfumato, 2 columns", figure="wall", limit=1.0, said=CUTTING),
        Goal(of="sfumato, 4 columns", figure="wall", limit=1.5, said=CUTTING),
        Goal(of="sfumato, 10 columns", figure="wall", limit=4.0, said=CUTTING),
    ),
)
