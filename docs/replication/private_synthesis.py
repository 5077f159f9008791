"""Write private-synthesis.md: the k-marginal score of private synthesis over ε, beside methods without a proof.

    python docs/replication/private_synthesis.py [folder of the real tables]

The folder contains ``nist/``. By default it is SFUMATO_DATA, or shared/data next to the repository. Without the table
the page is not changed.
"""

from __future__ import annotations

import itertools
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import sfumato as sf
from sfumato.methods.base import Method
from sfumato.release.release import Release
from sfumato.table.intervals import ANY, Intervals, is_interval, parse_set
from spectral import folder

PAGE = Path(__file__).with_name("private-synthesis.md")
COLUMNS = ["AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DEYE"]
EPSILONS = (0.25, 1.0, 4.0, 10.0)
DELTA = 1e-5
BINS = 20  # of the age, by percentiles of the original, as NIST's report compares it
TEXT = """# Private synthesis of NIST's table

Written by `docs/replication/private_synthesis.py`. The table is the national excerpt of 2019 of NIST's Collaborative
Research Cycle: {rows:,} people, ten columns. The k-marginal score compares all {pairs} pairs of columns, the age in
{bins} bins: 1000 − 500 times the mean of Σ |share before − share after|. 1000 is a copy, 0 has nothing in common. AIM's
published score at (1, 1e-5) is 976. One release each; δ = {delta:g}. Seconds are of the processor.

| method | ε | k-marginal | seconds |
|---|---:|---:|---:|
{lines}

Two random halves of the table itself score {halves:.0f} against each other. Synthesis by trees promises nothing; it
follows relations of all columns, which this score of pairs does not see. Plain boxes promise k people per box, and
that statistics lie in their intervals; to be scored, each cell is drawn from its range or its set.
"""


def read_people(data: Path) -> pd.DataFrame:
    """Return the ten columns; the age is a number, the others are categories."""
    whole = pd.read_csv(data / "nist" / "national2019.csv", dtype=str, keep_default_na=False)[COLUMNS]
    return whole.assign(
        AGEP=whole.AGEP.astype(int), **{name: pd.Categorical(whole[name]) for name in COLUMNS if name != "AGEP"}
    )


def score(people: pd.DataFrame, released: pd.DataFrame) -> float:
    """Return the k-marginal score of two columns at a time."""
    edges = np.unique(np.percentile(people.AGEP, np.arange(0, 100, 100 / BINS), method="higher"))[1:]
    before, after = (
        frame.assign(AGEP=np.searchsorted(edges, frame.AGEP.astype(float), side="right")).astype(str)
        for frame in (people, released)
    )
    distances = [
        (before.groupby([*pair]).size() / len(before))
        .subtract(after.groupby([*pair]).size() / len(after), fill_value=0)
        .abs()
        .sum()
        for pair in itertools.combinations(COLUMNS, 2)
    ]
    return 1000.0 - 500.0 * float(np.mean(distances))


def draw_cells(release: Release, people: pd.DataFrame) -> pd.DataFrame:
    """Return rows with one value per cell: that of the release, or one that is drawn from its range or set."""
    draw, columns = np.random.default_rng(0), {}
    for name in COLUMNS:
        if is_interval(name, release.table.kinds):
            ends = Intervals.of(release.table, name)
            columns[name] = np.floor(draw.uniform(ends.low, ends.high + 1.0))
        elif name == "AGEP":
            columns[name] = release.table.numbers(name)
        else:
            every, cells = list(people[name].cat.categories), release.table.arrow.column(name).to_pylist()
            sets = {cell: parse_set(cell) for cell in set(cells)}
            columns[name] = [draw.choice(every if ANY in sets[cell] else list(sets[cell])) for cell in cells]
    return pd.DataFrame(columns)


def measure(name: str, epsilon: str, method: Method, people: pd.DataFrame) -> str:
    """Return a line of the table."""
    schema = {"AGEP": {"role": "quasi", "domain": [0, 99]}} | {one: "quasi" for one in COLUMNS if one != "AGEP"}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = method.release(people, schema=schema)
    seconds = time.process_time() - start
    released = draw_cells(release, people)
    line = f"| {name} | {epsilon} | {score(people, released):.0f} | {seconds:.0f} |"
    print(line, flush=True)
    return line


def main() -> None:
    """Write the page."""
    data = folder()
    if data is None or not (data / "nist" / "national2019.csv").exists():
        print("no table: private-synthesis.md is not changed")
        return
    people = read_people(data)
    lines = [
        measure(
            f'`PrivateSynthesis(kind="{kind}")`',
            f"{epsilon:g}",
            sf.PrivateSynthesis(epsilon=epsilon, delta=DELTA, kind=kind),
            people,
        )
        for kind in ("aim", "mst")
        for epsilon in EPSILONS
    ]
    lines.append(measure('`Synthesize(kind="trees")`', "none", sf.Synthesize(kind="trees"), people))
    lines += [measure(f"`Boxes(k={k})`", "none", sf.Boxes(k=k), people) for k in (5, 50)]
    order = np.random.default_rng(0).permutation(len(people))
    first, second = (people.iloc[half] for half in np.array_split(order, 2))
    text = TEXT.format(
        rows=len(people),
        pairs=len(COLUMNS) * (len(COLUMNS) - 1) // 2,
        bins=BINS,
        delta=DELTA,
        lines="\n".join(lines),
        halves=score(first, second),
    )
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
