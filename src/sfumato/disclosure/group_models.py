"""The classical privacy models of a table as it is: k-anonymity, ℓ-diversity, t-closeness and their relatives.

Nothing is anonymized. Rows that are equal in all quasi-identifiers form a group, in which a missing value is a value of
its own; the smallest, least diverse or most peculiar group decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.disclosure.closeness import (
    basic_beta,
    disclosure_delta,
    enhanced_beta,
    equal_distances,
    ordered_distances,
    tree_distances,
)
from sfumato.disclosure.diversity import distinct_values, effective_values, largest_share, recursive_profile
from sfumato.disclosure.group_model_records import (
    DISTANCES,
    MISSING,
    Distance,
    GroupModels,
    Missing,
    SensitiveModels,
)
from sfumato.disclosure.missing_matches import matching_totals
from sfumato.disclosure.sensitive_counts import SensitiveCounts
from sfumato.disclosure.uniqueness import SchemaLike, require_columns
from sfumato.errors import OptionError, SchemaError, TableError
from sfumato.params import require_choice
from sfumato.schema.schema import Schema
from sfumato.schema.trees import tree_for
from sfumato.table.frames import as_table
from sfumato.table.groups import group_labels
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table


def group_models(
    table: Any,
    quasi: Sequence[str],
    sensitive: Sequence[str] = (),
    weight: str | None = None,
    *,
    distance: Distance | Mapping[str, Distance] = "auto",
    schema: SchemaLike = None,
    missing: Missing = "value",
) -> GroupModels:
    """Measure which privacy models a table satisfies: k-anonymity, ℓ-diversity, t-closeness, ….

    Parameters
    ----------
    table : Table, path or data frame
        The table, anonymized or not.
    quasi : sequence of str
        The quasi-identifiers. Rows that are equal in all of them form a group; a missing value equals only a missing
        value.
    sensitive : sequence of str, default ()
        The sensitive columns. A missing value is one more value. Without them only k is measured.
    weight : str, optional
        Column of sampling weights, which gives ``weighted_frequencies``. Default: none.
    distance : {"auto", "equal", "ordered", "tree"} or mapping of column to one of them, default "auto"
        Distance between sensitive values that t-closeness uses: all equally far apart, by ranks (a missing value is the
        last one), or by the tree that the schema declares. "auto" is "ordered" for numbers, dates and ordered
        categories, "tree" for other columns for which the schema declares a tree, and else "equal".
    schema : Schema, mapping or path, optional
        Schema that declares trees and orders of sensitive columns. Default: none.
    missing : {"value", "any"}, default "value"
        A missing quasi-identifier is a value of its own, or it may be "any" value, as in sdcMicro: then frequencies
        count the rows that agree wherever both have a value. They form no groups, in which to judge sensitive columns.

    Returns
    -------
    GroupModels
        The largest k and ℓ and the smallest t, α, β, δ that hold, and the group sizes by row.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [30, 30, 30, 40, 40, 40, 40], "illness": ["a", "a", "b", "a", "b", "c", "c"]}
    >>> models = sf.group_models(people, quasi=["age"], sensitive=["illness"])
    >>> models.k, models.distinct_l, round(models.entropy_l, 3), round(models.t, 3)
    (3, 2, 1.89, 0.286)
    >>> models.rows_failing(k=4), models.rows_failing(l=3)
    (3, 3)
    >>> models.frequencies.tolist()
    [3, 3, 3, 4, 4, 4, 4]
    """
    table, asked = as_table(table), (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    names = require_columns(table.kinds, table.rows, quasi)
    table.require(asked)
    _require_apart(names, asked)
    distances = _choose_distances(distance, asked)
    require_choice(missing, name="missing", choices=MISSING)
    if missing == "any" and asked:
        raise OptionError(
            "Sensitive columns are judged in groups, which rows do not form if a missing value may be any value.",
            found=f"{len(asked)} sensitive columns",
            fix='missing="value", or no sensitive columns',
        )
    known = None if schema is None else Schema.for_table(table, schema)
    table = table if known is None else known.apply(table)
    labels = group_labels(table, names)
    weights = None if weight is None else sampling_weights(table, weight)
    frequencies, weighted = _count_frequencies(table, names, labels, weights, missing)
    return GroupModels(
        quasi=names,
        rows=table.rows,
        k=int(frequencies.min()),
        groups=int(labels.max()) + 1,
        labels=labels,
        frequencies=frequencies,
        weighted_frequencies=weighted,
        columns=tuple(_measure_column(table, name, labels, distances[name], known) for name in asked),
    )


def sampling_weights(table: Table, name: str) -> NDArray[np.float64]:
    """Return the weights in a column; raise unless they are positive and finite."""
    weights = table.numbers(name)
    bad = int((~(np.isfinite(weights) & (weights > 0.0))).sum())
    if bad:
        raise TableError(
            f"The weights in column {name!r} must be positive numbers.",
            found=f"{bad:,} of {len(weights):,} that are not",
            fix="remove these rows, or correct their weights",
        )
    return weights


def _count_frequencies(
    table: Table,
    names: tuple[str, ...],
    labels: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    missing: Missing,
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Return the number of rows that each row is equal to or matches, and the sum of their weights."""
    if missing == "value":
        weighted = None if weights is None else np.asarray(np.bincount(labels, weights=weights)[labels], np.float64)
        return np.bincount(labels)[labels], weighted
    counted = [np.ones(table.rows), *([] if weights is None else [weights])]
    frequencies, *totals = matching_totals(table, names, counted)
    return frequencies.astype(np.int64), totals[0] if totals else None


def _require_apart(quasi: tuple[str, ...], sensitive: tuple[str, ...]) -> None:
    both = [name for name in sensitive if name in quasi]
    if both or len(set(sensitive)) < len(sensitive):
        raise OptionError(
            "A sensitive column must be named once, and not be a quasi-identifier.",
            found=f"{', '.join(map(repr, both)) or 'a name that is repeated'}",
            fix="name each column once",
        )


def _choose_distances(distance: Distance | Mapping[str, Distance], sensitive: tuple[str, ...]) -> dict[str, Distance]:
    """Return the distance of each sensitive column."""
    given = distance if isinstance(distance, Mapping) else dict.fromkeys(sensitive, distance)
    for name, one in given.items():
        require_choice(one, name="distance", choices=DISTANCES)
        if name not in sensitive:
            raise OptionError("A distance is given for a column that is not sensitive.", found=repr(name))
    return {name: given.get(name, "auto") for name in sensitive}


def _measure_column(
    table: Table, name: str, labels: NDArray[np.int64], distance: Distance, schema: Schema | None
) -> SensitiveModels:
    coded = table.coded(name)
    counts = SensitiveCounts.of(labels, coded.codes, coded.size)
    if distance == "auto":
        kind, has_tree = table.kinds[name], schema is not None and schema[name].tree is not None
        distance = "ordered" if kind.is_numeric or kind is Kind.ORDERED else "tree" if has_tree else "equal"
    by_group = _measure_distances(counts, table, name, distance, schema)
    distinct, entropy = distinct_values(counts), effective_values(counts)
    return SensitiveModels(
        column=name,
        values=coded.size,
        distance=distance,
        distinct_l=int(distinct.min()),
        entropy_l=float(entropy.min()),
        recursive_cl=recursive_profile(counts),
        alpha=float(largest_share(counts).max()),
        t=float(by_group.max()),
        beta=float(basic_beta(counts).max()),
        enhanced_beta=float(enhanced_beta(counts).max()),
        delta=float(disclosure_delta(counts).max()),
        disclosed_rows=int(counts.sizes[distinct == 1].sum()),
        distinct_by_group=distinct,
        entropy_by_group=entropy,
        t_by_group=by_group,
    )


def _measure_distances(
    counts: SensitiveCounts, table: Table, name: str, distance: Distance, schema: Schema | None
) -> NDArray[np.float64]:
    if distance == "equal":
        return equal_distances(counts)
    if distance == "ordered":
        return ordered_distances(counts)
    values = table.coded(name).values
    tree = None if schema is None else tree_for(schema[name], values)
    if tree is None:
        raise SchemaError(
            f"The schema must declare a tree for column {name!r}, because its distance is 'tree'.",
            found="none",
            fix=f'schema={{"{name}": {{"role": "sensitive", "tree": "tree.csv"}}}}',
        )
    return tree_distances(counts, tree.positions(values, column=name), tree)
