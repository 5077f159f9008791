"""The ledger: a private file of the custodian that knows who was in which group of which release.

It has no name and no cell of a person: people are known by HMAC-SHA-256 under a key in another file, groups by numbers.
Both files are for their owner only. A release is written to the ledger in the same step as the bundle: the new ledger
lies beside the old one while the bundle is put into its place, and replaces it then. What a killed run left is settled
when the ledger is opened again: if the bundle is there, the new ledger counts; if not, the old one.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import CannotRelease, OptionError, ReadError, TableError, warn
from sfumato.plan.claims.groups import Diversity, KAnonymity
from sfumato.plan.claims.sequence import (
    GroupsOfPeople,
    SharedReleases,
    encode,
    rarest_values,
    value_hashes,
)
from sfumato.plan.earlier_releases import ABSENT, EarlierReleases, find_candidates
from sfumato.plan.plan import format_count
from sfumato.release.destination import Folder
from sfumato.release.target import MANIFEST, resolve_folder
from sfumato.schema.pseudonyms import SecretKey, distinct_people, is_key_there, require_private
from sfumato.table.groups import column_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.plan import Evidence, Plan
    from sfumato.sources.base import Destination
    from sfumato.table.table import Table

HEAD = b"sfumato ledger 1\n"
SEAL_BYTES = 32
PERSON_BYTES = 16  # 128 bits, so that no two of any number of people are taken for one


@dataclass(frozen=True, eq=False, repr=False)
class LedgerState:
    """What a ledger knows: the groups of all people in all releases so far."""

    people: tuple[bytes, ...]  # digest of each person
    groups: NDArray[np.int64]  # (people, releases)
    needed: NDArray[np.int64]
    target: str = ""  # folder of the last release

    @classmethod
    def empty(cls) -> LedgerState:
        """Return a ledger without releases."""
        none = np.zeros(0, dtype=np.int64)
        return cls((), np.zeros((0, 0), dtype=np.int64), none)

    @property
    def releases(self) -> int:
        """Number of releases so far."""
        return int(self.groups.shape[1])

    def to_bytes(self, key: SecretKey) -> bytes:
        """Return the content of the file, sealed with the key."""
        columns = {"person": pa.array(self.people, pa.binary(PERSON_BYTES)), "needed": self.needed}
        columns |= {f"release {number}": groups for number, groups in enumerate(self.groups.T)}
        told = json.dumps({"target": self.target})
        sink = io.BytesIO()
        pq.write_table(pa.table(columns).replace_schema_metadata({"ledger": told}), sink)
        content = sink.getvalue()
        return HEAD + _seal(key, content) + content

    @classmethod
    def from_bytes(cls, content: bytes, key: SecretKey) -> LedgerState:
        """Read the content of a file; raise if it is damaged, or if the key is that of another ledger."""
        rest = content.removeprefix(HEAD)
        if rest == content:
            raise ReadError("The ledger must be a file that sfumato made.", found="something else")
        seal, rest = rest[:SEAL_BYTES], rest[SEAL_BYTES:]
        if not hmac.compare_digest(seal, _seal(key, rest)):
            raise ReadError(
                "The ledger must be as it was written, and its key must be that of this ledger.",
                found="a damaged ledger, or another key",
                fix="a copy of both files; without them no promise can be made about these people",
            )
        table = pq.read_table(pa.BufferReader(rest))
        groups = [table.column(name).to_numpy() for name in table.column_names if name.startswith("release ")]
        return cls(
            tuple(table.column("person").to_pylist()),
            np.column_stack(groups).astype(np.int64) if groups else np.zeros((table.num_rows, 0), dtype=np.int64),
            table.column("needed").to_numpy(),
            json.loads((table.schema.metadata or {})[b"ledger"])["target"],
        )

    def with_release(self, people: Sequence[bytes], told: GroupsOfPeople, k: int, target: str) -> LedgerState:
        """Return the ledger with one more release: the group and the values of each of these people."""
        known = {person: place for place, person in enumerate(self.people)}
        new = tuple(person for person in people if person not in known)
        known |= {person: len(self.people) + place for place, person in enumerate(new)}
        places = np.array([known[person] for person in people], dtype=np.int64)

        def lengthen(column: NDArray[np.int64], filled: int) -> NDArray[np.int64]:
            return np.concatenate([column, np.full((len(new), *column.shape[1:]), filled, dtype=np.int64)])

        groups = np.full(len(known), ABSENT, dtype=np.int64)
        groups[places] = told.groups
        needed = lengthen(self.needed, 0)
        needed[places] = np.where(needed[places] > 0, np.minimum(needed[places], k), k)
        return LedgerState(
            (*self.people, *new),
            np.column_stack([lengthen(self.groups, ABSENT), groups]),
            needed,
            target,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Ledger:
    """An open ledger; nobody else writes it meanwhile."""

    path: Path
    key: SecretKey
    state: LedgerState
    digests: dict[int, bytes] = field(default_factory=dict)  # of the people of the table, by their hashes

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: str | Path) -> Iterator[Ledger]:
        """Open a ledger, or begin one; its key is in the file of the same name with ``.key``.

        A key that was made for a release that fails is removed again.
        """
        file = Path(path).expanduser().resolve()
        secret = file.with_name(f"{file.name}.key")
        is_new = not is_key_there(secret)
        if is_new and file.exists():
            raise ReadError(
                "A ledger is read with its key.", found=f"no file {secret.name}", fix="put the key file beside it"
            )
        read = SecretKey.create(secret) if is_new else SecretKey.read(secret)
        try:
            with _lock(secret):
                yield cls(file, read, _settle(file, read))
        finally:
            if is_new and not file.exists():
                secret.unlink(missing_ok=True)

    def earlier(self, table: Table, person: str, sensitive: Sequence[str], k: int, l: int) -> EarlierReleases:
        """Return what earlier releases told about the people of a table, who need k candidates with l values."""
        people, hashes, person_of = self._people(table, person)
        known = {digest: place for place, digest in enumerate(self.state.people)}
        if self.state.releases and not any(digest in known for digest in people):
            raise CannotRelease(
                "The ledger must be that of the people of this table.",
                found="none of them in it",
                fix=f"the ledger of these people, or {person!r} as it was written in earlier tables",
            )
        self.digests.update(zip(hashes.tolist(), people, strict=True))
        places = np.array([known.get(digest, len(known)) for digest in people])
        nobody = np.full((1, self.state.releases), ABSENT, dtype=np.int64)
        return EarlierReleases(
            person=person,
            people=hashes,
            groups=np.concatenate([self.state.groups, nobody])[places],
            needed=np.append(self.state.needed, 0)[places],
            values=rarest_values(person_of, encode(value_hashes(table, sensitive)), l),
            k=k,
            l=l,
            are_held_back=np.zeros(len(places), dtype=bool),
            are_repeated=len(person_of) > len(people),
        )

    def bind(self, plan: Plan, table: Table, person: str | None, suppress: float) -> tuple[Plan, SharedReleases]:
        """Return the plan with those kept together who were together before, and the promise over all releases."""
        promised = next((claim for claim in plan.claims if isinstance(claim, KAnonymity)), None)
        if person is None or promised is None:
            raise CannotRelease(
                "A ledger follows people over releases of groups of k.",
                found="no column with the role person" if person is None else "a method without such a promise",
                fix="--person COLUMN" if person is None else "boxes; for a first release also recode, suppress or mdav",
            )
        diverse = [claim for claim in plan.claims if isinstance(claim, Diversity)]
        sensitive, l = tuple(claim.column for claim in diverse), max((claim.l for claim in diverse), default=1)
        if plan.keeps_only_values and l < 2:
            raise OptionError(
                "Values can be kept over releases only if each release has at least two in every group.",
                found=f"l = {l}, {format_count(len(sensitive), 'sensitive column')}",
                fix="a column with the role sensitive and l=2 or more, or sequence='people'",
            )
        k = l if plan.keeps_only_values else promised.k
        earlier = self.earlier(table, person, sensitive, k, l).hold_back(self.key.digest("people held back", ""))
        _require_few_held_back(earlier, suppress)
        if lowered := int((earlier.needed > k).sum()):
            warn(
                f"Earlier releases promised more than {k} people to {format_count(lowered, 'person')}: all "
                "releases together now promise them fewer. Ask for the same as before to keep that promise."
            )
        claim = SharedReleases(k=k, l=l, sensitive=sensitive, columns=promised.columns, person=person, earlier=earlier)
        return (plan.keep_together(earlier) if self.state.releases or earlier.are_repeated else plan), claim

    @contextlib.contextmanager
    def adding(self, claim: SharedReleases, evidence: Evidence, destination: Destination | None) -> Iterator[None]:
        """Add a release while its bundle is written: the ledger is as before if that fails."""
        assert isinstance(destination, Folder)
        told = GroupsOfPeople.of(claim.tally(evidence), claim.l)
        people = [self.digests[one] for one in told.people.tolist()]
        state = self.state.with_release(people, told, claim.k, str(resolve_folder(destination.path)))
        waiting = _beside(self.path)
        try:
            _write_private(waiting, state.to_bytes(self.key))
            yield
            waiting.replace(self.path)
        finally:
            waiting.unlink(missing_ok=True)

    def _people(self, table: Table, person: str) -> tuple[list[bytes], NDArray[np.uint64], NDArray[np.int64]]:
        """Return the digest and the hash of each person, by ascending hash, and the place of the person of each row."""
        people = distinct_people(table.arrow.column(person))
        missing = int((people.codes < 0).sum())
        if missing:
            raise TableError(
                f"With a ledger every row must be that of a person in {person!r}.",
                found=f"{missing:,} rows without one",
                fix="fill in or leave out these rows",
            )
        digests = [self.key.digest("ledger", name)[:PERSON_BYTES] for name in people.names]
        hashes, first, person_of = np.unique(column_hashes(table, person), return_index=True, return_inverse=True)
        if len(hashes) > len(digests):
            raise TableError(
                f"Each person must be written in one way in {person!r}.",
                found=f"{len(hashes) - len(digests):,} in several",
                fix="write the numbers of people alike",
            )
        return [digests[code] for code in people.codes[first].tolist()], hashes, person_of.ravel()


def _require_few_held_back(earlier: EarlierReleases, suppress: float) -> None:
    held, people = int(earlier.are_held_back.sum()), len(earlier.people)
    if held <= suppress * people:
        return
    known = earlier.of(np.flatnonzero(earlier.are_known))
    found = find_candidates(known.groups, known.values)
    largest = int(found.people.min()) if found.values.min(initial=earlier.l) >= earlier.l else 0
    weaker = ", or keep only their values (sequence='values' for boxes)" if 1 < earlier.l < earlier.k else ""
    raise CannotRelease(
        f"Everybody must keep {earlier.k} people who fit all releases so far. Some of those who shared a person's "
        "groups are no longer in the table, or their sensitive values have become equal.",
        found=f"{held:,} of {people:,} people could be released only with fewer",
        fix=f"hold them back (suppress={np.ceil(1e4 * held / people) / 1e4:g} for boxes), release those who have left, "
        f"too, {f'promise k={largest}' if largest > 1 else 'or begin a new ledger with larger groups (slack)'}{weaker}",
    )


def _seal(key: SecretKey, content: bytes) -> bytes:
    return key.digest("seal of a ledger", hashlib.sha256(content).hexdigest())


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.next")


def _read_private(path: Path, key: SecretKey) -> LedgerState:
    """Read a ledger that nobody else may read."""
    require_private(path, "the ledger", "chmod 600")
    return LedgerState.from_bytes(path.read_bytes(), key)


def _write_private(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def _settle(path: Path, key: SecretKey) -> LedgerState:
    """Return the state of the ledger, after what a killed run left: a release that is there counts."""
    waiting = _beside(path)
    if waiting.exists():
        left = None
        with contextlib.suppress(ReadError, OSError, pa.ArrowInvalid):
            left = _read_private(waiting, key)
        manifest = Path(left.target) / MANIFEST if left is not None else waiting
        if left is not None and manifest.is_file() and manifest.stat().st_mtime_ns >= waiting.stat().st_mtime_ns:
            waiting.replace(path)
        else:
            waiting.unlink()
    return _read_private(path, key) if path.exists() else LedgerState.empty()


@contextlib.contextmanager
def _lock(key: Path) -> Iterator[None]:
    """Hold the lock of a ledger, which is that of its key file."""
    try:
        import fcntl
    except ImportError:  # another system: two runs at once are not noticed
        yield
        return
    with key.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            taken = True
        else:
            taken = False
        if taken:
            raise OptionError("A ledger is written by one release at a time.", found="another", fix="wait for its end")
        yield
