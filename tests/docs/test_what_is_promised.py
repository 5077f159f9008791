"""The page that says what each method promises says it of all methods, and of each what its release promises."""

import re
from pathlib import Path

import numpy as np
import pytest

from sfumato.methods.base import BUILT_IN, method_class
from sfumato.release.manifest import NO_GUARANTEE

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "what-is-promised.md"
LINES = ("- **Against**", "- **Guaranteed:**", "- **Not:**")


def _entries() -> dict[str, list[str]]:
    sections = re.split(r"\n#{2,3} ", PAGE.read_text(encoding="utf-8"))
    parts = (section.partition("\n") for section in sections[1:])
    return {name.strip(): [line for line in text.splitlines() if line] for name, _, text in parts if "**" in text}


@pytest.mark.filterwarnings("ignore::sfumato.SfumatoWarning")
@pytest.mark.parametrize("name", BUILT_IN)
def test_each_method_has_three_true_lines(name: str) -> None:
    kind = method_class(name)
    lines = _entries()[kind.__name__]
    assert len(lines) == len(LINES)
    assert all(line.startswith(start) for line, start in zip(lines, LINES, strict=True))
    draw = np.random.default_rng(1)
    table = {
        "age": draw.integers(20, 60, 120),
        "height": draw.normal(170, 10, 120).round(),
        "sex": draw.choice(["f", "m"], 120),
        "ill": draw.choice(["flu", "cold", "asthma"], 120),
    }
    roles = dict.fromkeys(("age", "height", "sex"), "quasi") | {"ill": "sensitive"}
    wanted = {"k": 3, "l": 1}  # methods that treat each column alone refuse a larger l here
    method = kind(**{key: value for key, value in wanted.items() if key in kind.__dataclass_fields__})
    release = method.release(table, schema=roles, seed=None if kind.is_private else 1)
    promises_privacy = release.manifest.guarantee != NO_GUARANTEE
    assert promises_privacy is ("no privacy" not in lines[1]), release.manifest.guarantee


def test_no_method_is_described_that_does_not_exist() -> None:
    described = {name for name in _entries() if name.isidentifier()}  # others are promises of all methods
    assert described == {method_class(name).__name__ for name in BUILT_IN}
