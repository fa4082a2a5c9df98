"""Fourier transforms by the names of `torch.fft` and `numpy.fft`, as generated code:
`fourier.py` says how one axis is transformed.

Axes stay as long as they are; `n`, or `s` for several, cuts them or fills them up with zeros. A
real transform keeps n // 2 + 1 numbers of its last axis. No such axis is an `AxisError`, a
transform of no number a `ShapeError`.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, ShapeError
from torpor.base.missing import names_of
from torpor.tensor.creation import as_tensor
from torpor.tensor.fourier import fourier, joined, split, stacked, turns
from torpor.tensor.handle import located
from torpor.tensor.host import known_size
from torpor.tensor.mode import default_float
from torpor.tensor.pairs import as_complex, paired
from torpor.tensor.repeated import repeated
from torpor.tensor.spelling import among, some_axes, spell, whole_number
from torpor.tensor.tensor import Tensor


# --- arguments ------------------------------------------------------------------------------------
def _scale(norm: str | None, count: int, inverse: bool) -> float:
    """What a transform of `count` numbers is multiplied with."""
    name = norm or "backward"
    among("norm", name, "backward", "ortho", "forward")
    if name == "ortho":
        return 1 / math.sqrt(count)
    return 1 / count if (name == "backward") == inverse else 1.0


def _floats(input: Any) -> Any:
    """Numbers as floats, or complex numbers as they are."""
    made: Any = as_tensor(input)
    if made.is_pair or made.dtype in (dtypes.float32, dtypes.float64):
        return made
    return made.cast(dtypes.float32 if made.dtype.is_float else default_float())


def _real(input: Any, name: str) -> Any:
    made = _floats(input)
    if made.is_pair:
        raise located(DTypeError(f"{name} is for real numbers; use fft for complex ones"), (made,))
    return made


def _length(size: Any) -> int:
    count = whole_number(size)
    if count < 1:
        raise ShapeError(f"a transform is of 1 number or more, not of {count}")
    return count


def _cut(x: Any, axis: int, count: int) -> Any:
    """One axis, cut or padded with zeros to a length."""
    there = known_size(x.shape[axis])
    if count < there:
        return x.narrow(axis, 0, count)
    return x.pad(((0, 0),) * axis + ((0, count - there),) + ((0, 0),) * (x.ndim - axis - 1)) if (
        count > there) else x  # fmt: skip


def _around(x: Any, axis: int) -> tuple[int, int, int]:
    """How many elements there are before an axis, along it, and behind it."""
    sizes = [known_size(size) for size in x.shape]
    return math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])


@repeated
def _along(x: Any, axis: int, count: int, sign: int, scale: float) -> Any:
    """The transform along one axis, of `count` numbers."""
    flat = as_complex(x).reshape(*_around(x, axis))
    made = fourier(joined(flat.real, flat.imag), sign, scale)
    return split(made.reshape(*x.shape, 2))


@repeated
def _half(x: Any, axis: int, count: int, sign: int, scale: float) -> Any:
    """The first numbers of the transform of n real ones, of which the others follow. Of an even n
    each pair is a complex number z: X_k is made of Z_k and the conjugate of Z_(n/2 - k).
    """
    before, _, behind = _around(x, axis)
    if count % 2:
        return _along(x, axis, count, sign, scale).narrow(axis, 0, count // 2 + 1)
    pairs = x.reshape(before, count // 2, 2, behind).transpose(2, 3)
    whole = fourier(pairs, sign, scale / 2)
    a, b = Tensor.cat([whole, whole.narrow(1, 0, 1)], dim=1).unbind(-1)
    c, d = a.flip(1), b.flip(1)
    cosine, sine = turns(count, sign, x.dtype.name, x.device)
    x_, y_ = b + d, c - a
    made = stacked(a + c + (x_ * cosine - y_ * sine), b - d + (x_ * sine + y_ * cosine))
    return split(made.reshape(*x.shape[:axis], count // 2 + 1, *x.shape[axis + 1 :], 2))


@repeated
def _whole(x: Any, axis: int, count: int, sign: int, scale: float) -> Any:
    """All `count` numbers, which are real, of the transform of what is conjugate symmetric, from
    the first half; of an even count as one of half the length, as in `_half`.
    """
    x = as_complex(_cut(x, axis, count // 2 + 1))
    ends = (0, count // 2) if count % 2 == 0 else (0,)
    at = Tensor.arange(count // 2 + 1).reshape(-1, *(1,) * (x.ndim - axis - 1))
    free = functools.reduce(lambda kept, end: kept & at.ne(end), ends, at >= 0).to(x.device)
    x = paired(x.real, free.where(x.imag, 0))
    if count % 2:
        rest = x.narrow(axis, 1, (count - 1) // 2).flip(axis).conj()
        return _along(Tensor.cat([x, rest], dim=axis), axis, count, sign, scale).real
    before, size, behind = _around(x, axis)
    flat = x.reshape(before, size, behind)
    a, b, c, d = (part.narrow(1, 0, size - 1) for each in (flat, flat.flip(1))
                  for part in (each.real, each.imag))  # fmt: skip
    cosine, sine = (t.narrow(0, 0, size - 1) for t in turns(count, sign, a.dtype.name, a.device))
    x_, y_ = a - c, b + d
    pairs = stacked(a + c - (x_ * sine + y_ * cosine), b - d + (x_ * cosine - y_ * sine))
    made = fourier(pairs, sign, scale).transpose(2, 3)
    return made.reshape(*x.shape[:axis], count, *x.shape[axis + 1 :])


# --- one axis, by name ----------------------------------------------------------------------------
def _one(along: Any, x: Any, n: Any, dim: int, norm: str | None, sign: int, inverse: bool) -> Any:
    """The transform along one axis by `_along`, `_half` or `_whole`."""
    (axis,) = some_axes(dim, x.ndim) or _no_axis(x)
    there = 2 * (x.shape[axis] - 1) if along is _whole else x.shape[axis]
    count = _length(there if n is None else n)
    part = _cut(x, axis, count // 2 + 1 if along is _whole else count)
    return along(part, axis, count, sign, _scale(norm, count, inverse))


def _no_axis(x: Any) -> Any:
    raise located(ShapeError("a 0-d tensor has no axis to transform"), (x,))


def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """X_k = sum_j x_j exp(-2πi j k / n) along one axis, cut or padded with zeros to length n.

    norm: "backward" (no factor), "ortho" (1/sqrt(n)) or "forward" (1/n).

    >>> fft(Tensor([1.0, 0.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _one(_along, _floats(input), n, dim, norm, -1, False)


def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`: with "backward" the factor 1/n."""
    return _one(_along, _floats(input), n, dim, norm, 1, True)


def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 numbers of `fft` of real ones; the others are their conjugates."""
    return _one(_half, _real(input, "rfft"), n, dim, norm, -1, False)


def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: n real numbers (2 (m - 1) of m, unless given). Imaginary parts that
    cannot be there, of the first number and with even n of the last, are left out.
    """
    return _one(_whole, _floats(input), n, dim, norm, 1, True)


def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The n real numbers of `fft` of a conjugate symmetric signal, given by its first half."""
    return _one(_whole, _floats(input), n, dim, norm, -1, False)


def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: the first n // 2 + 1 numbers of `ifft` of real ones."""
    return _one(_half, _real(input, "ihfft"), n, dim, norm, 1, True)


# --- several axes ---------------------------------------------------------------------------------
def _axes_and_sizes(x: Any, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int | None]]:
    """Axes, and lengths for them: the last axes for as many lengths, all where none is given."""
    sizes = None if s is None else [None if size == -1 else size for size in
                                    ([s] if isinstance(s, int) else s)]  # fmt: skip
    if dim is None and sizes is not None:
        dim = tuple(range(-len(sizes), 0))
    axes = some_axes(dim, x.ndim)
    if sizes is not None and len(sizes) != len(axes):
        raise located(ShapeError(f"{len(sizes)} sizes are given for {len(axes)} axes"), (x,))
    return axes, sizes or [None] * len(axes)


def _over_axes(name: str, text: str, whole: Any, half: Any = None, first: bool = False) -> Any:
    """A transform along several axes by `whole`, the last of them by `half`, which comes `first` or
    at the end; and that along two, the last unless given.
    """

    def several(
        input: Any, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
    ) -> Tensor:
        x = _real(input, name) if first else _floats(input)
        parts = list(zip(*_axes_and_sizes(x, s, dim), strict=True))
        steps = [(whole, *part) for part in parts]
        if half is not None:
            steps[-1:] = [(half, *(parts[-1] if parts else _no_axis(x)))]
        for transform, axis, size in [*steps[-1:], *steps[:-1]] if first else steps:
            x = transform(x, size, axis, norm)
        return x if half is not None else as_complex(x)

    def of_two(
        input: Any, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
    ) -> Tensor:
        return several(input, s, dim, norm)

    made = []
    for method, spelling in (several, name), (of_two, f"{name[:-1]}2"):
        method.__name__ = method.__qualname__ = spelling
        method.__doc__ = text if method is several else f"`{name}` along two axes."
        made.append(method)
    return made


fftn, fft2 = _over_axes(
    "fftn", "`fft` along several axes: all, or the last of as many as there are sizes `s`.", fft
)
ifftn, ifft2 = _over_axes("ifftn", "The inverse of `fftn`.", ifft)
rfftn, rfft2 = _over_axes(
    "rfftn", "`rfft` along the last axis, then `fft` along the others.", fft, rfft, True
)
irfftn, irfft2 = _over_axes("irfftn", "The inverse of `rfftn`: real numbers.", ifft, irfft)
hfftn, hfft2 = _over_axes("hfftn", "`fft` along the others, then `hfft` along the last.", fft, hfft)
ihfftn, ihfft2 = _over_axes(
    "ihfftn", "The inverse of `hfftn`: `ihfft` along the last axis, then `ifft` along the others.",
    ifft, ihfft, True,
)  # fmt: skip


# --- frequencies ----------------------------------------------------------------------------------
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `fft`: 0, 1, … (n - 1) // 2, -(n // 2), … -1, over n d.

    >>> fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    count = _length(n)
    places = Tensor.arange(count, device=device)
    signed = (places > (count - 1) // 2).where(places - count, places)
    return signed.cast(dtype or default_float()) * (1 / (count * d))


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `rfft`: 0, 1, … n // 2, over n d."""
    count = _length(n)
    made = Tensor.arange(count // 2 + 1, device=device).cast(dtype or default_float())
    return made * (1 / (count * d))


def fftshift(input: Any, dim: Any = None) -> Tensor:
    """The axes rolled so that frequency 0 is in the middle."""
    return _rolled(input, dim, 1)


def ifftshift(input: Any, dim: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _rolled(input, dim, -1)


def _rolled(input: Any, dim: Any, way: int) -> Tensor:
    x: Any = as_tensor(input)
    axes = some_axes(dim, x.ndim)
    steps = [way * (known_size(x.shape[axis]) // 2) for axis in axes]
    return x.roll(steps, axes) if axes else x.clone()


__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
spell(sys.modules[__name__])
if not TYPE_CHECKING:
    __getattr__ = names_of("torpor.fft", lambda: __all__)
