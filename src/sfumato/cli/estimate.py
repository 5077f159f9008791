"""``sfumato estimate DIR STATISTIC…`` and ``sfumato verify DIR``: what the recipient of a release does with it."""

from __future__ import annotations

import contextlib
from typing import Any

import typer

from sfumato.cli import console, options
from sfumato.params import require_choice


def estimate(
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
    objective: str = typer.Option(
        "normalised",
        "--objective",
        metavar="normalised|first",
        help="What dismissal minimises: uncertainty per kept record, or per record of the table, plus sampling error.",
    ),
    joint: bool = typer.Option(
        False, "--joint", help="Choose one set of weights for all statistics together (with --wide-boxes)."
    ),
    importance: str | None = typer.Option(
        None, "--importance", metavar="P,P,…", help="With --joint: importance of each statistic, in order."
    ),
    accuracy: str | None = typer.Option(
        None, "--accuracy", metavar="A,A,…", help="With --joint: wanted half-width of each statistic, in order."
    ),
    unweighted: bool = typer.Option(
        False, "--unweighted", help="Count every record once, even if the release has sampling weights."
    ),
    domain: list[str] = typer.Option(
        [],
        "--domain",
        metavar="COLUMN=LOW..HIGH",
        help="Known range of a column, so that intervals cover suppressed rows.",
    ),
    seconds: float | None = typer.Option(
        None, "--seconds", help="Time limit per statistic; a smaller one gives wider intervals."
    ),
    confidence: float | None = typer.Option(
        None, "--confidence", help="Confidence of intervals that also hold the population's parameter, such as 0.95."
    ),
    value: str = typer.Option(
        "midpoints",
        "--value",
        metavar="midpoints|likelihood",
        help="Take the value from midpoints or, for one column, from a likely distribution of it in its boxes.",
    ),
    memory: str | None = options.BUNDLE_MEMORY,
    json: bool = options.JSON,
) -> None:
    """Estimate statistics of the original from a release.

    Each estimate has an interval that is guaranteed to contain the true value. The original is not needed. From columns
    altered by noise, pram or synthesize the statistic is recovered, with a standard error and no guarantee. No engine
    is needed: a release of any size is read from its files on this machine, part by part.

    Example: sfumato estimate out "corr(age, income)" "mean(income | sex = f)"
    """
    from sfumato.errors import OptionError
    from sfumato.release.read import read_one_table
    from sfumato.report import terminal
    from sfumato.report.usefulness import usefulness
    from sfumato.statistics.bounds.enclosure import EstimateBudget
    from sfumato.statistics.estimate import Estimate, RecoveredEstimate
    from sfumato.statistics.wide_boxes import OBJECTIVES, WIDE_BOXES
    from sfumato.table.intervals import is_interval

    require_choice(wide_boxes, name="--wide-boxes", choices=WIDE_BOXES)
    require_choice(objective, name="--objective", choices=OBJECTIVES)
    if not joint and (importance or accuracy):
        raise OptionError("--importance and --accuracy need --joint.", fix="add --joint --wide-boxes fuzzy")
    if joint and wide_boxes == "keep":
        raise OptionError("--joint needs --wide-boxes dismiss or --wide-boxes fuzzy.", found="--wide-boxes keep")
    read = read_one_table(release, memory=memory)
    if read.manifest is None and not any(is_interval(name, read.table.kinds) for name in read.names):
        console.say(
            f"warning: {release} has neither a manifest nor ranges (x_low, x_high), so these are statistics of its own "
            "rows. To estimate those of an original, give the folder that `sfumato release` wrote."
        )
    given: dict[str, Any] = {
        "wide_boxes": wide_boxes,
        "objective": objective,
        "unweighted": unweighted,
        "domain": dict(map(_domain, domain)),
        "budget": EstimateBudget(seconds=seconds),
    }
    results: list[Any]
    if joint:
        shares: dict[str, Any] = {
            "importance": _numbers(importance, "--importance"),
            "accuracy": _numbers(accuracy, "--accuracy"),
        }
        if confidence is not None or value != "midpoints":
            raise OptionError("--confidence and --value cannot be used with --joint.")
        joined = read.estimate_jointly(statistic, **shares, **given)
        results = [one for record in joined for one in ([record] if isinstance(record, Estimate) else record)]
    else:
        results = [
            one for text in statistic for one in read.estimates(text, confidence=confidence, value=value, **given)
        ]
    estimates = [one for one in results if isinstance(one, Estimate)]
    recovered = [one for one in results if isinstance(one, RecoveredEstimate)]
    if json:
        console.show_json(results)
    else:
        console.show(*([terminal.recovered_estimates(recovered)] if recovered else []))
        console.show(*([terminal.estimates(estimates)] if estimates else []))
        useful = usefulness(read, estimates)
        if any(concern.about in {estimate.name for estimate in estimates} for concern in useful.concerns):
            console.show("", terminal.usefulness(useful))
        if wide_boxes != "keep":
            console.show("", terminal.reweightings(estimates))


def _numbers(text: str | None, option: str) -> list[float] | None:
    """Return the numbers of a list with commas."""
    from sfumato.errors import OptionError

    if text is None:
        return None
    numbers = None
    with contextlib.suppress(ValueError):
        numbers = [float(part) for part in text.split(",")]
    if numbers is None:
        raise OptionError(
            f"{option} must be numbers with commas between them.", found=repr(text), fix="for example 2,1"
        )
    return numbers


def _domain(text: str) -> tuple[str, tuple[str, str]]:
    """Return the column and the ends of its range; whether they are numbers or dates is checked with the column."""
    from sfumato.errors import OptionError

    name, equals, ends = text.rpartition("=")
    low, dots, high = ends.partition("..")
    if not (name and equals and dots):
        raise OptionError("--domain must be COLUMN=LOW..HIGH.", found=repr(text), fix="for example income=0..100000")
    return name, (low, high)


def verify(
    *,
    folder: str = typer.Argument(..., metavar="DIR", help="Folder of a release."),
    memory: str | None = options.BUNDLE_MEMORY,
    json: bool = options.JSON,
) -> None:
    """Verify a release that was written or received.

    Compares every file with its checksum and recounts every promise on the released rows. Promises that need the
    original were verified when the release was made, and are listed as such. A checksum is no signature: what reports
    and codebooks say is not recounted. No engine is needed: a release of any size is recounted on this machine, part by
    part. Ends with 1 if a promise does not hold, and with 3 if a file was changed.

    Example: sfumato verify out
    """
    from sfumato.release.read import verify_bundle
    from sfumato.report import terminal

    checked = verify_bundle(folder, memory=memory)
    if json:
        console.show_json(checked)
    else:
        console.show(terminal.bundle(checked))
    checked.require_held()


def compose(
    *,
    releases: list[str] = typer.Argument(..., metavar="DIR DIR…", help="Folders of releases of the same people."),
    json: bool = options.JSON,
) -> None:
    """Measure what several releases of the same people tell together.

    An intruder links rows by the columns that all releases show as they are, and counts who shares a person's groups in
    all of them. The exit code is 1 if that are fewer people than the releases promise. The tables that they were made
    of are not read, so no engine is needed.

    Example: sfumato compose out-2025 out-2026
    """
    from sfumato.release.composition import compose as measure

    found = measure(releases)
    if json:
        console.show_json(found)
    else:
        console.show_text(f"{found}\n")
    raise typer.Exit(0 if found.held else 1)
