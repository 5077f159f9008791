"""Which records no other one beats, and what a comparison shows."""

from __future__ import annotations

import json
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.comparison.records import ComparedMethod, Comparison, non_dominated
from sfumato.release.assessment import Assessment, Omitted, Score


def row(name="noise", *, distance=0.2, ambiguity=0.1, gain=0.1, shift=0.3, reason="", strength=""):
    def score(label, value, family="privacy", **more):
        return Score(name=label, family=family, value=value, better="lower", rows=50, **more)

    scores = (
        score("distance below the reference", distance, p_value=0.5, passed=True),
        score("ambiguity below the reference", ambiguity),
        score("uncertainty below the reference", 0.99),
        score("singling out", 0.4, gain=gain),
        score("change in correlations", 0.01, "utility"),
        score("shift of kernel components, largest", shift, "utility"),
    )
    judged = Assessment(
        method=name,
        original_rows=50,
        released_rows=50,
        reference_rows=50,
        columns=3,
        scores=scores,
        omitted=(Omitted(name="boxes", reason="the release has no boxes"),),
    )
    return ComparedMethod(
        method=name,
        strength=strength,
        options={},
        guarantee="" if reason else "no guarantee",
        seconds=1.25,
        assessment=None if reason else judged,
        reason=reason,
    )


def dominated_slowly(losses) -> list[bool]:
    def beats(a, b):
        return all(x <= y for x, y in zip(a, b, strict=True)) and any(x < y for x, y in zip(a, b, strict=True))

    return [any(beats(other, one) for other in losses) for one in losses]


@given(arrays(np.float64, st.tuples(st.integers(1, 12), st.just(3)), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0])))
def test_non_dominated_is_what_no_other_beats(losses):
    found = non_dominated(losses)
    assert found.tolist() == [not bad for bad in dominated_slowly(losses.tolist())]
    assert found.any()


def test_axes_come_from_the_assessment():
    one = row()
    assert (one.reference_risk, one.attack_risk, one.utility, one.worst_attack) == (0.2, 0.1, 0.7, "singling out")
    assert row(distance=0.0, ambiguity=0.4).reference_risk == 0.4
    assert row(gain=0.0).worst_attack == ""
    assert row(shift=math.nan).utility is None


def test_the_best_are_marked_and_what_was_not_measured_is_not():
    rows = (
        row("a"),
        row("b", distance=0.3),  # beaten by a
        row("c", gain=0.0, shift=0.9),  # less useful, but no attack gains
        row("d", reason="No release."),
        row("e", shift=math.nan),
    )
    found = Comparison(rows=rows, original_rows=50, reference_rows=50)
    assert [one.non_dominated for one in found.rows] == [True, False, True, False, False]
    assert [one.method for one in found.best] == ["a", "c"]
    assert [one.method for one in found.failed] == ["d"]


def test_a_long_guarantee_is_cut_at_a_column():
    from dataclasses import replace

    long = replace(row(), guarantee="5-anonymous in " + ", ".join(f"column_{number}" for number in range(20)))
    assert long.promise.startswith("5-anonymous in column_0, column_1")
    assert len(long.promise) <= 63
    assert long.promise.endswith(", …")
    assert replace(row(), guarantee="5-anonymous in age").promise == "5-anonymous in age"


def test_a_guarantee_keeps_its_verb_and_its_second_part():
    from dataclasses import replace

    whole = "every released value of age, sex, region occurs in at least 10 rows, each column by itself"
    assert replace(row(), guarantee=whole).promise == whole
    columns = ", ".join(f"column_{number}" for number in range(20))
    diverse = "at least 2 different values of 'diag' in each group"
    assert replace(row(), guarantee=f"5-anonymous in {columns}; {diverse}").promise.endswith(f", …; {diverse}")
    words = replace(row(), guarantee="no released column is recognised as one of the 18 identifiers " * 3).promise
    assert words == "no released column is recognised as one of the 18 …"


def test_a_record_survives_a_file():
    for one in (row(strength="k = 5"), row(reason="No release."), row(shift=math.nan)):
        again = ComparedMethod.from_plain(json.loads(json.dumps(one.to_plain(), allow_nan=False)))
        assert again.to_plain() == one.to_plain()
        assert again.assessment is None or again.assessment.passed is True


def test_what_is_shown_escapes_and_says_why():
    found = Comparison(rows=(row("a"), row("b", reason="<b>too few</b>")), original_rows=50, reference_rows=40)
    shown = found._repr_html_()
    assert "&lt;b&gt;too few" in shown
    assert "<b>" not in shown
    assert "no release: <b>too few</b>" in str(found)
    assert "40 people who never took part" in str(found)
    arrow = found.to_arrow()
    assert arrow.column("utility").to_pylist() == [0.7, None]
    assert arrow.column("non_dominated").to_pylist() == [True, False]
    assert json.loads(found.to_json())["rows"][1]["reason"] == "<b>too few</b>"
