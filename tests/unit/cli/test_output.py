"""What is printed is true, and what cannot be printed does not undo what was done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sfumato.cli.commands import run

ROLES = ["--role", "age=quasi", "--role", "Größe=quasi"]


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> Path:
    draw = np.random.default_rng(6)
    path = tmp_path_factory.mktemp("data") / "people.csv"
    rows = [f"{draw.integers(18, 80)},{draw.normal(170, 10):.1f}" for _ in range(60)]
    path.write_text("\n".join(["age,Größe", *rows]) + "\n", encoding="utf-8")
    return path


def program(arguments: list[str], **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from sfumato.cli import main; main()", *arguments]
    return subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True, **options)


@pytest.fixture
def release(people, tmp_path) -> list[str]:
    return ["release", str(people), "-o", str(tmp_path / "out"), "--k", "4", *ROLES]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to try")
class TestAFullDisk:
    def test_a_release_that_was_written_is_said_to_be_complete(self, release, tmp_path):
        with Path("/dev/full").open("w") as full:
            ended = program(release, stdout=full)
        assert ended.returncode == 2
        assert "could not be printed: No space left" in ended.stderr
        assert "the release is complete in" in ended.stderr
        assert "othing was written" not in ended.stderr
        assert (tmp_path / "out" / "manifest.json").exists()

    @pytest.mark.parametrize("arguments", [["inspect"], ["--help"]])
    def test_other_results_that_are_lost_are_a_failure(self, people, arguments):
        with Path("/dev/full").open("w") as full:
            ended = program([*arguments, *([str(people)] if arguments == ["inspect"] else [])], stdout=full)
        assert ended.returncode == 2
        assert "No space left" in ended.stderr
        assert "unexpected" not in ended.stderr
        assert "Exception ignored" not in ended.stderr


@pytest.mark.parametrize("command", ["release", "help"])
def test_a_reader_that_stops_reading_is_no_failure(release, tmp_path, command):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = program(release if command == "release" else ["--help"], stdout=writing)
    finally:
        os.close(writing)
    assert ended.returncode == 0
    assert "rror" not in ended.stderr
    assert (tmp_path / "out").exists() == (command == "release")


def test_a_terminal_that_knows_ascii_only_gets_similar_signs(release):
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    ended = program(release, stdout=subprocess.PIPE, env=environment)
    assert ended.returncode == 0
    assert " ... " in ended.stdout
    ended = program([*release, "--json"], stdout=subprocess.PIPE, env=environment)
    assert json.loads(ended.stdout)["manifest"]["columns"][1]["name"] == "Größe"


def test_a_closed_standard_output_is_no_failure(release, tmp_path):
    ended = program(release, stdout=None, preexec_fn=lambda: os.close(1))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "out" / "manifest.json").exists()


def test_where_to_write_is_checked_before_the_table_is_read(tmp_path, capfd):
    (tmp_path / "mine.txt").touch()
    assert run(["release", str(tmp_path / "absent.csv"), "--k", "4", "-o", str(tmp_path)]) == 2
    assert "must be empty" in capfd.readouterr().err


def test_a_seed_is_said_to_be_a_secret(release, capfd):
    assert run([*release, "--seed", "3"]) == 0
    assert "warning: A seed is a secret" in capfd.readouterr().err


class TestVerify:
    def test_a_good_bundle_holds(self, release, tmp_path, capfd):
        assert run(release) == 0
        capfd.readouterr()
        assert run(["verify", str(tmp_path / "out")]) == 0
        shown = capfd.readouterr().out
        for word in ("unchanged", "4-anonymous", "verified when the release was made"):
            assert word in shown
        assert run(["verify", str(tmp_path / "out"), "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["holds"] is True

    def test_a_larger_k_ends_with_one_and_a_changed_file_with_three(self, release, tmp_path, capfd):
        assert run(release) == 0
        manifest = tmp_path / "out" / "manifest.json"
        written = manifest.read_text()
        manifest.write_text(written.replace('"k": 4', '"k": 40'))
        assert run(["verify", str(tmp_path / "out")]) == 1
        assert "40-anonymous" in capfd.readouterr().err
        assert run(["estimate", str(tmp_path / "out"), "mean(age)"]) == 1
        manifest.write_text(written)
        (tmp_path / "out" / "report.html").write_text("all is well")
        assert run(["verify", str(tmp_path / "out")]) == 3
        assert "report.html changed" in capfd.readouterr().err
