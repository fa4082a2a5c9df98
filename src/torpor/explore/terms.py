"""Indices and conditions as sums over coordinates: ranges, and digits of sums of ranges."""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import pairwise
from typing import NamedTuple

from torpor.explore.trace import Trace

Coordinate = Hashable  # a range's number; (sum, cut) for a digit; (sum, 0) for the sum itself
Linear = dict[Coordinate, int]  # by coordinate the factor; under -1 what is added
Sum = tuple[tuple[Coordinate, int], ...]  # a Linear over ranges


class Slice(NamedTuple):
    """`sum // low % (high // low)`; without `high`, all digits from `low` on."""

    sum: Sum
    low: int
    high: int | None


class Terms:
    """The coordinates that an index and its conditions need.

    sizes:  of each coordinate, the ranges first.
    limits: of each, (low, high), half-open.
    parts:  the coordinates at which something is to be added to a flat position: of digits, whose
            sizes are those of one number's digits, the last.
    sums:   those that are no ranges.
    """

    def __init__(self, trace: Trace, ranges: dict[int, int]):
        self.trace, self.ranges = trace, ranges
        self.sizes: dict[Coordinate, int] = {}
        self.sizes.update(ranges.items())
        self.limits = {one: (0, size) for one, size in self.sizes.items()}
        self.parts: dict[Coordinate, Linear] = {one: {one: 1} for one in ranges}
        self.sums: dict[Sum, int] = {}  # with what is added so that they are not negative
        self._cuts: dict[Sum, list[int]] = {}

    def prepare(self, roots: list[int]) -> bool:
        """Find the digits that these need; whether there are such."""
        cuts: dict[Sum, set[int]] = {}
        for number in self.trace.below(roots):
            if self.trace.nodes[number].op in ("IDIV", "MOD"):
                found = self.slice(number)
                if found is None:
                    return False
                cuts.setdefault(found.sum, set()).update({found.low, found.high or 1} - {1})
        for sum_, some in cuts.items():
            chain = sorted(some)
            if any(after % before for before, after in pairwise(chain)):
                return False
            self._add_digits(sum_, chain)
        return True

    def _add_digits(self, sum_: Sum, cuts: list[int]) -> None:
        low, high = self.bounds(dict(sum_))
        shift = self.sums[sum_] = -(low // cuts[-1]) * cuts[-1]
        self._cuts[sum_] = [1, *cuts]
        above = (high + shift) // cuts[-1] + 1
        for cut, upper in zip(reversed(self._cuts[sum_]), [None, *reversed(cuts)], strict=True):
            self._add((sum_, cut), above if upper is None else upper // cut)
        self.parts[sum_, 1] = self._shifted(sum_, shift)

    def _shifted(self, sum_: Sum, shift: int) -> Linear:
        return {**dict(sum_), -1: dict(sum_).get(-1, 0) + shift}

    def _add(self, one: Coordinate, size: int) -> None:
        self.sizes[one], self.limits[one] = size, (0, size)

    def bounds(self, sum_: Linear) -> tuple[int, int]:
        """The least and the greatest value of a sum of ranges."""
        ends = [(0, factor * (self.sizes[one] - 1)) for one, factor in sum_.items() if one != -1]
        added = sum_.get(-1, 0)
        return added + sum(map(min, ends)), added + sum(map(max, ends))

    def slice(self, number: int) -> Slice | None:
        """A quotient or remainder as digits of a sum."""
        node = self.trace.nodes[number]
        by = self.trace.nodes[node.src[1]]
        if by.op != "CONST" or int(by.arg) < 1:
            return None
        if self.trace.nodes[node.src[0]].op in ("IDIV", "MOD"):
            inner = self.slice(node.src[0])
        else:
            plain = self.of(node.src[0])
            known = plain is not None and all(one == -1 or one in self.ranges for one in plain)
            inner = Slice(tuple(sorted(plain.items())), 1, None) if known and plain else None
        if inner is None:
            return None
        if node.op == "IDIV":
            return inner._replace(low=inner.low * int(by.arg))
        high = inner.low * int(by.arg)
        if inner.high is not None and inner.high % high:
            return None
        return inner._replace(high=high)

    def of(self, number: int) -> Linear | None:
        """A node as a sum over coordinates; None where it is none."""
        node = self.trace.nodes[number]
        if node.op == "CONST":
            return {-1: int(node.arg)}
        if node.op == "RANGE":
            return {number: 1} if number in self.ranges else None
        if node.op in ("IDIV", "MOD"):
            return self._digits(self.slice(number))
        if node.op not in ("ADD", "MUL"):
            return None
        one, other = (self.of(s) for s in node.src)
        if one is None or other is None:
            return None
        if node.op == "ADD":
            return {n: one.get(n, 0) + other.get(n, 0) for n in one | other}
        if set(one) != {-1}:
            one, other = other, one
        return {n: one[-1] * factor for n, factor in other.items()} if set(one) == {-1} else None

    def _digits(self, found: Slice | None) -> Linear | None:
        if found is None or found.sum not in self._cuts:
            return None
        low, high = found.low, found.high or math.inf
        cuts = [cut for cut in self._cuts[found.sum] if low <= cut < high]
        less = self.sums[found.sum] // low if found.high is None else 0
        return {**{(found.sum, cut): cut // low for cut in cuts}, -1: -less}

    def limit(self, number: int, holds: bool = True) -> bool:
        """Whether a condition only limits coordinates; then `limits` are made narrower."""
        node = self.trace.nodes[number]
        if node.op == "CONST":
            return (node.arg == "True") is holds
        if node.op == "AND" and holds:
            return all(self.limit(s) for s in node.src)
        if node.op == "CMPNE" and self.trace.nodes[node.src[1]].arg == "True":
            return self.limit(node.src[0], not holds)
        sides = [self.of(s) for s in node.src] if node.op == "CMPLT" else []
        if len(sides) != 2 or sides[0] is None or sides[1] is None:
            return False
        left, right = sides if holds else reversed(sides)  # not a < b: b < a + 1
        assert left is not None and right is not None
        less = {n: left.get(n, 0) - right.get(n, 0) for n in left | right}
        added = less.pop(-1, 0) - (not holds)
        factors = {n: factor for n, factor in less.items() if factor}
        if not factors:
            return added < 0
        if len(factors) > 1:
            if not all(one in self.ranges for one in factors):
                return False
            sum_ = tuple(sorted(factors.items()))
            if (sum_, 0) not in self.sizes:
                low, high = self.bounds(factors)
                self.sums[sum_] = -low
                self._add((sum_, 0), high - low + 1)
                self.parts[sum_, 0] = self._shifted(sum_, -low)
            factors, added = {(sum_, 0): 1}, added - self.sums[sum_]
        return self._narrow(*next(iter(factors.items())), added)

    def _narrow(self, one: Coordinate, factor: int, added: int) -> bool:
        """`factor * one + added < 0`."""
        low, high = self.limits[one]
        if factor > 0:
            high = min(high, max(-(added // factor), low))
        else:
            low = max(low, min(added // -factor + 1, high))
        self.limits[one] = (low, high)
        return True
