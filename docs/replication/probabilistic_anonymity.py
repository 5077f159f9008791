"""Write probabilistic-anonymity.md: the numbers of the paper and ours.

    python docs/replication/probabilistic_anonymity.py [folder of the real tables]

The folder contains ``adult/adult.data``. By default it is SFUMATO_DATA, or shared/data next to the repository.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import sfumato as sf
from sfumato.methods.generalize.quasi_recodings import real_shares, share_budget
from sfumato.risk.uniqueness import Uniqueness, unique_bound

PAGE = Path(__file__).with_name("probabilistic-anonymity.md")
POPULATION = 300_000_000  # of the United States, as in the paper
E_OF_THE_PAPER = 2.7  # the paper divides by 2.7, although its theorem says e

ADULT = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]
# A1 … A10 of Figure 3, with the domain sizes of the paper
DOMAINS = {
    "age": 60,
    "workclass": 8,
    "education": 15,
    "marital-status": 7,
    "occupation": 14,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "hours-per-week": 20,
    "native-country": 40,
}


@dataclass(frozen=True)
class Row:
    """A row of Figure 3 as printed: numbers of the columns, and S, F1, D, F2 and k-Anon."""

    columns: tuple[int, ...]
    unique: int
    share: str
    domain: str
    bound: str
    anonymity: str

    @property
    def names(self) -> list[str]:
        return [list(DOMAINS)[number - 1] for number in self.columns]


FIGURE_3 = (
    Row((1,), 2, "6.1e-5", "60", "7.4e-8", "5e6"),
    Row((1, 9), 986, "0.03", "1200", "1.48e-6", "2.5e5"),
    Row((1, 7, 8), 65, "0.002", "600", "7.4e-7", "5e5"),
    Row((1, 2, 3, 5), 5056, "0.16", "1e5", "1.2e-4", "3e3"),
    Row((1, 2, 5, 10), 3105, "0.095", "2.7e5", "3.3e-4", "1.1e3"),
    Row((1, 5, 9, 10), 7581, "0.23", "6.7e5", "8.3e-4", "450"),
    Row((2, 3, 5, 10), 1384, "0.043", "6.7e4", "8.3e-5", "4.5e3"),
    Row((1, 2, 3, 5, 10), 7659, "0.235", "4e6", "4.9e-3", "75"),
    Row((1, 2, 4, 5, 6), 5215, "0.16", "2.8e5", "3.4e-4", "1e3"),
    Row((1, 2, 5, 6, 9), 12870, "0.40", "8e5", "9.9e-4", "380"),
    Row((1, 2, 5, 9, 10), 10402, "0.32", "5.4e6", "6.7e-3", "55"),
    Row((1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 24802, "0.76", "33e9", "0.99", "1"),
)


@dataclass(frozen=True)
class Compared:
    """A number of the paper and ours. They agree if they differ by at most one unit of the last printed digit."""

    what: str
    printed: str
    found: float

    @property
    def unit(self) -> float:
        """Unit of the last printed digit; trailing zeros before the decimal point do not count as printed digits."""
        digits, _, power = self.printed.partition("e")
        whole, _, fraction = digits.partition(".")
        zeros = 0 if fraction or power else len(whole) - len(whole.rstrip("0"))
        return 10.0 ** (int(power or 0) - len(fraction) + zeros)

    @property
    def agrees(self) -> bool:
        return abs(self.found - float(self.printed)) <= self.unit * (1 + 1e-9)


def folder_of_tables() -> Path:
    """Return the folder of the real tables."""
    given = os.environ.get("SFUMATO_DATA")
    return Path(given) if given else Path(__file__).resolve().parents[2].parent / "shared" / "data"


def adult(folder: Path) -> pa.Table:
    """Return the Adult table: all 32,561 rows, "?" as a value, and categories without spaces."""
    text = (folder / "adult" / "adult.data").read_text().strip().replace(", ", ",")
    read = pyarrow.csv.read_csv(
        pa.BufferReader(text.encode()),
        read_options=pyarrow.csv.ReadOptions(column_names=ADULT),
        convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=False),
    )
    return read.select(list(DOMAINS))


def figure_3(table: pa.Table) -> list[tuple[Row, Uniqueness, list[Compared]]]:
    """Return every row of Figure 3 as printed, our numbers, and both compared."""
    rows = []
    for row in FIGURE_3:
        found = sf.uniqueness(table, row.names, POPULATION, domain_sizes=DOMAINS)
        bound = found.bound * math.e / E_OF_THE_PAPER if found.domain <= POPULATION else found.bound
        compared = [
            Compared("S", str(row.unique), found.unique_rows),
            Compared("F1", row.share, found.unique_fraction),
            Compared("D", row.domain, found.domain),
            Compared("F2", row.bound, bound),
            Compared("k-Anon", row.anonymity, found.anonymity),
        ]
        rows.append((row, found, compared))
    return rows


def bound_points() -> list[tuple[float, float, float]]:
    """Compute Figure 1: D/n, the bound, and the share of unique people in a population of the worst distribution."""
    people, points = 200_000, []
    generator = np.random.default_rng(1)
    for ratio in (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0):
        size = round(ratio * people)
        shares = np.full(size, min(1.0 / people, 1.0 / size))
        shares[-1] += 1.0 - shares.sum()  # below n, one combination takes everybody whom the others do not need
        unique = int((generator.multinomial(people, shares) == 1).sum())
        points.append((ratio, unique_bound(size, people), unique / people))
    return points


def examples() -> list[Compared]:
    """Compute Examples 3, 4, 6, 7 and 8, §3.2, and Example 11."""
    budget = sf.anonymity_budget(POPULATION, k=100, beta=0.1)
    values = {"gender": 2, "date of birth": 20_000, "zip code": 100_000}
    equal = dict.fromkeys(values, 1.0)
    first = real_shares(2.4e6, dict.fromkeys(values, 10**9), equal)
    shared = share_budget(2_400_000, values)
    hipaa = sf.anonymity_budget(POPULATION, k=20_000, beta=0.1)
    curse = sf.anonymity_budget(POPULATION, k=10, beta=0.1)
    numbers = pa.table({"x": [1, 12, 4, 7, 3]})
    release = sf.Quantiles(k=2).release(numbers, schema={"x": "quasi"}, seed=1)
    difference = release.manifest.notes["columns"]["x"]["rank difference"]
    return [
        Compared("Example 3: share of unique people by gender, birth and ZIP, at most", "0.93", unique_bound(4e9, 3e8)),
        Compared("Example 4: by nationality, birth and occupation, in the world", "0.025", unique_bound(4e8, 6e9)),
        Compared("Example 6: combinations allowed for (0.9, 100), by LT's formula", "2.4e6", budget.chernoff),
        Compared("Example 6: factor by which combinations must be reduced", "1700", 4e9 / budget.chernoff),
        Compared("Example 7: values of each of three columns", "133", first["gender"]),
        Compared("Example 7: values of birth and of ZIP, gender kept", "1.1e3", shared["zip code"]),
        Compared("Example 8: values of ZIP with gender and 100 ages, k = 20,000", "75", hipaa.exact / 200),
        Compared("§3.2: values of each of 25 columns, k = 10", "2", curse.exact ** (1 / 25)),
        Compared("Example 11: rank difference of a 2-anonymous transformation", "3", difference),
    ]


def curve_points() -> list[tuple[int, float, float]]:
    """Compute Figure 7 on uniformly distributed values: buckets, error, 1/b²."""
    numbers = np.random.default_rng(7).random(250_000)
    curve = sf.privacy_utility_curve(pa.table({"x": numbers}), "x", (1, 2, 5, 10, 25, 50, 100, 250, 500))
    return [(point.buckets, point.error, point.law) for point in curve.points]


def page(folder: Path) -> str:
    """Return the page as Markdown."""
    table = adult(folder)
    rows = figure_3(table)
    found = sf.quasi_identifiers(table, POPULATION, alpha=0.2)
    may = sf.quasi_identifiers(table, POPULATION, alpha=0.2, by="population", domain_sizes=DOMAINS)
    budget = sf.anonymity_budget(POPULATION, k=100, beta=0.1)
    lines = [
        "# Probabilistic anonymity, replicated",
        "",
        "S. Lodha and D. Thomas, *Probabilistic Anonymity*. Written by "
        "`docs/replication/probabilistic_anonymity.py`; do not edit by hand.",
        "",
        "## Figure 1: the largest share of unique people",
        "",
        "The bound of Theorems 1 and 2 over D/n, and the share of unique people in 200,000 people who were drawn from",
        "the distribution that the theorems call the worst: equally likely combinations, of which one takes all other",
        "people if there are fewer combinations than people. The paper reads from its curve that columns with D < 3n",
        "hardly form a 0.75-quasi-identifier.",
        "",
        "| D/n | bound | drawn |",
        "| --- | --- | --- |",
        *(f"| {ratio:g} | {bound:.3f} | {drawn:.3f} |" for ratio, bound, drawn in bound_points()),
        "",
        f"## Figure 3: the Adult table, {table.num_rows:,} rows",
        "",
        "S is the number of unique rows, and F1 their share. D is the product of the domain sizes of the paper. F2",
        f"is an upper bound of the expected share of unique people among {POPULATION:,}, and k-Anon is n/D (or 1).",
        "The number of the paper comes first, then ours. S is equal; every other number agrees within one unit of its",
        "last printed digit (F2 if it is divided by 2.7 as in the paper, whose theorem says e; ours is divided by e).",
        "",
        "| columns | S | F1 | D | F2 | k-Anon |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row, ours, compared in rows:
        shown = [ours.unique_rows, ours.unique_fraction, ours.domain, ours.bound, ours.anonymity]
        cells = [f"{one.printed} · {_short(number)}" for one, number in zip(compared, shown, strict=True)]
        lines.append(f"| {', '.join(row.names)} | {' | '.join(cells)} |")
    lines += [
        "",
        f"Minimal 0.2-quasi-identifiers of the ten columns by counted rows: **{len(found)}**, of at least "
        f"{min(len(one.columns) for one in found)} columns. By the bound for the population, with the domain",
        f"sizes of the paper: **{len(may)}** sets that may identify people, of at least "
        f"{min(len(one.columns) for one in may)} columns.",
        "",
        "## Examples",
        "",
        "| what | paper | ours |",
        "| --- | --- | --- |",
        *(f"| {one.what} | {one.printed} | {_short(one.found)} |" for one in examples()),
        "",
        f"In Example 6 the exact binomial tail allows {budget.exact:,} combinations, the formula of the paper "
        f"{budget.chernoff:,}, and for any distribution {budget.any_distribution:,} are allowed.",
        "",
        "## Figure 7: error against buckets",
        "",
        "250,000 uniformly distributed values in b quantile buckets, released as their means; the error is relative to",
        "one bucket.",
        "",
        "| b | error | 1/b² | ratio |",
        "| --- | --- | --- | --- |",
        *(f"| {b} | {error:.3g} | {law:.3g} | {error / law:.3f} |" for b, error, law in curve_points()),
        "",
        "The law holds for uniformly distributed values. On skewed columns quantile buckets lose more: see the",
        "[theory page](../theory/probabilistic.md#privacy-and-utility).",
        "",
    ]
    return "\n".join(lines)


def _short(number: float) -> str:
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def main() -> None:
    """Write the page, or print a message if the real tables were not found."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else folder_of_tables()
    if not (folder / "adult" / "adult.data").is_file():
        print(f"{PAGE.name} is not changed: set SFUMATO_DATA to the folder of the real tables")
        return
    PAGE.write_text(page(folder))
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
