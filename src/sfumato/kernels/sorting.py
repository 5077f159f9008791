"""Selection and sorting of keys together with their rows, in place, and other loops over one array.

NumPy has functions for the latter, but compiling these takes longer, and its sums are rounded in another order.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.jit import jit


@jit(allocates=False)
def select(keys, rows, position):
    """Reorder so that no key before ``position`` is above any key from there on (Hoare's selection)."""
    low, high = 0, len(keys)
    while high - low > 1:
        a, b, c = keys[low], keys[(low + high) // 2], keys[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        left, right = low, high - 1
        while left <= right:
            while keys[left] < pivot:
                left += 1
            while keys[right] > pivot:
                right -= 1
            if left <= right:
                keys[left], keys[right] = keys[right], keys[left]
                rows[left], rows[right] = rows[right], rows[left]
                left += 1
                right -= 1
        if position <= right:
            high = right + 1
        elif position >= left:
            low = left
        else:
            return


@jit(allocates=False)
def sort(keys, rows):
    """Sort the keys, and the rows with them: a few by insertion, more by selection of medians."""
    if len(keys) > 24:
        middle = len(keys) // 2
        select(keys, rows, middle)
        sort(keys[:middle], rows[:middle])
        sort(keys[middle:], rows[middle:])
        return
    for place in range(1, len(keys)):
        key, row = keys[place], rows[place]
        before = place - 1
        while before >= 0 and keys[before] > key:
            keys[before + 1], rows[before + 1] = keys[before], rows[before]
            before -= 1
        keys[before + 1], rows[before + 1] = key, row


@jit
def argsort(keys):
    """Return the order of some keys; up to 24 equal keys keep their order."""
    order = np.arange(len(keys))
    sort(keys.copy(), order)
    return order


@jit
def total_of(numbers):
    """Return the sum of some numbers, added one after the other."""
    total = 0.0
    for number in numbers:
        total += number
    return total


@jit(allocates=False, plain=np.min)
def smallest(numbers):
    """Return the smallest of some numbers."""
    least = numbers[0]
    for number in numbers:
        least = min(least, number)
    return least


@jit(allocates=False, plain=np.max)
def largest(numbers):
    """Return the largest of some numbers."""
    most = numbers[0]
    for number in numbers:
        most = max(most, number)
    return most


@jit(allocates=False, plain=np.copyto)
def copy_to(target, source):
    """Copy an array to another one of the same shape: an assignment is compiled together with its error messages."""
    for place in np.ndindex(source.shape):
        target[place] = source[place]
