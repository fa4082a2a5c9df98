"""Division, powers, shifts and rounding of tensors whose formats decide what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.base.errors import ValueRangeError
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.ir.records import Requirement
from torpor.tensor.annotated import Tensor
from torpor.tensor.handle import (
    Handle,
    as_scalar,
    binary,
    derive,
    float_dtype,
    floats,
    located,
    number_or_tensor,
    unary,
    with_rule,
)
from torpor.tensor.operands import choose, need
from torpor.tensor.wide import wide_dtype

NEGATIVE_COUNT: Final = Requirement("value", "a negative shift count")
NEGATIVE_EXPONENT: Final = Requirement("value", "an integer to a negative integer power")


def shift_count(value: Handle, count: Any) -> Any:
    """A shift count: negative ones raise here, those beyond the width count as the width."""
    if isinstance(count, Handle | np.ndarray):
        return count
    number = as_scalar(count)
    need(not isinstance(number, float), f"bits are shifted by integers, not {number}", value)
    if number < 0:
        raise located(ValueRangeError(f"a shift count cannot be negative: {number}"), (value,))
    return min(int(number), value.dtype.bits)


def shift(op: Ops, value: Tensor, count: Tensor) -> Tensor:
    need(value.dtype.is_int, f"only integers shift, not {value.dtype}", value, count)
    if count._current().op is not Ops.CONST and count.dtype.kind == "int":
        count = derive(build.check, (count, count >= 0), NEGATIVE_COUNT)
    return binary(op, value, count)


def minus_one(operand: Handle) -> Any:
    return operand.dtype.max if operand.dtype.kind == "uint" else -1


def all_ones(operand: Handle) -> Any:
    return -1 if operand.dtype.kind == "int" else operand.dtype.max


def true_divide(left: Handle, right: Any, swapped: bool) -> Tensor:
    one: Any = left
    right = number_or_tensor(right, left.device)
    if isinstance(right, Handle) and right.is_pair:
        return binary(Ops.FDIV, left, right, swapped)
    if left.dtype.kind != "float":
        wide = right.dtype if isinstance(right, Handle) else left.dtype
        one = one.cast(float_dtype(wide))
    if isinstance(right, Handle) and right.dtype.kind != "float":
        right = right.cast(one.dtype)
    return binary(Ops.FDIV, one, right, swapped)


def floor_divide(left: Tensor, right: Tensor) -> Tensor:
    if left.dtype is dtypes.bool:
        left, right = left.cast(dtypes.int64), right.cast(dtypes.int64)
    if left.dtype.kind != "float":
        return binary(Ops.IDIV, left, right)
    operands, dtype = (left, right), left.dtype
    left, right = (one.detach().cast(wide_dtype(dtype)) for one in operands)
    # (a - a % b) / b is a whole number up to rounding; a / 0 is infinite or NaN, as for /
    rest, quotient = left % right, left / right
    whole = unary(Ops.RINT, (left - rest) / right)
    whole = rest.isinf().where(-1, whole)  # b infinite, a of the other sign
    whole = whole.isinf().where(quotient.floor(), whole)  # a - a % b may overflow
    whole = whole.eq(0).where(quotient * 0, whole)  # of a quotient below 1, and with its sign
    return with_rule(right.eq(0).where(quotient, whole).cast(dtype), operands, "step")


def repeated(base: Tensor, exponent: int) -> Tensor:
    """base**exponent of integers by repeated squaring."""
    result: Tensor | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return base.ones_like() if result is None else result


USUAL_BITS: Final = 6  # of an exponent: another one overflows, but of 0, 1 and -1


def whole_power(base: Tensor, exponent: Tensor) -> Tensor:
    """base**exponent of integer tensors, a bit of the exponent at a time."""
    if base.dtype is dtypes.bool:
        base, exponent = base.cast(dtypes.int64), exponent.cast(dtypes.int64)
    result = base.ones_like()
    for bit in range(exponent.dtype.bits - (exponent.dtype.kind == "int")):
        if bit == USUAL_BITS:
            usual = result
        odd = ((exponent >> bit) & 1).cast(dtypes.bool)
        result = choose(odd, result * base, result)
        base = base * base
    result = derive(build.choose_rarely, (exponent >= 1 << USUAL_BITS, result, usual))
    if exponent.dtype.kind == "int":
        result = derive(build.check, (result, exponent >= 0), NEGATIVE_EXPONENT)
    return result


# As in PyTorch and NumPy, x ** 0.5 is sqrt(x), also at -0.0 and -infinity, where powers by tensors
# are +0.0 and +infinity.
SIMPLE_POWERS: Final[dict[Any, Callable[[Any], Tensor]]] = {
    1: floats,
    2: lambda operand: (x := floats(operand)) * x,
    -1: lambda operand: 1 / operand,
    0.5: lambda operand: operand.sqrt(),
    -0.5: lambda operand: operand.rsqrt(),
}


def floor_like(op: Ops, operand: Any) -> Tensor:
    """Rounding: integers stay as they are."""
    return operand.clone() if operand.dtype.kind != "float" else unary(op, operand)
