"""The range of a correlation over records that are known up to intervals: ours, interval division, and pba."""

from __future__ import annotations

from collections.abc import Mapping

from harness.case import Case, Contender, Figure, Goal, Run

K = 5
GAP = 1e-6  # share of the interval that need not be attained; without it, 1e-4 ends the work earlier


def prepare(run: Run) -> None:
    """Write Gaussian records in boxes of five, by sorting into strips."""
    import numpy as np

    rows = 20_000 if run.is_quick else 1_000_000
    mixed = np.linalg.cholesky(np.array([[1.0, 0.5], [0.5, 1.0]])).T
    records = np.random.default_rng(7).standard_normal((rows, 2)) @ mixed
    order = np.argsort(records[:, 0])
    strip = round((rows / K) ** 0.5) * K
    pieces = [part[np.argsort(records[part, 1])] for part in np.split(order, range(strip, rows, strip))]
    boxes = records[np.concatenate(pieces)].reshape(-1, K, 2)
    np.save(run.inputs / "boxes.npy", np.array([boxes.min(axis=1), boxes.max(axis=1)]))


def _asked(run: Run, *statistics: str, gap: float | None = None):
    """Return the estimates of statistics of the boxes, timed."""
    import numpy as np

    import sfumato as sf
    from sfumato.statistics.counted_boxes import CountedBoxes
    from sfumato.statistics.language import parse
    from sfumato.statistics.statistic import estimate

    low, high = np.load(run.inputs / "boxes.npy")
    table, few = (
        CountedBoxes.make(["x", "y"], low[:size], high[:size], count=np.full(len(low[:size]), K))
        for size in (len(low), 100)
    )
    for words in statistics:
        estimate(parse(words), few)  # loads the kernels
    with run.clock():
        return [estimate(parse(words), table, sf.EstimateBudget(gap=gap))[0] for words in statistics]


def sfumato(run: Run) -> None:
    (found,) = _asked(run, "corr(x, y)", gap=GAP)
    run.note(low=found.low, high=found.high, gap=found.gap)


def division(run: Run) -> None:
    covariance, *sd = _asked(run, "cov(x, y)", "sd(x)", "sd(y)")
    least, most = sd[0].low * sd[1].low, sd[0].high * sd[1].high
    ends = [end / spread for end in (covariance.low, covariance.high) for spread in (least, most)]
    run.note(low=max(min(ends), -1.0), high=min(max(ends), 1.0))


def pba(run: Run) -> None:
    """Compute the covariance over the product of standard deviations in pba's interval arithmetic, on fewer boxes."""
    import numpy as np
    from pba import Interval

    low, high = np.load(run.inputs / "boxes.npy")
    low, high = low[:: max(len(low) // 2000, 1)], high[:: max(len(high) // 2000, 1)]
    with run.clock():
        x, y = ([Interval(a, b) for a, b in zip(low[:, axis], high[:, axis], strict=True)] for axis in (0, 1))
        mean_x, mean_y = (sum(values[1:], values[0]) / len(values) for values in (x, y))
        products = [(a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)]
        squares = [[(a - mean) ** 2 for a in values] for values, mean in ((x, mean_x), (y, mean_y))]
        covariance, *variances = (sum(terms[1:], terms[0]) / len(terms) for terms in (products, *squares))
        spread = (variances[0] ** 0.5) * (variances[1] ** 0.5)
        found = covariance / spread
    run.note(low=max(float(found.left), -1.0), high=min(float(found.right), 1.0))
    run.note(said=f"on {len(low):,} of the boxes, because it loops in Python; it has no correlation of a sample")


def recount(run: Run) -> Mapping[str, float]:
    """Return the width, and whether correlations that are attained inside the boxes lie in the range."""
    import json

    import numpy as np

    found = json.loads((run.output / "figures.json").read_text())
    low, high = np.load(run.inputs / "boxes.npy")
    attained = [_correlation(low, high, sign) for sign in (1.0, -1.0)]
    outside = sum(not found["low"] - 1e-9 <= r <= found["high"] + 1e-9 for r in attained)
    return {"width": found["high"] - found["low"], "outside": float(outside), "attained": max(attained) - min(attained)}


def _correlation(low, high, sign: float) -> float:
    """Return a correlation inside the boxes that is as large, or as small, as moving to better corners makes it."""
    import numpy as np

    points = (low + high) / 2.0
    for _ in range(20):
        centred, sd = points - points.mean(axis=0), points.std(axis=0)
        r = float((centred[:, 0] * centred[:, 1]).mean() / sd.prod())
        slopes = centred[:, ::-1] / sd.prod() - r * centred / sd**2
        moved = np.where(sign * slopes > 0.0, high, low)
        if np.array_equal(moved, points):
            break
        points = moved
    return float(np.corrcoef(points.T)[0, 1])


CASE = Case(
    title="The range of a correlation, 1,000,000 records in boxes",
    about="""
        200,000 boxes of five Gaussian records each. The width is that of the interval that surely contains the
        correlation. *Outside* counts correlations attained inside the boxes (found here, by moving records to corners)
        that the interval misses. Interval division takes our guaranteed covariance and standard deviations. The gap is
        the share of the interval that is not proved to be attained.
    """,
    contenders=(
        Contender(name="sfumato", run=sfumato),
        Contender(name="interval division", run=division, is_limit=True),
        Contender(name="pba", run=pba, rival="pba"),
    ),
    prepare=prepare,
    recount=recount,
    figures={
        "width": Figure(title="width", form=".5f"),
        "gap": Figure(title="gap", form=".1e", is_higher_better=None),
        "attained": Figure(title="attained width", form=".5f", is_higher_better=None),
        "outside": Figure(title="outside", form=".0f", is_higher_better=None),
    },
    goals=(
        Goal(of="sfumato", figure="gap", limit=GAP),
        Goal(of="sfumato", figure="wall", limit=2.0),
    ),
)
