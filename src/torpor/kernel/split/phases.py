"""Phases: a kernel whose sums meet something only at every s-th place, as s kernels without masks.

before  out[h] = sum(k, where((h + k) % 2 < 1, x[(h + k) // 2] * w[k], 0))
after   out[2*i] = sum(j, x[i + j] * w[2*j]);  out[2*i + 1] = sum(j, x[i + j + 1] * w[2*j + 1])

Such are the gradients by the images of strided convolutions, and transposed convolutions: all but
one in s*s of the products that they sum are with zeros between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from torpor.base import settings
from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.access import is_gated, strides_of
from torpor.kernel.opts.normalise import joined
from torpor.kernel.ranges import (
    closed_by,
    find_loops,
    iterations,
    kind_of,
    map_nodes,
    number_of,
    replace_range,
    size_of,
)
from torpor.kernel.split.abreast import abreast
from torpor.rules import conjuncts

PRODUCTS_WORTH: Final = 1 << 20  # products from which more kernels, each to be compiled, pay
PHASES_MOST: Final = 16  # phases, at most
PRODUCTS_FEW: Final = 32  # products in a sum, up to which it takes longer to store what lies apart
ROUNDS: Final = 64  # rounds of a sum that are looked at one by one, at most


def in_phases(ast: UOp) -> tuple[UOp, ...]:
    """The kernels that together do what this one does, each for every s-th place of an output;
    the kernel itself where there are no such sums, or little to gain.
    """
    if len(ast.src) != 1 or iterations(tuple(ast.ranges())) < PRODUCTS_WORTH:
        return (ast,)
    if not any(n.op is Ops.MOD for n in ast.toposort()):
        return (ast,)
    whole = joined(ast)
    made = 1 + max(map(number_of, whole.ranges()))
    pending, done = [(whole, PHASES_MOST)], []
    while pending:
        one, most = pending.pop()
        parts = apart(one, most, made)
        pending.extend((part, most // len(parts)) for part in reversed(parts))
        if not parts:
            done.append(map_nodes(one, ungated))
    return tuple(done) if done != [map_nodes(whole, ungated)] else (ast,)


def apart(ast: UOp, most: int, made: int) -> list[UOp]:
    """The kernel with its sum over fewer rounds, or its phases along an output axis, if they are at
    most so many; none where neither is to be had. Axes of phases are numbered from `made`.
    """
    loops = find_loops(ast)
    reductions = [n for n in loops.order if n.op is Ops.REDUCE]
    if len(reductions) != 1 or reductions[0].arg is not Ops.ADD:
        return []
    found: list[UOp] = []
    for condition in conditions(reductions[0]):
        axes = loops.free[condition]
        summed = axes & set(closed_by(reductions[0]))
        if summed == axes and len(axes) == 1:
            fewer = fewer_rounds(ast, reductions[0], condition)
            if fewer is not None:
                return [fewer]
        outputs = [r for r in axes - summed if kind_of(r) is AxisType.GLOBAL and size_of(r)]
        if summed and outputs and not found and 1 < (step := step_of(condition)) <= most:
            one = min(outputs, key=number_of)
            if iterations(closed_by(reductions[0])) <= PRODUCTS_FEW and shares_nothing(
                ast, one, made
            ):
                found = together(ast, reductions[0], condition, one, step)
                if not found and lies_in_rows(ast, one):
                    continue  # rows are copied with the zeros between (`sliding.py`)
            found = found or split(ast, one, step)
    return found


def together(ast: UOp, reduction: UOp, condition: UOp, one: UOp, step: int) -> list[UOp]:
    """The kernel for all phases of an output axis, and one for the places that are left where the
    phases are not of one length; none where they do not go together.
    """
    rest = (size_of(one) or 0) % step
    if rest:
        return cut(ast, one, (size_of(one) or 0) - rest)
    made = abreast(ast, reduction, condition, one, step)
    return [] if made is None else [made]


def cut(ast: UOp, one: UOp, first: int) -> list[UOp]:
    """The kernel for the first places of an output axis, and the kernel for the others."""
    size = size_of(one) or 1
    low, high = UOp.range(first, *one.arg), UOp.range(size - first, *one.arg)
    places = (low, low), (high + UOp.index_const(first), high)
    return [replace_range(ast, one, place, [part]).simplify() for place, part in places]


def shares_nothing(ast: UOp, one: UOp, made: int) -> bool:
    """Whether one load alone reads other places along an output axis, that each result has for
    itself, but for phases: no result shares it but with its neighbours.
    """
    loops, store = find_loops(ast), ast.src[0]
    loads = [loops.free[n] for n in loops.order if n.op is Ops.LOAD and one in loops.free[n]]
    results = {r for r in closed_by(store) if number_of(r) < made}
    return len(loads) == 1 and loads[0] >= results


def lies_in_rows(ast: UOp, one: UOp) -> bool:
    """Whether results lie in a row along an axis."""
    return strides_of(ast.src[0].src[0].src[1], find_loops(ast)).get(one) == 1


def ungated(node: UOp) -> UOp:
    """load(x, True) = load(x)"""
    always = node.op is Ops.INDEX and len(node.src) > 2 and node.src[2].op is Ops.CONST
    return node.replace(src=node.src[:2]) if always and node.src[2].arg else node


def conditions(reduction: UOp) -> Iterator[UOp]:
    """Comparisons without which what is summed is 0."""
    value = reduction.src[0]
    for node in value.toposort():
        if node.op is Ops.CMPLT and vanishes(value, node):
            yield node


def step_of(condition: UOp) -> int:
    """The s of a condition x % s < 1; 1 for any other."""
    low, high = condition.src
    if low.op is not Ops.MOD or low.src[1].op is not Ops.CONST:
        return 1
    regular = high.op is Ops.CONST and high.arg == 1
    return int(low.src[1].arg) if regular else 1


def vanishes(value: UOp, condition: UOp) -> bool:
    """Whether a value is 0 unless the condition holds. That 0 times infinity would be NaN is left
    aside, but under STRICT_FLOAT.
    """
    if value.op is Ops.MUL:
        exact = settings.number("STRICT_FLOAT") and value.dtype.is_float
        return not exact and any(vanishes(s, condition) for s in value.src)
    if value.op is Ops.WHERE:
        zero = value.src[2].op is Ops.CONST and value.src[2].arg == 0
        return zero and condition in conjuncts(value.src[0])
    return is_gated(value, condition)


def split(ast: UOp, one: UOp, step: int) -> list[UOp]:
    """The kernel for each of the phases of an output axis."""
    size = size_of(one) or 1
    made = []
    for phase in range(min(step, size)):
        part = UOp.range(-(-(size - phase) // step), *one.arg)
        place = part * step + UOp.index_const(phase)
        made.append(replace_range(ast, one, place, [part]).simplify())
    return made


def fewer_rounds(ast: UOp, reduction: UOp, condition: UOp) -> UOp | None:
    """The kernel with a sum that goes only over the rounds for which the condition holds; None
    where these are not evenly apart, all there are, or not known before it runs.
    """
    (one,) = (r for r in closed_by(reduction) if r in condition.toposort())
    size = size_of(one) or 0
    if not 0 < size <= ROUNDS:
        return None
    known = [is_true(condition, one, n) for n in range(size)]
    if None in known:
        return None
    holds = [n for n, found in enumerate(known) if found]
    if not holds:
        return ast.substitute({reduction: UOp.const(reduction.dtype, 0)}).simplify()
    step = holds[1] - holds[0] if len(holds) > 1 else 1
    if len(holds) == size or holds != [*range(holds[0], holds[-1] + 1, step)]:
        return None
    part = UOp.range(len(holds), *one.arg)
    place = part * step + UOp.index_const(holds[0])
    return replace_range(ast, one, place, [part]).simplify()


def is_true(condition: UOp, one: UOp, number: int) -> bool | None:
    """Whether a condition on the axis `one` alone holds in a round; None where data tells."""
    found = condition.substitute({one: UOp.index_const(number)}).simplify()
    return bool(found.arg) if found.op is Ops.CONST else None
