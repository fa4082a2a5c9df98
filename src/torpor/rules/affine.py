"""The one analysis of what a position, an index or a bound is made of: a sum of terms with integer
coefficients, and so how it moves with each loop. It is made once for each node, and kept there.

An INDEX has one position, not one index for each axis of a tensor: written in the canonical form of
sums (`linear.py`), it says by its coefficients all that the indices would. Of 2,018 accesses of 45
benchmarks, 1,979 are sums of loops in this form; with an index for each axis 1,960 would be, since
a reshape's quotients and remainders that stand in several indices often cancel in the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.rules.common import checks_below

Terms = dict[UOp, int]
Strides = dict[UOp, int | None]
_NONE: frozenset[UOp] = frozenset()


class Affine:
    """constant + sum of coefficient * term. Terms are what is no sum, difference, or multiple."""

    def __init__(self, root: UOp):
        self.terms, self.constant = summed(root)

    @cached_property
    def strides(self) -> Strides:
        """By how much each round of a loop moves the value; None where not always by the same."""
        found: Strides = {}
        for term, scale in self.terms.items():
            if term.op is Ops.RANGE:
                found.setdefault(term, scale)
            else:
                found.update(dict.fromkeys(free_ranges(term)))
        return found


def affine(root: UOp) -> Affine:
    """What a node is made of."""
    try:
        return root._affine  # type: ignore[no-any-return]
    except AttributeError:
        found = Affine(root)
    if root not in found.terms:  # what is a term itself would keep itself alive
        root._affine = found
    return found


def strides_of(position: UOp) -> Strides:
    """Elements by which a position moves with each loop it depends on; None where not evenly."""
    return affine(position).strides


def summed(root: UOp) -> tuple[Terms, int]:
    """The terms of a sum by coefficient, in order of appearance, and its constant. What has one
    value alone is a term nevertheless where it is checked whether it has.
    """
    terms: Terms = {}
    constant = 0
    stack = [(root, 1)]
    while stack:
        node, scale = stack.pop()
        op = node.op
        if op is Ops.ADD:
            stack.append((node.src[1], scale))
            stack.append((node.src[0], scale))
        elif op is Ops.CONST:
            constant += scale * node.arg
        elif op is Ops.MUL and node.src[1].op is Ops.CONST:
            stack.append((node.src[0], scale * node.src[1].arg))
        elif op is Ops.MUL and node.src[0].op is Ops.CONST:
            stack.append((node.src[1], scale * node.src[0].arg))
        elif op is Ops.SHL and node.src[1].op is Ops.CONST:
            stack.append((node.src[0], scale << node.src[1].arg))
        elif op is Ops.SUB:
            stack.append((node.src[1], -scale))
            stack.append((node.src[0], scale))
        elif node.vmin == node.vmax and not checks_below(node):
            constant += scale * node.vmin
        else:
            terms[node] = terms.get(node, 0) + scale
    if 0 in terms.values():
        terms = {term: scale for term, scale in terms.items() if scale}
    return terms, constant


def without_constant(position: UOp) -> tuple[UOp, int]:
    """What varies of a position, and its constant, which stands last."""
    if position.op is Ops.ADD and position.src[1].op is Ops.CONST:
        rest, more = without_constant(position.src[0])
        return rest, more + int(position.src[1].arg)
    if position.op is Ops.CONST:
        return position.const_like(0), int(position.arg)
    return position, 0


def number_of(one: UOp) -> int:
    """The axis number of a RANGE."""
    return int(one.arg[0])


def size_of(one: UOp) -> int | None:
    """The number of iterations, None where it is symbolic."""
    bound = one.src[0]
    if bound.op is not Ops.CONST:
        bound = bound.simplify()
    size: int | None = bound.arg if bound.op is Ops.CONST else None
    return size


def iterations(ranges: Sequence[UOp]) -> int:
    """How often the body of these loops runs, at most."""
    return math.prod(max(int(r.src[0].vmax), 1) for r in ranges)


def closed_by(node: UOp) -> tuple[UOp, ...]:
    """The ranges that a REDUCE or STORE runs over: its last operands."""
    if node.op is not Ops.REDUCE and node.op is not Ops.STORE:
        return ()
    source = node.src
    first = len(source)
    while first and source[first - 1].op is Ops.RANGE:
        first -= 1
    return source[first:]


def free_ranges(value: UOp) -> frozenset[UOp]:
    """The loops that a value depends on: those below it, unless a reduction runs over them."""
    if not hasattr(value, "_free"):
        note_free(value.toposort(_lacks_free))
    return value._free | {value} if value.op is Ops.RANGE else value._free


def note_free(nodes: Iterable[UOp]) -> None:
    """Keep with each of these nodes, operands first, the loops that its operands depend on and that
    it does not close: of a loop not itself, which would keep itself alive.
    """
    for node in nodes:
        if hasattr(node, "_free"):
            continue
        found = _NONE
        for source in node.src:
            below = source._free | {source} if source.op is Ops.RANGE else source._free
            if below is not found and not below <= found:
                found = found | below if found else below
        closed = closed_by(node)
        node._free = found.difference(closed) if closed else found


def _lacks_free(node: UOp) -> bool:
    return not hasattr(node, "_free")


def is_dense(strides: Strides, size: int | None) -> bool:
    """Whether loops with these strides reach every number below `size` once, as digits do."""
    expected = 1
    for one, stride in sorted(strides.items(), key=_by_stride):
        bound = one.src[0].simplify()
        if bound.op is not Ops.CONST or (stride != expected and bound.arg != 1):
            return False
        expected *= bound.arg
    return expected == size


def _by_stride(pair: tuple[UOp, int | None]) -> int:
    return -1 if pair[1] is None else pair[1]


def strides_read(value: UOp, one: UOp) -> set[int | None]:
    """The strides along a loop of all that a value is computed from in memory."""
    loads = [n for n in value.toposort() if n.op is Ops.LOAD]
    return {strides_of(load.src[0].src[1]).get(one, 0) for load in loads}
