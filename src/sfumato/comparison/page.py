"""The page of a comparison: the risk–utility maps, with labels where there is room, and a table of all methods.

Positions are in units of the picture, whose size is fixed; the page scales it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from sfumato.report.html import environment
from sfumato.report.summary import decimals

if TYPE_CHECKING:
    from sfumato.comparison.records import ComparedMethod, Comparison


WIDTH, HEIGHT = 480.0, 420.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 14.0, 14.0, 52.0  # margins around the axes
INSIDE = 14.0  # between the frame and the ends of the axes, so that points at an end have room
CHARACTER, LINE = 7.0, 14.0  # width and height of a character of a label
AROUND = 16  # directions in which a label may lie from its point
COLOURS = 10  # of methods; the page defines them
Risk = Callable[["ComparedMethod"], float | None]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis: values of its ticks, and their positions in the picture."""

    low: float
    high: float
    start: float  # position of ``low``
    end: float  # position of ``high``

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float) -> Axis:
        """Return an axis from one round number to another that shows all values, which are shares from 0 to 1."""
        step = round_step(max(max(values) - min(values), 0.04) / 4.0)
        low = math.floor(min(values) / step - 0.25) * step
        high = math.ceil(max(values) / step + 0.25) * step
        return cls(low=max(low, 0.0), high=min(high, 1.0), start=start, end=end)

    def at(self, value: float) -> float:
        """Return the position of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Positions and texts of the ticks."""
        step = round_step((self.high - self.low) / 5.0)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        places = max(0, -math.floor(math.log10(step) + 1e-9))
        return tuple((self.at(place * step), f"{place * step:.{places}f}") for place in range(first, last + 1))


@dataclass(frozen=True, kw_only=True)
class Label:
    """The text beside a point, at the left end of its base line."""

    text: str
    x: float
    y: float


@dataclass(frozen=True, kw_only=True)
class Point:
    """A method at one strength, with its number in the table of the page."""

    number: int
    row: ComparedMethod
    colour: int
    x: float
    y: float
    label: Label


@dataclass(frozen=True, kw_only=True)
class Map:
    """One risk against utility."""

    points: tuple[Point, ...]
    lines: tuple[tuple[int, str], ...]  # colour and path of each method, from its weakest to its strongest trial
    frontier: str  # path through the points that no other point of this map beats
    horizontal: Axis
    vertical: Axis


def draw_map(rows: Sequence[ComparedMethod], risk: Risk, numbers: Sequence[int] | None = None) -> Map | None:
    """Place the rows that have a utility and this risk; None if there are none.

    ``numbers`` are those of the rows, if they are not 1, 2, 3, …
    """
    known = [
        (number, row, utility, found)
        for number, row in zip(numbers or range(1, len(rows) + 1), rows, strict=True)
        if (utility := row.utility) is not None and (found := risk(row)) is not None
    ]
    if not known:
        return None
    horizontal = Axis.around([utility for _, _, utility, _ in known], LEFT + INSIDE, WIDTH - RIGHT - INSIDE)
    vertical = Axis.around([found for *_, found in known], HEIGHT - BOTTOM - INSIDE, TOP + INSIDE)
    colours = colours_of(rows)
    places = [(horizontal.at(utility), vertical.at(found)) for _, _, utility, found in known]
    labels = _labels(_texts([(number, row) for number, row, _, _ in known]), places)
    points = tuple(
        Point(number=number, row=row, colour=colours[row.method], x=x, y=y, label=label)
        for (number, row, _, _), (x, y), label in zip(known, places, labels, strict=True)
    )
    return Map(
        points=points,
        lines=tuple(
            (colour, _path([p for p in points if p.colour == colour])) for colour in sorted(set(colours.values()))
        ),
        frontier=_path(_frontier(points)),
        horizontal=horizontal,
        vertical=vertical,
    )


def colours_of(rows: Sequence[ComparedMethod]) -> dict[str, int]:
    """Return the number of the colour of each method; colours repeat after ten methods."""
    methods = dict.fromkeys(row.method for row in rows)
    return {method: place % COLOURS for place, method in enumerate(methods)}


def round_step(least: float) -> float:
    """Return the smallest of 0.01, 0.02, 0.05, 0.1, 0.2, … that is at least ``least``.

    >>> round_step(0.03)
    0.05
    """
    power = 10.0 ** math.floor(math.log10(least) + 1e-9)
    return next(round(factor * power, 12) for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least * (1 - 1e-9))


def _frontier(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other has less risk and more utility than, from the least useful to the most."""
    best: list[Point] = []
    for point in sorted(
        points, key=lambda one: (-one.x, -one.y)
    ):  # most useful first; y grows downward, so low risk first
        if not best or point.y > best[-1].y:
            best.append(point)
    return best[::-1]


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{point.x:.1f} {point.y:.1f}" for point in points) if len(points) > 1 else ""


def _texts(rows: Sequence[tuple[int, ComparedMethod]]) -> list[str]:
    """Return the labels: the number, and the name of the method at its first point."""
    named: set[str] = set()
    texts = []
    for number, row in rows:
        texts.append(f"{number}" if row.method in named else f"{number} {row.method}")
        named.add(row.method)
    return texts


def _labels(texts: Sequence[str], places: Sequence[tuple[float, float]]) -> list[Label]:
    """Place each label near its point where it overlaps least with points, labels and margins."""
    taken = [(x - 6.0, y - 6.0, x + 6.0, y + 6.0) for x, y in places]
    labels = []
    for text, (x, y) in zip(texts, places, strict=True):
        width = CHARACTER * len(text)
        boxes = [_box(x, y, width, turn, away) for away, turn in product((9.0, 16.0, 26.0, 38.0), range(AROUND))]
        chosen = min(boxes, key=lambda box: (_crowding(box, taken), _distance(box, x, y)))
        taken.append(chosen)
        labels.append(Label(text=text, x=chosen[0], y=chosen[3] - 3.0))
    return labels


Box = tuple[float, float, float, float]  # left, top, right, bottom


def _box(x: float, y: float, width: float, turn: int, away: float) -> Box:
    angle = 2.0 * math.pi * turn / AROUND
    across, down = math.cos(angle), math.sin(angle)
    left = x + away * across + (across - 1.0) / 2.0 * width
    top = y + away * down + (down - 1.0) / 2.0 * LINE
    return left, top, left + width, top + LINE


def _crowding(box: Box, taken: Sequence[Box]) -> float:
    """Return the area that a label shares with others, and more if it leaves the axes."""
    left, top, right, bottom = box
    outside = max(LEFT - left, 0.0) + max(right - WIDTH, 0.0) + max(-top, 0.0) + max(bottom - HEIGHT + BOTTOM, 0.0)
    shared = sum(
        max(min(right, other[2]) - max(left, other[0]), 0.0) * max(min(bottom, other[3]) - max(top, other[1]), 0.0)
        for other in taken
    )
    return shared + 100.0 * outside


def _distance(box: Box, x: float, y: float) -> float:
    return math.hypot(max(box[0] - x, x - box[2], 0.0), max(box[1] - y, y - box[3], 0.0))


MOST_NAMED = 6  # methods that the first sentence names


def render(comparison: Comparison) -> str:
    """Render the page; it shows scores, options and names of methods, and no cell."""
    templates = environment()
    templates.filters.update(share=partial(decimals, unknown="not measured"))
    return templates.get_template("comparison.html.j2").render(**map_context(comparison))


def map_context(comparison: Comparison, numbers: Sequence[int] | None = None) -> dict[str, Any]:
    """Return what the template of the maps shows; ``numbers`` of the trials, if they are not 1, 2, 3, …"""
    rows = comparison.rows
    return {
        "comparison": comparison,
        "composed": any(row.fewest_candidates is not None for row in comparison.rows),
        "verdict": verdict(comparison),
        "maps": (
            (
                "Risk against people who never took part",
                "How much better people are recognised in the release than among other people: 0 means no better. "
                f"About {chance(comparison):.2f} is seen by chance.",
                draw_map(rows, lambda row: row.reference_risk, numbers),
            ),
            (
                "Risk by the worst attack",
                "How much the best of all attacks gains over guessing, with 95 % confidence: 0 means nothing.",
                draw_map(rows, lambda row: row.attack_risk, numbers),
            ),
        ),
        "numbered": list(zip(numbers or range(1, len(rows) + 1), rows, strict=True)),
        "colours": colours_of(rows),
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "top": TOP,
        "bottom": HEIGHT - BOTTOM,
    }


def chance(comparison: Comparison) -> float:
    """Return the mean risk against others of a release that is a sample of others: a one-sided shift by chance.

    The mean of the one-sided Kolmogorov–Smirnov statistic of two samples of n rows is about √(π/8) √(2/n).
    """
    rows = min(comparison.original_rows, comparison.reference_rows)
    return math.sqrt(math.pi / 8.0) * math.sqrt(2.0 / max(rows, 1))


def verdict(comparison: Comparison) -> str:
    """Return the result in a sentence: which methods are not beaten, and which of them promise privacy."""
    best = comparison.best
    if not best:
        return "No method could be placed on the map."
    promising = [row for row in best if row.guarantee and row.guarantee != "no guarantee"]
    tested = [row for row in best if row.passed]
    tried = f"{len(best)} of {len(comparison.rows)} trials are" if len(comparison.rows) > 1 else "1 trial is"
    parts = [f"{tried} not beaten by another one: {_named(best)}."]
    parts.append(
        f"Of these, {_named(promising)} promise{'s' if len(promising) == 1 else ''} privacy."
        if promising
        else "None of these promises privacy."
    )
    parts.append(
        f"All privacy tests were passed by {_named(tested)}." if tested else "None of these passed all privacy tests."
    )
    return " ".join(parts)


def _named(rows: tuple[ComparedMethod, ...] | list[ComparedMethod]) -> str:
    names = [f"{row.method} ({row.strength})" if row.strength else row.method for row in rows]
    more = len(names) - MOST_NAMED
    shown = names if more <= 1 else [*names[:MOST_NAMED], f"{more} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
