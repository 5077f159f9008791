"""Try one method: release the people, assess the release against the others, and keep the reason if it fails."""

from __future__ import annotations

import time
import traceback
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sfumato.comparison.records import ComparedMethod
from sfumato.errors import SfumatoError
from sfumato.pipeline import release_and_assess

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
            made = release_and_assess(trial.method, split.kept, split.others, seed=split.seed)
    except SfumatoError as error:
        reason = str(error)
    except Exception as error:  # the message may quote a cell
        last = traceback.extract_tb(error.__traceback__)[-1]
        reason, is_final = f"Unexpected {type(error).__name__} in {last.name}, line {last.lineno}.", False
    seconds = time.perf_counter() - start
    if reason:
        return Attempt(row=replace(failed, reason=reason, seconds=seconds), is_final=is_final)
    manifest = made.release.manifest
    assert manifest is not None
    row = replace(failed, guarantee=manifest.guarantee, seconds=seconds, assessment=made.assessment)
    return Attempt(row=row, is_final=True)
