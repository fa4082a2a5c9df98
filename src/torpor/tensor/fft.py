"""Fourier transforms by the names of `torch.fft` and `numpy.fft`, as generated code.

A length n = r m is taken apart as Cooley and Tukey do (1965, "An algorithm for the machine
calculation of complex Fourier series"): r-point transforms of stride m, which are products with a
small matrix, twiddle factors, and m-point transforms of what comes out. A length with a large prime
factor becomes a convolution whose length has none (L. I. Bluestein, 1970). Tables are computed in
float64 and rounded once, so errors grow like log n.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from torpor.base.dtypes import dtypes
from torpor.base.errors import DTypeError, ShapeError, ValueRangeError
from torpor.tensor.creation import as_tensor
from torpor.tensor.handle import located
from torpor.tensor.host import known_size
from torpor.tensor.mode import default_float
from torpor.tensor.pairs import as_complex, paired
from torpor.tensor.spelling import some_axes, spelled, whole_number
from torpor.tensor.tensor import Tensor

RADIX: Final = 32  # of the largest matrix that a length is taken apart into
LARGE: Final = 64  # a prime from which on a length becomes a convolution
NORMS: Final = ("backward", "ortho", "forward")


# --- one axis -------------------------------------------------------------------------------------
def _transform(pair: Any, sign: int) -> Any:
    """(b, 2, n) of real and imaginary parts to their transforms; a first axis of 1 part: real."""
    count = pair.shape[-1]
    factors = radices(count)
    if factors and factors[-1] > LARGE:
        return _by_convolution(pair, sign)
    return _by_factors(pair, sign, factors)


def _by_factors(pair: Any, sign: int, factors: list[int]) -> Any:
    """Transforms of length r at stride m, twiddled, then those of length m: (b, 2, n)."""
    batch, parts, count = pair.shape
    lead: list[int] = []
    for place, radix in enumerate(factors):
        rest = count // radix
        rows = math.prod(lead) * batch
        matrix = _matrix(radix, sign, parts, pair.dtype.name, pair.device)
        if place == len(factors) - 1:
            pair = pair.reshape(rows, parts * radix) @ matrix.T
        else:
            pair = matrix @ pair.reshape(rows, parts * radix, rest)
            pair = _twiddled(pair.reshape(rows, 2, radix, rest), sign)
        lead.append(radix)
        parts, count = 2, rest
    if not factors:
        return pair if parts == 2 else Tensor.cat([pair, pair * 0], dim=1)
    *outer, last = factors
    made = pair.reshape(batch, *outer, 2, last)
    axes = (0, len(factors), len(factors) + 1, *range(len(factors) - 1, 0, -1))
    return made.permute(*axes).reshape(batch, 2, -1)


def _twiddled(pair: Any, sign: int) -> Any:
    """(b, 2, r, m) times exp(±2πi k j / (r m)), as (b r, 2, m) in memory."""
    batch, _, radix, rest = pair.shape
    cosine, sine = _twiddles(radix, rest, sign, pair.dtype.name, pair.device)
    x, y = pair.select(1, 0), pair.select(1, 1)
    made = Tensor.stack([x * cosine - y * sine, x * sine + y * cosine], dim=2)
    return made.reshape(batch * radix, 2, rest).contiguous()


def _by_convolution(pair: Any, sign: int) -> Any:
    """Bluestein's: with the chirp w, X_k = w_k sum_j (x_j w_j) conj(w_{k-j})."""
    batch, parts, count = pair.shape
    length = smooth(2 * count - 1)
    chirp, filtered = _chirp(count, length, sign, pair.dtype.name, pair.device)
    x = pair.select(1, 0)
    y = pair.select(1, 1) if parts == 2 else x * 0
    begun = paired(x, y) * chirp
    spread = _transform(_stacked(begun.pad((0, length - count))), -1)
    product = _split(spread) * filtered
    back = _split(_transform(_stacked(product), 1)).narrow(-1, 0, count) * chirp
    return _stacked(back)


def _stacked(pair: Any) -> Any:
    return Tensor.stack([pair.real, pair.imag], dim=1).contiguous()


def _split(pair: Any) -> Any:
    return paired(pair.select(1, 0), pair.select(1, 1))


# --- lengths and tables ---------------------------------------------------------------------------
@functools.lru_cache(4096)
def radices(count: int) -> list[int]:
    """Factors of a length, as few as there are up to RADIX, and of about one size."""
    primes, rest = [], count
    for prime in range(2, math.isqrt(count) + 1):
        while rest % prime == 0:
            primes.append(prime)
            rest //= prime
    primes = sorted([*primes, rest] if rest > 1 else primes)
    if not primes or primes[-1] > RADIX:
        return primes
    bins = [1] * max(1, math.ceil(math.log(count) / math.log(RADIX) - 1e-9))
    for prime in reversed(primes):
        fits = [place for place, size in enumerate(bins) if size * prime <= RADIX]
        if fits:
            place = min(fits, key=lambda place: bins[place])
            bins[place] *= prime
        else:
            bins.append(prime)
    return sorted(size for size in bins if size > 1)


@functools.lru_cache(4096)
def smooth(least: int) -> int:
    """The least length from `least` on that has no prime factors but 2, 3 and 5."""
    best = 1 << max(least - 1, 0).bit_length()
    fives = 1
    while fives < best:
        threes = fives
        while threes < best:
            twos = threes << max(-(-least // threes) - 1, 0).bit_length()
            best = min(best, twos)
            threes *= 3
        fives *= 5
    return best


def _roots(numbers: Any, count: int, sign: int) -> Any:
    """exp(±2πi k / n), whose multiples are reduced before they are rounded."""
    return np.exp(sign * 2j * np.pi * (numbers % count) / count)


def _kept(array: Any, dtype: str, device: str) -> Tensor:
    return Tensor(array.astype(dtype), device=device)


@functools.lru_cache(256)
def _matrix(radix: int, sign: int, parts: int, dtype: str, device: str) -> Tensor:
    """(2 r, parts r): the transform of r numbers as a real matrix."""
    numbers = np.arange(radix)
    table = _roots(np.outer(numbers, numbers), radix, sign)
    whole = np.block([[table.real, -table.imag], [table.imag, table.real]])
    return _kept(whole[:, : parts * radix], dtype, device)


@functools.lru_cache(256)
def _twiddles(radix: int, rest: int, sign: int, dtype: str, device: str) -> tuple[Tensor, Tensor]:
    table = _roots(np.outer(np.arange(radix), np.arange(rest)), radix * rest, sign)
    return _kept(table.real, dtype, device), _kept(table.imag, dtype, device)


@functools.lru_cache(64)
def _chirp(count: int, length: int, sign: int, dtype: str, device: str) -> tuple[Any, Any]:
    """The chirp w_j = exp(±πi j² / n), and the transform of its conjugate, over the length."""
    chirp = _roots(np.arange(count) ** 2, 2 * count, sign)
    around = np.zeros(length, complex)
    around[:count] = chirp.conj()
    around[length - count + 1 :] = chirp.conj()[:0:-1]
    filtered = np.fft.fft(around) / length
    made = [paired(_kept(a.real, dtype, device), _kept(a.imag, dtype, device))
            for a in (chirp, filtered)]  # fmt: skip
    return made[0], made[1]


# --- arguments ------------------------------------------------------------------------------------
def _scale(norm: str | None, count: int, inverse: bool) -> float:
    """What a transform of `count` numbers is multiplied with."""
    name = norm or "backward"
    if name not in NORMS:
        raise ValueRangeError(f"norm is one of {', '.join(NORMS)}, not {norm!r}")
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


def _along(x: Any, axis: int, sign: int, scale: float, keep: int | None = None) -> Any:
    """The transform along one axis, of which the first `keep` numbers are kept."""
    moved = x.movedim(axis, -1)
    *lead, count = (known_size(size) for size in moved.shape)
    flat = moved.reshape(-1, count)
    pair = Tensor.stack([flat.real, flat.imag], dim=1) if x.is_pair else flat.unsqueeze(1)
    made = _transform(pair, sign)
    if keep is not None:
        made = made.narrow(-1, 0, keep)
    made = (made if scale == 1 else made * scale).contiguous()
    return _split(made.reshape(-1, 2, made.shape[-1])).reshape(*lead, made.shape[-1]).movedim(
        -1, axis)  # fmt: skip


def _whole(x: Any, axis: int, count: int) -> Any:
    """All `count` numbers of a transform that is conjugate symmetric, from the first half."""
    x = as_complex(_cut(x, axis, count // 2 + 1))
    rest = x.narrow(axis, 1, (count - 1) // 2).flip(axis).conj()
    ends = (0, count // 2) if count % 2 == 0 else (0,)
    at = Tensor.arange(count // 2 + 1).reshape(-1, *(1,) * (x.ndim - axis - 1))
    free = functools.reduce(lambda kept, end: kept & at.ne(end), ends, at >= 0).to(x.device)
    return Tensor.cat([paired(x.real, free.where(x.imag, 0)), rest], dim=axis)


# --- one axis, by name ----------------------------------------------------------------------------
def _one(x: Any, n: Any, dim: int, norm: str | None, sign: int, inverse: bool) -> Any:
    (axis,) = some_axes(dim, x.ndim) or _no_axis(x)
    count = _length(x.shape[axis] if n is None else n)
    return _along(_cut(x, axis, count), axis, sign, _scale(norm, count, inverse))


def _no_axis(x: Any) -> Any:
    raise located(ShapeError("a 0-d tensor has no axis to transform"), (x,))


@spelled
def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """X_k = sum_j x_j exp(-2πi j k / n) along one axis, cut or padded with zeros to length n.

    norm: "backward" (no factor), "ortho" (1/sqrt(n)) or "forward" (1/n).

    >>> fft(Tensor([1.0, 0.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _one(_floats(input), n, dim, norm, -1, False)


@spelled
def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`: with "backward" the factor 1/n."""
    return _one(_floats(input), n, dim, norm, 1, True)


@spelled
def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 numbers of `fft` of real ones; the others are their conjugates."""
    x = _real(input, "rfft")
    (axis,) = some_axes(dim, x.ndim) or _no_axis(x)
    count = _length(x.shape[axis] if n is None else n)
    return _along(_cut(x, axis, count), axis, -1, _scale(norm, count, False), count // 2 + 1)


@spelled
def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: n real numbers (2 (m - 1) of m, unless given). Imaginary parts that
    cannot be there, of the first number and with even n of the last, are left out.
    """
    return _from_half(_floats(input), n, dim, norm, 1, True)


def _from_half(x: Any, n: Any, dim: int, norm: str | None, sign: int, inverse: bool) -> Any:
    (axis,) = some_axes(dim, x.ndim) or _no_axis(x)
    count = _length(2 * (x.shape[axis] - 1) if n is None else n)
    made = _along(_whole(x, axis, count), axis, sign, _scale(norm, count, inverse))
    return made.real


@spelled
def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The n real numbers of `fft` of a conjugate symmetric signal, given by its first half."""
    return _from_half(_floats(input), n, dim, norm, -1, False)


@spelled
def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: the first n // 2 + 1 numbers of `ifft` of real ones."""
    x = _real(input, "ihfft")
    (axis,) = some_axes(dim, x.ndim) or _no_axis(x)
    count = _length(x.shape[axis] if n is None else n)
    return _along(_cut(x, axis, count), axis, 1, _scale(norm, count, True), count // 2 + 1)


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


def _several(x: Any, s: Any, dim: Any, norm: str | None, inverse: bool) -> Any:
    for axis, size in zip(*_axes_and_sizes(x, s, dim), strict=True):
        x = (ifft if inverse else fft)(x, size, axis, norm)
    return as_complex(x)


@spelled
def fftn(
    input: Any, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """`fft` along several axes: all, or the last of as many as there are sizes `s`."""
    return _several(_floats(input), s, dim, norm, False)


@spelled
def ifftn(
    input: Any, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """The inverse of `fftn`."""
    return _several(_floats(input), s, dim, norm, True)


def _last_first(x: Any, s: Any, dim: Any, norm: str | None, half: Any, whole: Any) -> Any:
    """The last axis to a half by `half`, the others by `whole`."""
    (*axes, last), (*sizes, size) = _axes_and_sizes(x, s, dim)
    made = half(x, size, last, norm)
    for axis, count in zip(axes, sizes, strict=True):
        made = whole(made, count, axis, norm)
    return made


def _last_last(x: Any, s: Any, dim: Any, norm: str | None, half: Any, whole: Any) -> Any:
    """The other axes by `whole`, then the last from a half by `half`."""
    (*axes, last), (*sizes, size) = _axes_and_sizes(x, s, dim)
    for axis, count in zip(axes, sizes, strict=True):
        x = whole(x, count, axis, norm)
    return half(x, size, last, norm)


@spelled
def rfftn(
    input: Any, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """`rfft` along the last axis, then `fft` along the others."""
    return _last_first(_real(input, "rfftn"), s, dim, norm, rfft, fft)


@spelled
def irfftn(
    input: Any, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """The inverse of `rfftn`: real numbers."""
    return _last_last(_floats(input), s, dim, norm, irfft, ifft)


@spelled
def hfftn(
    input: Any, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """`fft` along the other axes, then `hfft` along the last."""
    return _last_last(_floats(input), s, dim, norm, hfft, fft)


@spelled
def ihfftn(
    input: Any, s: Sequence[int] | None = None, dim: Any = None, norm: str | None = None
) -> Tensor:
    """The inverse of `hfftn`: `ihfft` along the last axis, then `ifft` along the others."""
    return _last_first(_real(input, "ihfftn"), s, dim, norm, ihfft, ifft)


@spelled
def fft2(
    input: Any, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`fftn` along two axes, the last unless given."""
    made: Tensor = fftn(input, s, dim, norm)
    return made


@spelled
def ifft2(
    input: Any, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`ifftn` along two axes, the last unless given."""
    made: Tensor = ifftn(input, s, dim, norm)
    return made


@spelled
def rfft2(
    input: Any, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`rfftn` along two axes, the last unless given."""
    made: Tensor = rfftn(input, s, dim, norm)
    return made


@spelled
def irfft2(
    input: Any, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`irfftn` along two axes, the last unless given."""
    made: Tensor = irfftn(input, s, dim, norm)
    return made


@spelled
def hfft2(
    input: Any, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`hfftn` along two axes, the last unless given."""
    made: Tensor = hfftn(input, s, dim, norm)
    return made


@spelled
def ihfft2(
    input: Any, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
) -> Tensor:
    """`ihfftn` along two axes, the last unless given."""
    made: Tensor = ihfftn(input, s, dim, norm)
    return made


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


@spelled
def fftshift(input: Any, dim: Any = None) -> Tensor:
    """The axes rolled so that frequency 0 is in the middle."""
    x: Any = as_tensor(input)
    axes = some_axes(dim, x.ndim)
    return x.roll([known_size(x.shape[axis]) // 2 for axis in axes], axes) if axes else x.clone()


@spelled
def ifftshift(input: Any, dim: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    x: Any = as_tensor(input)
    axes = some_axes(dim, x.ndim)
    return x.roll([-(known_size(x.shape[axis]) // 2) for axis in axes], axes) if axes else x.clone()
