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
from torpor.rules.exact import constant_of

_FLOATS: Final = (dtypes.float32, dtypes.float64)


def decompose_power(x: UOp, y: UOp) -> UOp:
    """x**y = 2**(y * log2 x)"""
    number = constant_of(y)
    short = None if number is None else power.power_of_constant_exponent(x, number)
    return power.power(x, y) if short is None else short


def _unary(op: Ops) -> UPat:
    return UPat(op, _FLOATS, (UPat.var("x"),))


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
    (UPat(Ops.POW, _FLOATS, (UPat.var("x"), UPat.var("y"))), decompose_power),
])  # fmt: skip

REMAINDER_RULES: Final = PatternMatcher([
    (UPat(Ops.MOD, _FLOATS, (UPat.var("x"), UPat.var("y"))), remainder.remainder),
])  # fmt: skip

WIDE_REMAINDER_RULES: Final = PatternMatcher([
    (UPat(Ops.MOD, dtypes.float32, (UPat.var("x"), UPat.var("y"))), remainder.remainder_by_double),
])  # fmt: skip
