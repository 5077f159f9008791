"""A random sample, generalized by fixed levels: differential privacy with rows that are true (SafePub)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.errors import OptionError
from sfumato.methods.base import Method
from sfumato.methods.options import reported_option
from sfumato.methods.partition import HashedGroups
from sfumato.methods.recodings.group_rules import GroupRules
from sfumato.methods.recodings.quasi_columns import MOST_VALUES, promise_containment
from sfumato.methods.recodings.recoding import Recoded, Recoding, RecodingPlan, ValueMap, texts
from sfumato.params import Checked, Number, OrNone, Probability, require_int
from sfumato.plan.claims.risk import SampledPrivacy
from sfumato.plan.claims.rows import RowsAccountedFor
from sfumato.plan.claims.sampling_privacy import SamplingParameters, sampling_parameters
from sfumato.plan.plan import Claim, Outcome
from sfumato.plan.questions import Distinct, DistinctIn
from sfumato.plan.survey import Survey, count_blocks
from sfumato.schema.columns import Column, Role
from sfumato.schema.hierarchies import ROOT
from sfumato.schema.suggested_hierarchies import tree_for
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class PrivateSample(Method):
    """Release a random sample of the rows, generalized by fixed levels of trees: (ε, δ)-differential privacy.

    Each row is kept with probability 1 − e^(−ε). Every column, sensitive ones too, is generalized to its level, and
    groups of equal rows that are smaller than a k computed from ε and δ are suppressed. Booleans without a tree are
    released as they are; other columns without a tree tell nothing ("*"). The promise holds only if trees and levels
    were chosen without looking at the table.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20 + row % 60 for row in range(3000)], "sex": ["f", "m"] * 1500}
    >>> schema = {"age": {"role": "quasi", "tree": "steps:20"}, "sex": {"role": "quasi", "tree": "prefix"}}
    >>> release = sf.PrivateSample(epsilon=1.0, delta=1e-4, levels={"age": 1, "sex": 0}).release(people, schema=schema)
    >>> sorted(set(release.table.arrow.column("age").to_pylist()))
    ['20–39', '40–59', '60–79']
    """

    name: ClassVar[str] = "private-sample"
    theory: ClassVar[str] = "sampling-privacy"
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "delta": "probability with which the factor e^ε may be exceeded",
        "sampling probability": "probability that a row was kept",
        "smallest group": "smallest number of equal rows that were released",
        "columns": "how each column was recoded",
    }

    epsilon: float = reported_option(
        Number(above=0.0),
        "Privacy loss ε: one row changes the probability of any release by a factor of at most e^ε, except with "
        "probability δ.",
        default=1.0,
        strengths=(4.0, 2.0, 1.0, 0.5, 0.25),
    )
    delta: float | None = reported_option(
        OrNone(Probability()),
        "Probability δ with which the factor may be larger. Choose it well below 1 ÷ the number of rows. None: the "
        "number of rows to the power −1.2, rounded down to a power of ten, if its order of magnitude is public.",
        default=None,
    )
    levels: Mapping[str, int] | None = reported_option(
        OrNone(Checked("level of its tree for each named column", lambda value, name: _require_levels(value))),
        "Level of each column's tree, 0 for the values themselves. It must be chosen without looking at the table. "
        "Columns that are not named are generalized to the middle level of their tree.",
        default=None,
    )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> SamplePlan:
        """Choose the levels, which do not depend on the rows."""
        names = tuple(column.name for column in schema.columns if column.role is not Role.WEIGHT)
        unknown = [name for name in self.levels or {} if name not in names]
        if unknown:
            raise OptionError(
                "Only released columns have a level.", found=f"a level of {', '.join(map(repr, unknown))}"
            )
        questions = {name: DistinctIn(name, MOST_VALUES) for name in names if schema[name].tree}
        answers = survey.ask(questions.values())
        kinds = survey.sample.table.kinds
        recodings: list[Recoding] = [
            self._generalize(schema[name], answers[questions[name]]) if name in questions else Untold(name)
            for name in names
            if name in questions or kinds[name] is not Kind.BOOLEAN
        ]
        delta = self.delta or 10.0 ** -math.ceil(1.2 * math.log10(max(2, survey.rows)))
        sampling = sampling_parameters(self.epsilon, delta)
        promise = SampledPrivacy(epsilon=self.epsilon, delta=delta, beta=sampling.beta, k=sampling.k, columns=names)
        return SamplePlan(
            columns=names,
            quasi=names,
            recodings=tuple(recodings),
            promises=(promise, *promise_containment([one for one in recodings if isinstance(one, ValueMap)])),
            method_notes={"delta": delta, "sampling probability": sampling.beta, "smallest group": sampling.k},
            rules=GroupRules(k=sampling.k),
            suppressed_at_most=1.0,
            groups=HashedGroups(count_blocks(survey)),  # a group that is divided would be counted in parts
            sampling=sampling,
            randomness=randomness,
        )

    def _generalize(self, column: Column, distinct: Distinct) -> ValueMap:
        """Return the recoding of a column to its level."""
        distinct = distinct.require_complete(column.name)
        tree = tree_for(column, distinct.values)
        assert tree is not None
        tree.positions(distinct.values, column=column.name)  # raises unless the tree contains every value
        level = min((self.levels or {}).get(column.name, (tree.levels - 1) // 2), tree.levels - 1)
        nodes = tree.level(level)
        untold = tree.names[-1][0] if level == tree.levels - 1 else None  # the root also stands for a missing value
        words = [untold if value is None else nodes[value] for value in texts(distinct.values)]
        how, cells = f"level {level} of its tree", pa.array(words, pa.string())
        return ValueMap(name=column.name, kind=Kind.NOMINAL, distinct=distinct, cells=cells, how=how)


@dataclass(frozen=True, kw_only=True, repr=False)
class SamplePlan(RecodingPlan):
    """Draw the sample, and recode it."""

    sampling: SamplingParameters
    randomness: Randomness

    @property
    def notes(self) -> Mapping[str, Any]:
        """How each column was recoded, without counts: one person can change a count of the whole table."""
        notes = super().notes
        return {**notes, "columns": {name: {"how": note["how"]} for name, note in notes["columns"].items()}}

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        """The promises, without the number of original rows: one person changes it with certainty."""
        return tuple(
            replace(one, is_counted=False) if isinstance(one, RowsAccountedFor) else one for one in super().claims
        )

    def transform(self, block: Table, number: int) -> Outcome:
        draws = self.randomness.stream(f"sample {number}").random(block.rows)
        drawn = np.flatnonzero(draws < self.sampling.beta)
        outcome = super().transform(block.take(drawn), number)
        return Outcome(outcome.released, drawn[outcome.origin])


@dataclass(frozen=True)
class Untold(Recoding):
    """A column that tells nothing."""

    name: str

    @property
    def values(self) -> int:
        return 1

    def codes(self, table: Table) -> NDArray[np.int64]:
        return np.zeros(table.rows, dtype=np.int64)

    def show(self, codes: NDArray[np.int64]) -> tuple[Recoded, ...]:
        return (Recoded(self.name, pa.array([ROOT] * len(codes), pa.string()), Kind.NOMINAL),)

    @property
    def note(self) -> dict[str, Any]:
        return {"how": "nothing is told"}


def _require_levels(levels: Any) -> None:
    if not isinstance(levels, Mapping):
        raise OptionError("levels must map columns to levels.", found=type(levels).__name__)
    for name, level in levels.items():
        require_int(level, name=f"the level of {name!r}", at_least=0)
