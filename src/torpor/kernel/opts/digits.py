"""Axes cut where positions divide them: blocks, and places within blocks, get loops.

before  sum(k, x[k] * scale[k // 32])             max(k, x[row(k // 48), k % 48])
after   sum(b, i, x[b*32 + i] * scale[b])         max(r, i, x[row(r), i])
"""

from __future__ import annotations

import itertools
from typing import Final

from torpor.base.target import LINE, WORD
from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.opts.split import padded
from torpor.kernel.ranges import Changes, closed_by, kind_of, number_of, replace_ranges, size_of

MOST: Final = 4  # digits of an axis: more loops than that are no blocks
WHOLE_BLOCKS: Final = 8  # from which the last one is computed as a whole: an eighth more at most
ROW: Final = LINE // WORD  # places of a row from which it gets a loop: a line of memory of floats


def cut_axes(ast: UOp) -> UOp:
    """The same kernel with axes cut into the digits that their positions take apart: those that a
    product is summed over, those of which a factor of one knows only the block (so groups of
    channels share what they read of a convolution's results), and others with long enough rows,
    but for those whose steps go on from each other. Their numbers leave room: they are not yet
    renumbered.
    """
    sums = [n for n in ast.toposort() if n.op is Ops.REDUCE and n.src[0].op is Ops.MUL]
    summed = {one for n in sums for one in closed_by(n) if is_contracted(n.src[0], one)}
    factors = [factor for n in sums for factor in n.src[0].src]
    whole = {one for n in ast.toposort() if n.op is Ops.SCAN for one in closed_by(n)}
    whole |= {one for one in ast.ranges() if kind_of(one) is AxisType.SERIAL}
    found: dict[UOp, tuple[int, ...]] = {}
    for one in ast.ranges():
        units = units_of(ast, one) if one not in whole else ()
        shared = one in summed or any(is_by_blocks(factor, one) for factor in factors)
        if units and (shared or units[0] >= ROW):
            found[one] = units
    if not found:
        return ast
    changes: Changes = {}
    for one in ast.ranges():
        made = digits_of(one, found.get(one, ()))
        position: UOp = made[-1]
        unit = 1
        for digit, below in zip(made[-2::-1], made[:0:-1], strict=True):
            unit *= size_of(below) or 1
            position = digit * unit + position
        changes[one] = position, made
    return replace_ranges(ast, changes).simplify()


def evened(ast: UOp) -> UOp:
    """The same kernel, if nothing is summed, with axes made as long as whole blocks are where
    positions take long ones apart and the last one is a part: all are then read in order.
    """
    if any(n.op in (Ops.REDUCE, Ops.SCAN) for n in ast.toposort()):
        return ast
    for one in (r for r in ast.ranges() if kind_of(r) is AxisType.GLOBAL):
        units, size = blocks_of(ast, one), size_of(one) or 0
        most = max(units, default=1)
        if min(units, default=0) >= ROW and size % most and size >= WHOLE_BLOCKS * most:
            ast = padded(ast, one, most, 0)  # no axis more, where the length is known
    return ast


def is_contracted(product: UOp, one: UOp) -> bool:
    """Whether both factors of a product move along an axis, and not along all of the same ones: the
    squares that a norm adds up are no product of matrices.
    """
    left, right = ({*factor.ranges()} for factor in product.src)
    return left != right and one in left & right


def is_by_blocks(value: UOp, one: UOp) -> bool:
    """Whether a value depends on an axis, and only on what block of it there is."""
    users = [n for n in value.toposort() if one in n.src]
    return bool(users) and all(n.op is Ops.IDIV and divisors(n, one) for n in users)


def digits_of(one: UOp, units: tuple[int, ...]) -> tuple[UOp, ...]:
    """Ranges for the digits of an axis, outermost first; only itself without units."""
    size = size_of(one)
    first = number_of(one) * (MOST + 1)
    if size is None or not units:
        return (UOp.range(one.src[0], first, kind_of(one)),)
    bounds = (1, *units, size)
    sizes = [high // low for low, high in itertools.pairwise(bounds)]
    return tuple(UOp.range(n, first + place, kind_of(one)) for place, n in enumerate(sizes[::-1]))


def units_of(ast: UOp, one: UOp) -> tuple[int, ...]:
    """What positions divide the axis by, smallest first; none unless each divides the next."""
    size, units = size_of(one), blocks_of(ast, one)
    return units if units and size is not None and size % units[-1] == 0 else ()


def blocks_of(ast: UOp, one: UOp) -> tuple[int, ...]:
    """The same where the last of the largest blocks need not be whole."""
    size = size_of(one)
    if size is None:
        return ()
    units = sorted({n for node in ast.toposort() for n in divisors(node, one) if n < size})
    even = all(high % low == 0 for low, high in itertools.pairwise(units))
    return tuple(units) if even and len(units) < MOST else ()


def divisors(node: UOp, one: UOp) -> tuple[int, ...]:
    """The numbers by which r // c, r % c and (r // c) % d take an axis r apart."""
    if node.op not in (Ops.IDIV, Ops.MOD) or node.src[1].op is not Ops.CONST:
        return ()
    inner, by = node.src[0], int(node.src[1].arg)
    if inner is one:
        return (by,)
    if inner.op is Ops.IDIV and inner.src[0] is one and inner.src[1].op is Ops.CONST:
        return (int(inner.src[1].arg) * by,)
    return ()
