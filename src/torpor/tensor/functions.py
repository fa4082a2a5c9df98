"""Functions of one element: exponentials, roots, rounding, tests, and activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError
from torpor.ir.ops import Ops
from torpor.tensor.annotated import Tensor
from torpor.tensor.division import floor_like
from torpor.tensor.handle import Handle, float_dtype, floats, make, unary, weak_constant, with_rule
from torpor.tensor.operands import clamped, need, sized, sloped
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import among, an_axis, whole_number, within
from torpor.tensor.wide import wide_dtype, widely

# Klambauer et al., "Self-Normalizing Neural Networks" (2017), equation 14.
_SELU_ALPHA: Final = 1.6732632423543772848170429916717
_SELU_SCALE: Final = 1.0507009873554804934193349852946


def _wide(operand: Any) -> Tensor:
    """In the format that functions of several steps are computed in."""
    return operand.cast(wide_dtype(float_dtype(operand.dtype)))


def _half_exp(x: Any) -> Tensor:
    """exp(x) / 2 of positive x, also where exp(x) itself is infinite: as exp(x - 64) exp(64) / 2,
    of which the difference is exact.
    """
    large = x > 64
    return large.where(x - 64, x).exp() * large.where(x.full_like(0.5 * math.exp(64)), 0.5)


def _sinh_near_0(x: Any) -> Tensor:
    """Taylor's series of sinh up to x**17 / 17!: exact in float64 where |x| is below 1."""
    square, made = x * x, 1.0
    for power in range(17, 1, -2):
        made = square * made * (1 / (power * (power - 1))) + 1.0
    return x * made


def _number(value: Any, like: Any) -> Any:
    """The number as a 0-d tensor of the other one's format."""
    return make(weak_constant(value, like.dtype), like.device)


def _op(op: Ops, text: str) -> Callable[[Any], Tensor]:
    """The method of an op."""

    def method(self: Any) -> Tensor:
        return unary(op, self)

    method.__name__, method.__doc__ = op.name.lower(), text
    return method


class Functions(Handle):
    """Functions of each element. The shape stays; floats keep their format, integers and bools
    become the default float first unless said otherwise. Bounds of errors are in units in the last
    place.
    """

    __slots__ = ()

    # --- exponentials and logarithms --------------------------------------------------------------
    exp = _op(Ops.EXP, "e to the power of x: 1 ulp (float64: 2).")
    exp2 = _op(Ops.EXP2, "2 to the power of x: 1 ulp (float64: 2).")
    log = _op(
        Ops.LOG, "Natural logarithm: 1 ulp (float64: 2). Negative numbers give NaN, 0 gives -inf."
    )
    log2 = _op(Ops.LOG2, "Logarithm to base 2: 1 ulp (float64: 2).")

    @widely
    def log10(self) -> Tensor:
        """Logarithm to base 10: log2(x) log10(2)."""
        return unary(Ops.LOG2, self) * math.log10(2)

    @widely
    def log1p(self) -> Tensor:
        """log(1 + x), exact near 0.

        By log(u) x / (u - 1) with u = 1 + x (Kahan; HP-15C Advanced Functions Handbook, 1982).

        >>> Tensor(1e-10).log1p().item() == Tensor(1e-10).item()
        True
        """
        x = floats(self)
        u = x + 1
        plain = u.log()
        exact = (u.eq(1)).where(x, plain * (x / (u - 1)))
        return sloped(u.isinf().where(plain, exact), (x, 1 / u))

    @widely
    def expm1(self) -> Tensor:
        """exp(x) - 1, exact near 0: 2 ulp.

        Below log 2 by its series, x (1 + x/2 (1 + x/3 (1 + …))), up to terms that no rounding sees.
        """
        x = floats(self)
        grown = x.exp()
        series: Any = 1.0
        for term in range(18 if x.dtype.bits == 64 else 11, 1, -1):
            series = series * x * (1 / term) + 1
        return sloped((x.abs() < math.log(2)).where(x * series, grown - 1), (x, grown))

    # --- roots and trigonometry -------------------------------------------------------------------
    sqrt = _op(Ops.SQRT, "Square root: 1 ulp. Negative numbers give NaN.")

    @widely
    def rsqrt(self) -> Tensor:
        """1 / sqrt(x)."""
        return 1 / self.sqrt()

    sin = _op(Ops.SIN, "Sine of radians: 1 ulp (float64: 2), for arguments of any size.")
    cos = _op(Ops.COS, "Cosine of radians: 1 ulp (float64: 2), for arguments of any size.")

    @widely
    def tan(self) -> Tensor:
        """Tangent of radians: sin(x) / cos(x)."""
        return self.sin() / self.cos()

    tanh = _op(Ops.TANH, "Hyperbolic tangent: 1 ulp (float64: 2).")

    @repeated
    def sinh(self) -> Tensor:
        """Hyperbolic sine: (exp(|x|) - exp(-|x|)) / 2 with x's sign, by its series near 0. It is
        infinite only where it is too large for the format.
        """
        x = _wide(self)
        size = x.abs()
        far = _half_exp(size) - (-size).exp() * 0.5
        near = _sinh_near_0((size < 1).where(x, 0))
        made = (size < 1).where(near, (x < 0).where(-far, far))
        return with_rule(made, (x,), "sinh").cast(float_dtype(self.dtype))

    @repeated
    def cosh(self) -> Tensor:
        """Hyperbolic cosine: (exp(x) + exp(-x)) / 2. It is infinite only where it is too large for
        the format.
        """
        x = _wide(self)
        size = x.abs()
        made = _half_exp(size) + (-size).exp() * 0.5
        return sloped(made, (x, x.sinh())).cast(float_dtype(self.dtype))

    erf = _op(
        Ops.ERF, "Error function, 2 / sqrt(pi) times the integral of exp(-t²) from 0 to x: 2 ulp."
    )

    # --- sign and rounding ------------------------------------------------------------------------
    def abs(self) -> Tensor:
        """Magnitude, in x's format; the least integer has none and stays. Its gradient at 0 is
        0.
        """
        if self.dtype.kind not in ("int", "float"):
            return self.clone()
        larger = self.maximum(-self)
        return larger + 0.0 if self.dtype.kind == "float" else larger  # -0.0 becomes 0.0

    __abs__ = absolute = abs

    def sign(self) -> Tensor:
        """-1, 0 or 1, in x's format; NaN stays."""
        if self.dtype.kind in ("uint", "bool"):
            return self.ne(0).cast(self.dtype)
        if self.dtype.kind != "float":
            return (self > 0).where(1, (self < 0).where(-1, self))
        x = self.detach() + 0.0  # -0.0 becomes 0.0
        return with_rule((x > 0).where(1, (x < 0).where(-1, x)), (self,), "step")

    def floor(self) -> Tensor:
        """The greatest integer that is not above x, in x's format."""
        return floor_like(Ops.FLOOR, self)

    def ceil(self) -> Tensor:
        """The least integer that is not below x, in x's format."""
        if self.dtype.kind != "float":
            return floor_like(Ops.FLOOR, self)
        return -floor_like(Ops.FLOOR, -self)

    def trunc(self) -> Tensor:
        """Rounded toward zero, in x's format."""
        return floor_like(Ops.TRUNC, self)

    fix = trunc

    def round(self, decimals: int = 0) -> Tensor:
        """Rounded to so many decimals (negative: to tens, hundreds, …), ties to even, in x's
        format.

        >>> Tensor([0.5, 1.5, 2.5]).round().tolist()
        [0.0, 2.0, 2.0]
        """
        if not decimals:
            return floor_like(Ops.RINT, self)
        need(self.dtype.is_float, f"decimals are for floats, not {self.dtype}", self)
        scale = 10.0 ** abs(whole_number(decimals))
        if decimals < 0:
            return floor_like(Ops.RINT, self / scale) * scale
        return floor_like(Ops.RINT, self * scale) / scale

    def frac(self) -> Tensor:
        """x - trunc(x), which has x's sign."""
        return self - self.trunc()

    # --- tests ------------------------------------------------------------------------------------
    def isnan(self) -> Tensor:
        """Whether x is NaN."""
        return self.detach().ne(self.detach())

    def isinf(self) -> Tensor:
        """Whether x is inf or -inf."""
        if self.dtype.kind != "float":
            return self.zeros_like(dtypes.bool)
        return self.detach().eq(math.inf) | self.detach().eq(-math.inf)

    def isfinite(self) -> Tensor:
        """Whether x is neither infinite nor NaN."""
        if self.dtype.kind != "float":
            return self.ones_like(dtypes.bool)
        return (self.detach() < math.inf) & (self.detach() > -math.inf)

    def nan_to_num(
        self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Tensor:
        """NaN replaced by `nan`, inf and -inf by `posinf` and `neginf` (None: the format's greatest
        and least finite numbers). Integers and bools stay.

        >>> Tensor([float("nan"), float("-inf"), 1.0]).nan_to_num(neginf=-9.0).tolist()
        [0.0, -9.0, 1.0]
        """
        if self.dtype.kind != "float":
            return self.clone()
        limit = self.dtype.largest
        made = self.isnan().where(nan, self)
        made = self.eq(math.inf).where(limit if posinf is None else posinf, made)
        return self.eq(-math.inf).where(-limit if neginf is None else neginf, made)

    # --- activations ------------------------------------------------------------------------------
    def relu(self) -> Tensor:
        """max(x, 0), in x's format; its gradient at 0 is 0."""
        return clamped(self, 0, None, "within")

    def relu6(self) -> Tensor:
        """min(max(x, 0), 6), in x's format; its gradient at 0 and 6 is 0."""
        return clamped(self, 0, 6, "within")

    @widely
    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x)), without overflow on either side."""
        x = floats(self)
        negative = x.detach() < 0
        decayed = negative.where(x, -x).exp()
        made = negative.where(decayed, 1.0) / (decayed + 1)
        return sloped(made, (x, decayed / (decayed + 1) ** 2))

    @widely
    def logsigmoid(self) -> Tensor:
        """log(sigmoid(x)), without overflow or underflow."""
        return -(-self).softplus(threshold=1000)  # from where on it is x in every format

    @widely
    def silu(self) -> Tensor:
        """x sigmoid(x). Elfwing, Uchibe and Doya, 2017, arXiv:1702.03118."""
        gate = self.sigmoid()
        return _gated(self, gate, gate * (1 - gate))

    swish = silu

    @widely
    def mish(self) -> Tensor:
        """x tanh(softplus(x)). Misra, 2019, arXiv:1908.08681."""
        gate = self.softplus().tanh()
        return _gated(self, gate, (1 - gate * gate) * self.sigmoid())

    @repeated
    def gelu(self, approximate: str = "none") -> Tensor:
        """x times the normal distribution's cumulative function of x, or its "tanh" approximation:
        x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³))).

        Hendrycks and Gimpel, 2016, arXiv:1606.08415, section 2.
        """
        among("gelu's approximate", approximate, "none", "tanh")
        x, dtype = _wide(self), float_dtype(self.dtype)
        if approximate == "tanh":
            bend = (x + 0.044715 * x * x * x) * math.sqrt(2 / math.pi)
            turn = bend.tanh()
            steep = (0.134145 * x * x + 1) * math.sqrt(0.5 / math.pi)
            return _gated(x, 0.5 * (turn + 1), (1 - turn * turn) * steep).cast(dtype)
        density = (-0.5 * x * x).exp() * math.sqrt(0.5 / math.pi)
        return _gated(x, 0.5 * ((x * math.sqrt(0.5)).erf() + 1), density).cast(dtype)

    @widely
    def quick_gelu(self) -> Tensor:
        """x sigmoid(1.702 x): another approximation of `gelu`, from the same paper."""
        return self * (self * 1.702).sigmoid()

    @widely
    def elu(self, alpha: float = 1.0) -> Tensor:
        """x above 0, alpha (exp(x) - 1) below. Clevert et al., 2015, arXiv:1511.07289."""
        return _elu(self, alpha, 1.0, alpha)

    @widely
    def celu(self, alpha: float = 1.0) -> Tensor:
        """x above 0, alpha (exp(x / alpha) - 1) below. Barron, 2017, arXiv:1704.07483."""
        return _elu(self, alpha, 1 / alpha, 1.0)

    @widely
    def selu(self) -> Tensor:
        """`elu` scaled so that activations keep mean 0 and variance 1. Klambauer et al., 2017,
        arXiv:1706.02515, equation 14.
        """
        return self.elu(_SELU_ALPHA) * _SELU_SCALE

    @widely
    def leaky_relu(self, negative_slope: float = 0.01) -> Tensor:
        """x above 0, negative_slope x below."""
        return (self > 0).where(self, self * negative_slope)

    @widely
    def softplus(self, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
        """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""
        scaled: Any = self if beta == 1.0 else self * beta
        positive = scaled.maximum(0)
        smooth = positive + (scaled - positive * 2).exp().log1p()  # exp(-|beta x|) cannot overflow
        made = (scaled > threshold).where(self, smooth if beta == 1.0 else smooth / beta)
        numbers = _number(beta, made), _number(threshold, made)
        return with_rule(made, (self.cast(made.dtype), *numbers), "softplus")

    @widely
    def tanhshrink(self) -> Tensor:
        """x - tanh(x)."""
        return self - self.tanh()

    def hardshrink(self, lambd: float = 0.5) -> Tensor:
        """x, 0 where |x| is `lambd` or less."""
        return ((self >= -lambd) & (self <= lambd)).where(0, self)

    def softshrink(self, lambd: float = 0.5) -> Tensor:
        """x moved towards 0 by `lambd`, 0 where |x| is no more than it."""
        within("lambd", lambd, 0)
        moved: Any = (self > lambd).where(self - lambd, self + lambd)
        return ((self >= -lambd) & (self <= lambd)).where(0, moved)

    def threshold(self, threshold: float, value: float) -> Tensor:
        """x above the threshold, else `value`."""
        return (self <= threshold).where(value, self).cast(self.dtype)

    def prelu(self, weight: Tensor) -> Tensor:
        """x above 0, weight x below: one weight, or one for each channel, axis 1."""
        if weight.shape == (1,):
            weight = weight.reshape(())
        elif weight.ndim:
            channels = self.shape[1:2] if self.ndim > 1 else (1,)
            sized(weight, channels, "a slope for each channel")
            weight = weight.reshape(-1, *(1,) * (self.ndim - 2))
        return (self > 0).where(self, weight * self)

    def glu(self, dim: int = -1) -> Tensor:
        """One half of an axis times the sigmoid of the other. Dauphin et al., 2016,
        arXiv:1612.08083.
        """
        size = self.shape[an_axis(dim, self)]
        if isinstance(size, int) and size % 2:
            raise ShapeError(f"glu needs an axis of even length, not {size}")
        one, other = self.chunk(2, dim)
        return one * other.sigmoid()

    @widely
    def softsign(self) -> Tensor:
        """x / (1 + |x|)."""
        return self / (self.abs() + 1)

    def hardtanh(self, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
        """x clamped to [min_val, max_val]; its gradient at these is 0."""
        within("min_val", min_val, -math.inf, max_val)
        if self.dtype.is_int:  # which bounds of its own format hold
            min_val, max_val = math.trunc(min_val), math.trunc(max_val)
        return clamped(self, min_val, max_val, "within")

    @widely
    def hardsigmoid(self) -> Tensor:
        """x / 6 + 1/2 clamped to [0, 1]: a piecewise linear `sigmoid`."""
        return clamped(self / 6 + 0.5, 0, 1, "between")

    @widely
    def hardswish(self) -> Tensor:
        """x times x + 3 clamped to [0, 6], divided by 6. Howard et al., 2019, arXiv:1905.02244."""
        made: Any = self * ((self + 3).maximum(0).minimum(6) / 6)
        return with_rule(made, (self.cast(made.dtype),), "hardswish")


def _gated(operand: Any, gate: Any, slope: Any) -> Tensor:
    """x g(x), of g and its slope: a gradient is multiplied once, so that of an infinite one is
    infinite, not the difference of two.
    """
    return sloped(operand * gate, (operand, gate + operand * slope))


def _elu(operand: Any, alpha: Any, inner: Any, slope: Any) -> Tensor:
    """x above 0, alpha (exp(inner x) - 1) below; its gradient is `slope` at 0."""
    below = operand.minimum(0)
    value = (operand > 0).where(operand, (below if inner == 1.0 else below * inner).expm1() * alpha)
    numbers = _number(slope, value), _number(inner, value)
    return with_rule(value, (operand.cast(value.dtype), *numbers), "elu")
