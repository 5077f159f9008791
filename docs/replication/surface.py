"""Write surface.md: swaps in kernel components and in overlapping charts, against PICA and SVD swapping, on NHANES.

    python docs/replication/surface.py [folder of the real tables]

The folder contains ``nhanes/``. By default it is SFUMATO_DATA, or shared/data next to the repository. Without the table
the page is not changed.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from bases import SEEDS, Measured, measure

import sfumato as sf
from sfumato.job.assess import assess
from sfumato.methods.base import Method
from spectral import LABORATORY, Experiment, experiment, folder, nhanes

PAGE = Path(__file__).with_suffix(".md")
METHODS: dict[str, Method] = {
    "SVD swap, repaired": sf.SvdSwap(logs="never"),
    "kernel swap": sf.SvdSwap(basis="kernel", repair=False, logs="never"),
    "kernel swap, repaired": sf.SvdSwap(basis="kernel", logs="never"),
    "kernel swap along a forest, repaired": sf.SvdSwap(basis="kernel", variant="forest", logs="never"),
    "PICA, clusters of 200": sf.PartitionedIca(logs="never"),
    "PICA, charts of 200": sf.PartitionedIca(pieces="charts", logs="never"),
    "PICA, clusters of 400": sf.PartitionedIca(cluster_size=400, logs="never"),
    "PICA, charts of 400": sf.PartitionedIca(pieces="charts", cluster_size=400, logs="never"),
}
ATTACKED = tuple(METHODS)[3:6]
ATTACKS = {
    "linkability": "linkability",
    "singling-out": "singling out",
    "isolation": "isolation",
}


def line(name: str, found: list[Measured]) -> str:
    """Return one line of the table: means over the splits."""

    def mean(field: str) -> float:
        return float(np.mean([getattr(one, field) for one in found]))

    private = f"{sum(one.private for one in found)} of {len(found)}"
    cells = [f"{mean('matches'):.1%}", f"{mean('distance'):.2f}", private, f"{mean('membership'):.2f}"]
    cells += [f"{mean('differing'):.1f}", f"{mean('covariance'):.3f}", f"{mean('ranks'):.3f}"]
    return f"| {name} | {' | '.join(cells)} |"


def attacked(one: Experiment, name: str) -> str:
    """Return one line of the table of attacks: the largest score of each, and whether its tests passed."""
    released = one.release(METHODS[name])[0].released
    judged = assess(one.original, released, one.reference, measures=list(ATTACKS), seed=one.seed)
    cells = []
    for start in ATTACKS.values():
        scores = [score for score in judged.scores if score.name.startswith(start) and score.passed is not None]
        worst = max(scores, key=lambda score: score.value, default=None)
        passed = all(score.passed for score in scores)
        cells.append("–" if worst is None else f"{worst.value:.3f}, {'passed' if passed else 'failed'}")
    return f"| {name} | {' | '.join(cells)} |"


HEADER = (
    "| release | correct matches | distance | private | membership | components | covariance | rank correlation |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|"
)


def main() -> None:
    warnings.simplefilter("ignore")  # seeds are fixed here, so that the page can be made again
    data = folder()
    if data is None:
        print("the real table was not found; surface.md is not changed")
        return
    table = nhanes(data).select(list(LABORATORY))
    splits = [experiment(table, seed) for seed in SEEDS]
    lines = [line(name, [measure(one, method) for one in splits]) for name, method in METHODS.items()]
    attacks = [f"| release | {' | '.join(ATTACKS.values())} |\n|---|{'---|' * len(ATTACKS)}"]
    attacks += [attacked(splits[0], name) for name in ATTACKED]
    page = TEXT.format(
        table="\n".join([HEADER, *lines]), attacks="\n".join(attacks), seeds=" and ".join(map(str, SEEDS))
    )
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE.name}")


TEXT = """\
# Kernel space and the surface of the data, measured

T. A. Lasko, *Spectral Anonymization of Data* (MIT, 2007), called TL, §6.3, asks for an anonymization in kernel space,
or along the surface on which the data lie, with a way back that does not distort them; TL's own attempts did. `SvdSwap`
with `basis="kernel"` swaps the components of the Gaussian kernel and comes back by the nearest tangent;
`PartitionedIca` with `pieces="charts"` swaps within pieces of the surface that overlap. Written by
`docs/replication/surface.py`; do not edit by hand. Theory: [spectral methods](../theory/spectral.md),
[measures](../theory/measures.md).

The table is NHANES 1999–2004, adults from 20 to 49: the logarithms of 13 laboratory values. 2,000 people are released,
2,000 others are the reference. Numbers are means over two splits, with seeds {seeds}. The columns are those of the page
on [methods in a basis](bases.md): *components* is how many of 20 kernel components of degree 4 differ, *private* in how
many splits none of TL's three measures is below the reference.

{table}

Later attacks on the first split: the largest risk above that of other people, and whether the tests of the attack
passed.

{attacks}

{conclusion}
"""


if __name__ == "__main__":
    main()
