"""The matcher of an intruder who knows how a release was made: the likelihood ratio of each person and row.

A manifest tells the method and its options: the level of noise, the probabilities of changed categories, the window of
swapped ranks. So an intruder can compute how likely a row y is the row of a person x. Each person has one of the n
rows, each with the same probability beforehand. If y_j is hers, the others are rows of other people, so that

    P(row j is hers) ∝ p(y_j | x) ÷ p(y_j),

where p(y) is the density of released rows. The best match is the row with the largest ratio. No other matcher that
sees one person and the rows is right more often, if p is right.

- *Noise*: y is normal around x, shrunk to the mean as the method says, with the level times the covariance of the data,
  which the release keeps. Normal scores are treated alike on the scale of ranks. A category changes as in draws of the
  same noise.
- *Post-randomisation*: the probabilities of the matrix; invariant ones follow from the released frequencies.
- *Rank swapping*: the probability that a rank moves so far, from draws of the same procedure.

Everything that the intruder needs is in the release. p(y) is taken as a normal for noisy numbers and as independent
columns otherwise. As this may be wrong, the likelihood alone is tried, too, and the worse of both is reported. Columns
that are known only in a coarser unit are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.measures.confidence import Interval, Z, share
from sfumato.measures.measured_release import exact_numbers
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.release.assessment import Score

    Array = NDArray[np.float64]

PAIRS = 2 * 10**6  # pairs of a person and a row that are compared
TARGETS = 500  # largest number of people who are attacked
FEWEST = 40  # and the smallest, in a large table
IMPOSSIBLE = -30.0  # logarithm of the probability of what should not happen, so that a wrong model stays finite
DRAWS = 4000  # of the noise of a category, and least number of swapped ranks ÷ 50
NOISES = ("correlated", "uncorrelated", "normal-scores", "mixture")  # kinds of noise that are known here
COLUMNS = 300  # of numbers that are compared, and a quarter of the rows: more have no covariance to rely on
CATEGORIES = 100  # columns with more categories are not simulated


@dataclass(frozen=True, repr=False, eq=False)
class Logs:
    """Logarithms of the probability of rows, of one column or of several, and the columns."""

    given: Array  # (people, rows): of the row if it is the person's
    of_rows: Array  # (rows,): of the row if it is anybody's
    columns: tuple[str, ...]

    def __add__(self, other: Logs) -> Logs:
        return Logs(self.given + other.given, self.of_rows + other.of_rows, self.columns + other.columns)


@dataclass(frozen=True, repr=False, eq=False)
class Setting:
    """The release, the people who are attacked, and the options of the method."""

    subject: MeasuredRelease
    targets: NDArray[np.int64]
    options: Mapping[str, object]
    notes: Mapping[str, object]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be compared."""
        known = self.subject.released.kinds
        return tuple(n for n in self.subject.names if n in known and n not in self.subject.knows)

    def number(self, name: str) -> tuple[Array, Array]:
        """Return the numbers of the people and of the rows."""
        return exact_numbers(self.subject.original, name)[self.targets], exact_numbers(self.subject.released, name)

    def coded(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
        """Return the people's and the rows' cells as codes of the released values, −1 for others, and the values."""
        ours, shown = self.subject.original.coded(name), self.subject.released.coded(name)
        place = {value: code for code, value in enumerate(shown.values.to_pylist())}
        codes = np.array([place.get(value, -1) for value in ours.values.to_pylist()], dtype=np.int64)
        return codes[ours.codes[self.targets]], shown.codes.astype(np.int64), shown.values

    def is_number(self, name: str) -> bool:
        """Whether a column has numbers before and after."""
        return self.subject.original.kinds[name].is_numeric and self.subject.released.kinds[name].is_numeric


def known_mechanism_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the share of people who are matched with their own row, and the mean probability that it is given."""
    manifest = subject.manifest
    if subject.origin is None or manifest is None or manifest.method not in MODELS:
        return
    present = np.flatnonzero(np.isin(np.arange(subject.original.rows), subject.origin))
    rows = subject.released.rows
    if not present.size or rows < 2:
        return
    drawn = subject.generator("known mechanism").permutation(present)
    targets = drawn[: int(np.clip(PAIRS // rows, FEWEST, TARGETS))]
    logs = MODELS[manifest.method](Setting(subject, targets, manifest.options, manifest.notes))
    if logs is None:
        return
    own = subject.origin[None, :] == targets[:, None]
    ratio, alone = (PersonMatches.of(one, own) for one in (logs.given - logs.of_rows, logs.given))
    worse = max((ratio, alone), key=lambda one: float(one.hits.sum()))
    yield from _scores(worse, logs.columns, _nearest_hits(subject, targets, own), rows)


def _scores(found: PersonMatches, columns: Sequence[str], nearest: Array, rows: int) -> Iterator[Score]:
    few = ", ".join(columns[:5]) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
    note = (
        f"share of people, by an intruder who knows the method, its options and {few}; {nearest.mean():.1%} of the "
        f"same people by the nearest row, {1.0 / rows:.2g} by chance"
    )
    rate = share(round(float(found.hits.sum())), len(found.hits))
    rate = Interval(float(found.hits.mean()), rate.low, max(rate.high, float(found.hits.mean())))
    yield rate.score("correct matches by the known mechanism", rows=len(found.hits), note=note, gain=rate.low)
    mean = float(found.belief.mean())
    margin = Z * float(found.belief.std()) / np.sqrt(len(found.belief))
    believed = Interval(mean, max(0.0, mean - margin), min(1.0, mean + margin))
    note = f"posterior probability of the true row, mean over people; {1.0 / rows:.2g} by chance"
    yield believed.score("probability of the true row, mean", rows=len(found.belief), note=note)


@dataclass(frozen=True, repr=False, eq=False)
class PersonMatches:
    """Whether each person was matched, where one of several equal rows is a guess, and the posterior of her row."""

    hits: Array
    belief: Array

    @classmethod
    def of(cls, logs: Array, own: NDArray[np.bool_]) -> PersonMatches:
        """Match each person (row) with the most likely released row (column)."""
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        best = weights >= 1.0 - 1e-9
        hits = (best & own).sum(axis=1) / best.sum(axis=1)
        return cls(hits, np.asarray((weights * own).sum(axis=1) / weights.sum(axis=1)))


def _nearest_hits(subject: MeasuredRelease, targets: NDArray[np.int64], own: NDArray[np.bool_]) -> Array:
    """Return whether the nearest row, which knows nothing of the method, is the right one for each person."""
    from scipy.spatial.distance import cdist

    return PersonMatches.of(-cdist(subject.people[targets], subject.rows, "sqeuclidean"), own).hits


# Columns by themselves: what is told by a cell, if cells change by known probabilities.


def _unchanged(setting: Setting, names: Sequence[str]) -> Logs:
    """Return the columns that were released as they are: equal cells, or it is another row."""
    logs = Logs(np.zeros((len(setting.targets), setting.subject.released.rows)), np.zeros(1), ())
    for name in names:
        people, rows, values = setting.coded(name)
        shares = np.bincount(rows, minlength=len(values)) / len(rows)
        given = np.where(people[:, None] == rows, 0.0, IMPOSSIBLE)
        logs += Logs(given, np.log(shares)[rows], (name,))
    return logs


def _changed(name: str, people: NDArray[np.int64], rows: NDArray[np.int64], chances: Array) -> Logs:
    """Return a column whose values change with these chances: from (row) to (column); code −1 can be any value."""
    shares = np.bincount(rows, minlength=chances.shape[1]) / len(rows)
    table = np.log(np.maximum(np.vstack([chances, shares]), np.exp(IMPOSSIBLE)))
    return Logs(table[people][:, rows], np.log(np.maximum(shares, np.exp(IMPOSSIBLE)))[rows], (name,))


# Post-randomisation.


def _pram(setting: Setting) -> Logs | None:
    """Return the logarithms for changed categories; other columns were released as they are."""
    kinds, given = setting.notes.get("matrix"), setting.notes.get("transitions")
    if not isinstance(kinds, Mapping) or not isinstance(given, Mapping):
        return None
    logs = _unchanged(setting, [name for name in setting.names if name not in kinds])
    for name in (name for name in setting.names if name in kinds):
        people, rows, values = setting.coded(name)
        counts = np.bincount(rows, minlength=len(values)).astype(np.float64)
        chances = (
            _invariant(float(str(setting.options["keep"])), counts, values)
            if kinds[name] == "invariant"
            else _given(given[name], values)
        )
        logs += _changed(name, people, rows, chances)
    return logs


def _invariant(keep: float, counts: Array, values: pa.Array) -> Array:
    """Return keep + (1 − keep)·share of the new value; a missing cell stays missing."""
    present = values.is_valid().to_numpy(zero_copy_only=False)
    shares = np.where(present, counts, 0.0) / max(float(counts[present].sum()), 1.0)
    chances = keep * np.eye(len(values)) + (1.0 - keep) * shares
    chances[~present] = np.eye(len(values))[~present]
    return np.asarray(chances)


def _given(matrix: Mapping[str, Mapping[str, float]], values: pa.Array) -> Array:
    """Return the matrix of the manifest; a value that it does not name is kept."""
    place = {text: code for code, text in enumerate(pc.cast(values, pa.string()).to_pylist())}
    chances = np.eye(len(values))
    for value, row in matrix.items():
        if value in place:
            chances[place[value]] = 0.0
            for other, chance in row.items():
                if other in place:
                    chances[place[value], place[other]] = float(chance)
    return chances


# Rank swapping.


def _swap(setting: Setting) -> Logs | None:
    """Return the logarithms for cells that moved by at most a window of ranks."""
    options = setting.options
    moved = setting.notes.get("swapped columns")
    if options.get("kind") != "rank" or _has_basis(options) or not isinstance(moved, Sequence):
        return None
    logs = _unchanged(setting, [name for name in setting.names if name not in moved])
    rows = setting.subject.released.rows
    window = max(1, int(float(str(options["window"])) * rows))
    moves = _moves(rows, window, float(str(options["share"])), setting.subject.generator("swapped ranks"))
    for name in (name for name in setting.names if name in moved):
        logs += _moved(name, *setting.coded(name)[:2], moves)
    return logs


def _moves(rows: int, window: int, taking: float, generator: np.random.Generator) -> Array:
    """Return the probability that a rank moves by 0, 1, …, window places, to either side the same, from draws."""
    from sfumato.methods.swap_kernels import rank_partners

    counts, rank = np.zeros(window + 1), np.arange(rows)
    for _ in range(int(np.clip(50 * DRAWS // rows, 5, 500))):
        counts += np.bincount(np.abs(rank_partners(generator.random(rows), window) - rank), minlength=window + 1)
    chances = taking * counts / counts.sum()
    chances[0] += 1.0 - taking
    chances[1:] /= 2.0
    return np.asarray(chances)


def _moved(name: str, people: NDArray[np.int64], rows: NDArray[np.int64], moves: Array) -> Logs:
    """Return a column whose cells moved. A value of a person has the ranks of all rows with it, in random order.

    With G the double cumulated sum of the chances of moves, the sum over ranks from a to b of those that move to a rank
    from c to d is G(d − a) − G(d − b) − G(c − a) + G(c − b).
    """
    counts = np.bincount(rows)
    end = np.cumsum(counts)
    start = end - counts
    reach = len(rows) + len(moves)
    chances = np.zeros(2 * reach + 1)
    chances[reach - len(moves) + 1 : reach + len(moves)] = np.concatenate([moves[:0:-1], moves])
    total = np.concatenate([[0.0], np.cumsum(np.concatenate([[0.0], np.cumsum(chances)]))])

    def summed(places: NDArray[np.int64]) -> Array:
        return np.asarray(total[places + reach + 1])

    values, place = np.unique(people, return_inverse=True)
    a, b = start[values][:, None], end[values][:, None]
    pairs = summed(end - a) - summed(end - b) - summed(start - a) + summed(start - b)
    pairs[pairs < 1e-9] = 0.0  # rounding
    shares = counts / len(rows)
    chance = np.where(values[:, None] < 0, shares, pairs / counts[values][:, None])
    table = np.log(np.maximum(chance, np.exp(IMPOSSIBLE)))
    return Logs(table[place.ravel()][:, rows], np.log(shares)[rows], (name,))


# Noise.


def _noise(setting: Setting) -> Logs | None:
    """Return the logarithms for numbers and categories with noise."""
    options = setting.options
    if options.get("kind") not in NOISES or _has_basis(options):
        return None
    model = NoiseModel(
        level=float(str(options["level"])),
        shrinks=bool(options["correct"]),
        correlated=options["kind"] != "uncorrelated",
        scores=options["kind"] == "normal-scores",
    )
    numbers = [name for name in setting.names if setting.is_number(name)]
    numbers = numbers[: min(COLUMNS, setting.subject.released.rows // 4)]
    logs = Logs(np.zeros((len(setting.targets), setting.subject.released.rows)), np.zeros(1), ())
    if numbers:
        logs += _noisy_numbers(setting, numbers, model)
    for name in setting.names:
        people, rows, values = setting.coded(name)
        simple = name not in numbers and len(values) <= CATEGORIES and options.get("decoding") == "largest"
        if simple and not setting.subject.original.kinds[name].is_numeric:
            counts = np.bincount(rows, minlength=len(values))
            draw = model.change_ranks if model.scores else model.change_indicators
            logs += _changed(name, people, rows, draw(counts, setting.subject.generator(f"noise of {name}")))
    return logs if logs.columns else None


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """The noise that the manifest tells: its variance in variances of the data, and the correction of the variance."""

    level: float
    shrinks: bool
    correlated: bool
    scores: bool

    @property
    def shrinkage(self) -> float:
        """By how much a released number is nearer to the mean than the number of the person, without its noise."""
        return 1.0 / np.sqrt(1.0 + self.level) if self.shrinks else 1.0

    @property
    def variance(self) -> float:
        """Variance of a released number around that of its person, in variances of released numbers."""
        return self.level / (1.0 + self.level)

    def change_indicators(self, counts: NDArray[np.int64], generator: np.random.Generator) -> Array:
        """Return how often the largest of noisy indicators (−1 and +1) is another one: from (row) to (column)."""
        shares = counts / counts.sum()
        spread = 2.0 * np.sqrt(shares * (1.0 - shares))
        noise = generator.standard_normal((DRAWS, len(shares)))
        if self.correlated:  # rows of indicators: (one of them − its share) has their covariance
            noise = noise * np.sqrt(shares)
            noise = 2.0 * (noise - noise.sum(axis=1, keepdims=True) * shares)
        else:
            noise = noise * spread
        mean = 2.0 * shares - 1.0
        pull = 0.0 if not self.shrinks else np.sqrt(1.0 + self.level) - 1.0
        changed = pull * mean + np.sqrt(self.level) * noise
        return np.array(
            [
                np.bincount((changed + 2.0 * np.eye(len(shares))[one]).argmax(axis=1), minlength=len(shares)) / DRAWS
                for one in range(len(shares))
            ]
        )

    def change_ranks(self, counts: NDArray[np.int64], generator: np.random.Generator) -> Array:
        """Return how often a noisy normal score of one value is that of another one."""
        from scipy.special import ndtr, ndtri

        shares = counts / counts.sum()
        ends = np.cumsum(shares)
        chances = np.zeros((len(shares), len(shares)))
        for one, share_of_one in enumerate(shares):
            score = ndtri(np.clip(ends[one] - share_of_one * generator.random(DRAWS), 1e-9, 1.0 - 1e-9))
            noisy = self.shrinkage * score + np.sqrt(self.variance) * generator.standard_normal(DRAWS)
            found = np.minimum(np.searchsorted(ends, ndtr(noisy), side="right"), len(shares) - 1)
            chances[one] = np.bincount(found, minlength=len(shares)) / DRAWS
        return chances


def _noisy_numbers(setting: Setting, names: Sequence[str], model: NoiseModel) -> Logs:
    """Return the logarithms of normal densities; a missing cell stays missing."""
    logged = setting.notes.get("logarithms")
    whole = np.zeros(len(names))
    people, rows = (np.zeros((size, len(names))) for size in (len(setting.targets), setting.subject.released.rows))
    missing = np.zeros((len(setting.targets), setting.subject.released.rows))
    for place, name in enumerate(names):
        ours, theirs = _scaled(setting, name, model, is_logged=isinstance(logged, Sequence) and name in logged)
        absent, shown = np.isnan(ours), ~np.isnan(theirs)
        centre, width = (float(theirs[shown].mean()), float(theirs[shown].std()) or 1.0) if shown.any() else (0.0, 1.0)
        people[:, place] = np.where(absent, 0.0, (ours - centre) / width)
        rows[:, place] = np.where(shown, (theirs - centre) / width, 0.0)
        if setting.subject.original.kinds[name] is Kind.WHOLE and not model.scores:
            whole[place] = 1.0 / 12.0 / width**2  # rounding
        if absent.any() or not shown.all():
            missing += np.where(absent[:, None] == ~shown, 0.0, IMPOSSIBLE)
    moments = np.cov(rows, rowvar=False).reshape(len(names), len(names))
    spread = moments if model.correlated else np.diag(np.diag(moments))
    noise = model.variance * spread + np.diag(whole + 1e-9)
    given = _normal_logs(model.shrinkage * people, rows, noise) + missing
    every = _normal_logs(np.zeros((1, len(names))), rows, moments + np.diag(whole + 1e-9))[0]
    return Logs(given, every, tuple(names))


def _scaled(setting: Setting, name: str, model: NoiseModel, *, is_logged: bool) -> tuple[Array, Array]:
    """Return the numbers on the scale on which noise was added: as they are, logarithms, or normal scores."""
    from scipy.special import ndtri

    ours, theirs = (np.where(np.isfinite(one), one, np.nan) for one in setting.number(name))
    if model.scores:
        known = np.sort(theirs[~np.isnan(theirs)])
        below, upto = ([np.searchsorted(known, one, side) for one in (ours, theirs)] for side in ("left", "right"))
        shares = [(first + last + 1.0) / (2.0 * len(known) + 2.0) for first, last in zip(below, upto, strict=True)]
        ours, theirs = (
            np.where(np.isnan(one), np.nan, ndtri(share_of))
            for one, share_of in zip((ours, theirs), shares, strict=True)
        )
    elif is_logged:
        least = min(float(np.nanmin(one[one > 0.0], initial=np.inf)) for one in (ours, theirs))
        ours, theirs = (np.log(np.maximum(one, least)) for one in (ours, theirs))
    return ours, theirs


def _normal_logs(means: Array, rows: Array, covariance: Array) -> Array:
    """Return the logarithm of the normal density of each row (column) around each mean (row)."""
    root = np.linalg.cholesky(covariance)
    one, other = (np.linalg.solve(root, side.T).T for side in (means, rows))
    squared = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2.0 * one @ other.T
    return np.asarray(-0.5 * squared - np.log(np.diag(root)).sum() - 0.5 * rows.shape[1] * np.log(2.0 * np.pi))


def _has_basis(options: Mapping[str, object]) -> bool:
    """Whether cells were changed in another basis than that of the columns, which is not modelled."""
    return options.get("basis", "columns") != "columns"


MODELS: dict[str, Callable[[Setting], Logs | None]] = {"noise": _noise, "pram": _pram, "swap": _swap}
