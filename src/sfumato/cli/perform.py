"""Make a release that was requested: choose the method, make, verify and write it, and print what was found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli import console, source
from sfumato.cli.search import watched
from sfumato.errors import OptionError
from sfumato.params import require_choice
from sfumato.project.reading import READING, is_url
from sfumato.table.files import shown

if TYPE_CHECKING:
    from sfumato.engines.base import Engine
    from sfumato.measures.assess import Assessment
    from sfumato.methods.base import Method
    from sfumato.project.request import Request
    from sfumato.release.destination import Destination
    from sfumato.release.release import Release
    from sfumato.report.summary import Summary
    from sfumato.schema.schema import Schema

AUTO = "auto"  # in place of a method: the recommended one
DEFAULT_METHOD = "boxes"


def perform(request: Request, *, seed: int | None, as_json: bool) -> None:
    """Make the release, verify it, write it with its project file, and print what was found."""
    from sfumato.engines.registry import engine_for
    from sfumato.project.files import write_project
    from sfumato.release.bundle import checked_formats
    from sfumato.release.destination import Folder
    from sfumato.release.target import MANIFEST

    file, out = _required(request)
    _require_original(Path(file))
    require_choice(request.csv_formulas or "escape", name="--csv-formulas", choices=("keep", "escape"))
    for one in request.require:
        require_choice(one, name="--require", choices=("assessment",))
    method = None if request.method == AUTO else _method(request)  # a mistake is said before any work
    destination = _destination(out, request.into, replace=bool(request.replace))
    destination.require_free()
    if isinstance(destination, Folder) and (Path(out).expanduser() / MANIFEST).exists():
        console.say(f"· the older release in {out} will be replaced")
    _require_key_apart(request)
    checked_formats(request.formats or None)
    console.say_progress()
    given = source.source_of(file, request.reading or READING, table=request.table, query=request.query)
    engine = engine_for(request.engine or "auto", given, memory=request.memory, master=request.master)
    if method is None:
        request = _recommended(request, given, engine)
        method = _method(request)
    if engine.name != "memory" or not isinstance(destination, Folder):
        _require_plain(request, engine)
        _made_by_engine(request, method, given, engine, destination, seed=seed, as_json=as_json)
        schema = request.roles_schema
    else:
        schema = _made_in_memory(request, method, given, engine, seed=seed, as_json=as_json)
    if isinstance(destination, Folder):
        done: dict[str, Any] = {"roles": (), "pseudonyms": (), "shift_dates": (), "by": None, "days": None}
        said = write_project(replace(request, schema=None, columns=schema, **done))
        console.say(f"· {said}")


def _required(request: Request) -> tuple[str, str]:
    if request.input is None:
        raise OptionError("A release needs an input.", found="none", fix="sfumato release FILE -o DIR, or --project")
    if request.target is None:
        raise OptionError("A release needs a folder to write to.", found="none", fix="-o out")
    return request.input, request.target


def _require_original(file: Path) -> None:
    """Raise if the input is a release, or the rows of one."""
    from sfumato.release.target import MANIFEST, PARQUET

    folder = file if file.is_dir() else file.parent
    is_rows = file.is_dir() or file.stem == Path(PARQUET).stem
    if is_rows and (folder / MANIFEST).is_file() and (folder / PARQUET).exists():
        raise OptionError(
            f"{shown(file)} is a release already.",
            found=f"{MANIFEST} of a release",
            fix="give the table that it was made from; `sfumato estimate` and `sfumato assess` read releases",
        )


def _require_key_apart(request: Request) -> None:
    """Raise if the key would be in the folder of the release."""
    if request.key is not None:
        reason = ""
        try:
            key = Path(request.key).expanduser().resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, no home, a null character
            reason = "it is not a valid path"
        if reason:
            raise OptionError(f"The key cannot be kept there: {reason}.", fix="--key with the path of a file")
        if key.is_relative_to(Path(request.target or "").expanduser().resolve()):
            raise OptionError("The key must not be in the folder of the release.", fix="--key with another folder")


def _require_plain(request: Request, engine: Engine) -> None:
    """Raise if something is asked for that only a release in memory into a folder has."""
    asked = {"--pseudonyms": request.pseudonyms, "--shift-dates": request.shift_dates, "--format": request.formats}
    given = [flag for flag, value in asked.items() if value]
    if given:
        raise OptionError(
            f"{', '.join(given)}: this is done only in memory, into a folder.",
            found=f"engine {engine.name!r}" if engine.name != "memory" else "a database",
            fix="--engine memory and -o DIR",
        )


def _method(request: Request) -> Method:
    from sfumato.methods.registry import make_method

    return make_method(request.method or DEFAULT_METHOD, **request.options)


def _recommended(request: Request, given: Any, engine: Engine) -> Request:
    """Return the request with the recommended method and options; those that were given stay."""
    from sfumato.recommendation.recommend import recommend

    wanted: dict[str, Any] = {name: request.options.get(name) for name in ("k", "l", "population")}
    keep = request.options.get("keep") or ()
    found = recommend(given, keep, schema=request.roles_schema, engine=engine, **wanted)
    console.say(f"· method {found.method}, recommended because:")
    for reason in found.reasons:
        console.say(f"·   {reason}")
    options = {**found.options, **request.options}
    if "population" in options and "population" not in found.options:
        console.say(f"·   the population is not needed by {found.method}, whose groups are those of the table.")
        del options["population"]
    return replace(request, method=found.method, options=options)


def _made_by_engine(
    request: Request,
    method: Method,
    given: Any,
    engine: Engine,
    destination: Destination,
    *,
    seed: int | None,
    as_json: bool,
) -> None:
    from sfumato.pipeline import release_and_assess

    console.say_compiling()
    options: dict[str, Any] = {"schema": request.roles_schema, "seed": seed, "engine": engine, "into": destination}
    options |= {"key": request.key}
    judged = None
    with watched(method) as anonymizer:
        if request.judges:
            others = request.reference and source.table(request.reference, request.reading or READING)
            made = release_and_assess(
                anonymizer, given, others, holdout=request.holdout, require=bool(request.require), **options
            )
            released, judged = made.release, made.assessment
        else:
            released = anonymizer.release(given, **options)
    show_written(released, request.target or "", judged, table=request.into, as_json=as_json)


def _made_in_memory(
    request: Request, method: Method, given: Any, engine: Engine, *, seed: int | None, as_json: bool
) -> Schema:
    """Make and write the release; return the schema with a role for every column."""
    from sfumato.pipeline import release_and_assess
    from sfumato.schema.schema import FittedTable

    fitted = FittedTable.of(given.read(), request.roles_schema)
    fitted = FittedTable(fitted.table, request.prepared(fitted.schema))
    source.say_roles(fitted.schema)
    console.say_compiling()
    others = request.reference and source.table(request.reference, request.reading or READING)
    judged = None
    with watched(method) as anonymizer:
        if request.judges:
            made = release_and_assess(
                anonymizer,
                fitted,
                others,
                holdout=request.holdout,
                seed=seed,
                require=bool(request.require),
                key=request.key,
            )
            released, judged = made.release, made.assessment
            if request.holdout is not None:
                console.say(f"· {judged.reference_rows:,} rows held out as the reference and not released")
        else:
            released = anonymizer.release(fitted, seed=seed, engine=engine, key=request.key)
    written = {"csv_formulas": request.csv_formulas or "escape", "formats": request.formats or None}
    write_and_show(released, request.target or "", judged, as_json=as_json, **written)
    return fitted.schema


def write_and_show(
    released: Release, out: str, judged: Assessment | None = None, *, as_json: bool, **written: Any
) -> None:
    """Write the bundle; print how columns are released, the findings and the kept statistics.

    ``written`` are options of :meth:`Release.write`.
    """
    from sfumato.report.html import Report
    from sfumato.report.summary import summarize

    summary = summarize(released)
    folder = released.write(out, report=Report.of(released, summary), **written)
    console.say(f"· written to {out}")
    with console.after(f"the release is complete in {out}"):
        _show(released, {"folder": str(folder)}, summary, judged, as_json=as_json)


def _destination(out: str, into: str | None, *, replace: bool) -> Destination:
    """Return the folder, or the table of a database, that the release is written to."""
    from sfumato.release.destination import Folder

    if is_url(out):
        if into is None:
            raise OptionError(
                "-o with the URL of a database needs the name of the new table.", found="no --into", fix="--into TABLE"
            )
        return source.database(out, table=into, replace=replace)
    if into is not None or replace:
        raise OptionError("--into and --replace need -o with the URL of a database.", found="a folder")
    return Folder(out)


def show_written(
    released: Release, out: str, judged: Assessment | None = None, *, table: str | None, as_json: bool
) -> None:
    """Print what :func:`write_and_show` prints, of a release that its engine has written."""
    from sfumato.report.summary import summarize

    place = {"table": table} if table else {"folder": str(Path(out).expanduser().absolute())}
    console.say(f"· written to {table or out}")
    with console.after(f"the release is complete in {table or out}"):
        _show(released, place, summarize(released), judged, as_json=as_json)


def _show(
    released: Release, place: dict[str, str], summary: Summary, judged: Assessment | None, *, as_json: bool
) -> None:
    from sfumato.report import terminal

    manifest = released.manifest
    assert manifest is not None
    searches, rules = released.diagnostics.searches, released.diagnostics.rules
    if as_json:
        shown: dict[str, Any] = {**place, "manifest": manifest, "estimates": summary.estimates}
        shown |= {"recovered": summary.recovered, "usefulness": summary.usefulness}
        console.show_json(shown | {"searches": searches, "rules": rules, "assessment": judged and judged.to_plain()})
        return
    parts = [terminal.treatments(manifest), terminal.findings(released.findings)]
    parts += [terminal.estimates(summary.estimates)] if summary.estimates else []
    parts += [terminal.recovered(summary.recovered)] if summary.recovered else []
    parts += [terminal.usefulness(summary.usefulness)] if summary.usefulness.concerns else []
    parts += [terminal.searches(searches)] if searches else []
    parts += [terminal.rules(rules)] if rules else []
    parts += [terminal.assessment(judged)] if judged else []
    for part in parts:
        console.show(part, "")
