"""Make a Jupyter notebook of a page, next to it: text as text, and each example as a cell to run.

python docs/notebook.py docs/tutorials/analyst.md
"""

from __future__ import annotations

import doctest
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from run_examples import MARK, Block, blocks_of, commands


def notebook(text: str) -> dict[str, object]:
    """Return the notebook of a page, as a mapping to be written as JSON."""
    lines, cells, place = text.splitlines(), [], 0
    for block in blocks_of(text):
        cells += _text(lines[place : block.line - 1])
        end = next(number for number in range(block.line, len(lines)) if lines[number].strip() in ("```", "-->"))
        place = end + 1
        code = _code(block)
        cells += [_cell("code", code)] if code else _text(lines[block.line - 1 : place])
    cells += _text(lines[place:])
    named = [cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells)]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": named, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def _code(block: Block) -> str:
    """Return what a cell runs, or nothing if the block is only to be read."""
    if block.file is not None:
        return f"%%writefile {block.file}\n{block.text}"
    if not block.runs:
        return ""
    if block.language == "console":
        return "\n".join("!" + "\n".join(lines) for lines, _ in commands(block))
    if block.is_session:
        return "".join(example.source for example in doctest.DocTestParser().get_examples(block.text)).rstrip()
    return block.text.rstrip()


def _text(lines: Sequence[str]) -> list[dict[str, object]]:
    kept = "\n".join(line for line in lines if not MARK.match(line.strip())).strip()
    return [_cell("markdown", re.sub(r"\n{3,}", "\n\n", kept))] if kept else []


def _cell(kind: str, source: str) -> dict[str, object]:
    cell: dict[str, object] = {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        page.with_suffix(".ipynb").write_text(json.dumps(notebook(page.read_text(encoding="utf-8")), indent=1) + "\n")
        print(page.with_suffix(".ipynb"))
