"""Phases of strided windows: an output axis whose sums have more or fewer terms in each phase, as a
kernel for each phase, or with the phases as an axis of their own where sums are short.

before  out[i] = sum(j, x[i // 2 - j] * w[2*j + i % 2])          (w[3] is 0)
after   out[2*i] = sum(j, x[i - j] * w[2*j]);  out[2*i + 1] = x[i] * w[1]
or      out[2*i + p] = sum(j, x[i - j] * w[2*j + p])

Such are windows that are added up (`graph/polyphase.py`). Of short sums the neighbours that lie
side by side are worth more than the zeros, which are known once phases and windows are written out.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from torpor.base import settings
from torpor.base.target import Target
from torpor.ir.ops import AxisType, Ops
from torpor.ir.uop import UOp
from torpor.kernel.opts.normalise import joined
from torpor.kernel.ranges import (
    closed_by,
    iterations,
    kind_of,
    map_nodes,
    number_of,
    replace_range,
    size_of,
)
from torpor.kernel.split.several import Piece, own_parameters, part_of
from torpor.rules import conjuncts
from torpor.rules.affine import affine
from torpor.rules.validity import is_gated

PRODUCTS_WORTH: Final = 1 << 18  # products from which more kernels, each to be compiled, pay
PHASES_MOST: Final = 16  # phases, at most
PRODUCTS_FEW: Final = 32  # products in a sum, up to which it takes longer to store what lies apart
ROUNDS: Final = 64  # rounds of a sum that are looked at one by one, at most


def in_phases(ast: UOp, _: Target) -> tuple[Piece, ...]:
    """The kernels that together do what this one does, each for some places of an output; none
    where there are no phases, or little to gain.
    """
    if len(ast.src) != 1 or iterations(tuple(ast.ranges())) < PRODUCTS_WORTH:
        return ()
    whole = joined(ast)
    sums = [n for n in whole.toposort() if n.op is Ops.REDUCE]
    if len(sums) != 1 or sums[0].arg is not Ops.ADD:
        return ()
    few = iterations(closed_by(sums[0])) <= PRODUCTS_FEW and shares_nothing(whole)
    found = [*phases_of(whole)]
    begun = {one for one, _, first in found if not first}  # others begin within a round
    few = few and all(one in begun for one, _, _ in found)
    pending, done = [(whole, PHASES_MOST)], []
    while pending:
        one, most = pending.pop()
        parts = beside(one, most) if few else apart(one, most)
        pending.extend((part, most // len(parts)) for part in reversed(parts))
        if not parts:
            done.append(map_nodes(one if few else narrowed(one), asked_once))
    return () if done == [map_nodes(whole, asked_once)] else tuple(map(own_parameters, done))


def phases_of(ast: UOp) -> Iterator[tuple[UOp, int, int]]:
    """Output axes with phases that decide which terms are 0: the axis, how many, and the phase of
    the first place. What phases decide besides, such as the head of an attention, is a digit.
    """
    sums = [node for node in ast.toposort() if node.op is Ops.REDUCE]
    asked = UOp.sink(*(condition for one in sums for condition in conditions(one, exact=False)))
    for node in asked.toposort():
        if node.op is Ops.MOD and node.src[1].op is Ops.CONST:
            inner, step = affine(node.src[0]), int(node.src[1].arg)
            for one in inner.terms:
                alone = inner.terms == {one: 1} and one.op is Ops.RANGE and size_of(one)
                if alone and kind_of(one) is AxisType.GLOBAL:
                    yield one, step, inner.constant % step


def apart(ast: UOp, most: int) -> list[UOp]:
    """A kernel for each phase of an output axis; none without phases."""
    for one, step, _ in phases_of(ast):
        if step <= most:
            return [
                of_phase(ast, one, step, phase) for phase in range(min(step, size_of(one) or 1))
            ]
    return []


def of_phase(ast: UOp, one: UOp, step: int, phase: int) -> UOp:
    """out[step*i + phase] for all i."""
    part = UOp.range(-(-((size_of(one) or 1) - phase) // step), *one.arg)
    return replace_range(ast, one, part * step + UOp.index_const(phase), [part]).simplify()


def beside(ast: UOp, most: int) -> list[UOp]:
    """The kernel with the phases of an output axis as its last axis, and one for the places that
    are left where the phases are not of one length.
    """
    for one, step, first in phases_of(ast):
        size = size_of(one) or 1
        if step > most or first or size < step:
            continue
        if rest := size % step:
            return [part_of(ast, one, 0, size - rest), part_of(ast, one, size - rest, size)]
        block = UOp.range(size // step, *one.arg)
        phase = UOp.range(step, 1 + max(number_of(r) for r in ast.ranges()), AxisType.GLOBAL)
        return [replace_range(ast, one, block * step + phase, [block, phase]).simplify()]
    return []


def asked_once(node: UOp) -> UOp:
    """where(c, x, 0) * where(c, w, 0) = where(c, x, 0) * w, if c is of an axis on which the place
    in w does not depend: so what is read is the same for all phases, or needs no condition. A
    licence, off under STRICT_FLOAT: padding of x times an infinite w is then NaN.
    """
    if node.op is not Ops.MUL or settings.number("STRICT_FLOAT") or len(node.src) != 2:
        return node
    left, right = node.src
    right = without_shared(right, left)
    return node.replace(src=(without_shared(left, right), right))


def without_shared(factor: UOp, other: UOp) -> UOp:
    """A load without the conditions that the other factor has too and that do not bound it."""
    if factor.op is Ops.CAST:
        return factor.replace(src=(without_shared(factor.src[0], other),))
    if factor.op is not Ops.LOAD or len(factor.src[0].src) < 3:
        return factor
    memory, position, condition = factor.src[0].src
    parts, needed = conjuncts(condition), {*position.ranges()}
    kept = [n for n in condition.toposort() if n in parts]  # a set has another order each time
    for one in condition.ranges():
        mine = [c for c in kept if one in c.ranges()]
        if one not in needed and all(is_gated(other, c) for c in mine) and meet(mine, one):
            kept = [c for c in kept if c not in mine]
    where = [functools.reduce(lambda a, b: a & b, kept)] if kept else []
    place = factor.src[0].replace(src=(memory, position, *where))
    return factor.replace(src=(place, *factor.src[1:]))


def meet(conditions: Sequence[UOp], one: UOp) -> bool:
    """Whether wherever the other axes are conditions hold together at some place of an axis: the
    same one of the first, the middle and the last, or for few places one for each of theirs.
    """
    size = size_of(one) or 1
    places = (UOp.index_const(n) for n in (0, size // 2, size - 1))
    if any(all(c.substitute({one: n}).simplify().vmin for c in conditions) for n in places):
        return True
    axes = [*dict.fromkeys(r for c in conditions for r in c.ranges() if r is not one)]
    if any(size_of(r) is None for r in axes) or iterations((one, *axes)) > ROUNDS:
        return False
    return all(
        any(all(is_true(c, {**at, one: n}) for c in conditions) for n in range(size))
        for at in assignments(axes)
    )


def assignments(axes: Sequence[UOp]) -> Iterator[dict[UOp, int]]:
    """All numbers that some axes have together."""
    for numbers in itertools.product(*(range(size_of(r) or 1) for r in axes)):
        yield dict(zip(axes, numbers, strict=True))


def shares_nothing(ast: UOp) -> bool:
    """Whether no result shares what it reads but with its neighbours: one load is of all axes of
    the results that any is of, also where phases are left aside.
    """
    phases = {n: UOp.index_const(0) for n in ast.toposort() if n.op is Ops.MOD}
    results = {r for r in closed_by(ast.src[0]) if kind_of(r) is AxisType.GLOBAL}
    places = [n.src[0].src[1] for n in ast.toposort() if n.op is Ops.LOAD]
    read = results & {*UOp.sink(*places).ranges()}
    return any(read <= {*place.substitute(phases).ranges()} for place in places)


def narrowed(ast: UOp) -> UOp:
    """The kernel with each sum only over the rounds that add something."""
    while (fewer := next(shorter(ast), None)) is not None:
        ast = fewer
    return ast.simplify()


def shorter(ast: UOp) -> Iterator[UOp]:
    """The kernel with an axis of its sum over fewer rounds, in each way that there is."""
    for reduction in [n for n in ast.toposort() if n.op is Ops.REDUCE]:
        for condition in conditions(reduction, bool(settings.number("STRICT_FLOAT"))):
            axes = [*condition.ranges()]
            if len(axes) == 1 and axes[0] in closed_by(reduction):
                fewer = fewer_rounds(ast, reduction, condition)
                if fewer is not None:
                    yield fewer


def conditions(reduction: UOp, exact: bool) -> Iterator[UOp]:
    """Comparisons without which what is summed is 0."""
    value = reduction.src[0]
    for node in value.toposort():
        if node.op is Ops.CMPLT and vanishes(value, node, exact):
            yield node


def vanishes(value: UOp, condition: UOp, exact: bool) -> bool:
    """Whether a value is 0 unless the condition holds; `exact`: 0 times infinity is NaN."""
    if value.op is Ops.MUL:
        nan = exact and value.dtype.is_float
        return not nan and any(vanishes(s, condition, exact) for s in value.src)
    if value.op is Ops.WHERE:
        zero = value.src[2].op is Ops.CONST and value.src[2].arg == 0
        return zero and condition in conjuncts(value.src[0])
    return is_gated(value, condition)


def fewer_rounds(ast: UOp, reduction: UOp, condition: UOp) -> UOp | None:
    """The kernel with a sum that goes only over the rounds for which the condition holds; None
    where these are not evenly apart, all there are, or not known before it runs.
    """
    (one,) = (r for r in closed_by(reduction) if r in condition.toposort())
    size = size_of(one) or 0
    if not 0 < size <= ROUNDS:
        return None
    known = [is_true(condition, {one: n}) for n in range(size)]
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


def is_true(condition: UOp, numbers: Mapping[UOp, int]) -> bool | None:
    """Whether a condition holds in these rounds; None where more tells."""
    at = {one: UOp.index_const(number) for one, number in numbers.items()}
    found = condition.substitute(at).simplify()
    return bool(found.arg) if found.op is Ops.CONST else None
