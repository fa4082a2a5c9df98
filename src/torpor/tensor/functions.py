"""Functions of one element: exponentials, roots, rounding, tests, and activations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from torpor.base.dtypes import dtypes
from torpor.ir.ops import Ops
from torpor.tensor.division import floor_like
from torpor.tensor.handle import Handle, float_dtype, unary

if TYPE_CHECKING:
    from torpor.tensor.tensor import Tensor

# Klambauer et al., "Self-Normalizing Neural Networks" (2017), equation 14.
_SELU_ALPHA: Final = 1.6732632423543772848170429916717
_SELU_SCALE: Final = 1.0507009873554804934193349852946


def _floats(operand: Any) -> Tensor:
    return operand.cast(float_dtype(operand.dtype))


def _with_gradient_of(value: Tensor, twin: Tensor) -> Tensor:
    """`value` exactly, with the gradient of `twin`, which is the same function less exactly."""
    if not twin.requires_grad:
        return value
    finite = twin.detach().isfinite()
    return finite.where(value.detach() + (twin - twin.detach()), twin)


class Functions(Handle):
    """Functions of one element."""

    __slots__ = ()

    # --- exponentials and logarithms --------------------------------------------------------------
    def exp(self) -> Tensor:
        """Gives e to the power of it."""
        return unary(Ops.EXP, self)

    def exp2(self) -> Tensor:
        """2 to the power of it."""
        return unary(Ops.EXP2, self)

    def log(self) -> Tensor:
        """Natural logarithm."""
        return unary(Ops.LOG, self)

    def log2(self) -> Tensor:
        """Logarithm to base 2."""
        return unary(Ops.LOG2, self)

    def log10(self) -> Tensor:
        """Logarithm to base 10."""
        return unary(Ops.LOG2, self) * math.log10(2)

    def log1p(self) -> Tensor:
        """log(1 + x), exact near 0: log(u) x / (u-1) with u = 1 + x (Kahan; HP-15C handbook)."""
        x = _floats(self)
        u = x + 1
        plain = u.log()
        exact = (u.eq(1)).where(x, plain * (x / (u - 1)))
        return _with_gradient_of(u.isinf().where(plain, exact), plain)

    def expm1(self) -> Tensor:
        """exp(x) - 1, exact near 0: (u-1) x / log(u) with u = exp(x) (Kahan; HP-15C handbook)."""
        x = _floats(self)
        u = x.exp()
        less = u - 1
        exact = less * (x / u.log())
        value = (u.eq(1)).where(x, (less.eq(-1) | u.isinf()).where(less, exact))
        return _with_gradient_of(value, less)

    # --- roots and trigonometry -------------------------------------------------------------------
    def sqrt(self) -> Tensor:
        """Square root."""
        return unary(Ops.SQRT, self)

    def rsqrt(self) -> Tensor:
        """1 / sqrt(x)."""
        return 1 / self.sqrt()

    def sin(self) -> Tensor:
        """Sine of radians."""
        return unary(Ops.SIN, self)

    def cos(self) -> Tensor:
        """Cosine of radians."""
        return unary(Ops.COS, self)

    def tan(self) -> Tensor:
        """Tangent of radians."""
        return self.sin() / self.cos()

    def tanh(self) -> Tensor:
        """Hyperbolic tangent."""
        return unary(Ops.TANH, self)

    def sinh(self) -> Tensor:
        """Hyperbolic sine."""
        grown = _floats(self).expm1()
        return (grown + grown / (grown + 1)) * 0.5

    def cosh(self) -> Tensor:
        """Hyperbolic cosine."""
        return (self.exp() + (-self).exp()) * 0.5

    def erf(self) -> Tensor:
        """Error function."""
        return unary(Ops.ERF, self)

    # --- sign and rounding ------------------------------------------------------------------------
    def abs(self) -> Tensor:
        """Magnitude; its gradient at 0 is 0."""
        if self.dtype.kind not in ("int", "float"):
            return self  # type: ignore[return-value]
        larger = self.maximum(-self)
        return larger + 0.0 if self.dtype.kind == "float" else larger  # -0.0 becomes 0.0

    __abs__ = absolute = abs

    def sign(self) -> Tensor:
        """-1, 0 or 1; NaN stays."""
        if self.dtype.kind in ("uint", "bool"):
            return self.ne(0).cast(self.dtype)
        signs = (self > 0).cast(self.dtype) - (self < 0).cast(self.dtype)
        return self.isnan().where(self, signs) if self.dtype.kind == "float" else signs

    def floor(self) -> Tensor:
        """The greatest integer that is not above it."""
        return floor_like(Ops.FLOOR, self)

    def ceil(self) -> Tensor:
        """The least integer that is not below it."""
        if self.dtype.kind != "float":
            return floor_like(Ops.FLOOR, self)
        return -floor_like(Ops.FLOOR, -self)

    def trunc(self) -> Tensor:
        """Rounded toward zero."""
        return floor_like(Ops.TRUNC, self)

    def round(self, decimals: int = 0) -> Tensor:
        """Rounded to so many decimals; ties go to the even one."""
        if not decimals or self.dtype.kind != "float":
            return floor_like(Ops.RINT, self)
        scale = 10.0 ** abs(decimals)
        if decimals < 0:
            return floor_like(Ops.RINT, self / scale) * scale
        return floor_like(Ops.RINT, self * scale) / scale

    def frac(self) -> Tensor:
        """What truncation takes away."""
        return self - self.trunc()

    # --- tests ------------------------------------------------------------------------------------
    def isnan(self) -> Tensor:
        """Whether it is NaN."""
        return self.detach().ne(self.detach())

    def isinf(self) -> Tensor:
        """Whether it is infinite."""
        if self.dtype.kind != "float":
            return self.zeros_like(dtypes.bool)
        return self.detach().eq(math.inf) | self.detach().eq(-math.inf)

    def isfinite(self) -> Tensor:
        """Whether it is neither infinite nor NaN."""
        if self.dtype.kind != "float":
            return self.ones_like(dtypes.bool)
        return (self.detach() < math.inf) & (self.detach() > -math.inf)

    def nan_to_num(
        self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Tensor:
        """NaN and infinities replaced, by 0 and by the greatest finite numbers unless given."""
        if self.dtype.kind != "float":
            return self  # type: ignore[return-value]
        limit = float(_largest_float(self.dtype))
        made = self.isnan().where(nan, self)
        made = self.eq(math.inf).where(limit if posinf is None else posinf, made)
        return self.eq(-math.inf).where(-limit if neginf is None else neginf, made)

    # --- activations ------------------------------------------------------------------------------
    def relu(self) -> Tensor:
        """The greater of it and 0; its gradient at 0 is 0."""
        return self.maximum(0)

    def relu6(self) -> Tensor:
        """min(max(x, 0), 6)."""
        return self.relu().minimum(6)

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x)), without overflow on either side."""
        x = _floats(self)
        negative = x.detach() < 0
        decayed = negative.where(x, -x).exp()
        return negative.where(decayed, 1.0) / (decayed + 1)

    def logsigmoid(self) -> Tensor:
        """log(sigmoid(x))."""
        return -(-self).softplus()

    def silu(self) -> Tensor:
        """Gives x sigmoid(x)."""
        return self * self.sigmoid()

    swish = silu

    def mish(self) -> Tensor:
        """Gives x tanh(softplus(x))."""
        return self * self.softplus().tanh()

    def gelu(self, approximate: str = "none") -> Tensor:
        """Gives x times the normal distribution's cumulative function, or its "tanh" approximation.

        Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2.
        """
        if approximate == "tanh":
            inner = (self + 0.044715 * self * self * self) * math.sqrt(2 / math.pi)
            return 0.5 * self * (inner.tanh() + 1)
        if approximate != "none":
            raise ValueError(f"gelu's approximate is 'none' or 'tanh', not {approximate!r}")
        return 0.5 * self * ((self * math.sqrt(0.5)).erf() + 1)

    def quick_gelu(self) -> Tensor:
        """Gives x sigmoid(1.702 x)."""
        return self * (self * 1.702).sigmoid()

    def elu(self, alpha: float = 1.0) -> Tensor:
        """Gives x above 0, alpha (exp(x) - 1) below."""
        return (self > 0).where(self, self.minimum(0).expm1() * alpha)

    def celu(self, alpha: float = 1.0) -> Tensor:
        """Gives x above 0, alpha (exp(x / alpha) - 1) below."""
        return (self > 0).where(self, (self.minimum(0) / alpha).expm1() * alpha)

    def selu(self) -> Tensor:
        """Gives elu scaled so that activations keep mean 0 and variance 1."""
        return self.elu(_SELU_ALPHA) * _SELU_SCALE

    def leaky_relu(self, negative_slope: float = 0.01) -> Tensor:
        """Gives x above 0, negative_slope x below."""
        return (self > 0).where(self, self * negative_slope)

    def softplus(self, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
        """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""
        scaled: Any = self if beta == 1.0 else self * beta
        positive = scaled.maximum(0)
        smooth = positive + (scaled - positive * 2).exp().log1p()  # exp(-|beta x|) cannot overflow
        return (scaled > threshold).where(self, smooth if beta == 1.0 else smooth / beta)

    def softsign(self) -> Tensor:
        """Gives x / (1 + |x|)."""
        return self / (self.abs() + 1)

    def hardtanh(self, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
        """Clamped to [min_val, max_val]."""
        return self.clamp(min_val, max_val)

    def hardsigmoid(self) -> Tensor:
        """clamp(x / 6 + 1/2, 0, 1)."""
        return (self / 6 + 0.5).clamp(0, 1)

    def hardswish(self) -> Tensor:
        """Gives x clamp(x + 3, 0, 6) / 6."""
        return self * (self + 3).clamp(0, 6) / 6


def _largest_float(dtype: Any) -> float:
    """The greatest finite number of a float format: (2 - 2**-mantissa) * 2**exponent."""
    exponent = {"float16": 15, "bfloat16": 127, "float32": 127, "float64": 1023}[dtype.name]
    mantissa = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype.name]
    return (2.0 - 2.0**-mantissa) * 2.0**exponent
