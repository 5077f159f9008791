"""A release: verified rows, and the statistics that can be estimated from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import RequestError, wrap_memory_errors
from sfumato.languages import ENGLISH, languages
from sfumato.params import require_choice
from sfumato.plan.plan import Diagnostics, Optimality
from sfumato.release.analysis import Analysis, by_text, weight_column
from sfumato.release.bundle import RenderedReport, check_formats, write, write_copies
from sfumato.release.rows import Ask, ReleasedFrames, StoredTable
from sfumato.release.target import CODEBOOK, NUMBERS, REPORT
from sfumato.risk.safe_shares import SafeShares
from sfumato.statistics.cursor import require_name
from sfumato.statistics.language import parse
from sfumato.table.intervals import original_names

if TYPE_CHECKING:
    from sfumato.plan.plan import Finding, Plan
    from sfumato.release.assessment import Assessment
    from sfumato.release.manifest import Manifest
    from sfumato.statistics.bounds.enclosure import EstimateBudget
    from sfumato.statistics.estimate import Estimate, RecoveredEstimate
    from sfumato.statistics.estimate_records import RegressionEstimate
    from sfumato.statistics.model_fit import Fit
    from sfumato.statistics.statistic import Statistic
    from sfumato.table.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class Release(ReleasedFrames):
    """A released table with its manifest.

    The ``release`` method of a method such as :class:`sfumato.Boxes` and :func:`sfumato.read_release` return it.

    Attributes
    ----------
    table : Table
        The released rows, in random order.
    manifest : Manifest or None
        How the release was made: method, options, roles, counts, findings. None if the rows were read from a plain file
        or data frame.
    diagnostics : Diagnostics
        What the method reports to the custodian: ``searches``, ``rules`` and ``optimality``. It is filled only in the
        process that made the release, and it is never written.
    assessment : Assessment or None
        The assessment, if :func:`sfumato.release_and_assess` made the release. It is shown in the report.
    before : tuple of SafeShares
        Distributions of the original for the report, as rounded shares; empty if it was read from a folder.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42], "income": [10.0, 12.0, 11.0, 30.0, 31.0, 35.0]}
    >>> release = sf.Boxes(k=3).release(people, schema={"age": "quasi", "income": "other"}, seed=1)
    >>> release
    Release(6 rows × 4 columns, boxes; 3-anonymous in age)
    >>> release.table.names
    ('age_low', 'age_high', 'box', 'income')
    >>> release.manifest.guarantee
    '3-anonymous in age'
    """

    table: Table
    manifest: Manifest | None = None
    diagnostics: Diagnostics = field(default=Diagnostics(), kw_only=True)
    assessment: Assessment | None = field(default=None, kw_only=True)
    before: tuple[SafeShares, ...] = field(default=(), kw_only=True)
    _plan: Plan | None = field(default=None, kw_only=True)  # that made it, in the process that did
    _from_text: bool = field(default=False, kw_only=True)  # whether the rows are those of a text file alone
    _ask: Ask | None = field(default=None, kw_only=True)  # how questions are answered while an engine has the rows

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The promises of the release, and what was found when they were verified on its rows."""
        return self.manifest.findings if self.manifest else ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The column names that statistics can use: ``x`` for ``x_low`` and ``x_high``, otherwise the column itself."""
        known = {column.name for column in self.manifest.columns} if self.manifest else None
        return original_names(self.table.names, known)

    def estimate(
        self,
        statistic: str | Statistic,
        *,
        wide_boxes: str = "keep",
        objective: str = "normalised",
        unweighted: bool = False,
        domain: Mapping[str, tuple[Any, Any]] | None = None,
        budget: EstimateBudget | None = None,
        confidence: float | None = None,
        confidence_by: str = "imbens-manski",
        value: str = "midpoints",
        probability: float = 0.95,
    ) -> Any:
        """Estimate one statistic from the released rows.

        Columns that are released unchanged are boxes of width 0. A column with the role ``weight`` gives the sampling
        weights of the rows; ``Estimate.weighted_by`` names it. If weights were released as means of boxes, the interval
        holds for all original weights with the same totals. ``Estimate.of`` says whether the interval is that of the
        original or of the released rows. If the method altered a column, nothing is guaranteed, unless it kept what the
        statistic needs; noise, Pram and synthesis are corrected for where theory can, with a standard error.

        Parameters
        ----------
        statistic : str or Statistic
            A text such as ``"corr(age, income)"``, or an object such as ``sf.Mean("age")``.
        wide_boxes : {"keep", "dismiss", "fuzzy"}, default "keep"
            What to do with records in wide boxes: count them, leave them out, or give them less weight. The last two
            minimise uncertainty plus sampling error, but shift the statistic by what ``Estimate.reweighting`` tells.
        objective : {"normalised", "first"}, default "normalised"
            What "dismiss" minimises: uncertainty per kept record, or per record of the table, plus sampling error.
        unweighted : bool, default False
            Count every record once, even if the release has sampling weights.
        domain : mapping of str to pair, optional
            Range of columns that you know, such as ``{"income": (0, 1e6)}``: the interval then covers suppressed rows.
        budget : EstimateBudget, optional
            Limit of time and gap. With a smaller budget the interval is wider, but still guaranteed.
        confidence : float, optional
            Confidence of ``confidence_low`` to ``confidence_high``, such as 0.95: the interval holds the parameter of
            the population, whatever the values in the boxes are.
        confidence_by : {"imbens-manski", "union"}, default "imbens-manski"
            How to join: the shorter interval that holds the parameter, or the union over all choices of values.
        value : {"midpoints", "likelihood"}, default "midpoints"
            What ``Estimate.value`` is taken from: "likelihood" is a likely distribution of one column in its boxes.
        probability : float, default 0.95
            Probability with which intervals from noisy measurements hold (:class:`sfumato.PrivateBoxes`).

        Returns
        -------
        Estimate, RecoveredEstimate, RegressionEstimate, GroupedEstimate or TableEstimate
            A regression gives one record with an estimate per coefficient, the intercept first; a statistic ``by`` a
            column one per group; a test also p-values; all others one, without a guarantee a RecoveredEstimate.

        Examples
        --------
        >>> import sfumato as sf
        >>> boxes = sf.read_release({"x_low": [1, 1, 6], "x_high": [3, 3, 8], "y": [1.0, 2.0, 6.0]})
        >>> estimate = boxes.estimate("mean(x)")
        >>> round(estimate.value, 2), round(estimate.low, 2), round(estimate.high, 2)
        (3.67, 2.67, 4.67)
        >>> [coefficient.name for coefficient in boxes.estimate("regress(y ~ x)")]
        ['regress(y ~ x): intercept', 'regress(y ~ x): x']
        """
        analysis = self._analysis(
            wide_boxes=wide_boxes,
            objective=objective,
            unweighted=unweighted,
            domain=domain,
            budget=budget,
            confidence=confidence,
            confidence_by=confidence_by,
            value=value,
            probability=probability,
        )
        wanted = analysis.resolve(parse(statistic, names=self.names, derived=True))
        return wanted.as_record(analysis.estimates(wanted))

    @wrap_memory_errors
    def fit(
        self,
        formula: str,
        *,
        family: str = "gaussian",
        weights: str | None = None,
        confidence: float = 0.95,
        unweighted: bool = False,
        budget: EstimateBudget | None = None,
    ) -> Fit:
        """Fit a generalized linear model, or proportional hazards, to the released rows.

        Columns that a method altered are corrected for where theory tells how, without a guarantee.

        Parameters
        ----------
        formula : str
            For example ``"died ~ age + C(sex) + age:bp + offset(e)"``. ``C(x)`` makes a column of 0 and 1 for each
            value but the first. The left side of Cox's model is ``survival(time, event)``; events are 1 or true.
        family : {"gaussian", "binomial", "poisson", "cox"}, default "gaussian"
            Linear, logistic or Poisson regression with its canonical link, or proportional hazards (Breslow's ties).
        weights : str, optional
            A column by whose values the records are weighted, in addition to sampling weights.
        confidence : float, default 0.95
            Confidence of the joined intervals. Strata and clusters that the schema names are used.
        unweighted, budget
            As for :meth:`estimate`.

        Returns
        -------
        Fit
            One coefficient per term, such as ``fit["age"]``, with an interval for every choice of values in the boxes.

        Examples
        --------
        >>> import sfumato as sf
        >>> boxes = sf.read_release({"x_low": [1, 3, 6, 8], "x_high": [1, 3, 6, 8], "y_low": [1, 2, 6, 7],
        ...     "y_high": [1, 2, 6, 7]})
        >>> round(boxes.fit("y ~ x")["x"].value, 4)
        0.931
        """
        from sfumato.statistics.formula import parse_formula

        model = parse_formula(formula, self.names, family=family, weights=weights, confidence=confidence)
        analysis = self._analysis(unweighted=unweighted, budget=budget)
        wanted = analysis.resolve(model)
        fitted: Fit = wanted.as_record(analysis.fitted(wanted))
        return fitted

    @wrap_memory_errors
    def estimates(
        self, statistic: str | Statistic, **options: Any
    ) -> tuple[Estimate, ...] | tuple[RecoveredEstimate, ...]:
        """Estimate one statistic, always as a tuple.

        Parameters
        ----------
        statistic, **options
            As for :meth:`estimate`.

        Returns
        -------
        tuple of Estimate or RecoveredEstimate
            One per coefficient of a regression, or a tuple of one.

        Examples
        --------
        >>> import sfumato as sf
        >>> [one.name for one in sf.read_release({"x_low": [1, 1, 6], "x_high": [3, 3, 8]}).estimates("mean(x)")]
        ['mean(x)']
        """
        analysis = self._analysis(**options)
        return analysis.estimates(analysis.resolve(parse(statistic, names=self.names, derived=True)))

    def estimate_jointly(
        self,
        statistics: Sequence[str | Statistic],
        *,
        importance: Sequence[float] | Mapping[str, float] | None = None,
        accuracy: Sequence[float] | Mapping[str, float] | None = None,
        wide_boxes: str = "fuzzy",
        objective: str = "normalised",
        unweighted: bool = False,
        domain: Mapping[str, tuple[Any, Any]] | None = None,
        budget: EstimateBudget | None = None,
    ) -> tuple[Estimate | RegressionEstimate[Any], ...]:
        """Estimate several statistics from the same records: one set of weights that is good for all of them.

        The weights minimise Σ (importance / accuracy) × (uncertainty + sampling error), for complete records.

        Parameters
        ----------
        statistics : sequence of str or Statistic
            Means, variances, standard deviations, covariances, correlations and regressions.
        importance : sequence or mapping, optional
            How important each statistic is, at least 0; in order, or by statistic. Equal by default.
        accuracy : sequence or mapping, optional
            Wanted half-width of each statistic, in its unit, above 0. The default is 10 % of its natural scale.
        wide_boxes, objective, unweighted, domain, budget
            As for :meth:`estimate`; the budget is for each statistic.

        Returns
        -------
        tuple of Estimate or RegressionEstimate
            One for each statistic.

        Examples
        --------
        >>> import sfumato as sf
        >>> boxes = sf.read_release({"x_low": [1, 3, 6, 0], "x_high": [2, 4, 8, 90], "y": [1.0, 2.0, 6.0, 3.0]})
        >>> mean, correlation = boxes.estimate_jointly(["mean(x)", "corr(x, y)"], importance=[2, 1])
        """
        wanted = [parse(one, names=self.names) for one in ([statistics] if isinstance(statistics, str) else statistics)]
        analysis = self._analysis(
            wide_boxes=wide_boxes, objective=objective, unweighted=unweighted, domain=domain, budget=budget
        )
        estimates = analysis.joint_estimates(wanted, by_text(importance), by_text(accuracy))
        return tuple(one.as_record(own) for one, own in zip(wanted, estimates, strict=True))

    def _analysis(self, *, domain: Mapping[str, tuple[Any, Any]] | None = None, **options: Any) -> Analysis:
        for name in domain or ():
            require_name(name, self.names)
        options |= {"table": self.table, "domain": domain or {}, "from_text": self._from_text, "ask": self.answers}
        return Analysis(manifest=self.manifest, **options)

    @property
    def weight(self) -> str | None:
        """Name of the column of sampling weights, or None."""
        return weight_column(self.manifest)

    def optimality(self) -> Optimality:
        """Compare the width that the boxes reached with the smallest that theory allows.

        Returns
        -------
        Optimality
            ``achieved`` width, the optimum for boxes that fill the space (``asymptotic``) and for boxes shrunk to their
            records (``shrunk``), and ``ratio`` = achieved ÷ shrunk, computed when first asked for. If values repeat or
            are missing, no optimum is known: it is NaN, and ``reason`` says why.

        Raises
        ------
        RequestError
            If the release was read from a folder, which does not tell it, or if its method has no such theory.

        Examples
        --------
        >>> import numpy as np, sfumato as sf
        >>> people = {"x": np.random.default_rng(0).normal(size=500)}
        >>> release = sf.Boxes(k=5, keep=["mean(x)"]).release(people, schema={"x": "quasi"}, seed=1)
        >>> release.optimality().achieved < release.optimality().asymptotic
        True
        """
        if self.diagnostics.optimality is None:
            raise RequestError(
                "The optimality of a release is known only in the process that made it, and only for Boxes.",
                fix="use the object that `Boxes(...).release(table)` returned",
            )
        return self.diagnostics.optimality

    def apply(self, new_rows: Any) -> Release:
        """Return the release with new rows in the same cells: the same ranges, categories or boxes.

        Every promise is recounted on all rows. It works for methods whose cells are fixed (``Recode`` with
        kind="global", ``Generalize``, ``TopBottom``, ``Boxes``, ``Quantiles`` with ties="together"), on the object that
        ``release`` returned. Who has both releases sees which cells have got new rows.

        Parameters
        ----------
        new_rows : Table, path or data frame
            Rows of other people, with the columns of the original; identifiers may be left out.

        Returns
        -------
        Release
            The old and the new rows in random order.

        Raises
        ------
        GuaranteeNotMet
            If a promise does not hold for old and new rows together.
        CannotRelease
            If a row lies in no box of the release.

        Examples
        --------
        >>> import sfumato as sf
        >>> release = sf.Boxes(k=3).release({"age": [20, 21, 22, 40, 41, 42]}, schema={"age": "quasi"})
        >>> release.apply({"age": [21, 41]}).table.rows
        8
        """
        from sfumato.release.apply import add_rows

        table, manifest = add_rows(self.table, self.manifest, self._plan, new_rows)
        return replace(self, table=table, manifest=manifest)

    def write(
        self,
        folder: str | Path,
        *,
        report: RenderedReport | None = None,
        formats: str | Sequence[str] | None = None,
        csv_formulas: str = "escape",
        language: str = ENGLISH,
    ) -> Path:
        """Write the release into ``folder``, all or nothing: rows, manifest.json, report, codebook and README.

        Parameters
        ----------
        folder : str or Path
            It must not exist, be empty, or contain an older release, which is then replaced as a whole.
        report : Report, optional
            The report, if it has been made already.
        formats : str or sequence of str, optional
            Formats of the rows besides released.parquet: "csv" (default), "sav" (SPSS), "dta" (Stata), "xpt" (SAS),
            "xlsx" (Excel), which are added to released.csv; "parquet" alone leaves that out. Rows in parts: only that.
        csv_formulas : {"escape", "keep"}, default "escape"
            Text in released.csv that spreadsheets take for a formula (= + - @) gets an apostrophe, or is kept.
        language : {"en", "de", "fr"}, default "en"
            Language of the report and the README.

        Returns
        -------
        Path
            The absolute path of the folder.

        Examples
        --------
        >>> import sfumato as sf
        >>> release = sf.Boxes(k=2).release({"age": [20, 21, 40, 41]}, schema={"age": "quasi"})
        >>> folder = release.write("out")
        >>> sorted(path.name for path in folder.iterdir())[:4]
        ['README.txt', 'codebook.csv', 'manifest.json', 'promises.sql']
        """
        require_choice(csv_formulas, name="csv_formulas", choices=("keep", "escape"))
        if language != ENGLISH:
            require_choice(language, name="language", choices=languages())
        if self.manifest is None:
            raise RequestError("Only a release with a manifest can be written.", fix="the release of a method")
        chosen = check_formats(formats, in_parts=isinstance(self.table, StoredTable))
        files = self.report_files(report, chosen, language)
        if isinstance(self.table, StoredTable):
            return write_copies(self.table.files, self.manifest, files, folder)
        others: Any = {"formats": chosen, "csv_formulas": csv_formulas, "language": language}
        return write(self.table, self.manifest, files, folder, **others)

    def report_files(
        self, report: RenderedReport | None = None, formats: Sequence[str] = (), language: str = ENGLISH
    ) -> dict[str, bytes]:
        """Return report and codebook by name of the file; ``report`` if it has been made already."""
        from sfumato.report.html import Report, codebook  # a layer above: imported only when called

        rendered: RenderedReport = Report.of(self, language=language) if report is None else report
        columns = codebook(self, formats)
        return {REPORT: rendered.page.encode(), NUMBERS: rendered.numbers.encode(), CODEBOOK: columns.encode()}

    def evidence(self, *, recipient: str, purpose: str, environment: str = "", language: str = ENGLISH) -> Any:
        """Return what was found, mapped to what the law asks, as one document to print and sign. No legal advice.

        Parameters
        ----------
        recipient, purpose : str
            Who receives the release, and what for.
        environment : str, default ""
            Where it is used, and under which controls; a question if it is not given.
        language : {"en", "de", "fr"}, default "en"
            Language of the document.

        Returns
        -------
        EvidencePack
            ``write(file)`` writes it as HTML.

        Examples
        --------
        >>> import sfumato as sf
        >>> release = sf.Boxes(k=2).release({"age": [20, 21, 40, 41]}, schema={"age": "quasi"})
        >>> "recital 26" in release.evidence(recipient="University X", purpose="study Y").page
        True
        """
        from sfumato.report.evidence import gather_evidence  # a layer above: imported only when called

        return gather_evidence(self, recipient=recipient, purpose=purpose, place=environment, language=language)
