"""Write surveys.md: how often intervals from releases of simulated surveys hold the parameters of the population.

python docs/replication/surveys.py [SURVEYS]

By default 1,000 surveys of each design are drawn, by two processes.
"""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import sfumato as sf
from sfumato.release.release import Release

PAGE = Path(__file__).with_suffix(".md")
K, CONFIDENCE, SURVEYS, WORKERS = 3, 0.95, 1000, 2
Z = float(stats.norm.ppf(0.5 + CONFIDENCE / 2.0))
REGIONS, VILLAGES, PEOPLE = 5, 800, 50  # of the population: villages of each region, people of each village
DRAWN = 300
CLUSTERS, EACH = 8, 8  # drawn villages of each region, and people of each of them
CHANCE = 0.001  # a coverage that is this unlikely if it were 95 % is a failure


@cache
def population() -> pd.DataFrame:
    """Return the people of the population: people of a village are alike."""
    random = np.random.default_rng(20)
    village = np.repeat(np.arange(REGIONS * VILLAGES), PEOPLE)
    people, region = len(village), village // VILLAGES
    shared = random.normal(0.0, 1.0, (3, REGIONS * VILLAGES))[:, village]
    age = np.clip(np.round(50.0 + 6.0 * shared[0] + random.normal(0.0, 14.0, people)), 18, 95)
    sex = random.choice(["f", "m"], people)
    income = 20.0 + 0.1 * age + 2.0 * (sex == "f") + 0.5 * region + 1.6 * shared[1] + random.gamma(2.0, 2.0, people)
    risk = -3.0 + 0.05 * age + 0.7 * shared[2]
    sick = random.random(people) < 1.0 / (1.0 + np.exp(-risk))
    return pd.DataFrame(
        {
            "age": age.astype(int),
            "income": income.round(1),
            "sex": sex,
            "sick": sick.astype(int),
            "region": np.array(list("abcde"))[region],
            "village": village,
        }
    )


def draw_people(random: np.random.Generator) -> pd.DataFrame:
    """Draw people one by one, each with the same probability."""
    return population().iloc[random.integers(0, len(population()), DRAWN)].reset_index(drop=True)


def draw_with_weights(random: np.random.Generator) -> pd.DataFrame:
    """Draw old and poor people more often; the weight is the inverse of the probability, scaled to a mean of 1."""
    people = population()
    size = np.where(people.age >= 65, 3.0, 1.0) * np.where(people.income < 25.0, 2.0, 1.0)
    chosen = random.choice(len(people), DRAWN, p=size / size.sum())
    weight = (size.mean() / size[chosen]).round(6)
    return people.iloc[chosen].assign(weight=weight).reset_index(drop=True)


def draw_villages(random: np.random.Generator) -> pd.DataFrame:
    """Draw villages of each region, and people of each village."""
    parts = []
    for number in range(REGIONS * CLUSTERS):
        village = number // CLUSTERS * VILLAGES + random.integers(0, VILLAGES)
        chosen = village * PEOPLE + random.choice(PEOPLE, EACH, replace=False)
        parts.append(population().iloc[chosen].assign(village=number))
    return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class Question:
    """A number of a survey: how it is asked of a release, and its influence function in a table without boxes."""

    name: str
    ask: Callable[[Release], object]
    influence: Callable[[pd.DataFrame, np.ndarray], tuple[float, np.ndarray]]  # value, and influence of each row

    def truth(self) -> float:
        """Return the parameter of the population."""
        return self.influence(population(), np.ones(len(population())))[0]

    def usual(self, survey: pd.DataFrame, weighted: bool, clustered: bool) -> tuple[float, float]:
        """Return the value in the survey and half the width of the usual confidence interval."""
        weight = survey.weight.to_numpy() if weighted else np.ones(len(survey))
        value, influence = self.influence(survey, weight)
        return value, half_width(influence, survey, clustered)


def half_width(influence: np.ndarray, survey: pd.DataFrame, clustered: bool) -> float:
    """Return half the width of the interval, by linearization; of regions and villages, if villages were drawn."""
    if not clustered:
        return Z * float(np.sqrt(len(influence) / (len(influence) - 1) * (influence**2).sum()))
    totals = pd.Series(influence).groupby([survey.region, survey.village]).sum()
    spread = totals.groupby(level=0).agg(lambda one: len(one) / (len(one) - 1) * ((one - one.mean()) ** 2).sum())
    return float(stats.t.ppf(0.5 + CONFIDENCE / 2.0, len(totals) - len(spread)) * np.sqrt(spread.sum()))


def mean_of(values: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Return a mean and its influences."""
    mean = float(weight @ values / weight.sum())
    return mean, weight * (values - mean) / weight.sum()


def income(people: pd.DataFrame, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean of income."""
    return mean_of(people.income.to_numpy(), weight)


def share_above(people: pd.DataFrame, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the share of incomes of 30 and more."""
    return mean_of((people.income >= 30.0).to_numpy(float), weight)


def share_sick(people: pd.DataFrame, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the share of the sick."""
    return mean_of(people.sick.to_numpy(float), weight)


def share_in_a(people: pd.DataFrame, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the share of people in region a."""
    return mean_of((people.region == "a").to_numpy(float), weight)


def difference(people: pd.DataFrame, weight: np.ndarray, column: str, groups: str) -> tuple[float, np.ndarray]:
    """Return the difference of mean incomes of two groups."""
    values, found = people.income.to_numpy(), []
    for group in groups:
        mean, influence = mean_of(values, inside := weight * (people[column] == group).to_numpy())
        found.append((mean, np.where(inside > 0.0, influence, 0.0)))
    return found[0][0] - found[1][0], found[0][1] - found[1][1]


def sexes(people: pd.DataFrame, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Return by how much the mean income of women exceeds that of men."""
    return difference(people, weight, "sex", "fm")


def regions(people: pd.DataFrame, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Return by how much the mean income of region e exceeds that of region a."""
    return difference(people, weight, "region", "ea")


def correlation(people: pd.DataFrame, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the correlation of age and income."""
    share = weight / weight.sum()
    both = []
    for name in ("age", "income"):
        values = people[name].to_numpy(float)
        centred = values - share @ values
        both.append(centred / np.sqrt(share @ centred**2))
    found = float(share @ (both[0] * both[1]))
    return found, share * (both[0] * both[1] - found * (both[0] ** 2 + both[1] ** 2) / 2.0)


def slope(people: pd.DataFrame, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the slope of income on age."""
    age, values, share = people.age.to_numpy(float), people.income.to_numpy(), weight / weight.sum()
    centred = age - share @ age
    spread = share @ centred**2
    found = float(share @ (centred * values) / spread)
    return found, share * centred * (values - share @ values - found * centred) / spread


def logit(people: pd.DataFrame, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the logistic coefficient of age, by Newton's method."""
    design = np.column_stack([np.ones(len(people)), (people.age.to_numpy(float) - 50.0)])
    outcome, found = people.sick.to_numpy(float), np.zeros(2)
    for _ in range(25):
        expected = 1.0 / (1.0 + np.exp(-design @ found))
        inverse = np.linalg.inv((design.T * (weight * expected * (1.0 - expected))) @ design)
        scores = design * (weight * (outcome - expected))[:, None]
        found = found + inverse @ scores.sum(axis=0)
    return float(found[1]), scores @ inverse[1]


def asked(text: str) -> Callable[[Release], object]:
    """Return how a statistic is asked of a release."""
    return lambda release: release.estimate(text, confidence=CONFIDENCE)


def fitted(release: Release) -> object:
    """Return the logistic coefficient of age."""
    return release.fit("sick ~ age", family="binomial", confidence=CONFIDENCE)["age"]


MEAN = Question("mean of income", asked("mean(income)"), income)
SHARE = Question("share of incomes of 30 and more", asked("share(income >= 30)"), share_above)
SICK = Question("share of the sick", asked("share(sick = 1)"), share_sick)
SEXES = Question(
    "difference of means, women and men", asked("difference(mean(income | sex = f), mean(income | sex = m))"), sexes
)
CORRELATION = Question("correlation of age and income", asked("corr(age, income)"), correlation)
SLOPE = Question("slope of income on age", asked("regress(income ~ age): age"), slope)
LOGIT = Question("logistic coefficient of age", fitted, logit)
IN_A = Question("share of people in region a", asked("share(region = a)"), share_in_a)
APART = Question(
    "difference of means, regions e and a",
    asked("difference(mean(income | region = e), mean(income | region = a))"),
    regions,
)
ALL = (MEAN, SHARE, SICK, SEXES, CORRELATION, SLOPE, LOGIT)
BOXED = {"age": "quasi", "income": "quasi", "sex": "other", "sick": "other", "region": "identifier"}
SIGHTED = BOXED | {"village": "identifier"}


@dataclass(frozen=True)
class Part:
    """A design of surveys, a method, and what is asked."""

    title: str
    text: str
    draw: Callable[[np.random.Generator], pd.DataFrame]
    method: sf.Method
    schema: Mapping[str, object]
    questions: Sequence[Question]
    weighted: bool = False
    clustered: bool = False

    def survey(self, seed: int) -> np.ndarray:
        """Draw and release one survey; return for each question what held, and both widths."""
        warnings.simplefilter("ignore", sf.SfumatoWarning)
        people = self.draw(np.random.default_rng([seed, 7]))
        release = self.method.release(people, schema=dict(self.schema), seed=seed, rows_not_people=True)
        return np.array([self.judge(one, people, release) for one in self.questions])

    def judge(self, question: Question, people: pd.DataFrame, release: Release) -> tuple[float, ...]:
        """Return whether the certain, the joined and the usual intervals held, that without the design, and widths."""
        said, truth = question.ask(release), parameter(question)
        value, usual = question.usual(people, self.weighted, self.clustered)
        plain = question.usual(people, False, False)
        slack = 1e-9 * max(1.0, abs(value))
        return (
            said.low - slack <= value <= said.high + slack,
            said.confidence_low <= truth <= said.confidence_high,
            abs(value - truth) <= usual,
            abs(plain[0] - truth) <= plain[1],
            said.confidence_high - said.confidence_low,
            2.0 * usual,
        )


@cache
def parameter(question: Question) -> float:
    """Return the parameter of the population, computed once in each process."""
    return question.truth()


PARTS = (
    Part(
        "Boxes, people drawn one by one",
        "300 people, each drawn with the same probability.",
        draw_people,
        sf.Boxes(k=K, keep=["regress(income ~ age)"]),
        SIGHTED,
        ALL,
    ),
    Part(
        "Boxes, sampling weights",
        "300 people; those of 65 and more years are drawn three times, those with an income below 25 twice as often. "
        "The weights are released as the mean and the range of each box. *Naive* ignores them.",
        draw_with_weights,
        sf.Boxes(k=K, keep=["regress(income ~ age)"]),
        SIGHTED | {"weight": "weight"},
        ALL,
        weighted=True,
    ),
    Part(
        "Boxes, strata and clusters",
        f"{CLUSTERS} villages of each of {REGIONS} regions, and {EACH} people of each village. The schema names the "
        'region (`design = "stratum"`) and the village (`design = "cluster"`), which are released as they are. '
        "*Naive* takes people as drawn one by one.",
        draw_villages,
        sf.Boxes(k=K, keep=["regress(income ~ age)"]),
        BOXED
        | {
            "region": {"role": "other", "design": "stratum"},
            "village": {"role": "other", "design": "cluster"},
        },
        ALL,
        clustered=True,
    ),
    Part(
        "Noise",
        "Age and income have noise of half of their standard deviations; people are drawn one by one.",
        draw_people,
        sf.Noise(level=0.5, correct=False),
        SIGHTED,
        (MEAN, CORRELATION, SLOPE),
    ),
    Part(
        "Pram",
        "The region is changed at random; people are drawn one by one.",
        draw_people,
        sf.Pram(),
        {
            "region": "quasi",
            "age": "other",
            "income": "other",
            "sex": "other",
            "sick": "other",
            "village": "identifier",
        },
        (IN_A, APART),
    ),
    Part(
        "Synthesize",
        "All columns are synthetic; people are drawn one by one.",
        draw_people,
        sf.Synthesize(),
        SIGHTED | {"sex": "quasi", "sick": "quasi"},
        (MEAN, SEXES, SLOPE),
    ),
)


def run(task: tuple[int, int]) -> np.ndarray:
    """Run one survey of a part."""
    return PARTS[task[0]].survey(task[1])


def likely(hits: int, surveys: int) -> float:
    """Return the probability of at most so many hits if an interval holds the parameter in 95 % of all surveys."""
    return float(stats.binom.cdf(hits, surveys, CONFIDENCE))


def section(part: Part, found: np.ndarray) -> str:
    """Return the section of a part, from (surveys, questions, 6) results."""
    rows = []
    for question, one in zip(part.questions, np.transpose(found, (1, 0, 2)), strict=True):
        certain, joined, usual, naive = one[:, :4].mean(axis=0)
        width = float(np.median(one[:, 4] / one[:, 5]))
        told = f"{certain:.1%}" if "Boxes" in part.title else "–"
        shown = [told, f"{joined:.1%}", f"{usual:.1%}", f"{naive:.1%}", f"{width:.2f}"]
        rows.append(f"| {question.name} | {parameter(question):.4g} | {' | '.join(shown)} |")
    return SECTION.format(title=part.title, text=part.text, table="\n".join(rows))


SECTION = """## {title}

{text}

| number | parameter | certain | joined | usual | naive | width |
| --- | --- | --- | --- | --- | --- | --- |
{table}
"""
TEXT = """# Simulated surveys

Written by `docs/replication/surveys.py`; do not edit by hand.

{surveys:,} surveys of each design were drawn from a population of {people:,} people in {villages:,} villages of
{regions} regions, whose parameters are known. Each survey was released, and an analyst asked the release for up to
seven numbers, with `confidence=0.95`. Boxes hold at least {k} people by age and income; sex and sickness are released
as they are.

- *certain*: how often the guaranteed interval held the number of the survey itself. It must always.
- *joined*: how often the joined interval held the parameter of the population. It must in at least 95 % of all
  surveys; {verdict}.
- *usual*: the same of the usual 95 % confidence interval in the survey as it was before the release, by the design.
- *naive*: the same of the usual interval in the survey if weights and design are ignored.
- *width*: median width of the joined interval, as a multiple of the usual one.

Noise, Pram and Synthesize guarantee no interval; their estimates are corrected
([other methods](../theory/inference.md#other-methods)).

{sections}
"""


def main() -> int:
    """Draw the surveys, and write the page."""
    surveys = int(sys.argv[1]) if len(sys.argv) > 1 else SURVEYS
    sections, failures, numbers = [], [], 0
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        for place, part in enumerate(PARTS):
            found = np.array(pool.map(run, [(place, seed) for seed in range(surveys)], chunksize=10))
            numbers += len(part.questions)
            sections.append(section(part, found))
            print(sections[-1], flush=True)
            if "Boxes" in part.title:
                failures += [f"{part.title}: a certain interval"] * int(found[:, :, 0].min() < 1.0)
            hits = found[:, :, 1].sum(axis=0)
            low = [one.name for one, own in zip(part.questions, hits, strict=True) if likely(own, surveys) < CHANCE]
            failures += [f"{part.title}: {name}" for name in low]
    if failures:
        print("not held:", failures)
        return 1
    text = TEXT.format(
        surveys=surveys,
        people=len(population()),
        villages=REGIONS * VILLAGES,
        regions=REGIONS,
        k=K,
        verdict=f"none of the {numbers} below is lower by more than chance (exact binomial, probability {CHANCE})",
        sections="\n".join(sections).rstrip(),
    )
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
