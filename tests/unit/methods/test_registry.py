"""The registry: every method by its name, and methods of other packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

import sfumato
from sfumato.errors import OptionError
from sfumato.methods.base import BUILT_IN, METHODS, Method, make_method, method_class

CODE = '''
"""A method of another package: rows that few others are equal to are left out."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.methods.base import Method
from sfumato.plan.plan import Outcome, Plan
from sfumato.plan.claims import ColumnsAllowed, KAnonymity, RowsAccountedFor
from sfumato.params import Whole, option
from sfumato.schema.columns import Role


@dataclass(frozen=True, kw_only=True)
class OnlyCommon(Method):
    """Release the rows that at least k rows are equal to."""

    name: ClassVar[str] = "only-common"
    k: int = option(Whole(at_least=1), "Smallest number of equal rows.", default=2, reported=True)

    def plan(self, survey, schema, randomness):
        return OnlyCommonPlan(tuple(column.name for column in schema.columns), schema.names(Role.QUASI), self.k)


@dataclass(frozen=True)
class OnlyCommonPlan(Plan):
    names: tuple
    quasi: tuple
    k: int

    @property
    def claims(self):
        rows = RowsAccountedFor(suppressed_at_most=1.0)
        return KAnonymity(k=self.k, columns=self.quasi), rows, ColumnsAllowed(names=self.names)

    def transform(self, block, number):
        from sfumato.table.groups import group_labels

        labels = group_labels(block, self.quasi)
        rows = np.flatnonzero(np.bincount(labels)[labels] >= self.k)
        return Outcome(block.select(self.names).take(rows), rows)
'''

USE = """
import json, sys
import sfumato
from sfumato.cli.commands import run
from sfumato.methods.base import METHODS, make_method, method_class

assert METHODS["only-common"] == ("elsewhere", "OnlyCommon")
assert METHODS["boxes"].module.startswith("sfumato.")  # another package does not replace a method
assert "OnlyCommon" not in sfumato.__all__
assert method_class("OnlyCommon") is method_class("only-common")
assert make_method("only-common", k=3).k == 3
assert run(["methods"]) == 0
assert run(["methods", "only-common"]) == 0
role = ["--role", "city=quasi"]
assert run(["release", "t.csv", "-o", "out", "--method", "only-common", "--option", "k=3", *role]) == 0
assert run(["verify", "out"]) == 0
"""


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """What is printed by a new process that has the other package on its path, and the folder it worked in."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "elsewhere.py").write_text(CODE)
    about = folder / "elsewhere-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    points = ["[sfumato.methods]", "only-common = elsewhere:OnlyCommon", "boxes = elsewhere:OnlyCommon"]
    (about / "entry_points.txt").write_text("\n".join(points) + "\n")
    (folder / "t.csv").write_text("city\n" + "Ulm\n" * 4 + "Rom\n" * 3 + "Oslo\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(USE)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done, folder


class TestAMethodOfAnotherPackage:
    def test_is_listed_and_explained(self, used):
        printed = used[0].stdout
        assert "only-common" in printed
        assert "Smallest number of equal rows." in printed

    def test_does_not_replace_a_method_and_a_warning_says_so(self, used):
        assert "There is already a method 'boxes'; that of 'elsewhere' is not used." in used[0].stderr

    def test_makes_a_release_whose_promises_are_counted(self, used):
        manifest = json.loads((used[1] / "out" / "manifest.json").read_text())
        assert manifest["method"] == "only-common"
        assert manifest["options"] == {"k": 3}
        cells = (used[1] / "out" / "released.csv").read_text().split()[1:]
        assert sorted(cells) == ['"Rom"'] * 3 + ['"Ulm"'] * 4
        assert (used[1] / "out" / "report.html").exists()


class TestNames:
    def test_all_methods_are_public(self):
        assert {place.class_name for place in BUILT_IN.values()} <= set(sfumato.__all__)

    @pytest.mark.parametrize("name", METHODS)
    def test_the_name_in_the_registry_is_that_of_the_class(self, name):
        kind = method_class(name)
        assert issubclass(kind, Method)
        assert kind.name == name

    @pytest.mark.parametrize("name", ["mdav", "Microaggregate", "microaggregate"])
    def test_a_class_can_be_named_too(self, name):
        assert method_class(name) is sfumato.Microaggregate

    def test_an_unknown_name_is_answered_with_the_nearest(self):
        with pytest.raises(OptionError, match="'recode'"):
            make_method("recoed", k=5)
