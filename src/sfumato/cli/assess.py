"""``sfumato assess FILE DIR``: privacy and utility of a release, measured against its original."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from sfumato.cli import console, options
from sfumato.errors import OptionError, printable
from sfumato.job.request import file_source, schema_of
from sfumato.params import require_choice

if TYPE_CHECKING:
    from sfumato.measures.measured_release import MeasuredRelease, Metric
    from sfumato.measures.privacy.prediction import Exposed
    from sfumato.release.assessment import Assessment


@options.with_groups
def assess(
    *,
    file: str = typer.Argument(..., metavar="FILE", help="The original table."),
    release: str = typer.Argument(..., metavar="DIR", help="Folder of the release, or a file of released rows."),
    reference: str | None = typer.Option(
        None,
        "--reference",
        metavar="FILE",
        help="People of the same population who are not in FILE; needed for attacks.",
    ),
    earlier: list[str] = typer.Option(
        [],
        "--earlier",
        metavar="DIR",
        help="Folder of a release of the same people that was given away before; repeatable.",
    ),
    column: list[str] = typer.Option(
        [], "--column", metavar="COLUMN", help="Column that the intruder knows; repeatable. All columns by default."
    ),
    metric: str = typer.Option(
        "standardised", "--metric", help="Distance between rows: standardised, mahalanobis, mixed or probability."
    ),
    knows: list[str] = options.KNOWS,
    worst: int = typer.Option(0, "--worst", min=0, metavar="N", help="List the N most exposed rows; keep them secret."),
    pictures: str | None = typer.Option(
        None,
        "--pictures",
        metavar="FOLDER",
        help="Draw pictures into a folder; they show the original, so keep them secret.",
    ),
    schema: str | None = options.SCHEMA,
    person: str | None = options.PERSON,
    household: str | None = options.HOUSEHOLD,
    place: options.PlaceOptions,
    engine: options.EngineOptions,
    reading: options.ReadingOptions,
    seed: int | None = options.SEED,
    language: str = typer.Option("en", "--language", metavar="CODE", help="Language of the text: en, de or fr."),
    json: bool = options.JSON,
) -> None:
    """Measure the privacy and utility of a release.

    Compares the release with its original. Attacks are measured only with --reference. A table that does not fit into
    memory is measured on a random sample; copies and groups are counted on all rows. With --earlier, it is also counted
    who fits a person in all releases. With --knows, intruders know a column less precisely. With --person, or if the
    release has such a column, people are counted, not rows.

    Example: sfumato assess patients.csv out --reference others.csv
    """
    from sfumato.job.assess import add_composition, measure_release
    from sfumato.measures.assess import ComparisonOptions
    from sfumato.measures.measured_release import METRICS
    from sfumato.measures.privacy.prediction import most_exposed, people_of
    from sfumato.release.read import read_one_table
    from sfumato.release.target import resolve_folder

    options.require_language(language)
    if pictures is not None:
        _require_outside(resolve_folder(pictures))
    console.say_compiling()
    known = schema_of(schema, options.roles_with_people([], person, household))
    job = options.job_of(file, reading, place, engine, schema=known)
    others = reference and file_source(reference, reading.given).read()
    chosen_metric = cast("Metric", require_choice(metric, name="--metric", choices=METRICS))
    known_as = options.precisions(knows)
    how = ComparisonOptions(columns=list(column) or None, metric=chosen_metric, knows=known_as, seed=seed)
    if not job.engine.in_memory:
        _require_no_pictures(pictures is not None or worst > 0, job.engine.name)
    made = read_one_table(release)
    measured = measure_release(job, made, others, how)
    if pictures is not None:
        _draw(measured.subject, Path(pictures), measured.assessment.method)
    exposed = most_exposed(people_of(measured.subject), worst) if worst else ()
    _show(add_composition(measured.assessment, earlier, made), exposed, None if json else language)


def _show(assessment: Assessment, exposed: Sequence[Exposed], language: str | None) -> None:
    """Print the assessment in a language, or as JSON if there is none."""
    from sfumato.report import terminal

    if language is None:
        console.show_json(assessment.to_plain() | {"most_exposed": exposed})
    else:
        console.show_text(f"{printable(assessment.text(language))}\n")
        console.show(*(["", terminal.exposed_rows(exposed)] if exposed else []))


def _require_no_pictures(asked: bool, engine: str) -> None:
    if asked:
        raise OptionError(
            "--pictures and --worst need the table in memory.",
            found=f"engine {engine!r}",
            fix="--engine memory, or leave them out",
        )


def _require_outside(folder: Path) -> None:
    """Raise if the folder is a release or lies inside one."""
    from sfumato.release.target import MANIFEST

    if any((around / MANIFEST).is_file() for around in (folder, *folder.parents)):
        raise OptionError(
            "Pictures of an assessment show the original and must not be written into a release.",
            found="--pictures is the folder of a release, or inside one",
            fix="another folder",
        )


def _draw(subject: MeasuredRelease, folder: Path, name: str) -> None:
    from sfumato.report.figures_measures import pictures
    from sfumato.report.picture import png

    drawn = pictures(subject, name=name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "privacy.png").write_bytes(png(drawn.privacy))
    if drawn.components is not None:
        (folder / "components.png").write_bytes(png(drawn.components))
    console.say(f"· pictures in {folder}")
