"""The command, the options and the schema that made a release, as people write them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.methods.base import method_class
from sfumato.methods.command_flags import COMMAND_FLAGS
from sfumato.params import in_plain_words, options_of, plain
from sfumato.schema.columns import columns_text

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.release.manifest import Manifest

FLAGS = tuple(one.option for one in COMMAND_FLAGS if not one.is_repeated)
REPEATED = {one.option: one.flags[0] for one in COMMAND_FLAGS if one.value == "texts"}

MOST_NUMBERS = 20  # of a list that is shown; the manifest has all


@dataclass(frozen=True, kw_only=True)
class ShownOption:
    """An option of the method: its value as text, whether it is the default, and what it means."""

    name: str
    value: str
    is_default: bool
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """What to type to make the release again; FILE and DIR stand for the names of file and folder."""

    method: str
    summary: str  # of the method, one paragraph
    options: tuple[ShownOption, ...]
    command: str
    python: str
    schema: str  # content of schema.toml


def reproduction(manifest: Manifest) -> Reproduction:
    """Return what made the release, from its manifest."""
    kind = _class(manifest.method)
    declared = {one.name: one for one in options_of(kind)} if kind else {}
    defaults = {name: plain(one.default) for name, one in declared.items() if one.default is not MISSING}
    chosen = {
        name: value
        for name, value in manifest.options.items()
        if name not in defaults or _differ(value, defaults[name])
    }
    words = [*(["--key", "KEY"] if manifest.pseudonyms else []), *(["--rows-not-people"] if manifest.repeated else [])]
    arguments = (', key="KEY"' if manifest.pseudonyms else "") + (", rows_not_people=True" if manifest.repeated else "")
    return Reproduction(
        method=manifest.method,
        summary=in_plain_words(summary_of(kind)) if kind else "",
        options=tuple(
            ShownOption(
                name=name,
                value=describe_value(value),
                is_default=name not in chosen,
                meaning=in_plain_words(declared[name].declared.meaning) if name in declared else "",
            )
            for name, value in manifest.options.items()
        ),
        command=command_text(manifest.method, chosen, arguments=words),
        python=python_text(kind.__name__ if kind else manifest.method, chosen, arguments=arguments),
        schema=columns_text((column.to_column() for column in manifest.columns), Path()),
    )


def summary_of(kind: type[Method]) -> str:
    """Return the first paragraph of the description of a method."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].replace("``", "`").split())


def describe_value(value: object) -> str:
    """Return lists and mappings of a manifest as text, without the signs of a program.

    >>> listed({"columns": ["age", "sex"], "kept": [], "exact": True, "share": 0.5})
    'columns: age, sex; kept: none; exact: yes; share: 0.5'
    """
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {describe_value(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list | tuple) and len(value) > MOST_NUMBERS and not any(isinstance(one, str) for one in value):
        return f"{len(value):,} values"
    if isinstance(value, list | tuple):
        return ", ".join(map(describe_value, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def option_words(options: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield what to type for each option of a method, as words of ``sfumato release``.

    >>> [*option_words({"k": 5, "keep": ["mean(age)"], "set_names": 20, "words": {"age": ["young"]}})]
    [['--k', '5'], ['--keep', 'mean(age)'], ['--option', 'set_names=20'], ['--option', 'words={"age": ["young"]}']]
    """
    for name, given in options.items():
        value = plain(given)
        if name in REPEATED and isinstance(value, list):
            yield from ([REPEATED[name], str(one)] for one in value)
        elif name in FLAGS and isinstance(value, str | int | float) and not isinstance(value, bool):
            yield [f"--{name}", str(value)]
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield ["--option", f"{name}={text}"]


def _class(name: str) -> type[Method] | None:
    try:
        return method_class(name)
    except SfumatoError:
        return None


def _differ(value: Any, default: Any) -> bool:
    return bool(value != default and not (value in (None, [], {}) and default in (None, [], {})))


def command_text(
    method: str, chosen: Mapping[str, Any], *, file: str = "FILE", folder: str = "DIR", arguments: Sequence[str] = ()
) -> str:
    """Return the command that makes a release, one option per line; ``arguments`` are added at the end.

    >>> print(command_text("boxes", {"k": 5, "keep": ["mean(age)"]}, file="people.csv", folder="out"))
    sfumato release people.csv -o out \\
      --schema schema.toml \\
      --method boxes \\
      --k 5 \\
      --keep 'mean(age)'
    """
    parts = [["sfumato", "release", file, "-o", folder], ["--schema", "schema.toml"], ["--method", method]]
    options = [*parts, *option_words(chosen), *([list(arguments)] if arguments else [])]
    return " \\\n  ".join(map(shlex.join, options))


def python_text(
    name: str,
    chosen: Mapping[str, Any],
    *,
    file: str = "FILE",
    folder: str = "DIR",
    table: str | None = None,
    arguments: str = "",
) -> str:
    """Return the Python expression that makes a release.

    ``table`` is an expression in place of the path of the file, and ``arguments`` are those of ``release`` after the
    schema.
    """
    options = ", ".join(f"{option}={value!r}" for option, value in chosen.items())
    given = table or _quote(file)
    return f'sf.{name}({options}).release({given}, schema="schema.toml"{arguments}).write({_quote(folder)})'


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
