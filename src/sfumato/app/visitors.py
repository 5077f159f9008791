"""Visitors of the page: each has a session of its own, with a folder, choices, runs and a worker."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.app.choices import Choices, History, Message, Source
from sfumato.app.jobs import BackgroundJob, JobQueue
from sfumato.app.projects import OpenedProject, SavedProject
from sfumato.app.texts import choose_language

if TYPE_CHECKING:
    from sfumato.app.run_tasks import MakeRelease, RunResult

MOST = 20  # sessions at a time


@dataclass(frozen=True, kw_only=True)
class Run:
    """A release that was made, or that is being made, with the choices that made it."""

    folder: Path  # of the run; the bundle is in its folder "out"
    choices: Choices
    task: MakeRelease  # its schema has a role for every column
    job: BackgroundJob
    taken: list[str] = field(default_factory=list)  # what was taken away of it

    @property
    def result(self) -> RunResult | None:
        """What was made; None if it is not complete, or failed."""
        result: RunResult | None = self.job.result
        return result

    @property
    def bundle(self) -> Path:
        """The folder of the bundle."""
        return self.folder / "out"


class Visitor:
    """One session. Whoever has its cookie sees this, and nothing of other sessions."""

    def __init__(self, session: str, folder: Path, language: str, root: str = "") -> None:
        self.session = session
        self.root = root  # path of all pages
        self.folder = folder
        self.language = language
        self.seen = time.monotonic()
        self.jobs = JobQueue(folder)
        self.source: Source | None = None
        self.opened = 0  # tables so far: a form of another tab may be about the one before
        self.history = self._fresh_history()
        self.runs: list[Run] = []
        self.made_runs = 0  # also of runs that were cancelled
        self.saved_changes = 0  # changes of the history when the project was saved
        self.saving: SavedProject | None = None  # where each change is saved; None: nowhere
        self.waiting: OpenedProject | None = None  # a project whose table is not open yet
        self._arriving: set[Path] = set()  # folders of tables that are not opened yet
        self._opening = threading.Lock()

    @property
    def choices(self) -> Choices:
        """The current choices."""
        return self.history.now

    @property
    def has_unsaved_work(self) -> bool:
        """Whether choices were not saved, or a release was not taken away."""
        if self.source is None:
            return False
        left = any(run.result is not None and not run.taken for run in self.runs)
        return left or self.history.changes != self.saved_changes

    def open(self, source: Source) -> None:
        """Start with another table; uploads and runs of the one before are removed. The last one wins."""
        path = Path(source.path)
        with self._opening:
            self._arriving.discard(path.parent)
            self._clear(path)
            self.source = source
            project, self.waiting = self.waiting, None
            if project is not None:
                self.take(project)

    def reread(self, source: Source) -> None:
        """Read the table that is open in another way; choices and runs stay, and forms shown before are refused."""
        with self._opening:
            self.source = replace(source, attempt=source.attempt + 1)
            self.opened += 1
        self.save()

    def take(self, project: OpenedProject) -> None:
        """Take the choices of a project, and its way of reading, for the table that is open."""
        assert self.source is not None
        reading = project.reading or self.source.reading
        if reading != self.source.reading:
            self.source = replace(self.source, reading=reading, attempt=self.source.attempt + 1)
        self.history.change(Message("project {name}", {"name": project.name}), **vars(project.choices))
        self.saved_changes = self.history.changes

    def save(self) -> None:
        """Save the project, if the visitor has allowed it."""
        if self.saving is not None and self.source is not None:
            self.saving.write(self.source, self.choices, self.folder)
            self.saved_changes = self.history.changes

    def forget(self) -> None:
        """Close the table, and remove what was stored."""
        with self._opening:
            self._clear(None)
            self.source = None

    def room_for_table(self) -> Path:
        """Return a new folder for a table that will be opened; until then, opening another one leaves it alone."""
        path = self.room("table")
        self._arriving.add(path)
        return path

    def refuse(self, room: Path) -> None:
        """Remove the folder of a table that will not be opened."""
        self._arriving.discard(room)
        shutil.rmtree(room, ignore_errors=True)

    def room(self, name: str) -> Path:
        """Return a new folder in that of the visitor."""
        path = self.folder / f"{name}-{secrets.token_hex(4)}"
        path.mkdir(mode=0o700)
        return path

    def leave(self) -> None:
        """End all work, and remove everything that was stored."""
        self.jobs.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, number: int) -> Run | None:
        """Return the run with this number."""
        return next((run for run in self.runs if run.task.number == number), None)

    def _clear(self, kept: Path | None) -> None:
        self.jobs.close()
        for path in self.folder.iterdir():
            if path not in self._arriving and (kept is None or not kept.is_relative_to(path)):
                shutil.rmtree(path, ignore_errors=True)
        self.jobs, self.history = JobQueue(self.folder), self._fresh_history()
        self.runs, self.made_runs = [], 0
        self.saved_changes, self.saving = 0, None
        self.opened += 1

    def _fresh_history(self) -> History:
        from sfumato.schema.schema import Schema

        return History(Choices(schema=Schema(())), self.save)


class Visitors:
    """All sessions of the server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.root = f"/{secrets.token_urlsafe(16)}"  # path of all pages, which other servers cannot know
        self._by_session: dict[str, Visitor] = {}
        self.seen = time.monotonic()  # the last time that anybody came
        self.present = 0  # requests that are being answered

    @property
    def absence(self) -> float:
        """Seconds without a visitor; an upload that takes long is a visit."""
        return 0.0 if self.present else time.monotonic() - self.seen

    @property
    def have_tables(self) -> bool:
        """Whether anybody has opened a table."""
        return any(one.source is not None for one in self._by_session.values())

    @property
    def have_unsaved_work(self) -> bool:
        """Whether anything would be lost if the server ended now."""
        return any(one.has_unsaved_work for one in self._by_session.values())

    def find(self, session: str) -> Visitor | None:
        """Return the visitor of a session, and remember that it was here."""
        visitor = self._by_session.get(session)
        if visitor is not None:
            self.seen = visitor.seen = time.monotonic()
        return visitor

    def welcome(self, accepted_languages: str) -> Visitor | None:
        """Make a session; sessions without a table make room for it. None if there are too many with one."""
        empty = sorted((one for one in self._by_session.values() if one.source is None), key=lambda one: one.seen)
        while len(self._by_session) >= MOST and empty:
            gone = empty.pop(0)
            gone.leave()
            del self._by_session[gone.session]
        if len(self._by_session) >= MOST:
            return None
        session = secrets.token_urlsafe(32)
        folder = self._folder / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        self.seen = time.monotonic()
        self._by_session[session] = Visitor(session, folder, choose_language(accepted_languages), self.root)
        return self._by_session[session]

    def leave(self) -> None:
        """End all sessions."""
        for visitor in self._by_session.values():
            visitor.leave()
        self._by_session.clear()
