"""``sfumato estimate DIR STATISTIC…``: what a release says of statistics."""

from __future__ import annotations

import typer

from sfumato.cli import console


def command(
    *,
    release: str = typer.Argument(..., metavar="DIR", help="A release's folder, or a file with x_low, x_high columns."),
    statistic: list[str] = typer.Argument(..., metavar="STATISTIC…", help='Such as "corr(age, income)".'),
    weighting: str = typer.Option(
        "none", "--weighting", help="Of records in wide boxes: none, dismiss or fuzzy; the shift is shown."
    ),
    seconds: float | None = typer.Option(None, "--seconds", help="Time for each; less gives wider intervals."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Give guaranteed intervals for statistics of the original, from a release alone."""
    from sfumato.release.read import read_release
    from sfumato.report import terminal
    from sfumato.statistics.bounds import Budget

    read, budget = read_release(release), Budget(seconds=seconds)
    told = [read.estimates(words, weighting=weighting, budget=budget) for words in statistic]
    estimates = [estimate for parts in told for estimate in parts]
    if json:
        console.show_json(estimates)
    else:
        console.show(terminal.estimates(estimates))
        if weighting != "none":
            console.show("", terminal.weightings(estimates))
