"""Cuts beside an atom: a value that many records share. One side then has no width and uses little of the budget."""

from __future__ import annotations

import math

import numpy as np

from sfumato.kernels.jit import jit
from sfumato.kernels.tally import HIGH, LOW, WEIGHT, width


@jit
def entropy(share):
    """Return the bits that a cut into ``share`` and 1 − ``share`` uses of the budget of log2(records ÷ k) bits."""
    return -(share * math.log2(share) + (1.0 - share) * math.log2(1.0 - share))


@jit
def commonest(keys):
    """Return the most common of some keys, the smallest of equally common ones, and its number."""
    slots = 4
    while slots < 2 * len(keys):
        slots *= 2
    slot_keys, counts = np.empty(slots), np.zeros(slots, np.int64)
    bits = (keys + 0.0).view(np.uint64)  # + 0.0, so that −0.0 and 0.0 have the same bits
    best, value = 0, np.inf
    for place in range(len(keys)):
        key = keys[place]
        hashed = bits[place] * np.uint64(0x9E3779B97F4A7C15)
        slot = int(hashed >> np.uint64(32)) & (slots - 1)
        while counts[slot] > 0 and slot_keys[slot] != key:
            slot = (slot + 1) & (slots - 1)
        slot_keys[slot] = key
        counts[slot] += 1
        if counts[slot] > best or (counts[slot] == best and key < value):
            best, value = counts[slot], key
    return value, best


@jit
def point_mass_gains(values, weights, set_start, tally, axis, rows, atom):
    """Return the cost saved per bit by a cut below ``atom`` and by one above it; for categories, around it and 0."""
    is_set = axis >= values.shape[1] - len(set_start)
    below, equal, above = 0, 0, 0
    left = left_with = right = right_with = np.float64(0.0)  # weights on a side, without and with the atom
    rest = np.float64(0.0)  # weight of everything else, for categories
    highest, lowest = -np.inf, np.inf
    for row in rows:
        value, weight = values[row, axis], weights[row, axis]
        if value <= atom:
            left_with += weight
        else:
            right += weight
            lowest = min(lowest, value)
            above += 1
        if value < atom:
            left += weight
            highest = max(highest, value)
            below += 1
        else:
            right_with += weight
            equal += value == atom
        if value != atom:
            rest += weight
    whole = width(tally, set_start, axis)
    pressure, count = tally[WEIGHT, axis] * whole, len(rows)
    if is_set:
        return (pressure - rest * (whole - 1.0)) / entropy(equal / count) if 0 < equal < count else 0.0, 0.0
    low, high = tally[LOW, axis], tally[HIGH, axis]
    saved_below = pressure - left * (highest - low) - right_with * (high - atom) if below else 0.0
    saved_above = pressure - left_with * (atom - low) - right * (high - lowest) if above else 0.0
    return (
        saved_below / entropy(below / count) if below else 0.0,
        saved_above / entropy((below + equal) / count) if above else 0.0,
    )
