"""Joining: whoever knows several facts about a person looks for her in all released tables at once.

Tables that are k-anonymous each by itself may single people out together: pseudonyms link the rows of a person, and few
people share her cells in one table and her cells in another. The intruder is the strongest one: she knows which
released cells belong to a fact, so that overlapping boxes do not confuse her.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import OptionError
from sfumato.plan.plan import format_count
from sfumato.release.assessment import Assessment, Score
from sfumato.release.linked import JoinedHistories, LinkedRelease, group_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.release.release import Release
    from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class JoiningRisk:
    """How many people fit what an intruder knows about each person, over the join of released tables.

    Attributes
    ----------
    knows : str
        What the intruder knows.
    fewest : int
        People who fit, for the person with the fewest.
    below_k : float
        Share of the people whom fewer than k people fit, from 0 to 1.
    alone : float
        Share of the people whom nobody else fits, from 0 to 1.

    Examples
    --------
    >>> import sfumato as sf
    >>> print(sf.JoiningRisk(knows="any 2 rows", fewest=1, below_k=0.425, alone=0.202))
    any 2 rows: fewest people 1; fewer than k for 42.5%, alone 20.2%
    """

    knows: str
    fewest: int
    below_k: float
    alone: float

    @classmethod
    def of(cls, knows: str, candidates: NDArray[np.int64], k: int) -> JoiningRisk:
        """Summarise the number of people who fit each person."""
        shares = float((candidates < k).mean()), float((candidates == 1).mean())
        return cls(knows=knows, fewest=int(candidates.min()), below_k=shares[0], alone=shares[1])

    def __str__(self) -> str:
        shares = f"fewer than k for {self.below_k:.1%}, alone {self.alone:.1%}"
        return f"{self.knows}: fewest people {self.fewest:,}; {shares}"


def joining_attack(
    release: LinkedRelease | Mapping[str, Release], *, person: str | None = None, k: int | None = None
) -> tuple[JoiningRisk, ...]:
    """Count the people who fit what intruders may know about a person, when all released tables are joined.

    Parameters
    ----------
    release : LinkedRelease or mapping of str to Release
        Tables that were released together, or one by one with the same pseudonyms. One of them has one row for each
        person.
    person : str, optional
        The column of pseudonyms; needed for tables that were released one by one.
    k : int, optional
        Number of people that is enough; needed for tables that were released one by one.

    Returns
    -------
    tuple of JoiningRisk
        One for each kind of knowledge, besides the row of a person in the table of people: nothing, which tables she
        has rows in, how many, any one or two of these rows, and all of them.

    Examples
    --------
    >>> import sfumato as sf
    >>> patients = {"id": list("abcd"), "birth": [1950, 1951, 1980, 1982]}
    >>> visits = {"id": list("abbcd"), "year": [2020, 2021, 2023, 2020, 2022]}
    >>> release = sf.Boxes(k=2).release(
    ...     sf.LinkedTables({"patients": patients, "visits": visits}, person="id"),
    ...     schema={"patients": {"birth": "quasi"}, "visits": {"year": "quasi"}},
    ... )
    >>> any_one = sf.joining_attack(release)[3]
    >>> any_one.knows, any_one.below_k
    ('any 1 row', 0.0)
    """
    if isinstance(release, LinkedRelease):
        tables, person, k = release.tables, release.manifest.person, k or release.manifest.k
        people = release.manifest.people
    elif person is None or k is None:
        raise OptionError("Tables that were released one by one need the person and k.", fix='person="id", k=5')
    else:
        tables, people = release, _table_of_people(release, person)
    columns = {name: group_columns(one.manifest) for name, one in tables.items() if one.manifest is not None}
    joined = JoinedHistories.of({name: one.table for name, one in tables.items()}, columns, person, people)
    return tuple(JoiningRisk.of(knows, found, k) for knows, found in _knowledge(joined))


def assess_joining(
    release: LinkedRelease, before: Mapping[str, Table], known: Mapping[str, Sequence[str]]
) -> Assessment:
    """Attack the release by joining its tables and, as the control, the tables ``before`` by the columns ``known``."""
    told = release.manifest
    joined = JoinedHistories.of(before, known, told.person, told.people)
    controls = (JoiningRisk.of(knows, found, told.k) for knows, found in _knowledge(joined))
    promised = ("nothing more", "all her rows") if told.facts is None else ("nothing more", *_facts(told.facts))
    scores = []
    for risk, control in zip(joining_attack(release), controls, strict=True):
        scores.append(
            Score(
                name=f"people whom fewer than k fit, known: {risk.knows}",
                family="privacy",
                value=risk.below_k,
                better="lower",
                rows=len(joined.cells),
                counted="people",
                passed=risk.fewest >= told.k if risk.knows in promised else None,
                note=f"share of the people; fewest {risk.fewest:,}, alone {risk.alone:.1%}; in the tables as they were "
                f"{control.below_k:.1%}, alone {control.alone:.1%}",
            )
        )
    tables = release.tables.values()
    return Assessment(
        method=next(one.manifest.method for one in tables if one.manifest is not None),
        original_rows=sum(one.rows for one in before.values()),
        released_rows=sum(one.table.rows for one in tables),
        reference_rows=0,
        columns=sum(len(names) for names in known.values()),
        scores=tuple(scores),
        omitted=(),
        people=len(joined.cells),
    )


def _facts(most: int) -> tuple[str, ...]:
    return tuple(f"any {format_count(count, 'row')}" for count in range(1, most + 1))


def _knowledge(joined: JoinedHistories) -> Iterator[tuple[str, NDArray[np.int64]]]:
    counts = [Counter(table for table, _ in rows) for rows in joined.rows.values()]
    yield "nothing more", joined.candidates(0)
    yield "which tables she is in", joined.candidates_by(frozenset(one) for one in counts)
    yield "how many rows she has", joined.candidates_by(frozenset(one.items()) for one in counts)
    yield "any 1 row", joined.candidates(1)
    yield "any 2 rows", joined.candidates(2)
    yield "all her rows", joined.candidates(None)


def _table_of_people(tables: Mapping[str, Release], person: str) -> str:
    for name, one in tables.items():
        if len(one.table.arrow.column(person).unique()) == one.table.rows:
            return name
    raise OptionError("One of the tables must have one row for each person.", found="none")
