"""``sfumato warm``: compile the kernels beforehand, so that the first release of a large table need not wait."""

from __future__ import annotations

import time
import warnings
from typing import Any

import typer

from sfumato.cli import console

ROWS = 300  # the released table is small, because the kernels that it compiles serve tables of any size
NUMBERS = 3  # numeric columns of it
OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {  # for which a method calls other kernels, or releases such rows
    "boxes": ({"keep": ["corr(x0, x1)", "regress(x0 ~ x1 + x2)"]}, {"l": 2}, {"search": 0.1}),
    "mdav": ({}, {"kind": "tree"}, {"kind": "search", "search": 0.1}),
    "quantiles": ({"k": 5, "l": 1},),
    "optimal-groups": ({"l": 1},),
    "curves": ({"l": 1},),
}


def warm(
    *,
    method: list[str] = typer.Option([], "--method", help="Compile only what this method needs; may be repeated."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compile the kernels that large tables need, and keep them.

    Small tables are released without compiling anything. For large ones the kernels are compiled once for each
    installation, and kept next to it or in the folder NUMBA_CACHE_DIR. This command does that beforehand, for example
    when a container is built or before the executors of a cluster start. It releases a small table of random numbers
    by each method, and estimates a correlation and a regression.

    Example: sfumato warm --method boxes
    """
    from sfumato.kernels.jit import always_compiled
    from sfumato.methods.base import METHODS, method_class

    console.say_compiling()
    names = [method_class(name).name for name in method] or list(METHODS)
    variants = [(name, options) for name in names for options in OPTIONS.get(name, ({},))]
    started, seconds = time.process_time(), dict.fromkeys(names, 0.0)
    with always_compiled(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the random table
        for name, options in variants:
            begun = time.process_time()
            _release(name, options)
            seconds[name] += time.process_time() - begun
    total = time.process_time() - started
    if json:
        console.show_json({"seconds": round(total, 1), "methods": {key: round(one, 1) for key, one in seconds.items()}})
        return
    for name, one in seconds.items():
        console.show_text(f"{name:<16}{one:7.1f} s\n")
    console.show_text(f"{'all':<16}{total:7.1f} s of processor time; a second run shows what the cache saves\n")


def _release(name: str, options: dict[str, Any]) -> None:
    """Release a table of random numbers."""
    import numpy as np

    from sfumato.errors import SfumatoError
    from sfumato.methods.base import make_method, method_class
    from sfumato.params import options_of

    generator = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{number}": generator.normal(size=ROWS) for number in range(NUMBERS)}
    columns |= {"group": generator.choice(list("abc"), ROWS), "answer": generator.choice(list("pq"), ROWS)}
    roles = dict.fromkeys(columns, "quasi") | {"answer": "sensitive"}
    required = {
        option.name: option.declared.strengths[1] for option in options_of(method_class(name)) if option.is_required
    }
    try:
        release = make_method(name, **required, **options).release(columns, schema=roles)
        for statistic in options.get("keep", []):
            release.estimate(statistic)
    except SfumatoError as error:  # a promise that random rows do not keep: the kernels are compiled all the same
        console.say(f"· {name}: {error.message}")
