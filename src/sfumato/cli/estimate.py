"""``sfumato estimate DIR STATISTIC…``: statistics of the original, estimated from a release."""

from __future__ import annotations

import typer

from sfumato.cli import console
from sfumato.params import require_choice


def command(
    *,
    release: str = typer.Argument(
        ..., metavar="DIR", help="Folder of a release, or a file with x_low and x_high columns."
    ),
    statistic: list[str] = typer.Argument(..., metavar="STATISTIC…", help='For example "corr(age, income)".'),
    wide_boxes: str = typer.Option(
        "keep",
        "--wide-boxes",
        metavar="keep|dismiss|fuzzy",
        help="Keep records in wide boxes, leave them out, or give them less weight (the shift is shown).",
    ),
    seconds: float | None = typer.Option(
        None, "--seconds", help="Time limit per statistic; a smaller one gives wider intervals."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Estimate statistics of the original from a release.

    Each estimate has an interval that is guaranteed to contain the true value. The original is not needed.
    """
    from sfumato.release.read import read_release
    from sfumato.report import terminal
    from sfumato.report.usefulness import usefulness
    from sfumato.statistics.bounds import EstimateBudget
    from sfumato.statistics.wide_boxes import WIDE_BOXES

    require_choice(wide_boxes, name="--wide-boxes", choices=WIDE_BOXES)
    read, budget = read_release(release), EstimateBudget(seconds=seconds)
    estimates = [
        estimate for text in statistic for estimate in read.estimates(text, wide_boxes=wide_boxes, budget=budget)
    ]
    if json:
        console.show_json(estimates)
    else:
        console.show(terminal.estimates(estimates))
        found = usefulness(read, estimates)
        if any(concern.about in {estimate.name for estimate in estimates} for concern in found.concerns):
            console.show("", terminal.usefulness(found))
        if wide_boxes != "keep":
            console.show("", terminal.reweightings(estimates))
