"""Log the progress of Spark stages."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sfumato.engines.progress import LoggedProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAUSE = 1.0  # seconds between looks


@contextlib.contextmanager
def stage_progress(spark: SparkSession, what: str, stages: int) -> Iterator[None]:
    """Tell the share that is done and the time to go while work of so many stages runs; Connect sessions tell nothing.

    The jobs of the work are found by a tag: other threads may use the same session.
    """
    context = _context(spark)
    if context is None:
        yield
        return
    watch = _Watch(context, LoggedProgress(what, stages))
    context.addJobTag(watch.tag)
    watch.start()
    try:
        yield
    finally:
        watch.ended.set()
        watch.join()
        with contextlib.suppress(Exception):  # the session may be gone, which the work itself tells
            context.removeJobTag(watch.tag)


def _context(spark: SparkSession) -> Any:
    with contextlib.suppress(Exception):  # a session of Spark Connect has none
        return spark.sparkContext
    return None


class _Watch(threading.Thread):
    """Looks at the jobs with its tag now and then."""

    def __init__(self, context: Any, progress: LoggedProgress) -> None:
        super().__init__(daemon=True)
        self.context, self.progress = context, progress
        self.tag = f"sfumato-{secrets.token_hex(8)}"
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(PAUSE):
            with contextlib.suppress(Exception):  # progress is only told, and Spark may forget old jobs
                self.progress.reach(self._stages_done())

    def _stages_done(self) -> float:
        """Return how many stages are done; of those in work, the share of their tasks."""
        tracker = self.context.statusTracker()
        jobs = self.context._jsc.sc().statusTracker().getJobIdsForTag(self.tag)
        infos = [info for job in jobs if (info := tracker.getJobInfo(job)) is not None]
        stages = [tracker.getStageInfo(number) for number in {stage for info in infos for stage in info.stageIds}]
        shares = [one.numCompletedTasks / one.numTasks for one in stages if one is not None and one.numTasks]
        return float(sum(shares))
