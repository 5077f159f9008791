"""Compare methods: split the table, try every method at every strength, and keep finished trials in a folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.comparison.attempts import HOLDOUT, Trial, attempts, draw_split, trials_of
from sfumato.comparison.records import ComparedMethod, Comparison, decimals
from sfumato.errors import OptionError, RequestError, wrap_memory_errors
from sfumato.formats.raw_files import is_unfinished, write_whole
from sfumato.job.job import Job, read_earlier
from sfumato.languages import ENGLISH, languages, translate_page
from sfumato.machine import processors
from sfumato.params import require_choice, require_int, require_probability
from sfumato.release.target import resolve_folder
from sfumato.schema.schema import FittedTable, Schema
from sfumato.table.groups import row_keys
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.release.release import Release


# The folder of a comparison: one small file per finished trial, so that a killed comparison can go on.
#
# A file holds scores and options, and no cell. Its name contains a hash of the table, the schema, the split and the
# method with its options: after a change of any of them the trial is made again, and an old file is ignored.


TRIALS, RESULT, REPORT = "trials", "comparison.json", "report.html"


def digest_of(table: FittedTable) -> str:
    """Return a hash of all cells in their order, of their kinds and of the schema, as hexadecimal digits."""
    digest = hashlib.sha256(row_keys(table.table).tobytes())
    digest.update(repr((sorted(table.table.kinds.items()), table.schema)).encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class ComparisonFolder:
    """A folder, and the hash of what all trials share: table, schema and split."""

    path: Path
    shared: str

    @classmethod
    def prepare(cls, folder: str | Path, shared: str) -> ComparisonFolder:
        """Make the folder, or accept one that holds a comparison."""
        require_folder(folder)
        path = resolve_folder(folder)
        reason = ""
        try:
            (path / TRIALS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or type(error).__name__
        if reason:
            raise OptionError(f"The comparison cannot be written there: {reason}.", fix="another folder")
        for left in filter(_is_unfinished, (*path.iterdir(), *(path / TRIALS).iterdir())):
            with contextlib.suppress(OSError):  # a comparison does not need it
                left.unlink()
        return cls(path, shared)

    def read(self, trial: Trial) -> ComparedMethod | None:
        """Return the record of a finished trial; None if there is none, or if its file cannot be read."""
        try:
            return ComparedMethod.from_plain(json.loads(self._file(trial).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, trial: Trial, row: ComparedMethod) -> None:
        """Write the record of a trial, completely or not at all."""
        _put(self._file(trial), json.dumps(row.to_plain(), indent=1, ensure_ascii=False, allow_nan=False))

    def finish(self, files: Mapping[str, str]) -> None:
        """Write the result and the report."""
        for name, text in files.items():
            _put(self.path / name, text)

    def _file(self, trial: Trial) -> Path:
        key = hashlib.sha256("\0".join((__version__, self.shared, trial.identity)).encode()).hexdigest()[:20]
        return self.path / TRIALS / f"{trial.method.name}-{key}.json"


def require_folder(folder: str | Path) -> None:
    """Raise unless the folder does not exist, is empty or holds a comparison."""
    path = resolve_folder(folder)
    if path.exists() and not path.is_dir():
        raise RequestError(f"{path.name!r} must be a folder.", found="something else", fix="another folder")
    files = path.iterdir() if path.exists() else ()
    others = [one for one in files if one.name not in (TRIALS, RESULT, REPORT) and not _is_unfinished(one)]
    is_release = path.exists() and (path / REPORT).exists() and not (path / TRIALS).exists()
    if others or is_release:
        raise RequestError(
            f"The folder {path.name!r} must be empty or hold a comparison.",
            found=f"{len(others)} other files" if others else "a report without a comparison",
            fix="another folder",
        )


def _is_unfinished(path: Path) -> bool:
    """Whether a comparison that was killed while it wrote a file left this behind."""
    return is_unfinished(path, (".json", ".html"))


def _put(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write(text.encode()))


log = logging.getLogger("sfumato.comparison")


@wrap_memory_errors
def compare(
    table: Any,
    methods: Sequence[str | Method] | None = None,
    *,
    strengths: int = 3,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    holdout: float = HOLDOUT,
    earlier: Sequence[Release | str | Path] = (),
    into: str | Path | None = None,
    language: str = ENGLISH,
    jobs: int | None = None,
    seed: int | None = None,
) -> Comparison:
    """Compare methods by the risk and the utility of their releases of one table.

    A random part of the people, with all their rows, is held out and never released. Every method releases the same
    other part, at several strengths, and each release is assessed against the people who were held out. A method that
    makes no release is listed with its reason.

    Parameters
    ----------
    table : Table, path or data frame
        The original rows.
    methods : sequence of str or Method, optional
        Names of methods, each tried at several strengths, or methods such as ``sf.Noise(level=0.3)``, tried as they
        are. Default: all methods.
    strengths : int, default 3
        Number of strengths per method, at least 1: values of the option by which the method protects more or less,
        which each method declares. At most as many as it declares are used.
    schema : Schema, mapping or path, optional
        Roles of the columns; by default they are suggested.
    holdout : float, default 0.5
        Share of the rows, between 0 and 1, that is held out.
    earlier : sequence of Release or path, optional
        Releases of the same people that were given away before, or their folders. For methods that make groups it is
        counted how many people fit a person in all of them; see :func:`sfumato.compose`.
    into : path, optional
        Folder for ``comparison.json``, ``report.html`` with the map, and a file per finished trial: a comparison that
        was interrupted goes on there. None of these files contains a cell. Default: nothing is written.
    language : {"en", "de", "fr"}, default "en"
        Language of ``report.html``.
    jobs : int, optional
        Number of processes. Default: one per processor.
    seed : int, optional
        Seed of releases and assessments, for tests. Default: like the split, they are drawn from the content of the
        table, so that a comparison that goes on, or :func:`sfumato.recommend`, finds the same. Noise of differentially
        private methods is never repeated.

    Returns
    -------
    Comparison
        One record per method and strength; ``best`` are those that no other one beats.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> ages = np.random.default_rng(0).integers(18, 90, 300)
    >>> people = {"age": ages, "income": 1000.0 + 40.0 * ages + np.random.default_rng(1).normal(0, 300, 300)}
    >>> roles = {"age": "quasi", "income": "quasi"}
    >>> found = sf.compare(people, ["boxes", "noise"], strengths=1, schema=roles, jobs=1)
    >>> [(row.name, row.guarantee) for row in found.rows]
    [('boxes, k = 10', '10-anonymous in age, income'), ('noise, level = 0.25', 'no guarantee')]
    >>> found.original_rows, found.reference_rows
    (150, 150)
    """
    require_probability(holdout, name="holdout")
    jobs = processors() if jobs is None else require_int(jobs, name="jobs", at_least=1)
    require_choice(language, name="language", choices=languages())
    trials = trials_of(methods, strengths)
    if into is not None:
        require_folder(into)
    before = read_earlier(earlier)
    fitted = Job.of(table, schema=schema, engine="memory").fitted
    same = hashlib.sha256(f"{digest_of(fitted)} {holdout!r} {seed!r}".encode())
    for one in before:
        same.update(row_keys(one.table).tobytes())
    shared = same.hexdigest()
    split = draw_split(fitted, holdout, seed=seed, earlier=before)
    folder = None if into is None else ComparisonFolder.prepare(into, shared)
    done = _finished(trials, folder)
    waiting = [trial for trial in trials if trial.identity not in done]
    for trial, tried in attempts(waiting, split, jobs):
        if folder is not None and tried.is_final:
            folder.keep(trial, tried.row)
        done[trial.identity] = tried.row
        log.info("%d of %d: %s", len(done), len(trials), _describe(tried.row))
    rows = tuple(done[trial.identity] for trial in trials)
    result = Comparison(rows=rows, original_rows=split.kept.table.rows, reference_rows=split.others.rows)
    if folder is not None:
        from sfumato.comparison.page import render

        folder.finish({RESULT: result.to_json(), REPORT: translate_page(render(result), language)})
    return result


def _finished(trials: Sequence[Trial], folder: ComparisonFolder | None) -> dict[str, ComparedMethod]:
    """Return the records of trials that a previous run finished."""
    rows = {} if folder is None else {trial.identity: folder.read(trial) for trial in trials}
    done = {identity: row for identity, row in rows.items() if row is not None}
    if done:
        log.info("%d of %d: found in the folder", len(done), len(trials))
    return done


def _describe(row: ComparedMethod) -> str:
    if row.reason:
        return f"{row.name}: no release: {row.reason}"
    risks = f"risk {decimals(row.reference_risk)}, worst attack {decimals(row.attack_risk)}"
    return f"{row.name}: {row.verdict}, {risks}, utility {decimals(row.utility)} ({row.seconds:.0f} s)"
