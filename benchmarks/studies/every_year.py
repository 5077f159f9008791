"""Ten releases of the same people with a ledger: time and width, relative to first releases of the same tables.

    python benchmarks/studies/every_year.py [--people 100000] [--leaving 0.0] [--slack 0]

People are added every year, a share of them may leave, and k and what is kept change. The time is that of all
processors, so it tells the same on a busy machine; writing is part of it. It is divided by that of a first release,
with a new ledger; a release without any ledger is timed, too. The width is the mean range of age and of income in
standard deviations, divided by that of a release without a ledger. The exit code is 1 if a release takes more than
``MOST_TIME`` times as long, or if the median of the ten widths exceeds ``MOST_WIDTH``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sfumato as sf

MOST_TIME, MOST_WIDTH = 3.0, 1.25
ROLES = {"id": "person", "age": "quasi", "income": "quasi", "sex": "quasi", "illness": "sensitive"}
YEARS: tuple[tuple[float, int, tuple[str, ...] | None], ...] = (  # share of the people so far, k, what is kept
    (0.60, 5, None),
    (0.64, 5, None),
    (0.68, 10, None),
    (0.72, 5, ("mean(income)",)),
    (0.76, 5, None),
    (0.80, 8, None),
    (0.85, 5, ("corr(age, income)",)),
    (0.90, 10, None),
    (0.95, 5, None),
    (1.00, 5, ("mean(age)",)),
)


@dataclass(frozen=True)
class Made:
    """A release, and what it took."""

    rows: pd.DataFrame
    seconds: float

    def widths(self, table: pd.DataFrame) -> list[float]:
        """Return the mean width of each column, in its standard deviations."""
        ranges = {name: self.rows[f"{name}_high"] - self.rows[f"{name}_low"] for name in ("age", "income")}
        return [float(widths.mean() / table[name].std()) for name, widths in ranges.items()]


def draw_people(count: int) -> pd.DataFrame:
    """Draw invented people; those of a year are the first ones."""
    draw = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "id": [f"N{number}" for number in range(count)],
            "age": draw.integers(18, 95, count),
            "income": np.round(draw.lognormal(10.0, 0.7, count)),
            "sex": draw.choice(["f", "m"], count),
            "illness": draw.choice(["a", "b", "c", "d", "e", "f"], count),
        }
    )


def take_time(make: Callable[[], Any]) -> Made:
    """Make a release, and measure it."""
    start = time.process_time()
    made = make()
    return Made(made.to_pandas(), time.process_time() - start)


def main() -> int:
    """Make the releases, print a line for each, and return 1 if a limit is exceeded."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--people", type=int, default=100_000)
    options.add_argument("--leaving", type=float, default=0.0, help="share of the people who leave every year")
    options.add_argument("--slack", type=int, default=0)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    everybody, draw = draw_people(given.people), np.random.default_rng(2)
    stays = np.ones(given.people, dtype=bool)
    folder, failed, widths = Path(tempfile.mkdtemp()), False, []
    for rows, kept in ((5000, None), (5500, ("mean(income)",))):  # the kernels are compiled, in threads of their own
        place: dict[str, Any] = {"ledger": folder / "warm", "into": folder / f"warm-{rows}"}
        sf.Boxes(k=5, keep=kept).release(everybody[:rows], schema=ROLES, **place)
    print("year  people  k   kept                released  seconds  first  times  without  width")
    for year, (share, k, keep) in enumerate(YEARS, 1):
        if year > 1:
            stays &= draw.random(given.people) >= given.leaving
        table = everybody[: round(share * given.people)][stays[: round(share * given.people)]]
        asked: dict[str, Any] = {"k": k, "keep": keep, "suppress": 0.5 if given.leaving else 0.0}
        with_ledger = sf.Boxes(**asked, slack=given.slack)
        written: dict[str, Any] = {"schema": ROLES, "into": folder / f"{year}"}
        made = take_time(lambda: with_ledger.release(table, ledger=folder / "people.ledger", **written))  # noqa: B023
        plain, empty = sf.Boxes(**asked), {"ledger": folder / f"new-{year}.ledger", "into": folder / f"first-{year}"}
        first = take_time(lambda: with_ledger.release(table, schema=ROLES, **empty))  # noqa: B023
        fresh = take_time(lambda: plain.release(table, schema=ROLES, into=folder / "fresh"))  # noqa: B023
        times = made.seconds / first.seconds
        own, others = made.widths(table), fresh.widths(table)
        widths.append(sum(own) / sum(others))
        failed |= times > MOST_TIME
        print(
            f"{year:4}  {len(table):6,}  {k:2}  {', '.join(keep or ('all columns',)):18}  {len(made.rows):8,}  "
            f"{made.seconds:7.1f}  {first.seconds:5.1f}  {times:5.2f}  {fresh.seconds:7.1f}  {widths[-1]:5.2f}  "
            f"({own[0]:.3f} + {own[1]:.3f}) ÷ ({others[0]:.3f} + {others[1]:.3f})",
            flush=True,
        )
    middle = float(np.median(widths))
    print(f"median width {middle:.2f} times that without a ledger (limit {MOST_WIDTH}); time limit {MOST_TIME}")
    return int(failed or middle > MOST_WIDTH)


if __name__ == "__main__":
    raise SystemExit(main())
