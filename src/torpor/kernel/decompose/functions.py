"""The rules that write transcendental functions and the remainder out in basic operations."""

from __future__ import annotations

from typing import Final

from torpor.base.dtypes import SMALL_FLOATS, dtypes
from torpor.ir import Ops, PatternMatcher, UOp, UPat
from torpor.ir.ops import TRANSCENDENTAL
from torpor.kernel.decompose import (
    exponential,
    logarithm,
    power,
    remainder,
    trigonometric,
)
from torpor.kernel.decompose.small_floats import compute_in_single
from torpor.kernel.decompose.words import magnitude
from torpor.rules.exact import constant_of

_FLOATS: Final = (dtypes.float32, dtypes.float64)


def decompose_power(x: UOp, y: UOp) -> UOp:
    """x**y = 2**(y * log2 x)"""
    number = constant_of(y)
    short = None if number is None else power.power_of_constant_exponent(x, number)
    return power.power(x, y) if short is None else short


def decompose_absolute(x: UOp, negative: UOp, zero: UOp) -> UOp | None:
    """max(x, -x) + 0 = |x|, without its sign bit; NaN stays."""
    same, sign = negative.src
    known = same is x and constant_of(sign) == -1 and constant_of(zero) == 0
    return magnitude(x) if known else None


def _unary(op: Ops) -> UPat:
    return UPat(op, _FLOATS, (UPat.var("x"),))


_PAIR: Final = (UPat.var("x"), UPat.var("y"))
_LARGER: Final = UPat(Ops.MAX, None, (UPat.var("x"), UPat(Ops.MUL, name="negative")))
FUNCTION_RULES: Final = PatternMatcher([
    (UPat(TRANSCENDENTAL | {Ops.MOD}, SMALL_FLOATS, name="node"), compute_in_single),
    (_unary(Ops.EXP), exponential.exp),
    (_unary(Ops.EXP2), exponential.exp2),
    (_unary(Ops.TANH), exponential.tanh),
    (_unary(Ops.LOG), logarithm.log),
    (_unary(Ops.LOG2), logarithm.log2),
    (_unary(Ops.ERF), exponential.erf),
    (_unary(Ops.SIN), trigonometric.sin),
    (_unary(Ops.COS), trigonometric.cos),
    (UPat(Ops.POW, _FLOATS, _PAIR), decompose_power),
    (UPat(Ops.MOD, _FLOATS, _PAIR), remainder.remainder),
    (UPat(Ops.ADD, _FLOATS, (_LARGER, UPat.var("zero"))), decompose_absolute),
])  # fmt: skip

# Where what is rare may have a branch of its own.
BRANCH_RULES: Final = PatternMatcher([
    (_unary(Ops.SIN), trigonometric.sin_by_branches),
    (_unary(Ops.COS), trigonometric.cos_by_branches),
    (UPat(Ops.MOD, dtypes.float64, _PAIR), remainder.remainder_by_branches),
])  # fmt: skip

# Where there is float64, in which those that are not rare take one division.
REMAINDER_RULES: Final = PatternMatcher([
    (UPat(Ops.MOD, dtypes.float32, _PAIR), remainder.remainder_by_branches),
])  # fmt: skip
