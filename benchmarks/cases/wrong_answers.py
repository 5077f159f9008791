"""The smallest tables on which packages for k-anonymity answer wrongly, and what we answer."""

from __future__ import annotations

from harness.case import Case, Contender, Figure, Goal, Run


def prepare(run: Run) -> None:
    """The tables are so small that they stand in the functions."""


def _told(run: Run, is_right: bool, said: str) -> None:
    run.note(right=float(is_right), said=said)


def pycanon_missing(run: Run) -> None:
    import pandas as pd
    from pycanon import anonymity

    table = pd.DataFrame({"age": [30, 30, 30, None]})
    with run.clock():
        k = anonymity.k_anonymity(table, ["age"])
    _told(run, k == 1, f"ages 30, 30, 30 and one missing: k = {k}, and it is 1, because one person has no age")


def pycanon_order(run: Run) -> None:
    import pandas as pd
    from pycanon import anonymity

    table = pd.DataFrame({"age": [30, 30, 40, 40], "ill": ["a", "b", "a", "b"]})
    turned = table.iloc[[0, 2, 1, 3]]
    with run.clock():
        before, after = (anonymity.t_closeness(one, ["age"], ["ill"]) for one in (table, turned))
    _told(run, before == after, f"the same four rows in another order: t = {before:g} and t = {after:g}")


def anonypy_missing(run: Run) -> None:
    import anonypy
    import pandas as pd

    table = pd.DataFrame({"age": [30.0, 30, 30, 40, 40, 40, None, None], "ill": list("abababab")})
    table["ill"] = table["ill"].astype("category")
    with run.clock():
        released = anonypy.Preserver(table, ["age"], "ill").anonymize_k_anonymity(k=2)
    rows = sum(row["count"] for row in released)
    _told(
        run,
        rows == len(table),
        f"eight rows, two without an age: {rows} are released, and nothing is said about the others",
    )


def anonypy_t(run: Run) -> None:
    import anonypy
    import pandas as pd

    table = pd.DataFrame({"age": [30] * 4 + [60] * 4, "ill": list("aaaabbbb")})
    table["ill"] = table["ill"].astype("category")
    with run.clock():
        released = anonypy.Preserver(table, ["age"], "ill").anonymize_t_closeness(k=2, p=0.1)
    groups = {str(row["age"]) for row in released}
    is_right = len(groups) == 1
    _told(
        run,
        is_right,
        f"everybody of 30 has a, everybody of 60 has b, asked for t = 0.1: {len(groups)} groups, each at distance 0.5"
        if not is_right
        else "one group",
    )


def anjana_rows(run: Run) -> None:
    import numpy as np
    import pandas as pd
    from anjana.anonymity import k_anonymity

    table = pd.DataFrame({"age": [30, 30, 30, 99], "ill": list("abab")})
    trees = {"age": {0: np.array([30, 99]), 1: np.array(["30 to 98", "99 and over"])}}
    with run.clock():
        released = k_anonymity(table, [], ["age"], 2, 50, trees)
    more = sorted(set(map(str, released.columns)) - set(table.columns))
    _told(
        run,
        not more,
        f"with one row suppressed, the release has a new column {more}: the number of each person's row"
        if more
        else "no new column",
    )


def sfumato(run: Run) -> None:
    import sfumato as sf

    with run.clock():
        k = sf.group_models({"age": [30, 30, 30, None]}, ["age"], []).k
        rows = {"age": [30, 30, 40, 40], "ill": ["a", "b", "a", "b"]}
        turned = {name: [values[place] for place in (0, 2, 1, 3)] for name, values in rows.items()}
        before, after = (sf.group_models(one, ["age"], ["ill"]).t for one in (rows, turned))
        missing = {"age": [30.0, 30.0, 30.0, 40.0, 40.0, 40.0, None, None], "ill": list("abababab")}
        roles = {"age": "quasi", "ill": "other"}
        released = sf.Boxes(k=2).release(missing, schema=roles, seed=1).table
    columns = set(released.arrow.column_names) - {"box", "ill", "age_low", "age_high", "age_missing"}
    right = k == 1 and before == after and released.rows == 8 and not columns
    _told(
        run,
        right,
        f"k = {k}; t = {before:g} in both orders; {released.rows} of eight rows are released; no other column",
    )


CASE = Case(
    title="Wrong answers, and the smallest tables for them",
    about="Right is 1 if the answer is. Each line below the table says what was asked and what came.",
    contenders=(
        Contender(name="sfumato, all of them", run=sfumato),
        Contender(name="pycanon, a missing value", run=pycanon_missing, rival="pycanon"),
        Contender(name="pycanon, another order of rows", run=pycanon_order, rival="pycanon"),
        Contender(name="anonypy, a missing value", run=anonypy_missing, rival="anonypy"),
        Contender(name="anonypy, t-closeness", run=anonypy_t, rival="anonypy"),
        Contender(name="anjana, a suppressed row", run=anjana_rows, rival="anjana"),
    ),
    prepare=prepare,
    figures={"right": Figure(title="right", form=".0f", is_higher_better=None)},
    goals=(Goal(of="sfumato, all of them", figure="right", limit=1.0, is_at_least=True),),
)
