"""Functions of two elements, parts of floats, and tests of elements and of whole tensors."""

from __future__ import annotations

import math
import sys
from typing import Any, Final

from torpor.base.dtypes import dtypes, from_name
from torpor.base.errors import DTypeError, NoPartError, ShapeError, ValueRangeError
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.tensor.annotated import Tensor
from torpor.tensor.creation import beside
from torpor.tensor.handle import Handle, derive, float_dtype, floats, located, with_rule
from torpor.tensor.operands import choose, need, promoted, sign_bit, sloped
from torpor.tensor.repeated import repeated
from torpor.tensor.results import Scaled
from torpor.tensor.special import arc
from torpor.tensor.spelling import within
from torpor.tensor.wide import widely

VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12")  # of the array API standard
FEW: Final = 64  # elements that are looked for one by one


def _pair(left: Any, right: Any) -> tuple[Any, Any]:
    """Both in their common format, which is a float's, and in one shape."""
    one, other = promoted(left, right)
    dtype = float_dtype(one.dtype)
    shape = build.broadcast_shapes(one.shape, other.shape)
    return one.cast(dtype).expand(*shape), other.cast(dtype).expand(*shape)


def _bits_of(x: Any) -> Any:
    return derive(build.bitcast, (x.detach(),), from_name(f"int{x.dtype.bits}"))


class Numeric(Handle):
    """Functions of pairs of elements, which are broadcast and promoted as in arithmetic; tests;
    and what there is of complex numbers' functions for real ones.
    """

    __slots__ = ()

    # --- pairs ------------------------------------------------------------------------------------
    @widely
    def atan2(self, other: Any) -> Tensor:
        """The angle in [-pi, pi] of the point (other, self)."""
        y, x = _pair(self, other)
        rise, run = y.detach().abs(), x.detach().abs()
        scale = (rise.maximum(run) > rise.dtype.largest / 4).where(0.25, 1.0)
        rise, run = rise * scale, run * scale
        equal = rise.eq(run)  # both may be 0 or infinite
        made = arc((equal & rise.ne(0)).where(1, rise), equal.where(1, run))
        made = sign_bit(x).where(math.pi - made, made)
        square = x * x + y * y
        square = square.eq(0).where(1, square)  # at 0 the gradient is 0, as PyTorch's
        return sloped(sign_bit(y).where(-made, made), (y, x / square), (x, -y / square))

    arctan2 = atan2

    @widely
    def hypot(self, other: Any) -> Tensor:
        """sqrt(self² + other²), whose squares may be too large for the format."""
        x, y = _pair(self, other)
        one, two = x.detach().abs(), y.detach().abs()
        most = one.maximum(two)
        scale = (most.eq(0) | most.isinf()).where(1, most)
        made = ((one / scale).square() + (two / scale).square()).sqrt() * scale
        made = (one.isinf() | two.isinf()).where(math.inf, made)
        return with_rule(made, (x, y), "hypot")

    @widely
    def logaddexp(self, other: Any) -> Tensor:
        """log(exp(self) + exp(other)), without overflow."""
        x, y = _pair(self, other)
        top = x.maximum(y)
        added = (-(x - y).abs()).exp().log1p() + top
        return with_rule(x.eq(y).where(x + math.log(2), added).detach(), (x, y), "log_add")

    @widely
    def logaddexp2(self, other: Any) -> Tensor:
        """log2(2**self + 2**other), without overflow."""
        x, y = _pair(self, other)
        added = (-(x - y).abs()).exp2().log1p() / math.log(2) + x.maximum(y)
        made = x.eq(y).where(x + 1, added)
        slopes = [1 / ((other - one).exp2() + 1) for one, other in ((x, y), (y, x))]
        return sloped(made.detach(), (x, slopes[0]), (y, slopes[1]))

    @widely
    def xlogy(self, other: Any) -> Tensor:
        """self log(other), 0 where self is 0 and other is a number."""
        x, y = _pair(self, other)
        log = y.log()
        made = (x.eq(0) & ~y.isnan()).where(0, x * log)
        return sloped(made.detach(), (x, (x.eq(0) & (y <= 0)).where(0, log)), (y, x / y))

    def copysign(self, other: Any) -> Tensor:
        """The magnitude of self with the sign of other."""
        x, y = _pair(self, other)
        turned = sign_bit(x) ^ sign_bit(y)
        factor = choose(x.eq(0), 0.0, choose(turned, x.full_like(-1.0), 1.0))
        return sloped(choose(turned, -x, x).detach(), (x, factor), flat=(y,))

    @repeated
    def nextafter(self, other: Any) -> Tensor:
        """The next number of the format from self towards other."""
        x, y = _pair(self, other)
        bits = _bits_of(x)
        step = ((x < y) ^ sign_bit(x)).where(bits + 1, bits - 1)
        least = choose(x < y, bits.full_like(1), bits.dtype.min + 1)
        made = derive(build.bitcast, (x.eq(0).where(least, step),), x.dtype)
        made = x.eq(y).where(y, (x.isnan() | y.isnan()).where(math.nan, made)).detach()
        return sloped(made, (x, x.ne(y)), flat=(y,))

    def ldexp(self, other: Any) -> Tensor:
        """self times 2**other."""
        x, power = _pair(self, other)
        return x * power.exp2()

    def float_power(self, exponent: Any) -> Tensor:
        """self to the power of the exponent, in float64."""
        raised = exponent.cast(dtypes.float64) if isinstance(exponent, Handle) else float(exponent)
        return self.cast(dtypes.float64) ** raised

    def fmax(self, other: Any) -> Tensor:
        """The greater of both; the other one where one is NaN."""
        return _beside_nan(self, other, Ops.MAX)

    def fmin(self, other: Any) -> Tensor:
        """The lesser of both; the other one where one is NaN."""
        return _beside_nan(self, other, Ops.MIN)

    def heaviside(self, values: Any) -> Tensor:
        """0 below 0, 1 above, and `values` at 0."""
        x, at = promoted(self, values)
        step = (x > 0).cast(x.dtype)
        return choose(x.eq(0), at, choose(x.isnan(), x, step)).detach()

    @repeated
    def gcd(self, other: Any) -> Tensor:
        """The greatest common divisor of integers, by Euclid's algorithm."""
        x, y = promoted(self, other)
        need(x.dtype.is_int, f"only integers have common divisors, not {x.dtype}", self)
        dtype = x.dtype
        unsigned = from_name(f"uint{dtype.bits}")
        x, y = x.abs().cast(unsigned), y.abs().cast(unsigned)
        for _ in range(math.ceil(dtype.bits * 1.4405)):  # Lamé's bound
            x, y = choose(y.eq(0), x, y), x % y.maximum(1)
        return x.cast(dtype)

    @repeated
    def lcm(self, other: Any) -> Tensor:
        """The least common multiple of integers."""
        x, y = promoted(self, other)
        return (x // x.gcd(y).maximum(1) * y).abs()

    def clamp_min(self, min: Any) -> Tensor:
        """Raised to `min`, as `clamp`."""
        return self.clamp(min)

    def clamp_max(self, max: Any) -> Tensor:
        """Lowered to `max`, as `clamp`."""
        return self.clamp(None, max)

    # --- parts of numbers -------------------------------------------------------------------------
    @repeated
    def frexp(self) -> Scaled:
        """(mantissa, exponent): mantissa 2**exponent is x, and |mantissa| in [0.5, 1) unless x is
        0, infinite or NaN; the exponent is int32.
        """
        x: Any = self
        need(x.dtype.is_float, f"only floats have a mantissa, not {x.dtype}", self)
        size = x.dtype.fraction
        bias = (1 << (x.dtype.bits - size - 2)) - 1
        tiny = x.detach().abs() < 2.0 ** (2 - bias)
        bits = _bits_of(tiny.where(x * 2.0 ** (size + 2), x))
        field = (2 * bias + 1) << size
        whole = x.detach().ne(0) & x.isfinite()
        exponent = ((bits & field) >> size).cast(dtypes.int32) + (1 - bias)
        exponent = whole.where(tiny.where(exponent - (size + 2), exponent), 0)
        bits = (bits & (-1 - field)) | ((bias - 1) << size)
        mantissa = whole.where(derive(build.bitcast, (bits,), x.dtype), x.detach())
        return Scaled(sloped(mantissa, (x, (-exponent).cast(x.dtype).exp2())), exponent)

    def sgn(self) -> Tensor:
        """As `sign`."""
        return self.sign()

    def angle(self) -> Tensor:
        """pi of negative numbers, 0 of others, NaN of NaN."""
        x: Any = floats(self).detach()
        made = (x < 0).where(math.pi, x.isnan().where(x, 0.0))
        return with_rule(made, (self,), "step") if self.dtype.is_float else made

    def conj(self) -> Tensor:
        """Itself: every format is a real one."""
        return self  # type: ignore[return-value]

    conj_physical = conj

    @property
    def real(self) -> Tensor:
        """Itself: every format is a real one."""
        return self  # type: ignore[return-value]

    @property
    def imag(self) -> Tensor:
        """Of complex numbers only; `DTypeError` for real ones, as in PyTorch."""
        raise located(NoPartError("only complex numbers have an imag; it would be 0"), (self,))

    @property
    def H(self) -> Tensor:
        """The (conjugate) transpose of a matrix."""
        return self.T.conj()

    def adjoint(self) -> Tensor:
        """The (conjugate) transposes of a stack of matrices."""
        return self.mT.conj()

    mH = property(adjoint)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """`torpor.array_api`: the functions of the array API standard."""
        if api_version not in (None, *VERSIONS):
            raise ValueRangeError(f"the array API's versions are {VERSIONS}, not {api_version!r}")
        return sys.modules["torpor"].array_api  # the roof knows; no room below imports it

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """As `to`: the standard's name."""
        return self.to(device)

    # --- tests ------------------------------------------------------------------------------------
    def signbit(self) -> Tensor:
        """Whether the sign is a minus, also that of -0.0."""
        return sign_bit(self)

    def isposinf(self) -> Tensor:
        """Whether x is inf."""
        return self.isinf() & (self > 0)

    def isneginf(self) -> Tensor:
        """Whether x is -inf."""
        return self.isinf() & (self < 0)

    def isreal(self) -> Tensor:
        """True: every format is a real one."""
        return self.ones_like(dtype=dtypes.bool)

    def is_complex(self) -> bool:
        """Whether the format is a complex one."""
        return self.is_pair

    def complex(self, imag: Any) -> Tensor:
        """The complex numbers of these real parts and those imaginary ones, in one float format."""
        return Handle._pairs.of(self, imag).clone()

    def polar(self, angle: Any) -> Tensor:
        """The complex numbers of these magnitudes and those angles."""
        turn = beside(angle, self)
        return (self * turn.cos()).complex(self * turn.sin())

    def view_as_real(self) -> Tensor:
        """(...) of complex numbers as (..., 2) of floats: a tensor of its own."""
        raise located(DTypeError(f"view_as_real is for complex numbers, not {self.dtype}"), (self,))

    def view_as_complex(self) -> Tensor:
        """(..., 2) of floats as (...) of complex numbers: a view.

        >>> Tensor([[1.0, 2.0]]).view_as_complex().tolist()
        [(1+2j)]
        """
        if not self.ndim or self.shape[-1] != 2:
            raise located(ShapeError("view_as_complex needs a last axis of 2"), (self,))
        return Handle._pairs.of(self.select(-1, 0), self.select(-1, 1))

    def is_nonzero(self) -> bool:
        """Whether the only element is not 0, computed at the call."""
        return bool(self)

    def is_signed(self) -> bool:
        """Whether the format has negative numbers."""
        return self.dtype.kind in ("int", "float", "complex")

    def is_same_size(self, other: Tensor) -> bool:
        """Whether both have the same shape."""
        return self.shape == other.shape

    def isclose(
        self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> Tensor:
        """Whether |self - other| <= atol + rtol |other|, or both are equal."""
        within("rtol", rtol, 0)
        within("atol", atol, 0)
        x, y = promoted(self, beside(other, self))
        wide = x.dtype if x.dtype.kind in ("float", "complex") else dtypes.float64
        near = (x.cast(wide) - y.cast(wide)).abs() <= y.cast(wide).abs() * rtol + atol
        made = x.eq(y) | (near & x.isfinite() & y.isfinite())
        return made | (x.isnan() & y.isnan()) if equal_nan else made

    def allclose(
        self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> bool:
        """Whether all elements are close, as `isclose`: computed at the call."""
        return bool(self.isclose(other, rtol, atol, equal_nan).all())

    def equal(self, other: Tensor) -> bool:
        """Whether both have the same shape and elements: computed at the call."""
        return self.shape == other.shape and bool(self.eq(other).all())

    def isin(self, test_elements: Any, assume_unique: bool = False, invert: bool = False) -> Tensor:
        """Whether each element is one of others; with `invert` whether it is none of them.

        >>> Tensor([1, 2, 3]).isin(Tensor([3, 1])).tolist()
        [True, False, True]
        """
        x, known = promoted(self, beside(test_elements, self))
        flat = known.reshape(-1)
        count = flat.shape[0]
        if not isinstance(count, int) or count <= FEW:
            made = x.unsqueeze(-1).eq(flat).any(-1)
        else:
            ordered = flat.sort().values
            place = Handle._type.searchsorted(ordered, x).minimum(count - 1)
            made = ordered.take(place).eq(x)
        return ~made if invert else made


def _beside_nan(left: Any, right: Any, op: Ops) -> Any:
    x, y = promoted(left, beside(right, left))
    first = (x >= y) if op is Ops.MAX else (x <= y)
    return choose(first | y.isnan(), x, y)
