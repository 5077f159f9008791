"""Improve a release whose privacy tests fail: try one change after the other on held-out people, and release the first
that passes.

A change that passes is judged once more on people who were drawn anew, because the best of several tries passes by luck
more often than one. What is released is then made from all rows, in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.comparison.attempts import HOLDOUT, SearchedTable, Trial
from sfumato.errors import OptionError, RequestError, SfumatoError, wrap_memory_errors
from sfumato.job.job import Job
from sfumato.languages import ENGLISH, sentences
from sfumato.methods.base import make_method, method_class
from sfumato.params import options_of, plain, require_probability
from sfumato.recommendation.changes import Change, Found, HeldOutTrials, ImprovementStep, changes, find_passing
from sfumato.recommendation.records import told_part
from sfumato.release.read import read_assessed
from sfumato.release.release import Release
from sfumato.release.target import linked_tables
from sfumato.report.distributions import blamed_columns
from sfumato.schema.schema import Schema

if TYPE_CHECKING:
    from sfumato.engines.base import Engine
    from sfumato.methods.base import Method
    from sfumato.release.manifest import Manifest

AS_RELEASED = "as it was released"


@dataclass(frozen=True, kw_only=True, repr=False)
class Improvement:
    """What was tried to improve a release, and the release that passes, as :func:`sfumato.improve` returns it.

    Attributes
    ----------
    steps : tuple of ImprovementStep
        Each change with its reason and what was found, the release as it was first.
    release : Release or None
        The release of all rows with the change that passed, or None if no change did.
    ended_early : bool
        Whether the time was over before all changes were tried.
    searched_rows : int or None
        Number of random rows on which changes were tried, of a table that is not in memory. None: all.
    verdict : str
        What was found, in one sentence.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.Improvement(steps=(), release=None).release is None
    True
    """

    steps: tuple[ImprovementStep, ...]
    release: Release | None
    ended_early: bool = False
    searched_rows: int | None = None

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.release is None:
            return Found(steps=self.steps, ended_early=self.ended_early).refusal
        if len(self.steps) == 1:
            return "Nothing has to be changed: the release passes its privacy tests on held-out people."
        last = self.steps[-1]
        return f"Found after {len(self.steps) - 1} changes: {last.change}. {last.reason}"

    def __str__(self) -> str:
        return self.text()

    def text(self, language: str = ENGLISH) -> str:
        """Return the steps, one a line, and the verdict; ``language`` is "en" (default), "de" or "fr"."""
        tell = sentences(language).tell
        steps = [f"{number}. {tell(str(step))}" for number, step in enumerate(self.steps)]
        part = [] if self.searched_rows is None else [tell(told_part(self.searched_rows))]
        return "\n".join([*steps, *part, tell(self.verdict)])

    def __repr__(self) -> str:
        return f"Improvement({len(self.steps)} steps; {self.verdict})"


@wrap_memory_errors
def improve(
    release: Release | str | Path,
    table: Any,
    *,
    method: Method | None = None,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    holdout: float = HOLDOUT,
    seconds: float | None = None,
    key: str | Path | None = None,
    rows_not_people: bool = False,
    seed: int | None = None,
    engine: str | Engine = "auto",
    into: Any = None,
) -> Improvement:
    """Find a change with which a release passes its privacy tests, and release the table with it.

    Changes are tried in this order: protect the columns to blame too, with stronger options of the method (a larger k);
    leave these columns out; draw rows from a model. Where the strongest option fails, milder ones are not tried; where
    it passes, the mildest that passes is taken. Each change is released from a part of the rows and tested against the
    others; one that passes is tested again on people who were drawn anew, and then made from all rows. Of a table that
    is not in memory, changes are tried on 20,000 random rows; all rows are then released by its engine.

    Parameters
    ----------
    release : Release or path
        The release to improve, or its folder; its manifest tells the method, options and roles.
    table : Table, path, data frame or Database
        The original that it was made from; it may be larger than memory.
    method : Method, optional
        The method with its options, if it has some that a manifest does not show. Default: that of the manifest.
    schema : Schema, mapping or path, optional
        Roles, orders and trees of the columns. Default: the roles in the manifest.
    holdout : float, default 0.5
        Share of the people, between 0 and 1, whom each trial does not release but tests against. With the default they
        are those whom :func:`sfumato.compare` and :func:`sfumato.recommend` hold out.
    seconds : float, optional
        Time after which no further change is tried. Default: no limit.
    key : str or Path, optional
        File with the secret key of pseudonyms and shifted dates.
    rows_not_people : bool, default False
        Whether to count rows although people have several of them.
    seed : int, optional
        Makes the release repeatable, for tests; it is a secret. Default: random numbers from the operating system. The
        people who are held out, and the tests, are the same whenever the table is the same.
    engine : str or Engine, default "auto"
        Engine that reads the table and makes the release, such as "memory" or "duckdb". "auto" chooses one that fits
        the table.
    into : path or Database, optional
        Where the release is written to, all or nothing, if a change passes. Default: nothing is written.

    Returns
    -------
    Improvement
        The ``steps`` that were tried and the ``release``, None if no change passed; ``verdict`` says which and why.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> draw = np.random.default_rng(0)
    >>> people = {"age": draw.integers(20, 80, 200), "weight": draw.normal(70, 12, 200)}
    >>> release = sf.Boxes(k=5).release(people, schema={"age": "quasi", "weight": "other"})
    >>> found = sf.improve(release, people, seconds=1)
    >>> found.steps[0].change
    'as it was released'
    """
    require_probability(holdout, name="holdout")
    _require_single(release, table)
    made = release if isinstance(release, Release) else read_assessed(release)
    manifest = made.manifest
    _require_improvable(manifest)
    assert manifest is not None
    known = Schema(tuple(one.to_column() for one in manifest.columns)) if schema is None else Schema.of(schema)
    start = Change(trial=Trial(method=method or _method_of(manifest)), change=AS_RELEASED, is_first=True)
    searched = SearchedTable.open(Job.of(table, schema=known, engine=engine, into=into))
    searched.require_possible([start.trial.method])
    fitted = searched.fitted
    given: dict[str, Any] = {"key": key, "rows_not_people": rows_not_people or bool(manifest.repeated)}
    trials = HeldOutTrials(fitted=fitted, holdout=holdout, given=given, seed=seed)

    def possible() -> Iterator[list[Change]]:
        for group in changes(start, fitted.schema, blamed_columns(made), fitted.table.rows):
            if able := [one for one in group if searched.can_release(one.trial.method)]:
                yield able

    found = find_passing(trials, start, possible, told=_told_step(made), seconds=seconds)
    better = None
    if (chosen := found.candidate) is not None:
        better = searched.release(chosen.trial, trials.assess(chosen, found.part), seed=seed, **given)
    return Improvement(
        steps=found.steps, release=better, ended_early=found.ended_early, searched_rows=searched.searched_rows
    )


def _require_single(release: Any, table: Any) -> None:
    """Raise if tables are linked: their people are attacked by joining the tables, which changes to one do not end."""
    folder = isinstance(release, str | Path) and bool(linked_tables(Path(release).expanduser()))
    if folder or hasattr(release, "tables") or hasattr(type(table), "release_with"):
        raise RequestError(
            "A release of one table can be improved.",
            found="linked tables",
            fix="a larger k for all of them, and `assess=True` again; or each table by itself",
        )


def _told_step(made: Release) -> ImprovementStep | None:
    """Return what the assessment of the release found; None if it has none, or if no privacy test failed."""
    if made.assessment is None or made.assessment.is_private is not False:
        return None
    return ImprovementStep.of(made.assessment, change=AS_RELEASED, reason="As its report says.")


def _require_improvable(manifest: Manifest | None) -> None:
    if manifest is None:
        raise RequestError("Only a release with a manifest can be improved.", fix="the folder of a release")
    if manifest.covers_every_output:
        raise RequestError(
            "A differentially private release cannot be improved by tests.",
            found="a promise that covers every output, also the result of such a search",
            fix="a smaller epsilon, chosen without looking at the table",
        )


def _method_of(manifest: Manifest) -> Method:
    """Return the method with the options that the manifest shows; the others have their defaults."""
    defaults = {one.name: plain(one.default) for one in options_of(method_class(manifest.method))}
    given = {name: value for name, value in manifest.options.items() if value != defaults.get(name)}
    try:
        return make_method(manifest.method, **given)
    except SfumatoError as error:
        reason = error.message
    raise OptionError(
        "The options of the release must be in its manifest.",
        found=reason,
        fix="in Python method=…; on the command line keep the project file DIR.toml next to the folder",
    )
