"""The privacy budget: a private file of the custodian that adds up what releases about the same people have cost.

Costs are in zCDP (:mod:`sfumato.plan.claims.concentrated_privacy`) and add up; the sum is held against one (ε, δ). A
release is paid for before anything is computed from its rows, and stays paid for if it fails later: otherwise whoever
could make releases fail would see more of them than were paid for. The file is for its owner only, is replaced as a
whole, and has a checksum, so that a damaged file is not taken for an unspent budget.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import secrets
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import CannotRelease, OptionError, ReadError
from sfumato.params import is_finite, require_number, require_probability
from sfumato.plan.claims.concentrated_privacy import delta_of, epsilon_of
from sfumato.plan.plan import format_count
from sfumato.schema.pseudonyms import require_private

if TYPE_CHECKING:
    from sfumato.plan.claims.concentrated_privacy import MeasuredPrivacy

DELTA = 1e-6
HEAD = """\
# Privacy budget of sfumato: what releases about the same people have cost so far. Private: keep it, and keep one.
# rho: zCDP of each release; chance: part of delta with which categories that were found may show a single person.
"""


@dataclass(frozen=True)
class BudgetAccount:
    """What a budget allows in all, and what each release has cost."""

    epsilon: float
    delta: float
    rho: tuple[float, ...] = ()
    chance: tuple[float, ...] = ()

    def allows(self, cost: MeasuredPrivacy) -> bool:
        """Return whether all releases and one of this cost are within (ε, δ) together."""
        rho, chance = math.fsum((*self.rho, cost.rho)), math.fsum((*self.chance, cost.chance))
        return delta_of(rho, self.epsilon) + chance <= self.delta

    def spend(self, cost: MeasuredPrivacy) -> BudgetAccount:
        """Return the budget after one more release."""
        return BudgetAccount(self.epsilon, self.delta, (*self.rho, cost.rho), (*self.chance, cost.chance))

    @property
    def spent(self) -> float:
        """The ε of all releases together, at this δ; infinite if chance has used δ up."""
        left = self.delta - math.fsum(self.chance)
        return epsilon_of(math.fsum(self.rho), left) if left > 0.0 else math.inf

    def to_text(self) -> str:
        """Return the content of the file."""
        body = f"format = 1\nepsilon = {self.epsilon!r}\ndelta = {self.delta!r}\n"
        body += f"rho = {list(self.rho)!r}\nchance = {list(self.chance)!r}\n"
        return f'{HEAD}{body}sha256 = "{hashlib.sha256(body.encode()).hexdigest()}"\n'

    @classmethod
    def from_text(cls, text: str) -> BudgetAccount:
        """Read the content of a file; raise if it is damaged or something else."""
        try:
            content: dict[str, Any] = tomllib.loads(text)
            read = cls(content["epsilon"], content["delta"], tuple(content["rho"]), tuple(content["chance"]))
            is_whole = all(is_finite(one) and one >= 0.0 for one in (*read.rho, *read.chance))
            if is_whole and len(read.rho) == len(read.chance) and read.to_text() == text:
                return read
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError):
            pass
        raise ReadError(
            "The budget must be as it was written.",
            found="a damaged budget, or another file",
            fix="a copy of it; without one, count what was released and begin a new budget with the rest",
        )


@dataclass(frozen=True, init=False, repr=False)
class PrivacyBudget:
    """The privacy budget of a group of people: one (ε, δ) for all releases about them.

    Pass it to the ``release`` of a differentially private method. Costs are added up in zCDP, so that ten releases
    cost less than ten times one. A release that would exceed the budget is refused before anything is computed.

    Parameters
    ----------
    path : str or Path
        Private file with what was spent. It is made if it does not exist, for its owner only; keep it apart from the
        releases, and never copy it: each copy would count releases of its own.
    epsilon : float, optional
        Privacy loss ε of all releases together, above 0. It must be given for a new file, and be the same later.
    delta : float, optional
        Probability δ with which the factor e^ε may be exceeded. Default: 1e-6 for a new file.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"age": np.random.default_rng(0).uniform(0, 100, 500)}
    >>> schema = {"age": {"role": "quasi", "domain": [0, 100]}}
    >>> budget = sf.PrivacyBudget("budget.toml", epsilon=2.0, delta=1e-5)
    >>> release = sf.PrivateBoxes(epsilon=1.0).release(people, schema=schema, budget=budget)
    >>> budget.releases, round(budget.spent, 2)
    (1, 0.88)
    """

    path: Path

    def __init__(self, path: str | Path, *, epsilon: float | None = None, delta: float | None = None) -> None:
        object.__setattr__(self, "path", Path(path).expanduser().absolute())
        if epsilon is not None:
            require_number(epsilon, name="epsilon", above=0.0)
        if delta is not None:
            require_probability(delta, name="delta")
        if not self.path.exists():
            if epsilon is None:
                raise OptionError(
                    "A new budget needs its epsilon.",
                    found=f"no file {self.path.name} and no epsilon",
                    fix="sf.PrivacyBudget(FILE, epsilon=5.0); on the command line --budget-epsilon 5",
                )
            _create(self.path, BudgetAccount(float(epsilon), DELTA if delta is None else float(delta)))
        state = self.state
        given = {"epsilon": (epsilon, state.epsilon), "delta": (delta, state.delta)}
        other = [name for name, (asked, known) in given.items() if asked is not None and float(asked) != known]
        if other:
            raise OptionError(
                "A budget stays as it was begun.",
                found=f"another {' and '.join(other)} than in {self.path.name}",
                fix=f"epsilon={state.epsilon:g}, delta={state.delta:g}, or leave them out",
            )

    def __repr__(self) -> str:
        state = self.state
        spent = f"epsilon {state.spent:.3g} of {state.epsilon:g} spent"
        return f"PrivacyBudget({self.path.name}: {spent} on {format_count(len(state.rho), 'release')})"

    @property
    def state(self) -> BudgetAccount:
        """What the file says now."""
        require_private(self.path, "the budget", f"chmod 600 {self.path.name}")
        return BudgetAccount.from_text(_read(self.path))

    @property
    def epsilon(self) -> float:
        """Privacy loss ε that all releases together may have."""
        return self.state.epsilon

    @property
    def delta(self) -> float:
        """Probability δ of all releases together."""
        return self.state.delta

    @property
    def releases(self) -> int:
        """Number of releases so far."""
        return len(self.state.rho)

    @property
    def spent(self) -> float:
        """Privacy loss ε of all releases so far, at the budget's δ."""
        return self.state.spent

    def pay(self, cost: MeasuredPrivacy) -> None:
        """Add the cost of a release that is about to be made; raise, and add nothing, if it would be too much."""
        with _lock(self.path):
            state = self.state
            if not state.allows(cost):
                raise CannotRelease(
                    f"All releases of the budget must stay within epsilon {state.epsilon:g} and delta {state.delta:g}.",
                    found=f"epsilon {state.spent:.3g} spent on {format_count(len(state.rho), 'release')}, and another "
                    f"of epsilon {cost.epsilon:g}",
                    fix="a smaller epsilon for this release; what was spent cannot be had back",
                )
            _replace(self.path, state.spend(cost))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        pass
    raise ReadError("The budget must be a file that can be read.", found="something else")


def _create(path: Path, state: BudgetAccount) -> None:
    reason = ""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(state.to_text().encode())
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        reason = error.strerror or type(error).__name__
    if reason:
        raise OptionError("The budget must be in a folder that can be written to.", found=reason, fix="another path")


def _replace(path: Path, state: BudgetAccount) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _create(beside, state)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock of a budget. A file that another release has replaced meanwhile is opened again."""
    try:
        import fcntl
    except ImportError:  # another system: two runs at once are not noticed
        yield
        return
    while True:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                yield
                return
