"""Boxes against the limit of theory, against the median Mondrian, and against the clock.

    python benchmarks/boxes.py [--quick]

Widths are recomputed here from the released rows. The limit is the one for shrunk boxes with the true density of the
Gaussian that the records are drawn from; with a correlation kept, only the two axes that matter count. Times are those
of a whole release, verification included, after the kernels are compiled, and memory is the peak above what the
process held with the table loaded.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
import pyarrow as pa

import sfumato as sf


def gaussian(axes: int, rows: int, seed: int = 7) -> np.ndarray:
    """Records with correlation 0.5 between all columns."""
    covariance = np.full((axes, axes), 0.5) + 0.5 * np.eye(axes)
    return np.random.default_rng(seed).multivariate_normal(np.zeros(axes), covariance, rows)


def density(points: np.ndarray) -> np.ndarray:
    """The density that `gaussian` draws from."""
    axes = points.shape[1]
    covariance = np.full((axes, axes), 0.5) + 0.5 * np.eye(axes)
    exponent = -0.5 * np.einsum("pi,ij,pj->p", points, np.linalg.inv(covariance), points)
    return np.exp(exponent) / np.sqrt((2 * np.pi) ** axes * np.linalg.det(covariance))


def sensitivity(kept: str, points: np.ndarray, records: np.ndarray) -> np.ndarray:
    """|∂C/∂x| of each record, times the number of records."""
    if kept == "mean":
        return np.ones_like(points)
    centred, covariance = points[:, :2] - records[:, :2].mean(0), np.cov(records[:, :2].T, bias=True)
    sd = np.sqrt(np.diag(covariance))
    r = covariance[0, 1] / sd.prod()
    slopes = np.zeros_like(points)
    slopes[:, 0] = np.abs(centred[:, 1] / sd.prod() - r * centred[:, 0] / sd[0] ** 2)
    slopes[:, 1] = np.abs(centred[:, 0] / sd.prod() - r * centred[:, 1] / sd[1] ** 2)
    return slopes


def limit(kept: str, records: np.ndarray, k: int) -> float:
    """n · mean c(x) · (k − 1)/(k + 1): the least linear half-width that shrunk boxes can have (XK §II)."""
    matters = records[:, :2] if kept == "corr" else records
    axes = matters.shape[1]
    slopes = sensitivity(kept, matters, matters)
    c = 0.5 * (k / (len(matters) * density(matters)) * slopes.prod(axis=1)) ** (1 / axes)
    return float(axes * c.mean() * (k - 1) / (k + 1))


def linear_width(release: sf.Release, kept: str, records: np.ndarray) -> float:
    """Σ a_i(midpoint) · half-width, averaged over the released rows."""
    names = [f"x{axis}" for axis in range(records.shape[1])]
    low, high = (
        np.column_stack([release.table.numbers(f"{name}_{side}") for name in names]) for side in ("low", "high")
    )
    return float((sensitivity(kept, (low + high) / 2, records) * (high - low) / 2).sum(axis=1).mean())


def boxes(kept: str, axes: int, k: int, **options: object) -> sf.Boxes:
    names = [f"x{axis}" for axis in range(axes)]
    keep = ["corr(x0, x1)"] if kept == "corr" else [f"mean({name})" for name in names]
    accuracy = None if kept == "corr" else [1.0] * axes
    return sf.Boxes(k=k, keep=keep, accuracy=accuracy, others=0.0, **options)


def table(records: np.ndarray) -> pa.Table:
    return pa.table({f"x{axis}": records[:, axis] for axis in range(records.shape[1])})


def widths(sizes: tuple[int, ...]) -> float:
    """Print the ratios to the limit and to Mondrian; the largest ratio to the limit."""
    print("linear width ÷ the limit for shrunk boxes (at most 1.06), and ÷ the median Mondrian's")
    print(f"{'rows':>9} {'axes':>4} {'k':>3} {'kept':>5} {'÷ limit':>8} {'÷ Mondrian':>10}")
    worst = 0.0
    for rows in sizes:
        for axes in (2, 4):
            records = gaussian(axes, rows)
            frame = table(records)
            for k in (3, 5, 10):
                for kept in ("mean", "corr"):
                    found = linear_width(boxes(kept, axes, k).release(frame, seed=1), kept, records)
                    mondrian = boxes(kept, axes, k, cut="median").release(frame, seed=1)
                    to_limit = found / limit(kept, records, k)
                    to_mondrian = found / linear_width(mondrian, kept, records)
                    worst = max(worst, to_limit)
                    print(f"{rows:>9,} {axes:>4} {k:>3} {kept:>5} {to_limit:>8.3f} {to_mondrian:>10.3f}", flush=True)
    return worst


def diverse_widths(rows: int) -> None:
    """Print the ratio to the limit of `release.optimality()` for boxes with ℓ values ε apart in each column.

    Tightness is ℓε ÷ the width of a box of k records near the mean: above 1, diversity needs more than k does.
    """
    print("\nwidth ÷ the limit for shrunk boxes of width ≥ ℓε, by tightness")
    print(f"{'rows':>9} {'axes':>4} {'k':>3} {'l':>2} {'0.5':>6} {'1':>6} {'2':>6}")
    for axes in (2, 3, 4):
        frame = table(gaussian(axes, rows))
        for k, l in ((5, 2), (5, 3), (10, 3), (10, 5)):
            ratios = []
            for tightness in (0.5, 1.0, 2.0):
                epsilon = tightness / l * ((2 * np.pi) ** (axes / 2) * k / rows) ** (1 / axes)
                reached = boxes("mean", axes, k, l=l, epsilon=epsilon).release(frame, seed=1).optimality()
                ratios.append(reached.achieved / reached.shrunk)
            print(f"{rows:>9,} {axes:>4} {k:>3} {l:>2} " + " ".join(f"{ratio:>6.2f}" for ratio in ratios), flush=True)


def clock(rows: int) -> None:
    """Print seconds and memory of a release of ``rows`` rows, and how both grew from a tenth of them."""
    print("\na whole release at k = 5, one correlation kept")
    print(f"{'rows':>9} {'axes':>4} {'seconds':>8} {'growth':>7} {'memory ÷ data':>14}")
    for axes in (2, 4, 10):
        seconds = {}
        for count in (rows // 10, rows):
            frame = table(gaussian(axes, count))
            held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            runs = []
            for _ in range(2):
                start = time.perf_counter()
                sf.Boxes(k=5, keep=["corr(x0, x1)"]).release(frame, seed=1)
                runs.append(time.perf_counter() - start)
            seconds[count] = min(runs)
            above = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) * 1024 / frame.nbytes
            growth = seconds[count] / seconds[rows // 10]
            print(f"{count:>9,} {axes:>4} {seconds[count]:>8.2f} {growth:>6.1f}× {above:>13.1f}×", flush=True)


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    boxes("corr", 2, 5).release(table(gaussian(2, 1000)), seed=1)  # compiles, or loads what was compiled
    clock(100_000 if quick else 1_000_000)
    print()
    worst_ratio = widths((10_000,) if quick else (10_000, 100_000, 1_000_000))
    print(f"largest ratio to the limit: {worst_ratio:.3f}")
    diverse_widths(10_000)
