"""Write bases.md: noise, microaggregation, swapping and boxes in the columns and in three spectral bases, on NHANES.

    python docs/replication/bases.py [folder of the real tables]

The folder contains ``nhanes/``. By default it is SFUMATO_DATA, or shared/data next to the repository. Without the table
the page is not changed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.job.assess import assess
from sfumato.kernels.neighbours import nearest
from sfumato.methods.base import Method
from sfumato.table.intervals import high_name, low_name
from sfumato.table.table import Table
from spectral import LABORATORY, Experiment, experiment, folder, nhanes

PAGE = Path(__file__).with_suffix(".md")
SEEDS = (11, 1)  # of the split and of the release, the first two of the page on spectral anonymization
BASES = ("columns", "svd", "ica", "clusters")
K = 5
ISOLATED = 0.1  # share of the people who are farthest from their neighbours


def methods(basis: str) -> dict[str, Method]:
    """Return the methods in a basis; normal noise and distances of rows are the same in "svd" and in "ica"."""
    made: dict[str, Method] = {
        "noise, b = 0.25": sf.Noise(level=0.25, basis=basis),
        "noise by normal scores": sf.Noise(kind="normal-scores", level=0.25, basis=basis),
        "noise by density": sf.Noise(kind="density", level=0.25, basis=basis),
        f"groups, k = {K}": sf.Microaggregate(k=K, basis=basis),
        "rank swap, 10 %": sf.Swap(window=0.1, basis=basis),
        f"boxes, k = {K}": sf.Boxes(k=K, basis=basis),
    }
    same = ("noise, b = 0.25", "noise by density", f"groups, k = {K}") if basis == "ica" else ()
    return {name: method for name, method in made.items() if name not in same}


@dataclass(frozen=True)
class Measured:
    """What one release of one split told."""

    matches: float  # share of people whose nearest released row is theirs
    sparse: float  # the same, of the tenth of the people who are farthest from their neighbours
    distance: float  # median distance to the nearest released row, as a share of that of the reference
    private: bool  # none of TL's three measures is below that of the reference, p < 0.01
    membership: float  # area under the curve
    differing: int  # of 20 kernel components
    covariance: float  # ‖Σ̂ − Σ‖ ÷ ‖Σ‖
    ranks: float  # median change of rank correlations
    width: float  # of boxes on average, in standard deviations; NaN for other methods


def points_of(released: Table) -> Table:
    """Return the middles of boxes; another release as it is."""
    if LABORATORY[0] in released.names:
        return released
    middles = {name: (released.numbers(low_name(name)) + released.numbers(high_name(name))) / 2 for name in LABORATORY}
    return Table.from_arrow(pa.table(middles))


def isolated(one: Experiment) -> np.ndarray:
    """Return the people with the farthest fifth neighbours."""
    apart = nearest(one.pair.people, one.pair.people, 6).distance[:, -1]
    return apart >= np.quantile(apart, 1.0 - ISOLATED)


def width_of(released: Table, original: Table) -> float:
    ends = [
        (released.numbers(high_name(name)) - released.numbers(low_name(name))).mean() / original.numbers(name).std()
        for name in LABORATORY
        if high_name(name) in released.names
    ]
    return float(np.mean(ends)) if ends else np.nan


def measure(one: Experiment, method: Method) -> Measured:
    outcome = one.release(method)[0]
    points = points_of(outcome.released)
    judged, others = one.judge(points, outcome), one.judge(one.reference).prediction
    before, after = one.pair.original_matrix, one.pair.code.encode(points)
    spread = np.cov(before.T)
    membership = assess(one.original, points, one.reference, measures=["membership"], seed=one.seed)
    assert judged.linkage is not None
    return Measured(
        matches=float(judged.linkage.correct.mean()),
        sparse=float(judged.linkage.correct[isolated(one)].mean()),
        distance=float(np.median(judged.prediction.distance) / np.median(others.distance)),
        private=judged.least_p >= 0.01,
        membership=membership["membership by density ratio"].value,
        differing=judged.differing,
        covariance=float(np.linalg.norm(np.cov(after.T) - spread) / np.linalg.norm(spread)),
        ranks=judged.moments.rank_correlation,
        width=width_of(outcome.released, one.original),
    )


def line(name: str, basis: str, found: list[Measured]) -> str:
    """Return one line of the table: means over the splits."""
    mean = {each.name: float(np.mean([getattr(one, each.name) for one in found])) for each in fields(Measured)}
    cells = [
        f"{mean['matches']:.0%}",
        f"{mean['sparse']:.0%}",
        f"{mean['distance']:.2f}",
        f"{sum(one.private for one in found)} of {len(found)}",
        f"{mean['membership']:.2f}",
        f"{mean['differing']:.1f}",
        f"{mean['covariance']:.3f}",
        f"{mean['ranks']:.3f}",
        "–" if np.isnan(mean["width"]) else f"{mean['width']:.2f}",
    ]
    return f"| {name} | {basis} | {' | '.join(cells)} |"


NAMES = (
    *("release", "basis", "correct matches", "of the isolated", "distance", "private", "membership"),
    *("components", "covariance", "rank correlation", "width"),
)
HEADER = f"| {' | '.join(NAMES)} |\n|---|---|{'---:|' * (len(NAMES) - 2)}"


def main() -> None:
    warnings.simplefilter("ignore")  # seeds are fixed here, so that the page can be made again
    data = folder()
    if data is None:
        print("the real table was not found; bases.md is not changed")
        return
    table = nhanes(data).select(list(LABORATORY))
    splits = [experiment(table, seed) for seed in SEEDS]
    lines = {
        (name, basis): line(name, basis, [measure(one, method) for one in splits])
        for basis in BASES
        for name, method in methods(basis).items()
    }
    order = list(methods("columns"))
    rows = "\n".join(lines[key] for key in sorted(lines, key=lambda key: (order.index(key[0]), BASES.index(key[1]))))
    PAGE.write_text(TEXT.format(table=f"{HEADER}\n{rows}", seeds=" and ".join(map(str, SEEDS)), k=K), encoding="utf-8")
    print(f"wrote {PAGE.name}")


TEXT = """\
# Methods in a spectral basis, measured

T. A. Lasko, *Spectral Anonymization of Data* (MIT, 2007), called TL, §4.1: project the data on a basis that suits them,
anonymize there with any method, and project back. TL tries it with swapping and with histograms. Here noise,
microaggregation, rank swapping and boxes do it, too (`basis=`). Written by `docs/replication/bases.py`; do not edit by
hand. Theory: [spectral methods](../theory/spectral.md), [measures](../theory/measures.md).

The table is NHANES 1999–2004, adults from 20 to 49: the logarithms of 13 laboratory values. 2,000 people are released,
2,000 others are the reference. Numbers are means over two splits, with seeds {seeds}. Normal noise and the distances of
groups are the same in "svd" and in "ica", because one is a rotation of the other; these lines are left out. Boxes are
compared by their middles.

- *correct matches*: people whose nearest released row is theirs, or that of their group; *of the isolated*: the same
  for the tenth of the people whose fifth neighbour is farthest away.
- *distance*: median distance to the nearest released row, divided by that of the reference. *private*: splits in which
  none of TL's three measures is below the reference (p < 0.01).
- *membership*: area under the curve of the attack by density ratio; 0.5 is guessing.
- *components*: of 20 kernel components of degree 4, those that differ from the original (one does by chance).
- *covariance*: ‖Σ̂ − Σ‖ ÷ ‖Σ‖ of the standardised columns. *rank correlation*: median change.
- *width*: of boxes, in standard deviations, on average over columns and people.

{table}

What the lines say:

- **Noise.** Correlated noise in the columns *is* white noise in the principal components, so that nothing changes. In
  clusters noise is that of similar people: the table keeps more, and most people are found. Noise by density moves
  protection from the many to the few: the isolated are found less often, all others more often, and correct matches of
  both become nearly equal. None of it is private.
- **Rank swap.** In the columns each exchange pulls related columns apart. In independent components the same window
  leaves about as many people to be found and much less error in the covariance. Principal components move rows less, so
  that their smaller error is bought with more matches. Clusters keep most, and hide least.
- **Groups.** White scores give every direction the same weight, also those in which people hardly differ. Groups are
  then less compact in the large directions: the covariance shrinks more, the rank correlations change less, and rows
  are farther from their originals.
- **Boxes.** Oblique cuts along principal components are as wide as cuts along the columns: what they gain from
  correlated columns they lose when the hull is taken in the columns. Independent components lose more. They do not
  overlap in the components but in the columns, for which the release warns.

**Learnt:** a spectral basis pays for methods that treat one column at a time, such as the rank swap in independent
components; methods that treat rows as a whole, noise with the covariance of the data, groups and boxes, already use
what the basis offers, and gain nothing from it.
"""


if __name__ == "__main__":
    main()
