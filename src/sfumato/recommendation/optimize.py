"""Search for the release that keeps most among those that are safe: a race of methods and options on held-out people.

The race is a successive halving: many candidates are tried on few people, and those that no other beats in both risk
and loss go on with twice as many, until few are tried on all people of the search. The best of many tries is best by
luck, too. So half of the people take no part in the search, and whatever wins is judged on them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.comparison.attempts import SearchedTable, Split, Trial, attempt, attempts, draw_split, trials_of
from sfumato.comparison.records import ComparedMethod, Comparison, decimals, layers_of, non_dominated
from sfumato.errors import OptionError, RequestError, wrap_memory_errors
from sfumato.job.job import Job
from sfumato.languages import ENGLISH, sentences
from sfumato.machine import processors
from sfumato.measures.assess import split_holdout
from sfumato.methods.base import METHODS, method_class
from sfumato.params import options_of, require_int, require_number
from sfumato.recommendation.records import RiskLimit, told_part
from sfumato.schema.columns import Role
from sfumato.schema.schema import FittedTable, Schema
from sfumato.statistics.language import parse

if TYPE_CHECKING:
    from sfumato.engines.base import Engine
    from sfumato.methods.base import Method
    from sfumato.release.release import Release

log = logging.getLogger("sfumato")
UNSEEN = 0.5  # share of the people who take no part in the search
ROUNDS = 3
SHARES = (0.4, 0.6, 0.8)  # of the time, at which each round ends at the latest
GO_ON = 1.0 / 3.0  # share of the candidates that go on
FEWEST = 4  # candidates that go on, if there are so many
SMALLEST = 160  # rows of the search in its first round, if there are so many
JUDGED = 3  # winners that are judged, one after the other, until one holds


@dataclass(frozen=True, kw_only=True, repr=False)
class RaceProgress:
    """How far a search is, after each trial.

    Attributes
    ----------
    round, rounds : int
        Number of the round, from 1, and of all rounds.
    done, trials : int
        Trials of this round that are done, and all of them.
    seconds : float
        Time since the start.
    comparison : Comparison
        What this round found so far; its ``rows`` can be shown on a map.

    Examples
    --------
    >>> import sfumato as sf
    >>> def show(progress):
    ...     print(f"round {progress.round} of {progress.rounds}: {progress.done} of {progress.trials} trials")
    >>> show(sf.RaceProgress(round=1, rounds=2, done=3, trials=8, seconds=5.0, comparison=None))
    round 1 of 2: 3 of 8 trials
    """

    round: int
    rounds: int
    done: int
    trials: int
    seconds: float
    comparison: Comparison


@dataclass(frozen=True, kw_only=True, repr=False)
class Optimum:
    """What a search found, as :func:`sfumato.optimize` returns it.

    Attributes
    ----------
    limit : str
        What the release must hold, in words.
    rounds : tuple of Comparison
        What each round tried; the last one on all people of the search.
    front : tuple of ComparedMethod
        Releases of the last round that no other beats in both risk and loss, the most useful first.
    judged : tuple of ComparedMethod
        What was found on the people whom the search never saw, for each winner that was judged.
    method : Method or None
        The method that was chosen, with its options; None if nothing holds the limit.
    roles : mapping of str to str
        Roles that columns need for it and that differ from those of the table.
    release : Release or None
        The release of all people, if it was asked for and a method was chosen.
    seconds : float
        Time that it took.
    searched_rows : int or None
        Number of random rows that were searched, of a table that is not in memory. None: all.
    verdict : str
        What was found, in one sentence.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.Optimum(limit="all privacy tests pass").verdict
    'No release was found with which all privacy tests pass: none was made.'
    """

    limit: str
    rounds: tuple[Comparison, ...] = ()
    front: tuple[ComparedMethod, ...] = ()
    judged: tuple[ComparedMethod, ...] = ()
    method: Method | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    release: Release | None = None
    seconds: float = 0.0
    searched_rows: int | None = None

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.method is not None:
            best, tried = self.judged[-1], len(self.rounds[0].rows)
            return (
                f"{best.name}: of {tried} candidates it keeps most of those with which {self.limit}, and "
                "this held on people whom the search never saw."
            )
        return f"No release was found with which {self.limit}: {self._why()}."

    def _why(self) -> str:
        tried = [row for one in self.rounds for row in one.rows]
        made = [row for row in (self.judged or tried) if row.largest_risk is not None]
        if not made:
            return next((row.reason for row in tried if row.reason), "none was made").rstrip(".")
        safest = min(made, key=lambda row: row.largest_risk or 0.0)
        where = "on people whom the search never saw" if self.judged else "on held-out people"
        assert safest.assessment is not None
        failed = [score.name for score in safest.assessment.failed if score.family == "privacy"]
        found = f"fails {'; '.join(failed)}" if failed else f"has a risk of {decimals(safest.largest_risk)}"
        return f"the safest, {safest.name}, {found} {where}"

    def to_plain(self) -> dict[str, object]:
        """Return what was found as a dictionary that can be written as JSON."""
        return {
            "verdict": self.verdict,
            "limit": self.limit,
            "method": None if self.method is None else self.method.name,
            "options": {} if self.method is None else Trial(method=self.method).options,
            "roles": dict(self.roles),
            "front": [_brief(row) for row in self.front],
            "judged": [row.to_plain() for row in self.judged],
            "seconds": round(self.seconds, 3),
            "searched_rows": self.searched_rows,
        }

    def __str__(self) -> str:
        return self.text()

    def text(self, language: str = ENGLISH) -> str:
        """Return the front, one method a line, and the verdict; ``language`` is "en" (default), "de" or "fr"."""
        tell = sentences(language).tell
        said = [f"{row.name}: risk {decimals(row.largest_risk)}, loss {decimals(row.loss)}" for row in self.front]
        front = [tell("No other is as safe and as useful:"), *(f"  {tell(one)}" for one in said)] if said else []
        part = [] if self.searched_rows is None else [tell(told_part(self.searched_rows))]
        return "\n".join([*front, *part, tell(self.verdict)])

    def __repr__(self) -> str:
        return f"Optimum({len(self.front)} on the front; {self.verdict})"


def _brief(row: ComparedMethod) -> dict[str, object]:
    told = {"risk": row.largest_risk, "loss": row.loss, "passed": row.passed}
    return {"method": row.method, "strength": row.strength, "options": dict(row.options), **told}


@wrap_memory_errors
def optimize(
    table: Any,
    *,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    keep: Sequence[str] = (),
    risk: str = "passes",
    seconds: float = 300.0,
    methods: Sequence[str | Method] | None = None,
    strengths: int = 3,
    release: bool = False,
    progress: Callable[[RaceProgress], None] | None = None,
    jobs: int | None = None,
    key: str | Path | None = None,
    rows_not_people: bool = False,
    seed: int | None = None,
    engine: str | Engine = "auto",
    into: Any = None,
) -> Optimum:
    """Search for the method and options that keep most of a table, among those that hold a risk.

    Methods race at several strengths, with the roles as they are and with all columns protected that would be released
    exactly. In each of three rounds candidates release some people and are attacked with the help of others, and those
    that no other beats in both risk and loss go on with more people. The winner is judged on the other half of the
    people, whom the search never saw; if it does not hold there, the next one is, up to three. Of a table that is not
    in memory, 20,000 random rows are searched, and its engine releases all of them.

    Parameters
    ----------
    table : Table, path, data frame or Database
        The original rows, at least 80; it may be larger than memory.
    schema : Schema, mapping or path, optional
        Roles of the columns; by default they are suggested.
    keep : sequence of str, optional
        Statistics that must stay accurate, such as ``["mean(age)"]``: the loss is then the largest error of one of
        them, in units of its spread. Default: the loss is 1 − utility of :func:`sfumato.compare`.
    risk : str, default "passes"
        "passes": all privacy tests must pass. "at most 0.09": the largest risk must not be larger. It is the largest of
        three shares: how much better people are recognised than in a sample of others, the gain of the worst attack
        over guessing, and 1 ÷ k where groups of k are promised.
    seconds : float, default 300
        Time for all of it; a trial that is running at the end in this process is finished. With more time more
        candidates go through all rounds. What was not tried in time is not in the result.
    methods : sequence of str or Method, optional
        Names of methods that race, each at several strengths, or methods such as ``sf.Noise(level=0.3)``, as they are.
        Default: all but differentially private ones, whose promise a search would break.
    strengths : int, default 3
        Number of strengths per method, at least 1.
    release : bool, default False
        Whether to release all people with the method that is chosen.
    progress : callable, optional
        Function that is called with a :class:`RaceProgress` after each trial. Default: progress is logged.
    jobs : int, optional
        Number of processes. Default: one per processor.
    key : str or Path, optional
        File with the secret key of pseudonyms and shifted dates.
    rows_not_people : bool, default False
        Whether to count rows although people have several of them.
    seed : int, optional
        Makes the release repeatable, for tests; it is a secret. Default: random numbers from the operating system. Who
        is held out, trials and tests are the same whenever the table is the same and the time suffices.
    engine : str or Engine, default "auto"
        Engine that reads the table and makes the release, such as "memory" or "duckdb". "auto" chooses one that fits
        the table. Methods that need the whole table do not race unless it is in memory.
    into : path or Database, optional
        Where the release is written to, all or nothing, with ``release``. Default: nothing is written.

    Returns
    -------
    Optimum
        The ``front``, the ``method`` that was chosen, what was ``judged``, the ``release`` if asked for, and a
        ``verdict``: if nothing holds the risk, it says so and why.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> draw = np.random.default_rng(0)
    >>> people = {"age": draw.integers(20, 80, 400), "sex": draw.choice(["f", "m"], 400)}
    >>> roles = {"age": "quasi", "sex": "quasi"}
    >>> found = sf.optimize(people, schema=roles, methods=["boxes", "noise"], strengths=1, jobs=1)
    >>> found.limit
    'all privacy tests pass'
    """
    started, limit = time.monotonic(), RiskLimit.parse(risk)
    require_number(seconds, name="seconds", above=0.0)
    jobs = processors() if jobs is None else require_int(jobs, name="jobs", at_least=1)
    if hasattr(type(table), "release_with"):
        raise RequestError("One table at a time can be searched.", found="linked tables", fix="each table by itself")
    if into is not None and not release:
        raise OptionError("What is written is the release of all people.", found="into", fix="release=True")
    searched = SearchedTable.open(Job.of(table, schema=schema, engine=engine, into=into))
    fitted = searched.fitted
    names = [column.name for column in fitted.schema.without(Role.IDENTIFIER).columns]
    kept = tuple(str(parse(one, names=names)) for one in ([keep] if isinstance(keep, str) else keep))
    candidates = list(_candidates(fitted.schema, _racing(methods), strengths, kept))
    searched.require_possible([one.method for one in candidates])
    trials = tuple(one for one in candidates if searched.can_release(one.method))
    halves = draw_split(fitted, UNSEEN, part="unseen")
    given: dict[str, Any] = {"keep": kept, "key": key, "rows_not_people": rows_not_people}
    race = _Race(fitted=halves.kept, limit=limit, given=given, jobs=jobs, started=started, seconds=seconds)
    rounds, finalists = race.run(trials, progress)
    unseen = draw_split(FittedTable(halves.others, fitted.schema), part="judgement", **given)
    judged, chosen = _judge(finalists, unseen, limit)
    made = None
    if chosen is not None and release:
        how: dict[str, Any] = {"seed": seed, "key": key, "rows_not_people": rows_not_people}
        made = searched.release(chosen, judged[-1].assessment, **how)
    return Optimum(
        limit=str(limit),
        rounds=rounds,
        front=front_of(rounds[-1].rows) if rounds else (),
        judged=judged,
        method=None if chosen is None else chosen.method,
        roles={} if chosen is None else {name: str(role) for name, role in chosen.roles.items()},
        release=made,
        seconds=time.monotonic() - started,
        searched_rows=searched.searched_rows,
    )


def _racing(methods: Sequence[str | Method] | None) -> list[str | Method]:
    """Return the methods that race."""
    given: list[str | Method] = [*METHODS] if methods is None else [*methods]
    private = [(method_class(one) if isinstance(one, str) else one).is_private for one in given]
    if methods is not None and any(private):
        raise OptionError(
            "A differentially private method cannot be searched by tests.",
            found="a promise that covers every output, also the result of such a search",
            fix="an epsilon that is chosen without looking at the table",
        )
    return [one for one, leave in zip(given, private, strict=True) if not leave]


def _candidates(
    schema: Schema, methods: Sequence[str | Method], strengths: int, keep: tuple[str, ...]
) -> Iterator[Trial]:
    """Yield the trials: each method at each strength, with these roles and with exact columns protected, too."""
    exact = [(), schema.names(Role.OTHER), schema.names(Role.OTHER, Role.SENSITIVE)]
    for columns in dict.fromkeys(exact):
        for trial in trials_of(methods, strengths):
            method: Any = trial.method
            has_keep = keep and any(one.name == "keep" for one in options_of(type(method)))
            words = [trial.strength] if trial.strength else []
            words += [f"{', '.join(columns)} protected"] if columns else []
            yield Trial(
                method=replace(method, keep=list(keep)) if has_keep else method,
                strength=", ".join(words),
                roles=dict.fromkeys(columns, Role.QUASI),
            )


@dataclass(frozen=True, kw_only=True, repr=False)
class _Race:
    """The people of the search, and how candidates race on them."""

    fitted: FittedTable
    limit: RiskLimit
    given: Mapping[str, Any]
    jobs: int
    started: float
    seconds: float

    def run(
        self, trials: Sequence[Trial], progress: Callable[[RaceProgress], None] | None
    ) -> tuple[tuple[Comparison, ...], tuple[Trial, ...]]:
        """Return what each round found, and the candidates that hold the limit, the most useful first."""
        rounds: list[Comparison] = []
        racing: tuple[Trial, ...] = tuple(trials)
        finalists: tuple[Trial, ...] = ()
        for number in range(ROUNDS):
            split = self._split(number)
            found: dict[str, ComparedMethod] = {}
            until = self.started + SHARES[number] * self.seconds
            for trial, tried in attempts(racing, split, self.jobs, until=until):
                found[trial.identity] = tried.row
                log.info("round %d of %d: %s", number + 1, ROUNDS, tried.row.name)
                if progress is not None:
                    progress(self._progress(number, found, racing, split))
            racing = tuple(trial for trial in racing if trial.identity in found)
            if not racing:
                break
            rounds.append(self._comparison([found[trial.identity] for trial in racing], split))
            order = self._ranked(racing, found)
            holding = [trial for trial in order if self.limit.holds(found[trial.identity])]
            finalists = tuple(sorted(holding, key=lambda trial: found[trial.identity].loss or 0.0))
            racing = order[: max(FEWEST, round(GO_ON * len(order)))]
        return tuple(rounds), finalists

    def _split(self, number: int) -> Split:
        """Return the people of a round, some of whom are held out: all in the last one, half as many before."""
        rows = self.fitted.table.rows
        wanted = max(min(rows, SMALLEST), rows // 2 ** (ROUNDS - 1 - number))
        table = self.fitted.table
        if wanted < rows:
            person = self.fitted.schema.person
            table = split_holdout(table, 1.0 - wanted / rows, seed=number, person=person).kept
        return draw_split(FittedTable(table, self.fitted.schema), part=f"round {number}", **self.given)

    def _ranked(self, trials: Sequence[Trial], found: Mapping[str, ComparedMethod]) -> tuple[Trial, ...]:
        """Return the candidates that made a release by how many layers of others beat them; safe ones first."""
        made = [trial for trial in trials if _place(found[trial.identity]) is not None]
        layers = layers_of(np.array([_place(found[trial.identity]) for trial in made]))

        def key(place: int) -> tuple[int, bool, float]:
            row = found[made[place].identity]
            return int(layers[place]), not self.limit.holds(row), row.loss or 0.0

        return tuple(made[place] for place in sorted(range(len(made)), key=key))

    def _progress(
        self, number: int, found: Mapping[str, ComparedMethod], racing: Sequence[Trial], split: Split
    ) -> RaceProgress:
        return RaceProgress(
            round=number + 1,
            rounds=ROUNDS,
            done=len(found),
            trials=len(racing),
            seconds=time.monotonic() - self.started,
            comparison=self._comparison(list(found.values()), split),
        )

    def _comparison(self, rows: Sequence[ComparedMethod], split: Split) -> Comparison:
        sizes = {"original_rows": split.kept.table.rows, "reference_rows": split.others.rows}
        return Comparison(rows=tuple(rows), **sizes)


def _judge(
    finalists: Sequence[Trial], unseen: Split, limit: RiskLimit
) -> tuple[tuple[ComparedMethod, ...], Trial | None]:
    """Judge the winners on people whom the search never saw, until one holds."""
    judged: list[ComparedMethod] = []
    for trial in finalists[:JUDGED]:
        judged.append(attempt(trial, unseen).row)
        log.info("judged on people whom the search never saw: %s", judged[-1].name)
        if limit.holds(judged[-1]):
            return tuple(judged), trial
    return tuple(judged), None


def _place(row: ComparedMethod) -> tuple[float, float] | None:
    """Return risk and loss of a release; None unless both are known."""
    return None if row.largest_risk is None or row.loss is None else (row.largest_risk, row.loss)


def front_of(rows: Sequence[ComparedMethod]) -> tuple[ComparedMethod, ...]:
    """Return the releases that no other beats in both risk and loss, the most useful first."""
    known = [row for row in rows if _place(row) is not None]
    if not known:
        return ()
    marks = non_dominated(np.array([_place(row) for row in known]))
    best = [row for row, mark in zip(known, marks, strict=True) if mark]
    return tuple(sorted(best, key=lambda row: row.loss or 0.0))
