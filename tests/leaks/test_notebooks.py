"""What a notebook shows of results: names, counts and promises, escaped, and no cell.

Comparisons, which take longer, are looked at in tests/unit/comparison.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf

PLANTED = ("CANARY", "187.654")
ROLES = {"name": "identifier", "<b>age</b>": "quasi", "income": "quasi", "wage": "quasi", "illness": "sensitive"}


class Balanced(HTMLParser):
    """Checks that every tag is closed, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.open += [] if tag in ("br", "wbr") else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def people() -> pa.Table:
    numbers = np.random.default_rng(5)
    rows = 120
    income = numbers.normal(100, 20, rows)
    income[7] = 187.654321
    return pa.table(
        {
            "name": [f"CANARY{row}" for row in range(rows)],
            "<b>age</b>": numbers.integers(20, 80, rows),
            "income": income,
            "wage": income * 0.5 + numbers.normal(0, 5, rows),
            "illness": [f"CANARY-{row % 4}" for row in range(rows)],
        }
    )


@pytest.fixture(scope="module")
def shown(people) -> dict[str, object]:
    boxes = sf.Boxes(k=5, l=2, keep=["corr(income, wage)"]).release(people, schema=ROLES, seed=1)
    made = sf.release_and_assess(sf.Noise(level=0.5), people, schema=ROLES, holdout=0.5, seed=1)
    return {
        "Table": sf.Table.from_arrow(people),
        "Release": boxes,
        "Estimate": boxes.estimate("corr(income, wage)"),
        "RegressionEstimate": boxes.estimate("regress(wage ~ income)"),
        "RecoveredEstimate": made.release.estimate("corr(income, wage)"),
        "Assessment": made.assessment,
        "AssessedRelease": made,
        "Recommendation": sf.recommend(people, keep=["corr(income, wage)"], schema=ROLES, seconds=0),
    }


NAMES = (
    *("Table", "Release", "Estimate", "RegressionEstimate", "RecoveredEstimate"),
    *("Assessment", "AssessedRelease", "Recommendation"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_display_is_of_its_class_escaped_and_without_a_cell(shown, name):
    one = shown[name]
    assert type(one).__name__ == name
    page = one._repr_html_()
    found = Balanced()
    found.feed(page)
    assert found.open == []
    assert "<b>" not in page  # from the name of a column
    assert [cell for cell in PLANTED if cell in page or cell in repr(one)] == []


def test_what_a_person_wants_to_see_is_there(shown):
    text = {name: Balanced() for name in NAMES}
    for name, page in text.items():
        page.feed(shown[name]._repr_html_())
    assert "120 rows × 5 columns" in text["Table"].text
    assert "5-anonymous in" in text["Release"].text
    assert "guaranteed" in text["Estimate"].text
    assert "sfumato release" in text["Recommendation"].text
    assert "expected width" in text["Recommendation"].text
    assert shown["Assessment"].verdict in text["AssessedRelease"].text
    assert "no guarantee" in text["AssessedRelease"].text


@pytest.mark.parametrize("name", ["Table", "Release", "Assessment"])
def test_a_display_folds_and_needs_nothing_from_elsewhere(shown, name):
    page = shown[name]._repr_html_()
    assert "<details" in page and "<svg" in page
    assert "<script" not in page and "http" not in page and "@import" not in page and "url(" not in page


def test_a_table_shows_rounded_shares_and_numbers_its_categories(people):
    page = sf.Table.from_arrow(people)._repr_html_()
    step = 0.1  # 10 of 120 people are more than 5 % of them
    shares = [float(share) for share in re.findall(r": ([\d.]+) %", page)]
    assert shares and all(abs(share / (100 * step) - round(share / (100 * step))) < 1e-9 for share in shares)
    assert "1st" in page and "categories by frequency" in page


def test_of_few_people_nothing_is_counted():
    page = sf.Table.from_arrow(pa.table({"age": [20, 21, None], "name": ["a", "b", "c"]}))._repr_html_()
    assert "3 rows × 2 columns" in page and "missing" not in page and "values" not in page and "<svg" not in page


def test_a_schema_shows_no_cell(people):
    order = sorted(set(people["illness"].to_pylist()))
    schema = sf.Schema.of({**ROLES, "illness": {"role": "sensitive", "kind": "ordered", "order": order}})
    assert "CANARY" not in repr(schema)


def test_the_search_finds_what_is_there(people):
    assert any(cell in people.to_pandas().to_html() for cell in PLANTED)
