"""Groups of five among 100,000 rows: the loss and the time, beside sdcMicro's."""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import Case, Contender, Figure, Goal, Published, Run

K = 5


def prepare(run: Run) -> None:
    import numpy as np

    rows = 5_000 if run.is_quick else 100_000
    np.save(run.inputs / "numbers.npy", np.random.default_rng(42).normal(size=(rows, 10)))


def sfumato(kind: str):
    """Return a run that releases the means of groups."""

    def contender(run: Run) -> None:
        import numpy as np

        import sfumato as sf

        numbers = np.load(run.inputs / "numbers.npy")
        table = {f"x{axis}": numbers[:, axis] for axis in range(10)}
        roles = dict.fromkeys(table, "quasi")
        method = sf.Microaggregate(k=K, kind=kind)
        method.release({name: values[:20_000] for name, values in table.items()}, schema=roles)
        with run.clock():
            release = method.release(table, schema=roles, seed=run.seed)
        np.save(run.output / "released.npy", np.column_stack([release.table.numbers(name) for name in table]))

    return contender


def recount(run: Run) -> Mapping[str, float]:
    import numpy as np

    from harness.recount import variance_lost

    released = np.load(run.output / "released.npy")
    sizes = np.unique(np.round(released, 9), axis=0, return_counts=True)[1]
    return {"loss": variance_lost(np.load(run.inputs / "numbers.npy"), released), "smallest": float(sizes.min())}


CASE = Case(
    title="Microaggregation of 100,000 × 10 numbers, k = 5",
    about="Normal numbers, whole releases, verified. The loss is 100 SSE ÷ SST.",
    contenders=(
        Contender(name="sfumato, tree", run=sfumato("tree")),
        Contender(name="sfumato, MDAV", run=sfumato("mdav")),
    ),
    published=(
        Published(
            name="sdcMicro 5.8.1, MDAV",
            figures={"loss": 12.46, "processor": 86.0},
            source="measured on two cores of Neoverse-N1",
        ),
    ),
    prepare=prepare,
    recount=recount,
    figures={
        "loss": Figure(title="variance lost, %"),
        "smallest": Figure(title="smallest group", form=".0f", is_higher_better=None),
    },
    goals=(Goal(of="sfumato, MDAV", figure="processor", limit=1.0, to="sdcMicro 5.8.1, MDAV"),),
)
