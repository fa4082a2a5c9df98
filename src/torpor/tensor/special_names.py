"""PyTorch's `torch.special` by its names: methods of `Tensor`, and what is made of them.

Functions of each element but for softmaxes: the shape stays, those of two operands are broadcast,
or it is a `ShapeError`. Floats keep their format, integers become the default float. What lies
outside of a function's domain gives NaN.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, Final

from torpor.base.missing import names_of
from torpor.tensor.bessel import airy, bessel_j, bessel_k, bessel_y, scaled_k
from torpor.tensor.creation import as_tensor
from torpor.tensor.handle import Handle, floats, with_rule
from torpor.tensor.namespace import function_of
from torpor.tensor.operands import choose, promoted, sloped
from torpor.tensor.special import (
    ROOT_OF_PI,
    bessel_one,
    inverse_erfc,
    over,
    scaled_erfc,
    scaled_i0,
    scaled_i1,
)
from torpor.tensor.special import zeta as hurwitz_zeta
from torpor.tensor.spelling import spell
from torpor.tensor.tensor import Tensor
from torpor.tensor.wide import widely

# Methods, and what they are called here.
METHODS: Final = {
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2",
    "expit": "sigmoid", "expm1": "expm1", "gammainc": "igamma",
    "gammaincc": "igammac", "gammaln": "lgamma", "i0": "i0", "log1p": "log1p",
    "log_softmax": "log_softmax", "logit": "logit", "logsumexp": "logsumexp",
    "modified_bessel_i0": "i0", "multigammaln": "mvlgamma",
    "polygamma": "polygamma", "psi": "digamma", "round": "round", "sinc": "sinc",
    "softmax": "softmax", "xlogy": "xlogy",
}  # fmt: skip
globals().update({name: function_of(method) for name, method in METHODS.items()})

ROOT_OF_TWO: Final = math.sqrt(2)
ROOT_OF_TWO_PI: Final = math.sqrt(2 * math.pi)


# --- probability ----------------------------------------------------------------------------------
@widely
def entr(input: Tensor) -> Tensor:
    """-x log x, 0 at 0, -inf below."""
    x = floats(input)
    at = x.detach()
    return sloped((at < 0).where(-math.inf, -at.xlogy(at)), (x, -x.log() - 1))


@widely
def xlog1py(input: Tensor, other: Any) -> Tensor:
    """x log(1 + y), 0 where x is 0 and y is no NaN."""
    x, y = promoted(as_tensor(input), other)
    x, y = map(floats, Tensor.broadcast_tensors(x, y))
    zero, log = x.eq(0), y.log1p()
    made = (zero & ~y.isnan()).where(0, x * log)
    return sloped(made.detach(), (x, (zero & (y <= -1)).where(0, log)), (y, x / (y + 1)))


def _of_floats(text: str, value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Any:
    """A function of each element, and its slope."""

    def function(input: Any) -> Tensor:
        x = floats(as_tensor(input))
        return sloped(value(x.detach()), (x, slope(x)))

    function.__doc__ = f"{text}."
    return widely(function)


def _erfcx(x: Any) -> Any:
    far = scaled_erfc(x.abs())
    return (x < 0).where((x * x).exp() * 2 - far, far)


erfcx = _of_floats("exp(x²) erfc(x)", _erfcx, lambda x: x * _erfcx(x) * 2 - 2 / ROOT_OF_PI)


@widely
def ndtr(input: Tensor) -> Tensor:
    """The share of the normal distribution below x."""
    return (floats(input) / -ROOT_OF_TWO).erfc() / 2


def _log_ndtr(x: Any) -> Any:
    low = x < -1
    near = ((low.where(0, x) / ROOT_OF_TWO).erfc() * -0.5).log1p()
    below = low.where(x, -1.0)
    far = (scaled_erfc(below / -ROOT_OF_TWO) * 0.5).log() - below * below / 2
    return low.where(far, near)


@widely
def log_ndtr(input: Tensor) -> Tensor:
    """log(ndtr(x)), also far below 0."""
    x = floats(input)
    low = x < -1
    below = scaled_erfc(low.where(x, -1.0) / -ROOT_OF_TWO)
    bell = (x * x / -2).exp() / (low.where(0, x) / -ROOT_OF_TWO).erfc()
    return sloped(_log_ndtr(x.detach()), (x, low.where(1 / below, bell) * (2 / ROOT_OF_TWO_PI)))


@widely
def ndtri(input: Tensor) -> Tensor:
    """x of which `ndtr` is the input: infinite at 0 and 1, NaN beyond."""
    x = floats(input) * 2 - 1
    given = floats(input).detach()
    share = (given * 2).minimum(2 - given * 2)
    tail = (share > 0) & (share < 0.5)
    far = inverse_erfc(tail.where(share, 0.5))
    value = tail.where((given < 0.5).where(-far, far), x.detach().erfinv())
    return with_rule(value, (x,), "erfinv") * ROOT_OF_TWO


# --- gamma family and Bessel functions ------------------------------------------------------------
@widely
def zeta(input: Any, other: Any) -> Tensor:
    """Hurwitz's zeta(x, q): the sum of (q + k)**-x over k from 0 on, of x > 1 and q > 0; infinite
    where x is 1 and where q is 0 or a whole number below.
    """
    s, q = as_tensor(input), as_tensor(other)
    made: Any = hurwitz_zeta(floats(s), floats(q))
    pole = s.eq(1) | ((q <= 0) & q.eq(q.floor()) & (s > 1))
    return pole.where(math.inf, ((s < 1) | (q <= 0)).where(math.nan, made))


i0e = _of_floats("exp(-|x|) I0(x)", scaled_i0, lambda x: scaled_i1(x) - x.sign() * scaled_i0(x))


@widely
def i1e(input: Tensor) -> Tensor:
    """exp(-|x|) I1(x)."""
    return scaled_i1(floats(input))


@widely
def i1(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    return bessel_one(floats(input))


modified_bessel_i1 = i1


bessel_j0 = _of_floats(
    "The Bessel function of the first kind of order 0",
    lambda x: bessel_j(x, 0), lambda x: -bessel_j(x, 1),
)  # fmt: skip
bessel_j1 = _of_floats(
    "The Bessel function of the first kind of order 1",
    lambda x: bessel_j(x, 1), lambda x: bessel_j(x, 0) - over(bessel_j(x, 1), x),
)  # fmt: skip
bessel_y0 = _of_floats(
    "The Bessel function of the second kind of order 0: -inf at 0, NaN below",
    lambda x: bessel_y(x, 0), lambda x: -bessel_y(x, 1),
)  # fmt: skip
bessel_y1 = _of_floats(
    "The Bessel function of the second kind of order 1: -inf at 0, NaN below",
    lambda x: bessel_y(x, 1), lambda x: bessel_y(x, 0) - bessel_y(x, 1) / x,
)  # fmt: skip
modified_bessel_k0 = _of_floats(
    "The modified Bessel function of the second kind of order 0: infinite at 0, NaN below",
    lambda x: bessel_k(x, 0), lambda x: -bessel_k(x, 1),
)  # fmt: skip
modified_bessel_k1 = _of_floats(
    "The modified Bessel function of the second kind of order 1: infinite at 0, NaN below",
    lambda x: bessel_k(x, 1), lambda x: -bessel_k(x, 0) - bessel_k(x, 1) / x,
)  # fmt: skip
scaled_modified_bessel_k0 = _of_floats(
    "exp(x) K0(x)", lambda x: scaled_k(x, 0), lambda x: scaled_k(x, 0) - scaled_k(x, 1)
)
scaled_modified_bessel_k1 = _of_floats(
    "exp(x) K1(x)", lambda x: scaled_k(x, 1),
    lambda x: scaled_k(x, 1) - scaled_k(x, 0) - scaled_k(x, 1) / x,
)  # fmt: skip


@widely
def spherical_bessel_j0(input: Tensor) -> Tensor:
    """sin(x) / x: 1 at 0, 0 where x is infinite."""
    x = floats(input)
    zero = x.eq(0)
    return zero.where(1 - x * x / 6, x.isinf().where(0, x.sin() / zero.where(1, x)))


@widely
def airy_ai(input: Tensor) -> Tensor:
    """Airy's function Ai, which, as in PyTorch, has no gradient, and is NaN where x is infinite."""
    return airy(floats(input).detach())


# --- polynomials ----------------------------------------------------------------------------------
def _polynomial(
    text: str, first: Callable[[Any], Any], step: Callable[[int], tuple[float, float, float]],
    shifted: bool = False,
) -> Any:  # fmt: skip
    """P of degree n: P0 = 1, P1 = `first`, P(k+1) = (a x + b) P(k) - c P(k-1) with `step`(k)."""

    def polynomial(input: Any, n: Any) -> Tensor:
        x = floats(as_tensor(input))
        x = x * 2 - 1 if shifted else x
        one = not isinstance(n, Handle) or not n.ndim
        degrees: Any = int(n) if one else n
        if not one:
            x, degrees = promoted(x, n)
        most = degrees if one else int(degrees.amax()) if degrees.numel() else -1
        made = before = x.zeros_like()
        now = x.ones_like()
        for k in range(most + 1):
            made = now if one else choose(degrees.trunc().eq(k), now, made)
            a, b, c = step(k)
            before, now = now, first(x) if k == 0 else (x * a + b) * now - before * c
        return made if one else made.expand_as(made + degrees)

    polynomial.__doc__ = f"{text}, by their recurrence; 0 for degrees n below 0."
    return widely(polynomial)


_FIRST: Final[dict[str, Callable[[Any], Any]]] = {
    "t": lambda x: x, "u": lambda x: 2 * x, "v": lambda x: 2 * x - 1, "w": lambda x: 2 * x + 1,
}  # fmt: skip
for _kind, _first in _FIRST.items():
    for _before, _is_shifted in (("", False), ("shifted_", True)):
        globals()[f"{_before}chebyshev_polynomial_{_kind}"] = _polynomial(
            f"Chebyshev's {_before}polynomials {_kind.upper()}", _first,
            lambda k: (2, 0, 1), _is_shifted,
        )  # fmt: skip
hermite_polynomial_h = _polynomial(
    "Hermite's polynomials H", lambda x: 2 * x, lambda k: (2, 0, 2 * k)
)
hermite_polynomial_he = _polynomial("Hermite's polynomials He", lambda x: x, lambda k: (1, 0, k))
laguerre_polynomial_l = _polynomial(
    "Laguerre's polynomials", lambda x: 1 - x,
    lambda k: (-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1)),
)  # fmt: skip
legendre_polynomial_p = _polynomial(
    "Legendre's polynomials", lambda x: x, lambda k: ((2 * k + 1) / (k + 1), 0, k / (k + 1))
)

_OWN: Final = """
    airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 entr erfcx hermite_polynomial_h
    hermite_polynomial_he i0e i1 i1e laguerre_polynomial_l legendre_polynomial_p log_ndtr
    modified_bessel_i1 ndtr ndtri xlog1py zeta
    modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1
    spherical_bessel_j0
    """
for _name, _made in [*globals().items()]:
    if getattr(_made, "__name__", "") in ("function", "polynomial"):
        _made.__name__ = _name
_CHEBYSHEV: Final = [name for name in globals() if "chebyshev_polynomial" in name]
__all__ = [*METHODS, *_OWN.split(), *_CHEBYSHEV]
spell(sys.modules[__name__])
__getattr__ = names_of("special", lambda: __all__)
