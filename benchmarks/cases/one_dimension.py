"""The best groups of one column of numbers, by us and by microagg1d."""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import Case, Contender, Figure, Goal, Run

K = 10


def prepare(run: Run) -> None:
    import numpy as np

    rows = 100_000 if run.is_quick else 1_000_000
    np.save(run.inputs / "numbers.npy", np.random.default_rng(3).lognormal(size=rows))


def sfumato(run: Run) -> None:
    import numpy as np

    from sfumato.methods.microaggregate.grouping import line_groups

    numbers = np.load(run.inputs / "numbers.npy")
    line_groups(numbers, K)  # loads the kernels, here and below
    with run.clock():
        labels = line_groups(numbers, K)
    np.save(run.output / "labels.npy", labels)


def released(run: Run) -> None:
    import numpy as np

    import sfumato as sf

    numbers = np.load(run.inputs / "numbers.npy")
    method = sf.Microaggregate(k=K, kind="optimal-1d")
    method.release({"x": numbers}, schema={"x": "quasi"})
    with run.clock():
        release = method.release({"x": numbers}, schema={"x": "quasi"}, seed=run.seed)
    np.save(run.output / "means.npy", release.table.numbers("x"))


def microagg1d(run: Run) -> None:
    import numpy as np
    from microagg1d import univariate_microaggregation

    numbers = np.load(run.inputs / "numbers.npy")
    univariate_microaggregation(numbers, k=K)
    with run.clock():
        labels = univariate_microaggregation(numbers, k=K)
    np.save(run.output / "labels.npy", labels)


def recount(run: Run) -> Mapping[str, float]:
    import numpy as np

    numbers = np.load(run.inputs / "numbers.npy")
    if (run.output / "means.npy").exists():
        means = np.load(run.output / "means.npy")
        sizes = np.unique(means, return_counts=True)[1]
        return {"loss": 100.0 * (1.0 - means.var() / numbers.var()), "smallest": float(sizes.min())}
    labels = np.unique(np.load(run.output / "labels.npy"), return_inverse=True)[1]
    sizes = np.bincount(labels)
    means = np.bincount(labels, weights=numbers) / sizes
    lost = float(((numbers - means[labels]) ** 2).mean() / numbers.var())
    return {"loss": 100.0 * lost, "smallest": float(sizes.min())}


CASE = Case(
    title="Groups of one column, 1,000,000 numbers, k = 10",
    about="""
        Lognormal numbers, groups of at least ten with the least squared error, which both find exactly. The first row
        and microagg1d only group; the second is a whole release, verified.
    """,
    contenders=(
        Contender(name="sfumato", run=sfumato),
        Contender(name="sfumato, whole release", run=released),
        Contender(name="microagg1d", run=microagg1d, rival="microagg1d"),
    ),
    prepare=prepare,
    recount=recount,
    figures={
        "loss": Figure(title="variance lost, %", form=".6g"),
        "smallest": Figure(title="smallest group", form=".0f", is_higher_better=None),
    },
    goals=(Goal(of="sfumato", figure="processor", limit=1.0, to="microagg1d"),),
)
