"""The base class of all methods, options with one verb, ``release``, and the registry of all methods.

    survey → Method.plan → Plan.route → Plan.transform → rows

A method asks a survey and makes a plan. It is written once and does not depend on an engine. A method of this package
is one line in ``BUILT_IN``; another package adds one by an entry point of the group ``sfumato.methods``, whose name is
the method's and whose object is its class. Nothing is imported before it is used.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from sfumato.errors import CannotRelease, OptionError, warn
from sfumato.params import check_options, options_of, with_options
from sfumato.plan.questions import Answers, Distinct, DistinctIn
from sfumato.schema.columns import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.engines.base import Engine
    from sfumato.plan.plan import Plan
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.release.privacy_budget import PrivacyBudget
    from sfumato.release.release import Release
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Options of an anonymization method, checked when it is created."""

    name: ClassVar[str]  # in the registry and on the command line, e.g. "boxes"
    theory: ClassVar[str] = ""  # page of docs/theory that says what the method claims, from which source
    manifest_notes: ClassVar[Mapping[str, str]] = {}  # names that the plan's notes may contain, with their meanings
    one_row_per_person: ClassVar[bool] = False  # whether each released row corresponds to exactly one input row
    is_private: ClassVar[bool] = False  # whether nothing but noisy measurements may depend on a cell
    block_effect: ClassVar[str] = (
        ""  # how a release in blocks differs from one in memory; "": the docs say what is seen
    )

    def __init_subclass__(cls, **options: Any) -> None:
        """Add the declared options to the docstring."""
        super().__init_subclass__(**options)
        cls.__doc__ = with_options(cls.__dict__.get("__doc__") or "", cls)

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def needs_whole_table(self) -> bool:
        """Whether these options need the whole table at once, so that an engine must not plan from a sample."""
        return False

    @abstractmethod
    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> Plan:
        """Make the plan, from the survey alone."""

    def release(
        self,
        table: Any,
        *,
        schema: Schema | Mapping[str, Any] | str | Path | None = None,
        seed: int | None = None,
        engine: str | Engine = "auto",
        into: Any = None,
        key: str | Path | None = None,
        rows_not_people: bool = False,
        ledger: str | Path | None = None,
        budget: PrivacyBudget | str | Path | None = None,
    ) -> Release:
        """Anonymize a table and verify every promise on the released rows.

        Parameters
        ----------
        table : Table, path or data frame
            A :class:`sfumato.Table`, the path of a file, or a data frame (pandas, polars, Arrow, a mapping of columns).
            Or :class:`sfumato.LinkedTables`, several tables of the same people.
        schema : Schema, mapping or path, optional
            A :class:`sfumato.Schema`, a mapping from column to role, or the path of a schema file. Columns that it does
            not name get a suggested role. Default: all roles are suggested, which gives a :class:`SfumatoWarning`. For
            linked tables, a mapping from table to such a schema.
        seed : int, optional
            Seed that makes the released rows repeatable, for tests only. It is a secret, and a warning says so: whoever
            knows it can undo the random parts of the release. The order of the rows and the numbers of boxes never
            depend on it. Default: random numbers from the operating system.
        engine : str or Engine, default "auto"
            Engine that runs the method, such as "memory". "auto" chooses one that fits the table.
        into : path, optional
            Folder to write the release to; either all files are written or none. Default: nothing is written.
        key : str or Path, optional
            File with the secret key of pseudonyms and shifted dates, if the schema asks for them. It is made if it does
            not exist, for its owner only. Keep it apart from the release. The same key links tables of the same people.
        rows_not_people : bool, default False
            Whether promises may count rows although people have several of them. By default a table whose removed
            identifier repeats is refused, because k rows may then be those of fewer than k people. The manifest and the
            report say that rows were counted.
        ledger : str or Path, optional
            Private file that knows what earlier releases told about whom; it is made if it does not exist, with a key
            beside it. At least k people then fit each person in all releases of the ledger that she is in. It needs
            a column with the role "person", and ``into``. Default: this release stands alone.
        budget : PrivacyBudget, str or Path, optional
            Privacy budget that a differentially private release is paid from, or its file; see
            :class:`sfumato.PrivacyBudget`. Default: this release stands alone.

        Returns
        -------
        Release
            The released rows with their manifest; for linked tables a :class:`sfumato.LinkedRelease`.

        Raises
        ------
        PromiseError
            If a promise does not hold on the released rows. Nothing is written then.
        """
        from sfumato.job.release import release

        given: dict[str, Any] = {"schema": schema, "engine": engine, "into": into, "key": key, "seed": seed}
        given |= {} if budget is None else {"budget": budget}
        return release(self, table, rows_not_people=rows_not_people, ledger=ledger, **given)


GROUP = "sfumato.methods"  # of entry points
CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")  # where a word begins in the name of a class


class Place(NamedTuple):
    """Where a method is defined."""

    module: str
    class_name: str


BUILT_IN = {
    "boxes": Place("sfumato.methods.boxes.method", "Boxes"),
    "mdav": Place("sfumato.methods.microaggregate.method", "Microaggregate"),
    "noise": Place("sfumato.methods.noise", "Noise"),
    "pram": Place("sfumato.methods.pram", "Pram"),
    "private-boxes": Place("sfumato.methods.private_boxes.method", "PrivateBoxes"),
    "private-sample": Place("sfumato.methods.private_sample", "PrivateSample"),
    "private-synthesis": Place("sfumato.methods.private_synthesis.method", "PrivateSynthesis"),
    "recode": Place("sfumato.methods.recode.method", "Recode"),
    "shuffle": Place("sfumato.methods.shuffle", "Shuffle"),
    "suppress": Place("sfumato.methods.suppress", "Suppress"),
    "swap": Place("sfumato.methods.swap", "Swap"),
    "synthesize": Place("sfumato.methods.synthesize.method", "Synthesize"),
    "top-bottom": Place("sfumato.methods.top_bottom", "TopBottom"),
    "generalize": Place("sfumato.methods.generalize.method", "Generalize"),
    "optimal-groups": Place("sfumato.methods.optimal_groups", "OptimalGroups"),
    "quantiles": Place("sfumato.methods.quantiles", "Quantiles"),
    "safe-harbor": Place("sfumato.methods.safe_harbor.method", "SafeHarbor"),
    "rhs": Place("sfumato.methods.spectral.histograms", "RecursiveHistogram"),
    "spectral-rhs": Place("sfumato.methods.spectral.histograms", "SpectralHistogram"),
    "curves": Place("sfumato.methods.spectral.curves", "Curves"),
    "pica": Place("sfumato.methods.spectral.pica", "PartitionedIca"),
    "svd-swap": Place("sfumato.methods.spectral.svd_swap", "SvdSwap"),
}


def _find_added() -> dict[str, Place]:
    """Return the methods of other packages; none replaces a method of this one, or of a package found before."""
    added: dict[str, Place] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.value):
        if point.name in BUILT_IN or point.name in added:
            warn(f"There is already a method {point.name!r}; that of {point.module!r} is not used.")
        else:
            added[point.name] = Place(point.module, point.attr)
    return added


METHODS = BUILT_IN | _find_added()


def method_class(name: str) -> type[Method]:
    """Return the class of the method with this name; the name of the class is accepted too, also in kebab case."""
    by_class = {place.class_name: method_name for method_name, place in reversed(METHODS.items())}  # the first is used
    by_class |= {CAPITAL.sub("-", word).lower(): method_name for word, method_name in by_class.items()}
    name = name if name in METHODS else by_class.get(name, name)
    if name not in METHODS:
        near = get_close_matches(name, [*METHODS, *by_class], n=1)
        fix = f"{near[0]!r}; `sfumato methods` lists them" if near else "`sfumato methods` lists them"
        raise OptionError(f"There is no method {name!r}.", found=f"methods {', '.join(METHODS)}", fix=fix)
    place = METHODS[name]
    kind: type[Method] = getattr(import_module(place.module), place.class_name)
    return kind


def make_method(name: str, **options: Any) -> Method:
    """Create the method with these options; raise if an option is unknown, or if a required one is not given."""
    method = method_class(name)
    known = {option.name: option for option in options_of(method)}
    for given in options:
        if given not in known:
            near = get_close_matches(given, known, n=1)
            fix = f"`sfumato methods {name}` explains them"
            raise OptionError(
                f"The method {name!r} has no option {given!r}.",
                found=f"options {', '.join(known)}",
                fix=f"{near[0]!r}; {fix}" if near else fix,
            )
    for option in known.values():
        if option.is_required and option.name not in options:
            usual = option.declared.strengths[1:2] or ("VALUE",)
            raise OptionError(
                f"The method {name!r} needs a value for {option.name!r}.",
                found="no value",
                fix=f"--{option.name} {usual[0]}, or in Python {option.name}={usual[0]}",
            )
    return method(**options)


def require_rows(rows: int, k: int | None) -> None:
    """Raise if there are fewer than k rows."""
    if k is not None and rows < k:
        raise CannotRelease(f"The table must have at least k = {k:,} rows.", found=f"{rows:,} rows", fix="a smaller k")


# How many values of a sensitive column each group needs: the default of ℓ, and whether it can be afforded.


DEFAULT_L = 2  # default ℓ if there is a sensitive column
AFFORDABLE = 0.5  # the default ℓ must allow at least this share of the groups that k alone allows
MOST_FREQUENT = 1000  # most frequent values of a sensitive column that are counted for this check


def default_questions(l: int | None, schema: Schema) -> list[DistinctIn]:
    """Return the survey questions about the sensitive columns that are needed if ℓ is not given."""
    return [DistinctIn(name, MOST_FREQUENT) for name in schema.names(Role.SENSITIVE)] if l is None else []


def choose_l(l: int | None, k: int, rows: int, schema: Schema, answers: Answers) -> int:
    """Return ℓ as given or, by default, 2 if there is a sensitive column and 1 otherwise.

    Raise if the default would cost too much: every group then needs a record without the most common value of a
    sensitive column, so there cannot be more groups than such records.
    """
    if l is not None:
        return l
    for asked in default_questions(l, schema):
        _require_affordable(asked.column, answers[asked], rows, k)
    return DEFAULT_L if schema.names(Role.SENSITIVE) else 1


def require_enough_values(l: int, schema: Schema, table: Table) -> None:
    """Raise if a sensitive column of the whole table has fewer than ℓ values; a missing one is a value."""
    for name in schema.names(Role.SENSITIVE):
        values = table.coded(name).size
        if values < l:
            raise CannotRelease(
                f"l = {l} needs at least {l} different values of {name!r}.",
                found=f"{values}",
                fix=f"--l {max(values, 1)}, or another role for {name!r}",
            )


def _require_affordable(name: str, distinct: Distinct, rows: int, k: int) -> None:
    uncommon = rows - int(distinct.counts.max(initial=0))
    wanted = rows // k
    if uncommon >= AFFORDABLE * wanted:
        return
    alone, two, more = _shares_by_values(distinct.counts, rows, k)
    raise CannotRelease(
        f"With l = {DEFAULT_L}, the default for a sensitive column, every group must have two values of {name!r}. This "
        "would make groups very large.",
        found=f"at most {uncommon:,} groups instead of about {wanted:,}, because only {uncommon:,} of {rows:,} rows "
        f"differ from its most common value; without l, about {alone:.0%} of the people would be in a group with 1 "
        f"value, {two:.0%} with 2 and {more:.0%} with more",
        fix=f"l=1 (--l 1), which does not protect {name!r} within a group, or another role for {name!r}",
    )


def _shares_by_values(counts: NDArray[np.int64], rows: int, k: int) -> tuple[float, float, float]:
    """Estimate the shares of people in groups of k random records with 1, 2 and more different values."""
    rest = rows - int(counts.sum())  # rows whose values are too rare to be listed
    shares = np.append(counts, rest) / rows
    drawn = np.random.default_rng(0).multinomial(k, shares / shares.sum(), 4096)
    values = (drawn > 0).sum(axis=1)
    return float((values == 1).mean()), float((values == 2).mean()), float((values > 2).mean())
