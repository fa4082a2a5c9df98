"""Stable sorting by radix passes, each made of a histogram, a scan and a scatter.

Elements become unsigned integers of the same order. A word holds such a key above the element's
number; each pass moves the words by some bits of their keys, from the lowest on (Knuth, The Art of
Computer Programming 3, section 5.2.5). Where a word goes is a running count: what stood in its
bin's counter before it. Long rows are cut into parts that are counted side by side; where they are
cut depends on the shape alone. Short rows are ranked by comparing all pairs. What has a rank is
found without sorting, by halves.
"""

from __future__ import annotations

from typing import Any, Final

from torpor.base.dtypes import DType, dtypes, from_name
from torpor.graph import build
from torpor.ir.ops import Ops
from torpor.tensor.handle import derive, make
from torpor.tensor.iota import iota
from torpor.tensor.looping import scan
from torpor.tensor.operands import choose

PAIRS: Final = 128  # length up to which all pairs are compared
LONG: Final = 1 << 15  # length from which rows are cut into parts
PARTS: Final = 8
WIDE: Final = 11  # bits of a pass over a row of some length: its counters fit the first cache
NARROW: Final = 8  # bits of a pass over a short row, whose counters are cleared every time
MIDDLE: Final = 1 << 12  # length from which wide passes pay
WORD: Final = 32  # bits of a key, and of a number, in a word


def keys_of(x: Any) -> Any:
    """Unsigned integers of the same size and order: NaN is greatest, -0.0 equals 0.0."""
    dtype: DType = x.dtype
    if dtype.kind == "bool":
        return x.cast(dtypes.uint8)
    if dtype.kind == "uint":
        return x
    unsigned = from_name(f"uint{dtype.bits}")
    sign = 1 << (dtype.bits - 1)
    if dtype.kind == "int":
        return x.bitcast(unsigned) ^ sign
    bits = x.eq(0).where(0, x).bitcast(unsigned)
    ordered = choose(bits >= sign, ~bits, bits ^ sign)
    return x.isnan().where(2 * sign - 1, ordered)


def values_of(keys: Any, dtype: DType) -> Any:
    """The elements that have these keys: 0.0 for -0.0 too, and one NaN for all."""
    if dtype.kind == "bool":
        return keys.cast(dtype)
    sign = 1 << (dtype.bits - 1)
    if dtype.kind == "int":
        return (keys ^ sign).bitcast(dtype)
    if not dtype.is_float:
        return keys
    return choose(keys >= sign, keys ^ sign, ~keys).bitcast(dtype)


def signed(keys: Any) -> Any:
    """Signed numbers of 32 or 64 bits in the order of the keys: what vectors compare best."""
    bits = WORD if keys.dtype.bits <= WORD else 2 * WORD
    wide = keys.cast(from_name(f"uint{bits}")) ^ (1 << (bits - 1))
    return wide.bitcast(from_name(f"int{bits}"))


def of_ranks(keys: Any, ranks: Any) -> Any:
    """For each row of keys (rows, length) those that have some ranks (rows, count): a bit at a
    time, from the highest on, by how many keys of the row are less than what it would make.
    """
    given: Any = signed(keys).contiguous().unsqueeze(1)
    bits = make(iota(keys.dtype.bits, keys.device), keys.device)
    ones = make(build.constant(1, keys.dtype, bits.shape), keys.device)

    def halve(found: Any, bit: Any) -> tuple[Any, None]:
        more = found | bit
        before = (given < signed(more).unsqueeze(2)).sum(2, dtype=dtypes.int64)
        return choose(before <= ranks, more, found), None

    nothing = make(build.constant(0, keys.dtype, ranks.shape), keys.device)
    return scan(halve, nothing, ones << bits.flip(0).cast(keys.dtype))[0]


def ranks(keys: Any) -> Any:
    """How many elements of its row (the last axis of two) each stands behind, int64."""
    keys = signed(keys).contiguous()
    order = make(iota(keys.shape[1], keys.device, dtypes.int32), keys.device)
    here, other = keys.unsqueeze(2), keys.unsqueeze(1)
    tie = other.eq(here) & (order.unsqueeze(0) < order.unsqueeze(1))
    return ((other < here) | tie).sum(2, dtype=dtypes.int32).contiguous().cast(dtypes.int64)


def sorted_keys(keys: Any, bits: int) -> Any:
    """The elements of each row of unsigned integers below 2**bits in ascending order."""
    if keys.shape[1] <= PAIRS:
        return placed(keys, ranks(keys))
    word = dtypes.uint32 if bits <= WORD else dtypes.uint64
    return _by_digits(keys.cast(word), 0, bits).cast(keys.dtype)


def sorted_numbers(keys: Any, bits: int = 0) -> Any:
    """For each row of unsigned integers, shape (rows, length), the numbers of its elements in
    ascending order, equal ones in theirs: int64 of the same shape. With `bits` the keys are below
    2**bits.
    """
    rows, length = keys.shape
    number = make(iota(length, keys.device), keys.device).expand(rows, length)
    if length <= PAIRS:
        return placed(number, ranks(keys))
    bits = bits or keys.dtype.bits
    if bits <= WORD:
        return _by_word(keys.cast(dtypes.uint64), number, bits)
    low = _by_word(keys & ((1 << WORD) - 1), number, WORD)
    high = derive(build.gather, (keys, low), 1) >> WORD
    return _by_word(high, low, bits - WORD)


def _by_word(keys: Any, numbers: Any, bits: int) -> Any:
    """`numbers` in the order of keys that have up to 32 `bits`."""
    words = _by_digits((keys << WORD) | numbers.cast(dtypes.uint64), WORD, bits)
    return (words & ((1 << WORD) - 1)).cast(dtypes.int64)


def _by_digits(words: Any, low: int, bits: int) -> Any:
    """Rows of words in the order of `bits` of them from `low` on, equal ones as they are."""
    shape, length = words.shape, words.shape[1]
    parts = PARTS if length >= LONG else 1
    extra = -length % parts
    if extra:
        words = words.pad([None, (0, extra)], value=words.dtype.max)  # these stay behind all others
    passes = -(-bits // (WIDE if length >= MIDDLE else NARROW))
    width = -(-bits // passes)
    for start in range(0, bits, width):
        words = _pass(words, low + start, min(width, bits - start), parts)
    return words.shrink([(0, size) for size in shape])


def _pass(words: Any, start: int, bits: int, parts: int) -> Any:
    """Rows of words in the order of `bits` of them from `start` on, equal ones as they are."""
    rows, length = words.shape
    digit = ((words >> start) & ((1 << bits) - 1)).cast(dtypes.int64)
    digit = digit.reshape(rows, parts, length // parts)
    ones = make(build.constant(1, dtypes.int32, digit.shape), words.device)
    empty = make(build.constant(0, dtypes.int32, (rows, parts, 1 << bits)), words.device)
    counts = derive(build.scatter, (empty, digit, ones), 2, Ops.ADD)
    ordered = counts.permute(0, 2, 1).reshape(rows, parts << bits)
    before = ordered.cumsum(1, dtype=dtypes.int32) - ordered
    first = before.reshape(rows, 1 << bits, parts).permute(0, 2, 1)
    # Where each element goes: its digit's counter, which starts at `first`.
    counted = first, digit, ones
    places = derive(lambda x, y, z: build.prior(build.scatter(x, y, z, 2, Ops.ADD)), counted)
    return placed(words, places.reshape(rows, length).cast(dtypes.int64))


def placed(values: Any, places: Any) -> Any:
    """Each row's values at these places, all different."""
    nothing = make(build.constant(0, values.dtype, values.shape), values.device)
    return derive(build.scatter, (nothing, places, values), 1, Ops.STORE, True)
