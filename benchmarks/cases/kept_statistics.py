"""How wide the interval of a kept correlation is, relative to strict Mondrian and to what theory allows."""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import Case, Contender, Figure, Goal, Run

K = 5
AXES = 4


def prepare(run: Run) -> None:
    import numpy as np

    rows = 5_000 if run.is_quick else 100_000
    covariance = np.full((AXES, AXES), 0.5) + 0.5 * np.eye(AXES)
    np.save(run.inputs / "records.npy", np.random.default_rng(7).multivariate_normal(np.zeros(AXES), covariance, rows))


def sfumato(run: Run) -> None:
    import numpy as np

    import sfumato as sf

    records = np.load(run.inputs / "records.npy")
    table = {f"x{axis}": records[:, axis] for axis in range(AXES)}
    boxes = sf.Boxes(k=K, keep=["corr(x0, x1)"], others=0.0)
    boxes.release({name: column[:20_000] for name, column in table.items()}, seed=1)  # loads the kernels
    with run.clock():
        release = boxes.release(table, seed=run.seed)
    ends = [np.column_stack([release.table.numbers(f"{name}_{end}") for name in table]) for end in ("low", "high")]
    np.save(run.output / "boxes.npy", np.array(ends))


def strict_mondrian(run: Run) -> None:
    """Cut at the median of the axis with the widest range, while both sides have k rows; boxes shrink to their rows."""
    import numpy as np

    records = np.load(run.inputs / "records.npy")
    span = np.ptp(records, axis=0)
    low, high = records.copy(), records.copy()
    with run.clock():
        waiting = [np.arange(len(records))]
        while waiting:
            rows = waiting.pop()
            part = records[rows]
            for axis in np.argsort(-np.ptp(part, axis=0) / span):
                below = part[:, axis] <= np.median(part[:, axis])
                if min(below.sum(), (~below).sum()) >= K:
                    waiting += [rows[below], rows[~below]]
                    break
            else:
                low[rows], high[rows] = part.min(axis=0), part.max(axis=0)
    np.save(run.output / "boxes.npy", np.array([low, high]))


def least(run: Run) -> None:
    """Write nothing: the limit is a formula of the density that the records are drawn from (`recount`)."""
    with run.clock():
        pass


def recount(run: Run) -> Mapping[str, float]:
    import numpy as np

    records = np.load(run.inputs / "records.npy")
    if not (run.output / "boxes.npy").exists():
        return {"width": _limit(records[:, :2])}
    low, high = np.load(run.output / "boxes.npy")
    sizes = np.unique(np.column_stack([low, high]), axis=0, return_counts=True)[1]
    slopes = _slopes(((low + high) / 2.0)[:, :2], records[:, :2])
    return {
        "width": float((slopes * (high - low)[:, :2] / 2.0).sum(axis=1).mean()),
        "smallest": float(sizes.min()),
        "groups": len(sizes),
    }


def _slopes(points, records):
    """Return |∂r/∂x| of each record, times the number of records."""
    import numpy as np

    centred, covariance = points - records.mean(axis=0), np.cov(records.T, bias=True)
    sd = np.sqrt(np.diag(covariance))
    r = covariance[0, 1] / sd.prod()
    mixed = centred[:, ::-1] / sd.prod() - r * centred / sd**2
    return np.abs(mixed)


def _limit(records) -> float:
    """Return the least linear half-width of shrunk boxes: n · mean c(x) · (k − 1) ÷ (k + 1) (XK §II)."""
    import numpy as np

    covariance = np.array([[1.0, 0.5], [0.5, 1.0]])
    exponent = -0.5 * np.einsum("pi,ij,pj->p", records, np.linalg.inv(covariance), records)
    density = np.exp(exponent) / (2.0 * np.pi * np.sqrt(np.linalg.det(covariance)))
    c = 0.5 * np.sqrt(K / (len(records) * density) * _slopes(records, records).prod(axis=1))
    return float(2.0 * c.mean() * (K - 1) / (K + 1))


CASE = Case(
    title="The width of a kept correlation",
    about="""
        100,000 Gaussian records with four columns, all correlated by 0.5, k = 5; the correlation of the first two is
        kept. The width is the first-order half-width of the correlation that the released boxes leave open, counted
        from the boxes. The limit is the least that boxes shrunk to their records can have, from the true density
        (Xiang and Kreinovich). Strict Mondrian is written here with NumPy. Other tools give no interval.
    """,
    contenders=(
        Contender(name="sfumato", run=sfumato),
        Contender(name="strict Mondrian", run=strict_mondrian, is_limit=True),
        Contender(name="the limit of theory", run=least, is_limit=True),
    ),
    prepare=prepare,
    recount=recount,
    figures={
        "width": Figure(title="half-width", form=".5f"),
        "smallest": Figure(title="smallest group", form=".0f", is_higher_better=None),
        "groups": Figure(title="groups", form=",.0f", is_higher_better=None),
    },
    goals=(
        Goal(of="sfumato", figure="width", limit=1.06, to="the limit of theory"),
        Goal(of="sfumato", figure="width", limit=0.5, to="strict Mondrian"),
    ),
)
