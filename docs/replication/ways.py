"""Write ways.md and its figure: every way of every method on one map of risk and utility, on NHANES.

    python docs/replication/ways.py [folder of the real tables]

The folder contains ``nhanes/``. By default it is SFUMATO_DATA, or shared/data next to the repository. Without the table
the page is not changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import sfumato as sf
from sfumato.comparison.records import ComparedMethod, Comparison, decimals
from sfumato.errors import OptionError
from sfumato.methods.base import METHODS, Method, make_method, method_class
from sfumato.params import Choice, options_of
from sfumato.report.picture import ACCENT, INK, MUTED, blank_figure, png, style_axes
from spectral import LABORATORY, folder, nhanes

PAGE = Path(__file__).with_suffix(".md")
FIGURE = Path(__file__).with_name("figures") / "ways.png"
PEOPLE = 2000  # half of them are released
WAYS = ("kind", "basis", "variant", "pieces", "marginals")  # options that choose another algorithm
CORNER = (0.78, 0.13)  # least utility and largest risk of the enlarged part of the map


def ways() -> Iterator[Method]:
    """Yield each method as it is by default, and with each other algorithm that one of its options names.

    Groups have 5 rows, the second weakest value that methods name, where there is no default.
    """
    for name in METHODS:
        options = options_of(method_class(name))
        named = [one for one in options if one.declared.strengths and (one.is_required or one.default is None)]
        needed = {one.name: one.declared.strengths[1] for one in named}
        yield make_method(name, **needed)
        for option in options:
            if option.name in WAYS and isinstance(option.declared.range, Choice):
                others = [choice for choice in option.declared.range.choices if choice != option.default]
                yield from filter(None, (_made(name, **needed, **{option.name: choice}) for choice in others))


def _made(name: str, **options: object) -> Method | None:
    """Return a method; None if it needs another option, such as the classes within which to swap."""
    try:
        return make_method(name, **options)
    except OptionError:
        return None


def label(row: ComparedMethod) -> str:
    """Return the name of a method and the way that it goes, if it is not its default."""
    chosen = [f"{name} {row.options[name]}" for name in WAYS if name in row.options]
    return ", ".join([row.method, *chosen])


def line(number: int, row: ComparedMethod) -> str:
    cells = [decimals(row.reference_risk), decimals(row.attack_risk), decimals(row.utility)]
    marks = [row.verdict, "yes" if row.non_dominated else ""]
    return f"| {number} | {label(row)} | {' | '.join([*cells, *marks])} | {row.promise} |"


def draw(comparison: Comparison) -> Figure:
    """Return the map, and its corner of small risks enlarged, where numbers are those of the table."""
    figure = blank_figure(9.6, 4.4)
    whole, corner = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    placed = [
        (number, row, row.utility, max(row.reference_risk or 0.0, row.attack_risk or 0.0))
        for number, row in enumerate(comparison.rows, 1)
        if row.losses is not None and row.utility is not None
    ]
    near = sorted((one for one in placed if one[2] >= CORNER[0] and one[3] <= CORNER[1]), key=lambda one: one[2])
    for axes, shown in ((whole, placed), (corner, near)):
        for _, row, x, y in shown:
            axes.plot(x, y, "o", ms=5 if row.non_dominated else 3.5, color=ACCENT if row.non_dominated else MUTED)
        axes.set_xlabel("utility")
        axes.set_ylabel("larger of both risks")
        style_axes(axes)
    numbers: dict[tuple[float, float], list[str]] = {}
    for number, _, x, y in near:
        numbers.setdefault((round(x, 3), round(y, 3)), []).append(str(number))
    places = np.array(list(numbers)).reshape(-1, 2)
    scaled = places / np.maximum(np.ptp(places, axis=0), 1e-9) if len(places) else places
    for index, (place, alike) in enumerate(numbers.items()):
        distances = np.linalg.norm(scaled - scaled[index], axis=1)
        distances[index] = np.inf
        above = 5 if scaled[distances.argmin(), 1] <= scaled[index, 1] else -11  # away from the nearest point
        text = ", ".join(alike)
        corner.annotate(text, place, xytext=(-4, above), textcoords="offset points", fontsize=6.5, color=INK)
    return figure


def main() -> None:
    warnings.simplefilter("ignore")  # the seed is fixed here, so that the page can be made again
    data = folder()
    if data is None:
        print("the real table was not found; ways.md is not changed")
        return
    table = nhanes(data).select(list(LABORATORY))
    table = table.take(np.sort(np.random.default_rng(11).permutation(table.rows)[:PEOPLE]))
    compared = sf.compare(table, list(ways()), schema=dict.fromkeys(LABORATORY, "quasi"), seed=11)
    made = [(number, row) for number, row in enumerate(compared.rows, 1) if not row.reason]
    left_out = [f"| {label(row)} | {row.reason} |" for row in compared.failed]
    FIGURE.write_bytes(png(draw(compared)))
    text = TEXT.format(
        people=compared.original_rows,
        others=compared.reference_rows,
        columns=len(LABORATORY),
        best=len(compared.best),
        ways=len(made),
        passed=sum(bool(row.passed) for _, row in made),
        rows="\n".join(line(number, row) for number, row in made),
        refused="\n".join(left_out),
    )
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE.name}")


TEXT = """\
# Every way of every method on one map

Written by `docs/replication/ways.py`; do not edit by hand. Each method as it is by default, and with each other
algorithm that its options `kind`, `basis`, `variant`, `pieces` and `marginals` name: those of the papers' open problems
beside the classical ones. A way that needs another option, such as the classes within which to swap, is left out.
`sf.compare` releases {people:,} people of NHANES with {columns} laboratory values, all of them quasi-identifiers, and
assesses each release against {others:,} people who never took part. Groups have 5 rows.

*Recognised* is how much better its own people are recognised in the release than others, *attack* the gain of the worst
attack over guessing, *utility* 1 − the largest shift of a kernel component; all are from 0 to 1. One split at default
strengths: differences of less than 0.05 are chance. {passed} of {ways} pass all privacy tests; {best} are not beaten by
another way in all three numbers. A release of few different rows can fail a test although nobody is recognised: the
five nearest rows are then alike, whoever is looked for.

![Risk and utility of all ways](figures/ways.png)

| | way | recognised | attack | utility | privacy tests | not beaten | what is promised |
|---:|---|---:|---:|---:|---|---|---|
{rows}

No release of this table:

| way | why |
|---|---|
{refused}

**Learnt:** of the ways that leave little risk, rows drawn from a model and swaps in a spectral basis keep most, among
them those of TL's open problems (restored marginals, robust directions, curves); partitioned swapping keeps the most of
all and leaves a little more risk. No way that promises groups is among them: what a promise costs is seen here, and
what it is worth is not, because no attack that was tried replaces it.
"""

if __name__ == "__main__":
    main()
