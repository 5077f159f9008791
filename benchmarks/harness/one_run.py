"""One step of a case in a fresh process: `prepare`, `recount`, or a run of the contender with this number.

    python one_run.py CASE_FILE STEP INPUTS OUTPUT SEED [quick]

What it measured is written to ``figures.json`` in OUTPUT. This file runs in the environment of every rival.
"""

from __future__ import annotations

import json
import statistics
import sys
from importlib.metadata import version
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # the folder of `harness`, which no rival's environment has

from harness.case import Case, Run, load  # noqa: E402


def take(case: Case, step: str, run: Run) -> dict[str, object]:
    """Do the step; return what is known after it."""
    if step == "prepare":
        case.prepare(run)
        return {}
    if step == "recount":
        counted = dict(case.recount(run)) if case.recount else {}
        if "sfumato" in sys.modules:
            raise RuntimeError("a recount must not use what it judges")
        return counted
    contender = case.contenders[int(step)]
    contender.run(run)
    if not run.sections:
        raise RuntimeError("a contender must time its work: with run.clock()")
    wall, processor = (statistics.median(seconds) for seconds in zip(*run.sections, strict=True))
    used = {"package": contender.rival, "version": version(contender.rival)} if contender.rival else {}
    return {"wall": wall, "processor": processor, **used, **run.notes}


def main(words: list[str]) -> None:
    """Take the step that the command line names."""
    file, step, inputs, output, seed, *more = words
    run = Run(inputs=Path(inputs), output=Path(output), is_quick="quick" in more, seed=int(seed))
    found = take(load(Path(file)), step, run)
    (run.output / ("recount.json" if step == "recount" else "figures.json")).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
