"""TILE of a reduce axis: partial results in memory, so that other loops run inside the blocks."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops, identity
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.access import place
from torpor.kernel.ranges import closed_by, find_loops, kind_of, nesting, replace_ranges, size_of


def accumulated(root: UOp, one: UOp) -> UOp | None:
    """The only reduction over the axis `one`, if it stands in no packed tile and in no loops but
    those of output axes, or of the memory that it grows in already.
    """
    loops = find_loops(root)
    found = [n for n in loops.order if n.op is Ops.REDUCE and one in closed_by(n)]
    if len(found) != 1:
        return None
    grow = growing(root, found[0])
    around = set(inside(root, found[0])) - set(closed_by(grow) if grow else ())
    return found[0] if all(kind_of(r) is AxisType.GLOBAL for r in around) else None


def inside(root: UOp, reduction: UOp) -> tuple[UOp, ...]:
    """The output axes that a reduction runs in, those for threads aside, outermost first."""
    found = find_loops(root).nest(reduction)
    return tuple(r for r in found if kind_of(r) is not AxisType.THREAD)


def growing(root: UOp, reduction: UOp) -> UOp | None:
    """The STORE by which packed memory already grows by this reduction: blocks of another of its
    axes. An output that grows from one kernel to the next is none: what it held comes first.
    """
    for node in root.toposort():
        if node.op is not Ops.STORE or node.src[0].src[0].op is not Ops.DEFINE_LOCAL:
            continue
        if node.src[1].op is reduction.arg:
            if reduction in node.src[1].src and held(node) is not None:
                return node
    return None


def held(grow: UOp) -> UOp | None:
    """What a STORE that grows adds to: the memory that it stores to, or the identity at first."""
    for value in grow.src[1].src:
        if value.op is Ops.WHERE and value.src[2].op is Ops.LOAD:
            if value.src[2].src[0] is grow.src[0]:
                return value
    return None


def accumulate(root: UOp, reduction: UOp, one: UOp, amount: int, number: int, fresh: int) -> UOp:
    """The kernel with the reduction done by blocks of `amount` rounds of the axis `one`: for each
    block, all of its results grow in packed memory `number`, or in the memory where they grow by
    blocks of other axes already. New loops are numbered from `fresh`.
    """
    grow = growing(root, reduction)
    if grow is not None:
        outputs = tuple(r for r in closed_by(grow) if r in grow.src[0].toposort())
        blocks = tuple(r for r in closed_by(grow) if r not in outputs)
    else:
        outputs, blocks = inside(root, reduction), ()
    block = UOp.range((size_of(one) or 1) // amount, fresh, AxisType.LOOP)
    copies = [
        UOp.range(size_of(r) or 1, fresh + 1 + n, AxisType.LOOP) for n, r in enumerate(outputs)
    ]
    changes: dict[UOp, tuple[UOp, tuple[UOp, ...]]] = {
        old: (new, (new,)) for old, new in zip(outputs, copies, strict=True)
    }
    count = fresh + 1 + len(copies)
    for old in sorted(closed_by(reduction), key=nesting):
        new = UOp.range(amount if old is one else size_of(old) or 1, count, kind_of(old))
        changes[old] = (block * amount + new if old is one else new), (new,)
        count += 1
    partial = replace_ranges(reduction, changes).simplify()
    memory = grow.src[0].src[0] if grow else memory_for(reduction, copies, number)
    made = grow_by(partial, memory, copies, (*blocks, block))
    if grow is not None:
        return root.substitute({grow: made})
    done = UOp(Ops.BARRIER, dtypes.void, (made,))
    result = UOp(Ops.LOAD, reduction.dtype, (place(memory, outputs), done))
    return root.substitute({reduction: result})


def memory_for(reduction: UOp, copies: Sequence[UOp], number: int) -> UOp:
    """Packed memory with a place for each of the reduction's results."""
    total = math.prod(size_of(copy) or 1 for copy in copies)
    return UOp(Ops.DEFINE_LOCAL, reduction.dtype, (), ParamArg(number, total))


def grow_by(partial: UOp, memory: UOp, copies: Sequence[UOp], blocks: Sequence[UOp]) -> UOp:
    """The STORE of what the memory held (in the first block the identity) and a partial result."""
    here = place(memory, tuple(copies))
    neutral = UOp.const(partial.dtype, identity(partial.arg, partial.dtype))
    so_far = UOp(Ops.LOAD, partial.dtype, (here, *blocks))  # read anew for each block
    first = functools.reduce(operator.and_, (block.eq(0) for block in blocks))
    grown = first.where(neutral, so_far).alu(partial.arg, partial)
    return UOp(Ops.STORE, dtypes.void, (here, grown, *blocks, *copies))
