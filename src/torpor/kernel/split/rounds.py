"""Sums that meet something only at every s-th place of an axis, over what they meet.

before  out[k] = sum(o, where((o + k) % 2 < 1, x[(o + k) // 2] * y[o], 0))
after   out[k] = sum(i, x[i] * y[2*i - k])

Such are the gradients by the weights of transposed convolutions. What lies outside of `y` is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.access import is_gated, only_where, strides_of
from torpor.kernel.opts.normalise import joined
from torpor.kernel.ranges import closed_by, find_loops, kind_of, map_nodes, replace_range, size_of
from torpor.kernel.split.phases import conditions, step_of, ungated, vanishes
from torpor.rules import conjuncts

HELD: Final = -1  # the number of an axis for a while, which no other has
SPARE: Final = 2  # times as many rounds as meet something, from which phases are better


class Met(NamedTuple):
    """A sum over the axis `one` that adds something only where `place`, which moves by 1 or -1
    (`pace`) with the axis, is a multiple of `step`, as the condition says.
    """

    condition: UOp
    one: UOp
    place: UOp
    pace: int
    step: int


def over_met(ast: UOp) -> UOp:
    """The kernel with such sums over fewer rounds; the kernel itself where there are none."""
    if not any(n.op is Ops.MOD for n in ast.toposort()):
        return ast
    whole = joined(ast)
    while (fewer := next(shortened(whole), None)) is not None:
        whole = ast = fewer
    return ast


def shortened(ast: UOp) -> Iterator[UOp]:
    """The kernel with one of its sums over what it meets, in each way that there is."""
    reductions = [n for n in ast.toposort() if n.op is Ops.REDUCE]
    if len(reductions) == 1 and reductions[0].arg is Ops.ADD:
        for met in sums_of(reductions[0]):
            made = over_rounds(ast, reductions[0], met)
            if made is not None:
                yield made


def sums_of(reduction: UOp) -> Iterator[Met]:
    """What a sum meets only at every so many places along an axis."""
    loops = find_loops(reduction)
    for condition in conditions(reduction):
        if (step := step_of(condition)) > 1:
            for place in places_of(reduction, condition.src[0].src[0], step):
                strides = strides_of(place, loops)
                for one in closed_by(reduction):
                    pace = strides.get(one)
                    if pace in (1, -1) and kind_of(one) is AxisType.REDUCE and size_of(one):
                        yield Met(condition, one, place, pace, step)


def places_of(reduction: UOp, place: UOp, step: int) -> list[UOp]:
    """What is a multiple of the step whenever a place is, and is divided by it; last the place."""
    divided = [n.src[0] for n in reduction.toposort() if n.op is Ops.IDIV and n.src[1].arg == step]
    alike = [p for p in divided if any(is_multiple(n, step) for n in (p - place, p + place))]
    return [*alike, place]


def is_multiple(place: UOp, step: int) -> bool:
    """Whether a place is known to be a multiple of the step."""
    return (place % step).simplify() is UOp.index_const(0)


def over_rounds(ast: UOp, reduction: UOp, met: Met) -> UOp | None:
    """The kernel with the sum over the multiples of the step; None where these are not fewer."""
    size, low, high = size_of(met.one) or 1, met.place.vmin, met.place.vmax
    if not (isinstance(low, int) and isinstance(high, int)):
        return None
    first = -(-low // met.step)
    whole = UOp.range(high // met.step - first + 1, *met.one.arg)
    moved = moved_to(reduction, met, whole, first)
    start, end = bounds_of(moved, whole)
    if start >= end or (end - start) * met.step >= SPARE * size:
        return None
    part = UOp.range(end - start, *met.one.arg)
    made = ast.substitute({reduction: moved_to(reduction, met, part, first + start)})
    return map_nodes(made.simplify(), ungated)


def moved_to(reduction: UOp, met: Met, part: UOp, first: int) -> UOp:
    """The sum over the multiples of the step from the one numbered `first`, without what would be
    outside of the axis.
    """
    held = part.replace(arg=(HELD, *part.arg[1:]))  # or it could be the axis that is replaced
    rest = met.place - met.one * met.pace
    where = (((held + first) * met.step - rest) * met.pace).simplify()
    inside = (UOp.index_const(-1) < where) & (where < UOp.index_const(size_of(met.one) or 1))
    inside = inside.simplify()
    value = reduction.src[0]
    loads = [n for n in value.toposort() if n.op is Ops.LOAD and met.one in n.ranges()]
    others = [load for load in loads if not is_gated(load, met.condition)]
    masked = {load: only_where(load, inside) for load in others or loads}
    value = value.substitute(masked)
    if not all(vanishes(value, c) for c in conjuncts(inside)):
        value = inside.where(value, UOp.const(value.dtype, 0))
    reduction = reduction.replace(src=(value, *reduction.src[1:]))
    over = replace_range(reduction, met.one, where, [held]).substitute({held: part})
    return map_nodes(over.simplify(), without_both)


def without_both(node: UOp) -> UOp:
    """x + y < x + z  =  -1 < z - y - 1, where x is an axis."""
    if node.op is not Ops.CMPLT or node.src[0].dtype is not dtypes.index:
        return node
    apart = (node.src[1] - node.src[0]).simplify()
    if len(set(apart.ranges())) >= len(set(node.ranges())):
        return node
    return (UOp.index_const(0) < apart).simplify()


def bounds_of(reduction: UOp, one: UOp) -> tuple[int, int]:
    """The first round in which what depends on the axis alone lets a sum add something, and the
    round after the last.
    """
    low, high = 0, size_of(one) or 1
    for condition in conditions(reduction):
        if set(condition.ranges()) != {one} or any(
            strides_of(s, find_loops(s)).get(one, 0) is None for s in condition.src
        ):
            continue
        holds = [is_met(condition, one, n) for n in (0, high - 1)]
        if holds == [True, False]:
            high = turn_of(condition, one, 0, high - 1)
        elif holds == [False, True]:
            low = max(low, turn_of(condition, one, 0, high - 1))
    return low, high


def turn_of(condition: UOp, one: UOp, low: int, high: int) -> int:
    """The round from which on a comparison says what it says in round `high`, not in `low`."""
    last = is_met(condition, one, high)
    while high - low > 1:
        middle = (low + high) // 2
        if is_met(condition, one, middle) is last:
            high = middle
        else:
            low = middle
    return high


def is_met(condition: UOp, one: UOp, number: int) -> bool:
    """Whether a condition on an axis, and on variables perhaps, may hold in a round."""
    return bool(condition.substitute({one: UOp.index_const(number)}).simplify().vmax)
