"""Transforms along one axis, which the names of `fft.py` have in common.

A length n = r m is taken apart as Cooley and Tukey do (1965, "An algorithm for the machine
calculation of complex Fourier series"): r-point transforms of stride m, which are sums written out,
twiddle factors, and m-point transforms of what comes out; each stage writes where the next reads in
rows, and the last in order (T. G. Stockham, 1966). A length with a large prime factor becomes a
convolution whose length has none (L. I. Bluestein, 1970). Tables are computed in float64 and
rounded once, so errors grow like log n.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from torpor.graph.gradient_function import FUNCTIONS
from torpor.ir.uop import UOp
from torpor.tensor.handle import standing_for, with_rule
from torpor.tensor.pairs import paired
from torpor.tensor.repeated import repeated
from torpor.tensor.tensor import Tensor

SMALL: Final = 8  # the largest factor whose transform is written out
LARGE: Final = 64  # a prime from which on a length becomes a convolution
Part = tuple[Any, Any]  # a real and an imaginary part
Parts = list[Part]


def fourier(pairs: Any, sign: int, scale: float) -> Any:
    """(b, n, i, 2) of parts to their transforms along n, times a factor."""
    made = _transform(pairs, sign, scale)
    return with_rule(made, (pairs,), "fourier", sign, scale, str(pairs.device))


def _gradient(node: UOp, g: UOp) -> tuple[UOp]:
    """d fourier(x) = fourier(dx): of the gradient, the transform that turns the other way."""
    _, sign, scale, device = node.arg
    return (fourier(standing_for(g, device), -sign, scale)._current(),)


FUNCTIONS["fourier"] = _gradient


def _transform(pairs: Any, sign: int, scale: float) -> Any:
    batch, count, inner, _ = pairs.shape
    factors = radices(count)
    if factors and factors[-1] > LARGE:
        return _by_convolution(pairs, sign, scale)
    done = 1
    for radix in factors:
        rest = count // (done * radix)
        taken = pairs.reshape(batch, radix, rest, done * inner, 2)
        told = sign, scale if rest == 1 else 1.0
        about = pairs.dtype.name, str(pairs.device)
        twiddles = _twiddles(radix, rest, sign, *about)
        if radix <= SMALL:
            pairs = _stage(taken, *twiddles, *told)
        else:
            pairs = _stage_by_matrix(taken, _matrix(radix, *told, *about), *twiddles)
        done *= radix
    return pairs.reshape(batch, count, inner, 2) if factors else pairs * scale


@repeated
def _stage(pairs: Any, cosines: Tensor, sines: Tensor, sign: int, scale: float) -> Any:
    """Twiddled transforms of r numbers that lie n / r apart: (b, r, m, s, 2) to (b, m, r, s, 2).
    The twiddle factors are (r, m).
    """
    rest = pairs.shape[2]
    made = _points([(p.select(-1, 0), p.select(-1, 1)) for p in pairs.unbind(1)], sign)
    for k, (x, y) in enumerate(made):
        if k and rest > 1:
            cosine, sine = (table.select(0, k).reshape(rest, 1) for table in (cosines, sines))
            made[k] = x * cosine - y * sine, x * sine + y * cosine
        elif scale != 1.0:
            made[k] = x * scale, y * scale
    return stacked(*(Tensor.stack(part, dim=2) for part in zip(*made, strict=True)))


@repeated
def _stage_by_matrix(pairs: Any, matrix: Tensor, cosines: Tensor, sines: Tensor) -> Any:
    """As `_stage`, of a prime that is too large to be written out: by the transform's matrix."""
    _, radix, rest, done, _ = pairs.shape
    rows = pairs.permute(0, 2, 3, 1, 4).reshape(-1, rest, done, 2 * radix) @ matrix
    x, y = rows.contiguous().reshape(-1, rest, done, radix, 2).transpose(2, 3).unbind(-1)
    cosine, sine = (table.transpose(0, 1).unsqueeze(2) for table in (cosines, sines))
    return stacked(x * cosine - y * sine, x * sine + y * cosine)


def _points(parts: Parts, sign: int) -> Parts:
    """The transform of a few pairs of parts: of an even number by halves."""
    count = len(parts)
    if count % 2:
        return _odd_points(parts, sign)
    if count == 2:
        (a, b), (c, d) = parts
        return [(a + c, b + d), (a - c, b - d)]
    halves = _points(parts[::2], sign), _points(parts[1::2], sign)
    each = [_points([even, _turned(odd, k, count, sign)], sign)
            for k, (even, odd) in enumerate(zip(*halves, strict=True))]  # fmt: skip
    return [first for first, _ in each] + [second for _, second in each]


def _odd_points(parts: Parts, sign: int) -> Parts:
    """From sums and differences of those that turn by the same angle to both sides."""
    (x, y), count, half = parts[0], len(parts), len(parts) // 2
    each = [_points([parts[j], parts[count - j]], sign) for j in range(1, half + 1)]
    made: Parts = [(sum((a for (a, _), _ in each), x), sum((b for (_, b), _ in each), y))]
    behind: Parts = []
    for k in range(1, half + 1):
        roots = [_root(j * k, count, sign) for j in range(1, half + 1)]
        a = sum((root.real * sums[0] for root, (sums, _) in zip(roots, each)), x)
        b = sum((root.real * sums[1] for root, (sums, _) in zip(roots, each)), y)
        c = sum(root.imag * apart[1] for root, (_, apart) in zip(roots, each))
        d = sum(root.imag * apart[0] for root, (_, apart) in zip(roots, each))
        made.append((a - c, b + d))
        behind.append((a + c, b - d))
    return made + behind[::-1]


def _turned(part: Part, k: int, count: int, sign: int) -> Part:
    """x + iy times exp(±2πi k / n)."""
    x, y = part
    if not k:
        return part
    if 4 * k == count:
        return (-y, x) if sign > 0 else (y, -x)
    root = _root(k, count, sign)
    return x * root.real - y * root.imag, x * root.imag + y * root.real


def _by_convolution(pairs: Any, sign: int, scale: float) -> Any:
    """Bluestein's: with the chirp w, X_k = w_k sum_j (x_j w_j) conj(w_{k-j})."""
    count = pairs.shape[1]
    length = smooth(2 * count - 1)
    chirp, filtered = _chirp(count, length, sign, pairs.dtype.name, pairs.device)
    begun = (split(pairs) * chirp).pad((0, 0, 0, length - count))
    product = split(_transform(stacked(begun.real, begun.imag), -1, 1.0)) * filtered
    back = _transform(joined(product.real, product.imag), 1, scale)
    made = split(back.narrow(1, 0, count)) * chirp
    return stacked(made.real, made.imag)


def stacked(x: Any, y: Any) -> Any:
    """(..., 2) in memory."""
    return joined(x, y).contiguous()


def joined(x: Any, y: Any) -> Any:
    """(..., 2) of real and imaginary parts."""
    return Tensor.stack([x, y], dim=-1)


def split(pairs: Any) -> Any:
    """The complex numbers that parts (..., 2) are."""
    return paired(pairs.select(-1, 0), pairs.select(-1, 1))


# --- lengths and tables ---------------------------------------------------------------------------
@functools.lru_cache(4096)
def radices(count: int) -> list[int]:
    """Factors of a length: 8 as often as it goes with fours behind, and other primes."""
    primes, rest = [], count
    for prime in range(2, math.isqrt(count) + 1):
        while rest % prime == 0:
            primes.append(prime)
            rest //= prime
    primes += [rest] if rest > 1 else []
    twos = primes.count(2)
    fours = -twos % 3 if twos > 1 else 0
    even = [2] if twos == 1 else [8] * ((twos - 2 * fours) // 3) + [4] * fours
    return even + primes[twos:]


@functools.lru_cache(4096)
def smooth(least: int) -> int:
    """The least length from `least` on that is a power of two, or 3 or 5 times one."""
    return min(part << max(0, -(-least // part) - 1).bit_length() for part in (1, 3, 5))


def _roots(numbers: Any, count: int, sign: int) -> Any:
    """exp(±2πi k / n), whose multiples are reduced before they are rounded."""
    return np.exp(sign * 2j * np.pi * (numbers % count) / count)


def _root(number: int, count: int, sign: int) -> complex:
    return complex(_roots(number, count, sign))


def _kept(array: Any, dtype: str, device: str) -> Tensor:
    return Tensor(array.astype(dtype), device=device)


@functools.lru_cache(256)
def _matrix(radix: int, sign: int, scale: float, dtype: str, device: str) -> Tensor:
    """(2 r, 2 r): the transform of r pairs, each row of one part, times a factor."""
    numbers = np.arange(radix)
    table = _roots(np.outer(numbers, numbers), radix, sign) * scale
    whole = np.array([[table.real, table.imag], [-table.imag, table.real]])
    return _kept(whole.transpose(2, 0, 3, 1).reshape(2 * radix, 2 * radix), dtype, device)


@functools.lru_cache(256)
def _twiddles(radix: int, rest: int, sign: int, dtype: str, device: str) -> tuple[Tensor, Tensor]:
    table = _roots(np.outer(np.arange(radix), np.arange(rest)), radix * rest, sign)
    return _kept(table.real, dtype, device), _kept(table.imag, dtype, device)


@functools.lru_cache(64)
def turns(count: int, sign: int, dtype: str, device: str) -> tuple[Tensor, Tensor]:
    """(n / 2 + 1, 1): the cosines and sines of the first half of a turn in n steps."""
    roots = _roots(np.arange(count // 2 + 1), count, sign)[:, None]
    return _kept(roots.real, dtype, device), _kept(roots.imag, dtype, device)


@functools.lru_cache(64)
def _chirp(count: int, length: int, sign: int, dtype: str, device: str) -> tuple[Any, Any]:
    """The chirp w_j = exp(±πi j² / n), and the transform of its conjugate, over the length."""
    chirp = _roots(np.arange(count) ** 2, 2 * count, sign)
    around = np.zeros(length, complex)
    around[:count] = chirp.conj()
    around[length - count + 1 :] = chirp.conj()[:0:-1]
    filtered = np.fft.fft(around) / length
    made = [paired(_kept(a.real, dtype, device), _kept(a.imag, dtype, device))
            for a in (chirp[:, None], filtered[:, None])]  # fmt: skip
    return made[0], made[1]
