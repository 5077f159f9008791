"""Do tools that judge releases find leaks that were planted, and do they stay silent where there is none?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from harness.case import Case, Contender, Figure, Goal, Run
from harness.data import ADULT, adult, read_rows, write_rows

COLUMNS = ["age", "education_num", "hours", "marital_status", "race", "sex", "salary"]
NUMBERS = ["age", "education_num", "hours"]
LEAKS = ("copies", "absence", "noise", "trees")
SILENT = ("fresh 1", "fresh 2", "fresh 3")


def prepare(run: Run) -> None:
    """Write members, others, and releases with one leak each, or with none: rows of people who took no part."""
    import random

    assert set(COLUMNS) <= set(ADULT)
    chance = random.Random(11)
    rows = [
        [str(5 * round(int(row[0]) / 5)), row[1], str(10 * round(int(row[2]) / 10)), *row[3:]] for row in adult(COLUMNS)
    ]
    chance.shuffle(rows)
    size = 400 if run.is_quick else 1500
    parts = [rows[start * size : (start + 1) * size] for start in range(7)]
    members, others, *fresh = parts
    known = {tuple(row) for row in members}
    releases = dict(zip(SILENT, fresh, strict=False))
    releases["copies"] = [*members[: size // 5], *fresh[3][size // 5 :]]
    releases["absence"] = [row for row in [*fresh[3], *fresh[4]] if tuple(row) not in known][:size]
    releases["noise"] = [_shifted(row, chance) for row in members]
    releases["trees"] = _overfitted(members, chance)
    for name, table in {"members": members, "others": others, **releases}.items():
        chance.shuffle(table)
        write_rows(run.inputs / f"{name}.csv", COLUMNS, table)


def _shifted(row: list[str], chance) -> list[str]:
    """Move the numbers of a row by one step or none."""
    steps = {"age": 5, "education_num": 1, "hours": 10}
    return [
        str(int(cell) + chance.choice((-1, 0, 0, 1)) * steps[name]) if name in steps else cell
        for name, cell in zip(COLUMNS, row, strict=True)
    ]


def _overfitted(members: list[list[str]], chance) -> list[list[str]]:
    """Draw each column from the members that agree in all columns before: trees with a leaf for each person."""
    drawn = []
    for _ in members:
        row = [chance.choice(members)[0]]
        while len(row) < len(COLUMNS):
            alike = [one for one in members if one[: len(row)] == row]
            row.append(chance.choice(alike)[len(row)])
        drawn.append(row)
    return drawn


def judge(run: Run, alarm: Callable[[Path, str], bool]) -> None:
    """Ask for an alarm about each release; note which leaks were found and how many alarms were false."""
    with run.clock():
        found = {name: bool(alarm(run.inputs, name)) for name in (*LEAKS, *SILENT)}
    run.note(**{name: float(found[name]) for name in LEAKS})
    run.note(found=float(sum(found[name] for name in LEAKS)), false=float(sum(found[name] for name in SILENT)))
    (run.output / "found.json").write_text(json.dumps(found))


def sfumato(run: Run) -> None:
    import sfumato as sf

    def alarm(folder: Path, name: str) -> bool:
        members, release, others = (_columns(folder / f"{one}.csv") for one in ("members", name, "others"))
        assessment = sf.assess(members, release, others, seed=run.seed)
        return any(score.passed is False for score in assessment.scores if score.family == "privacy")

    judge(run, alarm)


def _columns(path: Path) -> dict[str, list[object]]:
    names, rows = read_rows(path)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return {name: [int(v) for v in values] if name in NUMBERS else list(values) for name, values in columns.items()}


def _frame(path: Path):
    import pandas as pd

    return pd.DataFrame(_columns(path))


def anonymeter(run: Run) -> None:
    import warnings

    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    warnings.simplefilter("ignore")
    half = (COLUMNS[:4], COLUMNS[4:])

    def alarm(folder: Path, name: str) -> bool:
        tables = [_frame(folder / f"{one}.csv") for one in ("members", name)]
        control = _frame(folder / "others.csv")
        size = min(300, len(control))
        evaluators = [
            SinglingOutEvaluator(*tables, n_attacks=size, n_cols=4, control=control, seed=run.seed).evaluate(),
            LinkabilityEvaluator(*tables, aux_cols=half, n_attacks=size, control=control).evaluate(n_jobs=1),
            InferenceEvaluator(
                *tables, aux_cols=COLUMNS[:-1], secret="salary", n_attacks=size, control=control
            ).evaluate(n_jobs=1),
        ]
        return any(one.risk().ci[0] > 0.0 for one in evaluators)

    judge(run, alarm)


def sdmetrics(run: Run) -> None:
    from sdmetrics.single_table import DCROverfittingProtection

    kinds = {name: {"sdtype": "numerical" if name in NUMBERS else "categorical"} for name in COLUMNS}

    def alarm(folder: Path, name: str) -> bool:
        members, release, others = (_frame(folder / f"{one}.csv") for one in ("members", name, "others"))
        told = DCROverfittingProtection.compute_breakdown(
            real_training_data=members,
            synthetic_data=release,
            real_validation_data=others,
            metadata={"tables": {"people": {"columns": kinds}}},
            table_name="people",
        )
        share = told["synthetic_data_percentages"]["closer_to_training"]
        return share > 0.5 + 1.645 * 0.5 / len(release) ** 0.5

    judge(run, alarm)


def anonymity_loss(run: Run) -> None:
    import os
    import tempfile

    import pandas as pd
    from anonymity_loss_coefficient.attacks import BrmAttack

    os.environ["MPLBACKEND"] = "Agg"

    def alarm(folder: Path, name: str) -> bool:
        with tempfile.TemporaryDirectory() as results:
            attack = BrmAttack(
                df_original=_frame(folder / "members.csv"),
                anon=_frame(folder / f"{name}.csv"),
                results_path=results,
                num_per_secret_attacks=50,
            )
            attack.run_all_columns_attack(["salary", "marital_status"])
            scores: pd.DataFrame = attack.alcm.alc_per_secret_and_known_df()
            return bool((scores["alc"] > 0.5).any())

    judge(run, alarm)


CASE = Case(
    title="Planted leaks",
    about="""
        Releases of 1,500 people of Adult, seven columns, with one leak each: a fifth of the rows are *copies*; no row
        equals a row of a member (*absence*); rows of members moved by one step (*noise*); rows drawn by *trees* with a
        leaf for each person. Three more releases are other people of the same population: an alarm there is false.
        Alarms are: a privacy test of `sf.assess` that fails; a lower end of a risk above 0 (anonymeter: singling out,
        linkability, inference); more rows nearer to members than chance allows (SDMetrics, DCR overfitting protection);
        an anonymity loss above 0.5.
    """,
    contenders=(
        Contender(name="sfumato", run=sfumato),
        Contender(name="anonymeter", run=anonymeter, rival="anonymeter"),
        Contender(name="SDMetrics", run=sdmetrics, rival="sdmetrics"),
        Contender(name="anonymity loss", run=anonymity_loss, rival="anonymity-loss-coefficient"),
    ),
    prepare=prepare,
    figures={
        "found": Figure(title="leaks found, of 4", form=".0f", is_higher_better=True),
        "false": Figure(title="false alarms, of 3", form=".0f", is_higher_better=None),
        **{name: Figure(title=name, form=".0f", is_higher_better=None) for name in LEAKS},
    },
    goals=(Goal(of="sfumato", figure="found", limit=4.0, is_at_least=True),),
    seconds=240.0,
)
