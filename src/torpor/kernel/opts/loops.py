"""Opts on axes. Most are one primitive: iterations cut off an axis (`split.py`) and bound to what
runs them: copies written out, work items, threads. Each changes the kernel or raises an `OptError`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from torpor.ir.ops import AxisType, Ops
from torpor.ir.records import Opt, OptOps
from torpor.ir.uop import UOp
from torpor.kernel.opts.normalise import drop_single, renumber
from torpor.kernel.opts.split import padded, partition
from torpor.kernel.ranges import (
    OUTPUTS,
    WRITTEN,
    Changes,
    closed_by,
    find_loops,
    iterations,
    kind_of,
    nesting,
    number_of,
    rename_ranges,
    replace_ranges,
    size_of,
)

if TYPE_CHECKING:
    from torpor.kernel.opts.kernel import Kernel

COPIES: Final = 512  # of one axis, past which code only grows
WHOLE: Final = (AxisType.GLOBAL, AxisType.LOOP, AxisType.REDUCE)  # axes that no opt has split
SWAPPED: Final = (AxisType.GLOBAL, AxisType.REDUCE)
GROUPED: Final = (AxisType.LOCAL, AxisType.GROUP)  # axes of work items


class Binding(NamedTuple):
    """What an opt binds iterations to, of which axes they are cut off, whether the opt counts
    reduce axes, whether the iterations are the slow ones, and whether tiles overlap.
    """

    kind: AxisType
    of: tuple[AxisType, ...]
    reduces: bool = False
    top: bool = False
    overlap: bool = False


BINDINGS: Final[dict[OptOps, Binding]] = {
    OptOps.UPCAST: Binding(AxisType.UPCAST, OUTPUTS),
    OptOps.OVERLAP: Binding(AxisType.UPCAST, OUTPUTS, overlap=True),
    OptOps.UNROLL: Binding(AxisType.UNROLL, (AxisType.GROUP, AxisType.REDUCE), reduces=True),
    OptOps.LOCAL: Binding(AxisType.LOCAL, (AxisType.GLOBAL,)),
    OptOps.GROUP: Binding(AxisType.GROUP, (AxisType.REDUCE,), reduces=True),
    OptOps.GROUPTOP: Binding(AxisType.GROUP, (AxisType.REDUCE,), reduces=True, top=True),
    OptOps.THREAD: Binding(AxisType.THREAD, (AxisType.GLOBAL,), top=True),
}


def bind(kernel: Kernel, opt: Opt) -> None:
    """Cut iterations off an axis and bind them."""
    how = BINDINGS[opt.op]
    one = kernel.axis(opt, kernel.reduce_axes if how.reduces else kernel.axes)
    if how.kind in GROUPED:
        expect_groups(kernel, opt)
    kernel.expect(opt, one, how.of)
    amount = kernel.amount(opt, one, how.overlap)
    if how.kind in WRITTEN and amount > COPIES:
        raise kernel.refused(opt, f"more than {COPIES} copies")
    if how.kind is AxisType.GROUP:
        expect_outermost(kernel, opt)
    if how.kind in GROUPED:
        check_group(kernel, opt, amount)
    if how.overlap:
        expect_anew(kernel, opt, one)
    if how.kind in (AxisType.UPCAST, AxisType.LOCAL):
        kernel.check_stages(opt, one)
    kernel.split(one, amount, how.kind, top=how.top, overlap=how.overlap)


def expect_anew(kernel: Kernel, opt: Opt, one: UOp) -> None:
    """Results may be computed twice."""
    if kernel.reads_stored():
        raise kernel.refused(opt, "it reads what it stores")
    if any(one in closed_by(store) for store in kernel.growing_stores()):
        raise kernel.refused(opt, "sums would grow twice where tiles overlap")


# --- groups and threads ---------------------------------------------------------------------------
def expect_groups(kernel: Kernel, opt: Opt) -> None:
    """The target has groups, and they may be used."""
    if not kernel.target.groups:
        raise kernel.refused(opt, f"target {kernel.target.name} has no groups")
    if kernel.no_locals:
        raise kernel.refused(opt, "NOLOCALS was applied")


def expect_outermost(kernel: Kernel, opt: Opt) -> None:
    """Reductions stand in no loops, and in no other reduction."""
    if any(kind_of(r) is AxisType.LOOP for r in kernel.axes):
        raise kernel.refused(opt, "there are loops around the reduction")
    loops = find_loops(kernel.ast)
    reductions = [n for n in loops.order if n.op is Ops.REDUCE]
    if any(loops.free[n] & set(kernel.reduce_axes) for n in reductions):
        raise kernel.refused(opt, "the reduction is inside another")


def check_group(kernel: Kernel, opt: Opt, amount: int) -> None:
    """A group has room for so many times as many work items, along one more axis."""
    grouped = [size_of(r) or 1 for r in kernel.axes if kind_of(r) in GROUPED]
    items = amount * prod(grouped)
    if items > kernel.target.group_limit:
        raise kernel.refused(opt, f"a group has at most {kernel.target.group_limit} work items")
    if len(grouped) >= 3:
        raise kernel.refused(opt, "a group has at most three dimensions")


def without_locals(kernel: Kernel, opt: Opt) -> None:
    """Have no groups."""
    if any(kind_of(r) in GROUPED for r in kernel.axes):
        raise kernel.refused(opt, "there are local axes already")
    kernel.no_locals = True


def thread(kernel: Kernel, opt: Opt) -> None:
    """Cut an output axis among threads: part of it, or all; a second one, whole, joins the first as
    one axis of all their pairs.
    """
    one = kernel.axis(opt, kernel.axes)
    if not kernel.target.threads:
        raise kernel.refused(opt, f"target {kernel.target.name} has no threads")
    kernel.expect(opt, one, (AxisType.GLOBAL,))
    if any(one not in closed_by(store) for store in kernel.ast.src):
        raise kernel.refused(opt, "some output does not run over it")
    before = next((r for r in kernel.axes if kind_of(r) is AxisType.THREAD), None)
    if before is None and opt.arg:
        bind(kernel, opt)
    elif before is None:
        threaded = one.replace(arg=(number_of(one), AxisType.THREAD))
        kernel.ast = rename_ranges(kernel.ast, {one: threaded})
    else:
        size, outer = size_of(one), size_of(before)
        if opt.arg or size is None or outer is None:
            raise kernel.refused(opt, "only whole axes of fixed size join what threads share")
        both = UOp.range(outer * size, *before.arg)
        changes: Changes = {before: (both // size, (both,)), one: (both % size, ())}
        kernel.ast = replace_ranges(kernel.ast, changes).simplify()


# --- loops ----------------------------------------------------------------------------------------
def pad_to(kernel: Kernel, opt: Opt) -> None:
    """Make an axis longer, to a multiple of so much."""
    one = kernel.axis(opt, kernel.axes)
    if opt.arg is None or opt.arg < 1:
        raise kernel.refused(opt, "it needs an amount")
    kernel.expect(opt, one, WHOLE)
    expect_innermost(kernel, opt, one)
    grows = [s for s in kernel.growing_stores() if one in closed_by(s)]
    longer = (size_of(one) or 1) % opt.arg
    if longer and any(one not in store.src[0].ranges() for store in grows):
        raise kernel.refused(opt, "results that grow by blocks would grow beyond the last one")
    kernel.ast = padded(kernel.ast, one, opt.arg, kernel.fresh)
    kernel.number_anew()


def expect_innermost(kernel: Kernel, opt: Opt, one: UOp) -> None:
    """There is room for an axis inside of one of symbolic length: no loop that has to be inside
    comes before it.
    """
    inner, loops = UOp.range(1, kernel.fresh, kind_of(one)), find_loops(kernel.ast)
    inside = [r for n in loops.closing if one in loops.free[n] for r in closed_by(n)]
    if size_of(one) is None and any(nesting(r) < nesting(inner) for r in inside):
        raise kernel.refused(opt, "there are loops inside of that axis, whose size is symbolic")


def swap(kernel: Kernel, opt: Opt) -> None:
    """Have two output axes in each other's place, or two of a sum."""
    first = kernel.axis(opt, kernel.axes)
    if opt.arg is None or not 0 <= opt.arg < len(kernel.axes):
        raise kernel.refused(opt, f"there is no axis {opt.arg}")
    second = kernel.axes[opt.arg]
    if kind_of(first) is not kind_of(second) or kind_of(first) not in SWAPPED:
        raise kernel.refused(opt, "only output axes that are not split can be swapped")
    closing = find_loops(kernel.ast).reductions if kind_of(first) is AxisType.REDUCE else ()
    if any((first in closed_by(n)) is not (second in closed_by(n)) for n in closing):
        raise kernel.refused(opt, "only axes of the same sums can be swapped")
    turned = {first: first.replace(arg=second.arg), second: second.replace(arg=first.arg)}
    kernel.ast = rename_ranges(kernel.ast, turned)


def tile(kernel: Kernel, opt: Opt) -> None:
    """Cut an output axis into blocks, outside of all other axes."""
    one = kernel.axis(opt, kernel.axes)
    kernel.expect(opt, one, (AxisType.GLOBAL, AxisType.THREAD))
    amount = kernel.amount(opt, one)
    if amount == size_of(one):
        return
    inner = UOp.range(amount, number_of(one), AxisType.GLOBAL)
    outer = UOp.range((size_of(one) or 1) // amount, -1, kind_of(one))
    changes: Changes = {one: (outer * amount + inner, (outer, inner))}
    kernel.ast = renumber(replace_ranges(kernel.ast, changes).simplify())
    kernel.number_anew()


def cut(kernel: Kernel, opt: Opt) -> None:
    """Cut an axis into two parts, each with stores of its own."""
    one = kernel.axis(opt, kernel.axes)
    size, most = size_of(one), iterations([one])
    if not opt.arg or not 0 < opt.arg < most:
        raise kernel.refused(opt, "it cuts off a part of it")
    kernel.expect(opt, one, WHOLE)
    expect_innermost(kernel, opt, one)
    if size is None and kind_of(one) is AxisType.GLOBAL and kernel.target.groups:
        raise kernel.refused(opt, "no work items are left of both where one part is empty")
    kernel.ast = drop_single(partition(kernel.ast, one, opt.arg, kernel.fresh).simplify())
    kernel.number_anew()
