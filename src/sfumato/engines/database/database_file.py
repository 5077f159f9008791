"""Databases in files: a new file appears only with the table that was to be written into it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sfumato.engines.database.driver import Driver
from sfumato.errors import ReadError, RequestError, SfumatoError


@dataclass(frozen=True, repr=False)
class DatabaseFile(Driver):
    """A database in a file."""

    product: ClassVar[str]  # what makes such files
    path: Path

    def _replace_error(self, error: Exception) -> SfumatoError:
        message = f"{self.product} could not do this in {self.path.name}."
        if isinstance(error, OSError):
            return RequestError(message, found=error.strerror or type(error).__name__, fix="another file")
        return self._describe_error(message, error)

    @abstractmethod
    def _describe_error(self, message: str, error: Exception) -> SfumatoError:
        """Return the error with this message for an error of the library."""

    @abstractmethod
    def _connect(self, path: Path, *, writing: bool) -> Any:
        """Return a connection to a file; it must be closed."""

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        return self._do(lambda connection: list(connection.execute(query, values).fetchall()))

    @contextlib.contextmanager
    def _connected(self, *, writing: bool = False) -> Iterator[Any]:
        if not writing and not self.path.is_file():  # a library would make an empty one
            raise ReadError(f"There is no file {self.path.name!r}.", fix="check the path")
        place = contextlib.nullcontext(self.path) if self.path.exists() else self._new_file()
        with place as path, contextlib.closing(self._connect(path, writing=writing)) as connection:
            yield connection

    @contextlib.contextmanager
    def _new_file(self) -> Iterator[Path]:
        """Yield a path in a private folder; the file that is made there is put in place if nothing fails.

        So neither an error nor a kill leaves an empty database, and of two runs that make the same file one fails.
        """
        folder = Path(tempfile.mkdtemp(prefix=f".{self.path.name}-", dir=self.path.parent))
        made = folder / self.path.name
        try:
            yield made
            self._put_in_place(made)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _put_in_place(self, made: Path) -> None:
        exists = False
        try:
            os.link(made, self.path)  # unlike a rename, it replaces nothing
        except FileExistsError:
            exists = True
        except OSError:  # a disk without links
            exists = self.path.exists()
            if not exists:
                made.rename(self.path)
        if exists:
            raise RequestError(
                f"The database {self.path.name!r} must not be made by another process at the same time.",
                found="a file that was not there at the start",
                fix="try again",
            )
