"""Arithmetic, comparisons, logic and bits: one element of the result from one of each operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torpor.base.dtypes import DType, dtypes, kept_dtype
from torpor.base.errors import ValueRangeError
from torpor.base.promotion import weak_dtype
from torpor.graph import build
from torpor.ir.infer import product, shape_of
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp
from torpor.tensor.annotated import Tensor
from torpor.tensor.division import (
    SIMPLE_POWERS,
    all_ones,
    floor_divide,
    minus_one,
    repeated,
    shift,
    shift_count,
    true_divide,
    whole_power,
)
from torpor.tensor.handle import (
    Handle,
    as_scalar,
    binary,
    located,
    make,
    number_or_tensor,
    view,
    viewed,
)
from torpor.tensor.mode import default_float, keeps_graphs
from torpor.tensor.operands import (
    CONDITIONS,
    are_whole,
    bits,
    choose,
    clamped,
    is_comparable,
    need,
    numbers,
    promoted,
    scaled,
    sign_bit,
    sloped,
    truth,
)
from torpor.tensor.wide import widely


def _operator(op: Ops, text: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """The method `x op y`, or `y op x`; NotImplemented for what is neither tensor nor number."""

    def method(self: Handle, other: Any) -> Tensor:
        return binary(op, self, other, swapped)

    method.__doc__ = text
    return method


def _cast(dtype: DType) -> Callable[[Any], Any]:
    """The method that casts to one format."""

    def method(self: Any) -> Tensor:
        return self.cast(dtype)

    method.__doc__ = "Whether it is not 0." if dtype is dtypes.bool else f"As {dtype.name}."
    return method


class Arithmetic(Handle):
    """Operators and the functions that they stand for.

    Shapes are broadcast; a pair that cannot be is a `ShapeError`. Formats are promoted by the array
    API standard's lattice, and Python numbers take the tensor's side: an int becomes any format, a
    float the tensor's float or the default one. What has no common format is a `DTypeError`.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    __add__, __radd__ = (_operator(Ops.ADD, "Sum.", swapped) for swapped in (False, True))
    __mul__, __rmul__ = (_operator(Ops.MUL, "Product.", swapped) for swapped in (False, True))
    maximum = _operator(Ops.MAX, "The greater of both; NaN if either is.")
    minimum = _operator(Ops.MIN, "The lesser of both; NaN if either is.")

    def __sub__(self, other: Any) -> Tensor:
        need(self.dtype is not dtypes.bool, "bools have no difference; use ^ or logical_xor", self)
        return binary(Ops.SUB, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        need(self.dtype is not dtypes.bool, "bools have no difference; use ^ or logical_xor", self)
        return binary(Ops.SUB, self, other, True)

    def add(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """self + alpha * other, all in the common format: integers have whole alphas, else it is
        a `DTypeError`.
        """
        if type(alpha) is int and alpha == 1:
            return self + other
        left, right = promoted(self, other)
        return left + scaled(right, alpha)

    def sub(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """self - alpha * other, as `add`; bools have no difference (`DTypeError`)."""
        if type(alpha) is int and alpha == 1:
            return self - other
        left, right = promoted(self, other)
        return left - scaled(right, alpha)

    def rsub(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """other - alpha * self, as `add`."""
        if type(alpha) is int and alpha == 1:
            return other - self
        mine, others = promoted(self, other)
        return others - scaled(mine, alpha)

    def mul(self, other: Any) -> Tensor:
        """self * other; integers wrap around."""
        return self * other

    subtract, multiply = sub, mul

    def __neg__(self) -> Tensor:
        need(self.dtype is not dtypes.bool, "a bool has no negative; use logical_not", self)
        return binary(Ops.MUL, self, minus_one(self))

    def neg(self) -> Tensor:
        """-self; unsigned integers wrap around, bools have no negative (`DTypeError`)."""
        return -self

    negative = neg

    def positive(self) -> Tensor:
        """Itself."""
        return self  # type: ignore[return-value]

    __pos__ = resolve_conj = resolve_neg = positive

    # --- division ---------------------------------------------------------------------------------
    def __truediv__(self, other: Any) -> Tensor:
        return true_divide(self, other, False)

    def __rtruediv__(self, other: Any) -> Tensor:
        return true_divide(self, other, True)

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """self / other, in the default float if both are whole; or rounded toward zero ("trunc") or
        down ("floor"), in the common format. A whole number divided by zero, and rounded, raises at
        realisation.

        >>> Tensor([7, -7]).div(2).tolist(), Tensor([7, -7]).div(2, rounding_mode="trunc").tolist()
        ([3.5, -3.5], [3, -3])
        """
        if rounding_mode is None:
            return self / other
        if rounding_mode == "floor":
            return self // other
        if rounding_mode != "trunc":
            raise ValueRangeError(
                f"rounding_mode is None, 'trunc' or 'floor', not {rounding_mode!r}"
            )
        quotient = self // other if are_whole(self, other) else (self / other)
        if not are_whole(self, other):
            return quotient.trunc()
        inexact = (quotient * other).ne(self)
        return quotient + (inexact & (quotient < 0)).cast(quotient.dtype)

    divide = div

    def true_divide(self, other: Any) -> Tensor:
        """self / other."""
        return self / other

    def __floordiv__(self, other: Any) -> Tensor:
        return floor_divide(*promoted(self, other))

    def __rfloordiv__(self, other: Any) -> Tensor:
        return floor_divide(*reversed(promoted(self, other)))

    def floor_divide(self, other: Any) -> Tensor:
        """The quotient rounded down, in the common format; an integer divided by zero raises at
        realisation.

        >>> (Tensor([7, -7]) // 2).tolist()
        [3, -4]
        """
        return self // other

    def __mod__(self, other: Any) -> Tensor:
        return binary(Ops.MOD, *numbers(self, other))

    def __rmod__(self, other: Any) -> Tensor:
        return binary(Ops.MOD, *numbers(self, other), True)

    def remainder(self, other: Any) -> Tensor:
        """self - other * (self // other): it has the divisor's sign. An integer's by zero raises at
        realisation; a float's by zero is NaN.

        >>> (Tensor([7, -7]) % 3).tolist(), Tensor([7, -7]).fmod(3).tolist()
        ([1, 2], [1, -1])
        """
        return self % other

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def fmod(self, other: Any) -> Tensor:
        """What is left by division toward zero, as C's `fmod`: it has the dividend's sign."""
        left, right = promoted(self, other)
        if left.dtype.kind == "float":
            rest = left.abs() % right.abs()
            made = choose(sign_bit(left), -rest, rest)
            return sloped(made, (left, made.ones_like()), (right, -(left / right).trunc()))
        rest = left % right
        return choose(rest.ne(0) & ((rest < 0) ^ (left < 0)), rest - right, rest)

    # --- powers -----------------------------------------------------------------------------------
    def __pow__(self, other: Any) -> Tensor:
        if isinstance(other, Handle | complex):
            left, right = promoted(self, other)
            kind = left.dtype.kind
            if kind == "complex":
                return left._meet(Ops.POW, right)
            return binary(Ops.POW, left, right) if kind == "float" else whole_power(left, right)
        exponent = as_scalar(other)
        common = weak_dtype(exponent, self.dtype, default_float())
        if common.kind != "float":
            if exponent < 0:
                what = f"an integer to the power of {exponent} is no integer"
                raise located(ValueRangeError(what), (self,))
            made = repeated(self.cast(common), int(exponent))
        elif (simple := SIMPLE_POWERS.get(exponent)) is not None:
            made = simple(self)
        else:
            made = binary(Ops.POW, self, float(exponent))
        return made.clone() if made is self else made

    def __rpow__(self, other: Any) -> Tensor:
        left, right = promoted(self, other)
        return right**left

    def pow(self, exponent: Any) -> Tensor:
        """self to the power of `exponent`: 2 ulp for floats. Integers wrap around; an integer to a
        negative one raises, at the call for a number and at realisation for a tensor.
        """
        return self**exponent

    def square(self) -> Tensor:
        """self * self; of bools int64."""
        made: Any = self.cast(dtypes.int64) if self.dtype is dtypes.bool else self
        return made * made

    def reciprocal(self) -> Tensor:
        """1 / self, in the default float for integers."""
        return 1 / self

    # --- comparisons ------------------------------------------------------------------------------
    __lt__ = lt = less = _operator(Ops.CMPLT, "Whether it is less.")
    eq = _operator(Ops.CMPEQ, "Whether both are equal.")
    ne = not_equal = _operator(Ops.CMPNE, "Whether they differ.")

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return binary(Ops.CMPEQ, self, other) if is_comparable(other) else NotImplemented

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return binary(Ops.CMPNE, self, other) if is_comparable(other) else NotImplemented

    def __gt__(self, other: Any) -> Tensor:
        """Whether it is greater: bool. Nothing is greater than NaN."""
        return binary(Ops.CMPLT, self, other, True)

    def __le__(self, other: Any) -> Tensor:
        """Whether it is less or equal: bool."""
        return (self < other) | self.eq(other)

    def __ge__(self, other: Any) -> Tensor:
        """Whether it is greater or equal: bool."""
        return (self > other) | self.eq(other)

    gt = greater = __gt__
    le = less_equal = __le__
    ge = greater_equal = __ge__

    # --- logic and bits ---------------------------------------------------------------------------
    def __and__(self, other: Any) -> Tensor:
        """Bits that both have; of bools, whether both hold. Floats have none (`DTypeError`)."""
        return binary(Ops.AND, *bits(self, other))

    def __or__(self, other: Any) -> Tensor:
        """Bits that one has; of bools, whether one holds. Floats have none (`DTypeError`)."""
        return binary(Ops.OR, *bits(self, other))

    def __xor__(self, other: Any) -> Tensor:
        """Bits that exactly one has; of bools, whether they differ. Floats have none
        (`DTypeError`).
        """
        return binary(Ops.XOR, *bits(self, other))

    __rand__ = bitwise_and = __and__
    __ror__ = bitwise_or = __or__
    __rxor__ = bitwise_xor = __xor__

    def __invert__(self) -> Tensor:
        """Every bit turned; of bools, whether it does not hold."""
        return self ^ (True if self.dtype is dtypes.bool else all_ones(self))

    bitwise_not = __invert__

    def __lshift__(self, other: Any) -> Tensor:
        """Bits moved up by `other` places: the width or more gives 0, a negative count raises."""
        return shift(Ops.SHL, *promoted(self, shift_count(self, other)))

    def __rshift__(self, other: Any) -> Tensor:
        """Bits moved down by `other` places, signed integers keeping their sign: the width or more
        gives 0, or -1 for a negative integer; a negative count raises.
        """
        return shift(Ops.SHR, *promoted(self, shift_count(self, other)))

    def __rlshift__(self, other: Any) -> Tensor:
        return shift(Ops.SHL, *reversed(promoted(self, other)))

    def __rrshift__(self, other: Any) -> Tensor:
        return shift(Ops.SHR, *reversed(promoted(self, other)))

    bitwise_left_shift, bitwise_right_shift = __lshift__, __rshift__

    def logical_not(self) -> Tensor:
        """Whether it is 0: bool."""
        return self.bool() ^ True

    def logical_and(self, other: Any) -> Tensor:
        """Whether neither is 0: bool."""
        return self.bool() & truth(other)

    def logical_or(self, other: Any) -> Tensor:
        """Whether one is not 0: bool."""
        return self.bool() | truth(other)

    def logical_xor(self, other: Any) -> Tensor:
        """Whether exactly one is 0: bool."""
        return self.bool() ^ truth(other)

    # --- choice -----------------------------------------------------------------------------------
    def where(self, condition: Any, other: Any) -> Tensor:
        """This tensor where the condition (a tensor of bools or uint8) holds, else `other`; all
        three are broadcast, and the formats of the two are promoted. A first argument of another
        format is chosen where this tensor, of bools then, holds.

        >>> Tensor([1, 2]).where(Tensor([True, False]), 0).tolist()
        [1, 0]
        >>> Tensor([True, False]).where(Tensor([1, 2]), 0).tolist()
        [1, 0]
        """
        if isinstance(condition, np.ndarray):
            condition = number_or_tensor(condition, self.device)
        if isinstance(condition, Handle) and condition.dtype in CONDITIONS:
            return choose(condition, self, other)
        return choose(self, condition, other)

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """Raised to `min`, then lowered to `max`, numbers or tensors, one of which may be None; NaN
        stays. Where x is a bound all of the gradient is its own.
        """
        if min is None and max is None:
            raise ValueRangeError("clamp needs min, max or both")
        return clamped(self, min, max, "clamp")

    clip = clamp

    @widely
    def lerp(self, end: Any, weight: Any) -> Tensor:
        """self + weight * (end - self); from the other side where the weight is 1/2 or more, so
        that a weight of 1 gives `end` exactly.
        """
        x, end = promoted(self, end)
        apart, weight = end - x, number_or_tensor(weight, self.device)
        near, far = x + apart * weight, end - apart * (1 - weight)
        if isinstance(weight, Handle):
            made, slopes = (weight.abs() < 0.5).where(near, far), [(weight, apart)]
        else:
            made, slopes = near if abs(weight) < 0.5 else far, []
            weight = apart.ones_like() * weight
        if made.dtype.kind != "float":
            return made
        return sloped(made, (x, 1 - weight), (end, weight), *slopes)  # as is: no inf - inf

    # --- formats ----------------------------------------------------------------------------------
    def cast(self, dtype: Any) -> Tensor:
        """In another format. Floats become integers by truncation, those beyond the ends become the
        ends, and NaN becomes 0; integers become narrower ones by dropping high bits; bool says what
        is not 0.

        >>> Tensor([1.9, -1.9, 300.0, float("nan")]).cast(dtypes.uint8).tolist()
        [1, 0, 255, 0]
        """
        if dtype is self.dtype:
            return self  # type: ignore[return-value]
        kind = kept_dtype(dtype)
        node = self._current() if self.dtype.kind == "packed" else self._operand()
        if node.dtype is kind:
            return self  # type: ignore[return-value]
        if kind.kind == "packed":
            return _packed(self, build.cast(node, kind))
        if kind.is_complex:
            return Handle._pairs.with_real(self.clone().cast(kind.part))
        requires = self.requires_grad and keeps_graphs() and kind.is_float
        depth = self._storage.depth + 1
        return make(build.cast(node, kind), self._storage.device, requires, depth=depth)

    def bitcast(self, dtype: Any) -> Tensor:
        """A view of the same bits in another format: writes to one are seen by the other. In one of
        another size the last axis grows or shrinks (`ShapeError` if that leaves a part of an
        element); the lowest bits come first.

        >>> Tensor(1.0).bitcast(dtypes.int32).item() == 127 << 23
        True
        >>> Tensor([1, 258], dtype=dtypes.int16).bitcast(dtypes.uint8).tolist()
        [1, 0, 2, 1]
        """
        kind = kept_dtype(dtype)
        if kind.is_complex:
            parts: Any = self.bitcast(kind.part)
            return parts.unflatten(-1, (-1, 2)).view_as_complex()
        smooth: Any = self if kind.is_float else self.detach()
        return view(smooth, "bitcast", kind)

    float, double, half = map(_cast, (dtypes.float32, dtypes.float64, dtypes.float16))
    bfloat16, cfloat, cdouble = map(_cast, (dtypes.bfloat16, dtypes.complex64, dtypes.complex128))
    byte, char, short = map(_cast, (dtypes.uint8, dtypes.int8, dtypes.int16))
    int, long, bool = map(_cast, (dtypes.int32, dtypes.int64, dtypes.bool))


def _packed(handle: Handle, node: UOp) -> Tensor:
    """A view of memory that holds the numbers of this node of `handle`, two in a byte."""
    count = product(shape_of(node))
    flat = build.pad(build.reshape(node, (count,)), ((0, count % 2),))
    held = make(build.bitcast(flat, dtypes.uint8), handle._storage.device)
    return unpacking(held, node)


def unpacking(held: Handle, like: UOp) -> Tensor:
    """What bytes hold as numbers of 4 bits: a view of the shape and the format of `like`."""
    shape = shape_of(like)
    box = (("shrink", ((0, product(shape)),)), ("reshape", shape))
    return viewed(held, (("bitcast", like.dtype), *box))
