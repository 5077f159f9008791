"""NIST's table with 21 columns, on which few published releases stay close to the original."""

from __future__ import annotations

from harness import nist
from harness.case import Case, Contender, Goal, Published, Run

SOURCE = "NIST's Collaborative Research Cycle, 21 to 24 columns"


def prepare(run: Run) -> None:
    nist.prepare(run, nist.wide_columns())


CASE = Case(
    title="NIST's table, 21 columns",
    about="The same people with all columns but the area and the weights. " + nist.MEASURES,
    contenders=(
        Contender(name="sfumato, trees", run=nist.release_by("Synthesize", kind="trees")),
        Contender(
            name="sfumato, private synthesis, ε = 4", run=nist.release_by("PrivateSynthesis", epsilon=4.0, delta=1e-5)
        ),
        Contender(name="sfumato, PICA 300", run=nist.release_by("PartitionedIca", cluster_size=300)),
    ),
    published=tuple(
        Published(name=name, figures=figures, source=SOURCE)
        for name, figures in (
            ("synthpop, CART", {"marginals": 923.0, "matched": 0.025}),
            ("adversarial random forests", {"marginals": 691.0}),
            ("SDV, fast ML", {"marginals": 638.0}),
            ("rtvae", {"marginals": 273.0}),
        )
    ),
    prepare=prepare,
    recount=nist.recount,
    figures=nist.FIGURES,
    goals=(Goal(of="sfumato, trees", figure="marginals", limit=923.0, is_at_least=True),),
    is_in_quick=False,
)
