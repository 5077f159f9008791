"""The numbers of Lodha and Thomas, *Probabilistic Anonymity*: every one that the paper prints, to its last digit."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.replication


@pytest.fixture(scope="module")
def paper(script):
    return script("probabilistic_anonymity")


@pytest.fixture(scope="module")
def adult(paper, data_folder):
    if not (data_folder / "adult" / "adult.data").is_file():
        pytest.skip("the Adult table is not here")
    return paper.adult(data_folder)


def test_all_rows_of_figure_3_come_out(paper, adult):
    assert adult.num_rows == 32_561
    for row, found, compared in paper.figure_3(adult):
        assert found.unique_rows == row.unique
        assert not [one for one in compared if not one.agrees]


def test_the_examples_come_out(paper):
    assert not [one for one in paper.examples() if not one.agrees]


def test_the_comparison_can_fail(paper):
    assert paper.Compared("", "0.93", 0.927).agrees and not paper.Compared("", "0.93", 0.915).agrees
    assert paper.Compared("", "1700", 1640).agrees and not paper.Compared("", "1700", 1850).agrees
    assert not paper.Compared("", "7659", 7661).agrees


def test_example_6_is_within_both_budgets(paper):
    budget = paper.sf.anonymity_budget(3e8, k=100, beta=0.1)
    assert 3e8 / 125 <= budget.chernoff < budget.exact


def test_rows_that_the_paper_would_not_publish_are_those_it_names(paper, adult):
    """§5.1: by the rows themselves 6, 8, 10, 11 and 12; by the population only 12."""
    rows = [found for _, found, _ in paper.figure_3(adult)]
    assert [number for number, found in enumerate(rows, 1) if found.identifies(0.2)] == [6, 8, 10, 11, 12]
    assert [number for number, found in enumerate(rows, 1) if found.identifies(0.2, by="population")] == [12]


def test_the_page_is_the_one_that_the_script_writes(paper, data_folder, adult):
    assert paper.PAGE.read_text() == paper.page(data_folder)
