"""The records of the privacy models that a table satisfies, for each sensitive column and for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
