"""Arithmetic of complex tensors, through their real and imaginary parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, NoReturn

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError
from torpor.base.promotion import complex_of, promote
from torpor.ir.ops import Ops
from torpor.tensor.complex_functions import angle, divide, magnitude, multiply, power
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, located, with_rule
from torpor.tensor.nested import holds_complex
from torpor.tensor.pairs import NUMBERS, Pair, as_complex, paired, parts_of
from torpor.tensor.tensor import Tensor

OPERANDS: Final = (Handle, np.ndarray, *NUMBERS)


def _meeting(op: Ops, swapped: bool = False, text: str | None = None) -> Callable[[Any, Any], Any]:
    """The method `x op y`; swapped: `y op x`."""

    def method(self: Any, other: Any) -> Tensor:
        return self._meet(op, other, swapped)

    method.__doc__ = text
    return method


class Complex(Pair):
    """A tensor of complex numbers: what `Tensor` gives for complex data."""

    __slots__ = ()

    # --- parts, signs and tests -------------------------------------------------------------------
    def abs(self) -> Tensor:
        """|z|: real. Its gradient at 0 is 0."""
        return magnitude(self._re, self._im)

    absolute = __abs__ = abs

    def angle(self) -> Tensor:
        """The angle in [-pi, pi]: real."""
        return angle(self._re, self._im)

    def sgn(self) -> Tensor:
        """z / |z|, 0 of 0."""
        size = self.abs()
        zero = size.eq(0)
        return zero.where(0, self) / zero.where(1, size)

    def isinf(self) -> Tensor:
        """Whether a part is infinite."""
        return self._re.isinf() | self._im.isinf()

    def isfinite(self) -> Tensor:
        """Whether both parts are finite."""
        return self._re.isfinite() & self._im.isfinite()

    # --- arithmetic -------------------------------------------------------------------------------
    def _current(self) -> Any:
        return self._node

    _operand = _current

    def __lt__(self, other: Any) -> NoReturn:
        raise located(DTypeError("complex numbers have no order; compare abs(), real or imag"),
                      (self, other))  # fmt: skip

    __le__ = __gt__ = __ge__ = lt = le = gt = ge = less = less_equal = greater = __lt__
    greater_equal = __lt__

    def _meet(self, op: Ops, other: Any, swapped: bool = False) -> Any:
        """`self op other`, where the other one may be real; with `swapped`, `other op self`."""
        if not isinstance(other, OPERANDS):
            what = f"a tensor cannot be combined with {type(other).__name__} {other!r}"
            raise located(DTypeError(what), (self,))
        if op in _SCALES and not (swapped and op is Ops.FDIV) and (
            other.imag == 0 if isinstance(other, NUMBERS) else not holds_complex(other)
        ):  # fmt: skip
            factor = _real_beside(other, self)
            pair: Any = self.cast(complex_of(factor.dtype)) if isinstance(factor, Handle) else self
            return pair.by_parts(lambda part: part * factor if op is Ops.MUL else part / factor)
        left, right = _promoted(self, other)
        if swapped:
            left, right = right, left
        if op not in _OPERATIONS:
            what = "this operation does not take complex numbers"
            raise located(DTypeError(what), (left, right))
        return _OPERATIONS[op](left, right)

    __add__ = __radd__ = _meeting(Ops.ADD)
    __sub__, __rsub__ = _meeting(Ops.SUB), _meeting(Ops.SUB, True)
    __mul__ = __rmul__ = _meeting(Ops.MUL)
    __truediv__, __rtruediv__ = _meeting(Ops.FDIV), _meeting(Ops.FDIV, True)
    __rpow__ = _meeting(Ops.POW, True)

    def __pow__(self, other: Any) -> Tensor:
        """z^w; whole numbers up to 64 by products."""
        number = complex(other) if isinstance(other, NUMBERS) else math.nan
        if number.imag == 0 and number.real.is_integer() and abs(number) <= 64:
            made = _repeated(self, abs(int(number.real)))
            return made.reciprocal() if number.real < 0 else made
        return self._meet(Ops.POW, other)

    eq = _meeting(Ops.CMPEQ, text="Whether both parts are equal.")
    ne = not_equal = _meeting(Ops.CMPNE, text="Whether a part differs.")

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return self.eq(other) if isinstance(other, OPERANDS) else NotImplemented

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return self.ne(other) if isinstance(other, OPERANDS) else NotImplemented

    __hash__ = Handle.__hash__

    def logaddexp(self, other: Any) -> Tensor:
        """log(exp(self) + exp(other)), without overflow."""
        x, y = _promoted(self, beside(other, self._re))
        above = x._re.detach() >= y._re.detach()
        most, least = above.where(x, y), above.where(y, x)
        return most + (least - most).exp().log1p()

    def float_power(self, exponent: Any) -> Tensor:
        """self to the power of the exponent, in complex128."""
        return self.cast(dtypes.complex128) ** exponent

    def ldexp(self, other: Any) -> Tensor:
        """self times 2**other."""
        return self * beside(other, self._re).exp2()

    # --- sums and products ------------------------------------------------------------------------
    def prod(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
        """The product over an axis, or of all elements, by halves."""
        made: Any = self if dtype is None else self.cast(dtype)
        if dim is None:
            whole = made.reshape(-1).prod(0)
            return whole.reshape((1,) * self.ndim) if keepdim else whole
        if not made.ndim:
            return made.clone()
        made = made.movedim(dim, 0)
        while made.shape[0] > 1:
            half = made.shape[0] // 2
            rest = made[2 * half :]
            made = made[:half] * made[half : 2 * half]
            made = Tensor.cat([made, rest]) if rest.shape[0] else made
        whole = made[0].clone() if made.shape[0] else made.sum(0) + 1
        return whole.unsqueeze(dim) if keepdim else whole

    def cumprod(self, dim: int, dtype: Any = None) -> Tensor:
        """The products of what is up to each element along an axis, by doubling."""
        made: Any = self if dtype is None else self.cast(dtype)
        made, reach = made.movedim(dim, 0).clone() if made.ndim else made.clone(), 1
        while made.ndim and reach < made.shape[0]:
            made = Tensor.cat([made[:reach], made[reach:] * made[:-reach]])
            reach *= 2
        return made.movedim(0, dim) if made.ndim else made

    def var(self, *arguments: Any, **options: Any) -> Tensor:
        """The mean of |z - mean|²: real; the variances of both parts, added."""
        return self._re.var(*arguments, **options) + self._im.var(*arguments, **options)

    def std(self, *arguments: Any, **options: Any) -> Tensor:
        """The square root of the variance."""
        return self.var(*arguments, **options).sqrt()

    def matmul(self, other: Any) -> Tensor:
        """Matrix products, as of real tensors."""
        return self._bilinear("matmul", other)

    def _bilinear(self, name: str, other: Any, *arguments: Any, **options: Any) -> Tensor:
        """A product that is linear in both operands, by four real ones."""
        left, right = _promoted(self, beside(other, self._re))

        def product(x: Any, y: Any) -> Any:
            return getattr(x, name)(y, *arguments, **options)

        (x, y), (u, v) = (left._re, left._im), (right._re, right._im)
        return paired(product(x, u) - product(y, v), product(x, v) + product(y, u))


# --- arithmetic -----------------------------------------------------------------------------------
_SCALES: Final = (Ops.MUL, Ops.FDIV)  # by a real number: of both parts alike


def _real_beside(other: Any, pair: Complex) -> Any:
    """A number as Python's real one, a real tensor in the format that it and the parts meet in."""
    if isinstance(other, NUMBERS):
        return float(other.real)
    tensor = beside(other, pair._re)
    return tensor.cast(promote(pair.dtype, tensor.dtype).part)


def _promoted(left: Complex, right: Any) -> tuple[Any, Any]:
    """Both complex in their common format; Python's numbers are weak."""
    if isinstance(right, np.ndarray):
        right = Tensor(right, device=left.device)
    if isinstance(right, Handle):
        other: Any = right
        common = promote(left.dtype, other.dtype)
        return left.cast(common), as_complex(other.cast(common.part if not other.is_pair
                                                        else common))  # fmt: skip
    x, y = parts_of(right)
    return left, SimpleNamespace(_re=x, _im=y)


def _both(left: Any, right: Any) -> tuple[Any, Any, Any, Any]:
    """Four parts; those of a number as 0-d tensors."""
    like = left if isinstance(left, Complex) else right
    parts = (left._re, left._im, right._re, right._im)
    x, y, u, v = (
        part if isinstance(part, Handle) else like._re.new_full((), part) for part in parts
    )
    return x, y, u, v


def _repeated(base: Any, exponent: int) -> Any:
    """base^exponent by squares; 1 for 0."""
    made = None
    while exponent:
        if exponent & 1:
            made = base if made is None else made * base
        exponent >>= 1
        base = base * base if exponent else base
    if made is None:  # whose gradient is 0
        return paired(*(with_rule(part, base._parts, "step") for part in base.ones_like()._parts))
    return made.clone() if made is base else made


_OPERATIONS: Final[dict[Ops, Callable[[Any, Any], Any]]] = {
    Ops.ADD: lambda x, y: paired(x._re + y._re, x._im + y._im),
    Ops.SUB: lambda x, y: paired(x._re - y._re, x._im - y._im),
    Ops.MUL: lambda x, y: paired(*multiply(x._re, x._im, y._re, y._im)),
    Ops.FDIV: lambda x, y: paired(*divide(*_both(x, y))),
    Ops.POW: lambda x, y: paired(*power(*_both(x, y))),
    Ops.CMPEQ: lambda x, y: x._re.eq(y._re) & x._im.eq(y._im),
    Ops.CMPNE: lambda x, y: x._re.ne(y._re) | x._im.ne(y._im),
}
