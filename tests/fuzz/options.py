"""Options of a method at random: from their declared ranges, and sensible or nasty ones where a range is free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow.types as pt

import sfumato as sf
from sfumato.methods.base import METHODS, make_method, method_class
from sfumato.params import Checked, Choice, Flag, NamedOption, Number, OrNone, Probability, Share, Whole, options_of
from tests.fuzz.tables import TRACER, Original, original

# methods whose rows are those of people; others release nothing but noise (tests/conformance/test_private_methods.py)
METHOD_NAMES = tuple(name for name in sorted(METHODS) if not method_class(name).is_private)
LARGER_SHARE = {"boxes": 4.0, "generalize": 1.5}  # how much more often a method is tried than the others


def made_method(numbers: np.random.Generator, original: Original) -> tuple[str, dict[str, Any]]:
    """Choose a method and its options for a table."""
    shares = np.array([LARGER_SHARE.get(name, 1.0) for name in METHOD_NAMES])
    name = str(numbers.choice(METHOD_NAMES, p=shares / shares.sum()))
    options: dict[str, Any] = {}
    change = float(numbers.choice([0.0, 0.15, 0.4]))  # many options at once are mostly refused
    for option in options_of(method_class(name)):
        if option.is_required or numbers.random() < change or option.name in ALWAYS:
            value = _value(numbers, option, original)
            if value is not None or option.is_required:
                options[option.name] = value
    if "overlap" in options and "search" not in options:
        options["search"] = sf.SearchBudget(rounds=1)
    if name == "boxes" and "keep" in options and numbers.random() < 0.3:
        options[str(numbers.choice(["importance", "accuracy"]))] = [2.0] * len(options["keep"])
    if name == "recode":
        options.pop("population", None)  # a table, not a number
    if options.get("decoding") == "distribution":
        del options["decoding"]  # its columns are named by values of five rows or more: tests of its own judge that
    if name == "quantiles" and "k" not in options and "buckets" not in options:
        options["k"] = 2
    if name == "quantiles" and "buckets" in options:
        options.pop("k", None)
    return name, options


def made_options(seed: int) -> tuple[str, dict[str, Any]]:
    """The method and the options of a seed."""
    return made_method(np.random.default_rng([77, seed]), original(seed))


def build(name: str, options: Mapping[str, Any]) -> Any:
    """Make the method."""
    return make_method(name, **options)


def numeric_names(original: Original, *roles: str) -> list[str]:
    """Names of the columns of numbers, of these roles if any are given."""
    found = [
        name
        for name, cells in original.cells.items()
        if (pt.is_integer(cells.type) or pt.is_floating(cells.type) or pt.is_decimal(cells.type) or _is_date(cells))
        and name != TRACER
    ]
    return [name for name in found if not roles or original.roles.get(name) in roles]


def quoted(name: str) -> str:
    """A name as statistics write it."""
    return "`" + name.replace("`", "``") + "`"


def _is_date(cells: Any) -> bool:
    return bool(pt.is_date(cells.type) or pt.is_timestamp(cells.type))


def _value(numbers: np.random.Generator, option: NamedOption, original: Original) -> Any:
    declared = option.declared.range
    is_free = isinstance(declared.range if isinstance(declared, OrNone) else declared, Checked)
    if option.name in SPECIAL and (is_free or option.name not in ("epsilon", "keep", "search")):  # two meanings
        return SPECIAL[option.name](numbers, original)
    return _in_range(numbers, declared, original)


def _in_range(numbers: np.random.Generator, range_: Any, original: Original) -> Any:
    if isinstance(range_, OrNone):
        return None if numbers.random() < 0.2 else _in_range(numbers, range_.range, original)
    if isinstance(range_, Choice):
        return str(numbers.choice(range_.choices))
    if isinstance(range_, Flag):
        return bool(numbers.random() < 0.5)
    if isinstance(range_, Whole):
        return int(numbers.choice([range_.at_least, range_.at_least + 1, 5, 20, max(original.rows, range_.at_least)]))
    if isinstance(range_, Share):
        return float(numbers.choice([0.0, 0.02, 0.3, 1.0]))
    if isinstance(range_, Probability):
        return float(numbers.choice([1e-9, 0.05, 0.5, 0.999]))
    if isinstance(range_, Number):
        bound = range_.above if range_.above is not None else range_.at_least or 0.0
        return bound + float(numbers.choice([1e-6, 0.1, 1.0, 50.0]))
    return None


def _k(numbers: np.random.Generator, original: Original) -> int:
    rows = original.rows
    wanted = int(numbers.choice([2, 3, 5, 10, rows // 2, rows, rows + 1], p=[0.3, 0.3, 0.2, 0.08, 0.06, 0.04, 0.02]))
    return max(2, wanted)


def _keep(numbers: np.random.Generator, original: Original) -> list[str] | None:
    names = [quoted(name) for name in numeric_names(original, "quasi")]
    if not names:
        return None
    x, y = (str(name) for name in numbers.choice(np.array(names, dtype=object), 2))
    forms = [f"mean({x})", f"var({x})", f"sd({y})", f"mean({y})", f"corr({x}, {y})", f"cov({x}, {y})"]
    forms += [f"regress({y} ~ {x})"] if x != y else []
    return [str(form) for form in numbers.choice(forms, int(numbers.integers(1, 3)), replace=False)]


def _search(numbers: np.random.Generator, original: Original) -> Any:
    if numbers.random() < 0.5 or original.rows > 200:
        return None
    return 0.02 if numbers.random() < 0.3 else sf.SearchBudget(rounds=int(numbers.integers(1, 3)))


def _by_column(numbers: np.random.Generator, original: Original, choices: list[float]) -> Any:
    names = numeric_names(original, "quasi")
    if not names or numbers.random() < 0.3:
        return float(numbers.choice(choices))
    return {str(numbers.choice(np.array(names, dtype=object))): float(numbers.choice(choices))}


def _domain(numbers: np.random.Generator, original: Original) -> Any:
    names = [name for name in numeric_names(original, "quasi") if not _is_date(original.cells[name])]
    return {names[0]: (-1e6, 1e6)} if names else None


def _rules(numbers: np.random.Generator, original: Original) -> tuple[str, ...]:
    names = [quoted(name) for name in numeric_names(original, "quasi") if "`" not in name]
    if not names or numbers.random() < 0.5:
        return ()
    x, y = (str(name) for name in numbers.choice(np.array(names, dtype=object), 2))
    return (f"{x} matters {numbers.choice(['most', 'little', 'not'])} when {y} is {numbers.choice(['high', 'low'])}",)


def _population(numbers: np.random.Generator, original: Original) -> int | None:
    return int(numbers.choice([original.rows, 10 * original.rows, 10**6])) if numbers.random() < 0.5 else None


def _answers(numbers: np.random.Generator, original: Original) -> dict[str, str] | None:
    """Answer every question: a table with a doubtful column is refused otherwise."""
    released = [name for name in original.columns if original.roles.get(name) != "identifier"]
    return dict.fromkeys(released, "keep" if numbers.random() < 0.7 else "remove") if numbers.random() < 0.8 else None


def _logs(numbers: np.random.Generator, original: Original) -> Any:
    names = numeric_names(original)
    return tuple(names[:1]) if names and numbers.random() < 0.4 else str(numbers.choice(["auto", "never"]))


def _some_names(numbers: np.random.Generator, original: Original) -> tuple[str, ...]:
    released = [name for name in original.columns if original.roles.get(name) != "identifier"]
    return tuple(released[:1]) if numbers.random() < 0.5 else ()


Special = Callable[[np.random.Generator, Original], Any]
SPECIAL: dict[str, Special] = {
    "k": _k,
    "l": lambda numbers, original: [None, 1, 2, 3][int(numbers.integers(4))],
    "keep": _keep,
    "search": _search,
    "epsilon": lambda numbers, original: _by_column(numbers, original, [0.0, 0.1, 5.0]),
    "snap": lambda numbers, original: _by_column(numbers, original, [0.1, 1.0, 1000.0]),
    "domain": _domain,
    "rules": _rules,
    "population": _population,
    "answers": _answers,
    "logs": _logs,
    "classes": _some_names,
    "given": _some_names,
    "beta": lambda numbers, original: float(numbers.choice([0.01, 0.1, 0.3, 0.9])),
    "cluster_size": lambda numbers, original: int(numbers.choice([2, 10, 50, 200])),
    "floor": lambda numbers, original: int(numbers.choice([2, 5, 50])),
    "sample": lambda numbers, original: int(numbers.choice([1, 10, 1000])),
    "others": lambda numbers, original: float(numbers.choice([0.0, 0.1, 3.0])),
    "histories": lambda numbers, original: None,  # those that the names of columns show
    "household": lambda numbers, original: None,  # needs targeted exchanges of columns
    "imputations": lambda numbers, original: None,  # one table: the checks count each row once
    "year": lambda numbers, original: int(numbers.choice([1900, 2026])),
}
ALWAYS = ("answers", "k")  # options without which too many tables would be refused, or the method would be one only
