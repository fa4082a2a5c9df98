"""The formats of llama.cpp's blocks: fields of a block, and its numbers as operations on them.

A field is a tensor (blocks, bytes). The order in which the codes of a block stand follows from how
many groups its bytes are in. Names are the format's own: d and m scale what qs codes, qh has high
bits. https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from torpor.base.dtypes import dtypes
from torpor.tensor import Tensor


class Block(NamedTuple):
    """How many numbers are in a block, its fields in order (as NumPy has them), their meaning."""

    size: int
    fields: list[tuple[Any, ...]]
    numbers: Callable[..., Tensor]


def codes(data: Tensor, bits: int, groups: int = 1) -> Tensor:
    """(blocks, bytes) as (blocks, codes). Each group has the low `bits` of all its bytes first,
    then the next ones.
    """
    shifts = Tensor.arange(0, 8, bits, dtype=dtypes.uint8, device=data.device).unsqueeze(-1)
    apart = data.reshape(data.shape[0], groups, 1, -1) >> shifts
    return (apart & (2**bits - 1)).reshape(data.shape[0], -1)


def scaled(numbers: Tensor, d: Tensor, m: Tensor | None = None) -> Tensor:
    """numbers * d + m, where d and m have a number for each run of neighbours."""
    runs = numbers.cast(dtypes.float32).reshape(*d.shape, -1) * d.cast(dtypes.float32).unsqueeze(-1)
    sums = runs if m is None else runs + m.cast(dtypes.float32).unsqueeze(-1)
    return sums.reshape(numbers.shape[0], -1)


def less(numbers: Tensor, middle: int) -> Tensor:
    """Codes whose zero is in the middle."""
    return numbers.cast(dtypes.float32) - middle


def listed(numbers: Tensor, table: tuple[float, ...]) -> Tensor:
    """The numbers of a table that codes of 4 bits stand for."""
    return Tensor(table, dtype=dtypes.float32, device=numbers.device)[numbers.cast(dtypes.int64)]


# --- blocks of 32 ---------------------------------------------------------------------------------
def mxfp4(e: Tensor, qs: Tensor) -> Tensor:
    """e is 128 more than the exponent of the scale; below 2 the scale is denormal."""
    e = e.cast(dtypes.int32)
    bits = (e - 1 << 23).maximum(e.clip(0, 1) + 1 << 21)
    return scaled(listed(codes(qs, 4), HALVES), bits.bitcast(dtypes.float32))


# --- blocks of 256, whose scales are in codes too -------------------------------------------------
def q3_k(qh: Tensor, qs: Tensor, scales: Tensor, d: Tensor) -> Tensor:
    both = codes(scales[:, :8], 4) | codes(scales[:, 8:], 2) << 4
    return scaled(less(codes(qs, 2, 2) | codes(qh, 1) << 2, 4), scaled(less(both, 32), d))


def runs_of_32(scales: Tensor, d: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    """The scale and the minimum of 8 runs, of 6 bits each in 12 bytes."""
    low, middle, high = (scales[:, start : start + 4] for start in (0, 4, 8))
    first = (low & 63).cat(high & 15 | low >> 6 << 4, dim=1)
    second = (middle & 63).cat(high >> 4 | middle >> 6 << 4, dim=1)
    return scaled(first, d), -scaled(second, m)


def iq4_xs(d: Tensor, high: Tensor, low: Tensor, qs: Tensor) -> Tensor:
    scales = less(codes(low, 4, 4) | codes(high, 2, 2) << 4, 32)
    return scaled(listed(codes(qs, 4, 8), UNEVEN), scaled(scales, d))


# --- numbers -1, 0, 1 -----------------------------------------------------------------------------
def tq1_0(qs: Tensor, qh: Tensor, d: Tensor) -> Tensor:
    parts = [trits(qs[:, :32], 5), trits(qs[:, 32:], 5), trits(qh, 4)]
    return scaled(less(parts[0].cat(*parts[1:], dim=1), 1), d)


def trits(data: Tensor, count: int) -> Tensor:
    """Digits to base 3 of bytes that are fractions of 256: multiplied by 3, they carry a digit."""
    powers = Tensor([[3**n] for n in range(count)], dtype=dtypes.uint8, device=data.device)
    rest = (data.unsqueeze(1) * powers).cast(dtypes.uint16)
    return (rest * 3 >> 8).reshape(data.shape[0], -1)


UNEVEN: Final = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
HALVES: Final = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)  # halves of FP4's


def _block(size: int, fields: str, numbers: Callable[..., Tensor]) -> Block:
    """`fields`: names, d and m of a half, others with how many bytes, signed ones behind an i."""
    made = list[tuple[Any, ...]]()
    for word in fields.split():
        name, _, count = word.partition(":")
        kind = "<f2" if not count else "i1" if count[0] == "i" else "u1"
        made.append((name, kind, (int(count.lstrip("i") or 1),)))
    return Block(size, made, numbers)


# By the number that the format has for them.
BLOCKS: Final = {
    2: _block(32, "d qs:16", lambda d, qs: scaled(less(codes(qs, 4), 8), d)),  # Q4_0
    3: _block(32, "d m qs:16", lambda d, m, qs: scaled(codes(qs, 4), d, m)),  # Q4_1
    6: _block(32, "d qh:4 qs:16",  # Q5_0
              lambda d, qh, qs: scaled(less(codes(qs, 4) | codes(qh, 1, 4) << 4, 16), d)),
    7: _block(32, "d m qh:4 qs:16",  # Q5_1
              lambda d, m, qh, qs: scaled(codes(qs, 4) | codes(qh, 1, 4) << 4, d, m)),
    8: _block(32, "d qs:i32", lambda d, qs: scaled(qs, d)),  # Q8_0
    10: _block(256, "scales:16 qs:64 d m",  # Q2_K
               lambda scales, qs, d, m: scaled(
                   codes(qs, 2, 2), scaled(scales & 15, d), -scaled(scales >> 4, m))),
    11: _block(256, "qh:32 qs:64 scales:12 d", q3_k),
    12: _block(256, "d m scales:12 qs:128",  # Q4_K
               lambda d, m, scales, qs: scaled(codes(qs, 4, 4), *runs_of_32(scales, d, m))),
    13: _block(256, "d m scales:12 qh:32 qs:128",  # Q5_K
               lambda d, m, scales, qh, qs: scaled(
                   codes(qs, 4, 4) | codes(qh, 1) << 4, *runs_of_32(scales, d, m))),
    14: _block(256, "qs:128 qh:64 scales:i16 d",  # Q6_K
               lambda qs, qh, scales, d: scaled(
                   less(codes(qs, 4, 2) | codes(qh, 2, 2) << 4, 32), scaled(scales, d))),
    20: _block(32, "d qs:16", lambda d, qs: scaled(listed(codes(qs, 4), UNEVEN), d)),  # IQ4_NL
    23: _block(256, "d high:2 low:4 qs:128", iq4_xs),
    34: _block(256, "qs:48 qh:4 d", tq1_0),
    35: _block(256, "qs:64 d", lambda qs, d: scaled(less(codes(qs, 2, 2), 1), d)),  # TQ2_0
    39: _block(32, "e:1 qs:16", mxfp4),
}  # fmt: skip
