"""Private synthesis: rows drawn from a graphical model of noisy marginals, with a proof of differential privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from sfumato.errors import warn
from sfumato.methods.options import reported_option
from sfumato.methods.private_columns import Domain, NumberDomain, domains_of, find_domains, limit_rows, split_budget
from sfumato.methods.private_method import FOUND, PrivateMethod
from sfumato.methods.private_synthesis.attributes import attribute_of
from sfumato.methods.private_synthesis.budget_spending import Spending
from sfumato.methods.private_synthesis.drawing import draw_rows, draw_systematically
from sfumato.methods.private_synthesis.inference import join_measurements, variance_of_total
from sfumato.methods.private_synthesis.marginal_errors import bound_marginals
from sfumato.methods.private_synthesis.measured_columns import (
    Leaves,
    MeasuredColumn,
    bin_column,
    count_bins,
    measure_column,
)
from sfumato.methods.private_synthesis.selection import PairSelection
from sfumato.methods.private_synthesis.structural_zeros import (
    NeverMet,
    class_codes,
    cuts_of,
    draw_possible,
    find_zeros,
    read_conditions,
)
from sfumato.params import Checked, Choice, OrNone, require_list
from sfumato.plan.claims.rows import ColumnsAllowed
from sfumato.plan.plan import Claim, Outcome, Plan
from sfumato.statistics.conditions import base_columns
from sfumato.statistics.language import parse
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.private_synthesis.attributes import Attribute
    from sfumato.methods.private_synthesis.inference import Fitted, Measurement
    from sfumato.methods.private_synthesis.junction_tree import Clique
    from sfumato.plan.claims.concentrated_privacy import MeasuredPrivacy
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema
    from sfumato.statistics.conditions import Condition
    from sfumato.statistics.statistic import Statistic

COLUMN_SHARE = 0.1  # of the budget, for the counts of single columns
KEPT_WEIGHT = 4  # of pairs of columns that a kept statistic needs, against 1 of the others


@dataclass(frozen=True, kw_only=True)
class PrivateSynthesis(PrivateMethod):
    """Release synthetic rows with a proof: (ε, δ)-differential privacy.

    Noisy counts of single columns and of chosen pairs of columns are measured. A graphical model is fitted to them, and
    the rows are drawn from the model. Whether a person took part changes the probability of any release by a factor of
    at most e^ε, except with probability δ. Nothing else about the people is released: the number of rows is noisy, and
    the values are those of the declared domain of their column.

    ========  =================================================================================================
    ``kind``  what is measured
    ========  =================================================================================================
    "aim"     pairs that the model misses most, one after the other, until the budget is spent (AIM)
    "mst"     a spanning tree of the pairs that depend on each other most (MST); faster, and less accurate
    ========  =================================================================================================

    Every column needs a role, and its domain should be declared: ``domain`` for numbers, ``order`` or a pandas
    Categorical (an Arrow dictionary) for categories. A domain that is not declared is found privately, which costs a
    part of the budget. Values outside the domain count as its nearest end, or as missing.

    Examples
    --------
    >>> import numpy as np, pandas as pd, sfumato as sf
    >>> age = np.random.default_rng(0).integers(18, 90, 5000)
    >>> sex = pd.Categorical(np.where(age % 2, "f", "m"), categories=["f", "m"])
    >>> people = pd.DataFrame({"age": age, "sex": sex, "retired": age > 66})
    >>> schema = {"age": {"role": "quasi", "domain": [0, 99]}, "sex": "quasi", "retired": "quasi"}
    >>> release = sf.PrivateSynthesis(epsilon=1.0, delta=1e-6).release(people, schema=schema)
    >>> release.manifest.guarantee
    '(1, 1e-06)-differentially private for one row'
    >>> bool(abs(release.table.numbers("age").mean() - age.mean()) < 3.0)
    True
    """

    name: ClassVar[str] = "private-synthesis"
    theory: ClassVar[str] = "private-synthesis"
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "rho": "budget in zero-concentrated differential privacy, and how much of it was spent",
        "moments": "noisy number of rows, with the standard deviation of the noise",
        "histograms": "noisy counts of the parts of each column that were counted, missing values last",
        "bins": "first part, and end, of each bin of a column in the model",
        "pairs": "noisy counts of pairs of bins, for pairs of columns that were measured",
        "model cells": "number of cells of the model",
        "found": "columns whose ends or categories were found privately, because they were not declared",
        "errors": "for single columns and pairs: how many rows the released counts of bins miss in all, at most, with "
        "probability 0.95",
    }

    keep: Sequence[str | Statistic] | None = reported_option(
        OrNone(Checked("list of statistics", require_list)),
        'Statistics to keep accurate, such as ["corr(age, income)", "mean(income)"]: the columns that they need, and '
        "pairs of them, are measured with preference. None: all pairs of columns are equally important.",
        default=None,
    )
    never: Sequence[str] | None = reported_option(
        OrNone(Checked("list of conditions", require_list)),
        'Combinations of values that cannot occur, such as ["age < 15 and marital = married"]: no released row has '
        "one. They are public: declare what follows from the meaning of the columns, not what the table shows. None: "
        "there are none.",
        default=None,
    )
    kind: Literal["aim", "mst"] = reported_option(
        Choice(("aim", "mst")), "How the pairs of columns that are measured are chosen.", default="aim"
    )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> PrivateSynthesisPlan:
        """Measure, fit the model and draw the rows: the plan holds nothing that depends on a person without noise."""
        names = tuple(column.name for column in schema.columns)
        weights = self._weigh(names)
        promise = replace(self.promise(survey.sample.table, schema), columns=names)
        most = self.rows_per_person
        table = limit_rows(survey.sample.table, schema.person, most, randomness.stream("rows of people"))
        declared = domains_of(table, schema)
        never = read_conditions(self.never or (), declared)
        spending = Spending(Fraction(promise.rho), most)
        finding = 0.0 if all(declared.values()) else FOUND * spending.left
        spending.spend(Fraction(finding))
        domains = find_domains(declared, table, rho=finding, chance=promise.chance, rows_per_person=most)
        looked_at = randomness.stream("pairs of columns that are looked at")
        selection = _measure(list(domains.values()), table, spending, weights, never, looked_at)
        fitted = selection.select_adaptively() if self.kind == "aim" else selection.select_tree()
        if fitted.is_contradicted:
            warn("Noisy counts tell of people whom never= says to be impossible: the rows are far from the table.")
        rows = randomness.stream("synthetic rows")
        released = draw_possible(lambda: _draw(selection.columns, fitted, names, rows), never, rows)
        found = [name for name, domain in declared.items() if domain is None]
        notes = _notes(selection, fitted) | {"found": found, "errors": bound_marginals(selection, released)}
        return PrivateSynthesisPlan(
            released=released, promise=promise, never=tuple(map(str, never)), method_notes=notes
        )

    def _weigh(self, names: Sequence[str]) -> dict[frozenset[str], int]:
        """Return the weight of columns and pairs of columns that kept statistics need."""
        kept = [base_columns(parse(one, names=names).columns) for one in self.keep or ()]
        needed = [
            frozenset(some) for columns in kept for size in (1, 2) for some in combinations(sorted(columns), size)
        ]
        return dict.fromkeys(needed, KEPT_WEIGHT)


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivateSynthesisPlan(Plan):
    """The drawn rows, which are those of nobody."""

    released: Table
    promise: MeasuredPrivacy
    never: tuple[str, ...]
    method_notes: Mapping[str, Any]

    @property
    def needs_whole_table(self) -> bool:
        return True

    def transform(self, block: Table, number: int) -> Outcome:
        return Outcome(self.released, np.full(self.released.rows, -1))

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        never = (NeverMet(never=self.never),) if self.never else ()
        return (self.promise, ColumnsAllowed(names=self.promise.columns), *never)

    @property
    def notes(self) -> Mapping[str, Any]:
        return self.method_notes


def _measure(
    domains: Sequence[Domain],
    table: Table,
    spending: Spending,
    weights: Mapping[frozenset[str], int],
    never: Sequence[Condition],
    generator: np.random.Generator,
) -> PairSelection:
    """Measure each column, merge what is rare, and return the columns ready for the choice of pairs."""
    attributes = [
        attribute_of(domain, cuts_of(domain, never) if isinstance(domain, NumberDomain) else ()) for domain in domains
    ]
    classes = [class_codes(attribute, never) for attribute in attributes]
    codes = [attribute.encode(table) for attribute in attributes]
    share = COLUMN_SHARE if len(domains) > 1 else 1.0
    parts = [float(weights.get(frozenset([domain.name]), 1)) for domain in domains]
    shares = split_budget(share * spending.left, parts)
    leaves = [
        measure_column(attribute, own, spending, rho, parted)
        for attribute, own, rho, parted in zip(attributes, codes, shares, classes, strict=True)
    ]
    columns = _bin(attributes, leaves, classes, spending)
    order = sorted(range(len(columns)), key=lambda place: columns[place].size)
    columns = [columns[place] for place in order]
    return PairSelection(
        columns=columns,
        codes=[column.bin_codes(codes[place]) for column, place in zip(columns, order, strict=True)],
        weights=_number_pairs(columns, weights),
        spending=spending,
        zeros=find_zeros(columns, never),
        generator=generator,
    )


def _bin(
    attributes: Sequence[Attribute],
    leaves: Sequence[Leaves],
    classes: Sequence[NDArray[np.int64]],
    spending: Spending,
) -> list[MeasuredColumn]:
    rows = float(np.mean([own.counts.sum() for own in leaves]))
    pairs = max(1, math.comb(len(leaves), 2))
    sigma = spending.rows_per_person * math.sqrt(pairs / (2.0 * spending.left)) if spending.left > 0.0 else 1.0
    bins = count_bins(rows, sigma)
    return [
        bin_column(attribute, own, bins, parted)
        for attribute, own, parted in zip(attributes, leaves, classes, strict=True)
    ]


def _number_pairs(columns: Sequence[MeasuredColumn], weights: Mapping[frozenset[str], int]) -> dict[Clique, int]:
    names = [column.attribute.domain.name for column in columns]
    pairs = {pair: weights.get(frozenset(names[one] for one in pair), 1) for pair in combinations(range(len(names)), 2)}
    return {pair: weight for pair, weight in pairs.items() if weight > 1}


def _draw(
    columns: Sequence[MeasuredColumn], fitted: Fitted, names: Sequence[str], generator: np.random.Generator
) -> Table:
    """Draw rows from the model, a leaf for each bin, and a value for each leaf."""
    drawn = draw_rows(fitted.calibrated, max(1, round(fitted.total)), generator)
    cells = {}
    for column, bins in zip(columns, drawn, strict=True):
        shares = np.zeros((column.size, len(column.bins)))
        shares[column.bins, np.arange(len(column.bins))] = column.shares
        leaf = draw_systematically(shares, bins, generator)
        first, last = column.leaves.first[leaf], column.leaves.last[leaf]
        cells[column.attribute.domain.name] = column.attribute.decode(first, last, generator)
    kinds = {column.attribute.domain.name: column.attribute.domain.kind for column in columns}
    return Table(pa.table({name: cells[name] for name in names}), {name: kinds[name] for name in names})


def _notes(selection: PairSelection, fitted: Fitted) -> dict[str, Any]:
    names = [column.attribute.domain.name for column in selection.columns]
    joined = join_measurements(selection.measurements)
    rows = {"columns": [], "order": 1, "centers": [], "halves": [], "sums": [fitted.total], "grid": 1}
    return {
        "rho": {"budget": float(selection.spending.rho), "spent": float(selection.spending.spent)},
        "moments": [{**rows, "sigma": math.sqrt(variance_of_total(selection.measurements))}],
        "histograms": {name: column.histogram for name, column in zip(names, selection.columns, strict=True)},
        "bins": {name: column.ranges for name, column in zip(names, selection.columns, strict=True)},
        "pairs": [_note_pair(one, selection, names) for one in joined if len(one.clique) > 1],
        "model cells": sum(belief.size for belief in fitted.calibrated.beliefs),
    }


def _note_pair(one: Measurement, selection: PairSelection, names: Sequence[str]) -> dict[str, Any]:
    """Tell the counts of a pair, and how often it was measured if noise decided that: intervals allow for it."""
    columns = [names[place] for place in one.clique]
    note = {"columns": columns, "counts": one.counts.ravel().tolist(), "sigma": math.sqrt(one.variances.flat[0])}
    times = sum(other.clique == one.clique for other in selection.measurements)
    return note if selection.is_fixed else {**note, "times": times}
