"""Windows that parts of a signal are multiplied with: sums of cosines, triangles, Kaiser's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, ValueRangeError
from torpor.tensor.creation import chosen
from torpor.tensor.mode import default_float
from torpor.tensor.tensor import Tensor


def _window(
    count: int, periodic: bool, dtype: Any, options: Any, shape: Callable[[Any], Any]
) -> Any:
    """`shape` of places from 0 to 1, (count,): of the ends of a `periodic` window one is left out,
    as it is the next one's first. In float64, rounded once.
    """
    kind = chosen(dtype, default_float())
    if not kind.is_float:
        raise DTypeError(f"a window has a float format, not {kind}")
    if count < 0:
        raise ValueRangeError(f"a window has 0 numbers or more, not {count}")
    asked = options.pop("requires_grad", False)
    steps = max(count if periodic else count - 1, 1)
    places = Tensor.arange(count, dtype=dtypes.float64, **options) / steps
    made = shape(places) if count > 1 else places + 1
    return made.cast(kind).requires_grad_() if asked else made.cast(kind)


def general_cosine_window(
    window_length: int, a: Sequence[float], periodic: bool = True, *, dtype: Any = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    """(window_length,): a[0] - a[1] cos(2 pi t) + a[2] cos(4 pi t) - …, t from 0 to 1; a `periodic`
    one leaves its end out. `device` and `requires_grad` as of other makers.
    """

    def shape(t: Any) -> Any:
        waves = (t * (2 * math.pi * place) for place in range(len(a)))
        return sum(wave.cos() * ((-1) ** n * a[n]) for n, wave in enumerate(waves))

    return _window(window_length, periodic, dtype, options, shape)


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """sin(pi t)², t from 0 to 1: (window_length,).

    >>> hann_window(4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return general_cosine_window(window_length, (0.5, 0.5), periodic, **options)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46,
    **options: Any,
) -> Tensor:  # fmt: skip
    """alpha - beta cos(2 pi t), t from 0 to 1: (window_length,)."""
    return general_cosine_window(window_length, (alpha, beta), periodic, **options)


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t), t from 0 to 1: (window_length,)."""
    return general_cosine_window(window_length, (0.42, 0.5, 0.08), periodic, **options)


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, **options: Any
) -> Tensor:
    """A triangle: 1 - |2 t - 1|, t from 0 to 1: (window_length,)."""
    return _window(window_length, periodic, dtype, options, lambda t: 1 - (t * 2 - 1).abs())


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None,
    **options: Any,
) -> Tensor:  # fmt: skip
    """I0(beta sqrt(1 - (2 t - 1)²)) / I0(beta), t from 0 to 1: (window_length,)."""

    def shape(t: Any) -> Any:
        inside = (1 - (t * 2 - 1).square()).clamp(0).sqrt() * beta
        return inside.i0() / Tensor(float(beta), dtypes.float64).i0()

    return _window(window_length, periodic, dtype, options, shape)
