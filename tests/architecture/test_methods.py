"""A method's package imports no other method's package; what two methods share lies directly in ``methods/``."""

from __future__ import annotations

import ast
from pathlib import Path

import sfumato.methods
from sfumato.methods.base import BUILT_IN

HERE = Path(sfumato.methods.__file__).parent
SLICES = {place.module.split(".")[2] for place in BUILT_IN.values()}  # packages and files that define a method


def slices_of(imported: list[str]) -> set[str]:
    parts = [name.split(".") for name in imported if name.startswith("sfumato.methods.")]
    return {part[2] for part in parts} & SLICES


def imports_of(source: str) -> list[str]:
    nodes = list(ast.walk(ast.parse(source)))
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [f"{node.module}.{one.name}" for node in nodes if isinstance(node, ast.ImportFrom) for one in node.names]
    return names + [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]


def test_methods_do_not_import_each_other():
    foreign = {}
    for file in HERE.rglob("*.py"):
        own = file.relative_to(HERE).parts[0].removesuffix(".py")
        others = slices_of(imports_of(file.read_text(encoding="utf-8"))) - {own}
        if others:
            foreign[str(file.relative_to(HERE))] = others
    assert foreign == {}


def test_the_check_itself_can_fail():
    one = sorted(SLICES)[0]
    assert slices_of(imports_of(f"from sfumato.methods.{one} import something")) == {one}
    assert slices_of(imports_of("from sfumato.methods.base import METHODS")) == set()
