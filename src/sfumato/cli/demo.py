"""``sfumato demo``: the full workflow on a real table that comes with scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli import console, options
from sfumato.job.demo_table import KEEP, ROLES, diabetes_patients

if TYPE_CHECKING:
    from sfumato.release.release import Release
    from sfumato.report.summary import Summary
    from sfumato.statistics.estimate import Estimate
    from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class TruthAndEstimate:
    """A statistic of the original, and its estimate from the release."""

    truth: float
    estimate: Estimate


def demo(
    *,
    out: str = typer.Option("out", "-o", "--out", metavar="DIR", help="Folder to write to."),
    k: int = typer.Option(5, "-k", "--k", help="Smallest number of records in a box."),
    l: int = typer.Option(2, "--l", help="Smallest number of different sensitive values in a box."),
    seed: int | None = options.SEED,
    json: bool = options.JSON,
) -> None:
    """Run the full workflow on 442 diabetes patients.

    Releases the table, verifies it, and compares the estimated statistics with the true ones, which are printed and
    never written: a release must not contain them.

    Example: sfumato demo -o out -k 5
    """
    from sfumato.methods.base import make_method
    from sfumato.release.bundle import require_target
    from sfumato.report.summary import summarize

    require_target(out)
    console.say("· 442 diabetes patients (Efron, Hastie, Johnstone and Tibshirani 2004), from scikit-learn")
    patients = diabetes_patients()
    console.say_progress()
    console.say_compiling()
    released = make_method("boxes", k=k, l=l, keep=KEEP).release(patients, schema=ROLES, seed=seed)
    folder = released.write(out)
    console.say(f"· written to {out}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    with console.after(f"the release is complete in {out}"):
        _show(released, folder, summarize(released), true_values(patients, released), as_json=json)


def _show(released: Release, folder: Path, summary: Summary, truths: Mapping[str, float], *, as_json: bool) -> None:
    from sfumato.report import terminal

    estimates = summary.estimates
    if as_json:
        compared = [TruthAndEstimate(truth=truths[estimate.name], estimate=estimate) for estimate in estimates]
        console.show_json({"folder": str(folder), "manifest": released.manifest, "statistics": compared})
    else:
        console.show(terminal.findings(released.findings), "", terminal.estimates(estimates, truths))
        if summary.usefulness.concerns:
            console.show("", terminal.usefulness(summary.usefulness))


def true_values(original: Table, released: Release) -> dict[str, float]:
    """Compute the shown statistics from the original, whose cells are boxes of width 0."""
    from sfumato.release.release import Release
    from sfumato.report.summary import shown_statistics

    exact = Release(original)
    return {estimate.name: estimate.value for text in shown_statistics(released) for estimate in exact.estimates(text)}
