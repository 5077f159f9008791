"""The shape of the house: imports run downward, public names are few and light, files are short, nothing prints."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato

SOURCE = Path(sfumato.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
HEAVY = {"scipy", "sklearn", "numba", "duckdb", "pyspark", "py4j", "pandas", "polars", "matplotlib", "jinja2"}
LONGEST = 400  # lines of a file


def loaded_by(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after running the code."""
    told = "import sys; print('\\n'.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    script = f"{code}\n{told}"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_imports_run_downward_only():
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=SOURCE.parents[1],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Contracts: " in done.stdout


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
        code = "from sfumato.cli.app import run\nassert run(['--help']) == 0"
        assert not loaded_by(code) & (HEAVY | {"numpy", "pyarrow"})

    def test_reading_a_table_and_suggesting_roles_loads_no_heavy_library(self, tmp_path):
        (tmp_path / "t.csv").write_text("age,sex\n1,f\n2,m\n")
        code = f"import sfumato as sf\nassert sf.Schema.for_table(sf.read({str(tmp_path / 't.csv')!r})).columns"
        # where pandas is installed, pyarrow loads it to turn a list into an array; sfumato does not need it
        assert not loaded_by(code) & (HEAVY - {"pandas"})

    def test_the_check_itself_can_fail(self):
        assert "numpy" in loaded_by("import sfumato; sfumato.Table")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
class TestFiles:
    def test_is_short(self, file):
        lines = len(file.read_text().splitlines())
        assert lines <= LONGEST, f"{lines} lines: a file is one idea"

    def test_says_what_it_is(self, file):
        text = file.read_text().strip()
        assert not text or ast.get_docstring(ast.parse(text))

    def test_does_not_print(self, file):
        calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        assert not [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]

    def test_is_no_drawer_for_everything(self, file):
        assert not {"utils", "util", "core", "common", "helpers", "misc"} & set(file.with_suffix("").parts[-3:])


def lengths_of_functions() -> list[int]:
    """Lines of every function, its docstring left out."""
    lengths = []
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                first = node.body[0]
                described = ast.get_docstring(node) is not None
                said = (first.end_lineno or 0) - first.lineno + 1 if described else 0
                lengths.append((node.end_lineno or 0) - node.lineno + 1 - said)
    return sorted(lengths)


def test_functions_and_files_have_the_size_of_one_idea():
    functions = lengths_of_functions()
    files = sorted(len(file.read_text().splitlines()) for file in FILES)
    assert functions[int(0.9 * len(functions))] <= 25
    assert 90 <= files[len(files) // 2] <= 250


def test_every_module_can_be_imported_alone():
    modules = [".".join(("sfumato", *file.relative_to(SOURCE).with_suffix("").parts)) for file in FILES]
    for module in modules:
        importlib.import_module(module.removesuffix(".__init__"))
