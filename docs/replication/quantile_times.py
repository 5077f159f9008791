"""Write quantile-times.md and its figure: how long quantile groups take by rows, columns and buckets (LT §5.2).

    python docs/replication/quantile_times.py [folder of the real tables]

The folder contains ``acs_pums/``. By default it is SFUMATO_DATA, or shared/data next to the repository. Without the
table the page is not changed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import sfumato as sf
from probabilistic_anonymity import bound_points, folder_of_tables
from sfumato.report.picture import ACCENT, INK, MUTED, blank_figure, png, style_axes
from sfumato.risk.uniqueness import unique_bound

PAGE = Path(__file__).with_name("quantile-times.md")
FIGURE = Path(__file__).with_name("figures") / "quantile-times.png"
ROWS, COLUMNS, BUCKETS, K = 250_000, 10, 500, 10_000
REPEATS = 3
Points = list[tuple[float, float]]


def bank(rows: int, columns: int) -> dict[str, np.ndarray]:
    """Invented amounts, in place of the bank's table, which was never published."""
    draw = np.random.default_rng(1)
    return {f"amount {place}": draw.lognormal(8.0, 1.0, rows) for place in range(columns)}


def seconds(method: sf.Quantiles, columns: dict[str, np.ndarray]) -> float:
    """Return the shortest of a few times of a release, in seconds of a processor."""
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        method.release(columns, schema=dict.fromkeys(columns, "quasi"))
        found.append(time.process_time() - start)
    return min(found)


def sampled(**options: int) -> sf.Quantiles:
    """Return the method of the paper: cuts from a sample of the rows."""
    return sf.Quantiles(sample=20_000, delta=0.01, l=1, **options)


def by_rows(make: Callable[[int], dict[str, np.ndarray]]) -> Points:
    return [(rows, seconds(sampled(k=K), make(rows))) for rows in np.linspace(25_000, ROWS, 10).astype(int)]


def by_columns() -> Points:
    table = bank(ROWS, COLUMNS)
    return [(count, seconds(sampled(k=K), dict(list(table.items())[:count]))) for count in range(1, COLUMNS + 1, 3)]


def by_buckets() -> Points:
    table = bank(ROWS, 1)
    return [(buckets, seconds(sampled(buckets=buckets), table)) for buckets in (1, 5, 25, 100, 250, BUCKETS)]


def line_through(points: Points) -> tuple[float, float, float]:
    """Return intercept, slope and the share of the variance that the line explains."""
    x, y = np.array(points).T
    slope, start = np.polyfit(x, y, 1)
    return float(start), float(slope), float(np.corrcoef(x, y)[0, 1] ** 2)


def draw(rows: Points, pums: Points, columns: Points, buckets: Points) -> None:
    """Draw Figure 1, and Figures 4 to 6."""
    figure = blank_figure(9.0, 6.4)
    places = [(0.08, 0.58), (0.58, 0.58), (0.08, 0.09), (0.58, 0.09)]
    axes = [figure.add_axes((left, bottom, 0.38, 0.34)) for left, bottom in places]
    ratios = np.geomspace(0.05, 20.0, 200)
    axes[0].plot(ratios, [unique_bound(round(1e6 * one), 10**6) for one in ratios], color=INK)
    drawn = bound_points()
    axes[0].plot([one[0] for one in drawn], [one[2] for one in drawn], "o", color=ACCENT)
    axes[0].set_xscale("log")
    titles = (
        ("Figure 1: share of unique people", "combinations for each person, D/n"),
        ("Figure 4: seconds by rows", "rows; circles: census sample (age)"),
        ("Figure 5: seconds by columns", "columns of 250,000 rows"),
        ("Figure 6: seconds by buckets", "buckets of one column"),
    )
    for one, points in zip(axes[1:], (rows, columns, buckets), strict=True):
        one.plot(*zip(*points, strict=True), "o-", color=INK, markersize=4)
        one.set_ylim(0.0, 1.2 * max(value for _, value in points))
    axes[1].plot(*zip(*pums, strict=True), "o", color=ACCENT, markersize=7, fillstyle="none")
    axes[1].set_ylim(0.0, 1.2 * max(value for _, value in (*rows, *pums)))
    for one, (title, label) in zip(axes, titles, strict=True):
        style_axes(one)
        one.set_title(title, fontsize=10, color=INK, loc="left")
        one.set_xlabel(label, fontsize=9, color=MUTED)
    FIGURE.write_bytes(png(figure))


def table_of(points: Points, name: str) -> str:
    cells = "\n".join(f"| {x:,.0f} | {y:.2f} |" for x, y in points)
    return f"| {name} | seconds |\n|---:|---:|\n{cells}"


def main() -> None:
    warnings.simplefilter("ignore")
    file = folder_of_tables() / "acs_pums" / "acs_income_2018.parquet"
    if not file.is_file():
        print(f"{PAGE.name} is not changed: set SFUMATO_DATA to the folder of the real tables")
        return
    ages = pq.read_table(file, columns=["AGEP"]).column("AGEP").to_numpy().astype(np.int64)
    seconds(sampled(k=100), bank(2000, 2))  # kernels are compiled, and modules imported
    rows = by_rows(lambda count: bank(count, 1))
    pums = by_rows(lambda count: {"age": ages[:count]})
    columns, buckets = by_columns(), by_buckets()
    draw(rows, pums, columns, buckets)
    start, slope, explained = line_through(rows)
    _, per_column, explained_columns = line_through(columns)
    PAGE.write_text(
        TEXT.format(
            rows=table_of(rows, "rows"),
            columns=table_of(columns, "columns"),
            buckets=table_of(buckets, "buckets"),
            million=1e6 * slope,
            start=start,
            explained=explained,
            per_column=per_column,
            explained_columns=explained_columns,
            one=buckets[0][1],
            many=buckets[-1][1],
            whole=rows[-1][1],
            ten=columns[-1][1],
        ),
        encoding="utf-8",
    )
    print(f"wrote {PAGE.name}")


TEXT = """\
# Quantile groups: time by rows, columns and buckets

S. Lodha and D. Thomas, *Probabilistic Anonymity*, Figures 1 and 4 to 6. Written by
`docs/replication/quantile_times.py`; do not edit by hand. Theory: [probabilistic
anonymity](../theory/probabilistic.md).

The paper masks a table of 250,000 rows of a bank, which was never published, and a census sample, with cuts from a
sample of the rows, on a machine of 2.66 GHz. Here the amounts of the bank are invented (lognormal), the census sample
is the American Community Survey of 2018 (age), and the method is `Quantiles(sample=20_000)`. Seconds are those of one
processor for a whole release, with its verification: every group is counted again. They depend on the machine; the
shapes of the curves should not.

![The bound of Figure 1, and seconds by rows, columns and buckets](figures/quantile-times.png)

## Figure 1: the largest share of unique people

The line is the bound of Theorems 1 and 2, D/(e n) up to D = n and e^(−n/D) beyond; points are populations that were
drawn (numbers in [the replication](probabilistic-anonymity.md)). At D/n = 1 both formulas and their slopes meet.

## Figure 4: rows

One column, k = 10,000. The paper: a straight line to about 10 seconds for 250,000 rows, and the same for the census
sample. Ours: {whole:.2f} s for 250,000 rows; a line of {start:.2f} s and {million:.2f} s for a million rows explains
{explained:.1%} of the variance.

{rows}

## Figure 5: columns

250,000 rows, k = 10,000. The paper: a straight line, 100 seconds for 10 columns. Ours: {ten:.2f} s for 10 columns,
{per_column:.2f} s for each; a line explains {explained_columns:.1%} of the variance.

{columns}

## Figure 6: buckets

One column of 250,000 rows. The paper explains n (C + log b): reading a row costs more than searching its bucket, so
that the time hardly grows. Ours: {one:.2f} s with one bucket, {many:.2f} s with 500.

{buckets}

**Learnt:** all three shapes are those of the paper, and what grows with the buckets is lost in the time that it takes
to read, write and count the rows again.
"""


if __name__ == "__main__":
    main()
