"""Secret keys, and what is derived from them: pseudonyms of identifiers, and the shift of each person's dates.

A key is 256 bits from the operating system, in a file of its own that only its owner may read. It is never shown: not
in a repr, a log, an error, a manifest or a report.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import secrets
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import OptionError, ReadError
from sfumato.table.files import content, is_there, shown

KEY_BYTES = 32  # 256 bits
PSEUDONYM_BYTES = 10  # 80 bits
PSEUDONYM = re.compile(r"[a-z2-7]{16}")  # the same in base 32
HEAD = "sfumato key 1: "  # before the key in its file
OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, repr=False)
class SecretKey:
    """A key for HMAC-SHA-256."""

    _secret: bytes

    @classmethod
    def random(cls) -> SecretKey:
        """Return a new key that is kept nowhere."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def create(cls, path: str | Path) -> SecretKey:
        """Make a new key and write it to a new file that only its owner may read."""
        file, reason = Path(path).expanduser(), ""
        new = cls.random()
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as out:
                out.write(f"{HEAD}{new._secret.hex()}\n")
                out.flush()
                os.fsync(out.fileno())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "its name is not valid"
        if reason:
            raise OptionError(f"The key cannot be written to {shown(file)}: {reason}.", fix="another file")
        return new

    @classmethod
    def read(cls, path: str | Path) -> SecretKey:
        """Read the key in a file; others must not be able to read it."""
        file = Path(path).expanduser()
        text = content(file).decode("ascii", errors="replace").strip()
        if os.name == "posix" and file.stat().st_mode & OTHERS:
            raise ReadError(
                f"Nobody else may read the key file {shown(file)}.",
                found=f"mode {stat.S_IMODE(file.stat().st_mode):o}",
                fix="chmod 600, and a new key if others may have read it",
            )
        if not re.fullmatch(f"{HEAD}[0-9a-f]{{{2 * KEY_BYTES}}}", text):
            raise ReadError(f"{shown(file)} must be a key file that sfumato made.", found="something else")
        return cls(bytes.fromhex(text.removeprefix(HEAD)))

    def digest(self, purpose: str, value: str) -> bytes:
        """Return HMAC-SHA-256 of a value; digests for different purposes say nothing about each other."""
        return hmac.digest(self._secret, f"{purpose}\0{value}".encode(), "sha256")

    def __repr__(self) -> str:
        return "SecretKey(…)"

    def __reduce__(self) -> tuple[type, tuple[()]]:
        raise TypeError("a secret key is not copied to other processes or files")


def is_key_there(path: str | Path) -> bool:
    """Return whether there is a file for the key."""
    return is_there(Path(path).expanduser())


def make_pseudonyms(cells: pa.ChunkedArray, key: SecretKey) -> pa.Array:
    """Return the pseudonym of each identifier, 80 bits in base 32; a missing identifier stays missing.

    The same identifier gets the same pseudonym wherever the key is the same, as a number or as text.
    """
    people = distinct_people(cells)
    digests = (key.digest("pseudonym", person)[:PSEUDONYM_BYTES] for person in people.names)
    texts = pa.array([base64.b32encode(digest).decode().lower() for digest in digests], pa.string())
    return texts.take(pa.array(people.codes, mask=people.codes < 0))


def day_shifts(cells: pa.ChunkedArray, key: SecretKey, days: int) -> np.ndarray:
    """Return the number of days by which the dates of each row are shifted: the same for all rows of a person.

    It is uniform over −days … days without 0. A row without an identifier is shifted for itself, by chance.
    """
    people = distinct_people(cells)
    digests = [key.digest(f"shift of dates by {days}", person) for person in people.names]
    digests += [secrets.token_bytes(KEY_BYTES) for _ in range(int((people.codes < 0).sum()))]
    # 256 random bits modulo 2·days: no outcome is likelier than another by more than 2⁻²⁴⁰
    numbers = np.array([int.from_bytes(digest) % (2 * days) - days for digest in digests], dtype=np.int64)
    numbers = numbers + (numbers >= 0)
    places = people.codes.copy()
    places[places < 0] = len(people.names) + np.arange(int((places < 0).sum()))
    return numbers[places] if numbers.size else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, repr=False)
class People:
    """The different identifiers of a column as texts, and the number of each row's; −1 if it is missing."""

    names: list[str]
    codes: np.ndarray


def distinct_people(cells: pa.ChunkedArray) -> People:
    """Return the people that a column of identifiers tells apart; 7, 7.0 and "7" are the same."""
    if pt.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if pt.is_floating(cells.type):
        numbers = cells.drop_null().to_numpy()
        cells = cells.cast(pa.int64()) if (numbers == np.rint(numbers)).all() else cells
    texts = cells.cast(pa.string()).combine_chunks()
    unique = texts.unique().drop_null()
    names = [unicodedata.normalize("NFC", text) for text in unique.to_pylist()]
    same = {name: number for number, name in enumerate(dict.fromkeys(names))}
    numbers = np.array([same[name] for name in names], dtype=np.int64)
    codes = pc.fill_null(pc.index_in(texts, value_set=unique), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return People(list(same), np.where(codes >= 0, numbers[codes], -1) if numbers.size else codes)


def collision_probability(people: int) -> float:
    """Return the probability that any two of so many people would have got the same pseudonym: at most n(n−1)/2⁸¹."""
    return min(1.0, people * (people - 1) / 2.0 ** (8 * PSEUDONYM_BYTES + 1))
