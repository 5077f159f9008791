"""``sfumato methods [NAME]``: the methods, or one method with its options."""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any

import typer

from sfumato.cli import console


def command(
    *,
    name: str | None = typer.Argument(None, metavar="NAME", help="Method name; all methods by default."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the methods, or explain one with all its options.

    Every option can be given to `sfumato release` as --option NAME=VALUE.

    Example: sfumato methods boxes
    """
    from sfumato.methods.registry import METHODS, method_class
    from sfumato.report import terminal

    classes = [method_class(known) for known in ([name] if name is not None else METHODS)]
    if json:
        console.show_json([described(kind) for kind in classes])
    elif name is None:
        console.show(terminal.methods(classes))
    else:
        console.show(terminal.method(classes[0]))


def described(kind: Any) -> dict[str, Any]:
    """Return a method and its options as plain values."""
    from sfumato.params import options_of

    return {
        "name": kind.name,
        "class": kind.__name__,
        "summary": (kind.__doc__ or "").partition("\n\n")[0],
        "options": [
            {
                "name": one.name,
                "required": one.is_required,
                "default": None if one.default is MISSING else one.default,
                "value": one.declared.range.describe(one.declared.unit),
                "unit": one.declared.unit,
                "meaning": one.declared.meaning,
                "strengths": list(one.declared.strengths),
            }
            for one in options_of(kind)
        ],
    }
