"""Write cluster-size.md: how far the distances of people shift in a cluster of the expected size.

python docs/replication/cluster_size.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.kernels.prediction import downward_shift
from sfumato.methods.components.clusters import LEVEL, TEST_ROWS, effective_dimension, expected_size

PAGE = Path(__file__).with_name("cluster-size.md")
COLUMNS = (4, 12, 36)
POWERS = (0.0, 1.0, 2.0)  # the i-th eigenvalue is i to minus this
SIZES = (0.5, 1.0, 2.0)  # of the expected size
PEOPLE = 20_000  # whose distances are measured, over many clusters


def measure(spread: np.ndarray, size: int, draw: np.random.Generator) -> float:
    """Return the shift of the distance to the nearest swapped row below that to the nearest of as many other people."""
    swapped, others = [], []
    for _ in range(-(-PEOPLE // size)):
        people, fresh = draw.normal(size=(2, size, len(spread))) * spread
        swapped.append(cdist(people, draw.permuted(people, axis=0)).min(axis=1))
        others.append(cdist(people, fresh).min(axis=1))
    return downward_shift(np.concatenate(swapped), np.concatenate(others))


def main() -> None:
    draw = np.random.default_rng(1)
    rows = []
    for columns in COLUMNS:
        for power in POWERS:
            spread = np.arange(1.0, columns + 1) ** (-power / 2)
            dimension = effective_dimension(draw.normal(size=(PEOPLE, columns)) * spread)
            size = expected_size(dimension)
            shifts = [measure(spread, round(share * size), draw) for share in SIZES]
            cells = " | ".join(f"{shift:.3f}" for shift in shifts)
            rows.append(f"| {columns} | {power:g} | {dimension:.1f} | {size:,} | {cells} |")
            print(rows[-1], flush=True)
    allowed = np.sqrt(-np.log(LEVEL) / TEST_ROWS["distance"])
    PAGE.write_text(
        TEXT.format(table="\n".join(rows), allowed=f"{allowed:.3f}", people=f"{PEOPLE:,}"), encoding="utf-8"
    )
    print(f"wrote {PAGE.name}")


TEXT = """\
# The size of clusters, by dimension and eigenvalues

T. A. Lasko, *Spectral Anonymization of Data* (MIT, 2007), called TL, §5.2.3: the smallest private clusters of
partitioned ICA swapping have 200 rows on NHANES; that the size depends on the dimension and on the eigenvalues is
suspected and "not investigated". A formula without free parameters says which size to expect
([theory](../theory/spectral.md#which-size-to-expect)); `cluster_size="auto"` starts from it. Written by
`docs/replication/cluster_size.py`; do not edit by hand.

The formula is about one cluster whose components are independent. Here they are: normal, with the eigenvalues 1, 2^−a,
3^−a, … The *dimension* is (Σλ)² ÷ Σλ². People of clusters of half, once and twice the expected size are swapped, and
the distance to the nearest swapped row is compared with that to the nearest of as many other people: the shift is
sup(F − F₀) of the two distributions, from {people} people, of which chance alone gives about 0.006. At the expected
size it should be {allowed}, which the test of a size allows.

| columns | a | dimension | expected size | shift at half of it | at it | at twice |
|---:|---:|---:|---:|---:|---:|---:|
{table}

With equal or slowly falling eigenvalues the shift at the expected size is 0.018 to 0.027, as it should be. With steep
ones it is smaller: the formula asks for more than is needed there. It is a lower bound for whole tables, since the
formula does not contain that clusters follow their people, nor that components are computed from them: on four splits
of NHANES `cluster_size="auto"` ends at 238 to 400 rows ([page](spectral.md)). A trial with made normal tables of only
1,000 people told nothing: with so few, chance alone shifts the distances by what the test allows, and no size up to 400
passed.

**Learnt:** the size hardly depends on the dimension between 5 and 20, which is why 200 rows served TL; with fewer than
4 effective dimensions clusters must be much larger, because one shared score is much of a row.
"""


if __name__ == "__main__":
    main()
