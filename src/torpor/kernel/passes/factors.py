"""Sums of products with codes of a few bits: what many codes are multiplied by, multiplied once.

before  x0*(c0*s + m) + x1*(c1*s + m) + ...
after   (x0*c0 + x1*c1 + ...)*s + (x0 + x1 + ...)*m

A licence (off under STRICT_FLOAT): there are fewer roundings, in another order. Floats hold codes
of 8 bits exactly, and a sum overflows early only where some `x` is within a factor of 256 of that.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from operator import add
from typing import Final, NamedTuple

from torpor.base import settings
from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

CODE_BITS: Final = 8


class Term(NamedTuple):
    """x * (code * scale + shift); None: no shift."""

    x: UOp
    code: UOp
    scale: UOp
    shift: UOp | None


def factored(copies: Sequence[UOp]) -> list[UOp]:
    """Values that have the same sum, scales and shifts multiplied with sums of what shares them."""
    if settings.number("STRICT_FLOAT"):
        return list(copies)
    terms = [term_of(copy) for copy in copies]
    uses = Counter(term[2:] for term in terms if term)
    alone = [n for n, term in zip(copies, terms, strict=True) if not term or uses[term[2:]] == 1]
    shared = [factors for factors, count in uses.items() if count > 1]
    groups = [[t for t in terms if t and t[2:] == factors] for factors in shared]
    return alone + [value for group in groups for value in gathered(group)]


def gathered(terms: Sequence[Term]) -> list[UOp]:
    """The values that add up to terms with one scale and one shift."""
    scale, shift = terms[0][2:]
    scaled = functools.reduce(add, [t.x * t.code for t in terms]) * scale
    if shift is None:
        return [scaled]
    return [scaled, functools.reduce(add, [t.x for t in terms]) * shift]


def term_of(value: UOp) -> Term | None:
    """A product as a term; None if it is none."""
    if value.op is not Ops.MUL:
        return None
    for x, number in (value.src, value.src[::-1]):
        shift = None
        if number.op is Ops.ADD:
            number, shift = number.src
        for code, scale in (number.src, number.src[::-1]) if number.op is Ops.MUL else ():
            if is_code(code):
                return Term(x, code, scale, shift)
    return None


def is_code(value: UOp) -> bool:
    """Whether a float is an integer of a few bits."""
    of = value.src[0].dtype if value.op is Ops.CAST else value.dtype
    return of.is_int and value.dtype.is_float and of.bits <= CODE_BITS
