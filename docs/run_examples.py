"""Run the examples of pages and compare what they print with what the pages say.

    python docs/run_examples.py README.md docs/how-to/*.md        # compare
    python docs/run_examples.py --write docs/tutorials/*.md       # put the output of today into the pages

A page is run in a folder that contains ``patients.csv``, the invented patients of ``docs/tutorials``, and the
``schema.toml`` of their columns. Its blocks share this folder and their Python names:

- ``console``: lines that begin with ``$ `` are commands (one that ends with a backslash goes on in the next line), the
  others are what they print: standard output or, if the command fails, the message on standard error;
- ``python``: with ``>>>`` a session as in docstrings; without, a script that must print nothing;
- any other block is not run. ``...`` in an output stands for anything. Releases without a seed, whose random numbers
  come from the operating system, get the same ones in every run of a page.

Comments before a block, which readers do not see, say more: ``<!-- file: NAME -->`` writes the block into a file,
``<!-- not run: REASON -->`` leaves a block out (its commands, options and names are still checked), and
``<!-- setup … -->`` contains Python code that is run first.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from unittest import mock

REPOSITORY = Path(__file__).resolve().parents[1]
GIVEN = [REPOSITORY / "docs" / "tutorials" / name for name in ("patients.csv", "schema.toml")]
FENCE = re.compile(r"^( *)(`{3,})(.*)$")
MARK = re.compile(r"<!-- (file|not run): (.+?) -->$")
CHECKER = doctest.OutputChecker()
PYTHON = ("python", "pycon")


@dataclass(kw_only=True)
class Block:
    """A fenced block of a page."""

    language: str
    lines: list[str]
    line: int  # of its first fence in the page, from 1
    file: str | None = None
    not_run: str | None = None
    setup: bool = False
    failures: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def is_session(self) -> bool:
        """Whether it is a Python session with prompts."""
        return self.language in PYTHON and self.text.lstrip().startswith(">>> ")

    @property
    def runs(self) -> bool:
        """Whether it is run."""
        return self.not_run is None and self.file is None and self.language in ("console", *PYTHON)


def pages() -> list[Path]:
    """Return all pages of the repository that people read."""
    built = REPOSITORY / "docs" / "_build"
    found = sorted(path for path in (REPOSITORY / "docs").rglob("*.md") if built not in path.parents)
    return [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *found]


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks and the setups of a page, in order."""
    found: list[Block] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    marks: dict[str, str] = {}
    for number, line in lines:
        if line.strip() == "<!-- setup":
            code = _until(lines, "-->")
            found.append(Block(language="python", lines=code, line=number, setup=True))
        elif mark := MARK.match(line.strip()):
            marks[mark[1]] = mark[2]
        elif fence := FENCE.match(line):
            indent, ticks, language = fence.groups()
            inside = [one.removeprefix(indent) for one in _until(lines, indent + ticks)]
            given = {"file": marks.get("file"), "not_run": marks.get("not run")}
            found.append(Block(language=language.strip(), lines=inside, line=number, **given))
            marks = {}
        elif line.strip():
            marks = {}
    return found


def _until(lines: Iterator[tuple[int, str]], end: str) -> list[str]:
    inside = []
    for _, line in lines:
        if line.rstrip() == end:
            return inside
        inside.append(line)
    raise ValueError(f"a block has no end {end!r}")


class Session:
    """The folder and the Python names that the blocks of a page share."""

    def __init__(self) -> None:
        self.module = ModuleType("page_of_the_documentation")

    def run(self, blocks: Sequence[Block]) -> None:
        """Run the blocks in a new folder; their failures and the lines that are right today are noted in them."""
        sys.modules[self.module.__name__] = self.module  # where dataclasses of a page are looked for
        try:
            repeatable = mock.patch("sfumato.randomness.secrets.randbits", lambda _: 2026)
            in_this_process = mock.patch("sfumato.comparison.compare.processors", lambda: 1)  # saves the imports
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), repeatable, in_this_process:
                for file in GIVEN:
                    shutil.copy(file, file.name)
                for block in blocks:
                    if block.file is not None:
                        Path(block.file).write_text(block.text, encoding="utf-8")
                    elif block.runs:
                        self._run(block)
        finally:
            del sys.modules[self.module.__name__]

    def _run(self, block: Block) -> None:
        if block.language == "console":
            self._console(block)
        elif block.is_session:
            self._session(block)
        else:
            printed = self._executed(block.text, "exec")
            if printed.strip():
                block.failures.append(f"a script printed what the page does not show:\n{printed}")

    def _console(self, block: Block) -> None:
        right: list[str] = []
        for lines, expected in commands(block):
            printed = _printed(" ".join(line.removesuffix("\\").strip() for line in lines))
            right += [f"$ {lines[0]}", *lines[1:], *self._compared(block, lines[0], expected, printed)]
        block.lines = right

    def _session(self, block: Block) -> None:
        right: list[str] = []
        for example in doctest.DocTestParser().get_examples(block.text):
            printed = self._executed(example.source, "single")
            prompts = [f"{'...' if place else '>>>'} {line}" for place, line in enumerate(example.source.splitlines())]
            shown = self._compared(block, prompts[0], example.want.splitlines(), printed)
            right += [
                *([""] if right and block.lines[example.lineno - 1] == "" else []),
                *map(str.rstrip, prompts),
                *shown,
            ]
        block.lines = right

    def _executed(self, source: str, mode: str) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(source, "<page>", mode), self.module.__dict__)
            except Exception as error:
                print("".join(traceback.format_exception(error)))
        return printed.getvalue()

    @staticmethod
    def _compared(block: Block, command: str, expected: list[str], printed: str) -> list[str]:
        """Note a difference, and return the lines that the page should have."""
        got = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
        want = "\n".join(line.rstrip() for line in expected).rstrip("\n")
        if CHECKER.check_output(want + "\n", "\n".join(got) + "\n", doctest.ELLIPSIS):
            return expected
        block.failures.append(f"{command}\n--- the page says\n{want}\n--- it prints\n" + "\n".join(got))
        return got


def commands(block: Block) -> list[tuple[list[str], list[str]]]:
    """Return the commands of a console block, each as its lines without the prompt, and its expected output."""
    found: list[tuple[list[str], list[str]]] = []
    goes_on = False
    for line in block.lines:
        if goes_on:
            found[-1][0].append(line)
        elif line.startswith("$ "):
            found.append(([line[2:]], []))
        elif found:
            found[-1][1].append(line)
        elif line.strip():
            raise ValueError(f"line {block.line}: a console block begins with a command ($ …)")
        goes_on = (goes_on or line.startswith("$ ")) and line.endswith("\\")
    return found


def _printed(command: str) -> str:
    """Run a command and return what it prints. Commands of sfumato run in this process, which saves the imports."""
    words = shlex.split(command)
    if words[0] != "sfumato" or "|" in words:
        done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True)
        return done.stdout + (done.stderr if done.returncode else "")
    from sfumato.cli.commands import run

    target = Path(words[words.index(">") + 1]) if ">" in words else None
    words = words[: words.index(">")] if target else words
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        code = run(words[1:])
    if target is not None and code == 0:
        target.write_text(out.getvalue(), encoding="utf-8")
        return ""
    return out.getvalue() + (said.getvalue() if code else "")


def problems(block: Block) -> list[str]:
    """Return what is wrong with a block that is not run: commands, options and names that do not exist."""
    if block.language == "console":
        return [
            wrong for lines, _ in commands(block) if (wrong := command_problem(" ".join(lines).replace("\\ ", " ")))
        ]
    if block.language not in PYTHON:
        return []
    tree = ast.parse("".join(one.source for one in doctest.DocTestParser().get_examples(block.text)) or block.text)
    return [wrong for node in ast.walk(tree) if (wrong := _call_problem(node))]


def command_problem(command: str) -> str | None:
    """Return what is wrong with a command: a command, option, make target or extra that does not exist."""
    words = [word for word in shlex.split(command.replace("…", " "), comments=True) if word not in (">", "|")]
    if words[:1] == ["make"]:
        known = re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), flags=re.M)
        return next(
            (f"make {word}: there is no such target" for word in words[1:] if word not in known and "=" not in word),
            None,
        )
    if words[:2] == ["pip", "install"]:
        import tomllib

        extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "optional-dependencies"
        ]
        asked = {name for word in words for found in re.findall(r"\[([\w,]+)\]", word) for name in found.split(",")}
        return f"pip install: no extra {asked - set(extras)}" if asked - set(extras) else None
    return _sfumato_problem(words) if words[:1] == ["sfumato"] else None


def _sfumato_problem(words: list[str]) -> str | None:
    import typer

    from sfumato.cli.commands import app

    group = typer.main.get_command(app)
    known = {"--version", "--install-completion", "--show-completion", "--help", "-h"}
    name = words[1] if len(words) > 1 else "--help"
    if name not in group.commands and name not in known and name not in ("COMMAND", "[OPTIONS]"):
        return f"sfumato {name}: there is no such command"
    if name in group.commands:
        known |= {flag for one in group.commands[name].params for flag in (*one.opts, *one.secondary_opts)}
    wrong = [word for word in words[1:] if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]
    return f"sfumato {name}: there is no option {', '.join(wrong)}" if wrong else None


def _call_problem(node: ast.AST) -> str | None:
    """Return what is wrong with sf.NAME, or with a keyword of a call of it."""
    import inspect

    import sfumato

    call = node.func if isinstance(node, ast.Call) else node
    if not (isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name) and call.value.id == "sf"):
        return None
    if not hasattr(sfumato, call.attr):
        return f"there is no sf.{call.attr}"
    if isinstance(node, ast.Call):
        taken = inspect.signature(getattr(sfumato, call.attr)).parameters
        wrong = [one.arg for one in node.keywords if one.arg and one.arg not in taken]
        return f"sf.{call.attr} has no argument {', '.join(wrong)}" if wrong else None
    return None


def rewritten(text: str, blocks: Sequence[Block]) -> str:
    """Return the page with the lines that its blocks have now."""
    lines = text.splitlines()
    for block in reversed(blocks):
        if block.runs and not block.setup:
            indent = FENCE.match(lines[block.line - 1])[1]
            end = next(place for place in range(block.line, len(lines)) if FENCE.match(lines[place]))
            lines[block.line : end] = [(indent + line).rstrip() for line in block.lines]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Run the pages that are named, or all; return 1 if one says what is not so."""
    write = "--write" in arguments
    failed = 0
    for page in [Path(name).resolve() for name in arguments if name != "--write"] or pages():
        text = page.read_text(encoding="utf-8")
        blocks = blocks_of(text)
        Session().run(blocks)
        failures = [f"{page.name}, line {block.line}: {one}" for block in blocks for one in block.failures]
        failed += len(failures)
        print("\n\n".join(failures) or f"{page.name}: {sum(block.runs for block in blocks)} blocks are right")
        if write:
            page.write_text(rewritten(text, blocks), encoding="utf-8")
    return int(failed > 0 and not write)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
