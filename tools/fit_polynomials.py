"""Fit the polynomials of `src/torpor/kernel/decompose/coefficients.py`.

Each is a minimax approximation found by Remez' exchange algorithm (E. Remez, 1934; see J.-M.
Muller, "Elementary Functions", chapter 3) in 60-digit arithmetic. The exact leading terms that a
formula keeps apart are part of the fitted function; coefficients are rounded to the format one by
one, lowest power first, and the rest is fitted again after each, so that rounding costs nothing.

Needs `mpmath`. Run `python -m tools.fit_polynomials [NAME...]`; it prints each table and the
largest weighted error, which is what the text of the table claims.
"""

from __future__ import annotations

import struct
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath as mp

mp.mp.dps = 60
Function = Callable[[mp.mpf], mp.mpf]
GRID = 1500  # points on which the error is looked at
EXCHANGES = 12  # the exchange converges quadratically; this is plenty


@dataclass(frozen=True)
class Fit:
    """`function(x)` on [low, high] by `sum(c[k] * x**k)` for `degree + 1` powers.

    `weight(x)` multiplies the error that is made small; `bits` is 32 or 64.
    """

    name: str
    bits: int
    function: Function
    low: mp.mpf
    high: mp.mpf
    degree: int
    weight: Function


def rounded(value: mp.mpf, bits: int) -> mp.mpf:
    """The nearest number of the format."""
    if bits == 64:
        return mp.mpf(float(value))
    return mp.mpf(struct.unpack("f", struct.pack("f", float(value)))[0])


def _grid(low: mp.mpf, high: mp.mpf) -> list[mp.mpf]:
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / GRID) for k in range(GRID)]


def _extrema(errors: Sequence[mp.mpf], count: int) -> list[int]:
    """Indices of `count` alternating extrema of the sampled error."""
    found: list[int] = []
    for index, error in enumerate(errors):
        if found and (errors[found[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[found[-1]]):
                found[-1] = index
        else:
            found.append(index)
    while len(found) > count:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    return found


def remez(
    points: list[mp.mpf], values: list[mp.mpf], weights: list[mp.mpf], powers: Sequence[int]
) -> tuple[list[mp.mpf], mp.mpf]:
    """Coefficients of `powers` that minimise the largest weighted error, and that error."""
    count = len(powers) + 1
    chosen = [round((GRID - 1) * (1 - mp.cos(mp.pi * k / (count - 1))) / 2) for k in range(count)]
    best: tuple[mp.mpf, list[mp.mpf]] | None = None
    table = [[p**k for k in powers] for p in points]
    for _ in range(EXCHANGES):
        matrix = mp.matrix(count, count)
        right = mp.matrix(count, 1)
        for row, index in enumerate(chosen):
            for column in range(count - 1):
                matrix[row, column] = table[index][column]
            matrix[row, count - 1] = (-1) ** row / weights[index]
            right[row] = values[index]
        solution = mp.lu_solve(matrix, right)
        terms = [solution[k] for k in range(count - 1)]
        errors = [
            w * (v - mp.fdot(terms, t)) for w, v, t in zip(weights, values, table, strict=True)
        ]
        worst = max(abs(e) for e in errors)
        if best is None or worst < best[0]:
            best = (worst, terms)
        found = _extrema(errors, count)
        if len(found) < count or found == chosen:
            break
        chosen = found
    assert best is not None
    return best[1], best[0]


def _best(
    points: list[mp.mpf],
    values: list[mp.mpf],
    weights: list[mp.mpf],
    powers: Sequence[int],
    before: list[mp.mpf],
) -> list[mp.mpf]:
    """A new fit, or `before` where that is better.

    Powers that start above 0 are no Haar system on an interval around 0, so the exchange may fail.
    """
    try:
        terms, error = remez(points, values, weights, powers)
    except ZeroDivisionError:
        return before
    if before:
        table = (mp.fdot(before, [p**k for k in powers]) for p in points)
        kept = max(abs(w * (v - t)) for w, v, t in zip(weights, values, table, strict=True))
        return before if kept <= error else terms
    return terms


def fit(wanted: Fit) -> tuple[list[mp.mpf], mp.mpf]:
    """Rounded coefficients, lowest power first, and the largest weighted error with them."""
    points = _grid(mp.mpf(wanted.low), mp.mpf(wanted.high))
    weights = [wanted.weight(p) for p in points]
    original = [wanted.function(p) for p in points]
    values = list(original)
    done: list[mp.mpf] = []
    terms: list[mp.mpf] = []
    for power in range(wanted.degree + 1):
        terms = _best(points, values, weights, range(power, wanted.degree + 1), terms[1:])
        done.append(rounded(terms[0], wanted.bits))
        values = [v - done[-1] * p**power for v, p in zip(values, points, strict=True)]
    return done, max(abs(v * w) for v, w in zip(values, weights, strict=True))


def _one(x: mp.mpf) -> mp.mpf:
    return mp.mpf(1)


def _exp_rest(x: mp.mpf) -> mp.mpf:
    """(e**x - 1 - x) / x**2"""
    if abs(x) < mp.mpf(10) ** -20:
        return mp.mpf(1) / 2
    return (mp.expm1(x) - x) / x**2


def _exp2_rest(x: mp.mpf) -> mp.mpf:
    """(2**x - 1 - x*ln 2) / x**2"""
    return mp.ln(2) ** 2 * _exp_rest(x * mp.ln(2))


def _log_rest(x: mp.mpf) -> mp.mpf:
    """(log(1 + x) - x + x**2/2) / x**3"""
    return (mp.log1p(x) - x + x * x / 2) / x**3


def _log_ratio_rest(z: mp.mpf) -> mp.mpf:
    """(log((1 + s) / (1 - s)) - 2*s) / s**3 with s = sqrt(z)"""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / s**3


def _log_ratio_tail(z: mp.mpf) -> mp.mpf:
    """(log((1 + s) / (1 - s)) - 2*s - 2*s**3/3) / s**5 with s = sqrt(z)"""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s - 2 * s**3 / 3) / s**5


def _log_ratio_end(z: mp.mpf) -> mp.mpf:
    """(log((1 + s) / (1 - s)) - 2*s - 2*s**3/3 - 2*s**5/5) / s**7 with s = sqrt(z)"""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s - 2 * s**3 / 3 - 2 * s**5 / 5) / s**7


def _sin_rest(z: mp.mpf) -> mp.mpf:
    """(sin(x) - x) / x**3 with x = sqrt(z)"""
    x = mp.sqrt(z)
    return (mp.sin(x) - x) / x**3


def _cos_rest(z: mp.mpf) -> mp.mpf:
    """(cos(x) - 1 + x**2/2) / x**4 with x = sqrt(z)"""
    x = mp.sqrt(z)
    return (mp.cos(x) - 1 + z / 2) / z**2


def _tanh_rest(z: mp.mpf) -> mp.mpf:
    """(tanh(x) - x) / x**3 with x = sqrt(z)"""
    x = mp.sqrt(z)
    return (mp.tanh(x) - x) / x**3


def _erf_rest(z: mp.mpf) -> mp.mpf:
    """(erf(x) - x) / x with x = sqrt(z)"""
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1


# Where the far part of erf begins (its polynomial is written around that point) and ends.
ERF_SPLIT = mp.mpf(1)
ERF_END = {32: mp.mpf(4), 64: mp.mpf(6)}


def _erf_far(bits: int) -> tuple[Function, mp.mpf, mp.mpf, Function]:
    def function(t: mp.mpf) -> mp.mpf:
        """log(erfc(1 + t))"""
        return mp.log(mp.erfc(t + ERF_SPLIT))

    def weight(t: mp.mpf) -> mp.mpf:
        """An error of the logarithm is one of erfc(x) relative to it, so in erf it is that much."""
        return mp.erfc(t + ERF_SPLIT)

    return function, mp.mpf(0), ERF_END[bits] - ERF_SPLIT, weight


def _fits() -> list[Fit]:
    half_log2 = mp.ln(2) / 2 * (1 + mp.mpf(2) ** -12)
    low, high = mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(2) - 1
    ratio = (mp.mpf(3) - 2 * mp.sqrt(2)) ** 2 * (1 + mp.mpf(2) ** -12)  # ((sqrt2-1)/(sqrt2+1))**2
    tiny = mp.mpf(2) ** -60
    quarter = (mp.pi / 4) ** 2 * (1 + mp.mpf(2) ** -12)

    def log_weight(x: mp.mpf) -> mp.mpf:
        return x**3 / mp.log1p(x)

    def square(x: mp.mpf) -> mp.mpf:
        return x * x

    def tanh_weight(z: mp.mpf) -> mp.mpf:
        return mp.sqrt(z) ** 3 / mp.tanh(mp.sqrt(z))

    def erf_weight(z: mp.mpf) -> mp.mpf:
        return mp.sqrt(z) / mp.erf(mp.sqrt(z))

    fits = []
    for bits, exp, exp2, sin, cos, tanh, erf, far in (
        (32, 4, 4, 2, 2, 4, 6, 9), (64, 9, 9, 5, 5, 11, 12, 22),
    ):  # fmt: skip
        small = mp.mpf("0.55") ** 2
        fits += [
            Fit(f"EXP{bits}", bits, _exp_rest, -half_log2, half_log2, exp, square),
            Fit(f"EXP2_{bits}", bits, _exp2_rest, -mp.mpf(1) / 2, mp.mpf(1) / 2, exp2, square),
            Fit(f"SIN{bits}", bits, _sin_rest, tiny, quarter, sin, square),
            Fit(f"COS{bits}", bits, _cos_rest, tiny, quarter, cos, square),
            Fit(f"TANH{bits}", bits, _tanh_rest, tiny, small, tanh, tanh_weight),
            Fit(f"ERF_NEAR{bits}", bits, _erf_rest, tiny, ERF_SPLIT**2, erf, erf_weight),
            Fit(f"ERF_FAR{bits}", bits, *_erf_far(bits)[:3], far, _erf_far(bits)[3]),
        ]
    fits += [
        Fit("LOG32", 32, _log_rest, low, high, 7, log_weight),
        Fit("LOG64", 64, _log_ratio_rest, tiny, ratio, 6, square),
        Fit("POW_LOG32", 32, _log_ratio_tail, tiny, ratio, 2, square),
        Fit("POW_LOG64", 64, _log_ratio_end, tiny, ratio, 6, square),
    ]
    return fits


def main(names: Sequence[str]) -> None:
    """Print every table, or those named."""
    for wanted in _fits():
        if names and wanted.name not in names:
            continue
        coefficients, error = fit(wanted)
        print(f"# largest error 2**{mp.nstr(mp.log(error, 2), 3)}")
        numbers = ", ".join(repr(float(c)) for c in coefficients)
        body = textwrap.indent(textwrap.fill(f"{numbers},", 96), "    ")
        print(f"{wanted.name}: Final = (\n{body}\n)  # fmt: skip", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
