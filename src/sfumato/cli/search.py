"""Show the progress of a search for better boxes or groups. Ctrl-C stops the search and keeps the best so far."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.methods.base import Method
    from sfumato.methods.search_budget import Progress


@contextmanager
def watched(method: Method) -> Iterator[Method]:
    """Yield the method with a progress bar for its search, if it has one; without a terminal, progress is logged."""
    from sfumato.methods.search_budget import SearchBudget

    budget = getattr(method, "search", None)
    if not sys.stderr.isatty() or not isinstance(budget, SearchBudget):
        yield method
        return
    bar = _bar()
    task = bar.add_task("search", total=1.0, gain=0.0, start=False, visible=False)

    def report(now: Progress) -> None:
        if not bar.tasks[task].started:
            bar.start_task(task)
        bar.update(task, completed=now.share, gain=now.gain, visible=True)

    searching: Any = method  # it has a search, as the budget shows
    with bar:
        yield replace(searching, search=replace(budget, progress=report))


def _bar() -> Any:
    """Return a progress bar: share of the budget that is spent, and gain so far."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    gain = TextColumn("[green]{task.fields[gain]:.1%} better[/green]  [dim]Ctrl-C keeps it[/dim]")
    console = Console(stderr=True)
    return Progress(TextColumn("· search"), BarColumn(), TimeRemainingColumn(), gain, console=console, transient=True)
