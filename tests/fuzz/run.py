"""Try every method on generated tables, and go on where an earlier run stopped.

    python tests/fuzz/run.py --tables 100000 --state fuzz.json --workers 2
    python tests/fuzz/run.py --seed 1234        # one table again, with all that is known about it

Each table is made from its seed, released by one method with options from the same seed, and judged without the
library: see promises.py. The run ends with 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

from tests.fuzz.state import CHUNK, State
from tests.fuzz.trial import GOOD, Outcome, trial

LONGEST = 300.0  # seconds after which a table counts as hanging; kernels are compiled within this time, too
WRITTEN_EVERY = 5.0  # seconds


def main() -> int:
    arguments = _arguments()
    if arguments.seed is not None:
        return _again(arguments.seed)
    state = State.read(arguments.state)
    chunks = [number for number in range(-(-arguments.tables // CHUNK)) if number not in state.done]
    started, written, earlier = time.monotonic(), 0.0, state.wall_seconds
    try:
        for number, outcomes in _outcomes(iter(chunks), arguments.workers):
            state.add(number, outcomes)
            state.wall_seconds = earlier + time.monotonic() - started
            for one in outcomes:
                if one.verdict not in GOOD:
                    print(f"{one.verdict}: seed {one.seed}, {one.method}: {one.detail.strip().splitlines()[-1][:200]}")
            if time.monotonic() - written > WRITTEN_EVERY:
                state.write(arguments.state)
                written = time.monotonic()
                print(f"{state.tables:,} tables, {len(state.failures):,} wrong", file=sys.stderr, end="\r")
    finally:
        state.write(arguments.state)
    print(state.summary())
    return 1 if state.failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=100_000, help="seeds 0 … TABLES − 1 are tried")
    parser.add_argument("--state", type=Path, default=Path("fuzz.json"), help="file that the run goes on from")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    parser.add_argument("--seed", type=int, help="try this one again and show what is wrong")
    return parser.parse_args()


def _again(seed: int) -> int:
    from tests.fuzz.options import made_options

    name, options = made_options(seed)
    outcome = trial(seed)
    print(f"{name} {options}\n{outcome.verdict}\n{outcome.detail}")
    return 0 if outcome.verdict in GOOD else 1


@dataclass
class Worker:
    """A process that tries chunks, and the chunk that it works on."""

    process: Any
    connection: Connection
    chunk: int | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    heard: float = 0.0  # when it reported the last table

    @classmethod
    def start(cls) -> Worker:
        spawning = multiprocessing.get_context("spawn")
        here, there = spawning.Pipe()
        process = spawning.Process(target=_work, args=(there,), daemon=True)
        process.start()
        there.close()
        return cls(process, here)

    def give(self, chunk: int) -> None:
        """Begin a chunk, or go on with it after the tables that are known."""
        self.chunk, self.heard = chunk, time.monotonic()
        self.connection.send((chunk * CHUNK + len(self.outcomes), (chunk + 1) * CHUNK))

    def lost(self, verdict: str) -> None:
        """Note the table that the process hangs at or died of, and put another process in its place."""
        assert self.chunk is not None
        seed = self.chunk * CHUNK + len(self.outcomes)
        self.outcomes.append(Outcome(seed=seed, method="unknown", verdict=verdict, detail=f"the process {verdict}"))
        self.process.kill()
        self.process.join()
        fresh = Worker.start()
        self.process, self.connection = fresh.process, fresh.connection
        self.give(self.chunk)


def _work(connection: Connection) -> None:
    while True:
        try:
            first, end = connection.recv()
        except EOFError:
            return
        for seed in range(first, end):
            connection.send(trial(seed))
        connection.send(None)


def _outcomes(chunks: Iterator[int], workers: int) -> Iterator[tuple[int, list[Outcome]]]:
    """Give chunks to processes, and yield each chunk with its outcomes when it is done."""
    at_work = [Worker.start() for _ in range(workers)]
    for worker in at_work:
        _next_chunk(worker, chunks)
    while busy := [worker for worker in at_work if worker.chunk is not None]:
        ready = wait([worker.connection for worker in busy], timeout=5.0)
        for worker in busy:
            if worker.connection in ready:
                done = _listen(worker)
                if done is not None:
                    yield done
                    _next_chunk(worker, chunks)
            elif time.monotonic() - worker.heard > LONGEST:
                worker.lost("hangs")
    for worker in at_work:
        worker.connection.close()
        worker.process.join()


def _listen(worker: Worker) -> tuple[int, list[Outcome]] | None:
    """Take one report; return the chunk if it was the last."""
    try:
        report = worker.connection.recv()
    except EOFError:
        worker.lost("died")
        return None
    worker.heard = time.monotonic()
    if report is not None:
        worker.outcomes.append(report)
        return None
    assert worker.chunk is not None
    return worker.chunk, worker.outcomes


def _next_chunk(worker: Worker, chunks: Iterator[int]) -> None:
    worker.outcomes, chunk = [], next(chunks, None)
    if chunk is None:
        worker.chunk = None
    else:
        worker.give(chunk)


if __name__ == "__main__":
    sys.exit(main())
