"""The reference page of the commands, written from their help."""

from __future__ import annotations

import inspect
import re
from typing import Any

from typer.main import get_command

from sfumato.cli.commands import app


def commands_page() -> str:
    """Return the page with every command and all its options, as Markdown."""
    group: Any = get_command(app)
    lines = ["# Commands", "", "Written by `make generated` from the code; do not edit by hand."]
    lines += ["`sfumato COMMAND --help` shows the same. `python -m sfumato` is the same as `sfumato`.", ""]
    for name, command in group.commands.items():
        lines += _command(name, command)
    return "\n".join(lines).rstrip() + "\n"


def _command(name: str, command: Any) -> list[str]:
    text = inspect.cleandoc(command.help or "")
    said, _, example = text.partition("Example: ")
    arguments = [_argument(one) for one in command.params if one.param_type_name == "argument"]
    lines = [f"## sfumato {name}", "", _options_as_code(said.strip()), ""]
    if example:
        shown = " ".join(example.split())
        lines += ["<!-- not run: its file is not here -->", "```console", f"$ {shown}", "```", ""]
    lines += ["| argument or option | meaning |", "|---|---|"]
    lines += [f"| `{metavar}` | {_cell(one.help)} |" for metavar, one in arguments]
    taken = inspect.signature(command.callback).parameters
    for one in filter(_is_option, command.params):
        lines.append(f"| {_flags(one, str(taken[one.name].annotation))} | {_cell(one.help)}{_default(one)} |")
    return [*lines, ""]


def _argument(one: Any) -> tuple[str, Any]:
    metavar = (one.metavar or one.name.upper()).strip("[]{}")
    return (metavar if one.required else f"[{metavar}]"), one


def _is_option(one: Any) -> bool:
    return one.param_type_name == "option" and not one.hidden and one.name != "help"


def _flags(one: Any, annotation: str) -> str:
    names = ", ".join(f"`{flag}`" for flag in (*one.opts, *one.secondary_opts))
    value = one.metavar or ("N" if "int" in annotation else "NUMBER" if "float" in annotation else "TEXT")
    return names if one.is_flag else f"{names} {value.replace('|', ' or ')}"


def _default(one: Any) -> str:
    shown = one.default
    if one.is_flag or shown in (None, "", [], ()) or callable(shown):
        return ""
    return f" Default: {shown}."


def _cell(text: str | None) -> str:
    return _options_as_code(re.sub(r"\s+", " ", text or "")).replace("|", "\\|")


def _options_as_code(text: str) -> str:
    return re.sub(r"(?<![`\w])(--[a-z][a-z-]*)", r"`\1`", text)
