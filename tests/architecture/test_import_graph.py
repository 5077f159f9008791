"""The graph of imports: no circle at import, no circle inside a room, and two doors upward, listed in one place."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

import sfumato

SOURCE = Path(sfumato.__file__).parent
REPOSITORY = SOURCE.parents[1]


def module_of(file: Path) -> str:
    return ".".join(("sfumato", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module_of(file): file for file in sorted(SOURCE.rglob("*.py"))}


def imports_of(file: Path) -> dict[str, set[str]]:
    """Modules of the package that a file imports: at import, for types only, and inside functions."""
    found: dict[str, set[str]] = {"import": set(), "types": set(), "inner": set()}

    def visit(node: ast.AST, how: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = how
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                inside = "types"
            elif isinstance(child, ast.FunctionDef) and how != "types":
                inside = "inner"
            if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("sfumato"):
                named = {f"{child.module}.{alias.name}" for alias in child.names}
                found[inside] |= {name if name in MODULES else str(child.module) for name in named}
            visit(child, inside)

    visit(ast.parse(file.read_text(encoding="utf-8")), "import")
    return found


GRAPH = {module: imports_of(file) for module, file in MODULES.items()}


def arrows(*kinds: str, within: str | None = None) -> dict[str, set[str]]:
    """Imports of these kinds; with ``within``, between modules of one room only."""
    return {
        module: {
            other
            for kind in kinds
            for other in found[kind]
            if other in MODULES and other != module and (within is None or room_of(other) == within)
        }
        for module, found in GRAPH.items()
        if within is None or room_of(module) == within
    }


def room_of(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[: 3 if parts[1:2] == ["methods"] and len(parts) > 3 else 2])


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    """One circle of the graph, or nothing: depth first, with the path that is being walked."""
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for other in sorted(graph.get(module, ())):
            circle = walk(other, [*path, module])
            if circle:
                return circle
        done.add(module)
        return []

    return next((circle for module in sorted(graph) if (circle := walk(module, []))), [])


def test_there_is_no_circle_at_import():
    assert circle_in(arrows("import")) == []


@pytest.mark.parametrize("room", sorted({room_of(module) for module in MODULES}))
def test_there_is_no_circle_inside_a_room_through_types_or_inner_imports(room):
    assert circle_in(arrows("import", "types", "inner", within=room)) == []


def test_a_circle_would_be_seen():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "a"]


def test_the_only_arrows_that_run_up_are_the_two_doors():
    contract = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    storeys = [[room.strip() for room in layer.split("|")] for layer in contract["layers"]]
    height = {room: -number for number, layer in enumerate(storeys) for room in layer}
    top = {module: ".".join(module.split(".")[:2]) for module in MODULES}
    upward = {
        f"{module} -> {other}"
        for module, others in arrows("import", "inner").items()
        for other in others
        if top[module] in height and top[other] in height and height[top[other]] > height[top[module]]
    }
    assert upward == set(contract["ignore_imports"])
    assert len(upward) == 2
