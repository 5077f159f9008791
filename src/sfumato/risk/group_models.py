"""The classical privacy models of a table as it is: k-anonymity, ℓ-diversity, t-closeness and their relatives.

Nothing is anonymized. Rows that are equal in all quasi-identifiers form a group, in which a missing value is a value of
its own; the smallest, least diverse or most peculiar group decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import OptionError, SchemaError, TableError
from sfumato.params import require_choice
from sfumato.plan.claims.sensitive_groups import (
    SensitiveCounts,
    basic_beta,
    disclosure_delta,
    distinct_values,
    effective_values,
    enhanced_beta,
    equal_distances,
    largest_share,
    ordered_distances,
    recursive_profile,
    tree_distances,
)
from sfumato.risk.uniqueness import SchemaLike, matching_totals, require_columns
from sfumato.schema.schema import Schema
from sfumato.schema.suggested_hierarchies import tree_for
from sfumato.sources.frames import as_table
from sfumato.table.coding import Coded
from sfumato.table.groups import first_rows, group_labels, refine
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

Distance = Literal["auto", "equal", "ordered", "tree"]
Missing = Literal["value", "any"]
MISSING: tuple[Missing, ...] = ("value", "any")
DISTANCES: tuple[Distance, ...] = ("auto", "equal", "ordered", "tree")
MODELS = ("distinct_l", "entropy_l", "recursive_cl", "alpha", "t", "beta", "enhanced_beta", "delta")


@dataclass(frozen=True, kw_only=True, eq=False)
class SensitiveModels:
    """How well the groups hide one sensitive column.

    Attributes
    ----------
    column : str
        The sensitive column.
    values : int
        Number of its different values in the table; a missing value is one of them.
    distance : {"equal", "ordered", "tree"}
        Distance between its values that ``t`` uses.
    distinct_l : int
        Fewest different values in a group: the table is distinct ℓ-diverse up to this ℓ.
    entropy_l : float
        exp(entropy) of the group with the smallest entropy: the table is entropy ℓ-diverse up to this ℓ.
    recursive_cl : mapping of int to float
        For each ℓ from 2 to ``distinct_l``, the c above which the table is recursive (c, ℓ)-diverse.
    alpha : float
        Largest share of one value in a group: the table is (α, k)-anonymous from this α on.
    t : float
        Largest distance between the distributions in a group and in the table, from 0 to 1: the table is t-close from
        this t on.
    beta, enhanced_beta : float
        Smallest β of basic and of enhanced β-likeness; infinite if no β suffices.
    delta : float
        Largest \\|ln(p/q)\\| of the shares p of a value in a group and q in the table, over values that occur in the
        group: the table is δ-disclosure private above this δ.
    disclosed_rows : int
        Rows in groups with a single value, which is therefore disclosed.
    distinct_by_group, entropy_by_group, t_by_group : array, shape (groups,)
        ``distinct_l``, ``entropy_l`` and ``t`` of each group. They are not shown by ``repr``.
    """

    column: str
    values: int
    distance: Distance
    distinct_l: int
    entropy_l: float
    recursive_cl: Mapping[int, float]
    alpha: float
    t: float
    beta: float
    enhanced_beta: float
    delta: float
    disclosed_rows: int
    distinct_by_group: NDArray[np.int64] = field(repr=False)
    entropy_by_group: NDArray[np.float64] = field(repr=False)
    t_by_group: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupModels:
    """The privacy models that a table satisfies, returned by :func:`sfumato.group_models`.

    The models of several sensitive columns are those of the worst column; ``models[name]`` is one column.

    Attributes
    ----------
    quasi : tuple of str
        The quasi-identifiers that form the groups.
    rows : int
        Rows of the table.
    k : int
        Smallest frequency of a row: the table is k-anonymous up to this k.
    groups : int
        Number of groups, which are combinations of values that occur.
    labels : array of int, shape (rows,)
        Number of the group of each row. Not shown by ``repr``, like the following ones.
    frequencies : array of int, shape (rows,)
        Number of rows in the group of each row, or that match it if a missing value may be any value.
    weighted_frequencies : array of float, shape (rows,), or None
        Sum of the weights of these rows, which estimates their number in the population; None without weights.
    columns : tuple of SensitiveModels
        The models of each sensitive column.
    people : int or None
        Number of people, if the schema has a column with the role person: frequencies, k and the models of sensitive
        columns then count people instead of rows. None otherwise.

    Examples
    --------
    >>> import sfumato as sf
    >>> models = sf.group_models({"age": [30, 30, 40, 40], "illness": ["a", "b", "a", "a"]}, ["age"], ["illness"])
    >>> models["illness"].distinct_l, models["illness"].disclosed_rows
    (1, 2)
    """

    quasi: tuple[str, ...]
    rows: int
    k: int
    groups: int
    labels: NDArray[np.int64] = field(repr=False)
    frequencies: NDArray[np.int64] = field(repr=False)
    weighted_frequencies: NDArray[np.float64] | None = field(repr=False)
    columns: tuple[SensitiveModels, ...]
    people: int | None = None

    def __getitem__(self, column: str) -> SensitiveModels:
        """Return the models of one sensitive column."""
        for models in self.columns:
            if models.column == column:
                return models
        raise OptionError(f"{column!r} is not one of the sensitive columns.", found=f"{len(self.columns)} columns")

    @property
    def unique_rows(self) -> int:
        """Number of rows that are alone in their group."""
        return int((self.frequencies == 1).sum())

    @property
    def distinct_l(self) -> int | None:
        """The table is distinct ℓ-diverse up to this ℓ; None without sensitive columns, here and below."""
        return min((models.distinct_l for models in self.columns), default=None)

    @property
    def entropy_l(self) -> float | None:
        """The table is entropy ℓ-diverse up to this ℓ."""
        return min((models.entropy_l for models in self.columns), default=None)

    @property
    def recursive_cl(self) -> Mapping[int, float] | None:
        """For each ℓ from 2 to ``distinct_l``, the c above which the table is recursive (c, ℓ)-diverse."""
        if self.distinct_l is None:
            return None
        return {l: max(models.recursive_cl[l] for models in self.columns) for l in range(2, self.distinct_l + 1)}

    @property
    def alpha(self) -> float | None:
        """The table is (α, k)-anonymous from this α on."""
        return max((models.alpha for models in self.columns), default=None)

    @property
    def t(self) -> float | None:
        """The table is t-close from this t on."""
        return max((models.t for models in self.columns), default=None)

    @property
    def beta(self) -> float | None:
        """Smallest β of basic β-likeness."""
        return max((models.beta for models in self.columns), default=None)

    @property
    def enhanced_beta(self) -> float | None:
        """Smallest β of enhanced β-likeness."""
        return max((models.enhanced_beta for models in self.columns), default=None)

    @property
    def delta(self) -> float | None:
        """The table is δ-disclosure private above this δ."""
        return max((models.delta for models in self.columns), default=None)

    def rows_failing(
        self, *, k: int | None = None, l: int | None = None, entropy_l: float | None = None, t: float | None = None
    ) -> int:
        """Return the number of rows in groups that fail any of these models.

        Parameters
        ----------
        k : int, optional
            Fail if the group has fewer rows. Default: not asked.
        l : int, optional
            Fail if the group has fewer different values of a sensitive column. Default: not asked.
        entropy_l : float, optional
            Fail if exp(entropy) of a sensitive column in the group is smaller. Default: not asked.
        t : float, optional
            Fail if the distance of a sensitive column in the group is larger. Default: not asked.
        """
        fails = np.zeros(self.groups, dtype=bool)
        for models in self.columns:
            fails |= False if l is None else models.distinct_by_group < l
            fails |= False if entropy_l is None else models.entropy_by_group < entropy_l
            fails |= False if t is None else models.t_by_group > t
        return int((fails[self.labels] | (False if k is None else self.frequencies < k)).sum())

    def to_plain(self) -> dict[str, object]:
        """Return the models as a dictionary that can be written as JSON, without the arrays."""
        return {
            "quasi": list(self.quasi),
            "rows": self.rows,
            "groups": self.groups,
            "unique_rows": self.unique_rows,
            "rows_below": {str(k): self.rows_failing(k=k) for k in (2, 3, 5, 10, 20)},
            **{name: getattr(self, name) for name in ("k", *MODELS)},
            "columns": [
                {name: getattr(models, name) for name in ("column", "values", "distance", "disclosed_rows", *MODELS)}
                for models in self.columns
            ],
        }


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
        Schema that declares trees and orders of sensitive columns. Where it gives a column the role person, groups
        are counted in people: a person counts once in a group, and once for each of her values there. Default: none.
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
    people = None if known is None or known.person is None else table.coded(known.person)
    if people is not None:
        once = first_rows(refine(labels, people.codes, people.size))
        frequencies = np.bincount(labels[once])[labels]
    return GroupModels(
        quasi=names,
        rows=table.rows,
        k=int(frequencies.min()),
        groups=int(labels.max()) + 1,
        labels=labels,
        frequencies=frequencies,
        weighted_frequencies=weighted,
        columns=tuple(_measure_column(table, name, labels, distances[name], known, people) for name in asked),
        people=None if people is None else people.size,
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
    table: Table,
    name: str,
    labels: NDArray[np.int64],
    distance: Distance,
    schema: Schema | None,
    people: Coded | None,
) -> SensitiveModels:
    coded = table.coded(name)
    counts = SensitiveCounts.of(labels, coded.codes, coded.size)
    if people is not None:
        once = first_rows(refine(refine(labels, coded.codes, coded.size), people.codes, people.size))
        counts = SensitiveCounts.of(labels[once], coded.codes[once], coded.size)
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
