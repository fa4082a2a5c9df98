"""Inverse trigonometric and hyperbolic functions, and special functions, of each element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from torpor.base.errors import ValueRangeError
from torpor.tensor.annotated import Tensor
from torpor.tensor.handle import Handle, floats, with_rule
from torpor.tensor.incomplete_gamma import share
from torpor.tensor.operands import sign_bit, sloped
from torpor.tensor.series import (
    ATAN,
    ERF,
    ERFC,
    ERFINV,
    I0,
    I0_FAR,
    I1,
    I1_FAR,
    LGAMMA,
    chebyshev,
    stirling,
)
from torpor.tensor.spelling import whole_number
from torpor.tensor.wide import widely

TURN: Final = math.tan(math.pi / 8)  # from where on atan is turned by pi / 4
ROOT_OF_PI: Final = math.sqrt(math.pi)
LARGE: Final = 2.0**30  # squares of larger numbers hide 1 in every format
RISEN: Final = 10  # from where on the series of digamma and zeta hold
# B(2k) / 2k and B(2k) / (2k)!: Bernoulli's numbers
DIGAMMA: Final = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
ZETA: Final = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)


def _signed(size: Any, x: Any) -> Any:
    """The size with the sign of x."""
    return sign_bit(x).where(-size, size)


def arc(y: Any, x: Any) -> Any:
    """The angle in [0, pi / 2] at which (x, y) lies, neither negative, whose sum the format has:
    turned by pi / 2 or pi / 4 where the tangent is beyond 1 / `TURN` or `TURN`; the rest by a
    series.
    """
    turned, far = y > x * TURN, y > x * (1 / TURN)
    above, below = turned.where(y - x, y), turned.where(y + x, x)
    rest = far.where(-x, above) / far.where(y, below)
    made = rest * chebyshev(rest * rest * (2 / TURN**2) - 1, ATAN)
    return far.where(made + math.pi / 2, turned.where(made + math.pi / 4, made))


def _erfc(x: Any) -> Any:
    """erfc(x) of x from 0 on: exp(-x²) where x² is h² + (x - h) (x + h), h having few bits, as a
    sum and what it was rounded by.
    """
    short = (x * 16).trunc() / 16
    whole, part = short * short, (x - short) * (x + short)
    square = whole + part
    decayed = (-square).exp() * (1 - (part - (square - whole)))
    return (x < 28).where(decayed * scaled_erfc(x), x.isnan().where(x, 0))


def scaled_erfc(x: Any) -> Any:
    """exp(x²) erfc(x) of x from 0 on."""
    far = x.eq(math.inf)
    near = far.where(0, x)
    return far.where(0, chebyshev((near - 3.75) / (near + 3.75), ERFC) / (near * 2 + 1))


class Special(Handle):
    """Functions of each element, as `Functions`: floats keep their format, integers and bools
    become the default float first.
    """

    __slots__ = ()

    # --- angles -----------------------------------------------------------------------------------
    @widely
    def atan(self) -> Tensor:
        """The angle in (-pi / 2, pi / 2) whose tangent is x."""
        x = floats(self)
        size = x.detach().abs()
        return sloped(_signed(arc(size, size.full_like(1.0)), x), (x, 1 / (x * x + 1)))

    @widely
    def asin(self) -> Tensor:
        """The angle in [-pi / 2, pi / 2] whose sine is x; NaN beyond 1."""
        x = floats(self)
        rest = ((1 - x) * (1 + x)).sqrt()
        return sloped(_signed(arc(x.detach().abs(), rest.detach()), x), (x, 1 / rest))

    @widely
    def acos(self) -> Tensor:
        """The angle in [0, pi] whose cosine is x; NaN beyond 1."""
        x = floats(self)
        rest = ((1 - x) * (1 + x)).sqrt()
        made = arc(rest.detach(), x.detach().abs())
        return sloped((x < 0).where(math.pi - made, made), (x, -1 / rest))

    arctan, arcsin, arccos = atan, asin, acos

    def deg2rad(self) -> Tensor:
        """Degrees as radians."""
        return floats(self) * (math.pi / 180)

    def rad2deg(self) -> Tensor:
        """Radians as degrees."""
        return floats(self) * (180 / math.pi)

    @widely
    def sinc(self) -> Tensor:
        """sin(pi x) / (pi x), 1 at 0."""
        square = self * self
        zero = square.eq(0)
        angle = zero.where(1, floats(self)) * math.pi
        near = square * -(math.pi**2 / 6) + 1  # what its slopes at 0 are those of
        made, x = zero.where(near, angle.sin() / angle), floats(self)
        slope = zero.where(x * -(math.pi**2 / 3), (angle.cos() - made) / angle * math.pi)
        return sloped(made, (x, slope))

    # --- hyperbolic functions' inverses -----------------------------------------------------------
    @widely
    def asinh(self) -> Tensor:
        """The number whose hyperbolic sine is x: log(x + sqrt(x² + 1)), exact near 0."""
        x = floats(self)
        size = x.detach().abs()
        large = size > LARGE
        s = large.where(1.0, size)
        near = (s + s * s / ((s * s + 1).sqrt() + 1)).log1p()
        made = large.where(size.log() + math.log(2), near)
        return sloped(_signed(made, x), (x, (x * x + 1).rsqrt()))

    @widely
    def acosh(self) -> Tensor:
        """The positive number whose hyperbolic cosine is x; NaN below 1."""
        x = floats(self)
        large = x.detach() > LARGE
        above = large.where(1.0, x.detach()) - 1
        near = (above + (above * (above + 2)).sqrt()).log1p()
        made = large.where(x.detach().log() + math.log(2), near)
        made = (x < 1).where(math.nan, made)
        return sloped(made, (x, ((x - 1) * (x + 1)).rsqrt()))

    @widely
    def atanh(self) -> Tensor:
        """The number whose hyperbolic tangent is x: infinite at 1, NaN beyond."""
        x = floats(self)
        size = x.detach().abs()
        return sloped(_signed((size * 2 / (1 - size)).log1p() / 2, x), (x, 1 / ((1 - x) * (1 + x))))

    arcsinh, arccosh, arctanh = asinh, acosh, atanh

    # --- error functions --------------------------------------------------------------------------
    @widely
    def erfc(self) -> Tensor:
        """1 - erf(x), also where erf(x) is all but 1."""
        x = floats(self)
        size = x.detach().abs()
        near, far = 1 - x.detach() * chebyshev(x.detach().square() * 8 - 1, ERF), _erfc(size)
        made = (size < 0.5).where(near, (x < 0).where(2 - far, far))
        return sloped(made, (x, (-x * x).exp() * (-2 / ROOT_OF_PI)))

    @widely
    def erfinv(self) -> Tensor:
        """The number whose error function is x: infinite at 1, NaN beyond."""
        x = floats(self)
        size = x.detach().abs()
        end = size.eq(1)
        w = -((1 - size) * (size + 1)).log()
        t = end.where(0, w) / (w + 12) * (2 * 48.25 / 36.25) - 1
        made = _signed(end.where(math.inf, size * chebyshev(t, ERFINV)), x)
        return with_rule(made, (x,), "erfinv")

    @widely
    def logit(self, eps: float | None = None) -> Tensor:
        """log(x / (1 - x)), NaN beyond 0 and 1; with `eps`, of x raised to eps, and where it is no
        less lowered to 1 - eps.
        """
        x = floats(self)
        if eps is None:
            inside = ((x >= 0) & (x <= 1)).where(x, math.nan)
        else:
            x = inside = (x < eps).where(eps, (x > 1 - eps).where(1 - eps, x))
        known = inside.detach()
        return sloped((known / (1 - known)).log(), (x, 1 / (inside * (1 - inside))))

    # --- gamma functions --------------------------------------------------------------------------
    @widely
    def lgamma(self) -> Tensor:
        """log(|gamma(x)|): infinite at 0, -1, -2, …

        By gamma(x + 1) = x gamma(x) down to [1, 2], Stirling's series from 8 on, and reflection.
        """
        x = floats(self)
        mirrored = x.detach() < 0
        size = mirrored.where(1 - x.detach(), x.detach())
        tiny = size < 1
        y, factor = tiny.where(size + 1, size).minimum(8), size.full_like(1.0)
        for _ in range(6):
            y, factor = (y > 2).where(y - 1, y), (y > 2).where(factor * (y - 1), factor)
        one, two = tiny.where(size, y - 1), tiny.where(size - 1, y - 2)  # size + 1 is rounded
        near = factor.log() + one * two * chebyshev(y * 2 - 3, LGAMMA)
        near = tiny.where(near - size.log(), near)
        large = size.maximum(8)
        far = (large - 0.5) * (large.log() - 1) + stirling(large) + (math.log(2 * math.pi) - 1) / 2
        value = (size < 8).where(near, size.eq(math.inf).where(size, far))
        part = (x.detach() - x.detach().round()).abs()  # exact, also beside a pole
        sine = (part < 2.0**-30).where(part, (part * math.pi).sin() / math.pi)  # subnormal
        shadow = -sine.log() - value
        value = mirrored.where(part.eq(0).where(math.inf, shadow), value)
        return sloped(x.detach().eq(-math.inf).where(math.inf, value), (x, x.digamma()))

    @widely
    def digamma(self) -> Tensor:
        """The slope of log(gamma(x)): NaN at -1, -2, …, infinite at 0."""
        x = floats(self)
        given, x = x, x.detach()
        mirrored = x < 0
        size = mirrored.where(1 - x, x)
        y, shift = size, 0.0
        for _ in range(RISEN):
            low = y < RISEN
            y, shift = low.where(y + 1, y), low.where(shift - 1 / y, shift)
        inverse, series = 1 / (y * y), 0.0
        for coefficient in reversed(DIGAMMA):
            series = (series + coefficient) * inverse
        made = y.log() - 0.5 / y - series + shift
        whole = x.eq(x.floor())
        angle = (mirrored & ~whole).where(x.round() - x, 0.5) * math.pi  # exact beside a pole
        turned = whole.where(math.nan, made + math.pi * angle.cos() / angle.sin())
        made = mirrored.where(turned, made)
        made = x.eq(0).where(_signed(x.full_like(-math.inf), x), made)
        return sloped(made, (given, slope_of_digamma(given)))

    @widely
    def polygamma(self, n: int) -> Tensor:
        """The n-th derivative of `digamma`: (-1)**(n + 1) n! zeta(n + 1, x), of negative x by
        reflection.
        """
        if isinstance(n, Handle):  # as in PyTorch, the order may come first: polygamma(n, x)
            return n.polygamma(self.item())
        n = whole_number(n)
        if n == 0:
            return self.digamma()
        if n < 0:
            raise ValueRangeError(f"polygamma is of order 0 or more, not {n}")
        return slope_of_digamma(floats(self), n)

    @widely
    def mvlgamma(self, p: int) -> Tensor:
        """The logarithm of the gamma function of p dimensions, of x > (p - 1) / 2."""
        if p < 1:
            raise ValueRangeError(f"mvlgamma is of 1 dimension or more, not {p}")
        x = floats(self)
        total = sum(((x - 0.5 * place).lgamma() for place in range(1, p)), x.lgamma())
        return total + p * (p - 1) / 4 * math.log(math.pi)

    @widely
    def igamma(self, other: Any) -> Tensor:
        """The share of gamma(a) that its integral has from 0 to x, `other`: P(a, x)."""
        return share(self, other, upper=False)

    @widely
    def igammac(self, other: Any) -> Tensor:
        """The share of gamma(a) that its integral has beyond x, `other`: Q(a, x)."""
        return share(self, other, upper=True)

    # --- Bessel functions -------------------------------------------------------------------------
    @widely
    def i0(self) -> Tensor:
        """The modified Bessel function of the first kind of order 0."""
        x = floats(self)
        return sloped(grown(x.detach(), scaled_i0), (x, bessel_one(x)))


def slope_of_digamma(x: Any, n: int = 1) -> Any:
    """The n-th derivative of `digamma`, n >= 1: infinite at 0, -1, -2, …

    Of negative x from that at 1 - x and the n-th derivative of pi cot(pi x), which is pi**(n + 1)
    times a polynomial in c = cot(pi x), since c' = -pi (1 + c**2).
    """
    mirrored = x < 0
    made = zeta(n + 1, mirrored.where(1 - x, x)) * ((-1) ** (n + 1) * math.factorial(n))
    part = mirrored.where(x, 0.5)
    near = part - part.round().detach()
    cosine = ((0.5 - near.abs()) * math.pi).sin()  # exact where it is 0, as that of pi / 2 is not
    cotangent = near.eq(0).where(math.inf, cosine / (near * math.pi).sin())
    powers = np.polynomial.Polynomial([0, 1])
    for _ in range(n):
        powers = powers.deriv() * np.polynomial.Polynomial([-1, 0, -1])
    derived, *rest = reversed(powers.coef.tolist())
    for factor in rest:
        derived = derived * cotangent + factor
    return mirrored.where((-1) ** n * made - derived * math.pi ** (n + 1), made)


def _scaled_bessel(size: Any, near: Any, far: Any, factor: Any) -> Any:
    """One series up to 8, and one divided by sqrt(x) beyond."""
    large = size > 8
    small = chebyshev(large.where(8.0, size) / 4 - 1, near) * factor
    x = large.where(size, 8.0)
    return large.where(chebyshev(16 / x - 1, far) * x.rsqrt(), small)


def scaled_i0(x: Any) -> Any:
    """exp(-|x|) I0(x)."""
    return _scaled_bessel(x.abs(), I0, I0_FAR, 1.0)


def scaled_i1(x: Any) -> Any:
    """exp(-|x|) I1(x)."""
    size = x.abs()
    made = _signed(_scaled_bessel(size, I1, I1_FAR, size), x.detach())
    return sloped(made.detach(), (x, scaled_i0(x) - over(made, x) - x.sign() * made))


def over(made: Any, x: Any) -> Any:
    """I1(x) / x or J1(x) / x, 1/2 at 0."""
    return x.eq(0).where(0.5, made / x.eq(0).where(1, x))


def grown(x: Any, scaled: Callable[[Any], Any]) -> Any:
    """exp(|x|) times a scaled function of x."""
    size = x.abs()
    half = (size * 0.5).exp()  # exp(x) itself may be infinite before the result is
    return size.eq(math.inf).where(_signed(size, scaled(x)), half * (half * scaled(x)))


def bessel_one(x: Any) -> Any:
    """The modified Bessel function of order 1."""
    return grown(x, scaled_i1)


def inverse_erfc(x: Any) -> Any:
    """The number whose `erfc` is x, from above 0 to 1 / 2: Newton's method for the logarithms, from
    about what erf is of, by the logarithm of one minus its square (Winitzki, 2008).
    """
    log = x.log()
    of_square = log + (1 - x).log1p()
    part = of_square / 2 + 2 / (math.pi * 0.147)
    guess = ((part * part - of_square / 0.147).sqrt() - part).sqrt()
    for _ in range(3 if x.dtype.itemsize > 4 else 2):
        scaled = scaled_erfc(guess)
        guess = guess + (scaled.log() - guess * guess - log) * scaled * (math.sqrt(math.pi) / 2)
    return guess


def zeta(s: Any, x: Any) -> Any:
    """Hurwitz's zeta(s, x) of positive x by the formula of Euler and Maclaurin."""
    total = 0.0
    for step in range(RISEN):
        total = total + (x + step) ** -s
    y = x + RISEN
    total = total + y ** (1 - s) / (s - 1) + y**-s * 0.5
    factor = s
    for place, coefficient in enumerate(ZETA):
        total = total + y ** (-s - 2 * place - 1) * (factor * coefficient)
        factor = factor * (s + 2 * place + 1) * (s + 2 * place + 2)
    return total
