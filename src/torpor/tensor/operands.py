"""Operands made ready for an operation: promoted to one format, checked, and chosen between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import dtypes, from_name
from torpor.base.errors import DTypeError, ShapeError
from torpor.base.promotion import promote, weak_dtype
from torpor.graph import build
from torpor.ir.infer import shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.handle import (
    Handle,
    as_scalar,
    derive,
    located,
    make,
    number_or_tensor,
    render_shape,
    weak_constant,
    with_rule,
)
from torpor.tensor.mode import default_float

CONDITIONS: Final = (dtypes.bool, dtypes.uint8)


def need(condition: bool, what: str, *operands: Any) -> None:
    if not condition:
        raise located(DTypeError(what), operands)


def sized(values: Any, shape: Sequence[Any], what: str) -> Any:
    """The values, which are None or of this very shape: parameters are not broadcast."""
    if values is not None and tuple(values.shape) != tuple(shape):
        asked, given = render_shape(tuple(shape)), render_shape(values.shape)
        raise located(ShapeError(f"{what} of shape {asked} is needed, not {given}"), (values,))
    return values


def promoted(left: Handle, right: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors of their common format (shapes as they are)."""
    one: Any = left
    right = number_or_tensor(right, left.device)
    if isinstance(right, Handle):
        other: Any = right
        common = left.dtype if left.dtype is right.dtype else promote(left.dtype, right.dtype)
        return one.cast(common), other.cast(common)
    if isinstance(right, complex) or left.dtype.is_complex:
        pair = Handle._pairs.with_real(left)
        return pair, pair.new_full((), right)
    value = as_scalar(right)
    common = weak_dtype(value, left.dtype, default_float())
    return one.cast(common), make(weak_constant(value, common), left.device)


def scaled(operand: Tensor, factor: Any) -> Tensor:
    """The operand times a number (or 0-d tensor), in the operand's format."""
    made = operand * factor
    need(operand.dtype.is_float or not made.dtype.is_float, "integers have whole factors", operand)
    return made.cast(operand.dtype)


def numbers(left: Handle, right: Any) -> tuple[Tensor, Tensor]:
    """Both in their common format, bools as int64: they have no remainder of their own."""
    one, other = promoted(left, right)
    if one.dtype is dtypes.bool:
        return one.cast(dtypes.int64), other.cast(dtypes.int64)
    return one, other


def bits(left: Handle, right: Any) -> tuple[Tensor, Tensor]:
    one, other = promoted(left, right)
    need(one.dtype.kind != "float", "floats have no bitwise operations; bitcast them", left, right)
    return one, other


def truth(value: Any) -> Any:
    if isinstance(value, Handle):
        return value.cast(dtypes.bool)
    return bool(value if isinstance(value, complex) else as_scalar(value))


def are_whole(left: Handle, right: Any) -> bool:
    kind = right.dtype.kind if isinstance(right, Handle) else type(as_scalar(right)).__name__
    return left.dtype.kind != "float" and kind != "float"


def is_comparable(value: object) -> bool:
    """Whether == can be elementwise; against anything else it is False, as for any objects."""
    return isinstance(value, Handle | bool | int | float | np.ndarray | np.generic)


def _where(condition: UOp, yes: UOp, no: UOp) -> UOp:
    return build.elementwise(Ops.WHERE, condition, yes, no)


def _where_constant(condition: UOp, value: UOp, constant: UOp, first: bool) -> UOp:
    return _where(condition, constant, value) if first else _where(condition, value, constant)


def choose(condition: Any, yes: Any, no: Any) -> Tensor:
    """`yes` where the condition (of bools or uint8) holds, else `no`; numbers are weak."""
    need(condition.dtype in CONDITIONS, "where needs a condition of bools", condition)
    if condition.dtype is not dtypes.bool:
        condition = condition.cast(dtypes.bool)
    yes, no = (number_or_tensor(value, condition.device) for value in (yes, no))
    yes, no = (
        Handle._type(value, device=condition.device) if isinstance(value, complex) else value
        for value in (yes, no)
    )
    if isinstance(yes, Handle) and isinstance(no, Handle):
        one: Any
        one, other = promoted(yes, no)
        if one.is_pair:
            return one.by_parts(lambda x, y: choose(condition, x, y), other)
        return derive(_where, (condition, one, other))
    if not isinstance(yes, Handle) and not isinstance(no, Handle):
        first = yes if isinstance(yes, float) or not isinstance(no, float) else float(yes)
        yes = Handle._type(first, device=condition.device)
    tensor: Any
    tensor, number, first = (no, yes, True) if isinstance(no, Handle) else (yes, no, False)
    value = as_scalar(number)
    common = weak_dtype(value, tensor.dtype, default_float())
    if tensor.is_pair:
        other = tensor.new_full((), value)
        return choose(condition, *((other, tensor) if first else (tensor, other)))
    constant = weak_constant(value, common)
    return derive(_where_constant, (condition, tensor.cast(common)), constant, first)


def sloped(value: Any, *pairs: tuple[Any, Any], flat: Sequence[Any] = ()) -> Tensor:
    """The value, with the gradient s dx + … of pairs (x, s), which are broadcast: each slope is a
    tensor with a gradient of its own. It does not depend on what is `flat`. A complex value keeps
    the gradient of what made it.
    """
    if value.is_pair:
        return value
    shape = value.shape
    sides = [one.cast(value.dtype) for pair in pairs for one in pair]
    sides = [one if one.shape == shape else one.expand(*shape) for one in sides]
    return with_rule(value, [*sides, *flat], "slopes", *([len(flat)] if flat else []))


def sign_bit(operand: Any) -> Any:
    """Whether the sign is a minus, also that of -0.0 and NaN."""
    if operand.dtype.kind != "float":
        return operand < 0
    return derive(build.bitcast, (operand.detach(),), from_name(f"int{operand.dtype.bits}")) < 0


def clamped(operand: Any, low: Any, high: Any, rule: str) -> Tensor:
    """Raised to `low`, then lowered to `high`, where one may be None, with a rule's gradient."""
    bounds = tuple([bound for bound in (low, high) if bound is not None])
    if operand.dtype.kind == "float" and all(isinstance(bound, int | float) for bound in bounds):
        return derive(_between, (operand,), low, high, rule)
    made = operand if low is None else operand.maximum(low)
    made = made if high is None else made.minimum(high)
    if made.dtype.kind != "float":
        return made
    sides = [promoted(made, bound)[1] for bound in bounds]
    return with_rule(made, (operand.cast(made.dtype), *sides), rule, *_words(low, high))


def _between(x: UOp, low: Any, high: Any, rule: str) -> UOp:
    """As `clamped`, of numbers."""
    made = x
    for op, bound in ((Ops.MAX, low), (Ops.MIN, high)):
        if bound is not None:
            made = build.elementwise(op, made, weak_constant(bound, x.dtype, shape_of(x)))
    bounds = [weak_constant(bound, x.dtype) for bound in (low, high) if bound is not None]
    return build.function(made, (x, *bounds), rule, *_words(low, high))


def _words(low: Any, high: Any) -> tuple[str, ...]:
    """Which bounds there are."""
    return tuple(word for word, bound in (("min", low), ("max", high)) if bound is not None)
