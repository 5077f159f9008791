"""Groups of at least five people in the Adult table, by us and by the packages for k-anonymity in Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.case import Case, Contender, Figure, Goal, Run
from harness.data import adult, read_rows, write_rows

QUASI = ["age", "education", "marital_status", "occupation", "race", "sex", "hours", "country"]
NUMBERS = ["age", "hours"]
K = 5


def prepare(run: Run) -> None:
    rows = adult([*QUASI, "salary"])
    write_rows(run.inputs / "adult.csv", [*QUASI, "salary"], rows[:3000] if run.is_quick else rows)


def sfumato(run: Run) -> None:
    import csv

    import sfumato as sf

    names, rows = read_rows(run.inputs / "adult.csv")
    table = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    table |= {name: [int(value) for value in table[name]] for name in NUMBERS}
    roles = dict.fromkeys(QUASI, "quasi") | {"salary": "other"}
    boxes = sf.Boxes(k=K, set_names=None)
    boxes.release(table, schema=roles)  # loads the kernels
    with run.clock():
        release = boxes.release(table, schema=roles)
    frame = release.table.arrow.to_pydict()
    with (run.output / "groups.csv").open("w", encoding="utf-8", newline="") as file:
        written = csv.writer(file)
        written.writerow(QUASI)
        for number in range(len(frame["salary"])):
            cells = [
                f"{frame[f'{name}_low'][number]:g}…{frame[f'{name}_high'][number]:g}"
                if name in NUMBERS
                else frame[name][number]
                for name in QUASI
            ]
            written.writerow(cells)


def _frame(path: Path):
    import pandas as pd

    frame = pd.read_csv(path, keep_default_na=False)
    return frame.astype({name: "category" for name in frame if name not in NUMBERS})


def _write_mondrian(run: Run, rows: list[dict[str, object]], how_many: str) -> None:
    """Write the groups of anonypy and anonypyx, whose cells are texts: a range, or a list of values."""
    written = []
    for row in rows:
        cells = []
        for name in QUASI:
            cell = row[name]
            text = str(cell[0] if isinstance(cell, list) else cell)
            cells.append(text.replace("-", "…") if name in NUMBERS else "|".join(sorted(text.split(","))))
        written += [cells] * int(row[how_many])
    write_rows(run.output / "groups.csv", QUASI, written)


def anonypy(run: Run) -> None:
    import anonypy as package

    frame = _frame(run.inputs / "adult.csv")
    with run.clock():
        rows = package.Preserver(frame, QUASI, "salary").anonymize_k_anonymity(k=K)
    _write_mondrian(run, rows, "count")


def anonypyx(run: Run) -> None:
    import anonypyx as package

    frame = _frame(run.inputs / "adult.csv")
    with run.clock():
        released = package.Anonymiser(
            frame,
            k=K,
            algorithm="Mondrian",
            feature_columns=QUASI,
            sensitive_column="salary",
            generalisation_strategy="human-readable",
        ).anonymise()
    _write_mondrian(run, released.to_dict("records"), "count")


def anjana(share: int):
    """Return a run of anjana with at most this percentage of the rows suppressed."""

    def contender(run: Run) -> None:
        from anjana.anonymity import k_anonymity

        frame = _frame(run.inputs / "adult.csv").astype(object)
        trees = {name: _tree(name, sorted(set(frame[name]))) for name in QUASI}
        with run.clock():
            released = k_anonymity(frame, [], QUASI, K, share, trees)
        leaves = {name: _leaves(tree) for name, tree in trees.items()}
        rows = [
            [_cell(name, leaves[name][str(cell)]) for name, cell in zip(QUASI, row, strict=True)]
            for row in released[QUASI].to_numpy().tolist()
        ]
        write_rows(run.output / "groups.csv", QUASI, rows)

    return contender


def _tree(name: str, values: list[object]) -> dict[int, object]:
    """Return a hierarchy as anjana reads it: the values, coarser ones, and one for all."""
    import numpy as np

    levels: dict[int, object] = {0: np.array(values, dtype=object)}
    if name in NUMBERS:
        for level, step in enumerate((5, 10, 20), start=1):
            levels[level] = np.array([f"{int(v) // step * step} to {int(v) // step * step + step}" for v in values])
    levels[len(levels)] = np.array(["*"] * len(values))
    return levels


def _leaves(tree: Mapping[int, object]) -> dict[str, list[str]]:
    below: dict[str, list[str]] = {}
    for level in tree.values():
        for node, value in zip(level, tree[0], strict=True):  # type: ignore[arg-type, call-overload]
            below.setdefault(str(node), []).append(str(value))
    return {node: sorted(set(values)) for node, values in below.items()}


def _cell(name: str, values: list[str]) -> str:
    if name not in NUMBERS:
        return "|".join(values)
    numbers = [int(value) for value in values]
    return f"{min(numbers)}…{max(numbers)}"


def recount(run: Run) -> Mapping[str, float]:
    from harness.recount import groups_of, loss_of_cells

    _, released = read_rows(run.output / "groups.csv")
    names, rows = read_rows(run.inputs / "adult.csv")
    original = dict(zip(names, zip(*rows, strict=True), strict=True))
    columns = {}
    for name, cells in zip(QUASI, zip(*released, strict=True), strict=True):
        if name in NUMBERS:
            ends = [cell.split("…") for cell in cells]
            columns[name] = [(float(pair[0]), float(pair[-1])) for pair in ends]
        else:
            columns[name] = [frozenset(cell.split("|")) for cell in cells]
    sizes = groups_of(released)
    missing = len(rows) - len(released)
    return {
        "loss": loss_of_cells(columns, original, missing),
        "groups": len(sizes),
        "smallest": min(sizes.values()),
        "suppressed": missing / len(rows),
    }


CASE = Case(
    title="Adult, eight quasi-identifiers, k = 5",
    about="""
        32,561 rows of UCI's table: age, education, marital status, occupation, race, sex, hours, country. The loss is
        the mean over cells of range ÷ domain for numbers and (values − 1) ÷ (values of the column − 1) for categories;
        a suppressed row counts 1. Ours is verified before it is returned.
    """,
    contenders=(
        Contender(name="sfumato", run=sfumato),
        Contender(name="anonypy", run=anonypy, rival="anonypy"),
        Contender(name="anonypyx", run=anonypyx, rival="anonypyx"),
        Contender(name="anjana, 5 % suppressed", run=anjana(5), rival="anjana"),
        Contender(name="anjana, none suppressed", run=anjana(0), rival="anjana"),
    ),
    prepare=prepare,
    recount=recount,
    figures={
        "loss": Figure(title="loss"),
        "groups": Figure(title="groups", form=",.0f", is_higher_better=None),
        "smallest": Figure(title="smallest group", form=".0f", is_higher_better=None),
        "suppressed": Figure(title="suppressed", form=".1%", is_higher_better=None),
    },
    goals=(
        Goal(
            of="sfumato",
            figure="wall",
            limit=0.2,
            said="a fifth of the time chooses cuts, a third verifies; the rest reads and writes sets of words. Tried: "
            "sets are written once per different set, and kernels count no references",
        ),
    ),
)
