"""Noise for differential privacy, drawn exactly: whole numbers, integer arithmetic and the system's secret bits.

Noise that is drawn in floating point leaks: some sums of a value and its noise exist for one value only (Mironov 2012).
So every quantity here is a whole number, every probability is compared as a quotient of whole numbers (Canonne, Kamath
and Steinke 2020, "The Discrete Gaussian for Differential Privacy", algorithms 1 to 3), and every random bit comes from
the operating system's cryptographic generator. A generator with a seed has no place here: whoever knows the seed, or
enough of its numbers, takes the noise away. Tests that need the same draws twice pass their own source of bytes.

A geometric draw ends at 128, so that nothing overflows; the distributions differ from the exact ones by less than
2^−180.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Entropy = Callable[[int], bytes]  # that many bytes, each independent and uniform

FINE = 2048  # a standard deviation below it is a quotient with this numerator at most, above it a whole number
FINEST = 1024  # the largest denominator of a standard deviation
LARGEST_SCALE = 2**22  # with it, the squares below fit into 64 bits
LONGEST = 128  # where a geometric draw ends
AT_ONCE, MANY = 8, 4096  # flips of a geometric draw in one step, if fewer numbers than that are drawn


def gaussian_scale(*, squared_sensitivity: int, rho: float) -> Fraction:
    """Return a standard deviation σ with which discrete Gaussian noise is ρ-zCDP: σ² ≥ sensitivity² ÷ (2ρ), exactly.

    Parameters
    ----------
    squared_sensitivity:
        The largest sum of squared changes of the whole numbers that get noise, over all of one person's rows.
    rho:
        The share of the budget, in zCDP (Bun and Steinke 2016; proof for whole numbers: Canonne et al., theorem 4).

    Examples
    --------
    >>> gaussian_scale(squared_sensitivity=1, rho=0.5)
    Fraction(1, 1)
    """
    if not (rho > 0.0 and math.isfinite(rho)):
        raise OptionError("The budget of a measurement must be positive.", found=f"rho = {rho:g}")
    variance = Fraction(squared_sensitivity) / (2 * Fraction(rho))
    denominator = FINEST
    while denominator > 1 and variance * denominator**2 > FINE**2:
        denominator //= 2
    scaled = variance * denominator**2
    numerator = math.isqrt(scaled.numerator // scaled.denominator)
    while numerator**2 < scaled:
        numerator += 1
    return Fraction(max(numerator, 1), denominator)


def draw_discrete_gaussian(sigma: Fraction, size: int, *, entropy: Entropy = os.urandom) -> NDArray[np.int64]:
    """Return ``size`` independent whole numbers x, each with probability proportional to e^(−x² ÷ 2σ²).

    A discrete Laplace draw y of scale t is kept with probability e^(−(|y| − σ²/t)² ÷ 2σ²).

    Examples
    --------
    >>> noise = draw_discrete_gaussian(Fraction(10), 1000)
    >>> bool(8.0 < noise.std() < 12.0)
    True
    """
    numerator, denominator = sigma.numerator, sigma.denominator
    _require_scale(sigma)
    scale = numerator if denominator == 1 else numerator // denominator + 1
    square = numerator**2
    step = denominator**2 * scale

    def keep(noise: NDArray[np.int64]) -> NDArray[np.bool_]:
        if denominator == 1:  # then scale = σ, and the quotient is (|y| − σ)² ÷ 2σ²
            return _flip_exponential((np.abs(noise) - numerator) ** 2, 2 * square, entropy)
        return _flip_exponential((np.abs(noise) * step - square) ** 2, 2 * square * (denominator * scale) ** 2, entropy)

    return _fill(size, lambda missing: _kept(_laplace_candidates(scale, missing, entropy), keep))


def draw_discrete_laplace(scale: Fraction, size: int, *, entropy: Entropy = os.urandom) -> NDArray[np.int64]:
    """Return ``size`` independent whole numbers x, each with probability proportional to e^(−|x| ÷ scale).

    Added to a whole number that one person changes by at most d, it is (d ÷ scale)-differentially private.

    Examples
    --------
    >>> noise = draw_discrete_laplace(Fraction(3, 2), 1000)
    >>> bool(abs(noise.mean()) < 1.0)
    True
    """
    _require_scale(scale)
    return _fill(
        size, lambda missing: _laplace_candidates(scale.numerator, missing, entropy, divisor=scale.denominator)
    )


def choose_exponentially(
    scores: NDArray[np.int64], *, epsilon: Fraction, sensitivity: int = 1, entropy: Entropy = os.urandom
) -> int:
    """Return a position, each with probability proportional to e^(ε · score ÷ (2 · sensitivity)): ε-DP, ε²/8-zCDP.

    A position is drawn uniformly and kept with probability e^(−ε (largest score − its score) ÷ (2 · sensitivity)),
    until one is kept. One person changes no score by more than the sensitivity. The range of the privacy loss is ε, so
    it is ε²/8-zCDP (Cesar and Rogers 2021).

    Examples
    --------
    >>> choose_exponentially(np.array([0, 1000, 0]), epsilon=Fraction(1))
    1
    """
    scores = np.asarray(scores, dtype=np.int64)
    below = scores.max() - scores
    numerator, denominator = epsilon.numerator, 2 * sensitivity * epsilon.denominator
    largest = int(below.max()) * numerator
    if max(largest, denominator) >= 2**62:
        raise OptionError(
            "Scores and epsilon must be small enough for 64 bits.",
            found=f"a product of {largest:.3g}",
            fix="coarser scores, or epsilon as a quotient of small numbers",
        )
    while True:
        tried = draw_below(len(scores), max(16, len(scores)), entropy=entropy)
        kept = _flip_exponential(below[tried] * numerator, denominator, entropy)
        if kept.any():
            return int(tried[np.argmax(kept)])


def largest_noise(deviations: NDArray[np.float64], error: float) -> float:
    """Return a bound that Σ |noise| exceeds with at most this probability.

    The sum has the mean √(2/π) Σ s, and changes by at most √Σ s² for a change of length 1 of the standard normal
    numbers that it is made of, so that it exceeds its mean by t · √Σ s² with probability at most e^(−t²/2). For few
    numbers a quantile of each is smaller. Both also hold for correlated errors, if no combination of them varies more.

    Examples
    --------
    >>> round(largest_noise(np.ones(1), 0.05), 2), round(largest_noise(np.ones(100), 0.05), 1)
    (1.96, 104.3)
    """
    from scipy.special import ndtri

    count, total = len(deviations), float(deviations.sum())
    if not count:
        return 0.0
    each = -float(ndtri(error / (2.0 * count))) * total
    length = math.sqrt(float(deviations @ deviations))
    return min(each, math.sqrt(2.0 / math.pi) * total + math.sqrt(2.0 * math.log(1.0 / error)) * length)


def draw_below(limit: int, size: int, *, entropy: Entropy = os.urandom) -> NDArray[np.int64]:
    """Return ``size`` independent whole numbers, uniform from 0 to ``limit`` − 1; ``limit`` is at most 2^62.

    Examples
    --------
    >>> sorted(set(draw_below(3, 200).tolist()))
    [0, 1, 2]
    """
    if limit == 1:
        return np.zeros(size, dtype=np.int64)
    bits = (limit - 1).bit_length()
    width = 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8
    shift = np.array(8 * width - bits, dtype=f"u{width}")

    def draw(missing: int) -> NDArray[np.int64]:
        tried = 2 * missing + 8  # at least half of the draws are below the limit, on average
        drawn = np.frombuffer(entropy(width * tried), dtype=f"<u{width}") >> shift
        below: NDArray[np.int64] = drawn[drawn < limit].astype(np.int64)
        return below

    return _fill(size, draw)


def _laplace_candidates(scale: int, size: int, entropy: Entropy, *, divisor: int = 1) -> NDArray[np.int64]:
    """Return about as many discrete Laplace numbers of the scale ``scale`` ÷ ``divisor`` (Canonne et al., alg. 2)."""
    size = 2 * size + 8
    rest = draw_below(scale, size, entropy=entropy)
    rest = rest[_flip_exponential(rest, scale, entropy)]
    size = len(rest)
    magnitude = (rest + scale * _draw_geometric(size, entropy)) // divisor
    negative = draw_below(2, size, entropy=entropy) == 1
    allowed = ~(negative & (magnitude == 0))  # zero has one sign
    signed: NDArray[np.int64] = np.where(negative, -magnitude, magnitude)[allowed]
    return signed


def _draw_geometric(size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Return how many flips of probability e^(−1) succeed before one fails; at most ``LONGEST``.

    A few numbers are flipped several times at once, because each step takes a while; of many, most end soon.
    """
    whole = np.zeros(size, dtype=np.int64)
    going = np.arange(size)
    flips = AT_ONCE if size < MANY else 1
    while len(going) and whole[going[0]] < LONGEST:
        passed = _flip_small(np.ones(len(going) * flips, dtype=np.int64), 1, entropy).reshape(-1, flips)
        run = np.where(passed.all(axis=1), flips, np.argmin(passed, axis=1))
        whole[going] += run
        going = going[run == flips]
    return whole


def _flip_exponential(numerators: NDArray[np.int64], denominator: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Return truth values, each true with probability e^(−numerator ÷ denominator) (Canonne et al., alg. 1)."""
    whole, rest = np.divmod(numerators, denominator)
    answer = _flip_small(rest, denominator, entropy)
    going = np.flatnonzero(answer & (whole > 0))
    passed = 0
    while len(going):  # e^(−w) is w independent flips of e^(−1); few survive, so the loop is short
        survived = _flip_small(np.ones(len(going), dtype=np.int64), 1, entropy)
        answer[going[~survived]] = False
        passed += 1
        going = going[survived & (whole[going] > passed)]
    return answer


def _flip_small(numerators: NDArray[np.int64], denominator: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Return truth values, each true with probability e^(−γ) for γ = numerator ÷ denominator ≤ 1.

    Flips of probability γ/1, γ/2, γ/3 … are made until one fails; the number of the failing one is odd with probability
    1 − γ + γ²/2 − … = e^(−γ).
    """
    number = np.ones(len(numerators), dtype=np.int64)
    going = np.arange(len(numerators))
    flip = 1
    while len(going):
        passed = draw_below(denominator, len(going), entropy=entropy) < numerators[going]
        passed &= draw_below(flip, len(going), entropy=entropy) == 0
        going = going[passed]
        flip += 1
        number[going] = flip
    odd: NDArray[np.bool_] = number % 2 == 1
    return odd


def _kept(candidates: NDArray[np.int64], keep: Callable[[NDArray[np.int64]], NDArray[np.bool_]]) -> NDArray[np.int64]:
    return candidates[keep(candidates)]


def _fill(size: int, draw: Callable[[int], NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return ``size`` numbers of as many draws as that takes; the order of independent draws tells nothing."""
    parts: list[NDArray[np.int64]] = []
    missing = size
    while missing > 0:
        part = draw(missing)[:missing]
        parts.append(part)
        missing -= len(part)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _require_scale(scale: Fraction) -> None:
    if not (0 < scale <= LARGEST_SCALE and scale.denominator <= FINEST and scale.numerator <= LARGEST_SCALE):
        raise OptionError(
            f"The scale of noise must be between 0 and {LARGEST_SCALE}.",
            found=f"{float(scale):.6g}",
            fix="a coarser grid of the column, or a larger epsilon",
        )
    if scale.denominator > 1 and scale.numerator > FINE:
        raise OptionError(f"A scale above {FINE} must be a whole number.", found=str(scale), fix="the scale rounded up")


@dataclass(frozen=True, repr=False)
class NoisyNumbers:
    """Whole numbers with noise, and the standard deviation of the noise."""

    numbers: NDArray[np.int64]
    sigma: float


def add_noise(numbers: NDArray[np.int64], sigma: Fraction) -> NDArray[np.int64]:
    """Return whole numbers with discrete Gaussian noise: whatever a private release tells of people passes here.

    Examples
    --------
    >>> len(add_noise(np.array([100, 200]), Fraction(10)))
    2
    """
    noisy: NDArray[np.int64] = numbers + draw_discrete_gaussian(sigma, len(numbers))
    return noisy


def measure(numbers: NDArray[np.int64], *, squared_sensitivity: int, rho: float) -> NoisyNumbers:
    """Return the numbers with discrete Gaussian noise: ρ-zCDP if one person changes them by no more than is said.

    Examples
    --------
    >>> noisy = measure(np.array([100, 200]), squared_sensitivity=1, rho=0.5)
    >>> noisy.sigma
    1.0
    """
    sigma = gaussian_scale(squared_sensitivity=squared_sensitivity, rho=rho)
    return NoisyNumbers(add_noise(numbers, sigma), float(sigma))
