"""Functions of complex numbers as real functions of two parts: (x, y) stands for x + iy.

Branch cuts are those of C99 and NumPy; the inverse functions are W. Kahan's ("Branch cuts for
complex elementary functions", 1987), which lose no digits near the cuts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from torpor.tensor.repeated import repeated

Parts = tuple[Any, Any]
# From here on the inverse functions are their limits: what they lack, 1/|z|^2, is less than a bit.
FAR: Final = 2.0**27


def magnitude(x: Any, y: Any) -> Any:
    """|z|, whose squares may be too large for the format; the gradient at 0 is 0, as PyTorch's."""
    zero = x.eq(0) & y.eq(0)
    return zero.where(0, zero.where(1, x).hypot(y))


def angle(x: Any, y: Any) -> Any:
    """The angle in [-pi, pi]; the gradient at 0 is 0, as PyTorch's."""
    zero = (x.eq(0) & y.eq(0)).detach()
    return zero.where(y.detach().atan2(x.detach()), y.atan2(zero.where(1, x)))


def multiply(x: Any, y: Any, u: Any, v: Any) -> Parts:
    """(x + iy)(u + iv)."""
    return x * u - y * v, x * v + y * u


@repeated
def divide(x: Any, y: Any, u: Any, v: Any) -> Parts:
    """(x + iy) / (u + iv), scaled so that no square overflows; 0 of an infinite one."""
    most = u.detach().abs().maximum(v.detach().abs())
    scale = most.eq(0).where(1, most)
    u, v = (part.isinf().where(part.sign(), part / scale) for part in (u, v))
    below = u * u + v * v
    return (x * u + y * v) / below / scale, (y * u - x * v) / below / scale


def exp(x: Any, y: Any) -> Parts:
    """e^x (cos y + i sin y)."""
    size = x.exp()
    y = x.eq(-math.inf).where(0.0, y)  # what is nothing has any angle
    return size * y.cos(), (y.eq(0) & ~size.isfinite()).where(y, size * y.sin())


def log(x: Any, y: Any) -> Parts:
    """log|z| + i angle z; near |z| = 1 by what |z|² differs from 1, far from it of a quarter of z,
    for |z| itself may be infinite.
    """
    one, two = x.abs(), y.abs()
    most, least = one.maximum(two), one.minimum(two)
    near = ((most > 0.5) & (most < 2)).detach()
    part, rest = near.where(most, 1), near.where(least, 0)
    close = ((part - 1) * (part + 1) + rest * rest).log1p() / 2
    far = (most > 2.0**99).detach()
    size = near.where(1, far.where(x / 4, x)).hypot(far.where(y / 4, y)).log()
    return near.where(close, far.where(size + math.log(4), size)), y.atan2(x)


def sqrt(x: Any, y: Any) -> Parts:
    """The root in the right half plane."""
    right = x.detach() >= 0
    size = (magnitude(x, y) / 2 + right.where(x, -x) / 2).sqrt()
    turn = y.ones_like().copysign(y.detach())
    rest = y * turn / (size.eq(0).where(1, size) * 2)  # |y| has no slope at 0
    size, rest = (y.isinf().where(math.inf, part) for part in (size, rest))
    return right.where(size, rest), right.where(rest, size) * turn


def sinh(x: Any, y: Any) -> Parts:
    """sinh x cos y + i cosh x sin y."""
    return x.sinh() * y.cos(), _turning(x.cosh(), y)


def _turning(size: Any, y: Any) -> Any:
    """Gives size * sin y, where 0 times infinity is 0."""
    return (y.eq(0) & size.isinf()).where(y * size.sign(), size * y.sin())


def cosh(x: Any, y: Any) -> Parts:
    """cosh x cos y + i sinh x sin y."""
    return x.cosh() * y.cos(), _turning(x.sinh(), y)


def tanh(x: Any, y: Any) -> Parts:
    """With t = tanh x and s = tan y: (t (1 + s²) + i s (1 - t²)) / (1 + t² s²)."""
    t, s = x.tanh(), x.isinf().where(y.zeros_like().copysign(y), y.tan())
    below = 1 + (t * s).square()
    return t * (1 + s * s) / below, s / x.cosh().square() / below


def _far(x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """Whether z is `FAR`, log|2z| there, and z where it is not."""
    far = ((x.abs() > FAR) | (y.abs() > FAR)).detach()
    size = (far.where(x, 1) / 2).hypot(far.where(y, 1) / 2).log() + math.log(4)
    return far, size, far.where(1, x), far.where(1, y)


def asin(x: Any, y: Any) -> Parts:
    """Kahan's: from the roots of 1 - z and 1 + z."""
    far, size, u, v = _far(x, y)
    (a, b), (c, d) = sqrt(1 - u, -v), sqrt(1 + u, v)
    real, imag = u.atan2(a * c - b * d), (a * d - b * c).asinh()
    return far.where(x.atan2(y.abs()), real), far.where(size.copysign(y), imag)


def acos(x: Any, y: Any) -> Parts:
    """Kahan's: from the roots of 1 - z and 1 + z."""
    far, size, u, v = _far(x, y)
    (a, b), (c, d) = sqrt(1 - u, -v), sqrt(1 + u, v)
    real, imag = 2 * a.atan2(c), (c * b - d * a).asinh()
    return far.where(y.abs().atan2(x), real), far.where(size.copysign(-y), imag)


def acosh(x: Any, y: Any) -> Parts:
    """Kahan's: from the roots of z - 1 and z + 1."""
    far, size, u, v = _far(x, y)
    (a, b), (c, d) = sqrt(u - 1, v), sqrt(u + 1, v)
    return far.where(size, (a * c + b * d).asinh()), far.where(y.atan2(x), 2 * b.atan2(c))


def atanh(x: Any, y: Any) -> Parts:
    """log((1 + z) / (1 - z)) / 2; far away 1/z and a quarter of a turn."""
    far, _, u, v = _far(x, y)
    square = v * v
    sign = (u < 0).where(-1.0, 1.0)
    size = u * sign  # the logarithm of what is not less than 1 is exact
    real = (4 * size / ((1 - size).square() + square)).log1p() / 4
    beside = size.eq(1) & (v.abs() < 1e-9)  # whose square may be none
    near = beside.where(v.abs(), 1.0)
    real = beside.where(-(near / 2).log() / 2, real) * sign
    imag = (2 * v).atan2((1 - u) * (1 + u) - square) / 2
    quarter = y.full_like(math.pi / 2).copysign(y)
    inverse, _ = divide(x.ones_like(), x.zeros_like(), far.where(x, 1), far.where(y, 1))
    return far.where(inverse, real), far.where(quarter, imag)


def turned(function: Callable[[Any, Any], Parts]) -> Callable[[Any, Any], Parts]:
    """g with g(z) = -i f(iz): sin from sinh, tan from tanh, asin from asinh and so on."""

    def made(x: Any, y: Any) -> Parts:
        u, v = function(-y, x)
        return v, -u

    return made


def expm1(x: Any, y: Any) -> Parts:
    """e^z - 1, without cancellation near 0."""
    half = (y / 2).sin()
    return x.expm1() * y.cos() - 2 * half * half, x.exp() * y.sin()


def log1p(x: Any, y: Any) -> Parts:
    """log(1 + z), without cancellation near 0."""
    small = ((x.abs() < 0.5) & (y.abs() < 0.5)).detach()
    u, v = small.where(x, 0), small.where(y, 0)
    return small.where((u * (2 + u) + v * v).log1p() / 2, log(1 + x, y)[0]), y.atan2(1 + x)


@repeated
def power(x: Any, y: Any, u: Any, v: Any) -> Parts:
    """z^w = e^(w log z); 0 to the power of 0 is 1, to one with a positive real part 0."""
    zero = (x.eq(0) & y.eq(0)).detach()
    made = exp(*multiply(*log(zero.where(1, x), y), u, v))
    at_zero = (u.eq(0) & v.eq(0)).where(1.0, (u > 0).where(0.0, math.nan))
    return zero.where(at_zero, made[0]), zero.where(at_zero.isnan().where(math.nan, 0), made[1])


def scaled(function: Callable[[Any, Any], Parts], factor: float) -> Callable[[Any, Any], Parts]:
    """The function of z, times a number."""

    def made(x: Any, y: Any) -> Parts:
        u, v = function(x, y)
        return u * factor, v * factor

    return made


def _exp2(x: Any, y: Any) -> Parts:
    size, turn = x.exp2(), y * math.log(2)
    return size * turn.cos(), size * turn.sin()


def _sigmoid(x: Any, y: Any) -> Parts:
    """1 / (1 + exp(-z)), left of 0 exp(z) / (1 + exp(z)): what is small is exact."""
    left = x < 0
    sign = left.where(-1.0, 1.0)
    u, v = exp(-x * sign, -y * sign)
    return divide(left.where(u, 1.0), left.where(v, 0.0), 1 + u, v)


_OF_PARTS: Final[dict[str, Callable[[Any, Any], Parts]]] = {
    "exp": exp, "exp2": _exp2, "expm1": expm1, "log": log, "log1p": log1p,
    "log2": scaled(log, 1 / math.log(2)), "log10": scaled(log, 1 / math.log(10)),
    "sqrt": sqrt, "rsqrt": lambda x, y: divide(x * 0 + 1, y * 0, *sqrt(x, y)),
    "sinh": sinh, "cosh": cosh, "tanh": tanh,
    "sin": turned(sinh), "cos": lambda x, y: cosh(-y, x), "tan": turned(tanh),
    "asin": asin, "acos": acos, "atan": turned(atanh), "asinh": turned(asin), "acosh": acosh,
    "atanh": atanh, "sigmoid": _sigmoid,
}  # fmt: skip
FUNCTIONS: Final = {name: repeated(function) for name, function in _OF_PARTS.items()}
