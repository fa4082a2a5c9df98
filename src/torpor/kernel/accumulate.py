"""TILE of a reduce axis: partial results in memory, so that other loops run inside the blocks."""

from __future__ import annotations

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops, identity
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.ranges import (
    closed_by,
    find_loops,
    kind_of,
    nesting,
    replace_ranges,
    size_of,
)
from torpor.kernel.stage import place


def accumulated(root: UOp, one: UOp) -> UOp | None:
    """The only reduction over the axis `one`, if it stands in no other and in no packed tile."""
    loops = find_loops(root)
    found = [n for n in loops.order if n.op is Ops.REDUCE and one in closed_by(n)]
    if len(found) != 1 or any(kind_of(r) is not AxisType.GLOBAL for r in inside(root, found[0])):
        return None
    return found[0]


def inside(root: UOp, reduction: UOp) -> tuple[UOp, ...]:
    """The output axes that a reduction runs in, those for threads aside, outermost first."""
    found = find_loops(root).nest(reduction)
    return tuple(r for r in found if kind_of(r) is not AxisType.THREAD)


def accumulate(root: UOp, reduction: UOp, one: UOp, amount: int, number: int, fresh: int) -> UOp:
    """The kernel with the reduction done by blocks of `amount` rounds of the axis `one`: for each
    block, all of its results grow in packed memory `number`. New loops are numbered from `fresh`.
    """
    outputs = inside(root, reduction)
    size = size_of(one) or 1
    block = UOp.range(size // amount, fresh, AxisType.LOOP)
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
    total = 1
    for copy in copies:
        total *= size_of(copy) or 1
    memory = UOp(Ops.DEFINE_LOCAL, reduction.dtype, (), ParamArg(number, total))
    here = place(memory, copies)
    neutral = UOp.const(reduction.dtype, identity(reduction.arg, reduction.dtype))
    so_far = UOp(Ops.LOAD, reduction.dtype, (here, block))  # read anew for each block
    grown = block.eq(0).where(neutral, so_far).alu(reduction.arg, partial)
    grow = UOp(Ops.STORE, dtypes.void, (here, grown, block, *copies))
    done = UOp(Ops.BARRIER, dtypes.void, (grow,))
    result = UOp(Ops.LOAD, reduction.dtype, (place(memory, outputs), done))
    return root.substitute({reduction: result})
