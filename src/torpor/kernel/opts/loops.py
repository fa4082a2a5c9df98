"""Opts that split, reorder, lengthen and rename axes. Each changes the kernel or raises an
`OptError`.
"""

from __future__ import annotations

from typing import Final

from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.opts.normalise import drop_single, renumber
from torpor.kernel.opts.padding import mask_beyond
from torpor.kernel.opts.partition import partition
from torpor.kernel.opts.state import OUTPUTS, State
from torpor.kernel.ranges import (
    closed_by,
    find_loops,
    kind_of,
    number_of,
    replace_range,
    replace_ranges,
    size_of,
)

UNROLL_LIMIT: Final = 512  # copies of one axis past which code only grows
WHOLE: Final = (AxisType.GLOBAL, AxisType.LOOP, AxisType.REDUCE)  # axes that no opt has split


# --- copies written out ---------------------------------------------------------------------------
def upcast(kernel: State, opt: Opt) -> None:
    """Write out so many iterations of an output axis."""
    one = kernel.axis(opt, kernel.axes)
    amount = kernel.amount(opt, one)
    kernel.expect(opt, one, OUTPUTS)
    if amount > UNROLL_LIMIT:
        raise kernel.refused(opt, f"more than {UNROLL_LIMIT} copies")
    kernel.check_stages(opt, one)
    kernel.split(one, amount, AxisType.UPCAST)


def overlap(kernel: State, opt: Opt) -> None:
    """Write out tiles of an axis that they do not divide: they overlap, as evenly as they can,
    and compute some results twice.
    """
    one, amount = kernel.axis(opt, kernel.axes), opt.arg or 0
    size = size_of(one)
    if kind_of(one) not in OUTPUTS or size is None or not 0 < amount < size:
        raise kernel.refused(opt, "it needs an output axis of fixed size, longer than a tile")
    if amount > UNROLL_LIMIT or kernel.reads_stored():
        raise kernel.refused(opt, "there are too many copies, or it reads what it stores")
    if any(one in closed_by(store) for store in kernel.growing_stores()):
        raise kernel.refused(opt, "sums would grow twice where tiles overlap")
    kernel.check_stages(opt, one)
    tiles = -(-size // amount)
    fresh = kernel.new_axis(amount, AxisType.UPCAST)
    outer = UOp.range(tiles, *one.arg)
    start = outer * (size - amount) // (tiles - 1)
    kernel.ast = replace_range(kernel.ast, one, start + fresh, [outer, fresh]).simplify()


def unroll(kernel: State, opt: Opt) -> None:
    """Write out so many iterations of a reduce axis."""
    one = kernel.axis(opt, kernel.reduce_axes)
    amount = kernel.amount(opt, one)
    if kind_of(one) is AxisType.UNROLL:
        raise kernel.refused(opt, "it is unrolled already")
    if amount > UNROLL_LIMIT:
        raise kernel.refused(opt, f"more than {UNROLL_LIMIT} copies")
    kernel.split(one, amount, AxisType.UNROLL)


# --- groups and threads ---------------------------------------------------------------------------
def local(kernel: State, opt: Opt) -> None:
    """Cut an output axis among the work items of a group."""
    one = kernel.axis(opt, kernel.axes)
    expect_groups(kernel, opt)
    kernel.expect(opt, one, (AxisType.GLOBAL,))
    amount = kernel.amount(opt, one)
    check_group(kernel, opt, amount)
    kernel.check_stages(opt, one)
    kernel.split(one, amount, AxisType.LOCAL)


def group(kernel: State, opt: Opt) -> None:
    """Cut a reduction among the work items of a group."""
    one = kernel.axis(opt, kernel.reduce_axes)
    expect_groups(kernel, opt)
    kernel.expect(opt, one, (AxisType.REDUCE,))
    if any(kind_of(r) is AxisType.LOOP for r in kernel.axes):
        raise kernel.refused(opt, "there are loops around the reduction")
    loops = find_loops(kernel.ast)
    reductions = [n for n in loops.order if n.op is Ops.REDUCE]
    if any(loops.free[n] & set(kernel.reduce_axes) for n in reductions):
        raise kernel.refused(opt, "the reduction is inside another")
    amount = kernel.amount(opt, one)
    check_group(kernel, opt, amount)
    kernel.split(one, amount, AxisType.GROUP, top=opt.op is OptOps.GROUPTOP)


def expect_groups(kernel: State, opt: Opt) -> None:
    """The target has groups, and they may be used."""
    if not kernel.target.groups:
        raise kernel.refused(opt, f"target {kernel.target.name} has no groups")
    if kernel.no_locals:
        raise kernel.refused(opt, "NOLOCALS was applied")


def check_group(kernel: State, opt: Opt, amount: int) -> None:
    """A group has room for so many times as many work items, along one more axis."""
    items = amount
    for one in kernel.axes:
        if kind_of(one) in (AxisType.LOCAL, AxisType.GROUP):
            items *= size_of(one) or 1
    if items > kernel.target.group_limit:
        raise kernel.refused(opt, f"a group has at most {kernel.target.group_limit} work items")
    count = sum(kind_of(r) in (AxisType.LOCAL, AxisType.GROUP) for r in kernel.axes)
    if count >= 3:
        raise kernel.refused(opt, "a group has at most three dimensions")


def without_locals(kernel: State, opt: Opt) -> None:
    """Have no groups."""
    if any(kind_of(r) in (AxisType.LOCAL, AxisType.GROUP) for r in kernel.axes):
        raise kernel.refused(opt, "there are local axes already")
    kernel.no_locals = True


def thread(kernel: State, opt: Opt) -> None:
    """Cut an output axis among native threads."""
    one = kernel.axis(opt, kernel.axes)
    if not kernel.target.threads:
        raise kernel.refused(opt, f"target {kernel.target.name} has no threads")
    kernel.expect(opt, one, (AxisType.GLOBAL,))
    if any(one not in closed_by(store) for store in kernel.facts().stores):
        raise kernel.refused(opt, "some output does not run over it")
    before = next((r for r in kernel.axes if kind_of(r) is AxisType.THREAD), None)
    if before is not None:
        thread_both(kernel, opt, before, one)
    elif opt.arg:
        kernel.split(one, kernel.amount(opt, one), AxisType.THREAD, top=True)
    else:
        threaded = one.replace(arg=(number_of(one), AxisType.THREAD))
        kernel.ast = replace_range(kernel.ast, one, threaded, [threaded])


def thread_both(kernel: State, opt: Opt, before: UOp, one: UOp) -> None:
    """A second axis cut among threads: the two become one axis of all their pairs."""
    size, outer = size_of(one), size_of(before)
    if opt.arg or size is None or outer is None:
        raise kernel.refused(opt, "only whole axes of fixed size join what threads share")
    both = UOp.range(outer * size, *before.arg)
    changes = {before: (both // size, (both,)), one: (both % size, ())}
    kernel.ast = replace_ranges(kernel.ast, changes).simplify()


# --- loops ----------------------------------------------------------------------------------------
def pad_to(kernel: State, opt: Opt) -> None:
    """Make an axis longer, to a multiple of so much."""
    one = kernel.axis(opt, kernel.axes)
    size = size_of(one)
    if size is None or opt.arg is None or opt.arg < 1:
        raise kernel.refused(opt, "it needs an axis of fixed size and an amount")
    kernel.expect(opt, one, WHOLE)
    padded = -(-size // opt.arg) * opt.arg
    if padded == size:
        return
    growing = [s for s in kernel.growing_stores() if one in closed_by(s)]
    if any(one not in store.src[0].ranges() for store in growing):
        raise kernel.refused(opt, "results that grow by blocks would grow beyond the last one")
    wider = UOp.range(padded, *one.arg)
    kernel.ast = mask_beyond(replace_range(kernel.ast, one, wider, [wider]), wider, size)


def swap(kernel: State, opt: Opt) -> None:
    """Have two output axes in each other's place."""
    first = kernel.axis(opt, kernel.axes)
    if opt.arg is None or not 0 <= opt.arg < len(kernel.axes):
        raise kernel.refused(opt, f"there is no axis {opt.arg}")
    second = kernel.axes[opt.arg]
    if kind_of(first) is not AxisType.GLOBAL or kind_of(second) is not AxisType.GLOBAL:
        raise kernel.refused(opt, "only output axes that are not split can be swapped")
    spare = (-1, AxisType.GLOBAL)
    for old, arg in (
        (first, spare),
        (second, first.arg),
        (first.replace(arg=spare), second.arg),
    ):
        kernel.ast = kernel.ast.substitute({old: old.replace(arg=arg)})


def tile(kernel: State, opt: Opt) -> None:
    """Cut an output axis into blocks, outside of all other axes."""
    one = kernel.axis(opt, kernel.axes)
    kernel.expect(opt, one, (AxisType.GLOBAL, AxisType.THREAD))
    amount = kernel.amount(opt, one)
    if amount == size_of(one):
        return
    inner = UOp.range(amount, number_of(one), AxisType.GLOBAL)
    outer = UOp.range((size_of(one) or 1) // amount, -1, kind_of(one))
    kernel.ast = replace_range(kernel.ast, one, outer * amount + inner, [outer, inner]).simplify()
    kernel.ast = renumber(kernel.ast)
    kernel.number_anew()


def cut(kernel: State, opt: Opt) -> None:
    """Cut an axis into two parts, each with stores of its own."""
    one = kernel.axis(opt, kernel.axes)
    size = size_of(one)
    if size is None or not opt.arg or not 0 < opt.arg < size:
        raise kernel.refused(opt, "it needs an axis of fixed size and a part of it")
    kernel.expect(opt, one, WHOLE)
    kernel.ast = drop_single(partition(kernel.ast, one, opt.arg, kernel.fresh).simplify())
    kernel.number_anew()
