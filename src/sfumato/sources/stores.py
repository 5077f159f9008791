"""Files in stores: S3, Google Cloud Storage, Azure and HDFS, by the file systems of Arrow, or of fsspec.

Files are copied once, whole, into a private folder, and then read like files of this machine: what is read several
times must not change meanwhile. A release is written under a name of its own, and then one small file, which names it,
is replaced in one step: readers see the old release or the new one.

Credentials come from the environment of the process, or from the machine's role; a URL with credentials is refused.
No text of a store is shown.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fnmatch
import glob
import json
import os
import posixpath
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from sfumato.errors import MissingExtra, OptionError, ReadError, SfumatoError, without_cause
from sfumato.private_folder import PrivateFolder
from sfumato.sources.base import STORES, scheme_of

if TYPE_CHECKING:
    from pyarrow import fs

T = TypeVar("T")

CURRENT = "current.json"  # names the folder of the release that counts
VERSIONS = "versions"  # folder of the releases: the current one, and one that is being written
PATIENCE = timedelta(seconds=20)  # for a store that does not answer
ABANDONED = timedelta(days=1)  # age of files in VERSIONS that no writer can still be writing
CHUNK = 1 << 24  # bytes that are copied at once
FULL = re.compile(r"StorageFull|QuotaExceeded|QUOTA_EXCEEDED|InsufficientStorage|status:? 507|HTTP status 507")
FAILURES = {  # what libraries say → what it means
    r"ACCESS_DENIED|AccessDenied|403|Forbidden|InvalidAccessKeyId|SignatureDoesNotMatch": "access denied",
    r"NO_SUCH_BUCKET|NoSuchBucket|NO_SUCH_KEY|404|does not exist|not found|FileNotFound": "no such bucket or file",
    r"NETWORK_CONNECTION|curlCode|Connection|timed? ?out|resolve host": "no connection",
    r"credentials": "no credentials",
    r"InternalError|INTERNAL_FAILURE|SERVICE_UNAVAILABLE|SlowDown|SLOW_DOWN|status:? 50[0-4]": "an error of the store",
}


def is_store(path: Any) -> bool:
    """Return whether this is the URL of a store that can be read and written."""
    return scheme_of(path) in STORES


@dataclass(frozen=True, repr=False)
class StoredFile:
    """A file in a store, with what tells whether it has changed."""

    path: str
    size: int
    changed: datetime | None  # None if the store does not tell


@dataclass(frozen=True, repr=False)
class Store:
    """A place in a store: its file system, and a path in it."""

    system: fs.FileSystem
    path: str  # without a slash at the end
    name: str  # of the scheme, for messages

    @classmethod
    def of(cls, url: str | Path) -> Store:
        """Return the place that a URL names; nothing is looked up yet."""
        scheme = scheme_of(url)
        text = re.sub(r"^\s*[^:]+:/+", "", str(url))  # a Path holds one slash of the two
        before = text.partition("/")[0].rpartition("@")[0]
        if before and (":" in before or scheme not in ("abfs", "abfss")):  # of Azure, it is the container
            raise OptionError(
                "The URL of a store must not have credentials.",
                found="credentials in it",
                fix="variables of the environment, such as AWS_ACCESS_KEY_ID, or a role of the machine",
            )
        system, path = without_cause(
            partial(_open, scheme, text), (OSError, pa.ArrowException, ValueError), partial(_failure, scheme)
        )
        return cls(system, path.rstrip("/"), scheme)

    def files(self) -> list[StoredFile]:
        """Return the file, the files of the pattern, or all files below the folder, in order of name."""
        base = _base(self.path)
        found = self._do(partial(self._look, base))
        if base != self.path:
            found = [one for one in found if _matches(one.path, self.path)]
        if not found:
            raise ReadError(f"There must be files at the URL of the {self.name} store.", found="none", fix="its path")
        return found

    def _look(self, base: str) -> list[StoredFile]:
        from pyarrow import fs

        info = self.system.get_file_info(base)
        if info.type == fs.FileType.File:
            infos = [info]
        elif info.type == fs.FileType.Directory:
            infos = self.system.get_file_info(fs.FileSelector(base, recursive=True))
        else:
            infos = []
        there = (one for one in infos if one.type == fs.FileType.File)
        return sorted((StoredFile(one.path, one.size, one.mtime) for one in there), key=lambda one: one.path)

    def copy_to(self, file: str, target: Path) -> None:
        """Copy a file of the store to this machine."""
        target.parent.mkdir(parents=True, exist_ok=True)

        def copy() -> None:
            with self.system.open_input_stream(file) as source, target.open("wb") as copied:
                while part := source.read(CHUNK):
                    copied.write(part)

        self._do(copy)

    def upload(self, file: Path, name: str) -> None:
        """Copy a file of this machine to a name below this place."""

        def copy() -> None:
            path = f"{self.path}/{name}"
            self.system.create_dir(posixpath.dirname(path), recursive=True)
            with file.open("rb") as source, self.system.open_output_stream(path) as copied:
                while part := source.read(CHUNK):
                    copied.write(part)

        self._do(copy)

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file below this place; None if there is none."""
        from pyarrow import fs

        def content() -> bytes | None:
            path = f"{self.path}/{name}"
            if self.system.get_file_info(path).type != fs.FileType.File:
                return None
            with self.system.open_input_stream(path) as file:
                return bytes(file.read())

        return self._do(content)

    def replace(self, name: str, content: bytes) -> None:
        """Replace a small file below this place in one step, or raise where the store cannot do that.

        It is written under another name and then moved: S3 and Google copy an object as a whole, and HDFS and Azure
        rename it.
        """

        def switch() -> None:
            waiting = f"{self.path}/.{name}.{secrets.token_hex(8)}"
            with self.system.open_output_stream(waiting) as file:
                file.write(content)
            try:
                self.system.move(waiting, f"{self.path}/{name}")
            except BaseException:
                self.system.delete_file(waiting)
                raise

        self._do(switch)

    def remove(self, name: str) -> None:
        """Remove a folder below this place."""
        self._do(lambda: self.system.delete_dir(f"{self.path}/{name}"))

    def below(self, *names: str) -> Store:
        """Return a place below this one."""
        return Store(self.system, "/".join((self.path, *names)), self.name)

    def _do(self, work: Callable[[], T]) -> T:
        return without_cause(work, (OSError, pa.ArrowException, NotImplementedError), partial(_failure, self.name))


def _open(scheme: str, text: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    from pyarrow import fs

    if scheme in ("s3", "s3a"):
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        patience = {"connect_timeout": PATIENCE.total_seconds() / 2, "request_timeout": 60.0}  # seconds
        retries = fs.AwsStandardS3RetryStrategy(max_attempts=3)
        place = {"endpoint_override": endpoint} if endpoint else {}
        return fs.S3FileSystem(**patience, **place, retry_strategy=retries), text
    if scheme in ("gs", "gcs") and hasattr(fs, "GcsFileSystem"):
        return fs.GcsFileSystem(retry_time_limit=PATIENCE), text
    if scheme == "hdfs":
        system, path = fs.FileSystem.from_uri(f"hdfs://{text}")
        return system, path
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        url_to_fs = None
    if url_to_fs is None:
        raise MissingExtra(f"The scheme {scheme} needs fsspec.", fix="pip install fsspec, with the store's package")
    system, path = url_to_fs(f"{scheme}://{text}")
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def _failure(name: str, error: Exception) -> SfumatoError:
    if isinstance(error, SfumatoError):
        return error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):  # of this machine: stores have none
        return ReadError(
            f"Files of the {name} store must have space on this machine.",
            found="no space left",
            fix="free space on the disk of temporary files, or another one by TMPDIR",
        )
    text = str(error)
    if isinstance(error, NotImplementedError) or "NotImplemented" in type(error).__name__:
        return OptionError(
            f"The {name} store must be able to replace a file in one step.",
            found="a store that cannot",
            fix="a folder of this machine, and copy it to its place",
        )
    if FULL.search(text):
        return ReadError(
            f"The {name} store must have space.",
            found="no space in the store, or a quota that is reached",
            fix="free space in the store, or a larger quota",
        )
    found = next((told for pattern, told in FAILURES.items() if re.search(pattern, text)), type(error).__name__)
    return ReadError(
        f"The {name} store must answer.",
        found=found,
        fix="the bucket and the path, and credentials and endpoint in the environment",
    )


def _base(path: str) -> str:
    """Return the part of a path above the first name that is a pattern."""
    parts = path.split("/")
    first = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return "/".join(parts[:first])


def _matches(path: str, pattern: str) -> bool:
    """Return whether a path fits a pattern, name by name; ``**`` stands for any folders."""
    if "**" in pattern:
        return fnmatch.fnmatchcase(path, pattern.replace("**/", "*"))
    parts, names = path.split("/"), pattern.split("/")
    return len(parts) == len(names) and all(map(fnmatch.fnmatchcase, parts, names))


_COPIES: dict[tuple[str, tuple[StoredFile, ...]], Path] = {}  # what this process has copied, until it ends


def local_copy(url: str | Path) -> Path:
    """Return a path, or a pattern, of this machine that reads like the URL; unchanged files are copied once."""
    store = Store.of(url)
    files = store.files()
    known = str(url), tuple(files)
    base = PurePosixPath(_base(store.path))
    above = base.parent if files[0].path == str(base) else base
    if known not in _COPIES:
        private = PrivateFolder.create("sfumato-store-")
        atexit.register(private.remove)
        for file in files:
            store.copy_to(file.path, private.path / PurePosixPath(file.path).relative_to(above))
        _COPIES[known] = private.path
    return _COPIES[known] / PurePosixPath(store.path).relative_to(above)


def size_at(url: str | Path) -> int:
    """Return the bytes of the files at a URL."""
    return sum(one.size for one in Store.of(url).files())


def current_release(store: Store) -> str | None:
    """Return the folder of the release that counts, below a place of a store; None if there is none."""
    content = store.read(CURRENT)
    if content is None:
        return None
    name = None
    try:
        name = json.loads(content)["folder"]
    except (ValueError, KeyError, TypeError):
        name = None
    if not isinstance(name, str) or not re.fullmatch(rf"{VERSIONS}/[0-9a-f]{{16}}", name):
        raise ReadError(f"{CURRENT} must name the folder of a release.", found="another content", fix="release again")
    return name


def publish(store: Store, names: Sequence[str], folder: Path) -> None:
    """Copy a bundle below a place of a store, make it the current release in one step, and remove the one before.

    Files that a killed writer left are in a folder of their own, which nobody reads. It is removed when it is old: a
    second release of the same people tells more than one.
    """
    before, version = current_release(store), f"{VERSIONS}/{secrets.token_hex(8)}"
    fresh = store.below(version)
    try:
        for name in names:
            fresh.upload(folder / name, name)
        store.replace(CURRENT, json.dumps({"folder": version}).encode())
    except BaseException:
        with contextlib.suppress(SfumatoError):
            store.remove(version)
        raise
    with contextlib.suppress(SfumatoError):  # the new release is in place, whatever becomes of the old ones
        for name in {*_abandoned(store), *([before] if before else [])} - {version}:
            store.remove(name)


def _abandoned(store: Store) -> Iterator[str]:
    """Yield the folders of releases in which nothing was written for a day, by the clock of the store."""
    newest: dict[str, datetime] = {}
    for file in store.below(VERSIONS).files():
        name = file.path.removeprefix(f"{store.path}/{VERSIONS}/").partition("/")[0]
        if file.changed is not None:
            newest[name] = max(newest.get(name, file.changed), file.changed)
    now = max(newest.values(), default=None)  # this writer has just written
    yield from (f"{VERSIONS}/{name}" for name, changed in newest.items() if now and now - changed > ABANDONED)
