"""How to make a run again: as a command, as Python, as a schema file and as a project file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.methods.registry import method_class
from sfumato.project.files import project_text
from sfumato.project.reading import READING, listed, reading_words
from sfumato.project.request import Request as ReleaseRequest
from sfumato.report.reproduction import command_text, python_text

if TYPE_CHECKING:
    from sfumato.app.visitors import Run

OUT = "out"
TREES = "trees"  # folder of edited trees, beside the schema file


def command_of(run: Run) -> str:
    """Return the command; it is given in the folder that holds the table and ``schema.toml``."""
    seed = [] if run.seed is None else ["--seed", str(run.seed)]
    name = run.source.name
    file = f"./{name}" if name.startswith("-") else name  # it would be read as an option
    return command_text(
        run.method, run.options, file=file, folder=OUT, arguments=[*reading_words(run.source.reading), *seed]
    )


def python_of(run: Run) -> str:
    """Return the same in Python."""
    reading = run.source.reading
    given = {
        "separator": reading.separator,
        "encoding": reading.encoding,
        "decimal": reading.decimal,
        "missing": list(reading.missing) or None,
        "header": reading.header,
        "names": None if reading.names is None else list(listed(reading.names)),
        "sheet": reading.sheet,
    }
    options = "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)
    file = f"sf.read({run.source.name!r}{options})" if options else None
    seed = "" if run.seed is None else f", seed={run.seed}"
    made = python_text(
        method_class(run.method).__name__, run.options, file=run.source.name, folder=OUT, arguments=seed, table=file
    )
    return f"import sfumato as sf\n\n{made}\n"


def tree_files(run: Run) -> dict[str, Path]:
    """Return the trees that the visitor edited, by their paths beside the schema file."""
    paths = [Path(column.tree) for column in run.schema.columns if column.tree and os.sep in column.tree]
    return {f"{TREES}/{path.name}": path for path in paths}


def schema_of(run: Run) -> str:
    """Return the schema file, which names edited trees in a folder beside it."""
    return run.schema.to_toml(_home(run))


def project_of(run: Run) -> str:
    """Return the project file; ``sfumato run`` makes the release again. There is no seed in it."""
    home = _home(run)
    reading = run.source.reading
    return project_text(
        ReleaseRequest(
            input=str(home / run.source.name),
            target=str(home / OUT),
            method=run.method,
            options=run.options,
            columns=run.schema,
            reading=None if reading == READING else reading,
        ),
        home,
    )


def _home(run: Run) -> Path:
    """Return the folder from which the paths of trees are those of :func:`tree_files`."""
    return run.folder.parent
