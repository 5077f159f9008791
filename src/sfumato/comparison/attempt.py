"""Try one method: release the people, assess the release against the others, and keep the reason if it fails."""

from __future__ import annotations

import time
import traceback
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.comparison.records import ComparedMethod
from sfumato.errors import SfumatoError
from sfumato.job.job import AssessmentWishes, Job
from sfumato.measures.assess import ComparisonOptions
from sfumato.pipeline import make_release

if TYPE_CHECKING:
    from sfumato.comparison.trials import Trial
    from sfumato.schema.schema import FittedTable
    from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class Split:
    """The people whose rows are released, and the people who never took part."""

    kept: FittedTable
    others: Table
    seed: int | None = None  # of releases and assessments, for tests

    def job(self, trial: Trial) -> Job:
        """Return the job that releases the people by the method of a trial, and assesses them against the others."""
        wishes = AssessmentWishes(reference=self.others, options=ComparisonOptions(seed=self.seed))
        return Job.of(self.kept, method=trial.method, engine="memory", assessment=wishes, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The record of a trial, and whether another attempt would give the same."""

    row: ComparedMethod
    is_final: bool  # false after an unexpected error, which may have been due to the machine


def attempt(trial: Trial, split: Split) -> Attempt:
    """Make a release and assess it; an error becomes the reason of the record, without quoting a cell."""
    start = time.perf_counter()
    failed = ComparedMethod(method=trial.method.name, strength=trial.strength, options=trial.options)
    reason, is_final = "", True
    try:
        with warnings.catch_warnings():
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
    guarantee = release.manifest.guarantee
    row = replace(failed, guarantee=guarantee, seconds=seconds, assessment=release.assessment)
    return Attempt(row=row, is_final=True)
