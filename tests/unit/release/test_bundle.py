"""All of a release is on the disk, or what was there before: whatever step fails, and wherever a crash strikes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sfumato.errors import OptionError, RequestError
from sfumato.release import bundle, target
from sfumato.release.read import read_release

FILES = {
    "released.parquet",
    "released.csv",
    "manifest.json",
    "codebook.csv",
    "README.txt",
    "promises.sql",
    "report.html",
    "report.json",
}


def state(folder: Path) -> dict[str, bytes] | None:
    """Every file of a folder with its content; None where there is no folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else None


@pytest.fixture
def older(ranks, people, roles):
    return ranks(k=10).release(people, schema=roles)


@pytest.fixture
def there(older, tmp_path) -> Path:
    """A folder that holds an older release."""
    return older.write(tmp_path / "out")


class TestWriting:
    def test_writes_rows_manifest_and_report(self, released, tmp_path):
        folder = released.write(tmp_path / "a" / "out")
        assert set(state(folder)) == FILES
        assert (folder / "released.csv").read_text().count("\n") == 61

    def test_nothing_else_lies_around_afterwards(self, released, tmp_path):
        released.write(tmp_path / "out")
        released.write(tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_an_empty_folder_is_filled(self, released, tmp_path):
        (tmp_path / "out").mkdir()
        assert set(state(released.write(tmp_path / "out"))) == FILES

    def test_an_older_release_is_replaced_as_a_whole(self, released, older, tmp_path):
        files = {**older.report_files(), "boxes.png": b"picture"}
        bundle.write(older.table, older.manifest, files, tmp_path / "out")
        assert set(state(released.write(tmp_path / "out"))) == FILES

    def test_it_is_replaced_even_where_folders_cannot_be_exchanged(self, released, older, tmp_path, monkeypatch):
        monkeypatch.setattr(target, "exchange", lambda one, other: False)
        older.write(tmp_path / "out")
        released.write(tmp_path / "out")
        assert '"k": 5' in (tmp_path / "out" / "manifest.json").read_text()
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    @pytest.mark.parametrize("name", ["notes.txt", "manifest.json"])
    def test_a_folder_with_other_files_is_left_alone(self, released, tmp_path, name):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / name).write_text("{}")
        before = state(tmp_path / "out")
        with pytest.raises(RequestError, match="must be empty or contain an older release"):
            released.write(tmp_path / "out")
        assert state(tmp_path / "out") == before

    def test_a_file_that_was_put_beside_a_release_is_not_lost(self, released, tmp_path):
        folder = released.write(tmp_path / "out")
        (folder / "notes.txt").write_text("mine")
        with pytest.raises(RequestError, match="1 other files"):
            released.write(folder)
        assert (folder / "notes.txt").read_text() == "mine"

    def test_a_file_in_the_place_of_the_folder_is_left_alone(self, released, tmp_path):
        (tmp_path / "out").write_text("mine")
        with pytest.raises(RequestError, match="must be a folder"):
            released.write(tmp_path / "out")
        assert (tmp_path / "out").read_text() == "mine"


class Failing:
    """A function that does its work, but for one call at which the disk is full."""

    def __init__(self, work, fail_at: int) -> None:
        self.work, self.fail_at, self.calls = work, fail_at, 0

    def __call__(self, *arguments, **options):
        self.calls += 1
        if self.calls == self.fail_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.work(*arguments, **options)


@pytest.mark.parametrize("exchange", [True, False], ids=["one step", "two renames"])
@pytest.mark.parametrize("step", ["mkdir", "open", "fsync", "replace"])
def test_whichever_step_fails_the_old_state_remains_and_nothing_else(released, there, monkeypatch, step, exchange):
    before = state(there)
    where = {"mkdir": Path, "open": Path, "fsync": os, "replace": Path}[step]
    if not exchange:
        monkeypatch.setattr(target, "exchange", lambda one, other: False)
    for fail_at in range(1, 100):
        failing = Failing(getattr(where, step), fail_at)
        with monkeypatch.context() as patched:
            patched.setattr(where, step, lambda *a, failing=failing, **o: failing(*a, **o))
            try:
                released.write(there)
            except RequestError as refused:
                assert "No space left" in str(refused) or "contain an older release" in str(refused)
            else:
                break
        assert [path.name for path in there.parent.iterdir()] == ["out"]
        assert state(there) == before
    assert fail_at > 1, "no call ever failed, so nothing was tried"
    assert '"k": 5' in (there / "manifest.json").read_text()


def test_a_first_write_that_fails_leaves_no_folder_above_it_either(released, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", Failing(os.fsync, 3))
    with pytest.raises(OptionError):
        released.write(tmp_path / "a" / "b" / "out")
    assert list(tmp_path.iterdir()) == []


CRASH = """
    import os, sys
    from pathlib import Path
    from sfumato.release import bundle, target
    from sfumato.release.read import read_release

    folder, source, step, at = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    release, calls = read_release(source), 0

    def crashing(work):
        def instead(*arguments, **options):
            global calls
            calls += 1
            if calls == at:
                os._exit(9)  # as a power cut would: nothing is cleaned up
            return work(*arguments, **options)
        return instead

    where = {"fsync": os, "replace": Path}.get(step, target)
    setattr(where, step, crashing(getattr(where, step)))
    release.write(folder)
"""


@pytest.mark.parametrize(
    ("step", "at", "expected"),
    [
        ("fsync", 1, "old"),
        ("fsync", 5, "old"),
        ("put_in_place", 1, "old"),
        ("exchange", 1, "old"),
        ("remove_bundle", 1, "new"),
    ],
)
def test_wherever_a_crash_strikes_the_folder_is_the_old_one_or_the_new_one(released, there, step, at, expected):
    old = state(there)
    source = read_release(released.write(there.parent / "first")).write(there.parent / "new")  # as the script has it
    new = state(source)
    script = textwrap.dedent(CRASH)
    ended = subprocess.run([sys.executable, "-c", script, there, source, step, str(at)], check=False)
    assert ended.returncode == 9
    assert state(there) == (old if expected == "old" else new)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is known to exchange folders in one step")
def test_two_folders_are_exchanged_in_one_step(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert target.exchange(tmp_path / "one", tmp_path / "other")
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["other"]
