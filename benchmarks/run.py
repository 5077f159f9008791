"""Measure ours and the rivals on the same tables, keep what was found, and write the pages.

    python benchmarks/run.py [--quick] [--only NAME,NAME] [--check] [--page] [--repetitions 3]

``--check`` exits with 1 if a figure of ours is more than a fifth worse than in the last runs on this machine; nothing
is kept then. ``--page`` writes the pages again without measuring. Real tables are looked for in SFUMATO_DATA, or
shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable

from harness.case import Case, all_cases
from harness.environments import NotInstalledError, interpreter
from harness.history import append, line, losses, read
from harness.measure import REPETITIONS, measure
from harness.page import write

MINUTES = {True: 5.0, False: 40.0}  # of a quick run, and of a full one


def main() -> int:
    """Measure the cases; return 1 if one of them became worse."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help="fewer on a machine that is busy")
    options = parser.parse_args()
    worse: list[str] = []
    if not options.page:
        worse = measured(options)
    if not options.check:
        write()
    for one in worse:
        print(one)
    return 1 if options.check and worse else 0


def measured(options: argparse.Namespace) -> list[str]:
    """Measure and keep each case; return what became worse."""
    known = all_cases()
    names = [name for name in options.only.split(",") if name] or list(known)
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise SystemExit(f"There is no case {', '.join(unknown)}; there are {', '.join(known)}.")
    make_ready((known[name] for name in names), is_everything=not options.only)
    deadline = time.monotonic() + 60.0 * (options.minutes or MINUTES[options.quick])
    load = os.getloadavg()[0]
    worse = []
    for name in names:
        if options.quick and not known[name].is_in_quick and not options.only:
            continue
        found = measure(
            name, known[name], is_quick=options.quick, deadline=deadline, say=say, repetitions=options.repetitions
        )
        new, before = line(name, found, is_quick=options.quick, load=load), read()
        worse += losses(known[name], new, before)
        if not options.check and any(one.get("figures") for one in found):
            append(new)
    return worse


def make_ready(cases: Iterable[Case], *, is_everything: bool) -> None:
    """Compile our kernels and make the environments of all rivals, before the time of the run begins."""
    if is_everything:  # a few cases load what they need themselves
        subprocess.run([sys.executable, "-m", "sfumato", "warm"], check=False, stdout=subprocess.DEVNULL)
    for rival in sorted({one.rival for case in cases for one in case.contenders if one.rival}):
        with contextlib.suppress(NotInstalledError):  # the page says which are missing, and why
            interpreter(rival)


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
