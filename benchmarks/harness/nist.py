"""The table of NIST's Collaborative Research Cycle: how it is read, and the measures of NIST, counted again.

A tenth of the people is held out. They tell what chance is: how often the row of a person who did not take part occurs
in a release. A measure of NIST that is far from it on either side tells who took part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.case import Figure, Run
from harness.data import data, read_rows, write_rows

TEN = ["AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DEYE"]
LEFT_OUT = {"PUMA", "PWGTP", "WGTP"}  # the other 21 columns of the table are those of the wide task
NUMBERS = {"AGEP", "DENSITY", "PINCP", "POVPIP", "NOC", "NPF"}
HELD_OUT = 10  # every tenth person, after shuffling

# What cannot be, as the dictionary of the table says: all of them hold in every row of the original.
INCONSISTENT: tuple[Callable[[Mapping[str, str], float], bool], ...] = (
    lambda row, age: (age < 15) != (row["MSP"] == "N"),
    lambda row, age: (age < 15) != (row["PINCP_DECILE"] == "N"),
    lambda row, age: (age < 3) != (row["EDU"] == "N"),
    lambda row, age: age < 18 and row["EDU"] in ("10", "11", "12"),
    lambda row, age: age < 17 and row["DVET"] != "N",
    lambda row, age: (row["HOUSING_TYPE"] == "1") == (row["OWN_RENT"] == "0"),
)

FIGURES = {
    "marginals": Figure(title="k-marginal", form=".0f", is_higher_better=True),
    "propensity": Figure(title="propensity", form=".4f"),
    "correlations": Figure(title="correlation error", form=".4f"),
    "inconsistent": Figure(title="inconsistent rows", form=".2%"),
    "matched": Figure(title="unique matched", form=".1%", is_higher_better=None),
    "chance": Figure(title="by chance", form=".1%", is_higher_better=None),
    "absence": Figure(title="told by presence (AUC)", form=".3f", is_higher_better=None),
    "smallest": Figure(title="smallest group", form=".0f", is_higher_better=None),
}
MEASURES = """
    k-marginal is (2 − mean L1 distance of the shares of all pairs of columns) · 500, numbers in 20 bins of equal
    counts; a sample of 40 % of the table reaches 986. Propensity is 0 if a logistic model cannot tell the release from
    the original, and 1 if it always can. The correlation error is the mean absolute difference of Pearson's
    correlations of codes. *Unique matched* is the share of the people with a unique row whose row is released, *by
    chance* that of people who were held out and whose row nobody else has; if the two differ, presence or absence of a
    row tells who took part (AUC, 0.5 tells nothing).
"""


def prepare(run: Run, columns: list[str]) -> None:
    """Write the people who take part, and those who do not."""
    import random

    names, rows = read_rows(data("nist", "national2019.csv"))
    places = [names.index(name) for name in columns]
    chosen = [[row[place] for place in places] for row in rows]
    random.Random(2019).shuffle(chosen)
    chosen = chosen[:4000] if run.is_quick else chosen
    write_rows(run.inputs / "people.csv", columns, [row for n, row in enumerate(chosen) if n % HELD_OUT])
    write_rows(run.inputs / "others.csv", columns, chosen[::HELD_OUT])


def wide_columns() -> list[str]:
    """Return the 21 columns of the wide task."""
    names, _ = read_rows(data("nist", "national2019.csv"))
    return [name for name in names if name not in LEFT_OUT]


def table_of(run: Run) -> dict[str, list[object]]:
    """Return the people as columns: numbers as numbers, with None where there is none."""
    names, rows = read_rows(run.inputs / "people.csv")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return {
        name: [_number(value) for value in values] if name in NUMBERS else list(values)
        for name, values in columns.items()
    }


def _number(value: str) -> float | None:
    return None if value == "N" else float(value)


def frame_of(run: Run, *, missing: float | None = None):
    """Return the people as a data frame; numbers that there are not are ``missing`` if it is given."""
    import pandas as pd

    frame = pd.DataFrame(table_of(run))
    numbers = [name for name in frame if name in NUMBERS]
    frame[numbers] = frame[numbers].astype(float)
    return frame if missing is None else frame.fillna(dict.fromkeys(numbers, missing))


def release_by(method: str, **options: Any) -> Callable[[Run], None]:
    """Return a run that releases by a method of ours; categories and the range of the age are declared."""

    def contender(run: Run) -> None:
        import sfumato as sf

        frame = frame_of(run)
        frame = frame.astype({name: "category" for name in frame if name not in NUMBERS})
        schema: dict[str, Any] = dict.fromkeys(frame, "quasi")
        schema["AGEP"] = {"role": "quasi", "domain": [0, 99]}
        made = getattr(sf, method)(**options)
        seed = {} if method.startswith("Private") else {"seed": run.seed}  # private noise has no seed
        with run.clock():
            release = made.release(frame, schema=schema, **seed)
        write_release(run, release.to_pandas(midpoints=True).to_dict("list"))

    return contender


def write_release(run: Run, columns: Mapping[str, list[object]]) -> None:
    """Write released rows, numbers rounded as the table has them, and missing ones as N."""
    names, _ = read_rows(run.inputs / "people.csv")
    rows = zip(*(columns[name] for name in names), strict=True)
    write_rows(run.output / "released.csv", names, [[_text(n, v) for n, v in zip(names, r, strict=True)] for r in rows])


def _text(name: str, value: object) -> str:
    if value is None or value != value or str(value) in ("", "nan", "None", "<NA>"):  # noqa: PLR0124 - NaN
        return "N"
    if name in NUMBERS:
        number = float(value)  # type: ignore[arg-type]
        return f"{number:.1f}" if name in ("DENSITY", "PINCP") else f"{round(number)}"
    text = str(value)
    return text.removesuffix(".0")


def recount(run: Run) -> Mapping[str, float]:
    """Return NIST's measures of a release."""
    import numpy as np

    from harness.recount import absence, correlation_error, groups_of, k_marginal, propensity, unique_matched

    names, people = read_rows(run.inputs / "people.csv")
    _, others = read_rows(run.inputs / "others.csv")
    _, released = read_rows(run.output / "released.csv")
    before, after = (
        {n: _codes(n, c) for n, c in zip(names, zip(*t, strict=True), strict=True)} for t in (people, released)
    )
    rows, outside, drawn = ([tuple(row) for row in table] for table in (people, others, released))
    counts = groups_of(rows)
    alone = [row for row in rows if counts[row] == 1]
    new = [row for row in outside if row not in counts]
    present = set(drawn)
    return {
        "marginals": k_marginal(before, after),
        "propensity": propensity(*(_design(names, before, table) for table in (before, after))),
        "correlations": correlation_error(*({n: _ordered(before[n], t[n]) for n in names} for t in (before, after))),
        "inconsistent": float(np.mean([_is_inconsistent(dict(zip(names, row, strict=True))) for row in drawn])),
        "matched": unique_matched(rows, drawn),
        "chance": sum(row in present for row in new) / max(len(new), 1),
        "absence": absence(alone, new, drawn),
        "smallest": float(min(groups_of(drawn).values())),
    }


def _codes(name: str, values: tuple[str, ...]):
    import numpy as np

    return np.array([np.nan if v == "N" else float(v) for v in values]) if name in NUMBERS else np.array(values)


def _ordered(original, values):
    """Return categories as their places in the order of the original's, which are numbers in most columns."""
    import numpy as np

    if original.dtype.kind == "f":
        return values
    known = np.unique(original)
    return np.searchsorted(known, values).astype(float)


def _design(names: list[str], original, table):
    """Return one-hot codes of categories, and numbers with their squares, standardised by the original."""
    import numpy as np

    parts = []
    for name in names:
        values, first = table[name], original[name]
        if first.dtype.kind == "f":
            scaled = (values - np.nanmean(first)) / (np.nanstd(first) or 1.0)
            clipped = np.clip(np.nan_to_num(scaled), -5.0, 5.0)
            parts += [clipped, clipped**2, np.isnan(values)]
        else:
            levels, counts = np.unique(first, return_counts=True)
            parts += [values == level for level in levels[counts >= 20][:40]]
    return np.column_stack(parts).astype(float)


def _is_inconsistent(row: Mapping[str, str]) -> bool:
    age = -1.0 if row["AGEP"] == "N" else float(row["AGEP"])
    return any(broken(row, age) for broken in INCONSISTENT)
