"""What claims say, whom they protect, and that no sentence quotes a cell."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.methods.boxes.plan import OverlappingAnonymity
from sfumato.methods.generalize.population import ProbabilisticAnonymity
from sfumato.methods.safe_harbor.method import NoIdentifierLeft, SafeHarbor
from sfumato.plan.claims.containment import AtMostNames, Containment
from sfumato.plan.claims.copies import FewRowsUnaltered
from sfumato.plan.claims.each_column import AtMostValues, EachColumnAnonymous
from sfumato.plan.claims.groups import Diversity, KAnonymity
from sfumato.plan.claims.kept_statistics import MomentsKept, WeightTotalsKept
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor, ValidCells
from sfumato.plan.plan import Evidence
from sfumato.table.table import Table

GROUP = ("age_low", "age_high", "age_missing", "bmi_low", "bmi_high", "sex", "box")
EACH = {"age": ("age_low", "age_high"), "sex": ("sex",)}
POPULATION = {"k": 5, "population": 10_000, "beta": 0.1, "most": 100, "any_distribution": True, "columns": EACH}
RELEASED = Table.from_arrow(
    pa.table(
        {
            **dict.fromkeys(GROUP, pa.array([771, 771])),
            "sex": ["CANARY", "CANARY"],
            "age": [774.5, 774.5],
            "bmi": [1.0, 2.0],
            "progression": ["x", "y"],
        }
    )
)


@pytest.mark.parametrize(
    ("claim", "kind", "sentence"),
    [
        (KAnonymity(k=5, columns=GROUP), "privacy", "5-anonymous in age, bmi, sex"),
        (KAnonymity(k=5, columns=("box",)), "privacy", "5-anonymous in box"),
        (
            Diversity(l=2, columns=GROUP, column="progression"),
            "privacy",
            "at least 2 different values of 'progression' in each group",
        ),
        (
            Diversity(l=2, columns=GROUP, column="age", epsilon=0.5),
            "privacy",
            "at least 2 different values of 'age' at least 0.5 apart in each group",
        ),
        (
            WeightTotalsKept(weight="bmi", box="box"),
            "integrity",
            "the total of bmi in each box, and in all released rows, is that of the original rows",
        ),
        (
            EachColumnAnonymous(k=5, columns=EACH),
            "privacy",
            "every released value of age, sex occurs in at least 5 rows, each column by itself",
        ),
        (
            AtMostNames(most=50, columns=("sex",)),
            "integrity",
            "at most 50 names in each set of sex; a set of more is (any), which stands for any value of the column "
            "that is not missing",
        ),
        (AtMostValues(most=10, columns=EACH), "integrity", "at most 10 different values in each of age, sex"),
        (
            Containment(columns=("age", "bmi")),
            "integrity",
            "every original value lies inside its released range, in age, bmi",
        ),
        (RowsAccountedFor(), "integrity", "no row lost or duplicated; none suppressed"),
        (RowsAccountedFor(times=5), "integrity", "5 released rows for each original row; none suppressed"),
        (
            RowsAccountedFor(suppressed_at_most=0.05),
            "integrity",
            "no row lost or duplicated; at most 5.00% suppressed",
        ),
        (
            ColumnsAllowed(names=(*GROUP, "progression")),
            "integrity",
            "only these columns are released: age, bmi, sex, box, progression",
        ),
        (
            ValidCells(),
            "integrity",
            "every category is one of the column's own, whole numbers are whole, and numbers are within the range of "
            "their column",
        ),
        (
            FewRowsUnaltered(columns=("age", "sex"), share=0.05),
            "integrity",
            "at most 5% of the rows are alone, with 90% of the cells of their person",
        ),
        (MomentsKept(columns=("age", "bmi")), "integrity", "means and covariances of age, bmi kept to 1e-09"),
        (
            ProbabilisticAnonymity(**POPULATION),
            "privacy",
            "at least 90.0% of the rows match at least 5 of 10,000 people in age, sex, with 95 % confidence",
        ),
        (
            NoIdentifierLeft(policy=SafeHarbor()),
            "privacy",
            "no released column is recognised as one of the 18 identifiers of the HIPAA safe harbor rule",
        ),
    ],
)
def test_a_finding_says_the_promise_in_plain_words_and_no_cell(claim, kind, sentence):
    finding = claim.measure(Evidence(RELEASED, RELEASED, np.arange(2)))
    assert (finding.claim, finding.kind) == (sentence, kind)
    assert not any(cell in repr(finding) for cell in ("CANARY", "771", "774"))


def test_boxes_that_may_overlap_come_with_a_warning():
    finding = OverlappingAnonymity(k=2, columns=GROUP).measure(Evidence(RELEASED, RELEASED, np.arange(2)))
    assert finding.held and finding.kind == "privacy"
    assert finding.claim.startswith("2-anonymous in age, bmi, sex, in boxes that may overlap (")


@pytest.mark.parametrize(
    ("claim", "protected"),
    [
        (KAnonymity(k=2, columns=GROUP), GROUP),
        (KAnonymity(k=1, columns=GROUP), ()),
        (Diversity(l=2, columns=GROUP, column="progression"), GROUP),
        (Diversity(l=1, columns=GROUP, column="progression"), ()),
        (EachColumnAnonymous(k=2, columns=EACH), ("age_low", "age_high", "sex")),
        (EachColumnAnonymous(k=1, columns=EACH), ()),
        (ProbabilisticAnonymity(**POPULATION), ("age_low", "age_high", "sex")),
        (NoIdentifierLeft(policy=SafeHarbor(), columns=("a", "b")), ("a", "b")),
        (AtMostValues(most=1, columns=EACH), ()),
        (Containment(columns=("age",)), ()),
        (RowsAccountedFor(), ()),
        (ColumnsAllowed(names=GROUP), ()),
        (ValidCells(), ()),
        (FewRowsUnaltered(columns=("age",), share=0.05), ()),
        (MomentsKept(columns=("age",)), ()),
    ],
)
def test_a_claim_protects_the_columns_in_which_it_hides_people(claim, protected):
    assert claim.protects == protected
