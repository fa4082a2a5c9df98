"""Sums over a row that is met tile by tile, whose terms need the maximum of the whole row.

    S = sum of exp(x[j] - max x) * v[j]

With m the maximum of what has been met and m' the one of a tile more, each term grows by one factor
that does not depend on j, as exp(x - m') = exp(x - m) * exp(m - m'). So does their sum:

    S' = S * exp(m - m') + sum over the tile of exp(x[j] - m') * v[j]

That is the online softmax (M. Milakov and N. Gimelshein, "Online normalizer calculation for
softmax", 2018, arXiv:1805.02867) for whatever is linear in such exponentials: `degree` derives it
from the terms themselves. It rounds differently from the sum of a whole row (a licence, off under
STRICT_FLOAT). A maximum of -inf counts as 0 until there is another one: its terms are 0, not NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container

from torpor.ir.ops import Ops
from torpor.ir.uop import UOp

IsPower = Callable[[UOp], bool]


def degree(value: UOp, is_power: IsPower, moving: Container[UOp] = ()) -> int | None:
    """How often a factor counts in a value that counts once in each power: value(f) = f**n *
    value(1) with n = 0 or 1, else None. What is `moving` changes with f in some other way.
    """
    found: dict[UOp, int | None] = {}
    for node in value.toposort():
        if is_power(node):
            found[node] = 1
        elif node in moving:
            found[node] = None
        else:
            found[node] = degree_of(node, [found[s] for s in node.src])
    return found[value]


def degree_of(node: UOp, operands: list[int | None]) -> int | None:
    """The degree of one operation, given those of its operands."""
    if not any(operands) and None not in operands:
        return 0
    if node.op is Ops.MUL or (node.op is Ops.FDIV and operands[1] == 0):
        return 1 if sorted(operands, key=str) == [0, 1] else None
    terms = node.src[:1] if node.op is Ops.REDUCE else node.src
    if node.op is Ops.WHERE and operands[0] == 0:
        terms, operands = node.src[1:], operands[1:]
    elif node.op not in (Ops.ADD, Ops.SUB) and not (node.op is Ops.REDUCE and node.arg is Ops.ADD):
        return None
    same = (one == 1 or is_zero(term) for term, one in zip(terms, operands, strict=False))
    return 1 if all(same) else None


def is_zero(node: UOp) -> bool:
    """0 is of any degree."""
    return node.op is Ops.CONST and node.arg == 0


def power_of(top: UOp, columns: Container[UOp]) -> IsPower:
    """What tells exp(x - top), where `top` is the maximum of the same x along a row, as it is or as
    it is `known`.
    """
    column, tops = top.src[1], (top, known(top))

    def is_power(node: UOp) -> bool:
        if node.op is not Ops.EXP or node.src[0].op is not Ops.SUB:
            return False
        x, subtracted = node.src[0].src
        if subtracted not in tops:
            return False
        own = [n for n in x.ranges() if n in columns]
        return len(own) == 1 and x.substitute({own[0]: column}) is top.src[0]

    return is_power


def known(top: UOp) -> UOp:
    """A maximum that others are subtracted from: 0 where nothing but -inf has been met."""
    return top.eq(-math.inf).where(top.const_like(0.0), top)


def factor(before: UOp, top: UOp) -> UOp:
    """By what exponentials relative to `before` grow, relative to the maximum that is `known`."""
    return (before - top).alu(Ops.EXP)
