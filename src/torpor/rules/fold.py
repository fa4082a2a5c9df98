"""Constant folding, as the op table says: user integers wrap, floats round once.

An integer division by zero is never folded: it raises when the program runs.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from torpor.base.dtypes import Scalar, dtypes
from torpor.ir.ops import ALU, COMPARE, ROWS, Ops
from torpor.ir.pattern import PatternMatcher, UPat
from torpor.ir.uop import UOp

_FOLDABLE: Final = frozenset(op for op in ALU if ROWS[op].fold is not None)
_EXACT_IN_DOUBLE: Final = 1 << 53


def fold_constants(node: UOp) -> UOp | None:
    """`op(c, d) -> the constant that it is`, in the operands' format."""
    if node.dtype.count != 1 or any(s.op is not Ops.CONST for s in node.src):
        return None
    values = [s.arg for s in node.src]
    if node.op in (Ops.IDIV, Ops.MOD) and _undefined(values):
        return None
    if node.op in (Ops.SHL, Ops.SHR) and values[1] < 0:
        return None
    fold = ROWS[node.op].fold
    assert fold is not None, "only ops with a meaning on numbers get here"
    value = fold(*values)
    if node.op in COMPARE:
        return UOp(Ops.CONST, dtypes.bool, (), bool(value))
    if node.op is Ops.SUB and node.dtype is dtypes.bool:
        return None
    return UOp(Ops.CONST, node.dtype, (), node.dtype.cast_scalar(value))


def _undefined(values: list[Scalar]) -> bool:
    """Whether Python's floor division has no number here: by zero, or on infinity or NaN."""
    return values[1] == 0 or not all(map(math.isfinite, values))


def fold_cast(node: UOp) -> UOp | None:
    """`cast(c) -> the constant that it is in the new format`, rounded once."""
    (source,) = node.src
    if source.op is not Ops.CONST or node.dtype.count != 1 or node.dtype is dtypes.void:
        return None
    value = source.arg
    if node.dtype.is_float:
        if isinstance(value, int) and abs(value) > _EXACT_IN_DOUBLE:
            return None  # by way of a double it would round twice
        if node.dtype.bits < 32 and value == value and not _exact_in_float32(value):
            return None
    elif node.dtype is dtypes.index and isinstance(value, float):
        return None
    return UOp(Ops.CONST, node.dtype, (), node.dtype.cast_scalar(value))


def _exact_in_float32(value: Scalar) -> bool:
    with np.errstate(over="ignore"):
        return bool(float(np.float32(value)) == value)


fold_rules: Final = PatternMatcher([
    (UPat(_FOLDABLE, name="node"), fold_constants),
    (UPat(Ops.CAST, name="node"), fold_cast),
])  # fmt: skip
