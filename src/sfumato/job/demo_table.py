"""The table of ``sfumato demo``: 442 diabetes patients, which come with scikit-learn (Efron and others 2004)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.table.table import Table

ROLES = {
    "age": "quasi",
    "sex": "quasi",
    "bmi": "quasi",
    "blood_pressure": "quasi",
    "progression": "sensitive",
}
KEEP = [
    "mean(bmi)",
    "sd(blood_pressure)",
    "corr(bmi, progression)",
    "corr(bmi, blood_pressure)",
    "regress(progression ~ bmi)",
]


def diabetes_patients() -> Table:
    """Return age, sex, body mass index, blood pressure and progression of the disease in a year."""
    import pyarrow as pa
    from sklearn.datasets import load_diabetes

    from sfumato.table.table import Table

    rows, progression = load_diabetes(return_X_y=True, scaled=False)
    return Table.from_arrow(
        pa.table(
            {
                "age": rows[:, 0].astype("int64"),
                "sex": pa.array(rows[:, 1].astype("int64").astype("str")),  # 1 and 2: the source does not say which
                "bmi": rows[:, 2],
                "blood_pressure": rows[:, 3],
                "progression": progression,
            }
        )
    )
