"""DOT: sums of products of small formats several terms at a time, as one instruction takes them.

before  sum(k, a[k] * b[k])
after   sum(i, dot(x[i], y[i])), where the parts of the words x[i] and y[i] are a[s*i] to
        a[s*i + s-1] and those of b

Words are of 32 bits: of two parts or four. Those that lie in memory as they are
needed are read as words; others are put together, best where they are packed (STAGE).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Final, NamedTuple

from torpor.base import settings
from torpor.base.dtypes import DType, dtypes
from torpor.base.target import WORD, Target
from torpor.ir.ops import Ops
from torpor.ir.records import ParamArg
from torpor.ir.uop import UOp
from torpor.kernel.ranges import closed_by, size_of
from torpor.rules.affine import affine
from torpor.rules.linear import build

INTEGERS: Final = (dtypes.int8, dtypes.uint8, dtypes.int16)  # formats that a signed half holds


class Products(NamedTuple):
    """A sum of products, and the two factors, each of a small format."""

    total: UOp
    factors: tuple[UOp, UOp]

    @property
    def is_integer(self) -> bool:
        """Whether the products are of integers, so that every sum is exact."""
        return self.factors[0].dtype.is_int

    @property
    def names(self) -> tuple[str, str]:
        """The formats of the factors."""
        return self.factors[0].dtype.name, self.factors[1].dtype.name


def find_products(root: UOp) -> Products | None:
    """The only reduction of a kernel, if it is sum(a*b) over small integers, in int32; or over
    bfloat16, taken in float32. That is a licence (off under STRICT_FLOAT): instructions take
    denormal numbers for 0.
    """
    sums = [n for n in root.toposort() if n.op is Ops.REDUCE]
    if len(sums) != 1 or sums[0].arg is not Ops.ADD or sums[0].src[0].op is not Ops.MUL:
        return None
    (total,) = sums
    first, second = (f.src[0] if f.op is Ops.CAST else f for f in total.src[0].src)
    if first.dtype is second.dtype is dtypes.bfloat16 and total.dtype is dtypes.float32:
        licence = not settings.number("STRICT_FLOAT")
        return Products(total, (first, second)) if licence else None
    small = first.dtype in INTEGERS and second.dtype in INTEGERS
    return Products(total, (first, second)) if small and total.dtype is dtypes.int32 else None


def parts_of(target: Target, found: Products, terms: int) -> tuple[DType, DType] | None:
    """In which formats an instruction of the target takes so many terms at a time, or one that
    multiplies matrices does; None where there is none. Integers of 8 bits may be halves of 16.
    """
    left, right = (factor.dtype for factor in found.factors)
    if found.is_integer and terms * dtypes.int16.itemsize == WORD:
        left = right = dtypes.int16
    first, second = sorted((left.name, right.name))
    fits = left.itemsize * terms == right.itemsize * terms == WORD
    known = (first, second) in target.dots or target.fragment((first, second)) is not None
    return (left, right) if fits and known else None


def suits(found: Products, one: UOp, terms: int) -> bool:
    """Whether an axis has whole words of so many terms; and nothing but these, if there are other
    axes of the sum, or if the rest would round otherwise.
    """
    size = size_of(one) or 0
    alone = len(closed_by(found.total)) == 1
    return size >= terms and (size % terms == 0 or alone)


def sum_in_words(
    root: UOp, found: Products, one: UOp, formats: tuple[DType, DType], rows: bool = True
) -> UOp:
    """The kernel with the sum of the DOTs of words along an axis instead of `one`, and with the
    terms added one by one that fill no word. `rows`: memory may be read as words.
    """
    terms = WORD // formats[0].itemsize
    size = size_of(one) or 0
    words = UOp.range(size // terms, *one.arg)
    factors = sorted(zip(found.factors, formats, strict=True), key=lambda f: f[1] is dtypes.int8)
    taken = [
        word(factor if factor.dtype is form else factor.cast(form), one, words, terms, rows)
        for factor, form in factors
    ]
    dtype = dtypes.int32 if found.is_integer else dtypes.float32
    dot = UOp(Ops.DOT, dtype, tuple(taken), tuple(form.name for _, form in factors))
    ranges = tuple(words if r is one else r for r in closed_by(found.total))
    total = UOp(Ops.REDUCE, dtype, (dot, *ranges), Ops.ADD)
    a, b = (factor.cast(dtype) for factor in found.factors)
    for place in range(size - size % terms, size):
        total = total + (a * b).substitute({one: UOp.index_const(place)})
    made = root.substitute({found.total: total}).simplify()
    slots = [node.arg.slot for node in made.toposort() if node.op is Ops.PARAM]
    if len(slots) > len(set(slots)):  # some of that memory is read in its own format as well
        return sum_in_words(root, found, one, formats, rows=False)
    return made


def word(value: UOp, one: UOp, words: UOp, terms: int, rows: bool) -> UOp:
    """value[terms*words] to value[terms*words + terms-1] in an int32, the first lowest."""
    if value.op is Ops.BITCAST and value.dtype.itemsize == value.src[0].dtype.itemsize:
        return word(value.src[0], one, words, terms, rows)
    if value.op is Ops.XOR and value.src[1].op is Ops.CONST:  # the highest bit turned
        every = sum(int(value.src[1].arg) << n * value.dtype.bits for n in range(terms))
        turned = every - (1 << 32 if every >> 31 else 0)
        return word(value.src[0], one, words, terms, rows) ^ UOp.const(dtypes.int32, turned)
    parts = [value.substitute({one: words * terms + n}).simplify() for n in range(terms)]
    found = in_place(value, parts, one, terms) if rows else None
    return reduce(or_, map(shifted, parts, range(terms))) if found is None else found


def shifted(part: UOp, number: int) -> UOp:
    """A part of a word at its place in it."""
    bits = part.dtype.bits
    unsigned = {1: dtypes.uint8, 2: dtypes.uint16}[part.dtype.itemsize]
    wide = part.bitcast(unsigned).cast(dtypes.int32)
    return wide << UOp.const(dtypes.int32, number * bits) if number else wide


def conditions(parts: Sequence[UOp]) -> list[tuple[UOp, ...]]:
    """When each part of a word is there."""
    return [part.src[0].src[2:] if part.op is Ops.LOAD else () for part in parts]


def in_place(value: UOp, parts: Sequence[UOp], one: UOp, terms: int) -> UOp | None:
    """load(memory, terms*i + n) for all n = load(memory of words, i); None where the parts of a
    word do not lie in a row, words not one behind the other, or not all parts are there where one
    is.
    """
    if value.op is not Ops.LOAD or len(value.src) > 1 or len(set(conditions(parts))) > 1:
        return None
    memory, position = value.src[0].src[:2]
    first = parts[0]
    if memory.op is not Ops.PARAM or (memory.arg.size or 1) % terms:
        return None
    if affine(position).terms.get(one) != 1:
        return None
    place = affine(first.src[0].src[1])
    if place.constant % terms or any(scale % terms for scale in place.terms.values()):
        return None
    terms_of = {term: scale // terms for term, scale in place.terms.items()}
    whole = UOp(Ops.PARAM, dtypes.int32, (), ParamArg(memory.arg.slot, memory.arg.size // terms))
    at = build(terms_of, place.constant // terms)
    there = UOp(Ops.INDEX, dtypes.int32, (whole, at, *conditions(parts)[0]))
    return UOp(Ops.LOAD, dtypes.int32, (there,))
