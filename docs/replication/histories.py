"""Write histories.md: monthly histories of electric utilities, and simulated ones, released as curves (TL §6.3).

    python docs/replication/histories.py [folder of the real tables]

The folder contains ``casc/eia.csv``. By default it is SFUMATO_DATA, or shared/data next to the repository. Without the
table the page is not changed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import sfumato as sf
from probabilistic_anonymity import folder_of_tables
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.measures.measured_release import MeasuredRelease
from sfumato.measures.utility.curves import curve_scores
from sfumato.methods.base import Method
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.table import Table

PAGE = Path(__file__).with_suffix(".md")
SEEDS = (1, 2, 3)
METHODS: dict[str, Method] = {
    "curves, groups of 5": sf.Curves(k=5, functions=6),
    "curves, groups of 5, wavelets": sf.Curves(k=5, functions=8, shape="wavelets"),
    "curves, swapped": sf.Curves(kind="swap", functions=6),
    "curves, swapped, all functions": sf.Curves(kind="swap", functions=99),
    "columns: spectral histogram, k = 5": sf.SpectralHistogram(k=5, logs="never"),
    "columns: SVD swap": sf.SvdSwap(logs="never", repair=False),
    "columns: rank swap, window 5 %": sf.Swap(window=0.05),
    "columns: noise, b = 0.1": sf.Noise(level=0.1),
}


def utilities(folder: Path) -> Table:
    """Return the logarithm of the residential revenue of each utility in each month, in one row."""
    rows = pyarrow.csv.read_csv(folder / "casc" / "eia.csv").to_pandas()
    rows["utility"] = rows["UTILITYID"].astype(str) + rows["STATE"]
    rows = rows[rows["RESREVENUE"] > 0]
    seen = {
        "utility": rows["utility"].to_numpy(),
        "month": rows["MONTH"].to_numpy().astype(float),
        "revenue": np.log(rows["RESREVENUE"].to_numpy()),
    }
    made = sf.histories(seen, person="utility", time="month", values=["revenue"], times=list(range(1, 13)))
    return Table.from_arrow(made.arrow.drop_columns(["utility"]))


def simulated(missing: float) -> tuple[Table, Table]:
    """Return histories of 1,000 people at 24 times, of which a share was not seen, and the same with all cells."""
    draw, times = np.random.default_rng(4), np.arange(24.0)
    shapes = np.array([np.ones(24), np.sin(times / 4.0), times / 12.0 - 1.0, np.cos(times / 2.0)])
    cells = 70.0 + draw.normal(size=(1000, 4)) * [8.0, 5.0, 4.0, 2.0] @ shapes + draw.normal(size=(1000, 24))
    seen = np.where(draw.random(cells.shape) < missing, np.nan, cells)
    return tuple(  # type: ignore[return-value]
        Table.from_arrow(
            pa.table({f"x_{time:g}": pa.array(one[:, place], from_pandas=True) for place, time in enumerate(times)})
        )
        for one in (seen, cells)
    )


@dataclass(frozen=True)
class Judged:
    """Scores of a release, averaged over seeds."""

    scores: dict[str, float]

    def line(self, name: str) -> str:
        return f"| {name} | " + " | ".join(f"{self.scores[one]:.3f}" for one in SCORES) + " |"


SCORES = (
    "change in mean curves",
    "change in covariance functions",
    "change in roughness",
    "people nearest to their own curve",
)
HEADER = "| release | mean | covariance | roughness | found |\n|---|---:|---:|---:|---:|"


def judge(method: Method, table: Table, whole: Table) -> Judged:
    schema = Schema(tuple(Column(name=name, role=Role.QUASI) for name in table.names))
    found: dict[str, list[float]] = {name: [] for name in SCORES}
    for seed in SEEDS:
        outcome = method.plan(MemorySurvey(table), schema, Randomness(seed)).transform(table, 0)
        subject = MeasuredRelease(
            original=whole, released=outcome.released, origin=outcome.origin, randomness=Randomness(seed)
        )
        for score in curve_scores(subject):
            found[score.name].append(score.value)
    return Judged({name: float(np.mean(values)) for name, values in found.items()})


def lines(table: Table, whole: Table) -> str:
    return "\n".join([HEADER, *(judge(method, table, whole).line(name) for name, method in METHODS.items())])


def main() -> None:
    warnings.simplefilter("ignore")  # seeds are fixed here, so that the page can be made again
    folder = folder_of_tables()
    if not (folder / "casc" / "eia.csv").is_file():
        print(f"{PAGE.name} is not changed: set SFUMATO_DATA to the folder of the real tables")
        return
    real = utilities(folder)
    full, whole = simulated(0.0)
    half, _ = simulated(0.5)
    PAGE.write_text(
        TEXT.format(
            rows=real.rows,
            missing=np.isnan(real.matrix(real.names)).mean(),
            real=lines(real, real),
            full=lines(full, whole),
            half=lines(half, whole),
        ),
        encoding="utf-8",
    )
    print(f"wrote {PAGE.name}")


TEXT = """\
# Histories as curves, measured

T. A. Lasko, *Spectral Anonymization of Data* (MIT, 2007), §6.3, leaves time series open. `sf.Curves` releases them as
functional components. Written by `docs/replication/histories.py`; do not edit by hand. Theory:
[histories](../theory/histories.md).

Columns of the tables: *mean* is the distance of the mean curves in standard deviations of a curve, *covariance* the
relative distance of the covariance functions, *roughness* the absolute logarithm of the ratio of the roughness (0: as
rough as the original), and *found* the share of people whose own released curve is the nearest to theirs. All are
means over three seeds. Other methods treat each month as a column.

## Electric utilities

The logarithm of the residential revenue in the twelve months of 1996, of {rows} utilities ({missing:.1%} of the cells
are missing), from one row per utility and month by `sf.histories`.

{real}

## Simulated people, all cells

1,000 people at 24 times: a level, a trend and two waves that differ between people, and independent errors.

{full}

## Simulated people, half of the cells missing

The same people; each cell is missing with probability ½. Releases are compared with the curves without missing cells.

{half}

What the lines say: if all cells are there, swapped curves keep what an SVD swap of the columns keeps, if there are as
many functions as times; with fewer they are a little smoother. If half of the cells are missing they keep covariances
and roughness several times better, because the model of curves fills what was not seen. Groups are k-anonymous:
whoever finds the own curve has to guess among its five to nine people. They lose roughness, by intent, and the
variation within groups. Noise and rank swaps of columns leave between a quarter of the people and all nearest to
their own curve, however small the change of the moments.

**Learnt:** time series need no method of their own, but a representation that knows what a missing time means.
"""


if __name__ == "__main__":
    main()
