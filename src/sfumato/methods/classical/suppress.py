"""Local suppression: single cells are left empty until every row is equal to at least k − 1 others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from sfumato.methods.base import Method, Outcome, Plan
from sfumato.methods.claims import ColumnsAllowed, KAnonymity, RowsAccountedFor, ValidCells
from sfumato.methods.classical.group_rules import GroupRules
from sfumato.methods.classical.random_suppression import with_more_suppressed
from sfumato.methods.options import group_size_option, importance_of, importance_option, require_rows, search_option
from sfumato.methods.recodings.value_groupings import Groupings
from sfumato.params import Choice, Share, option
from sfumato.schema.columns import Role
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.claims import Claim
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.survey.survey import Survey

Kind = Literal["minimal", "random"]
KINDS: tuple[Kind, ...] = ("minimal", "random")


@dataclass(frozen=True, kw_only=True)
class Suppress(Method):
    """Leave single cells of quasi-identifiers empty until every row is equal to at least k − 1 others.

    A suppressed cell is a value of its own, like a missing one: it does not match every value, so the release is
    k-anonymous for whoever counts it. Cells of important columns are kept longer. kind="minimal" suppresses as few
    cells as the search finds; whoever knows this can rule out values that would not have been suppressed.
    kind="random" also suppresses cells of rows that did not need it: at least as many as of those that did, where there
    are so many, so that nothing follows from a suppression. This costs about twice as many cells.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"sex": ["f"] * 6 + ["m"] * 6, "city": ["Ulm"] * 5 + ["Rom"] + ["Oslo"] * 6}
    >>> release = sf.Suppress(k=3).release(people, schema={"sex": "quasi", "city": "quasi"})
    >>> release.table.arrow.column("city").null_count + release.table.arrow.column("sex").null_count
    3
    """

    name: ClassVar[str] = "suppress"
    theory: ClassVar[str] = "suppression"
    one_row_per_person: ClassVar[bool] = True
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "suppression": "how cells were chosen",
        "importance": "of each column",
    }

    k: int = group_size_option(
        "Smallest number of rows that must be equal in the quasi-identifiers; a suppressed cell is a value."
    )
    kind: Kind = option(
        Choice(KINDS),
        'Whether as few cells as possible are suppressed ("minimal"), or also some that need not be ("random").',
        default="minimal",
        reported=True,
    )
    importance: Mapping[str, float] | None = importance_option("Relative cost of suppressing a cell of each column.")
    extra: float = option(
        Share(),
        'With kind="random", the probability that one more column of a group is suppressed.',
        default=0.2,
        unit="groups",
        reported=True,
    )
    search: float = search_option()

    @property
    def needs_whole_table(self) -> bool:
        return True

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> SuppressPlan:
        """Make the plan; the cells are chosen when it is run."""
        require_rows(survey.rows, self.k)
        quasi = schema.names(Role.QUASI)
        return SuppressPlan(
            names=tuple(column.name for column in schema.columns),
            quasi=quasi,
            domains={column.name: column.domain for column in schema.columns if column.domain is not None},
            importance=importance_of(self.importance, quasi),
            method=self,
            randomness=randomness,
        )


@dataclass(frozen=True, repr=False)
class SuppressPlan(Plan):
    """Choose the cells of all rows, and leave them empty."""

    names: tuple[str, ...]
    quasi: tuple[str, ...]
    domains: Mapping[str, tuple[float, float]]
    importance: Mapping[str, float]
    method: Suppress
    randomness: Randomness

    @property
    def needs_whole_table(self) -> bool:
        return True

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        return (
            KAnonymity(k=self.method.k, columns=self.quasi),
            ValidCells(domains=self.domains),
            RowsAccountedFor(),
            ColumnsAllowed(names=self.names),
        )

    @property
    def notes(self) -> Mapping[str, Any]:
        return {"suppression": self.method.kind, "importance": dict(self.importance)}

    def transform(self, block: Table, number: int) -> Outcome:
        hidden = self._hidden(block, number) if self.quasi else np.zeros((block.rows, 0), dtype=bool)
        columns = {}
        for name in self.names:
            column = block.arrow.column(name)
            if name in self.quasi:
                mask = pa.array(hidden[:, self.quasi.index(name)])
                nothing = pa.scalar(None, column.type)
                column = pa.chunked_array([pa.compute.if_else(mask, nothing, column.combine_chunks())])
            columns[name] = column
        released = Table(pa.table(columns), {name: block.kinds[name] for name in self.names})
        return Outcome(released, np.arange(block.rows))

    def _hidden(self, block: Table, number: int) -> NDArray[np.bool_]:
        """Mark the cells that are suppressed; shape (rows, quasi-identifiers)."""
        from sfumato.methods.classical.local_groups import local_groups

        coded = [block.coded(name) for name in self.quasi]
        weights = [self.importance[name] for name in self.quasi]
        values = [np.arange(column.size, dtype=np.int32) for column in coded]
        grouped = [
            Groupings(name, column.codes, (own, np.zeros_like(own)), weight=weight)
            for name, column, own, weight in zip(self.quasi, coded, values, weights, strict=True)
        ]
        costs = [[np.zeros(len(own)), np.full(len(own), weight)] for own, weight in zip(values, weights, strict=True)]
        rules = GroupRules(k=self.method.k, average_risk=None, sensitive=())
        generator = self.randomness.stream(f"suppress {number}")
        hidden = local_groups(grouped, costs, rules, [], generator, self.method.search) > 0
        if self.method.kind == "minimal":
            return hidden
        codes = np.column_stack([column.codes for column in coded]).astype(np.int64)
        return with_more_suppressed(codes, hidden, self.method.k, self.method.extra, generator)
