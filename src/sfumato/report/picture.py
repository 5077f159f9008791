"""The picture of two columns, boxes or a map of where people are, and the colours of all pictures."""

from __future__ import annotations

import io
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.report.summary import number
from sfumato.risk.safe_shares import round_step
from sfumato.statistics.counted_boxes import CountedBoxes

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from sfumato.statistics.units import Calendar
    from sfumato.table.table import Table


PAPER, INK, MUTED, PALE, ACCENT = "#fbf8f2", "#2b2119", "#8a7a68", "#cbbda8", "#1f5a6b"

# from few rows in a large area to many rows in a small area
SHADES = ("#eee4d3", "#e3d2b6", "#d6bc94", "#c6a271", "#b08454", "#91653d", "#6d4829", "#48301d")


def shade_of(density: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the index in SHADES of each density (above 0): equally many boxes per shade, the densest darkest."""
    _, rank, counts = np.unique(density, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts
    return (below[rank] * len(SHADES) // max(density.size, 1)).astype(np.int64)


def blank_figure(width: float, height: float) -> Figure:
    """Return an empty figure with the common background; sizes in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), facecolor=PAPER)


def png(figure: Figure, *, dots_per_inch: int = 160) -> bytes:
    """Return a figure as PNG, without date and software in its metadata."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    file = io.BytesIO()
    FigureCanvasAgg(figure).print_figure(file, dpi=dots_per_inch, format="png", metadata={"Software": None})
    return file.getvalue()


def style_axes(axes: Any) -> None:
    """Draw only the left and the bottom side of the axes, pale and with small ticks."""
    axes.set_facecolor(PAPER)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(PALE)
    axes.tick_params(colors=MUTED, labelsize=9, length=3)


MOST_BOXES = 4000  # in the picture, so that the page stays small
SMALLEST_RANGE = 1e-300  # that can be scaled to the picture; a smaller one is drawn as a point
WIDTH, HEIGHT = 960, 600  # of the picture, in its own units
COLUMNS, ROWS = 32, 20  # fields of a map
OUTSIDE, ZOOM = 0.05, 2.0  # share of people that a picture may leave out at an end, if it grows by this factor
CHUNK = 50_000  # boxes that are put on a map together, because each takes a cell per column and row
CROWDED = 4.0  # mean number of boxes over a point that has any, from which they are not drawn


@dataclass(frozen=True, kw_only=True, repr=False)
class Picture:
    """Two columns as SVG paths, one path per shade, the lightest first."""

    x: str
    y: str
    paths: tuple[tuple[int, str], ...]  # number of the shade, path
    x_ends: tuple[str, str]
    y_ends: tuple[str, str]
    drawn: int
    boxes: int
    is_map: bool  # whether fields of a map are drawn, and not boxes
    is_zoomed: bool  # whether boxes reach beyond the picture


def draw(table: Table, x: str, y: str, known: Collection[str] | None = None) -> Picture | None:
    """Draw two columns, more people per area darker; return None if no row has values in both columns.

    ``known`` are the columns of the original that are released.
    """
    intervals = CountedBoxes.of(table, [x, y], known=known)
    present = ~np.isnan(intervals.low).any(axis=1)
    low, high, rows = intervals.low[present], intervals.high[present], intervals.count[present]
    if not rows.size:
        return None
    start, end, is_zoomed = _view(low, high, rows, may_zoom=not intervals.calendars)
    size = np.array([WIDTH, HEIGHT])
    scale = size / np.where(end - start > SMALLEST_RANGE, end - start, 1.0)
    seen = ((high >= start) & (low <= end)).all(axis=1)
    left, right = (np.clip((ends[seen] - start) * scale, 0, size) for ends in (low, high))
    rows = rows[seen]
    fields = _fields(left, right, rows.astype(np.float64))
    covered = max(int((fields > 0.0).sum()), 1) / (COLUMNS * ROWS) * WIDTH * HEIGHT
    is_map = bool((right - left).prod(axis=1).sum() / covered > CROWDED)
    corners, sizes, density = _map(fields) if is_map else _boxes(left, right, rows)
    chosen = slice(None) if is_map else slice(None, None, -(-rows.size // MOST_BOXES))
    return Picture(
        x=x,
        y=y,
        paths=_paths(corners[chosen], sizes[chosen], shade_of(density)[chosen]),
        x_ends=_texts(start[0], end[0], intervals.calendars.get(x)),
        y_ends=_texts(start[1], end[1], intervals.calendars.get(y)),
        drawn=len(corners[chosen]),
        boxes=int(rows.size),
        is_map=is_map,
        is_zoomed=is_zoomed,
    )


def _view(
    low: NDArray[np.float64], high: NDArray[np.float64], rows: NDArray[np.int64], *, may_zoom: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Return the ends of the picture: of all boxes, or without the outermost people if these take most of the room.

    Ends are rounded outward, because those of the boxes may be cells of the original.
    """
    start, end = low.min(axis=0), high.max(axis=0)
    inner = [(_quantile(low[:, a], rows, OUTSIDE), _quantile(high[:, a], rows, 1.0 - OUTSIDE)) for a in (0, 1)]
    first, last = (np.array(ends) for ends in zip(*inner, strict=True))
    if may_zoom and bool((end - start > ZOOM * (last - first)).any()) and bool((last > first).all()):
        return *_outward(first, last), True
    return *_outward(start, end), False


def _outward(start: NDArray[np.float64], end: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    span = np.where(end - start > SMALLEST_RANGE, end - start, np.maximum(np.abs(end), 1.0))
    steps = np.array([round_step(float(one) / 25.0) for one in span])
    return np.floor(start / steps) * steps, np.ceil(end / steps) * steps


def _quantile(ends: NDArray[np.float64], rows: NDArray[np.int64], share: float) -> float:
    order = np.argsort(ends, kind="stable")
    reached = np.searchsorted(np.cumsum(rows[order]), share * rows.sum())
    return float(ends[order][min(int(reached), len(ends) - 1)])


def _fields(left: NDArray[np.float64], right: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the people in each field of a map, if those of a box are spread evenly over it."""
    fields = np.zeros((COLUMNS, ROWS))
    for first in range(0, len(rows), CHUNK):
        some = slice(first, first + CHUNK)
        across, upward = (
            _overlaps(left[some, axis], right[some, axis], np.linspace(0.0, size, parts + 1))
            for axis, size, parts in ((0, WIDTH, COLUMNS), (1, HEIGHT, ROWS))
        )
        fields += (across * rows[some, None]).T @ upward
    return fields


def _overlaps(low: NDArray[np.float64], high: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    width = np.maximum(high - low, 1e-9)
    low = np.minimum(low, edges[-1] - 1e-9)  # a box without width at the end is in the last part
    shared = np.minimum(low[:, None] + width[:, None], edges[1:]) - np.maximum(low[:, None], edges[:-1])
    shares = np.maximum(shared, 0.0)
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300))


def _map(fields: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    wide, tall = WIDTH // COLUMNS, HEIGHT // ROWS
    column, row = np.nonzero(fields >= 0.5)  # half a person and more
    corners = np.column_stack([column * wide, HEIGHT - (row + 1) * tall]).astype(np.int64)
    return corners, np.tile(np.array([wide, tall], dtype=np.int64), (len(corners), 1)), fields[column, row]


def _boxes(
    left: NDArray[np.float64], right: NDArray[np.float64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    corners = np.rint(left).astype(np.int64)
    sizes = np.maximum(np.rint(right - left), 1).astype(np.int64)
    corners[:, 1] = HEIGHT - corners[:, 1] - sizes[:, 1]
    area = sizes.prod(axis=1)
    largest_first = np.argsort(-area, kind="stable")  # so that small ones stay visible
    return corners[largest_first], sizes[largest_first], (rows / area)[largest_first]


def _paths(
    corners: NDArray[np.int64], sizes: NDArray[np.int64], shade: NDArray[np.int64]
) -> tuple[tuple[int, str], ...]:
    paths = []
    for position in range(len(SHADES)):
        mine = shade == position
        rectangles = np.column_stack([corners[mine], sizes[mine]]).tolist()
        if rectangles:
            paths.append((position, "".join(f"M{x} {y}h{w}v{h}h-{w}z" for x, y, w, h in rectangles)))
    return tuple(paths)


def _texts(start: float, end: float, calendar: Calendar | None) -> tuple[str, str]:
    """Return the ends of an axis as text; of dates, the month."""
    if calendar is None:
        return number(start), number(end)
    first, last = (str(calendar.nearest(moment))[:7] for moment in (start, end))
    return first, last
