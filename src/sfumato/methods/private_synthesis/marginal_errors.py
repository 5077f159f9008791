"""How far the released rows are from the people, for each column and each pair of columns, at most.

The distance is Σ |count of the people − count of the released rows| over the bins of the model. For a marginal that was
measured it is at most the distance of the rows from the noisy counts, which anybody can see, and the noise:

    ‖people − rows‖₁ ≤ ‖noisy counts − rows‖₁ + ‖noise‖₁.

So model, drawing and noise are all in it. A pair that was not measured was in a choice that it lost; how far the people
were from what the model expected of it then is bounded by the pair that was chosen (McKenna et al. 2022, theorem 5).
Any other pair has only the trivial bound, that no count is below 0.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.discrete_noise import largest_noise
from sfumato.methods.private_synthesis.inference import (
    Measurement,
    estimate_total,
    join_measurements,
    variance_of_total,
)
from sfumato.methods.private_synthesis.selection import ERROR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.private_synthesis.junction_tree import Clique
    from sfumato.methods.private_synthesis.selection import PairSelection
    from sfumato.table.table import Table


def bound_marginals(selection: PairSelection, released: Table) -> list[dict[str, Any]]:
    """Return the bound of each column and each pair of columns: each holds with probability 0.95."""
    rows = _count_rows(selection, released)
    measured = {one.clique: one for one in join_measurements(selection.measurements)}
    names = [column.attribute.domain.name for column in selection.columns]
    cliques: list[Clique] = [*((place,) for place in range(len(names))), *combinations(range(len(names)), 2)]
    return [
        {
            "columns": [names[place] for place in clique],
            "rows": math.ceil(_bound(clique, rows(clique), measured.get(clique), selection, released.rows)),
            "measured": clique in measured,
        }
        for clique in cliques
    ]


def _count_rows(selection: PairSelection, released: Table) -> Any:
    """Return a function that counts the released rows in the bins of a marginal."""
    codes = [column.bin_codes(column.attribute.encode(released)) for column in selection.columns]

    def count(clique: Clique) -> NDArray[np.float64]:
        shape = [selection.sizes[place] for place in clique]
        cells = np.ravel_multi_index([codes[place] for place in clique], shape)
        return np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(np.float64)

    return count


def _bound(
    clique: Clique, rows: NDArray[np.float64], measured: Measurement | None, selection: PairSelection, released: int
) -> float:
    if measured is not None:
        times = sum(one.clique == clique for one in selection.measurements)
        error = ERROR if selection.is_fixed or len(clique) == 1 else ERROR / (times * (times + 1))
        noise = largest_noise(np.sqrt(measured.variances).ravel(), error)
        return float(np.abs(measured.counts - rows).sum()) + noise
    if clique in selection.distances:
        expected, distance = selection.distances[clique]
        if math.isfinite(distance):
            return float(np.abs(expected - rows).sum()) + distance
    deviation = np.array([math.sqrt(variance_of_total(selection.measurements))])
    return estimate_total(selection.measurements) + largest_noise(deviation, ERROR) + released
