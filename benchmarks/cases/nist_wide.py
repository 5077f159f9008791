"""NIST's table with 21 columns, on which few published releases stay close to the original."""

from __future__ import annotations

from typing import Any

from harness import nist
from harness.case import Case, Contender, Goal, Published, Run

SOURCE = "NIST's Collaborative Research Cycle, 21 to 24 columns"


def prepare(run: Run) -> None:
    nist.prepare(run, nist.wide_columns())


def release_by(method: str, **options: Any):
    """Return a run that releases by a method of ours."""

    def contender(run: Run) -> None:
        import sfumato as sf

        table = nist.table_of(run)
        schema: dict[str, Any] = {
            name: {"role": "quasi", "kind": "continuous" if name in nist.NUMBERS else "nominal"} for name in table
        }
        made = getattr(sf, method)(**options)
        with run.clock():
            release = made.release(table, schema=schema, seed=run.seed)
        nist.write_release(run, release.table.arrow.to_pydict())

    return contender


CASE = Case(
    title="NIST's table, 21 columns",
    about="The same people with all columns but the area and the weights. " + nist.MEASURES,
    contenders=(
        Contender(name="sfumato, trees", run=release_by("Synthesize", kind="trees")),
        Contender(name="sfumato, tables", run=release_by("Synthesize", kind="tables")),
        Contender(name="sfumato, PICA 300", run=release_by("PartitionedIca", cluster_size=300)),
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
