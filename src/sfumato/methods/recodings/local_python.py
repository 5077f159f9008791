"""The steps of ``local_kernels`` for tables that are too small to wait for a compiler; their results are the same.

A group is in a *state*: the lowest nodes that cover its rows. What a state costs with one more row, and which state
that is, are computed once and then looked up, whatever the number of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.kernels.sorting import sort
from sfumato.methods.recodings.local_kernels import LARGE, LEAST
from sfumato.methods.recodings.row_group_kernels import EMPTY, KEPT, SHARES, States, diverse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.recodings.row_group_kernels import LinkedGroups, RecodedRows

MOST_ROWS = 4000  # for more, what is remembered takes more time than it saves
STABLE = 24  # keys up to which the sorting of kernels is stable


class LocalSteps:
    """The kernel ``improve_once`` as Python, for the groups of one table."""

    def __init__(self, rows: RecodedRows) -> None:
        self._rows, self._k = rows, rows.k
        views: dict[str, Any] = {"model": rows.model.data, "above": rows.above.data}  # their elements are read faster
        self._views = rows._replace(**views)
        self._people = [] if rows.people is None else rows.people.tolist()
        self._sensitive = rows.sensitive.T.tolist()
        self._is_checked = bool(self._people or self._sensitive)
        self._distinct = [_distinct_only(model) for model in rows.model.tolist()]
        self._diverse: list[dict[tuple[int, ...], bool]] = [{} for _ in self._sensitive]

    @cached_property
    def _states(self) -> States:
        return States(self._rows)

    def improve_once(
        self,
        rows: RecodedRows,
        groups: LinkedGroups,
        is_complete: NDArray[np.bool_],
        order: NDArray[np.int64],
        window: int,
        allowed: float,
        is_merging: bool,
    ) -> int:
        """Join incomplete groups, or improve complete ones once; return the number of joins."""
        self._load(groups)
        near: list[int] = order.tolist()
        joined = 0
        if is_merging:
            done: list[bool] = is_complete.tolist()
            joined = self._merge(near, window, allowed, done)
            is_complete[:] = done
        else:
            self._improve(near, window, allowed)
            self._refill(near, window, allowed)
            self._dissolve(near, window)
            self._split_large()
        self._store(groups)
        return joined

    def _load(self, groups: LinkedGroups) -> None:
        self._of, self._after, self._before = groups.row.tolist()
        self._first, self._size = groups.slot.tolist()
        profile_of = self._states.profile_of
        levels = map(tuple, groups.level.tolist())
        self._state = [
            EMPTY if first < 0 else self._states.of(profile_of[first], level)
            for first, level in zip(self._first, levels, strict=True)
        ]
        self._changes = [0] * len(self._first)  # how often each group has changed
        self._seen = [-1] * len(self._of)  # changes of the group of each row when its rest was found
        self._rest = [EMPTY] * len(self._of)

    def _store(self, groups: LinkedGroups) -> None:
        groups.row[:] = self._of, self._after, self._before
        groups.slot[:] = self._first, self._size
        groups.level[:] = [self._states.levels[state] for state in self._state]
        groups.cost[:] = [self._states.cost[state] for state in self._state]

    def _members(self, group: int) -> Iterator[int]:
        row, after = self._first[group], self._after
        while row >= 0:
            yield row
            row = after[row]

    def _without(self, row: int) -> int:
        """Return the state of the other rows of a row's group."""
        group = self._of[row]
        if self._seen[row] != self._changes[group]:
            self._seen[row] = self._changes[group]
            profile_of, following, highest = self._states.profile_of, self._states.next, self._state[group]
            state, one = EMPTY, self._first[group]
            while one >= 0 and state != highest:
                if one != row:
                    profile = profile_of[one]
                    joined = following[state].get(profile)
                    state = self._states.add(state, profile) if joined is None else joined
                one = self._after[one]
            self._rest[row] = state
        return self._rest[row]

    def _after_joining(self, state: int, row: int) -> int:
        profile = self._states.profile_of[row]
        joined = self._states.next[state].get(profile)
        return self._states.add(state, profile) if joined is None else joined

    def _take_out(self, row: int) -> None:
        group, before, after = self._of[row], self._before[row], self._after[row]
        self._state[group] = self._without(row)
        if before >= 0:
            self._after[before] = after
        else:
            self._first[group] = after
        if after >= 0:
            self._before[after] = before
        self._size[group] -= 1
        self._changes[group] += 1

    def _put_in(self, row: int, group: int) -> None:
        first = self._first[group]
        self._of[row], self._before[row], self._after[row] = group, -1, first
        self._first[group] = row
        if first >= 0:
            self._before[first] = row
        self._size[group] += 1
        self._changes[group] += 1
        self._state[group] = self._after_joining(self._state[group], row)
        self._seen[row] = -1

    def _complete(self, group: int, without: int = -1, extra: int = -1) -> bool:
        """Return whether a group without one row and with an extra one may be released."""
        if self._size[group] - (without >= 0) + (extra >= 0) < self._k:
            return False
        if not self._is_checked:
            return True
        rows = [row for row in self._members(group) if row != without]
        return self._may_stand([*rows, extra] if extra >= 0 else rows)

    def _may_stand(self, rows: Sequence[int]) -> bool:
        if len(rows) < self._k or (self._people and len({self._people[row] for row in rows}) < self._k):
            return False
        for column, codes in enumerate(self._sensitive):
            if self._distinct[column]:
                if len({codes[row] for row in rows}) < self._distinct[column]:
                    return False
                continue
            values = tuple(sorted([codes[row] for row in rows]))
            known = self._diverse[column].get(values)
            if known is None:
                if len(self._diverse[column]) > KEPT:
                    self._diverse[column].clear()
                counts = np.bincount(values, minlength=self._rows.model.shape[1] - SHARES)
                known = bool(diverse.plain(self._views, column, counts.data, len(values)))
                self._diverse[column][values] = known
            if not known:
                return False
        return True

    def _merge(self, order: list[int], window: int, most: float, is_complete: list[bool]) -> int:
        of, sizes, state, costs = self._of, self._size, self._state, self._states.cost
        joint_cost = self._states.joint_cost
        for group, was in enumerate(is_complete):
            is_complete[group] = was or self._complete(group)
        joined = 0
        for place, row in enumerate(order):
            group = of[row]
            if is_complete[group]:
                continue
            best, chosen = most, -1
            size, mine = sizes[group], state[group]
            old = size * costs[mine]
            for mate in order[max(0, place - window) : place + window + 1]:
                other = of[mate]
                if other in (group, chosen):
                    continue
                more, theirs = sizes[other], state[other]
                added = (size + more) * joint_cost(mine, theirs) - old - more * costs[theirs]
                added /= size if is_complete[other] else size + more
                if added <= best:
                    best, chosen = added, other
            if chosen >= 0:
                if sizes[chosen] < sizes[group]:
                    group, chosen = chosen, group
                for moved in list(self._members(group)):
                    self._put_in(moved, chosen)
                self._first[group], sizes[group], state[group] = -1, 0, EMPTY
                is_complete[chosen] = self._complete(chosen)
                joined += 1
        return joined

    def _improve(self, order: list[int], window: int, allowed: float) -> None:
        of, sizes, state, first, after = self._of, self._size, self._state, self._first, self._after
        states, complete, without, large = self._states, self._complete, self._without, LARGE * self._k
        costs, profile_of, known, costs_with = states.cost, states.profile_of, states.known_costs, states.costs_with
        for place, row in enumerate(order):
            group = of[row]
            size = sizes[group]
            if size > large or not states.is_generalized[state[group]]:
                continue
            spare = size > self._k and (not self._is_checked or complete(group, row))
            own, rest_state = profile_of[row], without(row)
            rest = costs[rest_state]
            old = size * costs[state[group]]
            left_by_move, left_by_exchange = (size - 1) * rest - old, size * rest - old
            alone = states.single[own]
            pair_costs = known[alone] or costs_with(alone)
            best, chosen, partner, last = allowed - LEAST, -1, -1, group
            for mate in order[max(0, place - window) : place + window + 1]:
                other = of[mate]
                if other in (group, last):
                    continue
                last, more, theirs = other, sizes[other], state[other]
                before = more * costs[theirs]
                if spare:
                    left = left_by_move - before
                    if left + (more + 1) * costs[theirs] < best:  # a group costs no less with the row
                        change = left + (more + 1) * (known[theirs] or costs_with(theirs))[own]
                        if change < best and (not self._is_checked or complete(other, -1, row)):
                            best, chosen, partner = change, other, -1
                if more > large:
                    continue
                change = left_by_exchange - before
                if more > 1:
                    one = first[other]
                    if one == mate:
                        one = after[one]
                    if pair_costs[profile_of[one]] >= (best - change) / more:
                        continue
                theirs = without(mate)
                change += more * (known[theirs] or costs_with(theirs))[own]
                if change < best:
                    change += size * ((known[rest_state] or costs_with(rest_state))[profile_of[mate]] - rest)
                    if change < best and (
                        not self._is_checked or (complete(other, mate, row) and complete(group, row, mate))
                    ):
                        best, chosen, partner = change, other, mate
            if chosen >= 0:
                self._take_out(row)
                if partner >= 0:
                    self._take_out(partner)
                    self._put_in(partner, group)
                self._put_in(row, chosen)

    def _cheapest(self, near: Sequence[int], row: int, most: float) -> tuple[int, float]:
        """Return the group of rows nearby that a row can join at the least cost below ``most``, −1 for none."""
        of, sizes, state, costs = self._of, self._size, self._state, self._states.cost
        known, costs_with = self._states.known_costs, self._states.costs_with
        group, own = of[row], self._states.profile_of[row]
        last, best, chosen = group, most, -1
        for mate in near:
            other = of[mate]
            if other in (group, last):
                continue
            last, theirs = other, state[other]
            cost = costs[theirs]
            if cost >= best:  # a group costs no less with the row
                continue
            more = sizes[other]
            change = (more + 1) * (known[theirs] or costs_with(theirs))[own] - more * cost
            if change < best and (not self._is_checked or self._complete(other, -1, row)):
                best, chosen = change, other
        return chosen, best

    def _refill(self, order: list[int], window: int, allowed: float) -> None:
        of, sizes, state, costs = self._of, self._size, self._state, self._states.cost
        profile_of, is_generalized = self._states.profile_of, self._states.is_generalized
        large, least = LARGE * self._k, allowed - LEAST
        for place, row in enumerate(order):
            group = of[row]
            size = sizes[group]
            if size != self._k or not is_generalized[state[group]]:
                continue
            near = order[max(0, place - window) : place + window + 1]
            target, moved = self._cheapest(near, row, np.inf)
            moved -= size * costs[state[group]]
            if target < 0 or moved + size * costs[self._without(row)] >= least:
                continue
            best, spare = least, -1
            one = self._first[group]
            one = self._after[one] if one == row else one
            pair_costs = self._states.costs_with(self._states.single[profile_of[one]])
            rest_costs = self._states.costs_with(self._without(row))
            for mate in near:
                other = of[mate]
                more, theirs = sizes[other], state[other]
                if other in (group, target) or more <= self._k or (more > large and is_generalized[theirs]):
                    continue
                if pair_costs[profile_of[mate]] >= (best - moved) / size:
                    continue  # no group of these two costs less
                change = moved + size * rest_costs[profile_of[mate]]
                if change < best:
                    left = costs[self._without(mate)] if is_generalized[theirs] else costs[theirs]
                    change += (more - 1) * left - more * costs[theirs]
                    if change < best and (
                        not self._is_checked or (self._complete(group, row, mate) and self._complete(other, mate))
                    ):
                        best, spare = change, mate
            if spare >= 0:
                self._take_out(row)
                self._take_out(spare)
                self._put_in(spare, group)
                self._put_in(row, target)

    def _dissolve(self, order: list[int], window: int) -> None:
        place_of = dict(zip(order, range(len(order)), strict=True))
        for row in order:
            group = self._of[row]
            size, state = self._size[group], self._state[group]
            if not self._states.is_generalized[state] or size > 4 * self._k or self._first[group] != row:
                continue
            members = list(self._members(group))
            limit, added, moved = size * self._states.cost[state] - LEAST, 0.0, 0
            for member in members:
                place = place_of[member]
                near = order[max(0, place - window) : place + window + 1]
                chosen, cost = self._cheapest(near, member, limit - added)
                if chosen < 0:
                    break
                self._take_out(member)
                self._put_in(member, chosen)
                added += cost
                moved += 1
            if moved < size:
                for member in members[:moved]:
                    self._take_out(member)
                    self._put_in(member, group)

    def _split_large(self) -> None:
        empty = [group for group, size in enumerate(self._size) if size == 0]
        for group in range(len(self._size)):
            size, state = self._size[group], self._state[group]
            if size < 2 * self._k or not self._states.is_generalized[state] or not empty:
                continue
            rows = list(self._members(group))
            members = self._sorted_by_side(rows)
            old, most = size * self._states.cost[state], size - self._k
            joined, rest = [EMPTY], [EMPTY]
            for member, last in zip(members, reversed(members), strict=True):
                joined.append(self._after_joining(joined[-1], member))
                rest.append(self._after_joining(rest[-1], last))
            best, at = old - LEAST, 0
            for moved in range(self._k, most + 1):
                cost = moved * self._states.cost[joined[moved]] + (size - moved) * self._states.cost[rest[size - moved]]
                if cost < best and self._may_stand(members[:moved]) and self._may_stand(members[moved:]):
                    best, at = cost, moved
            stay = set(members[most:])
            self._set(group, [*members[at:most][::-1], *(row for row in rows if row in stay)], rest[size - at])
            if at:
                self._set(empty.pop(0), members[:at][::-1], joined[at])

    def _sorted_by_side(self, rows: list[int]) -> list[int]:
        """Sort the rows of a group, from those like one row that is far from others to those like another one."""
        costs_with, single, profile_of = self._states.costs_with, self._states.single, self._states.profile_of
        one = _farthest(rows, costs_with(single[profile_of[rows[0]]]), profile_of)
        near_one = costs_with(single[profile_of[one]])
        near_two = costs_with(single[profile_of[_farthest(rows, near_one, profile_of)]])
        lean = [near_two[profile_of[row]] - near_one[profile_of[row]] for row in rows]
        if len(rows) <= STABLE:
            return [row for _, row in sorted(zip(lean, rows, strict=True), key=lambda both: both[0])]
        members = np.array(rows)
        sort.plain(np.array(lean), members)
        return list(members.tolist())

    def _set(self, group: int, rows: Sequence[int], state: int) -> None:
        """Let a group consist of these rows, in this order."""
        self._first[group], self._size[group], self._state[group] = rows[0], len(rows), state
        self._changes[group] += 1
        for before, row, after in zip([-1, *rows[:-1]], rows, [*rows[1:], -1], strict=True):
            self._of[row], self._before[row], self._after[row], self._seen[row] = group, before, after, -1


def _distinct_only(model: Sequence[float]) -> float:
    """Return the number of different values that a sensitive column must have in a group, if that is all; 0 if not."""
    least, kind, _, t, *_ = model
    return least if kind == 0.0 and t >= 1.0 else 0.0


def _farthest(rows: Sequence[int], costs: Sequence[float], profile_of: Sequence[int]) -> int:
    """Return the first row that is farthest, by the cost of its profile."""
    return max(rows, key=lambda row: costs[profile_of[row]])
