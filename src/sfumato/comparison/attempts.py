"""Try methods on held-out people, each at several strengths that its class declares, in several processes.

Whatever compares, recommends, improves or optimizes releases tries them here: on the same people, who are drawn from
the content of the table, by the same tests. So their verdicts about a release are the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import pickle
import queue
import threading
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.comparison.records import KEPT, ComparedMethod
from sfumato.errors import CannotRelease, OptionError, SfumatoError
from sfumato.job.inspect import open_for_inspection
from sfumato.job.job import AssessmentWishes, Job
from sfumato.job.release import make_release
from sfumato.measures.assess import ComparisonOptions, split_holdout
from sfumato.measures.registry import TESTS
from sfumato.methods.base import METHODS, Method, make_method, method_class
from sfumato.params import options_of, plain, require_int, strength_of
from sfumato.processes import Child, Parent
from sfumato.release.assessment import Score
from sfumato.release.release import Release
from sfumato.report.usefulness import measure_widths
from sfumato.schema.columns import Role
from sfumato.schema.schema import FittedTable
from sfumato.table.groups import row_keys

if TYPE_CHECKING:
    from sfumato.release.assessment import Assessment
    from sfumato.report.usefulness import ShownStatistic
    from sfumato.table.table import Table

FEWEST = 20  # rows on each side of the split
HOLDOUT = 0.5  # share of the people who are held out


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A method with all its options, and columns that are treated otherwise than the schema says."""

    method: Method
    strength: str = ""  # the option by which trials differ, such as "k = 5"; empty for a method of one strength
    roles: Mapping[str, Role] = field(default_factory=dict)  # of columns that have another role than in the schema
    left_out: tuple[str, ...] = ()  # columns that are not released

    @property
    def name(self) -> str:
        """Method and strength, as text."""
        return f"{self.method.name}, {self.strength}" if self.strength else self.method.name

    @property
    def options(self) -> dict[str, object]:
        """Options that may be reported and differ from their defaults."""
        given = ((one, getattr(self.method, one.name)) for one in options_of(type(self.method)))
        return {one.name: plain(value) for one, value in given if one.declared.reported and value != one.default}

    @property
    def identity(self) -> str:
        """A text that differs for different trials; for hashes only, because it may quote what options hold."""
        given = [(one.name, getattr(self.method, one.name)) for one in fields(self.method)]
        return repr((self.method.name, given, sorted(self.roles.items()), self.left_out))

    def fit(self, fitted: FittedTable) -> FittedTable:
        """Return a table with the columns and roles of this trial."""
        columns = tuple(one for one in fitted.schema.columns if one.name not in self.left_out)
        schema = replace(fitted.schema, columns=columns)
        names = [name for name in fitted.table.names if name not in self.left_out]
        return FittedTable(fitted.table.select(names), schema.with_roles(self.roles) if self.roles else schema)


def trials_of(methods: Iterable[str | Method] | None, strengths: int) -> tuple[Trial, ...]:
    """Return the trials of methods, given by name (at several strengths) or as objects (as they are).

    None stands for all methods. A name at the end of another's list is not repeated.
    """
    require_int(strengths, name="strengths", at_least=1)
    if isinstance(methods, str):
        raise OptionError("methods must be a list of methods.", found="a text", fix=f"methods=[{methods!r}]")
    trials: dict[str, Trial] = {}
    for given in METHODS if methods is None else methods:
        for trial in [_as_given(given)] if isinstance(given, Method) else _at_strengths(given, strengths):
            trials.setdefault(trial.identity, trial)
    if not trials:
        raise OptionError("At least one method must be given to compare.", found="none", fix="sfumato methods")
    return tuple(trials.values())


def chosen_strengths(values: tuple[object, ...], count: int) -> tuple[object, ...]:
    """Return ``count`` of the values that a method declares, evenly spaced from the first to the last, or all of them.

    >>> chosen_strengths((3, 5, 10, 20, 50), 3)
    (3, 10, 50)
    >>> chosen_strengths((3, 5, 10, 20, 50), 1)
    (10,)
    """
    if count == 1:
        return values[len(values) // 2 :][:1]
    last = len(values) - 1
    return tuple(values[position] for position in sorted({round(step * last / (count - 1)) for step in range(count)}))


def _at_strengths(name: str, count: int) -> list[Trial]:
    if not isinstance(name, str):
        raise OptionError("A method must be a name or a method such as sf.Noise().", found=type(name).__name__)
    option = strength_of(method_class(name))
    if option is None:
        return [Trial(method=make_method(name), strength="")]
    values = chosen_strengths(option.declared.strengths, count)
    return [
        Trial(method=make_method(name, **{option.name: value}), strength=_text(option.name, value)) for value in values
    ]


def _as_given(method: Method) -> Trial:
    option = strength_of(type(method))
    return Trial(method=method, strength="" if option is None else _text(option.name, getattr(method, option.name)))


def _text(name: str, value: object) -> str:
    return f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"


@dataclass(frozen=True, kw_only=True, repr=False)
class SearchedTable:
    """A table of any size, and the rows of it that methods are tried on: all if it is in memory, else a random part."""

    job: Job  # where the table is, and which engine releases it whereto; without a method
    fitted: FittedTable  # the rows that methods are tried on
    rows: int  # of the whole table

    @classmethod
    def open(cls, job: Job) -> SearchedTable:
        """Read the rows that methods are tried on; raise before any work if no release could be written."""
        job.engine.require_target(job.destination)
        with open_for_inspection(job) as opened:
            searched = cls(job=job, fitted=opened.part, rows=opened.survey.rows)
        if not job.engine.in_memory and searched.fitted.schema.needs_preparation:
            raise OptionError(
                "Pseudonyms and shifted dates are made only in memory.",
                found=f"engine {job.engine.name!r}",
                fix="--engine memory (in Python engine='memory')",
            )
        return searched

    @property
    def searched_rows(self) -> int | None:
        """How many random rows methods are tried on; None: all."""
        return self.fitted.table.rows if self.fitted.table.rows < self.rows else None

    def can_release(self, method: Method) -> bool:
        """Whether the engine can release the whole table by a method."""
        return self.job.engine.in_memory or not method.needs_whole_table

    def require_possible(self, methods: Sequence[Method]) -> None:
        """Raise unless the engine can release the whole table by one of the methods."""
        if not any(map(self.can_release, methods)):
            raise CannotRelease(
                "This method needs the whole table in memory at once.",
                found=f"engine {self.job.engine.name!r}, {self.rows:,} rows in parts",
                fix="the engine 'memory' on a machine with enough memory, or a method that works in blocks",
            )

    def release(self, trial: Trial, assessment: Assessment | None, **given: Any) -> Release:
        """Release the whole table as in a trial, with what was measured of the trial."""
        if self.job.engine.in_memory:
            table: dict[str, Any] = {"source": trial.fit(self.fitted), "schema": None}
        else:  # its engine reads all columns, and releases no identifier
            roles = {**trial.roles, **dict.fromkeys(trial.left_out, Role.IDENTIFIER)}
            table = {"schema": self.fitted.schema.with_roles(roles)}
        wishes = None if assessment is None else AssessmentWishes(found=assessment)
        return make_release(replace(self.job, method=trial.method, assessment=wishes, **table, **given))


@dataclass(frozen=True, repr=False)
class Split:
    """The people whose rows are released, and the people who never took part."""

    kept: FittedTable
    others: Table
    seed: int | None = None  # of releases and assessments
    earlier: Sequence[Release] = ()  # of the same people, given away before
    keep: tuple[str, ...] = ()  # statistics whose errors are told
    key: str | Path | None = None  # file with the secret key of pseudonyms and shifted dates
    rows_not_people: bool = True  # whether rows are counted although people may have several
    tests_only: bool = False  # whether only the tests are taken, whose results are then the same

    def job(self, trial: Trial) -> Job:
        """Return the job that releases the people by the method of a trial, and assesses them against the others."""
        makes_groups = getattr(trial.method, "k", None) is not None  # candidates are counted by groups
        wishes = AssessmentWishes(
            reference=self.others,
            options=ComparisonOptions(seed=self.seed),
            earlier=self.earlier if makes_groups else (),
            measures=TESTS if self.tests_only else None,
        )
        trying: dict[str, Any] = {"method": trial.method, "assessment": wishes, "key": self.key}
        seed = None if trial.method.is_private else self.seed  # its noise is nobody's to repeat
        trying |= {"seed": seed, "rows_not_people": self.rows_not_people}
        return Job.of(trial.fit(self.kept), engine="memory", **trying)


def draw_split(
    fitted: FittedTable, holdout: float = HOLDOUT, *, part: str = "", seed: int | None = None, **given: Any
) -> Split:
    """Hold out a share of the people; those with several rows are wholly on one side.

    They are drawn from the cells of the table, so that they are the same whenever the table is the same; another
    ``part`` draws anew. Releases and assessments are repeated, too, unless a ``seed`` is given.
    """
    digest = hashlib.sha256(row_keys(fitted.table).tobytes() + f"{holdout!r} {part}".encode())
    drawn = int(digest.hexdigest(), 16)
    kept, others = split_holdout(fitted.table, holdout, seed=drawn, person=fitted.schema.person)
    if min(kept.rows, others.rows) < FEWEST:
        raise OptionError(
            f"At least {FEWEST} rows to release and {FEWEST} to hold out are needed.",
            found=f"{kept.rows:,} and {others.rows:,}",
            fix="more rows, or another holdout",
        )
    return Split(FittedTable(kept, fitted.schema), others, drawn % 2**31 if seed is None else seed, **given)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The record of a trial, and whether another attempt would give the same."""

    row: ComparedMethod
    is_final: bool  # false after an unexpected error, which may have been due to the machine


def attempt(trial: Trial, split: Split) -> Attempt:
    """Make a release and assess it; an error becomes the reason of the record, without quoting a cell."""
    from threadpoolctl import threadpool_limits

    start = time.perf_counter()
    failed = ComparedMethod(method=trial.method.name, strength=trial.strength, options=trial.options)
    reason, is_final = "", True
    try:
        with warnings.catch_warnings(), threadpool_limits(limits=1):  # threads cost more than small matrices gain
            warnings.simplefilter("ignore")
            release = make_release(split.job(trial))
    except SfumatoError as error:
        reason = str(error)
    except Exception as error:  # the message may quote a cell
        last = traceback.extract_tb(error.__traceback__)[-1]
        reason, is_final = f"Unexpected {type(error).__name__} in {last.name}, line {last.lineno}.", False
    seconds = time.perf_counter() - start
    if reason:
        return Attempt(row=replace(failed, reason=reason, seconds=seconds), is_final=is_final)
    assert release.manifest is not None
    guarantee, found = release.manifest.guarantee, release.assessment
    if split.keep and found is not None:
        found = replace(found, scores=(*found.scores, *_kept_scores(release, split)))
    groups = [(one.parameters or {}).get("k") for one in release.manifest.claims if one.name == "KAnonymity"]
    risk = max((1.0 / k for k in groups if isinstance(k, int)), default=None)
    row = replace(failed, guarantee=guarantee, seconds=seconds, assessment=found, group_risk=risk)
    return Attempt(row=row, is_final=True)


def _kept_scores(release: Release, split: Split) -> Iterator[Score]:
    """Yield how far the released rows are off in each kept statistic, in units of its spread; 1: they tell nothing."""
    original = Release(split.kept.table)
    note = "difference from the original, in units of the spread of its columns; 1 is useless"
    for statistic in split.keep:
        errors = {statistic: 1.0}
        with contextlib.suppress(SfumatoError):
            told = {one.name: getattr(one, "numbers", one).value for one in release.estimates(statistic)}
            truths: Any = original.estimates(statistic)  # of exact columns, so none is recovered
            errors = {
                true.estimate.name: _error(told.get(true.estimate.name), true)
                for true in measure_widths(original, truths)
            }
        for name, error in errors.items():
            better: Any = {"better": "lower", "rows": original.table.rows, "note": note}
            yield Score(name=f"{KEPT}{name}", family="utility", value=error, **better)


def _error(told: float | None, true: ShownStatistic) -> float:
    """Return how far a told value is from the true one, from 0 to 1."""
    if told is None:
        return 1.0
    off = abs(float(told) - float(true.estimate.numbers.value))
    error = off / true.spread if true.spread else float(off > 0.0)
    return min(error, 1.0) if math.isfinite(error) else 1.0


# Try methods in several processes. A process that dies costs only the trial that it was working on.


# each process has one processor, so libraries must not start a thread for every one
SINGLE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def attempts(
    trials: Sequence[Trial], split: Split, jobs: int, *, until: float = math.inf
) -> Iterator[tuple[Trial, Attempt]]:
    """Yield each trial with its attempt, as they end; ``jobs`` processes, or this one if ``jobs`` is 1.

    At the time ``until`` (of ``time.monotonic``) the processes end; in this process no further trial begins. Classes of
    methods that are defined outside of this package may not exist in other processes, so they are tried in this one.
    """
    if min(jobs, len(trials)) <= 1 or not all(type(one.method).__module__.startswith("sfumato.") for one in trials):
        yield from ((trial, attempt(trial, split)) for trial in trials if time.monotonic() < until)
        return
    pool = _WorkerPool(trials, pickle.dumps(split))
    try:
        pool.start(min(jobs, len(trials)))
        for _ in trials:
            left = until - time.monotonic()
            yield pool.done.get(timeout=None if left == math.inf else max(left, 0.0))
    except queue.Empty:  # the time is over
        return
    finally:
        pool.close()


def try_methods(parent: Parent) -> None:
    """Work in a child process: receive the split, then one trial after the other, and send each attempt."""
    split = parent.receive()
    while True:
        parent.send(attempt(parent.receive(), split))


class _WorkerPool:
    """Threads that hand out trials, each to a process of its own."""

    def __init__(self, trials: Sequence[Trial], split: bytes) -> None:
        self.done: queue.Queue[tuple[Trial, Attempt]] = queue.Queue()
        self._split = split
        self._waiting: queue.SimpleQueue[Trial] = queue.SimpleQueue()
        for trial in trials:
            self._waiting.put(trial)
        self._children: list[Child] = []
        self._closed = False

    def start(self, jobs: int) -> None:
        for _ in range(jobs):
            threading.Thread(target=self._work, daemon=True).start()

    def close(self) -> None:
        """End all processes; what they were working on is lost."""
        self._closed = True
        for child in list(self._children):
            child.end()

    def _work(self) -> None:
        child = None
        while not self._closed:
            try:
                trial = self._waiting.get_nowait()
            except queue.Empty:
                break
            child = child or self._start_child()
            result = _attempt_in(child, trial)
            if result is None:
                result, child = Attempt(row=_lost(trial, child.end()), is_final=False), None
            self.done.put((trial, result))
        if child is not None:
            child.end()

    def _start_child(self) -> Child:
        """Start a process with one thread, and give it the split."""
        child = Child(__name__, try_methods.__name__, environment=SINGLE)
        self._children.append(child)
        with contextlib.suppress(OSError):  # it died at once, which the first attempt notices
            child.send_pickled(self._split)
        return child


def _attempt_in(child: Child, trial: Trial) -> Attempt | None:
    """Let a process try a method; None if it died."""
    try:
        child.send(trial)
        result: Attempt = child.receive()
    except (OSError, EOFError, ValueError, pickle.UnpicklingError):  # no reader, half a message, a closed pipe
        return None
    return result


def _lost(trial: Trial, code: int) -> ComparedMethod:
    """Return the record of a trial whose process died."""
    return ComparedMethod(
        method=trial.method.name,
        strength=trial.strength,
        options=trial.options,
        reason=f"The process ended without a result (code {code}); the memory may not suffice. Try: fewer --jobs.",
    )
