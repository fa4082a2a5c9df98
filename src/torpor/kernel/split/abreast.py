"""Phases abreast: sums that meet something only at every s-th place, as sums of one kernel for all
s phases, which share what they read.

before  out[o] = sum(k, where((o + 1 - k) % 2 < 1, x[(o + 1 - k) // 2] * w[k], 0))    (k < 4)
after   out[2*i + p] = sum(t, x[i + t - 1] * where(0 <= k < 4, w[k], 0)),  k = p + 1 - 2*(t - 1)

Windows of x are then the same for all phases, and neighbours lie side by side; which products are
with zeros is known once phases and windows are written out.
"""

from __future__ import annotations

from torpor.base import settings
from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.access import only_where, strides_of
from torpor.kernel.ranges import (
    closed_by,
    find_loops,
    iterations,
    number_of,
    replace_ranges,
    size_of,
)
from torpor.rules import conjuncts


def abreast(ast: UOp, reduction: UOp, condition: UOp, one: UOp, step: int) -> UOp | None:
    """The kernel with the phases along the output axis `one` as an axis of its own, the last one.

    `condition`: `e % step < 1`, without which nothing is summed, e of `one` and one summed axis.
    None where neither their sum nor their difference is e but for multiples of `step` and a
    constant, or where the phases are not of one length.
    """
    loops = find_loops(ast)
    summed = [r for r in closed_by(reduction) if r in loops.free[condition]]
    if len(summed) != 1 or loops.free[condition] != {one, *summed}:
        return None
    if settings.number("STRICT_FLOAT"):
        return None  # the products with zeros count
    strides = strides_of(condition.src[0].src[0], loops)
    along = strides[one], strides[summed[0]]
    if None in along or (along[0] or 0) % step != 1 or (size_of(one) or 1) % step:
        return None
    zero = UOp.index_const(0)
    shift = condition.src[0].src[0].substitute({one: zero, summed[0]: zero}).simplify()
    signs = [n for n in (1, -1) if ((along[1] or 0) - n) % step == 0]
    made = [
        moved(ast, reduction, one, summed[0], step, sign, int(shift.arg) % step) for sign in signs
    ]
    found = [m for m in made if m is not None]
    return min(found, key=work) if found else None


def work(ast: UOp) -> tuple[int, int]:
    """How many rounds the loops of a kernel have, and how many conditions its loads."""
    places = [n for n in ast.toposort() if n.op is Ops.INDEX and len(n.src) > 2]
    asked = sum(len(conjuncts(place.src[2])) for place in places)
    return iterations(tuple(ast.ranges())), asked


def moved(
    ast: UOp, reduction: UOp, one: UOp, summed: UOp, step: int, sign: int, shift: int
) -> UOp | None:
    """The kernel with `block*step + phase` for an output axis, and for `sign` times a summed axis
    `ahead*step - phase - shift`, which makes their sum a multiple of `step`.
    """
    length, rounds = size_of(one) or 1, size_of(summed) or 1
    ends = shift, shift + sign * (rounds - 1)
    first, last = -(-min(ends) // step), (max(ends) + step - 1) // step
    block = UOp.range(length // step, *one.arg)
    phase = UOp.range(step, 1 + max(number_of(r) for r in ast.ranges()), AxisType.GLOBAL)
    ahead = UOp.range(last - first + 1, *summed.arg)
    number = ((ahead + first) * step - phase - shift) * sign
    changes = {one: (block * step + phase, (block, phase)), summed: (number, (ahead,))}
    loops = find_loops(ast)
    places = {n.src[0] for n in loops.order if n.op is Ops.LOAD and summed in loops.free[n]}
    asked = {p for p in places if phase in replace_ranges(p, changes).simplify().ranges()}
    if asked == places or not vanishes(reduction.src[0], asked):
        return None
    within = (UOp.index_const(-1) < summed) & (summed < UOp.index_const(rounds))
    ast = ast.substitute({place: only_where(place, within) for place in asked})
    return replace_ranges(ast, changes).simplify()


def vanishes(value: UOp, places: set[UOp]) -> bool:
    """Whether a value is 0 once what is loaded at some places is."""
    if value.op is Ops.MUL:
        return any(vanishes(s, places) for s in value.src)
    if value.op is Ops.WHERE:
        zero = value.src[2].op is Ops.CONST and value.src[2].arg == 0
        return zero and vanishes(value.src[1], places)
    if value.op is Ops.CAST:
        return vanishes(value.src[0], places)
    return value.op is Ops.LOAD and value.src[0] in places
