"""Gradients of elementwise operations.

Each rule takes a node and the gradient g of it, and gives the gradient of each operand (None: none
flows). r is the node's own result: where a formula can use it, nothing else need be kept.
"""

from __future__ import annotations

import math
from typing import Final

from torpor.base.dtypes import Scalar
from torpor.graph.elementwise import cast, constant, elementwise
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

Gradients = tuple[UOp | None, ...]


def like(node: UOp, value: Scalar) -> UOp:
    """The number `value` in the shape and dtype of `node`."""
    return constant(value, node.dtype, shape_of(node))


def scaled(node: UOp, factor: float) -> UOp:
    """`node` times a number."""
    return elementwise(Ops.MUL, node, like(node, factor))


def no_gradient(node: UOp, g: UOp) -> Gradients:
    """Of comparisons, integers, detach, bits read as another format: none."""
    return (None,) * len(node.src)


def step_gradient(node: UOp, g: UOp) -> Gradients:
    """d step(x) = 0: rounding."""
    return (like(g, 0),)


def checked_gradient(node: UOp, g: UOp) -> Gradients:
    """A check passes its value on; none for the condition."""
    return g, None


def add_gradient(node: UOp, g: UOp) -> Gradients:
    """d(x + y) = dx + dy."""
    return g, g


def subtract_gradient(node: UOp, g: UOp) -> Gradients:
    """d(x - y) = dx - dy."""
    return g, scaled(g, -1)


def multiply_gradient(node: UOp, g: UOp) -> Gradients:
    """d(x y) = y dx + x dy."""
    x, y = node.src
    return elementwise(Ops.MUL, g, y), elementwise(Ops.MUL, g, x)


def divide_gradient(node: UOp, g: UOp) -> Gradients:
    """d(x / y) = dx / y - r / y dy: 0 dy at x = 0, however small y is."""
    y = node.src[1]
    slope = elementwise(Ops.FDIV, node, y)
    return elementwise(Ops.FDIV, g, y), scaled(elementwise(Ops.MUL, g, slope), -1)


def modulo_gradient(node: UOp, g: UOp) -> Gradients:
    """d(x mod y) = dx - floor(x / y) dy: -1 where r = x + y, which x / y may be too small to say;
    NaN for an infinite x.
    """
    x, y = node.src
    quotient = elementwise(Ops.FLOOR, elementwise(Ops.FDIV, x, y))
    turned = elementwise(Ops.CMPEQ, elementwise(Ops.SUB, node, x), y)
    quotient = elementwise(Ops.WHERE, turned, like(node, -1), quotient)
    quotient = elementwise(Ops.ADD, quotient, elementwise(Ops.SUB, x, x))
    return g, scaled(elementwise(Ops.MUL, g, quotient), -1)


def power_gradient(node: UOp, g: UOp) -> Gradients:
    """d(x^y) = y x^(y-1) dx + r log(x) dy; 0 dx at y = 0, and 0 dy at x = 0 for y >= 0."""
    x, y = node.src
    zero, one = like(node, 0), like(node, 1)
    at_zero = elementwise(Ops.CMPEQ, y, zero)
    lower = elementwise(Ops.SUB, elementwise(Ops.WHERE, at_zero, one, y), one)
    slope = elementwise(Ops.MUL, y, elementwise(Ops.POW, x, lower))
    vanishes = elementwise(
        Ops.AND,
        elementwise(Ops.CMPEQ, x, zero),
        elementwise(Ops.OR, at_zero, elementwise(Ops.CMPLT, zero, y)),
    )
    logarithm = elementwise(Ops.LOG, elementwise(Ops.WHERE, vanishes, one, x))
    return (
        elementwise(Ops.WHERE, at_zero, like(g, 0), elementwise(Ops.MUL, g, slope)),
        elementwise(Ops.MUL, g, elementwise(Ops.MUL, node, logarithm)),
    )


def extremum_gradient(node: UOp, g: UOp) -> Gradients:
    """d max(x, y) = dx where x > y, dy where y > x, half of each where x = y; min likewise.

    At NaN the gradient is whole for both.
    """
    x, y = node.src
    zero = like(g, 0)
    shared = elementwise(Ops.WHERE, elementwise(Ops.CMPEQ, x, y), scaled(g, 0.5), g)
    low, high = (x, y) if node.op is Ops.MAX else (y, x)
    return (
        elementwise(Ops.WHERE, elementwise(Ops.CMPLT, low, high), zero, shared),
        elementwise(Ops.WHERE, elementwise(Ops.CMPLT, high, low), zero, shared),
    )


def where_gradient(node: UOp, g: UOp) -> Gradients:
    """d where(c, x, y) = where(c, dx, dy)."""
    condition, zero = node.src[0], like(g, 0)
    return (
        None,
        elementwise(Ops.WHERE, condition, g, zero),
        elementwise(Ops.WHERE, condition, zero, g),
    )


def exp_gradient(node: UOp, g: UOp) -> Gradients:
    """d exp(x) = r dx."""
    return (elementwise(Ops.MUL, g, node),)


def exp2_gradient(node: UOp, g: UOp) -> Gradients:
    """D 2^x = r log(2) dx."""
    return (scaled(elementwise(Ops.MUL, g, node), math.log(2)),)


def log_gradient(node: UOp, g: UOp) -> Gradients:
    """d log(x) = dx / x."""
    return (elementwise(Ops.FDIV, g, node.src[0]),)


def log2_gradient(node: UOp, g: UOp) -> Gradients:
    """d log2(x) = dx / (x log(2))."""
    return (scaled(elementwise(Ops.FDIV, g, node.src[0]), 1 / math.log(2)),)


def sin_gradient(node: UOp, g: UOp) -> Gradients:
    """d sin(x) = cos(x) dx."""
    return (elementwise(Ops.MUL, g, elementwise(Ops.COS, node.src[0])),)


def cos_gradient(node: UOp, g: UOp) -> Gradients:
    """d cos(x) = -sin(x) dx."""
    return (scaled(elementwise(Ops.MUL, g, elementwise(Ops.SIN, node.src[0])), -1),)


def tanh_gradient(node: UOp, g: UOp) -> Gradients:
    """d tanh(x) = (1 - r^2) dx."""
    square = elementwise(Ops.MUL, node, node)
    return (elementwise(Ops.MUL, g, elementwise(Ops.SUB, like(node, 1), square)),)


def erf_gradient(node: UOp, g: UOp) -> Gradients:
    """d erf(x) = 2 / sqrt(pi) exp(-x^2) dx."""
    x = node.src[0]
    bell = elementwise(Ops.EXP, scaled(elementwise(Ops.MUL, x, x), -1))
    return (elementwise(Ops.MUL, g, scaled(bell, 2 / math.sqrt(math.pi))),)


def sqrt_gradient(node: UOp, g: UOp) -> Gradients:
    """d sqrt(x) = dx / (2 r)."""
    return (elementwise(Ops.FDIV, g, scaled(node, 2)),)


def cast_gradient(node: UOp, g: UOp) -> Gradients:
    """d cast(x) = dx between floats; integers have no gradient."""
    (x,) = node.src
    return (cast(g, x.dtype) if x.dtype.is_float else None,)


ELEMENTWISE: Final = {
    Ops.CHECK: checked_gradient,
    Ops.ADD: add_gradient,
    Ops.SUB: subtract_gradient,
    Ops.MUL: multiply_gradient,
    Ops.FDIV: divide_gradient,
    Ops.MOD: modulo_gradient,
    Ops.POW: power_gradient,
    Ops.MAX: extremum_gradient,
    Ops.MIN: extremum_gradient,
    Ops.WHERE: where_gradient,
    Ops.EXP: exp_gradient,
    Ops.EXP2: exp2_gradient,
    Ops.LOG: log_gradient,
    Ops.LOG2: log2_gradient,
    Ops.SIN: sin_gradient,
    Ops.COS: cos_gradient,
    Ops.TANH: tanh_gradient,
    Ops.ERF: erf_gradient,
    Ops.SQRT: sqrt_gradient,
    Ops.CAST: cast_gradient,
    **dict.fromkeys((Ops.FLOOR, Ops.TRUNC, Ops.RINT), step_gradient),
    **dict.fromkeys(
        (Ops.BITCAST, Ops.IDIV, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.CMPLT, Ops.CMPNE,
         Ops.CMPEQ),
        no_gradient,
    ),
}  # fmt: skip
