"""Reductions of the elements where a mask holds, by the names of `torch.masked`, and of segments.

`mask` broadcasts to the input (None: all of it). What is masked out stands for the number that
changes nothing, so that a reduction of no element gives that: 0, 1 or an infinity (of integers the
end of the format), and NaN for means, medians and what `softmax` gives.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, Final

from torpor.base.dtypes import dtypes
from torpor.base.errors import ShapeError, ValueRangeError
from torpor.tensor.creation import as_tensor, beside
from torpor.tensor.handle import located
from torpor.tensor.spelling import among, one_axis, some_axes, spell
from torpor.tensor.tensor import Tensor

# What a masked element stands for in a method that takes an axis, or several.
REDUCTIONS: Final = {
    "sum": 0, "prod": 1, "amax": -math.inf, "amin": math.inf, "logsumexp": -math.inf,
}  # fmt: skip
PLACES: Final = {"argmax": -math.inf, "argmin": math.inf}
ALONG: Final = {
    "cumsum": 0, "cumprod": 1, "softmax": -math.inf, "log_softmax": -math.inf, "softmin": math.inf,
}  # fmt: skip
SEGMENTS: Final = {"sum": 0.0, "mean": math.nan, "max": -math.inf, "min": math.inf, "prod": 1.0}


def _filled(input: Any, mask: Any, fill: float, dtype: Any = None) -> Any:
    """The input, with a number where the mask does not hold."""
    x: Any = as_tensor(input)
    x = x if dtype is None else x.cast(dtype)
    if mask is None:
        return x
    if x.dtype is dtypes.bool:
        x = x.cast(dtypes.int64)
    if x.dtype.is_int and math.isinf(fill):
        fill = x.dtype.min if fill < 0 else x.dtype.max
    return as_tensor(mask).cast(dtypes.bool).where(x, fill)


def _over(name: str, fill: float) -> Callable[..., Tensor]:
    def function(
        input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
    ) -> Any:
        x = _filled(input, mask, fill, dtype)
        if name in PLACES:
            return getattr(x, name)(dim, keepdim).cast(x.dtype)
        if name != "prod":
            return getattr(x, name)(some_axes(dim, x.ndim), keepdim=keepdim)
        if dim is None:
            return x.prod(None, keepdim=keepdim)
        for axis in sorted(some_axes(dim, x.ndim))[::-1]:
            x = x.prod(axis, keepdim=keepdim)
        return x

    kind = ", in the input's format" if name in PLACES else ""
    function.__doc__ = f"`Tensor.{name}` of the elements where the mask holds{kind}."
    return _called(function, name)


def _along(name: str, fill: float) -> Callable[..., Tensor]:
    def function(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
        x = _filled(input, mask, fill, dtype)
        return (-x).softmax(dim) if name == "softmin" else getattr(x, name)(dim)

    function.__doc__ = f"`{name}` along an axis of the elements where the mask holds."
    return _called(function, name)


def _called(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    return function


sum, prod, amax, amin, logsumexp = (_over(name, fill) for name, fill in REDUCTIONS.items())
argmax, argmin = (_over(name, fill) for name, fill in PLACES.items())
cumsum, cumprod, softmax, log_softmax, softmin = (_along(*item) for item in ALONG.items())


def _count(x: Any, mask: Any, axes: tuple[int, ...]) -> Any:
    held = x.ones_like(dtype=dtypes.bool) if mask is None else as_tensor(mask).expand(x.shape)
    return held.count_nonzero(axes).reshape([1 if n in axes else s for n, s in enumerate(x.shape)])


def mean(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The mean of the elements where the mask holds; NaN if there is none.

    >>> rows, mask = Tensor([[1.0, 9.0], [3.0, 5.0]]), Tensor([[True, False], [True, True]])
    >>> torpor.masked.mean(rows, 1, mask=mask).tolist()
    [1.0, 4.0]
    """
    x = _filled(input, mask, 0, dtype)
    axes = some_axes(dim, x.ndim)
    made = x.sum(axes, True) / _count(x, mask, axes)
    return made if keepdim else made.squeeze(axes)


def var(
    input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: Any = None,
    keepdim: bool = False, dtype: Any = None, mask: Any = None,
) -> Any:  # fmt: skip
    """The variance of the elements where the mask holds: squares of what is left of them without
    their mean, divided by how many there are less `correction` (1; 0 if `unbiased` is False).
    """
    less = int(unbiased is not False) if correction is None else correction
    x = _filled(input, mask, 0, dtype)
    axes = some_axes(dim, x.ndim)
    squares = (x - mean(x, axes, keepdim=True, mask=mask)).square()
    made = _filled(squares, mask, 0).sum(axes, True)
    made = made / (_count(x, mask, axes) - less).clamp(min=0)
    return made if keepdim else made.squeeze(axes)


def std(input: Any, *arguments: Any, **options: Any) -> Any:
    """The root of `var`, whose arguments it takes."""
    return var(input, *arguments, **options).sqrt()


def median(
    input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The middle element in order along an axis, of two the lesser; NaN if there is none."""
    return _filled(input, mask, math.nan, dtype).nanmedian(dim, keepdim).values


def norm(
    input: Any, ord: Any = 2.0, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Any = None,
) -> Any:  # fmt: skip
    """The norm of vectors, with the `ord` of `linalg.vector_norm`."""
    x = _filled(input, mask, math.inf if float(ord) < 0 else 0, dtype)
    return x.norm(ord, some_axes(dim, x.ndim), keepdim)


def normalize(
    input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Any:
    """The elements where the mask holds, else 0, divided by their norm or by `eps`."""
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0, dtype) / size.clamp(min=eps)


def logaddexp(
    input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Any:
    """log(exp(input) + exp(other)), of each where its mask holds."""
    x, y = (
        _filled(input, input_mask, -math.inf, dtype),
        _filled(other, other_mask, -math.inf, dtype),
    )
    return x.logaddexp(y)


def segment_reduce(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None,
    axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """What is left of the segments that an axis of `data` is cut into: their "sum", "mean", "max",
    "min" or "prod", (*batch, segments, *rest) of (*batch, n, *rest).

    lengths: of the segments, (*batch, segments), n together, or their `offsets`, n last. `initial`
    comes before the first element, and is what a segment without one gives.

    >>> torpor.segment_reduce(Tensor([1.0, 2.0, 4.0]), "sum", lengths=Tensor([1, 0, 2])).tolist()
    [1.0, 0.0, 6.0]
    """
    x: Any = as_tensor(data)
    among("reduce", reduce, *SEGMENTS)
    if indices is not None or (lengths is None) is (offsets is None):
        raise ValueRangeError("segment_reduce takes either lengths or offsets")
    place = one_axis(axis, x.ndim)
    ends = beside(lengths, x).cumsum(-1) if offsets is None else beside(offsets, x)[..., 1:]
    if ends.ndim != place + 1 or ends.shape[:-1] != x.shape[:place]:
        what = f"segments along axis {axis} are of shape {(*x.shape[:place], 'segments')}"
        raise located(ShapeError(f"{what}, not {ends.shape}"), (x, ends))
    starts = Tensor.cat([ends.narrow(-1, 0, 1) * 0, ends.narrow(-1, 0, ends.shape[-1] - 1)], -1)
    row = Tensor.arange(x.shape[place], device=x.device)
    inside = (row >= starts.unsqueeze(-1)) & (row < ends.unsqueeze(-1))
    inside = inside.reshape(*inside.shape, *[1] * (x.ndim - place - 1))
    return _segments(x.unsqueeze(place), inside, reduce, place + 1, initial)


def _segments(x: Any, inside: Any, reduce: str, axis: int, initial: Any) -> Any:
    nothing = SEGMENTS[reduce] if initial is None else initial
    if reduce == "mean":
        count, total = inside.count_nonzero(axis), sum(x, axis, mask=inside)
        total = total if initial is None else total + initial
        return count.eq(0).where(nothing, total / count.maximum(1))
    made = {"sum": sum, "prod": prod, "max": amax, "min": amin}[reduce](x, axis, mask=inside)
    if initial is None:
        return made
    joined = {"sum": Tensor.add, "prod": Tensor.mul, "max": Tensor.maximum, "min": Tensor.minimum}
    return joined[reduce](made, initial)


__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum",
    "var",
]  # fmt: skip
spell(sys.modules[__name__])
