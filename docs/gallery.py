"""Write ``gallery.md``: each method on the same 442 patients: a picture, the call, and what it promises and keeps.

    python docs/gallery.py              # all methods, and the page
    python docs/gallery.py boxes noise  # the pictures of some methods, and the page

The patients are those of ``sfumato demo``. A picture shows body mass index and blood pressure: people of the original
as pale points, what is released as dark points, lines or boxes. Facts of methods that were not asked for are kept in
``pictures/gallery/facts.json``.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import sfumato as sf
from sfumato.job.demo_table import ROLES, diabetes_patients
from sfumato.methods.base import METHODS, make_method, method_class
from sfumato.report.reproduction import summary_of

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures" / "gallery"
FACTS = PICTURES / "facts.json"
X, Y = ("bmi", 17.0, 43.0), ("blood_pressure", 60.0, 135.0)
WIDTH, HEIGHT, EDGE = 340.0, 240.0, 34.0
SHOWN = ("mean(bmi)", "corr(bmi, blood_pressure)")
MOST_BOXES = 120  # that are drawn, so that a picture stays small
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

PROTECTED = dict.fromkeys(ROLES, "quasi")
TREES = {
    "age": {"role": "quasi", "tree": "steps:10,20,40"},
    "bmi": {"role": "quasi", "tree": "steps:4,8,16"},
    "blood_pressure": {"role": "quasi", "tree": "steps:10,20,40"},
    "sex": "identifier",
    "progression": "sensitive",
}
DECLARED = {
    "bmi": {"role": "quasi", "domain": [15.0, 45.0]},
    "blood_pressure": {"role": "quasi", "domain": [60.0, 140.0]},
    **dict.fromkeys(("age", "sex", "progression"), "identifier"),
}
SAMPLED = {
    **{name: DECLARED[name] | {"tree": TREES[name]["tree"]} for name in ("bmi", "blood_pressure")},
    **dict.fromkeys(("age", "sex", "progression"), "identifier"),
}
# options that differ from the defaults, and the schema, of methods that need their own
GIVEN: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "boxes": ({"k": 5, "keep": list(SHOWN)}, ROLES),
    "private-boxes": ({"epsilon": 1.0, "delta": 1e-6, "keep": ["mean(bmi)"]}, DECLARED),
    "private-synthesis": ({"epsilon": 2.0, "delta": 1e-6}, DECLARED),
    "private-sample": ({"epsilon": 1.0, "delta": 1e-3}, SAMPLED),
    "recode": ({"k": 5}, TREES),
    "generalize": ({"k": 5, "population": 100_000}, ROLES),
    "suppress": ({"k": 3}, {**PROTECTED, "bmi": "other", "blood_pressure": "other", "progression": "other"}),
    "pram": ({"keep": 0.8}, {**PROTECTED, "age": "other"}),
    "safe-harbor": ({}, {**ROLES, "progression": "other"}),
}


def show(name: str) -> dict[str, Any]:
    """Release the patients by a method, draw the picture, and return what the page says about it."""
    patients = diabetes_patients()
    options, schema = GIVEN.get(name, ({}, PROTECTED))
    method = make_method(name, **({"k": 5} | dict(options) if _takes_k(name) else options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = method.release(patients, schema=schema, **({} if name.startswith("private") else {"seed": 1}))
    (PICTURES / f"{name}.svg").write_text(draw(patients, release), encoding="utf-8")
    given = ({"k": 5} if _takes_k(name) else {}) | dict(options)
    shown = ", ".join(f"{key}={value!r}" for key, value in given.items()).replace("'", '"')
    assert release.manifest is not None
    return {
        "call": f"release = sf.{type(method).__name__}({shown}).release(patients, schema=roles)",
        "promise": release.manifest.guarantee,
        "kept": {text: [_truth(patients, text), _told(release, text)] for text in SHOWN},
    }


def _takes_k(name: str) -> bool:
    return "k" in method_class(name).__dataclass_fields__ and name not in ("generalize", "suppress", "pica")


def _truth(patients: sf.Table, text: str) -> str:
    numbers = [patients.numbers(column) for column in ("bmi", "blood_pressure")]
    return f"{numbers[0].mean():.2f}" if text.startswith("mean") else f"{np.corrcoef(*numbers)[0, 1]:.3f}"


def _told(release: sf.Release, text: str) -> str:
    """Return the estimate of a statistic from the release, or its plain value if the method guarantees none."""
    try:
        found = release.estimate(text)
    except sf.SfumatoError:
        return "–"
    places = 2 if text.startswith("mean") else 3
    if hasattr(found, "low"):
        return f"{found.value:.{places}f} ({found.low:.{places}f} … {found.high:.{places}f})"
    return f"{found.value:.{places}f}"


def draw(patients: sf.Table, release: sf.Release) -> str:
    """Return the picture as SVG."""
    points = zip(patients.numbers(X[0])[::2], patients.numbers(Y[0])[::2], strict=True)
    pale = "".join(f"M{_x(x):.0f} {_y(y):.0f}h0" for x, y in points)
    frame = release.to_pandas()
    left, right = _ends(frame, X[0])
    low, high = _ends(frame, Y[0])
    known = np.flatnonzero(np.isfinite(left) & np.isfinite(low))
    boxes = dict.fromkeys((left[row], right[row], low[row], high[row]) for row in known)
    thin = list(boxes)[:: max(1, len(boxes) // MOST_BOXES)]
    shapes = "".join(_shape(*box) for box in thin)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img">'
        f'<rect width="{WIDTH:.0f}" height="{HEIGHT:.0f}" fill="#fbf8f2"/>'
        f'<path d="{pale}" stroke="#d6bc94" stroke-width="3" stroke-linecap="round" fill="none"/>'
        f'<g fill="#1f5a6b" fill-opacity=".13" stroke="#1f5a6b" stroke-opacity=".7" stroke-width=".8">{shapes}</g>'
        f'<path d="M{EDGE:.0f} 8V{HEIGHT - EDGE:.0f}H{WIDTH - 8:.0f}" fill="none" stroke="#6f6152"/>'
        f'<g font-family="sans-serif" font-size="11" fill="#6f6152"><text x="{WIDTH - 8:.0f}" y="{HEIGHT - 12:.0f}" '
        'text-anchor="end">body mass index →</text><text x="-12" y="16" transform="rotate(-90)" text-anchor="end">'
        "blood pressure →</text></g></svg>\n"
    )


def _ends(frame: Any, name: str) -> tuple[Any, Any]:
    """Return the lower and upper ends of the released cells of a column; NaN where there is none."""
    if f"{name}_low" in frame:
        return frame[f"{name}_low"].to_numpy(float), frame[f"{name}_high"].to_numpy(float)
    if name not in frame:
        return np.full(len(frame), np.nan), np.full(len(frame), np.nan)
    if frame[name].dtype.kind in "fiu":
        return frame[name].to_numpy(float), frame[name].to_numpy(float)
    found = [[float(one) for one in NUMBER.findall(str(text))] or [np.nan] for text in frame[name]]
    return np.array([min(one) for one in found]), np.array([max(one) for one in found])


def _x(value: float) -> float:
    return float(EDGE + np.clip((value - X[1]) / (X[2] - X[1]), 0.0, 1.0) * (WIDTH - EDGE - 10.0))


def _y(value: float) -> float:
    return float(HEIGHT - EDGE - np.clip((value - Y[1]) / (Y[2] - Y[1]), 0.0, 1.0) * (HEIGHT - EDGE - 10.0))


def _shape(left: float, right: float, low: float, high: float) -> str:
    if left == right and low == high:
        return f'<circle cx="{_x(left):.0f}" cy="{_y(low):.0f}" r="2" fill-opacity=".6"/>'
    return (
        f'<rect x="{_x(left):.0f}" y="{_y(high):.0f}" width="{max(_x(right) - _x(left), 1.0):.0f}" '
        f'height="{max(_y(low) - _y(high), 1.0):.0f}"/>'
    )


HEAD = """\
# Gallery

Written by `python docs/gallery.py`; do not edit by hand.

Each method on the same 442 patients, those of `sfumato demo`. Pale points are people of the original; dark points,
lines and boxes are what is released. Two statistics are compared: from the original, and from the release, with the
interval that the method guarantees where it guarantees one. `patients` is the table, and `roles` says which columns are
protected.
"""


def page(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page."""
    return "\n".join([HEAD, *(line for name in METHODS if name in facts for line in _section(name, facts[name]))])


def _section(name: str, fact: Mapping[str, Any]) -> Iterator[str]:
    kind = method_class(name)
    yield from (f"## {name}", "", f"![{name}: released and original patients](pictures/gallery/{name}.svg)", "")
    yield from (summary_of(kind), "")
    yield from ("<!-- not run: docs/gallery.py runs it -->", "```python", *fact["call"].strip().splitlines(), "```", "")
    yield from ("| statistic | original | released |", "|---|---|---|")
    yield from (f"| `{text}` | {values[0]} | {values[1]} |" for text, values in fact["kept"].items())
    links = f"[Options](reference/methods/{name}.md), [theory](theory/{kind.theory}.md)."
    yield from ("", f"Promise: {fact['promise']}. {links}", "")


def main(names: list[str]) -> None:
    """Make the pictures, and write the page."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    facts = json.loads(FACTS.read_text(encoding="utf-8")) if FACTS.is_file() else {}
    for name in names or METHODS:
        facts[name] = show(name)
        print(name, facts[name]["promise"][:70], flush=True)
        FACTS.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (DOCS / "gallery.md").write_text(page(facts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
