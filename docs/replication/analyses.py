"""Write analyses.md and its figures: three published analyses, from the tables and from releases of them.

python docs/replication/analyses.py [FOLDER]

The folder contains ``nhanes/``, ``cps/`` and ``nist/``. By default it is SFUMATO_DATA, or shared/data next to the
repository.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import sfumato as sf
from sfumato.release.release import Release
from sfumato.report.picture import ACCENT, INK, MUTED, PALE, blank_figure, png, style_axes

PAGE = Path(__file__).with_suffix(".md")
FIGURES = Path(__file__).with_name("figures")
K, Z = 5, 1.959964


@dataclass(frozen=True)
class Number:
    """A number of an analysis, from the original table and from the release."""

    name: str
    original: float
    error: float  # standard error in the original
    value: float
    low: float  # certain
    high: float
    joined_low: float  # 95 % confidence, boxes included
    joined_high: float

    @property
    def is_held(self) -> bool:
        return self.low <= self.original <= self.high

    @property
    def widening(self) -> float:
        """Width of the joined interval, as a multiple of the usual confidence interval in the original."""
        return (self.joined_high - self.joined_low) / (2.0 * Z * self.error)

    def row(self) -> str:
        usual = f"{self.original - Z * self.error:.4g} … {self.original + Z * self.error:.4g}"
        joined = f"{self.joined_low:.4g} … {self.joined_high:.4g}"
        certain = f"{self.low:.5g} … {self.high:.5g}"
        return (
            f"| {self.name} | {self.original:.5g} | {usual} | {self.value:.5g} | {certain} | {joined} | "
            f"{self.widening:.2f} |"
        )


@dataclass(frozen=True)
class Analysis:
    """A published analysis: what was asked, of which table, and how it is answered."""

    title: str
    text: str
    figure: str
    axis: str
    table: pd.DataFrame
    schema: Mapping[str, object]
    keep: Sequence[str]
    ask: Callable[[pd.DataFrame, Release], list[Number]]
    drawn: int  # numbers in the figure, the first ones

    def release(self) -> Release:
        return sf.Boxes(k=K, keep=list(self.keep)).release(self.table, schema=dict(self.schema), seed=1)


def mean_of(name: str, cells: pd.Series, release: Release, asked: str) -> Number:
    """Return a mean of some people, and its estimate."""
    said = release.estimate(asked, confidence=0.95)
    error = float(cells.std(ddof=1) / np.sqrt(len(cells)))
    ends = said.confidence_low, said.confidence_high
    return Number(name, float(cells.mean()), error, said.value, said.low, said.high, *ends)


def least_squares(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients of a linear regression with an intercept, and robust standard errors."""
    design = np.column_stack([np.ones(len(y)), x])
    inverse = np.linalg.inv(design.T @ design)
    coefficients = inverse @ design.T @ y
    scores = design * (y - design @ coefficients)[:, None]
    return coefficients, np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))


def logistic(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and standard errors of a logistic regression with an intercept, by Newton's method."""
    design, coefficients = np.column_stack([np.ones(len(y)), x]), np.zeros(x.shape[1] + 1)
    for _ in range(50):
        share = 1.0 / (1.0 + np.exp(-design @ coefficients))
        information = (design.T * (share * (1.0 - share))) @ design
        coefficients = coefficients + np.linalg.solve(information, design.T @ (y - share))
    return coefficients, np.sqrt(np.diag(np.linalg.inv(information)))


def coefficients_of(
    release: Release, formula: str, family: str, true: tuple[np.ndarray, np.ndarray], seconds: float
) -> list[Number]:
    """Return the coefficients of a model but the intercept."""
    fit = release.fit(formula, family=family, budget=sf.EstimateBudget(seconds=seconds))
    numbers = []
    for place, term in enumerate(fit.terms):
        if term != "intercept":
            one = fit[term]
            ends = one.low, one.high, one.confidence_low, one.confidence_high
            numbers.append(Number(f"{family}: {term}", true[0][place], true[1][place], one.value, *ends))
    return numbers


def obesity(folder: Path) -> Analysis:
    """Diabetes by weight class: Nguyen et al. (2011)."""
    table = pd.read_csv(folder / "nhanes" / "nhanes_complete.csv.gz").dropna(subset=["bmi"]).reset_index(drop=True)
    people = pd.DataFrame(
        {
            "age": table.age,
            "male": (table.gender == "male").astype(int),
            "bmi": table.bmi,
            "diabetes": (table.hba1c >= 6.5).astype(int),
        }
    )
    classes = {
        "below 25": ("bmi < 25", people.bmi < 25),
        "25 to 29.9": ("bmi >= 25 and bmi < 30", (people.bmi >= 25) & (people.bmi < 30)),
        "30 to 34.9": ("bmi >= 30 and bmi < 35", (people.bmi >= 30) & (people.bmi < 35)),
        "35 to 39.9": ("bmi >= 35 and bmi < 40", (people.bmi >= 35) & (people.bmi < 40)),
        "40 and more": ("bmi >= 40", people.bmi >= 40),
    }

    def ask(people: pd.DataFrame, release: Release) -> list[Number]:
        shares = [
            mean_of(f"share with diabetes, BMI {name}", people.diabetes[who], release, f"mean(diabetes | {condition})")
            for name, (condition, who) in classes.items()
        ]
        true = logistic(people[["age", "bmi"]].to_numpy(float), people.diabetes.to_numpy(float))
        return shares + coefficients_of(release, "diabetes ~ age + bmi", "binomial", true, 60.0)

    return Analysis(
        title="Diabetes and body mass (NHANES)",
        text=OBESITY,
        figure="analyses-nhanes.png",
        axis="share with diabetes",
        table=people,
        schema={"age": "quasi", "male": {"role": "quasi", "kind": "whole"}, "bmi": "quasi", "diabetes": "other"},
        keep=["regress(diabetes ~ age + bmi)"],
        ask=ask,
        drawn=len(classes),
    )


def earnings(folder: Path) -> Analysis:
    """The profile of earnings by age: Mincer (1974)."""
    units = pd.read_parquet(folder / "cps" / "cps_tax_units.parquet")
    units = units[(units.FLPDYR == 2014) & units.age_head.between(25, 64) & (units.e00200p > 1000)]
    people = pd.DataFrame(
        {
            "age": units.age_head,
            "married": (units.MARS == 2).astype(int),
            "children": units.nu18.clip(upper=4),
            "log_wage": np.log(units.e00200p).round(6),
        }
    ).reset_index(drop=True)
    starts = range(25, 65, 5)

    def ask(people: pd.DataFrame, release: Release) -> list[Number]:
        profile = [
            mean_of(
                f"mean log wage, age {start} to {start + 4}",
                people.log_wage[people.age.between(start, start + 4)],
                release,
                f"mean(log_wage | age between {start} and {start + 4})",
            )
            for start in starts
        ]
        names = ["age", "married", "children"]
        true = least_squares(people[names].to_numpy(float), people.log_wage.to_numpy())
        return profile + coefficients_of(release, f"log_wage ~ {' + '.join(names)}", "gaussian", true, 30.0)

    return Analysis(
        title="Earnings by age (CPS)",
        text=EARNINGS,
        figure="analyses-cps.png",
        axis="mean of the logarithm of yearly wages",
        table=people,
        schema={
            "age": "quasi",
            "married": {"role": "quasi", "kind": "whole"},
            "children": "quasi",
            "log_wage": "other",
        },
        keep=["regress(log_wage ~ age + married + children)"],
        ask=ask,
        drawn=len(starts),
    )


def education(folder: Path) -> Analysis:
    """Income by education, in groups of people: the regression of NIST's report on deidentified tables."""
    table = pd.read_csv(folder / "nist" / "national2019.csv", na_values="N")
    table = table[(table.AGEP >= 25) & table.PINCP_DECILE.notna() & table.EDU.notna()].reset_index(drop=True)
    people = pd.DataFrame(
        {
            "age": table.AGEP,
            "woman": (table.SEX == 2).astype(int),
            "race": table.RAC1P.map({1: "white", 2: "black", 6: "asian"}).fillna("other"),
            "education": table.EDU.astype(int),
            "income": table.PINCP_DECILE.astype(int),
        }
    )
    groups = [(race, woman) for race in ("white", "black", "asian") for woman in (0, 1)]

    def ask(people: pd.DataFrame, release: Release) -> list[Number]:
        numbers = []
        for race, woman in groups:
            who = people[(people.race == race) & (people.woman == woman)]
            true, errors = least_squares(who[["education"]].to_numpy(float), who.income.to_numpy(float))
            asked = f"regress(income ~ education | race = {race} and woman = {woman})"
            said = release.estimate(asked, confidence=0.95)[1]
            name = f"slope, {race} {'women' if woman else 'men'}"
            ends = said.low, said.high, said.confidence_low, said.confidence_high
            numbers.append(Number(name, float(true[1]), float(errors[1]), said.value, *ends))
        return numbers

    return Analysis(
        title="Income by education, in groups (NIST)",
        text=EDUCATION,
        figure="analyses-nist.png",
        axis="deciles of income per step of education",
        table=people,
        schema={
            "age": "quasi",
            "woman": {"role": "quasi", "kind": "whole"},
            "race": "quasi",
            "education": "quasi",
            "income": "other",
        },
        keep=["regress(income ~ education)", "mean(woman)"],
        ask=ask,
        drawn=len(groups),
    )


def draw(analysis: Analysis, numbers: Sequence[Number]) -> Figure:
    """Draw both intervals of each number, the usual one of the original above them."""
    shown = list(numbers)[: analysis.drawn]
    height = 1.1 + 0.5 * len(shown)
    figure = blank_figure(8.0, height)
    axes = figure.add_axes((0.34, 0.6 / height, 0.62, 1.0 - 1.0 / height))
    for place, one in enumerate(reversed(shown)):
        axes.plot([one.original - Z * one.error, one.original + Z * one.error], [place + 0.16] * 2, color=MUTED, lw=1.6)
        axes.plot([one.original], [place + 0.16], "o", color=MUTED, markersize=3.5)
        axes.plot([one.joined_low, one.joined_high], [place - 0.16] * 2, color=ACCENT, lw=1.6)
        axes.plot([one.low, one.high], [place - 0.16] * 2, color=INK, lw=5.0, solid_capstyle="butt")
        axes.plot([one.value], [place - 0.16], "|", color=INK, markersize=7.0)
    axes.set_yticks(range(len(shown)), [one.name for one in reversed(shown)])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    style_axes(axes)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set_xlabel(analysis.axis, color=INK, fontsize=10)
    axes.grid(axis="x", color=PALE, linewidth=0.4)
    for place, (text, colour) in enumerate(
        (("original, 95 %", MUTED), ("release: certain", INK), ("release: certain and 95 %", ACCENT))
    ):
        figure.text(0.34 + 0.22 * place, 0.98, text, color=colour, fontsize=9, va="top")
    return figure


def section(analysis: Analysis) -> str:
    """Release the table, ask, draw the figure, and return the section of the page."""
    release = analysis.release()
    numbers = analysis.ask(analysis.table, release)
    assert all(one.is_held for one in numbers), [one.name for one in numbers if not one.is_held]
    (FIGURES / analysis.figure).write_bytes(png(draw(analysis, numbers)))
    boxes = release.table.to_pandas().box.nunique()
    protected = [name for name, role in analysis.schema.items() if role != "other"]
    rows = "\n".join(one.row() for one in numbers)
    widest = max(one.widening for one in numbers)
    return SECTION.format(
        title=analysis.title,
        text=analysis.text.strip(),
        rows=f"{len(analysis.table):,}",
        boxes=f"{boxes:,}",
        protected=", ".join(protected),
        kept=" and ".join(f"`{one}`" for one in analysis.keep),
        table=rows,
        figure=analysis.figure,
        widest=f"{widest:.2f}",
    )


OBESITY = """
Nguyen, Nguyen, Lane and Wang (2011, *Obesity Surgery* 21, 351–355) report the share of adults with diabetes by weight
class in NHANES 1999–2006: it rises from class to class, from 8 % to 43 %. Our table has the cycles 1999–2004, people
of 20 to 49 years only, and counts who has a glycated haemoglobin of 6.5 % or more, so its shares are lower; the rise
is the same. A logistic regression on age and body mass follows.
"""
EARNINGS = """
Wages rise with age, ever more slowly, and end flat or falling (Mincer 1974, *Schooling, Experience, and Earnings*):
the profile is the mean of the logarithm of wages by age. Our table has the tax units of the Current Population Survey
with a head of 25 to 64 years and wages above 1,000 dollars. A linear regression on age, marriage and children
follows.
"""
EDUCATION = """
NIST's report on deidentified tables (SDNist, Task, Bhagat, Howarth 2023) compares the regression of the decile of
income on educational attainment in groups of people by race and sex, in the original and in each submitted table.
Here it is asked of a release of the same table, adults of 25 and more years.
"""
SECTION = """## {title}

{text}

{rows} people in {boxes} boxes of at least five by {protected}, cut for {kept}; the outcome
is released as it is.

| number | original | 95 % in the original | release | certain | 95 % and certain | width |
| --- | --- | --- | --- | --- | --- | --- |
{table}

![Both intervals of each number](figures/{figure})

*Width* is that of the last interval as a multiple of the usual one in the original, at most {widest} here.
"""
TEXT = """# Three published analyses, from releases

Written by `docs/replication/analyses.py`; do not edit by hand.

An analyst who has only the release asks for the numbers of a paper with `release.estimate` and `release.fit`. Each is
compared with the same number in the original table, which the analyst does not have. *Certain* is the guaranteed
interval: it contains the number of the original for every table that fits the release, and did for all {count}
numbers below. *95 % and certain* joins it with the sampling of the people: it contains the number of the population
with 95 %, as the usual interval in the original does.

{sections}
"""


def main() -> int:
    """Write the page, if the tables are here."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SFUMATO_DATA")
    folder = Path(given) if given else Path(__file__).parents[3] / "shared" / "data"
    if not (folder / "nist" / "national2019.csv").exists():
        print(f"{PAGE.name} is not changed: set SFUMATO_DATA to the folder of the real tables")
        return 0
    sections = [section(analyse(folder)) for analyse in (obesity, earnings, education)]
    count = sum(text.count("\n| ") - 2 for text in sections)
    PAGE.write_text(TEXT.format(sections="\n".join(sections).rstrip(), count=count), encoding="utf-8")
    print(f"wrote {PAGE.name} and {len(sections)} figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
