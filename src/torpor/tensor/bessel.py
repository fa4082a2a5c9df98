"""Bessel functions that oscillate or decay, and Airy's function, by series of two or three ranges.

Abramowitz & Stegun 9.4 and 9.8 have the ranges, `bessel_series` the coefficients.
"""

from __future__ import annotations

import math
from typing import Any, Final

from torpor.tensor import bessel_series as series
from torpor.tensor.operands import sign_bit
from torpor.tensor.series import chebyshev
from torpor.tensor.special import grown, scaled_i0, scaled_i1

NEAR: Final = 8.0
TINY: Final = 1e-30  # below it the half of a float32 may be no normal number
LIFT: Final = 64  # as a power of 2 it makes a normal number of the least that there is
AIRY: Final = (-4.0, 2.0)


def _waves(size: Any, phase: Any, amplitude: Any, phase_part: Any) -> tuple[Any, Any]:
    """(P cos(w) - Q sin(w), P sin(w) + Q cos(w)) with w = phase - pi / 4, whose cosine and sine
    are taken of the phase itself: the difference would be rounded.
    """
    cosine, sine = phase.cos(), phase.sin()
    cosine, sine = (cosine + sine) * math.sqrt(0.5), (sine - cosine) * math.sqrt(0.5)
    t = size * size * 2 - 1
    p, q = chebyshev(t, amplitude), chebyshev(t, phase_part) * size
    return p * cosine - q * sine, p * sine + q * cosine


def _oscillating(size: Any, order: int) -> tuple[Any, Any]:
    """J and Y of order 0 or 1 of x from 0 on (A&S 9.2.5, 9.2.6): w is pi / 2 less at order 1."""
    x = size.minimum(NEAR)
    t = (x / NEAR).square() * 2 - 1
    j, y = ((series.J0, series.Y0), (series.J1, series.Y1))[order]
    first = chebyshev(t, j) * x**order
    second = chebyshev(t, y) * x**order + (x.log() * first - order / x) * (2 / math.pi)
    far = size.maximum(NEAR)
    parts = ((series.P0, series.Q0), (series.P1, series.Q1))[order]
    one, other = _waves(NEAR / far, far, *parts)
    one, other = (one, other) if order == 0 else (other, -one)
    scale = (far * (math.pi / 2)).rsqrt()
    near = size < NEAR
    return near.where(first, one * scale), near.where(second, other * scale)


def bessel_j(x: Any, order: int) -> Any:
    """J of order 0 or 1."""
    made, _ = _oscillating(x.abs(), order)
    return sign_bit(x).where(-made, made) if order else made


def bessel_y(x: Any, order: int) -> Any:
    """Y of order 0 or 1: -inf at 0, NaN below."""
    zero = x.eq(0)
    _, made = _oscillating(zero.where(1.0, x.abs()), order)
    return zero.where(-math.inf, (x < 0).where(math.nan, made))


def scaled_k(x: Any, order: int) -> Any:
    """exp(x) K(x) of order 0 or 1: infinite at 0, NaN below (A&S 9.8.5 to 9.8.8)."""
    near, far = ((series.K0, series.K0_FAR), (series.K1, series.K1_FAR))[order]
    low = x.eq(0).where(1.0, x).minimum(2)
    tiny = low < TINY  # half of which may be 0
    lifted = tiny.where(low * 2.0**LIFT, low)
    log = (lifted * 0.5).log() - tiny.cast(low.dtype) * (LIFT * math.log(2))
    log = log * grown(low, (scaled_i0, scaled_i1)[order])
    small = chebyshev(low * low * 0.5 - 1, near)
    small = (small / low + log if order else small - log) * low.exp()
    high = x.maximum(2)
    made = (x < 2).where(small, chebyshev(4 / high - 1, far) * high.rsqrt())
    return x.eq(0).where(math.inf, (x < 0).where(math.nan, made))


def bessel_k(x: Any, order: int) -> Any:
    """K of order 0 or 1."""
    return scaled_k(x, order) * (-x).exp()


def airy(x: Any) -> Any:
    """Airy's function Ai (DLMF 9.7.5 and 9.7.9 far from 0); NaN where x is infinite."""
    low, high = AIRY
    near = chebyshev((x.maximum(low).minimum(high) * 2 - (low + high)) / (high - low), series.AIRY)
    above, below = x.maximum(high), (-x).maximum(-low)
    least, phase = _phase(high), _phase(above)
    decayed = chebyshev(least / phase * 2 - 1, series.AIRY_FAR) * (-phase).exp()
    phase = _phase(below)
    one, _ = _waves(_phase(-low) / phase, phase, series.AIRY_P, tuple(-c for c in series.AIRY_Q))
    far = (x > 0).where(decayed * above.sqrt().rsqrt(), one * below.sqrt().rsqrt())
    made = ((x >= low) & (x <= high)).where(near, far)
    return x.isinf().where(math.nan, made)


def _phase(x: Any) -> Any:
    """2 / 3 x**1.5"""
    return x * x**0.5 * (2 / 3)
