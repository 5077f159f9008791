"""The privacy budget: sums in zCDP, a file that is private, whole and not damaged, and refusals before any work."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import CannotRelease, OptionError, ReadError
from sfumato.plan.claims.concentrated_privacy import MeasuredPrivacy, delta_of, epsilon_of, rho_of
from sfumato.release.privacy_budget import PrivacyBudget

COST = MeasuredPrivacy.of(epsilon=1.0, delta=1e-6, columns=(), rows_per_person=None)
SCHEMA = {"x": {"role": "quasi", "domain": [0, 100]}}
PEOPLE = {"x": np.random.default_rng(0).uniform(0, 100, 200)}


@pytest.fixture
def budget(tmp_path):
    return PrivacyBudget(tmp_path / "budget.toml", epsilon=3.0, delta=1e-5)


def test_costs_add_up_until_the_budget_is_spent(budget):
    paid = 0
    with pytest.raises(CannotRelease, match="within epsilon 3"):
        while True:
            budget.pay(COST)
            paid += 1
    assert delta_of(paid * COST.rho, 3.0) <= 1e-5 < delta_of((paid + 1) * COST.rho, 3.0)
    assert budget.releases == paid
    assert budget.spent <= 3.0


def test_ten_releases_under_one_budget_and_the_eleventh_is_refused(tmp_path):
    whole = epsilon_of(10.0 * rho_of(0.5, 1e-7), 1e-6)
    budget = PrivacyBudget(tmp_path / "ten.toml", epsilon=whole * 1.0001, delta=1e-6)
    method = sf.PrivateBoxes(epsilon=0.5, delta=1e-7)
    for _ in range(10):
        method.release(PEOPLE, schema=SCHEMA, budget=budget)
    with pytest.raises(CannotRelease, match="10 releases"):
        method.release(PEOPLE, schema=SCHEMA, budget=budget)
    assert budget.releases == 10


def test_the_file_is_private_and_opened_again(budget):
    budget.pay(COST)
    assert budget.path.stat().st_mode & 0o777 == 0o600
    assert PrivacyBudget(budget.path).releases == 1
    assert [file.name for file in budget.path.parent.iterdir()] == ["budget.toml"], "nothing is left beside it"


def test_a_budget_that_others_may_read_is_refused(budget):
    budget.path.chmod(0o644)
    with pytest.raises(ReadError, match="Nobody else may read"):
        budget.pay(COST)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("rho = [0.02", "rho = [0.01"),
        lambda text: text.replace("epsilon = 3.0", "epsilon = 30.0"),
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "\x00",
    ],
)
def test_a_damaged_budget_is_refused(budget, damage):
    budget.pay(COST)
    budget.path.write_text(damage(budget.path.read_text()))
    with pytest.raises(ReadError, match="as it was written"):
        budget.pay(COST)


def test_a_budget_keeps_its_limits_and_a_new_one_needs_them(budget, tmp_path):
    with pytest.raises(OptionError, match="stays as it was begun"):
        PrivacyBudget(budget.path, epsilon=4.0)
    with pytest.raises(OptionError, match="needs its epsilon"):
        PrivacyBudget(tmp_path / "new.toml")
    with pytest.raises(OptionError, match="epsilon"):
        PrivacyBudget(tmp_path / "new.toml", epsilon=-1.0)
    assert not (tmp_path / "new.toml").exists()


def test_payments_at_the_same_time_are_all_counted(budget):
    threads = [threading.Thread(target=budget.pay, args=(COST,)) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert budget.releases == 6


def test_a_request_that_is_refused_costs_nothing_and_one_that_fails_later_does(budget, monkeypatch, tmp_path):
    with pytest.raises(sf.SfumatoError):
        sf.PrivateBoxes().release(PEOPLE, schema={}, budget=budget)
    with pytest.raises(OptionError, match="not private"):
        sf.Boxes(k=5).release(PEOPLE, schema=SCHEMA, budget=budget)
    with pytest.raises(sf.SfumatoError, match="folder"):
        sf.PrivateBoxes().release(PEOPLE, schema=SCHEMA, budget=budget, into=budget.path.parent)
    assert budget.releases == 0
    from sfumato.methods.private_boxes.method import PrivateBoxesPlan

    monkeypatch.setattr(PrivateBoxesPlan, "transform", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sf.PrivateBoxes().release(PEOPLE, schema=SCHEMA, budget=budget)
    assert budget.releases == 1, "otherwise whoever can make releases fail sees more than were paid for"


def test_the_command_line_begins_a_budget_and_pays_from_it(tmp_path):
    (tmp_path / "people.csv").write_text("x\n" + "\n".join(map(str, PEOPLE["x"])))
    (tmp_path / "schema.toml").write_text('[columns.x]\nrole = "quasi"\ndomain = [0, 100]\n')
    command = [sys.executable, "-m", "sfumato", "release", "people.csv", "-o", "out", "--method", "private-boxes"]
    command += ["--schema", "schema.toml", "--budget", "b.toml"]
    asked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert asked.returncode == 2
    assert "--budget-epsilon" in asked.stderr
    subprocess.run([*command, "--budget-epsilon", "1"], cwd=tmp_path, capture_output=True, check=True)
    spent = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert spent.returncode == 1
    assert PrivacyBudget(tmp_path / "b.toml").releases == 1
