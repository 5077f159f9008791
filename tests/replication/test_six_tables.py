"""From the first recommendation to a release that passes, on the small one of six tables (docs/replication)."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.replication
def test_the_demo_ends_in_a_passed_release_or_in_a_sentence(script):
    page = script("six_tables")
    ending = page.follow("demo", *page.demo(Path(), 442))
    assert ending.passed or ending.sentence.startswith("No change was found")
    assert len(ending.improvements) <= 2
    assert ending.recommended in page.page([ending], 442)
