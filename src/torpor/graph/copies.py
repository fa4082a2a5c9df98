"""Rules that compute before copying: what an EXPAND repeats is computed once."""

from __future__ import annotations

from typing import Final

from torpor.graph.elementwise import constant, uniform
from torpor.graph.movement import expand
from torpor.ir.infer import Shape, shape_of
from torpor.ir.ops import ALU, Ops
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.uop import UOp
from torpor.rules.movement import is_one


def elementwise_of_copies(node: UOp) -> UOp | None:
    """f(expand(x), expand(y), number) = expand(f(x, y, number))."""
    shape = shape_of(node)
    numbers = [uniform(operand) for operand in node.src]
    given = [one for one, number in zip(node.src, numbers, strict=True) if number is None]
    if not given or any(one.op is not Ops.EXPAND for one in given):
        return None
    short = without_copies(shape, [shape_of(one.src[0]) for one in given])
    if short == shape:
        return None
    operands = [
        expand(one.src[0], short) if number is None else constant(number.arg, one.dtype, short)
        for one, number in zip(node.src, numbers, strict=True)
    ]
    return expand(node.replace(src=tuple(operands)), shape)


def reduce_of_copies(node: UOp, x: UOp) -> UOp | None:
    """reduce(expand(x, axes), others) = expand(reduce(x, others), axes)."""
    (_, axes), shape = node.arg, shape_of(node.src[0])
    below = without_copies(shape, [shape_of(x)], axes)
    if below == shape:
        return None
    return expand(node.replace(src=(expand(x, below),)), shape_of(node))


def without_copies(shape: Shape, below: list[Shape], kept: tuple[int, ...] = ()) -> Shape:
    """The shape with one element along each axis that repeats one in all of the shapes below."""
    return tuple([
        1 if axis not in kept and all(is_one(one[axis]) for one in below) else size
        for axis, size in enumerate(shape)
    ])  # fmt: skip


copy_rules: Final = PatternMatcher(
    [
        (UPat((*ALU, Ops.DETACH), name="node"), elementwise_of_copies),
        (
            UPat(Ops.REDUCE_AXIS, src=(UPat(Ops.EXPAND, src=(UPat.var("x"),)),), name="node"),
            reduce_of_copies,
        ),
    ]
)
