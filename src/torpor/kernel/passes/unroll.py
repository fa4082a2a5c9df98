"""Writing axes out: UPCAST and UNROLL axes become copies of what depends on them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence, Set
from typing import Final

from torpor.base import settings
from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.kernel.cost import SUMS
from torpor.kernel.passes.factors import factored, term_of
from torpor.kernel.ranges import closed_by, find_loops, size_of
from torpor.rules.affine import affine, strides_of, without_constant
from torpor.rules.decided import is_never
from torpor.rules.linear import term_by_term

Values = tuple[int, ...]
CHAIN: Final = 8  # most products that are added one after the other: each waits for the one before


class _Unroller:
    """Copies of each node, by the values of the written-out ranges that it depends on."""

    def __init__(self, root: UOp, ranges: Sequence[UOp]):
        self.loops = find_loops(root)
        self.ranges = list(ranges)
        self.wanted = frozenset(ranges)
        self.sizes = {r: size_of(r) or 1 for r in ranges}
        self.depends: dict[UOp, tuple[UOp, ...]] = {}
        self.copies: dict[UOp, dict[Values, UOp]] = {}
        self.parts: dict[UOp, tuple[UOp, dict[UOp, int]] | None] = {}

    def run(self, root: UOp) -> UOp:
        for node in self.loops.order:
            if node is root:
                continue
            free = self.loops.free[node]
            here = tuple(r for r in self.ranges if r in free)
            if node.op is Ops.STORE:
                here = tuple(r for r in self.ranges if r in free or r in closed_by(node))
            self.depends[node] = here
            self.copies[node] = {
                values: self.make(node, dict(zip(here, values, strict=True)))
                for values in itertools.product(*(range(self.sizes[r]) for r in here))
            }
        stores = [copy for s in root.src for copy in self.copies[s].values()]
        return UOp.sink(*stores)

    def at(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """The copy of `node` for these values of the ranges."""
        return self.copies[node][tuple(values[r] for r in self.depends[node])]

    def copies_at(self, effect: UOp, values: dict[UOp, int]) -> list[UOp]:
        """All copies that agree with these values, of a store over axes of its own."""
        depends = self.depends[effect]
        return [
            copy
            for point, copy in self.copies[effect].items()
            if all(values.get(r, n) == n for r, n in zip(depends, point, strict=True))
        ]

    def make(self, node: UOp, values: dict[UOp, int]) -> UOp:
        if node.op is Ops.RANGE and node in self.wanted:
            return UOp.const(dtypes.index, values[node])
        if node.op is Ops.REDUCE:
            return self.reduce(node, values)
        if node.op is Ops.STORE:
            kept = [self.at(r, values) for r in closed_by(node) if r not in self.wanted]
            return node.replace(src=(*(self.at(s, values) for s in node.src[:2]), *kept))
        if node.op is Ops.INDEX and values:
            return self.index(node, values)
        if node.op is Ops.BARRIER:
            copies = tuple(c for s in node.src for c in self.copies_at(s, values))
            return node.replace(src=copies)
        source = tuple(self.at(s, values) for s in node.src)
        if source == node.src:
            return node
        if node.dtype is dtypes.bool and node.src[0].dtype is dtypes.index:
            return node.replace(src=source).simplify()  # once, and not in each AND with others
        if node.op is Ops.AND and node.dtype is dtypes.bool:
            return both(*source)
        return node.replace(src=source)

    def index(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """An access at these values: where the position is linear in them, base + constant."""
        rest = tuple(self.at(s, values) for s in node.src[2:])
        memory = self.at(node.src[0], values)
        if node.src[1] not in self.parts:
            self.parts[node.src[1]] = split_position(node.src[1], self.wanted)
        parts = self.parts[node.src[1]]
        if parts is None:
            position = self.at(node.src[1], values).simplify()
        else:
            base, factors = parts
            shift = sum(factor * values[one] for one, factor in factors.items())
            position = shifted(base, shift)
        return node.replace(src=(memory, position, *rest))

    def reduce(self, node: UOp, values: dict[UOp, int]) -> UOp:
        """A reduction over loops and written-out ranges: with enough independent sums each loop
        adds its copies one after the other, else every copy has a sum of its own.
        """
        closed = closed_by(node)
        written = [r for r in closed if r in self.wanted]
        kept = tuple(self.at(r, values) for r in closed if r not in self.wanted)
        copies = [
            self.at(node.src[0], {**values, **dict(zip(written, point, strict=True))})
            for point in itertools.product(*(range(self.sizes[r]) for r in written))
        ]
        copies = [copy for copy in copies if not vanishes(node, copy)] or copies[:1]
        if node.arg is Ops.ADD and self.scales_own(node):
            copies = factored(copies)
        outputs = 1
        for one in self.depends[node]:
            outputs *= self.sizes[one]
        if not kept:
            return combine(node.arg, in_chains(node.arg, copies, outputs))
        if len(copies) == 1 or outputs >= SUMS:
            return UOp(Ops.REDUCE, node.dtype, (*copies, *kept), node.arg)
        own = min(len(copies), SUMS // outputs)
        groups = [copies[start::own] for start in range(own)]
        sums = [UOp(Ops.REDUCE, node.dtype, (*group, *kept), node.arg) for group in groups]
        return combine(node.arg, sums)

    def scales_own(self, node: UOp) -> bool:
        """Whether no other copy of a sum needs the numbers that its codes and scales make."""
        term = term_of(node.src[0])
        return term is not None and set(self.depends[node]) <= set(self.depends[term.code])


def vanishes(reduction: UOp, copy: UOp) -> bool:
    """Whether a sum needs no such term: a product with padding, which is 0. A licence (off under
    STRICT_FLOAT): infinity times padding adds no NaN.
    """
    if reduction.arg is not Ops.ADD or copy.op is not Ops.MUL:
        return False
    return not (copy.dtype.is_float and settings.number("STRICT_FLOAT")) and any(
        s.op is Ops.LOAD and is_never(s) for s in copy.src
    )


def both(left: UOp, right: UOp) -> UOp:
    """Whether both of two conditions hold, simplified, as they are already."""
    for one, other in ((left, right), (right, left)):
        if one.op is Ops.CONST:
            return other if one.arg else one
    return (left & right).simplify()


def split_position(position: UOp, wanted: Set[UOp]) -> tuple[UOp, dict[UOp, int]] | None:
    """The part free of some ranges, and their factors; None if it is not linear in them, or what is
    loaded along them says where.
    """
    strides, found = strides_of(position), affine(position)
    factors = {one: strides[one] for one in wanted & strides.keys()}
    if None in factors.values():
        return None
    rest = {term: scale for term, scale in found.terms.items() if term not in factors}
    if any(one in wanted for term in rest for one in term.ranges()):
        return None
    return term_by_term(rest, found.constant), factors  # type: ignore[return-value]


def shifted(base: UOp, shift: int) -> UOp:
    """Base + shift, with the constant last and none where it is 0."""
    rest, constant = without_constant(base)
    if rest.op is Ops.CONST:
        return UOp.index_const(constant + shift)
    return rest + (constant + shift) if constant + shift else rest


def in_chains(op: Ops, values: Sequence[UOp], beside: int = 1) -> Sequence[UOp]:
    """Products to be added, each chain of them added one after the other: then one instruction
    multiplies and adds, which pairs of products would need for every second one only. With enough
    sums beside this one, all in one chain.
    """
    if op is not Ops.ADD or any(value.op not in (Ops.MUL, Ops.DOT) for value in values):
        return values
    chains = 1 if beside >= SUMS else -(-len(values) // CHAIN)
    return [functools.reduce(plus, values[start::chains]) for start in range(chains)]


def plus(total: UOp, value: UOp) -> UOp:
    """total + value; a DOT or MMA adds to the total itself, as its instruction does: a licence for
    floats, as for a product and a sum.
    """
    return value.replace(src=(*value.src, total)) if adds(value) else total + value


def adds(value: UOp) -> bool:
    """Whether the value is a product of words that may add to something."""
    return value.op in (Ops.DOT, Ops.MMA) and len(value.src) == 2


def combine(op: Ops, values: Sequence[UOp]) -> UOp:
    """The values combined pairwise, halves first: the tree depends on their number alone."""
    if len(values) == 1:
        return values[0]
    half = (len(values) + 1) // 2
    return combine(op, values[:half]).alu(op, combine(op, values[half:]))


def unroll(root: UOp, ranges: Sequence[UOp]) -> UOp:
    """The kernel with `ranges` (of fixed size) written out.

    Afterwards a REDUCE may have several values before its ranges: they are combined in order.
    """
    return _Unroller(root, ranges).run(root) if ranges else root
