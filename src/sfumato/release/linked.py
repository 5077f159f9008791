"""Releases of several tables of the same people: one folder, one count of what the tables tell together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from html import escape
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import CannotRelease, OptionError, ReadError
from sfumato.plan.claims.rows import SharedHistory
from sfumato.plan.plan import Finding, format_count
from sfumato.plan.recount_sql import JoinedRows, ReleasedRows, write_linked_promise
from sfumato.release.bundle import check_formats, fill_bundle, sha256, write_linked
from sfumato.release.bundle_check import BundleCheck, FileCheck, file_state, text_file_faults
from sfumato.release.manifest import NO_GUARANTEE, SEAL, Manifest, is_sealed, seal
from sfumato.release.release import Release
from sfumato.release.target import MANIFEST, NUMBERS, PARQUET, PROMISES, REPORT
from sfumato.table.groups import group_labels
from sfumato.table.intervals import BOX
from sfumato.table.table import Table
from sfumato.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.assessment import Assessment

LINKED_FORMAT = 1  # increased when older versions can no longer read the manifest of linked tables
Row = tuple[int, int]  # number of a table, and group of rows that are equal in its released quasi-identifiers


@dataclass(frozen=True, repr=False)
class JoinedHistories:
    """What the released tables show of each person when they are joined; pseudonyms are never shown."""

    cells: Mapping[str, int]  # pseudonym → group of people who share her cells in the table of people
    rows: Mapping[str, tuple[Row, ...]]  # pseudonym → her rows in the other tables, in order

    @classmethod
    def of(
        cls, tables: Mapping[str, Table], columns: Mapping[str, Sequence[str]], person: str, people: str
    ) -> JoinedHistories:
        """Join the tables; ``columns`` are those of each by which an intruder recognises a row."""
        rows: dict[str, list[Row]] = {}
        cells: dict[str, int] = {}
        for number, (name, table) in enumerate(tables.items()):
            owners = table.arrow.column(person).to_pylist()
            labels = group_labels(table, list(columns[name])).tolist()
            if name == people:
                cells = dict(zip(owners, labels, strict=True))
                continue
            for owner, label in zip(owners, labels, strict=True):
                rows.setdefault(owner, []).append((number, label))
        strangers = set(rows) - set(cells)
        if strangers or len(cells) < tables[people].rows:
            raise ReadError(
                f"Every person of a linked release must have one row in {people!r}.",
                found=f"{len(strangers):,} without one" if strangers else "people with several",
                fix="get a new copy from its source",
            )
        return cls(cells, {name: tuple(sorted(rows.get(name, ()))) for name in cells})

    def candidates(self, facts: int | None) -> NDArray[np.int64]:
        """Return the fewest people who fit the cells of each person and any ``facts`` of her rows; None: all."""
        known: Counter[tuple[int, tuple[Row, ...]]] = Counter()
        for name, rows in self.rows.items():
            known.update({(self.cells[name], some) for some in _subsets(rows, facts, largest_only=False)})
        fewest = (
            min(known[self.cells[name], some] for some in _subsets(rows, facts, largest_only=True))
            for name, rows in self.rows.items()
        )
        return np.fromiter(fewest, np.int64, len(self.rows))

    def candidates_by(self, facts: Iterable[Any]) -> NDArray[np.int64]:
        """Return how many people share the cells of each person and something else, given in the order of people."""
        pairs = list(zip(self.cells.values(), facts, strict=True))
        counts = Counter(pairs)
        return np.fromiter((counts[pair] for pair in pairs), np.int64, len(pairs))


def _subsets(rows: tuple[Row, ...], facts: int | None, *, largest_only: bool) -> set[tuple[Row, ...]]:
    """Return what an intruder may know of these rows: all, or any ``facts`` of them, and fewer."""
    if facts is None:
        return {rows}
    most = min(facts, len(rows))
    return {some for size in range(most if largest_only else 0, most + 1) for some in combinations(rows, size)}


def group_columns(manifest: Manifest) -> tuple[str, ...]:
    """Return the released columns in which the people of a group are equal; raise if no promise makes groups."""
    for record in manifest.claims:
        if record.name == SharedHistory.__name__ and record.parameters is not None:
            columns: Any = record.parameters["columns"]
            return tuple(columns)
    raise CannotRelease(
        "Linked tables need a method that promises groups of k people.",
        found=f"method {manifest.method!r} with these options",
        fix="boxes, mdav, suppress, or recode with kind='local'",
    )


@dataclass(frozen=True, kw_only=True)
class LinkedManifest:
    """What is published about a release of linked tables in addition to the manifest of each table."""

    derived: ClassVar[tuple[str, ...]] = ("guarantee",)

    version: str  # of sfumato
    person: str  # column of pseudonyms in every table
    people: str  # table with one row for each person
    tables: tuple[str, ...]
    k: int
    facts: int | None  # rows of the other tables that an intruder may know about a person; None: all
    index_date: str | None = None  # column since which dates are counted in days
    findings: tuple[Finding, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict, compare=False)  # SHA-256 of the manifest of each table
    format: int = LINKED_FORMAT

    @property
    def guarantee(self) -> str:
        """The promises about all tables together, as one text."""
        return "; ".join(one.claim for one in self.findings if one.kind == "privacy") or NO_GUARANTEE

    def to_json(self) -> str:
        """Return the manifest as JSON text, with ``guarantee`` and its SHA-256."""
        record = asdict(self) | {name: getattr(self, name) for name in self.derived}
        record[SEAL] = seal(record)
        return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> LinkedManifest:
        """Read a manifest from its JSON text."""
        made = None
        try:
            record = {name: value for name, value in json.loads(text).items() if name not in (*cls.derived, SEAL)}
            findings = tuple(Finding(**one) for one in record["findings"])
            made = cls(**record | {"findings": findings, "tables": tuple(record["tables"])})
        except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
            pass
        if made is None or made.format != LINKED_FORMAT or made.people not in made.tables or type(made.k) is not int:
            raise ReadError(
                "The manifest of linked tables must be the JSON text that a release wrote.",
                found="other text",
                fix="get a new copy, or install a newer sfumato",
            )
        return made

    def recount(self, tables: Mapping[str, Release]) -> Finding:
        """Count, over the join of the released tables, the people who fit what an intruder may know."""
        columns = {name: group_columns(one.manifest) for name, one in tables.items() if one.manifest is not None}
        rows = {name: one.table for name, one in tables.items()}
        candidates = JoinedHistories.of(rows, columns, self.person, self.people).candidates(self.facts)
        fewest = int(min(candidates, default=0))
        return Finding(
            claim=self._promise,
            held=fewest >= self.k,
            found=f"fewest people {fewest:,}, of {len(candidates):,}, over the join of the released tables",
            fix="larger groups of people (group_size), a smaller k, or fewer facts",
            kind="privacy",
        )

    def in_sql(self, tables: Mapping[str, Release]) -> str:
        """Return the promise about all tables as SQL, which runs in the folder of the release."""
        known = {name: one.manifest for name, one in tables.items() if one.manifest is not None}
        linked = JoinedRows(
            rows={name: ReleasedRows(path=f"{name}/{PARQUET}", kinds=one.table.kinds) for name, one in tables.items()},
            columns={name: group_columns(one) for name, one in known.items()},
            person=self.person,
            people=self.people,
        )
        return write_linked_promise(self.findings[0], linked.recount(self.k, self.facts))

    @property
    def _promise(self) -> str:
        others = " or ".join(name for name in self.tables if name != self.people)
        rows = "all her rows" if self.facts is None else f"any {format_count(self.facts, 'row')} of hers"
        promise = (
            f"whoever knows the row of a person in {self.people} and {rows} in {others}, by the quasi-identifiers, is "
            f"left with at least {self.k} people"
        )
        if self.facts is None:
            return promise
        more = format_count(self.facts, "row")
        return f"{promise}; not against who knows more than {more}, how many rows she has, or that she has none"


@dataclass(frozen=True, eq=False, repr=False)
class LinkedRelease:
    """Released tables of the same people, as the ``release`` of a method returns them for :class:`LinkedTables`.

    Attributes
    ----------
    tables : mapping of str to Release
        The release of each table, with its rows, manifest and estimates. The same pseudonym is the same person.
    manifest : LinkedManifest
        What is promised about all tables together: ``guarantee``, ``findings``, ``k``, ``facts``.
    assessment : Assessment or None
        The attack by joining, on the release and on the tables as they were, if it was asked for.
    report : mapping of str to bytes
        The common report, by name of the file: it is written with the tables.

    Examples
    --------
    >>> import sfumato as sf
    >>> patients = {"id": ["a", "b", "c", "d"], "birth": [1950, 1951, 1980, 1982]}
    >>> visits = {"id": ["a", "b", "b", "c", "d"], "year": [2020, 2021, 2023, 2020, 2022]}
    >>> release = sf.Boxes(k=2).release(
    ...     sf.LinkedTables({"patients": patients, "visits": visits}, person="id"),
    ...     schema={"patients": {"birth": "quasi"}, "visits": {"year": "quasi"}},
    ... )
    >>> release.tables["visits"].table.names
    ('year_low', 'year_high', 'box', 'id')
    >>> estimate = release.join("visits").estimate("mean(birth)")
    >>> bool(estimate.low <= 1962.8 <= estimate.high)
    True
    """

    tables: Mapping[str, Release]
    manifest: LinkedManifest
    assessment: Assessment | None = None
    report: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The promises about all tables together, and what was found when they were verified on the released rows."""
        return self.manifest.findings

    def join(self, name: str) -> Release:
        """Return the rows of a table with the released columns of their people, for statistics over both.

        Parameters
        ----------
        name : str
            One of the tables with several rows for a person.

        Returns
        -------
        Release
            One row for each row of the table. A column of the people whose name the table has too is left out.
        """
        if name not in self.tables or name == self.manifest.people:
            others = [other for other in self.tables if other != self.manifest.people]
            raise OptionError(f"There is no other table {name!r}.", found=f"tables {', '.join(map(repr, others))}")
        own, people = self.tables[name], self.tables[self.manifest.people]
        return _join(own, people, self.manifest.person)

    def write(
        self, folder: str | Path, *, formats: str | Sequence[str] | None = None, csv_formulas: str = "escape"
    ) -> Path:
        """Write all tables into one folder, each into a folder of its own with all its files: all or nothing.

        Parameters
        ----------
        folder : str or Path
            The folder, which is created. An older release in it is replaced as a whole.
        formats, csv_formulas
            As for :meth:`Release.write`.

        Returns
        -------
        Path
            The absolute path of the folder.
        """
        chosen = check_formats(formats)
        parts = {}
        for name, one in self.tables.items():
            assert one.manifest is not None
            parts[name] = partial(
                fill_bundle, one.table, one.manifest, one.report_files(None, chosen), chosen, csv_formulas
            )
        about_all = {**self.report, PROMISES: self.manifest.in_sql(self.tables).encode()}
        return write_linked(parts, about_all, self.manifest.to_json(), self._seal, folder)

    def _seal(self, fresh: Path) -> str:
        """Return the manifest with the checksums of the report and of the manifests of all tables."""
        names = (*self.report, PROMISES, *(f"{name}/{MANIFEST}" for name in self.tables))
        files = {name: sha256(fresh / name) for name in names}
        return replace(self.manifest, files=files).to_json()

    def _repr_html_(self) -> str:
        """Show shape and promises in a notebook; no cells."""
        return f"<div><p>{escape(repr(self))}</p>{''.join(one._repr_html_() for one in self.tables.values())}</div>"

    def __repr__(self) -> str:
        rows = ", ".join(f"{name}: {format_count(one.table.rows, 'row')}" for name, one in self.tables.items())
        known = "all rows" if self.manifest.facts is None else f"any {format_count(self.manifest.facts, 'row')}"
        return f"LinkedRelease({rows}; at least {self.manifest.k} people fit {known} of a person and her cells)"


def _join(own: Release, people: Release, person: str) -> Release:
    assert own.manifest is not None
    assert people.manifest is not None
    taken = {*own.table.names, *(column.name for column in own.manifest.columns)}
    both = [column for column in people.manifest.columns if column.name not in taken]
    clashing = {column.name for column in people.manifest.columns} - {column.name for column in both}
    joined = [one for one in people.manifest.released if one.name not in taken and one.name != BOX]
    joined = [one for one in joined if not any(one.name.startswith(f"{name}_") for name in clashing)]
    places = {name: place for place, name in enumerate(people.table.arrow.column(person).to_pylist())}
    rows = people.table.take(np.array([places[name] for name in own.table.arrow.column(person).to_pylist()], np.int64))
    arrow = own.table.arrow
    for one in joined:
        arrow = arrow.append_column(one.name, rows.arrow.column(one.name))
    manifest = replace(
        own.manifest,
        columns=(*own.manifest.columns, *both),
        released=(*own.manifest.released, *joined),
        altered=(*own.manifest.altered, *people.manifest.altered),
        unaltered=(*own.manifest.unaltered, *people.manifest.unaltered),
    )
    return Release(Table(arrow, {one.name: one.kind for one in manifest.released}), manifest)


def link_releases(
    tables: Mapping[str, Release], *, person: str, people: str, k: int, facts: int | None, index_date: str | None
) -> LinkedRelease:
    """Put the releases of linked tables together, after recounting what they tell together; raise if it is too much."""
    from sfumato.release.verify import require_held

    given: dict[str, Any] = {"person": person, "people": people, "k": k, "facts": facts, "index_date": index_date}
    manifest = LinkedManifest(version=__version__, tables=tuple(tables), **given)
    finding = manifest.recount(tables)
    require_held([finding])
    return LinkedRelease(tables, replace(manifest, findings=(finding,)))


def read_linked(folder: Path, read: Callable[[Path], Release]) -> LinkedRelease:
    """Read the folder of a release of linked tables as it is; ``read`` reads the folder of one table."""
    manifest = LinkedManifest.from_json((folder / MANIFEST).read_bytes().decode(errors="replace"))
    report = {name: (folder / name).read_bytes() for name in (REPORT, NUMBERS) if (folder / name).is_file()}
    return LinkedRelease({name: read(folder / name) for name in manifest.tables}, manifest, report=report)


def check_linked(
    folder: Path, read: Callable[[Path], Release], check: Callable[[Path, Release], BundleCheck]
) -> BundleCheck:
    """Check the bundle of each table by ``check``, and recount what they tell together."""
    text = (folder / MANIFEST).read_bytes().decode(errors="replace")
    manifest, tables = LinkedManifest.from_json(text), read_linked(folder, read).tables
    checks = {name: check(folder / name, one) for name, one in tables.items()}
    finding = manifest.recount(tables)
    faults = [] if is_sealed(text) else [f"{MANIFEST} changed"]
    faults += text_file_faults(folder / PROMISES, [partial(manifest.in_sql, tables)], manifest.version)
    if [replace(one, fix="") for one in manifest.findings] != [replace(finding, fix="")]:
        faults += ["the manifest says of all tables together what the recount does not find"] if finding.held else []
    return BundleCheck(
        files=tuple(_files(folder, manifest, checks)),
        recounted=(finding, *(_named(name, one) for name, check in checks.items() for one in check.recounted)),
        not_recounted=tuple(_named(name, one) for name, check in checks.items() for one in check.not_recounted),
        by_rows=tuple(_named(name, one) for name, check in checks.items() for one in check.by_rows),
        faults=(*faults, *(f"{name}: {fault}" for name, check in checks.items() for fault in check.faults)),
    )


def _named(name: str, finding: Finding) -> Finding:
    return replace(finding, claim=f"{name}: {finding.claim}")


def _files(folder: Path, manifest: LinkedManifest, checks: Mapping[str, BundleCheck]) -> Iterator[FileCheck]:
    for name in (one for one in (REPORT, NUMBERS, PROMISES) if one in manifest.files or (folder / one).is_file()):
        yield FileCheck(name=name, state=file_state(folder / name, manifest.files.get(name)))
    for name, check in checks.items():
        listed = manifest.files.get(f"{name}/{MANIFEST}")
        yield FileCheck(name=f"{name}/{MANIFEST}", state=file_state(folder / name / MANIFEST, listed))
        for one in check.files:
            yield replace(one, name=f"{name}/{one.name}")
