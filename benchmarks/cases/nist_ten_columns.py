"""NIST's comparison of releases on ten columns about people: ours, what can be installed, and what was published."""

from __future__ import annotations

from harness import nist
from harness.case import Case, Contender, Goal, Published, Run

SOURCE = (
    "NIST's Collaborative Research Cycle, all 27,253 people (github.com/usnistgov/privacy_collaborative_research_cycle)"
)


def prepare(run: Run) -> None:
    nist.prepare(run, nist.TEN)


def sample(run: Run) -> None:
    """Release 40 % of the rows as they are: what a sample without any protection reaches."""
    import random

    table = nist.table_of(run)
    rows = len(table["AGEP"])
    chosen = random.Random(run.seed).sample(range(rows), rows * 2 // 5)
    with run.clock():
        released = {name: [values[place] for place in chosen] for name, values in table.items()}
    nist.write_release(run, released)


def copulas(run: Run) -> None:
    """Draw from a Gaussian copula over the codes of categories."""
    import warnings

    import numpy as np
    from copulas.multivariate import GaussianMultivariate

    warnings.simplefilter("ignore")
    frame = nist.frame_of(run)
    levels = {name: sorted(frame[name].unique()) for name in frame if name != "AGEP"}
    np.random.seed(run.seed)
    with run.clock():
        coded = frame.copy()
        for name, known in levels.items():
            coded[name] = coded[name].map({value: place for place, value in enumerate(known)}).astype(float)
        model = GaussianMultivariate()
        model.fit(coded)
        drawn = model.sample(len(coded))
    released = {"AGEP": drawn["AGEP"].clip(0, 99).tolist()}
    for name, known in levels.items():
        released[name] = [known[int(place)] for place in drawn[name].round().clip(0, len(known) - 1)]
    nist.write_release(run, released)


def syndiffix(run: Run) -> None:
    from syndiffix import Synthesizer

    frame = nist.frame_of(run)
    with run.clock():
        drawn = Synthesizer(frame).sample()
    nist.write_release(run, drawn.to_dict("list"))


def synthpop(run: Run) -> None:
    from synthpop import Synthpop

    frame = nist.frame_of(run)
    kinds = {name: "int" if name in nist.NUMBERS else "category" for name in frame}
    frame = frame.astype({name: "category" if kind == "category" else int for name, kind in kinds.items()})
    with run.clock():
        model = Synthpop(seed=run.seed)
        model.fit(frame, kinds)
        drawn = model.generate(len(frame))
    nist.write_release(run, drawn.to_dict("list"))


def dpmm(pipeline: str):
    """Return a run of a private model of dpmm, with ε = 1."""

    def contender(run: Run) -> None:
        from dpmm import pipelines

        frame = nist.frame_of(run)
        domain = {
            name: {"lower": 0, "upper": 99} if name == "AGEP" else {"categories": sorted(frame[name].unique())}
            for name in frame
        }
        with run.clock():
            model = getattr(pipelines, pipeline)(epsilon=1.0, delta=1e-5, proc_epsilon=0.1)
            model.fit(frame, domain)
            drawn = model.generate(n_records=len(frame))
        nist.write_release(run, drawn.to_dict("list"))

    return contender


def smartnoise(run: Run) -> None:
    from snsynth import Synthesizer

    frame = nist.frame_of(run)
    with run.clock():
        model = Synthesizer.create("mst", epsilon=1.0, verbose=False)
        drawn = model.fit_sample(frame, preprocessor_eps=0.0, categorical_columns=list(frame))
    nist.write_release(run, drawn.to_dict("list"))


CASE = Case(
    title="NIST's table, ten columns",
    about="27,253 people of the American Community Survey 2019, of whom nine tenths take part. " + nist.MEASURES,
    contenders=(
        Contender(
            name="sfumato, private synthesis, ε = 1", run=nist.release_by("PrivateSynthesis", epsilon=1.0, delta=1e-5)
        ),
        Contender(
            name="sfumato, private synthesis, ε = 4", run=nist.release_by("PrivateSynthesis", epsilon=4.0, delta=1e-5)
        ),
        Contender(name="sfumato, trees", run=nist.release_by("Synthesize", kind="trees")),
        Contender(name="sfumato, PICA 300", run=nist.release_by("PartitionedIca", cluster_size=300)),
        Contender(name="sfumato, microaggregation, k = 6", run=nist.release_by("Microaggregate", k=6, kind="tree")),
        Contender(name="sfumato, suppression, k = 6", run=nist.release_by("Suppress", k=6)),
        Contender(name="a sample of 40 %", run=sample, is_limit=True),
        Contender(name="Gaussian copula", run=copulas, rival="copulas"),
        Contender(name="SynDiffix", run=syndiffix, rival="syndiffix"),
        Contender(name="synthpop for Python", run=synthpop, rival="py-synthpop"),
        Contender(name="dpmm, MST, ε = 1", run=dpmm("MSTPipeline"), rival="dpmm"),
        Contender(name="smartnoise-synth, MST, ε = 1", run=smartnoise, rival="smartnoise-synth"),
    ),
    published=tuple(
        Published(name=name, figures={"marginals": marginals, "matched": matched}, source=SOURCE)
        for name, marginals, matched in (
            ("AIM with ε = 1", 976.0, 0.141),
            ("MST with ε = 1", 958.0, 0.125),
            ("private histogram with ε = 10", 912.0, 0.998),
            ("sdcMicro with k = 6", 907.0, 0.474),
            ("PATE-CTGAN with ε = 10", 805.0, 0.130),
        )
    ),
    prepare=prepare,
    recount=nist.recount,
    figures=nist.FIGURES,
    goals=(
        Goal(of="sfumato, private synthesis, ε = 4", figure="marginals", limit=985.0, is_at_least=True),
        Goal(of="sfumato, private synthesis, ε = 4", figure="absence", limit=0.51),
        Goal(of="sfumato, private synthesis, ε = 4", figure="absence", limit=0.49, is_at_least=True),
        Goal(of="sfumato, private synthesis, ε = 1", figure="marginals", limit=976.0, is_at_least=True),
        Goal(of="sfumato, microaggregation, k = 6", figure="marginals", limit=930.0, is_at_least=True),
        Goal(of="sfumato, microaggregation, k = 6", figure="smallest", limit=6.0, is_at_least=True),
    ),
    seconds=200.0,
)
