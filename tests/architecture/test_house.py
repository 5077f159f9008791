"""The shape of the house: few and light public names, imports that run downward, files that hold one idea each.

Each rule is one loop over all files, and its message names the files that break it.
"""

from __future__ import annotations

import ast
import importlib
import re
import statistics
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import sfumato
from sfumato.methods.base import METHODS

SOURCE = Path(sfumato.__file__).parent
REPOSITORY = SOURCE.parents[1]
HEAVY = {"scipy", "sklearn", "numba", "duckdb", "pyspark", "py4j", "pandas", "polars", "matplotlib", "jinja2"}
LONGEST = 450  # lines of a file
EVERYTHING_DRAWERS = {"utils", "util", "core", "common", "helpers", "misc"}


def module_of(file: Path) -> str:
    return ".".join(("sfumato", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


TEXTS = {file: file.read_text(encoding="utf-8") for file in sorted(SOURCE.rglob("*.py"))}
TREES = {file: ast.parse(text) for file, text in TEXTS.items()}
MODULES = {module_of(file): file for file in TEXTS}


def imports_of(file: Path) -> dict[str, set[str]]:
    """Modules of the package, and other packages, that a file imports: at import, for types only, inside functions."""
    imported: dict[str, set[str]] = {"import": set(), "types": set(), "inner": set()}

    def visit(node: ast.AST, how: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = how
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                inside = "types"
            elif isinstance(child, ast.FunctionDef) and how != "types":
                inside = "inner"
            if isinstance(child, ast.Import):
                imported[inside] |= {alias.name for alias in child.names}
            if isinstance(child, ast.ImportFrom):
                names = {f"{child.module}.{alias.name}" for alias in child.names}
                imported[inside] |= {name if name in MODULES else str(child.module) for name in names}
            visit(child, inside)

    visit(TREES[file], "import")
    return imported


GRAPH = {module: imports_of(file) for module, file in MODULES.items()}


def arrows(*kinds: str) -> dict[str, set[str]]:
    """Imports of these kinds between modules of the package."""
    return {
        module: {other for kind in kinds for other in imported[kind] if other in MODULES and other != module}
        for module, imported in GRAPH.items()
    }


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


def loaded_by(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after running the code."""
    report = "import sys; print('loaded:', *sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], check=True, capture_output=True, text=True)
    return set(done.stdout.rpartition("loaded:")[2].split())  # not what the code itself printed


class TestPublicNames:
    def test_all_is_what_dir_shows_and_what_can_be_had(self):
        assert sorted(sfumato.__all__) == dir(sfumato)
        for name in sfumato.__all__:
            assert getattr(sfumato, name) is not None

    def test_every_name_is_imported_for_type_checkers_from_the_same_module(self):
        tree = ast.parse((SOURCE / "__init__.pyi").read_text())
        typed = {
            alias.asname: node.module
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.asname != "__version__"
        }
        assert typed == sfumato.public_names(), "run `make generated`"

    def test_a_public_class_or_function_says_what_it_is(self):
        undocumented = [name for name in sfumato.public_names() if not getattr(sfumato, name).__doc__]
        assert undocumented == []

    def test_an_unknown_name_is_an_attribute_error(self):
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            sfumato.nothing  # noqa: B018


class TestLightImports:
    def test_importing_the_package_loads_no_library_at_all(self):
        assert not loaded_by("import sfumato") & (HEAVY | {"numpy", "pyarrow", "typer", "rich"})

    def test_the_help_of_the_commands_loads_no_heavy_library(self):
        for words in (["--help"], ["release", "--help"]):
            code = f"from sfumato.cli.commands import run\nassert run({words}) == 0"
            assert not loaded_by(code) & (HEAVY | {"numpy", "pyarrow"})

    def test_reading_a_table_and_suggesting_roles_loads_no_heavy_library(self, tmp_path):
        (tmp_path / "t.csv").write_text("age,sex\n1,f\n2,m\n")
        code = f"import sfumato as sf\nassert sf.Schema.for_table(sf.read({str(tmp_path / 't.csv')!r})).columns"
        # where pandas is installed, pyarrow loads it to turn a list into an array; sfumato does not need it
        assert not loaded_by(code) & (HEAVY - {"pandas"})

    def test_the_check_itself_can_fail(self):
        assert "numpy" in loaded_by("import sfumato; sfumato.Table")


class TestImportGraph:
    def test_imports_run_downward_only(self):
        command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
        done = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Contracts: " in done.stdout

    def test_there_is_no_circle_even_with_imports_for_types(self):
        assert circle_in(arrows("import", "types")) == []

    def test_there_is_no_circle_inside_a_room_through_imports_in_functions(self):
        everything = arrows("import", "types", "inner")
        for room in {module.split(".")[1] for module in MODULES if "." in module}:
            inside = {
                module: {other for other in others if f"{other}.".startswith(f"sfumato.{room}.")}
                for module, others in everything.items()
                if f"{module}.".startswith(f"sfumato.{room}.")
            }
            assert circle_in(inside) == [], room

    def test_a_circle_would_be_seen(self):
        assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "a"]

    def test_the_only_arrows_that_run_up_are_the_doors_in_the_list(self):
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

    def test_a_method_imports_no_other_method(self):
        slices = {method_slice(place.module) for place in METHODS.values() if place.module.startswith("sfumato.")}
        crossing = [
            (module, other)
            for module, others in arrows("import", "types", "inner").items()
            for other in others
            if method_slice(module) in slices
            and method_slice(other) in slices
            and method_slice(module) != method_slice(other)
        ]
        assert crossing == []

    def test_no_engine_is_asked_for_its_name_above_the_engines(self):
        asks = re.compile(r"\.name\s*(==|!=|in)\s*[\"'(\[{]+[\"']?(memory|duckdb|spark)")
        asking = [file for file, text in TEXTS.items() if "engines" not in file.parts and asks.search(text)]
        assert asking == []

    def test_every_module_can_be_imported_alone(self):
        for module in MODULES:
            importlib.import_module(module)


def method_slice(module: str) -> str:
    """The package or file of a method: the first name below ``sfumato.methods``."""
    return ".".join(module.split(".")[:3])


class TestFiles:
    def test_a_file_is_one_idea(self):
        lengths = {file: len(text.splitlines()) for file, text in TEXTS.items()}
        assert [file for file, length in lengths.items() if length > LONGEST] == []
        typical = statistics.median(length for file, length in lengths.items() if file.name != "__init__.py")
        assert 130 <= typical <= 300

    def test_a_file_says_what_it_is(self):
        assert [file for file, tree in TREES.items() if tree.body and not ast.get_docstring(tree)] == []

    def test_nothing_prints(self):
        printing = [
            (file, node.lineno)
            for file, tree in TREES.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        ]
        assert printing == []

    def test_there_is_no_drawer_for_everything(self):
        assert [file for file in TEXTS if EVERYTHING_DRAWERS & set(file.with_suffix("").parts[-3:])] == []

    def test_no_two_public_classes_have_the_same_name(self):
        names = Counter(
            node.name
            for tree in TREES.values()
            for node in tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        )
        assert [name for name, count in names.items() if count > 1] == []

    def test_functions_have_the_size_of_one_idea(self):
        lengths = sorted(length_of(node) for tree in TREES.values() for node in ast.walk(tree) if is_function(node))
        assert lengths[int(0.9 * len(lengths))] <= 25


def is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef)


def length_of(function: ast.FunctionDef) -> int:
    """Lines of a function, its docstring left out."""
    first = function.body[0]
    described = ast.get_docstring(function) is not None
    documentation = (first.end_lineno or 0) - first.lineno + 1 if described else 0
    return (function.end_lineno or 0) - function.lineno + 1 - documentation
