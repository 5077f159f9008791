"""Where a release is written: nobody else's file is lost, links and modes stay, and killed writers leave nothing."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from sfumato.errors import OptionError, RequestError, SfumatoError
from sfumato.private_folder import PrivateFolder
from sfumato.release import target
from sfumato.sources import stores

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


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def there(ranks, people, roles, tmp_path) -> Path:
    """A folder that holds an older release."""
    return ranks(k=10).release(people, schema=roles).write(tmp_path / "out")


URLS = (
    "s3://bucket/out",
    Path("s3://bucket/out"),  # which keeps one slash
    "hdfs://name:8020/out",
    "dbfs:/out",
    "file:///out",
    "jdbc:mysql://host/out",
    "abfss://box@account.host/out",
    "postgresql://host/database",
    " gs://bucket/out",
)


class TestUrls:
    @pytest.mark.parametrize("url", URLS, ids=str)
    def test_a_url_is_no_folder(self, released, ranks, people, roles, tmp_path, monkeypatch, url):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # where nobody answers
        monkeypatch.setattr(stores, "PATIENCE", timedelta(seconds=1))
        with pytest.raises(OptionError, match="scheme"):
            released.write(url)
        with pytest.raises(SfumatoError, match=r"scheme|store must answer"):
            ranks(k=10).release(people, schema=roles, into=url)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("place", ["C:/out", "./s3:/out", "a:b", "out.d/x"])
    def test_other_names_are_folders(self, place):
        assert target.resolve_folder(place).is_absolute()


class TestOtherFiles:
    @pytest.mark.parametrize("exchange", [True, False], ids=["one step", "two renames"])
    def test_a_file_that_arrives_during_the_write_is_not_lost(self, released, there, monkeypatch, exchange):
        put_in_place, before = target.put_in_place, (there / "manifest.json").read_bytes()
        if not exchange:
            monkeypatch.setattr(target, "exchange", lambda one, other: False)

        def arriving(fresh, place):
            (place / "notes.txt").write_text("mine")
            put_in_place(fresh, place)

        monkeypatch.setattr(target, "put_in_place", arriving)
        with pytest.raises(RequestError, match="1 other files that were put there during the write"):
            released.write(there)
        assert (there / "notes.txt").read_text() == "mine"
        assert (there / "manifest.json").read_bytes() == before
        assert [path.name for path in there.parent.iterdir()] == ["out"]

    def test_a_file_that_arrives_in_an_empty_folder_is_not_lost(self, released, tmp_path, monkeypatch):
        (tmp_path / "out").mkdir()
        put_in_place = target.put_in_place

        def arriving(fresh, place):
            monkeypatch.setattr(target, "any", lambda _: False, raising=False)  # it was empty a moment ago
            (place / "notes.txt").write_text("mine")
            put_in_place(fresh, place)

        monkeypatch.setattr(target, "put_in_place", arriving)
        with pytest.raises(OptionError, match="not empty"):
            released.write(tmp_path / "out")
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]

    def test_only_files_of_a_bundle_are_ever_deleted(self, tmp_path):
        for name in ("released.csv", ".released.csv.0123456789abcdef", "notes.txt"):
            (tmp_path / name).touch()
        target.remove_bundle(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


class TestLinks:
    def test_a_link_stays_a_link_and_its_folder_is_written(self, released, tmp_path):
        (tmp_path / "far").mkdir()
        (tmp_path / "link").symlink_to("far")
        for _ in range(2):
            assert released.write(tmp_path / "link") == tmp_path / "link"
        assert (tmp_path / "link").is_symlink()
        assert {path.name for path in (tmp_path / "far").iterdir()} == FILES
        assert {path.name for path in tmp_path.iterdir()} == {"far", "link"}

    def test_a_link_to_a_folder_that_does_not_exist_yet_leads_there(self, released, tmp_path):
        (tmp_path / "link").symlink_to("far")
        released.write(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert {path.name for path in (tmp_path / "far").iterdir()} == FILES

    def test_a_circle_of_links_is_refused(self, released, tmp_path):
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(RequestError):
            released.write(tmp_path / "a")

    def test_a_tilde_is_the_home_folder(self, released, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        released.write("~/out")
        assert [path.name for path in tmp_path.iterdir()] == ["out"]


class TestModes:
    def test_those_of_an_older_release_stay(self, released, there):
        there.chmod(0o750)
        (there / "manifest.json").chmod(0o600)
        (there / "released.csv").chmod(0o640)
        (there / "report.html").unlink()
        released.write(there)
        assert mode(there) == 0o750
        assert mode(there / "manifest.json") == 0o600
        assert mode(there / "released.csv") == 0o640
        assert not mode(there / "report.html") & 0o007, "a new file is not open to more people than its folder"

    def test_those_of_an_empty_folder_stay(self, released, tmp_path):
        (tmp_path / "out").mkdir(mode=0o700)
        assert mode(released.write(tmp_path / "out")) == 0o700

    def test_a_new_folder_has_those_that_the_user_gives_to_new_folders(self, released, tmp_path):
        before = os.umask(0o027)
        try:
            folder = released.write(tmp_path / "out")
        finally:
            os.umask(before)
        assert (mode(folder), mode(folder / "manifest.json")) == (0o750, 0o640)


class TestLeftovers:
    def test_those_of_a_killed_write_are_removed_at_the_next_write_to_the_same_place(self, released, there):
        for name in ("." + there.name + ".0123456789abcdef", ".out.0123456789abcdee.old"):
            (there.parent / name).mkdir()
            (there.parent / name / "released.csv").touch()
            (there.parent / name / ".released.parquet.0123456789abcdef").touch()
        (there.parent / ".other.0123456789abcdef").mkdir()
        released.write(there)
        assert {path.name for path in there.parent.iterdir()} == {"out", ".other.0123456789abcdef"}

    def test_those_of_a_living_writer_are_not(self, there):
        with target.fresh_sibling(there) as fresh:
            (fresh / "released.csv").touch()
            target.sweep(there)
            assert (fresh / "released.csv").exists()
        assert not fresh.exists()

    @pytest.mark.parametrize("barred", ["0", "f"])
    def test_one_that_cannot_be_opened_keeps_no_other(self, there, monkeypatch, barred):
        """That of another user, for example, wherever it is in the list."""
        left = [there.with_name(f".out.{digit * 16}") for digit in "07f"]
        private = [there.with_name(f".out.{digit * 16}.work") for digit in "07f"]
        for folder in (*left, *private):
            folder.mkdir()
            (folder / "released.csv").touch()
        open_file = os.open

        def refuse(path, *given, **named):
            if f".out.{barred * 16}" in str(path):
                raise PermissionError(13, "Permission denied")
            return open_file(path, *given, **named)

        monkeypatch.setattr(os, "open", refuse)
        target.sweep(there)
        PrivateFolder.create(".out.", there.parent, ".work").remove()
        assert {path for path in (*left, *private) if path.exists()} == {
            folder for folder in (*left, *private) if f".{barred * 16}" in folder.name
        }

    def test_an_old_release_that_was_put_aside_comes_back(self, there):
        there.rename(there.with_name(".out.0123456789abcdef.old"))
        target.sweep(there)
        assert {path.name for path in there.iterdir()} == FILES

    @pytest.mark.parametrize(
        ("name", "step", "expected"),
        [
            ("SIGTERM", "put_in_place", 10),
            ("SIGHUP", "put_in_place", 10),
            ("SIGINT", "put_in_place", 10),
            ("SIGTERM", "remove_bundle", 5),  # the new release is in place, the old one is being removed
        ],
    )
    def test_a_signal_leaves_nothing(self, released, there, tmp_path, name, step, expected):
        source = released.write(tmp_path / "source" / "new")
        script = """
            import os, signal, sys
            import sfumato.cli.commands as application
            from sfumato.cli import console
            from sfumato.release import target
            from sfumato.release.read import read_release

            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests without it
            release = read_release(sys.argv[1])
            work, calls = getattr(target, sys.argv[4]), []

            def instead(*arguments):
                calls.append(arguments)
                if len(calls) == 1:
                    os.kill(os.getpid(), getattr(signal, sys.argv[3]))
                return work(*arguments)

            setattr(target, sys.argv[4], instead)
            application._call = lambda _: release.write(sys.argv[2])
            sys.exit(application.run([]))
        """
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), source, there, name, step], check=False, capture_output=True
        )
        assert ended.returncode != 0
        assert {path.name for path in tmp_path.iterdir()} == {"out", "source"}
        assert f'"k": {expected}' in (there / "manifest.json").read_text()


class TestBeforeTheWork:
    def test_a_target_that_cannot_be_written_is_refused_before_rows_are_read(self, ranks, tmp_path):
        (tmp_path / "file").touch()
        for place in (tmp_path / "file", tmp_path / "file" / "out", tmp_path / ("a" * 300)):
            with pytest.raises(RequestError):
                ranks().release(tmp_path / "absent.csv", into=place)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_parent_that_cannot_be_written_too(self, ranks, tmp_path):
        tmp_path.chmod(0o500)
        with pytest.raises(OptionError, match="writable"):
            ranks().release(tmp_path / "absent.csv", into=tmp_path / "out")

    def test_a_name_as_long_as_the_system_allows_is_written(self, released, tmp_path):
        assert {path.name for path in released.write(tmp_path / ("a" * 255)).iterdir()} == FILES


def test_a_folder_that_is_in_use_is_never_swept(tmp_path):
    """Each writer sweeps what others left, at the moment in which others make and lock their folders."""
    failures = []

    def work():
        try:
            for _ in range(100):
                folder = PrivateFolder.create("rows-", tmp_path)
                (folder.path / "rows").write_text("rows")
                assert (folder.path / "rows").read_text() == "rows"
                folder.remove()
        except (OSError, AssertionError) as error:
            failures.append(error)

    writers = [threading.Thread(target=work) for _ in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failures and not list(tmp_path.iterdir())
